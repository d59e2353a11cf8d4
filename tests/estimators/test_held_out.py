import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from atoll import GraphGPClassifier
from atoll.diagnostics import expected_calibration_error
from atoll.estimators.held_out import (
    calibration_error_by_chance,
    held_out_probabilities,
    score,
)
from atoll.estimators.model_selection import SemiSupervisedKFold


class Remembering(ClassifierMixin, BaseEstimator):
    """Records what its clones were fitted on; the log is shared through the class."""

    log: list = []  # noqa: RUF012  clones must share it

    def __init__(self, checkpoint=None, random_state=None, unlabelled="auto", verbose=False):
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.unlabelled = unlabelled
        self.verbose = verbose

    def fit(self, X, y):
        self.log.append((np.asarray(X)[:, 0], np.asarray(y), self.get_params()))
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X):
        return np.tile([0.25, 0.75], (len(X), 1))


@pytest.fixture
def log():
    Remembering.log.clear()
    return Remembering.log


def numbered_rows(n=40, n_labelled=12):
    X = np.column_stack([np.arange(n), np.zeros(n)])
    y = np.where(np.arange(n) < n_labelled, np.arange(n) % 2, -1)
    return X, y


def test_every_labelled_row_is_predicted_once_by_a_model_that_did_not_see_it(log):
    X, y = numbered_rows()
    found = held_out_probabilities(Remembering(), X, y, n_splits=3, unlabelled=-1)
    assert found.n_splits == 3
    assert found.codes.tolist() == y[:12].tolist()
    held_out = [set(range(40)) - set(rows.astype(int)) for rows, _, _ in log]
    assert sorted(row for rows in held_out for row in rows) == list(range(12))
    assert all((labels == -1).sum() == 28 for _, labels, _ in log)


def test_refits_have_a_seed_and_no_checkpoint_and_leave_the_estimator_alone(log):
    X, y = numbered_rows()
    estimator = Remembering(checkpoint="whole.npz", verbose=True)
    before = estimator.get_params()
    held_out_probabilities(estimator, X, y, n_splits=2, unlabelled=-1, random_state=7)
    expected = {"checkpoint": None, "random_state": 7, "unlabelled": -1, "verbose": False}
    assert [settings for _, _, settings in log] == [expected, expected]
    assert estimator.get_params() == before


def test_refits_keep_a_seed_that_was_given_and_reach_into_pipelines(log):
    X, y = numbered_rows()
    pipeline = make_pipeline(StandardScaler(), Remembering(checkpoint="whole.npz", random_state=3))
    held_out_probabilities(pipeline, X, y, n_splits=2, unlabelled=-1, random_state=7)
    assert all(s["checkpoint"] is None and s["random_state"] == 3 for _, _, s in log)


def test_probabilities_are_those_of_refitting_by_hand():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)) + 3 * (np.arange(30) % 2)[:, None]
    y = np.where(np.arange(30) < 20, np.arange(30) % 2, -1)
    found = held_out_probabilities(LabelSpreading(), X, y, unlabelled=-1, random_state=4)
    expected = np.empty((30, 2))
    for train, test in SemiSupervisedKFold(5, unlabelled=-1, random_state=4).split(X, y):
        expected[test] = LabelSpreading().fit(X[train], y[train]).predict_proba(X[test])
    np.testing.assert_array_equal(found.probabilities, expected[:20])


@pytest.mark.parametrize("kind", ["list", "array", "frame"])
def test_strings_and_nulls_are_understood_in_lists_arrays_and_frames(kind):
    labels = ["yes", "no", "yes", "no", None, float("nan")]
    X = [[0.0], [5.0], [0.1], [5.1], [0.2], [5.2]]
    if kind == "array":
        X, labels = np.array(X), np.array(labels, dtype=object)
    elif kind == "frame":
        X = pd.DataFrame(X, columns=["size"], index=list("abcdef"))
        labels = pd.Series(labels, index=list("abcdef"))

    class Nearest(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            known = np.array([isinstance(label, str) for label in y])
            self.model_ = GaussianNB(var_smoothing=0.1)
            self.model_.fit(np.asarray(X)[known], np.asarray(y, dtype=object)[known].astype(str))
            self.classes_ = self.model_.classes_
            return self

        def predict_proba(self, X):
            return self.model_.predict_proba(np.asarray(X))

    found = held_out_probabilities(Nearest(), X, labels)
    assert found.n_splits == 2
    assert "2 folds, not 5: class 'no' has 2 labelled rows" in found.note
    assert found.probabilities.argmax(axis=1).tolist() == found.codes.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("mark", [-1, None])
def test_a_classifier_that_takes_labelled_rows_alone_has_these_in_its_refits(mark):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.tile([0, 1], 20).astype(object)
    y[8:] = mark
    y = y if mark is None else y.astype(int)
    model = make_pipeline(StandardScaler(), GaussianNB())
    model.fit(X[:8], y[:8].astype(int))
    found = held_out_probabilities(model, X, y, n_splits=2)
    alone = held_out_probabilities(model, X[:8], y[:8].astype(int), n_splits=2)
    assert found.probabilities.shape == alone.probabilities.shape == (8, 2)
    assert "labelled rows alone" in found.note
    assert not alone.note


def test_a_class_with_one_label_is_named_and_nothing_is_refitted(log):
    X, _ = numbered_rows(6)
    found = held_out_probabilities(Remembering(), X, [0, 0, 0, 1, None, None])
    assert found.n_splits == 0
    assert "Class '1' has 1 labelled row:" in found.note
    assert "at least two rows of every class" in found.note
    assert log == []


def test_a_class_without_labels_is_named():
    X, _ = numbered_rows(6)
    model = Remembering().fit(X, None)
    found = held_out_probabilities(model, X, [0, 0, 0, None, None, None])
    assert found.n_splits == 0
    assert "Class '1' has no labelled row" in found.note


class Complaining(Remembering):
    def fit(self, X, y):
        warnings.warn("the chains have not mixed", stacklevel=2)
        return super().fit(X, y)


class Failing(Remembering):
    def fit(self, X, y):
        raise ValueError("three rows are needed")


def test_warnings_of_the_refits_are_kept_once_and_not_raised(log):
    X, y = numbered_rows()
    found = held_out_probabilities(Complaining(), X, y, n_splits=3, unlabelled=-1)
    assert found.warnings == ("the chains have not mixed",)


@pytest.mark.filterwarnings("ignore")
def test_refits_do_not_take_what_is_left_of_a_column_for_row_numbers():
    X = pd.DataFrame({"plot": np.tile(np.arange(100), 2), "x": np.arange(200.0) % 7})
    y = np.full(200, None, dtype=object)
    y[[3, 40, 90, 130]] = ["a", "b", "a", "b"]
    with pytest.warns(UserWarning, match="row number"):
        GraphGPClassifier(random_state=0).fit(X, y)
    found = held_out_probabilities(GraphGPClassifier(random_state=0), X, y, n_splits=2)
    assert found.n_splits == 2
    assert not any("row number" in said for said in found.warnings)


def test_a_refit_that_fails_is_explained():
    X, y = numbered_rows()
    found = held_out_probabilities(Failing(), X, y, unlabelled=-1)
    assert found.n_splits == 0
    assert found.note == "A refit on part of the labels failed: three rows are needed"


def test_what_is_said_of_each_row_goes_with_the_rows_of_a_refit():
    X = np.concatenate([np.linspace(0, 1, 12), np.linspace(5, 6, 12)])[:, None]
    y = np.repeat([0, 1], 12)
    estimator = GraphGPClassifier(n_draws=20, labels_chosen=np.arange(24) % 2 == 0)
    found = held_out_probabilities(estimator, X, y, n_splits=2)
    assert found.probabilities.shape == (24, 2)


def test_one_fold_is_refused():
    X, y = numbered_rows()
    with pytest.raises(ValueError, match="n_splits is 1"):
        held_out_probabilities(Remembering(), X, y, n_splits=1)


def test_a_class_that_a_fold_did_not_see_has_probability_zero_there():
    class SeesOne(Remembering):
        def fit(self, X, y):
            self.classes_ = np.array([1])
            return self

        def predict_proba(self, X):
            return np.ones((len(X), 1))

    X, y = numbered_rows()
    found = held_out_probabilities(SeesOne(), X, y, unlabelled=-1)
    np.testing.assert_array_equal(found.probabilities, np.tile([0.0, 1.0], (12, 1)))


def test_scores_agree_with_scikit_learn_and_arithmetic():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 50)
    codes = rng.integers(0, 3, 50)
    found = score(p, codes)
    assert found.log_loss == pytest.approx(log_loss(codes, p, labels=[0, 1, 2]))
    assert found.accuracy == (p.argmax(axis=1) == codes).mean()
    assert found.accuracy_low < found.accuracy < found.accuracy_high
    assert found.calibration_error == expected_calibration_error(p, codes)
    shares = np.bincount(codes) / 50
    by_share = log_loss(codes, np.tile(shares, (50, 1)), labels=[0, 1, 2])
    assert found.chance_log_loss == pytest.approx(by_share)


def test_the_shares_to_compare_with_are_those_of_the_other_folds():
    X, y = np.arange(14.0)[:, None], np.repeat([0, 1], [4, 10])
    found = held_out_probabilities(DummyClassifier(strategy="prior"), X, y, n_splits=3)
    np.testing.assert_allclose(found.shares, found.probabilities)
    scores = score(found.probabilities, found.codes, found.shares)
    assert scores.chance_log_loss == pytest.approx(scores.log_loss)
    assert scores.chance_log_loss > score(found.probabilities, found.codes).chance_log_loss


def test_a_class_that_the_other_folds_do_not_have_costs_no_infinity():
    p, codes = np.full((4, 2), 0.5), np.array([0, 0, 1, 1])
    shares = np.array([[1.0, 0.0]] * 4)
    assert score(p, codes, shares).chance_log_loss == pytest.approx(-np.log(1e-6) / 2)


def test_a_certain_and_wrong_prediction_costs_infinity():
    assert score([[1.0, 0.0], [0.5, 0.5]], [1, 0]).log_loss == np.inf


@pytest.mark.parametrize("seed", range(3))
def test_a_calibrated_model_seldom_exceeds_the_error_by_chance(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1.0, 1.0, 1.0], 40)
    limit = calibration_error_by_chance(p, np.random.default_rng(seed + 100))
    cumulative, same = p.cumsum(axis=1), np.random.default_rng(seed + 100)
    u = [same.random((40, 1)) * cumulative[:, -1:] for _ in range(400)]
    drawn = [expected_calibration_error(p, (one >= cumulative).sum(axis=1)) for one in u]
    assert limit == np.quantile(drawn, 0.95)
    n_sets = 300
    exceeded = 0
    for _ in range(n_sets):
        codes = (rng.random((40, 1)) > cumulative[:, :2]).sum(axis=1)
        exceeded += expected_calibration_error(p, codes) > limit
    # The limit is a quantile of 400 draws, the share one of 300: both err by about a hundredth.
    error = np.sqrt(0.05 * 0.95 * (1 / 400 + 1 / n_sets))
    assert exceeded / n_sets < 0.05 + 6 * error


def test_an_overconfident_model_exceeds_the_error_by_chance():
    p = np.tile([0.99, 0.01], (60, 1))
    limit = calibration_error_by_chance(p, np.random.default_rng(0))
    assert expected_calibration_error(p, np.arange(60) % 2) > 2 * limit


def test_refits_of_very_many_rows_have_all_labels_and_a_part_of_the_rest(log, monkeypatch):
    monkeypatch.setattr("atoll.estimators.held_out.MOST_ROWS", 30)
    X, y = numbered_rows(n=100)
    found = held_out_probabilities(Remembering(), X, y, n_splits=3, unlabelled=-1)
    assert found.codes.tolist() == y[:12].tolist()
    assert found.note == "Refits have 30 of the 100 rows."
    for rows, labels, _ in log:
        assert len(rows) == 30
        assert (labels >= 0).sum() == 8
        assert np.all(np.diff(rows) > 0)
