"""Every public classifier, by what it can do, and small fits of it: what tests walk over."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

from atoll.estimators import CLASSIFIERS, MODELS, AtollClassifier, NullCategoryClassifier
from atoll.estimators.parameters import KERNEL
from atoll.models.average.recipe import AverageRecipe
from atoll.models.graph_recipe import ArgmaxRecipe, Recipe


def parameters_of(model):
    return model().get_params(deep=False)


SAMPLED = {name: m for name, m in MODELS.items() if {"n_chains", "kernel"} <= set(parameters_of(m))}
RANDOM = {name: m for name, m in CLASSIFIERS.items() if "random_state" in parameters_of(m)}
PARALLEL = {name: m for name, m in CLASSIFIERS.items() if "n_jobs" in parameters_of(m)}
KERNELS = {name: m for name, m in MODELS.items() if m.parameters.get("kernel") is KERNEL}
FUNCTIONS = {name: m for name, m in MODELS.items() if hasattr(m(), "predict_latent")}


def over(models, argument="model", slow=()):
    """Parametrise a test by models; those named in `slow` are left to the slow tests."""
    cases = [
        pytest.param(model, id=name, marks=[pytest.mark.slow] if name in slow else [])
        for name, model in models.items()
    ]
    return pytest.mark.parametrize(argument, cases)


# Chains, a regression, a machine, and one that may be told more than labels: what the shell does
# alike for every classifier is shown by these, and by all in the slow tests.
OF_EACH_KIND = ("probit-gp", "ssgp", "laplacian-rls", "graph-gp")


def over_kinds(models):
    """Parametrise a test of what models share: one of each kind, all in the slow tests."""
    return over(models, slow=models.keys() - set(OF_EACH_KIND))


SHORT = {
    "n_chains": 2,
    "n_warmup": 1,
    "n_samples": 4,  # as few as can be judged
    "n_draws": 20,
    "n_components": 3,
    "n_starts": 1,
    "n_folds": 2,
    "max_iter": 10,
    "base_density": "gaussian",  # the choice of one takes longer than these chains
    "C": 1.0,  # as the next two: a search at every fit takes seconds
    "gamma": "scale",
    "unlabelled_cost": 1.0,
    "random_state": 0,
}

# Chains of few sweeps, functions of two sizes.
QUICK = Recipe(argmax=ArgmaxRecipe(first_sweeps=4, most_sweeps=16))
QUICK_AVERAGE = AverageRecipe(
    most_labels=60, amplitudes=(2.4, 38.0), graph_amplitudes=(2.4, 38.0), graph=QUICK
)


def short(model, **options):
    """The model with as little work as shows that it works; `options` go first."""
    known = parameters_of(model)
    settings = {name: value for name, value in SHORT.items() if name in known}
    if "selection" in known:  # a search at every fit takes seconds
        settings["selection"] = None
    if "recipe" in known:
        settings["recipe"] = QUICK_AVERAGE if model is AtollClassifier else QUICK
    if model is NullCategoryClassifier:  # "auto" samples where every row has a label
        settings["inference"] = "mcmc"
    return model(**{**settings, **options})


CLASSES = ["a", "b", "c"]


def problem(n_unlabelled=4):
    """X (10, 2), distinct rows well apart, and y with three classes and some rows unlabelled."""
    rng = np.random.default_rng(5)
    grid = np.array([[i, j] for i in range(5) for j in range(2)], dtype=float)
    X = 2.0 * grid + rng.uniform(-0.5, 0.5, size=grid.shape)
    y = np.array([*np.resize(CLASSES, 10 - n_unlabelled), *[None] * n_unlabelled])
    return X, y


@cache
def fit_of(model):
    """The short model fitted to the problem, X and y; made once, not to be changed by a test."""
    X, y = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return short(model).fit(X, y), X, y


def queries(X):
    """New rows: near the data, far from them, and two of them."""
    return np.concatenate([X[:3] + 0.3, [[1e6, 0.0]], X[-2:]])
