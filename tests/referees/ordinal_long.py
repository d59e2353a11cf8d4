"""The ordinal posterior of one data set by three samplers, in long runs.

    python tests/referees/ordinal_long.py docs/proof/ordinal.csv

The third sampler is in plain NumPy and shares nothing with the other two: elliptical slices of the
whitened function, and random walks of log-parameters and cut points, in many chains at once, so
that the spread over chains is the standard error.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from scipy.special import log_ndtr, ndtr

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from referees import compare

N, N_CLASSES, SEED = 30, 3, 0
NUGGET = 1e-6


class Posterior:
    """Log-likelihood, prior and class probabilities; parameters are θ (2,) and cut points (2,)."""

    def __init__(self, X, codes, new_rows, cut_prior):
        self.codes, self.n = codes, len(X)
        self.squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
        self.squares_new = ((X[:, None] - new_rows[None]) ** 2).sum(axis=2)
        self.mean, self.sd = map(np.concatenate, zip(compare.PRIOR, cut_prior))

    def correlation(self, squares, parameters):
        return np.exp(-0.5 * squares * np.exp(-2.0 * parameters[:, 1])[:, None, None])

    def factor(self, parameters):
        C = self.correlation(self.squares, parameters)
        C[:, np.arange(self.n), np.arange(self.n)] += NUGGET
        return np.exp(0.5 * parameters[:, 0])[:, None, None] * np.linalg.cholesky(C)

    def log_prior(self, parameters):
        return -0.5 * (((parameters - self.mean) / self.sd) ** 2).sum(axis=1)

    def log_likelihood(self, f, parameters):
        first = parameters[:, 2]
        ends = np.stack([np.full(len(f), -1e6), first, first + np.exp(parameters[:, 3]),
                         np.full(len(f), 1e6)], axis=1)  # fmt: skip
        low, high = ends[:, self.codes] - f, ends[:, self.codes + 1] - f
        turned = low > 0
        low, high = np.where(turned, -high, low), np.where(turned, -low, high)
        top, bottom = log_ndtr(high), log_ndtr(low)
        return (top + np.log(-np.expm1(np.minimum(bottom - top, -1e-300)))).sum(axis=1)

    def quantities(self, parameters, lower, white):
        """Parameters, their squares, and P(class 1), P(class 2) of the new rows; (chains, q)."""
        variance = np.exp(parameters[:, :1])
        across = variance[:, :, None] * self.correlation(self.squares_new, parameters)
        reach = np.linalg.solve(lower, across)
        mean = np.einsum("sij,si->sj", reach, white)
        sd = np.sqrt(1.0 + np.maximum(variance - (reach**2).sum(axis=1), 0.0))
        first = parameters[:, 2:3]
        below, up_to = (ndtr((b - mean) / sd) for b in (first, first + np.exp(parameters[:, 3:])))
        classes = np.stack([up_to - below, 1.0 - up_to], axis=2).reshape(len(mean), -1)
        return np.concatenate([parameters, parameters**2, classes], axis=1)


def slice_function(rng, target, f, white, lower, parameters, current):
    """Turn f and its whitened form on their ellipses, all chains at once."""
    along = rng.standard_normal(white.shape)
    f_along = np.einsum("sij,sj->si", lower, along)
    threshold = current + np.log1p(-rng.random(len(f)))
    angle = 2 * np.pi * rng.random(len(f))
    low, high = angle - 2 * np.pi, angle.copy()
    new_f, new_white, new = f.copy(), white.copy(), current.copy()
    left = np.arange(len(f))
    while len(left):
        c, s = np.cos(angle[left])[:, None], np.sin(angle[left])[:, None]
        proposal = c * f[left] + s * f_along[left]
        value = target.log_likelihood(proposal, parameters[left])
        good = value > threshold[left]
        done = left[good]
        new_f[done], new[done] = proposal[good], value[good]
        new_white[done] = (c * white[left] + s * along[left])[good]
        left = left[~good]
        is_low = angle[left] < 0
        low[left] = np.where(is_low, angle[left], low[left])
        high[left] = np.where(is_low, high[left], angle[left])
        angle[left] = low[left] + (high[left] - low[left]) * rng.random(len(left))
    return new_f, new_white, new


def third(target, n_chains=500, n_steps=4500, n_warmup=1200, seed=1):
    """Means of the quantities of all chains, and their standard errors."""
    rng = np.random.default_rng(seed)
    parameters = target.mean + target.sd * rng.standard_normal((n_chains, 4))
    white = rng.standard_normal((n_chains, target.n))
    lower = target.factor(parameters)
    f = np.einsum("sij,sj->si", lower, white)
    current, found, spread = target.log_likelihood(f, parameters), [], np.eye(4)
    for t in range(n_steps):
        for _ in range(2):
            f, white, current = slice_function(rng, target, f, white, lower, parameters, current)
        if t < n_warmup and t % 20 == 0:
            spread = np.linalg.cholesky(np.cov(parameters.T) + 1e-6 * np.eye(4))
        for held in ([], [1]):  # the second walk leaves the length-scale, and is cheap
            reach = rng.choice([0.15, 0.4, 1.0, 2.0], n_chains)[:, None]
            step = reach * (rng.standard_normal((n_chains, 4)) @ spread.T)
            step[:, held] = 0.0
            proposal = parameters + step
            scaled = np.exp(0.5 * step[:, 0])[:, None, None] * lower
            new_lower = scaled if held else target.factor(proposal)
            new_f = np.einsum("sij,sj->si", new_lower, white)
            value = target.log_likelihood(new_f, proposal)
            change = value + target.log_prior(proposal) - current - target.log_prior(parameters)
            good = np.log1p(-rng.random(n_chains)) < change
            parameters[good], f[good], current[good] = proposal[good], new_f[good], value[good]
            lower[good] = new_lower[good]
        if t >= n_warmup and t % 10 == 0:
            found.append(target.quantities(parameters, lower, white))
    by_chain = np.mean(found, axis=0)
    return by_chain.mean(axis=0), by_chain.std(axis=0) / np.sqrt(n_chains)


def main(file):
    X, codes, new_rows = compare.make_rows(N, N_CLASSES, SEED)
    long = compare.Lengths(
        {"n_chains": 4, "n_warmup": 200, "n_samples": 5000},
        {"n_chains": 4, "n_warmup": 500, "n_samples": 2500},
    )
    sides = compare.of_ordinal(N, SEED)
    both = compare.compare(sides.ours(long, 0), sides.theirs(long, 0))
    mean, error = third(Posterior(X, codes, new_rows, compare.cut_prior()))
    with open(file, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["quantity", "ours", "NUTS", "standard error of their difference", "score",
                         "third sampler", "its standard error"])  # fmt: skip
        rows = zip(both.names, both.ours, both.theirs, both.error, both.scores, mean, error)
        for name, *numbers in rows:
            writer.writerow([name, *(f"{x:.4f}" for x in numbers)])


if __name__ == "__main__":
    main(sys.argv[1])
