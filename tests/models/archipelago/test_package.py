"""The package beside its paper: what its table names is there."""

from __future__ import annotations

import importlib
import re

import pytest

from atoll.models import archipelago

TABLE = re.findall(
    r"^(equations?|section|algorithm) ([\d., ]+?)  .*  (\w+)\.([\w.]+)$", archipelago.__doc__, re.M
)


def test_the_table_has_every_equation_and_algorithm_1():
    kinds = {"equation": "equation", "equations": "equation"}
    named = {
        (kinds.get(kind, kind), number)
        for kind, numbers, *_ in TABLE
        for number in re.split(r", ", numbers)
    }
    assert named >= {("equation", str(number)) for number in range(1, 13)}
    assert ("algorithm", "1") in named


@pytest.mark.parametrize("row", TABLE, ids=lambda row: " ".join(row[:2]))
def test_what_the_table_names_is_there_and_says_so(row):
    _, _, module, name = row
    found = importlib.import_module(f"atoll.models.archipelago.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    assert found.__doc__
