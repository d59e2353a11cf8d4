"""The commands. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll import __version__
from atoll.cli.explain import explain
from atoll.cli.label import label
from atoll.cli.options import DataPath, Jobs, ModelPath, Quiet, Seed, data_path
from atoll.cli.score import score
from atoll.cli.settings import (
    classes_in_type,
    pairs,
    read_settings,
    set_or_refuse,
    set_where_known,
    settable_parameters,
)
from atoll.cli.terminal import (
    make_folder,
    one_line_errors,
    show_progress,
    speaker,
    table_lines,
)
from atoll.core.extras import import_extra

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from atoll.core.labels import PartialLabels
    from atoll.core.preprocessing import Preprocessing
    from atoll.estimators.persistence import ModelBundle

app = typer.Typer(
    epilog="Set ATOLL_TRACEBACK=1 to see where an error comes from.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
datasets_app = typer.Typer(help="Data sets to try a model on.", no_args_is_help=True)
app.add_typer(datasets_app, name="datasets")
for command in (label, explain, score):
    app.command()(command)


Target = Annotated[str, typer.Option(help="Column of labels; its blank cells are unlabelled rows.")]
ModelName = Annotated[str, typer.Option(help="Name of a model; `atoll models` lists them.")]
IdColumn = Annotated[
    str | None,
    typer.Option("--id", help="Column that names the rows: not learnt from, and kept for reports."),
]
Drop = Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")]
Encode = Annotated[
    bool,
    typer.Option("--encode/--no-encode", help="Turn categorical columns into indicators, or not."),
]
Impute = Annotated[
    bool, typer.Option("--impute/--no-impute", help="Fill blank cells in, or refuse them.")
]
NoStandardise = Annotated[
    bool,
    typer.Option("--no-standardise", help="Leave numeric columns in the units they come in."),
]
Unlabelled = Annotated[
    str,
    typer.Option(
        help="What else than a blank cell is unlabelled: auto (-1 among integers, as in "
        "scikit-learn), none, or a value."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A parameter of the model; repeatable. `atoll models NAME` lists them.",
    ),
]
Checkpoint = Annotated[
    Path | None, typer.Option(help="Folder to resume from after an interruption.")
]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"atoll {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and leave."
        ),
    ] = False,
) -> None:
    """Calibrated class probabilities from many rows and few labels."""


@app.command()
@one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = Path(
        "demo-output"
    ),
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer draws, seconds only.")] = False,
) -> None:
    """Show the default classifier on a handful of labels, and others beside it."""
    make_folder(out)
    from atoll.reports.demo import run_demo

    run_demo(out, seed=seed, quick=quick)


@app.command()
@one_line_errors
def fit(
    data: DataPath,
    target: Target,
    out: Annotated[Path, typer.Option(help="File for the fitted model.")],
    model: ModelName = "atoll",
    id_column: IdColumn = None,
    drop: Drop = None,
    encode: Encode = True,
    impute: Impute = True,
    no_standardise: NoStandardise = False,
    unlabelled: Unlabelled = "auto",
    settings: Settings = None,
    n_jobs: Jobs = None,
    checkpoint: Checkpoint = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table and save it.

    Ctrl-C keeps what was drawn so far and saves the model from it.
    """
    # Many parameters because a command's options are its parameters.
    from sklearn.exceptions import ConvergenceWarning

    from atoll.cli.timing import announcement, expected_seconds
    from atoll.core.files import check_writable
    from atoll.core.labels import parse_labels, require_classes
    from atoll.core.preprocessing import prepare
    from atoll.core.tables import read_table
    from atoll.estimators.persistence import save_model

    say = speaker(quiet)
    check_writable(out)
    if checkpoint is not None:
        make_folder(checkpoint)
    kind = _choose(_models(), model, "model", "atoll models")
    estimator = kind(**read_settings(kind, model, settings or []))
    # The labels are settled here, once: past this point only a null is unlabelled.
    set_where_known(estimator, unlabelled=None, verbose=show_progress(quiet), random_state=seed)
    set_or_refuse(estimator, model, n_jobs=n_jobs, checkpoint=checkpoint and str(checkpoint))

    frame = read_table(data)
    _check_id(id_column, frame, data)
    table = prepare(
        frame,
        target,
        standardise=not no_standardise,
        encode=encode,
        impute=impute,
        drop=[*(drop or ()), *([id_column] if id_column is not None else [])],
    )
    targets: Any = table.y
    marker = _unlabelled_value(unlabelled, targets)
    declared = estimator.get_params().get("classes")
    with warnings.catch_warnings():
        if declared is not None:  # what -1 means is settled below, by the classes
            warnings.simplefilter("ignore", UserWarning)
        labels, enough = parse_labels(targets, unlabelled=marker), 2
    if declared is not None:
        estimator.set_params(classes=classes_in_type(estimator.classes, labels.classes))
        if kind.fits_unseen_classes:
            labels = parse_labels(targets, unlabelled=marker, classes=estimator.classes)
            enough = 1
    require_classes(labels, at_least=enough)
    for line in _description(data, frame, labels, table.preprocessing):
        say(line)
    y = labels.classes.astype(object)[labels.codes]
    y[~labels.is_labelled] = None
    if not quiet:
        warning = announcement(estimator, model, expected_seconds(estimator, table.X, y))
        if warning is not None:
            say(warning)
    with warnings.catch_warnings():
        if not quiet:  # the verdict below says the same
            warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(table.X, y)

    set_where_known(estimator, verbose=False, checkpoint=None)  # of this run, not of the model
    bundle = _bundle(estimator, table.preprocessing, table.X, y, target)
    save_model(_with_source(bundle, data, frame, id_column), out)
    say(estimator.diagnostics_["verdict"])
    say(f"Model saved in {out}.")


@app.command()
@one_line_errors
def predict(
    model: ModelPath,
    data: DataPath,
    out: Annotated[Path, typer.Option(help="Table to write, .csv or .parquet.")],
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column of DATA to carry over, to tell rows apart.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Carry every column of DATA over.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write class, class probabilities and entropy (in nats) of every row of a table.

    A row that cannot be read has blank answers, and the reason in a column of its own.
    """
    from atoll.cli.opening import open_model
    from atoll.core.files import check_writable
    from atoll.core.preprocessing import apply, extra_columns, unreadable, unseen
    from atoll.core.tables import check_table_path, read_table, write_table

    pd = import_extra("pandas")
    say = speaker(quiet)
    check_table_path(out)
    check_writable(out)
    frame = read_table(data)
    bundle = open_model(model, frame)
    _check_id(id_column, frame, data)
    carried = list(frame.columns) if keep else [n for n in [id_column] if n is not None]
    ignored = [n for n in extra_columns(bundle.preprocessing, frame) if n not in carried]
    if ignored:
        say(f"Ignored columns that the model was not fitted on: {', '.join(ignored)}.")
    read, reasons = unreadable(bundle.preprocessing, frame)
    can_be_read = pd.isna(reasons)
    if not can_be_read.any():
        raise ValueError(
            f"no row of {str(data)!r} can be read; the first: {reasons[0]}. Correct the file."
        )
    read = read[can_be_read]
    for column, values in unseen(bundle.preprocessing, read).items():
        say(f"{column}: the model has not seen {_shortened(values)}; taken as blank.")
    X = apply(bundle.preprocessing, read)
    predictions = _predictions(bundle.estimator, X, progress=show_progress(quiet))
    if not can_be_read.all():
        predictions.index = read.index
        predictions = predictions.reindex(frame.index)
        predictions["reason"] = reasons
        n_left = int((~can_be_read).sum())
        say(f"{n_left} of {len(frame)} rows cannot be read; the column reason says why.")
    clash = [name for name in carried if name in predictions]
    if clash:
        raise ValueError(
            f"the column {clash[0]!r} of the data is also a column of the predictions; rename it."
        )
    carried_columns = frame[carried].reset_index(drop=True)
    table = pd.concat([carried_columns, predictions.reset_index(drop=True)], axis=1)
    write_table(table, out)
    say(f"{int(can_be_read.sum())} predictions saved in {out}.")


@app.command()
@one_line_errors
def report(
    model: ModelPath,
    out: Annotated[
        Path | None, typer.Option(help="HTML file; beside the model by default.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Table of the rows, for a model that was saved from Python.", callback=data_path
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Its column of labels; `label` by default.")
    ] = None,
    no_cross_validation: Annotated[
        bool,
        typer.Option(
            "--no-cross-validation",
            help="Leave out the calibration on held-out labels, which fits the model again.",
        ),
    ] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page on a fitted model: data, maps, calibration, what to do next."""
    from atoll.cli.reporting import report_on
    from atoll.core.files import check_writable

    page = model.with_suffix(".html") if out is None else out
    check_writable(page)
    report_on(
        model,
        page,
        data=data,
        target=target,
        seed=seed,
        cross_validate=not no_cross_validation,
        progress=show_progress(quiet),
    )
    speaker(quiet)(f"Report saved in {page}.")


@app.command("next")
@one_line_errors
def next_rows(
    model: ModelPath,
    data: DataPath,
    n: Annotated[int, typer.Option("-n", min=1, help="Rows to label.")] = 10,
    answers: Annotated[
        Path | None,
        typer.Option(help="Table of answers: columns `row` (from 1 on) and that of the labels."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Table to write the rows to, for their labels.")
    ] = None,
    labelled: Annotated[
        Path | None, typer.Option(help="Table to write: DATA with every label that is known.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="File of the loop; beside the model by default.")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="How rows are picked: brier, margin, random, …")
    ] = None,
    target_error: Annotated[
        float | None, typer.Option(help="Share of wrong rows at which labelling may stop.")
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Say which rows to label next, why, and how wrong the model still is.

    Labels are those of DATA and of --answers; what was asked and answered is kept in a file beside
    the model, so that the command may be run again after every round of labels.
    """
    # Many parameters because a command's options are its parameters.
    from atoll.cli import next_rows as loop
    from atoll.cli.opening import open_model

    kept = model.with_suffix(".next.atoll") if state is None else state
    files = loop.Files(data, kept, answers, out, labelled)
    loop.check_files(files)
    wishes = loop.Wishes(n, strategy, target_error, seed)
    loop.run_round(open_model(model), files, wishes, speaker(quiet))


@app.command()
@one_line_errors
def models(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of a model, for its parameters.")
    ] = None,
) -> None:
    """List the models with their papers, or the parameters of one, for --set."""
    if name is None:
        header = ["name", "class", "paper", "what it is for"]
        rows = [[key, kind.__name__, kind.paper, kind.summary] for key, kind in _models().items()]
    else:
        kind = _choose(_models(), name, "model", "atoll models")
        header, rows = ["parameter", "default", "may be"], settable_parameters(kind)
    for line in table_lines(header, rows):
        typer.echo(line)


@datasets_app.command("list")
@one_line_errors
def list_datasets() -> None:
    """List the data sets that can be made, with their settings."""
    from atoll.datasets import DATASETS

    rows = [[name, _settings_of(make), _summary(make)] for name, make in DATASETS.items()]
    for line in table_lines(["name", "settings", "what it is"], rows):
        typer.echo(line)


@datasets_app.command("make")
@one_line_errors
def make_dataset(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As in `atoll datasets list`.")],
    out: Annotated[Path, typer.Option(help="Table to write, .csv or .parquet.")],
    n_samples: Annotated[int | None, typer.Option(min=1, help="Rows.")] = None,
    labels_per_class: Annotated[
        int | None, typer.Option(min=1, help="Labels to keep in each class; the rest is blank.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the data set; repeatable."),
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Draw a data set and write it as a table with a column `label`.

    The same seed gives the same rows with and without --labels-per-class.
    """
    import numpy as np

    from atoll.core.files import check_writable
    from atoll.core.tables import check_table_path, write_table
    from atoll.datasets import DATASETS, hide_labels

    pd = import_extra("pandas")
    check_table_path(out)
    check_writable(out)
    generator = _choose(DATASETS, name, "data set", "atoll datasets list")
    options = _parse_settings(generator, name, settings or [])
    if n_samples is not None:
        options["n_samples"] = n_samples
    rng = np.random.default_rng(seed)
    X, y = generator(**options, random_state=rng)
    label: Any = y
    if labels_per_class is not None:
        label = hide_labels(y, per_class=labels_per_class, marker=None, random_state=rng)
        label = pd.array(label, dtype="Int64" if np.issubdtype(y.dtype, np.integer) else object)
    frame = pd.DataFrame({f"x{j}": column for j, column in enumerate(X.T)} | {"label": label})
    write_table(frame, out)
    speaker(quiet)(
        f"{len(frame)} rows, {frame['label'].notna().sum()} labelled, {len(np.unique(y))} classes, "
        f"saved in {out}."
    )


@app.command()
@one_line_errors
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of an experiment.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smaller version of the same, in minutes.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for tables, pictures and pages.")] = Path(
        "reproductions-output"
    ),
    data: Annotated[
        Path | None, typer.Option(help="Folder of data files; ATOLL_DATA by default.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,…",
            help="Run only the cells with these values of a column of cells.csv; may be repeated.",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(help="Processor seconds after which a cell is stopped and reported as such."),
    ] = None,
    n_jobs: Jobs = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Run a table or figure of a paper again and set our numbers beside its own.

    After an interruption the same command goes on where it stopped.
    """
    # Many parameters because a command's options are its parameters.
    from atoll.reproductions import list_experiments, run_experiment

    if show_list or name is None:
        if not show_list:
            raise ValueError("name an experiment to run, or list them with --list.")
        rows = [[e.name, e.title, e.paper] for e in list_experiments()]
        for line in table_lines(["name", "what it shows", "paper"], rows):
            typer.echo(line)
        return
    say = speaker(quiet)
    result = run_experiment(
        name,
        out=out,
        quick=quick,
        n_jobs=n_jobs,
        seed=seed,
        data_home=data,
        progress=show_progress(quiet),
        only=_values_by_key(only or []),
        limit=limit,
    )
    for reason in dict.fromkeys(skipped.reason for skipped in result.skipped):
        say(f"Left out: {reason}")
    say(f"{len(result.results)} cells, in {result.csv}.")
    if result.figure is not None:
        say(f"Picture: {result.figure}")
    say(f"Page: {result.page}")


def _values_by_key(texts: list[str]) -> dict[str, list[str]]:
    """`KEY=VALUE,VALUE` of --only, where a key that is repeated adds values."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not (key and equals and values):
            raise ValueError(f"--only {text}: give KEY=VALUE, or several values: KEY=VALUE,VALUE.")
        found.setdefault(key.strip(), []).extend(value.strip() for value in values.split(","))
    return found


# --- fitting -------------------------------------------------------------------------------------


def _choose(registry: dict[str, Any], name: str, what: str, listing: str) -> Any:
    if name not in registry:
        raise ValueError(
            f"there is no {what} {name!r}; `{listing}` lists them: {', '.join(registry)}."
        )
    return registry[name]


def _models() -> dict[str, Any]:
    from atoll.estimators import MODELS

    return MODELS


def _unlabelled_value(text: str, y: Any) -> Any:
    """The option's value in the type of the labels."""
    if text == "auto":
        return text
    if text == "none":
        return None
    if any(isinstance(label, str) for label in y):
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"--unlabelled {text}: the labels are numbers; give a whole number, auto or none."
        ) from None


def _description(
    data: Path, frame: pd.DataFrame, labels: PartialLabels, preprocessing: Preprocessing
) -> list[str]:
    counts = ", ".join(f"{c} ({n})" for c, n in zip(labels.classes.tolist(), labels.counts))
    numeric = [n for n in preprocessing.columns if n not in preprocessing.categories]
    lines = [
        f"{data}: {len(labels.codes)} rows, {labels.n_labelled} labelled.",
        f"Classes: {counts}.",
    ]
    if numeric:
        how = "standardised" if preprocessing.standardised else "as they are"
        lines.append(f"Numeric columns, {how}: {_shortened(numeric)}.")
    if preprocessing.categories:
        lines.append(
            f"Columns encoded as indicators: {_shortened(list(preprocessing.categories))}."
        )
    blank = frame[list(preprocessing.columns)].isna().sum()
    blank = blank[blank > 0]
    if len(blank):
        where = _shortened([f"{name} ({count})" for name, count in blank.items()])
        lines.append(
            f"Blank cells: {where}. Numbers take the column's median, categories none of its "
            "values; where a twentieth or more are blank, that is a feature as well."
        )
    return lines


def _shortened(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _bundle(
    estimator: Any,
    preprocessing: Preprocessing,
    X: NDArray[np.float64],
    y: NDArray[Any],
    target: str,
) -> ModelBundle:
    from datetime import UTC, datetime

    from atoll.estimators.persistence import ModelBundle

    created = datetime.now(UTC).isoformat(timespec="seconds")
    return ModelBundle(estimator, preprocessing, X, y, target, __version__, created)


def _check_id(id_column: str | None, frame: pd.DataFrame, data: Path) -> None:
    if id_column is not None and id_column not in frame.columns:
        raise ValueError(
            f"the --id column {id_column!r} is not in {str(data)!r}; its columns are "
            f"{', '.join(map(repr, frame.columns))}."
        )


def _with_source(
    bundle: ModelBundle, data: Path, frame: pd.DataFrame, id_column: str | None
) -> ModelBundle:
    """Return the bundle with where its rows come from, and what they are called there."""
    from datetime import UTC, datetime

    if str(data) == "-":
        bundle = bundle._replace(source="standard input")
    else:
        changed = datetime.fromtimestamp(data.stat().st_mtime, UTC).isoformat(timespec="seconds")
        bundle = bundle._replace(source=data.name, source_date=changed)
    if id_column is None:
        return bundle
    return bundle._replace(id_column=id_column, ids=frame[id_column].astype(str).to_numpy(object))


# --- predicting ----------------------------------------------------------------------------------


def _predictions(estimator: Any, X: NDArray[np.float64], *, progress: bool) -> pd.DataFrame:
    from atoll.cli.predicting import predicted_proba
    from atoll.diagnostics import entropy

    pd = import_extra("pandas")
    p = predicted_proba(estimator, X, progress=progress)
    columns: dict[str, Any] = {"class": estimator.classes_[p.argmax(axis=1)]}
    columns |= {f"p_{label}": p[:, k] for k, label in enumerate(estimator.classes_.tolist())}
    return pd.DataFrame(columns | {"entropy": entropy(p)})


# --- describing ----------------------------------------------------------------------------------


def _summary(thing: Any) -> str:
    """First line of a docstring."""
    import inspect

    return (inspect.getdoc(thing) or "").split("\n", 1)[0]


def _settings_of(generator: Callable[..., Any]) -> str:
    import inspect

    return " ".join(
        f"{name}={parameter.default}".replace(" ", "")
        for name, parameter in inspect.signature(generator).parameters.items()
        if name != "random_state"
    )


def _parse_settings(
    generator: Callable[..., Any], name: str, settings: list[str]
) -> dict[str, Any]:
    import ast
    import inspect

    known = [key for key in inspect.signature(generator).parameters if key != "random_state"]
    options = {}
    for key, text in pairs(settings):
        if key not in known:
            raise ValueError(f"--set {key}={text}: {name} has the settings {', '.join(known)}.")
        try:
            options[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise ValueError(
                f"--set {key}={text}: {text!r} is not a number or a list of numbers."
            ) from None
    return options
