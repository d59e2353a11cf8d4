"""Rows of which nothing is known: every cell that a model would read is blank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 10
"""Rows that a remark names."""


class KnownRows(NamedTuple):
    """The rows of a table that hold something.

    frame : those rows
    numbers : (n,) what each is called in the table, from 1 on; None where no row was left out
    left_out : numbers of the rows of nothing but blanks
    """

    frame: pd.DataFrame
    numbers: NDArray[np.intp] | None
    left_out: list[int]

    def of(self, other: Any) -> Any:
        """Return the same rows of another form of the table."""
        return other if self.numbers is None else other.iloc[self.numbers - 1]

    def remark(self, after: str = ".") -> list[str]:
        """Return which rows were left out, in a sentence; nothing where none was."""
        if not self.left_out:
            return []
        shown = ", ".join(map(str, self.left_out[:MOST_NAMED]))
        more = len(self.left_out) - MOST_NAMED
        shown += f" and {more} more" if more > 0 else ""
        if len(self.left_out) == 1:
            return [
                f"Row {shown} is left out: every cell that the model would read is blank{after}"
            ]
        return [f"Rows {shown} are left out: every cell that the model would read is blank{after}"]


def known_rows(frame: pd.DataFrame, columns: Sequence[str]) -> KnownRows:
    """Return the rows with something in one of the columns at least.

    Where every row is blank none is left out, and the table is refused by those who read it.

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
