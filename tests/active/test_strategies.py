"""Every strategy gives rows that may be asked, and a batch of them differs."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.active import STRATEGIES, Situation
from atoll.active.coverage import comparable, typical_rows
from atoll.active.strategies import find_strategy
from atoll.active.uncertainty import bald, entropy, margin


@pytest.fixture
def situation():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60, 2)) + 6 * rng.integers(2, size=(60, 1))
    draws = rng.dirichlet(np.full(3, 0.3), size=(20, 60))
    candidates = np.arange(5, 60, 2)
    return Situation(draws.mean(axis=0), draws, features, candidates, features[:3])


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("n", [1, 5, 28])
def test_a_strategy_gives_so_many_candidates_once_each(name, n, situation):
    chosen = STRATEGIES[name].choose(situation, n, np.random.default_rng(0))
    assert len(chosen.places) == len(chosen.scores) == n
    assert len(set(chosen.places)) == n
    assert np.isin(chosen.places, situation.candidates).all()


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_has_a_summary_and_says_what_it_needs(name):
    strategy = STRATEGIES[name]
    assert strategy.summary
    assert strategy.needs in ("draws", "proba", "features", "nothing")


def test_rules_of_one_row_pick_the_least_sure_row(situation):
    for name, score in (("margin", margin), ("entropy", entropy)):
        chosen = STRATEGIES[name].choose(situation, 1, np.random.default_rng(0))
        wanted = situation.candidates[score(situation.proba[situation.candidates]).argmax()]
        assert chosen.places[0] == wanted


def test_bald_of_labels_without_noise_is_their_entropy():
    labels = np.random.default_rng(0).integers(3, size=(50, 8))
    draws, weights = np.eye(3)[labels], np.full(50, 1 / 50)
    np.testing.assert_allclose(bald(draws, weights), entropy(draws.mean(axis=0)), atol=1e-12)


def test_a_batch_of_a_rule_of_one_row_does_not_ask_copies():
    """The best rows are copies of one; a batch has one of them, and others."""
    labels = np.random.default_rng(0).integers(2, size=(40, 3))
    of_row = np.repeat([0, 1, 2], [20, 10, 10])
    draws = np.eye(2)[labels[:, of_row]] * 0.9 + 0.05
    proba = np.full((40, 2), 0.5)
    here = Situation(proba, draws, None, np.arange(40), None)
    chosen = STRATEGIES["margin"].choose(here, 3, np.random.default_rng(0))
    assert set(of_row[chosen.places]) == {0, 1, 2}


def test_typical_rows_come_from_clusters_without_a_label():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    cluster = np.repeat([0, 1, 2], [30, 20, 10])
    rows = centres[cluster] + rng.standard_normal((60, 2))
    first, sizes = typical_rows(rows, np.empty((0, 2)), np.arange(60), 3, rng)
    assert cluster[first].tolist() == [0, 1, 2]
    assert sizes.tolist() == [30, 20, 10]
    then, _ = typical_rows(rows, centres[:2], np.arange(60), 1, rng)
    assert cluster[then].tolist() == [2]


def test_columns_of_unlike_units_are_made_comparable():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2)) * [1.0, 1000.0]
    np.testing.assert_allclose(comparable(X).std(axis=0), 1.0)
    assert comparable(X[:, :1]) is not None
    assert comparable([["a"], ["b"]]) is None


def test_a_function_of_the_situation_is_a_strategy(situation):
    def smallest_place(here):
        return -here.candidates

    name, strategy = find_strategy(smallest_place)
    chosen = strategy.choose(situation, 1, np.random.default_rng(0))
    assert (name, chosen.places[0]) == ("smallest_place", 5)


def test_a_function_with_the_wrong_number_of_scores_is_told_so(situation):
    _, strategy = find_strategy(lambda here: [1.0])
    with pytest.raises(ValueError, match="for 28 candidates"):
        strategy.choose(situation, 1, np.random.default_rng(0))


def test_an_unknown_strategy_is_refused_with_the_names():
    with pytest.raises(ValueError, match='strategy must be "brier"'):
        find_strategy("best")
