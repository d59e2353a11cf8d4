"""Columns behind the class of a row: what the model would say with cells of other rows in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, logit

from atoll.core.preprocessing import Preprocessing
from atoll.estimators.row_explanation import ColumnEffect, RowExplanation

N_OTHERS = 16  # rows whose cells are tried
MOST_COLUMNS = 100  # of more, none is looked at
NUDGE = 1e-6  # by which rows are moved
LEAST = 1e-6  # probability that counts as such


def with_columns(
    found: RowExplanation, model: Any, x: Any, X: Any, columns: Sequence[tuple[str, list[int]]]
) -> RowExplanation:
    """Return an explanation with the effect of each column, the largest first.

    Parameters
    ----------
    found : the explanation so far
    model : fitted classifier
    x, X : (1, d) and (n, d) features of the row, and of the rows of the fit
    columns : name and features of each column
    """
    if sparse.issparse(X) or not 1 < len(columns) <= MOST_COLUMNS:
        return found
    own, X = np.asarray(x, dtype=np.float64), np.asarray(X, dtype=np.float64)
    others = X[np.random.default_rng(0).permutation(len(X))[:N_OTHERS]]
    tried = np.tile(own, (len(columns), len(others), 1))
    for one, (_, features) in zip(tried, columns):
        one[:, features] = others[:, features]
    # A model treats rows of the fit differently from new ones. Here all rows are moved a little so
    # that they count as new, and effects are measured from the row itself treated in this way.
    asked = np.concatenate([own, tried.reshape(-1, own.shape[1])]) * (1 + NUDGE) + NUDGE
    log_odds = logit(np.clip(model._proba(asked, None)[:, found.code], LEAST, 1 - LEAST))
    level = logit(np.clip(found.proba[found.code], LEAST, 1 - LEAST))
    means = expit(level + log_odds[1:] - log_odds[0]).reshape(len(columns), -1).mean(axis=1)
    effects = [ColumnEffect(name, float(p)) for (name, _), p in zip(columns, means)]
    return found._replace(columns=tuple(sorted(effects, key=lambda effect: effect.otherwise)))


def columns_of_array(names: Any, n_features: int) -> list[tuple[str, list[int]]]:
    """Return name and feature of each column of an array.

    Parameters
    ----------
    names : (d,) of the columns of a data frame; None where there are none
    n_features : d
    """
    if names is None:
        names = [f"column {j}" for j in range(n_features)]
    return [(str(name), [j]) for j, name in enumerate(names)]


def columns_of_table(preprocessing: Preprocessing) -> list[tuple[str, list[int]]]:
    """Return name and features of each column of a table, but for columns of texts."""
    columns, first = [], 0
    for name in preprocessing.columns:
        if name in preprocessing.texts:
            continue
        n = len(preprocessing.categories.get(name, (name,))) + (name in preprocessing.flagged)
        columns.append((name, list(range(first, first + n))))
        first += n
    return columns
