"""Approximate posteriors against the sampled one: the same class probabilities, nearly."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from atoll import (
    InformativeVectorClassifier,
    NullCategoryClassifier,
    OrdinalGPClassifier,
    ProbitGPClassifier,
)
from atoll.datasets import hide_labels, make_crescents, make_pinwheel

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def task(name, seed):
    """X, y with a few labels a class, and test rows."""
    rng = np.random.default_rng(seed)
    if name == "crescent":
        X, truth = make_crescents(100, random_state=rng)
        new, _ = make_crescents(300, random_state=rng)
    elif name == "pinwheel":
        X, truth = make_pinwheel(90, n_classes=3, random_state=rng)
        new, _ = make_pinwheel(300, n_classes=3, random_state=rng)
    else:
        rows, classes = load_wine(return_X_y=True)
        order = rng.permutation(len(classes))
        rows = StandardScaler().fit_transform(rows)[order]
        X, new, truth = rows[:89], rows[89:], classes[order][:89]
    return X, hide_labels(truth, per_class=6, marker=None, random_state=rng), new


@cache
def sampled_probabilities(model, name, seed, n_samples, n_fits):
    X, y, new = task(name, seed)
    options = {"inference": "mcmc", "n_chains": 2, "n_warmup": 100, "n_samples": n_samples}
    fits = [model(**options, random_state=s).fit(X, y) for s in range(seed, seed + n_fits)]
    return np.mean([one.predict_proba(new) for one in fits], axis=0)


def mean_differences(model, name, seed, approximations=("vb",), n_samples=150, n_fits=1):
    """Of each approximation, or other model, from the sampler, by so many fits of it."""
    X, y, new = task(name, seed)
    sampled = sampled_probabilities(model, name, seed, n_samples, n_fits)
    others = [model(inference=one) if isinstance(one, str) else one for one in approximations]
    return [np.abs(sampled - one.fit(X, y).predict_proba(new)).mean() for one in others]


@pytest.mark.parametrize("name", ["crescent", "wine", "pinwheel"])
def test_approximations_of_the_probit_gp_are_close_to_gibbs(name):
    """Measured on three draws of each: .007 to .012, .013 to .018, .020 to .031 by variational
    Bayes; .013 to .017 by propagation on wine and pinwheels."""
    by_variation, by_propagation = mean_differences(ProbitGPClassifier, name, 0, ("vb", "ep"))
    assert by_variation < 0.05
    assert by_propagation < 0.03


@pytest.mark.parametrize("name", ["wine", "pinwheel"])
def test_propagation_of_three_classes_is_that_of_the_joint_model(name):
    """Each class against the rest is another model: measured .107 and .059 from the sampler."""
    rest = InformativeVectorClassifier(n_active=None, inference="ep")
    joint, against_the_rest = mean_differences(ProbitGPClassifier, name, 0, ("ep", rest))
    assert joint < 0.5 * against_the_rest


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) for n in ("crescent", "wine", "pinwheel")]
)
def test_approximations_of_the_ordinal_gp_are_close_to_gibbs(name):
    """Two fits: a prediction by a hundred draws of cut points and θ is itself .01 or so off."""
    differences = mean_differences(OrdinalGPClassifier, name, 0, ("vb", "ep"), 300, n_fits=2)
    assert max(differences) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crescent", "wine", "pinwheel"])
def test_variational_bayes_of_the_null_category_is_close_to_gibbs(name):
    """Measured on three draws of each: .012 to .044, .034 to .055, .007 to .018."""
    differences = [mean_differences(NullCategoryClassifier, name, s)[0] for s in range(3)]
    assert np.mean(differences) < 0.05
