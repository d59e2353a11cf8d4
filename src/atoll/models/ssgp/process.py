"""The process told of the geometry, as the labelled rows see it (section 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from atoll.core.linalg import cholesky_inverse, cholesky_log_det, solve_lower
from atoll.kernels.graph_warped import Geometry, GraphWarpedKernel, penalty_factor
from atoll.kernels.hyperparameters import (
    KernelPrior,
    gram_gradient_function,
    kernel_prior,
    slopes_of,
)

Array = NDArray[np.float64]

# The paper's grid, section 4. σ is in units of a typical length of a row.
LENGTH_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
AMBIENT_WEIGHTS = (1e-6, 1e-4, 1e-2, 1.0, 100.0)
RATIOS = (0.0, 1.0, 10.0, 100.0, 1000.0)


def base_kernel(kernel: str | Kernel, X: Array) -> Kernel:
    """Return K: a kernel as it is given, or an RBF whose length-scale is σ_0 of the centred rows.

    Parameters
    ----------
    kernel : "isotropic", "ard" or a scikit-learn kernel
    X : (n, d) all rows
    """
    given = kernel_prior(kernel, X).kernel
    if isinstance(kernel, Kernel):
        return given
    length = np.sqrt(2.0) * given.k2.length_scale
    return RBF(length, (1e-3 * np.min(length), 1e3 * np.max(length)))


class BaseGram(NamedTuple):
    """The base kernel on all rows, at one value of its parameters.

    gram : (n, n) K
    projected : (m, n) R K
    squared : (m, m) R K Rᵀ
    """

    gram: Array
    projected: Array
    squared: Array


class Warp(NamedTuple):
    """The process told of the geometry, as the labelled rows see it.

    gram : (l, l) K̃_LL
    explained : (m, l) t of the labelled rows, K̃_LL = K_LL − tᵀt
    pull : (n, l) A = (I + MK)^{-1} M K_DL, so that K̃(X_L, x) = K(X_L, x) − Aᵀ K(D, x)
    lower : (m, m) factor of B, det B = det(I + MK); None for a ratio of zero
    """

    gram: Array
    explained: Array
    pull: Array
    lower: Array | None

    @property
    def log_det(self) -> float:
        """log det(I + M K)."""
        return 0.0 if self.lower is None else cholesky_log_det(self.lower)


class Problem:
    """A base kernel on a geometry: Gram matrices and their gradients, distances found once.

    Parameters
    ----------
    base : kernel whose free log-parameters are to be found
    geometry : of all rows
    """

    def __init__(self, base: Kernel, geometry: Geometry):
        self.base = base
        self.geometry = geometry
        self._squared: Array | None = None
        self._contract: Callable[[Array, Array, Array], Array] | None = None
        free = type(base) is RBF and not base.hyperparameter_length_scale.fixed
        if free and base.anisotropic is False:
            self._squared = squareform(pdist(geometry.rows, "sqeuclidean"))
        if free:
            scaled = ConstantKernel(1.0) * base
            p = 1 + base.n_dims
            prior = KernelPrior(scaled, ("",) * p, np.zeros(p), np.ones(p), 0)
            self._contract = gram_gradient_function(prior, geometry.rows)

    def kernel_at(self, log_parameters: Array) -> Kernel:
        """Return the base kernel at the first of the log-parameters."""
        return self.base.clone_with_theta(log_parameters[: self.base.n_dims])

    def warped_kernel_at(self, log_parameters: Array) -> GraphWarpedKernel:
        """Return K̃ there, with a fixed ratio."""
        ratio = float(np.exp(log_parameters[-1]))
        return GraphWarpedKernel(self.kernel_at(log_parameters), self.geometry, ratio, "fixed")

    def gram(self, log_parameters: Array) -> Array:
        """Return K(D, D)."""
        if self._squared is None:
            return self.kernel_at(log_parameters)(self.geometry.rows)
        return np.exp(self._squared * (-0.5 * np.exp(-2.0 * log_parameters[0])))

    def base_gram(self, log_parameters: Array) -> BaseGram:
        """Return everything that does not change with the ratio."""
        K = self.gram(log_parameters)
        projected = self.geometry.project(K)
        return BaseGram(K, projected, self.geometry.project(projected.T))

    def gradient(self, log_parameters: Array, K: Array, weights: Array) -> Array:
        """Return Σ_ij weights_ij ∂K_ij/∂θ; weights (n, n) symmetric -> (p,)."""
        if self.base.n_dims == 0:
            return np.zeros(0)
        theta = log_parameters[: self.base.n_dims]
        if self._contract is not None:
            return self._contract(np.append(0.0, theta), K, weights)[1:]
        slopes = slopes_of(self.base.clone_with_theta(theta), self.geometry.rows)
        return np.einsum("ij,ijk->k", weights, slopes)


def warp(base: BaseGram, geometry: Geometry, ratio: float, rows: NDArray[np.intp]) -> Warp:
    """Return K̃ at some of the rows, and what its gradient needs, by one Cholesky factor."""
    K_LL = base.gram[np.ix_(rows, rows)]
    if ratio == 0:
        return Warp(
            K_LL,
            np.zeros((len(base.projected), len(rows))),
            np.zeros((len(base.gram), len(rows))),
            None,
        )
    lower = penalty_factor(base.squared, ratio)
    t = solve_lower(lower, np.sqrt(ratio) * base.projected[:, rows])
    pull = np.sqrt(ratio) * geometry.spread(solve_lower(lower, t, transposed=True))
    return Warp(K_LL - t.T @ t, t, pull, lower)


def through_warp(
    problem: Problem,
    log_parameters: Array,
    base: BaseGram,
    w: Warp,
    rows: NDArray[np.intp],
    by_gram: Array,
    full: bool = False,
) -> tuple[Array, float]:
    """Turn a gradient by K̃_LL into those by the base kernel's log-parameters and the log ratio.

    With a = P k: dK̃ = dK_LL − aᵀ dK_DL − dK_LD a + aᵀ dK_DD a, and by log r it is aᵀKa − tᵀt.
    `full` adds the gradient of −½ log det(I + MK).
    """
    K, A, t = base.gram, w.pull, w.explained
    by_ratio = float(np.sum(by_gram * (A.T @ (K @ A) - t.T @ t)))
    pulled = A @ by_gram
    weights = pulled @ A.T
    weights[:, rows] -= pulled
    weights[rows] -= pulled.T
    weights[np.ix_(rows, rows)] += by_gram
    if full and w.lower is not None:
        B_inverse = cholesky_inverse(w.lower)
        by_ratio -= 0.5 * (len(B_inverse) - float(np.trace(B_inverse)))
        spread = problem.geometry.spread(problem.geometry.spread(B_inverse).T)
        weights -= 0.5 * np.exp(log_parameters[problem.base.n_dims + 1]) * spread
    return problem.gradient(log_parameters, K, weights), by_ratio


def base_grid(base: Kernel, factors: Sequence[float]) -> list[Array]:
    """Return the base kernel's log-parameters with every free length-scale multiplied."""
    is_length = np.concatenate(
        [
            np.full(h.n_elements, h.name.endswith("length_scale"))
            for h in base.hyperparameters
            if not h.fixed
        ]
        or [np.zeros(0, dtype=bool)]
    )
    if not is_length.any():
        return [np.array(base.theta, dtype=float)]
    return [base.theta + np.where(is_length, np.log(factor), 0.0) for factor in factors]


def warped_grams(problem: Problem, rows: NDArray[np.intp]) -> Iterator[tuple[Array, float, Array]]:
    """Yield the base kernel's log-parameters, the ratio and K̃ at some rows, over the grid."""
    for theta in base_grid(problem.base, LENGTH_FACTORS):
        base = problem.base_gram(theta)
        for ratio in RATIOS:
            yield theta, ratio, warp(base, problem.geometry, ratio, rows).gram
