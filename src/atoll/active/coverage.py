"""Rows that stand for many others, chosen without a model and so without any label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

Array = NDArray[np.float64]
Index = NDArray[np.intp]

MOST_CLUSTERS = 100
NEAREST = 20  # nearest rows whose distance says how typical a row is
UNLIKE_SCALES = 10.0  # ratio of the columns' ranges: of their ninth decile to the first


def comparable(X: Any) -> Array | None:
    """Return rows as numbers in comparable units, (n, d); None where they are not numbers.

    Columns are divided by their standard deviations where their ranges are unlike, by a factor of
    ten; pixels and other columns of one unit are left as they are.
    """
    if sparse.issparse(X):
        return None
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if rows.ndim != 2 or not np.isfinite(rows).all():
        return None
    ranges = np.ptp(rows, axis=0)
    ranges = ranges[ranges > 0]
    if len(ranges) < 2:
        return rows
    low, high = np.quantile(ranges, [0.1, 0.9], method="nearest")
    if high < UNLIKE_SCALES * low:
        return rows
    scale = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(scale > 0, scale, 1.0)


def typical_rows(
    features: Array, labelled: Array, candidates: Index, n: int, rng: np.random.Generator
) -> tuple[Index, Array]:
    """Return the most typical row of each large cluster that has no label yet.

    There are as many clusters as labels and rows asked for together; a row is as typical as its
    nearest rows are near (G. Hacohen, A. Dekel and D. Weinshall, "Active learning on a budget:
    opposite strategies suit high and low budgets", 2022).

    Parameters
    ----------
    features : (m, d) unlabelled rows
    labelled : (l, d) labelled rows
    candidates : (c,) rows that may be chosen
    n : how many

    Returns
    -------
    chosen : (n,) of the rows 0..m−1, all of them candidates, the best first
    scores : (n,) the clusters' sizes
    """
    from sklearn.cluster import KMeans  # imported late: it is slow to import

    m = len(features)
    n = min(n, len(candidates))
    n_clusters = min(len(labelled) + n, MOST_CLUSTERS, len(np.unique(features, axis=0)))
    found = KMeans(n_clusters, n_init=1, random_state=int(rng.integers(2**31))).fit(features)
    cluster = found.labels_
    spread = _distance_to_nearest(features)
    n_labels = np.zeros(n_clusters, int)
    if len(labelled):
        n_labels += np.bincount(found.predict(labelled), minlength=n_clusters)
    size = np.bincount(cluster, minlength=n_clusters)
    free = np.zeros(m, bool)
    free[candidates] = True
    chosen: list[int] = []
    scores: list[float] = []
    for _ in range(n):
        able = np.bincount(cluster[free], minlength=n_clusters) > 0
        # The fewest labels first, then the most rows.
        rank = np.where(able, size / size.max() - 2.0 * n_labels, -np.inf)
        best = int(np.argmax(rank))
        inside = np.flatnonzero((cluster == best) & free)
        row = int(inside[np.argmin(spread[inside])])
        chosen.append(row)
        scores.append(float(size[best]))
        free[row] = False
        n_labels[best] += 1
    return np.array(chosen, dtype=np.intp), np.array(scores)


def random_rows(candidates: Index, n: int, rng: np.random.Generator) -> tuple[Index, Array]:
    """Return n candidates at random; their scores are all one."""
    chosen = rng.choice(candidates, min(n, len(candidates)), replace=False)
    return chosen, np.ones(len(chosen))


def _distance_to_nearest(features: Array) -> Array:
    """Return the mean distance of each row to its nearest ones, (m,)."""
    k = min(NEAREST, len(features) - 1)
    if k < 1:
        return np.zeros(len(features))
    distances = NearestNeighbors(n_neighbors=k).fit(features).kneighbors()[0]
    return distances.mean(axis=1)
