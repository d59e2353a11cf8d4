"""Do the class probabilities mean what they say? For the log-loss, use scikit-learn's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

Array = NDArray[np.float64]


class ReliabilityCurve(NamedTuple):
    """Predicted probability against what came true, in bins of equal width over [0, 1].

    edges : (n_bins + 1,)
    mean_probability : (n_bins,) mean prediction in the bin, NaN where it is empty
    frequency : (n_bins,) share of the bin that came true, NaN where it is empty
    counts : (n_bins,) rows in the bin
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
    """Bin predictions by their probability, and compare with how often they were right.

    Parameters
    ----------
    probabilities : (n, K), rows summing to one
    codes : (n,) true classes, 0 … K − 1
    n_bins : bins of equal width; a probability on an edge counts in the bin above it, and one in
        the last bin
    class_code : the class whose probability is judged. By default the most probable class of
        each row (the top label).

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
    came_true = judged == y

    bins = np.minimum((predicted * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        mean_probability = np.bincount(bins, weights=predicted, minlength=n_bins) / counts
        frequency = np.bincount(bins, weights=came_true, minlength=n_bins) / counts
    return ReliabilityCurve(np.linspace(0.0, 1.0, n_bins + 1), mean_probability, frequency, counts)


def expected_calibration_error(
    probabilities: ArrayLike, codes: ArrayLike, *, n_bins: int = 10
) -> float:
    """Mean gap between the probability of the top label and how often it is right.

    Parameters
    ----------
    probabilities : (n, K), rows summing to one
    codes : (n,) true classes, 0 … K − 1
    n_bins : bins of equal width

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
    filled = curve.counts > 0
    gaps = np.abs(curve.frequency[filled] - curve.mean_probability[filled])
    return float(curve.counts[filled] @ gaps / curve.counts.sum())


def entropy(probabilities: ArrayLike) -> Array:
    """Entropy of each row in nats, with 0 log 0 = 0; from 0 to log K.

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
    """Mean squared distance of the probabilities from the true class, Σ_k (p_k − [y = k])².

    Parameters
    ----------
    probabilities : (n, K), rows summing to one
    codes : (n,) true classes, 0 … K − 1

    Returns
    -------
    float from 0 (certain and right) to 2 (certain and wrong). For two classes it is twice
    scikit-learn's `brier_score_loss`, which counts one of the two.

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
