"""Where the engine starts: class probabilities from a graph, inducing inputs, points of π."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import chi2

from atoll.core.densities import (
    Blurred,
    Density,
    Gaussian,
    GaussianMixture,
    StudentT,
    WithConstants,
)
from atoll.core.graphs import neighbour_graph, self_tuning_weights
from atoll.core.labels import part_of_labels
from atoll.kernels.detailed import with_detail
from atoll.kernels.graph_spectral import graph_modes
from atoll.models import graph_gp
from atoll.models.archipelago.base import FEW_FEATURES
from atoll.models.archipelago.engine.posterior import Scaling, squared_exponential
from atoll.models.archipelago.engine.problem import Problem
from atoll.models.graph_gp import GraphLabels
from atoll.models.graph_posterior import GraphPosterior
from atoll.models.graph_recipe import RECIPE

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

GRAPH_ROWS = 2500  # of one graph
N_GRAPHS = 2  # of as many random parts of the rows, where one graph does not hold them all
GRAPH_DRAWS = 64  # of the functions on each graph
DOUBT = 0.02  # that the graph's probabilities leave to all classes alike
INDUCING_FROM_ROWS, INDUCING_FROM_BASE = 2500, 1024  # that inducing inputs are chosen from
LEAST_LEFT = 1e-12  # of a variance: less is lost in rounding
MOST_SOBOL = 1000  # dimensions; beyond, points of π are drawn independently
EDGE = 1e-7  # quantiles of π that quasi-random points do not pass


# Labels from a graph ------------------------------------------------------------------------------


def log_start(rng: np.random.Generator, problem: Problem) -> NDArray[np.float32]:
    """Return log class probabilities of the unlabelled rows, (u, K), by a process on their graph.

    Where one graph does not hold all rows, several of random parts are averaged in the log.
    """
    u, K = len(problem.rows), problem.n_classes
    if u == 0:
        return np.zeros((0, K), np.float32)
    known = np.flatnonzero(problem.label_weights > 0)
    chosen = known[part_of_labels(rng, problem.codes[known], GRAPH_ROWS // 2)]
    labelled, codes = problem.labelled[chosen], problem.codes[chosen]
    room = GRAPH_ROWS - len(codes)
    parts = [np.arange(u)] if u <= room else [rng.permutation(u)[:room] for _ in range(N_GRAPHS)]
    total = np.zeros((u, K))
    for part in parts:
        on_graph = np.concatenate([labelled, problem.rows[part]])
        found = graph_probabilities(rng, on_graph, codes, K, problem.rows)
        total += np.log((1.0 - DOUBT) * found + DOUBT / K)
    total /= len(parts)
    total -= np.logaddexp.reduce(total, axis=1, keepdims=True)
    return total.astype(np.float32)


def graph_probabilities(
    rng: np.random.Generator, rows: Array, codes: Codes, n_classes: int, X: Array
) -> Array:
    """Return class probabilities of X (m, d), (m, K), given labels of the first rows of a graph."""
    n_labels = len(codes)
    # A constant column's deviation may be a rounding error instead of zero.
    spread = np.where(np.ptp(rows, axis=0) > 0, rows.std(axis=0), 1.0)
    Y = rows / spread
    weights = self_tuning_weights(neighbour_graph(Y, min(15, len(Y) - 1)))
    modes = graph_modes(weights, RECIPE.prior.n_modes(n_classes), np.arange(len(Y)) < n_labels)
    v = graph_gp.row_features(modes, n_classes, n_labels)
    known = GraphLabels(v, np.arange(n_labels), codes, n_classes, weights)
    coefficients = graph_gp.infer(rng, known, GRAPH_DRAWS)
    posterior = GraphPosterior(Y, v, np.arange(len(Y)), coefficients, "euclidean")
    return np.exp(posterior.log_proba(X / spread))


# Inducing inputs ----------------------------------------------------------------------------------


def inducing_inputs(
    rng: np.random.Generator, problem: Problem, scaled: Scaling, n_inducing: int
) -> Array:
    """Return inducing inputs, (m, d), scaled, from rows and points of π.

    In the plane they are those that cover it best; with more features nothing can be covered, and
    they are k-means of where rows and points are.
    """
    rows = np.concatenate([problem.labelled, problem.rows[:INDUCING_FROM_ROWS]])
    n_base = INDUCING_FROM_BASE if len(rows) >= 1000 else INDUCING_FROM_BASE // 4
    candidates = scaled(np.concatenate([rows, base_points(rng, problem.base, n_base)]))
    distinct = candidates[np.sort(np.unique(candidates, axis=0, return_index=True)[1])]
    m = min(n_inducing, len(distinct))
    if candidates.shape[1] <= FEW_FEATURES:
        expected = problem.prior.mean - own_units(problem, scaled)
        return distinct[covering_rows(distinct, m, expected, problem.detail)]
    from sklearn.cluster import KMeans

    seed = int(rng.integers(2**31))
    return KMeans(m, n_init=1, max_iter=20, random_state=seed).fit(candidates).cluster_centers_


def covering_rows(X: Array, m: int, log_parameters: Array, detail: float) -> NDArray[np.intp]:
    """Return m rows, each the one at which those before it leave a function most open.

    A Cholesky factor of the correlation with that pivot (Burt, Rasmussen & van der Wilk 2020).

    Parameters
    ----------
    X : (n, d), all different
    m : at most n
    log_parameters, detail : of the correlation
    """
    left, lower = np.ones(len(X)), np.zeros((m, len(X)))
    chosen = np.zeros(m, dtype=np.intp)
    for j in range(m):
        i = chosen[j] = np.argmax(left)
        c = with_detail(squared_exponential(log_parameters, X[i : i + 1], X)[0], detail)
        lower[j] = (c - lower[:j, i] @ lower[:j]) / np.sqrt(left[i])
        left = np.maximum(left - lower[j] ** 2, LEAST_LEFT)
        left[chosen[: j + 1]] = 0.0
    return chosen


def scaling(problem: Problem) -> Scaling:
    """Return the scaling of a problem: one scale where there is one length-scale, else one each."""
    rows = np.concatenate([problem.labelled, problem.rows])
    deviation = rows.std(axis=0)
    varies = np.ptp(rows, axis=0) > 0
    typical = float(np.sqrt(np.mean(deviation[varies] ** 2))) if varies.any() else 1.0
    if len(problem.prior.mean) == 2:
        scale = np.full(rows.shape[1], typical)
    else:
        scale = np.where(varies, deviation, typical)
    return Scaling(rows.mean(axis=0), scale)


def own_units(problem: Problem, scaled: Scaling) -> Array:
    """Return what takes log-parameters of scaled rows to those of rows in their units, (p,)."""
    scales = scaled.scale if len(problem.prior.mean) > 2 else scaled.scale[:1]
    return np.append(0.0, np.log(scales))


# Points of π --------------------------------------------------------------------------------------


def base_points(rng: np.random.Generator, base: Density, n: int) -> Array:
    """Return n points of π, (n, d): quasi-random for the densities of this library.

    A Sobol net, scrambled anew in every call; for other densities, and in very many dimensions,
    independent draws.
    """
    d = _dimension(base)
    if d is None or d + 1 > MOST_SOBOL:
        return np.asarray(base.sample(rng, n), dtype=np.float64)
    from scipy.stats import qmc

    u = qmc.Sobol(d + 1, rng=rng).random_base2(int(np.ceil(np.log2(max(n, 2)))))[:n]
    return _transported(base, np.clip(u, EDGE, 1.0 - EDGE))


def _dimension(base: Any) -> int | None:
    """Return d of a density that can be had from uniform numbers, or None."""
    if isinstance(base, WithConstants):
        return _dimension(base.density)
    if isinstance(base, GaussianMixture):
        return base.means.shape[1]
    if isinstance(base, Blurred):
        return base.centres.shape[1]
    return len(base.mean) if isinstance(base, Gaussian | StudentT) else None


def _transported(base: Any, u: Array) -> Array:
    """Return points of a density from uniform numbers, (n, d + 1) -> (n, d)."""
    if isinstance(base, WithConstants):
        rows = np.tile(base.values, (len(u), 1))
        rows[:, base.varies] = _transported(base.density, u)
        return rows
    normal = ndtri(u[:, 1:])
    if isinstance(base, GaussianMixture):
        ends = np.cumsum(base.weights)
        component = np.searchsorted(ends / ends[-1], u[:, 0]).clip(0, len(ends) - 1)
        return base.means[component] + np.einsum("nij,nj->ni", base.lowers[component], normal)
    if isinstance(base, StudentT):
        normal *= np.sqrt(base.df / chi2.ppf(u[:, :1], base.df))
    scaled = normal * base.lower if base.lower.ndim == 1 else normal @ base.lower.T
    if isinstance(base, Blurred):
        return base.centres[(u[:, 0] * len(base.centres)).astype(int)] + scaled
    return base.mean + scaled
