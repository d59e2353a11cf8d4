"""The table with its labels as a new file, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from atoll.app.items import Rows
from atoll.core.extras import import_extra
from atoll.core.tables import (
    check_table_path,
    form_in,
    is_parquet_path,
    read_cells,
    write_table,
)

if TYPE_CHECKING:
    import pandas as pd

    from atoll.app.session import Session
    from atoll.app.store import Answers


def default_export_path(data: Path) -> Path:
    """Return the file that the page's export writes: beside the data, with ".labelled" in its name.

    Examples
    --------
    >>> default_export_path(Path("birds/table.csv.gz")).as_posix()
    'birds/table.labelled.csv.gz'
    >>> default_export_path(Path("birds")).as_posix()
    'birds.labelled.csv'
    """
    endings = (".csv.gz", ".tsv.gz", ".csv", ".tsv", ".parquet")
    ending = next((e for e in endings if data.name.lower().endswith(e)), "")
    stem = data.name[: len(data.name) - len(ending)]
    return data.parent / f"{stem}.labelled{ending or '.csv'}"


def check_export_path(
    path: str | os.PathLike[str], rows: Rows, inputs: Iterable[Path | None] = ()
) -> Path:
    """Return the path if a table can be written there without overwriting the user's data.

    Parameters
    ----------
    inputs : other files that must not be overwritten
    """
    target = Path(path)
    check_table_path(target, inputs, "--export")
    if target.exists() and not rows.is_folder and target.samefile(rows.path):
        raise ValueError(
            f"{str(target)!r} is the data itself, which is never written; name another."
        )
    return target


def labelled_table(rows: Rows, answers: Answers, path: Path) -> pd.DataFrame:
    """Return the user's table with the answers in its target column; all other cells stay.

    Parameters
    ----------
    rows, answers : of the session
    path : that the table is for: cells of a text file are as it writes them, so that 1.10 stays
        1.10, unless they are for Parquet, where numbers are numbers
    """
    given = {row: event.label for row, event in answers.given.items() if event.kind == "label"}
    is_text = not rows.is_folder and not is_parquet_path(rows.path)
    if is_text and not is_parquet_path(path):
        frame = _cells_as_they_are(rows)
        labels = frame[rows.target] if rows.target in frame else [""] * len(frame)
        frame[rows.target] = [given.get(row, label) for row, label in enumerate(labels)]
        return frame
    frame = rows.frame.copy()
    labels = [None] * len(frame)
    if rows.target in frame:
        labels = frame[rows.target].astype(object).where(frame[rows.target].notna(), None)
    labels = [given.get(row, label) for row, label in enumerate(labels)]
    frame[rows.target] = _in_type(labels, rows.given.kind)
    return frame


def write_labels(
    rows: Rows, answers: Answers, path: Path, more: Mapping[str, Any] | None = None
) -> int:
    """Write the table with its labels to a file, in its own form; return how many labels it has.

    Parameters
    ----------
    rows, answers, path : as in `labelled_table`
    more : columns to add
    """
    frame = labelled_table(rows, answers, path).assign(**(more or {}))
    write_table(frame, path, None if rows.is_folder else form_in(rows.path))
    n_here = sum(event.kind == "label" for event in answers.given.values())
    return n_here + sum(label is not None for label in rows.given.labels)


def export_labels(session: Session, path: Path, with_predictions: bool = False) -> int:
    """Write the table with its labels to a file; return how many labels it has.

    Parameters
    ----------
    session : Session
    path : .csv or .parquet file
    with_predictions : bool, default=False
        Whether to add the class that the model predicts for every row, and its probability.
    """
    rows, snapshot = session.rows, session.snapshot
    more = {}
    if with_predictions:
        names = np.array([*snapshot.classes, None], dtype=object)
        known = snapshot.codes >= 0
        more[f"{rows.target}_predicted"] = _in_type(names[snapshot.codes], rows.given.kind)
        more[f"{rows.target}_probability"] = np.where(known, snapshot.sureness, np.nan)
    return write_labels(rows, session.log.answers, check_export_path(path, rows), more)


def _cells_as_they_are(rows: Rows) -> pd.DataFrame:
    """Return the cells of a text file as it writes them."""
    frame = read_cells(rows.path)
    if len(frame) != len(rows.frame):
        raise ValueError(
            f"{str(rows.path)!r} has changed while it was being labelled; put the earlier file "
            "back."
        )
    return frame


def _in_type(labels: Any, kind: str) -> Any:
    """Return labels in the type of those in the file, null where there is none."""
    pd = import_extra("pandas")
    if kind == "whole":
        return pd.array([None if v is None else int(v) for v in labels], dtype="Int64")
    if kind == "boolean":
        return pd.array([None if v is None else str(v) == "True" for v in labels], dtype="boolean")
    return np.array(labels, dtype=object)
