"""What a picture or a report needs to know about an estimator's rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from atoll.core.labels import PartialLabels, parse_labels
from atoll.core.markers import is_auto


class LastStep(NamedTuple):
    """The end of a pipeline, and the rows as numbers that reach it.

    names : of the numbers; None where they are those of X
    is_prepared : whether X is what the steps before made, and not as it was given
    """

    estimator: Any
    X: Any
    names: list[str] | None = None
    is_prepared: bool = False


def last_step_of(estimator: Any, X: Any) -> LastStep:
    """Return the last step of a pipeline that takes words or blank cells, and what reaches it.

    Anything else is returned as it is.

    Parameters
    ----------
    estimator : fitted classifier or pipeline
    X : (n, d) array, sparse rows or data frame, or (n,) texts
    """
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline) or len(estimator) < 2 or _is_all_numbers(X):
        return LastStep(estimator, X)
    steps, names = estimator[:-1], None
    values = steps.transform(X)
    if hasattr(steps[-1], "get_feature_names_out"):
        names = [str(name) for name in steps[-1].get_feature_names_out()]
    return LastStep(estimator[-1], values, names, is_prepared=True)


def _is_all_numbers(X: Any) -> bool:
    if hasattr(X, "indptr"):
        return True
    if hasattr(X, "iloc") and len(X.shape) == 2:
        return all(kind.kind in "biuf" for kind in X.dtypes) and not X.isna().to_numpy().any()
    values = np.asarray(X)
    return values.dtype.kind in "biu" or (values.dtype.kind == "f" and not np.isnan(values).any())


def check_classifier(estimator: Any) -> None:
    """Raise a ValueError if an estimator gives no class probabilities."""
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"estimator is of type {type(estimator).__name__}, which has no class probabilities; "
            "give a fitted classifier with predict_proba."
        )


def feature_names_of(estimator: Any, X: Any, given: ArrayLike | None = None) -> list[str]:
    """Return the features' names: those given, the estimator's, the DataFrame's, or x0, x1, ...

    Examples
    --------
    >>> import numpy as np
    >>> feature_names_of(None, np.zeros((3, 2)))
    ['x0', 'x1']
    """
    n_features = np.shape(X)[1]
    sources = (
        given,
        getattr(estimator, "feature_names_in_", None),
        getattr(X, "columns", None),
        [f"x{j}" for j in range(n_features)],
    )
    names: Any = next(source for source in sources if source is not None)
    texts = [str(name) for name in names]
    if len(texts) != n_features:
        raise ValueError(
            f"feature_names has {len(texts)} names but X has {n_features} columns; "
            "give one name per column."
        )
    return texts


def unlabelled_marker(unlabelled: Any, classes: ArrayLike) -> Any:
    """Return the value that ``unlabelled="auto"`` meant in ``fit``, given the classes found there.

    Examples
    --------
    >>> unlabelled_marker("auto", [0, 1]), unlabelled_marker("auto", [-1, 1])
    (-1, None)
    """
    if not is_auto(unlabelled) or np.asarray(classes).dtype.kind not in "iuf":
        return unlabelled
    return None if -1 in np.asarray(classes) else -1


def labels_of(estimator: Any, X: Any, y: Any, unlabelled: Any = "auto") -> PartialLabels:
    """Return the labels of the rows of X, coded by the columns of the estimator's probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> model = GaussianNB().fit(X[:2], ["no", "yes"])
    >>> labels_of(model, X, ["no", "yes", None]).is_labelled.tolist()
    [True, True, False]
    """
    classes = estimator.classes_
    labels = parse_labels(y, unlabelled=unlabelled_marker(unlabelled, classes), classes=classes)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if len(labels.codes) != n_rows:
        raise ValueError(
            f"y has {len(labels.codes)} labels but X has {n_rows} rows; give one label per row."
        )
    return labels
