"""Everything that is checked before a model sees the data, in one place."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from atoll.core.labels import PartialLabels, parse_labels, require_classes

Array = NDArray[np.float64]

LARGE = 1e15  # numbers whose squares, summed, may be too large for single precision


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


def read_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Rows of finite numbers, (n, d); `reset` sets the estimator's columns by them.

    They are dense and of double precision, but for an estimator that says `takes_sparse` or
    `keeps_single`.
    """
    takes_sparse = getattr(estimator, "takes_sparse", False)
    if sparse.issparse(X) and not takes_sparse:
        raise ValueError(
            f"X is sparse, and {type(estimator).__name__} takes dense rows only. Use "
            "AtollClassifier or GraphGPClassifier, or make fewer, dense columns first, for "
            "example with sklearn.decomposition.TruncatedSVD."
        )
    single = getattr(estimator, "keeps_single", False)
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr" if takes_sparse else False,
        dtype=[np.float64, np.float32] if single else np.float64,
        ensure_all_finite=False,
        order="C",
    )
    if sparse.issparse(X):
        return _read_sparse(X)
    # In blocks: a mask of many rows would be an eighth of their size.
    if not all(np.isfinite(X[i : i + 65536]).all() for i in range(0, len(X), 65536)):
        raise ValueError(_where_not_finite(estimator, ~np.isfinite(X)))
    return X


def _read_sparse(X: Any) -> sparse.csr_array:
    """Return sparse rows in the one form that models take; the user's own are not changed."""
    X = sparse.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if not np.isfinite(X.data).all():
        bad = np.flatnonzero(~np.isfinite(X.data))
        rows = np.unique(np.searchsorted(X.indptr, bad, side="right") - 1)
        raise ValueError(
            f"X contains NaN or infinity (inf) in {len(rows)} row{'s' * (len(rows) != 1)}: "
            f"{_list(rows.tolist())}. Drop those rows, or correct them."
        )
    if np.abs(X.data).max(initial=0.0) > LARGE and X.dtype == np.float32:
        return X.astype(np.float64)  # squares leave the numbers of single precision
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
