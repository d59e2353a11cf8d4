"""Labels that have nothing to do with the rows: what models say of them beside their shares.

Each model is fitted twice to a draw of rows and labels: as it is, and with the classes of all rows
permuted, so that nothing can be known but their shares. Two, four and eight labels per class. The
priors of the belief in a model (`atoll.models.belief`) and the limits of its warning were chosen on
other sets: three and five noisy arms, moons, one cloud cut by a line, iris, wine, breast cancer's
means, heart, vehicle.

Every run writes one line of JSON to --out, and runs that the file holds are not repeated; `--tell`
prints the table: log-loss less that of the labels' own shares, as it is and as the model's own word
has it, the largest value, belief, and how often the verdict says that labels do not bear the model
out. `--share 1/2` runs every second task, from the second on.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_blobs, make_circles
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from atoll import (
    ArchipelagoClassifier,
    InformativeVectorClassifier,
    LaplacianRLSClassifier,
    LaplacianSVC,
    NullCategoryClassifier,
    ProbitGPClassifier,
    SSGPClassifier,
    TransductiveSVC,
)
from atoll.datasets import hide_labels, make_pinwheel

OUTPUT = Path(__file__).parent / "output" / "permuted.jsonl"
FIRST_SEED, N_ROWS, N_TEST = 900, 60, 300
MODELS = {
    "archipelago, chains": lambda seed: ArchipelagoClassifier(inference="mcmc", random_state=seed),
    "archipelago, engine": lambda seed: ArchipelagoClassifier(inference="vi", random_state=seed),
    "null category, chains": lambda seed: NullCategoryClassifier(
        inference="mcmc", random_state=seed
    ),
    "null category, variational Bayes": lambda _: NullCategoryClassifier(inference="vb"),
    "null category, expectation propagation": lambda _: NullCategoryClassifier(inference="ep"),
    "null category, filtering": lambda _: NullCategoryClassifier(inference="adf"),
    "probit, variational Bayes": lambda _: ProbitGPClassifier(inference="vb"),
    "probit, expectation propagation": lambda _: ProbitGPClassifier(inference="ep"),
    "informative vectors": lambda _: InformativeVectorClassifier(),
    "SSGP": lambda seed: SSGPClassifier(random_state=seed),
    "Laplacian SVM": lambda seed: LaplacianSVC(random_state=seed),
    "Laplacian least squares": lambda seed: LaplacianRLSClassifier(random_state=seed),
    "transductive SVM": lambda seed: TransductiveSVC(random_state=seed),
}


def _cancer():
    data = load_breast_cancer()
    return data.data[:, 20:], data.target


def _digits():
    data = load_digits(n_class=3)
    return PCA(8, random_state=0).fit_transform(data.data), data.target


SETS = {
    "four arms": lambda seed: make_pinwheel(N_ROWS + N_TEST, 4, random_state=seed),
    "circles": lambda seed: make_circles(N_ROWS + N_TEST, noise=0.1, factor=0.4, random_state=seed),
    "blobs": lambda seed: make_blobs(N_ROWS + N_TEST, centers=4, random_state=seed),
    "cancer, worst values": lambda _: _cancer(),
    "digits 0 to 2, eight scores": lambda _: _digits(),
}


def problem(name, per_class, is_permuted, seed):
    X, y = SETS[name](seed)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if is_permuted:
        y = np.random.default_rng(seed).permutation(y)
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=N_ROWS, test_size=N_TEST, stratify=y, random_state=seed
    )
    return X, hide_labels(y, per_class=per_class, random_state=seed), X_test, y_test


def run(model, name, per_class, is_permuted, seed):
    X, y, X_test, y_test = problem(name, per_class, is_permuted, seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = MODELS[model](seed).fit(X, y)
    posterior, at = fitted.posterior_, (np.arange(len(y_test)), y_test)
    own = None
    if hasattr(posterior, "doubt"):
        own = posterior._replace(doubt=0.0).log_proba(X_test)[at]
    p = fitted.predict_proba(X_test)[at]
    return {
        "log_loss": float(-np.log(np.maximum(p, 1e-12)).mean()),
        "without_doubt": None if own is None else float(-np.maximum(own, np.log(1e-12)).mean()),
        "of_shares": float(np.log(len(fitted.classes_))),  # as many labels of each class
        "belief": fitted.diagnostics_["held_out"]["belief"],
        "warned": "do not bear out" in fitted.diagnostics_["verdict"],
        "cpu": time.process_time() - began,
    }


def tell(path):
    found = defaultdict(list)
    for line in path.read_text().splitlines():
        one = json.loads(line)
        found[one["model"], one["per_class"], one["is_permuted"], one["name"]].append(one)
        found[one["model"], one["per_class"], one["is_permuted"], "all"].append(one)
    print(
        "| model | labels | classes | set | fits | log-loss − shares' | largest | own word's "
        "| belief | told |"
    )
    print("|---" * 10 + "|")
    for (model, per_class, is_permuted, name), runs in sorted(found.items()):
        more = np.array([r["log_loss"] - r["of_shares"] for r in runs])
        belief, warned = (np.mean([r[what] for r in runs]) for what in ("belief", "warned"))
        own = [r["without_doubt"] - r["of_shares"] for r in runs if r.get("without_doubt")]
        own_word = f"{np.mean(own):+.3f}" if own else ""
        print(
            f"| {model} | {per_class} | {'permuted' if is_permuted else 'true'} | {name} | "
            f"{len(runs)} | {more.mean():+.3f} ± {more.std() / len(more) ** 0.5:.3f} | "
            f"{more.max():+.3f} | {own_word} | {belief:.2f} | {warned:.0%} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    parser.add_argument("--tell", action="store_true")
    options = parser.parse_args()
    if options.tell:
        tell(options.out)
        return
    options.out.parent.mkdir(exist_ok=True)
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    keys = ("model", "name", "per_class", "is_permuted", "seed")
    done = {tuple(json.loads(line)[key] for key in keys) for line in lines}
    every = [
        (model, name, per_class, is_permuted, FIRST_SEED + s)
        for model in options.models for s in range(options.seeds) for name in SETS
        for per_class in (8, 4, 2) for is_permuted in (True, False)
    ]  # fmt: skip
    part, parts = (int(number) for number in options.share.split("/"))
    for task in every[part::parts]:
        if task not in done:
            found = dict(zip(keys, task, strict=True)) | run(*task)
            with options.out.open("a") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
