"""The command `atoll explain`: why the model says what it says of a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.cli.options import DataPath, ModelPath, Quiet, TargetOfModel
from atoll.cli.terminal import one_line_errors, speaker, table_lines, wrapped
from atoll.core.near_names import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from atoll.estimators.persistence import ModelBundle


@one_line_errors
def explain(
    model: ModelPath,
    data: DataPath,
    row: Annotated[
        str,
        typer.Option(
            metavar="ROW",
            help="Which row of DATA: its number, of which the first under the header is 1, or its "
            "name in the column that --id named in the fit.",
        ),
    ],
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="Labels to show.")] = 5,
    refit: Annotated[
        bool, typer.Option("--refit", help="Also fit the model again without each label.")
    ] = False,
    target: TargetOfModel = None,
    quiet: Quiet = False,
) -> None:
    """Explain one row: the labelled rows that are near along the graph, and what each contributes.

    A pull is the share of a label in all that labels do to the row. Models that cannot tell pulls
    are fitted again without each label instead, which takes one fit for each.
    """
    from atoll.cli.opening import check_labels, known_words, open_model, rows_and_labels
    from atoll.core.preprocessing import apply, filled_cells, unreadable
    from atoll.core.tables import read_table, source_of
    from atoll.estimators.column_explanation import columns_of_table, with_columns
    from atoll.estimators.row_explanation import explain_row
    from atoll.estimators.word_explanation import with_words

    say = speaker(quiet)
    source = source_of(data)
    frame = read_table(source)
    bundle = open_model(model, frame, target)
    if target is not None:
        check_labels(bundle, frame)
    if not bundle.X.shape[0]:
        bundle = rows_and_labels(bundle, known_words(bundle, frame, source)[0])
    place = _place(row, frame, data, bundle.id_column)
    read, reasons = unreadable(bundle.preprocessing, frame.iloc[[place]])
    if reasons[0] is not None:
        raise ValueError(f"row {row} of {str(data)!r} cannot be read: {reasons[0]}.")
    x = apply(bundle.preprocessing, read)
    filled = filled_cells(bundle.preprocessing, read)[0]
    estimator = bundle.estimator
    if not hasattr(estimator, "posterior_"):
        raise ValueError(
            f"{type(estimator).__name__} cannot be explained; fit one of the models that `atoll "
            "models` lists."
        )
    found = explain_row(
        estimator,
        x,
        bundle.X,
        bundle.y,
        n_labels=n,
        refit=True if refit else None,
        progress=not quiet,
    )
    found = with_words(found, x, bundle.X, bundle.preprocessing)
    columns = columns_of_table(bundle.preprocessing)
    found = with_columns(found, estimator, x, bundle.X, columns)
    found = found._replace(filled=filled, n_columns=len(bundle.preprocessing.columns))
    if hasattr(estimator, "explanation_"):
        say(estimator.explanation_.headline())
    typer.echo(wrapped(f"Row {row}: {found.headline()}"))
    for line in table_lines(*_with_ids(found.table(first=1), bundle)):
        typer.echo(line)
    if found.summary():
        typer.echo(wrapped(found.summary()))


def _place(row: str, frame: pd.DataFrame, data: Path, id_column: str) -> int:
    """Return the place of a row in a table, from 0, by its number or its name.

    Parameters
    ----------
    row : number, from 1, or name
    id_column : that has the names; "" if there is none
    """
    if id_column in frame.columns:
        named = [i for i, name in enumerate(frame[id_column].astype(str)) if name == row]
        if len(named) == 1:
            return named[0]
        if named:
            rows = ", ".join(str(i + 1) for i in named[:8]) + ", …" * (len(named) > 8)
            raise ValueError(
                f"--row {row}: {len(named)} rows have this name in the column {id_column!r}; give "
                f"the number of one: {rows}."
            )
    number = int(row) if row.strip().isdigit() else 0
    if not 1 <= number <= len(frame):
        where = f"{str(data)!r} has rows 1 to {len(frame)}"
        if id_column in frame.columns:
            near = did_you_mean(row, frame[id_column].astype(str), alike=0.75)
            names = f"{where}, and the names of its column {id_column!r}."
            raise ValueError(f"--row {row}: {near}{names}")
        is_name = not row.strip().lstrip("-").isdigit()
        names = "; rows have names where the fit was told their column with --id" if is_name else ""
        raise ValueError(f"--row {row}: {where}{names}.")
    return number - 1


def _with_ids(
    table: tuple[list[str], list[list[str]]], bundle: ModelBundle
) -> tuple[list[str], list[list[str]]]:
    """Return the table with the rows' numbers, and with their ids if the fit was given any."""
    header, rows = table
    ids: Any = bundle.ids
    places = [int(row[0]) - 1 if row[0] else None for row in rows]  # the last sums up other labels
    rows = [
        row if i is None else [str(bundle.row_number(i)), *row[1:]] for i, row in zip(places, rows)
    ]
    if ids is None:
        return header, rows
    named = [[row[0], "" if i is None else str(ids[i]), *row[1:]] for i, row in zip(places, rows)]
    return [header[0], bundle.id_column, *header[1:]], named
