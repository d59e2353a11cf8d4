"""Blank numbers are filled in by like rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import NearestNeighbors

from atoll.core.blank_fill import FEWEST_DONORS, MOST_DONORS, N_LIKE, donors_of, fill_blank
from atoll.core.preprocessing import apply, prepare, with_category_weight


def test_a_cell_takes_the_mean_of_the_rows_nearest_in_all_other_columns():
    rng = np.random.default_rng(0)
    donors = rng.standard_normal((200, 3)) * [1.0, 50.0, 3.0]
    row = donors[:1] + np.array([0.1, 3.0, 0.0])
    unit = donors[:, :2].std(axis=0)
    near = NearestNeighbors(n_neighbors=N_LIKE).fit(donors[:, :2] / unit)
    (like,) = near.kneighbors(row[:, :2] / unit, return_distance=False)
    row[0, 2] = np.nan
    (found,) = fill_blank(row, donors, np.zeros(3))
    assert found[2] == pytest.approx(donors[like, 2].mean())
    np.testing.assert_array_equal(found[:2], row[0, :2])


def test_a_number_of_few_values_keeps_to_them():
    rng = np.random.default_rng(1)
    donors = np.column_stack([rng.standard_normal(100), rng.integers(3, size=100)])
    found = fill_blank(np.array([[0.0, np.nan], [2.0, np.nan]]), donors, np.zeros(2))
    assert set(found[:, 1]) <= {0.0, 1.0, 2.0}


def test_donors_are_complete_and_not_too_many_nor_too_few():
    X = np.random.default_rng(2).standard_normal((3 * MOST_DONORS, 2))
    X[::2, 0] = np.nan
    found = donors_of(X)
    assert found.shape == (MOST_DONORS, 2)
    assert not np.isnan(found).any()
    assert len(donors_of(X[: FEWEST_DONORS + 4])) == 0
    assert fill_blank(X[:1], np.empty((0, 2)), np.array([7.0, 8.0]))[0, 0] == 7.0


def test_cells_of_any_size_are_filled_with_numbers():
    donors = np.random.default_rng(3).choice([-1e300, 1e300, 0.5], (60, 3))
    found = fill_blank(np.array([[1e300, np.nan, -1e300], [np.nan] * 3]), donors, np.ones(3))
    assert np.isfinite(found).all()


@pytest.fixture
def groves():
    """Two kinds of trees; a fifth of the heights are blank."""
    rng = np.random.default_rng(4)
    kind = np.arange(300) % 2
    table = pd.DataFrame(
        {
            "girth": 10.0 * kind + rng.standard_normal(300),
            "height": 100.0 * kind + rng.standard_normal(300),
            "leaf": np.where(kind == 1, "needle", "broad"),
        }
    )
    table.loc[rng.random(300) < 0.2, "height"] = np.nan
    return table, kind


def test_a_blank_cell_is_what_its_kind_has(groves):
    table, kind = groves
    X, _, read = prepare(table, standardise=False)
    height = X[:, list(read.features).index("height")]
    assert np.abs(height - 100.0 * kind).max() < 6.0


def test_new_rows_are_filled_as_those_of_the_fit_whatever_categories_count(groves):
    table, _ = groves
    made = prepare(table)
    for one in (made, with_category_weight(made, 0.5)):
        np.testing.assert_allclose(apply(one.preprocessing, table), one.X, atol=1e-12)


def test_new_rows_are_filled_where_the_table_of_the_fit_had_no_blank_cell(groves):
    table, kind = groves
    whole = table[table["height"].notna()].reset_index(drop=True)
    read = prepare(whole, standardise=False).preprocessing
    asked = table[table["height"].isna()]
    height = apply(read, asked)[:, list(read.features).index("height")]
    assert np.abs(height - 100.0 * kind[asked.index]).max() < 6.0
