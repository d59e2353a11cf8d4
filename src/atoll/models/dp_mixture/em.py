"""EM (section 2.3), and variational Bayes with the same E-step: every pass is a sum over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from atoll.core.memory import in_chunks
from atoll.models.dp_mixture.model import (
    MapState,
    Mixture,
    State,
    VariationalState,
    divergence,
    log_prior,
    log_stick_weights,
)
from atoll.models.dp_mixture.tempering import Tempering
from atoll.models.gaussian_components import Density, Moments, add_moments, family, scores

Array = NDArray[np.float64]
Codes = NDArray[np.integer]

CACHE_BYTES = 2**21  # rows are taken in blocks whose numbers fill about this much


@dataclass(frozen=True)
class Statistics:
    """Everything that an M-step needs to know of the rows; the statistics of chunks of rows add.

    n_rows, log_likelihood : of the rows, under the parameters of the E-step
    moments : weighted sums, with the joint responsibilities r(c; y) p(z = k | c, y) as weights
        (eq. 23 has the second factor alone, which would count a row once per class)
    """

    n_rows: float
    log_likelihood: float
    moments: Moments

    def __add__(self, other: Statistics) -> Statistics:
        moments = Moments(*(a + b for a, b in zip(self.moments, other.moments)))
        return Statistics(
            self.n_rows + other.n_rows, self.log_likelihood + other.log_likelihood, moments
        )

    def scaled(self, factor: float) -> Statistics:
        """Return the statistics of `factor` times as many rows of the same kind."""
        moments = Moments(*(factor * part for part in self.moments))
        return Statistics(factor * self.n_rows, factor * self.log_likelihood, moments)

    def counts(self, n_classes: int) -> Array:
        """Return the expected number of rows of each component, (C, K)."""
        return self.moments.features[:, 0].reshape(n_classes, -1)


def objective(model: Mixture, state: State, statistics: Statistics) -> float:
    """Return log p(Θ | Y) up to the constant log p(Y), or under "vb" the bound on log p(Y).

    `statistics` are those of the E-step at `state`.
    """
    if isinstance(state, MapState):
        return statistics.log_likelihood + log_prior(model, state)
    return statistics.log_likelihood - divergence(model, state)


# --- E-step ---------------------------------------------------------------------------------------


class EStep(NamedTuple):
    """What the E-step of a chunk of rows needs, here or in another process.

    shift, scale (d,): rows enter as (x − shift) / scale; log_weights, class_of (A,): of the
    components that have any weight, at the places `active` among all `n_components`
    """

    covariance: str
    n_factors: int
    density: Density
    log_weights: Array
    class_of: NDArray[np.intp]
    active: NDArray[np.intp]
    n_components: int
    shift: Array
    scale: Array


def e_step(model: Mixture, state: State, shift: Array, scale: Array) -> EStep:
    """Gather the expected log-densities and log-weights of the components that have weight."""
    if isinstance(state, MapState):
        with np.errstate(divide="ignore"):
            weights = np.log(state.class_weights)[:, None] + log_stick_weights(state.sticks)
        expected = model.family.density
    else:
        q = state.class_counts
        of_classes = digamma(q) - digamma(q.sum())
        weights = of_classes[:, None] + _expected_log_weights(state.sticks)
        expected = model.family.expected_density
    log_weights = weights.ravel()
    active = np.flatnonzero(log_weights > -np.inf)
    components: Any = state.components
    used = type(components)(
        *(part if len(part) < len(log_weights) else part[active] for part in components)
    )  # a tied covariance is one for all
    return EStep(
        model.covariance,
        model.n_factors,
        expected(used),
        log_weights[active],
        model.class_of[active],
        active,
        len(log_weights),
        shift,
        scale,
    )


def _expected_log_weights(sticks: Array) -> Array:
    """Return E log π (C, K) of beta sticks (2, C, K)."""
    a, b = sticks[:, :, :-1]
    both = digamma(a + b)
    K = sticks.shape[2]
    out = np.zeros((sticks.shape[1], K))
    out[:, : K - 1] = digamma(a) - both
    out[:, 1:] += np.cumsum(digamma(b) - both, axis=1)
    return out


def expect(step: EStep, X: Any, codes: Codes) -> Statistics:
    """Return the statistics of rows, the E-step; X (b, d), codes (b,) with -1 where unlabelled.

    Rows are taken in blocks that fit the processor's cache, so the memory needed does not grow
    with b.
    """
    kind = family(step.covariance, step.n_factors)
    d = len(step.shift)
    F, A, q = kind.n_features(d), len(step.active), step.density.projections.shape[1]
    block = int(np.clip(CACHE_BYTES // (8 * (d + F + 2 * A * (1 + q))), 64, 8192))
    moments = kind.empty_moments(A, d)
    features = np.empty((F, block))
    allowed = step.class_of == np.arange(step.class_of.max() + 1)[:, None]
    total = 0.0
    for part in in_chunks(len(X), 1, most=block):
        rows = np.asarray(X[part], dtype=np.float64)
        rows = np.ascontiguousarray(((rows - step.shift) / step.scale).T)
        y = codes[part]
        phi = features[:, : rows.shape[1]]
        kind.write_features(rows, phi)
        R, raw = scores(step.density, rows, phi)
        R += step.log_weights[:, None]
        labelled = np.flatnonzero(y >= 0)
        if labelled.size:  # eq. 22: a known class is certain; allowed[c] are its components
            R[:, labelled] = np.where(allowed[y[labelled]].T, R[:, labelled], -np.inf)
        largest = R.max(axis=0)
        R -= largest
        np.exp(R, out=R)
        sums = R.sum(axis=0)
        total += float(largest.sum() + np.log(sums).sum())
        R /= sums
        add_moments(moments, rows, phi, R, raw)
    return Statistics(float(len(X)), total, _expand(moments, step))


def _expand(moments: Moments, step: EStep) -> Moments:
    """Return the moments of all components: those of the active ones, zero elsewhere."""
    if len(step.active) == step.n_components:
        return moments
    features = np.zeros((step.n_components, moments.features.shape[1]))
    features[step.active] = moments.features
    projected = np.zeros((step.n_components, *moments.projected.shape[1:]))
    projected[step.active] = moments.projected
    return Moments(features, projected, moments.common)


# --- M-step ---------------------------------------------------------------------------------------


def m_step(model: Mixture, statistics: Statistics, previous: State | None) -> State:
    """Return the Θ that maximises Q given the statistics, or under "vb" the best q of every factor.

    `previous` is the state of the E-step; only the factor family needs it.
    """
    counts = statistics.counts(model.n_classes)
    below = counts[:, ::-1].cumsum(axis=1)[:, ::-1] - counts  # rows of later components
    below = np.maximum(below, 0.0)
    alpha, gamma = model.concentration, model.class_concentration
    if model.inference == "vb":
        return VariationalState(
            counts.sum(axis=1) + gamma,
            np.stack([1.0 + counts, alpha + below]),
            model.family.posterior(statistics.moments, model.prior),
        )
    # Eq. 27, with v_K = 1: π sums to one at the truncation. Its numerator and, for α ≥ 1, its
    # denominator are not negative, so it lies in [0, 1] without clipping. 0/0, only at α = 1, is
    # a stick past all rows: any value maximises.
    denominator = counts + below + alpha - 1.0
    sticks = np.divide(counts, denominator, out=np.zeros_like(counts), where=denominator > 0)
    sticks = np.minimum(sticks, 1.0)
    sticks[:, -1] = 1.0
    # ρ has no update in the paper; this maximises Q.
    weights = counts.sum(axis=1) + gamma - 1.0
    components = None if previous is None else previous.components
    return MapState(
        weights / weights.sum(),
        sticks,
        model.family.maximise(statistics.moments, model.prior, components),
    )


# --- ascent ---------------------------------------------------------------------------------------

Total = Callable[[Callable[[Any, Codes], Statistics]], Statistics]
"""Sums a function of rows (b, d) and their codes (b,) over all chunks, wherever they are."""


class Stage(NamedTuple):
    """Where an ascent stands: all that its next iteration needs.

    state, and n_rows, log_likelihood and moments of its E-step; objectives (t,), one per E-step
    """

    state: State
    n_rows: float
    log_likelihood: float
    moments: Moments
    objectives: Array

    @property
    def statistics(self) -> Statistics:
        return Statistics(self.n_rows, self.log_likelihood, self.moments)


def stage_of(state: State, statistics: Statistics, objectives: Any) -> Stage:
    """Return the stage at which an ascent has come to a state."""
    s = statistics
    return Stage(state, s.n_rows, s.log_likelihood, s.moments, np.array(objectives))


Report = Callable[[Stage], None]
"""Hears where EM stands, after every iteration."""


class Ascent(NamedTuple):
    """Where EM ended.

    state, and the statistics of its E-step; objectives (t,), one per E-step; whether it
    converged; whether it was interrupted by Ctrl-C; tempering of the class probabilities, where
    labels were held out for it; log densities of the rows, each by a fit without it, where they are
    few
    """

    state: State
    statistics: Statistics
    objectives: Array
    converged: bool
    interrupted: bool
    tempering: Tempering | None = None
    left_out: Array | None = None


def ascend(
    model: Mixture,
    total: Total,
    begin: State | Stage,
    shift: Array,
    scale: Array,
    *,
    max_iter: int,
    tol: float,
    report: Report | None = None,
) -> Ascent:
    """Iterate EM from a state until an iteration gains less than `tol` per number of the data.

    Ctrl-C ends it early, with the parameters of the last whole iteration; from their stage it goes
    on as if it had not been stopped.
    """
    state: State
    statistics: Statistics | None
    objectives: list[float]
    if isinstance(begin, Stage):
        state, statistics = begin.state, begin.statistics
        objectives = begin.objectives.tolist()
    else:
        state, statistics, objectives = begin, None, []
    least = tol * len(shift)
    interrupted = False
    try:
        while len(objectives) <= max_iter and not _is_flat(objectives, statistics, least):
            candidate = state if statistics is None else m_step(model, statistics, state)
            found = total(partial(expect, e_step(model, candidate, shift, scale)))
            reached = objective(model, candidate, found)
            state, statistics = candidate, found
            objectives.append(reached)
            if report is not None:
                report(stage_of(state, statistics, objectives))
    except KeyboardInterrupt:
        if statistics is None:
            raise
        interrupted = True
    assert statistics is not None
    converged = not interrupted and _is_flat(objectives, statistics, least)
    return Ascent(state, statistics, np.array(objectives), converged, interrupted)


def _is_flat(objectives: list[float], statistics: Statistics | None, least: float) -> bool:
    """Return whether the last iteration gained at most `least` per row."""
    if statistics is None or len(objectives) < 2:
        return False
    return objectives[-1] - objectives[-2] <= least * statistics.n_rows


# --- one chunk after the other --------------------------------------------------------------------


class Online(NamedTuple):
    """What online EM carries on.

    model; state; average, the statistics of an average row; n_seen, how many rows were seen;
    n_steps
    """

    model: Mixture
    state: State
    average: Statistics
    n_seen: float
    n_steps: int

    @property
    def statistics(self) -> Statistics:
        """Statistics of as many average rows as were seen."""
        return self.average.scaled(self.n_seen)


def begin_online(model: Mixture, ascent: Ascent) -> Online:
    """Return online EM after its first rows, to which EM was applied."""
    n = ascent.statistics.n_rows
    return Online(model, ascent.state, ascent.statistics.scaled(1 / n), n, 1)


def online_step(
    online: Online, X: Any, codes: Codes, shift: Array, scale: Array, *, decay: float
) -> Online:
    """Move the average row towards rows X by a step (t + 1)^−κ, κ the decay (Cappé & Moulines)."""
    model, state, average, n_seen, n_steps = online
    found = expect(e_step(model, state, shift, scale), X, codes)
    size = (n_steps + 1.0) ** -decay
    average = average.scaled(1 - size) + found.scaled(size / found.n_rows)
    moved = Online(model, state, average, n_seen + found.n_rows, n_steps + 1)
    return moved._replace(state=m_step(model, moved.statistics, state))
