"""What the engine found, as plain NumPy arrays: it predicts without JAX.

A state is one q over the inducing values (of one start), or one draw of them (by HMC); the
functions at a new row are Gaussian given a state:

    mean a A(x)ᵀ μ_k,    variance a² (1 − |A(x)|² + |C_k A(x)|²),    cov(v_k) = C_kᵀ C_k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.densities import Density
from atoll.core.linalg import jittered_cholesky, solve_lower
from atoll.core.memory import in_chunks
from atoll.core.rows import distinct_rows
from atoll.kernels.conditioning import sample_jointly
from atoll.kernels.detailed import with_detail
from atoll.likelihoods.softmax import symmetric_points
from atoll.models.archipelago.likelihood import (
    REJECTED,
    class_probabilities,
    kept,
    log_density,
    sample,
)
from atoll.models.belief import doubted
from atoll.models.posterior import chosen_states, class_by_class

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

JITTER = 1e-4  # as in `sparse`, which needs JAX
CHUNK_ENTRIES = 2**21  # numbers of one array that are held at once
LEAST_VARIANCE = 1e-7  # of a whitened direction, below which it counts as known
FEW_POINTS, MANY_POINTS = 8, 32  # times K, of an average over the functions
MANY_STATES = 64  # that need few points each
DOUBT = 1e-3  # of a probability, from which on a row gets many points
MOST_PROPOSALS = 10**8  # for one call of `sample`


class Scaling(NamedTuple):
    """Rows on the scale that float32 likes: (x − shift)/scale.

    shift, scale : (d,)
    """

    shift: Array
    scale: Array

    def __call__(self, X: Any) -> Array:
        """Return scaled rows; what is far beyond all data stays finite."""
        return np.clip((np.asarray(X, dtype=np.float64) - self.shift) / self.scale, -1e6, 1e6)


class EnginePosterior(NamedTuple):
    """S states over m inducing values of K functions.

    scaling : of rows
    inducing : (m, d), scaled
    base : π, of rows in their own units
    log_parameters : (S, p), of scaled rows
    means : (S, K, m) μ
    factors : (S, K, r, m) C
    log_norms : (S,) log Z
    log_weights : (S,) of the states, normalised
    doubt : (K,) what class probabilities leave to each class whatever the islands say, (1 − b) π of
        `belief`; or nothing
    detail : w, the share of the kernel's shorter waves
    """

    scaling: Scaling
    inducing: Array
    base: Density
    log_parameters: Array
    means: Array
    factors: Array
    log_norms: Array
    log_weights: Array
    doubt: Array | float = 0.0
    detail: float = 0.0

    @property
    def n_classes(self) -> int:
        """K."""
        return self.means.shape[1]

    def log_proba(self, X: Any) -> Array:
        """Return log P(class k | x, data), equation 6 with doubt; X (m, d) -> (m, K)."""
        proba = np.zeros((len(X), self.n_classes))
        for weight, shares in zip(
            np.exp(self.log_weights), _averages(self, X, class_probabilities)
        ):
            proba += weight * shares
        with np.errstate(divide="ignore"):  # past 1e-308 a probability is zero
            return np.log(doubted(proba / proba.sum(axis=1, keepdims=True), self.doubt))

    def rejection(self, X: Any) -> Array:
        """Return the probability that a proposal at x is rejected, 1/(1 + Λ); X (m, d) -> (m,)."""
        accepted = np.zeros(len(X))
        for weight, p_kept in zip(np.exp(self.log_weights), _averages(self, X, kept)):
            accepted += weight * p_kept
        return np.clip(1.0 - accepted, 0.0, 1.0)

    def log_density(self, X: Any) -> Array:
        """Return log p(x | data), the average of equation 2 over states; X (m, d) -> (m,)."""
        log_p = np.full(len(X), -np.inf)
        log_base = np.asarray(self.base.log_density(np.asarray(X)))
        for s, p_kept in enumerate(_averages(self, X, kept)):
            if self.log_weights[s] > -np.inf:
                at_rows = log_density(p_kept, log_base, float(np.exp(-self.log_norms[s])))
                log_p = np.logaddexp(log_p, at_rows + self.log_weights[s])
        return log_p

    def latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance of the K functions g; X (m, d) -> (m, K) each."""
        first, second = np.zeros((2, len(X), self.n_classes))
        for s, weight in enumerate(np.exp(self.log_weights)):
            for part, mean, deviation in state_moments(self, s, X):
                first[part] += weight * mean
                second[part] += weight * (mean**2 + deviation**2)
        return first, np.maximum(second - np.square(first), 0.0)

    def draws(self, X: Any, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities, with doubt; X (m, d) -> (n, m, K)."""
        states = chosen_states(rng, n, np.exp(self.log_weights))
        found = [
            class_probabilities(_sample_latent(rng, self, int(s), X, int(count)))
            for s, count in zip(*np.unique(states, return_counts=True), strict=True)
        ]
        return doubted(np.concatenate(found), self.doubt)

    def sample(
        self, rng: np.random.Generator, n: int, codes: Codes | None = None
    ) -> tuple[Any, Codes]:
        """Return n fantasies and their classes, section 3.5, each with functions of its own.

        Parameters
        ----------
        codes : (n,) the classes of the rows, optional
        """
        if codes is None:
            return self._fantasies(rng, n, None)
        return class_by_class(codes, lambda k, m: self._fantasies(rng, m, k)[0]), codes

    def _fantasies(self, rng: np.random.Generator, n: int, label: int | None) -> tuple[Any, Codes]:
        """Return n fantasies of one class, or of any, and their classes."""
        weights = np.exp(self.log_weights)
        rows, outcomes = [], []
        for s, wanted in enumerate(rng.multinomial(n, weights / weights.sum()).tolist()):
            n_proposed = 0
            while wanted > 0:
                X, codes = _proposals(rng, self, s, wanted, label)
                n_proposed += max(1024, 4 * wanted)
                rows.append(X[:wanted])
                outcomes.append(codes[:wanted])
                wanted -= len(codes[:wanted])
                if n_proposed > MOST_PROPOSALS:
                    raise ValueError(
                        f"of {n_proposed} proposals {wanted} too few were kept as the class asked "
                        "for; ask for fewer rows, or for classes that have more room."
                    )
        order = rng.permutation(n)
        return np.concatenate(rows)[order], np.concatenate(outcomes)[order]


def covariance_factor(precision: Array) -> Array:
    """Return C with P^{-1} = Cᵀ C without the directions that are known; (m, m) -> (r, m)."""
    values, vectors = np.linalg.eigh(np.asarray(precision, dtype=np.float64))
    variances = 1.0 / np.maximum(values, 1e-6)
    used = variances > LEAST_VARIANCE
    return np.sqrt(variances[used])[:, None] * vectors[:, used].T


def stacked_factors(precisions: Array) -> Array:
    """Return C of all functions with as many rows each, filled up with zeros; -> (K, r, m)."""
    found = [covariance_factor(P) for P in precisions]
    r = max(len(C) for C in found)
    return np.stack([np.pad(C, ((0, r - len(C)), (0, 0))) for C in found])


# The functions at new rows, given one state -------------------------------------------------------


def squared_exponential(log_parameters: Array, first: Array, second: Array) -> Array:
    """Return e, the correlation without detail, of scaled rows; (p,), (n, d), (m, d) -> (n, m)."""
    scale = np.exp(-log_parameters[1:])
    x, y = first * scale, second * scale
    squares = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1) - 2.0 * x @ y.T
    return np.exp(-0.5 * np.maximum(squares, 0.0))


def correlation(
    log_parameters: Array, posterior: EnginePosterior, first: Array, second: Array
) -> Array:
    """Return c between scaled rows; (p,), (n, d), (m, d) -> (n, m)."""
    return with_detail(squared_exponential(log_parameters, first, second), posterior.detail)


def inverse_factor(log_parameters: Array, posterior: EnginePosterior) -> Array:
    """Return L^{-1}, (m, m)."""
    C = correlation(log_parameters, posterior, posterior.inducing, posterior.inducing)
    C[np.diag_indices_from(C)] += JITTER
    return solve_lower(jittered_cholesky(C).lower, np.eye(len(C)))


def state_moments(
    posterior: EnginePosterior, s: int, X: Any
) -> Iterator[tuple[slice, Array, Array]]:
    """Yield a part of the rows X (m, d), with mean and standard deviation of g there, (b, K)."""
    theta, (K, r, m) = posterior.log_parameters[s], posterior.factors[s].shape
    inverse, a = inverse_factor(theta, posterior), np.exp(0.5 * theta[0])
    C = posterior.factors[s].reshape(K * r, m).astype(np.float32)  # in half the time
    for part in in_chunks(len(X), max(K * r, m), most=CHUNK_ENTRIES):
        rows = posterior.scaling(X[part])
        A = inverse @ correlation(theta, posterior, posterior.inducing, rows)
        left = np.maximum(1.0 - np.einsum("ij,ij->j", A, A), 0.0)
        F = (C @ A.astype(np.float32)).reshape(K, r, A.shape[1])
        known = np.einsum("krb,krb->bk", F, F)
        yield part, a * (posterior.means[s] @ A).T, a * np.sqrt(left[:, None] + known)


def _averages(
    posterior: EnginePosterior, X: Any, of_latent: Callable[[Array], Array]
) -> Iterator[Array]:
    """Yield, for one state at a time, the average of a function of g(x) over its Gaussian.

    Few points are enough where they leave no doubt, and that is nearly everywhere; other rows get
    more. Many states need few points each.
    """
    K, S = posterior.n_classes, len(posterior.log_weights)
    for s in range(S):
        few = symmetric_points(K, s, FEW_POINTS)
        many = symmetric_points(K, s, MANY_POINTS) if S < MANY_STATES else few
        found = []
        for _, mean, deviation in state_moments(posterior, s, X):
            average = _average(mean, deviation, few, of_latent)
            top = average if average.ndim == 1 else average.max(axis=1)
            open_rows = np.flatnonzero((top > DOUBT) & (top < 1.0 - DOUBT))
            if len(open_rows) and many is not few:
                average[open_rows] = _average(
                    mean[open_rows], deviation[open_rows], many, of_latent
                )
            found.append(average)
        yield np.concatenate(found) if found else of_latent(np.zeros((0, K)))


def _average(
    mean: Array, deviation: Array, points: Array, of_latent: Callable[[Array], Array]
) -> Array:
    """Return the average of a function of g over points; (b, K) each -> (b,) or (b, K)."""
    return np.concatenate(
        [
            of_latent(mean[piece, None, :] + deviation[piece, None, :] * points).mean(axis=1)
            for piece in in_chunks(len(mean), points.size, most=CHUNK_ENTRIES // 16)
        ]
    )


def _sample_latent(
    rng: np.random.Generator, posterior: EnginePosterior, s: int, X: Any, n: int
) -> Array:
    """Draw g jointly at all rows; X (m, d) -> (n, m, K)."""
    rows, place = distinct_rows(posterior.scaling(X))
    theta, C = posterior.log_parameters[s], posterior.factors[s]
    across = correlation(theta, posterior, posterior.inducing, rows)
    A = inverse_factor(theta, posterior) @ across
    v = posterior.means[s] + np.einsum("krm,nkr->nkm", C, rng.standard_normal((n, *C.shape[:2])))
    left = correlation(theta, posterior, rows, rows) - A.T @ A
    rest = sample_jointly(rng, np.zeros((len(rows), C.shape[0])), left, 1e-10, n)
    return np.exp(0.5 * theta[0]) * (np.swapaxes(v @ A, 1, 2) + rest)[:, place]


def _proposals(
    rng: np.random.Generator, posterior: EnginePosterior, s: int, wanted: int, label: int | None
) -> tuple[Any, Codes]:
    """Return those of some proposals that are kept, as the class asked for, and their classes."""
    X = np.asarray(posterior.base.sample(rng, max(1024, 4 * wanted)))
    codes = np.empty(len(X), dtype=np.intp)
    for part, mean, deviation in state_moments(posterior, s, X):
        codes[part] = sample(rng, mean + deviation * rng.standard_normal(mean.shape))
    good = codes != REJECTED if label is None else codes == label
    return X[good], codes[good]
