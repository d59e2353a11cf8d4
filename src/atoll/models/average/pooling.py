"""What an average of probabilities loses, given back.

Experts that are each calibrated and see different things are less sure together than they should
be: the average of their probabilities is too humble, whatever the weights (Ranjan & Gneiting,
"Combining probability forecasts", 2010). A power makes it surer,

    q_c ∝ s_c (p_c / s_c)^γ,   s the shares of the classes,

so that a row of which nothing is known keeps the shares. See `sureness` on how γ is found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

Array = NDArray[np.float64]

TINY = 1e-300
MOST_INTERCEPT = 30.0  # at which the search for one begins, at most


def sharpened(proba: Array, shares: Array, power: float) -> Array:
    """Return probabilities that are surer than given ones by a power; (m, K) -> (m, K).

    Parameters
    ----------
    proba : (m, K) up to a factor of each row
    shares : (K,) that stay as they are
    power : γ; one changes nothing, 1/γ undoes γ

    Examples
    --------
    >>> sharpened(np.array([[0.5, 0.25, 0.25]]), np.full(3, 1 / 3), 2.0).round(3)
    array([[0.667, 0.167, 0.167]])
    """
    if power == 1.0:
        return proba / proba.sum(axis=1, keepdims=True)
    log_ratio = np.log(np.maximum(proba, TINY)) - np.log(shares)
    log_ratio -= log_ratio.max(axis=1, keepdims=True)
    out = shares * np.exp(power * log_ratio)
    return out / out.sum(axis=1, keepdims=True)


def shifted(proba: Array, intercepts: Array | None) -> Array:
    """Return probabilities (m, K) whose logs have an intercept (K,) added; None changes nothing.

    This is what a class's share does to a posterior that was found under another one: Saerens,
    Latinne and Decaestecker, "Adjusting the outputs of a classifier to new a priori
    probabilities" (2002).

    Examples
    --------
    >>> shifted(np.array([[0.5, 0.5]]), np.log([0.1, 0.9])).round(3)
    array([[0.1, 0.9]])
    """
    if intercepts is None:
        return proba
    log_p = np.log(np.maximum(proba, TINY)) + intercepts
    out = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    return out / out.sum(axis=1, keepdims=True)


def intercepts_for(proba: Array, shares: Array) -> Array:
    """Return the intercepts under which the mean of probabilities (m, K) is given shares (K,).

    They are where Σ_rows log Σ_c p_c e^{b_c} − m Σ_c s_c b_c, which is convex, is least. The mean
    of the intercepts is zero. A share that no intercept can reach is come near to.

    Examples
    --------
    >>> p = np.array([[0.2, 0.8], [0.6, 0.4]])
    >>> shifted(p, intercepts_for(p, np.array([0.1, 0.9]))).mean(axis=0).round(6)
    array([0.1, 0.9])
    """
    log_p = np.log(np.maximum(proba, TINY))
    K = proba.shape[1]
    basis = np.eye(K)[:, 1:] - 1.0 / K  # the intercepts sum to zero

    def value(x: Array) -> tuple[float, Array]:
        moved = log_p + basis @ x
        total = logsumexp(moved, axis=1)
        mean = np.exp(moved - total[:, None]).mean(axis=0)
        return float(total.mean() - shares @ (basis @ x)), basis.T @ (mean - shares)

    def curvature(x: Array) -> Array:
        p = softmax(log_p + basis @ x, axis=1)
        return basis.T @ (np.diag(p.mean(axis=0)) - p.T @ p / len(p)) @ basis

    start = np.log(np.maximum(shares, TINY)) - np.log(proba.mean(axis=0))
    start = np.clip(start - start[0], -MOST_INTERCEPT, MOST_INTERCEPT)[1:]
    found = minimize(
        value, start, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-9}
    )
    return np.asarray(basis @ found.x)


def carried(draws: Array, before: Array, after: Array) -> Array:
    """Move draws whose mean is one table of probabilities so that it becomes another.

    A class that is to lose keeps the same part of what it has in every draw; what is lost goes to
    the classes that are to gain. This is linear in the draws, so that their mean moves as asked.

    Parameters
    ----------
    draws : (n, m, K) rows of probabilities
    before, after : (m, K) their mean, and what it is to be
    """
    kept = np.minimum(after / np.maximum(before, TINY), 1.0)
    gains = np.maximum(after - before, 0.0)
    total = gains.sum(axis=1, keepdims=True)
    gains = np.divide(gains, total, out=np.zeros_like(gains), where=total > 0)
    kept = np.where(total > 0, kept, 1.0)
    left = draws * kept
    return left + (draws - left).sum(axis=2, keepdims=True) * gains
