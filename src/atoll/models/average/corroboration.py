"""What rows without labels say of the graph without label noise.

Its labellings are certain of themselves, and few labels can tell whether rightly so. Three things
can, and need no label more:

- clarity: how much less error it states than a guess has. Where classes follow clusters, its
  labellings agree with each other on nearly every row; across a cloud without gaps each cuts
  elsewhere.
- agreement: how often another assumption, which sees the rows otherwise, draws the same classes
  from the same labels, beyond chance (Cohen's κ). Clear clusters that have nothing to do with the
  classes are a coincidence that other assumptions do not share.
- whether one column makes the clusters: rows are always clear of each other in a column of few
  values, such as yes or no, so that clusters which are the values of that column tell nothing. It
  is how often the values of the nearest such column foretell the clusters' classes, beyond chance.

The odds of the graph without label noise are its odds before the labels, times

    clarity ^ (strength × agreement × (1 − one column)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

LEAST_STATED_ERROR = 0.005  # a mean over draws can state no less
FEW_VALUES = 5  # of a column, at most, that makes clusters by itself
NEARLY_CONSTANT = 0.9  # share of its rows with one value from which a column makes none


class Corroboration(NamedTuple):
    """What rows without labels say of the graph without label noise.

    clarity : the error of a guess over the error that it states; at least one
    agreement : with the assumption that agrees most, beyond chance: 0 to 1
    one_column : how far a single column of few values foretells the clusters: 0 to 1
    """

    clarity: float
    agreement: float
    one_column: float = 0.0

    def log_odds(self, strength: float) -> float:
        """Return what this adds to the log odds."""
        told = self.agreement * (1.0 - self.one_column)
        return float(strength * told * np.log(self.clarity))


NOTHING_SEEN = Corroboration(1.0, 0.0)


def corroboration(stated: Array, guesses: Sequence[Codes], rows: Array) -> Corroboration:
    """Compare what the graph without label noise says of rows with other assumptions' classes.

    Parameters
    ----------
    stated : (m, K) its probabilities
    guesses : for each other assumption (m,) the most probable classes
    rows : (m, d) the rows
    """
    m, K = stated.shape
    if not m or not guesses:
        return NOTHING_SEEN
    own = stated.argmax(axis=1)
    most = max(agreement(own, other, K) for other in guesses)
    return Corroboration(clarity(stated), max(most, 0.0), foretold_by_a_column(own, rows, K))


def clarity(stated: Array) -> float:
    """Return the error of a guess over the error that probabilities (m, K) state on average.

    Examples
    --------
    >>> clarity(np.array([[0.9, 0.1], [0.1, 0.9]])).__round__(6)
    5.0
    """
    error = max(1.0 - float(stated.max(axis=1).mean()), LEAST_STATED_ERROR)
    return max((1.0 - 1.0 / stated.shape[1]) / error, 1.0)


def agreement(first: Codes, second: Codes, n_classes: int) -> float:
    """Return how often two classifications agree beyond chance: κ of Cohen (1960), at most one.

    Examples
    --------
    >>> agreement(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), 2)
    0.5
    >>> agreement(np.zeros(3, int), np.zeros(3, int), 2)  # one class alone tells nothing
    0.0
    """
    shares = [np.bincount(codes, minlength=n_classes) / len(codes) for codes in (first, second)]
    chance = float(shares[0] @ shares[1])
    if chance >= 1.0:
        return 0.0
    return float((np.mean(first == second) - chance) / (1.0 - chance))


def foretold_by_a_column(classes: Codes, rows: Array, n_classes: int) -> float:
    """Return how far one column of few values foretells classes beyond chance: 0 to 1.

    Parameters
    ----------
    classes : (m,)
    rows : (m, d)

    Examples
    --------
    >>> rows = np.array([[0.0, 0.3], [0.0, 2.1], [1.0, 0.2], [1.0, 1.9]])
    >>> foretold_by_a_column(np.array([1, 1, 0, 0]), rows, 2)
    1.0
    >>> foretold_by_a_column(np.array([1, 0, 1, 0]), rows, 2)
    0.0
    """
    most = 0.0
    for column in rows.T:
        values, which, n_rows = np.unique(column, return_inverse=True, return_counts=True)
        few = len(values) <= min(FEW_VALUES, len(column) // 2)
        if few and n_rows.max() <= NEARLY_CONSTANT * len(column):
            counts = np.zeros((len(values), n_classes))
            np.add.at(counts, (which, classes), 1.0)
            most = max(most, agreement(classes, counts.argmax(axis=1)[which], n_classes))
    return most
