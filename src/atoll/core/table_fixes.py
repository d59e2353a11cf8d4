"""What to do about a table that cannot be read, in the words of the shell or of Python."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple


class Fixes(NamedTuple):
    """How a user leaves columns out, names texts, and so on.

    in_python : whether by arguments of `make_preprocessor`; if not, by options of a command
    of_frame : whether, in Python, by changing the data frame X itself, where there is no such step

    Examples
    --------
    >>> SHELL.drop(["site"]), SHELL.drop(["bill length"])
    ('--drop site', "--drop 'bill length'")
    >>> PYTHON.drop(["site"])
    "make_preprocessor(drop=['site'])"
    >>> FRAME.drop(["site"])
    "X.drop(columns=['site'])"
    """

    in_python: bool
    of_frame: bool = False

    def drop(self, columns: Sequence[str], most: int = 3) -> str:
        """Return how columns are left out."""
        if self.of_frame:
            return f"X.drop(columns={list(columns)!r})"
        if self.in_python:
            return f"make_preprocessor(drop={list(columns)!r})"
        shown = " ".join(f"--drop {shlex.quote(name)}" for name in columns[:most])
        return shown + (" ..." if len(columns) > most else "")

    def text(self, column: str) -> str:
        """Return how a column is said to hold texts."""
        if self.in_python:
            call = f"make_preprocessor(texts=[{column!r}])"
            return f"{call}.fit_transform(X) in the place of X" if self.of_frame else call
        return f"--text {shlex.quote(column)}"

    def identify(self, column: str) -> str:
        """Return how a column is said to name the rows, after the way to leave it out."""
        if self.in_python:
            return ""
        return f", or if it names the rows `atoll fit --id {shlex.quote(column)}`"

    def no_words(self, column: str) -> str:
        """Return what is done about words among numbers."""
        blank = "blank these cells or write numbers there"
        if not self.in_python:
            return blank
        return (
            f"{blank} (pd.to_numeric(X[{column!r}], errors='coerce') blanks them), or if its "
            f"values are categories, say so (X[{column!r}].astype('category'))"
        )

    def measured(self, column: str) -> str:
        """Return what is done about text that may be names, and may be numbers."""
        call = f" (pd.to_numeric(X[{column!r}]))" if self.in_python else ""
        return f"make it numbers if it is measured or counted{call}"

    def decimal_comma(self, column: str) -> str:
        """Return how text with decimal commas becomes numbers."""
        if not self.in_python:
            return (
                "write them with a decimal point, or all numbers of the table with a decimal comma "
                "and semicolons between the cells"
            )
        return (
            "read the file with pd.read_csv(..., decimal=','), or make them numbers "
            f"(X[{column!r}].str.replace(',', '.').astype(float))"
        )

    def thousands_by_points(self, column: str) -> str:
        """Return how text with points between thousands, and a decimal comma, becomes numbers."""
        if not self.in_python:
            return "write them without these points, and with the decimal mark of other columns"
        return (
            "read the file with pd.read_csv(..., decimal=',', thousands='.'), or make them numbers "
            f"(X[{column!r}].str.replace('.', '').str.replace(',', '.').astype(float))"
        )

    def thousands(self, column: str) -> str:
        """Return how text with commas between thousands becomes numbers."""
        if not self.in_python:
            return "write them without these commas"
        return (
            "read the file with pd.read_csv(..., thousands=','), or make them numbers "
            f"(X[{column!r}].str.replace(',', '').astype(float))"
        )

    def unit(self, column: str, unit: str) -> str:
        """Return how text with a unit beside each number becomes numbers."""
        if not self.in_python:
            return "write the numbers alone, and the unit in the name of the column"
        return (
            f"make them numbers (pd.to_numeric(X[{column!r}].str.replace({unit!r}, ''))), or if "
            f"its values are categories, say so (X[{column!r}].astype('category'))"
        )

    @property
    def first_row(self) -> int:
        """Number of the first row: 0 as in a data frame, 1 as in a file."""
        return 0 if self.in_python else 1

    @property
    def counting(self) -> str:
        """Return how rows are counted, in brackets."""
        where = "" if self.in_python else " under the header"
        return f"(the first row{where} is row {self.first_row})"

    @property
    def without_blank_rows(self) -> str:
        """Return how rows of nothing but blanks are left out."""
        if self.in_python:
            return "leave such rows out, and their labels, for example with table.dropna(how='all')"
        return "leave such rows out"

    @property
    def blank_numbers(self) -> str:
        """Return what is done about numbers that mean blank."""
        if not self.in_python:
            return "leave these cells blank"
        return "make them NaN, and let make_preprocessor() fill them in"

    @property
    def encode(self) -> str:
        return "make_preprocessor(encode=True)" if self.in_python else "--encode"

    @property
    def impute(self) -> str:
        return "make_preprocessor(impute=True)" if self.in_python else "--impute"


SHELL, PYTHON = Fixes(in_python=False), Fixes(in_python=True)
FRAME = Fixes(in_python=True, of_frame=True)
