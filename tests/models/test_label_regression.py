"""Labels regressed on: closed forms against refits and dense algebra, sureness, joint draws."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from atoll.likelihoods.multinomial_probit import class_probabilities
from atoll.models.average.label_regression import (
    RegressionHead,
    counts_left_out,
    regress,
    told_by_others,
    weigh,
)
from atoll.models.average.recipe import RegressionRecipe

ONE_AMPLITUDE = RegressionRecipe(amplitudes=(3.0,))
NAMES = ["neighbours", "smooth"]


def problem(n_labels=24, n_features=7, n_classes=6, seed=0):
    """Features of rows and classes that follow them with some noise; every class has a label."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_labels, n_features))
    latent = features @ rng.standard_normal((n_features, n_classes))
    codes = (latent + rng.standard_normal(latent.shape)).argmax(axis=1)
    codes[:n_classes] = np.arange(n_classes)
    return features, codes


def regression_mean(features, codes, n_classes, amplitude, label_weights, rows):
    """The posterior mean at rows, by dense algebra."""
    target = np.eye(n_classes)[codes] - 1.0 / n_classes
    covariance = amplitude * features @ features.T + np.diag(1.0 / label_weights)
    return amplitude * rows @ features.T @ np.linalg.solve(covariance, target)


@pytest.mark.parametrize("shape", [(24, 7), (9, 30)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_posterior_is_that_of_dense_algebra(shape, weighted):
    features, codes = problem(*shape)
    rng = np.random.default_rng(1)
    label_weights = rng.uniform(0.3, 2.0, len(codes)) if weighted else np.ones(len(codes))
    found = regress(
        features, codes, 6, np.ones(len(codes)), ONE_AMPLITUDE, label_weights if weighted else None
    ).head
    rows = rng.standard_normal((5, shape[1]))
    expected = regression_mean(features, codes, 6, 3.0, label_weights, rows)
    sure = np.linalg.norm(rows @ found.means[0]) / np.linalg.norm(expected)
    np.testing.assert_allclose(rows @ found.means[0], sure * expected, atol=1e-10)
    precision = np.eye(shape[1]) / 3.0 + features.T @ (label_weights[:, None] * features)
    U, g = found.directions, found.gains[0]
    np.testing.assert_allclose(
        3.0 * (np.eye(shape[1]) - U @ np.diag(g) @ U.T), np.linalg.inv(precision), atol=1e-10
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_a_label_that_is_left_out_is_foretold_as_by_a_fit_without_it(weighted):
    features, codes = problem()
    label_weights = np.random.default_rng(2).uniform(0.3, 2.0, len(codes))
    label_weights = label_weights if weighted else np.ones(len(codes))
    found = regress(features, codes, 6, np.ones(len(codes)), ONE_AMPLITUDE, label_weights)
    whole = regression_mean(features, codes, 6, 3.0, label_weights, features)
    sure = np.linalg.norm(features @ found.head.means[0]) / np.linalg.norm(whole)
    for i in range(len(codes)):
        others = np.arange(len(codes)) != i
        mean = regression_mean(
            features[others], codes[others], 6, 3.0, label_weights[others], features[[i]]
        )
        expected = class_probabilities(sure * mean, np.zeros(1))[0]
        np.testing.assert_allclose(found.held_out[i], expected, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_told_by_the_others_as_by_a_fit_without_them(weighted):
    features, codes = problem()
    label_weights = np.random.default_rng(3).uniform(0.3, 2.0, len(codes)) if weighted else None
    told = told_by_others(features, codes, 6, 3.0, 2.0, label_weights)
    every = np.ones(len(codes)) if label_weights is None else label_weights
    for i in range(len(codes)):
        others = np.arange(len(codes)) != i
        mean = regression_mean(
            features[others], codes[others], 6, 3.0, every[others], features[[i]]
        )
        expected = class_probabilities(2.0 * mean, np.zeros(1))[0]
        np.testing.assert_allclose(told[i], expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_sureness_is_where_labels_left_out_are_likeliest(seed):
    features, codes = problem(40, seed=seed)
    counts = counts_left_out(codes, np.ones(len(codes)))
    found = regress(features, codes, 6, counts, ONE_AMPLITUDE)
    ones = np.ones(len(codes))
    without = np.stack(
        [
            regression_mean(features[o], codes[o], 6, 3.0, ones[o], features[[i]])[0]
            for i in range(len(codes))
            for o in [np.arange(len(codes)) != i]
        ]
    )
    recipe = ONE_AMPLITUDE
    centre = recipe.log_sureness - recipe.log_sureness_slope * np.log(3.0)

    def loss(log_sure):
        p = class_probabilities(np.exp(log_sure) * without, np.zeros(len(codes)))
        fit = counts @ np.log(p[np.arange(len(codes)), codes])
        return 0.5 * ((log_sure - centre) / recipe.sureness_spread) ** 2 - fit

    best = minimize_scalar(loss, bounds=(-4.0, 6.0), method="bounded")
    whole = regression_mean(features, codes, 6, 3.0, ones, features)
    sure = np.linalg.norm(features @ found.head.means[0]) / np.linalg.norm(whole)
    assert loss(np.log(sure)) < best.fun + 0.1  # nats, of some sixty
    assert np.log(sure) == pytest.approx(best.x, abs=0.2)


def head(seed=0):
    features, codes = problem(seed=seed)
    recipe = RegressionRecipe(amplitudes=(0.5, 4.0), least_share=0.0)
    return regress(features, codes, 6, np.ones(len(codes)), recipe).head


def test_the_mean_of_joint_draws_is_the_probability():
    found = head()
    rows = np.random.default_rng(3).standard_normal((4, 7))
    n = 4000
    drawn = found.draws(rows, n, np.random.default_rng(4))
    np.testing.assert_allclose(drawn.sum(axis=2), 1.0, atol=1e-12)
    apart = drawn.mean(axis=0) - found.proba(rows)
    assert np.all(np.abs(apart) < 4.5 * drawn.std(axis=0) / np.sqrt(n) + 1e-9)
    assert drawn.std(axis=0).max() > 0.05


def test_draws_differ_less_near_labels_and_alike_at_like_rows():
    found = head()
    far = np.array([[8.0, 0, 0, 0, 0, 0, 0], [8.001, 0, 0, 0, 0, 0, 0], [0, 8.0, 0, 0, 0, 0, 0]])
    drawn = found.draws(far, 500, np.random.default_rng(5))
    assert np.abs(drawn[:, 0] - drawn[:, 1]).max() < 0.01
    assert np.abs(drawn[:, 0] - drawn[:, 2]).mean() > 0.05
    known = RegressionHead(
        found.amplitudes, found.shares, found.means, np.eye(7), np.ones((len(found.shares), 7))
    )
    # Coefficients are known: only the amplitude is drawn.
    drawn = known.draws(far, 50, np.random.default_rng(6))
    by_amplitude = [class_probabilities(far @ mean, np.zeros(3)) for mean in found.means]
    apart = [np.abs(drawn - one).max(axis=(1, 2)) for one in by_amplitude]
    assert np.min(apart, axis=0).max() < 1e-9


def regressed(codes, *views, counts=None):
    counts = counts_left_out(codes, np.ones(len(codes))) if counts is None else counts
    K, recipe = codes.max() + 1, RegressionRecipe()
    parts = [regress(view, codes, K, counts, recipe) for view in views]
    return weigh(NAMES, parts, codes, K, counts, recipe)


def test_the_view_that_foretells_labels_has_the_weight():
    features, codes = problem(60)
    nothing = np.random.default_rng(7).standard_normal((60, 7))
    found = regressed(codes, features, nothing)
    assert [one.name for one in found.assumptions] == [*NAMES, "nothing"]
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.weights[0] > 0.8
    turned = regressed(codes, nothing, features)
    assert turned.weights[1] > 0.8
    np.testing.assert_allclose(found.foretold.sum(axis=1), 1.0)


def test_labels_that_cannot_be_left_out_leave_weights_as_before():
    features, codes = problem(6)  # every class has a single label
    found = regressed(codes, features, features[::-1])
    assert not found.is_compared
    odds = dict(RegressionRecipe().odds)
    expected = np.array([odds["neighbours"], odds["smooth"], odds["nothing"]])
    np.testing.assert_allclose(found.weights, expected / expected.sum(), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_labels_that_mean_nothing_are_hardly_believed(seed):
    rng = np.random.default_rng(seed)
    features, codes = rng.standard_normal((120, 7)), np.arange(120) % 6
    found = regressed(codes, features, rng.standard_normal((120, 7)))
    rows, truth = rng.standard_normal((600, 7)), rng.integers(6, size=600)
    p = sum(w * one.proba(rows) for w, one in zip(found.weights, found.heads))
    p = p + found.weights[2] / 6
    loss = -np.log(p[np.arange(600), truth]).mean()
    assert loss < np.log(6) + 0.05


def test_of_very_many_labels_a_part_is_left_out():
    codes = np.arange(3000) % 30
    counts = counts_left_out(codes, np.ones(3000))
    assert counts.sum() == 1000
    assert np.all(np.bincount(codes[counts > 0], minlength=30) > 0)


def test_features_of_any_size_leave_numbers():
    features, codes = problem(12, 12)
    for size in (1e-8, 1.0, 1e8):
        found = regress(size * features, codes, 6, np.ones(12), RegressionRecipe())
        assert np.all(np.isfinite(found.held_out))
        np.testing.assert_allclose(found.held_out.sum(axis=1), 1.0)
        assert np.all(np.isfinite(found.head.proba(size * features)))
