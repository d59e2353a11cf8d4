"""The rows to label, as a person sees them: cells, a text, a picture or a sound.

The page asks for a row by its number, never by a path. The file behind it is looked up in the
table, and must lie in the folder of media after every link has been followed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.app.store import Subject, check_class_name
from atoll.core.extras import import_extra
from atoll.core.labels import parse_labels, read_target
from atoll.core.markers import is_null, markers_of
from atoll.core.near_names import near_name
from atoll.core.null_words import NULL_WORDS, about_words, with_words
from atoll.core.remarks import warn_user
from atoll.core.table_refusals import is_numeric
from atoll.core.tables import STANDARD_INPUT, read_table

if TYPE_CHECKING:
    import pandas as pd

# No SVG: it may hold scripts.
PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
}
SOUNDS = {
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
}
MEDIA = {"image": PICTURES, "audio": SOUNDS}
FILE_COLUMN = "file"
"""The column that a folder of pictures has as a table."""

MOST_WORDS, MOST_NUMBERS = 1000, 200  # as classes: more are names of rows, or measurements
_LONG_TEXT = 40  # average number of characters from which on a column of words is a text
_MOST_CELLS, _MOST_CELL, _MOST_TEXT = 100, 500, 50_000  # shown: columns, and characters of each


class View(NamedTuple):
    """How rows are shown.

    kind : "table", "text", "image" or "audio"
    column : of the text or of the paths; None for a table
    folder : that the files lie in, with links resolved; None without files
    """

    kind: str
    column: str | None = None
    folder: Path | None = None


class Given(NamedTuple):
    """The labels that the data come with, as words.

    labels : (n,) each a word or None
    classes : in the order in which they are shown
    kind : "text", "whole" (numbers) or "boolean": what the words stand for in the file
    """

    labels: NDArray[Any]
    classes: tuple[str, ...]
    kind: str


class Rows(NamedTuple):
    """The data of a session of labelling.

    path : of the table or the folder
    frame : (n, q) with the target column, if the file has one
    target : the column of labels
    view : how rows are shown
    given : the labels in the file
    unseen : row -> why it cannot be shown; such rows are not asked about
    """

    path: Path
    frame: pd.DataFrame
    target: str
    view: View
    given: Given
    unseen: dict[int, str]

    @property
    def is_folder(self) -> bool:
        return self.path.is_dir()

    def subject(self) -> Subject:
        """Return what identifies these rows, so that answers are not used with others."""
        return Subject(self.target, len(self.frame), _fingerprint(self.path, self.frame))

    def item(self, row: int) -> dict[str, Any]:
        """Return what the page shows of a row, as plain values for JSON."""
        kind, column, _ = self.view
        shown = [name for name in self.frame.columns if name not in (self.target, column)]
        cells = [[name, _cell(self.frame[name].iat[row])] for name in shown[:_MOST_CELLS]]
        item: dict[str, Any] = {"kind": kind, "cells": cells, "more": len(shown[_MOST_CELLS:])}
        if column is not None:
            value = self.frame[column].iat[row]
            item["text" if kind == "text" else "name"] = str(value)[:_MOST_TEXT]
        return item

    def media(self, row: int) -> tuple[Path, str] | None:
        """Return file and media type of a row; None if there is nothing that may be shown."""
        if not 0 <= row < len(self.frame) or self.view.column is None or self.view.folder is None:
            return None
        return find_media(self.frame[self.view.column].iat[row], self.view)


def read_rows(
    path: str | os.PathLike[str],
    target: str,
    *,
    view: str | None = None,
    column: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    classes: Sequence[str] = (),
    unlabelled: Any = "auto",
) -> Rows:
    """Read a table, or a folder of pictures, for labelling.

    Parameters
    ----------
    path : str or path
        A .csv, .tsv or .parquet table, or a folder of pictures, in which every picture is a row.
    target : str
        The column of labels; blank cells are to be labelled. It may be missing from the table.
    view : {"table", "text", "image", "audio"} or None, default=None
        How rows are shown. None: guessed from the columns.
    column : str or None, default=None
        The column of the text or of the paths.
    folder : str, path or None, default=None
        The folder of the files that the column names; by default that of the table.
    classes : sequence of str, default=()
        Classes in the order wanted; other classes of the table come after them.
    unlabelled : default="auto"
        What means unlabelled besides a blank, as in `atoll.core.labels.parse_labels`; texts stand
        for numbers where labels are numbers.

    Returns
    -------
    Rows
    """
    source = Path(path)
    if str(source) == STANDARD_INPUT:
        raise ValueError("answers are kept beside the data: name a file, not standard input.")
    frame = _folder_frame(source) if source.is_dir() else read_table(source)
    repeated = sorted(set(frame.columns[frame.columns.duplicated()]))
    if repeated:
        raise ValueError(f"the table has the column {repeated[0]!r} more than once; rename it.")
    if not source.is_dir():
        found = with_words(frame, source, target, NULL_WORDS if unlabelled is None else classes)
        frame = found.frame
        for line in about_words(found, target, "name it in --classes"):
            warn_user(line, UserWarning)
    given = _read_given(frame, target, classes, unlabelled)
    if source.is_dir():
        shown = View("image", FILE_COLUMN, source.resolve())
    else:
        base = Path(folder) if folder is not None else source.parent
        if not base.is_dir():
            raise ValueError(f"--media {base}: there is no such folder; name that of the files.")
        kind, name = (view, column) if view else guess_view(frame, target)
        if name is not None and name not in frame.columns:
            raise ValueError(_no_column(frame, name, f"--{kind}"))
        shown = View(kind, name, base.resolve() if kind in MEDIA else None)
    unseen = _unseen(frame, shown)
    if len(unseen) == len(frame):
        raise ValueError(
            f"none of the {len(frame)} rows can be shown: {next(iter(unseen.values()))}. "
            "Name the folder of the files by --media, or another column."
        )
    return Rows(source, frame, target, shown, given, unseen)


def guess_view(frame: pd.DataFrame, target: str) -> tuple[str, str | None]:
    """Return how rows are best shown, and by which column, from the cells of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> guess_view(pd.DataFrame({"photo": ["a.jpg", "b.PNG"], "kind": [None, None]}), "kind")
    ('image', 'photo')
    """
    types = import_extra("pandas.api.types")
    best: tuple[float, str | None] = (_LONG_TEXT, None)
    for name in frame.columns:
        if name == target or types.is_numeric_dtype(frame[name].dtype):
            continue
        words = [str(v) for v in frame[name].dropna()]
        if not words:
            continue
        for kind, suffixes in MEDIA.items():
            fitting = sum(Path(word[-200:]).suffix.lower() in suffixes for word in words)
            if fitting > 0.9 * len(words):
                return kind, name
        length = sum(map(len, words)) / len(words)
        if length >= best[0]:
            best = (length, name)
    return ("table", None) if best[1] is None else ("text", best[1])


def find_media(name: Any, view: View) -> tuple[Path, str] | None:
    """Return the file that a cell names, and its media type; None if it may not be shown."""
    if not isinstance(name, str) or view.folder is None:
        return None
    try:
        file = (view.folder / name).resolve()
        is_there = file.is_relative_to(view.folder) and file.is_file()
    except (OSError, ValueError, RuntimeError):  # too long, a null character, a loop of links
        return None
    kind = MEDIA[view.kind].get(file.suffix.lower())
    return (file, kind) if is_there and kind is not None else None


# --- reading -------------------------------------------------------------------------------------


def _folder_frame(folder: Path) -> pd.DataFrame:
    pd = import_extra("pandas")
    names = []
    for place, folders, files in os.walk(folder):  # links to folders are not followed
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = Path(place).relative_to(folder)
        names += [
            str((inside / name).as_posix())
            for name in files
            if Path(name).suffix.lower() in PICTURES and not name.startswith(".")
        ]
    if not names:
        raise ValueError(
            f"the folder {str(folder)!r} has no pictures ({', '.join(PICTURES)}); name a folder "
            "that has some, or a table."
        )
    return pd.DataFrame({FILE_COLUMN: sorted(names)})


def _read_given(frame: pd.DataFrame, target: str, classes: Sequence[str], unlabelled: Any) -> Given:
    wanted = [check_class_name(name) for name in classes]
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"--classes {','.join(wanted)} names a class twice; name each once.")
    if target not in frame.columns:
        close = near_name(target, list(frame.columns), 0.8)
        if close:
            raise ValueError(_no_column(frame, target, "--target"))
        return Given(np.full(len(frame), None, dtype=object), tuple(wanted), "text")
    if NULL_WORDS.intersection(wanted) and not is_numeric(frame[target]):
        unlabelled = None  # there is no doubt what such a word means
    markers = _markers(unlabelled, is_numeric(frame[target]))
    y = read_target(frame[target])
    known = {*wanted, *markers_of(markers)}
    is_named = not is_numeric(frame[target]) and all(is_null(v) or v in known for v in y)
    found = parse_labels(y, unlabelled=markers, classes=wanted if is_named and wanted else None)
    if found.is_labelled.all():
        raise ValueError(
            f"the target column {target!r} has no blank cell: every row has a label already. Leave "
            "the cells blank that are to be labelled, say by --unlabelled what stands in them, or "
            "name another column by --target."
        )
    most = MOST_NUMBERS if is_numeric(frame[target]) else MOST_WORDS
    if len(found.classes) > most:
        raise ValueError(
            f"the target column {target!r} holds {len(found.classes)} different values, more than "
            f"{most}; labels are classes. Name another column by --target."
        )
    kinds = {"i": "whole", "u": "whole", "f": "whole", "b": "boolean"}
    kind = kinds.get(found.classes.dtype.kind, "text") if len(found.classes) else "text"
    values = [int(v) if kind == "whole" else v for v in found.classes.tolist()]
    words = [check_class_name(str(value)) for value in values]
    labels = np.array([*words, None], dtype=object)[np.where(found.is_labelled, found.codes, -1)]
    for name in wanted:
        check_label_kind(name, kind)
    return Given(labels, tuple(dict.fromkeys([*wanted, *words])), kind)


def _markers(unlabelled: Any, is_number: bool) -> Any:
    """Return what means unlabelled, as whole numbers where labels are numbers."""
    if isinstance(unlabelled, list):
        return [_markers(one, is_number) for one in unlabelled]
    if not is_number or not isinstance(unlabelled, str) or unlabelled == "auto":
        return unlabelled
    if not unlabelled.removeprefix("-").isdecimal():
        raise ValueError(
            f"--unlabelled {unlabelled}: the labels are numbers; give a whole number, auto or none."
        )
    return int(unlabelled)


def check_label_kind(name: str, kind: str) -> None:
    """Raise a ValueError unless a class of this name can stand in the target column."""
    if kind == "whole" and not name.removeprefix("-").isdecimal():
        raise ValueError(
            f"the labels in the file are whole numbers, and {name!r} is none; give a whole number."
        )
    if kind == "boolean" and name not in ("True", "False"):
        raise ValueError(
            f"the labels in the file are True and False, and {name!r} is neither; a column of "
            "booleans has room for two classes."
        )


def _unseen(frame: pd.DataFrame, view: View) -> dict[int, str]:
    if view.column is None:
        return {}
    unseen = {}
    for row, value in enumerate(frame[view.column].tolist()):
        if not isinstance(value, str) or not value.strip():
            is_number = isinstance(value, int | float) and value == value
            holds = f"the number {value:g}" if is_number else "a blank cell"
            unseen[row] = f"row {row + 1} has {holds} in the column {view.column!r}"
        elif view.kind in MEDIA and find_media(value, view) is None:
            shown = value if len(value) <= 80 else value[:80] + "…"
            unseen[row] = (
                f"row {row + 1} names {shown!r}, which is no {view.kind} file inside the folder "
                f"{str(view.folder)!r}"
            )
    return unseen


def _cell(value: Any) -> str | None:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float | np.floating):
        number = float(value)
        digits = 6 if abs(number) < 1e5 else 15  # 12345678 names something, or counts it
        return None if np.isnan(number) else f"{number:.{digits}g}"
    text = str(value)
    return text if len(text) <= _MOST_CELL else text[:_MOST_CELL] + "…"


def _no_column(frame: pd.DataFrame, name: str, option: str) -> str:
    close = near_name(name, list(frame.columns))
    names = ", ".join(map(repr, list(frame.columns)[:20]))
    hint = f"did you mean {close!r}?" if close else f"its columns are {names}."
    return f"{option} {name}: the table has no such column; {hint}"


def _fingerprint(path: Path, frame: pd.DataFrame) -> str:
    digest = hashlib.sha256()
    if path.is_dir():
        digest.update("\0".join(frame[FILE_COLUMN]).encode())
    else:
        with path.open("rb") as file:
            while part := file.read(2**20):
                digest.update(part)
    return digest.hexdigest()
