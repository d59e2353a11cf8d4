"""Refits of the default after one more label, as a labelling loop has them, and its joint draws."""

from __future__ import annotations

import time
import warnings

import _default_tasks as tasks
import numpy as np
from _default_tasks import DEFAULT, GRAPH, markdown, shown
from sklearn.datasets import make_blobs, make_moons

from atoll import AtollClassifier, GraphGPClassifier

MODELS = {DEFAULT: AtollClassifier, GRAPH: GraphGPClassifier}
ROWS, DRAWN, N_DRAWS = 10_000, 2000, 256


def rows_of(n_classes, n):
    if n_classes == 2:
        return make_moons(n, noise=0.15, random_state=0)
    return make_blobs(n, n_features=10, centers=n_classes, cluster_std=3.0, random_state=0)


def seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start


def one_more_label(model, X, truth, n_labels):
    """Seconds of the first fit, of a refit with one more label (the best of three), of draws."""
    order = np.random.default_rng(0).permutation(len(X))
    y = np.full(len(X), -1)
    y[order[:n_labels]] = truth[order[:n_labels]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = seconds(lambda: model.fit(X, y))
        y[order[n_labels]] = truth[order[n_labels]]
        again = min(seconds(lambda: model.fit(X, y)) for _ in range(3))
    return first, again, seconds(lambda: model.sample_proba(X[:DRAWN], N_DRAWS))


def refits(options):
    """Time what a labelling loop waits for, at 10,000 rows."""
    print("\n## Refits after one label, processor seconds of one thread\n")
    table = []
    for n_classes in (2, 10):
        X, truth = rows_of(n_classes, 1000 if options.quick else ROWS)
        for name in options.chosen(tuple(MODELS)):
            for n_labels in options.labels or (10, 50, 100):
                model = MODELS[name](
                    classes=range(n_classes), labels_chosen=True, warm_start=True, random_state=0
                )
                found = one_more_label(model, X, truth, n_labels)
                table.append([n_classes, n_labels, name, *(shown(s, 2) for s in found)])
                tasks.say(" ".join(map(str, table[-1])))
    markdown(
        ["classes", "labels", "model", "first fit", "refit", f"{N_DRAWS} draws at {DRAWN} rows"],
        table,
    )
