"""The posterior at the labelled rows, and what it says of any others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from atoll.core.linalg import jittered_cholesky, solve_lower
from atoll.core.memory import in_chunks
from atoll.core.rows import distinct_rows
from atoll.inference import cone_sampling
from atoll.inference.chains import Sampler, run_chains
from atoll.kernels.conditioning import UNKNOWN, sample_jointly
from atoll.kernels.graph_warped import GraphWarpedKernel
from atoll.likelihoods import multinomial_probit, probit
from atoll.models import probit_gp
from atoll.models.belief import doubted, log_doubted
from atoll.models.posterior import chosen_states
from atoll.models.ssgp.evidence import Fit, Labels
from atoll.models.ssgp.process import Problem

Array = NDArray[np.float64]
States = NDArray[np.intp]

N_CHAINS = 4


class Component(NamedTuple):
    """A posterior at one value of the parameters, in units of the noise.

    kernel : K̃
    scale : what multiplies it
    weights : (S, l, F) draws of V^{-1} z, of F functions; S = 1 where it is a mean
    whitener : (l, l) H, with k(x, x) − ‖H k_x‖² the variance given a draw
    log_weight : of the component in the average
    """

    kernel: GraphWarpedKernel
    scale: float
    weights: Array
    whitener: Array
    log_weight: float

    def moments(self, inputs: Array, X: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield parts of X with means (S, m, F) and variances (m,) of f there.

        Parameters
        ----------
        inputs : (l, d) labelled rows
        """
        kernel, scale = self.kernel, self.scale
        of_inputs = kernel.explained(inputs)
        for part in in_chunks(len(X), of_inputs.shape[0]):
            of_X = kernel.explained(X[part])
            cross = scale * (kernel.base(inputs, X[part]) - of_inputs.T @ of_X)
            prior = scale * (kernel.base.diag(X[part]) - np.einsum("ij,ij->j", of_X, of_X))
            known = self.whitener @ cross
            variance = np.maximum(prior - np.einsum("ij,ij->j", known, known), 0.0)
            yield part, np.einsum("im,sif->smf", cross, self.weights), variance

    def sample(self, rng: np.random.Generator, inputs: Array, X: Array, states: States) -> Array:
        """Draw f at all rows of X jointly, once for each of some draws of z; -> (n, m, F).

        Equal rows have equal values.

        Parameters
        ----------
        inputs : (l, d) labelled rows
        states : (n,) which of the S draws
        """
        rows, place = distinct_rows(X)
        cross = self.scale * self.kernel(inputs, rows)
        covariance = self.scale * self.kernel(rows)
        least = UNKNOWN * float(np.diagonal(covariance).mean())
        known = self.whitener @ cross
        covariance -= known.T @ known
        mean = np.einsum("im,sif->smf", cross, self.weights[states])
        apart = sample_jointly(rng, np.zeros(mean.shape[1:]), covariance, least, len(states))
        return (mean + apart)[:, place]


class SSGPPosterior(NamedTuple):
    """What prediction needs.

    inputs : (l, d) labelled rows
    components : one, or several where parameters are averaged over
    noise : σ_n, the unit of the functions
    doubt : (K,) of the classes: what `belief` has taken from the functions' word; or nothing
    """

    inputs: Array
    components: tuple[Component, ...]
    noise: float
    doubt: Array | float = 0.0

    def log_proba(self, X: Array) -> Array:
        """Return log P(y = k | x, data), averaged over draws and components; (m, d) -> (m, K)."""
        total: Array | None = None
        for component in self.components:
            share = component.log_weight - np.log(len(component.weights))
            pieces = []
            for _, means, variance in component.moments(self.inputs, X):
                each = [log_class_probabilities(mean, variance) for mean in means]
                pieces.append(share + logsumexp(each, axis=0))
            log_p = np.concatenate(pieces)
            total = log_p if total is None else np.logaddexp(total, log_p)
        assert total is not None  # a posterior has a component
        return log_doubted(total - logsumexp(total, axis=1, keepdims=True), self.doubt)

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of the functions; (m, d) -> (m, F) each."""
        shares = np.exp([c.log_weight for c in self.components])
        F = self.components[0].weights.shape[2]
        mean, second = np.zeros((len(X), F)), np.zeros((len(X), F))
        for share, component in zip(shares / shares.sum(), self.components):
            for part, means, variance in component.moments(self.inputs, X):
                mean[part] += share * means.mean(axis=0)
                second[part] += share * (variance[:, None] + np.square(means).mean(axis=0))
        unit = self.noise
        return unit * mean, unit**2 * np.maximum(second - np.square(mean), 0.0)

    def draws(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; (m, d) -> (n, m, K).

        A component, and one of its draws of z, is chosen by its weight; given these the functions
        at all rows are drawn jointly from K̃'s posterior. The rows' covariance is held whole.
        """
        sizes = [len(component.weights) for component in self.components]
        log_weights = np.array([component.log_weight for component in self.components])
        weights = np.repeat(np.exp(log_weights - log_weights.max()) / sizes, sizes)
        chosen = chosen_states(rng, n, weights)
        parts = []
        for component, end, size in zip(self.components, np.cumsum(sizes), sizes):
            states = chosen[(chosen >= end - size) & (chosen < end)] - (end - size)
            if len(states):
                f = component.sample(rng, self.inputs, X, states)
                parts.append(doubted(_probabilities(f), self.doubt))
        return np.concatenate(parts)


def log_class_probabilities(mean: Array, variance: Array) -> Array:
    """Return log P(y = k) given moments of F functions; (m, F) and (m,) -> (m, K)."""
    if mean.shape[1] == 1:
        return probit.log_class_probabilities(mean[:, 0], variance)
    return multinomial_probit.log_class_probabilities(mean, variance)


def _probabilities(latent: Array) -> Array:
    """Return the class probabilities given the functions; (n, m, F) -> (n, m, K)."""
    n, m, F = latent.shape
    if F == 1:
        return np.exp(probit.log_class_probabilities(latent[..., 0], np.zeros((n, m))))
    p = multinomial_probit.class_probabilities(latent.reshape(n * m, F), np.zeros(n * m))
    return p.reshape(n, m, F)


def propagated_component(
    problem: Problem, fit: Fit, labels: Labels, log_weight: float = 0.0
) -> Component:
    """Return expectation propagation's Gaussian, for two classes."""
    root = np.sqrt(fit.propagation.sites.precision)
    lower = jittered_cholesky(np.eye(len(root)) + root[:, None] * fit.gram * root).lower
    return Component(
        problem.warped_kernel_at(fit.log_parameters),
        fit.scale,
        fit.propagation.weights[None, :, None],
        solve_lower(lower, np.diag(root)),
        log_weight,
    )


def left_out(fit: Fit, labels: Labels) -> Array:
    """Return log class probabilities of every labelled row by all others, (l, K)."""
    if labels.n_classes == 2:
        found = fit.propagation
        return probit.log_class_probabilities(found.cavity_mean, found.cavity_variance)
    regions = multinomial_probit.regions(labels.codes, labels.n_classes)
    likelihood = multinomial_probit.MultinomialProbit()
    return probit_gp.left_out(fit.gram, regions, likelihood, np.zeros(0))


def constraints(labels: Labels) -> Callable[[Array], Array]:
    """Return z (l, F) -> what the labels say is positive: y z for two classes, else z_y − z_k."""
    y, l = labels.codes, len(labels.codes)  # noqa: E741
    if labels.n_classes == 2:
        direction = np.where(y == 1, 1.0, -1.0)
        return lambda z: direction * z[:, 0]
    own = np.zeros((l, labels.n_classes), dtype=bool)
    own[np.arange(l), y] = True
    return lambda z: (z[own][:, None] - z[~own].reshape(l, -1)).ravel()


class Lengths(NamedTuple):
    """How long to sample: n_chains, draws n_warmup to drop and n_samples to keep of each chain.

    thin : steps of a draw; None: a tenth of the number of constraints, at least five, since the
        arc of a step shrinks as they grow
    """

    n_warmup: int = 60
    n_samples: int = 250
    n_chains: int = N_CHAINS
    thin: int | None = None


DEFAULT = Lengths()


def sample_auxiliary(
    rng: np.random.Generator, fit: Fit, labels: Labels, lengths: Lengths = DEFAULT, **running: Any
) -> tuple[Array, Array, bool]:
    """Draw z, f integrated out, by chains that start at prior draws made to agree with the labels.

    Parameters
    ----------
    running : n_jobs, progress, checkpoint and fingerprint, as in `run_chains`

    Returns
    -------
    draws : (chains, draws, l, F)
    lower : (l, l) factor of V = C + I
    interrupted : whether Ctrl-C cut the chains short
    """
    thin = lengths.thin or max(5, len(labels.codes) * (labels.n_classes - 1) // 10)
    lower = jittered_cholesky(fit.gram + np.eye(len(fit.gram))).lower
    positive = constraints(labels)
    sampler = Sampler(
        init=lambda rng: cone_sampling.inside(_prior_draw(rng, lower, labels), positive),
        sweep=lambda rng, here, adapt: cone_sampling.step(rng, lower, positive, here),
        record=lambda rng, here: {"z": here.z},
    )
    found = run_chains(
        sampler,
        n_chains=lengths.n_chains,
        n_warmup=lengths.n_warmup * thin,
        n_samples=lengths.n_samples,
        thin=thin,
        rng=rng,
        **running,
    )
    return found.draws["z"], lower, found.interrupted


def _prior_draw(rng: np.random.Generator, lower: Array, labels: Labels) -> Array:
    """Return a draw of z (l, F) from the prior, its signs or places made those of the labels."""
    F = 1 if labels.n_classes == 2 else labels.n_classes
    z = lower @ rng.standard_normal((len(lower), F))
    if F == 1:
        return np.abs(z) * np.where(labels.codes == 1, 1.0, -1.0)[:, None]
    # The largest goes to the class of the label.
    row, top = np.arange(len(z)), np.argmax(z, axis=1)
    z[row, top], z[row, labels.codes] = z[row, labels.codes], z[row, top]
    return z


def sampled_component(
    problem: Problem, fit: Fit, draws: Array, lower: Array, log_weight: float = 0.0
) -> Component:
    """Return the component of draws (S, l, F) of z."""
    S, l, F = draws.shape  # noqa: E741
    flat = draws.transpose(1, 0, 2).reshape(l, S * F)
    solved = solve_lower(lower, solve_lower(lower, flat), transposed=True)
    return Component(
        problem.warped_kernel_at(fit.log_parameters),
        fit.scale,
        solved.reshape(l, S, F).transpose(1, 0, 2),
        solve_lower(lower, np.eye(l)),
        log_weight,
    )
