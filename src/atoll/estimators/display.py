"""How a fitted model shows itself: as text, as a box in a notebook, and as a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.extras import import_extra
from atoll.core.points import DASH, points_of
from atoll.core.shown import in_line
from atoll.estimators.trust import CARE, NO, YES
from atoll.estimators.validation import remark_on_order
from atoll.plotting import decision_map, entropy_map, probability_grid, reliability_diagram
from atoll.plotting.palette import class_names

WIDTH = 88  # characters of a line of text
MOST_CLASSES = 8  # named in a line
MOST_BYTES = 2**26  # rows of more are not kept for `plot`
MOST_SECONDS = 10.0  # refits that take longer are made only where they are asked for
N_FOLDS = 5
MAP_RESOLUTION = 80  # per axis
COLOURS = {YES: "#1b7837", CARE: "#b35806", NO: "#b2182b"}  # of the box, by trust


class TrainingRows(NamedTuple):
    """What a fit was given, kept for `plot` and neither copied nor saved.

    X, y : as they were given
    seconds : that the fit took
    """

    X: Any
    y: Any
    seconds: float


def rows_of_fit(kept: TrainingRows | None, X: Any, y: Any, call: str) -> tuple[Any, Any]:
    """Return rows and labels as given, or those that the fit was given.

    Parameters
    ----------
    kept : what the fit was given, if that is still known
    X, y : rows and labels of the fit; X None: those kept
    call : how they are given
    """
    if X is not None:
        remark_on_order(X, y)
        return X, y
    if kept is None:
        raise ValueError(
            "the rows of the fit are not known: the model was loaded or copied, it read them "
            f"from a file or in chunks, or they are too many to keep. Give them: {call}."
        )
    return kept.X, kept.y


def worth_keeping(X: Any) -> bool:
    """Return whether rows are in memory, and few enough to be kept."""
    shape = getattr(X, "shape", None)
    if shape is None:
        return isinstance(X, Sequence)
    is_table = hasattr(X, "dtype") or hasattr(X, "columns")
    return is_table and all(isinstance(n, int) for n in shape) and 8 * np.prod(shape) <= MOST_BYTES


class Summary(NamedTuple):
    """A fitted model in a few words.

    facts : what it was fitted on, in one line; "" if that is not known
    points : of the verdict, the first of which says whether to trust the fit
    next_step : what to do now; "" if that is not known
    colour : of the box
    """

    facts: str
    points: list[str]
    next_step: str
    colour: str


def summarise(model: Any) -> Summary:
    """Return what a fitted model was fitted on, and its verdict."""
    found = model.diagnostics_
    facts, known = "", getattr(model, "_counts_of_fit", None)
    if known is not None:
        n_rows, counts = known
        n_labels = int(np.sum(counts))
        names = [in_line(name) for name in class_names(model.classes_)]
        named = [f"{name} ({count})" for name, count in zip(names, counts)]
        if len(named) > MOST_CLASSES:
            named[MOST_CLASSES:] = [f"and {len(named) - MOST_CLASSES} more"]
        share = "all of them" if n_labels == n_rows else f"{n_labels:,} of them"
        facts = f"{n_rows:,} rows, {share} labelled; {len(names)} classes: {', '.join(named)}"
    went_well = all(found.get(name, True) for name in ("mixed", "converged"))
    trust = found.get("trust") if went_well else NO
    colour = COLOURS.get(str(trust), COLOURS[YES])
    return Summary(facts, points_of(str(found.get("verdict", ""))), _next(model, trust), colour)


def _next(model: Any, trust: str | None) -> str:
    """Say what to do with a fit, given how far it can be trusted."""
    if trust is None or not hasattr(model, "plot"):
        return ""
    first = "" if trust == YES else "mend what is named above, and fit again; "
    return (
        f"Next: {first}plot(n_splits={N_FOLDS}) tests the probabilities on labels held out, "
        f"by {N_FOLDS} more fits."
    )


def as_text(call: str, model: Any) -> str:
    """Return the call that made a fitted model, and below it what it found.

    Parameters
    ----------
    call : such as "AtollClassifier(random_state=0)"
    """
    summary = summarise(model)
    lines = [call]
    if summary.facts:
        lines += textwrap.wrap(f"fitted on {summary.facts}", WIDTH, **_INDENTED)
    for i, point in enumerate(summary.points):
        lines += textwrap.wrap(point, WIDTH, **(_POINT if i else _INDENTED))
    if summary.next_step:
        lines += textwrap.wrap(summary.next_step, WIDTH, **_INDENTED)
    return "\n".join(lines)


_INDENTED: dict[str, Any] = {"initial_indent": "  ", "subsequent_indent": "  "}
_POINT: dict[str, Any] = {"initial_indent": f"  {DASH}", "subsequent_indent": "    "}


def wrapped(call: str) -> str:
    """Return a call in lines of at most `WIDTH` characters, arguments below one another."""
    if "\n" in call or len(call) <= WIDTH:
        return call
    indent = " " * (call.index("(") + 1)
    return textwrap.fill(
        call, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def as_html(model: Any) -> str:
    """Return a box that says what the model was fitted on, and how that went."""
    summary = summarise(model)
    name = escape(type(model).__name__)
    facts = f"<div>{escape(summary.facts)}</div>" if summary.facts else ""
    first, *others = [escape(point) for point in summary.points] or [""]
    points = "".join(f"<li>{point}</li>" for point in others)
    points = f'<ul style="margin:.2em 0;padding-left:1.3em">{points}</ul>' if points else ""
    step = f"<div>{escape(summary.next_step)}</div>" if summary.next_step else ""
    return (
        f'<div style="border-left:4px solid {summary.colour};padding:.3em .8em;margin:.3em 0;'
        f'max-width:50em;font-family:system-ui,sans-serif;font-size:.95em;line-height:1.45">'
        f"<strong>{name}</strong>{facts}<div><strong>{first}</strong></div>{points}{step}</div>"
    )


def place_of(name: str, X: Any) -> int:
    """Return the place of a row of a data frame by its name in the index."""
    index: Any = getattr(X, "index", None)
    places = [] if not hasattr(index, "get_indexer_for") else index.get_indexer_for([name])
    if len(places) != 1 or places[0] < 0:
        raise ValueError(
            f"row={name!r} is the name of no row that the model knows, or of several; give the "
            "number of a row, from 0, for example table.index.get_loc(name), or a row of numbers."
        )
    return int(places[0])


def row_of_numbers(row: Any, d: int) -> NDArray[np.float64]:
    """Return a row of the user's own as the model takes it, (1, d)."""
    try:
        x = np.asarray(row, dtype=np.float64).reshape(1, -1)
    except (TypeError, ValueError):
        x = np.empty((1, 0))
    if x.shape[1] == d:
        return x
    name = getattr(row, "name", None)
    number = name if isinstance(name, int | np.integer) else 17
    raise ValueError(
        f"row is not {d} numbers, which the model takes; give the number of a row of the fit, from "
        f"0, such as explain_row({number}), or what the steps before the model make of a new row: "
        "model[-1].explain_row(model[:-1].transform(table.iloc[[0]])[0])."
    )


def folds_in_time(seconds: float | None) -> tuple[int, str]:
    """Return how many folds there is time for, and if there are none, why.

    seconds : that a fit takes; None if it is not known
    """
    if seconds is None:
        return 0, f"plot(X, y, n_splits={N_FOLDS}) fits the model {N_FOLDS} times for it."
    whole = N_FOLDS * seconds
    if whole < MOST_SECONDS:
        return N_FOLDS, ""
    time = f"{whole:.0f} s" if whole < 90 else f"{whole / 60:.0f} min"
    return 0, f"{N_FOLDS} more fits would take about {time}; plot(n_splits={N_FOLDS}) makes them."


class Panels(np.ndarray):
    """Axes of a picture that prints nothing in a notebook, where the picture itself is shown."""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Save the picture; arguments as those of matplotlib's `Figure.savefig`."""
        self.flat[0].figure.savefig(*args, **kwargs)

    def _ipython_display_(self) -> None:
        pass


def plot_model(
    model: Any,
    X: Any,
    y: Any,
    *,
    unlabelled: Any,
    n_splits: int,
    why_none: str = "",
) -> NDArray[Any]:
    """Draw the map of the classes, that of the entropy, and the reliability of held-out labels.

    The last is left out without folds, and if there are too few labels to hold any out; a line
    below says why (`why_none` if there are no folds). The axes are returned, not the figure, which
    a notebook would show twice.
    """
    from atoll.estimators.held_out import held_out_probabilities

    plt = import_extra("matplotlib.pyplot")
    held_out = None
    if n_splits:
        held_out = held_out_probabilities(model, X, y, unlabelled=unlabelled, n_splits=n_splits)
    has_reliability = held_out is not None and held_out.n_splits > 0
    widths = [4.6, 5.6, 4.8][: 2 + has_reliability]  # the second has the legend of both maps
    figure = plt.figure(figsize=(sum(widths), 4.9), layout="constrained")
    panels = figure.subplots(1, len(widths), width_ratios=widths)
    is_line = hasattr(X, "shape") and X.shape[1] == 1
    resolution = 4 * MAP_RESOLUTION if is_line else MAP_RESOLUTION
    grid = probability_grid(model, X, resolution=resolution)
    decision_map(model, X, y, ax=panels[0], grid=grid, unlabelled=unlabelled, legend=False)
    entropy_map(model, X, y, ax=panels[1], grid=grid, unlabelled=unlabelled)
    if held_out is not None and has_reliability:
        reliability_diagram(held_out.probabilities, held_out.codes, panels[2])
        panels[2].set_title(f"Reliability of {len(held_out.codes)} labels held out")
    why = why_none if held_out is None else held_out.note
    if why and not has_reliability:
        figure.supxlabel(f"No reliability: {why}", fontsize=9)
    return np.asarray(panels).view(Panels)
