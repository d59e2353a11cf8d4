"""What classifiers by moment matching share: EP or ADF, on all rows or on active ones.

Two classes are one problem. More are one problem per class, against the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels
from atoll.estimators.belief import with_doubt
from atoll.estimators.parameters import Nothing, Number, OneOf, Rule, Whole
from atoll.estimators.progress import Progress
from atoll.estimators.searches import search_of_active_sets
from atoll.estimators.shell import Fit, Need
from atoll.inference.ep import NEGATIVE
from atoll.inference.ivm import IVMResult, Plan
from atoll.inference.registry import METHODS
from atoll.inference.type_two import Report
from atoll.kernels.hyperparameters import KernelPrior, kernel_at
from atoll.models import informative_vector
from atoll.models.belief import HeldOut, weigh_left_out
from atoll.models.informative_vector import NoiseModel, SitesPosterior, exponential_prior

Array = NDArray[np.float64]

RULES: dict[str, Rule] = {
    "n_active": Nothing("for all rows") | Whole(2),
    "n_rounds": Whole(1),
    "bias": Number() | OneOf("share", "learn"),
    "noise_variance": Number(above=0),
    "variance_rate": Nothing() | Number(above=0),
    "negative": OneOf(*NEGATIVE),
}
# Labelled rows are active before any other where they are at most such a share of the active set.
LABELLED_SHARE = 0.25


def plan_of(estimator: Any, prior: KernelPrior) -> Plan:
    """Return how moments are to be matched, from an estimator's parameters."""
    rate = estimator.variance_rate
    return Plan(
        estimator.inference,
        estimator.n_active,
        int(estimator.n_rounds),
        log_prior=None if rate is None else exponential_prior(prior, float(rate)),
        negative=estimator.negative,
        noise_variance=float(estimator.noise_variance),
    )


class Matched(NamedTuple):
    """What moments say.

    result : the sites of the rows that enter the model
    posterior : that they make
    held_out : what labels say that were hidden from a fit with unlabelled rows, or left out of one
        without; None where none was
    doubt : why the unlabelled rows were left out: "shares", "labels"; "" where they were not
    """

    result: IVMResult
    posterior: SitesPosterior
    held_out: HeldOut | None
    doubt: str = ""


def match_moments(
    plan: Plan,
    X: Array,
    labels: PartialLabels,
    prior: KernelPrior,
    noise: NoiseModel,
    bias: float | str,
    report: Report,
    n_folds: int = 0,
) -> Matched:
    """Find the sites of the rows that enter the model, and the posterior that they make.

    With unlabelled rows a fit is believed only where they fall to the classes as the labels do, and
    where labels that are hidden from it are no less probable than by their classes' shares.

    Parameters
    ----------
    noise : what of the likelihood is given, and what is learned
    bias : as the estimators' parameter of that name
    n_folds : in which labels are hidden; 0 for none
    """
    problems, seen = informative_vector.against_the_rest(labels), labels.is_labelled
    biases = [
        informative_vector.share_bias(codes, seen) if isinstance(bias, str) else float(bias)
        for codes in problems
    ]
    families = [
        informative_vector.family(codes, seen, noise, b) for codes, b in zip(problems, biases)
    ]
    variance, hidden, doubt = plan.noise_variance, None, ""
    if seen.all():
        result = informative_vector.fit(X, families, prior, plan, report)
    else:
        few = plan.n_active is None or seen.sum() <= LABELLED_SHARE * plan.n_active
        plan = plan._replace(
            check=informative_vector.share_check(problems, seen, noise, biases, variance),
            first=seen if few else None,  # rows without labels are to have a place
        )
        result = informative_vector.fit_with_restarts(X, families, prior, plan, seen, report)
        if not result.believed:
            doubt = "shares"
        else:
            hidden = informative_vector.hidden_labels(
                result, X, labels, prior, noise, biases, plan, n_folds
            )
            if hidden is not None and hidden.is_worse:
                result = informative_vector.fit_labelled(X, families, prior, plan, seen, report)
                doubt = "labels"
    posterior = informative_vector.posterior(result, X, prior, noise, biases, variance)
    if seen.all() or doubt:
        hidden = foretold(result, posterior, X, labels)
    return Matched(result, posterior, hidden, doubt)


def fit_by_matching(
    estimator: Any,
    plan: Plan,
    X: Array,
    labels: PartialLabels,
    prior: KernelPrior,
    noise: NoiseModel,
    bias: float | str = 0.0,
    n_folds: int = 0,
) -> Fit:
    """Match moments, and make a fit of what was found; parameters as those of `match_moments`."""
    method = plan.refine
    title = METHODS[method].title
    with Progress(estimator.verbose, title, "iterations", value="log evidence") as bar:
        matched = match_moments(plan, X, labels, prior, noise, bias, bar.report, n_folds)
    result = matched.result
    found = search_of_active_sets(result, matched.doubt)
    fit = Fit(
        matched.posterior,
        found.diagnostics(found.verdict(method)),
        objectives=result.log_evidences,
        attributes={
            "inference_": method,
            "kernel_": kernel_at(prior, result.log_parameters),
            "log_evidence_": found.log_evidence,
        },
    )
    return with_doubt(fit, matched.held_out)


def foretold(
    result: IVMResult, posterior: SitesPosterior, X: Array, labels: PartialLabels
) -> HeldOut | None:
    """Return how labels are foretold by all others; no row without one may have a site."""
    seen = labels.is_labelled
    return weigh_left_out(
        informative_vector.left_out(result, posterior, X)[seen], labels.codes[seen]
    )


def active_memory(estimator: Any, n_rows: int) -> Need:
    """Return the memory of active sets among `n_rows` rows."""
    d = n_rows if estimator.n_active is None else min(int(estimator.n_active), n_rows)
    return Need(
        8 * (2 * d * n_rows + 8 * d * d),
        f"{type(estimator).__name__} with {d} active rows of {n_rows}",
        "Lower n_active.",
    )
