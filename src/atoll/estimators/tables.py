"""Tables of mixed columns as a step of a pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from atoll.core import preprocessing
from atoll.core.extras import import_extra
from atoll.core.remarks import warn_user
from atoll.estimators.parameters import Flag, check_value


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Turn a data frame of numbers, categories and blank cells into an array of features.

    It is what `atoll fit` does to a table before it fits a model. Numeric columns become one
    feature each, and any other column one indicator per value. A blank cell takes the median of a
    numeric column, and has zeros for all indicators of another; so has a value that was not there
    in `fit`. Where at least a twentieth of a column's cells are blank, an indicator says which.
    Dates, lists and columns of more than a hundred different words are refused by name.

    Parameters
    ----------
    standardise : bool, default=True
        Whether to bring numeric columns to mean 0 and standard deviation 1.
    encode : bool, default=True
        Whether to encode columns that are not numeric, or refuse them.
    impute : bool, default=True
        Whether to fill blank cells in, or refuse them.

    Attributes
    ----------
    preprocessing_ : how columns become features
    n_features_in_ : int
    feature_names_in_ : (q,) array of str, the columns

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"mass": [3.1, None, 4.5], "island": ["Dream", "Biscoe", "Dream"]})
    >>> step = TablePreprocessor().fit(frame)
    >>> step.get_feature_names_out().tolist()
    ['mass', 'mass is blank', 'island=Biscoe', 'island=Dream']
    >>> step.transform(frame).round(2).tolist()[1]
    [0.0, 1.0, 1.0, 0.0]
    """

    def __init__(self, *, standardise: bool = True, encode: bool = True, impute: bool = True):
        self.standardise = standardise
        self.encode = encode
        self.impute = impute

    def fit(self, X: Any, y: Any = None) -> TablePreprocessor:
        """Learn what the columns hold; X (n, q) data frame or array."""
        for name in ("standardise", "encode", "impute"):
            check_value(name, getattr(self, name), Flag())
        frame = self._frame(X)
        self.preprocessing_ = preprocessing.prepare(
            frame, standardise=self.standardise, encode=self.encode, impute=self.impute
        ).preprocessing
        self.n_features_in_ = frame.shape[1]
        self.feature_names_in_ = np.array(list(frame.columns), dtype=object)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the features, (n, p)."""
        check_is_fitted(self)
        frame = self._frame(X)
        if len(frame.columns) == self.n_features_in_ and not hasattr(X, "columns"):
            frame.columns = self.feature_names_in_.tolist()
        out = preprocessing.apply(self.preprocessing_, frame)
        for name, values in preprocessing.unseen(self.preprocessing_, frame).items():
            shown = ", ".join(map(repr, values[:5]))
            more = ", …" if len(values) > 5 else ""
            message = f"column {name!r}: {shown}{more} not seen in fit; taken as blank."
            warn_user(message, UserWarning)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features, (p,)."""
        check_is_fitted(self)
        return np.array(self.preprocessing_.features, dtype=object)

    @staticmethod
    def _frame(X: Any) -> Any:
        pd = import_extra("pandas")
        if hasattr(X, "to_pandas"):  # polars, pyarrow
            X = X.to_pandas()
        if not isinstance(X, pd.DataFrame):
            X = np.asarray(X)
            if X.ndim != 2:
                raise ValueError(f"X must have rows and columns, got {X.ndim} dimension(s).")
            X = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).infer_objects()
        return X.set_axis(X.columns.map(str), axis=1)


def make_preprocessor(
    *, standardise: bool = True, encode: bool = True, impute: bool = True
) -> TablePreprocessor:
    """Return what turns a table into features, for `make_pipeline`.

    Parameters
    ----------
    standardise : bool, default=True
        Whether to bring numeric columns to mean 0 and standard deviation 1.
    encode : bool, default=True
        Whether to encode columns that are not numeric, or refuse them.
    impute : bool, default=True
        Whether to fill blank cells in, or refuse them.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from atoll import AtollClassifier, make_preprocessor
    >>> table = pd.DataFrame({"mass": [1.0, 1.1, None, 5.0, 5.2], "site": list("aabbb")})
    >>> model = make_pipeline(make_preprocessor(), AtollClassifier(random_state=0))
    >>> model.fit(table, ["light", None, None, "heavy", None]).classes_.tolist()
    ['heavy', 'light']
    """
    return TablePreprocessor(standardise=standardise, encode=encode, impute=impute)
