from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.model_selection import cross_val_predict as scikit_learns_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from atoll.core.chunks import RowChunks
from atoll.core.labels import parse_labels
from atoll.estimators import (
    AtollClassifier,
    GraphGPClassifier,
    OrdinalGPClassifier,
    ProbitGPClassifier,
)
from atoll.estimators import cross_val_score as atoll_cross_val_score
from atoll.estimators.held_out import held_out_probabilities
from atoll.estimators.model_selection import SemiSupervisedKFold, cross_val_predict

pytestmark = pytest.mark.usefixtures("hurried")  # the classifiers are not on trial


class Often(ClassifierMixin, BaseEstimator):
    """Gives every row the shares of the labels."""

    def fit(self, X, y):
        labels = parse_labels(y)
        self.classes_, self.shares_ = labels.classes, labels.counts / labels.n_labelled
        return self

    def predict_proba(self, X):
        return np.tile(self.shares_, (X.shape[0], 1))

    def predict(self, X):
        return np.full(X.shape[0], self.classes_[self.shares_.argmax()])


def partly_labelled(rng, counts=(7, 12, 20), n_unlabelled=61):
    """X (n, 2) and y (n,) with classes 0, 1, ... and -1 where unlabelled, in random order."""
    classes = np.arange(-1, len(counts))
    y = rng.permutation(np.repeat(classes, [n_unlabelled, *counts]))
    return rng.normal(size=(len(y), 2)), y


def folds_of(splitter, X, y):
    return [(train.tolist(), test.tolist()) for train, test in splitter.split(X, y)]


@pytest.mark.parametrize("stratify", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("n_splits", [2, 5, 39])
def test_labelled_rows_are_tested_once_and_unlabelled_rows_always_train(
    n_splits, shuffle, stratify
):
    X, y = partly_labelled(np.random.default_rng(0))
    splitter = SemiSupervisedKFold(n_splits, shuffle=shuffle, stratify=stratify)
    folds = list(splitter.split(X, y))
    assert len(folds) == splitter.get_n_splits(X, y) == n_splits
    assert np.array_equal(
        np.sort(np.concatenate([test for _, test in folds])), np.flatnonzero(y != -1)
    )
    sizes = [len(test) for _, test in folds]
    assert max(sizes) - min(sizes) <= 1
    for train, test in folds:
        assert set(np.flatnonzero(y == -1)) <= set(train)
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))


@pytest.mark.parametrize("shuffle", [True, False])
def test_stratified_folds_share_out_every_class_evenly_however_small(shuffle):
    X, y = partly_labelled(np.random.default_rng(1), counts=(2, 7, 33))
    splitter = SemiSupervisedKFold(5, shuffle=shuffle)
    per_fold = np.array([np.bincount(y[test], minlength=3) for _, test in splitter.split(X, y)])
    assert (per_fold.max(axis=0) - per_fold.min(axis=0) <= 1).all()
    for train, _ in splitter.split(X, y):
        assert set(y[train]) == {-1, 0, 1, 2}


def test_without_stratification_nor_shuffling_rows_are_dealt_in_turn():
    y = np.array([0, 0, -1, 1, 2, 2, 2])
    splitter = SemiSupervisedKFold(2, shuffle=False, stratify=False)
    tests = [test.tolist() for _, test in splitter.split(np.zeros((7, 1)), y)]
    assert tests == [[0, 3, 5], [1, 4, 6]]


def test_a_class_with_one_labelled_row_is_no_error():
    X, y = partly_labelled(np.random.default_rng(2), counts=(1, 9, 9))
    tests = [test for _, test in SemiSupervisedKFold(3).split(X, y)]
    assert sum((y[test] == 0).sum() for test in tests) == 1


def test_an_integer_seed_repeats_its_folds_and_a_generator_moves_on():
    X, y = partly_labelled(np.random.default_rng(3))
    seeded = SemiSupervisedKFold(4, random_state=1)
    assert folds_of(seeded, X, y) == folds_of(seeded, X, y)
    assert folds_of(seeded, X, y) != folds_of(SemiSupervisedKFold(4, random_state=2), X, y)
    moving = SemiSupervisedKFold(4, random_state=np.random.default_rng(1))
    assert folds_of(moving, X, y) != folds_of(moving, X, y)


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_labelled_row_is_as_likely_to_be_in_the_first_fold(shuffle):
    y = np.array([0] * 6 + [1] * 6 + [-1] * 3 + [2] * 3)
    X, rng, n_repeats = np.zeros((18, 1)), np.random.default_rng(4), 1200 if shuffle else 3
    splitter = SemiSupervisedKFold(3, shuffle=shuffle, random_state=rng if shuffle else None)
    hits = np.zeros(18)
    for _ in range(n_repeats):
        hits[next(splitter.split(X, y))[1]] += 1
    assert (hits[12:15] == 0).all()
    if shuffle:
        spread = np.sqrt(n_repeats * (1 / 3) * (2 / 3))
        assert np.abs(hits[y != -1] - n_repeats / 3).max() < 6 * spread
    else:
        assert set(hits) == {0.0, float(n_repeats)}


def test_fully_labelled_targets_give_ordinary_stratified_folds():
    y = np.repeat(["a", "b"], 10)
    for train, test in SemiSupervisedKFold(5, random_state=0).split(np.zeros((20, 1)), y):
        assert sorted(y[test]) == ["a", "a", "b", "b"]
        assert len(train) == 16


def test_nulls_and_a_chosen_marker_are_unlabelled():
    X = np.zeros((6, 1))
    strings = np.array(["a", None, "b", "a", np.nan, "b"], dtype=object)
    for _, test in SemiSupervisedKFold(2).split(X, strings):
        assert sorted(strings[test]) == ["a", "b"]
    signs = np.array([-1, 0, 1, -1, 0, 1])
    for _, test in SemiSupervisedKFold(2, unlabelled=0).split(X, signs):
        assert sorted(signs[test]) == [-1, 1]


@pytest.mark.parametrize("container", [list, sparse.csr_array])
def test_rows_may_come_as_a_list_or_a_sparse_matrix(container):
    X, y = partly_labelled(np.random.default_rng(5))
    splitter = SemiSupervisedKFold(3, random_state=0)
    assert folds_of(splitter, container(X), y) == folds_of(splitter, X, y)


@pytest.mark.parametrize("form", ["coo", "bsr", "dia"])
def test_sparse_rows_of_any_form_are_divided_and_scored(form):
    X, y = partly_labelled(np.random.default_rng(5), n_unlabelled=41)
    rows = sparse.csr_matrix(X).asformat(form)
    splitter = SemiSupervisedKFold(3, random_state=0)
    assert folds_of(splitter, rows, y) == folds_of(splitter, X, y)
    found = atoll_cross_val_score(Often(), rows, y, cv=splitter)
    assert found.tolist() == atoll_cross_val_score(Often(), X, y, cv=splitter).tolist()
    assert held_out_probabilities(Often(), rows, y, n_splits=2).n_splits == 2


@pytest.mark.parametrize("container", [np.ndarray.tolist, sparse.coo_array, np.asarray])
def test_copies_are_tested_together_in_rows_of_any_kind(container):
    X = np.tile(np.random.default_rng(6).normal(size=(15, 3)), (3, 1))
    y = np.tile(np.arange(15) % 2, 3)
    for train, test in SemiSupervisedKFold(3, random_state=0).split(container(X), y):
        assert not set(train % 15) & set(test % 15)


def test_lists_of_different_lengths_have_no_copies():
    X, y = [[1.0], [1.0, 2.0], [1.0], [1.0, 2.0]], ["a", "b", "a", "b"]
    assert len(list(SemiSupervisedKFold(2, random_state=0).split(X, y))) == 2


def test_it_serves_cross_val_score_and_grid_search_of_scikit_learn():
    X, truth = make_blobs(120, centers=[[-5, 0], [5, 0], [0, 8]], random_state=0)
    y = np.where(np.arange(120) % 4 == 0, truth, -1)
    cv = SemiSupervisedKFold(3, random_state=0)
    model = LabelSpreading(gamma=0.2)
    scores = cross_val_score(model, X, y, cv=cv)
    assert scores.tolist() == [1.0, 1.0, 1.0]
    search = GridSearchCV(model, {"gamma": [0.1, 0.3]}, cv=cv).fit(X, y)
    assert search.best_score_ == 1.0


def test_repr_names_the_parameters():
    assert "n_splits=4" in repr(SemiSupervisedKFold(4, random_state=7))
    assert "random_state=7" in repr(SemiSupervisedKFold(4, random_state=7))


@pytest.mark.parametrize("n_splits", [1, 0, -2, 2.0, "5", True, None])
def test_fewer_than_two_folds_is_refused(n_splits):
    with pytest.raises(ValueError, match=r"n_splits must be a whole number, at least 2, got"):
        SemiSupervisedKFold(n_splits)


def test_a_seed_without_shuffling_is_refused():
    with pytest.raises(ValueError, match=r"random_state must be None with shuffle=False.*got 0"):
        SemiSupervisedKFold(shuffle=False, random_state=0)


def test_fewer_labelled_rows_than_folds_is_refused_with_the_numbers():
    y = [0, 1, 2, -1, -1, -1]
    with pytest.raises(ValueError, match=r"n_splits=5 is more than the 3 labelled .* among 6; "):
        next(SemiSupervisedKFold(5).split(np.zeros((6, 1)), y))


def test_lengths_that_differ_and_a_missing_target_are_refused():
    with pytest.raises(ValueError, match=r"X has 6 rows and y has 4"):
        next(SemiSupervisedKFold(2).split(np.zeros((6, 1)), [0, 0, 1, 1]))
    with pytest.raises(ValueError, match=r"y is None"):
        next(SemiSupervisedKFold(2).split(np.zeros((6, 1))))
    for far in (RowChunks.from_arrays(np.zeros((4, 1))), "rows.npy"):
        with pytest.raises(ValueError, match=r"cross-validation takes rows in memory"):
            atoll_cross_val_score(ProbitGPClassifier(), far, [0, 0, 1, 1], cv=2)


@pytest.mark.parametrize("marker", [None, -1])
def test_cross_val_predict_holds_out_every_label_and_makes_no_class_of_unlabelled_rows(marker):
    X, truth = make_blobs(60, centers=[[0, 0], [6, 6]], random_state=0)
    y = np.where(np.arange(60) < 20, truth.astype(object), marker)
    y = y if marker is None else y.astype(int)
    wrong = 3
    y[wrong] = 1 - truth[wrong]  # a label that a model would follow if it had seen it
    folds = SemiSupervisedKFold(4, random_state=0)
    model = AtollClassifier(random_state=0)
    p = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    assert p.shape == (60, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    predicted = cross_val_predict(model, X, y, cv=folds)
    assert predicted.tolist() == p.argmax(axis=1).tolist()
    assert predicted[wrong] != y[wrong]
    for train, test in folds.split(X, y):
        alone = AtollClassifier(random_state=0).fit(X[train], y[train])
        np.testing.assert_allclose(alone.predict_proba(X[test]), p[test])


def test_cross_val_predict_keeps_the_order_of_the_classes():
    X = np.arange(12.0)[:, None]
    y = np.array(["low"] * 4 + ["mid"] * 4 + ["top"] * 4, dtype=object)
    order = ["top", "mid", "low"]
    model = OrdinalGPClassifier(classes=order, inference="vb", random_state=0)
    p = cross_val_predict(model, X, y, cv=4, method="predict_proba")
    assert [order[k] for k in p.argmax(axis=1)][:2] == ["low", "low"]


def test_cross_val_predict_refuses_what_it_cannot_do():
    X, y = partly_labelled(np.random.default_rng(0))
    with pytest.raises(ValueError, match="method must be one of predict, predict_proba"):
        cross_val_predict(AtollClassifier(), X, y, method="decision_function")


def test_scikit_learns_functions_do_what_the_page_on_labels_says_of_them():
    X, truth = make_blobs(40, centers=[[0, 0], [6, 6]], random_state=0)
    y = np.where(np.arange(40) < 12, truth.astype(object), None)
    folds = SemiSupervisedKFold(2, random_state=0)
    model = AtollClassifier(random_state=0).fit(X, y)
    known = y != None  # noqa: E711 - of every row
    assert model.score(X, y) == (y[known] == model.predict(X)[known]).mean()
    with pytest.raises((TypeError, ValueError)):
        accuracy_score(y, model.predict(X))
    as_integers = np.where(known, truth, -1)
    assert accuracy_score(as_integers, model.predict(X)) <= 12 / 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = cross_val_score(model, X, y, cv=folds, scoring="neg_log_loss")
    assert np.isnan(scores).all()
    for labels in (as_integers, np.where(known, np.where(truth, "b", "a"), None)):
        scores = cross_val_score(model, X, labels, cv=folds, scoring="neg_log_loss")
        assert np.isfinite(scores).all()
    with pytest.raises(ValueError, match="partitions"):
        scikit_learns_predict(model, X, as_integers, cv=folds)
    # It codes the labels from 0 on, and -1 with them, so that unlabelled rows have a class.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = scikit_learns_predict(model, X, as_integers, cv=2, method="predict_proba")
    assert found.shape == (40, 3)


@pytest.mark.parametrize("scoring", [None, "accuracy", "neg_log_loss", "balanced_accuracy"])
def test_integers_with_none_among_them_are_scored_as_those_with_minus_one_are(scoring):
    X, truth = make_blobs(40, centers=2, random_state=0)
    y = np.where(np.arange(40) < 12, truth, -1)
    y[:4] = [0, 1, 0, 1]
    with_none = np.where(y < 0, None, y)
    folds = SemiSupervisedKFold(2, random_state=0)
    model = ProbitGPClassifier(inference="vb")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = atoll_cross_val_score(model, X, with_none, cv=folds, scoring=scoring)
        as_scikit_learn = cross_val_score(model, X, y, cv=folds, scoring=scoring)
    assert found.shape == (2,)
    assert np.allclose(found, as_scikit_learn)
    if scoring is None:  # by name, scikit-learn's would be nan
        with pytest.warns(UserWarning, match=r"scorers see no classes.*atoll\.cross_val_score"):
            cross_val_score(model, X, with_none, cv=folds)


def test_scores_of_probabilities_go_with_the_order_of_the_classes_and_folds_may_lack_some():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 1))
    rank = np.digitize(x[:, 0], [-0.5, 0.5])
    y = np.array(["low", "mid", "high"], dtype=object)[rank]
    known = np.arange(60) < 30
    y[~known] = None
    model = OrdinalGPClassifier(classes=["low", "mid", "high"], inference="ep", random_state=0)
    folds = SemiSupervisedKFold(2, random_state=0)
    p = cross_val_predict(model, x, y, cv=folds, method="predict_proba")[known]
    right = p[np.arange(30), rank[known]]
    found = {
        name: atoll_cross_val_score(model, x, y, cv=folds, scoring=name).mean()
        for name in ("neg_log_loss", "neg_brier_score", "roc_auc_ovr")
    }
    brier = -((p - np.eye(3)[rank[known]]) ** 2).sum(axis=1).mean()
    assert found["neg_brier_score"] == pytest.approx(brier, rel=0.05)
    assert found["neg_log_loss"] == pytest.approx(np.log(right).mean(), rel=0.05)
    assert found["roc_auc_ovr"] > 0.95
    few = y.copy()
    few[known & (rank == 2)] = None
    few[np.flatnonzero(known & (rank == 2))[:2]] = "high"  # two labels for three folds
    proper = "neg_log_loss", "neg_brier_score"
    for name in proper:
        scores = atoll_cross_val_score(model, x, few, cv=3, scoring=name)
        assert np.isfinite(scores).all()
    few[np.flatnonzero(few == "high")[0]] = None
    for name in proper:
        with pytest.raises(ValueError, match="all labels of the class 'high', which its fit"):
            atoll_cross_val_score(GraphGPClassifier(), x, few, cv=3, scoring=name)


def test_the_brier_score_of_two_classes_is_that_of_scikit_learn():
    X, truth, known = two_blobs()
    model, y = GraphGPClassifier(random_state=0), np.where(known, truth, -1)
    folds = SemiSupervisedKFold(3, random_state=0)
    found = atoll_cross_val_score(model, X, y, cv=folds, scoring="neg_brier_score")
    wanted = cross_val_score(model, X, y, cv=folds, scoring="neg_brier_score")
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def two_blobs(n=60, n_labelled=24):
    X, truth = make_blobs(n, centers=[[0, 0], [6, 6]], random_state=0)
    return X, truth, np.arange(n) < n_labelled


@pytest.mark.parametrize("in_pipeline", [False, True])
@pytest.mark.parametrize("cv", [3, np.int64(3), SemiSupervisedKFold(3, random_state=0)])
def test_what_the_model_calls_unlabelled_is_neither_scored_nor_a_class(in_pipeline, cv):
    X, truth, known = two_blobs()
    model = AtollClassifier(unlabelled=9, random_state=0)
    model = make_pipeline(StandardScaler(), model) if in_pipeline else model
    marked, plain = np.where(known, truth, 9), np.where(known, truth, -1)
    found = atoll_cross_val_score(model, X, marked, cv=cv, scoring="neg_log_loss")
    auto = AtollClassifier(random_state=0)
    auto = make_pipeline(StandardScaler(), auto) if in_pipeline else auto
    wanted = atoll_cross_val_score(auto, X, plain, cv=cv, scoring="neg_log_loss")
    assert found.tolist() == wanted.tolist()
    assert cross_val_predict(model, X, marked, cv=cv, method="predict_proba").shape == (60, 2)


@pytest.mark.parametrize("settings", [{"classes": [-1, 0, 1]}, {"unlabelled": None}])
def test_minus_one_is_tested_where_the_model_takes_it_for_a_class(settings):
    X, truth = make_blobs(60, centers=[[0, 0], [6, 6], [0, 8]], random_state=0)
    tested = []

    def remembering(model, rows, y):
        tested.extend(y.tolist())
        return model.score(rows, y)

    model = AtollClassifier(random_state=0, **settings)
    found = atoll_cross_val_score(model, X, truth - 1, cv=3, scoring=remembering)
    assert sorted(tested) == sorted((truth - 1).tolist())
    assert found.min() > 0.9
    predicted = cross_val_predict(model, X, truth - 1, cv=3)
    assert (predicted == truth - 1).mean() > 0.9


def test_a_splitter_that_names_a_marker_is_believed():
    X, truth, known = two_blobs()
    folds = SemiSupervisedKFold(3, unlabelled="?", random_state=0)
    y = np.where(known, np.where(truth, "b", "a"), "?")
    p = cross_val_predict(AtollClassifier(random_state=0), X, y, cv=folds, method="predict_proba")
    assert p.shape == (60, 2)
    assert folds.unlabelled == "?"


def test_labels_chosen_row_by_row_go_with_the_rows_of_a_fold():
    X, truth, known = two_blobs()
    y = np.where(known, truth, -1)
    model = AtollClassifier(random_state=0, labels_chosen=np.arange(60) < 4)
    assert atoll_cross_val_score(model, X, y, cv=3).min() > 0.9
    assert cross_val_predict(model, X, y, cv=3).shape == (60,)


@pytest.mark.parametrize("cv", [None, 2.5, "five"])
def test_what_makes_no_folds_is_refused(cv):
    X, truth, _ = two_blobs()
    with pytest.raises(ValueError, match="cv must be a number of folds or a splitter"):
        atoll_cross_val_score(AtollClassifier(), X, truth, cv=cv)


@pytest.mark.parametrize("unit", ["D", "us", "ns"])
def test_times_that_are_classes_stay_times(unit):
    X, truth, known = two_blobs(40, 12)
    days = np.array(["2020-01-01", "2021-01-01"], dtype=f"datetime64[{unit}]")
    y = np.where(known, days[truth], np.datetime64("NaT"))
    model = AtollClassifier(n_draws=20, random_state=0)
    assert atoll_cross_val_score(model, X, y, cv=2).min() > 0.9
    found = model.fit(X, y).predict(X)
    assert found.dtype == cross_val_predict(model, X, y, cv=2).dtype == y.dtype == days.dtype
    kept = model.predict(X, reject_below=0.5)
    assert kept.dtype == object
    assert [type(label) for label in kept[:2]] == [np.datetime64] * 2
    assert kept.tolist() == list(found)
    row = model.explain_row(30, refit=True)
    assert str(row).startswith("202")
    assert {type(near.label) for near in row.near} == {np.datetime64}
    declared = AtollClassifier(classes=list(days), n_draws=20, random_state=0).fit(X, y)
    assert declared.classes_.tolist() == days.tolist()
