"""The command `atoll score`: how a model does on rows whose classes are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.cli.fitting import about_repeated_names
from atoll.cli.options import DataPath, ModelPath, Quiet, TargetOfModel
from atoll.cli.terminal import (
    GAP,
    NARROWEST,
    one_line_errors,
    speaker,
    table_lines,
    terminal_width,
)
from atoll.core.shown import told_apart

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from atoll.estimators.held_out import Scores
    from atoll.estimators.persistence import ModelBundle

_LONGEST_NAME = 24  # characters of a class in that table
MOST_CLASSES = 20  # of a table of confusions; with more, the commonest are listed
_MOST_LISTED = 10
FEWEST_WORDS = 5  # known words from which on texts with the same words are copies
ROUNDING = 2.0**-30  # of a column's largest number: closer numbers count as the same


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

    Rows without a label are left out. Rows that were labelled in the fit, and copies of such, are
    counted and left out as well, since the model has seen their answers; scores of all rows stand
    beside.
    """
    import numpy as np

    from atoll.cli.opening import (
        known_words,
        labels_of,
        open_model,
        predicted_proba,
        refuse_near_target,
    )
    from atoll.core.preprocessing import apply, unreadable
    from atoll.core.progress import progress_bar
    from atoll.core.tables import read_table, source_of

    source = source_of(data)
    frame = read_table(source)
    bundle = open_model(model, frame, target)
    about_names = about_repeated_names(frame, source, data, bundle.target)
    frame, about_labels = known_words(bundle, frame, source)
    y = labels_of(bundle, frame)
    if y is None:
        refuse_near_target(bundle, frame)
        raise ValueError(
            f"{str(data)!r} has no column {bundle.target!r} of labels; name it with --target."
        )
    classes = bundle.estimator.classes_.tolist()
    read, reasons = unreadable(bundle.preprocessing, frame)
    labelled = np.array([label is not None for label in y])
    legible = np.array([reason is None for reason in reasons])
    known = np.array([label in classes for label in y])
    say = speaker(quiet)
    for line in [*about_names, *about_labels, *_left_out(y, labelled, legible, known)]:
        say(line)
    rows = labelled & legible & known
    if not rows.any():
        raise ValueError(
            f"no row of {str(data)!r} has a label to score; fill in the column {bundle.target!r}."
        )
    X = apply(bundle.preprocessing, read[rows])
    codes = np.array([classes.index(label) for label in y[rows]])
    is_new = ~seen_labelled(bundle, X)
    for line in _about_seen(bundle, is_new):
        say(line)
    settings = {"total": X.shape[0], "unit": " rows", "disable": quiet}
    with progress_bar(desc="predicting", **settings) as bar:
        p = predicted_proba(bundle.estimator, X, bar)
    for line in table_lines(*_score_table(p, codes, is_new)):
        typer.echo(line)
    if not no_confusions:
        shown = is_new if is_new.any() else ~is_new
        typer.echo("")
        for line in _confusion_lines(p[shown], codes[shown], classes):
            typer.echo(line)


def _score_table(
    p: NDArray[np.float64], codes: NDArray[np.intp], is_new: NDArray[np.bool_]
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: scores of new rows and, if some are not new, also of all rows."""
    from atoll.estimators.held_out import score as scores_of

    everything = scores_of(p, codes)
    some = bool(is_new.any()) and not is_new.all()
    found = scores_of(p[is_new], codes[is_new]) if some else everything
    low, high = found.accuracy_low, found.accuracy_high
    names = ["accuracy", "log-loss", "Brier score", "calibration error"]
    remarks = [
        f"95% interval {low:.4f} to {high:.4f}",
        f"class shares alone: {found.chance_log_loss:.4f}",
        "from 0 (best) to 2",
        "probability against share right",
    ]
    header = ["score", f"of {found.n_rows} {'new ' * some}rows", ""]
    columns = [names, _values(found), remarks]
    if some:
        header.append(f"of all {everything.n_rows} rows")
        columns.append(_values(everything))
    return header, [list(row) for row in zip(*columns)]


def _values(found: Scores) -> list[str]:
    numbers = (found.accuracy, found.log_loss, found.brier, found.calibration_error)
    return [f"{number:.4f}" for number in numbers]


def _confusion_lines(
    p: NDArray[np.float64], codes: NDArray[np.intp], classes: list[Any]
) -> list[str]:
    """Return the table of confusions where it has room, and else the commonest of them."""
    import numpy as np

    if len(classes) <= MOST_CLASSES:
        header, rows = confusion_table(p, codes, classes)
        widths = [min(max(map(len, column)), NARROWEST) + GAP for column in zip(header, *rows)]
        if sum(widths) - GAP <= (terminal_width() or np.inf):
            return table_lines(header, rows)
    header, rows = commonest_confusions(p, codes, classes)
    return table_lines(header, rows) if rows else ["No row was predicted wrong."]


def confusion_table(
    p: NDArray[np.float64], codes: NDArray[np.intp], classes: list[Any]
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: true classes down, predicted classes across."""
    names = told_apart([str(name) for name in classes], _LONGEST_NAME)
    header = ["truth \\ predicted", *names]
    counts = _confusions(p, codes)
    return header, [[name, *map(str, row)] for name, row in zip(names, counts.tolist())]


def commonest_confusions(
    p: NDArray[np.float64], codes: NDArray[np.intp], classes: list[Any]
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: a true class, what it was taken for, and in how many of its rows."""
    import numpy as np

    names = told_apart([str(name) for name in classes], _LONGEST_NAME)
    wrong = _confusions(p, codes)
    of_class = wrong.sum(axis=1)
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_LISTED]
    pairs = [divmod(int(place), len(names)) for place in order if wrong.flat[place] > 0]
    rows = [[names[i], names[j], f"{wrong[i, j]} of {of_class[i]}"] for i, j in pairs]
    return ["truth, the commonest mistakes first", "predicted", "rows"], rows


def _confusions(p: NDArray[np.float64], codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how many rows of each class (down) were predicted as which (across)."""
    import numpy as np

    counts = np.zeros((p.shape[1], p.shape[1]), dtype=np.intp)
    np.add.at(counts, (codes, p.argmax(axis=1)), 1)
    return counts


def _left_out(y: Any, labelled: Any, legible: Any, known: Any) -> list[str]:
    lines = []
    if not labelled.all():
        n = int((~labelled).sum())
        rows = "1 row without a label is" if n == 1 else f"{n} rows without a label are"
        lines.append(f"{rows} left out.")
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


def _about_seen(bundle: ModelBundle, is_new: NDArray[np.bool_]) -> list[str]:
    """Say how many rows were labelled in the fit, and what the scores make of them."""
    n, n_seen = len(is_new), int((~is_new).sum())
    if not bundle.X.shape[0]:
        return [
            "The model file was saved from Python, without the rows of the fit: whether it has "
            "seen labels of these rows is not known. If it has, the scores flatter it."
        ]
    if not n_seen:
        return []
    texts = ", or have the text of one" if bundle.preprocessing.texts else ""
    copies = f"of rows that were labelled in the fit, in what the model reads{texts}"
    if n_seen == n:
        return [
            f"All these rows are copies {copies}: it knows their labels, and the scores flatter "
            "it. Score other rows, or see the held-out labels of `atoll report`."
        ]
    are = "is a copy" if n_seen == 1 else "are copies"
    return [
        f"{n_seen} of these {n} rows {are} {copies}: it knows their labels. The scores, and "
        "the confusions, are of the others, which are new to it."
    ]


def seen_labelled(bundle: ModelBundle, X: Any) -> NDArray[np.bool_]:
    """Return which rows are copies of rows that were labelled in the fit, (m,), whatever the label.

    In a table with texts a row is also a copy if its words are those of a labelled row, whatever
    the other columns say: texts of some length are hardly ever the same by chance.

    Parameters
    ----------
    X : (m, p) rows as the model reads them
    """
    import numpy as np

    taught = np.array([label is not None for label in bundle.y], dtype=bool)
    if not taught.any():
        return np.zeros(X.shape[0], dtype=bool)
    known = bundle.X[taught]
    found = _are_among(known, X)
    if bundle.preprocessing.texts:
        first = len(bundle.preprocessing.features)
        words = X[:, first:]
        enough = np.diff(words.indptr) >= FEWEST_WORDS
        found |= enough & _are_among(known[:, first:], words)
    return found


def _are_among(known: Any, X: Any) -> NDArray[np.bool_]:
    """Return which rows X (m, p) are among the known ones (l, p), but for errors of rounding."""
    import numpy as np
    from scipy import sparse

    most = abs(known).max(axis=0)
    largest = most.toarray().ravel() if sparse.issparse(most) else np.asarray(most)
    unit = np.where(largest > 0.0, largest, 1.0) * ROUNDING
    seen = set(_keys(known, unit))
    return np.array([key in seen for key in _keys(X, unit)], dtype=bool)


def _keys(X: Any, unit: NDArray[np.float64]) -> list[bytes]:
    """Return a key for each row, the same for equal rows; numbers are rounded to units (p,)."""
    import numpy as np
    from scipy import sparse

    def rounded(numbers: Any, units: Any) -> Any:
        with np.errstate(over="ignore"):
            return np.round(numbers / units) + 0.0  # turns -0.0 into 0.0, whose bits differ

    if not sparse.issparse(X):
        return [row.tobytes() for row in np.ascontiguousarray(rounded(X, unit))]
    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    places, numbers = X.indices.astype(np.int64), rounded(X.data, unit[X.indices])
    ends = zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist())
    return [places[a:b].tobytes() + numbers[a:b].tobytes() for a, b in ends]
