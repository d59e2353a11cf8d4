"""What a constructor parameter may be, declared once.

A `Rule` serves the check in `fit`, the message where it fails ("n_chains must be a whole number, at
least 1, got 0."), the value that the command line reads from a word, and the help that it shows.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from atoll.inference.registry import METHODS

PYTHON_ONLY = " (in Python only)"


class Rule(ABC):
    """The values that a parameter may take.

    options : what they are, in words that go on from "must be"; alternatives are joined by "or"
    guide : a sentence that says where to read about values the command line has no word for
    guide_of_python : the same for Python, if a value is refused
    """

    options: tuple[str, ...]
    guide: str = ""
    guide_of_python: str = ""

    @abstractmethod
    def allows(self, value: Any) -> bool:
        """Return whether the parameter may have this value."""

    def allows_one_of(self, kind: type) -> bool:
        """Return whether the parameter may have an instance of this class."""
        return False

    def read(self, word: str) -> Any:
        """Return the value that a word of the command line stands for; ValueError if none."""
        raise ValueError(word)

    def __or__(self, other: Rule) -> Rule:
        return _Either(self, other)

    @property
    def shell_options(self) -> tuple[str, ...]:
        """The same for the command line, which has no word for some of them."""
        return self.options

    def __str__(self) -> str:
        return _joined(self.options)

    def in_shell(self) -> str:
        """Return the values in words for a user of the command line."""
        return _joined(self.shell_options)


class _Either(Rule):
    def __init__(self, *rules: Rule):
        self.rules = rules
        self.options = tuple(option for rule in rules for option in rule.options)
        self.guide = " ".join(rule.guide for rule in rules if rule.guide)
        of_python = (rule.guide_of_python for rule in rules)
        self.guide_of_python = " ".join(filter(None, of_python))

    @property
    def shell_options(self) -> tuple[str, ...]:
        return tuple(option for rule in self.rules for option in rule.shell_options)

    def allows(self, value: Any) -> bool:
        return any(rule.allows(value) for rule in self.rules)

    def allows_one_of(self, kind: type) -> bool:
        return any(rule.allows_one_of(kind) for rule in self.rules)

    def read(self, word: str) -> Any:
        for rule in self.rules:
            try:
                return rule.read(word)
            except ValueError:
                continue
        raise ValueError(word)


class Whole(Rule):
    """A whole number from `least` upward."""

    def __init__(self, least: int):
        self.least = least
        self.options = (f"a whole number, at least {least}",)

    def allows(self, value: Any) -> bool:
        return _is_whole(value) and value >= self.least

    def read(self, word: str) -> int:
        return int(word)


class Number(Rule):
    """A finite number within limits, each of which may be left out.

    Parameters
    ----------
    least, most : limits that are allowed themselves
    above, below : limits that are not
    """

    def __init__(
        self,
        *,
        least: float | None = None,
        above: float | None = None,
        most: float | None = None,
        below: float | None = None,
    ):
        self.least, self.above, self.most, self.below = least, above, most, below
        if (least, above, most, below) == (None, 0, None, None):
            self.options = ("a positive number",)
        else:
            limits = {"at least": least, "above": above, "at most": most, "below": below}
            said = [f"{how} {limit:g}" for how, limit in limits.items() if limit is not None]
            self.options = (" ".join(["a number", " and ".join(said)]).strip(),)

    def allows(self, value: Any) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
            return False
        x = float(value)
        return (
            np.isfinite(x)
            and (self.least is None or x >= self.least)
            and (self.above is None or x > self.above)
            and (self.most is None or x <= self.most)
            and (self.below is None or x < self.below)
        )

    def read(self, word: str) -> float:
        return float(word)


class OneOf(Rule):
    """One of some words."""

    def __init__(self, *words: str):
        self.words = words
        self.options = tuple(f'"{word}"' for word in words)

    @property
    def shell_options(self) -> tuple[str, ...]:
        return self.words

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.words

    def read(self, word: str) -> str:
        if word not in self.words:
            raise ValueError(word)
        return word


class Flag(Rule):
    """True or False."""

    options = ("True", "False")
    shell_options = ("true", "false")

    def allows(self, value: Any) -> bool:
        return isinstance(value, bool | np.bool_)

    def read(self, word: str) -> bool:
        values = {"true": True, "yes": True, "false": False, "no": False}
        if word.lower() not in values:
            raise ValueError(word)
        return values[word.lower()]


class Nothing(Rule):
    """None, with what it means.

    Parameters
    ----------
    meaning : in words, such as "for all rows"
    """

    def __init__(self, meaning: str = ""):
        self.options = (f"None ({meaning})" if meaning else "None",)

    @property
    def shell_options(self) -> tuple[str, ...]:
        words = {"None": "none", "of y": "of the labels"}
        said = self.options
        for python, shell in words.items():
            said = tuple(option.replace(python, shell) for option in said)
        return said

    def allows(self, value: Any) -> bool:
        return value is None

    def read(self, word: str) -> None:
        if word.lower() != "none":
            raise ValueError(word)


class A(Rule):
    """An object of certain types; the command line has no word for it.

    Parameters
    ----------
    text : what it is, with its article
    types : of which it is an instance
    guide, guide_of_python : as of every rule
    """

    def __init__(self, text: str, *types: type, guide: str = "", guide_of_python: str = ""):
        self.types = types
        self.options = (text,)
        self.guide, self.guide_of_python = guide, guide_of_python

    @property
    def shell_options(self) -> tuple[str, ...]:
        return tuple(f"{option}{PYTHON_ONLY}" for option in self.options)

    def allows(self, value: Any) -> bool:
        return isinstance(value, self.types) and not isinstance(value, type)

    def allows_one_of(self, kind: type) -> bool:
        return issubclass(kind, self.types)


class Path(Rule):
    """The path of a file or folder.

    Parameters
    ----------
    text : what is there, with its article
    """

    def __init__(self, text: str):
        self.options = (text,)

    def allows(self, value: Any) -> bool:
        return isinstance(value, str | os.PathLike)

    def read(self, word: str) -> str:
        return word


class Listed(Rule):
    """A sequence of values, with commas between them on the command line; `fit` checks them.

    Parameters
    ----------
    text : what it is, with its article
    item : the rule of every value, if it is more than a word
    """

    def __init__(self, text: str, item: Rule | None = None):
        self.item = item
        self.options = (text,)

    def allows(self, value: Any) -> bool:
        is_sequence = hasattr(value, "__len__") and not isinstance(value, str | Mapping)
        return is_sequence and (self.item is None or all(map(self.item.allows, value)))

    def read(self, word: str) -> list[Any]:
        words = [part.strip() for part in word.split(",")]
        return words if self.item is None else [self.item.read(part) for part in words]


class Mask(Rule):
    """A boolean for each row, as an array or a list; the command line has no word for it.

    Parameters
    ----------
    text : what it is, with its article
    """

    def __init__(self, text: str):
        self.options = (text,)

    @property
    def shell_options(self) -> tuple[str, ...]:
        return tuple(f"{option}{PYTHON_ONLY}" for option in self.options)

    def allows(self, value: Any) -> bool:
        if not hasattr(value, "__len__") or isinstance(value, str | Mapping):
            return False
        mask = np.asarray(value)
        return mask.ndim == 1 and mask.dtype == np.bool_


class Shares(Rule):
    """A mapping from class to share, or shares in the order of the classes; `fit` checks them."""

    options = ("a mapping from class to share", "an array of shares")

    @property
    def shell_options(self) -> tuple[str, ...]:
        return tuple(f"{option}{PYTHON_ONLY}" for option in self.options)

    def allows(self, value: Any) -> bool:
        return hasattr(value, "__len__") and not isinstance(value, str)


class Anything(Rule):
    """Whatever `fit` makes of it.

    Parameters
    ----------
    text : what it is meant to be
    """

    def __init__(self, text: str):
        self.options = (text,)

    def allows(self, value: Any) -> bool:
        return True

    def read(self, word: str) -> str:
        return word


class _Processes(Whole):
    """A number of processes: any whole number but 0."""

    def __init__(self) -> None:
        super().__init__(1)
        self.options = ("a whole number other than 0",)

    def allows(self, value: Any) -> bool:
        return _is_whole(value) and value != 0


def inference(*names: str) -> Rule:
    """Return the rule of `inference=` for an estimator: names of the one registry, or "auto"."""
    strangers = set(names) - {"auto", *METHODS}
    if strangers:
        raise KeyError(f"{sorted(strangers)} are not in atoll.inference.registry.METHODS")
    return OneOf(*names)


KERNEL = OneOf("isotropic", "ard") | A(
    "a scikit-learn kernel",
    Kernel,
    guide="isotropic has one length-scale for all columns, ard one for each. Any other kernel, of "
    'scikit-learn\'s or your own, is for Python: see the guide "A kernel of your own" '
    "(docs/guide/own-kernel.md).",
    guide_of_python="Those of scikit-learn are objects, such as RBF() of "
    'sklearn.gaussian_process.kernels; the guide "A kernel of your own" (docs/guide/own-kernel.md) '
    "makes others.",
)
RANDOM_STATE = (
    Nothing()
    | Whole(0)
    | A("a numpy Generator", np.random.Generator, np.random.RandomState, np.random.SeedSequence)
)
PROBABILITY = Number(least=0, most=1)
COMMON: dict[str, Rule] = {
    "unlabelled": OneOf("auto") | Nothing("nulls alone") | Anything("a value"),
    "verbose": Flag(),
}
"""Parameters of every classifier."""
RANDOM: dict[str, Rule] = {"random_state": RANDOM_STATE, "n_jobs": Nothing() | _Processes()}
"""Parameters of what is random and may run in several processes."""
WATCHED: dict[str, Rule] = {"verbose": Flag() | OneOf("auto")}
"""Progress of what may take minutes on many rows."""
LABELLING: dict[str, Rule] = {
    "classes": Nothing("those of y") | Listed("a sequence of classes"),
    "class_prior": Nothing("not known") | Shares(),
    "labels_chosen": Flag() | Mask("an array with True where a label was picked"),
    "warm_start": Flag(),
}
"""Parameters of classifiers that are fitted again after every few labels."""
CHECKPOINT = Nothing() | Path("the path of a folder")
"""Where work is kept, so that it can go on after a stop."""
CHAINS: dict[str, Rule] = RANDOM | {
    "n_chains": Whole(1),
    "n_warmup": Whole(0),
    "n_samples": OneOf("auto") | Whole(1),
    "thin": Whole(1),
    "checkpoint": CHECKPOINT,
}
"""Parameters of Markov chains."""


def check_parameters(estimator: Any) -> None:
    """Raise a ValueError for the first parameter that has a value its rule does not allow."""
    for name, rule in estimator.parameters.items():
        check_value(name, getattr(estimator, name), rule)


def check_value(name: str, value: Any, rule: Rule) -> None:
    """Raise a ValueError unless the rule allows the value.

    Examples
    --------
    >>> check_value("n_chains", 0, Whole(1))
    Traceback (most recent call last):
        ...
    ValueError: n_chains must be a whole number, at least 1, got 0.
    """
    if rule.allows(value):
        return
    if isinstance(value, type) and rule.allows_one_of(value):
        kind = value.__name__
        raise ValueError(
            f"{name} must be {rule}, got the class {kind} itself; add brackets: {name}={kind}()."
        )
    fix = ""
    if isinstance(value, str) and rule.allows([value]):
        fix = f"; put it in a list: {name}=[{value!r}]"
    said = f"{name} must be {rule}, got {value!r}{fix}."
    guide = "" if isinstance(value, type) else rule.guide_of_python
    raise ValueError(f"{said} {guide}" if guide else said)


def check_folds(n_folds: int) -> None:
    """Raise a ValueError for a single fold, which would hold out no label or all of them."""
    if n_folds == 1:
        raise ValueError("n_folds must be 0, for none, or at least 2, got 1.")


def read_value(name: str, word: str, rule: Rule) -> Any:
    """Return the value that a word of the command line gives a parameter.

    Examples
    --------
    >>> read_value("n_active", "none", Nothing() | Whole(2)), read_value("bias", "0.5", Number())
    (None, 0.5)
    """
    try:
        value = rule.read(word)
    except ValueError:
        raise ValueError(f"{name} must be {rule.in_shell()}, got {word!r}.") from None
    check_value(name, value, rule)
    return value


def _joined(options: tuple[str, ...]) -> str:
    *first, last = options
    return f"{', '.join(first)} or {last}" if first else last


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
