"""Refuse work that the machine's memory cannot hold, before it is begun."""

from __future__ import annotations

import os


def physical_memory() -> int | None:
    """Bytes of physical memory of this machine, or None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def check_memory(n_bytes: int, *, what: str, instead: str) -> None:
    """Raise a ValueError when `n_bytes` exceed the machine's memory.

    Parameters
    ----------
    n_bytes : estimate of the peak, in bytes
    what : what needs them, such as "exact inference with 100000 labelled rows"
    instead : what fits, said to the user

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


def _gibibytes(n_bytes: int) -> str:
    size = n_bytes / 2**30
    return f"{size / 1e6:.0f} million GiB" if size >= 1e6 else f"{size:.1f} GiB"
