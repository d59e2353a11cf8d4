"""The command `atoll report`: what a model file holds, told in the user's own columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atoll.estimators.persistence import ModelBundle
    from atoll.reports.table import RowTable, SparseTable


def report_on(
    model: Path,
    page: Path,
    *,
    data: Path | None,
    target: str | None,
    seed: int,
    cross_validate: bool,
    progress: bool,
) -> None:
    """Write the report of a model file.

    Parameters
    ----------
    model, page : files to read and to write
    data, target : table of the rows and its column of labels, for a model saved from Python
    """
    from datetime import UTC, datetime

    from atoll.cli.opening import open_model, rows_and_labels
    from atoll.core.tables import read_table
    from atoll.reports import write_report

    if data is None:
        bundle = open_model(model)
    else:
        frame = read_table(data)
        bundle = rows_and_labels(open_model(model, frame, target), frame)
        changed = datetime.fromtimestamp(data.stat().st_mtime, UTC).isoformat(timespec="seconds")
        bundle = bundle._replace(source=data.name, source_date=changed)
    estimator, X, table = _in_own_units(bundle)
    write_report(
        estimator,
        X,
        bundle.y,
        page,
        title=f"{bundle.target} by {type(bundle.estimator).__name__}",
        feature_names=bundle.preprocessing.names,
        about=_about(bundle),
        unlabelled=None,
        random_state=seed,
        cross_validate=cross_validate,
        progress=progress,
        table=table,
    )


def _in_own_units(bundle: ModelBundle) -> tuple[Any, Any, RowTable | SparseTable]:
    """Return model and rows in the units of the table, and the rows to be shown."""
    from scipy import sparse

    from atoll.core.preprocessing import in_own_units
    from atoll.reports.table import RowTable, SparseTable
    from atoll.reports.units import in_units_of_the_table

    read, name = bundle.preprocessing, bundle.id_column
    if sparse.issparse(bundle.X):  # with words, whose weights are their own unit
        rows = sparse.csr_array(bundle.X)
        return bundle.estimator, rows, SparseTable(rows, read.names, bundle.ids, name, 1)
    estimator, X = in_units_of_the_table(bundle.estimator, read, bundle.X)
    return estimator, X, RowTable(in_own_units(read, bundle.X), bundle.ids, name)


def _about(bundle: ModelBundle) -> dict[str, object]:
    encoded, texts = ", ".join(bundle.preprocessing.categories), bundle.preprocessing.texts
    source = {}
    if bundle.source:
        when = f", last changed {_day(bundle.source_date)}" if bundle.source_date else ""
        source["Data"] = f"{bundle.source}{when}"
    fitted = {}
    if bundle.created:
        fitted["Fitted"] = f"{_day(bundle.created)}, by atoll {bundle.atoll_version}"
    how = "standardised for the model" if bundle.preprocessing.standardised else "as they are"
    return {
        **source,
        "Column of labels": bundle.target,
        "Numeric columns": how,
        **({"Columns encoded as indicators": encoded} if encoded else {}),
        **({"Columns of texts": ", ".join(texts)} if texts else {}),
        **fitted,
    }


def _day(moment: str) -> str:
    """Return a moment as a reader would write it: 2026-03-01, 14:05 UTC."""
    day, _, rest = moment.partition("T")
    return f"{day}, {rest[:5]} UTC" if rest else day
