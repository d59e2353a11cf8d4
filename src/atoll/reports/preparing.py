"""Rows that a pipeline turns into numbers: the report draws the numbers and lists the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from atoll.core.extras import import_extra
from atoll.plotting.rows import feature_names_of, last_step_of
from atoll.reports.table import ArrayTable, RowTable, SparseTable, table_of


class Prepared(NamedTuple):
    """A model and its rows, as numbers.

    estimator : that takes X
    X : (n, d)
    features : (d,) names, or None where they are those of X
    table : the rows as they were before; None where X is as it was given
    """

    estimator: Any
    X: Any
    features: list[str] | None = None
    table: RowTable | ArrayTable | SparseTable | None = None


def as_numbers(estimator: Any, X: Any) -> Prepared:
    """Return the last step of a pipeline that takes words or blank cells, and what reaches it.

    Anything else is returned as it is.

    Parameters
    ----------
    estimator : fitted classifier or pipeline
    X : (n, d) array, sparse rows or data frame, or (n,) texts
    """
    last = last_step_of(estimator, X)
    if not last.is_prepared:
        return Prepared(estimator, X)
    frame = X
    if len(np.shape(X)) == 1:
        name = getattr(X, "name", None) or "text"
        frame = import_extra("pandas").DataFrame({name: X})
    table = table_of(frame, feature_names_of(None, frame))
    return Prepared(last.estimator, last.X, last.names, table)
