from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from atoll.core import rows
from atoll.core.graphs import nearest, neighbour_graph
from atoll.core.selection import some_rows


def thin(rng, n=30, d=40, share=0.2):
    """Dense rows, most of whose numbers are zero."""
    return np.where(rng.random((n, d)) < share, rng.normal(size=(n, d)), 0.0)


def as_sparse(X):
    return sparse.csr_array(X)


@pytest.mark.parametrize("kind", [np.asarray, as_sparse])
def test_sparse_rows_have_the_products_and_distances_of_dense_ones(kind):
    rng = np.random.default_rng(0)
    X, Y = thin(rng), thin(rng, n=7)
    np.testing.assert_allclose(rows.products(kind(X), kind(Y)), X @ Y.T, atol=1e-12)
    found = rows.squared_distances(kind(X), kind(Y))
    np.testing.assert_allclose(found, cdist(X, Y, "sqeuclidean"), atol=1e-12)
    np.testing.assert_allclose(rows.row_squares(kind(X)), np.sum(X**2, axis=1), atol=1e-12)
    first, second = rng.integers(30, size=50), rng.integers(7, size=50)
    pairs = rows.distances_of_pairs(kind(X), first, kind(Y), second)
    np.testing.assert_allclose(pairs, np.linalg.norm(X[first] - Y[second], axis=1), atol=1e-12)
    assert np.all(rows.distances_of_pairs(kind(X), first, kind(X), first) == 0.0)


@pytest.mark.parametrize("kind", [np.asarray, as_sparse])
@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_unit_rows_have_length_one_whatever_they_had(kind, unit):
    X = thin(np.random.default_rng(1))
    X[3] = 0.0
    found = rows.unit_rows(kind(unit * X))
    lengths = np.ones(30)
    lengths[3] = 0.0
    np.testing.assert_allclose(np.sqrt(rows.row_squares(found)), lengths, rtol=1e-12)
    assert rows.has_direction(found).tolist() == (lengths > 0).tolist()


def test_single_precision_stays_single():
    X = thin(np.random.default_rng(2)).astype(np.float32)
    assert rows.unit_rows(X).dtype == rows.unit_rows(as_sparse(X)).dtype == np.float32
    assert rows.rescaled_alike(X, np.zeros(40), np.full(40, 2.0)).dtype == np.float32
    mean, deviation = rows.mean_and_deviation(X)
    np.testing.assert_allclose(mean, X.astype(float).mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(deviation, X.astype(float).std(axis=0), rtol=1e-6)
    assert rows.stacked(X, np.zeros((1, 40))).dtype == np.float32


def test_the_nearest_of_sparse_rows_are_those_of_dense_ones(monkeypatch):
    monkeypatch.setattr("atoll.core.graphs._PRODUCTS_AT_ONCE", 70)  # several pieces
    rng = np.random.default_rng(3)
    X, Y = thin(rng), thin(rng, n=9)
    np.testing.assert_array_equal(nearest(as_sparse(X), as_sparse(Y), 4), nearest(X, Y, 4))
    np.testing.assert_array_equal(nearest(as_sparse(X), None, 4), nearest(X, None, 4))
    dense, found = neighbour_graph(X, 5), neighbour_graph(as_sparse(X), 5)
    np.testing.assert_allclose(found.distances.toarray(), dense.distances.toarray(), atol=1e-12)
    single = neighbour_graph(X.astype(np.float32), 5)
    np.testing.assert_allclose(single.distances.toarray(), dense.distances.toarray(), atol=1e-5)


def test_copies_of_sparse_rows_are_found_whatever_is_stored():
    X = as_sparse(np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
    stored = sparse.csr_array((np.zeros(1), ([3], [0])), shape=(4, 2)) + X  # a zero among them
    found, place = rows.distinct_sparse_rows(stored)
    np.testing.assert_array_equal(found.toarray(), [[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]])
    assert place.tolist() == [0, 1, 0, 2]


def test_huge_numbers_are_clipped_in_a_copy():
    X = as_sparse(np.array([[1e200, -1e200, 1.0]]))
    np.testing.assert_array_equal(rows.clipped(X, 1e60).toarray(), [[1e60, -1e60, 1.0]])
    assert X.max() == 1e200


def test_zeros_that_are_stored_make_no_other_row():
    X = sparse.csr_array((np.array([2.0, 0.0, 2.0]), ([0, 0, 1], [0, 1, 0])), shape=(2, 2))
    found, place = rows.distinct_sparse_rows(X)
    assert found.toarray().tolist() == [[2.0, 0.0]]
    assert place.tolist() == [0, 0]


class Frame:
    """Rows as polars has them: by a list of places, never by an array."""

    shape = (3, 1)

    def __getitem__(self, places):
        assert isinstance(places, list)
        return [f"row {place}" for place in places]

    def to_numpy(self):
        raise AssertionError("no copy is wanted")


def test_some_rows_of_a_frame_are_asked_for_by_their_places():
    assert some_rows(Frame(), np.array([False, True, True])) == ["row 1", "row 2"]


def test_a_row_of_one_number_takes_one():
    assert rows.width(np.zeros((4, 1))) == 1
    assert rows.width(np.zeros((4, 0))) == 1
