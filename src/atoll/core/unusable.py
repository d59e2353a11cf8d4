"""Columns that cannot be learnt from as they are: which, why, and what to do about them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.extras import import_extra
from atoll.core.number_texts import FEW_WORDS, about_numbers
from atoll.core.table_fixes import Fixes

if TYPE_CHECKING:
    import pandas as pd

MAX_CATEGORIES = 100
"""A column with more distinct values than this is not encoded: it names rows, not groups."""

FEWEST_COUNTED = 10
"""With fewer rows than this, numbers in order may well be something else than row numbers."""

COUNTED = 0.95
"""If numbers rise by one in at least this share of the rows, they count the rows."""

COMES_AGAIN = 0.9
"""But not if at least this share of the numbers comes three times or more."""

_YEAR, _MONTH, _DAY = r"\d{4}", r"(0?[1-9]|1[0-2])", r"(0?[1-9]|[12]\d|3[01])"
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(
    rf"\s*({_YEAR}[-/.]{_MONTH}[-/.]{_DAY}"  # 2007-11-11
    rf"|{_DAY}[-/.]{_DAY}[-/.]({_YEAR}|\d\d)"  # 11.11.2007, 11/30/07
    rf"|{_DAY}[-. ]*({_MONTHS})[a-z]*[-., ]*({_YEAR}|\d\d)"  # 11 Nov 2007
    rf"|({_MONTHS})[a-z]*\.? {_DAY},? {_YEAR})"  # Nov 11, 2007
    r"([T ]\s*\d{1,2}:\d\d.*)?\s*",
    re.IGNORECASE,
)
_INDEX = re.compile(
    r"Unnamed: \d+|index|idx|id|row[ _.]?(id|index|name|names|nr|no|number)?|level_0|",
    re.IGNORECASE,
)
_ID = re.compile(r"(.*[ _.-])?(?i:ids?|idx|index|key|uid|uuid|guid)|.*[a-z]I[dD]")
_TIME = re.compile(
    r"(.*[ _.-])?(year|month|week|day|date|hour|minute|second|time|timestamp|t)([ _.-].*)?",
    re.IGNORECASE,
)
_ARRAY = re.compile(r"\[[-+.e\d\s]*\]")  # as NumPy prints one
_MOST_SAID = 4  # columns that a remark names
_LOOKED_AT = 200  # values that are looked at to see whether a column holds lists


class Fault(NamedTuple):
    """Why a column cannot be learnt from.

    what : what is wrong, to follow the name of the column
    mend : what can be done other than leave it out; "" if nothing
    naming : how to say that it names the rows; "" if it cannot be said
    """

    what: str
    mend: str = ""
    naming: str = ""


DATES = Fault(
    "holds dates",
    "turn them into numbers that may matter, such as days since a day or the month",
)

DURATIONS = Fault("holds durations", "turn them into numbers, such as hours")
COMPLEX = Fault("holds complex numbers", "take their real and imaginary parts as two columns")


def fault_of_cells(column: pd.Series) -> Fault | None:
    """Return what is wrong with cells that are neither numbers nor words; None if nothing is."""
    pd, types = import_extra("pandas"), import_extra("pandas.api.types")
    if types.is_datetime64_any_dtype(column.dtype) or isinstance(column.dtype, pd.PeriodDtype):
        return DATES
    if getattr(column.dtype, "kind", "") == "m":  # NumPy's and Arrow's
        return DURATIONS
    if types.is_complex_dtype(column.dtype):
        return COMPLEX
    present = column.notna().to_numpy()
    if not present.any():
        return Fault("is blank in every row")
    first = column.iloc[int(present.argmax())]
    if isinstance(first, timedelta):
        return DURATIONS
    if isinstance(first, (list, tuple, set, dict, np.ndarray)):
        what = f"holds {type(first).__name__}s, such as {str(first)[:40]!r}"
        return Fault(what, "spread it over columns of numbers")
    return None


def about_times(X: Any) -> str:
    """Return which columns hold dates, durations or intervals; empty if none do.

    X is a pandas frame or an array of NumPy, which is of one type; others hold none.

    Examples
    --------
    >>> import pandas as pd
    >>> days = pd.date_range("2024-01-01", periods=2)
    >>> about_times(pd.DataFrame({"x": [1, 2], "day": days, "span": days - days[0]}))
    "column 'day' holds dates, column 'span' holds durations"
    """
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        return "dates" if X.dtype.kind == "M" else "durations"
    dtypes: Any = getattr(X, "dtypes", None) if hasattr(X, "iloc") else None
    said = []
    for name, dtype in dtypes.items() if hasattr(dtypes, "items") else ():
        kind, word = getattr(dtype, "kind", ""), str(dtype)
        if kind == "M" or word.startswith(("period", "date32", "date64")):
            said.append(f"column {name!r} holds dates")
        elif kind == "m":
            said.append(f"column {name!r} holds durations")
        elif word.startswith("interval"):
            said.append(f"column {name!r} holds intervals")
    return ", ".join(said[:_MOST_SAID]) + (", …" if len(said) > _MOST_SAID else "")


def fault_of_categories(
    name: str, values: Sequence[str], fixes: Fixes, *, declared: bool = False
) -> Fault | None:
    """Return what is wrong with a column of words, given its different values; None if nothing is.

    Parameters
    ----------
    declared : whether the column is declared to hold categories, even if these are numbers

    Examples
    --------
    >>> from atoll.core.table_fixes import SHELL
    >>> fault_of_categories("day", ["2007-11-11", "2007-11-12"], SHELL).what
    'holds dates'
    >>> fault_of_categories("tags", ["[1, 2]", "[]"], SHELL).what
    "holds lists, such as '[1, 2]'"
    >>> fault_of_categories("version", ["1.2.3", "1.20.3"], SHELL) is None
    True
    """
    if values and all(_DATE.fullmatch(value) for value in values):
        return DATES
    if _are_lists(values[:_LOOKED_AT]):
        what = f"holds lists, such as {values[0][:40]!r}"
        return Fault(what, "spread it over columns of numbers")
    is_long = len(values) > MAX_CATEGORIES  # and refused in any case
    said = None if declared else about_numbers(name, values, fixes, 0.5 if is_long else FEW_WORDS)
    if said is not None:
        return Fault(*said, fixes.identify(name) if said[1] == fixes.measured(name) else "")
    if is_long:
        what = f"has {len(values)} different values, too many to encode (at most {MAX_CATEGORIES})"
        mend = f"group its values, or say that it has texts ({fixes.text(name)})"
        return Fault(what, mend, fixes.identify(name))
    return None


def _are_lists(values: Sequence[str]) -> bool:
    """Return whether words are lists as Python writes them, as in a file saved with lists in cells.

    Ranges, two numbers in every cell, do not count.

    Examples
    --------
    >>> _are_lists(["[1, 2, 3]", "[]"]), _are_lists(["[18, 30]", "[31, 64]"]), _are_lists(["[no]"])
    (True, False, False)
    """
    kinds = set()
    for value in values:
        text = value.strip()
        if not text or text[0] not in "[({":
            return False
        try:
            found = text.split() if _ARRAY.fullmatch(text) else ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return False
        if not isinstance(found, (list, tuple, set, dict)):
            return False
        is_range = len(found) == 2 and all(isinstance(one, (int, float)) for one in found)
        kinds.add(is_range)
    return False in kinds


def refuse(faults: dict[str, Fault], fixes: Fixes) -> None:
    """Raise a ValueError that names every column with a fault, and what to do, if there are any."""
    if not faults:
        return
    if len(faults) == 1:
        ((name, fault),) = faults.items()
        out = f"leave it out ({fixes.drop([name])}{fault.naming})"
        rest = {"": out}.get(fault.mend, f"{fault.mend}, or {out}")
        if fault.naming:
            rest = f"{out}, {fault.mend}"
        raise ValueError(f"column {name!r} {fault.what}; {rest}.")
    each = "; ".join(f"{name!r} {fault.what}" for name, fault in faults.items())
    mends: dict[str, list[str]] = {}
    for name, fault in faults.items():
        if fault.mend:
            mends.setdefault(fault.mend, []).append(repr(name))
    told = "; ".join(f"{', '.join(names)}: {mend}" for mend, names in mends.items())
    mended = f", or mend them ({told})" if mends else ""
    out = fixes.drop(list(faults), most=len(faults))
    naming = "".join(
        f" Where {name!r} names the rows,{fault.naming.partition('names the rows')[2]}."
        for name, fault in faults.items()
        if fault.naming
    )
    raise ValueError(
        f"{len(faults)} columns cannot be learnt from: {each}. Leave them out ({out}){mended}."
        f"{naming}"
    )


def first_words(frame: pd.DataFrame, columns: Sequence[str], fixes: Fixes, most: int = 5) -> str:
    """Return the first cells of columns that are not numbers, after a colon; "" if all are.

    Examples
    --------
    >>> import pandas as pd
    >>> from atoll.core.table_fixes import PYTHON
    >>> first_words(pd.DataFrame({"mass": [3.1, "n.a.?"]}), ["mass"], PYTHON)
    ": mass of row 1 is 'n.a.?' (the first row is row 0)"
    """
    pd = import_extra("pandas")
    found = []
    for name in columns:
        is_word = pd.to_numeric(frame[name], errors="coerce").isna() & frame[name].notna()
        for row in np.flatnonzero(is_word).tolist():
            found.append((row + fixes.first_row, name, str(frame[name].iloc[row])[:40]))
    if not found:
        return ""
    shown = ", ".join(f"{name} of row {row} is {word!r}" for row, name, word in found[:most])
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f": {shown}{more} {fixes.counting}"


def index_columns(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the columns that are called, and look, like a saved index: they number the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"Unnamed: 0": range(20), "age": range(20), "id": range(5, 25)})
    >>> index_columns(frame, list(frame.columns))
    ['Unnamed: 0']
    """
    named = [name for name in columns if _INDEX.fullmatch(str(name).strip())]
    return [name for name in row_counters(frame, named) if frame[name].iloc[0] in (0, 1)]


def row_numbers(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the columns that seem to number or to name the rows, unless no other would be left.

    They count the rows in steps of one, but for a few places where they start again or skip
    numbers, and are not called a time; or they are called an id or an index and hold whole
    numbers, each once: those of a shuffled table are in no order.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"n": range(7, 27), "year": range(20), "x": [1.5] * 20})
    >>> frame["plot_id"] = frame["other"] = [(37 * i) % 101 for i in range(20)]
    >>> row_numbers(frame, list(frame.columns))
    ['n', 'plot_id']
    """
    found = [name for name in columns if _counts_mostly(frame[name])]
    found = [name for name in found if not _TIME.fullmatch(str(name).strip())]
    named = [n for n in columns if n not in found and _names_rows(str(n).strip())]
    found += [name for name in named if _are_different(frame[name])]
    return [name for name in columns if name in found] if len(found) < len(columns) else []


def _names_rows(name: str) -> bool:
    return bool(_ID.fullmatch(name) or _INDEX.fullmatch(name))


def _are_different(cells: pd.Series) -> bool:
    """Return whether these are whole numbers, none of them twice."""
    types = import_extra("pandas.api.types")
    if len(cells) < FEWEST_COUNTED or not types.is_numeric_dtype(cells.dtype):
        return False
    if not types.is_integer_dtype(cells.dtype) and not types.is_float_dtype(cells.dtype):
        return False
    numbers = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    return bool(cells.is_unique and (numbers == np.floor(numbers)).all())


def row_counters(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the columns that look like row numbers: whole, and each one more than the last.

    Examples
    --------
    >>> import pandas as pd
    >>> row_counters(pd.DataFrame({"n": range(1, 21), "x": [1.5] * 20}), ["n", "x"])
    ['n']
    """
    return [name for name in columns if bool((_steps(frame[name]) == 1).all())]


def _counts_mostly(cells: pd.Series) -> bool:
    """Return whether whole numbers rise by one in nearly all rows, and do not come round again.

    Hours of the day and places in a picture start again after the same number of rows every time.
    Varieties in each block of a field do nearly so where a few rows are missing.

    Examples
    --------
    >>> import pandas as pd
    >>> serial = [*range(1, 51), *range(1, 31), *range(1, 21)]
    >>> _counts_mostly(pd.Series(serial)), _counts_mostly(pd.Series([*range(25)] * 4))
    (True, False)
    """
    steps = _steps(cells)
    ends = np.flatnonzero(steps != 1)
    if len(ends) > (1.0 - COUNTED) * len(steps):
        return False
    period = np.diff(ends)
    is_cycle = len(period) > 0 and (period == period[0]).all()
    if is_cycle and (steps[ends] == 1 - period[0]).all():
        return False
    return bool(np.mean(cells.value_counts().to_numpy() > 2) < COMES_AGAIN)


def _steps(cells: pd.Series) -> NDArray[np.float64]:
    """Return by how much each whole number exceeds the one before, (n - 1,).

    A single NaN is returned if cells are not whole numbers, are blank in part, or are few.
    """
    types = import_extra("pandas.api.types")
    is_whole = types.is_integer_dtype(cells.dtype) and not cells.isna().any()
    if len(cells) < FEWEST_COUNTED or not is_whole:
        return np.array([np.nan])
    return np.diff(cells.to_numpy(dtype=np.int64)).astype(np.float64)
