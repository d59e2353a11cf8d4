"""The nearest rows by products in single precision are the nearest rows."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from atoll.core import graphs, near_rows


@pytest.mark.parametrize("kind", ["plain", "far from zero", "with outliers", "tiny", "single"])
def test_rows_that_are_proven_nearest_are_those_of_all_distances(kind):
    rng = np.random.default_rng(3)
    rows, X = rng.standard_normal((1200, 20)), rng.standard_normal((60, 20))
    if kind == "far from zero":
        rows, X = rows + 1e3, X + 1e3
    elif kind == "with outliers":
        rows[::50] *= 1e6
        X[0] *= 1e6
    elif kind == "tiny":
        rows, X = 1e-12 * rows, 1e-12 * X
    elif kind == "single":
        rows, X = rows.astype(np.float32), X.astype(np.float32)
    found, proven = near_rows.nearest_by_products(rows, X, 7)
    expected = cdist(X.astype(float), rows.astype(float)).argsort(axis=1)[:, :7]
    assert (found[proven] == expected[proven]).all()
    assert proven.mean() > 0.9 or kind == "far from zero"  # whose products lose the digits
    assert (graphs.nearest(rows, X, 7) == expected).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [1000, 1030, 1150, 1400])
def test_few_rows_are_proven_as_well_for_as_many_neighbours_as_are_taken(n):
    rows = np.random.default_rng(n).standard_normal((n, 20))
    assert near_rows.takes(rows, rows, near_rows.MOST_NEIGHBOURS)
    found, proven = near_rows.nearest_by_products(rows, rows[:80], near_rows.MOST_NEIGHBOURS)
    assert proven.mean() > 0.9
    expected = cdist(rows[:80], rows).argsort(axis=1)[:, : near_rows.MOST_NEIGHBOURS]
    assert (found[proven] == expected[proven]).all()


def test_rows_that_tie_are_found_in_their_order_or_left_to_another_search():
    rng = np.random.default_rng(4)
    rows, X = rng.integers(0, 2, (1500, 16)).astype(float), np.zeros((5, 16))
    X[1:] = rng.integers(0, 2, (4, 16))
    found, proven = near_rows.nearest_by_products(rows, X, 5)
    distances = cdist(X, rows, "sqeuclidean")
    assert (found[proven] == distances.argsort(axis=1, kind="stable")[:, :5][proven]).all()
    near = np.take_along_axis(distances, graphs.nearest(rows, X, 5), axis=1)
    assert (near == np.sort(distances, axis=1)[:, :5]).all()


@pytest.mark.filterwarnings("error")
def test_rows_with_too_many_candidates_are_not_proven():
    found, proven = near_rows.nearest_by_products(np.ones((1000, 16)), np.zeros((2, 16)), 3)
    assert found.shape == (2, 3)
    assert not proven.any()


def test_rows_too_far_for_single_precision_are_searched_in_double():
    rng = np.random.default_rng(5)
    rows = 1e18 * rng.standard_normal((1100, 16))
    assert not near_rows.takes(rows, rows[:3], 2)
    assert (graphs.nearest(rows, rows[:3], 1).ravel() == np.arange(3)).all()


@pytest.mark.parametrize("copies", [False, True])
def test_rows_of_a_few_columns_have_the_others_that_are_nearest(copies):
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((1300, 8))
    if copies:
        rows[100:130] = rows[0]  # more than are asked for
    assert graphs._has_quick_products(rows, None, 7)
    found = graphs.nearest(rows, None, 7)
    distances = cdist(rows, rows)
    np.fill_diagonal(distances, np.inf)
    assert not (found == np.arange(1300)[:, None]).any()
    near = np.take_along_axis(distances, found, axis=1)
    np.testing.assert_allclose(near, np.sort(distances, axis=1)[:, :7], rtol=1e-7, atol=1e-7)
