"""Rows whose blank numbers were filled in, and what else they might have been.

A model treats a filled-in number as if it were measured, and is too sure of the row. So the
probabilities of such a row are averaged over several fillings (multiple imputation, Rubin 1987):
each takes all of the row's blank cells from one of the complete rows most like it, so that cells
which go together stay together. Nothing is random: a row has the same fillings wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.core.blank_fill import near_donors

Array = NDArray[np.float64]

N_FILLINGS = 8
ROWS_AT_ONCE = 4096  # rows that are predicted in all their fillings at a time


class Fillings(NamedTuple):
    """The rows of a table that have blank numbers, and the rows that may fill these.

    rows : (b,) places of the rows
    is_blank : (b, q) their blank cells, of the first q features: words of texts come after these
    donors : (r, q) complete rows, as a model takes them, in random order, which decides between
        donors that are equally near
    weights : (q,) how much a difference in each feature counts
    """

    rows: NDArray[np.intp]
    is_blank: NDArray[np.bool_]
    donors: Array
    weights: Array

    def of(self, places: Any, n: int) -> Fillings | None:
        """Return the fillings of some of n rows, by places, a slice or a mask; None if none has."""
        place_of = np.full(n, -1)
        place_of[self.rows] = np.arange(len(self.rows))
        found = place_of[places]
        rows = np.flatnonzero(found >= 0)
        kept = found[rows]
        return self._replace(rows=rows, is_blank=self.is_blank[kept]) if len(rows) else None

    def each(self, X: Any, piece: slice) -> Iterator[Any]:
        """Yield some of the rows with blank cells, (m, p), once for each filling.

        Parameters
        ----------
        X : (n, p) all rows, dense or sparse, filled in once
        piece : which of `rows`
        """
        some, q = X[self.rows[piece]], self.donors.shape[1]
        numbers = some[:, :q].toarray() if sparse.issparse(some) else some
        is_blank = self.is_blank[piece]
        like = self._like(numbers, is_blank)
        for donor in like.T:
            filled = np.where(is_blank, self.donors[donor], numbers)
            if sparse.issparse(some):
                filled = sparse.csr_array(sparse.hstack([filled, some[:, q:]]))
            yield filled

    def _like(self, numbers: Array, is_blank: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the donors most like rows in the cells that are not blank; (m, q) -> (m, F)."""
        n = min(N_FILLINGS, len(self.donors))
        out = np.empty((len(numbers), n), np.intp)
        counts = np.where(is_blank, 0.0, self.weights)
        for piece, nearer, tied in near_donors(numbers, counts, self.donors, n):
            place = 2 - tied - 2 * nearer.astype(np.int8)
            out[piece] = np.argsort(place, axis=1, kind="stable")[:, :n]
        return np.sort(out, axis=1)


class FilledRows(np.ndarray[Any, np.dtype[Any]]):
    """An array of rows (n, p) that knows their fillings, and what a table would have said of them.

    A part, a copy and anything computed from it know nothing. Do not change it in place: the
    fillings belong to these very numbers.
    """

    fillings: Fillings | None = None
    remarks: tuple[str, ...] = ()
    column_names: tuple[str, ...] = ()


def carrying(X: Any, fillings: Fillings | None) -> Any:
    """Return rows (n, p), dense or sparse, that know their fillings; X shares their numbers."""
    if fillings is None:
        return X
    out: Any = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X).view(FilledRows)
    out.fillings = fillings
    return out


def with_remarks(X: Any, remarks: Sequence[str]) -> Any:
    """Return rows (n, p) that know the warnings given when they were made; a frame cannot."""
    return _knowing(X, tuple(remarks), column_names_of(X)) if remarks else X


def with_column_names(X: Any, names: Sequence[str]) -> Any:
    """Return rows (n, p) that know the names of their columns; a frame knows them by itself."""
    return _knowing(X, remarks_of(X), tuple(map(str, names)))


def _knowing(X: Any, remarks: tuple[str, ...], names: tuple[str, ...]) -> Any:
    """Return rows that know these, and their fillings; a frame as it is."""
    if not (isinstance(X, np.ndarray) or sparse.issparse(X)):
        return X
    known = fillings_of(X)
    out: Any = sparse.csr_array(X) if sparse.issparse(X) else X.view(FilledRows)
    out.fillings, out.remarks, out.column_names = known, remarks, names
    return out


def remarks_of(X: Any) -> tuple[str, ...]:
    """Return the warnings given when rows were made, as far as the rows know them."""
    return _words_of(X, "remarks")


def column_names_of(X: Any) -> tuple[str, ...]:
    """Return the names of the columns, as far as rows in an array know them."""
    return _words_of(X, "column_names")


def _words_of(X: Any, name: str) -> tuple[str, ...]:
    found = getattr(X, name, ())
    return found if isinstance(found, tuple) else ()  # a column may have that name


def fillings_of(X: Any) -> Fillings | None:
    """Return the fillings that rows know; None where no number was blank."""
    found = getattr(X, "fillings", None)
    return found if isinstance(found, Fillings) else None  # a column may have that name


def part_of(X: Any, places: Any) -> Any:
    """Return some rows, X[places], which still know their fillings."""
    known = fillings_of(X)
    is_blind = sparse.issparse(X) and X.format in ("coo", "bsr", "dia")  # cannot be asked for rows
    part = (X.tocsr() if is_blind else X)[places]
    return carrying(part, None if known is None else known.of(places, X.shape[0]))


def averaged(proba: Callable[[Any], Array], X: Any, fillings: Fillings | None) -> Array:
    """Return class probabilities, averaged over the fillings of the rows that have some.

    Parameters
    ----------
    proba : rows (m, p) -> (m, K)
    X : (n, p) rows, filled in once
    fillings : of these rows

    Returns
    -------
    (n, K)

    Examples
    --------
    >>> donors = np.array([[0.0, 1.0], [0.1, 3.0]])
    >>> fillings = Fillings(np.array([1]), np.array([[False, True]]), donors, np.ones(2))
    >>> averaged(lambda X: X[:, 1:], np.array([[5.0, 5.0], [0.0, 9.0]]), fillings).tolist()
    [[5.0], [2.0]]
    """
    out = proba(X)
    if fillings is None:
        return out
    for start in range(0, len(fillings.rows), ROWS_AT_ONCE):
        piece = slice(start, start + ROWS_AT_ONCE)
        each = [proba(rows) for rows in fillings.each(X, piece)]
        out[fillings.rows[piece]] = np.mean(each, axis=0)
    return out
