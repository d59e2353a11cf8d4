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
from atoll.core.regions import Move, PreparedRegions, RegionFamily, Regions, log_region_shares
from atoll.inference import elliptical_slice, slice_sampling
from atoll.inference.elliptical_slice import ArcWidth, EllipticalSliceInfo

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
    arc_given_z, arc_given_whitened : first arcs of the two steps of θ
    """

    auxiliary: Array
    log_parameters: Array
    region_parameters: Array
    precision: Array
    log_det: float
    arc_given_z: ArcWidth
    arc_given_whitened: ArcWidth


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
        elliptical_slice.init_width(),
        elliptical_slice.init_width(),
    )


def sweep(
    rng: np.random.Generator,
    state: AuxiliaryState,
    family: RegionFamily,
    gram: GramFunction,
    prior: LogParameterPrior,
    adapt: bool = False,
) -> AuxiliaryState:
    """Every z_n given the others, θ given z, then f, φ and θ without z.

    p(z, θ, φ | labels) is invariant.

    Parameters
    ----------
    family : the regions of the n rows at any φ
    gram : log-parameters -> C (n, n), a fresh array
    prior : of the log-parameters; none of them keeps θ
    adapt : whether the widths of arcs are adapted, in warm-up
    """
    prepared = family.at(state.region_parameters)
    z = sample_auxiliary(rng, state.auxiliary, state.precision, prepared)
    state = state._replace(auxiliary=z)
    if family.shift_index is not None:
        state = shift(rng, state, family, family.shift_index)
    theta = state.log_parameters
    if len(prior.mean) > 0:
        theta, info = sample_log_parameters(rng, state, prepared.regions.n_free, gram, prior)
        if adapt:
            arc = elliptical_slice.adapt_width(state.arc_given_z, info)
            state = state._replace(arc_given_z=arc)
    return step_given_whitened(rng, state, theta, family, gram, prior, adapt)


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


def shift(
    rng: np.random.Generator, state: AuxiliaryState, family: RegionFamily, index: int
) -> AuxiliaryState:
    """Move all z and the regions along together, by a distance drawn from its normal conditional.

    No row leaves its region, so that c has the density N(z + c; 0, V) N(φ_index + c; its prior).
    """
    z, phi = state.auxiliary, state.region_parameters.copy()
    column_sums = state.precision.sum(axis=0)
    precision = column_sums.sum() + family.sd[index] ** -2
    pull = column_sums @ z + (phi[index] - family.mean[index]) / family.sd[index] ** 2
    distance = -pull / precision + rng.standard_normal() / np.sqrt(precision)
    phi[index] += distance
    return state._replace(auxiliary=z + distance, region_parameters=phi)


def sample_log_parameters(
    rng: np.random.Generator,
    state: AuxiliaryState,
    n_free: int,
    gram: GramFunction,
    prior: LogParameterPrior,
) -> tuple[Array, EllipticalSliceInfo]:
    """θ | z by elliptical slice sampling on N(z; 0, C(θ) + I) over the free dimensions of z."""
    z = state.auxiliary
    if z.ndim == 2:
        z = z - z.mean(axis=1, keepdims=True)  # contrasts: all that margins between classes see
    current = -0.5 * float(np.sum(z * (state.precision @ z))) - 0.5 * n_free * state.log_det

    def log_marginal(log_parameters: Array) -> float:
        return gaussian_log_marginal(_noisy_factor(gram(log_parameters)), z, n_free)

    theta, _, info = elliptical_slice.step(
        rng, state.log_parameters, current, log_marginal,
        prior.sd * rng.standard_normal(len(prior.sd)), prior.mean,
        float(np.exp(state.arc_given_z.log_width)),
    )  # fmt: skip
    return theta, info


def step_given_whitened(
    rng: np.random.Generator,
    state: AuxiliaryState,
    log_parameters: Array,
    family: RegionFamily,
    gram: GramFunction,
    prior: LogParameterPrior,
    adapt: bool = False,
) -> AuxiliaryState:
    """ν, φ and θ by elliptical slice sampling on Π P(region_n(φ) | f = L(θ) ν), then z | f.

    Parameters
    ----------
    state : z, with the precision of the log-parameters it came with
    log_parameters : θ now
    """
    C = gram(log_parameters)
    lower = jittered_cholesky(C).lower
    if log_parameters is state.log_parameters:
        start = sample_whitened(rng, state.auxiliary, lower, lambda v: state.precision @ v)
    else:  # solves with the factor alone: the inverse is wanted once a sweep, at its end
        noisy = _noisy_factor(C)
        start = sample_whitened(rng, state.auxiliary, lower, lambda v: cholesky_solve(noisy, v))
    state = state._replace(log_parameters=log_parameters)
    whitened, f, theta, phi = _step_function_and_scales(rng, state, start, lower, family, prior)
    prepared = family.at(phi)
    if len(prior.mean) == 0:  # and the precision stays as it is
        z = prepared.regions.sample(rng, f, 1.0)
        return state._replace(auxiliary=z, region_parameters=phi)
    at_theta = f  # what the last proposal of the step below leads to

    def total_at(proposal: Array) -> float:
        nonlocal at_theta
        at_theta = jittered_cholesky(gram(proposal)).lower @ whitened
        return prepared.total(at_theta)

    arc = state.arc_given_whitened
    new, _, info = elliptical_slice.step(
        rng, theta, prepared.total(f), total_at,
        prior.sd * rng.standard_normal(len(prior.sd)), prior.mean, float(np.exp(arc.log_width)),
    )  # fmt: skip
    f = f if new is theta else at_theta  # the last proposal is the one that is accepted
    return init(prepared.regions.sample(rng, f, 1.0), new, phi, gram)._replace(
        arc_given_z=state.arc_given_z,
        arc_given_whitened=elliptical_slice.adapt_width(arc, info) if adapt else arc,
    )


def _step_function_and_scales(
    rng: np.random.Generator,
    state: AuxiliaryState,
    whitened: Array,
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
    log_likelihood = family.at(phi).total
    several = bool((np.isfinite(family.at(phi).regions.log_weight).sum(axis=1) > 1).any())
    # f and ν lie on one ellipse each, at the same angle: no product with L for every proposal.
    if whitened.ndim == 2:  # what the regions say nothing of is drawn from its prior
        K = whitened.shape[1]
        common = rng.standard_normal(len(whitened)) / np.sqrt(K)
        whitened = whitened + (common - whitened.mean(axis=1))[:, None]
    pair = np.stack([lower @ whitened, whitened])
    current = log_likelihood(pair[0])
    draws = rng.standard_normal((N_STEPS_UNIONS if several else N_STEPS, *whitened.shape))
    scale = 1.0  # of L, relative to `lower`

    def total_of_pair(pair: Array) -> float:
        return log_likelihood(pair[0])

    for along_whitened in draws:
        pair, current, _ = elliptical_slice.step(
            rng, pair, current, total_of_pair,
            np.stack([scale * (lower @ along_whitened), along_whitened]),
        )  # fmt: skip
        if v is not None:
            theta[v], pair[0], current = elliptical_slice.step_log_variance(
                rng, theta[v], pair[0], current, log_likelihood, prior.mean[v], prior.sd[v]
            )
        if family.stretch is not None and v is not None:
            phi, c = _stretch(rng, phi, pair[0], theta[v], family, prior, v)
            theta[v] += 2.0 * c
            pair[0] *= np.exp(c)
        if len(phi) > 0:
            phi = sample_region_parameters(rng, phi, pair[0], family)
            log_likelihood = family.at(phi).total
            current = log_likelihood(pair[0])
        scale = 1.0 if v is None else np.exp(0.5 * (theta[v] - state.log_parameters[v]))
    return pair[1], pair[0], theta, phi


def sample_region_parameters(
    rng: np.random.Generator, region_parameters: Array, latent: Array, family: RegionFamily
) -> Array:
    """φ | f by slice sampling along each of the family's moves; z is integrated out.

    The textbook's update of a cut point given z is confined between two z and hardly moves; with z
    integrated out it is not (Cowles 1996).
    """
    phi = region_parameters
    for move in family.moves:

        def log_density(c: float, move: Move = move, phi: Array = phi) -> float:
            moved, log_volume = move(phi, c)
            if log_volume == -np.inf:
                return -np.inf
            return log_volume + _log_prior(moved, family) + family.at(moved).total(latent)

        phi, _ = move(phi, slice_sampling.step(rng, log_density))
    return phi


def _stretch(
    rng: np.random.Generator,
    region_parameters: Array,
    latent: Array,
    log_variance: float,
    family: RegionFamily,
    prior: LogParameterPrior,
    variance_index: int,
) -> tuple[Array, float]:
    """φ and f in one new scale, f by its variance, ν held; returns φ and the log of the factor.

    Where the labels are many, cut points hold the scale of f and f holds that of the cut points.
    """
    stretch = family.stretch
    assert stretch is not None
    centre, spread = prior.mean[variance_index], prior.sd[variance_index]

    def log_density(c: float) -> float:
        phi, log_volume = stretch(region_parameters, c)
        deviation = (log_variance + 2.0 * c - centre) / spread
        total = family.at(phi).total(np.exp(c) * latent)
        return log_volume + _log_prior(phi, family) - 0.5 * deviation**2 + total

    c = slice_sampling.step(rng, log_density)
    return stretch(region_parameters, c)[0], c


def _log_prior(region_parameters: Array, family: RegionFamily) -> float:
    deviations = (region_parameters - family.mean) / family.sd
    return -0.5 * float(deviations @ deviations)


def sample_whitened(
    rng: np.random.Generator,
    auxiliary: Array,
    lower: Array,
    solve: Callable[[Array], Array],
) -> Array:
    """Draw ν, f = L ν, given z by Matheron's rule: a prior draw, corrected by what z says of it.

    f = f₀ + C V^{-1} (z − f₀ − ε₀) with f₀ = L ν₀ and C = L Lᵀ: so ν = ν₀ + Lᵀ V^{-1} (…), and L
    is never inverted.

    Parameters
    ----------
    auxiliary : z
    lower : L
    solve : v -> V^{-1} v
    """
    z = auxiliary
    prior = rng.standard_normal(z.shape)
    surprise = z - lower @ prior - rng.standard_normal(z.shape)
    return prior + lower.T @ solve(surprise)


def sample_latent(
    rng: np.random.Generator, state: AuxiliaryState, gram: GramFunction
) -> tuple[Array, float]:
    """Draw f | z, θ; returns f and the jitter that factoring C took."""
    lower, jitter = jittered_cholesky(gram(state.log_parameters))
    whitened = sample_whitened(rng, state.auxiliary, lower, lambda v: state.precision @ v)
    return lower @ whitened, jitter


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
