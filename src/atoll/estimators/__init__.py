"""Classifiers with scikit-learn's interface; what prepares tables, holds out labels and saves.

A module is imported when one of its names is first used: nobody needs all of the models at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atoll.core.chunks import RowChunks
    from atoll.estimators.archipelago import ArchipelagoClassifier, ArchipelagoDensity
    from atoll.estimators.atoll import AtollClassifier
    from atoll.estimators.dp_mixture import DPMixtureClassifier
    from atoll.estimators.graph_gp import GraphGPClassifier
    from atoll.estimators.informative_vector import InformativeVectorClassifier
    from atoll.estimators.laplacian import LaplacianRLSClassifier, LaplacianSVC
    from atoll.estimators.model_selection import (
        SemiSupervisedKFold,
        cross_val_predict,
        cross_val_score,
    )
    from atoll.estimators.null_category import NullCategoryClassifier
    from atoll.estimators.ordinal_gp import OrdinalGPClassifier
    from atoll.estimators.persistence import load_model, save_model
    from atoll.estimators.probit_gp import ProbitGPClassifier
    from atoll.estimators.softmax_gp import SoftmaxGPClassifier
    from atoll.estimators.ssgp import SSGPClassifier, SSGPRegressor
    from atoll.estimators.table_explanation import explain_row
    from atoll.estimators.tables import TablePreprocessor, make_preprocessor
    from atoll.estimators.transductive_svm import TransductiveSVC

_PLACES = {
    "ArchipelagoClassifier": "atoll.estimators.archipelago",
    "ArchipelagoDensity": "atoll.estimators.archipelago",
    "AtollClassifier": "atoll.estimators.atoll",
    "DPMixtureClassifier": "atoll.estimators.dp_mixture",
    "GraphGPClassifier": "atoll.estimators.graph_gp",
    "InformativeVectorClassifier": "atoll.estimators.informative_vector",
    "LaplacianRLSClassifier": "atoll.estimators.laplacian",
    "LaplacianSVC": "atoll.estimators.laplacian",
    "NullCategoryClassifier": "atoll.estimators.null_category",
    "OrdinalGPClassifier": "atoll.estimators.ordinal_gp",
    "ProbitGPClassifier": "atoll.estimators.probit_gp",
    "RowChunks": "atoll.core.chunks",
    "SSGPClassifier": "atoll.estimators.ssgp",
    "SSGPRegressor": "atoll.estimators.ssgp",
    "SemiSupervisedKFold": "atoll.estimators.model_selection",
    "SoftmaxGPClassifier": "atoll.estimators.softmax_gp",
    "TablePreprocessor": "atoll.estimators.tables",
    "TransductiveSVC": "atoll.estimators.transductive_svm",
    "cross_val_predict": "atoll.estimators.model_selection",
    "cross_val_score": "atoll.estimators.model_selection",
    "explain_row": "atoll.estimators.table_explanation",
    "load_model": "atoll.estimators.persistence",
    "make_preprocessor": "atoll.estimators.tables",
    "save_model": "atoll.estimators.persistence",
}


class _Kinds(Mapping[str, Any]):
    """Classes by short names, each imported when it is first asked for."""

    def __init__(self, names: dict[str, str]):
        self._names = names

    def __getitem__(self, name: str) -> Any:
        return _imported(self._names[name])

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


# Every classifier with class probabilities, by its name on the command line.
MODELS: Mapping[str, Any] = _Kinds(
    {
        "atoll": "AtollClassifier",
        "archipelago": "ArchipelagoClassifier",
        "dp-mixture": "DPMixtureClassifier",
        "graph-gp": "GraphGPClassifier",
        "informative-vector": "InformativeVectorClassifier",
        "laplacian-rls": "LaplacianRLSClassifier",
        "laplacian-svc": "LaplacianSVC",
        "null-category": "NullCategoryClassifier",
        "ordinal-gp": "OrdinalGPClassifier",
        "probit-gp": "ProbitGPClassifier",
        "softmax-gp": "SoftmaxGPClassifier",
        "ssgp": "SSGPClassifier",
        "transductive-svc": "TransductiveSVC",
    }
)

# Every public classifier. The tests walk this list; one without probabilities would be added here.
CLASSIFIERS: Mapping[str, Any] = MODELS

__all__ = [
    "CLASSIFIERS",
    "MODELS",
    "ArchipelagoClassifier",
    "ArchipelagoDensity",
    "AtollClassifier",
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
    "TablePreprocessor",
    "TransductiveSVC",
    "cross_val_predict",
    "cross_val_score",
    "explain_row",
    "load_model",
    "make_preprocessor",
    "save_model",
]


def _imported(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'atoll.estimators' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


if not TYPE_CHECKING:  # a type checker would take any name for one of ours
    __getattr__ = _imported


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
