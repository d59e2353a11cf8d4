"""Densities: normalised, sampled as they say, and fitted where the rows say little."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from atoll.core.densities import (
    Blurred,
    Density,
    Gaussian,
    GaussianMixture,
    NormalInverseWishart,
    StudentT,
    fit_blurred,
    fit_gaussian,
    fit_student_t,
    niw_prior,
)

LOWER = np.array([[1.2, 0.0], [-0.5, 0.7]])
DENSITIES = {
    "Gaussian": Gaussian(np.array([0.3, -1.0]), LOWER),
    "diagonal Gaussian": Gaussian(np.array([0.3, -1.0]), np.array([1.2, 0.7])),
    "Student-t": StudentT(np.array([0.3, -1.0]), LOWER, 9.0),
    "mixture": GaussianMixture(
        np.array([0.2, 0.5, 0.3]),
        np.array([[0.0, 2.0], [-1.5, 0.0], [1.0, -1.0]]),
        np.stack([LOWER, 0.5 * LOWER, 0.8 * np.eye(2)]),
    ),
    "blurred": Blurred(np.array([[0.0, 2.0], [-1.5, 0.0], [1.0, -1.0]]), 0.5 * LOWER),
    "blurred column by column": Blurred(
        np.array([[0.0, 2.0], [-1.5, 0.0], [1.0, -1.0]]), np.array([0.6, 0.35])
    ),
}
COVARIANCES = {
    "Gaussian": LOWER @ LOWER.T,
    "diagonal Gaussian": np.diag([1.44, 0.49]),
    "Student-t": LOWER @ LOWER.T * 9.0 / 7.0,
}
PRIOR = NormalInverseWishart(
    np.array([0.5, -1.0]), 2.5, np.array([[3.0, 0.8], [0.8, 2.0]]), 2 + 11.0
)


def in_one_dimension(density):
    """The marginal of the first coordinate: the same family again."""
    if isinstance(density, GaussianMixture):
        return density._replace(means=density.means[:, :1], lowers=density.lowers[:, :1, :1])
    corner = density.lower[:1] if density.lower.ndim == 1 else density.lower[:1, :1]
    if isinstance(density, Blurred):
        return Blurred(density.centres[:, :1], corner)
    return density._replace(mean=density.mean[:1], lower=corner)


def largest_z(values, exact):
    """Of the mean of values (n, ...), in its standard errors."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return float(np.max(np.abs(values.mean(axis=0) - exact) / error))


# Of one density -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DENSITIES)
def test_a_density_is_a_Density(name):
    assert isinstance(DENSITIES[name], Density)


@pytest.mark.parametrize("name", DENSITIES)
def test_log_density_integrates_to_one_over_a_line(name):
    density = in_one_dimension(DENSITIES[name])
    # x = sinh(t): steps that widen with the tails, where a t needs them.
    t = np.linspace(-10.0, 10.0, 4001)
    p = np.exp(density.log_density(np.sinh(t)[:, None])) * np.cosh(t)
    assert np.trapezoid(p, t) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("name", DENSITIES)
def test_log_density_integrates_to_one_over_a_plane(name):
    t = np.linspace(-5.5, 5.5, 301)
    x, y = (a.ravel() for a in np.meshgrid(t, t))
    p = np.exp(DENSITIES[name].log_density(np.column_stack([np.sinh(x), np.sinh(y)])))
    volume = np.cosh(x) * np.cosh(y) * (t[1] - t[0]) ** 2
    assert p @ volume == pytest.approx(1.0, abs=1e-5)


def test_log_densities_are_those_of_scipy():
    X = np.random.default_rng(0).normal(size=(7, 2)) * 3.0
    g, t = DENSITIES["Gaussian"], DENSITIES["Student-t"]
    np.testing.assert_allclose(
        g.log_density(X), stats.multivariate_normal(g.mean, LOWER @ LOWER.T).logpdf(X)
    )
    np.testing.assert_allclose(
        t.log_density(X), stats.multivariate_t(t.mean, LOWER @ LOWER.T, df=9.0).logpdf(X)
    )


@pytest.mark.parametrize("name", COVARIANCES)
def test_samples_have_the_density_s_mean_and_covariance(name):
    density = DENSITIES[name]
    X = density.sample(np.random.default_rng(1), 20_000)
    assert X.shape == (20_000, 2)
    assert largest_z(X, density.mean) < 6.0
    products = np.einsum("ni,nj->nij", X - density.mean, X - density.mean)
    assert largest_z(products, COVARIANCES[name]) < 6.0


@pytest.mark.parametrize("name", DENSITIES)
def test_samples_fall_where_the_log_density_says(name):
    """The shares of samples in cells of the first coordinate, against quadrature."""
    density = in_one_dimension(DENSITIES[name])
    edges = np.linspace(-3.0, 3.0, 9)
    x = density.sample(np.random.default_rng(2), 20_000)[:, 0]
    counts = np.histogram(x, edges)[0]
    probability = []
    for low, high in pairwise(edges):
        t = np.linspace(low, high, 201)
        probability.append(np.trapezoid(np.exp(density.log_density(t[:, None])), t))
    expected = 20_000 * np.append(probability, 1.0 - np.sum(probability))
    observed = np.append(counts, 20_000 - counts.sum())
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_samples_of_a_mixture_have_its_cross_moments():
    density = DENSITIES["mixture"]
    X = density.sample(np.random.default_rng(3), 20_000)
    second = np.einsum("cij,ckj->cik", density.lowers, density.lowers) + np.einsum(
        "ci,cj->cij", density.means, density.means
    )
    products = np.einsum("ni,nj->nij", X, X)
    assert largest_z(X, density.weights @ density.means) < 6.0
    assert largest_z(products, np.tensordot(density.weights, second, 1)) < 6.0


def test_one_seed_gives_one_sample():
    for density in DENSITIES.values():
        once, again = (density.sample(np.random.default_rng(4), 5) for _ in range(2))
        np.testing.assert_array_equal(once, again)
        assert density.sample(np.random.default_rng(4), 0).shape == (0, 2)


# The prior over Gaussians -------------------------------------------------------------------------


def test_the_posterior_is_the_same_in_one_piece_and_row_by_row():
    X = np.random.default_rng(5).normal([2.0, 0.0], 1.0, size=(6, 2))
    batch, by_row = PRIOR.given(X), PRIOR
    for row in X:
        by_row = by_row.given(row[None])
    for one, other in zip(batch, by_row):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_no_rows_leave_the_prior():
    assert PRIOR.given(np.zeros((0, 2))) is PRIOR


def log_niw(niw, gaussian):
    """log p(mean, Σ), by SciPy."""
    covariance = gaussian.lower @ gaussian.lower.T
    return float(
        stats.invwishart.logpdf(covariance, df=niw.df, scale=niw.scale)
        + stats.multivariate_normal.logpdf(gaussian.mean, niw.centre, covariance / niw.strength)
    )


def test_the_posterior_is_prior_times_likelihood():
    """log p(mean, Σ) + log p(X | mean, Σ) − log p(mean, Σ | X) = log p(X), whatever mean and Σ."""
    rng = np.random.default_rng(6)
    X = rng.normal(1.0, 1.0, size=(5, 2))
    posterior = PRIOR.given(X)
    evidence = []
    for _ in range(5):
        g = PRIOR.draw(rng)
        evidence.append(log_niw(PRIOR, g) + g.log_density(X).sum() - log_niw(posterior, g))
    np.testing.assert_allclose(evidence, evidence[0], rtol=1e-9)


def test_draws_have_the_moments_of_the_normal_inverse_wishart():
    rng = np.random.default_rng(7)
    draws = [PRIOR.draw(rng) for _ in range(6000)]
    covariance = np.array([g.lower @ g.lower.T for g in draws])
    means = np.array([g.mean for g in draws])
    expected = PRIOR.scale / (PRIOR.df - 2 - 1)
    assert largest_z(covariance, expected) < 6.0
    assert largest_z(means, PRIOR.centre) < 6.0
    shifts = means - PRIOR.centre
    assert largest_z(np.einsum("ni,nj->nij", shifts, shifts), expected / PRIOR.strength) < 6.0
    # E Σ^{-1} = df · scale^{-1}: the whole width of the draws, not their mean alone.
    assert largest_z(np.linalg.inv(covariance), PRIOR.df * np.linalg.inv(PRIOR.scale)) < 6.0


def test_a_draw_s_factor_is_lower_triangular_with_a_positive_diagonal():
    rng = np.random.default_rng(8)
    for _ in range(20):
        lower = PRIOR.draw(rng).lower
        assert np.all(np.triu(lower, 1) == 0.0)
        assert np.all(np.diagonal(lower) > 0.0)


# Fitted to rows -----------------------------------------------------------------------------------


MIXED = np.array([[1.0, 3.0, 0.1], [0.0, 3.0, -0.2], [0.0, 0.0, 0.2]])
ROWS = np.random.default_rng(9).normal(size=(400, 3)) @ MIXED + [5.0, 0.0, -2.0]


def test_fits_have_the_rows_moments():
    covariance = np.cov(ROWS.T, bias=True)
    g, t = fit_gaussian(ROWS), fit_student_t(ROWS)
    niw = niw_prior(ROWS)
    for mean in (g.mean, t.mean, niw.centre):
        np.testing.assert_allclose(mean, ROWS.mean(axis=0))
    for fitted in (
        g.lower @ g.lower.T,
        t.lower @ t.lower.T * t.df / (t.df - 2.0),
        niw.scale / (niw.df - 3 - 1),
    ):
        np.testing.assert_allclose(np.diagonal(fitted), np.diagonal(covariance), rtol=1e-5)
        # Shrunk, by little where rows are many.
        np.testing.assert_allclose(correlation(fitted), np.corrcoef(ROWS.T), atol=0.03)
        assert np.all(np.abs(correlation(fitted)) < np.abs(np.corrcoef(ROWS.T)) + 1e-9)


def correlation(covariance):
    sd = np.sqrt(np.diagonal(covariance))
    return covariance / np.outer(sd, sd)


def test_more_columns_than_rows_have_variances_alone():
    assert fit_gaussian(ROWS[:2]).lower.shape == (3,)


def test_a_fit_moves_with_the_units_of_the_rows():
    units, shift = np.array([10.0, 0.01, 1e5]), np.array([1.0, -7.0, 0.0])
    one, other = fit_gaussian(ROWS), fit_gaussian(ROWS * units + shift)
    np.testing.assert_allclose(other.mean, one.mean * units + shift)
    np.testing.assert_allclose(other.lower, units[:, None] * one.lower, rtol=1e-6, atol=1e-12)


LITTLE = {
    "a constant column": np.column_stack([np.arange(5.0), np.full(5, 3.0)]),
    "a constant column of large numbers": np.column_stack([np.arange(5.0), np.full(5, 1e9 + 0.1)]),
    "fewer rows than features": np.random.default_rng(10).normal(size=(3, 6)),
    "two rows": np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 0.0]]),
    "one row": np.array([[1.0, 2.0]]),
    "one row that rounds, repeated": np.full((7, 2), 0.1),
    "one row repeated": np.tile([[1.0, -2.0]], (6, 1)),
    "a column twice": np.repeat(ROWS[:, :1], 2, axis=1),
}


def spread(fitted):
    """The scale or covariance matrix."""
    if isinstance(fitted, NormalInverseWishart):
        return fitted.scale
    return np.diag(fitted.lower**2) if fitted.lower.ndim == 1 else fitted.lower @ fitted.lower.T


@pytest.mark.parametrize("fit", [fit_gaussian, fit_student_t, niw_prior])
@pytest.mark.parametrize("name", LITTLE)
def test_rows_that_say_little_give_a_positive_definite_fit(fit, name):
    X = LITTLE[name]
    fitted = fit(X)
    assert np.isfinite(spread(fitted)).all()
    assert np.linalg.eigvalsh(correlation(spread(fitted)))[0] > 1e-9
    density = fitted
    if isinstance(fitted, NormalInverseWishart):
        density = fitted.given(X).draw(np.random.default_rng(11))
    assert np.isfinite(density.log_density(X)).all()
    assert np.isfinite(density.sample(np.random.default_rng(12), 4)).all()


@pytest.mark.parametrize("width", [0.3, 0.8])
def test_blurred_rows_have_the_mean_and_covariance_of_the_gaussian(width):
    X = np.random.default_rng(7).normal(size=(200, 2)) @ LOWER.T
    blurred, gaussian = fit_blurred(X, width), fit_gaussian(X)
    np.testing.assert_allclose(blurred.centres.mean(axis=0), gaussian.mean)
    covariance = np.cov(blurred.centres.T, bias=True) + blurred.lower @ blurred.lower.T
    # The Gaussian's covariance is shrunk (Ledoit & Wolf), that of the rows is not.
    expected = (1 - width**2) * np.cov(
        X.T, bias=True
    ) + width**2 * gaussian.lower @ gaussian.lower.T
    np.testing.assert_allclose(covariance, expected, rtol=1e-6, atol=1e-6)


def test_rows_blurred_by_one_are_one_gaussian():
    X = np.random.default_rng(8).normal(size=(30, 2))
    at = np.random.default_rng(9).normal(size=(5, 2))
    np.testing.assert_allclose(fit_blurred(X, 1.0).log_density(at), fit_gaussian(X).log_density(at))


def test_copies_of_one_row_have_a_prior_of_unit_scale():
    prior = niw_prior(np.full((3, 2), 7.0))
    assert np.array_equal(prior.centre, [7.0, 7.0])
    assert np.array_equal(prior.scale, 2.0 * np.eye(2))
