"""Labelled rows that stand in a table more than once: are they copies, or equal by coincidence?

A copy tells nothing that its original has not told, and a label whose copy a model has seen is not
held out. Rows of few values, such as the answers to five questions, are equal by coincidence: then
each has a label of its own. Three things tell which it is:

- copies agree on their labels, while labels of their own contradict each other now and then;
- where labels came along with copies, equal rows have labels far more often than by chance;
- beside rows that are equal by coincidence there are others that miss it by one column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.core.labels import PartialLabels
from atoll.core.rows import distinct_rows
from atoll.core.selection import some_rows

Array = NDArray[np.float64]
Index = NDArray[np.intp]

MOST_CONTRADICTED = 0.05  # of the rows with several labels, if these are copies
MOST_ROWS = 10_000  # without labels, that are looked at
MOST_REPEATED = 100  # rows that are asked whether others miss being equal to them by a column
NEARLY_ALL = 0.9  # of the rows, which a column tells apart in which none is equal by chance


def labels_are_copies(
    rows: Any, copies: Array, place: Index, codes: Index, *, by_columns: bool = True
) -> bool:
    """Return whether labels of equal rows were copied with their rows, and count once.

    Parameters
    ----------
    rows : (m, d) that differ, of numbers; only whether they are equal matters
    copies : (m,) how many rows of the table each stands for
    place : (l,) which of them each label is of; m, m + 1, … are rows of their own
    codes : (l,) classes of the labels
    by_columns : whether columns mean something one by one; if not, no rows are equal by chance

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> twice, codes = np.tile(np.arange(10), 2), np.zeros(20, int)
    >>> labels_are_copies(X, np.ones(50) + (np.arange(50) < 10), twice, codes)
    True
    >>> answers = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> labels_are_copies(answers, np.full(4, 25), np.arange(20) % 4, codes)
    False
    """
    places, n_labels = np.unique(place, return_counts=True)
    repeated = places[n_labels > 1]
    n_pairs = np.unique(np.stack([place, codes]), axis=1).shape[1]
    if not len(repeated) or n_pairs - len(places) > MOST_CONTRADICTED * len(repeated):
        return False
    return not by_columns or _came_along(copies, place) or not _may_coincide(rows, copies, repeated)


def repeated_labels(X: Any, codes: Index) -> Index | None:
    """Return which labels are copies of each other, (n,): these have the same number.

    Unlabelled rows have −1. None if no label is a copy of another, or if rows cannot be compared.

    Parameters
    ----------
    X : (n, d) array, sparse matrix, data frame or list of lists
    codes : (n,) classes, −1 where unlabelled

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((6, 2))[[0, 0, 1, 2, 3, 4, 5]]
    >>> repeated_labels(X, np.array([0, 0, 1, 1, -1, -1, -1])).tolist()
    [1, 1, 2, 0, -1, -1, -1]
    """
    is_labelled = codes >= 0
    own = _comparable(some_rows(X, np.flatnonzero(is_labelled)))
    if own is None or distinct_rows(own)[0].shape[0] == own.shape[0]:
        return None
    others = np.random.default_rng(0).permutation(np.flatnonzero(~is_labelled))[:MOST_ROWS]
    seen = np.concatenate([np.flatnonzero(is_labelled), others])
    rows, place = distinct_rows(_comparable(some_rows(X, seen)))
    copies, place = np.bincount(place).astype(float), place[: own.shape[0]]
    codes = codes[is_labelled]
    if not labels_are_copies(rows, copies, place, codes, by_columns=not sparse.issparse(X)):
        return None
    out = np.full(len(is_labelled), -1)
    pairs = np.stack([place, codes])
    out[is_labelled] = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
    return out


def without_repeats(X: Any, labels: PartialLabels) -> PartialLabels:
    """Return the labels, of copies of a label only one.

    All are returned where groups share labels, or where copies have weights of their own, which say
    what each counts.

    Examples
    --------
    >>> from atoll.core.labels import parse_labels
    >>> X = np.random.default_rng(0).standard_normal((5, 2))[[0, 0, 1, 2, 3, 4]]
    >>> labels = parse_labels(["a", "a", "b", None, None, None])
    >>> without_repeats(X, labels).is_labelled.tolist()
    [True, False, True, False, False, False]
    """
    if labels.is_spread is not None:
        return labels
    same = repeated_labels(X, np.where(labels.is_labelled, labels.codes, -1))
    if same is None or weights_differ(same, labels.weights):
        return labels
    counts = labels.is_labelled & first_of_each(same, labels.is_chosen)
    return labels._replace(codes=np.where(counts, labels.codes, 0), is_labelled=counts)


def first_of_each(names: Index, is_chosen: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Return which is the first of those with the same name, (l,) -> (l,).

    One that was drawn at random goes first, since it tells the shares of the classes.

    Examples
    --------
    >>> first_of_each(np.array([7, 7, 3]), None).tolist()
    [True, False, True]
    >>> first_of_each(np.array([7, 7, 3]), np.array([True, False, True])).tolist()
    [False, True, True]
    """
    order = np.arange(len(names))
    if is_chosen is not None:
        order = np.argsort(is_chosen, kind="stable")
    out = np.zeros(len(names), bool)
    out[order[np.unique(names[order], return_index=True)[1]]] = True
    return out


def weights_differ(names: Index, weights: Array | None) -> bool:
    """Return whether any of those with the same name, (l,), have different weights, (l,).

    Names below zero are of none.

    Examples
    --------
    >>> names = np.array([0, 0, 1])
    >>> weights_differ(names, np.array([2.0, 2.0, 5.0]))
    False
    >>> weights_differ(names, np.array([2.0, 1.0, 5.0]))
    True
    """
    if weights is None:
        return False
    known = names >= 0
    first = np.unique(names[known], return_index=True, return_inverse=True)
    own = weights[known]
    return bool(np.any(own != own[first[1]][first[2].reshape(-1)]))


def about_repeats(n: int) -> str:
    """Say that so many labels were left out, since they repeat others; nothing of none.

    Examples
    --------
    >>> about_repeats(2)
    '2 labels repeat that of the same row elsewhere in the table, and each such row counts once.'
    """
    repeat = "label repeats" if n == 1 else "labels repeat"
    said = f"{n:,} {repeat} that of the same row elsewhere in the table, and each such row counts "
    return said + "once." if n else ""


def _came_along(copies: Array, place: Index) -> bool:
    """Return whether equal rows have labels far more often than labels drawn at random would.

    Of c equal rows each has a label with the chance ρ that any row has one. Those beyond the first
    are expected to be c ρ − 1 + (1 − ρ)^c.
    """
    here = place[place < len(copies)]
    share = len(here) / copies.sum()
    expected = float(np.sum(copies * share - 1.0 + (1.0 - share) ** copies))
    found = len(here) - len(np.unique(here))
    return bool(found > 2.0 * expected + 3.0 * np.sqrt(expected) + 3.0)


def _may_coincide(rows: Array, copies: Array, repeated: Index) -> bool:
    """Return whether rows that stand in the table several times may be equal by coincidence.

    Then most of them miss being equal to another by one column. A category is one column of its
    codes, or two of yes and no.
    """
    n_values = np.array([len(np.unique(column)) for column in rows.T])
    widest = int(n_values.argmax())
    if n_values[widest] >= NEARLY_ALL * len(rows) and _differ_beside(rows, copies, widest):
        return False  # that column has another value in nearly every row that differs
    some = rows[np.random.default_rng(0).permutation(repeated)[:MOST_REPEATED]]
    unlike = np.zeros((2, len(some), len(rows)), np.int32)  # columns of two values, and of more
    for j, is_many in enumerate(n_values > 2):
        unlike[int(is_many)] += some[:, j, None] != rows[None, :, j]
    of_two, of_more = unlike
    nearly = ((of_more == 1) & (of_two == 0)) | ((of_more == 0) & (of_two > 0) & (of_two <= 2))
    return bool(np.mean(nearly.any(axis=1)) >= 0.5)


def _differ_beside(rows: Array, copies: Array, j: int) -> bool:
    """Return whether rows differ in the columns beside j as well.

    Two rows of the table are then equal in these with a chance of at most a half.
    """
    if rows.shape[1] < 2:
        return False
    others = distinct_rows(np.delete(rows, j, axis=1))[1]
    shares = np.bincount(others, copies) / copies.sum()
    return bool(shares @ shares <= 0.5)


def _comparable(X: Any) -> Any:
    """Return rows of numbers that are equal where those of X are, or None."""
    if sparse.issparse(X):
        return X
    rows = X.to_numpy() if hasattr(X, "to_numpy") else X
    if isinstance(rows, list):
        try:
            rows = np.asarray(rows)
        except ValueError:  # their lengths differ
            return None
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or not rows.shape[1]:
        return None
    if rows.dtype.kind in "iu" or (rows.dtype.kind == "f" and not np.isnan(rows).any()):
        return rows
    return np.stack([_numbers(column) for column in rows.T], axis=1)


def _numbers(column: NDArray[Any]) -> Index:
    """Return a number for each value of a column, (n,); blank cells have the same."""
    values = np.array([str(value) for value in column]) if column.dtype.kind == "O" else column
    return np.unique(values, return_inverse=True)[1].reshape(-1)
