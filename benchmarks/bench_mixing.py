"""Chains of a fixed length, and chains that draw on until they have mixed, on small tasks.

A task is a public set with 40 labels, drawn at random with the seed of the chains; features are
standardised. First every model makes the draws with which "auto" begins; then the same chains are
left to draw on, from a checkpoint, as `n_samples="auto"` does. Counted are the fits whose chains
had mixed by the verdict (R-hat at most 1.05, a hundred effective draws) before and after, the
processor seconds of one thread, and the draws of each chain at the end.

- Models of labelled rows have the 40 alone. The null category has 60 rows more without a label, the
  classifier on a graph 160, and its parameters as they come.
- diabetes has five ranks, by the fifths of its target, and esl nine (`ATOLL_DATA` names a folder
  that holds ordinal_skordinal; without it esl is left out). The classes of wine and of iris are
  ranks to the ordinal model.
- Seconds after include those before, and a second time what a fit costs beside its chains.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, load_iris, load_wine

from atoll.core.files import atomic_path, check_writable
from atoll.estimators import MODELS
from atoll.estimators.sampling import patience_of

N_LABELS = 40
# By model: rows without a label, its parameters, and its tasks.
PLAN = {
    "ordinal-gp": (0, {"inference": "mcmc"}, ("diabetes", "esl", "wine", "iris")),
    "probit-gp": (0, {"inference": "mcmc"}, ("diabetes", "wine", "iris")),
    "softmax-gp": (0, {}, ("diabetes", "wine", "iris")),
    "null-category": (60, {"inference": "mcmc"}, ("wine",)),
    "ssgp": (160, {"inference": "mcmc", "selection": None}, ("diabetes", "wine")),
}
HEAD = (
    "| model | task | mixed before | mixed after | fits | seconds before | seconds after | draws |"
)

RULE = "|---" * (HEAD.count("|") - 1) + "|"


def ordinal_set(name):
    path = Path(os.environ.get("ATOLL_DATA", ""), "ordinal_skordinal", f"{name}.csv")
    if not os.environ.get("ATOLL_DATA") or not path.exists():
        return None
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1].astype(int)


def load(name):
    """X, y; None where the set is not at hand."""
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        return X, np.searchsorted(np.quantile(y, [0.2, 0.4, 0.6, 0.8]), y)
    if name == "esl":
        return ordinal_set(name)
    return {"wine": load_wine, "iris": load_iris}[name](return_X_y=True)


def task(name, n_unlabelled, seed):
    """Standardised rows and labels, None where unlabelled."""
    X, y = load(name)
    chosen = np.random.default_rng(seed).permutation(len(y))[: N_LABELS + n_unlabelled]
    X, labels = X[chosen], y[chosen].astype(object)
    labels[N_LABELS:] = None
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0), labels


def timed(model, X, y):
    """Whether the chains had mixed, their draws, and the processor seconds of the fit."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chains that have not mixed
        found = model.fit(X, y).diagnostics_
    return found["mixed"], found["n_draws"], time.process_time() - began


def before_and_after(name, options, X, y, seed):
    with tempfile.TemporaryDirectory() as folder:
        settings = {**options, "checkpoint": folder, "random_state": seed, "verbose": False}
        first = patience_of(MODELS[name]()).counts[0]
        before = timed(MODELS[name](n_samples=first, **settings), X, y)
        mixed, n_draws, more = timed(MODELS[name](**settings), X, y)
    return before[0], before[2], mixed, before[2] + (more if n_draws > first else 0.0), n_draws


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5, help="draws of labels for each task")
    parser.add_argument("--models", nargs="+", choices=PLAN, default=list(PLAN))
    parser.add_argument("--write", metavar="PATH", help="write the table to this file as well")
    return parser.parse_args()


def main():
    options = arguments()
    if options.write:
        check_writable(options.write)
    print(HEAD, RULE, sep="\n", flush=True)
    rows = []
    for name in options.models:
        n_unlabelled, settings, tasks = PLAN[name]
        for which in tasks:
            if load(which) is None:
                continue
            fits = [
                before_and_after(name, settings, *task(which, n_unlabelled, seed), seed)
                for seed in range(options.seeds)
            ]
            was, seconds, is_mixed, in_all, n_draws = (np.array(part) for part in zip(*fits))
            rows.append(
                f"| {name} | {which} | {was.sum()} | {is_mixed.sum()} | {len(fits)} | "
                f"{seconds.mean():.1f} | {in_all.mean():.1f} | {min(n_draws)} to {max(n_draws)} |"
            )
            print(rows[-1], flush=True)
    if options.write:
        lines = [f"# Chains that draw on\n\n{__doc__.partition(chr(10))[2].strip()}\n"]
        lines += [f"atoll {version('atoll')}.\n\n## Mixing\n"]
        lines += ["<!-- part: mixing -->", HEAD, RULE, *rows, "<!-- end of part -->"]
        with atomic_path(options.write) as path:
            Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
