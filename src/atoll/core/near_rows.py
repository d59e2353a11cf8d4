"""The exact nearest rows by matrix products in single precision, for rows of many columns.

The nearest rows r to a row x have the largest scores

    s(x, r) = xᵀr − ‖r‖²/2 = (‖x‖² − ‖x − r‖²) / 2.

All scores come from one matrix product in single precision, which is twice as fast as in double.
Rows are divided into many groups; at least k rows reach the k-th largest of the groups' best
scores, and few others do. These rows are the candidates, whose distances are found in double. They
are the answer if a bound on the rounding of products proves that all others are farther; if it does
not, which is rare, `nearest_by_products` says so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atoll.core.memory import in_chunks

Array = NDArray[np.float64]
Numbers = NDArray[np.intp]

LEAST_ROWS = 1000  # with fewer, other searches are as quick
MOST_NEIGHBOURS = 20
FARTHEST = 1e15  # smaller numbers have squares that do not overflow in single precision
SPARE = 6  # candidates beyond those that are asked for
GROUP = 50  # rows of a group, about
MOST_CANDIDATES = 64  # a row with more is left to another search
SCORES_AT_ONCE = 2**21  # 8 MiB
NOWHERE = np.finfo(np.float32).min  # score where no row stands; infinities would make NaNs
ROUNDING, LEAST_NORMAL = 2.0**-24, 2.0**-126  # of single precision


def takes(rows: NDArray[np.floating], X: NDArray[np.floating], k: int) -> bool:
    """Return whether `nearest_by_products` suits this many rows, and numbers of this size."""
    if len(rows) < LEAST_ROWS or k > MOST_NEIGHBOURS:
        return False
    largest = max(np.abs(rows).max(initial=0.0), np.abs(X).max(initial=0.0))
    return bool(largest < FARTHEST)


def nearest_by_products(
    rows: NDArray[np.floating], X: NDArray[np.floating], k: int
) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return the k rows nearest to each row of X, nearest first, (m, k), and which are proven (m,).

    Of rows that are equally near, the first comes first. Search again for what is not proven.

    Parameters
    ----------
    rows : (n, d) centred about zero, more than k
    X : (m, d)

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [3.0]])
    >>> nearest_by_products(rows, np.array([[2.5]]), 2)
    (array([[2, 1]]), array([ True]))
    """
    n, d = rows.shape
    n_groups = max(min(n, 2 * (k + SPARE)), n // GROUP)
    across = np.zeros((d + 1, n_groups * -(-n // n_groups)), np.float32)
    across[:d, :n] = rows.T
    across[d] = NOWHERE
    across[d, :n] = -0.5 * np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    indices, proven = np.zeros((len(X), k), np.intp), np.zeros(len(X), bool)
    for piece in in_chunks(len(X), across.shape[1], most=SCORES_AT_ONCE):
        some = X[piece]
        scores = np.column_stack([some, np.ones(len(some))]).astype(np.float32) @ across
        least = _reached_by(scores, n_groups, k + SPARE)
        query, candidate = np.divmod(np.flatnonzero(scores >= least[:, None]), across.shape[1])
        indices[piece], furthest = _nearest_of(some, rows, query, candidate, k)
        proven[piece] = _score(some, furthest) > least + _rounding(some, furthest)
    return indices, proven


def _reached_by(scores: NDArray[np.float32], n_groups: int, k: int) -> NDArray[np.float32]:
    """Return a score that at least k rows reach, (m,), or −∞; scores (m, n) of rows in groups."""
    best = scores.reshape(len(scores), -1, n_groups).max(axis=1)
    if n_groups <= k:
        return np.full(len(scores), -np.inf, np.float32)
    return np.partition(best, n_groups - k, axis=1)[:, n_groups - k]


def _nearest_of(
    X: NDArray[np.floating],
    rows: NDArray[np.floating],
    query: Numbers,
    candidate: Numbers,
    k: int,
) -> tuple[Numbers, Array]:
    """Return the k nearest candidates of each row, (m, k), and the largest distance squared (m,).

    That is infinite for a row with too many candidates.

    Parameters
    ----------
    query, candidate : (p,) which rows of X, rising, and their candidates
    """
    m, n = len(X), len(rows)
    indices, furthest = np.zeros((m, k), np.intp), np.full(m, np.inf)
    counts = np.bincount(query, minlength=m)
    kept = (counts[query] <= MOST_CANDIDATES) & (candidate < n)
    query, candidate = query[kept], candidate[kept]
    if not len(query):
        return indices, furthest
    difference = X[query].astype(np.float64, copy=False) - rows[candidate]
    squares = np.einsum("ij,ij->i", difference, difference)
    # A table of the candidates, padded with infinite distances; ties go to the first.
    first = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=m))])
    place = np.arange(len(query)) - first[query]
    table = np.full((m, max(k, int(place.max()) + 1)), np.inf)
    table[query, place] = squares
    nearest = np.argsort(table, axis=1, kind="stable")[:, :k]
    furthest = table[np.arange(m), nearest[:, -1]]
    found = np.flatnonzero(np.isfinite(furthest))
    indices[found] = candidate[first[found, None] + nearest[found]]
    return indices, furthest


def _score(X: NDArray[np.floating], squares: Array) -> Array:
    """Return the scores of rows at such distances squared; (m, d), (m,) -> (m,)."""
    return 0.5 * (np.einsum("ij,ij->i", X, X, dtype=np.float64) - squares)


def _rounding(X: NDArray[np.floating], squares: Array) -> Array:
    """Return the largest error, in single precision, of the score of a row at such a distance (m,).

    A row r within a distance δ of x has ‖r‖ ≤ ‖x‖ + δ; the sum of d + 1 products, each of numbers
    that were rounded, is wrong by at most (d + 5) roundings of ‖x‖ ‖r‖ + ‖r‖²/2.
    """
    length = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    reach = length + np.sqrt(squares)
    n_roundings = X.shape[1] + 5
    return n_roundings * (ROUNDING * reach * (length + 0.5 * reach) + LEAST_NORMAL)
