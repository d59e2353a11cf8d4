"""Rows of one group share a class: what joint draws of their probabilities say of it together.

Given the functions f of a model and the class c of a group, its rows are independent, so that

    P(c | rows of the group, labels) ∝ E_f[ π_c Π_i p_f(c | x_i) / π_c ],

with π the shares of the classes: rows that tell nothing leave a group the shares, however many they
are. The mean over joint draws of f matters: near rows are right or wrong together, under the same
functions, and a product of their mean probabilities would count what they say several times.

Rows of a group have more in common than class and functions: m of them count as m / (1 + ρ (m − 1))
independent ones, Kish's effective size of a cluster, with a ρ that is a guess. How much the labels
of a group count in a fit follows from how alike the labelled rows are: `correlation_within`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Draws = Callable[[Codes, int], Array]

CORRELATION = 0.05  # ρ of rows to be classified
UNKNOWN = 0.7  # correlation of labelled rows, if it cannot be told
N_DRAWS = 256
NUMBERS_AT_ONCE = 2**23
TINY = 1e-300


def group_proba(
    groups: Codes,
    n_groups: int,
    draws: Draws,
    shares: Array,
    prior: Array | None = None,
    correlation: float = CORRELATION,
) -> Array:
    """Return the class probabilities of groups, (G, K).

    Parameters
    ----------
    groups : (m,) which group each row is of, -1 for none
    n_groups : G
    draws : (rows, n) -> (n, rows, K) joint draws of the class probabilities of some of the rows
    shares : (K,) π
    prior : (G, K) what is known of the groups before; None is π
    correlation : ρ of rows of a group, given class and functions

    Examples
    --------
    >>> p = np.array([[0.8, 0.2], [0.8, 0.2]])
    >>> draws = lambda rows, n: np.tile(p[rows], (n, 1, 1))
    >>> group_proba(np.array([0, 0]), 1, draws, np.array([0.5, 0.5]), correlation=0.0).round(3)
    array([[0.941, 0.059]])
    """
    log_shares = np.log(np.maximum(shares, TINY))
    out = np.tile(log_shares, (n_groups, 1))
    if prior is not None:
        with np.errstate(divide="ignore"):
            out = np.log(prior)
    for rows, first, members in _pieces(groups, n_groups, len(shares)):
        log_p = np.log(np.maximum(draws(rows, N_DRAWS), TINY)) - log_shares
        total = np.add.reduceat(log_p, first, axis=1)  # (S, groups, K)
        sizes = np.diff(first, append=len(rows))
        total /= (1.0 + correlation * (sizes - 1))[:, None]
        out[members] += logsumexp(total, axis=0)
    return np.exp(out - logsumexp(out, axis=1, keepdims=True))


def _pieces(groups: Codes, n_groups: int, n_classes: int) -> Iterator[tuple[Codes, Codes, Codes]]:
    """Yield rows of whole groups, where each group begins among them, and which groups they are."""
    order = np.argsort(groups, kind="stable")
    order = order[groups[order] >= 0]
    sizes = np.bincount(groups[order], minlength=n_groups)
    members = np.flatnonzero(sizes)
    most = max(1, NUMBERS_AT_ONCE // (N_DRAWS * n_classes))
    ends, place = np.cumsum(sizes[members]), 0
    while place < len(members):
        begin = int(ends[place] - sizes[members[place]])
        last = max(place + 1, int(np.searchsorted(ends, begin + most, side="right")))
        some = members[place:last]
        first = ends[place:last] - sizes[some] - begin
        yield order[begin : int(ends[last - 1])], first, some
        place = last


def correlation_within(X: Any, groups: Codes, codes: Codes) -> float:
    """Return how much alike the rows of a group are, beside others of their class, in [0, 1].

    The intraclass correlation by analysis of variance, of all columns together: zero where groups
    are rows of a class at random, one where the rows of a group are equal. Columns of numbers are
    scaled to variance one. If no class has two groups, or no group two rows, it is `UNKNOWN`.

    Parameters
    ----------
    X : (n, d) rows, dense or sparse
    groups : (n,) in 0..G−1, each with rows of one class
    codes : (n,) classes

    Examples
    --------
    >>> X, groups = np.array([[0.0], [0.1], [3.0], [3.1]]), np.array([0, 0, 1, 1])
    >>> round(correlation_within(X, groups, np.zeros(4, int)), 3)
    0.999
    """
    if not sparse.issparse(X):
        X = np.asarray(X, dtype=np.float64)
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    n_groups = int(groups.max()) + 1
    class_of = np.zeros(n_groups, np.intp)
    class_of[groups] = codes
    kinds, class_of = np.unique(class_of, return_inverse=True)
    sizes = np.bincount(groups, minlength=n_groups).astype(float)
    totals = np.bincount(class_of, sizes).astype(float)
    whole, of_groups = float((X**2).sum()), _of_sums(X, groups, sizes)
    of_classes = _of_sums(X, class_of[groups], totals)
    between, within = n_groups - len(kinds), len(groups) - n_groups
    if between < 1 or within < 1:
        return UNKNOWN
    mean_between, mean_within = (of_groups - of_classes) / between, (whole - of_groups) / within
    size = (len(groups) - float(np.sum(np.bincount(class_of, sizes**2) / totals))) / between
    total = mean_between + (size - 1.0) * mean_within
    return float(np.clip((mean_between - mean_within) / total, 0.0, 1.0)) if total > 0 else 1.0


def _of_sums(X: Any, names: Codes, sizes: Array) -> float:
    """Return Σ |Σ x|² / size over the sets of rows with one name, of so many rows each."""
    each = sparse.csr_array(
        (1.0 / np.sqrt(sizes[names]), (names, np.arange(len(names)))),
        shape=(len(sizes), len(names)),
    )
    return float(((each @ X) ** 2).sum())
