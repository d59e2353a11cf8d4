"""Limits of memory: work that cannot fit is refused before it begins; long loops run in pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator

PIECE_ENTRIES = 2**20  # numbers per piece of work: 8 MiB


def physical_memory() -> int | None:
    """Return this machine's physical memory in bytes, or None if the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def check_memory(n_bytes: int, *, what: str, instead: str) -> None:
    """Raise a ValueError if `n_bytes` exceeds the machine's memory.

    Parameters
    ----------
    n_bytes : estimated peak use, in bytes
    what : what needs the memory, such as "exact inference with 100000 labelled rows"
    instead : a sentence that tells the user what would fit

    Examples
    --------
    >>> check_memory(10**18, what="a dense kernel", instead="Use fewer rows.")
    Traceback (most recent call last):
        ...
    ValueError: a dense kernel needs about 931 million GiB of memory and this machine has ... GiB. \
Use fewer rows.
    """
    limit = physical_memory()
    if limit is not None and n_bytes > limit:
        raise ValueError(
            f"{what} needs about {_gibibytes(n_bytes)} of memory and this machine has "
            f"{_gibibytes(limit)}. {instead}"
        )


def in_chunks(n: int, entries: int, *, most: int = PIECE_ENTRIES) -> Iterator[slice]:
    """Yield slices of n rows, each holding at most `most` numbers when a row takes `entries`.

    A slice has at least one row.

    Examples
    --------
    >>> list(in_chunks(5, 1, most=2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, most // max(1, entries))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _gibibytes(n_bytes: int) -> str:
    size = n_bytes / 2**30
    return f"{size / 1e6:.0f} million GiB" if size >= 1e6 else f"{size:.1f} GiB"
