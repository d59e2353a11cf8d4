"""How the fields of older versions of saved types become those of the present ones.

Each function takes the fields of one version of a type, by name, and returns those of the next.
`atoll.estimators.saved_types` says which function belongs to which type.
"""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]


def renamed(fields: Fields, new_names: dict[str, str]) -> Fields:
    """Return the fields with those in `new_names` under their new names.

    Examples
    --------
    >>> renamed({"width": 2.0, "bounds_": [1.0]}, {"bounds_": "objectives_"})
    {'width': 2.0, 'objectives_': [1.0]}
    """
    return {new_names.get(name, name): value for name, value in fields.items()}


def one_vocabulary(fields: Fields) -> Fields:
    """One name for sampling, "mcmc", and one for the trace of what was maximised, `objectives_`."""
    new_names = dict.fromkeys(("log_evidences_", "log_posteriors_", "lower_bounds_"), "objectives_")
    fields = renamed(fields, new_names)
    for name in fields.keys() & {"inference", "inference_"}:
        if fields[name] in ("gibbs", "sample"):
            fields[name] = "mcmc"
    return fields
