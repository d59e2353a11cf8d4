"""Have the chains mixed, and how much are their draws worth? Computed by arviz-stats."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atoll.core.extras import import_extra

Array = NDArray[np.float64]

R_HAT_LIMIT, ESS_LIMIT = 1.05, 100.0  # chains have mixed with R-hat at most, and ESS at least, this

LEAST_LONGER, ROUND = 100, 50  # fewest sweeps that are advised, and what they are rounded to

# arviz-stats cuts every chain in two and needs at least two draws in each half.
FEWEST_DRAWS = 4


def rank_r_hat(draws: ArrayLike) -> float | Array:
    """Rank-normalised split R-hat: near 1 when the chains agree in location and in scale.

    Parameters
    ----------
    draws : (chain, draw) or (chain, draw, ...)

    Returns
    -------
    float, or an array of the trailing shape.
        NaN for fewer than 4 draws (8 in a single chain) and where a draw is not finite.
        Infinite where every chain stays at a value of its own.
        1.0 where two or more chains hold one and the same value throughout: a quantity that is
        known exactly, on which they agree. A single chain that never moves is NaN, since a
        sampler that is stuck looks the same.

    Notes
    -----
    A single chain is cut into halves that stand for two chains.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Rank-normalization, folding, and
    localization: an improved R-hat. Bayesian Analysis 16.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> agreeing = rng.normal(size=(4, 500))
    >>> apart = agreeing + np.arange(4)[:, None]
    >>> bool(rank_r_hat(agreeing) < 1.02), bool(rank_r_hat(apart) > 1.5)
    (True, True)
    """
    return _for_each_entry(draws, _r_hat_of_one)


def ess_bulk(draws: ArrayLike) -> float | Array:
    """Effective sample size for the centre of the distribution.

    Parameters
    ----------
    draws : (chain, draw) or (chain, draw, ...)

    Returns
    -------
    float, or an array of the trailing shape.
        NaN as in `rank_r_hat`; the number of draws for a quantity that is constant.

    Examples
    --------
    >>> independent = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(1600 < ess_bulk(independent) < 2600)
    True
    """
    return _for_each_entry(draws, lambda chains: _ess_of_one(chains, method="bulk"))


def ess_tail(draws: ArrayLike) -> float | Array:
    """Effective sample size for the 5% and 95% quantiles, whichever is smaller.

    Parameters
    ----------
    draws : (chain, draw) or (chain, draw, ...)

    Returns
    -------
    float, or an array of the trailing shape.
        NaN as in `rank_r_hat`; the number of draws for a quantity that is constant.

    Examples
    --------
    >>> independent = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(1400 < ess_tail(independent) < 2600)
    True
    """
    return _for_each_entry(
        draws, lambda chains: _ess_of_one(chains, method="tail", prob=(0.05, 0.95))
    )


def mcse_mean(draws: ArrayLike) -> float | Array:
    """Monte Carlo standard error of the mean over all chains.

    Parameters
    ----------
    draws : (chain, draw) or (chain, draw, ...)

    Returns
    -------
    float, or an array of the trailing shape.
        NaN as in `rank_r_hat`; zero for a quantity that is constant.

    Examples
    --------
    >>> independent = np.random.default_rng(0).normal(size=(4, 2500))
    >>> bool(0.008 < mcse_mean(independent) < 0.012)
    True
    """
    return _for_each_entry(draws, _mcse_of_one)


def summarise(draws: Mapping[str, ArrayLike]) -> dict[str, dict[str, float]]:
    """R-hat and effective sample sizes of each variable, the worst over its entries.

    Parameters
    ----------
    draws : name -> (chain, draw) or (chain, draw, ...)

    Returns
    -------
    {"r_hat": {name: float}, "ess_bulk": {name: float}, "ess_tail": {name: float}}
        A NaN in one entry makes the variable's value NaN. A variable without entries (a trailing
        axis of length zero) is left out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> summary = summarise({"mean": rng.normal(size=(4, 200)), "f": rng.normal(size=(4, 200, 3))})
    >>> sorted(summary), sorted(summary["r_hat"])
    (['ess_bulk', 'ess_tail', 'r_hat'], ['f', 'mean'])
    """
    arrays = {name: _check_draws(values, name) for name, values in draws.items()}
    filled = {name: array for name, array in arrays.items() if 0 not in array.shape[2:]}
    return {
        "r_hat": {name: float(np.max(rank_r_hat(array))) for name, array in filled.items()},
        "ess_bulk": {name: float(np.min(ess_bulk(array))) for name, array in filled.items()},
        "ess_tail": {name: float(np.min(ess_tail(array))) for name, array in filled.items()},
    }


class RunLength(NamedTuple):
    """How long chains were run, to say how long they should be.

    n_warmup : sweeps before the first draw
    n_samples : draws of each chain; of "auto", the most
    n_draws : those that were made
    is_auto : whether n_samples is "auto"
    """

    n_warmup: int
    n_samples: int
    n_draws: int
    is_auto: bool = False

    def longer(self) -> str:
        """Return what to try if chains disagree: twice as many sweeps."""
        warmup = max(LEAST_LONGER, 2 * self.n_warmup)
        return (
            f"Try n_warmup={warmup} ({self.n_warmup} now), then "
            f"{self._samples(max(LEAST_LONGER, 2 * self.n_samples))}."
        )

    def more_draws(self, effective: float, wanted: float) -> str:
        """Return how many draws give the effective number wanted, which grows in proportion."""
        needed = self.n_draws * wanted / (effective if effective >= 1.0 else 1.0)
        n = max(ROUND * math.ceil(needed / ROUND), self.n_samples + ROUND)
        return f"Try {self._samples(n)}."

    def _samples(self, n: int) -> str:
        now = '"auto"' if self.is_auto else self.n_samples
        return f"n_samples={n} ({now} now)"


def verdict(
    summary: Mapping[str, Mapping[str, float]],
    *,
    r_hat_limit: float = R_HAT_LIMIT,
    ess_limit: float = ESS_LIMIT,
    n_chains: int | None = None,
    length: RunLength | None = None,
) -> tuple[bool, str]:
    """Judge a `summarise` in one sentence that names the worst quantity and the fix.

    Parameters
    ----------
    summary : what `summarise` returns
    r_hat_limit : the largest R-hat that counts as agreement
    ess_limit : the fewest effective draws, over all chains, for bulk and tail. The default of 100
        leaves a posterior mean uncertain by a tenth of the posterior's standard deviation.
    n_chains : if it is one, agreement between chains is not claimed
    length : how long they were, so that the fix can name numbers

    Returns
    -------
    mixed : whether every quantity is within both limits
    sentence : for a person to read

    Examples
    --------
    >>> verdict({"r_hat": {"scale": 1.62}, "ess_bulk": {"scale": 7.0}, "ess_tail": {"scale": 9.0}})
    (False, 'The chains have not mixed: R-hat of scale is 1.62 (at most 1.05 is wanted), so they
    disagree about it. Raise n_warmup, then n_samples.')
    >>> print(RunLength(n_warmup=500, n_samples=200, n_draws=200).longer())
    Try n_warmup=1000 (500 now), then n_samples=400 (200 now).
    """
    r_hat = summary["r_hat"]
    if not r_hat:
        return False, "Mixing cannot be judged: no draws were recorded."

    known = {name: value for name, value in r_hat.items() if not math.isnan(value)}
    worst = max(known, key=known.__getitem__) if known else ""
    if known and known[worst] > r_hat_limit:
        found = _beside(known[worst], r_hat_limit, 2)
        return False, (
            f"The chains have not mixed: R-hat of {worst} is {found} (at most "
            f"{r_hat_limit:g} is wanted), so they disagree about it. "
            f"{'Raise n_warmup, then n_samples.' if length is None else length.longer()}"
        )

    unknown = [name for name in r_hat if name not in known]
    if unknown:
        return False, (
            f"Mixing cannot be judged: R-hat of {unknown[0]} is undefined, because its draws are "
            "fewer than 8, not finite, or all the same in a single chain. "
            "Raise n_samples, and n_chains to at least 2."
        )

    sizes = {
        (kind, name): summary[key][name]
        for kind, key in (("bulk", "ess_bulk"), ("tail", "ess_tail"))
        for name in r_hat
    }
    kind, name = min(sizes, key=sizes.__getitem__)
    smallest = sizes[kind, name]
    if not smallest >= ess_limit:
        fix = "Raise n_samples or n_chains."
        if length is not None:
            fix = length.more_draws(smallest, ess_limit)
        return False, (
            f"The chains agree, but their draws are too few: the {kind} effective sample size of "
            f"{name} is {_beside(smallest, ess_limit, 0)} (at least {ess_limit:g} is wanted). {fix}"
        )
    if n_chains == 1:
        return False, (
            "One chain cannot be compared with others: its halves agree, but it may have missed "
            "a part of the posterior. Raise n_chains to at least 2."
        )
    return True, (
        f"The chains have mixed: the largest R-hat is {known[worst]:.2f} ({worst}) and the "
        f"smallest effective sample size is {smallest:.0f} ({name}, {kind})."
    )


def _beside(value: float, limit: float, decimals: int) -> str:
    """Return a number with at least so many decimals, and as many as tell it from a limit.

    Examples
    --------
    >>> _beside(1.0504, 1.05, 2), _beside(1.62, 1.05, 2), _beside(99.7, 100, 0)
    ('1.0504', '1.62', '99.7')
    """
    while round(value, decimals) == limit != value:
        decimals += 1
    return f"{value:.{decimals}f}"


def to_arviz(
    draws: Mapping[str, ArrayLike],
    *,
    sample_stats: Mapping[str, ArrayLike] | None = None,
    observed: Mapping[str, ArrayLike] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Hand draws to ArviZ, for its plots, tables and files.

    Parameters
    ----------
    draws : name -> (chain, draw, ...), the group `posterior`
    sample_stats : name -> (chain, draw, ...), such as acceptance rates
    observed : name -> array of any shape, the group `observed_data`
    attrs : facts about the run, kept with the posterior. Booleans become 0 or 1, which is what
        netCDF can hold.

    Returns
    -------
    arviz.InferenceData under ArviZ 0.x, xarray.DataTree under ArviZ 1.x

    Examples
    --------
    >>> data = to_arviz({"mean": np.zeros((4, 10))}, attrs={"interrupted": False})
    >>> data.posterior["mean"].dims, data.posterior.attrs["interrupted"]
    (('chain', 'draw'), 0)
    """
    if not draws:
        raise ValueError("draws is empty; give at least one variable of shape (chain, draw, ...).")
    facts = {
        name: int(value) if isinstance(value, (bool, np.bool_)) else value
        for name, value in (attrs or {}).items()
    }
    groups = {
        "posterior": {name: _check_draws(values, name) for name, values in draws.items()},
        "sample_stats": {name: np.asarray(values) for name, values in (sample_stats or {}).items()},
        "observed_data": {name: np.asarray(values) for name, values in (observed or {}).items()},
    }
    groups = {group: values for group, values in groups.items() if values}
    az = _import_arviz()
    with warnings.catch_warnings():
        # A short run of many chains is no mistake, and a total log-likelihood is a quantity of
        # the posterior like any other.
        warnings.filterwarnings("ignore", "More chains .* than draws", UserWarning)
        warnings.filterwarnings("ignore", "Found chain dimension to be longer", UserWarning)
        warnings.filterwarnings("ignore", "log_likelihood variable found in posterior", UserWarning)
        if int(az.__version__.split(".")[0]) >= 1:
            return az.from_dict(groups, attrs={"posterior": facts})
        return az.from_dict(**groups, posterior_attrs=facts)


def _import_arviz() -> ModuleType:
    with warnings.catch_warnings():
        # ArviZ 0.23 announces version 1 with a warning, once a day.
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing a major refactor", FutureWarning)
        return import_extra("arviz")


def _array_stats() -> Any:
    from arviz_stats.base import array_stats  # imported late: it takes a second

    return array_stats


def _check_draws(draws: ArrayLike, name: str = "draws") -> NDArray[Any]:
    array = np.asarray(draws)
    if array.ndim < 2:
        raise ValueError(
            f"{name} has shape {array.shape}; draws are (chain, draw) or (chain, draw, ...). "
            "Add a leading axis for a single chain: draws[None]."
        )
    return array


def _for_each_entry(draws: ArrayLike, diagnostic: Callable[[Array], float]) -> float | Array:
    """Apply a diagnostic of one (chain, draw) array to every entry of (chain, draw, ...)."""
    array = _check_draws(draws).astype(float)
    entry_shape = array.shape[2:]
    values = np.empty(entry_shape)
    for index in np.ndindex(entry_shape):
        values[index] = diagnostic(array[(slice(None), slice(None), *index)])
    return values if entry_shape else float(values)


def _r_hat_of_one(chains: Array) -> float:
    if _is_undefined(chains):
        return math.nan
    if len(chains) == 1:
        chains = _halves(chains)
        if chains.shape[1] < FEWEST_DRAWS:
            return math.nan
    if (np.ptp(_halves(chains), axis=1) == 0).all():
        return 1.0 if np.ptp(chains) == 0 else math.inf
    with np.errstate(divide="ignore", invalid="ignore"):  # folded draws may all be the same
        return float(_array_stats().rhat(chains))


def _ess_of_one(chains: Array, **options: Any) -> float:
    if _is_undefined(chains):
        return math.nan
    if np.ptp(chains) == 0:
        return float(chains.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(_array_stats().ess(chains, **options))


def _mcse_of_one(chains: Array) -> float:
    if _is_undefined(chains):
        return math.nan
    if np.ptp(chains) == 0:
        return 0.0
    return float(_array_stats().mcse(chains, method="mean"))


def _is_undefined(chains: Array) -> bool:
    n_chains, n_draws = chains.shape
    if n_chains == 0 or n_draws < FEWEST_DRAWS or not np.isfinite(chains).all():
        return True
    return n_chains == 1 and bool(np.ptp(chains) == 0)


def _halves(chains: Array) -> Array:
    """(chain, draw) -> (2 chain, draw // 2); a draw in the very middle is dropped."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])
