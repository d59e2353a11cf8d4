"""Predictions in bins of their probability."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def bin_predictions(
    predicted: Array, came_true: NDArray[np.bool_], n_bins: int
) -> tuple[Array, Array, NDArray[np.int64]]:
    """Bin predictions by probability, in bins of equal width.

    Parameters
    ----------
    predicted : (n,) probabilities
    came_true : (n,) whether each prediction was right
    n_bins : int
        A probability on an edge counts in the bin above it; one counts in the last bin.

    Returns
    -------
    mean_probability, frequency : (n_bins,) of the predictions in each bin; NaN where there is none
    counts : (n_bins,)

    Examples
    --------
    >>> bin_predictions(np.array([0.9, 0.7]), np.array([True, False]), 2)
    (array([nan, 0.8]), array([nan, 0.5]), array([0, 2]))
    """
    bins = np.minimum((predicted * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        mean_probability = np.bincount(bins, predicted, minlength=n_bins) / counts
        frequency = np.bincount(bins, came_true, minlength=n_bins) / counts
    return mean_probability, frequency, counts


def mean_gap(mean_probability: Array, frequency: Array, counts: NDArray[np.int64]) -> float:
    """Return the mean difference of probability and frequency over binned predictions.

    Examples
    --------
    >>> mean_gap(*bin_predictions(np.array([0.75, 0.75]), np.array([True, False]), 10))
    0.25
    """
    filled = counts > 0
    gaps = np.abs(frequency[filled] - mean_probability[filled])
    return float(counts[filled] @ gaps / counts.sum())
