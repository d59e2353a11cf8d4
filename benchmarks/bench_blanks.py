"""How sure the default is of rows with blank numbers: one filling of the cells against several.

    python benchmarks/bench_blanks.py [--draws 10] [--fillings 8] [--tables NAME …]

Iris, wine, breast cancer, the first twenty columns of digits, and penguins where they are
installed (package palmerpenguins, its four measurements). In half of the rows a fifth of the cells
are blank, at random. And two kinds of 600 rows that one of three columns tells, which is blank in
two of five rows. Half of the rows are fitted with twenty labels, the others are new. For the
rows with blank numbers, new ones and unlabelled ones of the fit (`transduction_`): how many are
wrong, how many the probabilities expect to be, and the log-loss, with the cells filled in once (the
mean of the ten rows most like it) and with probabilities averaged over fillings. And how often the
share of wrong rows among all new rows, and among those with blanks, lies between the limits of 90%
of `estimate_error`; seconds are those of the predictions of the new rows.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib.util
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

from atoll import AtollClassifier, make_preprocessor
from atoll.core import fillings
from atoll.core.fillings import part_of

TABLES = ("iris", "wine", "breast cancer", "digits", "penguins", "two kinds")
N_LABELS, BLANK_ROWS, BLANK_CELLS = 20, 0.5, 0.2


def table(name):
    """Numbers (n, d) and classes (n,); None where it is not installed."""
    if name == "penguins":
        found = importlib.util.find_spec("palmerpenguins")
        if found is None:
            return None
        folder = Path(found.submodule_search_locations[0])
        frame = pd.read_csv(folder / "data" / "penguins.csv")
        numbers = frame[[c for c in frame.columns if c.endswith(("_mm", "_g"))]]
        known = numbers.notna().all(axis=1).to_numpy()
        return numbers.to_numpy()[known], frame["species"].to_numpy()[known]
    loaders = {
        "iris": datasets.load_iris,
        "wine": datasets.load_wine,
        "breast cancer": datasets.load_breast_cancer,
        "digits": datasets.load_digits,
    }
    X, y = loaders[name](return_X_y=True)
    return (X[:, :20] if name == "digits" else X), y.astype(str)


def two_kinds(rng):
    """Rows (n, 3) with blanks and kinds (n,), of which the first column tells most."""
    kind = np.arange(600) % 2
    X = np.column_stack([6.0 * kind, 2.0 * kind, 0.0 * kind]) + rng.standard_normal((600, 3))
    X[rng.random(600) < 0.4, 0] = np.nan
    return X, kind.astype(str)


def with_blanks(name, rng):
    """The table with blank cells, and no row of nothing else; None where it is not installed."""
    if name == "two kinds":
        return two_kinds(rng)
    found = table(name)
    if found is None:
        return None
    X, y = found
    is_blank = (rng.random(len(X)) < BLANK_ROWS)[:, None] & (rng.random(X.shape) < BLANK_CELLS)
    is_blank[is_blank.all(axis=1), 0] = False
    return np.where(is_blank, np.nan, X), y


def labelled(y, rng):
    """Twenty labels at random, of every class at least one."""
    classes = np.unique(y)
    first = [rng.choice(np.flatnonzero(y == name)) for name in classes]
    others = rng.permutation(np.setdiff1d(np.arange(len(y)), first))[: N_LABELS - len(first)]
    out = np.full(len(y), None, dtype=object)
    rows = np.concatenate([first, others]).astype(int)
    out[rows] = y[rows]
    return out


def measured(p, truth, classes):
    """Rows, wrong ones, those expected to be, and the sum of log-losses."""
    codes = np.searchsorted(classes, truth)
    log_loss = -np.log(np.maximum(p[np.arange(len(p)), codes], 1e-300)).sum()
    return np.array([len(p), (p.argmax(1) != codes).sum(), (1.0 - p.max(1)).sum(), log_loss])


def draw(name, seed):
    """What one draw finds, by kind of rows and number of fillings; None: no such table."""
    rng = np.random.default_rng([seed, TABLES.index(name)])
    found = with_blanks(name, rng)
    if found is None:
        return None
    (X, y), has_blank = found, np.isnan(found[0]).any(axis=1)
    order = rng.permutation(len(y))
    old, new = order[: len(y) // 2], order[len(y) // 2 :]
    given = labelled(y[old], rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = make_preprocessor().fit(X[old], given)
        rows, asked = step.transform(X[old]), step.transform(X[new])
        models = {
            "one": AtollClassifier(random_state=0).fit(np.asarray(rows), given),
            "several": AtollClassifier(random_state=0).fit(rows, given),
        }
    out = {}
    for way, model in models.items():
        these = np.asarray(asked) if way == "one" else asked
        free = np.array([label is None for label in given]) & has_blank[old]
        began = time.process_time()
        p = model.predict_proba(these)
        seconds = time.process_time() - began
        blank = has_blank[new]
        out["new", way] = measured(p[blank], y[new][blank], model.classes_)
        out["fit", way] = measured(model.label_distributions_[free], y[old][free], model.classes_)
        out["seconds", way] = np.array([seconds])
        wrong = model.classes_[p.argmax(1)] != y[new]
        inside = []
        for part in (np.arange(len(new)), np.flatnonzero(blank)):
            error = model.estimate_error(part_of(these, part))
            share = wrong[part].mean()
            inside.append(error.lower - 1e-12 <= share <= error.upper + 1e-12)
        out["inside", way] = np.array(inside, float)
        out["plain", way] = p[~blank]
    assert np.array_equal(out["plain", "one"], out["plain", "several"])
    return out


def main():
    """Print a line for every table and way, and all of them together."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--fillings", type=int, default=fillings.N_FILLINGS)
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    options = parser.parse_args()
    fillings.N_FILLINGS = options.fillings
    total = {}
    print("table, rows, way: n, wrong, expected, log-loss | seconds, limits all, limits blank")
    for name in options.tables:
        draws = [draw(name, options.first + seed) for seed in range(options.draws)]
        if draws[0] is None:
            print(f"{name}: not installed")
            continue
        for way in ("one", "several"):
            inside = np.mean([found["inside", way] for found in draws], axis=0)
            seconds = np.mean([found["seconds", way] for found in draws])
            for kind in ("new", "fit"):
                n, wrong, expected, log_loss = np.sum([f[kind, way] for f in draws], axis=0)
                sums = np.array([n, wrong, expected, log_loss])
                total[kind, way] = total.get((kind, way), 0) + sums
                line = f"{name}, {kind}, {way}: {n:.0f}, {wrong:.0f}, {expected:.1f}, "
                line += f"{log_loss / n:.4f}"
                if kind == "new":
                    line += f" | {seconds:.2f}, {inside[0]:.2f}, {inside[1]:.2f}"
                print(line, flush=True)
    for (kind, way), (n, wrong, expected, log_loss) in total.items():
        print(f"all, {kind}, {way}: {n:.0f}, {wrong:.0f}, {expected:.1f}, {log_loss / n:.4f}")


if __name__ == "__main__":
    main()
