"""Softmax over the classes and one more outcome, "rejected", whose function is zero (paper 000).

    P(class k) = exp g_k / (1 + Λ)    P(any class) = Λ / (1 + Λ)    P(rejected) = 1 / (1 + Λ)

with Λ = Σ_k exp g_k: equation 4, equation 2 and the rest of equation 5's unit interval, each
without the base density. An outcome is a class 0..K−1, UNLABELLED (kept, as some class) or
REJECTED. Given that a row is kept, its class has the probabilities of `softmax`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from atoll.likelihoods.softmax import class_probabilities

__all__ = [
    "REJECTED",
    "UNLABELLED",
    "Outcomes",
    "OutcomesByClass",
    "class_probabilities",  # of a row that is kept
    "gradient",
    "log_prob",
    "log_rejection",
    "log_total",
    "outcomes_of",
    "sample",
]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

UNLABELLED, REJECTED = -1, -2  # besides the classes 0..K-1
SAFE_SQUARE = 600.0**2  # of all functions together, below which exp needs no care


def log_prob(latent: Array, codes: Codes) -> Array:
    """Return the log-probability of each row's outcome; latent (n, K), codes (n,) -> (n,).

    Examples
    --------
    >>> g = np.zeros((3, 2))  # two classes and the rejection, all alike
    >>> np.exp(log_prob(g, np.array([1, UNLABELLED, REJECTED]))).round(3)
    array([0.333, 0.667, 0.333])
    """
    return outcomes_of(codes, latent.shape[1]).log_prob(latent)


def gradient(latent: Array, codes: Codes) -> Array:
    """Return the gradient of Σ_n log_prob; latent (n, K), codes (n,) -> (n, K)."""
    return outcomes_of(codes, latent.shape[1]).gradient(latent)


def sample(rng: np.random.Generator, latent: Array) -> Codes:
    """Draw a class or REJECTED for each row given its functions; latent (n, K) -> (n,).

    Equation 5, where exp g_1 should read exp g_k: a uniform variate falls into one of K + 1 pieces
    of the unit interval.
    """
    top = np.maximum(latent.max(axis=1), 0.0)
    ends = np.empty((len(latent), latent.shape[1] + 1))  # ρ; here the rejection's piece is first
    ends[:, 0] = np.exp(-top)
    np.exp(latent - top[:, None], out=ends[:, 1:])
    np.cumsum(ends, axis=1, out=ends)
    level = (1.0 - rng.random(len(latent))) * ends[:, -1]
    winner = (ends < level[:, None]).sum(axis=1)
    return np.where(winner == 0, REJECTED, winner - 1)


def log_total(latent: Array) -> Array:
    """Return log Λ; (..., K) -> (...,)."""
    top = latent.max(axis=-1)
    return top + np.log(np.exp(latent - top[..., None]).sum(axis=-1))


def log_rejection(latent: Array) -> Array:
    """Return log P(rejected) = −log(1 + Λ); (..., K) -> (...,)."""
    return -np.logaddexp(0.0, log_total(latent))


class Outcomes(NamedTuple):
    """Outcomes of n rows, prepared for many evaluations.

    A row's probability is exp(g_l), where its class l is known, times (a + b Λ)/(1 + Λ).

    labels : (n, K) one at a row's class where it is known, else zero
    fixed, by_total : (n,) a and b
    ones : (K,)
    """

    labels: Array
    fixed: Array
    by_total: Array
    ones: Array

    def log_prob(self, latent: Array) -> Array:
        """Return the log-probability of each row's outcome; latent (n, K) -> (n,)."""
        return (self.labels * latent).sum(axis=1) + self._log_of_totals(latent)

    def total(self, latent: Array) -> float:
        """Return Σ_n log_prob; latent (n, K)."""
        if np.vdot(latent, latent) < SAFE_SQUARE:
            sums = np.exp(latent) @ self.ones
            of_totals = np.log((self.fixed + self.by_total * sums) / (1.0 + sums)).sum()
        else:
            of_totals = np.sum(self._log_of_totals(latent))
        return float(np.vdot(self.labels, latent) + of_totals)

    def gradient(self, latent: Array) -> Array:
        """Return the gradient of the total; latent (n, K) -> (n, K)."""
        if np.vdot(latent, latent) < SAFE_SQUARE:
            odds = np.exp(latent)
            sums = odds @ self.ones
            # b/(a + b Λ) − 1/(1 + Λ)
            by_odds = self.by_total - self.fixed
            by_odds /= (self.fixed + self.by_total * sums) * (1.0 + sums)
        else:
            top = latent.max(axis=1)
            odds = np.exp(latent - top[:, None])
            sums = odds @ self.ones
            log_sums = top + np.log(sums)
            log_fixed, log_by_total = self._logarithms()
            by_odds = (expit(log_by_total + log_sums - log_fixed) - expit(log_sums)) / sums
        odds *= by_odds[:, None]
        odds += self.labels
        return odds

    def by_class(self) -> OutcomesByClass:
        """Return the outcomes class by class."""
        labels = np.ascontiguousarray(self.labels.T)
        return OutcomesByClass(labels, self.fixed, self.by_total, self.by_total - self.fixed, self)

    def _log_of_totals(self, latent: Array) -> Array:
        """Return log (a + b Λ)/(1 + Λ), whatever the size of Λ; (n, K) -> (n,)."""
        log_sums = log_total(latent)
        log_fixed, log_by_total = self._logarithms()
        return np.logaddexp(log_fixed, log_by_total + log_sums) - np.logaddexp(0.0, log_sums)

    def _logarithms(self) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            return np.log(self.fixed), np.log(self.by_total)


class OutcomesByClass(NamedTuple):
    """`Outcomes` for gradients at many places, with functions class by class, (K, n).

    labels : (K, n)
    fixed, by_total : (n,) a and b
    difference : (n,) b − a
    outcomes : the same row by row
    """

    labels: Array
    fixed: Array
    by_total: Array
    difference: Array
    outcomes: Outcomes

    def gradient(self, latent: Array) -> tuple[Array, float]:
        """Return the gradient of the total and its product with latent; (K, n) -> (K, n)."""
        odds = np.exp(latent)
        sums = np.add.reduce(odds, axis=0)
        by_odds = self.by_total * sums  # becomes b/(a + b Λ) − 1/(1 + Λ)
        by_odds += self.fixed
        sums += 1.0
        by_odds *= sums
        np.divide(self.difference, by_odds, out=by_odds)
        odds *= by_odds
        odds += self.labels
        product = float(np.vdot(odds, latent))
        if not math.isfinite(product):  # functions that exp is too large for
            odds = np.ascontiguousarray(self.outcomes.gradient(latent.T).T)
            product = float(np.vdot(odds, latent))
        return odds, product


def outcomes_of(codes: Codes, n_classes: int) -> Outcomes:
    """Prepare outcomes for many evaluations; codes (n,): classes, UNLABELLED and REJECTED."""
    labels = np.zeros((len(codes), n_classes))
    labelled = np.flatnonzero(codes >= 0)
    labels[labelled, codes[labelled]] = 1.0
    unlabelled = codes == UNLABELLED
    return Outcomes(labels, 1.0 - unlabelled, 1.0 * unlabelled, np.ones(n_classes))
