from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from atoll.diagnostics import rank_uniformity_p_values, simulation_based_calibration

# mean ~ N(0, 1), y ~ N(mean, 1): the posterior is N(y / 2, 1 / 2).


def calibrate(sample_posterior, *, seed=0, n_simulations=1000, **options):
    return simulation_based_calibration(
        np.random.default_rng(seed),
        lambda rng: rng.normal(),
        lambda rng, mean: rng.normal(mean),
        sample_posterior,
        n_simulations=n_simulations,
        n_draws=19,
        **options,
    )


def exact(rng, y, n_draws):
    return rng.normal(y / 2, np.sqrt(1 / 2), size=n_draws)


def from_the_prior(rng, y, n_draws):
    return rng.normal(size=n_draws)


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_posterior_passes(seed):
    result = calibrate(exact, seed=seed)
    assert result.ranks.shape == (1000, 1)
    assert result.smallest_adjusted_p_value > 1e-6
    assert result.failures == ()


@pytest.mark.parametrize("deviation", [0.5, 1.0], ids=["variance for deviation", "too wide"])
def test_a_posterior_of_the_wrong_width_is_caught(deviation):
    result = calibrate(lambda rng, y, n: rng.normal(y / 2, deviation, size=n), n_simulations=2000)
    assert result.smallest_adjusted_p_value < 1e-6


def test_a_biased_posterior_is_caught_at_one_end():
    result = calibrate(lambda rng, y, n: rng.normal(y / 2 + 0.5, np.sqrt(1 / 2), size=n))
    assert result.smallest_adjusted_p_value < 1e-6
    assert result.ranks.mean() < 8


def test_a_posterior_that_ignores_the_data_needs_a_quantity_with_data_in_it():
    def log_likelihood(mean, y):
        return {"mean": mean, "log likelihood": -((y - mean) ** 2) / 2}

    assert calibrate(from_the_prior).smallest_adjusted_p_value > 1e-6
    caught = calibrate(from_the_prior, quantities=log_likelihood, n_simulations=500)
    assert dict(zip(caught.names, caught.p_values))["log likelihood"] < 1e-6
    right = calibrate(exact, quantities=log_likelihood, n_simulations=500)
    assert right.smallest_adjusted_p_value > 1e-6


def test_ties_are_broken_at_random_so_that_a_coin_passes():
    def sample_posterior(rng, y, n_draws):
        # Both sides have prior one half, and y equals the coin with probability 0.9.
        return np.where(rng.uniform(size=n_draws) < 0.9, y, 1 - y)

    result = simulation_based_calibration(
        np.random.default_rng(0),
        lambda rng: rng.integers(2),
        lambda rng, coin: coin if rng.uniform() < 0.9 else 1 - coin,
        sample_posterior,
        n_simulations=1000,
        n_draws=19,
    )
    assert result.smallest_adjusted_p_value > 1e-6


def test_draws_may_be_rows_of_an_array_or_dictionaries():
    def as_rows(rng, y, n_draws):
        return exact(rng, y, n_draws)[:, None]

    def as_dictionaries(rng, y, n_draws):
        return [{"0": draw} for draw in exact(rng, y, n_draws)]

    np.testing.assert_array_equal(
        calibrate(as_rows, n_simulations=20).ranks,
        calibrate(as_dictionaries, n_simulations=20).ranks,
    )


def test_a_progress_bar_changes_no_rank(at_a_terminal):
    silent = calibrate(exact, n_simulations=20)
    assert at_a_terminal.readouterr().err == ""
    shown = calibrate(exact, n_simulations=20, progress=True)
    assert "simulations" in at_a_terminal.readouterr().err
    np.testing.assert_array_equal(silent.ranks, shown.ranks)


def test_a_posterior_draw_that_is_nan_is_a_failure_by_name():
    def broken(rng, y, n_draws):
        draws = exact(rng, y, n_draws)
        return [{"fine": draw, "broken": np.nan if y > 0 else draw} for draw in draws]

    result = simulation_based_calibration(
        np.random.default_rng(0),
        lambda rng: dict.fromkeys(("fine", "broken"), rng.normal()),
        lambda rng, parameters: rng.normal(parameters["fine"]),
        broken,
        n_simulations=100,
        n_draws=19,
    )
    assert result.failures == ("broken",)
    assert result.smallest_adjusted_p_value == 0.0
    assert result.p_values[0] > 1e-6


def test_the_wrong_number_of_draws_is_refused():
    with pytest.raises(ValueError, match="18 draws where n_draws is 19"):
        calibrate(lambda rng, y, n: exact(rng, y, n - 1))


def test_draws_of_another_form_than_the_prior_are_refused():
    with pytest.raises(ValueError, match="2 quantities"):
        calibrate(lambda rng, y, n: np.zeros((n, 2)))


@pytest.mark.parametrize("argument", ["n_simulations", "n_draws"])
def test_nothing_to_simulate_is_refused(argument):
    arguments = {"n_simulations": 5, "n_draws": 5, argument: 0}
    with pytest.raises(ValueError, match=f"{argument} is 0"):
        simulation_based_calibration(
            np.random.default_rng(0), lambda rng: 0.0, lambda rng, p: 0.0, exact, **arguments
        )


def test_uniformity_agrees_with_the_chi_square_test_of_scipy():
    ranks = np.random.default_rng(0).integers(0, 20, size=400)
    expected = stats.chisquare(np.bincount(ranks // 2, minlength=10)).pvalue
    assert rank_uniformity_p_values(ranks, 19, n_bins=10)[0] == pytest.approx(expected, rel=1e-12)


def test_bins_of_unequal_size_are_expected_to_hold_unequal_counts():
    every_rank_once = np.arange(11)
    assert rank_uniformity_p_values(every_rank_once, 10, n_bins=4)[0] == pytest.approx(1.0)


@pytest.mark.parametrize("n_bins", [1, 12])
def test_an_impossible_number_of_bins_is_refused(n_bins):
    with pytest.raises(ValueError, match=f"n_bins is {n_bins}"):
        rank_uniformity_p_values(np.arange(11), 10, n_bins=n_bins)


@pytest.mark.parametrize("ranks", [[-1, 3], [3, 11], []])
def test_impossible_ranks_are_refused(ranks):
    with pytest.raises(ValueError, match="ranks"):
        rank_uniformity_p_values(np.array(ranks, dtype=int), 10)
