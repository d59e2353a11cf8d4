"""Rows that do not fit in memory: read in chunks, or held by a cluster.

A source of rows has one operation, `total`: apply a function to every chunk and add the results.
Any sum over rows is thus computed in the same way from an array, from files and on a cluster. A
result for every row, such as a prediction, comes from `each`, or from Dask itself.
"""

from __future__ import annotations

import gzip
import mmap
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from atoll.core.extras import import_extra
from atoll.core.fillings import part_of
from atoll.core.near_names import no_file
from atoll.core.table_refusals import about_separator, refuse_lazy
from atoll.core.tables import (
    MOST_MORE,
    LongRow,
    exact_numbers,
    more_columns,
    unreadable_parquet,
    unreadable_text,
    utf16_of,
    with_length,
)

CHUNK_ROWS = 100_000  # rows per chunk unless the caller chooses

_ABOUT_COLUMNS = {"names", "header", "index_col", "usecols", "on_bad_lines", "engine", "skiprows"}
"""Options of `pandas.read_csv` that say what the columns are."""

Chunk = tuple[Any, Any]
"""Rows (b, d), as an array or a data frame, and their labels (b,), or None where there are none."""

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
        data frame, and y (b,) holds labels, with None, NaN or -1 where a label is unknown; None
        where rows are only to be predicted.
    n_rows : int, default=None
        How many there are, if that is known; progress bars show it. Predictions refuse chunks that
        hold fewer or more.

    Attributes
    ----------
    reasons : dict
        Row number, from 0, -> why the row could not be read. Filled once the table was predicted
        by a pipeline with `make_preprocessor()`; such rows have blank answers.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, -1, 0, 1, -1])
    >>> rows = RowChunks.from_arrays(X, y, chunk_rows=4)
    >>> rows.total(lambda number, X, y: len(X))
    6
    """

    def __init__(self, make: Callable[[], Iterator[Chunk]], n_rows: int | None = None):
        self.make = make
        self.n_rows = n_rows
        self._make_table: Callable[..., Iterator[Chunk]] | None = None
        self.reasons: dict[int, str] = {}

    def __repr__(self) -> str:
        n = "rows that are not counted yet" if self.n_rows is None else f"{self.n_rows:,} rows"
        return f"RowChunks of {n}"

    @classmethod
    def from_arrays(cls, X: Any, y: Any = None, *, chunk_rows: int = CHUNK_ROWS) -> RowChunks:
        """Return chunks of arrays, sparse arrays or memory maps X (n, d) and y (n,).

        Of a map opened for reading at most one chunk stays resident in memory.
        """
        _check_chunk_rows(chunk_rows)
        X = X.tocsr() if hasattr(X, "tocsr") else X if hasattr(X, "shape") else np.asarray(X)
        _check_lengths(X.shape[0], y)
        return cls(partial(_of_arrays, X, y, chunk_rows), X.shape[0])

    @classmethod
    def from_npy(
        cls, X: str | os.PathLike[str], y: Any = None, *, chunk_rows: int = CHUNK_ROWS
    ) -> RowChunks:
        """Return chunks of a .npy file of rows; y is another such file, or an array.

        The file is mapped anew for every chunk, so at most one chunk of it is ever resident in
        memory.
        """
        _check_chunk_rows(chunk_rows)
        path, labels = _existing(X), y
        if isinstance(y, str | os.PathLike):
            labels = _existing(y)
        elif y is not None:
            labels = np.asarray(y)
        n = len(_mapped(path))
        _check_lengths(n, _mapped(labels) if isinstance(labels, Path) else labels)
        return cls(partial(_of_npy, path, labels, chunk_rows), n)

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        target: str | None = None,
        *,
        chunk_rows: int = CHUNK_ROWS,
        **options: Any,
    ) -> RowChunks:
        """Return chunks of a CSV file, read by pandas; `target` is the column of labels, if any.

        A blank cell in that column marks an unlabelled row. `options` go to `pandas.read_csv`; give
        `dtype={target: str}` if the labels are words. Rows that a pipeline with
        `make_preprocessor()` cannot read have blank answers, and `reasons` says why.
        """
        _check_chunk_rows(chunk_rows)
        read = partial(_of_csv, _existing(path), target, chunk_rows, options)
        found = cls(read)
        takes_long = not options.keys() & _ABOUT_COLUMNS
        found._make_table = partial(read, takes_long=takes_long)
        return found

    @classmethod
    def from_parquet(
        cls,
        path: str | os.PathLike[str],
        target: str | None = None,
        *,
        chunk_rows: int = CHUNK_ROWS,
    ) -> RowChunks:
        """Return chunks of a Parquet file, or of a folder of them in the order of their names.

        `target` is the column of labels, if any.
        """
        _check_chunk_rows(chunk_rows)
        files = _parquet_files(path)
        return cls(partial(_of_parquet, files, target, chunk_rows), _parquet_rows(files))

    def tables(self, as_text: Sequence[str] = ()) -> Iterator[Chunk]:
        """Yield the chunks, with rows of too many cells, too, if these can be read.

        Parameters
        ----------
        as_text : columns of a CSV file whose cells are taken as they are written, so that codes do
            not depend on what other cells their chunk has
        """
        return self.make() if self._make_table is None else self._make_table(as_text=as_text)

    def total(self, function: OfChunk, tick: Callable[[int], None] | None = None) -> Any:
        """Return the sum of `function(number, X, y)` over the chunks, added in order."""
        result = None
        for part in self.each(function, tick):
            if self.reasons:
                row, reason = next(iter(self.reasons.items()))
                raise ValueError(
                    f"row {row} cannot be read: {reason} (the first row is row 0). Mend it, or "
                    "leave it out of the fit."
                )
            result = part if result is None else result + part
        if result is None:
            raise ValueError("the source of rows gave no chunk; it needs at least one row.")
        return result

    def each(self, function: OfChunk, tick: Callable[[int], None] | None = None) -> Iterator[Any]:
        """Yield `function(number, X, y)` of every chunk, in order."""
        for number, (X, y) in enumerate(self.make()):
            yield function(number, X, y)
            if tick is not None:
                tick(X.shape[0])  # of sparse rows there is no len


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
        require_two_dimensions(X)
        self.partitions = _partitions(X, y)

    def total(self, function: OfChunk, tick: Callable[[int], None] | None = None) -> Any:
        """Return the sum of `function(number, X, y)` over the partitions, added pairwise in order.

        Where a worker of a cluster is lost, Dask computes anew what it held.
        """
        dask = import_extra("dask")
        apply, add = dask.delayed(_apply, pure=False), dask.delayed(_add, pure=False)
        shared = dask.delayed(function, traverse=False, pure=False)  # sent only once
        parts = [apply(shared, number, X, y) for number, (X, y) in enumerate(self.partitions)]
        heard = [dask.delayed(_rows_of, pure=False)(part) for part in parts]
        while len(parts) > 1:
            pairs = [add(*parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
            parts = pairs + parts[len(parts) - len(parts) % 2 :]
        result = dask.delayed(_result_of, pure=False)(parts[0])
        if tick is None:
            return result.compute()
        return _compute_and_tick(result, heard, tick)


def _compute_and_tick(result: Any, heard: list[Any], tick: Callable[[int], None]) -> Any:
    """Compute `result`, and call `tick` with each of `heard` as soon as it is known."""
    dask = import_extra("dask")
    client = getattr(import_extra("dask.base").get_scheduler(), "__self__", None)
    if client is not None:  # a cluster, so that its package was imported
        futures = client.compute(heard)
        whole = client.compute(result)
        done = sys.modules["distributed"].as_completed(futures, with_results=True)
        for _, n in done:
            tick(n)
        return whole.result()
    keys = {one.key for one in heard}

    def after(key: Any, value: Any, *state: Any) -> None:
        if key in keys:
            tick(value)

    with import_extra("dask.callbacks").Callback(posttask=after):
        return dask.compute(result, *heard)[0]


def is_dask(X: Any) -> bool:
    """Return whether X is a Dask collection, without importing Dask."""
    return hasattr(X, "__dask_graph__")


def is_source(X: Any) -> bool:
    """Return whether X is rows that stay where they are: chunks, a Dask collection, a .npy path.

    Examples
    --------
    >>> is_source(RowChunks.from_arrays(np.eye(2))), is_source("rows.npy"), is_source(np.eye(2))
    (True, True, False)
    """
    return is_dask(X) or hasattr(X, "total") or _is_npy(X)


def require_in_memory(X: Any, what: str) -> None:
    """Raise a ValueError for a path, chunks or a lazy frame; Dask brings its rows by itself.

    Parameters
    ----------
    what : that takes rows in memory, for the message

    Examples
    --------
    >>> require_in_memory("rows.npy", "cross-validation")
    Traceback (most recent call last):
        ...
    ValueError: X is the path 'rows.npy', and cross-validation takes rows in memory; read all \
labelled rows and some of the others, or map a .npy file: numpy.load(path, mmap_mode="r").
    """
    refuse_lazy(X)
    is_path = isinstance(X, str | os.PathLike)
    if is_path or hasattr(X, "total"):
        shown = f"the path {str(X)!r}" if is_path else "in chunks"
        raise ValueError(
            f"X is {shown}, and {what} takes rows in memory; read all labelled rows and some of "
            'the others, or map a .npy file: numpy.load(path, mmap_mode="r").'
        )


def source_of(X: Any, y: Any) -> RowSource:
    """Return the source that X and y are: chunks that bring their labels, Dask, or a .npy file."""
    if is_dask(X) and y is None:
        raise ValueError("y is None; pass the labels of a Dask X as a Dask array or array.")
    if _is_npy(X):
        if y is None:
            raise ValueError(
                f"y is None; pass the labels of {str(X)!r}, as an array or another .npy path."
            )
        return RowChunks.from_npy(X, y)
    if not is_dask(X) and y is not None:
        raise ValueError("y is given twice: chunks of rows bring their labels; leave y out.")
    return DaskRows(X, y) if is_dask(X) else X


def chunks_of(X: Any, chunk_rows: int = CHUNK_ROWS) -> RowChunks:
    """Return rows to be predicted in chunks: X is `RowChunks`, a .npy path, an array or a map."""
    if _is_npy(X):
        return RowChunks.from_npy(X, chunk_rows=chunk_rows)
    return X if hasattr(X, "each") else RowChunks.from_arrays(X, chunk_rows=chunk_rows)


def require_two_dimensions(X: Any) -> None:
    """Raise a ValueError unless a Dask X has rows and columns."""
    if X.ndim != 2:
        raise ValueError(
            f"X is a Dask collection of {X.ndim} dimension{'s' * (X.ndim != 1)}; give rows and "
            "columns, for instance X.reshape(-1, 1) or frame[['column']] if it is one column."
        )


def map_partitions(function: Callable[[Any], Any], X: Any, meta: Any) -> Any:
    """Return a Dask array of `function(rows)` over the partitions of a Dask X, not computed yet.

    Parameters
    ----------
    function : rows (b, d), an array or a data frame -> array (b, …)
    meta : array like what it returns, (0, …)
    """
    dask, arrays = import_extra("dask"), import_extra("dask.array")
    is_array = hasattr(X, "rechunk")
    if is_array:
        X = X.rechunk({1: -1})
    lengths = X.chunks[0] if is_array else (np.nan,) * X.npartitions
    shared = dask.delayed(function, traverse=False, pure=False)  # sent only once
    call = dask.delayed(_call, pure=False)
    pieces = [
        arrays.from_delayed(call(shared, part), (n, *meta.shape[1:]), meta=meta)
        for part, n in zip(np.ravel(X.to_delayed()).tolist(), lengths)
    ]
    return arrays.concatenate(pieces, allow_unknown_chunksizes=True)


def let_go(X: Any) -> None:
    """Drop the pages of a memory map that were read; they are read again when they are needed."""
    if not isinstance(X, np.memmap) or X.mode != "r":
        return
    base: Any = X.base
    while isinstance(base, np.ndarray):  # X may be a part of a map
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def _is_npy(X: Any) -> bool:
    return isinstance(X, str | os.PathLike) and str(X).endswith(".npy")


def _call(function: Callable[[Any], Any], rows: Any) -> Any:
    return function(rows)


def _apply(function: OfChunk, number: int, X: Any, y: Any) -> tuple[int, Any]:
    return X.shape[0], function(number, X, y)


def _add(first: tuple[int, Any], second: tuple[int, Any]) -> tuple[int, Any]:
    return first[0] + second[0], first[1] + second[1]


def _rows_of(part: tuple[int, Any]) -> int:
    return part[0]


def _result_of(part: tuple[int, Any]) -> Any:
    return part[1]


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
    for start in range(0, X.shape[0], chunk_rows):
        stop = start + chunk_rows
        yield part_of(X, slice(start, stop)), None if y is None else y[start:stop]
        let_go(X)


def _mapped(path: Path) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r")
    except ValueError as error:
        raise ValueError(
            f"{str(path)!r} cannot be mapped as .npy ({error}); save the rows as an array of "
            "numbers with numpy.save."
        ) from None
    return found


def _of_npy(path: Path, labels: Any, chunk_rows: int) -> Iterator[Chunk]:
    n = len(_mapped(path))
    y = _mapped(labels) if isinstance(labels, Path) else labels
    for start in range(0, n, chunk_rows):
        # Each chunk has its own map, dropped with it: the pages of a lasting map stay resident.
        rows = _mapped(path)[start : start + chunk_rows]
        yield rows, None if y is None else np.asarray(y[start : start + chunk_rows])


def _of_csv(
    path: Path,
    target: str | None,
    chunk_rows: int,
    options: dict[str, Any],
    takes_long: bool = False,
    as_text: Sequence[str] = (),
) -> Iterator[Chunk]:
    """Yield chunks of a CSV file.

    as_text : columns whose cells stay as they are written, unless the options say what they are
    takes_long : whether rows may have more cells than the header; from the first such row on, a
        column `N_CELLS` says which rows have
    """
    pd = import_extra("pandas")
    options = _with_text(options, as_text)
    n_done, n_more = 0, 0
    while True:
        try:
            with _reader(path, chunk_rows, options, n_more) as reader:
                for number, frame in enumerate(reader):
                    if number >= n_done:  # others were read before a row was found to be long
                        n_done += 1
                        yield _split(with_length(frame, n_more), target, path)
            return
        except pd.errors.EmptyDataError:
            raise ValueError(f"{str(path)!r} is empty; it needs a header and rows.") from None
        except UnicodeError as error:
            raise ValueError(_no_text(path, error)) from None
        except (gzip.BadGzipFile, EOFError) as error:
            raise unreadable_text(repr(str(path)), error) from None
        except pd.errors.ParserError as error:
            found = unreadable_text(repr(str(path)), error)
            if not (takes_long and isinstance(found, LongRow)) or found.n_more > MOST_MORE - n_more:
                raise found from None
            n_more += found.n_more


def _with_text(options: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Return options of `pandas.read_csv` by which columns are text, if they say nothing else."""
    dtype = options.get("dtype", {})
    if not columns or not isinstance(dtype, dict):
        return options
    converted = options.get("converters") or {}
    text = {name: str for name in columns if name not in converted}
    return {**options, "dtype": {**text, **dtype}}


def _no_text(path: Path, error: UnicodeError) -> str:
    """Return what to do about a file that is not text."""
    with path.open("rb") as file:
        start = file.read(16)
    code = utf16_of(start) or "latin-1"
    fix = (
        f"if it is text, name its encoding, such as encoding={code!r}; if it is another kind of "
        "file, save it as CSV first"
    )
    if start.startswith(b"PAR1"):
        fix = "it is a Parquet file: read it with RowChunks.from_parquet"
    elif start.startswith(b"PK\3\4"):
        fix = "it is a zip file, as those of Excel are: save the table as CSV first"
    return f"{str(path)!r} cannot be read as CSV ({error}); {fix}."


def _reader(path: Path, chunk_rows: int, options: dict[str, Any], n_more: int) -> Any:
    """Return a reader of a CSV file, with `n_more` columns beyond those of its header."""
    pd = import_extra("pandas")
    separator = options.get("sep", options.get("delimiter", ","))
    if "engine" not in options and separator is not None and len(separator) == 1:
        options = {**exact_numbers(), **options}  # the slower parsers have no such choice
    if n_more:
        names = pd.read_csv(path, nrows=0, **options).columns
        names = [*names, *more_columns(n_more)]
        options = {**options, "names": names, "header": None, "skiprows": 1, "index_col": False}
    return pd.read_csv(path, chunksize=chunk_rows, **options)


def _of_parquet(files: list[Path], target: str | None, chunk_rows: int) -> Iterator[Chunk]:
    parquet = import_extra("pyarrow.parquet")
    for path in files:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=chunk_rows):
                yield _split(batch.to_pandas(), target, path)


def _parquet_files(path: str | os.PathLike[str]) -> list[Path]:
    if not Path(path).is_dir():
        return [_existing(path)]
    found = sorted(Path(path).glob("*.parquet"))
    if not found:
        raise ValueError(f"the folder {str(path)!r} has no .parquet file; check the path.")
    return found


def _parquet_rows(files: list[Path]) -> int:
    parquet, pyarrow = import_extra("pyarrow.parquet"), import_extra("pyarrow")
    try:
        return sum(parquet.read_metadata(file).num_rows for file in files)
    except (pyarrow.ArrowException, OSError) as error:
        names = ", ".join(repr(str(file)) for file in files[:3])
        raise unreadable_parquet(names, error) from None


def _split(frame: Any, target: str | None, path: Path) -> Chunk:
    if target is None:
        return frame, None
    if target not in frame.columns:
        raise ValueError(
            f"target={target!r} is not a column of {str(path)!r}; its columns are "
            f"{', '.join(map(repr, frame.columns))}.{about_separator(frame, [target])}"
        )
    return frame.drop(columns=target), frame[target]


def _check_lengths(n: int, y: Any) -> None:
    if y is not None and len(y) != n:
        raise ValueError(f"y has {len(y)} labels and X has {n} rows; pass one per row.")


def _existing(path: str | os.PathLike[str]) -> Path:
    if not Path(path).is_file():
        raise ValueError(no_file(Path(path)))
    return Path(path)


def _check_chunk_rows(chunk_rows: int) -> None:
    is_whole = isinstance(chunk_rows, int | np.integer) and not isinstance(chunk_rows, bool)
    if not is_whole or chunk_rows < 1:
        raise ValueError(f"chunk_rows must be a whole number of at least 1, got {chunk_rows!r}.")
