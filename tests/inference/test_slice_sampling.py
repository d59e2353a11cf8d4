from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from atoll.inference import slice_sampling

N_CHAINS = 4000


class Mixture:
    """Two modes of unequal width and weight, the valley between them deep."""

    weights, parts = (0.3, 0.7), (stats.norm(-2.0, 0.4), stats.norm(2.5, 1.0))

    def draw(self, rng, n):
        left = rng.random(n) < self.weights[0]
        return np.where(left, *(part.rvs(size=n, random_state=rng) for part in self.parts))

    def cdf(self, x):
        return sum(w * part.cdf(x) for w, part in zip(self.weights, self.parts))

    def log_density(self, x):
        ends = zip(self.weights, ((-2.0, 0.4), (2.5, 1.0)))
        return float(np.log(sum(w / s * np.exp(-0.5 * ((x - m) / s) ** 2) for w, (m, s) in ends)))


class Bounded:
    """A density on (0, 1) that is largest at one end; outside it is what `outside` says."""

    def __init__(self, outside):
        self.outside = outside

    def draw(self, rng, n):
        return np.sqrt(rng.random(n))

    def cdf(self, x):
        return np.clip(x, 0, 1) ** 2

    def log_density(self, x):
        return float(np.log(2 * x)) if 0 < x < 1 else self.outside


class Broken:
    """The standard normal with a hole of NaN from −0.3 to 0.4."""

    def draw(self, rng, n):
        x = rng.standard_normal(4 * n)
        return x[(x < -0.3) | (x > 0.4)][:n]

    def cdf(self, x):
        low, high = stats.norm.cdf([-0.3, 0.4])
        below = stats.norm.cdf(x)
        below = np.where(x < -0.3, below, np.maximum(low, below - high + low))
        return below / (1 - high + low)

    def log_density(self, x):
        return float("nan") if -0.3 <= x <= 0.4 else -0.5 * x * x


DENSITIES = {
    "bimodal": Mixture(),
    "bounded": Bounded(-np.inf),
    "bounded by NaN": Bounded(float("nan")),
    "with a hole": Broken(),
}


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES)
@pytest.mark.parametrize("width", [0.1, 1.0, 30.0])
def test_a_step_leaves_the_density_invariant(density, width):
    """Many chains, each from an exact draw; too small a width runs out of steps, exactly still."""
    rng = np.random.default_rng(0)
    ends = density.draw(rng, N_CHAINS)
    assert len(ends) == N_CHAINS
    assert stats.kstest(ends, density.cdf).pvalue > 1e-6
    starts = ends.copy()
    for i in range(N_CHAINS):
        for _ in range(2):
            here = ends[i]
            ends[i] += slice_sampling.step(
                rng, lambda c, here=here: density.log_density(here + c), width=width
            )
    assert stats.kstest(ends, density.cdf).pvalue > 1e-6
    assert np.mean(ends != starts) > 0.999


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES)
def test_from_one_start_the_density_is_reached(density):
    rng = np.random.default_rng(1)
    ends = np.full(500, 0.9)
    for i in range(len(ends)):
        for _ in range(25):
            here = ends[i]
            ends[i] += slice_sampling.step(
                rng, lambda c, here=here: density.log_density(here + c), width=5.0
            )
    assert stats.kstest(ends, density.cdf).pvalue > 1e-6


def test_an_interval_that_may_not_grow_leaves_the_density_invariant_and_its_ends_unseen():
    rng, seen = np.random.default_rng(6), []
    ends = Mixture().draw(rng, 2000)
    for i, here in enumerate(ends):

        def log_density(c, here=here):
            seen[-1].append(c)
            return Mixture().log_density(here + c)

        seen.append([])
        ends[i] += slice_sampling.step(rng, log_density, width=0.7, most_widths=1)
    assert stats.kstest(ends, Mixture().cdf).pvalue > 1e-6
    assert max(np.ptp(places) for places in seen) <= 0.7
    assert np.mean([len(places) == 2 for places in seen]) > 0.5  # here, and where it went


@pytest.mark.parametrize("impossible", [-np.inf, float("nan")])
def test_what_is_impossible_is_never_reached(impossible):
    rng = np.random.default_rng(2)
    for _ in range(500):
        low, high = -rng.random(), rng.random()
        c = slice_sampling.step(
            rng, lambda c, low=low, high=high: 0.0 if low < c < high else impossible, width=3.0
        )
        assert low < c < high


@pytest.mark.parametrize("impossible", [-np.inf, float("nan")])
def test_a_density_on_one_point_ends_there(impossible):
    rng = np.random.default_rng(3)
    moves = [slice_sampling.step(rng, lambda c: 0.0 if c == 0 else impossible) for _ in range(20)]
    assert np.abs(moves).max() < 1e-13


def test_an_unbounded_density_ends_the_search_for_its_ends():
    """A flat density has no end to step out to; the steps are limited and their share random."""
    rng = np.random.default_rng(4)
    moves = np.array([slice_sampling.step(rng, lambda c: 0.0, width=1.0) for _ in range(4000)])
    reach = slice_sampling.MAX_STEPS_OUT
    assert np.abs(moves).max() <= reach
    assert stats.wilcoxon(moves).pvalue > 1e-6  # as far to the left as to the right
    assert moves.std() > reach / 10


def test_the_constant_of_a_log_density_is_of_no_account():
    def moves(constant):
        rng = np.random.default_rng(5)
        return [slice_sampling.step(rng, lambda c: constant - 0.5 * c * c) for _ in range(50)]

    np.testing.assert_allclose(moves(0.0), moves(-256.0), atol=1e-9)
