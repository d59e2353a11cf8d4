from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr

from atoll.core.gaussian import (
    expected_product_of_ndtr_slopes,
    inverse_mills_ratio,
    log_expected_product_of_ndtr,
    log_ndtr_difference,
    log_normal_density,
    truncated_normal,
    winning_masses,
)

mp.mp.dps = 60
DISTANCES = [0, 1, 5, 10, 100, 1000]


def exact_moments(a, b):
    """Log mass, mean and variance of N(0, 1) on (a, b), to 60 digits."""
    a, b = mp.mpf(a), mp.mpf(b)
    if b <= 0:  # erfc keeps its digits in the right tail
        log_mass, mean, variance = exact_moments(-b, -a)
        return log_mass, -mean, variance

    def phi(x):
        return mp.mpf(0) if mp.isinf(x) else mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)

    def times(x):
        return mp.mpf(0) if mp.isinf(x) else x * phi(x)

    with mp.workdps(60 + 20):
        mass = (mp.erfc(a / mp.sqrt(2)) - mp.erfc(b / mp.sqrt(2))) / 2
        mean = (phi(a) - phi(b)) / mass
        variance = 1 + (times(a) - times(b)) / mass - mean**2
    return float(mp.log(mass)), float(mean), float(variance)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("width", [np.inf, 1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("sign", [1, -1])
def test_masses_match_sixty_digit_arithmetic(distance, width, sign):
    lower, upper = sorted((sign * distance, sign * (distance + width)))
    log_mass, _, _ = exact_moments(distance, distance + width)
    ours = float(log_ndtr_difference(lower, upper))
    assert ours == pytest.approx(log_mass, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("width", [np.inf, 1.0, 1e-3])
@pytest.mark.parametrize("sign", [1, -1])
def test_truncated_draws_have_their_exact_moments(distance, width, sign):
    rng = np.random.default_rng([distance, int(np.isfinite(width)), sign + 1])
    n = 100_000
    _, exact_mean, exact_variance = exact_moments(distance, distance + width)
    bounds = sorted((sign * distance, sign * (distance + width)))
    mean, sd = 3.0, 2.0
    draws = truncated_normal(
        rng, np.full(n, mean), sd, mean + sd * bounds[0], mean + sd * bounds[1]
    )
    standard = sign * (draws - mean) / sd
    # Distances from the bound: means of 1000.001 would hide a wrong spread.
    excess = standard - exact_mean
    assert np.all(standard > distance - 1e-9)
    assert np.all(standard < distance + width + 1e-9)
    assert abs(excess.mean()) < 6 * np.sqrt(exact_variance / n)
    fourth = np.mean(excess**4)
    assert abs(np.mean(excess**2) - exact_variance) < 6 * np.sqrt(fourth / n)


def test_an_untruncated_draw_is_a_normal_draw():
    draws = truncated_normal(np.random.default_rng(1), np.zeros(50_000), 1.0)
    assert stats.kstest(draws, "norm").pvalue > 1e-6


def test_draws_around_zero_follow_the_truncated_distribution():
    draws = truncated_normal(np.random.default_rng(2), np.zeros(50_000), 1.0, -0.5, 1.5)
    assert stats.kstest(draws, stats.truncnorm(-0.5, 1.5).cdf).pvalue > 1e-6


def test_draws_stay_inside_an_interval_of_two_neighbouring_numbers_of_width_1e_12():
    draws = truncated_normal(np.random.default_rng(3), np.zeros(1000), 1.0, 5.0, 5.0 + 1e-12)
    assert draws.min() >= 5.0
    assert draws.max() <= 5.0 + 1e-12


def test_an_empty_interval_is_refused():
    with pytest.raises(ValueError, match="lower < upper"):
        truncated_normal(np.random.default_rng(0), 0.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize("lower", [-1000.0, -30.0, -2.0, 0.0, 0.1, 8.0, 35.0, 1000.0])
@pytest.mark.parametrize("width", [1e-6, 0.5, 20.0, np.inf])
def test_log_difference_of_ndtr_matches_sixty_digit_arithmetic(lower, width):
    exact = exact_moments(lower, lower + width)[0]
    # A narrow interval loses digits to the rounding of its own ends.
    rounding = np.spacing(abs(lower) + 1.0) / min(width, 1.0)
    assert float(log_ndtr_difference(lower, lower + width)) == pytest.approx(
        exact, rel=1e-11, abs=1e-11 + 10 * rounding
    )


def test_log_difference_of_the_whole_line_is_zero_and_of_nothing_minus_infinity():
    assert log_ndtr_difference(-np.inf, np.inf) == 0.0
    assert log_ndtr_difference(2.0, 2.0) == -np.inf


@pytest.mark.parametrize("x", [-1e4, -1000.0, -38.0, -5.0, -1e-3, 0.0, 1e-3, 5.0, 38.0, 1000.0])
def test_inverse_mills_ratio_matches_sixty_digit_arithmetic(x):
    big = mp.mpf(x)
    density = mp.exp(-big * big / 2) / mp.sqrt(2 * mp.pi)
    exact = density / (mp.erfc(-big / mp.sqrt(2)) / 2)
    assert float(inverse_mills_ratio(x)) == pytest.approx(float(exact), rel=1e-12, abs=1e-300)


def test_inverse_mills_ratio_is_the_gradient_of_log_ndtr():
    x = np.linspace(-20, 5, 200)
    step = 1e-6
    finite = (log_ndtr(x + step) - log_ndtr(x - step)) / (2 * step)
    np.testing.assert_allclose(inverse_mills_ratio(x), finite, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "offsets",
    [[0.0], [1.0, -2.0], [5.0, 5.0, -5.0], [-30.0], [-40.0, 2.0], [-100.0, -100.0], [300.0] * 4],
)
def test_expected_product_of_ndtr_matches_adaptive_quadrature(offsets):
    def integrand(u):
        value = mp.exp(-u * u / 2) / mp.sqrt(2 * mp.pi)
        for t in offsets:
            value *= mp.erfc(-(u + t) / mp.sqrt(2)) / 2
        return value

    grid = np.arange(-40, 800) / 4.0
    centre = grid[np.argmax(log_ndtr(np.add.outer(offsets, grid)).sum(axis=0) - grid**2 / 2)]
    with mp.workdps(20):
        points = [mp.mpf(centre) + step for step in range(-12, 13)]
        exact = float(mp.log(mp.quad(integrand, points)))
    assert float(log_expected_product_of_ndtr(offsets)) == pytest.approx(
        exact, rel=1e-12, abs=1e-12
    )


def test_the_gradient_of_an_expected_product_matches_finite_differences():
    rng, step = np.random.default_rng(6), 1e-5
    for scale in (1.0, 10.0, 100.0):
        t = rng.normal(scale=scale, size=(50, 3))
        value, slope, curvature = expected_product_of_ndtr_slopes(t)
        # The logarithm of a probability near one has the rounding error of the probability.
        np.testing.assert_allclose(value, log_expected_product_of_ndtr(t), rtol=1e-12, atol=1e-14)
        for i in range(3):
            up, down = (log_expected_product_of_ndtr(t + s * step * np.eye(3)[i]) for s in (1, -1))
            np.testing.assert_allclose(slope[:, i], (up - down) / (2 * step), rtol=1e-5, atol=1e-6)
        # By the means of four latents, of which the first is ahead of the others by t.
        changes = np.vstack([np.ones(3), -np.eye(3)])
        finite = sum(
            expected_product_of_ndtr_slopes(t + step * c).gradient @ c
            - expected_product_of_ndtr_slopes(t - step * c).gradient @ c
            for c in changes
        ) / (2 * step)
        np.testing.assert_allclose(curvature, finite, rtol=1e-4, atol=1e-5)


def test_one_offset_has_a_closed_form():
    t = np.linspace(-50, 50, 101)
    np.testing.assert_allclose(
        log_expected_product_of_ndtr(t[:, None]), log_ndtr(t / np.sqrt(2)), rtol=1e-12, atol=1e-14
    )


def test_class_probabilities_from_products_sum_to_one():
    f = np.random.default_rng(4).normal(scale=5.0, size=(200, 4))
    total = np.zeros(200)
    for j in range(4):
        total += np.exp(log_expected_product_of_ndtr(f[:, [j]] - np.delete(f, j, axis=1)))
    np.testing.assert_allclose(total, 1.0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 9])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 1e4])
def test_masses_of_all_winners_are_those_of_each(n_classes, spread):
    rng = np.random.default_rng(n_classes)
    mean, margin = spread * rng.standard_normal((20, n_classes)), rng.uniform(0.0, 3.0, 20)
    margin[:2] = 0.0, 700.0
    found = winning_masses(mean, margin)
    for k in range(n_classes):
        ahead = mean[:, [k]] - np.delete(mean, k, axis=1) - margin[:, None]
        exact = np.exp(log_expected_product_of_ndtr(ahead))
        np.testing.assert_allclose(found[:, k], exact, rtol=0, atol=3e-14)
    np.testing.assert_allclose(winning_masses(mean, 0.0).sum(axis=1), 1.0, atol=3e-14)


def test_log_normal_density():
    x = np.linspace(-40, 40, 11)
    np.testing.assert_allclose(log_normal_density(x), stats.norm.logpdf(x), rtol=1e-14)


@pytest.mark.parametrize("end", [-np.inf, -30.0, 0.0, 30.0, np.inf])
def test_an_interval_without_length_has_no_mass(end):
    assert log_ndtr_difference(end, end) == -np.inf
