"""How the engine goes from the graph's labels to the model's own posterior: clamp, settle, release.

With t from 0 to 1 over the steps: unlabelled rows gain their weight κ until t = ¼; the graph's
labels hold with weight τ = 1 until then, and are released by t = ½; curvatures are taken with
caution until then, and as they are from ⅔; the rate ρ falls from .5 to .2; what is kept is the
average over the last steps.

The log-parameters stay at their start until all rows count: learned from few of them they go astray
and have not come back when the steps end. From then on they move less and less, to nothing where
the average begins, so that single batches leave no trace in them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

FIRST_ROWS = 300.0  # unlabelled rows that count at the start
CLAMPED, RELEASED, BOLD = 1 / 4, 1 / 2, 2 / 3  # ends of the stages, as shares of the steps
FIRST_RATE, LAST_RATE = 0.5, 0.2  # an ascent goes on at the last
SLOWER = (1 / 8, 3 / 4)  # from where to where the rate falls
AVERAGED = 0.72  # from which on log-parameters rest, and steps are averaged
AVERAGED_ONWARD = 0.8  # the same of an ascent that goes on
LEARNING_RATE, ONWARD_RATE = 0.2, 0.1  # of the log-parameters, at first; when an ascent goes on
STEPS_PER_ROUND = 4  # of natural gradients, after which the log-parameters take one
ROUNDS_AT_ONCE = 5  # between two reports


class Schedule(NamedTuple):
    """One number per step, (steps,) each, and one per round.

    rate, row_weight, graph_weight, caution, averaged : as in `objective.Pace`
    learning_rate : (rounds,) of the log-parameters
    """

    rate: Array
    row_weight: Array
    graph_weight: Array
    caution: Array
    averaged: Array
    learning_rate: Array


def n_whole_steps(n_steps: int) -> int:
    """Return the number of steps, rounded up to whole reports.

    Examples
    --------
    >>> n_whole_steps(90)
    100
    """
    unit = STEPS_PER_ROUND * ROUNDS_AT_ONCE
    return unit * -(-n_steps // unit)


def make_schedule(n_steps: int, n: int) -> Schedule:
    """Return the schedule of a whole number of reports, for n rows."""
    t = np.arange(n_steps) / n_steps
    rounds = t[STEPS_PER_ROUND - 1 :: STEPS_PER_ROUND]
    growth = np.log(min(1.0, FIRST_ROWS / max(n, 1)))
    slowing = np.clip((AVERAGED - rounds) / (AVERAGED - CLAMPED), 0.0, 1.0)
    fallen = np.clip((t - SLOWER[0]) / (SLOWER[1] - SLOWER[0]), 0.0, 1.0)
    columns = {
        "rate": FIRST_RATE * (LAST_RATE / FIRST_RATE) ** fallen,
        "row_weight": np.exp(growth * np.maximum(0.0, 1.0 - t / CLAMPED)),
        "graph_weight": np.clip(1.0 - (t - CLAMPED) / (RELEASED - CLAMPED), 0.0, 1.0),
        "caution": np.clip(1.0 - (t - RELEASED) / (BOLD - RELEASED), 0.0, 1.0),
        "averaged": 1.0 * (t >= AVERAGED),
        "learning_rate": LEARNING_RATE * (rounds >= CLAMPED) * slowing,
    }
    return Schedule(**{name: column.astype(np.float32) for name, column in columns.items()})


def onward_schedule(n_steps: int) -> Schedule:
    """Return the schedule of an ascent that goes on: all rows count, and no graph does."""
    t = np.arange(n_steps) / n_steps
    rounds = t[STEPS_PER_ROUND - 1 :: STEPS_PER_ROUND]
    one = np.ones(n_steps)
    columns = {
        "rate": LAST_RATE * one,
        "row_weight": one,
        "graph_weight": 0.0 * one,
        "caution": 0.0 * one,
        "averaged": 1.0 * (t >= AVERAGED_ONWARD),
        "learning_rate": ONWARD_RATE * (rounds <= AVERAGED_ONWARD) * (1.0 - rounds),
    }
    return Schedule(**{name: column.astype(np.float32) for name, column in columns.items()})
