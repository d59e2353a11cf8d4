"""Labels that an ascent was not shown, for `belief` in the islands' word."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atoll.models import class_shares
from atoll.models.archipelago.engine import fitting
from atoll.models.archipelago.engine.fitting import Options
from atoll.models.archipelago.engine.problem import Problem
from atoll.models.belief import PRIOR_OF_ENGINE, HeldOut, weigh
from atoll.models.calibration import NEVER, folds

MOST_ROWS = 8192  # without a label, of an ascent that holds labels out


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
    counts = np.bincount(problem.codes, problem.label_weights, problem.n_classes)
    held = fold != NEVER
    return weigh(found[held], problem.codes[held], class_shares.given(counts), PRIOR_OF_ENGINE)
