"""Why a row of a table has its class, where a pipeline prepares the rows for the classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from atoll.core.preprocessing import filled_cells
from atoll.core.row_names import row_names
from atoll.estimators.column_explanation import columns_of_table, with_columns
from atoll.estimators.display import place_of
from atoll.estimators.parameters import Whole, check_value
from atoll.estimators.row_explanation import RowExplanation
from atoll.estimators.row_explanation import explain_row as explain_features
from atoll.estimators.shell import TRAINING, Classifier
from atoll.estimators.tables import TablePreprocessor
from atoll.estimators.validation import remark_on_order
from atoll.estimators.word_explanation import with_words, with_words_of


def explain_row(
    model: Any,
    table: Any,
    row: int | str,
    *,
    y: Any = None,
    n_labels: int = 5,
    refit: bool | None = None,
) -> RowExplanation:
    """Say which labels the class of a table's row rests on, and which of its cells were filled in.

    It is the method `explain_row` of a classifier for a pipeline that ends in one.

    Parameters
    ----------
    model : fitted pipeline of `make_preprocessor()`, or other steps, and one of the library's
        classifiers
    table : data frame, array or list of texts
        Of the fit, or with new rows, as the pipeline takes them.
    row : int or str
        Which row of the table, from 0, or its name in the index of a data frame.
    y : (n,) labels of the table, default=None
        Needed where the model was loaded, with the table of the fit; None: those of the fit.
    n_labels : int, default=5
        Labels to list.
    refit : bool or None, default=None
        Whether to fit the model again without each of the labels; None: where it cannot tell
        their pulls.

    Returns
    -------
    RowExplanation, which prints in words

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from atoll import GraphGPClassifier, explain_row, make_preprocessor
    >>> table = pd.DataFrame({"mass": [1.0, 1.1, None, 5.0, 5.2], "site": list("aabbb")})
    >>> model = make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0))
    >>> _ = model.fit(table, ["light", None, None, "heavy", None])
    >>> explain_row(model, table, 2).filled
    ('mass',)
    """
    check_value("n_labels", n_labels, Whole(1))
    if not isinstance(model, Pipeline) or not isinstance(model[-1], Classifier):
        what = type(model).__name__
        if isinstance(model, Pipeline):
            what += f" that ends in {type(model[-1]).__name__}"
        raise ValueError(
            f"model is of the type {what}; explain_row takes a pipeline that ends in one of the "
            "library's classifiers, such as make_pipeline(make_preprocessor(), AtollClassifier()). "
            "A classifier alone has the method explain_row(row)."
        )
    check_is_fitted(model)
    classifier = model[-1]
    rows, labels = _of_fit(model, table, y)
    place = place_of(row, table) if isinstance(row, str) else int(row)
    n = table.shape[0] if hasattr(table, "shape") else len(table)
    if not 0 <= place < n:
        raise ValueError(f"row must be from 0 to {n - 1}, got {row}.")
    one = table.iloc[[place]] if hasattr(table, "iloc") else table[place : place + 1]
    features = _prepared(model, one)
    found = explain_features(
        classifier,
        features,
        classifier._read_rows(rows),
        labels,
        n_labels=int(n_labels),
        refit=refit,
    )
    found = found.named(_names_of_fit(model, table, rows, y))
    step = model[0]
    if not isinstance(step, TablePreprocessor):
        return _with_words_of_texts(model, found, features, rows)
    filled = filled_cells(step.preprocessing_, step._frame(one, reset=False))[0]
    if len(model) == 2:  # between the two another step may have made other features
        found = with_words(found, features, rows, step.preprocessing_)
        columns = columns_of_table(step.preprocessing_)
        found = with_columns(found, classifier, features, rows, columns)
    return found._replace(filled=filled, n_columns=len(step.preprocessing_.columns))


def _prepared(model: Pipeline, table: Any) -> Any:
    """Return rows as the classifier at the end of a pipeline takes them."""
    return model[:-1].transform(table) if len(model) > 1 else table


def _names_of_fit(model: Pipeline, table: Any, rows: Any, y: Any) -> tuple[str, ...] | None:
    """Return the names of the rows of the fit, where the table is that of the fit and has some.

    Parameters
    ----------
    rows : (n, d) of the fit, as the classifier takes them
    y : labels of the table, given where it is that of the fit
    """
    names = row_names(table)
    if names is None or y is not None:
        return names
    if len(names) != rows.shape[0]:
        return None
    apart = _prepared(model, table) != rows
    is_same = apart.nnz == 0 if sparse.issparse(apart) else not np.any(np.asarray(apart))
    return names if is_same else None


def _with_words_of_texts(
    model: Pipeline, found: RowExplanation, features: Any, rows: Any
) -> RowExplanation:
    """Return an explanation with words, where the only step before is a vectoriser of texts."""
    step = model[0]
    is_of_words = hasattr(step, "vocabulary_") and sparse.issparse(features)
    if len(model) != 2 or not is_of_words:
        return found
    return with_words_of(found, features, rows, step.get_feature_names_out().tolist())


def _of_fit(model: Pipeline, table: Any, y: Any) -> tuple[Any, Any]:
    """Return rows and labels of the fit, as its classifier takes them."""
    if y is not None:
        remark_on_order(table, y)
        return _prepared(model, table), y
    kept = getattr(model[-1], TRAINING, None)
    if kept is None:
        raise ValueError(
            "the rows of the fit are not known: the model was loaded or copied, or they are too "
            "many to keep. Give the table of the fit and its labels: explain_row(model, table, "
            "row, y=labels)."
        )
    return kept.X, kept.y
