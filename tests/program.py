"""The command line, run inside the tests' own process."""

from __future__ import annotations

import re

from typer.testing import CliRunner

from atoll.cli.commands import app


def run(*arguments, **settings):
    return CliRunner().invoke(app, [str(a) for a in arguments], prog_name="atoll", **settings)


def succeed(*arguments):
    """What a command says."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*arguments):
    """The one line on standard error of a command that is refused."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert re.fullmatch(r"atoll: [^\n]+\n", result.stderr), result.stderr
    return result.stderr
