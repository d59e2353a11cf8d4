"""What to label next, how wrong we are, and when to stop."""

from atoll.active.error import ErrorEstimate
from atoll.active.learner import ActiveLearner, Query
from atoll.active.situation import Situation
from atoll.active.stopping import StopAdvice
from atoll.active.strategies import STRATEGIES, Strategy

__all__ = [
    "STRATEGIES",
    "ActiveLearner",
    "ErrorEstimate",
    "Query",
    "Situation",
    "StopAdvice",
    "Strategy",
]
