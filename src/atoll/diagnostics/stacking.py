"""Weights for chains that disagree, by how well each predicts rows that it did not see.

Chains stuck in different modes are not draws from one distribution, and their equal mixture is
not the posterior. Stacking does not claim that they agree: it takes the mixture of chains that
predicts best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from atoll.core.mixture_weights import mixture_weights

Array = NDArray[np.float64]


def leave_one_out(log_likelihood: Array) -> Array:
    """Return log p(row | the others) in each chain by truncated importance sampling (Ionides 2008).

    Parameters
    ----------
    log_likelihood : (chains, draws, n) log-likelihood of every row at every draw

    Returns
    -------
    (chains, n)
    """
    n_draws = log_likelihood.shape[1]
    log_ratio = -log_likelihood
    highest = logsumexp(log_ratio, axis=1, keepdims=True) - 0.5 * np.log(n_draws)
    log_weight = np.minimum(log_ratio, highest)
    return logsumexp(log_weight + log_likelihood, axis=1) - logsumexp(log_weight, axis=1)


def stacking_weights(log_likelihood: Array, *, prior_rows: float = 1.0) -> Array:
    """Return the weights, (chains,), that maximise Σ_n log Σ_c w_c p_c(row n | the others).

    Parameters
    ----------
    log_likelihood : (chains, draws, n) log-likelihood of every row at every draw
    prior_rows : float, default=1.0
        The number of rows that the prior belief in each chain is worth; it keeps the weights nearly
        equal when rows are few.

    References
    ----------
    Y. Yao, A. Vehtari and A. Gelman (2022), Stacking for non-mixing Bayesian computations. Journal
    of Machine Learning Research 23.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> log_likelihood = rng.normal(-1.0, 0.1, size=(2, 50, 20))
    >>> log_likelihood[1] -= 5.0            # a chain that explains nothing
    >>> stacking_weights(log_likelihood).round(2)
    array([0.95, 0.05])
    """
    log_p = leave_one_out(log_likelihood)
    # Relative to the best chain of each row: these neither overflow nor all vanish.
    relative = np.exp(log_p - log_p.max(axis=0))
    return mixture_weights(relative, np.full(len(log_p), prior_rows))
