"""Softmax over one function per class (paper 000, eq. 1)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_ndtr, logsumexp

from atoll.core.gaussian import log_normal_density

Array = NDArray[np.float64]

N_POINTS = 32  # quasi-random points of an average over three classes or more, times K


def log_prob(latent: Array, codes: NDArray[np.intp]) -> Array:
    """Return the log softmax of the label's function; latent (n, K), codes (n,) -> (n,)."""
    top, odds = _relative_odds(latent)
    return latent[np.arange(len(codes)), codes] - top[:, 0] - np.log(odds.sum(axis=1))


def gradient(latent: Array, codes: NDArray[np.intp]) -> Array:
    """Return the gradient of Σ_n log_prob; (n, K) -> (n, K)."""
    _, odds = _relative_odds(latent)
    slope = odds / -odds.sum(axis=1, keepdims=True)
    slope[np.arange(len(codes)), codes] += 1.0
    return slope


def class_probabilities(latent: Array) -> Array:
    """Return softmax(latent); (..., K) -> (..., K)."""
    odds = np.exp(latent - latent.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def _relative_odds(latent: Array) -> tuple[Array, Array]:
    """Return the largest function of each row, (n, 1), and exp(latent − it), (n, K).

    SciPy's softmax functions cost ten times as much on a few dozen rows.
    """
    top = latent.max(axis=1, keepdims=True)
    return top, np.exp(latent - top)


def log_class_probabilities(mean: Array, variance: Array, *, scramble: int = 0) -> Array:
    """Return log E softmax(f), f_k ~ N(mean_k, variance_k) independent; (..., K) -> (..., K).

    For two classes by the trapezium rule, to 1e-8. For more, an average over quasi-random points
    that is closed under cyclic shifts of the classes: where all classes have one mean and
    variance, each has exactly the probability 1/K. Elsewhere one set of points is good to about
    two hundredths; an average over posterior draws takes a new scramble for each draw.

    Parameters
    ----------
    mean, variance : (..., K)
    scramble : seed of the points

    Examples
    --------
    >>> np.exp(log_class_probabilities(np.zeros(3), np.full(3, 4.0))).round(12)
    array([0.33333333, 0.33333333, 0.33333333])
    """
    mean, variance = np.asarray(mean), np.asarray(variance)
    if mean.shape[-1] == 2:
        difference = mean[..., 1] - mean[..., 0]
        sd = np.sqrt(variance.sum(axis=-1))
        log_p = np.stack(
            [_log_expected_expit(-difference, sd), _log_expected_expit(difference, sd)], axis=-1
        )
    else:
        points = symmetric_points(mean.shape[-1], scramble)
        latent = mean[..., None, :] + np.sqrt(variance)[..., None, :] * points
        with np.errstate(divide="ignore"):  # past 1e-308 a probability is zero
            log_p = np.log(class_probabilities(latent).mean(axis=-2))
    return log_p - logsumexp(log_p, axis=-1, keepdims=True)


def sample(rng: np.random.Generator, latent: Array) -> NDArray[np.intp]:
    """Draw labels given the functions, by Gumbel's trick; latent (..., K) -> (...,)."""
    return np.argmax(latent + rng.gumbel(size=np.shape(latent)), axis=-1)


def _log_expected_expit(mean: Array, sd: Array) -> Array:
    """Return log E σ(d), d ~ N(mean, sd²), by the trapezium rule; (...,) -> (...,).

    The rule converges exponentially, at a rate set by the poles of the logistic, π from the real
    line, in units of its step. Over d that needs steps below 1: for narrow Gaussians. For wide
    ones, σ(d) = P(e < d) with e logistic, and E σ(d) = E Φ((mean − e)/sd) over e.
    """
    wide = sd > 10.0
    x = np.linspace(-8.0, 8.0, 201)
    narrow_sd = np.where(wide, 1.0, sd)[..., None]
    narrow = logsumexp(log_normal_density(x) + log_expit(mean[..., None] + narrow_sd * x), axis=-1)
    log_p = narrow + np.log(x[1] - x[0])
    if np.any(wide):
        e = np.linspace(-40.0, 40.0, 161)
        log_logistic = log_expit(e) + log_expit(-e)
        scaled = (mean[..., None] - e) / np.where(wide, sd, 1.0)[..., None]
        over_e = logsumexp(log_logistic + log_ndtr(scaled), axis=-1) + np.log(e[1] - e[0])
        log_p = np.where(wide, over_e, log_p)
    return log_p


@lru_cache(maxsize=256)
def symmetric_points(n_classes: int, scramble: int, n_points: int = N_POINTS) -> Array:
    """Return normal scrambled Sobol points with all their cyclic shifts; (n_points · K, K)."""
    from scipy.stats import norm, qmc

    sobol = qmc.Sobol(n_classes, rng=np.random.default_rng(scramble))
    base = norm.ppf(np.clip(sobol.random(n_points), 1e-9, 1 - 1e-9))
    return np.concatenate([np.roll(base, shift, axis=1) for shift in range(n_classes)])
