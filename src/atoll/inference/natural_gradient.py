"""Natural-gradient steps for Gaussians over whitened inducing values, in JAX (extra `scale`).

K functions are known through m whitened values each, v_k ~ N(0, I) before the data, and a row's
function is aᵀ v_k up to what no inducing value says. The posterior is approximated by

    q(v_k) = N(μ_k, P_k^{-1}),    one full precision for each function.

With s the gradient of the expected log-likelihood in a row's function and w the negative of its
curvature, a step of length ρ in the natural parameters is (Khan & Rue 2023)

    P_k ← (1 − ρ) P_k + ρ (I + Σ_b w_bk a_b a_bᵀ),     μ_k ← μ_k + ρ P_k^{-1} (Σ_b s_bk a_b − μ_k).

Under a Gaussian likelihood one step with ρ = 1 is the exact posterior, from any start. Elsewhere
w may be anything larger than the curvature: the fixed point has the same μ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from atoll.core.extras import import_extra

jax = import_extra("jax")
jnp = import_extra("jax.numpy")
linalg = import_extra("jax.scipy.linalg")

Array = Any  # of JAX


class InducingGaussians(NamedTuple):
    """q of K functions.

    mean : (K, m) μ
    precision : (K, m, m) P
    """

    mean: Array
    precision: Array


def prior(n_functions: int, n_inducing: int) -> InducingGaussians:
    """Return the standard normal, in float32 and in NumPy: nothing has to be compiled for it."""
    shape = (n_functions, n_inducing)
    eye = np.eye(n_inducing, dtype=np.float32)
    return InducingGaussians(
        np.zeros(shape, np.float32), np.broadcast_to(eye, (*shape, n_inducing))
    )


def step(
    q: InducingGaussians,
    factors: Array,
    features: Array,
    scores: Array,
    curvatures: Array,
    rate: Array,
    furthest: float = jnp.inf,
) -> tuple[InducingGaussians, Array, Array]:
    """Take one step; a step that is not finite is refused.

    Parameters
    ----------
    q : of K functions
    factors : (K, m, m) C of its covariances, P^{-1} = Cᵀ C
    features : (m, b) a of every row
    scores, curvatures : (b, K) s and w, w at least zero
    rate : ρ in (0, 1]
    furthest : no function moves by more than this at any row

    Returns
    -------
    q, its factors, whether the step was refused
    """
    m, b = features.shape
    weighted = (features * curvatures.T[:, None, :]).reshape(-1, b) @ features.T  # one product
    target = jnp.eye(m, dtype=features.dtype) + weighted.reshape(-1, m, m)
    stepped = q._replace(precision=(1.0 - rate) * q.precision + rate * target)
    C = covariance_factors(stepped)
    slopes = scores.T @ features.T - q.mean
    moves = jnp.einsum("kij,ki->kj", C, jnp.einsum("kij,kj->ki", C, slopes))
    longest = rate * jnp.abs(moves @ features).max()
    moves = moves * jnp.minimum(1.0, furthest / (longest + 1e-9))
    stepped = stepped._replace(mean=q.mean + rate * moves)
    ok = jnp.isfinite(moves).all() & jnp.isfinite(stepped.precision).all()
    stepped, C = jax.tree.map(lambda new, old: jnp.where(ok, new, old), (stepped, C), (q, factors))
    return stepped, C, ~ok


def covariance_factors(q: InducingGaussians) -> Array:
    """Return C with P^{-1} = Cᵀ C, lower triangles, (K, m, m)."""
    return jax.vmap(inverse_of_lower)(jnp.linalg.cholesky(q.precision))


def inverse_of_lower(lower: Array) -> Array:
    """Return L^{-1}, (m, m): to multiply by it is quicker than to solve."""
    return linalg.solve_triangular(lower, jnp.eye(len(lower), dtype=lower.dtype), lower=True)


def half_log_determinants(factors: Array) -> Array:
    """Return half the log-determinants of P, by its `covariance_factors`; (K, m, m) -> (K,)."""
    return -jnp.log(jnp.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)


def changed_basis(q: InducingGaussians, forward: Array, back: Array) -> InducingGaussians:
    """Return q of T v, with T = `forward` and T^{-1} = `back`, (m, m) each."""
    precision = jax.vmap(lambda P: back.T @ P @ back)(q.precision)
    return InducingGaussians(q.mean @ forward.T, 0.5 * (precision + jnp.swapaxes(precision, 1, 2)))
