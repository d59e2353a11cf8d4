"""EM on disk, so that a fit that was stopped goes on to the same numbers."""

from __future__ import annotations

import time
from typing import Any

from atoll.core import checkpoints
from atoll.core.checkpoints import Checkpoint, flatten, unflatten


class Keeping:
    """Writes what a fit has come to, now or every half a minute, and reads it again.

    Parameters
    ----------
    kept : the folder
    """

    def __init__(self, kept: Checkpoint):
        self.kept = kept
        self.saved_at = time.monotonic()

    def save(self, name: str, what: Any) -> None:
        """Write nested NamedTuples of arrays and numbers."""
        self.kept.save(name, dict(flatten(what)))
        self.saved_at = time.monotonic()

    def save_at_times(self, name: str, what: Any) -> None:
        """Write, if the last time was long ago."""
        if time.monotonic() - self.saved_at > checkpoints.SECONDS:
            self.save(name, what)

    def load(self, name: str, template: Any) -> Any:
        """Return what was written under a name, of the types of `template`, or None."""
        held = self.kept.load(name)
        if held is None:
            return None
        try:
            return unflatten(template, held)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"checkpoint {str(self.kept.folder / name)!r} cannot be read ({error}); delete it "
                "to start anew."
            ) from error
