"""Some rows of a table of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.core.fillings import part_of


def some_rows(table: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of an array, a sparse matrix, a data frame, a series or a list.

    Rows whose blank cells were filled in still know their fillings.

    Parameters
    ----------
    table : (n, …)
        NumPy's, SciPy's, pandas' or polars', or a list.
    rows : (m,) places, or (n,) a mask

    Examples
    --------
    >>> import numpy as np
    >>> some_rows([10, 20, 30], np.array([2, 0]))
    [30, 10]
    """
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if isinstance(table, np.ndarray) or sparse.issparse(table):
        return part_of(table, rows)
    places = np.flatnonzero(rows) if rows.dtype == bool else rows
    if hasattr(table, "shape"):  # polars, which takes no array of another integer type
        return table[places.tolist()] if hasattr(table, "to_numpy") else table[places]
    return [table[place] for place in places]
