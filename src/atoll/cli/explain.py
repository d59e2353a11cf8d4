"""The command `atoll explain`: why the model says what it says of a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.cli.options import DataPath, ModelPath, Quiet, TargetOfModel
from atoll.cli.terminal import one_line_errors, speaker, table_lines, wrapped
from atoll.core.near_names import did_you_mean

if TYPE_CHECKING:
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
    from atoll.cli.fitting import names_as_written
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
    id_column = bundle.id_column if bundle.id_column in frame.columns else ""
    names = names_as_written(source, id_column).tolist() if id_column else []
    place = _place(row, len(frame), data, id_column, names)
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


def _place(row: str, n_rows: int, data: Path, id_column: str, names: Sequence[str]) -> int:
    """Return the place of a row in a table, from 0, by its number or its name.

    Parameters
    ----------
    row : number, from 1, or name
    n_rows : of the table
    id_column, names : that has the names, and they as the file has them; "" if there is none
    """
    if id_column:
        named = [i for i, name in enumerate(names) if name.strip() == row.strip()]
        if not named and (wanted := _whole(row)) is not None:  # 7 for 007, or for 7.0
            named = [i for i, name in enumerate(names) if _whole(name) == wanted]
        if len(named) == 1:
            return named[0]
        if named:
            rows = ", ".join(str(i + 1) for i in named[:8]) + ", …" * (len(named) > 8)
            raise ValueError(
                f"--row {row}: {len(named)} rows have this name in the column {id_column!r}; give "
                f"the number of one: {rows}."
            )
    number = int(row) if row.strip().isdigit() else 0
    if not 1 <= number <= n_rows:
        where = f"{str(data)!r} has rows 1 to {n_rows}"
        if id_column:
            near = did_you_mean(row, names, alike=0.75)
            others = f"{where}, and the names of its column {id_column!r}."
            raise ValueError(f"--row {row}: {near}{others}")
        is_name = not row.strip().lstrip("-").isdigit()
        more = "; rows have names where the fit was told their column with --id" if is_name else ""
        raise ValueError(f"--row {row}: {where}{more}.")
    return number - 1


def _whole(name: str) -> int | None:
    """Return the whole number that a name is, if it is one."""
    found = re.fullmatch(r"(\d+)(\.0)?", name.strip(), re.ASCII)
    return None if found is None else int(found[1])


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
