"""Words such as NA and None among labels, which may mean a blank cell or be a class."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from atoll.core.tables import column_as_written

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

NULL_WORDS = frozenset(
    ["NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "None"]
) | {"NULL", "null", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"}
"""Words that pandas reads as blank cells."""


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

    Among numbers, and among True and False, such words are always blank cells.

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
    is_blank = frame[target].isna() if target in frame.columns else None
    if is_blank is None or not is_blank.any():
        return Target(frame, {}, True)
    cells = column_as_written(source, frame.columns.get_loc(target))
    if cells is None or len(cells) != len(frame):
        return Target(frame, {}, True)
    cells.index = frame.index
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


def about_words(found: Target, target: str, fix: str, meant: str = "") -> list[str]:
    """Return a line about words that were read as blank cells; nothing if none were.

    Parameters
    ----------
    target : column of labels
    fix : how such a word is made a class
    meant : the word, if any, that is known to mean no label

    Examples
    --------
    >>> print(*about_words(Target(None, {"NA": 3}, True), "kind", "give --unlabelled none"))
    3 cells of 'kind' say 'NA' and are read as blank; if that is a class, give --unlabelled none,
    or rename it.
    """
    told: Mapping[str, int] = {word: n for word, n in found.blank.items() if word != meant}
    if not told:
        return []
    (first, n), *others = told.items()
    said = f"{n} cell{'s' * (n > 1)} of {target!r} say{'s' * (n == 1)} {first!r}"
    said += "".join(f", {n} {word!r}" for word, n in others)
    are = "are" if sum(told.values()) > 1 else "is"
    mend = f"{fix}, or rename it" if found.could_stay else "rename it, and write all as words"
    return [f"{said} and {are} read as blank; if that is a class, {mend}."]
