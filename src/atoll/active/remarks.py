"""Warnings about labels as a person gives them: slips, changed labels, rows mixed up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.near_names import near_name
from atoll.core.remarks import warn_user
from atoll.core.row_names import index_values

NEARLY = 0.8  # how similar two names are if one is a slip for the other
SHOWN = 3  # rows that are named


def on_new_classes(
    labels: Iterable[Any], known: Iterable[Any], declared: Any, learns_classes: bool
) -> None:
    """Warn of labels that are none of the classes so far, since they may be slips.

    Parameters
    ----------
    known : the classes so far
    declared : those named before any label; None if none were
    learns_classes : whether classes turn up on the way; only a name that is nearly that of another
        class is then a slip
    """
    so_far = {*known}
    new = sorted({label for label in labels if label not in so_far}, key=str)
    near = {label: near_name(label, [*so_far], NEARLY) for label in new if type(label) is str}
    if learns_classes:
        new = [label for label in new if near.get(label) is not None]
    if new:
        named = ", ".join(
            repr(label) + (f" (did you mean {near[label]!r}?)" if near.get(label) else "")
            for label in new
        )
        none_of = f"none of classes={list(declared or ())!r}"
        several = len(new) > 1
        class_ = "classes" if several else "a class"
        what = f"{class_} that no label had so far" if declared is None else none_of
        taken = "each is taken" if several else "taken"
        slip = "one is a slip, undo() takes them" if several else "it is a slip, undo() takes it"
        warn_user(
            f"update was given {named}, {what}; {taken} as a new class. If {slip} back.",
            UserWarning,
        )


def on_changes(
    rows: Sequence[int], labels: Sequence[Any], before: Mapping[int, Any], called: Mapping[int, str]
) -> None:
    """Warn of rows that had another label before.

    Parameters
    ----------
    rows, labels : (k,) as they are given
    before : labels until now, by row
    called : what each of the rows is called
    """
    changed = [
        f"{label!r} for row {called[row]}, which had the label {before[row]!r}"
        for row, label in zip(rows, labels)
        if row in before and before[row] != label
    ]
    if changed:
        warn_user(
            f"update was given {_first(changed)}. The new label counts; undo() brings the old one "
            "back.",
            UserWarning,
        )


def on_withdrawal(
    rows: Sequence[int],
    labels: Mapping[int, Any],
    start: Mapping[int, Any],
    called: Mapping[int, str],
) -> None:
    """Warn of labels to withdraw that were given in `fit`; ValueError for a row without a label.

    Parameters
    ----------
    rows : (k,) whose labels are withdrawn
    labels : as they stand, by row
    start : those of `fit`, by row
    called : what each of the rows is called
    """
    bare = [called[row] for row in rows if row not in labels]
    if bare:
        raise ValueError(
            f"rows holds row {bare[0]}, which has no label to withdraw"
            + (f" (as {len(bare) - 1} more of these rows)" if len(bare) > 1 else "")
            + "; leave it out: labels_ is None for such rows."
        )
    given = [f"row {called[row]}, labelled {start[row]!r} in fit" for row in rows if row in start]
    if given:
        warn_user(
            f"withdraw was given {_first(given)}. The label is gone, as if fit had not had it; "
            "update(rows, labels) brings it back.",
            UserWarning,
        )


def on_index(labels: Any, index: NDArray[Any] | None) -> None:
    """Warn of a series of labels whose index names other rows than those it is given for.

    Parameters
    ----------
    labels : as they are given
    index : (k,) of the rows in the pool's data frame; None if the pool is not a data frame
    """
    if index is None or not (hasattr(labels, "iloc") and hasattr(labels, "index")):
        return
    given = index_values(labels.index)
    if len(given) != len(index) or np.array_equal(given, np.arange(len(given))):
        return
    if given.tolist() == index.tolist():
        return
    warn_user(
        f"the index of labels ({_some(given)}) is not that of the pool's rows ({_some(index)}); "
        "labels are taken by their position, not by their names. Take them by position too, with "
        ".iloc[rows]; if they are in order, pass labels.to_numpy(). undo() takes these back.",
        UserWarning,
    )


def _first(said: Sequence[str]) -> str:
    """Return what is said of the first rows, and how many more there are."""
    more = len(said) - SHOWN
    return "; ".join(said[:SHOWN]) + (f"; and {more} more such rows" if more > 0 else "")


def _some(values: NDArray[Any]) -> str:
    more = ", ..." if len(values) > SHOWN else ""
    return ", ".join(str(value) for value in values[:SHOWN].tolist()) + more
