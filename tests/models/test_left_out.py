"""Labels left out one by one: what all others say of each, beside exact answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from atoll.core.labels import PartialLabels
from atoll.inference.ep import Sites, held_posterior
from atoll.inference.ivm import Plan
from atoll.kernels.hyperparameters import gram_function, kernel_prior
from atoll.models import belief, class_shares, probit_gp
from atoll.models import informative_vector as iv
from atoll.models.informative_vector import NoiseModel

NO_PARAMETERS = np.zeros(0)


def log_probability(C, codes, n_classes):
    """log P(labels) under the multinomial probit: every z_y above all other z of its row."""
    n, K = len(codes), n_classes
    differences = [
        np.eye(n * K)[i * K + codes[i]] - np.eye(n * K)[i * K + k]
        for i in range(n) for k in range(K) if k != codes[i]
    ]  # fmt: skip
    A = np.array(differences)
    covariance = A @ np.kron(C + np.eye(n), np.eye(K)) @ A.T
    centre = np.zeros(len(A))
    mass = multivariate_normal.cdf(centre, centre, covariance, abseps=1e-6, releps=1e-6)
    return float(np.log(mass))


def exactly_left_out(C, codes, n_classes):
    """P(y_i | all other labels) of every row, by masses of orthants."""
    found = np.empty((len(codes), n_classes))
    for i in range(len(codes)):
        for k in range(n_classes):
            found[i, k] = log_probability(
                C, np.where(np.arange(len(codes)) == i, k, codes), n_classes
            )
    return np.exp(found - np.logaddexp.reduce(found, axis=1, keepdims=True))


# Expectation propagation has one precision for all functions of a row, which more classes strain.
@pytest.mark.parametrize(("n", "n_classes", "most_apart"), [(5, 2, 0.02), (4, 3, 0.06)])
@pytest.mark.parametrize("amplitude", [0.5, 4.0])
def test_what_the_others_say_of_a_label_is_near_the_exact_answer(
    n, n_classes, most_apart, amplitude
):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 1))
    C = amplitude * np.exp(-0.5 * (X - X.T) ** 2)
    codes = np.arange(n) % n_classes
    exact = exactly_left_out(C, codes, n_classes)
    regions = probit_gp.family(codes, n_classes).at(NO_PARAMETERS).regions
    likelihood = probit_gp.likelihood(n_classes)
    found = np.exp(probit_gp.left_out(C, regions, likelihood, NO_PARAMETERS))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(found, exact, atol=most_apart)


def matched(n_active, codes, n_classes=2):
    X = np.random.default_rng(1).normal(size=(len(codes), 2))
    prior = kernel_prior("isotropic", X)
    labels = PartialLabels(codes, np.ones(len(codes), dtype=bool), np.arange(n_classes))
    problems, noise = iv.against_the_rest(labels), NoiseModel()
    families = [iv.family(one, labels.is_labelled, noise, 0.3) for one in problems]
    result = iv.fit(X, families, prior, Plan("adf", n_active, n_rounds=2))
    biases = [0.3] * len(problems)
    return X, prior, result, iv.posterior(result, X, prior, noise, biases)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_active_row_loses_its_site(n_classes):
    codes = np.arange(14) % n_classes
    X, prior, result, posterior = matched(None, codes, n_classes)
    found = iv.left_out(result, posterior, X)
    for i in range(14):
        mean, variance = np.empty((1, len(result.problems))), np.empty((1, len(result.problems)))
        for k, one in enumerate(result.problems):
            left = one.rows != i
            rows = np.concatenate([one.rows[left], [i]])
            C = gram_function(prior, X[rows])(result.log_parameters)
            sites = Sites(one.sites.precision[left], one.sites.shift[left])
            others = held_posterior(C[:-1, :-1], sites)
            mean[0, k] = C[-1, :-1] @ others.weights + 0.3
            variance[0, k] = C[-1, -1] - C[-1, :-1] @ others.site_inverse @ C[:-1, -1]
        alone = posterior.likelihood.log_class_probabilities(mean, variance, NO_PARAMETERS)
        np.testing.assert_allclose(found[i], alone[0], atol=1e-6)


def test_a_row_that_is_not_active_is_foretold_as_it_is():
    X, _, result, posterior = matched(5, np.arange(14) % 2)
    found, (one,) = iv.left_out(result, posterior, X), result.problems
    others = np.setdiff1d(np.arange(14), one.rows)
    assert len(others) == 9
    np.testing.assert_array_equal(found[others], posterior.log_proba(X[others]))
    assert np.all(found[one.rows] != posterior.log_proba(X[one.rows]))


def test_only_labels_of_a_class_are_not_weighed():
    log_proba = np.log(np.array([[0.9, 0.05, 0.05]] * 2 + [[0.05, 0.9, 0.05]] * 3))
    codes = np.array([0, 0, 1, 1, 2])  # the last would be wrong
    found = belief.weigh_left_out(log_proba, codes)
    assert found.n_labels == 4
    assert found.error == 0.0
    np.testing.assert_array_equal(found.shares, class_shares.given(np.array([2, 2, 1])))
    assert belief.weigh_left_out(log_proba[:3], np.array([0, 0, 1])) is None


@pytest.mark.parametrize("refine", ["ep", "adf"])
def test_what_is_said_of_hidden_labels_is_near_the_exact_answer(refine):
    """Without a null region, rows without a label say nothing, and a hidden row is one of them."""
    X = np.random.default_rng(2).normal(size=(8, 1))
    labels = PartialLabels(np.array([0, 1, 0, 1, 0, 0, 1, 0]), np.arange(8) < 5, np.array([0, 1]))
    prior, plan, noise = kernel_prior("isotropic", X), Plan(refine), NoiseModel()
    families = [iv.family(labels.codes, labels.is_labelled, noise, 0.0)]
    result = iv.fit(X, families, prior, plan)
    said = iv.hidden_labels(result, X, labels, prior, noise, [0.0], plan, 5)
    C = gram_function(prior, X[:5])(result.log_parameters)
    exact = exactly_left_out(C, labels.codes[:5], 2)
    assert said.n_labels == 5
    of_labels = -np.log(exact[np.arange(5), labels.codes[:5]]).mean()
    assert said.log_loss == pytest.approx(of_labels, abs=0.02)
