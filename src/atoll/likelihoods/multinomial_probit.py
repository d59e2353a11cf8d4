"""Multinomial probit (paper 004): y is the class with the largest z_k = f_k + ε_k, ε ~ N(0, I)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, owens_t

from atoll.core.gaussian import log_expected_product_of_ndtr
from atoll.core.memory import in_chunks
from atoll.core.node_tables import tables_for
from atoll.core.regions import Margins, log_region_probability

Array = NDArray[np.float64]

GRID_ENDS, GRID_NODES = (-6.5, 9.0), 40  # of z less the largest mean
MEANS_AT_ONCE = 2**12  # so that what is made of them stays near the processor


class MultinomialProbit(NamedTuple):
    """The likelihood that a posterior of one function per class carries; nothing of it is free."""

    def log_class_probabilities(
        self, mean: Array, variance: Array, region_parameters: Array
    ) -> Array:
        """Return log P(y = k) for f_k ~ N(mean_k, variance); (..., K), (...,) -> (..., K)."""
        return log_class_probabilities(mean, variance)


def regions(codes: NDArray[np.intp], n_classes: int) -> Margins:
    """Return the regions z_y > z_i for all i ≠ y; codes (n,) in 0..n_classes−1."""
    own = np.asarray(codes)[:, None] == np.arange(n_classes)
    return Margins(np.where(own, 0.0, -np.inf), 0.0)


def log_prob(latent: Array, codes: NDArray[np.intp]) -> Array:
    """Return log P(y | f) = log E_u Π_{i≠y} Φ(u + f_y − f_i); (n, K), codes (n,) -> (n,)."""
    return log_region_probability(regions(codes, np.shape(latent)[1]), np.asarray(latent), 1.0)


def log_class_probabilities(mean: Array, variance: Array, *, margin: float = 0.0) -> Array:
    """Return log P(z_k > z_i + margin for all i ≠ k), f_k ~ N(mean_k, variance) independent.

    All functions of a model share their kernel, hence the variance: one number per row.

    Parameters
    ----------
    mean : (..., K)
    variance : (...,)
    margin : 0 for the multinomial probit, whose probabilities sum to one

    Returns
    -------
    (..., K)

    Examples
    --------
    >>> np.exp(log_class_probabilities(np.array([0.0, 0.0, 1.0]), np.array(0.5))).round(3)
    array([0.21 , 0.21 , 0.579])
    """
    scaled = np.asarray(mean) / np.sqrt(1.0 + np.asarray(variance))[..., None]
    offset = margin / np.sqrt(1.0 + np.asarray(variance))[..., None]
    K = scaled.shape[-1]
    return np.stack(
        [
            log_expected_product_of_ndtr(
                scaled[..., k, None] - np.delete(scaled, k, axis=-1) - offset
            )
            for k in range(K)
        ],
        axis=-1,
    )


def class_probabilities(mean: Array, variance: Array) -> Array:
    """Return P(y = k) for f_k ~ N(mean_k, variance) independent, all classes on one grid.

    P(z_k is the largest) = ∫ φ(t − m_k) Π_{i≠k} Φ(t − m_i) dt by the trapezium rule; right to 1e-9
    and some twenty times as fast as `log_class_probabilities`, which is right in the tails too.

    Parameters
    ----------
    mean : (n, K)
    variance : (n,)

    Returns
    -------
    (n, K), rows sum to one

    Examples
    --------
    >>> class_probabilities(np.array([[0.0, 0.0, 1.0]]), np.array([0.5])).round(3)
    array([[0.21 , 0.21 , 0.579]])
    """
    p = np.empty(mean.shape)
    for part in in_chunks(len(mean), mean.shape[1], most=MEANS_AT_ONCE):
        p[part] = _on_grid(mean[part] / np.sqrt(1.0 + variance[part])[:, None])
    return p


def _on_grid(m: Array) -> Array:
    m = m.max(axis=1) - m.T  # the largest z lies within the grid; (K, n)
    first, last = GRID_ENDS
    step = (last - first) / (GRID_NODES - 1)
    log_below, hazard = (
        part.reshape(*m.shape, GRID_NODES)
        for part in tables_for(first, step, GRID_NODES, 0, 25).at(m.ravel())
    )
    p = np.einsum("nt,knt->nk", np.exp(log_below.sum(axis=0)), hazard)
    return p / p.sum(axis=1, keepdims=True)


def three_class_probabilities(mean: Array, variance: Array) -> Array:
    """Return P(y = k) for three functions f_k ~ N(mean_k, variance), in closed form.

    That the largest of three normals exceeds the others is an orthant of two normals with
    correlation one half, hence a sum of Owen's T functions (Owen 1956); those of two classes that
    face each other differ in sign alone, so that three do. Right to 1e-15, and thrice as fast as
    `class_probabilities`, but a probability below that may come out as zero: it is for averages.

    Parameters
    ----------
    mean : (n, 3)
    variance : (n,)

    Returns
    -------
    (n, 3), rows sum to one

    Examples
    --------
    >>> three_class_probabilities(np.array([[0.0, 0.0, 1.0]]), np.array([0.5])).round(3)
    array([[0.21 , 0.21 , 0.579]])
    """
    order = np.argsort(mean, axis=1)
    low, middle, high = (
        np.take_along_axis(mean, order, axis=1) / np.sqrt(2.0 + 2.0 * variance)[:, None]
    ).T
    x, y, w = high - middle, middle - low, high - low
    root = np.sqrt(0.75)
    equal = np.full(len(w), 1.0 / np.sqrt(3.0))  # the slope where all three means are the same
    far = np.where(w > 0.0, np.inf, equal)
    t_middle = owens_t(x, np.divide(w - 0.5 * x, root * x, out=far, where=x > 0.0))
    t_low = owens_t(w, np.divide(x - 0.5 * w, root * w, out=equal, where=w > 0.0))
    far = np.full(len(w), -np.inf)
    t_others = owens_t(y, np.divide(-x - 0.5 * y, root * y, out=far, where=y > 0.0))
    sorted_p = np.stack(
        [
            0.5 * (ndtr(-w) + ndtr(-y)) + t_low + t_others,
            0.5 * (ndtr(-x) - ndtr(-y)) + t_middle - t_others,
            0.5 * (ndtr(x) + ndtr(w)) - t_middle - t_low,
        ],
        axis=1,
    )
    p = np.empty(mean.shape)
    np.put_along_axis(p, order, np.maximum(sorted_p, 0.0), axis=1)  # rounding is below zero too
    return p / p.sum(axis=1, keepdims=True)


def sample(rng: np.random.Generator, latent: Array) -> NDArray[np.intp]:
    """Draw labels given the functions; latent (..., K) -> (...,)."""
    return np.argmax(latent + rng.standard_normal(np.shape(latent)), axis=-1)
