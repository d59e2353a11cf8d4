"""Rows with blank numbers have the probabilities of several fillings, on average."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from atoll import (
    AtollClassifier,
    GraphGPClassifier,
    LaplacianRLSClassifier,
    RowChunks,
    explain_row,
    load_model,
    make_preprocessor,
    save_model,
)
from atoll.active import ActiveLearner
from atoll.core.fillings import fillings_of
from atoll.diagnostics import entropy
from atoll.estimators import far_rows

COLUMNS = ["telling", "hinting", "idle"]


def two_kinds(seed, n=300):
    """Two kinds that a column tells, which is blank in two of five rows; thirty labels."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 2
    X = np.column_stack([6.0 * kind, 2.0 * kind, 0.0 * kind]) + rng.standard_normal((n, 3))
    X[rng.random(n) < 0.4, 0] = np.nan
    y = np.full(n, None, dtype=object)
    known = rng.permutation(n)[:30]
    y[known] = kind[known]
    return pd.DataFrame(X, columns=COLUMNS), y, kind


def has_blank(table):
    return table[COLUMNS].isna().any(axis=1).to_numpy()


@pytest.fixture(scope="module")
def fitted():
    """A pipeline of the graph, its table and its labels."""
    table, y, _ = two_kinds(0)
    return make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0)).fit(table, y), (
        table,
        y,
    )


def test_rows_with_blank_numbers_are_wrong_as_often_as_their_probabilities_expect():
    """Filled in once, 55 of these rows are wrong and 26 are expected to be."""
    wrong, expected, variance = np.zeros((3, 2))
    for seed in range(3):
        table, y, kind = two_kinds(seed)
        model = make_pipeline(make_preprocessor(), AtollClassifier(random_state=0)).fit(table, y)
        free = has_blank(table) & np.equal(y, None)
        for i, p in enumerate((model.predict_proba(table), model[-1].label_distributions_)):
            surest = p[free].max(axis=1)
            wrong[i] += np.sum(p[free].argmax(axis=1) != kind[free])
            expected[i] += np.sum(1.0 - surest)
            variance[i] += np.sum(surest * (1.0 - surest))
    assert (expected > 40.0).all()
    assert (np.abs(wrong - expected) < 3.0 * np.sqrt(variance)).all()


@pytest.mark.parametrize("kind", [GraphGPClassifier, LaplacianRLSClassifier])
def test_rows_without_blanks_keep_their_probabilities_and_others_have_averages(kind):
    table, y, _ = two_kinds(1)
    step = make_preprocessor(category_weight=1.0).fit(table)
    X = step.transform(table)
    once = kind(random_state=0) if "random_state" in kind().get_params() else kind()
    once.fit(np.asarray(X), y)
    model = type(once)(**once.get_params()).fit(X, y)
    blank, free = has_blank(table), np.equal(y, None)
    p, plain = model.predict_proba(X), once.predict_proba(np.asarray(X))
    np.testing.assert_array_equal(p[~blank], plain[~blank])
    np.testing.assert_array_equal(
        model.label_distributions_[~blank | ~free], once.label_distributions_[~blank | ~free]
    )
    each = [once.predict_proba(rows) for rows in fillings_of(X).each(np.asarray(X), slice(None))]
    np.testing.assert_allclose(p[blank], np.mean(each, axis=0), atol=1e-12)
    assert np.abs(p[blank] - plain[blank]).max() > 0.05


def test_all_that_is_said_of_a_row_agrees(fitted):
    model, (table, y) = fitted
    p, head, X = model.predict_proba(table), model[-1], model[0].transform(table)
    np.testing.assert_array_equal(model.predict(table), model.classes_[p.argmax(axis=1)])
    np.testing.assert_array_equal(head.predict_entropy(X), entropy(p))
    free = has_blank(table) & np.equal(y, None)
    np.testing.assert_allclose(head.label_distributions_[free], p[free], atol=1e-12)
    np.testing.assert_array_equal(head.transduction_[free], model.predict(table)[free])
    assert head.estimate_error(X).by_model == pytest.approx(np.mean(1.0 - p.max(axis=1)))
    row = int(np.flatnonzero(free)[0])
    for found in (explain_row(model, table, row), head.explain_row(row)):
        np.testing.assert_allclose(found.proba, p[row], atol=1e-12)


def test_new_rows_in_blocks_have_the_probabilities_of_the_whole(fitted, tmp_path, monkeypatch):
    model, _ = fitted
    table, _, _ = two_kinds(7)
    p = model.predict_proba(table)
    parts = [model.predict_proba(table.iloc[i : i + 41]) for i in range(0, len(table), 41)]
    np.testing.assert_allclose(np.concatenate(parts), p, atol=1e-12)
    table.to_csv(tmp_path / "rows.csv", index=False)
    chunks = RowChunks.from_csv(tmp_path / "rows.csv", chunk_rows=70)
    np.testing.assert_allclose(model.predict_proba(chunks), p, atol=1e-12)
    monkeypatch.setattr(far_rows, "PREDICTED_ROWS", 50)  # as many rows are, where a bar is shown
    head = model[-1]
    monkeypatch.setattr(head, "verbose", True)
    np.testing.assert_allclose(head.predict_proba(model[0].transform(table)), p, atol=1e-12)


def test_a_saved_pipeline_averages_to_the_bit(fitted, tmp_path):
    model, (table, _) = fitted
    save_model(model, tmp_path / "model.atoll")
    found = load_model(tmp_path / "model.atoll").predict_proba(table)
    np.testing.assert_array_equal(found, model.predict_proba(table))


def test_numbers_beside_texts_are_averaged_over_fillings():
    table, y, _ = two_kinds(2, 120)
    words = np.random.default_rng(3).choice(["rain", "fog", "sun", "hail", "wind"], (len(table), 6))
    table["note"] = [f"{' '.join(row)} on day {i}" for i, row in enumerate(words)]
    model = make_pipeline(make_preprocessor(texts=["note"]), GraphGPClassifier(random_state=0))
    X = model.fit(table, y)[0].transform(table)
    p, head = model.predict_proba(table), model[-1]
    each = [head.predict_proba(rows) for rows in fillings_of(X).each(X, slice(None))]
    np.testing.assert_allclose(p[has_blank(table)], np.mean(each, axis=0), atol=1e-12)


def test_a_saved_learner_knows_the_fillings_of_its_rows(tmp_path):
    table, y, _ = two_kinds(3, 120)
    X = make_preprocessor(category_weight=1.0).fit(table).transform(table)
    learner = ActiveLearner(GraphGPClassifier(), unlabelled=None, random_state=0).fit(X, y)
    learner.save(tmp_path / "loop.atoll")
    found = ActiveLearner.load(tmp_path / "loop.atoll")
    np.testing.assert_array_equal(found.proba_, learner.proba_)
    plain = ActiveLearner(GraphGPClassifier(), unlabelled=None, random_state=0)
    plain.fit(np.asarray(X), y)
    free = has_blank(table) & np.equal(y, None)
    assert np.abs(plain.proba_ - learner.proba_)[free].max() > 0.05


def test_a_row_that_cannot_be_read_leaves_the_others_of_its_chunk_their_fillings(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2
    table = pd.DataFrame(rng.normal(size=(60, 2)) + 3.0 * truth[:, None], columns=["x", "z"])
    table.loc[::5, "x"] = np.nan
    y = np.where(np.arange(60) < 12, truth, -1)
    model = make_pipeline(make_preprocessor(), AtollClassifier(random_state=0)).fit(table, y)
    written = table.astype(object)
    written.loc[7, "z"] = "tall"
    written.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.warns(UserWarning, match="cannot be read"):
        found = model.predict_proba(RowChunks.from_csv(tmp_path / "rows.csv", chunk_rows=20))
    others = np.arange(60) != 7
    np.testing.assert_allclose(found[others], model.predict_proba(table)[others], atol=1e-12)
