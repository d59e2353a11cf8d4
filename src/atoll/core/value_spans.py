"""Numbers far outside those of a fit: other units, markers of blank cells, slips.

A column of new rows is remarked upon if so many of its values lie beyond all those of the fit that
chance would hardly have it. If n values of the fit and m new ones are alike, all orders of them are
equally probable, whatever their distribution, and the k largest are all new with probability

    P = C(n + m − k, n) / C(n + m, n).

Values a little beyond do not count, however probable they are. A single one is remarked upon if it
is a marker of blank cells, or many times as far out as the fit's values are wide: the more times,
the heavier their tails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from atoll.core.blank_markers import BLANK_MARKERS, number_in_words
from atoll.core.category_words import with_truths
from atoll.core.number_texts import as_numbers, with_numbers
from atoll.core.table_refusals import as_floats, is_numeric

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

WIDENED = 0.5  # ranges beyond the fit's values from which on a value counts as outside
CHANCE = 1e-5  # probability of a remark on rows like those of the fit, at most
FAR, FARTHEST = 10.0, 1000.0  # ranges beyond which a single value is remarked on
FEWEST = 30  # values by which tails are known
ROWS_OF_MIDDLE = 300  # rows by which the middle half of a column is known
MOST_NAMED = 3  # columns


class Spans(NamedTuple):
    """Where the numbers of a fit lie.

    low, high : (q,) the least and the greatest value of each column
    middle : (q,) how far apart the quartiles are
    counts : (q,) values that are not blank
    """

    low: Array
    high: Array
    middle: Array
    counts: Array

    @property
    def far(self) -> Array:
        """(q,) ranges beyond which a single value is too far out.

        The range is some four times that of the middle half if tails are light. Few values do not
        tell.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            tails = np.square((self.high - self.low) / self.middle)
        far = np.clip(np.nan_to_num(tails, nan=FARTHEST), FAR, FARTHEST)
        return np.where(self.counts < FEWEST, np.inf, far)


def spans_of(X: Any) -> Spans:
    """Return where the numbers of rows (n, q) lie; NaN where a cell is blank, in no whole column.

    Examples
    --------
    >>> spans_of(np.array([[1.0], [np.nan], [3.0], [2.0]]))
    Spans(low=array([1.]), high=array([3.]), middle=array([1.]), counts=array([3.]))
    """
    X = np.asarray(X)
    n, q = X.shape
    some = X[np.unique(np.linspace(0, n - 1, min(n, ROWS_OF_MIDDLE)).astype(np.intp))]
    if not q:
        return Spans(*np.empty((4, 0)))
    low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
    quartiles = np.array([_quartiles(column) for column in some.T])
    counts = n - np.isnan(some).mean(axis=0) * n
    with np.errstate(over="ignore"):
        middle = quartiles[:, 1] - quartiles[:, 0]
    return Spans(low.astype(np.float64), high.astype(np.float64), middle, np.maximum(counts, 1.0))


def _quartiles(column: Array) -> Array:
    known = np.sort(column[~np.isnan(column)]).astype(np.float64)
    if not len(known):
        return np.zeros(2)
    return known[[(len(known) - 1) // 4, 3 * (len(known) - 1) // 4]]


def numbers_of(frame: pd.DataFrame, columns: Sequence[str]) -> Array:
    """Return columns of numbers, which may be written as text, (n, q); NaN where blank."""
    frame = with_numbers(frame, columns, known=True)
    words = {n: as_numbers(with_truths(frame[n])) for n in columns if not is_numeric(frame[n])}
    frame = frame.assign(**words) if words else frame
    return np.column_stack([np.empty((len(frame), 0)), *(as_floats(frame[n]) for n in columns)])


class FarValues:
    """What of new rows lies far outside the numbers of a fit, counted chunk by chunk.

    Examples
    --------
    >>> found = FarValues(spans_of(np.linspace(30.0, 60.0, 100)[:, None]))
    >>> found.add(np.linspace(300.0, 600.0, 20)[:, None])
    >>> print(found.remark(["bill_mm"]))
    Far outside what the fit saw: bill_mm in 20 of 20 rows (300 to 600; the fit had 30 to 60). Are \
the units the same? Class probabilities hold for rows like those of the fit.
    """

    def __init__(self, spans: Spans):
        self.spans = spans
        self.n_rows = 0
        q = len(spans.low)
        self.n_outside = np.zeros((2, q))  # below and above
        self.is_far = np.zeros(q, bool)
        self.markers: list[set[float]] = [set() for _ in range(q)]
        self.low, self.high = np.full(q, np.inf), np.full(q, -np.inf)  # of the values outside

    def add(self, X: Any) -> None:
        """Count rows (m, q) in; NaN is a blank cell. Columns of one value in the fit are not."""
        X = np.asarray(X)
        self.n_rows += len(X)
        if not X.size:
            return
        spans = self.spans
        with np.errstate(over="ignore", invalid="ignore"):
            width = spans.high - spans.low
            low, high = spans.low - WIDENED * width, spans.high + WIDENED * width
            beyond = (np.fmin.reduce(X, axis=0) < low) | (np.fmax.reduce(X, axis=0) > high)
            for j in np.flatnonzero(beyond & (width > 0)).tolist():
                x = X[:, j].astype(np.float64)
                below, above = x < low[j], x > high[j]
                outside = x[below | above]
                self.n_outside[:, j] += below.sum(), above.sum()
                self.low[j] = min(self.low[j], outside.min())
                self.high[j] = max(self.high[j], outside.max())
                excess = np.maximum(spans.low[j] - outside, outside - spans.high[j])
                self.is_far[j] |= bool((excess > spans.far[j] * width[j]).any())
                apart = outside[excess > width[j]].tolist()
                self.markers[j] |= BLANK_MARKERS.intersection(apart)

    def columns(self) -> list[int]:
        """Return the columns with more values outside than chance would have, or with far ones."""
        if not self.n_outside.any():
            return []
        n, m, k = self.spans.counts, self.n_rows, self.n_outside
        log_p = gammaln(m + 1) - gammaln(m - k + 1) + gammaln(n + m - k + 1) - gammaln(n + m + 1)
        by_chance = log_p.min(axis=0) > np.log(CHANCE / (2 * max(1, len(n))))
        marked = np.array([bool(found) for found in self.markers], dtype=bool)
        return np.flatnonzero(~by_chance | self.is_far | marked).tolist()

    def remark(self, names: Sequence[str]) -> str | None:
        """Return a line on values far outside, by the names of columns (q,); None if none are."""
        columns = self.columns()
        if not columns:
            return None
        said = [self._about(j, names[j]) for j in columns[:MOST_NAMED]]
        more = len(columns) - len(said)
        others = f" and {more} more column{'s' * (more > 1)}" if more else ""
        of_blanks = sorted(set().union(*(self.markers[j] for j in columns)))
        blank = f" If {_listed(of_blanks)} means blank, leave these cells blank." * bool(of_blanks)
        units = " Are the units the same?" * any(not self.markers[j] for j in columns)
        return (
            f"Far outside what the fit saw: {', '.join(said)}{others}.{units}{blank} "
            "Class probabilities hold for rows like those of the fit."
        )

    def _about(self, j: int, name: str) -> str:
        low, high, spans = number_in_words(self.low[j]), number_in_words(self.high[j]), self.spans
        values = low if low == high else f"{low} to {high}"
        rows = f"{int(self.n_outside[:, j].sum())} of {self.n_rows} rows"
        fitted = f"the fit had {number_in_words(spans.low[j])} to {number_in_words(spans.high[j])}"
        return f"{name} in {rows} ({values}; {fitted})"


def _listed(values: Sequence[float]) -> str:
    shown = [number_in_words(value) for value in values]
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


# Once a call --------------------------------------------------------------------------------------

_COUNTING: ContextVar[dict[int, FarValues] | None] = ContextVar("counting", default=None)


@contextmanager
def counted_together() -> Iterator[dict[int, FarValues]]:
    """Count all rows that are predicted inside the block together, instead of remarking on them.

    Yields what was counted by each model, by its identity; blocks in blocks add to the outermost.
    """
    outer = _COUNTING.get()
    if outer is not None:
        yield {}
        return
    counted: dict[int, FarValues] = {}
    token = _COUNTING.set(counted)
    try:
        yield counted
    finally:
        _COUNTING.reset(token)


def counting() -> dict[int, FarValues] | None:
    """Return what the block around this counts; None outside of any."""
    return _COUNTING.get()
