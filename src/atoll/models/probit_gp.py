"""The probit Gaussian process of paper 004 (Rogers 2014), by its auxiliary variables.

prior: a kernel C(θ), log θ normal. likelihood: probit. inference: auxiliary-variable Gibbs,
variational Bayes, or expectation propagation.

    two classes     f ~ N(0, C(θ))      z_n ~ N(f_n, 1)         y_n = 1 where z_n > 0
    K classes       f_k ~ N(0, C(θ))    z_nk ~ N(f_nk, 1)       y_n = argmax_k z_nk

The ordinal model and the null category (`ordinal_gp.py`, `null_category.py`) differ in the regions
of z alone and share what is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from atoll.core.linalg import cholesky_solve, jittered_cholesky
from atoll.core.regions import RegionFamily, Regions, fixed_regions
from atoll.inference import auxiliary_gibbs, ep, vb
from atoll.inference.auxiliary_gibbs import AuxiliaryState
from atoll.inference.chains import Record, Sampler
from atoll.inference.type_two import Approximation, Report
from atoll.kernels.conditioning import (
    conditional_moments,
    mixture_moments,
    sample_conditional,
)
from atoll.kernels.hyperparameters import KernelPrior, gram_function, gram_gradient_function
from atoll.likelihoods import RegionLikelihood, multinomial_probit, probit
from atoll.models.belief import doubted, log_doubted
from atoll.models.posterior import chosen_states

Array = NDArray[np.float64]


class LatentPosterior(NamedTuple):
    """Draws of functions known through z = f + ε; predicts without its model.

    prior : the kernel
    inputs : (n, d) rows at which z is known
    log_parameters : (S, p) θ
    weights : (S, n) or (S, n, K), V^{-1} z
    region_parameters : (S, q) φ
    likelihood : what class probabilities follow from the functions and φ
    auxiliary_variance : (S, n) of z; None where z was drawn
    noise_variance : (S, n) of z given f; None for the model's own, which is one
    doubt : (K,) of the classes: what `belief` has taken from the functions' word; or nothing
    """

    prior: KernelPrior
    inputs: Array
    log_parameters: Array
    weights: Array
    region_parameters: Array
    likelihood: RegionLikelihood
    auxiliary_variance: Array | None = None
    noise_variance: Array | None = None
    doubt: Array | float = 0.0

    def log_proba(self, X: Array) -> Array:
        """Return log P(y = k | x, data), averaged over draws, then normalised; (m, d) -> (m, K)."""
        total: Array | None = None
        for (mean, variance), phi in zip(self.moments(X), self.region_parameters):
            log_p = self.likelihood.log_class_probabilities(mean, variance, phi)
            total = log_p if total is None else np.logaddexp(total, log_p)
        assert total is not None  # a posterior has a draw
        return log_doubted(_normalised(total), self.doubt)

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of the functions; X (m, d) -> (m, F) each."""

        def by_function() -> Iterator[tuple[Array, Array]]:
            for mean, variance in self.moments(X):
                columns = mean.reshape(len(X), -1)
                yield columns, np.broadcast_to(variance[:, None], columns.shape)

        return mixture_moments(by_function())

    def draws(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; X (m, d) -> (n, m, K).

        With a null region a draw is normalised by itself. `log_proba` normalises after it has
        averaged, which weighs a draw by its chance that the row is not null: the mean of the draws
        is then near `exp(log_proba(X))`, and not the same.
        """
        S = len(self.log_parameters)
        states, counts = np.unique(chosen_states(rng, n, np.full(S, 1 / S)), return_counts=True)
        gram_at, parts = gram_function(self.prior, self.inputs), []
        for s, count in zip(states, counts):
            f = self._sample_functions(rng, s, X, count, gram_at)
            no_variance = np.zeros(f.shape[:2])
            phi = self.region_parameters[s]
            log_p = self.likelihood.log_class_probabilities(f, no_variance, phi)
            parts.append(doubted(np.exp(_normalised(log_p)), self.doubt))
        return np.concatenate(parts)

    def moments(self, X: Array) -> Iterator[tuple[Array, Array]]:
        """Yield mean and variance of f(x) at every row of X, draw by draw of the posterior.

        f(x) | z, θ is Gaussian: mean k_xᵀ V^{-1} z, variance k(x, x) − k_xᵀ V^{-1} k_x, the same
        for all functions. No f need be drawn. Where z itself has a variance, as in variational
        Bayes, f has that of k_xᵀ V^{-1} z besides. X (m, d) -> pairs of (m,) or (m, K), and (m,).
        """
        gram_at, of_z = gram_function(self.prior, self.inputs), self.auxiliary_variance
        for s, (theta, weights) in enumerate(zip(self.log_parameters, self.weights)):
            yield conditional_moments(
                self.prior,
                theta,
                self.inputs,
                self._factor(s, gram_at),
                weights,
                X,
                known_variance=None if of_z is None else of_z[s],
            )

    def _factor(self, s: int, gram_at: Callable[[Array], Array]) -> Array:
        """Return the lower factor of V, the covariance of z, in draw s."""
        V = gram_at(self.log_parameters[s])
        V[np.diag_indices_from(V)] += 1.0 if self.noise_variance is None else self.noise_variance[s]
        return jittered_cholesky(V).lower

    def _sample_functions(
        self,
        rng: np.random.Generator,
        s: int,
        X: Array,
        n: int,
        gram_at: Callable[[Array], Array],
    ) -> Array:
        """Draw f at the rows of X, jointly, n times given draw s; -> (n, m) or (n, m, K)."""
        lower, weights = self._factor(s, gram_at), self.weights[s]
        given = (self.prior, self.log_parameters[s], self.inputs, lower)
        if self.auxiliary_variance is None:
            return sample_conditional(rng, *given, weights, X, n)
        # Every draw has a z of its own: so many functions that share their covariance.
        shape = (len(weights), n, *weights.shape[1:])
        noise = rng.standard_normal(shape).reshape(len(weights), -1)
        noise *= np.sqrt(self.auxiliary_variance[s])[:, None]
        of_draws = weights[:, None] + cholesky_solve(lower, noise).reshape(shape)
        (f,) = sample_conditional(rng, *given, of_draws.reshape(len(weights), -1), X, 1)
        return np.moveaxis(f.reshape(len(X), *shape[1:]), 1, 0)


def _normalised(log_probabilities: Array) -> Array:
    return log_probabilities - logsumexp(log_probabilities, axis=-1, keepdims=True)


# The generative process ---------------------------------------------------------------------------


def sample_function(
    rng: np.random.Generator, inputs: Array, prior: KernelPrior, n_classes: int = 2
) -> tuple[Array, Array]:
    """Draw θ and f from the prior; inputs (n, d) -> (p,), and (n,) or for K > 2 (n, K)."""
    log_parameters = prior.mean + prior.sd * rng.standard_normal(len(prior.mean))
    lower = jittered_cholesky(gram_function(prior, inputs)(log_parameters)).lower
    shape = (len(inputs),) if n_classes == 2 else (len(inputs), n_classes)
    return log_parameters, lower @ rng.standard_normal(shape)


def sample_prior(
    rng: np.random.Generator, inputs: Array, prior: KernelPrior, n_classes: int = 2
) -> tuple[Array, Array, NDArray[np.intp]]:
    """Draw θ, f and y from the prior, as the lecture's note 2 does; inputs (n, d)."""
    log_parameters, f = sample_function(rng, inputs, prior, n_classes)
    draw_labels = probit.sample if n_classes == 2 else multinomial_probit.sample
    return log_parameters, f, draw_labels(rng, f)


# Inference ----------------------------------------------------------------------------------------


def family(codes: NDArray[np.intp], n_classes: int) -> RegionFamily:
    """Return what the labels say of z; codes (n,) in 0..K−1."""
    if n_classes == 2:
        return fixed_regions(probit.regions(codes))
    return fixed_regions(multinomial_probit.regions(codes, n_classes))


def likelihood(n_classes: int) -> RegionLikelihood:
    """Return the probit of one function for two classes, of one per class for more."""
    return probit.Probit() if n_classes == 2 else multinomial_probit.MultinomialProbit()


def sampler(
    inputs: Array, codes: NDArray[np.intp], prior: KernelPrior, n_classes: int = 2
) -> Sampler:
    """Return the chain for labelled rows; inputs (n, d), codes (n,) in 0..K−1."""
    return regions_sampler(inputs, family(codes, n_classes), prior)


def variational(
    inputs: Array,
    codes: NDArray[np.intp],
    prior: KernelPrior,
    n_classes: int = 2,
    report: Report | None = None,
) -> Approximation:
    """Return the posterior of labelled rows by variational Bayes; parameters as of `sampler`."""
    return approximate(vb.maximise, inputs, family(codes, n_classes), prior, report)


def regions_sampler(
    inputs: Array,
    regions: RegionFamily,
    prior: KernelPrior,
    start: Callable[[np.random.Generator, Array, Array], Array] | None = None,
    extra_record: Callable[[AuxiliaryState], dict[str, Any]] = lambda state: {},
) -> Sampler:
    """Return the chain under any regions.

    θ and φ start at prior draws, z where `start` (rng, θ, φ -> z) says, or else anywhere in its
    regions, as if f were zero.
    """
    gram_at = gram_function(prior, inputs)

    def init(rng: np.random.Generator) -> AuxiliaryState:
        theta = prior.mean + prior.sd * rng.standard_normal(len(prior.mean))
        phi = regions.mean + regions.sd * rng.standard_normal(len(regions.mean))
        at_phi = regions.at(phi).regions
        z = start(rng, theta, phi) if start else at_phi.sample(rng, at_phi.zeros(), 1.0)
        return auxiliary_gibbs.init(z, theta, phi, gram_at)

    def sweep(rng: np.random.Generator, state: AuxiliaryState, adapt: bool) -> AuxiliaryState:
        return auxiliary_gibbs.sweep(rng, state, regions, gram_at, prior, adapt)

    def record(rng: np.random.Generator, state: AuxiliaryState) -> dict[str, Any]:
        return {
            "log_likelihood": regions.at(state.region_parameters).total(state.latent),
            "log_parameters": state.log_parameters,
            "region_parameters": state.region_parameters,
            **dict(zip(regions.names, state.region_parameters)),
            "latent": state.latent,
            "jitter": state.jitter,
            "weights": cholesky_solve(state.noisy_factor, state.auxiliary),
            **extra_record(state),
        }

    return Sampler(init, sweep, record)


def approximate(
    maximise: Callable[..., Approximation],
    inputs: Array,
    regions: RegionFamily,
    prior: KernelPrior,
    report: Report | None = None,
    **options: Any,
) -> Approximation:
    """Return the approximate posterior under any regions.

    Parameters
    ----------
    maximise : of a method over regions, such as `ep.maximise`
    options : of that function
    """
    return maximise(
        gram_function(prior, inputs),
        gram_gradient_function(prior, inputs),
        prior,
        regions,
        report=report,
        **options,
    )


def left_out(
    gram_matrix: Array, regions: Regions, likelihood: RegionLikelihood, region_parameters: Array
) -> Array:
    """Return log class probabilities of every row by all others, (l, K), by their cavities.

    Parameters
    ----------
    gram_matrix : (l, l) of the labelled rows
    regions : theirs, at φ
    region_parameters : φ
    """
    zeros = regions.zeros()
    found = ep.propagate(gram_matrix, regions, ep.no_sites(len(zeros), zeros.size // len(zeros)))
    return _normalised(
        likelihood.log_class_probabilities(
            found.cavity_mean, found.cavity_variance, region_parameters
        )
    )


def sampled_posterior(
    draws: Record, inputs: Array, prior: KernelPrior, likelihood: RegionLikelihood
) -> LatentPosterior:
    """Return what prediction needs of draws that `regions_sampler` recorded, (S, …) each."""
    return LatentPosterior(
        prior,
        inputs,
        draws["log_parameters"],
        draws["weights"],
        draws["region_parameters"],
        likelihood,
    )


def approximate_posterior(
    result: Approximation, inputs: Array, prior: KernelPrior, likelihood: RegionLikelihood
) -> LatentPosterior:
    """Return what prediction needs of an approximation: one draw, at its best parameters."""
    of_z, noise = result.auxiliary_variance, result.noise_variance
    return LatentPosterior(
        prior,
        inputs,
        result.log_parameters[None],
        result.weights[None],
        result.region_parameters[None],
        likelihood,
        auxiliary_variance=None if of_z is None else of_z[None],
        noise_variance=None if noise is None else noise[None],
    )
