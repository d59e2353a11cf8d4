"""Numbers far outside those of a fit are remarked upon, and those of the same table are not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import datasets

from atoll.core.value_spans import FarValues, spans_of

RNG = np.random.default_rng(0)
TABLES = {
    "iris": datasets.load_iris().data,
    "wine": datasets.load_wine().data,
    "cancer": datasets.load_breast_cancer().data,
    "diabetes": datasets.load_diabetes().data,
    "lognormal": RNG.lognormal(0.0, 1.0, (200, 6)),
    "heavy": RNG.lognormal(0.0, 2.0, (200, 6)),
    "few": RNG.lognormal(0.0, 2.0, (30, 6)),
    "mostly zero": RNG.lognormal(0.0, 1.0, (200, 6)) * (RNG.random((200, 6)) < 0.1),
}


def said_of(fitted, *chunks):
    found = FarValues(spans_of(fitted))
    for chunk in chunks:
        found.add(chunk)
    return found.remark([f"c{j}" for j in range(fitted.shape[1])])


@pytest.mark.parametrize("name", TABLES)
def test_halves_of_a_table_are_alike(name):
    rows = TABLES[name]
    for seed in range(100):
        order = np.random.default_rng(seed).permutation(len(rows))
        half = len(rows) // 2
        assert said_of(rows[order[:half]], rows[order[half:]]) is None


def test_other_units_are_remarked_upon_with_numbers():
    rows = np.column_stack([np.linspace(32.0, 60.0, 300), np.linspace(0.0, 1.0, 300)])
    said = said_of(rows[::2], rows[1::2] * [10.0, 1.0])
    assert "c0 in 150 of 150 rows (" in said
    assert "; the fit had 32 to 59.91)." in said
    assert "Are the units the same?" in said
    assert "c1" not in said


def test_chunks_are_counted_together():
    rows = np.linspace(32.0, 60.0, 300)[:, None]
    whole = said_of(rows, 10.0 * rows)
    assert said_of(rows, 10.0 * rows[:100], 10.0 * rows[100:]) == whole


@pytest.mark.parametrize(("value", "fix"), [(-9999.0, "If -9999 means blank"), (1e30, "1e+30")])
def test_a_single_marker_of_a_blank_is_enough(value, fix):
    rows = np.linspace(2700.0, 6300.0, 300)[:, None]
    said = said_of(rows, np.vstack([rows[:50], [[value]]]))
    assert "in 1 of 51 rows" in said
    assert fix in said


def test_a_slip_of_a_factor_of_a_hundred_is_enough():
    assert "in 1 of 1 rows (4500;" in said_of(np.linspace(32.0, 60.0, 300)[:, None], [[4500.0]])


def test_blank_cells_and_columns_of_one_value_say_nothing():
    rows = np.column_stack([np.linspace(32.0, 60.0, 300), np.ones(300)])
    assert said_of(rows, np.array([[np.nan, 5.0]] * 100)) is None
