"""Linear algebra in one thread, for work that comes in many small pieces.

Threads that share a small product wait for each other longer than they work. On a machine that is
busy with something else they also wait for their turn, and a fit of a second can take minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the linear algebra of the process to one thread for a while.

    Threads of Python share the limit: the first sets it, and the last gives the old numbers back.
    """
    # Libraries that count by OpenMP have a number for each thread of Python; each sets its own.
    with _libraries().select(threading_layer="openmp").limit(limits=1, user_api="blas"), _shared:
        yield


class _SharedLimit:
    """A limit of the whole process, there while any thread of Python is inside."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.n_inside = 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.n_inside:
                self.limit = _libraries().limit(limits=1, user_api="blas")
            self.n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.n_inside -= 1
            if not self.n_inside:
                self.limit.restore_original_limits()


_shared = _SharedLimit()


@cache
def _libraries() -> ThreadpoolController:
    """Return the libraries of linear algebra; NumPy's and SciPy's are loaded already."""
    return ThreadpoolController()
