"""How far class probabilities are believed: tempered, as held-out labels bear them out.

A mixture of p(x | c) is wrong in detail, and in d dimensions its log-odds add up d times over: a
near-certainty, whatever the class. So that labels have a say, the class of a row follows

    P(c | x; β, ε) = (1 − ε) p(x, c)^β s_c^(1−β) / Σ_b p(x, b)^β s_b^(1−β) + ε s_c

with s the labels' own shares, a power β in [0, 1] (one: the mixture's word; zero: the shares) and a
noise ε. Labels that a fit has not seen have the likelihood Π_i P(y_i | x_i; β, ε), and β and ε are
averaged out over a grid, by that and their prior. ε is linear in P, so that what prediction needs
is one weight per power, and one of the shares.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from atoll.models.foretold import Foretold

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# The prior's grid, with weights before normalisation: mostly the mixture as it is.
POWERS = np.array([1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0])
POWER_WEIGHTS = np.array([8.0, 2.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
NOISES = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4])
NOISE_WEIGHTS = np.array([20.0, 1.0, 1.0, 1.0, 1.0, 1.0])


class Tempering(NamedTuple):
    """What β and ε are, given held-out labels.

    log_shares : (C,) log s
    powers : (G,) β, above zero
    log_weights : (G,) of the powers: log Σ_ε p(β, ε | labels) (1 − ε)
    log_share_weight : of the shares: log of what is left of one
    power, noise : posterior means of β and ε
    n_held_out : labels that were held out
    foretold : these, with their class probabilities; None: not kept
    """

    log_shares: Array
    powers: Array
    log_weights: Array
    log_share_weight: float
    power: float
    noise: float
    n_held_out: int
    foretold: Foretold | None = None

    def log_proba(self, log_joint: Array) -> Array:
        """Return log P(c | x), β and ε averaged out; log p(x, c) (..., C) -> (..., C)."""
        out = np.broadcast_to(self.log_share_weight + self.log_shares, log_joint.shape).copy()
        for power, log_weight in zip(self.powers.tolist(), self.log_weights.tolist()):
            tempered = _log_tempered(log_joint, self.log_shares, power)
            np.logaddexp(out, log_weight + tempered, out=out)
        return out


def weigh(log_joint: Array, codes: Codes, counts: NDArray[Any]) -> Tempering:
    """Return what held-out labels say of β and ε.

    Parameters
    ----------
    log_joint : (h, C) log p(x, c) of h rows, from fits that did not see their labels
    codes : (h,) their labels
    counts : (C,) labels of each class, of which the shares are (n + 1) / Σ (n + 1)

    Examples
    --------
    >>> right = weigh(np.array([[0.0, -50.0], [-50.0, 0.0]] * 20), np.tile([0, 1], 20), np.ones(2))
    >>> wrong = weigh(np.array([[0.0, -50.0], [-50.0, 0.0]] * 20), np.tile([1, 0], 20), np.ones(2))
    >>> right.log_proba(np.array([0.0, -50.0])).round(2), wrong.power < 0.01
    (array([-0.  , -6.61]), True)
    """
    log_shares = np.log((counts + 1.0) / (counts + 1.0).sum())
    with np.errstate(divide="ignore"):
        log_noises, log_rest = np.log(NOISES), np.log1p(-NOISES)
    weights = np.log(np.outer(POWER_WEIGHTS, NOISE_WEIGHTS))
    places = np.arange(len(codes)), codes
    of_shares = log_shares[codes]
    for weight, power in zip(weights, POWERS.tolist()):
        found = _log_tempered(log_joint, log_shares, power)[places]
        each = np.logaddexp(log_rest[:, None] + found, log_noises[:, None] + of_shares)
        weight += each.sum(axis=1)
    weights -= logsumexp(weights)
    p, some = np.exp(weights), POWERS > 0
    tempering = Tempering(
        log_shares,
        POWERS[some],
        logsumexp(weights + log_rest, axis=1)[some],
        float(np.log((p[some] @ NOISES).sum() + p[~some].sum())),
        float(p.sum(axis=1) @ POWERS),
        float(p.sum(axis=0) @ NOISES),
        len(codes),
    )
    told = np.exp(tempering.log_proba(log_joint))
    return tempering._replace(foretold=Foretold(told, codes, np.ones(len(codes))))


def _log_tempered(log_joint: Array, log_shares: Array, power: float) -> Array:
    """Return P(c | x; β, 0); log p(x, c) (..., C) -> (..., C)."""
    if power == 0:  # of a class of no density, too
        return np.broadcast_to(log_shares, log_joint.shape)
    # The largest first: far from all data one unit in the last place is many nats.
    relative = log_joint - log_joint.max(axis=-1, keepdims=True)
    return log_softmax(power * relative + (1.0 - power) * log_shares, axis=-1)
