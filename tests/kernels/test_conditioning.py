from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from atoll.core.rows import distinct_rows
from atoll.kernels import conditioning
from atoll.kernels.conditioning import (
    conditional_moments,
    mixture_moments,
    sample_conditional,
)
from atoll.kernels.hyperparameters import gram, kernel_prior

RNG = np.random.default_rng(0)
INPUTS, X = RNG.normal(size=(8, 2)), RNG.normal(size=(13, 2))
NOISE = 0.3

KERNELS = {
    "isotropic": "isotropic",
    "ard": "ard",
    "Matern": ConstantKernel(3.0) * Matern(1.2, nu=1.5),
    "dot product": DotProduct(0.5) + RBF(1.0),  # k(x, x) is not constant
    "white": ConstantKernel(3.0) * RBF(0.8) + WhiteKernel(0.4),
}


def known(kernel, shape):
    """Prior, log-parameters, A = K + noise, and values (n,) or (n, K) known at INPUTS."""
    prior = kernel_prior(kernel, INPUTS)
    theta = prior.mean + 0.1
    A = gram(prior, theta, INPUTS) + NOISE * np.eye(len(INPUTS))
    return prior, theta, A, RNG.normal(size=shape)


def moments(prior, theta, A, values, rows=X):
    return conditional_moments(
        prior, theta, INPUTS, np.linalg.cholesky(A), np.linalg.solve(A, values), rows
    )


@pytest.mark.parametrize("shape", [(8,), (8, 3)], ids=["one function", "three functions"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_moments_are_those_of_the_dense_formula(kernel, shape):
    prior, theta, A, values = known(kernel, shape)
    mean, variance = moments(prior, theta, A, values)
    k = prior.kernel.clone_with_theta(theta)
    cross = k(X, INPUTS)
    np.testing.assert_allclose(mean, cross @ np.linalg.inv(A) @ values, rtol=1e-9, atol=1e-11)
    dense = k(X) - cross @ np.linalg.inv(A) @ cross.T
    np.testing.assert_allclose(variance, np.diagonal(dense), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kernel", ["isotropic", "ard"])
def test_moments_are_those_of_scikit_learns_regressor(kernel):
    prior, theta, A, values = known(kernel, (8,))
    mean, variance = moments(prior, theta, A, values)
    theirs = GaussianProcessRegressor(
        prior.kernel.clone_with_theta(theta), alpha=NOISE, optimizer=None
    ).fit(INPUTS, values)
    their_mean, their_sd = theirs.predict(X, return_std=True)
    np.testing.assert_allclose(mean, their_mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(variance, their_sd**2, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("shape", [(8,), (8, 3)])
@pytest.mark.parametrize("entries", [1, 8, 41, 8 * 13, 10**9])
def test_the_size_of_the_chunks_changes_nothing(entries, shape, monkeypatch):
    problem = known("isotropic", shape)
    whole = moments(*problem)
    monkeypatch.setattr(conditioning, "CHUNK_ENTRIES", entries)
    sizes = []

    def spied_gram(prior, theta, rows, columns):
        sizes.append(len(columns))
        return gram(prior, theta, rows, columns)

    monkeypatch.setattr(conditioning, "gram", spied_gram)
    for part, of_whole in zip(moments(*problem), whole):
        np.testing.assert_allclose(part, of_whole, rtol=1e-12, atol=1e-14)
    assert max(sizes) == min(13, max(1, entries // 8))
    assert sum(sizes) == 13


def test_far_from_all_rows_the_moments_are_the_priors():
    prior, theta, A, values = known("isotropic", (8,))
    mean, variance = moments(prior, theta, A, values, np.full((1, 2), 1e6))
    assert mean.tolist() == [0.0]
    assert variance == pytest.approx(np.exp(theta[0]), rel=1e-12)


def test_a_variance_that_rounding_takes_below_zero_is_zero():
    prior = kernel_prior(RBF(0.5), INPUTS)
    lower = np.linalg.cholesky(gram(prior, prior.mean, INPUTS))
    # At the inputs all is explained; a factor too small by some rounding explains more than all.
    _, variance = conditional_moments(
        prior, prior.mean, INPUTS, lower * (1 - 1e-9), np.zeros(8), INPUTS
    )
    assert variance.tolist() == [0.0] * 8


def test_no_rows_to_predict_give_empty_moments():
    mean, variance = moments(*known("isotropic", (8, 3)), np.zeros((0, 2)))
    assert mean.shape == (0, 3)
    assert variance.shape == (0,)


def test_mixture_moments_are_those_of_all_components_together():
    means, variances = RNG.normal(size=(7, 4, 2)), RNG.gamma(2.0, size=(7, 4, 2))
    mean, variance = mixture_moments(zip(means, variances))
    second = np.mean(variances + means**2, axis=0)
    np.testing.assert_allclose(mean, np.mean(means, axis=0), rtol=1e-12)
    np.testing.assert_allclose(variance, second - np.mean(means, axis=0) ** 2, rtol=1e-10)


def test_mixture_moments_keep_a_small_variance_about_a_large_mean():
    means = 1e9 + np.array([[-1.0], [0.0], [1.0]])
    mean, variance = mixture_moments((m, np.array([0.5])) for m in means)
    assert mean == pytest.approx(1e9, rel=1e-15)
    assert variance == pytest.approx(0.5 + 2 / 3, rel=1e-6)


def test_a_mixture_of_one_component_is_that_component():
    means, variances = RNG.normal(size=(1, 5)), RNG.gamma(2.0, size=(1, 5))
    mean, variance = mixture_moments(zip(means, variances))
    np.testing.assert_array_equal(mean, means[0])
    np.testing.assert_array_equal(variance, variances[0])


# Joint draws --------------------------------------------------------------------------------------


def joint_draws(problem, n, rows=X, seed=0):
    prior, theta, A, values = problem
    return sample_conditional(
        np.random.default_rng(seed), prior, theta, INPUTS, np.linalg.cholesky(A),
        np.linalg.solve(A, values), rows, n,
    )  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_joint_draws_have_the_dense_formulas_mean_and_covariance(kernel):
    problem, n = known(kernel, (8, 2)), 4000
    prior, theta, A, values = problem
    k = prior.kernel.clone_with_theta(theta)
    cross = k(X, INPUTS)
    mean, S = cross @ np.linalg.solve(A, values), k(X) - cross @ np.linalg.solve(A, cross.T)
    f = joint_draws(problem, n)
    assert f.shape == (n, 13, 2)
    spread = np.diagonal(S)
    assert np.all(np.abs(f.mean(axis=0) - mean) < 6 * np.sqrt(spread / n)[:, None])
    for of_function in np.moveaxis(f, 2, 0):
        error = np.sqrt((S**2 + np.outer(spread, spread)) / n)
        assert np.all(np.abs(np.cov(of_function.T) - S) < 6 * error)
    between = np.mean((f[..., 0] - mean[:, 0]) * (f[..., 1] - mean[:, 1]), axis=0)
    assert np.all(np.abs(between) < 6 * spread / np.sqrt(n))  # the functions are independent


@pytest.mark.parametrize("shape", [(8,), (8, 3)])
def test_equal_rows_have_equal_values_in_a_joint_draw(shape):
    f = joint_draws(known("isotropic", shape), 4, X[[0, 1, 0, 1, 1]])
    assert f.shape == (4, 5, *shape[1:])
    np.testing.assert_array_equal(f[:, :2], f[:, 2:4])
    np.testing.assert_array_equal(f[:, 1], f[:, 4])


def test_a_joint_draw_where_all_is_known_is_what_is_known():
    prior = kernel_prior(RBF(0.5), INPUTS)
    A = gram(prior, prior.mean, INPUTS)
    values = np.linalg.cholesky(A) @ RNG.normal(size=8)
    f = joint_draws((prior, prior.mean, A, values), 3, INPUTS)
    np.testing.assert_allclose(f, np.tile(values, (3, 1)), atol=1e-3)


def test_rows_that_are_not_numbers_count_as_different():
    words = np.array(["one", "two", "one"], dtype=object)
    rows, place = distinct_rows(words)
    assert rows is words
    assert place.tolist() == [0, 1, 2]
