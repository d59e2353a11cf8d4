"""One HTML file about a fitted classifier and its rows."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from atoll.active.strategies import STRATEGIES
from atoll.active.suggestion import suggest_rows
from atoll.core.blank_rows import MANY, left_to_the_end, mostly_blank
from atoll.core.extras import import_extra
from atoll.core.files import atomic_path
from atoll.core.fillings import carrying, fillings_of
from atoll.core.labels import PartialLabels
from atoll.core.markers import is_auto
from atoll.core.overwriting import PAGE, check_output
from atoll.core.progress import progress_bar
from atoll.core.selection import some_rows
from atoll.core.shown import told_apart
from atoll.diagnostics import entropy as predictive_entropy
from atoll.estimators.held_out import (
    HeldOut,
    Scores,
    calibration_error_by_chance,
    held_out_probabilities,
    score,
)
from atoll.estimators.informed import likely_wrong
from atoll.estimators.validation import remark_on_order
from atoll.plotting import (
    class_counts,
    decision_map,
    entropy_map,
    probability_grid,
    reliability_diagram,
)
from atoll.plotting.palette import class_names, new_axes
from atoll.plotting.rows import check_classifier, feature_names_of, labels_of
from atoll.reports.advice import FEW_ROWS, SURE, State, what_to_do_next
from atoll.reports.confusion import confusion_section
from atoll.reports.figures import png_address
from atoll.reports.inference_section import inference_section
from atoll.reports.preparing import as_numbers
from atoll.reports.table import ArrayTable, RowTable, SparseTable, table_of
from atoll.reports.units import Standardised
from atoll.reports.words import count, listed, number, percent, percents, probability, short

MAP_RESOLUTION = 64  # per axis: predictions are costly, and interpolation makes the picture smooth
_ROWS_SHOWN = 10  # rows listed, to be labelled or looked at
_MANY_ROWS = 20_000  # rows that are predicted at a time, where that is shown
_MOST_BARS = 40  # classes of the bar chart; of more there is the table alone
_COLUMNS_SHOWN = 5  # columns of each listed row
_ROUNDING = 1e-9  # of the log-loss of a model that says the classes' shares
_HALF_PAGE = (5.2, 4.2)  # inches; small, so that text is legible at half the page, and on a phone


class Fitted(NamedTuple):
    """What every section of the report reads.

    estimator : the classifier or pipeline that takes X
    model : the classifier itself, which is the last step of a pipeline
    steps : of the pipeline that it is the end of
    table : the rows as the user knows them
    probabilities : (n, K), those of every row from ``predict_proba``
    """

    estimator: Any
    model: Any
    X: Any
    y: Any
    labels: PartialLabels
    unlabelled: Any
    names: list[str]
    features: list[str]
    steps: tuple[Any, ...]
    table: RowTable | ArrayTable | SparseTable
    probabilities: NDArray[np.float64]


def write_report(
    estimator: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    feature_names: ArrayLike | None = None,
    unlabelled: Any = "auto",
    n_splits: int = 5,
    random_state: int | None = 0,
    about: str | Mapping[str, object] | None = None,
    cross_validate: bool = True,
    progress: bool = False,
    table: RowTable | SparseTable | None = None,
) -> None:
    """Write an HTML file that says what was fitted, how well, and what to label next.

    The file is self-contained: it needs no network and no other file. The same arguments give the
    same file. It is written whole or not at all.

    Parameters
    ----------
    estimator : fitted classifier
        One of atoll's, a pipeline that ends in one, or anything with ``predict_proba`` and
        ``classes_``; a section that needs more, such as chains, says so if it is missing.
    X : array-like, DataFrame or sparse matrix of shape (n, d)
        The rows that the estimator was fitted on; a table with words, or a list of texts, where
        it is a pipeline that takes such. Of sparse ones, such as texts, the maps show the rows
        themselves on the plane in which their main directions vary most. Tables show how texts
        begin, and of sparse rows alone the largest numbers.
    y : array-like of shape (n,)
        Their labels, with unlabelled rows marked as in ``fit``.
    path : path
        The HTML file to write.
    title : str or None, default=None
        Heading of the page; None makes one from the model and the number of rows.
    feature_names : array-like of str, shape (d,), or None, default=None
        None takes the estimator's names, else the DataFrame's, else x0, x1, ...
    unlabelled : object, default='auto'
        Which value of `y` means no label; 'auto' takes the estimator's own setting.
    n_splits : int, default=5
        Number of folds of the labelled rows; clones refitted on them judge the probabilities.
    random_state : int or None, default=0
        Seed of the folds, and of the refits if the estimator has none.
    about : str, mapping or None, default=None
        More about the data: a paragraph, or names and values added to the table of what was
        fitted.
    cross_validate : bool, default=True
        Whether to refit; without it the calibration section only says that it was not done.
    progress : bool, default=False
        Whether to show progress bars of the refits, and of the predictions of very many rows.
    table : RowTable, SparseTable or None, default=None
        The rows as the user knows them: columns, units, names and numbers. None shows X itself.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "iris.html"
    >>> write_report(GaussianNB().fit(X, y), X, y, path, cross_validate=False)
    >>> path.read_text(encoding="utf-8")[:15]
    '<!DOCTYPE html>'
    """
    # Many parameters because each is a choice left to the caller, by keyword and with a default.
    check_output(path, PAGE)  # before the long work, not after
    for package in ("matplotlib", "jinja2"):
        import_extra(package)
    fitted = _read(estimator, X, y, feature_names, unlabelled, table, progress)
    held_out = None
    if cross_validate:
        held_out = held_out_probabilities(
            estimator,
            fitted.X,
            y,
            unlabelled=fitted.unlabelled,
            n_splits=n_splits,
            random_state=random_state,
            progress=progress,
        )
    calibration = _calibration(held_out, random_state, fitted.names)
    own_columns = fitted.features if fitted.estimator is fitted.model else ()
    chains = inference_section(fitted.model, own_columns)
    rows = _rows_shown(fitted, random_state)
    n_rows = len(fitted.labels.codes)
    page: str = _template().render(
        title=title or f"{type(fitted.model).__name__} on {count(n_rows, 'row')}",
        glance=_glance(fitted, calibration, chains),
        fitted=_what_was_fitted(fitted, about),
        classes=_classes(fitted),
        calibration=calibration,
        maps=_maps(fitted),
        uncertain=rows,
        next_steps=_next_steps(fitted, calibration, chains, rows),
        chains=chains,
    )
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _read(
    estimator: Any,
    X: Any,
    y: Any,
    feature_names: ArrayLike | None,
    unlabelled: Any,
    table: RowTable | SparseTable | None,
    progress: bool,
) -> Fitted:
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    check_classifier(estimator)
    check_is_fitted(estimator)
    remark_on_order(X, y)
    fillings = fillings_of(X)
    if not sparse.issparse(X) and not hasattr(X, "iloc"):
        X = X.to_pandas() if hasattr(X, "to_pandas") else np.asarray(X)
    X = carrying(X, fillings)
    model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    steps = () if estimator is model else tuple(estimator[:-1])
    estimator, X, names, shown = as_numbers(estimator, X)
    if sparse.issparse(X):
        X = carrying(sparse.csr_array(X), fillings_of(X))
    feature_names = names if feature_names is None else feature_names
    if is_auto(unlabelled):
        unlabelled = getattr(model, "unlabelled", "auto")
    labels = labels_of(estimator, X, y, unlabelled)
    features = feature_names_of(estimator, X, feature_names)
    return Fitted(
        estimator=estimator,
        model=model,
        X=X,
        y=y,
        labels=labels,
        unlabelled=unlabelled,
        names=class_names(estimator.classes_),
        features=features,
        steps=steps,
        table=table or shown or table_of(X, features),
        probabilities=_probabilities(estimator, X, progress),
    )


def _probabilities(estimator: Any, X: Any, progress: bool) -> NDArray[np.float64]:
    """Return the class probabilities of all rows, (n, K); of very many with a bar."""
    n = X.shape[0]
    if not progress or n <= _MANY_ROWS:
        return np.asarray(estimator.predict_proba(X), dtype=float)
    out = np.empty((n, len(estimator.classes_)))
    with progress_bar(total=n, desc="predicting", unit=" rows") as bar:
        for start in range(0, n, _MANY_ROWS):
            rows = np.arange(start, min(start + _MANY_ROWS, n))
            out[rows] = estimator.predict_proba(some_rows(X, rows))
            bar.update(len(rows))
    return out


def _glance(fitted: Fitted, calibration: dict, chains: dict) -> list[dict[str, str]]:
    """Return the headline numbers, each with its name and what it rests on."""
    n, n_labelled = len(fitted.labels.codes), fitted.labels.n_labelled
    cards = [
        {
            "value": f"{n_labelled:,} of {n:,}",
            "name": "Rows labelled",
            "detail": f"{percent(n_labelled / n)}, in {len(fitted.names):,} classes",
        }
    ]
    scores = calibration["scores"]
    if scores is not None:
        cards += [
            {
                "value": percent(scores.accuracy),
                "name": "Held-out accuracy",
                "detail": f"95% interval {_interval((scores.accuracy_low, scores.accuracy_high))}",
            },
            {
                "value": number(scores.log_loss),
                "name": "Held-out log-loss",
                "detail": f"nats per row; class shares alone: {number(scores.chance_log_loss)}",
            },
        ]
    free = ~fitted.labels.is_labelled
    if free.any():
        sure = fitted.probabilities[free].max(axis=1) >= SURE
        cards.append(
            {
                "value": percent(sure.mean()),
                "name": "Clear rows",
                "detail": f"unlabelled rows with a class at {SURE} or more",
            }
        )
    if chains["status"]:
        cards.append(
            {
                "value": chains["status"],
                "name": "Chains" if chains["kind"] == "chains" else "Inference",
                "detail": chains["size"],
                "tone": chains["tone"],
            }
        )
    return cards


def _what_was_fitted(fitted: Fitted, about: str | Mapping[str, object] | None) -> dict[str, Any]:
    model, labels = fitted.model, fitted.labels
    facts: list[tuple[str, str]] = [("Model", type(model).__name__)]
    steps = [short(step) for step in fitted.steps if not isinstance(step, Standardised)]
    if steps:
        facts.append(("Prepared by", " → ".join(steps)))
    n = len(labels.codes)
    facts += [
        ("Rows", f"{n:,}, of which {labels.n_labelled:,} labelled"),
        ("Classes", f"{len(fitted.names):,}: {listed(fitted.names)}"),
        ("Columns", _columns(fitted)),
    ]
    if hasattr(model, "kernel_"):
        facts.append(("Kernel found", short(model.kernel_)))
    if hasattr(model, "n_components_"):
        used = [f"{name}: {n}" for name, n in zip(fitted.names, model.n_components_)]
        facts.append(("Components used", listed(used)))
    parameters = model.get_params(deep=False)
    if "random_state" in parameters:
        seed = parameters["random_state"]
        meaning = "none: another fit would draw other numbers" if seed is None else short(seed)
        facts.append(("Seed", meaning))
    if isinstance(about, Mapping):
        facts += [(str(name), str(value)) for name, value in about.items()]
    packages = {"numpy": "NumPy", "scipy": "SciPy", "scikit-learn": "scikit-learn"}
    return {
        "facts": facts,
        "paragraph": about if isinstance(about, str) else "",
        "parameters": ", ".join(f"{k}={short(v, 60)}" for k, v in parameters.items()),
        "versions": [("atoll", _own_version()), ("Python", platform.python_version())]
        + [(name, version(package)) for package, name in packages.items()],
    }


def _columns(fitted: Fitted) -> str:
    if sparse.issparse(fitted.X):
        share = fitted.X.nnz / max(1, fitted.X.shape[0] * fitted.X.shape[1])
        return f"{len(fitted.features):,} features, of which a row has {percent(share)}"
    names = fitted.table.columns
    return f"{len(names):,}: {listed(names)}"


def _classes(fitted: Fitted) -> dict[str, Any]:
    labels = fitted.labels
    free = ~labels.is_labelled
    labelled = labels.counts
    guesses = fitted.probabilities[free].argmax(axis=1)
    predicted = np.bincount(guesses, minlength=len(fitted.names))
    expected = fitted.probabilities[free].sum(axis=0)
    any_free = bool(free.any())
    picture = None
    if len(fitted.names) <= _MOST_BARS:
        axes = new_axes(_HALF_PAGE[0], 1.0 + (0.5 if any_free else 0.3) * len(fitted.names))
        class_counts(fitted.names, labelled, predicted if any_free else None, axes)
        picture = png_address(axes.figure)
    return {
        "any_unlabelled": any_free,
        "rows": [
            {
                "name": name,
                "labelled": f"{int(labelled[k]):,}",
                "predicted": f"{int(predicted[k]):,}",
                "expected": f"{expected[k]:,.1f}",
            }
            for k, name in enumerate(told_apart(fitted.names, 48))
        ],
        "total": (int(labelled.sum()), int(free.sum())),
        "picture": picture,
    }


def _calibration(
    held_out: HeldOut | None, random_state: int | None, names: list[str]
) -> dict[str, Any]:
    section: dict[str, Any] = {"scores": None, "note": "", "warnings": (), "confusion": None}
    if held_out is None:
        section["note"] = "Cross-validation was turned off for this report."
        return section
    section["note"] = held_out.note
    section["warnings"] = held_out.warnings
    if held_out.n_splits == 0:
        return section
    scores = score(held_out.probabilities, held_out.codes, held_out.shares)
    rng = np.random.default_rng(random_state)
    by_chance = calibration_error_by_chance(held_out.probabilities, rng)
    section["scores"] = scores
    section["n_splits"] = held_out.n_splits
    section["by_chance"] = by_chance
    claimed = float(held_out.probabilities.max(axis=1).mean())
    section["verdict"] = _calibration_verdict(scores, by_chance, claimed)
    section["confusion"] = confusion_section(held_out.probabilities, held_out.codes, names)
    section["few"] = scores.n_rows < FEW_ROWS
    section["worse_than_chance"] = scores.log_loss > scores.chance_log_loss + _ROUNDING
    is_wrong = held_out.probabilities.argmax(axis=1) != held_out.codes
    section["sure_and_wrong"] = bool((held_out.probabilities[is_wrong] >= SURE).any())
    axes = new_axes(*_HALF_PAGE)
    reliability_diagram(held_out.probabilities, held_out.codes, axes)
    section["picture"] = png_address(axes.figure)
    return section


def _calibration_verdict(scores: Scores, by_chance: float, claimed: float) -> str:
    error = scores.calibration_error
    if error <= by_chance:
        return (
            f"The calibration error is {number(error)}; a perfectly calibrated model would show "
            f"up to {number(by_chance)} on these rows by chance. No sign of miscalibration."
        )
    return (
        f"The calibration error is {number(error)}, beyond the {number(by_chance)} that a "
        "perfectly calibrated model would show on these rows by chance: on the whole the "
        f"probabilities are {'too sure' if claimed > scores.accuracy else 'not sure enough'}. They "
        f"claim that {percent(claimed)} of the predictions are right, and "
        f"{percent(scores.accuracy)} were. The reliability diagram shows where."
    )


def _maps(fitted: Fitted) -> dict[str, Any]:
    is_line = len(fitted.features) == 1
    grid = probability_grid(
        fitted.estimator,
        fitted.X,
        resolution=4 * MAP_RESOLUTION if is_line else MAP_RESOLUTION,
        feature_names=fitted.features,
    )
    common: dict[str, Any] = {"grid": grid, "unlabelled": fitted.unlabelled}
    width, height = _HALF_PAGE
    # The colour scale below the entropy map needs extra height, so that both maps are equally high.
    decision, entropy = new_axes(width, height), new_axes(width, height + 0.7 * (not is_line))
    decision_map(fitted.estimator, fitted.X, fitted.y, ax=decision, **common)
    entropy_map(fitted.estimator, fitted.X, fitted.y, ax=entropy, **common)
    return {
        "dimensions": len(fitted.features),
        "is_sparse": sparse.issparse(fitted.X),
        "axis_labels": grid.axis_labels,
        "subspace": grid.subspace,
        "has_background": grid.probabilities is not None,
        "most_entropy": number(float(np.log(len(fitted.names)))),
        "decision": png_address(decision.figure),
        "entropy": png_address(entropy.figure),
    }


def _rows_shown(fitted: Fitted, random_state: int | None) -> dict[str, Any]:
    """Return the rows to label next or, where every row is labelled, those least certain."""
    free = ~fitted.labels.is_labelled
    entropy = predictive_entropy(fitted.probabilities)
    shares = fitted.table.blank_shares()
    later = mostly_blank(shares) & free
    strategy = ""
    if free.any():
        found = suggest_rows(
            fitted.estimator,
            fitted.X,
            fitted.probabilities,
            fitted.labels.is_labelled,
            _ROWS_SHOWN,
            later=later,
            random_state=random_state,
        )
        order, strategy = found.rows, STRATEGIES[found.strategy].summary
    else:
        order = np.argsort(-entropy, kind="stable")[:_ROWS_SHOWN]
    columns = list(range(min(_COLUMNS_SHOWN, len(fitted.table.columns))))
    blanks = shares[order]
    later[order] = False
    rows = []
    names = told_apart(fitted.names, 24)
    for row in order:
        p = fitted.probabilities[row]
        first, second = np.argsort(-p, kind="stable")[:2]
        rows.append(
            {
                **fitted.table.row(int(row), columns),
                "label": names[fitted.labels.codes[row]],
                "predicted": names[first],
                "probability": probability(p[first]),
                "second": f"{names[second]} ({probability(p[second])})",
            }
        )
    return {
        "to_label": bool(free.any()),
        "strategy": strategy,
        "rows": rows,
        "how_many": count(len(rows), "row"),
        "any_blank": bool((blanks > 0.0).any()),
        "mostly_blank": [row["row"] for row, share in zip(rows, blanks) if share >= MANY],
        "later": left_to_the_end([fitted.table.number(i) for i in np.flatnonzero(later).tolist()]),
        "id_name": fitted.table.id_name if fitted.table.ids is not None else "",
        "first": fitted.table.first,
        "columns": told_apart([str(fitted.table.columns[j]) for j in columns], 24),
        "n_columns": len(fitted.table.columns),
    }


def _next_steps(
    fitted: Fitted, calibration: dict[str, Any], chains: dict[str, Any], rows: dict[str, Any]
) -> list[str]:
    return what_to_do_next(
        State(
            went_well=chains["tone"] != "bad",
            verdict=chains["verdict"],
            scores=calibration["scores"],
            by_chance=calibration.get("by_chance", 1.0),
            counts=fitted.labels.counts,
            names=fitted.names,
            probabilities=fitted.probabilities[~fitted.labels.is_labelled],
            n_suggested=len(rows["rows"]),
            n_wrong=likely_wrong(fitted.model),
            tells_little=chains["tells_little"],
        )
    )


def _with_code(text: str) -> Any:
    """Return text as HTML in which what stands between backticks is code."""
    markup = import_extra("jinja2").utils.markupsafe
    parts = [markup.escape(part) for part in text.split("`")]
    html = "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
    return markup.Markup(html)


@lru_cache(maxsize=1)
def _template() -> Any:
    jinja2 = import_extra("jinja2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=number, percent=percent, percents=_interval, code=_with_code)
    source = files("atoll.reports").joinpath("template.html").read_text(encoding="utf-8")
    return environment.from_string(source)


def _own_version() -> str:
    from atoll import __version__

    return __version__


def _interval(limits: tuple[float, float]) -> str:
    """Return two shares in percent, from one to the other."""
    return " to ".join(percents(*limits))
