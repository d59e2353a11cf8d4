"""What the estimators on a graph-warped kernel share: their parameters, problem and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.estimators.parameters import KERNEL, Flag, OneOf, Rule, Whole
from atoll.estimators.shell import Need
from atoll.kernels.graph_warped import WEIGHTS, Geometry
from atoll.models.ssgp import Problem, base_kernel

Array = NDArray[np.float64]

DENSE_COPIES = 8  # n × n matrices alive at once

WARPED: Mapping[str, Rule] = {
    "kernel": KERNEL,
    "n_neighbors": Whole(1),
    "weights": OneOf(*WEIGHTS),
    "normalised": Flag(),
    "power": Whole(1),
    "verbose": Flag(),
}
"""Parameters of every estimator on a graph-warped kernel."""


def problem_of(estimator: Any, X: Array) -> Problem:
    """Return the kernel and the graph of all rows that an estimator's parameters ask for."""
    geometry = Geometry.from_rows(
        X,
        n_neighbors=estimator.n_neighbors,
        weights=estimator.weights,
        normalised=estimator.normalised,
        power=estimator.power,
    )
    return Problem(base_kernel(estimator.kernel, X), geometry)


def dense_need(estimator: Any, n: int, m: int) -> Need:
    """Return the memory of matrices of n rows, and of m sites or targets."""
    return Need(
        8 * DENSE_COPIES * (n * n + m * m),
        f"{type(estimator).__name__} with {n} rows in its graph",
        "Use GraphGPClassifier, which holds no dense matrix of all rows, or fit on fewer rows (a "
        "random part of the unlabelled ones).",
    )
