"""The commands. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll import __version__
from atoll.cli.explain import explain
from atoll.cli.fitting import (
    after_the_fit,
    bundle_of,
    check_id,
    description,
    fit_rows,
    refuse_loop,
    refuse_placeholder,
    rows_to_learn_from,
    settle_labels,
    unlabelled_value,
    weigh,
    with_source,
    without_index,
)
from atoll.cli.knowledge import ClassShares, Groups, Told, Weights, suspects
from atoll.cli.label import label
from atoll.cli.options import DataPath, Jobs, ModelPath, Quiet, Seed, TargetOfModel, data_path
from atoll.cli.rows import (
    compare_texts_by_direction,
    leave_units,
    lines_about,
    scaling_of,
    with_metric,
)
from atoll.cli.score import score
from atoll.cli.settings import (
    did_you_mean,
    pairs,
    read_settings,
    set_or_refuse,
    set_where_known,
    settable_parameters,
    values_by_key,
)
from atoll.cli.stages import Stages, announce_reading
from atoll.cli.terminal import (
    BAD_INPUT,
    OneLineGroup,
    complain,
    make_folder,
    one_line_errors,
    show_progress,
    speaker,
    table_lines,
)
from atoll.core.extras import import_extra

if TYPE_CHECKING:
    from collections.abc import Callable


app = typer.Typer(
    cls=OneLineGroup,
    epilog="Set ATOLL_TRACEBACK=1 to see where an error comes from.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # two plain columns can be read at eighty characters
)
datasets_app = typer.Typer(
    help="Data sets to try a model on.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(datasets_app, name="datasets")
for command, said in (
    (label, "Label rows on a page, the most telling first."),
    (explain, "Explain the class of one row."),
    (score, "Score a model on a table with labels."),
    (suspects, "List the labels that may be wrong."),
):
    app.command(short_help=said)(command)


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
Text = Annotated[
    list[str] | None,
    typer.Option(help="Column of texts, if it is not seen to be one; may be repeated."),
]
Metric = Annotated[
    str | None,
    typer.Option(help="How rows are compared; cosine for embeddings, whose columns are then left."),
]
NoStandardise = Annotated[
    bool,
    typer.Option(
        "--no-standardise",
        help="Leave numeric columns in the units they come in; else those of unlike ranges are "
        "standardised for the default model, and all for others.",
    ),
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


@app.command(short_help="Show the default classifier at work.")
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
    text: Text = None,
    metric: Metric = None,
    unlabelled: Unlabelled = "auto",
    class_share: ClassShares = None,
    weights: Weights = None,
    groups: Groups = None,
    settings: Settings = None,
    n_jobs: Jobs = None,
    checkpoint: Checkpoint = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table and save it.

    Where chains are drawn, Ctrl-C keeps what they have so far and saves the model from it; a
    second one stops at once. Other models stop at the first, and nothing is written.
    """
    # Many parameters because a command's options are its parameters.
    # Long because a quarter of it are these.
    say, stages = speaker(quiet), Stages()
    announce_reading(data, say)
    from sklearn.exceptions import ConvergenceWarning

    from atoll.cli.timing import before_the_fit
    from atoll.core.overwriting import MODEL, check_output
    from atoll.core.preprocessing import blank_cells, prepare, with_fillings
    from atoll.core.tables import read_table, source_of
    from atoll.estimators.persistence import save_model

    check_output(out, MODEL, [data], "--out")
    refuse_loop(out)
    if checkpoint is not None:
        make_folder(checkpoint)
    kind = _choose(_models(), model, "model", "atoll models")
    wanted = with_metric(settings or [], metric)
    estimator = kind(**read_settings(kind, model, wanted))
    # The labels are settled here, once: past this point only a null is unlabelled.
    set_where_known(estimator, unlabelled=None, verbose=show_progress(quiet), random_state=seed)
    set_or_refuse(estimator, model, n_jobs=n_jobs, checkpoint=checkpoint and str(checkpoint))
    if no_standardise:
        leave_units(estimator, wanted)

    stages.ended("starting")
    source = source_of(data)
    frame = read_table(source)
    stages.ended("reading")
    check_id(id_column, frame, data)
    told = Told(class_share or [], weights, groups)
    told.check(kind, model, frame)
    dropped = [*(drop or ()), *told.columns, *([id_column] if id_column is not None else [])]
    dropped = without_index(frame, [target, *dropped], say)[1:]
    known = rows_to_learn_from(frame, [target, *dropped], say)
    frame = known.frame
    table = prepare(
        frame,
        target,
        standardise=scaling_of(estimator, frame, [target, *dropped], text or (), no_standardise),
        encode=encode,
        impute=impute,
        drop=dropped,
        texts=text or (),
    )
    compare_texts_by_direction(estimator, table.preprocessing, wanted)
    labels = settle_labels(estimator, kind, table.y, unlabelled)
    set_where_known(estimator, class_prior=told.class_prior(labels.classes))
    given = told.of_fit(known, labels)
    told_first = description(data, frame, labels, table.preprocessing, estimator)
    for line in [*told_first, *lines_about(estimator, table.preprocessing)]:
        say(line)
    table, about_categories = weigh(estimator, table, labels)
    for line in about_categories:
        say(line)
    y = labels.classes.astype(object)[labels.codes]
    y[~labels.is_labelled] = None
    X = with_fillings(table.preprocessing, table.X, blank_cells(table.preprocessing, frame))
    if not quiet:
        for line in before_the_fit(estimator, model, X, y):
            say(line)
    stages.ended("preparing")
    with warnings.catch_warnings():
        if not quiet:  # the verdict below says the same
            warnings.simplefilter("ignore", ConvergenceWarning)
        fit_rows(estimator, X, y, given)

    stages.ended("fitting")
    set_where_known(estimator, verbose=False, checkpoint=None)  # of this run, not of the model
    bundle = bundle_of(estimator, table, known, y, target)
    save_model(with_source(bundle, data, source, id_column), out)
    stages.ended("saving")
    verdict = estimator.diagnostics_["verdict"]
    after = after_the_fit(estimator, labels, out)
    stages.ended("doubting labels")
    for line in [verdict, *after, f"Model saved in {out}."]:
        say(line)
    if not quiet and stages.said() is not None:
        typer.echo(stages.said(), err=True)


@app.command(short_help="Write the class probabilities of a table.")
@one_line_errors
def predict(
    model: ModelPath,
    data: DataPath,
    out: Annotated[
        Path, typer.Option(help="Table to write, .csv or .parquet; - for CSV on standard output.")
    ],
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column of DATA to carry over, to tell rows apart.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Carry every column of DATA over.")] = False,
    reject_below: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Leave the class blank where it is less probable."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write class, class probabilities and entropy (in nats) of every row of a table.

    A row that cannot be read has blank answers, and the reason in a column of its own. The table
    is read in chunks and may be larger than memory.
    """
    from atoll.cli.predict_tables import Wishes, predict_table
    from atoll.core.tables import check_table_path

    check_table_path(out, [model, data], "--out")
    wishes = Wishes(id_column, keep, reject_below)
    predict_table(model, data, out, wishes, speaker(quiet, out), show_progress(quiet))


@app.command(short_help="Write one HTML page on a fitted model.")
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
    from atoll.core.overwriting import PAGE, check_output

    page = model.with_suffix(".html") if out is None else out
    check_output(page, PAGE, [model, data], "--out")
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


@app.command(short_help="Compare the models, and say which to use.")
@one_line_errors
def compare(
    data: DataPath,
    target: Target,
    html: Annotated[Path | None, typer.Option(help="HTML page to write.")] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", help="Compare only this model with the default; repeatable."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", help="Leave this model out, such as a slow one; repeatable."),
    ] = None,
    drop: Drop = None,
    id_column: IdColumn = None,
    n_splits: Annotated[int, typer.Option(min=2, help="Folds of the labelled rows.")] = 5,
    unlabelled: Unlabelled = "auto",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Compare the models on the labelled rows of a table, and say which to use."""
    # Many parameters because a command's options are its parameters.
    from atoll.comparison import compare_models, write_comparison
    from atoll.comparison.recommending import in_shell
    from atoll.core.column_scales import holds_numbers_alone
    from atoll.core.overwriting import PAGE, check_output
    from atoll.core.preprocessing import prepare
    from atoll.core.tables import read_table

    if html is not None:
        check_output(html, PAGE, [data], "--html")
        for package in ("matplotlib", "jinja2"):
            import_extra(package)
    frame = read_table(data)
    check_id(id_column, frame, data)
    left_out = [target, *(drop or ()), *([] if id_column is None else [id_column])]
    dropped = without_index(frame, left_out, speaker(quiet))[1:]
    known = rows_to_learn_from(frame, [target, *dropped], speaker(quiet))
    is_plain = holds_numbers_alone(known.frame, [target, *dropped])
    table = prepare(known.frame, target, standardise=not is_plain, drop=dropped)
    if unlabelled == "auto":
        refuse_placeholder(table.y)
    found = compare_models(
        table.X if is_plain else table,
        table.y,
        models=models,
        without=without or (),
        n_splits=n_splits,
        unlabelled=unlabelled_value(unlabelled, table.y),
        random_state=seed,
        progress=show_progress(quiet),
    )
    if found.candidate.shares is not None:
        fit_it = f"atoll fit {shlex.quote(str(data))} --target {shlex.quote(target)} --out MODEL"
        said = in_shell(found.recommendation, found.candidate.shares, found.reference, fit_it)
        found = replace(found, recommendation=said)
    typer.echo(found.recommendation if quiet else str(found))
    if html is not None:
        write_comparison(found, html, title=f"Models compared: {target} of {data.name}")
        speaker(quiet)(f"Page saved in {html}.")


@app.command("next", short_help="Say which rows to label next, and why.")
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
    new_class: Annotated[
        list[str] | None, typer.Option(help="Class that answers may have; may be repeated.")
    ] = None,
    target: TargetOfModel = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Say which rows to label next, why, and how wrong the model still is.

    Labels are those of DATA, taken for a random part of the rows unless the fit had --set
    labels_chosen=true, and of --answers; what was asked and answered is kept in a file beside
    the model, so that the command may be run again after every round of labels.
    """
    # Many parameters because a command's options are its parameters.
    from atoll.cli import next_rows as loop
    from atoll.cli.opening import check_labels, open_model, refuse_near_target
    from atoll.core.tables import read_cells, read_table, source_of

    kept = model.with_suffix(".next.atoll") if state is None else state
    files = loop.Files(model, data, kept, answers, out, labelled)
    loop.check_files(files)
    new = tuple(new_class or ())
    wishes = loop.Wishes(n, strategy, target_error, seed, new, show_progress(quiet))
    source = source_of(data)
    frame, cells = read_table(source), read_cells(source)
    bundle = open_model(model, frame, target)
    refuse_near_target(bundle, frame)
    if target is None and not len(bundle.y):  # saved from Python, without a name for its labels
        check_labels(bundle, frame)
    loop.run_round(bundle, frame, cells, files, wishes, speaker(quiet, out))


@app.command(short_help="List the models, or the parameters of one.")
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

    from atoll.core.tables import check_table_path, write_table
    from atoll.datasets import DATASETS, hide_labels

    pd = import_extra("pandas")
    check_table_path(out, option="--out")
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
    speaker(quiet, out)(
        f"{len(frame)} rows, {frame['label'].notna().sum()} labelled, {len(np.unique(y))} classes, "
        f"saved in {out}."
    )


@app.command(short_help="Run a table or figure of a paper again.")
@one_line_errors
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of an experiment, or all.")
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
    from atoll.reproductions.times import TIMES, in_words

    if show_list or name is None:
        if not show_list:
            raise ValueError("name an experiment to run, or list them with --list.")
        rows = [
            [e.name, *map(in_words, TIMES[e.name]), ", ".join(e.needs) or "-", e.title]
            for e in list_experiments()
        ]
        for line in table_lines(["name", "quick", "full", "needs", "what it shows"], rows):
            typer.echo(line)
        typer.echo(
            "quick and full: about the time of one core, with --quick and without. Files that it "
            "needs are looked for in --data, or in the folder named by ATOLL_DATA."
        )
        return
    if name == "all" and only:
        raise ValueError("--only picks cells of one experiment; name it instead of 'all'.")
    say, none_ran = speaker(quiet), list[str]()
    for one in [e.name for e in list_experiments()] if name == "all" else [name]:
        result = run_experiment(
            one,
            out=out,
            quick=quick,
            n_jobs=n_jobs,
            seed=seed,
            data_home=data,
            progress=show_progress(quiet),
            only=values_by_key(only or []),
            limit=limit,
        )
        if result.skipped and not result.results:
            none_ran.append(one)
            complain(f"{one}: no cell could be run: {result.skipped[0].reason}")
            continue
        for reason in dict.fromkeys(skipped.reason for skipped in result.skipped):
            say(f"Left out: {reason}")
        n = len(result.results)
        say(f"{n} cell{'' if n == 1 else 's'}, in {result.csv}.")
        if result.figure is not None:
            say(f"Picture: {result.figure}")
        say(f"Page: {result.page}")
    if none_ran and name != "all":  # of all, those with a missing file are named above
        raise typer.Exit(BAD_INPUT)


# --- fitting -------------------------------------------------------------------------------------


def _choose(registry: dict[str, Any], name: str, what: str, listing: str) -> Any:
    if name not in registry:
        hint = did_you_mean(name, registry)
        raise ValueError(
            f"there is no {what} {name!r}; {hint}`{listing}` lists them: {', '.join(registry)}."
        )
    return registry[name]


def _models() -> dict[str, Any]:
    from atoll.estimators import MODELS

    return MODELS


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


# --- order ---------------------------------------------------------------------------------------

_ORDER = (
    *("demo", "fit", "predict", "explain", "report", "next", "label", "suspects", "score"),
    *("compare", "models", "reproduce"),
)
app.registered_commands.sort(
    key=lambda command: _ORDER.index(command.name or getattr(command.callback, "__name__", ""))
)
