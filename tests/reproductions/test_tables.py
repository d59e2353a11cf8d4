from __future__ import annotations

import numpy as np
import pytest

from atoll.reproductions import Result
from atoll.reproductions.tables import (
    estimate,
    estimate_value,
    group,
    markdown_table,
    paired_difference,
)


def test_the_standard_error_is_that_of_the_mean():
    values = np.random.default_rng(0).normal(size=30)
    found = estimate(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(30))
    assert found.n_cells == 30


def test_a_single_cell_shows_no_error():
    assert str(estimate([0.25])) == "0.250"
    assert np.isnan(estimate([0.25]).standard_error)


def test_no_cell_is_no_estimate():
    with pytest.raises(ValueError, match="empty"):
        estimate([])


def test_groups_keep_the_declared_order():
    results = [Result({"a": a, "b": b}, {"v": 10 * a + b}) for a in (2, 1) for b in (0, 1)]
    assert list(group(results, "a")) == [2, 1]
    assert list(group(results, "a", "b")) == [(2, 0), (2, 1), (1, 0), (1, 1)]
    assert estimate_value(group(results, "b")[1], "v").mean == 16


def test_what_is_common_to_a_pair_does_not_enter_the_error_of_their_difference():
    common = np.random.default_rng(1).normal(scale=100, size=8)
    first = [Result({"seed": s}, {"v": common[s] + 1.0}) for s in range(8)]
    second = [Result({"seed": s}, {"v": common[s]}) for s in (7, 6, 5, 4, 3, 2)]
    found = paired_difference(first, second, "v", pair_by=["seed"])
    assert found.n_cells == 6
    assert found.mean == pytest.approx(1.0)
    assert found.standard_error < 1e-12


def test_a_bar_or_a_line_break_does_not_end_a_table_s_cell():
    table = markdown_table(["a|b"], [["one\ntwo"]])
    assert table == "| a\\|b |\n| --- |\n| one two |"
