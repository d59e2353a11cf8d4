"""Ranks of true values among posterior draws, and tests that they are uniform."""

from __future__ import annotations

import numpy as np
from scipy import stats

N_BINS = 16


def rank(rng, truth, draws):
    """The rank of a number among draws (L,); ties are broken at random, −1 if any is not finite."""
    draws = np.asarray(draws, dtype=float)
    if not (np.isfinite(truth) and np.isfinite(draws).all()):
        return -1
    return int((draws < truth).sum() + rng.integers(0, (draws == truth).sum() + 1))


def uniformity(ranks, n_draws):
    """p-values of ranks (N,) in 0 … n_draws: chi-square, and z-scores of their place and spread.

    Under uniform ranks r, u = (r − L/2) / √(L(L+2)/12) has mean 0 and mean square 1.
    """
    ranks = np.asarray(ranks)
    if len(ranks) == 0:
        return 1.0, 0.0, 0.0
    if (ranks < 0).any():
        return 0.0, np.inf, np.inf
    L, N = n_draws, len(ranks)
    bins = min(N_BINS, L + 1)
    counts = np.bincount(ranks * bins // (L + 1), minlength=bins)
    expected = np.bincount(np.arange(L + 1) * bins // (L + 1)) * N / (L + 1)
    every = (np.arange(L + 1) - L / 2) / np.sqrt(L * (L + 2) / 12)
    u = every[ranks]
    spread = np.sqrt((every**4).mean() - 1.0)
    place = float(u.mean() * np.sqrt(N))
    width = float(((u**2).mean() - 1.0) * np.sqrt(N) / spread)
    return float(stats.chisquare(counts, expected).pvalue), place, width
