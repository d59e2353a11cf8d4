"""Classifiers made of others, which may know nothing of unlabelled rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from atoll.core.labels import parse_labels, require_classes

Array = NDArray[np.float64]

ROUNDING = 0.001  # by which the probabilities of a row, perhaps of single precision, may miss one


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


def class_probabilities(model: Any, X: Any, n_classes: int) -> Array:
    """Return the class probabilities of rows by a model of `fit_clone`; (m, d) -> (m, K).

    Raise a ValueError if they are none: a model may be the user's own.

    Parameters
    ----------
    n_classes : K, the codes that the model was fitted to are below it
    """
    p = np.asarray(model.predict_proba(X))
    n_rows = X.shape[0]
    if p.shape != (n_rows, n_classes):
        raise ValueError(
            f"its predict_proba gave an array of shape {p.shape} for {n_rows} rows and {n_classes} "
            "classes; it must give each row a probability for each class."
        )
    off = None
    if not np.isfinite(p).all():
        off = "numbers that are not finite"
    elif (p < 0).any():
        off = "numbers below zero"
    elif (np.abs(p.sum(axis=1) - 1.0) > ROUNDING).any():
        off = "rows that do not sum to one"
    if off is not None:
        raise ValueError(f"its predict_proba gave {off}; they must be probabilities.")
    order = np.argsort(getattr(model, "classes_", np.arange(n_classes)), kind="stable")
    return p if (order == np.arange(n_classes)).all() else np.asarray(p[:, order])


class OfClassifiers(ClassifierMixin, BaseEstimator):
    """A classifier made of others, which takes labels as atoll does: a null is a missing label."""

    unlabelled: Any

    @abstractmethod
    def _parts(self) -> Sequence[Any]:
        """Return the classifiers that it is made of, not fitted."""

    @abstractmethod
    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities; X (m, d) -> (m, K)."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row; X (m, d) -> (m,)."""
        proba = self.predict_proba(X)
        return np.asarray(self.classes_[proba.argmax(axis=1)])

    def _read(self, X: Any, y: Any) -> tuple[Any, NDArray[np.intp]]:
        """Return rows and the class of each (n,), -1 where it is unlabelled; set `classes_`."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; give "
                "one label for each row of X, None where it is unknown."
            )
        rows = self._read_rows(X, reset=True)
        labels = parse_labels(y, unlabelled=self.unlabelled)
        require_classes(labels)
        if len(labels.codes) != rows.shape[0]:
            raise ValueError(
                f"y has {len(labels.codes)} labels and X has {rows.shape[0]} rows; pass one label "
                "per row, with None, NaN or -1 where it is unknown."
            )
        self.classes_ = labels.classes
        return rows, np.where(labels.is_labelled, labels.codes, -1)

    def _read_rows(self, X: Any, *, reset: bool = False) -> Any:
        """Return rows as an array, or sparse where all classifiers take such rows.

        Whether cells are numbers, and none is missing, is for the classifiers to say.
        """
        is_sparse = self.__sklearn_tags__().input_tags.sparse
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr" if is_sparse else False,
            dtype=None,
            ensure_all_finite=False,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = all(get_tags(one).input_tags.sparse for one in self._parts())
        return tags


class PartlyLabelled(OfClassifiers):
    """A classifier of scikit-learn that takes labels as atoll does: a null is a missing label.

    Parameters
    ----------
    model : classifier with `predict_proba`
        One without a parameter `unlabelled`, such as those of scikit-learn, is fitted to the
        labelled rows alone.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls.
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
        rows, codes = self._read(X, y)
        self.model_ = fit_clone(self.model, rows, codes, self.random_state)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities; X (m, d) -> (m, K)."""
        check_is_fitted(self)
        return class_probabilities(self.model_, self._read_rows(X), len(self.classes_))

    def _parts(self) -> Sequence[Any]:
        return [self.model]


class OnStandardisedColumns(PartlyLabelled):
    """A classifier on standardised columns, which takes labels as atoll does.

    Columns are standardised by all rows of the fit, the unlabelled ones among them, as
    `AtollClassifier` does itself where their ranges are unlike. Parameters, `classes_` and `model_`
    are those of `PartlyLabelled`.

    Attributes
    ----------
    scaler_ : what standardises columns

    Examples
    --------
    >>> import numpy as np
    >>> from atoll import GraphGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(40) % 2
    >>> X = (rng.normal(size=(40, 2)) + 6 * truth[:, None]) * [1, 1000]
    >>> y = [None if i > 7 else "ab"[k] for i, k in enumerate(truth)]
    >>> model = OnStandardisedColumns(GraphGPClassifier(), random_state=0).fit(X, y)
    >>> bool((model.predict(X) == np.array(["a", "b"])[truth]).mean() > 0.9)
    True
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier to labelled and unlabelled rows, (n, d) and (n,)."""
        rows, codes = self._read(X, y)
        self.scaler_ = StandardScaler().fit(rows)
        self.model_ = fit_clone(self.model, self.scaler_.transform(rows), codes, self.random_state)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities; X (m, d) -> (m, K)."""
        check_is_fitted(self)
        rows = self.scaler_.transform(self._read_rows(X))
        return class_probabilities(self.model_, rows, len(self.classes_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
