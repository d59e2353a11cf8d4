"""The null category by variational Bayes: when unlabelled rows are believed, and what else."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from atoll import NullCategoryClassifier
from atoll.core.labels import parse_labels
from atoll.datasets import hide_labels, make_crescents, make_pinwheel
from atoll.kernels.hyperparameters import kernel_prior
from atoll.likelihoods.null_category import NullCategory, family
from atoll.models import null_category, probit_gp
from atoll.models.informative_vector import share_limits
from atoll.models.null_category import shares_agree


def cloud(seed, n=120, d=60, n_labels=10):
    """One Gaussian cloud of many features, cut in halves by a plane: no gap between classes."""
    rng = np.random.default_rng([11, seed])
    X = rng.normal(size=(n, d))
    truth = (X[:, 0] > np.median(X[:, 0])).astype(int)
    y = np.full(n, -1)
    seen = np.concatenate([np.flatnonzero(truth == c)[: n_labels // 2] for c in (0, 1)])
    y[seen] = truth[seen]
    return X, truth, y


def fitted(X, y, **options):
    return NullCategoryClassifier(inference="vb", unlabelled=-1, **options).fit(X, y)


def test_limits_of_a_share_hold_it_19_times_in_20():
    low, high = share_limits(3, 10)
    assert beta(4, 8).cdf(high) - beta(4, 8).cdf(low) == pytest.approx(0.95, abs=1e-9)


def test_shares_agree_where_every_class_is_within_its_limits():
    labels = parse_labels([0, 0, 0, 1, 1, 1, None, None])
    assert shares_agree(np.array([[0.9, 0.1], [0.2, 0.8]]), labels)
    assert not shares_agree(np.array([[0.99, 0.01], [0.99, 0.01]]), labels)


def test_a_bias_moves_the_function_under_its_classes():
    with_bias = NullCategory(0.8, 2, 0.6)
    found = np.exp(with_bias.log_class_probabilities(np.array([0.3]), np.array([0.5]), np.zeros(0)))

    def of(sign):  # P(sign · (f + b + ε) > w/2), f ~ N(0.3, 0.5)
        return quad(
            lambda f: norm(0.3, np.sqrt(0.5)).pdf(f) * norm.cdf(sign * (f + 0.6) - 0.4), -8, 8
        )[0]

    np.testing.assert_allclose(found[0], [of(-1), of(1)], rtol=1e-8)


@pytest.mark.filterwarnings("ignore:NullCategoryClassifier. Of 10 labels")
@pytest.mark.parametrize("seed", range(3))
def test_rows_without_a_gap_do_not_end_on_one_side(seed):
    X, _, y = cloud(seed)
    model = fitted(X, y)
    share = model.predict_proba(X[y < 0])[:, 1].mean()
    low, high = share_limits(5, 10)
    assert low <= share <= high
    if not model.diagnostics_["unlabelled_used"]:
        # The boundary leaves each class its expected share, here a half, to a row.
        assert np.mean(model.predict(X[y < 0])) == pytest.approx(0.5, abs=1.5 / np.sum(y < 0))
        assert model.bias_.shape == (1,)
        assert "left out" in model.diagnostics_["verdict"]


def test_crescents_are_learned_from_their_unlabelled_rows():
    X, truth = make_crescents(n_samples=80, random_state=0)
    y = np.asarray(hide_labels(truth, per_class=5, marker=-1, random_state=0))
    model = fitted(X, y)
    assert model.diagnostics_["unlabelled_used"]
    assert "left out" not in model.diagnostics_["verdict"]
    assert not hasattr(model, "bias_")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_with_one_label_per_class_half_of_the_belief_is_in_the_labelled_rows(n_classes):
    X, truth = make_pinwheel(n_samples=40, n_classes=n_classes, random_state=1)
    y = np.asarray(hide_labels(truth, per_class=1, marker=-1, random_state=1))
    prior, likelihood = kernel_prior("isotropic", X), NullCategory(1.0, n_classes)
    labels = parse_labels(y, unlabelled=-1)

    def family_of(rows, seen):
        return family(labels.codes[rows], seen, n_classes, 1.0)

    told = []
    found = null_category.variational(
        X, labels, prior, family_of, likelihood, lambda _, bound: told.append(bound)
    )
    assert set(found.approximation.log_evidences[1:]) <= set(told)  # a bar moves within ascents
    assert found.beside is not None
    new = make_pinwheel(n_samples=7, n_classes=n_classes, random_state=2)[0]
    both = null_category.two_beliefs(found, X, prior, likelihood)
    alone = found.beside
    parts = [
        probit_gp.approximate_posterior(found.approximation, X, prior, likelihood),
        probit_gp.approximate_posterior(alone.approximation, X[alone.rows], prior, likelihood),
    ]
    total = 0.0
    for got, part in zip(both.moments(new), parts, strict=True):
        ((mean, variance),) = part.moments(new)
        np.testing.assert_allclose(got[0], mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(got[1], variance, rtol=1e-6)
        total += np.exp(likelihood.log_class_probabilities(mean, variance, np.zeros(0)))
    wanted = total / total.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(both.log_proba(new)), wanted, rtol=1e-5)
    draws = both.draws(new, 4000, np.random.default_rng(0)).mean(axis=0)
    np.testing.assert_allclose(draws, wanted, atol=0.06)  # each normalised by itself


@pytest.mark.parametrize(("per_class", "is_tested"), [(1, False), (3, True)])
def test_a_fit_says_where_no_label_could_be_hidden(per_class, is_tested):
    X, truth = make_crescents(n_samples=60, random_state=0)
    y = np.asarray(hide_labels(truth, per_class=per_class, marker=-1, random_state=0))
    model = fitted(X, y)
    assert model.diagnostics_["unlabelled_used"]
    assert ("A second label" in model.diagnostics_["verdict"]) == (not is_tested)
    assert len(model.posterior_.weights) == (1 if is_tested else 2)


@pytest.mark.slow
def test_permuted_labels_are_warned_of_and_leave_unlabelled_rows_out():
    n_warned = n_used = 0
    for seed in range(12):
        rng = np.random.default_rng([12, seed])
        X = rng.normal(size=(60, 2))
        truth = rng.permutation(np.repeat([0, 1], 30))
        y = np.full(60, -1)
        y[np.concatenate([np.flatnonzero(truth == c)[:8] for c in (0, 1)])] = np.repeat([0, 1], 8)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = fitted(X, y)
        n_used += model.diagnostics_["unlabelled_used"]
        if caught:
            assert "NullCategoryClassifier: Of 16 labels" in str(caught[0].message)
            assert "do not bear out" in model.diagnostics_["verdict"]
            n_warned += 1
    # Sixteen labels follow the features by chance in one draw of ten or so.
    assert n_warned >= 6
    assert n_used <= 4


def test_three_classes_that_do_not_agree_fall_back_without_a_bias():
    rng = np.random.default_rng(13)
    X = rng.normal(size=(60, 40))
    y = np.full(60, -1)
    y[:9] = np.repeat([0, 1, 2], 3)
    with pytest.warns(UserWarning, match="Labels do not bear out what it assumes"):
        model = fitted(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert not model.diagnostics_["unlabelled_used"]
    np.testing.assert_array_equal(model.bias_, [0.0])


def test_class_probabilities_are_the_functions_own_with_the_doubt_of_hidden_labels():
    X, truth = make_crescents(60, random_state=3)
    model = fitted(X, hide_labels(truth, per_class=4, random_state=3))
    held, posterior = model.diagnostics_["held_out"], model.posterior_
    own = posterior._replace(doubt=0.0)
    doubt = (1 - held["belief"]) * np.array(held["shares"])
    assert held["n_labels"] == 8
    assert 0 < doubt.sum() < 0.3
    np.testing.assert_allclose(
        model.predict_proba(X[:5]), held["belief"] * np.exp(own.log_proba(X[:5])) + doubt
    )
    drawn, plain = (p.draws(X[:5], 3, np.random.default_rng(0)) for p in (posterior, own))
    np.testing.assert_allclose(drawn, held["belief"] * plain + doubt)
    assert "labels held out in turn" in model.diagnostics_["verdict"]


def test_the_bias_leaves_the_first_class_its_expected_share(monkeypatch):
    """With k of m labels, (k + 1) / (m + 2) of the rows are on its side of the boundary."""
    labels = parse_labels([0, 0, 1, *[None] * 100])
    mean = np.random.default_rng(0).normal(size=(100, 1))
    monkeypatch.setattr(
        null_category,
        "approximate_posterior",
        lambda *_: SimpleNamespace(latent=lambda X: (mean, np.ones_like(mean))),
    )
    found = SimpleNamespace(approximation=None)
    bias = null_category._share_bias(found, np.zeros((103, 1)), labels, None, None)
    assert np.mean(mean + bias < 0) == pytest.approx(3 / 5, abs=0.011)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_data_drawn_from_the_prior_have_labels_of_their_functions(n_classes):
    rng = np.random.default_rng(1)
    X = 3.0 * rng.normal(size=(4, 2))
    wide = kernel_prior(ConstantKernel(1e10, "fixed") * RBF(1.0, "fixed"), X)
    _, f, codes = probit_gp.sample_prior(rng, X, wide, n_classes)
    expected = f > 0 if n_classes == 2 else f.argmax(axis=1)
    np.testing.assert_array_equal(codes, expected)
    for rate in (0.0, 1.0):
        _, f, codes, seen = null_category.sample_prior(
            rng, X, wide, 1.0, [rate] * n_classes, n_classes
        )
        expected = f > 0 if n_classes == 2 else f.argmax(axis=1)
        np.testing.assert_array_equal(codes, expected)
        assert np.all(seen == (rate == 0.0))
