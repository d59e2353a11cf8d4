"""Labels as a person gives them, and the classes that they make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.class_slips import remark_on_slips
from atoll.core.labels import kind_of, object_array, parse_labels
from atoll.core.markers import hint_at_words, is_auto

MARKER = -1  # of an unlabelled row among integers, as in scikit-learn


def read_pool_labels(y: Any, n: int, unlabelled: Any, classes: Any) -> dict[int, Any]:
    """Return the labels that a pool of n rows begins with, by row.

    Parameters
    ----------
    y : (n,) labels, or None where there are none
    unlabelled : "auto", None or a value
        "auto": -1 among integers is unlabelled, unless `classes` names it, even if there is only
        one other number: a pool may well begin with labels of a single class.
    classes : declared classes, or None
    """
    if y is None:
        return {}
    labels = parse_labels(y, unlabelled=_marker(unlabelled, classes))
    if classes is None and is_auto(unlabelled):
        hint_at_words(labels)
    if classes is None:
        remark_on_slips(labels.classes.tolist(), labels.counts.tolist())
    if len(labels.codes) != n:
        raise ValueError(
            f"y has {len(labels.codes)} labels and X has {n} rows; pass one label per row, with "
            "None, NaN or -1 where it is unknown."
        )
    values = labels.classes.tolist()
    return {int(row): values[labels.codes[row]] for row in np.flatnonzero(labels.is_labelled)}


def label_values(rows: Any, labels: Any) -> list[Any]:
    """Return the labels of one row, or of several, as a list; ValueError if they are no such.

    Parameters
    ----------
    rows, labels : as they are given
    """
    n_dims = np.ndim(rows)
    if np.ndim(labels) != n_dims:  # a word, a set and a table are no sequences of labels
        wanted = "one label for each row, in a sequence" if n_dims else "one label, for one row"
        given = (
            f"{type(labels).__name__} of shape {np.shape(labels)}"
            if np.ndim(labels)
            else repr(labels)
        )
        hint = "; give one of its columns" if hasattr(labels, "columns") else ""
        raise ValueError(f"labels must be {wanted}, got {given}{hint}.")
    values = list(labels) if n_dims else [labels]
    if len(values) != np.size(rows):
        raise ValueError(
            f"update was given {np.size(rows)} rows and {len(values)} labels; give one label for "
            "each row."
        )
    return values


def plain_label(value: Any, unlabelled: Any, classes: Any) -> Any:
    """Return a label as a plain value; raise a ValueError if it means that there is none."""
    value = _plain(value)
    read = parse_labels(object_array([value]), unlabelled=_marker(unlabelled, classes))
    if not read.is_labelled[0]:
        raise ValueError(
            f"labels holds {value!r}, which means unlabelled; use skip(rows) for a row without an "
            "answer, or undo() to take a label back."
        )
    return read.classes.tolist()[0]


def class_list(declared: Any, labels: Iterable[Any]) -> list[Any]:
    """Return the declared classes in their order, and those of other labels, sorted.

    Examples
    --------
    >>> class_list(["wren", "robin"], ["robin", "owl"])
    ['wren', 'robin', 'owl']
    """
    first = [] if declared is None else [_plain(value) for value in declared]
    if len(set(first)) < len(first):
        raise ValueError(f"classes={first!r} names a class twice; name each once.")
    others = set(labels) - set(first)
    kinds = sorted({kind_of(value) for value in [*first, *others]})
    if len(kinds) > 1:
        raise ValueError(
            f"classes and labels are of several types ({', '.join(kinds)}); make them all strings, "
            "or all numbers."
        )
    return [*first, *sorted(others)]


def read_places(rows: Any, n: int, names: Sequence[str] | None = None) -> tuple[int, ...]:
    """Return rows of a pool of n as whole numbers; a ValueError if one does not exist or repeats.

    Parameters
    ----------
    rows : one or several, by their numbers or their names
    names : (n,) of all rows, or None
    """
    values = np.atleast_1d(np.asarray(rows))
    if names is not None and values.ndim == 1 and values.size:
        values = _by_name(values, names)
    if values.dtype.kind == "b":
        raise ValueError(
            f"rows is a mask of {values.size} booleans; give the numbers of the rows instead: "
            "np.flatnonzero(mask)."
        )
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise ValueError(f"rows must be whole numbers, row numbers of the pool, got {rows!r}.")
    places = tuple(int(value) for value in values)
    outside = [place for place in places if not 0 <= place < n]
    if outside:
        raise ValueError(
            f"rows holds {outside[0]}, and the pool has rows 0 to {n - 1}; count rows from 0."
        )
    if len(set(places)) < len(places):
        raise ValueError(f"rows={places!r} names a row twice; give each once.")
    return places


def _by_name(values: NDArray[Any], names: Sequence[str]) -> NDArray[Any]:
    """Return numbers of rows that are given by name, (k,); others as they are."""
    if not all(isinstance(value, str) for value in values.tolist()):
        return values
    place = {name: i for i, name in enumerate(names)}
    unknown = [value for value in values.tolist() if value not in place]
    if unknown:
        raise ValueError(
            f"rows holds {unknown[0]!r}, the name of no row of the pool; its first row is "
            f"{names[0]!r}, its last {names[-1]!r}."
        )
    return np.array([place[value] for value in values.tolist()], dtype=np.intp)


def _marker(unlabelled: Any, classes: Any) -> Any:
    if not is_auto(unlabelled):
        return unlabelled
    return None if classes is not None and MARKER in list(classes) else MARKER


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
