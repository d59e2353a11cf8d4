"""What to label next, how wrong we are, and when to stop."""

from atoll.active.learner import ActiveLearner, Query
from atoll.active.situation import Situation
from atoll.active.stopping import StopAdvice
from atoll.active.strategies import STRATEGIES, Strategy
from atoll.diagnostics.wrong_rows import ErrorEstimate

__all__ = [
    "STRATEGIES",
    "ActiveLearner",
    "ErrorEstimate",
    "Query",
    "Situation",
    "StopAdvice",
    "Strategy",
]
