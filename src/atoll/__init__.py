"""atoll: calibrated class probabilities from many rows and few labels.

Estimators are loaded when they are first used, so that `import atoll` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from atoll.estimators import (
        ArchipelagoClassifier,
        ArchipelagoDensity,
        DPMixtureClassifier,
        GraphGPClassifier,
        InformativeVectorClassifier,
        LaplacianRLSClassifier,
        LaplacianSVC,
        NullCategoryClassifier,
        OrdinalGPClassifier,
        ProbitGPClassifier,
        RowChunks,
        SemiSupervisedKFold,
        SoftmaxGPClassifier,
        SSGPClassifier,
        SSGPRegressor,
        TransductiveSVC,
        load_model,
        save_model,
    )

__all__ = [
    "ArchipelagoClassifier",
    "ArchipelagoDensity",
    "DPMixtureClassifier",
    "GraphGPClassifier",
    "InformativeVectorClassifier",
    "LaplacianRLSClassifier",
    "LaplacianSVC",
    "NullCategoryClassifier",
    "OrdinalGPClassifier",
    "ProbitGPClassifier",
    "RowChunks",
    "SSGPClassifier",
    "SSGPRegressor",
    "SemiSupervisedKFold",
    "SoftmaxGPClassifier",
    "TransductiveSVC",
    "__version__",
    "load_model",
    "save_model",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("atoll.estimators"), name)
    raise AttributeError(f"module 'atoll' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
