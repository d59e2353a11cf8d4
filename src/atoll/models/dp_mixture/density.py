"""A density alone: the mixture of one class, fitted to rows without labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.models.dp_mixture.em import ascend
from atoll.models.dp_mixture.model import Mixture, default_prior
from atoll.models.dp_mixture.prediction import MixturePosterior, posterior
from atoll.models.dp_mixture.starts import Search, best_start

Array = NDArray[np.float64]


class MixtureDensity(NamedTuple):
    """A density given by a mixture without classes."""

    mixture: MixturePosterior

    def log_density(self, X: Any) -> Array:
        """Return log p(x) of rows; X (m, d) -> (m,)."""
        return self.mixture.log_density(X)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """Draw n rows, (n, d)."""
        return self.mixture.sample(rng, n)[0]


def fit_density(
    X: Any,
    *,
    n_components: int = 20,
    covariance: str = "full",
    covariance_scale: float = 1.0,
    n_starts: int = 4,
    max_iter: int = 200,
    tol: float = 1e-5,
    random_state: Any = None,
) -> MixtureDensity:
    """Fit a Gaussian mixture to rows without labels, by the same EM.

    Parameters
    ----------
    X : (n, d) rows
    n_components : truncation K
    covariance : "full", "diagonal", "tied" or "factor"
    covariance_scale : of the prior, in units of the rows' variances: small for tight components
    n_starts, max_iter, tol : as in `Search`
    random_state : None, int or numpy Generator

    Returns
    -------
    MixtureDensity, with `sample(rng, n)` -> (n, d) and `log_density(X)` -> (m,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> density = fit_density(rng.normal(5.0, 2.0, size=(300, 1)), n_components=3, random_state=0)
    >>> rows = density.sample(rng, 1000)
    >>> bool(abs(rows.mean() - 5.0) < 0.5), density.log_density(rows).shape
    (True, (1000,))
    """
    rows = np.asarray(X, dtype=np.float64)
    shift, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[np.ptp(rows, axis=0) == 0] = 1.0  # where rounding leaves a deviation other than zero
    d = rows.shape[1]
    prior = default_prior(d, covariance_scale=covariance_scale)
    model = Mixture(1, n_components, covariance, min(3, d), prior, 2.0, np.ones(1), "map")
    codes = np.full(len(rows), -1)  # no row has a label
    rng = np.random.default_rng(random_state)
    best = best_start(model, (rows - shift) / scale, codes, rng, Search(n_starts, max_iter, tol))
    ascent = ascend(
        model, lambda f: f(rows, codes), best.state, shift, scale, max_iter=max_iter, tol=tol
    )
    return MixtureDensity(posterior(model, ascent.state, shift, scale))
