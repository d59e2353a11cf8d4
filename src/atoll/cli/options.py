"""Arguments and options that several commands share.

A path that is not there is refused as it is read, before anything slow is imported.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.terminal import BAD_INPUT, complain

STANDARD_INPUT = "-"


def data_path(path: Path | None) -> Path | None:
    """Return the path of a table that is there, or of standard input."""
    return _there(path, "file", "a table inside it")


def model_path(path: Path | None) -> Path | None:
    """Return the path of a model file that is there."""
    return _there(path, "model file", "a model file inside it")


def _there(path: Path | None, what: str, inside: str) -> Path | None:
    if path is None or (str(path) == STANDARD_INPUT and what == "file"):
        return path
    if not path.exists():
        raise _refusal(f"there is no {what} {str(path)!r}; check the path.")
    if path.is_dir():
        raise _refusal(f"{str(path)!r} is a folder; name {inside}.")
    return path


def _refusal(message: str) -> Exception:
    """Say what is wrong in a line, as `one_line_errors` does for what a command itself raises."""
    if os.environ.get("ATOLL_TRACEBACK"):
        return ValueError(message)
    complain(message)
    return typer.Exit(BAD_INPUT)


DataPath = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table of rows, .csv, .tsv or .parquet; - for standard input.",
        callback=data_path,
    ),
]
ModelPath = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="Model saved by `atoll fit` or `save_model`.", callback=model_path
    ),
]
TargetOfModel = Annotated[
    str | None, typer.Option("--target", help="Column of labels; that of the fit by default.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but warnings and errors.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random number.")]
Jobs = Annotated[
    int | None,
    typer.Option("--n-jobs", "--jobs", help="Processes to use at once; -1 is one for each core."),
]
