"""How many rows are predicted wrongly: audits correct the model's own estimate.

The model gives row i a doubt q_i, the probability of all classes but the one predicted. Doubts are
often all too small or all too large, by a common shift δ on the scale of log-odds,

    logit P(row i is wrong) = logit q_i + δ,      δ ~ N(mean, deviation²),

which audits reveal: rows drawn at random, predicted, and only then labelled. Given δ, rows are
wrong independently of each other, so that their number is nearly normal; δ is integrated on a
grid. In fact clustered rows go wrong together, which this ignores: the prior of δ is wide enough
for the limits to hold nevertheless (`benchmarks/results/active.md`).

Labels of the fit that are held out one at a time are audits of a lesser kind: each has also taught
the model that predicts the others. They count a third each, and their δ has a prior of its own,
wide enough for the limits to hold on both sides (`benchmarks/results/knowledge.md`).

Audits alone, without the model, give a limit too: P(error | k of n wrong) is Beta(k + ½, n − k +
½). It needs many more audits, but trusts nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr
from scipy.stats import beta

from atoll.core.shown import readable

Array = NDArray[np.float64]

JEFFREYS = 0.5
GRID = np.linspace(-1.0, 1.0, 241)  # in units of `WIDEST` deviations around the prior's mean
WIDEST = 6.0


class ShiftPrior(NamedTuple):
    """What is believed of δ before any audit, and the least doubt of a row.

    mean, deviation : of δ
    least_doubt : share of rows whose class is a matter of chance, however sure the model is
    audit_weight : how much an audit counts
    """

    mean: float = 0.5
    deviation: float = 1.25
    least_doubt: float = 0.002
    audit_weight: float = 1.0


SHIFT_PRIOR = ShiftPrior()
HELD_OUT_PRIOR = ShiftPrior(-0.25, 1.5, audit_weight=1 / 3)


class AuditsAlone(NamedTuple):
    """What audits say without the model.

    error : expected share of wrong rows
    upper : limit that it does not exceed, with the confidence asked for
    """

    error: float
    upper: float


@readable
class ErrorEstimate(NamedTuple):
    """How wrong the predictions of the unlabelled rows are.

    error : expected share of them that is wrong
    upper : limit that the share does not exceed, with probability `confidence`
    errors_left : expected number of wrong rows
    n_unlabelled : rows that have no label
    n_audits, n_wrong : rows drawn at random and predicted before they were labelled; wrong ones
    confidence : of the limits
    audits_alone : what the audits say without the model
    by_model : share that is wrong by the model's own probabilities, before any correction
    """

    error: float
    upper: float
    errors_left: float
    n_unlabelled: int
    n_audits: int
    n_wrong: int
    confidence: float
    audits_alone: AuditsAlone
    by_model: float = float("nan")

    def __str__(self) -> str:
        if self.n_unlabelled == 0:
            return "Every row has a label."
        if np.isnan(self.error):
            return f"No model yet: nothing is known of {self.n_unlabelled} rows."
        own = f"y the model's own probabilities {self.by_model:.1%}"
        limit = f"at most {self.upper:.1%} with probability {self.confidence:.0%}"
        if self.n_audits == 0:
            return (
                f"B{own} of {self.n_unlabelled} unlabelled rows are wrong. No audit has checked "
                f"that yet; allowing for probabilities that are off, expect {self.error:.1%}, and "
                f"{limit}."
            )
        n = f"{self.errors_left:.0f}"
        are = "is" if n == "1" else "are"
        return (
            f"About {n} of {self.n_unlabelled} unlabelled rows {are} wrong "
            f"({self.error:.1%}), and {limit}: b{own}, corrected by {_counted(self.n_audits)}, "
            f"{self.n_wrong} of them wrong."
        )


def _counted(n_audits: int) -> str:
    return f"{n_audits} audit{'s' * (n_audits != 1)}"


@readable
class KeptError(NamedTuple):
    """How many of the rows that are sure enough to be kept are predicted wrongly.

    error : expected share of wrong rows among them
    lower, upper : limits between which the share lies, with probability `confidence`
    n_kept, n_rows : rows that are kept, and all rows
    confidence : of the limits
    by_model : share that is wrong by the model's own probabilities, before any correction
    n_held_out : labels of the fit, each predicted from the others, that correct it
    """

    error: float
    lower: float
    upper: float
    n_kept: int
    n_rows: int
    confidence: float
    by_model: float = float("nan")
    n_held_out: int = 0

    def __str__(self) -> str:
        if self.n_kept == 0:
            return f"None of {self.n_rows} rows is sure enough to be kept."
        is_part, n = self.n_kept < self.n_rows, self.n_held_out
        which = f"About {self.error:.1%} of these {self.n_rows} rows are predicted wrongly"
        if is_part:
            kept = f"{self.n_kept} of {self.n_rows} rows are kept."
            which = f"{kept} About {self.error:.1%} of them are predicted wrongly"
        assumed = ", if these rows are like those of the fit"
        checked = f"no held-out label {'that would be kept ' * is_part}corrects that"
        if n:
            assumed = ", if the labelled rows are a random sample of rows like these"
            of_fit = "of the fit that would be kept" if is_part else "of the fit"
            checked = f"{n} labels {of_fit}, each predicted from the others, correct that"
            if n == 1:
                checked = f"1 label {of_fit}, predicted from the others, corrects that"
        return (
            f"{which} ({self.lower:.1%} to {self.upper:.1%} with probability "
            f"{self.confidence:.0%}{assumed}). The model's own probabilities say "
            f"{self.by_model:.1%}; {checked}."
        )


class ErrorBelief(NamedTuple):
    """The distribution of the share of wrong rows, given audits.

    n : rows
    weights : (g,) of the shifts on the grid, given the audits
    mean, deviation : (g,) of the number of wrong rows, for each shift
    """

    n: int
    weights: Array
    mean: Array
    deviation: Array

    def expected(self) -> float:
        """Return the expected share of wrong rows."""
        return float(self.weights @ self.mean) / self.n

    def at_most(self, share: float) -> float:
        """Return the probability that at most this share of the rows is wrong."""
        if share >= 1.0:
            return 1.0
        number = np.floor(share * self.n + 1e-9) + 0.5  # wrong rows are whole
        return float(self.weights @ ndtr((number - self.mean) / self.deviation))

    def lower(self, confidence: float) -> float:
        """Return the largest share that is exceeded or met with this probability."""
        return self.upper(1.0 - confidence)

    def upper(self, confidence: float) -> float:
        """Return the least share that is not exceeded with this probability."""
        if self.at_most(0.0) >= confidence:
            return 0.0

        def excess(number: float) -> float:
            inside = self.weights @ ndtr((number + 0.5 - self.mean) / self.deviation)
            return float(inside) - confidence

        if excess(self.n) <= 0.0:
            return 1.0
        return float(np.ceil(brentq(excess, -0.5, self.n, xtol=1e-6) - 1e-6)) / self.n


def shift_weights(
    doubts: ArrayLike,
    wrong: ArrayLike,
    prior: ShiftPrior = SHIFT_PRIOR,
    counts: ArrayLike = 1.0,
) -> tuple[Array, Array]:
    """Return shifts on a grid (g,) and their weights given audits (g,), which sum to one.

    Parameters
    ----------
    doubts : (a,) the probability that the model gave to all classes but the predicted one
    wrong : (a,) whether the prediction was wrong
    counts : (a,) what each audit counts, by which its weight is multiplied
    """
    q, is_wrong = np.asarray(doubts, dtype=np.float64), np.asarray(wrong, dtype=bool)
    shifts = prior.mean + WIDEST * prior.deviation * GRID
    log_odds = logit(_with_least(q, prior))[:, None] + shifts
    log_p = -0.5 * (WIDEST * GRID) ** 2
    told = -np.logaddexp(0.0, np.where(is_wrong[:, None], -log_odds, log_odds))
    each = np.broadcast_to(np.asarray(counts, dtype=np.float64), q.shape)
    log_p = log_p + prior.audit_weight * (each[:, None] * told).sum(axis=0)
    weights = np.exp(log_p - log_p.max())
    return shifts, weights / weights.sum()


def error_belief(
    doubts: ArrayLike,
    audit_doubts: ArrayLike,
    audit_wrong: ArrayLike,
    prior: ShiftPrior = SHIFT_PRIOR,
    counts: ArrayLike = 1.0,
) -> ErrorBelief:
    """Return what is believed of the share of wrong rows.

    Parameters
    ----------
    doubts : (n,) of the rows, as the model has them now
    audit_doubts : (a,) of the audits, as the model had them before it learnt their labels
    audit_wrong : (a,) whether their predictions were wrong
    counts : (a,) what each audit counts

    Examples
    --------
    >>> sure = np.full(200, 0.02)
    >>> error_belief(sure, [], []).upper(0.95) > error_belief(sure, sure[:9], [0] * 9).upper(0.95)
    True
    """
    shifts, weights = shift_weights(audit_doubts, audit_wrong, prior, counts)
    # Rows with equal doubts are counted together: most rows of a large table are equally sure.
    q, counts = np.unique(_with_least(np.asarray(doubts, float), prior), return_counts=True)
    p = expit(logit(q)[:, None] + shifts)
    mean = counts @ p
    deviation = np.sqrt(counts @ (p * (1.0 - p)))
    return ErrorBelief(int(counts.sum()), weights, mean, np.maximum(deviation, 1e-9))


def kept_error(
    proba: Array,
    held_out: Array,
    codes: NDArray[np.intp],
    least: float,
    confidence: float,
    doubts: Array | None = None,
    counts: Array | None = None,
) -> KeptError:
    """Return the error of rows whose most probable class is probable enough.

    With probability `confidence` the share of wrong rows among them lies between the limits.

    Parameters
    ----------
    proba : (m, K) of the rows
    held_out : (a, K) of rows whose labels were drawn at random, each predicted without its own
    codes : (a,) these labels
    least : probability of the most probable class from which a row is kept
    confidence : of the limits
    doubts : (m,) of the predicted classes, by the method that held the labels out; None: those of
        `proba`
    counts : (a,) what each label counts as an audit; None: one each

    Examples
    --------
    >>> p = np.tile([0.95, 0.05], (100, 1))
    >>> found = kept_error(p, p[:30], np.zeros(30, int), 0.9, 0.9)
    >>> found.n_kept, found.lower <= found.error <= found.upper
    (100, True)
    """
    sure = proba.max(axis=1)
    kept = sure >= least
    if not kept.any():
        return KeptError(np.nan, 0.0, 1.0, 0, len(proba), confidence)
    prior = HELD_OUT_PRIOR if len(held_out) else SHIFT_PRIOR
    told = held_out.max(axis=1, initial=0.0)
    audited = told >= least
    wrong = held_out.argmax(axis=1)[audited] != codes[audited]
    own = 1.0 - sure if doubts is None else doubts
    each = 1.0 if counts is None else counts[audited]
    belief = error_belief(own[kept], 1.0 - told[audited], wrong, prior, each)
    outside = (1.0 - confidence) / 2.0
    return KeptError(
        belief.expected(),
        belief.lower(1.0 - outside),
        belief.upper(1.0 - outside),
        int(kept.sum()),
        len(proba),
        confidence,
        float(np.mean(1.0 - sure[kept])),
        int(audited.sum()),
    )


def audits_alone(n_wrong: int, n_audits: int, confidence: float) -> AuditsAlone:
    """Return what n audits, some of them wrong, say without a model.

    Examples
    --------
    >>> found = audits_alone(0, 38, 0.95)
    >>> round(found.error, 4), round(found.upper, 4)
    (0.0128, 0.049)
    """
    a, b = n_wrong + JEFFREYS, n_audits - n_wrong + JEFFREYS
    return AuditsAlone(float(a / (a + b)), float(beta.ppf(confidence, a, b)))


def _with_least(q: Array, prior: ShiftPrior) -> Array:
    return prior.least_doubt + (1.0 - 2.0 * prior.least_doubt) * np.clip(q, 0.0, 1.0)
