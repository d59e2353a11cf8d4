"""What output may not overwrite: files that are being read, and files of another kind."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path

from atoll.core.files import check_writable

MODEL = "an atoll model"
PAGE = "a web page"
TABLE = "a table"

LEARNER = "atoll active learner"
"""Marks a model file that holds an active learner, and with it a person's answers."""

_OF_TABLES = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")
_OF_PAGES = (".html", ".htm")
_N_BYTES = 512  # at the start of a file, from which its kind is told
_MODEL_BEGINS = b"atoll model, "
_PAGE_BEGINS = (b"<!doctype html", b"<html")
_PARQUET_BEGINS, _GZIP_BEGINS = b"PAR1", b"\x1f\x8b"


def check_output(
    path: str | os.PathLike[str],
    kind: str,
    inputs: Iterable[str | os.PathLike[str] | None] = (),
    option: str = "",
) -> None:
    r"""Raise a ValueError unless a file can be written without losing another; call it early.

    A file of the same kind may be overwritten, since it can be made again, unless it is an input. A
    new one may not be named like another kind.

    Parameters
    ----------
    path : of the file to write
    kind : MODEL, PAGE or TABLE
    inputs : files that are read; None, and paths without a file, are skipped
    option : of the command line that would name another file, such as "--out"

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = path.write_text("x,label\n1,a\n")
    >>> check_output(path, TABLE)
    >>> check_output(path, MODEL)
    Traceback (most recent call last):
    ValueError: ...table.csv' is there already and is not an atoll model...
    >>> check_output(path.with_name("report.pdf"), PAGE)
    Traceback (most recent call last):
    ValueError: ...report.pdf' would hold a web page: name a file that ends in .html.
    """
    target = Path(path)
    check_writable(target)
    other = f"name another file with {option}" if option else "name another file"
    if not target.exists():
        _refuse_ending(target, kind, other)
        return
    for given in inputs:
        if given is not None and Path(given).exists() and target.samefile(given):
            raise ValueError(
                f"{str(target)!r} would be overwritten, and this command reads it; {other}."
            )
    found = kind_of(target)
    if found not in (None, kind):
        what = f"is not {kind}" if found == TABLE or not found else f"holds {found}, not {kind}"
        raise ValueError(
            f"{str(target)!r} is there already and {what}; {other}, or delete it first."
        )


def _refuse_ending(target: Path, kind: str, other: str) -> None:
    """Raise a ValueError for the name of a model or a page that promises something else."""
    name, shown = target.name.lower(), repr(str(target))
    if kind != TABLE and name == "-":  # it would be mistaken for standard input ever after
        raise ValueError(f"{kind} is not written to standard output; {other}.")
    if kind == MODEL and name.endswith((*_OF_TABLES, *_OF_PAGES)):
        as_what = PAGE if name.endswith(_OF_PAGES) else TABLE
        raise ValueError(f"{shown} is named like {as_what}, and would hold {kind}; {other}.")
    if kind == PAGE and target.suffix and not name.endswith(_OF_PAGES):
        raise ValueError(f"{shown} would hold {kind}: name a file that ends in .html.")


def kind_of(path: Path) -> str | None:
    """Return MODEL, PAGE, TABLE, "" for anything else, or None for an empty file.

    Any text may be a table.
    """
    if not path.is_file():
        return None  # such as a pipe, of which nothing may be read here
    with path.open("rb") as file:
        begins = file.read(_N_BYTES)
    if not begins:
        return None
    if begins.startswith(_MODEL_BEGINS):
        return MODEL
    if begins.lstrip().lower().startswith(_PAGE_BEGINS):
        return PAGE
    is_text = b"\0" not in begins or begins[:2] in (b"\xff\xfe", b"\xfe\xff")  # UTF-16 has zeros
    return TABLE if is_text or begins.startswith((_PARQUET_BEGINS, _GZIP_BEGINS)) else ""


def holds_learner(path: str | os.PathLike[str]) -> bool:
    """Return whether the path is that of a file with a learner in it."""
    if not Path(path).is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return LEARNER.encode() in archive.read("schema.json")
    except (OSError, KeyError, zipfile.BadZipFile):
        return False
