"""Models that take rows in the units of the user's table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline

from atoll.core.extras import import_extra
from atoll.core.fillings import carrying, fillings_of
from atoll.core.preprocessing import Preprocessing

Array = NDArray[np.float64]


class Standardised(TransformerMixin, BaseEstimator):
    """Bring rows from the units of a table to those of a model: (x - mean) / scale.

    Their fillings, if they have any, are always in the units of the model.

    Parameters
    ----------
    mean, scale : (p,) arrays
    names : sequence of str or None, default=None
        Columns by which the model knows its features, where it was fitted with such.
    """

    def __init__(self, mean: Array, scale: Array, names: Any = None):
        self.mean = mean
        self.scale = scale
        self.names = names

    def fit(self, X: Any, y: Any = None) -> Standardised:
        """Do nothing: the units are given."""
        return self

    def transform(self, X: Any) -> Any:
        """Return the rows in the model's units, (n, p)."""
        rows = (np.asarray(X, dtype=np.float64) - self.mean) / self.scale
        if self.names is None:
            return carrying(rows, fillings_of(X))
        return import_extra("pandas").DataFrame(rows, columns=list(self.names))

    def inverse_transform(self, X: Any) -> Any:
        """Return the rows in the table's units, (n, p)."""
        return carrying(np.asarray(X) * self.scale + self.mean, fillings_of(X))

    def __sklearn_is_fitted__(self) -> bool:
        return True


def in_units_of_the_table(
    estimator: Any, preprocessing: Preprocessing, X: Array
) -> tuple[Pipeline, Any]:
    """Return a model that takes rows in the units of the table, and the rows in them.

    Parameters
    ----------
    estimator : fitted on the rows X
    preprocessing : how the table became X
    X : (n, p)
    """
    names = getattr(estimator, "feature_names_in_", None)
    units = Standardised(preprocessing.mean, preprocessing.scale, names)
    return Pipeline([("units", units), ("model", estimator)]), units.inverse_transform(X)
