"""Models that judge themselves by labels left out: believed where these bear them out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

from atoll import (
    InformativeVectorClassifier,
    LaplacianRLSClassifier,
    LaplacianSVC,
    OrdinalGPClassifier,
    ProbitGPClassifier,
    SoftmaxGPClassifier,
    SSGPClassifier,
    TransductiveSVC,
)
from atoll.datasets import hide_labels, make_crescents
from atoll.estimators.belief import NOT_BORNE_OUT
from atoll.models.belief import doubted

X, TRUTH = load_wine(return_X_y=True)
X = scale(X)
DRAWS = 4
CHAINS = {"n_warmup": 40, "n_samples": 40}
MODELS = {
    "informative vectors": lambda: InformativeVectorClassifier(),
    "probit, variational Bayes": lambda: ProbitGPClassifier(inference="vb"),
    "probit, expectation propagation": lambda: ProbitGPClassifier(inference="ep"),
    "ordinal": lambda: OrdinalGPClassifier(inference="ep"),
    "softmax": lambda: SoftmaxGPClassifier(random_state=0, **CHAINS),
    "SSGP": lambda: SSGPClassifier(selection=None, random_state=0, **CHAINS),
    "Laplacian SVM": lambda: LaplacianSVC(selection=None, random_state=0),
    "Laplacian least squares": lambda: LaplacianRLSClassifier(selection=None, random_state=0),
    "transductive SVM": lambda: TransductiveSVC(C=10.0, unlabelled_cost=0.0, random_state=0),
}

EACH = pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.slow] * (one == "softmax")) for one in MODELS]
)


def tried(name, permuted):
    """Return log-losses less those of the shares, and how many fits warned of their labels."""
    above, n_warned = [], 0
    for seed in range(DRAWS):
        truth = np.random.default_rng(seed).permutation(TRUTH) if permuted else TRUTH
        y = hide_labels(truth, per_class=8, marker=-1, random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = MODELS[name]().fit(X, y)
        said = [str(one.message) for one in caught if NOT_BORNE_OUT in str(one.message)]
        assert model.diagnostics_["held_out"]["n_labels"] == 24
        assert (NOT_BORNE_OUT in model.diagnostics_["verdict"]) == bool(said)
        n_warned += bool(said)
        p = model.predict_proba(X[y == -1])
        found = p[np.arange(len(p)), truth[y == -1]]
        above.append(np.log(1 / 3) - np.log(np.maximum(found, 1e-12)).mean())
    return np.array(above), n_warned


@EACH
def test_labels_that_mean_nothing_cost_little_and_are_warned_of(name):
    above, n_warned = tried(name, permuted=True)
    assert above.mean() < 0.03
    # 24 labels may follow the rows by chance. One function with cut points says the shares itself.
    assert n_warned >= (name != "ordinal")


@EACH
def test_labels_that_mean_something_are_believed_without_a_word(name):
    above, n_warned = tried(name, permuted=False)
    assert above.max() < -0.2
    assert n_warned == 0


@pytest.mark.parametrize("kind", [InformativeVectorClassifier, SSGPClassifier])
def test_classes_are_the_functions_own_and_the_shares_for_the_rest(kind):
    rows, truth = make_crescents(60, random_state=3)
    model = kind().fit(rows, hide_labels(truth, per_class=4, random_state=3))
    posterior, held = model.posterior_, model.diagnostics_["held_out"]
    assert 0.0 < held["belief"] < 1.0
    np.testing.assert_allclose(posterior.doubt, (1 - held["belief"]) * np.array(held["shares"]))
    sure = posterior._replace(doubt=0.0)
    expected = doubted(np.exp(sure.log_proba(rows)), posterior.doubt)
    np.testing.assert_allclose(model.predict_proba(rows), expected, atol=1e-12)
    draws, own = (one.draws(rows[:5], 3, np.random.default_rng(0)) for one in (posterior, sure))
    np.testing.assert_allclose(draws, doubted(own, posterior.doubt), atol=1e-12)


def test_chains_keep_their_posterior_and_tell_of_labels_left_out():
    rows, truth = make_crescents(60, random_state=3)
    y = hide_labels(truth, per_class=4, random_state=3)
    model = ProbitGPClassifier(inference="mcmc", n_chains=2, n_samples=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws
        model.fit(rows, y)
    assert np.all(model.posterior_.doubt == 0.0)
    assert model.diagnostics_["held_out"]["n_labels"] == 8
    assert "Of 8 labels held out in turn the model had" in model.diagnostics_["verdict"]
    assert "its word counts" not in model.diagnostics_["verdict"]
