"""Gibbs sampling of z = f + ε under any regions of z, and of the kernel's log-parameters θ.

z ~ N(0, V), V = C(θ) + I, each z_n confined to its region. Against the lecture's sweep (paper
004: z | f, then f | z, θ | f) three things mix better. Each z_n is drawn given the other z
alone, with f integrated out (Holmes & Held 2006). θ is drawn given z, whose marginal likelihood
is Gaussian, and then ν and θ with z integrated out, where ν = L^{-1} f is the whitened function:
the first moves well where the labels say much, the second where they say little, and the two
interwoven (Yu & Meng 2011) move well everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, log
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from atoll.core.gaussian import log_ndtr_difference, truncated_normal
from atoll.core.linalg import cholesky_inverse, cholesky_log_det, cholesky_solve, jittered_cholesky
from atoll.core.regions import (
    Regions,
    log_region_masses,
    sample_regions,
    total_log_probability,
)
from atoll.inference import elliptical_slice

Array = NDArray[np.float64]
GramFunction = Callable[[Array], Array]

# Steps of the whole function in a sweep: more where a row may change its region.
N_STEPS, N_STEPS_UNIONS = 2, 10


class LogParameterPrior(Protocol):
    """Independent normal prior of the kernel's log-parameters; see KernelPrior.

    mean, sd : (p,)
    variance_index : the log-parameter that scales the whole kernel matrix, or None
    """

    @property
    def mean(self) -> Array: ...
    @property
    def sd(self) -> Array: ...
    @property
    def variance_index(self) -> int | None: ...


class AuxiliaryState(NamedTuple):
    """What the next sweep needs.

    auxiliary : (n,) z
    log_parameters : (p,) of the kernel
    precision : (n, n) V^{-1} at those log-parameters
    log_det : log det V
    """

    auxiliary: Array
    log_parameters: Array
    precision: Array
    log_det: float


def init(auxiliary: Array, log_parameters: Array, gram: GramFunction) -> AuxiliaryState:
    """The state at z and θ; gram: log-parameters -> C (n, n), a fresh array."""
    lower = _noisy_factor(gram(log_parameters))
    return AuxiliaryState(
        auxiliary, log_parameters, cholesky_inverse(lower), cholesky_log_det(lower)
    )


def sweep(
    rng: np.random.Generator,
    state: AuxiliaryState,
    regions: Regions,
    gram: GramFunction,
    prior: LogParameterPrior,
) -> AuxiliaryState:
    """Every z_n given the others, θ given z, then f and θ without z; p(z, θ | labels) is invariant.

    Parameters
    ----------
    regions : of the n rows
    gram : log-parameters -> C (n, n), a fresh array
    prior : of the log-parameters; none of them keeps θ
    """
    z = sample_auxiliary(rng, state.auxiliary, state.precision, regions)
    state = state._replace(auxiliary=z)
    if len(prior.mean) > 0:
        state = step_given_auxiliary(rng, state, gram, prior)
    return step_given_whitened(rng, state, regions, gram, prior)


def step_given_auxiliary(
    rng: np.random.Generator, state: AuxiliaryState, gram: GramFunction, prior: LogParameterPrior
) -> AuxiliaryState:
    """θ | z by elliptical slice sampling on N(z; 0, C(θ) + I)."""
    z = state.auxiliary
    current = -0.5 * float(z @ state.precision @ z) - 0.5 * state.log_det

    def log_marginal(log_parameters: Array) -> float:
        return gaussian_log_marginal(_noisy_factor(gram(log_parameters)), z)

    theta, _, _ = elliptical_slice.step(
        rng, state.log_parameters, current, log_marginal,
        prior.sd * rng.standard_normal(len(prior.sd)), prior.mean,
    )  # fmt: skip
    return init(z, theta, gram)


def step_given_whitened(
    rng: np.random.Generator,
    state: AuxiliaryState,
    regions: Regions,
    gram: GramFunction,
    prior: LogParameterPrior,
) -> AuxiliaryState:
    """ν | θ and θ | ν by elliptical slice sampling on Π P(region_n | f = L(θ) ν), then z | f."""
    log_likelihood = total_log_probability(regions)
    lower = jittered_cholesky(gram(state.log_parameters)).lower
    several = bool((np.isfinite(regions.log_weight).sum(axis=1) > 1).any())
    whitened, f, theta = _step_function_and_variance(
        rng, state, lower, log_likelihood, prior, n_steps=N_STEPS_UNIONS if several else N_STEPS
    )
    if len(prior.mean) == 0:
        return state._replace(auxiliary=sample_regions(rng, regions, f, 1.0))

    def latent(log_parameters: Array) -> Array:
        return jittered_cholesky(gram(log_parameters)).lower @ whitened

    theta, _, _ = elliptical_slice.step(
        rng, theta, log_likelihood(f), lambda proposal: log_likelihood(latent(proposal)),
        prior.sd * rng.standard_normal(len(prior.sd)), prior.mean,
    )  # fmt: skip
    return init(sample_regions(rng, regions, latent(theta), 1.0), theta, gram)


def _step_function_and_variance(
    rng: np.random.Generator,
    state: AuxiliaryState,
    lower: Array,
    log_likelihood: Callable[[Array], float],
    prior: LogParameterPrior,
    n_steps: int,
) -> tuple[Array, Array, Array]:
    """ν, f and θ after some steps of ν | θ and of the log variance given ν, z integrated out.

    They move the whole function at once, and rows from one region to another, where z, one row
    at a time, is held by its neighbours. A step costs O(n²), little beside a factor: a change
    of variance scales L.
    """
    theta, v = state.log_parameters.copy(), prior.variance_index
    # f and ν lie on one ellipse each, at the same angle: no product with L for every proposal.
    whitened = sample_whitened(rng, state, lower)
    pair = np.stack([lower @ whitened, whitened])
    current = log_likelihood(pair[0])
    draws = rng.standard_normal((n_steps, len(whitened)))
    scale = 1.0  # of L, relative to `lower`
    for along_f, along_whitened in zip(draws @ lower.T, draws):
        pair, current, _ = elliptical_slice.step(
            rng, pair, current, lambda p: log_likelihood(p[0]),
            np.stack([scale * along_f, along_whitened]),
        )  # fmt: skip
        if v is not None:
            theta[v], pair[0], current = elliptical_slice.step_log_variance(
                rng, theta[v], pair[0], current, log_likelihood, prior.mean[v], prior.sd[v]
            )
            scale = np.exp(0.5 * (theta[v] - state.log_parameters[v]))
    return pair[1], pair[0], theta


def sample_whitened(rng: np.random.Generator, state: AuxiliaryState, lower: Array) -> Array:
    """Draw ν, f = L ν, given z by Matheron's rule: a prior draw, corrected by what z says of it.

    f = f₀ + C V^{-1} (z − f₀ − ε₀) with f₀ = L ν₀ and C = L Lᵀ: so ν = ν₀ + Lᵀ V^{-1} (…), and L
    is never inverted.
    """
    prior = rng.standard_normal(len(lower))
    surprise = state.auxiliary - lower @ prior - rng.standard_normal(len(lower))
    return prior + lower.T @ (state.precision @ surprise)


def sample_latent(
    rng: np.random.Generator, state: AuxiliaryState, gram: GramFunction
) -> tuple[Array, float]:
    """Draw f | z, θ; returns f and the jitter that factoring C took."""
    lower, jitter = jittered_cholesky(gram(state.log_parameters))
    return lower @ sample_whitened(rng, state, lower), jitter


def sample_auxiliary(
    rng: np.random.Generator, auxiliary: Array, precision: Array, regions: Regions
) -> Array:
    """Draw each z_n | z_{-n}, confined to its region, in turn; f is integrated out.

    With Q = V^{-1}: z_n | z_{-n} ~ N(z_n − (Qz)_n / Q_nn, 1 / Q_nn).
    """
    z, Q = auxiliary.copy(), precision
    Qz = Q @ z
    variances = (1.0 / np.diagonal(Q)).tolist()
    uniforms = (1.0 - rng.random((len(z), 2))).tolist()  # in (0, 1]
    # Plain Python floats: n is small, and the loop cannot be vectorised.
    for n, intervals in enumerate(_intervals(regions)):
        v = variances[n]
        old = float(z[n])
        mean = old - float(Qz[n]) * v
        new = _draw_in_intervals(rng, mean, v**0.5, intervals, *uniforms[n])
        z[n] = new
        Qz += Q[n] * (new - old)
    return z


def gaussian_log_marginal(lower: Array, auxiliary: Array) -> float:
    """log N(z; 0, V) up to its constant, V = lower @ lower.T."""
    quadratic = float(auxiliary @ cholesky_solve(lower, auxiliary))
    return -0.5 * quadratic - 0.5 * cholesky_log_det(lower)


def leave_one_out(state: AuxiliaryState) -> tuple[Array, Array]:
    """Mean and standard deviation of each z_n given the others; both (n,)."""
    variance = 1.0 / np.diagonal(state.precision)
    return state.auxiliary - variance * (state.precision @ state.auxiliary), np.sqrt(variance)


def log_interval_probabilities(state: AuxiliaryState, regions: Regions) -> Array:
    """log P(z_n in interval r | z_{-n}, its region), (n, R): averages have less noise than z's."""
    log_masses = log_region_masses(regions, *leave_one_out(state))
    return log_masses - np.logaddexp.reduce(log_masses, axis=1, keepdims=True)


def slide_sweep(
    rng: np.random.Generator,
    latent: Array,
    log_parameters: Array,
    regions: Regions,
    gram: GramFunction,
    prior: LogParameterPrior,
) -> tuple[Array, Array]:
    """The lecture's own sweep, the yardstick: z | f, then f | z, then θ | f; (f, θ) -> (f, θ)."""
    z = sample_regions(rng, regions, latent, 1.0)
    state = init(z, log_parameters, gram)
    f, _ = sample_latent(rng, state, gram)
    if len(prior.mean) == 0:
        return f, log_parameters

    def log_prior_of_latent(theta: Array) -> float:
        return gaussian_log_marginal(jittered_cholesky(gram(theta)).lower, f)

    theta, _, _ = elliptical_slice.step(
        rng, log_parameters, log_prior_of_latent(log_parameters), log_prior_of_latent,
        prior.sd * rng.standard_normal(len(prior.sd)), prior.mean,
    )  # fmt: skip
    return f, theta


def _noisy_factor(gram_matrix: Array) -> Array:
    """The lower factor of V = C + I; C is overwritten."""
    gram_matrix[np.diag_indices_from(gram_matrix)] += 1.0
    return jittered_cholesky(gram_matrix).lower


def _intervals(regions: Regions) -> list[list[tuple[float, float, float]]]:
    """Each row's own intervals as (lower, upper, log weight), those without weight left out."""
    rows = zip(regions.lower.tolist(), regions.upper.tolist(), regions.log_weight.tolist())
    return [[t for t in zip(*row) if t[2] > -inf] for row in rows]


def _draw_in_intervals(
    rng: np.random.Generator,
    mean: float,
    sd: float,
    intervals: list[tuple[float, float, float]],
    uniform_interval: float,
    uniform_value: float,
) -> float:
    """One draw of N(mean, sd²) restricted to a union of weighted intervals."""
    lower, upper, _ = intervals[0]
    if len(intervals) > 1:
        log_masses = [w + _log_mass((a - mean) / sd, (b - mean) / sd) for a, b, w in intervals]
        top = max(log_masses)
        masses = [exp(m - top) for m in log_masses]
        left = uniform_interval * sum(masses)
        for (lower, upper, _), mass in zip(intervals, masses):  # noqa: B007
            left -= mass
            if left <= 0.0:
                break
    if upper == inf:
        x = -ndtri_exp(log(uniform_value) + log_ndtr((mean - lower) / sd))
        return max(mean + sd * float(x), lower)
    if lower == -inf:
        x = ndtri_exp(log(uniform_value) + log_ndtr((upper - mean) / sd))
        return min(mean + sd * float(x), upper)
    return float(truncated_normal(rng, mean, sd, lower, upper))


def _log_mass(a: float, b: float) -> float:
    if b == inf:
        return float(log_ndtr(-a))
    if a == -inf:
        return float(log_ndtr(b))
    return float(log_ndtr_difference(a, b))
