from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from atoll.core import graphs
from atoll.core.graphs import (
    connected_components,
    degrees,
    gaussian_weights,
    neighbour_graph,
    normalised_laplacian,
    self_tuning_weights,
    unnormalised_laplacian,
)


def dense_graph(X, k):
    """Edges (n, n) bool, lengths (n, n) and scales (n,), by sorting every pair of rows."""
    n = len(X)
    lengths = np.sqrt(((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=-1))
    others = lengths + np.where(np.eye(n), np.inf, 0.0)
    order = np.argsort(others, axis=1, kind="stable")[:, :k]
    chosen = np.zeros((n, n), dtype=bool)
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen | chosen.T, lengths, np.sort(others, axis=1)[:, k - 1]


def edges_of(graph):
    """Edges (n, n) bool; stored zeros count."""
    pattern = graph.distances.copy()
    pattern.data = np.ones_like(pattern.data)
    return pattern.toarray() > 0


def far_clusters(rng, sizes=(12, 15, 20)):
    blocks = [rng.normal(size=(size, 2)) + 1000.0 * i for i, size in enumerate(sizes)]
    return np.concatenate(blocks)


# 20 features make the search choose brute force instead of a tree.
@pytest.mark.parametrize("n_features", [1, 2, 20])
@pytest.mark.parametrize("k", [1, 5, 39])
def test_graph_and_both_weights_equal_dense_brute_force(n_features, k):
    X = np.random.default_rng(0).normal(size=(40, n_features))
    edges, lengths, scales = dense_graph(X, k)
    graph = neighbour_graph(X, k)
    assert np.array_equal(edges_of(graph), edges)
    np.testing.assert_allclose(graph.distances.toarray(), np.where(edges, lengths, 0), rtol=1e-12)
    np.testing.assert_allclose(graph.scales, scales, rtol=1e-12)

    tuned = np.where(edges, np.exp(-4 * lengths**2 / np.outer(scales, scales)), 0)
    np.testing.assert_allclose(self_tuning_weights(graph).toarray(), tuned, rtol=1e-10)
    fixed = np.where(edges, np.exp(-(lengths**2) / (2 * 0.7**2)), 0)
    np.testing.assert_allclose(gaussian_weights(graph, 0.7).toarray(), fixed, rtol=1e-10)
    median = np.median(lengths[edges])
    default = np.where(edges, np.exp(-(lengths**2) / (2 * median**2)), 0)
    np.testing.assert_allclose(gaussian_weights(graph).toarray(), default, rtol=1e-10)


def test_sparse_rows_give_the_graph_of_dense_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 50)) * (rng.random((30, 50)) < 0.2)
    dense, thin = neighbour_graph(X, 4), neighbour_graph(sparse.csr_array(X), 4)
    assert np.array_equal(edges_of(dense), edges_of(thin))
    np.testing.assert_allclose(dense.distances.data, thin.distances.data, rtol=1e-12)


def test_long_edge_lists_are_measured_in_pieces(monkeypatch):
    X = np.random.default_rng(2).normal(size=(25, 3))
    whole = neighbour_graph(X, 4)
    monkeypatch.setattr("atoll.core.rows.PAIRS_AT_ONCE", 7)
    pieces = neighbour_graph(X, 4)
    assert np.array_equal(whole.distances.toarray(), pieces.distances.toarray())


def test_every_matrix_is_exactly_symmetric():
    X = np.random.default_rng(3).normal(size=(50, 3))
    graph = neighbour_graph(X, 6)
    W = self_tuning_weights(graph)
    matrices = [graph.distances, W, gaussian_weights(graph)]
    matrices += [unnormalised_laplacian(W), normalised_laplacian(W)]
    for matrix in matrices:
        assert isinstance(matrix, sparse.csr_array)
        assert (matrix != matrix.T).nnz == 0


def test_graph_is_equivariant_to_the_order_of_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    order = rng.permutation(60)
    W = self_tuning_weights(neighbour_graph(X, 5)).toarray()
    permuted = self_tuning_weights(neighbour_graph(X[order], 5)).toarray()
    np.testing.assert_allclose(permuted, W[np.ix_(order, order)], rtol=1e-10)


def test_self_tuning_weights_do_not_depend_on_the_unit_of_length():
    X = np.random.default_rng(5).normal(size=(40, 2))
    W = self_tuning_weights(neighbour_graph(X, 5)).toarray()
    for unit in (1e-120, 1e120, 1e200, 1e300):
        scaled = self_tuning_weights(neighbour_graph(X * unit, 5)).toarray()
        np.testing.assert_allclose(scaled, W, rtol=1e-10)


def test_data_far_from_the_origin_keep_their_neighbours():
    # Rounded to 2^-20, the coordinates stay exact when 2^24 is added.
    X = np.round(np.random.default_rng(6).normal(size=(40, 20)) * 2**20) / 2**20
    assert np.array_equal(edges_of(neighbour_graph(X, 3)), edges_of(neighbour_graph(X + 2**24, 3)))


@pytest.mark.parametrize("n_features", [2, 20])
def test_a_copy_is_a_neighbour_at_distance_zero_and_a_row_is_never_its_own(n_features):
    rng = np.random.default_rng(7)
    distinct = rng.normal(size=(15, n_features))
    X = np.concatenate([distinct, distinct])
    graph = neighbour_graph(X, 1)
    edges = edges_of(graph)
    assert not edges.diagonal().any()
    assert np.array_equal(edges, np.roll(np.eye(30, dtype=bool), 15, axis=1))
    assert (graph.distances.data == 0).all()
    for W in (self_tuning_weights(graph), gaussian_weights(graph)):
        assert np.array_equal(W.toarray(), edges.astype(float))


@pytest.mark.parametrize("n_features", [2, 20])
def test_rows_with_more_copies_than_neighbours_have_weight_one_and_finite_edges(n_features):
    rng = np.random.default_rng(8)
    distinct = rng.normal(size=(10, n_features))
    X = np.concatenate([distinct, np.repeat(distinct[:1], 6, axis=0)])
    graph = neighbour_graph(X, 3)
    assert not edges_of(graph).diagonal().any()
    copies = np.array([0, *range(10, 16)])
    assert (graph.scales[copies] == 0).all()
    for W in (self_tuning_weights(graph), gaussian_weights(graph)):
        within = W[copies][:, copies].toarray()
        assert np.array_equal(within > 0, edges_of(graph)[np.ix_(copies, copies)])
        assert set(np.unique(within)) == {0.0, 1.0}
        assert np.isfinite(W.data).all()


def test_copies_stay_joined_to_a_row_that_chose_them():
    # Four copies at 0, one row at 1: with k = 2 the copies choose each other and σ = 0 there.
    X = np.array([[0.0], [0.0], [0.0], [0.0], [1.0]])
    W = self_tuning_weights(neighbour_graph(X, 2)).toarray()
    joined = W[4, :4][W[4, :4] > 0]
    np.testing.assert_allclose(joined, np.exp(-4.0))
    assert joined.size == 2


def test_all_rows_equal_gives_weights_of_one():
    graph = neighbour_graph(np.ones((6, 3)), 2)
    for W in (self_tuning_weights(graph), gaussian_weights(graph)):
        assert W.nnz >= 12
        assert (W.data == 1).all()


def test_a_weight_below_float64_is_no_edge_and_leaves_its_row_isolated():
    X = np.array([[0.0], [1e-6], [2e-6], [1.0]])
    W = self_tuning_weights(neighbour_graph(X, 1))
    assert degrees(W)[3] == 0
    assert (W.data > 0).all()
    assert connected_components(W)[0] == 2


@pytest.mark.parametrize("laplacian", [unnormalised_laplacian, normalised_laplacian])
@pytest.mark.parametrize("n_isolated", [0, 2])
def test_laplacian_is_psd_with_a_zero_eigenvalue_for_each_component(laplacian, n_isolated):
    X = far_clusters(np.random.default_rng(9))
    # With 11 neighbours each of the clusters, of 12 to 20 rows, is connected for certain.
    W = gaussian_weights(neighbour_graph(X, 11), bandwidth=1.0)
    W = sparse.block_diag([W, sparse.csr_array((n_isolated, n_isolated))], format="csr")
    count, membership = connected_components(W)
    assert count == 3 + n_isolated
    eigenvalues = np.linalg.eigvalsh(laplacian(W).toarray())
    assert eigenvalues.min() > -1e-12
    assert (eigenvalues < 1e-10).sum() == count
    assert (eigenvalues[eigenvalues >= 1e-10] > 1e-6).all()
    if laplacian is normalised_laplacian:
        assert eigenvalues.max() < 2 + 1e-12
    # The null vectors, one a component: 1, or the square root of the degree (1 if isolated).
    d = degrees(W)
    height = np.where(d > 0, np.sqrt(d), 1.0) if laplacian is normalised_laplacian else 1.0
    for component in range(count):
        null = np.where(membership == component, height, 0.0)
        assert np.abs(laplacian(W) @ null).max() < 1e-12


def test_quadratic_form_of_the_laplacian_is_the_weighted_sum_of_squared_differences():
    rng = np.random.default_rng(10)
    W = self_tuning_weights(neighbour_graph(rng.normal(size=(30, 2)), 4))
    f, w = rng.normal(size=30), W.toarray()
    rough = 0.5 * (w * (f[:, None] - f[None, :]) ** 2).sum()
    np.testing.assert_allclose(f @ (unnormalised_laplacian(W) @ f), rough, rtol=1e-10)
    g = f / np.sqrt(degrees(W))
    rough = 0.5 * (w * (g[:, None] - g[None, :]) ** 2).sum()
    np.testing.assert_allclose(f @ (normalised_laplacian(W) @ f), rough, rtol=1e-10)


def test_degrees_are_row_sums_of_dense_and_sparse_weights():
    W = np.array([[0.5, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    assert np.array_equal(degrees(W), [2.5, 3.0, 1.0])
    assert np.array_equal(degrees(sparse.csc_array(W)), [2.5, 3.0, 1.0])


def test_components_are_the_far_clusters():
    sizes = (12, 15, 20)
    graph = neighbour_graph(far_clusters(np.random.default_rng(11), sizes), 11)
    count, membership = connected_components(gaussian_weights(graph, bandwidth=1.0))
    assert count == 3
    assert np.array_equal(membership, np.repeat([0, 1, 2], sizes))


def test_a_stored_zero_is_no_edge_and_the_input_is_left_alone():
    W = sparse.csr_array((np.zeros(2), ([0, 1], [1, 0])), shape=(2, 2))
    assert connected_components(W)[0] == 2
    assert normalised_laplacian(W).nnz == 0
    assert W.nnz == 2


@pytest.mark.parametrize("n_neighbors", [0, -1, 10, 2.0, True, None])
def test_n_neighbors_out_of_range_is_named_with_the_range(n_neighbors):
    with pytest.raises(ValueError, match=r"n_neighbors=.* for 10 rows; .* from 1 to 9"):
        neighbour_graph(np.arange(10.0)[:, None], n_neighbors)


def test_a_single_row_or_a_vector_has_no_graph():
    with pytest.raises(ValueError, match=r"1 row\(s\).*at least 2"):
        neighbour_graph(np.zeros((1, 2)), 1)
    with pytest.raises(ValueError, match=r"shape \(rows, features\)"):
        neighbour_graph(np.arange(5.0), 1)


def test_rows_with_nan_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        neighbour_graph(np.array([[0.0], [np.nan], [1.0]]), 1)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan, np.inf])
def test_bandwidth_that_is_not_positive_is_named(bandwidth):
    graph = neighbour_graph(np.arange(5.0)[:, None], 2)
    with pytest.raises(ValueError, match="bandwidth="):
        gaussian_weights(graph, bandwidth)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[0, -1], [-1, 0]]), "negative"),
        (np.array([[0, np.nan], [np.nan, 0]]), "NaN"),
        (np.array([[0, 1], [2, 0]]), "not symmetric"),
    ],
)
@pytest.mark.parametrize(
    "function", [degrees, unnormalised_laplacian, normalised_laplacian, connected_components]
)
def test_weights_that_are_no_similarities_are_refused(function, weights, message):
    with pytest.raises(ValueError, match=message):
        function(weights)


def test_neighbours_by_an_index_are_nearly_all_the_nearest(monkeypatch):
    pytest.importorskip("usearch", reason="the extra `ann` is not installed")
    from atoll.core import graphs

    X = np.random.default_rng(0).standard_normal((600, 20))
    new = np.random.default_rng(1).standard_normal((50, 20))
    exact = graphs.nearest(X, None, 8), graphs.nearest(X, new, 8)
    assert not graphs.is_approximate(X)
    monkeypatch.setattr(graphs, "_EXACT_WORK", 10)
    assert graphs.is_approximate(X)
    assert not graphs.is_approximate(X[:, :3])
    for right, found in zip(exact, (graphs.nearest(X, None, 8), graphs.nearest(X, new, 8))):
        assert found.shape == right.shape
        shared = np.mean([np.isin(a, b).mean() for a, b in zip(found, right)])
        assert shared > 0.9
    assert not (graphs.nearest(X, None, 8) == np.arange(600)[:, None]).any()


def test_two_rows_are_each_others_neighbour():
    graph = neighbour_graph(np.array([[0.0], [2.0]]), n_neighbors=1)
    assert np.array_equal(graph.distances.toarray(), [[0.0, 2.0], [2.0, 0.0]])
    with pytest.raises(ValueError, match=r"X has 1 row\(s\)"):
        neighbour_graph(np.zeros((1, 2)), n_neighbors=1)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_neighbours_do_not_depend_on_the_unit(sign):
    rng = np.random.default_rng(40)
    rows, X = sign * rng.uniform(1, 2, (30, 3)), sign * rng.uniform(1, 2, (9, 3))
    unit = 2.0**600  # whose square is no number
    assert np.array_equal(graphs.nearest(unit * rows, unit * X, 4), graphs.nearest(rows, X, 4))


class _BruteIndex:
    """An index with the functions of usearch's, which misses nothing."""

    def __init__(self, ndim, metric, dtype):
        assert (metric, dtype) == ("l2sq", "f32")

    def add(self, keys, rows):
        self.keys, self.rows = keys, rows

    def search(self, queries, k):
        apart = ((queries[:, None] - self.rows) ** 2).sum(axis=2)
        self.found = self.keys[np.argsort(apart, axis=1)[:, :k]]
        return SimpleNamespace(keys=self.found)


def test_an_index_is_asked_only_where_the_exact_search_is_long(monkeypatch):
    n, d = 20, graphs._TREE_FEATURES + 1
    rng = np.random.default_rng(41)
    rows, X = rng.standard_normal((n, d)), rng.standard_normal((5, d))
    exact = graphs.nearest(rows, None, 3), graphs.nearest(rows, X, 3)
    assert not graphs.is_approximate(rows)
    monkeypatch.setattr(graphs, "_EXACT_WORK", n * n * d)
    monkeypatch.setattr(graphs.importlib.util, "find_spec", lambda name: name == "usearch" or None)
    assert graphs.is_approximate(rows)
    assert not graphs.is_approximate(rows, X)
    assert not graphs.is_approximate(rows[:-1])
    assert not graphs.is_approximate(sparse.csr_array(rows))
    # Trees are quick with so many features, however many rows.
    assert not graphs.is_approximate(np.zeros((1000 * n, d - 1)))
    monkeypatch.setattr(graphs, "import_extra", lambda name: SimpleNamespace(Index=_BruteIndex))
    assert np.array_equal(graphs.nearest(rows, None, 3), exact[0])
    assert np.array_equal(graphs._approximate_nearest(rows, X, 3), exact[1])


def laplacian_and_modes(n=900, n_modes=210):
    X = np.random.default_rng(7).standard_normal((n, 3))
    W = self_tuning_weights(neighbour_graph(X, 10))
    return graphs.normalised_laplacian(W).toarray(), graphs.smoothest_modes(W, n_modes)


def test_many_modes_are_found_by_blocks_as_lapack_finds_them(monkeypatch):
    monkeypatch.setattr(graphs, "eigsh", None)  # ARPACK is not asked
    L, modes = laplacian_and_modes()
    values = np.linalg.eigvalsh(L)
    np.testing.assert_allclose(modes.values, values[1:211], atol=1e-10)
    np.testing.assert_allclose(modes.vectors.T @ modes.vectors, np.eye(210), atol=1e-10)
    np.testing.assert_allclose(L @ modes.vectors, modes.vectors * modes.values, atol=1e-7)


def test_modes_that_blocks_do_not_find_are_left_to_single_vectors(monkeypatch):
    asked = []
    monkeypatch.setattr(graphs, "_modes_by_block", lambda *given: asked.append(1))
    L, modes = laplacian_and_modes()
    assert asked
    np.testing.assert_allclose(modes.values, np.linalg.eigvalsh(L)[1:211], atol=1e-10)
    # A ring of few vertices has no more directions than blocks would take.
    ring = sparse.csr_array(np.roll(np.eye(60), 1, axis=0) + np.roll(np.eye(60), -1, axis=0))
    monkeypatch.undo()
    trivial = np.full(60, 60**-0.5)
    S = sparse.csr_array(ring / 2.0)
    assert graphs._modes_by_block(S, trivial, 40, (6, 0.0), np.random.default_rng(0)) is None
