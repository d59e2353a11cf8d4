"""Tables in files: read and written, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from atoll.core.extras import import_extra
from atoll.core.files import atomic_path

if TYPE_CHECKING:
    import pandas as pd

STANDARD_INPUT = "-"
"""The path that stands for standard input."""

_PACKAGES = {"csv": ("pandas",), "tsv": ("pandas",), "parquet": ("pandas", "pyarrow")}
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_SAMPLE = 2**16  # characters of a file by which its form is found
_WITH_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
_WITH_POINT = re.compile(r"\s*[+-]?\d*\.\d+\s*")


class Form(NamedTuple):
    """How a text file writes a table.

    separator : between cells
    decimal : the mark in numbers, "." or ","
    """

    separator: str
    decimal: str


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    r"""Read a table from a `.csv`, `.tsv` or `.parquet` file, or from standard input (`-`).

    Text has one header line. Its cells are separated by commas, semicolons, tabs or bars, and its
    numbers may have a decimal comma; both are found from the first rows. It may be compressed
    (`.csv.gz`). Blank cells, and pandas' usual marks such as NA and NaN, are missing values.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "flowers.csv"
    >>> _ = path.write_text("petal;kind\n1,4;setosa\n4,7;\n")
    >>> read_table(path)["petal"].tolist()
    [1.4, 4.7]
    """
    source = Path(path)
    if str(source) == STANDARD_INPUT:
        frame = _read_text(sys.stdin.buffer.read(), "standard input")
    else:
        kind = _table_format(source)
        if not source.exists():
            raise ValueError(f"there is no file {str(source)!r}; check the path.")
        if source.is_dir():
            raise ValueError(f"{str(source)!r} is a folder; name a CSV or Parquet file inside it.")
        name = repr(str(source))
        frame = _read_parquet(source) if kind == "parquet" else _read_text(source, name)
    frame.columns = frame.columns.map(str)
    if len(frame) == 0:
        raise ValueError(f"{str(source)!r} has no rows; it needs a header and at least one row.")
    return frame


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table, whole or not at all, in the format of the path's suffix, as it is read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers.parquet"
    >>> write_table(pd.DataFrame({"x": [0.1, 0.2]}), path)
    >>> read_table(path)["x"].tolist()
    [0.1, 0.2]
    """
    target = Path(path)
    kind = _table_format(target)
    with atomic_path(target) as temporary:
        if kind == "parquet":
            frame.to_parquet(temporary, index=False)
        else:
            compression: Any = "gzip" if _is_compressed(target) else None
            separator = _SEPARATORS[kind]
            frame.to_csv(temporary, index=False, sep=separator, compression=compression)


def check_table_path(path: str | os.PathLike[str]) -> None:
    """Raise unless the suffix of `path` is one that `write_table` can write here and now."""
    _table_format(Path(path))


def _is_compressed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _table_format(path: Path) -> str:
    """Return "csv", "tsv" or "parquet"."""
    suffix = Path(path.stem).suffix if _is_compressed(path) else path.suffix
    kind = suffix.lower().removeprefix(".")
    if kind not in _PACKAGES or (_is_compressed(path) and kind == "parquet"):
        raise ValueError(
            f"{str(path)!r} does not end in .csv, .tsv or .parquet (or .csv.gz, .tsv.gz); tables "
            "are read and written in these formats."
        )
    for package in _PACKAGES[kind]:
        import_extra(package)
    return kind


def _read_text(source: Path | bytes, name: str) -> pd.DataFrame:
    """Read a table from a file or from its bytes; `name` is how errors call it."""
    pd = import_extra("pandas")
    try:
        form = form_of(_sample(source))
        with warnings.catch_warnings():
            # Otherwise rows longer than the header would lose cells with only a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                io.BytesIO(source) if isinstance(source, bytes) else source,
                sep=form.separator,
                decimal=form.decimal,
                index_col=False,
                low_memory=False,
            )
    except pd.errors.EmptyDataError:
        raise ValueError(f"{name} is empty; it needs a header and rows.") from None
    except pd.errors.ParserWarning:
        raise ValueError(f"{name} has rows with more cells than its header.") from None
    except (pd.errors.ParserError, UnicodeError, gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{name} cannot be read as CSV: {error}") from None


def _sample(source: Path | bytes) -> str:
    """Return the beginning of a text, to the end of a line if it is long."""
    if isinstance(source, bytes):
        some = source[:_SAMPLE]
    else:
        with (gzip.open if _is_compressed(source) else open)(source, "rb") as file:
            some = file.read(_SAMPLE)
    text = some.decode("utf-8-sig", errors="replace")
    return text.rpartition("\n")[0] if len(some) == _SAMPLE else text


def form_of(text: str) -> Form:
    r"""Return how the beginning of a table is written.

    The separator is the mark that gives the header the most cells, and a comma if none does. The
    decimal mark is a comma where some numbers have one and none has a point.

    Examples
    --------
    >>> form_of("x;y\n1,5;a\n")
    Form(separator=';', decimal=',')
    """
    lines = text.splitlines()[:200]
    if not lines:
        return Form(",", ".")
    cells = {mark: next(csv.reader(lines, delimiter=mark), []) for mark in ",;\t|"}
    separator = max(cells, key=lambda mark: len(cells[mark]))
    found = [cell for row in csv.reader(lines[1:], delimiter=separator) for cell in row]
    with_comma = separator != "," and any(_WITH_COMMA.fullmatch(cell) for cell in found)
    with_point = any(_WITH_POINT.fullmatch(cell) for cell in found)
    return Form(separator, "," if with_comma and not with_point else ".")


def _read_parquet(source: Path) -> pd.DataFrame:
    pd, pyarrow = import_extra("pandas"), import_extra("pyarrow")
    try:
        return pd.read_parquet(source)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{str(source)!r} cannot be read as Parquet: {error}") from None
