"""Weights by which the average foretells labels: the optimum, its limits, and what is held out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from atoll.models.average import average, heads
from atoll.models.average.average import Weighed
from atoll.models.average.stacking import held_out, stacked

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
