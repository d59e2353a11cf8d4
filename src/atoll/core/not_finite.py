"""Cells that are not finite numbers: what they are, where they are, and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.memory import in_chunks

BLOCK = 65536  # rows looked at together
NAN, INFINITY = "NaN", "infinity (inf)"


def refuse_not_finite(rows: NDArray[Any], before: int = 0, where: str = "") -> None:
    """Raise a ValueError that names the first cell that is not finite, if there is one.

    Parameters
    ----------
    rows : (n, d)
    before : rows that come before these
    where : what they are part of, such as " of chunk 3"
    """
    for part in in_chunks(len(rows), 1, most=BLOCK):
        bad = ~np.isfinite(rows[part])
        if not bad.any():
            continue
        row, column = (int(place) for place in np.argwhere(bad)[0])
        is_nan = bool(np.isnan(rows[part][row, column]))
        fix = "drop such rows or fill them" if is_nan else "correct or drop such rows"
        raise ValueError(
            f"X contains {NAN if is_nan else INFINITY} in row {before + part.start + row}{where}, "
            f"column {column}; {fix}."
        )


def about_not_finite(cells: NDArray[Any], rows: Any, columns: list[str], fill: str) -> str:
    """Say where cells are not finite; infinite ones, which cannot be filled in, come first.

    Parameters
    ----------
    cells : (k,) none of them finite, row by row
    rows : (k,) numbers of their rows
    columns : (k,) what their columns are called
    fill : how NaN can be filled in, after "or"; "" where it cannot

    Examples
    --------
    >>> print(about_not_finite(np.array([np.inf]), [4], ["'age'"], ""))
    X contains infinity (inf) in 1 row: 4; column: 'age'. Correct those cells, or drop those rows.
    >>> print(about_not_finite(np.array([np.nan, np.nan]), [4, 7], ["1", "0"], "fill them in"))
    X contains NaN in 2 rows: 4, 7; columns: 1, 0; first in row 4, column 1. Drop those rows, or
    fill them in.
    """
    is_nan = np.isnan(cells)
    said = []
    for of, name in ((~is_nan, INFINITY), (is_nan, NAN)):
        if not of.any():
            continue
        places = np.flatnonzero(of)
        fixes = "Correct those cells, or drop those rows."
        if name == NAN:
            fixes = f"Drop those rows, or {fill or 'correct them'}."
        where = _where([int(rows[i]) for i in places], [columns[i] for i in places])
        said.append(f"X contains {name} in {where}. {fixes}")
    return " ".join(said)


def _where(rows: list[int], columns: list[str]) -> str:
    """Say where cells are, and which of them is the first."""
    distinct, called = [*dict.fromkeys(rows)], [*dict.fromkeys(columns)]
    first = f"; first in row {rows[0]}, column {columns[0]}" if len(rows) > 1 else ""
    return (
        f"{len(distinct)} row{'s' * (len(distinct) != 1)}: {shortened_list(distinct)}; "
        f"column{'s' * (len(called) != 1)}: {shortened_list(called)}{first}"
    )


def shortened_list(items: list[Any], most: int = 5) -> str:
    """Return the first few items, and if there are more, how many there are in all."""
    text = ", ".join(str(item) for item in items[:most])
    return text if len(items) <= most else f"{text}, … ({len(items)} in all)"
