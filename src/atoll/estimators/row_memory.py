"""What a fit computes from rows alone, kept for the next fit on them (`warm_start=True`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Index = NDArray[np.intp]
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


def digests_of_rows(X: Any, beside: Index) -> NDArray[np.int64]:
    """Return a number for each row that tells it, and what is beside it, from others, (n,).

    Parameters
    ----------
    X : (n, d) dense or sparse
    beside : (n,)

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [1.0, -0.0], [1.0, 0.0]])
    >>> first, second, third = digests_of_rows(X, np.array([0, 0, 1])).tolist()
    >>> first == second, first == third
    (True, False)
    """
    out = np.empty(X.shape[0], np.int64)
    if sparse.issparse(X):
        X = sparse.csr_array(X, dtype=np.float64, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
    for i, one in enumerate(beside.tolist()):
        found = hashlib.blake2b(repr(one).encode(), digest_size=8)
        if sparse.issparse(X):
            part = slice(X.indptr[i], X.indptr[i + 1])
            found.update(X.indices[part].astype(np.int64).tobytes())
            found.update(X.data[part].tobytes())
        else:
            found.update((X[i].astype(np.float64) + 0.0).tobytes())  # zero has no sign
        out[i] = int.from_bytes(found.digest(), "little", signed=True)
    return out
