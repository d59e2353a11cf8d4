"""Classifiers that are fitted again after every label: classes, chosen labels, warm starts.

Over every classifier that takes `classes` without labels, which is what a loop begins with.
"""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_moons

from atoll import load_model, save_model
from atoll.core import graphs
from atoll.estimators import CLASSIFIERS, GraphGPClassifier
from atoll.estimators.shell import KEPT
from atoll.kernels import graph_spectral
from walking import over

LOOPING = {name: m for name, m in CLASSIFIERS.items() if m.fits_unseen_classes}
QUICK = {"n_draws": 40, "random_state": 0}


@pytest.fixture(autouse=True)
def quiet():
    """Few draws and few labels may say that they are few."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def moons(n=80):
    return make_moons(n, noise=0.08, random_state=0)


def labels(truth, *, of_0=0, of_1=0):
    """None but for the first rows of each class."""
    y = np.full(len(truth), None, dtype=object)
    for c, count in ((0, of_0), (1, of_1)):
        y[np.flatnonzero(truth == c)[:count]] = c
    return y


# Declared classes ---------------------------------------------------------------------------------


@over(LOOPING)
def test_declared_classes_that_all_have_labels_change_nothing(model):
    X, truth = moons()
    y = labels(truth, of_0=2, of_1=3)
    plain = model(**QUICK).fit(X, y)
    for classes in ([0, 1], (1, 0), np.array([1, 0])):
        declared = model(classes=classes, **QUICK).fit(X, y)
        np.testing.assert_array_equal(declared.classes_, plain.classes_)
        np.testing.assert_array_equal(declared.predict_proba(X), plain.predict_proba(X))


@over(LOOPING)
def test_one_label_is_enough_where_classes_are_declared(model):
    X, truth = moons()
    y = labels(truth, of_1=1)
    with pytest.raises(ValueError, match="one class"):
        model(**QUICK).fit(X, y)
    fitted = model(classes=[0, 1], labels_chosen=True, **QUICK).fit(X, y)
    p = fitted.predict_proba(X)
    assert p.shape == (len(X), 2)
    assert p[y == 1, 1] > 0.6
    assert p[truth == 1, 1].mean() > p[truth == 0, 1].mean() + 0.1


@over(LOOPING)
def test_a_class_without_a_label_has_a_column_and_a_chance(model):
    X, truth = moons()
    y = np.where(labels(truth, of_0=2, of_1=2) == None, None, np.array(["a", "b"])[truth])  # noqa: E711
    fitted = model(classes=["c", "b", "a"], labels_chosen=True, **QUICK).fit(X, y)
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    p = fitted.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert 0.0 < p[:, 2].mean() < 1 / 3
    assert fitted.sample_proba(X[:5], 7, random_state=0).shape == (7, 5, 3)


@over(LOOPING)
@pytest.mark.parametrize("n_labels", [12, 40])
def test_many_labels_of_one_class_leave_little_to_the_others(model, n_labels):
    X, truth = moons(120)
    y = labels(truth, of_1=n_labels)
    fitted = model(classes=[0, 1, 2], **QUICK).fit(X, y)
    p = fitted.predict_proba(X)
    assert np.isfinite(p).all()
    assert p[:, 1].mean() > 0.6


@over(LOOPING)
def test_minus_one_beside_a_single_label_means_no_label(model):
    X, truth = moons()
    y = np.where(labels(truth, of_1=1) == 1, 1, -1)
    fitted = model(classes=[0, 1], **QUICK).fit(X, y)
    assert fitted.unlabelled_ == -1
    assert (fitted.label_distributions_ == 1.0).sum() == 1
    assert model(classes=[-1, 1], **QUICK).fit(X, y).unlabelled_ is None


@over(LOOPING)
@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([0, 2], r"labels \[1\] that classes=\[0, 2\] does not name"),
        ([0, 1, 1], "names a class twice"),
        ([1], "at least two"),
        ([0, 1, None], "null"),
        ([0, "one"], "several types"),
        ("01", "classes must be"),
    ],
)
def test_classes_that_cannot_be_are_refused_by_name(model, classes, message):
    X, truth = moons()
    with pytest.raises(ValueError, match=message):
        model(classes=classes, **QUICK).fit(X, labels(truth, of_0=1, of_1=1))


@over(LOOPING)
def test_no_label_at_all_is_refused(model):
    X, truth = moons()
    with pytest.raises(ValueError, match="no labelled row"):
        model(classes=[0, 1], **QUICK).fit(X, labels(truth))


@over(LOOPING)
def test_classes_without_labels_are_alike(model):
    X, truth = moons()
    y = labels(truth, of_1=2)
    p = np.mean(
        [
            model(classes=[0, 1, 2, 3], labels_chosen=True, n_draws=100, random_state=seed)
            .fit(X, y)
            .predict_proba(X)
            for seed in range(3)
        ],
        axis=0,
    )
    shares = p.mean(axis=0)[[0, 2, 3]]
    # Means over rows of 300 draws: each is a share with a standard deviation below 0.35.
    assert np.ptp(shares) < 6 * 0.35 * np.sqrt(2 / 300)


# Chosen labels ------------------------------------------------------------------------------------


@over(LOOPING)
def test_an_array_says_of_each_row_what_a_word_says_of_all(model):
    X, truth = moons()
    y = labels(truth, of_0=6, of_1=2)
    every = [model(labels_chosen=c, **QUICK).fit(X, y).predict_proba(X) for c in (False, True)]
    assert np.abs(every[0] - every[1]).max() > 1e-3
    for said, p in zip((np.zeros(80, bool), np.ones(80, bool)), every):
        q = model(labels_chosen=said, **QUICK).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(q, p, atol=1e-12)
    unlabelled = np.array([label is None for label in y])
    q = model(labels_chosen=unlabelled, **QUICK).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(q, every[0], atol=1e-12)


@over(LOOPING)
@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (np.zeros(3, bool), "3 entries and X has 80 rows"),
        ("yes", "labels_chosen must be"),
        (np.zeros(80), "labels_chosen must be"),
    ],
)
def test_labels_chosen_of_another_form_is_refused(model, chosen, message):
    X, truth = moons()
    with pytest.raises(ValueError, match=message):
        model(labels_chosen=chosen, **QUICK).fit(X, labels(truth, of_0=1, of_1=1))


# Warm starts --------------------------------------------------------------------------------------


@over(LOOPING)
def test_a_warm_refit_finds_what_a_fit_from_the_start_finds(model, monkeypatch):
    X, truth = moons()
    loop = model(warm_start=True, classes=[0, 1], **QUICK).fit(X, labels(truth, of_0=1))
    kept = getattr(loop, KEPT)
    for counts in ({"of_0": 1, "of_1": 1}, {"of_0": 9, "of_1": 8}):
        y = labels(truth, **counts)
        loop.fit(X.copy(), y)
        assert getattr(loop, KEPT) is kept
        fresh = model(classes=[0, 1], **QUICK).fit(X, y)
        np.testing.assert_allclose(
            loop.label_distributions_, fresh.label_distributions_, atol=1e-12, rtol=0
        )
        np.testing.assert_allclose(
            loop.predict_proba(X + 0.01), fresh.predict_proba(X + 0.01), atol=1e-12, rtol=0
        )


@over(LOOPING)
def test_a_label_on_another_piece_of_the_graph_is_not_missed(model):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.3, (40, 2)) for c in (0.0, 10.0, 20.0)])
    y = np.full(120, -1)
    y[[0, 50]] = 0, 1
    loop = model(warm_start=True, **QUICK).fit(X, y)
    y[100] = 1
    fresh = model(**QUICK).fit(X, y)
    np.testing.assert_allclose(
        loop.fit(X, y).label_distributions_, fresh.label_distributions_, atol=1e-12, rtol=0
    )


@over(LOOPING)
def test_other_rows_or_settings_are_not_taken_for_the_same(model):
    X, truth = moons()
    X, y = X.copy(), labels(truth, of_0=2, of_1=2)
    loop = model(warm_start=True, **QUICK).fit(X, y)
    X[5] += 0.5  # in place: the same object
    fresh = model(**QUICK).fit(X, y)
    np.testing.assert_array_equal(loop.fit(X, y).label_distributions_, fresh.label_distributions_)
    fresh = model(n_neighbors=5, **QUICK).fit(X, y)
    loop.set_params(n_neighbors=5).fit(X, y)
    np.testing.assert_array_equal(loop.label_distributions_, fresh.label_distributions_)


@over(LOOPING)
def test_copies_pickles_and_files_hold_nothing_of_the_rows_beyond_the_model(model, tmp_path):
    X, truth = moons()
    y = labels(truth, of_0=2, of_1=2)
    loop = model(warm_start=True, **QUICK).fit(X, y)
    assert hasattr(loop, KEPT)
    save_model(loop, tmp_path / "loop.atoll")
    saved = load_model(tmp_path / "loop.atoll")
    for copy in (clone(loop), pickle.loads(pickle.dumps(loop)), saved):
        assert not hasattr(copy, KEPT)
    assert not hasattr(loop.set_params(warm_start=False).fit(X, y), KEPT)
    np.testing.assert_array_equal(saved.predict_proba(X), loop.predict_proba(X))


@over(LOOPING)
def test_rows_labelled_later_are_attached_to_a_graph_of_a_part_of_the_rows(model):
    X, truth = moons(600)
    y = labels(truth, of_0=1, of_1=1)
    loop = model(warm_start=True, max_graph_rows=100, **QUICK).fit(X, y)
    p = loop.predict_proba(X)
    y = labels(truth, of_0=9, of_1=9)
    loop.fit(X, y)
    assert loop.n_graph_rows_ == 100
    assert np.mean(loop.transduction_ == truth) > 0.97
    assert np.abs(loop.predict_proba(X) - p).max() > 0.1
    fresh = model(max_graph_rows=100, **QUICK).fit(X, y)
    assert np.abs(loop.label_distributions_ - fresh.label_distributions_).mean() < 0.06


@over(LOOPING)
def test_rows_beyond_the_graph_find_their_nearest_once(model, monkeypatch):
    X, truth = moons(600)
    loop = model(warm_start=True, max_graph_rows=100, **QUICK)
    loop.fit(X, labels(truth, of_0=1, of_1=1))
    y, searched = labels(truth, of_0=3, of_1=3), []

    def nearest(rows, X, k, **settings):
        searched.append(len(rows if X is None else X))
        return graphs.nearest(rows, X, k, **settings)

    monkeypatch.setattr(graph_spectral, "nearest", nearest)
    again = loop.fit(X, y).label_distributions_
    assert max(searched, default=0) < 500
    vars(getattr(loop, KEPT))["_made"].pop("nearest")
    np.testing.assert_array_equal(loop.fit(X, y).label_distributions_, again)
    assert max(searched) == 500


def test_a_graph_of_given_distances_is_made_anew_for_a_row_that_it_lacks():
    X, truth = moons(300)
    D = cdist(X, X)
    loop = GraphGPClassifier(metric="precomputed", warm_start=True, max_graph_rows=100, **QUICK)
    loop.fit(D, labels(truth, of_0=1, of_1=1))
    y = labels(truth, of_0=4, of_1=4)
    loop.fit(D, y)
    known = np.flatnonzero([label is not None for label in y])
    assert np.isin(known, loop.posterior_.kept).all()
