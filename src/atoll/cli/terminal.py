"""What the commands say, and how they fail."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import typer

from atoll.core.extras import MissingExtraError

P = ParamSpec("P")
R = TypeVar("R")

BAD_INPUT = 2
INTERRUPTED = 130


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Make bad input, and a package that is not installed, one line on standard error, exit code 2.

    Anything else is a bug and keeps its traceback; so does bad input where the environment
    variable ATOLL_TRACEBACK is set.
    """

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        if os.environ.get("ATOLL_TRACEBACK"):
            return command(*args, **kwargs)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return command(*args, **kwargs)
        except BrokenPipeError:  # the reader of a pipe has left; typer ends quietly
            raise
        except (ValueError, OSError, MemoryError, MissingExtraError) as error:
            complain(_message(error))
            raise typer.Exit(BAD_INPUT) from error
        except KeyboardInterrupt as interruption:
            complain(str(interruption) or "interrupted; nothing was written.")
            raise typer.Exit(INTERRUPTED) from interruption

    return guarded


def complain(message: str) -> None:
    """Write one line to standard error, whatever the message's own lines."""
    typer.echo(f"atoll: {' '.join(message.split())}", err=True)


def speaker(quiet: bool) -> Callable[[str], None]:
    """Return what the command speaks with: nothing is said when quiet."""

    def say(line: str) -> None:
        if not quiet:
            typer.echo(line)

    return say


def make_folder(path: Path) -> Path:
    """Make a folder for output, before the work that fills it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"the folder {str(path)!r} cannot be made ({error.strerror}); choose another path."
        ) from error
    if not os.access(path, os.W_OK):
        raise ValueError(f"the folder {str(path)!r} is not writable; choose another path.")
    return path


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    r"""Lines of a plain table, its columns as wide as they need to be.

    Examples
    --------
    >>> print(*table_lines(["name", "size"], [["wine", "178"], ["oil", "1000"]]), sep="\n")
    name  size
    wine  178
    oil   1000
    """
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in (header, *rows)
    ]


def shortened(names: list[str], most: int = 8) -> str:
    """Return names with commas between, the first few of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f": {str(error.filename)!r}" if error.filename is not None else ""
        return f"{error.strerror}{where}"
    return str(error) or type(error).__name__


def _show_warning(message: Any, *details: Any, **more: Any) -> None:
    complain(f"warning: {message}")
