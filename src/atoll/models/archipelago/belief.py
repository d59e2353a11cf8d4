"""How far the islands' word on classes holds: by labels that were not shown to them.

Islands are as sure of themselves where classes are none: where these share an island, or have many
each. So with probability b a row has the class that the islands give it, and else one by the
classes' shares π,

    P(y = k | x) = b p_k(x) + (1 − b) π_k.

b is one of a few numbers, and one beforehand with a probability near one. Labels held out weigh
them, and what is left is the mean: P depends on nothing else. Where no label can be held out,
because no class has two, b is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

BELIEFS = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0])
ALL_BELIEVED = 0.8  # prior probability of the last; the others share the rest
CHAINS_BELIEVED = 0.95  # the same of chains, which are less sure by themselves


class HeldOut(NamedTuple):
    """What labels held out say.

    belief : b, its posterior mean
    shares : (K,) π, of `class_shares`
    n_labels : held out
    error : share of them that the islands' most probable class is not
    log_loss : of the islands' class probabilities at them, at most that of 1e-12
    log_loss_of_shares : the same, of π
    """

    belief: float
    shares: Array
    n_labels: int
    error: float
    log_loss: float
    log_loss_of_shares: float

    @property
    def doubt(self) -> Array:
        """(1 − b) π, (K,)."""
        return (1.0 - self.belief) * self.shares


def class_shares(counts: NDArray[Any]) -> Array:
    """Return π, the shares of the labels with one more of each class; (K,) -> (K,)."""
    more = counts + 1.0
    return more / more.sum()


def weigh(
    log_proba: Array, codes: Codes, shares: Array, all_believed: float = ALL_BELIEVED
) -> HeldOut:
    """Return what held-out labels say of class probabilities that were not shown them.

    Parameters
    ----------
    log_proba : (t, K) by the islands
    codes : (t,)
    shares : (K,) π
    all_believed : prior probability of b = 1

    Examples
    --------
    Twenty labels of which the islands have half wrong, and are sure of it:

    >>> sure = np.log(np.tile([0.999, 0.001], (20, 1)))
    >>> found = weigh(sure, np.arange(20) % 2, np.array([0.5, 0.5]))
    >>> found.belief < 0.2, weigh(sure, np.zeros(20, dtype=int), found.shares).belief > 0.95
    (True, True)
    """
    of_islands = np.exp(np.maximum(log_proba[np.arange(len(codes)), codes], np.log(1e-12)))
    of_shares = shares[codes]
    prior = np.full(len(BELIEFS), (1.0 - all_believed) / (len(BELIEFS) - 1))
    prior[-1] = all_believed
    mixed = BELIEFS[:, None] * of_islands + (1.0 - BELIEFS)[:, None] * of_shares
    joint = np.log(mixed).sum(axis=1) + np.log(prior)
    weights = np.exp(joint - np.logaddexp.reduce(joint))
    return HeldOut(
        float(weights @ BELIEFS),
        shares,
        len(codes),
        float(np.mean(log_proba.argmax(axis=1) != codes)),
        float(-np.log(of_islands).mean()),
        float(-np.log(of_shares).mean()),
    )


def doubted(proba: Array, doubt: Array | float) -> Array:
    """Return class probabilities of the islands, (..., K), with the doubt in their word.

    Examples
    --------
    >>> doubted(np.array([1.0, 0.0]), np.array([0.01, 0.02])).round(2)
    array([0.98, 0.02])
    """
    return (1.0 - np.sum(doubt)) * proba + doubt
