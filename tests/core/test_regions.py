"""Both types of regions against brute force: masses, gradients, draws, updates, free parameters."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import chisquare, kstest, norm

from atoll.core.gaussian import log_ndtr_difference
from atoll.core.regions import (
    Intervals,
    Margins,
    _draw_between,
    fixed_regions,
    log_region_probability,
    log_region_shares,
)
from atoll.likelihoods import multinomial_probit, null_category, ordinal, probit

NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)
CUT_POINTS = np.array([-1.1, 0.3, 1.8])


def kinds(n, rng):
    """Regions of every kind for n rows, some of them unions of several with unequal weights."""
    codes, seen, rates = rng.integers(3, size=n), rng.random(n) < 0.5, (0.2, 0.9, 0.5)
    everyone = np.ones(n, dtype=bool)
    return {
        "half-lines": probit.regions(codes % 2),
        "intervals": ordinal.regions(codes, everyone, CUT_POINTS),
        "two half-lines": null_category.regions(codes % 2, seen, 1.2, rates[:2]),
        "unions of intervals": ordinal.regions(codes, seen, CUT_POINTS, 0.8),
        "two margins": null_category.margin_regions(codes % 2, seen, 2, 1.2, rates[:2]),
        "no margin": multinomial_probit.regions(codes, 3),
        "margins": null_category.margin_regions(codes, everyone, 3, 1.2),
        "unions of margins": null_category.margin_regions(codes, seen, 3, 1.2, rates),
        "unions of many": null_category.margin_regions(codes, seen, 5, 1.2),
    }


KINDS = pytest.mark.parametrize("kind", kinds(2, np.random.default_rng(0)))


def random_case(kind, n, scale, seed):
    """Regions, and a mean and deviation of z for each row."""
    rng = np.random.default_rng(seed)
    regions = kinds(n, rng)[kind]
    return regions, scale * rng.standard_normal(regions.zeros().shape), rng.uniform(0.3, 3.0, n)


def random_means(rng, n, K):
    return 2.0 * rng.standard_normal((n, K))


# Masses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", sorted(set(kinds(2, np.random.default_rng(0))) - {"unions of many"})
)
def test_masses_are_integrals_of_the_density_of_z(kind):
    regions, mean, sd = random_case(kind, 12, 1.5, 1)
    ours = np.exp(regions.log_masses(mean, sd))
    exact = mass_of_intervals if mean.ndim == 1 else mass_of_margins
    for n, r in np.ndindex(ours.shape):
        assert ours[n, r] == pytest.approx(exact(regions, mean[n], sd[n], n, r), abs=1e-11)


def mass_of_intervals(regions, mean, sd, n, r):
    lower, upper = np.clip([regions.lower[n, r], regions.upper[n, r]], mean - 9 * sd, mean + 9 * sd)
    half = 0.5 * (upper - lower)
    density = norm.pdf(lower + half * (1 + NODES), mean, sd)
    return np.exp(regions.log_weight[n, r]) * half * (WEIGHTS @ density)


def mass_of_margins(regions, mean, sd, n, k):
    """Over the contrasts c_i = z_k − z_i > a: N(m_k − m_i, sd² (I + 11ᵀ)), one or two of them."""
    centre = np.delete(mean[k] - mean, k)
    covariance = sd**2 * (np.eye(len(centre)) + 1.0)
    spread = np.sqrt(covariance[0, 0])
    axes, halves = [], []
    for c in centre:
        top = max(c + 9 * spread, regions.margin + spread)
        bottom = max(c - 9 * spread, regions.margin)
        halves.append(0.5 * (top - bottom))
        axes.append(bottom + halves[-1] * (1 + NODES) - c)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    quadratic = np.einsum("...i,ij,...j->...", grid, np.linalg.inv(covariance), grid)
    density = np.exp(-0.5 * quadratic) / np.sqrt(np.linalg.det(2 * np.pi * covariance))
    for _ in centre:
        density = density @ WEIGHTS
    return np.exp(regions.log_weight[n, k]) * np.prod(halves) * density


def test_masses_of_four_classes_match_three_dimensional_integration():
    mean, sd, margin = np.array([0.5, -0.2, 0.1, 0.9]), 0.8, 0.4
    regions = Margins(np.zeros((1, 4)), margin)
    ours = np.exp(regions.log_masses(mean[None], sd))[0]
    for k in range(4):
        assert ours[k] == pytest.approx(mass_of_margins(regions, mean, sd, 0, k), abs=1e-10)


def test_half_lines_partition_the_mass():
    f = np.linspace(-30, 30, 61)
    regions = Intervals(
        np.tile([-np.inf, 0.5], (61, 1)), np.tile([0.5, np.inf], (61, 1)), np.zeros((61, 2))
    )
    np.testing.assert_allclose(log_region_probability(regions, f, 2.0), 0.0, atol=1e-15)


@KINDS
def test_shares_are_masses_normalised_by_row(kind):
    regions, mean, sd = random_case(kind, 30, 5.0, 2)
    shares, masses = log_region_shares(regions, mean, sd), regions.log_masses(mean, sd)
    np.testing.assert_allclose(np.exp(shares).sum(axis=1), 1.0, atol=1e-12)
    total = log_region_probability(regions, mean, sd)
    np.testing.assert_allclose(shares + total[:, None], masses, atol=1e-9)


@KINDS
def test_a_weight_multiplies_the_mass(kind):
    regions, mean, sd = random_case(kind, 30, 5.0, 3)
    twice = regions._replace(log_weight=regions.log_weight + np.log(2.0))
    np.testing.assert_allclose(
        log_region_probability(twice, mean, sd),
        log_region_probability(regions, mean, sd) + np.log(2.0),
        atol=1e-12,
        rtol=1e-12,
    )


@KINDS
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_the_prepared_total_is_the_sum_of_the_rows(kind, scale):
    for seed in range(3):
        regions, f, _ = random_case(kind, 40, scale, seed)
        total = regions.total()
        for f_now in (f, -f, regions.zeros()):  # many calls of one function
            exact = log_region_probability(regions, f_now, 1.0).sum()
            assert total(f_now) == pytest.approx(exact, rel=1e-12, abs=1e-11)
            one = regions.gradients(f_now, 1.0).log_probability.sum()
            assert one == pytest.approx(exact, rel=1e-12, abs=1e-11)


@KINDS
@pytest.mark.parametrize("scale", [0.3, 3.0, 100.0])
def test_a_total_is_left_unfinished_only_where_it_is_less_than_needed(kind, scale):
    regions, f, _ = random_case(kind, 40, scale, 5)
    total = regions.total()
    exact = total(f)
    slack = 1e-9 * abs(exact)
    assert total(f, exact - slack) == exact
    assert total(f, exact + slack) in (exact, -np.inf)


@pytest.mark.parametrize("null_width", [0.0, 150.0])
def test_a_total_is_finished_where_every_region_of_a_row_is_out_of_reach(null_width):
    """Φ of these distances is zero in floating point, but the masses are not."""
    regions = null_category.margin_regions(np.zeros(2, int), np.zeros(2, bool), 3, null_width)
    rows = regions._replace(log_weight=np.where(np.eye(3)[:2] > 0, -np.inf, 0.0))
    f = 100.0 * np.eye(3)[:2]  # and the classes that are left are far behind
    for part in (regions, rows):
        exact = log_region_probability(part, f, 1.0).sum()
        assert part.total()(f, 1.01 * exact - 1.0) == pytest.approx(exact, rel=1e-12)


def test_a_total_is_unfinished_where_one_label_is_far_from_its_class():
    regions = null_category.margin_regions(np.array([0, 0]), np.array([True, False]), 4, 1.0)
    assert regions.total()(np.array([[-60.0, 0, 0, 0], [0, 0, 0, 0]]), -20.0) == -np.inf


@pytest.mark.parametrize("scale", [0.3, 3.0, 100.0])
def test_gradients_of_all_regions_together_are_those_of_each(scale):
    rng = np.random.default_rng(7)
    codes, seen, rates = rng.integers(6, size=30), rng.random(30) < 0.3, rng.uniform(0.1, 0.9, 6)
    regions = null_category.margin_regions(codes, seen, 6, 1.2, rates)
    mean, sd = scale * rng.standard_normal((30, 6)), rng.uniform(0.3, 3.0, 30)
    together, each = regions.gradients(mean, sd), regions._gradients_by_region(mean, sd)
    for found, expected in zip(together[:-1], each[:-1], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(together.ends[0], each.ends[0], rtol=1e-8, atol=1e-8)


@KINDS
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_shares_are_those_of_log_space(kind, scale):
    regions, mean, sd = random_case(kind, 40, scale, 6)
    exact = np.exp(log_region_shares(regions, mean, sd))
    np.testing.assert_allclose(regions.shares(mean, sd), exact, rtol=0, atol=1e-10)


def test_the_total_is_right_where_a_row_s_likely_region_has_a_tiny_weight():
    """Weights of e^{−700} on the region that has all the mass: the order of the sum matters."""
    regions = Margins(np.array([[0.0, -700.0, -np.inf], [-700.0, 0.0, 0.0]]), 0.5)
    f = np.array([[-20.0, 20.0, 0.0], [38.0, 0.0, 0.0]])
    exact = log_region_probability(regions, f, 1.0).sum()
    assert regions.total()(f) == pytest.approx(exact, rel=1e-12)
    assert regions.gradients(f, 1.0).log_probability.sum() == pytest.approx(exact, rel=1e-12)


# Gradients ----------------------------------------------------------------------------------------


def finite_difference(function, step=1e-5):
    return (function(step) - function(-step)) / (2 * step)


def one_hot(shape, column):
    columns = np.zeros(shape)
    columns[:, column] = 1.0
    return columns


@KINDS
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_gradients_by_the_mean_match_finite_differences(kind, scale):
    regions, mean, sd = random_case(kind, 40, scale, 4)
    ours = regions.gradients(mean, sd).mean
    if mean.ndim == 1:
        finite = finite_difference(lambda h: log_region_probability(regions, mean + h, sd))
    else:
        finite = np.stack(
            [
                finite_difference(
                    lambda h, k=k: log_region_probability(
                        regions, mean + h * one_hot(mean.shape, k), sd
                    )
                )
                for k in range(mean.shape[1])
            ],
            axis=1,
        )
    np.testing.assert_allclose(ours, finite, rtol=1e-6, atol=1e-6)


@KINDS
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_gradients_by_the_log_weights_match_finite_differences(kind, scale):
    """And are the shares of the regions, which sum to one."""
    regions, mean, sd = random_case(kind, 40, scale, 5)
    ours = regions.gradients(mean, sd).log_weight
    np.testing.assert_allclose(ours.sum(axis=1), 1.0, atol=1e-12)
    for r in range(ours.shape[1]):
        column = one_hot(ours.shape, r)
        finite = finite_difference(
            lambda h, column=column: log_region_probability(
                regions._replace(log_weight=regions.log_weight + h * column), mean, sd
            )
        )
        np.testing.assert_allclose(ours[:, r], finite, rtol=1e-6, atol=1e-6)


@KINDS
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_gradients_by_the_ends_match_finite_differences(kind, scale):
    regions, mean, sd = random_case(kind, 40, scale, 6)
    ends = regions.gradients(mean, sd).ends
    if isinstance(regions, Margins):
        finite = finite_difference(
            lambda h: log_region_probability(regions._replace(margin=regions.margin + h), mean, sd)
        )
        assert len(ends) == 1
        np.testing.assert_allclose(ends[0], finite, rtol=1e-6, atol=1e-6)
        return
    for name, ours in zip(("lower", "upper"), ends, strict=True):
        for r in range(ours.shape[1]):
            end = getattr(regions, name)
            column = one_hot(end.shape, r)
            finite = finite_difference(
                lambda h, name=name, end=end, column=column: log_region_probability(
                    regions._replace(**{name: end + h * column}), mean, sd
                )
            )
            np.testing.assert_allclose(ours[:, r], finite, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["half-lines", "intervals", "two half-lines"])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_gradients_by_the_variance_match_finite_differences(kind, scale):
    regions, mean, sd = random_case(kind, 40, scale, 7)
    finite = finite_difference(lambda h: log_region_probability(regions, mean, np.sqrt(sd**2 + h)))
    slopes = regions.gradients(mean, sd)
    ours = 0.5 * (slopes.curvature + slopes.mean**2)  # the heat equation
    np.testing.assert_allclose(ours, finite, rtol=1e-5, atol=1e-6)


def test_the_gradient_by_the_mean_is_exact_a_thousand_deviations_from_an_interval():
    regions = Intervals(np.array([[1.0]]), np.array([[1.5]]), np.zeros((1, 1)))
    for mean in (-1000.0, -40.0, 40.0, 1000.0):
        with mp.workdps(60):
            a, b = sorted(abs(mp.mpf(end) - mp.mpf(mean)) for end in (1.0, 1.5))
            mass = (mp.erfc(a / mp.sqrt(2)) - mp.erfc(b / mp.sqrt(2))) / 2
            exact = (mp.npdf(a) - mp.npdf(b)) / mass * (1 if mean < 1 else -1)
        ours = regions.gradients(np.array([mean]), 1.0).mean[0]
        assert ours == pytest.approx(float(exact), rel=1e-8)


@KINDS
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_curvature_is_the_trace_of_the_hessian_by_the_mean(kind, scale):
    regions, mean, sd = random_case(kind, 40, scale, 25)
    ours = regions.gradients(mean, sd).curvature
    columns = [np.ones(mean.shape)] if mean.ndim == 1 else [
        one_hot(mean.shape, k) for k in range(mean.shape[1])
    ]  # fmt: skip
    finite = 0.0
    for column in columns:
        by_column = finite_difference(
            lambda h, column=column: regions.gradients(mean + h * column, sd).mean,
            step=1e-4,  # the rounding of gradients far out is divided by it
        )
        finite = finite + (by_column * column).reshape(len(mean), -1).sum(axis=1)
    np.testing.assert_allclose(ours, finite, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["half-lines", "intervals", "two margins", "no margin", "margins"])
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
def test_a_label_never_adds_to_the_variance_of_z_nor_makes_it_negative(kind, scale):
    """sd² + sd⁴ × curvature is the variance of z in a region that is convex."""
    regions, mean, _ = random_case(kind, 60, scale, 26)
    regions = regions._replace(log_weight=np.where(
        np.cumsum(np.isfinite(regions.log_weight), axis=1) == 1, regions.log_weight, -np.inf
    ))  # fmt: skip
    variance = 1.0 + regions.gradients(mean, 1.0).curvature / regions.n_free
    # Squares of log densities, themselves squares of distances, cancel: so much is rounding.
    rounding = 1e-15 * (1.0 + np.ptp(mean)) ** 4
    assert variance.min() > -rounding
    assert variance.max() < 1.0 + rounding


@KINDS
def test_adding_the_gradient_to_the_mean_gives_the_mean_of_z_in_its_regions(kind):
    """For z ~ N(m, 1): what variational Bayes rests on."""
    regions, mean, _ = random_case(kind, 4, 1.0, 8)
    rng, n = np.random.default_rng(9), 20_000
    for row in range(4):
        repeated = rows_of(regions, np.full(n, row))
        z = repeated.sample(rng, np.repeat(mean[row][None], n, axis=0), 1.0)
        exact = mean[row] + regions.gradients(mean, 1.0).mean[row]
        standard_error = z.std(axis=0) / np.sqrt(n)
        assert np.all(np.abs(z.mean(axis=0) - exact) < 6 * standard_error)


def rows_of(regions, rows):
    if isinstance(regions, Margins):
        return Margins(regions.log_weight[rows], regions.margin)
    return Intervals(*(part[rows] for part in regions))


# Draws: what uniform numbers they stand for -------------------------------------------------------


class Exact:
    """The exact distribution of z of one row, as z -> (region, uniform numbers) one by one.

    Rosenblatt's transform: the region; then the distribution function of z in it, for one z; for
    several that of the winner, then of each loser given the winner. z is right if and only if the
    regions have their shares and the numbers are uniform and independent.
    """

    def __init__(self, regions, mean, sd):
        self.mean, self.sd = np.asarray(mean), sd
        self.regions = regions
        self.shares = np.exp(log_region_shares(regions, self.mean[None], sd)[0])
        if isinstance(regions, Margins):
            self.winners = {
                k: self._winner_distribution(k) for k in np.flatnonzero(self.shares > 0)
            }

    def _winner_distribution(self, k):
        """Grid of z_k and its distribution function, from log densities summed on the grid."""
        a, m, s = self.regions.margin, self.mean, self.sd
        others = np.delete(m, k)
        far = np.abs(others - m[k]).max() + a
        z = np.linspace(m[k] - 9 * s - far, m[k] + 9 * s + far, 200_001)
        log_density = -0.5 * ((z - m[k]) / s) ** 2
        for other in others:
            log_density += log_ndtr((z - a - other) / s)
        density = np.exp(log_density - log_density.max())
        below = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1])))
        return z, below / below[-1]

    def region_of(self, z):
        if z.ndim == 2:
            return np.argmax(z, axis=1)
        return np.argmax((z[:, None] >= self.regions.lower) & (z[:, None] <= self.regions.upper), 1)

    def uniforms(self, z):
        """(n, ...) draws -> (n, number of z)."""
        region, s = self.region_of(z), self.sd
        if z.ndim == 1:
            lower, upper = (part[0][region] for part in (self.regions.lower, self.regions.upper))
            a, b, x = ((part - self.mean) / s for part in (lower, upper, z))
            return np.exp(log_ndtr_difference(a, x) - log_ndtr_difference(a, b))[:, None]
        columns = np.empty(z.shape)
        for k, (grid, below) in self.winners.items():
            rows = region == k
            columns[rows, 0] = np.interp(z[rows, k], grid, below)
            for j, i in enumerate(np.delete(np.arange(z.shape[1]), k), start=1):
                top = (z[rows, k] - self.regions.margin - self.mean[i]) / s
                at = (z[rows, i] - self.mean[i]) / s
                columns[rows, j] = np.exp(np.minimum(log_ndtr(at) - log_ndtr(top), 0.0))
        return columns

    def assert_followed_by(self, z):
        counts = np.bincount(self.region_of(z), minlength=len(self.shares))
        likely = self.shares * len(z) > 5
        assert counts[~likely].sum() < 50
        if likely.sum() > 1:
            expected = self.shares[likely] / self.shares[likely].sum() * counts[likely].sum()
            assert chisquare(counts[likely], expected).pvalue > 1e-6
        u = self.uniforms(z)
        for column in u.T:
            assert kstest(column, "uniform").pvalue > 1e-6
        centred = (u - 0.5) * np.sqrt(12)
        for i, j in itertools.combinations(range(u.shape[1]), 2):
            assert abs(np.mean(centred[:, i] * centred[:, j])) < 6 / np.sqrt(len(z))


NONE = -np.inf


def intervals(lower, upper, log_weight=(0.0,)):
    return Intervals(*(np.array([part], dtype=float) for part in (lower, upper, log_weight)))


def margins(log_weight, margin=0.0):
    return Margins(np.array([log_weight]), margin)


# One row each: its regions, mean and deviation.
ROWS = {
    "a half-line": (intervals([0.0], [np.inf]), 0.3, 1.0),
    "a half-line far out": (intervals([0.0], [np.inf]), -30.0, 1.0),
    "an interval in the right tail": (intervals([9.0], [9.3]), 0.5, 0.8),
    "two half-lines": (intervals([NONE, 0.4], [-0.6, np.inf], [-0.7, 0.2]), 0.2, 1.3),
    "one of two half-lines": (intervals([NONE, 0.4], [-0.6, np.inf], [NONE, 0.2]), -1.0, 1.3),
    "three intervals, far from the mean": (
        intervals([8.0, 8.5, 9.0], [8.1, 8.6, np.inf], [0.0, 3.0, 8.0]), 0.0, 1.0,
    ),
    "two classes": (margins([0.0, NONE]), [-0.5, 0.8], 1.0),
    "the likely one of three classes": (margins([NONE, NONE, 0.0]), [0.0, 1.0, 2.0], 1.0),
    "the unlikely one of three classes": (margins([NONE, 0.0, NONE], 0.7), [1.0, -1.0, 0.5], 1.4),
    "a class thirty below the others": (margins([0.0, NONE, NONE]), [-30.0, 0.0, 0.5], 1.0),
    "a class thirty below one, with a margin": (
        margins([0.0, NONE, NONE, NONE], 2.0), [-30.0, 0.0, -29.0, -31.0], 1.2,
    ),
    "any of three classes": (margins([0.3, -0.5, 0.0], 1.0), [0.2, 0.9, -0.3], 1.1),
    "any of two classes, of four": (
        margins([NONE, 0.4, NONE, 0.0], 0.6), [0.2, 0.1, -0.3, 0.0], 0.9,
    ),
    "any of three classes without a margin": (margins([0.0, 0.0, 0.0]), [0.1, 0.4, -0.6], 1.0),
}  # fmt: skip
ONE_ROW = pytest.mark.parametrize(("regions", "mean", "sd"), ROWS.values(), ids=ROWS)


def draws_of(regions, mean, sd, n, rng):
    repeated = rows_of(regions, np.zeros(n, dtype=int))
    means = np.repeat(np.asarray(mean, dtype=float)[None], n, axis=0)
    return repeated.sample(rng, means, sd)


@ONE_ROW
def test_draws_follow_the_exact_distribution(regions, mean, sd):
    z = draws_of(regions, mean, sd, 20_000, np.random.default_rng(10))
    Exact(regions, np.asarray(mean, dtype=float), sd).assert_followed_by(z)


@pytest.mark.parametrize("offset", [0.0, -3.0, -30.0])
@pytest.mark.parametrize("margin", [0.0, 1.5])
def test_marginals_of_winner_and_losers_match_two_dimensional_quadrature(offset, margin):
    mean, sd, n = np.array([offset, 0.2, -0.4]), 1.0, 20_000
    regions = Margins(np.array([[0.0, NONE, NONE]]), margin)
    z = draws_of(regions, mean, sd, n, np.random.default_rng(11))
    # Winner z_0 on one axis and one loser on the other, the third integrated out.
    for loser, third in ((1, 2), (2, 1)):
        winner_grid, loser_grid = (
            np.linspace(z[:, i].min() - 2.0, z[:, i].max() + 2.0, 3001) for i in (0, loser)
        )
        log_of_winner = -0.5 * (winner_grid - mean[0]) ** 2 + log_ndtr(
            winner_grid - margin - mean[third]
        )
        of_loser = norm.pdf(loser_grid, mean[loser])
        of_winner = np.exp(log_of_winner - log_of_winner.max())
        # The loser's mass below the winner, and the winner's above the loser.
        winner_density = of_winner * ndtr(winner_grid - margin - mean[loser])
        middles = 0.5 * (of_winner[1:] + of_winner[:-1])
        above = np.append(np.cumsum(middles[::-1])[::-1], 0.0)  # summed from its small end
        loser_density = of_loser * np.interp(loser_grid + margin, winner_grid, above)
        for i, grid, density in (
            (0, winner_grid, winner_density),
            (loser, loser_grid, loser_density),
        ):
            below = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1])))
            below /= below[-1]
            test = kstest(z[:, i], lambda x, g=grid, b=below: np.interp(x, g, b))
            assert test.pvalue > 1e-6


@ONE_ROW
def test_a_row_update_leaves_exact_draws_exact(regions, mean, sd):
    rng = np.random.default_rng(12)
    z = draws_of(regions, mean, sd, 6000, rng)
    after = updated(regions, mean, sd, z, 1, rng)
    assert np.mean(np.any(np.atleast_2d(after.T) != np.atleast_2d(z.T), axis=0)) > 0.99
    Exact(regions, np.asarray(mean, dtype=float), sd).assert_followed_by(after)


# Thirty deviations off, each update moves z by a thirtieth: exact, but long on its way.
NEAR = {name: row for name, row in ROWS.items() if "thirty" not in name}


@pytest.mark.parametrize(("regions", "mean", "sd"), NEAR.values(), ids=NEAR)
def test_row_updates_from_one_start_reach_the_exact_distribution(regions, mean, sd):
    """Regions too, where several have weight: every chain starts in the last of them."""
    rng = np.random.default_rng(13)
    last = np.flatnonzero(np.isfinite(regions.log_weight[0]))[-1]
    if isinstance(regions, Margins):
        start = np.zeros((2000, regions.log_weight.shape[1]))
        start[:, last] = regions.margin + 1.0
        n_updates = 40
    else:
        lower, upper = regions.lower[0, last], regions.upper[0, last]
        start = np.full(2000, 0.5 * (lower + upper) if np.isfinite(upper) else lower + 1.0)
        n_updates = 1  # one z is drawn anew, from all of its regions
    after = updated(regions, mean, sd, start, n_updates, rng)
    Exact(regions, np.asarray(mean, dtype=float), sd).assert_followed_by(after)


def updated(regions, mean, sd, z, n_updates, rng):
    update = regions.row_update()
    mean = np.asarray(mean, dtype=float).tolist()
    ends = []
    for row in z.tolist():
        for uniforms in (1.0 - rng.random((n_updates, regions.n_uniforms))).tolist():
            row = update(0, row, mean, float(sd), uniforms)
        ends.append(row)
    return np.array(ends)


def test_a_row_update_does_not_change_the_z_it_is_given():
    regions = Margins(np.zeros((1, 3)), 0.0)
    z = [0.0, 1.0, 2.0]
    regions.row_update()(0, z, [0.0, 0.0, 0.0], 1.0, [0.5] * regions.n_uniforms)
    assert z == [0.0, 1.0, 2.0]


@KINDS
def test_each_row_is_drawn_and_updated_in_its_own_regions(kind):
    regions, mean, sd = random_case(kind, 60, 3.0, 14)
    rng = np.random.default_rng(15)
    z = regions.sample(rng, mean, sd)
    update = regions.row_update()
    for _ in range(20):
        uniforms = (1.0 - rng.random((60, regions.n_uniforms))).tolist()
        z = np.array(
            [
                update(n, z[n].tolist(), mean[n].tolist(), float(sd[n]), uniforms[n])
                for n in range(60)
            ]
        )
        assert np.isfinite(rows_log_weight(regions, z)).all()


def rows_log_weight(regions, z):
    """Weight of the region in which each row's z lies; −inf where in none."""
    if z.ndim == 1:
        hit = (regions.lower <= z[:, None]) & (z[:, None] <= regions.upper)
        return np.where(hit, regions.log_weight, -np.inf).max(axis=1)
    first, second = -np.sort(-z, axis=1)[:, :2].T
    weight = regions.log_weight[np.arange(len(z)), np.argmax(z, axis=1)]
    return np.where(first >= second + regions.margin - 1e-12, weight, -np.inf)


# Scalar draws -------------------------------------------------------------------------------------

UNIFORMS = [1e-300, 1e-12, 0.01, 0.5, 0.9, 1.0]
TAILS = [
    (-np.inf, 0.0), (0.0, np.inf), (-np.inf, -30.0), (30.0, np.inf), (30.0, 30.5), (-1.0, 2.0),
    (-1000.0, -999.0), (1000.0, np.inf), (-0.5, 40.0), (-40.0, 0.5), (5.0, 5.001), (-3.0, np.inf),
]  # fmt: skip


@pytest.mark.parametrize(("lower", "upper"), TAILS)
@pytest.mark.parametrize("uniform", UNIFORMS)
def test_scalar_draws_are_quantiles_in_both_tails(lower, upper, uniform):
    """Left of zero u counts from the lower end, in the right tail from the upper one."""
    mean, sd = 0.7, 2.0
    z = _draw_between(mean, sd, mean + sd * lower, mean + sd * upper, uniform)
    assert mean + sd * lower <= z <= mean + sd * upper
    with mp.workdps(60):
        sign = -1 if lower > 0 else 1
        a, b = (mp.mpf(sign * end) for end in ((upper, lower) if sign < 0 else (lower, upper)))
        target = below(a) + mp.mpf(uniform) * (below(b) - below(a))
        x = sign * (mp.mpf(z) - mp.mpf(mean)) / sd
        log_error = abs(mp.log(below(x)) - mp.log(target))
    # log Φ is about −x²/2, of which SciPy's inverse keeps twelve digits.
    assert log_error < 1e-12 * max(float(x * x), 10.0)


def below(x):
    return mp.mpf(0) if x == -mp.inf else mp.erfc(-x / mp.sqrt(2)) / 2


# Free parameters ----------------------------------------------------------------------------------


def families(rng, n=25):
    codes, seen = rng.integers(4, size=n), rng.random(n) < 0.6
    everyone = np.ones(n, dtype=bool)
    two = codes % 2
    free = {"null_width": None}
    rates = {"null_width": 0.7, "sample_missing_rates": True}
    both = {"null_width": None, "sample_missing_rates": True}
    return {
        "cut points": ordinal.family(codes, everyone, 4, 0.0, 2.0),
        "cut points of two ranks": ordinal.family(two, everyone, 2, 0.0, 2.0),
        "cut points, some ranks missing": ordinal.family(codes, seen, 4, 0.0, 2.0),
        "cut points with null regions": ordinal.family(codes, seen, 4, 0.9, 2.0),
        "width": null_category.family(two, seen, 2, **free),
        "width, all labelled": null_category.family(two, everyone, 2, **free),
        "width, rates given": null_category.family(two, seen, 2, None, (0.2, 0.7)),
        "rates": null_category.family(two, seen, 2, **rates),
        "rates, all labelled": null_category.family(two, everyone, 2, **rates),
        "width and rates": null_category.family(two, seen, 2, **both),
        "width of four classes": null_category.family(codes, seen, 4, **free),
        "width and rates of four classes": null_category.family(codes, seen, 4, **both),
        "width and rates of four classes, all labelled": null_category.family(
            codes, everyone, 4, **both
        ),
    }


FAMILIES = pytest.mark.parametrize("kind", families(np.random.default_rng(0)))


def random_family(kind, seed):
    """A family, and parameters of it drawn from their prior."""
    rng = np.random.default_rng(seed)
    family = families(rng)[kind]
    return family, family.mean + family.sd * rng.standard_normal(len(family.mean)), rng


@FAMILIES
def test_parameters_have_names_and_a_prior(kind):
    family, phi, _ = random_family(kind, 16)
    assert len(family.names) == len(set(family.names)) == len(phi)
    assert family.mean.shape == family.sd.shape == (len(family.names),)
    assert np.all(family.sd > 0)


@FAMILIES
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_by_the_parameters_matches_finite_differences(kind, seed):
    family, phi, rng = random_family(kind, seed)
    mean = 1.5 * rng.standard_normal(family.at(phi).regions.zeros().shape)

    def total(parameters):
        return log_region_probability(family.at(parameters).regions, mean, 1.0).sum()

    ours = family.gradient(phi, family.at(phi).regions.gradients(mean, 1.0))
    finite = [finite_difference(lambda h, e=e: total(phi + h * e)) for e in np.eye(len(phi))]
    np.testing.assert_allclose(ours, finite, rtol=1e-6, atol=1e-6)


def all_moves(family):
    return [*family.moves, *([family.stretch] if family.stretch else [])]


@FAMILIES
def test_two_moves_are_one_by_the_sum_of_their_distances(kind):
    family, phi, rng = random_family(kind, 17)
    for move in all_moves(family):
        c, d = 0.1 * rng.standard_normal(2) * smallest_gap(kind, phi)
        halfway, first_volume = move(phi, c)
        end, second_volume = move(halfway, d)
        at_once, volume = move(phi, c + d)
        np.testing.assert_allclose(end, at_once, rtol=1e-12, atol=1e-12)
        assert first_volume + second_volume == pytest.approx(volume, abs=1e-12)
        back, _ = move(end, -c - d)
        np.testing.assert_allclose(back, phi, rtol=1e-12, atol=1e-12)


def smallest_gap(kind, phi):
    """How far cut points can move; other parameters have no bound."""
    return min(1.0, np.exp(phi[1:]).min(initial=1.0)) if kind.startswith("cut") else 1.0


@FAMILIES
def test_the_volume_factor_of_a_move_is_its_jacobian_determinant(kind):
    family, phi, rng = random_family(kind, 18)
    for move in all_moves(family):
        c = 0.3 * smallest_gap(kind, phi) * rng.choice([-1.0, 1.0])
        jacobian = [
            finite_difference(lambda h, e=e, move=move, c=c: move(phi + h * e, c)[0])
            for e in np.eye(len(phi))
        ]
        assert move(phi, c)[1] == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-7)


@FAMILIES
def test_moves_together_reach_every_direction_and_leave_what_they_are_given(kind):
    family, phi, _ = random_family(kind, 19)
    before = phi.copy()
    directions = [finite_difference(lambda h, m=m: m(phi, h)[0], 1e-7) for m in family.moves]
    assert np.linalg.matrix_rank(np.array(directions), tol=1e-6) == len(phi)
    np.testing.assert_array_equal(phi, before)


@pytest.mark.parametrize("null_width", [0.0, 0.9])
def test_one_cut_point_moves_alone(null_width):
    rng = np.random.default_rng(20)
    family = ordinal.family(np.arange(5), np.ones(5, dtype=bool), 5, null_width, 2.0)
    for _ in range(20):
        phi = family.mean + family.sd * rng.standard_normal(4)
        before = ordinal.cut_points_at(phi, null_width)
        for k, move in enumerate(family.moves):
            distance = 0.9 * rng.uniform(-1, 1) * np.exp(phi[1:]).min()
            moved, volume = move(phi, distance)
            assert np.isfinite(volume)
            shift = ordinal.cut_points_at(moved, null_width) - before
            np.testing.assert_allclose(shift, distance * np.eye(4)[k], atol=1e-12)


def test_a_cut_point_never_passes_another():
    family = ordinal.family(np.arange(4), np.ones(4, dtype=bool), 4, 0.0, 2.0)
    phi = np.array([0.3, 0.1, -0.4])
    gaps = np.exp(phi[1:])
    for k, move in enumerate(family.moves):
        if k > 0:
            assert move(phi, -gaps[k - 1])[1] == -np.inf
        if k < 2:
            assert move(phi, gaps[k] + 0.1)[1] == -np.inf


@pytest.mark.parametrize("null_width", [0.0, 0.9])
def test_regions_move_along_with_all_z_by_the_shift(null_width):
    rng = np.random.default_rng(21)
    codes, seen = rng.integers(4, size=30), rng.random(30) < 0.5
    family = ordinal.family(codes, seen, 4, null_width, 2.0)
    f, phi = rng.standard_normal(30), family.mean.copy()
    before = family.at(phi).total(f)
    phi[family.shift_index] += 1.7
    assert family.at(phi).total(f + 1.7) == pytest.approx(before, rel=1e-12)


@pytest.mark.parametrize("kind", ["cut points", "width", "width and rates of four classes"])
def test_a_stretch_multiplies_the_regions(kind):
    family, phi, rng = random_family(kind, 22)
    before = family.at(phi).regions
    after = family.at(family.stretch(phi, 0.8)[0]).regions
    mean = rng.standard_normal(before.zeros().shape)
    np.testing.assert_allclose(
        after.log_masses(np.exp(0.8) * mean, np.exp(0.8)), before.log_masses(mean, 1.0), rtol=1e-10
    )


@pytest.mark.parametrize("kind", families(np.random.default_rng(0)))
def test_only_families_with_a_free_scale_or_location_offer_it(kind):
    family, _, _ = random_family(kind, 23)
    assert (family.shift_index is not None) == kind.startswith("cut")
    assert (family.stretch is not None) == kind.startswith(("cut", "width"))


def test_fixed_regions_are_a_family_of_one():
    regions = probit.regions(np.array([0, 1]))
    family = fixed_regions(regions)
    assert family.names == family.moves == ()
    assert family.stretch is None
    assert family.mean.shape == family.sd.shape == (0,)
    prepared = family.at(np.zeros(0))
    assert prepared.regions is regions
    assert prepared is family.at(np.zeros(0))
    slopes = regions.gradients(np.zeros(2), 1.0)
    assert family.gradient(np.zeros(0), slopes).shape == (0,)


def test_what_is_prepared_is_prepared_once():
    prepared = fixed_regions(probit.regions(np.array([0, 1]))).at(np.zeros(0))
    assert prepared.total is prepared.total
    assert prepared.update_row is prepared.update_row


@KINDS
def test_a_mean_of_zero_has_the_shape_that_methods_take(kind):
    regions, _, _ = random_case(kind, 7, 1.0, 24)
    zeros = regions.zeros()
    assert not zeros.any()
    assert regions.log_masses(zeros, 1.0).shape == regions.log_weight.shape
    assert regions.n_free == (1 if zeros.ndim == 1 else zeros.shape[1] - 1)


@pytest.mark.parametrize("distance", [0.3, 40.0])
def test_a_row_update_chooses_among_intervals_by_their_masses(distance):
    # Two tails of equal mass, however small, so that the weights alone decide.
    regions = Intervals(
        np.array([[-np.inf, distance]]),
        np.array([[-distance, np.inf]]),
        np.log([[0.25, 0.75]]),
    )
    update = regions.row_update()
    choices = (np.arange(400) + 0.5) / 400
    z = np.array([update(0, 0.0, 0.0, 1.0, [0.5, u]) for u in choices])
    assert np.all(np.abs(z) > distance)
    assert np.array_equal(z > 0, choices > 0.25)


@pytest.mark.parametrize("wrong", [0.01, 0.25])
@pytest.mark.parametrize("spread", [0.5, 3.0, 12.0])
def test_rough_gradients_of_labels_that_may_be_wrong_have_five_decimals(wrong, spread):
    rng = np.random.default_rng(0)
    K, n = 6, 60
    mean = spread * rng.standard_normal((n, K))
    sd = 1.0 + rng.random(n)
    log_weight = np.full((n, K), np.log(wrong / (K - 1)))
    log_weight[np.arange(n), rng.integers(0, K, n)] = np.log1p(-wrong)
    exact = Margins(log_weight, 0.0).gradients(mean, sd)
    rough = Margins(log_weight, 0.0, is_rough=True).gradients(mean, sd)
    for field in ("log_probability", "mean", "curvature"):
        np.testing.assert_allclose(getattr(rough, field), getattr(exact, field), atol=2e-5)


@pytest.mark.parametrize("spread", [3.0, 12.0])
def test_small_regions_beside_a_large_one_are_quick_and_right_to_nine_digits(spread, monkeypatch):
    rng = np.random.default_rng(0)
    mean, sd = spread * rng.standard_normal((200, 6)), 1.0 + rng.random(200)
    apart = np.sort(mean, axis=1)
    sure = apart[:, -1] - apart[:, -2] > 3.0 * sd
    mean, sd = mean[sure], sd[sure]
    regions = null_category.margin_regions(
        np.zeros(len(mean), int), np.zeros(len(mean), bool), 6, 1.2
    )
    with monkeypatch.context() as m:
        m.setattr(Margins, "_in_sums", lambda *given: None)
        exact = regions.gradients(mean, sd)
    monkeypatch.setattr("atoll.core.gaussian.product_peak", None)
    quick = regions.gradients(mean, sd)
    for field in ("log_probability", "mean", "curvature", "log_weight"):
        np.testing.assert_allclose(getattr(quick, field), getattr(exact, field), atol=1e-9)
