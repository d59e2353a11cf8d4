"""Rows of which little or nothing is known: the cells that a model would read are blank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 10
"""Rows that a remark names."""

MOSTLY = 0.5
"""A row with a larger share of blank cells than this is mostly blank."""


MANY = 0.5
"""A row with at least this share of blank cells is remarked on when it is asked for or predicted.
"""


class KnownRows(NamedTuple):
    """The rows of a table that hold something.

    frame : those rows
    numbers : (n,) their numbers in the table, from 1; None if no row was left out
    left_out : numbers of the rows that hold nothing but blanks
    """

    frame: pd.DataFrame
    numbers: NDArray[np.intp] | None
    left_out: list[int]

    def of(self, other: Any) -> Any:
        """Return the same rows of another form of the table."""
        return other if self.numbers is None else other.iloc[self.numbers - 1]

    def remark(self, after: str = ".") -> list[str]:
        """Return a sentence that says which rows were left out; nothing if none was."""
        if not self.left_out:
            return []
        are = "is" if len(self.left_out) == 1 else "are"
        why = "every cell that the model would read is blank"
        return [f"{numbered(self.left_out)} {are} left out: {why}{after}"]


def known_rows(frame: pd.DataFrame, columns: Sequence[str]) -> KnownRows:
    """Return the rows with something in at least one of the columns.

    If every row is blank, none is left out: whatever reads the table refuses it.

    Examples
    --------
    >>> import pandas as pd
    >>> found = known_rows(pd.DataFrame({"x": [1.0, None, 3.0], "kind": ["a", "b", None]}), ["x"])
    >>> found.numbers.tolist(), found.remark()[0][:20]
    ([1, 3], 'Row 2 is left out: e')
    """
    is_blank = frame[list(columns)].isna().all(axis=1).to_numpy()
    if not is_blank.any() or is_blank.all():
        return KnownRows(frame, None, [])
    kept = np.flatnonzero(~is_blank)
    left_out = (np.flatnonzero(is_blank) + 1).tolist()
    return KnownRows(frame.iloc[kept].reset_index(drop=True), kept + 1, left_out)


def mostly_blank(shares: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rows are mostly blank, (n,) -> (n,), by the share of each row's blank cells.

    If most rows are, the table is simply like that, and no row is singled out.

    Examples
    --------
    >>> mostly_blank(np.array([0.0, 0.5, 0.6])).tolist()
    [False, False, True]
    """
    found = np.asarray(shares > MOSTLY)
    return found if 2 * found.sum() <= len(found) else np.zeros(len(found), bool)


def left_to_the_end(rows: Sequence[int | str]) -> str:
    """Return a sentence that says that these rows are asked for last; nothing if there are none.

    Examples
    --------
    >>> left_to_the_end([4, 9])
    'Rows 4 and 9 are left to the end: more than half of their cells are blank.'
    """
    if not len(rows):
        return ""
    are, their = ("is", "its") if len(rows) == 1 else ("are", "their")
    return f"{numbered(rows)} {are} left to the end: more than half of {their} cells are blank."


def numbered(rows: Sequence[int | str]) -> str:
    """Name rows by their numbers or names; of many rows, only the first ten.

    Examples
    --------
    >>> numbered([4]), numbered([4, 9, 11])
    ('Row 4', 'Rows 4, 9 and 11')
    """
    if len(rows) == 1:
        return f"Row {rows[0]}"
    first = [str(row) for row in rows[:MOST_NAMED]]
    if len(rows) > MOST_NAMED:
        return f"Rows {', '.join(first)} and {len(rows) - MOST_NAMED} more"
    return f"Rows {', '.join(first[:-1])} and {first[-1]}"
