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

LARGEST = 1e140  # squares of larger numbers, and of smaller differences than its inverse, are none


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


def read_chosen(labels_chosen: Any, n_rows: int) -> NDArray[np.bool_] | None:
    """Return which rows' labels were picked, (n,); None where all are a random sample."""
    if isinstance(labels_chosen, bool | np.bool_):
        return np.ones(n_rows, bool) if labels_chosen else None
    mask = np.asarray(labels_chosen)
    if len(mask) != n_rows:
        raise ValueError(
            f"labels_chosen has {len(mask)} entries and X has {n_rows} rows; pass one for each "
            "row, True or False."
        )
    return mask


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
    try:
        X = validate_data(
            estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False, order="C"
        )
    except ValueError as error:
        if not str(error).startswith("could not convert"):
            raise
        raise ValueError(
            f"X holds text or other values that are no numbers ({error}). Turn them into numbers "
            "first, for example with atoll.estimators.TablePreprocessor."
        ) from error
    # In blocks: a mask of many rows would be an eighth of their size.
    if not all(np.isfinite(X[i : i + 65536]).all() for i in range(0, len(X), 65536)):
        raise ValueError(_where_not_finite(estimator, ~np.isfinite(X)))
    if reset:
        _check_size(estimator, X)
        return X
    # Farther away nothing changes, but squares would overflow.
    return X if np.abs(X).max(initial=0.0) <= LARGEST else np.clip(X, -LARGEST, LARGEST)


def _check_size(estimator: BaseEstimator, X: Array) -> None:
    """Raise a ValueError for columns whose squares, or those of differences, are no numbers."""
    if not X.size:
        return
    low, high = X.min(axis=0), X.max(axis=0)
    huge = np.flatnonzero(np.maximum(-low, high) > LARGEST)
    # Differences of numbers so far apart cannot be told; they are refused as huge.
    spread = np.minimum(high, LARGEST) - np.maximum(low, -LARGEST)
    tiny = np.flatnonzero((spread > 0) & (spread < 1.0 / LARGEST))
    for columns, what, instead in (
        (huge, "numbers whose squares overflow", "Divide by a large number, or take logarithms."),
        (tiny, "numbers whose differences underflow", "Multiply by a large number."),
    ):
        if len(columns):
            raise ValueError(
                f"X holds {what}, in {len(columns)} column{'s' * (len(columns) != 1)}: "
                f"{_list(_column_names(estimator, columns))}. {instead}"
            )


def _where_not_finite(estimator: BaseEstimator, bad: NDArray[np.bool_]) -> str:
    rows, columns = np.flatnonzero(bad.any(axis=1)), np.flatnonzero(bad.any(axis=0))
    shown = _column_names(estimator, columns)
    return (
        f"X contains NaN or infinity (inf) in {len(rows)} row{'s' * (len(rows) != 1)}: "
        f"{_list(rows.tolist())}; column{'s' * (len(columns) != 1)}: {_list(shown)}. Drop those "
        "rows or fill them, for example with sklearn.impute.SimpleImputer."
    )


def _column_names(estimator: BaseEstimator, columns: NDArray[np.intp]) -> list[str]:
    names = getattr(estimator, "feature_names_in_", None)
    return [repr(str(names[j])) if names is not None else str(j) for j in columns]


def _list(items: list[Any], most: int = 5) -> str:
    text = ", ".join(str(item) for item in items[:most])
    return text if len(items) <= most else f"{text}, … ({len(items)} in all)"
