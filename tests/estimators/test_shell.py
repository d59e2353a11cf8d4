"""What the shell does for every estimator, shown on a model of ten lines."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from atoll.core import memory
from atoll.estimators.parameters import COMMON, Number
from atoll.estimators.progress import Progress
from atoll.estimators.shell import Classifier, Fit, Need


class MeansPosterior(NamedTuple):
    """Class probabilities that fall with the distance from each class's mean."""

    means: np.ndarray
    sharpness: float

    def latent(self, X):
        squares = ((X[:, None] - self.means) ** 2).sum(axis=2)
        return -self.sharpness * squares, np.zeros(squares.shape)

    def log_proba(self, X):
        return log_softmax(self.latent(X)[0], axis=1)

    def draws(self, X, n, rng):
        return np.repeat(np.exp(self.log_proba(X))[None], n, axis=0)


class NearestMeans(Classifier):
    """The smallest classifier that the shell takes."""

    paper, summary = "none", "the nearest mean"
    saves = (MeansPosterior,)
    parameters = COMMON | {"sharpness": Number(above=0)}

    def __init__(self, *, sharpness=1.0, unlabelled="auto", verbose=False):
        self.sharpness = sharpness
        self.unlabelled = unlabelled
        self.verbose = verbose

    def _memory(self, X, labels):
        return Need(8 * X.size, f"{len(X)} rows", "Use fewer.")

    def _fit(self, X, labels):
        known = labels.is_labelled
        with Progress(self.verbose, "Means", "classes") as bar:
            means = []
            for k in range(len(labels.classes)):
                means.append(X[known & (labels.codes == k)].mean(axis=0))
                bar.report()
        settled = self.sharpness < 100
        found = {"converged": settled, "verdict": "Means were found." if settled else "Too sharp."}
        extra = {"odd_": True} if len(X) % 2 else {}
        return Fit(MeansPosterior(np.array(means), float(self.sharpness)), found, attributes=extra)


X = np.array([[0.0], [0.2], [3.0], [3.1], [1.4], [2.9]])
Y = np.array(["a", "a", "b", "b", None, None], dtype=object)


@parametrize_with_checks([NearestMeans()])
def test_the_shell_passes_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


def test_given_labels_stay_and_others_are_the_posteriors():
    model = NearestMeans().fit(X, Y)
    assert model.transduction_.tolist() == ["a", "a", "b", "b", "a", "b"]
    np.testing.assert_array_equal(model.label_distributions_[:2], [[1, 0], [1, 0]])
    np.testing.assert_array_equal(model.label_distributions_[4:], model.predict_proba(X[4:]))


def test_what_an_earlier_fit_left_does_not_survive():
    model = NearestMeans().fit(X[:5], Y[:5])
    assert model.odd_
    assert not hasattr(model.fit(X, Y), "odd_")


def test_a_fit_that_fails_leaves_no_fit():
    model = NearestMeans().fit(X, Y)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, ["a", "a", None, None, None, None])
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize(
    ("y", "marker"),
    [
        ([1, 1, 2, 2, -1, -1], -1),
        ([-1, -1, 1, 1, None, None], None),
        (["a", "a", "b", "b", None, None], -1),
    ],
)
def test_what_auto_meant_is_kept_and_serves_the_score(y, marker):
    model = NearestMeans().fit(X, y)
    assert model.unlabelled_ == marker
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize(
    ("y", "weights", "problem"),
    [
        (Y[:3], None, "y has 3 entries and X has 6 rows"),
        (Y, [1.0], r"sample_weight has shape \(1,\) and X has 6 rows"),
        (Y, ["heavy"] * 6, "sample_weight must hold numbers"),
        (Y, [-1.0, *[1.0] * 5], "zero or more for the rows that are scored"),
        (Y, [np.nan, *[1.0] * 5], "must be finite"),
        (Y, [0.0] * 4 + [1.0] * 2, "more than zero for one of them"),
    ],
)
def test_labels_and_weights_that_no_score_can_be_of_are_refused(y, weights, problem):
    with pytest.raises(ValueError, match=problem):
        NearestMeans().fit(X, Y).score(X, y, sample_weight=weights)


def test_a_fit_that_went_wrong_warns_at_the_callers_line_with_the_verdict():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        NearestMeans(sharpness=1000.0).fit(X, Y)
    (warning,) = caught
    assert warning.category is ConvergenceWarning
    assert str(warning.message) == "NearestMeans: Too sharp."  # the points alone, in one line
    assert warning.filename == __file__


def test_a_remark_on_labels_is_made_at_the_callers_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        NearestMeans().fit(X, ["a", "b", "?", "?", "a", "?"])
    assert {(w.category, w.filename) for w in caught} == {(UserWarning, __file__)}
    assert "3 of 6 rows have the label '?'" in str(caught[0].message)


def test_a_parameter_out_of_its_rule_is_refused_before_the_data_are_read():
    with pytest.raises(ValueError, match=r"^sharpness must be a positive number, got -1\.$"):
        NearestMeans(sharpness=-1).fit("no rows", None)
    with pytest.raises(ValueError, match=r"^verbose must be True or False, got 'loud'\.$"):
        NearestMeans(verbose="loud").fit(X, Y)


def test_too_much_memory_is_refused_before_the_fit(monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 40)
    with pytest.raises(ValueError, match="6 rows needs about"):
        NearestMeans().fit(X, Y)


def test_joint_draws_have_a_row_per_draw_and_refuse_what_is_no_count():
    model = NearestMeans().fit(X, Y)
    assert model.sample_proba(X, 3).shape == (3, 6, 2)
    with pytest.raises(ValueError, match="n_samples must be a whole number, at least 1, got 0"):
        model.sample_proba(X, 0)


def test_a_model_without_chains_has_nothing_to_export():
    with pytest.raises(ValueError, match="without Markov chains"):
        NearestMeans().fit(X, Y).to_arviz()
