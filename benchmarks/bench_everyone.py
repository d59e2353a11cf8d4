"""Everyone on everything: atoll's classifiers and their peers on the leaderboard and the SSL book.

- leaderboard: the 32 cells of bench_graph_gp.py (eight sets, 1 to 8 labels a class), on new rows.
- ssl-book: seven sets, 10 and 100 labels, official splits from 6 on (settings of ours were chosen
  with splits 0 to 5 in view), on the rows without labels; rows as they come.
- nuts: one small task, a softmax Gaussian process by NumPyro's NUTS and by atoll.
- cost: processor seconds and memory of one fit against the number of rows, moons, 20 labels.

Error, log-loss (a probability below 1e-6 counts as 1e-6), Brier score (sum over classes), expected
calibration error of the top label in ten bins; processor seconds of one thread from rows to
probabilities; memory is by how much the process's peak exceeds what it held before. A fit that uses
more than --limit processor seconds is stopped, and listed. Peers that are not installed are left
out. A row a cell is kept in OUT/everyone.jsonl as soon as it is measured; the same command goes on
from there, and --report alone prints the tables and draws the pictures.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import multiprocessing
import resource
import time
import warnings
from pathlib import Path

import _everyone_models as models
import numpy as np
from _everyone_models import MODELS, OURS, Task
from sklearn.datasets import make_moons

from atoll.datasets import SSL_BOOK_LABELS, SSL_BOOK_NAMES, hide_labels
from atoll.reproductions.engine import CellStoppedError, time_limit
from atoll.reproductions.peers import measure, normalised, reliability_counts
from atoll.reproductions.ssl_book import load_problem

OUTPUT = Path(__file__).parent / "output"
ONE_SEED = ("archipelago",)  # whose chains are long
NUTS_MODELS = ("NumPyro", "softmax-gp", "GaussianProcessClassifier", "atoll")
COST_MODELS = ("atoll", "graph-gp", "ssgp", "dp-mixture", "LogisticRegression", "LabelSpreading",
               "self-training", "RandomForest", "Laplace", "Poisson")  # fmt: skip
COST_ROWS = (300, 1000, 3000, 10_000, 30_000)


# --- cells ----------------------------------------------------------------------------------------


def leaderboard_cells(seeds, names):
    from bench_graph_gp import PER_CLASS, TASKS

    return [
        {"part": "leaderboard", "set": data, "labels": labels, "draw": seed, "model": model}
        for seed in seeds
        for labels in PER_CLASS
        for data in TASKS
        for model in names
        if model != "NumPyro" and (model not in ONE_SEED or seed == min(seeds))
    ]


def book_cells(splits, names):
    return [
        {"part": "ssl-book", "set": data, "labels": labels, "draw": split, "model": model}
        for split in splits
        for labels in SSL_BOOK_LABELS
        for data in SSL_BOOK_NAMES
        for model in names
        if model not in ("NumPyro", "archipelago")  # the latter is its engine on so many rows
    ]


def nuts_cells(seeds, names):
    return [
        {"part": "nuts", "set": "pin3", "labels": 4, "draw": seed, "model": model}
        for seed in seeds
        for model in NUTS_MODELS
        if model in names
    ]


def cost_cells(seeds, names):
    return [
        {"part": "cost", "set": "moons", "labels": 10, "draw": 0, "model": model, "rows": rows}
        for rows in COST_ROWS
        for model in COST_MODELS
        if model in names
    ]


def load_cell(cell, data_home):
    """The task of a cell and the true classes of the rows asked for."""
    if cell["part"] == "ssl-book":
        problem = load_problem(cell["set"], cell["labels"], cell["draw"], data_home)
        return Task(problem.X, problem.partial), problem.y[problem.hidden]
    if cell["part"] == "cost":
        X, y = make_moons(cell["rows"], noise=0.1, random_state=0)
        shown = hide_labels(y, per_class=cell["labels"], random_state=0)
        return Task(X, shown), y[shown < 0]
    from bench_graph_gp import balanced_problem

    X, shown, _, X_new, y_new = balanced_problem(cell["set"], cell["labels"], cell["draw"])
    return Task(X, shown, X_new), y_new


# --- measuring ------------------------------------------------------------------------------------


def peak_kilobytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reset_peak():
    """Start the peak of this process's memory anew, where Linux allows it; return what is held."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return peak_kilobytes(), False
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))), True


def peak_since(held):
    before, was_reset = held
    if not was_reset:
        return max(0, peak_kilobytes() - before)
    lines = Path("/proc/self/status").read_text().splitlines()
    return max(0, int(next(x.split()[1] for x in lines if x.startswith("VmHWM"))) - before)


def run_cell(cell, data_home=None, limit=120.0):
    """The cell with its metrics; with `stopped` or `failed` in their place if there are none."""
    task, y = load_cell(cell, data_home)
    warm_up(cell["model"])
    held, began = reset_peak(), time.process_time()
    try:
        with warnings.catch_warnings(), time_limit(limit):
            warnings.simplefilter("ignore")
            scores = MODELS[cell["model"]](task, cell["draw"])
    except CellStoppedError:
        return cell | {"stopped": limit}
    except (ValueError, MemoryError, ImportError, np.linalg.LinAlgError) as error:
        return cell | {"failed": str(error).splitlines()[0][:120]}
    found = {"seconds": round(time.process_time() - began, 4), "megabytes": peak_since(held) / 1024}
    p, mended = normalised(scores)
    found |= measure(p, y) | {"brier": float(np.mean(np.sum((p - np.eye(p.shape[1])[y]) ** 2, 1)))}
    if cell["part"] == "ssl-book" and cell["model"] == "atoll":
        found["reliability"] = reliability_counts(p, y).round(6).tolist()  # for its picture
    if cell["model"] in models.WITHOUT_PROBABILITIES:
        found |= {"log_loss": None, "ece": None, "brier": None, "confidence": None}
    return cell | found | {"mended": mended}


WARM: set[str] = set()


def warm_up(model):
    """Fit a tiny task first, so that no fit is charged for imports and first calls."""
    if model not in WARM:
        WARM.add(model)
        X, y = make_moons(40, noise=0.1, random_state=0)
        with warnings.catch_warnings(), time_limit(60):
            warnings.simplefilter("ignore")
            if model not in ("archipelago", "NumPyro"):  # long whatever the task
                MODELS[model](Task(X, np.where(np.arange(40) < 12, y, -1)), 0)


def key_of(row):
    return tuple(row.get(name) for name in ("part", "set", "labels", "draw", "model", "rows"))


def kept(path):
    if not path.is_file():
        return {}
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {key_of(row): row for row in rows}


def _one(arguments):
    return run_cell(*arguments)


def run_cells(cells, path, *, jobs, data_home, limit, deadline=None):
    """Run the cells that the file does not hold, each kept as soon as it is measured."""
    done = kept(path)
    waiting = [(cell, data_home, limit) for cell in cells if key_of(cell) not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with path.open("a", encoding="utf-8") as file, context.Pool(jobs) as pool:
        for row in pool.imap_unordered(_one, waiting):
            file.write(json.dumps(row) + "\n")
            file.flush()
            if deadline is not None and time.monotonic() > deadline:
                pool.terminate()
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", default=["leaderboard"],
                        choices=["leaderboard", "ssl-book", "nuts", "cost"])  # fmt: skip
    parser.add_argument("--models", nargs="+", default=None, choices=list(MODELS))
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--data", default=None)
    parser.add_argument("--out", type=Path, default=OUTPUT)
    parser.add_argument("--report", action="store_true", help="run nothing, show what there is")
    options = parser.parse_args()
    path = options.out / "everyone.jsonl"
    names = options.models or [name for name in MODELS if name not in ONE_SEED]
    names = [name for name in names if models.installed(name)]
    if not options.report:
        makers = {"leaderboard": leaderboard_cells, "nuts": nuts_cells, "cost": cost_cells}
        cells = [
            cell
            for part in options.part
            for cell in (
                book_cells(range(6, 6 + options.draws), names)
                if part == "ssl-book"
                else makers[part](range(options.draws), names)
            )
        ]
        run_cells(cells, path, jobs=options.jobs, data_home=options.data, limit=options.limit)
    import _everyone_tables as tables

    tables.show(list(kept(path).values()), list(OURS), options.out)


if __name__ == "__main__":
    main()
