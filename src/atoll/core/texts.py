"""Columns of texts as weighted words (TF-IDF): sparse rows of length one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.core.table_fixes import SHELL, Fixes

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.feature_extraction.text import TfidfVectorizer

LONG = 40  # average number of characters from which a column of words holds texts
WORDY = 4.0  # average number of words, likewise: fewer are names, addresses and codes
SHORT, SENTENCES, NEARLY_ALL = 25, 5.0, 0.9  # the same if nearly all cells are different
MOST_TERMS = 100_000
FEW_TEXTS = 100  # with fewer texts, a word that occurs in only one of them counts too
BEGINNING = 80  # characters of a text from which a reader recognises it


class Words(NamedTuple):
    """How texts become rows: each word they hold, weighted by how few texts have it.

    terms : the words, one a line
    weights : (p,) their inverse document frequencies
    analyzer : "word", or "char_wb" for runs of characters within words
    """

    terms: str
    weights: NDArray[np.float64]
    analyzer: str

    @property
    def names(self) -> list[str]:
        """The words, (p,)."""
        return self.terms.split("\n")


def is_text(cells: Sequence[Any]) -> bool:
    """Return whether cells, without blank ones, are texts: long, of words, and mostly different.

    Shorter cells are texts if they have more words and nearly all are different.

    Examples
    --------
    >>> is_text(["The film is far too long, but its end is good and not to be missed."])
    True
    >>> is_text(["Strongly agree", "Agree", "Agree"])
    False
    """
    if not len(cells) or not all(isinstance(cell, str) for cell in cells[:100]):
        return False
    some = [str(cell) for cell in cells[:10_000]]
    different = len(set(some)) / len(some)
    length = sum(map(len, some)) / len(some)
    n_words = sum(len(cell.split()) for cell in some) / len(some)
    if different >= NEARLY_ALL and length >= SHORT and n_words >= SENTENCES:
        return True
    return different > 0.5 and length >= LONG and n_words >= WORDY


def learn_words(texts: Sequence[str], column: str, fixes: Fixes = SHELL) -> Words:
    """Find the words of texts and their weights; raise a ValueError if there are no words.

    Where no text has a word of two letters, as in scripts without blanks, runs of two to four
    characters take the place of words.

    Parameters
    ----------
    column : what an error calls the texts
    fixes : how an error says what to do
    """
    for analyzer in ("word", "char_wb"):
        found = _vectorizer(analyzer, min_df=1 if len(texts) < FEW_TEXTS else 2)
        try:
            found.fit(texts)
        except ValueError:  # no word at all
            continue
        terms = "\n".join(found.get_feature_names_out())
        return Words(terms, np.asarray(found.idf_, dtype=np.float64), analyzer)
    raise ValueError(
        f"column {column!r} holds no words to learn from; leave it out ({fixes.drop([column])})."
    )


def beginnings(frame: pd.DataFrame, columns: Sequence[str]) -> NDArray[Any]:
    r"""Return how the texts of every row begin, (n,), in one line for all columns of texts.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"text": ["A sky\nof red.", None, "la " * 99]})
    >>> [text[-8:] for text in beginnings(frame, ["text"])]
    [' of red.', '', 'la la l…']
    """
    room = BEGINNING // max(len(columns), 1)
    parts = [[_beginning(cell, room) for cell in frame[name].tolist()] for name in columns]
    out = np.empty(len(frame), dtype=object)
    out[:] = [" / ".join(filter(None, row)) for row in zip(*parts)]
    return out


def _beginning(cell: Any, room: int) -> str:
    if not isinstance(cell, str):
        return "" if cell is None or cell != cell else str(cell)
    text = " ".join(cell[: 20 * room].split())  # a text may be a whole book
    return text if len(text) <= room else text[: room - 1] + "…"


def word_rows(words: Words, texts: Sequence[str]) -> sparse.csr_array:
    """Return texts as rows of weighted words; (n,) -> (n, p) sparse, of length one.

    A text without any of the words is a row of zeros.

    Examples
    --------
    >>> words = learn_words(["red sky", "blue sky"], "text")
    >>> words.names
    ['blue', 'red', 'sky']
    >>> word_rows(words, ["a red sky", "grass"]).toarray().round(2)
    array([[0.  , 0.81, 0.58],
           [0.  , 0.  , 0.  ]])
    """
    found = _vectorizer(words.analyzer, vocabulary=words.names)
    found.idf_ = words.weights
    return sparse.csr_array(found.transform(texts))


def _vectorizer(analyzer: str, **more: Any) -> TfidfVectorizer:
    from sklearn.feature_extraction.text import TfidfVectorizer  # here: the import takes a second

    if analyzer == "char_wb":
        more["ngram_range"] = (2, 4)
    if "vocabulary" not in more:
        more["max_features"] = MOST_TERMS
    return TfidfVectorizer(
        analyzer=analyzer, sublinear_tf=True, strip_accents="unicode", norm="l2", **more
    )
