"""Flights through a cone: exact draws stay exact, and each is a quarter turn with reflections."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from atoll.inference.cone_flights import MOST_BOUNCES, fly, mirrors_of


def covariance_of(m, seed):
    half = np.random.default_rng(seed).standard_normal((m, m + 2))
    return half @ half.T / m


def drawn(rng, V, n):
    return rng.standard_normal((n, len(V))) @ np.linalg.cholesky(V).T


def quarter_turn(z, speed, V):
    """Follow the ellipse from wall to wall by its angles, for one chain; and count the walls."""
    left, n_walls = 0.5 * np.pi, 0
    while True:
        angle = np.arctan2(z, -speed)  # where z cos t + speed sin t is zero, in (0, π)
        wall = int(angle.argmin())
        turn = min(float(angle[wall]), left)
        z, speed = np.cos(turn) * z + np.sin(turn) * speed, np.cos(turn) * speed - np.sin(turn) * z
        left -= turn
        if left <= 0.0:
            return z, n_walls
        speed = speed - 2.0 * speed[wall] / V[wall, wall] * V[wall]
        n_walls += 1
        z[wall] = 1e-300


@pytest.mark.parametrize("m", [1, 2, 6])
def test_a_flight_is_a_quarter_turn_on_the_ellipse_with_its_reflections(m):
    rng, V = np.random.default_rng(m), covariance_of(m, m)
    z, speed = rng.exponential(size=(200, m)), drawn(rng, V, 200)
    ends = [quarter_turn(*each, V) for each in zip(z, speed)]
    np.testing.assert_allclose(fly(z, speed, mirrors_of(V)), [end for end, _ in ends], atol=1e-9)
    most = 1
    expected = [end if n <= most else stay for (end, n), stay in zip(ends, z)]
    np.testing.assert_allclose(fly(z, speed, mirrors_of(V), most), expected, atol=1e-9)


@pytest.mark.parametrize("most_bounces", [0, 1, MOST_BOUNCES])
def test_a_flight_leaves_a_normal_inside_a_cone_invariant(most_bounces):
    """However soon flights are given up."""
    rng, V = np.random.default_rng(7), covariance_of(3, 3)
    exact = drawn(rng, V, 400_000)
    exact = exact[(exact > 0).all(axis=1)]  # by rejection
    z, others = exact[: len(exact) // 2], exact[len(exact) // 2 :]
    for _ in range(3):
        z = fly(z, drawn(rng, V, len(z)), mirrors_of(V), most_bounces)
    assert (z > 0).all()
    for f in (lambda x: x, np.square, np.log, lambda x: x * np.roll(x, 1, axis=1)):
        found, wanted = f(z), f(others)
        error = np.sqrt(found.var(axis=0) / len(found) + wanted.var(axis=0) / len(wanted))
        assert (np.abs(found.mean(axis=0) - wanted.mean(axis=0)) < 6.0 * error).all()


@pytest.mark.parametrize("correlation", [-0.9999, 0.0, 0.9])
def test_few_flights_reach_every_direction_of_a_wedge_alike(correlation):
    """Also of one that is half a degree wide, from a start beside one of its walls."""
    rng = np.random.default_rng(8)
    V = np.array([[1.0, correlation], [correlation, 1.0]])
    z = np.tile([1.0, 1e-3], (20_000, 1))
    for _ in range(4):
        z = fly(z, drawn(rng, V, len(z)), mirrors_of(V))
    white = np.linalg.solve(np.linalg.cholesky(V), z.T)
    width = 0.5 * np.pi + np.arcsin(correlation)
    share = (np.arctan2(white[1], white[0]) - (0.5 * np.pi - width)) / width
    assert stats.kstest(share, "uniform").pvalue > 1e-6
    assert stats.kstest((white**2).sum(axis=0), stats.chi2(2).cdf).pvalue > 1e-6


def test_reflections_keep_the_energy_and_the_chains_their_places():
    rng, V = np.random.default_rng(9), covariance_of(30, 9)
    z, speed = np.ones((50, 30)), drawn(rng, V, 50)
    end = fly(z, speed, mirrors_of(V))
    energy = [np.einsum("si,ij,sj->s", x, np.linalg.inv(V), x) for x in (speed, end)]
    np.testing.assert_allclose(energy[1], energy[0], rtol=1e-8)
    alone = np.concatenate([fly(z[s : s + 1], speed[s : s + 1], mirrors_of(V)) for s in range(50)])
    np.testing.assert_array_equal(end, alone)
    np.testing.assert_array_equal(z, 1.0)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_balls_that_start_in_a_corner_end_inside(precision):
    rng, V = np.random.default_rng(10), covariance_of(8, 10)
    speed = drawn(rng, V, 500).astype(precision)
    for start in (0.0, 1e-30, 1e-12):
        z = np.full((500, 8), max(start, np.finfo(precision).tiny), precision)
        end = fly(z, speed, mirrors_of(V).astype(precision))
        assert end.dtype == precision
        assert (end > 0).all()
        assert np.isfinite(end).all()
