"""Regions of an auxiliary variable: what a label says about z = f + noise.

A label confines z to an interval; a missing label may leave several, each with a weight. This
one type serves the probit (half-lines), the ordinal (intervals) and the null category (two
half-lines with a gap between them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from atoll.core.gaussian import log_ndtr_difference, truncated_normal

Array = NDArray[np.float64]


class Regions(NamedTuple):
    """For each of n rows a union of R disjoint intervals of z, with weights.

    lower, upper : (n, R) ends of the intervals
    log_weight : (n, R) log weight of an interval; -inf where the row does not have it
    """

    lower: Array
    upper: Array
    log_weight: Array


def log_region_masses(regions: Regions, mean: Array, sd: Array | float) -> Array:
    """log of weight times P(z in interval), z ~ N(mean, sd²); mean (n,) -> (n, R)."""
    m, s = np.asarray(mean)[:, None], np.broadcast_to(sd, np.shape(mean))[:, None]
    return regions.log_weight + log_ndtr_difference(
        (regions.lower - m) / s, (regions.upper - m) / s
    )


def log_region_probability(regions: Regions, mean: Array, sd: Array | float) -> Array:
    """log of the weighted mass of each row's union of intervals; mean (n,) -> (n,)."""
    return np.logaddexp.reduce(log_region_masses(regions, mean, sd), axis=1)


def sample_regions(
    rng: np.random.Generator, regions: Regions, mean: Array, sd: Array | float
) -> Array:
    """Draw z ~ N(mean, sd²) restricted to each row's union: the interval first, then z in it."""
    log_masses = log_region_masses(regions, mean, sd)
    # Gumbel's trick: argmax of log mass plus Gumbel noise is a draw proportional to mass.
    chosen = np.argmax(log_masses + rng.gumbel(size=log_masses.shape), axis=1)
    rows = np.arange(len(chosen))
    return truncated_normal(rng, mean, sd, regions.lower[rows, chosen], regions.upper[rows, chosen])


def total_log_probability(regions: Regions) -> Callable[[Array], float]:
    """f (n,) -> Σ_n log of the weighted mass of row n's union, z ~ N(f_n, 1).

    The same as summing `log_region_probability`, prepared once for the many evaluations of a
    sampler: half-lines, the common case, need one log Φ each and no difference.
    """
    upwards = np.isposinf(regions.upper)
    if not np.all(upwards ^ np.isneginf(regions.lower)):
        return lambda f: float(log_region_probability(regions, f, 1.0).sum())
    # z > b has mass Φ(f − b), z < b has mass Φ(b − f); intervals first, rows last.
    sign = np.where(upwards, 1.0, -1.0).T.copy()
    offset = np.where(upwards, -regions.lower, regions.upper).T.copy()
    log_weight = regions.log_weight.T.copy()

    def total(f: Array) -> float:
        log_masses = log_ndtr(sign * f + offset)
        log_masses += log_weight
        return float(np.logaddexp.reduce(log_masses, axis=0).sum())

    return total
