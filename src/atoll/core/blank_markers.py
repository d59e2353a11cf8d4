"""Numbers that stand in the place of blanks, such as -9999 among masses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atoll.core.shown import shortened
from atoll.core.table_fixes import Fixes

BLANK_MARKERS = (
    frozenset(
        sign * size
        for size in (999, 9999, 99999, 999999, 999.9, 9999.9, 999.99, 9999.99, 8888, 88888)
        for sign in (-1.0, 1.0)
    )
    | {
        sign * size
        for size in (1e20, 1e30, 1e35, 1e36, 2.0**31, 2.0**31 - 1)
        for sign in (-1.0, 1.0)
    }
    | {-99.0}
)
"""Numbers that files often hold in the place of a blank."""

FEWEST_CELLS = 3
"""Cells that hold a marker: fewer may be slips."""


def number_in_words(value: float) -> str:
    """Return a number in few digits; a whole one of less than a million in all of them.

    Examples
    --------
    >>> number_in_words(-9999.0), number_in_words(59.6123)
    ('-9999', '59.61')
    """
    is_whole = abs(value) < 1e6 and value == round(value)
    return f"{value:.0f}" if is_whole else f"{value:.4g}"


def blank_markers(x: Any) -> dict[float, int]:
    """Return the markers of blanks in a column of numbers (n,), and how many cells hold each.

    A marker lies further from all other numbers than these from each other, and is repeated.

    Examples
    --------
    >>> blank_markers([3750.0, 3800.0, -9999.0, 3250.0, -9999.0, -9999.0])
    {-9999.0: 3}
    >>> blank_markers([998.0, 999.0, 999.0, 999.0, 1000.0])
    {}
    """
    x = np.asarray(x, dtype=np.float64)
    if x.size == 0 or not {float(np.fmin.reduce(x)), float(np.fmax.reduce(x))} & BLANK_MARKERS:
        return {}  # which is so of nearly every column
    values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
    known = np.isin(values, list(BLANK_MARKERS))
    others = values[~known]
    if len(others) < 2:
        return {}
    low, high = others[0], others[-1]
    apart = np.maximum(low - values, values - high) > high - low
    found = known & apart & (counts >= FEWEST_CELLS)
    return dict(zip(values[found].tolist(), counts[found].tolist()))


def about_blank_markers(X: Any, names: Sequence[str], fixes: Fixes) -> list[str]:
    """Return a line for each column of numbers (n, q) that seems to hold markers of blanks.

    Examples
    --------
    >>> from atoll.core.table_fixes import SHELL
    >>> X = np.array([[3750.0, 3800.0, -9999.0, 3250.0, -9999.0, -9999.0]]).T
    >>> print(about_blank_markers(X, ["mass"], SHELL)[0])
    3 cells of mass are -9999, far from all others, and are learnt from: if that means blank, \
leave these cells blank.
    """
    lines = []
    for name, x in zip(names, np.asarray(X).T):
        found = blank_markers(x)
        if found:
            said = shortened([number_in_words(value) for value in found])
            lines.append(
                f"{sum(found.values())} cells of {name} are {said}, far from all others, and are "
                f"learnt from: if that means blank, {fixes.blank_numbers}."
            )
    return lines
