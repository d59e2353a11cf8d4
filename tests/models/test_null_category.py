"""The null category by chains: what all else says of a labelled row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from atoll.inference.chains import run_chains
from atoll.kernels.hyperparameters import kernel_prior
from atoll.likelihoods import null_category as null_likelihood
from atoll.models import null_category
from atoll.models.belief import without_label

N, KERNEL = 9, ConstantKernel(2.0, "fixed") * RBF(1.0, "fixed")


def chain(X, codes, is_labelled, n_classes, seed):
    def family(seen):
        return null_likelihood.family(codes, seen, n_classes, 1.0)

    sampler = null_category.sampler(
        X,
        codes,
        is_labelled,
        kernel_prior(KERNEL, X),
        family(is_labelled),
        family(np.zeros(N, bool)),
    )
    rng = np.random.default_rng(seed)
    return run_chains(sampler, n_chains=2, n_warmup=30, n_samples=400, rng=rng).draws


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_weighted_draws_say_of_a_label_what_draws_without_it_say(n_classes):
    X = 1.5 * np.random.default_rng(4).normal(size=(N, 1))
    codes, is_labelled = np.arange(N) % n_classes, np.arange(N) < 6
    draws = chain(X, codes, is_labelled, n_classes, 0)
    proba = np.concatenate(draws["labelled_probabilities"])
    found = np.exp(without_label(proba, codes[:6]))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    hidden = is_labelled & (np.arange(N) != 4)
    others = chain(X, codes, hidden, n_classes, 1)["unlabelled_probabilities"]
    np.testing.assert_allclose(found[4], others[:, :, 0].mean(axis=(0, 1)), atol=0.1)
