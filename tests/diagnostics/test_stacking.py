"""Weights of chains that disagree."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from atoll.diagnostics import stacking_weights
from atoll.diagnostics.stacking import leave_one_out


def normal_chain(rng, y, n_draws, centre=None):
    """log-likelihoods (draws, n) under draws of a mean, of its posterior or near a centre."""
    n = len(y)
    mean = y.sum() / (n + 1) if centre is None else centre
    draws = rng.normal(mean, 1 / np.sqrt(n + 1), size=n_draws)
    return norm.logpdf(y, draws[:, None])


def test_leave_one_out_is_the_predictive_density_without_the_row():
    rng = np.random.default_rng(0)
    y = rng.normal(0.3, 1.0, size=30)
    found = leave_one_out(normal_chain(rng, y, 40_000)[None])[0]
    without = (y.sum() - y) / 30
    exact = norm.logpdf(y, without, np.sqrt(1 + 1 / 30))
    np.testing.assert_allclose(found, exact, atol=0.01)


def test_a_chain_that_predicts_worse_everywhere_has_no_weight():
    rng = np.random.default_rng(1)
    y = rng.normal(size=40)
    chains = np.stack([normal_chain(rng, y, 500), normal_chain(rng, y, 500, centre=3.0)])
    assert stacking_weights(chains)[0] > 0.95
    assert stacking_weights(chains, prior_rows=1e-9)[0] > 0.99


def test_chains_that_are_each_right_for_half_of_the_rows_share_the_weight():
    rng = np.random.default_rng(2)
    y = np.concatenate([rng.normal(-3, 1, size=100), rng.normal(3, 1, size=100)])
    chains = np.stack([normal_chain(rng, y, 500, centre=c) for c in (-3.0, 3.0)])
    weights = stacking_weights(chains)
    np.testing.assert_allclose(weights.sum(), 1.0, atol=1e-12)
    assert abs(weights[0] - 0.5) < 0.05


def test_the_weights_maximise_the_score():
    rng = np.random.default_rng(3)
    chains = rng.normal(-1.0, 0.7, size=(3, 200, 25)) + rng.normal(0, 1, size=(3, 1, 25))
    weights, p = stacking_weights(chains, prior_rows=1e-9), np.exp(leave_one_out(chains))

    def score(w):
        return np.log(w @ p).sum()

    for other in rng.dirichlet(np.ones(3), size=200):
        assert score(weights) >= score(other) - 1e-6


def test_without_evidence_the_weights_are_equal():
    np.testing.assert_allclose(stacking_weights(np.zeros((4, 10, 0))), 0.25)
    three_rows = np.log(np.array([0.9, 0.5])[:, None, None] * np.ones((2, 10, 3)))
    assert 0.5 < stacking_weights(three_rows)[0] < 0.9
