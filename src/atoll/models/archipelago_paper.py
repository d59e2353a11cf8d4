"""Archipelago's sweep as paper 000 has it: the yardstick for our own.

Rejections come and go one at a time (equations 9 and 10), and move one at a time (equation 11). The
functions move one after the other by Hamiltonian Monte Carlo (equation 12), and so do the kernel's
log-parameters, with the functions held. `whitened_parameters=True` holds the whitened functions in
that step instead, so that the functions move along, and takes elliptical slice sampling for it.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import cholesky_inverse, cholesky_log_det, remove_rows, solve_lower
from atoll.inference import elliptical_slice, hmc
from atoll.kernels.hyperparameters import (
    cross_gram_function,
    gram_function,
    gram_gradient_function,
)
from atoll.models.archipelago import (
    ArchipelagoState,
    Outcomes,
    Setting,
    current_base,
    factors_at,
    factors_from,
    functions,
    functions_transposed,
    latent_at,
    mixing_matrix,
    nugget_at,
    outcomes_at,
    sample_base,
    whiten,
)

Array = NDArray[np.float64]

LEAPFROG_STEPS = (3, 8)  # 3 to 7, drawn at random
N_COUNT_MOVES = 10  # "typically several (≈ 10)" of them for each of the others


def sweep(
    rng: np.random.Generator,
    setting: Setting,
    state: ArchipelagoState,
    adapt: bool,
    *,
    whitened_parameters: bool = False,
) -> ArchipelagoState:
    """The paper's moves in its order: number, places, functions, log-parameters, base density."""
    for _ in range(N_COUNT_MOVES):
        state = add_or_remove(rng, setting, state)
    state = relocate(rng, setting, state)
    for k in range(setting.n_classes):
        state = sample_function(rng, setting, state, k, adapt)
    if len(setting.prior.mean) > 0:
        if whitened_parameters:
            state = sample_log_parameters_whitened(rng, setting, state, adapt)
        else:
            state = sample_log_parameters_given_functions(rng, setting, state, adapt)
    state = sample_base(rng, setting, state)
    return state._replace(n_clamped=max(state.n_clamped - 1, 0))


whitened_sweep = partial(sweep, whitened_parameters=True)


def add_or_remove(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Propose one rejection more, or one fewer, with probability one half each."""
    n, m = len(setting.inputs), len(state.rejections)
    log_uniform = np.log1p(-rng.random())
    if rng.random() < 0.5:
        row = current_base(setting, state).sample(rng, 1)
        u, grown = _draw_at(rng, setting, state, row)
        if log_uniform < np.log((m + n) / (m + 1)) - _log_one_plus(setting, state, u):
            return grown
        return state
    if m == 0:
        return state
    chosen = int(rng.integers(m))
    u = functions(state.factors, state.whitened)[n + chosen]
    if log_uniform < np.log(m / (m + n - 1)) + _log_one_plus(setting, state, u):
        return _without(setting, state, chosen)
    return state


def relocate(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Propose a new place, drawn from π, for each rejection in turn."""
    n, place = len(setting.inputs), 0
    for _ in range(len(state.rejections)):
        row = current_base(setting, state).sample(rng, 1)
        u, grown = _draw_at(rng, setting, state, row)
        u_old = functions(state.factors, state.whitened)[n + place]
        log_ratio = _log_one_plus(setting, state, u_old) - _log_one_plus(setting, state, u)
        if np.log1p(-rng.random()) < log_ratio:
            state = _without(setting, grown, place)  # the next one takes its place
        else:
            place += 1
    return state


def sample_function(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, k: int, adapt: bool
) -> ArchipelagoState:
    """One Hamiltonian step of one whitened function, the others held."""
    outcomes, A = outcomes_at(setting, state), mixing_matrix(state.mixing, setting.n_classes)
    whitened = state.whitened.copy()

    def target(column: Array) -> tuple[float, Array]:
        whitened[:, k] = column
        value, slope = log_joint(whitened, state.factors, A, outcomes)
        return value, slope[:, k]

    moved, info, tuned = hmc.tuned_step(
        rng, state.whitened[:, k].copy(), target, state.step_size, LEAPFROG_STEPS, adapt
    )
    whitened[:, k] = moved
    return state._replace(whitened=whitened, step_size=tuned, acceptance=info.acceptance)


def log_joint(
    whitened: Array, factors: Array, mixing: Array, outcomes: Outcomes
) -> tuple[float, Array]:
    """Equation 8 in ν, up to what does not depend on it, and its gradient; ν (T, K), A (K, K)."""
    g = functions(factors, whitened) @ mixing.T
    value = outcomes.total(g) - 0.5 * float(np.vdot(whitened, whitened))
    return value, functions_transposed(factors, outcomes.slope(g) @ mixing) - whitened


def sample_log_parameters_given_functions(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool
) -> ArchipelagoState:
    """One Hamiltonian step of θ with the functions u held: p(u | θ) p(θ)."""
    prior, shape = setting.prior, state.log_parameters.shape
    rows = np.concatenate([setting.inputs, state.rejections])
    u = functions(state.factors, state.whitened)
    slope_of = gram_gradient_function(prior, rows)

    def target(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(shape)
        deviation = (theta - prior.mean) / prior.sd
        value, slope = -0.5 * float(np.sum(deviation**2)), -deviation / prior.sd
        if not np.all(np.abs(deviation) < 20.0):  # a step gone astray: nothing to factor there
            return -np.inf, slope.ravel()
        factors, _ = factors_at(setting, rows, theta)
        for f, lower in enumerate(factors):
            part = u if len(factors) == 1 else u[:, f : f + 1]
            white = solve_lower(lower, part)
            dual = solve_lower(lower, white, transposed=True)
            n_functions = part.shape[1]
            value -= 0.5 * (float(np.sum(white**2)) + n_functions * cholesky_log_det(lower))
            inner = 0.5 * (dual @ dual.T - n_functions * cholesky_inverse(lower))
            slope[f] += slope_of(theta[f], lower @ lower.T, inner)
        return value, slope.ravel()

    moved, info, tuned = hmc.tuned_step(
        rng, state.log_parameters.ravel(), target, state.parameter_step_size, LEAPFROG_STEPS, adapt
    )
    if not info.accepted:
        return state._replace(parameter_step_size=tuned)
    theta = moved.reshape(shape)
    factors, jitter = factors_at(setting, rows, theta)
    return state._replace(
        log_parameters=theta, factors=factors, jitter=jitter, whitened=whiten(factors, u),
        parameter_step_size=tuned,
    )  # fmt: skip


def sample_log_parameters_whitened(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool = False
) -> ArchipelagoState:
    """θ given ν by elliptical slice sampling; the functions u = L(θ) ν move with it."""
    prior, shape = setting.prior, state.log_parameters.shape
    outcomes, A = outcomes_at(setting, state), mixing_matrix(state.mixing, setting.n_classes)
    rows = np.concatenate([setting.inputs, state.rejections])
    gram_at = gram_function(setting.prior, rows, reference=setting.inputs)
    factors, jitter = state.factors, state.jitter

    def log_likelihood(flat: Array) -> float:
        nonlocal factors, jitter
        factors, jitter = factors_from(gram_at, flat.reshape(shape))
        u = functions(factors, state.whitened)
        return outcomes.total(u @ A.T if len(state.mixing) > 0 else u)

    before = state.log_parameters.ravel()
    now = outcomes.total(latent_at(setting, state))
    after, _, info = elliptical_slice.step(
        rng, before, now, log_likelihood,
        np.tile(prior.sd, shape[0]) * rng.standard_normal(len(before)),
        np.tile(prior.mean, shape[0]), width=float(np.exp(state.arc.log_width)),
    )  # fmt: skip
    if adapt:
        state = state._replace(arc=elliptical_slice.adapt_width(state.arc, info))
    if after is before:
        return state
    return state._replace(log_parameters=after.reshape(shape), factors=factors, jitter=jitter)


def _draw_at(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, row: Array
) -> tuple[Array, ArchipelagoState]:
    """u at one new row given all that is known, (K,), and the state with it as a rejection."""
    known = np.concatenate([setting.inputs, state.rejections])
    cross, nugget = cross_gram_function(setting.prior), nugget_at(setting, state.log_parameters)
    size, noise = len(known), rng.standard_normal(setting.n_classes)
    u = np.empty(setting.n_classes)
    factors = np.zeros((len(state.factors), size + 1, size + 1))
    for f, theta in enumerate(state.log_parameters):
        k = slice(None) if len(factors) == 1 else f
        bridge = solve_lower(state.factors[f], cross(theta, known, row))[:, 0]
        variance = cross(theta, row, row)[0, 0] + nugget[f] - bridge @ bridge
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
    """The state without one of its rejections."""
    row = np.array([len(setting.inputs) + index])
    u = np.delete(functions(state.factors, state.whitened), row, axis=0)
    factors = np.stack([remove_rows(lower, row) for lower in state.factors])
    return state._replace(
        rejections=np.delete(state.rejections, index, axis=0),
        whitened=whiten(factors, u),
        factors=factors,
    )


def _log_one_plus(setting: Setting, state: ArchipelagoState, u: Array) -> float:
    """log(1 + Λ) where the independent functions are u, (K,)."""
    g = mixing_matrix(state.mixing, setting.n_classes) @ u
    return float(np.logaddexp.reduce(np.append(g, 0.0)))
