"""Rows to label, and why each is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.active.strategies import STRATEGIES
from atoll.core.blank_rows import left_to_the_end
from atoll.core.shown import percent, readable

Array = NDArray[np.float64]
Index = NDArray[np.intp]

AUDIT = "random row, to check the model"
PUT_OFF = "put off before"
CLOSE = 0.2  # difference of two probabilities from which the first leads
CLEAR = 0.9  # probability from which a class is clear
NO_ROWS = np.empty(0, np.intp)
NO_NAMES = np.empty(0, dtype=object)


@readable
class Query(NamedTuple):
    """Rows to label, in this order.

    rows : (k,) of the pool; fewer than asked for where fewer have no label
    scores : (k,) of the strategy, larger for better; nan for audits and rows put off before
    is_audit : (k,) whether a row was drawn at random, to check the model
    why : (k,) why each is asked for, in words
    later : other rows without a label, which are asked for only when no row is left, because they
        are mostly blank
    names : (k,) of the rows, if the pool has an index of names; else none
    later_names : of `later`, likewise
    n_asked : how many were asked for; 0 where that is not known
    in_index : (k,) what the rows are in the index of their data frame, where that is neither 0, 1,
        2 ... nor names; else none
    later_in_index : of `later`, likewise
    """

    rows: Index
    scores: Array
    is_audit: NDArray[np.bool_]
    why: NDArray[Any] = np.empty(0, dtype=object)
    later: Index = NO_ROWS
    names: NDArray[Any] = NO_NAMES
    later_names: NDArray[Any] = NO_NAMES
    n_asked: int = 0
    in_index: NDArray[Any] = NO_NAMES
    later_in_index: NDArray[Any] = NO_NAMES

    def __str__(self) -> str:
        if not len(self.rows):
            return "No row is left to label."
        lines = [
            f"  row {row}{''.join(f', index {place}' for place in index)}: {why}"
            for row, *index, why in self._table()[1]
        ]
        return "\n".join([self._headline(), *lines, *self._about_later()])

    def _parts(self) -> list[Any]:
        return [self._headline(), self._table(), *self._about_later()]

    def _about_later(self) -> list[str]:
        later = (self.later_names if len(self.later_names) else self.later).tolist()
        if len(self.later_in_index):
            later = [f"{row} (index {i})" for row, i in zip(later, self.later_in_index.tolist())]
        return [left_to_the_end(later)] if later else []

    def _headline(self) -> str:
        n = len(self.rows)
        all_left = f" (of {self.n_asked} asked for: no other is left)" * (n < self.n_asked)
        many = f"{n} row{'s' * (n != 1)} to label{all_left}"
        return f"{many}, in this order; then update(rows, labels)."

    def _table(self) -> tuple[list[str], list[list[str]]]:
        why = self.why.tolist() or [f"score {score:.3g}" for score in self.scores]
        rows = (self.names if len(self.names) else self.rows).tolist()
        columns = {"row": rows, "index": self.in_index.tolist(), "why": why}
        told = {name: cells for name, cells in columns.items() if cells}
        return [*told], [[str(cell) for cell in cells] for cells in zip(*told.values())]


def reasons_for(
    p: Array | None, classes: Sequence[Any], scores: Array, is_audit: NDArray[np.bool_]
) -> NDArray[Any]:
    """Return why each of k rows is asked for, in words, (k,).

    Parameters
    ----------
    p : (k, K) their class probabilities; None where there is no model yet
    classes : (K,)
    scores, is_audit : (k,) as in `Query`
    """
    names = [str(name) for name in classes]
    typical = STRATEGIES["typiclust"].summary
    picked = [typical] * len(scores) if p is None else [doubt(row, names) for row in p]
    said = [
        AUDIT if audit else PUT_OFF if np.isnan(score) else why
        for audit, score, why in zip(is_audit.tolist(), scores.tolist(), picked)
    ]
    return np.array(said, dtype=object)


def doubt(p: Array, names: Sequence[str]) -> str:
    """Say what the model makes of a row that was picked, given its class probabilities.

    Parameters
    ----------
    p : (K,)
    names : (K,) of the classes

    Examples
    --------
    >>> doubt(np.array([0.45, 0.5, 0.05]), ["ant", "bee", "fly"])
    'bee (50%) or ant (45%)?'
    >>> doubt(np.array([0.02, 0.98, 0.0]), ["ant", "bee", "fly"])
    'bee (98%), which stands for many rows'
    """
    first, second = np.argsort(-p, kind="stable")[:2]
    one, other = (f"{names[k]} ({percent(p[k])})" for k in (first, second))
    if p[first] - p[second] < CLOSE:
        return f"{one} or {other}?"
    return (
        f"{one}, less likely {other}" if p[first] < CLEAR else f"{one}, which stands for many rows"
    )
