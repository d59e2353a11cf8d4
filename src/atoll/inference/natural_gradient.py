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
    """Return the standard normal, in float32."""
    shape = (n_functions, n_inducing)
    eye = jnp.eye(n_inducing, dtype=jnp.float32)
    return InducingGaussians(
        jnp.zeros(shape, jnp.float32), jnp.broadcast_to(eye, (*shape, n_inducing))
    )


def step(
    q: InducingGaussians,
    features: Array,
    scores: Array,
    curvatures: Array,
    rate: Array,
    furthest: float = jnp.inf,
) -> tuple[InducingGaussians, Array]:
    """Take one step; a step that is not finite is refused.

    Parameters
    ----------
    q : of K functions
    features : (m, b) a of every row
    scores, curvatures : (b, K) s and w, w at least zero
    rate : ρ in (0, 1]
    furthest : no function moves by more than this at any row

    Returns
    -------
    q, whether the step was refused
    """
    m, b = features.shape
    weighted = (features * curvatures.T[:, None, :]).reshape(-1, b) @ features.T  # one product
    target = jnp.eye(m, dtype=features.dtype) + weighted.reshape(-1, m, m)
    precision = (1.0 - rate) * q.precision + rate * target
    lowers = jnp.linalg.cholesky(precision)
    slopes = scores.T @ features.T - q.mean
    moves = jax.vmap(lambda lower, slope: linalg.cho_solve((lower, True), slope))(lowers, slopes)
    longest = rate * jnp.abs(moves @ features).max()
    moves = moves * jnp.minimum(1.0, furthest / (longest + 1e-9))
    ok = jnp.isfinite(moves).all() & jnp.isfinite(precision).all()
    stepped = InducingGaussians(
        jnp.where(ok, q.mean + rate * moves, q.mean), jnp.where(ok, precision, q.precision)
    )
    return stepped, ~ok


def covariance_factors(q: InducingGaussians) -> tuple[Array, Array]:
    """Return C with P^{-1} = Cᵀ C, (K, m, m), and half the log-determinants of P, (K,)."""
    lowers = jnp.linalg.cholesky(q.precision)
    eye = jnp.eye(lowers.shape[-1], dtype=lowers.dtype)
    inverses = jax.vmap(lambda lower: linalg.solve_triangular(lower, eye, lower=True))(lowers)
    return inverses, jnp.log(jnp.diagonal(lowers, axis1=1, axis2=2)).sum(axis=1)


def changed_basis(q: InducingGaussians, forward: Array, back: Array) -> InducingGaussians:
    """Return q of T v, with T = `forward` and T^{-1} = `back`, (m, m) each."""
    precision = jax.vmap(lambda P: back.T @ P @ back)(q.precision)
    return InducingGaussians(q.mean @ forward.T, 0.5 * (precision + jnp.swapaxes(precision, 1, 2)))
