"""Columns that are codes of the labels are told from features that agree by chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from atoll.core.label_copies import label_codes
from atoll.core.labels import parse_labels

TRUTH = np.array(["ant", "bee", "cow"] * 40, dtype=object)
CODES = {
    "numbers": np.array([2, 0, 1])[[0, 1, 2] * 40],
    "words": np.array(["x", "y", "z"])[[0, 1, 2] * 40],
    "floats": np.array([0.5, 1.5, 7.0])[[0, 1, 2] * 40],
}


def first(n):
    return parse_labels(np.where(np.arange(120) < n, TRUTH, None))


@pytest.mark.parametrize("kind", CODES)
def test_values_that_go_with_one_class_each_are_a_code(kind):
    frame = pd.DataFrame({"code": CODES[kind], "x": np.arange(120.0)})
    assert label_codes(frame, list(frame.columns), first(30)) == ("code",)


@pytest.mark.parametrize("n", [6, 9])
def test_few_labels_may_agree_by_chance(n):
    assert label_codes(pd.DataFrame({"code": CODES["words"]}), ["code"], first(n)) == ()


def test_many_columns_may_agree_by_chance():
    frame = pd.DataFrame({f"c{j}": CODES["words"] for j in range(100)})
    assert label_codes(frame, ["c0"], first(15)) == ("c0",)
    assert label_codes(frame, list(frame.columns), first(15)) == ()


def test_a_value_of_two_classes_or_a_blank_cell_makes_no_code():
    code = CODES["words"].astype(object)
    off, blank = code.copy(), code.copy()
    off[7], blank[7] = "x", None
    merged = np.where(code == "z", "y", code)
    frame = pd.DataFrame({"off": off, "blank": blank, "merged": merged})
    assert label_codes(frame, list(frame.columns), first(60)) == ()
