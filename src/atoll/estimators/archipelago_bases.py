"""Choose Archipelago's base density by how well each of several predicts labels left out."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from atoll.core.labels import PartialLabels
from atoll.estimators.validation import generator

Array = NDArray[np.float64]

BY_LABELS = ("gaussian", "student-t", "blurred", "mixture")  # densities to choose between
N_FOLDS = 5
LEAST_PROBABILITY = 1e-3  # of a label left out, so that a single mistake does not decide


def choose_by_labels(model: Any, X: Any, labels: PartialLabels) -> tuple[str, str, Array]:
    """Return the base density under which labels left out are most probable, and why.

    Labelled rows of classes with two labels or more are left out in turn, up to five groups of
    them; every group takes one fit for each base density.

    Parameters
    ----------
    model : an ArchipelagoClassifier

    Returns
    -------
    name, reason, (bases,) mean log-probabilities of labels left out; all zero if there are none
    """
    groups = _groups(model, labels)
    if not groups:
        return "auto", "no class has two labels, of which one could be left out", np.zeros(4)
    y = np.where(labels.is_labelled, labels.codes, -1)
    place = np.cumsum(labels.counts > 0) - 1  # of each class among those that have a label
    scores = np.zeros(len(BY_LABELS))
    for b, name in enumerate(BY_LABELS):
        found = []
        for group in groups:
            shown = y.copy()
            shown[group] = -1
            found.append(_log_proba(model, name, X, shown)[group, place[y[group]]])
        scores[b] = np.maximum(np.concatenate(found), np.log(LEAST_PROBABILITY)).mean()
    best = int(np.argmax(scores))
    told = ", ".join(f"{name} {score:.2f}" for name, score in zip(BY_LABELS, scores))
    return BY_LABELS[best], f"labels left out are most probable under it ({told})", scores


def _groups(model: Any, labels: PartialLabels) -> list[NDArray[np.intp]]:
    """Return groups of labelled rows to leave out: one of each class at a time, never its last."""
    rng, members = generator(model.random_state), []
    for k in range(len(labels.classes)):
        rows = np.flatnonzero(labels.is_labelled & (labels.codes == k))
        if len(rows) > 1:
            members.append(rng.permutation(rows))
    n_groups = min(N_FOLDS, max((len(rows) for rows in members), default=0))
    groups = [
        np.concatenate([np.array_split(rows, max(n_groups, 2))[g] for rows in members])
        for g in range(n_groups)
    ]
    return [group.astype(np.intp) for group in groups if len(group)]


def _log_proba(model: Any, base_density: str, X: Any, shown: NDArray[np.intp]) -> Array:
    """Return log-probabilities of the classes with a label under one base density, (n, K)."""
    fresh = clone(model).set_params(
        base_density=base_density, classes=None, extra_classes=0, unlabelled=-1, checkpoint=None,
        n_folds=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fresh.fit(X, shown)
    return np.log(np.maximum(fresh.predict_proba(X), np.finfo(float).tiny))
