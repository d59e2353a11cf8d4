"""Results that print in words wherever they are shown: at a prompt, in a notebook, by `print`."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
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


def in_line(name: str) -> str:
    r"""Return a name as it stands in a sentence: in quotes where it is blank or breaks the line.

    Examples
    --------
    >>> in_line("red kite"), in_line(""), in_line("two\nlines")
    ('red kite', "''", "'two\\nlines'")
    """
    return name if name.strip() and name.isprintable() else repr(name)


def told_apart(names: Sequence[str], longest: int) -> list[str]:
    """Return names on one line each, at most so long; where two begin alike, how they go on.

    Examples
    --------
    >>> told_apart(["red", "a rather long name"], 12)
    ['red', 'a rather lo…']
    >>> told_apart(["a rather long name", "a rather long word"], 12)
    ['a ra…ng name', 'a ra…ng word']
    """
    texts = [" ".join(str(name).split()) for name in names]
    cut = [text if len(text) <= longest else text[: longest - 1] + "…" for text in texts]
    _go_on(texts, cut, range(len(texts)), longest)
    return cut


def _go_on(texts: list[str], cut: list[str], places: Iterable[int], longest: int) -> None:
    """Show names that are cut to the same text from where they begin to differ."""
    alike: dict[str, list[int]] = {}
    for place in places:
        alike.setdefault(cut[place], []).append(place)
    for group in alike.values():
        found = sorted({texts[place] for place in group})
        if len(found) == 1:
            continue
        pairs = enumerate(zip(found[0], found[-1]))  # what these share, all in between share
        common = next((i for i, (a, b) in pairs if a != b), len(found[0]))
        head = longest // 3
        room = longest - head - 1
        for place in group:
            text = texts[place]
            end = text[max(head, min(common, len(text) - room)) :]
            end = end if len(end) <= room else end[: room - 1] + "…"
            cut[place] = f"{text[:head]}…{end}"
        if len({cut[place] for place in group}) > 1:
            _go_on(texts, cut, group, longest)


def places(text: str) -> int:
    """Return how many places of a terminal a text takes: two for a sign of East Asia or a smiley.

    Examples
    --------
    >>> places("wine"), places("日本"), places("e\u0301")
    (4, 4, 1)
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(unicodedata.category(sign) in ("Mn", "Me", "Cf") for sign in text)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a plain table, each column as wide as its longest cell.

    Examples
    --------
    >>> aligned(["row", "label"], [["17", "ant"]])
    ['row  label', '17   ant']
    """
    lines = [[" ".join(cell.splitlines()) for cell in cells] for cells in (header, *rows)]
    widths = [max(map(places, column)) for column in zip(*lines)]
    return [
        "  ".join(
            cell + " " * (width - places(cell)) for cell, width in zip(cells, widths)
        ).rstrip()
        for cells in lines
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
