"""Classes and predictions from Gaussian sites."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from atoll.core.labels import PartialLabels
from atoll.inference.adf import Filtered
from atoll.inference.ep import Sites
from atoll.kernels.hyperparameters import gram, kernel_prior
from atoll.likelihoods import null_category
from atoll.likelihoods.null_category import OneAgainstTheRest
from atoll.models import informative_vector as iv

X = np.random.default_rng(0).normal(size=(12, 2))
PRIOR = kernel_prior("isotropic", X)


def sites_posterior(n_problems=1, width=1.0, rates=(1.0, 1.0), negative=False, variance=1.0):
    rng = np.random.default_rng(1)
    noise = [rng.gamma(2.0, size=12) for _ in range(n_problems)]
    if negative:
        noise[0][0] = -50.0
    return iv.SitesPosterior(
        PRIOR,
        PRIOR.mean,
        (X,) * n_problems,
        tuple(0.05 * rng.normal(size=12) for _ in range(n_problems)),
        tuple(noise),
        np.linspace(0.2, 0.5, n_problems),
        OneAgainstTheRest(
            np.full(n_problems, width), np.log(np.tile(rates, (n_problems, 1))), variance
        ),
    )


@pytest.mark.parametrize("negative", [False, True])
def test_latent_moments_are_those_of_the_regression(negative):
    p = sites_posterior(negative=negative)
    new = X[:5] + 0.3
    K, cross = (gram(PRIOR, PRIOR.mean, X, Y) for Y in (X, new))
    V = K + 1e-6 * K[0, 0] * np.eye(12) + np.diag(p.noise_variance[0])
    mean, variance = p.latent(new)
    np.testing.assert_allclose(mean[:, 0], cross.T @ p.weights[0] + 0.2, rtol=1e-10)
    exact = K[0, 0] - np.diagonal(cross.T @ np.linalg.solve(V, cross))
    np.testing.assert_allclose(variance[:, 0], exact, rtol=1e-7)


@pytest.mark.parametrize("noise_variance", [1.0, 1e-6])
def test_two_classes_are_renormalised_without_the_null_category(noise_variance):
    """Paper 001, eq. 2: each class times the chance that its label is missing."""
    p = sites_posterior(rates=(0.3, 0.9), variance=noise_variance)
    mean, variance = (part[:, 0] for part in p.latent(X + 0.1))
    sd = np.sqrt(noise_variance + variance)
    up, down = 0.9 * ndtr((mean - 0.5) / sd), 0.3 * ndtr((-mean - 0.5) / sd)
    found = np.exp(p.log_proba(X + 0.1))
    np.testing.assert_allclose(found[:, 1], up / (up + down), rtol=1e-9)


def test_more_classes_are_conditioned_on_exactly_one_being_true():
    p = sites_posterior(n_problems=3, width=0.0)
    found = np.exp(p.log_proba(X))
    mean, variance = p.latent(X)
    yes = ndtr(mean / np.sqrt(1 + variance))
    joint = np.stack(
        [yes[:, k] * np.prod(np.delete(1 - yes, k, axis=1), axis=1) for k in range(3)], axis=1
    )
    np.testing.assert_allclose(found, joint / joint.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)


def test_one_row_alone_changes_no_class_probability_transductively():
    """A row's own site is left out of its cavity: it says that the row is not null, no more."""
    p = sites_posterior(rates=(0.3, 0.9))
    for row in X[:4] + 0.2:
        plain = p.log_proba(row[None])
        transductive = p.transductive_log_proba(row[None])
        # EP stops at moments within 1e-6; cavities and slopes of the logarithm magnify that.
        np.testing.assert_allclose(transductive, plain, atol=5e-5)


def test_rows_together_change_each_other_transductively():
    p = sites_posterior()
    new = X + 0.2
    together = p.transductive_log_proba(new)
    assert np.max(np.abs(together - p.log_proba(new))) > 0.01
    np.testing.assert_allclose(np.exp(together).sum(axis=1), 1.0, atol=1e-12)


def test_the_exponential_prior_is_on_variances_and_has_its_gradient():
    kernel = ConstantKernel(2.0) * RBF(1.5) + WhiteKernel(0.3)
    prior = kernel_prior(kernel, X)
    theta = np.log([3.0, 2.0, 0.5])
    for keep in (True, False):
        log_density = iv.exponential_prior(prior, 1.5, keep_others=keep)
        expected = -1.5 * 3.5 - keep * 0.5 * np.log(2.0 / 1.5) ** 2
        value, slope = log_density(theta)
        assert value == pytest.approx(expected, rel=1e-12)
        finite = [
            (log_density(theta + 1e-6 * e)[0] - log_density(theta - 1e-6 * e)[0]) / 2e-6
            for e in np.eye(3)
        ]
        np.testing.assert_allclose(slope, finite, rtol=1e-6, atol=1e-8)


def test_the_share_bias_gives_a_zero_function_the_labels_share():
    codes, seen = np.array([1, 1, 1, 0, 0, 0]), np.array([1, 1, 1, 1, 0, 0], bool)
    assert ndtr(iv.share_bias(codes, seen)) == pytest.approx(0.75)
    # A class that all labels have is given as many rows fewer as LEAST_SHARE_ROWS says.
    least = iv.LEAST_SHARE_ROWS / (4 + 2 * iv.LEAST_SHARE_ROWS)
    for code, share in ((1, 1.0 - least), (0, least)):
        bias = iv.share_bias(np.full(4, code), np.ones(4, bool))
        assert ndtr(bias) == pytest.approx(share)


def test_unlabelled_rows_all_on_one_side_are_not_believed():
    seen = np.arange(60) < 10
    codes = (np.arange(60) % 2).astype(np.intp)
    check = iv.share_check([codes], seen, iv.NoiseModel(1.0), [0.0])
    nothing = np.zeros(0)

    def passed(mean):
        empty = Sites(nothing, nothing)
        return Filtered(nothing.astype(int), empty, mean, np.full(60, 0.1), *(nothing,) * 3, 0.0, 0)

    half = np.where(codes == 1, 5.0, -5.0)
    assert check([passed(half)], [nothing])
    assert not check([passed(np.full(60, 5.0))], [nothing])


def test_classes_against_the_rest():
    classes = np.array(["a", "b", "c"])
    labels = PartialLabels(np.array([0, 1, 2, 1]), np.ones(4, bool), classes)
    assert [codes.tolist() for codes in iv.against_the_rest(labels)] == [
        [1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0],
    ]  # fmt: skip
    two = PartialLabels(np.array([0, 1]), np.ones(2, bool), classes[:2])
    assert [codes.tolist() for codes in iv.against_the_rest(two)] == [[0, 1]]


def test_the_bias_is_the_last_of_the_parameters():
    noise = iv.NoiseModel(null_width=None, learn_rates=True, learn_bias=True)
    phi = np.array([np.log(0.5), 0.2, -0.3, 1.5])
    width, rates, bias = iv.read_parameters(noise, 9.0, phi)
    assert (width, bias) == (0.5, 1.5)
    np.testing.assert_array_equal(rates, null_category.missing_rates_at(phi[:-1], 2))
    assert iv.read_parameters(noise._replace(learn_bias=False), 9.0, phi[:-1])[2] == 9.0
