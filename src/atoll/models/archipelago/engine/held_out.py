"""How far the islands' word on classes holds: by labels that an ascent was not shown.

Islands are as sure of themselves where classes are none: where these share an island, or have many
each. So with probability b a row has the class that the islands give it, and else one by the
classes' shares π,

    P(y = k | x) = b p_k(x) + (1 − b) π_k.

b is one of a few numbers, and one beforehand with probability .8. Labels held out weigh them, and
what is left is the mean: P depends on nothing else. Where no label can be held out, because no
class has two, b is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.models.archipelago.engine import fitting
from atoll.models.archipelago.engine.fitting import Options
from atoll.models.archipelago.engine.problem import Problem
from atoll.models.calibration import NEVER, folds

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MOST_ROWS = 8192  # without a label, of an ascent that holds labels out
BELIEFS = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0])
ALL_BELIEVED = 0.8  # prior probability of the last; the others share the rest


class HeldOut(NamedTuple):
    """What labels held out say.

    belief : b, its posterior mean
    shares : (K,) π
    n_labels : held out
    error : share of them that the islands' most probable class is not
    log_loss : of the islands' class probabilities at them, at most that of 1e-12
    log_loss_of_shares : the same, of π
    """

    belief: float
    shares: Array
    n_labels: int
    error: float
    log_loss: float
    log_loss_of_shares: float

    @property
    def doubt(self) -> Array:
        """(1 − b) π, (K,)."""
        return (1.0 - self.belief) * self.shares


def hold_out(
    seed: int,
    problem: Problem,
    options: Options,
    n_folds: int,
    report: Callable[[int, int], None] | None = None,
) -> HeldOut | None:
    """Climb once without each fold of the labels, and ask for those; None where there is no fold.

    Parameters
    ----------
    n_folds : at least two, else no label is held out
    report : hears the fold and the steps taken in it
    """
    if n_folds < 2:
        return None
    fold = folds(np.random.default_rng([seed, n_folds]), problem.codes, n_folds)
    if not (fold != NEVER).any():
        return None
    found = np.zeros((len(fold), problem.n_classes))
    for number in np.unique(fold[fold != NEVER]).tolist():
        held = fold == number
        # Labels keep their places, with no weight: another shape would be another program.
        rest = problem._replace(
            label_weights=np.where(held, 0.0, problem.label_weights),
            rows=problem.rows[:MOST_ROWS],
        )

        def heard(_: int, n_done: int, *rest: object, number: int = number) -> None:
            if report is not None:
                report(number, n_done)

        once = options._replace(n_starts=1)
        posterior = fitting.fit(seed + 1 + number, rest, once, heard).posterior
        found[held] = posterior.log_proba(problem.labelled[held])
    counts = np.bincount(problem.codes, problem.label_weights, problem.n_classes) + 1.0
    held = fold != NEVER
    return weigh(found[held], problem.codes[held], counts / counts.sum())


def weigh(log_proba: Array, codes: Codes, shares: Array) -> HeldOut:
    """Return what held-out labels say of class probabilities that were not shown them.

    Parameters
    ----------
    log_proba : (t, K) by the islands
    codes : (t,)
    shares : (K,) π

    Examples
    --------
    Twenty labels of which the islands have half wrong, and are sure of it:

    >>> sure = np.log(np.tile([0.999, 0.001], (20, 1)))
    >>> found = weigh(sure, np.arange(20) % 2, np.array([0.5, 0.5]))
    >>> found.belief < 0.2, weigh(sure, np.zeros(20, dtype=int), found.shares).belief > 0.95
    (True, True)
    """
    of_islands = np.exp(np.maximum(log_proba[np.arange(len(codes)), codes], np.log(1e-12)))
    of_shares = shares[codes]
    prior = np.full(len(BELIEFS), (1.0 - ALL_BELIEVED) / (len(BELIEFS) - 1))
    prior[-1] = ALL_BELIEVED
    mixed = BELIEFS[:, None] * of_islands + (1.0 - BELIEFS)[:, None] * of_shares
    joint = np.log(mixed).sum(axis=1) + np.log(prior)
    weights = np.exp(joint - np.logaddexp.reduce(joint))
    return HeldOut(
        float(weights @ BELIEFS),
        shares,
        len(codes),
        float(np.mean(log_proba.argmax(axis=1) != codes)),
        float(-np.log(of_islands).mean()),
        float(-np.log(of_shares).mean()),
    )
