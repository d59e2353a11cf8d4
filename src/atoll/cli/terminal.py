"""What the commands say, and how they fail."""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import typer
import typer.core

from atoll.cli.wording import in_options, shell_word
from atoll.core.extras import MissingExtraError
from atoll.core.files import NO_ROOM
from atoll.core.points import DASH
from atoll.core.shown import places

P = ParamSpec("P")
R = TypeVar("R")

# What typer raises where words cannot be read; its own name for it is private.
UsageError: Any = typer.BadParameter.__base__
BAD_INPUT = 2
INTERRUPTED = 130
GAP = 2  # blanks between the columns of a table
OF_FIT_ALONE = ("--class-share", "--weights", "--groups")  # and not of `compare`
WIDE = 160  # characters of a terminal that has room for several columns of words
NARROWEST = 8  # characters that a column is narrowed to, at least


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Make bad input, and a package that is not installed, one line on standard error, exit code 2.

    Anything else is a bug and keeps its traceback; so does bad input where the environment
    variable ATOLL_TRACEBACK is set.
    """

    def show_warning(message: Any, *details: Any, **more: Any) -> None:
        complain(f"warning: {in_options(str(message), command)}")

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        if os.environ.get("ATOLL_TRACEBACK"):
            return command(*args, **kwargs)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = show_warning
                return command(*args, **kwargs)
        except BrokenPipeError:  # the reader of a pipe has left; typer ends quietly
            raise
        except (ValueError, OSError, MemoryError, MissingExtraError) as error:
            target = kwargs.get("target")
            column = target if isinstance(target, str) else None
            complain(in_options(_message(error), command, column))
            raise typer.Exit(BAD_INPUT) from error
        except KeyboardInterrupt as interruption:
            complain(str(interruption) or "interrupted; nothing was written.")
            raise typer.Exit(INTERRUPTED) from interruption

    return guarded


class OneLineGroup(typer.core.TyperGroup):
    """Commands of which a misspelt or missing option is one line on standard error, too."""

    def make_context(self, *details: Any, **more: Any) -> Any:
        """Read the words before the command's name."""
        with _one_line_usage():
            return super().make_context(*details, **more)

    def invoke(self, ctx: Any) -> Any:
        """Read the words of a command and run it."""
        with _one_line_usage():
            return super().invoke(ctx)


@contextmanager
def _one_line_usage() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # which shows the help
            raise
        where = error.ctx.command_path if error.ctx is not None else "atoll"
        message = _about_number(error) or _about_option(error) or error.format_message().rstrip(".")
        message += _about_table(error, message) + _about_fit(error)
        see = " See" if message.endswith("?") else "; see"
        complain(f"{message[0].lower()}{message[1:]}{see} `{where} --help`.")
        raise typer.Exit(BAD_INPUT) from error


def _about_table(error: Any, message: str) -> str:
    """Say that a command needs no table besides the model, if it was given one."""
    takes = [] if error.ctx is None else error.ctx.command.params
    arguments = [param.name for param in takes if param.param_type_name == "argument"]
    if arguments != ["model"] or "unexpected extra argument" not in message:
        return ""
    return ": the model alone is needed, which has the rows of its fit"


def _about_fit(error: Any) -> str:
    """Say where to give an option of `fit` that `compare` does not take."""
    option = getattr(error, "option_name", None)
    if option not in OF_FIT_ALONE or error.ctx is None or error.ctx.info_name != "compare":
        return ""
    return (
        f": models are compared without what it says; leave its column out with --drop, and give "
        f"{option} to `atoll fit`"
        if option != "--class-share"
        else f": models are compared without known shares; give {option} to `atoll fit`"
    )


def _about_number(error: Any) -> str | None:
    """Say what number an option needs, after the word it was given; None for other mistakes."""
    param: Any = getattr(error, "param", None)
    if param is None:
        return None
    told = _told_by_pydantic(error, param) or _told_by_click(error, param)
    if told is None:
        return None
    limits = [(how, x) for how, x in zip(("at least", "at most"), told.limits) if x is not None]
    said = " and ".join(f"{how} {limit:g}" for how, limit in limits)
    number = "a whole number" if told.is_whole else "a number"
    word = shell_word(told.word)
    return f"{param.opts[0]} {word}: give {number}{', ' if said else ''}{said}"


def _about_option(error: Any) -> str | None:
    """Say what an option that does not exist may have meant; None for other mistakes.

    Versions of typer say this in different words.
    """
    if type(error).__name__ != "NoSuchOption":
        return None
    near = ", ".join(sorted(error.possibilities or ()))
    return f"no such option: {error.option_name}" + (f" (Possible options: {near})" if near else "")


class _BadNumber(NamedTuple):
    """A word that is not the number that an option needs: the word, and what is needed."""

    word: Any
    is_whole: bool
    limits: tuple[float | None, float | None]


def _told_by_pydantic(error: Any, param: Any) -> _BadNumber | None:
    """Return what typer 0.29 and later know of a bad number."""
    details = getattr(error.__cause__, "errors", None)
    if details is None:
        return None
    first, limits = details()[0], (getattr(param, "min", None), getattr(param, "max", None))
    kind, given = str(first.get("type")), [limit for limit in limits if limit is not None]
    is_past_a_limit = kind in ("greater_than_equal", "less_than_equal")
    if not kind.startswith(("int_", "float_")) and not (is_past_a_limit and given):
        return None
    is_whole = kind.startswith("int_") or all(isinstance(limit, int) for limit in given)
    return _BadNumber(first.get("input"), is_whole and not kind.startswith("float_"), limits)


def _told_by_click(error: Any, param: Any) -> _BadNumber | None:
    """Return what click, on which earlier versions of typer stand, tells of a bad number."""
    of, told = getattr(param, "type", None), str(getattr(error, "message", ""))
    word = re.match(r"'(.*)' is not a valid (?:integer|float)|(\S+) is not in the range", told)
    if word is None:
        return None
    given = word[1] if word[1] is not None else f"{float(word[2]):g}"
    is_whole = str(getattr(of, "name", "")).startswith("integer")
    return _BadNumber(given, is_whole, (getattr(of, "min", None), getattr(of, "max", None)))


def complain(message: str) -> None:
    """Write one line to standard error, even if the message has several."""
    typer.echo(f"atoll: {' '.join(message.split())}", err=True)


def speaker(quiet: bool, out: Path | None = None) -> Callable[[str], None]:
    """Return the function with which a command prints a line, unless it is quiet.

    Parameters
    ----------
    quiet : whether to print nothing
    out : path of the table that the command writes, if any; if that is standard output (`-`), lines
        go to standard error
    """
    to_error = out is not None and str(out) == "-"

    def say(line: str) -> None:
        if not quiet:
            typer.echo(wrapped(line), err=to_error)

    return say


def saved_in(path: Path) -> str:
    """Return where a table was written, in words."""
    return "written to standard output" if str(path) == "-" else f"saved in {path}"


def wrapped(text: str) -> str:
    """Wrap sentences to the width of the terminal; leave them as they are for files and pipes."""
    width = terminal_width()
    if width is None:
        return text
    return "\n".join(
        textwrap.fill(
            line,
            max(width, NARROWEST),
            subsequent_indent=" " * len(DASH) if line.startswith(DASH) else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )


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


def terminal_width() -> int | None:
    """Return the width of the terminal in characters; None for files and pipes, which have none.

    The environment variable COLUMNS sets a width for these, too.
    """
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def is_narrow() -> bool:
    """Return whether the terminal is too narrow for several columns of words."""
    width = terminal_width()
    return width is not None and width < WIDE


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None
) -> list[str]:
    r"""Lines of a plain table, its columns as wide as they need to be.

    Where that is wider than the terminal, the widest columns are narrowed and their cells go on
    below.

    Parameters
    ----------
    header : names of the columns
    rows : cells, as text
    width : int or None, default=None
        Characters of a line; None: those of the terminal.

    Examples
    --------
    >>> print(*table_lines(["name", "size"], [["wine", "178"], ["oil", "1000"]]), sep="\n")
    name  size
    wine  178
    oil   1000
    >>> print(*table_lines(["name", "what"], [["wine", "thirteen numbers"]], width=16), sep="\n")
    name  what
    wine  thirteen
          numbers
    """
    header, *rows = ([" ".join(cell.split()) for cell in line] for line in (header, *rows))
    widths = [max(map(places, column)) for column in zip(header, *rows)]
    limit = terminal_width() if width is None else width
    if limit is not None:
        room = limit - GAP * (len(widths) - 1)
        words = [max(map(places, " ".join(column).split())) for column in zip(header, *rows)]
        # Cells are folded between words if that is enough, and otherwise within them.
        widths = _narrowed(_narrowed(widths, room, words), room, [NARROWEST] * len(widths))
    lines = []
    for row in (header, *rows):
        cells = [_folded(cell, room) for cell, room in zip(row, widths)]
        for parts in zip_longest(*cells, fillvalue=""):
            line = (" " * GAP).join(
                part + " " * (room - places(part)) for part, room in zip(parts, widths)
            )
            lines.append(line.rstrip())
    return lines


def _narrowed(widths: list[int], room: int, least: list[int]) -> list[int]:
    """Return widths that sum to the room, or the least; the widest columns give way first."""
    found = list(widths)
    while sum(found) > room:
        able = [j for j, width in enumerate(found) if width > least[j]]
        if not able:
            break
        found[max(able, key=lambda j: found[j])] -= 1
    return found


def _folded(cell: str, room: int) -> list[str]:
    if len(cell) <= room:
        return [cell]
    return textwrap.wrap(cell, max(room, 1), break_on_hyphens=False) or [""]


def quoted(names: Iterable[str]) -> list[str]:
    """Return names of columns for a list, in quotation marks where they have a comma themselves.

    Examples
    --------
    >>> quoted(["sex", "body mass, g"])
    ['sex', "'body mass, g'"]
    """
    return [repr(name) if "," in name else name for name in names]


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is not None:
        return (
            f"cannot write {str(error.filename)!r}: {str(error.strerror).lower()}; make room, or "
            "choose another path."
        )
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return f"cannot write standard output: {str(error.strerror).lower()}; make room."
    if isinstance(error, OSError) and error.strerror:
        where = f": {str(error.filename)!r}" if error.filename is not None else ""
        return f"{error.strerror}{where}"
    return str(error) or type(error).__name__
