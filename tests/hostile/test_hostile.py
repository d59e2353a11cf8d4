"""Every model answers hostile problems with probabilities, or refuses them in words.

`make hostile` poses a hundred thousand; here are a few, and those that once found a fault.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hostile_problems import MODELS, judge, problem

# Problems that an earlier version answered by an overflow, a NaN or an error of another library.
FOUND = {
    61: "differences of rows underflow",
    100: "squares of rows overflow",
    588: "text that is no number",
    1222: "a projection of a far row overflows",
    1237: "a far row overflows when it is scaled",
    1533: "a support vector machine without digits",
    1972: "a far row overflows when it is divided by a length-scale",
    2771: "variances of huge rows are rounded to nothing",
    3252: "the same, by variational Bayes",
    6827: "the same, with factors",
    42105: "forty classes, whose differences are many",
    43992: "a graph of pairs, whose eigenvalues are equal",
}


@pytest.mark.parametrize("number", range(2 * len(MODELS)))
def test_a_hostile_problem_is_answered_or_refused_in_words(number):
    assert judge(problem(10**6 + number)) in ("answered", "refused")


@pytest.mark.parametrize("number", [pytest.param(n, id=why) for n, why in FOUND.items()])
def test_what_once_found_a_fault_finds_none(number):
    assert judge(problem(number)) in ("answered", "refused")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2600, 260))
def test_many_hostile_problems_are_answered_or_refused_in_words(first):
    for number in range(first, first + 260):
        assert judge(problem(number)) in ("answered", "refused"), number
