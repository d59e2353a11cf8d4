from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from atoll.core.linalg import jittered_cholesky
from atoll.core.regions import (
    Regions,
    log_region_probability,
    sample_regions,
    total_log_probability,
)
from atoll.diagnostics import geweke_test
from atoll.inference import auxiliary_gibbs as gibbs
from atoll.kernels.hyperparameters import gram_function, kernel_prior
from atoll.likelihoods import null_category, probit
from atoll.models import null_category as null_model
from atoll.models import probit_gp

X = np.array([[0.0, 0.0], [0.7, 0.2], [2.0, -1.0]])
PRIORS = {
    "isotropic": kernel_prior("isotropic", X),
    "no free variance": kernel_prior(RBF(1.0) + WhiteKernel(0.2, noise_level_bounds="fixed"), X),
    "all fixed": kernel_prior(ConstantKernel(3.0, "fixed") * RBF(1.0, "fixed"), X),
}


def statistics(parameters, data):
    z, theta = parameters
    codes, seen = data
    y = np.where(seen, 2.0 * codes - 1.0, 0.0)  # what is not seen is no part of the data
    named = {
        "z0": z[0], "z0²": z[0] ** 2, "|z1|": abs(z[1]), "z0 z1": z[0] * z[1], "z2⁴": z[2] ** 4,
        "z0 y0": z[0] * y[0], "z1 y0": z[1] * y[0], "z0² seen": z[0] ** 2 * seen[0],
    }  # fmt: skip
    for j, value in enumerate(theta):
        named |= {f"θ{j}": value, f"θ{j}²": value**2, f"θ{j} |z0|": value * abs(z[0])}
    return named


def run_geweke(seed, sample_prior, sweep, missing):
    return geweke_test(
        np.random.default_rng(seed),
        sample_prior=sample_prior,
        # The codes are a function of z; which of them are seen is chance.
        sample_data=lambda rng, parameters: (
            (parameters[0] > 0).astype(np.intp), rng.random(len(X)) >= missing,
        ),
        sweep=sweep,
        statistics=statistics,
        n_chains=150,
        n_steps=15,
        n_marginal=5000,
    )  # fmt: skip


def sweep_with(prior, regions_of):
    gram = gram_function(prior, X)

    def sweep(rng, parameters, data):
        z, theta = parameters
        state = gibbs.init(z, theta, gram)
        state = gibbs.sweep(rng, state, regions_of(*data), gram, prior)
        return state.auxiliary, state.log_parameters

    return sweep


@pytest.mark.parametrize("name", PRIORS)
def test_geweke_joint_test_of_the_probit_sweep(name):
    prior = PRIORS[name]

    def sample_prior(rng):
        theta, f, codes = probit_gp.sample_prior(rng, X, prior)
        return sample_regions(rng, probit.regions(codes), f, 1.0), theta

    result = run_geweke(
        1, sample_prior, sweep_with(prior, lambda codes, seen: probit.regions(codes)), missing=0.0
    )
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


@pytest.mark.parametrize("name", PRIORS)
def test_geweke_joint_test_of_the_null_category_sweep(name):
    prior, width, missing = PRIORS[name], 1.0, 0.6

    def sample_prior(rng):
        theta, f, codes, _ = null_model.sample_prior(rng, X, prior, width)
        everything = np.ones(len(X), dtype=bool)
        return sample_regions(rng, null_category.regions(codes, everything, width), f, 1.0), theta

    regions_of = partial(null_category.regions, null_width=width, missing_rates=(0.6, 0.6))
    result = run_geweke(2, sample_prior, sweep_with(prior, regions_of), missing=missing)
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


def test_geweke_catches_a_null_region_that_is_forgotten():
    """The test of the tests: a sweep under the wrong null width must fail."""
    prior = PRIORS["isotropic"]

    def sample_prior(rng):
        theta, f, codes, _ = null_model.sample_prior(rng, X, prior, 1.0)
        everything = np.ones(len(X), dtype=bool)
        return sample_regions(rng, null_category.regions(codes, everything, 1.0), f, 1.0), theta

    wrong = partial(null_category.regions, null_width=0.0, missing_rates=(0.6, 0.6))
    result = run_geweke(3, sample_prior, sweep_with(prior, wrong), missing=0.6)
    assert result.smallest_adjusted_p_value < 1e-6


def test_geweke_joint_test_of_the_lectures_own_sweep():
    prior = PRIORS["no free variance"]
    gram = gram_function(prior, X)

    def sample_prior(rng):
        theta, f, _ = probit_gp.sample_prior(rng, X, prior)
        return f, theta

    def sweep(rng, parameters, codes):
        f, theta = parameters
        return gibbs.slide_sweep(rng, f, theta, probit.regions(codes), gram, prior)

    result = geweke_test(
        np.random.default_rng(4),
        sample_prior,
        sample_data=lambda rng, p: (p[0] + rng.standard_normal(len(X)) > 0).astype(np.intp),
        sweep=sweep,
        statistics=lambda p, codes: {
            "f0": p[0][0], "f0²": p[0][0] ** 2, "f0 f1": p[0][0] * p[0][1],
            "f0 y0": p[0][0] * codes[0], "θ": p[1][0], "θ²": p[1][0] ** 2,
            "θ |f2|": p[1][0] * abs(p[0][2]),
        },
    )  # fmt: skip
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


def test_z_given_the_rest_is_the_truncated_conditional_normal():
    """Independent single sweeps of one row, against the closed form of its conditional."""
    rng = np.random.default_rng(5)
    covariance = np.array([[5.0, 3.0], [3.0, 4.0]])
    z = np.array([0.3, 2.0])
    line = Regions(np.array([[0.0], [-np.inf]]), np.array([[np.inf], [np.inf]]), np.zeros((2, 1)))
    draws = np.array(
        [gibbs.sample_auxiliary(rng, z, np.linalg.inv(covariance), line)[0] for _ in range(5000)]
    )
    mean, sd = 3.0 / 4.0 * 2.0, np.sqrt(5.0 - 9.0 / 4.0)
    exact = stats.truncnorm((0.0 - mean) / sd, np.inf, loc=mean, scale=sd)
    assert stats.kstest(draws, exact.cdf).pvalue > 1e-6


@pytest.mark.parametrize("far", [0.0, 8.0, 200.0])
def test_a_union_of_intervals_is_chosen_by_mass(far):
    """One row, prior variance so small that z ~ N(0, 1): three intervals with weights."""
    rng = np.random.default_rng(6)
    lower, upper = np.array([[far, far + 1, far + 3]]), np.array([[far + 0.5, far + 2, np.inf]])
    regions = Regions(lower, upper, np.log([[1.0, 3.0, 2.0]]))
    precision = np.array([[1.0 / (1.0 + 1e-12)]])
    z = np.array(
        [gibbs.sample_auxiliary(rng, np.zeros(1), precision, regions)[0] for _ in range(4000)]
    )
    inside = (z[:, None] >= lower) & (z[:, None] <= upper)
    assert inside.any(axis=1).all()
    exact = np.exp(
        np.log([1.0, 3.0, 2.0])
        + np.array([_log_mass(a, b) for a, b in zip(lower[0], upper[0])])
        - log_region_probability(regions, np.zeros(1), 1.0)
    )
    counts = inside.sum(axis=0)
    assert np.all(np.abs(counts - 4000 * exact) < 6 * np.sqrt(4000 * exact * (1 - exact)) + 1)


def _log_mass(a, b):
    from atoll.core.gaussian import log_ndtr_difference

    return float(log_ndtr_difference(a, b))


def test_latent_draws_given_z_have_the_textbook_mean_and_covariance():
    """f | z ~ N(Σ_f z, Σ_f), Σ_f = C − C (I + C)^{-1} C; the slide's Σ_f^{-1} z is a slip."""
    rng = np.random.default_rng(7)
    prior = PRIORS["all fixed"]
    gram = gram_function(prior, X)
    z = np.array([1.0, -0.5, 2.0])
    state = gibbs.init(z, np.array([]), gram)
    C = gram(np.array([]))
    covariance = C - C @ np.linalg.solve(np.eye(3) + C, C)
    n = 20_000
    draws = np.array([gibbs.sample_latent(rng, state, gram)[0] for _ in range(n)])
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - covariance @ z).T)
    assert np.all(np.abs(white.mean(axis=1)) < 6 / np.sqrt(n))
    assert np.all(np.abs(white @ white.T / n - np.eye(3)) < 6 * np.sqrt(2 / n))


@pytest.mark.parametrize("variance", [1.0, 1e4, 1e8])
def test_latent_draws_of_duplicated_rows_are_right_at_any_amplitude(variance):
    """The factor of C and the inverse of V = C + I must belong to one kernel, jitter and all."""
    rng = np.random.default_rng(9)
    twins = np.repeat(X[:2], 3, axis=0)
    prior = kernel_prior(ConstantKernel(variance, "fixed") * RBF(1.0, "fixed"), twins)
    gram = gram_function(prior, twins)
    z = np.array([1.0, 2.0, 0.5, -1.0, -2.0, -1.5])
    state = gibbs.init(z, np.array([]), gram)
    C = gram(np.array([]))
    mean = z - np.linalg.solve(C + np.eye(6), z)
    covariance = np.eye(6) - np.linalg.inv(C + np.eye(6))
    n = 10_000
    draws = np.array([gibbs.sample_latent(rng, state, gram)[0] for _ in range(n)])
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 6 * sd / np.sqrt(n) + 1e-6)
    assert np.all(np.abs(draws.var(axis=0) / sd**2 - 1) < 6 * np.sqrt(2 / n))


def test_the_state_holds_the_inverse_and_determinant_of_v():
    gram = gram_function(PRIORS["isotropic"], X)
    theta = np.array([1.0, 0.3])
    state = gibbs.init(np.zeros(3), theta, gram)
    V = gram(theta) + np.eye(3)
    np.testing.assert_allclose(state.precision @ V, np.eye(3), atol=1e-12)
    assert state.log_det == pytest.approx(np.linalg.slogdet(V)[1], rel=1e-12)
    assert gibbs.gaussian_log_marginal(jittered_cholesky(V).lower, np.ones(3)) == pytest.approx(
        stats.multivariate_normal(np.zeros(3), V).logpdf(np.ones(3)) + 1.5 * np.log(2 * np.pi)
    )


@pytest.mark.parametrize("kind", ["half-lines", "unions", "intervals"])
def test_the_prepared_total_equals_the_sum_over_rows(kind):
    rng = np.random.default_rng(8)
    codes, seen = np.array([0, 1, 1, 0]), np.array([True, True, False, False])
    regions = {
        "half-lines": probit.regions(codes),
        "unions": null_category.regions(codes, seen, 1.0, (0.3, 0.8)),
        "intervals": Regions(np.zeros((4, 1)), np.ones((4, 1)), np.zeros((4, 1))),
    }[kind]
    for scale in (1.0, 30.0, 1e4):
        f = scale * rng.standard_normal(4)
        assert total_log_probability(regions)(f) == pytest.approx(
            log_region_probability(regions, f, 1.0).sum(), rel=1e-12
        )
