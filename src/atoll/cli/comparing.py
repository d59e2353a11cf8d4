"""What `atoll compare` makes of its options, and what it writes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from atoll.cli.options import TABLES
from atoll.core.extras import import_extra

if TYPE_CHECKING:
    from atoll.comparison.result import ModelComparison
    from atoll.core.labels import PartialLabels

PAGES = (".html", ".htm")


def check_comparison(out: Path | None, data: Path) -> None:
    """Raise a ValueError unless a comparison can be written to a file in the form of its ending.

    Parameters
    ----------
    out : the file; None if nothing is written
    data : the table that is read
    """
    from atoll.core.overwriting import PAGE, check_output
    from atoll.core.tables import check_table_path

    if out is None:
        return
    name = out.name.lower()
    if name.endswith(PAGES):
        check_output(out, PAGE, [data], "--out")
        for package in ("matplotlib", "jinja2"):
            import_extra(package)
    elif name.endswith(TABLES):
        check_table_path(out, [data], "--out")
    else:
        raise ValueError(
            f"--out {shlex.quote(str(out))}: a comparison is written as a page, to a file that "
            "ends in .html, or as a table of scores, to one that ends in .csv or .tsv."
        )


def save_comparison(found: ModelComparison, out: Path, title: str) -> str:
    """Write a comparison as a page or as a table of scores; return a sentence that says so.

    Parameters
    ----------
    title : of the page
    """
    from atoll.comparison import write_comparison
    from atoll.core.tables import write_table

    if out.name.lower().endswith(PAGES):
        write_comparison(found, out, title=title)
        return f"Page saved in {out}."
    write_table(found.to_frame().reset_index(), out)
    return f"Table of scores saved in {out}; a file that ends in .html gets a page."


def folds_said(labels: PartialLabels, n_splits: int) -> list[str]:
    """Return a line that says that there are fewer folds than asked for, if there are."""
    several = labels.counts[labels.counts > 1]
    if not len(several) or n_splits <= several.min():
        return []
    n = int(several.min())
    return [
        f"{n} folds instead of {n_splits}: the rarest class that is held out has {n} labels, and "
        "every fold holds one out."
    ]


def fit_with(
    data: Path,
    target: str,
    options: Mapping[str, str | list[str] | None],
    unlabelled: Sequence[str],
) -> str:
    """Return the command that fits a model to a table with the options of a comparison.

    Parameters
    ----------
    options : option -> its value or values; None if it was not given
    unlabelled : values of the option of that name
    """
    words = ["atoll", "fit", str(data), "--target", target]
    for option, given in options.items():
        for value in [given] if isinstance(given, str) else given or ():
            words += [option, value]
    for value in unlabelled:
        words += [] if value == "auto" else ["--unlabelled", value]
    return shlex.join([*words, "--out", "MODEL"])
