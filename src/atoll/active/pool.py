"""A classifier and the rows of a pool: one interface to our classifiers and scikit-learn's."""

from __future__ import annotations

import copy
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier

from atoll.core.column_scales import unlike_scales
from atoll.core.labels import object_array
from atoll.core.selection import some_rows
from atoll.estimators.shell import SemiSupervisedClassifier
from atoll.estimators.validation import read_rows

Array = NDArray[np.float64]
Index = NDArray[np.intp]

THEIRS = (LabelPropagation, LabelSpreading, SelfTrainingClassifier)

DIGITS = 1e-12  # of a column's largest number: differences below it are of the last digits


class Known(NamedTuple):
    """Labels of some rows of a pool.

    rows : (l,) which rows
    codes : (l,) their classes
    classes : all of them, even those without a label
    is_random : (l,) whether a row was drawn at random rather than picked
    """

    rows: Index
    codes: Index
    classes: tuple[Any, ...]
    is_random: NDArray[np.bool_]

    @property
    def n_seen(self) -> int:
        """Number of classes with a label."""
        return len(np.unique(self.codes))


class FittedPool(NamedTuple):
    """What a classifier says of all rows of the pool.

    estimator : fitted
    proba : (n, K) class probabilities, in the order of the classes given
    columns : (K,) where each class is among the estimator's; -1 where it is not
    """

    estimator: Any
    proba: Array
    columns: Index

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities of new rows, in the order of the classes; (m, d) -> (m, K)."""
        return _in_order(self.estimator.predict_proba(X), self.columns)

    def draws(self, X: Any, n: int, seed: int) -> Array:
        """Return n joint draws of the class probabilities of rows X (m, d), (n, m, K)."""
        head, rows = last_step(self.estimator), X
        if isinstance(self.estimator, Pipeline):
            rows = self.estimator[:-1].transform(X) if len(self.estimator.steps) > 1 else X
        found = head.sample_proba(rows, n, random_state=seed)
        return _in_order(found, self.columns)


def last_step(estimator: Any) -> Any:
    """Return the classifier at the end of a pipeline, or the classifier itself."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def has_draws(estimator: Any) -> bool:
    """Return whether the classifier gives joint draws of its probabilities."""
    return hasattr(last_step(estimator), "sample_proba")


def takes_missing_classes(estimator: Any) -> bool:
    """Return whether the classifier fits with classes that have no label."""
    return "labels_chosen" in last_step(estimator).get_params(deep=False)


def can_fit(estimator: Any, known: Known) -> bool:
    """Return whether there are enough labels for the classifier."""
    if not len(known.rows):
        return False
    enough = len(known.classes) if takes_missing_classes(estimator) else known.n_seen
    return enough >= 2


def default_classifier(X: Any) -> Any:
    """Return the classifier of a loop that was given none, for a pool X (n, d).

    Columns in unlike units are standardised for it, so that each has its say.
    """
    from atoll.estimators import GraphGPClassifier

    graph, rows = GraphGPClassifier(), None if sparse.issparse(X) else np.asarray(X)
    if rows is None or rows.ndim != 2 or rows.dtype.kind not in "iuf" or not unlike_scales(rows):
        return graph
    return make_pipeline(StandardScaler(), graph)


def prepared(estimator: Any, seed: int) -> Any:
    """Return a clone of the classifier for a labelling loop, with `seed` if it has none."""
    found = clone(estimator)
    head = last_step(found)
    known = head.get_params(deep=False)
    wanted: dict[str, Any] = {"warm_start": True} if takes_missing_classes(found) else {}
    if known.get("random_state", 0) is None:
        wanted["random_state"] = seed
    if isinstance(head, SemiSupervisedClassifier) and "unlabelled" in known:
        wanted["unlabelled"] = None  # only a null is unlabelled past this point
    head.set_params(**wanted)
    return found


def fit_pool(estimator: Any, X: Any, known: Known, verbose: bool = False) -> FittedPool:
    """Fit a copy of the classifier and ask it about all rows.

    The copy reuses what an earlier fit to the same rows kept under `warm_start`.

    Parameters
    ----------
    X : (n, d) all rows
    known : labels, enough of them by `can_fit`
    verbose : whether one of the library's classifiers shows its progress
    """
    estimator = _copied(estimator)
    head = last_step(estimator)
    if verbose and isinstance(head, SemiSupervisedClassifier):
        head.set_params(**{name: True for name in head.get_params(deep=False) if name == "verbose"})
    values = object_array(known.classes)
    if takes_missing_classes(estimator):
        chosen = np.ones(n_rows(X), bool)
        chosen[known.rows] = ~known.is_random
        head.set_params(classes=list(known.classes), labels_chosen=chosen)
    with warnings.catch_warnings():
        # Few labels make chains slow at first; the verdict stays in `estimator_.diagnostics_`.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if isinstance(head, SemiSupervisedClassifier):
            y = np.full(n_rows(X), None, dtype=object)
            y[known.rows] = values[known.codes]
            estimator.fit(X, y)
            found = head.classes_.tolist()
        elif isinstance(head, THEIRS):
            codes = np.full(n_rows(X), -1)
            codes[known.rows] = known.codes
            estimator.fit(X, codes)
            found = [known.classes[code] for code in head.classes_]
        else:
            estimator.fit(some_rows(X, known.rows), known.codes)
            found = [known.classes[code] for code in estimator.classes_]
    columns = np.array([found.index(c) if c in found else -1 for c in known.classes])
    proba = getattr(head, "label_distributions_", None)
    if not isinstance(head, SemiSupervisedClassifier) or proba is None:
        proba = estimator.predict_proba(X)
    return FittedPool(estimator, _in_order(proba, columns), columns)


def _copied(estimator: Any) -> Any:
    """Return a copy that may be fitted while others still use this one."""
    if isinstance(estimator, Pipeline):
        found = copy.copy(estimator)
        found.steps = [(name, _copied(step)) for name, step in estimator.steps]
        return found
    if not isinstance(estimator, SemiSupervisedClassifier):
        return copy.copy(estimator)
    found = type(estimator)()
    found.__dict__.update(vars(estimator))  # with its memory of rows, which copies leave behind
    return found


def _in_order(proba: Array, columns: Index) -> Array:
    """Return probabilities with a column for each class; zero for those the model has not seen."""
    out = np.zeros((*proba.shape[:-1], len(columns)))
    out[..., columns >= 0] = proba[..., columns[columns >= 0]]
    return out


def check_rows(estimator: Any, X: Any) -> None:
    """Raise a ValueError at once if one of the library's classifiers cannot take the rows.

    A pipeline is left to check its rows itself.
    """
    if isinstance(estimator, SemiSupervisedClassifier):
        read_rows(clone(estimator), X, reset=True)


def n_rows(X: Any) -> int:
    """Return the number of rows of an array, a sparse matrix, a data frame or a list."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def blank_shares(X: Any) -> Array:
    """Return the share of blank cells in every row of a pandas data frame, (n,); 0 for others."""
    if not (hasattr(X, "isna") and hasattr(X, "iloc")):
        return np.zeros(n_rows(X))
    return np.asarray(X.isna().mean(axis=1), dtype=np.float64)


def same_rows(X: Any, other: Any) -> bool:
    """Return whether two tables of as many rows are equal; both may be sparse.

    The last digits of numbers may differ: many programs change them as they read and write a table.
    """
    if sparse.issparse(X) and sparse.issparse(other):
        return X.shape == other.shape and not (other != X).nnz
    if sparse.issparse(X) or sparse.issparse(other):
        return False
    if hasattr(X, "columns") and hasattr(other, "columns"):
        X, other = (t.to_pandas() if hasattr(t, "to_pandas") else t for t in (X, other))
        return list(X.columns) == list(other.columns) and all(
            _same_cells(X.iloc[:, j], other.iloc[:, j]) for j in range(X.shape[1])
        )
    return _same_cells(np.asarray(X), np.asarray(other))


def _same_cells(cells: Any, others: Any) -> bool:
    """Return whether two columns, or arrays, are equal but for the last digits of numbers."""
    dtypes = (cells.dtype, others.dtype)
    if all(isinstance(dtype, np.dtype) and dtype.kind == "f" for dtype in dtypes):
        first, second = np.asarray(cells), np.asarray(others)
        if first.shape != second.shape:
            return False
        largest = np.max(np.abs(first), axis=0, initial=0.0, where=np.isfinite(first))
        return np.allclose(first, second, rtol=0.0, atol=DIGITS * largest, equal_nan=True)
    if hasattr(cells, "reset_index"):
        return bool(cells.reset_index(drop=True).equals(others.reset_index(drop=True)))
    return np.array_equal(cells, others)
