"""log Φ and φ/Φ at shifted copies of the same nodes, by polynomials.

Quadrature over products of Φ(u_j + t) needs them at all nodes u_j and at very many offsets t. Both
are smooth in t: on every interval of length one half, a Chebyshev polynomial of degree eight gives
them to 1e-11, and one product of matrices gives them at all nodes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import log_ndtr

Array = NDArray[np.float64]

DEGREE, WIDTH = 8, 0.5
LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


class NodeTables:
    """Polynomials for given nodes, and for offsets within limits.

    Parameters
    ----------
    nodes : (G,) u
    low, high : limits of the offsets, whole numbers; an offset beyond one is moved to it

    Examples
    --------
    >>> tables = NodeTables(np.array([-1.0, 0.0]), -4, 4)
    >>> log_below, hazard = tables.at(np.array([0.3]))
    >>> np.exp(log_below).round(6), hazard.round(6)   # Φ, and φ/Φ, at -0.7 and 0.3
    (array([[0.241964, 0.617911]]), array([[1.290499, 0.617221]]))
    """

    def __init__(self, nodes: NDArray[np.floating], low: int, high: int):
        self.low, self.high, self.n_nodes = low, high, len(nodes)
        z = chebyshev.chebpts1(DEGREE + 1)
        self.n_intervals = round((high - low) / WIDTH)
        offsets = low + WIDTH * (np.arange(self.n_intervals)[:, None] + 0.5 * (z + 1.0))
        x = offsets[..., None] + nodes  # (intervals, points, G)
        log_below = log_ndtr(x)
        hazard = np.exp(-0.5 * x * x - LOG_SQRT_2PI - log_below)
        from_values = np.linalg.inv(chebyshev.chebvander(z, DEGREE))
        self._coefficients = from_values @ np.concatenate([log_below, hazard], axis=2)

    def at(self, offsets: Array) -> tuple[Array, Array]:
        """Return log Φ(u + t) and φ(u + t)/Φ(u + t); offsets t (r,) -> (r, G) each."""
        t = (np.clip(offsets, self.low, self.high) - self.low) / WIDTH
        interval = np.minimum(t.astype(np.intp), self.n_intervals - 1)
        order = np.argsort(interval, kind="stable")
        t, interval = t[order], interval[order]
        powers = np.ascontiguousarray(chebyshev.chebvander(2.0 * (t - interval) - 1.0, DEGREE))
        ends = np.searchsorted(interval, np.arange(self.n_intervals + 1))
        out = np.empty((len(t), 2 * self.n_nodes))
        for i in np.flatnonzero(np.diff(ends)):
            rows = slice(ends[i], ends[i + 1])
            out[order[rows]] = powers[rows] @ self._coefficients[i]
        return out[:, : self.n_nodes], out[:, self.n_nodes :]


@lru_cache(maxsize=8)
def tables_for(first: float, step: float, count: int, low: int, high: int) -> NodeTables:
    """Return tables for nodes `first`, `first` + `step`, … of that count, made once."""
    return NodeTables(first + step * np.arange(count), low, high)
