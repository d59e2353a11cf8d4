"""Error and calibration on crescents against what a user would pick instead, in one run.

A hundred rows, twelve labels, ten draws of rows and labels, two thousand new rows; features are
standardised for all. Crescents of two widths: with noise 1.1, as in paper 001, hardly a row lies
between the classes; with noise 2.2 they overlap. Peers run as they come from scikit-learn;
LabelSpreading uses its k-nearest-neighbour kernel with its 7 neighbours. Seconds are of one
process, fit and prediction together.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
import warnings

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.semi_supervised import LabelSpreading

from atoll import (
    GraphGPClassifier,
    NullCategoryClassifier,
    ProbitGPClassifier,
    SoftmaxGPClassifier,
)
from atoll.datasets import hide_labels, make_crescents
from atoll.diagnostics import expected_calibration_error

N_DRAWS, N_TRAIN, N_TEST, PER_CLASS = 10, 100, 2000, 6
NOISES = (1.1, 2.2)

MODELS = {
    "atoll GraphGPClassifier": (lambda seed: GraphGPClassifier(random_state=seed), True),
    "atoll NullCategoryClassifier": (lambda seed: NullCategoryClassifier(random_state=seed), True),
    "atoll ProbitGPClassifier": (lambda seed: ProbitGPClassifier(random_state=seed), False),
    "atoll SoftmaxGPClassifier": (lambda seed: SoftmaxGPClassifier(random_state=seed), False),
    "sklearn GaussianProcessClassifier": (
        lambda seed: GaussianProcessClassifier(ConstantKernel() * RBF(), random_state=seed),
        False,
    ),
    "sklearn LabelSpreading (knn)": (lambda seed: LabelSpreading("knn", max_iter=1000), True),
    "sklearn LogisticRegression": (lambda seed: LogisticRegression(), False),
}


def problem(seed, noise):
    rng = np.random.default_rng(seed)
    X, truth = make_crescents(N_TRAIN, noise=noise, random_state=rng)
    y = hide_labels(truth, per_class=PER_CLASS, marker=-1, random_state=rng)
    X_test, y_test = make_crescents(N_TEST, noise=noise, random_state=rng)
    mean, scale = X.mean(axis=0), X.std(axis=0)
    return (X - mean) / scale, y, (X_test - mean) / scale, y_test


def measure(make, semi_supervised, seed, noise):
    X, y, X_test, y_test = problem(seed, noise)
    if not semi_supervised:
        X, y = X[y >= 0], y[y >= 0]
    model = make(seed)
    if hasattr(model, "unlabelled"):
        model.set_params(unlabelled=-1)
    began = time.process_time()
    p = model.fit(X, y).predict_proba(X_test)
    seconds = time.process_time() - began
    p = np.where(p.sum(axis=1, keepdims=True) > 0, p, 0.5)
    return (
        np.mean(model.classes_[p.argmax(axis=1)] != y_test),
        log_loss(y_test, np.clip(p, 1e-12, 1)),
        expected_calibration_error(p / p.sum(axis=1, keepdims=True), y_test),
        seconds,
    )


def main():
    print(__doc__.split("\n\n")[1])
    for noise in NOISES:
        print(
            f"\n{f'noise {noise}':36}{'error':>16}{'log-loss':>16}{'calibration':>16}{'seconds':>9}"
        )
        for name, (make, semi_supervised) in MODELS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of convergence, theirs and ours
                values = np.array(
                    [measure(make, semi_supervised, seed, noise) for seed in range(N_DRAWS)]
                )
            mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(N_DRAWS)
            cells = "".join(f"{m:8.3f} ± {e:.3f}" for m, e in zip(mean[:3], error[:3]))
            print(f"{name:36}{cells}{mean[3]:9.2f}", flush=True)


if __name__ == "__main__":
    main()
