"""The softmax of many labels: its posterior, its sampler, its evidence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
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


def unchanged(v, F):
    """Coordinates that are the coefficients themselves."""
    return model.Whitened.of(v, np.tile(np.eye(v.shape[1]), (F, 1, 1)))


def turned(v, F):
    """Coordinates of curvatures that differ from class to class."""
    half = np.random.default_rng(F).standard_normal((F, v.shape[1], v.shape[1]))
    return model.Whitened.of(v, half @ half.swapaxes(1, 2) + 0.5 * np.eye(v.shape[1]))


# The posterior ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_log_posterior_is_the_same_in_single_precision(n_classes):
    v, codes, F = problem(n_classes)
    rng = np.random.default_rng(1)
    q, amplitude = rng.standard_normal((F, 3, v.shape[1])), np.exp(rng.standard_normal(3))
    where = turned(v, F)
    value, gradient = model.log_posterior(q, amplitude, where, codes)
    single = model.log_posterior(
        q.astype(np.float32), amplitude.astype(np.float32), where.astype(np.float32), codes
    )
    assert single[1].dtype == np.float32
    np.testing.assert_allclose(single[0], value, rtol=1e-5)
    np.testing.assert_allclose(single[1], gradient, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_gradient_is_that_of_the_log_posterior(n_classes):
    v, codes, F = problem(n_classes)
    rng = np.random.default_rng(1)
    where = turned(v, F)
    q, amplitude = rng.standard_normal((F, 3, v.shape[1])), np.exp(rng.standard_normal(3))
    value, gradient = model.log_posterior(q, amplitude, where, codes)
    a = where.coefficients(q)
    latent = amplitude[:, None, None] * np.einsum("fsp,lp->slf", a, v)
    if F == 1:
        latent = np.concatenate([np.zeros_like(latent), latent], axis=2)
    expected = np.log(softmax(latent, axis=2))[:, np.arange(len(v)), codes].sum(axis=1)
    np.testing.assert_allclose(value, expected - 0.5 * np.sum(a**2, axis=(0, 2)), rtol=1e-10)
    for f, i in np.ndindex(F, v.shape[1]):
        nudge = np.zeros((F, 1, v.shape[1]))
        nudge[f, 0, i] = 1e-5
        up, _ = model.log_posterior(q + nudge, amplitude, where, codes)
        down, _ = model.log_posterior(q - nudge, amplitude, where, codes)
        np.testing.assert_allclose(gradient[f, :, i], (up - down) / 2e-5, rtol=1e-5, atol=1e-6)


def test_whitened_coordinates_lead_back_and_have_the_curvature_for_their_identity():
    v, _, F = problem(3)
    p = softmax(np.random.default_rng(0).standard_normal((len(v), F)), axis=1)
    curvatures = model.class_curvatures(v, p * (1 - p))
    where = model.Whitened.of(v, curvatures)
    q = np.random.default_rng(1).standard_normal((F, 5, v.shape[1]))
    np.testing.assert_allclose(where.coordinates(where.coefficients(q)), q, atol=1e-12)
    inverse = np.linalg.inv(curvatures)
    np.testing.assert_allclose(
        where.transform.swapaxes(1, 2) @ where.transform, inverse, atol=1e-12
    )
    squares = np.sum(where.coefficients(q) ** 2, axis=2)
    np.testing.assert_allclose(squares, np.sum(q**2 * where.precision, axis=2), rtol=1e-12)


@pytest.mark.parametrize("n", [30, 6])  # more labels than coefficients, and fewer
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_approximation_is_at_the_mode_and_has_its_curvature(n_classes, n):
    v, codes, F = problem(n_classes, n=n)
    found = model.approximate(v, codes, 2.0, np.zeros((v.shape[1], F)))
    d, where = v.shape[1] * F, unchanged(v, F)

    def gradient(x):
        a = x.reshape(-1, F, v.shape[1]).swapaxes(0, 1)
        value, slope = model.log_posterior(a, np.full(len(x), AMPLITUDE), where, codes)
        return value, slope.swapaxes(0, 1).reshape(-1, d)

    x = found.mode.T.reshape(1, d)
    height, slope = gradient(x)
    assert np.abs(slope).max() < 1e-3
    nudges = 1e-4 * np.eye(d)
    hessian = (gradient(x - nudges)[1] - gradient(x + nudges)[1]) / 2e-4
    deviation = (2.0 - RECIPE.softmax.amplitude_centre) / RECIPE.softmax.amplitude_spread
    expected = height[0] - 0.5 * np.linalg.slogdet(hessian)[1] - 0.5 * deviation**2
    assert found.log_evidence == pytest.approx(expected, abs=1e-4)


def test_laplace_s_evidence_of_one_coefficient_is_near_the_integral():
    # Of many labels that disagree, where the posterior is nearly normal.
    rng = np.random.default_rng(0)
    v = rng.standard_normal((200, 1))
    codes = (rng.random(200) < expit(AMPLITUDE * 0.5 * v[:, 0])).astype(int)
    found = model.approximate(v, codes, 2.0, np.zeros((1, 1)))

    def log_density(a):
        q = np.array([[[a]]])
        return model.log_posterior(q, np.array([AMPLITUDE]), unchanged(v, 1), codes)[0][0]

    def density(a):
        return np.exp(log_density(a) - height)

    centre = float(found.mode[0, 0])
    height = log_density(centre)
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
    where = model.Whitened.of(v, np.tile(2.0 * np.eye(3) + 0.3, (F, 1, 1)))

    def prior(rng):
        return rng.standard_normal((F, 1, 3))

    def data(rng, a):
        return model.sample_labels(rng, AMPLITUDE * v @ a[:, 0].T)

    def sweep(rng, a, codes):
        def log_density(q):
            return density(q, amplitude, where, codes)

        chains = hmc_chains.init(where.coordinates(a), log_density)
        chains = hmc_chains.step(rng, chains, log_density, 0.5, 4)[0]
        return where.coefficients(chains.position)

    def statistics(a, codes):
        a = a[:, 0]
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
    def careless(q, amplitude, where, codes):
        where = where._replace(features=np.tile(where.features, 4))
        return model.log_posterior(q, amplitude, where, np.tile(codes, 4))

    assert geweke(3, careless).smallest_adjusted_p_value < 1e-9


@pytest.mark.parametrize("single", [False, True])
def test_draws_given_the_amplitude_have_the_moments_of_the_exact_posterior(monkeypatch, single):
    monkeypatch.setattr(model, "MANY_VALUES", 0 if single else np.inf)
    # One coefficient and labels that all agree: a skewed posterior, far from Laplace's.
    rng = np.random.default_rng(3)
    v, codes = np.array([[1.0], [0.7], [0.2]]), np.ones(3, dtype=int)
    u, n_draws = 4.0, 4000
    found = model.approximate(v, codes, u, np.zeros((1, 1)))
    scaled = np.exp(0.5 * u) * v
    p = expit(scaled @ found.mode)
    x, _, memory = model.sample_given_amplitudes(
        rng,
        v,
        codes,
        np.full(n_draws, u),
        np.full((1, n_draws, 1), found.mode[0, 0]),
        model.class_curvatures(scaled, p * (1.0 - p)),
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
    n_draws, where = 4000, turned(v, F)
    amplitude = np.full(n_draws, AMPLITUDE)

    def log_density(q):
        return model.log_posterior(q, amplitude, where, codes)

    start = where.coordinates(np.ones((F, n_draws, v.shape[1])))
    moved = model.with_another_sum(
        np.random.default_rng(0), hmc_chains.init(start, log_density), where
    )
    anew = hmc_chains.init(moved.position, log_density)
    np.testing.assert_allclose(moved.log_density, anew.log_density, rtol=1e-10)
    np.testing.assert_allclose(moved.gradient, anew.gradient, atol=1e-10)
    x = where.coefficients(moved.position).swapaxes(0, 1)
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
    found = model._newton(v, p, w, gradient, rough, left=1e-5)
    np.testing.assert_allclose(found.T.ravel(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_whole_weight_is_the_label_repeated(n_classes):
    v, codes, F = problem(n_classes, n=8)
    weights = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 4.0, 1.0])
    again = np.repeat(np.arange(8), weights.astype(int))
    q, amplitude = np.random.default_rng(2).standard_normal((F, 3, v.shape[1])), np.ones(3)
    weighted = model.log_posterior(q, amplitude, unchanged(v, F), codes, weights)
    repeated = model.log_posterior(q, amplitude, unchanged(v[again], F), codes[again])
    for one, other in zip(weighted, repeated):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    start = np.zeros((v.shape[1], F))
    one = model.approximate(v, codes, 2.0, start, label_weights=weights)
    other = model.approximate(v[again], codes[again], 2.0, start)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    np.testing.assert_allclose(one.mode, other.mode, atol=1e-3)


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
