"""Whether columns are in unlike units, so that distances need them standardised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atoll.core.blank_fill import FEW_VALUES
from atoll.core.rows import mean_and_deviation
from atoll.core.table_refusals import is_numeric

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

UNLIKE_SCALES = 10.0  # ratio of the columns' ranges: of their ninth decile to the first
FEW_COLUMNS = 10  # with so few columns, the ratio of the largest range to the smallest counts
NEARLY = 0.25  # by which means and deviations of some of the standardised rows may be off
MOSTLY_ZERO = 0.5  # share of zeros above which columns are counts, and left as they are


def unlike_scales(X: Array) -> bool:
    """Return whether the columns of dense rows (n, d) are in unlike units.

    They are if their ranges differ by a factor of ten (with more than ten columns, the smallest and
    the largest tenth of the ranges do not count), cells are not mostly zero, as counts of words
    are, and columns were not standardised before.

    Examples
    --------
    >>> X = np.array([[0.1, 900.0], [0.3, 500.0], [0.2, 100.0]])
    >>> unlike_scales(X), unlike_scales(X / [1.0, 1000.0])
    (True, False)
    """
    ranges = np.ptp(X, axis=0)
    ranges = ranges[ranges > 0]
    if len(ranges) < 2 or np.mean(X == 0) > MOSTLY_ZERO:
        return False
    few = len(ranges) <= FEW_COLUMNS
    low, high = np.quantile(ranges, [0.0, 1.0] if few else [0.1, 0.9])
    return bool(high > UNLIKE_SCALES * low) and not _is_standardised(X)


def holds_numbers_alone(frame: pd.DataFrame, left_out: Sequence[str | None] = ()) -> bool:
    """Return whether a table is nothing but numbers: no words, no dates, no blank cells.

    Parameters
    ----------
    frame : the table
    left_out : columns that do not count, such as that of the labels

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"mass": [3.1, 2.0], "kind": ["a", None]})
    >>> holds_numbers_alone(table), holds_numbers_alone(table, ["kind"])
    (False, True)
    """
    counted = [j for j, name in enumerate(frame.columns) if name not in left_out]
    columns = [frame.iloc[:, j] for j in counted]
    return all(is_numeric(column) and not column.isna().any() for column in columns)


def _is_standardised(X: Array) -> bool:
    """Return whether all columns but those of few values were standardised already.

    The scale of the others is then deliberate: indicators of a table have no unit, but a weight.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # huge numbers are not standardised
        mean, deviation = mean_and_deviation(X)
        off = ~((np.abs(mean) <= NEARLY) & (np.abs(deviation - 1.0) <= NEARLY))
    if off.all():
        return False
    return all(len(np.unique(X[:, j])) <= FEW_VALUES for j in np.flatnonzero(off))
