"""Hamiltonian steps of our sweep: of all functions with their amplitude, and of all of θ.

Both know how much the rows tell of the functions, W, one number for data and one for other rows,
found in warm-up (`Tuning`). The functions move in coordinates in which the posterior would be
white if the rows were observations of that precision: ν = Q^{-T} ε with Q Qᵀ = I + Lᵀ W L, so that
few and long steps suffice; where rejections are few they move in ν itself.

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
from atoll.inference import hmc, slice_sampling
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
from atoll.models.archipelago.likelihood import UNLABELLED, log_total
from atoll.models.archipelago.state import ArchipelagoState, Tuning, known_rows

Array = NDArray[np.float64]

ACCEPTANCE = 0.8  # that step sizes are tuned to in warm-up
# Length of a trajectory of the functions (step size times steps, on average), and the most steps.
TRAJECTORY, MOST_STEPS = 2.0, 20
PARAMETER_TRAJECTORY, MOST_PARAMETER_STEPS = 1.5, 10  # of θ, in its standard deviations
# Of W: copies as good as the rows themselves would hold θ twice.
COPIES_PRECISION = 0.3
FEW_PARAMETERS, SLICE_WIDTH = 3, 0.7  # that move one by one; in standard deviations of the prior
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
    # Curvature in ν grows in proportion to the rows, and steps shrink as its root.
    shorter = 1.0 if roots else float(np.sqrt(len(setting.inputs) / shape[0]))
    step_size, n_leapfrog = _steps(rng, state.step_size, adapt, TRAJECTORY, MOST_STEPS, shorter)
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

    It may not depend on what moves: so L has the amplitude that warm-up found, not its own. Where
    rejections do not outnumber the data there are none: ν itself is white enough, and costs less.
    """
    roots: list[Array] = []
    v, n = setting.prior.variance_index, len(setting.inputs)
    if state.usual_proposals <= 2.0 * n:
        return roots
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
    """Apply a function of every kernel's Q to that kernel's columns; (T, K) -> (T, K).

    Without any Q the columns stay as they are.
    """
    if not roots:
        return values
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


class Conditional(NamedTuple):
    """The density of θ given copies of the functions, with all that it is evaluated by.

    setting : the prior
    rows : factors of the rows
    given : the copies
    gram_at : θ of one kernel -> C at all rows
    """

    setting: Setting
    rows: RowFactors
    given: Copies
    gram_at: Callable[[Array], Array]

    def at(self, theta: Array) -> Followed | None:
        """Return the functions at θ, (F, p); None where θ has gone too far."""
        prior = self.setting.prior
        if np.abs((theta - prior.mean) / prior.sd).max() > FARTHEST:
            return None
        return follow(kernels_at(self.gram_at, theta), self.given)

    def log_density(self, found: Followed | None) -> float:
        """Return the log density, up to a constant."""
        if found is None:
            return -np.inf
        prior = self.setting.prior
        deviation = (found.kernels.theta - prior.mean) / prior.sd
        of_rows = log_density_given_copies(self.rows, self.given, found)
        return of_rows - 0.5 * float(np.sum(deviation**2))


def conditional_on_copies(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> Conditional:
    """Draw copies of the functions; return the density of θ given them."""
    places = known_rows(setting, state)
    gram_at = gram_at_rows(setting, places)
    precisions = state.tuning.precisions(len(setting.inputs), len(places))
    variances = 1.0 / (COPIES_PRECISION * precisions)[:, None]
    u = unwhiten(state.factors, state.whitened)
    given = make_copies(rng, kernels_at(gram_at, state.log_parameters), u, variances)
    return Conditional(setting, open_row_factors(setting, state), given, gram_at)


def sample_log_parameters(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool = False
) -> ArchipelagoState:
    """Move all log-parameters given noisy copies of the functions, which follow.

    Few log-parameters move one by one, by slice sampling, which needs no gradient; many move
    together, by a Hamiltonian step.
    """
    target = conditional_on_copies(rng, setting, state)
    if state.log_parameters.size <= FEW_PARAMETERS:
        return _slice_by_slice(rng, target, state)
    return _all_at_once(rng, target, state, adapt)


def _slice_by_slice(
    rng: np.random.Generator, target: Conditional, state: ArchipelagoState
) -> ArchipelagoState:
    """Draw every log-parameter anew given the others, by slice sampling."""
    found = target.at(state.log_parameters)
    assert found is not None  # no step goes too far
    for f, j in np.ndindex(state.log_parameters.shape):
        if j != target.setting.prior.variance_index:  # it moves with the functions
            found = _sliced(rng, target, found, (f, j))
    return _with_followed(state, found)


def _sliced(
    rng: np.random.Generator, target: Conditional, here: Followed, index: tuple[int, int]
) -> Followed:
    """Draw one log-parameter anew."""
    tried: dict[float, Followed | None] = {0.0: here}

    def log_density(displacement: float) -> float:
        if displacement not in tried:
            theta = here.kernels.theta.copy()
            theta[index] += displacement
            tried[displacement] = target.at(theta)
        return target.log_density(tried[displacement])

    width = SLICE_WIDTH * float(target.setting.prior.sd[index[1]])
    found = tried[slice_sampling.step(rng, log_density, width=width)]
    assert found is not None
    return found


def _all_at_once(
    rng: np.random.Generator, target: Conditional, state: ArchipelagoState, adapt: bool
) -> ArchipelagoState:
    """Take one Hamiltonian step of all log-parameters."""
    prior, shape = target.setting.prior, state.log_parameters.shape
    gram_slope = gram_gradient_function(prior, known_rows(target.setting, state))
    unit = np.sqrt(state.tuning.variances)
    last: dict[bytes, Followed | None] = {}

    def at(position: Array) -> Followed | None:
        key = position.tobytes()
        if key not in last:  # the density and the slope at one place
            last.clear()
            last[key] = target.at(unit * position.reshape(shape))
        return last[key]

    def gradient(position: Array) -> Array:
        found = at(position)
        if found is None:
            return np.full(len(position), np.nan)
        by_theta = slope_given_copies(target.rows, target.given, found, gram_slope)
        by_theta -= (found.kernels.theta - prior.mean) / prior.sd**2
        return (unit * by_theta).ravel()

    step_size, n_leapfrog = _steps(
        rng, state.parameter_step_size, adapt, PARAMETER_TRAJECTORY, MOST_PARAMETER_STEPS
    )
    position = (state.log_parameters / unit).ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        moved, info = hmc.step_by_gradients(
            rng, position, lambda q: target.log_density(at(q)), gradient, step_size, n_leapfrog
        )
    if adapt:
        tuned = hmc.adapt_step_size(state.parameter_step_size, info.acceptance, target=ACCEPTANCE)
        state = state._replace(parameter_step_size=tuned)
    state = state._replace(acceptance=info.acceptance)
    found = at(moved)
    return _with_followed(state, found) if info.accepted and found is not None else state


def _with_followed(state: ArchipelagoState, found: Followed) -> ArchipelagoState:
    """Return the state at another θ, with the functions that followed."""
    kernels = found.kernels
    return state._replace(
        whitened=whiten(kernels.factors, found.u), log_parameters=kernels.theta,
        factors=kernels.factors, jitter=kernels.jitter,
    )  # fmt: skip


def _steps(
    rng: np.random.Generator,
    size: hmc.StepSize,
    adapt: bool,
    trajectory: float,
    most: int,
    shorter: float = 1.0,
) -> tuple[float, int]:
    """Draw a trajectory's step size and number of steps around what warm-up has found."""
    tuned = shorter * float(np.exp(size.log_step_size if adapt else size.log_average))
    step_size = tuned * rng.uniform(0.6, 1.2)  # where functions are large, only short ones succeed
    mean_steps = min(trajectory / step_size, most)
    return step_size, max(2, round(rng.uniform(0.6, 1.4) * mean_steps))


# What warm-up finds -------------------------------------------------------------------------------


def tuned(setting: Setting, state: ArchipelagoState) -> ArchipelagoState:
    """Return the state with W, and mean and variances of θ, moved towards what is found now."""
    n, tuning, theta = len(setting.inputs), state.tuning, state.log_parameters
    u = unwhiten(state.factors, state.whitened)
    g = mixed(u, mixing_or_none(state.mixing, setting.n_classes))
    curvature = _curvature(setting, state, g)
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


def _curvature(setting: Setting, state: ArchipelagoState, g: Array) -> Array:
    """Return how much each row tells of a function, on average over functions; (T, K) -> (T,).

    p (1 − p) of a class where the row is labelled or rejected. That a row is kept tells of the sum
    of the functions alone: as much as its slope, squared.
    """
    log_sums = log_total(g)[:, None]
    p = np.exp(g - np.logaddexp(0.0, log_sums))
    curvature = p * (1.0 - p)
    n = len(setting.inputs)
    open_rows = np.flatnonzero(setting.codes == UNLABELLED)
    slope = np.exp(g[:n] - log_sums[:n]) - p[:n]
    curvature[open_rows] = slope[open_rows] ** 2
    return curvature.mean(axis=1)
