from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from atoll import GraphGPClassifier, make_preprocessor
from atoll import explain_row as explain_table_row
from atoll.datasets import hide_labels, make_crescents
from atoll.estimators import AtollClassifier, ProbitGPClassifier
from atoll.estimators.row_explanation import (
    NearLabel,
    RowExplanation,
    _worth_listing,
    explain_row,
)
from atoll.models.label_pulls import terms, towards

X, TRUTH = make_crescents(80, random_state=0)
NAMES = np.array(["low", "top"])[TRUTH]
Y = hide_labels(NAMES, per_class=3, marker=None, random_state=0)


@pytest.fixture(scope="module")
def probit():
    return ProbitGPClassifier(inference="vb", random_state=0).fit(X, Y)


def test_what_a_label_contributes_is_what_a_fit_without_it_lacks(probit):
    found = probit.explain_row(11, n_labels=2)
    for label in found.near:
        y = Y.copy()
        assert y[label.row] == label.label
        y[label.row] = None
        expected = clone(probit).fit(X, y).predict_proba(X[11:12])[0]
        np.testing.assert_allclose(label.without, expected, rtol=1e-10)
    y = Y.copy()
    y[[label.row for label in found.near]] = None
    if len(set(y) - {None}) == 2:
        expected = clone(probit).fit(X, y).predict_proba(X[11:12])[0]
        np.testing.assert_allclose(found.without_all, expected, rtol=1e-10)
    assert "without it" in str(found)
    assert re.search(rf"^{found.near[0].row} +(low|top) ", str(found), re.MULTILINE)


def test_a_model_of_a_data_frame_is_explained_without_a_warning():
    frame = pd.DataFrame(X, columns=["u", "v"])
    model = AtollClassifier(random_state=0).fit(frame, Y)
    plain = AtollClassifier(random_state=0).fit(X, Y)
    found, other = model.explain_row(11), plain.explain_row(11)
    assert str(found).replace("on v:", "on column 1:") == str(other)


def test_near_is_along_the_graph_and_not_as_the_crow_flies():
    """Two arms of a horseshoe: the end of the other arm is near, but a long way off."""
    angle = np.linspace(0, np.pi, 60)
    arch = np.column_stack([np.cos(angle), np.sin(angle)])
    y = np.full(60, None, dtype=object)
    y[0], y[59], y[30] = "a", "b", "a"
    squeezed = arch * [0.05, 3.0]
    model = AtollClassifier(scale=False, random_state=0, classes=["a", "b"])
    with pytest.warns(ConvergenceWarning, match="unlike scales"):
        model.fit(squeezed, y)
    found = explain_row(model, squeezed[3:4], squeezed, y, n_labels=3)
    length = {label.row: label.length for label in found.near}
    assert min(length, key=lambda row: length[row]) == 0
    assert all(label.pull is not None for label in found.near)
    assert "50% towards a (+)" in found.summary()


def test_a_labelled_row_knows_its_own_label():
    model = AtollClassifier(random_state=0).fit(X, Y)
    row = int(np.flatnonzero([label is not None for label in Y])[0])
    found = model.explain_row(row)
    assert row in [label.row for label in found.near]
    assert found.own_label == Y[row]
    assert f"It, or a row just like it, was labelled {Y[row]} in the fit" in str(found)


def test_a_labelled_row_is_no_step_from_itself_and_steps_and_distances_are_explained(probit):
    """It was one step from itself, and one more from all others."""
    known = [row for row, label in enumerate(Y) if label is not None]
    found = explain_row(probit, X[known[0]][None], X, Y, n_labels=6, refit=False)
    steps = {label.row: label.n_steps for label in found.near}
    assert steps[known[0]] == 0
    beside = explain_row(probit, X[known[0]][None] + 1e-9, X, Y, n_labels=6, refit=False)
    for label in beside.near:  # a step to the row itself, and on from there
        assert label.n_steps >= steps[label.row]
        assert steps[label.row] > 0 or label.n_steps == 1
    assert "distance is the length of that way." in str(found)
    without = [label._replace(n_steps=-1) for label in found.near]
    assert "as the crow flies" in str(found._replace(near=tuple(without)))


def test_the_only_label_of_a_class_cannot_be_left_out():
    y = np.full(80, None, dtype=object)
    y[0], y[int(np.flatnonzero(TRUTH[0] != TRUTH)[0])] = NAMES[0], NAMES[TRUTH[0] != TRUTH][0]
    model = ProbitGPClassifier(inference="vb", random_state=0).fit(X, y)
    found = model.explain_row(X[5], n_labels=2)
    assert [label.without for label in found.near] == [None, None]
    assert found.without_all is None


def test_a_row_out_of_range_is_named(probit):
    with pytest.raises(ValueError, match="row must be from 0 to 79, got 80"):
        probit.explain_row(80)
    with pytest.raises(ValueError, match="n_labels must be a whole number"):
        probit.explain_row(1, n_labels=0)


def test_a_sparse_row_has_the_ways_of_the_same_dense_one():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((60, 12)) < 0.4, rng.random((60, 12)), 0.0)
    dense[np.arange(60), np.arange(60) % 2] += 2.0
    y = np.where(np.arange(60) % 2, "odd", "even").astype(object)
    y[8:] = None
    thin = sparse.csr_array(dense)
    model = AtollClassifier(metric="cosine", random_state=0).fit(thin, y)
    found = explain_row(model, thin[[20]], thin, y)
    same = AtollClassifier(metric="cosine", random_state=0).fit(dense, y)
    expected = explain_row(same, dense[20:21], dense, y)
    found, expected = (part._replace(near=sorted(part.near)) for part in (found, expected))
    assert [one.row for one in found.near] == [one.row for one in expected.near]
    np.testing.assert_allclose(
        [one.length for one in found.near], [one.length for one in expected.near], rtol=1e-9
    )
    assert all(one.pull is not None for one in found.near)


def test_the_labels_listed_are_those_that_pull_hardest_and_the_nearest():
    model = AtollClassifier(random_state=0).fit(X, hide_labels(NAMES, per_class=12, random_state=1))
    every, few = model.explain_row(11, n_labels=24), model.explain_row(11, n_labels=3)
    pulls = [abs(label.pull) for label in every.near]
    assert pulls == sorted(pulls, reverse=True)
    assert np.isclose(sum(pulls), 1.0)
    nearest = min(every.near, key=lambda label: label.length)
    others = [label for label in every.near if label.row != nearest.row]
    towards = next(label.row for label in others if label.pull > 0)
    strongest = next(label.row for label in others if label.row != towards)
    assert {label.row for label in few.near} == {nearest.row, towards, strongest}


def test_what_a_row_owes_its_class_to_is_listed_though_more_pulls_the_other_way():
    ways = [(row, 1, float(row)) for row in range(9)]
    pulls = {row: -0.2 + row / 100 for row in range(6)} | {6: 0.05, 7: 0.03, 8: 0.01}
    listed = {way[0] for way in _worth_listing(ways, pulls, 5)}
    assert listed == {0, 1, 2, 6, 7}


@pytest.mark.parametrize("class_prior", [None, {"low": 0.3, "top": 0.7}])
def test_the_pulls_that_are_shown_add_up_and_are_told_from_the_probability(class_prior):
    y = hide_labels(NAMES, per_class=12, random_state=1)
    model = AtollClassifier(random_state=0, class_prior=class_prior).fit(X, y)
    found, every = model.explain_row(11, n_labels=5), model.explain_row(11, n_labels=24)
    listed = [label.pull for label in found.near]
    assert found.others.n == 19
    assert np.isclose(sum(map(abs, listed)) + found.others.towards + found.others.away, 1.0)
    header, rows = found.table()
    assert rows[-1][:2] == ["", "19 others"]
    assert header[4] == "pull"
    shown = [int(part) for row in rows for part in re.findall(r"[+-]\d+", row[4])]
    assert abs(sum(map(abs, shown)) - 100) <= len(shown) / 2  # but for rounding
    assert every.others == (0, 0.0, 0.0)
    assert len(every.table()[1]) == 24
    towards = sum(label.pull for label in every.near if label.pull > 0)
    name = found.classes[found.code]
    before = 1 / 2 if class_prior is None else class_prior[name]
    away = max(1.0 - towards, 0.0)  # not "-0%" where rounding leaves less than nothing
    assert f"{towards:.0%} towards {name} (+) and {away:.0%} away from it" in str(found)
    assert f"not parts of the probability, which was {before:.2f} before any label" in str(found)


def test_a_label_of_another_class_that_pulls_towards_the_class_is_put_in_words():
    """Of a line, a label on one side says as much of the other side: the slope is one number."""
    line = np.column_stack([np.linspace(-1, 1, 40), np.zeros(40)])
    added = terms(np.array([[1.0], [0.0]]), line[30], line[[2, 37]], np.array([0, 1]))
    assert (towards(added, 1) > 0).all()
    near = tuple(
        NearLabel(row, name, 3, 1.0, pull, None)
        for row, name, pull in [(37, "top", 0.5), (2, "low", 0.4), (5, "low", -0.1)]
    )
    found = RowExplanation(np.array(["low", "top"]), np.array([0.1, 0.9]), near, None)
    said = "that it is not top there speaks for top here"
    assert said in found.summary()
    assert said not in found._replace(near=near[::2]).summary()
    turned = found._replace(near=(near[0]._replace(pull=-0.3),))
    assert "speaks against top here" in turned.summary()


def test_a_label_that_no_path_leads_to_is_said_to_have_none():
    far = NearLabel(0, "a", -1, 2.0, None, None)
    _, (cells,) = RowExplanation(np.array(["a", "b"]), np.array([0.6, 0.4]), (far,), None).table()
    assert cells == ["0", "a", "no path", "(2)"]


def test_a_strong_pull_from_afar_is_put_in_words():
    near = (NearLabel(5, "low", 6, 4.0, -0.5, None), NearLabel(3, "top", 1, 1.0, 0.2, None))
    found = RowExplanation(np.array(["low", "top"]), np.array([0.1, 0.9]), near, None)
    said = "The strongest pull is not that of a near label"
    assert said in found.summary()
    assert said not in found._replace(near=(near[0]._replace(length=1.2), near[1])).summary()
    assert said not in found._replace(near=(near[0], near[1]._replace(pull=0.45))).summary()


def test_a_probability_short_of_one_is_not_said_to_be_one():
    classes, near = np.array(["low", "top"]), (NearLabel(5, "low", 6, 4.0, -0.5, None),)
    said = RowExplanation(classes, np.array([0.0008, 0.9992]), near, None).headline()
    assert said == "top with probability more than 0.99, then low with less than 0.01."
    assert (
        RowExplanation(classes, np.array([0.02, 0.98]), near, None).headline()
    ) == "top with probability 0.98, then low with 0.02."


def test_a_pipeline_of_words_that_ends_in_a_classifier_is_explained():
    texts = ["cat dog purr", "dog bark cat", "star moon sky", "moon sun sky", "cat purr", "sky sun"]
    y = ["pet", "pet", "space", "space", None, None]
    model = make_pipeline(TfidfVectorizer(), GraphGPClassifier(metric="cosine", random_state=0))
    found = explain_table_row(model.fit(texts, y), texts, 4, n_labels=2)
    assert found.words == ("purr", "cat")
    assert found.near[0].row == 0
    assert found.shared[0] == ("purr", "cat")


def test_words_such_as_the_are_shared_only_where_no_others_are():
    texts = ["the cat or the dog of the", "the or of a cat", "sky on the moon", "the or of"]
    y = ["pet", "pet", "space", None]
    model = make_pipeline(TfidfVectorizer(), GraphGPClassifier(metric="cosine", random_state=0))
    model.fit(texts, y)
    of_first = explain_table_row(model, texts, 0, n_labels=3)
    shared = dict(zip((label.row for label in of_first.near), of_first.shared))
    assert shared[1] == ("cat",)
    of_last = explain_table_row(model, texts, 3, n_labels=3)
    shared = dict(zip((label.row for label in of_last.near), of_last.shared))
    assert shared[2] == ("the",)
    with pytest.raises(ValueError, match="type Pipeline that ends in LogisticRegression"):
        explain_table_row(make_pipeline(LogisticRegression()), X, 2)


def test_rows_with_names_are_listed_by_them():
    names = [f"P{i:03}" for i in range(80)]
    frame = pd.DataFrame(X, columns=["u", "v"], index=names)
    model = GraphGPClassifier(random_state=0).fit(frame, Y)
    found = model.explain_row("P011")
    assert [cells[0] for cells in found.table()[1][:5]] == [names[one.row] for one in found.near]
    both = make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0)).fit(frame, Y)
    found = explain_table_row(both, frame, "P011")
    assert found.names == tuple(names[one.row] for one in found.near)
    others = frame.iloc[::-1].rename(index=lambda name: f"Q{name}")  # not the rows of the fit
    assert explain_table_row(both, others, "QP011").names == ()
    assert found.near == explain_table_row(both, others, "QP011").near
    numbered = frame.set_axis(np.arange(80)[::-1])  # would be taken for places of rows
    assert GraphGPClassifier(random_state=0).fit(numbered, Y).explain_row(11).names == ()


def test_what_is_not_rows_and_labels_is_refused_in_words(probit):
    with pytest.raises(ValueError, match=r"by name: explain_row\(16, n_labels=24\)"):
        probit.explain_row(16, 24)
    with pytest.raises(ValueError, match="y must be the labels of the rows X"):
        probit.explain_row(16, X)


def test_columns_that_tell_the_class_are_named_and_others_are_not():
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], 60)
    table = pd.DataFrame(
        {"noise": rng.normal(size=120), "width": 4.0 * kind + rng.normal(size=120) / 2}
    )
    y = np.where(np.arange(120) % 6 == 0, kind, -1)
    found = GraphGPClassifier(unlabelled=-1, random_state=0).fit(table, y).explain_row(1)
    assert [column.name for column in found.columns] == ["width", "noise"]
    width, noise = (column.otherwise for column in found.columns)
    assert width < 0.8 < noise
    said = f"rests most on width: with other rows' cells there the probability would be {width:.2f}"
    assert said in found.headline()


def test_columns_of_words_are_one_each_and_filled_cells_are_not_what_a_class_rests_on():
    kind = np.repeat(["a", "b"], 30)
    table = pd.DataFrame(
        {
            "colour": np.where(kind == "a", "red", "blue"),
            "size": np.where(kind == "a", 1.0, 3.0) + np.arange(60) / 100,
        }
    )
    table.loc[4, "size"] = np.nan
    y = np.where(np.arange(60) % 6 == 0, kind, None)
    model = make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0)).fit(table, y)
    found = explain_table_row(model, table, 4)
    assert sorted(column.name for column in found.columns) == ["colour", "size"]
    assert "size:" not in found.headline()
    assert "size (" not in found.headline()


def test_where_no_column_decides_that_is_said():
    x = np.repeat([[0.0], [5.0]], 40, axis=0)
    X = np.hstack([x] * 6) + np.random.default_rng(1).normal(size=(80, 6)) / 10
    y = np.where(np.arange(80) % 10 == 0, np.repeat([0, 1], 40), -1)
    model = GraphGPClassifier(unlabelled=-1, random_state=0).fit(X, y)
    found = model.explain_row(3)
    said = "No single column matters much: with other rows' cells in any one of them the"
    sure = found._replace(
        proba=np.array([0.999, 0.001]), columns=(found.columns[0]._replace(otherwise=0.996),)
    )
    assert f"{said} probability would be more than 0.99." in sure.headline()
    hardly = found._replace(
        proba=np.array([0.96, 0.04]), columns=(found.columns[0]._replace(otherwise=0.95),)
    )
    assert f"{said} probability would be 0.95 or more." in hardly.headline()
    higher = hardly._replace(columns=(found.columns[0]._replace(otherwise=0.97),))
    same = found._replace(columns=(found.columns[0]._replace(otherwise=found.proba.max()),))
    for one in (same, higher):
        assert one.headline().endswith(
            "No single column carries it: with other rows' cells in any one of them the "
            "probability would not be lower."
        )
