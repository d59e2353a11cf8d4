"""The evidence of labels, its gradient, and the parameters that it chooses (section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from atoll.inference.contrasts import Contrasts, contrasts
from atoll.inference.ep import Propagation, Sites, no_sites, propagate
from atoll.likelihoods import probit
from atoll.models.ssgp.process import (
    AMBIENT_WEIGHTS,
    LENGTH_FACTORS,
    RATIOS,
    BaseGram,
    Problem,
    Warp,
    base_grid,
    through_warp,
    warp,
)
from atoll.models.ssgp.search import (
    RATIO_BOUNDS,
    START_FACTORS,
    START_RATIOS,
    ascend,
    search_bounds,
)

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

NOISE = 1e-4  # σ_n, section 4
AMBIENT_BOUNDS = (1e-6, 100.0)
# Variance of the function in units of the noise's, at most: beyond, sites of expectation
# propagation have no digits left, and the evidence no longer changes.
LARGEST_SIGNAL = 1e7
EP_ITERATIONS = 500
FEW_DIFFERENCES = 300  # of classes; up to here one full matrix is as quick
TOLERANCE = 1e-7  # of moments
ROUNDED = 1e-4  # of moments of very many differences, whose rounding errors are up to 1e-5
LEAST_SHARE = 1e-3  # of an average over hyper-parameters; components below it are dropped


class Labels(NamedTuple):
    """What is known at which rows.

    rows : (l,) places of the labelled rows in the geometry
    codes : (l,) in 0..K−1
    n_classes : K
    noise : σ_n
    """

    rows: NDArray[np.intp]
    codes: Codes
    n_classes: int
    noise: float = NOISE


class Fit(NamedTuple):
    """Expectation propagation at one value of the parameters.

    log_parameters : (p,) the base kernel's, log γ_A, log ratio
    log_evidence : log P(Y | 𝒢), or with −½ log det(I + MK) the full one
    slope : (p,) its gradient; empty where it was not asked for
    propagation : sites over the labels, or over differences of classes
    gram : (l, l) K̃_LL/(γ_A σ_n²)
    scale : 1/(γ_A σ_n²)
    """

    log_parameters: Array
    log_evidence: float
    slope: Array
    propagation: Propagation
    gram: Array
    scale: float


# What the labels say ------------------------------------------------------------------------------


def signs(labels: Labels) -> Array:
    """Return s, (l (K−1), l (K−1)), with Cov(u_nk, u_mj) = s C_nm of differences u = z_y − z_k."""
    y, K = labels.codes, labels.n_classes
    n = np.repeat(np.arange(len(y)), K - 1)
    rest = np.concatenate([np.delete(np.arange(K), c) for c in y])
    own, other = y[n][:, None], rest[:, None]
    same = (own == own.T).astype(float)
    return same - (own == other.T) - (other == own.T) + (other == other.T)


def difference_gram(gram: Array, labels: Labels) -> Array:
    """Return the covariance of u less noise of variance one, from C (l, l)."""
    repeated = np.repeat(
        np.repeat(gram, labels.n_classes - 1, axis=0), labels.n_classes - 1, axis=1
    )
    n = np.repeat(np.arange(len(gram)), labels.n_classes - 1)
    # The noise of z_y is in all differences of its row; that of z_k is the unit noise.
    return signs(labels) * repeated + (n[:, None] == n)


def propagate_labels(
    gram: Array,
    labels: Labels,
    start: Sites | None = None,
    max_iterations: int = EP_ITERATIONS,
) -> Propagation:
    """Propagate expectations over labels (two classes) or differences of classes (more)."""
    C: Array | Contrasts
    tolerance = TOLERANCE
    n = len(gram) * (labels.n_classes - 1)
    if labels.n_classes == 2:
        C, regions = gram, probit.regions(labels.codes)
    else:
        regions = probit.regions(np.ones(n, dtype=np.intp))
        if n <= FEW_DIFFERENCES:
            C = difference_gram(gram, labels)
        else:
            C, tolerance = contrasts(gram, labels.codes, labels.n_classes), ROUNDED
    sites = no_sites(n) if start is None else start
    return propagate(C, regions, sites, tolerance=tolerance, max_iterations=max_iterations)


def evidence_slope(found: Propagation, labels: Labels) -> Array:
    """Return ∂log P(Y | 𝒢)/∂C, (l, l): sites are held, being at their fixed point."""
    b = found.weights
    slope = 0.5 * (np.outer(b, b) - found.site_inverse)
    K = labels.n_classes
    if K == 2:
        return slope
    slope *= signs(labels)
    l = len(labels.codes)  # noqa: E741
    return slope.reshape(l, K - 1, l, K - 1).sum(axis=(1, 3))


# Model selection (section 3.3) --------------------------------------------------------------------


def fit_at(
    problem: Problem,
    labels: Labels,
    log_parameters: Array,
    *,
    full: bool = False,
    gradient: bool = False,
    base: BaseGram | None = None,
    warped: Warp | None = None,
    start: Sites | None = None,
) -> Fit:
    """Find sites and evidence at (the base kernel's log-parameters, log γ_A, log ratio).

    Parameters
    ----------
    full : P(Y, 𝒢) in place of P(Y | 𝒢), but for a constant
    gradient : whether it is wanted
    base, warped : found before, where they are the same
    """
    *_, log_ambient, log_ratio = log_parameters
    base = problem.base_gram(log_parameters) if base is None else base
    w = warped
    if w is None:
        w = warp(base, problem.geometry, float(np.exp(log_ratio)), labels.rows)
    scale = float(np.exp(-log_ambient)) / labels.noise**2
    largest = LARGEST_SIGNAL / max(float(np.diagonal(w.gram).mean()), 1e-300)
    is_capped, scale = scale > largest, min(scale, largest)
    C = scale * w.gram
    found = propagate_labels(C, labels, start)
    value = float(found.log_evidences[-1]) - (0.5 * w.log_det if full else 0.0)
    if not gradient:
        return Fit(log_parameters, value, np.zeros(0), found, C, scale)

    by_C = evidence_slope(found, labels)
    by_scale = float(np.sum(by_C * C))
    by_gram = scale * by_C  # of K̃_LL
    if is_capped:
        by_gram -= by_scale / float(np.trace(w.gram)) * np.eye(len(C))
    by_base, by_ratio = through_warp(problem, log_parameters, base, w, labels.rows, by_gram, full)
    by_ambient = 0.0 if is_capped else -by_scale
    slope = np.concatenate([by_base, [by_ambient, by_ratio]])
    return Fit(log_parameters, value, slope, found, C, scale)


def fit_grid(
    problem: Problem,
    labels: Labels,
    *,
    factors: Sequence[float] = LENGTH_FACTORS,
    ambient_weights: Sequence[float] = AMBIENT_WEIGHTS,
    ratios: Sequence[float] = RATIOS,
    full: bool = False,
    report: Callable[[float], None] | None = None,
) -> Iterator[Fit]:
    """Yield every point of the grid: one Gram matrix per length-scale, one factor per ratio."""
    for theta in base_grid(problem.base, factors):
        base = problem.base_gram(theta)
        for ratio in ratios:
            w = warp(base, problem.geometry, ratio, labels.rows)
            for ambient in ambient_weights:
                with np.errstate(divide="ignore"):  # log 0: the supervised process
                    x = np.concatenate([theta, [np.log(ambient), np.log(ratio)]])
                fit = fit_at(problem, labels, x, full=full, base=base, warped=w)
                if report is not None:
                    report(fit.log_evidence)
                yield fit


def maximise_evidence(
    problem: Problem,
    labels: Labels,
    *,
    full: bool = False,
    report: Callable[[float], None] | None = None,
) -> tuple[Fit, Array, bool]:
    """Climb the evidence over (the base kernel's, γ_A, γ_I/γ_A) from the best of a few points.

    Returns
    -------
    fit : at the maximum
    log_evidences : (t,) after every iteration
    converged : whether the search and the sites stopped by themselves
    """
    options: dict[str, Any] = {"full": full, "report": report}
    starts = fit_grid(
        problem,
        labels,
        factors=START_FACTORS,
        ambient_weights=(1.0,),
        ratios=START_RATIOS,
        **options,
    )

    def evaluate(x: Array, best: Fit) -> Fit:
        sites = best.propagation.sites  # near those to be found
        return fit_at(problem, labels, x, full=full, gradient=True, start=sites)

    bounds = search_bounds(problem.base, [AMBIENT_BOUNDS, RATIO_BOUNDS])
    best, values, stopped = ascend(evaluate, starts, bounds, report)
    return best, values, stopped and best.propagation.converged


def evidence_weights(log_evidences: Array) -> Array:
    """Return the posterior weights of a grid under a uniform prior, from its log evidences.

    Examples
    --------
    >>> evidence_weights(np.log([1.0, 3.0]))
    array([0.25, 0.75])
    """
    return np.exp(log_evidences - logsumexp(log_evidences))


class Selection(NamedTuple):
    """What the evidence chose.

    fits : to be averaged; one where the best is taken
    log_weights : (n,) of theirs
    log_evidence : of the best, or of the average
    objectives : (t,) log evidences after every iteration, or at every point
    converged : whether the search, and the sites of these fits, stopped by themselves
    """

    fits: list[Fit]
    log_weights: Array
    log_evidence: float
    objectives: Array
    converged: bool

    @property
    def best(self) -> Fit:
        """The fit of the highest evidence."""
        return max(self.fits, key=lambda fit: fit.log_evidence)


def select_best(
    problem: Problem,
    labels: Labels,
    *,
    full: bool = False,
    report: Callable[[float], None] | None = None,
) -> Selection:
    """Return the fit at the maximum of the evidence."""
    best, trace, converged = maximise_evidence(problem, labels, full=full, report=report)
    return Selection([best], np.zeros(1), best.log_evidence, trace, converged)


def select_from(fits: Sequence[Fit], *, average: bool = False) -> Selection:
    """Return the best of some fits, or all of them weighted by evidence."""
    values = np.array([fit.log_evidence for fit in fits])
    if average:
        kept, log_weights = weigh(fits)
        log_evidence = float(np.logaddexp.reduce(values) - np.log(len(values)))
    else:
        kept, log_weights = [fits[int(np.argmax(values))]], np.zeros(1)
        log_evidence = float(values.max())
    converged = all(fit.propagation.converged for fit in kept)
    return Selection(kept, log_weights, log_evidence, values, converged)


def weigh(fits: Sequence[Fit]) -> tuple[list[Fit], Array]:
    """Return the fits that have a share in the average over a grid, and these shares' logarithms.

    Fits that differ in γ_A alone, where the noise cannot tell, are one fit.
    """
    shares: dict[Any, tuple[Fit, float]] = {}
    for fit, share in zip(fits, evidence_weights(np.array([f.log_evidence for f in fits]))):
        *of_base, _, log_ratio = fit.log_parameters.tolist()
        key = (*of_base, log_ratio, fit.scale)
        first, before = shares.get(key, (fit, 0.0))
        shares[key] = (first, before + float(share))
    kept = [pair for pair in shares.values() if pair[1] >= min(LEAST_SHARE, 1.0 / len(shares))]
    weights = np.array([share for _, share in kept])
    return [fit for fit, _ in kept], np.log(weights / weights.sum())
