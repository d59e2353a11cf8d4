"""Log-likelihoods and gradients against an independent implementation's stored values.

Each file holds 40 × 7 cases: labels, latent means and variances of seven processes, each process
with a bias that is added to its mean; the log-likelihood of all cases together, its gradient by the
transformed parameters, and by each mean and variance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit

from atoll.datasets.matlab import read_matlab
from atoll.likelihoods import null_category, ordinal, probit

N_PROCESSES = 7
RELATIVE = 1e-10
# Below it numbers have lost digits to gradual underflow, on both sides: one stored gradient, of
# 2e-318, keeps five of them.
SMALLEST_NORMAL = np.finfo(float).tiny


class Golden(NamedTuple):
    """What is stored, case by case: labels, mean (bias added) and deviation of z, (280,) each."""

    stored: dict
    noise: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    sd: np.ndarray


def load(data_home, name, noise_variance):
    """The deviation of z has the stored noise variance, not one as in our models."""
    stored = read_matlab(data_home / "ncnm_gpc" / f"{name}NoiseTest.mat")
    noise = stored["noise2"][0, 0]
    mean = stored["mu"] + stored["params"][0, :N_PROCESSES]
    sd = np.sqrt(stored["varsigma"] + noise[noise_variance].item())
    return Golden(stored, noise, stored["y"].ravel().astype(float), mean.ravel(), sd.ravel())


@pytest.fixture
def probit_case(data_home):
    golden = load(data_home, "probit", "sigma2")
    return golden, probit.regions((golden.y == 1).astype(int))


@pytest.fixture
def ordered_case(data_home):
    """Ten ranks; the first cut point is at zero, the widths are the gaps between the cut points.

    So rank 0 is z < 0 and rank k > 0 is w_1 + … + w_{k−1} < z < w_1 + … + w_k. The widths are
    exponentials of the parameters. A rank that is not a number is missing and counts for nothing:
    the whole line, whose mass is one.
    """
    golden = load(data_home, "ordered", "variance")
    widths = np.exp(golden.stored["params"][0, N_PROCESSES:])
    cut_points = np.append(0.0, np.cumsum(widths))
    codes, seen = missing_as_zero(golden.y)
    regions = ordinal.regions(codes, np.ones_like(seen), cut_points)
    return golden, regions._replace(
        lower=np.where(seen[:, None], regions.lower, -np.inf),
        upper=np.where(seen[:, None], regions.upper, np.inf),
    )


@pytest.fixture
def ncnm_case(data_home):
    """A label that is not a number is missing, as it is with probability γ in either class."""
    golden = load(data_home, "ncnm", "sigma2")
    rate = expit(golden.stored["params"][0, -1])
    _, seen = missing_as_zero(golden.y)
    width = float(golden.noise["width"].item())
    return golden, null_category.regions((golden.y == 1).astype(int), seen, width, (rate, rate))


def missing_as_zero(y):
    seen = ~np.isnan(y)
    return np.where(seen, y, 0).astype(int), seen


@pytest.fixture(params=["probit", "ordered", "ncnm"])
def case(request):
    return request.getfixturevalue(f"{request.param}_case")


def assert_met(ours, stored):
    np.testing.assert_allclose(ours, np.ravel(stored), rtol=RELATIVE, atol=SMALLEST_NORMAL)


def test_the_files_hold_the_parameters_as_their_transforms_say(ordered_case, ncnm_case):
    (ordered, _), (ncnm, _) = ordered_case, ncnm_case
    assert_met(np.exp(ordered.stored["params"][0, N_PROCESSES:]), ordered.noise["widths"])
    assert_met([expit(ncnm.stored["params"][0, -1])] * 2,
               [ncnm.noise["gamman"].item(), ncnm.noise["gammap"].item()])  # fmt: skip


def test_the_log_likelihood_is_the_stored_one(case):
    golden, regions = case
    ours = regions.gradients(golden.mean, golden.sd).log_probability.sum()
    assert_met(ours, golden.stored["L2"][0])


def test_every_derivative_by_a_latent_mean_is_the_stored_one(case):
    golden, regions = case
    assert_met(regions.gradients(golden.mean, golden.sd).mean, golden.stored["gmu2"])


def test_every_derivative_by_a_latent_variance_is_the_stored_one(case):
    golden, regions = case
    slopes = regions.gradients(golden.mean, golden.sd)
    by_variance = 0.5 * (slopes.curvature + slopes.mean**2)  # the heat equation
    assert_met(by_variance, golden.stored["gvs2"])


def test_derivatives_by_the_biases_are_the_stored_ones(case):
    """A bias moves the mean of all cases of its process."""
    golden, regions = case
    by_mean = regions.gradients(golden.mean, golden.sd).mean
    ours = by_mean.reshape(-1, N_PROCESSES).sum(axis=0)
    assert_met(ours, golden.stored["g2"][0, :N_PROCESSES])


def test_derivatives_by_the_log_widths_of_the_ordered_model_are_the_stored_ones(ordered_case):
    """With the first cut point at zero, the log widths are the log gaps of our cut points."""
    golden, regions = ordered_case
    log_widths = golden.stored["params"][0, N_PROCESSES:]
    codes, seen = missing_as_zero(golden.y)
    family = ordinal.family(codes, np.ones_like(seen), 10, 0.0, 1.0)
    ours = family.gradient(np.append(0.0, log_widths), regions.gradients(golden.mean, golden.sd))
    assert_met(ours[1:], golden.stored["g2"][0, N_PROCESSES:])


def test_the_derivative_by_the_log_odds_of_a_missing_label_is_the_stored_one(ncnm_case):
    """One rate serves both classes there: its derivative is the sum of ours."""
    golden, regions = ncnm_case
    log_odds = golden.stored["params"][0, -1]
    codes, seen = (golden.y == 1).astype(int), ~np.isnan(golden.y)
    width = float(golden.noise["width"].item())
    family = null_category.family(codes, seen, 2, width, sample_missing_rates=True)
    ours = family.gradient(np.full(2, log_odds), regions.gradients(golden.mean, golden.sd))
    assert_met(ours.sum(), golden.stored["g2"][0, -1])
