"""Classifiers with scikit-learn's interface; what prepares tables, holds out labels and saves."""

from typing import Any

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

# Every classifier with class probabilities, by its name on the command line.
MODELS: dict[str, Any] = {
    "atoll": AtollClassifier,
    "archipelago": ArchipelagoClassifier,
    "dp-mixture": DPMixtureClassifier,
    "graph-gp": GraphGPClassifier,
    "informative-vector": InformativeVectorClassifier,
    "laplacian-rls": LaplacianRLSClassifier,
    "laplacian-svc": LaplacianSVC,
    "null-category": NullCategoryClassifier,
    "ordinal-gp": OrdinalGPClassifier,
    "probit-gp": ProbitGPClassifier,
    "softmax-gp": SoftmaxGPClassifier,
    "ssgp": SSGPClassifier,
    "transductive-svc": TransductiveSVC,
}

# Every public classifier. The tests walk this list; one without probabilities would be added here.
CLASSIFIERS: dict[str, Any] = dict(MODELS)

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
