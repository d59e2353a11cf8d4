"""The default graph model: its sampler, its weights, its approximation for many labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import ndtr

from atoll.core.graphs import neighbour_graph, self_tuning_weights
from atoll.diagnostics import geweke_test
from atoll.inference.cone_sampling import coloured, turn_beside
from atoll.kernels.graph_spectral import graph_modes
from atoll.likelihoods import argmax
from atoll.models import graph_gp as model
from atoll.models.graph_gp import GraphLabels
from atoll.models.graph_recipe import RECIPE
from atoll.models.label_cone import label_cone

TURNING = replace(RECIPE.argmax, most_walls=0, most_walls_of_two=0)  # in place of flights


def features_of(n=40, n_classes=3, seed=0, n_modes=12):
    X = np.random.default_rng(seed).standard_normal((n, 2))
    W = self_tuning_weights(neighbour_graph(X, 6))
    return model.row_features(graph_modes(W, n_modes), n_classes, 4), W


# The sampler --------------------------------------------------------------------------------------


def turned(rng, lower, codes, f, n_classes):
    """Functions (l, F) after a turn of each class's."""
    here = model.sweep(rng, model.at_functions(lower, f[None]), lower, codes)
    return model.functions_at(here)


def flown(rng, lower, codes, f, n_classes):
    """Functions (l, F) after a flight of all of them."""
    cone = label_cone(lower, codes, n_classes)
    return cone.functions(rng, cone.move(rng, cone.differences(f.T[None])))


def geweke(n_classes, move, nugget=0.5):
    """Of a move of f at four labelled rows and the coefficients given f.

    A label is a function of f, and would never change if f kept most of itself: its part that
    belongs to a row alone, the nugget, is large here.
    """
    features, _ = features_of(n_classes=n_classes)
    v = features[[0, 7, 21, 30]]
    lower = np.linalg.cholesky(model.label_covariance(v, nugget))
    F = 1 if n_classes == 2 else n_classes

    def prior(rng):
        return rng.standard_normal((v.shape[1], F))

    def data(rng, a):
        f = v @ a + np.sqrt(nugget) * rng.standard_normal((len(v), F))
        return f, argmax.classes_of(f)

    def sweep(rng, a, data):
        f, codes = data
        moved = move(rng, lower, codes, f, n_classes)
        return model.sample_coefficients(rng, v, lower, moved, nugget)[0]

    def statistics(a, data):
        f, codes = v @ a, data[1]
        return np.concatenate(
            [f[:, 0], f[:, -1] ** 2, a[0], a[-1] ** 2, f[:, 0] * codes, f[:, -1] * (codes == 0)]
        )

    rng = np.random.default_rng(n_classes)
    return geweke_test(rng, prior, data, sweep, statistics, n_steps=15)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("move", [turned, flown])
def test_geweke_holds_for_a_move_and_coefficients(move, n_classes):
    result = geweke(n_classes, move)
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


@pytest.mark.slow
def test_geweke_catches_a_class_that_is_turned_without_its_limits(monkeypatch):
    def careless(rng, lower, here, side, limits):
        return turn_beside(rng, lower, here, side, limits - 5.0 * side)

    monkeypatch.setattr(model.cone_sampling, "turn_beside", careless)
    assert geweke(3, turned).smallest_adjusted_p_value < 1e-9


@pytest.mark.slow
def test_geweke_catches_walls_that_reflect_too_much():
    def careless(rng, lower, codes, f, n_classes):
        cone = label_cone(lower, codes, n_classes)
        cone = cone._replace(mirrors=1.5 * cone.mirrors)
        return cone.functions(rng, cone.move(rng, cone.differences(f.T[None])))

    assert geweke(3, careless).smallest_adjusted_p_value < 1e-9


@pytest.mark.parametrize("chains", [TURNING, RECIPE.argmax])
@pytest.mark.parametrize(("n_classes", "many"), [(2, 20), (3, 20), (3, 3)])
def test_class_probabilities_of_a_new_row_meet_importance_sampling(
    monkeypatch, n_classes, many, chains
):
    monkeypatch.setattr(model, "MANY_CLASSES", many)  # as many are drawn in single precision
    features, _ = features_of(n_classes=n_classes)
    labelled = np.array([0, 7, 21, 30])
    rng = np.random.default_rng(5)
    n_draws = 15_000
    a, _ = model.sample_prior(rng, features, n_classes, 200)
    given = argmax.classes_of(features[labelled] @ a)
    values, counts = np.unique(given, axis=0, return_counts=True)
    codes = values[counts.argmax()]  # labels that the prior gives often
    known = GraphLabels(features, labelled, codes, n_classes)
    recipe = replace(RECIPE, argmax=chains)
    p = model.draw(rng, known, n_draws, recipe=recipe).proba(features)
    # Draws of the prior that happen to give the labels.
    right = np.zeros(n_classes)[None].repeat(40, axis=0)
    n_kept = 0
    while n_kept < 5000:
        a, _ = model.sample_prior(rng, features, n_classes, 10_000)
        F = a.shape[2]
        f = features[labelled] @ a + np.sqrt(RECIPE.argmax.nugget) * rng.standard_normal(
            (10_000, 4, F)
        )
        kept = (argmax.classes_of(f) == codes).all(axis=1)
        labels = argmax.classes_of(features @ a[kept])
        right += np.stack([(labels == k).sum(axis=0) for k in range(n_classes)], axis=1)
        n_kept += int(kept.sum())
    exact = right / n_kept
    pooled = (n_kept * exact + n_draws * p) / (n_kept + n_draws)  # above zero if either is
    error = np.sqrt(pooled * (1 - pooled) * (1 / n_kept + 1 / n_draws)) + 1.0 / n_draws
    assert np.abs((p - exact) / error).max() < 6


def test_a_cone_s_energy_is_chi_squared_and_its_draws_give_the_labels():
    # Sweeps alone, without the exact redraw of the energy that `sample_labelled` adds.
    rng = np.random.default_rng(2)
    features, _ = features_of(60, 3, n_modes=20)
    codes = argmax.classes_of(features[:9] @ rng.standard_normal((features.shape[1], 3)))
    covariance = model.label_covariance(features[:9])
    lower = np.linalg.cholesky(covariance)
    here = model.at_functions(lower, np.repeat(model.one_hot(codes, 3)[None], 400, axis=0))
    for _ in range(200):
        here = model.sweep(rng, here, lower, codes)
    f = model.functions_at(here)
    energy = np.einsum("slf,slf->s", f, np.linalg.inv(covariance) @ f)
    np.testing.assert_allclose((here.white**2).sum(axis=(0, 2)), energy, rtol=1e-8)
    assert stats.kstest(energy, stats.chi2(27).cdf).pvalue > 1e-6
    assert (argmax.classes_of(f) == codes).all()


@pytest.mark.parametrize(("recipe", "first"), [(TURNING, 16), (RECIPE.argmax, 2)])
def test_sweeps_are_told_of_and_watching_changes_no_draw(recipe, first):
    features, _ = features_of(40, 3)
    codes = np.arange(6) % 3
    lower = np.linalg.cholesky(model.label_covariance(features[:6]))
    told = []

    def drawn(watch):
        rng = np.random.default_rng(1)
        return model.sample_labelled(rng, lower, codes, 3, 32, recipe, watch)

    f, n_sweeps, _ = drawn(lambda *numbers: told.append(numbers))
    assert [n for n, _ in told] == list(range(1, n_sweeps + 1))
    assert told[0] == (1, first)
    assert told[-1] == (n_sweeps, n_sweeps)
    np.testing.assert_array_equal(f, drawn(None)[0])


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_a_normal_beside_its_limits_has_the_moments_of_a_truncated_one(precision):
    # Limits away from zero on both sides, and one that never binds.
    rng = np.random.default_rng(3)
    lower, side = np.eye(3, dtype=precision), np.array([1.0, -1.0, 1.0], precision)
    limits = np.array([0.7, -0.4, -9.0], precision)
    start = coloured(np.eye(3), np.tile([1.0, -1.0, 0.0], (20_000, 1)))
    here = type(start)(*(part.astype(precision) for part in start))
    for _ in range(40):
        here = turn_beside(rng, lower, here, side, limits)
    assert here.z.dtype == here.white.dtype == precision
    z = here.z
    assert (side * (z - limits) > 0).all()
    for i, (low, high) in enumerate([(0.7, np.inf), (-np.inf, -0.4), (-9.0, np.inf)]):
        exact = stats.truncnorm(low, high)
        assert abs(z[:, i].mean() - exact.mean()) < 6 * exact.std() / np.sqrt(len(z))
        assert stats.kstest(z[:, i], exact.cdf).pvalue > 1e-6


def test_the_prior_gives_every_class_the_same_chance():
    features, _ = features_of(n_classes=3)
    _, labels = model.sample_prior(np.random.default_rng(0), features, 3, 4000)
    shares = np.stack([(labels == k).mean(axis=0) for k in range(3)])
    assert np.abs(shares - 1 / 3).max() < 6 * np.sqrt(2 / 9 / 4000)


# Weights of labellings ----------------------------------------------------------------------------


def test_a_labelling_weighs_its_shares_and_its_cut():
    # Two pairs of rows; the draws put the middle edge's ends in one class or in two.
    W = sparse.csr_array(np.diag([2.0, 0.5, 2.0], 1) + np.diag([2.0, 0.5, 2.0], -1))
    features = np.array([[-1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    together = np.array([[1.0], [1.0]])  # classes 0, 1, 1, 1
    apart = np.array([[1.0], [-1.0]])  # classes 0, 0, 0, 1
    a = np.stack([together, apart])
    known = GraphLabels(features, np.array([0, 3]), np.array([0, 1]), 2, W)
    balance, cut = model.labelling_terms(known, W, a)
    mean_degree = 9.0 / 4.0
    np.testing.assert_allclose(balance, 3 * 2 * 0.5 * (np.log(0.25) + np.log(0.75)), rtol=1e-12)
    np.testing.assert_allclose(cut, -0.3 * 2.0 / mean_degree, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_cuts_are_counted_edge_by_edge(n_classes):
    rng = np.random.default_rng(n_classes)
    W = np.triu(rng.random((9, 9)) * (rng.random((9, 9)) < 0.4), 1)
    labels = rng.integers(0, n_classes, (5, 9))
    expected = [sum(W[i, j] for i in range(9) for j in range(9) if y[i] != y[j]) for y in labels]
    found = model.weight_of_cuts(sparse.csr_array(W + W.T), labels.T)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_row_that_stands_for_copies_counts_as_many():
    W = sparse.csr_array(np.diag([2.0, 0.5, 2.0], 1) + np.diag([2.0, 0.5, 2.0], -1))
    features = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    known = GraphLabels(
        features, np.array([0, 3]), np.array([0, 1]), 2, W, np.array([5.0, 1.0, 1.0, 1.0])
    )
    balance, _ = model.labelling_terms(known, W, np.ones((1, 1, 1)))
    assert balance[0] == pytest.approx(3 * 2 * 0.5 * (np.log(6 / 8) + np.log(2 / 8)))


def test_weights_are_flattened_until_they_are_worth_a_twentieth_of_the_draws():
    log_weights = np.random.default_rng(0).standard_normal(400) * 30
    w = model.tempered(log_weights)
    assert w.sum() == pytest.approx(1.0)
    assert 1 / np.sum(w**2) == pytest.approx(0.05 * 400, rel=1e-3)
    assert (np.argsort(w) == np.argsort(log_weights)).all()
    even = model.tempered(np.zeros(10))
    np.testing.assert_allclose(even, 0.1)


# Many labels --------------------------------------------------------------------------------------


def test_coefficients_of_many_labels_are_those_of_the_variational_posterior():
    from atoll.kernels.hyperparameters import kernel_prior
    from atoll.models import probit_gp

    rng = np.random.default_rng(0)
    features, _ = features_of(40, 3)
    codes = rng.integers(3, size=40)
    found = model.approximate(features, codes, 3)
    from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

    kernel = ConstantKernel(np.exp(4.0)) * DotProduct(0.0, "fixed")
    prior = kernel_prior(kernel, features)._replace(sd=np.array([2.0]))
    direct = probit_gp.variational(features, codes, prior, 3)
    posterior = probit_gp.approximate_posterior(direct, features, prior, probit_gp.likelihood(3))
    mean, variance = posterior.latent(features[:5])
    ours = found.latent(features[:5])
    np.testing.assert_allclose(ours[0], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours[1], variance, rtol=1e-4)


def test_two_classes_of_many_labels_are_a_probit():
    rng = np.random.default_rng(1)
    features, _ = features_of(40, 2)
    codes = (rng.random(40) < 0.5).astype(int)
    found = model.approximate(features, codes, 2)
    p = found.proba(features)
    mean, variance = found.latent(features)
    np.testing.assert_allclose(p[:, 1], ndtr(mean[:, 0] / np.sqrt(1 + variance[:, 0])), rtol=1e-9)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)


# Few labels and many ------------------------------------------------------------------------------


def test_the_share_of_the_softmax_grows_with_the_labels_and_never_jumps():
    for n_classes in (2, 3, 4, 5, 10, 30):
        n_labels = np.arange(n_classes, 20 * n_classes)
        share = np.array([RECIPE.choice.softmax_share(n, n_classes) for n in n_labels])
        assert share[0] == 0.0
        assert share[-1] == 1.0
        # The band is six tenths of at least five labels per class wide.
        assert np.all((np.diff(share) >= 0) & (np.diff(share) <= 1 / (3 * n_classes) + 1e-12))


@pytest.mark.parametrize(("likelihood", "kind"), [("argmax", "argmax"), ("softmax", "softmax")])
def test_a_likelihood_that_is_asked_for_is_used_whatever_the_labels(likelihood, kind):
    features, W = features_of(60, 2)
    for n_labels in (4, 50):
        known = GraphLabels(features, np.arange(n_labels), np.arange(n_labels) % 2, 2, W)
        found = model.infer(np.random.default_rng(0), known, 20, likelihood)
        assert found.diagnostics()["likelihood"] == kind


# Classes without a label, and labels that were chosen ---------------------------------------------


def test_one_label_of_two_classes_leaves_the_orthant_probability():
    # P(f₁ > 0 | f₀ > 0) = ½ + asin(ρ)/π.
    correlation, n_draws = 0.6, 8000
    v = np.array([[1.0, 0.0], [correlation, np.sqrt(1 - correlation**2)]])
    known = GraphLabels(v, np.array([0]), np.array([1]), 2)
    recipe = replace(RECIPE, argmax=replace(RECIPE.argmax, nugget=1e-9))
    found = model.draw(np.random.default_rng(0), known, n_draws, recipe)
    exact = 0.5 + np.arcsin(correlation) / np.pi
    p = found.proba(v)
    assert p[0, 1] > 0.999
    assert abs(p[1, 1] - exact) < 5 * np.sqrt(exact * (1 - exact) / n_draws)


def test_one_label_of_three_classes_leaves_what_the_prior_leaves():
    n_draws = 6000
    v = np.array([[1.0, 0.0], [0.8, 0.6]])
    known = GraphLabels(v, np.array([0]), np.array([2]), 3)
    recipe = replace(RECIPE, argmax=replace(RECIPE.argmax, nugget=1e-9))
    p = model.draw(np.random.default_rng(0), known, n_draws, recipe).proba(v)[1]
    _, labels = model.sample_prior(np.random.default_rng(1), v, 3, 400_000)
    exact = np.bincount(labels[labels[:, 0] == 2, 1], minlength=3) / np.sum(labels[:, 0] == 2)
    assert np.abs(p - exact).max() < 5 * np.sqrt(0.25 / n_draws) + 5 * np.sqrt(0.25 / 130_000)


def known_by(codes, random_counts=None, n_classes=2):
    rows = np.arange(len(codes))
    return GraphLabels(
        np.ones((9, 1)), rows, np.array(codes), n_classes, random_counts=random_counts
    )


def test_random_labels_of_all_classes_want_their_own_shares():
    for counts in (None, np.array([1, 3])):
        wanted = model.wanted_shares(known_by([0, 1, 1, 1], counts))
        np.testing.assert_array_equal(wanted, [0.25, 0.75])


def test_chosen_labels_want_nothing_and_random_ones_among_them_more_and_more():
    none = model.wanted_shares(known_by([0, 1, 1], np.array([0, 0])))
    np.testing.assert_array_equal(none, [0.0, 0.0])
    two = model.wanted_shares(known_by([0, 1, 1, 1], np.array([1, 1])))
    np.testing.assert_allclose(two, [0.25, 0.25])  # half of the trust
    many = model.wanted_shares(known_by([0, 1], np.array([10_000, 30_000])))
    np.testing.assert_allclose(many, [0.25, 0.75], atol=1e-3)


def test_a_class_without_a_label_is_wanted_less_and_not_never():
    wanted = model.wanted_shares(known_by([0, 0, 1, 1], n_classes=4))
    assert wanted.sum() < 1.0
    assert wanted[0] == wanted[1] > wanted[2] == wanted[3] > 0.0
    np.testing.assert_allclose(wanted, wanted[[1, 0, 3, 2]])


def test_labels_are_doubted_where_one_counts_less_than_one():
    known = GraphLabels(np.zeros((3, 1)), np.arange(2), np.array([0, 1]), 2)
    assert not known.is_doubted
    assert not known._replace(weights=np.array([1.0, 1.0])).is_doubted
    assert not known._replace(weights=np.array([2.0, 1.0])).is_doubted
    assert known._replace(weights=np.array([2.0, 0.9])).is_doubted


def test_fewer_than_two_labels_of_a_class_count_as_two():
    X = np.random.default_rng(1).standard_normal((40, 2))
    modes = graph_modes(self_tuning_weights(neighbour_graph(X, 6)), 12)
    plain = replace(RECIPE.prior, fine_labels=1000)
    features = [model.row_features(modes, 3, n, plain) for n in (1, 6, 7)]
    np.testing.assert_array_equal(features[0], features[1])
    assert not np.allclose(features[1], features[2])


def with_room_for(n_coefficients):
    return replace(RECIPE, choice=replace(RECIPE.choice, most_coefficients=n_coefficients))


def test_the_softmax_has_the_smoothest_modes_that_there_is_room_for():
    features, W = features_of()
    p = features.shape[1]
    known = GraphLabels(features, np.arange(6), np.array([0, 1, 2, 0, 1, 2]), 3, W)
    draws = [
        model.infer(np.random.default_rng(2), known, 8, "softmax", with_room_for(n)).coefficients
        for n in (3 * p, 3 * 5)
    ]
    assert (draws[0] != 0).all()
    used = np.r_[np.arange(4), p - 1]
    assert (draws[1][:, used] != 0).all()
    assert not np.delete(draws[1], used, axis=1).any()


@pytest.mark.parametrize(
    ("likelihood", "kind"), [("softmax", "NormalPosterior"), ("auto", "ConePosterior")]
)
def test_where_there_is_no_room_for_as_many_modes_as_classes_others_take_over(likelihood, kind):
    features, W = features_of()
    rows = np.arange(30)
    known = GraphLabels(features, rows, rows % 3, 3, W)
    assert RECIPE.choice.softmax_share(30, 3) > 0
    found = model.infer(np.random.default_rng(2), known, 8, likelihood, with_room_for(3 * 3))
    assert type(found).__name__ == kind
    if kind == "NormalPosterior":
        assert found.diagnostics()["n_iterations"] == len(found.log_evidences) - 1


def test_votes_of_few_draws_are_kept_for_the_fit():
    features, W = features_of()
    known = GraphLabels(features, np.arange(3), np.arange(3), 3, W)
    found = model.draw(np.random.default_rng(3), known, 8)
    np.testing.assert_array_equal(found.votes, model.winners(found.coefficients, features))
    assert model.draw(np.random.default_rng(3), known._replace(graph=None), 8).votes is None
