"""The average over assumptions: views, heads, evidence and weights."""

from dataclasses import replace
from itertools import product
from math import factorial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import norm
from sklearn.metrics import cohen_kappa_score

from atoll.models.average import average, heads, pooling, views
from atoll.models.average.average import AveragePosterior, Component, Weighed
from atoll.models.average.corroboration import agreement, corroboration
from atoll.models.average.recipe import AVERAGE_RECIPE, Belief
from atoll.models.graph_posterior import probit_proba

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
    k = V.shape[1]  # directions that stand out from those of mixed columns: one or more
    np.testing.assert_allclose(np.atleast_2d(np.cov(V.T, bias=True)), np.eye(k) / k, atol=1e-9)


def test_products_of_distance_features_are_the_kernel_at_landmarks():
    X = rows(n=30)
    view = views.smooth(X, np.arange(5), 30, CONSTANT)
    V = view.features(X)[:, :-1]
    squares = np.sum((X[:, None] - X) ** 2, axis=2)
    np.testing.assert_allclose(V @ V.T, np.exp(-0.5 * squares / view.length**2), atol=1e-6)


def brute_force_ranks(X):
    """Share of rows below, with half of those of the same value."""
    below = np.mean(X[:, None] > X, axis=1)
    return below + 0.5 * np.mean(X[:, None] == X, axis=1)


def mixed_rows(n=40):
    """Return rows of a skewed column, one of two values, one of whole numbers and one of noise."""
    rng = np.random.default_rng(3)
    whole = rng.integers(0, 4, n)
    return np.column_stack(
        [np.exp(3 * rng.standard_normal(n)), rng.random(n) < 0.3, whole, rng.standard_normal(n)]
    ).astype(float)


@pytest.mark.parametrize("which", [None, np.array([2]), np.array([3, 0])])
def test_products_of_column_features_are_shared_ranks_less_their_mean(which):
    X = mixed_rows()
    ranked = views.ranked(X, np.ones(len(X)), np.arange(5), 40)
    V = ranked.sum_over(CONSTANT, which).features(X)
    ranks = brute_force_ranks(X)[:, slice(None) if which is None else which]
    shared = 1.0 - np.abs(ranks[:, None] - ranks).mean(axis=2)
    centred = shared - shared.mean(axis=0) - shared.mean(axis=1)[:, None] + shared.mean()
    np.testing.assert_allclose(
        V[:, :-1] @ V[:, :-1].T, centred / np.trace(centred) * len(X), atol=1e-6
    )
    np.testing.assert_array_equal(V[:, -1], CONSTANT)


def test_column_features_are_the_same_after_a_rising_function_of_each_column():
    X = mixed_rows()
    ones = np.ones(len(X))
    V = views.ranked(X, ones, np.arange(5), 20).sum_over(CONSTANT).features(X)
    risen = np.arctan(X)
    W = views.ranked(risen, ones, np.arange(5), 20).sum_over(CONSTANT).features(risen)
    np.testing.assert_allclose(W, V, atol=1e-9)


def test_copies_count_as_rows_among_the_ranks():
    X = mixed_rows(10)
    copies = np.arange(1, 11)
    merged = views.ranked(X, copies.astype(float), np.arange(3), 10)
    repeated = brute_force_ranks(np.repeat(X, copies, axis=0))
    first = np.cumsum(copies) - copies
    np.testing.assert_allclose(
        views.ranks_of(X, merged.knots, merged.ranks), repeated[first], atol=1e-12
    )


def test_ranks_of_a_long_column_are_interpolated_and_end_where_the_column_ends():
    X = np.random.default_rng(0).standard_normal((3000, 4)) ** 3
    view = views.ranked(X, np.ones(3000), np.arange(5), 20)
    ranks = views.ranks_of(X, view.knots, view.ranks)
    assert np.abs(ranks - brute_force_ranks(X)).max() < 0.02
    far = views.ranks_of(np.array([[1e9] * 4, [-1e9] * 4]), view.knots, view.ranks)
    np.testing.assert_allclose(far, [[1 - 0.5 / 3000] * 4, [0.5 / 3000] * 4])


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
    # Amplitudes at which rows leave each other some freedom, so that EP's own error is small.
    V = 0.5 * np.random.default_rng(0).standard_normal((3, 2))
    total = [
        heads.infer([V], [np.array([0.0])], np.array(codes), 2, 1e-3).log_evidence(0)[0]
        for codes in product(range(2), repeat=3)
    ]
    assert logsumexp(total) == pytest.approx(0.0, abs=2e-3)


# Evidence and weights -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_evidence_of_shares_sums_to_one_over_labellings(n_classes):
    total = [
        average.evidence_of_shares(np.array(codes), n_classes)
        for codes in product(range(n_classes), repeat=4)
    ]
    assert logsumexp(total) == pytest.approx(0.0, abs=1e-10)


def test_shares_are_unknown_or_all_the_same():
    codes, K = np.array([0, 0, 1, 0]), 2
    prior, found = average.EQUAL_SHARES, average.evidence_of_shares(codes, K)
    parts = np.array([prior * 0.5**4, (1.0 - prior) * factorial(3) / factorial(5)])
    equal = parts[0] / parts.sum()  # given the labels
    assert np.exp(found) == pytest.approx(parts.sum())
    for k in range(K):
        step = average.evidence_of_shares(np.append(codes, k), K) - found
        unknown = average.smoothed_shares(codes, K)[k]
        assert np.exp(step) == pytest.approx(equal / K + (1.0 - equal) * unknown)


@pytest.mark.parametrize("n_classes", [2, 5, 20])
def test_labels_picked_class_by_class_are_likely_if_rows_tell_nothing(n_classes):
    """An assumption that calls all classes equally likely gains nothing on them."""
    for n_each in (1, 2, 5):
        codes = np.repeat(np.arange(n_classes), n_each)
        guess = -len(codes) * np.log(n_classes)
        found = average.evidence_of_shares(codes, n_classes)
        assert guess + np.log(average.EQUAL_SHARES) <= found < guess
    one = average.evidence_of_shares(np.arange(n_classes), n_classes)
    unknown = gammaln(n_classes) - gammaln(2 * n_classes)
    assert one - average.equal_shares_ahead(n_classes) == pytest.approx(unknown)


def test_weights_follow_odds_and_evidence():
    flat = Weighed("line", np.log(2.0), -3.0, np.empty(0))
    better = Weighed("smooth", 0.0, -1.0, np.empty(0))
    w = average.weights([flat, better])
    assert w.sum() == pytest.approx(1.0)
    assert w[1] / w[0] == pytest.approx(np.exp(2.0) / 2.0)
    lost = average.weights([flat, better._replace(log_evidence=-np.inf)])
    np.testing.assert_allclose(lost, [1.0, 0.0])


def test_amplitudes_are_weighed_by_prior_and_evidence():
    amplitudes = np.array([1.0, 10.0])
    found = average.weigh(
        "line", 0.0, Belief(1.0, 0.0, 0.0, 1.0), amplitudes, np.array([-2.0, -1.0])
    )
    prior = norm.pdf(np.log(amplitudes))
    joint = prior / prior.sum() * np.exp([-2.0, -1.0])
    np.testing.assert_allclose(found.shares, joint / joint.sum())
    assert np.exp(found.log_evidence) == pytest.approx(joint.sum())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_classes_of_a_view_are_those_of_its_head(n_classes):
    V, codes = labelled(n_classes)
    problems = heads.infer([V], [np.array([1.0, 10.0])], codes, n_classes, 1e-3)
    new = np.random.default_rng(2).standard_normal((30, V.shape[1]))
    for shares in ([1.0, 0.0], [0.0, 1.0]):
        found = problems.classes(0, np.array(shares), new)
        head = problems.head(0, np.array(shares))
        np.testing.assert_array_equal(found, head.proba(new).argmax(axis=1))


# Corroboration ------------------------------------------------------------------------------------


def test_agreement_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    for n_classes in (2, 3, 5):
        first, second = rng.integers(0, n_classes, (2, 40))
        found = agreement(first, second, n_classes)
        assert found == pytest.approx(cohen_kappa_score(first, second))
        assert agreement(first, first, n_classes) == pytest.approx(1.0)


def test_clear_clusters_that_another_assumption_sees_are_corroborated():
    sure = np.tile([[0.99, 0.01], [0.01, 0.99]], (20, 1))
    same, other = np.tile([0, 1], 20), np.repeat([0, 1], 20)
    rows = np.random.default_rng(0).standard_normal((40, 3))
    seconded = corroboration(sure, [other, same], rows)
    assert seconded.clarity == pytest.approx(50.0)
    assert seconded.agreement == pytest.approx(1.0)
    assert seconded.log_odds(2.0) == pytest.approx(2.0 * np.log(50.0))
    assert corroboration(sure, [other], rows).log_odds(2.0) == pytest.approx(0.0)
    unsure = np.full((40, 2), 0.5)
    assert corroboration(unsure, [same], rows).log_odds(2.0) == 0.0
    nothing = corroboration(sure[:0], [same[:0]], rows[:0])
    assert nothing == corroboration(sure, [], rows) == (1.0, 0.0, 0.0)


def test_clusters_that_are_the_values_of_one_column_are_not_corroborated():
    sure = np.tile([[0.99, 0.01], [0.01, 0.99]], (20, 1))
    same = np.tile([0, 1], 20)
    rows = np.random.default_rng(0).standard_normal((40, 3))
    rows[:, 1] = np.where(same == 1, 5.0, -5.0)  # yes or no
    seconded = corroboration(sure, [same], rows)
    assert seconded.one_column == pytest.approx(1.0)
    assert seconded.log_odds(2.0) == pytest.approx(0.0)
    rows[:10, 1] *= -1  # a quarter of them otherwise: half of what is beyond chance
    assert corroboration(sure, [same], rows).one_column == pytest.approx(0.5)
    rows[:, 1] += 1e-3 * np.arange(40)  # a measurement with two heaps
    assert corroboration(sure, [same], rows).one_column == 0.0


# The average --------------------------------------------------------------------------------------


def test_a_power_makes_probabilities_surer_but_not_shares():
    rng = np.random.default_rng(0)
    shares = np.array([0.5, 0.3, 0.2])
    p = rng.dirichlet(np.ones(3), 20)
    surer = pooling.sharpened(7.0 * p, shares, 1.3)
    np.testing.assert_allclose(surer.sum(axis=1), 1.0)
    np.testing.assert_allclose(pooling.sharpened(surer, shares, 1 / 1.3), p)
    np.testing.assert_allclose(pooling.sharpened(shares[None], shares, 1.3), shares[None])
    np.testing.assert_allclose(pooling.sharpened(2.0 * p, shares, 1.0), p)
    even = pooling.sharpened(p, np.full(3, 1 / 3), 1.3)
    assert (even.max(axis=1) >= p.max(axis=1)).all()
    assert np.isfinite(pooling.sharpened(np.eye(3), shares, 1.3)).all()


def test_draws_are_carried_to_another_mean():
    rng = np.random.default_rng(0)
    draws = rng.dirichlet(np.ones(3), (50, 4))
    draws[:, 3] = draws[:1, 3]  # a row of which all draws say the same
    before = draws.mean(axis=0)
    for after in (rng.dirichlet(np.ones(3), 4), before, np.eye(3)[[0, 1, 2, 0]]):
        moved = pooling.carried(draws, before, after)
        np.testing.assert_allclose(moved.mean(axis=0), after, atol=1e-12)
        np.testing.assert_allclose(moved.sum(axis=2), 1.0)
        assert (moved >= 0).all()


def test_draws_of_a_surer_average_have_its_mean():
    X, codes = rows(n=12), np.arange(6) % 3
    found = views.principal(X)
    seen = (views.line(found, CONSTANT), views.whitened(found, CONSTANT))
    features = [view.features(X[:6]) for view in seen]
    problems = heads.infer(features, [np.array([2.0])] * 2, codes, 3, 1e-3)
    parts = tuple(Component(i, problems.head(i, np.ones(1)), 0.4) for i in range(2))
    d = X.shape[1]
    posterior = AveragePosterior(
        np.zeros(d), np.ones(d), seen, parts, np.array([0.2, 0.3, 0.5]), 0.2, 1.5
    )
    p = posterior.proba(X)
    shares = np.array([0.2, 0.3, 0.5])
    surer = shares * (posterior._replace(sharpness=1.0).proba(X) / shares) ** 1.5
    np.testing.assert_allclose(p, surer / surer.sum(axis=1, keepdims=True), rtol=1e-9)
    draws = posterior.draws(X, 5000, np.random.default_rng(0))
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - p) < 6 * error + 1e-3).all()


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


def test_odds_follow_the_kind_of_rows():
    few = AVERAGE_RECIPE.for_rows(30, False)
    assert replace(few, column=AVERAGE_RECIPE.column) == AVERAGE_RECIPE
    assert few.column.odds == pytest.approx(AVERAGE_RECIPE.column.odds / 30.0)
    many = AVERAGE_RECIPE.for_rows(300, False)
    assert many.smooth.odds == pytest.approx(AVERAGE_RECIPE.smooth.odds / 10.0)
    assert many.columns.odds == pytest.approx(AVERAGE_RECIPE.columns.odds / 6.0)
    assert many.line == AVERAGE_RECIPE.line
    directions = AVERAGE_RECIPE.for_rows(500, True)
    for name, factor in AVERAGE_RECIPE.direction_odds:
        before, after = getattr(AVERAGE_RECIPE, name), getattr(directions, name)
        assert after.odds == pytest.approx(factor * before.odds)
        assert after.slope == before.slope
    assert directions.nothing == AVERAGE_RECIPE.nothing


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


def test_posteriors_side_by_side_are_those_of_all_amplitudes():
    rng = np.random.default_rng(0)
    features = [rng.standard_normal((4, 2)), rng.standard_normal((4, 3))]
    codes = np.array([0, 1, 1, 0])
    first, second = ([1.0, 2.0], [0.5]), ([4.0], [3.0, 0.1])
    parts = [
        heads.infer(features, [np.array(A) for A in both], codes, 2, 1e-3)
        for both in (first, second)
    ]
    merged = heads.merged(parts)
    at_once = [np.array([*a, *b]) for a, b in zip(first, second)]
    together = heads.infer(features, at_once, codes, 2, 1e-3)
    for i in range(2):
        np.testing.assert_allclose(
            merged.log_evidence(i), together.log_evidence(i), rtol=1e-5, atol=1e-6
        )


class PartlyReached(NamedTuple):
    """A view of which labels reach the first three rows not at all, or in part."""

    view: Any
    least: float

    def features(self, X):
        return self.view.features(X)

    def reach(self, features):
        return np.where(np.arange(len(features)) >= 3, 1.0, self.least)


@pytest.mark.parametrize("least", [0.0, 0.4, 0.7])
def test_draws_at_rows_that_an_assumption_does_not_reach_are_those_of_others(least):
    X, codes = rows(n=12), np.arange(6) % 2
    found = views.principal(X)
    seen = (PartlyReached(views.line(found, CONSTANT), least), views.whitened(found, CONSTANT))
    features = [view.features(X[:6]) for view in seen]
    problems = heads.infer(features, [np.array([3.0])] * 2, codes, 2, 1e-3)
    parts = tuple(Component(i, problems.head(i, np.ones(1)), 0.45) for i in range(2))
    d = X.shape[1]
    posterior = AveragePosterior(np.zeros(d), np.ones(d), seen, parts, np.array([0.4, 0.6]), 0.1)
    draws = posterior.draws(X, 4000, np.random.default_rng(1))
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - posterior.proba(X)) < 6 * error + 1e-3).all()


def test_noise_is_what_columns_have_without_each_other():
    # Unequal columns, none of which says anything of another: each of their directions exceeds
    # those of two permutations one time in three.
    X = np.random.default_rng(0).standard_normal((600, 120)) * np.repeat([10.0, 1.0], [30, 90])
    assert views.principal(X).n_signal < 15


def test_of_many_rows_different_ones_stand_for_all(monkeypatch):
    monkeypatch.setattr(views, "MOST_ROWS", 11)
    monkeypatch.setattr(views, "MOST_COLUMNS", 5)
    X = np.random.default_rng(0).standard_normal((12, 20))
    assert len(views.principal(X).variances) == 10  # eleven rows less their mean


def test_the_unit_of_distances_is_that_of_the_rows():
    X = rows(n=30)
    lengths = [views.smooth(c * X, np.arange(5), 20, CONSTANT).length for c in (1.0, 1e-3)]
    assert lengths[1] == pytest.approx(1e-3 * lengths[0], rel=1e-9)
