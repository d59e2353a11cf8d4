"""Rules: what they allow, how they say it, and what the command line reads."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from atoll.estimators.parameters import (
    CHAINS,
    KERNEL,
    RANDOM,
    RANDOM_STATE,
    Anything,
    Flag,
    Listed,
    Nothing,
    Number,
    OneOf,
    Whole,
    check_value,
    inference,
    read_value,
)


@pytest.mark.parametrize(
    ("rule", "allowed", "refused", "text"),
    [
        (Whole(2), [2, np.int64(9)], [1, 2.0, True, "2", None], "a whole number, at least 2"),
        (Number(above=0), [0.1, 3, np.float32(1)], [0, -1, np.nan, np.inf, True, "1"],
         "a positive number"),
        (Number(least=0, below=1), [0, 0.5], [1, -0.1], "a number at least 0 and below 1"),
        (Number(), [-3.5], [np.inf], "a number"),
        (OneOf("a", "b") | Nothing("for all"), ["a", None], ["c", 1], '"a", "b" or None (for all)'),
        (Flag(), [True, np.False_], [0, 1, "yes", None], "True or False"),
        (KERNEL, ["ard", RBF()], ["round", 3], '"isotropic", "ard" or a scikit-learn kernel'),
        (RANDOM["n_jobs"], [None, 1, -1], [0, 1.5], "None or a whole number other than 0"),
        (Listed("numbers", Number(least=0)), [[0, 1.5], np.ones(2)], ["12", 3, [-1]], "numbers"),
    ],
)  # fmt: skip
def test_a_rule_allows_what_it_says(rule, allowed, refused, text):
    assert str(rule) == text
    for value in allowed:
        check_value("x", value, rule)
    for value in refused:
        with pytest.raises(ValueError, match=r"^x must be ") as error:
            check_value("x", value, rule)
        said = f"x must be {text}, got {value!r}. {rule.guide_of_python}"
        assert str(error.value) == said.rstrip()


@pytest.mark.parametrize("seed", [None, 0, np.int64(3), np.random.default_rng(0)])
def test_seeds_are_what_scikit_learn_users_pass(seed):
    assert RANDOM_STATE.allows(seed)
    assert not RANDOM_STATE.allows("today")


@pytest.mark.parametrize(
    ("rule", "word", "value"),
    [
        (Whole(0), "12", 12),
        (Number(), "-1e-3", -1e-3),
        (Nothing() | Whole(2), "none", None),
        (Nothing() | Whole(2), "7", 7),
        (OneOf("sample") | Number(least=0), "sample", "sample"),
        (OneOf("sample") | Number(least=0), "0.5", 0.5),
        (Flag(), "no", False),
        (Listed("rates", Number(least=0)), "0.1, 0.2", [0.1, 0.2]),
        (Listed("names"), "low,high", ["low", "high"]),
        (CHAINS["checkpoint"], "runs/one", "runs/one"),
        (Anything("a value"), "x", "x"),
    ],
)
def test_words_of_the_command_line_are_read_as_the_rule_says(rule, word, value):
    assert read_value("x", word, rule) == value


@pytest.mark.parametrize(
    ("rule", "word"),
    [(Whole(1), "0"), (Whole(1), "one"), (Number(above=0), "-2"), (KERNEL, "RBF()")],
)
def test_words_that_a_rule_cannot_read_are_refused_by_its_text(rule, word):
    with pytest.raises(ValueError, match=r"^x must be ") as error:
        read_value("x", word, rule)
    assert rule.in_shell() in str(error.value)


def test_inference_takes_names_of_the_registry_alone():
    assert inference("auto", "mcmc", "vb").allows("mcmc")
    with pytest.raises(KeyError, match="gibbs"):
        inference("auto", "gibbs")
