"""The search for the parameters of highest evidence, whatever the evidence is of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import Kernel

from atoll.models.ssgp.process import LENGTH_FACTORS

Array = NDArray[np.float64]

# Where L-BFGS starts (the best of these goes on), and how far it may go: the grid's own range.
START_FACTORS, START_RATIOS = LENGTH_FACTORS, (3.0, 100.0, 1000.0)
RATIO_BOUNDS = (1e-3, 1000.0)


class Point(Protocol):
    """A fit at one value of the parameters."""

    @property
    def log_parameters(self) -> Array:
        """(p,)"""

    @property
    def log_evidence(self) -> float:
        """What is to be maximised."""

    @property
    def slope(self) -> Array:
        """(p,) its gradient."""


P = TypeVar("P", bound=Point)


def search_bounds(base: Kernel, others: Sequence[tuple[float, float]]) -> Array:
    """Return the grid's range around the base kernel's log-parameters, then that of `others`."""
    reach = np.log(max(LENGTH_FACTORS))
    of_base = base.bounds if base.n_dims else np.zeros((0, 2))
    low = np.maximum(of_base[:, 0], base.theta - reach)
    high = np.minimum(of_base[:, 1], base.theta + reach)
    return np.vstack([np.column_stack([low, high]), np.log(others)])


def ascend(
    evaluate: Callable[[Array, P], P],
    starts: Iterable[P],
    bounds: Array,
    report: Callable[[float], None] | None = None,
) -> tuple[P, Array, bool]:
    """Climb the evidence by L-BFGS from the best of some points.

    Parameters
    ----------
    evaluate : log-parameters (p,) and the best point so far -> the point there, with its slope
    bounds : (p, 2)
    report : called with the evidence after every iteration

    Returns
    -------
    best : the highest point found
    log_evidences : (t,) after every iteration
    stopped : whether the search ended by itself
    """
    best = max(starts, key=lambda point: point.log_evidence)
    values = [best.log_evidence]

    def negative(x: Array) -> tuple[float, Array]:
        nonlocal best
        found = evaluate(x, best)
        if found.log_evidence > best.log_evidence:
            best = found
        return -found.log_evidence, -found.slope

    def follow(x: Array) -> None:
        values.append(best.log_evidence)
        if report is not None:
            report(best.log_evidence)

    search: Any = minimize  # whose stubs do not know a function with its gradient
    outcome = search(
        negative,
        np.clip(best.log_parameters, bounds[:, 0], bounds[:, 1]),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=follow,
        options={"maxiter": 60, "ftol": 1e-7, "gtol": 1e-4},
    )
    return best, np.array(values), bool(outcome.status != 1)
