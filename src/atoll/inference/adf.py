"""Assumed-density filtering for one function: every row once (Lawrence & Jordan 2005, section 4).

When a row is taken, posterior times likelihood is replaced by the Gaussian with the same mean and
variance. Each row is visited once, whereas `ep.py`, whose notation is used here, revisits them.
Taking only d of the n rows, each time the most informative one, gives the active set of the
informative vector machine (Lawrence, Seeger & Herbrich 2003) in O(n d²) time and O(n d) memory. A
row's information is the entropy that it would remove from its own latent value, −½ log(1 + v c),
where v is the variance of that value and c the second derivative of the row's log likelihood; it is
computed for all rows at once.
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
    """The result of one pass that takes d of n rows.

    rows : (d,) the rows, in the order in which they were taken
    sites : (d,) the sites of these rows
    mean, variance : (n,) of f at every row
    cavity_mean, cavity_variance : (d,) moments of f at each row just before the row was taken
    gains : (d,) entropy that each row removed, in nats
    log_evidence : log of the product of P(row | rows before it)
    n_negative : number of rows whose likelihood asked for a negative precision when taken
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
    """Take `n_steps` rows into the posterior: always the most informative one, or as `order` says.

    Parameters
    ----------
    column : row i -> covariances of f at row i with f at all rows, (n,)
    diagonal : (n,) prior variances of f
    regions : the regions of all n rows
    n_steps : d; None takes all rows
    order : (d,) rows to take in this order, instead of the most informative ones
    first : (n,) mask of rows to take before all others, the most informative of them first
    negative : "zero" or "allow", what becomes of a negative precision
    noise_variance : σ² of ε

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
