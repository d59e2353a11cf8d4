"""Evidence and marginals of expectation propagation, by programs that share nothing with ours.

The evidence of a probit Gaussian process is the chance that z ~ N(0, C + I) has the signs of the
labels, which SciPy finds by Genz's method for dozens of rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from atoll.inference import ep
from atoll.likelihoods import probit


def problem(n, seed):
    rng = np.random.default_rng([5, n, seed])
    X = rng.standard_normal((n, 2))
    codes = (X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.standard_normal(n) > 0).astype(int)
    variance, length = np.exp(rng.uniform(0, 2)), np.exp(rng.uniform(-0.5, 0.7))
    return X, codes, variance, length


def propagated(X, codes, variance, length):
    C = variance * np.exp(-0.5 * cdist(X, X, "sqeuclidean") / length**2)
    return C, ep.propagate(C, probit.regions(codes), ep.no_sites(len(X)), tolerance=1e-10)


@pytest.mark.parametrize(
    ("n", "seed"), [(6, 0), (12, 1), pytest.param(30, 2, marks=pytest.mark.slow)]
)
def test_the_evidence_is_near_the_orthants_mass(n, seed):
    """Expectation propagation is an approximation: to a hundredth of a nat for each label."""
    X, codes, variance, length = problem(n, seed)
    C, found = propagated(X, codes, variance, length)
    signs = np.where(codes == 1, 1.0, -1.0)
    covariance = signs[:, None] * (C + np.eye(n)) * signs
    estimates = [
        stats.multivariate_normal(np.zeros(n), covariance, seed=i).cdf(
            np.zeros(n), rng=np.random.default_rng(i)
        )
        for i in range(4)
    ]
    log_mass = np.log(np.mean(estimates))
    error = np.std(estimates) / np.mean(estimates)
    assert error < 0.02
    assert abs(found.log_evidences[-1] - log_mass) < 0.01 * n + 6 * error


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 60, 100])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_marginals_and_evidence_are_those_of_gpy(n, seed):
    GPy = pytest.importorskip("GPy", reason="GPy is not installed: make proof-referees installs it")
    X, codes, variance, length = problem(n, seed)
    kernel = GPy.kern.RBF(2, variance=variance, lengthscale=length)
    model = GPy.core.GP(
        X, codes[:, None], kernel=kernel, likelihood=GPy.likelihoods.Bernoulli(),
        inference_method=GPy.inference.latent_function_inference.EP(epsilon=1e-12),
    )  # fmt: skip
    _, found = propagated(X, codes, variance, length)
    assert found.log_evidences[-1] == pytest.approx(float(model.log_likelihood()), abs=1e-6)
    mean, spread = model._raw_predict(X)
    np.testing.assert_allclose(found.mean, mean[:, 0], atol=1e-5)
    np.testing.assert_allclose(found.variance, spread[:, 0], atol=1e-5)
