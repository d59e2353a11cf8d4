"""scikit-learn's own checks over every public estimator, from one list."""

from __future__ import annotations

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import atoll
from atoll.estimators import MODELS, ArchipelagoClassifier
from atoll.estimators.sampled import SampledClassifier

# Long enough to classify well, short enough for some two hundred fits. None is expected to fail.
SHORT = {"n_chains": 1, "n_warmup": 20, "n_samples": 20}
SHORTER = {"n_chains": 1, "n_warmup": 9, "n_samples": 6}  # its rejections make rows many


def short(model):
    if model is ArchipelagoClassifier:
        return model(**SHORTER)
    if "selection" in model().get_params():  # a search at every fit takes minutes
        return model(selection=None, noise=0.3, n_warmup=2, n_samples=6)
    return model(**SHORT) if issubclass(model, SampledClassifier) else model()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([short(model) for model in MODELS.values()])
def test_scikit_learn_estimator_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def test_every_public_classifier_is_in_the_list_of_models():
    public = {name for name in atoll.__all__ if hasattr(getattr(atoll, name), "predict_proba")}
    assert public == {model.__name__ for model in MODELS.values()}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_model_says_its_paper_and_has_an_example(model):
    assert model.paper
    assert model.summary
    assert "Examples\n    --------\n    >>>" in model.__doc__
    assert "References" in model.__doc__
