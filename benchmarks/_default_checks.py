"""Parts of bench_default.py that look at verdicts, calibration and speed."""

from __future__ import annotations

import importlib.util
import json
import re
import resource
import sys
import time
import warnings
from pathlib import Path

import _default_tasks as tasks
import numpy as np
from _default_tasks import DEFAULT, GRAPH, markdown, shown
from sklearn.datasets import load_digits, make_blobs, make_moons

from atoll.core.points import points_of
from atoll.datasets import make_pinwheel
from atoll.reproductions.peers import Problem, import_graphlearning, pooled_reliability
from atoll.reproductions.ssl_book import load_problem

# --- verdicts -------------------------------------------------------------------------------------

# What a verdict or warning says, in any case, where it names a trouble.
WORDS = {
    "copies": r"cop(y|ies)|duplicate|identical rows|same row",
    "scale": r"scale|standardis|units|spread of the columns",
    "pieces": r"piece|disconnected|connected component|no label reaches|without (a|any) label",
    "labels": r"cannot tell|can't tell|nothing to (learn|tell)|no better than|labels['’]? (own )?"
    r"shares|do not follow|follow (nothing|none|no assumption)|at random"
    r"|check the labels|contradict",
}
PLAIN_SETS = ("iris", "penguins", "wine")


def verdict_of(model):
    """The verdict as text; change it here if it lives elsewhere."""
    return " ".join(points_of(model.diagnostics_["verdict"]))


def named(trouble, said):
    return re.search(WORDS[trouble], said, re.IGNORECASE) is not None


def yes_no_questions(rng, n=1000):
    """Five yes/no questions: 32 kinds of row, each with many copies."""
    X = (rng.random((n, 5)) < 0.5).astype(float)
    y = (rng.random(n) < 1 / (1 + np.exp(-4 * (X.sum(axis=1) - 2.5)))).astype(int)
    return tasks.hide(X, y, 20, rng)


def unlike_scales(rng, data):
    """Wine as it comes, with one column in units of a ten-thousandth."""
    X, y = tasks.raw_table("wine")
    X = X.copy()
    X[:, rng.integers(X.shape[1])] *= 1e4
    return tasks.hide(X, y, 4, rng)


def pieces(rng, data):
    """Six far blobs of two classes, of which two have no label."""
    X, blob = make_blobs(300, centers=20.0 * np.array([[i % 3, i // 3] for i in range(6)]),
                         random_state=int(rng.integers(2**31)))  # fmt: skip
    known = tasks.hide(X, blob, 3, rng).partial >= 0
    y = blob % 2
    return Problem(X, y, np.where(known & (blob < 4), y, -1))


def permuted(rng, data):
    X, y = tasks.table("wine")
    return tasks.hide(X, rng.permutation(y), 8, rng)


TROUBLES = {
    "copies": lambda rng, data: yes_no_questions(rng),
    "scale": unlike_scales,
    "pieces": pieces,
    "labels": permuted,
}


def run_verdict(task, options):
    """Fit once and keep all that was said."""
    rng = tasks.stream("verdicts", task["case"], task["labels"], task["draw"])
    if task["case"] in TROUBLES:
        problem = TROUBLES[task["case"]](rng, options.data)
    else:
        X, y = tasks.raw_table(task["case"], options.data)
        problem = tasks.hide(X, y, task["labels"], rng)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = tasks.fit_default(problem, task["draw"])
    said = [str(w.message) for w in caught]
    text = " ".join([verdict_of(model), *said])
    return {
        "warned": bool(said),
        "named": [trouble for trouble in WORDS if named(trouble, text)],
        "verdict": verdict_of(model),
        "warnings": " | ".join(said),
    }


def verdicts(options):
    draws = range(options.draws or 20)
    plain = [
        {"case": name, "labels": n, "draw": draw}
        for name in PLAIN_SETS
        for n in options.labels or (2, 4, 8)
        for draw in draws
    ]
    planted = [{"case": name, "labels": 0, "draw": draw} for name in TROUBLES for draw in draws]
    listed = [t for t in plain + planted if not options.sets or t["case"] in options.sets]
    frame = tasks.run_tasks("verdicts", run_verdict, listed, options)
    if frame.empty:
        return
    print("\n## Verdicts\n")
    print("Sets as they come, unscaled, true labels; wanted: no warning in 0.95 of the fits. A "
          "trouble that is named although it was not planted is counted, too.\n")  # fmt: skip
    rows = []
    for (case, n), part in frame[~frame["case"].isin(list(TROUBLES))].groupby(["case", "labels"]):
        alarms = [shown(np.mean([t in found for found in part["named"]])) for t in WORDS]
        rows.append([case, n, len(part), shown(1 - part["warned"].mean()), *alarms])
    markdown(["set", "labels a class", "fits", "without a warning",
              *(f"names {t}" for t in WORDS)], rows)  # fmt: skip
    print("Planted troubles; wanted: named in 0.95 of the fits.\n")
    rows = []
    for case, part in frame[frame["case"].isin(list(TROUBLES))].groupby("case", sort=False):
        rows.append([case, len(part), shown(np.mean([case in f for f in part["named"]])),
                     shown(part["warned"].mean())])  # fmt: skip
    markdown(["trouble", "fits", "named", "warned"], rows)
    for case, part in frame.groupby("case", sort=False):
        said = (part["verdict"] + " " + part["warnings"]).iloc[0].strip()
        print(f"- {case}, the first fit: {said}")
    print()


# --- calibration ----------------------------------------------------------------------------------

SOURCES = ("ssl-book", "tables")


def calibration(options):
    """Pool the cells that the other parts have kept; a picture if matplotlib is installed."""
    model = options.models[0] if options.models else DEFAULT
    counts = {}
    for source in SOURCES:
        kept = tasks.kept_rows(options.out / f"default_{source}.jsonl")
        found = [json.loads(row["bins"]) for key, row in kept.items()
                 if json.loads(key)["model"] == model and "bins" in row]  # fmt: skip
        if found:
            counts[source] = np.array(found)
        else:
            tasks.say(f"no cells of {source} in {options.out}: run that part first")
    if not counts:
        return
    print(f"\n## Calibration of {model}, all cells together\n")
    everything = np.concatenate(list(counts.values()))
    curves = {}
    for source, cells in {"all": everything, **counts}.items():
        curves[source] = tell_curve(source, cells)
    draw_calibration(curves, model, options.out / "default_calibration.png")


def tell_curve(source, cells):
    """Pool the reliability counts of cells, print the curve and return it."""
    curve = pooled_reliability(cells, np.random.default_rng(0))
    gap = curve.accuracy - curve.confidence
    print(f"**{source}: {len(cells)} cells, {int(curve.rows.sum())} rows; "
          f"{int(curve.within.sum())} of {len(gap)} bins within the band; mean |gap| "
          f"{np.average(np.abs(gap), weights=curve.rows):.4f}**\n")  # fmt: skip
    rows = [
        [shown(c), shown(a), f"{g:+.3f}", f"{low:+.3f} to {high:+.3f}", int(n),
         "yes" if ok else "no"]
        for c, a, g, low, high, n, ok in zip(
            curve.confidence, curve.accuracy, gap, curve.low, curve.high, curve.rows,
            curve.within)
    ]  # fmt: skip
    markdown(["stated", "right", "gap", "band", "rows", "within"], rows)
    return curve


def draw_calibration(curves, model, path: Path):
    if importlib.util.find_spec("matplotlib") is None:
        tasks.say("matplotlib is not installed: no picture")
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(curves), 5), layout="constrained")
    for ax, (source, curve) in zip(figure.subplots(1, len(curves), squeeze=False)[0],
                                   curves.items()):  # fmt: skip
        c = curve.confidence
        ax.fill_between(c, c + curve.low, c + curve.high, alpha=0.2, label="95% by chance")
        ax.plot([0, 1], [0, 1], "k--", linewidth=1)
        ax.plot(c, curve.accuracy, "o-", label=model)
        ax.set(title=source, xlabel="probability of the predicted class", ylabel="share right",
               xlim=(0, 1), ylim=(0, 1))  # fmt: skip
        ax.legend(loc="upper left", frameon=False)
    figure.savefig(path, dpi=110)
    print(f"Picture: {path}\n")


# --- speed ----------------------------------------------------------------------------------------


def timed(function, *arguments):
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = function(*arguments)
    return time.process_time() - began, found


def laplace_as_it_comes(problem):
    """Graphlearning's own neighbours and weights, as in its tutorials."""
    gl = import_graphlearning()
    rows = np.flatnonzero(~problem.hidden)
    return gl.ssl.laplace(gl.weightmatrix.knn(problem.X, 10)).fit(rows, problem.partial[rows])


def small_ratios(options):
    """Fits of 200 rows, the sides taking turns after one fit each that is not counted."""
    if importlib.util.find_spec("graphlearning") is None:
        tasks.say("graphlearning is not installed: the ratios are left out")
        return
    rows = []
    repeats = 5 if options.quick else 40
    for name in ("moons", "pinwheel"):
        X, y = tasks.small_set(name)
        ours, graph, theirs = [], [], []
        for r in range(repeats + 1):
            problem = tasks.hide(X, y, 4, tasks.stream("speed", name, r))
            ours.append(timed(tasks.default, problem, r)[0])
            graph.append(timed(tasks.graph_gp, problem, r)[0])
            theirs.append(timed(laplace_as_it_comes, problem)[0])
        a, g, b = (np.array(values[1:]) for values in (ours, graph, theirs))
        low, high = np.quantile(a / b, [0.25, 0.75])
        rows.append([name, *(shown(1000 * np.median(v), 1) for v in (a, g, b)),
                     f"{np.median(a / b):.2f} ({low:.2f} to {high:.2f})",
                     shown(np.median(g / b), 2)])  # fmt: skip
    print(f"**200 rows, 4 labels a class, {repeats} turns; wanted: a ratio of at most 3**\n")
    markdown(["", f"{DEFAULT}, ms", f"{GRAPH}, ms", "Laplace, ms", "default / Laplace (quartiles)",
              f"{GRAPH} / Laplace"], rows)  # fmt: skip


def wide_rows(options):
    try:
        return load_problem("USPS", 100, 0, options.data)
    except FileNotFoundError as error:
        tasks.say(f"{error} Made-up rows take the place of USPS.")
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, 1500)
        X = rng.normal(size=(1500, 8)) @ rng.normal(size=(8, 241)) + rng.normal(size=(1500, 241))
        X[:, :20] += y[:, None]
        return tasks.hide(X, y, 50, rng)


def many_classes(options):
    rng = np.random.default_rng(0)
    centres = 4.0 * rng.normal(size=(100, 10))
    X, y = make_blobs(3000, centers=centres, random_state=0)
    return tasks.hide(X, y, 3, rng)


def digits10(options):
    X, y = load_digits(return_X_y=True)
    return tasks.hide(X, y, 8, np.random.default_rng(0))


def large(n_labels):
    def problem(options):
        n = min(options.rows, 20_000) if options.quick else options.rows
        X, y = make_moons(n, noise=0.1, random_state=0)
        return tasks.hide_at_random(X, y, min(n_labels, n // 10), np.random.default_rng(0))

    return problem


def large_pinwheel(options):
    n = min(options.rows, 20_000) if options.quick else options.rows
    X, y = make_pinwheel(n, 5, tangential_spread=0.25, random_state=0)
    return tasks.hide_at_random(X, y, n // 1000, np.random.default_rng(0))


FITS = {
    "1500 × 241, 100 labels": (wide_rows, 2.0),
    "100 classes × 3 labels, 3000 rows": (many_classes, 10.0),
    "digits, 8 labels a class": (digits10, 1.0),
    "moons, 10⁶ rows, 1000 labels": (large(1000), None),
    "moons, 10⁶ rows, 10 000 labels": (large(10_000), None),
    "pinwheel, 10⁶ rows, 1000 labels": (large_pinwheel, None),
}


def speed(options):
    print("\n## Speed, processor seconds of one thread\n")
    small_ratios(options)
    names = options.chosen((DEFAULT,) if options.quick else (DEFAULT, GRAPH))
    for name in names:  # what is loaded on first use is not charged to a fit
        timed(tasks.MODELS[name], tasks.hide(*tasks.small_set("moons"), 4, tasks.stream(0)), 0)
    rows = []
    for title, (make, most) in FITS.items():
        if options.sets and not any(word in title for word in options.sets):
            continue
        problem = make(options)
        hidden = problem.hidden
        for name in names:
            repeats = 1 if len(problem.X) > 10_000 or options.quick else 3
            runs = [timed(tasks.MODELS[name], problem, r) for r in range(repeats)]
            p, _ = tasks.normalised(runs[0][1][hidden])
            found = tasks.measure(p, problem.y[hidden])
            rows.append([title, name, len(problem.X), shown(np.median([s for s, _ in runs]), 2),
                         "" if most is None else most, shown(found["error"], 4),
                         shown(found["log_loss"], 4), shown(peak_gib(), 2)])  # fmt: skip
            tasks.say(f"{title}, {name}: {rows[-1][3]} s")
    markdown(["fit", "model", "rows", "seconds", "wanted", "error", "log-loss",
              "largest memory so far, GiB"], rows)  # fmt: skip
    header = ["fit", "model", "rows", "seconds", "wanted", "error", "log_loss", "memory"]
    options.out.mkdir(parents=True, exist_ok=True)
    tasks.write_csv(options.out / "default_speed.csv", [dict(zip(header, row)) for row in rows])


def peak_gib():
    """Kilobytes on Linux, bytes on macOS."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
