"""The scikit-learn surface: one file a family, validation in one place."""

from atoll.estimators.archipelago import ArchipelagoClassifier, ArchipelagoDensity
from atoll.estimators.auxiliary_gp import NullCategoryClassifier, ProbitGPClassifier
from atoll.estimators.model_selection import SemiSupervisedKFold
from atoll.estimators.ordinal_gp import OrdinalGPClassifier
from atoll.estimators.persistence import load_model, save_model
from atoll.estimators.sampled import SampledClassifier
from atoll.estimators.softmax_gp import SoftmaxGPClassifier

# Every public classifier, by its name on the command line. The tests walk this list.
MODELS: dict[str, type[SampledClassifier]] = {
    "archipelago": ArchipelagoClassifier,
    "null-category": NullCategoryClassifier,
    "ordinal-gp": OrdinalGPClassifier,
    "probit-gp": ProbitGPClassifier,
    "softmax-gp": SoftmaxGPClassifier,
}

__all__ = [
    "MODELS",
    "ArchipelagoClassifier",
    "ArchipelagoDensity",
    "NullCategoryClassifier",
    "OrdinalGPClassifier",
    "ProbitGPClassifier",
    "SemiSupervisedKFold",
    "SoftmaxGPClassifier",
    "load_model",
    "save_model",
]
