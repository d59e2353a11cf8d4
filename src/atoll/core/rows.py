"""Rows of numbers as users have them: dense or sparse, in double or in single precision.

A sparse table is never made dense, and rows of single precision are never all made double, unless
their squares need it: what needs dense or double numbers takes a block of rows at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from atoll.core.memory import in_chunks

Array = NDArray[np.float64]

PAIRS_AT_ONCE = 2**22  # numbers of pairs of rows: 32 MiB

ROOMY = 1e15
"""Up to this, and down to its inverse, sums of squares are numbers of single precision."""

COSINE = "cosine"
"""The metric under which rows are compared by their directions, whatever their lengths."""

EUCLIDEAN = "euclidean"
"""The metric under which rows are compared by their distances."""

AUTO = "auto"
"""One of the two, by what the rows are."""


def width(X: Any) -> int:
    """Return how many numbers a row takes, on average, at least one.

    Examples
    --------
    >>> width(np.zeros((2, 3))), width(sparse.csr_array(np.diag([1.0, 2.0, 3.0])))
    (3, 1)
    """
    if sparse.issparse(X):
        return max(1, -(-X.nnz // max(1, X.shape[0])))
    return max(1, int(X.shape[1]))


def n_varying_columns(X: Any) -> int:
    """Return how many columns are not constant.

    Examples
    --------
    >>> n_varying_columns(np.array([[1.0, 2.0, 0.0], [1.0, 3.0, 4.0]]))
    2
    >>> n_varying_columns(sparse.csr_array(np.array([[1.0, 2.0, 0.0], [1.0, 3.0, 4.0]])))
    2
    """
    if not X.shape[0]:
        return 0
    largest, smallest = X.max(axis=0), X.min(axis=0)
    if sparse.issparse(X):
        largest, smallest = largest.toarray(), smallest.toarray()
    return int(np.count_nonzero(largest != smallest))


def has_direction(X: Any) -> NDArray[np.bool_]:
    """Return which rows are not all zeros, (n,).

    Examples
    --------
    >>> has_direction(np.array([[0.0, 2.0], [0.0, 0.0]]))
    array([ True, False])
    """
    if sparse.issparse(X):
        return np.asarray(abs(X).sum(axis=1)).ravel() > 0
    out = np.empty(X.shape[0], bool)
    for piece in in_chunks(X.shape[0], X.shape[1]):
        out[piece] = X[piece].any(axis=1)
    return out


def unit_rows(X: Any) -> Any:
    """Return rows divided by their lengths, in the precision of X; rows of zeros stay so.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    if sparse.issparse(X):
        largest = _positive(abs(X).max(axis=1).toarray())
        out = sparse.csr_array(X, copy=True)
        counts = np.diff(out.indptr)
        out.data /= np.repeat(largest, counts)
        out.data /= np.repeat(_positive(np.sqrt(row_squares(out))), counts)
        return out
    out = np.empty_like(X)
    for piece in in_chunks(X.shape[0], X.shape[1]):
        rows = np.asarray(X[piece], dtype=np.float64)
        rows = rows / _positive(np.abs(rows).max(axis=1, initial=0.0))[:, None]
        out[piece] = rows / _positive(np.linalg.norm(rows, axis=1))[:, None]
    return out


def rescaled(X: Any, shift: Array, scale: Array, metric: str = "euclidean") -> Any:
    """Return rows less a shift, in units of a scale; under "cosine" of length one.

    Parameters
    ----------
    X : (n, d); sparse rows are not shifted, and have one unit
    shift, scale : (d,)
    """
    if metric == COSINE:
        return unit_rows(X)
    if sparse.issparse(X):
        return X if scale[0] == 1.0 else X / scale[0]
    return (X - shift) / scale


def rescaled_alike(X: Any, shift: Array, scale: Array) -> Any:
    """Return dense rows less a shift, in units of a scale, in the precision of X."""
    out = np.empty_like(X)
    for piece in in_chunks(X.shape[0], X.shape[1]):
        out[piece] = (X[piece] - shift) / scale
    return out


def mean_and_deviation(X: Any) -> tuple[Array, Array]:
    """Return mean and standard deviation of the columns of dense rows, (d,) each."""
    if X.dtype != np.float32:
        return X.mean(axis=0), X.std(axis=0)
    mean, squares = X.mean(axis=0, dtype=np.float64), np.zeros(X.shape[1])
    for piece in in_chunks(X.shape[0], X.shape[1]):
        squares += row_squares((X[piece] - mean).T)
    return mean, np.sqrt(squares / X.shape[0])


def clipped(X: Any, farthest: float) -> Any:
    """Return rows whose numbers are clipped to ±`farthest`; dense rows become double precision."""
    if not sparse.issparse(X):
        return np.clip(np.asarray(X, dtype=np.float64), -farthest, farthest)
    # As a Python float: NumPy would cast the limit to single precision before comparing.
    if float(np.abs(X.data).max(initial=0.0)) <= farthest:
        return X
    out = X.copy()
    np.clip(out.data, -farthest, farthest, out=out.data)
    return out


def with_room(X: Any) -> Any:
    """Return rows in double precision if squares would leave the numbers of single precision.

    Examples
    --------
    >>> rows = np.array([[1.0], [2.0]], np.float32)
    >>> [with_room(rows * np.float32(size)).dtype.name for size in (1.0, 1e20, 1e-20)]
    ['float32', 'float64', 'float64']
    """
    if X.dtype != np.float32 or 0 in X.shape:
        return X
    if sparse.issparse(X):
        largest = float(np.abs(X.data).max(initial=0.0))
        spread = np.array([largest])
    else:
        low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
        largest, spread = max(high.max(), -low.min()), high - low
    is_room = largest <= ROOMY and not ((spread > 0) & (spread < 1.0 / ROOMY)).any()
    return X if is_room else X.astype(np.float64)


def stacked(first: Any, second: Any) -> Any:
    """Return the rows of one table, and below them those of another."""
    if not second.shape[0]:
        return first
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack([first, second]))
    return np.concatenate([first, second.astype(first.dtype, copy=False)])


def row_squares(X: Any) -> Array:
    """Return the squared lengths of rows, (n,)."""
    if sparse.issparse(X):
        data = X.data.astype(np.float64) ** 2
        squares = sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
        return np.asarray(squares.sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def products(X: Any, Y: Any) -> Array:
    """Return the inner products of rows; X (m, d), Y (s, d), both dense or both sparse -> (m, s).

    Examples
    --------
    >>> products(sparse.csr_array(np.eye(2)), sparse.csr_array(np.ones((1, 2))))
    array([[1.],
           [1.]])
    """
    if not sparse.issparse(X):
        return np.asarray(X, dtype=np.float64) @ np.asarray(Y, dtype=np.float64).T
    across = sparse.csr_array(Y.T)
    out = np.empty((X.shape[0], Y.shape[0]))
    for piece in in_chunks(X.shape[0], Y.shape[0]):
        (X[piece] @ across).astype(np.float64).toarray(out=out[piece])
    return out


def squared_distances(X: Any, Y: Any) -> Array:
    """Return the squared distances of rows; X (m, d), Y (s, d) -> (m, s)."""
    if not sparse.issparse(X):
        return cdist(X, Y, "sqeuclidean")
    found = row_squares(X)[:, None] + row_squares(Y) - 2.0 * products(X, Y)
    return np.maximum(found, 0.0)


def distances_of_pairs(X: Any, first: Any, Y: Any, second: Any) -> Array:
    """Return ‖X[first] − Y[second]‖, (p,), from differences, so that it is exactly 0 for copies.

    Parameters
    ----------
    first, second : (p,) rows of X and of Y
    """
    out = np.empty(len(first))
    entries = 2 * max(width(X), width(Y))
    for piece in in_chunks(len(first), entries, most=PAIRS_AT_ONCE):
        difference = X[first[piece]] - Y[second[piece]]
        out[piece] = np.sqrt(row_squares(difference))
    return out


def distinct_rows(X: Any) -> tuple[Any, NDArray[np.intp]]:
    """Return the rows that differ, and for every row which of them it is.

    Rows that are not of numbers count as different.

    Examples
    --------
    >>> distinct_rows(np.array([[2.0], [1.0], [2.0]]))
    (array([[1.],
           [2.]]), array([1, 0, 1]))
    """
    if sparse.issparse(X):
        return distinct_sparse_rows(sparse.csr_array(X))
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu":
        return X, np.arange(len(X))
    rows, place = np.unique(X, axis=0, return_inverse=True)
    return rows, place.reshape(-1)


def distinct_sparse_rows(X: sparse.csr_array) -> tuple[sparse.csr_array, NDArray[np.intp]]:
    """Return the distinct sparse rows, in order of first appearance, and each row's place in them.

    Examples
    --------
    >>> rows, place = distinct_sparse_rows(sparse.csr_array(np.array([[2.0], [1.0], [2.0]])))
    >>> rows.toarray().ravel(), place
    (array([2., 1.]), array([0, 1, 0]))
    """
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    seen: dict[bytes, int] = {}
    place = np.empty(X.shape[0], np.intp)
    first: list[int] = []
    for i, (start, end) in enumerate(zip(X.indptr[:-1], X.indptr[1:])):
        key = X.indices[start:end].tobytes() + X.data[start:end].tobytes()
        place[i] = seen.setdefault(key, len(seen))
        if len(seen) > len(first):
            first.append(i)
    return X[np.array(first, np.intp)], place


def _positive(numbers: Array) -> Array:
    return np.where(numbers > 0, numbers, 1.0)
