"""What every posterior answers: the one seam between models and what is built on them.

A posterior is a `NamedTuple` of plain arrays that predicts without its model: the likelihood it
needs travels with it. Estimators, averages over models, active learning, reports and saved files
ask it nothing but what is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@runtime_checkable
class Posterior(Protocol):
    """Class probabilities of new rows: their average, and joint draws of them."""

    def log_proba(self, X: Any) -> Array:
        """Return log P(y = k | x, data), averaged over the posterior; X (m, d) -> (m, K)."""

    def draws(self, X: Any, n: int, rng: np.random.Generator) -> Array:
        """Return n equally weighted joint draws of the class probabilities; X (m, d) -> (n, m, K).

        Rows of one draw belong together: they come from the same functions. Two equal rows have
        equal probabilities in every draw. Their mean approaches `exp(log_proba(X))`, except where
        that weighs a draw by what it says of the row itself; such a posterior says so.
        """


@runtime_checkable
class FunctionPosterior(Posterior, Protocol):
    """A posterior over latent functions, of which the class probabilities are a transformation."""

    def latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance of the functions; X (m, d) -> (m, F) each."""


@runtime_checkable
class DensityPosterior(Protocol):
    """A posterior over densities of rows."""

    def log_density(self, X: Any) -> Array:
        """Return log p(x | data), averaged over the posterior; X (m, d) -> (m,)."""

    def sample(
        self, rng: np.random.Generator, n: int, codes: NDArray[np.intp] | None = None
    ) -> tuple[Any, NDArray[np.intp]]:
        """Return n rows and their class codes, of the classes in `codes` (n,) where it is given."""


def chosen_states(rng: np.random.Generator, n: int, weights: Array) -> NDArray[np.intp]:
    """Choose which of S weighted states serve n draws, each as often as its weight asks, in order.

    Systematic resampling: a state of weight w serves n w draws, rounded up or down.

    Parameters
    ----------
    weights : (S,) that sum to one

    Examples
    --------
    >>> chosen_states(np.random.default_rng(0), 4, np.array([0.5, 0.25, 0.25])).tolist()
    [0, 0, 1, 2]
    """
    places = (rng.random() + np.arange(n)) / n
    ends = np.cumsum(weights)
    return np.searchsorted(ends / ends[-1], places).clip(0, len(weights) - 1)


def class_by_class(codes: NDArray[np.intp], draw: Callable[[int, int], Any]) -> Any:
    """Return rows of the classes asked for, (n, d), drawn together where they share a class.

    Parameters
    ----------
    codes : (n,) classes
    draw : (class, m) -> (m, d)

    Examples
    --------
    >>> codes = np.array([1, 0, 1])
    >>> class_by_class(codes, lambda k, m: np.full((m, 1), 10 * k)).ravel().tolist()
    [10, 0, 10]
    """
    order = np.argsort(codes, kind="stable")
    classes, counts = np.unique(codes, return_counts=True)
    rows = np.concatenate([draw(int(k), int(m)) for k, m in zip(classes, counts, strict=True)])
    return rows[np.argsort(order, kind="stable")]
