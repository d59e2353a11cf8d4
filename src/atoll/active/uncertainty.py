"""How unsure the model is of a row, whatever its label would do for other rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

Array = NDArray[np.float64]


def margin(proba: Array) -> Array:
    """Return minus the lead of the likeliest class over the second; (m, K) -> (m,).

    Examples
    --------
    >>> margin(np.array([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2]])).round(2).tolist()
    [-0.5, 0.0]
    """
    if proba.shape[1] < 2:
        return np.zeros(len(proba))
    top = np.sort(proba, axis=1)[:, -2:]
    return top[:, 0] - top[:, 1]


def entropy(proba: Array) -> Array:
    """Return the entropy of the class probabilities in nats; (m, K) -> (m,).

    Examples
    --------
    >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).round(4).tolist()
    [0.6931, 0.0]
    """
    return entr(proba).sum(axis=1)


def bald(draws: Array, weights: Array) -> Array:
    """Return the mutual information of each row's label and the functions, in nats.

    The entropy of the mean of the draws, less the mean of their entropies (N. Houlsby et al.,
    "Bayesian active learning for classification and preference learning", 2011). Without label
    noise it is the entropy.

    Parameters
    ----------
    draws : (S, m, K) joint draws of the class probabilities
    weights : (S,) that sum to one

    Returns
    -------
    (m,) informations in nats

    Examples
    --------
    >>> draws = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    >>> bald(draws, np.array([0.5, 0.5])).round(4).tolist()
    [0.6931, 0.0]
    """
    mean = np.einsum("s,smk->mk", weights, draws)
    return entr(mean).sum(axis=1) - np.einsum("s,smk->m", weights, entr(draws))
