"""Tables in files: read and written, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

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
        kind = _existing_format(source)
        name = repr(str(source))
        frame = _read_parquet(source) if kind == "parquet" else _read_text(source, name)
    frame.columns = frame.columns.map(str)
    if len(frame) == 0:
        raise ValueError(f"{str(source)!r} has no rows; it needs a header and at least one row.")
    return frame


def table_chunks(
    path: str | os.PathLike[str], most_cells: int, *, as_text: Sequence[str] = ()
) -> Iterator[pd.DataFrame]:
    r"""Read a table as `read_table` does, some rows at a time; standard input all at once.

    Parameters
    ----------
    path : of the table
    most_cells : of a chunk, which has a row at least
    as_text : columns that are not to be read as numbers, whatever a chunk of them looks like

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("x,y\n1,2\n3,4\n5,6\n")
    >>> [len(frame) for frame in table_chunks(path, 4)]
    [2, 1]
    """
    source = Path(path)
    if str(source) == STANDARD_INPUT:
        yield read_table(path)
        return
    kind = _existing_format(source)
    read = _parquet_chunks(source, most_cells)
    if kind != "parquet":
        read = _text_chunks(source, most_cells, as_text)
    n = 0
    for frame in read:
        frame.columns = frame.columns.map(str)
        n += len(frame)
        if len(frame):
            yield frame
    if n == 0:
        raise ValueError(f"{str(source)!r} has no rows; it needs a header and at least one row.")


class TableWriter:
    """A table that is written piece by piece, whole or not at all, in the format of its suffix.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers.csv"
    >>> with TableWriter(path) as table:
    ...     for number in (1, 2):
    ...         table.write(pd.DataFrame({"x": [number]}))
    >>> read_table(path)["x"].tolist()
    [1, 2]
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.kind = _table_format(self.path)

    def __enter__(self) -> Self:
        self._ending = ExitStack()
        self._temporary = self._ending.enter_context(atomic_path(self.path))
        self._file: Any = None
        return self

    def __exit__(self, *error: Any) -> None:
        self._ending.__exit__(*error)

    def write(self, frame: pd.DataFrame) -> None:
        """Add rows; they have the columns of the first ones."""
        if self.kind == "parquet":
            self._write_parquet(frame)
            return
        is_first = self._file is None
        if is_first:
            opened: Any = gzip.open if _is_compressed(self.path) else open
            file = opened(self._temporary, "wt", encoding="utf-8", newline="")
            self._file = self._ending.enter_context(file)
        frame.to_csv(self._file, index=False, header=is_first, sep=_SEPARATORS[self.kind])

    def _write_parquet(self, frame: pd.DataFrame) -> None:
        pyarrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
        try:
            if self._file is None:
                table = pyarrow.Table.from_pandas(frame, preserve_index=False)
                writer = parquet.ParquetWriter(self._temporary, table.schema)
                self._file = self._ending.enter_context(writer)
            else:
                schema = self._file.schema
                table = pyarrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
            self._file.write_table(table)
        except (pyarrow.ArrowException, TypeError) as error:
            raise ValueError(
                f"{str(self.path)!r} cannot be written as Parquet, whose columns have one type "
                f"from the first row to the last: {error}. Write a .csv instead."
            ) from None


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


def _existing_format(source: Path) -> str:
    """Return the format of a file that can be read, as `_table_format` does."""
    kind = _table_format(source)
    if not source.exists():
        raise ValueError(f"there is no file {str(source)!r}; check the path.")
    if source.is_dir():
        raise ValueError(f"{str(source)!r} is a folder; name a CSV or Parquet file inside it.")
    return kind


def _read_text(source: Path | bytes, name: str) -> pd.DataFrame:
    """Read a table from a file or from its bytes; `name` is how errors call it."""
    pd = import_extra("pandas")
    with _text_errors(name):
        form = form_of(_sample(source))
        found: Any = pd.read_csv(
            io.BytesIO(source) if isinstance(source, bytes) else source,
            sep=form.separator,
            decimal=form.decimal,
            index_col=False,
            low_memory=False,
        )
    return found


def _text_chunks(source: Path, most_cells: int, as_text: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield the rows of a text file, some at a time."""
    pd = import_extra("pandas")
    with _text_errors(repr(str(source))):
        form = form_of(_sample(source))
        options: dict[str, Any] = {
            "sep": form.separator,
            "decimal": form.decimal,
            "index_col": False,
            "low_memory": False,
        }
        names = pd.read_csv(source, nrows=0, **options).columns
        options["dtype"] = {name: str for name in as_text if name in names}
        rows = max(1, most_cells // max(1, len(names)))
        with pd.read_csv(source, chunksize=rows, **options) as reader:
            yield from reader


@contextmanager
def _text_errors(name: str) -> Iterator[None]:
    """Turn what pandas raises on a text file into one line; `name` is how it calls the file."""
    pd = import_extra("pandas")
    try:
        with warnings.catch_warnings():
            # Otherwise rows longer than the header would lose cells with only a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
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
    pd = import_extra("pandas")
    with _parquet_errors(source):
        found: Any = pd.read_parquet(source)
    return found


def _parquet_chunks(source: Path, most_cells: int) -> Iterator[pd.DataFrame]:
    """Yield the rows of a Parquet file, some at a time."""
    parquet = import_extra("pyarrow.parquet")
    with _parquet_errors(source), parquet.ParquetFile(source) as file:
        rows = max(1, most_cells // max(1, len(file.schema_arrow.names)))
        for batch in file.iter_batches(batch_size=rows):
            yield batch.to_pandas()


@contextmanager
def _parquet_errors(source: Path) -> Iterator[None]:
    pyarrow = import_extra("pyarrow")
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{str(source)!r} cannot be read as Parquet: {error}") from None
