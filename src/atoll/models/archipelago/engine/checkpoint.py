"""An ascent on disk, so that a fit that was stopped goes on to the same numbers."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core import checkpoints


class Checkpoint(NamedTuple):
    """The seed of a fit, and what each start has come to.

    kept : the folder that holds them
    """

    kept: checkpoints.Checkpoint

    def seed(self, fresh: int) -> int:
        """Return the seed of the fit that the folder holds, or keep a fresh one there."""
        held = self.kept.load("engine")
        if held is not None:
            return int(held["seed"])
        self.kept.save("engine", {"seed": np.array(fresh)})
        return fresh

    def save(self, start: int, parts: dict[str, NDArray[Any]]) -> None:
        """Keep what one start has come to."""
        self.kept.save(f"start-{start}", parts)

    def load(self, start: int) -> dict[str, NDArray[Any]] | None:
        """Return what was kept of a start, or None."""
        return self.kept.load(f"start-{start}")


def checkpoint_in(folder: str | os.PathLike[str] | None, fingerprint: str) -> Checkpoint | None:
    """Return the checkpoint in a folder; None where none is asked for."""
    kept = checkpoints.checkpoint_in(folder, fingerprint)
    return None if kept is None else Checkpoint(kept)
