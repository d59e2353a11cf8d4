"""How `format1.tar.xz` was made: `python make_format1.py` with atoll 0.1 (commit c2bf815).

It holds a model file of every case, and in `predictions.npz` what each model predicted then. The
names in here are those of atoll 0.1; later versions write another format.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

import atoll
from atoll.estimators import graph_gp

ARCHIVE = Path(__file__).with_name("format1.tar.xz")
CHAINS = {"n_chains": 1, "n_warmup": 2, "n_samples": 3, "random_state": 0}
GIBBS = {"inference": "gibbs", **CHAINS}
MIXTURE = {"n_components": 2, "n_starts": 1, "random_state": 0}


def rows_of(n_classes, n=12, n_features=2):
    """Rows of classes 0, 1, ... in a line, the last third of them unlabelled."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % n_classes
    X = rng.normal(size=(n, n_features)) * 0.4 + truth[:, None]
    return X, np.where(np.arange(n) < 2 * n // 3, truth, None)


# name -> (class, parameters, number of classes)
CASES = {
    "softmax": ("SoftmaxGPClassifier", CHAINS, 3),
    "probit-gibbs": (
        "ProbitGPClassifier",
        {"kernel": ConstantKernel(2.0) * Matern(1.5, nu=1.5), **GIBBS},
        3,
    ),
    "probit-vb": ("ProbitGPClassifier", {"inference": "vb"}, 3),
    "probit-ep-2": ("ProbitGPClassifier", {"inference": "ep"}, 2),
    "probit-ep-3": ("ProbitGPClassifier", {"inference": "ep"}, 3),
    "ordinal-gibbs": ("OrdinalGPClassifier", {"null_width": 0.5, **GIBBS}, 3),
    "ordinal-vb": ("OrdinalGPClassifier", {"inference": "vb"}, 3),
    "ordinal-ep": ("OrdinalGPClassifier", {"inference": "ep"}, 3),
    "null-gibbs-2": ("NullCategoryClassifier", {"missing_rates": "sample", **GIBBS}, 2),
    "null-gibbs-3": ("NullCategoryClassifier", GIBBS, 3),
    "null-ep": ("NullCategoryClassifier", {"inference": "ep"}, 3),
    "null-adf": ("NullCategoryClassifier", {"inference": "adf", "n_active": 8}, 2),
    "informative": ("InformativeVectorClassifier", {"n_active": 5}, 3),
    "archipelago-own": (
        "ArchipelagoClassifier",
        {"own_kernels": True, "dependent": True, "base_density": "sampled-gaussian", **CHAINS},
        2,
    ),
    "archipelago-mixture": ("ArchipelagoClassifier", {"base_density": "mixture", **CHAINS}, 3),
    "archipelago-density": ("ArchipelagoDensity", CHAINS, 1),
    "graph-cone": ("GraphGPClassifier", {"n_draws": 20, "random_state": 0}, 3),
    "graph-softmax": ("GraphGPClassifier", {"n_draws": 20, "random_state": 0}, 2),
    "graph-normal": ("GraphGPClassifier", {"n_draws": 20, "random_state": 0}, 2),
    "ssgp-ep": ("SSGPClassifier", {"kernel": RBF(1.0, "fixed"), "n_neighbors": 4}, 2),
    "ssgp-sample": (
        "SSGPClassifier",
        {"selection": None, "n_warmup": 2, "n_samples": 5, "n_neighbors": 4, "random_state": 0},
        3,
    ),
    "ssgp-regressor": ("GraphGPRegressor", {"n_neighbors": 4}, 3),
    "laplacian-svc": ("LaplacianSVC", {"n_neighbors": 4}, 2),
    "laplacian-rls": ("LaplacianRLSClassifier", {"n_neighbors": 4}, 3),
    "transductive-svc": ("TransductiveSVC", {}, 3),
    "mixture-vb": ("DPMixtureClassifier", {"inference": "vb", "extra_classes": 1, **MIXTURE}, 2),
    "mixture-online": (
        "DPMixtureClassifier",
        {"covariance": "factor", "n_factors": 1, **MIXTURE},
        2,
    ),
}


def fitted(name):
    class_name, parameters, n_classes = CASES[name]
    X, y = rows_of(n_classes)
    model = getattr(atoll, class_name)(**parameters)
    if name == "graph-softmax":
        graph_gp.MOST_A_CLASS = 0
    if name == "graph-normal":
        graph_gp.MOST_A_CLASS = graph_gp.MOST_COEFFICIENTS = 0
    if class_name.endswith("Density"):
        return model.fit(X), X
    if class_name.endswith("Regressor"):
        return model.fit(X, y.astype(float)), X
    if name == "mixture-online":
        return model.partial_fit(X, y, classes=[0, 1]), X
    return model.fit(X, y), X


def predictions(model, rows):
    """What a model predicts: name of the method -> array."""
    found = {"rows": rows}
    for method in ("predict_proba", "decision_function", "score_samples"):
        if hasattr(model, method):
            found[method] = getattr(model, method)(rows)
    if hasattr(model, "predict_latent"):
        found["latent_mean"], found["latent_variance"] = model.predict_latent(rows)
    if hasattr(model, "transduction_"):
        found["transduction"] = np.asarray(model.transduction_).astype(str)
    if not hasattr(model, "classes_") and hasattr(model, "predict"):
        found["mean"], found["deviation"] = model.predict(rows, return_std=True)
    return found


def make_bundle(path):
    """A file of the command line: a numeric column, a column of words, strings for labels."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        X, y = rows_of(2)
        lines = ["size,hue,kind"]
        for (size, _), label, hue in zip(X, y, ["red", "blue", "green"] * 4):
            lines.append(f"{size:.3f},{hue},{'' if label is None else ('cat', 'dog')[label]}")
        table.write_text("\n".join(lines) + "\n")
        command = "from atoll.cli import main; main()"
        fit = [sys.executable, "-c", command, "fit", str(table), "--target", "kind", "--encode"]
        fit += ["--model", "probit-gp", "--inference", "vb", "--out", str(path), "--quiet"]
        subprocess.run(fit, check=True)


def make(folder):
    """Write the files of all cases, and the predictions, into a folder."""
    recorded = {}
    for name in CASES:
        model, X = fitted(name)
        atoll.save_model(model, folder / f"{name}.atoll")
        rows = np.concatenate([X[:3] + 0.1, X[:1] + 50.0])
        recorded |= {f"{name}/{what}": v for what, v in predictions(model, rows).items()}
    make_bundle(folder / "bundle.atoll")
    bundle = atoll.load_model(folder / "bundle.atoll")
    found = predictions(bundle.estimator, bundle.X[:3])
    recorded |= {f"bundle/{what}": v for what, v in found.items()}
    np.savez(folder / "predictions.npz", **recorded)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(ARCHIVE, "w:xz") as archive:
        make(Path(folder))
        for path in sorted(Path(folder).iterdir()):
            archive.add(path, path.name)
