"""What holds of every fitted classifier, whatever its paper."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.stats import mannwhitneyu
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from atoll.datasets import make_crescents
from atoll.estimators import CLASSIFIERS, MODELS, OrdinalGPClassifier, SemiSupervisedKFold
from atoll.estimators.persistence import load_model, save_model
from atoll.models.posterior import FunctionPosterior, Posterior
from walking import (
    CLASSES,
    FUNCTIONS,
    PARALLEL,
    RANDOM,
    fit_of,
    over,
    over_kinds,
    problem,
    queries,
    short,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*in the order of the alphabet:UserWarning"),
]
MODEL = over(CLASSIFIERS)
KIND = over_kinds(CLASSIFIERS)


def scores_of(model, X):
    """Class probabilities or, where a model has none, decisions."""
    method = "predict_proba" if hasattr(model, "predict_proba") else "decision_function"
    return getattr(model, method)(X)


def assert_same_fit(left, right, X):
    """But for the last digit, in which sums may differ by where arrays lie in memory."""
    assert left.transduction_.tolist() == right.transduction_.tolist()
    same = {"rtol": 1e-12, "atol": 1e-14}
    np.testing.assert_allclose(scores_of(left, X), scores_of(right, X), **same)
    if hasattr(left, "label_distributions_"):
        np.testing.assert_allclose(left.label_distributions_, right.label_distributions_, **same)


# Predictions --------------------------------------------------------------------------------------


@MODEL
def test_given_labels_stay(model):
    fitted, _, y = fit_of(model)
    labelled = pd.notna(y)
    assert fitted.transduction_[labelled].tolist() == y[labelled].tolist()
    if model in MODELS.values():
        one_hot = y[labelled, None] == fitted.classes_
        np.testing.assert_array_equal(fitted.label_distributions_[labelled], one_hot.astype(float))


@MODEL
def test_a_fit_says_how_it_went(model):
    fitted, _, _ = fit_of(model)
    found = fitted.diagnostics_
    assert found["verdict"].endswith(".")
    assert found["interrupted"] is False
    assert {"mixed", "converged"} & found.keys()
    assert all(isinstance(found[key], bool) for key in ("mixed", "converged") if key in found)
    assert "mixed" not in found or fitted.draws_ or "n_draws" in found, "mixed is of chains"
    assert fitted.unlabelled_ == -1


@over(MODELS)
def test_label_distributions_are_distributions_and_transduction_their_largest(model):
    fitted, X, y = fit_of(model)
    p = fitted.label_distributions_
    assert p.shape == (len(X), len(fitted.classes_))
    assert np.all((p >= 0) & (p <= 1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert fitted.transduction_.tolist() == fitted.classes_[p.argmax(axis=1)].tolist()
    assert np.all(p[pd.isna(y)] > 0), "an unlabelled row is never certain"


@over(MODELS)
def test_probabilities_sum_to_one_and_predict_takes_the_largest(model):
    fitted, X, _ = fit_of(model)
    p = fitted.predict_proba(queries(X))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert np.all(p >= 0)
    assert fitted.predict(queries(X)).tolist() == fitted.classes_[p.argmax(axis=1)].tolist()


@over(MODELS)
def test_entropy_is_that_of_the_probabilities(model):
    fitted, X, _ = fit_of(model)
    p = fitted.predict_proba(X)
    expected = -np.sum(p * np.log(np.maximum(p, 1e-300)), axis=1)
    np.testing.assert_allclose(fitted.predict_entropy(X), expected, rtol=1e-10)


@MODEL
def test_predictions_do_not_depend_on_the_rows_beside_them(model):
    fitted, X, _ = fit_of(model)
    together = scores_of(fitted, queries(X))
    alone = np.concatenate([scores_of(fitted, row[None]) for row in queries(X)])
    np.testing.assert_allclose(alone, together, rtol=1e-10, atol=1e-14)


@over(FUNCTIONS)
def test_latent_moments_have_one_column_per_function_and_variances_that_are_not_negative(model):
    fitted, X, _ = fit_of(model)
    hint = f"give the posterior of {model.__name__} a latent(X), or set has_functions = False"
    assert isinstance(fitted.posterior_, FunctionPosterior), hint
    mean, variance = fitted.predict_latent(queries(X))
    n_functions = 1 if model is OrdinalGPClassifier else 3
    assert mean.shape == variance.shape == (len(queries(X)), n_functions)
    assert np.all(variance >= 0)


@over(MODELS)
def test_joint_draws_are_distributions_whose_rows_belong_together(model):
    fitted, X, _ = fit_of(model)
    assert isinstance(fitted.posterior_, Posterior)
    rows = np.concatenate([X[:3] + 0.3, X[:1] + 0.3])
    draws = fitted.sample_proba(rows, 7, random_state=1)
    assert draws.shape == (7, 4, 3)
    assert np.all(draws >= 0)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, rtol=0, atol=1e-9)
    np.testing.assert_allclose(draws[:, 3], draws[:, 0], rtol=0, atol=1e-3)
    np.testing.assert_array_equal(draws, fitted.sample_proba(rows, 7, random_state=1))


@MODEL
def test_score_is_the_accuracy(model):
    fitted, X, y = fit_of(model)
    labelled = pd.notna(y)
    right = fitted.predict(X[labelled]) == y[labelled]
    assert fitted.score(X[labelled], y[labelled]) == pytest.approx(right.mean())


@KIND
def test_score_is_the_accuracy_over_labelled_rows_however_they_are_marked(model):
    X, truth = make_crescents(n_samples=24, random_state=5)
    fitted = short(model).fit(X, truth)
    accuracy = np.mean(fitted.predict(X[:16]) == truth[:16])
    as_objects = np.array([*truth[:16], *[None] * 8], dtype=object)
    as_integers = np.array([*truth[:16], *[-1] * 8])
    as_floats = np.array([*truth[:16], *[np.nan] * 8])
    for y in (as_objects, as_integers, as_floats, as_objects.tolist()):
        assert fitted.score(X, y) == pytest.approx(accuracy)
    weights = np.arange(24.0)
    expected = np.average(fitted.predict(X[:16]) == truth[:16], weights=weights[:16])
    assert fitted.score(X, as_objects, sample_weight=weights) == pytest.approx(expected)


# Randomness, processes and progress ---------------------------------------------------------------


@MODEL
def test_the_same_seed_gives_the_same_fit_and_takes_nothing_from_numpys_global_state(model):
    X, y = problem()
    before = np.random.get_state()  # noqa: NPY002
    again = short(model).fit(X, y)
    for old, new in zip(before, np.random.get_state(), strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(old, new)
    assert_same_fit(fit_of(model)[0], again, queries(X))


@over_kinds(RANDOM)
def test_a_generator_or_a_random_state_may_be_the_seed(model):
    from_seed, X, y = fit_of(model)
    assert_same_fit(from_seed, short(model, random_state=np.random.default_rng(0)).fit(X, y), X)
    legacy = [short(model, random_state=np.random.RandomState(3)).fit(X, y) for _ in range(2)]
    assert_same_fit(*legacy, X)


@over(PARALLEL)
def test_two_jobs_change_nothing(model):
    X, y = problem()
    with parallel_config(backend="threading"):  # processes are a slow test, of determinism
        two = short(model, n_jobs=2).fit(X, y)
    assert_same_fit(fit_of(model)[0], two, queries(X))


@MODEL
def test_progress_is_shown_when_asked_for_and_changes_nothing(model, at_a_terminal):
    X, y = problem()
    short(model).fit(X, y)
    assert at_a_terminal.readouterr().err == ""
    loud = short(model, verbose=True).fit(X, y)
    searches = "cv" not in str(model.parameters.get("selection"))  # which is short of its search
    *shown, last = at_a_terminal.readouterr().err.splitlines()
    assert f"{type(loud).__name__}: fitted in " in last
    assert bool(shown) == searches, "verbose=True shows a bar of estimators/progress.py"
    assert_same_fit(fit_of(model)[0], loud, queries(X))


# Symmetries ---------------------------------------------------------------------------------------


@over(
    {name: m for name, m in RANDOM.items() if m is not OrdinalGPClassifier and name in MODELS},
    slow=("null-category", "dp-mixture", "transductive-svc", "laplacian-svc", "laplacian-rls"),
)
def test_the_names_of_the_classes_are_of_no_account(model):
    # A class renamed is sorted elsewhere: its probabilities move along, in distribution. Fits
    # are independent, so the rank test is exact, however short the chains. Rounding errors of
    # fits that all found one optimum are no difference.
    X, y = problem()
    renamed = dict(zip(CLASSES, [*CLASSES[1:], CLASSES[0]]))
    position = [CLASSES.index(renamed[name]) for name in CLASSES]
    y_renamed = np.array([renamed.get(label) for label in y])

    least = {"n_chains": 1, "thin": 1, "n_warmup": 3, "n_samples": 3, "unlabelled_cost": 0.0}
    least = {name: value for name, value in least.items() if name in model.parameters}

    def probabilities(labels, seed):
        fitted = short(model, random_state=seed, **least).fit(X, labels)
        return fitted.predict_proba(X[:3]).round(9)

    plain = np.array([probabilities(y, seed) for seed in range(14)])
    moved = np.array([probabilities(y_renamed, 100 + seed) for seed in range(14)])
    p_values = mannwhitneyu(plain, moved[:, :, position], axis=0, method="exact").pvalue
    assert p_values.min() > 1e-7  # the least possible is 5e-8


@KIND
def test_the_type_of_the_labels_is_of_no_account(model):
    X, y = problem()
    codes = {name: code for code, name in enumerate(CLASSES, start=1)}
    of_strings = fit_of(model)[0]
    of_integers = short(model).fit(X, np.array([codes.get(label, -1) for label in y]))
    assert of_strings.classes_.tolist() == CLASSES
    assert of_integers.classes_.tolist() == list(codes.values())
    np.testing.assert_array_equal(scores_of(of_strings, X), scores_of(of_integers, X))
    assert [codes[name] for name in of_strings.predict(X)] == of_integers.predict(X).tolist()


# scikit-learn's company ---------------------------------------------------------------------------


@KIND
def test_a_data_frame_gives_its_names_and_the_same_fit_as_its_values(model):
    of_values, X, y = fit_of(model)
    frame = pd.DataFrame(X, columns=["height", "width"])
    of_frame = short(model).fit(frame, pd.Series(y))
    assert of_frame.feature_names_in_.tolist() == ["height", "width"]
    assert of_frame.n_features_in_ == 2
    assert not hasattr(of_values, "feature_names_in_")
    np.testing.assert_array_equal(scores_of(of_frame, frame), scores_of(of_values, X))


@MODEL
def test_a_clone_has_the_parameters_and_no_fit(model):
    estimator = fit_of(model)[0]
    copied = clone(estimator)
    assert not hasattr(copied, "classes_")
    assert repr(copied.get_params()) == repr(estimator.get_params())


@MODEL
def test_a_pickled_model_predicts_the_same(model):
    fitted, X, _ = fit_of(model)
    loaded = pickle.loads(pickle.dumps(fitted))
    assert_same_fit(fitted, loaded, queries(X))
    assert loaded.diagnostics_ == fitted.diagnostics_


@MODEL
def test_a_saved_model_predicts_the_same(model, tmp_path):
    fitted, X, _ = fit_of(model)
    save_model(fitted, tmp_path / "model.atoll")
    assert_same_fit(fitted, load_model(tmp_path / "model.atoll"), queries(X))


@MODEL
def test_predicting_changes_no_prediction(model):
    fitted, X, _ = fit_of(model)
    before = scores_of(copy.deepcopy(fitted), X)
    fitted.predict(queries(X))
    if model in MODELS.values():
        fitted.sample_proba(X[:2], 3)
    np.testing.assert_array_equal(scores_of(fitted, X), before)


@MODEL
def test_what_is_done_to_the_rows_after_a_fit_changes_no_prediction(model):
    X, y = problem()
    rows = np.array(X)
    fitted = short(model).fit(rows, y)
    before = scores_of(fitted, queries(X))
    rows[:] = rows[::-1] + 1.0
    np.testing.assert_array_equal(scores_of(fitted, queries(X)), before)


@KIND
def test_a_model_serves_in_a_pipeline(model):
    X, y = problem()
    units = np.array([1e-3, 1e6])
    pipeline = make_pipeline(StandardScaler(), short(model)).fit(X * units, y)
    scaler = StandardScaler().fit(X * units)
    alone = short(model).fit(scaler.transform(X * units), y)
    np.testing.assert_array_equal(
        scores_of(pipeline, X * units), scores_of(alone, scaler.transform(X * units))
    )


@pytest.mark.parametrize("marker", [None, -1])
@KIND
def test_cross_validation_trains_on_unlabelled_rows_and_scores_labelled_ones(model, marker):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-4, 0.5, (12, 2)), rng.normal(4, 0.5, (12, 2))])
    y = np.repeat(np.array(["left", "right"], dtype=object), 12)
    y[::2] = None
    if marker == -1:
        y = np.array([{"left": 1, "right": 2}.get(label, -1) for label in y])
    scores = cross_val_score(short(model), X, y, cv=SemiSupervisedKFold(2, random_state=0))
    assert scores.tolist() == [1.0, 1.0]


# What is declared ---------------------------------------------------------------------------------


@MODEL
def test_every_parameter_has_a_rule_that_its_default_meets_and_a_place_in_the_docstring(model):
    defaults = model().get_params(deep=False)
    assert model.parameters.keys() == defaults.keys()
    for name, value in defaults.items():
        assert model.parameters[name].allows(value), name
    listed = inspect.getdoc(model).split("Parameters\n----------")[1].split("Attributes\n")[0]
    for name in defaults:
        assert re.search(rf"\n{name} : .*default=", listed), name
    assert "As in " not in listed


@MODEL
def test_every_parameter_refuses_what_its_rule_does_not_allow(model):
    class Stranger:
        """No parameter is one of these."""

    X, y = problem()
    for name, rule in model.parameters.items():
        if rule.allows(Stranger()):
            continue
        with pytest.raises(ValueError, match=f"^{name} must be .*, got <"):
            short(model, **{name: Stranger()}).fit(X, y)
