"""The null category noise model (papers 001 and 004): no row lies between the classes.

Two classes: z = f + ε, ε ~ N(0, 1). Class 1 is z > a, class 0 is z < −a. Between them is the null
region, to which an unlabelled row never belongs: the boundary moves to where there are no rows.
The width of the region is w = 2a in paper 001, whose noise has variance 1 too.

More (Rogers & Girolami 2007): one z per class; class k is z_k > z_i + a for every other i. The null
slab between two classes has the thickness √2 a across, so that w = √2 a: with two functions this is
the model above, at the same w and kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_ndtr, logsumexp, ndtr

from atoll.core.gaussian import expected_product_of_ndtr, small_mass
from atoll.core.regions import (
    Intervals,
    Margins,
    PreparedRegions,
    RegionFamily,
    RegionGradients,
    Regions,
    log_region_probability,
)
from atoll.likelihoods import multinomial_probit

Array = NDArray[np.float64]

# Normal prior of the log width, where it is free: between a third of the noise's deviation and
# three of them.
LOG_WIDTH_MEAN, LOG_WIDTH_SD = 0.0, 0.5
# Of the log odds that a class's label is missing, where they are free: nearly uniform rates.
LOG_ODDS_SD = 1.8


class NullCategory(NamedTuple):
    """The likelihood that a posterior carries.

    null_width : w; None where it is free, and exp φ₀
    n_classes : K; two have one function, more have one function each
    bias : b, added to the function of two classes
    """

    null_width: float | None
    n_classes: int
    bias: float = 0.0

    def width_at(self, region_parameters: Array) -> float:
        """Return w at φ."""
        return float(np.exp(region_parameters[0])) if self.null_width is None else self.null_width

    def log_class_probabilities(
        self, mean: Array, variance: Array, region_parameters: Array
    ) -> Array:
        """Return log P(z in region k) for f ~ N(mean, variance); (...,) or (..., K) -> (..., K).

        They fall short of one together by the mass of the null region.
        """
        width = self.width_at(region_parameters)
        if self.n_classes == 2:
            return log_class_probabilities(mean + self.bias, variance, width)
        return log_margin_class_probabilities(mean, variance, width)


class OneAgainstTheRest(NamedTuple):
    """The likelihood of P problems of two classes each, of which exactly one says yes.

    P = 1 is one problem of two classes, which are its no and its yes. P ≥ 3 is as many classes,
    each against the rest:

        P(k) ∝ P(z_k > w/2) Π_{j ≠ k} P(z_j < −w/2),     z_k ~ N(f_k, σ²)

    where an answer weighs as much as its label is missing: γ₁ for a yes, γ₀ for a no.

    null_width : (P,) w of every problem
    log_rates : (P, 2) log of γ₀, γ₁
    noise_variance : σ²
    """

    null_width: Array
    log_rates: Array
    noise_variance: float

    def log_class_probabilities(
        self, mean: Array, variance: Array, region_parameters: Array
    ) -> Array:
        """Return log P(k), normalised, for independent f_k; (..., P) each -> (..., K)."""
        beyond = self.noise_variance - 1.0  # of the noise that the closed forms have
        answers = log_class_probabilities(mean, variance + beyond, self.null_width)
        return self.log_exactly_one(answers + self.log_rates)

    def log_exactly_one(self, log_answers: Array) -> Array:
        """Return log P(k), normalised, given log P(no) and log P(yes); (..., P, 2) -> (..., K)."""
        if len(self.null_width) == 1:
            log_p = log_answers[..., 0, :]
        else:
            no, yes = log_answers[..., 0], log_answers[..., 1]
            log_p = np.stack(
                [
                    yes[..., k] + np.delete(no, k, axis=-1).sum(axis=-1)
                    for k in range(len(self.null_width))
                ],
                axis=-1,
            )
        return log_p - logsumexp(log_p, axis=-1, keepdims=True)


def margin(null_width: float) -> float:
    """Return a of z_k > z_i + a, from the width w = √2 a."""
    return null_width / np.sqrt(2.0)


def regions(
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    null_width: float,
    missing_rates: ArrayLike | None = None,
) -> Intervals:
    """Return the half-line of a labelled row's class, and of an unlabelled row both.

    The null region lies between them, and no row in it.

    Parameters
    ----------
    codes : (n,) in {0, 1}, read where labelled
    is_labelled : (n,)
    null_width : w = 2a
    missing_rates : γ₀, γ₁, the chance that a row of each class has no label. None: the same for
        both, so that they say nothing and are left out.
    """
    n, a = len(codes), 0.5 * null_width
    log_weight = _log_weight(codes, is_labelled, 2, missing_rates)
    both = Intervals(np.tile([-np.inf, a], (n, 1)), np.tile([-a, np.inf], (n, 1)), log_weight)
    if np.all(is_labelled):  # one half-line per row, as in the probit
        own = np.asarray(codes)[:, None] == np.arange(2)
        return Intervals(*(part[own][:, None] for part in both))
    return both


def margin_regions(
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    n_classes: int,
    null_width: float,
    missing_rates: ArrayLike | None = None,
) -> Margins:
    """Return the regions of one z per class; codes (n,) in 0..K−1, missing_rates (K,)."""
    return Margins(
        _log_weight(codes, is_labelled, n_classes, missing_rates), float(margin(null_width))
    )


def log_prob(
    latent: Array,
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    null_width: float,
    missing_rates: ArrayLike | None = None,
) -> Array:
    """Return log p(label or its absence | f), paper 001, eq. 3; (n,) or (n, K) -> (n,)."""
    f = np.asarray(latent)
    of_rows: Regions = (
        regions(codes, is_labelled, null_width, missing_rates)
        if f.ndim == 1
        else margin_regions(codes, is_labelled, f.shape[1], null_width, missing_rates)
    )
    return log_region_probability(of_rows, f, 1.0)


def log_class_probabilities(mean: Array, variance: Array, null_width: ArrayLike) -> Array:
    """Return log P(z in region k) for f ~ N(mean, variance); (...,) -> (..., 2).

    Both together fall short of one by the mass of the null region. A prediction renormalises
    (paper 001, eq. 2) after averaging over the posterior, not before.
    """
    a, sd = 0.5 * np.asarray(null_width), np.sqrt(1.0 + np.asarray(variance))
    mean = np.asarray(mean)
    return np.stack([log_ndtr((-mean - a) / sd), log_ndtr((mean - a) / sd)], axis=-1)


def log_margin_class_probabilities(mean: Array, variance: Array, null_width: float) -> Array:
    """Return the same for one function per class; (..., K), variance (...,) -> (..., K)."""
    return multinomial_probit.log_class_probabilities(
        mean, variance, margin=float(margin(null_width))
    )


def sample(rng: np.random.Generator, latent: Array, null_width: float) -> NDArray[np.intp]:
    """Draw classes given f (n,) or (n, K), −1 for a row in the null region; -> (n,)."""
    z = latent + rng.standard_normal(np.shape(latent))
    if z.ndim == 1:
        return np.where(np.abs(z) > 0.5 * null_width, z > 0, -1).astype(np.intp)
    second, first = np.sort(z, axis=1)[:, -2:].T
    return np.where(first > second + margin(null_width), np.argmax(z, axis=1), -1)


def family(
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    n_classes: int,
    null_width: float | None,
    missing_rates: ArrayLike | None = None,
    *,
    sample_missing_rates: bool = False,
) -> RegionFamily:
    """Return the regions as functions of what is free: log width, log odds of a missing label.

    Parameters
    ----------
    null_width : None where it is free
    missing_rates : (K,); not read where they are free
    """
    K, free_width = n_classes, null_width is None
    names: tuple[str, ...] = ("log_null_width",) if free_width else ()
    if sample_missing_rates:
        names += tuple(f"log_odds_missing_{k}" for k in range(K))

    def read(parameters: Array) -> tuple[float, ArrayLike | None]:
        width = float(np.exp(parameters[0])) if null_width is None else null_width
        rates = expit(parameters[int(free_width) :]) if sample_missing_rates else missing_rates
        return width, rates

    def at(parameters: Array) -> Regions:
        width, rates = read(parameters)
        if K == 2:
            return regions(codes, is_labelled, width, rates)
        return margin_regions(codes, is_labelled, K, width, rates)

    def gradient(parameters: Array, of_regions: RegionGradients) -> Array:
        width, rates = read(parameters)
        slope = np.zeros(0)
        if free_width:
            slope = np.array([width * _by_width(of_regions)])
        if sample_missing_rates:
            by_class = of_regions.log_weight
            if by_class.shape[1] == 1:  # every row labelled
                by_class = np.eye(K)[codes]
            missing = by_class[~is_labelled].sum(axis=0)
            seen = by_class[is_labelled].sum(axis=0)
            slope = np.append(slope, missing * (1 - np.asarray(rates)) - seen * np.asarray(rates))
        return slope

    fixed = PreparedRegions(at(np.zeros(0))) if not names else None
    mean = np.append([LOG_WIDTH_MEAN] * free_width, [0.0] * (len(names) - free_width))
    sd = np.append([LOG_WIDTH_SD] * free_width, [LOG_ODDS_SD] * (len(names) - free_width))

    def one_entry(parameters: Array, distance: float, which: int) -> tuple[Array, float]:
        moved = parameters.copy()
        moved[which] += distance
        return moved, 0.0

    moves = tuple(partial(one_entry, which=j) for j in range(len(names)))

    def prepared_at(parameters: Array) -> PreparedRegions:
        return fixed or PreparedRegions(at(parameters))

    return RegionFamily(
        names,
        mean,
        sd,
        prepared_at,
        gradient,
        moves=moves,
        stretch=moves[0] if free_width else None,
        total_given=_total_given(codes, is_labelled, K, read, prepared_at),
    )


def _total_given(
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    n_classes: int,
    read: Callable[[Array], tuple[float, ArrayLike | None]],
    at: Callable[[Array], PreparedRegions],
) -> Callable[[Array], Callable[[Array], float]]:
    """Return the function f -> (φ -> total log mass).

    The masses of the regions do not depend on the rates, and are kept while the width stays. Where
    a row has next to no mass, the regions themselves are asked, which have it in log space.
    """
    K, labelled = n_classes, np.asarray(is_labelled)
    own, others = np.asarray(codes)[labelled], ~labelled
    candidates = np.isfinite(_log_weight(codes, is_labelled, K, None))
    rows, winners = np.nonzero(candidates)
    losers = np.array([np.delete(np.arange(K), k) for k in range(K)])[winners]
    least = 1e-290 if K == 2 else small_mass(K - 1)

    def given(latent: Array) -> Callable[[Array], float]:
        ahead = (
            np.where(winners == 1, latent[rows], -latent[rows])
            if K == 2
            else latent[rows, winners][:, None] - latent[rows[:, None], losers]
        )
        kept, masses = np.nan, np.zeros((len(labelled), K))

        def total(parameters: Array) -> float:
            nonlocal kept
            width, rates = read(parameters)
            if width != kept:
                masses[rows, winners] = (
                    ndtr(ahead - 0.5 * width)
                    if K == 2
                    else expected_product_of_ndtr(ahead - margin(width))
                )
                kept = width
            weighted, of_labels = masses, 0.0
            if rates is not None:
                missing = np.asarray(rates)
                weighted = np.where(others[:, None], masses * missing, masses)
                with np.errstate(divide="ignore"):
                    of_labels = float(np.log1p(-missing[own]).sum())
            by_row = weighted.sum(axis=1)
            if len(by_row) and by_row.min() < least:
                return at(parameters).total(latent)
            return of_labels + float(np.log(by_row).sum())

        return total

    return given


def missing_rates_at(parameters: Array, n_classes: int) -> Array:
    """Return γ of φ where the rates are free: its last K entries; (..., q) -> (..., K)."""
    return expit(parameters[..., -n_classes:])


def _by_width(of_regions: RegionGradients) -> float:
    if len(of_regions.ends) == 1:
        return float(of_regions.ends[0].sum() / np.sqrt(2.0))
    by_lower, by_upper = of_regions.ends  # the lower end is a = w/2, the upper −a
    return 0.5 * float(by_lower.sum() - by_upper.sum())


def _log_weight(
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    n_classes: int,
    missing_rates: ArrayLike | None,
) -> Array:
    """Return −inf for a class that the label excludes, else log of what the rates say; (n, K)."""
    seen = np.asarray(is_labelled)[:, None]
    allowed = (np.asarray(codes)[:, None] == np.arange(n_classes)) | ~seen
    log_weight = np.where(allowed, 0.0, -np.inf)
    if missing_rates is None:
        return log_weight
    rates = np.asarray(missing_rates, dtype=float)
    with np.errstate(divide="ignore"):
        return log_weight + np.where(seen, np.log1p(-rates), np.log(rates))
