"""The likelihood with its base density, its norm and candidates: equations 2 and 3."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logsumexp

from atoll.core.densities import Gaussian
from atoll.models.archipelago import likelihood
from atoll.models.archipelago.likelihood import REJECTED, UNLABELLED

RATE = 0.3  # of candidates
LINE = Gaussian(np.zeros(1), np.eye(1))


def test_a_proposal_is_kept_or_rejected():
    latent = 3.0 * np.random.default_rng(0).normal(size=(50, 3))
    kept, rejected = likelihood.kept(latent), np.exp(likelihood.log_rejection(latent))
    np.testing.assert_allclose(kept + rejected, 1.0, atol=1e-12)
    np.testing.assert_allclose(kept, expit(logsumexp(latent, axis=1)), atol=1e-12)


def test_proposals_for_each_row_are_one_over_the_norm_on_average():
    """M is negative binomial: n acceptances of probability Z each (equation 3)."""
    rng, n, Z = np.random.default_rng(1), 7, 0.3
    counts = rng.negative_binomial(n, Z, size=20_000)
    found = np.array([likelihood.inverse_norm(n, int(m)) for m in counts])
    assert abs(found.mean() - 1.0 / Z) < 5.5 * found.std() / np.sqrt(len(found))


def test_the_density_of_known_functions_integrates_to_one():
    """Equation 2, with equation 3 as a sum over a grid."""
    x = np.linspace(-8.0, 8.0, 2001)[:, None]
    latent = np.column_stack([2.0 * np.sin(1.5 * x[:, 0]), 1.0 - 0.8 * x[:, 0]])
    kept, log_base = likelihood.kept(latent), LINE.log_density(x)
    Z = np.trapezoid(kept * np.exp(log_base), x[:, 0])
    density = np.exp(likelihood.log_density(kept, log_base, 1.0 / Z))
    np.testing.assert_allclose(np.trapezoid(density, x[:, 0]), 1.0, atol=1e-9)
    # Equation 4, summed over labels, is equation 2.
    of_classes = [likelihood.log_prob(latent, np.full(2001, k)) for k in (0, 1)]
    joint = np.exp(logsumexp(of_classes, axis=0) + log_base) / Z
    np.testing.assert_allclose(joint, density, atol=1e-12)


def test_where_nothing_is_kept_the_density_is_zero():
    assert likelihood.log_density(np.zeros(1), np.zeros(1), 2.0)[0] == -np.inf


def test_an_open_row_is_a_candidate_or_a_rejection():
    latent = 3.0 * np.random.default_rng(2).normal(size=(50, 2))
    outcomes = likelihood.outcomes_of(np.full(50, REJECTED), 2)
    open_rows = likelihood.opened(outcomes, 10, RATE)
    rejected = 1.0 / (1.0 + np.exp(latent).sum(axis=1))
    found = np.exp(open_rows.log_prob(latent))
    np.testing.assert_allclose(found[:10], rejected[:10])
    np.testing.assert_allclose(found[10:], RATE + rejected[10:])


def test_without_candidates_open_rows_are_rejections():
    codes = np.array([0, UNLABELLED, REJECTED, REJECTED])
    outcomes = likelihood.outcomes_of(codes, 2)
    for ours, theirs in zip(likelihood.opened(outcomes, 2, 0.0), outcomes, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_huge_functions_leave_no_nan_in_open_rows():
    latent = np.array([[1e4, 1e4], [1e4, -1e4], [-1e4, -1e4], [0.0, -1e4]])
    outcomes = likelihood.opened(likelihood.outcomes_of(np.full(4, REJECTED), 2), 0, RATE)
    assert np.isfinite(outcomes.total(latent))
    assert np.isfinite(outcomes.gradient(latent)).all()
