"""Names of rows: the index of a data frame, where it holds names and not numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def row_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the rows of a data frame or a series; None if they have none.

    Numbers in an index do not count as names: they would be taken for positions of rows.

    Examples
    --------
    >>> import pandas as pd
    >>> row_names(pd.DataFrame({"x": [1, 2]}, index=["P1", "P2"]))
    ('P1', 'P2')
    >>> row_names(pd.DataFrame({"x": [1, 2]}, index=[7, 8]))
    """
    index: Any = getattr(X, "index", None)
    if not hasattr(index, "get_indexer_for") or not getattr(index, "is_unique", False):
        return None
    names = index.tolist()
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def names_in_fit(X: Any, y: Any) -> tuple[str, ...] | None:
    """Return the names of the rows of a fit: those of X, or of y where X is an array.

    A step of a pipeline hands the next one an array of features; labels keep their index.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> names_in_fit(np.eye(2), pd.Series(["a", None], index=["P1", "P2"]))
    ('P1', 'P2')
    """
    return row_names(X if hasattr(X, "iloc") else y)


def row_index(X: Any) -> NDArray[Any] | None:
    """Return the index of a data frame or a series, (n,); None if it only counts 0, 1, 2 ...

    None as well for an index of names, which `row_names` returns. Numbers stay numbers, and
    anything else becomes text.

    Examples
    --------
    >>> import pandas as pd
    >>> row_index(pd.DataFrame({"x": [1, 2]}, index=[7, 8])).tolist()
    [7, 8]
    >>> row_index(pd.DataFrame({"x": [1, 2]}))
    """
    index: Any = getattr(X, "index", None)
    if not hasattr(index, "get_indexer_for") or row_names(X) is not None:
        return None
    values = index_values(index)
    return None if np.array_equal(values, np.arange(len(values))) else values


def index_in_fit(X: Any, y: Any) -> NDArray[Any] | None:
    """Return `row_index` of the rows of a fit: that of X, or of y where X is an array."""
    return row_index(X if hasattr(X, "iloc") else y)


def index_values(index: Any) -> NDArray[Any]:
    """Return an index as whole numbers, or else as texts, (n,)."""
    values = np.asarray(index)
    if values.dtype.kind in "iu":
        return values
    return np.array([str(value) for value in index.tolist()], dtype=object)
