"""Tables of mixed columns as a step of a pipeline."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from atoll.core import preprocessing
from atoll.core.blank_markers import about_blank_markers
from atoll.core.category_words import BLANK
from atoll.core.chunks import RowChunks, is_dask
from atoll.core.extras import import_extra
from atoll.core.fillings import carrying, fillings_of, with_column_names, with_remarks
from atoll.core.label_copies import label_codes, label_copies
from atoll.core.labels import PartialLabels, parse_labels, unmasked
from atoll.core.markers import placeholders_in
from atoll.core.number_texts import were_texts, with_decimal_commas, with_numbers
from atoll.core.remarks import hearing, warn_user
from atoll.core.strangers import about_strangers
from atoll.core.table_fixes import PYTHON, Fixes
from atoll.core.table_refusals import (
    as_floats,
    columns_in_words,
    is_or_are,
    refuse_lazy,
    refuse_repeated_columns,
)
from atoll.core.tables import N_CELLS
from atoll.core.value_spans import FarValues, numbers_of
from atoll.estimators.category_weight import weigh_categories
from atoll.estimators.parameters import Flag, Listed, Number, OneOf, check_value
from atoll.estimators.validation import remark_on_order, remark_on_row_numbers

CONSTANT = "constant, tells nothing"


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Turn a data frame of numbers, categories, texts and blank cells into an array of features.

    It is what `atoll fit` does to a table of words or blank cells before it fits a model; a table
    of nothing but numbers goes to the default model as it is. Numeric columns become one feature
    each, a column of texts one feature per word, weighted by how few texts have it (TF-IDF), and
    any other column one indicator per value. With texts the features are a sparse array, which
    `AtollClassifier` and `GraphGPClassifier` take. A blank cell of a numeric column takes the mean
    of the ten rows most like its own, and of all that are as like (the median, if fewer than twenty
    rows are complete); one of another column has zeros for all indicators, as does a value that was
    not there in `fit`. If at least a twentieth of a column's cells are blank, an indicator says
    which. Dates, lists and columns of more than a hundred different words are refused by name.

    The features of rows with blank numbers know eight other fillings, each from a similar complete
    row, and the library's classifiers average their probabilities over these. A part, a copy or a
    data frame (`set_output`) of the features does not know them, and has only the mean; do not
    change features in place.

    Parameters
    ----------
    standardise : bool, default=True
        Whether to bring numeric columns to mean 0 and standard deviation 1, or less if they have
        few different values: see `atoll.core.preprocessing.prepare`.
    encode : bool, default=True
        Whether to encode columns that are not numeric, or refuse them.
    impute : bool, default=True
        Whether to fill blank cells in, or refuse them.
    texts : sequence of str, default=()
        Columns of texts, besides those that are recognised.
    drop : sequence of str, default=()
        Columns to leave out.
    category_weight : "auto" or a number above 0, default="auto"
        What indicators, and standardised numbers of few values, are multiplied by: how much they
        count beside measurements. "auto": a half, if `fit` is given labels and it makes them
        clearly more probable under the default classifier, which takes two quick fits; else one.

    Attributes
    ----------
    preprocessing_ : how columns become features
    category_weight_ : float, how much categories count
    few_values_ : tuple of the numeric columns of few values, which count as categories do
    number_texts_ : tuple of the columns of numbers that were text in `fit`
    constant_ : tuple of the numeric columns that have one value only
    n_blank_ : dict of the number of blank cells in `fit`, for columns that have some
    n_features_in_ : int
    feature_names_in_ : (q,) array of str, the columns of a data frame

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"mass": [3.1, None, 4.5], "island": ["Dream", "Biscoe", "Dream"]})
    >>> step = TablePreprocessor().fit(frame)
    >>> step.get_feature_names_out().tolist()
    ['mass', 'mass is blank', 'island=Biscoe', 'island=Dream']
    >>> step.transform(frame).round(2).tolist()[1]
    [0.0, 1.0, 1.0, 0.0]
    """

    fixes: ClassVar[Fixes] = PYTHON
    """How its errors say what to do."""

    def __init__(
        self,
        *,
        standardise: bool = True,
        encode: bool = True,
        impute: bool = True,
        texts: Sequence[str] = (),
        drop: Sequence[str] = (),
        category_weight: Any = "auto",
    ):
        self.standardise = standardise
        self.encode = encode
        self.impute = impute
        self.texts = texts
        self.drop = drop
        self.category_weight = category_weight

    def fit(self, X: Any, y: Any = None) -> TablePreprocessor:
        """Learn what the columns hold.

        Parameters
        ----------
        X : (n, q) data frame or array
        y : (n,) labels, default=None
            As classifiers take them; they decide how much categories count.
        """
        for name in ("standardise", "encode", "impute"):
            check_value(name, getattr(self, name), Flag())
        for name in ("texts", "drop"):
            check_value(name, getattr(self, name), Listed("a sequence of columns"))
        check_value("category_weight", self.category_weight, OneOf("auto") | Number(above=0))
        remark_on_order(X, y)
        given = self._frame(X, reset=True)
        read = [n for n in given.columns if n not in {*map(str, self.texts), *map(str, self.drop)}]
        frame = with_numbers(given, read, known=False)
        self.number_texts_ = tuple(n for n in read if were_texts(given[n], frame[n]))
        table = preprocessing.prepare(
            frame,
            standardise=self.standardise,
            encode=self.encode,
            impute=self.impute,
            drop=[str(name) for name in self.drop],
            texts=[str(name) for name in self.texts],
            fixes=self.fixes,
        )
        remark_on_row_numbers(frame, table.preprocessing.columns, self.fixes)
        numeric = table.preprocessing.numeric
        for said in about_blank_markers(numbers_of(frame, numeric), numeric, self.fixes):
            warn_user(said, UserWarning)
        labels = _labels_of(y, len(frame))
        if labels is not None and hasattr(self, "feature_names_in_"):
            self._remark_on_copies(frame, table.preprocessing.columns, labels)
        self.category_weight_ = self._category_weight(table, labels)
        if self.category_weight_ != 1.0:
            table = preprocessing.with_category_weight(table, self.category_weight_)
        self.preprocessing_ = table.preprocessing
        columns = table.preprocessing.columns
        counted = preprocessing.counts_as_category(table)
        features = np.array(table.preprocessing.features, dtype=object)[counted]
        self.few_values_ = tuple(name for name in features if name in columns)
        numbers = {n: as_floats(frame[n]) for n in table.preprocessing.numeric}
        self.constant_ = tuple(n for n, x in numbers.items() if np.nanmin(x) == np.nanmax(x))
        self.n_blank_ = {n: int(frame[n].isna().sum()) for n in columns if frame[n].isna().any()}
        return self

    def _category_weight(
        self, table: preprocessing.PreparedTable, labels: PartialLabels | None
    ) -> float:
        if self.category_weight != "auto":
            return float(self.category_weight)
        if labels is None or not self.standardise:
            return 1.0
        return weigh_categories(table, labels).weight

    def _remark_on_copies(self, frame: Any, columns: Sequence[str], labels: PartialLabels) -> None:
        """Warn of columns that are copies or codes of the labels."""
        found = label_copies(frame, columns, labels)
        if found:
            warn_user(
                f"{columns_in_words(found)} {is_or_are(found)} the same as y in all "
                f"{labels.n_labelled} labelled rows: what is to be predicted seems to stand in X "
                f"too, and is learnt from. Leave it out: X.drop(columns={list(found)!r}), or "
                f"{PYTHON.drop(found)}.",
                UserWarning,
            )
        coded = [name for name in label_codes(frame, columns, labels) if name not in found]
        if coded:
            warn_user(
                f"each value of {columns_in_words(coded)} goes with one class of y in all "
                f"{labels.n_labelled} labelled rows, and is learnt from. If it is made from what "
                f"is to be predicted, leave it out: X.drop(columns={coded!r}), or "
                f"{PYTHON.drop(coded)}.",
                UserWarning,
            )

    def fit_transform(self, X: Any, y: Any = None, **more: Any) -> Any:
        """Learn what the columns hold, and return the features, as `fit` and `transform` do.

        The features know the warnings that were given, and their names, so that a classifier can
        say them.
        """
        with hearing() as heard:
            features = self.fit(X, y, **more).transform(X)
        return with_column_names(with_remarks(features, heard), self.preprocessing_.names)

    def transform(self, X: Any) -> Any:
        """Return the features, (n, p): an array, or a sparse one where a column holds texts.

        Columns of a data frame are found by their names, in any order; others are ignored. Of
        `RowChunks` each chunk is read and turned into features when a model asks for it. Rows that
        cannot be read, such as those with a word in the place of a number, then have blank
        predictions, and the attribute `reasons` of the chunks says why; of tables in memory they
        raise a ValueError.
        """
        check_is_fitted(self)
        if hasattr(X, "each"):
            found = RowChunks(partial(_transformed, self, X), X.n_rows)
            found.reasons = X.reasons
            return found
        far = self._far_values()
        out = self._features(X, far)
        said = None if far is None else far.remark(self.preprocessing_.numeric)
        if said is None:
            return out
        warn_user(said, UserWarning)
        return with_remarks(out, [said])  # so that a classifier does not say it again

    def _far_values(self) -> FarValues | None:
        """Return what counts values far outside those of the fit; older files cannot tell."""
        spans = self.preprocessing_.spans
        return None if spans is None else FarValues(spans)

    def _features(self, X: Any, found: FarValues | None) -> Any:
        """Return the features, and count values far outside those of the fit."""
        frame = self._frame(X, reset=False)
        self._refuse_commas(frame)
        out = preprocessing.apply(self.preprocessing_, frame, self.fixes)
        for name, strange in preprocessing.unseen(self.preprocessing_, frame).items():
            known = self.preprocessing_.categories[name]
            warn_user(about_strangers(name, strange, known), UserWarning)
        if found is not None:
            found.add(numbers_of(frame, self.preprocessing_.numeric))
        return out

    def _refuse_commas(self, frame: Any) -> None:
        """Raise a ValueError if numbers have decimal commas: every row would be refused."""
        found = with_decimal_commas(frame, self.preprocessing_.numeric)
        if found:
            cell = next(cell for cell in frame[found[0]] if isinstance(cell, str))
            raise ValueError(
                f"{columns_in_words(found)} {'have' if len(found) > 1 else 'has'} decimal commas, "
                f"such as {cell!r}, and the model was fitted on numbers there; "
                "read the file with decimal=','."
            )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features, (p,)."""
        check_is_fitted(self)
        return np.array(self.preprocessing_.names, dtype=object)

    def _frame(self, X: Any, *, reset: bool) -> Any:
        """Return the table as a data frame whose columns have names, checked against the fit's."""
        pd, given = import_extra("pandas"), X
        _refuse_what_is_no_table(X)
        if hasattr(X, "to_pandas"):  # polars, pyarrow
            X = X.to_pandas()
        if sparse.issparse(X):
            raise ValueError("X is sparse: it holds numbers already. Leave this step out.")
        refuse_repeated_columns(X)
        if isinstance(X, np.ma.MaskedArray):
            X = unmasked(X)
        if not isinstance(X, pd.DataFrame):
            X = np.asarray(X)
            if X.ndim != 2:
                raise ValueError(_not_two_dimensions(given, X))
            if X.dtype.kind == "c":
                raise ValueError(
                    "Complex data not supported: X holds complex numbers; give real and imaginary "
                    "parts as columns of their own."
                )
        n, d = X.shape
        if n == 0 or d == 0:
            what = "sample" if n == 0 else "feature"
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required."
            )
        is_frame, plain = isinstance(X, pd.DataFrame), [f"x{j}" for j in range(d)]
        if is_frame and (reset or self._knows_columns_of(X)):
            if reset:
                validate_data(self, X, reset=True, skip_check_array=True)
            return X.set_axis(X.columns.map(str), axis=1)
        validate_data(self, X, reset=reset, skip_check_array=True)
        names = plain if reset else self._names_by_position(plain)
        if is_frame:
            return X.set_axis(names, axis=1)
        return pd.DataFrame(X, columns=names).infer_objects()

    def _knows_columns_of(self, frame: Any) -> bool:
        """Return whether to find the columns of a frame by name; a missing one is then refused."""
        names = set(frame.columns.map(str))
        return hasattr(self, "feature_names_in_") or names.issuperset(self.preprocessing_.columns)

    def _names_by_position(self, plain: list[str]) -> list[str]:
        """Return the names that the columns of an array had in the fit."""
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        known = list(self.preprocessing_.columns)
        return plain if set(known) <= set(plain) or len(known) != len(plain) else known

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the call that makes the step, and what became of each column after a fit."""
        call = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "preprocessing_"):
            return call
        return "\n".join([call, *(f"  {line}" for line in what_became(self))])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _labels_of(y: Any, n: int) -> PartialLabels | None:
    """Return the labels of n rows; None if there are none, or not one for each row."""
    if y is None:
        return None
    y = y if hasattr(y, "__len__") else np.asarray(y)
    with warnings.catch_warnings():  # the classifier will warn of labels
        warnings.simplefilter("ignore")
        labels = parse_labels(y, unlabelled=_likely_marker(y))
    return labels if len(labels.codes) == n else None  # which the classifier will refuse


def _likely_marker(y: Any) -> Any:
    """Return the label that the classifier after this step may be told to read as unlabelled."""
    column = y.iloc[:, 0] if getattr(y, "ndim", 1) == 2 and hasattr(y, "iloc") else y
    labels = np.asarray(column, dtype=object).ravel().tolist()
    for found in placeholders_in(labels):
        others = {value for value in labels if isinstance(value, str) and value != found.name}
        if found.is_most or len(others) > 1:
            return found.name
    return "auto"


def of_preprocessing(found: preprocessing.Preprocessing) -> TablePreprocessor:
    """Return a step, as if it were fitted, that treats tables as `found` says."""
    step = TablePreprocessor(standardise=found.standardised, impute=found.lenient)
    step.preprocessing_ = found
    step.feature_names_in_ = np.array(found.columns, dtype=object)
    step.n_features_in_ = len(found.columns)
    return step


def what_became(step: TablePreprocessor) -> list[str]:
    """Return what each column became, a line each; `step` is fitted."""
    found, n_blank = step.preprocessing_, getattr(step, "n_blank_", {})
    weight, few = getattr(step, "category_weight_", 1.0), getattr(step, "few_values_", ())
    counts = "" if weight == 1.0 else f"; counts {'half' if weight == 0.5 else f'{weight:g}'}"
    counts += " beside measurements" if counts else ""
    lines = []
    for name in found.columns:
        n = n_blank.get(name, 0)
        cells = f"; {n:,} blank cell{'s take' if n > 1 else ' takes'}"
        if name in found.texts:
            said = f"texts, by {len(found.texts[name].names):,} words"
        elif name in found.categories:
            values = [value for value in found.categories[name] if value != BLANK]
            shown = ", ".join(values[:5]) + (", …" if len(values) > 5 else "")
            is_told = len(found.categories[name]) > 1 or n > 0 or not hasattr(step, "n_blank_")
            ending = "y" if len(values) == 1 else "ies"
            said = f"{len(values)} categor{ending}: {shown}{counts}"
            said = said if is_told else f"{CONSTANT}: {shown}"
            said += f"{cells} none of them" if n else ""
            said += "; and whether it is blank" * (len(values) < len(found.categories[name]))
        elif name in getattr(step, "constant_", ()):
            said = CONSTANT + ", but for whether it is blank" * (name in found.flagged)
        else:
            said = "a number" + " of few values" * (name in few)
            said += ", written as text" * (name in getattr(step, "number_texts_", ()))
            said += ", standardised" * found.standardised + counts * (name in few)
            if n and name in found.fill:
                by_rows = f"the mean of rows like {'its own' if n == 1 else 'theirs'}"
                median = f"the median, {found.fill[name]:.4g}"
                said += f"{cells} {by_rows if len(found.donors) else median}"
            said += "; and whether it is blank" * (name in found.flagged)
        lines.append(f"{name}: {said}")
    return lines


def _transformed(step: TablePreprocessor, chunks: Any) -> Iterator[tuple[Any, Any]]:
    """Yield features and labels of chunks of a table; rows that cannot be read have zeros."""
    chunks.reasons.clear()
    n_done, found = 0, step._far_values()
    for rows, labels in chunks.tables(tuple(step.preprocessing_.categories)):
        features, reasons = _features_of_readable(step, rows, found)
        chunks.reasons.update({n_done + row: why for row, why in reasons.items()})
        n_done += features.shape[0]
        yield features, labels
    said = None if found is None else found.remark(step.preprocessing_.numeric)
    if said is not None:
        warn_user(said, UserWarning)


def _features_of_readable(
    step: TablePreprocessor, rows: Any, found: FarValues | None
) -> tuple[Any, dict[int, str]]:
    """Return features (b, p), and why rows cannot be read, by their places."""
    if not rows.shape[0]:
        return _no_features(step, 0), {}
    if hasattr(rows, "columns"):
        step._refuse_commas(rows)
    try:
        if N_CELLS not in getattr(rows, "columns", ()):
            return step._features(rows, found), {}
    except ValueError:  # perhaps only one row is at fault
        pass
    read, reasons = preprocessing.unreadable(step.preprocessing_, step._frame(rows, reset=False))
    readable = np.flatnonzero([reason is None for reason in reasons])
    if not len(readable):
        features = _no_features(step, len(read))
    else:
        features = _spread(step._features(read.iloc[readable], found), readable, len(read))
    return features, {row: why for row, why in enumerate(reasons) if why is not None}


def _no_features(step: TablePreprocessor, n: int) -> Any:
    """Return features (n, p) of rows that have none: zeros."""
    known = sparse.csr_array if step.preprocessing_.texts else np.zeros
    return known((n, len(step.preprocessing_.names)))


def _spread(features: Any, places: NDArray[np.intp], n: int) -> Any:
    """Return n rows of features, with those given (m, p) at places (m,), and zeros elsewhere."""
    known = fillings_of(features)
    known = None if known is None else known._replace(rows=places[known.rows])
    if sparse.issparse(features):
        ones = (np.ones(len(places)), (places, np.arange(len(places))))
        out = sparse.csr_array(sparse.csr_array(ones, shape=(n, len(places))) @ features)
        return carrying(out, known)
    out = np.zeros((n, features.shape[1]))
    out[places] = features
    return carrying(out, known)


def _refuse_what_is_no_table(X: Any) -> None:
    """Raise a ValueError for something that has to be read or computed before it is a table."""
    if isinstance(X, str | os.PathLike):
        raise ValueError(
            f"X is the path {str(X)!r}; read the table, for example with pandas.read_csv, or to "
            "predict one that is larger than memory with atoll.RowChunks.from_csv."
        )
    if hasattr(X, "each"):
        raise ValueError(
            "X is in chunks, and what the columns hold is learned from rows in memory. Fit on a "
            "part of them, such as pandas.read_csv(path, nrows=100_000); chunks can be predicted."
        )
    if is_dask(X):
        raise ValueError("X is a Dask collection; pass X.compute(), or atoll.RowChunks.")
    refuse_lazy(X)


def _not_two_dimensions(given: Any, X: NDArray[Any]) -> str:
    name = getattr(given, "name", None)
    if X.ndim == 1 and hasattr(given, "iloc") and isinstance(name, int | np.integer):
        fix = (
            f"Pass a table of one row: table.iloc[[{name!r}]] in the place of table.iloc[{name!r}]"
        )
    elif X.ndim == 1 and name is None and hasattr(given, "to_frame"):
        fix = "Pass a table of one column: X.to_frame('text') in the place of X"
    elif X.ndim == 1 and hasattr(given, "to_numpy"):
        fix = f"Pass a table of one column: table[[{name!r}]] in the place of table[{name!r}]"
    elif X.ndim == 1 and X.dtype.kind in "OUT":
        fix = 'Pass a table of one column, such as pandas.DataFrame({"text": X})'
    else:
        fix = "for example with X.reshape(-1, 1) if it is one column"
        return f"X must have rows and columns, got {X.ndim} dimension(s). Reshape your data, {fix}."
    return f"X must have rows and columns, got 1 dimension. Reshape your data. {fix}."


def make_preprocessor(
    *,
    standardise: bool = True,
    encode: bool = True,
    impute: bool = True,
    texts: Sequence[str] = (),
    drop: Sequence[str] = (),
    category_weight: Any = "auto",
) -> TablePreprocessor:
    """Return a step that turns a table into features, for `make_pipeline`.

    Parameters
    ----------
    standardise : bool, default=True
        Whether to bring numeric columns to mean 0 and standard deviation 1.
    encode : bool, default=True
        Whether to encode columns that are not numeric, or refuse them.
    impute : bool, default=True
        Whether to fill blank cells in, or refuse them.
    texts : sequence of str, default=()
        Columns of texts, besides those that are recognised.
    drop : sequence of str, default=()
        Columns to leave out.
    category_weight : "auto" or a number above 0, default="auto"
        How much categories count beside measurements; "auto": the labels decide.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from atoll import AtollClassifier, make_preprocessor
    >>> table = pd.DataFrame({"mass": [1.0, 1.1, None, 5.0, 5.2], "site": list("aabbb")})
    >>> model = make_pipeline(make_preprocessor(), AtollClassifier(random_state=0))
    >>> model.fit(table, ["light", None, None, "heavy", None]).classes_.tolist()
    ['heavy', 'light']
    """
    return TablePreprocessor(
        standardise=standardise,
        encode=encode,
        impute=impute,
        texts=texts,
        drop=drop,
        category_weight=category_weight,
    )
