"""What the nearest labels say of the graph's rows, where labels are very many.

If labels are very many, the graph's posterior takes only a part of them, and the few smooth
functions that it is made of cannot follow a border drawn by ten thousand labels. So the rows get
more features: at several scales k, the log shares of the classes among the k nearest labels. A
row's own label is left out, so that the posterior learns from its labels how far such features can
be trusted: if they say nothing, their coefficients stay small. The nearest labels also vote
directly: see `near_votes`.

Evidence compares what assumptions expect before any label. Here the graph would have seen most of
the labels beforehand, so a part of them is kept from all assumptions, which then count according to
how well they predict these labels given the others (Gneiting & Raftery 2007).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core import rows as rows_of
from atoll.core.labels import PartialLabels, part_of_labels
from atoll.estimators.atoll_rows import Judges, Rows, Scaled
from atoll.kernels.graph_spectral import nearest_rows
from atoll.models.average import heads
from atoll.models.average.average import Weighed
from atoll.models.average.near_votes import weighed_votes
from atoll.models.average.views import GraphView, View
from atoll.models.graph_posterior import FeaturePosterior
from atoll.models.graph_recipe import ChoiceRecipe

Array = NDArray[np.float64]
Index = NDArray[np.intp]

LEAST_RATIO = 1.25  # of all labels to those the posterior takes, so that enough are left to judge
SCALES = (20, 160)  # numbers of nearest labels that are counted
COUNT = 0.003  # added to the count of each class
UNIT = 0.3  # of the features: of the same order as the graph's own
MOST_LABELS = 50_000  # if there are more, a random part of them
MOST_JUDGES = 1000  # labels kept from all, at most half of those the posterior does not take
TINY = 1e-12  # smaller probabilities of a judge's label count as this


def takes_near_labels(view: GraphView, labels: PartialLabels, choice: ChoiceRecipe) -> bool:
    """Return whether there are many more labels than the posterior takes, and few enough features.

    Never if labels have weights, or groups share them: votes count every label once, and the labels
    that judge must not be among those that vote.
    """
    if labels.weights is not None or labels.is_spread is not None:
        return False
    K = len(labels.classes)
    n_features = view.values.shape[1] + len(SCALES) * (1 if K == 2 else K)
    many = labels.n_labelled >= LEAST_RATIO * choice.most_labels
    return many and n_features <= choice.most_features(K)


def with_near_labels(
    view: GraphView,
    X: Any,
    labels: PartialLabels,
    data: Rows,
    scaled: Scaled,
    labelled: Index,
    metric: str,
) -> tuple[GraphView, Rows]:
    """Return the graph with features of the nearest labels in front, and labels kept from all.

    Parameters
    ----------
    X : all rows
    labels : of all rows
    data : rows of the graph, with some of the labels
    scaled : how columns are scaled
    labelled : (l,) rows of X whose labels these are
    """
    rng, K = np.random.default_rng(0), len(labels.classes)
    every = np.flatnonzero(labels.is_labelled)
    every = every[part_of_labels(rng, labels.codes[every], MOST_LABELS)]
    rows = rows_of.rescaled(X[every], scaled.shift, scaled.scale, metric)
    if metric == rows_of.COSINE:
        usable = rows_of.has_direction(rows)
        every, rows = every[usable], rows[usable]
    spare = rng.permutation(np.flatnonzero(~np.isin(every, labelled)))
    kept = spare[: min(MOST_JUDGES, len(spare) // 2)]
    judges = Judges(rows[kept], labels.codes[every[kept]])
    others = np.setdiff1d(np.arange(len(every)), kept)
    every, rows = every[others], rows[others]
    # The row of the graph that a label is on, so far as the posterior takes it.
    on_graph = np.full(len(every), -1)
    _, here, there = np.intersect1d(every, labelled, return_indices=True)
    on_graph[here] = data.labelled[there]
    most = min(max(SCALES) + 1, len(every))
    nearest = nearest_rows(rows, data.rows, n_nearest=most).indices
    counted = on_graph[nearest] != np.arange(len(nearest))[:, None]
    codes = labels.codes[every]
    found = [
        _log_shares(codes[nearest], counted & (np.cumsum(counted, axis=1) <= k), K) for k in SCALES
    ]
    view = view._replace(values=np.column_stack([*found, view.values]))
    return view, data._replace(judges=judges)


def _log_shares(codes: Index, counted: NDArray[np.bool_], K: int) -> Array:
    """Return the log shares of classes among labels (n, k) that count, less their mean."""
    counts = np.stack([((codes == c) & counted).sum(axis=1) for c in range(K)], axis=1)
    logs = np.log(counts + COUNT)
    if K == 2:  # one function, of the difference
        return UNIT * (logs[:, 1:] - logs[:, :1])
    return np.asarray(UNIT * (logs - logs.mean(axis=1, keepdims=True)))


def with_votes(found: FeaturePosterior, view: GraphView, data: Rows) -> FeaturePosterior:
    """Return a posterior with the votes of the nearest labels, if there are labels to judge by."""
    if data.judges is None:
        return found
    seen, K = view.features(data.judges.rows), len(data.labels.classes)
    return weighed_votes(found, len(SCALES), K, UNIT, seen, data.judges.codes)


def judged(
    assumptions: list[Weighed],
    seen: Mapping[str, View],
    problems: heads.Problems,
    bold: FeaturePosterior,
    data: Rows,
) -> list[Weighed]:
    """Return assumptions whose evidence is replaced by how well they predict the labels kept aside.

    Parameters
    ----------
    assumptions : all of them
    seen : views of those that have one; the graph without label noise has that of the first
    """
    assert data.judges is not None
    rows, codes = data.judges
    names = list(seen)
    out = []
    for one in assumptions:
        p = np.tile(data.smoothed_shares, (len(codes), 1))
        if one.name in names or one.name == "clusters":
            view = seen[one.name] if one.name in names else seen[names[0]]
            head = problems.head(names.index(one.name), one.shares) if one.name in names else bold
            features = view.features(rows)
            reach = view.reach(features)[:, None]
            p = reach * head.proba(features) + (1.0 - reach) * p
        log_p = np.log(np.maximum(p[np.arange(len(codes)), codes], TINY))
        out.append(one._replace(log_evidence=float(log_p.sum())))
    return out
