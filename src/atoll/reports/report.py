"""One HTML file about a fitted classifier and its rows."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atoll.core.extras import import_extra
from atoll.core.files import atomic_path, check_writable
from atoll.core.labels import PartialLabels
from atoll.diagnostics import entropy as predictive_entropy
from atoll.estimators.held_out import (
    HeldOut,
    calibration_error_by_chance,
    held_out_probabilities,
    score,
)
from atoll.inference.registry import METHODS
from atoll.plotting import (
    class_counts,
    decision_map,
    entropy_map,
    probability_grid,
    reliability_diagram,
)
from atoll.plotting.palette import class_names, new_axes
from atoll.plotting.rows import feature_names_of, labels_of
from atoll.reports.figures import ascent_figure, png_address, trace_figure

MAP_RESOLUTION = 64  # per axis: predictions are costly, and interpolation makes the picture smooth
_UNCERTAIN_ROWS = 10  # rows listed as least certain
_FEATURES_SHOWN = 5  # features of each listed row
_DIAGNOSTICS_SHOWN = 30  # quantities in the table of chain diagnostics
_FEW_ROWS = 50  # with fewer held-out rows, the report cautions that scores are rough
_HALF_PAGE = (5.4, 4.3)  # inches; small, so that the text stays legible at half the page's width
_SURE = 0.9  # probability from which a row's class counts as clear
# The limits of `atoll.diagnostics.verdict`, so that marks and verdict agree.
R_HAT_LIMIT = 1.05
ESS_LIMIT = 100

_SHORT_WORDS = 200  # characters of a value that are shown


class Fitted(NamedTuple):
    """What every section of the report reads.

    model : the classifier itself, which is the last step of a pipeline
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
) -> None:
    """Write an HTML file that says what was fitted, how well, and what to label next.

    The file is self-contained: it needs no network and no other file. The same arguments give the
    same file. It is written whole or not at all.

    Parameters
    ----------
    estimator : fitted classifier
        One of atoll's, a pipeline that ends in one, or anything with ``predict_proba`` and
        ``classes_``; a section that needs more, such as chains, says so if it is missing.
    X : array-like or DataFrame of shape (n, d)
        The rows that the estimator was fitted on.
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
        Whether to show a progress bar of the refits.

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
    check_writable(path)  # before the long work, not after
    for package in ("matplotlib", "jinja2"):
        import_extra(package)
    fitted = _read(estimator, X, y, feature_names, unlabelled)
    held_out = None
    if cross_validate:
        held_out = held_out_probabilities(
            estimator,
            X,
            y,
            unlabelled=fitted.unlabelled,
            n_splits=n_splits,
            random_state=random_state,
            progress=progress,
        )
    calibration = _calibration(held_out, random_state)
    chains = _chains(fitted.model)
    n_rows = len(fitted.labels.codes)
    page = _render(
        title=title or f"{type(fitted.model).__name__} on {_count(n_rows, 'row')}",
        glance=_glance(fitted, calibration, chains),
        fitted=_what_was_fitted(fitted, about),
        classes=_classes(fitted),
        calibration=calibration,
        maps=_maps(fitted),
        uncertain=_uncertain(fitted),
        chains=chains,
    )
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _read(
    estimator: Any, X: Any, y: Any, feature_names: ArrayLike | None, unlabelled: Any
) -> Fitted:
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    X = X if hasattr(X, "iloc") else np.asarray(X)
    model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if isinstance(unlabelled, str) and unlabelled == "auto":
        unlabelled = getattr(model, "unlabelled", "auto")
    labels = labels_of(estimator, X, y, unlabelled)
    return Fitted(
        estimator=estimator,
        model=model,
        X=X,
        y=y,
        labels=labels,
        unlabelled=unlabelled,
        names=class_names(estimator.classes_),
        features=feature_names_of(estimator, X, feature_names),
        probabilities=np.asarray(estimator.predict_proba(X), dtype=float),
    )


def _glance(fitted: Fitted, calibration: dict, chains: dict) -> list[dict[str, str]]:
    """Return the headline numbers, each with its name and what it rests on."""
    n, n_labelled = len(fitted.labels.codes), fitted.labels.n_labelled
    cards = [
        {
            "value": f"{n_labelled:,} of {n:,}",
            "name": "Rows labelled",
            "detail": f"{_percent(n_labelled / n)}, in {len(fitted.names)} classes",
        }
    ]
    scores = calibration["scores"]
    if scores is not None:
        cards += [
            {
                "value": _percent(scores.accuracy),
                "name": "Held-out accuracy",
                "detail": f"95% interval {_percent(scores.accuracy_low)} to "
                f"{_percent(scores.accuracy_high)}",
            },
            {
                "value": _number(scores.log_loss),
                "name": "Held-out log-loss",
                "detail": f"nats per row; class shares alone: {_number(scores.chance_log_loss)}",
            },
        ]
    free = ~fitted.labels.is_labelled
    if free.any():
        sure = fitted.probabilities[free].max(axis=1) >= _SURE
        cards.append(
            {
                "value": _percent(sure.mean()),
                "name": "Clear rows",
                "detail": f"unlabelled rows with a class at {_SURE} or more",
            }
        )
    if chains["status"]:
        cards.append(
            {
                "value": chains["status"],
                "name": "Inference" if chains["searched"] else "Chains",
                "detail": chains["size"],
                "tone": chains["tone"],
            }
        )
    return cards


def _what_was_fitted(fitted: Fitted, about: str | Mapping[str, object] | None) -> dict[str, Any]:
    model, labels = fitted.model, fitted.labels
    facts: list[tuple[str, str]] = [("Model", type(model).__name__)]
    if fitted.estimator is not model:
        steps = " → ".join(_short(step) for step in fitted.estimator[:-1])
        facts.append(("Prepared by", steps))
    n = len(labels.codes)
    facts += [
        ("Rows", f"{n:,}, of which {labels.n_labelled:,} labelled"),
        ("Classes", f"{len(fitted.names)}: {_listed(fitted.names)}"),
        ("Features", f"{len(fitted.features):,}: {_listed(fitted.features)}"),
    ]
    if hasattr(model, "kernel_"):
        facts.append(("Kernel found", _short(model.kernel_)))
    if hasattr(model, "n_components_"):
        used = [f"{name}: {n}" for name, n in zip(fitted.names, model.n_components_)]
        facts.append(("Components used", _listed(used)))
    parameters = model.get_params(deep=False)
    if "random_state" in parameters:
        seed = parameters["random_state"]
        meaning = "none: another fit would draw other numbers" if seed is None else _short(seed)
        facts.append(("Seed", meaning))
    if isinstance(about, Mapping):
        facts += [(str(name), str(value)) for name, value in about.items()]
    packages = {"numpy": "NumPy", "scipy": "SciPy", "scikit-learn": "scikit-learn"}
    return {
        "facts": facts,
        "paragraph": about if isinstance(about, str) else "",
        "parameters": ", ".join(f"{k}={_short(v, 60)}" for k, v in parameters.items()),
        "versions": [("atoll", _own_version()), ("Python", platform.python_version())]
        + [(name, version(package)) for package, name in packages.items()],
    }


def _classes(fitted: Fitted) -> dict[str, Any]:
    labels = fitted.labels
    free = ~labels.is_labelled
    labelled = labels.counts
    guesses = fitted.probabilities[free].argmax(axis=1)
    predicted = np.bincount(guesses, minlength=len(fitted.names))
    expected = fitted.probabilities[free].sum(axis=0)
    any_free = bool(free.any())
    axes = new_axes(_HALF_PAGE[0], 1.0 + (0.5 if any_free else 0.3) * len(fitted.names))
    class_counts(fitted.names, labelled, predicted if any_free else None, axes)
    return {
        "any_unlabelled": any_free,
        "rows": [
            {
                "name": _short(name, 48, str),
                "labelled": int(labelled[k]),
                "predicted": int(predicted[k]),
                "expected": f"{expected[k]:.1f}",
            }
            for k, name in enumerate(fitted.names)
        ],
        "total": (int(labelled.sum()), int(free.sum())),
        "picture": png_address(axes.figure),
    }


def _calibration(held_out: HeldOut | None, random_state: int | None) -> dict[str, Any]:
    section: dict[str, Any] = {"scores": None, "note": "", "warnings": ()}
    if held_out is None:
        section["note"] = "Cross-validation was turned off for this report."
        return section
    section["note"] = held_out.note
    section["warnings"] = held_out.warnings
    if held_out.n_splits == 0:
        return section
    scores = score(held_out.probabilities, held_out.codes)
    rng = np.random.default_rng(random_state)
    by_chance = calibration_error_by_chance(held_out.probabilities, rng)
    section["scores"] = scores
    section["n_splits"] = held_out.n_splits
    section["by_chance"] = by_chance
    section["verdict"] = _calibration_verdict(scores.calibration_error, by_chance)
    section["few"] = scores.n_rows < _FEW_ROWS
    section["worse_than_chance"] = scores.log_loss > scores.chance_log_loss
    axes = new_axes(*_HALF_PAGE)
    reliability_diagram(held_out.probabilities, held_out.codes, axes)
    section["picture"] = png_address(axes.figure)
    return section


def _calibration_verdict(error: float, by_chance: float) -> str:
    if error <= by_chance:
        return (
            f"The calibration error is {_number(error)}; a perfectly calibrated model would show "
            f"up to {_number(by_chance)} on these rows by chance. No sign of miscalibration."
        )
    return (
        f"The calibration error is {_number(error)}, beyond the {_number(by_chance)} that a "
        "perfectly calibrated model would show on these rows by chance: the probabilities are "
        "too sure or not sure enough. The reliability diagram shows which."
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
        "axis_labels": grid.axis_labels,
        "subspace": grid.subspace,
        "most_entropy": _number(float(np.log(len(fitted.names)))),
        "decision": png_address(decision.figure),
        "entropy": png_address(entropy.figure),
    }


def _uncertain(fitted: Fitted) -> dict[str, Any]:
    """Return the rows with the largest entropy: unlabelled ones, unless every row is labelled."""
    free = ~fitted.labels.is_labelled
    candidates = np.flatnonzero(free) if free.any() else np.arange(len(free))
    entropy = predictive_entropy(fitted.probabilities)
    order = candidates[np.argsort(-entropy[candidates], kind="stable")][:_UNCERTAIN_ROWS]
    index, index_name = _row_names(fitted.X)
    values = fitted.X.iloc[order].to_numpy() if hasattr(fitted.X, "iloc") else fitted.X[order]
    rows = []
    for row, cells in zip(order, values):
        p = fitted.probabilities[row]
        first, second = np.argsort(-p, kind="stable")[:2]
        rows.append(
            {
                "row": _short(index[row], 24, str),
                "label": _short(fitted.names[fitted.labels.codes[row]], 24, str),
                "predicted": _short(fitted.names[first], 24, str),
                "probability": f"{p[first]:.3f}",
                "second": f"{_short(fitted.names[second], 24, str)} ({p[second]:.3f})",
                "entropy": f"{entropy[row]:.3f}",
                "features": [_cell(cell) for cell in cells[:_FEATURES_SHOWN]],
            }
        )
    return {
        "to_label": bool(free.any()),
        "rows": rows,
        "index_name": index_name or "Row",
        "by_position": isinstance(index, range),
        "features": fitted.features[:_FEATURES_SHOWN],
        "n_features": len(fitted.features),
    }


def _row_names(X: Any) -> tuple[Any, str]:
    index = getattr(X, "index", None)
    if index is None or index.equals(type(index)(range(len(X)))):
        return range(len(X)), ""
    return index, "" if index.name is None else str(index.name)


def _objective(model: Any, diagnostics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the name and last value of what a search climbed, where it is known."""
    value = diagnostics.get("log_evidence", diagnostics.get("objective"))
    if value is None:
        return []
    method = METHODS.get(getattr(model, "inference_", getattr(model, "inference", "")))
    name = method.objective if method is not None and method.objective else "log evidence"
    return [(name[0].upper() + name[1:], f"{value:.2f}")]


def _outcome(diagnostics: Mapping[str, Any]) -> tuple[str, str]:
    """Return how inference went, in a word or two, and whether that is good or bad."""
    if not diagnostics.get("converged", True):
        return "not converged", "bad"
    if "mixed" not in diagnostics:
        return ("converged", "good") if "converged" in diagnostics else ("", "")
    if diagnostics["mixed"]:
        return "mixed", "good"
    disagree = any(value > R_HAT_LIMIT for value in diagnostics.get("r_hat", {}).values())
    return ("not mixed" if disagree else "not settled"), "bad"


def _chains(model: Any) -> dict[str, Any]:
    diagnostics = getattr(model, "diagnostics_", None)
    section: dict[str, Any] = {
        "status": "", "tone": "", "size": "", "verdict": "", "rows": [], "left_out": 0,
        "facts": [], "picture": None, "ascent": None,
        "r_hat_limit": R_HAT_LIMIT, "ess_limit": ESS_LIMIT,
    }  # fmt: skip
    section["searched"] = "n_iterations" in (diagnostics or {})
    section["kernel"] = hasattr(model, "kernel_")
    if not diagnostics:
        return section
    section["status"], section["tone"] = _outcome(diagnostics)
    section["verdict"] = str(diagnostics.get("verdict", ""))
    section["interrupted"] = bool(diagnostics.get("interrupted", False))
    if "n_chains" in diagnostics and "n_draws" in diagnostics:
        n_chains, n_draws = diagnostics["n_chains"], diagnostics["n_draws"]
        section["size"] = f"{_count(n_chains, 'chain')} of {_count(n_draws, 'draw')}"
    section.update(_diagnostics_table(diagnostics))
    acceptance = diagnostics.get("acceptance") or {}
    section["facts"] = [
        (f"Acceptance, {name}", _percent(rate)) for name, rate in acceptance.items()
    ]
    if section["searched"]:
        section["size"] = _count(diagnostics["n_iterations"], "iteration")
        section["facts"].append(("Iterations", f"{diagnostics['n_iterations']:,}"))
        section["facts"] += _objective(model, diagnostics)
    if "jitter" in diagnostics:
        section["facts"].append(("Largest jitter used", f"{diagnostics['jitter']:.1e}"))
    figure, names, left_out = trace_figure(getattr(model, "draws_", None) or {})
    if hasattr(model, "objectives_"):
        section["ascent"] = png_address(ascent_figure(model.objectives_))
    if figure is not None:
        section["picture"] = png_address(figure)
        section["traces"] = names
        section["traces_left_out"] = left_out
    return section


def _diagnostics_table(diagnostics: Mapping[str, Any]) -> dict[str, Any]:
    """Return one row per quantity, the worst R-hat first, marking numbers that miss their limit."""
    r_hat, bulk, tail = (diagnostics.get(key) or {} for key in ("r_hat", "ess_bulk", "ess_tail"))
    names = sorted(
        dict.fromkeys([*r_hat, *bulk, *tail]),
        # NaN means that a chain never moved, which is worst of all.
        key=lambda name: -np.nan_to_num(r_hat.get(name, 0.0), nan=np.inf),
    )
    rows = [
        {
            "name": name,
            "cells": [
                _judged(r_hat.get(name), lambda value: value <= R_HAT_LIMIT, "{:.3f}"),
                _judged(bulk.get(name), lambda value: value >= ESS_LIMIT, "{:,.0f}"),
                _judged(tail.get(name), lambda value: value >= ESS_LIMIT, "{:,.0f}"),
            ],
        }
        for name in names[:_DIAGNOSTICS_SHOWN]
    ]
    return {
        "rows": rows,
        "left_out": max(0, len(names) - _DIAGNOSTICS_SHOWN),
        "any_missed": any(cell["missed"] for row in rows for cell in row["cells"]),
    }


def _judged(value: float | None, is_good: Any, layout: str) -> dict[str, Any]:
    if value is None:
        return {"text": "–", "missed": False}
    if np.isnan(value):
        return {"text": "undefined", "missed": True}
    return {"text": layout.format(value), "missed": not is_good(value)}


def _render(**sections: Any) -> str:
    jinja2 = import_extra("jinja2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=_number, percent=_percent)
    source = files("atoll.reports").joinpath("template.html").read_text(encoding="utf-8")
    return environment.from_string(source).render(**sections)


def _own_version() -> str:
    from atoll import __version__

    return __version__


def _number(value: float) -> str:
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "undefined" if np.isnan(value) else f"{round(value, 3) + 0.0:.3f}"  # no -0.000


def _percent(share: float) -> str:
    # Rounding must not turn 99.6% into all, or 0.4% into none.
    text = f"{100 * share:.0f}%"
    if (text == "100%" and share < 1) or (text == "0%" and share > 0):
        return f"{100 * share:.2f}%"
    return text


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else _short(value, 24, str)


def _short(value: object, longest: int = _SHORT_WORDS, write: Any = repr) -> str:
    text = " ".join(write(value).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _listed(names: list[str], most: int = 12) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
