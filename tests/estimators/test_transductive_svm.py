"""The transductive support vector machine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from atoll import TransductiveSVC
from atoll.datasets import hide_labels, make_crescents, make_pinwheel
from atoll.estimators import load_model, save_model, transductive_svm
from atoll.models.transductive_svm import assign, doubled_costs, measure_costs, positive_count


def test_with_every_row_labelled_it_is_the_svm():
    X, y = make_crescents(60, random_state=0)
    ours, plain = TransductiveSVC(C=1.0, gamma="scale").fit(X, y), SVC().fit(X, y)
    np.testing.assert_allclose(ours.posterior_.decide(X), plain.decision_function(X), atol=1e-10)
    assert ours.n_trained_ == 0


def test_unlabelled_rows_move_the_boundary_to_the_gap():
    X, truth = make_crescents(200, random_state=1)
    y = hide_labels(truth, per_class=4, marker=None, random_state=1)
    known = np.array([label is not None for label in y])
    model = TransductiveSVC(C=10.0, gamma=0.3, unlabelled_cost=1.0).fit(X, y)
    alone = SVC(C=10.0, gamma=0.3).fit(X[known], truth[known])
    assert np.mean(model.transduction_ == truth) > 0.97
    decisions = model.posterior_.decide(X), alone.decision_function(X)
    in_margin = [np.mean(np.abs(values) < 0.5) for values in decisions]
    assert in_margin[0] < in_margin[1]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_share_of_the_second_class_is_kept(share):
    X, truth = make_crescents(100, random_state=2)
    y = hide_labels(truth, per_class=5, marker=None, random_state=2)
    model = TransductiveSVC(C=1.0, unlabelled_cost=1.0, positive_share=share).fit(X, y)
    unknown = np.array([label is None for label in y])
    assert np.sum(model.assigned_[unknown] == 1) == positive_count(90, share)


def test_labels_that_are_given_stay():
    X, truth = make_crescents(80, random_state=3)
    y = hide_labels(truth, per_class=3, marker=None, random_state=3)
    y[next(i for i, label in enumerate(y) if label == 1)] = 0  # a wrong one
    model = TransductiveSVC(random_state=0).fit(X, y)
    known = np.array([label is not None for label in y])
    assert model.assigned_[known].tolist() == y[known].tolist()
    assert model.transduction_[known].tolist() == y[known].tolist()


def test_three_classes_by_name_and_saved(tmp_path):
    X, truth = make_pinwheel(90, n_classes=3, random_state=0)
    names = np.array(["left", "right", "up"], dtype=object)[truth]
    y = hide_labels(names, per_class=6, marker=None, random_state=0)
    model = TransductiveSVC(C=10.0, random_state=0).fit(X, y)
    assert model.decision_function(X).shape == (90, 3)
    assert model.score(X, names) > 0.9
    save_model(model, tmp_path / "m.atoll")
    np.testing.assert_array_equal(load_model(tmp_path / "m.atoll").predict(X), model.predict(X))


def test_a_custom_kernel_gives_what_its_name_gives():
    X, truth = make_crescents(60, random_state=4)
    y = hide_labels(truth, per_class=5, marker=None, random_state=4)
    named = TransductiveSVC(C=1.0, kernel="linear", random_state=0).fit(X, y)
    own = TransductiveSVC(C=1.0, kernel=lambda A, B: A @ B.T, random_state=0).fit(X, y)
    np.testing.assert_allclose(named.posterior_.decide(X), own.posterior_.decide(X), atol=1e-3)
    np.testing.assert_allclose(named.predict_proba(X), own.predict_proba(X), atol=1e-3)


def test_costs_grow_to_that_of_a_labelled_row():
    seen, weights_seen = np.array([True, True, False, False]), []

    def train(signs, weights):
        weights_seen.append(weights[2])
        return np.array([1.0, -1.0, 0.5, -0.5])

    found = assign(train, np.array([1, 0, 0, 0]), seen, 0.5)
    assert found.codes.tolist() == [1, 0, 1, 0]
    assert np.all(np.diff(weights_seen) >= 0)
    assert weights_seen[0] == 0.0
    assert weights_seen[-1] == found.weights[2] == 1.0
    assert found.settled


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"C": 0}, 'C must be "auto" or a positive number, got 0'),
        ({"kernel": "round"}, 'kernel must be "linear", .* got .round'),
        ({"gamma": -1.0}, 'gamma must be "auto", "scale" or a number at least 0, got -1.0'),
        (
            {"unlabelled_cost": -1.0},
            'unlabelled_cost must be "auto" or a number at least 0, got -1.0',
        ),
        ({"positive_share": 1.5}, r"positive_share must be None .* below 1, got 1\.5"),
    ],
)
def test_bad_parameters_are_named(options, words):
    X, y = make_crescents(20, random_state=0)
    with pytest.raises(ValueError, match=words):
        TransductiveSVC(**options).fit(X, y)


def test_a_share_for_more_than_two_classes_is_refused():
    X, y = make_pinwheel(30, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match=r"positive_share must be None for 3 classes, got 0\.5"):
        TransductiveSVC(positive_share=0.5).fit(X, y)


def test_labels_that_do_not_come_to_rest_warn_with_the_fix(monkeypatch):
    X, truth = make_crescents(60, random_state=4)
    y = hide_labels(truth, per_class=5, marker=None, random_state=4)
    model = TransductiveSVC(random_state=0).fit(X, y)
    assert model.diagnostics_["converged"]
    assert f"{model.n_trained_} machines" in model.diagnostics_["verdict"]

    def restless(*args, **options):
        return assign(*args, **options)._replace(settled=False)

    monkeypatch.setattr(transductive_svm, "assign", restless)
    with pytest.warns(ConvergenceWarning, match="back and forth at some cost; lower C"):
        model.fit(X, y)
    assert not model.diagnostics_["converged"]


# What the labels choose ---------------------------------------------------------------------------


def test_a_cost_of_zero_is_the_machine_of_the_labelled_rows():
    X, truth = make_crescents(60, random_state=5)
    y = hide_labels(truth, per_class=5, marker=None, random_state=5)
    known = np.array([label is not None for label in y])
    model = TransductiveSVC(C=1.0, gamma=0.5, unlabelled_cost=0.0).fit(X, y)
    alone = SVC(C=1.0, gamma=0.5).fit(X[known], truth[known])
    np.testing.assert_allclose(model.posterior_.decide(X), alone.decision_function(X), atol=1e-10)
    assert model.unlabelled_cost_ == 0.0


def test_measured_alone_is_measured_at_a_cost_of_zero():
    X, truth = make_crescents(40, random_state=6)
    fold = np.arange(20)[None] % 5
    gram = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    alone = measure_costs(gram[:20, :20], truth[:20], fold, 1.0)
    beside = measure_costs(gram, truth[:20], fold, 1.0, (0.1, 1.0))
    assert len(alone) == 1
    assert len(beside) == 3
    np.testing.assert_allclose(alone[0].log_likelihoods, beside[0].log_likelihoods, atol=1e-9)


def test_labels_of_rows_that_have_nothing_in_common_say_nothing():
    # Every row is far from all others: a machine knows nothing of a row that it was not shown.
    codes = np.arange(12) % 2
    fold = (np.arange(12) // 2)[None] % 5
    (found,) = measure_costs(np.eye(12), codes, fold, 1.0)
    assert found.log_likelihoods[0] >= found.log_likelihoods.max() - 0.5


@pytest.mark.parametrize("seed", range(3))
def test_the_labels_choose_a_width_at_which_rows_can_be_told_apart(seed):
    # Rings: with a wide kernel, or a line, they cannot be.
    rng = np.random.default_rng(seed)
    radius = np.repeat([1.0, 3.0], 100)
    angle = rng.uniform(0, 2 * np.pi, 200)
    X = (radius + 0.1 * rng.normal(size=200))[:, None] * np.c_[np.cos(angle), np.sin(angle)]
    truth = np.repeat([0, 1], 100)
    y = hide_labels(truth, per_class=20, marker=None, random_state=seed)
    model = TransductiveSVC(random_state=seed).fit(X, y)
    assert np.mean(model.transduction_ == truth) > 0.97
    assert model.C_ in transductive_svm.PENALTIES
    given = TransductiveSVC(C=2.0, gamma=0.7, unlabelled_cost=0.3, random_state=seed).fit(X, y)
    assert (given.C_, given.gamma_, given.unlabelled_cost_) == (2.0, 0.7, 0.3)


def test_costs_double_up_to_the_last():
    costs = doubled_costs(0.5)
    assert costs[0] == pytest.approx(0.0005)
    assert costs[-1] == 0.5
    assert all(later <= 2 * first for first, later in pairwise(costs))


def test_the_number_of_positive_rows_is_their_share_and_one_of_each_class_at_least():
    assert [positive_count(1, share) for share in (0.1, 0.3, 0.7)] == [0, 0, 1]
    assert positive_count(0, 0.4) == 0
    assert [positive_count(10, share) for share in (0.001, 0.3, 0.999)] == [1, 3, 9]
