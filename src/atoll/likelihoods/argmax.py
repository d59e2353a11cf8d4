"""The largest function names the class, without noise: y = argmax_c f_c(x).

Two classes may share one function, the difference of theirs: its sign names the class. Every
function here takes F functions, one per class, or one alone for two classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


def classes_of(latent: Array) -> Codes:
    """Return the class that the functions name; (..., F) -> (...).

    Examples
    --------
    >>> classes_of(np.array([[0.1, 0.7, 0.2], [3.0, 2.0, 1.0]])).tolist()
    [1, 0]
    >>> classes_of(np.array([[-0.5], [0.5]])).tolist()
    [0, 1]
    """
    if latent.shape[-1] == 1:
        return (latent[..., 0] > 0).astype(np.intp)
    return np.argmax(latent, axis=-1)


def log_prob(latent: Array, codes: Codes) -> Array:
    """Return 0 where the functions name the label and −inf where not; (n, F), (n,) -> (n,)."""
    return np.where(classes_of(latent) == codes, 0.0, -np.inf)


def gradient(latent: Array, codes: Codes) -> Array:
    """Return the gradient of Σ_n log_prob: zero, but where two functions meet; (n, F) -> (n, F)."""
    return np.zeros_like(latent)


def class_probabilities(latent: Array) -> Array:
    """Return one vote, 1 for the class that the functions name; (..., F) -> (..., K)."""
    n_classes = max(latent.shape[-1], 2)
    return (classes_of(latent)[..., None] == np.arange(n_classes)).astype(np.float64)


def sample(rng: np.random.Generator, latent: Array) -> Codes:
    """Return the labels, which the functions leave no choice; (..., F) -> (...)."""
    return classes_of(latent)
