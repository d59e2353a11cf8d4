"""The paper's sweep (sections 3.1 to 3.4): the yardstick for our own.

Rejections come and go one at a time (equations 9 and 10), and move one at a time (equation 11). The
functions move one after the other by Hamiltonian Monte Carlo (equation 12), and so do the kernel's
log-parameters, with the functions held. `whitened_parameters=True` holds the whitened functions in
that step instead, so that the functions move along, and takes elliptical slice sampling for it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import cholesky_inverse, remove_rows, solve_lower
from atoll.inference import elliptical_slice, hmc
from atoll.kernels.hyperparameters import gram_gradient_function
from atoll.models.archipelago.functions import (
    Kernels,
    Setting,
    covariances_at,
    gram_at_rows,
    kernels_at,
    mixed,
    mixing_or_none,
    served_by,
    unwhiten,
    whiten,
)
from atoll.models.archipelago.joint import (
    log_functions,
    log_orders,
    log_parameters,
    row_factors,
    whitened_slope,
)
from atoll.models.archipelago.likelihood import log_rejection
from atoll.models.archipelago.state import ArchipelagoState, current_base, known_rows
from atoll.models.archipelago.sweep import sample_base

Array = NDArray[np.float64]

LEAPFROG_STEPS = (3, 8)  # 3 to 7, drawn at random
N_COUNT_MOVES = 10  # "typically several (≈ 10)" of them for each of the others
FARTHEST = 20.0  # standard deviations of a log-parameter's prior, beyond which nothing is factored


def sweep(
    rng: np.random.Generator,
    setting: Setting,
    state: ArchipelagoState,
    adapt: bool,
    *,
    whitened_parameters: bool = False,
) -> ArchipelagoState:
    """Make the paper's moves in its order: number, places, functions, θ, base density."""
    for _ in range(N_COUNT_MOVES):
        state = add_or_remove(rng, setting, state)
    state = relocate(rng, setting, state)
    for k in range(setting.n_classes):
        state = sample_function(rng, setting, state, k, adapt)
    if len(setting.prior.mean) > 0:
        if whitened_parameters:
            state = sample_whitened_log_parameters(rng, setting, state, adapt)
        else:
            state = sample_log_parameters(rng, setting, state, adapt)
    state = sample_base(rng, setting, state)
    return state._replace(n_clamped=max(state.n_clamped - 1, 0))


whitened_sweep = partial(sweep, whitened_parameters=True)


# Rejections ---------------------------------------------------------------------------------------


def add_or_remove(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Propose one rejection more, or one fewer, with probability one half each (section 3.1).

    A new one comes from π and has functions from their conditional: of the ratio of joints,
    equation 8 with its factor, the orders and the rejection's own factor are left.
    """
    n, m = len(setting.inputs), len(state.rejections)
    log_uniform = np.log1p(-rng.random())
    if rng.random() < 0.5:  # b(M, n)
        row = current_base(setting, state).sample(rng, 1)
        u, grown = _draw_at(rng, setting, state, row)
        log_ratio = log_orders(n, m + 1) - log_orders(n, m)
        log_ratio += log_rejected(setting, state, u)  # equation 9
        return grown if log_uniform < log_ratio else state
    if m == 0:
        return state
    chosen = int(rng.integers(m))
    u = unwhiten(state.factors, state.whitened)[n + chosen]
    log_ratio = log_orders(n, m - 1) - log_orders(n, m)
    log_ratio -= log_rejected(setting, state, u)  # equation 10
    return _without(setting, state, chosen) if log_uniform < log_ratio else state


def relocate(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Propose a new place, drawn from π, for each rejection in turn (section 3.2)."""
    n, place = len(setting.inputs), 0
    for _ in range(len(state.rejections)):
        row = current_base(setting, state).sample(rng, 1)
        u, grown = _draw_at(rng, setting, state, row)
        u_old = unwhiten(state.factors, state.whitened)[n + place]
        # Equation 11 with q = π.
        log_ratio = log_rejected(setting, state, u) - log_rejected(setting, state, u_old)
        if np.log1p(-rng.random()) < log_ratio:
            state = _without(setting, grown, place)  # the next one takes its place
        else:
            place += 1
    return state


def log_rejected(setting: Setting, state: ArchipelagoState, u: Array) -> float:
    """Return −log(1 + Λ), one rejection's factor in equation 8, where functions are u, (K,)."""
    return float(log_rejection(mixed(u, mixing_or_none(state.mixing, setting.n_classes))))


def _draw_at(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, row: Any
) -> tuple[Array, ArchipelagoState]:
    """Draw u at one new row given all that is known, (K,); the state with it as a rejection."""
    known = known_rows(setting, state)
    between, nugget = covariances_at(setting, state.log_parameters)
    size, noise = len(known), rng.standard_normal(setting.n_classes)
    u = np.empty(setting.n_classes)
    factors = np.zeros((len(state.factors), size + 1, size + 1))
    for f, theta in enumerate(state.log_parameters):
        k = served_by(f, len(factors))
        bridge = solve_lower(state.factors[f], between(theta, known, row))[:, 0]
        variance = between(theta, row, row)[0, 0] + nugget[f] - bridge @ bridge
        deviation = np.sqrt(max(variance, nugget[f]))  # rounding may fall below the nugget
        u[k] = bridge @ state.whitened[:, k] + deviation * noise[k]
        factors[f, :size, :size] = state.factors[f]
        factors[f, size, :size], factors[f, size, size] = bridge, deviation
    grown = state._replace(
        rejections=np.concatenate([state.rejections, row]),
        whitened=np.concatenate([state.whitened, noise[None]]),
        factors=factors,
    )
    return u, grown


def _without(setting: Setting, state: ArchipelagoState, index: int) -> ArchipelagoState:
    """Return the state without one of its rejections."""
    row = np.array([len(setting.inputs) + index])
    u = np.delete(unwhiten(state.factors, state.whitened), row, axis=0)
    factors = np.stack([remove_rows(lower, row) for lower in state.factors])
    return state._replace(
        rejections=np.delete(state.rejections, index, axis=0),
        whitened=whiten(factors, u),
        factors=factors,
    )


# Functions ----------------------------------------------------------------------------------------


def sample_function(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, k: int, adapt: bool
) -> ArchipelagoState:
    """Take one Hamiltonian step of one whitened function, the others held (section 3.3)."""
    rows, factors, whitened = row_factors(setting, state), state.factors, state.whitened.copy()

    def target(column: Array) -> tuple[float, Array]:
        whitened[:, k] = column
        u = unwhiten(factors, whitened)
        value = rows.log_density(u, whitened)  # equation 12
        return value, whitened_slope(factors, rows.slope(u), whitened)[:, k]

    moved, info, tuned = hmc.tuned_step(
        rng, state.whitened[:, k].copy(), target, state.step_size, LEAPFROG_STEPS, adapt
    )
    whitened[:, k] = moved
    return state._replace(whitened=whitened, step_size=tuned, acceptance=info.acceptance)


# Hyper-parameters ---------------------------------------------------------------------------------


def sample_log_parameters(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool
) -> ArchipelagoState:
    """Take one Hamiltonian step of θ with the functions u held: p(u | θ) p(θ) (section 3.4)."""
    prior, shape = setting.prior, state.log_parameters.shape
    places, u = known_rows(setting, state), unwhiten(state.factors, state.whitened)
    gram_at, slope_of = gram_at_rows(setting, places), gram_gradient_function(prior, places)

    def target(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(shape)
        deviation = (theta - prior.mean) / prior.sd
        value, slope = log_parameters(prior, theta), -deviation / prior.sd
        if not np.all(np.abs(deviation) < FARTHEST):  # a step gone astray
            return -np.inf, slope.ravel()
        for f, lower in enumerate(kernels_at(gram_at, theta).factors):
            white = solve_lower(lower, u[:, served_by(f, len(theta))])
            value += log_functions(lower, white)
            dual = solve_lower(lower, white, transposed=True)
            inner = 0.5 * (dual @ dual.T - white.shape[1] * cholesky_inverse(lower))
            slope[f] += slope_of(theta[f], lower @ lower.T, inner)
        return value, slope.ravel()

    moved, info, tuned = hmc.tuned_step(
        rng, state.log_parameters.ravel(), target, state.parameter_step_size, LEAPFROG_STEPS, adapt
    )
    if not info.accepted:
        return state._replace(parameter_step_size=tuned)
    kernels = kernels_at(gram_at, moved.reshape(shape))
    return state._replace(
        log_parameters=kernels.theta, factors=kernels.factors, jitter=kernels.jitter,
        whitened=whiten(kernels.factors, u), parameter_step_size=tuned,
    )  # fmt: skip


def sample_whitened_log_parameters(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool = False
) -> ArchipelagoState:
    """Draw θ given ν by elliptical slice sampling; the functions u = L(θ) ν move with it."""
    prior, shape = setting.prior, state.log_parameters.shape
    rows, gram_at = row_factors(setting, state), gram_at_rows(setting, known_rows(setting, state))
    kernels: Kernels | None = None

    def log_likelihood(flat: Array) -> float:
        nonlocal kernels
        kernels = kernels_at(gram_at, flat.reshape(shape))
        return rows.log_likelihood(unwhiten(kernels.factors, state.whitened))

    before = state.log_parameters.ravel()
    now = rows.log_likelihood(unwhiten(state.factors, state.whitened))
    after, _, info = elliptical_slice.step(
        rng, before, now, log_likelihood,
        np.tile(prior.sd, shape[0]) * rng.standard_normal(len(before)),
        np.tile(prior.mean, shape[0]), width=float(np.exp(state.arc.log_width)),
    )  # fmt: skip
    if adapt:
        state = state._replace(arc=elliptical_slice.adapt_width(state.arc, info))
    if after is before or kernels is None:
        return state
    # The last θ looked at is the one that was taken.
    return state._replace(
        log_parameters=kernels.theta, factors=kernels.factors, jitter=kernels.jitter
    )
