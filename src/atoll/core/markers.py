"""What means that a row has no label: nulls, markers, and words that sound so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.remarks import warn_user

if TYPE_CHECKING:
    from atoll.core.labels import PartialLabels

WORDS_FOR_UNLABELLED = frozenset(
    ["", "?", "-", "-1", "-1.0", ".", "na", "n/a", "nan", "none", "null", "missing"]
) | {"tbd", "todo", "unknown", "unlabeled", "unlabelled", "not labeled", "not labelled"}
"""Labels, in lower case, that may well mean that the row has no label."""


def is_null(value: Any) -> bool:
    """Return whether a value is a null of any library: None, NaN, NaT, NA."""
    # pandas' NA and NaT are known by their names: pandas may be missing, and NA has no truth value.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    # NaN is the number that does not equal itself, whatever its type.
    return isinstance(value, float | np.floating | Decimal) and bool(value != value)


class Placeholder(NamedTuple):
    """A label that often means that the row has none.

    name : the label
    n_rows : how many have it
    is_most : whether most of the rows with a label have this one
    share : how many rows, in words, such as "3 of 40 rows" or "3 of 8 labelled rows"
    """

    name: Any
    n_rows: int
    is_most: bool
    share: str


def placeholders_in(values: Iterable[Any]) -> list[Placeholder]:
    """Return the labels that often mean that a row has none, the most frequent first.

    Shares are of the rows that have a label, since most rows of a table may have none.

    Examples
    --------
    >>> [found] = placeholders_in(["ant", "bee", "?", None, None, None])
    >>> found.share, found.is_most
    ('1 of 3 labelled rows', False)
    >>> [found] = placeholders_in(["ant", "?", "?"])
    >>> found.share, found.is_most
    ('2 of 3 rows', True)
    """
    cells = list(values)
    return _placeholders(Counter(v for v in cells if not is_null(v)), len(cells))


def _placeholders(counts: Mapping[Any, int], n_rows: int) -> list[Placeholder]:
    """Return the placeholders among labels, given how many of the `n_rows` rows have each."""
    n_known = sum(counts.values())
    of = f"{n_known} {'rows' if n_known == n_rows else 'labelled rows'}"
    return [
        Placeholder(name, count, 1 < count > n_known / 2, f"{count} of {of}")
        for name, count in sorted(counts.items(), key=lambda item: -item[1])
        if _word_of(name) in WORDS_FOR_UNLABELLED
    ]


def _word_of(name: Any) -> str | None:
    """Return a label of text, or of bytes as HDF5 files have them, as a word in lower case."""
    word = name.decode("latin-1") if isinstance(name, bytes) else name
    return word.strip().lower() if isinstance(word, str) else None


def hint_at_words(labels: PartialLabels, unlabelled: Any = "auto") -> None:
    """Warn of a class whose name often means that there is no label.

    Raise a ValueError if it is the class of most labelled rows, and nothing was said of markers.
    """
    if labels.classes.dtype.kind not in "OUTS":
        return
    counts = dict(zip(labels.classes.tolist(), labels.counts.tolist()))
    for name, count, is_most, share in _placeholders(counts, len(labels.codes)):
        who = "y has" if count == 1 else f"{share} have"  # chunks give each label only once
        if not is_auto(unlabelled):
            warn_user(
                f"{who} the label {name!r}, which is read as a class. If it means that the label "
                f"is not known, give unlabelled a list that has {name!r} as well; if it is a "
                "class, classes=[…] says so.",
                UserWarning,
            )
            continue
        if is_most:
            raise ValueError(
                f"{share} have the label {name!r}, which seems to mean that the label is not "
                f"known; say so with unlabelled={name!r}, or with unlabelled=None that it is a "
                "class."
            )
        warn_user(
            f"{who} the label {name!r}, which is read as a class. If it means that the label is "
            f"not known, pass unlabelled={name!r}; if it is a class, unlabelled=None says so.",
            UserWarning,
        )


def markers_of(unlabelled: Any) -> tuple[Any, ...]:
    """Return the values that mean unlabelled: one, or several in a list, a set, an array, a column.

    Examples
    --------
    >>> markers_of("?"), markers_of(["?", "todo"]), markers_of(np.array(["?", "todo"]))
    (('?',), ('?', 'todo'), ('?', 'todo'))
    """
    if isinstance(unlabelled, Mapping):
        raise ValueError(
            f"unlabelled={unlabelled!r} is a {type(unlabelled).__name__}; give the values that "
            f"mean unlabelled in a list, such as unlabelled={list(unlabelled)!r}."
        )
    if hasattr(unlabelled, "__array__") and not isinstance(unlabelled, np.generic):
        listed = ("tolist", "to_list", "to_pylist")  # NumPy and pandas; polars; pyarrow
        unlabelled = next(getattr(unlabelled, f)() for f in listed if hasattr(unlabelled, f))
    several = isinstance(unlabelled, list | tuple | set | frozenset)
    return tuple(unlabelled) if several else (unlabelled,)


def refuse_misspelt(markers: Sequence[Any], known: NDArray[Any], marked: NDArray[np.bool_]) -> None:
    """Raise a ValueError for a marker that no row has, where a label is like it but for its form.

    Parameters
    ----------
    known : (l,) labels
    marked : (l,) which of them mean unlabelled
    """
    found = set(known[marked].tolist())
    missing = [m for m in markers if m is not None and m not in found]
    if not missing:
        return
    others = set(known[~marked].tolist())
    by_letters = {str(label).strip().casefold(): label for label in others}
    for marker in missing:
        meant = by_letters.get(str(marker).strip().casefold())
        if meant is not None:
            raise ValueError(
                f"unlabelled={marker!r} is the label of no row, but {meant!r} is; write it as y "
                f"does, unlabelled={meant!r}."
            )


def is_auto(unlabelled: Any) -> bool:
    """Return whether a setting of `unlabelled` is "auto", and no label of some other type."""
    return isinstance(unlabelled, str) and unlabelled == "auto"
