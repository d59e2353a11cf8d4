"""Columns that classes may follow alone, such as a threshold of one measurement.

Every column might be the one. Labels are foretold by votes of the others along each column, which
takes next to no time, and only those columns are looked at more closely that foretell them best. A
column's odds before the labels are those of one among all columns, however few of them are kept, so
that the choice gives it nothing; see also `stacking`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atoll.models.average import average

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

REACH = 0.1  # in ranks, over which a label's vote falls to 1/e
COUNT = 0.5  # what the shares of the classes count, in votes


def most_telling(
    ranks: Array, codes: Codes, n_classes: int, most: int, label_weights: Array | None = None
) -> Codes:
    """Return the columns along which labels are foretold best, better than by their shares.

    Parameters
    ----------
    ranks : (l, d) of the labelled rows in every column, in [0, 1]
    codes : (l,) in 0..K−1
    most : columns
    label_weights : (l,) of the labels; None: one each

    Examples
    --------
    >>> codes = np.array([0, 0, 0, 1, 1, 1])
    >>> ranks = np.column_stack([[0.1, 0.9, 0.5, 0.3, 0.7, 0.4], [0.1, 0.2, 0.3, 0.7, 0.8, 0.9]])
    >>> most_telling(ranks, codes, 2, 3)
    array([1])
    """
    counts = np.ones(len(codes)) if label_weights is None else label_weights
    votes_of = counts[:, None] * np.eye(n_classes)[codes]
    shares = average.shares_of_others(codes, n_classes, label_weights)
    own = np.arange(len(codes)), codes
    told = np.empty(ranks.shape[1])
    for j, rank in enumerate(ranks.T):
        near = np.exp(-np.abs(rank[:, None] - rank) / REACH)
        np.fill_diagonal(near, 0.0)
        votes = near @ votes_of + COUNT * shares
        told[j] = counts @ np.log(votes[own] / votes.sum(axis=1))
    told[np.ptp(ranks, axis=0) == 0] = -np.inf  # the same value in all labelled rows
    best = np.argsort(-told, kind="stable")[:most]
    return best[told[best] > counts @ np.log(shares[own])]
