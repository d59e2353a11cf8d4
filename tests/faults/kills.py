"""Work that is killed at a random moment, and begun again: does it come to the same answer?

    python tests/faults/kills.py --kills 200 --out benchmarks/results/kills.csv

Each job works in a folder of its own. A copy of this process (a fork) does the work and is killed,
by a signal that nothing can catch, after a random part of the time that the whole work takes; then
another copy goes on in the same folder, until one comes to the end. The answer must be that of work
that nobody killed, and every file with a name of its own must be whole.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import program  # noqa: E402
from atoll.app.store import Event, LabelLog, Subject  # noqa: E402
from atoll.core import checkpoints  # noqa: E402
from atoll.core.files import atomic_path  # noqa: E402
from atoll.estimators import (  # noqa: E402
    ArchipelagoClassifier,
    DPMixtureClassifier,
    ProbitGPClassifier,
    SSGPClassifier,
    load_model,
)
from atoll.reproductions import engine  # noqa: E402
from atoll.reproductions.engine import Experiment  # noqa: E402

MOST_TRIES = 60


class Job(NamedTuple):
    """Work in a folder.

    work : does it, or goes on with it
    answer : what came of it
    whole : raises where a file that has its own name is not whole; called after every kill
    """

    name: str
    work: Callable[[Path], None]
    answer: Callable[[Path], Any]
    whole: Callable[[Path], None]


# Jobs ---------------------------------------------------------------------------------------------


def data(n: int = 40) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2)) + 2.0 * (np.arange(n)[:, None] % 3)
    y = np.array([["a", "b", "c"][i % 3] if i < 12 else None for i in range(n)], dtype=object)
    return X, y


def fitting(name: str, make: Callable[[Path], Any], size: int = 40) -> Job:
    """Return the job of a fit with a checkpoint; its answer is the probabilities, to the bit."""

    def work(folder: Path) -> None:
        X, y = data(size)
        p = make(folder / "checkpoint").fit(X, y).predict_proba(X)
        with atomic_path(folder / "answer.npy") as path:
            np.save(path, p)

    def whole(folder: Path) -> None:
        for path in (folder / "checkpoint").rglob("*.npz"):
            if not path.name.startswith("."):
                checkpoints.read_arrays(path)

    return Job(name, work, lambda folder: (folder / "answer.npy").read_bytes(), whole)


def _fit_command(folder: Path) -> None:
    X, y = data()
    table = pd.DataFrame(X, columns=["u", "v"]).assign(kind=y)
    table.to_csv(folder / "data.csv", index=False)
    program.succeed(
        "fit", folder / "data.csv", "--target", "kind", "--out", folder / "model.atoll",
        "--model", "softmax-gp", "--set", "n_chains=2", "--set", "n_warmup=10",
        "--set", "n_samples=30", "--checkpoint", folder / "checkpoint", "--quiet",
    )  # fmt: skip


def _predicted(folder: Path) -> bytes:
    bundle = load_model(folder / "model.atoll")
    return bundle.estimator.predict_proba(bundle.X).tobytes()


def _model_is_whole(folder: Path) -> None:
    if (folder / "model.atoll").exists():
        load_model(folder / "model.atoll")


def _reproduce(folder: Path) -> None:
    def run_cell(cell: Any, data_home: Any) -> dict[str, Any]:
        rng = np.random.default_rng(cell["index"])
        gram = np.cov(rng.normal(size=(120, 400)))
        return {"determinant": np.linalg.slogdet(gram)[1], "path": gram[0]}

    toy = Experiment(
        name="toy",
        title="A toy",
        paper="Nobody (1900), *Nothing*.",
        claim="Nothing at all.",
        cells=lambda quick, seed: [{"index": i, "seed": seed} for i in range(8)],
        run_cell=run_cell,
        draw=lambda results, path: path.write_bytes(b"drawn from %d" % len(results)),
        comparison=lambda results: f"{len(results)} beside none.",
    )
    engine.run(toy, out=folder / "out", progress=False)


def _cells_are_whole(folder: Path) -> None:
    for path in (folder / "out").rglob("*.npz"):
        if not path.name.startswith("."):
            checkpoints.read_arrays(path)
    for path in (folder / "out").rglob("*.csv"):
        if not path.name.startswith("."):
            assert len(path.read_text().splitlines()) == 9, path


N_ANSWERS = 600
_SUBJECT = Subject("kind", N_ANSWERS, "a table")


def _label(folder: Path) -> None:
    """Answer rows one after the other; what counts as given is told in a second file."""
    with LabelLog(folder / "labels.jsonl", _SUBJECT) as log, open(folder / "told", "ab") as told:
        for row in range(len(log.answers.given), N_ANSWERS):
            log.append(Event("label", row, "abc"[row % 3], at="2026-01-01T00:00:00+00:00"))
            told.write(b".")
            told.flush()


def _answers(folder: Path) -> dict[int, Any]:
    with LabelLog(folder / "labels.jsonl", _SUBJECT) as log:
        return {row: event.label for row, event in log.answers.given.items()}


def _no_answer_is_lost(folder: Path) -> None:
    if (folder / "told").exists():
        told, kept = len((folder / "told").read_bytes()), _answers(folder)
        assert told <= len(kept) <= N_ANSWERS, (told, len(kept))
        assert set(kept) == set(range(len(kept)))


_CHAINS = {"n_chains": 2, "n_warmup": 15, "n_samples": 25, "random_state": 3}
JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        fitting("chains of the probit", lambda at: ProbitGPClassifier(checkpoint=at, **_CHAINS)),
        fitting(
            "chains of Archipelago",
            lambda at: ArchipelagoClassifier(
                checkpoint=at, inference="mcmc", base_density="gaussian", **_CHAINS
            ),
        ),
        fitting(
            "sampler of SSGP",
            lambda at: SSGPClassifier(
                checkpoint=at, selection=None, n_warmup=10, n_samples=60, random_state=3
            ),
        ),
        fitting(
            "EM of the mixture",
            lambda at: DPMixtureClassifier(
                checkpoint=at,
                n_components=3,
                n_starts=2,
                n_folds=2,
                tol=0.0,
                max_iter=40,
                random_state=3,
            ),
            size=300,
        ),
        Job("atoll fit", _fit_command, _predicted, _model_is_whole),
        Job(
            "reproduce",
            _reproduce,
            lambda folder: (folder / "out" / "toy" / "cells.csv").read_bytes(),
            _cells_are_whole,
        ),
        Job("labelling", _label, _answers, _no_answer_is_lost),
    )
}


# Kills --------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What came of a job: kills that hit it at work, and whether the answer was the same."""

    job: str
    kills: int
    same: bool


def begin(work: Callable[[Path], None], folder: Path) -> int:
    """Do the work in a copy of this process; return its number."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        checkpoints.SECONDS = 0.03
        warnings.simplefilter("ignore")
        work(folder)
        status = 0
    except BaseException:
        (folder / "error.txt").write_text(traceback.format_exc())
    finally:
        os._exit(status)


def finish(pid: int, folder: Path) -> None:
    """Wait for the copy, which must end well."""
    _, status = os.waitpid(pid, 0)
    if status:
        raise AssertionError((folder / "error.txt").read_text())


def try_job(job: Job, folder: Path, n_kills: int, rng: np.random.Generator) -> Outcome:
    """Kill the job at up to `n_kills` moments, and compare what it comes to in the end."""
    undisturbed, killed = folder / "undisturbed", folder / "killed"
    undisturbed.mkdir(parents=True)
    killed.mkdir()
    began = time.perf_counter()
    finish(begin(job.work, undisturbed), undisturbed)
    duration = time.perf_counter() - began
    kills = 0
    for _ in range(MOST_TRIES):
        pid = begin(job.work, killed)
        if kills < n_kills:
            time.sleep(rng.uniform(0.02, 0.5) * duration)
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            kills += 1
            job.whole(killed)
            continue
        if status:
            raise AssertionError(f"{job.name}: {(killed / 'error.txt').read_text()}")
        break
    job.whole(killed)
    return Outcome(job.name, kills, job.answer(killed) == job.answer(undisturbed))


def many_kills(n_kills: int, seed: int, say: Callable[[str], None] = print) -> list[Outcome]:
    """Kill the jobs in turn until each had its part of `n_kills`; return what came of each."""
    rng = np.random.default_rng(seed)
    total = {name: Outcome(name, 0, True) for name in JOBS}
    least = -(-n_kills // len(JOBS))
    while any(outcome.kills < least for outcome in total.values()):
        for name, job in JOBS.items():
            if total[name].kills >= least:
                continue
            with tempfile.TemporaryDirectory() as folder:
                found = try_job(job, Path(folder), 3, rng)
            total[name] = Outcome(
                name, total[name].kills + found.kills, total[name].same and found.same
            )
            say(f"{name}: {total[name].kills} kills, same answer: {total[name].same}")
    return list(total.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", choices=list(JOBS), help="one job alone, once")
    parser.add_argument("--out", help="a CSV file for what was found")
    options = parser.parse_args()
    if options.job:
        with tempfile.TemporaryDirectory() as folder:
            rng = np.random.default_rng(options.seed)
            found = [try_job(JOBS[options.job], Path(folder), options.kills, rng)]
    else:
        found = many_kills(options.kills, options.seed)
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Outcome._fields)
            writer.writerows(found)
    sys.exit(0 if all(outcome.same for outcome in found) else 1)


if __name__ == "__main__":
    main()
