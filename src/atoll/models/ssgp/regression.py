"""Regression told of the geometry, which the paper names and leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import cholesky_inverse, cholesky_log_det, jittered_cholesky, solve_lower
from atoll.models.ssgp.posterior import Component
from atoll.models.ssgp.process import Problem, base_grid, through_warp, warp
from atoll.models.ssgp.search import (
    RATIO_BOUNDS,
    START_FACTORS,
    START_RATIOS,
    ascend,
    search_bounds,
)

Array = NDArray[np.float64]

NOISE_BOUNDS = (1e-6, 10.0)  # of its variance, for targets of unit variance
AMBIENT_BOUNDS = (1e-6, 1e3)


class RegressionFit(NamedTuple):
    """A Gaussian process told of the geometry, at one value of the parameters.

    log_parameters : (p,) the base kernel's, log γ_A, log ratio, log noise variance
    log_evidence : log N(y; 0, K̃_LL/γ_A + σ²I), or the full one
    slope : (p,) its gradient
    lower : (l, l) factor of that covariance
    """

    log_parameters: Array
    log_evidence: float
    slope: Array
    lower: Array


class RegressionPosterior(NamedTuple):
    """What prediction needs: f in the units of the targets is shift + scale · f.

    inputs : (l, d) rows with a target
    component : the posterior of f for targets of zero mean and unit variance
    shift, scale : mean and standard deviation of the targets
    noise_variance : σ², in the units of the targets
    """

    inputs: Array
    component: Component
    shift: float
    scale: float
    noise_variance: float

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of f; (m, d) -> (m, 1) each."""
        mean, variance = np.empty((len(X), 1)), np.empty((len(X), 1))
        for part, means, variances in self.component.moments(self.inputs, X):
            mean[part], variance[part, 0] = means[0], variances
        return self.shift + self.scale * mean, self.scale**2 * variance

    def draws(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of f; (m, d) -> (n, m)."""
        f = self.component.sample(rng, self.inputs, X, np.zeros(n, dtype=np.intp))
        return self.shift + self.scale * f[..., 0]


def regression_at(
    problem: Problem,
    rows: NDArray[np.intp],
    targets: Array,
    log_parameters: Array,
    *,
    full: bool = False,
) -> RegressionFit:
    """Find the evidence in closed form, and its gradient; rows (l,), targets (l,)."""
    *_, log_ambient, log_ratio, log_noise = log_parameters
    base = problem.base_gram(log_parameters)
    w = warp(base, problem.geometry, float(np.exp(log_ratio)), rows)
    scale, noise = float(np.exp(-log_ambient)), float(np.exp(log_noise))
    C = scale * w.gram
    lower = jittered_cholesky(C + noise * np.eye(len(C))).lower
    inverse = cholesky_inverse(lower)
    weights = inverse @ targets
    value = -0.5 * float(targets @ weights) - 0.5 * cholesky_log_det(lower)
    value -= 0.5 * len(targets) * np.log(2.0 * np.pi) + (0.5 * w.log_det if full else 0.0)
    by_C = 0.5 * (np.outer(weights, weights) - inverse)
    by_base, by_ratio = through_warp(problem, log_parameters, base, w, rows, scale * by_C, full)
    others = [-float(np.sum(by_C * C)), by_ratio, noise * float(np.trace(by_C))]
    return RegressionFit(log_parameters, value, np.concatenate([by_base, others]), lower)


def maximise_regression(
    problem: Problem,
    rows: NDArray[np.intp],
    targets: Array,
    *,
    full: bool = False,
    report: Callable[[float], None] | None = None,
) -> tuple[RegressionFit, Array, bool]:
    """Climb the evidence over all parameters, for targets of unit variance."""
    starts = [
        np.concatenate([theta, np.log([1.0, ratio, 0.1])])
        for theta in base_grid(problem.base, START_FACTORS)
        for ratio in START_RATIOS
    ]
    fits = (regression_at(problem, rows, targets, x, full=full) for x in starts)

    def evaluate(x: Array, best: RegressionFit) -> RegressionFit:
        return regression_at(problem, rows, targets, x, full=full)

    bounds = search_bounds(problem.base, [AMBIENT_BOUNDS, RATIO_BOUNDS, NOISE_BOUNDS])
    return ascend(evaluate, fits, bounds, report)


def regression_posterior(
    problem: Problem,
    fit: RegressionFit,
    inputs: Array,
    targets: Array,
    shift: float = 0.0,
    scale: float = 1.0,
) -> RegressionPosterior:
    """Return what prediction needs.

    Parameters
    ----------
    targets : (l,) of zero mean and unit variance
    shift, scale : of the targets as they were given
    """
    weights = solve_lower(fit.lower, solve_lower(fit.lower, targets), transposed=True)
    *_, log_ambient, _, log_noise = fit.log_parameters
    component = Component(
        problem.warped_kernel_at(fit.log_parameters[:-1]),
        float(np.exp(-log_ambient)),
        weights[None, :, None],
        solve_lower(fit.lower, np.eye(len(targets))),
        0.0,
    )
    noise_variance = float(np.exp(log_noise)) * scale**2
    return RegressionPosterior(inputs, component, shift, scale, noise_variance)
