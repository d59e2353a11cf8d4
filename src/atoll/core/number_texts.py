"""Numbers written as text: which columns hold them, and which hold other words as well."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from atoll.core.extras import import_extra
from atoll.core.labels import kind_of
from atoll.core.table_fixes import Fixes

if TYPE_CHECKING:
    import pandas as pd

FEW_CODES = 10
"""Up to this many different whole numbers, written as text, are taken for codes of categories."""

MANY_NAMES = 100
"""More different whole numbers than this, written as text and none of them twice, are taken for
names of rows."""

FEW_WORDS = 0.1
"""Words among numbers are taken for slips if they are at most this share of the different values.
"""

SOME_CELLS = 200
"""Cells of a column that are looked at to find its decimal mark."""

_POINT = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.IGNORECASE)
_COMMA = re.compile(r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+\s*")
_GROUPED = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?\s*")  # 0,015 has a decimal comma
_CODE = re.compile(r"\s*0\d+\s*")  # 007: a number would lose its zeros
_MEASURED = re.compile(  # $12, 5.1 cm, 12 %, 80 mg/dl; P12 and 007 m are names
    r"\s*(?P<before>[$€£¥]?)\s*[+-]?(?!0\d)\d+([.,]\d+)*"
    r"\s*(?P<after>([^\W\d_][^\d\s]{0,9}|[%‰°][CF]?|[$€£¥])?)\s*"
)


def are_numbers(values: Iterable[str]) -> bool:
    """Return whether the different values of a column are numbers, and not codes of categories.

    Examples
    --------
    >>> are_numbers(["18.7", "", "17.4"]), are_numbers(["1", "2", "3"]), are_numbers(["18.7", "NA"])
    (True, False, False)
    >>> are_numbers(map(str, range(11))), are_numbers(f"{i:03}" for i in range(11))
    (True, False)
    """
    found = {value for value in values if value.strip()}
    if not found or not all(_POINT.fullmatch(value) and not _is_code(value) for value in found):
        return False
    return len(found) > FEW_CODES or any("." in value for value in found)


def with_numbers(frame: pd.DataFrame, columns: Sequence[str], *, known: bool) -> pd.DataFrame:
    """Return the table with numbers in place of numbers written as text; blank text becomes NaN.

    Truth values beside blanks are 0 and 1. A column of pandas' categories stays as it is, and so
    does one of many whole numbers, none of them twice: they may be names of rows. Where columns are
    known to hold numbers, cells decide alone: categories may be numbers, and all may be blank.

    Parameters
    ----------
    columns : to look at; names that are not in the table are skipped
    known : whether these columns are known to hold numbers; if not, their cells decide

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"depth": ["18.7", None, "17.4"], "site": ["1", "2", "3"]})
    >>> with_numbers(frame, ["depth", "site"], known=False).to_dict("list")
    {'depth': [18.7, nan, 17.4], 'site': ['1', '2', '3']}
    >>> with_numbers(pd.DataFrame({"depth": [None], "wet": [None]}), ["wet"], known=True).dtypes
    depth     object
    wet      float64
    dtype: object
    """
    read: dict[str, Any] = {}
    for name, cells in _columns_of_words(frame, columns, known=known):
        values, is_blank = _different(cells), known and not cells.notna().any()
        is_number = _are_all(values, known) and (known or not _are_names(cells, values))
        if is_blank or is_number:
            read[name] = as_numbers(cells)
    return frame.assign(**read) if read else frame


def without_decimals(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with floats, or integers, for the decimals of databases and Parquet files.

    Examples
    --------
    >>> import pandas as pd
    >>> decimals = {"price": [Decimal("1.50"), None], "code": [Decimal(3), Decimal(4)]}
    >>> without_decimals(pd.DataFrame(decimals)).to_dict("list")
    {'price': [1.5, nan], 'code': [3, 4]}
    """
    read: dict[str, Any] = {}
    for name in dict.fromkeys(frame.columns):
        cells: Any = frame[name]
        if cells.ndim != 1 or cells.dtype != object:
            continue
        known = cells[cells.notna()]
        if len(known) and all(isinstance(cell, Decimal) for cell in known):
            numbers = as_numbers(cells)
            is_whole = all(cell == int(cell) and cell.as_tuple().exponent == 0 for cell in known)
            read[name] = numbers.astype("Int64") if is_whole else numbers
    return frame.assign(**read) if read else frame


def _are_names(cells: pd.Series, values: list[Any]) -> bool:
    """Return whether cells may well be names of rows: whole numbers as text, each only once.

    values : the different values of the cells
    """
    if len(values) <= MANY_NAMES or len(values) < cells.notna().sum():
        return False
    return all(isinstance(value, str) and value.strip().isdigit() for value in values)


def were_texts(given: pd.Series, read: pd.Series) -> bool:
    """Return whether cells that were read as numbers were given, at least in part, as text."""
    is_same = getattr(given, "dtype", None) == getattr(read, "dtype", None)
    return not is_same and any(isinstance(value, str) for value in given)


def _are_all(values: list[Any], known: bool) -> bool:
    """Return whether all values, none of them null, are numbers, possibly written as text."""
    texts = [value for value in values if isinstance(value, str)]
    others = [value for value in values if not isinstance(value, str)]
    if others and not texts and all(kind_of(value) == "boolean" for value in others):
        return True
    if not values or not all(_is_number(value, known) for value in others):
        return False
    if known or not texts:
        return all(_POINT.fullmatch(text) or not text.strip() for text in texts)
    return are_numbers([*texts, *map(str, others)])


def _is_number(value: Any, known: bool) -> bool:
    """Return whether a cell is a number; those of databases and of Parquet files are decimals.

    known : whether its column is known to hold numbers; a truth value is one then
    """
    kind = kind_of(value)
    return kind == "number" or (known and kind == "boolean") or isinstance(value, Decimal)


def about_numbers(
    name: str, values: Sequence[str], fixes: Fixes, few_words: float = FEW_WORDS
) -> tuple[str, str] | None:
    """Return what is wrong with numbers written as text, and what to do; None if they are words.

    Parameters
    ----------
    values : the different values of the column, none blank
    few_words : share of the values up to which words are taken for slips

    Examples
    --------
    >>> from atoll.core.table_fixes import SHELL
    >>> numbers = [f"{i / 2:.1f}" for i in range(20)]
    >>> about_numbers("depth", [*numbers, "NA?"], SHELL)[0]
    "holds numbers, but for 'NA?'"
    >>> about_numbers("depth", [one.replace(".", ",") for one in numbers], SHELL)[0]
    "holds numbers with a decimal comma, such as '0,0', as text"
    """
    values = [value for value in values if value.strip()]
    forms = (_POINT, _COMMA, _GROUPED)
    words = [v for v in values if not any(form.fullmatch(v) for form in forms)]
    unit = _unit_of(values) if len(values) > FEW_CODES else ""
    if unit:
        what = f"holds numbers with {unit!r}, such as {values[0].strip()!r}, as text"
        return what, fixes.unit(name, unit)
    n_numbers = len(values) - len(words)
    if n_numbers <= FEW_CODES or any(_is_code(value) for value in values):
        return None
    if words:
        shown = ", ".join(map(repr, words[:4])) + (", …" if len(words) > 4 else "")
        is_slip = len(words) <= few_words * len(values)
        return (f"holds numbers, but for {shown}", fixes.no_words(name)) if is_slip else None
    grouped = [value for value in values if _GROUPED.fullmatch(value)]
    comma = [value for value in values if _COMMA.fullmatch(value) and value not in grouped]
    points = [value for value in comma if "." in value]
    if points:
        what = f"holds numbers with points between thousands, such as {points[0]!r}, as text"
        return what, fixes.thousands_by_points(name)
    if comma:
        what = f"holds numbers with a decimal comma, such as {comma[0]!r}, as text"
        return what, fixes.decimal_comma(name)
    if grouped:
        what = f"holds numbers with commas between thousands, such as {grouped[0]!r}, as text"
        return what, fixes.thousands(name)
    if len(values) > MANY_NAMES:
        return f"has {len(values)} different values, whole numbers written as text", (
            fixes.measured(name)
        )
    return None


def _unit_of(values: Sequence[str]) -> str:
    """Return the unit that every one of the values has beside its number; empty if none has.

    Examples
    --------
    >>> _unit_of(["5.1 cm", "12 cm"]), _unit_of(["$5", "$1,200"]), _unit_of(["5 cm", "5 mm"])
    ('cm', '$', '')
    >>> _unit_of(["5", "6"]), _unit_of(["P5", "P6"]), _unit_of(["5-10 y", "10-20 y"])
    ('', '', '')
    """
    units = set()
    for value in values:
        found = _MEASURED.fullmatch(value)
        units.add("" if found is None else found["before"] or found["after"])
        if len(units) > 1:
            return ""
    return units.pop() if units else ""


def with_decimal_commas(frame: pd.DataFrame, columns: Iterable[str]) -> list[str]:
    """Return the columns most of whose first cells are numbers with a decimal comma.

    Examples
    --------
    >>> import pandas as pd
    >>> with_decimal_commas(pd.DataFrame({"mass": ["3,5", "4,25"], "site": ["a", "b"]}), ["mass"])
    ['mass']
    """
    found = []
    for name, cells in _columns_of_words(frame, columns):
        some = cells[cells.notna()].iloc[:SOME_CELLS]
        commas = [cell for cell in some if isinstance(cell, str) and _COMMA.fullmatch(cell)]
        if 2 * len(commas) > len(some) and not all(map(_GROUPED.fullmatch, commas)):
            found.append(name)
    return found


def _is_code(value: str) -> bool:
    return _CODE.fullmatch(value) is not None


def _columns_of_words(
    frame: pd.DataFrame, columns: Iterable[str], *, known: bool = False
) -> Iterator[tuple[str, pd.Series]]:
    """Yield the columns whose cells may be text: no numbers, dates or pandas' categories.

    known : whether they are known to hold numbers; categories may be numbers then, and so may
        cells of any type that are all blank
    """
    types = import_extra("pandas.api.types")
    for name in columns:
        cells: Any = frame[name] if name in frame.columns else None
        if getattr(cells, "ndim", 0) != 1:
            continue
        if str(cells.dtype) == "category" or (known and not cells.notna().any()):
            is_wanted = known
        else:
            is_wanted = types.is_object_dtype(cells.dtype) or types.is_string_dtype(cells.dtype)
        if is_wanted:
            yield name, cells


def _different(cells: pd.Series) -> list[Any]:
    """Return the different values, without nulls; none if they cannot be compared."""
    try:
        return list(cells[cells.notna()].unique())
    except TypeError:  # lists and the like
        return []


def pandas_reads_every_digit() -> bool:
    """Return whether pandas reads numbers to the last digit unasked, as it does from 3.1 on."""
    version = import_extra("pandas").__version__.split(".")
    return (int(version[0]), int(version[1])) >= (3, 1)


def as_numbers(cells: pd.Series) -> pd.Series:
    """Return numbers of cells that may be text, to the last digit; blank where there is none."""
    pd = import_extra("pandas")
    given = cells.astype(object).where(cells.notna())
    found = pd.to_numeric(given, errors="coerce").astype(float)
    if pandas_reads_every_digit():
        return found
    texts = found.notna() & given.map(lambda cell: isinstance(cell, str))
    found[texts] = [float(text) for text in given[texts]]
    return found
