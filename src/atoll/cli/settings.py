"""KEY=VALUE on the command line: parameters of a model, read and checked by its own rules."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from atoll.cli.wording import shell_word
from atoll.core.near_names import did_you_mean

# Parameters that the command sets itself.
BY_OPTION = {
    "random_state": "--seed",
    "n_jobs": "--n-jobs",
    "checkpoint": "--checkpoint",
    "unlabelled": "--unlabelled",
    "verbose": "--quiet",
    "class_prior": "--class-share",
}


def choose(registry: Mapping[str, Any], name: str, what: str, listing: str) -> Any:
    """Return the thing of that name; raise a ValueError that says which there are.

    Parameters
    ----------
    registry : name -> thing
    what : what one of them is called
    listing : the command that lists them
    """
    if name not in registry:
        hint = did_you_mean(name, registry)
        raise ValueError(
            f"there is no {what} {name!r}; {hint}`{listing}` lists them: {', '.join(registry)}."
        )
    return registry[name]


def refuse_several(option: str, name: str, known: Collection[str], how: str) -> None:
    """Raise a ValueError if one option names several known things, with commas between them.

    Parameters
    ----------
    how : to name them instead, with {} where the option is repeated for each
    """
    several = [part.strip() for part in name.split(",")]
    if len(several) > 1 and set(several) <= set(known):
        again = " ".join(f"{option} {part}" for part in several)
        raise ValueError(f"{option} {name}: {how.format(again)}")


def pairs(settings: list[str]) -> Iterator[tuple[str, str]]:
    """Yield key and value of each KEY=VALUE."""
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"--set {setting}: write it as KEY=VALUE.")
        yield key.strip().replace("-", "_"), text.strip()


def values_by_key(texts: list[str]) -> dict[str, list[str]]:
    """Return the values of each key of `KEY=VALUE,VALUE`; repeating a key adds values."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not (key and equals and values):
            raise ValueError(f"--only {text}: give KEY=VALUE, or several values: KEY=VALUE,VALUE.")
        found.setdefault(key.strip(), []).extend(value.strip() for value in values.split(","))
    return found


def read_settings(
    kind: Any, name: str, settings: list[str], metric: str | None = None
) -> dict[str, Any]:
    """Return the arguments of the constructor that the settings give.

    Parameters
    ----------
    kind : class of an estimator
    name : of the model, as the user wrote it
    settings : each a KEY=VALUE
    metric : value of the option --metric, or None
    """
    options = {}
    for key, text in pairs(settings):
        if key in BY_OPTION:
            raise ValueError(f"--set {key}={text}: use {BY_OPTION[key]} for that.")
        if key not in kind.parameters:
            known = [known for known in kind.parameters if known not in BY_OPTION]
            hint = did_you_mean(key, known) or _where_known(key)
            raise ValueError(
                f"--set {key}={text}: {name} has no parameter {key}; {hint}`atoll models {name}` "
                f"lists them: {', '.join(known)}."
            )
        options[key] = _value(f"--set {key}={text}", text, kind.parameters[key])
    if metric is not None:
        if "metric" not in kind.parameters:
            raise ValueError(f"--metric does not apply to the model {name!r}; leave it out.")
        options["metric"] = _value(f"--metric {metric}", metric, kind.parameters["metric"])
    return options


def _where_known(key: str) -> str:
    """Say which models have a parameter, as the beginning of a sentence; nothing if none has."""
    from atoll.estimators import MODELS

    having = [name for name, kind in MODELS.items() if key in kind.parameters]
    return f"models that have it: {', '.join(having)}. " if having else ""


def _value(written: str, text: str, rule: Any) -> Any:
    from atoll.estimators.parameters import read_value

    try:
        return read_value(written, text, rule)
    except ValueError:
        said = [f"{written}: give {rule.in_shell()}.", rule.guide]
        raise ValueError(" ".join(filter(None, said))) from None


def settable_parameters(kind: Any) -> list[list[str]]:
    """Return name, default and allowed values of each parameter, for a table."""
    defaults = inspect.signature(kind).parameters
    return [
        [name, shell_word(defaults[name].default), rule.in_shell()]
        for name, rule in kind.parameters.items()
        if name not in BY_OPTION
    ]


def set_where_known(estimator: Any, **values: Any) -> None:
    """Set the parameters that the estimator has."""
    known = estimator.get_params(deep=False)
    estimator.set_params(**{name: value for name, value in values.items() if name in known})


def set_or_refuse(estimator: Any, name: str, **values: Any) -> None:
    """Set the parameters that were given; raise a ValueError if the model lacks one."""
    known = estimator.get_params(deep=False)
    for parameter, value in values.items():
        if value is None:
            continue
        if parameter not in known:
            option = BY_OPTION[parameter]
            raise ValueError(f"{option} does not apply to the model {name!r}; leave it out.")
        estimator.set_params(**{parameter: value})


def classes_in_type(names: list[Any], found: Any) -> list[Any]:
    """Return classes given on the command line, in the type of those found in the table."""
    if found.dtype.kind in "OUT":
        return list(names)
    try:
        return [int(name) for name in names]
    except ValueError:
        raise ValueError(
            f"--set classes={','.join(map(str, names))}: the labels are numbers; give whole "
            "numbers with commas between."
        ) from None
