"""Kernels on the smoothest functions of the data's graph, continued to rows that are not on it.

With (λ_j, u_j) the modes of the normalised Laplacian of a nearest-neighbour graph, and a weight
s(λ) that falls with λ, a function on the graph is f = Σ_j √s(λ_j) u_j a_j, a_j ~ N(0, 1). Its
covariance, scaled to unit variance at every row, is V Vᵀ with rows of length one,

    V_ij = √s(λ_j) u_ij / √(Σ_j s(λ_j) u_ij²),

called an embedding here. Three weights:

    matern      (λ + κ)^−ν            Borovitskiy et al. 2021
    diffusion   exp(−λ/κ)             Kondor & Lafferty 2002
    low_pass    1 / (1 + (λ/κ)^ν)

A new row's embedding is the mean of those of its nearest rows on the graph, weighted by distance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from atoll.core.graphs import (
    Modes,
    connected_components,
    nearest,
    neighbour_graph,
    self_tuning_weights,
    smoothest_modes,
)
from atoll.core.memory import in_chunks
from atoll.core.rows import distances_of_pairs

Array = NDArray[np.float64]

SHAPES = ("matern", "diffusion", "low_pass")
EXTENSION_NEIGHBOURS = 10
SHARPNESS = 4.0  # of the weights of a new row's neighbours, as on the graph's edges
SAME_PLACE = 1e-9  # of the way to a row's furthest neighbour: rows nearer than that are the same
LEAST_PULL = 0.2  # of 1 − λ: modes as rough as that have hardly any weight
FAR_IN_SINGLE = 1e15  # squares of rows farther away may leave the numbers of single precision


def spectral_weights(values: Array, shape: str, scale: float, smoothness: float) -> Array:
    """Return s(λ), (m,), relative to its largest; κ is `scale`, ν `smoothness`.

    Examples
    --------
    >>> spectral_weights(np.array([0.0, 1.0]), "matern", 1.0, 3.0)
    array([1.   , 0.125])
    """
    if shape == "matern":
        lowest = values.min(initial=np.inf)
        return ((values + scale) / (lowest + scale)) ** -smoothness
    if shape == "diffusion":
        return np.exp(-(values - values.min(initial=np.inf)) / scale)
    if shape == "low_pass":
        return 1.0 / (1.0 + (values / scale) ** smoothness)
    raise ValueError(f"shape={shape!r} is unknown; give one of {', '.join(map(repr, SHAPES))}.")


def embedding(modes: Modes, weights: Array) -> Array:
    """Return V, (n, m + 1), with rows of length one.

    Its last column is one at rows that the modes do not reach, such as those of a part of the
    graph that was left out, and zero elsewhere: they vary with each other, and with no other row.
    """
    V = modes.vectors * np.sqrt(weights)
    lengths = np.linalg.norm(V, axis=1)
    reached = lengths > 1e-150
    V /= np.where(reached, lengths, 1.0)[:, None]
    V[~reached] = 0.0
    return np.column_stack([V, ~reached])


def graph_modes(weights: Any, n_modes: int, rows: NDArray[np.bool_] | None = None) -> Modes:
    """Return the modes of the parts of a graph that hold any of `rows` (all parts by default).

    On the other parts modes are zero: whatever is known of `rows` says nothing there.
    """
    _, part = connected_components(weights)
    is_used = np.ones(len(part), bool) if rows is None else np.isin(part, part[rows])
    return modes_of_part(weights, n_modes, is_used)


def modes_of_part(weights: Any, n_modes: int, is_used: NDArray[np.bool_]) -> Modes:
    """Return the modes of a part of a graph that no edge leaves; they are zero on the others.

    Parameters
    ----------
    weights : (n, n)
    is_used : (n,) which rows the part has
    """
    used = np.flatnonzero(is_used)
    W = sparse.csr_array(weights)[used][:, used]
    modes = smoothest_modes(W, n_modes)
    vectors = np.zeros((len(is_used), modes.vectors.shape[1]))
    vectors[used] = modes.vectors
    return Modes(modes.values, vectors)


MOST_FOUND = 2**24
"""Most nearest rows that are kept for later fits."""


class Extension(NamedTuple):
    """Which rows of a graph stand for a new row, (m, k), and with what weights, (m, k)."""

    indices: NDArray[np.intp]
    weights: Array


def extension_weights(distances: Array) -> Array:
    """Return the weights of new rows' neighbours, which sum to one; distances (m, k), sorted.

    exp(−4 d²/d_k²), the graph's own fall-off; a row that lies on rows of the graph, but for
    rounding, is those rows.
    """
    furthest = distances[:, -1:]
    relative = np.divide(distances, furthest, out=np.zeros_like(distances), where=furthest > 0)
    q = np.exp(-SHARPNESS * relative**2)
    here = relative <= SAME_PLACE
    q = np.where(here.any(axis=1, keepdims=True), here, q)
    return q / q.sum(axis=1, keepdims=True)


class NearestFound:
    """The nearest rows that earlier fits to the same rows found, a piece of the rows at a time.

    As many are kept as take a quarter of a gigabyte.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[tuple[Any, ...], Extension]] = {}
        self._n_kept = 0

    def get(self, piece: Hashable, by: tuple[Any, ...], find: Callable[[], Extension]) -> Extension:
        """Return what was found for a piece by the same arrays, or find it.

        Examples
        --------
        >>> found, rows = NearestFound(), np.zeros((2, 1))
        >>> first = found.get("piece", (rows,), lambda: nearest_rows(rows, rows))
        >>> found.get("piece", (rows.copy(),), lambda: nearest_rows(rows, rows)) is first
        True
        >>> found.get("piece", (rows + 1.0,), lambda: nearest_rows(rows, rows)) is first
        False
        """
        if piece in self._kept:
            of_before, found = self._kept[piece]
            if all(map(_same, of_before, by)):
                return found
            self._n_kept -= self._kept.pop(piece)[1].indices.size
        found = find()
        if self._n_kept + found.indices.size <= MOST_FOUND:
            self._kept[piece] = by, found
            self._n_kept += found.indices.size
        return found


def _same(one: Any, other: Any) -> bool:
    return one is other or (not sparse.issparse(one) and np.array_equal(one, other))


def nearest_rows(
    rows: Any, X: Any, n_jobs: int | None = None, *, n_nearest: int = EXTENSION_NEIGHBOURS
) -> Extension:
    """Return the rows of the graph nearest to each row of X, both dense or both sparse.

    X is None for the rows themselves, each of which then has others only.
    """
    k = min(n_nearest, rows.shape[0] - (X is None))
    if sparse.issparse(rows):
        return _nearest_sparse_rows(rows, X, k)
    centre = rows.mean(axis=0)  # ‖a − b‖² is expanded in many dimensions, and loses digits
    if X is None:
        return _nearest_dense_rows(rows, rows, nearest(rows - centre, None, k, n_jobs=n_jobs))
    if rows.dtype == np.float32 and np.abs(X).max(initial=0.0) > FAR_IN_SINGLE:
        X = np.clip(X, -FAR_IN_SINGLE, FAR_IN_SINGLE)  # as far as can be: squares stay numbers
    X = X.astype(rows.dtype, copy=False)
    return _nearest_dense_rows(rows, X, nearest(rows - centre, X - centre, k, n_jobs=n_jobs))


def _nearest_dense_rows(rows: Any, X: Any, indices: NDArray[np.intp]) -> Extension:
    distances = np.empty(indices.shape)
    for piece in in_chunks(len(X), indices.shape[1] * X.shape[1]):  # anew: copies at exactly zero
        distances[piece] = _lengths(X[piece, None] - rows[indices[piece]])
    return _nearest_first(indices, distances)


def _nearest_sparse_rows(rows: Any, X: Any, k: int) -> Extension:
    indices = nearest(rows, X, k)
    X = rows if X is None else X
    first = np.repeat(np.arange(X.shape[0]), k)
    distances = distances_of_pairs(X, first, rows, indices.ravel())
    return _nearest_first(indices, distances.reshape(indices.shape))


def nearest_by_distance(D: Array, *, n_nearest: int = EXTENSION_NEIGHBOURS) -> Extension:
    """Return the rows of the graph nearest to each new row, by its distances to them (m, n)."""
    k = min(n_nearest, D.shape[1])
    indices = np.argpartition(D, k - 1, axis=1)[:, :k]
    return _nearest_first(indices, np.take_along_axis(D, indices, axis=1))


def _nearest_first(indices: NDArray[np.intp], distances: Array) -> Extension:
    order = np.argsort(distances, axis=1)
    indices = np.take_along_axis(indices, order, axis=1)
    return Extension(indices, extension_weights(np.take_along_axis(distances, order, axis=1)))


def _lengths(differences: Array) -> Array:
    """Return ‖·‖ over the last axis, however large: squares may overflow, lengths do not."""
    largest = np.abs(differences).max(axis=-1, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)
    return scale * np.linalg.norm(differences / scale[..., None], axis=-1)


def extend(values: Array, extension: Extension) -> Array:
    """Return Σ_k w_mk values[i_mk]: values (n, p) at the rows of the graph -> (m, p)."""
    m, k = extension.indices.shape
    n = len(values)
    starts = np.arange(0, m * k + 1, k)
    mixing = sparse.csr_array(
        (extension.weights.ravel(), extension.indices.ravel(), starts), shape=(m, n)
    )
    return mixing @ values


def extend_to_own_rows(
    modes: Modes, weights: Array, graph: sparse.csr_array, extension: Extension
) -> Array:
    """Return V of the graph's rows as if they were new ones, (n, m + 1).

    As `extend(embedding(modes, weights), extension)`, less what a new row would not have: every
    row has drawn those near it towards itself. In a mode of the normalised Laplacian
    (1 − λ) u_j = Σ_k S_jk u_k with S_jk = W_jk/√(d_j d_k), and S_ji u_i of the sum is row i's own.
    Its nearest others are taken without: u_j − S_ji u_i/(1 − λ), to first order.

    Parameters
    ----------
    modes : of the graph, n rows and m modes
    weights : (m,) of the modes
    graph : (n, n) weights of the edges
    extension : each row's nearest others
    """
    U, V = modes.vectors * np.sqrt(weights), embedding(modes, weights)
    n, k = extension.indices.shape
    root = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    root[root == 0] = 1.0  # of a row without an edge
    own = U / np.maximum(1.0 - modes.values, LEAST_PULL)
    out = np.empty_like(V)
    for piece in in_chunks(n, k * V.shape[1]):
        near, rows = extension.indices[piece], np.arange(n)[piece]
        edges = np.asarray(graph[near.ravel(), np.repeat(rows, k)]).reshape(near.shape)
        pull = edges / (root[near] * root[rows, None])
        without = U[near] - pull[:, :, None] * own[piece, None]
        lengths = np.linalg.norm(without, axis=2)
        is_left = lengths > 1e-150
        found = V[near]
        found[is_left, :-1] = without[is_left] / lengths[is_left, None]
        out[piece] = np.einsum("ik,ikm->im", extension.weights[piece], found)
    return out


class SpectralGraph:
    """The rows of the data and the modes of their nearest-neighbour graph.

    It never changes, so that copies and clones of a kernel share it; equal contents are equal.

    Parameters
    ----------
    rows : (n, d)
    modes : Modes of n rows

    Examples
    --------
    >>> graph = SpectralGraph.from_rows(np.array([[0.0], [0.1], [3.0], [3.1]]), n_neighbors=1)
    >>> graph.modes.values.round(6) + 0.0
    array([0., 2., 2.])
    """

    def __init__(self, rows: Array, modes: Modes):
        self.rows = rows
        self.modes = modes

    @classmethod
    def from_rows(cls, X: Any, *, n_neighbors: int = 15, n_modes: int = 64) -> SpectralGraph:
        """Join every row of X to its nearest ones, and find the smoothest modes."""
        rows = np.asarray(X, dtype=np.float64)
        graph = neighbour_graph(rows, min(n_neighbors, len(rows) - 1))
        return cls(rows, graph_modes(self_tuning_weights(graph), n_modes))

    def digest(self) -> str:
        """Return what tells one graph from another."""
        content = hashlib.sha256(np.ascontiguousarray(self.rows).tobytes())
        content.update(self.modes.values.tobytes())
        return content.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpectralGraph) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        return f"SpectralGraph({len(self.rows)} rows, {len(self.modes.values)} modes)"


class SpectralGraphKernel(Kernel):
    """A scikit-learn kernel of unit variance on a graph of rows, for any row.

    Parameters
    ----------
    graph : SpectralGraph
    shape : "matern", "diffusion" or "low_pass"
    scale : float
        κ, in units of the Laplacian's eigenvalues; free, on a logarithmic scale.
    smoothness : float
        ν.
    scale_bounds : pair of floats or "fixed"

    Examples
    --------
    >>> graph = SpectralGraph.from_rows(np.array([[0.0], [1.0], [2.0], [3.0]]), n_neighbors=2)
    >>> kernel = SpectralGraphKernel(graph, scale=0.5)
    >>> kernel(graph.rows).shape, kernel(np.array([[0.5]]), graph.rows).shape
    ((4, 4), (1, 4))
    """

    def __init__(
        self,
        graph: SpectralGraph,
        shape: str = "matern",
        scale: float = 0.1,
        smoothness: float = 3.0,
        scale_bounds: Any = (1e-8, 10.0),
    ):
        self.graph = graph
        self.shape = shape
        self.scale = scale
        self.smoothness = smoothness
        self.scale_bounds = scale_bounds

    @property
    def hyperparameter_scale(self) -> Hyperparameter:
        return Hyperparameter("scale", "numeric", self.scale_bounds)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        V = self._at(X, self._embedding())
        K = V @ (V if Y is None else self._at(Y, self._embedding())).T
        if not eval_gradient:
            return K
        if Y is not None:
            raise ValueError("the gradient is that of K(X, X); leave Y out.")
        if self.hyperparameter_scale.fixed:
            return K, np.empty((*K.shape, 0))
        slope = self._at(X, self._embedding_slope()) @ V.T
        return K, (slope + slope.T)[..., None]

    def diag(self, X: Any) -> Array:
        return np.einsum("ij,ij->i", *[self._at(X, self._embedding())] * 2)

    def is_stationary(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"SpectralGraphKernel({self.graph!r}, {self.shape!r}, scale={self.scale:.3g})"

    def _embedding(self) -> Array:
        values = self.graph.modes.values
        return embedding(
            self.graph.modes, spectral_weights(values, self.shape, self.scale, self.smoothness)
        )

    def _embedding_slope(self) -> Array:
        """Return ∂V/∂ log κ, (n, m + 1)."""
        values, kappa, nu = self.graph.modes.values, self.scale, self.smoothness
        if self.shape == "matern":  # of ½ log s, up to what all modes share
            half = -0.5 * nu * kappa / (values + kappa)
        elif self.shape == "diffusion":
            half = 0.5 * values / kappa
        else:
            ratio = (values / kappa) ** nu
            half = 0.5 * nu * ratio / (1.0 + ratio)
        V = self._embedding()
        V[:, -1] = 0.0
        V[:, :-1] *= half - (V[:, :-1] ** 2 @ half)[:, None]
        return V

    def _at(self, X: Any, values: Array) -> Array:
        X = np.asarray(X, dtype=np.float64)
        if X is self.graph.rows or np.array_equal(X, self.graph.rows):
            return values
        return extend(values, nearest_rows(self.graph.rows, X))
