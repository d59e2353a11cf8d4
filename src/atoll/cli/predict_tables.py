"""Predict a table chunk by chunk: neither the table nor the answers need to fit in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.cli.fitting import check_columns
from atoll.cli.knowledge import columns_told
from atoll.cli.opening import as_fitted, open_model, predicted_proba, refuse_fitted_table
from atoll.cli.terminal import quoted, saved_in
from atoll.core.blank_rows import MANY
from atoll.core.extras import import_extra
from atoll.core.preprocessing import (
    Preprocessing,
    apply,
    extra_columns,
    is_filled,
    unreadable,
    unseen,
)
from atoll.core.progress import progress_bar
from atoll.core.strangers import about_strangers
from atoll.core.tables import (
    MOST_MORE,
    N_CELLS,
    LongRow,
    TableWriter,
    cell_chunks,
    form_in,
    source_of,
    table_chunks,
)
from atoll.core.value_spans import FarValues, numbers_of
from atoll.diagnostics import entropy
from atoll.estimators.timing import LONG, in_words, seconds_of

if TYPE_CHECKING:
    import pandas as pd

    from atoll.estimators.persistence import ModelBundle

TRIAL_ROWS = 2000  # rows predicted first, to tell how long all will take
CHUNK_CELLS = 1_000_000  # cells of the table that are held at once
NO_WORD = "no word of it is known to the model"  # a reason, though the row has answers
BLANK_CELLS = "blank_cells"  # column of the answers, if a row has many
FEWEST_ROWS = 10  # of which a column without any cell is remarked on
REASON = "reason"  # and if some cannot be read


class Wishes(NamedTuple):
    """What is carried over from the table to the answers.

    id_column : name of the column of ids, or None
    keep : whether every column is carried over
    reject_below : probability of the class below which it is left blank; None: no class is
    """

    id_column: str | None
    keep: bool
    reject_below: float | None = None


class Survey(NamedTuple):
    """What a first pass over the table has found.

    n_rows : in all
    n_unreadable : rows that cannot be read
    carried : columns to carry over
    chunk : the table if it is a single chunk, so that it is not read again; else None
    n_mostly_blank : rows that can be read, with half of their cells blank or more
    n_wordless : rows of a table of texts alone of which the model knows no word
    renamed : columns of answers that have the name of one carried over -> their other name
    """

    n_rows: int
    n_unreadable: int
    carried: list[str]
    chunk: pd.DataFrame | None
    n_mostly_blank: int = 0
    n_wordless: int = 0
    renamed: dict[str, str] = {}  # noqa: RUF012 - never changed


def predict_table(
    model: Path,
    data: Path,
    out: Path,
    wishes: Wishes,
    say: Callable[[str], None],
    progress: bool,
) -> None:
    """Write class, class probabilities and entropy of every row of a table.

    The table is read twice: first for what is wrong with it, which is said before the long work.
    Cells that are carried over are written as they stand in the file.
    """
    source = source_of(data)  # standard input cannot be read twice, but its bytes can
    first, n_more = _first_chunk(source)
    bundle = open_model(model, first)
    refuse_fitted_table(bundle, out)
    categories = tuple(bundle.preprocessing.categories)

    def frames() -> Iterator[pd.DataFrame]:
        return table_chunks(source, CHUNK_CELLS, as_text=categories, n_more=n_more)

    while True:
        said: list[str] = []
        try:
            found = _survey(bundle, frames(), data, wishes, said.append, progress)
            break
        except LongRow as long:  # such rows have no answer, but all others do
            n_more = _more_cells(n_more, long)
    for line in said:
        say(line)
    if progress:
        _announce(bundle, first, found.n_rows, say)

    settings = {"total": found.n_rows, "unit": " rows", "disable": not progress}
    with (
        TableWriter(out, form_in(source)) as writer,
        progress_bar(desc="predicting", **settings) as bar,
    ):
        read = frames() if found.chunk is None else iter([found.chunk])
        cells: Iterator[Any] = repeat(None)
        if found.carried:
            cells = cell_chunks(source, CHUNK_CELLS, n_more=n_more)
        for frame, kept in zip(read, cells):
            answers = _answers(bundle, frame, found, bar, wishes.reject_below)
            writer.write(answers if kept is None else _beside(kept, found, answers))
    if wishes.reject_below is not None:
        say(_error_of_kept(bundle, first, wishes.reject_below))
    reason = found.renamed.get(REASON, REASON)
    if found.n_unreadable:
        say(
            f"{found.n_unreadable} of {found.n_rows} rows cannot be read; the column {reason} says "
            "why."
        )
    if found.n_wordless:
        one = found.n_wordless == 1
        say(
            f"{found.n_wordless} of {found.n_rows} rows {'has' if one else 'have'} no word that "
            f"the model knows: {'its' if one else 'their'} class probabilities are those of any "
            f"such row. The column {reason} says which."
        )
    if found.n_mostly_blank:
        counts = found.renamed.get(BLANK_CELLS, BLANK_CELLS)
        have = "has half of its" if found.n_mostly_blank == 1 else "have half of their"
        say(
            f"{found.n_mostly_blank} of {found.n_rows} rows {have} cells blank or more; "
            "these are filled in, and the class may be less sure than its probability says. "
            f"The column {counts} counts the blank cells of every row."
        )
    n_answers = found.n_rows - found.n_unreadable
    say(f"{n_answers} prediction{'s' if n_answers != 1 else ''} {saved_in(out)}.")


def _first_chunk(source: Path | bytes) -> tuple[pd.DataFrame, int]:
    """Return the first rows of a table, and how many cells some have beyond the header."""
    n_more = 0
    while True:
        try:
            return next(table_chunks(source, CHUNK_CELLS, n_more=n_more)), n_more
        except LongRow as long:
            n_more = _more_cells(n_more, long)


def _more_cells(n_more: int, long: LongRow) -> int:
    """Return how many cells beyond the header to read, now that a row has even more."""
    if n_more + long.n_more > MOST_MORE:
        raise long
    return n_more + long.n_more


def _beside(cells: pd.DataFrame, found: Survey, answers: pd.DataFrame) -> pd.DataFrame:
    """Return columns of the table, as the file writes them, with the answers beside them."""
    cells.columns = cells.columns.map(str)
    kept = cells[found.carried].reset_index(drop=True)
    answers = answers.rename(columns=found.renamed)
    both: pd.DataFrame = import_extra("pandas").concat([kept, answers], axis=1)
    return both


def _other_names(carried: list[str], answers: list[str]) -> dict[str, str]:
    """Return other names for the columns of answers that have the name of one carried over.

    Examples
    --------
    >>> _other_names(["x", "class"], ["class", "p_a", "p_b", "entropy"])
    {'class': 'predicted_class'}
    """
    found: dict[str, str] = {}
    for name in answers:
        other = name
        while other in carried or (other != name and other in answers):
            other = f"predicted_{other}"
        if other != name:
            found[name] = other
    return found


def _survey(
    bundle: ModelBundle,
    frames: Iterator[pd.DataFrame],
    data: Path,
    wishes: Wishes,
    say: Callable[[str], None],
    progress: bool,
) -> Survey:
    """Read the table once; raise where nothing can be predicted, and say what is odd."""
    n_rows, n_unreadable, n_mostly_blank, n_chunks, first_reason = 0, 0, 0, 0, ""
    n_wordless = 0
    carried: list[str] = []
    strangers: dict[str, Counter[str]] = {}
    chunk = None
    preprocessing: Preprocessing = bundle.preprocessing
    far = None if preprocessing.spans is None else FarValues(preprocessing.spans)
    n_given = np.zeros(len(preprocessing.columns), dtype=np.intp)
    with progress_bar(desc="reading", unit=" rows", disable=not progress) as bar:
        for frame in frames:
            if n_chunks == 0:
                named = frame.drop(columns=N_CELLS, errors="ignore")
                carried = _carried(bundle, named, data, wishes, say)
            read, reasons = unreadable(preprocessing, frame)
            can_be_read = np.array([reason is None for reason in reasons])
            n_unreadable += int((~can_be_read).sum())
            is_blank = is_filled(preprocessing, read)
            n_mostly_blank += int((can_be_read & (is_blank.mean(axis=1) >= MANY)).sum())
            n_given += read[list(preprocessing.columns)].notna().to_numpy()[can_be_read].sum(axis=0)
            first_reason = first_reason or next((r for r in reasons if r is not None), "")
            if only_texts(preprocessing) and can_be_read.any():
                n_wordless += int(_is_wordless(apply(preprocessing, read[can_be_read])).sum())
            for column, found in unseen(preprocessing, read[can_be_read]).items():
                strangers.setdefault(column, Counter()).update(found)
            if far is not None:
                far.add(numbers_of(read[can_be_read], preprocessing.numeric))
            n_rows, n_chunks = n_rows + len(frame), n_chunks + 1
            chunk = frame if n_chunks == 1 else None
            bar.update(len(frame))
    if n_unreadable == n_rows:
        raise ValueError(
            f"no row of {str(data)!r} can be read; the first: {first_reason}. Correct the file."
        )
    n_read = n_rows - n_unreadable
    without = [name for name, n in zip(preprocessing.columns, n_given) if n == 0]
    if without and n_read >= FEWEST_ROWS:
        say(
            f"Blank in all {n_read} rows: {', '.join(quoted(without))}. The classes rest on the "
            "other columns."
        )
    for column, strange in strangers.items():
        say(about_strangers(column, strange, preprocessing.categories[column]))
    unlike = None if far is None else far.remark(preprocessing.numeric)
    if unlike is not None:
        say(unlike)
    answers = answer_columns(bundle.estimator)
    answers += [BLANK_CELLS] if n_mostly_blank else []
    answers += [REASON] if n_unreadable or n_wordless else []
    renamed = _other_names(carried, answers)
    if renamed:
        others = [f"{other} beside the data's own {name}" for name, other in renamed.items()]
        say(f"Columns of the predictions: {', '.join(others)}.")
    return Survey(n_rows, n_unreadable, carried, chunk, n_mostly_blank, n_wordless, renamed)


def _carried(
    bundle: ModelBundle, frame: pd.DataFrame, data: Path, wishes: Wishes, say: Callable[[str], None]
) -> list[str]:
    """Return the columns to carry over; say which of the others are ignored."""
    name = wishes.id_column
    check_columns(frame, data, None, id=name)
    known = bundle.id_column  # the fit's, which is carried over where the rows have it
    if name is None and known in frame.columns:
        name = known
    carried = list(frame.columns) if wishes.keep else [n for n in [name] if n is not None]
    unused = [n for n in extra_columns(bundle.preprocessing, frame) if n not in carried]
    ignored = [n for n in unused if n not in {bundle.target, *columns_told(bundle).values()}]
    if ignored:
        say(f"Ignored columns that the model was not fitted on: {', '.join(quoted(ignored))}.")
    group = columns_told(bundle).get("--groups")
    if group in frame.columns:
        say(f"{group!r}, the fit's --groups, is not used: every row is predicted by itself.")
    if bundle.target in unused:
        say(f"{bundle.target!r}, the column of labels, is not used; `atoll score` compares it.")
    return carried


def answer_columns(estimator: Any) -> list[str]:
    """Return the names of the columns of answers."""
    return ["class", *(f"p_{label}" for label in estimator.classes_.tolist()), "entropy"]


def _announce(
    bundle: ModelBundle, frame: pd.DataFrame, n_rows: int, say: Callable[[str], None]
) -> None:
    """Say how long the predictions will take, if that is long."""
    if n_rows <= TRIAL_ROWS:
        return
    read, reasons = unreadable(bundle.preprocessing, frame.head(TRIAL_ROWS))
    read = read[np.array([reason is None for reason in reasons])]
    if not len(read):
        return
    X = as_fitted(bundle.estimator, apply(bundle.preprocessing, read))
    seconds = n_rows / len(read) * seconds_of(lambda: bundle.estimator.predict_proba(X))
    if seconds > LONG:
        say(
            f"Predicting {n_rows:,} rows will take about {in_words(seconds)}, on a machine with "
            "nothing else to do."
        )


def _error_of_kept(bundle: ModelBundle, frame: pd.DataFrame, reject_below: float) -> str:
    """Say how many of the rows that keep a class are wrong, judging by the first chunk."""
    pd = import_extra("pandas")
    read, reasons = unreadable(bundle.preprocessing, frame)
    read = read[pd.isna(reasons)]
    if not len(read):
        return "No row of the first chunk can be read: the error of the rows kept is not known."
    X = as_fitted(bundle.estimator, apply(bundle.preprocessing, read))
    return str(bundle.estimator.estimate_error(X, reject_below=reject_below))


def _answers(
    bundle: ModelBundle, frame: pd.DataFrame, found: Survey, bar: Any, reject_below: float | None
) -> pd.DataFrame:
    """Return what is written for the rows of one chunk."""
    pd = import_extra("pandas")
    read, reasons = unreadable(bundle.preprocessing, frame)
    can_be_read = pd.isna(reasons)
    frame, read = frame.reset_index(drop=True), read.reset_index(drop=True)
    read = read[can_be_read]
    if len(read):
        X = apply(bundle.preprocessing, read)
        p = predicted_proba(bundle.estimator, X, bar)
        if found.n_wordless:
            reasons[np.flatnonzero(can_be_read)[_is_wordless(X)]] = NO_WORD
    else:
        p = np.empty((0, len(bundle.estimator.classes_)))
    predictions = _as_frame(bundle.estimator, p)
    bar.update(len(frame) - len(read))
    predictions.index = read.index
    if reject_below is not None:
        unsure = predictions.filter(regex="^p_").max(axis=1) < reject_below
        predictions["class"] = predictions["class"].astype(object).where(~unsure, None)
    if found.n_mostly_blank:
        blank = is_filled(bundle.preprocessing, read).sum(axis=1)
        predictions[BLANK_CELLS] = pd.array(blank, dtype="Int64")
    if found.n_unreadable or found.n_wordless:
        predictions = predictions.reindex(frame.index)
        predictions[REASON] = pd.array(reasons, dtype="string")
    return predictions


def only_texts(preprocessing: Preprocessing) -> bool:
    """Return whether a model reads nothing but texts."""
    return bool(preprocessing.texts) and not preprocessing.features


def _is_wordless(X: Any) -> NDArray[np.bool_]:
    """Return which texts, given as rows (m, p) of weighted words, have no word."""
    return np.asarray(np.diff(X.indptr) == 0)


def _as_frame(estimator: Any, p: NDArray[np.float64]) -> pd.DataFrame:
    pd = import_extra("pandas")
    names = answer_columns(estimator)
    columns: dict[str, Any] = {names[0]: estimator.classes_[p.argmax(axis=1)]}
    columns |= {name: p[:, k] for k, name in enumerate(names[1:-1])}
    return pd.DataFrame(columns | {names[-1]: entropy(p)})
