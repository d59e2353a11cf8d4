"""SSGP's estimators, and the machines on the same kernel."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from atoll.core import memory
from atoll.datasets import hide_labels, make_crescents, make_pinwheel
from atoll.estimators import (
    LaplacianRLSClassifier,
    LaplacianSVC,
    SSGPClassifier,
    SSGPRegressor,
    load_model,
    save_model,
)
from atoll.models import laplacian

MACHINES = pytest.mark.parametrize("machine", [LaplacianSVC, LaplacianRLSClassifier])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([SSGPRegressor(n_neighbors=3)])
def test_scikit_learn_estimator_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def crescents(per_class=2, n=80, seed=0):
    X, truth = make_crescents(n, random_state=seed)
    return X, truth, hide_labels(truth, per_class=per_class, marker=None, random_state=seed)


# SSGPClassifier -----------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["evidence", "grid", "average", None])
def test_four_labels_are_enough_however_parameters_are_chosen(selection):
    X, truth, y = crescents()
    model = SSGPClassifier(selection=selection).fit(X, y)
    assert np.mean(model.transduction_ == truth) > 0.95
    assert model.inference_ == "ep"
    assert model.diagnostics_["converged"]
    assert "Expectation propagation converged" in model.diagnostics_["verdict"]
    unknown = np.array([label is None for label in y])
    np.testing.assert_array_equal(
        model.label_distributions_[unknown], model.predict_proba(X[unknown])
    )


def test_unlabelled_rows_help_where_a_class_is_bent():
    errors = []
    for seed in range(5):
        X, truth, y = crescents(per_class=1, seed=seed)
        errors.append(
            [
                np.mean(SSGPClassifier(selection=None, ratio=r).fit(X, y).transduction_ != truth)
                for r in (0.0, 100.0)
            ]
        )
    alone, together = np.mean(errors, axis=0)
    assert together < 0.5 * alone


def test_the_chosen_evidence_is_the_largest_and_the_average_lies_below_it():
    X, _, y = crescents()
    fitted = {s: SSGPClassifier(selection=s).fit(X, y) for s in ("evidence", "grid", "average")}
    assert fitted["evidence"].log_evidence_ > fitted["grid"].log_evidence_ - 0.1
    assert fitted["grid"].log_evidence_ == fitted["grid"].objectives_.max()
    assert fitted["average"].log_evidence_ < fitted["grid"].log_evidence_
    assert fitted["average"].diagnostics_["n_components"] > 10
    assert len(fitted["grid"].objectives_) == 125
    assert np.isclose(fitted["grid"].ratio_, [0.0, 1.0, 10.0, 100.0, 1000.0]).any()
    assert fitted["grid"].kernel_.k2.ratio == fitted["grid"].ratio_


def test_the_full_evidence_pays_for_the_geometry():
    X, _, y = crescents()
    partial, full = (
        SSGPClassifier(selection=None, evidence=e).fit(X, y) for e in ("partial", "full")
    )
    assert full.log_evidence_ < partial.log_evidence_
    np.testing.assert_array_equal(full.predict_proba(X), partial.predict_proba(X))


def test_three_classes_are_learned_jointly():
    X, truth = make_pinwheel(90, 3, random_state=0)
    y = hide_labels(truth, per_class=2, marker=None, random_state=0)
    options = {"selection": None, "random_state": 0}
    model = SSGPClassifier(**options).fit(X, y)
    assert model.inference_ == "mcmc"
    assert model.diagnostics_["mixed"], model.diagnostics_["verdict"]
    assert set(model.draws_) == {"log_prior", *(f"mean_of_function_{k}" for k in range(3))}
    assert np.mean(model.transduction_ == truth) > 0.9
    mean, variance = model.predict_latent(X)
    assert mean.shape == variance.shape == (90, 3)
    assert np.mean(np.argmax(mean, axis=1) == model.predict(X)) > 0.95
    with parallel_config("threading"):
        again = SSGPClassifier(n_jobs=2, **options).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_chains_of_two_classes_are_near_expectation_propagation():
    X, _, y = crescents(per_class=3)
    options = {"selection": None, "noise": 0.3}
    ep = SSGPClassifier(**options).fit(X, y)
    drawn = SSGPClassifier(inference="mcmc", n_samples=1000, random_state=0, **options).fit(X, y)
    # A hundred draws in the prediction: a few hundredths.
    assert np.abs(ep.predict_proba(X) - drawn.predict_proba(X)).mean() < 0.05


def test_an_average_of_drawn_components_predicts():
    X, truth, y = crescents(n=30)
    options = {"inference": "mcmc", "n_warmup": 2, "n_samples": 5, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SSGPClassifier(selection="average", **options).fit(X, y)
    assert np.mean(model.predict(X) == truth) > 0.9
    assert "n_samples=100 (5 now)." in model.diagnostics_["verdict"]  # of chains so short


def test_the_uncertainty_follows_the_geometry():
    # Figure 1d: along its own crescent the variance grows with the distance from the labels.
    X, _, y = crescents(per_class=1)
    model = SSGPClassifier().fit(X, y)
    labelled = X[[label is not None for label in y]]
    at_labels = model.predict_latent(labelled)[1]
    assert at_labels.max() < np.quantile(model.predict_latent(X)[1], 0.1)
    far = model.predict_latent([[1e4, 1e4]])
    assert far[0] == 0.0
    np.testing.assert_allclose(far[1], model.kernel_.k1.constant_value)


def test_scaling_all_features_changes_nothing():
    X, _, y = crescents()
    first = SSGPClassifier(selection="grid").fit(X, y)
    second = SSGPClassifier(selection="grid").fit(1000.0 * X, y)
    np.testing.assert_allclose(
        first.predict_proba(X), second.predict_proba(1000.0 * X), rtol=0, atol=1e-6
    )


def test_a_kernel_without_length_scales_is_taken():
    X, truth, y = crescents()
    model = SSGPClassifier(kernel=DotProduct(sigma_0_bounds="fixed") + Matern(2.0)).fit(X, y)
    assert np.mean(model.transduction_ == truth) > 0.9
    fixed = SSGPClassifier(kernel=RBF(3.0, "fixed")).fit(X, y)
    assert fixed.kernel_.k2.base == RBF(3.0, "fixed")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"selection": "cv"}, 'selection must be "evidence", "grid", "average" or None'),
        ({"evidence": "half"}, 'evidence must be "partial" or "full", got \'half\''),
        ({"inference": "vb"}, "inference must be .* got 'vb'"),
        ({"noise": 0.0}, r"noise must be a positive number, got 0\.0"),
        ({"ambient_weight": -1}, "ambient_weight must be a positive number, got -1"),
        ({"ratio": -1.0}, r"ratio must be a number at least 0, got -1\.0"),
        ({"power": 0}, "power must be a whole number, at least 1, got 0"),
        ({"weights": "x"}, "weights must be .* got 'x'"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number, at least 1, got 0"),
        ({"n_samples": 0}, 'n_samples must be "auto" or a whole number, at least 1, got 0'),
    ],
)
def test_a_parameter_out_of_range_is_named_with_its_value(options, problem):
    X, _, y = crescents(n=20)
    with pytest.raises(ValueError, match=problem):
        SSGPClassifier(**options).fit(X, y)


def test_expectation_propagation_of_three_classes_is_refused_with_the_way_out():
    X, truth = make_pinwheel(12, 3, random_state=0)
    with pytest.raises(ValueError, match='takes two classes, and y has 3; use "mcmc"'):
        SSGPClassifier(inference="ep").fit(X, truth)


@pytest.mark.parametrize(
    "model", [SSGPClassifier, SSGPRegressor, LaplacianSVC, LaplacianRLSClassifier]
)
def test_more_memory_than_the_machine_has_is_refused(model, monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 1000)
    X, truth, _ = crescents(n=20)
    with pytest.raises(ValueError, match=r"with 20 rows in its graph .* Use GraphGPClassifier"):
        model().fit(X, truth)


# SSGPRegressor ---------------------------------------------------------------------------------


def arc(seed=0, n=120, n_targets=8):
    """A target that grows along a spiral, whose turns are near one another."""
    rng = np.random.default_rng(seed)
    angle = np.sort(rng.uniform(3.0, 12.0, n))
    X = np.column_stack([angle * np.cos(angle), angle * np.sin(angle)])
    y = np.full(n, np.nan)
    known = np.linspace(0, n - 1, n_targets).round().astype(int)
    y[known] = 100.0 + 10.0 * angle[known]
    return X, y, 100.0 + 10.0 * angle


def test_rows_without_a_target_help_a_regression():
    X, y, truth = arc()
    model = SSGPRegressor(n_neighbors=4).fit(X, y)
    known = ~np.isnan(y)
    alone = SSGPRegressor(n_neighbors=4).fit(X[known], y[known])
    ours, theirs = (np.sqrt(np.mean((m.predict(X) - truth) ** 2)) for m in (model, alone))
    assert ours < 0.5 * theirs
    assert model.score(X, truth) > 0.9
    np.testing.assert_array_equal(model.transduction_[known], y[known])
    np.testing.assert_array_equal(model.transduction_[~known], model.predict(X[~known]))
    _, deviation = model.predict(X, return_std=True)
    assert deviation[known].mean() < deviation[~known].mean()
    np.testing.assert_allclose(
        deviation**2, model.predict_latent(X)[1][:, 0] + model.noise_variance_
    )


def test_joint_draws_of_a_regression_have_its_moments_and_hold_copies_together():
    X, y, _ = arc()
    model = SSGPRegressor(n_neighbors=4).fit(X, y)
    rows, n = np.concatenate([X[:6], X[:1]]), 4000
    draws = model.sample_latent(rows, n, random_state=0)
    mean, variance = model.predict_latent(rows)
    assert draws.shape == (n, 7)
    errors = np.sqrt(variance[:, 0] / n)
    assert np.all(np.abs(draws.mean(axis=0) - mean[:, 0]) < 6 * errors)
    np.testing.assert_allclose(draws.var(axis=0), variance[:, 0], rtol=6 * np.sqrt(2 / n))
    scale = np.sqrt(variance[0, 0])
    np.testing.assert_allclose(draws[:, 0], draws[:, 6], atol=1e-3 * scale)
    np.testing.assert_array_equal(draws, model.sample_latent(rows, n, random_state=0))
    with pytest.raises(ValueError, match="n_samples must be"):
        model.sample_latent(rows, 0)


def test_the_noise_of_a_regression_is_learned():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (150, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(150)
    model = SSGPRegressor().fit(X, y)
    # The standard deviation of 150 squared deviations: 0.09 √(2/150).
    assert abs(model.noise_variance_ - 0.09) < 6 * 0.09 * np.sqrt(2 / 150)


def test_a_regression_follows_the_units_of_its_targets():
    X, y, _ = arc()
    first = SSGPRegressor(n_neighbors=4).fit(X, y)
    second = SSGPRegressor(n_neighbors=4).fit(X, 1000.0 * y - 7.0)
    np.testing.assert_allclose(1000.0 * first.predict(X) - 7.0, second.predict(X), rtol=1e-6)
    shift = (~np.isnan(y)).sum() * np.log(1000.0)
    np.testing.assert_allclose(first.log_evidence_ - shift, second.log_evidence_, atol=1e-4)


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        (None, "target y is None"),
        (np.full(20, np.nan), "no target among 20 rows"),
        (np.zeros(19), "y has 19 targets and X has 20 rows"),
        (np.full(20, np.inf), "y contains infinity"),
        (["far"] + [1.0] * 19, "no number .could not convert string to float: 'far'.; give"),
        (np.arange(20) * 1e200, r"from 0 to 1\.9e\+201, whose squares overflow"),
        (np.arange(20) * 1e-200, r"squares overflow or underflow; divide"),
    ],
)
def test_targets_that_are_none_are_refused(y, problem):
    with pytest.raises(ValueError, match=problem):
        SSGPRegressor().fit(crescents(n=20)[0], y)


@pytest.mark.parametrize(
    "given",
    [
        lambda y: pd.Series(y).astype("Float64").mask(np.isnan(y)),
        lambda y: pd.Series(y).astype("double[pyarrow]").mask(np.isnan(y)),
        lambda y: np.ma.masked_array(np.nan_to_num(y, nan=7.0), np.isnan(y)),
    ],
)
def test_targets_may_be_missing_in_every_way_that_labels_may(given):
    X, y, _ = arc()
    assert np.isnan(y).any()
    fits = [SSGPRegressor(n_neighbors=4).fit(X, targets) for targets in (y, given(y))]
    np.testing.assert_array_equal(*(fit.predict(X) for fit in fits))


def test_equal_targets_leave_as_much_doubt_whatever_rounding_leaves_of_their_deviation():
    X, y, _ = arc()
    known = np.cumsum(~np.isnan(y)) * ~np.isnan(y)
    known = (known > 0) & (known <= 7)  # of eight, the deviation is zero
    spreads = []
    for value in (0.25, 0.1):
        targets = np.where(known, value, np.nan)
        spreads.append(SSGPRegressor().fit(X, targets).predict(X, return_std=True)[1])
    assert np.std(targets[known]) != 0.0
    np.testing.assert_allclose(*spreads, rtol=1e-6)


def test_one_target_and_none_are_taken():
    X, y, _ = arc()
    y[1:] = np.nan
    model = SSGPRegressor().fit(X, [None if np.isnan(v) else v for v in y])
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(ValueError, match="nothing to score"):
        model.score(X, np.full(len(X), np.nan))


# Laplacian machines -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "machine", [LaplacianRLSClassifier, pytest.param(LaplacianSVC, marks=pytest.mark.slow)]
)
def test_the_machines_learn_from_unlabelled_rows(machine):
    X, truth, y = crescents(per_class=3)
    model = machine(random_state=0).fit(X, y)
    assert np.mean(model.transduction_ == truth) > 0.9
    assert len(model.cv_errors_) == 100
    if machine is LaplacianRLSClassifier:  # the other's search takes ten times as long
        assert len(machine(selection="cv", random_state=0).fit(X, y).cv_errors_) == 125
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))
    with pytest.raises(NotFittedError):
        machine().predict(X)


@MACHINES
def test_the_machines_take_three_classes_and_are_saved(machine, tmp_path):
    X, truth = make_pinwheel(60, 3, random_state=0)
    y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    model = machine(selection=None).fit(X, y)
    assert np.mean(model.predict(X) == truth) > 0.85
    save_model(model, tmp_path / "m.atoll")
    np.testing.assert_array_equal(load_model(tmp_path / "m.atoll").predict(X), model.predict(X))


def test_a_regressor_is_saved(tmp_path):
    X, y, _ = arc()
    model = SSGPRegressor().fit(X, y)
    save_model(model, tmp_path / "m.atoll")
    np.testing.assert_array_equal(load_model(tmp_path / "m.atoll").predict(X), model.predict(X))


def test_without_a_graph_the_laplacian_machine_is_the_support_vector_machine():
    X, truth, y = crescents(per_class=10)
    model = LaplacianSVC(kernel=RBF(3.0), selection=None, ratio=0.0, ambient_weight=0.01).fit(X, y)
    known = np.array([label is not None for label in y])
    gamma = 1.0 / (2 * 3.0**2)
    plain = SVC(C=1 / (2 * 20 * 0.01), gamma=gamma).fit(X[known], truth[known])
    np.testing.assert_allclose(
        model.posterior_.decide(X), plain.decision_function(X), rtol=0, atol=1e-2
    )


def test_least_squares_solve_their_equations():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 6))
    gram, codes = A @ A.T, np.array([0, 1, 2, 0, 1, 2])
    alpha = laplacian.fit_least_squares(gram, codes, 0.1, 3)
    Y = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    np.testing.assert_allclose(gram @ alpha + 0.1 * 6 * alpha, Y, atol=1e-10)


def test_up_to_ten_labels_are_left_out_one_by_one_and_more_in_five_folds():
    rng = np.random.default_rng(0)
    assert laplacian.folds(rng, np.zeros(10, dtype=int)).tolist() == list(range(10))
    codes = np.repeat([0, 1], [10, 15])
    fold = laplacian.folds(rng, codes)
    for k in range(2):
        assert np.bincount(fold[codes == k]).tolist() == [[2] * 5, [3] * 5][k]


def test_cross_validation_counts_what_a_hidden_label_gets_wrong():
    gram = np.kron(np.eye(2), np.ones((4, 4))) + 0.1 * np.eye(8)
    fold = np.arange(8)
    for machine in (laplacian.svc_machine, laplacian.least_squares_machine):
        codes = np.repeat([0, 1], 4)
        assert laplacian.cross_validate(gram, codes, fold, 0.1, machine) == 0.0
        codes = np.array([0, 0, 0, 1, 1, 1, 1, 1])
        assert laplacian.cross_validate(gram, codes, fold, 0.1, machine) == 1 / 8
    # Two labels: the one that is left is of the other class.
    two = laplacian.cross_validate(np.eye(2), np.array([0, 1]), np.arange(2), 1.0,
                                   laplacian.svc_machine)  # fmt: skip
    assert two == 1.0


@pytest.mark.parametrize("given", [{"ratio": 3.0}, {"ambient_weight": 2.0}])
def test_a_parameter_that_is_searched_is_not_taken_as_given(given):
    X = np.arange(12.0)[:, None]
    y = [0, 1] + [None] * 10
    with pytest.raises(ValueError, match=r"is searched with selection='grid'.*selection=None"):
        SSGPClassifier(selection="grid", **given).fit(X, y)
    SSGPClassifier(selection=None, **given).fit(X, y)
