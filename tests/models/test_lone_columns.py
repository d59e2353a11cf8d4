"""Columns that classes may follow alone: which are looked at, and what they count."""

from dataclasses import fields

import numpy as np
import pytest

from atoll.models.average.lone_columns import COUNT, REACH, most_telling
from atoll.models.average.recipe import AVERAGE_RECIPE, COLUMN, Belief, column_of, of_column


def labels_of_ranks(seed=0, n=14, d=6, n_classes=3):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % n_classes)
    ranks = rng.random((n, d))
    ranks[:, 4] = (codes + rng.random(n)) / n_classes  # the only one that tells
    return ranks, codes


def brute_force_votes(ranks, codes, n_classes, weights):
    """Log probability of each label by votes of the others along every column, summed; (d,)."""
    out = np.zeros(ranks.shape[1])
    for i, code in enumerate(codes):
        others = np.arange(len(codes)) != i
        total = np.array([weights[others & (codes == k)].sum() + 1.0 for k in range(n_classes)])
        shares = total / total.sum()
        for j in range(ranks.shape[1]):
            near = weights * others * np.exp(-np.abs(ranks[:, j] - ranks[i, j]) / REACH)
            votes = np.array([near[codes == k].sum() for k in range(n_classes)]) + COUNT * shares
            out[j] += weights[i] * np.log(votes[code] / votes.sum())
    return out


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_come_in_the_order_in_which_others_foretell_each_label(seed, weighted):
    ranks, codes = labels_of_ranks(seed)
    weights = np.random.default_rng(seed).uniform(0.2, 2.0, len(codes)) if weighted else None
    found = most_telling(ranks, codes, 3, 6, weights)
    told = brute_force_votes(ranks, codes, 3, np.ones(len(codes)) if weights is None else weights)
    assert found[0] == 4
    np.testing.assert_array_equal(found, np.argsort(-told)[: len(found)])
    np.testing.assert_array_equal(most_telling(ranks, codes, 3, 2, weights), found[:2])


def test_columns_in_another_order_are_the_same_columns():
    ranks, codes = labels_of_ranks()
    order = np.random.default_rng(1).permutation(6)
    found = most_telling(ranks[:, order], codes, 3, 6)
    np.testing.assert_array_equal(order[found], most_telling(ranks, codes, 3, 6))


def test_what_tells_less_than_the_shares_of_the_classes_is_left_out():
    codes = np.arange(12) % 2
    against = np.arange(12) / 12.0  # the nearest labels are of the other class
    same = np.full(12, 0.5)
    clear = 0.1 + 0.8 * codes
    found = most_telling(np.column_stack([against, same, clear]), codes, 2, 3)
    np.testing.assert_array_equal(found, [2])


@pytest.mark.parametrize("n_classes", [2, 5])
def test_one_label_a_class_tells_of_no_column(n_classes):
    ranks = np.random.default_rng(0).random((n_classes, 8))
    assert not len(most_telling(ranks, np.arange(n_classes), n_classes, 3))


def test_all_columns_alone_share_the_odds_of_one_assumption():
    recipe = AVERAGE_RECIPE.for_rows(12, False)
    odds = [recipe.belief(of_column(j)).odds for j in range(12)]
    assert sum(odds) == pytest.approx(AVERAGE_RECIPE.column.odds)
    regression = AVERAGE_RECIPE.regression
    odds = [regression.odds_of(of_column(j), 12) for j in range(12)]
    assert sum(odds) == pytest.approx(dict(regression.odds)[COLUMN])


def test_no_other_assumption_is_taken_for_a_column():
    names = [f.name for f in fields(AVERAGE_RECIPE) if isinstance(f.default, Belief)]
    assert COLUMN in names
    assert [column_of(name) for name in names] == [None] * len(names)
    assert all(AVERAGE_RECIPE.belief(name) == getattr(AVERAGE_RECIPE, name) for name in names)
