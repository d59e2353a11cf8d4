"""How long a fit will take: measured on part of the work, before the whole of it.

Times are those of a machine with nothing else to do: processor time, if that is less than the time
on the clock.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.fillings import part_of

LONG = 60.0
"""Seconds from which on a fit is announced."""

SMALL = 300  # up to this many rows "auto" samples, and a fit without sampling is never long
PATIENCE = 3.0  # seconds of trials
POWERS = (1.0, 3.0)  # time grows with the number of rows to a power between these
POWERS_OF_GRAPHS = (0.3, 1.4)  # the same for the rows of a graph
ROW_POWER = 0.3  # the time of a row beyond the graph grows with the graph's rows to this power
TRIAL_SWEEPS = 2  # of warm-up, and as many of draws
TRIAL_ROWS = 2000  # rows predicted, to tell how long a row beyond the graph takes
SMALL_GRAPH = 2000  # rows of a graph that takes seconds, suggested in place of a larger one
FEW_LABELS = 200  # up to this many labels it does
MANY_CLASSES = 20  # with more, a fit of part of the rows takes about as long as that of all
MANY_ROWS = 200_000  # with more, a fit does not predict every row of its table


class Cost(NamedTuple):
    """How long fits of parts of the rows took.

    sizes, seconds : number of rows of each part, and the time of its fit
    a_row : seconds of a row beyond the graph, by the last part; 0 if the model has no graph
    powers : least and greatest power of the rows by which time may grow
    """

    sizes: list[int]
    seconds: list[float]
    a_row: float
    powers: tuple[float, float]

    def of(self, n: int, most: int | None) -> float:
        """Return the seconds of a fit of n rows, of which at most `most` are on the graph."""
        size = n if most is None else min(n, most)
        grown = size / self.sizes[-1]
        beyond = (n - size) * self.a_row * max(grown, 1.0) ** ROW_POWER
        return float(self.seconds[-1] * grown ** self._power() + beyond)

    def _power(self) -> float:
        """Return the power of the rows by which time grew at last; if unknown, the greatest."""
        least, greatest = self.powers
        if len(self.sizes) < 2:
            return greatest
        if not (self.seconds[-2] > 0 and self.seconds[-1] > 0):
            return least
        ratio = self.sizes[-1] / self.sizes[-2]
        return float(
            np.clip(np.log(self.seconds[-1] / self.seconds[-2]) / np.log(ratio), *self.powers)
        )


def expected_seconds(estimator: Any, X: Any, y: NDArray[Any], long: float = LONG) -> float:
    """Return about how long a fit will take; if that is short, an upper limit.

    Parts of the rows are fitted, twice as many each time, while that takes a second or two; the
    time of all rows follows from how it grew. A graph has `max_graph_rows` rows at most: a row
    beyond them costs what its prediction does. Chains make a few sweeps in a trial, and their time
    is scaled by the sweeps that they will make. A graph of very many classes is not tried: the
    steps of its fit are counted.

    Parameters
    ----------
    estimator : not fitted; clones of it are
    X, y : (n, p) and (n,) rows and labels, None where unlabelled
    long : seconds below which a limit is enough
    """
    n, most = X.shape[0], graph_rows(estimator)
    by_classes = None if most is None else seconds_by_classes(estimator, n, y, most)
    if by_classes is not None:
        return by_classes
    if is_by_engine(estimator, X, y):  # its steps take the same time for any number of rows
        rows = _part(y, min(n, SMALL + 20), every_label=False)
        took, fitted = _trial(estimator, part_of(X, rows), y[rows])
        return took + n * _seconds_of_a_row(fitted, part_of(X, slice(TRIAL_ROWS)))
    if n <= SMALL:
        return _trial(estimator, X, y)[0] if sweeps_of(estimator) else 0.0
    if most is not None and n <= SMALL_GRAPH:
        known = y[y != np.array(None)]
        if len(known) <= FEW_LABELS or len(set(known.tolist())) > MANY_CLASSES:
            return 0.0  # a trial would take about as long as the fit
    return measured_cost(estimator, X, y, long).of(n, most)


def seconds_by_classes(estimator: Any, n: int, y: NDArray[Any], most: int) -> float | None:
    """Return about how long a fit of very many classes will take; None if a trial can tell.

    Parameters
    ----------
    n, y : rows, and their labels (n,), None where unlabelled
    most : rows of the graph, at most
    """
    from atoll.estimators.class_timing import seconds_of_draws, seconds_of_regression

    known = y[y != np.array(None)]
    n_classes = len({*known.tolist(), *(estimator.get_params(deep=False).get("classes") or ())})
    if getattr(estimator, "_regresses", lambda K: False)(n_classes):
        return seconds_of_regression(len(known), n_classes, min(n, most), max(n - most, 0))
    recipe = getattr(estimator, "_recipe_of_draws", lambda K: None)(n_classes)
    if recipe is None or n_classes <= MANY_CLASSES:
        return None
    n_labels, n_rows = min(len(known), recipe.choice.most_labels), min(n, most)
    return seconds_of_draws(recipe, n_labels, n_classes, estimator.n_draws, n_rows, n - n_rows)


def measured_cost(estimator: Any, X: Any, y: NDArray[Any], long: float = LONG) -> Cost:
    """Return what fits of parts of the rows took; parameters as in `expected_seconds`."""
    n, most = X.shape[0], graph_rows(estimator)
    powers = POWERS if most is None else POWERS_OF_GRAPHS
    largest = n if most is None else min(n, most)
    size, spent = min(n, SMALL + 20), 0.0
    sizes: list[int] = []
    seconds: list[float] = []
    while True:
        rows = _part(y, size, every_label=most is not None)
        sizes.append(len(rows))
        began = time.process_time()
        took, fitted = _trial(estimator, part_of(X, rows), y[rows])
        spent += time.process_time() - began
        seconds.append(took)
        a_row = 0.0
        if most is not None and not is_very_large(estimator, X):
            a_row = _seconds_of_a_row(fitted, part_of(X, slice(TRIAL_ROWS)))
        certainly_quick = Cost(sizes[-1:], seconds[-1:], a_row, powers).of(n, most) < long
        if certainly_quick or 2 * size > largest or spent > PATIENCE:
            break
        size *= 2
    if len(sizes) == 1 and spent > PATIENCE:  # a smaller part then tells how time grows
        rows = _part(y, size // 2, every_label=most is not None)
        took, _ = _trial(estimator, part_of(X, rows), y[rows])
        if took > 0:
            sizes, seconds = [len(rows), *sizes], [took, *seconds]
    return Cost(sizes, seconds, a_row, powers)


def is_very_large(estimator: Any, X: Any) -> bool:
    """Return whether there are too many rows for a fit to predict each of them."""
    from scipy import sparse

    takes = getattr(estimator, "takes_far_rows", False) and not sparse.issparse(X)
    is_plain = estimator.get_params(deep=False).get("metric", "euclidean") == "euclidean"
    return bool(takes and is_plain and X.shape[0] > MANY_ROWS)


def is_by_engine(estimator: Any, X: Any, y: NDArray[Any]) -> bool:
    """Return whether a model that can run chains will use its engine instead."""
    asked = getattr(estimator, "_is_by_engine", None)
    return asked is not None and bool(asked(X.shape[0], y))


def in_words(seconds: float) -> str:
    """Return a time as a person would say it.

    Examples
    --------
    >>> in_words(20), in_words(100), in_words(3600), in_words(9000), in_words(1e6), in_words(1e9)
    ('less than a minute', '2 minutes', '60 minutes', '2.5 hours', '12 days', 'more than a year')
    """
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86_400
    if seconds < LONG:
        return "less than a minute"
    if minutes < 90:
        return f"{max(2, round(minutes))} minutes"
    if hours < 10:
        return f"{round(2 * hours) / 2:g} hours"
    if hours < 48:
        return f"{round(hours)} hours"
    return f"{round(days)} days" if days < 365 else "more than a year"


def seconds_of(call: Callable[[], Any]) -> float:
    """Return the seconds that a call takes on a machine that has nothing else to do."""
    wall, processor = time.perf_counter(), time.process_time()
    call()
    # Threads add up to more than the wall's time; other programs make the wall's time longer.
    return min(time.perf_counter() - wall, time.process_time() - processor)


def graph_rows(estimator: Any) -> int | None:
    """Return how many rows the graph of a model has at most; None where it has no graph."""
    most = estimator.get_params(deep=False).get("max_graph_rows")
    return None if most is None else int(most)


def sweeps_of(estimator: Any, most: bool = False) -> int:
    """Return the number of sweeps of all chains, one after another; 0 if there are no chains.

    Chains may go on until they have mixed; with `most`, the number is the largest possible.
    """
    from joblib import effective_n_jobs

    from atoll.estimators.sampling import patience_of

    has = estimator.get_params(deep=False)
    if not {"n_chains", "n_warmup", "n_samples"} <= set(has):
        return 0
    at_once = min(has["n_chains"], effective_n_jobs(has.get("n_jobs")))
    rounds = -(-has["n_chains"] // at_once)
    n_draws = patience_of(estimator).counts[-1 if most else 0]
    return rounds * (has["n_warmup"] + n_draws * has.get("thin", 1))


def _trial(estimator: Any, X: Any, y: NDArray[Any]) -> tuple[float, Any]:
    """Return the seconds that a fit of these rows would take, and the model; None if it fails."""
    from sklearn.base import clone

    fresh, sweeps = clone(estimator), sweeps_of(estimator)
    has = fresh.get_params(deep=False)
    few = {"n_chains": 1, "n_warmup": TRIAL_SWEEPS, "n_samples": TRIAL_SWEEPS, "thin": 1}
    wanted: dict[str, Any] = {"verbose": False, "checkpoint": None, "n_jobs": 1}
    wanted |= few if sweeps else {}
    fresh.set_params(**{name: value for name, value in wanted.items() if name in has})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            seconds = seconds_of(lambda: fresh.fit(X, y))
        except ValueError:  # part of the rows may be too few; the whole says so itself
            return 0.0, None
    if sweeps and "n_chains" in fresh.diagnostics_:
        seconds *= sweeps / (2 * TRIAL_SWEEPS)
    return seconds, fresh


def _seconds_of_a_row(fitted: Any, X: Any) -> float:
    """Return the seconds of the prediction of a row."""
    return 0.0 if fitted is None else seconds_of(lambda: fitted.predict_proba(X)) / X.shape[0]


def _part(y: NDArray[Any], size: int, every_label: bool) -> NDArray[np.intp]:
    """Return some rows, in order, with every class in it.

    Parameters
    ----------
    size : how many
    every_label : whether labelled rows are preferred, up to half of the part
    """
    rng = np.random.default_rng(0)
    known = np.flatnonzero(y != np.array(None))
    first = known[np.unique(np.array([str(label) for label in y[known]]), return_index=True)[1]]
    others = rng.permutation(np.setdiff1d(np.arange(len(y)), first))
    if every_label:
        is_known = np.isin(others, known)
        early = others[is_known][: max(0, size // 2 - len(first))]
        others = np.concatenate([early, np.setdiff1d(others, early, assume_unique=True)])
        others[len(early) :] = rng.permutation(others[len(early) :])
    return np.sort(np.concatenate([first, others[: max(0, size - len(first))]]))
