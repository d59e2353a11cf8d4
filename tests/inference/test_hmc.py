from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from atoll.diagnostics import geweke_test
from atoll.inference import hmc


def log_joint(x, y):
    """x ~ N(0, I₃), y_i ~ Bernoulli(logit⁻¹(2 x_i)): value and gradient in x."""
    signed = np.where(y == 1, 2.0, -2.0)
    value = -np.logaddexp(0.0, -signed * x).sum() - 0.5 * x @ x
    return float(value), signed / (1.0 + np.exp(signed * x)) - x


def test_geweke_joint_test():
    def sweep(rng, x, y):
        state = hmc.init(x, lambda x: log_joint(x, y))
        return hmc.step(rng, state, lambda x: log_joint(x, y), 0.4, int(rng.integers(1, 5)))[
            0
        ].position

    result = geweke_test(
        np.random.default_rng(0),
        sample_prior=lambda rng: rng.standard_normal(3),
        sample_data=lambda rng, x: (rng.random(3) < 1 / (1 + np.exp(-2 * x))).astype(int),
        sweep=sweep,
        statistics=lambda x, y: {
            "x0": x[0], "x0²": x[0] ** 2, "x0 x1": x[0] * x[1], "x2⁴": x[2] ** 4,
            "x0 y0": x[0] * y[0], "(y1 − x1)²": (y[1] - x[1]) ** 2,
        },
        n_chains=300,
        n_steps=30,
    )  # fmt: skip
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


def test_leapfrog_is_reversible_and_nearly_keeps_the_energy():
    """With tiny steps every proposal is accepted: the integrator has no first-order error."""
    rng = np.random.default_rng(1)
    y = np.array([1, 0, 1])
    state = hmc.init(rng.standard_normal(3), lambda x: log_joint(x, y))
    errors = []
    for step_size in (0.2, 0.1):
        probabilities = []
        for seed in range(200):
            _, info = hmc.step(
                np.random.default_rng(seed), state, lambda x: log_joint(x, y), step_size,
                round(1 / step_size),
            )  # fmt: skip
            probabilities.append(info.acceptance)
        errors.append(1 - np.mean(probabilities))
    assert errors[0] < 0.02
    assert errors[1] < errors[0] / 3  # second order: a quarter, and rounding


def test_a_step_by_gradients_is_the_plain_one():
    y, x = np.array([1, 0, 1]), np.array([0.3, -1.0, 0.2])
    for seed in range(20):
        plain, info = hmc.step(
            np.random.default_rng(seed), hmc.init(x, lambda x: log_joint(x, y)),
            lambda x: log_joint(x, y), 0.9, 4,
        )  # fmt: skip
        moved, same = hmc.step_by_gradients(
            np.random.default_rng(seed), x, lambda x: log_joint(x, y)[0],
            lambda x: log_joint(x, y)[1], 0.9, 4,
        )  # fmt: skip
        np.testing.assert_allclose(moved, plain.position, rtol=1e-12)
        assert same == pytest.approx(info)


def test_a_momentum_that_is_given_takes_the_place_of_one_drawn():
    y, x = np.array([1, 0, 1]), np.array([0.3, -1.0, 0.2])
    functions = (lambda x: log_joint(x, y)[0]), (lambda x: log_joint(x, y)[1])
    for seed in range(5):
        expected = hmc.step_by_gradients(np.random.default_rng(seed), x, *functions, 0.9, 4)
        rng = np.random.default_rng(seed)
        given = rng.standard_normal(3)
        found = hmc.step_by_gradients(rng, x, *functions, 0.9, 4, given)
        np.testing.assert_array_equal(found[0], expected[0])
        assert found[1] == expected[1]


def ridge(y):
    """Two blocks: x ~ N(0, 1) is dear, z ~ N(0, I₂), and y_i ~ Bernoulli(logit⁻¹(3 x z_i))."""
    signed = np.where(y == 1, 3.0, -3.0)

    def slope(x, z):
        return signed / (1.0 + np.exp(signed * x[0] * z))

    return hmc.Nested(
        prepare=lambda x: x,
        log_density=lambda x, z: float(
            -np.logaddexp(0.0, -signed * x[0] * z).sum() - 0.5 * (x @ x + z @ z)
        ),
        cheap_slope=lambda x, z: x[0] * slope(x, z) - z,
        slopes=lambda x, z: (np.array([slope(x, z) @ z]) - x, x[0] * slope(x, z) - z),
    )


@pytest.mark.parametrize(
    ("wrong", "n_inner"),
    [(0.0, 1), (0.3, 1), (0.3, 3)],
    ids=["gradient", "a poor one", "a poor one, with inner steps"],
)
def test_geweke_joint_test_of_the_nested_step(wrong, n_inner):
    """A slope that is off costs acceptances, not exactness."""

    def sweep(rng, state, y):
        right = ridge(y)

        def slopes(x, z):
            by_x, by_z = right.slopes(x, z)
            return by_x + wrong * z[:1], by_z

        target = right._replace(slopes=slopes)
        x, z, _, _ = hmc.nested_step(
            rng, state[:1], state[1:], target, 0.5, int(rng.integers(1, 4)), n_inner=n_inner
        )
        return np.concatenate([x, z])

    result = geweke_test(
        np.random.default_rng(4),
        sample_prior=lambda rng: rng.standard_normal(3),
        sample_data=lambda rng, s: (rng.random(2) < expit(3 * s[0] * s[1:])).astype(int),
        sweep=sweep,
        statistics=lambda s, y: {
            "x": s[0], "x²": s[0] ** 2, "z0²": s[1] ** 2, "x z0": s[0] * s[1],
            "x z0 y0": s[0] * s[1] * y[0], "z0 z1": s[1] * s[2], "y0 y1": y[0] * y[1],
        },
        n_chains=300,
        n_steps=30,
    )  # fmt: skip
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


def test_a_nested_step_has_no_first_order_error_and_gives_up_where_nothing_is_prepared():
    target, errors = ridge(np.array([1, 0])), []
    for step_size in (0.2, 0.1):
        found = [
            hmc.nested_step(
                np.random.default_rng(seed), np.array([0.8]), np.array([0.5, -1.0]), target,
                step_size, round(1 / step_size),
            )[3].acceptance
            for seed in range(200)
        ]  # fmt: skip
        errors.append(1 - np.mean(found))
    assert errors[0] < 0.02
    assert errors[1] < errors[0] / 3
    near = target._replace(prepare=lambda x: x if x[0] == 0.8 else None)
    x, z, prepared, info = hmc.nested_step(
        np.random.default_rng(0), np.array([0.8]), np.zeros(2), near, 0.1, 5
    )
    assert info == hmc.HMCInfo(0.0, False)
    assert (x[0], z.tolist(), prepared[0]) == (0.8, [0.0, 0.0], 0.8)


def test_inner_steps_are_as_short_as_the_cheap_block_needs_them():
    """Its standard deviation is a tenth of the dear block's, whose steps stay long."""
    seen = []

    def cheap_slope(x, z):
        seen.append(z.copy())
        return -100.0 * z

    target = hmc.Nested(
        prepare=lambda x: x,
        log_density=lambda x, z: -0.5 * float(x @ x + 100.0 * (z @ z)),
        cheap_slope=cheap_slope,
        slopes=lambda x, z: (-x, -100.0 * z),
    )
    acceptance = {}
    for n_inner in (1, 8):
        seen.clear()
        acceptance[n_inner] = np.mean([
            hmc.nested_step(
                np.random.default_rng(seed), np.ones(1), np.full(3, 0.1), target, 0.5, 4,
                n_inner=n_inner,
            )[3].acceptance
            for seed in range(50)
        ])  # fmt: skip
        assert len(seen) == 50 * 4 * 2 * n_inner
    assert acceptance[1] < 0.5
    assert acceptance[8] > 0.9


def test_a_gradient_of_nan_gives_a_trajectory_up():
    x, info = hmc.step_by_gradients(
        np.random.default_rng(0), np.zeros(2), lambda x: 0.0,
        lambda x: np.full(2, np.nan if x[0] != 0 else 0.0), 0.1, 5,
    )  # fmt: skip
    assert info == hmc.HMCInfo(0.0, False)
    np.testing.assert_array_equal(x, np.zeros(2))


def test_nan_and_infinite_proposals_are_rejected():
    def broken(x):
        return (np.nan, x) if x[0] > 0.1 else (0.0, np.zeros(1))

    rng = np.random.default_rng(2)
    state = hmc.init(np.zeros(1), broken)
    for _ in range(100):
        state, info = hmc.step(rng, state, broken, 1.0, 3)
        assert state.position[0] <= 0.1
        assert np.isfinite(state.log_density)
        assert 0.0 <= info.acceptance <= 1.0


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_the_step_size_adapts_to_the_target_acceptance_on_any_scale(scale):
    def target(x):
        return -0.5 * float(x @ x) / scale**2, -x / scale**2

    rng = np.random.default_rng(3)
    state, tuned = hmc.init(np.zeros(20), target), hmc.init_step_size(1.0)
    for _ in range(500):
        state, info = hmc.step(rng, state, target, np.exp(tuned.log_step_size), 5)
        tuned = hmc.adapt_step_size(tuned, info.acceptance)
    accepted, positions = [], []
    for _ in range(1000):
        state, info = hmc.step(rng, state, target, np.exp(tuned.log_average), 5)
        accepted.append(info.acceptance)
        positions.append(state.position[0])
    assert 0.6 < np.mean(accepted) < 0.9
    assert stats.kstest(np.array(positions)[::20] / scale, "norm").pvalue > 1e-6


def test_an_end_without_density_is_refused():
    x, info = hmc.step_by_gradients(
        np.random.default_rng(0), np.zeros(2), lambda x: 0.0 if x[0] == 0 else -np.inf,
        lambda x: np.zeros(2), 0.1, 5,
    )  # fmt: skip
    assert info == hmc.HMCInfo(0.0, False)
    np.testing.assert_array_equal(x, np.zeros(2))


def test_the_first_adaptation_forgets_the_guess_of_the_average():
    tuned = hmc.adapt_step_size(hmc.init_step_size(0.1), 0.3)
    assert tuned.n_adapted == 1
    assert tuned.log_average == tuned.log_step_size
    second = hmc.adapt_step_size(tuned, 0.9)
    assert min(tuned.log_step_size, second.log_step_size) < second.log_average
    assert second.log_average < max(tuned.log_step_size, second.log_step_size)
