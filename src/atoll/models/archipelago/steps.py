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
    rounded_inverse,
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
Array32 = NDArray[np.float32]
Codes = NDArray[np.intp]
GramSlope = Callable[[Array, Array, NDArray[Any]], Array]

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
NOISE_STEPS = 2  # in each half of a step of θ, of the noise by which functions follow
# Of W, with few log-parameters and with many: copies as good as the rows themselves would hold θ
# twice, and poorer ones leave more of the functions to the noise, which many move with.
COPIES_PRECISIONS = (0.3, 0.6)
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
    without = given.copies - given.noise
    missed = without - unwhiten(kernels.factors, given.whitened)
    weights, of_copies = _both(roots, missed, given.copies, cholesky_solve)
    return Followed(kernels, roots, without - given.variances * weights, weights, of_copies)


def followed(at: Followed, given: Copies) -> Followed:
    """Return the functions at the same θ by other noise."""
    without = given.copies - given.noise
    missed = without - unwhiten(at.kernels.factors, given.whitened)
    weights = _each(at.roots, missed, cholesky_solve)
    return at._replace(u=without - given.variances * weights, weights=weights)


def log_density_given_copies(rows: RowFactors, given: Copies, at: Followed) -> float:
    """Return log N(z | 0, C + S) and the log-likelihood of the rows, up to a constant."""
    F, K = len(at.roots), given.copies.shape[1]
    log_dets = sum(cholesky_log_det(Q) for Q in at.roots) * (K / F)
    of_copies = float(np.vdot(given.copies, at.of_copies)) + log_dets
    return rows.log_likelihood(at.u) - 0.5 * of_copies


class Rounded(NamedTuple):
    """What slopes need of θ, in float32: any slope leaves the density invariant. F of each.

    lowers : (T, T) L, by columns
    inverses : (T, T) (C + S)^{-1}
    of_copies : (T, J) (C + S)^{-1} z, of the functions that the kernel serves
    """

    lowers: list[Array32]
    inverses: list[Array32]
    of_copies: list[Array32]


def rounded(at: Followed) -> Rounded:
    """Return what slopes need of θ."""
    return Rounded(
        [np.asfortranarray(lower, dtype=np.float32) for lower in at.kernels.factors],
        [rounded_inverse(np.asfortranarray(Q, dtype=np.float32)) for Q in at.roots],
        [_of_kernel(at.of_copies, f, len(at.roots)) for f in range(len(at.roots))],
    )


def _of_kernel(values: Array, f: int, n_kernels: int) -> Array32:
    """Return the columns of the functions that a kernel serves; (T, K) -> (T, J)."""
    return np.asfortranarray(values[:, served_by(f, n_kernels)], dtype=np.float32)


class Slopes(NamedTuple):
    """Gradients of `log_density_given_copies` in what moves besides θ; and what those in θ need.

    by_whitened, by_noise : (T, K) in ν and in e
    pulls : F of (T, J) (C + S)^{-1} times the gradient in r
    weights : F of (T, J) r
    """

    by_whitened: Array
    by_noise: Array
    pulls: list[Array32]
    weights: list[Array32]


def slopes_given_copies(rows: RowFactors, given: Copies, at: Rounded) -> Slopes:
    """Return the gradients of `log_density_given_copies` in the noise by which functions follow."""
    F, without = len(at.lowers), given.copies - given.noise
    whitened, weights = [_of_kernel(given.whitened, f, F) for f in range(F)], []
    u, by_whitened = np.empty_like(without), np.empty_like(without)
    for f, (lower, inverse) in enumerate(zip(at.lowers, at.inverses, strict=True)):
        k = served_by(f, F)
        weights.append(inverse @ (_of_kernel(without, f, F) - lower @ whitened[f]))
        u[:, k] = without[:, k] - given.variances * weights[f]
    by_u = rows.slope(u)
    by_weights, by_noise, pulls = -given.variances * by_u, -by_u, []
    for f, (lower, inverse) in enumerate(zip(at.lowers, at.inverses, strict=True)):
        k = served_by(f, F)
        pulls.append(inverse @ _of_kernel(by_weights, f, F))
        by_whitened[:, k] = -(lower.T @ pulls[f])
        by_noise[:, k] -= pulls[f]
    return Slopes(by_whitened, by_noise, pulls, weights)


def slopes_in_theta(
    given: Copies,
    kernels: Kernels,
    at: Rounded,
    slopes: Slopes,
    gram_slope: GramSlope,
) -> Array:
    """Return the gradient of `log_density_given_copies` in θ, (F, p)."""
    theta, F = kernels.theta, len(at.lowers)
    by_theta = np.empty(theta.shape)
    for f, (lower, inverse) in enumerate(zip(at.lowers, at.inverses, strict=True)):
        a, h, r = at.of_copies[f], slopes.pulls[f], slopes.weights[f]
        by_gram = np.hstack([0.5 * a, -h]) @ np.hstack([a, r]).T
        by_gram -= (0.5 * a.shape[1]) * inverse
        by_whitened = _of_kernel(slopes.by_whitened, f, F)
        by_gram += half_through_cholesky(lower, by_whitened, _of_kernel(given.whitened, f, F))
        by_theta[f] = gram_slope(theta[f], kernels.grams[f], 0.5 * (by_gram + by_gram.T))
    return by_theta


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
    precision = COPIES_PRECISIONS[int(state.log_parameters.size > FEW_PARAMETERS)]
    variances = 1.0 / (precision * precisions)[:, None]
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


class _At(NamedTuple):
    """Some θ in a step of many log-parameters: the functions, of which the noise does not matter.

    found : kernels and factors
    rounded : what slopes need of them
    """

    found: Followed
    rounded: Rounded


class NoiseAndTheta(NamedTuple):
    """The density of log-parameters and noise given copies, as `hmc.nested_step` takes it.

    A dear block holds log-parameters, from their mean and in units that warm-up found, (F, q); the
    log variance, which the copies hold more than all others, is not among them: it moves with the
    functions. A cheap block holds ν and e, which are white given the copies, (2, T, K).

    target : the density
    free : (q,) which log-parameters move
    centre, unit : (F, q)
    begun : (F, q) the dear block as it is
    gram_slope : as `gram_gradient_function` returns it
    """

    target: Conditional
    free: Codes
    centre: Array
    unit: Array
    begun: Array
    gram_slope: GramSlope

    def noise(self) -> Array:
        """Return the cheap block as it is."""
        given = self.target.given
        return np.stack([given.whitened, given.noise / np.sqrt(given.variances)])

    def prepare(self, dear: Array) -> _At | None:
        """Return the functions at a dear block; None where θ has gone too far."""
        if dear is self.begun:
            return _At(self.target.here, rounded(self.target.here))
        theta = self.target.here.kernels.theta.copy()
        theta[:, self.free] = self.centre + self.unit * dear
        found = self.target.at(theta)
        return None if found is None else _At(found, rounded(found))

    def given(self, noise: Array) -> Copies:
        """Return the copies with other noise."""
        given = self.target.given
        return given._replace(whitened=noise[0], noise=np.sqrt(given.variances) * noise[1])

    def log_density(self, at: _At, noise: Array) -> float:
        """Return the log density, up to a constant."""
        given = self.given(noise)
        here = self.target._replace(given=given)
        return here.log_density(followed(at.found, given)) - 0.5 * float(np.vdot(noise, noise))

    def by_noise(self, at: _At, noise: Array) -> Array:
        """Return its gradient in the noise, (2, T, K)."""
        return self._of_noise(
            slopes_given_copies(self.target.rows, self.given(noise), at.rounded), noise
        )

    def slopes(self, at: _At, noise: Array) -> tuple[Array, Array]:
        """Return its gradients in the dear and in the cheap block."""
        given, kernels, prior = self.given(noise), at.found.kernels, self.target.setting.prior
        slopes = slopes_given_copies(self.target.rows, given, at.rounded)
        by_theta = slopes_in_theta(given, kernels, at.rounded, slopes, self.gram_slope)
        by_theta -= (kernels.theta - prior.mean) / prior.sd**2
        return self.unit * by_theta[:, self.free], self._of_noise(slopes, noise)

    def _of_noise(self, slopes: Slopes, noise: Array) -> Array:
        spread = np.sqrt(self.target.given.variances)
        return np.stack([slopes.by_whitened, spread * slopes.by_noise]) - noise


def _all_at_once(
    rng: np.random.Generator, target: Conditional, state: ArchipelagoState, adapt: bool
) -> ArchipelagoState:
    """Take one Hamiltonian step of log-parameters, and of the noise by which functions follow."""
    prior = target.setting.prior
    free = np.array([j for j in range(len(prior.mean)) if j != prior.variance_index])
    centre = state.tuning.log_parameters[:, free]
    unit = np.sqrt(state.tuning.variances[:, free])
    begun = (state.log_parameters[:, free] - centre) / unit
    gram_slope = gram_gradient_function(prior, known_rows(target.setting, state))
    density = NoiseAndTheta(target, free, centre, unit, begun, gram_slope)
    nested = hmc.Nested(density.prepare, density.log_density, density.by_noise, density.slopes)
    step_size, n_leapfrog = _steps(
        rng, state.parameter_step_size, adapt, PARAMETER_TRAJECTORY, MOST_PARAMETER_STEPS
    )
    with np.errstate(over="ignore", invalid="ignore"):
        _, noise, at, info = hmc.nested_step(
            rng, begun, density.noise(), nested, step_size, n_leapfrog, n_inner=NOISE_STEPS
        )
    state = _noted(state, info, adapt, PARAMETER_ACCEPTANCE)
    if not info.accepted:
        return state
    return _with_followed(state, followed(at.found, density.given(noise)))


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
