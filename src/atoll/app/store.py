"""Answers in an append-only file beside the data.

One line of JSON for each answer, on the disk before the answer counts as given. Undoing writes a
line as well, so that no line is ever changed; what holds now is found by reading the lines in
order. The user's own file is never written.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from atoll.core.files import check_writable

FORMAT = 1
ANSWERS = ("label", "skip", "unsure")
_KINDS = (*ANSWERS, "class", "undo", "redo")
MAX_CLASS_NAME = 100
"""Characters that the name of a class may have."""
_BEGINS = b'{"atoll_labels"'  # the first line of a file


class Event(NamedTuple):
    """One line of the file.

    kind : "label", "skip", "unsure" (answers), "class", "undo" or "redo"
    row : number of the row that is answered, from 0; None for the other kinds
    label : the class, for "label" and "class"
    is_audit : whether the row was drawn at random, to measure the error
    predicted : what the model said before it learnt the label; None where it said nothing
    probability : that the model gave to it
    at : time in ISO 8601
    """

    kind: str
    row: int | None = None
    label: str | None = None
    is_audit: bool = False
    predicted: str | None = None
    probability: float | None = None
    at: str = ""


class Subject(NamedTuple):
    """What the answers are about, so that they are not used with other rows.

    target : the column of labels
    n_rows : rows of the data
    fingerprint : a digest of the rows
    """

    target: str
    n_rows: int
    fingerprint: str


class _Done(NamedTuple):
    number: int
    event: Event
    before: Event | None  # the row's answer until then


class Answers:
    """What holds after some events; `apply` adds the next.

    given : row -> its answer now
    versions : row -> number of the event that last changed it; a row without one has 0
    classes : those added or given on the way, in order
    """

    def __init__(self) -> None:
        self.given: dict[int, Event] = {}
        self.versions: dict[int, int] = {}
        self.classes: list[str] = []
        self.n_events = 0
        self._done: list[_Done] = []
        self._undone: list[_Done] = []

    @property
    def last(self) -> int:
        """Number of the answer that would be undone next; 0 if there is none."""
        return self._done[-1].number if self._done else 0

    @property
    def next_redo(self) -> int:
        """Number of the answer that would be redone next; 0 if there is none."""
        return self._undone[-1].number if self._undone else 0

    def history(self, most: int) -> list[tuple[int, Event]]:
        """Return the last answers that hold, newest first, with their numbers."""
        return [(done.number, done.event) for done in self._done[: -most - 1 : -1]]

    def allows(self, event: Event) -> bool:
        """Return whether the event can follow those applied."""
        if event.kind == "undo":
            return bool(self._done)
        return bool(self._undone) if event.kind == "redo" else True

    def apply(self, event: Event) -> Event | None:
        """Take the next event into account; return the answer undone or redone, if it is one."""
        self.n_events += 1
        if event.label is not None and event.label not in self.classes:
            self.classes.append(event.label)
        if event.kind == "class":
            return None
        if event.kind == "undo":
            done = self._done.pop()
            self._undone.append(done)
            self._set(done.event.row, done.before)
            return done.event
        if event.kind == "redo":
            done = self._undone.pop()
            self._done.append(done._replace(number=self.n_events))
            self._set(done.event.row, done.event)
            return done.event
        assert event.row is not None
        self._done.append(_Done(self.n_events, event, self.given.get(event.row)))
        self._undone.clear()
        self._set(event.row, event)
        return None

    def _set(self, row: int | None, answer: Event | None) -> None:
        assert row is not None
        self.versions[row] = self.n_events
        if answer is None:
            del self.given[row]
        else:
            self.given[row] = answer


class LabelLog:
    """The file of answers, open for writing by this process alone.

    Parameters
    ----------
    path : of the file, which is created if need be
    subject : what the answers are about; a file about anything else is refused

    Attributes
    ----------
    answers : Answers
    remark : str or None
        What was wrong with the file's last line, in words; the rest is kept.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "flowers.csv.labels.jsonl"
    >>> subject = Subject("kind", 3, "digest of the rows")
    >>> with LabelLog(path, subject) as log:
    ...     _ = log.append(Event("label", 2, "setosa"))
    >>> with LabelLog(path, subject) as log:
    ...     log.answers.given[2].label
    'setosa'
    """

    def __init__(self, path: str | os.PathLike[str], subject: Subject):
        self.path = Path(path)
        self.answers = Answers()
        self.remark: str | None = None
        check_writable(self.path)
        is_new = not self.path.exists()
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise ValueError(
                f"{str(self.path)!r} cannot be opened for writing ({error.strerror}); name another "
                "file by --labels."
            ) from error
        try:
            _lock(self._file, self.path)
            self._end = self._read(subject)
            if is_new:
                _sync_folder(self.path.parent)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> LabelLog:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def append(self, event: Event) -> Event | None:
        """Write an event to the disk, then apply it.

        Returns
        -------
        Event or None
            The answer that was undone or redone.

        Raises
        ------
        OSError
            If it cannot be written. The file is then as it was before.
        """
        if not self.answers.allows(event):
            raise ValueError(f"there is nothing to {event.kind}.")
        self._write(_as_line(event))
        return self.answers.apply(event)

    def close(self) -> None:
        """Let another process write the file."""
        if self._file >= 0:
            os.close(self._file)  # which also ends the lock
            self._file = -1

    def _write(self, line: bytes) -> None:
        try:
            os.lseek(self._file, self._end, os.SEEK_SET)
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(line)

    def _read(self, subject: Subject) -> int:
        """Apply what the file holds; return where its good part ends."""
        content = _all_of(self._file)
        *lines, rest = content.split(b"\n")
        if rest:
            lines.append(rest)
        begins = _BEGINS.startswith(content[: len(_BEGINS)])
        if not lines or (len(lines) == 1 and begins and _parsed(lines[0]) is None):
            # Nothing, or a header that was never finished.
            self._end = 0
            os.ftruncate(self._file, 0)
            self._write(_json({"atoll_labels": FORMAT, **subject._asdict()}))
            return self._end
        _check_header(_parsed(lines[0]), subject, self.path)
        good = len(lines[0]) + 1
        for place, line in enumerate(lines[1:], start=2):
            event = _as_event(_parsed(line), subject.n_rows)
            if event is None or not self.answers.allows(event):
                if place < len(lines):
                    raise ValueError(
                        f"line {place} of {str(self.path)!r} is damaged, and lines follow it. "
                        "Nothing was changed: mend the line or take it out, or name another file "
                        "by --labels."
                    )
                self._cut(good, line, place)
                return good
            self.answers.apply(event)
            good += len(line) + 1
        if rest:  # the last line is whole, and lacks only its newline
            self._end = len(content)
            self._write(b"\n")
            good = self._end
        return good

    def _cut(self, good: int, line: bytes, place: int) -> None:
        shown = line[:60].decode("utf-8", "replace")
        self.remark = (
            f"the last line of {str(self.path)!r} was damaged and is lost (line {place}: "
            f"{shown!r}); the {place - 2} before it are kept."
        )
        os.ftruncate(self._file, good)
        os.fsync(self._file)


def now() -> str:
    """Return the time for an event."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def check_class_name(name: Any) -> str:
    """Return the name of a class without blanks around it; ValueError if it cannot be one."""
    if not isinstance(name, str) or not name.strip():
        raise ValueError("the name of a class must have at least one letter or digit.")
    name = name.strip()
    if len(name) > MAX_CLASS_NAME:
        raise ValueError(
            f"the class name {name[:20] + '…'!r} has {len(name)} characters; at most "
            f"{MAX_CLASS_NAME} are allowed. Choose a shorter one."
        )
    if not name.isprintable():
        raise ValueError(
            f"the class name {name!r} has line breaks or unprintable characters; leave them out."
        )
    return name


def _as_line(event: Event) -> bytes:
    defaults = Event._field_defaults
    return _json({k: v for k, v in event._asdict().items() if v != defaults.get(k, "")})


def _json(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _as_event(record: Any, n_rows: int) -> Event | None:
    """Return the event of a record; None if it is not a valid one."""
    if not isinstance(record, dict) or not record.keys() <= set(Event._fields):
        return None
    kind, row, label = record.get("kind"), record.get("row"), record.get("label")
    if kind not in _KINDS:
        return None
    is_row = isinstance(row, int) and not isinstance(row, bool) and 0 <= row < n_rows
    if is_row != (kind in ANSWERS) or isinstance(label, str) != (kind in ("label", "class")):
        return None
    return Event(**record)


def _check_header(header: Any, subject: Subject, path: Path) -> None:
    if not isinstance(header, dict) or "atoll_labels" not in header:
        raise ValueError(
            f"{str(path)!r} is no file of labels (its first line does not say so); name another "
            "file by --labels."
        )
    if header["atoll_labels"] != FORMAT:
        raise ValueError(
            f"{str(path)!r} was written by a newer version of atoll; use that, or name another "
            "file by --labels."
        )
    if header.get("target") != subject.target:
        raise ValueError(
            f"{str(path)!r} holds labels of the column {header.get('target')!r}, not of "
            f"{subject.target!r}; name another file by --labels."
        )
    if (header.get("n_rows"), header.get("fingerprint")) != subject[1:]:
        raise ValueError(
            f"{str(path)!r} holds labels of other rows: the data have changed since, and labels "
            "go by row number. Put the earlier data back, whose labels --export writes into a "
            "table, or name another file by --labels."
        )


def _all_of(file: int) -> bytes:
    os.lseek(file, 0, os.SEEK_SET)
    parts = []
    while part := os.read(file, 2**20):
        parts.append(part)
    return b"".join(parts)


def _lock(file: int, path: Path) -> None:
    """Lock the file for this process; the system releases it however the process ends."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(file, 2**40, os.SEEK_SET)  # a place that nobody reads
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ValueError(
            f"{str(path)!r} is being written by another atoll that labels the same data; use its "
            "page, or stop it first."
        ) from None


def _sync_folder(folder: Path) -> None:
    """Make sure that the name of a new file is on the disk, too."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
