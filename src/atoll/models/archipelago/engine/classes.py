"""Class probabilities of many rows on the device of the fit, as `EnginePosterior` has them.

Predicting a million rows in NumPy takes longer than the ascent itself does on a GPU. Here the same
averages are taken in float32, with as many points for every row as NumPy keeps for those in doubt.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.extras import import_extra
from atoll.likelihoods.softmax import symmetric_points
from atoll.models.archipelago.engine import sparse
from atoll.models.archipelago.engine.posterior import MANY_POINTS, EnginePosterior, inverse_factor
from atoll.models.archipelago.engine.sparse import Sites
from atoll.models.belief import doubted

jax = import_extra("jax")
jnp = import_extra("jax.numpy")

CHUNK = 2**16  # rows at once


def class_probabilities_of(
    posterior: EnginePosterior, X: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return P(class k | x, data), equation 6, by JAX; X (n, d) -> (n, K)."""
    n, K = len(X), posterior.n_classes
    size = min(CHUNK, 2 ** int(np.ceil(np.log2(max(n, 1)))))  # few shapes: few programs
    proba = np.zeros((n, K))
    for s, weight in enumerate(np.exp(posterior.log_weights)):
        theta, C = posterior.log_parameters[s], posterior.factors[s]
        state = jax.tree.map(
            lambda part: jax.device_put(np.asarray(part, np.float32)),
            (
                theta,
                inverse_factor(theta, posterior),
                Sites(posterior.inducing, posterior.detail),
                posterior.means[s],
                np.pad(C, ((0, 0), (0, C.shape[2] - C.shape[1]), (0, 0))),
                symmetric_points(K, s, MANY_POINTS),
            ),
        )
        for first in range(0, n, size):
            rows = posterior.scaling(X[first : first + size]).astype(np.float32)
            padded = np.zeros((size, rows.shape[1]), np.float32)
            padded[: len(rows)] = rows
            found = np.asarray(_average_shares(padded, *state), dtype=np.float64)
            proba[first : first + size] += weight * found[: len(rows)]
    return doubted(proba / proba.sum(axis=1, keepdims=True), posterior.doubt)


@jax.jit
def _average_shares(
    X: Any, theta: Any, inverse: Any, sites: Any, mean: Any, factors: Any, points: Any
) -> Any:
    """Return the softmax of g(x), averaged over its Gaussian; (b, d) -> (b, K)."""
    A, left = sparse.features(theta, inverse, sites, X)
    centre, deviation = sparse.moments(theta, A, left, mean, factors)

    def add(total: Any, point: Any) -> tuple[Any, None]:
        return total + jax.nn.softmax(centre + deviation * point, axis=1), None

    total, _ = jax.lax.scan(add, jnp.zeros_like(centre), points)
    return total / len(points)
