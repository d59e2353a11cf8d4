"""Rows that stay on disk or on a cluster, and of which a fit takes a part.

To a model they look like an array: they have a shape, and some of them are read by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.chunks import RowSource, let_go
from atoll.core.labels import PartialLabels, parse_labels
from atoll.core.not_finite import refuse_not_finite
from atoll.core.passes import (
    Tick,
    as_labels,
    as_rows,
    code_type,
    column_names,
    read_chunk,
    require_same_columns,
    signed_codes,
)
from atoll.core.rows import with_room

Array = NDArray[np.float64]
Numbers = NDArray[np.integer]


class MappedRows:
    """Rows (n, d) of a memory map; only those that are asked for are read.

    Those in single precision stay so; all others become double.

    Examples
    --------
    >>> rows = MappedRows(np.array([[1, 2], [3, 4], [5, 6]], np.float32))
    >>> rows.shape, rows[np.array([2, 0])].tolist()
    ((3, 2), [[5.0, 6.0], [1.0, 2.0]])
    """

    def __init__(self, X: Any):
        self.X = X
        self.shape = X.shape

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, which: Any) -> Array:
        found = _in_their_precision(np.asarray(self.X[which]))
        let_go(self.X)
        return found


class SourceRows:
    """Rows (n, d) of a source; reading some of them takes a pass over all.

    Parameters
    ----------
    source : of the rows
    lengths : of its chunks
    n_features : d
    tick : called with the number of rows of every chunk that was read
    """

    def __init__(
        self, source: RowSource, lengths: Any, n_features: int, tick: Tick | None = None
    ) -> None:
        self.source = source
        self.starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self.shape = (int(self.starts[-1]), n_features)
        self.tick = tick

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: Numbers) -> Array:
        wanted, places = np.unique(numbers, return_inverse=True)
        if not len(wanted):
            return np.empty((0, self.shape[1]))
        ends = np.searchsorted(wanted, self.starts)
        within = [
            wanted[first:last] - start
            for start, first, last in zip(self.starts.tolist(), ends[:-1], ends[1:])
        ]
        found = self.source.total(partial(_taken, within), self.tick)
        rows = np.concatenate(found.pieces)
        return rows[places.reshape(np.shape(numbers))]


@dataclass(frozen=True)
class _Pieces:
    """Arrays in order; they add by following one another."""

    pieces: tuple[Any, ...]

    def __add__(self, other: _Pieces) -> _Pieces:
        return _Pieces(self.pieces + other.pieces)


def _taken(within: list[Numbers], number: int, X: Any, y: Any) -> _Pieces:
    numbers = within[number]
    if not len(numbers):
        return _Pieces((np.empty((0, X.shape[1]), np.float32),))  # takes on the others' precision
    if hasattr(X, "iloc"):
        is_single = all(kind == np.float32 for kind in X.dtypes)
        rows = as_rows(X.iloc[numbers])
        return _Pieces((with_room(rows.astype(np.float32)) if is_single else rows,))
    return _Pieces((_in_their_precision(as_rows(X[numbers])),))


def _in_their_precision(rows: Any) -> Any:
    """Return single precision as it is, as rows in memory are, and any other as double."""
    single = rows.dtype == np.float32
    return with_room(np.asarray(rows, dtype=np.float32 if single else np.float64))


# --- what a fit must know of all rows -------------------------------------------------------------


@dataclass(frozen=True)
class Survey:
    """The number, columns and labels of rows; labels take one byte a row where that is enough.

    lengths : number of rows in each chunk
    n_features : d
    names : of the features, or None
    labels : for each chunk its distinct labels, without nulls, and for each row the place of its
        label among them, -1 for a null
    """

    lengths: tuple[int, ...]
    n_features: int
    names: tuple[str, ...] | None
    labels: tuple[tuple[list[Any], Numbers], ...]

    def __add__(self, other: Survey) -> Survey:
        require_same_columns(self, other)
        return Survey(
            self.lengths + other.lengths, self.n_features, self.names, self.labels + other.labels
        )

    def read(self, unlabelled: Any, classes: Any = None) -> PartialLabels:
        """Return the labels of all rows; `unlabelled` and `classes` are those of `parse_labels`."""
        distinct = frozenset(value for values, _ in self.labels for value in values)
        whole = parse_labels(as_labels(distinct), unlabelled=unlabelled, classes=classes)
        known = {
            value: code
            for value, code, is_class in zip(
                as_labels(distinct).tolist(), whole.codes.tolist(), whole.is_labelled.tolist()
            )
            if is_class
        }
        dtype = code_type(len(whole.classes))
        codes = np.concatenate(
            [
                np.array([*(known.get(value, -1) for value in values), -1], dtype)[places]
                for values, places in self.labels
            ]
        )
        is_labelled = codes >= 0
        return PartialLabels(np.maximum(codes, 0, out=codes), is_labelled, whole.classes)


def survey(number: int, X: Any, y: Any) -> Survey:
    """Survey one chunk; raise a ValueError if a number in it is not finite."""
    if y is None:
        raise ValueError("the chunks of rows have no labels; name their column with target=.")
    rows, labels = read_chunk(number, X, y)
    refuse_not_finite(rows, where=f" of chunk {number}")
    found = (labels.classes.tolist(), signed_codes(labels))
    return Survey((len(rows),), rows.shape[1], column_names(X), (found,))
