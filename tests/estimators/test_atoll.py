"""The default classifier: what it finds to hold, and what it says of it."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_blobs

from atoll import AtollClassifier, GraphGPClassifier, load_model, save_model
from atoll.core.graphs import neighbour_graph
from atoll.datasets import hide_labels, make_crescents
from atoll.estimators.explanation import WORDS, Assumption, Explanation, call_columns
from atoll.estimators.graph_rows import with_fewer_neighbours
from atoll.models.average import pooling
from atoll.models.average.label_doubts import LabelRecord, doubts
from atoll.models.average.label_regression import RegressionHead
from atoll.models.average.recipe import AVERAGE_RECIPE, Rising, column_of

NEVER = Rising(0.0, 0.0, 1.0)
PROPAGATED = replace(
    AVERAGE_RECIPE,
    regression=replace(AVERAGE_RECIPE.regression, of_two=NEVER, of_more=NEVER),
)
"""Propagation alone, whose weights are those of Bayes' rule or stacked."""


def fitted(X, y, seed=0, **parameters):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = AtollClassifier(random_state=seed, unlabelled=-1, **parameters).fit(X, y)
    return model, " ".join(str(w.message) for w in caught)


def crescents(seed=0, per_class=4, n=160):
    X, truth = make_crescents(n_samples=n, random_state=seed)
    return X, hide_labels(truth, per_class=per_class, random_state=seed), truth


def noise(seed, n=120, d=5, n_labels=24):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    partial = np.where(np.arange(n) < n_labels, y, -1)
    return rng.standard_normal((n, d)), partial, y


def log_loss(p, y):
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def test_crescents_follow_their_graph():
    X, y, truth = crescents()
    model, said = fitted(X, y)
    assert model.score(X, truth) > 0.95
    assert model.weights_["clusters"] > 0.8
    assert "near rows" in str(model.explain())
    assert not said


def threshold(seed=0, n=240, d=12, n_labels=16):
    """Rows of noise whose classes follow a threshold of column 5, and labels drawn at random."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = (X[:, 5] > 0.3).astype(int)
    return X, np.where(np.arange(n) < n_labels, truth, -1), truth


@pytest.mark.parametrize("seed", range(3))
def test_a_threshold_of_one_column_is_found_among_noise(seed):
    X, y, truth = threshold(seed)
    model, said = fitted(X, y)
    assert model.weights_["column 5"] > 0.5
    assert model.explain().headline().startswith('The labels follow "column 5 alone"')
    assert not said
    hidden = y < 0
    without, _ = fitted(X, y, recipe=replace(AVERAGE_RECIPE, lone_columns=0))
    known, before = (log_loss(m.predict_proba(X[hidden]), truth[hidden]) for m in (model, without))
    assert known < 0.7 * before


def test_a_column_alone_is_called_by_its_name_where_columns_have_names():
    pd = pytest.importorskip("pandas")
    X, y, _ = threshold()
    frame = pd.DataFrame(X, columns=[f"gauge {chr(65 + j)}" for j in range(X.shape[1])])
    model, _ = fitted(frame, y)
    assert '"gauge F alone"' in str(model.explain())
    assert "column 5" not in str(model.explain())
    assert '"gauge F alone"' in model.diagnostics_["verdict"]
    assert "column 5" in model.weights_


def test_a_model_is_told_the_names_of_its_columns_after_the_fit():
    X, y, _ = threshold()
    model, _ = fitted(X, y)
    assert '"column 5 alone"' in model.diagnostics_["verdict"]
    call_columns(model, [f"gauge {chr(65 + j)}" for j in range(X.shape[1])])
    for said in (model.diagnostics_["verdict"], str(model.explain())):
        assert '"gauge F alone"' in said
        assert "column 5" not in said


@pytest.mark.parametrize("n_labels", [16, 32])
def test_labels_that_one_of_many_columns_tells_by_chance_follow_nothing(n_labels):
    told = []
    for seed in range(5):
        X, y, _ = noise(seed, n=150, d=100, n_labels=n_labels)
        model, said = fitted(X, y)
        told.append("follow no assumption" in said and model.explanation_.follows_nothing)
    assert sum(told) >= 4


def test_a_column_counts_against_chance_as_one_picked_out_of_all():
    assumptions = (Assumption("column 3", 0.6, 6.0), Assumption("line", 0.1, 1.5))
    few, many = (Explanation(assumptions, 30, n_columns=n) for n in (1, 100))
    assert few.log_odds_of_any == 6.0
    assert many.log_odds_of_any == 1.5  # exp(6) / 100 is not as much
    assert not few.tells_little
    assert many.tells_little


def test_a_column_alone_is_kept_in_a_file(tmp_path):
    X, y, _ = threshold()
    model, _ = fitted(X, y)
    save_model(model, tmp_path / "model.atoll")
    loaded = load_model(tmp_path / "model.atoll")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert str(loaded.explain()) == str(model.explain())


def test_columns_in_another_order_give_the_same_probabilities():
    X, y, _ = threshold()
    order = np.random.default_rng(0).permutation(X.shape[1])
    model, _ = fitted(X, y)
    other, _ = fitted(X[:, order], y)
    place = int(np.flatnonzero(order == 5)[0])
    assert other.weights_[f"column {place}"] == pytest.approx(model.weights_["column 5"], abs=0.01)
    np.testing.assert_allclose(other.predict_proba(X[:, order]), model.predict_proba(X), atol=0.02)


def test_a_line_is_found_where_classes_follow_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 10))
    truth = (X[:, 0] + X[:, 1] > 0).astype(int)
    y = np.where(np.arange(300) < 80, truth, -1)
    model, _ = fitted(X, y)
    assert model.score(X, truth) > 0.8
    assert max(model.weights_, key=model.weights_.get) == "line"
    found = fitted(X, y, recipe=PROPAGATED)[0].weights_
    assert found["line"] + found["whitened"] + found["smooth"] > 0.8


def test_where_rows_tell_nothing_it_says_so_and_stays_near_the_shares():
    excess, named = [], []
    for seed in range(8):
        X, y, truth = noise(seed)
        model, said = fitted(X, y, seed)
        shares = np.bincount(y[y >= 0], minlength=2) + 0.5
        p = np.tile(shares / shares.sum(), (len(X), 1))
        hidden = y < 0
        excess.append(
            log_loss(model.predict_proba(X[hidden]), truth[hidden])
            - log_loss(p[hidden], truth[hidden])
        )
        named.append("follow no assumption" in said)
    error = np.std(excess) / np.sqrt(len(excess))
    assert np.mean(excess) < 0.03 + 3 * error
    assert np.mean(named) > 0.6


def clear_clusters_beside_the_point(seed, n=120):
    """Two clusters far apart, and classes that follow the other columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    X[:, 0] = 4.0 * rng.integers(0, 2, n)
    truth = (X[:, 1:].sum(axis=1) > 0).astype(int)
    return X, hide_labels(truth, per_class=3, random_state=seed), truth


def test_clear_clusters_are_believed_only_if_another_assumption_sees_them():
    losses, weights = {"average": [], "graph": []}, []
    for seed in range(10):
        X, y, truth = clear_clusters_beside_the_point(seed)
        model, _ = fitted(X, y, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = GraphGPClassifier(random_state=seed, unlabelled=-1).fit(X, y)
        believed = graph.posterior_._replace(doubt=0.0)  # whatever labels say of the graph
        for name, one in {"average": model.posterior_, "graph": believed}.items():
            losses[name].append(log_loss(one.proba(X[y < 0]), truth[y < 0]))
        weights.append(model.weights_["clusters"])
    assert np.mean(losses["average"]) < min(0.8, np.mean(losses["graph"]) - 0.1)
    assert np.median(weights) < 0.3


def test_clarity_and_agreement_are_told():
    X, y, _ = crescents(per_class=2)
    model, _ = fitted(X, y)
    assert model.diagnostics_["clarity"] > 5.0
    assert model.diagnostics_["agreement"] > 0.5
    told = str(model.explain()).splitlines()[-1]
    assert "clusters of near rows are clear" in told.lower()
    X, y, _ = noise(0)
    told = str(fitted(X, y)[0].explain()).splitlines()[-1].lower()
    assert "clusters of near rows are not clear" in told


def test_the_verdict_says_how_far_probabilities_are_drawn_to_the_shares():
    X, y, _ = noise(0)
    model, _ = fitted(X, y)
    share = f"drawn {model.weights_['nothing']:.0%} of the way to the labels' shares"
    assert share in model.diagnostics_["verdict"]
    model, _ = fitted(*crescents()[:2])
    assert "shares by" not in model.diagnostics_["verdict"]


def test_evidence_alone_is_that_by_which_bayes_rule_weighs_in_a_fit():
    X, y, _ = crescents(per_class=2)  # with so few labels weights are by Bayes' rule alone
    alone = AtollClassifier(random_state=3)
    by_bayes = -np.log(AtollClassifier(random_state=3).fit(X, y).weights_["nothing"])
    assert alone._log_evidence(X, y) == pytest.approx(by_bayes, rel=1e-9)
    assert not hasattr(alone, "posterior_")


def test_evidence_alone_grows_with_the_labels_whatever_their_weights():
    X, _, truth = crescents()
    found = [
        AtollClassifier(random_state=3)._log_evidence(
            X, hide_labels(truth, per_class=n, random_state=0)
        )
        for n in (4, 8, 20)
    ]
    assert found[0] + 3.0 < found[1]
    assert found[1] + 6.0 < found[2]  # shares alone lose more with every label


def test_weights_sum_to_one_and_have_words():
    model, _ = fitted(*crescents()[:2])
    assert sum(model.weights_.values()) == pytest.approx(1.0)
    assert {name for name in model.weights_ if column_of(name) is None} <= set(WORDS)


def test_columns_of_unlike_scales_are_standardised_unless_told_otherwise():
    X, truth = load_wine(return_X_y=True)
    y = hide_labels(truth, per_class=4, random_state=0)
    model, said = fitted(X, y)
    assert model.scaled_
    assert not said
    raw, warned = fitted(X, y, scale=False)
    assert not raw.scaled_
    assert "unlike scales" in warned
    assert log_loss(model.predict_proba(X), truth) < log_loss(raw.predict_proba(X), truth)


@pytest.mark.parametrize("units", [[1.0, 1000.0], [0.001, 1.0], [1.0, 1.0, 0.01]])
def test_a_single_column_in_another_unit_is_seen_among_few(units):
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2
    X = rng.standard_normal((60, len(units))) + 4.0 * truth[:, None]
    y = np.where(np.arange(60) < 8, truth, -1)
    assert fitted(X * units, y, n_draws=20)[0].scaled_
    assert not fitted(X, y, n_draws=20)[0].scaled_


def test_columns_of_one_unit_stay_as_they_are():
    X, truth = load_iris(return_X_y=True)
    model, said = fitted(X, hide_labels(truth, per_class=4, random_state=0))
    assert not model.scaled_
    assert not said


def test_scaling_by_hand_changes_nothing():
    X, truth = load_wine(return_X_y=True)
    y = hide_labels(truth, per_class=4, random_state=0)
    by_hand = (X - X.mean(axis=0)) / X.std(axis=0)
    here, there = fitted(X, y)[0], fitted(by_hand, y)[0]
    np.testing.assert_allclose(here.predict_proba(X), there.predict_proba(by_hand), atol=1e-6)


def test_copies_are_merged_counted_and_named():
    rng = np.random.default_rng(0)
    X = (rng.random((600, 5)) < 0.5).astype(float)
    truth = (X.sum(axis=1) > 2.5).astype(int)
    y = np.where(np.arange(600) < 60, truth, -1)
    model, said = fitted(X, y)
    assert model.n_graph_rows_ == 32
    assert "copies" in said
    verdict = model.diagnostics_["verdict"]
    assert verdict.endswith("The graph has 32 of 600 rows (copies of a row count as one).")
    assert model.score(X, truth) > 0.9


def test_copies_with_different_labels_are_noise():
    rng = np.random.default_rng(1)
    X = np.repeat(rng.standard_normal((20, 2)), 10, axis=0)
    truth = (X[:, 0] > 0).astype(int)
    y = np.where(rng.random(200) < 0.3, np.where(rng.random(200) < 0.2, 1 - truth, truth), -1)
    model, _ = fitted(X, y)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert p.max() < 0.999
    assert np.mean(model.predict(X) == truth) > 0.8


@pytest.mark.parametrize(
    ("metric", "alike"), [("auto", "are the same"), ("cosine", "have the direction")]
)
def test_labels_that_contradict_one_another_are_counted_in_the_verdict(metric, alike):
    X, y, _ = crescents(per_class=6)
    first, second = np.flatnonzero(y == 0)[:2], np.flatnonzero(y == 1)[:1]
    copies = X[[first[0], first[0], first[1], second[0]]]
    given = np.array([1, 0, 0, 1])  # the first row has 0, 1 and 0; two others are confirmed
    plain, _ = fitted(X, y, metric=metric)
    assert "with another label" not in plain.diagnostics_["verdict"]
    model, _ = fitted(np.concatenate([X, copies]), np.concatenate([y, given]), metric=metric)
    verdict = model.diagnostics_["verdict"]
    assert f"Beware: 3 labelled rows {alike}" in verdict
    assert "one with another label" in verdict
    assert "look again at these labels, which suspect_labels() lists" in verdict
    assert model.diagnostics_["trust"] == "with care"
    before, after = (m.predict_proba(X[first[:1]])[0, 1] for m in (plain, model))
    assert before < after < 0.5  # one label of three


def test_pieces_without_a_label_are_named():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.3, (60, 2)) for c in (0.0, 10.0, 20.0)])
    y = np.full(180, -1)
    y[:5], y[60:65] = 0, 1
    model, _ = fitted(X, y)
    assert model.diagnostics_["unreached"] == pytest.approx(1 / 3)
    assert "pieces of the graph" in model.diagnostics_["verdict"]


def test_seeds_hardly_move_the_probabilities():
    X, y, _ = crescents(per_class=3)
    p = np.stack([fitted(X, y, seed)[0].predict_proba(X) for seed in range(4)])
    assert np.abs(p - p.mean(axis=0)).mean() < 0.03


def test_training_rows_are_predicted_as_new_ones():
    X, y, _ = crescents()
    model, _ = fitted(X, y)
    hidden = y < 0
    np.testing.assert_allclose(
        model.label_distributions_[hidden], model.predict_proba(X[hidden]), atol=1e-9
    )


def test_few_of_many_rows_make_the_graph():
    X, y, truth = crescents(n=1500)
    model, _ = fitted(X, y, max_graph_rows=300)
    assert model.n_graph_rows_ == 300
    assert "The graph has 300 of 1,500 rows." in model.diagnostics_["verdict"]
    assert model.score(X, truth) > 0.9


def test_all_rows_the_same_give_the_shares():
    model, _ = fitted(np.ones((30, 3)), np.where(np.arange(30) < 10, np.arange(30) % 2, -1))
    np.testing.assert_allclose(model.predict_proba(np.ones((2, 3))), 0.5, atol=0.1)


def test_an_explanation_admits_what_it_cannot_tell():
    X, y, _ = noise(3, n_labels=10)
    model, _ = fitted(X, y)
    text = str(model.explain())
    assert text.startswith(("I cannot tell", "The labels seem"))
    assert "than by chance" in text


def thirty_classes(per_class=2, **settings):
    """Thirty clouds of eight rows each, and a model of so many labels of each."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(30), 8)
    X = 6.0 * rng.standard_normal((30, 6))[truth] + rng.standard_normal((240, 6))
    y = np.where(np.arange(240) % 8 < per_class, truth, -1)
    return X, y, truth, *fitted(X, y, **settings)


def test_many_classes_are_regressed_on_and_their_assumptions_compared():
    X, _, truth, model, said = thirty_classes()
    assert "clusters" not in model.weights_
    assert sum(model.weights_.values()) == pytest.approx(1.0)
    assert model.score(X, truth) > 0.9
    assert log_loss(model.predict_proba(X), truth) < 0.2
    told = str(model.explain())
    assert "times likelier" in told
    assert "clusters" not in told
    assert "labels were regressed on" in model.diagnostics_["verdict"]
    assert model.diagnostics_["verdict"].startswith("No trouble was found")
    assert model.diagnostics_["trust"] == "yes"
    assert "follow no assumption" not in said


def test_many_classes_of_a_single_label_cannot_be_compared_and_it_says_so():
    X, _, truth, model, said = thirty_classes(per_class=1)
    assert model.score(X, truth) > 0.8
    assert str(model.explain()).startswith("Labels cannot tell which assumption holds")
    assert "follow no assumption" not in said


def test_joint_draws_of_many_classes_have_the_probabilities_as_their_mean():
    X, _, _, model, _ = thirty_classes()
    between = 0.5 * (X[:20] + X[-20:])
    drawn = model.posterior_.draws(between, 2000, np.random.default_rng(0))
    apart = drawn.mean(axis=0) - model.predict_proba(between)
    assert np.abs(apart).max() < 0.06
    assert drawn.std(axis=0).max() > 0.1


@pytest.mark.parametrize("n_classes", [12, 30])
def test_wrong_labels_of_many_classes_are_found_at_once(n_classes, monkeypatch):
    rng = np.random.default_rng(1)
    n = 10 * n_classes
    truth = np.repeat(np.arange(n_classes), 10)
    X = 4.0 * rng.standard_normal((n_classes, 6))[truth] + rng.standard_normal((n, 6))
    y = np.where(np.arange(n) % 10 < 5, truth, -1)
    wrong = np.flatnonzero(y >= 0)[::10]
    y[wrong] = (y[wrong] + 7) % n_classes
    model, _ = fitted(X, y)
    monkeypatch.setattr(LabelRecord, "infer", None)  # no propagation
    found = model.suspect_labels()
    assert set(found.rows[: len(wrong)]) >= set(wrong[:10])
    assert np.isin(found.rows[: len(wrong)], wrong).mean() > 0.8
    low, high = np.searchsorted(np.cumsum(found.chances), [0.05, 0.95])
    assert low <= len(wrong) <= high


def test_labels_are_doubted_by_regressions_and_errors_estimated_by_the_average():
    rng = np.random.default_rng(2)
    truth = np.repeat(np.arange(12), 12)
    X = 3.0 * rng.standard_normal((12, 5))[truth] + rng.standard_normal((144, 5))
    y = np.where(np.arange(144) % 12 < 6, truth, -1)
    model, _ = fitted(X, y)
    record = model.label_record_
    assert record.regressed is not None
    assert np.abs(record.held_out - record.regressed).max() > 0.02
    by_average = record._replace(regressed=None)
    apart = doubts(record).probabilities - doubts(by_average).probabilities
    assert np.abs(apart).max() > 0.002
    few, _ = fitted(X[:108], y[:108])
    assert few.label_record_.regressed is None
    assert len(few.label_record_.features) > 0


def test_groups_of_many_classes_share_a_class():
    X, _, truth, _, _ = thirty_classes()
    y, groups = np.where(np.isin(np.arange(240) % 8, (0, 2)), truth, -1), np.arange(240) // 2
    model = AtollClassifier(random_state=0).fit(X, y, groups=groups)
    predicted = model.transduction_.reshape(120, 2)
    assert np.all(predicted == predicted[:, :1])
    assert model.score(X, truth) > 0.8
    assert log_loss(model.predict_proba(X), truth) < 0.2
    assert model.explanation_.compared
    assert model.label_record_.features == ()  # labels are doubted by what is told already
    assert np.array_equal(np.sort(model.suspect_labels().rows), np.flatnonzero(y >= 0))


def test_labels_of_one_group_a_class_say_more_than_one_label_and_less_than_all():
    X, _, truth, _, _ = thirty_classes()
    rows, groups = np.arange(240), np.arange(240) // 4
    y, one = np.where(rows % 8 < 4, truth, -1), np.where(rows % 8 == 0, truth, -1)
    apart = AtollClassifier(random_state=0).fit(X, y)
    model = AtollClassifier(random_state=0).fit(X, y, groups=groups)
    alone = AtollClassifier(random_state=0).fit(X, one)
    losses = [log_loss(found.predict_proba(X), truth) for found in (apart, model, alone)]
    assert losses[0] + 0.05 < losses[1] < losses[2] - 0.05
    assert not model.explanation_.compared


def test_labels_of_many_classes_that_mean_nothing_are_hardly_believed():
    rng = np.random.default_rng(2)
    X, truth = rng.standard_normal((600, 5)), rng.integers(30, size=600)
    y = np.where(np.arange(600) < 150, truth, -1)
    model, said = fitted(X, y)
    assert log_loss(model.predict_proba(X[150:]), truth[150:]) < np.log(30) + 0.1
    assert "follow no assumption" in said
    assert model.diagnostics_["verdict"].startswith("Do not rely on this fit yet")
    assert model.diagnostics_["trust"] == "no"


def regressed_weight(model):
    """What labels that were regressed on count in the average, without their shares."""
    parts = model.posterior_.components
    return sum(part.weight for part in parts if isinstance(part.head, RegressionHead))


@pytest.mark.parametrize(("per_class", "expected"), [(1, 0.125), (2, 0.25), (4, 0.5), (8, 0.5)])
def test_regression_shares_what_clusters_leave(per_class, expected):
    X, truth = load_wine(return_X_y=True)
    y = hide_labels(truth, per_class=per_class, random_state=1)
    model, alone = fitted(X, y)[0], fitted(X, y, recipe=PROPAGATED)[0]
    share = expected * (1.0 - alone.weights_["clusters"])
    assert 0.01 < share < expected
    assert model.weights_["clusters"] == pytest.approx(alone.weights_["clusters"] * (1.0 - share))
    assert sum(model.weights_.values()) == pytest.approx(1.0)
    assert share * 0.7 < regressed_weight(model) <= share * 1.01  # the rest says nothing
    assert regressed_weight(alone) == 0.0


def test_the_average_is_that_of_propagation_and_of_regression():
    X, truth = load_iris(return_X_y=True)
    y = hide_labels(truth, per_class=6, random_state=0)
    model, alone = fitted(X, y)[0], fitted(X, y, recipe=PROPAGATED)[0]
    share = 0.5 * (1.0 - alone.weights_["clusters"])
    parts = [part for part in model.posterior_.components if isinstance(part.head, RegressionHead)]
    own = model.posterior_._replace(components=tuple(parts), sharpness=1.0)
    own = own._replace(share_weight=share - sum(part.weight for part in parts))
    plain = alone.posterior_._replace(sharpness=1.0)
    mixed = (1.0 - share) * plain.proba(X) + share * own.proba(X)
    wanted = pooling.sharpened(mixed, model.posterior_.shares, model.posterior_.sharpness)
    np.testing.assert_allclose(model.predict_proba(X), wanted, atol=2e-3)  # small weights are cut
    record, before = model.label_record_.held_out, alone.label_record_.held_out
    assert np.abs(record - before).max() > 0.01
    np.testing.assert_allclose(record.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "settings", [{"label_noise": "learn"}, {"labels_chosen": True}, {"recipe": PROPAGATED}]
)
def test_labels_that_may_be_wrong_or_were_picked_are_not_regressed_on(settings):
    X, truth = load_wine(return_X_y=True)
    y = hide_labels(truth, per_class=8, random_state=0)
    assert regressed_weight(fitted(X, y)[0]) > 0.05
    assert regressed_weight(fitted(X, y, **settings)[0]) == 0.0


def test_few_labels_of_two_classes_are_not_regressed_on():
    X, truth = load_breast_cancer(return_X_y=True)
    for per_class, is_used in ((6, False), (12, True)):
        y = hide_labels(truth, per_class=per_class, random_state=0)
        assert (regressed_weight(fitted(X, y)[0]) > 0.0) == is_used


def test_joint_draws_with_regressions_have_the_probabilities_as_their_mean():
    X, truth = load_wine(return_X_y=True)
    model, _ = fitted(X, hide_labels(truth, per_class=8, random_state=0))
    drawn = model.posterior_.draws(X[:40], 3000, np.random.default_rng(0))
    apart = drawn.mean(axis=0) - model.predict_proba(X[:40])
    assert np.abs(apart).max() < 0.04


def test_groups_learn_by_regression_from_all_their_labels():
    X, truth = make_blobs(120, centers=3, cluster_std=3.0, random_state=0)
    order = np.argsort(truth, kind="stable")
    X, truth = X[order], truth[order]
    y = np.where(np.arange(120) % 4 == 0, truth, -1)
    model = AtollClassifier(random_state=0).fit(X, y, groups=np.arange(120) // 4)
    assert regressed_weight(model) > 0.0
    predicted = model.transduction_.reshape(30, 4)
    assert np.all(predicted == predicted[:, :1])


@pytest.mark.parametrize("scale", ["auto", False, True])
def test_huge_numbers_are_read_in_a_unit_of_their_own(scale):
    X, truth = make_crescents(n_samples=80, random_state=0)
    y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    plain = AtollClassifier(scale=scale, random_state=0).fit(X, y).predict_proba(X)
    huge = AtollClassifier(scale=scale, random_state=0).fit(X * 2.0**450, y)
    apart = np.abs(huge.predict_proba(X * 2.0**450) - plain)
    assert apart.mean() < 0.03


def test_many_labels_speak_through_the_graph_that_takes_all_of_them():
    X, truth = make_crescents(n_samples=1200, random_state=0)
    y = hide_labels(truth, per_class=200, random_state=0)
    model, _ = fitted(X, y, recipe=PROPAGATED)
    assert model.weights_["neighbours"] == 0.0
    assert model.weights_["clusters"] > 0.9
    assert fitted(X, y)[0].weights_["clusters"] > 0.9
    fewer, _ = fitted(X, hide_labels(truth, per_class=90, random_state=0), recipe=PROPAGATED)
    assert fewer.weights_["neighbours"] > 0.0


def chessboard(n_labels):
    """Two classes on three by three squares; so many labels."""
    X = np.random.default_rng(0).uniform(0.0, 3.0, (400, 2))
    truth = np.floor(X).sum(axis=1).astype(int) % 2
    return X, np.where(np.arange(400) < n_labels, truth, -1), truth


def test_many_labels_find_detail_and_few_are_not_asked():
    X, y, truth = chessboard(100)
    model, _ = fitted(X, y)
    assert np.mean(model.predict(X[100:]) != truth[100:]) < 0.1
    assert model.weights_["detail"] > 0.8
    assert fitted(X, y, recipe=PROPAGATED)[0].weights_["detail"] > 0.9
    few, _ = fitted(X, chessboard(14)[1])
    assert "detail" not in few.weights_


def test_many_labels_move_weights_to_what_foretells_them_together():
    X, truth = load_breast_cancer(return_X_y=True)
    y = hide_labels(truth, per_class=50, random_state=0)
    moved, _ = fitted(X, y, recipe=PROPAGATED)
    by_rule, _ = fitted(X, y, recipe=replace(PROPAGATED, evidence_worth=1e9))
    bayes = {one.name: one.by_rule for one in moved.explain().assumptions}
    for name, weight in bayes.items():
        assert by_rule.weights_[name] == pytest.approx(weight, abs=1e-4)
    assert max(abs(moved.weights_[name] - weight) for name, weight in bayes.items()) > 0.05
    assert moved.weights_["clusters"] == pytest.approx(bayes["clusters"])
    assert sum(moved.weights_.values()) == pytest.approx(1.0)
    assert "together predict each label" in moved.explain().summary()
    assert moved.explain().before == pytest.approx(by_rule.explain().before, abs=1e-4)


@pytest.mark.parametrize("settings", [{"label_noise": "learn"}, {"labels_chosen": True}])
def test_labels_that_cannot_be_held_out_leave_weights_to_bayes_rule(settings):
    X, truth = load_wine(return_X_y=True)
    model, _ = fitted(X, hide_labels(truth, per_class=20, random_state=0), **settings)
    for one in model.explain().assumptions:
        assert one.weight == pytest.approx(one.by_rule, abs=1e-5)


def test_a_yes_or_no_column_does_not_pass_for_clusters():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    X[:, 0] = np.where(rng.random(200) < 0.5, -1.0, 1.0)
    y = np.full(200, -1)
    y[np.flatnonzero(X[:, 0] < 0)[:2]], y[np.flatnonzero(X[:, 0] > 0)[:2]] = 0, 1  # by chance
    model, _ = fitted(4.0 * X, y)
    assert model.diagnostics_["one_column"] > 0.9
    assert "a single column" in str(model.explain())
    assert model.weights_["clusters"] < 0.5


def test_one_direction_of_signal_makes_no_graph_of_its_own():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((90, 8))
    for n_directions in (1, 2):
        scores = 3.0 * rng.standard_normal((90, n_directions))
        y = np.where(np.arange(90) < 20, scores[:, 0] > 0, -1)
        model = AtollClassifier(n_draws=80, unlabelled=-1, random_state=0)
        found = model.fit(noise + np.repeat(scores, 8 // n_directions, axis=1), y).weights_
        assert ("signal" in found) == (n_directions > 1)
        assert "whitened" in found


def test_labels_that_are_likely_wrong_are_in_the_explanation_and_only_they():
    X, truth = make_blobs(300, centers=3, cluster_std=0.8, random_state=0)
    shown = np.arange(300) % 5 == 0
    wrong = shown & (np.arange(300) % 50 == 0)
    right = AtollClassifier(unlabelled=-1, random_state=0).fit(X, np.where(shown, truth, -1))
    assert "suspect_labels" not in str(right.explain())
    y = np.where(shown, np.where(wrong, (truth + 1) % 3, truth), -1)
    found = AtollClassifier(unlabelled=-1, random_state=0).fit(X, y).explain()
    assert 1 <= found.n_wrong <= wrong.sum() + 1
    assert "more likely wrong than right: suspect_labels() lists them" in found.summary()


def spirals(n, rng):
    """Two arms that turn three times, so near each other that 15 neighbours are of both."""
    arm = rng.integers(0, 2, n)
    radius = np.sqrt(rng.uniform(0.05, 1.0, n))
    angle = 6.0 * np.pi * radius + np.pi * arm
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + 0.01 * rng.standard_normal((n, 2)), arm


def labelled_spirals(n_labels):
    rng = np.random.default_rng(2)
    X, arm = spirals(500, rng)
    y = np.full(500, -1)
    some = rng.choice(500, n_labels, replace=False)
    y[some] = arm[some]
    return X, y, arm


def test_many_labels_choose_a_finer_graph_where_it_is_right():
    X, y, arm = labelled_spirals(60)
    usual = replace(PROPAGATED, finer_labels=10**9)
    found = {}
    for recipe in (None, usual):
        model = fitted(X, y, recipe=recipe)[0]
        found[model.n_neighbors_] = np.mean(model.transduction_[y == -1] != arm[y == -1])
    assert set(found) == {4, 15}
    assert found[4] < 0.1 < 0.3 < found[15]


def test_few_labels_leave_the_graph_as_it_is():
    X, y, _ = labelled_spirals(AVERAGE_RECIPE.finer_labels - 1)
    assert fitted(X, y)[0].n_neighbors_ == 15


def test_a_finer_graph_is_left_where_labels_would_reach_few_rows():
    rng = np.random.default_rng(0)
    # Pairs far from each other: with one neighbour each pair is a piece of its own.
    X = np.repeat(rng.standard_normal((150, 2)), 2, axis=0) + 1e-3 * rng.standard_normal((300, 2))
    y = np.full(300, -1)
    y[:40] = (X[:40, 0] > 0).astype(int)
    assert fitted(X, y, n_neighbors=5)[0].n_neighbors_ == 5


def test_labels_that_follow_no_graph_do_not_ask_for_a_finer_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = np.full(300, -1)
    y[:60] = rng.integers(0, 2, 60)
    assert fitted(X, y)[0].n_neighbors_ == 15


@pytest.mark.parametrize("k", [1, 4, 9])
def test_fewer_neighbours_need_no_other_search(k):
    X = np.random.default_rng(k).standard_normal((80, 3))
    wanted = neighbour_graph(X, k)
    found = with_fewer_neighbours(neighbour_graph(X, 9), k)
    assert (found.distances != wanted.distances).nnz == 0
    assert np.array_equal(found.scales, wanted.scales)


def with_repeats(n_labels=12, seed=0):
    """Rows of noise; the labelled ones stand in the table three times, with their labels."""
    rng = np.random.default_rng(seed)
    X, truth = rng.standard_normal((120, 6)), np.arange(120) % 2
    once = np.where(np.arange(120) < n_labels, truth, -1)
    again = np.concatenate([X, X[:n_labels], X[:n_labels]])
    return X, once, again, np.concatenate([once, once[:n_labels], once[:n_labels]]), truth


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_stand_in_the_table_again_with_their_labels_count_once(seed):
    X, once, again, repeated, truth = with_repeats(seed=seed)
    model, _ = fitted(again, repeated)
    plain, _ = fitted(X, once)
    for name in model.weights_ | plain.weights_:  # a column alone may be one that hardly counts
        counts = [one.weights_.get(name, 0.0) for one in (model, plain)]
        assert counts[0] == pytest.approx(counts[1], abs=0.05)
    assert model.explanation_.n_labels == 12
    assert "24 labels repeat that of the same row" in model.diagnostics_["verdict"]
    assert "labels repeat" not in plain.diagnostics_["verdict"]
    p = model.predict_proba(X[12:])
    assert log_loss(p, truth[12:]) < np.log(2) + 0.1
    assert len(model.suspect_labels().rows) == 12


@pytest.mark.parametrize("seed", range(3))
def test_copies_of_meaningless_labels_are_not_believed_where_no_column_tells_rows_apart(seed):
    X, truth = load_wine(return_X_y=True)
    truth = np.random.default_rng(seed).permutation(np.minimum(truth, 1))
    y = hide_labels(truth, per_class=12, random_state=seed)
    some = np.flatnonzero(y >= 0)
    again = np.concatenate([X, X[some], X[some]])
    model, said = fitted(again, np.concatenate([y, y[some], y[some]]))
    assert "48 labels repeat that of the same row" in model.diagnostics_["verdict"]
    assert "follow no assumption" in said
    hidden = y < 0
    assert log_loss(model.predict_proba(X[hidden]), truth[hidden]) < np.log(2) + 0.2


def test_rows_that_are_all_equal_are_counted_once_each():
    y = np.where(np.arange(40) < 8, np.arange(40) % 2, -1)
    model, _ = fitted(np.ones((40, 3)), y)
    assert "all 40 rows are equal" in model.diagnostics_["verdict"]
    assert "2 of 40 rows" in model.diagnostics_["verdict"]


def test_labels_that_rows_have_from_their_group_are_not_counted_as_given():
    X, y, truth = crescents(per_class=6)
    groups = np.empty(len(X), int)
    groups[np.argsort(truth, kind="stable")] = np.arange(len(X)) // 4  # of one class each
    model = AtollClassifier(random_state=0, unlabelled=-1).fit(X, y, groups=groups)
    assert model.explanation_.n_labels == 12
    assert len(model.label_record_.codes) == 12


def test_labels_of_equal_rows_that_contradict_each_other_all_count():
    _, _, again, repeated, _ = with_repeats()
    repeated[-1] = 1 - repeated[-1]
    model, _ = fitted(again, repeated)
    assert model.explanation_.n_labels == 36


def test_labels_of_rows_of_few_values_all_count():
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(300, 5)).astype(float)
    truth = (X[:, 0] + X[:, 1] > 1).astype(int)
    y = np.where(np.arange(300) < 40, truth, -1)
    model, _ = fitted(X, y)
    assert model.explanation_.n_labels == 40


def test_a_repeated_label_that_was_not_picked_is_the_one_that_counts():
    X, _, again, repeated, _ = with_repeats()
    chosen = np.arange(len(again)) < 12
    model, _ = fitted(again, repeated, labels_chosen=chosen)
    assert np.all(model.label_record_.is_random)
    assert set(model.label_record_.rows) == set(range(120, 132))
    assert len(X) == 120


def test_errors_are_estimated_by_labels_left_out_of_an_average_as_sure_as_the_fit():
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(4), 60)
    X = 1.2 * rng.standard_normal((4, 5))[truth] + rng.standard_normal((240, 5))
    model, _ = fitted(X, hide_labels(truth, per_class=15, random_state=0))
    average, record = model.posterior_, model.label_record_
    assert average.sharpness > 1.1
    left_out, codes, _ = model._held_out_labels()
    assert (codes == record.codes).all()
    surer = pooling.sharpened(record.held_out, average.shares, average.sharpness)
    np.testing.assert_allclose(left_out, surer)
    assert left_out.max(axis=1).mean() > record.held_out.max(axis=1).mean() + 0.01
