"""Chains over inducing values and log-parameters, with a start and a scale from the ascent.

The model is the sparse one with π replaced by J points of it, so that Z is their mean:

    log p(v, θ | data) = Σ_labelled log p_y + Σ_unlabelled log (1 − p_0) − n log Z
                         − ½ |v|² + log p(θ).

What inducing values leave open of g at a row is averaged over a few fixed draws, row by row. v_k
is moved in the coordinates in which q is a standard normal, v_k = μ_k + C_kᵀ x. One sweep in
`THETA_EVERY` moves all of θ with v, the others the amplitude alone: A(x) then stays the same.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.extras import import_extra
from atoll.inference import hmc
from atoll.inference.chains import Sampler
from atoll.inference.hmc import StepSize
from atoll.models.archipelago.engine import sparse

jax = import_extra("jax")
jnp = import_extra("jax.numpy")

Array = NDArray[np.float64]
JaxArray = Any

THETA_EVERY = 3
THETA_SCALE = 0.3  # of its prior standard deviation: the unit in which θ moves
LEAPFROG, LEAPFROG_THETA = (8, 16), (5, 9)  # the smallest number, and one more than the largest
FIRST_STEP = 0.1


class SparseData(NamedTuple):
    """What the density is one over, in float32, and what does not change; rows are scaled.

    labelled : (l, d)
    labels : (l, K) one at their classes
    rows : (u, d) without a label
    base : (J, d) points of π
    inducing : (m, d)
    noise : (S, l + u + J, K) draws of what inducing values leave open
    centre : (K, m) μ
    factors : (K, m, m) C
    theta_centre, prior_mean, prior_sd : (p,) of the log-parameters
    """

    labelled: Any
    labels: Any
    rows: Any
    base: Any
    inducing: Any
    noise: Any
    centre: Any
    factors: Any
    theta_centre: Any
    prior_mean: Any
    prior_sd: Any


class SparseState(NamedTuple):
    """What the next sweep needs.

    position : (K·m + p,) coordinates of v, then of θ
    of_values, of_theta : step sizes of the two moves
    n_sweeps : so far
    acceptance : of the last move
    """

    position: Array
    of_values: StepSize
    of_theta: StepSize
    n_sweeps: int
    acceptance: float


# The density --------------------------------------------------------------------------------------


def unpack(position: JaxArray, data: SparseData) -> tuple[JaxArray, JaxArray]:
    """Return v (K, m) and θ (p,) of a position."""
    K, m = data.centre.shape
    x = position[: K * m].reshape(K, m)
    v = data.centre + jnp.einsum("kji,kj->ki", data.factors, x)
    return v, data.theta_centre + THETA_SCALE * data.prior_sd * position[K * m :]


def features_at(theta: JaxArray, data: SparseData) -> tuple[JaxArray, JaxArray]:
    """Return A (m, l + u + J) and what it leaves of the variance."""
    inputs = jnp.concatenate([data.labelled, data.rows, data.base])
    lower = sparse.factor(theta, data.inducing)
    return sparse.features(theta, lower, data.inducing, inputs)


def log_likelihood(
    v: JaxArray, theta: JaxArray, known: tuple[JaxArray, JaxArray], data: SparseData
) -> tuple[JaxArray, JaxArray]:
    """Return the log-likelihood, and log Z, where A and what it leaves are known."""
    A, left = known
    a, l, u = sparse.amplitude(theta), len(data.labelled), len(data.rows)  # noqa: E741
    g = a * (A.T @ v.T + jnp.sqrt(left + 1e-12)[:, None] * data.noise)
    log_total = jax.nn.logsumexp(g, axis=-1)
    log_kept = jax.nn.log_sigmoid(log_total)
    of_labels = (data.labels * g[:, :l]).sum(axis=-1) - jnp.logaddexp(0.0, log_total[:, :l])
    log_norm = _log_mean(_log_mean(log_kept[:, l + u :]))
    of_rows = _log_mean(of_labels).sum() + _log_mean(log_kept[:, l : l + u]).sum()
    return of_rows - (l + u) * log_norm, log_norm


def log_density(position: JaxArray, data: SparseData) -> JaxArray:
    """Return the log density of a position, up to a constant."""
    v, theta = unpack(position, data)
    return _log_posterior(v, theta, features_at(theta, data), data)


def log_density_of_values(
    x: JaxArray, rest: JaxArray, known: tuple[JaxArray, JaxArray], data: SparseData
) -> JaxArray:
    """Return the same with length-scales held, (K·m + 1,) and (p − 1,), where A is known."""
    v, theta = unpack(jnp.concatenate([x, rest]), data)
    return _log_posterior(v, theta, known, data)


def _log_posterior(
    v: JaxArray, theta: JaxArray, known: tuple[JaxArray, JaxArray], data: SparseData
) -> JaxArray:
    away = (theta - data.prior_mean) / data.prior_sd
    likelihood, _ = log_likelihood(v, theta, known, data)
    return likelihood - 0.5 * (v**2).sum() - 0.5 * (away**2).sum()


def _log_mean(x: JaxArray) -> JaxArray:
    """Return the log of the mean of exp x over the first axis."""
    return jax.nn.logsumexp(x, axis=0) - jnp.log(x.shape[0])


_slope = jax.jit(jax.value_and_grad(log_density))
_slope_of_values = jax.jit(jax.value_and_grad(log_density_of_values))
_features = jax.jit(features_at)
_unpack = jax.jit(unpack)


@jax.jit
def _described(position: JaxArray, data: SparseData) -> tuple[JaxArray, ...]:
    """Return v, θ, log-likelihood, log Z and class probabilities of the data's rows."""
    v, theta = unpack(position, data)
    A, left = features_at(theta, data)
    n = len(data.labelled) + len(data.rows)
    g = sparse.amplitude(theta) * (A.T @ v.T + jnp.sqrt(left + 1e-12)[:, None] * data.noise)
    shares = jax.nn.softmax(g[:, :n], axis=-1).mean(axis=0)
    return v, theta, *log_likelihood(v, theta, (A, left), data), shares


# The chain ----------------------------------------------------------------------------------------


def sampler(data: SparseData, in_own_units: Array, order: NDArray[np.intp]) -> Sampler:
    """Return the chain.

    Parameters
    ----------
    in_own_units : (p,) what takes log-parameters of scaled rows to those of rows in their units
    order : (n,) where each row of the fit is among labelled rows and rows without a label
    """
    return Sampler(
        partial(_init, data), partial(sweep, data), partial(_record, data, in_own_units, order)
    )


def _init(data: SparseData, rng: np.random.Generator) -> SparseState:
    n = data.centre.size + len(data.prior_mean)
    return make_state(rng.standard_normal(n))


def make_state(position: Array) -> SparseState:
    """Return the state at a position, before any adaptation."""
    first = hmc.init_step_size(FIRST_STEP)
    return SparseState(position, first, first, 0, 1.0)


def sweep(
    data: SparseData, rng: np.random.Generator, state: SparseState, adapt: bool
) -> SparseState:
    """Move v and the amplitude, in one sweep of `THETA_EVERY` the length-scales as well."""
    held = len(data.prior_mean) - 1
    q = state.position
    if state.n_sweeps % THETA_EVERY == THETA_EVERY - 1:
        q, info, tuned = hmc.tuned_step(
            rng,
            q,
            lambda x: _as_numpy(_slope(_f32(x), data)),
            state.of_theta,
            LEAPFROG_THETA,
            adapt,
        )
        state = state._replace(of_theta=tuned)
    else:
        rest = _f32(q[-held:])
        known = _features(_unpack(_f32(q), data)[1], data)
        x, info, tuned = hmc.tuned_step(
            rng,
            q[:-held],
            lambda x: _as_numpy(_slope_of_values(_f32(x), rest, known, data)),
            state.of_values,
            LEAPFROG,
            adapt,
        )
        q = np.concatenate([x, q[-held:]])
        state = state._replace(of_values=tuned)
    return state._replace(
        position=q, n_sweeps=state.n_sweeps + 1, acceptance=float(info.acceptance)
    )


def _record(
    data: SparseData,
    in_own_units: Array,
    order: NDArray[np.intp],
    rng: np.random.Generator,
    state: SparseState,
) -> dict[str, Any]:
    found = [np.asarray(part, np.float64) for part in _described(_f32(state.position), data)]
    values, theta, likelihood, log_norm, shares = found
    return {
        "log_likelihood": float(likelihood),
        "log_norm": float(log_norm),
        "log_parameters": theta + in_own_units,
        "values": values,
        "row_probabilities": shares[order],
        "acceptance": state.acceptance,
        "jitter": sparse.JITTER,
    }


def _f32(x: Array) -> Any:
    return np.asarray(x, np.float32)


def _as_numpy(pair: tuple[JaxArray, JaxArray]) -> tuple[float, Array]:
    return float(pair[0]), np.asarray(pair[1], np.float64)
