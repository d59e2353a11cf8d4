"""The strategies by their names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from atoll.active import coverage, look_ahead
from atoll.active.situation import Choice, Index, Situation, choose_by_score
from atoll.active.uncertainty import bald, entropy, margin

PAIRS = 400  # rows to ask, and rows to predict, where every pair of them is considered

Choose = Callable[[Situation, int, np.random.Generator], Choice]


class Strategy(NamedTuple):
    """A rule that chooses rows to label.

    summary : what it asks for, in words
    choose : situation, number of rows and generator -> Choice
    needs : "draws" (joint draws of the model), "proba" (its probabilities), "features" (rows as
        numbers), "nothing", or "anything" (draws where the model has them)
    """

    summary: str
    choose: Choose
    needs: str


def _brier(situation: Situation, n: int, rng: np.random.Generator) -> Choice:
    if n == 1:
        return choose_by_score(_brier_gain, situation, 1, rng)
    found = look_ahead.brier_batch(situation.joint, situation.weights, situation.candidates, n)
    return Choice(*found)


def _brier_gain(situation: Situation) -> Any:
    return look_ahead.brier_gain(situation.joint, situation.weights, situation.candidates)


def _by_pairs(score: Any) -> Choose:
    """Return a strategy that scores some candidates by what they tell of some targets."""

    def choose(situation: Situation, n: int, rng: np.random.Generator) -> Choice:
        asked = _some(situation.candidates, max(PAIRS, n), rng)
        targets = _some(np.arange(len(situation.proba)), PAIRS, rng)

        def scored(here: Situation) -> Any:
            return score(here.joint, here.weights, here.candidates, targets)

        return choose_by_score(scored, situation._replace(candidates=asked), n, rng)

    return choose


def _some(rows: Index, most: int, rng: np.random.Generator) -> Index:
    if len(rows) <= most:
        return rows
    return np.sort(rng.choice(rows, most, replace=False))


def _bald(situation: Situation) -> Any:
    return bald(situation.joint[:, situation.candidates], situation.weights)


def _margin(situation: Situation) -> Any:
    return margin(situation.proba[situation.candidates])


def _entropy(situation: Situation) -> Any:
    return entropy(situation.proba[situation.candidates])


def _typiclust(situation: Situation, n: int, rng: np.random.Generator) -> Choice:
    if situation.features is None or situation.labelled is None:
        return _random(situation, n, rng)
    found = coverage.typical_rows(
        situation.features, situation.labelled, situation.candidates, n, rng
    )
    return Choice(*found)


def _random(situation: Situation, n: int, rng: np.random.Generator) -> Choice:
    return Choice(*coverage.random_rows(situation.candidates, n, rng))


STRATEGIES: dict[str, Strategy] = {
    "brier": Strategy("lowers the expected Brier score of all rows most", _brier, "draws"),
    "error-reduction": Strategy(
        "lowers the expected share of wrong rows most",
        _by_pairs(look_ahead.expected_error_reduction),
        "draws",
    ),
    "epig": Strategy("tells most of the labels of other rows", _by_pairs(look_ahead.epig), "draws"),
    "bald": Strategy(
        "tells most of the model's functions", partial(choose_by_score, _bald), "draws"
    ),
    "margin": Strategy(
        "has the smallest lead of its likeliest class", partial(choose_by_score, _margin), "proba"
    ),
    "entropy": Strategy("has the highest entropy", partial(choose_by_score, _entropy), "proba"),
    "typiclust": Strategy(
        "is the most typical row of a large cluster without a label", _typiclust, "features"
    ),
    "random": Strategy("was drawn at random", _random, "nothing"),
}
"""Every strategy by its name in `ActiveLearner(strategy=…)`."""


def find_strategy(strategy: Any) -> tuple[str, Strategy]:
    """Return name and strategy of a name, a `Strategy`, or a function of a situation.

    Such a function gives one number for each candidate, larger for better.
    """
    if isinstance(strategy, Strategy):
        return "your own", strategy
    if isinstance(strategy, str) and strategy in STRATEGIES:
        return strategy, STRATEGIES[strategy]
    if callable(strategy):
        name = getattr(strategy, "__name__", type(strategy).__name__)
        choose = partial(choose_by_score, strategy)
        return name, Strategy(f"has the highest score by {name}", choose, "anything")
    names = ", ".join(f'"{name}"' for name in STRATEGIES)
    raise ValueError(f"strategy must be {names} or a function of a Situation, got {strategy!r}.")
