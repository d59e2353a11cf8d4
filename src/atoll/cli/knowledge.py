"""Options that say what is known beside labels, and the labels that may be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from atoll.cli.opening import open_model
from atoll.cli.options import ModelPath
from atoll.cli.terminal import one_line_errors, show_progress, speaker, table_lines
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


class Told(NamedTuple):
    """What the options of `atoll fit` say beside labels.

    shares : each CLASS=SHARE
    weights, groups : names of columns, or None
    """

    shares: list[str]
    weights: str | None
    groups: str | None

    @property
    def columns(self) -> list[str]:
        """Columns that are no features."""
        return [name for name in (self.weights, self.groups) if name is not None]

    def check(self, kind: Any, model: str, frame: pd.DataFrame) -> None:
        """Raise a ValueError where the model does not take it, or the table does not have it."""
        from atoll.core.table_refusals import column_hint
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
        for option, name in (("--weights", self.weights), ("--groups", self.groups)):
            if name is not None and name not in frame.columns:
                raise ValueError(
                    f"the {option} column {name!r} is not in the table; {column_hint(name, frame)}"
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
            out[names[name.strip()]] = number
        read_class_prior(out, classes, Wording(shares="--class-share"))
        return out

    def of_fit(self, known: KnownRows, labels: PartialLabels) -> dict[str, Any]:
        """Return the arguments of `fit` that the columns give.

        Parameters
        ----------
        known : rows that are fitted
        labels : theirs
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
            read_weights(out["sample_weight"], n, wording)
        if self.groups is not None:
            values = frame[self.groups].astype(object)
            out["groups"] = values.where(values.notna(), None).tolist()
            with_groups(labels, *read_groups(out["groups"], n), wording)
        return out


@one_line_errors
def suspects(
    model: ModelPath,
    n: Annotated[int, typer.Option("-n", min=1, help="Labels to show.")] = 10,
    out: Annotated[
        Path | None, typer.Option(help="Table to write all labels to, .csv or .parquet.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but the table.")
    ] = False,
) -> None:
    """List the labels of a fit that may be wrong, the most suspect first."""
    from atoll.core.tables import check_table_path, write_table

    say = speaker(quiet, out)
    if out is not None:
        check_table_path(out, [model], "--out")
    instead = "fit it with `atoll fit`, or call its method suspect_labels() in Python."
    bundle = open_model(model, instead=instead)
    n_labels = sum(label is not None for label in bundle.y)
    say(f"{n_labels} labels, each held against all others: it may take longer than the fit.")
    found = _suspects(bundle, show_progress(quiet))
    table = _table_of_suspects(bundle, found)
    if out is not None:
        write_table(table, out)
        say(f"{len(table)} labels saved in {out}, the most suspect first.")
    shown = table.head(n).assign(p_wrong=[f"{p:.2f}" for p in table["p_wrong"].head(n)])
    for line in table_lines(list(table.columns), shown.astype(str).values.tolist()):
        typer.echo(line)
    say(f"{found.said()} Rows count from 1.")


def _suspects(bundle: ModelBundle, progress: bool) -> Suspects:
    """Return the labels of a fit by their doubts; `progress` shows how far it is."""
    estimator = bundle.estimator
    if not hasattr(estimator, "suspect_labels"):
        raise ValueError(
            f"{type(estimator).__name__} does not doubt its labels; fit the model atoll or "
            "graph-gp."
        )
    found: Suspects = estimator.suspect_labels(verbose=progress)
    return found


def _table_of_suspects(bundle: ModelBundle, found: Suspects) -> pd.DataFrame:
    """Return row, label, probability that it is wrong, and the likeliest other class."""
    from atoll.core.fillings import part_of

    estimator = bundle.estimator
    p = estimator.predict_proba(part_of(bundle.filled_rows, found.rows))
    labels = bundle.y[found.rows].tolist()
    classes = estimator.classes_.tolist()
    p[range(len(labels)), [classes.index(label) for label in labels]] = -1.0
    ids = {} if bundle.ids is None else {bundle.id_column: bundle.ids[found.rows]}
    columns = {
        "row": [bundle.row_number(row) for row in found.rows.tolist()],
        **{name: cells for name, cells in ids.items() if name not in ("row", bundle.target)},
        bundle.target: labels,
        "p_wrong": found.probabilities,
        "instead": [classes[k] for k in p.argmax(axis=1)],
    }
    return import_extra("pandas").DataFrame(columns)
