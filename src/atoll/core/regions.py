"""Regions of auxiliary variables: what a label says about z = f + noise.

A label confines z to a region; a missing label may leave several, each with a weight. Two types
serve every model of the family:

- `Intervals`, with one z per row: half-lines (probit), intervals (ordinal), two half-lines with a
  gap between them (null category);
- `Margins`, with K values of z per row: z_k > z_i + a for every other class i (multinomial probit
  with a = 0, multi-class null category with a > 0).

Both have the methods of `Regions`, the only ones that inference calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from math import exp, expm1, inf, log
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri_exp

from atoll.core.gaussian import (
    expected_product_of_ndtr,
    expected_product_of_ndtr_slopes,
    inverse_mills_ratio,
    log_expected_product_of_ndtr,
    log_ndtr_difference,
    log_normal_density,
    product_peak,
    small_mass,
    truncated_normal,
    winning_masses,
    winning_slopes,
)

Array = NDArray[np.float64]
LARGE_ENOUGH = log(1e3)  # times a region's least mass: beside it fifteen decimals are twelve digits
RowUpdate = Callable[[int, "float | list[float]", "float | list[float]", float, list[float]],
                     "float | list[float]"]  # fmt: skip


class RegionGradients(NamedTuple):
    """The log of the weighted mass of each row's regions, and its derivatives.

    log_probability : (n,) the log mass itself
    mean : derivative by the mean of z, of its shape: (n,) or (n, K)
    curvature : (n,) trace of the Hessian by the mean
    log_weight : (n, R) derivative by each log weight: the share of the region in its row's mass
    ends : for `Intervals` the derivatives by lower and upper, (n, R) each; for `Margins` only the
        derivative by the margin, (n,)
    """

    log_probability: Array
    mean: Array
    curvature: Array
    log_weight: Array
    ends: tuple[Array, ...]


class Total(Protocol):
    """A function f -> Σ_n log(weighted mass of row n), z ~ N(f_n, 1), for many calls."""

    def __call__(self, latent: Array, least: float = -inf) -> float:
        """Return the sum, or −inf where that is plain to be less than `least`."""


class Regions(Protocol):
    """What inference asks of regions, whatever their shape.

    n_free : number of dimensions of a row's z that its regions constrain
    n_uniforms : number of uniform random numbers that `row_update` takes per row
    """

    @property
    def log_weight(self) -> Array: ...
    @property
    def n_free(self) -> int: ...
    @property
    def n_uniforms(self) -> int: ...

    def zeros(self) -> Array:
        """Return a mean of zero for every z, in the shape that the methods take."""

    def log_masses(self, mean: Array, sd: Array | float) -> Array:
        """Return the log of weight times P(z in region), z ~ N(mean, sd²); -> (n, R)."""

    def sample(self, rng: np.random.Generator, mean: Array, sd: Array | float) -> Array:
        """Draw z ~ N(mean, sd²) restricted to each row's regions: first a region, then z in it."""

    def shares(self, mean: Array, sd: Array | float) -> Array:
        """Return P(z in region r | z in the row's regions), (n, R), to fifteen decimals or so."""

    def total(self) -> Total: ...

    def row_update(self) -> RowUpdate:
        """Return a function (row, z, mean, sd, uniforms) -> a new z of that row, for many calls.

        The update leaves N(mean, sd²) restricted to the row's regions invariant. It works in plain
        Python floats: rows are visited one by one, and arrays of length one are slow.
        """

    def gradients(self, mean: Array, sd: Array | float) -> RegionGradients: ...


AnyRegions = TypeVar("AnyRegions", bound=Regions)


# What both types share ----------------------------------------------------------------------------


def log_region_probability(regions: Regions, mean: Array, sd: Array | float) -> Array:
    """Return the log of the weighted mass of each row's regions, (n,)."""
    return np.logaddexp.reduce(regions.log_masses(mean, sd), axis=1)


def log_region_shares(regions: Regions, mean: Array, sd: Array | float) -> Array:
    """Return log P(z in region r | z in the row's regions), (n, R)."""
    log_masses = regions.log_masses(mean, sd)
    return log_masses - np.logaddexp.reduce(log_masses, axis=1, keepdims=True)


def _choose(rng: np.random.Generator, log_masses: Array) -> NDArray[np.intp]:
    """Draw one of each row's regions in proportion to its mass; (n, R) -> (n,)."""
    # Gumbel's trick: argmax of log mass plus Gumbel noise is a draw proportional to mass.
    return np.argmax(log_masses + rng.gumbel(size=log_masses.shape), axis=1)


class PreparedRegions:
    """Regions whose functions for many calls are prepared once, when they are first asked for."""

    def __init__(self, regions: Regions):
        self.regions = regions

    @cached_property
    def several(self) -> bool:
        """Whether any row has more than one region."""
        return bool((np.isfinite(self.regions.log_weight).sum(axis=1) > 1).any())

    @cached_property
    def total(self) -> Total:
        return self.regions.total()

    @cached_property
    def update_row(self) -> RowUpdate:
        return self.regions.row_update()


# A function of φ and c that returns φ moved by c and the log of the volume factor |∂φ'/∂φ|. A move
# by c followed by a move by d is a move by c + d.
Move = Callable[[Array, float], tuple[Array, float]]


class RegionFamily(NamedTuple):
    """Regions that depend on free parameters φ, such as cut points, with a normal prior on φ.

    names : (q,) names of the entries of φ
    mean, sd : (q,) mean and standard deviation of φ's independent normal prior
    at : φ -> the regions at φ
    gradient : φ, RegionGradients -> (q,) gradient of the total log mass by φ
    moves : ways for a sampler to change φ, which together reach every φ
    shift_index : index of the entry of φ that grows by c when c is added to all z, so that the
        regions move with z; None if there is no such entry
    stretch : the move that φ makes when all z are multiplied by e^c; None if no scale is free
    total_given : f -> (φ -> the total log mass), where that takes less time than `at` for many φ
        and one f; None: by `at`
    """

    names: tuple[str, ...]
    mean: Array
    sd: Array
    at: Callable[[Array], PreparedRegions]
    gradient: Callable[[Array, RegionGradients], Array]
    moves: tuple[Move, ...] = ()
    shift_index: int | None = None
    stretch: Move | None = None
    total_given: Callable[[Array], Callable[[Array], float]] | None = None

    def given(self, latent: Array) -> Callable[[Array], float]:
        """Return a function φ -> Σ_n log(weighted mass of row n), z ~ N(f_n, 1), for many φ."""
        if self.total_given is not None:
            return self.total_given(latent)
        return lambda parameters: self.at(parameters).total(latent)


def regions_of_rows(regions: AnyRegions, rows: NDArray[np.intp]) -> AnyRegions:
    """Return the regions of the given rows."""
    return type(regions)(*(part[rows] if np.ndim(part) else part for part in regions))  # type: ignore[attr-defined]


def shifted(regions: Intervals, offset: ArrayLike) -> Intervals:
    """Return the regions of z − offset, given those of z; offset () or (n,)."""
    by = np.asarray(offset, dtype=float)
    by = by[:, None] if by.ndim else by
    return Intervals(regions.lower - by, regions.upper - by, regions.log_weight)


def with_bias(family: RegionFamily, bias: float, sd: float | None) -> RegionFamily:
    """Return the family for f + b, with b = bias or, given `sd`, b ~ N(bias, sd²) as the last φ."""
    free = sd is not None

    def split(parameters: Array) -> tuple[Array, float]:
        return (parameters[:-1], parameters[-1]) if free else (parameters, bias)

    def gradient(parameters: Array, of_regions: RegionGradients) -> Array:
        slope = family.gradient(split(parameters)[0], of_regions)
        return np.append(slope, of_regions.mean.sum()) if free else slope

    def at(parameters: Array) -> PreparedRegions:
        inner, offset = split(parameters)
        regions = family.at(inner).regions
        assert isinstance(regions, Intervals)  # a bias is for models of one latent function
        return PreparedRegions(shifted(regions, offset))

    return RegionFamily(
        (*family.names, "bias") if free else family.names,
        np.append(family.mean, bias) if free else family.mean,
        family.sd if sd is None else np.append(family.sd, sd),
        at,
        gradient,
    )


def fixed_regions(regions: Regions) -> RegionFamily:
    """Return the family with one member and no free parameter."""
    prepared, none = PreparedRegions(regions), np.zeros(0)
    return RegionFamily((), none, none, lambda _: prepared, lambda _, __: none)


# One z per row ------------------------------------------------------------------------------------


class Intervals(NamedTuple):
    """For each of n rows, a union of R disjoint intervals of z, with weights.

    lower, upper : (n, R) ends of the intervals
    log_weight : (n, R) log weight of each interval; -inf if the row does not have it
    """

    lower: Array
    upper: Array
    log_weight: Array

    @property
    def n_free(self) -> int:
        return 1

    @property
    def n_uniforms(self) -> int:
        return 2

    def zeros(self) -> Array:
        return np.zeros(len(self.lower))

    def log_masses(self, mean: Array, sd: Array | float) -> Array:
        a, b, _ = self._standardised(mean, sd)
        return self.log_weight + log_ndtr_difference(a, b)

    def sample(self, rng: np.random.Generator, mean: Array, sd: Array | float) -> Array:
        chosen = _choose(rng, self.log_masses(mean, sd))
        rows = np.arange(len(chosen))
        return truncated_normal(rng, mean, sd, self.lower[rows, chosen], self.upper[rows, chosen])

    def shares(self, mean: Array, sd: Array | float) -> Array:
        return np.exp(log_region_shares(self, mean, sd))

    def total(self) -> Total:
        upwards = np.isposinf(self.upper)
        if not np.all(upwards ^ np.isneginf(self.lower)):
            return lambda latent, least=-inf: float(log_region_probability(self, latent, 1.0).sum())
        # Half-lines, the common case, need one log Φ each and no difference: z > b has mass
        # Φ(f − b), and z < b has mass Φ(b − f). The arrays are (R, n), so that f broadcasts.
        sign = np.where(upwards, 1.0, -1.0).T.copy()
        offset = np.where(upwards, -self.lower, self.upper).T.copy()
        log_weight = self.log_weight.T.copy()

        def total_of_half_lines(latent: Array, least: float = -inf) -> float:
            log_masses = log_ndtr(sign * latent + offset)
            log_masses += log_weight
            return float(np.logaddexp.reduce(log_masses, axis=0).sum())

        return total_of_half_lines

    def row_update(self) -> RowUpdate:
        rows = zip(self.lower.tolist(), self.upper.tolist(), self.log_weight.tolist())
        own = [[t for t in zip(*row) if t[2] > -inf] for row in rows]

        def update(n: int, z: float, mean: float, sd: float, uniforms: list[float]) -> float:
            intervals = own[n]
            lower, upper, _ = intervals[0]
            if len(intervals) > 1:
                log_masses = [
                    w + _log_mass((a - mean) / sd, (b - mean) / sd) for a, b, w in intervals
                ]
                top = max(log_masses)
                masses = [exp(m - top) for m in log_masses]
                left = uniforms[1] * sum(masses)
                for (lower, upper, _), mass in zip(intervals, masses):  # noqa: B007
                    left -= mass
                    if left <= 0.0:
                        break
            return _draw_between(mean, sd, lower, upper, uniforms[0])

        return update  # type: ignore[return-value]

    def gradients(self, mean: Array, sd: Array | float) -> RegionGradients:
        lower, upper, s = self._standardised(mean, sd)
        log_mass = log_ndtr_difference(lower, upper)
        weighted = self.log_weight + log_mass
        log_probability = np.logaddexp.reduce(weighted, axis=1)
        share = np.exp(weighted - log_probability[:, None])
        # φ at an end, divided by the interval's mass; φ is zero at an infinite end.
        with np.errstate(invalid="ignore"):
            by_lower = -share * np.exp(log_normal_density(lower) - log_mass) / s
            by_upper = share * np.exp(log_normal_density(upper) - log_mass) / s
        by_lower, by_upper = (np.where(share > 0, g, 0.0) for g in (by_lower, by_upper))
        by_mean = -(by_lower + by_upper).sum(axis=1)
        # The second derivative follows from φ'(x) = −x φ(x); infinite ends add nothing to it.
        at_lower, at_upper = (np.where(np.isinf(x), 0.0, x) for x in (lower, upper))
        second = -((by_lower * at_lower + by_upper * at_upper) / s).sum(axis=1)
        curvature = second - by_mean**2
        return RegionGradients(log_probability, by_mean, curvature, share, (by_lower, by_upper))

    def _standardised(self, mean: Array, sd: Array | float) -> tuple[Array, Array, Array]:
        m, s = np.asarray(mean)[:, None], np.broadcast_to(sd, np.shape(mean))[:, None]
        return (self.lower - m) / s, (self.upper - m) / s, s


# One z per class and row --------------------------------------------------------------------------


class Margins(NamedTuple):
    """For each of n rows, a union of regions z_k > z_i + margin for all i ≠ k, one per class k.

    Adding one number to all z of a row changes nothing: the regions constrain K − 1 dimensions.

    log_weight : (n, K) log weight of each class's region; -inf if the row does not have it
    margin : a >= 0
    is_rough : whether gradients of five digits are enough
    """

    log_weight: Array
    margin: float
    is_rough: bool = False

    @property
    def n_free(self) -> int:
        return self.log_weight.shape[1] - 1

    @property
    def n_uniforms(self) -> int:
        return self.log_weight.shape[1] + 2

    def zeros(self) -> Array:
        return np.zeros(self.log_weight.shape)

    def log_masses(self, mean: Array, sd: Array | float) -> Array:
        masses = np.full(self.log_weight.shape, -np.inf)
        rows, winners, losers = self._candidates()
        t = self._offsets(mean, sd, rows, winners, losers)
        masses[rows, winners] = self.log_weight[rows, winners] + log_expected_product_of_ndtr(t)
        return masses

    def sample(self, rng: np.random.Generator, mean: Array, sd: Array | float) -> Array:
        mean = np.asarray(mean, dtype=float)
        n, K = mean.shape
        if np.all(np.isfinite(self.log_weight).sum(axis=1) == 1):
            chosen = np.argmax(self.log_weight, axis=1)
        else:
            with np.errstate(divide="ignore"):
                chosen = _choose(rng, np.log(self.shares(mean, sd)))
        rows = np.arange(n)
        s = np.broadcast_to(sd, n)
        t = self._offsets(mean, sd, rows, chosen, _others(K)[chosen])
        best = mean[rows, chosen] + s * _sample_winner(rng, t)
        below = np.where(np.arange(K) == chosen[:, None], np.inf, (best - self.margin)[:, None])
        z = truncated_normal(rng, mean, s[:, None], upper=below)
        z[rows, chosen] = best
        return z

    def shares(self, mean: Array, sd: Array | float) -> Array:
        s = np.broadcast_to(sd, len(mean))
        weight = np.exp(self.log_weight - self.log_weight.max(axis=1, keepdims=True))
        masses = weight * winning_masses(np.asarray(mean) / s[:, None], self.margin / s)
        sums = masses.sum(axis=1)
        small = np.flatnonzero(sums < small_mass(weight.shape[1] - 1))
        sums[small] = 1.0
        masses /= sums[:, None]
        of_small = regions_of_rows(self, small)
        masses[small] = np.exp(log_region_shares(of_small, mean[small], s[small]))
        return masses

    def total(self) -> Total:
        n_regions = np.isfinite(self.log_weight).sum(axis=1)
        one, several = np.flatnonzero(n_regions == 1), np.flatnonzero(n_regions > 1)
        of_one = regions_of_rows(self, one)._total_of_one()
        if len(several) == 0:
            return of_one
        of_several = regions_of_rows(self, several)
        most = of_several.log_weight.max(axis=1)  # no log mass is larger
        weight, smallest = np.exp(of_several.log_weight - most[:, None]), small_mass(self.n_free)
        sum_of_most, a = float(most.sum()), self.margin

        def total_of_rows(latent: Array, least: float = -inf) -> float:
            f, total = latent[several], of_one(latent[one], least - sum_of_most)
            if total + sum_of_most < least:
                return -inf
            if least > -inf and total + _sum_of_logs_at_most(weight, f, a) + sum_of_most < least:
                return -inf
            mass = (weight * winning_masses(f, a)).sum(axis=1)
            small = np.flatnonzero(mass < smallest)
            mass[small] = 1.0
            total += float(np.log(mass).sum()) + float(np.delete(most, small).sum())
            if len(small) == 0:
                return total
            log_masses = log_region_probability(regions_of_rows(of_several, small), f[small], 1.0)
            return total + float(log_masses.sum())

        return total_of_rows

    def _total_of_one(self) -> Total:
        """Return the total where every row has one region."""
        rows, winners, losers = self._candidates()
        log_weight, smallest = self.log_weight[rows, winners], small_mass(self.n_free)

        def total_of_one(latent: Array, least: float = -inf) -> float:
            t = self._offsets(latent, 1.0, rows, winners, losers)
            if least > -inf:  # no mass is above that of the class that is hardest to beat
                most = log_ndtr(np.sqrt(0.5) * t.min(axis=1)).sum() + log_weight.sum()
                if most < least:
                    return -inf
            mass = expected_product_of_ndtr(t)
            # Only small masses need log space.
            small = mass < smallest
            if not small.any():
                return float(np.log(mass).sum() + log_weight.sum())
            sum_of_others = np.log(mass[~small]).sum() + log_weight[~small].sum()
            most = small.sum() * np.log(smallest) + log_weight[small].sum()
            if sum_of_others + most < least:
                return -inf
            log_masses = log_weight[small] + log_expected_product_of_ndtr(t[small])
            return float(sum_of_others + log_masses.sum())

        return total_of_one

    def row_update(self) -> RowUpdate:
        K, a = self.log_weight.shape[1], self.margin
        weights = self.log_weight.tolist()

        def update(
            n: int, z: list[float], mean: list[float], sd: float, uniforms: list[float]
        ) -> list[float]:
            z, weight = z.copy(), weights[n]
            winner = max(range(K), key=z.__getitem__)
            # Swapping the winner's z with another's moves to another region and keeps volume.
            other = (winner + 1 + int(uniforms[K] * (K - 1))) % K
            if weight[other] > -inf:
                gap, drift = z[winner] - z[other], mean[other] - mean[winner]
                log_ratio = weight[other] - weight[winner] + gap * drift / (sd * sd)
                if log(uniforms[K + 1]) < log_ratio:
                    z[winner], z[other] = z[other], z[winner]
                    winner = other
            best, second = z[winner], -inf
            for i in range(K):
                if i != winner:
                    z[i] = _draw_between(mean[i], sd, -inf, best - a, uniforms[i])
                    second = max(second, z[i])
            z[winner] = _draw_between(mean[winner], sd, second + a, inf, uniforms[winner])
            return z

        return update  # type: ignore[return-value]

    def gradients(self, mean: Array, sd: Array | float) -> RegionGradients:
        n, K = self.log_weight.shape
        several = np.isfinite(self.log_weight).sum(axis=1) > 1
        if K <= 4 or self.is_rough or not several.any():  # else dearer
            return self._gradients_by_region(mean, sd)
        s, rows = np.broadcast_to(sd, n), np.flatnonzero(several)
        found, enough = regions_of_rows(self, rows)._gradients_together(mean[rows], s[rows])
        rest = np.flatnonzero(~several)
        if not enough.all():
            rest = np.union1d(rest, rows[~enough])
        if len(rest) == 0:
            return found
        others = regions_of_rows(self, rest)._gradients_by_region(mean[rest], s[rest])

        def joined(together: Array, apart: Array) -> Array:
            values = np.empty((n, *together.shape[1:]))
            values[rows], values[rest] = together, apart
            return values

        return RegionGradients(
            joined(found.log_probability, others.log_probability),
            joined(found.mean, others.mean),
            joined(found.curvature, others.curvature),
            joined(found.log_weight, others.log_weight),
            (joined(found.ends[0], others.ends[0]),),
        )

    def _gradients_together(
        self, mean: Array, sd: Array
    ) -> tuple[RegionGradients, NDArray[np.bool_]]:
        """Return the gradients by one integral for all regions of a row, and where it is exact.

        It is where the mass of a row is not small.
        """
        most = self.log_weight.max(axis=1)
        weight = np.exp(self.log_weight - most[:, None])
        slopes = winning_slopes(mean / sd[:, None], self.margin / sd)
        weighted = weight * slopes.masses
        mass = weighted.sum(axis=1)
        enough = mass >= small_mass(self.n_free)
        mass = np.where(enough, mass, 1.0)
        weight = weight / mass[:, None]
        ahead = weight[:, :, None] * slopes.gradient / sd[:, None, None]
        by_mean = ahead.sum(axis=2) - ahead.sum(axis=1)
        curvature = (weight * slopes.second).sum(axis=1) / sd**2 - (by_mean**2).sum(axis=1)
        log_probability, share = np.log(mass) + most, weighted / mass[:, None]
        by_margin = -ahead.sum(axis=(1, 2))
        return RegionGradients(log_probability, by_mean, curvature, share, (by_margin,)), enough

    def _gradients_by_region(self, mean: Array, sd: Array | float) -> RegionGradients:
        n, K = self.log_weight.shape
        rows, winners, losers = self._candidates()
        t = self._offsets(mean, sd, rows, winners, losers)
        in_sums = self._in_sums(rows, winners, t)
        slopes = expected_product_of_ndtr_slopes(t, rough=self.is_rough, in_sums=in_sums)
        weighted = np.full((n, K), -np.inf)
        weighted[rows, winners] = self.log_weight[rows, winners] + slopes.value
        log_probability = np.logaddexp.reduce(weighted, axis=1)
        share = np.exp(weighted - log_probability[:, None])
        s = np.broadcast_to(sd, n)[rows]
        of_losers = slopes.gradient / s[:, None]
        of_winner = of_losers.sum(axis=1)
        own = share[rows, winners]
        by_mean = np.zeros((n, K))
        np.add.at(by_mean, (rows, winners), own * of_winner)
        np.subtract.at(by_mean, (rows[:, None], losers), own[:, None] * of_losers)
        # The Hessian of a mixture is the mean of the regions' own, plus their gradients' spread.
        squares = of_winner**2 + (of_losers**2).sum(axis=1)
        curvature = np.bincount(rows, own * (slopes.curvature / s**2 + squares), minlength=n)
        curvature = curvature - (by_mean**2).sum(axis=1)
        by_margin = np.zeros(n)
        np.subtract.at(by_margin, rows, own * of_winner)
        return RegionGradients(log_probability, by_mean, curvature, share, (by_margin,))

    def _in_sums(
        self, rows: NDArray[np.intp], winners: NDArray[np.intp], t: Array
    ) -> NDArray[np.bool_] | None:
        """Return the regions whose mass does not matter if it is small, (e,); None if all matter.

        They are those beside a region of the same row whose mass is not small. Roughly: a row that
        may be of any class has at least one of large mass, and a region of less weight than another
        matters little unless it is that one.
        """
        if len(rows) == len(self.log_weight):
            return None
        weight = self.log_weight[rows, winners]
        if self.is_rough:
            if not (np.isfinite(self.log_weight).all() and self.margin == 0.0):
                return None
            return np.asarray(weight < self.log_weight.max(axis=1)[rows])
        least = np.full(len(self.log_weight), -inf)  # of the largest: Φ(u + t_i) all grow with u
        np.maximum.at(least, rows, weight + log_ndtr(np.sqrt(0.5) * t).sum(axis=1))
        return np.asarray(weight < least[rows] + LARGE_ENOUGH)

    def _candidates(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Return the row and class of each region with weight, (e,), and the others, (e, K−1)."""
        rows, winners = np.nonzero(np.isfinite(self.log_weight))
        return rows, winners, _others(self.log_weight.shape[1])[winners]

    def _offsets(
        self,
        mean: Array,
        sd: Array | float,
        rows: NDArray[np.intp],
        winners: NDArray[np.intp],
        losers: NDArray[np.intp],
    ) -> Array:
        """Return (m_j − m_i − a) / sd for every candidate j and every other class i; (e, K−1)."""
        ahead = mean[rows, winners][:, None] - mean[rows[:, None], losers] - self.margin
        return ahead / (sd if np.ndim(sd) == 0 else np.asarray(sd)[rows][:, None])


@lru_cache(maxsize=16)
def _others(n_classes: int) -> NDArray[np.intp]:
    """Return, for every class, the other classes in order, (K, K−1)."""
    classes = np.arange(n_classes)
    return np.array([np.delete(classes, k) for k in classes]).reshape(n_classes, n_classes - 1)


def _sum_of_logs_at_most(weight: Array, mean: Array, margin: float) -> float:
    """Return what Σ_n log Σ_k weight P(z_k > z_i + margin, all i ≠ k) is not above, weights to one.

    No class wins more often than it beats the largest of the other means.
    """
    best = np.argmax(mean, axis=1)
    rows = np.arange(len(mean))
    others = mean.copy()
    others[rows, best] = -inf
    ahead = mean - mean[rows, best][:, None]
    ahead[rows, best] = mean[rows, best] - others.max(axis=1)
    masses = (weight * ndtr(np.sqrt(0.5) * (ahead - margin))).sum(axis=1)
    # Φ is zero past 38 deviations, where the true mass is not: it is below the smallest number.
    return float(np.log(np.clip(masses, np.finfo(float).tiny, 1.0)).sum())


def _sample_winner(rng: np.random.Generator, offsets: Array) -> Array:
    """Draw u with density ∝ φ(u) Π_i Φ(u + t_i), exactly; offsets (n, m) -> (n,).

    log Φ is concave, so a tangent to Σ log Φ(u + t_i) lies above it, and φ times the tangent's
    exponential is a normal density up to a constant. Rejection sampling from that density accepts
    at least about one proposal in √(1 + m), wherever t lies.
    """
    t = offsets
    at = product_peak(t, n_steps=4)  # any point is valid; near the peak most draws are accepted
    slope = inverse_mills_ratio(at[:, None] + t).sum(axis=1)
    height = log_ndtr(at[:, None] + t).sum(axis=1)
    u, left = np.empty(len(t)), np.arange(len(t))
    while len(left) > 0:
        proposal = slope[left] + rng.standard_normal(len(left))
        log_accept = (
            log_ndtr(proposal[:, None] + t[left]).sum(axis=1)
            - height[left]
            - slope[left] * (proposal - at[left])
        )
        accepted = np.log1p(-rng.random(len(left))) <= log_accept
        u[left[accepted]] = proposal[accepted]
        left = left[~accepted]
    return u


# Scalars, in plain floats -------------------------------------------------------------------------


def _draw_between(mean: float, sd: float, lower: float, upper: float, uniform: float) -> float:
    """Draw from N(mean, sd²) restricted to (lower, upper), given a uniform number in (0, 1]."""
    a, b = (lower - mean) / sd, (upper - mean) / sd
    if a > 0.0:  # the right tail, where Φ rounds to one, is mirrored into the left
        return max(mean - sd * _quantile_below(-b, -a, uniform), lower)
    return min(mean + sd * _quantile_below(a, b, uniform), upper)


def _quantile_below(a: float, b: float, uniform: float) -> float:
    """Return x with Φ(x) = Φ(a) + uniform (Φ(b) − Φ(a)), a <= 0."""
    log_b = float(log_ndtr(b))
    if a == -inf:
        log_mass = log(uniform) + log_b
    else:
        log_ratio = float(log_ndtr(a)) - log_b  # log of Φ(a) / Φ(b)
        log_mass = log_b + log(exp(log_ratio) - uniform * expm1(log_ratio))
    return min(max(float(ndtri_exp(min(log_mass, 0.0))), a), b)


def _log_mass(a: float, b: float) -> float:
    if b == inf:
        return float(log_ndtr(-a))
    if a == -inf:
        return float(log_ndtr(b))
    return float(log_ndtr_difference(a, b))
