"""Posteriors of the right place and width: ranks of the truth are uniform (Talts et al. 2018)."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.diagnostics import simulation_based_calibration
from atoll.inference.chains import run_chains
from atoll.kernels.hyperparameters import kernel_prior
from atoll.models import null_category, probit_gp, softmax_gp

pytestmark = pytest.mark.slow

X = np.random.default_rng(0).normal(size=(8, 2))
PRIOR = kernel_prior("isotropic", X)
N_SIMULATIONS, N_DRAWS, THIN = 200, 31, 12


def calibrate(sample_prior, sampler_of, *, seed):
    """Ranks of both log-parameters and of f at the first row."""

    def sample_posterior(rng, data, n_draws):
        draws = run_chains(
            sampler_of(data), n_chains=1, n_warmup=80, n_samples=n_draws, thin=THIN, rng=rng
        ).draws
        first = draws["latent"][0].reshape(n_draws, -1)[:, 0]
        return np.column_stack([draws["log_parameters"][0], first])

    # One draw of the joint gives parameters and data together: the data ride along.
    def parameters_and_data(rng):
        theta, f, *data = sample_prior(rng)
        return np.append(theta, np.ravel(f)[0]), data

    return simulation_based_calibration(
        np.random.default_rng(seed),
        sample_prior=parameters_and_data,
        sample_data=lambda rng, joint: joint[1],
        sample_posterior=lambda rng, data, n: [
            (row, data) for row in sample_posterior(rng, data, n)
        ],
        quantities=lambda joint, data: dict(
            zip(("log variance", "log length-scale", "f of row 0"), joint[0])
        ),
        n_simulations=N_SIMULATIONS,
        n_draws=N_DRAWS,
    )


def test_probit_gp():
    result = calibrate(
        lambda rng: probit_gp.sample_prior(rng, X, PRIOR),
        lambda data: probit_gp.sampler(X, data[0], PRIOR),
        seed=1,
    )
    assert result.smallest_adjusted_p_value > 1e-6, result


def test_null_category():
    rows, width = X[:4], 1.0
    result = calibrate(
        lambda rng: null_category.sample_prior(rng, rows, PRIOR, width),
        lambda data: null_category.sampler(rows, data[0], data[1], PRIOR, width),
        seed=2,
    )
    assert result.smallest_adjusted_p_value > 1e-6, result


def test_softmax_gp():
    result = calibrate(
        lambda rng: softmax_gp.sample_prior(rng, X, PRIOR, 3),
        lambda data: softmax_gp.sampler(X, data[0], PRIOR, 3),
        seed=3,
    )
    assert result.smallest_adjusted_p_value > 1e-6, result
