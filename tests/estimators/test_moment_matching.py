"""The classifiers that match moments: null category and probit by EP and ADF, and the IVM."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from atoll import InformativeVectorClassifier, NullCategoryClassifier, ProbitGPClassifier
from atoll.core import memory
from atoll.datasets import hide_labels, make_crescents, make_pinwheel
from atoll.estimators.persistence import load_model, save_model

WAYS = pytest.mark.parametrize(
    "options", [{"inference": "ep"}, {"inference": "adf"}, {"inference": "adf", "n_active": 30},
                {"inference": "ep", "negative": "allow", "n_active": 30}],
    ids=["ep", "adf", "active", "negative"],
)  # fmt: skip


def crescents(n=100, seed=0, per_class=4):
    X, truth = make_crescents(n, random_state=seed)
    return X, truth, hide_labels(truth, per_class=per_class, marker=None, random_state=seed)


def fit_quietly(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@WAYS
def test_crescents_are_told_apart_from_a_few_labels(options):
    X, truth, y = crescents()
    model = fit_quietly(NullCategoryClassifier(**options), X, y)
    new, new_truth = make_crescents(300, random_state=9)
    assert model.inference_ == options["inference"]
    assert np.mean(model.transduction_ == truth) > 0.97
    for transductive in (False, True):
        p = model.predict_proba(new, transductive=transductive)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        assert np.mean(p.argmax(axis=1) == new_truth) > 0.97
    assert np.isfinite(model.log_evidence_)
    assert model.diagnostics_["n_negative"] >= 0
    assert model.diagnostics_["unlabelled_used"]


def test_with_no_null_region_and_every_label_it_is_the_probit_by_ep():
    X, truth, _ = crescents(60)
    both = [
        NullCategoryClassifier(null_width=0.0, inference="ep").fit(X, truth),
        ProbitGPClassifier(inference="ep").fit(X, truth),
    ]
    new = X + 0.2
    np.testing.assert_allclose(both[0].predict_proba(new), both[1].predict_proba(new), atol=1e-6)
    assert both[0].log_evidence_ == pytest.approx(both[1].log_evidence_, abs=1e-6)


def test_with_every_row_active_the_ivm_by_ep_is_the_probit_by_ep():
    X, truth, _ = crescents(60)
    whole = InformativeVectorClassifier(n_active=None, inference="ep").fit(X, truth)
    probit = ProbitGPClassifier(inference="ep").fit(X, truth)
    np.testing.assert_allclose(whole.predict_proba(X), probit.predict_proba(X), atol=1e-8)


def test_the_probit_by_ep_has_one_joint_site_per_row_for_three_classes():
    """Where all classes are alike so are their probabilities; and each has a function."""
    X, truth = make_pinwheel(60, n_classes=3, random_state=0)
    model = ProbitGPClassifier(inference="ep").fit(X, truth)
    assert model.diagnostics_["converged"]
    assert model.posterior_.weights.shape == (1, 60, 3)
    np.testing.assert_allclose(model.posterior_.weights.sum(axis=2), 0.0, atol=1e-8)
    np.testing.assert_allclose(model.predict_proba([[1e6, 0.0]]), 1 / 3, atol=1e-12)
    assert model.score(X, truth) > 0.95
    assert np.all(np.diff(model.objectives_) >= 0)


@pytest.mark.parametrize("inference", ["ep", "adf"])
def test_three_classes_against_the_rest(inference):
    X, truth = make_pinwheel(90, n_classes=3, random_state=0)
    names = np.array(["left", "right", "up"], dtype=object)[truth]
    y = hide_labels(names, per_class=5, marker=None, random_state=0)
    model = fit_quietly(NullCategoryClassifier(inference=inference), X, y)
    assert np.mean(model.transduction_ == names) > 0.9
    assert model.predict_latent(X)[0].shape == (90, 3)
    p = model.predict_proba(X, transductive=True)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


def test_everything_of_the_likelihood_can_be_learned():
    X, truth, y = crescents()
    model = fit_quietly(
        NullCategoryClassifier(
            inference="ep", n_active=40, null_width="sample", missing_rates="sample", bias="learn"
        ),
        X,
        y,
    )
    assert model.null_width_ > 0
    assert np.all((model.missing_rates_ > 0) & (model.missing_rates_ < 1))
    assert model.bias_.shape == (1,)
    assert np.mean(model.transduction_ == truth) > 0.9


def test_the_unlabelled_share_changes_the_evidence_alone():
    X, _, y = crescents()
    plain, share = (
        NullCategoryClassifier(inference="ep", missing_rates=rates).fit(X, y)
        for rates in (None, "share")
    )
    np.testing.assert_allclose(share.missing_rates_, [0.92, 0.92])
    np.testing.assert_allclose(share.predict_proba(X), plain.predict_proba(X), atol=1e-6)
    difference = 92 * np.log(0.92) + 8 * np.log(0.08)
    assert share.log_evidence_ - plain.log_evidence_ == pytest.approx(difference, abs=1e-6)


def test_a_step_likelihood_and_an_exponential_prior_as_in_the_paper():
    X, truth, y = crescents()
    kernel = ConstantKernel(1.0) * RBF(2.0) + WhiteKernel(1e-3)
    model = NullCategoryClassifier(
        kernel=kernel, inference="adf", n_active=40, noise_variance=1e-6, variance_rate=1.0,
        bias="share",
    )  # fmt: skip
    fit_quietly(model, X, y)
    assert np.mean(model.transduction_ == truth) > 0.97
    assert model.kernel_.k1.k1.constant_value < 10


def test_unlabelled_rows_that_no_start_can_split_as_the_labels_do_are_left_out():
    """Six labels of one class and six of another, and every unlabelled row beside the first."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(206, 2))
    X[200:, 0] += 9.0
    y = np.array([0] * 6 + [None] * 194 + [1] * 6, dtype=object)
    model = fit_quietly(NullCategoryClassifier(inference="adf", n_active=40), X, y)
    assert not model.diagnostics_["unlabelled_used"]
    assert "left out" in model.diagnostics_["verdict"]
    assert model.diagnostics_["held_out"]["n_labels"] == 12  # the labelled rows judge themselves
    assert "No label was hidden" not in model.diagnostics_["verdict"]
    assert np.mean(model.transduction_[:200] == 0) > 0.95


@pytest.mark.parametrize("inference", ["ep", "adf"])
def test_with_unlabelled_rows_the_verdict_says_how_hidden_labels_were_foretold(inference):
    X, _, y = crescents(30)
    tested = NullCategoryClassifier(inference=inference).fit(X, y)
    assert tested.diagnostics_["unlabelled_used"]
    assert tested.diagnostics_["held_out"]["n_labels"] == 8
    untested = NullCategoryClassifier(inference=inference, n_folds=0).fit(X, y)
    assert "No label was hidden from the fit to test" in untested.diagnostics_["verdict"]
    own, doubt = untested.predict_proba(X), tested.posterior_.doubt
    np.testing.assert_allclose(tested.predict_proba(X), (1 - doubt.sum()) * own + doubt)


@pytest.mark.parametrize(
    "options",
    [{"inference": "vb"}, {"inference": "mcmc", "n_warmup": 10, "n_samples": 20, "n_chains": 2}],
)
def test_without_folds_the_verdict_says_that_no_label_was_hidden(options):
    X, _, y = crescents(12)
    model = fit_quietly(NullCategoryClassifier(n_folds=0, random_state=0, **options), X, y)
    assert model.diagnostics_["verdict"].count("No label was hidden from the fit to test") == 1


def test_one_label_per_class_cannot_test_the_fit_which_is_then_not_believed_in_full():
    X, _, y = crescents(30, per_class=1)
    model = NullCategoryClassifier(inference="ep").fit(X, y)
    assert "its word counts 73%, the shares the rest" in model.diagnostics_["verdict"]
    assert model.predict_proba(X).max() < 0.87


def test_labels_that_say_nothing_of_the_rows_are_not_believed():
    X, truth, _ = crescents(60)
    y = hide_labels(np.random.default_rng(3).permutation(truth), per_class=8, random_state=3)
    model = fit_quietly(NullCategoryClassifier(inference="ep"), X, y)
    assert model.diagnostics_["held_out"]["belief"] < 0.6
    assert "Labels do not bear out what it assumes" in model.diagnostics_["verdict"]


def test_the_ivm_keeps_to_its_active_set_and_to_labelled_rows():
    X, truth, y = crescents(120, per_class=25)
    model = InformativeVectorClassifier(n_active=15).fit(X, y)
    (active,) = model.active_
    labelled = np.array([label is not None for label in y])
    assert len(active) == 15
    assert labelled[active].all()
    assert model.posterior_.inputs[0].shape == (15, 2)
    assert np.mean(model.transduction_ == truth) > 0.95


def test_a_saved_model_predicts_the_same(tmp_path):
    X, _, y = crescents(60)
    model = fit_quietly(NullCategoryClassifier(inference="adf", n_active=20), X, y)
    save_model(model, tmp_path / "m.atoll")
    loaded = load_model(tmp_path / "m.atoll")
    for transductive in (False, True):
        np.testing.assert_array_equal(
            loaded.predict_proba(X, transductive=transductive),
            model.predict_proba(X, transductive=transductive),
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_active": 1}, r"n_active must be None .* or a whole number, at least 2, got 1\."),
        ({"n_rounds": 0}, r"n_rounds must be a whole number, at least 1, got 0\."),
        ({"bias": "guess"}, r'bias must be a number, "share" or "learn", got \'guess\'\.'),
        ({"noise_variance": 0.0}, r"noise_variance must be a positive number, got 0\.0\."),
        ({"variance_rate": -1}, r"variance_rate must be None or a positive number, got -1\."),
        ({"negative": "drop"}, r'negative must be "zero" or "allow", got \'drop\'\.'),
        ({"inference": "guess"}, r'inference must be .*"ep".*, got \'guess\'\.'),
    ],
)
@pytest.mark.parametrize("model", [NullCategoryClassifier, InformativeVectorClassifier])
def test_bad_parameters_are_named(model, options, words):
    X, _, y = crescents(20)
    with pytest.raises(ValueError, match=words):
        model(**{"inference": "ep", **options}).fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {"n_active": 10},
        {"n_rounds": 3},
        {"bias": 1.0},
        {"noise_variance": 0.1},
        {"variance_rate": 1.0},
        {"negative": "allow"},
    ],
)
def test_what_is_of_moment_matching_is_refused_elsewhere(options):
    X, _, y = crescents(20)
    with pytest.raises(ValueError, match="is of moment matching"):
        NullCategoryClassifier(inference="vb", **options).fit(X, y)


def test_labels_are_hidden_in_two_folds_or_more():
    X, _, y = crescents(20)
    with pytest.raises(ValueError, match="n_folds must be 0, for none, or at least 2, got 1"):
        NullCategoryClassifier(inference="ep", n_folds=1).fit(X, y)


def test_a_transductive_prediction_needs_sites():
    X, _, y = crescents(30)
    model = NullCategoryClassifier(inference="vb").fit(X, y)
    with pytest.raises(ValueError, match="transductive=True takes a model fitted by expectation"):
        model.predict_proba(X, transductive=True)


def test_an_active_set_needs_memory_for_itself_alone(monkeypatch):
    X, _, y = crescents(100)
    monkeypatch.setattr(memory, "physical_memory", lambda: 60_000)
    with pytest.raises(ValueError, match="rows in its kernel matrix"):
        NullCategoryClassifier(inference="ep").fit(X, y)
    fit_quietly(NullCategoryClassifier(inference="adf", n_active=5), X, y)
