"""Slips of newcomers in Python: each is answered with what to write instead."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from atoll.core.chunks import RowChunks
from atoll.estimators import (
    AtollClassifier,
    GraphGPClassifier,
    load_model,
    make_preprocessor,
)

ROWS = np.random.default_rng(0).normal(size=(12, 2))
TEXTS = [f"{'cat purrs' if i % 2 else 'dog barks'} word{i % 4}" for i in range(12)]
SOME = [0, 1] * 3 + [None] * 6


def test_columns_of_the_same_name_are_named():
    frame = pd.DataFrame(np.c_[ROWS, ROWS], columns=["a", "b", "a", "c"])
    for model in (AtollClassifier(), make_preprocessor()):
        with pytest.raises(ValueError, match=r"X has column 'a' more than once; rename"):
            model.fit(frame, SOME)


def test_a_series_of_texts_without_a_name_is_made_a_table():
    with pytest.raises(ValueError, match=r"X\.to_frame\('text'\)"):
        make_preprocessor().fit(pd.Series(TEXTS))


def test_a_metric_that_was_given_is_not_advised():
    with pytest.raises(ValueError, match=r'AtollClassifier\(metric="cosine"\)\)') as caught:
        AtollClassifier(metric="cosine").fit(TEXTS, SOME)
    assert "where it is taken" not in str(caught.value)


def test_labels_of_empty_texts_are_said_to_be_lost():
    model = make_pipeline(TfidfVectorizer(), GraphGPClassifier(metric="cosine", random_state=0))
    with pytest.warns(UserWarning, match="2 of 6 labelled rows are all zeros, as texts without"):
        model.fit(["", "", *TEXTS[2:]], SOME)
    assert "Beware: 2 of 6 labelled rows are all zeros" in model[-1].diagnostics_["verdict"]


def test_a_row_to_explain_that_the_model_cannot_take_is_answered_with_its_number():
    model = GraphGPClassifier(random_state=0).fit(ROWS, SOME)
    table = pd.DataFrame({"a": ROWS[:, 0], "site": "north"})
    for row in (table.iloc[7], np.ones(3)):
        with pytest.raises(ValueError, match=r"row is not 2 numbers.*explain_row\((7|17)\)"):
            model.explain_row(row)


def test_minus_one_among_words_is_to_be_left_blank():
    y = pd.Series(["x", "y"] * 3 + [None] * 6, dtype=object).fillna(-1)
    with pytest.raises(ValueError, match=r"if -1 means unlabelled, .* None or NaN in the place"):
        AtollClassifier().fit(ROWS, y)


def test_a_single_name_is_put_in_a_list():
    with pytest.raises(ValueError, match=r"got 'a'; put it in a list: drop=\['a'\]"):
        make_preprocessor(drop="a").fit(pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 3.0]}))


def test_a_share_of_a_misspelt_class_is_answered_with_the_class():
    y = ["Gentoo", "Adelie"] * 3 + [None] * 6
    with pytest.raises(ValueError, match=r"'Gento'.*did you mean 'Gentoo'\?"):
        AtollClassifier(class_prior={"Gento": 0.4}).fit(ROWS, y)


@pytest.mark.parametrize(
    ("trusted", "said"),
    [(True, "got True"), (AtollClassifier, r"trusted=\[AtollClassifier\]"), ("a.B", r"\['a.B'\]")],
)
def test_types_to_trust_are_a_list(trusted, said):
    with pytest.raises(ValueError, match=rf"trusted must be a list of types.*{said}"):
        load_model("absent.atoll", trusted=trusted)


@pytest.mark.parametrize(
    ("labels", "others", "kinds"),
    [
        ([0, 1], ["0", "1"], r"\(y: string, such as '0'; classes_: number, such as 0\)"),
        (["a", "b"], [0, 1], r"\(y: number, such as 0; classes_: string, such as 'a'\)"),
        ([False, True], ["no", "yes"], r"y: string, such as 'no'; classes_: boolean, such as F"),
    ],
)
def test_labels_of_another_type_than_the_classes_are_not_scored(labels, others, kinds):
    model = GraphGPClassifier(random_state=0).fit(ROWS, labels * 3 + [None] * 6)
    for y in (others * 6, np.array(others * 6), pd.Series(others * 6)):
        with pytest.raises(ValueError, match=f"{kinds}.*; pass y in the type that it had in fit"):
            model.score(ROWS, y)


def test_labels_of_the_same_type_are_scored_be_their_class_known_or_not():
    model = GraphGPClassifier(random_state=0).fit(ROWS, SOME)
    truth = model.predict(ROWS)
    for y in (truth, truth.astype(float), truth.astype(bool), truth.astype(object)):
        assert model.score(ROWS, y) == 1.0
    assert model.score(ROWS, np.where(truth == 1, 7, truth)) == np.mean(truth == 0)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_array])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_rows_of_single_precision_are_taken_without_a_warning(kind, metric):
    rows = kind(np.abs(ROWS).astype(np.float32))
    model = AtollClassifier(metric=metric, random_state=0).fit(rows, SOME)
    assert np.isfinite(model.predict_proba(rows)).all()


@pytest.mark.filterwarnings("ignore:.* labels held out in turn the graph")
def test_labels_keep_their_type_in_every_kind_of_column_with_blanks():
    whole, words = [0, 1, None] * 4, ["a", "b", None] * 4
    flags = [None if one is None else bool(one) for one in whole]
    for y, classes in [
        (pd.array(whole, dtype="Int64"), [0, 1]),
        (pd.array(whole, dtype="UInt8"), [0, 1]),
        (pd.Series(whole, dtype="Int64"), [0, 1]),
        (pd.Index(whole, dtype="Int64"), [0, 1]),
        (pd.Categorical(whole), [0, 1]),
        (pd.Series(whole, dtype="object").astype("category"), [0, 1]),
        (pd.array(flags, dtype="boolean"), [False, True]),
        (pd.Series(flags, dtype="boolean"), [False, True]),
        (pd.array(words, dtype="string"), ["a", "b"]),
        (pd.Series(words, dtype="string"), ["a", "b"]),
        (pd.Categorical(words), ["a", "b"]),
    ]:
        model = GraphGPClassifier(random_state=0).fit(ROWS, y)
        kinds = {type(one) for one in [*model.classes_.tolist(), *model.predict(ROWS).tolist()]}
        assert model.classes_.tolist() == classes
        assert kinds == {type(classes[0])}
        assert model.score(ROWS, y) == model.score(ROWS, list(y))


def test_the_verdict_names_a_whole_number_as_it_was_given():
    y = pd.array([3, 4] * 2 + [5] + [None] * 7, dtype="Int64")
    verdict = GraphGPClassifier(random_state=0).fit(ROWS, y).diagnostics_["verdict"]
    assert "class 5 has one label" in verdict


def test_the_columns_of_a_fit_in_another_table_are_answered_with_how_to_take_them():
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    model = GraphGPClassifier(random_state=0).fit(frame, SOME)
    fix = r"Pass the columns of the fit alone, in their order: X\[model\.feature_names_in_\]\.$"
    for other in (frame[["b", "a"]], frame.assign(z=1.0), frame[["b", "a"]].assign(z=1.0)):
        with pytest.raises(ValueError, match=rf"(?s)^The feature names should match.*{fix}"):
            model.predict(other)
        found = model.predict_proba(other[model.feature_names_in_])
        np.testing.assert_array_equal(found, model.predict_proba(frame))
    with pytest.raises(ValueError, match=r"yet now missing:\n- b\n$"):
        model.predict(frame[["a"]].assign(z=1.0))


def test_chunks_with_the_columns_in_another_order_are_told_what_to_do():
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    model = GraphGPClassifier(random_state=0).fit(frame, SOME)
    turned = RowChunks(lambda: iter([(frame[["b", "a"]], SOME)]))
    with pytest.raises(
        ValueError, match=r"(?s)^The feature names.*Make every chunk hold .* rows\["
    ):
        model.predict(turned)
