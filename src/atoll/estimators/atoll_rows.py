"""Rows of the default classifier's graphs: scaled, without copies, with the labels on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.core import rows as rows_of
from atoll.core.column_scales import unlike_scales
from atoll.core.far_rows import SourceRows
from atoll.core.labels import PartialLabels
from atoll.core.memory import in_chunks
from atoll.core.repeated_rows import first_of_each, labels_are_copies, weights_differ
from atoll.estimators.graph_rows import places_of
from atoll.models.average import average

Array = NDArray[np.float64]
Index = NDArray[np.intp]

HUGE = 1e50  # numbers from which columns are divided by a common unit
FEWEST_OF_DIRECTIONS = 3  # columns; rows of fewer may have length one for other reasons
GLANCE = 100  # rows that are looked at first: most tables are not directions
UNIT_TOLERANCE = 1e-5  # of a squared length, in single precision as well


class Scaled(NamedTuple):
    """Rows of the graph, scaled, as far as they depend on rows alone.

    shift, scale : (d,) of the columns
    unlike : whether columns were in unlike units
    rows : (n, d) that differ
    copies : (n,) how many each stands for
    place : (kept,) which of them each row of the graph is
    n_telling : columns that are not constant
    """

    shift: Array
    scale: Array
    unlike: bool
    rows: Any
    copies: Array
    place: Index
    n_telling: int


class Judges(NamedTuple):
    """Labelled rows that are kept from all assumptions, to weigh them by.

    rows : (j, d) scaled
    codes : (j,) their classes
    """

    rows: Any
    codes: Index


class Rows(NamedTuple):
    """Rows of the graph and the labels on them.

    rows : (n, d) that differ, scaled
    copies : (n,) how many each stands for
    labelled : (l,) which of them have a label; one may have several; n, n + 1, … are `outside`
    outside : (e, d) labelled rows that are not on the graph, scaled
    labels : (l,) the labels
    metric : by which rows are compared
    n_telling : columns that are not constant
    judges : labelled rows by which assumptions are weighed, where labels are very many
    n_repeated : labels left out, since they are copies together with their rows
    """

    rows: Any
    copies: Array
    labelled: Index
    outside: Any
    labels: PartialLabels
    metric: str
    n_telling: int
    judges: Judges | None = None
    n_repeated: int = 0

    @property
    def codes(self) -> Index:
        """(l,) classes of the labels."""
        return self.labels.codes

    @property
    def has_plain_columns(self) -> bool:
        """Whether columns mean something one by one, as those of words hardly do."""
        return self.metric != rows_of.COSINE and not sparse.issparse(self.rows)

    @property
    def every(self) -> Any:
        """(n + e, d) the rows, and those outside."""
        return rows_of.stacked(self.rows, self.outside)

    @property
    def n_contradicted(self) -> int:
        """How many labelled rows are copies of one that has another label."""
        pairs = np.unique(np.stack([self.labelled, self.codes]), axis=1)
        places, n_classes = np.unique(pairs[0], return_counts=True)
        return int(np.isin(self.labelled, places[n_classes > 1]).sum())

    def of_labels(self, some: NDArray[np.bool_]) -> Rows:
        """Return the rows with some of the labels, (l,); the others are repeated ones."""
        return self._replace(
            labelled=self.labelled[some],
            labels=self.labels.of(some),
            n_repeated=int(np.count_nonzero(~some)),
        )

    def counted_once(self) -> NDArray[np.bool_]:
        """Return which labels count, (l,): of labels that are copies together with their rows, one.

        All count where they are not copies, where groups share them, or where copies have weights
        of their own.
        """
        labels, every = self.labels, np.ones(len(self.labelled), bool)
        names = len(labels.classes) * self.labelled + self.codes
        if labels.is_spread is not None or weights_differ(names, labels.weights):
            return every
        if not labels_are_copies(
            self.rows, self.copies, self.labelled, self.codes, by_columns=self.has_plain_columns
        ):
            return every
        return first_of_each(names, labels.is_chosen)

    @property
    def smoothed_shares(self) -> Array:
        """(K,) shares of the classes, given the labels that were drawn at random alone."""
        labels = self.labels
        if labels.is_chosen is not None:
            labels = labels.of(~labels.is_chosen)
        return average.smoothed_shares(labels.codes, len(labels.classes), labels.weights)


def metric_of(X: Any, wanted: str) -> str:
    """Return how rows are compared: as wanted, or if that is "auto", as suits them.

    Rows of more than two columns that all have length one, except for some of zeros, are
    directions. Rows outside memory are not looked at: that would take one more pass over them.
    """
    if wanted != rows_of.AUTO:
        return wanted
    if isinstance(X, SourceRows) or X.shape[1] < FEWEST_OF_DIRECTIONS:
        return rows_of.EUCLIDEAN
    some = np.linspace(0, X.shape[0] - 1, min(X.shape[0], GLANCE)).astype(np.intp)
    return rows_of.COSINE if _are_unit(X[some]) and _are_unit(X) else rows_of.EUCLIDEAN


def scale_rows(X: Any, wanted: Any, metric: str) -> Scaled:
    """Scale the columns of the graph's rows, and merge rows that are copies.

    Parameters
    ----------
    wanted : "auto", or whether columns are standardised
    """
    d, left_alone = X.shape[1], sparse.issparse(X) or metric == rows_of.COSINE
    unlike = not left_alone and unlike_scales(X)
    unit = 1.0 if metric == rows_of.COSINE else _unit(X)
    shift, scale = np.zeros(d), np.full(d, unit)
    if left_alone and wanted not in ("auto", False):
        why = "a sparse X: its zeros would be lost" if sparse.issparse(X) else "metric='cosine'"
        raise ValueError(f"scale=True does not go with {why}; leave scale='auto'.")
    if left_alone:
        rows = rows_of.rescaled(X, shift, scale, metric)
    else:
        rows = X if unit == 1.0 else X / unit
    if unlike if wanted == "auto" else wanted:
        mean, deviation = rows_of.mean_and_deviation(rows)
        shift, scale = unit * mean, unit * np.where(deviation > 0, deviation, 1.0)
        rows = rows_of.rescaled_alike(X, shift, scale)
    distinct, place = rows_of.distinct_rows(rows)
    n, n_distinct, n_telling = rows.shape[0], distinct.shape[0], rows_of.n_varying_columns(distinct)
    if n_distinct == n:
        return Scaled(shift, scale, unlike, rows, np.ones(n), np.arange(n), n_telling)
    if n_distinct == 1:  # a graph needs two rows
        distinct, place = rows[:2], np.minimum(np.arange(n), 1)
    copies = np.bincount(place).astype(float)
    return Scaled(shift, scale, unlike, distinct, copies, place, n_telling)


def put_labels(
    scaled: Scaled, X: Any, kept: Index, labels: PartialLabels, labelled: Index, metric: str
) -> Rows:
    """Put labels (l,) of rows `labelled` of X on the rows of the graph."""
    on_graph, is_outside = places_of(labelled, kept)
    place = on_graph - len(kept) + scaled.rows.shape[0]  # of rows outside
    place[~is_outside] = scaled.place[on_graph[~is_outside]]
    some = X[labelled[is_outside]]
    outside = rows_of.rescaled(some, scaled.shift, scaled.scale, metric)
    n_telling = scaled.n_telling
    return Rows(scaled.rows, scaled.copies, place, outside, labels, metric, n_telling)


def _are_unit(X: Any) -> bool:
    """Return whether all rows have length one, but for rows of zeros, which are fewer than half."""
    n_zeros = 0
    for piece in in_chunks(X.shape[0], rows_of.width(X)):
        with np.errstate(over="ignore"):
            squares = rows_of.row_squares(X[piece])
        if not np.all((squares == 0.0) | (np.abs(squares - 1.0) < UNIT_TOLERANCE)):
            return False
        n_zeros += int(np.count_nonzero(squares == 0.0))
    return 2 * n_zeros < X.shape[0]


def _unit(X: Array) -> float:
    """Return one, or for huge numbers a power of two by which to divide before squaring."""
    largest = float(max(X.max(), -X.min()))  # zeros of a sparse X among them
    return 1.0 if largest < HUGE else float(2.0 ** np.floor(np.log2(largest)))
