from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from atoll.diagnostics import (
    brier_score,
    entropy,
    expected_calibration_error,
    reliability_curve,
)


@pytest.fixture
def predictions():
    """Probabilities over three classes, and classes drawn from them."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(3, 0.8), size=4000)
    codes = (rng.uniform(size=(4000, 1)) > P.cumsum(axis=1)).sum(axis=1)
    return P, codes


def test_true_probabilities_lie_on_the_diagonal(predictions):
    P, codes = predictions
    curve = reliability_curve(P, codes)
    filled = curve.counts > 0
    # A binomial share; |z| < 6 in ten bins fails by chance once in 5e7.
    deviation = np.sqrt(0.25 / curve.counts[filled])
    gaps = np.abs(curve.frequency - curve.mean_probability)[filled]
    assert (gaps < 6 * deviation).all()
    assert curve.counts.sum() == len(P)
    assert curve.counts[:3].sum() == 0  # the top of three classes has at least a third


def test_overconfidence_is_measured(predictions):
    P, codes = predictions
    sharpened = P**4 / (P**4).sum(axis=1, keepdims=True)
    assert expected_calibration_error(P, codes) < 0.05
    assert expected_calibration_error(sharpened, codes) > 0.1


def test_the_calibration_error_of_certain_and_wrong_is_one():
    assert expected_calibration_error([[1.0, 0.0]] * 5, [1] * 5) == 1.0
    assert expected_calibration_error([[1.0, 0.0]] * 5, [0] * 5) == 0.0


def test_one_bin_compares_confidence_with_accuracy(predictions):
    P, codes = predictions
    accuracy = np.mean(P.argmax(axis=1) == codes)
    assert expected_calibration_error(P, codes, n_bins=1) == pytest.approx(
        abs(accuracy - P.max(axis=1).mean()), abs=1e-12
    )


def test_the_curve_of_one_class_is_that_of_scikit_learn(predictions):
    P, codes = predictions
    curve = reliability_curve(P, codes, n_bins=8, class_code=2)
    frequency, mean_probability = calibration_curve(codes == 2, P[:, 2], n_bins=8)
    filled = curve.counts > 0
    np.testing.assert_allclose(curve.frequency[filled], frequency, rtol=1e-12)
    np.testing.assert_allclose(curve.mean_probability[filled], mean_probability, rtol=1e-12)


def test_certainty_falls_in_the_last_bin_and_empty_bins_are_nan():
    curve = reliability_curve([[1.0, 0.0], [0.5, 0.5]], [0, 0], n_bins=4)
    np.testing.assert_array_equal(curve.counts, [0, 0, 1, 1])
    np.testing.assert_array_equal(np.isnan(curve.frequency), [True, True, False, False])
    np.testing.assert_array_equal(curve.edges, [0, 0.25, 0.5, 0.75, 1])


def test_entropy_is_that_of_scipy_and_zero_for_certainty(predictions):
    P, _ = predictions
    np.testing.assert_allclose(entropy(P), stats.entropy(P, axis=1), rtol=1e-12)
    assert entropy([0.0, 1.0, 0.0]) == 0.0
    assert entropy(np.full(5, 0.2)) == pytest.approx(np.log(5), abs=1e-15)
    assert entropy(np.full((2, 3, 4), 0.25)).shape == (2, 3)


def test_entropy_is_never_negative_through_rounding():
    assert entropy([1.0 + 1e-12, 0.0]) == 0.0


def test_the_brier_score_of_two_classes_is_twice_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    positive = rng.uniform(size=200)
    codes = rng.integers(2, size=200)
    assert brier_score(np.column_stack([1 - positive, positive]), codes) == pytest.approx(
        2 * brier_score_loss(codes, positive), abs=1e-12
    )


def test_the_brier_score_rewards_the_truth(predictions):
    P, codes = predictions
    assert brier_score([[0.0, 1.0]], [0]) == 2.0
    sharpened = P**4 / (P**4).sum(axis=1, keepdims=True)
    assert brier_score(P, codes) < brier_score(sharpened, codes)


@pytest.mark.parametrize("measure", [expected_calibration_error, brier_score, reliability_curve])
@pytest.mark.parametrize(
    ("probabilities", "codes", "message"),
    [
        ([[0.5, 0.6]], [0], "sum to one"),
        ([[1.2, -0.2]], [0], "not negative"),
        ([[np.nan, 1.0]], [0], "finite"),
        ([0.5, 0.5], [0], r"\(n, K\)"),
        (np.zeros((0, 2)), [], "not empty"),
        ([[0.5, 0.5]], [0, 1], "one code a row"),
        ([[0.5, 0.5]], [2], "from 0 to 1"),
        ([[0.5, 0.5]], [-1], "from 0 to 1"),
        ([[0.5, 0.5]], ["a"], "whole numbers"),
    ],
)
def test_bad_predictions_are_refused(measure, probabilities, codes, message):
    with pytest.raises(ValueError, match=message):
        measure(probabilities, codes)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n_bins": 0}, "n_bins is 0"), ({"class_code": 2}, "class_code is 2")],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        reliability_curve([[0.5, 0.5]], [0], **options)


def test_probabilities_that_do_not_sum_to_one_have_no_entropy():
    with pytest.raises(ValueError, match="sum to one"):
        entropy([0.5, 0.6])
