"""Ordinal regression (paper 004): y = k where b_k < z < b_{k+1}, z = f + ε, ε ~ N(0, 1).

The slide's φ(b_{k+1}) − φ(b_k) lacks the function: P(y = k | f) = Φ(b_{k+1} − f) − Φ(b_k − f).
With a null width w the ranks keep a distance: b_k + w/2 < z < b_{k+1} − w/2, and a row without a
label lies in one of these intervals, never between them.

f has mean zero, so that all K − 1 cut points are free: fixing the first, as is done beside a free
intercept, would fix the first rank's share at one half.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from atoll.core.gaussian import log_ndtr_difference
from atoll.core.regions import (
    Intervals,
    PreparedRegions,
    RegionFamily,
    RegionGradients,
    log_region_probability,
)

Array = NDArray[np.float64]


class Ordinal(NamedTuple):
    """The likelihood that a posterior of one function carries; its cut points are in φ.

    null_width : w
    """

    null_width: float

    def log_class_probabilities(
        self, mean: Array, variance: Array, region_parameters: Array
    ) -> Array:
        """Return log P(y = k) for f ~ N(mean, variance) at φ; (...,) -> (..., K)."""
        cut_points = cut_points_at(region_parameters, self.null_width)
        return log_class_probabilities(mean, variance, cut_points, self.null_width)


def regions(
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    cut_points: Array,
    null_width: float = 0.0,
) -> Intervals:
    """Return the interval of a labelled row's rank, and of an unlabelled row those of all ranks.

    Parameters
    ----------
    codes : (n,) ranks in 0..K−1, read where labelled
    is_labelled : (n,)
    cut_points : (K−1,) b, increasing by more than `null_width`
    null_width : w
    """
    lower, upper = _rank_intervals(cut_points, null_width)
    if np.all(is_labelled):
        return Intervals(lower[codes, None], upper[codes, None], np.zeros((len(codes), 1)))
    own = np.asarray(codes)[:, None] == np.arange(len(lower))
    allowed = own | ~np.asarray(is_labelled)[:, None]
    return Intervals(
        np.broadcast_to(lower, allowed.shape),
        np.broadcast_to(upper, allowed.shape),
        np.where(allowed, 0.0, -np.inf),
    )


def log_prob(
    latent: Array,
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    cut_points: Array,
    null_width: float = 0.0,
) -> Array:
    """Return log p(the rank, or that the row is not null | f); latent (n,) -> (n,)."""
    return log_region_probability(
        regions(codes, is_labelled, cut_points, null_width), np.asarray(latent), 1.0
    )


def log_class_probabilities(
    mean: Array, variance: Array, cut_points: Array, null_width: float = 0.0
) -> Array:
    """Return log P(y = k) for f ~ N(mean, variance), in closed form; (...,) -> (..., K).

    Differences of Φ are taken in the tail where they are exact, never squashed. With a null width
    they sum to less than one; a prediction renormalises after averaging over the posterior.

    Examples
    --------
    >>> p = np.exp(log_class_probabilities(np.array(0.0), np.array(0.0), np.array([-1.0, 1.0])))
    >>> p.round(4)
    array([0.1587, 0.6827, 0.1587])
    """
    lower, upper = _rank_intervals(cut_points, null_width)
    m = np.asarray(mean)[..., None]
    sd = np.sqrt(1.0 + np.asarray(variance))[..., None]
    return log_ndtr_difference((lower - m) / sd, (upper - m) / sd)


def sample(
    rng: np.random.Generator, latent: Array, cut_points: Array, null_width: float = 0.0
) -> NDArray[np.intp]:
    """Draw ranks given f, −1 for a row that falls between two; latent (...,) -> (...,)."""
    z = latent + rng.standard_normal(np.shape(latent))
    rank = np.searchsorted(cut_points, z)
    lower, upper = _rank_intervals(cut_points, null_width)
    return np.where((z > lower[rank]) & (z < upper[rank]), rank, -1)


def cut_points_at(parameters: Array, null_width: float = 0.0) -> Array:
    """Return b of φ = (b_1, log gaps beyond the null width); (..., K−1) -> (..., K−1)."""
    gaps = null_width + np.exp(parameters[..., 1:])
    return np.cumsum(np.concatenate([parameters[..., :1], gaps], axis=-1), axis=-1)


def family(
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    n_classes: int,
    null_width: float,
    scale: float,
) -> RegionFamily:
    """Return the regions as functions of the cut points, all of which are free.

    Their prior is centred where K ranks are equally probable under z ~ N(0, scale²): b_1 with
    standard deviation `scale`, the logarithms of the gaps with standard deviation one.

    Parameters
    ----------
    scale : standard deviation of z under the prior of the function
    """
    K = n_classes
    centre = scale * ndtri(np.arange(1, K) / K)
    # With many ranks and a wide null region the equal gaps are not all free: half of one at least.
    gaps = np.diff(centre)
    mean = np.append(centre[:1], np.log(np.maximum(gaps - null_width, 0.5 * gaps)))
    names = ("first_cut_point", *(f"log_gap_{k}" for k in range(1, K - 1)))

    def gradient(parameters: Array, of_regions: RegionGradients) -> Array:
        of_rows = of_regions.ends
        if of_rows[0].shape[1] == 1:  # one interval per row, that of its rank
            of_rows = tuple(ends * np.eye(K)[codes] for ends in of_rows)
        by_lower, by_upper = (ends.sum(axis=0) for ends in of_rows)
        by_cut = by_upper[:-1] + by_lower[1:]
        beyond = np.cumsum(by_cut[::-1])[::-1]  # a gap moves every cut point beyond it
        return np.append(beyond[:1], beyond[1:] * np.exp(parameters[1:]))

    def one_cut_point(parameters: Array, distance: float, which: int) -> tuple[Array, float]:
        """Move b_which alone; ∂φ/∂b is one over the gaps on its sides."""
        moved, before, after = parameters.copy(), 0.0, 0.0
        if which == 0:
            moved[0] += distance
        for gap, change in ((which, distance), (which + 1, -distance)):
            if 1 <= gap < K - 1:
                size = np.exp(parameters[gap]) + change
                if size <= 0.0:
                    return parameters, -np.inf
                moved[gap] = np.log(size)
                before, after = before + parameters[gap], after + moved[gap]
        return moved, before - after

    def stretch(parameters: Array, log_factor: float) -> tuple[Array, float]:
        first = parameters[:1] * np.exp(log_factor)
        return np.append(first, parameters[1:] + log_factor), log_factor

    own, unseen = np.asarray(codes)[is_labelled], ~np.asarray(is_labelled)

    def total_given(latent: Array) -> Callable[[Array], float]:
        of_seen, others = latent[is_labelled], latent[unseen][:, None]

        def total(parameters: Array) -> float:
            lower, upper = _rank_intervals(cut_points_at(parameters, null_width), null_width)
            log_mass = log_ndtr_difference(lower[own] - of_seen, upper[own] - of_seen).sum()
            if len(others) > 0:
                by_rank = log_ndtr_difference(lower - others, upper - others)
                log_mass += np.logaddexp.reduce(by_rank, axis=1).sum()
            return float(log_mass)

        return total

    return RegionFamily(
        names,
        mean,
        np.append(scale, np.ones(K - 2)),
        lambda parameters: PreparedRegions(
            regions(codes, is_labelled, cut_points_at(parameters, null_width), null_width)
        ),
        gradient,
        moves=tuple(partial(one_cut_point, which=k) for k in range(K - 1)),
        shift_index=0,
        stretch=stretch,
        total_given=total_given,
    )


def _rank_intervals(cut_points: Array, null_width: float) -> tuple[Array, Array]:
    """Return lower and upper ends of the K ranks, (K,) each."""
    half, ends = 0.5 * null_width, np.empty(len(cut_points) + 2)
    ends[0], ends[1:-1], ends[-1] = -np.inf, cut_points, np.inf
    return ends[:-1] + half, ends[1:] - half
