"""The loop: queries, audits, skips, undo, files, and what it says of the error."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from atoll import make_preprocessor
from atoll.active import STRATEGIES, ActiveLearner
from atoll.datasets import make_crescents
from atoll.estimators import MODELS, GraphGPClassifier, ProbitGPClassifier

pytestmark = pytest.mark.usefixtures("hurried")  # the classifiers are not on trial


class Nearest(ClassifierMixin, BaseEstimator):
    """Classes by distance to their labels' means, with joint draws: a quick stand-in."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.stack([X[y == c].mean(axis=0) for c in self.classes_])
        return self

    def _proba(self, X, means):
        score = np.exp(-np.linalg.norm(X[:, None] - means, axis=2))
        return score / score.sum(axis=1, keepdims=True)

    def predict_proba(self, X):
        return self._proba(X, self.means_)

    def sample_proba(self, X, n_samples=100, *, random_state=None):
        rng = np.random.default_rng(random_state)
        moved = self.means_ + 0.3 * rng.standard_normal((n_samples, *self.means_.shape))
        return np.stack([self._proba(X, means) for means in moved])


@pytest.fixture
def pool():
    return make_crescents(n_samples=80, random_state=0)


def learner_of(pool, n_labels=0, **parameters):
    """A learner with the quick model that has been answered so many times."""
    X, truth = pool
    learner = ActiveLearner(
        parameters.pop("estimator", Nearest()), **({"random_state": 3, "n_draws": 20} | parameters)
    ).fit(X)
    for _ in range(n_labels):
        rows = learner.query().rows
        learner.update(rows, truth[rows])
    return learner


def same(a, b):
    """Whether two queries, or two learners, are alike to the bit."""
    if isinstance(a, ActiveLearner):
        return (
            (a.labels_ == b.labels_).all()
            and np.array_equal(a.proba_, b.proba_)
            and a.estimate_error() == b.estimate_error()
            and same(a.query(3), b.query(3))
        )
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(a, b)]
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in pairs)


# Queries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_seed_and_answers_give_the_same_queries(pool, strategy):
    first = learner_of(pool, 12, strategy=strategy)
    again = learner_of(pool, 12, strategy=strategy)
    assert same(first, again)
    assert same(first.query(6), first.query(6))


def test_it_starts_from_no_label_and_covers_the_rows_first(pool):
    learner = learner_of(pool)
    assert (learner.n_labels_, learner.classes_, learner.estimator_) == (0, [], None)
    assert (learner.predictions_ == None).all()  # noqa: E711
    query = learner.query(3)
    assert len(set(query.rows)) == 3
    assert not query.is_audit.any()
    assert learner.estimate_error().upper == 1.0
    assert not learner.should_stop().stop


def test_one_class_seen_asks_on_without_a_model(pool):
    _, truth = pool
    learner = learner_of(pool)
    rows = np.flatnonzero(truth == 1)[:6]
    learner.update(rows, truth[rows])
    assert learner.estimator_ is None
    assert learner.query().rows[0] not in rows


@pytest.mark.parametrize("n", [1, 5])
def test_a_query_never_asks_a_labelled_row_nor_one_row_twice(pool, n):
    X, truth = pool
    learner = learner_of(pool)
    seen: set[int] = set()
    for _ in range(90 // n):
        rows = learner.query(n).rows
        assert not seen & set(rows.tolist())
        seen |= set(rows.tolist())
        if len(rows) == 0:
            break
        learner.update(rows, truth[rows])
    assert len(seen) == len(X)
    assert learner.should_stop() == (True, 1.0, "Every row has a label.")
    assert learner.estimate_error().errors_left == 0


def test_a_large_pool_is_asked_by_a_random_part(pool):
    learner = learner_of(pool, 6, max_candidates=10)
    assert len(learner.query(8).rows) == 8
    assert len(learner.query(30).rows) == 30


# Audits -------------------------------------------------------------------------------------------


def test_every_fifth_row_is_an_audit_once_there_is_a_model(pool):
    learner = learner_of(pool, 4)
    places = np.flatnonzero(learner.query(20).is_audit)
    assert np.diff(places).tolist() == [5] * (len(places) - 1)
    assert len(places) >= 3


def test_audits_do_not_depend_on_the_strategy():
    """Which rows are audits is settled by the seed, whatever else is asked and answered."""
    pool = make_crescents(n_samples=60, random_state=1)
    first = {}
    for strategy in ("brier", "margin", "typiclust"):
        learner = learner_of(pool, 8, strategy=strategy)
        order = learner._audit_order
        labelled = set(np.flatnonzero(learner.labels_ != None))  # noqa: E711
        audits = [a.row for a in learner._history.audits]
        assert audits == [r for r in order if r in audits]
        first[strategy] = order.tolist()
        query = learner.query(10)
        free = [r for r in order if r not in labelled]
        assert query.rows[query.is_audit].tolist() == free[: query.is_audit.sum()]
    assert len({tuple(order) for order in first.values()}) == 1


def test_an_audit_keeps_the_prediction_from_before_it_was_learnt(pool):
    _, truth = pool
    learner = learner_of(pool, 4, audit_every=2)
    while not learner.query().is_audit[0]:
        rows = learner.query().rows
        learner.update(rows, truth[rows])
    (row,) = learner.query().rows
    before, doubt = learner.predictions_[row], 1.0 - learner.proba_[row].max()
    wrong = 1 - before
    learner.update(row, wrong)
    audit = learner._history.audits[-1]
    assert (audit.row, audit.predicted) == (row, before)
    assert audit.doubt == pytest.approx(doubt, abs=1e-12)
    found = learner.estimate_error()
    assert found.n_wrong >= 1
    with pytest.warns(UserWarning, match="which had the label"):
        learner.update(row, before)  # a slip of the hand is corrected: the audit was right
    assert learner.estimate_error().n_wrong == found.n_wrong - 1
    assert learner.estimate_error().n_audits == found.n_audits


def test_random_rows_are_audits_all_and_none_are_without_audits(pool):
    assert learner_of(pool, 6, strategy="random").query(5).is_audit.all()
    assert not learner_of(pool, 6, audit_every=None).query(20).is_audit.any()


def test_a_row_that_was_not_asked_as_an_audit_is_none(pool):
    X, truth = pool
    learner = learner_of(pool, 6)
    n = learner.estimate_error().n_audits
    query = learner.query(10)
    rows = np.setdiff1d(np.arange(len(X)), [*query.rows, *learner._history.labels])[:4]
    learner.update(rows, truth[rows])
    assert learner.estimate_error().n_audits == n


# Skip, undo, new classes --------------------------------------------------------------------------


def test_a_skipped_row_comes_back_only_when_no_other_is_left(pool):
    X, truth = pool
    learner = learner_of(pool, 5)
    (row,) = learner.query().rows
    learner.skip(row)
    for _ in range(len(X)):
        rows = learner.query().rows
        if rows[0] == row:
            break
        learner.update(rows, truth[rows])
    assert learner.n_labels_ == len(X) - 1
    assert learner.query().rows.tolist() == [row]
    learner.update(row, truth[row])
    assert len(learner.query().rows) == 0


def test_a_new_class_is_remarked_on_where_classes_are_known_by_labels():
    X = np.arange(12.0)[:, None]
    y = np.array(["owl", "hen", *[None] * 10], dtype=object)
    with pytest.warns(UserWarning, match=r"given 'Owl' \(did you mean 'owl'\?\), a class that no"):
        ActiveLearner(random_state=0).fit(X, y).update([5], ["Owl"])
    with pytest.warns(UserWarning, match="given 'robin', a class that no label had so far"):
        ActiveLearner(random_state=0).fit(X, y).update([5], ["robin"])
    with pytest.warns(
        UserWarning, match="'robin', classes that no label had so far; each is taken"
    ):
        ActiveLearner(random_state=0).fit(X, y).update([5, 6], ["robin", "jay"])
    learner = ActiveLearner(random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.update([0, 1], ["owl", "hen"]).update([2], ["robin"])
    with pytest.warns(UserWarning, match="did you mean 'robin'"):
        learner.update([3], ["robbin"])


def test_a_label_that_is_none_of_the_declared_classes_is_remarked_on():
    X = np.arange(12.0)[:, None]
    learner = ActiveLearner(Nearest(), classes=["0", "1"], random_state=0).fit(X)
    with pytest.warns(UserWarning, match=r"given 'O', none of classes=\['0', '1'\].*undo\(\)"):
        learner.update([3, 4], ["0", "O"])
    learner.update([5], ["O"])  # once is enough
    assert learner.classes_ == ["0", "1", "O"]


@pytest.mark.parametrize("act", ["label", "batch", "skip", "new class", "audit"])
def test_undo_restores_everything_to_the_bit(pool, act):
    _, truth = pool
    learner, untouched = learner_of(pool, 9), learner_of(pool, 9)
    query = learner.query(6 if act in ("batch", "audit") else 1)
    if act == "skip":
        learner.skip(query.rows)
    elif act == "new class":
        learner.update(query.rows, [7])
        assert learner.classes_ == [0, 1, 7]
    else:
        learner.update(query.rows, truth[query.rows])
    learner.refit()
    learner.undo()
    assert same(learner, untouched)
    query = learner.query(6)
    learner.update(query.rows, truth[query.rows])  # audits among them count again
    untouched.query(6)
    untouched.update(query.rows, truth[query.rows])
    assert same(learner, untouched)


def test_undo_goes_back_to_the_start_and_no_further(pool):
    learner = learner_of(pool, 3)
    for _ in range(3):
        learner.undo()
    assert learner.n_labels_ == 0
    with pytest.raises(ValueError, match="nothing to undo"):
        learner.undo()


def test_labels_are_withdrawn_as_if_they_had_never_been_given(pool):
    _, truth = pool
    learner, without = learner_of(pool, 3), learner_of(pool, 3)
    first, second = learner.query(6).rows, without.query(6).rows
    assert first.tolist() == second.tolist()
    learner.update(first, truth[first])
    kept = first[1:]
    without.update(kept, truth[kept])
    learner.withdraw([int(first[0])])
    assert same(learner, without)
    assert [audit.row for audit in learner.audits_] == [audit.row for audit in without.audits_]
    every = np.flatnonzero(learner.labels_ != None)  # noqa: E711
    assert learner.withdraw(every).n_labels_ == 0


def test_a_label_of_fit_is_withdrawn_with_a_warning(pool):
    X, truth = pool
    y = np.where(np.arange(80) < 12, truth, -1)
    learner = ActiveLearner(Nearest(), random_state=3, n_draws=20).fit(X, y)
    said = rf"given row 4, labelled {truth[4]} in fit\. .*; update\(rows, labels\) brings it back"
    with pytest.warns(UserWarning, match=said):
        learner.withdraw(4)
    rest = ActiveLearner(Nearest(), random_state=3, n_draws=20)
    rest.fit(X, np.where(np.arange(80) == 4, -1, y))
    assert same(learner, rest)
    assert learner.n_labels_ == 11
    with pytest.warns(UserWarning, match="which had the label"):
        learner.update(5, 1 - truth[5])
    with pytest.warns(UserWarning, match=rf"row 5, labelled {truth[5]} in fit"):
        learner.withdraw(5)
    assert learner.labels_[5] is None


def test_a_row_without_a_label_has_none_to_withdraw(pool):
    learner = learner_of(pool, 3)
    known = np.flatnonzero(learner.labels_ != None)  # noqa: E711
    bare = np.setdiff1d(np.arange(80), known)[:2]
    with pytest.raises(ValueError, match=rf"holds row {bare[0]}, which has no label to withdraw;"):
        learner.withdraw([known[0], bare[0]])
    with pytest.raises(ValueError, match=r"to withdraw \(as 1 more of these rows\); leave"):
        learner.withdraw(bare)
    assert learner.n_labels_ == 3
    assert learner.withdraw([]).n_labels_ == 3


def test_no_answers_are_no_event(pool):
    learner = learner_of(pool, 3)
    learner.update([], []).skip([])
    assert learner.undo().n_labels_ == 2


def test_update_is_quick_and_refit_learns_once(pool):
    _, truth = pool
    learner = learner_of(pool, 6)
    learner.refit()
    model = learner.estimator_
    assert learner.refit().estimator_ is model
    rows = learner.query().rows
    learner.update(rows, truth[rows])
    assert not learner.is_current_
    assert learner._refit.fitted.estimator is model  # still the old one
    assert learner.refit().is_current_
    assert learner.estimator_ is not model


# Models -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        LabelSpreading(kernel="knn"),
    ],
    ids=["supervised", "pipeline", "semi-supervised"],
)
def test_any_classifier_with_probabilities_serves_by_margin_and_says_so(pool, estimator):
    X, truth = pool
    with pytest.warns(UserWarning, match="picks rows by margin, since .* has no joint draws"):
        learner = ActiveLearner(estimator, random_state=0).fit(X, np.where(truth, None, "no"))
    for _ in range(8):
        rows = learner.query().rows
        learner.update(rows, np.where(truth, "yes", "no")[rows])
    assert learner.classes_ == ["no", "yes"]
    assert learner.strategy_.startswith("margin, since ")
    np.testing.assert_allclose(learner.proba_.sum(axis=1), 1.0)
    assert learner.estimator_ is not estimator


@pytest.mark.parametrize(
    "estimator",
    [
        GraphGPClassifier(n_draws=40),
        make_pipeline(StandardScaler(), GraphGPClassifier(n_draws=40)),
        ProbitGPClassifier(inference="vb"),
    ],
    ids=["graph", "pipeline", "supervised"],
)
def test_classifiers_of_the_library_look_ahead(pool, estimator):
    X, truth = pool
    learner = ActiveLearner(estimator, random_state=0, n_draws=30, target_error=0.2).fit(X)
    for _ in range(3):
        rows = learner.query(3).rows
        learner.update(rows, truth[rows])
    assert learner.strategy_ == "brier"
    query = learner.query(2)
    assert (query.scores[~query.is_audit] >= 0).all()
    assert (learner.predictions_ == truth).mean() > 0.7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_library_serves(name):
    X, truth = make_crescents(n_samples=30, random_state=0)
    known = MODELS[name]().get_params()
    short = {"n_chains": 2, "n_warmup": 3, "n_samples": 4}
    model = MODELS[name](**{k: v for k, v in short.items() if k in known})
    learner = ActiveLearner(model, classes=[0, 1], n_draws=8, random_state=0).fit(X)
    for _ in range(3):
        rows = learner.query(3).rows
        learner.update(rows, truth[rows])
    assert learner.strategy_ == "brier"
    assert len(learner.query(2).rows) == 2
    assert 0 <= learner.estimate_error().error <= learner.estimate_error().upper <= 1


def test_classes_are_those_declared_and_those_that_turn_up(pool):
    X, _ = pool
    learner = ActiveLearner(Nearest(), classes=["wren", "robin"], random_state=0).fit(X)
    assert learner.classes_ == ["wren", "robin"]
    assert learner.proba_.tolist() == [[0.5, 0.5]] * len(X)
    with pytest.warns(UserWarning, match="'owl', none of classes"):
        learner.update([0, 1], ["robin", "owl"])
    assert learner.classes_ == ["wren", "robin", "owl"]
    assert learner.proba_.shape == (len(X), 3)
    assert (learner.proba_[:, 0] == 0).all()  # the stand-in knows only classes that it has seen


def test_one_label_among_markers_is_one_class(pool):
    X, _ = pool
    y = np.full(len(X), -1)
    y[4] = 1
    assert ActiveLearner(Nearest()).fit(X, y).classes_ == [1]
    assert ActiveLearner(Nearest(), classes=[-1, 1]).fit(X, y).n_labels_ == len(X)
    assert ActiveLearner(Nearest(), unlabelled=1).fit(X, y).classes_ == [-1]


# Files --------------------------------------------------------------------------------------------


def test_a_saved_learner_goes_on_as_the_one_it_was(pool, tmp_path):
    learner = learner_of(pool, 9, estimator=GraphGPClassifier(n_draws=40), classes=[0, 1, 2])
    learner.skip(learner.query().rows)
    query = learner.query(6)
    learner.save(tmp_path / "pool.atoll")
    loaded = ActiveLearner.load(tmp_path / "pool.atoll")
    assert same(loaded, learner)
    assert loaded.query(6).rows.tolist() == query.rows.tolist()
    loaded.undo()
    assert loaded.n_labels_ == 9
    other = ActiveLearner.load(tmp_path / "pool.atoll", estimator=GraphGPClassifier(n_draws=20))
    assert (other.estimator.n_draws, other.n_labels_, other.target_) == (20, 9, "")
    other.save(tmp_path / "other.atoll", target="kind")
    assert ActiveLearner.load(tmp_path / "other.atoll").target_ == "kind"


def test_an_audit_asked_before_saving_is_one_after_loading(pool, tmp_path):
    _, truth = pool
    learner = learner_of(pool, 9, estimator=LogisticRegression(), strategy="margin")
    query = learner.query(5)
    learner.save(tmp_path / "pool.atoll")
    loaded = ActiveLearner.load(tmp_path / "pool.atoll").refit()
    loaded.update(query.rows, truth[query.rows])
    learner.update(query.rows, truth[query.rows])
    assert loaded.estimate_error() == learner.estimate_error()


@pytest.mark.parametrize("kind", ["table", "table with names", "texts"])
def test_a_learner_of_a_table_is_saved_with_it(kind, tmp_path):
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2
    X = pd.DataFrame({"mass": rng.normal(size=60) + 3.0 * truth, "count": rng.integers(0, 5, 60)})
    X.insert(1, "site", np.where(truth == 1, "north", "south"))
    X.loc[::7, "mass"], X.loc[::9, "site"] = np.nan, None
    step = make_preprocessor()
    if kind == "table with names":
        X.index = [f"P{i}" for i in range(60)]
    if kind == "texts":
        X = [("fur tail paw" if k else "star moon sky") + f" w{i % 7}" for i, k in enumerate(truth)]
        step = TfidfVectorizer()
    y = np.where(np.arange(60) < 10, np.array(["x", "y"])[truth], None)
    model = make_pipeline(step, GraphGPClassifier(random_state=0))
    learner = ActiveLearner(model, random_state=0).fit(X, y)
    learner.save(tmp_path / "pool.atoll")
    loaded = ActiveLearner.load(tmp_path / "pool.atoll")
    assert loaded.has_rows(X)
    if kind != "texts":
        assert loaded.has_rows(X.assign(mass=np.nextafter(X["mass"], 9.0)))  # as CSV may have it
        assert not loaded.has_rows(X.assign(mass=X["mass"] + 1e-6))
        assert not loaded.has_rows(X.assign(site=X["site"].str.upper()))
        assert not loaded.has_rows(X.assign(count=X["count"] + 1))
    assert loaded.query(4).rows.tolist() == learner.query(4).rows.tolist()
    np.testing.assert_array_equal(loaded.proba_, learner.proba_)


def test_what_cannot_be_saved_is_said(pool, tmp_path):
    X, _ = pool
    dates = pd.DataFrame({"x": [1.0, 2.0], "when": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    one_column = ColumnTransformer([("x", "passthrough", ["x"])])
    model = make_pipeline(one_column, LogisticRegression())
    learner = ActiveLearner(model, strategy="margin").fit(dates)
    with pytest.raises(ValueError, match="cells should be words, numbers or booleans"):
        learner.save(tmp_path / "dates.atoll")
    own = ActiveLearner(LogisticRegression(), strategy=lambda here: here.candidates).fit(X)
    with pytest.raises(ValueError, match="strategy of your own cannot be saved"):
        own.save(tmp_path / "pool.atoll")
    (tmp_path / "other.txt").write_text("no model")
    with pytest.raises(ValueError, match="is not an atoll model"):
        ActiveLearner.load(tmp_path / "other.txt")


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        ([80], [0], "rows holds 80, and the pool has rows 0 to 79; count rows from 0"),
        ([-1], [0], "rows holds -1"),
        ([1, 1], [0, 1], "names a row twice"),
        ([0.5], [0], "rows must be whole numbers"),
        ([0, 1], [0], "2 rows and 1 labels"),
        ([0], [None], "which means unlabelled"),
        ([0], [-1], "which means unlabelled"),
        ([0], ["cat"], "several types"),
        ([0], [0.5], "continuous"),
        ([0, 1], "ab", "one label for each row, in a sequence, got 'ab'"),
        ([0], pd.DataFrame({"a": ["b"]}), "got DataFrame of shape .1, 1.; give one of its columns"),
        ([0, 1], [["a"], ["b"]], "one label for each row, in a sequence, got list of shape"),
        (0, ["a"], "one label, for one row, got list of shape"),
    ],
)
def test_bad_answers_are_refused_and_change_nothing(pool, rows, labels, message):
    learner = learner_of(pool, 4)
    before = learner.labels_
    with pytest.raises(ValueError, match=message):
        learner.update(rows, labels)
    assert (learner.labels_ == before).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"audit_every": 0}, "audit_every must be None"),
        ({"target_error": 5}, "target_error must be None"),
        ({"confidence": 0.4}, "confidence must be"),
        ({"strategy": "best"}, "strategy must be"),
        ({"classes": "ab"}, "classes must be"),
        ({"classes": ["a", 1]}, "several types"),
        ({"classes": ["a", "a"]}, "twice"),
        ({"n_draws": 1}, "n_draws must be"),
    ],
)
def test_bad_parameters_are_refused_by_name(pool, parameters, message):
    with pytest.raises(ValueError, match=message):
        ActiveLearner(Nearest(), **parameters).fit(pool[0])


def test_a_learner_without_a_pool_says_so():
    with pytest.raises(ValueError, match=r"call fit\(X\) first"):
        ActiveLearner().query()


def test_a_pool_with_labels_for_other_rows_is_refused(pool):
    with pytest.raises(ValueError, match="3 labels and X has 80 rows"):
        ActiveLearner(Nearest()).fit(pool[0], [0, 1, None])


# Stopping -----------------------------------------------------------------------------------------


def test_it_advises_to_stop_only_after_audits_and_for_a_target(pool):
    learner = learner_of(pool, 60, target_error=0.3)
    advice = learner.should_stop()
    assert advice.stop == (advice.probability >= 0.95)
    assert f"of {learner.estimate_error().n_audits} audits" in advice.reason or not advice.stop
    few = learner_of(pool, 8, target_error=0.9)
    assert "more audits must confirm it. An audit is a row" in few.should_stop().reason
    assert not few.should_stop().stop
    assert "No target_error" in learner_of(pool, 8).should_stop().reason


def test_a_table_of_words_or_blanks_is_refused_at_once_with_the_fix():
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "site": list("abab")})
    with pytest.raises(ValueError, match=r"make_pipeline\(make_preprocessor\(\), GraphGPClassif"):
        ActiveLearner(random_state=0).fit(table)
    with pytest.raises(ValueError, match=r"make_pipeline\(make_preprocessor\(\), GraphGPClassif"):
        ActiveLearner(random_state=0).fit([[1.0], [np.nan], [2.0]])
    model = make_pipeline(make_preprocessor(), GraphGPClassifier())
    assert len(ActiveLearner(model, random_state=0).fit(table).query(2).rows) == 2


def test_rows_of_a_frame_that_are_mostly_blank_are_asked_for_last():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((20, 3)), columns=["a", "b", "c"])
    frame.loc[[4, 9], ["a", "b"]] = np.nan
    frame.loc[5, "a"] = np.nan  # less than half
    y = np.array([0, 1, *[None] * 18], dtype=object)
    model = make_pipeline(make_preprocessor(), LogisticRegression())
    learner = ActiveLearner(model, strategy="entropy", random_state=0).fit(frame, y)
    first = learner.query(16)
    assert set(first.rows.tolist()) == set(range(2, 20)) - {4, 9}
    assert first.later.tolist() == [4, 9]
    assert "Rows 4 and 9 are left to the end" in str(first)
    everything = learner.query(18)
    assert everything.rows.tolist()[-2:] == [4, 9]
    assert not len(everything.later)
    learner.update(first.rows, np.arange(16) % 2)
    assert set(learner.query(2).rows.tolist()) == {4, 9}  # nothing else is left
    assert 4 in learner.query(18, later=[]).rows


def test_labels_of_rows_drawn_at_random_are_taken_as_a_fit_takes_them(pool):
    X, truth = pool
    y = np.where(np.arange(80) < 6, truth, -1)
    model = GraphGPClassifier(random_state=0, n_draws=20)
    alone = model.fit(X, y).label_distributions_
    learner = ActiveLearner(model, random_state=0).fit(X, y, picked=False)
    np.testing.assert_allclose(learner.proba_, alone, atol=1e-12)
    assert not np.allclose(ActiveLearner(model, random_state=0).fit(X, y).proba_, alone)
    with pytest.raises(ValueError, match="picked"):
        ActiveLearner(model).fit(X, y, picked="no")


def test_rows_with_names_are_asked_for_and_labelled_by_them(pool, tmp_path):
    X, truth = pool
    names = [f"P{i:03}" for i in range(len(X))]
    frame = pd.DataFrame(X, columns=["u", "v"], index=names)
    y = np.full(len(X), None, dtype=object)
    y[[0, 1, -2, -1]] = truth[[0, 1, -2, -1]]
    learner = ActiveLearner(GraphGPClassifier(random_state=0), random_state=0).fit(frame, y)
    asked = learner.query(2)
    assert asked.names.tolist() == [names[row] for row in asked.rows]
    assert f"row {asked.names[0]}: " in str(asked)
    learner.update(asked.names, truth[asked.rows])
    assert [learner.labels_[row] for row in asked.rows] == truth[asked.rows].tolist()
    learner.skip("P009").update("P010", truth[10])
    assert learner.labels_[10] == truth[10]
    with pytest.raises(ValueError, match="'P999', the name of no row of the pool; its first row"):
        learner.update(["P999"], [0])
    learner.save(tmp_path / "learner.atoll")
    again = ActiveLearner.load(tmp_path / "learner.atoll")
    assert again.query(2).names.tolist() == learner.query(2).names.tolist() != []


def test_numbers_in_an_index_are_no_names(pool):
    X, _ = pool
    frame = pd.DataFrame(X, index=np.arange(len(X))[::-1])
    learner = ActiveLearner(GraphGPClassifier(random_state=0), random_state=0).fit(frame)
    assert not len(learner.query(2).names)
    with pytest.raises(ValueError, match="rows must be whole numbers"):
        learner.update(["3"], [0])


def test_a_label_that_may_mean_none_is_remarked_on_where_a_pool_begins():
    X = np.arange(12.0)[:, None]
    y = ["a", "b", "?", *[None] * 9]
    with pytest.warns(UserWarning, match=r"^y has the label '\?'.*pass unlabelled='\?'"):
        ActiveLearner(random_state=0).fit(X, y)
    ActiveLearner(unlabelled="?", random_state=0).fit(X, y)  # a warning would fail here


# --- new rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [LogisticRegression(), GraphGPClassifier(), Nearest()])
def test_new_rows_are_predicted_in_the_words_and_the_order_of_the_classes(pool, estimator):
    X, truth = pool
    names = np.array(["yes", "no"])[truth]
    new = X[60:] + 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a model without draws picks by margin
        learner = ActiveLearner(estimator, classes=["yes", "no"], random_state=0).fit(X[:60])
    with pytest.raises(ValueError, match="no model yet; label rows of two classes"):
        learner.predict(new)
    rows = [*np.flatnonzero(names[:60] == "no")[:8], *np.flatnonzero(names[:60] == "yes")[:8]]
    learner.update(rows, names[rows])
    p = learner.predict_proba(new)
    assert p.shape == (20, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    expected = np.array(learner.classes_)[p.argmax(axis=1)]
    assert learner.predict(new).tolist() == expected.tolist()
    assert (learner.predict(new) == names[60:]).mean() > 0.7


def test_a_query_for_more_rows_than_are_left_says_so(pool):
    learner = learner_of(pool, 4)
    query = learner.query(1000)
    assert len(query.rows) == 76
    assert str(query).startswith("76 rows to label (of 1000 asked for: no other is left), in")
    assert "asked for" not in str(learner.query(3))


def test_a_mask_of_rows_is_answered_with_their_numbers():
    learner = ActiveLearner(classes=[0, 1]).fit(np.eye(30))
    with pytest.raises(ValueError, match=r"a mask of 30 booleans; .*np\.flatnonzero\(mask\)"):
        learner.update(np.arange(30) < 2, [0, 1])


# --- rows of a filtered table, and labels that may not be meant so -------------------------------


@pytest.fixture
def filtered(pool):
    """A learner of a table's later rows, whose index begins with 30, and their classes."""
    X, truth = pool
    frame = pd.DataFrame(X, columns=["u", "v"]).iloc[30:]
    classes = pd.Series(np.array(["no", "yes"])[truth]).iloc[30:]
    model = GraphGPClassifier(random_state=0)
    return ActiveLearner(model, random_state=0).fit(frame), frame, classes


def test_rows_of_a_filtered_table_are_printed_with_their_index(filtered, tmp_path):
    learner, frame, _ = filtered
    asked = learner.query(2)
    row = int(asked.rows[0])
    assert asked.in_index.tolist() == frame.index[asked.rows].tolist()
    assert f"  row {row}, index {row + 30}: " in str(asked)
    learner.save(tmp_path / "learner.atoll")
    assert str(ActiveLearner.load(tmp_path / "learner.atoll").query(2)) == str(asked)
    whole = ActiveLearner(random_state=0).fit(frame.reset_index(drop=True)).query(2)
    assert "index" not in str(whole)
    assert not len(whole.in_index)


def test_labels_of_other_rows_of_the_table_are_remarked_on(filtered):
    learner, frame, classes = filtered
    rows = [3, 15, 5]
    shown = r"^the index of labels \(33, 45, 35\) is not that of the pool's rows \(63, 75, 65\)"
    with pytest.warns(UserWarning, match=shown + r".*\.iloc\[rows\].*to_numpy\(\)"):
        learner.update([33, 45, 35], classes[[33, 45, 35]])  # by names, though rows are places
    learner.undo()
    with pytest.warns(UserWarning, match="the index of labels"):
        learner.update(rows, classes.iloc[sorted(rows)])  # in another order
    learner.undo()
    for right in (classes.iloc[rows], classes.iloc[rows].reset_index(drop=True)):
        learner.update(rows, right)  # a warning would fail here
        assert learner.labels_[rows].tolist() == classes.iloc[rows].tolist()
        learner.undo()
    array = ActiveLearner(random_state=0).fit(frame.to_numpy())
    array.update(rows, classes.iloc[rows])  # nothing tells which rows these are


def test_a_pool_remarks_on_labels_in_another_order(pool):
    X, truth = pool
    y = pd.Series(np.where(np.arange(len(X)) < 20, truth, None))
    with pytest.warns(UserWarning, match="the index of y has the names of X's rows in another"):
        ActiveLearner(random_state=0).fit(pd.DataFrame(X), y[::-1])


def test_a_label_that_changes_is_remarked_on(filtered, pool):
    learner, _, _ = filtered
    learner.update([3, 4], ["yes", "no"])
    learner.update([4], ["no"])  # the same again: a warning would fail here
    with pytest.warns(
        UserWarning,
        match="'no' for row 3, index 33, which had the label 'yes'. The new label counts; undo()",
    ):
        learner.update([3, 5], ["no", "yes"])
    assert learner.labels_[[3, 5]].tolist() == ["no", "yes"]


def test_audits_count_after_undo_whether_or_not_the_error_was_asked_for(pool):
    _, truth = pool
    found = []
    for asks in (False, True):
        learner = learner_of(pool, 12)
        query = learner.query(10)
        assert query.is_audit.any()
        learner.update(query.rows, truth[query.rows])
        if asks:
            learner.estimate_error()
        learner.undo().update(query.rows, truth[query.rows])
        found.append((learner.audits_, learner.estimate_error()))
    assert found[0] == found[1]
    assert found[1][1].n_audits > 0
