"""Default fits of exact Archipelago: how good, how long, and whether its chains have mixed.

wine       89 of wine's 178 rows, one and two labels per class, 20 splits
arms       pinwheels of 50 rows with one label per class: three noisy arms, five, and three clean
search     pinwheels of the paper's toys: settings at which Bayes' error is below .03, with the
           softmax GP's errors at 1, 2, 4 and 8 labels per class
toys       Archipelago and the softmax GP at the settings that the search found

Every run writes one line of JSON to --out, and runs that the file holds are not repeated; one that
fails writes its error, and the others go on. `--tell` prints the tables, and what failed.
`--share 1/4` runs every fourth task, from the second on. One thread in each process.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import itertools
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from atoll import ArchipelagoClassifier, SoftmaxGPClassifier
from atoll.datasets import hide_labels, make_pinwheel

OUTPUT = Path(__file__).parent / "output" / "archipelago_fits.jsonl"
FIRST_SEED = 3200  # none from here on was used while the sampler was built
ARMS = {"three noisy": (3, 0.2), "five noisy": (5, 0.2), "three": (3, 0.1)}
LABELS = (1, 2, 4, 8)
# Table 1, the softmax GP's errors; and spreads and rate nearest to them, of those below .03.
PAPER = {3: (0.347, 0.312, 0.118, 0.056), 4: (0.305, 0.188, 0.119, 0.061),
         5: (0.192, 0.181, 0.159, 0.095)}  # fmt: skip
TOYS = {3: (0.4, 0.15, 0.75), 4: (0.4, 0.15, 0.5), 5: (0.3, 0.2, 0.5)}
GRID = ((0.2, 0.3, 0.4), (0.1, 0.15, 0.2), (0.25, 0.5, 0.75, 1.0, 1.25))
MOST_BAYES_ERROR = 0.03


def wine(labels, seed):
    data = load_wine()
    rows = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    X, X_test, y, y_test = train_test_split(
        rows, data.target, train_size=89, stratify=data.target, random_state=seed
    )
    return X, hide_labels(y, per_class=labels, random_state=seed), X_test, y_test


def arms(n_classes, spreads, rate, labels, seed, n_test=1200):
    kind = {"radial_spread": spreads[0], "tangential_spread": spreads[1], "rate": rate}
    X, y = make_pinwheel(50, n_classes, random_state=seed, **kind)
    X_test, y_test = make_pinwheel(n_test, n_classes, random_state=seed + 10_000, **kind)
    return X, hide_labels(y, per_class=labels, random_state=seed), X_test, y_test


def bayes_error(n_classes, radial, tangential, rate):
    X, y = make_pinwheel(
        4000, n_classes, radial_spread=radial, tangential_spread=tangential, rate=rate,
        random_state=9,
    )  # fmt: skip
    log_p = []
    for k in range(n_classes):
        angle = -(2 * np.pi * k / n_classes + rate * np.exp(np.hypot(*X.T)))
        along = np.cos(angle) * X[:, 0] - np.sin(angle) * X[:, 1]
        across = np.sin(angle) * X[:, 0] + np.cos(angle) * X[:, 1]
        log_p.append(-0.5 * (((along - 1) / radial) ** 2 + (across / tangential) ** 2))
    return float(np.mean(np.argmax(log_p, axis=0) != y))


def fitted(model, X, y, X_test, y_test):
    """Error, perplexity, processor seconds, and what the chains' diagnostics say."""
    began = time.process_time()
    model.fit(X, y)
    spent, found = time.process_time() - began, model.diagnostics_
    p = model.predict_proba(X_test)
    of_truth = np.maximum(p[np.arange(len(y_test)), y_test], 1e-12)
    return {
        "cpu": spent, "error": np.mean(p.argmax(axis=1) != y_test),
        "perplexity": np.exp(-np.log(of_truth).mean()), "mixed": bool(found["mixed"]),
        "r_hat": max(found["r_hat"].values()), "worst": max(found["r_hat"], key=found["r_hat"].get),
        "ess": min(found["ess_bulk"].values()), "draws": int(found["n_draws"]),
        **({"rejections": model.draws_["n_rejections"].mean()} if "n_rejections" in model.draws_
           else {}),
    }  # fmt: skip


def run_wine(labels, seed):
    return fitted(ArchipelagoClassifier(random_state=seed), *wine(labels, seed))


def run_arms(name, seed):
    K, spread = ARMS[name]
    return fitted(ArchipelagoClassifier(random_state=seed), *arms(K, (0.3, spread), 0.25, 1, seed))


def run_toy(n_classes, labels, model, seed):
    radial, tangential, rate = TOYS[n_classes]
    rows = arms(n_classes, (radial, tangential), rate, labels, seed, 300 * n_classes)
    made = ArchipelagoClassifier if model == "archipelago" else SoftmaxGPClassifier
    return fitted(made(random_state=seed), *rows)


def run_search(n_classes, radial, tangential, rate, seed):
    errors = []
    short = {"n_chains": 1, "n_warmup": 60, "n_samples": 40, "thin": 1, "random_state": seed}
    for labels in LABELS:
        rows = arms(n_classes, (radial, tangential), rate, labels, seed, 300)
        errors.append(fitted(SoftmaxGPClassifier(**short), *rows)["error"])
    return {"errors": errors}


def tasks(parts, seeds):
    first = range(FIRST_SEED, FIRST_SEED + seeds)
    every = {
        "wine": [(run_wine, {"labels": k, "seed": s}) for s in first for k in (2, 1)],
        "arms": [(run_arms, {"name": name, "seed": s}) for s in first for name in ARMS],
        "toys": [
            (run_toy, {"n_classes": K, "labels": k, "model": m, "seed": s})
            for s in first[:10] for k in LABELS for K in TOYS for m in ("archipelago", "softmax")
        ],
    }  # fmt: skip
    for part in parts:
        if part == "search":
            shapes = [(K, *shape) for K in PAPER for shape in itertools.product(*GRID)]
            names = ("n_classes", "radial", "tangential", "rate")
            kept = [shape for shape in shapes if bayes_error(*shape) < MOST_BAYES_ERROR]
            every["search"] = [
                (run_search, dict(zip(names, shape, strict=True)) | {"seed": s})
                for s in range(100, 103) for shape in kept
            ]  # fmt: skip
        for function, arguments in every[part]:
            yield part, function, arguments


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="wine,arms,toys")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    parser.add_argument("--tell", action="store_true")
    options = parser.parse_args()
    held = options.out.read_text().splitlines() if options.out.exists() else []
    if options.tell:
        tell([json.loads(line) for line in held])
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = {json.loads(line)["task"] for line in held}
    number, of = map(int, options.share.split("/"))
    for part, function, arguments in list(tasks(options.part.split(","), options.seeds))[
        number::of
    ]:
        task = json.dumps([part, arguments])
        if task in done:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = function(**arguments)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            found = {"failed": f"{type(error).__name__}: {error}"}  # the others go on
        record = {"task": task, "part": part, **arguments, **found}
        with options.out.open("a") as file:
            file.write(json.dumps(record, default=float) + "\n")


def tell(records):
    """Print means over seeds, and how many fits had mixed; and those that failed."""
    groups = defaultdict(list)
    for record in records:
        if "failed" in record:
            print("failed:", record["task"], record["failed"])
            continue
        if record["part"] == "search":
            groups[tuple(record[k] for k in ("n_classes", "radial", "tangential", "rate"))].append(
                record["errors"]
            )
        else:
            names = ("labels", "name", "n_classes", "model")
            key = (record["part"], *(str(record[k]) for k in names if k in record))
            groups[key].append(record)
    for key, found in groups.items():
        if isinstance(found[0], list):
            gap = np.abs(np.mean(found, axis=0) - PAPER[key[0]]).max()
            print(*key, "softmax", np.mean(found, axis=0).round(3), f"largest gap {gap:.3f}")
            continue
        means = {k: np.mean([r[k] for r in found]) for k in ("error", "perplexity", "cpu", "ess")}
        mixed = sum(r["mixed"] for r in found)
        print(
            *key, f"{len(found)} fits", *(f"{k} {v:.3f}" for k, v in means.items()),
            f"largest error {max(r['error'] for r in found):.3f}",
            f"longest {max(r['cpu'] for r in found):.0f} s",
            f"draws {np.mean([r.get('draws', 0) for r in found]):.0f}", f"mixed {mixed}",
        )  # fmt: skip


if __name__ == "__main__":
    main()
