"""Natural-gradient steps meet their closed form where there is one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atoll.inference import natural_gradient
from atoll.inference.natural_gradient import InducingGaussians

K, M, N = 2, 4, 9
STEP = jax.jit(natural_gradient.step)
FACTORS = jax.jit(natural_gradient.covariance_factors)


def conjugate(seed):
    """Features, targets and noise precisions of a Gaussian likelihood, and its posterior."""
    rng = np.random.default_rng(seed)
    A, y = rng.normal(size=(M, N)), rng.normal(size=(N, K))
    w = rng.uniform(0.5, 2.0, size=(N, K))
    precision = np.stack([np.eye(M) + (A * w[:, k]) @ A.T for k in range(K)])
    mean = np.stack([np.linalg.solve(precision[k], A @ (w[:, k] * y[:, k])) for k in range(K)])
    return A, y, w, mean, precision


def some_q(seed):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(K, M, M))
    precision = half @ np.swapaxes(half, 1, 2) + np.eye(M)
    return InducingGaussians(
        *(jnp.asarray(v, jnp.float32) for v in (rng.normal(size=(K, M)), precision))
    )


def one_step(q, A, y, w, rate, furthest=np.inf):
    scores = w * (y - A.T @ np.asarray(q.mean).T)  # of the expected log-likelihood, at the mean
    arrays = (jnp.asarray(v, jnp.float32) for v in (A, scores, w))
    return STEP(q, FACTORS(q), *arrays, np.float32(rate), np.float32(furthest))


@pytest.mark.parametrize("seed", [0, 1])
def test_one_whole_step_is_the_exact_posterior_of_a_gaussian_likelihood(seed):
    A, y, w, mean, precision = conjugate(seed)
    q, factors, refused = one_step(some_q(seed + 7), A, y, w, 1.0)
    assert not refused
    np.testing.assert_allclose(factors, FACTORS(q), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(q.precision, precision, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(q.mean, mean, rtol=1e-4, atol=1e-4)


def test_short_steps_reach_the_same_posterior():
    A, y, w, mean, precision = conjugate(0)
    q = some_q(3)
    for _ in range(60):
        q, _, _ = one_step(q, A, y, w, 0.3)
    np.testing.assert_allclose(q.precision, precision, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(q.mean, mean, rtol=1e-3, atol=1e-3)


def test_no_function_moves_further_than_allowed():
    A, y, w, _, _ = conjugate(0)
    q = some_q(3)
    moved, _, _ = one_step(q, A, 100.0 * y, w, 1.0, furthest=0.5)
    assert np.abs((moved.mean - q.mean) @ A).max() == pytest.approx(0.5, rel=1e-4)


def test_a_step_that_is_not_finite_is_refused_whole():
    A, y, w, _, _ = conjugate(0)
    q = some_q(3)
    y[0, 0] = np.nan
    same, factors, refused = one_step(q, A, y, w, 0.5)
    assert refused
    np.testing.assert_array_equal(factors, FACTORS(q))
    np.testing.assert_array_equal(same.mean, q.mean)
    np.testing.assert_array_equal(same.precision, q.precision)


def test_factors_are_those_of_the_covariance():
    q = some_q(5)
    factors = FACTORS(q)
    covariance = np.swapaxes(factors, 1, 2) @ np.asarray(factors)
    np.testing.assert_allclose(covariance, np.linalg.inv(q.precision), rtol=1e-3, atol=1e-4)
    expected = 0.5 * np.linalg.slogdet(np.asarray(q.precision, float))[1]
    found = natural_gradient.half_log_determinants(factors)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_change_of_basis_is_that_of_the_random_vector():
    q, T = some_q(5), np.random.default_rng(0).normal(size=(M, M)) + 3 * np.eye(M)
    arrays = (jnp.asarray(v, jnp.float32) for v in (T, np.linalg.inv(T)))
    changed = jax.jit(natural_gradient.changed_basis)(q, *arrays)
    np.testing.assert_allclose(changed.mean, np.asarray(q.mean) @ T.T, rtol=1e-4, atol=1e-4)
    before = np.linalg.inv(np.asarray(q.precision, float))
    np.testing.assert_allclose(
        np.linalg.inv(np.asarray(changed.precision, float)), T @ before @ T.T, rtol=1e-3, atol=1e-3
    )


def test_the_prior_is_a_standard_normal():
    q = natural_gradient.prior(K, M)
    np.testing.assert_array_equal(q.mean, np.zeros((K, M)))
    np.testing.assert_array_equal(q.precision, np.broadcast_to(np.eye(M), (K, M, M)))
