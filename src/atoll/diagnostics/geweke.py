"""Geweke's test: a sampler is wrong if it changes the joint distribution that it should keep.

The joint p(parameters, data) can be simulated in two ways. The marginal-conditional simulator draws
parameters from the prior, then data given them, independently each time. The
successive-conditional simulator takes turns: the sampler's sweep draws parameters given the data,
and the model's own simulator draws data given the parameters. If the sweep is correct, the two
agree in every expectation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from atoll.diagnostics.quantities import named_values, names_where

Array = NDArray[np.float64]


class GewekeResult(NamedTuple):
    """Two simulators of one joint distribution, compared statistic by statistic.

    names : names of the q statistics
    marginal_mean, successive_mean : (q,) means under the two simulators
    t_scores : (q,) Welch's t on ranks, positive if the successive simulator's values are larger
    p_values : (q,) two-sided and not adjusted; 0 for a failure
    smallest_adjusted_p_value : the smallest p-value, Bonferroni-adjusted for q: the one to judge by
    failures : names of the statistics that became NaN or infinite under the sampler
    """

    names: tuple[str, ...]
    marginal_mean: Array
    successive_mean: Array
    t_scores: Array
    p_values: Array
    smallest_adjusted_p_value: float
    failures: tuple[str, ...]

    def __str__(self) -> str:
        return geweke_table(self)


def geweke_test(
    rng: np.random.Generator,
    sample_prior: Callable[[np.random.Generator], Any],
    sample_data: Callable[[np.random.Generator, Any], Any],
    sweep: Callable[[np.random.Generator, Any, Any], Any],
    statistics: Callable[[Any, Any], Any],
    *,
    n_chains: int = 200,
    n_steps: int = 20,
    n_marginal: int = 10_000,
) -> GewekeResult:
    """Test that a sampler's sweep leaves the posterior of its model invariant.

    Parameters
    ----------
    rng : source of randomness
    sample_prior : (rng) -> parameters, from the prior
    sample_data : (rng, parameters) -> data, from the likelihood
    sweep : (rng, parameters, data) -> parameters, the transition under test
    statistics : (parameters, data) -> {name: float} or a 1-d array. Include each parameter, its
        square (or another function that is large at both ends, since the parameter alone reveals a
        shift but not a change of width), and functions of parameters and data together, such as
        squared residuals and products, since only those notice a sweep that overlooks part of the
        data. Leave out events so rare that most chains never see one.
    n_chains : int, default=200
        Chains of the successive-conditional simulator: at least 2, preferably 100 or more.
    n_steps : int, default=20
        Sweeps per chain. The effect of an error grows with the steps, so take several times the
        number that the sampler needs to forget its state.
    n_marginal : int, default=10000
        Independent draws of the marginal-conditional simulator, at least 2.

    Returns
    -------
    GewekeResult

    Notes
    -----
    Every chain starts from an exact joint draw, so there is no burn-in, and if the sweep is right
    the chain means are independent and identically distributed: their spread gives the standard
    error, and no autocorrelation need be estimated.

    Values are replaced by their mid-ranks among the marginal draws before they are averaged (for
    chains of one step this is the Mann–Whitney test). Ranks are bounded, so p-values hold far out
    in the tail even for statistics without a finite variance, for which a test on plain means
    raises false alarms.

    The statistics are read after the sweep and before the data are renewed. Parameters and data
    follow the joint distribution at that point too, and only there does a sweep that ignores a data
    point show: once the data are renewed, they fit the parameters again, whatever the sweep
    ignored.

    A chain ends as soon as a statistic is not finite, and that statistic is listed in `failures`.

    References
    ----------
    Geweke (2004), Getting it right: joint distribution tests of posterior simulators. Journal of
    the American Statistical Association 99.

    Examples
    --------
    A normal mean with a standard normal prior and one observation of unit variance.

    >>> def right(rng, mean, y):
    ...     return rng.normal(y / 2, np.sqrt(1 / 2))
    >>> def wrong(rng, mean, y):
    ...     return rng.normal(y / 2, 1 / 2)
    >>> def test(sweep):
    ...     result = geweke_test(
    ...         np.random.default_rng(0),
    ...         sample_prior=lambda rng: rng.normal(),
    ...         sample_data=lambda rng, mean: rng.normal(mean),
    ...         sweep=sweep,
    ...         statistics=lambda mean, y: {"mean": mean, "square": mean**2, "product": mean * y},
    ...     )
    ...     return result.smallest_adjusted_p_value > 1e-6
    >>> test(right), test(wrong)
    (True, False)
    """
    for name, value in (("n_chains", n_chains), ("n_marginal", n_marginal)):
        if value < 2:
            raise ValueError(f"{name} is {value}; a standard error needs at least 2.")
    if n_steps < 1:
        raise ValueError(f"n_steps is {n_steps}; each chain needs at least 1 sweep.")

    rng_marginal, rng_successive = rng.spawn(2)
    marginal = []
    for _ in range(n_marginal):
        parameters = sample_prior(rng_marginal)
        names, values = named_values(statistics(parameters, sample_data(rng_marginal, parameters)))
        marginal.append(values)
    chains = [
        _successive_values(rng_successive, sample_prior, sample_data, sweep, statistics, n_steps)
        for _ in range(n_chains)
    ]
    return _compare(names, np.array(marginal), chains)


def geweke_table(result: GewekeResult) -> str:
    """Return a `GewekeResult` as a text table, one line per statistic, smallest p-value first.

    Examples
    --------
    >>> result = GewekeResult(("mean",), np.zeros(1), np.ones(1), np.array([9.0]),
    ...                       np.array([1e-9]), 1e-9, ())
    >>> print(geweke_table(result))
    statistic    marginal  successive       t    p-value
    mean                0           1    9.00      1e-09
    smallest p-value, adjusted for 1 statistic: 1e-09
    """
    width = max(len("statistic"), *(len(name) for name in result.names))
    lines = [f"{'statistic':<{width}}{'marginal':>12}{'successive':>12}{'t':>8}{'p-value':>11}"]
    for i in np.argsort(result.p_values, kind="stable"):
        lines.append(
            f"{result.names[i]:<{width}}{result.marginal_mean[i]:>12.5g}"
            f"{result.successive_mean[i]:>12.5g}{result.t_scores[i]:>8.2f}"
            f"{result.p_values[i]:>11.2g}"
        )
    n = len(result.names)
    lines.append(
        f"smallest p-value, adjusted for {n} statistic{'s' * (n > 1)}: "
        f"{result.smallest_adjusted_p_value:.2g}"
    )
    if result.failures:
        lines.append(f"not finite under the sampler: {', '.join(result.failures)}")
    return "\n".join(lines)


def _successive_values(
    rng: np.random.Generator,
    sample_prior: Callable[[np.random.Generator], Any],
    sample_data: Callable[[np.random.Generator, Any], Any],
    sweep: Callable[[np.random.Generator, Any, Any], Any],
    statistics: Callable[[Any, Any], Any],
    n_steps: int,
) -> Array:
    """Return the statistics along one successive-conditional chain, (steps, q)."""
    parameters = sample_prior(rng)
    seen: list[Array] = []
    while len(seen) < n_steps and (not seen or np.isfinite(seen[-1]).all()):
        data = sample_data(rng, parameters)
        parameters = sweep(rng, parameters, data)
        seen.append(named_values(statistics(parameters, data))[1])
    return np.array(seen)


def _compare(names: tuple[str, ...], marginal: Array, chains: list[Array]) -> GewekeResult:
    """Compare marginal (n, q) with chains, each (steps, q)."""
    is_bad = ~np.isfinite(marginal).all(axis=0)
    if is_bad.any():
        raise ValueError(
            "statistics gives values that are not finite under the prior for "
            f"{', '.join(names_where(names, is_bad))}; "
            "choose statistics that are finite for every parameter and every data set."
        )
    failed = ~np.all([np.isfinite(chain).all(axis=0) for chain in chains], axis=0)
    t_scores = np.full(len(names), np.nan)
    p_values = np.zeros(len(names))
    for i in np.flatnonzero(~failed):
        t_scores[i], p_values[i] = _rank_t_test(marginal[:, i], [chain[:, i] for chain in chains])
    return GewekeResult(
        names=names,
        marginal_mean=marginal.mean(axis=0),
        successive_mean=np.where(
            failed, np.nan, np.mean([chain.mean(axis=0) for chain in chains], axis=0)
        ),
        t_scores=t_scores,
        p_values=p_values,
        smallest_adjusted_p_value=min(1.0, len(names) * float(p_values.min())),
        failures=names_where(names, failed),
    )


def _rank_t_test(marginal: Array, chains: list[Array]) -> tuple[float, float]:
    """Compare the chains' mean ranks with the ranks of marginal (n,): Welch's t, two-sided p."""
    everything = np.concatenate([marginal, *chains])
    if np.ptp(everything) <= 1e-9 * np.abs(everything).max():
        return 0.0, 1.0  # the statistic is constant, up to rounding
    ordered = np.sort(marginal)
    samples = [
        _mid_ranks(ordered, marginal),
        np.array([_mid_ranks(ordered, chain).mean() for chain in chains]),
    ]
    variances = [sample.var(ddof=1) for sample in samples]
    # A statistic of few values may by chance have almost equal chain means. If steps are not
    # negatively correlated, the means have at least this variance.
    variances[1] = max(variances[1], variances[0] / max(len(chain) for chain in chains))
    squared_errors = [variance / len(sample) for variance, sample in zip(variances, samples)]
    squared_error = sum(squared_errors)
    difference = samples[1].mean() - samples[0].mean()
    if squared_error == 0:
        return float(np.copysign(np.inf, difference)), 0.0
    t = difference / np.sqrt(squared_error)
    freedom = squared_error**2 / sum(
        error**2 / (len(sample) - 1) for error, sample in zip(squared_errors, samples)
    )
    return float(t), float(2 * stdtr(freedom, -abs(t)))


def _mid_ranks(ordered: Array, values: Array) -> Array:
    """Return the share of `ordered` below each value, with ties counted half; from 0 to 1."""
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    return (below + up_to) / (2 * len(ordered))
