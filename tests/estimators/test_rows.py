"""Rows as users have them: sparse, of single precision, compared by direction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import make_pipeline

from atoll import (
    AtollClassifier,
    GraphGPClassifier,
    RowChunks,
    load_model,
    make_preprocessor,
    save_model,
)
from atoll.active import ActiveLearner
from atoll.core import memory
from atoll.core.rows import unit_rows
from atoll.estimators import CLASSIFIERS, atoll_parts
from atoll.models.average import corroboration, spans, views
from walking import short

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
TAKERS = pytest.mark.parametrize("model", [AtollClassifier, GraphGPClassifier])
OTHERS = [m for m in CLASSIFIERS.values() if m not in (AtollClassifier, GraphGPClassifier)]


def words(rng, n=60, d=80):
    """Counts of words in texts of two kinds, as dense rows, and the kinds."""
    kind = np.arange(n) % 2
    rate = rng.gamma(0.3, size=(2, d))
    return rng.poisson(2.0 * rate[kind]) * rng.uniform(0.9, 1.1, size=(n, d)), kind


def hidden(kind, known=12):
    y = kind.astype(object)
    y[known:] = None
    return y


@TAKERS
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_and_single_rows_give_what_dense_ones_do(model, metric, monkeypatch):
    for module in (spans, views):  # which directions are signal is told by columns at random
        monkeypatch.setattr(module, "N_PERMUTATIONS", 0)
    monkeypatch.setattr(atoll_parts, "PLANE", 100)  # columns of words are not read one by one
    monkeypatch.setattr(atoll_parts, "column_views", lambda *_: {})
    monkeypatch.setattr(corroboration, "FEW_VALUES", 0)
    X, kind = words(np.random.default_rng(0))
    y = hidden(kind)
    fits = [
        (rows, model(metric=metric, n_draws=30, random_state=0).fit(rows[:50], y[:50]))
        for rows in (X, sparse.csr_array(X), X.astype(np.float32))
    ]
    (_, dense), *others = fits
    for (rows, found), tolerance in zip(others, (1e-6, 1e-3)):
        p = found.predict_proba(rows)
        np.testing.assert_allclose(p, dense.predict_proba(X), atol=tolerance)
        np.testing.assert_allclose(
            found.label_distributions_, dense.label_distributions_, atol=tolerance
        )
        assert found.sample_proba(rows[50:], 5, random_state=0).shape == (5, 10, 2)


@TAKERS
def test_cosine_sees_no_lengths(model):
    rng = np.random.default_rng(1)
    X, kind = words(rng)
    y, lengths = hidden(kind), 2.0 ** rng.integers(-9, 10, size=(60, 1))
    plain = model(metric="cosine", n_draws=30, random_state=0).fit(X, y)
    other = model(metric="cosine", n_draws=30, random_state=0).fit(lengths * X, y)
    np.testing.assert_allclose(other.predict_proba(X), plain.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("kind_of", [np.asarray, sparse.csr_array])
def test_rows_of_zeros_have_the_shares_of_the_classes_under_cosine(kind_of):
    X, kind = words(np.random.default_rng(2))
    X[[3, 20, 40]] = 0.0  # with a label and without
    y = hidden(kind)
    model = AtollClassifier(metric="cosine", n_draws=30, random_state=0)
    with pytest.warns(UserWarning, match="1 of 12 labelled rows is all zeros"):
        model.fit(kind_of(X), y)
    p = model.predict_proba(kind_of(np.zeros((2, 80))))
    np.testing.assert_allclose(p[0], model.posterior_.shares, atol=1e-12)
    np.testing.assert_allclose(p[1], p[0])
    np.testing.assert_allclose(model.label_distributions_[40], p[0], atol=1e-12)
    assert model.label_distributions_[3].tolist() == [0.0, 1.0]
    draws = model.sample_proba(kind_of(X[[40, 0]]), 4, random_state=0)
    np.testing.assert_allclose(draws[:, 0], np.tile(model.posterior_.shares, (4, 1)), atol=1e-9)
    graph = GraphGPClassifier(metric="cosine", n_draws=30, random_state=0)
    with pytest.warns(UserWarning, match="1 of 12 labelled rows is all zeros"):
        graph.fit(kind_of(X), y)
    np.testing.assert_array_equal(graph.posterior_._attach(kind_of(np.zeros((1, 80))))[0, :-2], 0.0)
    assert abs(graph.predict_proba(kind_of(np.zeros((1, 80))))[0, 0] - 0.5) < 0.5


def test_zeros_alone_are_refused_under_cosine():
    X, kind = words(np.random.default_rng(3))
    model = AtollClassifier(metric="cosine")
    with pytest.raises(ValueError, match=r"0 row\(s\) that are not all zeros.*metric='euclidean'"):
        model.fit(np.zeros((60, 3)), hidden(kind))
    X[:12] = 0.0
    with pytest.raises(ValueError, match=r"all 12 labelled rows of X are all zeros"):
        model.fit(X, hidden(kind))


def test_columns_of_sparse_rows_and_of_directions_are_not_scaled():
    X, kind = words(np.random.default_rng(4))
    with pytest.raises(ValueError, match=r"scale=True does not go with metric='cosine'"):
        AtollClassifier(metric="cosine", scale=True).fit(X, hidden(kind))
    with pytest.raises(ValueError, match=r"scale=True does not go with a sparse X"):
        AtollClassifier(scale=True).fit(sparse.csr_array(X), hidden(kind))
    unlike = X * np.logspace(-3, 3, 80)
    assert not AtollClassifier(metric="cosine", n_draws=20).fit(unlike, hidden(kind)).scaled_


@TAKERS
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_hundred_thousand_columns_are_never_made_dense(model, metric, monkeypatch):
    rng = np.random.default_rng(5)
    X, kind = words(rng)
    d = 100_000
    places = np.sort(rng.choice(d, 80, replace=False))
    wide = sparse.csr_array(X)
    wide = sparse.csr_array((wide.data, places[wide.indices], wide.indptr), shape=(60, d))
    whole = sparse.csr_array.toarray

    def checked(self, *given, **named):
        assert d not in self.shape, "a sparse table was made dense"
        return whole(self, *given, **named)

    monkeypatch.setattr(sparse.csr_array, "toarray", checked)
    monkeypatch.setattr(sparse.csr_array, "todense", checked)
    found = model(metric=metric, n_draws=30, random_state=0).fit(wide, hidden(kind))
    assert np.mean(found.predict(wide) == kind) > 0.9
    narrow = model(metric=metric, n_draws=30, random_state=0).fit(sparse.csr_array(X), hidden(kind))
    np.testing.assert_allclose(found.label_distributions_, narrow.label_distributions_, atol=1e-6)


@TAKERS
def test_beyond_the_graph_sparse_rows_are_attached(model):
    X, kind = words(np.random.default_rng(6), n=150)
    wide = sparse.csr_array(X)
    found = model(metric="cosine", max_graph_rows=100, n_draws=30, random_state=0, warm_start=True)
    assert found.fit(wide, hidden(kind)).n_graph_rows_ == 100
    assert np.mean(found.transduction_ == kind) > 0.9
    y = hidden(kind, known=20)
    y[140:] = kind[140:]  # some of them are not on the graph that is kept
    assert np.mean(found.fit(wide, y).transduction_ == kind) > 0.9


@TAKERS
def test_a_model_of_sparse_rows_is_saved_and_predicts_the_same(model, tmp_path):
    X, kind = words(np.random.default_rng(7))
    found = model(metric="cosine", n_draws=30, random_state=0)
    found.fit(sparse.csr_array(X), hidden(kind))
    save_model(found, tmp_path / "words.atoll")
    again = load_model(tmp_path / "words.atoll")
    new = sparse.csr_array(X[:9])
    np.testing.assert_array_equal(again.predict_proba(new), found.predict_proba(new))


@pytest.mark.parametrize("model", OTHERS, ids=lambda m: m.__name__)
def test_other_models_refuse_sparse_rows_in_a_line_with_the_way_out(model):
    X, kind = words(np.random.default_rng(8))
    message = rf"X is sparse, and {model.__name__} takes dense rows only.*TruncatedSVD"
    with pytest.raises(ValueError, match=message) as refusal:
        short(model).fit(sparse.csr_array(X), hidden(kind))
    assert "\n" not in str(refusal.value)


def test_other_forms_of_sparse_rows_are_read_and_left_alone():
    X, kind = words(np.random.default_rng(9))
    y = hidden(kind)
    first = AtollClassifier(n_draws=20, random_state=0).fit(sparse.csr_array(X), y)
    for form in (sparse.csc_matrix, sparse.coo_array):
        found = AtollClassifier(n_draws=20, random_state=0).fit(form(X), y)
        np.testing.assert_array_equal(found.label_distributions_, first.label_distributions_)
    twice = sparse.csr_array((np.r_[1.0, 2.0], np.r_[0, 0], np.r_[0, 2]), shape=(1, 80))
    once = sparse.csr_array((np.r_[3.0], np.r_[0], np.r_[0, 1]), shape=(1, 80))
    np.testing.assert_array_equal(first.predict_proba(twice), first.predict_proba(once))
    assert twice.nnz == 2
    bad = sparse.csr_array(X)
    at = bad.indptr[4]
    for value, said in ((np.nan, r"NaN in 1 row: 4"), (np.inf, r"infinity \(inf\) in 1 row: 4")):
        bad.data[at] = value
        with pytest.raises(ValueError, match=rf"X contains {said}; column: {bad.indices[at]}\."):
            AtollClassifier().fit(bad, y)
    with pytest.raises(ValueError, match=r"X is sparse, and metric='precomputed'"):
        GraphGPClassifier(metric="precomputed").fit(sparse.csr_array(np.eye(60)), y)


@TAKERS
def test_single_precision_is_kept_in_the_fitted_model(model):
    X, kind = words(np.random.default_rng(10))
    found = model(n_draws=20, random_state=0).fit(X.astype(np.float32), hidden(kind))
    posterior = found.posterior_
    rows = posterior.rows if model is GraphGPClassifier else posterior.views[0].rows
    assert rows.dtype == np.float32
    assert found.predict_proba(X.astype(np.float32)).dtype == np.float64


@TAKERS
@pytest.mark.parametrize("size", [1e16, 1e30, 1e-25])
def test_single_rows_whose_squares_leave_their_numbers_are_of_double_precision(model, size):
    X, kind = words(np.random.default_rng(10))
    single = (X * size).astype(np.float32)
    predicted = []
    for rows in (single, single.astype(np.float64)):
        fitted = model(n_draws=20, random_state=0, metric="euclidean").fit(rows, hidden(kind))
        predicted.append(fitted.predict_proba(rows))
    np.testing.assert_array_equal(*predicted)
    chunks = RowChunks.from_arrays(single, hidden(kind), chunk_rows=20)
    fitted.fit(chunks)
    assert np.mean(fitted.predict(single) == kind) > 0.8


def test_a_pool_of_sparse_rows_is_labelled_in_a_loop(tmp_path):
    X, kind = words(np.random.default_rng(11))
    pool = sparse.csr_array(X)
    model = GraphGPClassifier(metric="cosine", n_draws=20)
    learner = ActiveLearner(model, classes=[0, 1], random_state=0).fit(pool)
    for _ in range(4):
        asked = learner.query(2).rows
        learner.update(asked, kind[asked])
    assert np.mean(learner.predictions_ == kind) > 0.8
    assert learner.has_rows(pool)
    assert not learner.has_rows(2 * pool)
    learner.save(tmp_path / "loop.atoll")
    assert ActiveLearner.load(tmp_path / "loop.atoll").has_rows(pool)


def test_sparse_rows_go_through_a_pipeline_that_makes_them_few():
    X, kind = words(np.random.default_rng(12))
    model = make_pipeline(TruncatedSVD(5, random_state=0), AtollClassifier(random_state=0))
    assert np.mean(model.fit(sparse.csr_array(X), hidden(kind)).predict(X) == kind) > 0.8


@TAKERS
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("of_sparse", [True, False])
def test_rows_are_predicted_sparse_or_dense_whatever_the_fit_had(
    model, metric, of_sparse, tmp_path
):
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 30), density=0.2, rng=rng, format="csr")
    y = np.full(60, -1)
    y[:6] = [0, 1, 0, 1, 0, 1]
    fitted = model(metric=metric, n_draws=20, random_state=0)
    fitted.fit(X if of_sparse else X.toarray(), y)
    save_model(fitted, tmp_path / "rows.atoll")
    for found in (fitted, load_model(tmp_path / "rows.atoll")):
        np.testing.assert_array_equal(found.predict_proba(X.toarray()), found.predict_proba(X))
        np.testing.assert_array_equal(found.predict(X.toarray()), found.predict(X.tocoo()))
    fitted.fit(X.toarray() if of_sparse else X, y)  # the last fit counts
    np.testing.assert_array_equal(fitted.predict_proba(X.toarray()), fitted.predict_proba(X))


@TAKERS
def test_sparse_rows_are_predicted_after_a_fit_in_chunks(model):
    X, kind = words(np.random.default_rng(0))
    chunks = RowChunks.from_arrays(X, np.where(np.arange(60) < 12, kind, -1), chunk_rows=20)
    fitted = model(metric="euclidean", n_draws=20, random_state=0).fit(chunks)
    np.testing.assert_array_equal(
        fitted.predict_proba(sparse.csr_array(X)), fitted.predict_proba(X)
    )


def test_sparse_rows_that_would_be_too_many_as_dense_ones_are_refused(monkeypatch):
    X, kind = words(np.random.default_rng(0))
    fitted = GraphGPClassifier(n_draws=20, random_state=0).fit(X, hidden(kind))
    monkeypatch.setattr(memory, "physical_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"a dense array of 60 rows.*Pass fewer rows at a time"):
        fitted.predict(sparse.csr_array(X))


@pytest.mark.filterwarnings("ignore:Far outside what the fit saw:UserWarning")
def test_rows_far_away_are_predicted_by_a_model_of_single_rows():
    X = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    y = np.full(60, -1)
    y[:6] = [0, 1, 0, 1, 0, 1]
    for model in (GraphGPClassifier, AtollClassifier):
        fitted = model(n_draws=20, random_state=0).fit(X, y)
        p = fitted.predict_proba(np.full((2, 3), 1e100))
        np.testing.assert_allclose(p.sum(axis=1), 1.0)


DAYS = pd.date_range("2020-01-01", periods=6)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (DAYS, "column 'c' holds dates"),
        (DAYS.to_period("M"), "column 'c' holds dates"),
        (pd.Series(DAYS).astype("timestamp[ns][pyarrow]"), "column 'c' holds dates"),
        (DAYS - DAYS[0], "column 'c' holds durations"),
        (pd.Series(DAYS - DAYS[0]).astype("duration[ns][pyarrow]"), "column 'c' holds durations"),
        (pd.interval_range(0, 6), "column 'c' holds intervals"),
        (pd.Categorical(["a", "b"] * 3), "Cannot cast|could not convert"),
        (pd.array(["a", "b"] * 3, dtype="string"), "could not convert"),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "Int64"])
def test_what_is_no_number_is_refused_with_the_fix(cells, said, dtype):
    frame = pd.DataFrame({"x": pd.array(np.arange(6), dtype=dtype), "c": cells})
    with pytest.raises(ValueError, match=rf"no numbers \(({said}).*make_preprocessor"):
        AtollClassifier().fit(frame, [0, 1, None, 0, 1, None])


@pytest.mark.parametrize(
    ("unit", "said"), [("datetime64[D]", "dates"), ("timedelta64[D]", "durat")]
)
def test_arrays_of_times_are_refused_as_columns_of_them_are(unit, said):
    times = np.arange(12).astype(unit).reshape(6, 2)
    with pytest.raises(ValueError, match=rf"no numbers \({said}.*make_preprocessor"):
        AtollClassifier().fit(times, [0, 1, None, 0, 1, None])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, np.float32])
def test_rows_of_length_one_are_compared_by_their_directions(form):
    X, kind = words(np.random.default_rng(0))
    X[20] = 0.0  # a text without a known word
    unit = form(unit_rows(X))
    found = AtollClassifier(n_draws=20, random_state=0).fit(unit, hidden(kind))
    told = AtollClassifier(metric="cosine", n_draws=20, random_state=0).fit(unit, hidden(kind))
    assert found.metric_ == "cosine"
    np.testing.assert_array_equal(found.label_distributions_, told.label_distributions_)
    assert clone(found).metric == "auto"


@pytest.mark.filterwarnings("ignore:AtollClassifier. no column of X varies")
def test_rows_of_other_lengths_and_of_few_columns_are_compared_by_their_distances():
    X, kind = words(np.random.default_rng(0))
    unit = unit_rows(X)
    unit[-1] *= 1.001  # which the first glance at some rows may miss
    angle = np.linspace(0.0, 6.0, 60)
    plane = np.column_stack([np.cos(angle), np.sin(angle)])
    for rows in (X, unit, plane, np.zeros((60, 4))):
        found = AtollClassifier(n_draws=20, random_state=0).fit(rows, hidden(kind))
        assert found.metric_ == "euclidean"


def test_graphs_are_likelier_where_rows_are_directions():
    X, kind = words(np.random.default_rng(0))
    model = AtollClassifier(n_draws=20, random_state=0)

    def odds(metric):  # before the labels, beside those of nothing
        found = model.set_params(metric=metric).fit(unit_rows(X), hidden(kind)).explain()
        before = {one.name: one.weight / np.exp(one.log_odds) for one in found.assumptions}
        return {name: one / before["nothing"] for name, one in before.items()}

    by_direction, by_distance = odds("cosine"), odds("euclidean")
    assert by_direction["neighbours"] / by_distance["neighbours"] == pytest.approx(4.0)
    assert by_direction["line"] / by_distance["line"] == pytest.approx(0.1)


def test_masked_cells_are_refused_by_classifiers_and_filled_in_by_the_preprocessor():
    X = np.ma.masked_array(np.arange(60.0).reshape(30, 2), mask=False)
    y = np.ma.masked_array([0, 1] * 15, mask=[False] * 6 + [True] * 24)
    with_none = AtollClassifier(n_draws=20, random_state=0).fit(X, [*y[:6].tolist(), *[None] * 24])
    masked = AtollClassifier(n_draws=20, random_state=0).fit(X, y)
    np.testing.assert_array_equal(masked.label_distributions_, with_none.label_distributions_)
    X[3, 1] = np.ma.masked
    with pytest.raises(ValueError, match=r"X is masked in 1 cell\..*make_preprocessor\(\)"):
        AtollClassifier().fit(X, y)
    blank = np.where(X.mask, np.nan, X.data)
    np.testing.assert_array_equal(
        make_preprocessor().fit_transform(X), make_preprocessor().fit_transform(blank)
    )
