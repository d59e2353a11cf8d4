"""Labels, some of them missing: the one place that decides what counts as missing.

Past this boundary a missing label is a mask, never a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atoll.core.extras import import_extra
from atoll.core.markers import (
    WORDS_FOR_UNLABELLED,
    hint_at_words,
    is_auto,
    is_null,
    markers_of,
    refuse_misspelt,
)
from atoll.core.remarks import warn_user

MOSTLY = 0.75
"""Share of -1 above which two classes, -1 and 1, are remarked on."""


class PartialLabels(NamedTuple):
    """The labels of n rows, some of them missing.

    codes : (n,) int, position in `classes`; 0 where unlabelled, to be read under the mask only
    is_labelled : (n,) bool
    classes : (K,) the distinct labels, sorted, in the dtype in which they were given
    is_chosen : (n,) bool, rows whose label was picked for a reason and not drawn at random; None:
        all labels are a random sample
    weights : (n,) how much each label counts; zero where unlabelled; None: one each
    groups : (n,) int, rows with the same number share a class; -1: the row is in no group; None: no
        row is in one
    is_spread : (n,) bool, rows for whose label another row of their group speaks: they were given
        its label, or have the same; None: no labelled row shares its group
    shared : (n,) what is left of each weight, since rows of a group tell much the same; None: all
    """

    codes: NDArray[np.intp]
    is_labelled: NDArray[np.bool_]
    classes: NDArray[Any]
    is_chosen: NDArray[np.bool_] | None = None
    weights: NDArray[np.float64] | None = None
    groups: NDArray[np.intp] | None = None
    is_spread: NDArray[np.bool_] | None = None
    shared: NDArray[np.float64] | None = None

    def of(self, rows: NDArray[Any]) -> PartialLabels:
        """Return the labels of some rows, given as a mask or as places."""
        more = (None if part is None else part[rows] for part in self[3:])
        codes = self.codes[rows].astype(np.intp, copy=False)
        return PartialLabels(codes, self.is_labelled[rows], self.classes, *more)

    def as_given(self) -> PartialLabels:
        """Return the labels with the weights that they would have without others of their group."""
        if self.shared is None or self.weights is None:
            return self
        return self._replace(weights=self.weights / self.shared, shared=None)

    @property
    def n_labelled(self) -> int:
        return int(self.is_labelled.sum())

    @property
    def counts(self) -> NDArray[np.intp]:
        """(K,) number of labelled rows of each class."""
        return np.bincount(self.codes[self.is_labelled], minlength=len(self.classes))

    @property
    def random_counts(self) -> NDArray[Any]:
        """(K,) weight of the labels drawn at random, which tell the shares of the classes."""
        drawn = self.is_labelled if self.is_chosen is None else self.is_labelled & ~self.is_chosen
        weights = None if self.weights is None else self.weights[drawn]
        return np.bincount(self.codes[drawn], weights, minlength=len(self.classes))


def parse_labels(
    y: ArrayLike, *, unlabelled: Any = "auto", classes: Sequence[Any] | None = None
) -> PartialLabels:
    """Read a target vector in which some labels are missing.

    A null (None, NaN, NaT, pandas' NA, polars' null) is unlabelled in any `y`. What else is
    unlabelled is settled by `unlabelled`. Under "auto" there is a warning if some labels are "?",
    "unknown" or the like (an error if most are), if -1 is taken as a class because there is only
    one other, and if y holds both nulls and -1.

    Parameters
    ----------
    y : (n,) numbers, strings, booleans or objects
    unlabelled : "auto", None or a value
        "auto": -1 in a `y` of whole numbers (or floats, which pandas turns them into) is
        unlabelled, unless `classes` names it, or there are no `classes` and fewer than two would
        remain; then -1 is a class. None: only nulls are unlabelled. A value, or a list, an array or
        a column of values: rows equal to one are unlabelled.
    classes : sequence, optional
        All classes, in the order of the codes. None: those of the labelled rows, sorted.

    Returns
    -------
    PartialLabels

    Examples
    --------
    >>> labels = parse_labels(["cat", None, "dog", "cat"])
    >>> labels.classes.tolist(), labels.is_labelled.tolist()
    (['cat', 'dog'], [True, False, True, True])
    >>> parse_labels([1, 2, -1, -1]).n_labelled   # scikit-learn's marker
    2
    >>> parse_labels([1.0, 2.0, -1.0]).n_labelled   # the same, by way of pandas
    2
    >>> parse_labels([-1, 1, 1, -1]).n_labelled   # two classes, -1 and +1
    4
    """
    values = _as_vector(y)
    is_labelled = ~_is_null(values)
    known = _plain_dtype(values[is_labelled])
    _refuse_unusable(known)

    if classes is not None and is_auto(unlabelled):
        is_marker = known.dtype.kind in "iuf" and -1 not in list(classes)
        unlabelled = -1 if is_marker else None
    marked = _marked_unlabelled(known, unlabelled)
    if is_auto(unlabelled) and marked.any() and not is_labelled.all():
        _remark_on_two_markers(int(marked.sum()), int((~is_labelled).sum()))
    if not is_auto(unlabelled):
        refuse_misspelt(markers_of(unlabelled), known, marked)
    is_labelled[is_labelled] = ~marked
    known = known[~marked]

    if classes is None:
        distinct, known_codes = np.unique(known, return_inverse=True)
    else:
        distinct, known_codes = _codes_in(known, classes)
    codes = np.zeros(len(values), dtype=np.intp)
    codes[is_labelled] = known_codes
    labels = PartialLabels(codes, is_labelled, distinct)
    if classes is None and any(isinstance(marker, str) for marker in markers_of(unlabelled)):
        hint_at_words(labels, unlabelled)
    if classes is None:
        _remark_on_blanks(distinct)
    return labels


def _remark_on_blanks(classes: NDArray[Any]) -> None:
    """Warn of classes whose names differ only by blanks around them."""
    if classes.dtype.kind not in "OUT":
        return
    found: dict[str, list[str]] = {}
    for name in classes.tolist():
        if isinstance(name, str):
            found.setdefault(name.strip(), []).append(name)
    for name, alike in found.items():
        if len(alike) > 1:
            warn_user(
                f"y has the classes {' and '.join(map(repr, alike))}, which differ by blanks "
                f"alone, and are two classes so. If both mean {name!r}, take the blanks away, for "
                "example with y.str.strip().",
                UserWarning,
            )


def sorted_classes(classes: Iterable[Any]) -> list[Any]:
    """Return the classes that a user declares, sorted as labels are.

    Examples
    --------
    >>> sorted_classes(("dog", "cat"))
    ['cat', 'dog']
    """
    named = list(classes)
    if _is_null(object_array(named)).any():
        raise ValueError(f"classes={named!r} holds a null, which means unlabelled; name classes.")
    kinds = sorted({kind_of(value) for value in named})
    if len(kinds) > 1:
        raise ValueError(
            f"classes={named!r} are of several types ({', '.join(kinds)}); make them all strings, "
            "or all numbers."
        )
    ordered = sorted(set(named))
    if len(ordered) < len(named):
        raise ValueError(f"classes={named!r} names a class twice; name each once.")
    if len(ordered) < 2:
        raise ValueError(
            f"classes={named!r} names {len(ordered)} class(es); a classifier needs at least two."
        )
    return ordered


def unlabelled_marker(labels: PartialLabels, unlabelled: Any) -> Any:
    """Return what means unlabelled besides nulls, after `parse_labels` has read the rows of a fit.

    Labels that come later are read with this marker, so that "auto" is settled only once.

    Parameters
    ----------
    labels : PartialLabels
        What was found with the same `unlabelled`.
    unlabelled : "auto", None or a value
        "auto": -1, or None if -1 is one of the classes.

    Returns
    -------
    None (nulls alone) or a value

    Examples
    --------
    >>> unlabelled_marker(parse_labels([4, 5, -1]), "auto")
    -1
    >>> print(unlabelled_marker(parse_labels([-1, 1, 1]), "auto"))
    None
    """
    if not is_auto(unlabelled):
        is_column = hasattr(unlabelled, "__array__") and not isinstance(unlabelled, np.generic)
        return list(markers_of(unlabelled)) if is_column else unlabelled
    return None if -1 in labels.classes.tolist() else -1


def with_extra_classes(classes: ArrayLike, extra: Any) -> NDArray[Any]:
    """Return the classes that have labels, followed by extra classes without any.

    Parameters
    ----------
    classes : (K,) numbers, strings, booleans or objects
    extra : int or sequence of names
        How many, or which. Given a number, numbers go on from the largest, and strings are
        called "extra 1", "extra 2", ...

    Examples
    --------
    >>> with_extra_classes([4, 5], 2).tolist()
    [4, 5, 6, 7]
    >>> with_extra_classes(["cat", "dog"], 1).tolist()
    ['cat', 'dog', 'extra 1']
    >>> with_extra_classes(["cat", "dog"], ["fox"]).tolist()
    ['cat', 'dog', 'fox']
    """
    known = _plain_dtype(classes if isinstance(classes, np.ndarray) else _as_vector(classes))
    names = _extra_names(known, extra)
    if not names:
        return known
    taken = [name for place, name in enumerate(names) if name in known.tolist() + names[:place]]
    if taken:
        raise ValueError(
            f"extra_classes={extra!r} names {taken[0]!r}, a class that is there already; choose "
            "another name."
        )
    kinds = sorted({kind_of(value) for value in [*known.tolist(), *names]})
    if len(kinds) > 1:
        raise ValueError(
            f"extra_classes={extra!r} and the labels are of several types ({', '.join(kinds)}); "
            "make them all strings, or all numbers."
        )
    if known.dtype.kind not in "iuf":
        return np.concatenate([known.astype(object), np.array(names, dtype=object)])
    dtype = np.result_type(known.dtype, *(np.min_scalar_type(name) for name in names))
    return np.concatenate([known, np.array(names)]).astype(dtype)


def _extra_names(known: NDArray[Any], extra: Any) -> list[Any]:
    """Return the names of the extra classes: as given, or made up."""
    if isinstance(extra, str | bool | np.bool_) or not isinstance(extra, Integral | Iterable):
        raise ValueError(
            f"extra_classes must be a whole number or a sequence of names, got {extra!r}."
        )
    if not isinstance(extra, Integral):
        return _plain_words(extra)
    if extra < 0:
        raise ValueError(f"extra_classes must be a whole number of at least 0, got {extra!r}.")
    if extra and known.dtype.kind == "b":
        raise ValueError(
            f"extra_classes={extra!r} must be 0 where the labels are booleans, which have room "
            "for two classes; make the labels strings."
        )
    if known.size and known.dtype.kind in "iuf":
        return [known.max().item() + 1 + i for i in range(int(extra))]
    return [f"extra {i + 1}" for i in range(int(extra))]


def require_classes(labels: PartialLabels, *, at_least: int = 2) -> None:
    """Raise a ValueError unless `at_least` classes have a labelled row."""
    present = labels.classes[labels.counts > 0].tolist()
    if not present:
        raise ValueError(
            f"y has no labelled row among {len(labels.codes)}; a classifier learns from labels. "
            "Label at least one row of each class."
        )
    if len(present) < at_least:
        raise ValueError(
            f"y has one class ({present[0]!r}) among {labels.n_labelled} labelled rows; a "
            "classifier needs at least two. Label a row of another class."
        )


def _as_vector(y: Any) -> NDArray[Any]:
    """Return y as a one-dimensional array in which nulls have not become strings or numbers."""
    if y is None:
        raise ValueError("y is None; pass one label per row, with None or NaN where it is unknown.")
    if hasattr(y, "to_numpy"):  # pandas, polars and pyarrow
        values = _column_values(y)
    elif isinstance(y, np.ma.MaskedArray):
        values = unmasked(y)
    elif isinstance(y, np.ndarray):
        values = y
    else:
        # Through object: NumPy alone would read ["a", nan] as the strings "a" and "nan".
        values = np.asarray(y, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        from sklearn.utils import column_or_1d

        return column_or_1d(values, warn=True)
    if values.ndim == 0 and isinstance(y, str):
        raise ValueError(
            f"y is the word {y!r} and not labels; if it names a column of a table, pass "
            f"table.drop(columns={y!r}) and table[{y!r}]."
        )
    if values.ndim != 1:
        raise ValueError(
            f"y should be a 1d array of labels, got an array of shape {values.shape} instead."
        )
    return values


def unmasked(values: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """Return the entries of a masked array as objects, with None for those that are masked.

    Examples
    --------
    >>> unmasked(np.ma.masked_array([1, 2], mask=[False, True]))
    array([1, None], dtype=object)
    """
    found = np.array(values.data, dtype=object)
    found[np.ma.getmaskarray(values)] = None
    return found


def _column_values(column: Any) -> NDArray[Any]:
    """Return the cells of a data frame's column, as objects if NumPy has no type for them."""
    if isinstance(getattr(column, "dtype", None), np.dtype):
        return np.asarray(column.to_numpy())
    for listed in ("to_pylist", "to_list", "tolist"):  # pyarrow; polars and pandas; pandas' arrays
        if hasattr(column, listed):
            return object_array(getattr(column, listed)())
    if hasattr(column, "to_series") and column.shape[1] == 1:  # a polars frame of one column
        return _column_values(column.to_series())[:, None]
    return np.asarray(column.to_numpy(dtype=object) if hasattr(column, "iloc") else column)


def object_array(values: Sequence[Any]) -> NDArray[Any]:
    """Return values in an array that takes each as it is, (k,)."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def as_objects(classes: NDArray[Any]) -> NDArray[Any]:
    """Return classes in an array of objects, in which times stay times of NumPy's.

    Examples
    --------
    >>> as_objects(np.array(["2020-01-01"], "datetime64[ns]")).tolist()  # not an integer
    [np.datetime64('2020-01-01T00:00:00.000000000')]
    """
    return object_array(list(classes)) if _are_times(classes) else classes.astype(object)


def with_gaps(
    classes: NDArray[Any], codes: NDArray[np.intp], is_known: NDArray[np.bool_]
) -> NDArray[Any]:
    """Return the class of each row as an object, (n,), and None where it is not known.

    Examples
    --------
    >>> with_gaps(np.array(["a", "b"]), np.array([1, 0]), np.array([True, False])).tolist()
    ['b', None]
    """
    out = as_objects(classes)[codes]
    out[~is_known] = None
    return out


def _are_times(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "mM"


def _is_null(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind not in "OT":
        return np.zeros(len(values), dtype=bool)
    return np.fromiter((is_null(v) for v in values), dtype=bool, count=len(values))


def _plain_dtype(known: NDArray[Any]) -> NDArray[Any]:
    """Give objects of one kind their own dtype; strings and others stay objects of Python's."""
    if known.dtype.kind != "O" or len(known) == 0:
        return known
    if any(issubclass(kind, np.character) for kind in set(map(type, known))):
        known = object_array(_plain_words(known))
    kinds = {kind_of(value) for value in known}
    if kinds & {"tuple", "list"}:
        raise ValueError(
            f"y has labels that are {min(kinds & {'tuple', 'list'})}s, such as {known[0]!r}; make "
            "each a string, for example with y.map(str, na_action='ignore') of a pandas Series."
        )
    if len(kinds) > 1:
        words = {v for v in known if isinstance(v, str)}
        fix = "make them all strings, or all numbers."
        if words and all(word.strip().lower() in WORDS_FOR_UNLABELLED for word in words):
            fix = f"if {sorted(words)[0]!r} means unlabelled, put None or NaN in its place."
        elif kinds == {"number", "string"} and all(
            v == -1 for v in known if not isinstance(v, str)
        ):
            fix = (
                "if -1 means unlabelled, leave those cells as they were, blank: None or NaN in the "
                "place of -1."
            )
        raise ValueError(f"y mixes labels of several types ({', '.join(sorted(kinds))}); {fix}")
    if kinds <= {"boolean", "number"} or kinds <= {"datetime64"} or kinds <= {"timedelta64"}:
        return np.array(known.tolist())
    return known


def _plain_words(values: Iterable[Any]) -> list[Any]:
    """Return values with Python's strings in the place of NumPy's."""
    return [one.item() if isinstance(one, np.character) else one for one in values]


def refuse_other_kind(labels: PartialLabels, classes: NDArray[Any]) -> None:
    """Raise a ValueError if labels are of another kind than the classes, and so can equal none.

    Numbers and booleans are of one kind here: 1, 1.0 and True are equal.
    """
    if not labels.n_labelled or not len(classes):
        return
    label, name = labels.classes[0], classes[0]
    kinds = kind_of(label), kind_of(name)
    told = [{"boolean": "number"}.get(kind, kind) for kind in kinds]
    if told[0] == told[1] or not {"string", "number"} & set(told):
        return
    label, name = (one.item() if isinstance(one, np.generic) else one for one in (label, name))
    raise ValueError(
        f"y and the classes of fit are of several types (y: {kinds[0]}, such as {label!r}; "
        f"classes_: {kinds[1]}, such as {name!r}), and no label could be right; pass y in the type "
        "that it had in fit."
    )


def kind_of(value: Any) -> str:
    """Return the kind of a label, in a word; all labels of a column are of one kind."""
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, Real):
        return "number"
    if isinstance(value, str):
        return "string"
    return type(value).__name__


def _refuse_unusable(known: NDArray[Any]) -> None:
    if known.dtype.kind != "f":
        return
    if np.isinf(known).any():
        raise ValueError("Input y contains infinity; use None or NaN for a row without a label.")
    fractional = known[known != np.floor(known)]
    if len(fractional):
        raise ValueError(
            f"Unknown label type: y holds continuous numbers such as {fractional[0]:g}; a "
            "classifier needs classes. Bin the values, or use a regressor."
        )
    _refuse_merged(known.tolist())


def _refuse_merged(known: Sequence[float]) -> None:
    """Raise a ValueError if whole numbers (k,) are too large for floats to tell them apart."""
    merged = [number for number in known if abs(number) >= 2**53]
    if merged:
        raise ValueError(
            f"y holds whole numbers such as {merged[0]:.0f} as floating point, in which neighbours "
            "that large are one number: classes may have been merged. Pass them as text, or as "
            "integers with None where there is no label."
        )


def _marked_unlabelled(known: NDArray[Any], unlabelled: Any) -> NDArray[np.bool_]:
    """Return which of the non-null labels mean unlabelled, (l,)."""
    nothing = np.zeros(len(known), dtype=bool)
    if unlabelled is None:
        return nothing
    if not is_auto(unlabelled):
        # Element by element: NumPy compares a string array with a number only by a warning.
        names = markers_of(unlabelled)
        return np.fromiter((any(v == m for m in names) for v in known), bool, count=len(known))
    if known.dtype.kind not in "iuf":  # floats are whole numbers here
        return nothing
    minus_one = known == -1
    if not minus_one.any():
        return nothing
    remaining = np.unique(known[~minus_one])
    if len(remaining) != 1:
        return minus_one
    # One class beside -1 makes two classes; where that is doubtful there is a warning.
    (other,) = remaining.tolist()
    if other != 1 or minus_one.mean() > MOSTLY:
        warn_user(
            f"y holds -1 ({int(minus_one.sum())} rows) and {other:g} ({int((~minus_one).sum())} "
            "rows) alone, read as two classes. If -1 means unlabelled, label a row of a second "
            "class; if it is a class, pass unlabelled=None to say so.",
            UserWarning,
        )
    return nothing


def _remark_on_two_markers(n_minus_one: int, n_nulls: int) -> None:
    warn_user(
        f"y holds -1 ({n_minus_one} rows) beside nulls ({n_nulls} rows); both are read as "
        "unlabelled. If -1 is a class, pass unlabelled=None to say so.",
        UserWarning,
    )


def _codes_in(known: NDArray[Any], classes: Sequence[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    ordered = list(classes)
    if _are_times(known):  # in the unit of the labels, whatever type of time the classes have
        ordered = list(np.array(ordered, dtype=known.dtype))
    position = {value: code for code, value in enumerate(ordered)}
    if len(position) < len(ordered):
        raise ValueError(f"classes={ordered!r} names a class twice; name each once.")
    values = as_objects(known).tolist()
    strangers = sorted({v for v in values if v not in position}, key=str)
    if strangers:
        raise ValueError(
            f"y has labels {strangers!r} that classes={ordered!r} does not name; add them."
        )
    codes = np.array([position[v] for v in values], dtype=np.intp)
    return _plain_dtype(np.array(ordered, dtype=object)), codes


def part_of_labels(
    rng: np.random.Generator, codes: NDArray[np.intp], most: int
) -> NDArray[np.intp]:
    """Return which labels to use, in order: all, or a random part that has every class.

    Parameters
    ----------
    codes : (l,) classes of the labels
    most : labels of the part, at most, unless there are more classes than that
    """
    if len(codes) <= most:
        return np.arange(len(codes))
    shuffled = rng.permutation(len(codes))
    first = np.unique(codes[shuffled], return_index=True)[1]
    rest = np.delete(shuffled, first)
    return np.sort(np.concatenate([shuffled[first], rest[: max(0, most - len(first))]]))


def label_folds(
    codes: NDArray[np.integer], n_folds: int, rng: np.random.Generator
) -> list[NDArray[np.intp]]:
    """Return the folds: rows whose labels are held out together, so that every class keeps one.

    The only label of a class is in no fold. codes (s,), -1 where unlabelled. There are fewer folds
    than `n_folds` if there are fewer labels, and none if there is nothing to hold out.

    Examples
    --------
    >>> found = label_folds(np.array([0, 1, -1, 0, 2]), 5, np.random.default_rng(0))
    >>> sorted(fold.tolist() for fold in found)
    [[0], [3]]
    """
    present, counts = np.unique(codes[codes >= 0], return_counts=True)
    rows = [rng.permutation(np.flatnonzero(codes == c)) for c in present[counts > 1]]
    if not rows:
        return []
    held = np.concatenate(rows)
    n_folds = min(n_folds, len(held))  # rows of a class are neighbours here: each in another fold
    return [held[first::n_folds] for first in range(n_folds)]


def read_target(column: Any) -> NDArray[Any]:
    """Return the labels (n,) of a target column; blank cells become None.

    A blank cell makes pandas read whole numbers as floats; they become integers again, as in the
    file. Bytes of a Parquet file are text; so are dates and times, which become text here.

    Examples
    --------
    >>> import pandas as pd
    >>> read_target(pd.Series([1.0, None, 2.0])).tolist()
    [1, None, 2]
    >>> read_target(pd.Series([b"ant", b""])).tolist()
    ['ant', None]
    >>> read_target(pd.Series(pd.to_datetime(["2020-01-31", None]))).tolist()
    ['2020-01-31', None]
    """
    pd = import_extra("pandas")
    values = np.array(column.astype(object), dtype=object)
    values[column.isna().to_numpy()] = None
    if pd.api.types.is_float_dtype(column.dtype):
        known = [v for v in values if v is not None]
        if all(np.isfinite(v) and v == int(v) for v in known):
            _refuse_merged(known)
            values = np.array([None if v is None else int(v) for v in values], dtype=object)
    elif not pd.api.types.is_numeric_dtype(column.dtype):
        values = np.array([_stripped(v) for v in _without_times(values)], dtype=object)
    if any(v is None for v in values):
        return values
    return np.array(values.tolist()) if pd.api.types.is_numeric_dtype(column.dtype) else values


def _without_times(values: NDArray[Any]) -> list[Any]:
    """Return values with dates and times as text; days as such where all times are midnight."""
    moments = (date, time, timedelta, np.datetime64, np.timedelta64)
    texts = [
        str(v) if isinstance(v, moments) or type(v).__name__ == "Period" else None for v in values
    ]
    said = [text for text in texts if text is not None]
    end = " 00:00:00" if all(text.endswith(" 00:00:00") for text in said) else ""
    is_day = any(isinstance(v, datetime) for v in values)
    return [
        v if text is None else text.removesuffix(end if is_day else "")
        for v, text in zip(values, texts)
    ]


def _stripped(value: Any) -> Any:
    value = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    if isinstance(value, str):
        value = value.strip()
        return value if value else None
    return value
