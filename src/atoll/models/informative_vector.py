"""Classifiers by moment matching: the null category of paper 001, and the probit, its baseline.

prior: a kernel C(θ), log θ normal, or its variances exponential. likelihood: null category or
probit, with a bias. inference: expectation propagation or assumed-density filtering, on all rows or
on the active set of the informative vector machine.

    f ~ N(0, C(θ))      z_n ~ N(f_n + b, 1)      class 1: z_n > w/2, class 0: z_n < −w/2

More than two classes are as many such problems, class k against the rest, that share θ and are
conditioned on the one thing that ties them: exactly one of them says yes,

    P(k) ∝ P(z_k > w/2) Π_{j ≠ k} P(z_j < −w/2).

The multinomial probit ties them inside every row instead, where a Gaussian site is K × K and a
cavity's K values have different variances; variational Bayes, whose z are independent, does that
exactly (`null_category.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import beta

from atoll.core.labels import PartialLabels
from atoll.core.linalg import cholesky_solve, jittered_cholesky
from atoll.core.regions import RegionFamily, log_region_shares, shifted, with_bias
from atoll.inference import ep, ivm
from atoll.inference.adf import Filtered
from atoll.inference.ivm import Check, FamilyOf, IVMResult, KernelAccess, Rows
from atoll.inference.type_two import LogPrior, Report
from atoll.kernels.conditioning import CHUNK_ENTRIES
from atoll.kernels.hyperparameters import (
    NUGGET,
    KernelPrior,
    cross_gram_function,
    gram,
    gram_diagonal,
    gram_function,
    gram_gradient_function,
)
from atoll.likelihoods import null_category

Array = NDArray[np.float64]

BIAS_SD = 2.0  # of its normal prior, where it is learned
# Fewer rows of a class than this say little of its share.
LEAST_SHARE_ROWS = 1
# Times the centre of the prior: where fits start from until one is believed.
LENGTH_SCALE_STARTS = (1.0, 1.4, 2.0, 2.8, 4.0)


class SitesPosterior(NamedTuple):
    """Functions known through Gaussian sites; predicts without its model.

    One entry of every tuple a problem: one for two classes, else K, class k against the rest.

    prior : the kernel
    log_parameters : (p,) θ
    inputs : (d, D) active rows, each
    weights : (d,) b, each
    noise_variance : (d,) 1/τ, each; negative where a site's precision is
    bias, null_width : (number of problems,)
    log_rates : (number of problems, 2) log of γ₀, γ₁
    likelihood_variance : σ² of z given f
    """

    prior: KernelPrior
    log_parameters: Array
    inputs: tuple[Array, ...]
    weights: tuple[Array, ...]
    noise_variance: tuple[Array, ...]
    bias: Array
    null_width: Array
    log_rates: Array
    likelihood_variance: float = 1.0


# What the labels say ------------------------------------------------------------------------------


def against_the_rest(labels: PartialLabels) -> list[NDArray[np.intp]]:
    """Codes in {0, 1} of every problem: one for two classes, else one a class."""
    if len(labels.classes) == 2:
        return [labels.codes]
    return [(labels.codes == k).astype(np.intp) for k in range(len(labels.classes))]


def share_bias(codes: NDArray[np.intp], is_labelled: NDArray[np.bool_]) -> float:
    """b at which a function of zero gives class 1 its share of the labelled rows."""
    share = codes[is_labelled].mean()
    least = LEAST_SHARE_ROWS / (is_labelled.sum() + 2 * LEAST_SHARE_ROWS)
    return float(ndtri(np.clip(share, least, 1.0 - least)))


class NoiseModel(NamedTuple):
    """What of the likelihood is given, and what is learned.

    null_width : w; None where it is learned
    missing_rates : (2,) γ; None for rates that are the same and say nothing
    learn_rates : whether γ is learned instead
    learn_bias : whether b is learned around its given value
    """

    null_width: float | None = 0.0
    missing_rates: Any = None
    learn_rates: bool = False
    learn_bias: bool = False


def family(
    codes: NDArray[np.intp], is_labelled: NDArray[np.bool_], noise: NoiseModel, bias: float
) -> FamilyOf:
    """Rows -> what their labels say; φ = (log w, log odds of γ₀ and γ₁, b), what is free of them.

    codes (n,) in {0, 1}, read where labelled.
    """

    def of_rows(rows: Rows) -> RegionFamily:
        inner = null_category.family(
            codes[rows],
            is_labelled[rows],
            2,
            noise.null_width,
            noise.missing_rates,
            sample_missing_rates=noise.learn_rates,
        )
        return with_bias(inner, bias, BIAS_SD if noise.learn_bias else None)

    return of_rows


def read_parameters(noise: NoiseModel, bias: float, phi: Array) -> tuple[float, Array, float]:
    """w, γ (ones where they say nothing) and b at φ."""
    width = float(np.exp(phi[0])) if noise.null_width is None else noise.null_width
    if noise.learn_bias:
        phi, bias = phi[:-1], float(phi[-1])
    if noise.learn_rates:
        return width, null_category.missing_rates_at(phi, 2), bias
    rates = np.ones(2) if noise.missing_rates is None else noise.missing_rates
    return width, np.asarray(rates, dtype=float), bias


# The kernel ---------------------------------------------------------------------------------------


def kernel_access(prior: KernelPrior, inputs: Array) -> KernelAccess:
    """The kernel over the rows of `inputs`, a column or an active set at a time."""
    cross = cross_gram_function(prior)

    def diagonal(theta: Array) -> Array:
        return gram_diagonal(prior, theta, inputs) * (1.0 + NUGGET)

    def column(theta: Array) -> Callable[[int], Array]:
        variances = diagonal(theta)

        def of_row(i: int) -> Array:
            covariances = cross(theta, inputs, inputs[i : i + 1])[:, 0]
            covariances[i] = variances[i]  # white noise is the row's own
            return covariances

        return of_row

    return KernelAccess(
        len(inputs),
        column,
        diagonal,
        lambda rows: (
            gram_function(prior, inputs[rows]),
            gram_gradient_function(prior, inputs[rows]),
        ),
    )


def exponential_prior(prior: KernelPrior, rate: float, *, keep_others: bool = True) -> LogPrior:
    """log density of θ with exponential priors on the kernel's variances (paper 001, section 4).

    An L1 penalty: without it the process may grow until the null region is nothing beside it.

    Parameters
    ----------
    rate : of the exponential
    keep_others : whether the other log-parameters keep their normal prior, or have none
    """
    is_variance = np.array([_is_variance(name) for name in prior.names], dtype=bool)

    def log_density(theta: Array) -> tuple[float, Array]:
        variances = np.where(is_variance, np.exp(theta), 0.0)
        x = np.where(is_variance | (not keep_others), 0.0, (theta - prior.mean) / prior.sd)
        return float(-rate * variances.sum() - 0.5 * x @ x), -rate * variances - x / prior.sd

    return log_density


def _is_variance(name: str) -> bool:
    return name.endswith(("log_variance", "constant_value", "noise_level"))


# Inference ----------------------------------------------------------------------------------------


def fit(
    inputs: Array,
    families: Sequence[FamilyOf],
    prior: KernelPrior,
    *,
    refine: str = "ep",
    n_active: int | None = None,
    n_rounds: int = 15,
    log_prior: LogPrior | None = None,
    negative: str = "zero",
    noise_variance: float = 1.0,
    first: NDArray[np.bool_] | None = None,
    check: Check | None = None,
    begin: Array | None = None,
    report: Report | None = None,
) -> IVMResult:
    """Moments matched on all rows, or on active ones; see `inference.ivm.alternate`."""
    return ivm.alternate(
        kernel_access(prior, inputs),
        families,
        prior,
        n_active=n_active,
        n_rounds=n_rounds,
        refine=refine,
        first=first,
        check=check,
        begin=begin,
        log_prior=log_prior,
        negative=negative,
        noise_variance=noise_variance,
        report=report,
    )


def share_check(
    problems: Sequence[NDArray[np.intp]],
    is_labelled: NDArray[np.bool_],
    noise: NoiseModel,
    biases: Sequence[float],
    noise_variance: float = 1.0,
) -> Check:
    """Whether the unlabelled rows fall to the classes as the labelled ones do.

    With few labels the evidence is highest where there is no boundary among the rows at all: every
    unlabelled row on one side, however long a length-scale that takes. If labels are missing at
    random, the share of a class among the unlabelled rows is within what its share among the m
    labelled ones allows: the central 95% of Beta(1 + k, 1 + m − k), k of them being in the class.
    """
    m, unknown = int(is_labelled.sum()), ~is_labelled
    counts = [int(codes[is_labelled].sum()) for codes in problems]
    limits = [[float(beta.ppf(q, 1 + k, 1 + m - k)) for q in (0.025, 0.975)] for k in counts]

    def believed(passes: Sequence[Filtered], phis: Sequence[Array]) -> bool:
        for one, phi, bias, (low, high) in zip(passes, phis, biases, limits):
            b = read_parameters(noise, bias, phi)[2]
            sd = np.sqrt(noise_variance + one.variance[unknown])
            share = ndtr((one.mean[unknown] + b) / sd).mean()
            if not low <= share <= high:
                return False
        return True

    return believed


def fit_with_restarts(
    inputs: Array,
    families: Sequence[FamilyOf],
    prior: KernelPrior,
    check: Check,
    is_labelled: NDArray[np.bool_],
    **options: Any,
) -> IVMResult:
    """`fit` from longer and longer length-scales until a fit is believed, else on labelled rows.

    A longer length-scale makes the function that the labels alone imply simpler, and its sign at
    the unlabelled rows more like the classes. Where no start is believed the unlabelled rows are
    left out: the model is then no worse than its supervised baseline.
    """
    of_length = np.array([name.startswith("log_") and "length_scale" in name
                          for name in prior.names])  # fmt: skip
    for longer in LENGTH_SCALE_STARTS if of_length.any() else (1.0,):
        begin = prior.mean + np.log(longer) * of_length
        result = fit(inputs, families, prior, check=check, begin=begin, **options)
        if result.believed:
            return result
    labelled = np.flatnonzero(is_labelled)
    options |= {"n_active": None, "first": None}
    alone = [partial(_of_labelled, family, labelled) for family in families]
    result = fit(inputs[labelled], alone, prior, **options)
    problems = tuple(one._replace(rows=labelled[one.rows]) for one in result.problems)
    return result._replace(problems=problems, believed=False)


def _of_labelled(family: FamilyOf, labelled: Rows, rows: Rows) -> RegionFamily:
    return family(labelled[rows])


def posterior(
    result: IVMResult,
    inputs: Array,
    prior: KernelPrior,
    noise: NoiseModel,
    biases: Sequence[float],
    noise_variance: float = 1.0,
) -> SitesPosterior:
    """What prediction needs; the arguments are those of the families and of `fit`."""
    read = [
        read_parameters(noise, bias, one.region_parameters)
        for bias, one in zip(biases, result.problems)
    ]
    widths, rates, final_biases = zip(*read)
    with np.errstate(divide="ignore"):
        log_rates = np.log(np.array(rates))
    return SitesPosterior(
        prior,
        result.log_parameters,
        tuple(inputs[one.rows] for one in result.problems),
        tuple(one.weights for one in result.problems),
        tuple(1.0 / one.sites.precision for one in result.problems),
        np.array(final_biases),
        np.array(widths),
        log_rates,
        noise_variance,
    )


# Prediction ---------------------------------------------------------------------------------------


def latent_moments(posterior: SitesPosterior, X: Array) -> Iterator[tuple[Array, Array]]:
    """Mean and variance of f(x), the bias added, of every problem; X (m, D) -> (m,) each.

    In chunks of X: the memory is bounded whatever its length.
    """
    p = posterior
    for k, (inputs, weights) in enumerate(zip(p.inputs, p.weights)):
        solve = _solver(p, k)
        mean, variance = np.empty(len(X)), gram_diagonal(p.prior, p.log_parameters, X)
        rows = max(1, CHUNK_ENTRIES // len(inputs))
        for first in range(0, len(X), rows):
            part = slice(first, first + rows)
            cross = gram(p.prior, p.log_parameters, inputs, X[part])
            mean[part] = cross.T @ weights
            variance[part] -= np.einsum("ij,ij->j", cross, solve(cross))
        yield mean + p.bias[k], np.maximum(variance, 0.0)  # rounding may fall below zero


def predict_latent(posterior: SitesPosterior, X: Array) -> tuple[Array, Array]:
    """Mean and variance of the functions; X (m, D) -> (m, number of problems) each."""
    moments = list(latent_moments(posterior, X))
    return np.stack([m for m, _ in moments], axis=1), np.stack([v for _, v in moments], axis=1)


def predict_log_proba(posterior: SitesPosterior, X: Array) -> Array:
    """log P(y = k | x, its label missing), paper 001, eq. 2; X (m, D) -> (m, K)."""
    moments = latent_moments(posterior, X)
    beyond = posterior.likelihood_variance - 1.0  # of the likelihood's own noise
    log_p = [
        null_category.log_class_probabilities(mean, variance + beyond, width) + log_rates
        for (mean, variance), width, log_rates in zip(
            moments, posterior.null_width, posterior.log_rates
        )
    ]
    return _exactly_one(log_p)


def predict_transductive_log_proba(
    posterior: SitesPosterior, X: Array, negative: str = "zero"
) -> Array:
    """As `predict_log_proba`, with the process updated by the rows of X (paper 001, section 4.1).

    Each is known to be in one of the classes, never in the null region: the sites of the training
    rows stay, those of X are found by expectation propagation, all together, in O(m³) time. A row's
    classes are weighed at its cavity, so that it is counted once.
    """
    p = posterior
    nothing = np.zeros(len(X), dtype=np.intp)
    log_p = []
    for k, (mean, _) in enumerate(latent_moments(p, X)):
        cross = gram(p.prior, p.log_parameters, p.inputs[k], X)
        C = gram_function(p.prior, X)(p.log_parameters) - cross.T @ _solver(p, k)(cross)
        regions = null_category.regions(
            nothing, nothing.astype(bool), float(p.null_width[k]), np.exp(p.log_rates[k])
        )
        around = shifted(regions, mean)
        found = ep.propagate(
            C,
            around,
            ep.no_sites(len(X)),
            negative=negative,
            noise_variance=p.likelihood_variance,
        )
        sd = np.sqrt(p.likelihood_variance + found.cavity_variance)
        log_p.append(log_region_shares(around, found.cavity_mean, sd))
    return _exactly_one(log_p)


def _exactly_one(log_probabilities: list[Array]) -> Array:
    """Classes of one problem, or of K of which one says yes; (m, 2) each -> (m, K), normalised."""
    if len(log_probabilities) == 1:
        log_p = log_probabilities[0]
    else:
        no, yes = np.moveaxis(np.stack(log_probabilities, axis=1), 2, 0)
        log_p = np.stack(
            [
                yes[:, k] + np.delete(no, k, axis=1).sum(axis=1)
                for k in range(len(log_probabilities))
            ],
            axis=1,
        )
    return log_p - logsumexp(log_p, axis=1, keepdims=True)


def _solver(posterior: SitesPosterior, k: int) -> Callable[[Array], Array]:
    """right (d, m) -> (C + diag(1/τ))^{-1} right of problem k."""
    noise = posterior.noise_variance[k]
    V = gram_function(posterior.prior, posterior.inputs[k])(posterior.log_parameters)
    V[np.diag_indices_from(V)] += noise
    if np.all(noise > 0):
        lower = jittered_cholesky(V).lower
        return lambda right: cholesky_solve(lower, right)
    factors = lu_factor(V)  # not positive definite with a negative precision, though not singular
    return lambda right: lu_solve(factors, right)
