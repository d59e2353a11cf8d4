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
"""Seconds between lines of progress where there is neither a terminal nor a notebook."""

AUTO = "auto"
"""The value of `verbose` that shows long work to a person, and very long work to a file or pipe."""

QUICK = 10.0
"""Under "auto", seconds of work before progress is shown to a person."""

QUICK_UNWATCHED = 60.0
"""The same for a file or pipe."""


class ProgressLines(TextBar):
    """Progress as whole lines, the first of them after ten seconds: for files and pipes."""

    def __init__(self, *arguments: Any, **settings: Any):
        self.line_at = self.began_at = time.monotonic()
        self.has_ended = threading.Event()
        width = {"ncols": 79, "dynamic_ncols": False, "position": 0, "leave": False}
        super().__init__(*arguments, **{**settings, **width})
        # A step may take minutes: lines with the time that has passed are written all the same.
        given = (weakref.ref(self), self.has_ended)
        threading.Thread(target=_beat, args=given, name="atoll-progress", daemon=True).start()

    def close(self) -> None:
        """End the lines."""
        self.has_ended.set()
        super().close()

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Write a line, if the last was long enough ago and there is something to say."""
        line, now = str(self) if msg is None else msg, time.monotonic()
        is_early = now - self.began_at < self.delay
        if line and not is_early and now - self.line_at >= SECONDS_BETWEEN_LINES:
            self.line_at = now
            self.fp.write(line.rstrip() + "\n")
            self.fp.flush()
        return False

    @staticmethod
    def status_printer(file: Any) -> Any:
        """Return a function that does nothing: lines, unlike bars, are not redrawn."""
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

    At a terminal and in a notebook the bar moves; a file or pipe gets a line every ten seconds, and
    none for work that takes less.

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


def done_before(bar: Any, count: int) -> None:
    """Count what was done before a bar began, without letting it count towards the rate.

    Examples
    --------
    >>> bar = TextBar(total=10, disable=True)
    >>> done_before(bar, 4)
    >>> bar.n, bar.initial
    (4, 4)
    """
    bar.n += count
    bar.initial = bar.n
    bar.last_print_n = bar.n


def seconds_until_shown(verbose: Any, began: float | None = None) -> float | None:
    """Return in how many seconds progress is to be shown; None means never.

    Parameters
    ----------
    verbose : True shows it at once, False never, and "auto" once the work has taken ten seconds, at
        a terminal or in a notebook, or a minute, in files and pipes
    began : when the work began, by `time.monotonic`; None: now

    Examples
    --------
    >>> seconds_until_shown(True), seconds_until_shown(False)
    (0.0, None)
    """
    if not (isinstance(verbose, str) and verbose == AUTO):
        return 0.0 if verbose else None
    gone = 0.0 if began is None else time.monotonic() - began
    return max(0.0, (QUICK if is_watched() else QUICK_UNWATCHED) - gone)


def in_shown_chunks(n: int, entries: int, what: str, shown: float | None) -> Iterator[slice]:
    """Yield slices of n rows as `in_chunks` does, and show how many are done.

    Parameters
    ----------
    n, entries : of `in_chunks`
    what : is being done, in a word or two
    shown : seconds until it is shown, if it is still going on then; None: never

    Examples
    --------
    >>> list(in_shown_chunks(5, 1, "all rows", shown=None))
    [slice(0, 5, None)]
    """
    settings = {"unit": " rows", "leave": False, "disable": shown is None or not n}
    settings["delay"] = shown or 0.0
    with progress_bar(total=n, desc=what, **settings) as bar:
        for piece in in_chunks(n, entries):
            yield piece
            bar.update(piece.stop - piece.start)


def is_watched() -> bool:
    """Return whether a person watches standard error: at a terminal, or in a notebook."""
    return sys.stderr.isatty() or "ipykernel.zmqshell" in sys.modules
