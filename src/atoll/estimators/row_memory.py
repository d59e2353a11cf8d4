"""What a fit computes from rows alone, kept for the next fit on them (`warm_start=True`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

Made = TypeVar("Made")


class RowMemory:
    """Things computed from rows, each under a name and with the settings it was computed with.

    If its settings have changed a thing is computed again; only the last one is kept.

    Parameters
    ----------
    digest : of the rows; None for a memory of a single fit

    Examples
    --------
    >>> memory = RowMemory(digest_of(np.eye(2)))
    >>> memory.get("total", (), lambda: 2.0), memory.get("total", (), lambda: 3.0)
    (2.0, 2.0)
    >>> memory.digest == digest_of(np.eye(2)), memory.digest == digest_of(np.ones((2, 2)))
    (True, False)
    """

    def __init__(self, digest: bytes | None = None):
        self.digest = digest
        self._made: dict[str, tuple[Hashable, Any]] = {}

    def get(self, name: str, settings: Hashable, make: Callable[[], Made]) -> Made:
        """Return what was made by these settings, or make it."""
        found = self._made.get(name)
        if found is None or found[0] != settings:
            found = self._made[name] = (settings, make())
        thing: Made = found[1]
        return thing

    def forget(self) -> None:
        """Forget everything, such as a graph that lacks a row."""
        self._made.clear()


def digest_of(X: Any) -> bytes:
    """Return a digest that tells these rows from others, (n, d) dense or sparse.

    It depends on the numbers, since the same object may have been changed in place.
    """
    found = hashlib.blake2b(repr((X.shape, X.dtype.str)).encode(), digest_size=32)
    arrays = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
    for array in arrays:
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.digest()
