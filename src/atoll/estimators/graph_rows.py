"""Rows of a graph and the labels on them: what the classifiers on graphs share.

What depends on rows alone is kept in a `RowMemory`, so that the next fit on the same rows finds it
there. With more than `max_graph_rows` rows the graph has all labelled rows of the fit that made it;
a row that is labelled later is attached to it as new rows are: its features are the mean of those
of its nearest rows.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.core.graphs import (
    Modes,
    NeighbourGraph,
    connected_components,
    neighbour_graph,
    self_tuning_weights,
)
from atoll.core.labels import PartialLabels, part_of_labels
from atoll.core.remarks import warn_user
from atoll.core.rows import COSINE, has_direction
from atoll.estimators.row_memory import RowMemory
from atoll.kernels.graph_spectral import NearestFound, modes_of_part, nearest_rows

Index = NDArray[np.intp]


class RowGraph(NamedTuple):
    """A graph of rows.

    rows : (n, q) in the coordinates in which they are near; (n, 0) where only edges are known
    weights : (n, n) of the edges
    part : (n,) which connected part each row is on
    nearest : the rows that each was joined to; None where that is not known
    """

    rows: Any
    weights: sparse.csr_array
    part: Index
    nearest: NeighbourGraph | None = None

    @classmethod
    def of(cls, rows: Any, weights: sparse.csr_array) -> RowGraph:
        """Return the graph with these edges."""
        return cls(rows, weights, connected_components(weights)[1])

    @classmethod
    def of_neighbours(cls, rows: Any, n_neighbors: int) -> RowGraph:
        """Return the graph in which every row is joined to its nearest ones."""
        return cls._of_nearest(rows, neighbour_graph(rows, min(n_neighbors, rows.shape[0] - 1)))

    def with_fewer_neighbours(self, n_neighbors: int) -> RowGraph:
        """Return the graph of the same rows, each joined to fewer."""
        assert self.nearest is not None
        k = min(n_neighbors, self.rows.shape[0] - 1)
        return self._of_nearest(self.rows, with_fewer_neighbours(self.nearest, k))

    @classmethod
    def _of_nearest(cls, rows: Any, nearest: NeighbourGraph) -> RowGraph:
        return cls.of(rows, self_tuning_weights(nearest))._replace(nearest=nearest)

    def reached(self, labelled: Index) -> NDArray[np.bool_]:
        """Return which rows are on a part with any of the rows given."""
        return np.isin(self.part, self.part[labelled])


class Places(NamedTuple):
    """Where labelled rows are among the n rows of a graph.

    on_graph : (l,) place of each; n, n + 1, … of those that are not on it
    is_outside : (l,) whether it is not
    """

    on_graph: Index
    is_outside: NDArray[np.bool_]


def with_fewer_neighbours(graph: NeighbourGraph, n_neighbors: int) -> NeighbourGraph:
    """Return the graph of the same rows with fewer neighbours each, without another search.

    The nearest of a row's neighbours are the nearest of its edges.

    Parameters
    ----------
    n_neighbors : no more than those of the graph

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [3.0]])
    >>> with_fewer_neighbours(neighbour_graph(rows, 2), 1).distances.toarray()
    array([[0., 1., 0.],
           [1., 0., 2.],
           [0., 2., 0.]])
    """
    edges = graph.distances.tocoo()
    order = np.lexsort((edges.data, edges.row))
    first = np.searchsorted(edges.row[order], np.arange(edges.shape[0]))
    chosen = order[(first[:, None] + np.arange(n_neighbors)).ravel()]
    sources, targets = edges.row[chosen].astype(np.int64), edges.col[chosen].astype(np.int64)
    scales = edges.data[chosen].reshape(-1, n_neighbors).max(axis=1)
    n = edges.shape[0]
    both = np.concatenate([sources * n + targets, targets * n + sources])
    kept, place = np.unique(both, return_index=True)
    lengths = np.tile(edges.data[chosen], 2)[place]
    return NeighbourGraph(
        sparse.coo_array((lengths, (kept // n, kept % n)), shape=(n, n)).tocsr(), scales
    )


def usable_rows(X: Any, metric: str) -> NDArray[np.bool_] | None:
    """Return which rows of X can be on a graph, (n,); None where all can.

    Rows of zeros have no direction, and under "cosine" are near to nothing.
    """
    if metric != COSINE:
        return None
    usable = has_direction(X)
    if usable.sum() < 2:
        raise ValueError(
            f"X has {int(usable.sum())} row(s) that are not all zeros; metric='cosine' compares "
            "directions, which zeros have none of. Give at least 2 such rows, or use "
            "metric='euclidean'."
        )
    return None if usable.all() else usable


def usable_labels(labelled: Index, usable: NDArray[np.bool_] | None) -> Index:
    """Return the labelled rows that can be on a graph."""
    if usable is None:
        return labelled
    if not usable[labelled].any():
        raise ValueError(
            f"all {len(labelled)} labelled rows of X are all zeros, which have no direction to "
            "compare; label other rows, or use metric='euclidean'."
        )
    n_lost = int((~usable[labelled]).sum())
    if n_lost:
        are = "are" if n_lost > 1 else "is"
        warn_user(
            f"{n_lost} of {len(labelled)} labelled rows {are} all zeros, as texts without a known "
            "word are: zeros have no direction to compare, and the labels there are not learnt "
            "from. Fix: leave such rows out, or write what is missing there.",
            UserWarning,
        )
    return labelled[usable[labelled]]


def nearest_found(memory: RowMemory) -> NearestFound | None:
    """Return what fits to the same rows find of nearest rows; None if no later fit will ask."""
    return None if memory.digest is None else memory.get("nearest", (), NearestFound)


def choose_rows(
    rng: np.random.Generator,
    n: int,
    labelled: Index,
    most: int,
    usable: NDArray[np.bool_] | None = None,
) -> Index:
    """Return the rows of the graph, in order: the labelled ones, and as many others as fit.

    Parameters
    ----------
    n : rows of the data
    usable : (n,) which of them can be on it; None: all
    """
    if usable is not None:
        rows = np.flatnonzero(usable)
        return rows[choose_rows(rng, len(rows), np.searchsorted(rows, labelled), most)]
    if n <= most:
        return np.arange(n)
    n_more = max(0, most - len(labelled))
    places = rng.choice(n - len(labelled), n_more, replace=False, shuffle=False)
    # Places among the rows without a label become numbers of rows; n itself may be huge.
    before = labelled - np.arange(len(labelled))
    chosen = places + np.searchsorted(before, places, side="right")
    return np.sort(np.concatenate([labelled, chosen]))


def some_labels(rng: np.random.Generator, labels: PartialLabels, most: int) -> Index:
    """Return the labelled rows, in order; of too many a random part, with every class in it."""
    rows = np.flatnonzero(labels.is_labelled)
    return rows[part_of_labels(rng, labels.codes[rows], most)]


def places_of(labelled: Index, kept: Index) -> Places:
    """Find labelled rows among the rows that a graph has kept, in order.

    Examples
    --------
    >>> places_of(np.array([2, 5, 7]), np.array([1, 2, 7]))
    Places(on_graph=array([1, 3, 2]), is_outside=array([False,  True, False]))
    """
    place = np.searchsorted(kept, labelled)
    is_outside = kept[np.minimum(place, len(kept) - 1)] != labelled
    place[is_outside] = len(kept) + np.arange(is_outside.sum())
    return Places(place, is_outside)


def labelled_modes(
    memory: RowMemory,
    settings: tuple[Hashable, ...],
    graph: RowGraph,
    n_modes: int,
    labelled: Index,
) -> Modes:
    """Return the modes of the parts of a graph that hold a label.

    They depend on labels as far as these say which parts are used: all of a connected graph.

    Parameters
    ----------
    settings : what the graph was made by; the first of them is its name
    labelled : rows of the graph with a label, or near a row that has one
    """
    is_used = graph.reached(labelled)
    return memory.get(
        f"modes of {settings[0]}",
        (settings, n_modes, is_used.tobytes()),
        lambda: modes_of_part(graph.weights, n_modes, is_used),
    )


def near_labels(graph: RowGraph, places: Index, outside: Any) -> Index:
    """Return the rows of a graph that have a label, or are nearest to a row outside that has one.

    Parameters
    ----------
    places : (l,) as in `Places`
    outside : (e, q) labelled rows that are not on the graph, in its coordinates
    """
    inside = places[places < graph.rows.shape[0]]
    if not outside.shape[0]:
        return inside
    nearest = nearest_rows(graph.rows, outside).indices.ravel()
    return np.union1d(inside, nearest)


def with_rows_apart(graph: sparse.csr_array, n_more: int) -> sparse.csr_array:
    """Return the graph with more rows, which nothing joins.

    Examples
    --------
    >>> with_rows_apart(sparse.csr_array(np.ones((1, 1))), 1).toarray()
    array([[1., 0.],
           [0., 0.]])
    """
    if not n_more:
        return graph
    n = graph.shape[0] + n_more
    ends = np.concatenate([graph.indptr, np.repeat(graph.indptr[-1:], n_more)])
    return sparse.csr_array((graph.data, graph.indices, ends), shape=(n, n))
