"""scikit-learn's own checks over every public estimator, from one list."""

from __future__ import annotations

import inspect
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import estimator_checks_generator

import atoll
from atoll.estimators import (
    CLASSIFIERS,
    MODELS,
    ArchipelagoClassifier,
    AtollClassifier,
    DPMixtureClassifier,
    GraphGPClassifier,
)
from atoll.estimators.informed import InformedClassifier
from atoll.estimators.shell import SemiSupervisedClassifier
from walking import OF_EACH_KIND, QUICK, QUICK_AVERAGE, SAMPLED, parameters_of

# Long enough to classify well, short enough for some two hundred fits. None is expected to fail.
SHORT = {"n_chains": 1, "n_warmup": 8, "n_samples": 4}
# Shorter for Archipelago, whose rejections make rows many; choosing a base density takes longer.
SHORTER = {"n_chains": 1, "n_warmup": 4, "n_samples": 3, "thin": 1, "base_density": "gaussian"}

PARTLY_FITTED = (
    "check_fit_score_takes_y",
    "check_n_features_in_after_fitting",
    "check_estimators_partial_fit_n_features",
)
# What the shell alone answers for, which all classifiers share: how rows and labels are read.
OF_THE_SHELL = {
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_f_contiguous_array_estimator",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_score_takes_y",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_supervised_y_2d",
}
NOT_MEANT = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "it leaves rows of weight zero out, and repeats others; here a row of weight zero is "
    "unlabelled and tells where rows lie, and a weight is of a label and not of a row",
)


def short(model):
    if model is ArchipelagoClassifier:
        return model(**SHORTER)
    if model in SAMPLED.values():
        return model(**SHORT)
    if model is DPMixtureClassifier:
        return model(n_components=4, n_starts=1, n_folds=2)
    if model is GraphGPClassifier:
        return model(n_draws=20, recipe=QUICK)
    if model is AtollClassifier:
        return model(n_draws=20, recipe=QUICK_AVERAGE)
    known = parameters_of(model)
    if "unlabelled_cost" in known:
        return model(C=1.0, gamma="scale", unlabelled_cost=1.0)
    if "selection" not in known:
        return model()
    # A search at every fit takes minutes.
    of_samples = {"noise": 0.3, "n_warmup": 2, "n_samples": 4} if "noise" in known else {}
    return model(selection=None, **of_samples)


def checks():
    """Every estimator with every check.

    The longest check is made of plain rows and of read-only maps of double and of single
    precision; maps are for the slow suite, but for single ones of models that keep them so. So are
    sparse matrices of a kind that SciPy will give up, what compiles an engine, and what some
    classifiers show for the shell of all.
    """
    for key, model in CLASSIFIERS.items():
        for estimator, check in estimator_checks_generator(short(model)):
            options = check.keywords
            is_map = "readonly_memmap" in options
            single = model.keeps_single and options.get("X_dtype") == "float32"
            compiles = model is ArchipelagoClassifier and check.func.__name__ in PARTLY_FITTED
            old = check.func.__name__ == "check_estimator_sparse_matrix"
            shown = check.func.__name__ in OF_THE_SHELL and key not in OF_EACH_KIND
            shown = shown and not (model.keeps_single and check.func.__name__.endswith("_dtypes"))
            long = (is_map and not single) or compiles or old or shown
            marks = [pytest.mark.slow] if long else []
            words = [check.func.__name__, *(f"{name}={value}" for name, value in options.items())]
            name = f"{model.__name__}-{'-'.join(words)}"
            if check.func.__name__ in NOT_MEANT and issubclass(model, InformedClassifier):
                reason = NOT_MEANT[check.func.__name__]
                marks.append(pytest.mark.xfail(reason=reason, strict=True))
            yield pytest.param(estimator, check, marks=marks, id=name)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_estimator_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def test_every_public_classifier_has_the_shell_and_is_in_the_list_that_tests_walk():
    public = [
        getattr(atoll, name) for name in atoll.__all__ if name.endswith(("Classifier", "SVC"))
    ]
    assert set(public) == set(CLASSIFIERS.values())
    assert all(issubclass(model, SemiSupervisedClassifier) for model in public)
    with_probabilities = {model for model in public if hasattr(model(), "predict_proba")}
    assert with_probabilities == set(MODELS.values())


@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_every_model_says_its_paper_and_has_an_example(model):
    assert model.paper
    assert model.summary
    text = inspect.getdoc(model)
    assert "Examples\n--------\n>>>" in text
    assert "References" in text
