"""What a label says about a function: one file per likelihood, two seams, one registry.

A likelihood of *regions* says in which sets a label leaves z = f + ε, ε ~ N(0, 1), and with which
weights: P(y | f) = Σ_r weight_r P(z in set r | f). One set of weight one is the probit; several
weighted ones are a row without a label, or a label that may be wrong. Its file has

- `regions`, the weighted sets of z per row, and, where they have free parameters, a `family`;
- `log_prob` of a label given f, `log_class_probabilities` of all classes given the mean and
  variance of f, and `sample`, labels given f;
- a small immutable object that answers `RegionLikelihood` and travels with a posterior.

A likelihood with a *gradient* is any other. Its file has `log_prob` of a label given f, `gradient`
of the sum of these, `class_probabilities` given f, and `sample`.

A new likelihood is its file, its line in the registry, and its oracle in
`tests/likelihoods/test_likelihoods.py`, which walks the registry.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from atoll.likelihoods import (
    argmax,
    multinomial_probit,
    null_category,
    ordinal,
    probit,
    softmax,
    softmax_rejection,
)

Array = NDArray[np.float64]

REGIONS = MappingProxyType(
    {
        "probit": probit,
        "multinomial_probit": multinomial_probit,
        "ordinal": ordinal,
        "null_category": null_category,
    }
)
GRADIENTS = MappingProxyType(
    {
        "softmax": softmax,
        "argmax": argmax,
        "softmax_rejection": softmax_rejection,
    }
)
LIKELIHOODS = MappingProxyType(REGIONS | GRADIENTS)


class RegionLikelihood(Protocol):
    """What a posterior asks of a likelihood made of regions."""

    def log_class_probabilities(
        self, mean: Array, variance: Array, region_parameters: Array
    ) -> Array:
        """Return log P(y = k) for f ~ N(mean, variance) with the regions at φ.

        y is a label as it would be seen: this is the average of exp log_prob over f. Where there is
        a null region the classes fall short of one together by its mass: a prediction
        normalises after it has averaged over the posterior.

        Parameters
        ----------
        mean : (...,) of one function, or (..., F) of several
        variance : (...,), the same for all functions
        region_parameters : (q,) φ

        Returns
        -------
        (..., K)
        """
