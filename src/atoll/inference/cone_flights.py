"""Flights through a cone: a normal distribution restricted to positive values.

The target is z ~ N(0, V) subject to z_i > 0 for every i. Hamiltonian Monte Carlo can be exact there
(Pakman & Paninski 2014): a point with a velocity drawn from N(0, V) moves on an ellipse,
z cos t + speed sin t, and is reflected wherever it meets a wall z_i = 0. After a quarter turn its
position is what the reflections have made of the velocity.

No wall has an offset, so that lengths do not matter, and the straight line z + τ speed, with τ for
tan t, can take the place of the ellipse; on it a quarter turn has no end. A ball that goes straight
on meets finitely many walls, and the velocity with which it leaves the last of them is the next z.
In the metric of V the reflection at wall i takes speed to speed − 2 (speed_i / V_ii) V_i, with V_i
the row of V: one row, and no product of matrices.

A flight leaves little of where it began: from one z to the next there is hardly any correlation,
however narrow the cone, and what there is is mostly negative. A narrow cone costs more reflections.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_BOUNCES = 2**16  # of a flight
STILL_WORTHWHILE = 0.8  # share of flights under way from which on those that ended are left aside
AT_THE_WALL = 1e-30  # a ball that meets a wall, which rounding must not put behind it


def mirrors_of(covariance: Array) -> Array:
    """Return what `fly` takes for V (m, m): in row i what the reflection at wall i is made of."""
    return covariance * (2.0 / np.diagonal(covariance))[:, None]


def fly(z: Array, speed: Array, mirrors: Array, most_bounces: int = MOST_BOUNCES) -> Array:
    """Send a ball from each z with the given speed, and return the speeds that reflections leave.

    If z ~ N(0, V) inside the cone and speed ~ N(0, V), what is returned is a draw of N(0, V) inside
    the cone, too.

    A flight with more than `most_bounces` reflections is given up, and its chain stays at z. The
    way back of a flight has as many reflections, so that this leaves the distribution invariant.

    Parameters
    ----------
    z : (S, m) points inside the cone, one per chain
    speed : (S, m)
    mirrors : (m, m) of `mirrors_of`
        All of them are in double precision, or all in single, and so is what is returned.

    Examples
    --------
    The mean of a standard normal that is positive is √(2/π) = 0.798.

    >>> rng = np.random.default_rng(0)
    >>> z = fly(np.ones((20_000, 1)), rng.standard_normal((20_000, 1)), mirrors_of(np.eye(1)))
    >>> bool(abs(z.mean() - 0.798) < 0.02)
    True
    """
    landed, chain = z.copy(), np.arange(len(z))
    first = z.shape[1] * chain  # where the numbers of a chain begin
    here, ahead, rates = z.copy(), speed.copy(), np.empty_like(z)
    with np.errstate(all="ignore"):
        for bounce in range(most_bounces + 1):
            # The first wall that a ball meets is that of the most negative speed for its distance.
            np.divide(ahead, here, out=rates)
            wall = rates.argmin(axis=1)
            at = first[: len(wall)] + wall
            rate = rates.reshape(-1)[at]
            flying = rate < 0
            n_flying, is_last = np.count_nonzero(flying), bounce == most_bounces
            if is_last or n_flying <= STILL_WORTHWHILE * len(flying):
                landed[chain[~flying]] = ahead[~flying]
                if is_last or n_flying == 0:
                    break
                chain, here, ahead = chain[flying], here[flying], ahead[flying]
                wall, rate, rates = wall[flying], rate[flying], rates[:n_flying]
                at = first[:n_flying] + wall
            else:
                rate[~flying] = -1.0  # flies on beside the others, and meets nothing
            # The point where it meets the wall, in units of the time until then.
            here *= -rate[:, None]
            here += ahead
            here.reshape(-1)[at] = AT_THE_WALL
            # A ball that rounding has put behind the wall comes back without a reflection.
            towards = np.minimum(ahead.reshape(-1)[at], 0.0)
            mirrors.take(wall, axis=0, out=rates, mode="clip")
            rates *= towards[:, None]
            ahead -= rates
    outside = ~(landed > 0).all(axis=1)  # by rounding alone
    landed[outside] = z[outside]
    return landed
