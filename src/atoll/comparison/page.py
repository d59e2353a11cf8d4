"""A comparison as text for the terminal, and as one self-contained HTML file."""

from __future__ import annotations

import os
import shutil
import textwrap
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from atoll.comparison.blending import BLEND
from atoll.comparison.candidates import CANDIDATES
from atoll.comparison.judging import NEAR, NO_DIFFERENCE, Paired, signed
from atoll.comparison.result import ModelComparison
from atoll.core.extras import import_extra
from atoll.core.files import atomic_path
from atoll.core.overwriting import PAGE, check_output
from atoll.core.repeated_rows import about_repeats
from atoll.plotting.letters import give_letters
from atoll.plotting.palette import GRID, INK, new_figure, plain_names, tidy
from atoll.reports.figures import png_address

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NARROWEST, _WIDEST = 44, 100  # characters of a line
_BETTER, _WORSE, _UNSURE = "#1b6e4b", "#a4320b", "#52606d"


# --- the terminal ---------------------------------------------------------------------------------


def terminal_lines(found: ModelComparison, width: int | None = None) -> list[str]:
    """Return the comparison as lines that fit the terminal.

    Parameters
    ----------
    found : ModelComparison
    width : int, default=None
        Characters of a line; None takes the terminal's.
    """
    width = shutil.get_terminal_size((80, 24)).columns if width is None else width
    width = min(max(width, _NARROWEST), _WIDEST)
    header, rows = _table(found)
    for dropped in ([], [5], [5, 3], [5, 3, 4]):
        kept = [j for j in range(len(header)) if j not in dropped]
        table = _aligned([[line[j] for j in kept] for line in [header, *rows]])
        if max(map(len, table)) <= width:
            break
    fill = textwrap.TextWrapper(width, break_on_hyphens=False)  # names of models have hyphens
    said = fill.wrap(found.recommendation)
    more = [line for text in _remarks(found) for line in fill.wrap(text)]
    return [*([*table, ""] if rows else []), *said, "", *more]


def notebook_parts(found: ModelComparison) -> list[Any]:
    """Return the comparison as paragraphs and a table."""
    table = [_table(found)] if found.table else []
    return [found.recommendation, *table, *_remarks(found)]


def _table(found: ModelComparison) -> tuple[list[str], list[list[str]]]:
    differences = {one.model: one for one in found.differences}
    header = ["", "log-loss", "minus default", "95% interval", "error", "seconds"]
    rows = []
    for row in found.table:
        loss = differences[row.model].log_loss
        name = row.model + ("*" if row.is_peer else "")
        is_reference = row.model == found.reference
        rows.append(
            [
                name,
                f"{row.log_loss:.3f}",
                "" if is_reference else signed(loss.mean),
                "" if is_reference else f"{signed(loss.low)} to {signed(loss.high)}",
                f"{row.error:.3f}",
                f"{row.seconds:.2f}",
            ]
        )
    return header, rows


def _remarks(found: ModelComparison) -> list[str]:
    paragraphs = [_what_was_done(found)]
    if any(row.is_peer for row in found.table):
        paragraphs.append("* not a model of atoll, but something simple to measure by.")
    paragraphs += [f"{row.model}: {row.note}." for row in found.table if row.note]
    if found.step is not None:
        paragraphs.append(
            "The table has words or blank cells, and was prepared as make_preprocessor() does; "
            "classifier() is a pipeline that takes it as it is."
        )
    names_of: dict[str, list[str]] = {}
    for name, reason in found.left_out:
        names_of.setdefault(reason, []).append(name)
    if names_of:
        whole = "; ".join(f"{', '.join(names)} ({why})" for why, names in names_of.items())
        paragraphs.append(f"Left out: {whole}.")
    return paragraphs


def _aligned(lines: list[list[str]]) -> list[str]:
    """Return lines of a table: the first column to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines)]
    return [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    ]


def _what_was_done(found: ModelComparison) -> str:
    repeats = about_repeats(found.n_repeated)
    repeats = repeats and f" {repeats}"
    if not found.table:
        return (
            "No model was fitted. With two labels of a class, or more, labels can be held out."
            f"{repeats}"
        )
    part = ""
    if found.n_used_rows < found.n_rows:
        part = f" The models were fitted to {found.n_used_rows:,} of {found.n_rows:,} rows."
    scaled = ""
    if found.unlike is not None:
        scaled = (
            " Columns have unlike ranges, and were standardised for all models "
            f"alike{_but_own(found)}."
            if found.unlike
            else " Columns were taken as they are, being alike in range or standardised before; "
            "in the shell --no-standardise fits other models than the default so."
        )
    apart = ""
    report = (
        " A report of the fitted model holds the same labels out, but fits all rows, averages over "
        "what blank numbers may be, and lets all labels say once what categories count: where "
        "there are such, its scores may differ from these."
    )
    if found.only_words:
        all_rows = ", but fits all rows" if part else ""
        report = f" A report of the fitted model holds the same labels out{all_rows}."
    if found.unlike is not None and not part:
        report = (
            f" A report of {found.reference} with the same seed, and without make_preprocessor, "
            "holds the same labels out and has the same scores."
        )
    if found.single:  # a report holds out nothing then
        apart, report = ", but for those that are the only one of their class", ""
    fewer = ""
    if found.n_asked > found.n_splits:
        fewer = (
            f", not the {found.n_asked} asked for: the rarest class that is held out has "
            f"{found.n_splits} labels"
        )
    rarest = f"; the rarest class has {found.n_rarest}"
    if fewer and found.n_rarest == found.n_splits:  # said already
        rarest = ""
    return (
        f"{found.n_labels:,} labels of {found.n_classes} classes, each held out once in "
        f"{found.n_splits} folds{fewer}{apart}{rarest}."
        f"{repeats}{part}{scaled} Below zero a model is better than the default; intervals by a "
        "correlated t-test over rows. The last column has the seconds of one fit and its "
        f"predictions.{report}"
    )


def _but_own(found: ModelComparison) -> str:
    """Say that the user's own classifiers took columns as they are, if there are any."""
    own = [row.model for row in found.table if row.model not in {*CANDIDATES, BLEND}]
    return f", but for {', '.join(own)}, which took them as they are" if own else ""


# --- the page -------------------------------------------------------------------------------------


def write_comparison(
    found: ModelComparison, path: str | os.PathLike[str], *, title: str = "Models compared"
) -> None:
    """Write a comparison as one HTML file, whole or not at all; it needs no other file.

    Parameters
    ----------
    found : ModelComparison
    path : path
        The HTML file to write.
    title : str, default="Models compared"
        Heading of the page.
    """
    check_output(path, PAGE)
    jinja2 = import_extra("jinja2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = files("atoll.comparison").joinpath("template.html").read_text(encoding="utf-8")
    differences = {one.model: one for one in found.differences}
    page = environment.from_string(source).render(
        title=title,
        style=_style(),
        found=found,
        near=NEAR,
        done=_what_was_done(found),
        rows=[_cells(row, differences[row.model], found.reference) for row in found.table],
        picture=png_address(intervals_figure(found)) if found.table else "",
    )
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _style() -> str:
    """Return the style of the report, so that the two look alike."""
    report = files("atoll.reports").joinpath("template.html").read_text(encoding="utf-8")
    return report.partition("<style>")[2].partition("</style>")[0]


def _cells(row: Any, difference: Any, reference: str) -> dict[str, Any]:
    is_reference = row.model == reference
    return {
        "model": row.model,
        "is_peer": row.is_peer,
        "log_loss": f"{row.log_loss:.3f}",
        "error": f"{row.error:.3f}",
        "seconds": f"{row.seconds:.2f}",
        "near_best": f"{100 * row.near_best:.0f}%",
        "log_loss_difference": "–" if is_reference else _interval(difference.log_loss),
        "error_difference": "–" if is_reference else _interval(difference.error),
        "note": row.note,
    }


def _interval(one: Paired) -> str:
    text = f"{signed(one.mean)} ({signed(one.low)} to {signed(one.high)})"
    return text.replace("-", "−")


def _colour(loss: Paired) -> str:
    if abs(loss.mean) < NO_DIFFERENCE:
        return _UNSURE
    return _BETTER if loss.high < 0 else _WORSE if loss.low > 0 else _UNSURE


def intervals_figure(found: ModelComparison) -> Figure:
    """Draw the models' differences of log-loss from the reference, with their intervals."""
    shown = [one for one in found.differences if one.model != found.reference][::-1]
    figure = new_figure(5.2, 1.05 + 0.36 * max(len(shown), 1))
    axis = figure.add_subplot()
    peers = {row.model for row in found.table if row.is_peer}
    for place, one in enumerate(shown):
        loss = one.log_loss
        colour = _colour(loss)
        axis.plot([loss.low, loss.high], [place, place], color=colour, linewidth=2.2)
        filled = "white" if one.model in peers else colour
        axis.plot(loss.mean, place, "o", color=colour, markerfacecolor=filled, markersize=7)
    axis.axvline(0.0, color=INK, linewidth=1.0)
    axis.set_yticks(range(len(shown)), plain_names([one.model for one in shown]))
    give_letters(axis.get_yticklabels())
    axis.set_ylim(-0.6, max(len(shown), 1) - 0.4)
    axis.set_xlabel(f"log-loss less that of {found.reference},\nnats a row (left is better)")
    axis.grid(axis="x", color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    if shown:  # one long interval must not squeeze the others
        ends = sorted(max(abs(one.log_loss.low), abs(one.log_loss.high)) for one in shown)
        reach = max(1.15 * min(ends[-1], 3.0 * ends[len(ends) // 2]), NEAR)
        axis.set_xlim(-reach, reach)
        for place, one in enumerate(shown):  # beyond an edge: an arrow there says so
            colour = _colour(one.log_loss)
            for arrow, edge, beyond in (
                ("<", -reach, one.log_loss.low < -reach),
                (">", reach, one.log_loss.high > reach),
            ):
                if beyond:
                    axis.plot(0.985 * edge, place, arrow, color=colour, markersize=8)
    tidy(axis)
    return figure
