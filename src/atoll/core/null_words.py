"""Words such as NA and None among labels, which may mean a blank cell or be a class."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from atoll.core.extras import import_extra
from atoll.core.tables import column_as_written

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

NULL_WORDS = frozenset(
    ["NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "None"]
) | {"NULL", "null", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"}
"""Words that pandas reads as blank cells."""
_WHOLE, _PADDED = re.compile(r"[+-]?\d+"), re.compile(r"[+-]?0\d")
_INEXACT = 2**53  # from which on floats do not tell neighbours apart
_DECIMAL = re.compile(r"[+-]?\d+\.\d+")


class Target(NamedTuple):
    """A table in which it is settled which of these words are labels.

    frame : the table
    blank : how many cells hold each word that was read as blank
    could_stay : whether such a word could be a class beside the other labels
    """

    frame: pd.DataFrame
    blank: dict[str, int]
    could_stay: bool


def with_words(
    frame: pd.DataFrame,
    source: str | os.PathLike[str] | bytes | Path,
    target: str,
    keep: Collection[str] = (),
) -> Target:
    r"""Return a table in whose column of labels the words to keep are labels, not blanks.

    Among numbers, and among True and False, such words are always blank cells. Codes that numbers
    would lose, such as 007, or 1.10 beside 1.1, are text. Whole numbers beside blank cells are
    exact, however large.

    Parameters
    ----------
    frame : the table as `read_table` returns it, where such words are blank
    source : from which it was read
    target : column of labels
    keep : words that are classes

    Examples
    --------
    >>> import io
    >>> import pandas as pd
    >>> text = b"x,kind\n1,None\n2,bird\n3,\n4,NA\n"
    >>> found = with_words(pd.read_csv(io.BytesIO(text)), text, "kind", ["None"])
    >>> found.frame["kind"].fillna("").tolist(), found.blank
    (['None', 'bird', '', ''], {'NA': 1})
    """
    if target not in frame.columns:
        return Target(frame, {}, True)
    is_blank, may_be_codes = frame[target].isna(), frame[target].dtype.kind in "iuf"
    if not (is_blank.any() or may_be_codes):
        return Target(frame, {}, True)
    cells = column_as_written(source, frame.columns.get_loc(target))
    if cells is None or len(cells) != len(frame):
        return Target(frame, {}, True)
    cells.index = frame.index
    if may_be_codes and are_codes(cells[~is_blank].str.strip()):
        frame = frame.assign(**{target: cells.str.strip().where(~is_blank)})
    elif frame[target].dtype.kind == "f" and not is_blank.all():
        frame = _with_large_numbers(frame, target, cells.str.strip().where(~is_blank))
    said = cells.where(is_blank & cells.isin(NULL_WORDS)).dropna()
    known = frame[target][~is_blank]
    could_stay = all(isinstance(label, str) for label in known)
    kept = said[said.isin(list(keep))] if could_stay else said[:0]
    if len(kept):
        column = frame[target].astype(object)
        column[kept.index] = kept
        frame = frame.assign(**{target: column})
    counts = said.drop(kept.index).value_counts(sort=False)
    return Target(frame, {str(word): int(n) for word, n in counts.items()}, could_stay)


def _with_large_numbers(frame: pd.DataFrame, target: str, cells: pd.Series) -> pd.DataFrame:
    """Return the table with whole numbers of the target exact, if they are too large for floats.

    Parameters
    ----------
    cells : (n,) of the target, as text; null where blank
    """
    largest, names = frame[target].abs().max(), cells.dropna().unique()
    if not _INEXACT <= largest < 2**63 or not all(map(_WHOLE.fullmatch, names)):
        return frame
    numbers = {name: int(name) for name in names}
    exact = import_extra("pandas").array([numbers.get(cell) for cell in cells], dtype="Int64")
    return frame.assign(**{target: exact})


def are_codes(texts: pd.Series) -> bool:
    """Return whether texts, all of them numbers, are other labels than these numbers.

    They are where whole numbers begin with a zero, or where two texts are one decimal number.

    Examples
    --------
    >>> import pandas as pd
    >>> are_codes(pd.Series(["007", "10"])), are_codes(pd.Series(["1.1", "1.10", "2.0"]))
    (True, True)
    >>> are_codes(pd.Series(["7", "10", "0"])), are_codes(pd.Series(["1.0", "1"]))
    (False, False)
    """
    names = texts.unique().tolist()
    if all(_WHOLE.fullmatch(name) for name in names):
        return any(_PADDED.match(name) for name in names)
    decimal = all(_DECIMAL.fullmatch(name) for name in names)
    return decimal and len({float(name) for name in names}) < len(names)


def about_words(found: Target, target: str, fix: str, meant: Collection[str] = ()) -> list[str]:
    """Return a line about words that were read as blank cells; nothing if none were.

    Parameters
    ----------
    target : column of labels
    fix : how such a word is made a class
    meant : words that are known to mean no label

    Examples
    --------
    >>> print(*about_words(Target(None, {"NA": 3}, True), "kind", "give --unlabelled none"))
    3 cells of 'kind' say 'NA' and are read as blank; if that is a class, give --unlabelled none,
    or rename it.
    """
    told: Mapping[str, int] = {word: n for word, n in found.blank.items() if word not in meant}
    if not told:
        return []
    (first, n), *others = told.items()
    said = f"{n} cell{'s' * (n > 1)} of {target!r} say{'s' * (n == 1)} {first!r}"
    said += "".join(f", {n} {word!r}" for word, n in others)
    are = "are" if sum(told.values()) > 1 else "is"
    mend = f"{fix}, or rename it" if found.could_stay else "rename it, and write all as words"
    return [f"{said} and {are} read as blank; if that is a class, {mend}."]
