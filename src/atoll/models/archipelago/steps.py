"""Hamiltonian steps of our sweep: of all functions with their amplitude, and of all of θ.

Both know how much the rows tell of the functions, W, one number for data and one for other rows,
found in warm-up (`Tuning`). The functions move in coordinates in which the posterior would be
white if the rows were observations of that precision: ν = Q^{-T} ε with Q Qᵀ = I + Lᵀ W L, so that
few and long steps suffice.

θ moves given noisy copies of the functions (Murray & Adams 2010, "surrogate data"): z = u + noise
of variance W^{-1}. Given z alone θ has the likelihood N(z | 0, C + W^{-1}), which does not hold it
the way the functions themselves do; and given z and θ the functions are a known Gaussian, whose
noise is held while θ moves and the functions follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from atoll.core.linalg import (
    cholesky_inverse,
    cholesky_log_det,
    cholesky_solve,
    jittered_cholesky,
    lower_times,
    solve_lower,
    through_cholesky,
)
from atoll.inference import hmc
from atoll.kernels.hyperparameters import gram_gradient_function
from atoll.models.archipelago.functions import (
    Kernels,
    Setting,
    gram_at_rows,
    kernels_at,
    mixed,
    mixing_or_none,
    served_by,
    unwhiten,
    unwhiten_transposed,
    whiten,
)
from atoll.models.archipelago.joint import RowFactors, open_row_factors
from atoll.models.archipelago.likelihood import log_total
from atoll.models.archipelago.state import ArchipelagoState, Tuning, known_rows

Array = NDArray[np.float64]

ACCEPTANCE = 0.8  # that step sizes are tuned to in warm-up
# Length of a trajectory of the functions (step size times steps, on average), and the most steps.
TRAJECTORY, MOST_STEPS = 2.0, 20
PARAMETER_TRAJECTORY, MOST_PARAMETER_STEPS = 1.5, 10  # of θ, in its standard deviations
# Of tuning in warm-up: the least weight of a new state, the weight of what it begins with, and the
# least that θ's standard deviation may be of its prior's.
SLOWEST_TUNING, FIRST_WEIGHT, LEAST_SPREAD = 0.02, 5.0, 0.1
FARTHEST = 10.0  # standard deviations of a log-parameter's prior, beyond which no step goes


# Functions and amplitude --------------------------------------------------------------------------


def sample_functions(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool = False
) -> ArchipelagoState:
    """Take one Hamiltonian step of all K whitened functions, and of each kernel's log variance.

    The log variance scales L, so that it comes along at no cost; it is where the number of
    rejections is slow to move.
    """
    prior, v = setting.prior, setting.prior.variance_index
    rows, factors, shape = open_row_factors(setting, state), state.factors, state.whitened.shape
    n_scales = 0 if v is None else len(factors)
    here = state.log_parameters[:, v] if v is not None else np.zeros(0)
    centre, spread = (prior.mean[v], prior.sd[v]) if v is not None else (0.0, 1.0)
    offset, half_spread = 0.5 * (centre - here), 0.5 * spread
    roots = _preconditioner(setting, state)

    def scaled_functions(position: Array) -> tuple[Array, Array, Array]:
        whitened = _whitened_by(roots, position[n_scales:].reshape(shape))
        u = unwhiten(factors, whitened)
        if n_scales == 0:
            return whitened, u, np.ones(0)
        scale = np.exp(offset + half_spread * position[:n_scales])
        u *= scale
        return whitened, u, scale

    def log_density(position: Array) -> float:
        if np.abs(position[:n_scales]).max(initial=0.0) > FARTHEST:
            return -np.inf
        whitened, u, _ = scaled_functions(position)
        return rows.log_density(u, position[:n_scales], whitened)

    def gradient(position: Array) -> Array:
        whitened, u, scale = scaled_functions(position)
        slope = rows.slope(u)
        by_position = np.empty_like(position)
        by_position[:n_scales] = -position[:n_scales]
        if n_scales > 0:
            by_position[:n_scales] += half_spread * _by_kernel(slope, u, n_scales)
            slope *= scale
        by_whitened = unwhiten_transposed(factors, slope)
        by_whitened -= whitened
        by_position[n_scales:] = _slope_by(roots, by_whitened).ravel()
        return by_position

    position = np.concatenate(
        [(here - centre) / spread, _coordinates_by(roots, state.whitened).ravel()]
    )
    step_size, n_leapfrog = _steps(rng, state.step_size, adapt, TRAJECTORY, MOST_STEPS)
    with np.errstate(over="ignore", invalid="ignore"):  # a step gone astray is refused
        moved, info = hmc.step_by_gradients(
            rng, position, log_density, gradient, step_size, n_leapfrog
        )
    if adapt:
        tuned = hmc.adapt_step_size(state.step_size, info.acceptance, target=ACCEPTANCE)
        state = state._replace(step_size=tuned)
    state = state._replace(acceptance=info.acceptance)
    if not info.accepted:
        return state
    log_parameters = state.log_parameters.copy()
    if v is not None:
        log_parameters[:, v] = centre + spread * moved[:n_scales]
        factors = factors * np.exp(0.5 * (log_parameters[:, v] - here))[:, None, None]
    whitened = _whitened_by(roots, moved[n_scales:].reshape(shape))
    return state._replace(whitened=whitened, log_parameters=log_parameters, factors=factors)


def _preconditioner(setting: Setting, state: ArchipelagoState) -> list[Array]:
    """Return Q of every kernel, Q Qᵀ = I + Lᵀ W L, with the amplitude that is usual.

    It may not depend on what moves: so L has the amplitude that warm-up found, not its own.
    """
    v, n = setting.prior.variance_index, len(setting.inputs)
    roots = []
    for f, lower in enumerate(state.factors):
        scale = np.sqrt(state.tuning.precisions(n, len(lower)))
        if v is not None:
            scale *= np.exp(0.5 * (state.tuning.log_parameters[f, v] - state.log_parameters[f, v]))
        product, _ = lapack.dlauum(np.asfortranarray(scale[:, None] * lower), lower=1)
        np.einsum("ii->i", product)[:] += 1.0
        roots.append(jittered_cholesky(product).lower)
    return roots


def _whitened_by(roots: list[Array], coordinates: Array) -> Array:
    """Return ν = Q^{-T} ε, (T, K)."""
    return _each(roots, coordinates, lambda Q, part: solve_lower(Q, part, transposed=True))


def _slope_by(roots: list[Array], slope: Array) -> Array:
    """Return Q^{-1} times a gradient in ν: the gradient in ε, (T, K)."""
    return _each(roots, slope, solve_lower)


def _coordinates_by(roots: list[Array], whitened: Array) -> Array:
    """Return ε = Qᵀ ν, (T, K)."""
    return _each(roots, whitened, lambda Q, part: lower_times(Q, part, transposed=True))


def _each(roots: list[Array], values: Array, apply: Callable[[Array, Array], Array]) -> Array:
    """Apply a function of every kernel's Q to that kernel's columns; (T, K) -> (T, K)."""
    if len(roots) == 1:
        return apply(roots[0], values)
    return np.concatenate([apply(Q, values[:, k : k + 1]) for k, Q in enumerate(roots)], axis=1)


def _by_kernel(a: Array, b: Array, n_kernels: int) -> Array | float:
    """Sum products over rows and over each kernel's functions; (T, K) twice -> (F,)."""
    return float(np.vdot(a, b)) if n_kernels == 1 else (a * b).sum(axis=0)


# θ, with functions that follow --------------------------------------------------------------------


class Copies(NamedTuple):
    """Noisy copies of the functions, and the noise by which the functions follow θ; (T, K) each.

    By Matheron's rule u = u' + C (C + S)^{-1} (z − u' − e) is a draw given z, where u' = L ν is one
    from the prior and e ~ N(0, S). With r = (C + S)^{-1} (z − u' − e) this is z − e − S r.

    copies : z
    whitened, noise : ν and e
    variances : (T, 1) the diagonal of S = W^{-1}
    """

    copies: Array
    whitened: Array
    noise: Array
    variances: Array


class Followed(NamedTuple):
    """The functions at some θ, given the copies and the noise.

    kernels : at θ
    roots : F factors of C + S
    u : (T, K)
    weights : (T, K) r
    of_copies : (T, K) (C + S)^{-1} z
    """

    kernels: Kernels
    roots: list[Array]
    u: Array
    weights: Array
    of_copies: Array


def make_copies(rng: np.random.Generator, kernels: Kernels, u: Array, variances: Array) -> Copies:
    """Draw z given u, and ν and e given u and z; u (T, K), variances (T, 1)."""
    spread = np.sqrt(variances)
    z = u + spread * rng.standard_normal(u.shape)
    drawn = Copies(
        z, rng.standard_normal(u.shape), spread * rng.standard_normal(u.shape), variances
    )
    missed = u - follow(kernels, drawn).u
    # Both u' and −e have the covariance with u that u has with itself.
    return drawn._replace(
        whitened=drawn.whitened + whiten(kernels.factors, missed), noise=drawn.noise - missed
    )


def follow(kernels: Kernels, given: Copies) -> Followed:
    """Return the functions at the kernels' θ."""
    roots = []
    for C in kernels.grams:
        seen = C.copy().T  # symmetric; by columns, as LAPACK has it
        np.einsum("ii->i", seen)[:] += given.variances[:, 0]
        roots.append(jittered_cholesky(seen).lower)
    z, e = given.copies, given.noise
    weights = _each(roots, z - e - unwhiten(kernels.factors, given.whitened), cholesky_solve)
    u = z - e - given.variances * weights
    return Followed(kernels, roots, u, weights, _each(roots, z, cholesky_solve))


def log_density_given_copies(rows: RowFactors, given: Copies, at: Followed) -> float:
    """Return log N(z | 0, C + S) and the log-likelihood of the rows, up to a constant."""
    F, K = len(at.roots), given.copies.shape[1]
    log_dets = sum(cholesky_log_det(Q) for Q in at.roots) * (K / F)
    of_copies = float(np.vdot(given.copies, at.of_copies)) + log_dets
    return rows.log_likelihood(at.u) - 0.5 * of_copies


def slope_given_copies(
    rows: RowFactors,
    given: Copies,
    at: Followed,
    gram_slope: Callable[[Array, Array, Array], Array],
) -> Array:
    """Return the gradient of `log_density_given_copies` in θ, (F, p)."""
    theta, F = at.kernels.theta, len(at.roots)
    slope, by_weights = np.empty(theta.shape), -given.variances * rows.slope(at.u)
    for f, Q in enumerate(at.roots):
        k, lower = served_by(f, F), at.kernels.factors[f]
        a, r = at.of_copies[:, k], at.weights[:, k]
        h = cholesky_solve(Q, by_weights[:, k])
        by_gram = 0.5 * (a @ a.T - a.shape[1] * cholesky_inverse(Q))
        product = h @ r.T
        by_gram -= 0.5 * (product + product.T)
        by_whitened = lower_times(lower, -h, transposed=True)
        by_gram += through_cholesky(lower, by_whitened, given.whitened[:, k])
        slope[f] = gram_slope(theta[f], at.kernels.grams[f], by_gram)
    return slope


def sample_log_parameters(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool = False
) -> ArchipelagoState:
    """Take one Hamiltonian step of all log-parameters, given noisy copies of the functions."""
    prior, places, tuning = setting.prior, known_rows(setting, state), state.tuning
    gram_at, gram_slope = gram_at_rows(setting, places), gram_gradient_function(prior, places)
    rows, shape = open_row_factors(setting, state), state.log_parameters.shape
    unit = np.sqrt(tuning.variances)
    variances = 1.0 / tuning.precisions(len(setting.inputs), len(places))[:, None]
    u = unwhiten(state.factors, state.whitened)
    given = make_copies(rng, kernels_at(gram_at, state.log_parameters), u, variances)
    last: list[Followed] = []

    def at(position: Array) -> Followed | None:
        theta = unit * position.reshape(shape)
        if np.abs((theta - prior.mean) / prior.sd).max() > FARTHEST:
            return None
        if not last or not np.array_equal(last[0].kernels.theta, theta):
            last[:] = [follow(kernels_at(gram_at, theta), given)]
        return last[0]

    def log_density(position: Array) -> float:
        found = at(position)
        if found is None:
            return -np.inf
        deviation = (found.kernels.theta - prior.mean) / prior.sd
        return log_density_given_copies(rows, given, found) - 0.5 * float(np.sum(deviation**2))

    def gradient(position: Array) -> Array:
        found = at(position)
        if found is None:
            return np.full(len(position), np.nan)
        by_theta = slope_given_copies(rows, given, found, gram_slope)
        by_theta -= (found.kernels.theta - prior.mean) / prior.sd**2
        return (unit * by_theta).ravel()

    step_size, n_leapfrog = _steps(
        rng, state.parameter_step_size, adapt, PARAMETER_TRAJECTORY, MOST_PARAMETER_STEPS
    )
    position = (state.log_parameters / unit).ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        moved, info = hmc.step_by_gradients(
            rng, position, log_density, gradient, step_size, n_leapfrog
        )
    if adapt:
        tuned = hmc.adapt_step_size(state.parameter_step_size, info.acceptance, target=ACCEPTANCE)
        state = state._replace(parameter_step_size=tuned)
    state = state._replace(acceptance=info.acceptance)
    if not info.accepted:
        return state
    found = at(moved)
    assert found is not None
    kernels = found.kernels
    return state._replace(
        whitened=whiten(kernels.factors, found.u), log_parameters=kernels.theta,
        factors=kernels.factors, jitter=kernels.jitter,
    )  # fmt: skip


def _steps(
    rng: np.random.Generator, size: hmc.StepSize, adapt: bool, trajectory: float, most: int
) -> tuple[float, int]:
    """Draw a trajectory's step size and number of steps around what warm-up has found."""
    tuned = float(np.exp(size.log_step_size if adapt else size.log_average))
    step_size = tuned * rng.uniform(0.6, 1.2)  # where functions are large, only short ones succeed
    mean_steps = min(trajectory / step_size, most)
    return step_size, max(2, round(rng.uniform(0.6, 1.4) * mean_steps))


# What warm-up finds -------------------------------------------------------------------------------


def tuned(setting: Setting, state: ArchipelagoState) -> ArchipelagoState:
    """Return the state with W, and mean and variances of θ, moved towards what is found now."""
    n, tuning, theta = len(setting.inputs), state.tuning, state.log_parameters
    u = unwhiten(state.factors, state.whitened)
    g = mixed(u, mixing_or_none(state.mixing, setting.n_classes))
    p = np.exp(g - np.logaddexp(0.0, log_total(g))[:, None])
    curvature = (p * (1.0 - p)).mean(axis=1)
    rate = max(SLOWEST_TUNING, 1.0 / (tuning.n_adapted + FIRST_WEIGHT))
    apart, prior = theta - tuning.log_parameters, setting.prior
    variances = (1.0 - rate) * (tuning.variances + rate * apart**2)
    of_others = curvature[n:].mean() if len(curvature) > n else tuning.of_others
    return state._replace(
        tuning=Tuning(
            of_data=tuning.of_data + rate * (float(curvature[:n].mean()) - tuning.of_data),
            of_others=tuning.of_others + rate * (float(of_others) - tuning.of_others),
            log_parameters=tuning.log_parameters + rate * apart,
            variances=np.clip(variances, (LEAST_SPREAD * prior.sd) ** 2, prior.sd**2),
            n_adapted=tuning.n_adapted + 1,
        )
    )
