"""What is the auxiliary-variable family's own: variational Bayes, ranks, widths and rates."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from atoll import (
    NullCategoryClassifier,
    OrdinalGPClassifier,
    ProbitGPClassifier,
    load_model,
    save_model,
)
from atoll.datasets import hide_labels, make_pinwheel
from atoll.estimators import auxiliary_gp
from atoll.inference import vb
from atoll.inference.registry import METHODS

FAMILY = pytest.mark.parametrize(
    "model", [ProbitGPClassifier, NullCategoryClassifier, OrdinalGPClassifier]
)
SHORT = {"n_chains": 2, "n_warmup": 5, "n_samples": 10, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def three_arms(n=45, per_class=4):
    X, truth = make_pinwheel(n, n_classes=3, random_state=0)
    return X, truth, hide_labels(truth, per_class=per_class, marker=None, random_state=0)


def grades(n=60):
    """One feature, three grades in its order."""
    X = np.random.default_rng(1).uniform(-1, 1, size=(n, 1))
    return X, np.array(["poor", "fair", "good"])[np.digitize(X[:, 0], [-0.3, 0.4])]


ORDER = ["poor", "fair", "good"]


# Variational Bayes --------------------------------------------------------------------------------


@FAMILY
def test_auto_samples_few_rows_and_not_many(model, monkeypatch):
    X, truth, _ = three_arms()
    monkeypatch.setattr(auxiliary_gp, "GIBBS_ROWS", 20)
    assert model(**SHORT).fit(X[:15], truth[:15]).inference_ == "mcmc"
    many = "ep" if model is OrdinalGPClassifier else "vb"
    assert model(**SHORT).fit(X, truth).inference_ == many
    assert model(inference="mcmc", **SHORT).fit(X, truth).inference_ == "mcmc"


def test_auto_does_not_sample_where_rows_may_be_of_any_class():
    X, truth, y = three_arms(18, per_class=2)
    assert NullCategoryClassifier(**SHORT).fit(X, y).inference_ == "vb"
    assert NullCategoryClassifier(**SHORT).fit(X, truth).inference_ == "mcmc"


@FAMILY
def test_variational_bayes_has_all_that_a_fit_has_but_draws(model, tmp_path):
    X, truth, y = three_arms()
    fitted = model(inference="vb").fit(X, y)
    p = fitted.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert np.mean(fitted.transduction_ == truth) > 0.9
    assert fitted.diagnostics_["converged"]
    assert "mixed" not in fitted.diagnostics_
    assert "lower bound" in fitted.diagnostics_["verdict"]
    assert np.all(np.diff(fitted.objectives_) >= -1e-9)
    assert fitted.draws_ == {}
    with pytest.raises(ValueError, match='inference="mcmc"'):
        fitted.to_arviz()
    mean, variance = fitted.predict_latent(X)
    n_functions = 1 if model is OrdinalGPClassifier else 3
    assert mean.shape == variance.shape == (len(X), n_functions)
    save_model(fitted, tmp_path / "model.atoll")
    np.testing.assert_array_equal(load_model(tmp_path / "model.atoll").predict_proba(X), p)


@FAMILY
def test_variational_bayes_needs_no_seed(model):
    X, _, y = three_arms()
    first, second = (model(inference="vb", random_state=s).fit(X, y) for s in (0, 1))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


@FAMILY
def test_a_kernel_with_nothing_free_is_kept_by_variational_bayes(model):
    X, _, y = three_arms()
    kernel = ConstantKernel(4.0, "fixed") * RBF(1.5, "fixed")
    fitted = model(inference="vb", kernel=kernel).fit(X, y)
    assert fitted.kernel_ == kernel


def test_a_bound_that_has_not_converged_is_said(monkeypatch):
    X, truth, _ = three_arms()
    one_iteration = METHODS["vb"]._replace(maximise=partial(vb.maximise, max_iterations=1))
    monkeypatch.setitem(METHODS, "vb", one_iteration)
    with pytest.warns(ConvergenceWarning, match="had not converged after 1 iteration;"):
        model = ProbitGPClassifier(inference="vb").fit(X, truth)
    assert not model.diagnostics_["converged"]


@FAMILY
def test_an_unknown_inference_is_named(model):
    X, _, y = three_arms()
    with pytest.raises(ValueError, match=r'inference must be "auto", "mcmc", .* got \'guess\''):
        model(inference="guess").fit(X, y)


def test_expectation_propagation_takes_labelled_rows_alone():
    X, truth, y = three_arms()
    with pytest.raises(ValueError, match=r"takes labelled rows alone, and null_width=0.5"):
        OrdinalGPClassifier(inference="ep", null_width=0.5).fit(X, y)
    model = OrdinalGPClassifier(inference="ep", null_width=0.5).fit(X, truth)
    assert np.isfinite(model.log_evidence_)
    assert "Expectation propagation converged" in model.diagnostics_["verdict"]


# Many classes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["mcmc", "vb"])
def test_two_classes_of_three_make_a_multi_class_map(inference):
    X, truth, y = three_arms(90, per_class=8)
    options = SHORT | {"n_warmup": 50, "n_samples": 50}
    model = ProbitGPClassifier(inference=inference, **options)
    assert model.fit(X, y).score(X, truth) > 0.9


# Null category ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inference", "n_classes"),
    [("mcmc", 2), ("vb", 2), ("vb", 3), pytest.param("mcmc", 3, marks=pytest.mark.slow)],
)
def test_width_and_rates_can_be_learned(inference, n_classes):
    X, truth = make_pinwheel(24, n_classes=n_classes, random_state=0)
    y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    options = SHORT | {"n_samples": 15}
    model = NullCategoryClassifier(
        null_width="sample", missing_rates="sample", inference=inference, **options
    ).fit(X, y)
    assert 0.1 < model.null_width_ < 5.0
    assert model.missing_rates_.shape == (n_classes,)
    share = 1 - 3 * n_classes / 24
    np.testing.assert_allclose(model.missing_rates_, share, atol=0.3)
    if inference == "mcmc":
        assert {"log_null_width", "log_odds_missing_0"} <= set(model.draws_)


@pytest.mark.parametrize("per_class", [1, 4])  # of four, the unlabelled rows are left out
@pytest.mark.parametrize("inference", ["mcmc", "vb", "adf"])
def test_a_class_whose_labels_are_always_seen_has_no_unlabelled_rows(inference, per_class):
    X, truth = make_pinwheel(40, n_classes=2, random_state=0)
    y = hide_labels(truth, per_class=per_class, marker=None, random_state=0)
    model = NullCategoryClassifier(missing_rates=(0.0, 0.8), inference=inference, **SHORT).fit(X, y)
    unlabelled = pd.isna(y)
    np.testing.assert_allclose(
        model.label_distributions_[unlabelled], [[0.0, 1.0]] * unlabelled.sum()
    )
    assert model.missing_rates_ == (0.0, 0.8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"null_width": "wide"}, r'null_width must be a number at least 0 .* or "sample", got'),
        ({"null_width": -1.0}, r"null_width must be a number at least 0 .* got -1\.0\."),
        ({"null_width": np.nan}, r"null_width must be .* got nan\."),
        ({"missing_rates": (0.5, 0.5)}, r"must be 3 numbers .* in the order \[0, 1, 2\], got \(0"),
        ({"missing_rates": (0.5, 0.5, 1.0)}, r"missing_rates must be .* got \(0\.5, 0\.5, 1\.0\)"),
        ({"missing_rates": "often"}, r'missing_rates must be None .*, "sample", "share" or one'),
        ({"missing_rates": (0, 0, 0)}, r"says that no label is ever missing, and 33 are"),
    ],
)
def test_bad_widths_and_rates_are_named(options, message):
    X, _, y = three_arms()
    with pytest.raises(ValueError, match=message):
        NullCategoryClassifier(**options).fit(X, y)


# Ranks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["mcmc", "vb"])
def test_ranks_are_predicted_in_their_order(inference):
    X, y = grades()
    options = SHORT | {"n_samples": 40}
    model = OrdinalGPClassifier(classes=ORDER, inference=inference, **options).fit(X, y)
    assert model.classes_.tolist() == ORDER
    assert np.all(np.diff(model.cut_points_) > 0)
    line = np.linspace(-1, 1, 21)[:, None]
    assert np.all(np.diff(model.predict_rank([[-0.7], [0.05], [0.7]])) > 0.5)
    assert model.predict([[-0.7], [0.05], [0.7]]).tolist() == ORDER
    p = model.predict_proba(line)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.predict_rank(line), p @ [0, 1, 2])


def test_an_interval_holds_at_least_its_coverage_and_no_class_too_many():
    X, y = grades()
    model = OrdinalGPClassifier(classes=ORDER, inference="vb").fit(X, y)
    line = np.linspace(-1, 1, 41)[:, None]
    p = model.predict_proba(line)
    for coverage in (0.5, 0.9, 0.99):
        low, high = (np.array([ORDER.index(c) for c in ends])
                     for ends in model.predict_interval(line, coverage).T)  # fmt: skip
        inside = [p[i, a : b + 1].sum() for i, (a, b) in enumerate(zip(low, high))]
        assert np.min(inside) >= coverage - 1e-12
        # Without its last class on either side less than the tail's share would be left out.
        tail = (1 - coverage) / 2
        assert all(p[i, : a + 1].sum() >= tail - 1e-9 for i, a in enumerate(low))
        assert all(p[i, b:].sum() > tail - 1e-9 for i, b in enumerate(high))
    middle = model.predict_median(line)
    rank = np.array([ORDER.index(c) for c in middle])
    below = np.cumsum(p, axis=1)
    assert np.all(below[np.arange(41), rank] >= 0.5 - 1e-12)
    assert np.all((rank == 0) | (below[np.arange(41), rank - 1] < 0.5))


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1, "most", np.nan])
def test_a_coverage_that_is_none_is_refused(coverage):
    X, y = grades(20)
    model = OrdinalGPClassifier(classes=ORDER, inference="vb").fit(X, y)
    with pytest.raises(ValueError, match="coverage must be a number above 0 and below 1, got"):
        model.predict_interval(X, coverage)


def test_words_without_an_order_are_taken_by_the_alphabet_and_said():
    X, y = grades(20)
    with pytest.warns(UserWarning, match="order of the alphabet: fair, good, poor"):
        OrdinalGPClassifier(inference="vb").fit(X, y)


def test_an_ordered_categorical_knows_its_order():
    X, y = grades(20)
    known = pd.Series(pd.Categorical(y, categories=[*ORDER, "superb"], ordered=True))
    model = OrdinalGPClassifier(inference="vb").fit(X, known)
    assert model.classes_.tolist() == [*ORDER, "superb"]


def test_an_order_that_is_also_that_of_the_alphabet_is_not_warned_of():
    X, y = grades(20)
    known = pd.Categorical(y, categories=sorted(ORDER), ordered=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OrdinalGPClassifier(inference="vb").fit(X, pd.Series(known))
        OrdinalGPClassifier(inference="vb", classes=sorted(ORDER)).fit(X, y)


@pytest.mark.parametrize("inference", ["mcmc", "vb"])
def test_a_rank_without_a_row_is_allowed_and_improbable_where_others_are(inference):
    X, y = grades(40)
    model = OrdinalGPClassifier(
        classes=["awful", *ORDER, "superb"], inference=inference, **SHORT
    ).fit(X, y)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert p[:, [0, 4]].mean() < 0.2


def test_a_label_that_classes_do_not_name_is_refused():
    X, y = grades(20)
    with pytest.raises(ValueError, match=r"labels \['poor'\] that classes=.* does not name"):
        OrdinalGPClassifier(classes=["fair", "good"]).fit(X, y)


@pytest.mark.parametrize("inference", ["mcmc", "vb"])
def test_unlabelled_rows_take_part_with_a_null_width_alone(inference):
    X, y = grades(40)
    y = y.astype(object)
    y[10:] = None
    options = {"classes": ORDER, "inference": inference, **SHORT}
    without = OrdinalGPClassifier(**options).fit(X, y)
    labelled_alone = OrdinalGPClassifier(**options).fit(X[:10], y[:10])
    assert len(without.posterior_.inputs) == 10
    assert without.posterior_.weights.shape == labelled_alone.posterior_.weights.shape
    with_null = OrdinalGPClassifier(null_width=0.5, **options).fit(X, y)
    assert len(with_null.posterior_.inputs) == 40
    assert np.all(np.diff(with_null.cut_points_) > 0.5)
    p = with_null.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_a_clone_keeps_the_order_of_the_classes():
    assert clone(OrdinalGPClassifier(classes=ORDER)).classes == ORDER


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_cut_points_move_by_themselves_and_not_all_together_alone():
    X, y = np.random.default_rng(0).normal(size=(12, 2)), [0, 1, 2, 3] * 3
    model = OrdinalGPClassifier(
        inference="mcmc", n_chains=1, n_warmup=2, n_samples=6, random_state=0
    ).fit(X, y)
    # Moves that shift or stretch all of them leave the ratio of two gaps as it is.
    log_ratio = model.draws_["log_gap_2"] - model.draws_["log_gap_1"]
    assert len(np.unique(log_ratio.round(6))) > 2


@pytest.mark.parametrize("inference", ["ep", "vb", "mcmc"])
def test_a_null_region_too_wide_for_double_precision_is_named(inference):
    model = NullCategoryClassifier(inference=inference, null_width=1e6)
    said = "null_width must be a number at least 0 and at most 1000 .*got 1000000.0"
    with pytest.raises(ValueError, match=said):
        model.fit([[0.0], [1.0], [2.0]], [0, 1, -1])
