"""The softmax of many labels: its posterior, its sampler, its evidence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import block_diag
from scipy.special import expit, softmax

from atoll.diagnostics import geweke_test
from atoll.inference import hmc_chains
from atoll.models import graph_softmax as model
from atoll.models.graph_recipe import RECIPE

AMPLITUDE = np.exp(0.5 * 2.0)


def problem(n_classes, n=30, p=4, seed=0):
    rng = np.random.default_rng([seed, n_classes])
    features = rng.standard_normal((n, p)) / np.sqrt(p)
    _, _, codes = model.sample_prior(rng, features, n_classes)
    return model.own_features(features, n_classes), codes, 1 if n_classes == 2 else n_classes


# The posterior ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_log_posterior_is_the_same_in_single_precision(n_classes):
    v, codes, F = problem(n_classes)
    rng = np.random.default_rng(1)
    x, amplitude = rng.standard_normal((3, F * v.shape[1])), np.exp(rng.standard_normal(3))
    value, gradient = model.log_posterior(x, amplitude, v, codes)
    single = model.log_posterior(*(part.astype(np.float32) for part in (x, amplitude, v)), codes)
    assert single[1].dtype == np.float32
    np.testing.assert_allclose(single[0], value, rtol=1e-5)
    np.testing.assert_allclose(single[1], gradient, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_gradient_is_that_of_the_log_posterior(n_classes):
    v, codes, F = problem(n_classes)
    rng = np.random.default_rng(1)
    x, amplitude = rng.standard_normal((3, F * v.shape[1])), np.exp(rng.standard_normal(3))
    value, gradient = model.log_posterior(x, amplitude, v, codes)
    a = x.reshape(3, F, -1)
    latent = amplitude[:, None, None] * np.einsum("sfp,lp->slf", a, v)
    if F == 1:
        latent = np.concatenate([np.zeros_like(latent), latent], axis=2)
    expected = np.log(softmax(latent, axis=2))[:, np.arange(len(v)), codes].sum(axis=1)
    np.testing.assert_allclose(value, expected - 0.5 * np.sum(x**2, axis=1), rtol=1e-10)
    for i in range(x.shape[1]):
        nudge = 1e-5 * np.eye(x.shape[1])[i]
        up, _ = model.log_posterior(x + nudge, amplitude, v, codes)
        down, _ = model.log_posterior(x - nudge, amplitude, v, codes)
        np.testing.assert_allclose(gradient[:, i], (up - down) / 2e-5, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_approximation_is_at_the_mode_and_has_its_curvature(n_classes):
    v, codes, F = problem(n_classes)
    found = model.approximate(v, codes, 2.0, np.zeros((v.shape[1], F)))
    x = found.mode.T.ravel()[None]
    _, gradient = model.log_posterior(x, np.array([AMPLITUDE]), v, codes)
    assert np.abs(gradient).max() < 1e-3
    nudges = x + 1e-4 * np.eye(x.shape[1])
    back = x - 1e-4 * np.eye(x.shape[1])
    amplitude = np.full(x.shape[1], AMPLITUDE)
    up, down = (model.log_posterior(y, amplitude, v, codes)[1] for y in (nudges, back))
    hessian = (down - up) / 2e-4
    np.testing.assert_allclose(found.lower @ found.lower.T, hessian, rtol=1e-4, atol=1e-5)


def test_laplace_s_evidence_of_one_coefficient_is_near_the_integral():
    # Of many labels that disagree, where the posterior is nearly normal.
    rng = np.random.default_rng(0)
    v = rng.standard_normal((200, 1))
    codes = (rng.random(200) < expit(AMPLITUDE * 0.5 * v[:, 0])).astype(int)
    found = model.approximate(v, codes, 2.0, np.zeros((1, 1)))

    def density(a):
        value, _ = model.log_posterior(np.array([[a]]), np.array([AMPLITUDE]), v, codes)
        return np.exp(value[0] - height)

    height = model.log_posterior(found.mode.T, np.array([AMPLITUDE]), v, codes)[0][0]
    centre = float(found.mode[0, 0])
    integral = quad(density, centre - 2, centre + 2, points=[centre])[0]
    recipe = RECIPE.softmax
    prior = -0.5 * ((2.0 - recipe.amplitude_centre) / recipe.amplitude_spread) ** 2
    exact = height + np.log(integral / np.sqrt(2 * np.pi)) + prior
    assert abs(found.log_evidence - exact) < 0.01


def test_noisy_labels_have_a_lower_amplitude_than_clean_ones():
    rng = np.random.default_rng(0)
    v = rng.standard_normal((300, 3)) / np.sqrt(3)
    clean = (v @ np.array([1.0, -1.0, 0.5]) > 0).astype(int)
    noisy = np.where(rng.random(300) < 0.2, 1 - clean, clean)
    means = [model.sample(rng, v, y, 2, 16).log_amplitudes.mean() for y in (clean, noisy)]
    assert means[0] > means[1] + 2.0


# The sampler --------------------------------------------------------------------------------------


def geweke(n_classes, density=model.log_posterior):
    features = np.random.default_rng(0).standard_normal((5, 3)) / np.sqrt(3)
    v, F = model.own_features(features, n_classes), 1 if n_classes == 2 else n_classes
    amplitude = np.array([AMPLITUDE])
    transform = np.linalg.inv(np.linalg.cholesky(2.0 * np.eye(3 * F) + 0.3))

    def prior(rng):
        return rng.standard_normal((1, 3 * F))

    def data(rng, x):
        return model.sample_labels(rng, AMPLITUDE * v @ x.reshape(F, 3).T)

    def sweep(rng, x, codes):
        def log_density(x):
            return density(x, amplitude, v, codes)

        chains = hmc_chains.init(x, log_density)
        return hmc_chains.step(rng, chains, log_density, transform, 0.5, 4)[0].position

    def statistics(x, codes):
        a = x.reshape(F, 3)
        mean = a.mean(axis=1)
        return np.concatenate([a[0], a[-1] ** 2, mean[:1] * codes, (v @ a[-1]) * (codes == 1)])

    rng = np.random.default_rng(n_classes)
    return geweke_test(rng, prior, data, sweep, statistics, n_steps=10)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_geweke_holds_for_the_coefficients(n_classes):
    result = geweke(n_classes)
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


@pytest.mark.slow
def test_geweke_catches_labels_that_count_four_times():
    def careless(x, amplitude, v, codes):
        return model.log_posterior(x, amplitude, np.tile(v, (4, 1)), np.tile(codes, 4))

    assert geweke(3, careless).smallest_adjusted_p_value < 1e-9


@pytest.mark.parametrize("single", [False, True])
def test_draws_given_the_amplitude_have_the_moments_of_the_exact_posterior(monkeypatch, single):
    monkeypatch.setattr(model, "MANY_VALUES", 0 if single else np.inf)
    # One coefficient and labels that all agree: a skewed posterior, far from Laplace's.
    rng = np.random.default_rng(3)
    v, codes = np.array([[1.0], [0.7], [0.2]]), np.ones(3, dtype=int)
    u, n_draws = 4.0, 4000
    found = model.approximate(v, codes, u, np.zeros((1, 1)))
    x, _, memory = model.sample_given_amplitudes(
        rng,
        v,
        codes,
        np.full(n_draws, u),
        np.full((n_draws, 1), found.mode[0, 0]),
        1.0 / found.lower[None],
    )

    def density(a):
        return np.exp(-0.5 * a**2) * np.prod(expit(np.exp(0.5 * u) * v[:, 0] * a))

    total, first, second = (
        quad(lambda a, k=k: a**k * density(a), -9, 9, limit=200)[0] for k in range(3)
    )
    mean, variance = first / total, second / total - (first / total) ** 2
    assert abs(memory) < 0.3
    assert abs(x.mean() - mean) < 6 * np.sqrt(variance / n_draws)
    fourth = quad(lambda a: (a - mean) ** 4 * density(a), -9, 9, limit=200)[0] / total
    assert abs(x.var() - variance) < 6 * np.sqrt((fourth - variance**2) / n_draws)
    assert abs(found.mode[0, 0] - mean) > 0.1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_chains_start_as_often_at_each_amplitude_as_its_evidence_says(n_classes):
    v, codes, F = problem(n_classes)
    found = model.approximations(v, codes, F)
    evidence = np.array([one.log_evidence for one in found])
    share = np.exp(evidence - evidence.max())
    share /= share.sum()
    features = v / np.sqrt(2.0) if n_classes == 2 else v
    drawn = model.sample(np.random.default_rng(0), features, codes, n_classes, 100)
    at = np.array([one.log_amplitude for one in found])
    counts = (drawn.log_amplitudes[:, None] == at).sum(axis=0)
    assert counts.sum() == 100
    assert np.abs(counts - 100 * share).max() <= 1.0


def test_the_softmax_of_two_classes_is_that_of_two_functions():
    latent = np.random.default_rng(0).standard_normal((50, 1)) * 9
    both = np.concatenate([np.zeros_like(latent), latent], axis=1)
    np.testing.assert_allclose(model.class_probabilities(latent), softmax(both, axis=1))
    np.testing.assert_allclose(model.class_probabilities(both), softmax(both, axis=1))


def test_chains_say_whether_they_have_forgotten():
    x = np.random.default_rng(0).standard_normal((2000, 2))
    y = np.random.default_rng(1).standard_normal((2000, 2))
    assert hmc_chains.memory(x, x) == pytest.approx(1.0)
    assert abs(hmc_chains.memory(x, y)) < 0.1
    assert hmc_chains.memory(x, np.ones_like(x)) == 0.0


def test_blocks_move_chains_as_the_matrix_that_has_them_on_its_diagonal():
    v, codes, F = problem(3)
    amplitude, p = np.full(5, AMPLITUDE), v.shape[1]
    blocks = np.random.default_rng(0).standard_normal((F, p, p))

    def log_density(x):
        return model.log_posterior(x, amplitude, v, codes)

    chains = hmc_chains.init(np.random.default_rng(1).standard_normal((5, F * p)), log_density)
    by_blocks, by_matrix = (
        hmc_chains.step(np.random.default_rng(2), chains, log_density, transform, 0.05, 4)[0]
        for transform in (blocks, block_diag(*blocks))
    )
    np.testing.assert_allclose(by_blocks.position, by_matrix.position, atol=1e-12)
    assert np.abs(by_blocks.position - chains.position).max() > 0.01


def test_curvatures_of_classes_are_the_blocks_of_the_whole():
    v, _, F = problem(3)
    p = softmax(np.random.default_rng(0).standard_normal((len(v), F)), axis=1)
    weights = np.stack([np.diag(row) - np.outer(row, row) for row in p])
    whole = model.curvature(v, weights).reshape(F, v.shape[1], F, v.shape[1])
    blocks = model.class_curvatures(v, p * (1 - p))
    for f in range(F):
        np.testing.assert_allclose(blocks[f], whole[f, :, f], atol=1e-12)


def test_another_sum_of_the_functions_changes_no_probability_and_has_the_prior():
    v, codes, F = problem(3)
    n_draws = 4000
    amplitude = np.full(n_draws, AMPLITUDE)

    def log_density(x):
        return model.log_posterior(x, amplitude, v, codes)

    chains = hmc_chains.init(np.ones((n_draws, F * v.shape[1])), log_density)
    moved = model.with_another_sum(np.random.default_rng(0), chains, F)
    anew = hmc_chains.init(moved.position, log_density)
    np.testing.assert_allclose(moved.log_density, anew.log_density, rtol=1e-10)
    np.testing.assert_allclose(moved.gradient, anew.gradient, atol=1e-10)
    x = moved.position.reshape(n_draws, F, -1)
    np.testing.assert_allclose(x - x.mean(axis=1, keepdims=True), 0.0, atol=1e-12)
    total = x.sum(axis=1) / np.sqrt(F)
    assert np.abs(total.mean(axis=0)).max() < 5 / np.sqrt(n_draws)
    assert np.abs(total.var(axis=0) - 1.0).max() < 5 * np.sqrt(2 / n_draws)


def test_newton_s_direction_solves_for_the_gradient():
    v, _, F = problem(4)
    rng = np.random.default_rng(0)
    p = softmax(rng.standard_normal((len(v), F)), axis=1)
    gradient = rng.standard_normal((v.shape[1], F))
    weights = np.stack([np.diag(row) - np.outer(row, row) for row in p])
    expected = np.linalg.solve(model.curvature(v, weights), gradient.T.ravel())
    w = np.ones(len(v))
    rough = model._rough_inverses(v, np.full(p.shape, 0.25), w)
    found = model._newton(v, p, w, gradient, rough)
    np.testing.assert_allclose(found.T.ravel(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_whole_weight_is_the_label_repeated(n_classes):
    v, codes, F = problem(n_classes, n=8)
    weights = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 4.0, 1.0])
    again = np.repeat(np.arange(8), weights.astype(int))
    x, amplitude = np.random.default_rng(2).standard_normal((3, F * v.shape[1])), np.ones(3)
    weighted = model.log_posterior(x, amplitude, v, codes, weights)
    repeated = model.log_posterior(x, amplitude, v[again], codes[again])
    for one, other in zip(weighted, repeated):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    start = np.zeros((v.shape[1], F))
    one = model.approximate(v, codes, 2.0, start, label_weights=weights)
    other = model.approximate(v[again], codes[again], 2.0, start)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    np.testing.assert_allclose(one.mode, other.mode, atol=1e-3)
    np.testing.assert_allclose(one.lower, other.lower, atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_where_labels_say_nothing_coefficients_have_their_prior(n_classes):
    """One function of two classes is a difference of two, with twice the variance."""
    rng = np.random.default_rng(50)
    features = 1e-8 * rng.normal(size=(3, 4))
    codes = np.arange(3) % n_classes
    found = model.sample(rng, features, codes, n_classes, 300)
    a = found.coefficients * np.exp(-0.5 * found.log_amplitudes)[:, None, None]
    variance = 2.0 if n_classes == 2 else 1.0
    assert np.mean(a**2) == pytest.approx(variance, rel=6 * np.sqrt(2 / a.size))
