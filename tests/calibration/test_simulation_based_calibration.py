"""Posteriors of the right place and width: ranks of the truth are uniform (Talts et al. 2018)."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.core.densities import Gaussian, NormalInverseWishart
from atoll.diagnostics import simulation_based_calibration
from atoll.inference.chains import run_chains
from atoll.kernels.hyperparameters import kernel_prior
from atoll.likelihoods import null_category as null_likelihood
from atoll.models import archipelago, null_category, ordinal_gp, probit_gp, softmax_gp

pytestmark = pytest.mark.slow

X = np.random.default_rng(0).normal(size=(8, 2))
PRIOR = kernel_prior("isotropic", X)
N_SIMULATIONS, N_DRAWS, THIN = 200, 31, 12


def calibrate(sample_prior, sampler_of, *, seed, region_names=()):
    """Ranks of both log-parameters, of φ where it is free, and of f at the first row.

    sample_prior : rng -> θ, f, φ, data; sampler_of : data -> Sampler
    """
    names = ("log variance", "log length-scale", *region_names, "f of row 0")

    def sample_posterior(rng, data, n_draws):
        draws = run_chains(
            sampler_of(data), n_chains=1, n_warmup=80, n_samples=n_draws, thin=THIN, rng=rng
        ).draws
        first = draws["latent"][0].reshape(n_draws, -1)[:, 0]
        phi = draws.get("region_parameters", np.zeros((1, n_draws, 0)))[0]
        return np.column_stack([draws["log_parameters"][0], phi, first])

    # One draw of the joint gives parameters and data together: the data ride along.
    def parameters_and_data(rng):
        theta, f, phi, data = sample_prior(rng)
        return np.concatenate([theta, phi, np.ravel(f)[:1]]), data

    result = simulation_based_calibration(
        np.random.default_rng(seed),
        sample_prior=parameters_and_data,
        sample_data=lambda rng, joint: joint[1],
        sample_posterior=lambda rng, data, n: [
            (row, data) for row in sample_posterior(rng, data, n)
        ],
        quantities=lambda joint, data: dict(zip(names, joint[0])),
        n_simulations=N_SIMULATIONS,
        n_draws=N_DRAWS,
    )
    assert result.smallest_adjusted_p_value > 1e-6, result


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probit_gp(n_classes):
    def sample_prior(rng):
        theta, f, codes = probit_gp.sample_prior(rng, X, PRIOR, n_classes)
        return theta, f, [], codes

    calibrate(
        sample_prior, lambda codes: probit_gp.sampler(X, codes, PRIOR, n_classes), seed=n_classes
    )


@pytest.mark.parametrize(("n_classes", "width"), [(3, 0.0), (3, 0.5)])
def test_ordinal_gp(n_classes, width):
    rows = X if width == 0.0 else X[:4]

    def sample_prior(rng):
        theta, f, phi, *data = ordinal_gp.sample_prior(
            rng, rows, PRIOR, n_classes, width, missing_rate=0.0 if width == 0.0 else 0.4
        )
        return theta, f, phi, data

    def sampler_of(data):
        family = ordinal_gp.family(rows, *data, PRIOR, n_classes, width)
        return probit_gp.regions_sampler(rows, family, PRIOR)

    calibrate(sample_prior, sampler_of, seed=10, region_names=("first cut point", "log gap"))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_null_category(n_classes):
    rows, width = X[:4], 1.0

    def sample_prior(rng):
        theta, f, *data = null_category.sample_prior(
            rng, rows, PRIOR, width, np.full(n_classes, 0.5), n_classes
        )
        return theta, f, [], data

    def sampler_of(data):
        family = null_likelihood.family(*data, n_classes, width)
        return null_category.sampler(rows, *data, PRIOR, family)

    calibrate(sample_prior, sampler_of, seed=20 + n_classes)


def test_softmax_gp():
    def sample_prior(rng):
        theta, f, codes = softmax_gp.sample_prior(rng, X, PRIOR, 3)
        return theta, f, [], codes

    calibrate(sample_prior, lambda codes: softmax_gp.sampler(X, codes, PRIOR, 3), seed=3)


@pytest.mark.parametrize("base", ["fixed", "sampled"])
def test_archipelago(base):
    """Both log-parameters, the number of rejections, g of row 0 and the log-likelihood."""
    n, density = 10, Gaussian(np.zeros(2), np.eye(2))
    if base == "sampled":
        density = NormalInverseWishart(np.zeros(2), 3.0, 5.0 * np.eye(2), 8.0)
    prior = PRIOR._replace(mean=np.array([1.0, 0.0]), sd=np.array([0.5, 0.5]))

    def quantities(setting, state):
        g = archipelago.latent_at(setting, state)
        return np.array(
            [
                *state.log_parameters[0],
                len(state.rejections),
                g[0, 0],
                archipelago.outcomes_at(setting, state).total(g),
            ]
        )

    def parameters_and_data(rng):
        rows, labels, state = archipelago.sample_prior(rng, prior, density, n, 2)
        codes = np.where(rng.random(n) < 0.4, labels, archipelago.UNLABELLED)
        setting = archipelago.Setting(rows, codes, 2, prior, density)
        return quantities(setting, state), setting

    def sample_posterior(rng, setting, n_draws):
        sampler = archipelago.sampler(setting)
        state, draws = sampler.init(rng), []
        for _ in range(80):
            state = sampler.sweep(rng, state, True)
        for _ in range(n_draws):
            for _ in range(THIN):
                state = sampler.sweep(rng, state, False)
            draws.append((quantities(setting, state), setting))
        return draws

    names = ("log variance", "log length-scale", "M", "g of row 0", "log-likelihood")
    result = simulation_based_calibration(
        np.random.default_rng(30),
        sample_prior=parameters_and_data,
        sample_data=lambda rng, joint: joint[1],
        sample_posterior=sample_posterior,
        quantities=lambda joint, data: dict(zip(names, joint[0])),
        n_simulations=N_SIMULATIONS,
        n_draws=N_DRAWS,
    )
    assert result.smallest_adjusted_p_value > 1e-6, result
