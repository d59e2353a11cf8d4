"""Principal directions of sparse rows, told by the rows that span them.

A direction of d columns would be dense. In the span of s rows x_1, …, x_s it is Σ_i t_i x_i, and a
row's place along it needs no more than the row's inner products with these, which are sparse sums.
Columns may then be as many as they like: memory is that of s rows and s numbers a direction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from atoll.core.linalg import eigenvectors
from atoll.core.memory import in_chunks
from atoll.core.rows import products

Array = NDArray[np.float64]

MOST_ROWS = 1500  # that span the directions
MOST_DIRECTIONS = 600
N_PERMUTATIONS = 2
LEAST_EIGENVALUE = 1e-10  # relative to the largest: below is rounding
MANY = 0.05  # share of rows with a number in a column, from which it is permuted whole


class SpanView(NamedTuple):
    """Projections of sparse rows on directions that some rows span, and a constant.

    rows : (s, d) sparse
    offset : (s,) their inner products with the centre
    transform : (s, p − 1) the directions, as sums of these rows
    constant : the last feature
    """

    rows: Any
    offset: Array
    transform: Array
    constant: float

    def project(self, X: Any) -> Array:
        """Return where rows are along the directions; (m, d) sparse -> (m, p − 1)."""
        out = np.empty((X.shape[0], self.transform.shape[1]))
        for piece in in_chunks(X.shape[0], self.rows.shape[0]):
            out[piece] = (products(X[piece], self.rows) - self.offset) @ self.transform
        return out

    def features(self, X: Any) -> Array:
        """Return the projections of rows, and the constant; (m, d) sparse -> (m, p)."""
        return np.column_stack([self.project(X), np.full(X.shape[0], self.constant)])

    def reach(self, features: Array) -> Array:
        """Return one: labels reach every row; (m, p) -> (m,)."""
        return np.ones(len(features))


class SpanPrincipal(NamedTuple):
    """Principal directions of sparse rows, in the span of some of them.

    rows : (s, d) sparse
    offset : (s,) their inner products with their mean
    transform : (s, r) directions of length one, the first of the largest variance
    variances : (r,)
    n_signal : how many of them exceed those of columns that were permuted independently
    """

    rows: Any
    offset: Array
    transform: Array
    variances: Array
    n_signal: int

    def linear(self, scale: Array, constant: float) -> SpanView:
        """Return the first directions, multiplied by a scale (q,), as a view."""
        transform = self.transform[:, : len(scale)] * scale
        return SpanView(self.rows, self.offset, transform, constant)


def principal(X: Any) -> SpanPrincipal:
    """Find the principal directions of sparse rows, and which of them are signal.

    As `views.principal` does for dense ones: of many rows a part stands for all, and the signal is
    what exceeds the directions of columns that were permuted independently (Horn 1965).
    """
    rng = np.random.default_rng(0)
    n = X.shape[0]
    rows = X if n <= MOST_ROWS else X[np.sort(rng.choice(n, MOST_ROWS, replace=False))]
    gram, offset = _centred(rows)
    values, vectors = _eigen(gram)
    noise = np.zeros(len(values))
    for _ in range(N_PERMUTATIONS):
        mixed, _ = _centred(permuted_columns(rng, rows))
        noise = np.maximum(noise, _largest_values(mixed, len(values)))
    below = np.flatnonzero(values <= noise)
    n_signal = int(below[0]) if len(below) else len(values)
    transform = vectors / np.sqrt(values)
    return SpanPrincipal(rows, offset, transform, values / rows.shape[0], max(1, n_signal))


def _centred(rows: Any) -> tuple[Array, Array]:
    """Return inner products of rows less their mean, (s, s), and of rows with their mean, (s,)."""
    gram = products(rows, rows)
    offset = gram.mean(axis=1)
    mean = float(offset.mean())
    gram -= offset
    gram -= offset[:, None]
    gram += mean
    return gram, offset


def _eigen(gram: Array) -> tuple[Array, Array]:
    """Return eigenvalues and vectors, the largest first; (s, s) -> (r,), (s, r)."""
    n = len(gram)
    values, vectors = eigenvectors(gram, max(0, n - MOST_DIRECTIONS), n - 1)
    kept = np.flatnonzero(values > LEAST_EIGENVALUE * max(values[-1], 1e-300))[::-1]
    return values[kept], vectors[:, kept]


def _largest_values(gram: Array, count: int) -> Array:
    n = len(gram)
    return linalg.eigvalsh(gram, subset_by_index=(n - count, n - 1))[::-1] if count else np.zeros(0)


def permuted_columns(rng: np.random.Generator, X: Any) -> sparse.csr_array:
    """Return sparse rows whose columns were each permuted, independently of the others."""
    X = sparse.csc_array(X)
    n, counts = X.shape[0], np.diff(X.indptr)
    rows = rng.integers(n, size=X.nnz)
    many = counts > max(MANY * n, 1)
    column = np.repeat(np.arange(X.shape[1]), counts)
    for j in np.flatnonzero(many):
        rows[X.indptr[j] : X.indptr[j + 1]] = rng.permutation(n)[: counts[j]]
    while True:  # few numbers in a column hardly meet; those that do are drawn anew
        order = np.lexsort([rows, column])
        again = (np.diff(rows[order]) == 0) & (np.diff(column[order]) == 0)
        met = np.isin(column, column[order][1:][again])
        if not met.any():
            return sparse.csr_array((X.data, (rows, column)), shape=X.shape)
        rows[met] = rng.integers(n, size=int(met.sum()))
