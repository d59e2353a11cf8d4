"""Simulation-based calibration: the truth is one more draw from its own posterior.

Parameters are drawn from the prior, data are drawn given them, and posterior draws given the data.
If the posterior is right, the rank of the true value among the draws is uniform. If it is too
narrow, ranks pile up at both ends; if it is too wide, in the middle; if it is biased, at one end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from atoll.diagnostics.quantities import named_values, names_where

Array = NDArray[np.float64]
Ranks = NDArray[np.int64]

# Expected count per bin: far out in its tail, the chi-square approximation needs more than the
# usual five.
FEWEST_EXPECTED_PER_BIN = 25
MOST_BINS = 20  # unless the caller chooses the number of bins


class CalibrationResult(NamedTuple):
    """Ranks of the truth among posterior draws, and a test that they are uniform.

    names : names of the q quantities
    ranks : (n_simulations, q), in 0 … n_draws; −1 if the truth or a posterior draw was not finite
    n_draws : posterior draws behind each rank
    p_values : (q,) p-values of uniformity, not adjusted; 0 for a failure
    smallest_adjusted_p_value : the smallest p-value, Bonferroni-adjusted for q: the one to judge by
    failures : names of the quantities that were NaN or infinite in some draw
    """

    names: tuple[str, ...]
    ranks: Ranks
    n_draws: int
    p_values: Array
    smallest_adjusted_p_value: float
    failures: tuple[str, ...]


def simulation_based_calibration(
    rng: np.random.Generator,
    sample_prior: Callable[[np.random.Generator], Any],
    sample_data: Callable[[np.random.Generator, Any], Any],
    sample_posterior: Callable[[np.random.Generator, Any, int], Iterable[Any]],
    *,
    n_simulations: int,
    n_draws: int,
    quantities: Callable[[Any, Any], Any] | None = None,
    n_bins: int | None = None,
    progress: bool = False,
) -> CalibrationResult:
    """Test that a method of inference gives posteriors in the right place and of the right width.

    Parameters
    ----------
    rng : source of randomness
    sample_prior : (rng) -> parameters
    sample_data : (rng, parameters) -> data
    sample_posterior : (rng, data, n_draws) -> n_draws draws of the parameters, such as an array
        (n_draws, q) or a list. They must be close to independent, so thin the chain.
    n_simulations : number of data sets
    n_draws : posterior draws per data set
    quantities : callable or None, default=None
        (parameters, data) -> {name: float} or a 1-d array, the quantities to rank; None ranks the
        parameters themselves. A quantity that depends on the data, such as the log-likelihood,
        also detects a posterior that ignores some of the data (Modrák et al. 2023).
    n_bins : int or None, default=None
        Bins of the uniformity test; see `rank_uniformity_p_values`.
    progress : bool, default=False
        Whether to show a progress bar, which changes no draw.

    Returns
    -------
    CalibrationResult

    References
    ----------
    Talts, Betancourt, Simpson, Vehtari & Gelman (2018), Validating Bayesian inference algorithms
    with simulation-based calibration. arXiv:1804.06788.
    Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman & Vehtari (2023), Simulation-based
    calibration checking for Bayesian computation: the choice of test quantities shapes
    sensitivity. Bayesian Analysis.

    Examples
    --------
    >>> def test(spread):
    ...     result = simulation_based_calibration(
    ...         np.random.default_rng(0),
    ...         sample_prior=lambda rng: rng.normal(),
    ...         sample_data=lambda rng, mean: rng.normal(mean),
    ...         sample_posterior=lambda rng, y, n: rng.normal(y / 2, spread, size=n),
    ...         n_simulations=1000,
    ...         n_draws=39,
    ...     )
    ...     return result.smallest_adjusted_p_value > 1e-6
    >>> test(np.sqrt(1 / 2)), test(1 / 2)
    (True, False)
    """
    # Many parameters because a test of a whole model needs its parts: prior, data and posterior.
    for name, value in (("n_simulations", n_simulations), ("n_draws", n_draws)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1.")

    rng_prior, rng_posterior, rng_ties = rng.spawn(3)
    rows = []
    for simulation in _with_progress(range(n_simulations), progress):
        parameters = sample_prior(rng_prior)
        data = sample_data(rng_prior, parameters)
        draws = list(sample_posterior(rng_posterior, data, n_draws))
        if len(draws) != n_draws:
            raise ValueError(
                f"sample_posterior returned {len(draws)} draws where n_draws is {n_draws} "
                f"(simulation {simulation}); return exactly as many as asked."
            )
        if quantities is not None:
            parameters = quantities(parameters, data)
            draws = [quantities(draw, data) for draw in draws]
        names, truth = named_values(parameters)
        drawn = np.array([named_values(draw)[1] for draw in draws])
        if drawn.shape != (n_draws, len(truth)):
            raise ValueError(
                f"a posterior draw has {drawn.shape[1]} quantities and the prior draw has "
                f"{len(truth)}; both must be of the same form."
            )
        rows.append(_ranks(rng_ties, truth, drawn))

    ranks = np.array(rows)
    failed = (ranks < 0).any(axis=0)
    p_values = np.zeros(len(names))
    if not failed.all():
        p_values[~failed] = rank_uniformity_p_values(ranks[:, ~failed], n_draws, n_bins)
    return CalibrationResult(
        names=names,
        ranks=ranks,
        n_draws=n_draws,
        p_values=p_values,
        smallest_adjusted_p_value=min(1.0, len(names) * float(p_values.min())),
        failures=names_where(names, failed),
    )


def rank_uniformity_p_values(ranks: ArrayLike, n_draws: int, n_bins: int | None = None) -> Array:
    """Test by chi-square that ranks are uniform on 0 … n_draws.

    Parameters
    ----------
    ranks : (n_simulations, q) or (n_simulations,), whole numbers in 0 … n_draws
    n_draws : draws behind each rank, so that there are n_draws + 1 possible ranks
    n_bins : int or None, default=None
        Number of bins, from 2 to n_draws + 1, into which neighbouring ranks are pooled. Bins are as
        equal as possible; where they cannot be, the expected counts allow for it. None takes the
        largest number that leaves 25 expected per bin, and at most 20.

    Returns
    -------
    (q,) p-values, not adjusted for q

    Examples
    --------
    >>> uniform = np.repeat(np.arange(10), 30)
    >>> rank_uniformity_p_values(uniform, n_draws=9)
    array([1.])
    >>> bool(rank_uniformity_p_values(uniform // 2, n_draws=9)[0] < 1e-12)
    True
    """
    ranks = np.asarray(ranks)
    if ranks.ndim == 1:
        ranks = ranks[:, None]
    n_simulations = len(ranks)
    if ranks.size == 0 or ranks.min() < 0 or ranks.max() > n_draws:
        raise ValueError(f"ranks must hold at least one row, all of it in 0 … {n_draws} (n_draws).")
    if n_bins is None:
        n_bins = max(2, min(MOST_BINS, n_simulations // FEWEST_EXPECTED_PER_BIN, n_draws + 1))
    if not 2 <= n_bins <= n_draws + 1:
        raise ValueError(
            f"n_bins is {n_bins}; with n_draws = {n_draws} it must be from 2 to {n_draws + 1}."
        )
    bin_of_rank = np.arange(n_draws + 1) * n_bins // (n_draws + 1)
    expected = np.bincount(bin_of_rank) * (n_simulations / (n_draws + 1))
    counts = np.stack([np.bincount(bin_of_rank[column], minlength=n_bins) for column in ranks.T])
    chi_square = ((counts - expected) ** 2 / expected).sum(axis=1)
    return chdtrc(n_bins - 1, chi_square)


def _ranks(rng: np.random.Generator, truth: Array, drawn: Array) -> Ranks:
    """Return the rank of truth (q,) among drawn (n_draws, q); −1 if a value is not finite.

    Ties are broken at random.
    """
    below = (drawn < truth).sum(axis=0)
    tied = (drawn == truth).sum(axis=0)
    ranks = below + rng.integers(0, tied + 1)
    is_finite = np.isfinite(drawn).all(axis=0) & np.isfinite(truth)
    return np.where(is_finite, ranks, -1)


def _with_progress(simulations: range, progress: bool) -> Iterable[int]:
    if not progress:
        return simulations
    from atoll.core.progress import progress_bar

    return progress_bar(simulations, desc="simulations")
