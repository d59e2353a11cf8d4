"""Expectation propagation against exact answers on a few rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import norm

from atoll.core.regions import Intervals
from atoll.diagnostics import quadrature_posterior
from atoll.inference import ep
from atoll.kernels.hyperparameters import gram_function, gram_gradient_function, kernel_prior
from atoll.likelihoods import ordinal, probit
from atoll.models import ordinal_gp, probit_gp

ROWS = np.array([[0.0], [0.8], [-1.1]])
CUTS = np.array([-0.7, 1.3])
RANKS = np.array([1, 0, 2])


def covariance(n, variance=4.0):
    prior = kernel_prior("isotropic", ROWS)
    return gram_function(prior, ROWS[:n])(np.array([np.log(variance), 0.0]))


def regions_of(kind, n):
    if kind == "probit":
        return probit.regions(np.array([1, 0, 1])[:n])
    return ordinal.regions(RANKS[:n], np.ones(n, bool), CUTS)


def exact(kind, n, C):
    """Brute force over f, with likelihoods written out anew."""
    if kind == "probit":
        signs = np.array([1.0, -1.0, 1.0])[:n]
        return quadrature_posterior(lambda f: log_ndtr(signs * f).sum(axis=1), C)
    lower, upper = np.append(-np.inf, CUTS)[RANKS[:n]], np.append(CUTS, np.inf)[RANKS[:n]]
    return quadrature_posterior(
        lambda f: np.log(np.maximum(norm.cdf(upper - f) - norm.cdf(lower - f), 1e-300)).sum(axis=1),
        C,
    )


KIND = pytest.mark.parametrize("kind", ["probit", "ordinal"])


def moments(found, C):
    return C @ found.weights, C - C @ found.site_inverse @ C


@KIND
def test_one_row_is_exact(kind):
    C = covariance(1)
    found, answer = ep.propagate(C, regions_of(kind, 1), ep.no_sites(1)), exact(kind, 1, C)
    mean, S = moments(found, C)
    assert found.converged
    assert found.log_evidences[-1] == pytest.approx(answer.log_evidence, abs=1e-7)
    np.testing.assert_allclose(mean, answer.mean, atol=1e-6)
    np.testing.assert_allclose(S, answer.covariance, atol=1e-6)


@KIND
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("variance", [0.5, 4.0, 30.0])
def test_a_few_rows_are_nearly_exact(kind, n, variance):
    """Measured at most: 1.8e-3 in the log evidence, 4e-3 deviations in means, 2 % in variances."""
    C = covariance(n, variance)
    found, answer = ep.propagate(C, regions_of(kind, n), ep.no_sites(n)), exact(kind, n, C)
    mean, S = moments(found, C)
    deviations = np.sqrt(np.diag(answer.covariance))
    assert found.converged
    assert found.log_evidences[-1] == pytest.approx(answer.log_evidence, abs=3e-3)
    assert np.max(np.abs(mean - answer.mean) / deviations) < 0.02
    np.testing.assert_allclose(np.diag(S), deviations**2, rtol=0.03)


def test_a_site_matches_the_moments_of_cavity_times_likelihood():
    C, n = covariance(3), 3
    regions = regions_of("ordinal", n)
    found = ep.propagate(C, regions, ep.no_sites(n), tolerance=1e-13)
    mean, S = moments(found, C)
    tau, nu = found.sites
    f = np.linspace(-30, 30, 60_001)
    for i in range(n):
        precision = 1 / S[i, i] - tau[i]
        centre = (mean[i] / S[i, i] - nu[i]) / precision
        row = Intervals(*(part[[i]] for part in regions))
        likelihood = np.exp([row.log_masses(np.array([x]), 1.0)[0, 0] for x in f[::20]])
        weight = likelihood * norm.pdf(f[::20], centre, precision**-0.5)
        tilted = np.average(f[::20], weights=weight)
        assert tilted == pytest.approx(mean[i], abs=1e-5)
        spread = np.average((f[::20] - tilted) ** 2, weights=weight)
        assert spread == pytest.approx(S[i, i], abs=1e-5)


@KIND
def test_the_start_does_not_matter(kind):
    C, n = covariance(3, 20.0), 3
    rng = np.random.default_rng(0)
    ends = [
        ep.propagate(C, regions_of(kind, n), start, tolerance=1e-12).log_evidences[-1]
        for start in (ep.no_sites(n), ep.Sites(rng.gamma(1.0, size=n), rng.normal(size=n)))
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-8)


@pytest.mark.parametrize("seed", range(30))
def test_random_problems_converge_and_have_finite_posteriors(seed):
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(2, 40)), int(rng.integers(2, 6))
    X = rng.normal(size=(n, 2))
    prior = kernel_prior("isotropic", X)
    theta = np.array([rng.uniform(-2, 8), rng.uniform(-1.5, 1.5)])
    codes = rng.integers(K, size=n)
    cuts = np.cumsum(rng.gamma(1.0, size=K - 1)) - 2.0
    found = ep.propagate(
        gram_function(prior, X)(theta),
        ordinal.regions(codes, np.ones(n, bool), cuts),
        ep.no_sites(n),
    )
    assert found.converged
    assert np.isfinite(found.weights).all()
    assert np.all(found.sites.precision > 0)


@KIND
def test_the_gradient_of_the_evidence_matches_finite_differences(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 2))
    prior = kernel_prior("ard", X)
    codes = rng.integers(2 if kind == "probit" else 3, size=12)
    family = (
        probit_gp.family(codes, 2)
        if kind == "probit"
        else ordinal_gp.family(X, codes, np.ones(12, bool), prior, 3, 0.0)
    )
    gram, slope_of = gram_function(prior, X), gram_gradient_function(prior, X)
    x = np.concatenate([prior.mean, family.mean]) + 0.2

    def evidence(x):
        found = ep.propagate(
            gram(x[:3]), family.at(x[3:]).regions, ep.no_sites(12),
            tolerance=1e-13, max_iterations=2000,
        )  # fmt: skip
        return found.log_evidences[-1], found

    _, found = evidence(x)
    b = found.weights
    M = 0.5 * (np.outer(b, b) - found.site_inverse)
    ours = np.concatenate(
        [slope_of(x[:3], gram(x[:3]), M), family.gradient(x[3:], found.gradients)]
    )
    step = 1e-5
    finite = [
        (evidence(x + step * e)[0] - evidence(x - step * e)[0]) / (2 * step) for e in np.eye(len(x))
    ]
    np.testing.assert_allclose(ours, finite, rtol=1e-5, atol=1e-6)


def test_the_maximum_raises_the_evidence_at_every_iteration():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 2))
    prior = kernel_prior("isotropic", X)
    codes = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [-0.5, 0.7])
    family = ordinal_gp.family(X, codes, np.ones(40, bool), prior, 3, 0.0)
    result = ep.maximise(gram_function(prior, X), gram_gradient_function(prior, X), prior, family)
    assert result.converged
    assert np.all(np.diff(result.log_evidences) >= 0)
    assert result.log_evidences[-1] > result.log_evidences[0]
