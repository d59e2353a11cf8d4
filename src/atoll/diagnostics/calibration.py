"""Measures of whether class probabilities mean what they say (for log-loss, see scikit-learn)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from atoll.core.binning import bin_predictions, mean_gap

Array = NDArray[np.float64]


class ReliabilityCurve(NamedTuple):
    """Predicted probabilities against observed frequencies, in bins of equal width over [0, 1].

    edges : (n_bins + 1,) ends of the bins
    mean_probability : (n_bins,) mean predicted probability in each bin, NaN if it is empty
    frequency : (n_bins,) share of each bin's predictions that came true, NaN if it is empty
    counts : (n_bins,) number of rows in each bin
    """

    edges: Array
    mean_probability: Array
    frequency: Array
    counts: NDArray[np.int64]


def reliability_curve(
    probabilities: ArrayLike,
    codes: ArrayLike,
    *,
    n_bins: int = 10,
    class_code: int | None = None,
) -> ReliabilityCurve:
    """Bin predictions by their probability and compare it with how often they were right.

    Parameters
    ----------
    probabilities : (n, K), rows summing to one
    codes : (n,) true classes, 0 … K − 1
    n_bins : int, default=10
        Number of bins of equal width. A probability on an edge counts in the bin above it; a
        probability of one counts in the last bin.
    class_code : int or None, default=None
        The class whose probability is judged; None judges the most probable class of each row (the
        top label).

    Examples
    --------
    >>> curve = reliability_curve([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7]], [0, 1, 1], n_bins=2)
    >>> curve.counts, np.round(curve.mean_probability, 3), np.round(curve.frequency, 3)
    (array([0, 3]), array([  nan, 0.833]), array([  nan, 0.667]))
    """
    P, y = _check_probabilities(probabilities, codes)
    if n_bins < 1:
        raise ValueError(f"n_bins is {n_bins}; it must be at least 1.")
    if class_code is None:
        judged = P.argmax(axis=1)
    elif 0 <= class_code < P.shape[1]:
        judged = np.full(len(P), class_code)
    else:
        raise ValueError(f"class_code is {class_code}; it must be from 0 to {P.shape[1] - 1}.")
    predicted = P[np.arange(len(P)), judged]
    binned = bin_predictions(predicted, judged == y, n_bins)
    return ReliabilityCurve(np.linspace(0.0, 1.0, n_bins + 1), *binned)


def expected_calibration_error(
    probabilities: ArrayLike, codes: ArrayLike, *, n_bins: int = 10
) -> float:
    """Return the mean gap between the top label's probability and how often it is right.

    Parameters
    ----------
    probabilities : (n, K), rows summing to one
    codes : (n,) true classes, 0 … K − 1
    n_bins : int, default=10
        Number of bins of equal width.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks. ICML.

    Examples
    --------
    >>> round(expected_calibration_error([[0.75, 0.25]] * 4, [0, 0, 0, 1]), 12)
    0.0
    >>> round(expected_calibration_error([[0.75, 0.25]] * 4, [0, 0, 0, 0]), 12)
    0.25
    """
    curve = reliability_curve(probabilities, codes, n_bins=n_bins)
    return mean_gap(curve.mean_probability, curve.frequency, curve.counts)


def entropy(probabilities: ArrayLike) -> Array:
    """Return the entropy of each row in nats, from 0 to log K, with 0 log 0 = 0.

    Parameters
    ----------
    probabilities : (..., K), rows summing to one

    Returns
    -------
    (...)

    Examples
    --------
    >>> np.round(entropy([[1.0, 0.0], [0.5, 0.5]]), 4)
    array([0.    , 0.6931])
    """
    P = np.asarray(probabilities, dtype=float)
    _check_simplex(P)
    # Rounding may leave a probability above one and an entropy below zero.
    return np.maximum(entr(P).sum(axis=-1), 0.0)


def brier_score(probabilities: ArrayLike, codes: ArrayLike) -> float:
    """Return the mean over rows of Σ_k (p_k − [y = k])², the squared distance from the truth.

    Parameters
    ----------
    probabilities : (n, K), rows summing to one
    codes : (n,) true classes, 0 … K − 1

    Returns
    -------
    float from 0 (certain and right) to 2 (certain and wrong). For two classes it is twice
    scikit-learn's `brier_score_loss`, which counts only one of them.

    References
    ----------
    Brier (1950), Verification of forecasts expressed in terms of probability. Monthly Weather
    Review 78.

    Examples
    --------
    >>> brier_score([[1.0, 0.0], [0.5, 0.5]], [0, 1])
    0.25
    """
    P, y = _check_probabilities(probabilities, codes)
    return float(np.mean(((P - np.eye(P.shape[1])[y]) ** 2).sum(axis=1)))


def _check_probabilities(
    probabilities: ArrayLike, codes: ArrayLike
) -> tuple[Array, NDArray[np.int64]]:
    P = np.asarray(probabilities, dtype=float)
    y = np.asarray(codes)
    if P.ndim != 2 or P.size == 0:
        raise ValueError(f"probabilities has shape {P.shape}; it must be (n, K), not empty.")
    _check_simplex(P)
    if y.shape != (len(P),):
        raise ValueError(
            f"codes has shape {y.shape} and probabilities {P.shape}; give one code a row."
        )
    if y.dtype.kind not in "iub" or y.min() < 0 or y.max() >= P.shape[1]:
        raise ValueError(
            f"codes must be whole numbers from 0 to {P.shape[1] - 1}, the columns of "
            "probabilities; encode labels by their place in classes_ and drop unlabelled rows."
        )
    return P, y.astype(int)


def _check_simplex(P: Array) -> None:
    if not np.isfinite(P).all() or (P < 0).any() or (np.abs(P.sum(axis=-1) - 1) > 1e-6).any():
        raise ValueError(
            "probabilities must be finite, not negative, and sum to one along the last axis; "
            "normalise each row."
        )
