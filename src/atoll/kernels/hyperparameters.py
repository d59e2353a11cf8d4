"""Kernels in scikit-learn's language, with a prior over the logarithms of their parameters.

scikit-learn's `kernel.theta` holds the natural logarithms of the free parameters. Here they are
called log-parameters, and each has an independent normal prior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Product

from atoll.kernels.own_gradients import check_own_gradients

Array = NDArray[np.float64]

# Standard deviations of the log-parameters under the default prior, and the log variance's mean.
LENGTH_SCALE_SPREAD = 0.5
ARD_LENGTH_SCALE_SPREAD = 0.7
LOG_VARIANCE_CENTRE = 2.0  # a log amplitude of 1
LOG_VARIANCE_SPREAD = 1.0
GIVEN_KERNEL_SPREAD = 1.0  # for a kernel that the user gives

# Added to the diagonal, relative to its mean, as part of the kernel: in the target and in the
# conditionals alike.
NUGGET = 1e-6
# Features from which on a product finds distances, and half of |x|², in length-scales, up to which.
MANY_FEATURES, FARTHEST_SQUARE = 6, 1e4
DIFFERENCE = 1e-4  # step in a log-parameter, for a kernel that has no gradient of its own


class KernelPrior(NamedTuple):
    """A kernel, and a prior over its log-parameters: N(mean, diag(sd²)).

    kernel : a copy of the kernel, which nothing changes
    names : (p,) names of the log-parameters, such as "log_length_scale"
    mean, sd : (p,)
    variance_index : index of the log-parameter that adds to the log of every entry of the kernel
        matrix, which samplers can move at no cost; None if there is none
    """

    kernel: Kernel
    names: tuple[str, ...]
    mean: Array
    sd: Array
    variance_index: int | None


def kernel_prior(kernel: str | Kernel, X: Array) -> KernelPrior:
    """Return the kernel that an estimator's parameter `kernel` asks for, with its prior.

    "isotropic" is θ² exp(−‖x − x'‖²/(2ℓ²)); "ard" has one length-scale per feature. Their prior
    depends only on the inputs: log ℓ is centred on the log of half the root-mean-square distance
    between two rows, which for two features of unit variance is a length-scale of 1 and which
    scales with the units of X. The log variance is N(2, 1).

    A scikit-learn kernel is taken as it is: each free parameter has a log-normal prior, centred on
    the value given and with standard deviation 1 of the logarithm; fixed parameters stay fixed.

    Parameters
    ----------
    kernel : "isotropic", "ard" or a scikit-learn kernel
    X : (n, d) training rows

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [2.0, 2.0]])
    >>> prior = kernel_prior("isotropic", X)
    >>> prior.names, prior.mean.round(2).tolist()
    (('log_variance', 'log_length_scale'), [2.0, 0.0])
    """
    if isinstance(kernel, Kernel):
        ours = clone(kernel)
        ours(X[:1])  # fails here, not amid sampling, if its length-scales do not fit X
        with np.errstate(divide="ignore"):
            centre = np.array(ours.theta, dtype=float)
        if not np.isfinite(centre).all():
            name = _parameter_names(ours)[int(np.argmin(np.isfinite(centre)))].removeprefix("log_")
            raise ValueError(
                f"the kernel's free parameter {name} is zero or infinite, and has no logarithm to "
                'sample; give it a positive value, or "fixed" for its bounds.'
            )
        check_own_gradients(ours, X)
        return KernelPrior(
            ours,
            _parameter_names(ours),
            centre,
            np.full(len(centre), GIVEN_KERNEL_SPREAD),
            0 if _is_scaled(ours) else None,
        )
    if kernel == "isotropic":
        return _default_prior(_typical_length_scale(X), LENGTH_SCALE_SPREAD)
    if kernel == "ard":
        return _default_prior(_length_scales_by_feature(X), ARD_LENGTH_SCALE_SPREAD)
    raise ValueError(
        f"kernel={kernel!r} is not a kernel; use 'isotropic', 'ard' or a scikit-learn kernel such "
        "as RBF()."
    )


def gram(prior: KernelPrior, log_parameters: Array, X: Array, Y: Array | None = None) -> Array:
    """Return the kernel matrix at given log-parameters; X (n, d), Y (m, d) -> (n, m)."""
    return _evaluated_at(prior, log_parameters)(X, Y)


def gram_function(
    prior: KernelPrior, X: Array, reference: Array | None = None
) -> Callable[[Array], Array]:
    """Return a function from log-parameters to the covariance at the rows of X, a new (n, n) array.

    The covariance is `gram` with a nugget on its diagonal, so that it has a Cholesky factor even if
    rows are duplicated. For an isotropic variance × RBF, which samplers evaluate most, the squared
    distances are computed once; any other kernel is evaluated anew at each call.

    Parameters
    ----------
    reference : rows whose mean variance scales the nugget; None takes those of X
    """
    if not is_scaled_rbf(prior.kernel):

        def general(log_parameters: Array) -> Array:
            kernel = _evaluated_at(prior, log_parameters)
            K = kernel(X)
            if len(K) == 0:
                return K
            rows = X if reference is None else reference
            return _with_nugget(K, float(kernel.diag(rows).mean()))

        return general
    anisotropic = prior.kernel.k2.anisotropic
    squared = None if anisotropic else cdist(X, X, "sqeuclidean")
    by_product = anisotropic and len(X) > 0 and X.shape[1] >= MANY_FEATURES
    centred = X - X.mean(axis=0) if by_product else X

    def scaled_rbf(log_parameters: Array) -> Array:
        log_variance, log_length_scales = log_parameters[0], log_parameters[1:]
        if squared is None:
            scaled = centred * np.exp(-log_length_scales)
            K = _log_rbf(scaled, scaled, log_variance)
        else:
            K = squared * (-0.5 * np.exp(-2.0 * log_length_scales[0]))
            K += log_variance
        return _with_nugget(np.exp(K, out=K), np.exp(log_variance))

    return scaled_rbf


def cross_gram_function(prior: KernelPrior) -> Callable[[Array, Array, Array], Array]:
    """Return a function (log-parameters, X, Y) -> `gram` between rows, (n, m), without a nugget.

    For variance × RBF no scikit-learn kernel is created, which on a few dozen rows would cost more
    than the matrix itself.
    """
    if not is_scaled_rbf(prior.kernel):

        def general(log_parameters: Array, X: Array, Y: Array) -> Array:
            if len(X) == 0 or len(Y) == 0:  # a user's kernel may not allow this
                return np.zeros((len(X), len(Y)))
            return gram(prior, log_parameters, X, Y)

        return general

    def scaled_rbf(log_parameters: Array, X: Array, Y: Array) -> Array:
        scale = np.exp(-log_parameters[1:])
        K = _log_rbf(X * scale, Y * scale, log_parameters[0])
        return np.exp(K, out=K)

    return scaled_rbf


def _log_rbf(X: Array, Y: Array, log_variance: float) -> Array:
    """Return log variance − |x − y|²/2; X (n, d), Y (m, d) -> (n, m).

    Distances in many features are found by one product, unless it would round them too much: of
    rows far from zero.
    """
    d = X.shape[1]
    if d < MANY_FEATURES:
        return _log_rbf_of_differences(X, Y, log_variance)
    of_x, of_y = (-0.5 * np.einsum("id,id->i", rows, rows) for rows in (X, Y))
    if min(of_x.min(initial=0.0), of_y.min(initial=0.0)) <= -FARTHEST_SQUARE:
        return _log_rbf_of_differences(X, Y, log_variance)
    left, right = np.empty((len(X), d + 2)), np.empty((len(Y), d + 2))
    left[:, :d], left[:, d], left[:, d + 1] = X, of_x + log_variance, 1.0
    right[:, :d], right[:, d], right[:, d + 1] = Y, 1.0, of_y
    return left @ right.T


def _log_rbf_of_differences(X: Array, Y: Array, log_variance: float) -> Array:
    K = cdist(X, Y, "sqeuclidean")
    K *= -0.5
    K += log_variance
    return K


def gram_gradient_function(
    prior: KernelPrior, X: Array
) -> Callable[[Array, Array, NDArray[Any]], Array]:
    """Return a function (log-parameters, C, M) -> Σ_ij M_ij ∂C_ij/∂θ, (p,), for the chain rule.

    C is the matrix of `gram_function` at the log-parameters θ, and M is symmetric, (n, n). For
    variance × RBF no derivative matrix is formed, however many length-scales there are. A kernel
    without a gradient is evaluated twice per log-parameter.
    """
    if not is_scaled_rbf(prior.kernel):

        def general(log_parameters: Array, C: Array, M: NDArray[Any]) -> Array:
            slopes = _gram_slopes(prior, log_parameters, X)
            of_nugget = NUGGET * np.trace(M) * np.einsum("iij->j", slopes) / len(X)
            return np.einsum("ij,ijk->k", M, slopes) + of_nugget

        return general
    anisotropic, centred = prior.kernel.k2.anisotropic, X - X.mean(axis=0)
    squares = centred**2

    def scaled_rbf(log_parameters: Array, C: Array, M: NDArray[Any]) -> Array:
        # ∂C_ij/∂log ℓ = C_ij (x_i − x_j)²/ℓ², which is zero on the diagonal, where the nugget is.
        # Σ W_ij (x_i − x_j)² = 2 (Σ_i x_i² W_i· − xᵀ W x), feature by feature.
        W = M * C
        sums = W.sum(axis=1)
        by_feature = 2.0 * (sums @ squares - np.einsum("id,id->d", centred, W @ centred))
        by_length_scale = by_feature * np.exp(-2.0 * log_parameters[1:])
        slope = by_length_scale if anisotropic else [by_length_scale.sum()]
        return np.append(W.sum(), slope)

    return scaled_rbf


def _gram_slopes(prior: KernelPrior, log_parameters: Array, X: Array) -> Array:
    """Return ∂ gram / ∂θ, (n, n, p)."""
    return slopes_of(kernel_at(prior, log_parameters), X)


def slopes_of(kernel: Kernel, X: Any) -> Array:
    """Return ∂k(x, x′)/∂θ, (n, n, p): the kernel's own gradient, or differences if it has none."""
    theta = kernel.theta
    if len(theta) == 0:
        return np.zeros((len(X), len(X), 0))
    try:
        answer = kernel(X, eval_gradient=True)
    except (TypeError, NotImplementedError):
        answer = None
    if isinstance(answer, tuple):
        return np.asarray(answer[1])
    slopes = [
        kernel.clone_with_theta(theta + step)(X) - kernel.clone_with_theta(theta - step)(X)
        for step in DIFFERENCE * np.eye(len(theta))
    ]
    return np.stack(slopes, axis=2) / (2.0 * DIFFERENCE)


def gram_diagonal(prior: KernelPrior, log_parameters: Array, X: Array) -> Array:
    """Return k(x, x) for every row; X (n, d) -> (n,)."""
    if is_scaled_rbf(prior.kernel):
        return np.full(len(X), np.exp(log_parameters[0]))
    return _evaluated_at(prior, log_parameters).diag(X)


def mean_variance(prior: KernelPrior, log_parameters: Array, X: Array) -> float:
    """Return the mean of k(x, x) over the rows of X, (n, d)."""
    if is_scaled_rbf(prior.kernel):
        return float(np.exp(log_parameters[0]))
    return float(gram_diagonal(prior, log_parameters, X).mean())


def kernel_at(prior: KernelPrior, log_parameters: Array) -> Kernel:
    """Return a new scikit-learn kernel with these log-parameters."""
    # They are never set on the prior's own kernel, which chains and predictions in threads share.
    return prior.kernel.clone_with_theta(log_parameters)


def _evaluated_at(prior: KernelPrior, log_parameters: Array) -> Kernel:
    """Return the kernel to be called only: the prior's own where it has nothing to set.

    On a few rows a clone costs more than the matrix.
    """
    return prior.kernel if len(prior.mean) == 0 else kernel_at(prior, log_parameters)


def _with_nugget(matrix: Array, variance: float) -> Array:
    """Add the nugget to the matrix in place, and return it."""
    diagonal = np.einsum("ii->i", matrix)  # a view
    diagonal += NUGGET * variance
    return matrix


def _is_scaled(kernel: Kernel) -> bool:
    """Return whether the kernel is a free constant times another kernel, in that order."""
    return (
        type(kernel) is Product
        and type(kernel.k1) is ConstantKernel
        and not _is_fixed(kernel.k1.constant_value_bounds)
    )


def is_scaled_rbf(kernel: Kernel, kinds: tuple[type, ...] = (RBF,)) -> bool:
    """Return whether the kernel is a constant times one of these, both with free parameters."""
    return (
        _is_scaled(kernel)
        and type(kernel.k2) in kinds
        and not _is_fixed(kernel.k2.length_scale_bounds)
    )


def _is_fixed(bounds: object) -> bool:
    # The same answer as scikit-learn's `hyperparameter_...` at a tenth of the cost, which matters
    # to samplers.
    return isinstance(bounds, str) and bounds == "fixed"


def _default_prior(length_scale: float | Array, spread: float) -> KernelPrior:
    kernel = ConstantKernel(np.exp(LOG_VARIANCE_CENTRE)) * RBF(length_scale)
    log_length_scales = np.log(np.atleast_1d(length_scale))
    p = len(log_length_scales)
    names = ("log_length_scale",) if p == 1 else tuple(f"log_length_scale_{j}" for j in range(p))
    return KernelPrior(
        kernel,
        ("log_variance", *names),
        np.concatenate([[LOG_VARIANCE_CENTRE], log_length_scales]),
        np.concatenate([[LOG_VARIANCE_SPREAD], np.full(p, spread)]),
        variance_index=0,
    )


def _typical_length_scale(X: Array) -> float:
    """Return half the root-mean-square distance between two rows; 1 if all rows are the same."""
    varies = _varies(X)
    return float(np.sqrt(0.5 * X[:, varies].var(axis=0).sum())) if varies.any() else 1.0


def _length_scales_by_feature(X: Array) -> Array:
    # A constant column says nothing about its scale, so it gets the typical one.
    return np.where(_varies(X), X.std(axis=0) * np.sqrt(0.5 * X.shape[1]), _typical_length_scale(X))


def _varies(X: Array) -> NDArray[np.bool_]:
    """Return whether each column holds two different numbers, (d,).

    The deviation of a column that does not may be a rounding error instead of zero.
    """
    return np.ptp(X, axis=0) > 0


def _parameter_names(kernel: Kernel) -> tuple[str, ...]:
    names: list[str] = []
    for parameter in kernel.hyperparameters:
        if parameter.fixed:
            continue
        if parameter.n_elements == 1:
            names.append(f"log_{parameter.name}")
        else:
            names += [f"log_{parameter.name}_{j}" for j in range(parameter.n_elements)]
    return tuple(names)
