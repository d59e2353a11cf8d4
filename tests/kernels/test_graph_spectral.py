"""Spectral graph kernels: their matrices, gradients, extension to new rows, use in every model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import ConstantKernel

from atoll import (
    NullCategoryClassifier,
    OrdinalGPClassifier,
    ProbitGPClassifier,
    SoftmaxGPClassifier,
)
from atoll.core.graphs import Modes, neighbour_graph, self_tuning_weights
from atoll.kernels.graph_spectral import (
    SHAPES,
    SpectralGraph,
    SpectralGraphKernel,
    embedding,
    extend,
    extend_to_own_rows,
    extension_weights,
    graph_modes,
    nearest_rows,
    spectral_weights,
)

X = np.random.default_rng(0).standard_normal((60, 2))
GRAPH = SpectralGraph.from_rows(X, n_neighbors=8, n_modes=20)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_is_the_weighted_sum_of_modes_scaled_to_unit_variance(shape):
    kernel = SpectralGraphKernel(GRAPH, shape, scale=0.2)
    values, U = GRAPH.modes
    s = {
        "matern": (values + 0.2) ** -3.0,
        "diffusion": np.exp(-values / 0.2),
        "low_pass": 1 / (1 + (values / 0.2) ** 3.0),
    }[shape]
    K = (U * s) @ U.T
    d = np.sqrt(np.diagonal(K))
    np.testing.assert_allclose(kernel(X), K / d / d[:, None], atol=1e-10)
    np.testing.assert_allclose(kernel.diag(X), 1.0, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_its_gradient_meets_finite_differences_at_rows_old_and_new(shape):
    rows = np.concatenate([X[:5], np.random.default_rng(1).standard_normal((6, 2))])
    kernel = SpectralGraphKernel(GRAPH, shape, scale=0.3)
    _, gradient = kernel(rows, eval_gradient=True)
    step = 1e-5
    up, down = (kernel.clone_with_theta(kernel.theta + s)(rows) for s in (step, -step))
    np.testing.assert_allclose(gradient[..., 0], (up - down) / (2 * step), atol=1e-8)


def test_it_is_positive_semi_definite_on_any_rows():
    rng = np.random.default_rng(2)
    for shape in SHAPES:
        for scale in (1e-6, 0.1, 5.0):
            rows = np.concatenate([X[:20], rng.standard_normal((30, 2)) * 3])
            K = SpectralGraphKernel(GRAPH, shape, scale)(rows)
            np.testing.assert_array_equal(K, K.T)
            assert np.linalg.eigvalsh(K).min() > -1e-10


def test_a_row_of_the_graph_is_itself_and_a_copy_of_it_too():
    found = nearest_rows(X, X[:7])
    K = SpectralGraphKernel(GRAPH, scale=0.1)
    np.testing.assert_array_equal(found.indices[:, 0], np.arange(7))
    np.testing.assert_array_equal(found.weights[:, 0], 1.0)
    np.testing.assert_allclose(K(X[:7], X), K(X)[:7], atol=1e-12)


def test_rows_that_may_not_be_their_own_have_the_neighbours_of_a_graph_without_them():
    others, thin = nearest_rows(X, None), nearest_rows(sparse.csr_array(X), None)
    for i in (0, 5):
        expected = nearest_rows(np.delete(X, i, axis=0), X[i : i + 1])
        rows = expected.indices[0] + (expected.indices[0] >= i)
        for found in (others, thin):
            np.testing.assert_array_equal(found.indices[i], rows)
            np.testing.assert_allclose(found.weights[i], expected.weights[0], rtol=1e-6)


def test_rows_as_if_new_are_nearer_to_those_of_graphs_without_them_than_means_of_neighbours():
    """Variance of every row, and covariance with the others, from graphs each without one row."""
    rng = np.random.default_rng(2)
    n, X = 60, rng.standard_normal((60, 2))

    def seen(rows):
        graph = self_tuning_weights(neighbour_graph(rows, 8))
        modes = graph_modes(graph, 12)
        return graph, modes, spectral_weights(modes.values, "matern", 0.02, 3.0)

    graph, modes, weights = seen(X)
    V, near = embedding(modes, weights), nearest_rows(X, None, n_nearest=5)
    exact = np.empty((n, n))
    for i in range(n):
        others = np.delete(X, i, axis=0)
        V_others = embedding(*seen(others)[1:])
        found = extend(V_others, nearest_rows(others, X[[i]], n_nearest=5))[0]
        exact[i] = np.insert(V_others @ found, i, found @ found)

    def off(found):
        covariance = found @ V.T
        np.fill_diagonal(covariance, np.einsum("ij,ij->i", found, found))
        apart = np.abs(covariance - exact)
        return np.diag(apart).mean(), apart.mean()

    without_pull, with_pull = (
        off(extend_to_own_rows(modes, weights, graph, near)),
        off(extend(V, near)),
    )
    assert without_pull[0] < 0.85 * with_pull[0]
    assert without_pull[1] < with_pull[1]


def test_rows_as_if_new_are_means_of_neighbours_where_no_edge_pulls():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20, 2))
    modes = graph_modes(self_tuning_weights(neighbour_graph(X, 5)), 6)
    weights, near = 1.0 / (1.0 + modes.values), nearest_rows(X, None, n_nearest=4)
    no_edges = sparse.csr_array((20, 20))
    found = extend_to_own_rows(modes, weights, no_edges, near)
    np.testing.assert_allclose(found, extend(embedding(modes, weights), near), atol=1e-14)


def test_weights_of_neighbours_fall_with_distance_and_sum_to_one():
    w = extension_weights(np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(w.sum(axis=1), 1.0)
    np.testing.assert_allclose(w[0, 0] / w[0, 2], np.exp(4 * (1 - 1 / 9)))
    np.testing.assert_allclose(w[1:], [[0.5, 0.5, 0], [1 / 3] * 3])


def test_a_row_that_only_rounding_moves_off_a_row_of_the_graph_is_that_row():
    w = extension_weights(np.array([[1e-15, 2.0, 3.0], [1e-6, 2.0, 3.0]]))
    assert w[0].tolist() == [1.0, 0.0, 0.0]
    assert w[1, 1] > 0.1


def test_parts_without_a_known_row_are_out_of_reach():
    two = np.concatenate([X[:30], X[:30] + 100])
    graph = SpectralGraph.from_rows(two, n_neighbors=5)
    from atoll.core.graphs import neighbour_graph, self_tuning_weights

    W = self_tuning_weights(neighbour_graph(two, 5))
    known = np.zeros(60, bool)
    known[3] = True
    V = embedding(modes := graph_modes(W, 10, known), np.ones(10))
    assert (modes.vectors[30:] == 0).all()
    assert (V[30:, -1] == 1).all()
    assert (V[:30, -1] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(V, axis=1), 1.0)
    assert len(graph.modes.values) == 59


def test_equal_graphs_are_equal_and_a_bad_shape_is_refused():
    again = SpectralGraph.from_rows(X, n_neighbors=8, n_modes=20)
    assert again == GRAPH
    assert hash(again) == hash(GRAPH)
    assert SpectralGraph(X + 1, Modes(*GRAPH.modes)) != GRAPH
    with pytest.raises(ValueError, match="shape='box' is unknown; give one of"):
        spectral_weights(GRAPH.modes.values, "box", 1.0, 1.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        ProbitGPClassifier(inference="vb"),
        OrdinalGPClassifier(inference="ep"),
        NullCategoryClassifier(inference="vb"),
        pytest.param(
            SoftmaxGPClassifier(n_chains=1, n_warmup=30, n_samples=30), marks=pytest.mark.slow
        ),
    ],
    ids=lambda m: type(m).__name__,
)
def test_every_gaussian_process_takes_it_and_learns_two_groups_from_two_labels(model):
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.standard_normal((15, 2)), rng.standard_normal((15, 2)) + 6])
    y = np.full(30, None, dtype=object)
    y[0], y[20] = "left", "right"
    graph = SpectralGraph.from_rows(rows, n_neighbors=5, n_modes=8)
    kernel = ConstantKernel(9.0, "fixed") * SpectralGraphKernel(graph, scale=0.01)
    model.set_params(kernel=kernel).fit(rows, y)
    p = model.predict_proba(np.array([[0.0, 0.0], [6.0, 6.0]]))
    assert p[0, 0] > 0.8
    assert p[1, 1] > 0.8
