"""Cholesky factors that do not fail, and what Gaussian processes do with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

Array = NDArray[np.float64]

# Relative to the mean of the diagonal; tried in turn where the matrix as it is does not factor.
JITTER_LADDER = tuple(10.0**exponent for exponent in range(-10, -2))


class Factor(NamedTuple):
    """A lower Cholesky factor: lower @ lower.T = matrix + jitter * I.

    lower : (n, n), zero above the diagonal
    jitter : what was added to the diagonal, absolute; 0.0 where none was needed
    """

    lower: Array
    jitter: float


def jittered_cholesky(matrix: Array) -> Factor:
    """Factor a symmetric matrix that is positive semi-definite up to rounding.

    Jitter is tried from a ladder relative to the mean of the diagonal: none, 1e-10, 1e-9, … 1e-3.
    The jitter used is returned, to be reported.

    Parameters
    ----------
    matrix : (n, n), of which the lower triangle is read

    Examples
    --------
    >>> twins = np.ones((2, 2))              # two copies of one row
    >>> lower, jitter = jittered_cholesky(twins)
    >>> bool(np.allclose(lower @ lower.T, twins, atol=1e-9)), jitter
    (True, 1e-10)
    """
    lower, info = lapack.dpotrf(matrix, lower=1, clean=1)
    if info == 0 and np.isfinite(np.diagonal(lower).sum()):
        return Factor(lower, 0.0)
    if not np.isfinite(matrix).all():
        raise ValueError(
            "the kernel matrix holds NaN or infinity; check the kernel's parameters and the scale "
            "of the features."
        )
    scale = float(np.mean(np.diagonal(matrix)))
    for relative in JITTER_LADDER:
        jitter = relative * scale
        lower, info = lapack.dpotrf(matrix + jitter * np.eye(len(matrix)), lower=1, clean=1)
        if info == 0:
            return Factor(lower, jitter)
    raise ValueError(
        f"the kernel matrix ({len(matrix)} rows) is not positive semi-definite, even with "
        f"{JITTER_LADDER[-1]:g} of its mean diagonal added: its smallest eigenvalue is "
        f"{np.linalg.eigvalsh(matrix)[0]:.3g}. Use a kernel that is positive semi-definite."
    )


# LAPACK is called directly: SciPy's wrappers cost more than the work on a few dozen rows.


def solve_lower(lower: Array, right: Array, *, transposed: bool = False) -> Array:
    """L^{-1} right, or L^{-T} right; right (n,) or (n, m)."""
    if len(lower) == 0 or right.size == 0:
        return np.zeros_like(right)
    solution, info = lapack.dtrtrs(lower, right, lower=1, trans=int(transposed))
    if info > 0:
        raise ValueError(f"the triangular factor is singular: its entry {info - 1} is zero.")
    return solution


def cholesky_solve(lower: Array, right: Array) -> Array:
    """(L Lᵀ)^{-1} right; right (n,) or (n, m)."""
    return lapack.dpotrs(lower, right, lower=1)[0]


def cholesky_inverse(lower: Array) -> Array:
    """(L Lᵀ)^{-1} in full, symmetric, (n, n)."""
    half, _ = lapack.dpotri(lower, lower=1)  # its lower triangle; above it, zeros of `lower`
    inverse = half + half.T
    inverse[np.diag_indices_from(inverse)] *= 0.5
    return inverse


def cholesky_log_det(lower: Array) -> float:
    """log det(L Lᵀ)."""
    return 2.0 * float(np.log(np.diagonal(lower)).sum())


def subtract_square(matrix: Array, right: Array) -> None:
    """matrix −= rightᵀ right in place, its lower triangle alone; matrix (m, m), right (n, m).

    Half of the work of a product, for what is then factored.

    Examples
    --------
    >>> A = np.eye(2)
    >>> subtract_square(A, np.array([[0.6, 0.0]]))
    >>> A
    array([[0.64, 0.  ],
           [0.  , 1.  ]])
    """
    if right.size > 0:
        matrix -= blas.dsyrk(1.0, right, trans=1, lower=1)


def append_rows(lower: Array, cross: Array, corner: Array) -> Factor:
    """Extend a factor of A to a factor of [[A, cross], [crossᵀ, corner]].

    The cost is O(n² m + m³) for m new rows, against O((n + m)³) from scratch.

    Parameters
    ----------
    lower : (n, n) factor of A
    cross : (n, m) covariances of old rows with new ones
    corner : (m, m) covariances of the new rows

    Examples
    --------
    >>> A = np.array([[4.0, 2.0, 1.0], [2.0, 3.0, 0.5], [1.0, 0.5, 2.0]])
    >>> grown = append_rows(jittered_cholesky(A[:1, :1]).lower, A[:1, 1:], A[1:, 1:])
    >>> bool(np.allclose(grown.lower, np.linalg.cholesky(A)))
    True
    """
    bridge = solve_lower(lower, cross)
    schur = jittered_cholesky(corner - bridge.T @ bridge)
    return Factor(bordered_factor(lower, bridge, schur.lower), schur.jitter)


def bordered_factor(lower: Array, bridge: Array, corner: Array) -> Array:
    """[[lower, 0], [bridgeᵀ, corner]]; lower (n, n), bridge (n, m), corner (m, m) triangular."""
    n, m = bridge.shape
    grown = np.zeros((n + m, n + m))
    grown[:n, :n] = lower
    grown[n:, :n] = bridge.T
    grown[n:, n:] = corner
    return grown


def remove_rows(lower: Array, removed: NDArray[np.integer] | NDArray[np.bool_]) -> Array:
    """The factor of A without some of its rows and columns.

    With S the rows of L that stay, A_SS = S Sᵀ. Rows above the first removed one keep their
    factor; the rest is made triangular again by a QR decomposition.

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
    # QR leaves the signs of the diagonal free; a Cholesky factor's are positive.
    signs = np.where(np.diagonal(upper) < 0, -1.0, 1.0)
    shrunk = np.zeros((len(kept), len(kept)))
    shrunk[:, :first] = kept[:, :first]
    shrunk[first:, first:] = (upper * signs[:, None]).T
    return shrunk
