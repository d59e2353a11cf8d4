"""Tables in files: read and written, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shlex
import sys
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeGuard

from atoll.core.extras import import_extra
from atoll.core.files import atomic_path
from atoll.core.near_names import no_file
from atoll.core.number_texts import pandas_reads_every_digit, without_decimals
from atoll.core.overwriting import TABLE, check_output
from atoll.core.table_forms import Form, form_of

if TYPE_CHECKING:
    import pandas as pd

STANDARD_INPUT = "-"
"""The path that stands for standard input."""

STANDARD_OUTPUT = "-"
"""The path that stands for standard output, to which CSV is written."""

_PACKAGES = {"csv": ("pandas",), "tsv": ("pandas",), "parquet": ("pandas", "pyarrow")}
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_SAMPLE = 2**16  # bytes at the start of a file from which its form is found
_ALL = 2**31 - 1  # rows: as many as pandas reads at a time

N_CELLS = "\0cells"
"""Name of a column with the number of cells of rows that have more than the header; else blank."""


MOST_MORE = 1000
"""Most cells that a row may have beyond the header; a file with more is not such a table."""


class LongRow(ValueError):
    """A row has `n_more` cells more than the header."""

    def __init__(self, message: str, n_more: int):
        super().__init__(message)
        self.n_more = n_more


GZIP = b"\x1f\x8b"  # the first bytes of compressed text
_NULLABLE = [f"{sign}Int{size}" for sign in ("", "U") for size in (8, 16, 32, 64)]
_OWN_TYPES = {f"{kind.lower()}[pyarrow]": kind for kind in _NULLABLE} | {"bool[pyarrow]": "boolean"}
_FORMATS = {  # by the first bytes of a file
    b"PAR1": "is a Parquet file; it needs a name that ends in .parquet",
    GZIP: "is compressed by gzip; it needs a name that ends in .csv.gz",
    b"PK\x03\x04": "is a spreadsheet or a zip archive; save the table as CSV",
    b"\xd0\xcf\x11\xe0": "is a spreadsheet; save the table as CSV",
    b"BZh": "is compressed by bzip2; unpack it, or compress it by gzip",
    b"\xfd7zXZ": "is compressed by xz; unpack it, or compress it by gzip",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd; unpack it, or compress it by gzip",
    b"ARROW1": "is an Arrow file; save the table as Parquet or CSV",
    b"atoll model, ": "is a model of atoll, not a table",
}
_MARK = 16  # bytes by which a format is told


def source_of(path: str | os.PathLike[str]) -> Path | bytes:
    """Return what a table can be read from repeatedly: its path, or the bytes of standard input."""
    source = Path(path)
    if str(source) != STANDARD_INPUT:
        return source
    found = sys.stdin.buffer.read()
    if not found.startswith(GZIP):
        return found
    try:
        return gzip.decompress(found)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"standard input is broken gzip ({error}); mend the file.") from None


def read_table(path: str | os.PathLike[str] | bytes) -> pd.DataFrame:
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
    source = path if isinstance(path, bytes) else source_of(path)
    frame = _read_parquet(source) if _is_parquet(source) else _read_text(source)
    frame.columns = frame.columns.map(str)
    if len(frame) == 0:
        raise _no_rows(source)
    return frame


def read_cells(path: str | os.PathLike[str] | bytes) -> pd.DataFrame:
    r"""Read the cells of a table as they are written in the file.

    The cells of a text file are strings, even blank ones: `000` and `NA` stay as they are. Those of
    Parquet keep their types, even whole numbers beside blank cells.

    Examples
    --------
    >>> read_cells(b"id,x\n007,NA\n").to_dict("list")
    {'id': ['007'], 'x': ['NA']}
    """
    pd = import_extra("pandas")
    return pd.concat(cell_chunks(path, 2**62), ignore_index=True)


def column_as_written(path: str | os.PathLike[str] | bytes, place: int) -> pd.Series | None:
    r"""Return a column of a text file, by its place, as `read_cells` does; None for Parquet.

    Examples
    --------
    >>> column_as_written(b"id,x\n007,NA\n", 1).tolist()
    ['NA']
    """
    pd = import_extra("pandas")
    source = path if isinstance(path, bytes) else Path(path)
    if _is_parquet(source):
        return None
    with _text_errors(source):
        form = form_of(_sample(source))
        found: Any = pd.read_csv(
            _opened(source),
            sep=form.separator,
            skiprows=form.n_above,
            usecols=[place],
            index_col=False,
            dtype=str,
            keep_default_na=False,
        )
    return found.iloc[:, 0]


def form_in(path: str | os.PathLike[str] | bytes) -> Form | None:
    r"""Return how a text file is written; None for Parquet.

    Cells as they are written, with a decimal comma perhaps, are read alike from a file that is
    written so.

    Examples
    --------
    >>> form_in(b"x;kind\n1,5;a\n").decimal
    ','
    """
    source = path if isinstance(path, bytes) else Path(path)
    return None if _is_parquet(source) else form_of(_sample(source))


def is_parquet_path(path: str | os.PathLike[str]) -> bool:
    """Return whether a table of this name is a Parquet file, whose cells have types."""
    return _table_format(Path(path)) == "parquet"


def repeated_names(path: str | os.PathLike[str] | bytes) -> dict[str, list[int]]:
    r"""Return the places of columns that share a name in the header of a text file, by that name.

    Examples
    --------
    >>> repeated_names(b"x,kind,x\n1,a,2\n")
    {'x': [0, 2]}
    """
    source = path if isinstance(path, bytes) else Path(path)
    if _is_parquet(source):
        return {}
    text = _sample(source)
    form, lines = form_of(text), text.splitlines()
    header = next(csv.reader(lines[form.n_above :], delimiter=form.separator), [])
    places: dict[str, list[int]] = {}
    for place, name in enumerate(header):
        places.setdefault(name, []).append(place)
    return {name: found for name, found in places.items() if name and len(found) > 1}


def cell_chunks(
    path: str | os.PathLike[str] | bytes, most_cells: int, *, n_more: int = 0
) -> Iterator[pd.DataFrame]:
    """Read cells as `read_cells` does, the rows of `table_chunks` at a time."""
    source = path if isinstance(path, bytes) else source_of(path)
    if _is_parquet(source):
        yield from _parquet_chunks(source, most_cells, as_written=True)
    else:
        yield from _text_chunks(source, most_cells, as_written=True, n_more=n_more)


def table_chunks(
    path: str | os.PathLike[str] | bytes,
    most_cells: int,
    *,
    as_text: Sequence[str] = (),
    n_more: int = 0,
) -> Iterator[pd.DataFrame]:
    r"""Read a table as `read_table` does, some rows at a time; standard input all at once.

    Parameters
    ----------
    path : of the table, or its bytes
    most_cells : of a chunk, which has at least one row
    as_text : columns that are never read as numbers, even if a chunk of them looks like numbers
    n_more : cells that a row of a text file may have beyond the header; a column `N_CELLS` says
        which rows have some. A row with more raises `LongRow`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("x,y\n1,2\n3,4\n5,6\n")
    >>> [len(frame) for frame in table_chunks(path, 4)]
    [2, 1]
    """
    source = path if isinstance(path, bytes) else source_of(path)
    if _is_parquet(source):
        read = _parquet_chunks(source, most_cells)
    else:
        read = _text_chunks(source, most_cells, as_text, n_more=n_more)
    n = 0
    for frame in read:
        frame.columns = frame.columns.map(str)
        n += len(frame)
        if len(frame):
            yield frame
    if n == 0:
        raise _no_rows(source)


class TableWriter:
    """A table that is written piece by piece, whole or not at all, in the format of its suffix.

    To standard output (`-`) it is written as CSV, as it comes. CSV has the separator of the given
    form, or a comma; text has its decimal mark, or a point.

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

    def __init__(self, path: str | os.PathLike[str], form: Form | None = None):
        self.path = Path(path)
        self.kind = _table_format(self.path)
        own = _SEPARATORS.get(self.kind, ",")
        form = Form(own, ".") if form is None else form
        self.separator = form.separator if self.kind == "csv" else own
        self.decimal = form.decimal

    def __enter__(self) -> Self:
        self._ending = ExitStack()
        self._file: Any = None
        if not _is_standard_output(self.path):
            self._temporary = self._ending.enter_context(atomic_path(self.path))
        return self

    def __exit__(self, *error: Any) -> None:
        self._ending.__exit__(*error)

    def write(self, frame: pd.DataFrame) -> None:
        """Add rows, with the same columns every time."""
        if self.kind == "parquet":
            self._write_parquet(frame)
            return
        is_first = self._file is None
        settings: Any = {"index": False, "header": is_first, "sep": self.separator}
        settings["decimal"] = self.decimal
        if _is_standard_output(self.path):
            self._file = sys.stdout
            _to_standard_output(frame.to_csv(**settings))
            return
        if is_first:
            opened: Any = gzip.open if _is_compressed(self.path) else open
            file = opened(self._temporary, "wt", encoding="utf-8", newline="")
            self._file = self._ending.enter_context(file)
        frame.to_csv(self._file, **settings)

    def _write_parquet(self, frame: pd.DataFrame) -> None:
        pyarrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
        try:
            if self._file is None:
                table = _readable(pyarrow.Table.from_pandas(frame, preserve_index=False))
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


def _readable(table: Any) -> Any:
    """Return a table of Arrow that pandas reads in its own types, where it has such.

    Cells of another Parquet file are noted in words that pandas cannot always read itself.
    """
    noted = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    if not noted:
        return table
    named = [(column, column["numpy_type"]) for column in noted["columns"]]
    kept = [
        column | {"numpy_type": _OWN_TYPES.get(kind, kind)}
        for column, kind in named
        if kind in _OWN_TYPES or not kind.endswith("[pyarrow]")
    ]
    metadata = {**table.schema.metadata, b"pandas": json.dumps(noted | {"columns": kept}).encode()}
    return table.replace_schema_metadata(metadata)


def _to_standard_output(text: str) -> None:
    """Write text as to a file: in UTF-8, whatever the terminal's encoding, its line ends as is."""
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(text.encode())
    else:
        sys.stdout.write(text)


def write_table(
    frame: pd.DataFrame, path: str | os.PathLike[str], form: Form | None = None
) -> None:
    """Write a table, whole or not at all, in the format of the path's suffix.

    To standard output (`-`) it is written as CSV. Text is written in the given form, as
    `TableWriter` does.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers.parquet"
    >>> write_table(pd.DataFrame({"x": [0.1, 0.2]}), path)
    >>> read_table(path)["x"].tolist()
    [0.1, 0.2]
    """
    with TableWriter(path, form) as table:
        table.write(frame)


def check_table_path(
    path: str | os.PathLike[str],
    inputs: Iterable[str | os.PathLike[str] | None] = (),
    option: str = "",
) -> None:
    """Raise a ValueError unless `write_table` can write to the path without losing another file.

    Parameters
    ----------
    path : of the table to write
    inputs : files that are read, which may not be overwritten; None is skipped
    option : of the command line that would name another file, such as "--out"
    """
    _table_format(Path(path))
    if not _is_standard_output(Path(path)):
        check_output(path, TABLE, inputs, option)


def _is_standard_output(path: Path) -> bool:
    return str(path) == STANDARD_OUTPUT


def _is_compressed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _table_format(path: Path) -> str:
    """Return "csv", "tsv" or "parquet"; of standard output "csv"."""
    if _is_standard_output(path):
        import_extra("pandas")
        return "csv"
    suffix = Path(path.stem).suffix if _is_compressed(path) else path.suffix
    kind = suffix.lower().removeprefix(".")
    if kind not in _PACKAGES or (_is_compressed(path) and kind == "parquet"):
        save = "; save the spreadsheet as CSV" if kind in ("xlsx", "xls", "ods") else ""
        raise ValueError(
            f"{str(path)!r} does not end in .csv, .tsv or .parquet (or .csv.gz, .tsv.gz); tables "
            f"are read and written in these formats{save}."
        )
    for package in _PACKAGES[kind]:
        import_extra(package)
    return kind


def _is_parquet(source: Path | bytes) -> TypeGuard[Path]:
    """Return whether this is a Parquet file, not text; ValueError if there is no such file."""
    if isinstance(source, bytes):
        return False
    kind = _table_format(source)
    if not source.exists():
        raise ValueError(no_file(source))
    if source.is_dir():
        raise ValueError(f"{str(source)!r} is a folder; name a CSV or Parquet file inside it.")
    return kind == "parquet"


def _name(source: Path | bytes) -> str:
    """Return what errors call a table."""
    return "standard input" if isinstance(source, bytes) else repr(str(source))


def _no_rows(source: Path | bytes) -> ValueError:
    return ValueError(f"{_name(source)} has no rows; it needs a header and at least one row.")


def _read_text(source: Path | bytes) -> pd.DataFrame:
    """Read a table from a file or from its bytes."""
    pd = import_extra("pandas")
    _refuse_other_formats(source)
    with _text_errors(source):
        form = form_of(_sample(source))
        found: Any = pd.read_csv(
            _opened(source),
            sep=form.separator,
            decimal=form.decimal,
            thousands=form.thousands,
            skiprows=form.n_above,
            index_col=False,
            low_memory=False,
            **exact_numbers(),
        )
    return found


def exact_numbers() -> dict[str, str]:
    """Return what `pandas.read_csv` has to be told so that it reads numbers to the last digit."""
    return {} if pandas_reads_every_digit() else {"float_precision": "round_trip"}


def _opened(source: Path | bytes) -> Any:
    return io.BytesIO(source) if isinstance(source, bytes) else source


def _text_chunks(
    source: Path | bytes,
    most_cells: int,
    as_text: Sequence[str] = (),
    *,
    as_written: bool = False,
    n_more: int = 0,
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a text file, some at a time; `as_written`: every cell as a string."""
    pd = import_extra("pandas")
    _refuse_other_formats(source)
    with _text_errors(source):
        form = form_of(_sample(source))
        options: dict[str, Any] = {
            "sep": form.separator,
            "decimal": form.decimal,
            "thousands": form.thousands,
            "skiprows": form.n_above,
            "index_col": False,
            "low_memory": False,
            **exact_numbers(),
        }
        names = pd.read_csv(_opened(source), nrows=0, **options).columns
        options["dtype"] = {name: str for name in as_text if name in names}
        if as_written:
            options |= {"dtype": str, "keep_default_na": False}
        if n_more:
            more = more_columns(n_more)
            options |= {"names": [*names, *more], "header": None, "skiprows": form.n_above + 1}
        rows = _ALL if isinstance(source, bytes) else _rows_of(most_cells, len(names))
        with pd.read_csv(_opened(source), chunksize=rows, **options) as reader:
            for frame in reader:
                yield with_length(frame, n_more)


def _rows_of(most_cells: int, n_columns: int) -> int:
    """Return how many rows of `n_columns` cells are read at a time, at least one."""
    return min(max(1, most_cells // max(1, n_columns)), _ALL)


def more_columns(n_more: int) -> list[str]:
    """Return names of columns for cells beyond the header."""
    return [f"{N_CELLS} {i}" for i in range(n_more)]


def with_length(frame: pd.DataFrame, n_more: int) -> pd.DataFrame:
    """Return the columns of the header, and `N_CELLS`, the number of cells of rows with more.

    Parameters
    ----------
    frame : with the columns of `more_columns` at its end
    n_more : how many these are; with 0 the frame itself is returned
    """
    if not n_more:
        return frame
    n_cells = frame.shape[1] - n_more
    more = frame.iloc[:, n_cells:]
    more = more.mask(more == "")  # separators at the end of a line make no cells
    last = more.notna().to_numpy()[:, ::-1].argmax(axis=1)
    is_long = more.notna().any(axis=1)
    lengths = import_extra("pandas").Series(frame.shape[1] - last, frame.index, dtype="Int64")
    return frame.iloc[:, :n_cells].assign(**{N_CELLS: lengths.where(is_long)})


@contextmanager
def _text_errors(source: Path | bytes) -> Iterator[None]:
    """Turn what pandas raises on a text file into one line, which names the file."""
    pd, name = import_extra("pandas"), _name(source)
    try:
        with warnings.catch_warnings():
            # Otherwise rows longer than the header would lose cells with only a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except pd.errors.EmptyDataError:
        raise ValueError(f"{name} is empty; it needs a header and rows.") from None
    except pd.errors.ParserWarning:
        first = _sample(source).partition("\n")[0].strip()
        if first.startswith("#") or not any(mark in first for mark in ",;\t|"):
            raise ValueError(
                f"{name} begins with {first[:40]!r}, which seems not to be the header: delete the "
                "lines above the names of the columns."
            ) from None
        raise ValueError(
            f"{name} has rows with more cells than its header: name every column in its first "
            "line, or put cells that hold a separator in quotation marks."
        ) from None
    except (pd.errors.ParserError, UnicodeError, gzip.BadGzipFile, EOFError) as error:
        raise unreadable_text(name, error) from None


def unreadable_text(name: str, error: Exception) -> ValueError:
    """Return what pandas raised on a text file as an error of one sentence, about `name`."""
    if isinstance(error, UnicodeDecodeError):
        return _not_utf8(name, (utf16_of(error.object) if error.start == 0 else "") or "latin1")
    opened = re.search(r"EOF inside string starting at row (\d+)", str(error))
    if opened is not None:  # the header is row 0
        return ValueError(
            f"{name} has a quotation mark that is never closed, in row {opened[1]} under the "
            "header: close it, or delete it."
        )
    long = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if long is None:
        return ValueError(f"{name} cannot be read as CSV ({error}); save the table as CSV again.")
    wanted, line, seen = map(int, long.groups())
    columns = f"{wanted} columns: mend that line"
    if wanted == 1:
        columns = "1 column, by its first line: delete lines above the names of the columns"
    return LongRow(
        f"{name} has {seen} cells in line {line}, and {columns}, or put cells that hold a "
        "separator in quotation marks.",
        seen - wanted,
    )


def _not_utf8(name: str, code: str) -> ValueError:
    """Return an error for text in another code, by the name that iconv has for it."""
    file = "IN.csv" if name == "standard input" else shlex.quote(name[1:-1])
    return ValueError(
        f"{name} is not written in UTF-8: save it as UTF-8, or run `iconv -f {code} -t utf8 "
        f"{file} > OUT.csv` and name OUT.csv."
    )


def utf16_of(begins: bytes) -> str:
    """Return the form of UTF-16 that a text is in, by its first bytes; empty if in none.

    Without a mark of their order it is told by letters of ASCII, which have a zero beside them.

    Examples
    --------
    >>> [utf16_of("x,y".encode(code)) for code in ("utf-16", "utf-16-le", "utf-16-be", "utf-8")]
    ['utf-16', 'utf-16le', 'utf-16be', '']
    """
    if begins[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    first, second = begins[0:_MARK:2], begins[1:_MARK:2]
    if second and all(first) and not any(second):
        return "utf-16le"
    return "utf-16be" if second and all(second) and not any(first) else ""


def _other_format(begins: bytes) -> str:
    """Return what a file is that is no text, and what to do about it; empty if that is not known.

    Examples
    --------
    >>> _other_format(b"PAR1...")
    'is a Parquet file; it needs a name that ends in .parquet'
    """
    for mark, what in _FORMATS.items():
        if begins.startswith(mark):
            return what
    return ""


def _refuse_other_formats(source: Path | bytes) -> None:
    """Raise a ValueError that says what a file is where it is no text."""
    begins = source[:_MARK] if isinstance(source, bytes) else b""
    if isinstance(source, Path) and source.is_file() and not _is_compressed(source):
        with source.open("rb") as file:
            begins = file.read(_MARK)
    other = _other_format(begins)
    if other:
        raise ValueError(f"{_name(source)} {other}.")
    code = utf16_of(begins)
    if code:
        raise _not_utf8(_name(source), code)


def _sample(source: Path | bytes) -> str:
    """Return the beginning of a text file; if the file is longer, up to the end of a line."""
    if isinstance(source, bytes):
        some = source[:_SAMPLE]
    else:
        with (gzip.open if _is_compressed(source) else open)(source, "rb") as file:
            some = file.read(_SAMPLE)
    text = some.decode("utf-8-sig", errors="replace")
    return text.rpartition("\n")[0] if len(some) == _SAMPLE else text


def _read_parquet(source: Path) -> pd.DataFrame:
    pd = import_extra("pandas")
    with _parquet_errors(source):
        found: Any = without_decimals(pd.read_parquet(source))
    return found


def _parquet_chunks(
    source: Path, most_cells: int, *, as_written: bool = False
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a Parquet file, some at a time; `as_written`: in the file's own types."""
    parquet = import_extra("pyarrow.parquet")
    types = import_extra("pandas").ArrowDtype if as_written else None
    with _parquet_errors(source), parquet.ParquetFile(source) as file:
        rows = _rows_of(most_cells, len(file.schema_arrow.names))
        for batch in file.iter_batches(batch_size=rows):
            frame = batch.to_pandas(types_mapper=types)
            yield frame if as_written else without_decimals(frame)


@contextmanager
def _parquet_errors(source: Path) -> Iterator[None]:
    pyarrow = import_extra("pyarrow")
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise unreadable_parquet(repr(str(source)), error) from None


def unreadable_parquet(name: str, error: Exception) -> ValueError:
    """Return what pyarrow raised on a Parquet file as an error of one sentence, about `name`."""
    return ValueError(
        f"{name} cannot be read as Parquet ({error}); copy it again from its source, or save the "
        "table as CSV."
    )
