"""Binary probit (paper 004): y = 1 where z = f + ε is positive, ε ~ N(0, 1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from atoll.core.regions import Intervals

Array = NDArray[np.float64]


class Probit(NamedTuple):
    """The likelihood that a posterior of one function carries; nothing of it is free."""

    def log_class_probabilities(
        self, mean: Array, variance: Array, region_parameters: Array
    ) -> Array:
        """Return log P(y = k) for f ~ N(mean, variance); (...,) -> (..., 2)."""
        return log_class_probabilities(mean, variance)


def regions(codes: NDArray[np.intp]) -> Intervals:
    """Return z > 0 where y = 1 (the slide's "z < 1" is a slip), else z < 0; codes (n,)."""
    positive = (np.asarray(codes) == 1)[:, None]
    return Intervals(
        lower=np.where(positive, 0.0, -np.inf),
        upper=np.where(positive, np.inf, 0.0),
        log_weight=np.zeros((len(positive), 1)),
    )


def log_prob(latent: Array, codes: NDArray[np.intp]) -> Array:
    """Return log Φ(f) where y = 1, else log Φ(−f); latent (..., n), codes (n,) -> (..., n)."""
    return log_ndtr(np.where(np.asarray(codes) == 1, latent, -np.asarray(latent)))


def log_class_probabilities(mean: Array, variance: Array) -> Array:
    """Return log P(y = k) for f ~ N(mean, variance), in closed form; (...,) -> (..., 2).

    Examples
    --------
    >>> np.exp(log_class_probabilities(np.array([0.0, 1.0]), np.array([5.0, 0.0]))).round(3)
    array([[0.5  , 0.5  ],
           [0.159, 0.841]])
    """
    score = np.asarray(mean) / np.sqrt(1.0 + np.asarray(variance))
    return np.stack([log_ndtr(-score), log_ndtr(score)], axis=-1)


def sample(rng: np.random.Generator, latent: Array) -> NDArray[np.intp]:
    """Draw labels given f, as the lecture's note 2 does; latent (...,) -> (...,)."""
    return (latent + rng.standard_normal(np.shape(latent)) > 0).astype(np.intp)
