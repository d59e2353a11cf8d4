"""Arguments and options that several commands share.

A path that does not exist is refused as it is parsed, before anything slow is imported.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.terminal import BAD_INPUT, complain
from atoll.core.near_names import no_file
from atoll.core.overwriting import MODEL, TABLE, kind_of

STANDARD_INPUT = "-"
TABLES = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")  # endings


def data_path(path: Path | None) -> Path | None:
    """Return the path of a table that exists, or of standard input; refuse any other."""
    found = _there(path, "file", "a table inside it")
    if found is not None and kind_of(found) == MODEL:
        raise _refusal(f"{str(found)!r} is an atoll model, not a table; name the table of rows.")
    return found


def model_path(context: typer.Context, path: Path | None) -> Path | None:
    """Return the path of a model file that exists; refuse any other."""
    found = _there(path, "model file", "a model file inside it")
    if found is not None and found.name.lower().endswith(TABLES) and kind_of(found) == TABLE:
        takes = [p for p in context.command.params if p.param_type_name == "argument"]
        order = " ".join(p.metavar or str(p.name).upper() for p in takes)
        how = (
            f"give the model first: {context.command_path} {order}"
            if len(takes) > 1
            else "fit a model to it first, with `atoll fit`"
        )
        raise _refusal(f"{str(found)!r} is a table, not a model; {how}.")
    return found


def number_of_jobs(n_jobs: int | None) -> int | None:
    """Return the number of processes; refuse 0."""
    if n_jobs == 0:
        raise _refusal("--n-jobs 0: give a number of processes, or -1 for one on each core.")
    return n_jobs


def _there(path: Path | None, what: str, inside: str) -> Path | None:
    if path is None or (str(path) == STANDARD_INPUT and what == "file"):
        return path
    if not path.exists():
        raise _refusal(no_file(path, what))
    if path.is_dir():
        raise _refusal(f"{str(path)!r} is a folder; name {inside}.")
    return path


def _refusal(message: str) -> Exception:
    """Say what is wrong in one line, as `one_line_errors` does for errors inside a command."""
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
    str | None,
    typer.Option(
        "--target", metavar="COLUMN", help="Column of labels; that of the fit by default."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but warnings and errors.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of every random number.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--n-jobs",
        "--jobs",
        metavar="N",
        help="Processes to use at once; -1 is one for each core.",
        callback=number_of_jobs,
    ),
]
