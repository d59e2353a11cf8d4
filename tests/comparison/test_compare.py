"""Models compared on held-out labels: differences, their uncertainty, and the recommendation."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from scipy import sparse
from scipy.stats import t as student
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from atoll import RowChunks
from atoll.comparison import candidates, compare_models, judging, timing, write_comparison
from atoll.comparison.blending import BLEND, BlendClassifier, blend_of, blend_shares, with_blend
from atoll.comparison.candidates import CANDIDATES, Candidate
from atoll.comparison.folds import held_out_losses, row_losses
from atoll.comparison.judging import (
    Judgement,
    judge,
    noise_of,
    paired_difference,
    prior_of,
    promised,
)
from atoll.comparison.page import intervals_figure, terminal_lines
from atoll.comparison.prior import PRIOR
from atoll.comparison.recommending import (
    Recommendation,
    about_ahead,
    ahead_of_blend,
    better_here,
    recommend,
    sentence,
)
from atoll.comparison.supervised import PartlyLabelled
from atoll.core.preprocessing import prepare, with_category_weight
from atoll.estimators import MODELS, AtollClassifier, make_preprocessor
from atoll.estimators.category_weight import CategoryWeight
from atoll.estimators.held_out import held_out_probabilities, score

# Chains of a random seed may need longer; what is compared here does not depend on it.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

QUICK = ["shares", "logistic", "label-spreading"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=120)
    X = rng.standard_normal((120, 2)) + 2.5 * truth[:, None]
    y = np.full(120, None, dtype=object)
    for name, code in (("no", 0), ("yes", 1)):
        y[np.flatnonzero(truth == code)[:10]] = name
    return X, y


@pytest.fixture(scope="module")
def found(data):
    return compare_models(*data, models=QUICK, n_splits=3)


def test_every_model_of_atoll_can_be_compared_and_has_a_belief_or_is_left_out():
    assert set(MODELS) <= set(CANDIDATES)
    compared = {name for name, one in CANDIDATES.items() if not one.left_out}
    by_name_only = {"transductive-svc"}  # slow
    assert compared - {"atoll"} == set(PRIOR.beliefs) - by_name_only - {BLEND}


def test_the_table_holds_what_its_parts_say(data, found):
    assert {row.model for row in found.table} == {"atoll", *QUICK}
    assert [row.log_loss for row in found.table] == sorted(row.log_loss for row in found.table)
    assert {row.model for row in found.table if row.is_peer} == set(QUICK)
    assert (found.n_rows, found.n_labels, found.n_rarest, found.n_splits) == (120, 20, 10, 3)
    by_name = {row.model: row for row in found.table}
    for one in found.differences:
        expected = by_name[one.model].log_loss - by_name["atoll"].log_loss
        assert np.isclose(one.log_loss.mean, expected, atol=1e-12)
        assert one.log_loss.low <= one.log_loss.mean <= one.log_loss.high
    assert found.best in by_name
    assert found.best in found.recommendation
    chance = max(row.near_best for row in found.table)
    assert found.can_tell is (chance >= judging.TELLING)
    assert ("cannot tell" in found.recommendation) is not found.can_tell
    frame = found.to_frame()
    assert frame.loc["shares", "log_loss"] == by_name["shares"].log_loss


def test_a_report_of_the_default_has_the_scores_of_the_comparison(data, found):
    """The same rows are held out; what may make scores differ is said under the table."""
    held = held_out_probabilities(AtollClassifier(random_state=0), *data, n_splits=3)
    scores = score(held.probabilities, held.codes, held.shares)
    by_name = {row.model: row for row in found.table}
    assert np.isclose(scores.log_loss, by_name["atoll"].log_loss)
    assert np.isclose(scores.chance_log_loss, by_name["shares"].log_loss)
    said = " ".join("\n".join(terminal_lines(found)).split())
    assert (
        "A report of atoll with the same seed, and without make_preprocessor, holds the same "
        "labels out and has the same scores." in said
    )


def test_no_model_sees_the_label_that_it_is_scored_on(data):
    """A model that remembers the rows of its fit has never seen a row that it is asked about."""

    class Memory(GaussianNB):
        def fit(self, X, y):
            self.known = {row.tobytes() for row in X}
            return self

        def predict_proba(self, X):
            assert not any(row.tobytes() in self.known for row in X)
            return np.full((len(X), 2), 0.5)

    X, y = data
    codes = np.where(y == "yes", 1, np.where(y == "no", 0, -1))
    one = Candidate("memory", Memory())
    losses = held_out_losses([one], X, codes, 5, 0, lambda name: None)
    np.testing.assert_allclose(losses.log_losses, np.log(2))
    assert losses.log_losses.shape == (1, 20)


def test_copies_of_a_label_are_left_out_of_every_fit(data, found):
    X, y = data
    some = np.flatnonzero(y != None)  # noqa: E711
    X, y = np.concatenate([X, X[some]]), np.concatenate([y, y[some]])
    again = compare_models(X, y, models=QUICK, n_splits=3)
    assert (again.n_labels, again.n_repeated) == (found.n_labels, len(some))
    shares = [next(row for row in one.table if row.model == "shares") for one in (found, again)]
    assert shares[0].log_loss == shares[1].log_loss
    said = " ".join("\n".join(terminal_lines(again)).split())
    assert f"{len(some)} labels repeat that of the same row elsewhere in the table" in said


def test_the_same_seed_gives_the_same_comparison_and_progress_changes_nothing(
    data, found, at_a_terminal
):
    again = compare_models(*data, models=QUICK, n_splits=3)
    assert "comparing" in at_a_terminal.readouterr().err
    assert again.differences == found.differences
    assert again.recommendation == found.recommendation


def test_few_labels_cannot_tell_and_keep_the_default(data):
    X, y = data
    fewer = y.copy()
    fewer[np.flatnonzero(y == "yes")[7:]] = None
    with pytest.warns(UserWarning, match="rarest class has 7, and 8 in every class are needed"):
        found = compare_models(X, fewer, models=["logistic"], n_splits=2)
    assert not found.can_tell
    assert found.best == "atoll"
    assert "cannot tell" in found.recommendation
    assert "rarest class has 7" in found.recommendation


def test_the_only_label_of_a_class_is_in_every_fit_and_is_not_scored(data, tmp_path):
    X, y = data
    one = y.copy()
    one[np.flatnonzero(y == "yes")[1:]] = None
    codes = np.where(one == "yes", 1, np.where(one == "no", 0, -1))

    class Sees(GaussianNB):
        def fit(self, X, y):
            assert set(y) == {0, 1}
            return super().fit(X, y)

    losses = held_out_losses([Candidate("sees", Sees())], X, codes, 5, 0, lambda name: None)
    assert losses.log_losses.shape == (1, 10)
    with pytest.warns(UserWarning, match="the rarest class has 1, and 8 in every class"):
        found = compare_models(X, one, models=["logistic", "graph-gp"], n_splits=2)
    assert (found.best, found.can_tell, found.n_splits) == ("atoll", False, 2)
    assert {row.model for row in found.table} - {BLEND} == {"atoll", "logistic", "graph-gp"}
    assert found.single == ("yes",)
    assert "'yes' has a single label, which was in every fit" in found.recommendation
    assert "but for those that are the only one" in " ".join(str(found).split())
    write_comparison(found, tmp_path / "one.html")


def test_with_a_single_label_in_every_class_nothing_is_fitted_and_the_default_is_kept(
    data, tmp_path
):
    X, y = data
    lone = np.full(len(y), None, dtype=object)
    for name in ("no", "yes"):
        lone[np.flatnonzero(y == name)[0]] = name
    found = compare_models(X, lone)
    assert (found.best, found.can_tell, found.table) == ("atoll", False, ())
    said = " ".join(str(found).split())
    assert "every class has a single label, so that none can be held out" in said
    assert found.to_frame().empty
    write_comparison(found, tmp_path / "lone.html")
    page = (tmp_path / "lone.html").read_text(encoding="utf-8")
    assert "none can be held out" in page
    assert "<img" not in page
    assert found.classifier().fit(X, lone).predict(X[:3]).shape == (3,)


def test_that_labels_are_too_few_is_said_before_the_first_fit(data, monkeypatch):
    def fitted(*given):
        raise AssertionError("a model was fitted first")

    monkeypatch.setattr("atoll.comparison.compare.held_out_losses", fitted)
    X, y = data
    fewer = np.where(np.arange(len(y)) < np.flatnonzero(y == "yes")[7], y, None)
    with (
        pytest.warns(UserWarning, match="cannot tell which model is best"),
        pytest.raises(AssertionError, match="fitted first"),
    ):
        compare_models(X, fewer, models=["logistic"])


def test_with_fewer_labels_than_needed_no_chance_speaks_for_a_model():
    some = Recommendation("atoll", False, 0.87)
    said = sentence(some, "atoll", 7, {"atoll": 0.87, "ssgp": 0.4})
    assert "cannot tell" in said
    assert "Use" not in said
    assert "%" not in said


@pytest.mark.parametrize("can_tell", [False, True])
def test_a_blend_is_told_by_its_models_and_its_chance_is_named(can_tell):
    chances = {"atoll": 0.7, "ssgp": 0.4, "shares": 0.01, BLEND: 0.87}
    shares = {"atoll": 0.6, "ssgp": 0.3, "graph-gp": 0.1}
    said = sentence(Recommendation(BLEND, can_tell, 0.87), "atoll", 20, chances, shares)
    assert "a blend of atoll (60%), ssgp (30%) and graph-gp (10%)" in said
    assert "about 87%" in said
    assert "shares" not in said
    assert "classifier().fit(X, y)" in said
    assert (bool(re.search(r"it may be atoll \(\d+%\) or ssgp \(\d+%\)", said))) is not can_tell
    assert said.startswith("Use a blend") is can_tell
    assert ("cannot tell" in said) is not can_tell


def test_a_blend_of_the_default_alone_is_the_default():
    near = np.array([0.5, 0.2, 0.95])
    found = Judgement(np.zeros(3), near, 0)
    advice = recommend(found, ("atoll", "ssgp", BLEND), "atoll", 20, {"atoll": 1.0})
    assert advice == Recommendation("atoll", True, 0.95)
    assert sentence(advice, "atoll", 20, {}).startswith("Use atoll, the default")
    few = recommend(found, ("atoll", "ssgp", BLEND), "atoll", 7, {"atoll": 0.5, "ssgp": 0.5})
    assert few == Recommendation("atoll", False, 0.5)


def test_a_small_difference_is_not_shown_as_nothing(found):
    small = with_losses(found, logistic=(0.0011, 0.0042, 0.0073))
    line = next(line for line in terminal_lines(small, 100) if line.startswith("logistic"))
    assert "+0.004" in line
    assert "+0.001 to +0.007" in line


def raw_table(data):
    """The rows with a column of words, and blank cells."""
    X, _ = data
    frame = pd.DataFrame(X.copy(), columns=["a", "b"])
    frame["site"] = np.where(X[:, 0] > 1, "reef", "lagoon")
    frame.loc[3:9, "a"] = np.nan
    return frame


def test_a_table_of_words_and_blanks_is_compared_as_it_is(data):
    frame, y = raw_table(data)[:40], data[1][:40]
    found = compare_models(frame, y, models=["logistic"], n_splits=2)
    assert {row.model for row in found.table} == {"atoll", "logistic"}
    assert "make_preprocessor()" in str(found)
    model = found.classifier().set_params(tablepreprocessor__category_weight=1.0).fit(frame, y)
    assert model.predict_proba(frame).shape == (40, 2)
    with pytest.raises(ValueError, match="X has 40 rows and y has 39"):
        compare_models(frame, y[:-1], models=["logistic"])


def test_a_column_of_ids_is_refused_with_what_works_without_a_step(data):
    X, y = data
    table = pd.DataFrame(X, columns=["a", "b"]).assign(id=[f"P{i}" for i in range(len(X))])
    with pytest.raises(ValueError, match="'id' has 120 different values") as raised:
        compare_models(table, y, models=["shares"], n_splits=2, progress=False)
    fix = "X.drop(columns=['id'])"
    assert f"leave it out ({fix})" in str(raised.value)
    assert "make_preprocessor(texts=['id']).fit_transform(X) in the place" in str(raised.value)
    mended = eval(fix, {"X": table})
    assert compare_models(mended, y, models=["shares"], n_splits=2, progress=False).best == "atoll"
    with pytest.raises(ValueError, match=r"leave it out \(make_preprocessor\(drop=\['id'\]\)\)"):
        make_preprocessor().fit(table, y)


def test_an_interruption_keeps_the_models_that_are_done_and_names_the_others(data):
    class Interrupted(GaussianNB):
        def fit(self, X, y):
            raise KeyboardInterrupt

    models = {"bayes": GaussianNB(), "slow": Interrupted(), "last": GaussianNB()}
    found = compare_models(*data, models=models, n_splits=2)
    assert {row.model for row in found.table} - {BLEND} == {"atoll", "bayes"}
    assert [name for name, _ in found.left_out] == ["slow", "last"]
    assert "stopped before these were done: slow, last." in found.recommendation


def test_an_interruption_of_the_first_model_leaves_nothing(data, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Candidate, "predict", interrupted)
    with pytest.raises(KeyboardInterrupt, match="nothing to compare"):
        compare_models(*data, models=["logistic"], n_splits=2)


def test_a_classifier_of_ones_own_is_compared_on_labelled_rows_alone(data):
    found = compare_models(*data, models={"bayes": GaussianNB()}, n_splits=2)
    assert {row.model for row in found.table} - {BLEND} == {"atoll", "bayes"}
    assert found.best in ("atoll", "bayes", BLEND)


def test_a_model_that_refuses_the_data_is_left_out_with_its_reason(data):
    class Refusing(GaussianNB):
        def fit(self, X, y):
            raise ValueError("two classes are too few.")

    found = compare_models(*data, models={"odd": Refusing()}, n_splits=2)
    assert found.left_out == (("odd", "two classes are too few"),)
    assert [row.model for row in found.table] == ["atoll"]
    assert found.best == "atoll"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("no device. Buy one."), "RuntimeError: no device"),
        (AttributeError("no attribute 'coef_'"), "AttributeError: no attribute 'coef_'"),
        (ZeroDivisionError(), "ZeroDivisionError"),
    ],
)
def test_a_model_that_fails_is_left_out_and_the_others_are_compared(data, error, said):
    class Failing(GaussianNB):
        def predict_proba(self, X):
            raise error

    found = compare_models(*data, models=["shares", {"odd": Failing()}], n_splits=2)
    assert found.left_out == (("odd", said),)
    assert {row.model for row in found.table} >= {"atoll", "shares"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p[:, :1], r"array of shape \(\d+, 1\) for \d+ rows and 2 classes"),
        (lambda p: np.where(np.arange(len(p))[:, None] == 2, np.nan, p), "not finite"),
        (lambda p: np.add(p, [-1.5, 1.5]), "below zero"),
        (lambda p: 0 * p, "do not sum to one"),
    ],
)
def test_a_model_that_gives_no_probabilities_is_left_out_with_its_reason(data, change, said):
    class Odd(GaussianNB):
        def predict_proba(self, X):
            return change(super().predict_proba(X))

    found = compare_models(*data, models=["shares", {"odd": Odd()}], n_splits=2)
    assert re.search(said, dict(found.left_out)["odd"])
    assert {row.model for row in found.table} == {"atoll", "shares"}
    with pytest.raises(ValueError, match=said):
        BlendClassifier([Odd(), GaussianNB()], [1, 1]).fit(*data).predict(data[0])


def test_a_classifier_may_have_its_classes_in_any_order(data):
    class Backwards(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.model = GaussianNB().fit(X, y)
            self.classes_ = self.model.classes_[::-1]
            return self

        def predict_proba(self, X):
            return self.model.predict_proba(X)[:, ::-1]

    X, y = data
    one, other = (PartlyLabelled(model).fit(X, y) for model in (GaussianNB(), Backwards()))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize("model", [SVC(), make_pipeline(StandardScaler(), SVC())])
def test_a_classifier_without_probabilities_is_refused_before_any_fit(model):
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ValueError, match=r"'svm' with .*no predict_proba.*CalibratedClassifierCV"):
        compare_models(X, y, models=["logistic", {"svm": model}])


def test_models_left_out_for_one_reason_share_a_line_and_seconds_are_those_of_a_fold(found):
    why = (("a", "slow"), ("b", "slow"), ("c", "odd"))
    said = " ".join(str(replace(found, left_out=why)).split())
    assert "Left out: a, b (slow); c (odd)." in said
    assert said.count("Left out") == 1
    assert "error seconds atoll" in said
    assert "<table>" in found._repr_html_()


def test_the_recommended_model_can_be_fitted_as_it_is(data, found):
    X, y = data
    model = found.classifier().fit(X, y)
    assert model.predict_proba(X).shape == (120, 2)
    for name in ("shares", "label-spreading"):
        assert CANDIDATES[name].classifier().fit(X, y).classes_.tolist() == ["no", "yes"]


def test_a_classifier_of_ones_own_is_compared_beside_named_models(data):
    X, y = data
    found = compare_models(X, y, models=["shares", {"bayes": GaussianNB()}], n_splits=2)
    assert {row.model for row in found.table} - {BLEND} == {"atoll", "shares", "bayes"}
    alone = compare_models(X, y, models={"bayes": GaussianNB()}, n_splits=2)
    losses = [{row.model: row.log_loss for row in one.table} for one in (found, alone)]
    assert losses[0]["bayes"] == losses[1]["bayes"]
    assert [row.is_peer for row in found.table if row.model == "bayes"] == [False]


def test_a_smaller_number_of_folds_than_asked_for_is_said(data, found):
    X, y = data
    fewer = compare_models(X, y, models=["shares"], n_splits=100)
    assert fewer.n_splits == 10
    said = " ".join(str(fewer).split())
    assert (
        "10 folds, not the 100 asked for: the rarest class that is held out has 10 labels" in said
    )
    assert "the rarest class has" not in said  # once is enough
    assert "the rarest class has 10" in str(found)
    assert "asked for" not in str(found)


def test_how_long_a_comparison_takes_is_told_after_the_first_fit_of_a_slow_default(monkeypatch):
    """Graphs of few rows are not tried; a clock that goes ten seconds a reading stands for them."""
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(times))
    monkeypatch.setattr(timing.time, "process_time", lambda: next(times))
    said, chosen = [], [CANDIDATES[name] for name in ("atoll", "graph-gp", "dp-mixture")]
    seconds = {"atoll": 0.0, "graph-gp": 0.0, "dp-mixture": 6.0}
    forecast = timing.Forecast(chosen, seconds, 1, "atoll", said.append)
    forecast.before_fit("logistic")
    forecast.before_fit("atoll")
    assert said == []
    forecast.before_fit("atoll")
    forecast.before_fit("atoll")
    assert len(said) == 1
    assert said[0].startswith("This will take about 30 seconds on a machine")  # 20 + 8 + 6
    assert "most of it for atoll; a smaller max_rows=" in said[0]


def test_graphs_of_few_rows_are_not_tried_however_many_their_labels(monkeypatch):
    """A trial on part of the rows took longer than the fit, and was wrong by a factor of ten."""
    tried = []
    monkeypatch.setattr(timing, "expected_seconds", lambda model, *_: tried.append(model) or 2.0)
    names = ["atoll", "graph-gp", "dp-mixture"]
    chosen, codes = [CANDIDATES[name] for name in names], np.arange(1000) % 2
    found = timing.seconds_of_models(chosen, np.zeros((1000, 3)), codes, 5, lambda name: None)
    assert found == {"atoll": 0.0, "graph-gp": 0.0, "dp-mixture": 10.0}
    assert tried == [CANDIDATES["dp-mixture"].model]


def test_only_some_unlabelled_rows_are_used_where_they_are_many(data):
    found = compare_models(*data, models=["shares"], n_splits=2, max_rows=60)
    assert (found.n_used_rows, found.n_rows) == (60, 120)
    assert "60 of 120 rows" in str(found)


# --- uncertainty ----------------------------------------------------------------------------------


def test_the_interval_of_a_difference_covers_its_mean_as_often_as_it_says():
    """Scores of l rows of k folds, correlated by 1/k: the model that the interval assumes."""
    rng = np.random.default_rng(0)
    k, n, n_sets = 5, 20, 400
    # var of the mean must be s²(1/n)(1 + k/(k − 1)): a shared part adds what overlaps add
    own = rng.standard_normal((n_sets, n))
    shared = rng.standard_normal(n_sets) * np.sqrt(k / (k - 1) / n)
    inside = 0
    for rows, common in zip(own, shared):
        found = paired_difference(rows + common, k)
        inside += found.low <= 0.0 <= found.high
    share = inside / n_sets
    assert abs(share - 0.95) < 5 * np.sqrt(0.95 * 0.05 / n_sets) + 0.005


def test_the_probability_of_a_difference_is_that_of_its_t_distribution():
    rows = np.array([0.2, -0.1, 0.4, 0.3, 0.05, -0.2])
    found = paired_difference(rows, 3)
    scale = np.sqrt(rows.var(ddof=1) / 6 * 2.5)
    assert np.isclose(found.probability_below, student.cdf(-rows.mean() / scale, 5))
    assert paired_difference(np.zeros(5), 2) == (0.0, 0.0, 0.0, 0.5)


def test_the_judgement_is_the_posterior_of_a_gaussian_by_brute_force(monkeypatch):
    """Two models: mean of a grid over both differences."""
    rng = np.random.default_rng(3)
    names = ["atoll", "logistic", "label-spreading"]
    losses = np.abs(rng.standard_normal((3, 12)))
    found = judge(names, losses, "atoll", 5, 0)
    differences = losses[1:] - losses[0]
    mean, covariance = prior_of(names[1:])
    noise = noise_of(differences, 5)
    grid = np.linspace(-4, 4, 801)
    at = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)

    def log_normal(x, centre, C):
        z = x - centre
        return -0.5 * np.einsum("ij,jk,ik->i", z, np.linalg.inv(C), z)

    log_p = log_normal(at, mean, covariance) + log_normal(at, differences.mean(axis=1), noise)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    np.testing.assert_allclose(found.expected[1:], p @ at, atol=2e-3)
    near = p @ (at[:, 0] <= np.minimum(0.0, at.min(axis=1)) + judging.NEAR)
    assert abs(found.near_best[1] - near) < 5 * np.sqrt(0.25 / judging.N_DRAWS) + 0.02


def test_many_rows_overrule_what_other_tables_say():
    rng = np.random.default_rng(0)
    losses = 0.5 + 0.3 * rng.standard_normal((2, 20_000))
    losses[1] -= 0.1
    found = judge(["atoll", "shares"], losses, "atoll", 5, 0)
    assert found.best == 1
    assert abs(found.expected[1] + 0.1) < 0.03
    few = judge(["atoll", "shares"], losses[:, :10], "atoll", 5, 0)
    assert few.best == 0


def test_a_probability_of_zero_costs_no_more_than_the_least():
    losses, errors = row_losses(np.array([[1.0, 0.0]]), np.array([1]))
    assert np.isclose(losses[0], -np.log(1e-6))
    assert errors[0] == 1.0


# --- blends ---------------------------------------------------------------------------------------


def test_shares_are_the_mode_of_the_labels_and_the_prior_by_brute_force():
    rng = np.random.default_rng(4)
    right = rng.uniform(0.05, 1.0, size=(12, 2))
    prior = np.array([1.5, 0.5])
    grid = np.linspace(0.0005, 0.9995, 2000)
    both = np.stack([grid, 1.0 - grid])
    log_p = np.log(right @ both).sum(axis=0) + prior @ np.log(both)
    assert abs(blend_shares(right, prior)[0] - grid[log_p.argmax()]) < 1e-3


def test_without_labels_that_speak_shares_are_those_of_the_prior_and_many_overrule_it():
    prior = np.array([1.6, 0.2, 0.2])
    np.testing.assert_allclose(blend_shares(np.full((9, 3), 0.3), prior), [0.8, 0.1, 0.1])
    clear = np.tile([0.2, 0.9, 0.2], (400, 1))
    assert blend_shares(clear, prior)[1] > 0.98


def test_a_blend_is_scored_on_labels_that_had_no_part_in_its_shares():
    """The label of one part alone speaks for the second model, and does not count there."""
    codes = np.zeros(6, dtype=np.intp)
    base = np.tile([0.6, 0.4], (6, 1))
    sure = np.tile([0.6, 0.4], (6, 1))
    sure[0] = [1.0, 0.0]
    more = dict.fromkeys(("atoll", "second", "third", "fourth"), base)
    names = [*more, "other"]
    found = blend_of(names, "atoll", more | {"other": sure}, codes, 6)
    without = blend_of(names, "atoll", more | {"other": base}, codes, 6)
    assert found.shares["other"] > without.shares["other"]
    other = without.shares["other"]
    assert np.isclose(found.proba[0, 0], 0.6 * (1.0 - other) + 1.0 * other)
    assert np.isclose(sum(found.shares.values()), 1.0)


def test_a_model_with_nearly_all_of_the_weight_stands_alone(data):
    """A rest of a twentieth would cost explain() and a second fit, and gain nothing."""
    codes = np.zeros(8, dtype=np.intp)
    good, bad = np.tile([0.9, 0.1], (8, 1)), np.tile([0.1, 0.9], (8, 1))
    found = blend_of(["atoll", "other"], "atoll", {"atoll": good, "other": bad}, codes, 4)
    assert found.shares == {"atoll": 1.0}
    np.testing.assert_array_equal(found.proba, good)
    turned = blend_of(["atoll", "other"], "atoll", {"atoll": bad, "other": good}, codes, 4)
    assert set(turned.shares) == {"atoll", "other"}
    X, y = data
    found = compare_models(X, y, models=["shares"], n_splits=2, progress=False)
    assert found.best == "atoll"
    one = compare_models(X, y, models=["graph-gp"], n_splits=2, progress=False)
    assert one.best == "atoll"
    assert BLEND not in [row.model for row in one.table]
    assert "blend" not in str(one)


def test_peers_are_not_blended_and_small_shares_are_left_out(data):
    X, y = data
    codes = np.where(y == "yes", 1, np.where(y == "no", 0, -1))
    ours = [Candidate("atoll", GaussianNB()), Candidate("wild", GaussianNB(var_smoothing=1e6))]
    every = [*ours, CANDIDATES["shares"]]
    losses = held_out_losses(every, X, codes, 2, 0, lambda name: None)
    known = codes[codes >= 0]
    grown, blend = with_blend(losses, every, "atoll", known, 2)
    assert grown.names == ("atoll", "wild", "shares", BLEND)
    assert set(blend.shares) <= {"atoll", "wild"}
    assert min(blend.shares.values()) >= 0.03
    assert grown.log_losses.shape == (4, len(known))
    assert with_blend(losses, [ours[0], ours[1]._replace(is_peer=True), every[2]], "atoll", known,
                      2) == (losses, None)  # fmt: skip


def test_a_blended_classifier_is_the_weighted_mean_of_its_models(data):
    X, y = data
    parts = [GaussianNB(), GaussianNB(var_smoothing=1.0)]
    blend = BlendClassifier(parts, [3, 1], random_state=0).fit(X, y)
    known = np.array([label is not None for label in y])
    p = [part.fit(X[known], y[known].astype(str)).predict_proba(X) for part in parts]
    np.testing.assert_allclose(blend.predict_proba(X), 0.75 * p[0] + 0.25 * p[1])
    assert set(blend.predict(X)) == {"no", "yes"}


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [0.0, 0.0]])
def test_weights_that_do_not_fit_the_models_are_refused_with_the_fix(data, weights):
    with pytest.raises(ValueError, match="one number for each of the 2 models"):
        BlendClassifier([GaussianNB(), GaussianNB()], weights).fit(*data)


def test_what_is_promised_rises_with_the_chance_and_with_labels_and_stays_one():
    chances = [promised(near, 60) for near in np.linspace(0.0, 1.0, 21)]
    assert np.all(np.diff(chances) >= 0)
    assert 0 < chances[0] < chances[-1] < 1
    of_labels = [promised(0.6, n_labels) for n_labels in (2, 16, 32, 512, 10**6)]
    assert of_labels[0] == of_labels[1] < of_labels[2] < of_labels[3] == of_labels[4]


# --- what is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [30, 44, 60, 80, 200])
def test_lines_fit_the_terminal(found, width):
    lines = terminal_lines(found, width)
    assert max(map(len, lines)) <= min(max(width, 44), 100)
    text = " ".join(" ".join(lines).split())
    assert found.recommendation in text
    for row in found.table:
        assert row.model in text


def test_text_in_the_picture_has_nine_pixels_or_more_on_a_phone(found):
    figure = intervals_figure(found)
    pixels = (390 - 2 * 16) / (72 * figure.get_figwidth())  # of a point
    sizes = [t.get_size() for t in figure.findobj(Text) if t.get_text() and t.get_visible()]
    assert min(sizes) * pixels >= 9


def test_the_page_is_one_file_with_a_picture(found, tmp_path):
    path = tmp_path / "compare.html"
    write_comparison(found, path, title="Cats & dogs")
    page = path.read_text(encoding="utf-8")
    assert "Cats &amp; dogs" in page
    assert "data:image/png;base64," in page
    assert "http://" not in page
    assert "https://" not in page
    assert found.recommendation.split(":")[0] in page
    with pytest.raises(ValueError, match="does not exist"):
        write_comparison(found, tmp_path / "absent" / "compare.html")


def test_both_columns_of_differences_say_of_what(found, tmp_path):
    write_comparison(found, tmp_path / "compare.html")
    page = (tmp_path / "compare.html").read_text(encoding="utf-8")
    assert ">Difference of log-loss (95% interval)<" in page
    assert ">Difference of error (95% interval)<" in page
    assert ">Chance to be near best<" in page


def with_losses(found, **losses):
    """Return a comparison with other differences of log-loss, each (low, mean, high)."""
    changed = []
    for one in found.differences:
        low, mean, high = losses.get(one.model, (-0.1, 0.0, 0.1))
        changed.append(one._replace(log_loss=one.log_loss._replace(low=low, mean=mean, high=high)))
    return replace(found, differences=tuple(changed))


def test_an_interval_that_runs_off_an_edge_has_an_arrow_there(found):
    def arrows(comparison):
        lines = intervals_figure(comparison).axes[0].lines
        return [line.get_marker() for line in lines if line.get_marker() in "<>"]

    assert arrows(with_losses(found)) == []
    assert arrows(with_losses(found, shares=(-0.05, 0.1, 9.0))) == [">"]
    assert arrows(with_losses(found, shares=(-9.0, 0.1, 9.0))) == ["<", ">"]


def test_no_interval_of_an_error_goes_beyond_all_rows():
    wrong = np.array([1.0, 1.0, 1.0, 0.0])
    assert paired_difference(wrong, 4).high > 1.0
    assert paired_difference(wrong, 4, most=1.0)[:3] == pytest.approx((0.75, -0.465, 1.0), abs=1e-3)


def test_models_that_did_better_beyond_doubt_are_named_where_the_default_is_recommended(found):
    changed = with_losses(found, logistic=(-0.3, -0.2, -0.1)).differences
    said = better_here(changed, "atoll", "atoll")
    assert "On these labels logistic did better than atoll: its 95% interval is below zero" in said
    assert better_here(changed, "logistic", "atoll") == ""
    assert better_here(with_losses(found).differences, "atoll", "atoll") == ""
    tiny = with_losses(found, logistic=(-0.0005, -0.0004, -0.0003)).differences  # shown as zero
    assert better_here(tiny, "atoll", "atoll") == ""


# --- a single model ahead of the blend ------------------------------------------------------------


def ahead(*names, lead=0.028):
    """Return what is said where the first of some models did better than their blend."""
    rng = np.random.default_rng(0)
    losses = 0.03 + 0.01 * rng.random((len(names) + 1, 45))
    losses[1:-1] += 0.2
    losses[-1] = losses[0] + lead + 0.01 * rng.standard_normal(45)
    every = [*names, BLEND]
    shares = {name: 0.85 if name == "atoll" else 0.15 / (len(names) - 1) for name in names}
    judgement = judge(every, losses, "atoll", 3, 0)
    one = ahead_of_blend(every, losses, [], 3, shares)
    advice = recommend(judgement, every, "atoll", 15, shares, one)
    near_best = dict(zip(every, judgement.near_best.tolist()))
    said = sentence(advice, "atoll", 15, near_best, shares) + about_ahead(one, advice.best)
    return advice, said


def test_a_blend_with_a_classifier_of_ones_own_gives_way_to_a_model_ahead_of_it():
    advice, said = ahead("atoll", "forest")
    assert advice.best == "atoll"
    assert said.startswith("Use atoll, the default: ")
    assert "the blend did worse than atoll alone, by 0.02" in said
    assert said.endswith("and is not advised.")
    assert advice.chance > 0.9


def test_a_blend_that_is_far_behind_is_not_recommended_firmly_and_the_sentence_says_by_how_much():
    """On other tables blends of the library's models were near the best in spite of that."""
    advice, said = ahead("atoll", "graph-gp", "laplacian-rls")
    assert (advice.best, advice.can_tell) == (BLEND, False)
    assert said.startswith("These labels cannot tell which model is best: ")
    assert "beyond doubt" not in said
    assert "the blend did worse than atoll alone, by 0.02" in said
    assert "advised all the same" in said
    advice, said = ahead("atoll", "graph-gp", "laplacian-rls", lead=0.012)
    assert (advice.best, advice.can_tell) == (BLEND, True)
    assert "the blend did worse than atoll alone, by 0.01" in said
    level, said = ahead("atoll", "graph-gp", "laplacian-rls", lead=0.0)
    assert level.best == BLEND
    assert "did worse" not in said


def test_a_classifier_of_ones_own_that_is_far_behind_has_little_weight():
    """One that gives the right class a fifth less, in nats, than the default does."""
    codes = np.zeros(45, dtype=np.intp)
    sure, unsure = np.tile([0.97, 0.03], (45, 1)), np.tile([0.79, 0.21], (45, 1))
    proba = {"atoll": sure, "forest": unsure}
    found = blend_of(["atoll", "forest"], "atoll", proba, codes, 3)
    assert found.shares["atoll"] > 0.95
    losses, _ = row_losses(found.proba, codes)
    assert losses.mean() < -np.log(0.97) + 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ["forest"]}, "models='forest' is none of"),
        ({"models": {"atoll": GaussianNB()}}, "the default's name"),
        ({"models": {"blend": GaussianNB()}}, "what the blend of all is called"),
        ({"models": ["logistic", {"logistic": GaussianNB()}]}, "names 'logistic' twice"),
        ({"n_splits": 1}, "n_splits must be"),
        ({"max_rows": 0}, "max_rows must be"),
        ({"without": ["forest"]}, "without='forest' is none of"),
        ({"without": "atoll"}, "the default is what models are compared with"),
        ({"random_state": "seed"}, "random_state must be"),
    ],
)
def test_bad_options_are_refused_with_the_fix(data, options, message):
    with pytest.raises(ValueError, match=message):
        compare_models(*data, **options)


def test_bad_data_are_refused_with_the_fix(data):
    X, y = data
    with pytest.raises(ValueError, match="give one label"):
        compare_models(X[:-1], y)
    for far in (RowChunks.from_arrays(X), "rows.npy"):
        with pytest.raises(ValueError, match="compare_models takes rows in memory"):
            compare_models(far, y)
    with pytest.raises(ValueError, match="one class"):
        compare_models(X, np.where(y == "yes", y, None))


def test_the_default_weighs_categories_by_the_labels_of_each_fold(monkeypatch):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.standard_normal(60), "site": ["a", "b", "c"] * 20})
    y = np.array([*["no", "yes"] * 8, *[None] * 44], dtype=object)
    table, asked = prepare(frame), []

    def weigh(X, are_categories, labels):
        asked.append(labels.n_labelled)
        assert are_categories.tolist() == [False, True, True, True]
        return CategoryWeight(0.5, 1.0)

    monkeypatch.setattr(candidates, "weigh_features", weigh)
    found = compare_models(table, y, models=["shares"], n_splits=2)
    assert asked == [8, 8]
    monkeypatch.undo()
    half = compare_models(with_category_weight(table, 0.5).X, y, models=["shares"], n_splits=2)

    def loss(of):
        return next(row.log_loss for row in of.table if row.model == "atoll")

    assert loss(found) == pytest.approx(loss(half), abs=1e-12)
    assert loss(found) != loss(compare_models(table.X, y, models=["shares"], n_splits=2))


def test_quick_models_come_first_and_what_they_found_outlives_an_interruption(data, monkeypatch):
    fit = Candidate.predict

    def stops_at_the_default(self, *arguments):
        if self.name == "atoll":
            raise KeyboardInterrupt
        return fit(self, *arguments)

    monkeypatch.setattr(Candidate, "predict", stops_at_the_default)
    with pytest.raises(KeyboardInterrupt, match=r"what was done: shares \d\.\d{3} \(\d\.\d{3}\)"):
        compare_models(*data, models=["graph-gp", "shares"], n_splits=2)


def test_differences_of_nothing_are_neither_blown_up_nor_coloured(found):
    same = tuple(
        one._replace(log_loss=one.log_loss._replace(mean=-2e-9, low=-3e-9, high=-1e-9))
        for one in found.differences
    )
    (axis,) = intervals_figure(replace(found, differences=same)).axes
    assert axis.get_xlim()[1] >= 0.02
    colours = {line.get_color() for line in axis.lines if len(line.get_xdata()) == 2}
    assert "#1b6e4b" not in colours


def test_sparse_rows_are_compared_by_the_models_that_take_them(data):
    X, y = data
    rng = np.random.default_rng(6)
    thin = sparse.csr_array(np.where(rng.random(X.shape) < 0.3, 0.0, X - X.min()))
    found = compare_models(thin, y, models=["graph-gp", "logistic", "ssgp"], n_splits=2)
    assert {row.model for row in found.table} - {BLEND} == {"atoll", "graph-gp", "logistic"}
    assert found.left_out == (("ssgp", "X is sparse, and SSGPClassifier takes dense rows only"),)
    model = found.classifier().set_params(random_state=0)
    assert model.fit(thin, y).predict_proba(thin).shape == (120, 2)


def test_dense_rows_are_standardised_for_the_peer_and_sparse_ones_are_left(data):
    X, _ = data
    expected = StandardScaler().fit_transform(X)
    np.testing.assert_array_equal(candidates.DenseScaler().fit_transform(X), expected)
    thin = sparse.csr_array(X)
    assert candidates.DenseScaler().fit(thin).transform(thin) is thin


def test_models_left_out_for_one_reason_are_told_together(found):
    chains = [one for one in CANDIDATES.values() if one.left_out == "slow chains"]
    assert len(chains) == 3
    said = " ".join(
        terminal_lines(replace(found, left_out=tuple((c.name, c.left_out) for c in chains)))
    )
    assert "null-category, softmax-gp, archipelago (slow chains)" in " ".join(said.split())


class Troubled(LogisticRegression):
    """A classifier that warns at every fit."""

    def fit(self, X, y, sample_weight=None):
        warnings.warn("sticks of class 0 bind", ConvergenceWarning, stacklevel=2)
        return super().fit(X, y)


def test_troubles_of_a_blends_models_which_its_weights_know_are_not_told_of_codes():
    X, y = np.array([[0.0], [1.0], [5.0], [6.0]]), ["no", "no", "yes", "yes"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "scipy.optimize", DeprecationWarning)  # scikit-learn's
        BlendClassifier([Troubled(), LogisticRegression()], [1, 1]).fit(X, y)


def test_a_class_in_the_place_of_a_classifier_is_refused_before_any_fit():
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ValueError, match=r"the class GaussianNB.*\{'nb': GaussianNB\(\)\}"):
        compare_models(X, y, models=[{"nb": GaussianNB}])
    with pytest.raises(ValueError, match=r"'nb' with 'GaussianNB', which has no fit"):
        compare_models(X, y, models={"nb": "GaussianNB"})


def test_a_model_that_is_misspelt_is_answered_with_the_one_that_is_meant():
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ValueError, match=r"models='atol' is none .*\(did you mean 'atoll'\?\)"):
        compare_models(X, y, models=["atol"])
    with pytest.raises(ValueError, match=r"without='logistik' .*\(did you mean 'logistic'\?\)"):
        compare_models(X, y, without=["logistik"])


def test_a_default_that_was_compared_with_nothing_is_not_called_the_best():
    said = sentence(Recommendation("atoll", True, 1.0), "atoll", 20, {"atoll": 1.0})
    assert said.startswith("Nothing was compared with atoll")
