"""The binary probit Gaussian process of paper 004 (Rogers 2014), by its auxiliary variables.

prior: a kernel C(θ), log θ normal. likelihood: probit. inference: auxiliary-variable Gibbs.

    f ~ N(0, C(θ))      z_n ~ N(f_n, 1)      y_n = 1 where z_n > 0

The null category (`null_category.py`) differs in the regions of z alone and shares what is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from atoll.core.linalg import jittered_cholesky
from atoll.core.regions import Regions, log_region_probability, sample_regions
from atoll.inference import auxiliary_gibbs
from atoll.inference.auxiliary_gibbs import AuxiliaryState
from atoll.inference.chains import Sampler
from atoll.kernels.conditioning import conditional_moments, mixture_moments
from atoll.kernels.hyperparameters import KernelPrior, gram_function
from atoll.likelihoods import probit

Array = NDArray[np.float64]


class LatentPosterior(NamedTuple):
    """Draws of a function known through z = f + ε; predicts without its model.

    prior : the kernel
    inputs : (n, d) rows at which z is known
    log_parameters : (S, p)
    weights : (S, n) V^{-1} z
    """

    prior: KernelPrior
    inputs: Array
    log_parameters: Array
    weights: Array


# The generative process ---------------------------------------------------------------------------


def sample_prior(
    rng: np.random.Generator, inputs: Array, prior: KernelPrior
) -> tuple[Array, Array, NDArray[np.intp]]:
    """θ, f and y from the prior, as the lecture's note 2 has it; inputs (n, d)."""
    log_parameters = prior.mean + prior.sd * rng.standard_normal(len(prior.mean))
    lower = jittered_cholesky(gram_function(prior, inputs)(log_parameters)).lower
    f = lower @ rng.standard_normal(len(inputs))
    z = f + rng.standard_normal(len(inputs))
    return log_parameters, f, (z > 0).astype(np.intp)


# Inference ----------------------------------------------------------------------------------------


def sampler(inputs: Array, codes: NDArray[np.intp], prior: KernelPrior) -> Sampler:
    """The chain for labelled rows; inputs (n, d), codes (n,) in {0, 1}."""
    regions = probit.regions(codes)
    return regions_sampler(inputs, regions, prior, lambda rng, theta: start(rng, regions))


def start(rng: np.random.Generator, regions: Regions) -> Array:
    """z drawn in its regions as if f were zero."""
    return sample_regions(rng, regions, np.zeros(len(regions.lower)), 1.0)


def regions_sampler(
    inputs: Array,
    regions: Regions,
    prior: KernelPrior,
    start_auxiliary: Callable[[np.random.Generator, Array], Array],
    extra_record: Callable[[AuxiliaryState], dict[str, Any]] = lambda state: {},
) -> Sampler:
    """The chain under any regions; θ starts at a prior draw, z where `start_auxiliary` says."""
    gram_at = gram_function(prior, inputs)

    def init(rng: np.random.Generator) -> AuxiliaryState:
        log_parameters = prior.mean + prior.sd * rng.standard_normal(len(prior.mean))
        z = start_auxiliary(rng, log_parameters)
        return auxiliary_gibbs.init(z, log_parameters, gram_at)

    def sweep(rng: np.random.Generator, state: AuxiliaryState, adapt: bool) -> AuxiliaryState:
        return auxiliary_gibbs.sweep(rng, state, regions, gram_at, prior)

    def record(rng: np.random.Generator, state: AuxiliaryState) -> dict[str, Any]:
        f, jitter = auxiliary_gibbs.sample_latent(rng, state, gram_at)
        return {
            "log_likelihood": log_region_probability(regions, f, 1.0).sum(),
            "log_parameters": state.log_parameters,
            "latent": f,
            "jitter": jitter,
            "weights": state.precision @ state.auxiliary,
            **extra_record(state),
        }

    return Sampler(init, sweep, record)


# Prediction ---------------------------------------------------------------------------------------


def latent_moments(posterior: LatentPosterior, X: Array) -> Iterator[tuple[Array, Array]]:
    """Mean and variance of f(x) at every row of X, one draw of the posterior at a time.

    f(x) | z, θ is Gaussian: mean k_xᵀ V^{-1} z, variance k(x, x) − k_xᵀ V^{-1} k_x. No f need be
    drawn. X (m, d) -> pairs of (m,).
    """
    prior, inputs = posterior.prior, posterior.inputs
    gram_at = gram_function(prior, inputs)
    for theta, weights in zip(posterior.log_parameters, posterior.weights):
        lower = jittered_cholesky(gram_at(theta) + np.eye(len(inputs))).lower
        yield conditional_moments(prior, theta, inputs, lower, weights, X)


def predict_latent(posterior: LatentPosterior, X: Array) -> tuple[Array, Array]:
    """Mean and variance of f(x) over the whole posterior; X (m, d) -> (m,) each."""
    return mixture_moments(latent_moments(posterior, X))


def predict_log_proba(
    posterior: LatentPosterior,
    X: Array,
    log_class_probabilities: Callable[[Array, Array], Array] = probit.log_class_probabilities,
) -> Array:
    """log P(y = k | x, data), averaged over draws and then normalised; X (m, d) -> (m, 2)."""
    total = np.full((len(X), 2), -np.inf)
    for mean, variance in latent_moments(posterior, X):
        total = np.logaddexp(total, log_class_probabilities(mean, variance))
    return total - logsumexp(total, axis=1, keepdims=True)
