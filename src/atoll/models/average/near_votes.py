"""What the nearest labels say themselves, beside a posterior of functions.

A few thousand labels tell a posterior how steep the border between classes is by the handful that
lie on the wrong side; without any it is too sure. Where labels are more, the nearest of all of them
are asked beside it: at every scale the shares of the classes among them are a forecast of their
own. Labels that neither has seen say how much each counts,

    P(y | x) = Σ_i w_i P_i(y | x),   w ~ Dirichlet(2, …, 2),

at the most probable w.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.models.graph_posterior import FeaturePosterior
from atoll.models.graph_recipe import RECIPE, Recipe
from atoll.models.graph_softmax import class_probabilities
from atoll.models.posterior import chosen_states

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

PRIOR_COUNT = 1.0  # labels that each forecast has foretold before any
N_UPDATES = 200
TINY = 1e-12  # the least probability of a label


class NearVotes(NamedTuple):
    """A posterior of functions, and the nearest labels.

    functions : the posterior
    shares : (1 + s,) of it, and of the labels at each of s scales; they sum to one
    n_classes : K
    unit : of the first features, the log shares of classes at each scale: K columns each, or of two
        classes one, their difference
    """

    functions: FeaturePosterior
    shares: Array
    n_classes: int
    unit: float

    def proba(self, features: Array) -> Array:
        """Return the class probabilities; (m, p) -> (m, K)."""
        return np.tensordot(self.shares, np.stack(self.forecasts(features)), 1)

    def forecasts(self, features: Array) -> list[Array]:
        """Return what each says, (m, K)."""
        return [self.functions.proba(features), *self._of_labels(features)]

    def _of_labels(self, features: Array) -> list[Array]:
        width = 1 if self.n_classes == 2 else self.n_classes
        return [
            class_probabilities(features[:, i * width : (i + 1) * width] / self.unit)
            for i in range(len(self.shares) - 1)
        ]

    def latent(self, features: Array) -> tuple[Array, Array]:
        """Return mean and variance of the functions; (m, p) -> (m, F) each."""
        return self.functions.latent(features)

    def draws(self, features: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; (m, p) -> (n, m, K)."""
        counts = np.bincount(chosen_states(rng, n, self.shares), minlength=len(self.shares))
        drawn = [self.functions.draws(features, int(counts[0]), rng)] if counts[0] else []
        said = zip(self._of_labels(features), counts[1:])
        return np.concatenate([*drawn, *(np.tile(p, (count, 1, 1)) for p, count in said)])

    def diagnostics(self, recipe: Recipe = RECIPE) -> dict[str, Any]:
        """Return how the posterior was found, and the share of the labels themselves."""
        found = self.functions.diagnostics(recipe)
        return {**found, "share_of_near_labels": float(1.0 - self.shares[0])}


def weighed_votes(
    functions: FeaturePosterior, n_scales: int, n_classes: int, unit: float, seen: Any, codes: Codes
) -> NearVotes:
    """Weigh a posterior and the nearest labels by other labels.

    Parameters
    ----------
    seen : (j, p) features of rows whose labels nobody has seen
    codes : (j,) these labels
    """
    n = 1 + n_scales
    votes = NearVotes(functions, np.full(n, 1.0 / n), n_classes, unit)
    own = np.arange(len(codes)), codes
    p = np.maximum([said[own] for said in votes.forecasts(seen)], TINY)
    return votes._replace(shares=mixing_shares(p))


def mixing_shares(p: Array) -> Array:
    """Return the most probable shares of forecasts with probabilities p (f, j) of labels, (f,).

    Expectation maximisation: each step gives a forecast the labels that it foretold, in part.

    Examples
    --------
    >>> mixing_shares(np.array([[0.9] * 98, [0.1] * 98])).round(2)
    array([0.99, 0.01])
    """
    shares = np.full(len(p), 1.0 / len(p))
    for _ in range(N_UPDATES):
        each = shares[:, None] * p
        counts = PRIOR_COUNT + (each / each.sum(axis=0)).sum(axis=1)
        shares = counts / counts.sum()
    return shares
