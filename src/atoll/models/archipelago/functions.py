"""The functions (section 2.1): K Gaussian processes, known at some rows.

    u_k ~ GP(0, C(θ_k))        g(x) = A u(x)        u = L ν at the known rows,  L Lᵀ = C

One kernel C(θ) serves all functions, or each function has its own; F counts kernels, 1 or K. A is
the identity, unless functions are `dependent` (section 5.2): then g mixes the independent u.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from atoll.core.densities import Density, NormalInverseWishart
from atoll.core.linalg import (
    Factor,
    bordered_factor,
    jittered_cholesky,
    lower_times,
    solve_lower,
    subtract_square,
)
from atoll.kernels.hyperparameters import (
    NUGGET,
    KernelPrior,
    cross_gram_function,
    gram_function,
    kernel_prior,
    mean_variance,
)

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MIXING_SPREAD = 1.0  # of the weights that tie one class's function to another's
FEWEST_SCALES, MOST_SCALES = 3, 30  # features that "auto" gives a length-scale each
LONGER, LARGER = np.log(4.0), 3.0  # what "ard" adds to log length-scales and log variance
ALIKE = 0.12  # standard deviation of log length-scales under "ard"


class Setting(NamedTuple):
    """The data and the prior: all that stays the same from sweep to sweep.

    inputs : (n, d), or (n,) objects that the kernel understands
    codes : (n,) classes, UNLABELLED where not known
    n_classes : K
    prior : of one kernel's log-parameters
    base : π, or a prior over Gaussians, of which π is one
    own_kernels : whether each function has log-parameters of its own
    dependent : whether g mixes independent functions u, g(x) = A u(x) (Teh et al. 2005)
    """

    inputs: Any
    codes: Codes
    n_classes: int
    prior: KernelPrior
    base: Density | NormalInverseWishart
    own_kernels: bool = False
    dependent: bool = False

    @property
    def n_kernels(self) -> int:
        """F."""
        return self.n_classes if self.own_kernels else 1

    @property
    def n_mixing(self) -> int:
        """q, the number of weights in A."""
        return self.n_classes * (self.n_classes - 1) // 2 if self.dependent else 0


def prior_of_islands(kernel: str | Kernel, X: Any) -> KernelPrior:
    """Return `kernel_prior`, with longer and larger functions for "ard", and scales more alike.

    A density has to hold together in all features at once, and from sea to land is farther where
    there is more room. A few labels do not tell which features matter, so that length-scales that
    are free to differ let the rows alone decide it. "auto" is "ard" where there are features to
    choose between, from three on, and rows enough to do so; else "isotropic".
    """
    if isinstance(kernel, str) and kernel == "auto":
        n, d = X.shape if np.ndim(X) == 2 else (len(X), 1)
        kernel = "ard" if FEWEST_SCALES <= d <= min(MOST_SCALES, n) else "isotropic"
    prior = kernel_prior(kernel, X)
    if not (isinstance(kernel, str) and kernel == "ard"):
        return prior
    shift = np.full(len(prior.mean), LONGER)
    shift[0] = LARGER
    sd = np.append(prior.sd[:1], np.full(len(shift) - 1, ALIKE))
    return prior._replace(mean=prior.mean + shift, sd=sd)


# Kernels and their factors ------------------------------------------------------------------------


class Kernels(NamedTuple):
    """The F kernels at some θ.

    theta : (F, p)
    grams : F matrices C, (T, T)
    factors : (F, T, T) L
    jitter : the largest that a factor took
    """

    theta: Array
    grams: list[Array]
    factors: Array
    jitter: float


def gram_at_rows(setting: Setting, rows: Any) -> Callable[[Array], Array]:
    """Return θ -> C with its nugget, which is relative to the variance at the data."""
    return gram_function(setting.prior, rows, reference=setting.inputs)


def kernels_at(gram_at: Callable[[Array], Array], log_parameters: Array) -> Kernels:
    """Return the kernels at θ, (F, p), where `gram_at_rows` has been prepared."""
    grams = [gram_at(theta) for theta in log_parameters]
    factors = [jittered_cholesky(C.T) for C in grams]  # symmetric; by columns LAPACK is quicker
    lowers = stacked([factor.lower for factor in factors])
    return Kernels(log_parameters, grams, lowers, max(factor.jitter for factor in factors))


class Covariances(NamedTuple):
    """How functions at new rows depend on each other and on known ones.

    between : (θ of one kernel, rows, rows) -> covariances, without the nugget
    nugget : (F,) what each kernel has on its diagonal beside itself: a part of the model
    """

    between: Callable[[Array, Any, Any], Array]
    nugget: Array


def covariances_at(setting: Setting, log_parameters: Array) -> Covariances:
    """Return the covariances at θ, (F, p)."""
    prior, data = setting.prior, setting.inputs
    nugget = np.array([NUGGET * mean_variance(prior, theta, data) for theta in log_parameters])
    return Covariances(cross_gram_function(prior), nugget)


def stacked(parts: Sequence[Array]) -> Array:
    """Return one array of F, (F, ...); one alone is not copied."""
    return parts[0][None] if len(parts) == 1 else np.stack(parts)


def served_by(f: int, n_kernels: int) -> slice:
    """Return the functions that kernel f serves: its own, or all."""
    return slice(None) if n_kernels == 1 else slice(f, f + 1)


# White noise and functions ------------------------------------------------------------------------


def unwhiten(factors: Array, whitened: Array) -> Array:
    """Return u = L ν, (T, K)."""
    if len(factors) == 1:
        return lower_times(factors[0], whitened)
    return np.stack([lower @ column for lower, column in zip(factors, whitened.T)], axis=1)


def unwhiten_transposed(factors: Array, slope: Array) -> Array:
    """Return Lᵀ times a gradient in u, (T, K): the gradient in ν."""
    if len(factors) == 1:
        return lower_times(factors[0], slope, transposed=True)
    return np.stack([lower.T @ column for lower, column in zip(factors, slope.T)], axis=1)


def whiten(factors: Array, u: Array) -> Array:
    """Return ν = L^{-1} u, (T, K)."""
    if len(factors) == 1:
        return solve_lower(factors[0], u)
    return np.stack([solve_lower(low, column) for low, column in zip(factors, u.T)], axis=1)


def unwhiten_by_class(factors: Array, whitened: Array) -> Array:
    """Return u = L ν with ν class by class, (K, T) -> (K, T)."""
    if len(factors) == 1:
        return whitened @ factors[0].T
    return np.matmul(factors, whitened[:, :, None])[:, :, 0]


def unwhiten_by_class_transposed(factors: Array, slope: Array) -> Array:
    """Return Lᵀ times a gradient in u, class by class, (K, T): the gradient in ν."""
    if len(factors) == 1:
        return slope @ factors[0]
    return np.matmul(slope[:, None, :], factors)[:, 0]


def mixing_matrix(mixing: Array, n_classes: int) -> Array:
    """Return A, (K, K): lower triangular, with rows of length one.

    So g_k keeps the kernel's variance. A is the identity where there are no weights.
    """
    A = np.eye(n_classes)
    if len(mixing) > 0:
        A[np.tril_indices(n_classes, -1)] = mixing
        A /= np.linalg.norm(A, axis=1, keepdims=True)
    return A


def mixing_or_none(mixing: Array, n_classes: int) -> Array | None:
    """Return A, or None where functions are not mixed."""
    return mixing_matrix(mixing, n_classes) if len(mixing) > 0 else None


def mixed(u: Array, A: Array | None) -> Array:
    """Return g = A u, (..., K); A None: functions are not mixed."""
    return u if A is None else u @ A.T


# What is known of them ----------------------------------------------------------------------------


class KnownFunctions(NamedTuple):
    """K functions, as far as they are known.

    rows : (T, ...) where they are known
    whitened : (T, K) ν, u = L ν
    factors : (F, T, T) L
    log_parameters : (F, p) θ
    mixing : (q,) weights of A
    """

    rows: Any
    whitened: Array
    factors: Array
    log_parameters: Array
    mixing: Array

    @property
    def u(self) -> Array:
        """The independent functions at the rows, (T, K)."""
        return unwhiten(self.factors, self.whitened)

    @property
    def A(self) -> Array | None:
        """How they are mixed; None: not at all."""
        return mixing_or_none(self.mixing, self.whitened.shape[1])

    def with_rows(
        self, rows: Any, noise: Array, bridges: Sequence[Array], corners: Sequence[Array]
    ) -> KnownFunctions:
        """Return the functions known at m more rows, given as `bridges_to` and `corner_factor` do.

        Parameters
        ----------
        rows : (m, ...)
        noise : (m, K) ν there
        bridges, corners : F of (m, T) and of (m, m), the new rows of L
        """
        lowers = [bordered_factor(*parts) for parts in zip(self.factors, bridges, corners)]
        return self._replace(
            rows=np.concatenate([self.rows, rows]),
            whitened=np.concatenate([self.whitened, noise]),
            factors=stacked(lowers),
        )


def unknown_functions(
    rows: Any, log_parameters: Array, mixing: Array, n_classes: int
) -> KnownFunctions:
    """Return functions of which θ and A are known, and nothing else; rows has none."""
    return KnownFunctions(
        rows=rows[:0],
        whitened=np.zeros((0, n_classes)),
        factors=np.zeros((len(log_parameters), 0, 0)),
        log_parameters=log_parameters,
        mixing=mixing,
    )


def bridges_to(covariances: Covariances, known: KnownFunctions, rows: Any) -> list[Array]:
    """Return the rows' covariances with the known ones, times L^{-T}: F of (m, T)."""
    return [
        solve_lower(lower, covariances.between(theta, known.rows, rows)).T
        for lower, theta in zip(known.factors, known.log_parameters, strict=True)
    ]


def corner_factor(covariance: Array, nugget: float, bridge: Array) -> Factor:
    """Return the factor of rows' covariance given earlier ones, (m, m).

    Parameters
    ----------
    covariance : (m, m) of the rows, without a nugget; it is overwritten
    bridge : (m, T)
    """
    covariance = covariance.T  # symmetric; by columns, as LAPACK has it
    diagonal = np.einsum("ii->i", covariance)  # a view
    diagonal += nugget
    subtract_square(covariance, bridge.T)
    return jittered_cholesky(covariance)
