"""How much categories count beside measurements, by what the labels say.

Rows of a table of measurements and categories are near each other if they share categories, or if
their measurements are alike; which of the two the classes depend on differs from table to table.
The default classifier gives the evidence of the labels for either weight of the categories: one,
as indicators come, or a half. A half is taken if it makes the labels clearly more probable.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.core.labels import PartialLabels
from atoll.core.preprocessing import PreparedTable, counts_as_category
from atoll.estimators.atoll import AtollClassifier
from atoll.estimators.graph_rows import some_labels

HALF = 0.5
CLEARLY = 0.2  # log of how many times as probable labels must be: `benchmarks/results/rows.md`
MOST_ROWS = 1000  # on which the choice is based
MOST_LABELS = 200
MOST_CLASSES = 20  # with more, nothing is weighed: the labels may be a measurement


class CategoryWeight(NamedTuple):
    """How much categories count beside measurements.

    weight : one, or a half
    log_odds : log of how many times more probable it makes the labels than the other weight
    """

    weight: float = 1.0
    log_odds: float = 0.0


def weigh_categories(table: PreparedTable, labels: PartialLabels) -> CategoryWeight:
    """Return how much categories count: a half if that makes the labels clearly more probable.

    A table of nothing but categories, of nothing but numbers, or with texts is left as it is, and
    so is one whose labels are of one class, or of more than twenty.

    Parameters
    ----------
    table : standardised, as `prepare` returns it
    labels : of its rows
    """
    if sparse.issparse(table.X):
        return CategoryWeight()
    return weigh_features(table.X, counts_as_category(table), labels)


def weigh_features(
    X: NDArray[np.float64], are_categories: NDArray[np.bool_], labels: PartialLabels
) -> CategoryWeight:
    """Return how much features that are categories should count, as `weigh_categories` does.

    Parameters
    ----------
    X : (n, p) features of a table, standardised
    are_categories : (p,) which of them count as categories
    labels : of the rows
    """
    if not 2 <= len(labels.classes) <= MOST_CLASSES:
        return CategoryWeight()
    if are_categories.all() or not are_categories.any():
        return CategoryWeight()
    rng = np.random.default_rng(0)
    known = some_labels(rng, labels, MOST_LABELS)
    others = np.flatnonzero(~labels.is_labelled)
    others = rng.permutation(others)[: max(MOST_ROWS - len(known), 0)]
    rows = np.sort(np.concatenate([known, others]))
    y = np.where(labels.is_labelled, labels.codes, -1)[rows]
    whole, half = (
        _log_evidence(X[rows] * np.where(are_categories, weight, 1.0), y) for weight in (1.0, HALF)
    )
    gain = half - whole
    return CategoryWeight(HALF, gain) if gain > CLEARLY else CategoryWeight(1.0, -gain)


def _log_evidence(X: NDArray[np.float64], y: NDArray[np.intp]) -> float:
    """Return the log of how many times more probable the rows make the labels than shares alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit that follows says the same
        return AtollClassifier(unlabelled=-1, random_state=0)._log_evidence(X, y)
