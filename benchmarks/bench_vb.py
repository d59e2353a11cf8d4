"""Seconds to fit: variational Bayes against scikit-learn's GaussianProcessClassifier, in one run.

Both find the kernel's variance and length-scale. One thread; the two take turns. Then what n costs:
a variational fit, a Gibbs sweep and scikit-learn's fit against the number of rows, as a picture in
benchmarks/output/.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from pathlib import Path

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF

from atoll import ProbitGPClassifier
from atoll.core.files import atomic_path
from atoll.datasets import make_crescents, make_pinwheel
from atoll.kernels.hyperparameters import kernel_prior
from atoll.models import probit_gp

REPEATS = 5
SIZES = (250, 500, 1000, 2000)
LARGEST_PEER = 1000  # scikit-learn's fit of 2000 rows takes minutes
OUTPUT = Path(__file__).parent / "output"


def data(n, n_classes):
    if n_classes == 2:
        return make_crescents(n, random_state=0)
    return make_pinwheel(n, n_classes=n_classes, random_state=0)


def seconds_of_vb(X, y):
    began = time.process_time()
    ProbitGPClassifier(inference="vb").fit(X, y)
    return time.process_time() - began


def seconds_of_peer(X, y):
    began = time.process_time()
    GaussianProcessClassifier(1.0 * RBF(1.0)).fit(X, y)
    return time.process_time() - began


def seconds_of_sweep(X, y, n_classes, n_sweeps=5):
    sampler = probit_gp.sampler(X, y, kernel_prior("isotropic", X), n_classes)
    rng = np.random.default_rng(0)
    state = sampler.sweep(rng, sampler.init(rng), True)
    began = time.process_time()
    for _ in range(n_sweeps):
        state = sampler.sweep(rng, state, False)
    return (time.process_time() - began) / n_sweeps


def race():
    print(f"Seconds to fit 500 rows, median of {REPEATS}, one thread")
    print(f"{'':16}{'vb':>10}{'sklearn':>10}{'ratio':>8}")
    for n_classes in (2, 3):
        X, y = data(500, n_classes)
        times = np.array([(seconds_of_vb(X, y), seconds_of_peer(X, y)) for _ in range(REPEATS)])
        ours, peer = np.median(times, axis=0)
        print(f"{n_classes} classes{'':7}{ours:10.2f}{peer:10.2f}{peer / ours:8.1f}")


def cost_against_n():
    costs = {}
    print("\nSeconds against n")
    print(f"{'n':>6}{'classes':>9}{'vb fit':>10}{'sweep':>10}{'sklearn fit':>13}")
    for n_classes in (2, 3):
        for n in SIZES:
            X, y = data(n, n_classes)
            row = (
                seconds_of_vb(X, y),
                seconds_of_sweep(X, y, n_classes, n_sweeps=5 if n < 2000 else 2),
                seconds_of_peer(X, y) if n <= LARGEST_PEER else np.nan,
            )
            costs[n_classes, n] = row
            print(f"{n:6d}{n_classes:9d}{row[0]:10.2f}{row[1]:10.3f}{row[2]:13.2f}", flush=True)
    return costs


def draw(costs):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axis, n_classes in zip(figure.subplots(1, 2, sharey=True), (2, 3)):
        rows = np.array([costs[n_classes, n] for n in SIZES])
        names = ("variational fit", "Gibbs, 2000 sweeps", "scikit-learn's Laplace fit")
        for name, values, marker in zip(names, (rows * [1, 2000, 1]).T, "os^"):
            axis.loglog(SIZES, values, marker=marker, label=name)
        axis.set(title=f"{n_classes} classes", xlabel="labelled rows n")
        axis.set_xticks(SIZES, [str(n) for n in SIZES])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.set_ylabel("seconds, one thread" if n_classes == 2 else "")
    axis.legend(fontsize="small")
    OUTPUT.mkdir(exist_ok=True)
    with atomic_path(OUTPUT / "cost_against_n.png") as path:
        figure.savefig(path, dpi=120)
    print(f"\nPicture in {OUTPUT.name}/cost_against_n.png")


if __name__ == "__main__":
    race()
    draw(cost_against_n())
