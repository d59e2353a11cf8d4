"""Words behind the class of a text: its own, and those that it shares with labelled texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from atoll.core.preprocessing import Preprocessing
from atoll.estimators.row_explanation import RowExplanation

OWN, SHARED = 5, 3  # words shown of a text, and of those that it shares with another


def with_words(
    found: RowExplanation, x: Any, X: Any, preprocessing: Preprocessing
) -> RowExplanation:
    """Return an explanation with the words of the row, if its table has a column of texts.

    Parameters
    ----------
    found : the explanation so far
    x, X : (1, d) and (n, d) features of the row, and of the rows of the fit
    preprocessing : how they were made
    """
    if not preprocessing.texts:
        return found
    first, named = len(preprocessing.features), preprocessing.names
    one_column = len(preprocessing.texts) == 1
    words = [name.split(": ", 1)[1] if one_column else name for name in named[first:]]
    own, X = sparse.csr_array(x)[:, first:], sparse.csr_array(X)[:, first:]
    return with_words_of(found, own, X, words)


def with_words_of(found: RowExplanation, x: Any, X: Any, words: list[str]) -> RowExplanation:
    """Return an explanation with the words of the row.

    Parameters
    ----------
    found : the explanation so far
    x, X : (1, w) and (n, w) sparse weights of words in the row, and in the rows of the fit
    words : (w,)
    """
    own = sparse.csr_array(x)
    others = sparse.csr_array(X)[[label.row for label in found.near]]
    shared = others.multiply(own).tocsr()
    return found._replace(
        words=_heaviest(own, 0, words, OWN),
        shared=tuple(_telling(shared, i, words) for i in range(len(found.near))),
    )


def _telling(shared: Any, place: int, words: list[str]) -> tuple[str, ...]:
    """Return the heaviest words that two rows share; stop words only if there are no others."""
    every = _heaviest(shared, place, words, shared.shape[1])
    telling = [word for word in every if word not in ENGLISH_STOP_WORDS]
    return tuple(telling[:SHARED]) or every[:SHARED]


def _heaviest(rows: Any, place: int, words: list[str], most: int) -> tuple[str, ...]:
    """Return the words of one row by their weight, the heaviest first."""
    start, stop = rows.indptr[place : place + 2]
    weights: NDArray[np.float64] = rows.data[start:stop]
    order = np.argsort(-weights, kind="stable")[:most]
    return tuple(words[rows.indices[start + i]] for i in order if weights[i] > 0)
