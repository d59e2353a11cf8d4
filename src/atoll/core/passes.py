"""Passes over rows, wherever they are: in memory, in chunks on disk, or on a cluster.

The first passes gather the scale of the rows, their labels and a sample of them; what they find is
`Rows`, over which a model can sum as often as it needs. Every result of a chunk adds to that of
another, so that chunks may come one after the other or from a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.chunks import RowSource
from atoll.core.labels import PartialLabels, parse_labels, require_classes, unlabelled_marker
from atoll.core.memory import in_chunks
from atoll.core.not_finite import refuse_not_finite

Array = NDArray[np.float64]
Codes = NDArray[np.integer]
Tick = Callable[[int], None]

BLOCK = 65536  # rows converted to float64 at a time


class Rows(NamedTuple):
    """The rows of a fit, wherever they are.

    total : sums a function of rows (b, d) and their codes (b,), -1 where unlabelled, over all
        chunks; `tick`, its second argument, is called with the number of rows of every chunk read
    summary : their number and scale
    sample : some of them, the same whichever way the rows are cut into chunks
    """

    total: Callable[..., Any]
    summary: Summary
    sample: Reservoir


def rows_in_memory(
    X: Array, labels: PartialLabels, seed: int, sizes: Callable[[int], tuple[int, ...]]
) -> Rows:
    """Return the rows of an array X (n, d).

    Parameters
    ----------
    seed : of the sample
    sizes : number of classes -> `Reservoir.sizes` of the sample
    """
    codes = signed_codes(labels)
    return Rows(
        partial(_of_array, X, codes),
        summarise(0, X, np.zeros(len(X))),
        choose(0, X, codes, seed, sizes(len(labels.classes))),
    )


def rows_of_source(
    source: RowSource, seed: int, sizes: Callable[[int], tuple[int, ...]], *, unlabelled: Any
) -> tuple[Rows, PartialLabels]:
    """Return the rows of a source, and its distinct labels; two passes over the rows.

    Parameters
    ----------
    seed, sizes : as in `rows_in_memory`
    unlabelled : "auto", None or a value, as in `parse_labels`; "auto" is settled by the labels of
        all chunks together
    """
    summary = source.total(summarise)
    labels = parse_labels(as_labels(summary.labels), unlabelled=unlabelled)
    require_classes(labels)
    read = partial(_read_codes, labels.classes.tolist(), unlabelled_marker(labels, unlabelled))
    starts = np.concatenate([[0], np.cumsum(summary.lengths)]).tolist()
    sizes_here = sizes(len(labels.classes))
    sample = source.total(partial(_choose_chunk, read, starts, seed, sizes_here))
    return Rows(partial(_of_source, source, read), summary, sample), labels


def signed_codes(labels: PartialLabels) -> Codes:
    """Return codes (n,), -1 where there is no label; of one byte each if that is enough.

    Examples
    --------
    >>> signed_codes(parse_labels(["cat", None, "dog"])).tolist()
    [0, -1, 1]
    """
    return np.where(labels.is_labelled, labels.codes, -1).astype(code_type(len(labels.classes)))


def code_type(n_classes: int) -> type[np.signedinteger[Any]]:
    """Return the smallest type that holds the codes of this many classes, and -1."""
    return np.int8 if n_classes < 128 else np.int32


def _of_array(
    X: Array, codes: Codes, function: Callable[[Any, Codes], Any], tick: Tick | None = None
) -> Any:
    return function(X, codes)


def _of_source(
    source: RowSource,
    read: Callable[[Any], Codes],
    function: Callable[[Any, Codes], Any],
    tick: Tick | None = None,
) -> Any:
    return source.total(partial(_on_codes, read, function), tick)


def _on_codes(
    read: Callable[[Any], Codes], function: Callable[[Any, Codes], Any], number: int, X: Any, y: Any
) -> Any:
    return function(as_rows(X), read(y))


def _read_codes(classes: list[Any], marker: Any, y: Any) -> Codes:
    return signed_codes(parse_labels(y, unlabelled=marker, classes=classes))


def _choose_chunk(
    read: Callable[[Any], Codes],
    starts: list[int],
    seed: int,
    sizes: tuple[int, ...],
    number: int,
    X: Any,
    y: Any,
) -> Reservoir:
    return choose(starts[number], X, read(y), seed, sizes)


def _squares(block: Array, mean: Array) -> Array:
    """Return sums of squared deviations (d,), infinite where they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(((block - mean) ** 2).sum(axis=0))


def as_labels(distinct: frozenset[Any]) -> Any:
    """Return distinct labels as an array; whole numbers become integers, even if read as floats."""
    values = list(distinct)
    words = sorted(v for v in values if isinstance(v, str))
    numbers = sorted(v for v in values if isinstance(v, int | float) and v != -1)
    if words and numbers:
        raise ValueError(
            f"labels are words in some chunks and numbers in others, such as {words[-1]!r} and "
            f"{numbers[0]!r}; make them all words, of a CSV file by RowChunks.from_csv(path, "
            "target, dtype={target: str})."
        )
    if values and all(isinstance(v, float) and v.is_integer() for v in values):
        return np.array(values).astype(np.int64)
    if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return np.array([int(v) for v in values])
    return np.array(values, dtype=object)


# --- the scale of the rows, and their labels ------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """The number, mean and spread of rows, and the labels among them.

    lengths : number of rows in each chunk
    mean, squares : (d,) mean, and sum of squared deviations from it
    labels : the distinct labels, without missing values
    names : names of the features, or None
    """

    lengths: tuple[int, ...]
    mean: Array
    squares: Array
    labels: frozenset[Any]
    names: tuple[str, ...] | None

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def deviation(self) -> Array:
        """The features' standard deviations, (d,); one for a constant feature."""
        deviation = np.sqrt(self.squares / max(self.n_rows, 1))
        # The deviation of a constant feature may be a rounding error instead of zero.
        tiny = deviation <= 1e-12 * np.abs(self.mean)
        return np.where(tiny, 1.0, deviation)

    def __add__(self, other: Summary) -> Summary:
        require_same_columns(self, other)
        n, m = self.n_rows, other.n_rows
        both = max(n + m, 1)
        gap = other.mean - self.mean
        return Summary(
            self.lengths + other.lengths,
            self.mean + gap * (m / both),
            self.squares + other.squares + _squares(gap[None], np.zeros(1)) * (n * m / both),
            self.labels | other.labels,
            self.names,
        )


def require_same_columns(one: Any, other: Any) -> None:
    """Raise a ValueError where chunks, given by their `n_features` and `names`, differ in these."""
    if (one.n_features, one.names) != (other.n_features, other.names):
        first, second = (
            ", ".join(chunk.names) if chunk.names else f"{chunk.n_features} features"
            for chunk in (one, other)
        )
        raise ValueError(
            f"chunks of rows differ in their columns: {first} and {second}; every chunk needs the "
            "same."
        )


def as_rows(X: Any) -> Array:
    """Return a chunk's rows as an array (b, d) of floats or integers.

    Arrays of floats or integers keep their type; data frames and other arrays become float64.
    """
    if hasattr(X, "tocsr"):
        raise ValueError(
            "the chunks hold sparse rows, which are fitted in memory alone; pass all of them as "
            "one sparse X, with y, or a part of their columns as arrays."
        )
    if hasattr(X, "to_numpy"):
        X = X.to_numpy(dtype=np.float64, na_value=np.nan)
    X = np.asarray(X)
    return X if X.dtype.kind in "fiu" else X.astype(np.float64)


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns, or None for an array."""
    columns = getattr(X, "columns", None)
    return None if columns is None else tuple(map(str, columns))


def read_chunk(number: int, X: Any, y: Any) -> tuple[Array, PartialLabels]:
    """Return the rows of a chunk and their labels; raise a ValueError where they do not match."""
    rows = as_rows(X)
    if rows.ndim != 2:
        raise ValueError(f"chunk {number} has shape {rows.shape}; give rows (b, d).")
    labels = parse_labels(y, unlabelled=None)
    if len(labels.codes) != len(rows):
        raise ValueError(
            f"chunk {number} has {len(rows)} rows and {len(labels.codes)} labels; give one per row."
        )
    return rows, labels


def summarise(number: int, X: Any, y: Any) -> Summary:
    """Summarise one chunk; raise a ValueError if a number in it is not finite."""
    rows, labels = read_chunk(number, X, y)
    total: Summary | None = None
    for part in in_chunks(max(len(rows), 1), 1, most=BLOCK):
        block = rows[part].astype(np.float64)
        refuse_not_finite(block, part.start, f" of chunk {number}")
        mean = block.mean(axis=0) if len(block) else np.zeros(rows.shape[1])
        found = Summary((len(block),), mean, _squares(block, mean), frozenset(), column_names(X))
        total = found if total is None else total + found
    assert total is not None
    return replace(total, lengths=(len(rows),), labels=frozenset(labels.classes.tolist()))


# --- a sample of the rows -------------------------------------------------------------------------


@dataclass(frozen=True)
class Reservoir:
    """A random sample of rows, whichever way they were chunked: those with the smallest keys.

    keys (s,) uint64, rows (s, d), codes (s,); at most `sizes[c + 1]` rows of code c are kept
    """

    keys: NDArray[np.uint64]
    rows: Array
    codes: Codes
    sizes: tuple[int, ...]

    def __add__(self, other: Reservoir) -> Reservoir:
        return keep_smallest(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.codes, other.codes]),
            self.sizes,
        )

    @property
    def uniform_rows(self) -> Array:
        """The part of the rows that is a random sample of all, regardless of codes, (t, d).

        If not all rows of a code were kept, its largest key is a limit for the others.
        """
        limit = np.uint64(2**64 - 1)
        for code, size in enumerate(self.sizes, start=-1):
            keys = self.keys[self.codes == code]
            if len(keys) >= size:
                limit = min(limit, keys.max(initial=np.uint64(0)))
        return self.rows[self.keys <= limit]


def row_keys(first: int, n: int, seed: int) -> NDArray[np.uint64]:
    """Return keys (n,) of the rows numbered from `first`: a hash of number and seed (splitmix64).

    Examples
    --------
    >>> bool((row_keys(0, 10, 7)[4:] == row_keys(4, 6, 7)).all())
    True
    """
    z = np.arange(first, first + n, dtype=np.uint64)
    z += np.uint64(seed)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def keep_smallest(
    keys: NDArray[np.uint64], rows: Any, codes: Codes, sizes: tuple[int, ...]
) -> Reservoir:
    """Return a reservoir of these rows: for code c, the `sizes[c + 1]` with the smallest keys."""
    chosen = []
    for code, size in enumerate(sizes, start=-1):
        places = np.flatnonzero(codes == code)
        if len(places) > size:
            places = places[np.argpartition(keys[places], size - 1)[:size]]
        chosen.append(places)
    order = np.concatenate(chosen)
    order = order[np.argsort(keys[order], kind="stable")]
    return Reservoir(keys[order], np.asarray(rows[order], dtype=np.float64), codes[order], sizes)


def choose(first: int, X: Any, codes: Codes, seed: int, sizes: tuple[int, ...]) -> Reservoir:
    """Return the reservoir of one chunk, whose rows are numbered from `first`."""
    rows = as_rows(X)
    return keep_smallest(row_keys(first, len(rows), seed), rows, codes, sizes)
