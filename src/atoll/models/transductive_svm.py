"""The transductive support vector machine (Vapnik 1998; Joachims 1999): paper 001's rival.

Labels of the unlabelled rows are variables too, to be chosen with the boundary so that the margin
is widest, a given share of them positive. That is a combinatorial problem; here it is approached by
self-labelling under the balance constraint, annealed: the rows with the highest decision values are
taken for positive, the machine is trained again on all rows, those without a label at a small cost,
and so on until no label changes; then their cost is doubled, up to that of the labelled rows
(Joachims' scheme, with all labels exchanged at once).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Signs = NDArray[np.intp]
# signs (n,) in {0, 1}, weights (n,) -> a trained machine's decision values of all n rows
Train = Callable[[Signs, Array], Array]

LEAST_COST = 1e-3  # of an unlabelled row at first, relative to a labelled one
COST_FACTOR = 2.0


class Machines(NamedTuple):
    """Trained machines: one for two classes, else one per class, which it tells from the rest."""

    machines: tuple[Any, ...]

    def decide(self, X: Array) -> Array:
        """Return signed distances to the boundary, in margins; X (m, d) -> (m,) or (m, K)."""
        values = [machine.decision_function(X) for machine in self.machines]
        return values[0] if len(values) == 1 else np.column_stack(values)


class Assignment(NamedTuple):
    """Labels for all rows.

    codes : (n,) in {0, 1}
    weights : (n,) cost of a row relative to a labelled one
    n_trained : machines trained
    settled : whether the labels came to rest at every cost
    """

    codes: Signs
    weights: Array
    n_trained: int
    settled: bool


def positive_count(n_unlabelled: int, share: float) -> int:
    """Return how many unlabelled rows are to be positive: a share, but one per class at least."""
    if n_unlabelled < 2:
        return round(n_unlabelled * share)
    return int(np.clip(round(n_unlabelled * share), 1, n_unlabelled - 1))


def assign(
    train: Train,
    codes: Signs,
    is_labelled: NDArray[np.bool_],
    share: float,
    *,
    unlabelled_cost: float = 1.0,
    max_exchanges: int = 10,
) -> Assignment:
    """Label the unlabelled rows, by annealed self-labelling.

    Parameters
    ----------
    train : trains a machine, and returns its decision values
    codes : (n,) in {0, 1}, read where labelled
    share : of the positive class among the unlabelled rows
    unlabelled_cost : of an unlabelled row at the end, relative to a labelled one
    max_exchanges : machines at every cost

    Examples
    --------
    >>> x = np.array([-2.0, -1.5, -1.0, 1.0, 1.5, 2.0])
    >>> known = np.array([True, False, False, False, False, True])
    >>> def nearest_mean(signs, weights):
    ...     return x - 0.5 * sum(np.average(x[signs == k], weights=weights[signs == k])
    ...                          for k in (0, 1))
    >>> assign(nearest_mean, np.array([0, 0, 0, 0, 0, 1]), known, 0.5).codes.tolist()
    [0, 0, 0, 1, 1, 1]
    """
    unknown = np.flatnonzero(~is_labelled)
    n_positive = positive_count(len(unknown), share)
    weights = np.where(is_labelled, 1.0, 0.0)
    current = codes.astype(np.intp)
    if len(unknown) == 0:
        return Assignment(current, weights, 0, True)

    def label(values: Array) -> Signs:
        fresh = current.copy()
        order = unknown[np.argsort(-values[unknown], kind="stable")]
        fresh[order[:n_positive]], fresh[order[n_positive:]] = 1, 0
        return fresh

    current = label(train(current, weights))
    n_trained, settled = 1, True
    cost = LEAST_COST * unlabelled_cost
    while True:
        weights[unknown] = min(cost, unlabelled_cost)
        for _ in range(max_exchanges):
            fresh = label(train(current, weights))
            n_trained += 1
            unchanged = bool(np.array_equal(fresh, current))
            current = fresh
            if unchanged:
                break
        else:
            settled = False
        if cost >= unlabelled_cost:
            return Assignment(current, weights, n_trained, settled)
        cost *= COST_FACTOR
