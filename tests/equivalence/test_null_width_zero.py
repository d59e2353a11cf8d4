"""The null category without a null region is the probit Gaussian process."""

from __future__ import annotations

import numpy as np
import pytest

from atoll import NullCategoryClassifier, OrdinalGPClassifier, ProbitGPClassifier
from atoll.datasets import make_crescents, make_pinwheel
from atoll.diagnostics import mcse_mean
from atoll.inference.chains import run_chains
from atoll.kernels.hyperparameters import kernel_prior
from atoll.likelihoods import null_category as null_likelihood
from atoll.models import null_category, probit_gp

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SHORT = {"n_chains": 2, "n_warmup": 30, "n_samples": 30, "random_state": 3}


@pytest.mark.parametrize("n_classes", [2, 3])
def test_null_width_zero_with_every_row_labelled_is_the_probit_gp_draw_for_draw(n_classes):
    X, y = make_pinwheel(n_samples=30, n_classes=n_classes, random_state=0)
    null = NullCategoryClassifier(null_width=0.0, **SHORT).fit(X, y)
    probit = ProbitGPClassifier(**SHORT).fit(X, y)
    assert null.draws_.keys() == probit.draws_.keys()
    for name in null.draws_:
        np.testing.assert_array_equal(null.draws_[name], probit.draws_[name])
    new = np.random.default_rng(0).normal(scale=5, size=(50, 2))
    np.testing.assert_array_equal(null.predict_proba(new), probit.predict_proba(new))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_null_width_zero_with_every_row_labelled_is_the_probit_gp_by_variational_bayes(n_classes):
    X, y = make_pinwheel(n_samples=30, n_classes=n_classes, random_state=0)
    null = NullCategoryClassifier(null_width=0.0, inference="vb").fit(X, y)
    probit = ProbitGPClassifier(inference="vb").fit(X, y)
    np.testing.assert_array_equal(null.objectives_, probit.objectives_)
    np.testing.assert_array_equal(null.predict_proba(X), probit.predict_proba(X))


def test_two_ranks_without_a_null_width_are_a_probit_gp_with_a_free_boundary():
    """The cut point is an intercept: the same bound as a probit GP whose f has that offset."""
    X, y = make_crescents(n_samples=30, random_state=0)
    rank = OrdinalGPClassifier(inference="vb").fit(X, y)
    probit = ProbitGPClassifier(inference="vb").fit(X, y)
    assert rank.objectives_[-1] >= probit.objectives_[-1] - 1e-6
    assert np.abs(rank.predict_proba(X) - probit.predict_proba(X)).mean() < 0.1


def test_a_null_width_above_zero_is_another_model():
    X, y = make_crescents(n_samples=30, random_state=0)
    null = NullCategoryClassifier(null_width=1.0, **SHORT).fit(X, y)
    probit = ProbitGPClassifier(**SHORT).fit(X, y)
    assert not np.array_equal(null.draws_["log_likelihood"], probit.draws_["log_likelihood"])


@pytest.mark.slow
def test_null_width_zero_learns_nothing_from_unlabelled_rows():
    """Without a null region a missing label says nothing: the posterior is the probit GP's."""
    X, y = make_crescents(n_samples=12, random_state=1)
    is_labelled = np.arange(12) < 6
    prior = kernel_prior("isotropic", X)
    plan = {"n_chains": 4, "n_warmup": 60, "n_samples": 200}
    family = null_likelihood.family(y, is_labelled, 2, 0.0)
    null = run_chains(
        null_category.sampler(X, y, is_labelled, prior, family),
        rng=np.random.default_rng(1),
        **plan,
    ).draws
    probit = run_chains(
        probit_gp.sampler(X[:6], y[:6], prior), rng=np.random.default_rng(2), **plan
    ).draws
    for ours, theirs in (
        (null["latent"][..., :6], probit["latent"]),
        (null["log_parameters"], probit["log_parameters"]),
    ):
        difference = np.abs(ours.mean(axis=(0, 1)) - theirs.mean(axis=(0, 1)))
        error = np.hypot(mcse_mean(ours), mcse_mean(theirs))
        assert np.all(difference < 5 * error), (difference, error)
