"""Bulleted text: a first line, and below it others that begin with a dash.

The same text is printed and saved as it is, and split into its lines again for HTML pages.
"""

from __future__ import annotations

from collections.abc import Iterable

DASH = "- "


def in_points(lines: Iterable[str]) -> str:
    """Return a text of the first line and the others as points below it; empty ones are left out.

    Examples
    --------
    >>> print(in_points(["No trouble was found.", "", "The graph has all 90 rows."]))
    No trouble was found.
    - The graph has all 90 rows.
    """
    first, *others = [line for line in lines if line] or [""]
    return "\n".join([first, *(f"{DASH}{line}" for line in others)])


def points_of(text: str) -> list[str]:
    """Return the lines of such a text without dashes.

    Examples
    --------
    >>> points_of(in_points(["No trouble was found.", "The graph has all 90 rows."]))
    ['No trouble was found.', 'The graph has all 90 rows.']
    """
    return [line.removeprefix(DASH) for line in text.split("\n") if line]
