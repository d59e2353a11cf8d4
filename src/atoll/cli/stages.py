"""How long each part of a command took, and what is said before a long read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

LARGE = 10_000_000  # bytes of a file from which on its reading is announced
WORTH_TELLING = 3.0  # seconds of a command from which on its parts are listed
BEGAN = time.perf_counter()  # about when the program began


class Stages:
    """Parts of a command, one after another, and their seconds.

    Examples
    --------
    >>> stages = Stages(began=0.0)
    >>> stages.ended("starting", at=1.2)
    >>> stages.ended("reading", at=1.21)
    >>> stages.ended("fitting", at=8.0)
    >>> stages.said()
    '8 s in all: 1 s starting, 7 s fitting.'
    """

    def __init__(self, began: float = BEGAN):
        self.began = self._last = began
        self._parts: list[tuple[str, float]] = []

    def ended(self, what: str, at: float | None = None) -> None:
        """Record what the time since the last part was spent on."""
        now = time.perf_counter() if at is None else at
        self._parts.append((what, now - self._last))
        self._last = now

    def said(self) -> str | None:
        """Return the parts that took half a second or more in words; None for a short command."""
        total = self._last - self.began
        parts = [f"{seconds:.0f} s {what}" for what, seconds in self._parts if seconds >= 0.5]
        if total < WORTH_TELLING:
            return None
        return f"{total:.0f} s in all: {', '.join(parts)}."


def announce_reading(data: Path, say: Callable[[str], None]) -> None:
    """Say that a large file is being read, before the reading begins."""
    if data.is_file() and data.stat().st_size >= LARGE:
        say(f"Reading {data}, {data.stat().st_size / 1e6:,.0f} MB.")
