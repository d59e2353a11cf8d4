"""The graph-warped kernel: what it is, what it costs, and that every model takes it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from atoll.estimators import (
    ArchipelagoClassifier,
    NullCategoryClassifier,
    OrdinalGPClassifier,
    ProbitGPClassifier,
    SoftmaxGPClassifier,
    load_model,
    save_model,
)
from atoll.kernels import graph_warped
from atoll.kernels.graph_warped import Geometry, GraphWarpedKernel

BASES = [RBF(0.7), 2.0 * Matern(1.3, nu=1.5), RBF([0.5, 2.0]) + ConstantKernel(0.3)]
PENALTIES = [{"power": 1}, {"power": 2}, {"power": 5}, {"coefficients": [0.1, 0.0, 2.0]}]
SEEDS = pytest.mark.parametrize("seed", range(3))
PENALTY = pytest.mark.parametrize("penalty", PENALTIES, ids=str)


def problem(seed, n=30, m=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=(m, 2)), float(np.exp(rng.normal(2.0, 3.0)))


def dense_formula(base, M, D, X, Y):
    """Equation 5 as it is printed."""
    inner = np.linalg.solve(np.eye(len(D)) + M @ base(D), M @ base(D, Y))
    return base(X, Y) - base(X, D) @ inner


@SEEDS
@PENALTY
@pytest.mark.parametrize("base", BASES, ids=str)
def test_it_is_the_dense_formula(seed, penalty, base):
    D, X, ratio = problem(seed)
    shape = Geometry.from_rows(D, n_neighbors=4, **penalty)
    kernel = GraphWarpedKernel(base, shape, ratio)
    M = ratio * shape.matrix()
    for first, second in ((X, D), (D, X), (X, X[:2])):
        expected = dense_formula(base, M, D, first, second)
        np.testing.assert_allclose(kernel(first, second), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(kernel(X), dense_formula(base, M, D, X, X), rtol=0, atol=1e-10)
    np.testing.assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=0, atol=1e-12)


@SEEDS
@PENALTY
def test_it_is_the_covariance_of_a_process_told_that_it_is_smooth(seed, penalty):
    # Equations 3 to 5: the precision of f at D and T together, with M added to the block of D.
    D, T, ratio = problem(seed, n=12, m=5)
    base = RBF(0.4) + WhiteKernel(0.1)  # so that the prior's covariance can be inverted
    shape = Geometry.from_rows(D, n_neighbors=3, **penalty)
    both = np.concatenate([D, T])
    precision = np.linalg.inv(base(both))
    precision[:12, :12] += ratio * shape.matrix()
    conditioned = np.linalg.inv(precision)
    smooth = RBF(0.4)  # K without the noise of each row, which K(D, T) does not have either
    K = base(both)
    M = ratio * shape.matrix()
    inner = np.linalg.solve(np.eye(12) + M @ K[:12, :12], M @ K[:12])
    np.testing.assert_allclose(conditioned, K - K[:, :12] @ inner, rtol=0, atol=1e-9)
    kernel = GraphWarpedKernel(base, shape, ratio)
    np.testing.assert_allclose(kernel(T), conditioned[12:, 12:], rtol=0, atol=1e-9)
    assert not np.allclose(GraphWarpedKernel(smooth, shape, ratio)(T), kernel(T))


def test_a_ratio_of_zero_is_the_base_kernel():
    D, X, _ = problem(0)
    kernel = GraphWarpedKernel(RBF(0.7), Geometry.from_rows(D), 0.0, "fixed")
    np.testing.assert_array_equal(kernel(X), RBF(0.7)(X))
    np.testing.assert_array_equal(kernel(X, D), RBF(0.7)(X, D))
    np.testing.assert_array_equal(kernel.diag(X), RBF(0.7).diag(X))
    ours, theirs = kernel(X, eval_gradient=True), RBF(0.7)(X, eval_gradient=True)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=0, atol=1e-15)


@pytest.mark.parametrize("ratio", [1e-8, 1e-3, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("length_scale", [0.01, 1.0, 100.0])
@PENALTY
def test_it_is_symmetric_and_positive_semi_definite(ratio, length_scale, penalty):
    D, X, _ = problem(0)
    D[3] = D[4]  # copies
    D[5:8] += 50.0  # a component apart
    shape = Geometry.from_rows(D, n_neighbors=2, **penalty)
    K = GraphWarpedKernel(RBF(length_scale), shape, ratio)(np.concatenate([D, X, D[:3]]))
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K)[0] > -1e-12
    assert np.diag(K).max() <= 1.0 + 1e-12  # what is told can only lower a variance


@SEEDS
@pytest.mark.parametrize("base", BASES, ids=str)
def test_the_gradient_is_that_of_finite_differences(seed, base):
    D, X, ratio = problem(seed)
    shape = Geometry.from_rows(D, n_neighbors=4, power=3)
    kernel = ConstantKernel(1.5) * GraphWarpedKernel(base, shape, ratio)
    theta = kernel.theta
    assert len(theta) == len(kernel.bounds) == base.n_dims + 2
    value, slopes = kernel(X, eval_gradient=True)
    np.testing.assert_allclose(value, kernel(X), rtol=0, atol=1e-14)
    for j, step in enumerate(1e-5 * np.eye(len(theta))):
        above, below = (kernel.clone_with_theta(theta + s)(X) for s in (step, -step))
        np.testing.assert_allclose(slopes[..., j], (above - below) / 2e-5, rtol=0, atol=1e-7)


def test_fixed_parameters_are_not_among_the_log_parameters():
    D, X, _ = problem(0)
    shape = Geometry.from_rows(D)
    free = GraphWarpedKernel(RBF(0.7), shape, 2.0)
    np.testing.assert_allclose(free.theta, np.log([0.7, 2.0]))
    np.testing.assert_allclose(GraphWarpedKernel(RBF(0.7), shape, 2.0, "fixed").theta, np.log(0.7))
    still = GraphWarpedKernel(RBF(0.7, "fixed"), shape, 2.0, "fixed")
    assert len(still.theta) == still.n_dims == 0
    assert still(X, eval_gradient=True)[1].shape == (6, 6, 0)
    assert [h.name for h in free.hyperparameters] == ["base__length_scale", "ratio"]
    assert free.get_params()["base__length_scale"] == 0.7


def test_the_factor_is_found_once_for_each_value_of_the_parameters(monkeypatch):
    calls = []
    true_factor = graph_warped.penalty_factor

    def counted(*arguments):
        calls.append(arguments[1])
        return true_factor(*arguments)

    monkeypatch.setattr(graph_warped, "penalty_factor", counted)
    D, X, _ = problem(0)
    shape = Geometry.from_rows(D)
    kernel = ConstantKernel() * GraphWarpedKernel(RBF(1.0, "fixed"), shape, 10.0, "fixed")
    for log_variance in range(5):  # as a sampler of the amplitude does
        moved = kernel.clone_with_theta([float(log_variance)])
        moved(X), moved(X, D), moved.diag(D)
    assert calls == [10.0]
    GraphWarpedKernel(RBF(1.0), shape, 11.0)(X)
    GraphWarpedKernel(RBF(1.0 + 1e-12), shape, 11.0)(X)
    assert calls == [10.0, 11.0, 11.0]


def test_copies_share_their_geometry_and_pickles_are_equal():
    D, X, _ = problem(0)
    for penalty in PENALTIES:
        shape = Geometry.from_rows(D, **penalty)
        kernel = GraphWarpedKernel(RBF(0.7), shape, 2.0)
        for same in (clone(kernel), copy.deepcopy(kernel), kernel.clone_with_theta(kernel.theta)):
            assert same.geometry is shape
        kernel(X)
        back = pickle.loads(pickle.dumps(kernel))
        assert back == kernel
        np.testing.assert_array_equal(back(X), kernel(X))
        assert back.geometry.digest() in repr(back)
    assert shape != Geometry.from_rows(D + 1e-9, **penalty)


@pytest.mark.filterwarnings("ignore:The optimal value:sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_s_own_regression_takes_it():
    D, X, _ = problem(0)
    kernel = ConstantKernel() * GraphWarpedKernel(RBF(0.7), Geometry.from_rows(D), 2.0)
    fitted = GaussianProcessRegressor(kernel, alpha=0.1).fit(X, X[:, 0])
    before = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, X[:, 0])
    assert fitted.log_marginal_likelihood_value_ > before.log_marginal_likelihood_value_


def test_the_penalty_of_a_polynomial_is_the_polynomial():
    D, _, _ = problem(0)
    L = Geometry.from_rows(D, power=2).root.toarray()  # whose square it is
    assert sparse.issparse(Geometry.from_rows(D, power=4).root)
    sum_of_powers = 0.5 * np.eye(30) + 2.0 * L + 3.0 * L @ L @ L
    found = Geometry.from_laplacian(D, L, coefficients=[0.5, 2.0, 0.0, 3.0]).matrix()
    np.testing.assert_allclose(found, sum_of_powers, rtol=0, atol=1e-12)
    for power in (1, 2, 3, 4, 5):
        found = Geometry.from_rows(D, power=power).matrix()
        np.testing.assert_allclose(found, np.linalg.matrix_power(L, power), rtol=0, atol=1e-12)


def test_the_weights_are_the_paper_s_or_one_of_two_others():
    D, _, _ = problem(0)
    options = {"n_neighbors": 3, "normalised": False, "power": 2}
    binary = Geometry.from_rows(D, weights="binary", **options).root.toarray()
    off_diagonal = -binary[~np.eye(30, dtype=bool)]
    assert set(off_diagonal.tolist()) == {0.0, 1.0}
    gaussian = -Geometry.from_rows(D, **options).root.toarray()
    i, j = np.nonzero(np.triu(binary < 0))
    lengths = np.linalg.norm(D[i] - D[j], axis=1)
    expected = np.exp(-(lengths**2) / (2 * lengths.mean() ** 2))
    np.testing.assert_allclose(gaussian[i, j], expected, rtol=1e-12)
    assert Geometry.from_rows(D, weights="self-tuning", **options).root.nnz == (binary != 0).sum()


@pytest.mark.parametrize(
    ("options", "problem_named"),
    [
        ({"weights": "cosine"}, r"weights='cosine' is unknown; give one of 'gaussian'"),
        ({"power": 0}, r"power=0 must be a whole number"),
        ({"power": 1.5}, r"power=1\.5 must be a whole number"),
        ({"coefficients": [1.0, -1.0]}, r"coefficients=\[1\.0, -1\.0\] must be numbers"),
        ({"coefficients": []}, r"coefficients=\[\] must be numbers"),
        ({"n_neighbors": 0}, r"n_neighbors=0 is out of range"),
    ],
)
def test_what_makes_no_graph_is_refused_by_name(options, problem_named):
    with pytest.raises(ValueError, match=problem_named):
        Geometry.from_rows(problem(0)[0], **options)


def test_a_laplacian_of_other_rows_and_a_negative_ratio_are_refused():
    D, X, _ = problem(0)
    with pytest.raises(ValueError, match=r"shape \(3, 3\) and there are 30 rows"):
        Geometry.from_laplacian(D, np.eye(3))
    with pytest.raises(ValueError, match="X has 1 row"):
        Geometry.from_rows(D[:1])
    with pytest.raises(ValueError, match=r"ratio=-1\.0 must be a number"):
        GraphWarpedKernel(RBF(), Geometry.from_rows(D), -1.0)(X)


# In every Gaussian process of the library ---------------------------------------------------------

CLASSIFIERS = [
    SoftmaxGPClassifier,
    ProbitGPClassifier,
    OrdinalGPClassifier,
    NullCategoryClassifier,
    ArchipelagoClassifier,
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*in the order of the alphabet:UserWarning")
@pytest.mark.parametrize(
    "free",
    [pytest.param(False, id="fixed", marks=pytest.mark.slow), pytest.param(True, id="free")],
)
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: model.__name__)
def test_every_gaussian_process_takes_it_and_is_saved_with_it(model, free, tmp_path):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 0.3, (8, 2)), rng.normal(2, 0.3, (8, 2))])
    y = np.full(16, None)
    y[[0, 1, 8, 9]] = 0, 0, 1, 1
    bounds = (1e-5, 1e5) if free else "fixed"
    shape = Geometry.from_rows(X, n_neighbors=4)
    kernel = ConstantKernel(4.0) * GraphWarpedKernel(RBF(1.0, bounds), shape, 10.0, bounds)
    short = {"n_chains": 1, "n_warmup": 10, "n_samples": 30, "random_state": 0}
    if model is NullCategoryClassifier:  # "auto" samples where every row has a label
        short["inference"] = "mcmc"
    fitted = model(kernel=kernel, **short).fit(X, y)
    p = fitted.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert np.mean(fitted.predict(X) == np.repeat([0, 1], 8)) > 0.9
    moved = [name for name in fitted.draws_ if name.endswith("ratio")]
    assert len(moved) == int(free)
    assert all(np.ptp(fitted.draws_[name]) > 0 for name in moved)
    save_model(fitted, tmp_path / "model.atoll")
    np.testing.assert_array_equal(load_model(tmp_path / "model.atoll").predict_proba(X), p)


@pytest.mark.parametrize("model", [ProbitGPClassifier, NullCategoryClassifier])
def test_variational_bayes_moves_its_parameters_by_their_gradients(model):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 0.3, (8, 2)), rng.normal(2, 0.3, (8, 2))])
    y = np.full(16, None)
    y[[0, 1, 8, 9]] = 0, 0, 1, 1
    shape = Geometry.from_rows(X, n_neighbors=4)
    kernel = ConstantKernel(4.0) * GraphWarpedKernel(RBF(1.0), shape, 10.0)
    fitted = model(kernel=kernel, inference="vb").fit(X, y)
    assert fitted.diagnostics_["converged"]
    assert fitted.objectives_[-1] > fitted.objectives_[0]
    assert abs(np.log(fitted.kernel_.k2.ratio / 10.0)) > 1e-3
