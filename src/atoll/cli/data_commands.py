"""The commands that work without data of the user's own: `datasets` and `reproduce`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.options import Jobs, Quiet, Seed
from atoll.cli.settings import choose, pairs, values_by_key
from atoll.cli.terminal import (
    BAD_INPUT,
    complain,
    is_narrow,
    one_line_errors,
    saved_in,
    speaker,
    table_lines,
)
from atoll.cli.wording import in_options
from atoll.core.extras import import_extra

datasets_app = typer.Typer(
    help="Data sets to try a model on.", no_args_is_help=True, rich_markup_mode=None
)


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
    out: Annotated[Path, typer.Option(metavar="FILE", help="Table to write, .csv or .parquet.")],
    n_samples: Annotated[int | None, typer.Option(metavar="N", min=1, help="Rows.")] = None,
    n_classes: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, help="Classes, of a data set that has any number."),
    ] = None,
    labels_per_class: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Labels to keep in each class; the rest is blank."),
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
    generator = choose(DATASETS, name, "data set", "atoll datasets list")
    options = _parse_settings(generator, name, settings or [])
    if n_classes is not None and "n_classes" not in inspect.signature(generator).parameters:
        raise ValueError(
            f"--n-classes {n_classes}: {name} has no such setting; `atoll datasets list` has those "
            "that it has, and a pinwheel has any number of classes."
        )
    given = {"n_samples": n_samples, "n_classes": n_classes}
    options |= {key: value for key, value in given.items() if value is not None}
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
        f"{saved_in(out)}."
    )


def _summary(thing: Any) -> str:
    """First line of a docstring."""
    return (inspect.getdoc(thing) or "").split("\n", 1)[0]


def _settings_of(generator: Callable[..., Any]) -> str:
    return " ".join(
        f"{name}={parameter.default}".replace(" ", "")
        for name, parameter in inspect.signature(generator).parameters.items()
        if name != "random_state"
    )


def _parse_settings(
    generator: Callable[..., Any], name: str, settings: list[str]
) -> dict[str, Any]:
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


@one_line_errors
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of an experiment, or all.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smaller version of the same, in a minute or less.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for tables, pictures and pages.")
    ] = Path("reproductions-output"),
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of data files; ATOLL_DATA by default."),
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
        typer.Option(
            metavar="SECONDS",
            help="Processor seconds after which a cell is stopped and reported as such.",
        ),
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
        _list_experiments()
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
            progress=not quiet,
            only=values_by_key(only or []),
            limit=limit,
        )
        if result.skipped and not result.results:
            none_ran.append(one)
            reason = in_options(result.skipped[0].reason, reproduce)
            complain(f"{one}: no cell could be run: {reason}")
            continue
        # Cells that were left out have been named on the way.
        n = len(result.results)
        say(f"{n} cell{'' if n == 1 else 's'}, in {result.csv}.")
        if result.figure is not None:
            say(f"Picture: {result.figure}")
        say(f"Page: {result.page}")
    if none_ran and name != "all":  # with "all", experiments without their files are named above
        raise typer.Exit(BAD_INPUT)


def _list_experiments() -> None:
    from atoll.reproductions import list_experiments
    from atoll.reproductions.times import TIMES, in_words

    rows = [
        [e.name, *map(in_words, TIMES[e.name]), ", ".join(e.needs) or "-", e.title]
        for e in list_experiments()
    ]
    header = ["name", "quick", "full", "needs", "what it shows"]
    if is_narrow():
        header = ["name", "quick", "full", "what it shows, and the files that it needs"]
        rows = [
            [*row[:3], row[4] if row[3] == "-" else f"{row[4]} (needs {row[3]})"] for row in rows
        ]
    for line in table_lines(header, rows):
        typer.echo(line)
    speaker(quiet=False)(
        "quick and full: about the time of one core, with --quick and without. Files that it "
        "needs are looked for in --data, or in the folder named by ATOLL_DATA."
    )
