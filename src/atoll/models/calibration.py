"""Class probabilities for a machine that only decides, by labels that it was not shown.

prior: how much a decision says is unknown: nothing, or a logit of slope a. likelihood: that of
labels whose decisions came from machines trained without them. inference: exact, over a grid of a.

    P(y = k | x, a, c) ∝ exp(a s_k(x) / scale + c log π_k)

s are decisions, centred over the classes; π the classes' shares among the labels; scale the root
mean square of the winner's lead over the mean of the others (of two classes: of the decision). At
a = 0 and c = 1 the machine is of no account and the shares are all there is. A grid of (a, c) has a
prior, half of it on that point; the held-out labels give each its posterior weight, and P is the
average. With few labels the prior is left, which is humble.

Where a machine's settings were chosen by the same held-out labels, the choice flatters. So the
weights are those of all settings tried, averaged under their prior: one lucky setting among a
hundred bears out the machine a hundred times less than one setting alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from atoll.models import class_shares
from atoll.models.posterior import chosen_states

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
# (rows to train on, rows to decide on), indices into the labelled ones -> decisions (t,) or (t, K)
HeldOutDecisions = Callable[[Codes, Codes], Array]

N_FOLDS = 5
WANTED_HELD_OUT, MOST_PARTITIONS = 40, 4
MOST_MEASURED = 500  # labels: more say little more, and machines train in cubic time
MOST_DECISION = 1e150
NEVER = -1  # the fold of a label that is never held out

# Slopes and powers of the shares with their prior weights, beside the point without a machine.
_NULL = 0.2
_SLOPES = {0.25: 1.0, 0.5: 1.0, 1.0: 1.0, 2.0: 1.0, 4.0: 1.0, 8.0: 0.5, 16.0: 0.25}
_POWERS = {0.0: 0.5, 0.5: 0.25, 1.0: 0.25}
_STATES = [(a, c, p * q) for a, p in _SLOPES.items() for c, q in _POWERS.items()]
SLOPES = np.array([0.0, *[a for a, _, _ in _STATES]])
POWERS = np.array([1.0, *[c for _, c, _ in _STATES]])
_WEIGHTS = np.array([p for _, _, p in _STATES])
LOG_PRIOR = np.log([_NULL, *((1.0 - _NULL) * _WEIGHTS / _WEIGHTS.sum())])


class Calibration(NamedTuple):
    """The posterior of what decisions say.

    log_weights : (S,) of the points of the grid (a, c)
    scale : of the decisions
    log_shares : (K,) log π
    """

    log_weights: Array
    scale: float
    log_shares: Array

    @property
    def belief(self) -> float:
        """The probability that decisions are of some account."""
        return float(1.0 - np.exp(self.log_weights[0]))

    def log_proba(self, decisions: Array) -> Array:
        """Return log class probabilities, averaged over the grid; (m,) or (m, K) -> (m, K)."""
        scores = class_scores(decisions)
        total = np.full(scores.shape, -np.inf)
        for state in range(len(SLOPES)):
            one = self.log_proba_at(state, scores) + self.log_weights[state]
            total = np.logaddexp(total, one)
        return log_softmax(total, axis=1)  # sums to one already, but for rounding

    def log_proba_at(self, state: int, scores: Array) -> Array:
        """Return log class probabilities at one point of the grid; scores (..., K)."""
        return log_probabilities(scores, self.scale, self.log_shares, state)


class CalibratedMachine(NamedTuple):
    """A machine, and what its decisions say of the classes.

    machine : has `decide(X)`
    calibration : of its decisions
    """

    machine: Any
    calibration: Calibration

    def decide(self, X: Array) -> Array:
        """Return how far rows are on the side of the second class (m,), or of each (m, K)."""
        return self.machine.decide(X)

    def log_proba(self, X: Array) -> Array:
        """Return log P(y = k | x, data), averaged over slopes; X (m, d) -> (m, K)."""
        return self.calibration.log_proba(self.decide(X))

    def draws(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities, over slopes; X (m, d) -> (n, m, K).

        The machine is the same in all of them: what they do not know is what its decisions say.
        """
        scores = class_scores(self.decide(X))
        states = chosen_states(rng, n, np.exp(self.calibration.log_weights))
        found = {s: np.exp(self.calibration.log_proba_at(s, scores)) for s in set(states.tolist())}
        return np.stack([found[s] for s in states.tolist()])


def class_scores(decisions: Array) -> Array:
    """Return one score per class, which sum to zero; decisions (m,) or (m, K) -> (m, K).

    Examples
    --------
    >>> class_scores(np.array([3.0])).tolist()
    [[-1.5, 1.5]]
    """
    # Polynomials of far rows leave the numbers; where they cancel, nothing is decided.
    decisions = np.nan_to_num(decisions, nan=0.0).clip(-MOST_DECISION, MOST_DECISION)
    if decisions.ndim == 1:
        return np.column_stack([-0.5 * decisions, 0.5 * decisions])
    return decisions - decisions.mean(axis=1, keepdims=True)


def log_probabilities(scores: Array, scale: float, log_shares: Array, state: int) -> Array:
    """Return log P(y = k | x, a, c) at one point of the grid; scores (..., K)."""
    logits = SLOPES[state] * (scores / scale) + POWERS[state] * log_shares
    return log_softmax(logits, axis=-1)


# Held-out labels ----------------------------------------------------------------------------------


def partitions(rng: np.random.Generator, codes: Codes) -> Codes:
    """Return the fold of each label in one or several random partitions, (R, l).

    Five folds each; as many partitions as hold out some forty labels in all, four at most.
    """
    n_partitions = min(-(-WANTED_HELD_OUT // len(codes)), MOST_PARTITIONS)
    return np.stack([folds(rng, codes, N_FOLDS) for _ in range(n_partitions)])


def folds(rng: np.random.Generator, codes: Codes, n_folds: int) -> Codes:
    """Return the fold of each label, (l,), each fold with its share of every class.

    Labels that cannot be held out (`can_be_held_out`) are in none.
    """
    n = len(codes)
    fold = np.empty(n, dtype=np.intp)
    # By class, classes and labels in random order: a class's labels go to different folds.
    order = np.lexsort([rng.random(n), rng.permutation(codes.max() + 1)[codes]])
    fold[order] = np.arange(n) % n_folds
    fold[~can_be_held_out(codes)] = NEVER
    return fold


def can_be_held_out(codes: Codes) -> NDArray[np.bool_]:
    """Return which labels can be held out, (l,) -> (l,).

    The only label of a class cannot: its class would be unknown. Nor can any where that leaves
    one class to hold out: whoever always says it would be right.

    Examples
    --------
    >>> can_be_held_out(np.array([0, 0, 1, 1, 2])).tolist()
    [True, True, True, True, False]
    >>> can_be_held_out(np.array([0, 0, 1])).tolist()
    [False, False, False]
    """
    has_another = np.bincount(codes)[codes] > 1
    return has_another & (len(np.unique(codes[has_another])) > 1)


def held_out_scores(decide: HeldOutDecisions, fold: Codes, n_classes: int) -> Array:
    """Return the scores of each label by a machine that was not shown it; fold (R, l) -> (R, l, K).

    Zero where a label is never held out.
    """
    scores = np.zeros((*fold.shape, n_classes))
    for partition, found in zip(fold, scores):
        for one in range(N_FOLDS):
            test = np.flatnonzero(partition == one)
            if len(test):
                found[test] = class_scores(decide(np.flatnonzero(partition != one), test))
    return scores


class Evidence(NamedTuple):
    """What held-out labels say of one setting of a machine.

    log_likelihoods : (S,) of the held-out labels at the points of the grid
    scale : of the decisions
    error : share of the held-out labels that are wrong; NaN where there is none
    n_labels : held out
    """

    log_likelihoods: Array
    scale: float
    error: float
    n_labels: int

    @property
    def log_evidence(self) -> float:
        """Their log-likelihood if decisions are of some account, averaged over slopes."""
        return float(logsumexp(self.log_likelihoods[1:], b=np.exp(LOG_PRIOR[1:]) / (1 - _NULL)))


def weigh(scores: Array, codes: Codes, fold: Codes) -> Evidence:
    """Measure a machine by its held-out labels.

    Parameters
    ----------
    scores : (R, l, K) from `held_out_scores`
    codes : (l,)
    fold : (R, l) from `partitions`
    """
    held = fold != NEVER
    if not held.any():
        return Evidence(np.zeros(len(SLOPES)), 1.0, np.nan, 0)
    n_classes = scores.shape[2]
    shown = scores[held]
    truth = np.broadcast_to(codes, fold.shape)[held]
    lead = shown.max(axis=1) * n_classes / (n_classes - 1)
    scale = float(np.sqrt(np.mean(lead**2))) or 1.0
    shares = np.log(class_shares.given(np.bincount(codes, minlength=n_classes)))
    log_likelihoods = np.array(
        [
            log_probabilities(shown, scale, shares, state)[np.arange(len(truth)), truth].sum()
            for state in range(len(SLOPES))
        ]
    )
    # Partitions hold the same labels out again: each label counts once.
    error = float(np.mean(np.argmax(shown, axis=1) != truth))
    return Evidence(log_likelihoods / len(fold), scale, error, int(held.any(axis=0).sum()))


def choose(tried: Sequence[Evidence], log_prior: Array) -> int:
    """Return which of the settings tried is the most probable; log_prior (T,)."""
    return int(np.argmax([one.log_evidence for one in tried] + log_prior))


def calibrate(tried: Sequence[Evidence], log_prior: Array, best: int, shares: Array) -> Calibration:
    """Return what decisions say, by all settings that were tried.

    Parameters
    ----------
    tried : evidence for each setting
    log_prior : (T,) of the settings, up to a constant
    best : the setting that is used, whose decisions have its scale
    shares : (K,) log π

    Examples
    --------
    Twenty labels, all right by the same lead: the shares alone have lost their weight.

    >>> codes = np.arange(20) % 2
    >>> one = weigh(class_scores(2.0 * codes - 1.0)[None], codes, np.zeros((1, 20), dtype=int))
    >>> found = calibrate([one], np.zeros(1), 0, np.log([0.5, 0.5]))
    >>> bool(np.exp(found.log_weights[0]) < 1e-4)
    True
    """
    prior = log_prior - logsumexp(log_prior)
    likelihoods = np.array([one.log_likelihoods for one in tried])
    joint = logsumexp(likelihoods + prior[:, None], axis=0) + LOG_PRIOR
    return Calibration(joint - logsumexp(joint), tried[best].scale, shares)
