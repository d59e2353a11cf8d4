"""Everything that is checked before a model sees the data, in one place."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from atoll.core.class_slips import remark_on_slips
from atoll.core.labels import PartialLabels, parse_labels, require_classes
from atoll.core.measured_labels import about_measurement
from atoll.core.memory import check_memory
from atoll.core.not_finite import about_not_finite, shortened_list
from atoll.core.remarks import warn_user
from atoll.core.rows import clipped, n_varying_columns, with_room
from atoll.core.table_fixes import FRAME, Fixes
from atoll.core.table_refusals import (
    columns_in_words,
    is_or_are,
    refuse_lazy,
    refuse_repeated_columns,
)
from atoll.core.unusable import about_times, row_numbers

Array = NDArray[np.float64]

_NOT_CONVERTED = ("could not convert", "Cannot cast", "float() argument must be")

ROW_NUMBERS = r"(?s).* looks? like (a row number|numbers of rows), "
"""How warnings of columns that number the rows begin, for the filters of the warnings module."""

LARGEST = 1e140  # squares of larger numbers overflow; of differences below its inverse, underflow


def read_labels(
    y: Any, n_rows: int, unlabelled: Any, classes: Sequence[Any] | None, *, at_least: int = 2
) -> PartialLabels:
    """Return the labels of n rows, checked.

    Parameters
    ----------
    classes : all of them, in an order of their own; None: those of y, sorted
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
    if classes is None:
        remark_on_slips(labels.classes.tolist(), labels.counts.tolist())
    found = about_measurement(labels) if classes is None else None
    if found is not None:
        warn_user(
            f"y has {found}: it looks like a measurement, not like classes. Each number is taken "
            "for a class, and the fit may take long. Bin the values, or use a regressor; if they "
            "are classes, pass them as text, for example y.astype(str).",
            UserWarning,
        )
    return labels


def remark_on_order(X: Any, y: Any, name: str = "y") -> None:
    """Warn if a table and what is said of its rows have the same names in different orders.

    Parameters
    ----------
    y : (n,) labels, weights or groups
    name : of the argument that y was given as
    """
    names: Any = getattr(X, "index", None)
    others: Any = getattr(y, "index", None)
    if not (hasattr(names, "equals") and hasattr(others, "equals")) or len(names) != len(others):
        return
    if names.equals(others) or not (names.is_unique and others.is_unique):
        return
    if len(names.intersection(others)) == len(names):
        warn_user(
            f"the index of {name} has the names of X's rows in another order; "
            f"{'labels' if name == 'y' else 'its entries'} are taken by their position, not by "
            f"their names. Bring them into order first: {name}.loc[X.index].",
            UserWarning,
        )


def remark_on_table(X: Any, y: Any) -> None:
    """Warn of labels in another order than the rows, and of columns that number the rows."""
    remark_on_order(X, y)
    remark_on_row_numbers(X)


def remark_on_row_numbers(
    X: Any, columns: Sequence[str] | None = None, fixes: Fixes = FRAME
) -> None:
    """Warn of columns to learn from that only number or name the rows of a data frame."""
    if not hasattr(X, "iloc") or not getattr(getattr(X, "columns", None), "is_unique", False):
        return
    found = row_numbers(X, list(X.columns) if columns is None else columns)
    if found:
        what = "look like numbers of rows" if len(found) > 1 else "looks like a row number"
        are = is_or_are(found)
        warn_user(
            f"{columns_in_words(found)} {what}, and {are} learnt from, though such numbers tell "
            f"nothing of other rows. Leave {'them' if len(found) > 1 else 'it'} out: "
            f"{fixes.drop(found)}.",
            UserWarning,
        )


def are_alike(X: Any) -> bool:
    """Return whether two rows or more are all equal; rows outside memory are not looked at."""
    is_dense = isinstance(X, np.ndarray)
    if not (is_dense or sparse.issparse(X)) or X.shape[0] < 2:
        return False
    if is_dense and not np.array_equal(X[0], X[-1]):  # so that hardly any table is read whole
        return False
    return n_varying_columns(X) == 0


def remark_on_equal_rows(model: Any, X: Any) -> bool:
    """Warn, and return True, if no column varies, so that no row can be told from another.

    Graphs and distances in the place of rows are not looked at.
    """
    if getattr(model, "metric", None) in ("precomputed", "graph") or not are_alike(X):
        return False
    warn_user(
        f"{type(model).__name__}: no column of X varies: all {X.shape[0]:,} rows are equal, and "
        "have the same probabilities. Fix: add columns that differ between rows, and check that "
        "the table was read as it should be.",
        UserWarning,
    )
    return True


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


def weights_of_score(known: NDArray[np.bool_], n_rows: int, sample_weight: Any) -> Array:
    """Return what the rows to be scored count, (n,): nothing without a label or target.

    Parameters
    ----------
    known : whether each entry of y is a label or a target
    n_rows : n, of X
    """
    if len(known) != n_rows:
        raise ValueError(f"y has {len(known)} entries and X has {n_rows} rows; pass one per row.")
    if not known.any():
        raise ValueError(f"y has no labelled row among {n_rows}; there is nothing to score.")
    if sample_weight is None:
        return known.astype(np.float64)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight must hold numbers, one for each row of X.") from None
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape} and X has {n_rows} rows; pass one weight for "
            "each row, (n,)."
        )
    weights = np.where(known, weights, 0.0)
    if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
        raise ValueError(
            "sample_weight must be finite numbers of zero or more for the rows that are scored, "
            "and more than zero for one of them."
        )
    return weights


def generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy Generator, given None, an int, a Generator or a RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
    return np.random.default_rng(random_state)


def fingerprint(*parts: Any) -> str:
    """Return a digest of arrays and settings, by which a checkpoint recognises its problem."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return digest.hexdigest()


def read_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return rows of finite numbers, (n, d); `reset` sets the estimator's columns by them.

    They are dense and of double precision, unless the estimator says `takes_sparse` or
    `keeps_single`.
    """
    takes_sparse = getattr(estimator, "takes_sparse", False)
    if isinstance(X, str | os.PathLike):
        raise ValueError(
            f"X is the path {str(X)!r}; read the rows first, for example with pandas.read_csv, or "
            "chunk by chunk with atoll.RowChunks.from_csv or from_parquet. The path of a .npy file "
            "is taken as it is."
        )
    if sparse.issparse(X) and not takes_sparse:
        raise ValueError(
            f"X is sparse, and {type(estimator).__name__} takes dense rows only. Use "
            "AtollClassifier or GraphGPClassifier, or make fewer, dense columns first, for "
            "example with sklearn.decomposition.TruncatedSVD."
        )
    refuse_repeated_columns(X)
    refuse_lazy(X)
    if np.ma.is_masked(X):
        n_masked = np.ma.count_masked(X)
        cells = "1 cell" if n_masked == 1 else f"{n_masked} cells"
        raise ValueError(
            f"X is masked in {cells}. Let them be filled in: make_pipeline(make_preprocessor(), "
            f"{type(estimator).__name__}()), with make_pipeline of sklearn.pipeline and "
            "make_preprocessor of atoll; or take X.data, if all are known."
        )
    timed = about_times(X)
    if timed:  # Arrow's would be read as billionths of a second
        raise ValueError(_no_numbers(estimator, timed))
    single = getattr(estimator, "keeps_single", False)
    try:
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if takes_sparse else False,
            dtype=[np.float64, np.float32] if single else np.float64,
            ensure_all_finite=False,
            order="C",
        )
    except (ValueError, TypeError) as error:  # NumPy's DTypePromotionError is one of the latter
        is_promotion = isinstance(error, np.exceptions.DTypePromotionError)
        if not reset and str(error).startswith("The feature names should match"):
            raise ValueError(f"{error}{_chosen_columns(estimator, X)}") from error
        is_text = str(error).startswith(_NOT_CONVERTED)
        is_of_array = isinstance(error, TypeError) and not hasattr(X, "columns")
        if not is_promotion and (not is_text or is_of_array):  # of arrays scikit-learn wants it so
            raise
        why = "dates beside numbers" if is_promotion else error
        if len(np.shape(X)) == 1:
            cosine = 'metric="cosine"' if hasattr(estimator, "metric") else ""
            raise ValueError(
                "X is a list of texts. Turn them into numbers first: "
                f"make_pipeline(TfidfVectorizer(), {type(estimator).__name__}({cosine})), with "
                "make_pipeline of sklearn.pipeline and TfidfVectorizer of "
                "sklearn.feature_extraction.text."
            ) from error
        raise ValueError(_no_numbers(estimator, why)) from error
    if takes_sparse:
        X = _as_in_fit(estimator, X, reset=reset)
    if sparse.issparse(X):
        return _read_sparse(estimator, X, reset=reset)
    # In blocks: a mask of many rows would be an eighth of their size.
    if not all(np.isfinite(X[i : i + 65536]).all() for i in range(0, len(X), 65536)):
        raise ValueError(_where_not_finite(estimator, X))
    if reset:
        check_size(X, getattr(estimator, "feature_names_in_", None))
        return with_room(X)
    # Beyond this nothing changes, except that squares would overflow.
    if float(np.abs(X).max(initial=0.0)) <= LARGEST:
        return X
    return np.clip(X, -LARGEST, LARGEST)


def _as_in_fit(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return rows, sparse or dense as those of the fit were; `reset` keeps which they are."""
    is_sparse = sparse.issparse(X)
    if reset:
        estimator._of_sparse_ = is_sparse
    if getattr(estimator, "_of_sparse_", is_sparse) == is_sparse:
        return X
    if not is_sparse:
        return sparse.csr_array(X)
    check_memory(
        X.dtype.itemsize * X.shape[0] * X.shape[1],
        what=f"a dense array of {X.shape[0]} rows, which the fit had,",
        instead="Pass fewer rows at a time, or fit to sparse rows.",
    )
    return X.toarray()


def _no_numbers(estimator: BaseEstimator, why: Any) -> str:
    return (
        f"X holds text or other values that are no numbers ({why}). Turn a table into numbers "
        f"first: make_pipeline(make_preprocessor(), {type(estimator).__name__}()), with "
        "make_pipeline of sklearn.pipeline and make_preprocessor of atoll."
    )


COLUMNS_OF_FIT = "Pass the columns of the fit alone, in their order:"


def _chosen_columns(estimator: BaseEstimator, X: Any) -> str:
    """Say how to select a fit's columns from a table that has them all; "" if it does not."""
    names = list(getattr(estimator, "feature_names_in_", ()))
    if not set(names) <= set(map(str, getattr(X, "columns", ()))):
        return ""
    chosen = "X[model.feature_names_in_]" if hasattr(X, "iloc") else f"X.select({names!r})"
    return f"{COLUMNS_OF_FIT} {chosen}."


def check_size(X: Any, names: Sequence[str] | None) -> None:
    """Raise a ValueError for columns whose squares overflow, or whose differences underflow.

    Parameters
    ----------
    X : (n, d)
    names : of its columns; None: they go by their places
    """
    if sparse.issparse(X) or not X.size:
        return
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    huge = np.flatnonzero(np.maximum(-low, high) > LARGEST)
    # Differences of huge numbers are not computed: these are refused in any case.
    spread = np.minimum(high, LARGEST) - np.maximum(low, -LARGEST)
    tiny = np.flatnonzero((spread > 0) & (spread < 1.0 / LARGEST))
    for columns, what, instead in (
        (huge, "numbers whose squares overflow", "Divide by a large number, or take logarithms."),
        (tiny, "numbers whose differences underflow", "Multiply by a large number."),
    ):
        if len(columns):
            raise ValueError(
                f"X holds {what}, in {len(columns)} column{'s' * (len(columns) != 1)}: "
                f"{shortened_list(_names_of(names, columns))}. {instead}"
            )


def _read_sparse(estimator: BaseEstimator, X: Any, *, reset: bool) -> sparse.csr_array:
    """Return sparse rows in the one form that models take; the user's own are not changed."""
    X = sparse.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if not np.isfinite(X.data).all():
        bad = np.flatnonzero(~np.isfinite(X.data))
        rows = np.searchsorted(X.indptr, bad, side="right") - 1
        columns = _column_names(estimator, X.indices[bad])
        raise ValueError(about_not_finite(X.data[bad], rows, columns, ""))
    largest = float(np.abs(X.data).max(initial=0.0))
    if largest > LARGEST and reset:
        raise ValueError(
            f"X holds numbers whose squares overflow, such as {largest:g}. Divide by a large "
            "number, or take logarithms."
        )
    return with_room(clipped(X, LARGEST))


def _where_not_finite(estimator: BaseEstimator, X: Array) -> str:
    rows, columns = np.nonzero(~np.isfinite(X))
    fill = (
        "let blank cells be filled in: make_pipeline(make_preprocessor(), "
        f"{type(estimator).__name__}()), with make_pipeline of sklearn.pipeline and "
        "make_preprocessor of atoll"
    )
    return about_not_finite(X[rows, columns], rows, _column_names(estimator, columns), fill)


def _column_names(estimator: BaseEstimator, columns: NDArray[np.integer]) -> list[str]:
    return _names_of(getattr(estimator, "feature_names_in_", None), columns)


def _names_of(names: Sequence[str] | None, columns: NDArray[np.integer]) -> list[str]:
    return [repr(str(names[j])) if names is not None else str(j) for j in columns]
