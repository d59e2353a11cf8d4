from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from atoll.core import texts
from atoll.core.preprocessing import apply, prepare, unreadable
from atoll.core.texts import is_text, learn_words, word_rows

TEXTS = [
    "The boat left the harbour before the storm came in from the west.",
    "A storm in the harbour kept every boat on its rope for two days.",
    "Bread needs flour, water, salt and a night of rest in a warm place.",
    "Knead the flour with water and salt, and let the bread rise at night.",
]


def test_words_are_those_of_scikit_learn():
    words = learn_words(TEXTS, "text")
    theirs = TfidfVectorizer(sublinear_tf=True, strip_accents="unicode")
    np.testing.assert_allclose(
        word_rows(words, TEXTS).toarray(), theirs.fit_transform(TEXTS).toarray(), rtol=1e-12
    )
    new = ["Salt in the harbour", "und nichts davon", ""]
    found = word_rows(words, new).toarray()
    np.testing.assert_allclose(found, theirs.transform(new).toarray(), rtol=1e-12)
    np.testing.assert_array_equal(found[1:], 0.0)


def test_scripts_without_blanks_give_runs_of_characters():
    words = learn_words(["漁 港 を 出", "粉 と 水 と"], "text")
    assert words.analyzer == "char_wb"
    assert word_rows(words, ["粉 と 塩"]).nnz > 0
    with pytest.raises(ValueError, match=r"column 'note' holds no words.*--drop note"):
        learn_words(["", ""], "note")


@pytest.mark.parametrize(
    "cells",
    [
        [],
        [3, 4],
        ["setosa", "virginica"],
        ["Braund, Mr. Owen Harris", "Heikkinen, Miss. Laina"],
        [f"https://example.org/a/very/long/address/without/blanks/{i}" for i in range(9)],
        ["I agree with what the statement says, more or less"] * 9,
    ],
)
def test_what_is_short_a_name_an_address_or_a_category_is_no_text(cells):
    assert not is_text(cells)


def test_a_column_of_texts_is_noticed_and_new_rows_are_treated_alike():
    table = pd.DataFrame({"review": TEXTS, "kind": ["sea", None, "food", None]})
    X, y, preprocessing = prepare(table, "kind")
    assert sparse.issparse(X)
    assert list(preprocessing.texts) == ["review"]
    assert preprocessing.names[0] == "review: and"
    assert X.shape == (4, len(preprocessing.names))
    assert y.tolist() == ["sea", None, "food", None]
    np.testing.assert_array_equal(apply(preprocessing, table[::-1]).toarray(), X.toarray()[::-1])
    _, reasons = unreadable(preprocessing, pd.DataFrame({"review": ["of bread", None]}))
    assert reasons.tolist() == [None, "every cell that the model reads is blank"]


def test_texts_stand_beside_numbers_and_categories():
    table = pd.DataFrame({"year": [1, 2, 3, 4], "review": TEXTS, "hue": ["a", "b", "a", "b"]})
    X, _, preprocessing = prepare(table)
    plain = prepare(table.drop(columns="review")).X
    assert preprocessing.features == ("year", "hue=a", "hue=b")
    np.testing.assert_array_equal(X[:, [0, 1, 2]].toarray(), plain)
    np.testing.assert_allclose((X[:, 3:] ** 2).sum(axis=1), 1.0)
    blank = apply(preprocessing, table.assign(review=None))
    assert blank[:, 3:].nnz == 0


def test_a_column_may_be_said_to_be_of_texts():
    table = pd.DataFrame({"title": [f"storm {i}" for i in range(101)]})
    with pytest.raises(ValueError, match=r"101 different values.*--text title"):
        prepare(table)
    assert list(prepare(table, texts=["title"]).preprocessing.texts) == ["title"]
    with pytest.raises(ValueError, match="the column of texts 'titel' is not in the table"):
        prepare(table, texts=["titel"])
    with pytest.raises(ValueError, match=r"column 'review' is not numeric.*--encode"):
        prepare(pd.DataFrame({"review": TEXTS}), encode=False)


def test_pieces_of_words_are_two_to_four_letters_long():
    assert texts._vectorizer("char_wb").ngram_range == (2, 4)
