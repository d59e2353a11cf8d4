"""Markov chains inside a cone: a normal distribution restricted by linear constraints.

The target is z ~ N(0, V) subject to A z > 0. A fresh draw ν of N(0, V) and the current z define the
ellipse z cos θ + ν sin θ (Murray, Adams & MacKay 2010). On it every constraint allows half a turn,
and since no constraint has an offset, their intersection is a single arc, which contains θ = 0. The
next z is a uniform point on that arc: no step is ever rejected (Gessner, Kanjilal & Hennig 2020).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import lower_times, solve_lower

Array = NDArray[np.float64]
Constraints = Callable[[Array], Array]
"""z (n, F) -> (m,), linear; all entries are positive inside the cone."""


class Inside(NamedTuple):
    """A point inside the cone: z (n, F), and the constraints' values (m,) there."""

    z: Array
    values: Array


def inside(z: Array, constraints: Constraints) -> Inside:
    """Return the chain that is at z, which must lie inside the cone."""
    values = constraints(z)
    if not np.all(values > 0):
        raise ValueError("start lies outside the cone; every constraint must be positive there.")
    return Inside(z, values)


def step(rng: np.random.Generator, lower: Array, constraints: Constraints, here: Inside) -> Inside:
    """Take one step along a random ellipse; lower (n, n) is the Cholesky factor of V."""
    z, values = here
    other = lower @ rng.standard_normal(z.shape)
    turn = np.arctan2(constraints(other), values)
    angle = rng.uniform(turn.max() - 0.5 * np.pi, turn.min() + 0.5 * np.pi)
    proposal = np.cos(angle) * z + np.sin(angle) * other
    proposed = constraints(proposal)
    # Always, except for rounding at the ends of the arc.
    return Inside(proposal, proposed) if np.all(proposed > 0) else here


def sample_cone(
    rng: np.random.Generator,
    lower: Array,
    constraints: Constraints,
    start: Array,
    *,
    n_warmup: int,
    n_samples: int,
    thin: int,
) -> Array:
    """Run one chain and return its draws of z, (n_samples, n, F).

    The F columns of z are independent N(0, lower lowerᵀ) before they are constrained.

    Parameters
    ----------
    lower : (n, n) Cholesky factor of V
    constraints : z (n, F) -> (m,), linear; all entries are positive inside the cone
    start : (n, F), a point inside the cone
    n_warmup : steps that are dropped first
    n_samples : draws to return
    thin : steps per draw

    Examples
    --------
    The mean of a standard normal that is positive is √(2/π) = 0.798.

    >>> rng = np.random.default_rng(0)
    >>> draws = sample_cone(rng, np.eye(1), np.ravel, np.ones((1, 1)),
    ...                     n_warmup=10, n_samples=4000, thin=2)
    >>> bool(abs(draws.mean() - 0.798) < 0.05)
    True
    """
    here = inside(start, constraints)
    draws = np.empty((n_samples, *start.shape))
    for number in range(n_warmup + n_samples * thin):
        here = step(rng, lower, constraints, here)
        kept, left = divmod(number - n_warmup, thin)
        if number >= n_warmup and left == thin - 1:
            draws[kept] = here.z
    return draws


class Coloured(NamedTuple):
    """Points of many chains, and the white numbers that they are made of: z = white lowerᵀ.

    z : (..., l) ~ N(0, lower lowerᵀ) before it is constrained
    white : (..., l); the squares of a point's white numbers sum to its energy zᵀ V⁻¹ z
    """

    z: Array
    white: Array


def coloured(lower: Array, z: Array) -> Coloured:
    """Return points z (..., l) with their white numbers; lower (l, l) factors the covariance."""
    columns = z.reshape(-1, z.shape[-1]).T
    return Coloured(z, solve_lower(lower, columns).T.reshape(z.shape))


def turn_beside(
    rng: np.random.Generator, lower: Array, here: Coloured, side: Array, limits: Array
) -> Coloured:
    """Take one step of many chains, z (l,) ~ N(0, lower lowerᵀ) with every z_i beyond its limit.

    A limit other than zero allows more or less than half a turn, and the intersection may consist
    of several arcs. The next z is uniform on the arc that contains θ = 0. Every point of that arc
    would lead to the same arc, so that the step leaves the distribution invariant. For this the
    arc must be whole: an end may lie more than half a turn away.

    All arrays are in double precision, or all in single, and so is what is returned.

    Parameters
    ----------
    lower : (l, l) Cholesky factor of the covariance
    here : of z (S, l), one row per chain
    side : (l,) 1 where z_i must exceed its limit, −1 where it must stay below
    limits : (S, l), or an array that broadcasts to that shape

    Examples
    --------
    The mean of a standard normal above one is φ(1)/Φ(−1) = 1.525.

    >>> rng = np.random.default_rng(0)
    >>> here = coloured(np.eye(1), np.full((4000, 1), 2.0))
    >>> for _ in range(20):
    ...     here = turn_beside(rng, np.eye(1), here, np.ones(1), np.ones(1))
    >>> bool(abs(here.z.mean() - 1.525) < 0.05)
    True
    """
    precision, z = here.z.dtype, np.ascontiguousarray(here.z)
    white = rng.standard_normal(z.shape, precision)
    other = np.ascontiguousarray(lower_times(lower, white.T).T)
    first, last = np.asarray(arc_beside(z, other, side, limits), np.float64)
    angle = (first + (last - first) * rng.random(len(z)))[:, None].astype(precision)
    cosine, sine = np.cos(angle), np.sin(angle)
    proposal = cosine * z
    proposal += np.multiply(sine, other, out=other)
    beyond = np.subtract(proposal, limits, out=other)
    beyond *= side
    white *= sine
    white += cosine * here.white
    kept = ~(beyond > 0).all(axis=1)
    if kept.any():  # by rounding at the ends; all others are inside
        proposal[kept], white[kept] = z[kept], here.white[kept]
    return Coloured(proposal, white)


def arc_beside(z: Array, other: Array, side: Array, limits: Array) -> tuple[Array, Array]:
    """Return the ends of the arc of z cos θ + other sin θ beyond its limits that holds θ = 0.

    With u = −cot(θ/2), which grows from −∞ to ∞ over a whole turn, a constraint
    A cos θ + B sin θ + C > 0 reads (A + C) u² − 2 B u + C − A > 0. A + C is positive at θ = 0:
    the smaller root is the first that is met going forwards, the larger one going back. So the
    ends are found by square roots, and only they themselves are turned into angles.

    Parameters
    ----------
    z, other : (S, l)
    side, limits : as in `turn_beside`

    Returns
    -------
    first, last : (S,), first ≤ 0 ≤ last; −π and π where no limit is ever met
    """
    # The side is a sign of A, B and C alike, which both roots do without.
    within = z - limits  # A + C
    within += np.finfo(within.dtype).tiny * side  # never zero
    beyond = -limits - z  # C − A
    root = np.square(other)
    root -= within * beyond
    # NaN where the limit is never met, and where both roots are zero: fmin and fmax pass it over.
    with np.errstate(divide="ignore", invalid="ignore"):
        _put_signs(np.sqrt(root, out=root), other)
        root += other
        one = np.divide(root, within, out=within)
        two = np.divide(beyond, root, out=beyond)
        ahead = np.fmin.reduce(np.fmin(one, two, out=root), axis=1)
        behind = np.fmax.reduce(np.fmax(one, two, out=one), axis=1)
    first, last = 2.0 * np.arctan2(1.0, -behind) - 2.0 * np.pi, 2.0 * np.arctan2(1.0, -ahead)
    free = np.isnan(ahead)  # the arc is the whole circle
    return np.where(free, -np.pi, first), np.where(free, np.pi, last)


def _put_signs(values: Array, signs: Array) -> None:
    """Give values that are not negative the signs of others: `copysign` in place, by its bits.

    NumPy's own takes each number for itself, and as long as all else that an arc needs.
    """
    bits = np.dtype(f"u{values.itemsize}")
    negative = signs.view(bits) & bits.type(1 << 8 * values.itemsize - 1)
    np.bitwise_or(values.view(bits), negative, out=values.view(bits))
