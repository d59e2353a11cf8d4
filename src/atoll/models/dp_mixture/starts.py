"""The whole fit: starts found on some of the rows, of which the best goes on with all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.sparse import csgraph

from atoll.core.graphs import neighbour_graph
from atoll.core.labels import label_folds
from atoll.core.passes import Reservoir, Rows
from atoll.models.dp_mixture.em import (
    Ascent,
    Codes,
    Stage,
    Statistics,
    ascend,
    m_step,
    stage_of,
)
from atoll.models.dp_mixture.keeping import Keeping
from atoll.models.dp_mixture.model import Mixture, State
from atoll.models.dp_mixture.prediction import MixturePosterior, posterior
from atoll.models.dp_mixture.tempering import Tempering, weigh
from atoll.models.gaussian_components import add_moments

Array = NDArray[np.float64]

START_ROWS = 5000  # the most rows that starts are found on
START_ITERATIONS = 60  # the most that every start is carried
ROW_FOLDS, FORGETTING_ITERATIONS = 5, 5  # by which rows are left out
NEIGHBOURS = 10
NO_OBJECTIVES = np.empty(0)


class Search(NamedTuple):
    """How long to look for the maximum.

    n_starts; max_iter, iterations at most; tol, the gain per number of the data below which EM
    ends; n_jobs, how many starts joblib runs at once; n_folds, in which labels are held out to
    temper class probabilities, 0 for none
    """

    n_starts: int = 4
    max_iter: int = 300
    tol: float = 1e-5
    n_jobs: int | None = None
    n_folds: int = 0


class Start(NamedTuple):
    """The start that was chosen: its state, its objectives (t,) and its number."""

    state: State
    objectives: Array
    number: int


def fit_mixture(
    model: Mixture,
    rows: Rows,
    shift: Array,
    scale: Array,
    rng: np.random.Generator,
    search: Search,
    report: Callable[[int, float], None] | None = None,
    keeping: Keeping | None = None,
) -> Ascent:
    """Return where EM on all rows ended, after it began at the best of several starts.

    Rows enter as (x − shift) / scale; starts see only those of `rows.sample`. `report` is called
    with the number of an iteration and its objective; `keeping` is what a stopped fit resumes from.
    """
    X, codes = start_rows(rows.sample)
    X = (X - shift) / scale
    streams = rng.spawn(search.n_starts)
    best = _kept_start(model, X, codes, streams, search, keeping)

    def heard(stage: Stage) -> None:
        if keeping is not None:
            keeping.save_at_times("em", stage)
        if report is not None:
            report(len(stage.objectives) - 1, float(stage.objectives[-1]))

    begin: State | Stage = best.state
    if keeping is not None:
        empty = model.family.empty_moments(1, 1)
        begin = keeping.load("em", Stage(best.state, 0.0, 0.0, empty, NO_OBJECTIVES)) or begin
    ascent = ascend(
        model,
        rows.total,
        begin,
        shift,
        scale,
        max_iter=search.max_iter,
        tol=search.tol,
        report=heard,
    )
    if keeping is not None:
        keeping.save("em", stage_of(ascent.state, ascent.statistics, ascent.objectives))
    if search.n_folds:
        held = held_out(model, X, codes, best.number, streams[best.number], search)
        ascent = ascent._replace(tempering=held)
    if len(X) < rows.summary.n_rows:
        return ascent
    left_out = left_out_log_densities(model, X, codes, ascent.state) - np.log(scale).sum()
    ascent = ascent._replace(left_out=left_out)
    # The start saw all rows: it is the beginning of the same ascent.
    objectives = np.concatenate([best.objectives[:-1], ascent.objectives])
    return ascent._replace(objectives=objectives)


def _kept_start(
    model: Mixture,
    X: Array,
    codes: Codes,
    streams: Sequence[np.random.Generator],
    search: Search,
    keeping: Keeping | None,
) -> Start:
    """Return the best start; where a fit was stopped after it, the one that was kept."""
    if keeping is not None:
        like = start_state(model, X, codes, deepcopy(streams[0]), 0)
        kept = keeping.load("start", Start(like, NO_OBJECTIVES, 0))
        if kept is not None:
            return kept
    start = _chosen_start(model, X, codes, streams, search)
    if keeping is not None:
        keeping.save("start", start)
    return start


def best_start(
    model: Mixture, X: Array, codes: Codes, rng: np.random.Generator, search: Search
) -> Start:
    """Return the best of several starts on rows X (s, d), scaled, each carried some way uphill."""
    return _chosen_start(model, X, codes, rng.spawn(search.n_starts), search)


def _chosen_start(
    model: Mixture,
    X: Array,
    codes: Codes,
    streams: Sequence[np.random.Generator],
    search: Search,
) -> Start:
    """Return the best of the starts that begin with these streams."""
    starts = _climb_all(
        model, X, [(codes, deepcopy(one), number) for number, one in enumerate(streams)], search
    )
    best = int(np.argmax([start.objectives[-1] for start in starts]))
    return Start(starts[best].state, starts[best].objectives, best)


def held_out(
    model: Mixture,
    X: Array,
    codes: Codes,
    number: int,
    stream: np.random.Generator,
    search: Search,
) -> Tempering:
    """Return what labels say of class probabilities from fits that did not see them.

    Each fold's labels are hidden from a fit of rows X (s, d), scaled, that begins as the best
    start did, by its number and stream.
    """
    d = X.shape[1]
    rng = deepcopy(stream).spawn(1)[0]
    left_out = label_folds(codes, search.n_folds, rng)
    hidden = []
    for fold in left_out:
        others = codes.copy()
        others[fold] = -1
        hidden.append((others, deepcopy(stream), number))
    found = [
        posterior(model, one.state, np.zeros(d), np.ones(d)).log_class_joint(X[fold])
        for one, fold in zip(_climb_all(model, X, hidden, search), left_out)
    ]
    rows = np.concatenate([*left_out, np.empty(0, dtype=np.intp)])
    joint = np.concatenate([*found, np.empty((0, model.n_classes))])
    counts = np.bincount(codes[codes >= 0], minlength=model.n_classes)
    return weigh(joint, codes[rows], counts)


def left_out_log_densities(model: Mixture, X: Array, codes: Codes, state: State) -> Array:
    """Return the log densities of rows X (s, d), scaled, by fits without them, (s,).

    EM goes on from the state found without a fold of the rows; components forget them at once.
    """
    no_shift, no_scale = np.zeros(X.shape[1]), np.ones(X.shape[1])

    def density_without(left: NDArray[np.bool_]) -> MixturePosterior:
        ascent = ascend(
            model, lambda f: f(X[~left], codes[~left]), state, no_shift, no_scale,
            max_iter=FORGETTING_ITERATIONS, tol=0.0,
        )  # fmt: skip
        return posterior(model, ascent.state, no_shift, no_scale)

    out = np.empty(len(X))
    fold = np.random.default_rng(0).permutation(len(X)) % ROW_FOLDS
    for number in np.unique(fold):
        left = fold == number
        out[left] = density_without(left).log_density(X[left])
    return out


def _climb_all(
    model: Mixture,
    X: Array,
    tasks: list[tuple[Codes, np.random.Generator, int]],
    search: Search,
) -> list[Ascent]:
    """Carry starts uphill, each given by its codes, stream and number."""
    max_iter = min(search.max_iter, START_ITERATIONS)
    found: list[Ascent] = Parallel(n_jobs=search.n_jobs)(
        delayed(climb)(model, X, codes, stream, number, max_iter=max_iter, tol=search.tol)
        for codes, stream, number in tasks
    )
    return found


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
    """Carry one start uphill on rows X (s, d), scaled."""
    d = X.shape[1]
    state = start_state(model, X, codes, rng, number)
    return ascend(
        model, lambda f: f(X, codes), state, np.zeros(d), np.ones(d), max_iter=max_iter, tol=tol
    )


# --- which rows -----------------------------------------------------------------------------------


def reservoir_sizes(n_classes: int) -> tuple[int, ...]:
    """Return how many rows to keep for the starts: of the unlabelled, then of each class."""
    return (START_ROWS, *[max(START_ROWS // n_classes, 20)] * n_classes)


def start_rows(sample: Reservoir) -> tuple[Array, Codes]:
    """Return the rows that starts are found on: half of them labelled, if there are that many."""
    unlabelled = sample.codes < 0
    n_labelled = int((~unlabelled).sum())
    room = max(START_ROWS - n_labelled, START_ROWS // 2)
    kept = ~unlabelled | (np.cumsum(unlabelled) <= room)
    return sample.rows[kept], sample.codes[kept].astype(np.intp)


# --- one start ------------------------------------------------------------------------------------


def start_state(
    model: Mixture, X: Array, codes: Codes, rng: np.random.Generator, number: int
) -> State:
    """Return a state to begin from, given some rows X (s, d), scaled.

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
    """Return a class for every row, (s,); classes without a label are seeded far from others."""
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
    """Return squared lengths of a neighbour graph's edges: paths of short steps are short."""
    graph = neighbour_graph(X, min(NEIGHBOURS, len(X) - 1)).distances
    squared = graph.copy()
    squared.data = np.maximum(graph.data, 1e-12) ** 2  # a zero would be no edge
    return squared


def _nearest(X: Array, known: NDArray[np.intp], lengths: Any) -> tuple[Array, NDArray[np.intp]]:
    """Return the distance of every row to the nearest of the rows `known`, and which it is."""
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
    """Return the nearest of at most `n_cells` k-means++ centres, moved three times, (s,)."""
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
