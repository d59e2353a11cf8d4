"""Warnings that point at the line of the user's own that brought them about."""

from __future__ import annotations

import inspect
import warnings

LIBRARIES = ("atoll.", "sklearn.", "joblib.")


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called the library, however deep inside it this is.

    Where scikit-learn called it, as a step of a pipeline, the line is the one that called that.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(LIBRARIES):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
