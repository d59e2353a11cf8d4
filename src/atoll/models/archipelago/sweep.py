"""Our sweep: renewed rejections, and Hamiltonian steps of all functions, at times with θ.

Three things differ from the paper's sweep, which is in `paper_sweep`. The rejections are renewed as
a block: given the whole function they do not depend on the data, so that running the process
forward draws them exactly (Rao, Lin & Dunson 2016). The function is known at the data and at the
*old* rejections, and the new ones are drawn given both; only then are the old ones dropped. All K
functions and their amplitude move in one Hamiltonian step, and θ with them in one such step of
many, with gradients through the Cholesky factor. And while they move it is open which rows are
rejections: candidates from π are among them, κ for each proposal of the history, and every one has
the factor κ + 1/(1 + Λ). So an M that was drawn given the functions does not hold them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.densities import NormalInverseWishart
from atoll.core.linalg import (
    Factor,
    bordered_factor,
    jittered_cholesky,
    solve_lower,
    through_cholesky,
)
from atoll.inference import elliptical_slice, hmc
from atoll.kernels.hyperparameters import (
    DIFFERENCE,
    KernelPrior,
    gram_gradient_function,
)
from atoll.models.archipelago import process
from atoll.models.archipelago.functions import (
    MIXING_SPREAD,
    Kernels,
    Setting,
    corner_factor,
    covariances_at,
    gram_at_rows,
    kernels_at,
    mixed,
    mixing_matrix,
    served_by,
    stacked,
    unwhiten,
    unwhiten_transposed,
)
from atoll.models.archipelago.joint import open_row_factors, whitened_slope
from atoll.models.archipelago.likelihood import REJECTED, log_rejection
from atoll.models.archipelago.process import CANDIDATE, Run, TooManyRejections
from atoll.models.archipelago.state import (
    ArchipelagoState,
    current_base,
    known_functions,
    known_rows,
)

Array = NDArray[np.float64]

# Candidates: about so many, but at most so many for each proposal. More would free the functions
# further of M, and each costs a row.
CANDIDATES, MOST_CANDIDATE_RATE = 16.0, 0.3
# Length of a Hamiltonian trajectory (step size times steps, on average), and the most steps: of the
# functions and amplitude alone, and with all of θ.
TRAJECTORY, MOST_STEPS, MOST_STEPS_WITH_PARAMETERS = 2.0, 20, 40
ACCEPTANCE = 0.8  # that step sizes are tuned to in warm-up
# All of θ moves in a share of the sweeps: so many divided by the number of rows, at most such a
# share, and more in warm-up. The length-scale is the slowest to mix where rows are few; where they
# are many, such sweeps take about half of the time.
ROWS_FOR_FEW, ROWS_FOR_MANY = 40.0, 20.0  # parameters: gradients are cheap, or dear
MOST_PARAMETER_SHARE, MORE_IN_WARMUP = 0.2, 1.5
FEW_PARAMETERS = 1  # beside the variance: the most whose gradient is found by differences
PARAMETER_UNIT = 0.7  # prior standard deviations: given the functions θ is stiffer than they are
FARTHEST = 10.0  # standard deviations of a log-parameter's prior, beyond which no step goes
MOST_REFUSED = 20_000  # proposals in renewals, one after the other, that ran past the most


def sweep(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool
) -> ArchipelagoState:
    """Move functions (at times with θ), mixing, rejections and candidates, and base density."""
    if rng.random() < parameter_share(setting, state, adapt):
        state = sample_log_parameters(rng, setting, state, adapt)
    else:
        state = sample_functions(rng, setting, state, adapt)
    if len(state.mixing) > 0:
        state = sample_mixing(rng, setting, state)
    state = refresh_rejections(
        rng, setting, state, candidate_rate=rate_of_candidates(setting, state)
    )
    if adapt:
        n_proposals = len(setting.inputs) + len(state.rejections)
        usual = state.usual_proposals + 0.05 * (n_proposals - state.usual_proposals)
        state = state._replace(usual_proposals=usual)
    state = sample_base(rng, setting, state)
    return state._replace(n_clamped=max(state.n_clamped - 1, 0))


def rate_of_candidates(setting: Setting, state: ArchipelagoState) -> float:
    """Return κ for the next renewal, by what warm-up has found of M.

    There are none where rejections outnumber the data: few rows are then in doubt, and it is not M
    that holds the functions.
    """
    if state.usual_proposals > 2.0 * len(setting.inputs):
        return 0.0
    return min(CANDIDATES / state.usual_proposals, MOST_CANDIDATE_RATE)


# Rejections ---------------------------------------------------------------------------------------


def refresh_rejections(
    rng: np.random.Generator,
    setting: Setting,
    state: ArchipelagoState,
    *,
    candidate_rate: float = 0.0,
) -> ArchipelagoState:
    """Draw all rejections anew, exactly from their conditional given the whole function.

    The process is run forward given the functions at every known row, the old rejections among
    them, until it has accepted as many rows as there are data. Its rejections are the new ones. A
    run past the most proposals is refused, and the old rejections stay: that is exact for the model
    conditioned on no more proposals than that.

    Candidates are for the next move of the functions, in which it is open which are the rejections
    (see `joint.open_row_factors`). There are none where they could be rejections too many.
    """
    n = len(setting.inputs)
    run = Run(n, classes=False, candidate_rate=candidate_rate)
    try:
        history = process.run_forward(
            rng, setting, known_functions(setting, state), current_base(setting, state), run
        )
    except TooManyRejections:
        if (state.n_refused + 1) * process.most_proposals(n) >= MOST_REFUSED:
            raise
        state = settle_rejections(rng, setting, state)
        return state._replace(n_refused=state.n_refused + 1)
    rejected = np.flatnonzero(history.outcomes == REJECTED)
    candidates = np.flatnonzero(history.outcomes == CANDIDATE)
    if n + len(rejected) + len(candidates) > process.most_proposals(n):
        candidate_rate, candidates = 0.0, candidates[:0]
    new = np.concatenate([rejected, candidates])
    rows, bridge = history.rows[new], history.bridge[:, new]
    between, nugget = covariances_at(setting, state.log_parameters)
    corners = [
        corner_factor(between(theta, rows, rows), *parts)
        for theta, *parts in zip(state.log_parameters, nugget, bridge, strict=True)
    ]
    state = _with_others(state, history.u[new], bridge, corners)
    return state._replace(
        rejections=rows[: len(rejected)], candidates=rows[len(rejected) :],
        candidate_rate=candidate_rate, n_refused=0,
    )  # fmt: skip


def settle_rejections(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Decide which are rejections, after the functions have moved; other candidates are dropped.

    An open row is a rejection in the proportion of the two terms of κ + 1/(1 + Λ).
    """
    if state.candidate_rate == 0.0:
        return state
    n, known = len(setting.inputs), known_functions(setting, state)
    others, u = known.rows[n:], known.u[n:]
    rejected = np.exp(log_rejection(mixed(u, known.A)))
    chosen = np.flatnonzero(rng.random(len(u)) * (state.candidate_rate + rejected) < rejected)
    reach = state.factors[:, n + chosen]
    corners = [jittered_cholesky(part @ part.T) for part in reach[:, :, n:]]
    state = _with_others(state, u[chosen], reach[:, :, :n], corners)
    return state._replace(rejections=others[chosen], candidates=others[:0], candidate_rate=0.0)


def _with_others(
    state: ArchipelagoState, u: Array, bridge: Array, corners: list[Factor]
) -> ArchipelagoState:
    """Return the functions at the data and at m other rows; the data's block of L stays.

    Parameters
    ----------
    u : (m, K) at the others
    bridge : (F, m, n) their covariances with the data, times L^{-T}
    corners : F factors, (m, m), of their covariance given the data
    """
    n = bridge.shape[2]
    whitened = np.concatenate([state.whitened[:n], u])
    lowers = []
    for f, corner in enumerate(corners):
        lowers.append(bordered_factor(state.factors[f, :n, :n], bridge[f], corner.lower))
        k = served_by(f, len(corners))
        surprise = whitened[n:, k] - bridge[f] @ whitened[:n, k]
        whitened[n:, k] = solve_lower(corner.lower, surprise)
    jitter = max(corner.jitter for corner in corners)
    return state._replace(whitened=whitened, factors=stacked(lowers), jitter=jitter)


def sample_base(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Draw π given all rows that came from it (section 3.4); nothing where π is fixed."""
    if not isinstance(setting.base, NormalInverseWishart):
        return state
    return state._replace(base=setting.base.given(known_rows(setting, state)).draw(rng))


# Functions, and θ with them -----------------------------------------------------------------------


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

    def scaled_functions(position: Array) -> tuple[Array, Array]:
        u = unwhiten(factors, position[n_scales:].reshape(shape))
        if n_scales == 0:
            return u, np.ones(0)
        scale = np.exp(offset + half_spread * position[:n_scales])
        u *= scale
        return u, scale

    def log_density(position: Array) -> float:
        if np.abs(position[:n_scales]).max(initial=0.0) > FARTHEST:
            return -np.inf
        u, _ = scaled_functions(position)
        return rows.log_density(u, position)

    def gradient(position: Array) -> Array:
        u, scale = scaled_functions(position)
        slope = rows.slope(u)
        by_position = -position
        if n_scales > 0:
            by_position[:n_scales] += half_spread * _by_kernel(slope, u, n_scales)
            slope *= scale
        by_position[n_scales:] += unwhiten_transposed(factors, slope).ravel()
        return by_position

    position = np.concatenate([(here - centre) / spread, state.whitened.ravel()])
    step_size, n_leapfrog = _steps(rng, state.step_size, state, adapt, MOST_STEPS)
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
    whitened = moved[n_scales:].reshape(shape)
    return state._replace(whitened=whitened, log_parameters=log_parameters, factors=factors)


def sample_log_parameters(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool = False
) -> ArchipelagoState:
    """Take one Hamiltonian step of all log-parameters and of all K whitened functions.

    What is held while the other moves pins it: of the length-scales of thirteen features a step
    without gradients, or without the functions, moves next to nothing. Every leapfrog step of θ
    takes a factor and the gradient through it, and has two of the functions.
    """
    prior, places = setting.prior, known_rows(setting, state)
    gram_at, unit = gram_at_rows(setting, places), PARAMETER_UNIT * prior.sd
    by_parameters = parameter_slope(prior, places, gram_at)
    rows = open_row_factors(setting, state)

    def prepare(position: Array) -> Kernels | None:
        if np.abs(position).max() > FARTHEST / PARAMETER_UNIT:
            return None
        return kernels_at(gram_at, prior.mean + unit * position)

    def log_density(kernels: Kernels, whitened: Array) -> float:
        u = unwhiten(kernels.factors, whitened)
        return rows.log_density(u, (kernels.theta - prior.mean) / prior.sd, whitened)

    def by_whitened(kernels: Kernels, whitened: Array) -> Array:
        by_u = rows.slope(unwhiten(kernels.factors, whitened))
        return whitened_slope(kernels.factors, by_u, whitened)

    def slopes(kernels: Kernels, whitened: Array) -> tuple[Array, Array]:
        u = unwhiten(kernels.factors, whitened)
        by_u = rows.slope(u)
        by_theta = by_parameters(kernels, whitened, u, by_u)
        by_theta -= (kernels.theta - prior.mean) / prior.sd**2
        return unit * by_theta, whitened_slope(kernels.factors, by_u, whitened)

    step_size, n_leapfrog = _steps(
        rng, state.parameter_step_size, state, adapt, MOST_STEPS_WITH_PARAMETERS
    )
    _, whitened, kernels, info = hmc.nested_step(
        rng, (state.log_parameters - prior.mean) / unit, state.whitened,
        hmc.Nested(prepare, log_density, by_whitened, slopes), step_size, n_leapfrog,
    )  # fmt: skip
    if adapt:
        tuned = hmc.adapt_step_size(state.parameter_step_size, info.acceptance, target=ACCEPTANCE)
        state = state._replace(parameter_step_size=tuned)
    state = state._replace(acceptance=info.acceptance)
    if not info.accepted:
        return state
    return state._replace(
        whitened=whitened, log_parameters=kernels.theta, factors=kernels.factors,
        jitter=kernels.jitter,
    )  # fmt: skip


def parameter_slope(
    prior: KernelPrior, rows: Any, gram_at: Callable[[Array], Array]
) -> Callable[[Kernels, Array, Array, Array], Array]:
    """Return (kernels, ν, u = L ν, gradient in u) -> the gradient in θ while ν is held, (F, p).

    The log variance scales u. Each of a few others takes one more factor and the difference that
    it makes; the gradient in many goes through the factor.
    """
    v, others = prior.variance_index, _beside_variance(prior)

    def by_differences(kernels: Kernels, whitened: Array, u: Array, by_u: Array) -> Array:
        slope = np.empty(kernels.theta.shape)
        here = _by_kernel(by_u, u, len(slope))
        if v is not None:
            slope[:, v] = 0.5 * here
        for j in others:
            theta = kernels.theta.copy()
            theta[:, j] += DIFFERENCE
            beside = unwhiten(kernels_at(gram_at, theta).factors, whitened)
            there = _by_kernel(by_u, beside, len(slope))
            slope[:, j] = (there - here) / (theta[:, j] - kernels.theta[:, j])
        return slope

    if len(others) <= FEW_PARAMETERS:
        return by_differences
    gram_slope = gram_gradient_function(prior, rows)

    def through_factors(kernels: Kernels, whitened: Array, u: Array, by_u: Array) -> Array:
        slope = np.empty(kernels.theta.shape)
        by_whitened = unwhiten_transposed(kernels.factors, by_u)
        for f, (theta, C) in enumerate(zip(kernels.theta, kernels.grams, strict=True)):
            k = served_by(f, len(slope))
            by_gram = through_cholesky(kernels.factors[f], by_whitened[:, k], whitened[:, k])
            slope[f] = gram_slope(theta, C, by_gram)
        return slope

    return through_factors


def _by_kernel(a: Array, b: Array, n_kernels: int) -> Array | float:
    """Sum products over rows and over each kernel's functions; (T, K) twice -> (F,)."""
    return float(np.vdot(a, b)) if n_kernels == 1 else (a * b).sum(axis=0)


def parameter_share(setting: Setting, state: ArchipelagoState, adapt: bool) -> float:
    """Return the share of sweeps in which all of θ moves.

    It depends on the number of rows alone, which such a step does not change.
    """
    n_others = len(_beside_variance(setting.prior))
    if n_others == 0:
        return 0.0
    rows = ROWS_FOR_FEW if n_others <= FEW_PARAMETERS else ROWS_FOR_MANY
    share = min(rows / len(state.whitened), MOST_PARAMETER_SHARE)
    return share * (MORE_IN_WARMUP if adapt else 1.0)


def _beside_variance(prior: KernelPrior) -> list[int]:
    """Return the log-parameters that change more than the functions' scale."""
    return [j for j in range(len(prior.mean)) if j != prior.variance_index]


def _steps(
    rng: np.random.Generator, size: hmc.StepSize, state: ArchipelagoState, adapt: bool, most: int
) -> tuple[float, int]:
    """Draw a trajectory's step size and number of steps around what warm-up has found.

    Steps are shorter the more rejections there are, which stay where they are during the step:
    curvature grows in proportion to the rows, and steps shrink as its root.
    """
    tuned = float(np.exp(size.log_step_size if adapt else size.log_average))
    tuned *= float(np.sqrt(len(state.start_codes) / len(state.whitened)))
    step_size = tuned * rng.uniform(0.6, 1.2)  # where functions are large, only short ones succeed
    mean_steps = min(TRAJECTORY / step_size, most)
    return step_size, max(2, round(rng.uniform(0.6, 1.4) * mean_steps))


def sample_mixing(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Draw the weights of A given u, by elliptical slice sampling."""
    rows, u = open_row_factors(setting, state), unwhiten(state.factors, state.whitened)

    def log_likelihood(mixing: Array) -> float:
        return rows._replace(A=mixing_matrix(mixing, setting.n_classes)).log_likelihood(u)

    mixing, _, _ = elliptical_slice.step(
        rng, state.mixing, log_likelihood(state.mixing), log_likelihood,
        MIXING_SPREAD * rng.standard_normal(len(state.mixing)),
    )  # fmt: skip
    return state._replace(mixing=mixing)
