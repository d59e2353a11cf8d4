"""Headline ratios of speed, and what got slower since they were stored.

    python benchmarks/bench_speed.py            # compare with benchmarks/results/speed.csv
    python benchmarks/bench_speed.py --store    # and add this commit's ratios to it

Each ratio is the CPU time of ours over that of a yardstick that does not change with our code, in
turns, in one process with one thread, so that it is about the same on every machine. It counts as
slower where its median exceeds the stored one by a quarter, and all turns but one exceed the
largest that was stored: more than turns differ among themselves.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import datetime
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FILE = Path(__file__).parent / "results" / "speed.csv"
TURNS = 5
SLOWER = 1.25  # times the stored ratio, at least, to be told


class Pair(NamedTuple):
    """What is timed, and its yardstick."""

    name: str
    ours: Callable[[], Any]
    yardstick: Callable[[], Any]


class Ratio(NamedTuple):
    """A line of the file: median, least and largest of the turns' ratios."""

    commit: str
    date: str
    name: str
    median: float
    least: float
    largest: float


def pairs() -> list[Pair]:
    """Return the headline ratios."""
    from scipy.linalg import cholesky
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.mixture import BayesianGaussianMixture
    from sklearn.semi_supervised import LabelSpreading

    from atoll.datasets import hide_labels, make_crescents, make_pinwheel
    from atoll.estimators import (
        ArchipelagoClassifier,
        AtollClassifier,
        DPMixtureClassifier,
        GraphGPClassifier,
        InformativeVectorClassifier,
        NullCategoryClassifier,
        ProbitGPClassifier,
        SoftmaxGPClassifier,
        SSGPClassifier,
    )

    def moons(n: int, per_class: int = 10) -> tuple[Any, Any, Any]:
        X, truth = make_crescents(n_samples=n, random_state=0)
        y = hide_labels(truth, per_class=per_class, marker=None, random_state=0)
        return X, truth, y

    X_s, truth_s, y_s = moons(120)
    X_m, truth_m, y_m = moons(400)
    X_l, _, y_l = moons(4000)
    wide = np.random.default_rng(0).normal(size=(20_000, 10))
    of_wide = np.where(np.arange(20_000) < 40, np.arange(20_000) % 2, -1)
    X_p, truth_p = make_pinwheel(120, n_classes=3, random_state=0)
    gram = np.exp(-0.5 * ((X_m[:, None] - X_m) ** 2).sum(axis=2)) + 1e-3 * np.eye(len(X_m))
    chains = {"n_chains": 1, "n_warmup": 10, "n_samples": 40, "random_state": 0}

    def factors(n: int) -> Callable[[], Any]:
        return lambda: [cholesky(gram, lower=True) for _ in range(n)]

    labels = np.array([{None: -1, 0: 0, 1: 1}[v] for v in y_l.tolist()])
    return [
        Pair(
            "AtollClassifier, 400 rows, over LogisticRegression",
            lambda: AtollClassifier(random_state=0).fit(X_m, y_m),
            lambda: [LogisticRegression().fit(X_m, truth_m) for _ in range(100)],
        ),
        Pair(
            "GraphGPClassifier, 4000 rows, over LabelSpreading",
            lambda: GraphGPClassifier(random_state=0).fit(X_l, y_l),
            lambda: [LabelSpreading(kernel="knn").fit(X_l, labels) for _ in range(10)],
        ),
        Pair(
            "DPMixtureClassifier, 20000 rows, 3 iterations, over BayesianGaussianMixture",
            lambda: DPMixtureClassifier(
                n_components=10, n_starts=1, n_folds=0, max_iter=3, random_state=0
            ).fit(wide, of_wide),
            lambda: BayesianGaussianMixture(
                n_components=20, max_iter=3, init_params="random", random_state=0
            ).fit(wide),
        ),
        Pair(
            "ProbitGPClassifier by vb, 120 rows, over GaussianProcessClassifier",
            lambda: ProbitGPClassifier(inference="vb").fit(X_s, truth_s),
            lambda: GaussianProcessClassifier().fit(X_s, truth_s),
        ),
        Pair(
            "ProbitGPClassifier by mcmc, 120 rows, over factors of 400 rows",
            lambda: ProbitGPClassifier(**chains).fit(X_s, truth_s),
            factors(60),
        ),
        Pair(
            "SoftmaxGPClassifier, 120 rows, over factors of 400 rows",
            lambda: SoftmaxGPClassifier(**chains).fit(X_p, truth_p),
            factors(60),
        ),
        Pair(
            "NullCategoryClassifier by vb, 400 rows, over factors of 400 rows",
            lambda: NullCategoryClassifier(inference="vb", random_state=0).fit(X_m, y_m),
            factors(60),
        ),
        Pair(
            "InformativeVectorClassifier, 400 rows, over factors of 400 rows",
            lambda: InformativeVectorClassifier().fit(X_m, truth_m),
            factors(60),
        ),
        Pair(
            "SSGPClassifier, 120 rows, over factors of 400 rows",
            lambda: SSGPClassifier().fit(X_s, y_s),
            factors(60),
        ),
        Pair(
            "ArchipelagoClassifier by mcmc, 120 rows, over factors of 400 rows",
            lambda: ArchipelagoClassifier(inference="mcmc", base_density="gaussian", **chains).fit(
                X_s, y_s
            ),
            factors(60),
        ),
    ]


def seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(pair: Pair, commit: str, turns: int) -> tuple[Ratio, list[float]]:
    """Time both in turns; the first turn, which imports and allocates, does not count."""
    ratios = [seconds(pair.ours) / seconds(pair.yardstick) for _ in range(turns + 1)][1:]
    numbers = [round(float(f(ratios)), 4) for f in (np.median, min, max)]
    return Ratio(commit, datetime.date.today().isoformat(), pair.name, *numbers), ratios


def stored() -> dict[str, Ratio]:
    """Return the last ratio of each name in the file."""
    if not FILE.exists():
        return {}
    with FILE.open(newline="") as file:
        lines = list(csv.DictReader(file))
    return {
        line["name"]: Ratio(
            line["commit"],
            line["date"],
            line["name"],
            *(float(line[key]) for key in ("median", "least", "largest")),
        )
        for line in lines
    }


def is_slower(ratios: list[float], before: Ratio) -> bool:
    """Return whether turns are slower than the stored ones, beyond their noise.

    Examples
    --------
    >>> was = Ratio("c", "d", "n", 1.0, 0.9, 1.1)
    >>> is_slower([1.5, 1.6, 1.4, 1.5, 1.0], was), is_slower([1.2, 1.2, 1.3, 1.2, 0.9], was)
    (True, False)
    """
    beyond = sum(ratio > before.largest for ratio in ratios)
    return bool(np.median(ratios) > SLOWER * before.median and beyond >= len(ratios) - 1)


def store(found: list[Ratio]) -> None:
    is_new = not FILE.exists()
    with FILE.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(Ratio._fields)
        writer.writerows(found)


def this_commit() -> str:
    said = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", action="store_true", help="add this commit's ratios")
    parser.add_argument("--turns", type=int, default=TURNS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    before, commit = stored(), this_commit()
    found, slower = [], []
    print(f"{'ours over yardstick':78} {'now':>8} {'stored':>8}")
    for pair in pairs():
        ratio, turns = measure(pair, commit, options.turns)
        found.append(ratio)
        was = before.get(pair.name)
        print(f"{pair.name:78} {ratio.median:8.3f} {was.median if was else float('nan'):8.3f}")
        if was is not None and is_slower(turns, was):
            slower.append(f"{pair.name}: {ratio.median:.3f}, and {was.median:.3f} at {was.commit}")
    if options.store:
        store(found)
    for line in slower:
        print(f"slower: {line}")
    if not slower:
        print("nothing got slower beyond noise")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
