"""Classifiers that know nothing of unlabelled rows, beside those that do."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from atoll.core.labels import parse_labels, require_classes

Array = NDArray[np.float64]


def fit_clone(estimator: Any, X: Any, codes: NDArray[np.integer], seed: Any) -> Any:
    """Fit a clone to rows (n, d) and codes (n,), -1 where unlabelled.

    A classifier without a parameter `unlabelled` is fitted to the labelled rows alone.
    """
    model = clone(estimator)
    known = model.get_params(deep=False)
    wanted = {"random_state": seed, "unlabelled": -1, "verbose": False}
    model.set_params(**{key: value for key, value in wanted.items() if key in known})
    if "unlabelled" in known:
        return model.fit(X, codes)
    return model.fit(X[codes >= 0], codes[codes >= 0])


def as_rows(X: Any) -> Any:
    """Return rows as an array, or sparse as they are."""
    return X if hasattr(X, "tocsr") else np.asarray(X)


def read_codes(rows: Any, y: Any, unlabelled: Any) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes (K,) and the class of each row (n,), -1 where it is unlabelled."""
    labels = parse_labels(y, unlabelled=unlabelled)
    require_classes(labels)
    if len(labels.codes) != rows.shape[0]:
        raise ValueError(
            f"y has {len(labels.codes)} labels and X has {rows.shape[0]} rows; pass one label "
            "per row, with None, NaN or -1 where it is unknown."
        )
    return labels.classes, np.where(labels.is_labelled, labels.codes, -1)


class PartlyLabelled(ClassifierMixin, BaseEstimator):
    """A classifier of scikit-learn that takes labels as atoll does: those it lacks are nulls.

    Parameters
    ----------
    model : classifier with `predict_proba`
        One without a parameter `unlabelled`, such as those of scikit-learn, is fitted to the
        labelled rows alone.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled beside nulls.
    random_state : None or int, default=None
        Seed of the classifier, where it takes one.

    Attributes
    ----------
    classes_ : (K,) the classes, sorted
    model_ : the fitted classifier, whose classes are their places in `classes_`

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = np.array([[0.0], [0.5], [1.0], [5.0], [6.0]]), ["a", "a", None, "b", "b"]
    >>> PartlyLabelled(GaussianNB()).fit(X, y).predict(X).tolist()
    ['a', 'a', 'a', 'b', 'b']
    """

    def __init__(self, model: Any, *, unlabelled: Any = "auto", random_state: int | None = None):
        self.model = model
        self.unlabelled = unlabelled
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier to labelled and unlabelled rows, (n, d) and (n,)."""
        rows = as_rows(X)
        self.classes_, codes = read_codes(rows, y, self.unlabelled)
        self.n_features_in_ = rows.shape[1]
        self.model_ = fit_clone(self.model, rows, codes, self.random_state)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities; X (m, d) -> (m, K)."""
        check_is_fitted(self)
        return np.asarray(self.model_.predict_proba(as_rows(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row; X (m, d) -> (m,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
