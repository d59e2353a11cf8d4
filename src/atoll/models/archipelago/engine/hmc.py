"""Chains over inducing values and log-parameters, with a start and a scale from the ascent.

The model is the sparse one with π replaced by J points of it, so that Z is their mean:

    log p(v, θ | data) = Σ_labelled log p_y + Σ_unlabelled log (1 − p_0) − n log Z
                         − ½ |v|² + log p(θ).

What inducing values leave open of g at a row is averaged over a few fixed draws, row by row. v_k
moves in the coordinates in which q has the same width everywhere, v_k + C_kᵀ x. One sweep moves v
and the amplitude, for which A(x) stays the same. The next moves all of θ with v: a shorter
length-scale says much the same of the rows with other values, and either alone hardly moves.

In NumPy: a chain goes from gradient to gradient, and one alone is too little work for a device.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax

from atoll.core.linalg import solve_lower
from atoll.inference import hmc
from atoll.inference.chains import Sampler
from atoll.inference.hmc import StepSize
from atoll.kernels.detailed import slope_with_detail, with_detail
from atoll.models.archipelago.engine.posterior import JITTER, squared_exponential

Array = NDArray[Any]  # in float32, or whatever the data are in

THETA_EVERY = 2
THETA_SCALE = 0.3  # of its prior standard deviation: the unit in which θ moves
LEAPFROG, LEAPFROG_THETA = (25, 50), (15, 30)  # the smallest number, one more than the largest
FIRST_STEP = 0.1
LEAST_LEFT = 1e-12  # added to what inducing values leave open, under its root
WIDEST = 20.0  # prior standard deviations of θ, beyond which a trajectory is refused


class SparseData(NamedTuple):
    """What the density is one over, and what does not change; rows are scaled.

    labelled : (l, d)
    labels : (l, K) one at their classes
    rows : (u, d) without a label
    base : (J, d) points of π
    inducing : (m, d)
    detail : w, of the kernel
    noise : (S, l + u + J, K) draws of what inducing values leave open
    centre : (K, m) μ
    factors : (K, m, m) C
    theta_centre, prior_mean, prior_sd : (p,) of the log-parameters
    """

    labelled: Array
    labels: Array
    rows: Array
    base: Array
    inducing: Array
    detail: Array
    noise: Array
    centre: Array
    factors: Array
    theta_centre: Array
    prior_mean: Array
    prior_sd: Array

    @property
    def inputs(self) -> Array:
        """All rows and points, (N, d) with N = l + u + J."""
        return np.concatenate([self.labelled, self.rows, self.base])


class SparseState(NamedTuple):
    """What the next sweep needs.

    values : (K, m) v
    theta : (p,)
    of_values, of_theta : step sizes of the two moves
    n_sweeps : so far
    acceptance : of the last move
    """

    values: Array
    theta: Array
    of_values: StepSize
    of_theta: StepSize
    n_sweeps: int
    acceptance: float


# The density --------------------------------------------------------------------------------------


class Features(NamedTuple):
    """What the length-scales decide.

    theta : (p,)
    among : (m, m) squared exponential, without detail, of the inducing inputs
    lower, inverse : (m, m) L and L^{-1}
    across : (m, N) the same of inducing inputs and rows
    A : (m, N)
    root : (N,) root of what A leaves of the variance
    noise : (S, K, N) the draws, times that root
    """

    theta: Array
    among: Array
    lower: Array
    inverse: Array
    across: Array
    A: Array
    root: Array
    noise: Array


class Terms(NamedTuple):
    """The log-likelihood and what its slopes are made of.

    log_likelihood, log_norm : numbers; the norm is Z
    latent : (S, K, N) g
    slope : (S, K, N) of the log-likelihood by g
    shares : (S, K, N) e^{g_k}/Λ
    """

    log_likelihood: float
    log_norm: float
    latent: Array
    slope: Array
    shares: Array


def features_at(theta: Array, data: SparseData) -> Features:
    """Return A and what belongs to it."""
    among = squared_exponential(theta, data.inducing, data.inducing)
    jittered = with_detail(among, data.detail).astype(np.float64)
    jittered[np.diag_indices_from(jittered)] += JITTER
    lower: NDArray[np.float64] = np.linalg.cholesky(jittered).astype(np.float64)
    inverse = solve_lower(lower, np.eye(len(lower))).astype(among.dtype)
    across = squared_exponential(theta, data.inducing, data.inputs)
    A = inverse @ with_detail(across, data.detail)
    left = np.maximum(1.0 - np.einsum("ij,ij->j", A, A), 0.0)
    root = np.sqrt(left + left.dtype.type(LEAST_LEFT))
    noise = root * np.swapaxes(data.noise, 1, 2)
    return Features(theta, among, lower.astype(among.dtype), inverse, across, A, root, noise)


def terms_at(v: Array, theta: Array, known: Features, data: SparseData) -> Terms:
    """Return the log-likelihood, and its slope by g = a (Aᵀ v + what is left open)."""
    l = len(data.labelled)  # noqa: E741
    n = l + len(data.rows)
    g = np.exp(0.5 * theta[0]) * (v @ known.A + known.noise)
    top = g.max(axis=1)
    shares = np.exp(g - top[:, None])
    total = shares.sum(axis=1)
    shares /= total[:, None]
    log_total = top + np.log(total)
    rejected = expit(-log_total[:, l:])

    ones = data.labels.T
    of_labels = (ones * g[:, :, :l]).sum(axis=1) - np.logaddexp(0.0, log_total[:, :l])
    of_rows = log_expit(log_total[:, l:n])
    log_kept = log_expit(log_total[:, n:])  # on a path gone astray all of them may be e^-200
    log_norm = _log_means(log_kept.astype(np.float64).reshape(-1, 1))
    likelihood = _log_means(of_labels) + _log_means(of_rows) - n * log_norm
    by_label, by_row = softmax(of_labels, axis=0), softmax(of_rows, axis=0)
    by_base = -n * softmax(log_kept)
    weights = [-by_label * expit(log_total[:, :l]), np.hstack([by_row, by_base]) * rejected]
    slope = shares * np.hstack(weights)[:, None]
    slope[:, :, :l] += by_label[:, None] * ones
    return Terms(likelihood, log_norm, g, slope, shares)


def _log_means(x: Array) -> float:
    """Return the logs of the means of exp x over the first axis, summed over the second."""
    if x.shape[1] == 0:
        return 0.0
    top = x.max(axis=0)
    return float((top + np.log(np.exp(x - top).mean(axis=0))).sum(dtype=np.float64))


def log_density(
    v: Array, theta: Array, known: Features, data: SparseData, with_all: bool
) -> tuple[float, Array, Array]:
    """Return the log density up to a constant, and its slopes by v (K, m) and θ (p,).

    Parameters
    ----------
    known : of θ, or, without `with_all`, of one with the same length-scales
    with_all : whether the slopes by the log length-scales are wanted; else they are the prior's
    """
    terms = terms_at(v, theta, known, data)
    away = (theta - data.prior_mean) / data.prior_sd
    value = terms.log_likelihood - 0.5 * float(np.vdot(v, v)) - 0.5 * float(away @ away)
    by_functions = np.exp(0.5 * theta[0]) * terms.slope.sum(axis=0)
    by_theta = -away / data.prior_sd
    by_theta[0] += 0.5 * np.vdot(terms.slope, terms.latent)
    if with_all:
        by_theta[1:] += _slope_of_length_scales(v, by_functions, terms, known, data)
    return value, by_functions @ known.A.T - v, by_theta


def _slope_of_length_scales(
    v: Array, by_functions: Array, terms: Terms, known: Features, data: SparseData
) -> Array:
    """Return the slope of the log-likelihood by the log length-scales, (p − 1,), backwards.

    Parameters
    ----------
    by_functions : (K, N) slope by Aᵀ v
    """
    a = np.exp(0.5 * known.theta[0])
    by_left = a * np.einsum("skn,skn->n", terms.slope, known.noise) / (2.0 * known.root**2)
    by_A = v.T @ by_functions - 2.0 * known.A * by_left
    by_across = known.inverse.T @ by_A
    # Through L: its slope, −(by_across Aᵀ), is taken to that of L Lᵀ (Murray 2016, equation 10).
    inner = np.tril(known.lower.T @ np.tril(by_across @ known.A.T))
    inner[np.diag_indices_from(inner)] *= 0.5
    by_among = -known.inverse.T @ inner @ known.inverse
    by_across = by_across * known.across * slope_with_detail(known.across, data.detail)
    by_among = by_among * known.among * slope_with_detail(known.among, data.detail)
    by_squares = _weighted_squares(by_across, data.inducing, data.inputs)
    by_squares += _weighted_squares(by_among, data.inducing, data.inducing)
    scales = np.exp(-2.0 * known.theta[1:])
    return scales * (by_squares if len(scales) > 1 else by_squares.sum())


def _weighted_squares(W: Array, first: Array, second: Array) -> Array:
    """Return Σ_ab W_ab (x_aj − y_bj)² of every feature j; (n, m), (n, d), (m, d) -> (d,)."""
    both = (first * (W @ second)).sum(axis=0)
    return W.sum(axis=1) @ first**2 + W.sum(axis=0) @ second**2 - 2.0 * both


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
    """Start at a draw of q, near the log-parameters that the ascent found."""
    x = rng.standard_normal(data.centre.shape).astype(data.centre.dtype)
    away = rng.standard_normal(len(data.prior_sd)).astype(data.prior_sd.dtype)
    return make_state(
        data.centre + _along(data.factors, x),
        data.theta_centre + THETA_SCALE * data.prior_sd * away,
    )


def make_state(values: Array, theta: Array) -> SparseState:
    """Return the state at values and log-parameters, before any adaptation."""
    first = hmc.init_step_size(FIRST_STEP)
    return SparseState(values, theta, first, first, 0, 1.0)


def sweep(
    data: SparseData, rng: np.random.Generator, state: SparseState, adapt: bool
) -> SparseState:
    """Move v and the amplitude, in one sweep of `THETA_EVERY` the length-scales as well."""
    with_all = state.n_sweeps % THETA_EVERY == THETA_EVERY - 1
    target = _Around(data, state, None if with_all else features_at(state.theta, data))
    tuned, lengths = (state.of_theta, LEAPFROG_THETA) if with_all else (state.of_values, LEAPFROG)
    start = np.zeros(state.values.size + target.n_moved)
    x, info, tuned = hmc.tuned_step(rng, start, target.density, tuned, lengths, adapt)
    values, theta = target.at(x)
    return state._replace(
        values=values,
        theta=theta,
        of_theta=tuned if with_all else state.of_theta,
        of_values=state.of_values if with_all else tuned,
        n_sweeps=state.n_sweeps + 1,
        acceptance=float(info.acceptance),
    )


class _Around(NamedTuple):
    """The log density in coordinates x of a move, which begins at zero.

    known : features where the length-scales stay as they are, else None
    """

    data: SparseData
    state: SparseState
    known: Features | None

    @property
    def n_moved(self) -> int:
        """Log-parameters that move: the amplitude alone, or all."""
        return len(self.state.theta) if self.known is None else 1

    def at(self, x: Array) -> tuple[Array, Array]:
        """Return v and θ."""
        state, p = self.state, self.n_moved
        x = x.astype(state.values.dtype)
        values = state.values + _along(self.data.factors, x[:-p].reshape(state.values.shape))
        theta = state.theta.copy()
        theta[:p] += THETA_SCALE * self.data.prior_sd[:p] * x[-p:]
        return values, theta

    def density(self, x: Array) -> tuple[float, Array]:
        """Return the log density at x, and its slope there."""
        data, p = self.data, self.n_moved
        v, theta = self.at(x)
        if not (np.abs(theta - data.prior_mean) < WIDEST * data.prior_sd).all():
            return -np.inf, x
        known = features_at(theta, data) if self.known is None else self.known
        value, by_values, by_theta = log_density(v, theta, known, data, self.known is None)
        by_x = np.matmul(data.factors, by_values[:, :, None]).ravel()
        return value, np.concatenate([by_x, THETA_SCALE * data.prior_sd[:p] * by_theta[:p]])


def _along(factors: Array, x: Array) -> Array:
    """Return Cᵀ x of every function; (K, m, m), (K, m) -> (K, m)."""
    return np.matmul(x[:, None, :], factors)[:, 0]


def _record(
    data: SparseData,
    in_own_units: Array,
    order: NDArray[np.intp],
    rng: np.random.Generator,
    state: SparseState,
) -> dict[str, Any]:
    terms = terms_at(state.values, state.theta, features_at(state.theta, data), data)
    shares = terms.shares[:, :, : len(order)].mean(axis=0, dtype=np.float64).T
    return {
        "log_likelihood": terms.log_likelihood,
        "log_norm": terms.log_norm,
        "log_parameters": state.theta + in_own_units,
        "values": state.values.astype(np.float64),
        "row_probabilities": shares[order],
        "acceptance": state.acceptance,
        "jitter": JITTER,
    }
