"""What an average of probabilities loses, given back.

Experts that are each calibrated and see different things are less sure together than they should
be: the average of their probabilities is too humble, whatever the weights (Ranjan & Gneiting,
"Combining probability forecasts", 2010). A power makes it surer,

    q_c ∝ s_c (p_c / s_c)^γ,   s the shares of the classes,

so that a row of which nothing is known keeps the shares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TINY = 1e-300


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
