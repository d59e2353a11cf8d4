"""Differences of classes' functions as a prior for expectation propagation, in its own structure.

A label y says that u_k = z_y − z_k > 0 for every other class k, K − 1 differences a row. Of l rows
their covariance is one matrix of l (K − 1) rows, whose factor takes the third power of that. But
differences of other classes have little in common. With g_n = f_y(x_n) + ε_n, the own function of
row n and its noise,

    u_nk = g_n − h_nk,    h_k = W_k g + e_k,    Cov(u) = F Cov(g) Fᵀ + blocks(H_k),

where h_k is f_k at the rows of other classes, W_k g its mean given the functions of the rows of
class k, and H_k, one block a class, what is left of its covariance. A posterior given sites then
takes K factors of l rows, and one more: time O(K l³) in place of O(K³ l³).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import cholesky_inverse, jittered_cholesky, solve_lower
from atoll.core.memory import in_chunks
from atoll.inference.ep import FAINT, LEAST_PRECISION, Sites

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


class Contrasts(NamedTuple):
    """The prior covariance of differences u, row by row, the other classes of a row in order.

    places : of each class k the numbers of its differences, in all K of them every one
    blocks : of each class H_k, the covariance of its own part
    shared : (l (K−1), l) F times a factor of Cov(g)
    """

    places: Sequence[Codes]
    blocks: Sequence[Array]
    shared: Array

    def posterior(self, sites: Sites) -> ContrastsPosterior:
        """Return the posterior of the differences under sites, and its cavities."""
        tau, nu = np.maximum(sites.precision, LEAST_PRECISION), sites.shift
        root = np.sqrt(tau)
        own, half_log_det = [], 0.0
        seen = root[:, None] * self.shared
        solved = np.empty_like(seen)
        for at, H in zip(self.places, self.blocks):
            r = root[at]
            lower = jittered_cholesky(np.eye(len(at)) + r[:, None] * H * r).lower
            own.append(cholesky_inverse(lower))
            half_log_det += float(np.log(np.diagonal(lower)).sum())
            solved[at] = own[-1] @ seen[at]
        lower = jittered_cholesky(np.eye(seen.shape[1]) + seen.T @ solved).lower
        half_log_det += float(np.log(np.diagonal(lower)).sum())
        inverse = Inverse(self.places, own, solve_lower(lower, solved.T).T)

        weights = root * inverse.times(nu / root)
        mean = self.times(weights)
        b = np.clip(inverse.diagonal(), 1e-300, 1.0 - 1e-15)
        v = (1.0 / b - 1.0) / tau
        faint = np.flatnonzero(1.0 - b < FAINT)  # 1/b − 1 has no digits left
        for piece in in_chunks(len(faint), len(tau)):
            rows = faint[piece]
            half = self.rows(rows) * root
            s = self.diagonal()[rows] - np.einsum("ij,ij->i", inverse.times(half.T).T, half)
            v[rows] = np.where(s > 0, s / (1.0 - tau[rows] * s), v[rows])
        m = mean * (1.0 + tau * v) - nu * v
        s = v / (1.0 + tau * v)
        return ContrastsPosterior(Sites(tau, nu), weights, mean, s, m, v, half_log_det, inverse)

    def times(self, right: Array) -> Array:
        """Return the covariance times (l (K−1),) or (l (K−1), m)."""
        out = self.shared @ (self.shared.T @ right)
        for at, H in zip(self.places, self.blocks):
            out[at] += H @ right[at]
        return out

    def rows(self, wanted: Codes) -> Array:
        """Return some rows of the covariance."""
        out = self.shared[wanted] @ self.shared.T
        for at, H in zip(self.places, self.blocks):
            _, ours, theirs = np.intersect1d(wanted, at, return_indices=True)
            out[np.ix_(ours, at)] += H[theirs]
        return out

    def diagonal(self) -> Array:
        """Return the variances."""
        out = (self.shared**2).sum(axis=1)
        for at, H in zip(self.places, self.blocks):
            out[at] += np.diagonal(H)
        return out


class Inverse(NamedTuple):
    """B^{-1}, B = I + τ^½ C τ^½: blocks of single classes less a square.

    places, blocks : as in `Contrasts`
    side : (l (K−1), l); side sideᵀ is subtracted
    """

    places: Sequence[Codes]
    blocks: Sequence[Array]
    side: Array

    def times(self, right: Array) -> Array:
        """Return B^{-1} times (l (K−1),) or (l (K−1), m)."""
        out = -(self.side @ (self.side.T @ right))
        for at, block in zip(self.places, self.blocks):
            out[at] += block @ right[at]
        return out

    def diagonal(self) -> Array:
        """Return the diagonal of B^{-1}."""
        out = -(self.side**2).sum(axis=1)
        for at, block in zip(self.places, self.blocks):
            out[at] += np.diagonal(block)
        return out


class ContrastsPosterior(NamedTuple):
    """The posterior under given sites, with what the iteration of `ep.propagate` asks of one."""

    sites: Sites
    weights: Array
    mean: Array
    variance: Array
    cavity_mean: Array
    cavity_variance: Array
    half_log_det: float
    inverse: Inverse
    n_limited: int = 0

    def site_inverse(self) -> Array:
        """Return (C + diag(1/τ))^{-1}, in full."""
        root = np.sqrt(self.sites.precision)
        out = -(self.inverse.side @ self.inverse.side.T)
        for at, block in zip(self.inverse.places, self.inverse.blocks):
            out[np.ix_(at, at)] += block
        out *= root
        out *= root[:, None]
        return out


def contrasts(gram: Array, codes: Codes, n_classes: int) -> Contrasts:
    """Return the prior of differences of classes at rows with covariance `gram` and these classes.

    Parameters
    ----------
    gram : (l, l) C, of each class's function
    codes : (l,) y in 0..K−1
    n_classes : K

    Examples
    --------
    >>> prior = contrasts(np.eye(2), np.array([0, 1]), 3)
    >>> prior.rows(np.arange(4))  # 0 less 1 and 0 less 2 at the first row, with the noise of 0
    array([[3., 2., 0., 0.],
           [2., 3., 0., 0.],
           [0., 0., 3., 2.],
           [0., 0., 2., 3.]])
    """
    C, y, K = gram, codes, n_classes
    l = len(y)  # noqa: E741
    row = np.repeat(np.arange(l), K - 1)
    other = np.concatenate([np.delete(np.arange(K), c) for c in y])
    own = np.where(y[:, None] == y, C, 0.0) + np.eye(l)  # Cov(g): classes are independent
    lower = jittered_cholesky(own).lower
    places, blocks = [], []
    shared = lower[row]
    for k in range(K):
        at, mine = np.flatnonzero(other == k), np.flatnonzero(y == k)
        n = row[at]
        factor = jittered_cholesky(own[np.ix_(mine, mine)]).lower
        reach = solve_lower(factor, C[np.ix_(mine, n)])
        W = solve_lower(factor, reach, transposed=True).T
        shared[at] -= W @ lower[mine]
        places.append(at)
        blocks.append(C[np.ix_(n, n)] - reach.T @ reach)
    return Contrasts(places, blocks, shared)
