"""Blank numbers, filled in from the rows most like them.

A column's median is typical of its largest class: filled in with it, a row would look like a member
of that class, and a model would be sure of it. The mean over similar rows is their common value
where they agree, and lies between the classes where they do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_DONORS = 1000  # complete rows that are kept to fill others in
MOST_NUMBERS = 2_000_000  # cells of all donors together
FEWEST_DONORS = 20  # with fewer, columns are filled with their medians
N_LIKE = 10  # rows whose mean fills a cell, and all that are as near as the last of them
TIED = 1e-9  # relative difference of squared distances, and of means, that may be rounding
ROWS_COMPARED = 64  # rows compared with all donors at a time: distances stay in the cache
FEW_VALUES = 10
"""A column of numbers with at most this many different values counts as a category does, and a
blank cell takes one of the values."""


def donors_of(X: Array) -> Array:
    """Return complete rows to fill others in, at most MOST_DONORS; (n, p) -> (r, p).

    If too few rows are complete, none are returned. They come in an order of their own, whatever
    that of the table.
    """
    complete = np.flatnonzero(~np.isnan(X).any(axis=1))
    if len(complete) < FEWEST_DONORS or not X.shape[1]:
        return np.empty((0, X.shape[1]))
    most = max(FEWEST_DONORS, min(MOST_DONORS, MOST_NUMBERS // X.shape[1]))
    chosen = np.random.default_rng(0).permutation(complete)[:most]
    return X[chosen[np.lexsort(X[chosen].T)]]


def units(donors: Array) -> Array:
    """Return what to divide columns by, (p,), so that numbers count alike; 1 for indicators."""
    is_indicator = np.isin(donors, [0.0, 1.0]).all(axis=0)
    largest = np.abs(donors).max(axis=0)
    largest[largest == 0.0] = 1.0
    unit = largest * (donors / largest).std(axis=0)  # no square overflows
    return np.where(is_indicator | (unit == 0.0), 1.0, unit)


def fill_blank(X: Array, donors: Array, medians: Array) -> Array:
    """Return rows without blank cells, (n, p).

    Parameters
    ----------
    X : (n, p), NaN where a cell is blank
    donors : (r, p) complete rows; none: every blank cell takes the median
    medians : (p,) of the columns

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> donors = np.repeat([[0.0, 5.0], [9.0, 7.0]], 20, axis=0) + 0.1 * rng.random((40, 2))
    >>> fill_blank(np.array([[9.0, np.nan]]), donors, np.array([4.5, 6.0])).round(0).tolist()
    [[9.0, 7.0]]
    """
    is_blank = np.isnan(X)
    rows = np.flatnonzero(is_blank.any(axis=1))
    if not len(rows):
        return X
    out = np.where(is_blank, medians, X)
    if not len(donors):
        return out
    unit, n = units(donors), min(N_LIKE, len(donors))
    like = np.empty((len(rows), X.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = np.where(is_blank[rows], 0.0, X[rows] / unit)
        counts = (~is_blank[rows]).astype(float)
        for piece, nearer, tied in near_donors(numbers, counts, donors / unit, n):
            near = sparse.csr_array((nearer | tied).astype(float))  # sums each row by itself
            like[piece] = near @ donors / near.sum(axis=1)[:, None]
    like = _among_values(like, donors)
    usable = is_blank[rows] & np.isfinite(like)
    out[rows] = np.where(usable, like, out[rows])
    return out


def near_donors(
    rows: Array, counts: Array, donors: Array, n: int
) -> Iterator[tuple[slice, Mask, Mask]]:
    """Yield a few rows at a time, which donors are nearer than the n-th, and which as near as it.

    Distances are summed column by column: whichever rows stand beside it, a row's round alike. What
    may be rounding is as near, so that units do not decide between donors.

    Parameters
    ----------
    rows : (m, q)
    counts : (m, q) how much a difference in each cell counts
    donors : (r, q)

    Examples
    --------
    >>> donors = np.array([[0.0], [1.0], [3.0], [3.0]])
    >>> ((_, nearer, tied),) = near_donors(np.zeros((1, 1)), np.ones((1, 1)), donors, 3)
    >>> nearer.tolist(), tied.tolist()
    ([[True, True, False, False]], [[False, False, True, True]])
    """
    columns = np.ascontiguousarray(donors.T)
    for start in range(0, len(rows), ROWS_COMPARED):
        piece = slice(start, start + ROWS_COMPARED)
        squares = np.zeros((len(rows[piece]), len(donors)))
        apart = np.empty_like(squares)
        with np.errstate(over="ignore", invalid="ignore"):
            for j, column in enumerate(columns):
                np.subtract(rows[piece, j, None], column, out=apart)
                apart *= counts[piece, j, None]
                squares += np.square(apart, out=apart)
        last = np.partition(squares, n - 1, axis=1)[:, n - 1, None]
        nearer = squares < last * (1.0 - TIED)
        yield piece, nearer, ~nearer & (squares <= last * (1.0 + TIED))


def _among_values(like: Array, donors: Array) -> Array:
    """Return means, (m, p); in columns of few values, the value nearest to each mean.

    Of two that are as near, the lower one.
    """
    out = like.copy()
    for j in range(donors.shape[1]):
        values = np.unique(donors[:, j])
        if len(values) <= FEW_VALUES:
            middle = values[:-1] + (0.5 + TIED) * np.diff(values)
            out[:, j] = values[np.searchsorted(middle, like[:, j])]
    return out
