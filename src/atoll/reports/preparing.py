"""Rows that a pipeline turns into numbers: the report draws the numbers and lists the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from atoll.core.extras import import_extra
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
    """Return the last step of a pipeline that takes words, and the rows that reach it as numbers.

    Anything else is returned as it is.

    Parameters
    ----------
    estimator : fitted classifier or pipeline
    X : (n, d) array, sparse rows or data frame, or (n,) texts
    """
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline) or len(estimator) < 2 or not _has_words(X):
        return Prepared(estimator, X)
    steps = estimator[:-1]
    values, names = steps.transform(X), None
    if hasattr(steps[-1], "get_feature_names_out"):
        names = [str(name) for name in steps[-1].get_feature_names_out()]
    frame = X
    if len(np.shape(X)) == 1:
        name = getattr(X, "name", None) or "text"
        frame = import_extra("pandas").DataFrame({name: X})
    return Prepared(estimator[-1], values, names, table_of(frame, []))


def _has_words(X: Any) -> bool:
    """Return whether rows are texts, or a table with a column that is not of numbers."""
    if hasattr(X, "dtypes") and len(X.shape) == 2:
        return any(kind.kind not in "biuf" for kind in X.dtypes)
    return not hasattr(X, "indptr") and np.asarray(X).dtype.kind not in "biuf"
