"""Nearest-neighbour graphs, their weights and their Laplacians, as sparse matrices.

A graph is made in two steps: `neighbour_graph` finds the edges and their lengths, then
`gaussian_weights` or `self_tuning_weights` turns lengths into similarities. Everything after
that (`degrees`, `unnormalised_laplacian`, `normalised_laplacian`, `connected_components`) takes
any symmetric matrix of weights.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from atoll.core.extras import import_extra
from atoll.core.linalg import eigenvectors
from atoll.core.memory import in_chunks
from atoll.core.near_rows import nearest_by_products, takes
from atoll.core.rows import distances_of_pairs, row_squares

# Products of sparse rows are made in pieces of about this many numbers (16 MiB).
_PRODUCTS_AT_ONCE = 2**21
# Trees search up to _TREE_FEATURES features fast. With more, once rows × queries × features reaches
# _EXACT_WORK, the search goes to an approximate index, if one is installed.
_TREE_FEATURES, _EXACT_WORK = 12, 10**12
# With more features than these, products find the nearest rows sooner than a tree does: the first
# limit is for few rows, the second for many.
_PRODUCT_FEATURES, _PRODUCT_FEATURES_OF_MANY, _MANY_ROWS = 6, 8, 50_000
# With more features than these, scikit-learn has no tree either.
_SEARCHED_FEATURES = 15
# So few rows are found sooner than scikit-learn has checked them.
_FEW_ROWS = 2000
# Up to this many vertices, LAPACK finds the modes about as fast as iteration does.
_DENSE_VERTICES = 500
# Sums of squares of larger numbers may be infinite.
_SQUARABLE = 1e140
# Largest residual ‖L u − λ u‖ accepted for a mode found by iteration.
_MODE_TOLERANCE = 1e-6
# From _MANY_MODES modes on, Lanczos iteration takes vectors in blocks of _BLOCK: products of
# matrices then do what ARPACK does vector by vector. The basis has _BASIS_PER_MODE vectors a mode.
_MANY_MODES, _BLOCK, _BASIS_PER_MODE = 200, 16, 1.8


class NeighbourGraph(NamedTuple):
    """Edges between near rows, before they are given weights.

    Attributes
    ----------
    distances : csr_array of shape (n, n)
        Symmetric; an entry is stored for every edge and holds its Euclidean length. The stored
        zeros are edges too: they join identical rows.
    scales : ndarray of shape (n,)
        σ_i, the distance from row i to its k-th nearest other row; zero when row i has k or
        more copies.
    """

    distances: sparse.csr_array
    scales: np.ndarray


def neighbour_graph(X: Any, n_neighbors: int) -> NeighbourGraph:
    """Join each row to its nearest other rows; there is an edge if either end chose the other.

    A row is never its own neighbour, but a copy of it elsewhere in `X` is one, at distance
    zero. The choice among rows that are equally near is arbitrary.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, n_features)
    n_neighbors : int
        k, from 1 to n − 1.

    Returns
    -------
    NeighbourGraph
        The lengths of the edges, (n, n), sparse and exactly symmetric, and the scales σ, (n,).

    Examples
    --------
    >>> import numpy as np
    >>> graph = neighbour_graph(np.array([[0.0], [1.0], [3.0]]), n_neighbors=1)
    >>> graph.distances.toarray()
    array([[0., 1., 0.],
           [1., 0., 2.],
           [0., 2., 0.]])
    >>> graph.scales
    array([1., 1., 2.])
    """
    is_sparse = sparse.issparse(X)
    if is_sparse:
        X = sparse.csr_array(X)
    else:  # single precision is enough for a search, and its lengths are found in double
        X = np.asarray(X)
        X = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s); give an array of shape (rows, features).")
    n = X.shape[0]
    _check_n_neighbors(n_neighbors, n)
    if not is_sparse:
        # The search may expand ‖a − b‖², which loses digits when the data lie far from zero.
        X = X - X.mean(axis=0)
    X, unit = _squarable(X)
    targets = nearest(X, None, n_neighbors).ravel().astype(np.int64)
    sources = np.repeat(np.arange(n, dtype=np.int64), n_neighbors)

    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    edges, edge_of_choice = np.unique(low * n + high, return_inverse=True)
    low, high = edges // n, edges % n
    lengths = unit * distances_of_pairs(X, low, X, high)
    distances = sparse.coo_array(
        (np.tile(lengths, 2), (np.concatenate([low, high]), np.concatenate([high, low]))),
        shape=(n, n),
    ).tocsr()
    scales = lengths[edge_of_choice].reshape(n, n_neighbors).max(axis=1)
    return NeighbourGraph(distances, scales)


def nearest(rows: Any, X: Any, k: int, *, n_jobs: int | None = None) -> np.ndarray:
    """Return the indices of the k rows nearest to each row of X, nearest first, (m, k).

    The search is exact, by trees, by products (`near_rows`) or in blocks, while that takes a minute
    or two at most. A larger one of dense rows uses an approximate graph index (usearch, extra
    `ann`) if it is installed.

    Parameters
    ----------
    rows : (n, d) array or sparse matrix
    X : (m, d), or None for the rows themselves, none of which is then its own neighbour
    """
    if is_approximate(rows, X):
        return _approximate_nearest(rows, X, k)
    rows, unit = _squarable(rows)
    X = None if X is None else X / unit if unit != 1.0 else X
    if sparse.issparse(rows):
        return _nearest_sparse(rows, X, k)
    if not _has_quick_products(rows, X, k):
        return _nearest_by_search(rows, X, k, n_jobs)
    if X is None:
        return _without_own(_nearest_by_products(rows, rows, k + 1, n_jobs))
    return _nearest_by_products(rows, X, k, n_jobs)


def _has_quick_products(rows: Any, X: Any, k: int) -> bool:
    """Return whether products find the nearest rows sooner than scikit-learn does; as `nearest`."""
    n, d = rows.shape
    if d <= (_PRODUCT_FEATURES if n < _MANY_ROWS else _PRODUCT_FEATURES_OF_MANY):
        return False
    if X is None:
        return d <= _SEARCHED_FEATURES and takes(rows, rows, k + 1)
    return takes(rows, X, k)


def _nearest_by_products(rows: Any, X: Any, k: int, n_jobs: int | None) -> np.ndarray:
    found, proven = nearest_by_products(rows, X, k)
    if not proven.all():
        found[~proven] = _nearest_by_search(rows, X[~proven], k, n_jobs)
    return found


def _nearest_by_search(rows: Any, X: Any, k: int, n_jobs: int | None) -> np.ndarray:
    from sklearn.neighbors import KDTree, NearestNeighbors  # here: the import takes a second

    asked = rows if X is None else X
    few = rows.shape[1] <= _SEARCHED_FEATURES and len(rows) + len(asked) <= _FEW_ROWS
    if few and k < len(rows) // 2 and np.isfinite(rows).all() and np.isfinite(asked).all():
        # What `NearestNeighbors` does there, without its checks, which take longer than the search.
        tree = KDTree(rows, leaf_size=30, metric="euclidean")
        found = tree.query(asked, k + (X is None), return_distance=False)
        return found if X is not None else _without_own(found, 0)
    # Given None, `kneighbors` leaves each row itself out by its index, not by its distance.
    search = NearestNeighbors(n_neighbors=k, n_jobs=n_jobs).fit(rows)
    return search.kneighbors(X, return_distance=False)


def is_approximate(rows: Any, X: Any = None) -> bool:
    """Return whether `nearest` would use an index that may miss some neighbours."""
    n, d = rows.shape
    m = n if X is None else X.shape[0]
    if sparse.issparse(rows) or d <= _TREE_FEATURES or n * m * d < _EXACT_WORK:
        return False
    return importlib.util.find_spec("usearch") is not None


def _approximate_nearest(rows: np.ndarray, X: np.ndarray | None, k: int) -> np.ndarray:
    index = import_extra("usearch.index").Index(ndim=rows.shape[1], metric="l2sq", dtype="f32")
    index.add(np.arange(len(rows)), rows.astype(np.float32))
    queries = rows if X is None else X
    found = index.search(queries.astype(np.float32), k + (X is None)).keys.astype(np.int64)
    return found if X is not None else _without_own(found)


def _without_own(found: np.ndarray, instead: int = -1) -> np.ndarray:
    """Drop each row from its own neighbours, (n, k + 1) -> (n, k).

    If it is not among them, another is dropped, the furthest unless told otherwise: an index may
    miss a row, or find copies of it instead.
    """
    own = found == np.arange(len(found))[:, None]
    own[~own.any(axis=1), instead] = True
    return found[~own].reshape(len(found), -1)


def gaussian_weights(graph: NeighbourGraph, bandwidth: float | None = None) -> sparse.csr_array:
    """Return the weights w_ij = exp(−d_ij² / (2 h²)) on the edges of `graph`.

    Parameters
    ----------
    graph : NeighbourGraph
        Of n rows.
    bandwidth : float or None, default=None
        h, positive; None takes the median length of the edges between rows that differ.

    Returns
    -------
    csr_array of shape (n, n)
        Symmetric. Copies of a row have weight one. An edge whose weight is too small for float64
        is dropped.

    Examples
    --------
    >>> import numpy as np
    >>> graph = neighbour_graph(np.array([[0.0], [1.0], [3.0]]), n_neighbors=1)
    >>> gaussian_weights(graph, bandwidth=1.0).toarray().round(3)
    array([[0.   , 0.607, 0.   ],
           [0.607, 0.   , 0.135],
           [0.   , 0.135, 0.   ]])
    """
    lengths = graph.distances.data
    if bandwidth is None:
        positive = lengths[lengths > 0]
        # If no length is positive, every weight is exp(0), whatever the bandwidth.
        bandwidth = float(np.median(positive)) if positive.size else 1.0
    if not (np.isfinite(bandwidth) and bandwidth > 0):
        raise ValueError(
            f"bandwidth={bandwidth!r} is not a positive finite number; give one, or None for the "
            "median distance between neighbours."
        )
    with np.errstate(over="ignore"):
        squares = (lengths / bandwidth) ** 2
    return _with_weights(graph.distances, np.exp(-0.5 * squares))


def self_tuning_weights(graph: NeighbourGraph) -> sparse.csr_array:
    """Return the weights w_ij = exp(−4 d_ij² / (σ_i σ_j)) on the edges of `graph`.

    σ_i is the distance from row i to its k-th nearest row, which is zero for a row with k or more
    copies. Such a row takes as its scale the length of its shortest edge to a row that differs,
    so that copies keep weight one among themselves and stay joined to the rest of the data.

    Parameters
    ----------
    graph : NeighbourGraph
        Of n rows.

    Returns
    -------
    csr_array of shape (n, n)
        Symmetric. Copies of a row have weight one. An edge whose weight is too small for float64
        is dropped.

    References
    ----------
    L. Zelnik-Manor and P. Perona, Self-tuning spectral clustering, NIPS 2004.

    Examples
    --------
    >>> import numpy as np
    >>> graph = neighbour_graph(np.array([[0.0], [1.0], [3.0]]), n_neighbors=1)
    >>> self_tuning_weights(graph).toarray().round(4)
    array([[0.    , 0.0183, 0.    ],
           [0.0183, 0.    , 0.0003],
           [0.    , 0.0003, 0.    ]])
    """
    lengths = graph.distances.data
    rows, columns = _edge_ends(graph.distances)
    shortest = np.full(graph.scales.shape, np.inf)
    np.minimum.at(shortest, rows[lengths > 0], lengths[lengths > 0])
    scales = np.where(graph.scales > 0, graph.scales, shortest)
    # Two ratios, not d² / (σ_i σ_j): the product of two small scales may underflow to zero.
    with np.errstate(over="ignore"):
        squares = (lengths / scales[rows]) * (lengths / scales[columns])
    return _with_weights(graph.distances, np.exp(-4.0 * squares))


def degrees(weights: Any) -> np.ndarray:
    """Return the degrees d_i = Σ_j w_ij: weights (n, n) -> (n,).

    Examples
    --------
    >>> degrees([[0, 2, 0], [2, 0, 1], [0, 1, 0]])
    array([2., 3., 1.])
    """
    return _row_sums(_checked_weights(weights))


def unnormalised_laplacian(weights: Any) -> sparse.csr_array:
    """Return L = D − W, for which fᵀ L f = ½ Σ_ij w_ij (f_i − f_j)².

    Parameters
    ----------
    weights : array-like or sparse matrix of shape (n, n)
        Symmetric and non-negative.

    Returns
    -------
    csr_array of shape (n, n)
        Positive semi-definite; its null space is spanned by the indicators of the connected
        components.

    Examples
    --------
    >>> unnormalised_laplacian([[0, 2, 0], [2, 0, 1], [0, 1, 0]]).toarray()
    array([[ 2., -2.,  0.],
           [-2.,  3., -1.],
           [ 0., -1.,  1.]])
    """
    W = _checked_weights(weights)
    return sparse.csr_array(sparse.diags_array(_row_sums(W)) - W)


def normalised_laplacian(weights: Any) -> sparse.csr_array:
    """Return L = I − D^{-1/2} W D^{-1/2}, with a row and column of zeros per isolated vertex.

    Zeros there, rather than a one on the diagonal, keep the number of null vectors equal to the
    number of connected components.

    Parameters
    ----------
    weights : array-like or sparse matrix of shape (n, n)
        Symmetric and non-negative.

    Returns
    -------
    csr_array of shape (n, n)
        Exactly symmetric, eigenvalues in [0, 2]; its null space is spanned by √d on each
        connected component.

    Examples
    --------
    >>> normalised_laplacian([[0, 1, 0], [1, 0, 0], [0, 0, 0]]).toarray()
    array([[ 1., -1.,  0.],
           [-1.,  1.,  0.],
           [ 0.,  0.,  0.]])
    """
    W = _checked_weights(weights)
    return _normalised_laplacian(W, _row_sums(W))


def connected_components(weights: Any) -> tuple[int, np.ndarray]:
    """Find the connected components: weights (n, n) -> count, component of each vertex (n,).

    An isolated vertex is a component of its own.

    Examples
    --------
    >>> connected_components([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    (2, array([0, 0, 1]))
    """
    count, membership = csgraph.connected_components(_checked_weights(weights), directed=False)
    return int(count), membership.astype(np.intp)


class Modes(NamedTuple):
    """The smoothest functions on a graph, apart from the trivial one.

    Attributes
    ----------
    values : ndarray of shape (m,)
        Eigenvalues λ of the normalised Laplacian, in rising order; the first is 0 if the graph has
        several connected components.
    vectors : ndarray of shape (n, m)
        Orthonormal eigenvectors.
    """

    values: np.ndarray
    vectors: np.ndarray


def smoothest_modes(weights: Any, n_modes: int) -> Modes:
    """Return the lowest eigenvectors of the normalised Laplacian that are orthogonal to √d.

    √d is the trivial eigenvector. Graphs of up to 500 vertices, and requests for more than a
    quarter of the modes, go to LAPACK. The rest are solved part by part, since modes of different
    parts have nothing to do with each other, by Lanczos iteration (ARPACK) on a Chebyshev
    polynomial of I − L, which spreads the crowded end of the spectrum: a dozen sparse products then
    replace a dozen orthogonalisations of the whole basis. Many modes are found in blocks, in half
    of the time or less. The eigenvalue at which the wanted modes begin is estimated first, and
    residuals are checked at the end.

    Parameters
    ----------
    weights : array-like or sparse matrix of shape (n, n)
        Symmetric and non-negative.
    n_modes : int
        m; no more than n − 1 are returned.

    Examples
    --------
    >>> modes = smoothest_modes([[0, 1, 0], [1, 0, 0], [0, 0, 0]], 2)
    >>> modes.values.round(6) + 0.0  # two parts: a second null vector
    array([0., 2.])
    """
    return _smoothest_modes(_checked_weights(weights), n_modes)


def _smoothest_modes(W: sparse.csr_array, n_modes: int) -> Modes:
    n = W.shape[0]
    n_modes = min(n_modes, n - 1)
    if n_modes < 1:
        return Modes(np.zeros(0), np.zeros((n, 0)))
    if n > _DENSE_VERTICES:
        n_parts, part = csgraph.connected_components(W, directed=False)
        if n_parts > 1:
            return _modes_of_parts(W, n_modes, part)
    d = _row_sums(W)
    L = _normalised_laplacian(W, d)
    trivial = np.sqrt(d / d.sum()) if d.any() else np.full(n, 1.0 / np.sqrt(n))
    if n <= _DENSE_VERTICES or n_modes > n // 4:
        # No eigenvalue exceeds 2, so raising the trivial one to 3 puts it last.
        lifted = L.toarray() + 3.0 * np.outer(trivial, trivial)
        values, vectors = eigenvectors(lifted, 0, n_modes - 1)
        return Modes(np.maximum(values, 0.0), vectors)
    S = sparse.csr_array(sparse.eye_array(n) - L)
    order = csgraph.reverse_cuthill_mckee(S, symmetric_mode=True)  # near rows lie near in memory
    S, trivial = S[order][:, order], trivial[order]
    rng = np.random.default_rng(0)
    steps = _filters(S, trivial, n_modes, rng)
    if n_modes >= _MANY_MODES:
        found = _modes_by_block(S, trivial, n_modes, steps[0], rng)
        if found is not None:
            return Modes(found.values, found.vectors[np.argsort(order)])
    for step in steps:
        modes = _filtered_modes(S, trivial, n_modes, step, rng)
        if modes is not None:
            return Modes(modes.values, modes.vectors[np.argsort(order)])
    raise ValueError(
        f"the {n_modes} smoothest modes of a graph with {n} vertices were not found; use fewer, or "
        "more neighbours per row."
    )


def _check_n_neighbors(n_neighbors: int, n: int) -> None:
    is_integer = isinstance(n_neighbors, (int, np.integer)) and not isinstance(n_neighbors, bool)
    if n < 2:
        raise ValueError(f"X has {n} row(s); a neighbour graph needs at least 2.")
    if not is_integer or not 1 <= n_neighbors <= n - 1:
        raise ValueError(
            f"n_neighbors={n_neighbors!r} is out of range for {n} rows; "
            f"choose an integer from 1 to {n - 1}."
        )


def _squarable(X: Any) -> tuple[Any, float]:
    """Return X in a unit in which no square overflows, and that unit, a power of two."""
    numbers = X.data if sparse.issparse(X) else X
    largest = float(max(np.max(numbers, initial=0.0), -np.min(numbers, initial=0.0)))
    if not _SQUARABLE < largest < np.inf:
        return X, 1.0
    unit = float(2.0 ** np.floor(np.log2(largest)))
    return X / unit, unit


def _nearest_sparse(rows: Any, X: Any, k: int) -> np.ndarray:
    """Return the k nearest of sparse rows to each row of X, by blocks of their inner products."""
    across, half = sparse.csr_array(rows.T), 0.5 * row_squares(rows)
    queries = rows if X is None else sparse.csr_array(X)
    found = np.empty((queries.shape[0], k), np.int64)
    for piece in in_chunks(queries.shape[0], rows.shape[0], most=_PRODUCTS_AT_ONCE):
        near = (queries[piece] @ across).astype(np.float64).toarray()
        near -= half  # (‖x‖² − ‖x − y‖²) / 2
        if X is None:
            near[np.arange(len(near)), np.arange(piece.start, piece.stop)] = -np.inf
        best = np.argpartition(near, -k, axis=1)[:, -k:]
        order = np.argsort(-np.take_along_axis(near, best, axis=1), axis=1)
        found[piece] = np.take_along_axis(best, order, axis=1)
    return found


def _row_sums(W: sparse.csr_array) -> np.ndarray:
    return np.asarray(W.sum(axis=1)).ravel()


def _normalised_laplacian(W: sparse.csr_array, d: np.ndarray) -> sparse.csr_array:
    """Compute `normalised_laplacian` of weights that were checked; d (n,) are their sums."""
    rows, columns = _edge_ends(W)
    roots = np.sqrt(d)
    S = _with_weights(W, W.data / (roots[rows] * roots[columns]))
    return sparse.csr_array(sparse.diags_array((d > 0).astype(np.float64)) - S)


def _edge_ends(matrix: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return rows, matrix.indices


def _with_weights(pattern: sparse.csr_array, values: np.ndarray) -> sparse.csr_array:
    weights = sparse.csr_array(
        (values, pattern.indices.copy(), pattern.indptr.copy()), shape=pattern.shape
    )
    weights.eliminate_zeros()
    return weights


def _checked_weights(weights: Any) -> sparse.csr_array:
    W = sparse.csr_array(weights, dtype=np.float64)
    if W.ndim != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(
            f"weights has shape {W.shape}; give a square matrix with one row per vertex."
        )
    if not np.isfinite(W.data).all() or (W.data < 0).any():
        raise ValueError("weights has negative, NaN or infinite entries; give similarities >= 0.")
    if abs(W - W.T).max() > 1e-12 * abs(W).max():
        raise ValueError("weights is not symmetric; give (W + W.T) / 2, or its maximum with W.T.")
    # Some functions count a stored zero as an edge, and others do not.
    if (W.data == 0).any():
        W = W.copy()
        W.eliminate_zeros()
    return W


def _modes_of_parts(W: sparse.csr_array, n_modes: int, part: np.ndarray) -> Modes:
    """Return the smoothest modes of a graph of several parts; part (n,) says where each vertex is.

    √d of each part is a null vector, and so is any combination of these. The first modes are random
    combinations that are orthogonal to √d of the whole graph: random, so that every part has a
    share even if there are fewer modes than parts. Then come the smoothest of the parts' own modes.
    """
    d = _row_sums(W)
    total = np.bincount(part, d)
    alone = total[part] == 0  # a part of one vertex, without an edge
    root = np.sqrt(np.where(alone, 1.0, d / np.where(alone, 1.0, total[part])))
    n_null = min(n_modes, len(total) - 1)
    trivial = np.sqrt(total) if total.any() else np.ones(len(total))
    drawn = np.random.default_rng(0).standard_normal((len(total), n_null))
    turned = np.linalg.qr(np.column_stack([trivial, drawn]))[0][:, 1:]
    null = root[:, None] * turned[part]
    n_more = n_modes - n_null
    found = []
    for vertices in np.split(np.argsort(part, kind="stable"), np.cumsum(np.bincount(part))[:-1]):
        own = _smoothest_modes(W[vertices][:, vertices], n_more)
        found.append((vertices, own))
    values = np.concatenate([own.values for _, own in found])
    chosen = np.argsort(values, kind="stable")[:n_more]
    vectors = np.zeros((len(part), len(chosen)))
    first = 0
    for vertices, own in found:
        place = np.flatnonzero((chosen >= first) & (chosen < first + len(own.values)))
        vectors[np.ix_(vertices, place)] = own.vectors[:, chosen[place] - first]
        first += len(own.values)
    return Modes(np.append(np.zeros(n_null), values[chosen]), np.hstack([null, vectors]))


def _filters(
    S: sparse.csr_array, trivial: np.ndarray, n_modes: int, rng: np.random.Generator
) -> list[tuple[int, float]]:
    """Return the polynomials to try in turn: degree, and eigenvalue of S below which it is small.

    The first is fitted to the estimated spectrum; the others are fallbacks.
    """
    edge = _eigenvalue_count_above(S, trivial, (3 * n_modes) // 2, rng)
    degree = int(np.clip(np.sqrt(10.0 / max(1.0 - edge, 1e-4)), 6, 40))
    return [(degree, edge), (4, 0.0), (1, -1.0)]


def _eigenvalue_count_above(
    S: sparse.csr_array, trivial: np.ndarray, count: int, rng: np.random.Generator
) -> float:
    """Estimate the value above which `count` eigenvalues of S lie, by Lanczos quadrature."""
    n, n_steps, n_probes = S.shape[0], 40, 4
    nodes, masses = [], []
    for _ in range(n_probes):
        q = rng.standard_normal(n)
        q -= trivial * (trivial @ q)
        q /= np.linalg.norm(q)
        basis, alphas, betas = np.empty((n_steps + 1, n)), [], []
        basis[0] = q
        for i in range(n_steps):
            v = S @ basis[i] - 2.0 * trivial * (trivial @ basis[i])
            alphas.append(float(v @ basis[i]))
            Q = basis[: i + 1]
            v -= Q.T @ (Q @ v)
            v -= Q.T @ (Q @ v)
            length = float(np.linalg.norm(v))
            if length < 1e-10:
                break
            betas.append(length)
            basis[i + 1] = v / length
        values, vectors = linalg.eigh_tridiagonal(alphas, betas[: len(alphas) - 1])
        nodes.append(values)
        masses.append(vectors[0] ** 2 * n / n_probes)
    node, mass = np.concatenate(nodes), np.concatenate(masses)
    order = np.argsort(-node)
    above = np.cumsum(mass[order])
    return float(node[order][min(int(np.searchsorted(above, count)), len(node) - 1)])


def _polynomial(
    S: sparse.csr_array, trivial: np.ndarray, step: tuple[int, float]
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that applies a polynomial of `_filters` to vectors, (n,) or (n, b)."""
    degree, edge = step
    centre, half = 0.5 * (edge - 1.0), max(0.5 * (edge + 1.0), 1e-3)
    twice = sparse.csr_array(2.0 / half * (S - centre * sparse.eye_array(S.shape[0])))
    top = np.cosh(degree * np.arccosh((1.0 - centre) / half)) if degree > 1 else 1.0

    def along(x: np.ndarray) -> np.ndarray:
        return np.multiply.outer(trivial, trivial @ x)

    def polynomial(x: np.ndarray) -> np.ndarray:
        x = x - along(x)
        if degree == 1:
            return S @ x - 2.0 * along(x)
        previous, current = x, 0.5 * (twice @ x)
        for _ in range(degree - 1):
            previous, current = current, twice @ current - previous
        current -= along(current)
        return current / top

    return polynomial


def _modes_by_block(
    S: sparse.csr_array,
    trivial: np.ndarray,
    n_modes: int,
    step: tuple[int, float],
    rng: np.random.Generator,
) -> Modes | None:
    """Return the modes by block Lanczos iteration without a restart; None if it falls short.

    Blocks take fewer steps than single vectors; to make up for it, the polynomial has twice the
    degree.
    """
    n, n_steps = S.shape[0], int(np.ceil(_BASIS_PER_MODE * n_modes / _BLOCK))
    size = n_steps * _BLOCK
    if size >= n - 1:
        return None
    polynomial = _polynomial(S, trivial, (2 * step[0], step[1]))
    basis, projected = np.empty((size, n)), np.zeros((size, size))
    block = np.linalg.qr(rng.standard_normal((n, _BLOCK)))[0]
    for first in range(0, size, _BLOCK):
        last = first + _BLOCK
        basis[first:last] = block.T
        block = polynomial(block)
        for _ in range(2):  # once more, for what rounding left
            part = basis[:last] @ block
            block -= basis[:last].T @ part
            projected[:last, first:last] += part
        block, lengths = np.linalg.qr(block)
        if np.abs(np.diagonal(lengths)).min() < 1e-12:
            return None  # nothing new is left in some direction
    # What is above the diagonal blocks was summed up from all that came before.
    projected = np.triu(projected) + np.triu(projected, 1).T
    vectors = basis.T @ eigenvectors(projected, size - n_modes, size - 1)[1]
    probe = rng.standard_normal(n_modes)
    if np.abs(vectors.T @ (vectors @ probe) - probe).max() > _MODE_TOLERANCE:
        return None  # rounding has left them other than orthonormal
    return _checked_modes(S, vectors)


def _filtered_modes(
    S: sparse.csr_array,
    trivial: np.ndarray,
    n_modes: int,
    step: tuple[int, float],
    rng: np.random.Generator,
) -> Modes | None:
    """Return the modes by ARPACK; None where they were not found."""
    n, polynomial = S.shape[0], _polynomial(S, trivial, step)
    operator = LinearOperator((n, n), matvec=lambda x: polynomial(x.ravel()), dtype=np.float64)
    start, n_basis = rng.standard_normal(n), min(n - 1, (3 * n_modes) // 2 + 10)
    restarts = 30 if step[0] > 1 else 3000
    try:
        vectors = eigsh(
            operator, n_modes, which="LA", v0=start, ncv=n_basis, maxiter=restarts, tol=1e-9
        )[1]
    except ArpackNoConvergence:
        return None
    return _checked_modes(S, vectors)


def _checked_modes(S: sparse.csr_array, vectors: np.ndarray) -> Modes | None:
    """Return the modes, in rising order, of eigenvectors of S; None if one of these is wrong."""
    product = S @ vectors
    values = 1.0 - np.einsum("ij,ij->j", vectors, product)
    order = np.argsort(values)
    residuals = np.linalg.norm(product - vectors * (1.0 - values), axis=0)
    if residuals.max() > _MODE_TOLERANCE:
        return None
    return Modes(np.maximum(values[order], 0.0), vectors[:, order])
