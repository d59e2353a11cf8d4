"""Columns in unlike units: said where labels show that it matters, and not where it does not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from atoll import GraphGPClassifier, InformativeVectorClassifier, ProbitGPClassifier
from atoll.active import ActiveLearner
from atoll.core.labels import parse_labels
from atoll.datasets import hide_labels
from atoll.estimators.unlike_columns import remark_on_scales

WINE = load_wine(return_X_y=True)  # proline in hundreds, hue near one


def remarks(model, X, truth, seed=0, per_class=32):
    y = hide_labels(truth, per_class=per_class, marker=None, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        remark_on_scales(model, X, parse_labels(y))
    return [str(one.message) for one in caught]


def test_units_that_mislead_the_labels_are_said_with_the_fix():
    X, truth = WINE
    for seed in range(10):
        (said,) = remarks(GraphGPClassifier(), X, truth, seed)
        assert "the columns have unlike units" in said
        assert "Put StandardScaler() before it in a pipeline." in said


@pytest.mark.parametrize("per_class", [2, 8, 32])
def test_scales_that_are_right_are_left_without_a_word(per_class):
    digits, truth = load_digits(return_X_y=True)
    scores = PCA(20, random_state=0).fit_transform(digits)  # their ranges tell what matters
    for seed in range(10):
        assert not remarks(GraphGPClassifier(), scores, truth, seed, per_class)
        assert not remarks(GraphGPClassifier(), digits, truth, seed, per_class)
        like = StandardScaler().fit_transform(WINE[0])
        assert not remarks(GraphGPClassifier(), like, WINE[1], seed, min(per_class, 16))


def test_a_length_scale_for_each_column_needs_no_like_units():
    assert remarks(ProbitGPClassifier(), *WINE)
    assert not remarks(ProbitGPClassifier(kernel="ard"), *WINE)
    assert not remarks(GraphGPClassifier(metric="cosine"), *WINE)


def test_the_fit_is_not_trusted_without_care():
    X, truth = WINE
    y = hide_labels(truth, per_class=32, marker=None, random_state=0)
    with pytest.warns(UserWarning, match="InformativeVectorClassifier: the columns have unlike"):
        model = InformativeVectorClassifier(n_rounds=2).fit(X, y)
    assert model.diagnostics_["trust"] == "with care"
    assert "Beware: the columns have unlike units" in model.diagnostics_["verdict"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        make_pipeline(StandardScaler(), InformativeVectorClassifier()).fit(X, y)


def test_a_labelling_loop_standardises_columns_in_unlike_units_for_its_own_model():
    X, truth = WINE
    y = hide_labels(truth, per_class=6, marker=None, random_state=0)
    learner = ActiveLearner(random_state=0).fit(X, y)
    like = ActiveLearner(random_state=0).fit(StandardScaler().fit_transform(X), y)
    np.testing.assert_allclose(learner.proba_, like.proba_, atol=1e-6)
    assert np.mean(learner.predictions_ == truth) > 0.9
    given = ActiveLearner(GraphGPClassifier(), random_state=0).fit(X, y)
    assert np.mean(given.predictions_ == truth) < 0.8  # as it was asked
