"""Functions such as log Φ at shifted copies of the same nodes, by polynomials.

Quadrature over products of Φ(u_j + t) needs them at all nodes u_j and at very many offsets t. They
are smooth in t: on every interval of length one half, a Chebyshev polynomial of degree eight gives
log Φ and φ/Φ to 1e-11, one of degree ten Φ to 1e-14, and one product of matrices gives them at all
nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

Array = NDArray[np.float64]

DEGREE, WIDTH = 8, 0.5
DEGREE_OF_MASSES = 10
LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


def _in_logs(x: Array) -> tuple[Array, ...]:
    """Return log Φ and φ/Φ."""
    log_below = log_ndtr(x)
    return log_below, np.exp(-0.5 * x * x - LOG_SQRT_2PI - log_below)


def _masses(x: Array) -> tuple[Array, ...]:
    """Return Φ alone."""
    return (ndtr(x),)


class NodeTables:
    """Polynomials for given nodes, and for offsets within limits.

    Parameters
    ----------
    nodes : (G,) u
    low, high : limits of the offsets, whole numbers; an offset beyond one is moved to it
    functions : x -> as many arrays of its shape as there are functions; log Φ and φ/Φ
    degree : of the polynomials

    Examples
    --------
    >>> tables = NodeTables(np.array([-1.0, 0.0]), -4, 4)
    >>> log_below, hazard = tables.at(np.array([0.3]))
    >>> np.exp(log_below).round(6), hazard.round(6)   # Φ, and φ/Φ, at -0.7 and 0.3
    (array([[0.241964, 0.617911]]), array([[1.290499, 0.617221]]))
    """

    def __init__(
        self,
        nodes: NDArray[np.floating],
        low: int,
        high: int,
        functions: Callable[[Array], tuple[Array, ...]] = _in_logs,
        degree: int = DEGREE,
    ):
        self.low, self.high, self.n_nodes, self.degree = low, high, len(nodes), degree
        z = chebyshev.chebpts1(degree + 1)
        self.n_intervals = round((high - low) / WIDTH)
        offsets = low + WIDTH * (np.arange(self.n_intervals)[:, None] + 0.5 * (z + 1.0))
        values = functions(offsets[..., None] + nodes)  # (intervals, points, G) each
        self.n_functions = len(values)
        from_values = np.linalg.inv(chebyshev.chebvander(z, degree))
        self._coefficients = from_values @ np.concatenate(values, axis=2)

    def at(self, offsets: Array) -> tuple[Array, ...]:
        """Return each function at u + t; offsets t (r,) -> (r, G) each."""
        t = (np.clip(offsets, self.low, self.high) - self.low) / WIDTH
        interval = np.minimum(t.astype(np.intp), self.n_intervals - 1)
        order = np.argsort(interval, kind="stable")
        t, interval = t[order], interval[order]
        powers = _chebyshev_powers(2.0 * (t - interval) - 1.0, self.degree)
        ends = np.searchsorted(interval, np.arange(self.n_intervals + 1)).tolist()
        sorted_out = np.empty((len(t), self.n_functions * self.n_nodes))
        for i, (first, last) in enumerate(pairwise(ends)):
            if first < last:
                np.matmul(powers[first:last], self._coefficients[i], out=sorted_out[first:last])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        out = sorted_out.take(place, axis=0)
        return tuple(
            out[:, k * self.n_nodes : (k + 1) * self.n_nodes] for k in range(self.n_functions)
        )


def _chebyshev_powers(x: Array, degree: int) -> Array:
    """Return Chebyshev's polynomials up to a degree, at least one, (r, degree + 1).

    As `chebvander`, without its checks, which take as long again on few numbers.
    """
    out = np.empty((degree + 1, len(x)))
    out[0], out[1] = 1.0, x
    twice = 2.0 * x
    for k in range(2, degree + 1):
        np.multiply(out[k - 1], twice, out=out[k])
        out[k] -= out[k - 2]
    return np.ascontiguousarray(out.T)


@lru_cache(maxsize=8)
def tables_for(first: float, step: float, count: int, low: int, high: int) -> NodeTables:
    """Return tables for nodes `first`, `first` + `step`, … of that count, made once."""
    return NodeTables(first + step * np.arange(count), low, high)


@lru_cache(maxsize=8)
def mass_tables_for(first: float, step: float, count: int, low: int, high: int) -> NodeTables:
    """Return tables of Φ for nodes `first`, `first` + `step`, … of that count, made once."""
    return NodeTables(first + step * np.arange(count), low, high, _masses, DEGREE_OF_MASSES)
