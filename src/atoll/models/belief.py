"""How far a model's word on classes holds: by labels that were not shown to it.

A model is as sure of itself where its assumption fails: islands where classes share one or have
many each, a null category where rows crowd at the boundary. So with probability b a row has the
class that the model gives it, and else one by the classes' shares π,

    P(y = k | x) = b p_k(x) + (1 − b) π_k.

b is one of a few numbers. Beforehand it most likely is one; it may also be zero, as it is where
labels have nothing to do with the rows, or between. Labels held out weigh these numbers, and what
is left is the mean: P depends on nothing else. Where no label can be held out, because no class has
two, they cannot tell, and it is for the model to say what b is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels, label_folds
from atoll.models import class_shares
from atoll.models.calibration import can_be_held_out
from atoll.models.foretold import Foretold

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
# which rows still have a label (n,), rows of those hidden (t,) -> their log class probabilities
Foretell = Callable[[NDArray[np.bool_], Codes], Array]

BELIEFS = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0])
# Probabilities of the beliefs beforehand. Chains are less sure by themselves than an engine or
# variational Bayes with θ at its best, and are right or wrong as a whole. Whoever takes a graph of
# neighbours mostly has classes that follow it.
PRIOR_OF_CHAINS = np.array([0.1] + [0.05 / 6] * 6 + [0.85])
PRIOR_OF_ENGINE = np.array([0.2 / 7] * 7 + [0.8])
PRIOR_OF_VARIATION = np.array([0.2] + [0.2 / 6] * 6 + [0.6])
PRIOR_OF_GRAPH = np.array([0.05] + [0.05 / 6] * 6 + [0.9])


class HeldOut(NamedTuple):
    """What labels held out say.

    belief : b, its posterior mean
    shares : (K,) π, of `class_shares.given`
    n_labels : held out
    error : share of them that the model's most probable class is not
    log_loss : of the model's class probabilities at them, at most that of 1e-12
    log_loss_of_shares : the same, of π
    foretold : the labels, with the model's class probabilities at them; None: not kept
    """

    belief: float
    shares: Array
    n_labels: int
    error: float
    log_loss: float
    log_loss_of_shares: float
    foretold: Foretold | None = None

    @property
    def doubt(self) -> Array:
        """(1 − b) π, (K,)."""
        return (1.0 - self.belief) * self.shares

    @property
    def is_worse(self) -> bool:
        """Whether the labels are less probable by the model than by π."""
        return self.log_loss > self.log_loss_of_shares


def weigh(
    log_proba: Array,
    codes: Codes,
    shares: Array,
    prior: Array,
    counts: Array | None = None,
) -> HeldOut:
    """Return what held-out labels say of class probabilities that were not shown them.

    Parameters
    ----------
    log_proba : (t, K) by the model
    codes : (t,)
    shares : (K,) π
    prior : probabilities of the `BELIEFS` beforehand
    counts : (t,) what each label counts; None: one each

    Examples
    --------
    Twenty labels of which a model has half wrong, and is sure of it:

    >>> sure = np.log(np.tile([0.999, 0.001], (20, 1)))
    >>> shares, prior = np.array([0.5, 0.5]), PRIOR_OF_ENGINE
    >>> weigh(sure, np.arange(20) % 2, shares, prior).belief < 0.2
    True
    >>> weigh(sure, np.zeros(20, dtype=int), shares, prior).belief > 0.95
    True
    """
    of_model = np.exp(np.maximum(log_proba[np.arange(len(codes)), codes], np.log(1e-12)))
    of_shares = shares[codes]
    mixed = BELIEFS[:, None] * of_model + (1.0 - BELIEFS)[:, None] * of_shares
    counts = np.ones(len(codes)) if counts is None else counts
    joint = np.log(mixed) @ counts + np.log(prior)
    weights = np.exp(joint - np.logaddexp.reduce(joint))
    parts = counts / counts.sum()
    return HeldOut(
        float(weights @ BELIEFS),
        shares,
        len(codes),
        float(parts @ (log_proba.argmax(axis=1) != codes)),
        float(-np.log(of_model) @ parts),
        float(-np.log(of_shares) @ parts),
        Foretold(np.exp(log_proba), codes, counts),
    )


def weigh_left_out(
    log_proba: Array, codes: Codes, prior: Array = PRIOR_OF_ENGINE
) -> HeldOut | None:
    """Return what labels say that are left out one by one, of class probabilities without each.

    The only label of a class says nothing; None where no other is left.

    Parameters
    ----------
    log_proba : (l, K) of every label by a model at its best parameters, without that label
    codes : (l,)
    prior : as that of `weigh`
    """
    held = can_be_held_out(codes)
    if not held.any():
        return None
    shares = class_shares.given(np.bincount(codes, minlength=log_proba.shape[1]))
    return weigh(log_proba[held], codes[held], shares, prior)


def weigh_hidden(labels: PartialLabels, n_folds: int, foretell: Foretell) -> HeldOut | None:
    """Return what labels say that are hidden in turns, from fits with θ as all labels have it.

    The only label of a class is not hidden; None where there is nothing to hide.

    Parameters
    ----------
    n_folds : 0 for none
    """
    seen = labels.is_labelled
    codes = np.where(seen, labels.codes, -1)
    folds = label_folds(codes, n_folds, np.random.default_rng(0))
    if not folds:
        return None
    log_proba = []
    for fold in folds:
        left = seen.copy()
        left[fold] = False
        log_proba.append(foretell(left, fold))
    shares = class_shares.given(np.bincount(codes[seen], minlength=len(labels.classes)))
    hidden = codes[np.concatenate(folds)]
    return weigh(np.concatenate(log_proba), hidden, shares, PRIOR_OF_VARIATION)


def without_label(proba: Array, codes: Codes, draw_weights: Array | float = 1.0) -> Array:
    """Return log class probabilities of rows, each without its own label; (l, K).

    Draws of a posterior weighted by one over what they give the label are draws without it: one
    under which the label is improbable counts for many. Weights are not cut off, which would leave
    the label better predicted than it is.

    Parameters
    ----------
    proba : (S, l, K) what draws of all else say of each row
    codes : (l,)
    draw_weights : (S,) of the draws; one number for all alike

    Examples
    --------
    Two draws, of which one says that the label is hardly possible:

    >>> proba = np.array([[[0.9, 0.1]], [[0.1, 0.9]]])
    >>> np.exp(without_label(proba, np.array([0]))).round(2)
    array([[0.18, 0.82]])
    """
    of_labels = proba[:, np.arange(len(codes)), codes].astype(np.float64)
    weights = np.reshape(draw_weights, (-1, 1)) / np.maximum(of_labels, 1e-300)
    weights /= weights.sum(axis=0)
    return np.log(np.maximum(np.einsum("st,stk->tk", weights, proba), 1e-300))


def doubted(proba: Array, doubt: Array | float) -> Array:
    """Return class probabilities of a model, (..., K), with the doubt in its word.

    Examples
    --------
    >>> doubted(np.array([1.0, 0.0]), np.array([0.01, 0.02])).round(2)
    array([0.98, 0.02])
    """
    return (1.0 - np.sum(doubt)) * proba + doubt


def log_doubted(log_proba: Array, doubt: Array | float) -> Array:
    """Return the same of log-probabilities, which nothing but a doubt changes."""
    return np.log(doubted(np.exp(log_proba), doubt)) if np.any(doubt) else log_proba
