"""Numbers in the place of blanks are told from large numbers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import datasets

from atoll.core.blank_markers import about_blank_markers, blank_markers
from atoll.core.table_fixes import PYTHON, SHELL

MASSES = np.linspace(2700.0, 6300.0, 100)


@pytest.mark.parametrize("marker", [-9999.0, -99.0, 1e30, 99999.0])
def test_a_repeated_marker_far_from_all_values_is_found(marker):
    values = MASSES / 100 if abs(marker) < 1000 else MASSES
    assert blank_markers([*values, *[marker] * 3]) == {marker: 3}
    assert blank_markers([*values, *[marker] * 2]) == {}


def test_two_markers_in_one_column_do_not_hide_each_other():
    assert blank_markers([*MASSES, *[-9999.0] * 4, *[99999.0] * 5]) == {-9999.0: 4, 99999.0: 5}


@pytest.mark.parametrize(
    "values",
    [
        [990.0, 995.0, 999.0, 999.0, 999.0],
        [0.0, 1.0, -1.0, -1.0, -1.0],
        [999.0] * 5,
        [1.0, *[999.0] * 5],
        [np.nan] * 4,
        [],
    ],
)
def test_values_among_others_are_no_markers(values):
    assert blank_markers(values) == {}


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes", "digits"])
def test_plain_tables_have_none(name):
    X = getattr(datasets, f"load_{name}")().data
    assert about_blank_markers(X, [str(j) for j in range(X.shape[1])], SHELL) == []


def test_the_remark_says_what_to_do_where_the_table_is():
    X = np.array([*MASSES, *[-9999.0] * 4])[:, None]
    assert about_blank_markers(X, ["mass"], SHELL)[0].endswith("leave these cells blank.")
    assert "make them NaN" in about_blank_markers(X, ["mass"], PYTHON)[0]
