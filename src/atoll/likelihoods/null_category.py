"""The null category noise model (papers 001 and 004): no row lies in |z| < a.

z = f + ε, ε ~ N(0, 1). Class 1 is z > a, class 0 is z < −a. Between them is the null region, to
which an unlabelled row never belongs: the boundary moves to where there are no rows. The width
of the region is w = 2a in paper 001, whose noise has variance 1 too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from atoll.core.regions import Regions, log_region_probability

Array = NDArray[np.float64]


def regions(
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    null_width: float,
    missing_rates: tuple[float, float] | None = None,
) -> Regions:
    """Labelled: its class's half-line. Unlabelled: both, never the null region between them.

    Parameters
    ----------
    codes : (n,) in {0, 1}, read where labelled
    is_labelled : (n,)
    null_width : w = 2a
    missing_rates : γ₀, γ₁, the chance that a row of each class has no label. None: the same for
        both, so that they say nothing and are left out.
    """
    n, a = len(codes), 0.5 * null_width
    own = np.asarray(codes)[:, None] == np.arange(2)
    allowed = own | ~np.asarray(is_labelled)[:, None]
    log_weight = np.where(allowed, 0.0, -np.inf)
    if missing_rates is not None:
        missing = np.asarray(missing_rates)
        with np.errstate(divide="ignore"):
            log_weight += np.log(np.where(np.asarray(is_labelled)[:, None], 1 - missing, missing))
    both = Regions(np.tile([-np.inf, a], (n, 1)), np.tile([-a, np.inf], (n, 1)), log_weight)
    if np.all(is_labelled):  # one half-line a row, as in the probit
        return Regions(*(part[own][:, None] for part in both))
    return both


def log_prob(
    latent: Array,
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    null_width: float,
    missing_rates: tuple[float, float] | None = None,
) -> Array:
    """log p(label or its absence | f), paper 001, eq. 3; latent (n,) -> (n,)."""
    return log_region_probability(
        regions(codes, is_labelled, null_width, missing_rates), np.asarray(latent), 1.0
    )


def log_class_probabilities(mean: Array, variance: Array, null_width: float) -> Array:
    """log P(z in region k) for f ~ N(mean, variance); (...,) -> (..., 2).

    Both together fall short of one by the mass of the null region. A prediction renormalises
    (paper 001, eq. 2) after averaging over the posterior, not before.
    """
    a, sd = 0.5 * null_width, np.sqrt(1.0 + np.asarray(variance))
    mean = np.asarray(mean)
    return np.stack([log_ndtr((-mean - a) / sd), log_ndtr((mean - a) / sd)], axis=-1)
