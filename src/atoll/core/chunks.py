"""Rows that do not fit in memory: they are read in chunks, or held by a cluster, and summed over.

A source of rows has one operation, `total`: apply a function to every chunk and add the results.
Any sum over rows is thus computed in the same way from an array, from files and on a cluster.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from atoll.core.extras import import_extra

CHUNK_ROWS = 100_000  # rows per chunk unless the caller chooses

Chunk = tuple[Any, Any]
"""Rows (b, d), as an array or a data frame, and their labels (b,)."""

OfChunk = Callable[[int, Any, Any], Any]
"""A function of a chunk's number, its rows and their labels."""


class RowSource(Protocol):
    """Rows and labels in chunks, in a fixed order, that can be read any number of times."""

    def total(self, function: OfChunk, tick: Callable[[int], None] | None = None) -> Any:
        """Return the sum of `function(number, X, y)` over the chunks.

        After each chunk, `tick` is called with its number of rows.
        """
        ...


class RowChunks:
    """Rows and their labels in chunks, made anew for every pass over them.

    Parameters
    ----------
    make : callable () -> iterator of (X, y)
        Called once per pass; it must give the same chunks every time. X is (b, d), an array or a
        data frame, and y (b,) holds labels, with None, NaN or -1 where a label is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, -1, 0, 1, -1])
    >>> rows = RowChunks.from_arrays(X, y, chunk_rows=4)
    >>> rows.total(lambda number, X, y: len(X))
    6
    """

    def __init__(self, make: Callable[[], Iterator[Chunk]]):
        self.make = make

    @classmethod
    def from_arrays(cls, X: Any, y: Any, *, chunk_rows: int = CHUNK_ROWS) -> RowChunks:
        """Return chunks of arrays or memory maps X (n, d) and y (n,)."""
        _check_chunk_rows(chunk_rows)
        return cls(partial(_of_arrays, X, y, chunk_rows))

    @classmethod
    def from_npy(
        cls, X: str | os.PathLike[str], y: Any, *, chunk_rows: int = CHUNK_ROWS
    ) -> RowChunks:
        """Return chunks of a .npy file of rows; y is another such file, or an array.

        The file is mapped anew for every chunk, so at most one chunk of it is ever resident in
        memory.
        """
        _check_chunk_rows(chunk_rows)
        path = _existing(X)
        labels = _existing(y) if isinstance(y, str | os.PathLike) else np.asarray(y)
        return cls(partial(_of_npy, path, labels, chunk_rows))

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        target: str,
        *,
        chunk_rows: int = CHUNK_ROWS,
        **options: Any,
    ) -> RowChunks:
        """Return chunks of a CSV file, read by pandas; `target` is the column of labels.

        A blank cell in that column marks an unlabelled row. `options` go to `pandas.read_csv`; give
        `dtype={target: str}` if the labels are words.
        """
        _check_chunk_rows(chunk_rows)
        return cls(partial(_of_csv, _existing(path), target, chunk_rows, options))

    @classmethod
    def from_parquet(
        cls, path: str | os.PathLike[str], target: str, *, chunk_rows: int = CHUNK_ROWS
    ) -> RowChunks:
        """Return chunks of a Parquet file; `target` is the column of labels."""
        _check_chunk_rows(chunk_rows)
        return cls(partial(_of_parquet, _existing(path), target, chunk_rows))

    def total(self, function: OfChunk, tick: Callable[[int], None] | None = None) -> Any:
        """Return the sum of `function(number, X, y)` over the chunks, added in order."""
        result = None
        for number, (X, y) in enumerate(self.make()):
            part = function(number, X, y)
            result = part if result is None else result + part
            if tick is not None:
                tick(len(X))
        if result is None:
            raise ValueError("the source of rows gave no chunk; it needs at least one row.")
        return result


class DaskRows:
    """Rows of a Dask array or data frame; every sum is computed where the chunks are held.

    Parameters
    ----------
    X : dask array (n, d) or dask data frame
    y : dask array or series (n,), or an array in memory
        Its chunks are made to follow those of X; a series must have the same partitions already.
    """

    def __init__(self, X: Any, y: Any):
        import_extra("dask")
        self.partitions = _partitions(X, y)

    def total(self, function: OfChunk, tick: Callable[[int], None] | None = None) -> Any:
        """Return the sum of `function(number, X, y)` over the partitions, added pairwise in order.

        `tick` is never called.
        """
        dask = import_extra("dask")
        apply, add = dask.delayed(_apply, pure=False), dask.delayed(_add, pure=False)
        shared = dask.delayed(function, traverse=False, pure=False)  # sent once in all
        parts = [apply(shared, number, X, y) for number, (X, y) in enumerate(self.partitions)]
        while len(parts) > 1:
            pairs = [add(*parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
            parts = pairs + parts[len(parts) - len(parts) % 2 :]
        return parts[0].compute()


def is_dask(X: Any) -> bool:
    """Return whether X is a Dask collection, without importing Dask."""
    return hasattr(X, "__dask_graph__")


def source_of(X: Any, y: Any) -> RowSource:
    """Return the source that X and y are: chunks that bring their labels, or Dask collections."""
    if is_dask(X) and y is None:
        raise ValueError("y is None; pass the labels of a Dask X as a Dask array or array.")
    if not is_dask(X) and y is not None:
        raise ValueError("y is given twice: chunks of rows bring their labels; leave y out.")
    return DaskRows(X, y) if is_dask(X) else X


def _apply(function: OfChunk, number: int, X: Any, y: Any) -> Any:
    return function(number, X, y)


def _add(first: Any, second: Any) -> Any:
    return first + second


def _partitions(X: Any, y: Any) -> list[tuple[Any, Any]]:
    """Return pairs of delayed pieces of X and y that hold the same rows."""
    if hasattr(X, "rechunk"):
        X = X.rechunk({1: -1})
        lengths = X.chunks[0]
        rows = X.to_delayed().ravel().tolist()
    else:
        lengths = (np.nan,) * X.npartitions
        rows = X.to_delayed()
    known = not np.isnan(np.sum(lengths))
    if hasattr(y, "rechunk"):
        if known:
            y = y.rechunk({0: lengths})
        labels = y.to_delayed().ravel().tolist()
    elif is_dask(y):
        labels = list(y.to_delayed())
    else:
        y = np.asarray(y)
        lengths = lengths if known else _lengths(rows)
        stops = np.cumsum(np.asarray(lengths, dtype=int))
        if len(y) != stops[-1]:
            raise ValueError(f"y has {len(y)} labels and X has {stops[-1]} rows; pass one per row.")
        labels = np.split(y, stops[:-1])
    if len(labels) != len(rows):
        raise ValueError(
            f"y has {len(labels)} partitions and X has {len(rows)}; give both the same partitions, "
            "for instance as columns of one data frame."
        )
    return list(zip(rows, labels))


def _lengths(rows: list[Any]) -> list[int]:
    dask = import_extra("dask")
    return list(dask.compute(*(dask.delayed(len)(part) for part in rows)))


def _of_arrays(X: Any, y: Any, chunk_rows: int) -> Iterator[Chunk]:
    for start in range(0, len(X), chunk_rows):
        yield X[start : start + chunk_rows], y[start : start + chunk_rows]


def _of_npy(path: Path, labels: Any, chunk_rows: int) -> Iterator[Chunk]:
    n = np.load(path, mmap_mode="r").shape[0]
    y = np.load(labels, mmap_mode="r") if isinstance(labels, Path) else labels
    for start in range(0, n, chunk_rows):
        # Each chunk has its own map, dropped with it: the pages of a lasting map stay resident.
        rows = np.load(path, mmap_mode="r")[start : start + chunk_rows]
        yield rows, np.asarray(y[start : start + chunk_rows])


def _of_csv(path: Path, target: str, chunk_rows: int, options: dict[str, Any]) -> Iterator[Chunk]:
    pd = import_extra("pandas")
    with pd.read_csv(path, chunksize=chunk_rows, **options) as reader:
        for frame in reader:
            yield _split(frame, target, path)


def _of_parquet(path: Path, target: str, chunk_rows: int) -> Iterator[Chunk]:
    parquet = import_extra("pyarrow.parquet")
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=chunk_rows):
            yield _split(batch.to_pandas(), target, path)


def _split(frame: Any, target: str, path: Path) -> Chunk:
    if target not in frame.columns:
        raise ValueError(
            f"target={target!r} is not a column of {str(path)!r}; its columns are "
            f"{', '.join(map(repr, frame.columns))}."
        )
    return frame.drop(columns=target), frame[target]


def _existing(path: str | os.PathLike[str]) -> Path:
    if not Path(path).is_file():
        raise ValueError(f"there is no file {str(path)!r}; check the path.")
    return Path(path)


def _check_chunk_rows(chunk_rows: int) -> None:
    is_whole = isinstance(chunk_rows, int | np.integer) and not isinstance(chunk_rows, bool)
    if not is_whole or chunk_rows < 1:
        raise ValueError(f"chunk_rows must be a whole number of at least 1, got {chunk_rows!r}.")
