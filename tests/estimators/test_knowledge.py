"""What users know beside labels: weights, groups, shares, doubts, and rows that are left out."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from atoll import AtollClassifier, GraphGPClassifier, load_model, make_preprocessor, save_model
from atoll.core.labels import parse_labels
from atoll.datasets import hide_labels, make_crescents
from atoll.diagnostics.wrong_rows import kept_error
from atoll.estimators import (
    MODELS,
    DPMixtureClassifier,
    InformativeVectorClassifier,
    LaplacianRLSClassifier,
    SSGPClassifier,
    informed,
)
from atoll.estimators.graph_rows import RowGraph
from atoll.estimators.informed import PROVISO, Shares, Suspects, looks_picked
from atoll.estimators.knowledge import (
    counted_by_groups,
    read_class_prior,
    read_groups,
    read_weights,
    with_groups,
)
from atoll.estimators.probit_gp import ProbitGPClassifier
from atoll.kernels.graph_spectral import graph_modes
from atoll.models import graph_gp
from atoll.models.average import label_doubts
from atoll.models.average.pooling import shifted
from atoll.models.average.recipe import AverageRecipe

BOTH = pytest.mark.parametrize("kind", [AtollClassifier, GraphGPClassifier])
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Fewer amplitudes than the tuned recipe: nothing here depends on their number.
FEW = AverageRecipe(amplitudes=(2.4, 38.0), graph_amplitudes=(2.4, 38.0))


@pytest.fixture(scope="module")
def crescents():
    X, truth = make_crescents(n_samples=120, random_state=0)
    return X, truth, hide_labels(truth, per_class=6, marker=None, random_state=0)


def fit(kind, X, y, sample_weight=None, groups=None, **parameters):
    more = {"recipe": FEW} if kind is AtollClassifier else {}
    model = kind(n_draws=40, random_state=0, **more, **parameters)
    return model.fit(X, y, sample_weight=sample_weight, groups=groups)


# Weights ------------------------------------------------------------------------------------------


@BOTH
def test_weights_of_one_change_nothing_and_those_of_unlabelled_rows_do_not_matter(kind, crescents):
    X, _, y = crescents
    plain = fit(kind, X, y).predict_proba(X)
    for other in (7.0, np.nan, -1.0):
        weights = np.where([label is None for label in y], other, 1.0)
        np.testing.assert_array_equal(plain, fit(kind, X, y, weights).predict_proba(X))


@BOTH
def test_a_weight_of_zero_is_an_unlabelled_row(kind, crescents):
    X, _, y = crescents
    known = np.flatnonzero([label is not None for label in y])
    weights, less = np.ones(len(y)), y.copy()
    weights[known[:3]], less[known[:3]] = 0.0, None
    np.testing.assert_array_equal(
        fit(kind, X, y, weights).label_distributions_, fit(kind, X, less).label_distributions_
    )


@BOTH
def test_a_wrong_label_does_less_harm_the_less_it_counts(kind, crescents):
    X, truth, y = crescents
    row = int(np.flatnonzero([label is not None for label in y])[0])
    wrong = y.copy()
    wrong[row] = 1 - truth[row]
    own = [
        fit(kind, X, wrong, np.where(np.arange(len(y)) == row, weight, 1.0))
        .predict_proba(X[[row]])[0, truth[row]]
        for weight in (0.02, 0.5, 20.0)
    ]  # fmt: skip
    assert own[0] > own[1] > own[2]


@BOTH
@pytest.mark.filterwarnings("ignore:sample_weight is at most")
def test_labels_that_count_less_say_less_and_at_last_nothing(kind, crescents):
    X, _, y = crescents
    surest = [
        kind(random_state=0).fit(X, y, np.full(len(y), weight)).predict_proba(X).max()
        for weight in (1e-6, 0.01, 0.1, 0.5, 1.0)
    ]
    assert surest == sorted(surest)
    assert surest[0] < 0.65
    assert surest[1] < 0.85


@BOTH
def test_labels_that_count_next_to_nothing_are_next_to_no_audits(kind, crescents):
    X, truth, y = crescents
    rng = np.random.default_rng(0)
    noisy = rng.permutation([i for i in range(len(y)) if y[i] is None])[:40]
    more, weights = y.copy(), np.ones(len(y))
    more[noisy], weights[noisy] = rng.integers(0, 2, 40), 0.01
    model = fit(kind, X, more, weights)
    rest = [i for i in range(len(y)) if more[i] is None]
    assert (model.predict(X[rest]) == truth[rest]).mean() > 0.95
    assert model.estimate_error(X[rest]).error < 0.1


@BOTH
def test_a_label_that_counts_twice_is_one_audit(kind, crescents):
    X, _, y = crescents
    counts = fit(kind, X, y, np.full(len(y), 2.0))._held_out_labels()[2]
    np.testing.assert_array_equal(counts, np.ones(12))


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, -2, 1], r"negative in row 1, counted from 0 \(-2\); give 0"),
        ([1, np.nan, 1], "not a number in row 1"),
        ([1, 1, 1e14], r"is 1e\+14 in row 2, .*at most 1,000,000 is taken; .*divide all of them"),
        ([1, np.inf, 1], "is inf in row 1"),
        ([1, 1], r"shape \(2,\) and X has 3 rows"),
        (["a", "b", "c"], "must hold numbers"),
    ],
)
def test_bad_weights_are_refused_with_the_fix(weights, said):
    with pytest.raises(ValueError, match=said):
        read_weights(weights, np.ones(3, bool))


@pytest.mark.parametrize("name", ["sample_weight", "groups"])
def test_what_is_said_of_rows_in_another_order_is_remarked_on(name, crescents):
    X, _, y = crescents
    frame = pd.DataFrame(X, index=[f"r{i}" for i in range(len(X))])
    entries = pd.Series(np.where(np.arange(len(X)) < 60, 1.0, 0.5), index=frame.index)
    if name == "groups":
        entries[:] = np.arange(len(X))
    fit(GraphGPClassifier, frame, y, **{name: entries})  # no warning
    with pytest.warns(UserWarning, match=rf"index of {name} .*: {name}\.loc\[X\.index\]"):
        fit(GraphGPClassifier, frame, y, **{name: entries[::-1]})


def test_weights_that_leave_labels_next_to_nothing_are_named(crescents):
    X, _, y = crescents
    with pytest.warns(UserWarning, match=r"at most 0.0083 for a label.*has a weight of 1"):
        fit(GraphGPClassifier, X, y, np.full(len(y), 1 / 120))


# Shares -------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("share", [0.3, 0.1])
def test_known_shares_are_those_of_the_rows(kind, crescents, share):
    X, _, y = crescents
    model = fit(kind, X, y, class_prior={1: share})
    assert model.label_distributions_[:, 1].mean() == pytest.approx(share, abs=1e-6)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(share, abs=0.06)
    drawn = model.sample_proba(X, 200, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=0), model.predict_proba(X), atol=0.12)
    assert "as they are known" in model.diagnostics_["verdict"]


@BOTH
def test_rows_without_a_label_have_the_known_shares_as_if_they_were_new(kind, crescents):
    # Unlabelled rows have the classes that labels leave over; Bayes' rule leads from theirs to all.
    X, _, y = crescents
    is_labelled, share = np.array([label is not None for label in y]), 0.2
    model = fit(kind, X, y, class_prior={1: share})
    posterior = model.posterior_
    left = np.array([(1 - share) * len(y), share * len(y)]) - np.bincount(
        y[is_labelled].astype(int)
    )
    left /= left.sum()
    odds = posterior.intercepts - np.log([1 - share, share]) + np.log(left)
    raw = posterior._replace(intercepts=None)
    if kind is AtollClassifier:
        as_new = raw.proba_as_new(raw._scaled(X))
    else:
        graph, n_labels = RowGraph.of_neighbours(X, 15).weights, int(is_labelled.sum())
        modes = graph_modes(graph, len(model.eigenvalues_))
        as_new = raw.proba_as_new(
            lambda nearest: graph_gp.features_as_new(modes, graph, nearest, 2, n_labels)
        )
    found = shifted(as_new[~is_labelled], odds)
    np.testing.assert_allclose(found.mean(axis=0), left, atol=1e-6)


@BOTH
def test_new_rows_of_the_same_kind_have_the_known_shares_up_to_chance(kind):
    rng = np.random.default_rng(11)
    share, n, m = 0.2, 300, 2000
    y, y_new = (np.arange(size) < share * size for size in (n, m))
    X, X_new = (rng.standard_normal((len(c), 2)) + 1.5 * c[:, None] for c in (y, y_new))
    known = np.full(n, -1)
    known[rng.choice(np.flatnonzero(y), 10, replace=False)] = 1
    known[rng.choice(np.flatnonzero(~y), 10, replace=False)] = 0
    q = fit(kind, X, known, class_prior={1: share}).predict_proba(X_new)[:, 1]
    # The rows of the fit told the shares, and they are a sample, as the new rows are.
    chance = np.sqrt(sum(w**2 * q[c].var() * (1 / (w * n - 10) + 1 / (w * m))
                         for w, c in ((share, y_new), (1 - share, ~y_new))))  # fmt: skip
    assert abs(q.mean() - share) < 5.0 * chance + 0.01


@BOTH
def test_shares_that_are_not_known_are_estimated_with_limits(kind, crescents):
    X, truth, y = crescents
    model = fit(kind, X, y)
    shares = model.class_shares_
    assert shares.estimate.sum() == pytest.approx(1.0)
    assert np.all(shares.lower <= shares.estimate)
    assert np.all(shares.estimate <= shares.upper)
    assert "with limits of 90%" in model.diagnostics_["verdict"]
    assert shares.lower[1] <= truth.mean() <= shares.upper[1]


@BOTH
def test_limits_of_the_shares_of_two_classes_are_each_others(kind, crescents):
    X, _, y = crescents
    shares = fit(kind, X, y).class_shares_
    np.testing.assert_allclose(shares.lower, 1.0 - shares.upper[::-1], atol=1e-12)


def test_limits_of_the_shares_know_that_rows_of_the_graph_are_a_sample(tmp_path):
    n, n_graph = 20_000, 400
    rng = np.random.default_rng(5)
    truth = rng.permutation(n) % 2
    np.save(tmp_path / "rows.npy", rng.standard_normal((n, 2)) + 20.0 * truth[:, None])
    y = np.full(n, -1)
    y[:20] = truth[:20]
    model = AtollClassifier(max_graph_rows=n_graph, random_state=0).fit(tmp_path / "rows.npy", y)
    shares = model.class_shares_
    assert shares.lower[1] < 0.5 < shares.upper[1]
    by_chance = 2 * 1.645 * np.sqrt(0.25 / n_graph)  # rows in two heaps that cannot be mistaken
    assert 0.7 * by_chance < shares.upper[1] - shares.lower[1] < 1.5 * by_chance


@BOTH
def test_the_verdict_says_what_the_limits_assume_where_labels_look_picked(kind, crescents):
    X, _, y = crescents
    said = fit(kind, X, y).diagnostics_["verdict"]
    assert "hold if the labelled rows are a random sample of all rows" in said
    assert "every class has 6 labels" in said
    assert "set labels_chosen=True" in said
    told = fit(kind, X, y, labels_chosen=True), fit(kind, X, y, class_prior=[0.5, 0.5])
    drawn = y.copy()
    drawn[np.flatnonzero(y != None)[0]] = None  # noqa: E711 - elementwise
    for model in (*told, fit(kind, X, drawn)):
        assert "random sample" not in model.diagnostics_["verdict"]


@pytest.mark.parametrize(
    ("counts", "picked"),
    [((20, 20, 19, 20), True), ((5, 5, 5), True), ((1, 1, 1), False), ((6, 5), False)],
)
def test_labels_look_picked_where_chance_would_hardly_make_them_so_even(counts, picked):
    codes = np.repeat(np.arange(len(counts)), counts)
    labels = parse_labels(codes, unlabelled=None)
    shares = Shares(*np.array([[0.2], [0.1], [0.3]]) * np.ones(len(counts)))
    assert looks_picked(labels, shares) == picked


def test_numbers_of_labels_that_are_nearly_the_same_are_said():
    X, _ = make_crescents(n_samples=240, random_state=0)
    y = np.full(240, None, dtype=object)
    y[:119] = [("a", "b", "c")[i % 3] for i in range(119)]
    said = fit(GraphGPClassifier, X, y).diagnostics_["verdict"]
    assert "every class has 39 to 40 labels" in said


def test_effective_draws_stay_above_the_stated_share_whatever_the_shares(crescents):
    X, _, y = crescents
    model = fit(GraphGPClassifier, X, y, class_prior={1: 0.02})
    share = model._recipe().labellings.least_effective_share
    n_draws = model.diagnostics_["n_draws"]
    assert model.diagnostics_["effective_draws"] >= 0.999 * share * n_draws


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a": 0.5, "b": 0.2, "c": 0.2}, r"sums to 0.9 and not to 1; .* 'a': 0.5556"),
        ({"a": 0.5}, "no share for 'b', 'c';"),
        ({"a": 0.5, "d": 0.5}, "names 'd', which is none of the classes"),
        ([0.5, 0.5], "has 2 shares and there are 3 classes"),
        ([0.5, 0.5, 0.0], "gives 'c' the share 0"),
        ({"a": 0.5, "b": 0.7}, "sums to 1.2, which leaves nothing for 'c'"),
        ("abc", "class_prior must be"),
        (["x", "y", "z"], "class_prior must be a mapping"),
    ],
)
def test_bad_shares_are_refused_with_the_fix(given, said):
    X, y = np.arange(12.0)[:, None], np.array(["a", "b", "c"] * 4)
    with pytest.raises(ValueError, match=said):
        AtollClassifier(class_prior=given).fit(X, y)


def test_shares_come_by_name_or_in_the_order_of_the_classes():
    classes = np.array(["no", "yes"])
    for given in ({"yes": 0.25}, {"no": 0.75, "yes": 0.25}, [0.75, 0.25], np.array([0.75, 0.25])):
        np.testing.assert_allclose(read_class_prior(given, classes), [0.75, 0.25])


def test_shares_of_a_series_go_by_its_index():
    truth = pd.Series(["yes"] * 30 + ["no"] * 10)
    shares = truth.value_counts(normalize=True)  # the most frequent first
    classes = np.array(["no", "yes"])
    np.testing.assert_allclose(read_class_prior(shares, classes), [0.25, 0.75])
    np.testing.assert_allclose(read_class_prior(shares[["yes"]], classes), [0.25, 0.75])
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = GraphGPClassifier(random_state=0, class_prior=shares).fit(X, truth.where(X[:, 0] > 0))
    np.testing.assert_allclose(model.class_shares_.estimate, [0.25, 0.75])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (pd.Series({"no": 0.25, "yess": 0.75}), "names 'yess', which is none of the classes"),
        (pd.Series([0.25, 0.75]), "names 0, which is none of the classes"),
        (pd.Series([0.25, 0.25, 0.5], ["no", "no", "yes"]), "names 'no' twice"),
    ],
)
def test_a_series_that_does_not_name_the_classes_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        read_class_prior(given, np.array(["no", "yes"]))


@BOTH
@pytest.mark.filterwarnings("ignore:sample_weight is at most")
def test_labels_that_count_next_to_nothing_say_next_to_nothing_of_the_shares(kind):
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.arange(200) < 20).astype(int)
    X = rng.normal(size=(200, 2)) + 6.0 * truth[:, None] * [1.0, 0.0]
    y, weights = np.full(200, -1), np.ones(200)
    y[:40] = truth[:40]
    y[40:120], weights[40:120] = rng.integers(0, 2, 80), 0.01
    found = fit(kind, X, y, weights).class_shares_
    assert found.lower[1] < 0.1 < found.upper[1]
    assert found.estimate[1] < 0.2
    model = fit(kind, X, y, weights, class_prior={1: 0.1})
    assert model.class_shares_.estimate[1] == pytest.approx(0.1, abs=1e-6)
    assert model.label_distributions_[120:, 1].mean() == pytest.approx(truth[120:].mean(), abs=0.03)


# Groups -------------------------------------------------------------------------------------------


def in_groups(truth, size):
    """Rows of one class each, so many to a group."""
    names = np.empty(len(truth), dtype=object)
    for k in np.unique(truth):
        rows = np.flatnonzero(truth == k)
        names[rows] = [f"{k}/{i // size}" for i in range(len(rows))]
    return names


@BOTH
def test_rows_of_a_group_never_differ_and_one_label_is_that_of_all(kind):
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1], 60)
    X = rng.standard_normal((120, 2)) + 1.2 * truth[:, None]
    y = hide_labels(truth, per_class=5, marker=None, random_state=1)
    groups = in_groups(truth, 4)
    groups[:2] = None  # two rows alone
    model = fit(kind, X, y, groups=groups)
    frame = pd.DataFrame({"group": groups, "found": model.transduction_, "y": y})
    assert frame.groupby("group").found.nunique().max() == 1
    known = frame[frame.y.notna()].drop_duplicates("group").set_index("group").y
    rows = frame.group.isin(known.index)
    assert (frame.found[rows] == frame.group[rows].map(known)).all()
    alone = fit(kind, X, y)
    assert np.mean(model.transduction_ != truth) < np.mean(alone.transduction_ != truth)
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1.0)
    again = model.predict(X, groups=groups)
    assert pd.Series(again).groupby(groups).nunique().max() == 1
    assert (again[rows] == frame.found[rows]).all()  # what labels say of a group goes on


@BOTH
@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_rows_that_the_fit_had_in_a_group_are_not_counted_again(kind, as_rows):
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1], 40)
    X = as_rows(rng.standard_normal((80, 2)) + 1.2 * truth[:, None])
    y = hide_labels(truth, per_class=5, marker=None, random_state=1)
    groups = in_groups(truth, 4)
    model = fit(kind, X, y, groups=groups)
    again = model.predict_proba(X, groups=groups)
    np.testing.assert_allclose(again, model.label_distributions_, atol=1e-12)
    rows = np.flatnonzero(groups == groups[-1])
    assert all(y[i] is None for i in rows)
    others = model.predict_proba(X[:4] + X[:4], groups=groups[rows])
    assert not np.allclose(others, again[rows], atol=1e-6)  # those that it did not have are


@BOTH
@pytest.mark.parametrize("is_named", [False, True])
def test_rows_that_are_alone_change_nothing(kind, is_named):
    truth = np.repeat([0, 1, 2], 40)
    X = np.random.default_rng(1).standard_normal((120, 2)) + 1.5 * np.eye(3)[truth][:, :2]
    y = hide_labels(truth, per_class=8, marker=None, random_state=1)
    groups = np.arange(120) if is_named else [None] * 120
    X[:3], y[:4] = X[3], 0  # copies of a label count once, as they do without groups
    told, alone = fit(kind, X, y, groups=groups), fit(kind, X, y)
    np.testing.assert_array_equal(told.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_allclose(told.label_distributions_, alone.label_distributions_, atol=1e-12)


def test_a_group_with_two_labels_is_refused_with_rows_and_fix(crescents):
    X, _, y = crescents
    known = np.flatnonzero([label is not None for label in y])
    first = int(known[0])
    other = int(next(row for row in known if y[row] != y[first]))
    groups = np.arange(len(y))
    groups[other] = groups[first]
    said = rf"two labels.*row {first}.*row {other}, counted from 0; correct one"
    with pytest.raises(ValueError, match=said):
        fit(AtollClassifier, X, y, groups=groups)


def test_groups_are_read_with_nulls_and_refused_where_they_cannot_be():
    names, codes = read_groups(pd.Series(["a", None, "b", "a"]), 4)
    assert names == ["a", "b"]
    assert codes.tolist() == [0, -1, 1, 0]
    with pytest.raises(ValueError, match="groups has 2 entries and X has 3 rows"):
        read_groups([1, 2], 3)
    with pytest.raises(ValueError, match="cannot name a group"):
        read_groups([[1], [2]], 2)


# Labels that may be wrong -------------------------------------------------------------------------


@BOTH
def test_wrong_labels_are_the_most_suspect(kind):
    X, truth = make_crescents(n_samples=160, random_state=2)
    y = hide_labels(truth, per_class=20, marker=None, random_state=2)
    known = np.flatnonzero([label is not None for label in y])
    wrong = np.random.default_rng(0).choice(known, 4, replace=False)
    y[wrong] = 1 - truth[wrong]
    model = fit(kind, X, y)
    found = model.suspect_labels()
    assert np.array_equal(np.sort(found.rows), known)
    assert np.all(np.diff(found.probabilities) <= 0)
    assert roc_auc_score(np.isin(found.rows, wrong), found.probabilities) > 0.85
    rows, probabilities = found
    assert np.array_equal(rows, found.rows)
    assert found.chances.sum() == pytest.approx(1.0)
    low, high = found.limits()
    assert low <= probabilities.sum() <= high
    assert f"{low} to {high} with probability 90%" in str(found)


def test_few_doubts_send_nobody_through_all_labels():
    p = np.full(25, 0.004)
    said = Suspects(np.arange(25), p, np.r_[0.9, 0.1, np.zeros(24)]).said()
    assert said.startswith("Hardly any of 25 labels is wrong, 0 to 1")
    assert said.endswith("No label stands out.")
    p[:2] = 0.4
    assert "Look at the first 2, and" in Suspects(np.arange(25), p, np.r_[0.3, 0.7]).said()
    p[:6] = [0.999, 0.9, 0.9, 0.9, 0.9, 0.4]
    found = Suspects(np.arange(25), p, np.r_[np.zeros(5), 1.0])
    assert found.said().startswith("About 5 of 25 labels are wrong")
    shown = [line.split()[-1] for line in str(found).splitlines()]
    assert ">99%" in shown
    assert "<1%" in shown


def test_labels_that_a_group_spreads_are_not_doubted_nor_support_each_other(crescents):
    X, truth, y = crescents
    groups = in_groups(truth, 5)
    model = fit(GraphGPClassifier, X, y, groups=groups)
    known = np.flatnonzero([label is not None for label in y])
    first = known[np.sort(np.unique(groups[known], return_index=True)[1])]  # speaks for its group
    assert len(first) < len(known)
    assert np.array_equal(np.sort(model.suspect_labels().rows), first)
    with pytest.raises(TypeError, match=r"^suspect_labels\(5\).*suspect_labels\(\).rows\[:5\]"):
        model.suspect_labels(5)


def test_noise_that_is_learnt_helps_where_labels_are_wrong_and_is_checked():
    X, truth = make_crescents(n_samples=160, random_state=3)
    y = hide_labels(truth, per_class=20, marker=None, random_state=3)
    known = np.flatnonzero([label is not None for label in y])
    wrong = np.random.default_rng(1).choice(known, 8, replace=False)
    y[wrong] = 1 - truth[wrong]
    hidden = np.setdiff1d(np.arange(160), known)

    def loss(model):
        return -np.log(model.label_distributions_[hidden, truth[hidden]]).mean()

    learnt, believed = fit(AtollClassifier, X, y, label_noise="learn"), fit(AtollClassifier, X, y)
    assert loss(learnt) < loss(believed)
    share = learnt.diagnostics_["wrong_share"]
    assert 0.08 < share < 0.25  # 8 of 40 are
    said = f"About {share:.0%} of the labels are wrong, by what was learnt: predict corrects them"
    assert said in learnt.diagnostics_["verdict"]
    assert "wrong_share" not in believed.diagnostics_
    assert (learnt.predict(X[wrong]) == truth[wrong]).mean() > 0.5  # as the verdict says
    assert (learnt.transduction_[wrong] == y[wrong]).all()
    with pytest.raises(ValueError, match="label_noise must be"):
        AtollClassifier(label_noise=0.7).fit(X, y)


# Rows that are left out ---------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [("no", "yes"), (3, 7), (False, True)])
def test_rows_below_the_limit_get_none_and_others_their_class(crescents, classes):
    X, _, y = crescents
    named = np.array([None if label is None else classes[label] for label in y], dtype=object)
    model = fit(AtollClassifier, X, named)
    found, p = model.predict(X, reject_below=0.9), model.predict_proba(X)
    assert found.dtype == object
    np.testing.assert_array_equal(pd.isna(found), p.max(axis=1) < 0.9)
    kept = ~pd.isna(found)
    assert (found[kept] == model.predict(X)[kept]).all()
    assert not pd.isna(model.predict(X, reject_below=0.0)).any()
    error = model.estimate_error(X, reject_below=0.9)
    assert error.n_kept == kept.sum()
    assert error.lower <= error.error <= error.upper
    assert ("rows are kept" in str(error)) is not bool(kept.all())
    assert np.isclose(error.by_model, 1.0 - p.max(axis=1)[kept].mean())
    assert f"The model's own probabilities say {error.by_model:.1%};" in str(error)
    assert f"{error.n_held_out} labels of the fit" in str(error)
    assert "each predicted from the others, correct that." in str(error)
    assert str(model.estimate_error(X)).startswith("About ")
    with pytest.raises(ValueError, match="reject_below must be a number at least 0 and at most 1"):
        model.predict(X, reject_below=90)


def test_every_classifier_leaves_rows_out(crescents):
    X, _, y = crescents
    model = ProbitGPClassifier(inference="ep").fit(X, y)
    assert pd.isna(model.predict(X, reject_below=1.0)).any()
    assert model.estimate_error(X).n_kept == len(X)
    assert all(hasattr(kind, "estimate_error") for kind in MODELS.values())


@pytest.mark.parametrize(
    "model",
    [
        ProbitGPClassifier(inference="ep"),
        SSGPClassifier(selection="evidence", random_state=0),
        InformativeVectorClassifier(),
        DPMixtureClassifier(n_components=3, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_labels_that_a_model_holds_out_correct_its_error(model, crescents, tmp_path):
    X, _, y = crescents
    model.fit(X, y)
    found = model.estimate_error(X)
    held = model.diagnostics_
    assert found.n_held_out == (held["held_out"]["n_labels"] if "held_out" in held
                                else held["n_held_out"]) == 12  # fmt: skip
    assert "12 labels of the fit, each predicted from the others, correct that" in str(found)
    p, codes, _ = model._held_out_labels()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    if "held_out" in held:
        assert np.mean(p.argmax(axis=1) != codes) == held["held_out"]["error"]
    save_model(model, tmp_path / "model.atoll")
    assert load_model(tmp_path / "model.atoll").estimate_error(X) == found
    few = np.array([None] * len(y), dtype=object)  # two of each class: too few others
    few[np.flatnonzero(y == 0)[:2]], few[np.flatnonzero(y == 1)[:2]] = 0, 1
    assert "no held-out label corrects that" in str(model.fit(X, few).estimate_error(X))


def test_labels_that_chose_a_machine_do_not_correct_its_error(crescents):
    X, _, y = crescents
    model = LaplacianRLSClassifier(random_state=0).fit(X, y)
    assert model.diagnostics_["held_out"]["n_labels"] == 12
    assert "no held-out label corrects that" in str(model.estimate_error(X))
    kept = str(model.estimate_error(X, reject_below=0.8))
    assert "no held-out label that would be kept corrects that" in kept


def test_limits_of_the_error_hold_where_doubts_are_right():
    inside = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sure = rng.beta(8.0, 1.5, size=430)
        p = np.column_stack([sure, 1.0 - sure])
        codes = (rng.random(430) > sure).astype(int)
        found = kept_error(p[30:], p[:30], codes[:30], 0.8, 0.9)
        kept = p[30:].max(axis=1) >= 0.8
        error = np.mean(codes[30:][kept] != p[30:][kept].argmax(axis=1))
        inside += found.lower <= error <= found.upper
    assert inside >= 54


# Saved --------------------------------------------------------------------------------------------


@BOTH
def test_what_is_known_survives_in_a_file(kind, crescents, tmp_path):
    X, truth, y = crescents
    groups, weights = in_groups(truth, 3), np.full(len(y), 0.5)
    model = fit(kind, X, y, weights, groups, class_prior={1: 0.4})
    save_model(model, tmp_path / "model.atoll")
    loaded = load_model(tmp_path / "model.atoll")
    assert loaded.class_prior == {1: 0.4}
    for one, other in zip(model.suspect_labels(), loaded.suspect_labels()):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(
        model.predict_proba(X, groups=groups), loaded.predict_proba(X, groups=groups)
    )
    assert loaded.estimate_error(X) == model.estimate_error(X)


def test_doubts_about_labels_show_their_progress_where_asked(at_a_terminal):
    X, truth = make_crescents(60, random_state=0)
    y = np.where(np.arange(60) < 12, truth, -1)
    model = GraphGPClassifier(random_state=0, n_draws=20).fit(X, y)
    quiet = model.suspect_labels()
    assert at_a_terminal.readouterr().err == ""
    shown = model.suspect_labels(verbose=True)
    assert re.search(r"checking labels: 100%.*4/4", at_a_terminal.readouterr().err)
    assert (shown.rows == quiet.rows).all()
    assert (shown.probabilities == quiet.probabilities).all()


@pytest.mark.parametrize(("seconds", "said"), [(0.001, ""), (0.8, "20 seconds"), (5.0, "2 minu")])
def test_long_doubts_say_beforehand_how_long_they_take(seconds, said, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 5
    X = rng.standard_normal((60, 2)) + 6.0 * np.eye(5)[truth][:, :2]
    model = GraphGPClassifier(random_state=0, n_draws=20).fit(X, truth)
    monkeypatch.setattr(informed, "seconds_of", lambda call: call() or seconds)
    monkeypatch.setattr(label_doubts, "one_of_many", lambda record: 24.0)
    model.suspect_labels()
    found = capsys.readouterr().err
    assert found.startswith(f"GraphGPClassifier: to doubt 60 labels will take about {said}") is (
        bool(said)
    )
    model.suspect_labels(verbose=False)
    assert capsys.readouterr().err == ""


def test_suspects_show_the_label_that_was_given_and_the_class_instead():
    rng = np.random.default_rng(0)
    truth = np.repeat(["no", "yes"], 20)
    X = rng.standard_normal((40, 2)) + 6.0 * (truth == "yes")[:, None]
    y = np.where(np.arange(40) % 2 == 0, truth, None)
    y[2] = "yes"
    found = fit(GraphGPClassifier, X, y).suspect_labels()
    table = found.to_frame()
    assert table.columns.tolist() == ["row", "label", "p_wrong", "instead"]
    assert table.iloc[0][["row", "label", "instead"]].tolist() == [2, "yes", "no"]
    assert (table["label"] == y[table["row"]]).all()
    assert (table["label"] != table["instead"]).all()
    said = str(found).split("\n")
    assert said[1].split() == ["row", "label", "wrong", "instead"]
    assert said[2].split() == ["2", "yes", f"{table['p_wrong'][0]:.0%}", "no"]
    assert said[-2:] == ["  and 10 more, in to_frame()", PROVISO]
    assert "<th>instead</th>" in found._repr_html_()


def test_suspects_go_by_the_names_of_a_tables_rows_behind_a_pipeline_too(tmp_path):
    """Of labels without an index the table has the names, by the recipe of the docstring."""
    rng = np.random.default_rng(0)
    truth = np.repeat(["no", "yes"], 20)
    names = [f"P{i}" for i in rng.permutation(40)]
    table = pd.DataFrame(rng.standard_normal((40, 2)) + 6.0 * (truth == "yes")[:, None], names)
    labels = np.where(np.arange(40) % 2 == 0, truth, None)
    labels[2] = "yes"
    y = pd.Series(labels, names)

    def steps():
        return make_pipeline(make_preprocessor(), GraphGPClassifier(n_draws=40, random_state=0))

    piped = steps().fit(table, y)
    save_model(piped[-1], tmp_path / "model.atoll")
    for model in (
        fit(GraphGPClassifier, table, y),
        piped[-1],
        load_model(tmp_path / "model.atoll"),
    ):
        found = model.suspect_labels()
        assert found.names.tolist() == table.index[found.rows].tolist()
        assert str(found).split("\n")[2].split()[:2] == [names[2], "yes"]
        frame = found.to_frame()
        assert frame.columns.tolist() == ["row", "name", "label", "p_wrong", "instead"]
        assert frame["name"].tolist() == found.names.tolist()
    found = steps().fit(table, labels)[-1].suspect_labels()
    assert not len(found.names)
    assert table.index[found.rows][0] == names[2]
    numbered = fit(GraphGPClassifier, table.reset_index(drop=True), y)  # X has an index of its own
    assert not len(numbered.suspect_labels().names)
    assert not hasattr(numbered.fit(table.to_numpy(), labels), "label_names_")


def test_suspects_of_a_filtered_table_have_its_index_beside_their_rows(tmp_path):
    rng = np.random.default_rng(4)
    truth = np.repeat(["no", "yes"], 20)
    table = pd.DataFrame(rng.standard_normal((40, 2)) + 6.0 * (truth == "yes")[:, None])
    table.index = np.arange(100, 180, 2)
    labels = np.where(np.arange(40) % 2 == 0, truth, None)
    labels[2] = "yes"
    model = fit(GraphGPClassifier, table, labels)
    save_model(model, tmp_path / "model.atoll")
    for one in (model, load_model(tmp_path / "model.atoll")):
        found = one.suspect_labels()
        assert found.in_index.tolist() == table.index[found.rows].tolist()
        header, first = (line.split() for line in str(found).split("\n")[1:3])
        assert header[:3] == ["row", "index", "label"]
        assert first[:3] == ["2", "104", "yes"]
        assert found.to_frame()["index"].tolist() == found.in_index.tolist()
    piped = make_pipeline(make_preprocessor(), GraphGPClassifier(n_draws=40, random_state=0))
    found = piped.fit(table, pd.Series(labels, table.index))[-1].suspect_labels()
    assert found.in_index[0] == 104
    assert not len(fit(GraphGPClassifier, table.to_numpy(), labels).suspect_labels().in_index)


def test_doubts_of_the_graph_do_not_take_in_what_labels_left_out_have_said():
    X, truth = make_crescents(200, random_state=0)
    y = hide_labels(truth, per_class=6, marker=-1, random_state=0)
    model = GraphGPClassifier(random_state=0, class_prior=[0.95, 0.05]).fit(X, y)
    proba = model.predict_proba(X)
    doubts = model._doubts(X, proba)
    assert np.all((doubts >= 0.0) & (doubts <= 1.0))
    model.posterior_ = model.posterior_._replace(doubt=np.array([0.45, 0.45]))
    np.testing.assert_allclose(model._doubts(X, proba), doubts, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_row_of_which_nothing_is_known_has_the_known_shares(n_classes):
    """A row of zeros has no direction; what known shares do to all others leaves it alone."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, n_classes, 150)
    X = 0.6 * np.abs(rng.standard_normal((150, 6)))
    X[np.arange(150), truth] += 1.0 + truth
    y = np.where(np.arange(150) < 30, truth, -1)
    shares = np.full(n_classes, 0.1 / (n_classes - 1))
    shares[0] = 0.9
    model = AtollClassifier(metric="cosine", class_prior=shares, random_state=0).fit(X, y)
    rows = np.concatenate([np.zeros((1, 6)), X[:3]])
    np.testing.assert_allclose(model.predict_proba(rows)[0], shares, atol=1e-12)
    draws = model.posterior_.draws(rows, 4000, np.random.default_rng(1))
    np.testing.assert_allclose(draws.mean(axis=0), model.predict_proba(rows), atol=0.03)
    assert np.abs(model.posterior_.intercepts).max() > 0.5


@BOTH
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_of_all_rows_of_a_group_say_what_one_of_them_says(kind, n_classes):
    rng = np.random.default_rng(0)
    of_group = np.arange(30) % n_classes
    centres = 2.0 * rng.standard_normal((30, 4)) + of_group[:, None]
    groups = np.repeat(np.arange(30), 6)
    X = centres[groups] + 0.2 * rng.standard_normal((180, 4))
    every = np.where(groups < 20, of_group[groups], -1)
    first = np.arange(180) % 6 == 0
    one = np.where(first, every, -1)
    all_told, once = (fit(kind, X, y, groups=groups) for y in (every, one))
    np.testing.assert_allclose(all_told.predict_proba(X), once.predict_proba(X), atol=1e-6)
    assert len(all_told.suspect_labels().rows) == 20  # labels that nobody gives twice


def test_the_error_among_new_groups_is_not_that_of_rows_whose_group_is_known():
    """Rows of a patient are told by others of the patient; those of a new one are not."""
    errors, estimates = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        of_group = rng.integers(0, 2, 80)
        centres = 1.5 * rng.standard_normal((80, 4))
        centres[:, 0] += of_group
        groups = np.repeat(np.arange(80), 8)
        X = centres[groups] + 0.2 * rng.standard_normal((640, 4))
        y = np.where(groups < 24, of_group[groups], -1)
        new = np.flatnonzero(groups >= 40)[::8]
        model = fit(AtollClassifier, X[groups < 40], y[groups < 40], groups=groups[groups < 40])
        errors.append(np.mean(model.predict(X[new]) != of_group[groups[new]]))
        estimates.append(model.estimate_error(X[new]).error)
    assert np.mean(errors) > 0.2
    assert np.mean(estimates) == pytest.approx(np.mean(errors), abs=0.12)


def test_rows_of_a_group_that_have_only_their_class_in_common_count_in_full():
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1], 200)
    X = rng.standard_normal((400, 3)) + truth[:, None]
    groups = np.arange(400) // 10
    labels = parse_labels(np.where(np.arange(400) % 2 == 0, truth, -1))
    labels = with_groups(labels, groups.tolist(), groups)
    counted = counted_by_groups(X, labels)
    assert counted.weights[labels.is_labelled].mean() > 0.9
    near = counted_by_groups(0.01 * X + groups[:, None], labels)
    assert near.weights[labels.is_labelled].max() < 0.12
    np.testing.assert_allclose(near.as_given().weights, labels.is_labelled)
