"""The structure of differences of classes gives the answers of the full matrix."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.inference import ep
from atoll.inference.contrasts import contrasts
from atoll.likelihoods import probit


def problem(seed, n, n_classes, variance=4.0):
    """A Gram matrix, codes, and the differences' covariance, written out."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    C = variance * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    codes = rng.integers(n_classes, size=n)
    rows = []
    for m, y in enumerate(codes):
        for k in range(n_classes):
            if k != y:  # f_y(x_m) + ε_m − f_k(x_m), as weights of functions and noise
                weights = np.zeros((n_classes + 1, n))
                weights[y, m], weights[k, m], weights[-1, m] = 1.0, -1.0, 1.0
                rows.append(weights.ravel())
    A = np.array(rows)
    joint = np.kron(np.eye(n_classes + 1), C)
    joint[-n:, -n:] = np.eye(n)
    return C, codes, A @ joint @ A.T


@pytest.mark.parametrize(("n", "n_classes"), [(1, 3), (6, 3), (5, 9)])
def test_the_covariance_is_that_of_differences(n, n_classes):
    C, codes, full = problem(0, n, n_classes)
    prior, every = contrasts(C, codes, n_classes), np.arange(len(full))
    np.testing.assert_allclose(prior.rows(every), full, atol=1e-12)
    np.testing.assert_allclose(prior.rows(every[1:2]), full[1:2], atol=1e-12)
    np.testing.assert_allclose(prior.times(np.eye(len(full))), full, atol=1e-12)
    np.testing.assert_allclose(prior.diagonal(), np.diagonal(full), atol=1e-12)


@pytest.mark.parametrize("precision", [1.0, 1e-10, None])
@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_under_sites_is_that_of_the_full_matrix(seed, precision):
    C, codes, full = problem(seed, 7, 4)
    rng = np.random.default_rng(seed)
    tau = np.exp(3.0 * rng.standard_normal(len(full))) if precision is None else precision
    sites = ep.Sites(np.full(len(full), tau), rng.standard_normal(len(full)))
    found, expected = contrasts(C, codes, 4).posterior(sites), ep.held_posterior(full, sites)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.site_inverse(), expected.site_inverse, rtol=1e-9, atol=1e-12)
    covariance = full - full @ expected.site_inverse @ full
    np.testing.assert_allclose(found.mean, covariance @ sites.shift, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.variance, np.diagonal(covariance), rtol=1e-9)
    cavity = 1.0 / (1.0 / found.variance - sites.precision)
    np.testing.assert_allclose(found.cavity_variance, cavity, rtol=1e-8)
    half_log_det = 0.5 * np.linalg.slogdet(np.eye(len(full)) + full * sites.precision)[1]
    assert found.half_log_det == pytest.approx(half_log_det, rel=1e-9)


def test_expectation_propagation_finds_the_evidence_and_moments_of_the_full_matrix():
    C, codes, full = problem(3, 12, 4)
    regions = probit.regions(np.ones(len(full), dtype=np.intp))
    found, expected = (
        ep.propagate(prior, regions, ep.no_sites(len(full)), tolerance=1e-8, max_iterations=500)
        for prior in (contrasts(C, codes, 4), full)
    )
    assert found.converged
    assert found.log_evidences[-1] == pytest.approx(expected.log_evidences[-1], abs=1e-7)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(found.site_inverse, expected.site_inverse, atol=1e-6)
