"""An ascent on disk, so that a fit that was stopped goes on to the same numbers."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.files import atomic_path

SEED_FILE = "engine.npz"


class Checkpoint(NamedTuple):
    """A folder that holds the seed of a fit, and one file for each start.

    folder : where
    fingerprint : of the problem; files of another are refused
    """

    folder: Path
    fingerprint: str

    def seed(self, fresh: int) -> int:
        """Return the seed of the fit that the folder holds, or keep a fresh one there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        held = self._read(SEED_FILE)
        if held is not None:
            return int(held["seed"])
        self._write(SEED_FILE, {"seed": np.array(fresh)})
        return fresh

    def save(self, start: int, parts: dict[str, NDArray[Any]]) -> None:
        """Keep what one start has come to."""
        self._write(f"start-{start}.npz", parts)

    def load(self, start: int) -> dict[str, NDArray[Any]] | None:
        """Return what was kept of a start, or None."""
        return self._read(f"start-{start}.npz")

    def _write(self, name: str, parts: dict[str, NDArray[Any]]) -> None:
        with atomic_path(self.folder / name) as path, open(path, "wb") as file:
            np.savez(file, fingerprint=np.array(self.fingerprint), **parts)  # type: ignore[arg-type]

    def _read(self, name: str) -> dict[str, NDArray[Any]] | None:
        path = self.folder / name
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                held = dict(file)
        except (OSError, ValueError, zipfile.BadZipFile, EOFError):
            raise ValueError(
                f"checkpoint {str(path)!r} cannot be read; remove it to begin anew."
            ) from None
        if str(held.pop("fingerprint", "")) != self.fingerprint:
            raise ValueError(
                f"checkpoint {str(self.folder)!r} belongs to other data or parameters; give "
                "another folder, or remove it."
            )
        return held


def checkpoint_in(folder: str | os.PathLike[str] | None, fingerprint: str) -> Checkpoint | None:
    """Return the checkpoint in a folder; None where none is asked for."""
    return None if folder is None else Checkpoint(Path(folder), fingerprint)
