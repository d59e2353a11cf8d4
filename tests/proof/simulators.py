"""Generative processes in plain NumPy, written from the models' equations alone.

Nothing here comes from the package: a mistake that a sampler and its model's own simulator had in
common would pass every test that draws its data from that simulator.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr, logsumexp

NUGGET = 1e-6  # on the diagonal, relative to the variance: part of every model
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
LOG_WEIGHTS = np.log(WEIGHTS / WEIGHTS.sum())


class Draw(NamedTuple):
    """Parameters and data that belong together.

    rows, new_rows : (n, d) and (m, d)
    theta : (p,) log-parameters of the kernel
    phi : (q,) free parameters of the likelihood
    f, f_new : functions at the rows and at the new ones
    codes : (n,) classes
    seen : (n,) whether their labels are known
    """

    rows: np.ndarray
    new_rows: np.ndarray
    theta: np.ndarray
    phi: np.ndarray
    f: np.ndarray
    f_new: np.ndarray
    codes: np.ndarray
    seen: np.ndarray


def rbf(X, Y, theta):
    """exp θ₀ · exp(−½ Σ_j (x_j − y_j)² / exp(2 θ_j)), with one length-scale or one per column."""
    scale = np.exp(-np.asarray(theta[1:]))
    difference = (X[:, None, :] - Y[None, :, :]) * scale
    return np.exp(theta[0] - 0.5 * (difference**2).sum(axis=2))


def factor(X, theta):
    return np.linalg.cholesky(rbf(X, X, theta) + NUGGET * np.exp(theta[0]) * np.eye(len(X)))


# Labels by what z = f + ε does --------------------------------------------------------------------


def rank_among(z, cuts, width):
    """The number of cut points below z; −1 within half a width of one."""
    near = (np.abs(z[:, None] - cuts) < width / 2).any(axis=1)
    return np.where(near, -1, (z[:, None] > cuts).sum(axis=1))


def largest_by(z, margin):
    """The class of the largest; −1 where the second is within the margin."""
    order = np.sort(z, axis=1)
    return np.where(order[:, -1] - order[:, -2] > margin, z.argmax(axis=1), -1)


def draw_latent(rng, n, *, prior, n_functions, phi_prior, classify, rates, n_new=2, d=2):
    """θ, φ, f and labels, given that no row is in a null region; whole draws until one is right.

    classify : z, φ -> codes, −1 for a row in a null region
    rates : φ -> (K,) chance that the label of a class is missing
    """
    shape = (n + n_new,) if n_functions == 1 else (n + n_new, n_functions)
    X = rng.standard_normal((n + n_new, d))
    while True:
        theta = prior[0] + prior[1] * rng.standard_normal(len(prior[0]))
        phi = phi_prior[0] + phi_prior[1] * rng.standard_normal(len(phi_prior[0]))
        f = factor(X, theta) @ rng.standard_normal(shape)
        codes = classify(f[:n] + rng.standard_normal(f[:n].shape), phi)
        if (codes >= 0).all():
            seen = rng.random(n) >= np.asarray(rates(phi))[codes]
            return Draw(X[:n], X[n:], theta, phi, f[:n], f[n:], codes, seen)


def log_probit_classes(f):
    return np.stack([log_ndtr(-f), log_ndtr(f)], axis=-1)


def log_interval_classes(f, cuts, width):
    """log P(each rank | f): differences of Φ, in the tail where they keep their digits."""
    low = np.append(-np.inf, cuts + width / 2) - f[..., None]
    high = np.append(cuts - width / 2, np.inf) - f[..., None]
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    top, bottom = log_ndtr(high), log_ndtr(low)
    with np.errstate(divide="ignore"):
        return top + np.log1p(-np.exp(np.minimum(bottom - top, 0.0)))


def log_margin_classes(f, margin):
    """log P(z_k > z_i + margin for all i ≠ k | f), by Gauss–Hermite over the noise of z_k."""
    found = []
    for k in range(f.shape[-1]):
        ahead = f[..., k, None] - np.delete(f, k, axis=-1) - margin
        at_nodes = log_ndtr(NODES[:, None] + ahead[..., None, :]).sum(axis=-1)
        found.append(logsumexp(LOG_WEIGHTS + at_nodes, axis=-1))
    return np.stack(found, axis=-1)


def log_softmax(g):
    return g - logsumexp(g, axis=-1, keepdims=True)


def total(log_classes, codes, seen, log_rates=None):
    """The log-likelihood: labels of rows that are seen, and any class of the others.

    log_rates : (2, K) log of the chance that a label is seen, and that it is missing; None: nothing
    """
    of_seen, of_others = (0.0, 0.0) if log_rates is None else log_rates
    own = (log_classes + of_seen)[np.arange(len(codes)), codes]
    return float(np.where(seen, own, logsumexp(log_classes + of_others, axis=1)).sum())


def normalised(log_p):
    return np.exp(log_p - logsumexp(log_p, axis=-1, keepdims=True))


# Archipelago --------------------------------------------------------------------------------------


class Islands(NamedTuple):
    """A history of the process: n rows that were kept, M that were not.

    theta : (F, p); mixing : (q,) weights; mean, sd : of the base density, (d,) each
    rows, codes, g : (n, d), (n,), (n, K)
    rejections, g_rejected : (M, d), (M, K)
    new_rows, g_new : (m, d), (m, K)
    """

    theta: np.ndarray
    mixing: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    rows: np.ndarray
    codes: np.ndarray
    g: np.ndarray
    rejections: np.ndarray
    g_rejected: np.ndarray
    new_rows: np.ndarray
    g_new: np.ndarray


def mixing_matrix(weights, n_classes):
    A = np.eye(n_classes)
    A[np.tril_indices(n_classes, -1)] = weights if len(weights) else 0.0
    return A / np.sqrt((A**2).sum(axis=1, keepdims=True))


def draw_islands(
    rng, n, n_classes, prior, *, own_kernels=False, dependent=False, base=None, limit=1000, n_new=2
):
    """Algorithm 1 of the paper, one proposal at a time; the functions at new rows are drawn first.

    base : None for a standard normal, or (centre, strength, scale, df) of one column, by which the
        base density is drawn: σ² ~ IG(df/2, scale/2), m ~ N(centre, σ²/strength)
    limit : the most proposals; a longer history is given up, and all is drawn anew
    """
    d, K = (2 if base is None else 1), n_classes
    while True:
        F = K if own_kernels else 1
        theta = prior[0] + prior[1] * rng.standard_normal((F, len(prior[0])))
        mixing = rng.standard_normal(K * (K - 1) // 2 if dependent else 0)
        A = mixing_matrix(mixing, K)
        mean, sd = np.zeros(d), np.ones(d)
        if base is not None:
            centre, strength, scale, df = base
            sd = np.sqrt(scale / rng.chisquare(df)) * np.ones(1)
            mean = centre + sd * rng.standard_normal(1) / np.sqrt(strength)
        new_rows = mean + sd * rng.standard_normal((n_new, d))
        history = _Growing(theta, K, n_new + limit)
        for x in new_rows:
            history.add(rng, x)
        outcomes = []
        while outcomes.count(True) < n and len(outcomes) < limit:
            g = A @ history.add(rng, mean + sd * rng.standard_normal(d))
            odds = np.append(np.exp(g), 1.0)
            outcome = rng.choice(K + 1, p=odds / odds.sum())
            history.classes.append(outcome)
            outcomes.append(outcome < K)
        if outcomes.count(True) == n:
            break
    kept = np.array(outcomes)
    X, g, classes = history.X[n_new:], history.u[n_new:] @ A.T, np.array(history.classes)
    return Islands(
        theta, mixing, mean, sd, X[kept], classes[kept], g[kept], X[~kept], g[~kept],
        new_rows, history.u[:n_new] @ A.T,
    )  # fmt: skip


class _Growing:
    """Independent functions u, drawn at one row after the other given all earlier ones."""

    def __init__(self, theta, n_functions, size):
        self.theta, self.K = theta, n_functions
        self.X, self.u = np.zeros((0, 0)), np.zeros((0, n_functions))
        self.lower = np.zeros((len(theta), size, size))
        self.noise = np.zeros((size, n_functions))
        self.classes = []

    def add(self, rng, x):
        t, new = len(self.u), rng.standard_normal(self.K)
        u = np.empty(self.K)
        for f, theta in enumerate(self.theta):
            k = slice(None) if len(self.theta) == 1 else slice(f, f + 1)
            reach, variance = np.zeros(t), np.exp(theta[0]) * (1 + NUGGET)
            if t:
                lower = self.lower[f, :t, :t]
                across = rbf(self.X, x[None], theta)[:, 0]
                reach = solve_triangular(lower, across, lower=True, check_finite=False)
            deviation = np.sqrt(max(variance - reach @ reach, 1e-12))
            self.lower[f, t, :t], self.lower[f, t, t] = reach, deviation
            u[k] = reach @ self.noise[:t, k] + deviation * new[k]
        self.noise[t] = new
        self.X = x[None] if t == 0 else np.concatenate([self.X, x[None]])
        self.u = np.concatenate([self.u, u[None]])
        return u


def islands_log_likelihood(g, codes, seen, g_rejected):
    """Labelled rows exp g_l/(1 + Λ), others Λ/(1 + Λ), rejections 1/(1 + Λ)."""
    log_any = logsumexp(g, axis=1)
    top = np.where(seen, g[np.arange(len(g)), codes], log_any)
    rejected = -np.logaddexp(0.0, logsumexp(g_rejected, axis=1)).sum() if len(g_rejected) else 0.0
    return float((top - np.logaddexp(0.0, log_any)).sum() + rejected)
