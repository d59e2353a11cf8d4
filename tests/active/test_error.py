"""The estimate of the error against direct integration, and the limits it gives in simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import binom, norm

from atoll.diagnostics.wrong_rows import ShiftPrior, audits_alone, error_belief, shift_weights

PRIOR = ShiftPrior(0.5, 1.5, least_doubt=0.0)
PRIOR_WITH_LEAST = PRIOR._replace(least_doubt=1e-6)


def density_of_shift(q, wrong, prior):
    """The density of δ given audits, up to its constant, as the model says it."""

    def density(shift):
        p = expit(logit(np.asarray(q)) + shift)
        return norm.pdf(shift, prior.mean, prior.deviation) * np.prod(np.where(wrong, p, 1.0 - p))

    return density


@pytest.mark.parametrize("wrong", list(itertools.product([False, True], repeat=3)))
def test_the_expected_error_is_that_of_direct_integration(wrong):
    audits, rows = [0.02, 0.3, 0.1], np.array([0.01, 0.05, 0.05, 0.2, 0.45])
    density = density_of_shift(audits, wrong, PRIOR)

    def over(function):
        return quad(function, -12, 12, epsabs=1e-13, limit=400, points=[-3, 0, 3])[0]

    total = over(density)
    wanted = over(lambda d: density(d) * expit(logit(rows) + d).mean()) / total
    found = error_belief(rows, audits, wrong, PRIOR)
    np.testing.assert_allclose(found.expected(), wanted, rtol=1e-5)


def test_the_probability_of_few_errors_is_that_of_direct_integration():
    n, q, audits = 400, 0.08, [0.05, 0.2, 0.02]
    density = density_of_shift(audits, [False] * 3, PRIOR)
    found = error_belief(np.full(n, q), audits, [False] * 3, PRIOR)
    for most in (10, 20, 60, 150):

        def inside(d, most=most):
            return density(d) * binom.cdf(most, n, expit(logit(q) + d))

        wanted = quad(inside, -10, 10, limit=400)[0] / quad(density, -10, 10, limit=400)[0]
        # A normal stands for the binomial here.
        np.testing.assert_allclose(found.at_most(most / n), wanted, atol=3e-3)


@pytest.mark.parametrize("confidence", [0.6, 0.8, 0.95, 0.99])
def test_the_upper_limit_is_the_least_share_of_that_probability(confidence):
    q = np.random.default_rng(0).beta(0.5, 4.0, 150)
    found = error_belief(q, q[:6], [False] * 5 + [True])
    upper = found.upper(confidence)
    assert found.at_most(upper) >= confidence
    assert found.at_most(upper - 1 / 150) < confidence


def test_no_audit_leaves_the_prior():
    shifts, weights = shift_weights([], [], PRIOR)
    mean = weights @ shifts
    np.testing.assert_allclose(mean, PRIOR.mean, atol=1e-9)
    np.testing.assert_allclose(np.sqrt(weights @ (shifts - mean) ** 2), PRIOR.deviation, rtol=1e-6)


def test_wrong_audits_raise_the_estimate_and_right_ones_lower_it():
    q = np.full(100, 0.1)
    none = error_belief(q, [], []).expected()
    assert error_belief(q, [0.1], [True]).expected() > none > error_belief(q, [0.1], [0]).expected()


def test_a_model_that_is_sure_and_wrong_is_not_believed():
    """Doubts of exactly zero leave the error open, since audits of such rows may be wrong."""
    q = np.zeros(200)
    found = error_belief(q, np.zeros(10), [True] * 5 + [False] * 5)
    assert found.expected() > 0.2
    assert np.isfinite(found.upper(0.95))


def test_the_limit_holds_as_often_as_it_says_where_the_model_is_true():
    """Shifts from the prior, wrong rows given the shift, ten audits among them."""
    rng = np.random.default_rng(1)
    n, runs, confidence, held = 300, 400, 0.9, 0
    for _ in range(runs):
        q = rng.beta(0.4, 3.0, n)
        q = PRIOR_WITH_LEAST.least_doubt + (1 - 2 * PRIOR_WITH_LEAST.least_doubt) * q
        shift = rng.normal(PRIOR_WITH_LEAST.mean, PRIOR_WITH_LEAST.deviation)
        wrong = rng.random(n) < expit(logit(q) + shift)
        # The prior's least doubt is in q already; it is small enough not to matter twice.
        belief = error_belief(q[10:], q[:10], wrong[:10], PRIOR_WITH_LEAST)
        held += wrong[10:].mean() <= belief.upper(confidence)
    # Five standard errors of a share over the runs.
    assert abs(held / runs - confidence) < 5 * np.sqrt(confidence * (1 - confidence) / runs) + 0.01


def test_audits_alone_are_jeffreys_interval():
    assert audits_alone(0, 37, 0.95).upper > 0.05 > audits_alone(0, 38, 0.95).upper
    assert audits_alone(0, 17, 0.95).upper > 0.10 > audits_alone(0, 18, 0.95).upper


def test_an_audit_counts_as_much_as_is_said():
    doubts, wrong = [0.1, 0.4, 0.02], [0, 1, 0]
    twice = shift_weights(doubts + doubts[1:2], [*wrong, 1], PRIOR)[1]
    np.testing.assert_allclose(shift_weights(doubts, wrong, PRIOR, [1, 2, 1])[1], twice, rtol=1e-12)
    plain = shift_weights(doubts, wrong, PRIOR)[1]
    np.testing.assert_array_equal(shift_weights(doubts, wrong, PRIOR, np.ones(3))[1], plain)


def test_an_audit_of_weight_two_is_the_same_audit_twice():
    doubts, wrong = [0.1, 0.4, 0.02], [0, 1, 0]
    once = shift_weights(doubts, wrong, PRIOR._replace(audit_weight=2.0))[1]
    np.testing.assert_allclose(once, shift_weights(doubts * 2, wrong * 2, PRIOR)[1], rtol=1e-12)
