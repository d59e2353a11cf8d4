"""Weights of a mixture: how much each part counts, by how it foretold labels or rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_STEPS = 2000


def mixture_weights(
    p: Array,
    prior: Array,
    *,
    counts: Array | None = None,
    beside: Array | float = 0.0,
    settled: float = 1e-9,
) -> Array:
    """Return the weights of the parts of a mixture, (k,), which sum to one.

    They are where Σ_i c_i log(b_i + Σ_k w_k p_ki) + Σ_k a_k log w_k is largest. Each step of
    expectation-maximisation asks which part foretold which label.

    Parameters
    ----------
    p : (k, l) probability that each part gave to each label; of a label any multiple will do, where
        nothing is beside the parts
    prior : (k,) a, how many labels the belief in each part is worth
    counts : (l,) c, what each label counts; None: one each
    beside : (l,) b, what the rest of the mixture says, whose weight is fixed
    settled : the largest change of a weight in the last step

    Examples
    --------
    >>> p = np.array([[0.9, 0.8, 0.9], [0.5, 0.5, 0.5]])
    >>> mixture_weights(p, np.array([1.0, 1.0])).round(2)
    array([0.66, 0.34])
    """
    n_parts, n_labels = p.shape
    counts = np.ones(n_labels) if counts is None else counts
    w = 0.5 * prior / prior.sum() + 0.5 / n_parts  # a part without belief may still gain weight
    for _ in range(MOST_STEPS):
        told = w[:, None] * p
        new = (told / (told.sum(axis=0) + beside)) @ counts + prior
        new /= new.sum()
        change, w = float(np.abs(new - w).max()), new
        if change < settled:
            break
    return w
