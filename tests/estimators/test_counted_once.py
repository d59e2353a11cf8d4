"""A label that is held out is never known from a copy of its row."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import atoll
from atoll.core.labels import parse_labels
from atoll.core.repeated_rows import without_repeats
from atoll.estimators import (
    ArchipelagoClassifier,
    AtollClassifier,
    DPMixtureClassifier,
    GraphGPClassifier,
    InformativeVectorClassifier,
    LaplacianRLSClassifier,
    LaplacianSVC,
    NullCategoryClassifier,
    OrdinalGPClassifier,
    ProbitGPClassifier,
    SemiSupervisedKFold,
    SoftmaxGPClassifier,
    SSGPClassifier,
    TransductiveSVC,
)
from atoll.estimators.counted_once import fit_counting_once
from atoll.estimators.held_out import held_out_probabilities
from atoll.estimators.shell import Fit, SemiSupervisedClassifier


def repeated(n_labels=16, seed=0):
    """Rows, labels of which each stands there twice with its row, and which of them is a copy."""
    rng = np.random.default_rng(seed)
    X, truth = make_blobs(90, n_features=3, centers=2, cluster_std=4.0, random_state=seed)
    y = np.where(np.arange(90) < n_labels, truth, -1)
    order = rng.permutation(90 + n_labels)
    again = np.concatenate([X, X[:n_labels]])[order]
    labels = np.concatenate([y, y[:n_labels]])[order]
    known = np.flatnonzero(labels >= 0)
    _, first = np.unique(again[known], axis=0, return_index=True)
    return again, labels, np.setdiff1d(known, known[first])


def fitted(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


SELF_JUDGING = {
    "archipelago": lambda: ArchipelagoClassifier(n_samples=60, n_warmup=30, random_state=0),
    "dp-mixture": lambda: DPMixtureClassifier(random_state=0),
    "graph-gp": lambda: GraphGPClassifier(random_state=0),
    "informative-vector": lambda: InformativeVectorClassifier(),
    "laplacian-rls": lambda: LaplacianRLSClassifier(random_state=0),
    "laplacian-svc": lambda: LaplacianSVC(random_state=0),
    "null-category": lambda: NullCategoryClassifier(random_state=0),
    "ordinal-gp": lambda: OrdinalGPClassifier(inference="ep"),
    "probit-gp": lambda: ProbitGPClassifier(inference="vb"),
    "softmax-gp": lambda: SoftmaxGPClassifier(n_samples=40, n_warmup=20, random_state=0),
    "ssgp": lambda: SSGPClassifier(),
    "transductive-svc": lambda: TransductiveSVC(random_state=0),
}


LONG = ("archipelago", "laplacian-svc", "null-category", "softmax-gp")
QUICK = [name for name in SELF_JUDGING if name not in LONG]


def test_all_classifiers_that_hold_labels_out_are_tried():
    classes = {getattr(atoll, name) for name in atoll.__all__ if name.endswith(("ier", "SVC"))}
    holding = {
        one for one in classes if issubclass(one, SemiSupervisedClassifier) and one.holds_labels_out
    }
    assert {type(make()) for make in SELF_JUDGING.values()} == holding


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)]
)
def test_models_that_hold_labels_out_count_copies_of_a_label_once(name):
    X, y, copies = repeated()
    once = y.copy()
    once[copies] = -1
    model, other = (fitted(SELF_JUDGING[name](), X, labels) for labels in (y, once))
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), rtol=1e-12)
    assert "16 labels repeat that of the same row" in model.diagnostics_["verdict"]
    assert "repeat" not in other.diagnostics_["verdict"]
    known = y >= 0
    np.testing.assert_array_equal(model.transduction_[known], y[known])
    np.testing.assert_array_equal(model.label_distributions_[known], np.eye(2)[y[known]])
    unknown = model.label_distributions_[~known]
    np.testing.assert_allclose(unknown, other.label_distributions_[~known], rtol=1e-12)


def test_what_a_fit_says_of_rows_without_labels_is_kept_where_copies_count_once():
    """A fit that has probabilities of its unlabelled rows has them of the copies as well."""

    class Model:
        holds_labels_out = True

        def _fit(self, X, labels):
            rows = np.flatnonzero(~labels.is_labelled)
            return Fit(None, {"verdict": "Done."}, np.column_stack([rows, rows]).astype(float))

    X, y, _ = repeated()
    fit = fit_counting_once(Model(), X, parse_labels(y))
    np.testing.assert_array_equal(fit.transduction[:, 0], np.flatnonzero(y < 0))
    assert fit.diagnostics["verdict"].startswith("Done.\n16 labels repeat")


@pytest.mark.parametrize("stratify", [True, False])
def test_folds_test_copies_and_groups_together(stratify):
    X, y, _ = repeated()
    folds = SemiSupervisedKFold(4, stratify=stratify, random_state=0)
    tests = [test for _, test in folds.split(X, y)]
    assert [len(test) for test in tests] == [8] * 4
    for train, test in folds.split(X, y):
        known = train[y[train] >= 0]
        assert not (X[known, None] == X[None, test]).all(axis=2).any()
    groups = np.arange(len(y)) // 4
    tested = np.full(len(y), -1)
    for fold, (_, test) in enumerate(folds.split(X, y, groups)):
        tested[test] = fold
    assert set(np.flatnonzero(tested >= 0)) == set(np.flatnonzero(y >= 0))
    for name in np.unique(groups):
        some = tested[(groups == name) & (y >= 0)]
        assert len(np.unique(some)) <= 1


def test_groups_are_shared_out_evenly_and_nulls_are_alone():
    y = np.repeat([0, 1], 30)
    groups = [None] * 10 + ["a"] * 10 + ["b"] * 10 + ["c"] * 15 + ["d"] * 15
    X = np.random.default_rng(0).standard_normal((60, 2))
    sizes = [
        np.bincount(y[test], minlength=2)
        for _, test in SemiSupervisedKFold(2, random_state=1).split(X, y, groups)
    ]
    np.testing.assert_array_equal(sizes, [[15, 15], [15, 15]])


def test_too_few_groups_are_refused():
    X, y, _ = repeated()
    apart = np.random.default_rng(0).standard_normal((len(y), 2))
    with pytest.raises(ValueError, match="n_splits=5 is more than the 2 sets of labelled"):
        list(SemiSupervisedKFold(5).split(apart, y, groups=np.arange(len(y)) % 2))
    with pytest.raises(ValueError, match="groups has 3 entries and X has"):
        list(SemiSupervisedKFold(5).split(X, y, groups=[1, 2, 3]))


def test_rows_of_no_information_are_dealt_one_by_one():
    y = np.array([0, 0, -1, 1, 2, 2, 2])
    tests = [test.tolist() for _, test in SemiSupervisedKFold(3).split(np.zeros((7, 1)), y)]
    assert sorted(map(len, tests)) == [2, 2, 2]


@pytest.mark.usefixtures("hurried")
def test_labels_of_a_report_are_held_out_without_their_copies():
    X, y, copies = repeated()
    once = y.copy()
    once[copies] = -1
    model = AtollClassifier(random_state=0)
    found, expected = (held_out_probabilities(model, X, labels) for labels in (y, once))
    np.testing.assert_allclose(found.probabilities, expected.probabilities)
    assert "16 labels repeat that of the same row" in found.note
    assert expected.note == ""


def test_copies_of_one_weight_count_once_and_those_of_several_as_these_say():
    X, y, copies = repeated()
    once = y.copy()
    once[copies] = -1
    balanced = np.where(y == 0, 0.7, 1.4)
    model = AtollClassifier(random_state=0)
    expected = model.fit(X, once, sample_weight=balanced).predict_proba(X)
    np.testing.assert_allclose(model.fit(X, y, sample_weight=balanced).predict_proba(X), expected)
    labels = parse_labels(y)._replace(weights=balanced)
    assert without_repeats(X, labels).n_labelled == 16
    own = np.where(np.isin(np.arange(len(y)), copies), 0.5, 1.5)
    assert without_repeats(X, parse_labels(y)._replace(weights=own)).n_labelled == 32
    assert "repeat" not in model.fit(X, y, sample_weight=own).diagnostics_["verdict"]
