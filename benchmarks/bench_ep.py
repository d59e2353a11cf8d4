"""Expectation propagation against GPy's, and what the informative vector machine costs.

1. Binary probit, n = 500, two features: the log evidence and its gradient by expectation
   propagation at the same ten settings of the kernel, one after the other, as a fit asks for them;
   each side may start from where the setting before left it. GPy in its nested mode: its default
   propagates once and then holds the sites, whatever the kernel. They take turns, three times. CPU
   seconds of one thread. GPy asks for an older NumPy than atoll does, so it runs in a Python of its
   own, named by `--gpy-python` or ATOLL_GPY_PYTHON, made by `pip install GPy "numpy<1.24"
   "scipy<1.11" "matplotlib<3.8"`; without it atoll is timed alone.
2. `InformativeVectorClassifier` with 100 active rows on 10 000 labelled ones: seconds, and the peak
   of memory allocated, there and at twice and four times as many rows.
3. Seconds of a selection of d active rows from n, drawn in benchmarks/output/ep_cost.png.
4. `NullCategoryClassifier` on crescents by Gibbs sampling, variational Bayes, EP and ADF: error,
   log-loss on new rows, seconds.
5. Three classes by EP, jointly and each against the rest, and by variational Bayes: log-loss on new
   rows where classes are apart, where they overlap, and where the model itself drew them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

# atoll and GPy are imported where they are used: GPy's Python runs this file as well.

N, N_SETTINGS, N_TURNS = 500, 10, 3
OUTPUT = Path(__file__).parent / "output"


def problem():
    """Rows, labels and settings (log variance, log length-scale), the same for both sides."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=N) > 0
    path = np.linspace(0, 1, N_SETTINGS)[:, None] * [2.0, 0.7] + [0.5, -0.2]
    return X, y.astype(int), path


def atoll_side():
    from atoll.inference import ep
    from atoll.kernels.hyperparameters import gram_function, gram_gradient_function, kernel_prior
    from atoll.likelihoods import probit

    X, y, path = problem()
    began = time.process_time()
    prior, regions = kernel_prior("isotropic", X), probit.regions(y)
    gram, gradient = gram_function(prior, X), gram_gradient_function(prior, X)
    sites, values = ep.no_sites(N), []
    for theta in path:
        C = gram(theta)
        found = ep.propagate(C, regions, sites)
        b, sites = found.weights, found.sites
        slope = gradient(theta, C, 0.5 * (np.outer(b, b) - found.site_inverse))
        values.append([found.log_evidences[-1], *slope])
    return time.process_time() - began, values


def gpy_side():
    import GPy

    warnings.simplefilter("ignore")
    X, y, path = problem()
    began = time.process_time()
    kernel = GPy.kern.RBF(2, variance=np.exp(path[0, 0]), lengthscale=np.exp(path[0, 1]))
    model = GPy.core.GP(
        X,
        y[:, None].astype(float),
        kernel,
        GPy.likelihoods.Bernoulli(),
        inference_method=GPy.inference.latent_function_inference.EP(ep_mode="nested"),
    )
    values = []
    for log_variance, log_length_scale in path:
        model[:] = [np.exp(log_variance), np.exp(log_length_scale)]
        slope = model.gradient * np.exp([log_variance, log_length_scale])
        values.append([float(model.log_likelihood()), *slope.tolist()])
    return time.process_time() - began, values


def against_gpy(python):
    def theirs():
        ran = subprocess.run(
            [python, __file__, "--gpy-side"], check=True, capture_output=True, text=True
        )
        return json.loads(ran.stdout.splitlines()[-1])

    times = {"atoll": [], "GPy": []}
    atoll_side()  # not timed: the first touches the libraries
    for _ in range(N_TURNS):
        seconds, ours = atoll_side()
        times["atoll"].append(seconds)
        if python:
            seconds, other = theirs()
            times["GPy"].append(seconds)
    print(f"Log evidence and gradient by EP at {N_SETTINGS} settings, n = {N}, one thread")
    mine = float(np.median(times["atoll"]))
    print(f"  atoll                            {mine:8.2f} s")
    if not python:
        print("  GPy                              not run: name its Python by --gpy-python")
        return
    peer = float(np.median(times["GPy"]))
    apart = np.abs(np.array(ours)[:, 0] - np.array(other)[:, 0]).max()
    print(f"  GPy                              {peer:8.2f} s")
    print(f"  ratio                            {mine / peer:8.2f}    wanted: at most 1")
    print(f"  largest difference of the log evidence {apart:.1e}")


def informative_vectors():
    from sklearn.exceptions import ConvergenceWarning

    from atoll import InformativeVectorClassifier
    from atoll.datasets import make_crescents

    warnings.simplefilter("ignore", ConvergenceWarning)
    print("InformativeVectorClassifier, 100 active rows, one thread")
    for n in (10_000, 20_000, 40_000):
        X, y = make_crescents(n, random_state=0)
        model = InformativeVectorClassifier(n_active=100)
        began = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - began
        tracemalloc.start()
        InformativeVectorClassifier(n_active=100, n_rounds=1).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        wanted = "    wanted: below 30" if n == 10_000 else ""
        print(
            f"  {n:6d} rows  {seconds:7.1f} s, {model.diagnostics_['n_iterations']} rounds, "
            f"{peak / 1e6:6.1f} MB, {peak / n:6.0f} bytes a row{wanted}"
        )


def cost():
    from matplotlib.figure import Figure

    from atoll.datasets import make_crescents
    from atoll.inference.adf import filter_rows
    from atoll.kernels.hyperparameters import kernel_prior
    from atoll.likelihoods import null_category
    from atoll.models.informative_vector import kernel_access

    def seconds(n, d):
        X, y = make_crescents(n, random_state=0)
        prior = kernel_prior("isotropic", X)
        access = kernel_access(prior, X)
        regions = null_category.regions(y, np.arange(n) % 10 == 0, 1.0)
        column, diagonal = access.column(prior.mean), access.diagonal(prior.mean)
        times = []
        for _ in range(3):
            began = time.process_time()
            filter_rows(column, diagonal, regions, d)
            times.append(time.process_time() - began)
        return min(times)

    seconds(1000, 20)
    sizes, actives = (1000, 2000, 5000, 10_000, 20_000), (25, 50, 100, 200, 400)
    by_n, by_d = [seconds(n, 100) for n in sizes], [seconds(5000, d) for d in actives]
    print("Seconds of one selection, null category")
    print("  100 active, by rows   " + ", ".join(f"{n}: {t:.2f}" for n, t in zip(sizes, by_n)))
    print("  5000 rows, by active  " + ", ".join(f"{d}: {t:.2f}" for d, t in zip(actives, by_d)))
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axis, x, t, label in (
        (left, sizes, by_n, "rows, 100 active"), (right, actives, by_d, "active rows of 5000")
    ):  # fmt: skip
        axis.loglog(x, t, "o-", color="#2166ac", label="measured")
        axis.loglog(x, t[0] * np.array(x) / x[0], ":", color="grey", label="linear")
        axis.set_xlabel(label)
        axis.set_xticks(x, [f"{value}" for value in x])
        axis.minorticks_off()
        axis.legend()
    left.set_ylabel("seconds of a selection")
    OUTPUT.mkdir(exist_ok=True)
    figure.savefig(OUTPUT / "ep_cost.png", dpi=110)


def engines(n_draws):
    from sklearn.exceptions import ConvergenceWarning

    from atoll import NullCategoryClassifier
    from atoll.datasets import make_crescents

    warnings.simplefilter("ignore", ConvergenceWarning)
    ways = {"mcmc": {}, "vb": {}, "ep": {}, "adf": {}, "adf, 100 active": {"n_active": 100}}
    for n in (200, 400):
        print(f"NullCategoryClassifier, crescents of {n} rows, 5 labels a class, {n_draws} draws")
        rows = {name: [] for name in ways}
        for seed in range(n_draws):
            rng = np.random.default_rng(seed)
            X, truth = make_crescents(n, random_state=rng)
            new, new_truth = make_crescents(1000, random_state=rng)
            y = np.full(n, None, dtype=object)
            for c in (0, 1):
                y[rng.choice(np.flatnonzero(truth == c), 5, replace=False)] = c
            for name, options in ways.items():
                if name == "mcmc":
                    if n > 200:
                        continue
                    options = {"n_chains": 2, "n_warmup": 100, "n_samples": 150}
                model = NullCategoryClassifier(
                    inference=name.split(",")[0], random_state=0, **options
                )
                began = time.process_time()
                p = model.fit(X, y).predict_proba(new)
                seconds = time.process_time() - began
                own = np.maximum(p[np.arange(1000), new_truth], 1e-12)
                rows[name].append([np.mean(p.argmax(axis=1) != new_truth), -np.log(own).mean(),
                                   seconds])  # fmt: skip
        for name, values in rows.items():
            if values:
                error, loss, seconds = np.mean(values, axis=0)
                se = np.std(values, axis=0, ddof=1)[1] / np.sqrt(len(values))
                print(f"  {name:18s} error {error:.4f}, log-loss {loss:.4f} ± {se:.4f}, "
                      f"{seconds:6.2f} s")  # fmt: skip


def three_classes(name, seed):
    """X, labels, new rows and their labels."""
    from sklearn.datasets import load_wine
    from sklearn.preprocessing import StandardScaler

    from atoll.datasets import make_pinwheel
    from atoll.kernels.hyperparameters import kernel_prior
    from atoll.models import probit_gp

    rng, n_labels = np.random.default_rng(seed), 54
    if name == "wine":
        X, y = load_wine(return_X_y=True)
        order = rng.permutation(len(y))
        X, y = StandardScaler().fit_transform(X)[order], y[order]
    elif name == "the model's own":
        X = rng.normal(size=(300, 2))
        _, _, y = probit_gp.sample_prior(rng, X, kernel_prior("isotropic", X), 3)
    else:
        X, y = make_pinwheel(454, n_classes=3, random_state=rng)
        X = X + (name == "pinwheel, blurred") * rng.standard_normal(X.shape)
    return X[:n_labels], y[:n_labels], X[n_labels:], y[n_labels:]


def joint_sites(n_draws):
    from atoll import InformativeVectorClassifier, ProbitGPClassifier

    ways = {
        "EP, jointly": lambda: ProbitGPClassifier(inference="ep"),
        "EP, each against the rest": lambda: InformativeVectorClassifier(
            inference="ep", n_active=None
        ),
        "variational Bayes": lambda: ProbitGPClassifier(inference="vb"),
    }
    print(f"Three classes, 54 labels, {n_draws} draws: log-loss on new rows")
    for name in ("pinwheel", "pinwheel, blurred", "wine", "the model's own"):
        losses = {way: [] for way in ways}
        for seed in range(n_draws):
            X, y, new, truth = three_classes(name, seed)
            if len(set(y)) < 3:
                continue
            for way, make in ways.items():
                p = make().fit(X, y).predict_proba(new)
                losses[way].append(-np.log(p[np.arange(len(truth)), truth]).mean())
        for way, values in losses.items():
            error = np.std(values, ddof=1) / np.sqrt(len(values))
            print(f"  {name:18s} {way:26s} {np.mean(values):.4f} ± {error:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gpy-side", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--gpy-python", default=os.environ.get("ATOLL_GPY_PYTHON"))
    parser.add_argument("--only", choices=["gpy", "ivm", "cost", "engines", "joint"])
    parser.add_argument("--draws", type=int, default=10, help="of the crescents")
    options = parser.parse_args()
    if options.gpy_side:
        print(json.dumps(gpy_side()))
        return
    parts = {
        "gpy": lambda: against_gpy(options.gpy_python),
        "ivm": informative_vectors,
        "cost": cost,
        "engines": lambda: engines(options.draws),
        "joint": lambda: joint_sites(options.draws),
    }
    for name, part in parts.items():
        if options.only in (None, name):
            part()
            sys.stdout.flush()


if __name__ == "__main__":
    main()
