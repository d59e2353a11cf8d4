"""The command `atoll`: argument parsing, and one line for each thing that goes wrong."""

from __future__ import annotations

import atexit
import gc
import io
import sys

from atoll.core.extras import MissingExtraError, import_extra

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments of this process."""
    try:
        import_extra("typer")  # the modules of this package need it to be imported at all
    except MissingExtraError as error:
        print(f"atoll: {error}", file=sys.stderr)
        sys.exit(2)
    from atoll.cli.commands import app

    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot write is spelt \u65e5
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Skip the search for garbage at exit: the process frees all memory anyway, and ends sooner.
    atexit.register(gc.freeze)
    app(prog_name="atoll")
