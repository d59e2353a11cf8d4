"""Everything that is checked before a model sees the data, in one place."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from atoll.core.labels import PartialLabels, parse_labels, require_classes

Array = NDArray[np.float64]


def validate_training(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    *,
    unlabelled: Any,
    classes: Sequence[Any] | None = None,
    at_least: int = 2,
) -> tuple[Array, PartialLabels]:
    """Check and convert what `fit` was given; sets `n_features_in_` and `feature_names_in_`.

    Parameters
    ----------
    classes : all of them in their order, where it is not that of sorting
    at_least : classes that must have a labelled row

    Returns
    -------
    X : (n, d) float64, finite
    labels : PartialLabels of n rows
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None. Pass "
            "one label a row, with None, NaN or -1 where it is unknown."
        )
    X = read_rows(estimator, X, reset=True)
    labels = parse_labels(y, unlabelled=unlabelled, classes=classes)
    if len(labels.codes) != len(X):
        raise ValueError(
            f"y has {len(labels.codes)} labels and X has {len(X)} rows; pass one label a row, with "
            "None, NaN or -1 where it is unknown."
        )
    if at_least:
        require_classes(labels, at_least=at_least)
    return X, labels


def read_labels(
    y: Any, n_rows: int, unlabelled: Any, classes: Sequence[Any] | None, *, at_least: int = 2
) -> PartialLabels:
    """Return the labels of n rows, checked.

    Parameters
    ----------
    classes : all of them in their order, where it is not that of sorting
    at_least : how many classes must have a labelled row
    """
    labels = parse_labels(y, unlabelled=unlabelled, classes=classes)
    if len(labels.codes) != n_rows:
        raise ValueError(
            f"y has {len(labels.codes)} labels and X has {n_rows} rows; pass one label per row, "
            "with None, NaN or -1 where it is unknown."
        )
    if at_least:
        require_classes(labels, at_least=at_least)
    return labels


def validate_rows(estimator: BaseEstimator, X: Any) -> Array:
    """Check and convert what a prediction was given: the columns of the fit, all finite."""
    return read_rows(estimator, X, reset=False)


def labelled_accuracy(
    estimator: Any, predicted: NDArray[Any], y: Any, sample_weight: Any = None
) -> float:
    """Share of the labelled rows that are predicted right, marked as `fit` read them."""
    marker = estimator.unlabelled
    if isinstance(marker, str) and marker == "auto":
        marker = None if -1 in estimator.classes_.tolist() else -1
    labels = parse_labels(y, unlabelled=marker)
    known = labels.is_labelled
    if not known.any():
        raise ValueError(f"y has no labelled row among {len(known)}; there is nothing to score.")
    right = predicted[known] == labels.classes[labels.codes[known]]
    weights = None if sample_weight is None else np.asarray(sample_weight)[known]
    return float(np.average(right, weights=weights))


def generator(random_state: Any) -> np.random.Generator:
    """A NumPy Generator from what scikit-learn users pass: None, int, Generator, RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
    return np.random.default_rng(random_state)


def fingerprint(*parts: Any) -> str:
    """A digest of arrays and settings, by which a checkpoint knows its problem."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return digest.hexdigest()


def read_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Array:
    """Rows of finite numbers, (n, d) float64; `reset` sets the estimator's columns by them."""
    X = validate_data(
        estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False, order="C"
    )
    # In blocks: a mask of many rows would be an eighth of their size.
    if not all(np.isfinite(X[i : i + 65536]).all() for i in range(0, len(X), 65536)):
        raise ValueError(_where_not_finite(estimator, ~np.isfinite(X)))
    return X


def _where_not_finite(estimator: BaseEstimator, bad: NDArray[np.bool_]) -> str:
    names = getattr(estimator, "feature_names_in_", None)
    rows, columns = np.flatnonzero(bad.any(axis=1)), np.flatnonzero(bad.any(axis=0))
    shown = [repr(str(names[j])) if names is not None else str(j) for j in columns]
    return (
        f"X contains NaN or infinity (inf) in {len(rows)} row{'s' * (len(rows) != 1)}: "
        f"{_list(rows.tolist())}; column{'s' * (len(columns) != 1)}: {_list(shown)}. Drop those "
        "rows or fill them, for example with sklearn.impute.SimpleImputer."
    )


def _list(items: list[Any], most: int = 5) -> str:
    text = ", ".join(str(item) for item in items[:most])
    return text if len(items) <= most else f"{text}, … ({len(items)} in all)"
