"""The command `atoll report`: what a model file holds, in terms of the user's own columns."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atoll.cli.knowledge import columns_told
from atoll.cli.rows import how_scaled
from atoll.core.points import in_points

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
    from atoll.cli.fitting import with_source
    from atoll.cli.opening import known_words, open_model, rows_and_labels
    from atoll.core.tables import read_table, source_of
    from atoll.reports import write_report

    if data is None and target is not None:
        raise ValueError("--target names a column of --data; give both, or neither.")
    if data is None:
        bundle = open_model(model)
    else:
        source = source_of(data)
        frame = read_table(source)
        bundle = open_model(model, frame, target)
        fitted = bundle
        bundle = rows_and_labels(bundle, known_words(bundle, frame, source)[0])
        if fitted.created:
            _refuse_other_rows(fitted, bundle, model, data)
        bundle = with_source(bundle, data)
    if bundle.created:  # by `atoll fit`, so the reader knows its options
        _speak_shell(bundle.estimator)
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


def _refuse_other_rows(fitted: ModelBundle, found: ModelBundle, model: Path, data: Path) -> None:
    """Raise a ValueError unless rows and labels of a table are those that a model was fitted on.

    Parameters
    ----------
    fitted, found : the model with the rows of its fit, and with those of the table
    """
    import numpy as np

    what = ""
    if fitted.X.shape != found.X.shape or not _are_close(fitted.X, found.X):
        what = "rows"
    elif not np.array_equal(fitted.y, found.y):
        what = "labels"
    if what:
        score = shlex.join(["atoll", "score", str(model), str(data)])
        raise ValueError(
            f"--data {shlex.quote(str(data))}: {str(model)!r} was fitted on other {what}, and a "
            "report is on those of the fit, which the model file has: leave --data out. "
            f"`{score}` tells how the model does on other rows."
        )


def _are_close(X: Any, other: Any) -> bool:
    """Return whether two matrices (n, p) are the same but for errors of rounding."""
    if not X.shape[0] or not X.shape[1]:
        return True
    return bool(abs(X - other).max() <= 1e-6 * max(1.0, abs(X).max()))


def _speak_shell(estimator: Any) -> None:
    """Rewrite the verdict of a model fitted from the shell in terms of options."""
    from atoll.cli.fit_commands import fit
    from atoll.cli.fitting import points_in_shell

    found = getattr(estimator, "diagnostics_", None)
    if found and "verdict" in found:
        verdict = in_points(points_in_shell(estimator, fit))
        estimator.diagnostics_ = {**found, "verdict": verdict}


def _in_own_units(bundle: ModelBundle) -> tuple[Any, Any, RowTable | SparseTable]:
    """Return model and rows in the units of the table, and the table to be shown."""
    import numpy as np
    from scipy import sparse

    from atoll.core.preprocessing import in_own_units
    from atoll.reports.table import RowTable, SparseTable
    from atoll.reports.units import in_units_of_the_table

    read, name = bundle.preprocessing, bundle.id_column
    if sparse.issparse(bundle.X):  # with words, whose weights are their own unit
        rows = bundle.filled_rows
        blank: dict[int, tuple[str, ...]] = {}
        for row, j in _blank(bundle):
            blank[row] = (*blank.get(row, ()), read.columns[j])
        n, names = len(read.columns), read.names
        if n == 1:  # a single column of texts, whose name would precede every word
            names = [word.removeprefix(f"{read.columns[0]}: ") for word in names]
        shown = SparseTable(rows, names, bundle.ids, name, 1, blank, n, bundle.rows)
        if bundle.texts is not None:
            shown = shown._replace(texts=bundle.texts, text_name=", ".join(read.texts))
            shown = shown._replace(n_features=len(read.features))
        return bundle.estimator, rows, shown
    estimator, X = in_units_of_the_table(bundle.estimator, read, bundle.filled_rows)
    frame = in_own_units(read, bundle.X)
    if bundle.blank is not None:  # what was filled in was not measured
        is_blank = np.zeros(frame.shape, bool)
        is_blank[bundle.blank[:, 0], bundle.blank[:, 1]] = True
        frame = frame.mask(is_blank)
    return estimator, X, RowTable(frame, bundle.ids, name, 1, bundle.rows)


def _blank(bundle: ModelBundle) -> list[list[int]]:
    """Return row and column of every cell that is known to have been blank."""
    return [] if bundle.blank is None else bundle.blank.tolist()


def _about_blanks(bundle: ModelBundle) -> dict[str, object]:
    """Return what is said of blank cells; nothing if there were none."""
    from atoll.reports.words import count

    if bundle.blank is None:
        said = (
            "not recorded in this model file, so that a number may be one that was filled in: "
            "name the table by --data, or fit the model again"
        )
        return {"Blank cells": said}
    if not len(bundle.blank):
        return {}
    n, columns = len(bundle.blank), {bundle.preprocessing.columns[j] for _, j in _blank(bundle)}
    said = (
        f"{count(n, 'cell')} in {count(len(columns), 'column')}, filled in for the model: a number "
        "by rows that are like its own, a category by none of its values"
    )
    return {"Blank cells": said}


def _about(bundle: ModelBundle) -> dict[str, object]:
    from atoll.core.preprocessing import PreparedTable, category_weight

    encoded, texts = ", ".join(bundle.preprocessing.categories), bundle.preprocessing.texts
    source = {}
    if bundle.source:
        when = f", last changed {_day(bundle.source_date)}" if bundle.source_date else ""
        source["Data"] = f"{bundle.source}{when}"
    fitted = {}
    if bundle.created:
        fitted["Fitted"] = f"{_day(bundle.created)}, by atoll {bundle.atoll_version}"
    weight = category_weight(PreparedTable(bundle.X, None, bundle.preprocessing))
    counted = {"Categories, and numbers of few values": f"count {weight:g} beside measurements"}
    numeric = set(bundle.preprocessing.columns) - {*bundle.preprocessing.categories, *texts}
    how = how_scaled(bundle.estimator, bundle.preprocessing)
    told = {
        {"--weights": "Weights of labels", "--groups": "Groups of rows"}[option]: (
            f"by {name}; held-out labels are predicted without them"
        )
        for option, name in columns_told(bundle).items()
    }
    return {
        **source,
        "Column of labels": bundle.target,
        **told,
        **({"Numeric columns": how} if numeric else {}),
        **({"Columns encoded as indicators": encoded} if encoded else {}),
        **(counted if weight != 1.0 else {}),
        **({"Columns of texts": ", ".join(texts)} if texts else {}),
        **_about_blanks(bundle),
        **fitted,
    }


def _day(moment: str) -> str:
    """Return a moment as a reader would write it: 2026-03-01, 14:05 UTC."""
    day, _, rest = moment.partition("T")
    return f"{day}, {rest[:5]} UTC" if rest else day
