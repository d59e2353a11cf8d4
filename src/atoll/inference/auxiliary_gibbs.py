"""Gibbs sampling of z = f + ε under any regions of z, of the kernel's log-parameters θ, and of φ.

z ~ N(0, V), V = C(θ) + I, each z_n confined to its region. z and f are (n,), or (n, K) with one
function a class, all with one kernel. φ are the regions' own free parameters, such as cut points.

Against the lecture's sweep (paper 004: z | f, then f | z, θ | f) three things mix better. Each z_n
is drawn given the other z alone, with f integrated out (Holmes & Held 2006). θ is drawn given z,
whose marginal likelihood is Gaussian, and then ν, φ and θ with z integrated out, where ν = L^{-1} f
is the whitened function: the first moves well where the labels say much, the second where they say
little, and the two interwoven (Yu & Meng 2011) move well everywhere.

Where regions say nothing of the mean of a row's z over classes, that mean is left out of θ's
conditional and drawn from its prior, exactly: K − 1 functions are sampled, not K.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import cholesky_inverse, cholesky_log_det, cholesky_solve, jittered_cholesky
from atoll.core.regions import PreparedRegions, RegionFamily, Regions, log_region_shares
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

    auxiliary : (n,) or (n, K) z
    log_parameters : (p,) of the kernel
    region_parameters : (q,) φ
    precision : (n, n) V^{-1} at those log-parameters
    log_det : log det V
    """

    auxiliary: Array
    log_parameters: Array
    region_parameters: Array
    precision: Array
    log_det: float


def init(
    auxiliary: Array, log_parameters: Array, region_parameters: Array, gram: GramFunction
) -> AuxiliaryState:
    """The state at z, θ and φ; gram: log-parameters -> C (n, n), a fresh array."""
    lower = _noisy_factor(gram(log_parameters))
    return AuxiliaryState(
        auxiliary,
        log_parameters,
        region_parameters,
        cholesky_inverse(lower),
        cholesky_log_det(lower),
    )


def sweep(
    rng: np.random.Generator,
    state: AuxiliaryState,
    family: RegionFamily,
    gram: GramFunction,
    prior: LogParameterPrior,
) -> AuxiliaryState:
    """Every z_n given the others, θ given z, then f, φ and θ without z.

    p(z, θ, φ | labels) is invariant.

    Parameters
    ----------
    family : the regions of the n rows at any φ
    gram : log-parameters -> C (n, n), a fresh array
    prior : of the log-parameters; none of them keeps θ
    """
    prepared = family.at(state.region_parameters)
    z = sample_auxiliary(rng, state.auxiliary, state.precision, prepared)
    state = state._replace(auxiliary=z)
    theta = state.log_parameters
    if len(prior.mean) > 0:
        theta = sample_log_parameters(rng, state, prepared.regions.n_free, gram, prior)
    return step_given_whitened(rng, state, theta, family, gram, prior)


def sample_auxiliary(
    rng: np.random.Generator, auxiliary: Array, precision: Array, prepared: PreparedRegions
) -> Array:
    """Update each z_n | z_{-n}, confined to its region, in turn; f is integrated out.

    With Q = V^{-1}: z_n | z_{-n} ~ N(z_n − (Qz)_n / Q_nn, 1 / Q_nn), independently over classes.
    """
    z, Q = auxiliary.copy(), precision
    Qz = Q @ z
    variances = 1.0 / np.diagonal(Q)
    deviations = np.sqrt(variances).tolist()
    uniforms = (1.0 - rng.random((len(z), prepared.regions.n_uniforms))).tolist()  # in (0, 1]
    update_row, product = prepared.update_row, np.multiply.outer
    for n in range(len(z)):
        old = z[n]
        mean = old - Qz[n] * variances[n]
        # Plain Python floats: the loop cannot be vectorised, and arrays of a few are slow.
        new = np.array(update_row(n, old.tolist(), mean.tolist(), deviations[n], uniforms[n]))
        z[n] = new
        Qz += product(Q[n], new - old)
    return z


def sample_log_parameters(
    rng: np.random.Generator,
    state: AuxiliaryState,
    n_free: int,
    gram: GramFunction,
    prior: LogParameterPrior,
) -> Array:
    """θ | z by elliptical slice sampling on N(z; 0, C(θ) + I) over the free dimensions of z."""
    z = state.auxiliary
    if z.ndim == 2:
        z = z - z.mean(axis=1, keepdims=True)  # contrasts: all that margins between classes see
    current = -0.5 * float(np.sum(z * (state.precision @ z))) - 0.5 * n_free * state.log_det

    def log_marginal(log_parameters: Array) -> float:
        return gaussian_log_marginal(_noisy_factor(gram(log_parameters)), z, n_free)

    theta, _, _ = elliptical_slice.step(
        rng, state.log_parameters, current, log_marginal,
        prior.sd * rng.standard_normal(len(prior.sd)), prior.mean,
    )  # fmt: skip
    return theta


def step_given_whitened(
    rng: np.random.Generator,
    state: AuxiliaryState,
    log_parameters: Array,
    family: RegionFamily,
    gram: GramFunction,
    prior: LogParameterPrior,
) -> AuxiliaryState:
    """ν, φ and θ by elliptical slice sampling on Π P(region_n(φ) | f = L(θ) ν), then z | f.

    Parameters
    ----------
    state : z, with the precision of the log-parameters it came with
    log_parameters : θ now
    """
    C = gram(log_parameters)
    lower = jittered_cholesky(C).lower
    if log_parameters is not state.log_parameters:
        noisy = _noisy_factor(C)
        state = state._replace(
            log_parameters=log_parameters,
            precision=cholesky_inverse(noisy),
            log_det=cholesky_log_det(noisy),
        )
    whitened, f, theta, phi = _step_function_and_scales(rng, state, lower, family, prior)
    prepared = family.at(phi)
    if len(prior.mean) == 0:
        z = prepared.regions.sample(rng, f, 1.0)
        return state._replace(auxiliary=z, region_parameters=phi)

    def latent(log_parameters: Array) -> Array:
        return jittered_cholesky(gram(log_parameters)).lower @ whitened

    theta, _, _ = elliptical_slice.step(
        rng, theta, prepared.total(f), lambda proposal: prepared.total(latent(proposal)),
        prior.sd * rng.standard_normal(len(prior.sd)), prior.mean,
    )  # fmt: skip
    return init(prepared.regions.sample(rng, latent(theta), 1.0), theta, phi, gram)


def _step_function_and_scales(
    rng: np.random.Generator,
    state: AuxiliaryState,
    lower: Array,
    family: RegionFamily,
    prior: LogParameterPrior,
) -> tuple[Array, Array, Array, Array]:
    """ν, f, θ and φ after some steps of ν | θ, of the log variance and of φ; z integrated out.

    They move the whole function at once, and rows from one region to another, where z, one row
    at a time, is held by its neighbours. A step costs O(n²), little beside a factor: a change
    of variance scales L.
    """
    theta, phi, v = state.log_parameters.copy(), state.region_parameters, prior.variance_index
    regions, log_likelihood, _ = family.at(phi)
    several = bool((np.isfinite(regions.log_weight).sum(axis=1) > 1).any())
    # f and ν lie on one ellipse each, at the same angle: no product with L for every proposal.
    whitened = sample_whitened(rng, state, lower)
    if whitened.ndim == 2:  # what the regions say nothing of is drawn from its prior
        K = whitened.shape[1]
        common = rng.standard_normal(len(whitened)) / np.sqrt(K)
        whitened += (common - whitened.mean(axis=1))[:, None]
    pair = np.stack([lower @ whitened, whitened])
    current = log_likelihood(pair[0])
    draws = rng.standard_normal((N_STEPS_UNIONS if several else N_STEPS, *whitened.shape))
    scale = 1.0  # of L, relative to `lower`

    def total_of_pair(pair: Array) -> float:
        return log_likelihood(pair[0])

    def total_at(region_parameters: Array) -> float:
        return family.at(region_parameters).total(pair[0])

    for along_whitened in draws:
        pair, current, _ = elliptical_slice.step(
            rng, pair, current, total_of_pair,
            np.stack([scale * (lower @ along_whitened), along_whitened]),
        )  # fmt: skip
        if v is not None:
            theta[v], pair[0], current = elliptical_slice.step_log_variance(
                rng, theta[v], pair[0], current, log_likelihood, prior.mean[v], prior.sd[v]
            )
            scale = np.exp(0.5 * (theta[v] - state.log_parameters[v]))
        if len(phi) > 0:
            phi, current, _ = elliptical_slice.step(
                rng, phi, current, total_at,
                family.sd * rng.standard_normal(len(phi)), family.mean,
            )  # fmt: skip
            log_likelihood = family.at(phi).total
    return pair[1], pair[0], theta, phi


def sample_whitened(rng: np.random.Generator, state: AuxiliaryState, lower: Array) -> Array:
    """Draw ν, f = L ν, given z by Matheron's rule: a prior draw, corrected by what z says of it.

    f = f₀ + C V^{-1} (z − f₀ − ε₀) with f₀ = L ν₀ and C = L Lᵀ: so ν = ν₀ + Lᵀ V^{-1} (…), and L
    is never inverted.
    """
    z = state.auxiliary
    prior = rng.standard_normal(z.shape)
    surprise = z - lower @ prior - rng.standard_normal(z.shape)
    return prior + lower.T @ (state.precision @ surprise)


def sample_latent(
    rng: np.random.Generator, state: AuxiliaryState, gram: GramFunction
) -> tuple[Array, float]:
    """Draw f | z, θ; returns f and the jitter that factoring C took."""
    lower, jitter = jittered_cholesky(gram(state.log_parameters))
    return lower @ sample_whitened(rng, state, lower), jitter


def gaussian_log_marginal(lower: Array, auxiliary: Array, n_functions: int = 1) -> float:
    """log N(z; 0, V) up to its constant, V = lower @ lower.T, for so many functions."""
    quadratic = float(np.sum(auxiliary * cholesky_solve(lower, auxiliary)))
    return -0.5 * quadratic - 0.5 * n_functions * cholesky_log_det(lower)


def leave_one_out(state: AuxiliaryState) -> tuple[Array, Array]:
    """Mean, as z, and standard deviation, (n,), of each z_n given the others."""
    variance = 1.0 / np.diagonal(state.precision)
    drift = state.precision @ state.auxiliary
    mean = state.auxiliary - (variance * drift.T).T
    return mean, np.sqrt(variance)


def log_class_shares(state: AuxiliaryState, regions: Regions) -> Array:
    """log P(z_n in region r | z_{-n}, its regions), (n, R): averages have less noise than z's."""
    return log_region_shares(regions, *leave_one_out(state))


def slide_sweep(
    rng: np.random.Generator,
    latent: Array,
    log_parameters: Array,
    regions: Regions,
    gram: GramFunction,
    prior: LogParameterPrior,
) -> tuple[Array, Array]:
    """The lecture's own sweep, the yardstick: z | f, then f | z, then θ | f; (f, θ) -> (f, θ)."""
    z = regions.sample(rng, latent, 1.0)
    state = init(z, log_parameters, np.zeros(0), gram)
    f, _ = sample_latent(rng, state, gram)
    if len(prior.mean) == 0:
        return f, log_parameters
    n_functions = f.size // len(f)

    def log_prior_of_latent(theta: Array) -> float:
        return gaussian_log_marginal(jittered_cholesky(gram(theta)).lower, f, n_functions)

    theta, _, _ = elliptical_slice.step(
        rng, log_parameters, log_prior_of_latent(log_parameters), log_prior_of_latent,
        prior.sd * rng.standard_normal(len(prior.sd)), prior.mean,
    )  # fmt: skip
    return f, theta


def _noisy_factor(gram_matrix: Array) -> Array:
    """The lower factor of V = C + I; C is overwritten."""
    gram_matrix[np.diag_indices_from(gram_matrix)] += 1.0
    return jittered_cholesky(gram_matrix).lower
