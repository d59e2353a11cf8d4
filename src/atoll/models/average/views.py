"""Rows as each assumption sees them.

A view turns rows (m, d) into features (m, p); under its assumption a class is a linear function of
them, with independent coefficients of the same variance. Features have a mean square length of
about one, and hold a constant.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist, pdist, squareform

from atoll.core.memory import in_chunks
from atoll.core.rows import COSINE, products, row_squares, squared_distances, unit_rows
from atoll.kernels.graph_spectral import Extension, NearestFound, extend, nearest_rows
from atoll.models.average import spans
from atoll.models.average.spans import SpanPrincipal, SpanView

Array = NDArray[np.float64]

MOST_COLUMNS = 600  # beyond, principal directions are found from a part of the rows
MOST_ROWS = 2000
MOST_DIRECTIONS = 600
N_PERMUTATIONS = 2
LEAST_EIGENVALUE = 1e-10  # relative to the largest: below is rounding
FLOOR = 1e-6  # relative to the largest: directions of less variance are not stretched any further
FARTHEST = 1e100  # projection: squares of it are numbers
N_KNOTS = 128  # values of a column whose ranks are kept, at most
N_DISTANCES = 500  # rows whose distances give the median


class View(Protocol):
    """What rows are to an assumption."""

    def features(self, X: Array) -> Array:
        """Return the features of rows; (m, d) -> (m, p)."""

    def reach(self, features: Array) -> Array:
        """Return how far the labels reach rows of features (m, p): 0 to 1, (m,)."""


class LinearView(NamedTuple):
    """Projections of the rows, and a constant.

    centre : (d,)
    directions : (d, p − 1)
    constant : the last feature
    """

    centre: Array
    directions: Array
    constant: float

    def features(self, X: Array) -> Array:
        """Return the projections of rows; (m, d) -> (m, p)."""
        with np.errstate(over="ignore"):
            projected = (X - self.centre) @ self.directions
        projected = np.clip(projected, -FARTHEST, FARTHEST)
        return np.column_stack([projected, np.full(len(X), self.constant)])

    def reach(self, features: Array) -> Array:
        """Return one: labels reach every row; (m, p) -> (m,)."""
        return np.ones(len(features))


class Place(NamedTuple):
    """Coordinates in which rows are near; fields as those of `GraphView`."""

    centre: Array
    directions: Array
    span: SpanView | None = None
    unit: bool = False

    def __call__(self, X: Any) -> Any:
        """Return the coordinates of rows; (m, d) -> (m, q), or the rows as they are."""
        return unit_rows(self._along(X)) if self.unit else self._along(X)

    def _along(self, X: Any) -> Any:
        if self.span is not None:
            return self.span.project(X)
        if not self.directions.shape[1]:
            return X
        if X.dtype != np.float32:
            return (X - self.centre) @ self.directions
        out = np.empty((len(X), self.directions.shape[1]))
        for piece in in_chunks(*X.shape):  # not all of them in double precision
            out[piece] = (X[piece] - self.centre) @ self.directions
        return out


class GraphView(NamedTuple):
    """Features of the graph's rows, which new rows take from their nearest.

    centre, directions : (d,) and (d, q), the coordinates in which rows are near; no directions,
        (d, 0): the rows themselves
    rows : (n, q) coordinates of the graph's rows
    values : (n, p) their features
    n_nearest : rows that a new row is the mean of
    n_jobs : processors for their search
    span : the coordinates, in the place of directions, where rows are sparse
    unit : whether only the direction of the coordinates counts, not their length
    """

    centre: Array
    directions: Array
    rows: Any
    values: Array
    n_nearest: int
    n_jobs: int | None
    span: SpanView | None = None
    unit: bool = False

    def features(self, X: Any) -> Array:
        """Return the features of rows; (m, d) -> (m, p)."""
        return extend(self.values, self._nearest(X))

    def features_again(
        self, X: Any, found: NearestFound, piece: Hashable, by: tuple[Any, ...]
    ) -> Array:
        """Return the features of rows whose nearest an earlier fit may have found.

        Parameters
        ----------
        X : (m, d)
        found : where the nearest rows are kept
        piece : which rows these are
        by : arrays by which they were chosen and scaled
        """
        if self.span is not None:
            return self.features(X)
        by = (*by, self.rows, self.centre, self.directions)
        key = (piece, self.n_nearest, self.unit)
        return extend(self.values, found.get(key, by, lambda: self._nearest(X)))

    def _nearest(self, X: Any) -> Extension:
        X = Place(self.centre, self.directions, self.span, self.unit)(X)
        return nearest_rows(self.rows, X, self.n_jobs, n_nearest=self.n_nearest)

    def features_as_new(self) -> Array:
        """Return the features of the graph's rows as if they were new: of their nearest others."""
        if len(self.values) < 2:
            return self.values
        nearest = nearest_rows(self.rows, None, self.n_jobs, n_nearest=self.n_nearest)
        return extend(self.values, nearest)

    def reach(self, features: Array) -> Array:
        """Return the share of a row's nearest rows on pieces with a label; (m, p) -> (m,)."""
        return 1.0 - features[:, -2]  # the embedding's mark of rows that no label reaches


class DistanceView(NamedTuple):
    """Features whose products are exp(−d²/2ℓ²) among the landmarks (Nyström), and a constant.

    landmarks : (r, d)
    length : ℓ
    transform : (r, p − 1)
    constant : the last feature
    """

    landmarks: Any
    length: float
    transform: Array
    constant: float

    def features(self, X: Array) -> Array:
        """Return the features of rows; (m, d) -> (m, p)."""
        near = _gaussian(X, self.landmarks, self.length) @ self.transform
        return np.column_stack([near, np.full(len(near), self.constant)])

    def reach(self, features: Array) -> Array:
        """Return one: labels reach every row; (m, p) -> (m,)."""
        return np.ones(len(features))

    def over(self, share: float) -> DistanceView:
        """Return functions that vary over a share of the length; the landmarks stay."""
        length = share * self.length
        transform = _nystrom(_gaussian(self.landmarks, self.landmarks, length))
        return self._replace(length=length, transform=transform)


class DirectionView(NamedTuple):
    """Features whose products are those of the rows themselves, and a constant.

    What rows have beyond the span of the landmarks is one more feature, which no label tells of.

    landmarks : (r, d)
    transform : (r, q)
    constant : the last feature
    """

    landmarks: Any
    transform: Array
    constant: float

    def features(self, X: Any) -> Array:
        """Return the features of rows; (m, d) -> (m, q + 2)."""
        within = products(X, self.landmarks) @ self.transform
        beyond = np.sqrt(np.maximum(row_squares(X) - row_squares(within), 0.0))
        return np.column_stack([within, beyond, np.full(len(within), self.constant)])

    def reach(self, features: Array) -> Array:
        """Return one: labels reach every row; (m, p) -> (m,)."""
        return np.ones(len(features))


class SignalView(NamedTuple):
    """The direction of each row's signal, and a constant.

    place : coordinates of the signal
    constant : the last feature
    """

    place: Place
    constant: float

    def features(self, X: Any) -> Array:
        """Return the features of rows; (m, d) -> (m, p)."""
        return np.column_stack([self.place(X), np.full(X.shape[0], self.constant)])

    def reach(self, features: Array) -> Array:
        """Return one: labels reach every row; (m, p) -> (m,)."""
        return np.ones(len(features))


class ColumnsView(NamedTuple):
    """Features of a sum over columns, each of which is read by its ranks, and a constant.

    Their products are, among the landmarks, the mean over columns of 1 − |r − r′| of the ranks r in
    [0, 1], less its mean (Nyström).

    knots, ranks : (q, c) values of each column, rising, and their ranks; between them ranks are
        interpolated
    landmarks : (r, c) ranks
    transform, offset : (r, p − 1) and (p − 1,)
    constant : the last feature
    which : (c,) columns of the rows; None: all of them
    """

    knots: Array
    ranks: Array
    landmarks: Array
    transform: Array
    offset: Array
    constant: float
    which: NDArray[np.intp] | None = None

    def features(self, X: Array) -> Array:
        """Return the features of rows; (m, d) -> (m, p)."""
        ranked = ranks_of(X if self.which is None else X[:, self.which], self.knots, self.ranks)
        near = _shared_ranks(ranked, self.landmarks) @ self.transform - self.offset
        return np.column_stack([near, np.full(len(X), self.constant)])

    def reach(self, features: Array) -> Array:
        """Return one: labels reach every row; (m, p) -> (m,)."""
        return np.ones(len(features))


class Principal(NamedTuple):
    """Principal directions of rows.

    centre : (d,)
    directions : (d, r), the first of the largest variance
    variances : (r,)
    n_signal : how many of them exceed those of columns that were permuted independently
    """

    centre: Array
    directions: Array
    variances: Array
    n_signal: int

    def linear(self, scale: Array, constant: float) -> LinearView:
        """Return the first directions, multiplied by a scale (q,), as a view."""
        return LinearView(self.centre, self.directions[:, : len(scale)] * scale, constant)


def principal(X: Any) -> Principal | SpanPrincipal:
    """Find the principal directions, and which of them are signal (parallel analysis, Horn 1965).

    Where columns are many, a part of the rows stands for all. The permutations have a seed of their
    own: they depend on nothing but the rows.
    """
    if sparse.issparse(X):
        return spans.principal(X)
    rng = np.random.default_rng(0)
    if X.shape[1] > MOST_COLUMNS and len(X) > MOST_ROWS:
        X = X[np.sort(rng.choice(len(X), MOST_ROWS, replace=False))]
    centre = X.mean(axis=0, dtype=np.float64)
    if X.dtype == np.float32 and len(X) > MOST_ROWS:  # not all of them in double precision
        variances, directions = _eigen_in_blocks(X, centre)
        part, is_part = X[rng.choice(len(X), MOST_ROWS, replace=False)] - centre, True
    else:
        Z = X - centre
        variances, directions = _eigen(Z)
        is_part = len(Z) > MOST_ROWS
        part = Z[rng.choice(len(Z), MOST_ROWS, replace=False)] if is_part else Z
    seen = _variances(part)[: len(variances)] if is_part else variances
    noise = np.zeros(len(seen))
    for _ in range(N_PERMUTATIONS):
        mixed = rng.permuted(part, axis=0)
        found = _variances(mixed - mixed.mean(axis=0))[: len(seen)]
        noise[: len(found)] = np.maximum(noise[: len(found)], found)
    below = np.flatnonzero(seen <= noise)
    n_signal = int(below[0]) if len(below) else len(seen)
    return Principal(centre, directions, variances, max(1, n_signal))


def _eigen(Z: Array) -> tuple[Array, Array]:
    """Return the variances and directions of centred rows, the largest first; (r,), (d, r)."""
    n, d = Z.shape
    wide = d > n
    values, vectors = _largest(Z @ Z.T if wide else Z.T @ Z)
    if wide:
        vectors = Z.T @ vectors / np.sqrt(values)
    return values / n, vectors


def _variances(Z: Array) -> Array:
    """Return the variances of centred rows along their principal directions, the largest first."""
    n, d = Z.shape
    if d <= MOST_COLUMNS:
        return _eigen(Z)[0]
    values = np.linalg.eigvalsh(Z @ Z.T if d > n else Z.T @ Z)[::-1]
    return values[values > LEAST_EIGENVALUE * max(values[0], 1e-300)][:MOST_DIRECTIONS] / n


def _eigen_in_blocks(X: Any, centre: Array) -> tuple[Array, Array]:
    """Return the same of many rows of single precision, of which a block at a time is doubled."""
    n, d = X.shape
    scatter = np.zeros((d, d))
    for piece in in_chunks(n, d):
        Z = X[piece] - centre
        scatter += Z.T @ Z
    values, vectors = _largest(scatter)
    return values / n, vectors


def _largest(gram: Array) -> tuple[Array, Array]:
    """Return the eigenvalues that are not rounding, the largest first, and their vectors."""
    values, vectors = np.linalg.eigh(gram)
    kept = np.flatnonzero(values > LEAST_EIGENVALUE * max(values[-1], 1e-300))[::-1]
    kept = kept[:MOST_DIRECTIONS]
    return values[kept], vectors[:, kept]


def place_of_rows(d: int) -> Place:
    """Return d columns as they are."""
    return Place(np.zeros(d), np.zeros((d, 0)))


def place_of_signal(found: Principal | SpanPrincipal, metric: str) -> Place:
    """Return the coordinates of the signal; under "cosine" only their direction counts."""
    unit = metric == COSINE
    if isinstance(found, SpanPrincipal):
        span = found.linear(np.ones(found.n_signal), 1.0)
        return Place(np.zeros(0), np.zeros((0, 0)), span, unit)
    return Place(found.centre, found.directions[:, : found.n_signal], None, unit)


def line(found: Principal | SpanPrincipal, constant: float) -> LinearView | SpanView:
    """Return all directions, each divided by the fourth root of its variance.

    Half-way between the rows as they are and whitened rows: a direction of little variance may
    matter, and one of none cannot.
    """
    floor = np.maximum(found.variances, FLOOR * found.variances.max(initial=0.0))
    scale = floor**-0.25
    length = np.sqrt(np.sum(found.variances * scale**2))
    return found.linear(scale / length, constant)


def whitened(found: Principal | SpanPrincipal, constant: float) -> LinearView | SpanView:
    """Return the directions of the signal, all with the same variance."""
    q = found.n_signal
    scale = 1.0 / np.sqrt(q * found.variances[:q])
    return found.linear(scale, constant)


def smooth(X: Any, labelled: NDArray[np.intp], n_landmarks: int, constant: float) -> DistanceView:
    """Return functions that vary over the median distance; landmarks are labelled rows and others.

    Parameters
    ----------
    labelled : (l,) rows of X
    """
    rng = np.random.default_rng(0)
    n = X.shape[0]
    some = X[rng.permutation(n)[:N_DISTANCES]]
    distances = _distances(some)
    length = float(np.median(distances)) if len(distances) else 1.0
    length = length if length > 0 else max(float(distances.mean()), 1.0)
    landmarks = X[_landmarks(rng, n, labelled, n_landmarks)]
    transform = _nystrom(_gaussian(landmarks, landmarks, length))
    return DistanceView(landmarks, length, transform, constant)


class Ranked(NamedTuple):
    """Columns read by their ranks.

    Ranks are the same in any unit of a column and after any rising function of it; a column of few
    values weighs no more than others.

    knots, ranks : (q, d) as in `ColumnsView`
    landmarks : (r, d) ranks of rows that stand for all; the first have labels
    some : (m, d) ranks of rows by which features are centred and scaled
    labelled : (l, d) ranks of the labelled rows
    """

    knots: Array
    ranks: Array
    landmarks: Array
    some: Array
    labelled: Array

    def sum_over(self, constant: float, which: NDArray[np.intp] | None = None) -> ColumnsView:
        """Return sums over columns, each a function of its ranks.

        Parameters
        ----------
        constant : the last feature
        which : (c,) the columns; None: all of them
        """
        chosen = slice(None) if which is None else which
        landmarks = self.landmarks[:, chosen]
        transform = _nystrom(_shared_ranks(landmarks, landmarks))
        some = _shared_ranks(self.some[:, chosen], landmarks) @ transform
        offset = some.mean(axis=0)
        length = np.sqrt(np.mean(np.sum((some - offset) ** 2, axis=1)))
        length = length if length > 0 else 1.0
        knots, ranks = self.knots[:, chosen], self.ranks[:, chosen]
        return ColumnsView(
            knots, ranks, landmarks, transform / length, offset / length, constant, which
        )


def ranked(X: Array, copies: Array, labelled: NDArray[np.intp], n_landmarks: int) -> Ranked:
    """Read columns by their ranks; landmarks as in `smooth`.

    Parameters
    ----------
    X : (n + e, d)
    copies : (n,) how many rows each of the first stands for; ranks are among them
    labelled : (l,) rows of X
    """
    rng = np.random.default_rng(0)
    found = [_ranks(column, copies) for column in X[: len(copies)].T]
    knots, ranks = (np.stack(part, axis=1) for part in zip(*found))
    landmarks = ranks_of(X[_landmarks(rng, len(X), labelled, n_landmarks)], knots, ranks)
    some = ranks_of(X[rng.permutation(len(X))[:MOST_ROWS]], knots, ranks)
    return Ranked(knots, ranks, landmarks, some, ranks_of(X[labelled], knots, ranks))


def ranks_of(X: Array, knots: Array, ranks: Array) -> Array:
    """Return ranks in [0, 1] of rows in every column; (m, d) -> (m, d).

    Parameters
    ----------
    knots, ranks : (q, d) values of each column, rising, and their ranks
    """
    out = np.empty(X.shape)
    for j in range(X.shape[1]):
        out[:, j] = np.interp(X[:, j], knots[:, j], ranks[:, j])
    return out


def _ranks(column: Array, copies: Array) -> tuple[Array, Array]:
    """Return some values of a column, rising, and the share of rows below each; both (q,).

    Half of the rows of the same value count as below.
    """
    values, which = np.unique(column, return_inverse=True)
    counts = np.bincount(which.reshape(-1), weights=copies)
    shares = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
    if len(values) > N_KNOTS:
        kept = np.searchsorted(shares, np.linspace(shares[0], shares[-1], N_KNOTS))
        values, shares = values[kept], shares[kept]
    missing = (0, N_KNOTS - len(values))
    return np.pad(values, missing, mode="edge"), np.pad(shares, missing, mode="edge")


def _shared_ranks(first: Array, second: Array) -> Array:
    """Return the mean over columns of 1 − |r − r′|; (m, d), (r, d) -> (m, r)."""
    return 1.0 - cdist(first, second, "cityblock") / first.shape[1]


def _landmarks(
    rng: np.random.Generator, n: int, labelled: NDArray[np.intp], n_landmarks: int
) -> NDArray[np.intp]:
    """Choose labelled rows, as many as there are landmarks, and then others."""
    chosen = labelled[rng.permutation(len(labelled))[:n_landmarks]]
    others = np.setdiff1d(np.arange(n), labelled)
    more = rng.permutation(others)[: n_landmarks - len(chosen)]
    return np.concatenate([chosen, more])


def _nystrom(gram: Array) -> Array:
    """Return the matrix that turns products with landmarks into features; (r, r) -> (r, p)."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-9 * values[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def directions(
    X: Any, labelled: NDArray[np.intp], n_landmarks: int, constant: float
) -> DirectionView:
    """Return the rows themselves, of length one, by their products with labelled rows and others.

    Parameters
    ----------
    labelled : (l,) rows of X
    """
    rng = np.random.default_rng(0)
    landmarks = X[_landmarks(rng, X.shape[0], labelled, n_landmarks)]
    return DirectionView(landmarks, _nystrom(products(landmarks, landmarks)), constant)


def _distances(X: Any) -> Array:
    """Return the distances of all pairs of rows."""
    if not sparse.issparse(X):
        return pdist(X)
    found = np.sqrt(squared_distances(X, X))
    return squareform(found, checks=False)


def _gaussian(X: Any, landmarks: Any, length: float) -> Array:
    with np.errstate(over="ignore"):  # infinitely far: exp(−∞) is zero
        return np.exp(-0.5 * squared_distances(X, landmarks) / length**2)
