"""Which model to use, by the user's own labels."""

from atoll.comparison.averaged import AveragedClassifier
from atoll.comparison.compare import compare_models
from atoll.comparison.page import write_comparison
from atoll.comparison.result import Difference, ModelComparison, ModelRow

__all__ = [
    "AveragedClassifier",
    "Difference",
    "ModelComparison",
    "ModelRow",
    "compare_models",
    "write_comparison",
]
