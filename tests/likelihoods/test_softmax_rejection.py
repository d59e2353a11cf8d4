"""The softmax with a rejection against brute force: sums over outcomes, and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from atoll.likelihoods import softmax, softmax_rejection
from atoll.likelihoods.softmax_rejection import REJECTED, UNLABELLED, Outcomes, outcomes_of

CODES = np.array([0, 2, UNLABELLED, REJECTED, 1, UNLABELLED, REJECTED])


def finite_differences(function, at, step=1e-5):
    slope = np.empty_like(at)
    for index in np.ndindex(at.shape):
        shift = np.zeros_like(at)
        shift[index] = step
        slope[index] = (function(at + shift) - function(at - shift)) / (2.0 * step)
    return slope


def every_outcome(latent):
    """log_prob of every outcome of each row; (n, K) -> (K + 2, n): classes, any, rejected."""
    K = latent.shape[1]
    return np.stack(
        [
            softmax_rejection.log_prob(latent, np.full(len(latent), code))
            for code in [*range(K), UNLABELLED, REJECTED]
        ]
    )


def any_outcomes(fixed, by_total):
    """Rows of no class with the factors (a + b Λ)/(1 + Λ)."""
    return Outcomes(np.zeros((len(fixed), 3)), fixed, by_total, np.ones(3))


@pytest.mark.parametrize("n_classes", [1, 2, 5])
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_probabilities_of_classes_and_rejection_sum_to_one(n_classes, size):
    latent = size * np.random.default_rng(0).normal(size=(50, n_classes))
    log_p = np.delete(every_outcome(latent), -2, axis=0)
    rounding = 4.0 * np.finfo(float).eps * (100.0 + np.abs(latent).max())
    np.testing.assert_allclose(logsumexp(log_p, axis=0), 0.0, atol=rounding)


@pytest.mark.parametrize("n_classes", [1, 2, 5])
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_an_unlabelled_row_has_the_probability_of_all_its_classes(n_classes, size):
    latent = size * np.random.default_rng(1).normal(size=(50, n_classes))
    log_p = every_outcome(latent)
    np.testing.assert_allclose(log_p[-2], logsumexp(log_p[:n_classes], axis=0), atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_given_that_a_row_is_kept_its_classes_are_those_of_the_softmax(n_classes):
    latent = 3.0 * np.random.default_rng(2).normal(size=(50, n_classes))
    log_p = every_outcome(latent)
    np.testing.assert_allclose(
        np.exp(log_p[:n_classes] - log_p[-2]).T, softmax.class_probabilities(latent), atol=1e-12
    )
    assert softmax_rejection.class_probabilities is softmax.class_probabilities


def test_the_rejection_is_a_class_whose_function_is_zero():
    latent = 2.0 * np.random.default_rng(3).normal(size=(50, 3))
    with_zero = np.column_stack([latent, np.zeros(50)])
    for code, ours in ((3, REJECTED), (1, 1)):
        np.testing.assert_allclose(
            softmax_rejection.log_prob(latent, np.full(50, ours)),
            softmax.log_prob(with_zero, np.full(50, code)),
            atol=1e-12,
        )
    np.testing.assert_allclose(
        softmax_rejection.log_rejection(latent), softmax.log_prob(with_zero, np.full(50, 3))
    )


def test_the_gradient_is_that_of_finite_differences():
    latent = 2.0 * np.random.default_rng(4).normal(size=(7, 3))
    np.testing.assert_allclose(
        softmax_rejection.gradient(latent, CODES),
        finite_differences(lambda g: softmax_rejection.log_prob(g, CODES).sum(), latent),
        atol=1e-6,
    )


def test_the_total_is_the_sum_of_the_rows():
    latent = 3.0 * np.random.default_rng(5).normal(size=(7, 3))
    total = outcomes_of(CODES, 3).total(latent)
    assert total == pytest.approx(softmax_rejection.log_prob(latent, CODES).sum(), rel=1e-12)


def test_prepared_rows_of_any_two_factors_have_their_total_and_its_gradient():
    rng = np.random.default_rng(6)
    latent, fixed, by_total = rng.normal(size=(9, 3)), rng.random(9), rng.random(9)
    outcomes, sums = any_outcomes(fixed, by_total), np.exp(latent).sum(axis=1)
    expected = np.log((fixed + by_total * sums) / (1.0 + sums))
    np.testing.assert_allclose(outcomes.log_prob(latent), expected, atol=1e-12)
    np.testing.assert_allclose(
        outcomes.gradient(latent), finite_differences(outcomes.total, latent), atol=1e-6
    )


@pytest.mark.parametrize("size", [1.0, 30.0, 400.0, 1e4])
def test_class_by_class_the_gradient_is_the_same_whatever_the_size_of_functions(size):
    rng = np.random.default_rng(12)
    latent = size * rng.normal(size=(9, 3))
    labels = np.eye(3)[rng.integers(3, size=9)] * (np.arange(9) < 3)[:, None]
    fixed = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.2, 1.2])
    by_total = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.2, 0.2])
    outcomes = Outcomes(labels, fixed, by_total, np.ones(3))
    expected = outcomes.gradient(latent)
    with np.errstate(all="ignore"):
        found, product = outcomes.by_class().gradient(np.ascontiguousarray(latent.T))
    np.testing.assert_allclose(found.T, expected, rtol=1e-9, atol=1e-12)
    assert product == pytest.approx(np.sum(expected * latent), rel=1e-9)


@pytest.mark.parametrize("codes", [CODES[:4], np.array([UNLABELLED, REJECTED, 1, 1])])
def test_huge_functions_have_the_total_and_gradient_of_moderate_ones(codes):
    """One huge row takes all through the careful formulas; the others are as they were."""
    moderate = np.random.default_rng(7).normal(size=(4, 3))
    huge = np.concatenate([moderate, [[1e3, 0.0, 0.0]]])
    ours, careful = outcomes_of(codes, 3), outcomes_of(np.append(codes, UNLABELLED), 3)
    assert careful.total(huge) == pytest.approx(ours.total(moderate), rel=1e-12)
    np.testing.assert_allclose(careful.gradient(huge)[:4], ours.gradient(moderate), atol=1e-12)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_huge_functions_leave_no_nan(sign):
    latent = sign * np.array([[1e4, 1e4], [1e4, -1e4], [0.0, 1e4], [1e4, 0.0]])
    assert np.isfinite(every_outcome(latent)).all()
    for codes in ([0, 1, UNLABELLED, REJECTED], [REJECTED, UNLABELLED, 1, 0]):
        outcomes = outcomes_of(np.array(codes), 2)
        assert np.isfinite(outcomes.gradient(latent)).all()
        assert np.isfinite(outcomes.total(latent))


def test_outcomes_are_drawn_with_their_probabilities():
    latent = np.array([0.7, -1.0])
    drawn = softmax_rejection.sample(np.random.default_rng(8), np.tile(latent, (20_000, 1)))
    odds = np.append(np.exp(latent), 1.0)
    counts = [np.sum(drawn == code) for code in (0, 1, REJECTED)]
    assert stats.chisquare(counts, 20_000 * odds / odds.sum()).pvalue > 1e-6


class Extreme:
    """A stream whose uniform numbers are the least that there are."""

    def random(self, n):
        return np.zeros(n)


def test_a_draw_is_an_outcome_even_at_the_end_of_the_unit_interval():
    latent = np.array([[0.3, -1.0, 2.0], [50.0, -50.0, -900.0]])
    draws = softmax_rejection.sample(Extreme(), latent)
    assert np.all(draws < 3)
