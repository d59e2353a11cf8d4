"""Rounds of select-then-optimise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from atoll.datasets import make_crescents
from atoll.inference import ep
from atoll.inference.ivm import Plan
from atoll.kernels.hyperparameters import gram_function, gram_gradient_function, kernel_prior
from atoll.likelihoods import probit
from atoll.models import informative_vector as iv
from atoll.models import probit_gp


def crescents(n=80, seed=0, share=0.3):
    X, truth = make_crescents(n, random_state=seed)
    seen = np.random.default_rng(seed).random(n) < share
    return X, truth.astype(np.intp), seen


@pytest.mark.parametrize("kernel", ["isotropic", ConstantKernel(2.0) * RBF(1.5) + WhiteKernel(0.1)])
def test_the_columns_and_parts_of_a_kernel_are_those_of_its_matrix(kernel):
    X, _, _ = crescents(20)
    prior = kernel_prior(kernel, X)
    access, theta = iv.kernel_access(prior, X), prior.mean + 0.1
    whole = gram_function(prior, X)(theta)
    rows = np.array([3, 11, 4])
    column = access.column(theta)
    for i in rows:
        np.testing.assert_allclose(column(int(i)), whole[:, i], rtol=1e-6)
    np.testing.assert_allclose(access.diagonal(theta), np.diagonal(whole), rtol=1e-6)
    np.testing.assert_allclose(access.part(rows)[0](theta), whole[np.ix_(rows, rows)], rtol=1e-6)


def test_with_every_row_active_ep_is_the_maximum_of_the_evidence():
    X, codes, _ = crescents(40)
    prior = kernel_prior("isotropic", X)
    family = iv.family(codes, np.ones(40, bool), iv.NoiseModel(), 0.0)
    result = iv.fit(X, [family], prior)
    direct = ep.maximise(
        gram_function(prior, X), gram_gradient_function(prior, X), prior, probit_gp.family(codes, 2)
    )
    assert result.converged
    assert result.log_evidences[-1] == pytest.approx(direct.log_evidences[-1], abs=1e-4)
    np.testing.assert_allclose(result.log_parameters, direct.log_parameters, atol=0.02)


@pytest.mark.parametrize("refine", ["ep", "adf"])
def test_rounds_stop_when_the_hyper_parameters_rest(refine):
    X, codes, seen = crescents()
    prior = kernel_prior("isotropic", X)
    family = iv.family(codes, seen, iv.NoiseModel(1.0), 0.0)
    result = iv.fit(X, [family], prior, Plan(refine, 25))
    assert result.converged
    assert 1 <= len(result.log_evidences) <= 15
    (active,) = result.problems
    assert len(set(active.rows)) == 25
    once = iv.fit(X, [family], prior, Plan(refine, 25, 1, begin=result.log_parameters))
    np.testing.assert_allclose(once.log_parameters, result.log_parameters, atol=0.3)


def test_held_sites_have_the_gradient_of_their_regression():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(15, 2))
    prior = kernel_prior("ard", X)
    gram, slope_of = gram_function(prior, X), gram_gradient_function(prior, X)
    sites = ep.Sites(rng.gamma(1.0, size=15), rng.normal(size=15))

    def value(theta):
        return ep.held_posterior(gram(theta), sites)

    theta = prior.mean + 0.1
    held = value(theta)
    M = 0.5 * (np.outer(held.weights, held.weights) - held.site_inverse)
    ours = slope_of(theta, gram(theta), M)
    finite = [
        (value(theta + 1e-5 * e).log_evidence - value(theta - 1e-5 * e).log_evidence) / 2e-5
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(ours, finite, rtol=1e-5, atol=1e-7)


def test_rounds_end_before_the_first_selection_that_is_not_believed():
    X, codes, seen = crescents()
    prior = kernel_prior("isotropic", X)
    family = iv.family(codes, seen, iv.NoiseModel(1.0), 0.0)
    calls = []

    def twice(passes, phis):
        calls.append(len(passes))
        return len(calls) <= 2

    result = iv.fit(X, [family], prior, Plan("adf", 25, check=twice))
    assert result.believed
    assert len(result.log_evidences) == 1
    refused = iv.fit(X, [family], prior, Plan("adf", 25, check=lambda *_: False))
    assert not refused.believed
    np.testing.assert_array_equal(refused.log_parameters, prior.mean)


def test_problems_share_the_kernel_and_their_evidences_add():
    X, codes, _ = crescents(30)
    prior = kernel_prior("isotropic", X)
    seen = np.ones(30, bool)
    one, mirrored = (iv.family(c, seen, iv.NoiseModel(), 0.0) for c in (codes, 1 - codes))
    alone, both = iv.fit(X, [one], prior), iv.fit(X, [one, mirrored], prior)
    # The two are mirror images: the data count twice, the prior once.
    a, b = both.problems
    np.testing.assert_allclose(a.weights, -b.weights, atol=1e-4)
    assert both.log_evidences[-1] < alone.log_evidences[-1]


def test_a_regression_of_sites_predicts_at_the_active_rows_what_ep_found():
    X, codes, _ = crescents(30)
    prior = kernel_prior("isotropic", X)
    result = iv.fit(X, [iv.family(codes, np.ones(30, bool), iv.NoiseModel(), 0.0)], prior)
    C = gram_function(prior, X)(result.log_parameters)
    found = ep.propagate(C, probit.regions(codes), ep.no_sites(30), tolerance=1e-9)
    posterior = iv.posterior(result, X, prior, iv.NoiseModel(), [0.0])
    mean, variance = posterior.latent(X)
    np.testing.assert_allclose(mean[:, 0], found.mean, atol=1e-3)
    np.testing.assert_allclose(variance[:, 0], found.variance, atol=1e-3)


def test_what_a_round_found_is_reported_and_free_region_parameters_are_learned():
    X, codes, seen = crescents(30)
    prior = kernel_prior("isotropic", X)
    noise = iv.NoiseModel(None, learn_rates=True)
    told = []
    result = iv.fit(
        X, [iv.family(codes, seen, noise, 0.0)], prior, Plan("adf", 20, 2),
        lambda number, value: told.append((number, value)),
    )  # fmt: skip
    assert told == list(enumerate(result.log_evidences))
    (active,) = result.problems
    assert len(active.region_parameters) == 3
    start = iv.family(codes, seen, noise, 0.0)(np.arange(30)).mean
    assert np.all(active.region_parameters != start)
