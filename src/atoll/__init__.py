"""atoll: calibrated class probabilities from many rows and few labels.

The public names are those of `atoll.estimators`, which is loaded when one of them is first used, so
that `import atoll` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from atoll.estimators import *  # noqa: F403

_NOT_HERE = ("CLASSIFIERS", "MODELS")  # lists for tests and the command line


def _public_names() -> list[str]:
    names = import_module("atoll.estimators").__all__
    return sorted({*names, "__version__"}.difference(_NOT_HERE))


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return _public_names()
    if not name.startswith("_") and name in _public_names():
        return getattr(import_module("atoll.estimators"), name)
    raise AttributeError(f"module 'atoll' has no attribute {name!r}")


def __dir__() -> list[str]:
    return _public_names()
