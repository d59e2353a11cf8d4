"""Rows of one group share a class: what joint draws of their probabilities say of it together.

Given the functions f of a model and the class c of a group, its rows are independent, so that

    P(c | rows of the group, labels) ∝ E_f[ π_c Π_i p_f(c | x_i) / π_c ],

with π the shares of the classes: rows that tell nothing leave a group the shares, however many they
are. The mean over joint draws of f matters: near rows are right or wrong together, under the same
functions, and a product of their mean probabilities would count what they say several times.

Rows of a group have more in common than class and functions: m of them count as m / (1 + ρ (m − 1))
independent ones, Kish's effective size of a cluster, with a ρ that is a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Draws = Callable[[Codes, int], Array]

CORRELATION = 0.05  # ρ
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
