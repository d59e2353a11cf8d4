"""Every likelihood against quadrature, and a test that none is forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_ndtr, log_softmax
from scipy.stats import norm

from atoll.core.regions import log_region_probability
from atoll.diagnostics import quadrature_posterior
from atoll.likelihoods import LIKELIHOODS, null_category, probit, softmax

MEANS, VARIANCES = [-3.0, 0.0, 0.4, 2.0], [1e-3, 0.5, 4.0, 30.0]
GRID = [(m, v) for m in MEANS for v in VARIANCES]


def expectation(log_prob, mean, variance):
    """E exp(log_prob(f)), f ~ N(mean, diag(variance)), by brute force; (m, n) -> (m,)."""
    mean, variance = np.atleast_1d(mean), np.atleast_1d(variance)
    posterior = quadrature_posterior(lambda f: log_prob(f + mean), np.diag(variance))
    return np.exp(posterior.log_evidence)


def probit_oracle(mean, variance):
    ours = np.exp(probit.log_class_probabilities(np.array(mean), np.array(variance)))
    exact = [
        expectation(lambda f, k=k: probit.log_prob(f[:, 0], np.array([k])), mean, variance)
        for k in range(2)
    ]
    return ours, exact


def null_category_oracle(mean, variance, width=1.4):
    ours = np.exp(null_category.log_class_probabilities(np.array(mean), np.array(variance), width))
    exact = [
        expectation(lambda f, s=s: log_ndtr(s * f[:, 0] - width / 2), mean, variance)
        for s in (-1, 1)
    ]
    return ours, exact


def softmax_oracle(mean, variance):
    means, variances = np.array([mean, 0.3]), np.array([variance, 0.7])
    ours = np.exp(softmax.log_class_probabilities(means, variances))
    exact = [
        expectation(lambda f, k=k: log_softmax(f, axis=1)[:, k], means, variances) for k in range(2)
    ]
    return ours, exact


ORACLES = {
    "probit": (probit_oracle, 1e-9),
    "null_category": (null_category_oracle, 1e-9),
    "softmax": (softmax_oracle, 1e-7),
}


def test_every_likelihood_has_a_quadrature_oracle():
    assert ORACLES.keys() == LIKELIHOODS.keys()


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize(("mean", "variance"), GRID)
def test_class_probabilities_match_quadrature(name, mean, variance):
    oracle, tolerance = ORACLES[name]
    ours, exact = oracle(mean, variance)
    np.testing.assert_allclose(ours, exact, atol=tolerance)


def test_three_class_softmax_is_within_its_quasi_monte_carlo_error():
    means, variances = np.array([0.5, -1.0, 1.0]), np.array([2.0, 1.0, 3.0])
    exact = [
        expectation(lambda f, k=k: log_softmax(f, axis=1)[:, k], means, variances) for k in range(3)
    ]
    one = np.exp(softmax.log_class_probabilities(means, variances))
    np.testing.assert_allclose(one, exact, atol=0.02)
    # Scrambled anew for each posterior draw, the error averages out.
    hundred = [
        np.exp(softmax.log_class_probabilities(means, variances, scramble=draw))
        for draw in range(100)
    ]
    np.testing.assert_allclose(np.mean(hundred, axis=0), exact, atol=1e-3)


@pytest.mark.parametrize("sd", [1.0, 9.9, 10.1, 30.0, 1e3])
@pytest.mark.parametrize("difference", [-20.0, 0.0, 1.0, 50.0])
def test_two_class_softmax_is_exact_for_any_variance(difference, sd):
    mean, variance = np.array([0.0, difference]), np.array([0.3 * sd**2, 0.7 * sd**2])
    ours = np.exp(softmax.log_class_probabilities(mean, variance))[1]
    d = np.linspace(-10 * sd, 10 * sd, 400_001)  # steps far below 1 and sd: a rule of brute force
    exact = np.trapezoid(norm.pdf(d, scale=sd) * expit(d + difference), d)
    assert ours == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_softmax_probabilities_are_equal_where_the_classes_are(n_classes):
    p = np.exp(softmax.log_class_probabilities(np.zeros(n_classes), np.full(n_classes, 50.0)))
    np.testing.assert_allclose(p, 1 / n_classes, atol=1e-12)


def test_probabilities_sum_to_one_at_random_means_and_variances():
    rng = np.random.default_rng(0)
    mean, variance = 50 * rng.standard_normal(100_000), 10 ** rng.uniform(-6, 6, 100_000)
    p = np.exp(probit.log_class_probabilities(mean, variance))
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12
    p = np.exp(null_category.log_class_probabilities(mean, variance, 0.0))
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12
    means = 50 * rng.standard_normal((5000, 4))
    variances = 10 ** rng.uniform(-6, 6, (5000, 4))
    p = np.exp(softmax.log_class_probabilities(means, variances))
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12


@pytest.mark.parametrize("f", [-1e4, 1e4])
def test_nothing_is_nan_far_out(f):
    latent, codes = np.array([f]), np.array([1])
    seen = np.array([False])
    assert np.isfinite(probit.log_prob(latent, codes)).all()
    assert np.isfinite(null_category.log_prob(latent, codes, seen, 1.0)).all()
    assert np.isfinite(softmax.log_prob(np.array([[f, -f]]), codes)).all()
    assert np.isfinite(probit.log_class_probabilities(latent, np.ones(1))).all()
    assert np.isfinite(softmax.log_class_probabilities(np.array([[f, -f]]), np.ones((1, 2)))).all()


def test_softmax_gradient_matches_finite_differences():
    rng = np.random.default_rng(1)
    g, codes = rng.standard_normal((4, 3)), np.array([0, 2, 1, 1])
    slope = softmax.gradient(g, codes)
    step = 1e-6
    for index in np.ndindex(g.shape):
        up, down = g.copy(), g.copy()
        up[index] += step
        down[index] -= step
        finite = (softmax.log_prob(up, codes).sum() - softmax.log_prob(down, codes).sum()) / (
            2 * step
        )
        assert slope[index] == pytest.approx(finite, rel=1e-6, abs=1e-8)


def test_probit_regions_carry_the_probit_likelihood():
    f, codes = np.linspace(-4, 4, 9), np.arange(9) % 2
    np.testing.assert_allclose(
        log_region_probability(probit.regions(codes), f, 1.0), probit.log_prob(f, codes)
    )


def test_null_width_zero_and_all_labelled_is_the_probit_likelihood():
    f, codes = np.linspace(-4, 4, 9), np.arange(9) % 2
    ours = null_category.log_prob(f, codes, np.ones(9, dtype=bool), 0.0, (0.0, 0.0))
    np.testing.assert_allclose(ours, probit.log_prob(f, codes), rtol=1e-12)


def test_labels_their_absence_and_the_null_region_exhaust_all_mass():
    """Σ over what may be seen of one row, and the null region, is one (paper 001, eq. 3)."""
    f, width, rates = np.array([0.3]), 1.2, (0.3, 0.8)
    yes, no = np.array([True]), np.array([False])
    seen = [null_category.log_prob(f, np.array([k]), yes, width, rates) for k in (0, 1)]
    unseen = null_category.log_prob(f, np.array([0]), no, width, rates)
    null = np.exp(log_ndtr(0.6 - 0.3)) - np.exp(log_ndtr(-0.6 - 0.3))
    assert float(np.exp([*seen, unseen]).sum() + null) == pytest.approx(1.0, abs=1e-12)
