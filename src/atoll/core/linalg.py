"""Cholesky factors that survive rounding errors, and what Gaussian processes do with them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, blas, eigh, lapack

Array = NDArray[np.float64]

# Jitters relative to the mean of the diagonal, tried in turn if the matrix itself has no factor.
JITTER_LADDER = tuple(10.0**exponent for exponent in range(-10, -2))

MANY_ROWS, MANY_VALUES = 400, 2**12  # from these on, BLAS's triangular product is faster
MANY_TO_HALVE = 150  # rows of a factor from which on it is inverted half by half


class Factor(NamedTuple):
    """A lower Cholesky factor: lower @ lower.T = matrix + jitter * I.

    lower : (n, n), zero above the diagonal
    jitter : the absolute amount added to the diagonal; 0.0 if none was needed
    """

    lower: Array
    jitter: float


def jittered_cholesky(matrix: Array) -> Factor:
    """Factor a symmetric matrix that is positive semi-definite up to rounding.

    The matrix is tried as it is, then with a jitter of 1e-10, 1e-9, … 1e-3 times the mean of its
    diagonal. The jitter used is returned so that it can be reported.

    Parameters
    ----------
    matrix : (n, n); only its lower triangle is factored

    Examples
    --------
    >>> twins = np.ones((2, 2))              # two copies of one row
    >>> lower, jitter = jittered_cholesky(twins)
    >>> bool(np.allclose(lower @ lower.T, twins, atol=1e-9)), jitter
    (True, 1e-10)
    """
    lower, info = _potrf(matrix)
    if info == 0 and math.isfinite(np.einsum("ii->", lower)):
        return Factor(lower, 0.0)
    if not np.isfinite(matrix).all():
        raise ValueError(
            "the kernel matrix holds NaN or infinity; check the kernel's parameters and the scale "
            "of the features."
        )
    scale = float(np.mean(np.diagonal(matrix)))
    for relative in JITTER_LADDER:
        jitter = relative * scale
        lower, info = _potrf(matrix + jitter * np.eye(len(matrix)))
        if info == 0:
            return Factor(lower, jitter)
    raise ValueError(
        f"the kernel matrix ({len(matrix)} rows) is not positive semi-definite, even with "
        f"{JITTER_LADDER[-1]:g} of its mean diagonal added: its smallest eigenvalue is "
        f"{np.linalg.eigvalsh(matrix)[0]:.3g}. Use a kernel that is positive semi-definite."
    )


# LAPACK is called directly: on a few dozen rows, SciPy's wrappers cost more than the work itself.
# LAPACK stores matrices by columns; one stored by rows is passed as its transpose, so that nothing
# is copied.


def _potrf(matrix: Array) -> tuple[Array, int]:
    """Return a lower factor, in the matrix's memory order, and LAPACK's status (0 is success)."""
    if matrix.flags.f_contiguous:
        lower, info = lapack.dpotrf(matrix, lower=1, clean=1)
        return lower, info
    upper, info = lapack.dpotrf(matrix.T, lower=0, clean=1)
    return upper.T, info


def solve_lower(lower: Array, right: Array, *, transposed: bool = False) -> Array:
    """Return L^{-1} right, or L^{-T} right if `transposed`; right (n,) or (n, m)."""
    if len(lower) == 0 or right.size == 0:
        return np.zeros_like(right)
    by_columns = lower.flags.f_contiguous
    A = lower if by_columns else lower.T
    turned = transposed if by_columns else not transposed
    if right.ndim == 2 and not right.flags.f_contiguous and np.diagonal(lower).all():
        # Solve L X = right as Xᵀ Lᵀ = rightᵀ.
        return blas.dtrsm(1.0, A, right.T, side=1, lower=by_columns, trans_a=not turned).T
    solution, info = lapack.dtrtrs(A, right, lower=by_columns, trans=turned)
    if info > 0:
        raise ValueError(f"the triangular factor is singular: its entry {info - 1} is zero.")
    return solution


def lower_times(lower: Array, right: Array, *, transposed: bool = False) -> Array:
    """Return L right, or Lᵀ right if `transposed`; right (n, m).

    Where there is much to do the zeros of L are skipped, which saves a third of the time or more.
    """
    if len(lower) < MANY_ROWS and right.size < MANY_VALUES:
        return lower.T @ right if transposed else lower @ right
    by_columns = lower.flags.f_contiguous
    A = lower if by_columns else lower.T
    turned = transposed if by_columns else not transposed
    product = blas.strmm if lower.dtype == np.float32 else blas.dtrmm
    return product(1.0, A, right, lower=by_columns, trans_a=turned)


def cholesky_solve(lower: Array, right: Array) -> Array:
    """Return (L Lᵀ)^{-1} right; right (n,) or (n, m)."""
    return lapack.dpotrs(lower, right, lower=1)[0]


def cholesky_inverse(lower: Array) -> Array:
    """Return (L Lᵀ)^{-1} in full, symmetric, (n, n)."""
    half = lower_of_inverse(lower)
    inverse = half + half.T
    inverse.reshape(-1)[:: len(inverse) + 1] *= 0.5
    return inverse


def lower_of_inverse(lower: Array) -> Array:
    """Return the lower triangle of (L Lᵀ)^{-1}, with zeros above it, (n, n)."""
    if len(lower) == 0:  # LAPACK would complain, on the terminal
        return np.zeros((0, 0))
    half, _ = lapack.dpotri(lower, lower=1)
    return half  # above the diagonal are the zeros of `lower`


def cholesky_log_det(lower: Array) -> float:
    """Return log det(L Lᵀ)."""
    return 2.0 * float(np.log(np.diagonal(lower)).sum())


def half_through_cholesky(
    lower: NDArray[Any], slope: NDArray[Any], whitened: NDArray[Any]
) -> NDArray[Any]:
    """Return a matrix whose symmetric part is the gradient in A = L Lᵀ of a function of u = L ν.

    Reverse-mode differentiation of the factor (Murray 2016) gives L^{-T} Φ(Lᵀ ∂/∂u νᵀ) L^{-1},
    (n, n), where Φ keeps the lower triangle and half of the diagonal. The work is that of about
    five factorisations. If all arguments are float32, so is the result.

    Parameters
    ----------
    lower : (n, n) L
    slope : (n, K) gradient with respect to ν, which is Lᵀ times that with respect to u
    whitened : (n, K) ν

    Examples
    --------
    >>> lower = np.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 3.0]]))
    >>> nu = np.array([[1.0], [0.5]])
    >>> half = half_through_cholesky(lower, lower.T @ np.ones((2, 1)), nu)  # of u_1 + u_2
    >>> 0.5 * (half + half.T)
    array([[0.16919417, 0.16161165],
           [0.16161165, 0.1767767 ]])
    """
    triangle = np.tril(slope @ whitened.T)
    np.einsum("ii->i", triangle)[:] *= 0.5
    half = _times_inverse(triangle.T, lower)
    return _times_inverse(np.asfortranarray(half.T), lower)


def rounded_inverse(lower: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (L Lᵀ)^{-1} in full, symmetric, in float32; L by columns, (n, n).

    Examples
    --------
    >>> rounded_inverse(np.asfortranarray([[2.0, 0.0], [0.0, 4.0]], dtype=np.float32))
    array([[0.25  , 0.    ],
           [0.    , 0.0625]], dtype=float32)
    """
    inverse = _inverse_of_lower(lower)
    return inverse.T @ inverse


def _inverse_of_lower(lower: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return L^{-1}, by columns. Of many rows, half by half: products are quicker than solves."""
    n = len(lower)
    half = n // 2
    if n < MANY_TO_HALVE:
        return _times_inverse(np.eye(n, dtype=np.float32, order="F"), lower)
    inverse = np.zeros((n, n), dtype=np.float32, order="F")
    for part in (slice(0, half), slice(half, n)):
        inverse[part, part] = _inverse_of_lower(np.asfortranarray(lower[part, part]))
    across = inverse[half:, half:] @ lower[half:, :half]
    inverse[half:, :half] = -(across @ inverse[:half, :half])
    return inverse


def _times_inverse(left: NDArray[Any], lower: NDArray[Any]) -> NDArray[Any]:
    """Return left L^{-1}, by columns; left (m, n), by columns too. BLAS is slower from the left."""
    by_columns = lower.flags.f_contiguous
    solve = blas.strsm if lower.dtype == np.float32 else blas.dtrsm
    A = lower if by_columns else lower.T
    return solve(1.0, A, left, side=1, lower=by_columns, trans_a=not by_columns)


def subtract_square(matrix: Array, right: Array) -> None:
    """Subtract rightᵀ right in place from a matrix's lower triangle; matrix (m, m), right (n, m).

    This takes half the work of a full product and is enough for a matrix to be factored.

    Examples
    --------
    >>> A = np.eye(2)
    >>> subtract_square(A, np.array([[0.6, 0.0]]))
    >>> A
    array([[0.64, 0.  ],
           [0.  , 1.  ]])
    """
    if right.size == 0:
        return
    A, turned = (right, 1) if right.flags.f_contiguous else (right.T, 0)
    if matrix.flags.c_contiguous:
        blas.dsyrk(-1.0, A, beta=1.0, c=matrix.T, trans=turned, lower=0, overwrite_c=1)
    elif matrix.flags.f_contiguous:
        blas.dsyrk(-1.0, A, beta=1.0, c=matrix, trans=turned, lower=1, overwrite_c=1)
    else:
        matrix -= blas.dsyrk(1.0, A, trans=turned, lower=1)


def bordered_factor(lower: Array, bridge: Array, corner: Array) -> Array:
    """Return [[lower, 0], [bridge, corner]]; lower (n, n), bridge (m, n), corner (m, m) lower."""
    m, n = bridge.shape
    grown = np.zeros((n + m, n + m))
    grown[:n, :n] = lower
    grown[n:, :n] = bridge
    grown[n:, n:] = corner
    return grown


def remove_rows(lower: Array, removed: NDArray[np.integer] | NDArray[np.bool_]) -> Array:
    """Return the factor of A without some of its rows and columns.

    If S holds the rows of L that stay, A without the others is S Sᵀ. Rows of S above the first
    removed one need no change; the rest are made triangular again by a QR decomposition.

    Parameters
    ----------
    lower : (n, n) factor of A
    removed : row numbers, or a mask (n,)

    Examples
    --------
    >>> A = np.array([[4.0, 2.0, 1.0], [2.0, 3.0, 0.5], [1.0, 0.5, 2.0]])
    >>> shrunk = remove_rows(np.linalg.cholesky(A), np.array([1]))
    >>> bool(np.allclose(shrunk, np.linalg.cholesky(A[np.ix_([0, 2], [0, 2])])))
    True
    """
    removed_rows = np.unique(np.arange(len(lower))[removed])
    kept = np.delete(lower, removed_rows, axis=0)
    if len(removed_rows) == 0:
        return kept
    first = int(removed_rows[0])
    tail = kept[first:, first:]
    upper = np.asarray(np.linalg.qr(tail.T, mode="r"))[: len(tail)]
    # QR leaves the signs of the diagonal free; those of a Cholesky factor are positive.
    signs = np.where(np.diagonal(upper) < 0, -1.0, 1.0)
    shrunk = np.zeros((len(kept), len(kept)))
    shrunk[:, :first] = kept[:, :first]
    shrunk[first:, first:] = (upper * signs[:, None]).T
    return shrunk


def eigenvectors(matrix: Array, first: int, last: int) -> tuple[Array, Array]:
    """Return some eigenvalues of a symmetric matrix, in rising order, and their vectors.

    LAPACK's routine for a part of the spectrum, the quickest, gives up now and then where many
    eigenvalues are equal, such as those of a graph of pairs. Its routine for all of them does not.

    Parameters
    ----------
    matrix : (n, n)
    first, last : the numbers, from 0, of the lowest and highest that are wanted

    Returns
    -------
    values, vectors : (m,) and (n, m)

    Examples
    --------
    >>> values, vectors = eigenvectors(np.diag([3.0, 1.0, 2.0]), 0, 1)
    >>> values
    array([1., 2.])
    """
    try:
        values, vectors = eigh(matrix, subset_by_index=(first, last))
    except LinAlgError:
        values, vectors = eigh(matrix, driver="evd")
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    return values, vectors
