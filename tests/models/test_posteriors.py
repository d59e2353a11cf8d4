"""Posteriors of one, two and three rows against brute-force integration.

A mean agrees when it lies within four of its Monte Carlo standard errors. Where one does not, the
question is put again to a chain eight times as long with another seed: chance does not err twice,
and a bias shows all the better.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import log_ndtr, log_softmax
from scipy.stats import norm, qmc
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from atoll.core.regions import fixed_regions
from atoll.diagnostics import (
    ess_bulk,
    mcse_mean,
    normal_grid,
    quadrature_over_grid,
    quadrature_posterior,
)
from atoll.inference import ep
from atoll.inference.chains import run_chains
from atoll.kernels.hyperparameters import gram, gram_function, kernel_prior
from atoll.likelihoods import multinomial_probit, null_category, ordinal, probit
from atoll.models import null_category as null_model
from atoll.models import ordinal_gp, probit_gp, softmax_gp

ROWS = np.array([[0.0], [0.8], [-1.1]])
CODES = np.array([1, 0, 1])
RANKS = np.array([1, 0, 2])
FIXED = ConstantKernel(4.0, "fixed") * RBF(1.0, "fixed")
ONE_FREE = ConstantKernel(4.0, "fixed") * RBF(1.0)
NEW = np.array([[0.4]])
NOTHING = np.zeros(0)


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


def draw(sampler, seed, n_samples):
    return run_chains(
        sampler, n_chains=4, n_warmup=30, n_samples=n_samples, rng=np.random.default_rng(seed)
    ).draws


def assert_means_agree(sampler, seed, exact_means, n_samples=150):
    """exact_means : draws -> pairs of (chain, draw, ...) values and what their mean should be."""
    for attempt in (1, 8):
        draws = draw(sampler, seed + 1000 * attempt, attempt * n_samples)
        worst = 0.0
        for name, (values, exact, own_error) in exact_means(draws).items():
            assert np.min(ess_bulk(values)) > 100, name
            error = np.hypot(mcse_mean(values), own_error)
            worst = max(worst, float(np.max(np.abs(values.mean(axis=(0, 1)) - exact) / error)))
        if worst < 4.0:
            return
    raise AssertionError(f"{worst:.1f} standard errors apart, twice")


# Exact answers ------------------------------------------------------------------------------------


class Exact(NamedTuple):
    """Of functions at the rows and at a new one: their means, and what is asked beside them.

    latent : as the draws of f
    new : (K,) class probabilities of the new row
    unlabelled : (u, K) of the unlabelled rows
    error : one standard error of the integration itself, for all of them
    """

    latent: np.ndarray
    new: np.ndarray
    unlabelled: np.ndarray
    error: float


def brute_force(prior, X, n_functions, log_prob_of_rows, log_classes, unlabelled, n_points=2**12):
    """Average over quasi-random draws of the prior, weighted by the likelihood; eight scrambles.

    log_prob_of_rows : (m, n, F) -> (m,), written out here; log_classes : (m, F) -> (m, K)
    """
    both = np.concatenate([X, NEW])
    L = np.linalg.cholesky(gram_function(prior, both)(NOTHING))
    n = len(X)
    estimates = []
    for scramble in range(8):
        sobol = qmc.Sobol((n + 1) * n_functions, rng=np.random.default_rng(scramble))
        white = norm.ppf(np.clip(sobol.random(n_points), 1e-12, 1 - 1e-12))
        f = np.einsum("ij,mjk->mik", L, white.reshape(-1, n + 1, n_functions))
        weights = np.exp(log_prob_of_rows(f[:, :n]))
        weights /= weights.sum()
        at_new = np.exp(log_classes(f[:, n]))
        parts = [
            np.tensordot(weights, f[:, :n], 1).ravel(),
            weights @ at_new / (weights @ at_new).sum(),
        ]
        for row in unlabelled:
            p = np.exp(log_classes(f[:, row]))
            parts.append(weights @ (p / p.sum(axis=1, keepdims=True)))
        estimates.append(np.concatenate(parts))
    mean, error = np.mean(estimates, axis=0), np.std(estimates, axis=0, ddof=1).max() / np.sqrt(8)
    K = at_new.shape[1]
    return Exact(
        mean[: n * n_functions].reshape(n, n_functions),
        mean[n * n_functions : n * n_functions + K],
        mean[n * n_functions + K :].reshape(-1, K),
        error,
    )


def questions(prior, X, exact, likelihood, phi=NOTHING):
    """What is compared: f, f's probabilities at a new row, and those of the unlabelled rows."""

    def exact_means(draws):
        n_chains, n_draws = draws["log_likelihood"].shape
        flat = {name: v.reshape(n_chains * n_draws, *v.shape[2:]) for name, v in draws.items()}
        posterior = probit_gp.LatentPosterior(
            prior, X, flat["log_parameters"], flat["weights"], flat["region_parameters"], likelihood
        )
        # Averages of P(class, not null), normalised after: a ratio, whose noise is its numerator's.
        p = np.array(
            [
                np.exp(likelihood.log_class_probabilities(mean, variance, phi))[0]
                for mean, variance in posterior.moments(NEW)
            ]
        )
        p = (p / p.sum(axis=1).mean()).reshape(n_chains, n_draws, -1)
        f = draws["latent"].reshape(n_chains, n_draws, len(X), -1)
        named = {
            "f": (f, exact.latent, exact.error),
            "probabilities of a new row": (p, exact.new, exact.error),
        }
        if "unlabelled_probabilities" in draws and len(exact.unlabelled):
            values = draws["unlabelled_probabilities"]
            named["unlabelled rows"] = (values, exact.unlabelled, exact.error)
        return named

    return exact_means


# Two classes, one function ------------------------------------------------------------------------


def null_log_prob(codes, is_labelled, width):
    """(m, n, 1) latent values -> (m,), written out anew; width 0 and all labelled: the probit."""

    def log_prob(f):
        f = f[..., 0]
        down, up = log_ndtr(-f - width / 2), log_ndtr(f - width / 2)
        labelled = np.where(codes == 1, up, down)
        return np.where(is_labelled, labelled, np.logaddexp(down, up)).sum(axis=1)

    return log_prob


@pytest.mark.parametrize("n", [1, slow(2), 3])
def test_probit_gp_of_two_classes(n):
    X, codes, all_labelled = ROWS[:n], CODES[:n], np.ones(n, bool)
    prior = kernel_prior(FIXED, X)
    exact = brute_force(
        prior, X, 1, null_log_prob(codes, all_labelled, 0.0),
        lambda f: np.stack([log_ndtr(-f[:, 0]), log_ndtr(f[:, 0])], axis=1), [],
    )  # fmt: skip
    assert_means_agree(
        probit_gp.sampler(X, codes, prior), n,
        questions(prior, X, exact, probit.Probit()),
    )  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 3])
def test_quasi_random_integration_agrees_with_nested_quadrature(n):
    """The yardstick against another one, where both can be had."""
    X, codes, all_labelled = ROWS[:n], CODES[:n], np.ones(n, bool)
    prior = kernel_prior(FIXED, X)
    ours = brute_force(
        prior, X, 1, null_log_prob(codes, all_labelled, 0.0), lambda f: np.zeros((len(f), 2)), [],
        n_points=2**14,
    )  # fmt: skip
    exact = quadrature_posterior(
        lambda f: probit.log_prob(f, codes).sum(axis=1), gram_function(prior, X)(NOTHING)
    )
    np.testing.assert_allclose(ours.latent[:, 0], exact.mean, atol=8 * ours.error + 1e-6)
    assert ours.error < 2e-3


@pytest.mark.parametrize("n", [1, slow(2), 3])
def test_null_category_of_two_classes(n):
    X, width, codes = ROWS[:n], 1.5, CODES[:n]
    is_labelled = np.array([True, False, False])[:n]
    prior = kernel_prior(FIXED, X)

    def log_classes(f):
        return np.stack([log_ndtr(-f[:, 0] - width / 2), log_ndtr(f[:, 0] - width / 2)], axis=1)

    exact = brute_force(
        prior, X, 1, null_log_prob(codes, is_labelled, width), log_classes,
        np.flatnonzero(~is_labelled),
    )  # fmt: skip
    family = null_category.family(codes, is_labelled, 2, width)
    assert_means_agree(
        null_model.sampler(X, codes, is_labelled, prior, family), 10 + n,
        questions(prior, X, exact, null_category.NullCategory(width, 2)),
    )  # fmt: skip


# Three classes, one function a class --------------------------------------------------------------


def log_wins(f, margin):
    """(m, 3) -> (m, 3) log P(z_k > z_i + margin): a brute-force rule, written out anew."""
    u = np.linspace(-8.0, 8.0, 41)
    log_p = []
    for k in range(3):
        ahead = [f[:, k, None] - f[:, i, None] - margin + u for i in range(3) if i != k]
        integrand = norm.pdf(u) * np.exp(sum(log_ndtr(a) for a in ahead))
        log_p.append(np.log(integrand.sum(axis=1) * (u[1] - u[0])))
    return np.stack(log_p, axis=1)


def margin_log_prob(codes, is_labelled, margin):
    def log_prob(f):
        total = 0.0
        for n, code in enumerate(codes):
            log_p = log_wins(f[:, n], margin)
            total = total + (log_p[:, code] if is_labelled[n] else np.logaddexp.reduce(log_p, 1))
        return total

    return log_prob


@pytest.mark.parametrize("n", [slow(1), 2, slow(3)])
def test_probit_gp_of_three_classes(n):
    X, codes = ROWS[:n], RANKS[:n]
    prior = kernel_prior(FIXED, X)
    exact = brute_force(
        prior, X, 3, margin_log_prob(codes, np.ones(n, bool), 0.0), lambda f: log_wins(f, 0.0), []
    )
    assert_means_agree(
        probit_gp.sampler(X, codes, prior, 3), 20 + n,
        questions(prior, X, exact, multinomial_probit.MultinomialProbit()),
    )  # fmt: skip


@pytest.mark.parametrize(("n", "variance"), [(2, 4.0), (3, 0.5), slow(2, 0.5), slow(3, 4.0)])
def test_propagation_of_three_classes_is_near_the_exact_posterior(n, variance):
    """One site per row for all classes. Measured at most: .017 in a class probability, .010 prior
    deviations in a mean; the site's one precision stands for a K × K matrix."""
    X, codes = ROWS[:n], RANKS[:n]
    prior = kernel_prior(ConstantKernel(variance, "fixed") * RBF(1.0, "fixed"), X)
    exact = brute_force(
        prior, X, 3, margin_log_prob(codes, np.ones(n, bool), 0.0), lambda f: log_wins(f, 0.0), [],
        n_points=2**13,
    )  # fmt: skip
    result = probit_gp.approximate(ep.maximise, X, probit_gp.family(codes, 3), prior)
    assert result.converged
    posterior = probit_gp.approximate_posterior(result, X, prior, probit_gp.likelihood(3))
    assert np.max(np.abs(np.exp(posterior.log_proba(NEW)) - exact.new)) < 0.02 + 5 * exact.error
    mean, _ = posterior.latent(X)
    apart = np.abs(mean - (exact.latent - exact.latent.mean(axis=1, keepdims=True)))
    assert np.max(apart) < 0.02 * np.sqrt(variance) + 5 * exact.error


@pytest.mark.parametrize("n", [slow(1), slow(2), slow(3)])
def test_null_category_of_three_classes(n):
    X, codes, width = ROWS[:n], RANKS[:n], 1.0
    is_labelled = np.array([True, False, True])[:n]
    prior = kernel_prior(FIXED, X)
    margin = width / np.sqrt(2)
    exact = brute_force(
        prior, X, 3, margin_log_prob(codes, is_labelled, margin), lambda f: log_wins(f, margin),
        np.flatnonzero(~is_labelled),
    )  # fmt: skip
    family = null_category.family(codes, is_labelled, 3, width)
    assert_means_agree(
        null_model.sampler(X, codes, is_labelled, prior, family), 30 + n,
        questions(prior, X, exact, null_category.NullCategory(width, 3)),
    )  # fmt: skip


# Ordinal, cut points held -------------------------------------------------------------------------


@pytest.mark.parametrize("n", [slow(1), 2, slow(3)])
@pytest.mark.parametrize(("n_classes", "width"), [(2, 0.0), (3, 0.0), (3, 0.8)])
def test_ordinal_gp(n, n_classes, width):
    X, b = ROWS[:n], np.array([-0.7, 1.3])[: n_classes - 1]
    codes = np.minimum(RANKS[:n], n_classes - 1)
    is_labelled = np.array([True, width == 0.0, True])[:n]
    prior = kernel_prior(FIXED, X)
    lower, upper = np.append(-np.inf, b + width / 2), np.append(b - width / 2, np.inf)

    def log_classes(f):
        return np.log(np.maximum(norm.cdf(upper - f) - norm.cdf(lower - f), 1e-300))

    def log_prob(f):
        log_p = log_classes(f)
        own = np.take_along_axis(log_p, np.broadcast_to(codes[:, None], (len(f), n, 1)), 2)[..., 0]
        return np.where(is_labelled, own, np.logaddexp.reduce(log_p, axis=2)).sum(axis=1)

    exact = brute_force(prior, X, 1, log_prob, log_classes, [])
    family = fixed_regions(ordinal.regions(codes, is_labelled, b, width))
    phi = np.append(b[:1], np.log(np.diff(b) - width))
    assert_means_agree(
        probit_gp.regions_sampler(X, family, prior), 40 + n,
        questions(prior, X, exact, ordinal.Ordinal(width), phi),
    )  # fmt: skip


def test_a_free_cut_point_agrees_with_a_grid():
    """One cut point, two rows: the posterior of b by quadrature over its prior."""
    X, codes = ROWS[:2], np.array([1, 0])
    prior = kernel_prior(FIXED, X)
    family = ordinal_gp.family(X, codes, np.ones(2, bool), prior, 2, 0.0)
    K = gram_function(prior, X)(NOTHING)
    nodes, log_weights = normal_grid(family.mean, family.sd, 40)
    exact = quadrature_over_grid(
        log_weights,
        [
            quadrature_posterior(
                lambda f, b=b: log_ndtr(f[:, 0] - b) + log_ndtr(b - f[:, 1]),
                K,
                n_nodes=160,
                half_width=16,
            )
            for b in nodes[:, 0]
        ],
    )
    assert_means_agree(
        probit_gp.regions_sampler(X, family, prior), 50,
        lambda draws: {
            "f": (draws["latent"], exact.mean, 0.0),
            "b": (draws["first_cut_point"], exact.node_probabilities @ nodes[:, 0], 0.0),
            "b²": (draws["first_cut_point"] ** 2, exact.node_probabilities @ nodes[:, 0] ** 2, 0.0),
        },
    )  # fmt: skip


# Kernel parameters, and the softmax ---------------------------------------------------------------


@pytest.mark.parametrize("model", ["probit", "null category"])
def test_a_free_length_scale_agrees_with_a_grid(model):
    X, codes = ROWS[:2], np.array([1, 0])
    prior = kernel_prior(ONE_FREE, X)
    is_labelled = np.array([True, model == "probit"])
    width = 0.0 if model == "probit" else 1.5
    sampler = (
        probit_gp.sampler(X, codes, prior)
        if model == "probit"
        else null_model.sampler(
            X, codes, is_labelled, prior, null_category.family(codes, is_labelled, 2, width)
        )
    )
    of_rows = null_log_prob(codes, is_labelled, width)
    nodes, log_weights = normal_grid(prior.mean, prior.sd, 25)
    exact = quadrature_over_grid(
        log_weights,
        [
            quadrature_posterior(
                lambda f: of_rows(f[:, :, None]), gram(prior, theta, X), n_nodes=60
            )
            for theta in nodes
        ],
    )
    assert_means_agree(
        sampler, 60,
        lambda draws: {
            "f": (draws["latent"], exact.mean, 0.0),
            "θ": (draws["log_parameters"], exact.node_probabilities @ nodes, 0.0),
        },
    )  # fmt: skip


@pytest.mark.parametrize(("n", "n_classes"), [slow(1, 2), slow(1, 3), slow(2, 2)])
def test_softmax_gp(n, n_classes):
    X, codes = ROWS[:n], np.array([1, 0])[:n]
    prior = kernel_prior(FIXED, X)
    K = gram_function(prior, X)(NOTHING)

    def log_likelihood(f):  # functions side by side: (m, K · n)
        g = f.reshape(len(f), n_classes, n).swapaxes(1, 2)
        log_p = log_softmax(g, axis=2)
        return sum(log_p[:, i, codes[i]] for i in range(n))

    exact = quadrature_posterior(log_likelihood, np.kron(np.eye(n_classes), K))
    exact_p = exact.expectation(
        lambda f: np.exp(log_softmax(f.reshape(len(f), n_classes, n)[:, :, 0], axis=1))[:, 1]
    )
    assert_means_agree(
        softmax_gp.sampler(X, codes, prior, n_classes), 70 + n,
        lambda draws: {
            "g": (draws["latent"], exact.mean.reshape(n_classes, n).T, 0.0),
            "p": (np.exp(log_softmax(draws["latent"], axis=3))[:, :, 0, 1], exact_p, 0.0),
        },
        n_samples=200,
    )  # fmt: skip
