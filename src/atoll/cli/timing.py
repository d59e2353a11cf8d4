"""How long a fit will take: measured on part of the work, before the whole of it."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

LONG = 60.0
"""Seconds from which a fit is announced."""

SMALL = 300  # rows up to which models that sample do so by themselves, and no fit is long otherwise
PATIENCE = 3.0  # seconds of trials
STEEPEST, FLATTEST = 3.0, 1.0  # powers of the number of rows by which time may grow
TRIAL_SWEEPS = 2  # of warm-up, and as many of draws


def expected_seconds(estimator: Any, X: NDArray[np.float64], y: NDArray[Any]) -> float:
    """Return about how long a fit will take.

    Parts of the rows are fitted, twice as many each time, while that takes a second or two; the
    time of all rows follows from how it grew. Chains make a few sweeps in a trial, and their time
    is scaled by the sweeps that they will make.

    Parameters
    ----------
    estimator : not fitted; clones of it are
    X, y : (n, p) and (n,) rows and labels, None where unlabelled
    """
    n = len(X)
    if n <= SMALL:
        return _trial(estimator, X, y) if _sweeps(estimator) else 0.0
    size, spent = min(n, SMALL + 20), 0.0
    sizes, times = [], []
    while True:
        rows = _part(y, size)
        began = time.perf_counter()
        sizes.append(len(rows))
        times.append(_trial(estimator, X[rows], y[rows]))
        spent += time.perf_counter() - began
        certainly_quick = times[-1] * (n / sizes[-1]) ** STEEPEST < LONG
        if certainly_quick or 2 * size > n or spent > PATIENCE:
            break
        size *= 2
    power = STEEPEST if certainly_quick else _power(sizes, times)
    return float(times[-1] * (n / sizes[-1]) ** power)


def in_words(seconds: float) -> str:
    """Return a time as a person would say it.

    Examples
    --------
    >>> in_words(100), in_words(1500), in_words(9000)
    ('2 minutes', '25 minutes', '2.5 hours')
    """
    if seconds < 3600:
        return f"{max(2, round(seconds / 60))} minutes"
    return f"{seconds / 3600:.2g} hours"


def announcement(estimator: Any, model: str, seconds: float) -> str | None:
    """Return what to say before a long fit, with what would be quicker; None before a short one."""
    if seconds <= LONG:
        return None
    said = f"This will take about {in_words(seconds)}."
    if model == "atoll":
        return f"{said} Quicker: --model graph-gp, or a smaller graph: --set max_graph_rows=2000."
    quicker = "--model atoll, the default, takes seconds"
    if _sweeps(estimator) and "inference" in estimator.get_params(deep=False):
        quicker += "; so may --set inference=vb, where the model has it"
    return f"{said} Quicker: {quicker}."


def _sweeps(estimator: Any) -> int:
    """Return the sweeps that all chains will make, one after another; 0 where there are none."""
    from joblib import effective_n_jobs

    has = estimator.get_params(deep=False)
    if not {"n_chains", "n_warmup", "n_samples"} <= set(has):
        return 0
    at_once = min(has["n_chains"], effective_n_jobs(has.get("n_jobs")))
    rounds = -(-has["n_chains"] // at_once)
    return rounds * (has["n_warmup"] + has["n_samples"] * has.get("thin", 1))


def _trial(estimator: Any, X: NDArray[np.float64], y: NDArray[Any]) -> float:
    """Return the seconds that a fit of these rows would take."""
    from sklearn.base import clone

    fresh, sweeps = clone(estimator), _sweeps(estimator)
    has = fresh.get_params(deep=False)
    few = {"n_chains": 1, "n_warmup": TRIAL_SWEEPS, "n_samples": TRIAL_SWEEPS, "thin": 1}
    wanted: dict[str, Any] = {"verbose": False, "checkpoint": None, "n_jobs": 1}
    wanted |= few if sweeps else {}
    fresh.set_params(**{name: value for name, value in wanted.items() if name in has})
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fresh.fit(X, y)
        except ValueError:  # part of the rows may be too few; the whole says so itself
            return 0.0
    seconds = time.perf_counter() - began
    if sweeps and "n_chains" in fresh.diagnostics_:
        return seconds * sweeps / (2 * TRIAL_SWEEPS)
    return seconds


def _part(y: NDArray[Any], size: int) -> NDArray[np.intp]:
    """Return some rows, in order: of labelled and unlabelled ones alike, with every class in it."""
    rng = np.random.default_rng(0)
    known = np.flatnonzero([label is not None for label in y])
    first = np.unique(np.array([str(label) for label in y[known]]), return_index=True)[1]
    others = rng.permutation(np.setdiff1d(np.arange(len(y)), known[first]))
    return np.sort(np.concatenate([known[first], others[: max(0, size - len(first))]]))


def _power(sizes: list[int], times: list[float]) -> float:
    """Return by which power of the rows time grew at last."""
    if len(sizes) < 2 or not (times[-2] > 0 and times[-1] > 0):
        return STEEPEST if len(sizes) < 2 else FLATTEST
    grown = np.log(times[-1] / times[-2]) / np.log(sizes[-1] / sizes[-2])
    return float(np.clip(grown, FLATTEST, STEEPEST))
