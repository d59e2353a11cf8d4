"""Rows that stay on disk or on a cluster: how a classifier reads and predicts them in chunks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from atoll.core.chunks import (
    CHUNK_ROWS,
    RowChunks,
    RowSource,
    chunks_of,
    is_dask,
    is_source,
    map_partitions,
    require_two_dimensions,
)
from atoll.core.extras import import_extra
from atoll.core.far_rows import MappedRows, SourceRows, survey
from atoll.core.labels import PartialLabels, as_objects, require_classes
from atoll.core.not_finite import refuse_not_finite
from atoll.core.remarks import warn_user
from atoll.core.rows import AUTO, EUCLIDEAN
from atoll.core.value_spans import counted_together
from atoll.estimators.far_values import remark_on_far_values
from atoll.estimators.progress import Progress
from atoll.estimators.validation import COLUMNS_OF_FIT, read_chosen

Method = TypeVar("Method", bound=Callable[..., Any])

PREDICTED_ROWS = 20_000  # rows of a map or a .npy file that are predicted at a time


def is_far(X: Any) -> bool:
    """Return whether a fit was handed rows that are not in memory."""
    return isinstance(X, MappedRows | SourceRows)


def read_source(model: Any, source: RowSource) -> tuple[SourceRows, PartialLabels]:
    """Return the rows of a source and their labels, checked; one pass over the rows.

    Once the fit has chosen some of the rows, another pass reads them.
    """
    if getattr(model, "metric", EUCLIDEAN) not in (AUTO, EUCLIDEAN):
        raise ValueError(
            f"metric={model.metric!r} needs rows in memory; rows in chunks or on a cluster are "
            'joined by metric="euclidean".'
        )
    with Progress(model.verbose, "reading", "rows") as bar:
        found = source.total(survey, bar.count)
    model._keep_columns(found)
    model._of_sparse_ = False
    declared = model._class_order(None)
    labels = found.read(model.unlabelled, declared)
    require_classes(labels, at_least=1 if model.fits_unseen_classes and declared else 2)
    labels = labels._replace(is_chosen=read_chosen(model.labels_chosen, len(labels.codes)))
    model._check_labels(labels)
    return SourceRows(source, found.lengths, found.n_features), labels


def map_for(model: Any, X: Any) -> MappedRows | None:
    """Return the rows of a memory map, checked, if the model can leave them there; else None."""
    is_plain = getattr(model, "metric", EUCLIDEAN) == EUCLIDEAN
    if not (isinstance(X, np.memmap) and model.takes_far_rows and is_plain):
        return None
    if X.ndim != 2 or not len(X) or X.dtype.kind not in "fiu":
        return None
    validate_data(model, X[:1], reset=True, dtype=np.float64, ensure_all_finite=False)
    model._of_sparse_ = False
    rows = MappedRows(X)
    for number, block in enumerate(chunks_of(X, CHUNK_ROWS).each(lambda number, block, y: block)):
        refuse_not_finite(block, number * CHUNK_ROWS)
    return rows


class OfEveryRow:
    """A fitted attribute with a value for every row, which a fit of rows outside memory lacks.

    It is looked up only if the estimator has no such attribute of its own. It then raises an
    AttributeError that says what to call instead, so that `hasattr` is False.

    Parameters
    ----------
    instead : the call that answers for rows of the user's choice
    """

    def __init__(self, instead: str):
        self.instead = instead

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type) -> Any:
        if model is None:
            raise AttributeError(f"type object {owner.__name__!r} has no attribute {self.name!r}")
        missing = f"this {owner.__name__} has no {self.name}"
        if not model.__sklearn_is_fitted__():
            raise AttributeError(f"{missing} yet; call fit first.")
        raise AttributeError(
            f"{missing}: its rows came from a file, in chunks, from a cluster or by partial_fit, "
            f"and the fit did not predict them. Ask for the rows you want: {self.instead}, where "
            "X may be what fit was given."
        )


def by_chunks(method: Method) -> Method:
    """Let a method that answers for every row take rows which do not fit in memory.

    `RowChunks`, memory maps and the paths of .npy files are read chunk by chunk, and give an array;
    a Dask array or data frame gives a Dask array, not computed yet. Many rows in memory are also
    taken in chunks, whether a bar is shown or not: the bar changes no digit.
    """

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not (is_source(X) or isinstance(X, np.memmap) or _are_many(X, args, options)):
            return method(self, X, *args, **options)
        check_is_fitted(self)

        def of(rows: Any) -> Any:
            return method(self, rows, *args, **options)

        if is_dask(X):
            require_two_dimensions(X)
            with counted_together():  # nothing is said of the row that is made up
                none = of(_one_row(X))[:0]
            return map_partitions(_Predictor(self, method.__name__, args, options, none), X, none)
        with counted_together() as counted:
            found = _in_order(self, of, X)
        remark_on_far_values(self, counted.get(id(self)))
        return found

    return cast(Method, answer)


def _are_many(X: Any, args: Any, options: Any) -> bool:
    """Return whether rows in memory are predicted in parts; not if there are more arguments."""
    if args or set(options) - {"reject_below"}:
        return False
    is_plain = isinstance(X, np.ndarray) or hasattr(X, "iloc")
    return is_plain and np.ndim(X) == 2 and len(X) > PREDICTED_ROWS


class _Predictor:
    """A method of a model, to be sent to a cluster, and its answer for no rows."""

    def __init__(self, model: Any, name: str, args: Any, options: Any, none: Any):
        self.model, self.name, self.args, self.options = model, name, args, options
        self.none = none

    def __call__(self, rows: Any) -> Any:
        if not rows.shape[0]:  # as where a filter has left a partition empty
            return self.none
        return getattr(self.model, self.name)(rows, *self.args, **self.options)


def _one_row(X: Any) -> Any:
    """Return a row like those of a Dask X, without reading any."""
    if hasattr(X, "columns"):
        pandas = import_extra("pandas")
        return pandas.DataFrame(np.zeros((1, len(X.columns))), columns=list(X.columns))
    return np.zeros((1, X.shape[1]))


def _in_order(model: Any, of: Callable[[Any], Any], X: Any) -> Any:
    """Return the answers for all rows, in their order."""
    chunks = chunks_of(X, PREDICTED_ROWS)
    n = chunks.n_rows

    def answer(number: int, rows: Any, y: Any) -> Any:
        if not rows.shape[0]:
            return None
        try:
            return of(np.asarray(rows) if isinstance(rows, np.memmap) else rows)
        except ValueError as error:
            said, fix, _ = str(error).partition(COLUMNS_OF_FIT)
            if not fix or not isinstance(X, RowChunks):
                raise
            every = "Make every chunk hold the columns of the fit alone, in their order:"
            raise ValueError(f"{said}{every} rows[model.feature_names_in_].") from error

    with Progress(getattr(model, "verbose", False), "predicting", "rows", total=n) as bar:
        parts = (part for part in chunks.each(answer, bar.count) if part is not None)
        first = next(parts, None)
        if first is None:
            raise ValueError("X holds no rows; give at least one to predict.")
        if n is None:
            return _with_blanks(np.concatenate([first, *parts]), chunks)
        out = np.empty((n, *first.shape[1:]), first.dtype)
        n_done = 0
        for part in chain([first], parts):
            n_done += len(part)
            if n_done <= n:
                out[n_done - len(part) : n_done] = part
    if n_done != n:
        raise ValueError(
            f"n_rows={n}, and the chunks hold {n_done} rows; give RowChunks their number, or leave "
            "n_rows out."
        )
    return _with_blanks(out, chunks)


def _with_blanks(answers: Any, chunks: Any) -> Any:
    """Return the answers, blank for rows that could not be read: nan, or None in place of a class.

    The chunks know why since they were read.
    """
    reasons = getattr(chunks, "reasons", {})
    if not reasons:
        return answers
    row, reason = next(iter(reasons.items()))
    first = f"row {row}: {reason} (the first row is row 0)"
    if len(reasons) == len(answers):
        raise ValueError(f"no row can be read; {first}. Correct the table.")
    if answers.dtype.kind != "f":
        answers = as_objects(answers)
    answers[list(reasons)] = np.nan if answers.dtype.kind == "f" else None
    warn_user(
        f"{len(reasons):,} of {len(answers):,} rows cannot be read and have blank answers, such as "
        f"{first}. The attribute `reasons` of the chunks says why.",
        UserWarning,
    )
    return answers
