"""Columns that are copies of the labels, left by mistake among the columns to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atoll.core.extras import import_extra
from atoll.core.labels import PartialLabels

if TYPE_CHECKING:
    import pandas as pd

FEWEST_WORDS, FEWEST_NUMBERS = 4, 10  # labels below which cells may be the same by chance
FIRST = 100  # labels that are compared first: most columns differ there


def label_copies(
    frame: pd.DataFrame, columns: Sequence[str], labels: PartialLabels
) -> tuple[str, ...]:
    """Return the columns that are the same as the labels in every labelled row.

    None are returned if the labels are few, or all of one class: cells, above all numbers, may then
    be the same by chance.

    Parameters
    ----------
    frame : (n, q)
    columns : to look at
    labels : of the n rows

    Examples
    --------
    >>> import pandas as pd
    >>> from atoll.core.labels import parse_labels
    >>> frame = pd.DataFrame({"kind": ["ant", "bee"] * 3, "site": list("ab" * 3)})
    >>> y = ["ant", "bee", "ant", "bee", None, None]
    >>> label_copies(frame, ["kind", "site"], parse_labels(y))
    ('kind',)
    """
    known = np.flatnonzero(labels.is_labelled)
    if np.count_nonzero(labels.counts) < 2:
        return ()
    codes, classes = labels.codes[known], labels.classes.tolist()
    words, numbers = [str(value).strip() for value in classes], _as_numbers(classes)
    found = []
    for name in columns:
        is_number = import_extra("pandas.api.types").is_numeric_dtype(frame[name].dtype)
        names: Sequence[Any] | None = numbers if is_number else words
        if names is None or len(known) < (FEWEST_NUMBERS if is_number else FEWEST_WORDS):
            continue
        for n in (FIRST, len(known)):
            cells = frame[name].iloc[known[:n]]
            if cells.isna().any():
                break
            given = cells.tolist() if is_number else [str(cell).strip() for cell in cells]
            if given != [names[code] for code in codes[:n].tolist()]:
                break
        else:
            found.append(name)
    return tuple(found)


def _as_numbers(values: Sequence[Any]) -> list[float] | None:
    """Return values as numbers; None if any of them is not a number."""
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        return None
