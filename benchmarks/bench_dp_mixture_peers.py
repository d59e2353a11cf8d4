"""Dirichlet process mixtures against what a user would build instead, on six sets, in one run.

Half of each set's rows train and half test, in random splits; of the training half 2, 4 or 8 rows a
class keep their labels and the others are unlabelled. Features are standardised by the training
half (digits: its 20 principal components). Measured on the test half: log-loss (natural logarithm;
a probability below 1e-12 counts as 1e-12), error, and processor seconds of one thread.

- atoll: `DPMixtureClassifier`, as it comes (MAP-EM), and with `inference="vb"`.
- Gaussian mixture, BIC: a semi-supervised Gaussian mixture by maximum likelihood (EM, labelled rows
  clamped to their class), with the same number of components in every class, 1 to 6, and full or
  diagonal covariances, both chosen by BIC over labelled and unlabelled rows; four starts from
  k-means within each class, its unlabelled rows being those nearest to a labelled row of it; 1e-6
  is added to the diagonal of every covariance, as scikit-learn does. No library offers this, so it
  is written out here.
- BayesianGaussianMixture: scikit-learn's, one a class, on the labelled rows alone, as it comes but
  for the number of components: as many as labelled rows, twenty at most.

After ± stands a standard error over splits, which share rows in the three sets that are not made.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
import warnings

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.mixture import BayesianGaussianMixture
from sklearn.neighbors import KNeighborsClassifier

from atoll import DPMixtureClassifier
from atoll.core.files import atomic_path, check_writable
from atoll.datasets import make_pinwheel, make_rings, make_spirals

LABELS = (2, 4, 8)
FLOOR = 1e-12
MADE = {"rings": make_rings, "spirals": make_spirals, "pinwheels": make_pinwheel}
LOADED = {"wine": load_wine, "digits": load_digits, "breast cancer": load_breast_cancer}
SETS = (*MADE, *LOADED)
OURS = "atoll, MAP-EM"


# --- the problems ---------------------------------------------------------------------------------


def problem(name, n_labels, seed):
    """X, codes (-1 where unlabelled), X_test, y_test."""
    rng = np.random.default_rng([seed, n_labels])
    if name in MADE:
        X, y = MADE[name](1000, random_state=rng)
    else:
        X, y = LOADED[name](return_X_y=True)
    order = rng.permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    if name == "digits":
        pca = PCA(20, random_state=0).fit(X)
        X, X_test = pca.transform(X), pca.transform(X_test)
    mean, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale == 0] = 1.0
    codes = np.full(len(y), -1)
    for c in range(y.max() + 1):
        codes[np.flatnonzero(y == c)[:n_labels]] = c
    return (X - mean) / scale, codes, (X_test - mean) / scale, y_test


# --- the models: (X, codes, X_test, seed) -> log p(x, c), (n_test, n_classes) ---------------------


def atoll_mixture(**options):
    def log_joint(X, codes, X_test, seed):
        model = DPMixtureClassifier(unlabelled=-1, random_state=seed, **options).fit(X, codes)
        with np.errstate(divide="ignore"):
            return np.log(model.predict_proba(X_test))

    return log_joint


def one_mixture_a_class(X, codes, X_test, seed):
    columns = []
    for c in range(codes.max() + 1):
        rows = X[codes == c]
        mixture = BayesianGaussianMixture(n_components=min(len(rows), 20), random_state=seed)
        columns.append(mixture.fit(rows).score_samples(X_test))
    return np.column_stack(columns)  # as many labels in every class


def gaussian_mixture_by_bic(X, codes, X_test, seed):
    C = codes.max() + 1
    known = codes >= 0
    nearest = KNeighborsClassifier(1).fit(X[known], codes[known]).predict(X)
    best, fitted = np.inf, None
    for diagonal in (False, True):
        for k in range(1, 7):
            for start in range(4 if k > 1 else 1):
                found = maximum_likelihood(X, codes, nearest, C, k, diagonal, seed + start)
                if found is None:
                    continue
                n_free = C * k * (1 + 2 * X.shape[1]) if diagonal else (
                    C * k * (1 + X.shape[1] + X.shape[1] * (X.shape[1] + 1) // 2)
                )  # fmt: skip
                bic = (n_free - 1) * np.log(len(X)) - 2 * found[0]
                if bic < best:
                    best, fitted = bic, found[1]
    return logsumexp(component_scores(X_test, *fitted).reshape(len(X_test), C, -1), axis=2)


def component_scores(X, weights, means, covariances):
    scores = np.empty((len(X), len(weights)))
    for j, (weight, mean, covariance) in enumerate(zip(weights, means, covariances)):
        lower = np.linalg.cholesky(covariance)
        z = np.linalg.solve(lower, (X - mean).T)
        log_det = 2 * np.log(np.diag(lower)).sum()
        with np.errstate(divide="ignore"):
            scores[:, j] = np.log(weight) - 0.5 * (
                (z**2).sum(axis=0) + log_det + X.shape[1] * np.log(2 * np.pi)
            )
    return scores


def maximum_likelihood(X, codes, nearest, C, k, diagonal, seed):
    """Log-likelihood and (weights, means, covariances), or None where EM broke down."""
    n, d = X.shape
    R = np.zeros((n, C * k))
    for c in range(C):
        rows = np.flatnonzero(nearest == c)
        if len(rows) < k:
            return None
        cells = KMeans(k, n_init=1, random_state=seed).fit_predict(X[rows])
        R[rows, c * k + cells] = 1.0
    allowed = np.repeat(np.eye(C, dtype=bool), k, axis=1)
    known = codes >= 0
    previous = -np.inf
    for _ in range(200):
        N = R.sum(axis=0) + 1e-10
        weights, means = N / N.sum(), (R.T @ X) / N[:, None]
        covariances = np.empty((C * k, d, d))
        for j in range(C * k):
            centred = X - means[j]
            S = (R[:, j] * centred.T) @ centred / N[j]
            covariances[j] = (np.diag(np.diag(S)) if diagonal else S) + 1e-6 * np.eye(d)
        try:
            scores = component_scores(X, weights, means, covariances)
        except np.linalg.LinAlgError:
            return None
        scores[known] = np.where(allowed[codes[known]], scores[known], -np.inf)
        total = logsumexp(scores, axis=1)
        R = np.exp(scores - total[:, None])
        value = total.sum()
        if value - previous < 1e-5 * n:
            break
        previous = value
    return (value, (weights, means, covariances)) if np.isfinite(value) else None


MODELS = {
    OURS: atoll_mixture(),
    "atoll, variational Bayes": atoll_mixture(inference="vb"),
    "Gaussian mixture, BIC": gaussian_mixture_by_bic,
    "BayesianGaussianMixture, labelled rows": one_mixture_a_class,
}


# --- the tables -----------------------------------------------------------------------------------


def measure(model, X, codes, X_test, y_test, seed):
    """Log-loss, error and processor seconds."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, theirs and ours
        joint = model(X, codes, X_test, seed)
    seconds = time.process_time() - began
    log_p = joint - logsumexp(joint, axis=1, keepdims=True)
    loss = -np.maximum(log_p[np.arange(len(y_test)), y_test], np.log(FLOOR)).mean()
    return loss, np.mean(log_p.argmax(axis=1) != y_test), seconds


def cell(values):
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.3f} ± {error:.3f}"


def tables(results, sets):
    """`results[model]` is (sets, labels, splits, 3)."""
    lines = []
    for j, metric in enumerate(("Log-loss", "Error", "Seconds")):
        lines += [f"\n**{metric}**\n", "| | labels a class | " + " | ".join([*sets, "mean"]) + " |"]
        lines.append("|---" * (len(sets) + 3) + "|")
        for i, n_labels in enumerate(LABELS):
            for model, values in results.items():
                of_sets = [cell(values[s, i, :, j]) for s in range(len(sets))]
                mean = cell(values[:, i, :, j].mean(axis=0))
                lines.append(f"| {model} | {n_labels} | " + " | ".join([*of_sets, mean]) + " |")
        for model, values in results.items():
            mean = cell(values[:, :, :, j].mean(axis=(0, 1)))
            lines.append(f"| **{model}** | all | " + " | ".join([""] * len(sets) + [mean]) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--write", metavar="PATH", help="write the tables to this file as well")
    options = parser.parse_args()
    if options.write:
        check_writable(options.write)
    shape = (len(options.sets), len(LABELS), options.splits, 3)
    results = {model: np.empty(shape) for model in options.models}
    for s, name in enumerate(options.sets):
        for i, n_labels in enumerate(LABELS):
            for seed in range(options.splits):
                one = problem(name, n_labels, seed)
                for model in options.models:
                    results[model][s, i, seed] = measure(MODELS[model], *one, seed)
            found = {model: cell(values[s, i, :, 0]) for model, values in results.items()}
            print(f"{name}, {n_labels} labels a class: {found}", file=sys.stderr, flush=True)
    text = f"# {__doc__}\n{options.splits} splits.\n{tables(results, options.sets)}\n"
    print(text)
    if options.write:
        with atomic_path(options.write) as temporary:
            temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
