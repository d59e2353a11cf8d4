"""Hamiltonian Monte Carlo of many chains at once, in coordinates of about equal width.

Whoever asks chooses coordinates in which the target is about equally wide in all directions, so
that one step size suits them all (Neal 2011, section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROUNDING = 1e-20  # of a product of spreads, relative to that of the quantities themselves
LogDensity = Callable[[Array], tuple[Array, Array]]
"""x (..., S, d) -> log densities (S,) and their gradients (..., S, d)."""


class Chains(NamedTuple):
    """What the next step needs.

    position : (..., S, d) x; all axes but the last but one belong to one chain
    log_density : (S,)
    gradient : (..., S, d) with respect to x
    """

    position: Array
    log_density: Array
    gradient: Array


def init(position: Array, log_density: LogDensity) -> Chains:
    """Return chains that start at position (..., S, d)."""
    return Chains(position, *log_density(position))


def step(
    rng: np.random.Generator,
    chains: Chains,
    log_density: LogDensity,
    step_size: float,
    n_leapfrog: int,
) -> tuple[Chains, Array]:
    """Make one transition of every chain that leaves exp(log_density) invariant.

    Parameters
    ----------
    chains : in single or double precision, which the next ones have too

    Returns
    -------
    chains
    acceptance : (S,) probability of accepting each chain's proposal

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def normal(x):
    ...     return -0.5 * np.sum(x**2, axis=1), -x
    >>> chains = init(np.zeros((4, 3)), normal)
    >>> chains, acceptance = step(rng, chains, normal, 0.1, 5)
    >>> bool(acceptance.min() > 0.99)
    True
    """
    momentum = rng.standard_normal(chains.position.shape, chains.position.dtype)
    x, logp, gradient = chains
    p = momentum + 0.5 * step_size * gradient
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is refused below
        for i in range(n_leapfrog):
            x = x + step_size * p
            logp, gradient = log_density(x)
            p += (0.5 if i == n_leapfrog - 1 else 1.0) * step_size * gradient
        change = logp - chains.log_density
        change = change + 0.5 * (_squares(momentum) - _squares(p))
    change = np.where(np.isfinite(change), np.minimum(change, 0.0), -np.inf)
    moved = np.log1p(-rng.random(len(change))) < change
    merged = Chains(
        np.where(moved[:, None], x, chains.position),
        np.where(moved, logp, chains.log_density),
        np.where(moved[:, None], gradient, chains.gradient),
    )
    return merged, np.exp(change)


def _squares(x: Array) -> Array:
    """Return the sum of the squares of each chain's numbers; (..., S, d) -> (S,)."""
    each = x.reshape(-1, *x.shape[-2:])
    return np.asarray(np.einsum("bsd,bsd->s", each, each))


def memory(before: Array, now: Array) -> float:
    """Return how well the chains remember: the correlation, over chains, of before with now.

    The correlations of the q quantities are averaged; one that is the same for all chains, up to
    rounding, has none to remember.

    Parameters
    ----------
    before, now : (S, q) quantities of each chain, at two times

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> round(memory(x, 3.0 * x), 12), memory(x, np.ones_like(x))
    (1.0, 0.0)
    """
    x, y = before - before.mean(axis=0), now - now.mean(axis=0)
    scale = np.sqrt(np.sum(x**2, axis=0) * np.sum(y**2, axis=0))
    size = np.sqrt(np.sum(before**2, axis=0) * np.sum(now**2, axis=0))
    differ = scale > ROUNDING * size
    return float(np.mean(np.sum(x * y, axis=0) * differ / np.where(differ, scale, 1.0)))
