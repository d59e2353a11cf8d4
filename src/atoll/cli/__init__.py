"""The command `atoll`: argument parsing, and one line for each thing that goes wrong."""

from __future__ import annotations

from atoll.cli.commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command with the arguments of this process."""
    app(prog_name="atoll")
