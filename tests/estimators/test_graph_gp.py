"""GraphGPClassifier: what a user may feed it, and what it promises."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning

from atoll import AtollClassifier, GraphGPClassifier
from atoll.core.graphs import neighbour_graph, self_tuning_weights, smoothest_modes
from atoll.datasets import hide_labels
from atoll.estimators.progress import Progress
from atoll.models.average.recipe import AVERAGE_RECIPE
from atoll.models.graph_recipe import RECIPE
from walking import QUICK


def moons(n=200, per_class=3, seed=0, noise=0.1):
    X, truth = make_moons(n, noise=noise, random_state=seed)
    return X, truth, hide_labels(truth, per_class=per_class, marker=None, random_state=seed)


def test_moons_are_learned_from_three_labels_a_class():
    X, truth, y = moons()
    new, new_truth = make_moons(1000, noise=0.1, random_state=5)
    model = GraphGPClassifier(random_state=0).fit(X, y)
    assert model.diagnostics_["mixed"]
    assert model.score(new, new_truth) > 0.95
    assert np.mean(model.transduction_ == truth) > 0.95
    known = np.array([label is not None for label in y])
    np.testing.assert_array_equal(model.transduction_[known], y[known].astype(int))


def test_the_same_seed_gives_the_same_fit_and_predictions_do_not_change():
    X, _, y = moons()
    first, second = (GraphGPClassifier(random_state=3).fit(X, y) for _ in "ab")
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    np.testing.assert_array_equal(first.predict_proba(X[:9]), first.predict_proba(X)[:9])


def test_units_do_not_matter():
    X, _, y = moons()
    p, q = (
        GraphGPClassifier(random_state=0).fit(a * X + 7, y).predict_proba(a * X + 7)
        for a in (1, 2**10)
    )
    np.testing.assert_allclose(p, q, atol=1e-6)


def test_distances_and_weights_say_what_rows_say():
    X, truth, y = moons()
    new, _ = make_moons(50, noise=0.1, random_state=5)
    rows = GraphGPClassifier(random_state=0).fit(X, y)
    distances = GraphGPClassifier(metric="precomputed", random_state=0).fit(cdist(X, X), y)
    np.testing.assert_allclose(distances.predict_proba(cdist(new, X)), rows.predict_proba(new))
    W = self_tuning_weights(neighbour_graph(X, 15))
    for given_weights in (W, W.toarray()):
        graph = GraphGPClassifier(metric="graph", random_state=0).fit(given_weights, y)
        np.testing.assert_allclose(graph.label_distributions_, rows.label_distributions_)
        assert graph.score(given_weights, truth) > 0.9


def test_what_is_given_is_not_changed_and_later_changes_do_not_matter():
    X, _, y = moons(60)
    W = sparse.csr_array(np.exp(-cdist(X, X)))
    before, rows = W.toarray(), X.copy()
    GraphGPClassifier(metric="graph", random_state=0).fit(W, y)
    np.testing.assert_array_equal(W.toarray(), before)
    model = GraphGPClassifier(random_state=0).fit(rows, y)
    p = model.predict_proba(X)
    rows[:] = 0.0
    np.testing.assert_array_equal(model.predict_proba(X), p)


def test_of_a_row_joined_to_none_little_is_said():
    X, truth, _ = moons()
    y = np.full(200, None, dtype=object)
    y[np.flatnonzero(truth == 0)[:18]] = 0
    y[np.flatnonzero(truth == 1)[:2]] = 1
    W = self_tuning_weights(neighbour_graph(X, 15))
    model = GraphGPClassifier(metric="graph", random_state=0).fit(W, y)
    p = model.predict_proba(sparse.csr_array((1, 200)))
    assert 0.2 < p[0, 0] < 0.8


def test_more_rows_than_the_graph_holds_are_labelled_by_their_neighbours():
    X, truth, y = moons(3000, per_class=5)
    model = GraphGPClassifier(max_graph_rows=500, random_state=0).fit(X, y)
    assert model.n_graph_rows_ == 500
    known = np.flatnonzero([label is not None for label in y])
    assert np.isin(known, model.posterior_.kept).all()
    assert np.mean(model.transduction_ == truth) > 0.97
    assert "500 of 3,000 rows" in model.diagnostics_["verdict"]


def test_many_labels_are_given_to_a_softmax():
    X, truth, _ = moons(600, noise=0.25)
    y = hide_labels(truth, per_class=60, marker=None, random_state=0)
    model = GraphGPClassifier(random_state=0).fit(X, y)
    assert model.likelihood_ == "softmax"
    assert model.diagnostics_["mixed"]
    assert model.diagnostics_["n_draws"] == 64
    new, new_truth = make_moons(1000, noise=0.25, random_state=5)
    assert model.score(new, new_truth) > 0.9
    mean, variance = model.predict_latent(new)
    assert mean.shape == variance.shape == (1000, 1)


def test_the_likelihood_may_be_chosen_and_is_otherwise_that_of_the_number_of_labels():
    X, _, few = moons()
    _, _, many = moons(per_class=15)
    for y, automatic, other in ((few, "argmax", "softmax"), (many, "softmax", "argmax")):
        models = {
            name: GraphGPClassifier(likelihood=name, random_state=0).fit(X, y)
            for name in ("auto", automatic, other)
        }
        assert models["auto"].likelihood_ == automatic
        assert models[other].likelihood_ == other
        p = {name: model.predict_proba(X) for name, model in models.items()}
        np.testing.assert_array_equal(p["auto"], p[automatic])
        assert np.abs(p["auto"] - p[other]).max() > 0.01


def test_the_softmax_takes_over_little_by_little():
    X, truth, _ = moons(300, noise=0.3)
    shares = []
    for per_class in (8, 9, 11, 13, 14):
        y = hide_labels(truth, per_class=per_class, marker=None, random_state=0)
        model = GraphGPClassifier(random_state=0).fit(X, y)
        shares.append(model.diagnostics_.get("softmax_share"))
        expected = {8: "argmax", 14: "softmax"}.get(per_class, "pooled")
        assert model.likelihood_ == expected
        if expected == "pooled":
            assert "were averaged" in model.diagnostics_["sampling"]
            assert model.diagnostics_["n_draws"] <= 256
    np.testing.assert_allclose(shares[1:4], [1 / 6, 1 / 2, 5 / 6])


def test_a_recipe_changes_the_fit_and_the_tuned_one_is_the_default():
    X, _, y = moons()
    rough = replace(RECIPE, prior=replace(RECIPE.prior, smoothness=1.0))
    default, tuned, other = (
        GraphGPClassifier(recipe=recipe, random_state=0).fit(X, y).predict_proba(X)
        for recipe in (None, RECIPE, rough)
    )
    np.testing.assert_array_equal(default, tuned)
    assert np.abs(default - other).max() > 0.01


def test_labels_in_plenty_leave_no_doubt_where_there_is_none():
    X, truth, _ = moons(600, noise=0.05)
    y = hide_labels(truth, per_class=100, marker=None, random_state=0)
    p = GraphGPClassifier(random_state=0).fit(X, y).predict_proba(X)
    assert np.median(p.max(axis=1)) > 0.999


def test_thirty_clear_classes_with_five_labels_each_are_told_apart_for_sure():
    X, truth = make_blobs(600, 10, centers=30, cluster_std=1.5, random_state=0)
    y = hide_labels(truth, per_class=5, marker=None, random_state=0)
    p = GraphGPClassifier(random_state=0).fit(X, y).predict_proba(X)
    assert np.mean(p.argmax(axis=1) == truth) > 0.98
    assert np.median(p.max(axis=1)) > 0.8  # a probit by variational Bayes says .15


def test_a_softmax_of_more_classes_than_it_has_room_for_is_given_to_variational_bayes():
    X, truth, _ = moons(600, noise=0.25)
    y = hide_labels(truth, per_class=60, marker=None, random_state=0)
    recipe = replace(RECIPE, choice=replace(RECIPE.choice, most_coefficients=4))
    model = GraphGPClassifier(likelihood="softmax", recipe=recipe, random_state=0).fit(X, y)
    assert model.likelihood_ == "probit"
    assert model.diagnostics_["inference"] == "vb"
    new, new_truth = make_moons(1000, noise=0.25, random_state=5)
    assert model.score(new, new_truth) > 0.9
    mean, variance = model.predict_latent(new)
    assert mean.shape == variance.shape == (1000, 1)


def test_of_very_many_labels_a_part_stands_for_all():
    X, truth, _ = moons(400)
    recipe = replace(RECIPE, choice=replace(RECIPE.choice, most_labels=50))
    model = GraphGPClassifier(recipe=recipe, random_state=0).fit(X, truth.astype(object))
    assert model.score(X, truth) > 0.97
    np.testing.assert_array_equal(model.transduction_, truth)


def test_labels_that_follow_a_nine_to_one_split_are_not_pulled_to_balance():
    rng = np.random.default_rng(0)
    X, truth = make_moons(1200, noise=0.1, random_state=0)
    keep = np.concatenate([np.flatnonzero(truth == 0)[:360], np.flatnonzero(truth == 1)[:40]])
    X, truth = X[keep], truth[keep]
    y = np.full(400, None, dtype=object)
    chosen = np.concatenate([rng.choice(360, 18, replace=False), 360 + rng.choice(40, 2, False)])
    y[chosen] = truth[chosen]
    model = GraphGPClassifier(random_state=0).fit(X, y)
    assert np.mean(model.transduction_ == truth) > 0.97


def test_the_latent_functions_agree_with_the_probabilities():
    X, _, y = moons()
    model = GraphGPClassifier(random_state=0).fit(X, y)
    mean, variance = model.predict_latent(X)
    sure = np.abs(mean[:, 0]) > 3 * np.sqrt(variance[:, 0])
    np.testing.assert_array_equal(mean[sure, 0] > 0, model.predict_proba(X)[sure, 1] > 0.5)
    assert (variance >= 0).all()


@pytest.mark.parametrize(
    ("settings_", "X", "message"),
    [
        ({"metric": "manhattan"}, np.eye(4), "metric must be .* got 'manhattan'"),
        ({"likelihood": "probit"}, np.eye(4), 'likelihood must be "auto", "argmax" or "softmax"'),
        ({"recipe": {}}, np.eye(4), "recipe must be .* or a Recipe, got {}"),
        ({"n_neighbors": 0}, np.eye(4), "n_neighbors must be a whole number, at least 1, got 0"),
        ({"n_draws": 2.5}, np.eye(4), r"n_draws must be a whole number, at least 20, got 2\.5"),
        ({"max_graph_rows": 3}, np.eye(4), "max_graph_rows must be .* at least 100, got 3"),
        ({"metric": "precomputed"}, np.ones((4, 3)), "give a square matrix"),
        ({"metric": "precomputed"}, -np.ones((4, 4)), "negative distances"),
        ({"metric": "graph"}, np.triu(np.ones((4, 4))), "not symmetric"),
        ({"metric": "graph"}, sparse.csr_array(-np.eye(4)), "negative weights"),
    ],
)
def test_bad_input_is_refused_by_name(settings_, X, message):
    with pytest.raises(ValueError, match=message):
        GraphGPClassifier(**settings_).fit(X, ["a", "b", None, None])


def test_new_weights_of_another_width_are_refused():
    W = sparse.csr_array(np.ones((4, 4)))
    model = GraphGPClassifier(metric="graph", random_state=0).fit(W, ["a", "b", None, None])
    with pytest.raises(ValueError, match="3 columns and the fit had 4 rows"):
        model.predict(sparse.csr_array(np.ones((2, 3))))


def test_labels_that_contradict_each_other_are_said_to_be_slow_where_classes_take_turns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    recipe = replace(RECIPE, argmax=replace(RECIPE.argmax, most_walls=0, most_sweeps=32))
    model = GraphGPClassifier(likelihood="argmax", recipe=recipe, random_state=0)
    with pytest.warns(ConvergenceWarning) as said:
        model.fit(X, rng.integers(5, size=60).astype(str))
    assert any("contradict their neighbours" in str(one.message) for one in said)


def test_chains_of_a_softmax_that_have_not_mixed_are_said_to():
    X, truth, _ = moons(100)
    recipe = replace(RECIPE, softmax=replace(RECIPE.softmax, memory_limit=-1.0, most_steps=20))
    model = GraphGPClassifier(recipe=recipe, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Sampling had not settled after 40 steps"):
        model.fit(X, truth.astype(object))


@pytest.mark.parametrize("kind", [AtollClassifier, GraphGPClassifier])
def test_the_warning_says_what_went_wrong_and_leaves_the_rest_to_the_verdict(kind):
    X, _, y = moons(100)
    limits = {"memory_limit": -1.0}
    recipe = replace(
        RECIPE,
        argmax=replace(RECIPE.argmax, most_sweeps=8, **limits),
        softmax=replace(RECIPE.softmax, most_steps=20, **limits),
    )
    recipe = replace(AVERAGE_RECIPE, graph=recipe) if kind is AtollClassifier else recipe
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = kind(recipe=recipe, random_state=0).fit(X, y)
    assert "Shares of the classes" in model.diagnostics_["verdict"]
    (found,) = [str(w.message) for w in said if "had not settled" in str(w.message)]
    assert found.startswith(f"{kind.__name__}: Sampling had not settled after")
    assert "Shares" not in found
    assert "The graph has" not in found


def test_progress_is_said_on_standard_error(at_a_terminal):
    X, _, y = moons(60)
    GraphGPClassifier(random_state=0, verbose=True).fit(X, y)
    assert "graph of 60 rows" in at_a_terminal.readouterr().err


@pytest.mark.parametrize("model", [AtollClassifier, GraphGPClassifier])
def test_progress_over_rows_beyond_the_graph_is_shown(model, at_a_terminal):
    X, _, y = moons(120)
    small = {"max_graph_rows": 100, "n_draws": 20, "random_state": 0}
    model(verbose=True, **small).fit(X, y)
    assert re.search(r"all rows: .* 0/20 ", at_a_terminal.readouterr().err)
    model(**small).fit(X, y)
    assert at_a_terminal.readouterr().err == ""


# Modes of large graphs ----------------------------------------------------------------------------


@pytest.mark.parametrize(("parts", "alone"), [(1, 0), (3, 0), (3, 2), (30, 0), (30, 1)])
def test_modes_by_iteration_are_those_of_lapack(monkeypatch, parts, alone):
    from atoll.core import graphs

    rng = np.random.default_rng(parts)
    X = rng.standard_normal((700, 2)) + 50 * rng.integers(parts, size=700)[:, None]
    W = self_tuning_weights(neighbour_graph(X, 12))
    W = sparse.csr_array(sparse.block_diag([W, sparse.csr_array((alone, alone))]))
    monkeypatch.setattr(graphs, "_DENSE_VERTICES", 1000)
    exact = smoothest_modes(W, 20 + parts)
    monkeypatch.setattr(graphs, "_DENSE_VERTICES", 100)
    found = smoothest_modes(W, 20 + parts)
    np.testing.assert_allclose(found.values, exact.values, atol=1e-9)
    # Vectors of equal values may be turned: compare what they span, up to a clear gap.
    gap = int(np.argmax(np.diff(exact.values[5:]))) + 6
    apart = exact.vectors[:, :gap] @ exact.vectors[:, :gap].T
    apart -= found.vectors[:, :gap] @ found.vectors[:, :gap].T
    assert np.abs(apart).max() < 1e-4
    d = np.asarray(W.sum(axis=1)).ravel()
    assert np.abs(np.sqrt(d) @ found.vectors).max() < 1e-6 * np.sqrt(d.sum())


def test_parts_beyond_the_number_of_modes_are_told_apart():
    W = sparse.csr_array(sparse.block_diag([np.ones((10, 10)) - np.eye(10)] * 60))
    modes = smoothest_modes(W, 40)
    np.testing.assert_allclose(modes.values, 0.0, atol=1e-12)
    np.testing.assert_allclose(modes.vectors.T @ modes.vectors, np.eye(40), atol=1e-12)
    of_parts = modes.vectors[::10] / np.linalg.norm(modes.vectors[::10], axis=1, keepdims=True)
    assert np.abs(of_parts @ of_parts.T - np.eye(60)).max() < 0.8


# Hostile problems ---------------------------------------------------------------------------------


@st.composite
def problems(draw):
    """Rows of every kind: copies, lone points, constant and huge columns, few rows or many."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(3, 40))
    d = draw(st.sampled_from([1, 2, 3, 30, 10_000]))
    kind = draw(st.sampled_from(["normal", "equal", "copies", "lone", "line", "huge", "integers"]))
    X = rng.standard_normal((n, d))
    if kind == "equal":
        X[:] = X[0]
    elif kind == "copies":
        X = X[rng.integers(max(1, n // 4), size=n)]
    elif kind == "lone":
        X[rng.integers(n)] += 1e6
        X[rng.integers(n)] -= 1e6
    elif kind == "line":
        X[:, 1:] = 0.0
    elif kind == "huge":
        X *= 10.0 ** rng.integers(-130, 130)
    elif kind == "integers":
        X = rng.integers(3, size=(n, d)).astype(float)
    K = draw(st.integers(2, min(n, 5)))
    y = np.full(n, None, dtype=object)
    chosen = rng.permutation(n)[: draw(st.integers(K, n))]
    y[chosen] = [f"class {k}" for k in rng.integers(K, size=len(chosen))]
    y[chosen[:K]] = [f"class {k}" for k in range(K)]
    return X, y, draw(st.integers(1, 25))


def check_hostile(problem, recipe=None):
    X, y, n_neighbors = problem
    model = GraphGPClassifier(n_neighbors=n_neighbors, n_draws=20, random_state=0, recipe=recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "GraphGPClassifier: no column of X varies")
        model.fit(X, y)
    new = np.concatenate([X, X[:2] * 1.5, X.mean(axis=0, keepdims=True)])
    for p in (model.label_distributions_, model.predict_proba(new)):
        assert np.isfinite(p).all()
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(problems())
def test_probabilities_are_probabilities_whatever_the_rows(problem):
    check_hostile(problem, recipe=QUICK)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None, database=None)
@given(problems())
def test_probabilities_are_probabilities_in_ten_thousand_hostile_problems(problem):
    check_hostile(problem)


@pytest.mark.parametrize("kind", [AtollClassifier, GraphGPClassifier])
def test_the_draws_of_a_fit_are_counted_on_a_bar_that_leaves_nothing(kind, monkeypatch):
    told, reach = [], Progress.reach

    def seen(bar, n, total):
        reach(bar, n, total)
        told.append((bar.bar.n, bar.bar.total, bar.bar.leave))

    monkeypatch.setattr(Progress, "reach", seen)
    X, truth = make_moons(80, noise=0.1, random_state=0)
    y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    model = kind(n_draws=20, random_state=0, verbose=True).fit(X, y)
    n_sweeps = model.diagnostics_["n_sweeps"]
    assert told[0] == (1, 2, False)
    assert told[-1] == (n_sweeps, n_sweeps, False)


def test_a_bar_begins_anew_where_other_steps_follow():
    with Progress(True, "draws", "steps", began=0.0) as bar:
        bar.reach(30, 32)
        bar.reach(1, None)
        assert (bar.bar.n, bar.bar.total) == (1, None)


# How far the graph is believed --------------------------------------------------------------------


def unrelated(seed, per_class=8, n_classes=3):
    """Rows of noise, classes that have nothing to do with them, and labels of a part."""
    rng = np.random.default_rng(seed)
    X, truth = rng.standard_normal((180, 4)), rng.permutation(np.arange(180) % n_classes)
    return X, truth, hide_labels(truth, per_class=per_class, random_state=seed)


def log_loss(p, truth):
    return float(-np.log(np.maximum(p[np.arange(len(truth)), truth], 1e-6)).mean())


@pytest.mark.parametrize("seed", range(4))
def test_labels_that_do_not_follow_the_graph_are_said_not_to_and_hardly_believed(seed):
    X, truth, y = unrelated(seed)
    model = GraphGPClassifier(random_state=0)
    with pytest.warns(ConvergenceWarning) as said:
        model.fit(X, y)
    assert any("the graph had" in str(one.message) for one in said)
    assert model.diagnostics_["held_out"]["belief"] < 0.4
    assert model.diagnostics_["trust"] != "yes"
    hidden = y < 0
    assert log_loss(model.predict_proba(X[hidden]), truth[hidden]) < np.log(3) + 0.25
    assert log_loss(model.label_distributions_[hidden], truth[hidden]) < np.log(3) + 0.25


@pytest.mark.parametrize("per_class", [2, 4, 8])
def test_the_graph_is_believed_in_full_where_labels_follow_it(per_class):
    X, _, y = moons(per_class=per_class, noise=0.05)
    model = GraphGPClassifier(random_state=0).fit(X, y)
    assert model.diagnostics_["held_out"]["belief"] == 1.0
    assert "its word counts in full" in model.diagnostics_["verdict"]
    posterior = model.posterior_
    without = posterior._replace(doubt=0.0)
    np.testing.assert_array_equal(posterior.proba(X), without.proba(X))


def test_labels_that_were_picked_or_are_the_only_ones_of_their_class_do_not_tell():
    X, _, y = moons(per_class=1)
    model = GraphGPClassifier(random_state=0).fit(X, y)
    assert "held_out" not in model.diagnostics_
    X, _, y = moons(per_class=4)
    model = GraphGPClassifier(labels_chosen=True, random_state=0).fit(X, y)
    assert "held_out" not in model.diagnostics_
    assert np.all(model.posterior_.doubt == 0.0)


def test_labels_of_groups_are_not_left_out_one_by_one():
    X, _, y = unrelated(0)
    known = np.flatnonzero(y >= 0)
    groups = np.full(len(X), None)
    groups[known] = np.arange(len(known))
    others = np.flatnonzero(y < 0)[: len(known)]
    groups[others] = np.arange(len(known))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GraphGPClassifier(random_state=0).fit(X, y, groups=groups)
    assert model.diagnostics_["held_out"]["n_labels"] == len(known)
    assert model.diagnostics_["held_out"]["belief"] < 0.4


def test_draws_have_the_doubt_and_known_shares_are_kept():
    X, _, y = unrelated(1, n_classes=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GraphGPClassifier(random_state=0, class_prior=[0.3, 0.7]).fit(X, y)
    assert np.sum(model.posterior_.doubt) > 0.3
    np.testing.assert_allclose(model.label_distributions_.mean(axis=0), [0.3, 0.7], atol=1e-6)
    p, draws = model.predict_proba(X), model.sample_proba(X, 2000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=0), p, atol=0.06)
    assert draws.min() > 0.0
