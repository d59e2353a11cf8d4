"""The softmax Gaussian process classifier (Williams & Barber 1998), paper 000's baseline.

prior: one kernel C(θ) shared by K functions, log θ normal. likelihood: softmax. inference: HMC
over whitened functions, elliptical slice sampling over θ.

    g_k ~ N(0, C(θ)), k = 1..K      P(y_n = k) = exp g_k(x_n) / Σ_j exp g_j(x_n)

Whitened, g_k = L ν_k with L Lᵀ = C and ν_k ~ N(0, I): θ moves with ν held, so that the functions
move along. With g held, as paper 000 has it, θ freezes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from atoll.core.linalg import cholesky_inverse, jittered_cholesky, solve_lower
from atoll.core.memory import in_chunks
from atoll.inference import elliptical_slice, hmc
from atoll.inference.chains import Sampler
from atoll.kernels.conditioning import (
    CHUNK_ENTRIES,
    conditional_moments,
    mixture_moments,
    sample_conditional,
)
from atoll.kernels.hyperparameters import KernelPrior, gram_function
from atoll.likelihoods import softmax
from atoll.models.belief import without_label
from atoll.models.posterior import chosen_states

Array = NDArray[np.float64]

LEAPFROG_STEPS = (3, 8)  # 3 to 7, drawn at random
N_ROUNDS = 3  # per sweep, of functions and θ by turns
MOST_WEIGHTED = 1000  # draws that are weighted to leave labels out


class SoftmaxState(NamedTuple):
    """What the next sweep needs.

    whitened : (n, K) ν
    log_parameters : (p,) of the kernel
    step_size : adaptation of HMC's step
    acceptance : of the last HMC step
    """

    whitened: Array
    log_parameters: Array
    step_size: hmc.StepSize
    acceptance: float


class SoftmaxPosterior(NamedTuple):
    """Draws of K functions known at n rows; predicts without its model.

    prior : the kernel
    inputs : (n, d)
    log_parameters : (S, p)
    weights : (S, n, K) C^{-1} g
    """

    prior: KernelPrior
    inputs: Array
    log_parameters: Array
    weights: Array

    def log_proba(self, X: Array) -> Array:
        """Return log P(y = k | x, data), eq. 6, averaged over draws; X (m, d) -> (m, K)."""
        K = self.weights.shape[2]
        total = np.full((len(X), K), -np.inf)
        for draw, (mean, variance) in enumerate(self.moments(X)):
            for part in in_chunks(len(X), softmax.N_POINTS * K**2, most=CHUNK_ENTRIES):
                log_p = softmax.log_class_probabilities(mean[part], variance[part], scramble=draw)
                total[part] = np.logaddexp(total[part], log_p)
        return total - logsumexp(total, axis=1, keepdims=True)

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of the K functions; X (m, d) -> (m, K) each."""
        return mixture_moments(self.moments(X))

    def draws(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; X (m, d) -> (n, m, K)."""
        S = len(self.log_parameters)
        states, counts = np.unique(chosen_states(rng, n, np.full(S, 1 / S)), return_counts=True)
        gram_at, parts = gram_function(self.prior, self.inputs), []
        for s, count in zip(states, counts):
            theta = self.log_parameters[s]
            lower = jittered_cholesky(gram_at(theta)).lower
            g = sample_conditional(
                rng, self.prior, theta, self.inputs, lower, self.weights[s], X, count
            )
            parts.append(softmax.class_probabilities(g))
        return np.concatenate(parts)

    def moments(self, X: Array) -> Iterator[tuple[Array, Array]]:
        """Yield mean and variance of g(x), (m, K) each, draw by draw of the posterior."""
        gram_at = gram_function(self.prior, self.inputs)
        for theta, weights in zip(self.log_parameters, self.weights):
            lower = jittered_cholesky(gram_at(theta)).lower
            mean, variance = conditional_moments(self.prior, theta, self.inputs, lower, weights, X)
            yield mean, np.broadcast_to(variance[:, None], mean.shape)


def left_out(posterior: SoftmaxPosterior, codes: NDArray[np.intp]) -> Array:
    """Return log class probabilities of the labelled rows, each without its own label; (l, K).

    A draw's functions at the other rows leave a normal one at the row, of which its label has the
    probability q. Weighted by 1/q, draws are those of the posterior without that label.
    """
    S, proba = len(posterior.weights), []
    gram_at = gram_function(posterior.prior, posterior.inputs)
    for draw in np.unique(np.linspace(0, S - 1, min(S, MOST_WEIGHTED)).astype(int)):
        weights = posterior.weights[draw]
        lower = jittered_cholesky(gram_at(posterior.log_parameters[draw])).lower
        variance = 1.0 / np.diag(cholesky_inverse(lower))[:, None]
        mean = lower @ (lower.T @ weights) - variance * weights
        variances = np.broadcast_to(variance, mean.shape)
        proba.append(np.exp(softmax.log_class_probabilities(mean, variances, scramble=draw)))
    return without_label(np.stack(proba), codes)


# The generative process ---------------------------------------------------------------------------


def sample_prior(
    rng: np.random.Generator, inputs: Array, prior: KernelPrior, n_classes: int
) -> tuple[Array, Array, NDArray[np.intp]]:
    """Draw θ, the functions (n, K) and labels (n,) from the prior; inputs (n, d)."""
    log_parameters = prior.mean + prior.sd * rng.standard_normal(len(prior.mean))
    lower = jittered_cholesky(gram_function(prior, inputs)(log_parameters)).lower
    g = lower @ rng.standard_normal((len(inputs), n_classes))
    return log_parameters, g, softmax.sample(rng, g)


# Inference ----------------------------------------------------------------------------------------


def log_joint(
    whitened: Array, codes: NDArray[np.intp], gram_cholesky: Array
) -> tuple[float, Array]:
    """Return log p(y, ν | θ) up to a constant, and its gradient in ν; whitened (n, K)."""
    g = gram_cholesky @ whitened
    value = softmax.log_prob(g, codes).sum() - 0.5 * np.vdot(whitened, whitened)
    return float(value), gram_cholesky.T @ softmax.gradient(g, codes) - whitened


def sampler(inputs: Array, codes: NDArray[np.intp], prior: KernelPrior, n_classes: int) -> Sampler:
    """Return the chain for labelled rows; inputs (n, d), codes (n,) in 0..K−1."""
    gram_at = gram_function(prior, inputs)

    def init(rng: np.random.Generator) -> SoftmaxState:
        log_parameters = prior.mean + prior.sd * rng.standard_normal(len(prior.mean))
        whitened = 0.1 * rng.standard_normal((len(inputs), n_classes))
        return SoftmaxState(whitened, log_parameters, hmc.init_step_size(0.3), 1.0)

    def sweep(rng: np.random.Generator, state: SoftmaxState, adapt: bool) -> SoftmaxState:
        for _ in range(N_ROUNDS):
            lower = jittered_cholesky(gram_at(state.log_parameters)).lower
            state = sweep_functions(rng, state, codes, lower, adapt)
            if prior.variance_index is not None:
                state = sweep_log_variance(rng, state, codes, prior, lower)
            if len(prior.mean) > 0:
                state = sweep_log_parameters(rng, state, codes, prior, gram_at)
        return state

    def record(rng: np.random.Generator, state: SoftmaxState) -> dict[str, Any]:
        lower, jitter = jittered_cholesky(gram_at(state.log_parameters))
        g = lower @ state.whitened
        return {
            "log_likelihood": softmax.log_prob(g, codes).sum(),
            "log_parameters": state.log_parameters,
            "latent": g,
            "weights": solve_lower(lower, state.whitened, transposed=True),
            "acceptance": state.acceptance,
            "jitter": jitter,
        }

    return Sampler(init, sweep, record)


def sweep_functions(
    rng: np.random.Generator,
    state: SoftmaxState,
    codes: NDArray[np.intp],
    gram_cholesky: Array,
    adapt: bool,
) -> SoftmaxState:
    """Move the K whitened functions together, by one HMC step."""

    def target(whitened: Array) -> tuple[float, Array]:
        return log_joint(whitened, codes, gram_cholesky)

    whitened, info, tuned = hmc.tuned_step(
        rng, state.whitened, target, state.step_size, LEAPFROG_STEPS, adapt
    )
    return state._replace(whitened=whitened, step_size=tuned, acceptance=info.acceptance)


def sweep_log_variance(
    rng: np.random.Generator,
    state: SoftmaxState,
    codes: NDArray[np.intp],
    prior: KernelPrior,
    gram_cholesky: Array,
) -> SoftmaxState:
    """Move the kernel's log variance given ν, without a new factor."""
    v = prior.variance_index
    assert v is not None
    g = gram_cholesky @ state.whitened

    def log_likelihood(g: Array) -> float:
        return float(softmax.log_prob(g, codes).sum())

    theta = state.log_parameters.copy()
    theta[v], _, _ = elliptical_slice.step_log_variance(
        rng, theta[v], g, log_likelihood(g), log_likelihood, prior.mean[v], prior.sd[v]
    )
    return state._replace(log_parameters=theta)


def sweep_log_parameters(
    rng: np.random.Generator,
    state: SoftmaxState,
    codes: NDArray[np.intp],
    prior: KernelPrior,
    gram_at: Callable[[Array], Array],
) -> SoftmaxState:
    """Move θ given ν by elliptical slice sampling; the functions g = L(θ) ν move with it."""

    def log_likelihood(theta: Array) -> float:
        lower = jittered_cholesky(gram_at(theta)).lower
        return float(softmax.log_prob(lower @ state.whitened, codes).sum())

    theta, _, _ = elliptical_slice.step(
        rng,
        state.log_parameters,
        log_likelihood(state.log_parameters),
        log_likelihood,
        prior.sd * rng.standard_normal(len(prior.sd)),
        prior.mean,
    )
    return state._replace(log_parameters=theta)
