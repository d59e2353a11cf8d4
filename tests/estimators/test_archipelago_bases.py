"""The base density by labels left out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from atoll.core.labels import parse_labels
from atoll.datasets import hide_labels, make_pinwheel
from atoll.estimators import ArchipelagoClassifier
from atoll.estimators import archipelago_bases as bases


def test_groups_leave_every_class_a_label_and_every_row_out_once():
    labels = parse_labels(["a", "a", "a", "b", "b", None, "c", None, "a", "a", "a", "a"])
    groups = bases._groups(ArchipelagoClassifier(random_state=0), labels)
    for group in groups:
        left = np.setdiff1d(np.flatnonzero(labels.is_labelled), group)
        assert set(labels.codes[left]) == {0, 1, 2}
    left_out = np.sort(np.concatenate(groups))
    np.testing.assert_array_equal(left_out, [0, 1, 2, 3, 4, 8, 9, 10, 11])  # not the only "c"


def test_the_base_density_is_that_under_which_labels_left_out_are_most_probable(monkeypatch):
    def log_proba(model, base_density, X, shown):
        right = {"gaussian": 0.6, "student-t": 0.9, "blurred": 0.5, "mixture": 0.9}[base_density]
        p = np.full((len(X), 2), 1.0 - right)
        p[:, 0] = right  # of class 0, which every row has
        return np.log(p)

    monkeypatch.setattr(bases, "_log_proba", log_proba)
    labels = parse_labels([0, 0, 0, None, 1], classes=[0, 1])
    name, reason, scores = bases.choose_by_labels(
        ArchipelagoClassifier(random_state=0), np.zeros((5, 1)), labels
    )
    assert name == "student-t"
    assert "student-t -0.11" in reason
    np.testing.assert_allclose(scores, np.log([0.6, 0.9, 0.5, 0.9]))


def test_without_two_labels_of_a_class_the_rows_choose():
    labels = parse_labels([0, None, 1])
    name, reason, _ = bases.choose_by_labels(ArchipelagoClassifier(), np.zeros((3, 1)), labels)
    assert name == "auto"
    assert "no class has two labels" in reason


@pytest.mark.slow
def test_a_fit_says_what_labels_chose():
    X, truth = make_pinwheel(30, n_classes=2, random_state=0)
    y = hide_labels(truth, per_class=3, random_state=0)
    short = {"n_chains": 2, "n_warmup": 10, "n_samples": 10, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ArchipelagoClassifier(base_density="labels", **short).fit(X, y)
    best = bases.BY_LABELS[int(np.argmax(model.base_density_scores_))]
    assert model.base_density_reason_.startswith(best)
    assert model.predict_proba(X).shape == (30, 2)


class Steady(BaseEstimator):
    """Says the same of every row; a probability of zero among them."""

    random_state = 0

    def __init__(
        self, base_density="auto", classes=None, extra_classes=0, unlabelled="auto",
        checkpoint=None, n_folds=3,
    ):  # fmt: skip
        self.base_density = base_density
        self.classes = classes
        self.extra_classes = extra_classes
        self.unlabelled = unlabelled
        self.checkpoint = checkpoint
        self.n_folds = n_folds

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.tile([0.25, 0.75, 0.0], (len(X), 1))


def test_base_densities_are_compared_by_logs_of_what_fits_predict():
    X, labels = np.zeros((6, 1)), parse_labels([0, 1, 0, 1, 0, 1])
    name, _, scores = bases.choose_by_labels(Steady(), X, labels)
    assert name in bases.BY_LABELS
    np.testing.assert_allclose(scores, 0.5 * np.log(0.25) + 0.5 * np.log(0.75))


def test_a_class_without_a_label_is_left_out_of_the_comparison():
    class OfClassesSeen(Steady):
        def predict_proba(self, X):
            return np.tile([0.25, 0.75], (len(X), 1))  # of the second and the fourth class

    labels = parse_labels(["b", "d", "b", "d", None], classes=["a", "b", "c", "d"])
    _, _, scores = bases.choose_by_labels(OfClassesSeen(), np.zeros((5, 1)), labels)
    np.testing.assert_allclose(scores, 0.5 * np.log(0.25) + 0.5 * np.log(0.75))
