"""Hamiltonian steps of our sweep: of all functions with their amplitude, and of all of θ.

Both know how much the rows tell of the functions, W, found in warm-up (`Tuning`). Each function
moves in coordinates in which its posterior would be white if the rows were observations of that
precision: ν = Q^{-T} ε with Q Qᵀ = I + Lᵀ W L, so that few and long steps suffice; a row on one
class's island tells nothing of the other functions, and leaves them their prior. Where rejections
are few the functions move in ν itself.

θ moves given noisy copies of the functions (Murray & Adams 2010, "surrogate data"): z = u + noise
of variance W^{-1}. Given z alone θ has the likelihood N(z | 0, C + W^{-1}), which does not hold it
the way the functions themselves do; and given z and θ the functions are a known Gaussian. Its noise
moves with θ, if that has many dimensions, or is held while θ moves and the functions follow. Where
rejections are few, few log-parameters and ν move together, and need no copies (`together`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import (
    cholesky_log_det,
    cholesky_solve,
    half_through_cholesky,
    jittered_cholesky,
    lower_times,
    rounded_lower_of_inverse,
)
from atoll.inference import hmc, slice_sampling
from atoll.kernels.hyperparameters import gram_gradient_function
from atoll.models.archipelago import together
from atoll.models.archipelago.coordinates import Coordinates, coordinates_of, many_rejections
from atoll.models.archipelago.functions import (
    Kernels,
    Setting,
    gram_at_rows,
    kernels_at,
    mixed,
    mixing_or_none,
    served_by,
    unwhiten,
    whiten,
)
from atoll.models.archipelago.joint import RowFactors, open_row_factors
from atoll.models.archipelago.likelihood import UNLABELLED, log_total
from atoll.models.archipelago.state import ArchipelagoState, Tuning, known_rows

Array = NDArray[np.float64]

# That step sizes are tuned to in warm-up: of functions, and of many log-parameters, which move so
# seldom in it that their steps end up too short.
ACCEPTANCE, PARAMETER_ACCEPTANCE = 0.8, 0.65
# Length of a trajectory of the functions (step size times steps, on average), and the most steps:
# in white noise itself, and in coordinates where they are white a posteriori, with few and with
# many log-parameters. Rows say little of which function holds an island, so that the difference of
# two is much wider than white: the more so the larger they are, as with many log-parameters.
TRAJECTORY, MOST_STEPS = 2.0, 20
WHITE_TRAJECTORIES, MOST_WHITE_STEPS = (5.0, 12.0), (30, 60)
PARAMETER_TRAJECTORY, MOST_PARAMETER_STEPS = 2.0, 10  # of θ, in its standard deviations
# Of W: copies as good as the rows themselves would hold θ twice.
COPIES_PRECISION = 0.3
MOST_STEPS_TOGETHER = 40  # of θ with the functions
FEW_PARAMETERS = 3  # that move with the functions, or one by one
SLICE_WIDTH = 2.5  # standard deviations of the prior
# Of tuning in warm-up: the least weight of a new state, the weight of what it begins with, and the
# least that θ's standard deviation may be of its prior's.
SLOWEST_TUNING, FIRST_WEIGHT, LEAST_SPREAD = 0.02, 5.0, 0.5
FARTHEST = 10.0  # standard deviations of a log-parameter's prior, beyond which no step goes


# Functions and amplitude --------------------------------------------------------------------------


class FunctionDensity(NamedTuple):
    """The density of amplitudes and functions given θ otherwise, in the functions' coordinates.

    A position holds the log variances, in standard deviations of their prior, and the coordinates
    class by class.

    rows : factors of the rows
    white : the coordinates
    own : (F,) the log variances that the state has; (0,) where there are none
    centre, spread : mean and standard deviation of a log variance
    start, whitened : the position that the state has, and its ν, (T, K)
    """

    rows: RowFactors
    white: Coordinates
    own: Array
    centre: float
    spread: float
    start: Array
    whitened: Array

    def at(self, position: Array) -> tuple[float, Array]:
        """Return the log density, up to a constant, and ν, (T, K)."""
        scales, whitened = position[: len(self.own)], self.whitened
        if np.abs(scales).max(initial=0.0) > FARTHEST:
            return -np.inf, whitened
        if position is not self.start:
            K = whitened.shape[1]
            whitened = self.white.whitened(position[len(self.own) :].reshape(K, -1))
        u = unwhiten(self.white.factors, whitened)
        if len(scales) > 0:
            u = u * np.exp(0.5 * (self.centre + self.spread * scales - self.own))
        return self.rows.log_density(u, whitened, scales), whitened

    def slopes(self) -> Callable[[Array], Array]:
        """Return the gradient as a function of the position."""
        white, F, rows = self.white, len(self.own), self.rows.by_class()
        offset, half_spread = 0.5 * self.centre - white.amplitudes[:F], 0.5 * self.spread
        shape = self.whitened.shape[::-1]

        def gradient(position: Array) -> Array:
            coordinates = position[F:].reshape(shape)
            u = white.functions(coordinates)
            scale = np.exp(offset + half_spread * position[:F])[:, None] if F > 0 else 1.0
            g = u * scale
            by_g, product = rows.slope(g)
            by_position = np.empty_like(position)
            if F > 1:
                by_position[:F] = half_spread * (by_g * g).sum(axis=1) - position[:F]
            elif F == 1:
                by_position[0] = half_spread * product - position[0]
            by_g *= scale
            white.slope(coordinates, u, by_g, out=by_position[F:].reshape(shape))
            return by_position

        return gradient


def sample_functions(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool = False
) -> ArchipelagoState:
    """Take one Hamiltonian step of all K whitened functions, and of each kernel's log variance.

    The log variance scales L, so that it comes along at no cost; it is where the number of
    rejections is slow to move.
    """
    prior, v, (T, K) = setting.prior, setting.prior.variance_index, state.whitened.shape
    own = state.log_parameters[:, v] if v is not None else np.zeros(0)
    centre, spread = (prior.mean[v], prior.sd[v]) if v is not None else (0.0, 1.0)
    white, F = coordinates_of(setting, state), len(own)
    start = np.concatenate([(own - centre) / spread, white.of_whitened(state.whitened).ravel()])
    rows = open_row_factors(setting, state)
    target = FunctionDensity(rows, white, own, centre, spread, start, state.whitened)
    # Curvature in ν grows in proportion to the rows, and steps shrink as its root.
    shorter = 1.0 if white.roots else math.sqrt(len(setting.inputs) / T)
    length, most = trajectory_of(state, bool(white.roots))
    step_size, n_leapfrog = _steps(rng, state.step_size, adapt, length, most, shorter)
    momentum = rng.standard_normal(len(start))
    momentum[F:] = momentum[F:].reshape(T, K).T.ravel()
    ends: list[Array] = []

    def log_density(position: Array) -> float:
        found, whitened = target.at(position)
        ends.append(whitened)
        return found

    # A step gone astray is refused.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        moved, info = hmc.step_by_gradients(
            rng, start, log_density, target.slopes(), step_size, n_leapfrog, momentum
        )
    if adapt:
        tuned = hmc.adapt_step_size(state.step_size, info.acceptance, target=ACCEPTANCE)
        state = state._replace(step_size=tuned)
    state = state._replace(acceptance=info.acceptance)
    if not info.accepted:
        return state
    log_parameters, factors = state.log_parameters.copy(), state.factors
    if v is not None:
        log_parameters[:, v] = centre + spread * moved[:F]
        factors = factors * np.exp(0.5 * (log_parameters[:, v] - own))[:, None, None]
    return state._replace(whitened=ends[-1], log_parameters=log_parameters, factors=factors)


def trajectory_of(state: ArchipelagoState, white: bool) -> tuple[float, int]:
    """Return the length of a trajectory of the functions, and the most steps."""
    if not white:
        return TRAJECTORY, MOST_STEPS
    many = int(state.log_parameters.size > FEW_PARAMETERS)
    return WHITE_TRAJECTORIES[many], MOST_WHITE_STEPS[many]


def _each(roots: list[Array], values: Array, apply: Callable[[Array, Array], Array]) -> Array:
    """Apply a function of every Q to its columns; (T, K) -> (T, K).

    One Q serves all columns. Without any Q the columns stay as they are.
    """
    if not roots:
        return values
    if len(roots) == 1:
        return apply(roots[0], values)
    return np.concatenate([apply(Q, values[:, k : k + 1]) for k, Q in enumerate(roots)], axis=1)


def _both(
    roots: list[Array], first: Array, second: Array, apply: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    """Apply a function of every Q to its columns of two arrays; (T, K) each."""
    if len(roots) > 1:
        return _each(roots, first, apply), _each(roots, second, apply)
    found = apply(roots[0], np.hstack([first, second]))
    return found[:, : first.shape[1]], found[:, first.shape[1] :]


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


def make_copies(
    rng: np.random.Generator, kernels: Kernels, u: Array, variances: Array
) -> tuple[Copies, Followed]:
    """Draw z given u, and ν and e given u and z; return the functions where θ stays, too.

    Parameters
    ----------
    u : (T, K)
    variances : (T, 1)
    """
    spread = np.sqrt(variances)
    z = u + spread * rng.standard_normal(u.shape)
    drawn = Copies(
        z, rng.standard_normal(u.shape), spread * rng.standard_normal(u.shape), variances
    )
    found = follow(kernels, drawn)
    missed = u - found.u
    # Both u' and −e have the covariance with u that u has with itself.
    given = drawn._replace(
        whitened=drawn.whitened + whiten(kernels.factors, missed), noise=drawn.noise - missed
    )
    return given, found._replace(u=u, weights=(z - given.noise - u) / variances)


def follow(kernels: Kernels, given: Copies) -> Followed:
    """Return the functions at the kernels' θ."""
    roots = []
    for C in kernels.grams:
        seen = C.copy().T  # symmetric; by columns, as LAPACK has it
        np.einsum("ii->i", seen)[:] += given.variances[:, 0]
        roots.append(jittered_cholesky(seen).lower)
    z, e = given.copies, given.noise
    without = z - e
    missed = without - unwhiten(kernels.factors, given.whitened)
    weights, of_copies = _both(roots, missed, z, cholesky_solve)
    return Followed(kernels, roots, without - given.variances * weights, weights, of_copies)


def log_density_given_copies(rows: RowFactors, given: Copies, at: Followed) -> float:
    """Return log N(z | 0, C + S) and the log-likelihood of the rows, up to a constant."""
    F, K = len(at.roots), given.copies.shape[1]
    log_dets = sum(cholesky_log_det(Q) for Q in at.roots) * (K / F)
    of_copies = float(np.vdot(given.copies, at.of_copies)) + log_dets
    return rows.log_likelihood(at.u) - 0.5 * of_copies


class Slopes(NamedTuple):
    """Gradients of `log_density_given_copies`.

    by_theta : (F, p)
    by_whitened, by_noise : (T, K) in ν and in e
    """

    by_theta: Array
    by_whitened: Array
    by_noise: Array


def slopes_given_copies(
    rows: RowFactors,
    given: Copies,
    at: Followed,
    gram_slope: Callable[[Array, Array, Array], Array],
) -> Slopes:
    """Return the gradients of `log_density_given_copies` in all that moves."""
    theta, F = at.kernels.theta, len(at.roots)
    of_rows = rows.slope(at.u)
    by_weights = -given.variances * of_rows
    slopes = Slopes(np.empty(theta.shape), np.empty_like(of_rows), np.empty_like(of_rows))
    for f, Q in enumerate(at.roots):
        k, lower = served_by(f, F), at.kernels.factors[f]
        a, r = at.of_copies[:, k], at.weights[:, k]
        h = cholesky_solve(Q, by_weights[:, k])
        by_whitened = lower_times(lower, -h, transposed=True)
        # What takes cubic time is in float32: any slope leaves the density invariant.
        left, right = np.hstack([0.5 * a, -h]), np.hstack([a, r])
        by_gram = left.astype(np.float32) @ right.astype(np.float32).T
        inverse = rounded_lower_of_inverse(np.asfortranarray(Q, dtype=np.float32))
        by_gram -= _without_half_of_diagonal(a.shape[1] * inverse)
        by_gram += half_through_cholesky(
            np.asfortranarray(lower, dtype=np.float32), by_whitened.astype(np.float32),
            given.whitened[:, k].astype(np.float32),
        )  # fmt: skip
        by_gram = 0.5 * (by_gram + by_gram.T)
        slopes.by_theta[f] = gram_slope(theta[f], at.kernels.grams[f], by_gram)
        slopes.by_whitened[:, k] = by_whitened
        slopes.by_noise[:, k] = -of_rows[:, k] - h
    return slopes


def _without_half_of_diagonal(triangle: NDArray[Any]) -> NDArray[Any]:
    """Halve the diagonal in place: the rest of a triangle stands for both halves of a matrix."""
    np.einsum("ii->i", triangle)[:] *= 0.5
    return triangle


class Conditional(NamedTuple):
    """The density of θ given copies of the functions, with all that it is evaluated by.

    setting : the prior
    rows : factors of the rows
    given : the copies
    here : the functions where θ is now
    gram_at : θ of one kernel -> C at all rows
    """

    setting: Setting
    rows: RowFactors
    given: Copies
    here: Followed
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
    precisions = state.tuning.mean_precisions(len(places))
    variances = 1.0 / (COPIES_PRECISION * precisions)[:, None]
    grams = [gram_at(theta) for theta in state.log_parameters]
    kernels = Kernels(state.log_parameters, grams, state.factors, state.jitter)
    given, here = make_copies(rng, kernels, unwhiten(state.factors, state.whitened), variances)
    return Conditional(setting, open_row_factors(setting, state), given, here, gram_at)


def sample_log_parameters(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool = False
) -> ArchipelagoState:
    """Move all log-parameters, with the functions or given noisy copies of them, which follow.

    Few log-parameters move together with the functions where rejections are few (`together`), and
    else one by one, by slice sampling, which needs no gradient; many move together with the noise
    by which functions follow, by a Hamiltonian step.
    """
    if moves_together(setting, state):
        return _with_functions(rng, setting, state, adapt)
    target = conditional_on_copies(rng, setting, state)
    if state.log_parameters.size <= FEW_PARAMETERS:
        return _slice_by_slice(rng, target, state)
    return _all_at_once(rng, target, state, adapt)


def moves_together(setting: Setting, state: ArchipelagoState) -> bool:
    """Return whether θ and the functions move in one step, since both are few enough to do so."""
    return state.log_parameters.size <= FEW_PARAMETERS and not many_rejections(setting, state)


def _with_functions(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool
) -> ArchipelagoState:
    """Take one Hamiltonian step of all log-parameters and all whitened functions."""
    shorter = float(np.sqrt(len(setting.inputs) / len(state.whitened)))
    step_size, n_leapfrog = _steps(
        rng, state.parameter_step_size, adapt, TRAJECTORY, MOST_STEPS_TOGETHER, shorter
    )
    state, info = together.step(rng, setting, state, step_size, n_leapfrog)
    return _noted(state, info, adapt, ACCEPTANCE)


def _slice_by_slice(
    rng: np.random.Generator, target: Conditional, state: ArchipelagoState
) -> ArchipelagoState:
    """Draw every log-parameter anew given the others, by slice sampling."""
    found = target.here
    for f, j in np.ndindex(state.log_parameters.shape):
        if j != target.setting.prior.variance_index:  # it moves with the functions
            found = _sliced(rng, target, found, (f, j))
    return _with_followed(state, found)


def _sliced(
    rng: np.random.Generator, target: Conditional, here: Followed, index: tuple[int, int]
) -> Followed:
    """Draw one log-parameter anew, from an interval that does not grow."""
    tried: dict[float, Followed | None] = {0.0: here}

    def log_density(displacement: float) -> float:
        if displacement not in tried:
            theta = here.kernels.theta.copy()
            theta[index] += displacement
            tried[displacement] = target.at(theta)
        return target.log_density(tried[displacement])

    width = SLICE_WIDTH * float(target.setting.prior.sd[index[1]])
    found = tried[slice_sampling.step(rng, log_density, width=width, most_widths=1)]
    assert found is not None
    return found


def _all_at_once(
    rng: np.random.Generator, target: Conditional, state: ArchipelagoState, adapt: bool
) -> ArchipelagoState:
    """Take one Hamiltonian step of all log-parameters, and of the noise by which functions follow.

    Coordinates are θ in units that warm-up found, and ν and e, which are white given the copies.
    """
    given, prior, size = target.given, target.setting.prior, state.whitened.size
    gram_slope = gram_gradient_function(prior, known_rows(target.setting, state))
    unit, spread = np.sqrt(state.tuning.variances), np.sqrt(given.variances)
    n_theta = unit.size
    noise = [given.whitened.ravel(), (given.noise / spread).ravel()]
    position = np.concatenate([(state.log_parameters / unit).ravel(), *noise])
    last: dict[bytes, tuple[Conditional, Followed | None]] = {
        position.tobytes(): (target, target.here)
    }

    def at(position: Array) -> tuple[Conditional, Followed | None]:
        key = position.tobytes()
        if key not in last:  # the density and the slope at one place
            last.clear()
            noise = position[n_theta:].reshape(2, *given.copies.shape)
            here = target._replace(given=given._replace(whitened=noise[0], noise=spread * noise[1]))
            last[key] = here, here.at(unit * position[:n_theta].reshape(unit.shape))
        return last[key]

    def log_density(position: Array) -> float:
        here, found = at(position)
        noise = position[n_theta:]
        return here.log_density(found) - 0.5 * float(noise @ noise)

    def gradient(position: Array) -> Array:
        here, found = at(position)
        slope = -position
        if found is None:
            slope[0] = np.nan
            return slope
        slopes = slopes_given_copies(here.rows, here.given, found, gram_slope)
        by_theta = slopes.by_theta - (found.kernels.theta - prior.mean) / prior.sd**2
        slope[:n_theta] = (unit * by_theta).ravel()
        slope[n_theta : n_theta + size] += slopes.by_whitened.ravel()
        slope[n_theta + size :] += (spread * slopes.by_noise).ravel()
        return slope

    step_size, n_leapfrog = _steps(
        rng, state.parameter_step_size, adapt, PARAMETER_TRAJECTORY, MOST_PARAMETER_STEPS
    )
    with np.errstate(over="ignore", invalid="ignore"):
        moved, info = hmc.step_by_gradients(
            rng, position, log_density, gradient, step_size, n_leapfrog
        )
    state = _noted(state, info, adapt, PARAMETER_ACCEPTANCE)
    _, found = at(moved)
    return _with_followed(state, found) if info.accepted and found is not None else state


def _noted(
    state: ArchipelagoState, info: hmc.HMCInfo, adapt: bool, target: float
) -> ArchipelagoState:
    """Return the state with the acceptance of a step of θ, and in warm-up a step size to match."""
    if adapt:
        tuned = hmc.adapt_step_size(state.parameter_step_size, info.acceptance, target=target)
        state = state._replace(parameter_step_size=tuned)
    return state._replace(acceptance=info.acceptance)


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
    of_others = curvature[n:].mean(axis=0) if len(curvature) > n else tuning.of_others
    return state._replace(
        tuning=Tuning(
            of_data=tuning.of_data + rate * (curvature[:n] - tuning.of_data),
            of_others=tuning.of_others + rate * (of_others - tuning.of_others),
            log_parameters=tuning.log_parameters + rate * apart,
            variances=np.clip(variances, (LEAST_SPREAD * prior.sd) ** 2, prior.sd**2),
            n_adapted=tuning.n_adapted + 1,
        )
    )


def _curvature(setting: Setting, state: ArchipelagoState, g: Array) -> Array:
    """Return how much each row tells of each function; (T, K) -> (T, K).

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
    return curvature
