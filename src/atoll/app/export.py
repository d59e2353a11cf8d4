"""The table with its labels as a new file, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from atoll.app.items import Rows
from atoll.core.extras import import_extra
from atoll.core.tables import Form, check_table_path, form_of, write_table

if TYPE_CHECKING:
    import pandas as pd

    from atoll.app.session import Session
    from atoll.app.store import Answers

_SAMPLE = 2**16  # characters at the start of a file from which its form is found


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


def labelled_table(rows: Rows, answers: Answers) -> pd.DataFrame:
    """Return the user's table with the target column filled in as far as answers go."""
    frame = _cells_as_they_are(rows)
    labels = rows.given.labels.copy()
    for row, event in answers.given.items():
        if event.kind == "label":
            labels[row] = event.label
    frame[rows.target] = _in_type(labels, rows.given.kind)
    return frame


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
    frame = labelled_table(rows, session.log.answers)
    if with_predictions:
        names = np.array([*snapshot.classes, None], dtype=object)
        known = snapshot.codes >= 0
        frame[f"{rows.target}_predicted"] = _in_type(names[snapshot.codes], rows.given.kind)
        frame[f"{rows.target}_probability"] = np.where(known, snapshot.sureness, np.nan)
    write_table(frame, check_export_path(path, rows))
    return int(frame[rows.target].notna().sum())


def _cells_as_they_are(rows: Rows) -> pd.DataFrame:
    """Return the table; cells of a text file are as it writes them, so that 1.10 stays 1.10.

    A file with another separator, or with decimal commas, is exported in the usual form.
    """
    usual = {".csv": Form(",", "."), ".tsv": Form("\t", ".")}.get(rows.path.suffix.lower())
    if rows.is_folder or usual is None:
        return rows.frame.copy()
    with rows.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        if form_of(file.read(_SAMPLE)) != usual:
            return rows.frame.copy()
    pd = import_extra("pandas")
    frame = pd.read_csv(
        rows.path, sep=usual.separator, dtype=str, keep_default_na=False, index_col=False
    )
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
        return pd.array([None if v is None else v == "True" for v in labels], dtype="boolean")
    return np.array(labels, dtype=object)
