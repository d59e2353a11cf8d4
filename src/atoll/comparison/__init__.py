"""Which model to use, by the user's own labels."""

from atoll.comparison.blending import BlendClassifier
from atoll.comparison.compare import compare_models
from atoll.comparison.page import write_comparison
from atoll.comparison.result import Difference, ModelComparison, ModelRow
from atoll.comparison.supervised import OnStandardisedColumns, PartlyLabelled

__all__ = [
    "BlendClassifier",
    "Difference",
    "ModelComparison",
    "ModelRow",
    "OnStandardisedColumns",
    "PartlyLabelled",
    "compare_models",
    "write_comparison",
]
