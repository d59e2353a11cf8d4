"""A Gaussian process given what is known of it at some rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import jittered_cholesky, solve_lower
from atoll.core.memory import in_chunks
from atoll.core.rows import distinct_rows
from atoll.kernels.hyperparameters import KernelPrior, gram, gram_diagonal

Array = NDArray[np.float64]

CHUNK_ENTRIES = 4_000_000  # kernel entries held at once: 32 MB
UNKNOWN = 1e-10  # of a process's own variance, at rows where it is known to rounding


def conditional_moments(
    prior: KernelPrior,
    log_parameters: Array,
    inputs: Array,
    cholesky: Array,
    weights: Array,
    X: Array,
    known_variance: Array | None = None,
) -> tuple[Array, Array]:
    """Return mean k_xᵀ w and variance k(x, x) − k_xᵀ A^{-1} k_x at every row x of X.

    In chunks of X: the memory is bounded whatever its length.

    Parameters
    ----------
    inputs : (n, d) rows at which something is known
    cholesky : (n, n) lower factor of A, the covariance of what is known
    weights : (n,) or (n, K), A^{-1} times what is known
    X : (m, d)
    known_variance : (n,) of what is known, where it is known with an error of its own; it adds
        k_xᵀ A^{-1} diag(·) A^{-1} k_x

    Returns
    -------
    mean : (m,) or (m, K)
    variance : (m,)
    """
    mean, variance = np.empty((len(X), *weights.shape[1:])), np.empty(len(X))
    for part in in_chunks(len(X), len(inputs), most=CHUNK_ENTRIES):
        cross = gram(prior, log_parameters, inputs, X[part])
        mean[part] = cross.T @ weights
        whitened = solve_lower(cholesky, cross)
        explained = np.sum(whitened**2, axis=0)
        diagonal = gram_diagonal(prior, log_parameters, X[part])
        variance[part] = np.maximum(diagonal - explained, 0.0)  # rounding may fall below zero
        if known_variance is not None:
            of_known = solve_lower(cholesky, whitened, transposed=True)
            variance[part] += known_variance @ of_known**2
    return mean, variance


def sample_conditional(
    rng: np.random.Generator,
    prior: KernelPrior,
    log_parameters: Array,
    inputs: Array,
    cholesky: Array,
    weights: Array,
    X: Array,
    n: int,
) -> Array:
    """Draw functions at all rows of X jointly; parameters as those of `conditional_moments`.

    Equal rows have equal values. The covariance of the rows is held whole: O(m² (n_inputs + m))
    time and 8·3·m² bytes.

    Returns
    -------
    (n, m) or (n, m, K) : draws of one function, or of K that share their covariance
    """
    rows, place = distinct_rows(X)
    cross = gram(prior, log_parameters, inputs, rows)
    whitened = solve_lower(cholesky, cross)
    covariance = gram(prior, log_parameters, rows)
    least = UNKNOWN * float(np.diagonal(covariance).mean())
    covariance -= whitened.T @ whitened
    return sample_jointly(rng, cross.T @ weights, covariance, least, n)[:, place]


def sample_jointly(
    rng: np.random.Generator, mean: Array, covariance: Array, least_variance: float, n: int
) -> Array:
    """Draw n times from normal distributions that share a covariance, which is overwritten.

    Parameters
    ----------
    mean : (m,) or (m, K)
    covariance : (m, m), positive semi-definite up to rounding
    least_variance : added to the diagonal, so that it factors where nothing is unknown

    Returns
    -------
    (n, m) or (n, m, K)
    """
    covariance[np.diag_indices_from(covariance)] += least_variance
    lower = jittered_cholesky(covariance).lower
    noise = rng.standard_normal((n, *mean.shape))
    return mean + (lower @ noise.reshape(n, len(mean), -1)).reshape(noise.shape)


def mixture_moments(components: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return mean and variance of an equal mixture, from those of each component."""
    count, mean, spread = 0, np.zeros(()), np.zeros(())
    for component_mean, component_variance in components:
        count += 1
        step = component_mean - mean
        mean = mean + step / count
        spread = spread + component_variance + step * (component_mean - mean)  # Welford 1962
    return mean, spread / count
