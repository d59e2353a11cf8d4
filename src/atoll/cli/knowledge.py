"""Options for what is known besides the labels, and the command `atoll suspects`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from atoll.cli.opening import refuse_fitted_table
from atoll.cli.options import ModelPath
from atoll.cli.terminal import one_line_errors, speaker, table_lines
from atoll.core.extras import import_extra

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from atoll.core.blank_rows import KnownRows
    from atoll.core.labels import PartialLabels
    from atoll.estimators.informed import Suspects
    from atoll.estimators.persistence import ModelBundle

ClassShares = Annotated[
    list[str] | None,
    typer.Option(
        "--class-share",
        metavar="CLASS=SHARE",
        help="Share of a class among all rows, where it is known; repeatable. One class may be "
        "left out.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option("--weights", metavar="COLUMN", help="Column that says what each label counts."),
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups", metavar="COLUMN", help="Column of groups, whose rows share a class; or none."
    ),
]


def columns_told(bundle: ModelBundle) -> dict[str, str]:
    """Return the columns that a fit was told of by --weights and --groups, by option.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> columns_told(SimpleNamespace(options=[["--drop", "x"], ["--groups", "patient"]]))
    {'--groups': 'patient'}
    """
    given = bundle.options or []
    return {option: value[0] for option, *value in given if option in ("--weights", "--groups")}


class Told(NamedTuple):
    """What the options of `atoll fit` say besides the labels.

    shares : each CLASS=SHARE
    weights, groups : names of columns, or None
    """

    shares: list[str]
    weights: str | None
    groups: str | None

    @property
    def columns(self) -> list[str]:
        """Columns that are not features."""
        return [name for name in (self.weights, self.groups) if name is not None]

    def check(self, kind: Any, model: str) -> None:
        """Raise a ValueError if the model does not take these options."""
        from atoll.estimators.informed import InformedClassifier

        options = {
            "--class-share": bool(self.shares),
            "--weights": self.weights is not None,
            "--groups": self.groups is not None,
        }
        asked = [name for name, is_asked in options.items() if is_asked]
        if asked and not issubclass(kind, InformedClassifier):
            raise ValueError(
                f"{asked[0]} does not apply to the model {model!r}; leave it out, or use the model "
                "atoll or graph-gp."
            )

    def class_prior(self, classes: NDArray[Any]) -> dict[Any, float] | None:
        """Return the shares by class, in the type of the classes."""
        from atoll.estimators.knowledge import Wording, read_class_prior

        if not self.shares:
            return None
        names = {str(name): name for name in classes.tolist()}
        out = {}
        for text in self.shares:
            name, equals, share = text.rpartition("=")
            try:
                number = float(share)
            except ValueError:
                number = float("nan")
            if not equals or number != number:
                raise ValueError(
                    f"--class-share {text}: write it as CLASS=SHARE, such as yes=0.02."
                )
            if name.strip() not in names:
                raise ValueError(
                    f"--class-share {text}: there is no class {name.strip()!r}; the classes are "
                    f"{', '.join(names)}."
                )
            if names[name.strip()] in out:
                raise ValueError(
                    f"--class-share {text}: {name.strip()} has a share already; give it once."
                )
            out[names[name.strip()]] = number
        read_class_prior(out, classes, Wording(shares="--class-share"))
        return out

    def of_fit(self, known: KnownRows, labels: PartialLabels) -> dict[str, Any]:
        """Return the arguments of `fit` that come from the columns.

        Parameters
        ----------
        known : rows that are fitted
        labels : of these rows
        """
        import numpy as np

        from atoll.estimators.knowledge import Wording, read_groups, read_weights, with_groups

        pd = import_extra("pandas")
        out: dict[str, Any] = {}
        frame, n = known.frame, len(known.frame)
        numbers = np.arange(1, n + 1) if known.numbers is None else known.numbers
        wording = Wording(
            weights=f"the --weights column {self.weights!r}",
            numbers=numbers,
            counting="counted from 1 under the header",
        )
        if self.weights is not None:
            column = pd.to_numeric(frame[self.weights], errors="coerce")
            words = frame[self.weights].notna() & column.isna()
            if words.any():
                raise ValueError(
                    f"the --weights column {self.weights!r} holds "
                    f"{frame[self.weights][words].iloc[0]!r}; give numbers, 0 where a label is not "
                    "to count."
                )
            out["sample_weight"] = column.fillna(1.0).to_numpy(dtype=float)
            read_weights(out["sample_weight"], labels.is_labelled, wording)
        if self.groups is not None:
            values = frame[self.groups].astype(object)
            out["groups"] = values.where(values.notna(), None).tolist()
            with_groups(labels, *read_groups(out["groups"], n), wording)
        return out


@one_line_errors
def suspects(
    model: ModelPath,
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="Labels to show.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Table to write all labels to, .csv or .parquet."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but the table.")
    ] = False,
) -> None:
    """List the labels of a fit that may be wrong, the most suspect first."""
    from atoll.active.pool import last_step
    from atoll.core.tables import check_table_path, write_table
    from atoll.estimators.persistence import ModelBundle, load_model

    say = speaker(quiet, out)
    if out is not None:
        check_table_path(out, [model], "--out")
    opened, bundle = load_model(model), None
    if isinstance(opened, ModelBundle):
        opened, bundle = opened.estimator, opened
        refuse_fitted_table(bundle, out)
    found = _suspects(last_step(opened), say, not quiet)
    table = _table_of_suspects(bundle, found)
    if out is not None:
        write_table(table, out)
        say(f"{len(table)} labels saved in {out}, the most suspect first.")
    shown = table.head(n).assign(p_wrong=[f"{p:.2f}" for p in table["p_wrong"].head(n)])
    for line in table_lines(list(table.columns), shown.astype(str).values.tolist()):
        typer.echo(line)
    for line in (f"{found.said()} Rows count from 1.", *found.provisos()):
        say(line)


def _suspects(estimator: Any, say: Callable[[str], None], progress: bool) -> Suspects:
    """Return the labels of a fit, the most doubtful first; `progress`: with a progress bar."""
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(estimator, "suspect_labels"):
        raise ValueError(
            f"{type(estimator).__name__} does not doubt its labels; fit the model atoll or "
            "graph-gp."
        )
    check_is_fitted(estimator)
    record = getattr(estimator, "label_record_", None)
    n_labels = "The" if record is None else len(record.codes)
    say(f"{n_labels} labels, each held against all others: it may take longer than the fit.")
    found: Suspects = estimator.suspect_labels(verbose=progress)
    return found


def _table_of_suspects(bundle: ModelBundle | None, found: Suspects) -> pd.DataFrame:
    """Return row, label, probability that it is wrong, and the likeliest other class.

    Parameters
    ----------
    bundle : what is known of the table of the fit; None for a model saved from Python
    """
    table: pd.DataFrame = found.to_frame()
    if bundle is None:
        return table.assign(row=table["row"] + 1)
    table["row"] = [bundle.row_number(row) for row in found.rows.tolist()]
    if bundle.ids is not None and bundle.id_column not in ("row", bundle.target):
        table.insert(1, bundle.id_column, bundle.ids[found.rows])
    return table.rename(columns={"label": bundle.target})
