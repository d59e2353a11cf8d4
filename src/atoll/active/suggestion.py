"""Rows to label next, for a model that is already fitted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.active.pool import FittedPool, has_draws
from atoll.active.situation import Situation
from atoll.active.strategies import STRATEGIES
from atoll.core.rows import distinct_sparse_rows
from atoll.core.selection import some_rows

Array = NDArray[np.float64]
Index = NDArray[np.intp]

MOST_CANDIDATES = 1000  # unlabelled rows that are considered; if there are more, a random part
N_DRAWS = 256


class Suggestion(NamedTuple):
    """Rows to label, the most telling first, no two of them alike.

    rows : (k,) of the table
    strategy : how they were picked, a name in `STRATEGIES`
    """

    rows: Index
    strategy: str


def suggest_rows(
    estimator: Any,
    X: Any,
    proba: Array,
    is_labelled: NDArray[np.bool_],
    n: int,
    *,
    later: NDArray[np.bool_] | None = None,
    random_state: int | None = 0,
) -> Suggestion:
    """Return the unlabelled rows whose labels would teach the model most, as a batch.

    Each row counts for what it adds to those before it, so rows that answer the same question are
    not listed together, and copies of a row are listed once.

    Parameters
    ----------
    estimator : fitted classifier, or a pipeline that ends in one
    X : (n_rows, d) the rows
    proba : (n_rows, K) their class probabilities by this model
    is_labelled : (n_rows,)
    n : rows wanted
    later : (n_rows,) rows to list only if there is no other, such as mostly blank ones

    Examples
    --------
    >>> from atoll import AtollClassifier
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> X, truth = make_crescents(80, random_state=0)
    >>> y = hide_labels(truth, per_class=2, random_state=0)
    >>> model = AtollClassifier(random_state=0).fit(X, y)
    >>> found = suggest_rows(model, X, model.label_distributions_, y != -1, 5)
    >>> len(set(found.rows.tolist())), found.strategy
    (5, 'brier')
    """
    rng = np.random.default_rng(random_state)
    is_free = ~is_labelled
    if later is not None and (is_free & ~later).any():
        is_free &= ~later
    free = _distinct(X, np.flatnonzero(is_free))
    if len(free) > MOST_CANDIDATES:
        free = np.sort(rng.choice(free, MOST_CANDIDATES, replace=False))
    n = min(n, len(free))
    if n == 0:
        return Suggestion(np.empty(0, np.intp), "brier")
    draws = None
    if has_draws(estimator):
        pool = FittedPool(estimator, proba, np.arange(proba.shape[1]))
        draws = pool.draws(some_rows(X, free), N_DRAWS, int(rng.integers(2**31)))
    name = "margin" if draws is None else "brier"
    features = _numbers(X, free) if draws is None else None
    situation = Situation(proba[free], draws, features, np.arange(len(free)), None)
    chosen = STRATEGIES[name].choose(situation, n, rng)
    return Suggestion(free[chosen.places], name)


def _numbers(X: Any, rows: Index) -> Array | None:
    """Return rows in comparable units; None if they are sparse, or not numbers."""
    if sparse.issparse(X):
        return None
    values = np.asarray(some_rows(X, rows))
    if values.dtype.kind not in "fiub":
        return None
    spread = values.std(axis=0)
    return np.asarray(values / np.where(spread > 0, spread, 1.0), dtype=np.float64)


def _distinct(X: Any, rows: Index) -> Index:
    """Return the first of every set of rows that are copies, in order."""
    if sparse.issparse(X):
        places = distinct_sparse_rows(sparse.csr_array(X)[rows])[1]
        return rows[np.sort(np.unique(places, return_index=True)[1])]
    values = np.asarray(some_rows(X, rows))
    if values.dtype.kind not in "fiub":
        values = values.astype(str)
    first = np.unique(values, axis=0, return_index=True)[1]
    return rows[np.sort(first)]
