"""The commands. Modules that are slow to import are imported by the commands that need them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from atoll import __version__
from atoll.cli.data_commands import datasets_app, reproduce
from atoll.cli.explain import explain
from atoll.cli.fit_commands import compare, fit, models
from atoll.cli.knowledge import suspects
from atoll.cli.label import label
from atoll.cli.options import DataPath, ModelPath, Quiet, Seed, TargetOfModel, data_path
from atoll.cli.score import score
from atoll.cli.terminal import OneLineGroup, make_folder, one_line_errors, speaker

app = typer.Typer(
    cls=OneLineGroup,
    epilog="Set ATOLL_TRACEBACK=1 to see where an error comes from.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # two plain columns can be read at eighty characters
)
app.add_typer(datasets_app, name="datasets")
for command, said in (
    (fit, None),
    (compare, "Compare the models, and say which to use."),
    (models, "List the models, or the parameters of one."),
    (reproduce, "Run a table or figure of a paper again."),
    (label, "Label rows on a page, the most telling first."),
    (explain, "Explain the class of one row."),
    (score, "Score a model on a table with labels."),
    (suspects, "List the labels that may be wrong."),
):
    app.command(short_help=said)(command)


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
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the picture and the report.")
    ] = Path("demo-output"),
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer draws, seconds only.")] = False,
) -> None:
    """Show the default classifier on a handful of labels, and others beside it."""
    make_folder(out)
    from atoll.reports.demo import run_demo

    run_demo(out, seed=seed, quick=quick)


@app.command(short_help="Write the class probabilities of a table.")
@one_line_errors
def predict(
    model: ModelPath,
    data: DataPath,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Table to write, .csv or .parquet; - for CSV on standard output."
        ),
    ],
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="Column of DATA to carry over, to tell rows apart."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Carry every column of DATA over.")] = False,
    reject_below: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Leave the class blank where it is less probable.",
        ),
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
    predict_table(model, data, out, wishes, speaker(quiet, out), not quiet)


@app.command(short_help="Write one HTML page on a fitted model.")
@one_line_errors
def report(
    model: ModelPath,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="HTML file; beside the model by default.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Table of the rows, for a model that was saved from Python.",
            callback=data_path,
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Its column of labels; `label` by default.")
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
        progress=not quiet,
    )
    speaker(quiet)(f"Report saved in {page}.")


@app.command("next", short_help="Say which rows to label next, and why.")
@one_line_errors
def next_rows(
    context: typer.Context,
    model: ModelPath,
    data: DataPath,
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="Rows to label.")] = 10,
    answers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Table of answers: columns `row` (from 1 on) and that of the labels.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Table to write the rows to, for their labels."),
    ] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Table to write: DATA with every label that is known."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of the loop; beside the model by default."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How rows are picked: brier, margin, random, …"),
    ] = None,
    target_error: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Share of wrong rows at which labelling may stop."),
    ] = None,
    new_class: Annotated[
        list[str] | None,
        typer.Option(metavar="CLASS", help="Class that answers may have; may be repeated."),
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
    from atoll.cli.fitting import about_repeated_names, is_given
    from atoll.cli.opening import check_labels, known_words, open_model, refuse_near_target
    from atoll.core.tables import form_in, read_cells, read_table, source_of

    kept = model.with_suffix(".next.atoll") if state is None else state
    files = loop.Files(model, data, kept, answers, out, labelled)
    loop.check_files(files)
    new = tuple(new_class or ())
    is_seed_given = is_given(context, "seed")
    wishes = loop.Wishes(n, strategy, target_error, seed, new, not quiet, is_seed_given)
    loop.check_wishes(wishes)
    source = source_of(data)
    frame, cells = read_table(source), read_cells(source)
    bundle = open_model(model, frame, target)
    refuse_near_target(bundle, frame)
    about_names = about_repeated_names(frame, source, data, bundle.target)
    if target is None and not len(bundle.y):  # saved from Python, without a name for its labels
        check_labels(bundle, frame)
    frame, about_labels = known_words(bundle, frame, source, new)
    say = speaker(quiet, out)
    for line in [*about_names, *about_labels]:
        say(line)
    table = loop.Table(frame, cells, form_in(source))
    loop.run_round(bundle, table, files, wishes, say)


# --- order ---------------------------------------------------------------------------------------

_ORDER = (
    *("demo", "fit", "predict", "explain", "report", "next", "label", "suspects", "score"),
    *("compare", "models", "reproduce"),
)
app.registered_commands.sort(
    key=lambda command: _ORDER.index(command.name or getattr(command.callback, "__name__", ""))
)
