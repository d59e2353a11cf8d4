from __future__ import annotations

import numpy as np
import pytest

from atoll.datasets import hide_labels, make_crescents, make_pinwheel
from atoll.estimators import AtollClassifier, GraphGPClassifier
from atoll.models.average import heads
from atoll.models.average.label_regression import regress
from atoll.models.average.recipe import RegressionRecipe
from atoll.models.graph_posterior import ConePosterior, PooledPosterior, SoftmaxPosterior
from atoll.models.label_pulls import label_pulls, mean_coefficients, terms, towards


@pytest.mark.parametrize("n_classes", [2, 3])
def test_terms_of_labels_add_up_to_the_posterior_mean(n_classes):
    rng = np.random.default_rng(n_classes)
    codes = rng.permutation(np.repeat(np.arange(n_classes), 3))
    labelled = rng.standard_normal((len(codes), 20))
    found = heads.infer([labelled], [np.array([1.0])], codes, n_classes, 1e-6)
    head = found.head(0, np.array([1.0]))
    mean, at = mean_coefficients(head), rng.standard_normal(20)
    assert mean is not None
    added = terms(mean, at, labelled, codes)
    np.testing.assert_allclose(added.sum(axis=0), at @ mean, atol=2e-3)
    # Each is the kernel times the weight that moment matching gave the label.
    weights = found.sites.weights[0]
    np.testing.assert_allclose(added, (labelled @ at)[:, None] * weights, atol=5e-3)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_terms_of_a_regression_add_up_to_the_mean_of_its_functions(n_classes):
    rng = np.random.default_rng(n_classes)
    codes = rng.permutation(np.repeat(np.arange(n_classes), 3))
    labelled, at = rng.standard_normal((len(codes), 40)), rng.standard_normal(40)
    counts = np.ones(len(codes))
    head = regress(labelled, codes, n_classes, counts, RegressionRecipe()).head
    mean = mean_coefficients(head)
    assert mean is not None
    np.testing.assert_allclose(mean.sum(axis=1), 0.0, atol=1e-9)
    by_hand = sum(share * one @ np.eye(n_classes) for share, one in zip(head.shares, head.means))
    np.testing.assert_allclose(mean, by_hand)
    added = terms(mean, at, labelled, codes, has_signs=False)
    np.testing.assert_allclose(added.sum(axis=0), at @ mean, atol=2e-3)


def test_labels_of_many_classes_pull_as_well():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(30), 12)
    X = 6.0 * rng.standard_normal((30, 6))[truth] + rng.standard_normal((len(truth), 6))
    y = hide_labels(truth, per_class=4, marker=None, random_state=0)
    fitted = AtollClassifier(random_state=0).fit(X, y)
    known = np.flatnonzero([label is not None for label in y])
    for row in (5, 100, 250):
        pulls = label_pulls(fitted.posterior_, X[row : row + 1], X[known], truth[known], truth[row])
        assert pulls is not None
        assert np.abs(pulls).sum() == pytest.approx(1.0)
        assert pulls[truth[known] == truth[row]].sum() > 0.4


def test_labels_that_are_alike_share_what_they_do():
    labelled = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    added = terms(np.array([[2.0], [-1.0]]), np.array([1.0, 0.0]), labelled, np.array([1, 1, 0]))
    np.testing.assert_allclose(added.ravel(), [1.0, 1.0, 0.0], atol=1e-2)


def test_the_pull_towards_a_class_is_what_it_gains_over_the_others():
    added = np.array([[3.0, 0.0, 1.0]])
    assert towards(added, 0).tolist() == [2.5]
    assert towards(np.array([[2.0]]), 1).tolist() == [2.0]
    assert towards(np.array([[2.0]]), 0).tolist() == [-2.0]


@pytest.mark.parametrize("model", [AtollClassifier, GraphGPClassifier])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_labels_of_a_rows_own_class_pull_it_there(model, n_classes):
    make = make_crescents if n_classes == 2 else make_pinwheel
    X, truth = make(120, **({} if n_classes == 2 else {"n_classes": 4}), random_state=0)
    y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    fitted = model(random_state=0).fit(X, y)
    known = np.flatnonzero([label is not None for label in y])
    for row in (7, 30, 61, 90):
        code = int(fitted.predict_proba(X[row : row + 1]).argmax())
        codes = truth[known]
        pulls = label_pulls(fitted.posterior_, X[row : row + 1], X[known], codes, code)
        assert pulls is not None
        assert np.abs(pulls).sum() == pytest.approx(1.0)
        assert pulls[codes == code].sum() > 0.3
        assert (pulls[codes == code] > -0.05).all()


def test_the_mean_of_pooled_posteriors_is_that_of_their_parts():
    rng = np.random.default_rng(3)
    a, b, shares = rng.normal(size=(4, 2, 3)), rng.normal(size=(5, 2, 3)), rng.dirichlet(np.ones(5))
    votes = ConePosterior(a, np.full(4, 0.25), 1, 0.0)
    soft = SoftmaxPosterior(b, shares, np.zeros(5), 1, 0.0)
    expected = 0.7 * a.mean(axis=0) + 0.3 * np.einsum("s,spf->pf", shares, b)
    np.testing.assert_allclose(mean_coefficients(PooledPosterior(votes, soft, 0.3)), expected)
