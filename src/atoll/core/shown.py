"""Results that print in words wherever they are shown: at a prompt, in a notebook, by `print`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, TypeVar

Shown = TypeVar("Shown")

SHOWN = 8  # names of a list that are shown

_STYLE = "font-family:system-ui,sans-serif;font-size:.95em;line-height:1.45;max-width:60em"


def readable(result: type[Shown]) -> type[Shown]:
    """Make a class of results show its `__str__` wherever it is displayed, as by a notebook's cell.

    A method `_parts` may give a notebook more than that: paragraphs, and tables as pairs of a
    header and rows.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> @readable
    ... class Share(NamedTuple):
    ...     value: float
    ...
    ...     def __str__(self):
    ...         return f"{self.value:.0%} of the rows"
    >>> Share(0.25)
    25% of the rows
    """
    for name, method in (("__repr__", _in_words), ("_repr_html_", _in_html)):
        setattr(result, name, method)
    return result


def percent(p: float) -> str:
    """Return a probability in whole percent; only 0 is shown as 0%, and only 1 as 100%.

    Examples
    --------
    >>> percent(0.25), percent(0.9992), percent(0.0004), percent(1.0)
    ('25%', '>99%', '<1%', '100%')
    """
    if 0.995 <= p < 1.0:
        return ">99%"
    return "<1%" if 0.0 < p < 0.005 else f"{p:.0%}"


def shortened(names: Sequence[str]) -> str:
    """Return names with commas between them, at most the first eight.

    Examples
    --------
    >>> shortened(list("abcdefghij"))
    'a, b, c, d, e, f, g, h and 2 more'
    """
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a plain table, each column as wide as its longest cell.

    Examples
    --------
    >>> aligned(["row", "label"], [["17", "ant"]])
    ['row  label', '17   ant']
    """
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()
        for cells in (header, *rows)
    ]


def _in_words(result: Any) -> str:
    return str(result)


def _in_html(result: Any) -> str:
    """Return what a notebook shows."""
    parts = result._parts() if hasattr(result, "_parts") else str(result).split("\n")
    shown = [
        f"<div>{_leading(part)}</div>" if isinstance(part, str) else table_html(*part)
        for part in parts
        if part
    ]
    return f'<div style="{_STYLE}">{"".join(shown)}</div>'


def _leading(text: str) -> str:
    """Return a line as HTML that keeps its leading spaces."""
    line = text.lstrip(" ")
    return "&nbsp;" * (len(text) - len(line)) + escape(line)


def table_html(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as HTML.

    Examples
    --------
    >>> table_html(["row"], [["<1>"]])
    '<table><thead><tr><th>row</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
