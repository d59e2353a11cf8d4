"""Gibbs sampling of z = f + ε under any regions of z, of the kernel's log-parameters θ, and of φ.

z ~ N(0, V), V = C(θ) + I, each z_n confined to its region. z and f are (n,), or (n, K) with one
function per class, all with one kernel. φ are the regions' own free parameters, such as cut points.

The lecture's sweep is z | f, then f | z, then θ | f (paper 004). Ours mixes better for two reasons.

θ is drawn twice: given z, whose marginal likelihood is Gaussian; and with z integrated out, given
the whitened function ν = L^{-1} f. The first move works well where the labels say much, the second
where they say little, and interwoven (Yu & Meng 2011) they work well everywhere.

The whole function moves at once, with z integrated out: by elliptical slices, besides drawing each
z_n given the other z (Holmes & Held 2006); or, with several functions and one region per row, by a
Hamiltonian step, because slices shrink as the number of functions grows and the likelihood is
log-concave there.

Where regions say nothing about the mean of a row's z over classes, that mean is left out of θ's
conditional and drawn exactly from its prior: K − 1 functions are sampled, not K.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import cholesky_inverse, cholesky_log_det, cholesky_solve, jittered_cholesky
from atoll.core.regions import Move, PreparedRegions, RegionFamily, Regions, Total
from atoll.inference import elliptical_slice, hmc, slice_sampling
from atoll.inference.elliptical_slice import ArcWidth

Array = NDArray[np.float64]
GramFunction = Callable[[Array], Array]

# Slices of the whole function per sweep; the larger number is for rows that may change region.
N_SLICES, N_SLICES_UNIONS = 2, 10
LEAPFROG_STEPS = (5, 12)  # a Hamiltonian step has 5 to 11; a sweep has one such step
FARTHEST = 12.0  # a trajectory may take the log variance this many prior deviations from its mean


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
    latent : f, in the shape of z; zero before the first sweep
    log_parameters : (p,) θ
    region_parameters : (q,) φ
    noisy_factor : (n, n) lower Cholesky factor of V at θ
    jitter : jitter that factoring C needed
    arc_given_z, arc_given_whitened : widths of the first arcs of the two steps of θ
    step_size : step size of the Hamiltonian steps of the whole function
    """

    auxiliary: Array
    latent: Array
    log_parameters: Array
    region_parameters: Array
    noisy_factor: Array
    jitter: float
    arc_given_z: ArcWidth
    arc_given_whitened: ArcWidth
    step_size: hmc.StepSize


def init(
    auxiliary: Array, log_parameters: Array, region_parameters: Array, gram: GramFunction
) -> AuxiliaryState:
    """Return the state at z, θ and φ; gram: log-parameters -> C (n, n), a fresh array."""
    return AuxiliaryState(
        auxiliary,
        np.zeros_like(auxiliary),
        log_parameters,
        region_parameters,
        _noisy_factor(gram(log_parameters)),
        0.0,
        elliptical_slice.init_width(),
        elliptical_slice.init_width(),
        hmc.init_step_size(0.1),
    )


def sweep(
    rng: np.random.Generator,
    state: AuxiliaryState,
    family: RegionFamily,
    gram: GramFunction,
    prior: LogParameterPrior,
    adapt: bool = False,
) -> AuxiliaryState:
    """Draw every z_n given the others, θ given z, then f, φ and θ with z integrated out.

    The sweep leaves p(z, θ, φ | labels) invariant.

    Parameters
    ----------
    family : the regions of the n rows at any φ
    gram : log-parameters -> C (n, n), a fresh array
    prior : prior of the log-parameters; if it has none, θ is fixed
    adapt : whether to adapt the arcs and the Hamiltonian step size; true during warm-up
    """
    prepared = family.at(state.region_parameters)
    if not moves_along_gradient(prepared):
        precision = cholesky_inverse(state.noisy_factor)
        z = sample_auxiliary(rng, state.auxiliary, precision, prepared)
        state = state._replace(auxiliary=z)
    if family.shift_index is not None:
        state = shift(rng, state, family, family.shift_index)
    if len(prior.mean) > 0:
        state = step_given_auxiliary(rng, state, prepared.regions.n_free, gram, prior, adapt)
    return step_given_whitened(rng, state, family, gram, prior, adapt)


def sample_auxiliary(
    rng: np.random.Generator, auxiliary: Array, precision: Array, prepared: PreparedRegions
) -> Array:
    """Update each z_n | z_{-n} in turn, confined to its region; f is integrated out.

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
        # Plain Python floats, because the loop cannot be vectorised and tiny arrays are slow.
        new = np.array(update_row(n, old.tolist(), mean.tolist(), deviations[n], uniforms[n]))
        Qz += product(Q[n], new - old)
        z[n] = new  # last, because `old` is a view of z[n]
    return z


def shift(
    rng: np.random.Generator, state: AuxiliaryState, family: RegionFamily, index: int
) -> AuxiliaryState:
    """Move all z and the regions together, by a distance drawn from its normal conditional.

    No row leaves its region: the distance c has density ∝ N(z + c; 0, V) × prior(φ_index + c).
    """
    z, phi = state.auxiliary, state.region_parameters.copy()
    column_sums = cholesky_solve(state.noisy_factor, np.ones(len(z)))  # of V^{-1}
    precision = column_sums.sum() + family.sd[index] ** -2
    pull = column_sums @ z + (phi[index] - family.mean[index]) / family.sd[index] ** 2
    distance = -pull / precision + rng.standard_normal() / np.sqrt(precision)
    phi[index] += distance
    return state._replace(auxiliary=z + distance, region_parameters=phi)


def step_given_auxiliary(
    rng: np.random.Generator,
    state: AuxiliaryState,
    n_free: int,
    gram: GramFunction,
    prior: LogParameterPrior,
    adapt: bool = False,
) -> AuxiliaryState:
    """Move θ | z by elliptical slice sampling on N(z; 0, C(θ) + I), over the free dimensions."""
    z, factor, arc = state.auxiliary, state.noisy_factor, state.arc_given_z
    if z.ndim == 2:
        z = z - z.mean(axis=1, keepdims=True)  # margins between classes depend on contrasts only

    def log_marginal(log_parameters: Array) -> float:
        nonlocal factor
        factor = _noisy_factor(gram(log_parameters))
        return gaussian_log_marginal(factor, z, n_free)

    theta, _, info = elliptical_slice.step(
        rng, state.log_parameters, gaussian_log_marginal(factor, z, n_free), log_marginal,
        prior.sd * rng.standard_normal(len(prior.sd)), prior.mean, float(np.exp(arc.log_width)),
    )  # fmt: skip
    if adapt:
        state = state._replace(arc_given_z=elliptical_slice.adapt_width(arc, info))
    if theta is state.log_parameters:
        return state
    return state._replace(log_parameters=theta, noisy_factor=factor)  # the last is accepted


def step_given_whitened(
    rng: np.random.Generator,
    state: AuxiliaryState,
    family: RegionFamily,
    gram: GramFunction,
    prior: LogParameterPrior,
    adapt: bool = False,
) -> AuxiliaryState:
    """Move ν, φ and θ on Π P(region_n(φ) | f = L(θ) ν), then draw z | f."""
    lower, jitter = jittered_cholesky(gram(state.log_parameters))
    start = sample_whitened(rng, state.auxiliary, lower, state.noisy_factor)
    whitened, f, theta, phi, tuned = _step_function_and_scales(
        rng, state, start, lower, family, prior, adapt
    )
    state = state._replace(region_parameters=phi, step_size=tuned)
    prepared = family.at(phi)
    if len(prior.mean) == 0:  # θ is fixed, and so is the factor of V
        z = prepared.regions.sample(rng, f, 1.0)
        return state._replace(auxiliary=z, latent=f, jitter=jitter)
    C, at_theta = lower, f  # overwritten by each proposal of the step below

    def total_at(proposal: Array, least: float) -> float:
        nonlocal C, at_theta, jitter
        C = gram(proposal)
        factor, jitter = jittered_cholesky(C)
        at_theta = factor @ whitened
        return prepared.total(at_theta, least)

    arc = state.arc_given_whitened
    new, _, info = elliptical_slice.step(
        rng, theta, prepared.total(f), total_at,
        prior.sd * rng.standard_normal(len(prior.sd)), prior.mean, float(np.exp(arc.log_width)),
        takes_least=True,
    )  # fmt: skip
    if adapt:
        state = state._replace(arc_given_whitened=elliptical_slice.adapt_width(arc, info))
    if new is theta:  # no proposal was accepted; otherwise the last one was
        C, at_theta = gram(theta), f
    return state._replace(
        auxiliary=prepared.regions.sample(rng, at_theta, 1.0),
        latent=at_theta,
        log_parameters=new,
        noisy_factor=_noisy_factor(C),
        jitter=jitter,
    )


def _step_function_and_scales(
    rng: np.random.Generator,
    state: AuxiliaryState,
    whitened: Array,
    lower: Array,
    family: RegionFamily,
    prior: LogParameterPrior,
    adapt: bool,
) -> tuple[Array, Array, Array, Array, hmc.StepSize]:
    """Return ν, f, θ, φ and the step size after steps of ν, the log variance and φ without z.

    These steps move the whole function at once, and with it rows from one region to another; moved
    one row at a time, a z is held by its neighbours. A step costs O(n²), little beside a Cholesky
    factorisation, because a change of the variance only scales L.
    """
    theta, phi, v = state.log_parameters.copy(), state.region_parameters, prior.variance_index
    prepared, tuned = family.at(phi), state.step_size
    if whitened.ndim == 2:  # the mean over classes, which no region constrains, is a prior draw
        K = whitened.shape[1]
        common = rng.standard_normal(len(whitened)) / np.sqrt(K)
        whitened = whitened + (common - whitened.mean(axis=1))[:, None]
    along_gradient = moves_along_gradient(prepared)
    n_slices = N_SLICES_UNIONS if prepared.several else N_SLICES
    f, scale = lower @ whitened, 1.0  # L = scale × lower
    current = 0.0 if along_gradient else prepared.total(f)
    for _ in range(1 if along_gradient else n_slices):
        if along_gradient:
            whitened, f, theta, tuned = _hamiltonian_step(
                rng, whitened, theta, lower, prepared.regions, prior, tuned, adapt
            )
        else:
            to_function = partial(_scaled_product, scale, lower)
            whitened, f, theta, current = _slice_function(
                rng, whitened, f, current, theta, to_function, family.at(phi).total, prior
            )
        if family.stretch is not None and v is not None:
            phi, c = _stretch(rng, phi, f, theta[v], family, prior, v)
            theta[v] += 2.0 * c
            f = np.exp(c) * f
        if len(phi) > 0:
            phi = sample_region_parameters(rng, phi, f, family)
            current = family.at(phi).total(f)
        scale = 1.0 if v is None else float(np.exp(0.5 * (theta[v] - state.log_parameters[v])))
    return whitened, f, theta, phi, tuned


def moves_along_gradient(prepared: PreparedRegions) -> bool:
    """Return whether to take Hamiltonian steps: several functions, and one region per row."""
    return prepared.regions.n_free > 1 and not prepared.several


def _slice_function(
    rng: np.random.Generator,
    whitened: Array,
    latent: Array,
    current: float,
    log_parameters: Array,
    to_function: Callable[[Array], Array],
    total: Total,
    prior: LogParameterPrior,
) -> tuple[Array, Array, Array, float]:
    """Return ν, f, θ and the log-likelihood after elliptical slices of ν and of the log variance.

    to_function : ν -> f
    total : f -> log-likelihood
    current : log-likelihood at `latent`
    """
    theta, v = log_parameters.copy(), prior.variance_index
    # f and ν turn by the same angle on an ellipse each, so that proposals need no product with L.
    along = rng.standard_normal(whitened.shape)
    (f, whitened), current, _ = elliptical_slice.step(
        rng, np.stack([latent, whitened]), current,
        lambda pair, least: total(pair[0], least), np.stack([to_function(along), along]),
        takes_least=True,
    )  # fmt: skip
    if v is not None:
        theta[v], f, current = elliptical_slice.step_log_variance(
            rng, theta[v], f, current, total, prior.mean[v], prior.sd[v], takes_least=True
        )
    return whitened, f, theta, current


def _scaled_product(scale: float, lower: Array, whitened: Array) -> Array:
    """Return f = scale L ν."""
    return scale * (lower @ whitened)


def _hamiltonian_step(
    rng: np.random.Generator,
    whitened: Array,
    log_parameters: Array,
    lower: Array,
    regions: Regions,
    prior: LogParameterPrior,
    tuned: hmc.StepSize,
    adapt: bool,
) -> tuple[Array, Array, Array, hmc.StepSize]:
    """Return ν, f, θ and the step size after a Hamiltonian step of ν and the log variance.

    The log variance is the last coordinate, in units of its prior. If the kernel has none, the last
    coordinate is a normal number on which nothing depends.
    """
    theta, v = log_parameters.copy(), prior.variance_index
    start = rng.standard_normal() if v is None else (theta[v] - prior.mean[v]) / prior.sd[v]
    spread = 0.0 if v is None else float(prior.sd[v])

    def function(position: Array) -> tuple[Array, float]:
        """Return f and the factor by which L is scaled."""
        scale = float(np.exp(0.5 * spread * (position[-1] - start)))
        return scale * (lower @ position[:-1].reshape(whitened.shape)), scale

    def log_density(position: Array) -> tuple[float, Array]:
        if abs(position[-1]) > FARTHEST:
            return -np.inf, -position
        f, scale = function(position)
        slopes = regions.gradients(f, 1.0)
        gradient = -position
        gradient[:-1] += scale * (lower.T @ slopes.mean).ravel()
        gradient[-1] += 0.5 * spread * float(np.sum(f * slopes.mean))
        return float(slopes.log_probability.sum() - 0.5 * position @ position), gradient

    position, _, tuned = hmc.tuned_step(
        rng, np.append(whitened, start), log_density, tuned, LEAPFROG_STEPS, adapt
    )
    if v is not None:
        theta[v] = prior.mean[v] + prior.sd[v] * position[-1]
    return position[:-1].reshape(whitened.shape), function(position)[0], theta, tuned


def sample_region_parameters(
    rng: np.random.Generator, region_parameters: Array, latent: Array, family: RegionFamily
) -> Array:
    """Move φ | f by slice sampling along each of the family's moves; z is integrated out.

    The textbook's update of a cut point given z is confined between two neighbouring z and hardly
    moves; with z integrated out it is not confined (Cowles 1996).
    """
    phi, total = region_parameters, family.given(latent)
    for move in family.moves:

        def log_density(c: float, move: Move = move, phi: Array = phi) -> float:
            moved, log_volume = move(phi, c)
            if log_volume == -np.inf:
                return -np.inf
            return log_volume + _log_prior(moved, family) + total(moved)

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
    """Rescale φ and f together, with ν held; return φ and the log of the factor.

    f is rescaled through its variance. With many labels the cut points hold the scale of f, and f
    holds the scale of the cut points, so that neither can change alone.
    """
    stretch = family.stretch
    assert stretch is not None
    centre, spread = prior.mean[variance_index], prior.sd[variance_index]

    def log_density(c: float) -> float:
        phi, log_volume = stretch(region_parameters, c)
        deviation = (log_variance + 2.0 * c - centre) / spread
        total = family.given(np.exp(c) * latent)(phi)
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
    noisy_factor: Array,
) -> Array:
    """Draw ν, f = L ν, given z by Matheron's rule: a prior draw, corrected by the observed z.

    f = f₀ + C V^{-1} (z − f₀ − ε₀) with f₀ = L ν₀ and C = L Lᵀ. Hence ν = ν₀ + Lᵀ V^{-1} (…), and L
    is never inverted.

    Parameters
    ----------
    auxiliary : z
    lower : L
    noisy_factor : lower Cholesky factor of V
    """
    z = auxiliary
    prior = rng.standard_normal(z.shape)
    surprise = z - lower @ prior - rng.standard_normal(z.shape)
    return prior + lower.T @ cholesky_solve(noisy_factor, surprise)


def sample_latent(rng: np.random.Generator, state: AuxiliaryState, gram: GramFunction) -> Array:
    """Draw f | z, θ."""
    lower = jittered_cholesky(gram(state.log_parameters)).lower
    return lower @ sample_whitened(rng, state.auxiliary, lower, state.noisy_factor)


def gaussian_log_marginal(lower: Array, auxiliary: Array, n_functions: int = 1) -> float:
    """Return log N(z; 0, V) up to a constant, V = lower @ lower.T, summed over n_functions."""
    quadratic = float(np.sum(auxiliary * cholesky_solve(lower, auxiliary)))
    return -0.5 * quadratic - 0.5 * n_functions * cholesky_log_det(lower)


def leave_one_out(state: AuxiliaryState) -> tuple[Array, Array]:
    """Return the mean (in the shape of z) and the standard deviation (n,) of each z_n | z_{-n}."""
    variance = 1.0 / np.diagonal(cholesky_inverse(state.noisy_factor))
    drift = cholesky_solve(state.noisy_factor, state.auxiliary)
    mean = state.auxiliary - (variance * drift.T).T
    return mean, np.sqrt(variance)


def slide_sweep(
    rng: np.random.Generator,
    latent: Array,
    log_parameters: Array,
    regions: Regions,
    gram: GramFunction,
    prior: LogParameterPrior,
) -> tuple[Array, Array]:
    """Return f and θ after the lecture's sweep, the yardstick: z | f, then f | z, then θ | f."""
    z = regions.sample(rng, latent, 1.0)
    state = init(z, log_parameters, np.zeros(0), gram)
    f = sample_latent(rng, state, gram)
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
    """Return the lower Cholesky factor of V = C + I; C is overwritten."""
    gram_matrix[np.diag_indices_from(gram_matrix)] += 1.0
    return jittered_cholesky(gram_matrix).lower
