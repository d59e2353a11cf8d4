"""Refusals that name the cells or columns of a table which are missing, infinite or blank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.extras import import_extra
from atoll.core.near_names import near_name
from atoll.core.table_fixes import Fixes

if TYPE_CHECKING:
    import pandas as pd


def is_numeric(column: pd.Series) -> bool:
    """Return whether the cells are numbers (booleans among them), and not complex ones."""
    types, dtype = import_extra("pandas.api.types"), column.dtype
    if types.is_bool_dtype(dtype):  # Arrow's do not count as numbers
        return str(dtype) != "category"
    return bool(types.is_numeric_dtype(dtype)) and not types.is_complex_dtype(dtype)


def as_floats(column: pd.Series) -> NDArray[np.float64]:
    """Return a column of numbers as an array (n,), with NaN for blank cells."""
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def refuse_blank(frame: pd.DataFrame, columns: Iterable[str], fixes: Fixes) -> None:
    """Raise a ValueError that names the blank cells, if there are any."""
    cells = _cells(frame, columns, lambda column: column.isna().to_numpy(), fixes.first_row)
    if cells:
        raise ValueError(
            f"missing values in the features: {cells} {fixes.counting}. "
            f"Let them be filled in ({fixes.impute}), or leave out the rows or the columns."
        )


def refuse_infinite(frame: pd.DataFrame, columns: Iterable[str], fixes: Fixes) -> None:
    """Raise a ValueError that names the infinite cells, if there are any."""
    numeric = [name for name in columns if is_numeric(frame[name])]
    cells = _cells(frame, numeric, lambda c: np.isinf(as_floats(c)), fixes.first_row)
    if cells:
        raise ValueError(
            f"infinite values in the features: {cells} {fixes.counting}. "
            "Correct them, or leave out the rows or the columns."
        )


def refuse_shared_features(features: dict[str, list[str]]) -> None:
    """Raise a ValueError if two columns would have a feature of the same name.

    Parameters
    ----------
    features : column -> names of what it becomes, such as "hue=red" or "mass is blank"
    """
    column_of: dict[str, str] = {}
    for column, names in features.items():
        for name in names:
            other = column_of.setdefault(name, column)
            if other != column:
                own = next((one for one in (column, other) if one == name), column)
                raise ValueError(
                    f"columns {other!r} and {column!r} would both have a feature called {name!r}; "
                    f"rename the column {own!r}."
                )


def refuse_empty(frame: pd.DataFrame, columns: Sequence[str], fixes: Fixes) -> None:
    """Raise a ValueError that names the rows with nothing but blanks, if there are any."""
    is_blank = frame[list(columns)].isna().all(axis=1)
    rows = (np.flatnonzero(is_blank) + fixes.first_row).tolist()
    if rows:
        raise ValueError(
            f"row{'s' if len(rows) > 1 else ''} {listed(rows, 10)}: every cell of the features is "
            f"blank {fixes.counting}; {fixes.without_blank_rows}."
        )


def _cells(frame: pd.DataFrame, columns: Iterable[str], is_wrong: Any, first: int = 1) -> str:
    """Say which cells are wrong; nothing if none is."""
    places = {name: np.flatnonzero(is_wrong(frame[name])) + first for name in columns}
    cells = [(int(row), name) for name, rows in places.items() for row in rows]
    cells.sort(key=lambda cell: cell[0])
    shown = ", ".join(f"row {row} of {name!r}" for row, name in cells[:5])
    return shown + (f" and {len(cells) - 5} more" if len(cells) > 5 else "")


def require_known_columns(columns: Sequence[str], frame: pd.DataFrame) -> None:
    """Raise a ValueError if the table lacks a column that the model was fitted on."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        others = [name for name in frame.columns if name not in columns]
        # If every column is missing this is another table, and names are alike only by chance.
        alike = 0.8 if len(missing) == len(columns) else 0.6
        close = {name: near_name(name, others, alike) for name in missing}
        meant = ", ".join(f"{found!r} for {name!r}" for name, found in close.items() if found)
        it, its = ("them", "their") if len(missing) > 1 else ("it", "its")
        hint = f"it has {columns_in_words(list(frame.columns))}"
        if len(missing) < len(columns):
            hint += f". Add {it}, with blanks where {its} cells are not known, or fit without {it}"
        if meant:
            hint = f"rename a column if it is one of them: {meant}"
        raise ValueError(
            f"the table lacks {columns_in_words(missing)}, which the model was fitted on; {hint}."
            f"{about_separator(frame, missing) or _about_header(frame)}"
        )


def refuse_repeated_columns(X: Any) -> None:
    """Raise a ValueError for a pandas data frame with two columns of the same name."""
    columns = getattr(X, "columns", None) if hasattr(X, "iloc") else None
    if columns is None or not hasattr(columns, "duplicated") or columns.is_unique:
        return
    repeated = sorted({str(name) for name in columns[columns.duplicated()]})
    raise ValueError(
        f"X has {columns_in_words(repeated)} more than once; rename them, or keep the first of "
        "each: X.loc[:, ~X.columns.duplicated()]."
    )


def refuse_lazy(X: Any) -> None:
    """Raise a ValueError for a table that polars has yet to compute."""
    if hasattr(X, "collect") and hasattr(X, "collect_schema") and not hasattr(X, "shape"):
        raise ValueError("X is a lazy frame; pass X.collect().")


def about_separator(frame: pd.DataFrame, missing: Sequence[str]) -> str:
    r"""Say which separator the file seems to have, if one column's name holds several names.

    Examples
    --------
    >>> import pandas as pd
    >>> about_separator(pd.DataFrame({"island;mass": ["Dream;3,5"]}), ["mass"])
    " Cells seem to be separated by ';': read the file with sep=';'."
    """
    for name in map(str, frame.columns):
        for mark in ";\t|,":
            if mark in name and {part.strip(" \"'") for part in name.split(mark)} & {*missing}:
                return f" Cells seem to be separated by {mark!r}: read the file with sep={mark!r}."
    return ""


def _about_header(frame: pd.DataFrame) -> str:
    """Say so if the header seems to be a row of data, or a comment above the header."""
    if str(next(iter(frame.columns), "")).startswith("#"):
        return (
            " The first line seems not to be the header: delete the lines above the names of the "
            "columns."
        )
    numbers = [name for name in frame.columns if _is_number(str(name))]
    if 2 * len(numbers) <= len(frame.columns) or not any("." in str(name) for name in numbers):
        return ""
    return (
        " The first line seems to be a row, not a header: put a line with the names of the columns "
        "above it."
    )


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def require_columns(
    frame: pd.DataFrame, names: Sequence[str], role: str, where: str = "the table"
) -> None:
    """Raise a ValueError where the table lacks a column that the user named in this role."""
    for name in names:
        if name not in frame.columns:
            raise ValueError(f"{role} {name!r} is not in {where}; {column_hint(name, frame)}")


def column_hint(name: str, frame: pd.DataFrame) -> str:
    """Say which column may be meant by a name that does not exist, or which columns there are."""
    several = [part.strip() for part in str(name).split(",")]
    if len(several) > 1 and set(several) <= set(frame.columns):
        return f"name {listed(several)} one by one."
    first = str(next(iter(frame.columns), ""))
    if len(frame.columns) == 1 and name in first.split():
        return (
            f"its only column is {first!r}. If spaces separate the cells, put commas or tabs in "
            "their place."
        )
    close = near_name(name, list(frame.columns))
    if close is not None:
        return f"did you mean {close!r}?"
    return f"its columns are {listed(list(frame.columns))}.{_about_header(frame)}"


def columns_in_words(columns: Sequence[str]) -> str:
    """Return "column" or "columns", and their names."""
    return f"column{'s' if len(columns) > 1 else ''} {listed(columns)}"


def is_or_are(columns: Sequence[str]) -> str:
    """Return "is" for one column, "are" for several."""
    return "are" if len(columns) > 1 else "is"


def listed(values: Sequence[Any], most: int = 8) -> str:
    """Return the first values, and how many there are besides."""
    shown = ", ".join(repr(value) for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")
