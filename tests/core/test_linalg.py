from __future__ import annotations

import numpy as np
import pytest

from atoll.core import linalg
from atoll.core.graphs import smoothest_modes
from atoll.core.linalg import (
    MANY_ROWS,
    MANY_VALUES,
    cholesky_inverse,
    cholesky_log_det,
    cholesky_solve,
    eigenvectors,
    half_through_cholesky,
    jittered_cholesky,
    lower_times,
    remove_rows,
    solve_lower,
    subtract_square,
)


def positive_definite(n, seed):
    A = np.random.default_rng(seed).normal(size=(n, n + 3))
    return A @ A.T


def test_a_well_conditioned_matrix_needs_no_jitter():
    A = positive_definite(12, 0)
    lower, jitter = jittered_cholesky(A)
    assert jitter == 0.0
    np.testing.assert_allclose(lower, np.linalg.cholesky(A), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_jitter_is_relative_to_the_mean_diagonal_and_is_returned(scale):
    X = np.repeat(np.random.default_rng(1).normal(size=(5, 3)), 4, axis=0)
    A = scale * X @ X.T
    lower, jitter = jittered_cholesky(A)
    assert 0 < jitter <= 1e-8 * np.mean(np.diag(A))
    np.testing.assert_allclose(lower @ lower.T, A + jitter * np.eye(20), atol=1e-12 * scale * 20)


def test_an_indefinite_matrix_is_refused_with_its_eigenvalue():
    with pytest.raises(ValueError, match="smallest eigenvalue is -1"):
        jittered_cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_nan_is_refused():
    with pytest.raises(ValueError, match="NaN or infinity"):
        jittered_cholesky(np.array([[np.nan]]))


def test_solves_inverse_and_log_determinant():
    A = positive_definite(9, 2)
    b = np.random.default_rng(3).normal(size=(9, 2))
    lower = jittered_cholesky(A).lower
    np.testing.assert_allclose(A @ cholesky_solve(lower, b), b, atol=1e-9)
    np.testing.assert_allclose(lower @ solve_lower(lower, b), b, atol=1e-10)
    np.testing.assert_allclose(lower.T @ solve_lower(lower, b, transposed=True), b, atol=1e-10)
    np.testing.assert_allclose(cholesky_inverse(lower), np.linalg.inv(A), rtol=1e-7)
    assert cholesky_log_det(lower) == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)


def test_nothing_has_an_inverse_without_a_word_on_the_terminal(capfd):
    assert cholesky_inverse(np.zeros((0, 0))).shape == (0, 0)
    assert capfd.readouterr() == ("", "")


ORDERS = [np.ascontiguousarray, np.asfortranarray]


@pytest.mark.parametrize("store", ORDERS)
@pytest.mark.parametrize("store_right", ORDERS)
def test_the_order_in_which_arrays_are_stored_does_not_matter(store, store_right):
    A = positive_definite(9, 7)
    lower = jittered_cholesky(store(A)).lower
    np.testing.assert_allclose(lower, np.linalg.cholesky(A), atol=1e-12)
    right = store_right(np.random.default_rng(8).normal(size=(9, 4)))
    lower = store(lower)
    np.testing.assert_allclose(lower @ solve_lower(lower, right), right, atol=1e-10)
    np.testing.assert_allclose(
        lower.T @ solve_lower(lower, right, transposed=True), right, atol=1e-10
    )
    square = store(np.eye(4))
    subtract_square(square, right)
    np.testing.assert_allclose(np.tril(square), np.tril(np.eye(4) - right.T @ right), atol=1e-12)


@pytest.mark.parametrize("store", ORDERS)
@pytest.mark.parametrize(("n", "m"), [(3, 2), (MANY_ROWS + 1, 2), (8, MANY_VALUES // 8)])
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_a_triangular_product_is_the_product(store, n, m, precision):
    rng = np.random.default_rng(9)
    lower = store(np.tril(rng.normal(size=(n, n))).astype(precision))
    right = rng.normal(size=(n, m)).astype(precision)
    close = {"atol": 1e-9} if precision == np.float64 else {"atol": 1e-3}
    np.testing.assert_allclose(lower_times(lower, right), lower @ right, **close)
    np.testing.assert_allclose(lower_times(lower, right, transposed=True), lower.T @ right, **close)


@pytest.mark.parametrize("store", ORDERS)
def test_a_singular_factor_is_refused(store):
    with pytest.raises(ValueError, match="its entry 1 is zero"):
        solve_lower(np.diag([1.0, 0.0, 2.0]), store(np.ones((3, 2))))


@pytest.mark.parametrize("removed", [[], [0], [7], [2, 5], [0, 1, 2, 3, 4, 5, 6], [3, 3]])
def test_removing_rows_equals_factoring_what_is_left(removed):
    A = positive_definite(8, 5)
    shrunk = remove_rows(np.linalg.cholesky(A), np.array(removed, dtype=int))
    left = np.delete(np.arange(8), removed)
    np.testing.assert_allclose(shrunk, np.linalg.cholesky(A[np.ix_(left, left)]), atol=1e-10)


def test_rows_to_remove_may_be_a_mask():
    A = positive_definite(6, 6)
    mask = np.array([True, False, False, True, False, False])
    np.testing.assert_allclose(
        remove_rows(np.linalg.cholesky(A), mask),
        remove_rows(np.linalg.cholesky(A), np.flatnonzero(mask)),
    )


@pytest.mark.parametrize("n_functions", [1, 3])
def test_the_gradient_through_a_factor_meets_differences(n_functions):
    rng = np.random.default_rng(5)
    half, nu, weights = (rng.normal(size=(6, m)) for m in (9, n_functions, n_functions))
    A = half @ half.T

    def value(matrix):
        return float(np.sum(weights * np.sin(np.linalg.cholesky(matrix) @ nu)))

    lower = np.linalg.cholesky(A)
    gradient = half_through_cholesky(lower, lower.T @ (weights * np.cos(lower @ nu)), nu)
    for _ in range(10):
        direction = rng.normal(size=(6, 6))
        direction += direction.T
        slope = (value(A + 1e-6 * direction) - value(A - 1e-6 * direction)) / 2e-6
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.fixture
def without_parts_of_spectra(monkeypatch):
    """LAPACK as it is on some processors: its routine for a part of a spectrum gives up."""
    whole = linalg.eigh

    def eigh(matrix, subset_by_index=None, **options):
        if subset_by_index is not None:
            raise np.linalg.LinAlgError("Internal Error.")
        return whole(matrix, **options)

    monkeypatch.setattr(linalg, "eigh", eigh)


def test_a_part_of_a_spectrum_is_found_where_lapacks_own_routine_gives_up(without_parts_of_spectra):
    A = positive_definite(9, 8)
    values, vectors = eigenvectors(A, 2, 5)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[2:6], rtol=1e-10)
    np.testing.assert_allclose(A @ vectors, values * vectors, atol=1e-10)
    pairs = np.kron(np.eye(6), [[0.0, 1.0], [1.0, 0.0]])  # a graph of six pairs
    modes = smoothest_modes(pairs, 7)
    np.testing.assert_allclose(modes.values, [0.0] * 5 + [2.0] * 2, atol=1e-12)


@pytest.mark.parametrize("n", [1, 5, 149, 150, 331])
def test_the_rounded_inverse_is_the_inverse_to_single_precision(n):
    rng = np.random.default_rng(n)
    root = rng.standard_normal((n, n))
    lower = np.linalg.cholesky(root @ root.T + n * np.eye(n))
    found = linalg.rounded_inverse(np.asfortranarray(lower, dtype=np.float32))
    assert found.dtype == np.float32
    exact = np.linalg.inv(lower @ lower.T)
    np.testing.assert_allclose(found, exact, atol=2e-6 * np.abs(exact).max())
    np.testing.assert_array_equal(found, found.T)
