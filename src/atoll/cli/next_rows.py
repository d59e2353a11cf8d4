"""What `atoll next` does: a labelling loop that goes on from one run to the next."""

from __future__ import annotations

import math
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.cli.knowledge import columns_told
from atoll.cli.loop_table import (
    LEARNT,
    OTHER_STATE,
    SEED,
    in_type_of_column,
    named_rows,
    note_answers,
    note_rows,
    refuse_answers_of_other_rows,
    refuse_moved_rows,
    take_labels,
)
from atoll.cli.opening import in_type_of, labels_of, markers_of_model, refuse_words
from atoll.cli.terminal import saved_in, table_lines
from atoll.core.extras import import_extra
from atoll.core.near_names import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from atoll.active import ActiveLearner, Query
    from atoll.core.table_forms import Form
    from atoll.estimators.persistence import ModelBundle

ROW = "row"  # column that says which row of the table an answer is for; the first is row 1
OWN = (ROW, "predicted", "probability", "why")  # columns of a table of rows to label
MOST_NAMED = 6  # classes that a message names


class Files(NamedTuple):
    """Where a round of labels reads and writes.

    model : the model
    data : the table of rows
    state : the loop, which need not be there yet
    answers : table of answers, or None
    out : table of the rows to label, or None
    labelled : table with every label, or None
    """

    model: Path
    data: Path
    state: Path
    answers: Path | None = None
    out: Path | None = None
    labelled: Path | None = None


class Table(NamedTuple):
    """The table of rows.

    rows, cells : as they are read, and as they are written
    form : how its text is written; None for Parquet
    """

    rows: pd.DataFrame
    cells: pd.DataFrame
    form: Form | None


class Wishes(NamedTuple):
    """What the command line says of a loop.

    n : rows to label
    strategy : name of one, or None for the one that the loop has, or the default
    target_error : share of wrong rows to stop at, or None
    seed : of every random number
    new_classes : that answers may have besides those that are known
    progress : whether the fit shows how far it is
    is_seed_given : whether the user gave the seed
    """

    n: int
    strategy: str | None
    target_error: float | None
    seed: int
    new_classes: tuple[str, ...] = ()
    progress: bool = False
    is_seed_given: bool = False


def check_files(files: Files) -> None:
    """Raise a ValueError unless everything can be written without losing another file.

    The table of rows to label may overwrite the table of answers, since the loop keeps those.
    """
    from atoll.core.overwriting import MODEL, check_output
    from atoll.core.tables import check_table_path

    read = (files.model, files.data, files.state)
    if files.out is not None:
        check_table_path(files.out, read, "--out")
    if files.labelled is not None:
        check_table_path(files.labelled, (*read, files.answers, files.out), "--labelled")
        if files.labelled == files.out:
            raise ValueError(
                f"--out and --labelled are both {str(files.out)!r}; name two different files."
            )
    check_output(files.state, MODEL, (files.model, files.data, files.answers), "--state")


def check_wishes(wishes: Wishes) -> None:
    """Raise a ValueError unless a loop can be run with these wishes."""
    from atoll.active import STRATEGIES, ActiveLearner

    rule = ActiveLearner.parameters["target_error"]
    if not rule.allows(wishes.target_error):
        raise ValueError(
            f"--target-error {wishes.target_error:g}: give a number above 0 and below 1."
        )
    if wishes.strategy is not None and wishes.strategy not in STRATEGIES:
        hint = did_you_mean(wishes.strategy, STRATEGIES)
        known = f"{'Give' if hint else 'give'} one of {', '.join(STRATEGIES)}."
        raise ValueError(f"--strategy {wishes.strategy}: {hint}{known}")


def run_round(
    bundle: ModelBundle,
    table: Table,
    files: Files,
    wishes: Wishes,
    say: Callable[[str], None],
) -> None:
    """Learn the answers, write or show the rows to label next, and say how wrong the model is.

    Parameters
    ----------
    bundle : the model, as `open_model` returns it
    files, wishes : what the command line says
    say : called with every line for the reader
    """
    from atoll.core.blank_rows import MANY, known_rows, left_to_the_end, mostly_blank
    from atoll.core.preprocessing import apply, is_filled
    from atoll.core.table_refusals import require_known_columns
    from atoll.core.tables import write_table

    _refuse_own_names(bundle.target)
    require_known_columns(bundle.preprocessing.columns, table.rows)
    known = known_rows(table.rows, bundle.preprocessing.columns)
    for line in known.remark():
        say(line)
    frame, cells = known.frame, known.of(table.cells).reset_index(drop=True)
    numbers = np.arange(1, len(frame) + 1) if known.numbers is None else known.numbers
    X = apply(bundle.preprocessing, frame)
    answers = None
    if files.answers is not None:  # read before the fit, which may be slow
        classes = bundle.estimator.classes_
        new = wishes.new_classes
        answers = read_answers(files.answers, bundle.target, frame, numbers, classes, new)
        answers = answers._replace(markers=markers_of_model(bundle))
    given = _labels(bundle, frame)
    refuse_words(bundle, given)
    learner = open_learner(bundle, given, X, frame, numbers, files.state, wishes)
    has_labels = bundle.target in frame.columns
    for line in [*_about_columns_told(bundle), *_about_seed(learner, files.state, wishes)]:
        say(line)
    for line in take_labels(learner, given if has_labels else None, numbers):
        say(line)
    if files.answers is not None and answers is not None:
        for line in take_answers(learner, answers, files.answers, wishes, given):
            say(line)
    is_blank_cell = is_filled(bundle.preprocessing, frame)
    n_blank, n_cells = is_blank_cell.sum(axis=1), is_blank_cell.shape[1]
    query = learner.query(wishes.n, later=np.flatnonzero(mostly_blank(n_blank / n_cells)))
    asked = described(learner, query, cells, bundle.target)
    asked[ROW] = numbers[query.rows]
    n_blank = n_blank[query.rows]
    is_blank = n_blank >= MANY * n_cells
    asked["why"] = [
        f"{why}; {n} of {n_cells} cells blank" if many else why
        for why, n, many in zip(asked["why"], n_blank.tolist(), is_blank.tolist())
    ]
    note_rows(learner, frame, numbers, bundle.target)
    learner.save(files.state, target=bundle.target)
    if files.labelled is not None:
        with_all = _whole_table(learner, bundle, table, given, numbers, files.labelled)
        write_table(with_all, files.labelled, table.form)
        data = "The table" if str(files.data) == "-" else str(files.data)
        say(f"{data} with every label that is known {saved_in(files.labelled)}.")
    for line in _hand_out(asked, bundle, table.form, files.out):
        say(line)
    if len(asked):
        say(how_picked(learner))
    if is_blank.any():
        say(about_blanks(numbers[query.rows][is_blank].tolist()))
    if len(query.later):
        say(left_to_the_end(numbers[query.later].tolist()))
    say(str(learner.estimate_error()))
    may_stop = False
    if learner.target_error is not None:
        advice = learner.should_stop()
        may_stop = advice.stop
        say(advice.reason)
    if may_stop:
        say(after_the_loop(files, bundle, list(learner.classes_)))
    elif files.labelled is not None and str(files.labelled) != "-":
        fit = fit_again(files.labelled, bundle, list(learner.classes_))
        say(f"A model of all labels so far: `{fit}`.{_about_options(bundle)}")


def _about_columns_told(bundle: ModelBundle) -> Iterator[str]:
    """Say that the loop does not know what the fit was told by columns of the table."""
    told = columns_told(bundle)
    if told:
        asked = ", and rows of a group that has a label may be asked for" * ("--groups" in told)
        yield (
            f"The loop takes no notice of the fit's {' and '.join(map(' '.join, told.items()))}: "
            f"its probabilities are not quite the fit's{asked}."
        )


def _about_seed(learner: ActiveLearner, state: Path, wishes: Wishes) -> Iterator[str]:
    """Say that a loop goes on with the seed that it began with, where another is given."""
    began = learner.notes_.get(SEED)  # None in older files
    if wishes.is_seed_given and began != wishes.seed:
        which = "" if began is None else f", {began}"
        yield (
            f"--seed {wishes.seed} has no effect: the loop in {state} goes on with the seed that "
            f"it began with{which}. To begin another, name its file with --state."
        )


def _hand_out(
    asked: pd.DataFrame, bundle: ModelBundle, form: Form | None, out: Path | None
) -> Iterator[str]:
    """Write the rows to label to a file, or yield them line by line; and say how to answer."""
    from atoll.core.tables import write_table

    if out is not None:
        write_table(asked, out, form)
        rows = "1 row" if len(asked) == 1 else f"{len(asked)} rows"
        yield f"{rows} to label {saved_in(out)}; fill in {bundle.target!r}."
    elif len(asked):
        shown = list(OWN)
        if bundle.id_column in asked.columns:
            shown.insert(1, bundle.id_column)
        yield from table_lines(shown, asked[shown].map(_written).values.tolist())
        yield (
            f"To answer: --out FILE writes these rows with a column {bundle.target!r} to fill in, "
            "and --answers FILE reads it back."
        )


def after_the_loop(files: Files, bundle: ModelBundle, classes: list[Any]) -> str:
    """Return the commands that predict all rows once labelling has stopped.

    Parameters
    ----------
    bundle : the model that the loop began with
    classes : the classes that the loop knows
    """
    labelled = Path("labelled.csv") if files.labelled is None else files.labelled
    data = "DATA" if str(files.data) == "-" else str(files.data)
    fit = fit_again(labelled, bundle, classes)
    predict = ["atoll", "predict", "final.atoll", data, "--out", "predictions.csv"]
    first = "" if files.labelled else f"run this again with --labelled {labelled}, then "
    said = f"Final predictions: {first}`{fit}`, then `{shlex.join(predict)}`."
    return said + _about_options(bundle)


def fit_again(labelled: Path, bundle: ModelBundle, classes: list[Any]) -> str:
    """Return the command that fits a model to all labels, with the options of the first fit.

    It says that labels were picked, as those that the loop asked for were.

    Parameters
    ----------
    labelled : the table with them
    bundle, classes : as in `after_the_loop`
    """
    fit = ["atoll", "fit", str(labelled), "--target", bundle.target]
    return shlex.join([*fit, *_options_again(bundle, classes), "--out", "final.atoll"])


def _about_options(bundle: ModelBundle) -> str:
    """Say that options of the first fit are to be added, if the model file does not hold them."""
    if bundle.options is not None:
        return ""
    return " Add the options of your first fit, which this model file does not hold."


def _options_again(bundle: ModelBundle, classes: list[Any]) -> list[str]:
    """Return the options of the first fit for one with all labels, word by word."""
    from atoll.active.pool import last_step

    own = [["--id", bundle.id_column]] if bundle.id_column else []
    words: list[str] = []
    for option, *value in own if bundle.options is None else bundle.options:
        key = value[0].partition("=")[0].strip().replace("-", "_") if option == "--set" else ""
        if key == "classes":  # answers may have brought more
            value = [f"classes={','.join(map(str, classes))}"]
        if key != "labels_chosen":
            words += [option, *value]
    if "labels_chosen" in last_step(bundle.estimator).get_params(deep=False):
        words += ["--set", "labels_chosen=true"]
    return words


def open_learner(
    bundle: ModelBundle,
    given: NDArray[Any],
    X: Any,
    frame: pd.DataFrame,
    numbers: NDArray[np.intp],
    state: Path,
    wishes: Wishes,
) -> ActiveLearner:
    """Return the loop that the state file holds, or a new one with the labels of the table.

    It goes on with the classifier of the model file, which may be fitted anew.

    Parameters
    ----------
    given : (n,) labels of the table, None where blank
    X, frame : (n, d), (n, p) its rows, as the model takes them and as they are read
    numbers : (n,) of the rows, from 1
    state : file of the loop, which need not be there
    """
    from sklearn.base import clone

    from atoll.active import ActiveLearner
    from atoll.estimators.persistence import DamagedFile

    if not state.exists():
        learner = ActiveLearner(
            clone(bundle.estimator),
            classes=bundle.estimator.classes_.tolist(),
            strategy=wishes.strategy or "brier",
            target_error=wishes.target_error,
            unlabelled=None,
            random_state=wishes.seed,
            verbose=wishes.progress,
        )
        learner.fit(X, given, picked=picked_in_fit(bundle.estimator))
        learner.notes_[SEED] = wishes.seed
        learner.notes_[LEARNT] = [i for i, label in enumerate(given) if label is not None]
        return learner
    try:
        learner = ActiveLearner.load(state, estimator=clone(bundle.estimator))
    except DamagedFile as error:
        raise ValueError(
            f"{error.what} Put back a copy of it, delete it to begin anew without its answers, or "
            "name another file with --state."
        ) from None
    learner.verbose = wishes.progress
    if learner.target_ not in ("", bundle.target):
        raise ValueError(
            f"{str(state)!r} holds labels of the column {learner.target_!r}, not of "
            f"{bundle.target!r}; name another file with --state."
        )
    refuse_moved_rows(learner, frame, numbers, state)
    if not learner.has_rows(X):
        raise ValueError(
            f"{str(state)!r} goes with other rows than this table's, or other columns of them: "
            f"take those{OTHER_STATE}"
        )
    if wishes.strategy is not None and wishes.strategy != learner.strategy:
        raise ValueError(
            f"--strategy {wishes.strategy}: the loop in {str(state)!r} picks rows by "
            f"{learner.strategy}; leave the option out, or name another file with --state."
        )
    if wishes.target_error is not None:
        learner.target_error = wishes.target_error
    return learner


def picked_in_fit(estimator: Any) -> bool:
    """Return whether the labels of a fit were said to be picked; the loop treats them the same."""
    from atoll.active.pool import last_step

    return last_step(estimator).get_params(deep=False).get("labels_chosen", False) is not False


class Answers(NamedTuple):
    """A table of answers.

    rows : answered rows of the pool, from 0
    labels : their labels, None where blank
    numbers : (n,) numbers of all rows of the pool in their table, from 1
    markers : labels that meant unlabelled in the fit
    """

    rows: list[int]
    labels: list[Any]
    numbers: NDArray[np.intp]
    markers: Sequence[Any] = ()


def take_answers(
    learner: ActiveLearner, answers: Answers, path: Path, wishes: Wishes, in_data: NDArray[Any]
) -> list[str]:
    """Teach the loop what was answered, and return lines about it.

    A blank cell is no answer, and leaves the one that the row had before: several people may fill
    in parts of one file. A word such as "?" withdraws that one, unless the label is in the table.

    Parameters
    ----------
    path : of the answers
    in_data : (n,) labels of the table of rows, None where blank
    """
    found = without_unknown(answers.rows, answers.labels, learner.classes_, answers.markers)
    rows, labels, unknown = found
    refuse_new_classes(path, labels, learner.classes_, wishes.new_classes)
    for row, label in zip(rows, labels):
        if in_data[row] is not None and in_data[row] != label:
            raise ValueError(
                f"{str(path)!r} answers row {answers.numbers[row]} with {label!r}, and the table "
                f"has the label {in_data[row]!r}; correct the wrong one."
            )
    with warnings.catch_warnings():  # a class is new because the command line says so
        warnings.filterwarnings("ignore", message="update was given", category=UserWarning)
        learner.refit().update(rows, labels)
    note_answers(learner, rows)
    lines = [f"{len(rows)} answer{'' if len(rows) == 1 else 's'} taken from {path}."]
    if unknown:
        words = ", ".join(repr(word) for word in sorted(set(unknown)))
        more = "1 more says" if len(unknown) == 1 else f"{len(unknown)} more say"
        end = "no answer" if len(unknown) == 1 else "no answers"
        lines.append(f"{more} that the class is not known ({words}): {end}.")
    blank = {row for row, label in zip(answers.rows, answers.labels) if label is None}
    doubted = sorted(set(answers.rows) - set(rows) - blank)
    before = learner.labels_
    answered = [row for row in doubted if in_data[row] is None and before[row] is not None]
    after = learner.withdraw(answered).labels_
    gone = [row for row in doubted if before[row] is not None and after[row] is None]
    if gone:
        named = named_rows(answers.numbers[gone])
        lines.append(f"Withdrawn, since that is the answer now: {named}.")
    left = [i for i in sorted(blank - set(rows)) if before[i] is not None and in_data[i] is None]
    if left:
        named = named_rows(answers.numbers[left])
        lines.append(f"Blank here, and answered before: {named}. Write ? to withdraw.")
    return lines


def read_answers(
    path: Path,
    target: str,
    frame: pd.DataFrame,
    numbers: NDArray[np.intp],
    classes: Any,
    new: Sequence[str] = (),
) -> Answers:
    """Return the rows of a table of answers, and their labels.

    Parameters
    ----------
    target : column of the labels
    frame : (n, p) the rows of the pool
    numbers : (n,) their numbers in the table, from 1
    classes : the known ones, to whose type labels are converted
    new : other classes that are allowed
    """
    from atoll.core.labels import read_target
    from atoll.core.null_words import with_words
    from atoll.core.tables import read_table, repeated_names, source_of

    source = source_of(path)
    named = [*new, *(name for name in classes.tolist() if isinstance(name, str))]
    answers = with_words(read_table(source), source, target, named).frame
    repeated = repeated_names(source)
    for name in (ROW, target):
        if name in repeated:
            raise ValueError(
                f"{len(repeated[name])} columns of {str(path)!r} are called {name!r}; give each a "
                "name of its own."
            )
        if name not in answers.columns:
            raise ValueError(
                f"{str(path)!r} has no column {name!r}; answers need {ROW!r}, the row of the "
                f"table from 1 on, and {target!r}, its label."
            )
    labels = read_target(answers[target])
    place_of = {number: place for place, number in enumerate(numbers.tolist())}
    lines, places, given = [], [], []
    for line, (word, label) in enumerate(zip(answers[ROW].tolist(), labels.tolist())):
        if not isinstance(word, int | float) or word not in place_of:
            if label is None:
                continue
            raise ValueError(
                f"{str(path)!r} has an answer for row {word!r}; the table has rows 1 to "
                f"{numbers[-1]}{'' if len(numbers) == numbers[-1] else ', but for blank ones'}."
            )
        lines.append(line)
        places.append(place_of[int(word)])
        given.append(None if label is None else in_type_of(classes, label))
    kept = _once(path, places, given, numbers)
    told = [i for i in kept if given[i] is not None]
    cells = answers[[name for name in answers.columns if name not in (*OWN, target)]]
    there = [places[i] for i in told]
    refuse_answers_of_other_rows(path, cells.iloc[[lines[i] for i in told]], there, frame, numbers)
    return Answers([places[i] for i in kept], [given[i] for i in kept], numbers)


def _once(path: Path, places: list[int], given: list[Any], numbers: NDArray[np.intp]) -> list[int]:
    """Return which answers to keep, one for each row; a ValueError if a row has two that differ."""
    first: dict[int, int] = {}
    for i, (place, label) in enumerate(zip(places, given)):
        before = given[first[place]] if place in first else None
        if label is not None and before is not None and label != before:
            raise ValueError(
                f"{str(path)!r} answers row {numbers[place]} twice: {before}, {label}; leave the "
                "right one, and delete the other line."
            )
        if before is None:
            first[place] = i
    return sorted(first.values())


def without_unknown(
    rows: list[int], labels: list[Any], classes: Any, markers: Sequence[Any] = ()
) -> tuple[list[int], list[Any], list[str]]:
    """Return rows and labels of answers, and the words of answers that mean "not known".

    Blank answers, which are None, are left out. `markers` mean "not known" besides common words.

    Examples
    --------
    >>> without_unknown([3, 8], ["cat", "?"], ["cat", "dog"])
    ([3], ['cat'], ['?'])
    """
    from atoll.core.markers import WORDS_FOR_UNLABELLED

    known = set(np.asarray(classes).tolist())
    told = [
        label is not None
        and (label in known or not (label in markers or _word(label) in WORDS_FOR_UNLABELLED))
        for label in labels
    ]
    unknown = [
        str(label) for label, is_told in zip(labels, told) if not is_told and label is not None
    ]
    pairs = [pair for pair, is_told in zip(zip(rows, labels), told) if is_told]
    return [row for row, _ in pairs], [label for _, label in pairs], unknown


def _word(label: Any) -> str:
    return str(label).strip().lower()


def refuse_new_classes(
    path: Path, labels: list[Any], classes: Any, allowed: tuple[str, ...]
) -> None:
    """Raise a ValueError if an answer is a new class that is not allowed.

    A loop that knows fewer than two classes has yet to find them, and takes any.
    """
    known = np.asarray(classes).tolist()
    if len(known) < 2:
        return
    for label in labels:
        if label not in known and str(label) not in allowed:
            hint = did_you_mean(str(label), [str(name) for name in known])
            mend = f"; {hint}Correct it" if hint else "; correct it"
            raise ValueError(
                f"{str(path)!r} has the answer {label!r}, and the classes are "
                f"{', '.join(str(name) for name in known[:MOST_NAMED])}"
                f"{', …' * (len(known) > MOST_NAMED)}{mend}, leave it blank, or add "
                f"--new-class {label} if it is one."
            )


def _refuse_own_names(target: str) -> None:
    """Raise a ValueError where a column of the rows to label would hide that of the labels."""
    if target in OWN:
        raise ValueError(
            f"the column of labels is called {target!r}, as one that stands beside the rows to "
            f"label ({', '.join(OWN)}); rename it, and fit again."
        )


def described(learner: ActiveLearner, query: Query, frame: pd.DataFrame, target: str) -> Any:
    """Return a table of the rows to label: number, blank label, prediction, reason, the row.

    Parameters
    ----------
    frame : the table of rows, as it is written
    target : its column of labels
    """
    pd = import_extra("pandas")
    predicted, p = learner.predictions_[query.rows], learner.proba_[query.rows]
    has_model = learner.estimator_ is not None
    told = pd.DataFrame(
        {
            ROW: query.rows + 1,
            target: [None] * len(query.rows),
            "predicted": predicted,
            "probability": p.max(axis=1).round(3) if has_model else None,
            "why": query.why,
        }
    )
    others = frame.drop(columns=[c for c in (target,) if c in frame.columns])
    others = others.rename(columns={name: f"{name} (of the table)" for name in OWN})
    return pd.concat([told, others.iloc[query.rows].reset_index(drop=True)], axis=1)


def about_blanks(rows: list[int]) -> str:
    """Return a sentence about rows that have half of their cells blank or more.

    Examples
    --------
    >>> about_blanks([4])[:45]
    'Row 4 has half of its cells blank or more: wh'
    """
    if len(rows) == 1:
        named, its = f"Row {rows[0]} has", "its"
    else:
        named, its = f"Rows {', '.join(map(str, rows[:-1]))} and {rows[-1]} have", "their"
    return (
        f"{named} half of {its} cells blank or more: what is filled in there is typical of other "
        "rows, and a label teaches less than elsewhere. Leave the label blank if you cannot tell."
    )


def how_picked(learner: ActiveLearner) -> str:
    """Return a sentence that says how the rows other than audits were picked."""
    from atoll.active import STRATEGIES

    if learner.estimator_ is None:
        return "There is no model yet: the rows asked are typical of their surroundings."
    name = learner.strategy_.partition(",")[0]
    of_name = STRATEGIES.get(name)
    what = f"has the highest score by {name}" if of_name is None else of_name.summary
    if name == "random":
        return f"Each row {what}, and so measures the error."
    return f"Each row {what}, given those above it; rows drawn at random measure the error."


def _whole_table(
    learner: ActiveLearner,
    bundle: ModelBundle,
    table: Table,
    given: NDArray[Any],
    numbers: NDArray[np.intp],
    path: Path,
) -> pd.DataFrame:
    """Return the table with every label that is known in its target column.

    Its cells are as they are written, but for a Parquet file, where numbers are numbers.

    Parameters
    ----------
    given : (n,) the labels that it has in the rows of the pool, None where blank
    numbers : (n,) of these rows, from 1
    path : of the file to write
    """
    from atoll.core.tables import is_parquet_path

    target = bundle.target
    if table.form is not None and is_parquet_path(path):
        labels = _labels(bundle, table.rows)
        labels[numbers - 1] = learner.labels_
        return table.rows.assign(**{target: labels})
    found = np.full(len(table.cells), None, dtype=object)
    if target in table.cells.columns:
        found = table.cells[target].astype(object).to_numpy(copy=True)
    # Labels are written as others of their class are, such as a date that was read as text.
    cells = {label: found[place] for place, label in zip(numbers - 1, given) if label is not None}
    for place, label, before in zip(numbers - 1, learner.labels_, given):
        if label != before:
            found[place] = cells.get(label, label)
    if target not in table.cells.columns:
        return table.cells.assign(**{target: found})
    return table.cells.assign(**{target: in_type_of_column(table.cells[target], found)})


def _labels(bundle: ModelBundle, frame: pd.DataFrame) -> NDArray[Any]:
    found = labels_of(bundle, frame)
    return np.full(len(frame), None, dtype=object) if found is None else found


def _written(cell: Any) -> str:
    """Return a cell as text; nothing for a null."""
    if isinstance(cell, float) and not math.isnan(cell):
        return f"{cell:.3f}"
    return "" if import_extra("pandas").isna(cell) else str(cell)
