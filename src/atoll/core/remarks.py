"""Warnings that point at the line of the user's code that caused them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LIBRARIES = ("atoll.", "sklearn.", "joblib.")
_HEARD: ContextVar[list[str] | None] = ContextVar("heard", default=None)


@contextmanager
def hearing() -> Iterator[list[str]]:
    """Collect the warnings given inside the block, each once; they are still shown as usual.

    Examples
    --------
    >>> with hearing() as heard, warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     warn_user("the rows are in another order", UserWarning)
    >>> heard
    ['the rows are in another order']
    """
    heard: list[str] = []
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)


def warn_user(message: str, category: type[Warning], *, is_passing: bool = False) -> None:
    """Warn at the line that called the library, however deep inside it this is.

    If scikit-learn called it, as a step of a pipeline, it is the line that called scikit-learn.

    Parameters
    ----------
    is_passing : whether it no longer matters once the work is done, such as how long that takes
    """
    heard = _HEARD.get()
    if heard is not None and not is_passing and message not in heard:
        heard.append(message)
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(LIBRARIES):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
