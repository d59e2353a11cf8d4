"""Weights by which the average foretells labels: the optimum, its limits, and what is held out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import betaln

from atoll.models.average import average, heads
from atoll.models.average.average import Weighed
from atoll.models.average.recipe import of_column
from atoll.models.average.stacking import OneColumn, by_foretelling, held_out, stacked

NONE_FIXED = np.zeros(4, bool)


def foretold(seed, n_labels=30):
    """Weights by Bayes' rule, probabilities of labels and what these count."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(4)), rng.beta(2, 1, (4, n_labels)), rng.uniform(0.5, 2, n_labels)


def objective(weights, bayes, of_labels, counts, worth, free):
    share = bayes[free] / bayes[free].sum()
    return counts @ np.log(weights @ of_labels) + worth * share @ np.log(weights[free])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fixed", [NONE_FIXED, np.array([False, True, False, False])])
def test_weights_are_where_the_objective_is_largest(seed, fixed):
    bayes, of_labels, counts = foretold(seed)
    free, worth = ~fixed, 2.0
    total = bayes[free].sum()

    def whole(part):
        out = bayes.copy()
        out[free] = total * np.exp(part) / np.exp(part).sum()
        return out

    best = minimize(
        lambda part: -objective(whole(part), bayes, of_labels, counts, worth, free),
        np.zeros(free.sum()),
        tol=1e-10,
    )
    found = stacked(bayes, of_labels, counts, worth, fixed)
    np.testing.assert_allclose(found, whole(best.x), atol=1e-3)
    assert objective(found, bayes, of_labels, counts, worth, free) >= -best.fun - 1e-5


def test_a_fixed_weight_stays_and_all_sum_to_one():
    bayes, of_labels, counts = foretold(1)
    fixed = np.array([True, False, False, True])
    found = stacked(bayes, of_labels, counts, 1.0, fixed)
    np.testing.assert_array_equal(found[fixed], bayes[fixed])
    assert found.sum() == pytest.approx(1.0)


def test_bayes_rule_stands_where_it_is_worth_most_or_no_label_counts():
    bayes, of_labels, counts = foretold(2)
    np.testing.assert_allclose(stacked(bayes, of_labels, counts, 1e9, NONE_FIXED), bayes, atol=1e-5)
    np.testing.assert_allclose(stacked(bayes, of_labels, 0 * counts, 1.0, NONE_FIXED), bayes)


def test_an_assumption_without_weight_by_bayes_rule_may_gain_some():
    of_labels = np.array([[0.9] * 20 + [0.2] * 20, [0.2] * 20 + [0.9] * 20])
    found = stacked(np.array([1.0, 0.0]), of_labels, np.ones(40), 1.0, NONE_FIXED[:2])
    assert 0.35 < found[1] < 0.5


def test_nothing_moves_where_one_assumption_is_left():
    bayes, of_labels, counts = foretold(3)
    fixed = np.array([True, True, True, False])
    np.testing.assert_array_equal(stacked(bayes, of_labels, counts, 1.0, fixed), bayes)
    none = np.array([0.0, 0.0, 0.0, 1.0])  # all weight is fixed
    np.testing.assert_array_equal(stacked(none, of_labels, counts, 1.0, ~fixed), none)


def test_every_label_is_foretold_by_the_others_alone():
    # One view of one amplitude: the answer without a label is that of a fit without it.
    rng = np.random.default_rng(3)
    V, codes = rng.standard_normal((9, 2)), np.arange(9) % 3
    A, K = np.array([0.5]), 3
    problems = heads.infer([V], [A], codes, K, 1e-3)
    parts = [
        Weighed("line", 0.0, 0.0, np.ones(1)),
        Weighed("nothing", 0.0, 0.0, np.empty(0)),
        Weighed("clusters", 0.0, 0.0, np.empty(0)),
    ]
    each = held_out(problems, parts, codes, K)
    np.testing.assert_allclose(each.sum(axis=2), 1.0)
    np.testing.assert_array_equal(each[0], each[2])  # the same view at its largest amplitude
    told = np.tensordot([0.5, 0.3, 0.2], each, 1)
    for i in range(9):
        rest = np.arange(9) != i
        without = heads.infer([V[rest]], [A], codes[rest], K, 1e-3).head(0, np.ones(1))
        shares = average.smoothed_shares(codes[rest], K)
        np.testing.assert_allclose(each[1, i], shares)
        expected = 0.7 * without.proba(V[i : i + 1])[0] + 0.3 * shares
        # The sites of the others know of the label that is left out: EP's own error.
        np.testing.assert_allclose(told[i], expected, atol=0.05)


def test_where_propagation_failed_an_assumption_foretells_nothing():
    V, codes = np.random.default_rng(0).standard_normal((6, 2)), np.arange(6) % 2
    problems = heads.infer([V], [np.array([0.5])], codes, 2, 1e-3)
    failed = np.full_like(problems.sites.held_out_mean, np.nan)
    problems = problems._replace(sites=problems.sites._replace(held_out_mean=failed))
    line = Weighed("line", 0.0, -np.inf, np.ones(1))
    np.testing.assert_array_equal(held_out(problems, [line], codes, 2), 0.5)


# One column alone ---------------------------------------------------------------------------------
# Columns of yes and no, whose labels have a share of their own under each value, any as likely as
# any other: all probabilities are known exactly.


def log_evidence(column, codes):
    """Log probability of labels in two classes whose share is unknown under each value."""
    parts = [codes[column == value] for value in (0, 1)]
    return sum(betaln(1 + part.sum(), 1 + (1 - part).sum()) for part in parts)


def told_without_each(column, codes):
    """Probability of both classes for every row, by the labels of the other rows; (l, 2)."""
    out = np.empty((len(codes), 2))
    for i in range(len(codes)):
        others = np.arange(len(codes)) != i
        same = codes[others & (column == column[i])]
        out[i] = (1 + np.array([(1 - same).sum(), same.sum()])) / (2 + len(same))
    return out


def columns_and_nothing(X, codes, kept, odds=0.1):
    """Assumptions with what they say of each label without it, and the labels."""
    constant = np.zeros(len(codes), int)
    columns = [constant, *X[:, kept].T]
    names = ["nothing", *map(of_column, kept)]
    log_odds = [0.0] + [np.log(odds / X.shape[1])] * len(kept)
    parts = [
        Weighed(name, one, log_evidence(column, codes), np.empty(0))
        for name, one, column in zip(names, log_odds, columns)
    ]
    return parts, np.stack([told_without_each(column, codes) for column in columns])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kept", [[0, 1, 2, 3, 4], [3, 1]])
def test_a_column_that_is_not_known_foretells_labels_as_bayes_rule_has_it_by_the_others(seed, kept):
    rng = np.random.default_rng(seed)
    X, codes = rng.integers(0, 2, (12, 5)), rng.integers(0, 2, 12)
    parts, told = columns_and_nothing(X, codes, kept)
    found = OneColumn.of(parts, told, codes, np.ones(12), X.shape[1])
    for i in range(12):
        others = np.arange(12) != i
        columns = [X[:, j] if j in kept else 0 * X[:, j] for j in range(5)]
        evidence = [log_evidence(column[others], codes[others]) for column in columns]
        with_each = [
            [log_evidence(column, np.where(others, codes, k)) for column in columns] for k in (0, 1)
        ]
        expected = np.exp(with_each).sum(axis=1) / np.exp(evidence).sum()
        np.testing.assert_allclose(found.told[i], expected, rtol=1e-10)
    shares = np.exp([log_evidence(X[:, j], codes) for j in kept])
    rest = (5 - len(kept)) * np.exp(parts[0].log_evidence)
    np.testing.assert_allclose(found.shares, np.append(shares, rest) / (shares.sum() + rest))


def test_the_best_of_many_columns_of_noise_gains_no_weight():
    # By itself it foretells labels, since it was chosen by all of them.
    alone, as_one, gained = [], [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, codes, n = rng.integers(0, 2, (40, 100)), rng.integers(0, 2, 40), np.arange(40)
        best = np.argsort([-log_evidence(column, codes) for column in X.T])[:3]
        parts, told = columns_and_nothing(X, codes, best.tolist())
        log_told = np.log(told[:, n, codes]).sum(axis=1)
        found = OneColumn.of(parts, told, codes, np.ones(40), 100)
        alone.append(log_told[1] - log_told[0])
        as_one.append(np.log(found.told[n, codes]).sum() - log_told[0])
        by_rule, by_labels = (
            by_foretelling(parts, told, codes, np.ones(40), 100, worth)[0][1:].sum()
            for worth in (1e9, 4.0)
        )
        gained.append(by_labels - by_rule)
    assert np.mean(alone) > 1.5
    assert np.mean(as_one) < 0.3
    assert np.mean(gained) < 0.01


def test_a_column_that_tells_keeps_its_weight():
    rng = np.random.default_rng(0)
    X, codes = rng.integers(0, 2, (40, 100)), rng.integers(0, 2, 40)
    X[:, 7] = codes
    parts, told = columns_and_nothing(X, codes, [7, 3])
    weights, foretold = by_foretelling(parts, told, codes, np.ones(40), 100, 4.0)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[1] > 0.9
    np.testing.assert_allclose(foretold.sum(axis=1), 1.0)
    assert np.exp(np.log(foretold[np.arange(40), codes]).mean()) > 0.85


def test_the_only_column_foretells_as_it_does_by_itself():
    rng = np.random.default_rng(1)
    X, codes = rng.integers(0, 2, (20, 1)), rng.integers(0, 2, 20)
    parts, told = columns_and_nothing(X, codes, [0])
    found = OneColumn.of(parts, told, codes, np.ones(20), 1)
    np.testing.assert_allclose(found.told, told[1])
    weights = np.array([0.3, 0.7])
    np.testing.assert_allclose(found.parted(weights, 2), weights)


def test_without_columns_alone_nothing_is_taken_together():
    parts, told = columns_and_nothing(np.zeros((6, 2), int), np.arange(6) % 2, [])
    assert OneColumn.of(parts, told, np.arange(6) % 2, np.ones(6), 2) is None
    lost = [parts[0], Weighed(of_column(0), 0.0, -np.inf, np.empty(0))]
    told = np.concatenate([told, told])
    assert OneColumn.of(lost, told, np.arange(6) % 2, np.ones(6), 2) is None
    weights, _ = by_foretelling(lost, told, np.arange(6) % 2, np.ones(6), 2, 4.0)
    np.testing.assert_array_equal(weights, [1.0, 0.0])


@pytest.mark.parametrize("kept", [[2], [2, 5, 0], [0, 1, 2, 3, 4, 5]])
def test_weights_that_labels_do_not_move_are_those_of_bayes_rule_with_all_columns(kept):
    rng = np.random.default_rng(2)
    X, codes = rng.integers(0, 2, (30, 6)), rng.integers(0, 2, 30)
    X[:, 2] = np.where(rng.random(30) < 0.8, codes, 1 - codes)
    parts, told = columns_and_nothing(X, codes, kept, odds=0.5)
    weights, _ = by_foretelling(parts, told, codes, np.ones(30), 6, 1e9)
    joint = np.exp([one.log_odds + one.log_evidence for one in parts])
    joint[0] += (6 - len(kept)) * 0.5 / 6 * np.exp(parts[0].log_evidence)  # those not kept
    np.testing.assert_allclose(weights, joint / joint.sum(), atol=1e-6)
