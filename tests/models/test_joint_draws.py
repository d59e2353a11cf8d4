"""Joint draws of class probabilities: each row as predicted, and rows of one draw together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_ndtr, ndtri
from scipy.stats import norm, qmc
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from atoll.kernels.hyperparameters import gram, kernel_prior
from atoll.likelihoods.multinomial_probit import MultinomialProbit
from atoll.likelihoods.null_category import NullCategory, OneAgainstTheRest
from atoll.likelihoods.ordinal import Ordinal
from atoll.likelihoods.probit import Probit
from atoll.models.informative_vector import SitesPosterior
from atoll.models.posterior import FunctionPosterior
from atoll.models.probit_gp import LatentPosterior
from atoll.models.softmax_gp import SoftmaxPosterior

INPUTS = np.random.default_rng(0).normal(size=(7, 2))
NEW = np.concatenate([INPUTS[:2], INPUTS[2:4] + 0.2, [[5.0, 5.0]]])
PRIOR = kernel_prior(ConstantKernel(3.0) * RBF(1.2), INPUTS)
N_DRAWS = 4000
NUGGET = 1e-6


def states(n_states, *shape):
    """θ of some states, and values of z or g at the inputs; none fits the kernel badly."""
    rng = np.random.default_rng(1)
    theta = PRIOR.mean + 0.2 * rng.standard_normal((n_states, 2))
    factors = [np.linalg.cholesky(covariance_at_inputs(one, 0.0)) for one in theta]
    f = np.stack([lower @ rng.standard_normal((7, *shape)) for lower in factors])
    return theta, f


def covariance_at_inputs(theta, noise):
    C = gram(PRIOR, theta, INPUTS)
    return C + np.diag(np.full(7, NUGGET * np.exp(theta[0])) + noise)


def latent_posterior(likelihood, n_states=3, n_functions=1, phi=(), **variances):
    theta, z = states(n_states, *(() if n_functions == 1 else (n_functions,)))
    noise = variances.get("noise_variance", np.ones((n_states, 7)))
    weights = np.stack(
        [np.linalg.solve(covariance_at_inputs(*of), one) for *of, one in zip(theta, noise, z)]
    )
    parameters = np.tile(np.array(phi, dtype=float), (n_states, 1))
    return LatentPosterior(PRIOR, INPUTS, theta, weights, parameters, likelihood, **variances)


def softmax_posterior(n_classes, n_states=3):
    theta, g = states(n_states, n_classes)
    weights = [np.linalg.solve(covariance_at_inputs(t, 0.0), one) for t, one in zip(theta, g)]
    return SoftmaxPosterior(PRIOR, INPUTS, theta, np.stack(weights))


def sites_posterior(n_problems=1, width=0.0, negative=False):
    rng = np.random.default_rng(2)
    (theta,), _ = states(1)
    noise = [rng.gamma(2.0, size=7) for _ in range(n_problems)]
    if negative:
        noise[0][0] = -60.0
    f = rng.standard_normal((n_problems, 7))
    weights = [np.linalg.solve(covariance_at_inputs(theta, s), z) for s, z in zip(noise, f)]
    rates = np.log(np.full((n_problems, 2), 0.5))
    return SitesPosterior(
        PRIOR, theta, (INPUTS,) * n_problems, tuple(weights), tuple(noise),
        np.linspace(0.2, 0.5, n_problems),
        OneAgainstTheRest(np.full(n_problems, width), rates, 0.8),
    )  # fmt: skip


VARIANCE = {"auxiliary_variance": np.full((1, 7), 0.4)}
SITES = {"noise_variance": np.linspace(0.5, 3.0, 7)[None]}
# Without a null region, where the mean of the draws is the prediction.
PLAIN = {
    "probit": latent_posterior(Probit()),
    "probit by variational Bayes": latent_posterior(Probit(), 1, **VARIANCE),
    "probit by propagation": latent_posterior(Probit(), 1, **SITES),
    "multinomial": latent_posterior(MultinomialProbit(), n_functions=3),
    "multinomial by variational Bayes": latent_posterior(MultinomialProbit(), 1, 3, **VARIANCE),
    "ordinal": latent_posterior(Ordinal(0.0), phi=[-0.5, 0.1]),
    "softmax of two": softmax_posterior(2),
    "softmax": softmax_posterior(3),
    "sites": sites_posterior(),
    "sites of negative precision": sites_posterior(negative=True),
}
WITH_NULL = {
    "null category": latent_posterior(NullCategory(1.3, 2), 1),
    "null category of free width": latent_posterior(NullCategory(None, 2), 1, phi=[0.2]),
    "ordinal with a null width": latent_posterior(Ordinal(0.8), 1, phi=[-0.5, 0.1]),
    "sites with a null width": sites_posterior(width=1.3),
    "null category of three": latent_posterior(NullCategory(1.3, 3), 1, 3),
    "three classes against the rest": sites_posterior(3, width=0.7),
}
EVERY = pytest.mark.parametrize("posterior", (PLAIN | WITH_NULL).values(), ids=PLAIN | WITH_NULL)


def draw(posterior, n=N_DRAWS, seed=0, X=NEW):
    return posterior.draws(X, n, np.random.default_rng(seed))


def assert_mean(draws, exact, own_error=0.0):
    """Within six standard errors; draws spread evenly over states have smaller ones."""
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - exact) < 6 * error + own_error + 1e-9)


@EVERY
def test_it_answers_what_every_posterior_answers(posterior):
    assert isinstance(posterior, FunctionPosterior)
    K = posterior.log_proba(NEW).shape[1]
    mean, variance = posterior.latent(NEW)
    assert mean.shape == variance.shape
    for n in (1, 2, 20):  # fewer and more than there are states
        p = draw(posterior, n)
        assert p.shape == (n, len(NEW), K)
        np.testing.assert_allclose(p.sum(axis=2), 1.0, atol=1e-12)


@EVERY
def test_one_seed_gives_one_set_of_draws(posterior):
    np.testing.assert_array_equal(draw(posterior, 5), draw(posterior, 5))
    assert np.any(draw(posterior, 5) != draw(posterior, 5, seed=1))


@EVERY
def test_equal_rows_are_equal_in_every_draw(posterior):
    twice = draw(posterior, 5, X=NEW[[0, 2, 4, 0, 2, 4]])
    np.testing.assert_allclose(twice[:, :3], twice[:, 3:], rtol=1e-12)


@EVERY
def test_the_order_of_the_rows_does_not_matter(posterior):
    np.testing.assert_allclose(
        draw(posterior, 5, X=NEW[::-1])[:, ::-1], draw(posterior, 5), atol=1e-9
    )


@pytest.mark.parametrize("name", PLAIN)
def test_the_mean_of_the_draws_is_the_prediction(name):
    own_error = 0.02 if name == "softmax" else 0.0  # of three states' quasi-random averages
    assert_mean(draw(PLAIN[name]), np.exp(PLAIN[name].log_proba(NEW)), own_error)


@pytest.mark.parametrize("name", WITH_NULL)
def test_a_draw_is_normalised_by_itself_where_rows_may_be_null(name):
    """The mean is E p_k(f) / Σ_j p_j(f), by quasi-random draws of each row's f."""
    posterior = WITH_NULL[name]
    mean, variance = posterior.latent(NEW)
    points = norm.ppf(qmc.Sobol(mean.shape[1], rng=np.random.default_rng(0)).random(2**13))
    f = mean + np.sqrt(variance) * points[:, None, :]
    if isinstance(posterior, SitesPosterior):
        p = np.exp(posterior.likelihood.log_class_probabilities(f, 0 * f, np.zeros(0)))
    else:
        of_functions = f[..., 0] if f.shape[2] == 1 else f
        p = np.exp(
            posterior.likelihood.log_class_probabilities(
                of_functions, np.zeros(f.shape[:2]), posterior.region_parameters[0]
            )
        )
        p /= p.sum(axis=2, keepdims=True)
    assert_mean(draw(posterior), p.mean(axis=0), own_error=1e-3)


# Rows together ------------------------------------------------------------------------------------


def conditional_covariance(posterior, noise, of_known=0.0, theta=None):
    """K(X, X) − crossᵀ V^{-1} cross, and what an error in the known values adds."""
    theta = posterior.log_parameters[0] if theta is None else theta
    cross = gram(PRIOR, theta, INPUTS, NEW)
    pulled = np.linalg.solve(covariance_at_inputs(theta, noise), cross)
    return gram(PRIOR, theta, NEW) - cross.T @ pulled + of_known * pulled.T @ pulled


def assert_covariance(values, exact):
    """Of Gaussian draws, (n, m), whose sample covariances have known standard errors."""
    spread = np.diagonal(exact)
    error = np.sqrt((exact**2 + np.outer(spread, spread)) / len(values))
    assert np.all(np.abs(np.cov(values.T) - exact) < 6 * error)


@pytest.mark.parametrize(
    ("posterior", "noise", "of_known"),
    [
        (latent_posterior(Probit(), 1), 1.0, 0.0),
        (PLAIN["probit by variational Bayes"], 1.0, 0.4),
        (PLAIN["probit by propagation"], SITES["noise_variance"][0], 0.0),
    ],
    ids=["drawn", "variational Bayes", "propagation"],
)
def test_the_function_of_a_probit_has_its_joint_covariance(posterior, noise, of_known):
    p = draw(posterior)
    # From the smaller of the two, which keeps its digits.
    f = np.where(p[..., 1] < 0.5, ndtri(p[..., 1]), -ndtri(p[..., 0]))
    assert_covariance(f, conditional_covariance(posterior, noise, of_known))


@pytest.mark.parametrize("name", ["sites", "sites of negative precision"])
def test_the_function_of_sites_has_its_joint_covariance(name):
    posterior = PLAIN[name]
    p = draw(posterior)
    # P(yes) = Φ(f / σ), from the smaller of the two, which keeps its digits.
    f = np.sqrt(0.8) * np.where(p[..., 1] < 0.5, ndtri(p[..., 1]), -ndtri(p[..., 0]))
    assert_covariance(
        f,
        conditional_covariance(
            posterior, posterior.noise_variance[0], theta=posterior.log_parameters
        ),
    )


def test_contrasts_of_a_softmax_have_their_joint_covariance():
    posterior = softmax_posterior(3, n_states=1)
    p = draw(posterior)
    exact = 2.0 * conditional_covariance(posterior, 0.0)
    for k in (1, 2):
        contrast = np.log(p[:, 2:, k]) - np.log(p[:, 2:, 0])  # known exactly at the first rows
        assert_covariance(contrast, exact[2:, 2:])


def test_products_of_two_rows_probabilities_are_those_of_brute_force():
    """Three functions: E p_k(x) p_k(x') by quasi-random draws of all six values."""
    posterior = latent_posterior(MultinomialProbit(), 1, 3)
    rows = [2, 3]
    S = conditional_covariance(posterior, 1.0)[np.ix_(rows, rows)]
    ((mean, _),) = posterior.moments(NEW[rows])
    white = norm.ppf(qmc.Sobol(6, rng=np.random.default_rng(0)).random(2**13)).reshape(-1, 2, 3)
    f = mean + np.linalg.cholesky(S) @ white
    u = np.linspace(-8.0, 8.0, 41)
    wins = []
    for k in range(3):
        others = [i for i in range(3) if i != k]
        log_below = sum(log_ndtr(u + f[..., k, None] - f[..., i, None]) for i in others)
        wins.append((norm.pdf(u) * np.exp(log_below)).sum(axis=-1) * (u[1] - u[0]))
    p = np.stack(wins, axis=-1)
    ours = draw(posterior)[:, rows]
    assert_mean(ours[:, 0] * ours[:, 1], (p[:, 0] * p[:, 1]).mean(axis=0), own_error=1e-3)


def test_a_softmax_of_two_is_a_logistic_of_the_difference():
    posterior = softmax_posterior(2, n_states=1)
    (mean, variance), p = posterior.latent(NEW), draw(posterior)
    far = 4  # where the functions are those of the prior
    d = np.sqrt(2 * variance[far, 0]) * norm.ppf((np.arange(4000) + 0.5) / 4000)
    exact = expit(mean[far, 1] - mean[far, 0] + d).mean()
    assert_mean(p[:, far, 1], exact, own_error=1e-3)
