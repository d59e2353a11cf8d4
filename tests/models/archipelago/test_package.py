"""The package beside its paper: what its table names is there, and cites the paper."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from atoll.models import archipelago

TABLE = [
    (kind.removesuffix("s"), number, file, name)
    for kind, numbers, file, name in re.findall(
        r"^(equations?|section|algorithm) ([\d., ]+?)  .*  (\w+)\.([\w.]+)$",
        archipelago.__doc__,
        re.M,
    )
    for number in numbers.split(", ")
]


def test_the_table_has_every_equation_and_algorithm_1():
    named = {row[:2] for row in TABLE}
    assert named >= {("equation", str(number)) for number in range(1, 13)} | {("algorithm", "1")}


@pytest.mark.parametrize("row", TABLE, ids=" ".join)
def test_what_the_table_names_is_there_and_cites_the_paper(row):
    kind, number, file, name = row
    module = importlib.import_module(f"atoll.models.archipelago.{file}")
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    text = f"{inspect.getsource(found)} {module.__doc__}".lower()
    assert re.search(rf"{kind} {re.escape(number)}\b", text)
