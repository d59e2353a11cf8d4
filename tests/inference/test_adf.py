"""Assumed-density filtering: one pass against exact answers, and the greedy choice of rows."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.inference import adf, ep
from atoll.kernels.hyperparameters import gram_function, kernel_prior
from atoll.likelihoods import null_category, probit


def problem(seed, n=30, n_labelled=10, variance=6.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    C = gram_function(kernel_prior("isotropic", X), X)(np.array([np.log(variance), 0.0]))
    codes = (X[:, 0] > 0).astype(int)
    return C, null_category.regions(codes, np.arange(n) < n_labelled, 1.0)


def filter_matrix(C, regions, n_steps=None, **options):
    return adf.filter_rows(lambda i: C[:, i], np.diagonal(C), regions, n_steps, **options)


@pytest.mark.parametrize("negative", ["zero", "allow"])
@pytest.mark.parametrize("variance", [0.1, 6.0])
def test_the_sites_of_a_pass_give_back_its_moments(negative, variance):
    C, regions = problem(0, variance=variance)
    found = filter_matrix(C, regions, 20, negative=negative)
    held = ep.held_posterior(C[np.ix_(found.rows, found.rows)], found.sites, negative)
    across = C[:, found.rows]
    np.testing.assert_allclose(across @ held.weights, found.mean, atol=1e-8)
    covariance = C - across @ held.site_inverse @ across.T
    np.testing.assert_allclose(np.diagonal(covariance), found.variance, atol=1e-8)


def test_one_row_is_exact():
    C, regions = np.array([[3.0]]), probit.regions(np.array([1]))
    found, answer = filter_matrix(C, regions), ep.propagate(C, regions, ep.no_sites(1))
    assert found.mean[0] == pytest.approx(answer.mean[0], abs=1e-6)
    assert found.variance[0] == pytest.approx(answer.variance[0], abs=1e-6)
    assert found.log_evidence == pytest.approx(np.log(0.5), abs=1e-12)


def test_every_step_takes_the_row_that_removes_most_entropy():
    C, regions = problem(1)
    found = filter_matrix(C, regions, 12)
    for k in range(12):
        before = filter_matrix(C, regions, order=found.rows[:k])
        slopes = regions.gradients(before.mean, np.sqrt(1.0 + before.variance))
        gains = -0.5 * np.log1p(before.variance * slopes.curvature)
        gains[found.rows[:k]] = -np.inf
        assert found.gains[k] == pytest.approx(gains.max(), abs=1e-9)


def test_rows_that_are_to_be_first_are():
    C, regions = problem(2)
    first = np.arange(30) < 10
    found = filter_matrix(C, regions, 15, first=first)
    assert set(found.rows[:10]) == set(range(10))
    assert len(set(found.rows)) == 15


def test_the_product_of_predictive_probabilities_depends_little_on_the_order():
    """Exact filtering would not depend on it at all; measured: 0.06 at most over 20 orders."""
    C, regions = problem(3, n=12, n_labelled=12)
    rng = np.random.default_rng(0)
    values = [filter_matrix(C, regions, order=rng.permutation(12)).log_evidence for _ in range(20)]
    exact = ep.propagate(C, regions, ep.no_sites(12)).log_evidences[-1]
    assert np.max(np.abs(np.array(values) - exact)) < 0.3


def test_a_negative_precision_is_counted_and_widens_the_process_only_where_allowed():
    C, regions = problem(4, n=5, n_labelled=0, variance=0.5)
    zeroed, allowed = (filter_matrix(C, regions, negative=way) for way in ("zero", "allow"))
    assert zeroed.n_negative > 0
    assert np.all(zeroed.variance <= np.diagonal(C) * (1 + 1e-12))
    assert np.all(allowed.variance[allowed.rows[:1]] > C[0, 0])
