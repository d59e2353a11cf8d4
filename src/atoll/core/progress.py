"""One kind of progress bar: at a terminal, in a notebook, and as lines in a log."""

from __future__ import annotations

import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

from tqdm.std import TqdmWarning
from tqdm.std import tqdm as TextBar

from atoll.core.memory import in_chunks

SECONDS_BETWEEN_LINES = 10.0
"""Where there is neither a terminal nor a notebook, a line is written so often."""


class ProgressLines(TextBar):
    """Progress as whole lines, the first of them after ten seconds: for files and pipes."""

    def __init__(self, *arguments: Any, **settings: Any):
        self.line_at = time.monotonic()
        self.has_ended = threading.Event()
        width = {"ncols": 79, "dynamic_ncols": False, "position": 0, "leave": False}
        super().__init__(*arguments, **{**settings, **width})
        # A step may take minutes: a line comes all the same, with the time that has gone by.
        given = (weakref.ref(self), self.has_ended)
        threading.Thread(target=_beat, args=given, name="atoll-progress", daemon=True).start()

    def close(self) -> None:
        """End the lines."""
        self.has_ended.set()
        super().close()

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Write a line, where the last was long enough ago and there is something to say."""
        line, now = str(self) if msg is None else msg, time.monotonic()
        if line and now - self.line_at >= SECONDS_BETWEEN_LINES:
            self.line_at = now
            self.fp.write(line.rstrip() + "\n")
            self.fp.flush()
        return False

    @staticmethod
    def status_printer(file: Any) -> Any:
        """Return what would move a bar: nothing, for lines stand where they were written."""
        return lambda text: None


def _beat(bar: weakref.ref[ProgressLines], has_ended: threading.Event) -> None:
    """Let a bar write a line every ten seconds, until it is closed or forgotten."""
    while not has_ended.wait(SECONDS_BETWEEN_LINES):
        found = bar()
        if found is None:
            return
        found.refresh()
        del found


def progress_bar(*arguments: Any, **settings: Any) -> Any:
    """Return a tqdm bar that suits where standard error goes.

    A terminal and a notebook have bars that move; a file or a pipe has a line every ten seconds,
    and none of work that takes less.

    Parameters
    ----------
    *arguments, **settings : of tqdm

    Examples
    --------
    >>> [x for x in progress_bar(range(3), disable=True)]
    [0, 1, 2]
    """
    if settings.get("disable", False):
        return TextBar(*arguments, **settings)
    if not is_watched():
        return ProgressLines(*arguments, **settings)
    with warnings.catch_warnings():
        # A notebook without ipywidgets has a bar of text, which needs no apology.
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.auto import tqdm
    return tqdm(*arguments, **settings)


def in_shown_chunks(n: int, entries: int, what: str, shown: bool) -> Iterator[slice]:
    """Yield slices of n rows as `in_chunks` does, and show how many are done.

    Parameters
    ----------
    n, entries : of `in_chunks`
    what : is being done, in a word or two
    shown : whether it is shown

    Examples
    --------
    >>> list(in_shown_chunks(5, 1, "all rows", shown=False))
    [slice(0, 5, None)]
    """
    settings = {"unit": " rows", "leave": False, "disable": not (shown and n)}
    with progress_bar(total=n, desc=what, **settings) as bar:
        for piece in in_chunks(n, entries):
            yield piece
            bar.update(piece.stop - piece.start)


def is_watched() -> bool:
    """Return whether standard error is seen as it is written: at a terminal, or in a notebook."""
    return sys.stderr.isatty() or "ipykernel.zmqshell" in sys.modules
