"""How long a comparison will take, said before its first fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.comparison.candidates import Candidate
from atoll.estimators.shell import SemiSupervisedClassifier
from atoll.estimators.timing import (
    LONG,
    SMALL_GRAPH,
    expected_seconds,
    graph_rows,
    in_words,
    seconds_by_classes,
)

ANNOUNCED = 30.0  # seconds from which on a comparison says how long it will take
MOST = 0.5  # share of the time from which on a single model is named as the slow one
PART_OF_DEFAULT = 0.4  # share of the default's time that another model of the same graphs takes


def seconds_of_models(
    candidates: Sequence[Candidate],
    X: Any,
    codes: NDArray[np.intp],
    n_splits: int,
    tell: Callable[[str], None],
) -> dict[str, float]:
    """Return about how long all fits of each model will take; peers are quick, and left out.

    A model on a graph of few rows is not tried and has 0 seconds: a trial would take longer than
    the fit itself, and tell less.

    Parameters
    ----------
    X : (n, d) the rows, as the models are fitted to them
    codes : (n,) classes, -1 where unlabelled
    n_splits : fits of each model
    tell : called with the name of a model before it is tried
    """
    y = codes.astype(object)
    y[codes < 0] = None
    long = ANNOUNCED / (n_splits * max(1, len(candidates)))
    found = {}
    for one in candidates:
        if isinstance(one.model, SemiSupervisedClassifier):
            tell(one.name)
            is_small = X.shape[0] <= SMALL_GRAPH and _is_tried_on_graph(one.model, X, y)
            each = 0.0 if is_small else expected_seconds(one.model, X, y, long)
            found[one.name] = n_splits * each
    return found


def _is_tried_on_graph(model: SemiSupervisedClassifier, X: Any, y: NDArray[Any]) -> bool:
    """Return whether a model has a graph, and its time is found by trials, not by counting."""
    most = graph_rows(model)
    return most is not None and seconds_by_classes(model, X.shape[0], y, most) is None


class Forecast:
    """Says once how long a comparison will take: before it, or after the default's first fit.

    Graphs of few rows are not tried, since that would take as long as a fit: the default's first
    fit tells its own time, and about that of others, whose graphs are the same.

    Parameters
    ----------
    candidates : the models that are tried
    seconds : of all fits of each, by trials
    n_splits : fits of each
    default : name of the default
    say : called with what there is to say
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        seconds: Mapping[str, float],
        n_splits: int,
        default: str,
        say: Callable[[str], None],
    ):
        self._seconds = dict(seconds)
        self._untried = [
            one.name
            for one in candidates
            if seconds.get(one.name) == 0.0 and graph_rows(one.model) is not None
        ]
        self._n_splits, self._default, self._say = n_splits, default, say
        self._began: tuple[float, float] | None = None
        self._is_done = False
        self._announce()

    def before_fit(self, name: str) -> None:
        """Note that a model is about to be fitted."""
        if self._is_done:
            return
        now = time.perf_counter(), time.process_time()
        if self._began is not None:
            took = min(after - before for after, before in zip(now, self._began))
            self._seconds |= dict.fromkeys(self._untried, PART_OF_DEFAULT * self._n_splits * took)
            self._seconds[self._default] = self._n_splits * took
            self._announce()
            self._is_done = True
        elif name == self._default:
            self._began = now

    def _announce(self) -> None:
        said = announcement(self._seconds, self._default)
        if said is not None:
            self._is_done = True
            self._say(said)


def announcement(seconds: Mapping[str, float], default: str) -> str | None:
    """Return what to say before a comparison of half a minute or more; None before a shorter one.

    Parameters
    ----------
    seconds : of all fits of each model
    default : name of the model that cannot be left out

    Examples
    --------
    >>> announcement({"atoll": 5.0, "dp-mixture": 295.0}, "atoll").partition(";")[0]
    'This will take about 5 minutes on a machine with nothing else to do, most of it for dp-mixture'
    >>> announcement({"atoll": 5.0, "dp-mixture": 36.0}, "atoll")[:33]
    'This will take about 40 seconds o'
    >>> announcement({"atoll": 65.0, "graph-gp": 25.0}, "atoll").partition("do, ")[2]
    'most of it for atoll; a smaller max_rows= takes less.'
    >>> announcement({"atoll": 5.0}, "atoll")
    """
    total = sum(seconds.values())
    if total <= ANNOUNCED:
        return None
    words = in_words(total) if total >= LONG else f"{10 * round(total / 10)} seconds"
    said = f"This will take about {words} on a machine with nothing else to do"
    others = [name for name in seconds if name != default]
    slowest = max(others, key=lambda name: seconds[name], default=default)
    if slowest == default or seconds.get(default, 0.0) > MOST * total:
        which = f", most of it for {default}" if len(seconds) > 1 else ""
        return f"{said}{which}; a smaller max_rows= takes less."
    which = f", most of it for {slowest}" if seconds[slowest] > MOST * total else ""
    return (
        f"{said}{which}; without=[{slowest!r}], or in the shell --without {slowest}, leaves "
        f"{slowest} out."
    )
