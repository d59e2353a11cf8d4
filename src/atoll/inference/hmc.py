"""Hamiltonian Monte Carlo (Neal 1997) with a step size adapted during warm-up only.

First come state, info, `init` and `step`; then `step_by_gradients`, which evaluates the density
only at the two ends of a trajectory; then `nested_step`, for two blocks of coordinates of which one
is expensive to move; last the adaptation by dual averaging (Hoffman & Gelman 2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LogDensity = Callable[[Array], tuple[float, Array]]


class HMCState(NamedTuple):
    """What the next step needs.

    position : any shape
    log_density : log target at `position`
    gradient : its gradient, of the same shape
    """

    position: Array
    log_density: float
    gradient: Array


class HMCInfo(NamedTuple):
    """What a person wants to know about one step.

    acceptance : probability of accepting the proposal
    accepted : whether it was accepted
    """

    acceptance: float
    accepted: bool


def init(position: Array, log_density: LogDensity) -> HMCState:
    """Return the state at `position`; log_density returns the log density and its gradient."""
    return HMCState(position, *log_density(position))


def step(
    rng: np.random.Generator,
    state: HMCState,
    log_density: LogDensity,
    step_size: float,
    n_leapfrog: int,
) -> tuple[HMCState, HMCInfo]:
    """Make one transition, with identity mass, that leaves exp(log_density) invariant.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> normal = lambda x: (-0.5 * float(x @ x), -x)
    >>> state = init(np.zeros(3), normal)
    >>> state, info = step(rng, state, normal, step_size=0.1, n_leapfrog=5)
    >>> info.acceptance > 0.99
    True
    """
    momentum = rng.standard_normal(state.position.shape)
    threshold = np.log1p(-rng.random())
    q, logp, gradient = state
    p = momentum + 0.5 * step_size * gradient
    for i in range(n_leapfrog):
        q = q + step_size * p
        logp, gradient = log_density(q)
        if not np.isfinite(logp):
            return state, HMCInfo(0.0, False)
        p = p + (0.5 if i == n_leapfrog - 1 else 1.0) * step_size * gradient
    energy_change = (
        logp - state.log_density + 0.5 * float(np.vdot(momentum, momentum) - np.vdot(p, p))
    )
    if not np.isfinite(energy_change):  # min(0, nan) would accept it
        return state, HMCInfo(0.0, False)
    acceptance = float(np.exp(min(0.0, energy_change)))
    if threshold < energy_change:
        return HMCState(q, logp, gradient), HMCInfo(acceptance, True)
    return state, HMCInfo(acceptance, False)


def step_by_gradients(
    rng: np.random.Generator,
    position: Array,
    log_density: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    step_size: float,
    n_leapfrog: int,
    momentum: Array | None = None,
) -> tuple[Array, HMCInfo]:
    """Make one transition, with the density evaluated only at the two ends of the trajectory.

    The same move as `step`, for targets whose density is expensive beside its gradient.

    Parameters
    ----------
    position : (d,)
    log_density : position -> log density
    gradient : position -> (d,); a NaN in its first entry ends the trajectory and refuses the move
    momentum : (d,) standard normal noise, which is overwritten; None draws it

    Returns
    -------
    position (the old one if the proposal was refused), info

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> normal, slope = lambda x: -0.5 * float(x @ x), lambda x: -x
    >>> x, info = step_by_gradients(rng, np.zeros(3), normal, slope, step_size=0.1, n_leapfrog=5)
    >>> info.acceptance > 0.99
    True
    """
    p = rng.standard_normal(len(position)) if momentum is None else momentum
    threshold = np.log1p(-rng.random())
    before = log_density(position) - 0.5 * float(p @ p)
    p += 0.5 * step_size * gradient(position)
    q = position + step_size * p
    for _ in range(1, n_leapfrog):
        slope = gradient(q)
        if math.isnan(slope[0]):
            return position, HMCInfo(0.0, False)
        p += step_size * slope
        q += step_size * p
    p += 0.5 * step_size * gradient(q)
    change = log_density(q) - 0.5 * float(p @ p) - before
    if not np.isfinite(change):
        return position, HMCInfo(0.0, False)
    accepted = bool(threshold < change)
    return q if accepted else position, HMCInfo(float(np.exp(min(0.0, change))), accepted)


class Nested(NamedTuple):
    """A density over two blocks of coordinates, of which one ("dear") is expensive to move.

    prepare : dear -> what the other functions need of it, such as a Cholesky factor; None if the
        block has gone too far
    log_density : (prepared, cheap) -> log density
    cheap_slope : (prepared, cheap) -> gradient by the cheap block, in its shape
    slopes : (prepared, cheap) -> gradients by the dear block and by the cheap block
    """

    prepare: Callable[[Array], Any]
    log_density: Callable[[Any, Array], float]
    cheap_slope: Callable[[Any, Array], Array]
    slopes: Callable[[Any, Array], tuple[Array, Array]]


def nested_step(
    rng: np.random.Generator,
    dear: Array,
    cheap: Array,
    target: Nested,
    step_size: float,
    n_leapfrog: int,
    momenta: tuple[Array, Array] | None = None,
    n_inner: int = 1,
) -> tuple[Array, Array, Any, HMCInfo]:
    """Make one transition in which the cheap block takes shorter steps than the dear block.

    Half of the shorter steps come before the dear block moves and half after, so that the whole is
    reversible. The density stays invariant under any slope that is a function of the position; a
    poor slope only makes refusals more frequent.

    Parameters
    ----------
    momenta : standard normal noise in the shapes of both blocks; None draws it
    n_inner : steps of the cheap block in each half of a step of the dear one

    Returns
    -------
    dear, cheap : the new blocks, or the old ones if the proposal was refused
    prepared : what `target.prepare` returned for that dear block
    info

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> two = Nested(
    ...     prepare=lambda x: x,
    ...     log_density=lambda x, y: -0.5 * float(x @ x + y @ y),
    ...     cheap_slope=lambda x, y: -y,
    ...     slopes=lambda x, y: (-x, -y),
    ... )
    >>> x, y, _, info = nested_step(rng, np.zeros(1), np.zeros(3), two, 0.1, 5)
    >>> info.acceptance > 0.99
    True
    """
    if momenta is None:
        momenta = rng.standard_normal(dear.shape), rng.standard_normal(cheap.shape)
    p, q = momenta
    threshold = np.log1p(-rng.random())
    prepared = target.prepare(dear)
    start, half = (dear, cheap, prepared), 0.5 * step_size
    inner = half / n_inner

    def energy() -> float:
        return target.log_density(prepared, cheap) - 0.5 * float(np.vdot(p, p) + np.vdot(q, q))

    before = energy()
    by_dear, by_cheap = target.slopes(prepared, cheap)
    p, q = p + half * by_dear, q + 0.5 * inner * by_cheap
    for i in range(n_leapfrog):
        for left in reversed(range(n_inner)):
            cheap = cheap + inner * q
            kick = 0.5 if left == 0 else 1.0  # two half-kicks merge between steps
            q = q + kick * inner * target.cheap_slope(prepared, cheap)
        dear = dear + step_size * p
        prepared = target.prepare(dear)
        if prepared is None:
            return *start, HMCInfo(0.0, False)
        kick = 0.5
        for _ in range(n_inner):
            q = q + kick * inner * target.cheap_slope(prepared, cheap)
            cheap = cheap + inner * q
            kick = 1.0
        by_dear, by_cheap = target.slopes(prepared, cheap)
        kick = 0.5 if i == n_leapfrog - 1 else 1.0
        p, q = p + kick * step_size * by_dear, q + kick * inner * by_cheap
    change = energy() - before
    if not np.isfinite(change):
        return *start, HMCInfo(0.0, False)
    info = HMCInfo(float(np.exp(min(0.0, change))), bool(threshold < change))
    return (dear, cheap, prepared, info) if info.accepted else (*start, info)


class StepSize(NamedTuple):
    """Dual averaging of the log step size towards a target acceptance.

    log_step_size : the value used while adapting
    log_average : the value used afterwards
    error_sum : running mean of target minus acceptance
    n_adapted : number of adaptations so far
    centre : value that log_step_size is shrunk towards
    """

    log_step_size: float
    log_average: float
    error_sum: float
    n_adapted: int
    centre: float


def init_step_size(guess: float) -> StepSize:
    """Return the state of an adaptation that starts from a guessed step size."""
    return StepSize(float(np.log(guess)), float(np.log(guess)), 0.0, 0, float(np.log(10.0 * guess)))


def adapt_step_size(
    state: StepSize, acceptance: float, *, target: float = 0.75, rate: float = 0.05
) -> StepSize:
    """Raise the step size if the acceptance is above `target`, and lower it if below."""
    count = state.n_adapted + 1
    weight = 1.0 / (count + 10.0)
    error_sum = (1.0 - weight) * state.error_sum + weight * (target - acceptance)
    log_step_size = state.centre - np.sqrt(count) / rate * error_sum
    decay = count**-0.75
    log_average = decay * log_step_size + (1.0 - decay) * state.log_average
    return StepSize(float(log_step_size), float(log_average), float(error_sum), count, state.centre)


def tuned_step(
    rng: np.random.Generator,
    position: Array,
    log_density: LogDensity,
    tuned: StepSize,
    n_leapfrog: tuple[int, int],
    adapt: bool,
) -> tuple[Array, HMCInfo, StepSize]:
    """Make one transition at the adapted step size, with a random number of leapfrog steps.

    Parameters
    ----------
    tuned : the adaptation's state; updated if `adapt` is true
    n_leapfrog : the smallest number of leapfrog steps, and one more than the largest
    adapt : true during warm-up

    Returns
    -------
    position, info, tuned
    """
    step_size = float(np.exp(tuned.log_step_size if adapt else tuned.log_average))
    count = int(rng.integers(*n_leapfrog))
    moved, info = step(rng, init(position, log_density), log_density, step_size, count)
    if adapt:
        tuned = adapt_step_size(tuned, info.acceptance)
    return moved.position, info, tuned
