"""What a strategy sees, and what it answers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

SHORT_LIST = 10  # rows considered for each place of a batch


class Situation(NamedTuple):
    """Some rows of the pool, and what the model says of them.

    The rows are all unlabelled ones, or a random part of them if they are many.

    proba : (m, K) class probabilities
    draws : (S, m, K) joint draws of them, all of the same weight; None where the model has none
    features : (m, d) the rows in comparable units; None where they are not numbers
    candidates : (c,) which of the m rows may be asked
    labelled : (l, d) features of the labelled rows; None where rows are not numbers
    """

    proba: Array
    draws: Array | None
    features: Array | None
    candidates: Index
    labelled: Array | None

    @property
    def joint(self) -> Array:
        """(S, m, K) the draws, for a strategy that needs them."""
        if self.draws is None:
            raise ValueError(
                'this strategy needs joint draws, and the model has none; use strategy="margin".'
            )
        return self.draws

    @property
    def weights(self) -> Array:
        """(S,) of the draws."""
        return np.full(len(self.joint), 1.0 / len(self.joint))


class Choice(NamedTuple):
    """Rows to ask, the best first.

    places : (k,) among the rows of the situation, all of them candidates
    scores : (k,) what the strategy says of them; larger is better
    """

    places: Index
    scores: Array


Score = Callable[[Situation], Any]
"""What every candidate is worth: a situation -> (c,) numbers."""


def choose_by_score(score: Score, situation: Situation, n: int, rng: np.random.Generator) -> Choice:
    """Choose the best row, or a batch of good rows that differ.

    The best n rows are often neighbours, and one of them tells most of what all would. A batch is
    therefore chosen from ten times as many good rows: these are divided into n groups of rows that
    the model moves together, and the best of each group is asked (after F. Zhdanov, "Diverse
    mini-batch active learning", 2019).
    """
    scores = np.asarray(score(situation), dtype=np.float64)
    places = situation.candidates
    if scores.shape != places.shape:
        raise ValueError(
            f"the strategy gave scores of shape {scores.shape} for {len(places)} candidates; give "
            "one number for each."
        )
    order = _best_first(scores, rng)
    if n > 1:
        order = _spread(situation, order[: SHORT_LIST * n], n, rng)
    chosen = order[:n]
    return Choice(places[chosen], scores[chosen])


def _best_first(scores: Array, rng: np.random.Generator) -> Index:
    """Return the order of falling scores; equal ones in random order."""
    shuffled = rng.permutation(len(scores))
    return shuffled[np.argsort(-scores[shuffled], kind="stable")]


def _spread(situation: Situation, order: Index, n: int, rng: np.random.Generator) -> Index:
    """Return the best of each of n groups of the rows in `order`, best first."""
    from sklearn.cluster import KMeans  # imported late: it is slow to import

    if len(order) <= n:
        return order
    rows = situation.candidates[order]
    if situation.draws is not None:
        draws = situation.draws[:, rows]
        where = draws.transpose(1, 0, 2).reshape(len(rows), -1)
    elif situation.features is not None:
        where = situation.features[rows]
    else:
        where = situation.proba[rows]
    n_groups = min(n, len(np.unique(where, axis=0)))
    seed = int(rng.integers(2**31))
    with warnings.catch_warnings():  # rows may be all but the same
        warnings.simplefilter("ignore", ConvergenceWarning)
        groups = KMeans(n_groups, n_init=1, random_state=seed).fit_predict(where)
    first = np.unique(groups, return_index=True)[1]  # `order` is best first
    rest = np.setdiff1d(np.arange(len(order)), first)
    return np.concatenate([order[np.sort(first)], order[rest]])
