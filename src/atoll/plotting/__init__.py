"""Pictures of fitted models on matplotlib axes; matplotlib is imported when one is drawn."""

from atoll.plotting.bars import class_counts
from atoll.plotting.chains import autocorrelation_plot, trace_plot
from atoll.plotting.maps import ProbabilityGrid, decision_map, entropy_map, probability_grid
from atoll.plotting.palette import class_colours, class_markers
from atoll.plotting.reliability import reliability_diagram

__all__ = [
    "ProbabilityGrid",
    "autocorrelation_plot",
    "class_colours",
    "class_counts",
    "class_markers",
    "decision_map",
    "entropy_map",
    "probability_grid",
    "reliability_diagram",
    "trace_plot",
]
