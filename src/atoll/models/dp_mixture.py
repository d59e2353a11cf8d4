"""Dirichlet process mixtures of Gaussians, one a class: Kimura, Nakada, Doucet & Matsumoto.

A row y has class c with probability ρ_c (eq. 4) and, given it, comes from one of K components:

    p(y | c) = Σ_k π_ck N(y; m_ck, Σ_ck),   π_ck = v_ck Π_{l<k} (1 − v_cl)      eqs 6 to 8, 11
    v_ck ~ Be(1, α) for k < K, v_cK = 1;  ρ ~ Dir(γ);  (m, Σ) ~ NIW             eqs 5, 9, 13 to 15

A labelled row is a draw of (c, y), an unlabelled one of y alone (eqs 1 to 3). Parameters are found
at the maximum of their posterior by EM (section 2.3), or as distributions by variational Bayes;
both need the same sums over rows (`Statistics`), and these add over chunks of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import csgraph
from scipy.special import betaln, digamma, gammaln, logsumexp, xlog1py, xlogy

from atoll.core.graphs import neighbour_graph
from atoll.models.gaussian_components import (
    Components,
    Density,
    Moments,
    NormalPosterior,
    NormalPrior,
    add_moments,
    family,
    log_determinants,
    scores,
)

Array = NDArray[np.float64]
Codes = NDArray[np.integer]

UNLABELLED = -1
START_ROWS = 5000  # starts are found on so many rows; the best goes on with all
CACHE_BYTES = 2**21  # rows are taken in blocks whose numbers fill about this much
FARTHEST = 1e100  # in units of the scale: beyond it squares would overflow
NEIGHBOURS = 10
START_ITERATIONS = 60  # the most that every start is carried; the best then goes on


@dataclass(frozen=True)
class Mixture:
    """The model: what is not learned.

    n_classes C; n_components K, the truncation of each class; covariance, one of "full",
    "diagonal", "tied" and "factor"; n_factors of the last; prior of the components;
    concentration α; class_concentration (C,) γ; inference, "map" or "vb".
    """

    n_classes: int
    n_components: int
    covariance: str
    n_factors: int
    prior: NormalPrior
    concentration: float
    class_concentration: Array
    inference: str = "map"

    @property
    def family(self) -> Any:
        return family(self.covariance, self.n_factors)

    @property
    def class_of(self) -> NDArray[np.intp]:
        """(J,) class of each of the J = C K components, class by class."""
        return np.repeat(np.arange(self.n_classes), self.n_components)


class MapState(NamedTuple):
    """Θ: class_weights (C,) ρ, sticks (C, K) v, components."""

    class_weights: Array
    sticks: Array
    components: Components


class VariationalState(NamedTuple):
    """q: class_counts (C,) of a Dirichlet, sticks (2, C, K) of betas, components' NIW."""

    class_counts: Array
    sticks: Array
    components: NormalPosterior


State = MapState | VariationalState


@dataclass(frozen=True)
class Statistics:
    """Everything that an M-step needs of the rows, and it adds.

    n_rows, log_likelihood : of the rows, under the parameters of the E-step
    moments : weighted sums, with the joint responsibilities r(c; y) p(z = k | c, y) as weights
        (eq. 23 has the second factor alone, which would count a row once for every class)
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
        """The statistics of `factor` times as many rows of the same kind."""
        moments = Moments(*(factor * part for part in self.moments))
        return Statistics(factor * self.n_rows, factor * self.log_likelihood, moments)

    def counts(self, n_classes: int) -> Array:
        """(C, K) expected number of rows of each component."""
        return self.moments.features[:, 0].reshape(n_classes, -1)


# --- the log-posterior ----------------------------------------------------------------------------


def log_stick_weights(sticks: Array) -> Array:
    """log π (C, K) of sticks v (C, K): eq. 8. A component without weight has −∞.

    Examples
    --------
    >>> np.exp(log_stick_weights(np.array([[0.5, 0.5, 1.0]])))
    array([[0.5 , 0.25, 0.25]])
    """
    with np.errstate(divide="ignore"):
        left = np.cumsum(np.log1p(-sticks[:, :-1]), axis=1)
        log_v = np.log(sticks)
    log_v[:, 1:] += left
    return log_v


def log_prior(model: Mixture, state: MapState) -> float:
    """log p(Θ), eq. 17: classes, sticks up to the truncation, components, with normalisers."""
    gamma, alpha = model.class_concentration, model.concentration
    of_classes = gammaln(gamma.sum()) - gammaln(gamma).sum()
    of_classes += xlogy(gamma - 1, state.class_weights).sum()
    v = state.sticks[:, :-1]
    of_sticks = v.size * np.log(alpha) + xlog1py(alpha - 1, -v).sum()
    return float(of_classes + of_sticks) + model.family.log_prior(state.components, model.prior)


def divergence(model: Mixture, state: VariationalState) -> float:
    """KL(q ‖ prior) of classes, sticks and components."""
    q, p = state.class_counts, model.class_concentration
    of_classes = gammaln(q.sum()) - gammaln(q).sum() - gammaln(p.sum()) + gammaln(p).sum()
    of_classes += ((q - p) * (digamma(q) - digamma(q.sum()))).sum()
    a, b = state.sticks[:, :, :-1]
    alpha = model.concentration
    both = digamma(a + b)
    of_sticks = betaln(1.0, alpha) - betaln(a, b)
    of_sticks += (a - 1) * (digamma(a) - both) + (b - alpha) * (digamma(b) - both)
    of_components = model.family.divergence(state.components, model.prior)
    return float(of_classes + of_sticks.sum()) + of_components


def objective(model: Mixture, state: State, statistics: Statistics) -> float:
    """The log-posterior up to the constant p(Y), or under "vb" the bound on the log evidence.

    `statistics` are those of the E-step at `state`.
    """
    if isinstance(state, MapState):
        return statistics.log_likelihood + log_prior(model, state)
    return statistics.log_likelihood - divergence(model, state)


# --- E-step ---------------------------------------------------------------------------------------


class EStep(NamedTuple):
    """What a chunk of rows is met with, here or in another process.

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
    """E log π (C, K) of beta sticks (2, C, K)."""
    a, b = sticks[:, :, :-1]
    both = digamma(a + b)
    K = sticks.shape[2]
    out = np.zeros((sticks.shape[1], K))
    out[:, : K - 1] = digamma(a) - both
    out[:, 1:] += np.cumsum(digamma(b) - both, axis=1)
    return out


def expect(step: EStep, X: Any, codes: Codes) -> Statistics:
    """The E-step on rows X (b, d) with class codes (b,), UNLABELLED where there is none.

    Rows are taken in blocks that fit the processor's cache, so the memory needed does not grow
    with b.
    """
    kind = family(step.covariance, step.n_factors)
    d = len(step.shift)
    F, A, q = kind.n_features(d), len(step.active), step.density.projections.shape[1]
    block = int(np.clip(CACHE_BYTES // (8 * (d + F + 2 * A * (1 + q))), 64, 8192))
    moments = kind.empty_moments(A, d)
    features = np.empty((F, block))
    # allowed[c] are the components of class c; the last row, of the unlabelled, allows all.
    allowed = step.class_of == np.arange(step.class_of.max() + 1)[:, None]
    total = 0.0
    for start in range(0, len(X), block):
        rows = np.asarray(X[start : start + block], dtype=np.float64)
        rows = np.ascontiguousarray(((rows - step.shift) / step.scale).T)
        y = codes[start : start + block]
        phi = features[:, : rows.shape[1]]
        kind.write_features(rows, phi)
        R, raw = scores(step.density, rows, phi)
        R += step.log_weights[:, None]
        labelled = np.flatnonzero(y >= 0)
        if labelled.size:  # eq. 22: a known class is certain
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
    """Moments of the active components at their places among all."""
    if len(step.active) == step.n_components:
        return moments
    features = np.zeros((step.n_components, moments.features.shape[1]))
    features[step.active] = moments.features
    projected = np.zeros((step.n_components, *moments.projected.shape[1:]))
    projected[step.active] = moments.projected
    return Moments(features, projected, moments.common)


# --- M-step ---------------------------------------------------------------------------------------


def m_step(model: Mixture, statistics: Statistics, previous: State | None) -> State:
    """The maximiser of Q given the statistics, or under "vb" the best q of every factor.

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
"""Sums a function of a chunk's rows and codes over all chunks, wherever they are."""

Report = Callable[[int, float], None]


class Ascent(NamedTuple):
    """Where EM ended.

    state and the statistics of its E-step; objectives (t,), one for every E-step; converged;
    interrupted, by Ctrl-C
    """

    state: State
    statistics: Statistics
    objectives: Array
    converged: bool
    interrupted: bool


def ascend(
    model: Mixture,
    total: Total,
    state: State,
    shift: Array,
    scale: Array,
    *,
    max_iter: int,
    tol: float,
    report: Report | None = None,
) -> Ascent:
    """Iterate EM from `state` until an iteration gains less than `tol` a number of the data.

    Ctrl-C ends it early, with the parameters of the last whole iteration.
    """
    objectives: list[float] = []
    statistics = None
    converged = interrupted = False
    try:
        for iteration in range(max_iter + 1):
            candidate = state if statistics is None else m_step(model, statistics, state)
            found = total(partial(expect, e_step(model, candidate, shift, scale)))
            state, statistics = candidate, found
            objectives.append(objective(model, state, statistics))
            if report is not None:
                report(iteration, objectives[-1])
            if iteration and objectives[-1] - objectives[-2] <= tol * statistics.n_rows * len(
                shift
            ):
                converged = True
                break
    except KeyboardInterrupt:
        if statistics is None:
            raise
        interrupted = True
    assert statistics is not None
    return Ascent(state, statistics, np.array(objectives), converged, interrupted)


# --- starts ---------------------------------------------------------------------------------------


def start_state(
    model: Mixture, X: Array, codes: Codes, rng: np.random.Generator, number: int
) -> State:
    """A state to begin from, given some rows X (s, d), scaled.

    Unlabelled rows go to the class of the labelled row that is nearest along the data. Each class
    is then cut into cells around k-means++ centres, K of them in the first two starts, half as
    many in the next two, and so on.
    """
    classes = _assign_classes(X, codes, model.n_classes, rng)
    occupied = max(1, model.n_components // 2 ** (number // 2))
    cells = np.empty(len(X), dtype=np.intp)
    for c in range(model.n_classes):
        members = np.flatnonzero(classes == c)
        if members.size:
            cells[members] = c * model.n_components + _cells(X[members], occupied, rng)
    kind = model.family
    J = model.n_classes * model.n_components
    moments = kind.empty_moments(J, X.shape[1])
    rows = np.ascontiguousarray(X.T)
    features = np.empty((kind.n_features(X.shape[1]), len(X)))
    kind.write_features(rows, features)
    one_hot = np.zeros((J, len(X)))
    one_hot[cells, np.arange(len(X))] = 1.0
    add_moments(moments, rows, features, one_hot, np.empty((J, 0, len(X))))
    return m_step(model, Statistics(float(len(X)), 0.0, moments), None)


def _assign_classes(
    X: Array, codes: Codes, n_classes: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """(s,) a class for every row; classes without a label are seeded far from the others."""
    classes = np.array(codes, dtype=np.intp)
    seeds = classes.copy()
    unseen = np.setdiff1d(np.arange(n_classes), classes[classes >= 0])
    lengths = _edge_lengths(X) if len(X) > 2 else None
    for c in unseen:
        known = np.flatnonzero(seeds >= 0)
        free = np.flatnonzero(seeds < 0)
        if free.size == 0:
            break
        if known.size == 0:
            seeds[rng.choice(free)] = c
            continue
        distances = _nearest(X, known, lengths)[0][free] ** 2
        p = distances / distances.sum() if distances.sum() > 0 else None
        seeds[rng.choice(free, p=p)] = c
    known = np.flatnonzero(seeds >= 0)
    if known.size:
        nearest = _nearest(X, known, lengths)[1]
        unknown = classes < 0
        classes[unknown] = seeds[nearest[unknown]]
    return classes


def _edge_lengths(X: Array) -> Any:
    """Squared lengths of a neighbour graph's edges: paths of short steps are short."""
    graph = neighbour_graph(X, min(NEIGHBOURS, len(X) - 1)).distances
    squared = graph.copy()
    squared.data = np.maximum(graph.data, 1e-12) ** 2  # a zero would be no edge
    return squared


def _nearest(X: Array, known: NDArray[np.intp], lengths: Any) -> tuple[Array, NDArray[np.intp]]:
    """Distance of every row to the nearest of the rows `known`, and which it is."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=1).fit(X[known])
    distance, place = search.kneighbors(X)
    straight, nearest = distance[:, 0], known[place[:, 0]]
    if lengths is None:
        return straight, nearest
    along, _, source = csgraph.dijkstra(
        lengths, directed=False, indices=known, return_predecessors=True, min_only=True
    )
    reached = np.isfinite(along)
    farthest = float(along[reached].max(initial=0.0))
    return (
        np.sqrt(np.where(reached, along, farthest + straight**2)),
        np.where(reached, source, nearest).astype(np.intp),
    )


def _cells(X: Array, n_cells: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """(s,) the nearest of at most `n_cells` centres chosen by k-means++ and moved three times."""
    place = np.zeros(len(X), dtype=np.intp)
    distances = ((X - X[rng.integers(len(X))]) ** 2).sum(axis=1)
    n_found = 1
    while n_found < n_cells and distances.sum() > 0:
        centre = X[rng.choice(len(X), p=distances / distances.sum())]
        to_centre = ((X - centre) ** 2).sum(axis=1)
        nearer = to_centre < distances
        place[nearer] = n_found
        distances = np.where(nearer, to_centre, distances)
        n_found += 1
    for _ in range(3):
        present, place = np.unique(place, return_inverse=True)
        centres = np.stack([X[place == k].mean(axis=0) for k in range(len(present))])
        squared = (centres**2).sum(axis=1) - 2 * X @ centres.T
        place = squared.argmin(axis=1)
    return place


# --- what prediction needs ------------------------------------------------------------------------


class MixturePosterior(NamedTuple):
    """A fitted mixture; predicts without its model.

    covariance : family of the components
    shift, scale : (d,) rows enter as (x − shift) / scale
    log_class_weights : (C,); log_weights : (C, K) within each class
    means (J, d), spread, loadings : as in `Components`
    degrees : (J,) of Student's t under variational Bayes, whose components have uncertain
        parameters; (0,) for Gaussians
    """

    covariance: str
    shift: Array
    scale: Array
    log_class_weights: Array
    log_weights: Array
    means: Array
    spread: Array
    loadings: Array
    degrees: Array

    def log_joint(self, X: Any) -> Array:
        """log p(x, c, k), in the units of the rows given: X (m, d) -> (m, C, K)."""
        rows = (np.asarray(X, dtype=np.float64) - self.shift) / self.scale
        rows = np.clip(rows, -FARTHEST, FARTHEST)
        weights = (self.log_class_weights[:, None] + self.log_weights).ravel()
        out = np.full((len(rows), len(weights)), -np.inf)
        for j in np.flatnonzero(weights > -np.inf).tolist():
            out[:, j] = weights[j] + self._log_component(rows, j)
        out -= np.log(self.scale).sum()
        return out.reshape(len(rows), *self.log_weights.shape)

    def log_density(self, X: Any) -> Array:
        """log p(x) of rows X (m, d) -> (m,)."""
        return self._by_blocks(lambda rows: logsumexp(self.log_joint(rows), axis=(1, 2)), X)

    def log_class_joint(self, X: Any) -> Array:
        """log p(x, c) of rows X (m, d) -> (m, C)."""
        return self._by_blocks(lambda rows: logsumexp(self.log_joint(rows), axis=2), X)

    def log_class_probabilities(self, X: Any) -> Array:
        """log p(c | x) of rows X (m, d) -> (m, C)."""
        joint = self.log_class_joint(X)
        return joint - logsumexp(joint, axis=1, keepdims=True)

    def component(self, X: Any) -> NDArray[np.intp]:
        """The most probable component of each row, c K + k: X (m, d) -> (m,)."""
        return self._by_blocks(
            lambda rows: self.log_joint(rows).reshape(len(rows), -1).argmax(axis=1), X
        )

    def sample(
        self, rng: np.random.Generator, n: int, classes: Any = None
    ) -> tuple[Array, NDArray[np.intp]]:
        """n rows (n, d) and their classes (n,); `classes` (n,) fixes these."""
        C, K = self.log_weights.shape
        if classes is None:
            classes = rng.choice(C, size=n, p=np.exp(self.log_class_weights))
        classes = np.asarray(classes, dtype=np.intp)
        cumulative = np.cumsum(np.exp(self.log_weights), axis=1)
        u = rng.random(n) * cumulative[classes, -1]
        k = (u[:, None] >= cumulative[classes]).sum(axis=1)
        j = classes * K + np.minimum(k, K - 1)
        noise = rng.standard_normal((n, self.means.shape[1]))
        factors = rng.standard_normal((n, self.loadings.shape[2]))
        if self.degrees.size:
            shape = (n, 1) if self.spread.ndim == 3 else noise.shape
            df = np.broadcast_to(self.degrees[j][:, None], shape)
            noise /= np.sqrt(rng.chisquare(df) / df)
        out = np.empty_like(noise)
        for one in np.unique(j):
            chosen = j == one
            out[chosen] = self.means[one] + self._spread_noise(noise[chosen], one)
            out[chosen] += factors[chosen] @ self.loadings[one].T
        return out * self.scale + self.shift, classes

    def covariances(self) -> Array:
        """(C, K, d, d) covariance of every component (scale matrix of a Student's t)."""
        J, d = self.means.shape
        if self.spread.ndim == 3:
            of_each = np.broadcast_to(self.spread @ self.spread.transpose(0, 2, 1), (J, d, d))
        else:
            of_each = np.einsum("jd,de->jde", self.spread, np.eye(d))
        of_each = of_each + self.loadings @ self.loadings.transpose(0, 2, 1)
        scaled = of_each * np.outer(self.scale, self.scale)
        return scaled.reshape(*self.log_weights.shape, d, d)

    def _spread_noise(self, noise: Array, j: int) -> Array:
        if self.spread.ndim == 3:
            return noise @ self.spread[min(j, len(self.spread) - 1)].T
        return noise * np.sqrt(self.spread[j])

    def _log_component(self, rows: Array, j: int) -> Array:
        """log-density (m,) of component j at scaled rows."""
        centred = rows - self.means[j]
        d = rows.shape[1]
        if self.spread.ndim == 3:
            lower = self.spread[min(j, len(self.spread) - 1)]
            whitened = solve_triangular(lower, centred.T, lower=True)
            log_det = log_determinants(lower[None])[0]
            squares = (whitened**2).sum(axis=0)
            if self.degrees.size:
                return _log_student(squares, self.degrees[j], d) - 0.5 * log_det
        else:
            spread = self.spread[j]
            log_det = np.log(spread).sum()
            each = centred**2 / spread
            if self.degrees.size:
                return _log_student(each, self.degrees[j], 1).sum(axis=1) - 0.5 * log_det
            squares = each.sum(axis=1)
            W = self.loadings[j]
            if W.shape[1]:
                scaled = W / spread[:, None]
                lower = np.linalg.cholesky(np.eye(W.shape[1]) + W.T @ scaled)
                projected = solve_triangular(lower, scaled.T @ centred.T, lower=True)
                squares = squares - (projected**2).sum(axis=0)
                log_det += log_determinants(lower[None])[0]
        return -0.5 * (squares + d * np.log(2 * np.pi) + log_det)

    def _by_blocks(self, function: Callable[[Any], Any], X: Any) -> Any:
        """Apply to blocks of rows, so that a prediction holds few numbers beside its result."""
        J, d = self.means.shape
        block = int(np.clip(2**21 // (8 * (J + d)), 256, 65536))
        parts = [function(X[i : i + block]) for i in range(0, max(len(X), 1), block)]
        return np.concatenate(parts)


def _log_student(squares: Array, degrees: float, d: int) -> Array:
    """Log-density of a standard Student's t in d dimensions, given squared distances."""
    constant = gammaln((degrees + d) / 2) - gammaln(degrees / 2) - 0.5 * d * np.log(degrees * np.pi)
    return constant - 0.5 * (degrees + d) * np.log1p(squares / degrees)


def posterior(model: Mixture, state: State, shift: Array, scale: Array) -> MixturePosterior:
    """What prediction needs of a state."""
    if isinstance(state, MapState):
        with np.errstate(divide="ignore"):
            log_class_weights = np.log(state.class_weights)
        return MixturePosterior(
            model.covariance,
            shift,
            scale,
            log_class_weights,
            log_stick_weights(state.sticks),
            *state.components,
            np.empty(0),
        )
    q = state.components
    J, d = q.means.shape
    mean_sticks = state.sticks[0] / state.sticks.sum(axis=0)
    mean_sticks[:, -1] = 1.0
    inflation = (q.mean_precisions + 1) / q.mean_precisions
    if q.scales.ndim == 3:  # a Student's t with n − d + 1 degrees of freedom
        degrees = q.degrees - d + 1
        spread = q.scales * np.sqrt(inflation / degrees)[:, None, None]
    else:
        degrees = q.degrees
        spread = q.scales * (inflation / degrees)[:, None]
    return MixturePosterior(
        model.covariance,
        shift,
        scale,
        np.log(state.class_counts / state.class_counts.sum()),
        log_stick_weights(mean_sticks),
        q.means,
        spread,
        np.empty((J, d, 0)),
        degrees,
    )


def weight_deviations(state: VariationalState) -> tuple[Array, Array]:
    """Posterior standard deviations of ρ (C,) and of π (C, K)."""
    q = state.class_counts
    n = q.sum()
    of_classes = np.sqrt(q * (n - q) / (n**2 * (n + 1)))
    a, b = state.sticks.copy()
    b[:, -1] = 0.0  # the last stick is one
    n = a + b
    first, rest = a / n, b / n
    first_squared, rest_squared = a * (a + 1) / (n * (n + 1)), b * (b + 1) / (n * (n + 1))

    def product(this: Array, others: Array) -> Array:
        out = this.copy()
        out[:, 1:] *= np.cumprod(others[:, :-1], axis=1)
        return out

    variance = product(first_squared, rest_squared) - product(first, rest) ** 2
    return of_classes, np.sqrt(np.maximum(variance, 0.0))


# --- a density alone ------------------------------------------------------------------------------


def default_prior(
    d: int,
    *,
    mean: Any = 0.0,
    mean_precision: float = 0.5,
    degrees: float | None = None,
    covariance_scale: Any = 1.0,
) -> NormalPrior:
    """The paper's prior of section 2.4: λ = 0.5, μ = 0, n_0 = d, R_0 = I.

    Examples
    --------
    >>> default_prior(2).degrees
    2.0
    """
    R = np.asarray(covariance_scale, dtype=np.float64)
    return NormalPrior(
        np.broadcast_to(np.asarray(mean, dtype=np.float64), (d,)).copy(),
        float(mean_precision),
        float(d if degrees is None else degrees),
        R.copy() if R.ndim == 2 else np.broadcast_to(R, (d,)).copy(),
    )


def climb(
    model: Mixture,
    X: Array,
    codes: Codes,
    rng: np.random.Generator,
    number: int,
    *,
    max_iter: int,
    tol: float,
) -> Ascent:
    """One start on rows X (s, d), scaled, carried some way uphill."""
    d = X.shape[1]
    max_iter = min(max_iter, START_ITERATIONS)
    state = start_state(model, X, codes, rng, number)
    return ascend(
        model, lambda f: f(X, codes), state, np.zeros(d), np.ones(d), max_iter=max_iter, tol=tol
    )


class MixtureDensity(NamedTuple):
    """A density given by a mixture without classes."""

    mixture: MixturePosterior

    def log_density(self, X: Any) -> Array:
        """log p(x) of rows X (m, d) -> (m,)."""
        return self.mixture.log_density(X)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """n draws, (n, d)."""
        return self.mixture.sample(rng, n)[0]


def fit_density(
    X: Any,
    *,
    n_components: int = 20,
    covariance: str = "full",
    covariance_scale: float = 1.0,
    n_starts: int = 4,
    max_iter: int = 200,
    tol: float = 1e-5,
    random_state: Any = None,
) -> MixtureDensity:
    """A Gaussian mixture fitted to rows without labels, by the same MAP-EM.

    Parameters
    ----------
    X : (n, d) rows
    n_components : truncation K
    covariance : "full", "diagonal", "tied" or "factor"
    covariance_scale : of the prior, in units of the rows' variances: small for tight components
    n_starts, max_iter, tol : as in `DPMixtureClassifier`
    random_state : None, int or numpy Generator

    Returns
    -------
    MixtureDensity, with `sample(rng, n)` -> (n, d) and `log_density(X)` -> (m,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> density = fit_density(rng.normal(5.0, 2.0, size=(300, 1)), n_components=3, random_state=0)
    >>> rows = density.sample(rng, 1000)
    >>> bool(abs(rows.mean() - 5.0) < 0.5), density.log_density(rows).shape
    (True, (1000,))
    """
    rows = np.asarray(X, dtype=np.float64)
    shift, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale == 0] = 1.0
    scaled = (rows - shift) / scale
    d = rows.shape[1]
    model = Mixture(
        1,
        n_components,
        covariance,
        min(3, d),
        default_prior(d, covariance_scale=covariance_scale),
        2.0,
        np.ones(1),
        "map",
    )
    rng = np.random.default_rng(random_state)
    codes = np.full(len(rows), UNLABELLED)
    options: dict[str, Any] = {"max_iter": max_iter, "tol": tol}
    starts = [
        climb(model, scaled, codes, stream, number, **options)
        for number, stream in enumerate(rng.spawn(n_starts))
    ]
    best = max(starts, key=lambda start: start.objectives[-1])
    zeros, ones = np.zeros(d), np.ones(d)
    ascent = ascend(model, lambda f: f(scaled, codes), best.state, zeros, ones, **options)
    return MixtureDensity(posterior(model, ascent.state, shift, scale))
