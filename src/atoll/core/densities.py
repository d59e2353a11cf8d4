"""Densities that can be sampled and evaluated: the base densities of Archipelago.

Any object with `sample(rng, n)` and `log_density(X)` will do. This module has the Gaussian, the
Student-t and the Gaussian mixture, and the normal–inverse-Wishart, a conjugate prior over
Gaussians.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammaln, logsumexp

from atoll.core.linalg import jittered_cholesky, solve_lower

Array = NDArray[np.float64]

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
MOST_CENTRES = 400  # rows that `fit_blurred` blurs; of more, a random sample
STUDENT_DF = 4.0  # degrees of freedom of a fitted t: heavy tails, but a finite variance


@runtime_checkable
class Density(Protocol):
    """A distribution over rows of any kind."""

    def sample(self, rng: np.random.Generator, n: int) -> Any:
        """Draw n rows, as an array of length n."""

    def log_density(self, X: Any) -> Array:
        """Return the normalised log density of each row; (n, ...) -> (n,)."""


class Gaussian(NamedTuple):
    """The Gaussian N(mean, lower lowerᵀ).

    mean : (d,)
    lower : (d, d) factor of the covariance, or (d,) standard deviations of independent columns

    Examples
    --------
    >>> round(float(Gaussian(np.zeros(1), np.eye(1)).log_density(np.zeros((1, 1)))[0]), 6)
    -0.918939
    """

    mean: Array
    lower: Array

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        noise = rng.standard_normal((n, len(self.mean)))
        return self.mean + (noise * self.lower if self.lower.ndim == 1 else noise @ self.lower.T)

    def log_density(self, X: Array) -> Array:
        d = len(self.mean)
        log_norm = -0.5 * d * np.log(2.0 * np.pi) - _half_log_det(self.lower)
        return log_norm - 0.5 * _squared_distances(X, self.mean, self.lower)


class StudentT(NamedTuple):
    """The multivariate t, whose tails are heavier than the Gaussian's.

    mean : (d,)
    lower : (d, d) factor of the scale matrix
    df : degrees of freedom
    """

    mean: Array
    lower: Array
    df: float

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        stretch = np.sqrt(self.df / rng.chisquare(self.df, size=(n, 1)))
        return self.mean + stretch * (rng.standard_normal((n, len(self.mean))) @ self.lower.T)

    def log_density(self, X: Array) -> Array:
        d, df = len(self.mean), self.df
        log_norm = gammaln(0.5 * (df + d)) - gammaln(0.5 * df) - 0.5 * d * np.log(df * np.pi)
        squared = _squared_distances(X, self.mean, self.lower)
        return log_norm - _half_log_det(self.lower) - 0.5 * (df + d) * np.log1p(squared / df)


class GaussianMixture(NamedTuple):
    """The mixture Σ_c weights_c N(means_c, lowers_c lowers_cᵀ).

    weights : (C,)
    means : (C, d)
    lowers : (C, d, d)
    """

    weights: Array
    means: Array
    lowers: Array

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        component = rng.choice(len(self.weights), size=n, p=self.weights)
        noise = rng.standard_normal((n, self.means.shape[1]))
        return self.means[component] + np.einsum("nij,nj->ni", self.lowers[component], noise)

    def log_density(self, X: Array) -> Array:
        parts = [
            np.log(weight) + Gaussian(mean, lower).log_density(X)
            for weight, mean, lower in zip(self.weights, self.means, self.lowers)
        ]
        return logsumexp(parts, axis=0)


class Blurred(NamedTuple):
    """Centres, all of one weight, blurred by one Gaussian.

    centres : (C, d)
    lower : (d, d) factor of the blur's covariance, or (d,) its standard deviations
    """

    centres: Array
    lower: Array

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        noise = rng.standard_normal((n, self.centres.shape[1]))
        noise = noise * self.lower if self.lower.ndim == 1 else noise @ self.lower.T
        return self.centres[rng.integers(len(self.centres), size=n)] + noise

    def log_density(self, X: Array) -> Array:
        d = self.centres.shape[1]
        log_norm = np.log(len(self.centres)) + _half_log_det(self.lower) + d * HALF_LOG_2PI
        squared = cdist(self._scaled(X), self._scaled(self.centres), "sqeuclidean")
        return logsumexp(-0.5 * squared, axis=1) - log_norm

    def _scaled(self, X: Array) -> Array:
        return X / self.lower if self.lower.ndim == 1 else solve_lower(self.lower, X.T).T


class WithConstants(NamedTuple):
    """A density over some of the columns; each of the others always holds one value.

    density : a Density over the columns that vary
    varies : (d,) bool, whether a column varies
    values : (d,) the values of the constant columns
    """

    density: Any
    varies: NDArray[np.bool_]
    values: Array

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        rows = np.tile(self.values, (n, 1))
        rows[:, self.varies] = self.density.sample(rng, n)
        return rows

    def log_density(self, X: Array) -> Array:
        """Return the log density of the columns that vary, whatever the others hold; (n,)."""
        return self.density.log_density(X[:, self.varies])


class NormalInverseWishart(NamedTuple):
    """A prior over Gaussians: Σ ~ IW(scale, df), mean | Σ ~ N(centre, Σ / strength).

    centre : (d,)
    strength : the number of rows that the belief in the centre is worth
    scale : (d, d), positive definite
    df : more than d − 1
    """

    centre: Array
    strength: float
    scale: Array
    df: float

    def given(self, X: Array) -> NormalInverseWishart:
        """Return the posterior given rows X, (n, d), drawn from the Gaussian."""
        n = len(X)
        if n == 0:
            return self
        mean = X.mean(axis=0)
        centred, shift = X - mean, mean - self.centre
        strength = self.strength + n
        return NormalInverseWishart(
            self.centre + shift * (n / strength),
            strength,
            self.scale
            + centred.T @ centred
            + np.outer(shift, shift) * (self.strength * n / strength),
            self.df + n,
        )

    def draw(self, rng: np.random.Generator) -> Gaussian:
        """Draw one Gaussian.

        Σ = L (A Aᵀ)^{-1} Lᵀ, where A is Bartlett's factor of a standard Wishart draw and L is the
        Cholesky factor of `scale`.
        """
        d = len(self.centre)
        bartlett = np.tril(rng.standard_normal((d, d)), -1)
        bartlett[np.diag_indices(d)] = np.sqrt(rng.chisquare(self.df - np.arange(d)))
        half = solve_lower(bartlett, jittered_cholesky(self.scale).lower.T).T  # Σ = half halfᵀ
        # A rotation of the columns of `half` leaves Σ as it is and makes the factor triangular.
        upper = np.linalg.qr(half.T, mode="r")
        lower = (upper * np.sign(np.diagonal(upper))[:, None]).T
        mean = self.centre + lower @ rng.standard_normal(d) / np.sqrt(self.strength)
        return Gaussian(mean, lower)


def fit_gaussian(X: Array) -> Gaussian:
    """Fit a Gaussian with the rows' mean and covariance; X (n, d).

    The covariance is shrunk when rows are few. With more columns than rows, only the variances are
    fitted.
    """
    if X.shape[1] > len(X):
        return Gaussian(X.mean(axis=0), _scales(X))
    mean, covariance = _moments(X)
    return Gaussian(mean, jittered_cholesky(covariance).lower)


def fit_blurred(X: Array, width: float) -> Blurred:
    """Blur the rows, drawn towards their mean, to a density of the rows' mean and covariance.

    Width 1 is `fit_gaussian`, and near 0 there is a narrow Gaussian at every row. X (n, d).
    """
    whole = fit_gaussian(X)
    centres = X
    if len(X) > MOST_CENTRES:
        centres = X[np.random.default_rng(0).choice(len(X), MOST_CENTRES, replace=False)]
    centres = whole.mean + np.sqrt(1.0 - width**2) * (centres - whole.mean)
    return Blurred(centres, width * whole.lower)


def fit_student_t(X: Array) -> StudentT:
    """Fit a t with STUDENT_DF degrees of freedom and the rows' mean and covariance; X (n, d)."""
    mean, covariance = _moments(X)
    return StudentT(
        mean, jittered_cholesky(covariance * ((STUDENT_DF - 2.0) / STUDENT_DF)).lower, STUDENT_DF
    )


def niw_prior(X: Array) -> NormalInverseWishart:
    """Return a prior centred on the rows' moments, with strength 1 and d + 3 degrees of freedom."""
    mean, covariance = _moments(X)
    return NormalInverseWishart(mean, 1.0, 2.0 * covariance, X.shape[1] + 3.0)


def _moments(X: Array) -> tuple[Array, Array]:
    """Return the mean and a positive definite covariance, by Ledoit & Wolf on scaled columns."""
    from sklearn.covariance import ledoit_wolf

    mean, scale = X.mean(axis=0), _scales(X)
    varies = np.ptp(X, axis=0) > 0
    if not varies.any():  # one row, or copies of it
        return mean, np.diag(scale**2)
    covariance, _ = ledoit_wolf((X - mean) / scale, assume_centered=True)
    covariance[np.diag_indices_from(covariance)] += np.where(varies, 1e-6, 1.0)
    return mean, covariance * np.outer(scale, scale)


def _scales(X: Array) -> Array:
    """Return the columns' standard deviations, (d,); a constant column gets the others' mean."""
    scale, varies = X.std(axis=0), np.ptp(X, axis=0) > 0
    return np.where(varies, scale, scale[varies].mean() if varies.any() else 1.0)


def _squared_distances(X: Array, mean: Array, lower: Array) -> Array:
    if lower.ndim == 1:
        return np.sum(((X - mean) / lower) ** 2, axis=1)
    return np.sum(solve_lower(lower, (X - mean).T) ** 2, axis=0)


def _half_log_det(lower: Array) -> float:
    return float(np.log(lower if lower.ndim == 1 else np.diagonal(lower)).sum())
