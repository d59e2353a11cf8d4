"""Messages in the words of the shell: options, where the library speaks of parameters."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from typer.models import OptionInfo

# Parameters in Python whose options on the command line have another name.
_SYNONYMS = {
    "class_prior": "class_share",
    "data_home": "data",
    "per_class": "labels_per_class",
    "random_state": "seed",
    "sample_weight": "weights",
    "texts": "text",
    "verbose": "quiet",
}
_NAME = r"[a-z]\w*"
_VALUE = r"\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s;,:()]+?(?=[.;,:)]*(?:\s|$))"
# What is quoted, and options with their values, stay as they are.
_KEPT = r"(?<!\w)'[^']*'|\"[^\"]*\"|`[^`]*`|--[a-z][\w-]*(?: [^\s-]\S*)?"
_WORDS = re.compile(rf"(?P<kept>{_KEPT})|\b(?P<name>{_NAME})(?:=(?P<value>{_VALUE}))?")
_RULE = re.compile(rf"(?P<name>{_NAME}) must be (?P<rule>.*), got (?P<value>{_VALUE})\.", re.DOTALL)
_BOTH = re.compile(rf"{_NAME}= \((--[\w-]+) of `[^`]*`\)")  # a parameter, and its option
_NO_WORD = re.compile(r"None(?: \([^)]*\))?(?:, | or )| or a function of [^,]*")


_MORE = re.compile(r"\b(?:(?P<more>raise|larger)|lower|smaller)\b", re.IGNORECASE)
_TEXT = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_CORRECTED = re.compile(rf", for example with y\.replace\({_TEXT}, {_TEXT}\)")
_IN_SHELL = {
    "predict corrects them, transduction_ keeps them as given,": "`atoll predict` corrects them,",
    "suspect_labels() lists": "`atoll suspects` lists",
    # Where a label is "none": --unlabelled none says that no word is a marker.
    "pass unlabelled='none'": "blank these cells",
    "say so with unlabelled='none', or": "blank these cells, or say",
    "give unlabelled a list that has 'none' as well": "blank these cells",
    "give unlabelled a list that has": "give --unlabelled",
    "Pass classes=[lowest, …, highest]": "Give their order, such as --set classes=low,mid,high",
    "With checkpoint=, the same call goes": "With --checkpoint FOLDER the same command goes",
}


def in_options(
    message: str,
    command: Callable[..., Any],
    target: str | None = None,
    present: Mapping[str, Any] | None = None,
) -> str:
    """Return a message with the options of a command for the parameters that it names.

    Parameters
    ----------
    message : of an error, a warning or a verdict
    command : whose parameters are the options that may be given
    target : column of labels, where it is known
    present : parameter -> its present value; a value that should be raised is suggested at twice
        that, and draws at four times, which halves their error

    Examples
    --------
    >>> from atoll.cli.fit_commands import fit
    >>> in_options("n_draws must be a whole number, at least 20, got 5.", fit)
    '--set n_draws=5: give a whole number, at least 20.'
    >>> in_options("Raise n_chains, or use inference='ep'.", fit, present={"n_chains": 4})
    'Raise n_chains (--set n_chains=8), or use --set inference=ep.'
    """
    if message.startswith("-"):  # in the command's own words
        return message
    options = _options(command)
    message = _BOTH.sub(r"\1", message)
    for of_python, of_the_shell in _IN_SHELL.items():
        message = message.replace(of_python, of_the_shell)
    named = "--classes" if "classes" in options else "--set classes="
    message = message.replace("classes=[…] says so", f"{named} with all names says so")
    head, colon, rest = message.partition(": ")
    if colon and head in options:  # the rest speaks of what the option was given
        return f"{options[head].partition(' ')[0]}: {rest}"
    rule = _RULE.fullmatch(message)
    given = None if rule is None else _given(options, rule["name"], rule["value"])
    if rule is not None and given is not None:
        is_own = not given.startswith("--set ")  # which has no word for None
        wanted = _NO_WORD.sub("", rule["rule"]) if is_own else rule["rule"]
        message = f"give {wanted}."
    if "--target" in options.values():
        message = _CORRECTED.sub("", re.sub(r"(^|: )y: (?=the class )", r"\1", message))
        column = "column of labels" if target is None else f"column {target!r}"
        message = re.sub(r"^(?:Unknown label type: )?y (?=has |holds )", f"the {column} ", message)
        message = message.replace(" Bin the values, or use a regressor.", " Bin the values.")

    def worded(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name is None:
            return found[0]
        if value is not None:
            return _given(options, name, value) or found[0]
        if "_" not in name:
            return name
        before = _MORE.findall(re.split(r"[.:;]\s", found.string[: found.start()])[-1])
        if before and _SYNONYMS.get(name, name) not in options:
            example = _given(options, name, _changed(name, present or {}, bool(before[-1])))
            return name if example is None else f"{name} ({example})"
        return _named(options, name) or name

    message = re.sub(r"\bset (?=--set )", "add ", _WORDS.sub(worded, message))
    if given is not None:
        return f"{given}: {message}"
    return re.sub(r"^(--[^;:]*);", r"\1:", message, count=1)


def shell_word(value: Any) -> str:
    """Return a value as it is written after an option.

    Examples
    --------
    >>> shell_word(["a", "b"]), shell_word(True), shell_word(0.50), shell_word(None)
    ('a,b', 'true', '0.5', 'none')
    """
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(shell_word(part) for part in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _changed(name: str, present: Mapping[str, Any], is_more: bool) -> str:
    """Return an example of a larger or smaller value of a parameter; N if its value is unknown.

    Examples
    --------
    >>> _changed("n_neighbors", {"n_neighbors": 15}, True), _changed("n_jobs", {}, False)
    ('30', 'N')
    """
    value = present.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return "N"
    if not is_more:
        return str(max(1, value // 2))
    return str((4 if name == "n_draws" else 2) * value)


def _given(options: Mapping[str, str], name: str, text: str) -> str | None:
    """Return the option that sets a parameter to the value written in a text; None if none does."""
    try:
        word = shell_word(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        word = text
    own = options.get(_SYNONYMS.get(name, name))
    if own is not None:
        return f"{own.partition(' ')[0]} {shlex.quote(word)}"
    return f"--set {name}={word}" if "settings" in options and _is_settable(name) else None


def _named(options: Mapping[str, str], name: str) -> str | None:
    """Return the option for a parameter, without a value; None if there is none."""
    own = options.get(_SYNONYMS.get(name, name))
    if own is not None:
        return own
    return f"--set {name}" if "settings" in options and _is_settable(name) else None


def _options(command: Callable[..., Any]) -> dict[str, str]:
    """Return parameter -> option of a command, followed by KEY=VALUE if it takes that."""
    found = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        about = get_args(hint)[1] if get_origin(hint) is Annotated else None
        if isinstance(about, OptionInfo):
            # In an annotation, typer keeps the first declared word where a default would be.
            words = [about.default, *(about.param_decls or ())]
            declared = [str(word).partition("/")[0] for word in words]
            word = next((w for w in declared if w.startswith("--")), f"--{name.replace('_', '-')}")
            pair = about.metavar if about.metavar and "=" in about.metavar else ""
            found[name] = f"{word} {pair}".strip()
    return found


@cache
def _is_settable(name: str) -> bool:
    """Return whether --set may take the name; models are imported until one has it."""
    from atoll.datasets import DATASETS
    from atoll.estimators import MODELS

    if any(name in kind.parameters for kind in MODELS.values()):
        return True
    return any(name in inspect.signature(make).parameters for make in DATASETS.values())
