"""The command line, run inside the tests' own process."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pandas as pd
import typer.testing
from typer.testing import CliRunner

from atoll.cli.commands import app

# A runner would make the command anew from all its functions, which takes longer than most calls.
typer.testing._get_command = cache(typer.testing._get_command)


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


def two_clouds(n_labels):
    """A table of two clouds of twelve rows each, the first `n_labels` of all with their kinds."""
    rng = np.random.default_rng(0)
    kinds = np.array(["cat", "dog"] * 12, dtype=object)
    frame = pd.DataFrame({"x": rng.standard_normal(24) + 4.0 * (kinds == "dog")})
    frame["z"] = rng.standard_normal(24)
    frame["kind"] = np.where(np.arange(24) < n_labels, kinds, None)
    return frame
