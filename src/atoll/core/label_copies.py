"""Columns that are copies or codes of the labels, left by mistake among those to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from atoll.core.extras import import_extra
from atoll.core.labels import PartialLabels

if TYPE_CHECKING:
    import pandas as pd

FEWEST_WORDS, FEWEST_NUMBERS = 4, 10  # labels below which cells may be the same by chance
FEWEST_OF_A_VALUE = 3  # labelled rows with each value of a code
CHANCE = 1e-4  # probability that any column is a code of the labels by chance, at most
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


def label_codes(
    frame: pd.DataFrame, columns: Sequence[str], labels: PartialLabels
) -> tuple[str, ...]:
    """Return the columns each of whose values goes with a class of its own in all labelled rows.

    None are returned if that may be chance. A column with the classes' numbers n_k of labelled
    rows, in any order of these, is a code of the K classes with probability at most
    K! n_1! n_2! … / n!.

    Parameters
    ----------
    frame : (n, q)
    columns : to look at
    labels : of the n rows

    Examples
    --------
    >>> import pandas as pd
    >>> from atoll.core.labels import parse_labels
    >>> frame = pd.DataFrame({"code": [0, 1] * 15, "site": list("aab") * 10})
    >>> label_codes(frame, ["code", "site"], parse_labels(["ant", "bee"] * 15))
    ('code',)
    """
    pd = import_extra("pandas")
    known = np.flatnonzero(labels.is_labelled)
    counts = np.sort(labels.counts[labels.counts > 0])
    n, n_classes = len(known), len(counts)
    if n_classes < 2 or counts[0] < FEWEST_OF_A_VALUE:
        return ()
    log_chance = gammaln(n_classes + 1) + gammaln(counts + 1).sum() - gammaln(n + 1)
    if log_chance + np.log(max(1, len(columns))) > np.log(CHANCE):
        return ()
    codes, found = labels.codes[known], []
    for name in columns:
        values, _ = pd.factorize(frame[name].iloc[known], use_na_sentinel=True)
        if values.min() < 0 or values.max() + 1 != n_classes:
            continue
        if len(np.unique(n_classes * values + codes)) == n_classes:
            found.append(name)
    return tuple(found)


def _as_numbers(values: Sequence[Any]) -> list[float] | None:
    """Return values as numbers; None if any of them is not a number."""
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        return None
