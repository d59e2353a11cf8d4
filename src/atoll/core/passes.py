"""What a first pass over chunks of rows gathers: their scale, their labels, a sample of them.

The results of chunks can be added, whether the chunks come one after another or from a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import parse_labels

Array = NDArray[np.float64]

BLOCK = 65536  # rows converted to float64 at a time


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
    def deviation(self) -> Array:
        """The features' standard deviations, (d,); one for a constant feature."""
        deviation = np.sqrt(self.squares / max(self.n_rows, 1))
        # The deviation of a constant feature may be a rounding error instead of zero.
        tiny = deviation <= 1e-12 * np.abs(self.mean)
        return np.where(tiny, 1.0, deviation)

    def __add__(self, other: Summary) -> Summary:
        if len(self.mean) != len(other.mean) or self.names != other.names:
            raise ValueError(
                f"chunks of rows differ in their columns: {_columns(self)} and {_columns(other)}; "
                "every chunk needs the same."
            )
        n, m = self.n_rows, other.n_rows
        both = max(n + m, 1)
        gap = other.mean - self.mean
        return Summary(
            self.lengths + other.lengths,
            self.mean + gap * (m / both),
            self.squares + other.squares + gap**2 * (n * m / both),
            self.labels | other.labels,
            self.names,
        )


def _columns(summary: Summary) -> str:
    return ", ".join(summary.names) if summary.names else f"{len(summary.mean)} features"


def as_rows(X: Any) -> Array:
    """Return a chunk's rows as an array (b, d) of floats or integers.

    Arrays of floats or integers keep their type; data frames and other arrays become float64.
    """
    if hasattr(X, "to_numpy"):
        X = X.to_numpy(dtype=np.float64, na_value=np.nan)
    X = np.asarray(X)
    return X if X.dtype.kind in "fiu" else X.astype(np.float64)


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns, or None for an array."""
    columns = getattr(X, "columns", None)
    return None if columns is None else tuple(map(str, columns))


def summarise(number: int, X: Any, y: Any) -> Summary:
    """Summarise one chunk; raise a ValueError if a number in it is not finite."""
    rows = as_rows(X)
    if rows.ndim != 2:
        raise ValueError(f"chunk {number} has shape {rows.shape}; give rows (b, d).")
    labels = parse_labels(y, unlabelled=None)
    if len(labels.codes) != len(rows):
        raise ValueError(
            f"chunk {number} has {len(rows)} rows and {len(labels.codes)} labels; give one per row."
        )
    total: Summary | None = None
    for start in range(0, max(len(rows), 1), BLOCK):
        block = rows[start : start + BLOCK].astype(np.float64)
        bad = ~np.isfinite(block).all(axis=1)
        if bad.any():
            raise ValueError(
                f"X contains NaN or infinity (inf) in row {start + int(bad.argmax())} of chunk "
                f"{number}; drop such rows or fill them."
            )
        mean = block.mean(axis=0) if len(block) else np.zeros(rows.shape[1])
        part = Summary(
            (len(block),), mean, ((block - mean) ** 2).sum(axis=0), frozenset(), column_names(X)
        )
        total = part if total is None else total + part
    assert total is not None
    return Summary(
        (len(rows),),
        total.mean,
        total.squares,
        frozenset(labels.classes.tolist()),
        total.names,
    )


@dataclass(frozen=True)
class Reservoir:
    """A random sample of rows, however they were chunked: those with the smallest keys.

    keys (s,) uint64, rows (s, d), codes (s,); at most `sizes[c + 1]` rows of code c are kept
    """

    keys: NDArray[np.uint64]
    rows: Array
    codes: NDArray[np.integer]
    sizes: tuple[int, ...]

    def __add__(self, other: Reservoir) -> Reservoir:
        return keep_smallest(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.codes, other.codes]),
            self.sizes,
        )


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
    keys: NDArray[np.uint64], rows: Any, codes: NDArray[np.integer], sizes: tuple[int, ...]
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


def choose(
    first: int, X: Any, codes: NDArray[np.integer], seed: int, sizes: tuple[int, ...]
) -> Reservoir:
    """Return the reservoir of one chunk, whose rows are numbered from `first`."""
    rows = as_rows(X)
    return keep_smallest(row_keys(first, len(rows), seed), rows, codes, sizes)
