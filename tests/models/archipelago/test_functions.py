"""The functions: white noise and back, mixing, and what known rows say of new ones."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.core.densities import Gaussian
from atoll.kernels.hyperparameters import kernel_prior
from atoll.models.archipelago import UNLABELLED, Setting
from atoll.models.archipelago.functions import (
    KnownFunctions,
    bridges_to,
    corner_factor,
    covariances_at,
    gram_at_rows,
    kernels_at,
    mixed,
    mixing_matrix,
    mixing_or_none,
    prior_of_islands,
    served_by,
    unknown_functions,
    unwhiten,
    unwhiten_transposed,
    whiten,
)

LINE = Gaussian(np.zeros(1), np.eye(1))
NOTHING = np.zeros(0)
PRIOR = kernel_prior("isotropic", np.array([[-1.0], [1.0]]))
THETA = {1: np.array([[1.0, 0.1]]), 3: np.array([[1.0, 0.1], [0.4, -0.5], [2.0, 0.6]])}


def line_setting(n_kernels):
    rows = np.random.default_rng(0).normal(size=(5, 1))
    return Setting(rows, np.full(5, UNLABELLED), 3, PRIOR, LINE, own_kernels=n_kernels > 1)


def known_at(setting, rows, u, theta):
    factors = kernels_at(gram_at_rows(setting, rows), theta).factors
    return KnownFunctions(rows, whiten(factors, u), factors, theta, NOTHING)


@pytest.mark.parametrize("n_kernels", [1, 3])
def test_whitened_functions_come_back(n_kernels):
    setting, rng = line_setting(n_kernels), np.random.default_rng(1)
    u, slope = rng.normal(size=(2, 5, 3))
    factors = kernels_at(gram_at_rows(setting, setting.inputs), THETA[n_kernels]).factors
    noise = whiten(factors, u)
    np.testing.assert_allclose(unwhiten(factors, noise), u, atol=1e-9)
    # The transpose: ⟨slope, L ν⟩ = ⟨Lᵀ slope, ν⟩.
    product = np.vdot(unwhiten_transposed(factors, slope), noise)
    assert product == pytest.approx(np.vdot(slope, u), rel=1e-9)


def test_mixing_keeps_the_variance_of_every_function():
    A = mixing_matrix(np.array([0.8, -0.4, 1.5]), 3)
    np.testing.assert_allclose(np.sum(A**2, axis=1), 1.0)
    np.testing.assert_array_equal(mixing_matrix(NOTHING, 3), np.eye(3))


def test_functions_that_are_not_mixed_stay_as_they_are():
    u = np.random.default_rng(2).normal(size=(4, 3))
    assert mixing_or_none(NOTHING, 3) is None
    np.testing.assert_array_equal(mixed(u, None), mixed(u, mixing_matrix(NOTHING, 3)))


@pytest.mark.parametrize("n_kernels", [1, 3])
def test_new_rows_have_the_conditional_of_the_joint_gaussian(n_kernels):
    """Mean and covariance by brute force, with the nugget on every row's diagonal."""
    setting, rng = line_setting(n_kernels), np.random.default_rng(3)
    theta, new = THETA[n_kernels], rng.normal(size=(4, 1))
    u = rng.normal(size=(5, 3))
    known, covariances = known_at(setting, setting.inputs, u, theta), covariances_at(setting, theta)
    bridges = bridges_to(covariances, known, new)
    whole = kernels_at(gram_at_rows(setting, np.concatenate([setting.inputs, new])), theta).grams
    for f, C in enumerate(whole):
        k = served_by(f, n_kernels)
        corner = corner_factor(
            covariances.between(theta[f], new, new), covariances.nugget[f], bridges[f]
        ).lower
        solved = np.linalg.solve(C[:5, :5], C[:5, 5:]).T
        np.testing.assert_allclose(bridges[f] @ known.whitened[:, k], solved @ u[:, k], atol=1e-6)
        np.testing.assert_allclose(corner @ corner.T, C[5:, 5:] - solved @ C[:5, 5:], atol=1e-9)


@pytest.mark.parametrize("n_kernels", [1, 3])
def test_rows_that_become_known_one_after_the_other_have_the_factor_of_all(n_kernels):
    setting, theta = line_setting(n_kernels), THETA[n_kernels]
    covariances, noise = (
        covariances_at(setting, theta),
        np.random.default_rng(4).normal(size=(5, 3)),
    )
    known = unknown_functions(setting.inputs, theta, NOTHING, 3)
    for part in (slice(0, 2), slice(2, 5)):
        rows = setting.inputs[part]
        bridges = bridges_to(covariances, known, rows)
        corners = [
            corner_factor(covariances.between(t, rows, rows), nugget, bridge).lower
            for t, nugget, bridge in zip(theta, covariances.nugget, bridges, strict=True)
        ]
        known = known.with_rows(rows, noise[part], bridges, corners)
    factors = kernels_at(gram_at_rows(setting, setting.inputs), theta).factors
    np.testing.assert_allclose(known.factors, factors, atol=1e-9)
    np.testing.assert_allclose(known.u, unwhiten(factors, noise), atol=1e-9)


def test_islands_under_ard_are_larger_and_longer():
    X = np.random.default_rng(5).normal(size=(20, 4))
    assert np.all(prior_of_islands("ard", X).sd[1:] < 0.3 * kernel_prior("ard", X).sd[1:])
    assert np.all(prior_of_islands("ard", X).mean > kernel_prior("ard", X).mean)
    np.testing.assert_array_equal(
        prior_of_islands("isotropic", X).mean, kernel_prior("isotropic", X).mean
    )
