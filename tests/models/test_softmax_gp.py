from __future__ import annotations

import numpy as np
import pytest

from atoll.diagnostics import geweke_test
from atoll.inference import hmc
from atoll.kernels.hyperparameters import gram, gram_function, kernel_prior
from atoll.likelihoods import softmax
from atoll.models import softmax_gp
from atoll.models.softmax_gp import SoftmaxState

X = np.array([[0.0, 0.0], [0.7, 0.2], [2.0, -1.0]])
PRIOR = kernel_prior("isotropic", X)


def functions(whitened, theta):
    return np.linalg.cholesky(gram_function(PRIOR, X)(theta)) @ whitened


def test_geweke_joint_test_of_the_sweep():
    gram_at = gram_function(PRIOR, X)

    def sample_prior(rng):
        theta = PRIOR.mean + PRIOR.sd * rng.standard_normal(2)
        return rng.standard_normal((3, 3)), theta

    def sweep(rng, parameters, codes):
        whitened, theta = parameters
        state = SoftmaxState(whitened, theta, hmc.init_step_size(0.4), 1.0)
        lower = np.linalg.cholesky(gram_at(theta))
        state = softmax_gp.sweep_functions(rng, state, codes, lower, adapt=False)
        state = softmax_gp.sweep_log_variance(rng, state, codes, PRIOR, lower)
        state = softmax_gp.sweep_log_parameters(rng, state, codes, PRIOR, gram_at)
        return state.whitened, state.log_parameters

    def statistics(parameters, codes):
        whitened, theta = parameters
        g = functions(whitened, theta)
        own = g[0, codes[0]]
        return {
            "θ0": theta[0], "θ1": theta[1], "θ0²": theta[0] ** 2, "θ0 θ1": theta[0] * theta[1],
            "g00": g[0, 0], "|g01|": abs(g[0, 1]), "g00 g10": g[0, 0] * g[1, 0], "own": own,
            "θ0 own": theta[0] * own, "margin": own - g[0].mean(), "same": codes[0] == codes[1],
        }  # fmt: skip

    result = geweke_test(
        np.random.default_rng(0),
        sample_prior,
        sample_data=lambda rng, p: softmax.sample(rng, functions(*p)),
        sweep=sweep,
        statistics=statistics,
        n_chains=200,
        n_steps=20,
    )
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


def test_the_gradient_of_the_joint_matches_finite_differences():
    rng = np.random.default_rng(1)
    whitened, codes = rng.standard_normal((3, 4)), np.array([0, 3, 1])
    lower = np.linalg.cholesky(gram(PRIOR, PRIOR.mean, X))
    _, gradient = softmax_gp.log_joint(whitened, codes, lower)
    step = 1e-6
    for index in np.ndindex(whitened.shape):
        up, down = whitened.copy(), whitened.copy()
        up[index] += step
        down[index] -= step
        finite = (
            softmax_gp.log_joint(up, codes, lower)[0] - softmax_gp.log_joint(down, codes, lower)[0]
        ) / (2 * step)
        assert gradient[index] == pytest.approx(finite, rel=1e-5, abs=1e-7)


def test_prior_labels_follow_the_softmax_of_the_functions():
    rng = np.random.default_rng(2)
    g = np.tile([1.0, 0.0, -1.0], (20_000, 1))
    share = np.bincount(softmax.sample(rng, g)) / len(g)
    exact = np.exp([1.0, 0.0, -1.0]) / np.exp([1.0, 0.0, -1.0]).sum()
    assert np.all(np.abs(share - exact) < 6 * np.sqrt(exact / len(g)))


def test_sample_prior_has_the_prior_covariance():
    rng = np.random.default_rng(3)
    scaled = []
    for _ in range(4000):
        theta, g, _ = softmax_gp.sample_prior(rng, X, PRIOR, 2)
        scaled.append(np.linalg.solve(np.linalg.cholesky(gram(PRIOR, theta, X)), g[:, 0]))
    white = np.array(scaled)
    assert np.all(np.abs(white.T @ white / len(white) - np.eye(3)) < 6 * np.sqrt(2 / 4000))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_the_others_say_of_a_label_is_what_weighted_draws_of_the_prior_say(n_classes):
    rng = np.random.default_rng(n_classes)
    X, codes = rng.normal(size=(5, 1)), np.arange(5) % n_classes
    prior, rows = kernel_prior("isotropic", X), np.arange(5)
    theta = prior.mean - np.array([1.0, 0.0])  # labels that are not too strange to each other
    C = gram_function(prior, X)(theta)
    g = np.linalg.cholesky(C) @ rng.normal(size=(100_000, 5, n_classes))
    p = softmax.class_probabilities(g)
    of_labels = p[:, rows, codes]
    exact = np.stack([
        np.average(p[:, i], axis=0, weights=np.delete(of_labels, i, axis=1).prod(axis=1))
        for i in rows
    ])  # fmt: skip
    weights = of_labels.prod(axis=1)
    some = rng.choice(len(g), size=1000, p=weights / weights.sum())
    posterior = softmax_gp.SoftmaxPosterior(
        prior, X, np.tile(theta, (1000, 1)), np.linalg.solve(C, g[some])
    )
    found = np.exp(softmax_gp.left_out(posterior, codes))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(found, exact, atol=0.06)  # Monte Carlo: .03
