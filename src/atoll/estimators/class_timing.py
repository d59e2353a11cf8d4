"""How long a fit of very many classes will take, from its number of steps instead of trials.

A trial on part of the rows has all of the classes, and takes about as long as the fit. Its steps
can be counted instead: reflections of the chains' flights (where labels are many, turns of each
class in every sweep), the modes of the graph and the classes of all rows. One of each is measured.
Where labels are regressed on, the probabilities of labels and rows are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from atoll.inference.cone_flights import fly
from atoll.inference.cone_sampling import Coloured, turn_beside
from atoll.likelihoods.multinomial_probit import class_probabilities
from atoll.models.graph_recipe import RECIPE, ArgmaxRecipe, Recipe

SWEEPS = 4  # times the first look at the chains: most have forgotten their start by then
FLIGHTS = 2  # the same where they fly, which forget sooner
BOUNCES = 4.0  # of a flight, for the square root of the number of walls
MODES_FACTOR = 16.0  # multiplications for each number of the graph's rows and square of its modes
DENSE_FACTOR = 2.0  # the same for each cube of its rows, where modes are more than a quarter
PASSES = 4.0  # over all rows: draws weighed, votes counted, and what else comparing costs
SEARCHES = 400  # probabilities of each label: of views and amplitudes, and of how sure they are
HEADS = 24  # probabilities of each row: of the views and amplitudes that count, and of draws
N_GRAPHS = 3  # of all features, with fewer neighbours too, and of the signal
N_TIMED = 3
ROUNDS = 10  # of reflections
ROWS_TIMED = 200


def seconds_of_draws(
    recipe: Recipe, n_labels: int, n_classes: int, n_draws: int, n_rows: int, n_beyond: int = 0
) -> float | None:
    """Return the seconds of a fit by chains inside a cone; None if it will not use these chains.

    Parameters
    ----------
    n_draws : that the estimator is asked for
    n_rows, n_beyond : rows on the graph, and beside it

    Examples
    --------
    Ten labels for each of 94 classes are more than these chains take.

    >>> from atoll.models.graph_recipe import RECIPE
    >>> print(seconds_of_draws(RECIPE, 940, 94, 256, 3000))
    None
    """
    if recipe.choice.softmax_share(n_labels, n_classes) > 0.0:
        return None
    single: Any = np.float32
    n_chains = recipe.argmax.n_chains(n_draws, n_labels * n_classes)
    drawing = _seconds_of_chains(recipe.argmax, n_labels, n_classes, n_chains)
    n_modes = recipe.prior.n_modes(n_classes)
    modes = _seconds_of_modes(n_modes, n_rows)
    features = np.ones((ROWS_TIMED, n_modes + 1), single)
    coefficients = np.ones((n_modes + 1, n_draws), single)
    a_row = _best(lambda: (features @ coefficients).max(axis=1)) * n_classes / ROWS_TIMED
    return float(drawing + modes + PASSES * a_row * (n_rows + n_beyond))


def _seconds_of_chains(recipe: ArgmaxRecipe, n_labels: int, n_classes: int, n_chains: int) -> float:
    """Return the seconds of chains inside a cone."""
    rng = np.random.default_rng(0)
    single: Any = np.float32
    n_walls = n_labels * (n_classes - 1)
    if recipe.flies(n_labels, n_classes):
        z = np.ones((n_chains, n_walls), single)
        mirrors = np.zeros((n_walls, n_walls), single)
        bounce = _best(lambda: fly(z, -z, mirrors, ROUNDS)) / ROUNDS  # they meet walls for ever
        return FLIGHTS * recipe.first_flights * BOUNCES * float(np.sqrt(n_walls)) * bounce
    start = np.ones((n_chains, n_labels), single)
    here, lower = Coloured(start, start), np.eye(n_labels, dtype=single)
    side, limits = np.ones(n_labels, single), np.zeros((n_chains, n_labels), single)
    turn = _best(lambda: turn_beside(rng, lower, here, side, limits))
    return SWEEPS * recipe.first_sweeps * n_classes * turn


def seconds_of_regression(n_labels: int, n_classes: int, n_rows: int, n_beyond: int = 0) -> float:
    """Return the seconds of a fit that regresses on labels; parameters as in `seconds_of_draws`."""
    mean, none = np.ones((ROWS_TIMED, n_classes)), np.zeros(ROWS_TIMED)
    a_row = _best(lambda: class_probabilities(mean, none)) / ROWS_TIMED
    modes = N_GRAPHS * _seconds_of_modes(RECIPE.prior.n_modes(n_classes), n_rows)
    n_labels = min(n_labels, RECIPE.choice.most_labels)
    return float(modes + a_row * (SEARCHES * n_labels + HEADS * (n_rows + n_beyond)))


def _seconds_of_modes(n_modes: int, n_rows: int) -> float:
    """Return the seconds that the modes of a graph take."""
    basis, block = np.ones((ROWS_TIMED, n_rows)), np.ones((n_rows, 16))
    a_product = _best(lambda: basis @ block) / (basis.size * block.shape[1])
    is_dense = n_modes > n_rows // 4
    size = DENSE_FACTOR * n_rows**2 if is_dense else MODES_FACTOR * n_modes**2
    return a_product * n_rows * size


def _best(call: Callable[[], object]) -> float:
    """Return the seconds of a call: the least of a few, since other programs run beside it."""
    found = []
    for _ in range(N_TIMED + 1):  # the first one wakes the memory
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return min(found[1:])
