"""Prediction (equation 6, section 3.5): averages over states of the chain, and fantasies.

Given one state, with functions known at data and rejections, the functions at a new row are
Gaussian. A state stands for one draw from the posterior of equation 7, rejections and all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.densities import Density, Gaussian, NormalInverseWishart
from atoll.core.linalg import solve_lower
from atoll.inference.chains import Record
from atoll.kernels.conditioning import CHUNK_ENTRIES, conditional_moments, sample_conditional
from atoll.kernels.hyperparameters import KernelPrior
from atoll.likelihoods.softmax import N_POINTS, symmetric_points
from atoll.models.archipelago.functions import (
    KnownFunctions,
    Setting,
    gram_at_rows,
    kernels_at,
    mixed,
    mixing_matrix,
    served_by,
)
from atoll.models.archipelago.likelihood import (
    UNLABELLED,
    class_probabilities,
    inverse_norm,
    kept,
    log_density,
    sample,
)
from atoll.models.archipelago.process import Run, TooManyRejections, run_forward
from atoll.models.belief import doubted
from atoll.models.posterior import chosen_states, class_by_class

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

AT_ONCE, MOST_PROPOSED = 2048, 10**6  # proposals of fantasies that come one by one


class ArchipelagoPosterior(NamedTuple):
    """S states of the chain, as much of them as predictions need.

    inputs, prior, base : of the setting
    n_classes : K
    chains : (S,) the chain each came from
    n_rejections : (S,) M
    rejections : (S, most M, ...), filled up
    whitened : (S, n + most M, K), filled up
    log_parameters : (S, F·p), kernel by kernel
    mixing : (S, q)
    base_means, base_lowers : (S, d), (S, d, d) where π is sampled
    log_weights : (S,) of the states, normalised
    doubt : (K,) what class probabilities leave to each class whatever the islands say, (1 − b) π of
        `belief`; or nothing
    """

    inputs: Any
    prior: KernelPrior
    base: Density | NormalInverseWishart
    n_classes: int
    chains: Codes
    n_rejections: Codes
    rejections: Any
    whitened: Array
    log_parameters: Array
    mixing: Array
    base_means: Array
    base_lowers: Array
    log_weights: Array
    doubt: Array | float = 0.0

    def weighted(self, chain_weights: Array) -> ArchipelagoPosterior:
        """Return the same states, those of each chain with its weight in all; (chains,)."""
        counts = np.bincount(self.chains, minlength=len(chain_weights))
        weights = (chain_weights / np.maximum(counts, 1))[self.chains]
        with np.errstate(divide="ignore"):
            return self._replace(log_weights=np.log(weights / weights.sum()))

    def log_proba(self, X: Any) -> Array:
        """Return log P(class k | x, data), equation 6 with doubt; X (m, d) -> (m, K).

        For each state the softmax, equation 1, is averaged over the functions' conditional.
        """
        proba = np.zeros((len(X), self.n_classes))
        for weight, shares in zip(self._weights(), _averages(self, X, class_probabilities)):
            proba += weight * shares  # the integral of equation 6 as a sum over states
        with np.errstate(divide="ignore"):  # past 1e-308 a probability is zero
            return np.log(doubted(proba / proba.sum(axis=1, keepdims=True), self.doubt))

    def rejection(self, X: Any) -> Array:
        """Return the probability that a proposal at x is rejected, 1/(1 + Λ); X (m, d) -> (m,)."""
        accepted = np.zeros(len(X))
        for weight, p_kept in zip(self._weights(), _averages(self, X, kept)):
            accepted += weight * p_kept
        return np.clip(1.0 - accepted, 0.0, 1.0)

    def log_density(self, X: Any) -> Array:
        """Return log p(x | data), the average of equation 2 over states; X (m, d) -> (m,).

        One state's (n + M)/n stands for 1/Z: the average over states is normalised, though no
        single one is.
        """
        log_p = np.full(len(X), -np.inf)
        for s, p_kept in enumerate(_averages(self, X, kept)):
            of_state = inverse_norm(len(self.inputs), int(self.n_rejections[s]))
            if self.log_weights[s] > -np.inf:
                at_rows = log_density(p_kept, self._base(s).log_density(X), of_state)
                log_p = np.logaddexp(log_p, at_rows + self.log_weights[s])
        return log_p

    def latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance of the K functions g; X (m, d) -> (m, K) each."""
        shape = (len(X), self.n_classes)
        first, second = np.zeros(shape), np.zeros(shape)
        for s, weight in enumerate(self._weights()):
            known = self._functions(s)
            mean, variance = _moments(self.prior, known, X)
            A = mixing_matrix(known.mixing, self.n_classes)
            g = mean @ A.T
            first += weight * g
            second += weight * (variance @ (A**2).T + g**2)
        return first, np.maximum(second - np.square(first), 0.0)

    def draws(self, X: Any, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities, with doubt; X (m, d) -> (n, m, K).

        A draw's functions come from one state, jointly at all rows given data and rejections.
        """
        states = chosen_states(rng, n, self._weights())
        found = [
            class_probabilities(_sample_latent(rng, self.prior, self._functions(int(s)), X, count))
            for s, count in zip(*np.unique(states, return_counts=True), strict=True)
        ]
        return doubted(np.concatenate(found), self.doubt)

    def sample(
        self, rng: np.random.Generator, n: int, codes: Codes | None = None
    ) -> tuple[Any, Codes]:
        """Return n fantasies and their classes, section 3.5.

        Each comes from a state of the posterior, from which the process runs forward until it
        accepts a row, or a row of the class asked for. Where so few proposals are accepted that
        such a run cannot be held, fantasies come one by one, each by functions of its own: alone,
        each has the same distribution.

        Parameters
        ----------
        codes : (n,) the classes of the rows, optional
        """
        if codes is None:
            return self._fantasies(rng, n, None)
        return class_by_class(codes, lambda k, m: self._fantasies(rng, m, k)[0]), codes

    def _fantasies(self, rng: np.random.Generator, n: int, label: int | None) -> tuple[Any, Codes]:
        """Return n fantasies of one class, or of any, and their classes."""
        weights = self._weights()
        wanted = rng.multinomial(n, weights / weights.sum())
        rows, outcomes = [], []
        for s in np.flatnonzero(wanted).tolist():
            run, known = Run(int(wanted[s]), label=label), self._functions(s)
            try:
                history = run_forward(rng, self._setting(), known, self._base(s), run)
                accepted = run.counts(history.outcomes)
                of_state = history.rows[accepted], history.outcomes[accepted]
            except TooManyRejections:
                of_state = _one_by_one(rng, self.prior, known, self._base(s), run)
            rows.append(of_state[0])
            outcomes.append(of_state[1])
        order = rng.permutation(n)
        return np.concatenate(rows)[order], np.concatenate(outcomes)[order]

    def _weights(self) -> Array:
        return np.exp(self.log_weights)

    def _setting(self) -> Setting:
        """Return the data and the prior, as far as predictions need them."""
        unlabelled = np.full(len(self.inputs), UNLABELLED)
        return Setting(self.inputs, unlabelled, self.n_classes, self.prior, self.base)

    def _functions(self, s: int) -> KnownFunctions:
        """Return what state s knows of the functions, its factors found again."""
        m, p = int(self.n_rejections[s]), len(self.prior.mean)
        rows = np.concatenate([self.inputs, self.rejections[s][:m]])
        theta = self.log_parameters[s].reshape(-1 if p > 0 else 1, p)
        return KnownFunctions(
            rows=rows,
            whitened=self.whitened[s][: len(rows)],
            factors=kernels_at(gram_at_rows(self._setting(), rows), theta).factors,
            log_parameters=theta,
            mixing=self.mixing[s],
        )

    def _base(self, s: int) -> Density:
        """Return π in state s."""
        if isinstance(self.base, NormalInverseWishart):
            return Gaussian(self.base_means[s], self.base_lowers[s])
        return self.base


def make_posterior(setting: Setting, draws: Record) -> ArchipelagoPosterior:
    """Return the posterior of pooled draws, (S, ...), all of one weight."""
    n_draws = len(draws["n_rejections"])
    return ArchipelagoPosterior(
        inputs=setting.inputs,
        prior=setting.prior,
        base=setting.base,
        n_classes=setting.n_classes,
        chains=draws["chain"],
        n_rejections=draws["n_rejections"],
        rejections=draws["rejections"],
        whitened=draws["whitened"],
        log_parameters=draws["log_parameters"],
        mixing=draws["mixing"],
        base_means=draws["base_mean"],
        base_lowers=draws["base_lower"],
        log_weights=np.full(n_draws, -np.log(n_draws)),
    )


# The functions at new rows, given one state -------------------------------------------------------


def _averages(
    posterior: ArchipelagoPosterior, X: Any, of_latent: Callable[[Array], Array]
) -> Iterator[Array]:
    """Yield, for one state at a time, the average of a function of g(x) over g's conditional.

    Parameters
    ----------
    of_latent : (..., K) g -> (...) or (..., K)

    Yields
    ------
    (m,) or (m, K)
    """
    m, K, S = len(X), posterior.n_classes, len(posterior.n_rejections)
    n_points = N_POINTS if S < 64 else N_POINTS // 4  # many states need few points each
    chunk = max(1, CHUNK_ENTRIES // (n_points * K * (K + 1)))
    for s in range(S):
        known = posterior._functions(s)
        mean, variance = _moments(posterior.prior, known, X)
        points, sd = symmetric_points(K, s, n_points), np.sqrt(variance)
        averages = []
        for first in range(0, max(m, 1), chunk):
            part = slice(first, first + chunk)
            u = mean[part, None, :] + sd[part, None, :] * points
            averages.append(of_latent(mixed(u, known.A)).mean(axis=1))
        yield np.concatenate(averages)


def _moments(prior: KernelPrior, known: KnownFunctions, X: Any) -> tuple[Array, Array]:
    """Return mean and variance of u(x) given what is known; X (m, d) -> (m, K) each."""
    means, variances = [], []
    for of_kernel in _by_kernel(prior, known):
        mean, variance = conditional_moments(*of_kernel, X)
        means.append(mean)
        variances.append(np.broadcast_to(variance[:, None], mean.shape))
    return np.concatenate(means, axis=1), np.concatenate(variances, axis=1)


def _one_by_one(
    rng: np.random.Generator, prior: KernelPrior, known: KnownFunctions, base: Density, run: Run
) -> tuple[Any, Codes]:
    """Return accepted rows and their classes, the functions at each drawn without the others.

    Raises
    ------
    TooManyRejections
        Past `MOST_PROPOSED`.
    """
    rows, outcomes, n_accepted = [], [], 0
    for _ in range(MOST_PROPOSED // AT_ONCE):
        proposed = base.sample(rng, AT_ONCE)
        mean, variance = _moments(prior, known, proposed)
        u = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
        decided = sample(rng, mixed(u, known.A))
        accepted = run.counts(decided)
        rows.append(proposed[accepted])
        outcomes.append(decided[accepted])
        n_accepted += int(np.count_nonzero(accepted))
        if n_accepted >= run.n_accepted:
            first = slice(run.n_accepted)
            return np.concatenate(rows)[first], np.concatenate(outcomes)[first]
    wanted = "row" if run.label is None else "row of that class"
    raise TooManyRejections(
        f"of {MOST_PROPOSED} rows proposed by the base density the model accepted {n_accepted} as "
        f"a {wanted}, where {run.n_accepted} are wanted: the base density reaches far beyond the "
        'data. Use one nearer to them (base_density="mixture").'
    )


def _sample_latent(
    rng: np.random.Generator, prior: KernelPrior, known: KnownFunctions, X: Any, n: int
) -> Array:
    """Draw g jointly at all rows given what is known; X (m, d) -> (n, m, K)."""
    u = [sample_conditional(rng, *of_kernel, X, n) for of_kernel in _by_kernel(prior, known)]
    return mixed(np.concatenate(u, axis=2), known.A)


def _by_kernel(
    prior: KernelPrior, known: KnownFunctions
) -> Iterator[tuple[KernelPrior, Array, Any, Array, Array]]:
    """Yield, for one kernel at a time, what `kernels.conditioning` asks: weights are L^{-T} ν."""
    for f, (theta, lower) in enumerate(zip(known.log_parameters, known.factors, strict=True)):
        noise = known.whitened[:, served_by(f, len(known.factors))]
        yield prior, theta, known.rows, lower, solve_lower(lower, noise, transposed=True)
