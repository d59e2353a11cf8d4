"""What classifiers of the auxiliary-variable family share: z = f + ε, and a label confines z.

Each says what its labels mean for z, as a `RegionModel`; chains, or a search over regions, turn
that into a fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels
from atoll.core.regions import RegionFamily
from atoll.estimators import sampling
from atoll.estimators.belief import with_doubt, with_word
from atoll.estimators.parameters import CHAINS, COMMON, KERNEL, WATCHED, Rule, inference
from atoll.estimators.progress import Progress
from atoll.estimators.searches import search_of_approximation
from atoll.estimators.shell import Fit, Need
from atoll.inference.chains import Record, Sampler
from atoll.inference.registry import METHODS, OVER_REGIONS
from atoll.inference.type_two import Approximation, Report
from atoll.kernels.hyperparameters import KernelPrior, gram_function, kernel_at
from atoll.likelihoods import RegionLikelihood
from atoll.models import probit_gp
from atoll.models.belief import weigh_left_out

Array = NDArray[np.float64]

# Up to this many rows in the kernel matrix, "auto" samples: a few minutes on one core.
GIBBS_ROWS = 300
DENSE_COPIES = 8  # n × n matrices alive at once in a chain
RULES: dict[str, Rule] = {
    "kernel": KERNEL,
    "inference": inference("auto", "mcmc", *OVER_REGIONS),
    **CHAINS,
    **COMMON,
    **WATCHED,
}


def _nothing(region_parameters: Array) -> dict[str, Any]:
    return {}


class RegionModel(NamedTuple):
    """What a model of the family says of the rows that enter it.

    inputs : (n, d)
    prior : of the kernel
    regions : what their labels say of z
    likelihood : what class probabilities follow from the functions and φ
    describe : (S, q) draws of φ -> fitted attributes
    """

    inputs: Array
    prior: KernelPrior
    regions: RegionFamily
    likelihood: RegionLikelihood
    describe: Callable[[Array], dict[str, Any]] = _nothing


def told_by_left_out(fit: Fit, model: RegionModel, labels: PartialLabels) -> Fit:
    """Return the fit with what labels say of it that are left out one by one.

    An approximation, whose θ is at its best, is believed as far as they say. Chains draw θ: their
    class probabilities are the posterior's own, and the verdict alone tells.

    Parameters
    ----------
    labels : of the rows of the model, of which every one has one
    """
    posterior = fit.posterior
    theta = posterior.log_parameters.mean(axis=0)
    phi = posterior.region_parameters.mean(axis=0)
    C = gram_function(model.prior, model.inputs)(theta)
    log_proba = probit_gp.left_out(C, model.regions.at(phi).regions, model.likelihood, phi)
    held_out = weigh_left_out(log_proba, labels.codes)
    by_chains = fit.attributes["inference_"] == "mcmc"
    return with_word(fit, held_out) if by_chains else with_doubt(fit, held_out)


def chosen_inference(estimator: Any, n_rows: int, *, of_many: str = "vb") -> str:
    """Return the method that `inference=` asks for; "auto" is sampling while rows are few.

    Parameters
    ----------
    n_rows : that enter the model
    of_many : what "auto" takes where sampling would be slow
    """
    if estimator.inference != "auto":
        return estimator.inference
    return "mcmc" if n_rows <= GIBBS_ROWS else of_many


def memory(estimator: Any, n_rows: int, n_classes: int) -> Need:
    """Return the memory that a fit with `n_rows` rows in the model will take."""
    return sampling.dense_need(estimator, n_rows, n_classes, DENSE_COPIES)


def fit_by_chains(
    estimator: Any,
    model: RegionModel,
    X: Array,
    labels: PartialLabels,
    sampler: Sampler | None = None,
    judge: Callable[[Fit, Record], Fit] = lambda fit, draws: fit,
) -> Fit:
    """Sample the posterior.

    Parameters
    ----------
    X, labels : all rows of the fit, by which a checkpoint knows its problem
    sampler : where it is not `probit_gp.regions_sampler`; it may record
        "unlabelled_probabilities", (u, K) of the unlabelled rows
    judge : fit and its draws -> the fit with what labels left out say of it
    """
    sampler = sampler or probit_gp.regions_sampler(model.inputs, model.regions, model.prior)
    if estimator.inference == "auto":
        sampling.say_before(estimator, sampler)
    prior = model.prior

    def traces_of(draws: Record) -> Record:
        return sampling.named_scalars(draws, prior.names) | class_shares(draws)

    result, found = sampling.sample_until_mixed(estimator, sampler, (X, labels), traces_of)
    draws, transduction = result.draws, None
    if _has_unlabelled(draws):
        transduction = draws["unlabelled_probabilities"].mean(axis=(0, 1))
    phi = draws["region_parameters"]
    fit = Fit(
        probit_gp.sampled_posterior(sampling.pool(draws), model.inputs, prior, model.likelihood),
        found,
        transduction,
        traces_of(draws),
        attributes={
            "inference_": "mcmc",
            "kernel_": kernel_at(prior, sampling.mean_log_parameters(draws)),
            **model.describe(phi.reshape(phi.shape[0] * phi.shape[1], phi.shape[2])),
        },
    )
    return judge(fit, draws)


def class_shares(draws: Record) -> Record:
    """Return the share of every class but the first among the unlabelled rows, by its code.

    (chain, draw) each; none where no such row is recorded.
    """
    if not _has_unlabelled(draws):
        return {}
    shares = draws["unlabelled_probabilities"].mean(axis=2)  # of (chain, draw, u, K)
    return {f"share_of_class_{k}": shares[..., k] for k in range(1, shares.shape[2])}


def _has_unlabelled(draws: Record) -> bool:
    """Return whether class probabilities of unlabelled rows are among the draws."""
    return draws.get("unlabelled_probabilities", np.zeros((0, 0, 0))).shape[2] > 0


def fit_by_search(
    estimator: Any,
    method: str,
    model: RegionModel,
    search: Callable[[Report], Approximation] | None = None,
) -> Fit:
    """Approximate the posterior by a method over regions.

    Parameters
    ----------
    method : its name in the registry
    search : where it is not the registry's
    """

    def of_registry(report: Report) -> Approximation:
        maximise = METHODS[method].maximise
        assert maximise is not None  # the method is one over regions
        return probit_gp.approximate(maximise, model.inputs, model.regions, model.prior, report)

    title = METHODS[method].title
    with Progress(estimator.verbose, title, "iterations", value="log evidence") as bar:
        result = (search or of_registry)(bar.report)
    found = search_of_approximation(result)
    return Fit(
        probit_gp.approximate_posterior(result, model.inputs, model.prior, model.likelihood),
        found.diagnostics(found.verdict(method)),
        objectives=result.log_evidences,
        attributes={
            "inference_": method,
            "kernel_": kernel_at(model.prior, result.log_parameters),
            "log_evidence_": found.log_evidence,
            **model.describe(result.region_parameters[None]),
        },
    )
