"""A fit by the engine: starts, batches, the ascent, and the bound by which starts are weighed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from atoll.core.extras import import_extra
from atoll.core.memory import in_chunks
from atoll.inference import natural_gradient
from atoll.inference.chains import Sampler
from atoll.likelihoods.softmax import symmetric_points
from atoll.models.archipelago.engine import ascent
from atoll.models.archipelago.engine.ascent import AscentState, Fixed, Round
from atoll.models.archipelago.engine.checkpoint import Checkpoint
from atoll.models.archipelago.engine.device import running_on
from atoll.models.archipelago.engine.objective import Batch, Pace
from atoll.models.archipelago.engine.posterior import (
    EnginePosterior,
    Scaling,
    stacked_factors,
    state_moments,
)
from atoll.models.archipelago.engine.problem import Problem
from atoll.models.archipelago.engine.schedule import (
    ROUNDS_AT_ONCE,
    STEPS_PER_ROUND,
    Schedule,
    make_schedule,
    n_whole_steps,
    onward_schedule,
)
from atoll.models.archipelago.engine.sparse import Sites
from atoll.models.archipelago.engine.start import (
    base_points,
    inducing_inputs,
    log_start,
    own_units,
    scaling,
)
from atoll.models.archipelago.likelihood import kept, log_rejection, log_total

Array = NDArray[np.float64]

BATCH_ROWS = 512  # a power of two, for `spread_out`
BATCH_LABELS = 256  # at most
BASE_POINTS = 512  # a power of two, so that each step's part of a Sobol net is a net
CHAIN_DRAWS = 2  # of what inducing values leave open of the functions, in chains
FEW_CHAIN_POINTS, CHAIN_POINTS = 1024, 4096  # of π, in chains
FEW_CHAIN_ROWS = 500  # up to which there are few of them
EVALUATED = 4096  # rows, and points of π, by which the bound is told at the end


class Options(NamedTuple):
    """How to fit.

    n_inducing : m
    n_steps : of the ascent, rounded up to whole reports
    n_starts : of which each has graphs and batches of its own
    device : "auto", "cpu" or "gpu"
    """

    n_inducing: int = 120
    n_steps: int = 120
    n_starts: int = 1
    device: str = "auto"


class Onward(NamedTuple):
    """An earlier ascent, from which another goes on with more rows.

    scaled, inducing : of the earlier one
    ends : of every start, the leaves of its last state
    """

    scaled: Scaling
    inducing: Array
    ends: tuple[tuple[Array, ...], ...]


class Found(NamedTuple):
    """What a fit found.

    posterior : one state per start
    bounds : (starts,) on the log evidence
    norms : (starts,) Z
    trace : name -> (starts, rounds, ...) bound, norm and log-parameters (of the rows' own units)
        after every round; the bound is that of the weights of the round
    n_refused : steps that were not finite
    device : where it ran, in JAX's words
    ends : the ascents' last states
    """

    posterior: EnginePosterior
    bounds: Array
    norms: Array
    trace: dict[str, Array]
    n_refused: int
    device: str
    ends: list[AscentState]

    @property
    def leaves(self) -> tuple[tuple[Array, ...], ...]:
        """The last states as plain arrays."""
        tree = import_extra("jax").tree
        return tuple(tuple(map(np.asarray, tree.leaves(end))) for end in self.ends)


def fit(
    seed: int,
    problem: Problem,
    options: Options,
    report: Callable[..., None] | None = None,
    checkpoint: Checkpoint | None = None,
    onward: Onward | None = None,
) -> Found:
    """Find the posterior of a problem.

    Parameters
    ----------
    seed : of everything random
    report : hears start, steps taken, estimate of the bound, Z and log-parameters after some rounds
    checkpoint : where the ascent is kept as it goes on
    onward : where it goes on from; None: it starts from a graph
    """
    streams = np.random.default_rng(seed).spawn(2 + options.n_starts)
    prior = problem.prior
    if onward is None:
        scaled = scaling(problem)
        inducing = inducing_inputs(streams[0], problem, scaled, options.n_inducing)
    else:
        scaled, inducing = onward.scaled, onward.inducing
    in_own_units = own_units(problem, scaled)
    of_scaled = prior.mean - in_own_units

    def heard(*numbers: Any) -> None:
        if report is not None:
            report(*numbers[:-1], numbers[-1] + in_own_units)

    with running_on(options.device) as device:
        sites = Sites(np.asarray(inducing, np.float32), np.float32(problem.detail))
        fixed = Fixed(sites, *(np.asarray(v, np.float32) for v in (of_scaled, prior.sd)))
        ends, traces = [], []
        for number, stream in enumerate(streams[2:]):
            begin = None if onward is None else onward.ends[number]
            climb = _Climb(number, problem, options, scaled, fixed, checkpoint, heard, begin)
            end, trace = climb.run(stream)
            ends.append(end)
            traces.append(trace)
    posterior = _posterior_of(ends, problem, scaled, inducing)
    bounds, norms = evaluate(streams[1], problem, posterior, ends, of_scaled)
    trace = {name: np.stack([t[name] for t in traces]) for name in traces[0]}
    trace["log_parameters"] = trace["log_parameters"] + in_own_units
    return Found(
        posterior._replace(
            log_norms=np.log(norms), log_weights=bounds - np.logaddexp.reduce(bounds)
        ),
        bounds,
        norms,
        trace,
        int(sum(end.n_refused for end in ends)),
        device.platform,
        ends,
    )


class _Climb(NamedTuple):
    """The ascent of one start."""

    number: int
    problem: Problem
    options: Options
    scaled: Scaling
    fixed: Fixed
    checkpoint: Checkpoint | None
    report: Callable[..., None]
    begin: tuple[Array, ...] | None = None

    def run(self, rng: np.random.Generator) -> tuple[AscentState, dict[str, Array]]:
        """Climb; everything comes back as NumPy arrays."""
        jax = import_extra("jax")
        rng_graph, rng_batches = rng.spawn(2)
        n_steps, K = n_whole_steps(self.options.n_steps), self.problem.n_classes
        plan = make_schedule(n_steps, int(self.problem.n))
        state, trace = ascent.init(self.fixed, K), _no_trace(self.fixed)
        if self.begin is not None:
            plan, state = onward_schedule(n_steps), ascent.resume(self.begin, state)
        state, trace, n_done = self._resumed(state, trace)
        if n_done < len(plan.rate):
            r = np.zeros((len(self.problem.rows), K), np.float32)
            if self.begin is None:
                r = log_start(rng_graph, self.problem)
            coming = _rounds(rng_batches, self.problem, self.scaled, r, plan, n_done)
            rounds = next(coming, None)
            while rounds is not None:
                state, heard = ascent.advance(state, rounds, self.fixed)
                rounds = next(coming, None)  # drawn while the device is at work on the last
                n_done += STEPS_PER_ROUND * ROUNDS_AT_ONCE
                trace = {
                    name: np.concatenate([old, np.asarray(getattr(heard, name), np.float64)])
                    for name, old in trace.items()
                }
                self._keep(state, trace, n_done)
        return jax.tree.map(np.asarray, state), trace

    def _keep(self, state: AscentState, trace: dict[str, Array], n_done: int) -> None:
        """Write the checkpoint, and tell how far it has come."""
        if self.checkpoint is not None:
            leaves = import_extra("jax").tree.leaves(state)
            parts = {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
            self.checkpoint.save(self.number, {**parts, **trace, "n_done": np.array(n_done)})
        self.report(self.number, n_done, *(trace[name][-1] for name in ascent.Report._fields))

    def _resumed(
        self, state: AscentState, trace: dict[str, Array]
    ) -> tuple[AscentState, dict[str, Array], int]:
        """Return what the checkpoint holds, or the beginning."""
        held = None if self.checkpoint is None else self.checkpoint.load(self.number)
        if held is None:
            return state, trace, 0
        tree = import_extra("jax").tree
        leaves = [held[f"state_{i}"] for i in range(len(tree.leaves(state)))]
        state = tree.unflatten(tree.structure(state), leaves)
        return state, {name: held[name] for name in trace}, int(held["n_done"])


def _no_trace(fixed: Fixed) -> dict[str, Array]:
    p = len(fixed.prior_mean)
    return {"bound": np.zeros(0), "norm": np.zeros(0), "log_parameters": np.zeros((0, p))}


def _rounds(
    rng: np.random.Generator,
    problem: Problem,
    scaled: Scaling,
    r: NDArray[np.float32],
    plan: Schedule,
    n_done: int,
) -> Iterator[Round]:
    """Yield what the ascent is given between two reports, from a number of steps on."""
    jax = import_extra("jax")
    n_steps, at_once = len(plan.rate), STEPS_PER_ROUND * ROUNDS_AT_ONCE
    keys = rng.integers(2**32, size=(len(plan.learning_rate), 2), dtype=np.uint32)
    order_of_rows = _passes(rng, len(problem.rows), BATCH_ROWS, n_steps)
    n_labels = min(BATCH_LABELS, _power_of_two(len(problem.codes)))
    order_of_labels = _passes(rng, len(problem.codes), n_labels, n_steps)
    for first in range(0, n_steps, at_once):
        steps = slice(first, first + at_once)
        base = base_points(rng, problem.base, at_once * BASE_POINTS)
        rows = order_of_rows[steps]
        if len(problem.rows) > BATCH_ROWS:
            rows = spread_out(rng, rows, scaled(problem.rows[rows]))
        if first < n_done:
            continue
        base = base.reshape(at_once, BASE_POINTS, -1)  # a part of a net is a net for each step
        batch = _batch(problem, scaled, r, order_of_labels[steps], rows, base)
        paces = Pace(*(column[steps] for column in plan[:5]))
        batches, paces = jax.tree.map(
            lambda v: v.reshape(ROUNDS_AT_ONCE, STEPS_PER_ROUND, *v.shape[1:]), (batch, paces)
        )
        rounds = slice(first // STEPS_PER_ROUND, (first + at_once) // STEPS_PER_ROUND)
        yield Round(keys[rounds], batches, paces, plan.learning_rate[rounds])


def _passes(rng: np.random.Generator, n: int, size: int, n_steps: int) -> NDArray[np.intp]:
    """Return which rows each step sees, (steps, size): passes over all; −1 fills up."""
    if n <= size:
        return np.tile(np.concatenate([np.arange(n), np.full(size - n, -1)]), (n_steps, 1))
    n_passes = -(-size * n_steps // n)
    order = np.concatenate([rng.permutation(n) for _ in range(n_passes)])
    return order[: size * n_steps].reshape(n_steps, size)


def spread_out(rng: np.random.Generator, rows: NDArray[np.intp], X: Array) -> NDArray[np.intp]:
    """Deal the rows of some steps out anew, so that every step sees rows from everywhere.

    All rows are sorted by one feature and cut into strips, and each strip by another into cells of
    as many rows as there are steps; every step gets one row of each cell. The two features are
    drawn anew in every call, more often those that vary more.

    Parameters
    ----------
    rows : (steps, b) their numbers, b a power of two
    X : (steps, b, d) the rows themselves
    """
    n_steps, n_cells = rows.shape
    X = X.reshape(rows.size, -1)
    first, second = np.resize(np.argsort(-X.var(axis=0) * rng.random(X.shape[1])), 2)
    n_strips = 2 ** (n_cells.bit_length() // 2)
    strips = np.argsort(X[:, first]).reshape(n_strips, -1)
    strips = np.take_along_axis(strips, np.argsort(X[strips, second], axis=1), axis=1)
    cells = rng.permuted(strips.reshape(n_cells, n_steps), axis=1)
    return rows.ravel()[cells.T]


def _power_of_two(n: int) -> int:
    """Return the power of two that holds n, at least 8: few sizes are few programs to compile."""
    return max(8, 1 << (n - 1).bit_length())


def _batch(
    problem: Problem,
    scaled: Scaling,
    r: NDArray[np.float32],
    labels: NDArray[np.intp],
    rows: NDArray[np.intp],
    base: Array,
) -> Batch:
    """Return the batches of some steps, in float32; labels (t, l), rows (t, b), base (t, J, d)."""
    X = problem.rows if len(problem.rows) else problem.labelled[:1]
    r = r if len(r) else np.zeros((1, problem.n_classes), np.float32)
    one_hot = np.eye(problem.n_classes)[problem.codes]
    parts = Batch(
        labelled=scaled(problem.labelled[labels]),
        labels=one_hot[labels],
        label_weights=_weights(labels, len(problem.codes)) * problem.label_weights[labels],
        rows=scaled(X[rows]),
        log_start=r[rows],
        row_weights=_weights(rows, problem.n_unlabelled),
        base=scaled(base),
    )
    return Batch(*(np.asarray(part, np.float32) for part in parts))


def _weights(chosen: NDArray[np.intp], n: int) -> Array:
    """Return how many of n rows each chosen one stands for, zero for what fills up."""
    there = chosen >= 0
    return there * (n / np.maximum(there.sum(axis=1, keepdims=True), 1))


def _posterior_of(
    ends: list[AscentState], problem: Problem, scaled: Scaling, inducing: Array
) -> EnginePosterior:
    """Return the averages over the last steps as a posterior, norms and weights yet to be found."""
    factors = [stacked_factors(end.average.precision) for end in ends]
    r = max(C.shape[1] for C in factors)
    unknown = np.zeros(len(ends))
    return EnginePosterior(
        scaled,
        inducing,
        problem.base,
        np.stack([end.log_parameters for end in ends]).astype(np.float64),
        np.stack([end.average.mean for end in ends]).astype(np.float64),
        np.stack([np.pad(C, ((0, 0), (0, r - C.shape[1]), (0, 0))) for C in factors]),
        unknown,
        unknown - np.log(len(ends)),
        detail=problem.detail,
    )


# The bound at the end -----------------------------------------------------------------------------


def evaluate(
    rng: np.random.Generator,
    problem: Problem,
    posterior: EnginePosterior,
    ends: list[AscentState],
    prior_mean: Array,
) -> tuple[Array, Array]:
    """Return the bound on the log evidence of every state, (S,), and its Z, (S,)."""
    base = base_points(rng, problem.base, EVALUATED)
    rows, u = problem.rows[:EVALUATED], problem.n_unlabelled
    one_hot = np.eye(problem.n_classes)[problem.codes]
    bounds, norms = [], []
    for s, end in enumerate(ends):
        of_rows = [log_expit(log_total(g)).mean(axis=1) for _, g in _points(posterior, s, rows)]
        of_base = [kept(g).mean(axis=1) for _, g in _points(posterior, s, base)]
        of_labels = [
            ((one_hot[part, None] * g).sum(axis=2) + log_rejection(g)).mean(axis=1)
            @ problem.label_weights[part]
            for part, g in _points(posterior, s, problem.labelled)
        ]
        norm = float(np.concatenate(of_base).mean())
        away = (posterior.log_parameters[s] - prior_mean) / problem.prior.sd
        bounds.append(
            sum(of_labels)
            + (u * np.concatenate(of_rows).mean() if u else 0.0)
            - problem.n * np.log(norm)
            - divergence(end)
            - 0.5 * np.sum(away**2)
        )
        norms.append(norm)
    return np.array(bounds), np.array(norms)


def _points(posterior: EnginePosterior, s: int, X: Array) -> Iterator[tuple[slice, Array]]:
    """Yield a part of the rows, and points that stand for g there, (b, points, K)."""
    points = symmetric_points(posterior.n_classes, s)
    for part, mean, deviation in state_moments(posterior, s, X):
        for piece in in_chunks(len(mean), points.size):
            g = mean[piece, None] + deviation[piece, None] * points
            yield slice(part.start + piece.start, part.start + piece.stop), g


def divergence(end: AscentState) -> float:
    """Return KL(q ‖ prior) of the average over the last steps."""
    mean, precision = (np.asarray(v, dtype=np.float64) for v in end.average)
    K, m = mean.shape
    traces = np.trace(np.linalg.inv(precision), axis1=1, axis2=2).sum()
    log_det = np.linalg.slogdet(precision)[1].sum()
    return float(0.5 * (traces + (mean**2).sum() - K * m + log_det))


# Chains from there on -----------------------------------------------------------------------------


def chains_of(
    rng: np.random.Generator, problem: Problem, found: Found, order: NDArray[np.intp]
) -> list[Sampler]:
    """Return one sampler for each start, over inducing values and log-parameters.

    Parameters
    ----------
    order : (n,) where each row of the fit is among labelled rows, then rows without a label
    """
    from atoll.models.archipelago.engine import hmc

    scaled, K = found.posterior.scaling, problem.n_classes
    n = len(problem.labelled) + len(problem.rows)
    n_base = FEW_CHAIN_POINTS if n <= FEW_CHAIN_ROWS else CHAIN_POINTS
    base = base_points(rng, problem.base, n_base)
    half = rng.standard_normal((CHAIN_DRAWS // 2, n + n_base, K))
    shifts = own_units(problem, scaled)
    made = []
    for s, end in enumerate(found.ends):
        C = natural_gradient.covariance_factors(end.average)
        data = hmc.SparseData(
            labelled=scaled(problem.labelled),
            labels=np.eye(K)[problem.codes],
            rows=scaled(problem.rows),
            base=scaled(base),
            inducing=found.posterior.inducing,
            detail=np.array(found.posterior.detail),
            noise=np.concatenate([half, -half]),
            centre=found.posterior.means[s],
            factors=C,
            theta_centre=found.posterior.log_parameters[s],
            prior_mean=problem.prior.mean - shifts,
            prior_sd=problem.prior.sd,
        )
        in_float32 = hmc.SparseData(*(np.asarray(part, np.float32) for part in data))
        made.append(hmc.sampler(in_float32, shifts, order))
    return made


def posterior_of_draws(
    found: Found, problem: Problem, draws: dict[str, Array], weights: Array
) -> EnginePosterior:
    """Return the posterior of pooled draws, (S, ...), those of each chain with its weight in all.

    Parameters
    ----------
    weights : (chains,)
    """
    S, K, m = draws["values"].shape
    counts = np.bincount(draws["chain"], minlength=len(weights))
    by_draw = (weights / np.maximum(counts, 1))[draws["chain"]]
    return found.posterior._replace(
        log_parameters=draws["log_parameters"] - own_units(problem, found.posterior.scaling),
        means=draws["values"],
        factors=np.zeros((S, K, 0, m)),
        log_norms=draws["log_norm"],
        log_weights=np.log(np.maximum(by_draw / by_draw.sum(), 1e-300)),
    )
