"""Assumed-density filtering for one function: every row once (Lawrence & Jordan 2005, section 4).

A row joins the posterior by the Gaussian with the mean and variance of posterior times likelihood;
`ep.py`, whose notation this is, comes back to it. Of n rows d may be taken, each where it tells
most about the function: the active set of the informative vector machine (Lawrence, Seeger &
Herbrich 2003), in O(n d²) time and O(n d) memory. What a row would tell is the entropy that it
takes from its own latent value, −½ log(1 + v c), from its variance v and the second derivative c of
its log likelihood: of all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.regions import Regions
from atoll.inference.ep import SMALLEST_SHRINKAGE, Sites, check_options, matching_sites

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class Filtered(NamedTuple):
    """What one pass over d of n rows leaves.

    rows : (d,) in the order taken
    sites : (d,) of these rows
    mean, variance : (n,) of f at every row
    cavity_mean, cavity_variance : (d,) of a row before it was taken
    gains : (d,) entropy that a row took, in nats
    log_evidence : log of the product of P(row | rows before it)
    n_negative : rows whose likelihood asked for a negative precision when taken
    """

    rows: Rows
    sites: Sites
    mean: Array
    variance: Array
    cavity_mean: Array
    cavity_variance: Array
    gains: Array
    log_evidence: float
    n_negative: int


def filter_rows(
    column: Callable[[int], Array],
    diagonal: Array,
    regions: Regions,
    n_steps: int | None = None,
    *,
    order: Rows | None = None,
    first: NDArray[np.bool_] | None = None,
    negative: str = "zero",
    noise_variance: float = 1.0,
) -> Filtered:
    """Take `n_steps` rows into the posterior, the most telling first, or as `order` has them.

    Parameters
    ----------
    column : row i -> covariances of f at i with f at all rows, (n,)
    diagonal : (n,) prior variances
    regions : of all n rows
    n_steps : d; None for all
    order : (d,) rows to take in turn, in place of the most telling
    first : (n,) rows to take before any other, the most telling of them first
    negative, noise_variance : as in `ep.propagate`

    Examples
    --------
    >>> from atoll.core.regions import Intervals
    >>> C = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> positive = Intervals(np.zeros((3, 1)), np.full((3, 1), np.inf), np.zeros((3, 1)))
    >>> filter_rows(lambda i: C[i], np.ones(3), positive, 2).rows.tolist()  # 1 is much like 0
    [0, 2]
    """
    check_options(negative, "parallel")
    n = len(diagonal)
    d = min(n if n_steps is None else n_steps, n) if order is None else len(order)
    mean, variance = np.zeros(n), diagonal.astype(float)
    factors, signs = np.empty((d, n)), np.empty(d)  # covariance = C − Σ_j sign_j factor_j factor_jᵀ
    rows = np.empty(d, dtype=np.intp)
    taken = np.zeros(n, dtype=bool)
    steps = np.empty((6, d))  # τ, ν, cavity mean and variance, gain, log P
    n_negative = 0
    n_first = 0 if first is None else int(first.sum())
    for k in range(d):
        slopes = regions.gradients(mean, np.sqrt(noise_variance + variance))
        curvature = slopes.curvature
        if order is None:
            gains = -0.5 * np.log(np.maximum(1.0 + variance * curvature, SMALLEST_SHRINKAGE))
            gains[taken] = -np.inf
            if first is not None and k < n_first:
                gains[~first] = -np.inf
            i = int(np.argmax(gains))
        else:
            i = int(order[k])
        rows[k], taken[i] = i, True
        g, c = slopes.mean[i], curvature[i]
        n_negative += bool(c > 0)
        if negative == "zero":
            c = min(c, 0.0)
        m, v = mean[i], variance[i]
        c = max(c, (SMALLEST_SHRINKAGE - 1.0) / v)
        steps[:2, k] = matching_sites(m, v, g, c)
        steps[2:, k] = m, v, -0.5 * np.log1p(v * c), slopes.log_probability[i]
        s = column(i) - (signs[:k] * factors[:k, i]) @ factors[:k]
        factors[k], signs[k] = np.sqrt(abs(c)) * s, -np.sign(c)
        mean += g * s
        variance += c * s**2
        np.maximum(variance, SMALLEST_SHRINKAGE * diagonal, out=variance)  # rounding
    return Filtered(
        rows,
        Sites(steps[0], steps[1]),
        mean,
        variance,
        steps[2],
        steps[3],
        steps[4],
        float(steps[5].sum()),
        n_negative,
    )
