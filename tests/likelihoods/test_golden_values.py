"""Log-likelihoods against an independent implementation's stored values (40 × 7 cases each)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.io import loadmat

from atoll.core.regions import log_region_probability
from atoll.likelihoods import null_category, probit


def golden(data_home, name):
    stored = loadmat(data_home / "ncnm_gpc" / f"{name}NoiseTest.mat")
    n_columns = stored["y"].shape[1]
    # The first parameters are a bias for each column, added to the latent mean.
    mean = stored["mu"] + stored["params"][0, :n_columns]
    return stored, stored["y"], mean, stored["varsigma"]


def test_probit_log_likelihood(data_home):
    stored, y, mean, variance = golden(data_home, "probit")
    regions = probit.regions((y.ravel() == 1).astype(int))
    sd = np.sqrt(variance.ravel() + noise_variance(stored))
    ours = log_region_probability(regions, mean.ravel(), sd).sum()
    assert ours == pytest.approx(float(stored["L2"][0, 0]), rel=1e-10)


def test_null_category_log_likelihood(data_home):
    stored, y, mean, variance = golden(data_home, "ncnm")
    noise = stored["noise2"][0, 0]
    rates = (float(noise["gamman"].item()), float(noise["gammap"].item()))
    is_labelled = np.isin(y.ravel(), (-1, 1))
    regions = null_category.regions(
        (y.ravel() == 1).astype(int), is_labelled, float(noise["width"].item()), rates
    )
    sd = np.sqrt(variance.ravel() + noise_variance(stored))
    ours = log_region_probability(regions, mean.ravel(), sd).sum()
    assert ours == pytest.approx(float(stored["L2"][0, 0]), rel=1e-10)


def noise_variance(stored):
    """Of z given f; nearly zero in these cases, one in our models."""
    return float(stored["noise2"][0, 0]["sigma2"].item())
