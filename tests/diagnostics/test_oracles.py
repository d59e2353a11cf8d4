from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

from atoll.diagnostics import normal_grid, quadrature_over_grid, quadrature_posterior

GRAMS = [
    np.array([[2.5]]),
    np.array([[1.0, 0.6], [0.6, 2.0]]),
    np.array([[4.0, 1.5, -0.5], [1.5, 2.0, 0.3], [-0.5, 0.3, 1.0]]),
]


def orthant_probability(covariance):
    """P(every coordinate > 0) of N(0, covariance) in one, two and three dimensions."""
    deviations = np.sqrt(np.diag(covariance))
    correlations = covariance / np.outer(deviations, deviations)
    angles = np.arcsin(correlations[np.triu_indices(len(covariance), 1)]).sum()
    if len(covariance) == 3:
        return 1 / 8 + angles / (4 * np.pi)
    return 0.5 ** len(covariance) + angles / (2 * np.pi)


@pytest.mark.parametrize("gram", GRAMS)
def test_a_flat_likelihood_gives_back_the_prior(gram):
    posterior = quadrature_posterior(lambda f: np.zeros(len(f)), gram)
    assert posterior.log_evidence == pytest.approx(0.0, abs=1e-10)
    np.testing.assert_allclose(posterior.mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(posterior.covariance, gram, atol=1e-10)
    assert posterior.probabilities.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("gram", GRAMS)
def test_a_gaussian_likelihood_gives_gaussian_process_regression(gram):
    n, noise = len(gram), 0.7
    y = np.array([0.8, -0.4, 1.3])[:n]
    posterior = quadrature_posterior(
        lambda f: stats.norm.logpdf(y, f, np.sqrt(noise)).sum(axis=1), gram
    )
    total = gram + noise * np.eye(n)
    exact_evidence = stats.multivariate_normal.logpdf(y, np.zeros(n), total)
    assert posterior.log_evidence == pytest.approx(exact_evidence, abs=1e-9)
    np.testing.assert_allclose(posterior.mean, gram @ np.linalg.solve(total, y), atol=1e-8)
    np.testing.assert_allclose(
        posterior.covariance, gram - gram @ np.linalg.solve(total, gram), atol=1e-8
    )


@pytest.mark.parametrize("gram", GRAMS)
@pytest.mark.parametrize("signs", [(1, 1, 1), (1, -1, 1), (-1, -1, 1)])
def test_the_probit_evidence_is_an_orthant_probability(gram, signs):
    s = np.array(signs[: len(gram)])
    posterior = quadrature_posterior(lambda f: log_ndtr(s * f).sum(axis=1), gram)
    exact = orthant_probability(np.outer(s, s) * gram + np.eye(len(gram)))
    assert np.exp(posterior.log_evidence) == pytest.approx(exact, abs=1e-8)
    assert posterior.log_evidence_error < 1e-6


def test_the_probit_posterior_of_one_label_has_known_moments():
    variance = 3.0
    posterior = quadrature_posterior(lambda f: log_ndtr(f[:, 0]), [[variance]])
    mean = variance / np.sqrt(1 + variance) * np.sqrt(2 / np.pi)
    assert posterior.mean[0] == pytest.approx(mean, abs=1e-10)
    assert posterior.covariance[0, 0] == pytest.approx(variance - mean**2, abs=1e-10)


@pytest.mark.parametrize("gram", GRAMS)
def test_a_threshold_without_noise_is_exact_when_it_is_a_breakpoint(gram):
    def every_value_positive(f):
        return np.where((f > 0).all(axis=1), 0.0, -np.inf)

    posterior = quadrature_posterior(every_value_positive, gram, breakpoints=[0.0])
    assert np.exp(posterior.log_evidence) == pytest.approx(orthant_probability(gram), abs=1e-9)


def test_a_threshold_that_is_not_a_breakpoint_shows_in_the_error_estimate():
    def positive(f):
        return np.where(f[:, 0] > 0.1, 0.0, -np.inf)

    blind = quadrature_posterior(positive, [[1.0]], n_nodes=50)
    aware = quadrature_posterior(positive, [[1.0]], n_nodes=50, breakpoints=[0.1])
    assert aware.log_evidence == pytest.approx(log_ndtr(-0.1), abs=1e-12)
    assert blind.log_evidence_error > 1e-3
    assert aware.log_evidence_error < 1e-9


def test_two_thresholds_and_a_kink_are_exact():
    # The band |f| < w is never seen, and the tails carry a weight |f|: a jump and a kink.
    width, deviations = 0.6, np.array([1.0, 1.4])

    def log_likelihood(f):
        size = np.abs(f)
        return np.where(size > width, np.log(np.maximum(size, width)), -np.inf).sum(axis=1)

    posterior = quadrature_posterior(
        log_likelihood, np.diag(deviations**2), breakpoints=[-width, 0.0, width]
    )
    exact = np.prod(deviations * 2 * stats.norm.pdf(width / deviations))
    assert np.exp(posterior.log_evidence) == pytest.approx(exact, abs=1e-10)
    np.testing.assert_allclose(posterior.mean, 0.0, atol=1e-12)


def test_breakpoints_sharpen_a_steep_likelihood():
    gram, steepness = GRAMS[2], 30.0
    options = {"n_nodes": 60}
    exact = orthant_probability(steepness**2 * gram + np.eye(3))

    def error(**more):
        posterior = quadrature_posterior(
            lambda f: log_ndtr(steepness * f).sum(axis=1), gram, **options, **more
        )
        return abs(np.exp(posterior.log_evidence) - exact)

    assert error(breakpoints=[0.0]) < 1e-5
    assert error() > 1e-4


def test_four_latent_values_of_two_functions():
    gram = np.kron(np.eye(2), [[0.6, 0.3], [0.3, 0.6]])
    softmax = quadrature_posterior(
        lambda f: -np.logaddexp(0, f[:, 2] - f[:, 0]) - np.logaddexp(0, f[:, 3] - f[:, 1]),
        gram,
        n_nodes=32,
    )
    # Only the two differences of the functions matter, and they are Gaussian too.
    logistic = quadrature_posterior(
        lambda d: -np.logaddexp(0, -d).sum(axis=1), [[1.2, 0.6], [0.6, 1.2]]
    )
    assert softmax.log_evidence == pytest.approx(logistic.log_evidence, abs=1e-8)
    np.testing.assert_allclose(softmax.mean[:2] - softmax.mean[2:], logistic.mean, atol=1e-7)


def test_expectations_agree_with_moments():
    posterior = quadrature_posterior(lambda f: log_ndtr(f).sum(axis=1), GRAMS[1])
    np.testing.assert_allclose(posterior.expectation(lambda f: f), posterior.mean, rtol=1e-12)
    second = posterior.expectation(lambda f: f[:, :, None] * f[:, None, :])
    np.testing.assert_allclose(
        second - np.outer(posterior.mean, posterior.mean), posterior.covariance, atol=1e-12
    )
    assert posterior.expectation(lambda f: np.ones(len(f))) == pytest.approx(1.0)


def test_a_prediction_is_a_ratio_of_orthant_probabilities():
    gram = GRAMS[1]
    posterior = quadrature_posterior(lambda f: log_ndtr(f[:, 0]), gram)
    predicted = posterior.expectation(lambda f: ndtr(f[:, 1]))
    assert predicted == pytest.approx(2 * orthant_probability(gram + np.eye(2)), abs=1e-9)


def test_a_grid_integrates_an_amplitude_out():
    y, noise, prior_deviation = 1.2, 0.5, 0.6

    def evidence(log_amplitude):
        return stats.norm.pdf(y, 0.0, np.sqrt(np.exp(2 * log_amplitude) + noise))

    def integral(function):
        return quad(
            lambda a: function(a) * stats.norm.pdf(a, 0.0, prior_deviation),
            -6,
            6,
            epsabs=1e-12,
            epsrel=1e-12,
        )[0]

    def shrinkage(log_amplitude):
        return np.exp(2 * log_amplitude) / (np.exp(2 * log_amplitude) + noise)

    def second_moment(log_amplitude):
        return shrinkage(log_amplitude) * noise + (shrinkage(log_amplitude) * y) ** 2

    nodes, log_weights = normal_grid(0.0, prior_deviation, n_nodes=41)
    mixed = quadrature_over_grid(
        log_weights,
        [
            quadrature_posterior(
                lambda f: stats.norm.logpdf(y, f[:, 0], np.sqrt(noise)), [[np.exp(2 * node)]]
            )
            for node in nodes[:, 0]
        ],
    )
    exact_evidence = integral(evidence)
    exact_mean = integral(lambda a: evidence(a) * shrinkage(a)) * y / exact_evidence
    exact_second = integral(lambda a: evidence(a) * second_moment(a)) / exact_evidence
    exact_amplitude = integral(lambda a: evidence(a) * a) / exact_evidence
    assert np.exp(mixed.log_evidence) == pytest.approx(exact_evidence, abs=1e-7)
    assert mixed.mean[0] == pytest.approx(exact_mean, abs=1e-6)
    assert mixed.covariance[0, 0] == pytest.approx(exact_second - exact_mean**2, abs=1e-6)
    assert mixed.expectation(lambda f: f[:, 0] ** 2) == pytest.approx(exact_second, abs=1e-6)
    assert mixed.node_probabilities @ nodes[:, 0] == pytest.approx(exact_amplitude, abs=1e-6)


def test_a_grid_of_two_normal_parameters_has_their_moments():
    nodes, log_weights = normal_grid([1.0, -2.0], [0.5, 3.0], n_nodes=7)
    weights = np.exp(log_weights)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(weights @ nodes, [1.0, -2.0], atol=1e-12)
    covariance = np.cov(nodes.T, aweights=weights, ddof=0)
    np.testing.assert_allclose(covariance, np.diag([0.25, 9.0]), atol=1e-12)


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        (np.eye(5), "1 to 4 rows"),
        (np.ones((2, 3)), "must be square"),
        (np.ones((2, 2)), "not positive definite"),
    ],
)
def test_an_impossible_gram_is_refused(gram, message):
    with pytest.raises(ValueError, match=message):
        quadrature_posterior(lambda f: np.zeros(len(f)), gram)


@pytest.mark.parametrize(
    ("log_likelihood", "message"),
    [
        (lambda f: f, r"one number a row"),
        (lambda f: np.full(len(f), np.nan), "NaN at f"),
        (lambda f: np.full(len(f), -np.inf), "-inf at every node"),
        (lambda f: stats.norm.logpdf(30.0, f[:, 0], 1.0), "raise half_width"),
    ],
    ids=["shape", "nan", "impossible", "far out"],
)
def test_a_likelihood_that_cannot_be_integrated_is_refused(log_likelihood, message):
    with pytest.raises(ValueError, match=message):
        quadrature_posterior(log_likelihood, [[1.0]])


def test_a_posterior_far_out_is_reached_by_a_wider_range():
    posterior = quadrature_posterior(
        lambda f: stats.norm.logpdf(30.0, f[:, 0], 1.0), [[1.0]], half_width=25.0
    )
    assert posterior.mean[0] == pytest.approx(15.0, abs=1e-8)


def test_a_grid_wants_one_weight_per_posterior():
    posterior = quadrature_posterior(lambda f: log_ndtr(f[:, 0]), [[1.0]])
    with pytest.raises(ValueError, match="one weight per posterior"):
        quadrature_over_grid([0.0, 0.0], [posterior])


def test_too_few_nodes_are_refused():
    with pytest.raises(ValueError, match="n_nodes is 3"):
        quadrature_posterior(lambda f: log_ndtr(f[:, 0]), [[1.0]], n_nodes=3)
