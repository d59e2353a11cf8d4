"""What the default's posteriors answer: joint draws, their mean, new rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.special import ndtri

from atoll.core.graphs import neighbour_graph, self_tuning_weights
from atoll.kernels.graph_spectral import graph_modes
from atoll.likelihoods import argmax
from atoll.models import graph_gp as model
from atoll.models.graph_gp import GraphLabels
from atoll.models.graph_posterior import ConePosterior, GraphPosterior, _features_by_weight
from atoll.models.graph_recipe import RECIPE
from atoll.models.label_pulls import mean_coefficients
from atoll.models.posterior import FunctionPosterior

X = np.random.default_rng(0).standard_normal((40, 2))
W = self_tuning_weights(neighbour_graph(X, 6))
MODES = graph_modes(W, 12)
KINDS = pytest.mark.parametrize("kind", ["argmax", "softmax", "pooled", "probit"])
CLASSES = pytest.mark.parametrize("n_classes", [2, 3])


def known(n_classes, graph=W):
    features = model.row_features(MODES, n_classes, 4)
    rows = np.array([0, 7, 21, 30, 33, 38])
    return GraphLabels(features, rows, np.arange(6) % n_classes, n_classes, graph)


@cache
def posterior(kind, n_classes, n_draws=40):
    """Found once; not to be changed by a test."""
    labels = known(n_classes)
    if kind == "probit":
        return model.approximate(labels.features[labels.rows], labels.codes, n_classes)
    rng = np.random.default_rng(1)
    if kind == "pooled":
        return model.draw_both(rng, labels, n_draws, 0.4)
    find = model.draw if kind == "argmax" else model.draw_softmax
    return find(rng, labels, n_draws)


@KINDS
@CLASSES
def test_the_mean_of_many_draws_is_the_prediction(kind, n_classes):
    found, features = posterior(kind, n_classes), known(n_classes).features
    draws = found.draws(features, 4000, np.random.default_rng(0))
    assert draws.shape == (4000, 40, n_classes)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, rtol=1e-12)
    apart = np.abs(draws.mean(axis=0) - found.proba(features))
    if kind == "probit":
        assert (apart < 6 * draws.std(axis=0) / np.sqrt(4000) + 1e-4).all()
    else:  # each of the 40 states (50 of a pool) serves its share of the draws, rounded
        assert apart.max() < 50 / 4000


@KINDS
@CLASSES
@pytest.mark.parametrize("n", [3, 100])
def test_equal_rows_are_equal_in_every_draw_and_a_seed_repeats_them(kind, n_classes, n):
    found, features = posterior(kind, n_classes), known(n_classes).features
    rows = np.concatenate([features, features[:5]])
    draws = found.draws(rows, n, np.random.default_rng(0))
    np.testing.assert_allclose(draws[:, :5], draws[:, -5:], rtol=0, atol=1e-12)
    again = found.draws(rows, n, np.random.default_rng(0))
    np.testing.assert_array_equal(draws, again)


@CLASSES
def test_votes_of_two_rows_agree_as_often_as_those_of_prior_draws_that_give_the_labels(n_classes):
    rng = np.random.default_rng(2)
    n_draws = 6000
    labels = known(n_classes, None)._replace(rows=np.array([0, 7, 21]))
    a, _ = model.sample_prior(rng, labels.features, n_classes, 500)
    given = argmax.classes_of(labels.features[labels.rows] @ a)
    given, counts = np.unique(given[given[:, 0] != given[:, 1]], axis=0, return_counts=True)
    labels = labels._replace(codes=given[counts.argmax()])  # of those that the prior gives often
    found = model.draw(rng, labels, n_draws)
    pairs = np.array([[1, 2], [3, 9], [4, 5], [10, 20]])
    votes = found.draws(labels.features, n_draws, rng).argmax(axis=2)
    ours = (votes[:, pairs[:, 0]] == votes[:, pairs[:, 1]]).mean(axis=0)
    agree, n_kept = np.zeros(len(pairs)), 0
    while n_kept < 3000:
        a, _ = model.sample_prior(rng, labels.features, n_classes, 5000)
        own = np.sqrt(RECIPE.argmax.nugget) * rng.standard_normal((5000, 3, a.shape[2]))
        f = labels.features[labels.rows] @ a + own
        kept = (argmax.classes_of(f) == labels.codes).all(axis=1)
        drawn = argmax.classes_of(labels.features @ a[kept])
        agree += (drawn[:, pairs[:, 0]] == drawn[:, pairs[:, 1]]).sum(axis=0)
        n_kept += int(kept.sum())
    exact = agree / n_kept
    assert np.abs((ours - exact) / np.sqrt(0.25 / n_kept + 0.25 / n_draws)).max() < 6
    # Rows that are labelled apart would agree as often by chance alone in draws row by row.
    alone = (found.proba(labels.features)[pairs] ** 2).sum(axis=2).mean(axis=1)
    assert np.abs(exact - alone).max() > 0.05


def test_a_draw_of_the_argmax_is_one_labelling_that_rules_nothing_out():
    found, features = posterior("argmax", 3), known(3).features
    draws = found.draws(features, 50, np.random.default_rng(0))
    np.testing.assert_allclose(np.unique(draws.round(12)), [1 / 3 / 41, (40 + 1 / 3) / 41])


def test_the_functions_behind_draws_of_a_probit_have_the_posterior_s_covariance():
    found, features = posterior("probit", 2), known(2).features[:6]
    n = 40_000
    p = found.draws(features, n, np.random.default_rng(0))
    f = np.where(p[..., 1] < 0.5, ndtri(p[..., 1]), -ndtri(p[..., 0]))  # p has digits near 0 alone
    covariance = features @ found.covariance @ features.T
    sd = np.sqrt(np.diagonal(covariance))
    # An entry of a correlation of n draws is off by 1/√n or less, a variance by √(2/n).
    np.testing.assert_allclose(np.cov(f.T) / np.outer(sd, sd), covariance / np.outer(sd, sd),
                               atol=6 * np.sqrt(2 / n))  # fmt: skip
    np.testing.assert_allclose(f.mean(axis=0), (features @ found.mean)[:, 0],
                               atol=6 * sd.max() / np.sqrt(n))  # fmt: skip


@CLASSES
def test_a_pool_is_both_likelihoods_on_one_scale(n_classes):
    found, features = posterior("pooled", n_classes), known(n_classes).features
    p = 0.6 * found.votes.proba(features) + 0.4 * found.soft.proba(features)
    np.testing.assert_allclose(found.proba(features), p, rtol=1e-12)
    parts = [part.latent(features) for part in (found.votes, found.soft)]
    shares = np.array([0.6, 0.4])[:, None, None]
    mean = sum(shares[i] * parts[i][0] for i in range(2))
    second = sum(shares[i] * (parts[i][1] + parts[i][0] ** 2) for i in range(2))
    np.testing.assert_allclose(found.latent(features)[0], mean, rtol=1e-10)
    np.testing.assert_allclose(found.latent(features)[1], second - mean**2, rtol=1e-8)


# New rows -----------------------------------------------------------------------------------------


def of_graph(metric, kind="argmax", n_classes=3):
    rows = X if metric == "euclidean" else np.empty((40, 0))
    features, coefficients = known(n_classes).features, posterior(kind, n_classes)
    return GraphPosterior(rows, features, np.arange(40), coefficients, metric)


NEW = np.random.default_rng(3).standard_normal((8, 2))
AS_GIVEN = {
    "euclidean": NEW,
    "precomputed": cdist(NEW, X),
    "graph": sparse.csr_array(np.exp(-cdist(NEW, X))),
}


@KINDS
@pytest.mark.parametrize("metric", AS_GIVEN)
def test_new_rows_are_answered_for_whatever_the_metric(metric, kind):
    found = of_graph(metric, kind)
    assert isinstance(found, FunctionPosterior)
    p = np.exp(found.log_proba(AS_GIVEN[metric]))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    draws = found.draws(AS_GIVEN[metric], 4000, np.random.default_rng(0))
    assert np.abs(draws.mean(axis=0) - p).max() < 0.06  # 6/√4000 at most for a probit
    mean, variance = found.latent(AS_GIVEN[metric])
    assert mean.shape == variance.shape == (8, 3)


def test_distances_say_of_new_rows_what_rows_say():
    rows, distances = of_graph("euclidean"), of_graph("precomputed")
    np.testing.assert_allclose(distances.log_proba(cdist(NEW, X)), rows.log_proba(NEW))
    np.testing.assert_allclose(*(p.draws(given, 9, np.random.default_rng(0)) for p, given in
                                 ((rows, NEW), (distances, cdist(NEW, X)))))  # fmt: skip


def test_training_rows_on_the_graph_are_themselves_and_others_follow_their_neighbours():
    found = of_graph("euclidean")
    every = np.concatenate([NEW, X])
    found = found._replace(kept=np.arange(8, 48))
    p = found.training_proba(every)
    np.testing.assert_array_equal(p[8:], found.coefficients.proba(found.features))
    np.testing.assert_allclose(p[:8], np.exp(found.log_proba(NEW)), rtol=1e-12)


@pytest.mark.parametrize("n_nearest", [1, 10])
def test_a_new_row_is_the_mean_of_so_many_rows(n_nearest):
    found = of_graph("euclidean")._replace(n_nearest=n_nearest)
    nearest = cdist(NEW, X).argmin(axis=1)
    p = np.exp(found.log_proba(NEW))
    of_nearest = found.coefficients.proba(found.features[nearest])
    assert np.allclose(p, of_nearest) == (n_nearest == 1)


# Diagnostics --------------------------------------------------------------------------------------


@KINDS
def test_every_posterior_says_how_it_was_found(kind):
    said = posterior(kind, 3).diagnostics()
    assert said["likelihood"] == kind
    assert said["inference"] == ("vb" if kind == "probit" else "mcmc")
    assert ("converged" if kind == "probit" else "mixed") in said
    assert said["verdict"].endswith(".")


def test_the_log_evidence_is_that_of_the_last_iteration():
    found = posterior("probit", 3)
    values = np.array([-9.0, -4.0, -2.0])
    assert found._replace(log_evidences=values).diagnostics()["log_evidence"] == -2.0


def test_a_pool_has_the_draws_of_both_and_the_softmax_s_scale():
    labels = known(2)
    found = posterior("pooled", 2)
    told, votes, soft = (one.diagnostics() for one in (found, found.votes, found.soft))
    assert told["n_draws"] == votes["n_draws"] + soft["n_draws"]
    # The argmax has functions of both classes of which the softmax has the difference.
    alone = model.draw(np.random.default_rng(1), labels, len(found.votes.weights))
    scale = np.exp(0.5 * float(found.soft.weights @ found.soft.log_amplitudes))
    np.testing.assert_allclose(
        found.votes.coefficients, np.sqrt(2.0) * scale * alone.coefficients, rtol=1e-9
    )


def test_a_row_that_is_joined_to_none_has_the_constant_and_the_mark():
    features = known(2).features
    found = _features_by_weight(features, sparse.csr_array(np.zeros((1, len(features)))))
    np.testing.assert_allclose(found[0], [*np.zeros(features.shape[1] - 2), 1.0, features[0, -1]])


@CLASSES
def test_the_mean_coefficients_of_a_pool_are_those_of_its_parts_by_their_shares(n_classes):
    found = posterior("pooled", n_classes)
    votes, soft = mean_coefficients(found.votes), mean_coefficients(found.soft)
    np.testing.assert_allclose(mean_coefficients(found), 0.6 * votes + 0.4 * soft, rtol=1e-12)


@pytest.mark.parametrize(("memory", "mixed"), [(0.5, True), (0.6, False), (-0.9, True)])
def test_chains_warn_only_where_they_remember_their_start(memory, mixed):
    draws = np.ones((4, 2, 3))
    found = ConePosterior(draws, np.full(4, 0.25), 512, memory).diagnostics()
    assert found["mixed"] is mixed
    assert ("may be too bold" in found["verdict"]) is not mixed
