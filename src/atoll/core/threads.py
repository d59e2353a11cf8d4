"""Linear algebra in one thread, for work that comes in many small pieces.

Threads that share a small product wait for each other longer than they work. On a machine that is
busy with something else they also wait for their turn, and a fit of a second can take minutes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[None]:
    """Limit the linear algebra of the process to one thread for a while."""
    found: AbstractContextManager[None] = _libraries().limit(limits=1, user_api="blas")
    return found


@cache
def _libraries() -> ThreadpoolController:
    """Return the libraries of linear algebra; NumPy's and SciPy's are loaded already."""
    return ThreadpoolController()
