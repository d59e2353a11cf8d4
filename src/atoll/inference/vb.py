"""Variational Bayes for z = f + ε under any regions of z (Girolami & Rogers 2006).

q(f) q(z) with q(f) = N(m, Σ), Σ = C V^{-1}, V = C + I, and q(z_n) the normal N(m_n, I) restricted
to the row's regions. With z̄ the mean of q(z), coordinate ascent is m = Σ z̄(m), and at m = C w the
lower bound on log p(labels | θ, φ) is, once the terms that cancel are left out,

    B = Σ_n log P(z_n in its regions | m_n) − ½ Σ_k w_kᵀ m_k − ½ F log det V

with F the number of functions that the labels constrain (one, or K − 1 contrasts of K functions).
So m is also the posterior mode of f; the bound is exact in Σ and pays for it in log det V.

The kernel's log-parameters θ and the regions' φ are found by maximising B plus their log prior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from atoll.core.linalg import cholesky_inverse, cholesky_log_det, cholesky_solve, jittered_cholesky
from atoll.core.regions import RegionFamily, RegionGradients, Regions
from atoll.inference.auxiliary_gibbs import GramFunction, LogParameterPrior

Array = NDArray[np.float64]

# θ and φ stay within so many prior standard deviations.
PRIOR_REACH = 6.0


class Ascent(NamedTuple):
    """q(f) and q(z) at given θ and φ.

    mean : (n,) or (n, K) m
    weights : the same shape, C^{-1} m
    gradients : of the regions at m
    lower_bounds : (t,) the bound after every iteration
    """

    mean: Array
    weights: Array
    gradients: RegionGradients
    lower_bounds: Array


class VariationalResult(NamedTuple):
    """The maximum of the bound.

    weights : (n,) or (n, K), C^{-1} m
    mean : the same shape, m
    log_parameters, region_parameters : θ and φ there
    lower_bounds : (t,) bound plus log prior after every iteration of θ and φ
    converged : whether the gradient vanished
    jitter : what factoring took
    """

    weights: Array
    mean: Array
    log_parameters: Array
    region_parameters: Array
    lower_bounds: Array
    converged: bool
    jitter: float


def ascend(
    factor: Array,
    regions: Regions,
    start: Array,
    *,
    tolerance: float = 1e-8,
    max_iterations: int = 500,
) -> Ascent:
    """Coordinate ascent in q(z) and q(f), extrapolated where that raises the bound.

    Parameters
    ----------
    factor : (n, n) lower Cholesky factor of V
    start : mean of z, (n,) or (n, K)
    tolerance : stops when an iteration gains less
    """
    log_det_term = 0.5 * regions.n_free * cholesky_log_det(factor)

    def update(mean_of_z: Array) -> tuple[Array, Array]:
        """m and w that maximise the bound given q(z)."""
        w = cholesky_solve(factor, mean_of_z)
        return mean_of_z - w, w

    def evaluate(m: Array, w: Array) -> tuple[float, RegionGradients]:
        of_regions = regions.gradients(m, 1.0)
        quadratic = 0.5 * float(np.sum(w * m))
        return float(of_regions.log_probability.sum()) - quadratic - log_det_term, of_regions

    point = update(start)
    bound, slopes = evaluate(*point)
    bounds = [bound]
    for _ in range(max_iterations):
        # Two steps of coordinate ascent, z̄ = m + gradient, and what they extrapolate to (Varadhan &
        # Roland 2008). m and w move together: C w = m is linear.
        first = update(point[0] + slopes.mean)
        second = update(first[0] + regions.gradients(first[0], 1.0).mean)
        one = [b - a for a, b in zip(point, first)]
        two = [b - a for a, b in zip(first, second)]
        bend = [b - a for a, b in zip(one, two)]
        length = np.sqrt(np.sum(one[0] ** 2)) / max(np.sqrt(np.sum(bend[0] ** 2)), 1e-300)
        far = [p + 2.0 * length * r + length**2 * v for p, r, v in zip(point, one, bend)]
        candidate = (far[0], far[1])
        new_bound, new_slopes = evaluate(*candidate)
        if not new_bound >= bound:
            candidate = second
            new_bound, new_slopes = evaluate(*candidate)
        gain = new_bound - bound
        point, bound, slopes = candidate, new_bound, new_slopes
        bounds.append(bound)
        if gain < tolerance:
            break
    # One plain step: m is then a coordinate-ascent update, whatever was extrapolated before.
    point = update(point[0] + slopes.mean)
    bound, slopes = evaluate(*point)
    return Ascent(*point, slopes, np.array([*bounds, bound]))


def maximise(
    gram: GramFunction,
    gram_gradient: Callable[[Array, Array, Array], Array],
    prior: LogParameterPrior,
    family: RegionFamily,
    *,
    start: Array | None = None,
    max_iterations: int = 200,
    report: Callable[[int, float], None] | None = None,
) -> VariationalResult:
    """The bound's maximum over q, θ and φ, by L-BFGS over θ and φ with q at its best for each.

    The bound's gradient by θ needs no derivative of q, which is at a maximum: it is that of the
    Gaussian marginal of z̄ (envelope theorem).

    Parameters
    ----------
    gram : θ -> C (n, n), a fresh array
    gram_gradient : θ, C, M -> Σ_ij M_ij ∂C_ij/∂θ
    prior : of θ
    family : the regions, and the prior of φ
    start : mean of z; zero by default
    report : called with the iteration and its bound
    """
    p = len(prior.mean)
    centre = np.concatenate([prior.mean, family.mean])
    spread = np.concatenate([prior.sd, family.sd])
    regions = family.at(family.mean).regions
    # What the last evaluation left; the next starts its ascent from the best so far.
    kept = _Kept(regions.zeros() if start is None else start)

    def negative_bound(x: Array) -> tuple[float, Array]:
        theta, phi = centre[:p] + spread[:p] * x[:p], centre[p:] + spread[p:] * x[p:]
        C = gram(theta)
        factor, jitter = jittered_cholesky(C + np.eye(len(C)))
        q = ascend(factor, family.at(phi).regions, kept.mean_of_z)
        bound = q.lower_bounds[-1] - 0.5 * float(x @ x)
        w = q.weights.reshape(len(C), -1)
        M = 0.5 * (w @ w.T - family.at(phi).regions.n_free * cholesky_inverse(factor))
        slope = np.concatenate([gram_gradient(theta, C, M), family.gradient(phi, q.gradients)])
        if bound > kept.bound:
            kept.bound, kept.mean_of_z, kept.jitter = bound, q.mean + q.gradients.mean, jitter
            kept.result = (q.weights, q.mean, theta, phi)
        return -bound, x - spread * slope

    _, _ = negative_bound(np.zeros(len(centre)))
    bounds, converged = [kept.bound], True
    if len(centre) > 0:

        def follow(_: Array) -> None:
            bounds.append(kept.bound)
            if report is not None:
                report(len(bounds) - 1, kept.bound)

        outcome = minimize(
            negative_bound,
            np.zeros(len(centre)),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-PRIOR_REACH, PRIOR_REACH)] * len(centre),
            callback=follow,
            options={"maxiter": max_iterations, "ftol": 1e-9, "gtol": 1e-4},
        )  # type: ignore[call-overload]
        converged = outcome.status != 1  # 1: out of iterations
    weights, mean, theta, phi = kept.result
    return VariationalResult(
        weights, mean, theta, phi, np.array(bounds), bool(converged), kept.jitter
    )


class _Kept:
    """The best evaluation so far."""

    def __init__(self, mean_of_z: Array):
        self.mean_of_z = mean_of_z
        self.bound = -np.inf
        self.jitter = 0.0
        self.result: tuple[Array, Array, Array, Array]
