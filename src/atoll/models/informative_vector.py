"""Classifiers by moment matching: the null category of paper 001, and the probit, its baseline.

prior: a kernel C(θ), log θ normal, or its variances exponential. likelihood: null category or
probit, with a bias. inference: expectation propagation or assumed-density filtering, on all rows or
on the active set of the informative vector machine.

    f ~ N(0, C(θ))      z_n ~ N(f_n + b, 1)      class 1: z_n > w/2, class 0: z_n < −w/2

More than two classes are as many such problems, class k against the rest, that share θ and are
conditioned on the one thing that ties them: exactly one of them says yes,

    P(k) ∝ P(z_k > w/2) Π_{j ≠ k} P(z_j < −w/2).

The multinomial probit ties them inside every row instead (`probit_gp.py`, `null_category.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve
from scipy.special import ndtr, ndtri
from scipy.stats import beta

from atoll.core.labels import PartialLabels
from atoll.core.linalg import cholesky_solve, jittered_cholesky
from atoll.core.memory import in_chunks
from atoll.core.regions import RegionFamily, log_region_shares, shifted, with_bias
from atoll.core.rows import distinct_rows
from atoll.inference import ep, ivm
from atoll.inference.adf import Filtered
from atoll.inference.ivm import (
    ON_ALL_ROWS,
    Check,
    FamilyOf,
    IVMResult,
    KernelAccess,
    Plan,
    Rows,
)
from atoll.inference.type_two import LogPrior, Report
from atoll.kernels.conditioning import CHUNK_ENTRIES, UNKNOWN, sample_jointly
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
from atoll.likelihoods.null_category import OneAgainstTheRest
from atoll.models.belief import HeldOut, doubted, log_doubted, weigh_hidden

Array = NDArray[np.float64]

BIAS_SD = 2.0  # of its normal prior, where it is learned
# Fewer rows of a class than this say little of its share.
LEAST_SHARE_ROWS = 1
# Times the centre of the prior: where fits start from until one is believed.
LENGTH_SCALE_STARTS = (1.0, 1.4, 2.0, 2.8, 4.0)
NO_PARAMETERS = np.zeros(0)  # of the regions: they are in the likelihood


class SitesPosterior(NamedTuple):
    """Functions known through Gaussian sites; predicts without its model.

    One entry of every tuple per problem: one for two classes, else K, class k against the rest.

    prior : the kernel
    log_parameters : (p,) θ
    inputs : (d, D) active rows, each
    weights : (d,) b, each
    noise_variance : (d,) 1/τ, each; negative where a site's precision is
    bias : (number of problems,)
    likelihood : what class probabilities follow from the functions
    doubt : (K,) of the classes: what `belief` has taken from the functions' word; or nothing
    """

    prior: KernelPrior
    log_parameters: Array
    inputs: tuple[Array, ...]
    weights: tuple[Array, ...]
    noise_variance: tuple[Array, ...]
    bias: Array
    likelihood: OneAgainstTheRest
    doubt: Array | float = 0.0

    def log_proba(self, X: Array) -> Array:
        """Return log P(y = k | x, its label missing), paper 001, eq. 2; X (m, D) -> (m, K)."""
        log_proba = self.likelihood.log_class_probabilities(*self.latent(X), NO_PARAMETERS)
        return log_doubted(log_proba, self.doubt)

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of f(x), the bias added; X (m, D) -> (m, problems) each.

        In chunks of X: the memory is bounded whatever its length.
        """
        shape = (len(X), len(self.inputs))
        mean, variance = np.empty(shape), np.empty(shape)
        for k, (inputs, weights) in enumerate(zip(self.inputs, self.weights)):
            solve = self._solver(k)
            variance[:, k] = gram_diagonal(self.prior, self.log_parameters, X)
            for part in in_chunks(len(X), len(inputs), most=CHUNK_ENTRIES):
                cross = gram(self.prior, self.log_parameters, inputs, X[part])
                mean[part, k] = cross.T @ weights
                variance[part, k] -= np.einsum("ij,ij->j", cross, solve(cross))
        return mean + self.bias, np.maximum(variance, 0.0)  # rounding may fall below zero

    def draws(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; X (m, D) -> (n, m, K).

        A draw is normalised by itself: over classes that are not null, and over the cases in which
        exactly one problem says yes. `log_proba` normalises averages. For two classes without a
        null region the mean of the draws approaches `exp(log_proba(X))`; else it is near.
        """
        rows, place = distinct_rows(X)
        least = UNKNOWN * float(gram_diagonal(self.prior, self.log_parameters, rows).mean())
        functions = []
        for k, (inputs, weights) in enumerate(zip(self.inputs, self.weights)):
            cross = gram(self.prior, self.log_parameters, inputs, rows)
            mean = cross.T @ weights + self.bias[k]
            covariance = gram(self.prior, self.log_parameters, rows)
            covariance -= cross.T @ self._solver(k)(cross)
            functions.append(sample_jointly(rng, mean, covariance, least, n)[:, place])
        f = np.stack(functions, axis=-1)
        log_proba = self.likelihood.log_class_probabilities(f, np.zeros_like(f), NO_PARAMETERS)
        return doubted(np.exp(log_proba), self.doubt)

    def transductive_log_proba(self, X: Array, negative: str = "zero") -> Array:
        """Return `log_proba(X)` of functions updated by the rows of X (paper 001, section 4.1).

        Each row is known to be in one of the classes, never in the null region: the sites of the
        training rows stay, those of X are found by expectation propagation, all together, in O(m³)
        time. A row's classes are weighed at its cavity, so that it is counted once.
        """
        likelihood, nothing = self.likelihood, np.zeros(len(X), dtype=np.intp)
        means, answers = self.latent(X)[0], []
        for k, mean in enumerate(means.T):
            cross = gram(self.prior, self.log_parameters, self.inputs[k], X)
            C = gram_function(self.prior, X)(self.log_parameters)
            C -= cross.T @ self._solver(k)(cross)
            regions = null_category.regions(
                nothing,
                nothing.astype(bool),
                float(likelihood.null_width[k]),
                np.exp(likelihood.log_rates[k]),
            )
            around = shifted(regions, mean)
            found = ep.propagate(
                C,
                around,
                ep.no_sites(len(X)),
                negative=negative,
                noise_variance=likelihood.noise_variance,
            )
            sd = np.sqrt(likelihood.noise_variance + found.cavity_variance)
            answers.append(log_region_shares(around, found.cavity_mean, sd))
        return log_doubted(likelihood.log_exactly_one(np.stack(answers, axis=-2)), self.doubt)

    def _solver(self, k: int) -> Callable[[Array], Array]:
        """Return right (d, m) -> (C + diag(1/τ))^{-1} right, of problem k."""
        noise = self.noise_variance[k]
        V = gram_function(self.prior, self.inputs[k])(self.log_parameters)
        V[np.diag_indices_from(V)] += noise
        if np.all(noise > 0):
            lower = jittered_cholesky(V).lower
            return lambda right: cholesky_solve(lower, right)
        factors = lu_factor(V)  # with a negative precision V is not positive definite
        return lambda right: lu_solve(factors, right)


# What the labels say ------------------------------------------------------------------------------


def against_the_rest(labels: PartialLabels) -> list[NDArray[np.intp]]:
    """Return codes in {0, 1} of every problem: of one for two classes, else of one per class."""
    if len(labels.classes) == 2:
        return [labels.codes]
    return [(labels.codes == k).astype(np.intp) for k in range(len(labels.classes))]


def share_bias(codes: NDArray[np.intp], is_labelled: NDArray[np.bool_]) -> float:
    """Return b at which a function of zero gives class 1 its share of the labelled rows."""
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
    """Return rows -> what their labels say; φ holds log w, log odds of γ₀ and γ₁, b, where free.

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
    """Return w, γ (ones where they say nothing) and b at φ."""
    width = float(np.exp(phi[0])) if noise.null_width is None else noise.null_width
    if noise.learn_bias:
        phi, bias = phi[:-1], float(phi[-1])
    if noise.learn_rates:
        return width, null_category.missing_rates_at(phi, 2), bias
    rates = np.ones(2) if noise.missing_rates is None else noise.missing_rates
    return width, np.asarray(rates, dtype=float), bias


# The kernel ---------------------------------------------------------------------------------------


def kernel_access(prior: KernelPrior, inputs: Array) -> KernelAccess:
    """Return the kernel over the rows of `inputs`, by columns and by active sets."""
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
    """Return the log density of θ with exponential priors on variances (paper 001, section 4).

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
    plan: Plan = ON_ALL_ROWS,
    report: Report | None = None,
) -> IVMResult:
    """Match moments on all rows, or on active ones; see `inference.ivm.alternate`."""
    return ivm.alternate(kernel_access(prior, inputs), families, prior, plan, report)


def share_limits(count: int, n_labels: int) -> tuple[float, float]:
    """Return the central 95% of the share of a class that has `count` of `n_labels` labels."""
    low, high = beta.ppf([0.025, 0.975], 1 + count, 1 + n_labels - count)
    return float(low), float(high)


def share_check(
    problems: Sequence[NDArray[np.intp]],
    is_labelled: NDArray[np.bool_],
    noise: NoiseModel,
    biases: Sequence[float],
    noise_variance: float = 1.0,
) -> Check:
    """Return a check that unlabelled rows fall to the classes as the labelled ones do.

    With few labels the evidence is highest where there is no boundary among the rows at all: every
    unlabelled row on one side, however long a length-scale that takes. If labels are missing at
    random, the share of a class among the unlabelled rows is within what its share among the m
    labelled ones allows: the central 95% of Beta(1 + k, 1 + m − k), k of them being in the class.
    """
    m, unknown = int(is_labelled.sum()), ~is_labelled
    counts = [int(codes[is_labelled].sum()) for codes in problems]
    limits = [share_limits(k, m) for k in counts]

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
    plan: Plan,
    is_labelled: NDArray[np.bool_],
    report: Report | None = None,
) -> IVMResult:
    """Match moments from longer and longer length-scales until a fit passes the plan's check.

    A longer length-scale makes the function that the labels alone imply simpler, and its sign at
    the unlabelled rows more like the classes. Where no start is believed the unlabelled rows are
    left out: the model is then no worse than its supervised baseline.
    """
    of_length = np.array([name.startswith("log_") and "length_scale" in name
                          for name in prior.names])  # fmt: skip
    for longer in LENGTH_SCALE_STARTS if of_length.any() else (1.0,):
        begin = prior.mean + np.log(longer) * of_length
        result = fit(inputs, families, prior, plan._replace(begin=begin), report)
        if result.believed:
            return result
    return fit_labelled(inputs, families, prior, plan, is_labelled, report)


def fit_labelled(
    inputs: Array,
    families: Sequence[FamilyOf],
    prior: KernelPrior,
    plan: Plan,
    is_labelled: NDArray[np.bool_],
    report: Report | None = None,
) -> IVMResult:
    """Match moments on the labelled rows alone; a result that is not believed."""
    labelled = np.flatnonzero(is_labelled)
    alone = [partial(_of_labelled, family, labelled) for family in families]
    on_all = plan._replace(n_active=None, first=None, check=None)
    result = fit(inputs[labelled], alone, prior, on_all, report)
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
    """Return what prediction needs; the arguments are those of the families and of `fit`."""
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
        OneAgainstTheRest(np.array(widths), log_rates, noise_variance),
    )


def hidden_labels(
    result: IVMResult,
    inputs: Array,
    labels: PartialLabels,
    prior: KernelPrior,
    noise: NoiseModel,
    biases: Sequence[float],
    plan: Plan,
    n_folds: int,
) -> HeldOut | None:
    """Return what labels say that are hidden in turns, at the θ and φ found.

    A hidden row stays, as one of those without a label: rows are selected and sites found anew.

    Parameters
    ----------
    result : of all rows
    noise, biases, plan : as it was found by
    """
    problems, kernel = against_the_rest(labels), kernel_access(prior, inputs)
    phis = [one.region_parameters for one in result.problems]

    def foretell(left: NDArray[np.bool_], hidden: Rows) -> Array:
        families = [family(own, left, noise, b) for own, b in zip(problems, biases)]
        first = None if plan.first is None else left
        found = ivm.active_sets_at(
            kernel, families, prior, plan._replace(first=first), result.log_parameters, phis
        )
        of_others = posterior(
            result._replace(problems=found), inputs, prior, noise, biases, plan.noise_variance
        )
        return of_others.log_proba(inputs[hidden])

    return weigh_hidden(labels, n_folds, foretell)


def left_out(result: IVMResult, posterior: SitesPosterior, inputs: Array) -> Array:
    """Return log class probabilities of rows, each without its own label; (n, K).

    An active row loses its site; any other row has none.
    """
    mean, variance = posterior.latent(inputs)
    for k, one in enumerate(result.problems):
        mean[one.rows, k] = one.cavity_mean + posterior.bias[k]
        variance[one.rows, k] = one.cavity_variance
    return posterior.likelihood.log_class_probabilities(mean, variance, NO_PARAMETERS)
