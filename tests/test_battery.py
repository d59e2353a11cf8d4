"""Small fits with fixed seeds, over every estimator and inference: what a refactoring may not move.

`python tests/test_battery.py` records what the present code predicts in `battery.npz`; named
cases after it are recorded alone.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_ndtr
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

import atoll
from atoll.datasets import hide_labels, make_crescents, make_pinwheel
from atoll.estimators.shell import NOT_SAVED

RECORD = Path(__file__).with_name("battery.npz")
CHAINS = {"n_chains": 2, "n_warmup": 15, "n_samples": 12}


def two_classes(n=40, per_class=5):
    X, truth = make_crescents(n_samples=n, random_state=1)
    return X, hide_labels(truth, per_class=per_class, marker=None, random_state=2)


def three_classes(n=36, per_class=4):
    X, truth = make_pinwheel(n_samples=n, n_classes=3, random_state=1)
    return X, hide_labels(truth, per_class=per_class, marker=None, random_state=2)


def ranks():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 3, size=(24, 1))
    y = np.clip(X[:, 0] + 0.2 * rng.standard_normal(24), 0, 2.9).astype(int).astype(object)
    y[::4] = None
    return X, y


def many_features():
    rng = np.random.default_rng(4)
    y = np.repeat([0, 1], 20).astype(object)
    X = rng.normal(size=(40, 7)) + np.repeat([0, 1], 20)[:, None]
    y[rng.permutation(40)[:26]] = None
    return X, y


# name -> (class, parameters, data)
CASES = {
    "softmax-2": ("SoftmaxGPClassifier", CHAINS, two_classes),
    "softmax-3": ("SoftmaxGPClassifier", CHAINS, three_classes),
    "softmax-ard": ("SoftmaxGPClassifier", {"kernel": "ard", **CHAINS}, three_classes),
    "probit-mcmc-2": ("ProbitGPClassifier", {"inference": "mcmc", **CHAINS}, two_classes),
    "probit-mcmc-3": ("ProbitGPClassifier", {"inference": "mcmc", **CHAINS}, three_classes),
    "probit-matern": (
        "ProbitGPClassifier",
        {"kernel": ConstantKernel(2.0) * Matern(1.5, nu=1.5), **CHAINS},
        two_classes,
    ),
    "probit-vb-2": ("ProbitGPClassifier", {"inference": "vb"}, two_classes),
    "probit-vb-3": ("ProbitGPClassifier", {"inference": "vb"}, three_classes),
    "probit-ep-2": ("ProbitGPClassifier", {"inference": "ep"}, two_classes),
    "ordinal-mcmc": ("OrdinalGPClassifier", {"inference": "mcmc", **CHAINS}, ranks),
    "ordinal-null": (
        "OrdinalGPClassifier",
        {"inference": "mcmc", "null_width": 0.5, **CHAINS},
        ranks,
    ),
    "ordinal-vb": ("OrdinalGPClassifier", {"inference": "vb"}, ranks),
    "ordinal-ep": ("OrdinalGPClassifier", {"inference": "ep"}, ranks),
    "null-mcmc-2": ("NullCategoryClassifier", {"inference": "mcmc", **CHAINS}, two_classes),
    "null-mcmc-3": ("NullCategoryClassifier", {"inference": "mcmc", **CHAINS}, three_classes),
    "null-sampled": (
        "NullCategoryClassifier",
        {"inference": "mcmc", "null_width": "sample", "missing_rates": "sample", **CHAINS},
        two_classes,
    ),
    "null-vb-2": ("NullCategoryClassifier", {"inference": "vb"}, two_classes),
    "null-vb-3": ("NullCategoryClassifier", {"inference": "vb"}, three_classes),
    "null-ep-2": ("NullCategoryClassifier", {"inference": "ep", "bias": "share"}, two_classes),
    "null-ep-3": ("NullCategoryClassifier", {"inference": "ep"}, three_classes),
    "null-adf": ("NullCategoryClassifier", {"inference": "adf", "n_active": 20}, two_classes),
    "informative-2": ("InformativeVectorClassifier", {"n_active": 8}, two_classes),
    "informative-3": ("InformativeVectorClassifier", {"inference": "ep"}, three_classes),
    "archipelago-2": ("ArchipelagoClassifier", CHAINS, two_classes),
    "archipelago-3": ("ArchipelagoClassifier", {"thin": 1, **CHAINS}, three_classes),
    "archipelago-paper": ("ArchipelagoClassifier", {"moves": "paper", **CHAINS}, three_classes),
    "archipelago-whitened": (
        "ArchipelagoClassifier",
        {"moves": "paper-whitened", **CHAINS},
        three_classes,
    ),
    "archipelago-own": (
        "ArchipelagoClassifier",
        {"own_kernels": True, "dependent": True, "extra_classes": 1, **CHAINS},
        three_classes,
    ),
    "archipelago-sampled-base": (
        "ArchipelagoClassifier",
        {"base_density": "sampled-gaussian", **CHAINS},
        two_classes,
    ),
    "archipelago-mixture": (
        "ArchipelagoClassifier",
        {"base_density": "mixture", "kernel": "ard", **CHAINS},
        two_classes,
    ),
    "archipelago-density": ("ArchipelagoDensity", CHAINS, two_classes),
    "atoll-2": ("AtollClassifier", {"n_draws": 40}, two_classes),
    "atoll-3": ("AtollClassifier", {"n_draws": 40}, three_classes),
    "atoll-many": ("AtollClassifier", {"n_draws": 40}, many_features),
    "graph-cone-2": ("GraphGPClassifier", {"n_draws": 40}, two_classes),
    "graph-cone-3": ("GraphGPClassifier", {"n_draws": 40}, lambda: three_classes(80, 3)),
    "graph-softmax-2": ("GraphGPClassifier", {"n_draws": 80}, lambda: two_classes(80, 15)),
    "graph-softmax-3": ("GraphGPClassifier", {"n_draws": 80}, lambda: three_classes(90, 15)),
    "graph-part": (
        "GraphGPClassifier",
        {"n_draws": 40, "max_graph_rows": 100},
        lambda: two_classes(180, 3),
    ),
    "ssgp-ep": ("SSGPClassifier", {}, two_classes),
    "ssgp-mcmc-3": (
        "SSGPClassifier",
        {"inference": "mcmc", "selection": None, "n_warmup": 5, "n_samples": 20},
        three_classes,
    ),
    "ssgp-average": (
        "SSGPClassifier",
        {"selection": "average", "kernel": RBF(1.0, "fixed")},
        two_classes,
    ),
    "ssgp-grid": ("SSGPClassifier", {"selection": "grid", "evidence": "full"}, two_classes),
    "laplacian-svc": ("LaplacianSVC", {}, two_classes),
    "laplacian-rls": ("LaplacianRLSClassifier", {}, three_classes),
    "transductive-svc-2": ("TransductiveSVC", {}, two_classes),
    "transductive-svc-3": ("TransductiveSVC", {"kernel": "poly"}, three_classes),
    "mixture-map": ("DPMixtureClassifier", {"n_components": 4}, two_classes),
    "mixture-vb": ("DPMixtureClassifier", {"n_components": 4, "inference": "vb"}, three_classes),
    "mixture-diagonal": (
        "DPMixtureClassifier",
        {"n_components": 3, "covariance": "diagonal", "inference": "vb", "extra_classes": 1},
        three_classes,
    ),
    "mixture-factor": (
        "DPMixtureClassifier",
        {"n_components": 3, "covariance": "factor", "n_factors": 2},
        many_features,
    ),
    "mixture-tied": (
        "DPMixtureClassifier",
        {"n_components": 3, "covariance": "tied"},
        many_features,
    ),
}


LONG = ("archipelago-mixture", "laplacian-svc")  # these take seconds


def fit(name):
    """The fitted estimator of a case, and the rows it was fitted on."""
    class_name, parameters, data = CASES[name]
    X, y = data()
    model = getattr(atoll, class_name)(**parameters)
    if "random_state" in model.get_params():
        model.set_params(random_state=7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (model.fit(X) if class_name.endswith("Density") else model.fit(X, y)), X


def predictions(model, X):
    """What a model predicts near its rows X: name of the method -> array."""
    rows = np.concatenate([X[:4] + 0.1, X[-2:], X[:1] + 50.0])
    found = {}
    for method in ("predict_proba", "decision_function", "score_samples"):
        if hasattr(model, method):
            found[method] = getattr(model, method)(rows)
    if hasattr(model, "predict_latent"):
        found["latent_mean"], found["latent_variance"] = model.predict_latent(rows)
    if hasattr(model, "label_distributions_"):
        found["label_distributions"] = model.label_distributions_
    return found


def regression():
    """The regressor's mean and deviation on an arc with five targets."""
    angle = np.linspace(0, 6, 60)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    y = np.where(np.arange(60) % 12 == 0, angle, np.nan)
    model = atoll.SSGPRegressor(n_neighbors=4).fit(X, y)
    mean, deviation = model.predict(X[::7] + 0.05, return_std=True)
    return {"mean": mean, "deviation": deviation}


def arithmetic():
    """A digest of this machine's arithmetic: chains follow the last bit of every operation."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(37, 37))
    lower = np.linalg.cholesky(A @ A.T + np.eye(37))
    probe = [lower, np.linalg.solve(A, A.T), np.exp(A), np.log(np.abs(A)), np.sin(A), log_ndtr(A)]
    return hashlib.sha256(b"".join(part.tobytes() for part in probe)).hexdigest()


def everything(names):
    """Name of case / name of method -> array; cases that are not named stay as recorded."""
    found = {f"{name}/{what}": v for name in names for what, v in predictions(*fit(name)).items()}
    others = {key: RECORDED[key] for key in RECORDED if key.split("/")[0] not in names}
    found |= others | {f"regression/{what}": v for what, v in regression().items()}
    return found | {"arithmetic": np.array(arithmetic())}


RECORDED = np.load(RECORD) if RECORD.exists() else {"arithmetic": ""}
SAME_ARITHMETIC = str(RECORDED["arithmetic"]) == arithmetic()


def assert_as_recorded(name, found):
    wanted = {key for key in RECORDED if key.startswith(f"{name}/")}
    assert {f"{name}/{what}" for what in found} == wanted
    for what, values in found.items():
        np.testing.assert_allclose(values, RECORDED[f"{name}/{what}"], rtol=1e-12, atol=1e-12)


@pytest.mark.fixed_seed
@pytest.mark.filterwarnings("ignore:Far outside what the fit saw:UserWarning")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in CASES],
)
def test_fixed_seeds_predict_what_was_recorded_and_from_a_file_the_same(name, tmp_path):
    model, X = fit(name)
    found = predictions(model, X)
    atoll.save_model(model, tmp_path / "model.atoll")
    loaded = atoll.load_model(tmp_path / "model.atoll")
    assert vars(loaded).keys() == vars(model).keys() - set(NOT_SAVED)
    again = predictions(loaded, X)
    assert again.keys() == found.keys()
    assert all(np.array_equal(again[what], found[what], equal_nan=True) for what in found)
    if not SAME_ARITHMETIC:
        pytest.skip("recorded on a machine with other arithmetic")
    assert_as_recorded(name, found)


@pytest.mark.fixed_seed
@pytest.mark.skipif(not SAME_ARITHMETIC, reason="recorded on a machine with other arithmetic")
def test_the_regressor_predicts_what_was_recorded():
    assert_as_recorded("regression", regression())


if __name__ == "__main__":
    np.savez_compressed(RECORD, **everything(sys.argv[1:] or list(CASES)))
