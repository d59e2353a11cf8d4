"""Warnings that point at the line of the user's own that brought them about."""

from __future__ import annotations

import inspect
import warnings

_BETWEEN = ("atoll.", "sklearn.", "joblib.")  # of a pipeline, where the step warns


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called the library, however deep inside it this is."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_BETWEEN):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
