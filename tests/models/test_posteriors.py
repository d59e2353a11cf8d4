"""Posteriors of one, two and three rows against brute-force integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr, log_softmax
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from atoll.diagnostics import (
    ess_bulk,
    mcse_mean,
    normal_grid,
    quadrature_over_grid,
    quadrature_posterior,
)
from atoll.inference.chains import run_chains
from atoll.kernels.hyperparameters import gram, gram_function, kernel_prior
from atoll.likelihoods import probit
from atoll.models import null_category as null_model
from atoll.models import probit_gp, softmax_gp

ROWS = np.array([[0.0], [0.8], [-1.1]])
CODES = np.array([1, 0, 1])
FIXED = ConstantKernel(4.0, "fixed") * RBF(1.0, "fixed")
ONE_FREE = ConstantKernel(4.0, "fixed") * RBF(1.0)
NEW = np.array([[0.4]])


def draw(sampler, seed, n_samples=1000):
    return run_chains(
        sampler, n_chains=4, n_warmup=100, n_samples=n_samples, rng=np.random.default_rng(seed)
    ).draws


def null_category_log_likelihood(codes, is_labelled, width):
    """(m, n) latent values -> (m,), written out anew."""

    def log_likelihood(f):
        down, up = log_ndtr(-f - width / 2), log_ndtr(f - width / 2)
        labelled = np.where(codes == 1, up, down)
        return np.where(is_labelled, labelled, np.logaddexp(down, up)).sum(axis=1)

    return log_likelihood


def assert_means_agree(draws, exact):
    """draws (chain, draw, ...): within five of the chain's own standard errors."""
    assert np.min(ess_bulk(draws)) > 400
    error = np.abs(draws.mean(axis=(0, 1)) - exact)
    assert np.all(error < 5 * np.asarray(mcse_mean(draws))), (error, mcse_mean(draws))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_probit_posterior_mean_and_prediction(n):
    X, codes = ROWS[:n], CODES[:n]
    prior = kernel_prior(FIXED, X)
    draws = draw(probit_gp.sampler(X, codes, prior), seed=n)
    both = np.concatenate([X, NEW])
    exact = quadrature_posterior(
        lambda f: probit.log_prob(f, codes).sum(axis=1), gram(prior, np.array([]), X)
    )
    assert_means_agree(draws["latent"], exact.mean)
    assert_means_agree(draws["latent"] ** 2, np.diag(exact.covariance) + exact.mean**2)
    # Class probability at a new row: a ratio of two evidences.
    if n < 3:
        K = gram(prior, np.array([]), both)
        joint = quadrature_posterior(
            lambda f: probit.log_prob(f, np.append(codes, 1)).sum(axis=1), K
        )
        exact_probability = np.exp(joint.log_evidence - exact.log_evidence)
        assert_predictions_agree(draws, prior, X, exact_probability)


def assert_predictions_agree(draws, prior, X, exact):
    """P(class 1) at the new row, draw by draw."""
    n_chains, n_draws = draws["weights"].shape[:2]
    posterior = probit_gp.LatentPosterior(
        prior,
        X,
        draws["log_parameters"].reshape(n_chains * n_draws, -1),
        draws["weights"].reshape(n_chains * n_draws, -1),
    )
    moments = probit_gp.latent_moments(posterior, NEW)
    p = [np.exp(probit.log_class_probabilities(*pair))[0, 1] for pair in moments]
    assert_means_agree(np.reshape(p, (n_chains, n_draws)), exact)
    assert np.exp(probit_gp.predict_log_proba(posterior, NEW))[0, 1] == pytest.approx(np.mean(p))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_null_category_posterior_mean_and_class_of_the_unlabelled(n):
    X, width = ROWS[:n], 1.5
    codes = CODES[:n]
    is_labelled = np.array([True, False, False])[:n]
    prior = kernel_prior(FIXED, X)
    draws = draw(null_model.sampler(X, codes, is_labelled, prior, width), seed=10 + n)
    K = gram(prior, np.array([]), X)
    exact = quadrature_posterior(null_category_log_likelihood(codes, is_labelled, width), K)
    assert_means_agree(draws["latent"], exact.mean)
    for i in np.flatnonzero(~is_labelled):
        shown, as_one = is_labelled.copy(), codes.copy()
        shown[i], as_one[i] = True, 1
        joint = quadrature_posterior(null_category_log_likelihood(as_one, shown, width), K)
        exact_probability = np.exp(joint.log_evidence - exact.log_evidence)
        row = int((~is_labelled[:i]).sum())
        assert_means_agree(draws["unlabelled_probabilities"][:, :, row, 1], exact_probability)


@pytest.mark.parametrize("model", ["probit", "null category"])
def test_a_free_length_scale_agrees_with_a_grid(model):
    X, codes = ROWS[:2], np.array([1, 0])
    prior = kernel_prior(ONE_FREE, X)
    is_labelled = np.array([True, model == "probit"])
    width = 0.0 if model == "probit" else 1.5
    sampler = (
        probit_gp.sampler(X, codes, prior)
        if model == "probit"
        else null_model.sampler(X, codes, is_labelled, prior, width)
    )
    draws = draw(sampler, seed=20)
    nodes, log_weights = normal_grid(prior.mean, prior.sd, 25)
    exact = quadrature_over_grid(
        log_weights,
        [
            quadrature_posterior(
                null_category_log_likelihood(codes, is_labelled, width),
                gram(prior, theta, X),
                n_nodes=60,
            )
            for theta in nodes
        ],
    )
    assert_means_agree(draws["latent"], exact.mean)
    assert_means_agree(draws["log_parameters"], exact.node_probabilities @ nodes)


@pytest.mark.parametrize(("n", "n_classes"), [(1, 2), (1, 3), (2, 2)])
def test_softmax_posterior_mean_and_class_probability(n, n_classes):
    X, codes = ROWS[:n], np.array([1, 0])[:n]
    prior = kernel_prior(FIXED, X)
    draws = draw(softmax_gp.sampler(X, codes, prior, n_classes), seed=30 + n, n_samples=2000)
    K = gram_function(prior, X)(np.array([]))

    def log_likelihood(f):  # functions side by side: (m, K · n)
        g = f.reshape(len(f), n_classes, n).swapaxes(1, 2)
        log_p = log_softmax(g, axis=2)
        return sum(log_p[:, i, codes[i]] for i in range(n))

    exact = quadrature_posterior(log_likelihood, np.kron(np.eye(n_classes), K))
    assert_means_agree(draws["latent"], exact.mean.reshape(n_classes, n).T)
    p = np.exp(log_softmax(draws["latent"], axis=3))[:, :, 0, 1]
    exact_p = exact.expectation(
        lambda f: np.exp(log_softmax(f.reshape(len(f), n_classes, n)[:, :, 0], axis=1))[:, 1]
    )
    assert_means_agree(p, exact_p)
