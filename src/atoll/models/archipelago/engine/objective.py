"""The bound on the log evidence, and the scores and curvatures that climb it.

Rejections are summed out (equation 7), which leaves Z to the power of −n, and −log Z has a tangent
from below at every z, so that with q over inducing values and expectations under it

    bound = Σ_labelled E log p_y + Σ_unlabelled E log (1 − p_0) − n (log z + E Z / z − 1) − KL,

p_k = e^{g_k}/(1 + Λ), p_0 = 1/(1 + Λ), Z = E_π (1 − p_0). Every term is a sum over rows or over π,
so that a part of the rows and a few points of π estimate it without bias. z is the running value
of Z, at which the tangent is tight.

On the way there the unlabelled rows count κ ≤ 1 each, and a row that a graph of the rows has given
class probabilities r has log Σ_k r_k^τ e^{g_k} for log Λ: at τ = 1 it is all but labelled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from atoll.core.extras import import_extra
from atoll.inference.natural_gradient import half_log_determinants, inverse_of_lower
from atoll.models.archipelago.engine import sparse
from atoll.models.archipelago.engine.sparse import Sites

jax = import_extra("jax")
jnp = import_extra("jax.numpy")
linalg = import_extra("jax.scipy.linalg")

Array = Any  # of JAX

# Of the functions, while the amplitude moves. Held in full they follow it only as the values are
# found anew, and it creeps; not held at all, they grow with it, and it overshoots.
HELD = 0.85


class Batch(NamedTuple):
    """What one step sees; weights of zero fill it up to its size.

    labelled : (l, d) rows
    labels : (l, K) one at their classes
    label_weights : (l,) labelled rows of the data that each stands for
    rows : (b, d) without a label
    log_start : (b, K) log r
    row_weights : (b,) unlabelled rows of the data that each stands for
    base : (J, d) points of π
    """

    labelled: Array
    labels: Array
    label_weights: Array
    rows: Array
    log_start: Array
    row_weights: Array
    base: Array

    @property
    def inputs(self) -> Array:
        """All of them, (l + b + J, d)."""
        return jnp.concatenate([self.labelled, self.rows, self.base])

    def split(self, values: Array) -> tuple[Array, Array, Array]:
        """Cut (S, l + b + J, ...) into the three."""
        first = len(self.labelled)
        second = first + len(self.rows)
        return values[:, :first], values[:, first:second], values[:, second:]


class Pace(NamedTuple):
    """Where the schedule stands, one number each.

    rate : ρ of the natural-gradient step
    row_weight : κ
    graph_weight : τ
    caution : σ, 1 where curvatures are larger than they are, 0 where they are not
    averaged : 1 where the average over steps takes this one in
    """

    rate: Array
    row_weight: Array
    graph_weight: Array
    caution: Array
    averaged: Array


class Probabilities(NamedTuple):
    """What becomes of a proposal with functions g, (S, n, K).

    rejected : (S, n, 1) p_0
    kept_as : (S, n, K) p_k
    shares : (S, n, K) e^{g_k}/Λ
    """

    rejected: Array
    kept_as: Array
    shares: Array


def probabilities(latent: Array) -> Probabilities:
    """Return what becomes of a proposal."""
    log_total = jax.nn.logsumexp(latent, axis=-1, keepdims=True)
    shares = jnp.exp(latent - log_total)
    return Probabilities(jax.nn.sigmoid(-log_total), shares * jax.nn.sigmoid(log_total), shares)


def scores_and_curvatures(
    latent: Array, batch: Batch, pace: Pace, norm: Array
) -> tuple[Array, Array, Array]:
    """Return s and w at all inputs of a batch, (l + b + J, K) each, and z.

    The curvature of an unlabelled row's term, p_k (1 − p_k) − s_k (1 − s_k) with the shares s, is
    negative where classes share the row; in its place w has the square of the score, (s_k p_0)².
    That of Z, p_0 p_k (1 − 2 p_k), is negative where a class has the row; with caution w has
    p_0 p_k (1 − p_k), which is never less, and without it ½ p_k s_k p_0².

    Parameters
    ----------
    latent : (S, l + b + J, K) draws of g
    norm : z before this step
    """
    kappa, tau, sigma = pace.row_weight, pace.graph_weight, pace.caution
    labelled, rows, base = batch.split(latent)
    p_l, p_u, p_b = probabilities(labelled), probabilities(rows), probabilities(base)
    n = batch.label_weights.sum() + kappa * batch.row_weights.sum()
    found = (1.0 - p_b.rejected).mean()
    z = norm + jnp.maximum(pace.rate, 0.05) * (found - norm)
    by_label, by_row = batch.label_weights[:, None], kappa * batch.row_weights[:, None]
    by_base = n / (z * len(batch.base))

    responsible = jax.nn.softmax(rows + tau * batch.log_start, axis=-1)
    scores = [
        by_label * (batch.labels - p_l.kept_as).mean(axis=0),
        by_row * (responsible - p_u.kept_as).mean(axis=0),
        -by_base * (p_b.rejected * p_b.kept_as).mean(axis=0),
    ]
    p, p_0 = p_b.kept_as, p_b.rejected
    of_base = sigma * p_0 * p * (1.0 - p) + (1.0 - sigma) * 0.5 * p * p_b.shares * p_0**2
    of_base = of_base + tau * (1.0 - p_0) * p * (1.0 - p)
    curvatures = [
        by_label * (p_l.kept_as * (1.0 - p_l.kept_as)).mean(axis=0),
        by_row * (0.5 + 0.5 * sigma) * ((p_u.shares * p_u.rejected) ** 2).mean(axis=0),
        by_base * of_base.mean(axis=0),
    ]
    return jnp.concatenate(scores), jnp.concatenate(curvatures), z


class Carried(NamedTuple):
    """q at some log-parameters, ready to be carried to others with the functions held.

    log_parameters : (p,)
    lower : (m, m) L there
    mean : (K, m)
    factors : (K, m, m) C, lower triangles, P^{-1} = Cᵀ C
    """

    log_parameters: Array
    lower: Array
    mean: Array
    factors: Array


def bound(
    log_parameters: Array,
    carried: Carried,
    sites: Sites,
    batch: Batch,
    pace: Pace,
    norm: Array,
    prior: tuple[Array, Array],
    noise: tuple[Array, int],
) -> Array:
    """Return an estimate of the bound at any log-parameters, with the functions held, nearly.

    Whitened values v = L^{-1} u/a change with a and L where u stays; with a they change a little
    less than that (`HELD`). The log density of the
    log-parameters under their prior, up to a constant, is part of it.

    Parameters
    ----------
    carried : q as it was found
    norm : z of the tangent
    prior : mean and standard deviation of the log-parameters, (p,) each
    noise : key and number of the draws
    """
    K, m = carried.mean.shape
    lower = sparse.factor(log_parameters, sites)
    shrink = jnp.exp(HELD * 0.5 * (carried.log_parameters[0] - log_parameters[0]))
    T = linalg.solve_triangular(lower, carried.lower, lower=True) * shrink
    mean, factors = carried.mean @ T.T, jnp.einsum("kij,lj->kil", carried.factors, T)
    log_det = K * jnp.log(jnp.diagonal(T)).sum() - half_log_determinants(carried.factors).sum()
    divergence = 0.5 * ((factors**2).sum() + (mean**2).sum() - K * m) - log_det

    A, left = sparse.features(log_parameters, inverse_of_lower(lower), sites, batch.inputs)
    at_rows = sparse.moments(log_parameters, A, left, mean, factors)
    labelled, rows, base = batch.split(sparse.antithetic(noise[0], *at_rows, noise[1]))
    n = batch.label_weights.sum() + pace.row_weight * batch.row_weights.sum()
    of_labelled = (batch.labels * labelled).sum(-1) - _log_one_plus_total(labelled)
    biased = rows + pace.graph_weight * batch.log_start
    of_rows = jax.nn.logsumexp(biased, axis=-1) - _log_one_plus_total(rows)
    kept = jax.nn.sigmoid(jax.nn.logsumexp(base, axis=-1)).mean()
    log_prior = -0.5 * (((log_parameters - prior[0]) / prior[1]) ** 2).sum()
    return (
        (batch.label_weights * of_labelled.mean(axis=0)).sum()
        + pace.row_weight * (batch.row_weights * of_rows.mean(axis=0)).sum()
        - n * (jnp.log(norm) + kept / norm - 1.0)
        - divergence
        + log_prior
    )


def _log_one_plus_total(latent: Array) -> Array:
    """Return log(1 + Λ); (..., K) -> (...)."""
    return jnp.logaddexp(0.0, jax.nn.logsumexp(latent, axis=-1))
