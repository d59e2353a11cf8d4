"""How the text of a table is written: its separator, and the marks in its numbers."""

from __future__ import annotations

import csv
import re
from itertools import zip_longest
from typing import NamedTuple

_WITH_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
_THOUSANDS = {  # by their decimal mark; both marks in one number leave no doubt
    ",": re.compile(r"\s*[+-]?\d{1,3}(\.\d{3})+,\d+\s*"),
    ".": re.compile(r"\s*[+-]?\d{1,3}(,\d{3})+\.\d+\s*"),
}
_DIGITS = {mark: re.compile(rf"\s*\d+([{mark}]\d+)+\s*") for mark in ".,"}
_GROUPS = {mark: re.compile(rf"\s*\d{{1,3}}([{mark}]\d{{3}})+\s*") for mark in ".,"}
_BY_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+\s*")
_WHOLE_OR_COMMAS = re.compile(r"\s*[+-]?\d+(,\d+)*\s*")
_HUNDREDS = re.compile(r"\s*[+-]?\d{1,3}\s*")
_NAMED_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # as Excel has it
_WITH_POINT = re.compile(r"\s*[+-]?\d*\.\d+\s*")


class Form(NamedTuple):
    """How a text file writes a table.

    separator : between cells
    decimal : the mark in numbers, "." or ","
    thousands : the mark between thousands, "." or ","; None where there is none
    n_above : lines above the header, one where Excel's `sep=;` names the separator
    """

    separator: str
    decimal: str
    thousands: str | None = None
    n_above: int = 0


def form_of(text: str) -> Form:
    r"""Return how the beginning of a table is written.

    The separator is the mark that gives the header the most cells, and a comma if none does. The
    decimal mark is a comma where some numbers have one and none has a point, unless commas stand
    between thousands, or where numbers such as 2.031,8 have a point between thousands. A first
    line `sep=;` names the separator.

    Examples
    --------
    >>> form_of("x;y\n1,5;a\n")
    Form(separator=';', decimal=',', thousands=None, n_above=0)
    >>> form_of("x;y\n2.031,5;a\n")
    Form(separator=';', decimal=',', thousands='.', n_above=0)
    """
    lines = text.splitlines()[:200]
    if not lines:
        return Form(",", ".")
    named = _NAMED_SEPARATOR.fullmatch(lines[0])
    if named is not None:
        found = _form_of_lines(lines[1:], named[1])
        return found._replace(n_above=1)
    return _form_of_lines(lines)


def _form_of_lines(lines: list[str], separator: str | None = None) -> Form:
    """Return how a header and rows are written; `separator` if that is known."""
    cells = {mark: next(csv.reader(lines, delimiter=mark), []) for mark in ",;\t|"}
    separator = separator or max(cells, key=lambda mark: len(cells[mark]))
    rows = list(csv.reader(lines[1:], delimiter=separator))
    found = [cell for row in rows for cell in row]
    for decimal, pattern in _THOUSANDS.items():
        mark = "," if decimal == "." else "."
        # Dates and versions have the mark elsewhere, and would be read as numbers.
        others = [c for c in found if _DIGITS[mark].fullmatch(c) and not _GROUPS[mark].fullmatch(c)]
        is_used = any(pattern.fullmatch(cell) for cell in found)
        if decimal != separator and is_used and not others:
            return Form(separator, decimal, mark)
    both = (_WITH_COMMA, _THOUSANDS[","])
    with_comma = separator != "," and any(p.fullmatch(cell) for cell in found for p in both)
    with_point = any(_WITH_POINT.fullmatch(cell) for cell in found)
    is_decimal = with_comma and not with_point and not _are_thousands(rows)
    return Form(separator, "," if is_decimal else ".")


def _are_thousands(rows: list[list[str]]) -> bool:
    """Return whether the commas in numbers stand between thousands, and not before decimals.

    All of them are followed by three digits, and beside such numbers stand whole ones below a
    thousand alone: of numbers with decimals some would have fewer than three.

    Examples
    --------
    >>> _are_thousands([["12,345"], ["999"]]), _are_thousands([["1,234"], ["12,5"], ["9"]])
    (True, False)
    """
    are_beside = False
    for cells in zip_longest(*rows, fillvalue=""):
        numbers = [cell for cell in cells if _WHOLE_OR_COMMAS.fullmatch(cell)]
        commas = [cell for cell in numbers if "," in cell]
        if not all(map(_BY_THOUSANDS.fullmatch, commas)):
            return False
        others = [cell for cell in numbers if "," not in cell]
        small = bool(others) and all(map(_HUNDREDS.fullmatch, others))
        are_beside |= bool(commas) and small
    return are_beside
