"""The transductive support vector machine (Vapnik 1998; Joachims 1999): paper 001's rival.

Labels of the unlabelled rows are variables too, to be chosen with the boundary so that the margin
is widest, a given share of them positive. That is a combinatorial problem; here it is approached by
self-labelling under the balance constraint, annealed: the rows with the highest decision values are
taken for positive, the machine is trained again on all rows, those without a label at a small cost,
and so on until no label changes; then their cost is doubled, up to that of the labelled rows
(Joachims' scheme, with all labels exchanged at once).

How much the unlabelled rows should count is a question to labels: of those that are hidden, their
rows taken for unlabelled, the decision at every cost is known before they are shown (`stages`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.svm import SVC

from atoll.models.calibration import NEVER, Evidence, class_scores, weigh

Array = NDArray[np.float64]
Signs = NDArray[np.intp]
# signs (n,) in {0, 1}, weights (n,) -> a trained machine's decision values of all n rows
Train = Callable[[Signs, Array], Array]

LEAST_COST = 1e-3  # of an unlabelled row at first, relative to a labelled one
COST_FACTOR = 2.0
FEW_EXCHANGES = 3  # at every cost, while a cost is chosen


class Machines(NamedTuple):
    """Trained machines: one for two classes, else one per class, which it tells from the rest."""

    machines: tuple[Any, ...]

    def decide(self, X: Array) -> Array:
        """Return signed distances to the boundary, in margins; X (m, d) -> (m,) or (m, K)."""
        values = [machine.decision_function(X) for machine in self.machines]
        return values[0] if len(values) == 1 else np.column_stack(values)


class Stage(NamedTuple):
    """Where the labels are at one cost.

    cost : of an unlabelled row relative to a labelled one
    codes : (n,) in {0, 1}, of all rows
    values : (n,) decision values of the last machine
    n_trained : machines trained at this cost
    settled : whether the labels came to rest
    """

    cost: float
    codes: Signs
    values: Array
    n_trained: int
    settled: bool


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


def doubled_costs(unlabelled_cost: float) -> list[float]:
    """Return costs from a thousandth of the last one up to it, each twice the one before."""
    costs = [LEAST_COST * unlabelled_cost]
    while costs[-1] < unlabelled_cost:
        costs.append(min(COST_FACTOR * costs[-1], unlabelled_cost))
    return costs


def stages(
    train: Train,
    codes: Signs,
    is_labelled: NDArray[np.bool_],
    share: float,
    costs: Sequence[float],
    *,
    max_exchanges: int = 10,
) -> Iterator[Stage]:
    """Yield the labels at a cost of zero, where labelled rows alone are trained on, then at each.

    Parameters
    ----------
    train : trains a machine, and returns its decision values
    codes : (n,) in {0, 1}, read where labelled
    share : of the positive class among the unlabelled rows
    costs : of an unlabelled row relative to a labelled one, one after another
    max_exchanges : machines at every cost
    """
    unknown = np.flatnonzero(~is_labelled)
    n_positive = positive_count(len(unknown), share)
    weights = np.where(is_labelled, 1.0, 0.0)

    def labelled_by(values: Array) -> Signs:
        fresh = codes.astype(np.intp)
        order = unknown[np.argsort(-values[unknown], kind="stable")]
        fresh[order[:n_positive]], fresh[order[n_positive:]] = 1, 0
        return fresh

    values = train(codes.astype(np.intp), weights)
    current = labelled_by(values)
    yield Stage(0.0, current, values, 1, True)
    for cost in costs:
        weights[unknown] = cost
        n_trained, settled = 0, False
        while not settled and n_trained < max_exchanges:
            n_trained += 1
            values = train(current, weights)
            fresh = labelled_by(values)
            settled = bool(np.array_equal(fresh, current))
            current = fresh
        yield Stage(cost, current, values, n_trained, settled)


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
    unlabelled_cost : of an unlabelled row at the end, relative to a labelled one; 0: they are
        labelled by the machine of the labelled rows
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
    weights = np.where(is_labelled, 1.0, unlabelled_cost)
    if is_labelled.all():
        return Assignment(codes.astype(np.intp), weights, 0, True)
    costs = doubled_costs(unlabelled_cost) if unlabelled_cost > 0 else []
    passed = list(stages(train, codes, is_labelled, share, costs, max_exchanges=max_exchanges))
    n_trained = sum(stage.n_trained for stage in passed)
    return Assignment(passed[-1].codes, weights, n_trained, all(one.settled for one in passed))


# What held-out labels say -------------------------------------------------------------------------


def targets(n_classes: int) -> range:
    """Return the classes that have a machine: the second of two, else all."""
    return range(1, 2) if n_classes == 2 else range(n_classes)


def trainer(gram: Array, C: float) -> Train:
    """Return what trains a machine on a kernel matrix of all rows, (n, n)."""
    machine = SVC(kernel="precomputed", C=C, random_state=0)  # see `laplacian.fit_svc`

    def train(signs: Signs, weights: Array) -> Array:
        used = np.flatnonzero(weights > 0)
        with config_context(skip_parameter_validation=True):  # the same at every one of hundreds
            machine.fit(gram[np.ix_(used, used)], signs[used], sample_weight=weights[used])
        # The machine's own decision_function, without its checks of what it was just given.
        values: Array = gram[:, used[machine.support_]] @ machine.dual_coef_[0]
        return values + machine.intercept_[0]

    return train


def measure_costs(
    gram: Array,
    codes: Signs,
    fold: Signs,
    C: float,
    costs: Sequence[float] = (),
    share: float | None = None,
) -> list[Evidence]:
    """Return what hidden labels say of a cost of zero, and of each of some costs.

    Parameters
    ----------
    gram : (l + u, l + u) kernel matrix of the labelled rows, then of unlabelled ones
    codes : (l,) in 0 to K − 1, each of them there
    fold : (R, l) from `calibration.partitions`
    C : of a labelled row
    costs : of an unlabelled row relative to a labelled one, growing
    share : of the second of two classes among the unlabelled rows; None: as among the labels
    """
    K, n_labelled = codes.max() + 1, len(codes)
    every = np.zeros((1 + len(costs), *fold.shape, K))
    train = trainer(gram, C)
    padded = np.concatenate([codes, np.zeros(len(gram) - n_labelled, dtype=np.intp)])
    for place, partition in enumerate(fold):
        for one in np.unique(partition[partition != NEVER]):
            test = np.flatnonzero(partition == one)
            shown = np.arange(len(gram)) < n_labelled
            shown[test] = False
            values = []
            for k in targets(K):
                signs = (padded == k).astype(np.intp)
                wanted = float(signs[shown].mean()) if share is None else share
                passed = stages(train, signs, shown, wanted, costs, max_exchanges=FEW_EXCHANGES)
                values.append([stage.values[test] for stage in passed])
            for at_cost, found in zip(every, zip(*values)):
                decisions = found[0] if K == 2 else np.column_stack(found)
                at_cost[place, test] = class_scores(decisions)
    return [weigh(scores, codes, fold) for scores in every]
