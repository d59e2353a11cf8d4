"""Chains and posteriors that several of the tests here need."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.core.densities import Gaussian
from atoll.inference.chains import stack_ragged
from atoll.kernels.hyperparameters import kernel_prior
from atoll.models.archipelago import UNLABELLED, Setting, make_posterior, sampler, sweep


@pytest.fixture(scope="session")
def run_chains():
    """States of chains after warm-up, one list per chain."""

    def run(setting, seed, *, n_samples, n_chains=4, n_warmup=100, thin=1, moves=sweep.sweep):
        chain, chains = sampler(setting, sweep=moves), []
        for rng in np.random.default_rng(seed).spawn(n_chains):
            state = chain.init(rng)
            for _ in range(n_warmup):
                state = chain.sweep(rng, state, True)
            states = []
            for i in range(n_samples * thin):
                state = chain.sweep(rng, state, False)
                if (i + 1) % thin == 0:
                    states.append(state)
            chains.append(states)
        return chains

    return run


@pytest.fixture(scope="session")
def posterior_of():
    """The posterior of some states, by their weights where these are given."""

    def posterior(setting, states, log_weights=None, chains=None):
        chain = sampler(setting)
        records = [chain.record(np.random.default_rng(0), state) for state in states]
        draws = {name: stack_ragged([np.asarray(r[name]) for r in records]) for name in records[0]}
        draws["chain"] = np.zeros(len(states), dtype=int) if chains is None else chains
        found = make_posterior(setting, draws)
        return found if log_weights is None else found._replace(log_weights=log_weights)

    return posterior


@pytest.fixture(scope="session")
def two_heaps(run_chains):
    """Two heaps of ten rows, the first of each labelled; and states of two chains.

    Each kind of chain is run once: a test takes as many of its states as it asks for.
    """
    runs = {}

    def setting_of(n_classes, base=None, **options):
        rng = np.random.default_rng(16)
        heap = np.repeat([0, 1], 10)
        X = (np.array([-1.4, 1.2])[heap] + 0.4 * rng.normal(size=20))[:, None]
        codes = np.where(np.arange(20) % 10 == 0, heap, UNLABELLED)
        if n_classes == 1:
            codes = np.full(20, UNLABELLED)
        base = base or Gaussian(X.mean(axis=0), np.sqrt(1.2) * X.std(axis=0)[None])
        return Setting(X, codes, n_classes, kernel_prior("isotropic", X), base, **options)

    def fit(n_classes, n_samples, **options):
        kind = (n_classes, *options)  # no option has two values here
        if kind not in runs:
            setting, most = setting_of(n_classes, **options), 10 if n_classes == 3 else 50
            chains = run_chains(setting, 16, n_chains=2, n_warmup=60, n_samples=most, thin=2)
            runs[kind] = setting, chains
        setting, chains = runs[kind]
        assert n_samples <= len(chains[0])
        return setting, [chain[:n_samples] for chain in chains]

    return fit
