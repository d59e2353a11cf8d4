"""Blank numbers are filled in by like rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import NearestNeighbors

from atoll.core.blank_fill import FEWEST_DONORS, MOST_DONORS, N_LIKE, donors_of, fill_blank
from atoll.core.fillings import fillings_of
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


def alike(rng, n=300):
    """A table in which most rows have many others as near as each other."""
    table = pd.DataFrame(
        {
            "x": rng.standard_normal(n).round(3),
            "site": rng.choice(list("uvw"), n),
            "grade": 0.1 * rng.integers(4, size=n),
        }
    )
    table.loc[rng.random(n) < 0.2, "x"] = np.nan
    table.loc[rng.random(n) < 0.1, "grade"] = np.nan
    return table


def whole(table):
    """A table as a model takes it."""
    return apply(prepare(table).preprocessing, table)


def fillings(X):
    """The mean filling of the rows, and all others of those that had blanks."""
    return np.asarray(X), np.array(list(fillings_of(X).each(X, slice(None)))).sum(axis=0)


@pytest.mark.parametrize("times", [3.0, 10.0, 1 / 2.54])
@pytest.mark.parametrize("column", ["x", "grade"])
def test_units_do_not_decide_how_a_blank_cell_is_filled(times, column):
    table = alike(np.random.default_rng(0))
    other = table.assign(**{column: times * table[column]})
    for one, two in zip(fillings(whole(table)), fillings(whole(other))):
        np.testing.assert_allclose(one, two, atol=1e-9)


def test_the_order_of_rows_does_not_decide_how_a_blank_cell_is_filled():
    table = alike(np.random.default_rng(1))
    read, again = (prepare(rows).preprocessing for rows in (table, table.iloc[::-1]))
    for one, two in zip(fillings(apply(read, table)), fillings(apply(again, table))):
        np.testing.assert_allclose(one, two, atol=1e-9)


def test_a_row_is_filled_alone_as_beside_others():
    rng = np.random.default_rng(2)
    X = np.column_stack(
        [
            rng.standard_normal(600).round(3),
            0.1 * rng.integers(4, size=600),
            rng.choice([0.3, 0.7, 1.1], 600),
            rng.integers(2, size=600),
        ]
    )
    X[rng.random(600) < 0.2, 0] = np.nan
    donors, medians = donors_of(X), np.zeros(4)
    alone = np.concatenate([fill_blank(X[[i]], donors, medians) for i in range(600)])
    np.testing.assert_array_equal(alone, fill_blank(X, donors, medians))


def test_all_rows_as_near_as_the_tenth_are_averaged():
    donors = np.column_stack([np.arange(60.0), np.repeat([0.0, 1.0, 5.0], 20)])
    (found,) = fill_blank(np.array([[np.nan, 0.3]]), donors, np.zeros(2))
    assert found[0] == pytest.approx(np.arange(20).mean())


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
