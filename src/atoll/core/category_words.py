"""The cells of categorical columns as words, and which words are another form of a known one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

BLANK = ""
"""The category of blank cells, in columns where they are frequent."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,30}(\.0*)?")
_TRUTHS = {
    form: truth
    for truth in (True, False)
    for form in (str(truth), str(truth).upper(), str(truth).lower())
}
"""The words that pandas reads as truth values, where a column holds no others."""


def words_of(column: pd.Series) -> list[str]:
    """Return the cells as text, blank ones as `BLANK`."""
    if str(column.dtype) in ("str", "string"):  # going through such a column cell by cell is slow
        return [str(cell) for cell in column.fillna(BLANK).to_numpy(object)]
    return [BLANK if blank else str(cell) for cell, blank in zip(column, column.isna())]


def known_words_of(column: pd.Series, known: Iterable[str]) -> list[str]:
    """Return the cells as text, in the form of a known word where they say the same.

    A column is read as whole numbers, as floats, as truth values or as text by what other cells it
    has, so that `7`, `7.0` and `007` may be the same code, and `True` and `TRUE` the same answer.

    Examples
    --------
    >>> import pandas as pd
    >>> known_words_of(pd.Series([7.0, None, 12.0]), ["007", "A12"])
    ['007', '', '12.0']
    >>> known_words_of(pd.Series(["TRUE", "false", "maybe"]), ["False", "True"])
    ['True', 'False', 'maybe']
    """
    words, known = words_of(column), set(known)
    strange = set(words) - known - {BLANK}
    if not strange:
        return words
    forms: dict[str, list[str]] = {}
    for word in known:
        forms.setdefault(_said_by(word), []).append(word)
    meant = {word: forms.get(_said_by(word), []) for word in strange}
    same = {word: found[0] for word, found in meant.items() if len(found) == 1}
    return [same.get(word, word) for word in words]


def with_truths(column: pd.Series) -> pd.Series:
    """Return cells with truth values in place of the words that pandas reads as such.

    Beside a word that is no truth value, pandas leaves `TRUE` as a word.

    Examples
    --------
    >>> import pandas as pd
    >>> with_truths(pd.Series(["TRUE", "false", "yes"])).tolist()
    [True, False, 'yes']
    """
    truths = [_TRUTHS.get(cell) if isinstance(cell, str) else None for cell in column]
    return column.astype(object).where([truth is None for truth in truths], truths)


def _said_by(word: str) -> str:
    """Return what a word says besides its form: a truth value, a whole number, or itself alone."""
    if word in _TRUTHS:
        return f"\0{_TRUTHS[word]}"
    return f"\0{int(word.partition('.')[0])}" if _WHOLE.fullmatch(word) else word
