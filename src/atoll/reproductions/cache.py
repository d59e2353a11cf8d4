"""Finished cells on disk, one file per cell, named after everything the result depends on."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import atoll
from atoll.core.files import atomic_path


def cell_identity(name: str, version: int, cell: Mapping[str, Any]) -> str:
    """Return everything that a cell's result depends on, as one canonical line of JSON.

    Examples
    --------
    >>> a = cell_identity("toy", 1, {"seed": 0, "labels": 2})
    >>> a == cell_identity("toy", 1, {"labels": 2, "seed": 0})
    True
    >>> a == cell_identity("toy", 2, {"labels": 2, "seed": 0})
    False
    """
    described = {"experiment": name, "version": version, "cell": cell, "atoll": atoll.__version__}
    return json.dumps(described, sort_keys=True, allow_nan=False)


def cell_path(folder: Path, name: str, identity: str) -> Path:
    """Return the path in the cache folder of the cell with this identity."""
    return folder / f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:24]}.npz"


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return scalars as Python's own types, then arrays: the same whether fresh or from the cache.

    Examples
    --------
    >>> import numpy as np
    >>> plain_values({"surface": np.zeros(2), "error": np.float64(0.25)})
    {'error': 0.25, 'surface': array([0., 0.])}
    """
    scalars: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype != object:
            arrays[key] = value
            continue
        scalar = value.item() if isinstance(value, np.generic | np.ndarray) else value
        if not (scalar is None or isinstance(scalar, str | bool | int | float)):
            raise ValueError(
                f"the cell's value {key!r} is of type {type(value).__name__}; return a number, "
                "a string, a boolean, None or a NumPy array of numbers."
            )
        scalars[key] = scalar
    return scalars | arrays


def save_values(path: Path, identity: str, values: Mapping[str, Any]) -> None:
    """Write a finished cell's values (from `plain_values`) to a file, whole or not at all."""
    scalars = {key: value for key, value in values.items() if not isinstance(value, np.ndarray)}
    record = json.dumps({"identity": identity, "scalars": scalars})
    entries: dict[str, Any] = {"record": np.array(record)}
    entries |= {f"array_{key}": value for key, value in values.items() if key not in scalars}
    with atomic_path(path) as temporary:
        np.savez_compressed(temporary, **entries)


def load_values(path: Path, identity: str) -> dict[str, Any] | None:
    """Read a finished cell; return None if the file is absent, damaged or of another identity."""
    try:
        # Opened here because NumPy does not close a damaged file that it opened itself.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            record = json.loads(stored["record"].item())
            arrays = {
                key.removeprefix("array_"): stored[key] for key in stored.files if key != "record"
            }
        return record["scalars"] | arrays if record["identity"] == identity else None
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error):
        return None  # absent or damaged: the cell is run again
