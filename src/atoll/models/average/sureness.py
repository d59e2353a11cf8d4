"""How sure the average should be, by labels that it has not seen.

An average is made surer by a power γ (see `pooling`). How much surer it should be depends on how
its parts differ, and labels tell: the average is asked for each label i without it, which gives
probabilities q_i, and

    log γ ~ N(m, s²),   P(labels | γ) = Π_i q_i(γ),   q_i(γ) that of label i to the power γ.

Where nothing can be learnt the labels say so, and γ falls: it makes the average less sure, too.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from atoll.models.average import pooling

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

N_POWERS = 31  # that are averaged over


def power(
    held_out: Array, codes: Codes, counts: Array, shares: Array, log_power: float, spread: float
) -> float:
    """Return the power by which probabilities are made surer, given how they foretold labels.

    Parameters
    ----------
    held_out : (l, K) probabilities of rows, each without its own label
    codes : (l,) the labels
    counts : (l,) how often each counts
    shares : (K,) that stay as they are
    log_power, spread : m and s

    Returns
    -------
    float
        The exponential of the mean of log γ.

    Examples
    --------
    >>> p, codes = np.tile([[0.6, 0.4], [0.4, 0.6]], (20, 1)), np.tile([0, 1], 20)
    >>> counts, shares = np.ones(40), np.full(2, 0.5)
    >>> round(power(p, codes, counts, shares, 0.0, 0.3), 2)  # right every time
    2.53
    >>> round(power(p, 1 - codes, counts, shares, 0.0, 0.3), 2)  # wrong every time
    0.6
    """
    nodes, weights = hermegauss(N_POWERS)
    log_powers = log_power + spread * nodes
    own = np.arange(len(codes)), codes
    log_p = [
        counts @ np.log(np.maximum(pooling.sharpened(held_out, shares, one)[own], pooling.TINY))
        for one in np.exp(log_powers)
    ]
    weights = weights * np.exp(np.array(log_p) - max(log_p))
    return float(np.exp(weights @ log_powers / weights.sum()))
