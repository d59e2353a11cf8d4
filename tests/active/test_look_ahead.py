"""Look-ahead scores against brute force: every label of every row, and the draws weighted anew."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from atoll.active import look_ahead


@pytest.fixture(params=[(2, 0), (3, 1), (4, 2)], ids=lambda p: f"{p[0]} classes")
def problem(request):
    """Weighted draws of the probabilities of five rows."""
    K, seed = request.param
    rng = np.random.default_rng(seed)
    draws = rng.dirichlet(np.full(K, 0.5), size=(7, 5))
    return draws, rng.dirichlet(np.ones(7))


def reweighted(draws, weights, row, label):
    w = weights * draws[:, row, label]
    return w / w.sum(), w.sum()


def brier(draws, weights):
    p = np.einsum("s,smk->mk", weights, draws)
    return np.sum(p * (1.0 - p))


def test_the_brier_gain_is_the_expected_fall_of_the_brier_score(problem):
    draws, weights = problem
    gains = look_ahead.brier_gain(draws, weights)
    for row in range(draws.shape[1]):
        after = 0.0
        for label in range(draws.shape[2]):
            w, chance = reweighted(draws, weights, row, label)
            after += chance * brier(draws, w)
        np.testing.assert_allclose(gains[row], brier(draws, weights) - after, rtol=1e-10)


def linear_gain(draws, weights, rows):
    """What the labels of rows explain of all probabilities by the best linear predictor.

    Covariances are sums over draws and over every combination of labels.
    """
    S, _, K = draws.shape
    targets = draws.reshape(S, -1)
    outcomes, chances, at = [], [], []
    for s, labels in itertools.product(range(S), itertools.product(range(K), repeat=len(rows))):
        chances.append(weights[s] * np.prod([draws[s, r, c] for r, c in zip(rows, labels)]))
        outcomes.append(np.concatenate([np.eye(K)[c] for c in labels]))
        at.append(targets[s])
    chances, outcomes, at = np.array(chances), np.array(outcomes), np.array(at)
    outcomes = outcomes - chances @ outcomes
    at = at - chances @ at
    of_labels = np.einsum("a,ai,aj->ij", chances, outcomes, outcomes)
    across = np.einsum("a,ai,aj->ij", chances, outcomes, at)
    return np.trace(across.T @ np.linalg.pinv(of_labels, rcond=1e-10) @ across)


def test_the_first_of_a_batch_is_the_row_of_the_largest_gain(problem):
    draws, weights = problem
    candidates = np.array([4, 2, 0])
    gains = look_ahead.brier_gain(draws, weights, candidates)
    rows, scores = look_ahead.brier_batch(draws, weights, candidates, 1)
    assert rows[0] == candidates[gains.argmax()]
    np.testing.assert_allclose(scores[0], gains.max(), rtol=1e-7)


def test_the_gains_of_a_batch_add_up_to_what_its_labels_explain_together(problem):
    draws, weights = problem
    rows, gains = look_ahead.brier_batch(draws, weights, np.arange(5), 3)
    assert len(set(rows)) == 3
    for n in (1, 2, 3):
        wanted = linear_gain(draws, weights, rows[:n])
        np.testing.assert_allclose(gains[:n].sum(), wanted, rtol=1e-6)


def test_each_row_of_a_batch_is_the_best_given_those_before(problem):
    draws, weights = problem
    rows, gains = look_ahead.brier_batch(draws, weights, np.arange(5), 2)
    others = [row for row in range(5) if row != rows[0]]
    best = max(linear_gain(draws, weights, [rows[0], row]) for row in others)
    np.testing.assert_allclose(gains.sum(), best, rtol=1e-6)


def test_a_copy_of_a_row_without_noise_adds_nothing_to_a_batch():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=(16, 4))
    draws = np.eye(2)[labels[:, [0, 0, 0, 1, 2, 3]]]
    rows, _ = look_ahead.brier_batch(draws, np.full(16, 1 / 16), np.arange(6), 4)
    assert {0, 1, 2} & set(rows) == {rows[0]}  # three copies of one row, which tells most


def test_a_class_that_never_happens_leaves_every_score_finite():
    draws = np.zeros((3, 4, 3))
    draws[..., :2] = np.random.default_rng(0).dirichlet([1.0, 1.0], size=(3, 4))
    weights = np.full(3, 1 / 3)
    assert np.isfinite(look_ahead.brier_gain(draws, weights)).all()
    assert np.isfinite(look_ahead.brier_batch(draws, weights, np.arange(4), 3)[1]).all()
    assert np.isfinite(look_ahead.epig(draws, weights, np.arange(4), np.arange(4))).all()


def test_expected_error_reduction_is_that_of_draws_weighted_anew(problem):
    draws, weights = problem
    candidates, targets = np.array([0, 3]), np.array([1, 2, 4])

    def error(w):
        return np.mean(1.0 - np.einsum("s,smk->mk", w, draws[:, targets]).max(axis=1))

    found = look_ahead.expected_error_reduction(draws, weights, candidates, targets)
    for place, row in enumerate(candidates):
        after = 0.0
        for label in range(draws.shape[2]):
            w, chance = reweighted(draws, weights, row, label)
            after += chance * error(w)
        np.testing.assert_allclose(found[place], error(weights) - after, atol=1e-12)


def test_epig_is_the_fall_of_the_entropy_of_other_labels(problem):
    draws, weights = problem
    candidates, targets = np.array([0, 3]), np.array([1, 2, 4])

    def entropy(w):
        p = np.einsum("s,smk->mk", w, draws[:, targets])
        return -np.mean(np.sum(p * np.log(p), axis=1))

    found = look_ahead.epig(draws, weights, candidates, targets)
    for place, row in enumerate(candidates):
        after = 0.0
        for label in range(draws.shape[2]):
            w, chance = reweighted(draws, weights, row, label)
            after += chance * entropy(w)
        np.testing.assert_allclose(found[place], entropy(weights) - after, atol=1e-10)
