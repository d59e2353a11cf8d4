"""Variational Bayes for z = f + ε under any regions of z (after Girolami & Rogers 2006).

z ~ N(0, V), V = C + I, with f integrated out. The only approximation is q(z) = Π_n q(z_n). Girolami
and Rogers also separate f from z, q(f) q(z); their bound is lower, since here f | z is exact. With
Q = V^{-1} and d_n = Q_nn, the best q(z_n) is N(a_n, 1/d_n) restricted to the row's regions, and

    a = z̄ − Q z̄ / d,        z̄ the mean of q(z),

as in the Gibbs sampler, with means in place of draws. At these factors the lower bound on
log p(labels | θ, φ) is

    B = Σ_n log P(z_n in its regions | a_n, 1/d_n) − ½ z̄ᵀQz̄ + ½ Σ_n d_n (z̄_n − a_n)²
        − ½ F (Σ_n log d_n + log det V)

summed over functions, where F is the number of functions that the labels constrain: one, or the
K − 1 contrasts of K functions. For a single row the bound is exact.

The kernel's log-parameters θ and the regions' parameters φ maximise B plus their log prior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import cholesky_inverse, cholesky_log_det, jittered_cholesky
from atoll.core.regions import RegionFamily, RegionGradients, Regions
from atoll.inference.auxiliary_gibbs import GramFunction, LogParameterPrior
from atoll.inference.type_two import Approximation, Evaluation, Report
from atoll.inference.type_two import maximise as maximise_evidence

Array = NDArray[np.float64]


class Ascent(NamedTuple):
    """The best q(z) at given θ and φ.

    location : (n,) or (n, K) a, the means of the normals before they are restricted
    mean : z̄, in the same shape
    variance : (n,) variance of z under q, averaged over the functions that the labels constrain
    gradients : the regions' gradients at a
    lower_bounds : (t,) the bound after each iteration
    """

    location: Array
    mean: Array
    variance: Array
    gradients: RegionGradients
    lower_bounds: Array


def ascend(
    precision: Array,
    log_det: float,
    regions: Regions,
    start: Array,
    *,
    tolerance: float = 1e-8,
    max_iterations: int = 1000,
    report: Report | None = None,
) -> Ascent:
    """Maximise the bound over q(z) by fixed-point steps, extrapolated where that raises the bound.

    Parameters
    ----------
    precision : (n, n) Q
    log_det : log det V
    start : (n,) or (n, K), the first a
    tolerance : the ascent stops when an iteration raises the bound by less
    max_iterations : the ascent stops after this many iterations
    report : called with the number of each iteration and its bound
    """
    Q, F = precision, regions.n_free
    d = np.diagonal(Q)
    sd = 1.0 / np.sqrt(d)
    per_row = d if start.ndim == 1 else d[:, None]
    constant = 0.5 * F * (float(np.log(d).sum()) + log_det)

    def evaluate(a: Array) -> tuple[float, Array, Array, RegionGradients]:
        """Return the bound at a, the next a of the fixed-point iteration, z̄ and the gradients."""
        slopes = regions.gradients(a, sd)
        drift = slopes.mean / per_row  # z̄ − a
        mean = a + drift
        Qz = Q @ mean
        bound = float(slopes.log_probability.sum()) - constant
        bound += 0.5 * float(np.sum(drift * per_row * drift) - np.sum(mean * Qz))
        return bound, mean - Qz / per_row, mean, slopes

    a = start if start.ndim == 1 else start - start.mean(axis=1, keepdims=True)
    bound, ahead, mean, slopes = evaluate(a)
    bounds = [bound]
    for _ in range(max_iterations):
        first, second = ahead, evaluate(ahead)[1]
        candidates = [_extrapolated(a, first, second), second]
        candidates += [a + shrink * (first - a) for shrink in (1.0, 0.5, 0.1, 0.01)]
        for candidate in candidates:  # take the boldest that does not lower the bound
            new = evaluate(candidate)
            if new[0] >= bound:
                break
        else:
            break
        gain = new[0] - bound
        a, (bound, ahead, mean, slopes) = candidate, new
        bounds.append(bound)
        if report is not None:
            report(len(bounds) - 1, bound)
        if gain < tolerance:
            break
    variance = np.maximum(sd**2 + sd**4 * slopes.curvature / F, 0.0)  # rounding, far in the tails
    return Ascent(a, mean, variance, slopes, np.array(bounds))


def _extrapolated(point: Array, first: Array, second: Array) -> Array:
    """Extrapolate two steps of a slow fixed-point iteration (Varadhan & Roland 2008)."""
    step = first - point
    bend = (second - first) - step
    length = min(float(np.sqrt(np.sum(step**2) / max(float(np.sum(bend**2)), 1e-300))), 1e3)
    return point + 2.0 * length * step + length**2 * bend


def maximise(
    gram: GramFunction,
    gram_gradient: Callable[[Array, Array, Array], Array],
    prior: LogParameterPrior,
    family: RegionFamily,
    *,
    max_iterations: int | None = None,
    report: Report | None = None,
) -> Approximation:
    """Maximise the bound over q, θ and φ, with the best q at each θ and φ.

    Since q is at a maximum, the bound's gradient by θ needs no derivative of q: it is the gradient
    of E_q log N(z; 0, V) (envelope theorem).

    Parameters
    ----------
    gram : θ -> C (n, n), a fresh array
    gram_gradient : θ, C, M -> Σ_ij M_ij ∂C_ij/∂θ
    prior : prior of θ
    family : the regions at any φ, and the prior of φ
    max_iterations : of the search over θ and φ; None means 200
    report : called with the number of each iteration and its bound
    """

    def evaluate(theta: Array, phi: Array, location: Array) -> Evaluation:
        C, regions = gram(theta), family.at(phi).regions
        q, Q, weights, jitter = _best_factors(C, regions, location)
        w = weights.reshape(len(C), -1)
        # ½ (Q E[zzᵀ] Q − F Q)
        M = 0.5 * (w @ w.T + regions.n_free * ((Q * q.variance) @ Q - Q))
        slope = np.concatenate([gram_gradient(theta, C, M), family.gradient(phi, q.gradients)])
        posterior = (weights, q.variance, jitter)
        return Evaluation(float(q.lower_bounds[-1]), slope, q.location, posterior)

    location = family.at(family.mean).regions.zeros()
    best = maximise_evidence(
        evaluate, prior, family, location, max_iterations=max_iterations, report=report
    )
    weights, variance, jitter = best.posterior
    return Approximation(
        weights,
        best.log_parameters,
        best.region_parameters,
        best.log_evidences,
        best.converged,
        jitter,
        auxiliary_variance=variance,
    )


def at(
    gram_matrix: Array,
    family: RegionFamily,
    log_parameters: Array,
    region_parameters: Array,
    start: Array,
    *,
    tolerance: float = 1e-8,
    report: Report | None = None,
) -> Approximation:
    """Maximise the bound over q alone, at given θ and φ; parameters as those of `ascend`.

    `log_evidences` of the result are the bounds after each iteration of q, without the prior of θ
    and φ.
    """
    regions = family.at(region_parameters).regions
    q, _, weights, jitter = _best_factors(gram_matrix, regions, start, tolerance, report)
    return Approximation(
        weights,
        log_parameters,
        region_parameters,
        q.lower_bounds,
        True,
        jitter,
        auxiliary_variance=q.variance,
    )


def _best_factors(
    gram_matrix: Array,
    regions: Regions,
    start: Array,
    tolerance: float = 1e-8,
    report: Report | None = None,
) -> tuple[Ascent, Array, Array, float]:
    """Return the best q(z) for a kernel matrix C, V^{-1}, the weights V^{-1} z̄ and the jitter."""
    factor, jitter = jittered_cholesky(gram_matrix + np.eye(len(gram_matrix)))
    Q = cholesky_inverse(factor)
    q = ascend(Q, cholesky_log_det(factor), regions, start, tolerance=tolerance, report=report)
    return q, Q, Q @ q.mean, jitter
