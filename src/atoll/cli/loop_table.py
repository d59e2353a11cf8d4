"""The table of a labelling loop from one run to the next: its labels, and where its rows stand.

Labels go by the number of a row. Rows that moved are therefore an error, never labels of others.
"""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.extras import import_extra
from atoll.core.shown import shortened

if TYPE_CHECKING:
    import pandas as pd

    from atoll.active import ActiveLearner

# Notes of a loop: rows with a label in the table, and those whose label came from there alone;
# digests of the rows' numbers, and of each column's cells in their order and in any order; the
# seed that the loop began with.
LABELLED, LEARNT, NUMBERS, CELLS, SEED = "labelled", "learnt", "numbers", "cells", "seed"

OTHER_STATE = (
    ", name another file with --state, or delete it to begin anew, without its answers "
    "(--labelled writes them, of the table and the fit that it goes with)."
)

MOST_COMPARED = 50  # answers whose cells differ that are looked for elsewhere in the table


def take_labels(
    learner: ActiveLearner, given: NDArray[Any] | None, numbers: NDArray[np.intp]
) -> list[str]:
    """Teach a loop the labels of its table as they are now, and return what to say.

    A label whose cell has been blanked is taken back, unless an answer gave it, too.

    Parameters
    ----------
    given : (n,) labels, None where blank; None where the table has no such column
    numbers : (n,) of the rows, from 1
    """
    if given is None:
        return []
    known, notes = learner.labels_, learner.notes_
    learnt = set(notes.get(LEARNT, ()))
    blanked = [i for i in notes.get(LABELLED, ()) if given[i] is None and known[i] is not None]
    gone = [i for i in blanked if i in learnt]
    new = [i for i, label in enumerate(given) if label is not None and label != known[i]]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(update|withdraw) was given")
        learner.withdraw(gone)
        if new:
            learner.refit().update(new, given[new])
    notes[LEARNT] = sorted((learnt - set(gone)) | set(new))
    notes[LABELLED] = [i for i, label in enumerate(given) if label is not None]
    lines = []
    other = [i for i in new if known[i] is not None]
    if other:
        lines.append(
            f"Labels of the table in the place of earlier ones: {named_rows(numbers[other])}."
        )
    if gone:
        lines.append(
            f"Taken back, since the table is blank there now: {named_rows(numbers[gone])}."
        )
    left = [i for i in blanked if i not in learnt]
    if left:
        named = named_rows(numbers[left])
        lines.append(f"Blank in the table now, and answered before: {named}. Answer ? to withdraw.")
    return lines


def note_answers(learner: ActiveLearner, answered: list[int]) -> None:
    """Note that these rows have labels by answers, which stay where the table is blanked."""
    learnt = set(learner.notes_.get(LEARNT, ())) - set(answered)
    learner.notes_[LEARNT] = sorted(learnt)


def named_rows(numbers: NDArray[np.intp]) -> str:
    """Return "row 3", or "rows 3, 8"."""
    return f"row{'s' if len(numbers) > 1 else ''} {shortened([str(i) for i in numbers.tolist()])}"


# Where rows stand ---------------------------------------------------------------------------------


def refuse_moved_rows(
    learner: ActiveLearner, frame: pd.DataFrame, numbers: NDArray[np.intp], state: Path
) -> None:
    """Raise a ValueError where rows stand at other places than when the loop was last saved.

    Parameters
    ----------
    frame : the rows of the pool, of which columns may be new, gone or changed
    numbers : (n,) of these rows in the table, from 1
    state : file of the loop
    """
    n = len(learner.labels_)
    if len(frame) != n:
        raise ValueError(
            f"{str(state)!r} goes with {n} rows, and the table has {len(frame)}: answers go by the "
            f"number of a row. Put the {n} rows back{OTHER_STATE}"
        )
    cells = learner.notes_.get(CELLS, {})
    for name in frame.columns:
        in_order, in_any = cells.get(str(name), ("", ""))
        now_in_order, now_in_any = _digests(frame[name])
        if now_in_any == in_any and now_in_order != in_order:
            raise ValueError(
                f"{str(state)!r} goes with the rows of this table in another order, by the column "
                f"{name!r}: answers go by the number of a row. Put them back in that order"
                f"{OTHER_STATE}"
            )
    if learner.notes_.get(NUMBERS, _digest(numbers)) != _digest(numbers):
        raise ValueError(
            f"{str(state)!r} goes with other numbers of these rows: blank rows have been put in or "
            "taken out since, and answers go by the number of a row. Put the rows back where they "
            f"were{OTHER_STATE}"
        )


def note_rows(
    learner: ActiveLearner, frame: pd.DataFrame, numbers: NDArray[np.intp], target: str
) -> None:
    """Note where the rows of the pool stand; parameters as in `refuse_moved_rows`."""
    learner.notes_[NUMBERS] = _digest(numbers)
    learner.notes_[CELLS] = {
        str(name): _digests(frame[name]) for name in frame.columns if name != target
    }


def in_type_of_column(column: pd.Series, cells: NDArray[Any]) -> Any:
    """Return cells (n,) in the type of a column of a Parquet file, if they are of such a type."""
    pd = import_extra("pandas")
    if not isinstance(column.dtype, pd.ArrowDtype):
        return cells
    pyarrow = import_extra("pyarrow")
    values = [None if pd.isna(cell) else cell for cell in cells]
    try:
        found = pyarrow.array(values, type=column.dtype.pyarrow_dtype)
    except (pyarrow.ArrowException, TypeError, OverflowError):  # answers have brought another type
        return cells
    return pd.Series(found, dtype=column.dtype, index=column.index)


def _digests(cells: pd.Series) -> list[str]:
    """Return digests of a column's cells in their order, and in any order."""
    is_number = import_extra("pandas.api.types").is_numeric_dtype(cells.dtype)
    plain = cells if is_number else cells.astype(str)
    found = import_extra("pandas.util").hash_pandas_object(plain, index=False).to_numpy()
    return [_digest(found), _digest(np.sort(found))]


def _digest(values: NDArray[Any]) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()[:16]


def refuse_answers_of_other_rows(
    path: Path,
    answers: pd.DataFrame,
    places: list[int],
    frame: pd.DataFrame,
    numbers: NDArray[np.intp],
) -> None:
    """Raise a ValueError where the cells beside an answer are those of another row of the table.

    Cells that a spreadsheet wrote in another form are no cause: another row must fit better.

    Parameters
    ----------
    path : of the answers
    answers : (k, q) rows of that file, without labels
    places : (k,) rows of the table that they are for
    frame : (n, p) the table
    numbers : (n,) of its rows, from 1
    """
    names = [name for name in frame.columns if name in answers.columns]
    if not names or not places:
        return
    agree = np.column_stack([_equal(frame[name].iloc[places], answers[name]) for name in names])
    for i in np.flatnonzero(~agree.all(axis=1))[:MOST_COMPARED]:
        cells = answers.iloc[[i]]
        others = np.column_stack([_equal(frame[name], cells[name]) for name in names])
        best = int(np.argmax(others.sum(axis=1)))
        if others[best].sum() <= agree[i].sum():
            continue
        name = names[int(np.argmax(others[best] & ~agree[i]))]
        here, there = cells[name].iloc[0], frame[name].iloc[places[i]]
        raise ValueError(
            f"{str(path)!r} answers row {numbers[places[i]]} with {name} {here}, and that row of "
            f"the table has {name} {there}: rows have moved since. Put them back, or correct the "
            "row numbers."
        )


def _equal(cells: pd.Series, others: pd.Series) -> NDArray[np.bool_]:
    """Return which cells (n,) equal others, (n,) or (1,), but for the last digits of numbers."""
    types = import_extra("pandas.api.types")
    if types.is_numeric_dtype(cells.dtype) and types.is_numeric_dtype(others.dtype):
        first, second = (c.to_numpy(np.float64, na_value=np.nan) for c in (cells, others))
        return np.isclose(first, second, rtol=1e-6, atol=0.0, equal_nan=True)
    first, second = (
        c.astype(object).where(c.notna(), "").astype(str).str.strip().to_numpy(object)
        for c in (cells, others)
    )
    return np.asarray(first == second)
