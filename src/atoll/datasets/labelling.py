"""Hiding labels, to turn a labelled problem into a semi-supervised one."""

from __future__ import annotations

from typing import Any

import numpy as np

from atoll.core.labels import parse_labels, with_gaps
from atoll.datasets.generators import RandomState


def hide_labels(
    y: Any,
    *,
    per_class: int | None = None,
    fraction: float | None = None,
    marker: Any = "auto",
    random_state: RandomState = None,
) -> np.ndarray:
    """Keep the labels of a few rows, drawn at random within each class; hide the others.

    Parameters
    ----------
    y : array-like of shape (n,)
        One label per row, none missing.
    per_class : int or None, default=None
        Number of labels to keep in each class.
    fraction : float or None, default=None
        Share of labels to keep in each class, in (0, 1]; their number is rounded and at least
        one. Give either this or `per_class`.
    marker : "auto", -1 or None, default="auto"
        What stands for a hidden label. "auto" is −1 if `y` holds integers or booleans and −1 is
        not among them, else None.
    random_state : int, numpy Generator or None, default=None
        Seed or source of the random numbers.

    Returns
    -------
    ndarray of shape (n,)
        Integers (booleans as 0 and 1) if the marker is −1; otherwise an array of objects that
        holds the labels and None.

    Notes
    -----
    With the classes 0 and 1 the result holds −1, 0 and 1, which might also be three classes coded
    by sign. To say what is meant, pass `unlabelled=-1` to whatever reads the result, or
    `marker=None` here.

    Integers with None among them are an array of objects, in which scikit-learn's scorers see no
    classes ("Unknown label type"): score them with `atoll.cross_val_score`, or use the marker −1.

    Examples
    --------
    >>> y = hide_labels([0, 1, 2, 0, 1, 2, 2], per_class=1, random_state=0)
    >>> sorted(y.tolist())
    [-1, -1, -1, -1, 0, 1, 2]
    >>> hidden = hide_labels(["cat", "dog", "cat", "dog"], fraction=0.5, random_state=0)
    >>> sorted(hidden.tolist(), key=str)
    [None, None, 'cat', 'dog']
    """
    labels = parse_labels(y, unlabelled=None)
    _check_complete(labels.is_labelled)
    counts = np.bincount(labels.codes, minlength=len(labels.classes))
    n_kept = _number_kept(counts, labels.classes, per_class, fraction)

    rng = np.random.default_rng(random_state)
    is_kept = np.zeros(len(labels.codes), dtype=bool)
    for code, size in enumerate(n_kept):
        is_kept[rng.choice(np.flatnonzero(labels.codes == code), size=size, replace=False)] = True

    if _marker_for(labels.classes, marker) is None:
        result = with_gaps(labels.classes, labels.codes, is_kept)
    else:
        result = labels.classes.astype(np.int64)[labels.codes]
        result[~is_kept] = -1
    return result


def _check_complete(is_labelled: np.ndarray) -> None:
    if is_labelled.size == 0:
        raise ValueError("y is empty; give at least one labelled row.")
    missing = np.flatnonzero(~is_labelled)
    if missing.size:
        raise ValueError(
            f"y has {missing.size} missing label(s), the first in row {missing[0]}; "
            "give the rows whose label is known."
        )


def _number_kept(
    counts: np.ndarray, classes: np.ndarray, per_class: int | None, fraction: float | None
) -> np.ndarray:
    """Return how many labels each class keeps, (K,)."""
    if (per_class is None) == (fraction is None):
        raise ValueError(
            f"per_class={per_class!r} and fraction={fraction!r}; give one of the two, "
            "and leave the other out."
        )
    if fraction is not None:
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction={fraction!r}; give a number above 0 and at most 1.")
        return np.maximum(1, np.rint(fraction * counts).astype(int))
    is_integer = isinstance(per_class, (int, np.integer)) and not isinstance(per_class, bool)
    if not is_integer or per_class < 1:  # type: ignore[operator]
        raise ValueError(f"per_class={per_class!r}; give an integer of at least 1.")
    smallest = int(np.argmin(counts))
    if counts[smallest] < per_class:
        raise ValueError(
            f"per_class={per_class}, but class {classes.tolist()[smallest]!r} has only "
            f"{counts[smallest]} row(s); keep at most {counts[smallest]} per class."
        )
    return np.full(len(counts), per_class)


def _marker_for(classes: np.ndarray, marker: Any) -> int | None:
    """Return the marker of a hidden label, −1 or None, or raise a ValueError if it is unusable."""
    is_whole = classes.dtype.kind in "iub"
    has_minus_one = classes.dtype.kind == "i" and bool((classes == -1).any())
    if isinstance(marker, str) and marker == "auto":
        return -1 if is_whole and not has_minus_one else None
    if marker is None:
        return None
    if isinstance(marker, str) or marker != -1:
        raise ValueError(f'marker={marker!r}; give "auto", -1 or None.')
    if not is_whole or has_minus_one:
        what = "already holds the class -1" if has_minus_one else "does not hold integers"
        raise ValueError(f"marker=-1, but y {what}; pass marker=None.")
    return -1
