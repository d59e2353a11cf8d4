"""Labels that a model foretold without being shown them: they tell how often it is wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

FEWEST_OTHERS = 3  # other labels that a class needs for one of its labels to be held out fairly


class Foretold(NamedTuple):
    """Labels that were held out.

    proba : (t, K) what the model said of their rows, as it says it of any row
    codes : (t,) the labels
    counts : (t,) what each counts
    """

    proba: Array
    codes: Codes
    counts: Array


def audits_of(model: Any) -> tuple[Array, Codes, Array]:
    """Return (a, K), (a,) and (a,): the labels `foretold_` that are audits, each of one at most.

    If its class has few other labels, a row is not predicted fairly without its own.
    """
    K = len(model.classes_)
    told: Foretold | None = getattr(model, "foretold_", None)
    if told is None:
        return np.empty((0, K)), np.empty(0, np.intp), np.empty(0)
    kept = np.bincount(told.codes, minlength=K)[told.codes] > FEWEST_OTHERS
    return told.proba[kept], told.codes[kept], np.minimum(told.counts[kept], 1.0)
