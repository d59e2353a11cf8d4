"""The ascent: rounds of natural-gradient steps for q and one of Adam for the log-parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from atoll.core.extras import import_extra
from atoll.inference import natural_gradient
from atoll.inference.natural_gradient import InducingGaussians
from atoll.models.archipelago.engine import objective, sparse
from atoll.models.archipelago.engine.objective import Batch, Carried, Pace
from atoll.models.archipelago.engine.sparse import Sites

jax = import_extra("jax")
jnp = import_extra("jax.numpy")
linalg = import_extra("jax.scipy.linalg")

Array = Any  # of JAX

N_DRAWS = 4  # of the functions at every row of a batch
FURTHEST = 2.0  # that a function moves in one step
FIRST_AMPLITUDE = 3.5  # prior standard deviations of the log variance above its mean, at the start
WIDEST = 4.0  # standard deviations of their prior that log-parameters stay within
DECAYS = (0.8, 0.95)  # of Adam's two averages
REWHITENED = 1e-5  # added to the diagonal of P after a change of basis: what float32 may lose


class AscentState(NamedTuple):
    """What the next step needs.

    log_parameters : (p,)
    q : over the inducing values
    norm : z
    adam : (2, p) averages of the gradient and of its square
    n_learned : steps of the log-parameters
    average : of q over the last steps
    n_averaged : steps in it
    n_refused : steps that were not finite
    """

    log_parameters: Array
    q: InducingGaussians
    norm: Array
    adam: Array
    n_learned: Array
    average: InducingGaussians
    n_averaged: Array
    n_refused: Array


class Factors(NamedTuple):
    """What the matrices of a state are made of: it is found once, and goes from step to step.

    lower : (m, m) L of the inducing inputs
    covariances : (K, m, m) C of q, P^{-1} = Cᵀ C
    """

    lower: Array
    covariances: Array


Carry = tuple[AscentState, Factors]


class Report(NamedTuple):
    """What a person wants to know of a round.

    bound : estimate of the bound on the log evidence, for the weights of that round
    norm : z
    log_parameters : (p,)
    """

    bound: Array
    norm: Array
    log_parameters: Array


class Round(NamedTuple):
    """What one round is given; steps come first in batches and paces.

    key : (2,) of its noise, two whole numbers
    batches : of every step
    paces : of every step
    learning_rate : of the log-parameters
    """

    key: Array
    batches: Batch
    paces: Pace
    learning_rate: Array


class Fixed(NamedTuple):
    """What stays the same.

    sites : inducing inputs and the kernel's detail
    prior_mean, prior_sd : (p,) of the log-parameters
    """

    sites: Sites
    prior_mean: Array
    prior_sd: Array


def init(fixed: Fixed, n_classes: int) -> AscentState:
    """Return the state at the prior of the functions, with a large amplitude, as NumPy arrays.

    The amplitude of a density with a deep sea is far above its prior mean, and rises slowly.
    """
    q, zero = natural_gradient.prior(n_classes, len(fixed.sites.inducing)), np.float32(0.0)
    theta = np.array(fixed.prior_mean, np.float32)
    theta[0] += FIRST_AMPLITUDE * fixed.prior_sd[0]
    return AscentState(
        log_parameters=theta,
        q=q,
        norm=np.float32(0.5),
        adam=np.zeros((2, len(theta)), np.float32),
        n_learned=zero,
        average=jax.tree.map(np.zeros_like, q),
        n_averaged=zero,
        n_refused=zero,
    )


def resume(leaves: tuple[Any, ...], template: AscentState) -> AscentState:
    """Return a state from its leaves, with an average that has yet to begin."""
    state = jax.tree.unflatten(jax.tree.structure(template), leaves)
    zero = np.float32(0.0)
    return state._replace(
        average=jax.tree.map(np.zeros_like, state.q), n_averaged=zero, n_refused=zero
    )


@jax.jit
def advance(state: AscentState, rounds: Round, fixed: Fixed) -> tuple[AscentState, Report]:
    """Take several rounds, (R, ...) each; the reports come as (R, ...)."""
    factors = factors_of(state, fixed)
    (state, _), reports = jax.lax.scan(
        lambda carry, inputs: take_round(carry, inputs, fixed), (state, factors), rounds
    )
    return state, reports


def factors_of(state: AscentState, fixed: Fixed) -> Factors:
    """Return the factors of a state."""
    return Factors(
        sparse.factor(state.log_parameters, fixed.sites),
        natural_gradient.covariance_factors(state.q),
    )


def take_round(carry: Carry, inputs: Round, fixed: Fixed) -> tuple[Carry, Report]:
    """Take some steps for q, and one for the log-parameters."""
    key, for_theta = jax.random.split(jax.random.wrap_key_data(inputs.key, impl="threefry2x32"))
    keys = jax.random.split(key, len(inputs.paces.rate))
    theta, inverse = carry[0].log_parameters, natural_gradient.inverse_of_lower(carry[1].lower)
    features = jax.vmap(lambda batch: sparse.features(theta, inverse, fixed.sites, batch.inputs))(
        inputs.batches
    )
    (state, factors), _ = jax.lax.scan(
        lambda carry, x: (_step(carry, *x), None),
        carry,
        (keys, inputs.batches, inputs.paces, features),
    )
    batch, pace = jax.tree.map(lambda v: v[-1], (inputs.batches, inputs.paces))
    carried = Carried(state.log_parameters, factors.lower, state.q.mean, factors.covariances)
    prior = (fixed.prior_mean, fixed.prior_sd)
    rest = (carried, fixed.sites, batch, pace, state.norm, prior, (for_theta, N_DRAWS))

    def at_rest() -> tuple[Carry, Array]:
        return (state, factors), objective.bound(state.log_parameters, *rest)

    def learning() -> tuple[Carry, Array]:
        value, slope = jax.value_and_grad(objective.bound)(state.log_parameters, *rest)
        n = batch.label_weights.sum() + pace.row_weight * batch.row_weights.sum()
        return _learn((state, factors), slope / n, inputs.learning_rate, fixed), value

    learnt, value = jax.lax.cond(pace.averaged > 0, at_rest, learning)
    return learnt, Report(value, learnt[0].norm, learnt[0].log_parameters)


def _step(
    carry: Carry, key: Array, batch: Batch, pace: Pace, features: tuple[Array, Array]
) -> Carry:
    """Take one step of natural gradients; `features` of all inputs of the batch."""
    state, factors = carry
    theta, (A, left) = state.log_parameters, features
    mean_and_sd = sparse.moments(theta, A, left, state.q.mean, factors.covariances)
    latent = sparse.antithetic(key, *mean_and_sd, N_DRAWS)
    scores, curvatures, norm = objective.scores_and_curvatures(latent, batch, pace, state.norm)
    q, covariances, refused = natural_gradient.step(
        state.q, factors.covariances, sparse.amplitude(theta) * A, scores, curvatures, pace.rate,
        FURTHEST,
    )  # fmt: skip
    n_averaged = state.n_averaged + pace.averaged
    share = pace.averaged / jnp.maximum(n_averaged, 1.0)
    average = jax.tree.map(lambda mean, new: mean + share * (new - mean), state.average, q)
    state = state._replace(
        q=q, norm=norm, average=average, n_averaged=n_averaged, n_refused=state.n_refused + refused
    )
    return state, factors._replace(covariances=covariances)


def _learn(carry: Carry, slope: Array, rate: Array, fixed: Fixed) -> Carry:
    """Take one step of Adam on the log-parameters; the functions at inducing inputs nearly stay.

    At a rate of zero nothing moves, but the averages of Adam go on: steps that follow are measured
    by the slopes of all rounds before.

    Parameters
    ----------
    slope : (p,) of the bound, for one row
    """
    state, factors = carry
    slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
    first = DECAYS[0] * state.adam[0] + (1.0 - DECAYS[0]) * slope
    second = DECAYS[1] * state.adam[1] + (1.0 - DECAYS[1]) * slope**2
    t = state.n_learned + 1.0
    move = (first / (1.0 - DECAYS[0] ** t)) / (jnp.sqrt(second / (1.0 - DECAYS[1] ** t)) + 1e-10)
    limit = WIDEST * fixed.prior_sd
    theta = jnp.clip(
        state.log_parameters + rate * move, fixed.prior_mean - limit, fixed.prior_mean + limit
    )
    lower = sparse.factor(theta, fixed.sites)
    shrink = jnp.exp(objective.HELD * 0.5 * (state.log_parameters[0] - theta[0]))
    forward = linalg.solve_triangular(lower, factors.lower, lower=True) * shrink
    back = linalg.solve_triangular(factors.lower, lower, lower=True) / shrink
    q = natural_gradient.changed_basis(state.q, forward, back)
    q = q._replace(precision=q.precision + REWHITENED * jnp.eye(len(lower), dtype=lower.dtype))
    moved = (theta, q, Factors(lower, natural_gradient.covariance_factors(q)))
    finite = jnp.isfinite(q.mean).all() & jnp.isfinite(moved[2].covariances).all()
    ok = finite & (rate > 0)
    theta, q, factors = jax.tree.map(
        lambda new, old: jnp.where(ok, new, old), moved, (state.log_parameters, state.q, factors)
    )
    return state._replace(
        log_parameters=theta,
        q=q,
        adam=jnp.stack([first, second]),
        n_learned=t,
        n_refused=state.n_refused + ((rate > 0) & ~finite),
    ), factors
