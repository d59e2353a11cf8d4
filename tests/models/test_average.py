"""The average over assumptions: views, heads, evidence and weights."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import norm

from atoll.models import graph_gp
from atoll.models.average import average, heads, views
from atoll.models.average.average import AveragePosterior, Component, Weighed
from atoll.models.average.recipe import AVERAGE_RECIPE, Belief
from atoll.models.graph_gp import GraphLabels
from atoll.models.graph_posterior import probit_proba
from atoll.models.graph_recipe import LabellingRecipe

CONSTANT = 0.5


def rows(seed=0, n=60, d=8, n_signal=2):
    """Two directions of large variance, and noise."""
    rng = np.random.default_rng(seed)
    signal = rng.standard_normal((n, n_signal)) @ (4.0 * rng.standard_normal((n_signal, d)))
    return signal + 0.3 * rng.standard_normal((n, d))


# Views --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_signal_is_told_from_noise(seed):
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((30, 2)))[0]
    noise = 0.5 * rng.standard_normal((300, 30))
    signal = 3.0 * rng.standard_normal((300, 2)) @ directions.T
    assert views.principal(signal + noise).n_signal == 2
    assert views.principal(noise).n_signal < 15  # of 30: what chance leaves above chance


@pytest.mark.parametrize("shape", [(60, 8), (20, 50)])  # tall and wide
def test_principal_directions_are_those_of_the_covariance(shape):
    X = np.random.default_rng(1).standard_normal(shape) * np.linspace(1, 3, shape[1])
    found = views.principal(X)
    expected = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1][: len(found.variances)]
    np.testing.assert_allclose(found.variances, expected, rtol=1e-8)
    np.testing.assert_allclose(
        found.directions.T @ found.directions, np.eye(len(found.variances)), atol=1e-8
    )


def test_features_have_length_one_on_average():
    X = rows()
    found = views.principal(X)
    for view in (views.line(found, CONSTANT), views.whitened(found, CONSTANT)):
        V = view.features(X)
        assert np.mean(np.sum(V[:, :-1] ** 2, axis=1)) == pytest.approx(1.0)
        np.testing.assert_array_equal(V[:, -1], CONSTANT)


def test_whitened_directions_have_one_variance():
    X = rows()
    V = views.whitened(views.principal(X), CONSTANT).features(X)[:, :-1]
    np.testing.assert_allclose(np.cov(V.T, bias=True), np.eye(2) / 2, atol=1e-9)


def test_products_of_distance_features_are_the_kernel_at_landmarks():
    X = rows(n=30)
    view = views.smooth(X, np.arange(5), 30, CONSTANT)
    V = view.features(X)[:, :-1]
    squares = np.sum((X[:, None] - X) ** 2, axis=2)
    np.testing.assert_allclose(V @ V.T, np.exp(-0.5 * squares / view.length**2), atol=1e-6)


# Heads --------------------------------------------------------------------------------------------


def labelled(n_classes, seed=0, n=9, p=4):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)), rng.permutation(np.arange(n) % n_classes)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("p", [4, 15])  # fewer and more features than labels
def test_a_head_predicts_as_the_gaussian_process_given_its_sites(n_classes, p):
    V, codes = labelled(n_classes, p=p)
    amplitudes = np.array([0.5, 20.0])
    problems = heads.infer([V], [amplitudes], codes, n_classes, 1e-6)
    new = np.random.default_rng(5).standard_normal((6, p))
    for i, A in enumerate(amplitudes):
        head = problems.head(0, np.eye(2)[i])
        cross = A * new @ V.T
        mean = cross @ problems.sites.weights[i]
        spent = np.einsum("ij,jk,ik->i", cross, problems.sites.site_inverse[i], cross)
        variance = A * np.sum(new**2, axis=1) - spent
        expected = probit_proba(mean, variance)
        np.testing.assert_allclose(head.proba(new), expected, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_draws_of_a_head_average_to_its_probabilities_and_belong_together(n_classes):
    V, codes = labelled(n_classes)
    problems = heads.infer([V], [np.array([1.0, 10.0])], codes, n_classes, 1e-3)
    head = problems.head(0, np.array([0.4, 0.6]))
    new = np.random.default_rng(2).standard_normal((4, V.shape[1]))
    new = np.concatenate([new, new[:1]])
    draws = head.draws(new, 4000, np.random.default_rng(3))
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - head.proba(new)) < 6 * error + 1e-3).all()
    np.testing.assert_array_equal(draws[:, 0], draws[:, -1])


def test_evidence_of_one_label_is_that_of_a_coin():
    problems = heads.infer([np.ones((1, 1))], [np.array([3.0])], np.array([1]), 2, 1e-3)
    assert problems.log_evidence(0)[0] == pytest.approx(np.log(0.5), abs=1e-6)


def test_evidence_of_all_labellings_sums_to_one():
    V = np.random.default_rng(0).standard_normal((3, 2))
    total = [
        heads.infer([V], [np.array([2.0])], np.array(codes), 2, 1e-3).log_evidence(0)[0]
        for codes in product(range(2), repeat=3)
    ]
    assert logsumexp(total) == pytest.approx(0.0, abs=2e-3)  # the error of EP


# Evidence and weights -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_evidence_of_shares_sums_to_one_over_labellings(n_classes):
    total = [
        average.evidence_of_shares(np.array(codes), n_classes)
        for codes in product(range(n_classes), repeat=4)
    ]
    assert logsumexp(total) == pytest.approx(0.0, abs=1e-10)


def test_shares_foretell_the_next_label_by_their_own_evidence():
    codes = np.array([0, 0, 1, 0])
    for k in range(2):
        step = average.evidence_of_shares(np.append(codes, k), 2) - average.evidence_of_shares(
            codes, 2
        )
        assert np.exp(step) == pytest.approx(average.smoothed_shares(codes, 2)[k])


def test_weights_follow_odds_and_evidence():
    flat = Weighed("line", np.log(2.0), -3.0, np.empty(0))
    better = Weighed("smooth", 0.0, -1.0, np.empty(0), gain=0.5)
    w = average.weights([flat, better], power=2.0)
    assert w.sum() == pytest.approx(1.0)
    assert w[1] / w[0] == pytest.approx(np.exp(2.0 * 2.0 + 0.5) / 2.0)
    lost = average.weights([flat, better._replace(log_evidence=-np.inf)], power=2.0)
    np.testing.assert_allclose(lost, [1.0, 0.0])


def test_amplitudes_are_weighed_by_prior_and_evidence():
    amplitudes = np.array([1.0, 10.0])
    found = average.weigh(
        "line", 0.0, Belief(1.0, 0.0, 0.0, 1.0), amplitudes, np.array([-2.0, -1.0]), 1.0
    )
    prior = norm.pdf(np.log(amplitudes))
    joint = prior / prior.sum() * np.exp([-2.0, -1.0])
    np.testing.assert_allclose(found.shares, joint / joint.sum())
    assert np.exp(found.log_evidence) == pytest.approx(joint.sum())


def test_cuts_add_what_brute_force_says():
    # Labellings of a path of four rows, by a feature of their own each: all 16 are equally likely.
    n, strength = 4, 0.7
    W = sparse.csr_array(np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1))
    labels = np.array(list(product([0, 1], repeat=n)))
    cut = -strength * (labels[:, 1:] != labels[:, :-1]).sum(axis=1) / (6 / 4)
    recipe = LabellingRecipe(balance_strength=0.0, cut_strength=strength)
    for codes in ([0, 1], [0, 0]):
        agree = (labels[:, 0] == codes[0]) & (labels[:, 3] == codes[1])
        # The labelled rows are given in the weights before the labels, too: see `labelling_terms`.
        given = labels.copy()
        given[:, 0], given[:, 3] = codes
        before = -strength * (given[:, 1:] != given[:, :-1]).sum(axis=1) / (6 / 4)
        expected = logsumexp(cut[agree]) - np.log(agree.sum()) - logsumexp(before) + np.log(16)
        known = GraphLabels(np.eye(n), np.array([0, 3]), np.array(codes), 2, W)
        rng = np.random.default_rng(0)
        draws = rng.standard_normal((20_000, n, 1))
        side = np.where(np.array(codes) == 1, 1.0, -1.0)
        draws[:, [0, 3], 0] = side * np.abs(draws[:, [0, 3], 0])
        terms = np.stack(graph_gp.labelling_terms(known, W, draws, recipe))
        found = average.gain_of_cuts(rng, known, terms, 20_000, recipe)
        assert found == pytest.approx(expected, abs=0.02)


def test_labels_that_follow_clusters_gain_by_cuts_and_others_lose():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 1, (40, 2)), rng.normal(3, 1, (40, 2))])
    from atoll.core.graphs import neighbour_graph, self_tuning_weights
    from atoll.kernels.graph_spectral import graph_modes

    W = self_tuning_weights(neighbour_graph(X, 10))
    V = graph_gp.row_features(graph_modes(W, 20), 2, 8)
    at = np.concatenate([np.arange(4), 40 + np.arange(4)])
    gains = {}
    for name, codes in {"follow": at // 40, "do not": np.arange(8) % 2}.items():
        known = GraphLabels(V, at, codes, 2, W)
        found = graph_gp.draw(np.random.default_rng(1), known, 256)
        gains[name] = average.gain_of_cuts(
            np.random.default_rng(2), known, found.terms, 512, LabellingRecipe()
        )
    assert gains["follow"] > 0 > gains["do not"]


def test_the_average_is_the_weighted_sum_of_its_parts():
    X, V_codes = rows(n=12), np.arange(6) % 2
    found = views.principal(X)
    seen = (views.line(found, CONSTANT), views.whitened(found, CONSTANT))
    features = [view.features(X[:6]) for view in seen]
    problems = heads.infer(features, [np.array([2.0])] * 2, V_codes, 2, 1e-3)
    parts = [problems.head(i, np.ones(1)) for i in range(2)]
    shares = np.array([0.3, 0.7])
    components = (Component(0, parts[0], 0.5), Component(1, parts[1], 0.3))
    shift, scale = np.full(X.shape[1], 1.0), np.full(X.shape[1], 2.0)
    posterior = AveragePosterior(shift, scale, seen, components, shares, 0.2)
    Z = (X - shift) / scale
    expected = 0.2 * shares + sum(
        c.weight * c.head.proba(seen[c.view].features(Z)) for c in components
    )
    np.testing.assert_allclose(posterior.proba(X), expected)
    draws = posterior.draws(X, 5000, np.random.default_rng(0))
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - expected) < 6 * error + 1e-3).all()


def test_odds_follow_the_labels_per_class():
    assert AVERAGE_RECIPE.clusters.log_odds(1.0) > AVERAGE_RECIPE.clusters.log_odds(10.0)
    assert Belief(3.0, 2.0).log_odds(0.5) == pytest.approx(np.log(3.0))  # fewer than one is one


def test_where_a_graph_does_not_reach_the_others_speak():
    X = np.linspace(0.0, 1.0, 8)[:, None] + np.array([0.0, 0, 0, 0, 9, 9, 9, 9])[:, None]
    values = np.zeros((8, 3))
    values[:4, 0], values[4:, 1], values[:, 2] = 1.0, 1.0, 0.5
    graph = views.GraphView(np.zeros(1), np.zeros((1, 0)), X, values, 3, None)
    line = views.line(views.principal(X), CONSTANT)
    codes = np.array([0, 0, 1, 1])
    problems = heads.infer(
        [values[:4], line.features(X[:4])], [np.array([3.0])] * 2, codes, 2, 1e-3
    )
    parts = [problems.head(i, np.ones(1)) for i in range(2)]
    components = (Component(0, parts[0], 0.9), Component(1, parts[1], 0.05))
    posterior = AveragePosterior(
        np.zeros(1), np.ones(1), (graph, line), components, np.array([0.5, 0.5]), 0.05
    )
    far = posterior.proba(X[4:])
    np.testing.assert_allclose(far, 0.5 * parts[1].proba(line.features(X[4:])) + 0.25)
    draws = posterior.draws(X, 6000, np.random.default_rng(0))
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - posterior.proba(X)) < 6 * error + 2e-3).all()


@pytest.mark.parametrize("n_classes", [3, 5])
def test_classes_without_a_label_are_alike_to_every_head(n_classes):
    X = rows(n=30)
    view = views.line(views.principal(X), CONSTANT)
    codes = np.array([0, 1, 0, 1, 1, 0])
    found = heads.infer([view.features(X[:6])], [np.array([0.6, 38.0])], codes, n_classes, 1e-3)
    p = found.head(0, np.ones(2) / 2).proba(view.features(X))
    np.testing.assert_allclose(p[:, 2:], p[:, 2:3] * np.ones(n_classes - 2), atol=1e-10)
    assert p[:, 2].min() > 0.0


def test_one_label_of_two_classes_meets_quadrature():
    # f₀ + ε > 0 alone: P(f₁ + ε > 0 | f₀ + ε > 0) is an orthant probability.
    V = np.array([[1.0, 0.0], [0.8, 0.6]])
    found = heads.infer([V[:1]], [np.array([2.4])], np.array([1]), 2, 0.0)
    p = found.head(0, np.ones(1)).proba(V)[1, 1]
    correlation = 2.4 * 0.8 / (1.0 + 2.4)
    assert p == pytest.approx(0.5 + np.arcsin(correlation) / np.pi, abs=5e-3)  # the error of EP
