"""Functions known through inducing values, in JAX and float32.

    g_k(x) = a (A(x)ᵀ v_k + √(1 − |A(x)|²) ε),    A(x) = L^{-1} c(inducing, x),    v_k ~ N(0, I)

c is the correlation (1 − w) e + w e⁴, with e = exp(−½ Σ_j (x_j − x'_j)²/ℓ_j²) and a share w of
detail; a is the amplitude, and L Lᵀ the correlation of the inducing inputs with a jitter on its
diagonal: they are seen with that much noise of their own.
Log-parameters are log a² and log ℓ, one for all features or one each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from atoll.core.extras import import_extra
from atoll.kernels.detailed import with_detail

jax = import_extra("jax")
jnp = import_extra("jax.numpy")

Array = Any  # of JAX

JITTER = 1e-4  # of the correlation of the inducing inputs: safe in float32


class Sites(NamedTuple):
    """What functions are known through.

    inducing : (m, d)
    detail : w
    """

    inducing: Array
    detail: Array


def amplitude(log_parameters: Array) -> Array:
    """Return a."""
    return jnp.exp(0.5 * log_parameters[0])


def correlation(log_parameters: Array, sites: Sites, X: Array) -> Array:
    """Return c between inducing inputs and rows; (p,), (n, d) -> (m, n)."""
    scale = jnp.exp(-log_parameters[1:])
    x, y = sites.inducing * scale, X * scale
    squares = (x * x).sum(1)[:, None] + (y * y).sum(1) - 2.0 * x @ y.T
    return with_detail(jnp.exp(-0.5 * jnp.maximum(squares, 0.0)), sites.detail)


def factor(log_parameters: Array, sites: Sites) -> Array:
    """Return L, (m, m)."""
    C = correlation(log_parameters, sites, sites.inducing)
    return jnp.linalg.cholesky(C + JITTER * jnp.eye(len(C), dtype=C.dtype))


def features(log_parameters: Array, inverse: Array, sites: Sites, X: Array) -> tuple[Array, Array]:
    """Return A (m, n), and what it leaves of the variance, 1 − |A|², (n,); `inverse` L^{-1}."""
    A = inverse @ correlation(log_parameters, sites, X)
    return A, jnp.maximum(1.0 - (A * A).sum(axis=0), 0.0)


def moments(
    log_parameters: Array, A: Array, left: Array, mean: Array, factors: Array
) -> tuple[Array, Array]:
    """Return mean and standard deviation of g under q, (n, K) each; `factors` C, P^{-1} = Cᵀ C."""
    a = amplitude(log_parameters)
    known = (jnp.einsum("kij,jb->kib", factors, A) ** 2).sum(axis=1)
    return a * (A.T @ mean.T), a * jnp.sqrt(left[:, None] + known.T)


def antithetic(key: Array, mean: Array, deviation: Array, n_draws: int) -> Array:
    """Return an even number of draws, in pairs mirrored at the mean; (n, K) -> (n_draws, n, K)."""
    e = jax.random.normal(key, (n_draws // 2, *mean.shape), mean.dtype)
    return mean + deviation * jnp.concatenate([e, -e])
