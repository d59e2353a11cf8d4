"""GraphGPClassifier against graph learners and a plain classifier, in one run.

Leaderboard: pinwheels with 3, 4, 5 arms and tangential spread 0.25 (50 training rows), moons with
noise 0.1 (200), and wine, digits 3 against 5, digits and breast cancer (half of the rows); 1, 2, 4,
8 labels a class: 32 cells. Imbalanced: moons, three pinwheels, digits 3 against 5, breast cancer
and wine, whose classes but the first are thinned until the first is 2, 4 or 9 times as large as
each, in training and test rows; 4, 8, 16 or 32 labels for every two classes (half the rows at most)
are drawn at random, and again until every class has one: 60 cells. Test rows are never seen in
training; no setting is chosen by any error. Wine and breast cancer are standardised by training
rows, the others are left as they are.

- atoll: `GraphGPClassifier()`.
- Laplace, Poisson: graphlearning's, as in its tutorials: `weightmatrix.knn(X, 10)`, Laplace's
  defaults, and Poisson by gradient descent, as where the tutorials compare the two: the conjugate
  gradients it uses by default diverge on a graph in pieces (mean error of the leaderboard 0.074
  instead of 0.055). Both score training rows alone; a test row takes the mean of its 10 nearest
  training rows, weighted by exp(−4 d²/d₁₀²). Laplace's scores are clipped at zero and normalised,
  raw or sharpened (cubed first). Poisson's have no scale and its probabilities here are the softmax
  of scores over their largest modulus: read its error alone. With --class-shares, Poisson is also
  told the true shares of the classes in the training rows, which it then makes its predictions
  follow (`class_priors`); nobody else knows them, and it is far slower then.
- LabelSpreading: scikit-learn's with kernel="knn", the rest as it comes.
- LogisticRegression: scikit-learn's on the labelled rows alone.

Log-loss in nats, where a probability below 1e-6 counts as 1e-6; expected calibration error of the
top label in ten bins. A score that is no number counts as zero, and a row whose scores sum to zero
gets the same probability for every class: the tables count these rows. Seconds are processor
seconds of one thread, from rows to probabilities of the test rows. After ± stands a standard error
over seeds, which share rows in the sets that are not made.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib
import importlib.util
import sys
import time
import warnings

import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

from atoll import GraphGPClassifier
from atoll.datasets import make_pinwheel
from atoll.diagnostics import expected_calibration_error

TASKS = ("pin3", "pin4", "pin5", "moons", "wine", "digits35", "digits", "cancer")
PER_CLASS = (1, 2, 4, 8)
IMBALANCED_TASKS = ("moons", "pin3", "digits35", "cancer", "wine")
RATIOS = (2, 4, 9)
TOTALS = (4, 8, 16, 32)  # for every two classes
LOADERS = {"wine": load_wine, "cancer": load_breast_cancer}
NEIGHBOURS = 10
POISSON_SOLVER = "gradient_descent"
FLOOR = 1e-6
METRICS = ("error", "log-loss", "ECE", "seconds")
ATOLL, LAPLACE, SHARP = "atoll", "Laplace", "Laplace, sharpened"
POISSON, TOLD = "Poisson", "Poisson, told the shares"
WANTED = {"error": 0.040, "log-loss": 0.142, "ECE": 0.036}
PEERS = (LAPLACE, SHARP, POISSON)


# --- problems -------------------------------------------------------------------------------------


def draw_task(name, rng, n_train=None, n_test=1000):
    """Training rows and classes, test rows and classes."""
    if name.startswith("pin"):
        n_train = n_train or 50
        X, y = make_pinwheel(
            n_train + n_test, int(name[3]), tangential_spread=0.25, random_state=rng
        )
    elif name == "moons":
        n_train = n_train or 200
        X, y = make_moons(n_train + n_test, noise=0.1, random_state=int(rng.integers(2**31)))
    else:
        X, y = LOADERS.get(name, load_digits)(return_X_y=True)
        if name == "digits35":
            either = (y == 3) | (y == 5)
            X, y = X[either], (y[either] == 5).astype(int)
        order = rng.permutation(len(X))
        X, y, n_train = X[order], y[order], len(X) // 2
    train, test = slice(None, n_train), slice(n_train, None)
    if name in LOADERS:
        X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    return X[train], y[train], X[test], y[test]


def balanced_problem(name, per_class, seed):
    """Rows, partial labels, true classes; and test rows with theirs."""
    X, y, X_test, y_test = draw_task(name, np.random.default_rng([seed, TASKS.index(name)]))
    rng = np.random.default_rng([seed, per_class, 77])
    partial = np.full(len(y), -1)
    for k in np.unique(y):
        partial[rng.permutation(np.flatnonzero(y == k))[:per_class]] = k
    return X, partial, y, X_test, y_test


def imbalanced_problem(name, ratio, total, seed):
    rng = np.random.default_rng([seed, ratio, IMBALANCED_TASKS.index(name)])
    X, y, X_test, y_test = draw_task(name, rng, 1000, 1000)
    X, y = thinned(rng, X, y, ratio, {"moons": 200, "pin3": 100}.get(name))
    X_test, y_test = thinned(rng, X_test, y_test, ratio, 400)
    n_classes = y.max() + 1
    n_labels = min(total * n_classes // 2, len(X) // 2)
    rng = np.random.default_rng([seed, total])
    labelled = rng.choice(len(X), n_labels, replace=False)
    while len(np.unique(y[labelled])) < n_classes:
        labelled = rng.choice(len(X), n_labels, replace=False)
    partial = np.full(len(y), -1)
    partial[labelled] = y[labelled]
    return X, partial, y, X_test, y_test


def thinned(rng, X, y, ratio, most):
    """All of the first class, a part of the others; at most so many rows."""
    n_others = max(1, round(np.sum(y == 0) / ratio))
    kept = [
        rng.permutation(np.flatnonzero(y == k))[: n_others if k else None] for k in np.unique(y)
    ]
    chosen = rng.permutation(np.concatenate(kept))[:most]
    return X[chosen], y[chosen]


# --- models: each gives the test rows' probabilities, {name: (m, K)} ------------------------------


def atoll(X, partial, y, X_test, seed):
    model = GraphGPClassifier(unlabelled=-1, random_state=seed)
    return {ATOLL: model.fit(X, partial).predict_proba(X_test)}


def graph_scores(kind, X, partial, X_test, **options):
    """The fitted model, and its scores of test rows by their nearest training rows."""
    import graphlearning as gl

    labelled = np.flatnonzero(partial >= 0)
    W = gl.weightmatrix.knn(X, min(NEIGHBOURS, len(X) - 1))
    model = getattr(gl.ssl, kind)(W, **options)
    # no numbers where a class's labels touch no unlabelled row: the solver divides zero by zero
    scores = np.nan_to_num(np.asarray(model.fit(labelled, partial[labelled])))
    search = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(X))).fit(X)
    distances, nearest = search.kneighbors(X_test)
    weights = np.exp(-4 * distances**2 / np.maximum(distances[:, -1:] ** 2, 1e-300))
    weights /= weights.sum(axis=1, keepdims=True)
    return model, scores, np.einsum("mk,mkc->mc", weights, scores[nearest])


def laplace(X, partial, y, X_test, seed):
    _, _, scores = graph_scores("laplace", X, partial, X_test)
    p = np.clip(scores, 0.0, None)
    return {LAPLACE: p, SHARP: p**3}


def poisson(X, partial, y, X_test, seed):
    _, scores, test_scores = graph_scores("poisson", X, partial, X_test, solver=POISSON_SOLVER)
    return {POISSON: softmax(test_scores / np.abs(scores).max(), axis=1)}


def poisson_told(X, partial, y, X_test, seed):
    shares = np.bincount(y) / len(y)
    model, scores, test_scores = graph_scores(
        "poisson", X, partial, X_test, solver=POISSON_SOLVER, class_priors=shares
    )
    # as its predict does on training rows
    test_scores = np.clip((test_scores - scores.min()) / np.ptp(scores), 0, None) * model.weights
    return {TOLD: test_scores}


def spreading(X, partial, y, X_test, seed):
    model = LabelSpreading("knn", max_iter=1000).fit(X, partial)
    return {"LabelSpreading": model.predict_proba(X_test)}


def logistic(X, partial, y, X_test, seed):
    known = partial >= 0
    model = LogisticRegression(max_iter=1000).fit(X[known], partial[known])
    return {"LogisticRegression": model.predict_proba(X_test)}


def models(class_shares):
    if importlib.util.find_spec("graphlearning") is None:
        print("graphlearning is not installed (pip install graphlearning annoy); left out: "
              f"{'; '.join(PEERS)}")  # fmt: skip
        return (atoll, spreading, logistic)
    importlib.import_module("graphlearning")  # here, so that no fit is charged for it
    return (
        atoll,
        laplace,
        poisson,
        *((poisson_told,) if class_shares else ()),
        spreading,
        logistic,
    )


# --- measuring ------------------------------------------------------------------------------------


def measured(p, y):
    """Error, log-loss, ECE; and how many rows had to be mended."""
    p = np.where(np.isfinite(p), p, 0.0)
    total = p.sum(axis=1, keepdims=True)
    p = np.where(total > 0, p / np.where(total > 0, total, 1.0), 1 / p.shape[1])
    p = np.maximum(p, FLOOR)
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.mean(np.log(p[np.arange(len(y)), y]))
    n_mended = np.sum(total <= 0)
    return np.mean(p.argmax(axis=1) != y), loss, expected_calibration_error(p, y), n_mended


def run_cells(cells, make_problem, runs, seeds):
    """Results {model: (cells, seeds, 4)} and the rows mended {model: count}."""
    results, mended = {}, {}
    for i, cell_of in enumerate(cells):
        for j, seed in enumerate(seeds):
            X, partial, y, X_test, y_test = make_problem(*cell_of, seed)
            for run in runs:
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of convergence and division, all sides'
                    found = run(X, partial, y, X_test, seed)
                seconds = time.process_time() - began
                for name, p in found.items():
                    *scores, n_mended = measured(p, y_test)
                    shape = (len(cells), len(seeds), len(METRICS))
                    results.setdefault(name, np.full(shape, np.nan))[i, j] = (*scores, seconds)
                    mended[name] = mended.get(name, 0) + n_mended
        shown = ", ".join(
            f"{name} {values[i, :, 0].mean():.3f}" for name, values in results.items()
        )
        print(f"{cell_of}: error {shown}", file=sys.stderr, flush=True)
    return results, mended


def pm(values, digits=3):
    if len(values) < 2:
        return f"{values.mean():.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


def overall(results, mended):
    print("| | " + " | ".join(METRICS) + " | rows mended |")
    print("|---" * (len(METRICS) + 2) + "|")
    for name, values in results.items():
        of_seed = values.mean(axis=0)
        columns = [pm(of_seed[:, j], 4 if j < 3 else 3) for j in range(len(METRICS))]
        print(f"| {name} | " + " | ".join(columns) + f" | {mended[name]} |")


def by(results, groups, title):
    """One table a metric: models by groups of cells, {group: indices}."""
    for j, metric in enumerate(METRICS):
        print(f"\n**{metric} by {title}**\n")
        print("| | " + " | ".join(map(str, groups)) + " |")
        print("|---" * (len(groups) + 1) + "|")
        for name, values in results.items():
            row = [pm(values[index][:, :, j].mean(axis=0)) for index in groups.values()]
            print(f"| {name} | " + " | ".join(row) + " |")


def paired(results, groups):
    """Atoll minus Laplace on the same problems; below zero, atoll is better."""
    if LAPLACE not in results:
        return
    print("\n**atoll minus the peer on the same problems (below zero: atoll is better)**\n")
    print("| | " + " | ".join(map(str, groups)) + " |")
    print("|---" * (len(groups) + 1) + "|")
    for peer, metric in ((LAPLACE, "error"), (LAPLACE, "log-loss"), (SHARP, "log-loss"),
                         (POISSON, "error")):  # fmt: skip
        j = METRICS.index(metric)
        apart = (results[ATOLL] - results[peer])[:, :, j]
        row = [pm(apart[index].mean(axis=0), 4) for index in groups.values()]
        print(f"| {metric}, {peer} | " + " | ".join(row) + " |")


def grouped(cells, place, shown=str):
    values = list(dict.fromkeys(cell_of[place] for cell_of in cells))
    return {shown(v): [i for i, cell_of in enumerate(cells) if cell_of[place] == v] for v in values}


def leaderboard(runs, seeds):
    cells = [(name, per_class) for name in TASKS for per_class in PER_CLASS]
    print(f"\n## Leaderboard: {len(cells)} cells, {len(seeds)} seeds\n")
    results, mended = run_cells(cells, balanced_problem, runs, seeds)
    overall(results, mended)
    print()
    for j, (metric, most) in enumerate(WANTED.items()):
        found = results[ATOLL][:, :, j].mean()
        print(f"atoll, mean {metric} {found:.4f}, wanted: at most {most:.3f}")
    labels = grouped(cells, 1, lambda n: f"{n} a class")
    paired(results, {"all": list(range(len(cells))), **labels})
    by(results, labels, "labels")
    by(results, grouped(cells, 0), "task")


def imbalanced(runs, seeds):
    cells = [(name, r, total) for name in IMBALANCED_TASKS for r in RATIOS for total in TOTALS]
    print(f"\n## Imbalanced classes: {len(cells)} cells, {len(seeds)} seeds\n")
    results, mended = run_cells(cells, imbalanced_problem, runs, seeds)
    overall(results, mended)
    ratios = grouped(cells, 1, lambda r: f"{r} to 1")
    totals = grouped(cells, 2, lambda n: f"{n} labels")
    paired(results, {"all": list(range(len(cells))), **ratios, **totals})
    by(results, ratios, "ratio")
    by(results, totals, "labels")
    by(results, grouped(cells, 0), "task")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 0 on")
    parser.add_argument("--part", choices=["leaderboard", "imbalanced"], help="one of the two")
    parser.add_argument("--class-shares", action="store_true",
                        help="Poisson told the true shares of the classes as well")  # fmt: skip
    options = parser.parse_args()
    runs, seeds = models(options.class_shares), range(options.seeds)
    if options.part != "imbalanced":
        leaderboard(runs, seeds)
        sys.stdout.flush()
    if options.part != "leaderboard":
        imbalanced(runs, seeds)


if __name__ == "__main__":
    main()
