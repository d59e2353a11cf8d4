"""The command `atoll score`: how a model does on rows whose classes are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.cli.options import DataPath, ModelPath, Quiet, TargetOfModel
from atoll.cli.terminal import one_line_errors, show_progress, speaker, table_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from atoll.estimators.persistence import ModelBundle

MOST_CLASSES = 20  # of a table of confusions


@one_line_errors
def score(
    model: ModelPath,
    data: DataPath,
    target: TargetOfModel = None,
    no_confusions: Annotated[
        bool, typer.Option("--no-confusions", help="Leave out the table of confusions.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on a table with labels: accuracy, log-loss, calibration, confusions.

    Rows without a label are left out. Score rows that the model was not fitted on: of its own
    labels it has seen the answers.
    """
    import numpy as np

    from atoll.cli.opening import labels_of, open_model
    from atoll.cli.predicting import predicted_proba
    from atoll.core.preprocessing import apply, unreadable
    from atoll.core.progress import progress_bar
    from atoll.core.tables import read_table
    from atoll.estimators.held_out import score as scores_of

    frame = read_table(data)
    bundle = open_model(model, frame, target)
    y = labels_of(bundle, frame)
    if y is None:
        raise ValueError(
            f"{str(data)!r} has no column {bundle.target!r} of labels; name it with --target."
        )
    classes = bundle.estimator.classes_.tolist()
    read, reasons = unreadable(bundle.preprocessing, frame)
    labelled = np.array([label is not None for label in y])
    legible = np.array([reason is None for reason in reasons])
    known = np.array([label in classes for label in y])
    say = speaker(quiet)
    for line in _left_out(y, labelled, legible, known):
        say(line)
    rows = labelled & legible & known
    if not rows.any():
        raise ValueError(
            f"no row of {str(data)!r} has a label to score; fill in the column {bundle.target!r}."
        )
    X = apply(bundle.preprocessing, read[rows])
    codes = np.array([classes.index(label) for label in y[rows]])
    n_seen = _n_seen(bundle, X)
    if n_seen:
        say(
            f"{n_seen} of these rows are, in what the model reads, rows that were labelled in the "
            "fit: it knows their labels, and the scores flatter it. Score other rows, or see the "
            "held-out labels of `atoll report`."
        )
    settings = {"total": X.shape[0], "unit": " rows", "disable": not show_progress(quiet)}
    with progress_bar(desc="predicting", **settings) as bar:
        p = predicted_proba(bundle.estimator, X, bar)
    found = scores_of(p, codes)
    low, high = found.accuracy_low, found.accuracy_high
    lines = [
        ["accuracy", f"{found.accuracy:.4f}", f"95% interval {low:.4f} to {high:.4f}"],
        ["log-loss", f"{found.log_loss:.4f}", f"class shares alone: {found.chance_log_loss:.4f}"],
        ["Brier score", f"{found.brier:.4f}", "from 0 (best) to 2"],
        ["calibration error", f"{found.calibration_error:.4f}", "probability against share right"],
    ]
    for line in table_lines(["score", f"of {found.n_rows} rows", ""], lines):
        typer.echo(line)
    if not no_confusions and len(classes) <= MOST_CLASSES:
        typer.echo("")
        for line in table_lines(*confusion_table(p, codes, classes)):
            typer.echo(line)


def confusion_table(
    p: NDArray[np.float64], codes: NDArray[np.intp], classes: list[Any]
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: true classes down, predicted classes across."""
    import numpy as np

    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (codes, p.argmax(axis=1)), 1)
    header = ["truth \\ predicted", *map(str, classes)]
    return header, [[str(name), *map(str, row)] for name, row in zip(classes, counts.tolist())]


def _left_out(y: Any, labelled: Any, legible: Any, known: Any) -> list[str]:
    lines = []
    if not labelled.all():
        lines.append(f"{int((~labelled).sum())} rows without a label are left out.")
    if (labelled & ~legible).any():
        n = int((labelled & ~legible).sum())
        rows = "1 row that cannot be read is" if n == 1 else f"{n} rows that cannot be read are"
        lines.append(f"{rows} left out; `atoll predict` says why.")
    strange = sorted({str(label) for label in y[labelled & legible & ~known]})
    if strange:
        n = int((labelled & legible & ~known).sum())
        rows = "1 other row is of a class" if n == 1 else f"{n} other rows are of classes"
        lines.append(
            f"{rows} that the model does not know ({', '.join(strange[:5])}) and cannot be "
            "predicted right; left out too."
        )
    return lines


def _n_seen(bundle: ModelBundle, X: Any) -> int:
    """Return how many of the rows were labelled in the fit."""
    import numpy as np

    taught = np.array([label is not None for label in bundle.y], dtype=bool)
    if not len(taught):
        return 0
    seen = set(_keys(bundle.X[taught]))
    return sum(key in seen for key in _keys(X))


def _keys(X: Any) -> list[bytes]:
    """Return what tells a row from others, of each row."""
    import numpy as np
    from scipy import sparse

    if not sparse.issparse(X):
        return [row.tobytes() for row in np.ascontiguousarray(X)]
    ends = zip(X.indptr[:-1], X.indptr[1:])
    return [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in ends]
