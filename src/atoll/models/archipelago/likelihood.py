"""The likelihood (section 2, equations 1 to 5): what the functions at a row say of it.

Λ(x) = Σ_k exp g_k(x). A row proposed by the base density π is kept as class k with probability
exp g_k / (1 + Λ), and rejected with probability 1 / (1 + Λ). So a row that was kept has

    P(class l | x) = exp g_l / Λ            equation 1      `class_probabilities`
    p(x) = Λ π / ((1 + Λ) Z)                equation 2      `log_density`
    Z = ∫ Λ π / (1 + Λ)                     equation 3      `inverse_norm`, an estimate of 1/Z
    p(x, l) = exp g_l π / ((1 + Λ) Z)       equation 4      `log_prob`, without π and Z

and equation 5, which draws what becomes of a proposal, is `sample`. Those without π and Z are
`atoll.likelihoods`; here is the rest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from atoll.likelihoods.softmax import class_probabilities
from atoll.likelihoods.softmax_rejection import (
    REJECTED,
    UNLABELLED,
    Outcomes,
    OutcomesByClass,
    log_prob,
    log_rejection,
    log_total,
    outcomes_of,
    sample,
)

__all__ = [
    "REJECTED",
    "UNLABELLED",
    "Outcomes",
    "OutcomesByClass",
    "class_probabilities",
    "inverse_norm",
    "kept",
    "log_density",
    "log_prob",
    "log_rejection",
    "log_total",
    "opened",
    "outcomes_of",
    "sample",
]

Array = NDArray[np.float64]


def kept(latent: Array) -> Array:
    """Return P(a proposal is kept) = Λ / (1 + Λ); latent (..., K) -> (...,)."""
    return expit(log_total(latent))


def inverse_norm(n: int, n_rejections: int) -> float:
    """Return (n + M)/n, whose mean given the functions is 1/Z (equation 3).

    Proposals are kept with probability Z, so that n of them take n/Z proposals on average.
    """
    return (n + n_rejections) / n


def log_density(p_kept: Array, log_base: Array, over_norm: float) -> Array:
    """Return log p(x), equation 2, from P(kept) and log π, (m,) each, and from 1/Z."""
    with np.errstate(divide="ignore"):  # where nothing is kept the density is zero
        return np.log(p_kept) + log_base + np.log(over_norm)


def opened(outcomes: Outcomes, n: int, candidate_rate: float) -> Outcomes:
    """Return the outcomes with all rows past the first n open: rejections or candidates.

    There are κ candidates for each proposal. An open row has the factor κ + 1/(1 + Λ), which is
    (1 + κ + κ Λ)/(1 + Λ).
    """
    fixed, by_total = outcomes.fixed.copy(), outcomes.by_total.copy()
    fixed[n:] += candidate_rate
    by_total[n:] += candidate_rate
    return outcomes._replace(fixed=fixed, by_total=by_total)
