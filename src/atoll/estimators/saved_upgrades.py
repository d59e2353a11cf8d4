"""How the fields of older versions of saved types become those of the present ones.

Each function takes the fields of one version of a type, by name, and returns those of the next.
Objects among the fields are of the present version already. An estimator may have been saved
before it was fitted: its fields are then its parameters alone. `atoll.estimators.saved_types`
says which function belongs to which type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from atoll.core.labels import PartialLabels, unlabelled_marker

Fields = dict[str, Any]


def renamed(fields: Fields, new_names: dict[str, str]) -> Fields:
    """Return the fields with those in `new_names` under their new names.

    Examples
    --------
    >>> renamed({"width": 2.0, "bounds_": [1.0]}, {"bounds_": "objectives_"})
    {'width': 2.0, 'objectives_': [1.0]}
    """
    return {new_names.get(name, name): value for name, value in fields.items()}


# From version 1, of format 1, to version 2 --------------------------------------------------------

_TRACES = dict.fromkeys(("log_evidences_", "log_posteriors_", "lower_bounds_"), "objectives_")


def estimator_2(fields: Fields) -> Fields:
    """One name for each thing in all estimators, and what "auto" meant for unlabelled rows."""
    fields = renamed(fields, _TRACES)
    for name in fields.keys() & {"inference", "inference_"}:
        if fields[name] in ("gibbs", "sample"):
            fields[name] = "mcmc"
    if "classes_" in fields:
        nothing = np.zeros(0, dtype=np.intp)
        labels = PartialLabels(nothing, nothing.astype(bool), fields["classes_"])
        fields["unlabelled_"] = unlabelled_marker(labels, fields.get("unlabelled", "auto"))
    if "diagnostics_" in fields and not fields.get("draws_"):  # "mixed" is for chains
        fields["diagnostics_"] = renamed(fields["diagnostics_"], {"mixed": "converged"})
    return fields


def graph_gp_classifier_2(fields: Fields) -> Fields:
    """The posterior knows how new rows attach to the graph; diagnostics tell the likelihood."""
    from atoll.estimators.informed import Shares

    told = fields.get("diagnostics_", {})
    fields = estimator_2(fields)
    if "posterior_" in fields:
        posterior = fields["posterior_"]
        new = posterior.coefficients.diagnostics()
        known = renamed(told, {"mixed": "converged"} if "converged" in new else {})
        own = {name: new[name] for name in ("likelihood", "inference")}
        fields["diagnostics_"] = known | own
        fields["likelihood_"] = new["likelihood"]
        fields["posterior_"] = posterior._replace(metric=fields["metric"], n_jobs=fields["n_jobs"])
        mean = fields["label_distributions_"].mean(axis=0)
        fields["class_shares_"] = Shares(mean, mean, mean)  # the limits were not found then
        fields["label_record_"] = None
        fields["_of_sparse_"] = False  # rows were dense then
    return fields


def ssgp_classifier_2(fields: Fields) -> Fields:
    """Chains mix, and the search before them converges; version 1 had one word for both."""
    fields = estimator_2(fields)
    if "mixed" in fields.get("diagnostics_", {}):
        both = fields["diagnostics_"]["mixed"]
        fields["diagnostics_"] = fields["diagnostics_"] | {"converged": both}
    return fields


def ssgp_regressor_2(fields: Fields) -> Fields:
    """The posterior knows the units of the targets."""
    from atoll.models.ssgp.regression import RegressionPosterior

    fields = estimator_2(fields)
    if "posterior_" in fields:
        old = fields["posterior_"]
        fields["posterior_"] = RegressionPosterior(
            old.inputs,
            old.components[0],
            fields.pop("shift_"),
            fields.pop("scale_"),
            fields["noise_variance_"],
        )
        fields["draws_"] = {}
    return fields


def laplacian_svc_2(fields: Fields) -> Fields:
    """The machine, its kernel and its rows are one posterior."""
    from atoll.models.laplacian import SupportVectors

    fields = _margin_classifier_2(fields, converged=True)
    if "machine_" in fields:
        inputs = fields.pop("inputs_")
        machine = SupportVectors(fields["kernel_"], inputs, fields["machine_"])
        fields["posterior_"] = _uncalibrated(machine, fields)
    return fields


def laplacian_rls_classifier_2(fields: Fields) -> Fields:
    """The coefficients, their kernel and their rows are one posterior."""
    from atoll.models.laplacian import LeastSquares

    fields = _margin_classifier_2(fields, converged=True)
    if "coefficients_" in fields:
        inputs = fields.pop("inputs_")
        machine = LeastSquares(fields["kernel_"], inputs, fields["coefficients_"])
        fields["posterior_"] = _uncalibrated(machine, fields)
    return fields


def transductive_svc_2(fields: Fields) -> Fields:
    """The machines are the posterior."""
    from atoll.models.transductive_svm import Machines

    fields = _margin_classifier_2(fields)
    if "machines_" in fields:
        machines = tuple(fields.pop("machines_"))
        fields["posterior_"] = _uncalibrated(Machines(machines), fields)
        fields["C_"], fields["unlabelled_cost_"] = fields["C"], fields["unlabelled_cost"]
        fields["gamma_"] = machines[0].gamma
        if len(machines) == 1:
            fields["assigned_"] = fields["transduction_"]
    if fields.get("gamma") == "auto":  # as scikit-learn has it: one over the number of features
        fields["gamma"] = 1.0 / fields["n_features_in_"] if "n_features_in_" in fields else "scale"
    return fields


def _uncalibrated(machine: Any, fields: Fields) -> Any:
    """Return a machine whose held-out labels were not kept: its probabilities are the prior's."""
    from atoll.models.calibration import LOG_PRIOR, CalibratedMachine, Calibration

    K = len(fields["classes_"])
    return CalibratedMachine(machine, Calibration(LOG_PRIOR, 1.0, np.full(K, -np.log(K))))


def _margin_classifier_2(fields: Fields, **found: Any) -> Fields:
    fields = estimator_2(fields)
    if "classes_" in fields:
        verdict = "The machine was fitted by atoll 0.1, which kept no diagnostics of it."
        fields["diagnostics_"] = {"interrupted": False, **found, "verdict": verdict}
        fields["draws_"] = {}
        # The classes that were found then: it had no probabilities.
        matches = fields["transduction_"][:, None] == fields["classes_"]
        fields["label_distributions_"] = matches.astype(float)
    return fields


def searched_2(fields: Fields) -> Fields:
    """A search leaves its trace and the log evidence; of one of them version 1 kept the other."""
    fields = estimator_2(fields)
    if "log_evidence_" in fields:
        fields.setdefault("objectives_", np.array([fields["log_evidence_"]]))
    elif "objectives_" in fields:
        fields["log_evidence_"] = float(fields["objectives_"][-1])
    return fields


def informative_vector_classifier_2(fields: Fields) -> Fields:
    """Nothing in it is random, or takes several processes."""
    fields = searched_2(fields)
    return {name: value for name, value in fields.items() if name not in ("random_state", "n_jobs")}


def probit_gp_classifier_2(fields: Fields) -> Fields:
    """The likelihood travels with the posterior."""
    from atoll.models import probit_gp

    fields = searched_2(fields)
    return _with_likelihood(fields, lambda: probit_gp.likelihood(len(fields["classes_"])))


def ordinal_gp_classifier_2(fields: Fields) -> Fields:
    """The likelihood travels with the posterior."""
    from atoll.likelihoods.ordinal import Ordinal

    fields = searched_2(fields)
    return _with_likelihood(fields, lambda: Ordinal(float(fields["null_width"])))


def null_category_classifier_2(fields: Fields) -> Fields:
    """The likelihood travels with the posterior."""
    from atoll.likelihoods.null_category import NullCategory

    fields = searched_2(fields)
    width = fields["null_width"]
    fixed = None if isinstance(width, str) else float(width)
    return _with_likelihood(fields, lambda: NullCategory(fixed, len(fields["classes_"])))


def _with_likelihood(fields: Fields, likelihood: Callable[[], Any]) -> Fields:
    """A `LatentPosterior` of version 1 left its likelihood to the estimator; others had theirs."""
    posterior = fields.get("posterior_")
    if posterior is not None and posterior.likelihood is None:
        fields["posterior_"] = posterior._replace(likelihood=likelihood())
    return fields


def latent_posterior_2(fields: Fields) -> Fields:
    """The likelihood is a field; the estimator that holds the posterior gives it."""
    return {**fields, "likelihood": None}


def sites_posterior_2(fields: Fields) -> Fields:
    """What is of the likelihood is one field."""
    from atoll.likelihoods.null_category import OneAgainstTheRest

    names = ("null_width", "log_rates", "likelihood_variance")
    return {
        **{name: value for name, value in fields.items() if name not in names},
        "likelihood": OneAgainstTheRest(*(fields[name] for name in names)),
    }


def archipelago_classifier_2(fields: Fields) -> Fields:
    """What is recorded per class has the code of the class in its name, not the code plus one."""
    fields = estimator_2(fields)
    fields.pop("_is_labelled", None)
    if "draws_" in fields:
        fields["inference_"] = "mcmc"  # there was no other
        new_names = {name: _one_less(name) for name in fields["draws_"]}
        fields["draws_"] = renamed(fields["draws_"], new_names)
        fields["diagnostics_"] = {
            name: renamed(value, new_names) if isinstance(value, dict) else value
            for name, value in fields["diagnostics_"].items()
        }
    return fields


def _one_less(name: str) -> str:
    """Return the name with the number of a class lowered by one."""
    return re.sub(r"_of_class_(\d+)$", lambda m: f"_of_class_{int(m[1]) - 1}", name)


def dp_mixture_classifier_2(fields: Fields) -> Fields:
    """Diagnostics have one name for what was climbed; of online learning they count steps.

    Class probabilities are those of the mixture: they were not tempered.
    """
    fields = estimator_2(fields) | {"n_folds": 0}
    if "posterior_" in fields:
        fields |= {"class_power_": 1.0, "label_noise_": 0.0}
    if "diagnostics_" in fields:
        old = ("log_posterior", "bound_on_the_log_evidence")
        fields["diagnostics_"] = renamed(fields["diagnostics_"], dict.fromkeys(old, "objective"))
    if "online_" in fields:
        steps, seen = fields["online_"].n_steps, fields["online_"].n_seen
        fields["diagnostics_"] = {
            "interrupted": False,
            "n_iterations": steps,
            "verdict": f"Online EM has taken {steps} steps, over {seen:.0f} rows.",
        }
    return fields
