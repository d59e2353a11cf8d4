"""The commands that fit models to a table: `fit` and `compare`; and `models`, which lists them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.fitting import (
    about_names,
    about_order,
    about_repeated_names,
    amiss_in,
    bundle_of,
    check_columns,
    description,
    fit_rows,
    markers_in,
    markers_of_fit,
    names_as_written,
    next_step,
    options_given,
    refuse_loop,
    refuse_measurement,
    refuse_placeholder,
    rows_to_learn_from,
    settle_labels,
    unlabelled_value,
    verdict_in_shell,
    weigh,
    with_classes,
    with_source,
    without_index,
)
from atoll.cli.knowledge import ClassShares, Groups, Told, Weights
from atoll.cli.options import DataPath, Jobs, Quiet, Seed
from atoll.cli.rows import (
    AUTO,
    COSINE,
    compare_texts_by_direction,
    leave_units,
    lines_about,
    refuse_texts,
    scaling_of,
    with_metric,
)
from atoll.cli.settings import (
    choose,
    read_settings,
    refuse_several,
    set_or_refuse,
    set_where_known,
    settable_parameters,
)
from atoll.cli.stages import Stages, announce_reading
from atoll.cli.terminal import (
    is_narrow,
    make_folder,
    one_line_errors,
    speaker,
    table_lines,
)
from atoll.core.near_names import did_you_mean

Target = Annotated[
    str,
    typer.Option(metavar="COLUMN", help="Column of labels; its blank cells are unlabelled rows."),
]
ModelName = Annotated[
    str, typer.Option(metavar="NAME", help="Name of a model; `atoll models` lists them.")
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="Column that names the rows: not learnt from, and kept for reports.",
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; may be repeated.")
]
Encode = Annotated[
    bool,
    typer.Option("--encode/--no-encode", help="Turn categorical columns into indicators, or not."),
]
Impute = Annotated[
    bool, typer.Option("--impute/--no-impute", help="Fill blank cells in, or refuse them.")
]
Text = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="Column of texts, if it is not seen to be one; may be repeated."
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How rows are compared; cosine for embeddings, whose columns are then left.",
    ),
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
    list[str] | None,
    typer.Option(
        metavar="VALUE",
        help="What means unlabelled, besides a blank cell and words such as NA: auto (-1 among "
        "integers, as in scikit-learn), none (blank cells alone), or a value; may be repeated.",
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
    Path | None, typer.Option(metavar="FOLDER", help="Folder to resume from after an interruption.")
]


@one_line_errors
def fit(
    context: typer.Context,
    data: DataPath,
    target: Target,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for the fitted model.")],
    model: ModelName = "atoll",
    id_column: IdColumn = None,
    drop: Drop = None,
    encode: Encode = True,
    impute: Impute = True,
    no_standardise: NoStandardise = False,
    text: Text = None,
    metric: Metric = None,
    unlabelled: Unlabelled = None,
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
    # Long because they take up a quarter of it.
    say, stages = speaker(quiet), Stages()
    announce_reading(data, say)
    from sklearn.exceptions import ConvergenceWarning

    from atoll.cli.timing import before_the_fit
    from atoll.core.fillings import with_column_names, with_remarks
    from atoll.core.overwriting import MODEL, check_output
    from atoll.core.preprocessing import blank_cells, prepare, with_fillings
    from atoll.core.tables import read_table, source_of
    from atoll.estimators.persistence import save_model
    from atoll.estimators.validation import check_size

    check_output(out, MODEL, [data], "--out")
    refuse_loop(out)
    if checkpoint is not None:
        make_folder(checkpoint)
    refuse_several("--model", model, _models(), "a fit has one; `atoll compare {}` compares them.")
    kind = choose(_models(), model, "model", "atoll models")
    wanted = with_metric(settings or [], metric)
    estimator = kind(**read_settings(kind, model, settings or [], metric))
    # The labels are settled here, once: past this point only a null is unlabelled.
    set_where_known(estimator, unlabelled=None, verbose=not quiet, random_state=seed)
    set_or_refuse(estimator, model, n_jobs=n_jobs, checkpoint=checkpoint and str(checkpoint))
    if no_standardise:
        leave_units(estimator, wanted)

    stages.ended("starting")
    source = source_of(data)
    frame = read_table(source)
    stages.ended("reading")
    check_columns(
        *(frame, data, target), id=id_column, drop=drop, text=text, weights=weights, groups=groups
    )
    declared = estimator.get_params().get("classes")
    for line in about_repeated_names(frame, source, data, target):
        say(line)
    markers = markers_in(unlabelled)
    frame, about_labels = with_classes(frame, source, target, markers, declared)
    told = Told(class_share or [], weights, groups)
    told.check(kind, model)
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
    refuse_texts(kind, model, table.preprocessing)
    check_size(table.X, table.preprocessing.names)
    compare_texts_by_direction(estimator, table.preprocessing, wanted)
    labels = settle_labels(estimator, kind, table.y, markers)
    set_where_known(estimator, class_prior=told.class_prior(labels.classes))
    given = told.of_fit(known, labels)
    amiss = amiss_in(frame, labels, table.preprocessing)
    told_first = description(data, frame, labels, table.preprocessing, estimator, amiss)
    names = None if id_column is None else names_as_written(source, id_column)
    about = [*about_labels, *about_names(names, known)]
    for line in [*told_first, *about, *lines_about(estimator, table.preprocessing)]:
        say(line)
    table, about_categories = weigh(estimator, table, labels)
    for line in about_categories:
        say(line)
    y = labels.classes.astype(object)[labels.codes]
    y[~labels.is_labelled] = None
    X = with_fillings(table.preprocessing, table.X, blank_cells(table.preprocessing, frame))
    X = with_column_names(with_remarks(X, amiss), table.preprocessing.names)
    if not quiet:
        for line in before_the_fit(estimator, model, X, y):
            say(line)
    stages.ended("preparing")
    with warnings.catch_warnings():
        if not quiet:  # the verdict below says the same
            warnings.simplefilter("ignore", ConvergenceWarning)
        fit_rows(estimator, X, y, given)
    stages.ended("fitting")
    set_where_known(estimator, verbose=False, checkpoint=None)  # they belong to this run alone
    bundle = bundle_of(estimator, table, known, y, target)
    said = markers_of_fit(labels, unlabelled_value(markers, table.y))
    bundle = bundle._replace(options=options_given(context), unlabelled=said)
    save_model(with_source(bundle, data, names), out)
    stages.ended("saving")
    verdict = verdict_in_shell(estimator, fit, out)
    stages.ended("checking labels")
    for line in [verdict, f"Model saved in {out}.", next_step(estimator, data, out, labels)]:
        say(line)
    if not quiet and stages.said() is not None:
        typer.echo(stages.said(), err=True)


@one_line_errors
def compare(
    data: DataPath,
    target: Target,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "--html", metavar="FILE", help="Page (.html) or table (.csv) to write."
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="NAME", help="Compare only this model with the default; repeatable."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="NAME",
            help="Leave this model out, such as a slow one; repeatable.",
        ),
    ] = None,
    drop: Drop = None,
    id_column: IdColumn = None,
    text: Text = None,
    metric: Metric = None,
    n_splits: Annotated[
        int, typer.Option(metavar="N", min=2, help="Folds of the labelled rows.")
    ] = 5,
    unlabelled: Unlabelled = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Compare the models on the labelled rows of a table, and say which to use."""
    # Many parameters because a command's options are its parameters.
    # Long because they take up a third of it.
    from atoll.cli.comparing import check_comparison, fit_with, folds_said, save_comparison
    from atoll.comparison import compare_models
    from atoll.comparison.candidates import CANDIDATES
    from atoll.comparison.recommending import in_shell
    from atoll.core.column_scales import holds_numbers_alone
    from atoll.core.labels import parse_labels
    from atoll.core.preprocessing import prepare
    from atoll.core.repeated_rows import without_repeats
    from atoll.core.tables import read_table, source_of
    from atoll.estimators.validation import check_size

    say = speaker(quiet)
    check_comparison(out, data)
    for option, names in (("--model", models), ("--without", without)):
        for name in names or ():
            refuse_several(option, name, CANDIDATES, "name them one by one: {}.")
            if name not in CANDIDATES:
                hint = did_you_mean(name, CANDIDATES)
                there = f"{'The' if hint else 'the'} models to compare are {', '.join(CANDIDATES)}."
                raise ValueError(f"{option} {name}: {hint}{there}")
    read_settings(_models()["atoll"], "atoll", [], metric)  # refuses what is not a metric
    metric = None if metric == AUTO else metric
    source = source_of(data)
    frame = read_table(source)
    check_columns(frame, data, target, id=id_column, drop=drop, text=text)
    for line in about_repeated_names(frame, source, data, target):
        say(line)
    markers = markers_in(unlabelled)
    frame, about_labels = with_classes(frame, source, target, markers)
    left_out = [target, *(drop or ()), *([] if id_column is None else [id_column])]
    dropped = without_index(frame, left_out, say)[1:]
    known = rows_to_learn_from(frame, [target, *dropped], say)
    is_plain = not text and holds_numbers_alone(known.frame, [target, *dropped])
    scaled = not is_plain and metric != COSINE
    table = prepare(known.frame, target, standardise=scaled, drop=dropped, texts=text or ())
    check_size(table.X, table.preprocessing.names)
    only_texts = table.preprocessing.texts and not table.preprocessing.features
    marker = unlabelled_value(markers, table.y)
    if marker == "auto":
        refuse_placeholder(table.y)
    targets: Any = table.y
    labels = parse_labels(targets, unlabelled=marker)
    refuse_measurement(labels)
    if "ordinal-gp" in (models or ()):
        for line in about_order(_models()["ordinal-gp"], None, labels):
            say(line)
    for line in [*about_labels, *folds_said(without_repeats(table.X, labels), n_splits)]:
        say(line)
    found = compare_models(
        table.X if is_plain else table,
        table.y,
        models=models,
        without=without or (),
        n_splits=n_splits,
        metric=COSINE if metric is None and only_texts else metric,
        unlabelled=marker,
        random_state=seed,
        progress=not quiet,
    )
    options = {"--drop": drop, "--text": text, "--id": id_column, "--metric": metric}
    fit_it = fit_with(data, target, options, markers)
    found = replace(found, recommendation=in_shell(found, fit_it))
    typer.echo(found.recommendation if quiet else str(found))
    if out is not None:
        say(save_comparison(found, out, f"Models compared: {target} of {data.name}"))


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
        if is_narrow():
            header = ["name", "what it is for (class; paper)"]
            rows = [[key, f"{what} ({kind}; {paper})"] for key, kind, paper, what in rows]
    else:
        kind = choose(_models(), name, "model", "atoll models")
        header, rows = ["parameter", "default", "may be"], settable_parameters(kind)
    for line in table_lines(header, rows):
        typer.echo(line)


def _models() -> Mapping[str, Any]:
    from atoll.estimators import MODELS

    return MODELS
