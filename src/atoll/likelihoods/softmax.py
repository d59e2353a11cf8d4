"""Softmax over one function a class (paper 000, eq. 1)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_softmax, logsumexp

from atoll.core.gaussian import log_normal_density

Array = NDArray[np.float64]


def log_prob(latent: Array, codes: NDArray[np.intp]) -> Array:
    """log softmax of the label's function; latent (n, K), codes (n,) -> (n,)."""
    top, odds = _relative_odds(latent)
    return latent[np.arange(len(codes)), codes] - top[:, 0] - np.log(odds.sum(axis=1))


def gradient(latent: Array, codes: NDArray[np.intp]) -> Array:
    """Gradient of Σ_n log_prob; (n, K) -> (n, K)."""
    _, odds = _relative_odds(latent)
    slope = odds / -odds.sum(axis=1, keepdims=True)
    slope[np.arange(len(codes)), codes] += 1.0
    return slope


def _relative_odds(latent: Array) -> tuple[Array, Array]:
    """The largest function of each row, (n, 1), and exp(latent − it), (n, K).

    SciPy's softmax functions cost ten times as much on a few dozen rows.
    """
    top = latent.max(axis=1, keepdims=True)
    return top, np.exp(latent - top)


def log_class_probabilities(mean: Array, variance: Array) -> Array:
    """log E softmax(f) for independent f_k ~ N(mean_k, variance_k); (..., K) -> (..., K).

    For two classes the trapezium rule over their difference, which for a logistic function
    converges faster than Gauss–Hermite. For more, an average over a fixed set of quasi-random
    points that is closed under cyclic shifts of the classes: where all classes have one mean
    and variance, each has exactly the probability 1/K.

    Examples
    --------
    >>> np.exp(log_class_probabilities(np.zeros(3), np.full(3, 4.0))).round(12)
    array([0.33333333, 0.33333333, 0.33333333])
    """
    mean, variance = np.asarray(mean), np.asarray(variance)
    if mean.shape[-1] == 2:
        nodes = np.linspace(-8.0, 8.0, 201)
        log_weights = log_normal_density(nodes)
        sd = np.sqrt(variance.sum(axis=-1))[..., None]
        difference = (mean[..., 1] - mean[..., 0])[..., None] + sd * nodes
        log_up = log_expit(difference)
        log_up_and_down = np.stack([log_up - difference, log_up])  # log(1 − σ(d)) = log σ(d) − d
        log_p = np.moveaxis(logsumexp(log_weights + log_up_and_down, axis=-1), 0, -1)
    else:
        points = _symmetric_points(mean.shape[-1])
        latent = mean[..., None, :] + np.sqrt(variance)[..., None, :] * points
        log_p = logsumexp(log_softmax(latent, axis=-1), axis=-2) - np.log(len(points))
    return log_p - logsumexp(log_p, axis=-1, keepdims=True)


@lru_cache(maxsize=16)
def _symmetric_points(n_classes: int, n_base: int = 32) -> Array:
    """(n_base · K, K) normal scrambled Sobol points with all their cyclic shifts."""
    from scipy.stats import norm, qmc

    sobol = qmc.Sobol(n_classes, rng=np.random.default_rng(0))
    base = norm.ppf(np.clip(sobol.random(n_base), 1e-9, 1 - 1e-9))
    return np.concatenate([np.roll(base, shift, axis=1) for shift in range(n_classes)])
