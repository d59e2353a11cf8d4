"""The chain: its start, its record, and posteriors of three rows against importance sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from atoll.core.densities import Gaussian
from atoll.core.linalg import jittered_cholesky
from atoll.diagnostics import ess_bulk, mcse_mean, normal_grid
from atoll.kernels.hyperparameters import gram_function, kernel_prior
from atoll.likelihoods.softmax import class_probabilities
from atoll.likelihoods.softmax_rejection import log_prob
from atoll.models.archipelago import (
    REJECTED,
    UNLABELLED,
    Setting,
    latent_at,
    outcomes_at,
    paper_sweep,
    sampler,
    sweep,
)

LINE = Gaussian(np.zeros(1), np.eye(1))


def test_start_labels_are_kept_until_the_clamped_sweeps_are_over(two_heaps):
    setting = two_heaps(2, n_samples=1)[0]
    chain = sampler(setting, n_clamped=2)
    rng = np.random.default_rng(23)
    state = chain.init(rng)
    known = setting.codes >= 0
    np.testing.assert_array_equal(state.start_codes[known], setting.codes[known])
    assert set(state.start_codes) <= {0, 1}
    assert outcomes_at(setting, state).labels.sum() == 20
    for left in (1, 0, 0):
        state = chain.sweep(rng, state, True)
        assert state.n_clamped == left
    assert outcomes_at(setting, state).labels.sum() == known.sum()


def test_records_hold_what_the_state_says(two_heaps):
    setting, chains = two_heaps(2, n_samples=3)
    state = chains[0][-1]
    record = sampler(setting).record(np.random.default_rng(24), state)
    g = latent_at(setting, state)
    codes = np.append(setting.codes, np.full(len(state.rejections), REJECTED))
    assert record["n_rejections"] == len(state.rejections)
    assert record["log_likelihood"] == pytest.approx(log_prob(g, codes).sum())
    np.testing.assert_allclose(record["row_probabilities"], class_probabilities(g[:20]))


# Posteriors of three rows, against importance sampling --------------------------------------------


THREE = np.array([[-1.2], [0.3], [0.6]])
THREE_CODES = np.array([0, 1, UNLABELLED])
FIXED = kernel_prior(ConstantKernel(1.5, "fixed") * RBF(1.0, "fixed"), THREE)
FREE_LENGTH = kernel_prior(ConstantKernel(1.5, "fixed") * RBF(1.0), THREE)._replace(
    sd=np.array([0.4])
)


def exact_means(prior):
    """Means of the posterior and one standard error of each: M, P(class 0) of row 2, g, θ, θ².

    The functions are drawn from their prior at the rows and on a grid, on which Z is a sum; a
    draw weighs Z^{-n} times the rows' terms, and M has the mean n(1 − Z)/Z.
    """
    n, K, n_repeats = 3, 2, 10
    grid = np.linspace(-5.0, 5.0, 61)
    mass = np.exp(-0.5 * grid**2)
    mass /= mass.sum()
    rows = np.concatenate([THREE, grid[:, None]])
    nodes, log_node = np.zeros((1, 0)), np.zeros(1)
    if len(prior.mean) > 0:
        nodes, log_node = normal_grid(prior.mean, prior.sd, 15)
    lowers = [jittered_cholesky(gram_function(prior, rows)(theta)).lower for theta in nodes]
    n_draws = 8000 // len(nodes)
    rng = np.random.default_rng(14)
    estimates = []
    for _ in range(n_repeats):
        log_weights, values = [], []
        for lower, theta, log_prior in zip(lowers, nodes, log_node):
            g = lower @ rng.normal(size=(n_draws, len(rows), K))
            log_total = np.logaddexp(g[..., 0], g[..., 1])
            accepted = expit(log_total)
            Z = accepted[:, n:] @ mass
            of_rows = g[:, 0, 0] + g[:, 1, 1] + log_total[:, 2]
            of_rows -= np.logaddexp(0.0, log_total[:, :n]).sum(axis=1)
            log_weights.append(log_prior + of_rows - n * np.log(Z))
            constant = np.broadcast_to(np.append(theta, theta**2), (n_draws, 2 * len(theta)))
            share = expit(g[:, 2, 0] - g[:, 2, 1])
            at_rows = g[:, :n].reshape(n_draws, -1)
            values.append(np.column_stack([n * (1.0 - Z) / Z, share, at_rows, constant]))
        weights = np.exp(np.concatenate(log_weights))
        estimates.append(weights @ np.concatenate(values) / weights.sum())
    return np.mean(estimates, axis=0), np.std(estimates, axis=0, ddof=1) / np.sqrt(n_repeats)


def quantities_of_three(setting, state):
    """As in `exact_means`."""
    g, theta = latent_at(setting, state)[:3], state.log_parameters.ravel()
    share = expit(g[2, 0] - g[2, 1])
    return np.concatenate([[len(state.rejections), share], g.ravel(), theta, theta**2])


def assert_posterior_of_three_rows(run_chains, prior, moves, n_samples):
    setting = Setting(THREE, THREE_CODES, 2, prior, LINE)
    exact, own_error = exact_means(prior)
    # Where one mean lies too far away, again with a longer chain: chance does not err twice.
    for attempt in (1, 4):
        chains = run_chains(setting, 15 + attempt, n_samples=attempt * n_samples, moves=moves)
        values = np.array([[quantities_of_three(setting, s) for s in chain] for chain in chains])
        assert np.min(ess_bulk(values)) > 200
        z = (values.mean(axis=(0, 1)) - exact) / np.hypot(mcse_mean(values), own_error)
        if np.abs(z).max() < 4.0:
            return
    raise AssertionError(f"{z.round(1)} standard errors apart, twice")


@pytest.mark.parametrize(
    ("prior", "n_samples"),
    [
        pytest.param(FIXED, 400, id="fixed"),
        pytest.param(FREE_LENGTH, 800, id="free length-scale", marks=pytest.mark.slow),
    ],
)
def test_the_posterior_of_three_rows_is_that_of_importance_sampling(run_chains, prior, n_samples):
    assert_posterior_of_three_rows(run_chains, prior, sweep.sweep, n_samples)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [FIXED, FREE_LENGTH], ids=["fixed", "free length-scale"])
def test_the_paper_s_posterior_of_three_rows_is_that_of_importance_sampling(run_chains, prior):
    assert_posterior_of_three_rows(run_chains, prior, paper_sweep.sweep, 1500)
