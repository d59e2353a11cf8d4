"""The mean of several classifiers' probabilities, as a classifier."""

from __future__ import annotations

from collections.abc import Sequence
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


class AveragedClassifier(ClassifierMixin, BaseEstimator):
    """The mean of the class probabilities of several classifiers.

    Parameters
    ----------
    models : sequence of (name, classifier)
        Each with `predict_proba`. A classifier without a parameter `unlabelled`, such as those of
        scikit-learn, is fitted to the labelled rows alone.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled beside nulls.
    random_state : None or int, default=None
        Seed of every classifier that takes one.

    Attributes
    ----------
    classes_ : (K,) the classes, sorted
    models_ : list of the fitted classifiers

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = np.array([[0.0], [1.0], [5.0], [6.0]]), ["a", None, "b", "b"]
    >>> two = [("line", LogisticRegression()), ("bayes", GaussianNB())]
    >>> AveragedClassifier(two).fit(X, y).predict(X).tolist()
    ['a', 'a', 'b', 'b']
    """

    def __init__(
        self,
        models: Sequence[tuple[str, Any]],
        *,
        unlabelled: Any = "auto",
        random_state: int | None = None,
    ):
        self.models = models
        self.unlabelled = unlabelled
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit every classifier to labelled and unlabelled rows, (n, d) and (n,)."""
        if not len(self.models):
            raise ValueError("models is empty; name at least one classifier.")
        rows = X if hasattr(X, "tocsr") else np.asarray(X)
        labels = parse_labels(y, unlabelled=self.unlabelled)
        require_classes(labels)
        if len(labels.codes) != rows.shape[0]:
            raise ValueError(
                f"y has {len(labels.codes)} labels and X has {rows.shape[0]} rows; pass one label "
                "per row, with None, NaN or -1 where it is unknown."
            )
        codes = np.where(labels.is_labelled, labels.codes, -1)
        self.classes_ = labels.classes
        self.n_features_in_ = rows.shape[1]
        self.models_ = [fit_clone(one, rows, codes, self.random_state) for _, one in self.models]
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the mean of the class probabilities; X (m, d) -> (m, K)."""
        check_is_fitted(self)
        rows = X if hasattr(X, "tocsr") else np.asarray(X)
        return np.asarray(np.mean([one.predict_proba(rows) for one in self.models_], axis=0))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row; X (m, d) -> (m,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
