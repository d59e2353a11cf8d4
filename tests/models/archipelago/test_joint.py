"""The joint density, equation 8, against brute force; and the densities that sweeps move by."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import comb

from atoll.core.densities import Gaussian, NormalInverseWishart
from atoll.kernels.hyperparameters import kernel_prior
from atoll.likelihoods.softmax_rejection import REJECTED, UNLABELLED, Outcomes, log_prob
from atoll.models.archipelago import Setting, joint, latent_at, sample_prior
from atoll.models.archipelago.functions import MIXING_SPREAD, gram_at_rows, kernels_at, unwhiten

LINE = Gaussian(np.zeros(1), np.eye(1))
SOME_GAUSSIANS = NormalInverseWishart(np.zeros(1), 3.0, 4.0 * np.eye(1), 6.0)
PRIOR = kernel_prior("isotropic", np.array([[-1.0], [1.0]]))._replace(
    mean=np.array([0.4, -0.3]), sd=np.array([0.4, 0.6])
)
OPTIONS = {
    "one kernel": {},
    "own kernels": {"own_kernels": True},
    "dependent": {"dependent": True},
    "own kernels and dependent": {"own_kernels": True, "dependent": True},
}


def drawn(seed, n=5, n_classes=3, base=LINE, **options):
    """A setting with two labels, and the state that made its rows."""
    rng = np.random.default_rng(seed)
    rows, labels, state = sample_prior(rng, PRIOR, base, n, n_classes, **options)
    codes = np.where(np.arange(n) < 2, labels, UNLABELLED)
    return Setting(rows, codes, n_classes, PRIOR, base, **options), state


def brute_force(setting, state):
    """Equation 8 with its factor, term by term, from SciPy's densities."""
    n, M, K = len(setting.inputs), len(state.rejections), setting.n_classes
    rows = np.concatenate([setting.inputs, state.rejections])
    u = unwhiten(state.factors, state.whitened)
    grams = kernels_at(gram_at_rows(setting, rows), state.log_parameters).grams
    value = np.log(comb(M + n - 1, M))
    for k in range(K):
        C = grams[k if setting.own_kernels else 0]
        value += stats.multivariate_normal(np.zeros(len(rows)), C).logpdf(u[:, k])
    codes = np.concatenate([setting.codes, np.full(M, REJECTED)])
    value += log_prob(latent_at(setting, state), codes).sum()
    base = state.base if isinstance(setting.base, NormalInverseWishart) else setting.base
    value += stats.norm(base.mean[0], base.lower[0, 0]).logpdf(rows[:, 0]).sum()
    value += stats.norm(PRIOR.mean, PRIOR.sd).logpdf(state.log_parameters).sum()
    return value + stats.norm(0.0, MIXING_SPREAD).logpdf(state.mixing).sum()


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("base", [LINE, SOME_GAUSSIANS], ids=["fixed base", "sampled base"])
def test_the_joint_is_the_product_of_its_factors(name, base):
    setting, state = drawn(0, base=base, **OPTIONS[name])
    assert joint.log_joint(setting, state) == pytest.approx(brute_force(setting, state), rel=1e-6)


@pytest.mark.parametrize("n", [1, 4])
def test_summed_over_rejections_the_joint_has_the_norm_of_equation_7(n):
    """Each rejection has 1 − Z: Σ_M C(M + n − 1, M) (1 − Z)^M = Z^{-n}."""
    Z = 0.4
    total = sum(np.exp(joint.log_orders(n, m)) * (1.0 - Z) ** m for m in range(400))
    assert total == pytest.approx(Z**-n, rel=1e-9)


@pytest.mark.parametrize("name", OPTIONS)
def test_given_its_rows_the_joint_is_the_density_that_functions_and_parameters_move_by(name):
    """Two states of the same rows: equation 12 in whitened coordinates, u = L(θ) ν."""
    setting, state = drawn(1, **OPTIONS[name])
    rng, rows = np.random.default_rng(2), np.concatenate([setting.inputs, state.rejections])
    theta = state.log_parameters + 0.2 * rng.normal(size=state.log_parameters.shape)
    kernels = kernels_at(gram_at_rows(setting, rows), theta)
    other = state._replace(
        whitened=rng.normal(size=state.whitened.shape), log_parameters=theta,
        factors=kernels.factors,
    )  # fmt: skip
    values, moved_by = [], []
    for one in (state, other):
        # As a density of ν the joint has the determinant of L, once for every function.
        repeats = 1 if setting.own_kernels else setting.n_classes
        log_det = repeats * np.log(np.einsum("fii->fi", one.factors)).sum()
        values.append(joint.log_joint(setting, one) + log_det)
        deviation = (one.log_parameters - PRIOR.mean) / PRIOR.sd
        u = unwhiten(one.factors, one.whitened)
        moved_by.append(joint.row_factors(setting, one).log_density(u, one.whitened, deviation))
    assert values[1] - values[0] == pytest.approx(moved_by[1] - moved_by[0], rel=1e-8)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_slope_of_equation_12_is_that_of_finite_differences(name):
    setting, state = drawn(3, **OPTIONS[name])
    rows, factors = joint.row_factors(setting, state), state.factors

    def value(whitened):
        return rows.log_density(unwhiten(factors, whitened), whitened)

    by_u = rows.slope(unwhiten(factors, state.whitened))
    slope, at = joint.whitened_slope(factors, by_u, state.whitened), state.whitened
    for index in np.ndindex(at.shape):
        shift = np.zeros_like(at)
        shift[index] = 1e-5
        difference = (value(at + shift) - value(at - shift)) / 2e-5
        assert slope[index] == pytest.approx(difference, abs=1e-6)


def test_without_candidates_rows_are_not_open():
    setting, state = drawn(4)
    ours, theirs = joint.open_row_factors(setting, state), joint.row_factors(setting, state)
    for one, other in zip(ours.outcomes, theirs.outcomes, strict=True):
        np.testing.assert_array_equal(one, other)
    assert isinstance(ours.outcomes, Outcomes)
