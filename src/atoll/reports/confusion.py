"""Which classes are mistaken for which, and how sure that is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from atoll.core.shown import told_apart
from atoll.reports.words import percent

MOST_CLASSES = 12  # of a matrix; with more, the commonest confusions are listed
MOST_LISTED = 10


def confusion_section(
    probabilities: NDArray[np.float64], codes: NDArray[np.integer], names: list[str]
) -> dict[str, Any]:
    """Return the table of held-out rows by true and predicted class.

    A cell has the number of rows, its share of the true class and the 95% interval of that share
    (Wilson's), which few rows leave wide.

    Parameters
    ----------
    probabilities : (m, K) of held-out rows
    codes : (m,) their true classes
    names : (K,)
    """
    K = len(names)
    counts = np.zeros((K, K), dtype=int)
    np.add.at(counts, (codes, probabilities.argmax(axis=1)), 1)
    of_class = counts.sum(axis=1)
    shown = told_apart(names, 24)
    if K > MOST_CLASSES:
        wrong = counts.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_LISTED]
        pairs = [divmod(int(place), K) for place in order if wrong.flat[place] > 0]
        listed = [
            {"truth": shown[i], "predicted": shown[j], **_cell(counts[i, j], of_class[i])}
            for i, j in pairs
        ]
        return {"matrix": None, "listed": listed, "names": shown}
    matrix = [
        {
            "name": shown[i],
            "n": int(of_class[i]),
            "cells": [{**_cell(counts[i, j], of_class[i]), "right": i == j} for j in range(K)],
        }
        for i in range(K)
    ]
    return {"matrix": matrix, "listed": [], "names": shown}


def _cell(n: int, total: int) -> dict[str, Any]:
    if total == 0:
        return {"n": 0, "share": "", "interval": "", "depth": 0.0}
    interval = binomtest(int(n), int(total)).proportion_ci(method="wilson")
    return {
        "n": int(n),
        "share": percent(n / total),
        "interval": f"{percent(interval.low)} to {percent(interval.high)}",
        "depth": round(0.5 * float(n / total), 3),
    }
