"""Starts of the Dirichlet process mixture, what is reported, and its weights and draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, kstest, t

from atoll.core.labels import parse_labels
from atoll.core.passes import rows_in_memory
from atoll.models import dp_mixture
from atoll.models.dp_mixture import (
    Mixture,
    climb,
    default_prior,
    fit_density,
    posterior,
    start_state,
)
from atoll.models.gaussian_components import NormalPrior, add_moments, family

FAMILIES = ["full", "diagonal", "tied", "factor"]


def mixture(d, C, K, covariance="full", inference="map", *, prior=None, gamma=1.0):
    prior = default_prior(d) if prior is None else prior
    return Mixture(C, K, covariance, min(2, d), prior, 2.0, np.full(C, gamma), inference)


def test_a_start_gives_components_the_rows_of_their_own_class():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], 20)
    X = 20.0 * (2 * codes[:, None] - 1) + rng.normal(size=(40, 2))
    for covariance in FAMILIES:
        state = start_state(mixture(2, 2, 4, covariance), X, codes, rng, 0)
        below, above = state.components.means.reshape(2, 4, 2)
        assert below.max() < -5.0
        assert above.min() > 5.0


def test_later_starts_cut_each_class_into_half_as_many_cells(monkeypatch):
    cut = []

    def one_cell(X, n_cells, rng):
        cut.append(n_cells)
        return np.zeros(len(X), dtype=np.intp)

    monkeypatch.setattr(dp_mixture.starts, "_cells", one_cell)
    X, rng = np.arange(6.0)[:, None], np.random.default_rng(0)
    for number in range(10):
        start_state(mixture(1, 1, 8), X, np.zeros(6, dtype=int), rng, number)
    assert cut == [8, 8, 4, 4, 2, 2, 1, 1, 1, 1]


def test_a_class_without_a_label_is_seeded_even_where_all_rows_are_equal():
    rng = np.random.default_rng(1)
    codes = np.array([0, -1, -1, -1, -1])
    classes = dp_mixture.starts._assign_classes(np.zeros((5, 2)), codes, 2, rng)
    assert classes[0] == 0
    assert set(classes) <= {0, 1}
    for n in (2, 3):
        codes = np.array([0] + [-1] * (n - 1))
        classes = dp_mixture.starts._assign_classes(np.zeros((n, 1)), codes, 2, rng)
        assert classes[0] == 0


def test_factors_start_along_directions_that_differ():
    rng = np.random.default_rng(2)
    for d in (3, 4, 7):
        kind = family("factor", 2)
        X = rng.normal(size=(30, d))
        features = np.empty((kind.n_features(d), 30))
        rows = np.ascontiguousarray(X.T)
        kind.write_features(rows, features)
        moments = kind.empty_moments(1, d)
        add_moments(moments, rows, features, np.ones((1, 30)), np.empty((1, 0, 30)))
        found = kind.maximise(moments, default_prior(d))
        (W,) = found.loadings / np.sqrt(found.spread)[:, :, None]
        np.testing.assert_allclose(W.T @ W, 0.09 * d / 2 * np.eye(2), atol=1e-9)


def test_the_divergence_of_class_weights_is_that_of_dirichlets():
    rng = np.random.default_rng(3)
    X, codes = rng.normal(size=(9, 1)), np.array([0, 1, 0, -1, -1, 1, 0, -1, -1])
    model = mixture(1, 2, 2, "full", "vb", gamma=1.7)
    state = start_state(model, X, codes, rng, 0)
    q, p = beta(4.3, 2.1), beta(1.7, 1.7)
    exact = quad(lambda w: q.pdf(w) * (q.logpdf(w) - p.logpdf(w)), 0.0, 1.0)[0]
    at_prior = state._replace(class_counts=np.array([1.7, 1.7]))
    away = state._replace(class_counts=np.array([4.3, 2.1]))
    divergence = dp_mixture.model.divergence
    assert divergence(model, away) - divergence(model, at_prior) == pytest.approx(exact, rel=1e-6)


def test_deviations_of_weights_are_those_of_beta_sticks():
    model = mixture(1, 2, 2, "diagonal", "vb")
    rng = np.random.default_rng(4)
    X, codes = rng.normal(size=(12, 1)), rng.integers(2, size=12)
    state = start_state(model, X, codes, rng, 0)
    sticks = np.array([[[2.5, 1.0], [0.7, 1.0]], [[1.5, 1.0], [4.0, 1.0]]])
    state = state._replace(class_counts=np.array([3.0, 1.2]), sticks=sticks)
    found = posterior(model, state, np.zeros(1), np.ones(1)).weight_deviations()
    np.testing.assert_allclose(found[0], beta(3.0, 1.2).std())
    exact = [beta(2.5, 1.5).std(), beta(0.7, 4.0).std()]
    np.testing.assert_allclose(found[1], np.repeat(exact, 2).reshape(2, 2))


def test_a_column_without_spread_keeps_its_unit():
    X = np.column_stack([np.random.default_rng(5).normal(3.0, 4.0, 40), np.full(40, 2.0)])
    found = fit_density(X, n_components=2, random_state=0).mixture
    np.testing.assert_allclose(found.scale, [X[:, 0].std(), 1.0])
    np.testing.assert_allclose(found.shift, X.mean(axis=0))


def test_iterations_are_told_as_they_are_counted_and_none_is_lost(monkeypatch):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(40, 2)) + [[0.0, 0.0], [4.0, 0.0]] * 20
    labels = parse_labels(["a", "b", "a", "b"] + [None] * 36)
    kept = []
    chosen = dp_mixture.starts._chosen_start

    def keep(*arguments):
        kept.append(chosen(*arguments))
        return kept[-1]

    monkeypatch.setattr(dp_mixture.starts, "_chosen_start", keep)
    told = []
    rows = rows_in_memory(X, labels, 0, lambda n_classes: (99,) * (n_classes + 1))
    found = dp_mixture.starts.fit_mixture(
        mixture(2, 2, 3), rows, np.zeros(2), np.ones(2), rng, dp_mixture.Search(2, 30, 1e-6),
        lambda number, value: told.append((number, value)),
    )  # fmt: skip
    before = kept[0].objectives[:-1]
    np.testing.assert_array_equal(found.objectives[: len(before)], before)
    after = found.objectives[len(before) :]
    assert told == list(enumerate(after))[-len(told) :]
    assert len(told) >= len(after) - 1


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_draws_of_few_rows_have_long_tails(covariance):
    rng = np.random.default_rng(7)
    prior = NormalPrior(np.zeros(1), 0.5, 2.0, np.eye(1))
    model = mixture(1, 1, 1, covariance, "vb", prior=prior)
    X = np.array([[-0.5], [0.8]])
    state = climb(model, X, np.full(2, -1), rng, 0, max_iter=20, tol=1e-9).state
    fitted = posterior(model, state, np.zeros(1), np.ones(1))
    rows, _ = fitted.sample(rng, 3000)
    assert fitted.degrees[0] < 8
    centre, unit = fitted.means[0, 0], np.sqrt(fitted.covariances()[0, 0, 0, 0])
    assert kstest(rows[:, 0], t(fitted.degrees[0], centre, unit).cdf).pvalue > 1e-6
    grid = np.linspace(-6.0, 6.0, 7)
    np.testing.assert_allclose(
        fitted.log_density(grid[:, None]), t(fitted.degrees[0], centre, unit).logpdf(grid)
    )
