"""Draws from a normal inside a cone, against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.diagnostics import summarise
from atoll.inference.cone_sampling import arc_beside, coloured, sample_cone, turn_beside


def chains(seed, lower, constraints, start, n_chains=4, n_samples=700, thin=6):
    streams = np.random.default_rng(seed).spawn(n_chains)
    options = {"n_warmup": 200, "n_samples": n_samples, "thin": thin}
    return np.stack([sample_cone(s, lower, constraints, start, **options) for s in streams])


def assert_mean(values, expected):
    """The mean of (chain, draw) values within six of its standard errors."""
    ess = summarise({"value": values})["ess_bulk"]["value"]
    assert ess > 300
    assert abs(values.mean() - expected) < 6.0 * values.std() / np.sqrt(ess)


def test_without_constraints_that_bind_the_normal_is_left_invariant():
    # Constraints on one column; the other is free and independent of it.
    lower = np.linalg.cholesky(np.array([[2.0, 0.8], [0.8, 1.0]]))
    draws = chains(0, lower, lambda z: z[:, 0], np.ones((2, 2)))
    for i in range(2):
        assert_mean(draws[..., i, 1], 0.0)
        assert_mean(draws[..., i, 1] ** 2, (lower @ lower.T)[i, i])
    assert_mean(draws[..., 0, 1] * draws[..., 1, 1], 0.8)


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.6])
def test_the_mean_of_a_pair_that_is_positive_is_the_closed_form(correlation):
    # E[x | x, y > 0] = (1 + ρ)/(2 √(2π) P), P = 1/4 + arcsin(ρ)/(2π).
    lower = np.linalg.cholesky(np.array([[1.0, correlation], [correlation, 1.0]]))
    draws = chains(1, lower, lambda z: z[:, 0], np.ones((2, 1)))
    assert (draws > 0).all()
    mass = 0.25 + np.arcsin(correlation) / (2 * np.pi)
    expected = (1 + correlation) / (2 * np.sqrt(2 * np.pi) * mass)
    for i in range(2):
        assert_mean(draws[..., i, 0], expected)


def test_the_largest_of_three_is_distributed_as_a_maximum():
    # z_0 > z_1, z_2: by symmetry z_0 is the largest of three standard normals, mean 3/(2√π).
    def first_wins(z):
        return np.array([z[0, 0] - z[0, 1], z[0, 0] - z[0, 2]])

    draws = chains(2, np.eye(1), first_wins, np.array([[1.0, 0.0, -1.0]]))
    assert_mean(draws[..., 0, 0], 1.5 / np.sqrt(np.pi))
    assert_mean(draws[..., 0, 1] ** 2 + draws[..., 0, 2] ** 2 + draws[..., 0, 0] ** 2, 3.0)


def test_a_start_outside_the_cone_is_refused():
    with pytest.raises(ValueError, match="outside the cone"):
        chains(0, np.eye(1), np.ravel, -np.ones((1, 1)))


def test_the_same_stream_gives_the_same_draws():
    first, second = (chains(3, np.eye(2), np.ravel, np.ones((2, 1)), n_samples=5) for _ in "ab")
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("limits", [(-0.3, -1.0), (-9.0, -9.0)])
def test_a_turn_leaves_a_normal_beyond_any_limits_invariant(limits):
    """Limits on the far side of zero allow arcs that end more than half a turn away."""
    rng = np.random.default_rng(4)
    lower = np.linalg.cholesky(np.array([[1.0, 0.6], [0.6, 1.0]]))
    drawn = rng.standard_normal((200_000, 2)) @ lower.T
    exact = drawn[(drawn > limits).all(axis=1)]  # by rejection
    here = coloured(lower, exact[: len(exact) // 2])
    for _ in range(10):
        here = turn_beside(rng, lower, here, np.ones(2), np.array(limits))
    z = here.z
    np.testing.assert_allclose(here.white @ lower.T, z, atol=1e-12)
    others = exact[len(exact) // 2 :]  # that the chains have not started at
    for power in (1, 2):
        found, wanted = z**power, others**power
        error = np.sqrt(found.var(axis=0) / len(found) + wanted.var(axis=0) / len(wanted))
        assert (np.abs(found.mean(axis=0) - wanted.mean(axis=0)) < 6.0 * error).all()


def test_an_arc_ends_where_a_walk_along_it_first_meets_a_limit():
    rng = np.random.default_rng(5)
    z, other = rng.standard_normal((2, 300, 3))
    side = np.array([1.0, -1.0, 1.0])
    limits = z - side * rng.exponential(0.6, z.shape)
    first, last = arc_beside(z, other, side, limits)
    steps = np.linspace(0.0, 2 * np.pi, 20_001)
    for way, end in ((1.0, last), (-1.0, -first)):
        angle = way * steps[:, None, None]
        outside = (side * (np.cos(angle) * z + np.sin(angle) * other - limits) < 0).any(axis=2)
        walked = np.where(outside.any(axis=0), steps[outside.argmax(axis=0)], np.pi)
        np.testing.assert_allclose(end, walked, atol=1.1 * steps[1])
