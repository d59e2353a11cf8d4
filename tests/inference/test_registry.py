"""What holds of every method that approximates a posterior over regions, by name."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.datasets import make_crescents
from atoll.estimators import ProbitGPClassifier
from atoll.inference.registry import METHODS, OVER_REGIONS

METHOD = pytest.mark.parametrize("name", OVER_REGIONS)


def crescents():
    X, y = make_crescents(n_samples=60, random_state=0)
    new, truth = make_crescents(n_samples=80, random_state=1)
    return X, y, new, truth


@METHOD
def test_a_method_has_a_title_and_says_what_it_climbs(name):
    assert METHODS[name].title
    assert METHODS[name].objective


@METHOD
def test_a_probit_gp_by_any_method_classifies_and_agrees_with_the_others(name):
    X, y, new, truth = crescents()
    model = ProbitGPClassifier(inference=name).fit(X, y)
    assert model.score(new, truth) > 0.9
    assert np.isfinite(model.objectives_).all()
    assert np.diff(model.objectives_).min(initial=0.0) > -1e-6, "the search went down"
    other = ProbitGPClassifier(inference="vb").fit(X, y)
    assert np.abs(model.predict_proba(new) - other.predict_proba(new)).mean() < 0.1


def refusal_of(model, X, y):
    """The message of a fit that is refused; empty where it is not."""
    try:
        p = model.fit(X, y).predict_proba(X)
    except ValueError as error:
        return str(error)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    return ""


@METHOD
def test_three_classes_fit_or_are_refused_by_name(name):
    X, y, _, _ = crescents()
    three = np.where(X[:, 0] > np.quantile(X[:, 0], 0.7), 2, y)
    refusal = refusal_of(ProbitGPClassifier(inference=name), X, three)
    assert not refusal or "inference" in refusal
