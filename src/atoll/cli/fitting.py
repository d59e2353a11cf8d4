"""What `atoll fit` makes of its options and its table."""

from __future__ import annotations

import math
import re
import shlex
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atoll.cli.rows import how_scaled
from atoll.cli.settings import classes_in_type
from atoll.cli.terminal import quoted
from atoll.cli.wording import in_options
from atoll.core.points import in_points, points_of
from atoll.core.shown import shortened

FAR = 1000.0  # times as probable; beyond, it is just called "far more"
CLEARLY = 0.5  # weight of an assumption from which on it is mentioned
OF_THE_RUN = ("data", "target", "out", "checkpoint", "quiet")  # options that no model depends on

if TYPE_CHECKING:
    import pandas as pd
    import typer
    from numpy.typing import NDArray

    from atoll.core.blank_rows import KnownRows
    from atoll.core.labels import PartialLabels
    from atoll.core.preprocessing import PreparedTable, Preprocessing
    from atoll.estimators.persistence import ModelBundle


def rows_to_learn_from(
    frame: pd.DataFrame, others: list[str], say: Callable[[str], None]
) -> KnownRows:
    """Return the rows that are not wholly blank, and say which are left out.

    Parameters
    ----------
    others : columns that are not learnt from
    say : called with a line about the rows that are left out
    """
    from atoll.core.blank_rows import known_rows

    known = known_rows(frame, [name for name in frame.columns if name not in others])
    for line in known.remark(after=" (the first row under the header is row 1)."):
        say(line)
    return known


def without_index(frame: pd.DataFrame, others: list[str], say: Callable[[str], None]) -> list[str]:
    """Add the columns that only number the rows to those that are not learnt from, and say so.

    Parameters
    ----------
    others : columns that are not learnt from
    say : called with a line about each column that is left out
    """
    from atoll.core.unusable import index_columns

    learnt = [name for name in frame.columns if name not in others]
    found = index_columns(frame, learnt)
    if len(found) == len(learnt):
        return others
    for name in found:
        say(
            f"{name} numbers the rows, and is left out; to learn from it all the same, give it "
            "another name."
        )
    return [*others, *found]


def with_classes(
    frame: pd.DataFrame, source: Any, target: str, unlabelled: Sequence[str], declared: Any = None
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with words such as NA as labels where they are classes, and what to say.

    Parameters
    ----------
    source : what the table was read from
    unlabelled : the option's values; "none" says that every word is a class
    declared : classes that the user named, or None
    """
    from atoll.core.labels import read_target
    from atoll.core.null_words import NULL_WORDS, about_words, with_words

    named = [] if declared is None or isinstance(declared, str) else map(str, declared)
    found = with_words(frame, source, target, NULL_WORDS if "none" in unlabelled else [*named])
    lines = about_words(found, target, "give --unlabelled none", unlabelled)
    others = [text for text in unlabelled if text not in found.blank]
    return found.frame, lines + about_markers(others, read_target(found.frame[target]), target)


def settle_labels(
    estimator: Any, kind: Any, targets: Any, unlabelled: Sequence[str]
) -> PartialLabels:
    """Read the labels of a fit; classes that were declared are converted to their type.

    Parameters
    ----------
    estimator, kind : the model, and its class
    targets : (n,) cells of the column of labels
    unlabelled : the option's values
    """
    from atoll.core.labels import parse_labels, require_classes

    marker = unlabelled_value(unlabelled, targets)
    declared = estimator.get_params().get("classes")
    if marker == "auto" and declared is None:
        refuse_placeholder(targets)
    with warnings.catch_warnings():
        if declared is not None:  # what -1 means is settled below, by the classes
            warnings.simplefilter("ignore", UserWarning)
        labels, enough = parse_labels(targets, unlabelled=marker), 2
    if declared is not None:
        estimator.set_params(classes=classes_in_type(declared, labels.classes))
        if kind.fits_unseen_classes:
            labels = parse_labels(targets, unlabelled=marker, classes=estimator.classes)
            enough = 1
    require_classes(labels, at_least=enough)
    if declared is None:
        refuse_measurement(labels)
    return labels


def refuse_measurement(labels: PartialLabels) -> None:
    """Raise a ValueError if the labels look like a measurement, which has no classes."""
    from atoll.core.measured_labels import about_measurement

    found = about_measurement(labels)
    if found is not None:
        raise ValueError(
            f"y has {found}: it looks like a measurement, not like classes. Name the column of "
            "classes with --target; if these numbers are classes, write them as words, such as "
            f"class{labels.classes[0]:.0f}."
        )


def refuse_placeholder(targets: Any) -> None:
    """Raise a ValueError if most labels are a word that often means "no label".

    Parameters
    ----------
    targets : (n,) cells of the column of labels
    """
    from atoll.core.markers import placeholders_in

    for name, _, is_most, share in placeholders_in(targets):
        if is_most:
            raise ValueError(
                f"{share} have the label {name!r}, which seems to mean that the label is not "
                f"known; say so with --unlabelled {shlex.quote(name)}, or with --unlabelled none "
                "that it is a class."
            )


def markers_in(values: list[str] | None) -> tuple[str, ...]:
    """Return the values of --unlabelled; a ValueError if one of several is auto or none."""
    for word in ("auto", "none"):
        if values is not None and len(values) > 1 and word in values:
            raise ValueError(
                f"--unlabelled {word} stands alone; leave it out, or the other values."
            )
    return ("auto",) if values is None else tuple(values)


def unlabelled_value(texts: Sequence[str], y: Any) -> Any:
    """Return the option's value, or a list of several, in the type of the labels."""
    if len(texts) > 1:
        return [_in_type_of_labels(text, y) for text in texts]
    (text,) = texts
    if text in ("auto", "none"):
        return text if text == "auto" else None
    return _in_type_of_labels(text, y)


def markers_of_fit(labels: PartialLabels, unlabelled: Any) -> list[Any]:
    """Return the labels besides blank cells that mean unlabelled, once a table has been read.

    Parameters
    ----------
    unlabelled : that the labels were read with, as in `parse_labels`
    """
    from atoll.core.labels import unlabelled_marker
    from atoll.core.markers import is_auto, markers_of

    if is_auto(unlabelled) and labels.classes.dtype.kind not in "iuf":
        return []
    return [m for m in markers_of(unlabelled_marker(labels, unlabelled)) if m is not None]


def _in_type_of_labels(text: str, y: Any) -> Any:
    if any(isinstance(label, str) for label in y):
        return text
    from atoll.core.null_words import NULL_WORDS

    if text in NULL_WORDS:  # which is a blank cell among numbers
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"--unlabelled {text}: the labels are numbers; give a whole number, auto or none."
        ) from None


def about_markers(texts: Sequence[str], y: Any, target: str) -> list[str]:
    """Return remarks on markers of unlabelled rows that the option names and no row has.

    Examples
    --------
    >>> about_markers(["?"], ["cat", None], "kind")
    ["No cell of 'kind' is '?' (--unlabelled); blank cells are unlabelled in any case."]
    """
    labels = list(y)
    return [
        f"No cell of {target!r} is {text!r} (--unlabelled); blank cells are unlabelled in any case."
        for text in texts
        if text not in ("auto", "none", "") and _in_type_of_labels(text, y) not in labels
    ]


def description(
    data: Path,
    frame: pd.DataFrame,
    labels: PartialLabels,
    preprocessing: Preprocessing,
    estimator: Any,
    amiss: Sequence[str] = (),
) -> list[str]:
    """Return the lines that describe a table before a fit; `amiss` is what `amiss_in` found."""
    from atoll.core.table_refusals import is_numeric

    names = [" ".join(str(name).split()) for name in labels.classes.tolist()]
    counts = ", ".join(f"{name} ({n})" for name, n in zip(names, labels.counts))
    others = {*preprocessing.categories, *preprocessing.texts}
    numeric = [n for n in preprocessing.columns if n not in others]
    lines = [
        f"{data}: {len(labels.codes)} rows, {labels.n_labelled} labelled.",
        f"Classes: {counts}.",
    ]
    lines += _alike(labels.classes.tolist())
    lines += about_order(type(estimator), estimator.get_params().get("classes"), labels)
    if numeric:
        how = how_scaled(estimator, preprocessing)
        lines.append(f"Numeric columns, {how}: {shortened(quoted(numeric))}.")
    as_text = [name for name in numeric if not is_numeric(frame[name])]
    if as_text:
        texts = shortened(quoted(as_text))
        lines.append(f"Numbers written as text, and read as numbers: {texts}.")
    if preprocessing.categories:
        encoded = shortened(quoted(preprocessing.categories))
        lines.append(f"Columns encoded as indicators: {encoded}.")
    lines += amiss
    blank = frame[list(preprocessing.columns)].isna().sum()
    blank = blank[blank > 0]
    if len(blank):
        pairs = zip(quoted(blank.index), blank.tolist())
        where = shortened([f"{name} ({count})" for name, count in pairs])
        lines.append(
            f"Blank cells: {where}. Numbers take the mean of rows like theirs, categories none "
            "of their values; where a twentieth or more are blank, that is a feature as well."
        )
    return lines


def amiss_in(frame: pd.DataFrame, labels: PartialLabels, preprocessing: Preprocessing) -> list[str]:
    """Return lines about suspicious columns of a table that is to be fitted."""
    from atoll.core.blank_markers import about_blank_markers
    from atoll.core.label_copies import label_codes, label_copies
    from atoll.core.table_fixes import SHELL
    from atoll.core.unusable import row_numbers
    from atoll.core.value_spans import numbers_of

    numeric = preprocessing.numeric
    lines = about_blank_markers(numbers_of(frame, numeric), numeric, SHELL)
    counters = row_numbers(frame, preprocessing.columns)
    for name in preprocessing.columns:
        if re.fullmatch(r"Unnamed: \d+", name) and name not in counters:
            lines.append(
                f"{name} has no name in the header, and is learnt from: give it one, or leave it "
                f"out (--drop {shlex.quote(name)})."
            )
    for name in counters:
        word = shlex.quote(name)
        lines.append(
            f"{name} looks like a row number, and is learnt from: leave it out (--drop {word}), or "
            f"name rows by it (--id {word})."
        )
    copies = label_copies(frame, preprocessing.columns, labels)
    for name in copies:
        lines.append(
            f"{name} is the same as the labels in all {labels.n_labelled} labelled rows, and is "
            f"learnt from: if it is a copy of what is to be predicted, leave it out (--drop "
            f"{shlex.quote(name)})."
        )
    for name in label_codes(frame, preprocessing.columns, labels):
        if name not in copies:
            lines.append(
                f"each value of {name} goes with one class in all {labels.n_labelled} labelled "
                "rows, and is learnt from: if it is made from what is to be predicted, leave it "
                f"out (--drop {shlex.quote(name)})."
            )
    return lines


def refuse_repeated(source: Path | bytes, data: Path, target: str) -> None:
    """Raise a ValueError if several columns have the name of the labels'.

    Parameters
    ----------
    source : what the table is read from
    data : its path
    """
    from atoll.core.tables import repeated_names

    places = repeated_names(source).get(target)
    if places is not None:
        raise ValueError(
            f"{len(places)} columns of {str(data)!r} are called {target!r}, and which of them "
            "holds the labels cannot be told: give each a name of its own."
        )


def about_repeated_names(
    frame: pd.DataFrame, source: Path | bytes, data: Path, target: str
) -> list[str]:
    """Return a line about columns with one name; raise a ValueError if that is the labels'.

    Parameters
    ----------
    source : what the table was read from
    data : its path
    """
    from atoll.core.tables import repeated_names

    refuse_repeated(source, data, target)
    lines = []
    for name, places in repeated_names(source).items():
        called = ", ".join(quoted(frame.columns[place] for place in places))
        lines.append(
            f"{len(places)} columns are called {name} in the header, and {called} here: give each "
            "a name of its own."
        )
    return lines


def about_names(names: pd.Series | None, known: KnownRows) -> list[str]:
    """Say how many rows share their name with another; nothing where none does.

    Parameters
    ----------
    names : (n,) of all rows of the table, as `names_as_written` returns them; None: they have none
    """
    from atoll.core.null_words import NULL_WORDS

    if names is None:
        return []
    if known.numbers is not None:
        names = names.iloc[known.numbers - 1]
    n_shared = int(names[~names.isin(["", *NULL_WORDS])].duplicated(keep=False).sum())
    if not n_shared:
        return []
    return [
        f"{n_shared} of {len(names)} rows share their {names.name} with another row, so that it "
        "does not tell them apart; if rows that share it must have one class, give --groups "
        f"{shlex.quote(str(names.name))}."
    ]


def about_order(kind: Any, declared: Any, labels: PartialLabels) -> list[str]:
    """Say in which order an ordinal model takes classes that are words; nothing for other models.

    Parameters
    ----------
    kind : class of the model
    declared : classes in the order that the user gave; None if none was given
    """
    from atoll.estimators import OrdinalGPClassifier

    names = labels.classes.tolist()
    if not issubclass(kind, OrdinalGPClassifier) or declared is not None:
        return []
    if not any(isinstance(name, str) for name in names):
        return []
    order = shlex.quote(",".join(map(str, names)))
    return [
        f"Classes are taken in this order, that of the alphabet: {' < '.join(map(str, names))}. If "
        f"it is another, give it: --set classes={order}, in its order; if there is none, use "
        "another model."
    ]


def _alike(classes: list[Any]) -> list[str]:
    """Return a remark on short classes whose names differ by capitals; the fit warns of longer."""
    from atoll.core.class_slips import LEAST_SAME

    by_letters: dict[str, list[str]] = {}
    for name in classes:
        if len(str(name)) < LEAST_SAME:
            by_letters.setdefault(str(name).casefold(), []).append(repr(name))
    pairs = [" and ".join(names) for names in by_letters.values() if len(names) > 1]
    if not pairs:
        return []
    return [
        f"{shortened(pairs)} differ only by capitals, and are taken for different classes: if they "
        "are one, write them alike in the table."
    ]


def weigh(
    estimator: Any, table: PreparedTable, labels: PartialLabels
) -> tuple[PreparedTable, list[str]]:
    """Return the table with its categories weighted for the default model, and a line about it."""
    from atoll.core.preprocessing import with_category_weight
    from atoll.estimators import AtollClassifier
    from atoll.estimators.category_weight import weigh_categories

    if not table.preprocessing.standardised or not isinstance(estimator, AtollClassifier):
        return table, []
    found = weigh_categories(table, labels)
    if found.weight == 1.0:
        return table, []
    said = (
        "Differences in categories, and in numbers of few values, count half as much as those in "
        f"measurements: that makes the labels {_times(found.log_odds)} more probable."
    )
    return with_category_weight(table, found.weight), [said]


def _times(log_odds: float) -> str:
    """Return how many times more probable, in words; beyond a thousand, just "far"."""
    return f"{math.exp(log_odds):.1f} times" if log_odds < math.log(FAR) else "far"


def fit_rows(estimator: Any, X: Any, y: NDArray[Any], more: dict[str, Any]) -> None:
    """Fit a model to a table; if it has very many rows, without predicting each of them.

    Parameters
    ----------
    X : (n, p) features
    y : (n,) labels, None where unlabelled
    more : other arguments of `fit`
    """
    from atoll.core.chunks import RowChunks
    from atoll.estimators.far_values import forget_values
    from atoll.estimators.timing import is_very_large

    if is_very_large(estimator, X) and not more:
        estimator.fit(RowChunks.from_arrays(X, y))
    else:
        estimator.fit(X, y, **more)
    forget_values(estimator)


def after_the_fit(estimator: Any, model: Path, n_wrong: int = 0) -> list[str]:
    """Return what the command line adds to a verdict, line by line.

    Parameters
    ----------
    model : file of the model
    n_wrong : labels that are more likely wrong than right
    """
    told = about_exceptions(estimator, f"`atoll suspects {shlex.quote(str(model))}`", n_wrong)
    return _with_noise(estimator, told)


def verdict_in_shell(estimator: Any, command: Callable[..., Any], model: Path) -> str:
    """Return the verdict on a fit in points, in terms of the command's options, and more lines.

    Parameters
    ----------
    command : whose options are named
    model : file of the model
    """
    from atoll.estimators.informed import likely_wrong
    from atoll.estimators.trust import CARE, FIRST_LINES, YES

    first, *others = points_in_shell(estimator, command)
    n_wrong = likely_wrong(estimator)
    more = after_the_fit(estimator, model, n_wrong)
    if n_wrong:
        more[0] = f"Beware: {more[0]}"
    if n_wrong and first == FIRST_LINES[YES]:
        return in_points([FIRST_LINES[CARE], *more, *others])
    return in_points([first, *others, *more])


def points_in_shell(estimator: Any, command: Callable[..., Any]) -> list[str]:
    """Return the points of the verdict on a fit, in terms of the command's options."""
    present = estimator.get_params(deep=False)
    points = points_of(str(estimator.diagnostics_["verdict"]))
    return [in_options(point, command, present=present) for point in points]


def next_step(estimator: Any, data: Path, model: Path, labels: PartialLabels) -> str:
    """Return a line that says what to do once a model was saved.

    Parameters
    ----------
    data : path of the table
    model : file of the model
    labels : of the fit; a report holds some out if every class has two or more
    """
    from atoll.estimators.trust import YES

    name = shlex.quote(str(model))
    table = "DATA" if str(data) == "-" else shlex.quote(str(data))
    trust = estimator.diagnostics_.get("trust", YES)
    first = "" if trust == YES else "mend what is named above and fit again; "
    to_label = f"`atoll next {name} {table}` lists rows to label"
    if labels.counts.min() < 2:
        return (
            f"Next: {first}{to_label}. With two labels of every class or more, `atoll report` "
            "tests the probabilities on labels held out."
        )
    return (
        f"Next: {first}`atoll report {name}` tests the probabilities on labels held out, and "
        f"{to_label}."
    )


def _with_noise(estimator: Any, said: list[str]) -> list[str]:
    """Add, to lines about labels that may be wrong, the option that lets a fit allow for them."""
    has = estimator.get_params(deep=False)
    if not said or "label_noise" not in has or has["label_noise"] is not None:
        return said
    return [*said, "To fit with wrong labels among them: --set label_noise=learn."]


def about_exceptions(estimator: Any, suspects: str, n_wrong: int) -> list[str]:
    """Say where to look for wrong labels, if some are likely, or differ from those of near rows.

    Parameters
    ----------
    suspects : the command that lists them
    n_wrong : labels that are more likely wrong than right
    """
    from atoll.estimators.explanation import likely_wrong_in_words

    if n_wrong:
        return [likely_wrong_in_words(n_wrong, suspects)]
    weights = getattr(estimator, "weights_", None)
    if not isinstance(weights, dict) or weights.get("neighbours", 0.0) < CLEARLY:
        return []
    return [
        "Some labels are unlike those of near rows, as where classes overlap or labels are wrong: "
        f"{suspects} lists the labels that may be."
    ]


def bundle_of(
    estimator: Any,
    table: PreparedTable,
    known: KnownRows,
    y: NDArray[Any],
    target: str,
) -> ModelBundle:
    """Return the model with what `predict` and `report` need of its table.

    Parameters
    ----------
    table : the table as the estimator was fitted to it
    known : the table as it was read
    y : (n,) labels, None where unlabelled
    """
    from atoll import __version__
    from atoll.core.preprocessing import blank_cells, text_beginnings
    from atoll.estimators.persistence import ModelBundle

    read = table.preprocessing
    created = datetime.now(UTC).isoformat(timespec="seconds")
    bundle = ModelBundle(estimator, read, table.X, y, target, __version__, created)
    blank, texts = blank_cells(read, known.frame), text_beginnings(read, known.frame)
    return bundle._replace(blank=blank, rows=known.numbers, texts=texts)


def options_given(context: typer.Context) -> list[list[str]]:
    """Return the options that the user gave and the model depends on, each with its value."""
    found: list[list[str]] = []
    for option in context.command.params:
        name = str(option.name)
        if name in OF_THE_RUN or not is_given(context, name):
            continue
        value = context.params[name]
        if isinstance(value, bool):
            found.append([(option.opts if value else option.secondary_opts)[0]])
            continue
        every = value if isinstance(value, list | tuple) else [value]
        found += [[option.opts[0], str(one)] for one in every]
    return found


def is_given(context: typer.Context, name: str) -> bool:
    """Return whether the user gave an option, and did not leave it to its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_loop(out: Path) -> None:
    """Raise a ValueError if the file for a model holds a labelling loop, and so answers."""
    from atoll.core.overwriting import holds_learner

    if holds_learner(out):
        raise ValueError(
            f"{str(out)!r} holds a loop of labels with its answers, not a fitted model; name "
            "another file with --out, or delete it first."
        )


def check_columns(frame: pd.DataFrame, data: Path, target: str | None, **named: Any) -> None:
    """Raise a ValueError if an option names a column that is not there, or that of the labels.

    Parameters
    ----------
    data : path of the table
    target : column of labels; None where the command does not need them
    named : columns by option, such as id="name" or drop=["a", "b"]; None names none
    """
    from atoll.core.table_refusals import require_columns

    where = repr(str(data))
    if target is not None:
        require_columns(frame, [target], "the --target column", where)
    for option, names in named.items():
        for name in [names] if isinstance(names, str) else names or ():
            require_columns(frame, [name], f"the --{option} column", where)
            if name == target:
                raise ValueError(
                    f"--{option} {shlex.quote(name)}: that is the column of labels (--target); "
                    "name another."
                )


def with_source(bundle: ModelBundle, data: Path, names: pd.Series | None = None) -> ModelBundle:
    """Return the bundle with the name of the file its rows come from, and with the rows' names.

    Parameters
    ----------
    data : path of the table
    names : (n,) of all its rows, as `names_as_written` returns them; None: they have none
    """
    if str(data) == "-":
        bundle = bundle._replace(source="standard input")
    else:
        changed = datetime.fromtimestamp(data.stat().st_mtime, UTC).isoformat(timespec="seconds")
        bundle = bundle._replace(source=data.name, source_date=changed)
    if names is None:
        return bundle
    if bundle.rows is not None:
        names = names.iloc[bundle.rows - 1]
    return bundle._replace(id_column=str(names.name), ids=names.to_numpy(object))


def names_as_written(source: Path | bytes, id_column: str) -> pd.Series:
    r"""Return the names of rows (n,) as the file has them, and no text for a blank cell.

    Whole numbers beside a blank cell would be read as 1.0, 2.0.

    Examples
    --------
    >>> names_as_written(b"id,x\n007,1\n,2\n12,3\n", "id").tolist()
    ['007', '', '12']
    """
    from atoll.core.tables import read_cells

    names = read_cells(source)[id_column]
    return names.astype(object).where(names.notna(), "").astype(str)
