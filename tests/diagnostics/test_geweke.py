from __future__ import annotations

import numpy as np
import pytest

from atoll.diagnostics import geweke_table, geweke_test

# y_i ~ N(mean, 1 / precision), i = 1 … 4; mean ~ N(0, 1); precision ~ Gamma(SHAPE, rate = RATE).
N_ROWS, SHAPE, RATE = 4, 3.0, 2.0


def sample_prior(rng):
    return rng.normal(), rng.gamma(SHAPE) / RATE


def sample_data(rng, parameters):
    mean, precision = parameters
    return rng.normal(mean, precision**-0.5, size=N_ROWS)


def right_sweep(rng, parameters, y):
    _, precision = parameters
    mean = draw_mean(rng, precision, y)
    return mean, draw_precision(rng, mean, y)


def draw_mean(rng, precision, y):
    total = 1 + len(y) * precision
    return rng.normal(precision * y.sum() / total, total**-0.5)


def draw_precision(rng, mean, y):
    return rng.gamma(SHAPE + len(y) / 2) / (RATE + ((y - mean) ** 2).sum() / 2)


def sweep_with_variance_for_deviation(rng, parameters, y):
    _, precision = parameters
    total = 1 + len(y) * precision
    mean = rng.normal(precision * y.sum() / total, 1 / total)
    return mean, draw_precision(rng, mean, y)


def sweep_that_forgets_a_row(rng, parameters, y):
    return right_sweep(rng, parameters, y[1:])


def sweep_that_forgets_the_prior_mean(rng, parameters, y):
    _, precision = parameters
    mean = rng.normal(y.mean(), (len(y) * precision) ** -0.5)
    return mean, draw_precision(rng, mean, y)


def sweep_that_miscounts_degrees_of_freedom(rng, parameters, y):
    _, precision = parameters
    mean = draw_mean(rng, precision, y)
    return mean, draw_precision(rng, mean, y) * rng.beta(SHAPE + 1.0, 1.0)


def sweep_that_ignores_the_data(rng, parameters, y):
    return sample_prior(rng)


def statistics(parameters, y):
    mean, precision = parameters
    return {
        "mean": mean,
        "mean squared": mean**2,
        "precision": precision,
        "mean times average": mean * y.mean(),
        "residual of first row": precision * (y[0] - mean) ** 2,
        "residual of last row": precision * (y[-1] - mean) ** 2,
    }


def run(sweep, seed, statistics=statistics, n_chains=200):
    return geweke_test(
        np.random.default_rng(seed),
        sample_prior,
        sample_data,
        sweep,
        statistics,
        n_chains=n_chains,
        n_steps=20,
        n_marginal=5000,
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_right_gibbs_sweep_passes(seed):
    result = run(right_sweep, seed)
    assert result.smallest_adjusted_p_value > 1e-6, str(result)
    assert result.failures == ()


def test_an_exact_posterior_draw_passes_where_statistics_have_no_variance():
    result = geweke_test(
        np.random.default_rng(0),
        lambda rng: rng.normal(),
        lambda rng, mean: rng.normal(mean),
        lambda rng, mean, y: rng.normal(y / 2, np.sqrt(1 / 2)),
        lambda mean, y: {"ratio": mean / y, "exponential": np.exp(mean**2)},
    )
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


def test_a_sweep_that_does_not_move_is_invariant_and_passes():
    result = run(lambda rng, parameters, y: parameters, seed=0)
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


@pytest.mark.parametrize(
    "sweep",
    [
        sweep_with_variance_for_deviation,
        sweep_that_forgets_a_row,
        sweep_that_forgets_the_prior_mean,
        sweep_that_miscounts_degrees_of_freedom,
        sweep_that_ignores_the_data,
    ],
)
def test_a_wrong_sweep_is_caught(sweep):
    result = run(sweep, seed=0, n_chains=500)
    assert result.smallest_adjusted_p_value < 1e-6, str(result)


def test_a_forgotten_row_shows_in_its_residual_and_in_no_parameter():
    result = run(sweep_that_forgets_a_row, seed=1, n_chains=500)
    p_values = dict(zip(result.names, result.p_values))
    assert p_values["residual of first row"] < 1e-6
    assert p_values["mean"] > 1e-6
    assert p_values["precision"] > 1e-6
    assert p_values["residual of last row"] > 1e-6


def test_the_same_seed_gives_the_same_result():
    first, second = (run(right_sweep, seed=5, n_chains=10) for _ in range(2))
    np.testing.assert_array_equal(first.p_values, second.p_values)
    np.testing.assert_array_equal(first.successive_mean, second.successive_mean)


def test_statistics_may_be_a_vector():
    result = run(right_sweep, 0, lambda parameters, y: np.array(parameters), n_chains=20)
    assert result.names == ("0", "1")
    assert result.p_values.shape == result.marginal_mean.shape == (2,)


def test_a_statistic_that_turns_nan_is_a_failure_by_name():
    n_calls = 0

    def sweep_that_breaks(rng, parameters, y):
        nonlocal n_calls
        n_calls += 1
        return parameters[0], np.nan if n_calls % 7 == 0 else parameters[1]

    result = run(sweep_that_breaks, 0)
    assert result.failures == ("precision", "residual of first row", "residual of last row")
    assert result.smallest_adjusted_p_value == 0.0
    assert np.isnan(result.t_scores[result.names.index("precision")])
    assert "not finite under the sampler: precision" in str(result)


def test_a_constant_statistic_neither_alarms_nor_hides_a_change():
    one = run(right_sweep, 0, lambda parameters, y: {"one": 1 / 3}, n_chains=5)
    assert one.p_values[0] == 1.0
    changed = geweke_test(
        np.random.default_rng(0),
        lambda rng: 0.0,
        lambda rng, parameter: 0.0,
        lambda rng, parameter, data: 1.0,
        lambda parameter, data: [parameter],
    )
    assert changed.p_values[0] == 0.0


def test_a_statistic_that_is_not_finite_under_the_prior_is_refused():
    with pytest.raises(ValueError, match="not finite under the prior for bad"):
        run(right_sweep, 0, lambda parameters, y: {"good": 1.0, "bad": np.inf}, n_chains=2)


@pytest.mark.parametrize(
    ("argument", "value"), [("n_chains", 1), ("n_marginal", 1), ("n_steps", 0)]
)
def test_too_few_of_anything_are_refused(argument, value):
    with pytest.raises(ValueError, match=f"{argument} is {value}"):
        geweke_test(
            np.random.default_rng(0),
            sample_prior,
            sample_data,
            right_sweep,
            statistics,
            **{argument: value},
        )


def test_the_table_has_the_least_likely_statistic_first():
    table = geweke_table(run(sweep_that_forgets_a_row, seed=2)).splitlines()
    assert table[0].split() == ["statistic", "marginal", "successive", "t", "p-value"]
    assert table[1].startswith("residual of first row")
    assert "adjusted for 6 statistics" in table[-1]
