"""How the fields of older versions of saved types become those of the present ones.

Each function takes the fields of one version of a type, by name, and returns those of the next.
Objects among the fields are of the present version already. An estimator may have been saved
before it was fitted: its fields are then its parameters alone. `atoll.estimators.saved_types`
says which function belongs to which type.
"""

from __future__ import annotations

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

    fields = _laplacian_2(fields)
    if "machine_" in fields:
        inputs = fields.pop("inputs_")
        fields["posterior_"] = SupportVectors(fields["kernel_"], inputs, fields["machine_"])
    return fields


def laplacian_rls_classifier_2(fields: Fields) -> Fields:
    """The coefficients, their kernel and their rows are one posterior."""
    from atoll.models.laplacian import LeastSquares

    fields = _laplacian_2(fields)
    if "coefficients_" in fields:
        inputs = fields.pop("inputs_")
        fields["posterior_"] = LeastSquares(fields["kernel_"], inputs, fields["coefficients_"])
    return fields


def _laplacian_2(fields: Fields) -> Fields:
    fields = estimator_2(fields)
    return fields | (_NO_DIAGNOSTICS if "classes_" in fields else {})


_NO_DIAGNOSTICS = {
    "draws_": {},
    "diagnostics_": {
        "interrupted": False,
        "converged": True,
        "verdict": "The machine was fitted by an earlier version, which kept no diagnostics.",
    },
}
