"""GraphGPClassifier on up to a million rows against Laplace learning, in one run.

Moons (noise 0.1) and pinwheels (five arms, tangential spread 0.25), one label in a thousand rows at
random, and two of each class at least. Laplace learning is graphlearning's, as in its tutorials: 10
neighbours, its own weights, its conjugate gradients; new rows take the mean of their 10 nearest
training rows, weighted by exp(−4 d²/d₁₀²). A fit starts from the rows and ends with probabilities
of all of them. Each fit has a process of its own, so that its memory can be told; the two sides
take turns; one thread; processor seconds. Both sides have fitted 200 rows before they are timed.

1. Large sets: error and log-loss on new rows and on unlabelled training rows, seconds and memory.
   Laplace learning's probabilities are taken raw and sharpened (p³, renormalised); one below 1e-6
   counts as 1e-6, on both sides.
2. 200 rows of moons, one process for both sides, which take turns: the ratio of fit times.
3. Seconds against rows, as docs/images/graph_gp_cost.png draws them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

TASKS = ("moons", "pinwheels")
SIDES = ("atoll", "laplace")
SHOWN = {"atoll": "atoll GraphGPClassifier", "laplace": "graphlearning Laplace"}
LABELS_A_ROW = 1e-3
N_NEW = 10_000
NEIGHBOURS = 10
FLOOR = 1e-6
PLOT = Path(__file__).parent.parent / "docs/images/graph_gp_cost.png"
MISSING = "graphlearning is not installed (pip install graphlearning annoy): Laplace is left out"


def problem(task, n, seed):
    """Rows, partial labels, true classes; and new rows with theirs."""
    from sklearn.datasets import make_moons

    from atoll.datasets import make_pinwheel

    if task == "moons":
        X, y = make_moons(n + N_NEW, noise=0.1, random_state=seed)
    else:
        X, y = make_pinwheel(n + N_NEW, 5, tangential_spread=0.25, random_state=seed)
    X, y, X_new, y_new = X[:n], y[:n], X[n:], y[n:]
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    two = np.concatenate([order[y[order] == k][:2] for k in np.unique(y)])
    at_random = order[: round(LABELS_A_ROW * n)]
    few = [k for k in np.unique(y) if np.sum(y[at_random] == k) < 2]
    labelled = np.union1d(at_random, two[np.isin(y[two], few)])
    partial = np.full(n, -1)
    partial[labelled] = y[labelled]
    return X, partial, y, X_new, y_new


# --- the two sides --------------------------------------------------------------------------------


def fit_atoll(X, partial, seed=0):
    from atoll import GraphGPClassifier

    return GraphGPClassifier(unlabelled=-1, random_state=seed).fit(X, partial)


def fit_laplace(X, partial):
    """Scores of all rows, (n, K)."""
    import graphlearning as gl

    labelled = np.flatnonzero(partial >= 0)
    W = gl.weightmatrix.knn(X, NEIGHBOURS)
    return np.asarray(gl.ssl.laplace(W).fit(labelled, partial[labelled]))


def extend(X, scores, X_new):
    """Scores of new rows: weighted means of their nearest training rows'."""
    from scipy.spatial import KDTree

    distances, nearest = KDTree(X).query(X_new, NEIGHBOURS)
    weights = np.exp(-4 * distances**2 / np.maximum(distances[:, -1:] ** 2, 1e-300))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("mk,mkc->mc", weights, scores[nearest])


def normalised(p, power=1):
    p = np.clip(np.nan_to_num(p), 0, None) ** power
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])


def scores_of(p, y):
    """Error and log-loss."""
    p = np.maximum(p, FLOOR)
    p /= p.sum(axis=1, keepdims=True)
    return np.mean(p.argmax(axis=1) != y), -np.mean(np.log(p[np.arange(len(y)), y]))


def memory_peak():
    """Bytes; of this process alone, where the system says so.

    getrusage would count what the process that started this one held.
    """
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def one_fit(side, task, n, seed):
    """Run by a process of its own."""
    warnings.simplefilter("ignore")
    small, few, *_ = problem(task, 200, seed)
    fit = fit_atoll if side == "atoll" else fit_laplace
    fit(small, few)
    X, partial, y, X_new, y_new = problem(task, n, seed)
    before = memory_peak()
    wall, processor = time.perf_counter(), time.process_time()
    fitted = fit(X, partial)
    found = {
        "seconds": time.process_time() - processor,
        "wall": time.perf_counter() - wall,
        "memory": memory_peak(),
        "memory_before": before,
        "labels": int(np.sum(partial >= 0)),
    }
    rest = partial < 0
    if side == "atoll":
        new, old = fitted.predict_proba(X_new), fitted.label_distributions_[rest]
        found["verdict"] = fitted.diagnostics_["verdict"]
        found["new"] = scores_of(new, y_new)
        found["old"] = scores_of(old, y[rest])
    else:
        new, old = extend(X, fitted, X_new), fitted[rest]
        for power, mark in ((1, ""), (3, "_sharp")):
            found["new" + mark] = scores_of(normalised(new, power), y_new)
            found["old" + mark] = scores_of(normalised(old, power), y[rest])
    print(json.dumps(found))


def start(side, task, n, seed):
    command = [sys.executable, __file__, "--one", side, task, str(n), str(seed)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{side}, {task}, {n} rows, seed {seed}: {found}", file=sys.stderr, flush=True)
    return found


# --- what is printed ------------------------------------------------------------------------------


def cell(values, digits):
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return f"{values.mean():.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


def large_sets(sizes, sides, n_seeds):
    """Tables of large sets; gives the seconds back, {(side, task, n): seconds}."""
    columns = ("", "rows", "labels", "error, new", "error, unlabelled", "log-loss, new",
               "log-loss, unlabelled", "processor s", "wall s", "peak GB")  # fmt: skip
    print("| " + " | ".join(columns) + " |")
    print("|---" * 10 + "|")
    seconds = {}
    for n in sizes:
        for task in TASKS:
            runs = {side: [] for side in sides}
            for seed in range(n_seeds[n]):
                for side in sides:
                    runs[side].append(start(side, task, n, seed))
            for side in sides:
                found = runs[side]
                seconds[side, task, n] = float(np.median([run["seconds"] for run in found]))
                marks = ("", "_sharp") if side == "laplace" else ("",)
                for mark in marks:
                    parts = [cell([run[where + mark][j] for run in found], 4)
                             for j in (0, 1) for where in ("new", "old")]  # fmt: skip
                    cost = [cell([run["seconds"] for run in found], 1),
                            cell([run["wall"] for run in found], 1),
                            f"{max(run['memory'] for run in found) / 1e9:.2f}"]  # fmt: skip
                    name = f"{SHOWN[side]}{', sharpened' if mark else ''}, {task}"
                    labels = str(found[0]["labels"])
                    row = [name, str(n), labels, *parts, *(cost if not mark else [""] * 3)]
                    print("| " + " | ".join(row) + " |", flush=True)
    return seconds


def small_sets(n_turns):
    """Ratio of fit times at 200 rows, in this process."""
    from sklearn.datasets import make_moons

    from atoll.datasets import hide_labels

    print("\n200 rows of moons: fit in milliseconds, medians, and the median of the ratios")
    X, truth = make_moons(200, noise=0.1, random_state=0)
    for per_class in (1, 2, 4, 8):
        times = {side: [] for side in SIDES}
        for turn in range(n_turns + 1):
            y = hide_labels(truth, per_class=per_class, marker=-1, random_state=turn)
            for side, fit in (("atoll", fit_atoll), ("laplace", fit_laplace)):
                began = time.process_time()
                fit(X, y)
                times[side].append(time.process_time() - began)
        # the first turn is the libraries'
        mine, other = (np.array(times[side][1:]) for side in SIDES)
        print(f"  {per_class} labels a class: atoll {1e3 * np.median(mine):6.1f}, "
              f"Laplace {1e3 * np.median(other):6.1f}, "
              f"ratio {np.median(mine / other):5.1f}    wanted: at most 10")  # fmt: skip


def costs(sizes, sides, known, n_turns):
    """Seconds of a fit on moons, {side: {n: seconds}}.

    Sizes in `known` are not run again; beyond 10⁵ rows each is run once, and atoll alone.
    """
    found = {side: {} for side in sides}
    for n in sizes:
        runs = {side: [] for side in sides}
        for seed in range(n_turns if n <= 10**5 else 1):
            for side in sides:
                if (side, "moons", n) in known:
                    runs[side] = [known[side, "moons", n]]
                elif n <= 10**5 or side == "atoll":
                    runs[side].append(start(side, "moons", n, seed)["seconds"])
        for side in sides:
            if runs[side]:
                found[side][n] = float(np.median(runs[side]))
    print("\nProcessor seconds of a fit on moons")
    print("| rows | " + " | ".join(SHOWN[side] for side in sides) + " |")
    print("|---" * (1 + len(sides)) + "|")
    for n in sizes:
        row = [f"{found[side][n]:.3f}" if n in found[side] else "" for side in sides]
        print(f"| {n} | " + " | ".join(row) + " |")
    return found


def draw_costs(found, path):
    from matplotlib.figure import Figure

    from atoll.core.files import atomic_path

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for (side, seconds), marker, colour in zip(found.items(), "os", ("C0", "C1")):
        axes.loglog(*zip(*seconds.items()), marker=marker, color=colour, label=SHOWN[side])
    sizes = np.array(list(found["atoll"]))
    largest = sizes[-1]
    axes.loglog(sizes, found["atoll"][largest] * sizes / largest, ls=":", color="0.5",
                label="in proportion to rows")  # fmt: skip
    axes.set(xlabel="rows", ylabel="processor seconds of a fit", title="Moons, one thread")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="small sets, no picture")
    parser.add_argument("--sizes", type=int, nargs="*", help="of the large sets")
    parser.add_argument("--sides", choices=SIDES, nargs="+", default=SIDES, help="both, or one")
    parser.add_argument("--only", choices=["large", "small", "cost"], help="one of the three")
    options = parser.parse_args()
    if options.one:
        side, task, n, seed = options.one
        one_fit(side, task, int(n), int(seed))
        return
    sides = options.sides
    if "laplace" in sides and importlib.util.find_spec("graphlearning") is None:
        print(MISSING)
        sides = ["atoll"]
    sizes = options.sizes or ([10_000] if options.quick else [10**5, 10**6])
    seconds = {}
    if options.only in (None, "large"):
        seconds = large_sets(sizes, sides, {n: 3 if n < 10**6 else 1 for n in sizes})
    if options.only in (None, "small") and len(sides) == 2:
        small_sets(5 if options.quick else 30)
    if options.only in (None, "cost") and "atoll" in sides:
        top = 4 if options.quick else 6
        steps = sorted({m * 10**p for p in range(3, top) for m in (1, 3)} | {10**top})
        found = costs(steps, sides, seconds, 1 if options.quick else 3)
        if not options.quick:
            draw_costs(found, PLOT)
            print("written: docs/images/graph_gp_cost.png")


if __name__ == "__main__":
    main()
