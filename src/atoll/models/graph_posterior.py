"""What the graph's classifier knows after its labels, and how it tells it for new rows.

A `GraphPosterior` knows the rows of the graph and how a new row attaches to them; the posterior of
the functions' coefficients inside it knows the likelihood, and answers for rows of features v(x):

    `ConePosterior`       weighted draws, each of which votes for the class of the largest function
    `SoftmaxPosterior`    weighted draws under a softmax
    `PooledPosterior`     both of them, with their shares
    `NormalPosterior`     a normal under a probit
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.core.linalg import jittered_cholesky
from atoll.core.memory import in_chunks
from atoll.core.progress import in_shown_chunks
from atoll.core.rows import COSINE, has_direction, unit_rows
from atoll.kernels.graph_spectral import (
    EXTENSION_NEIGHBOURS,
    Extension,
    NearestFound,
    extend,
    nearest_by_distance,
    nearest_rows,
)
from atoll.likelihoods import multinomial_probit, probit
from atoll.models import graph_softmax
from atoll.models.average.pooling import carried, shifted
from atoll.models.belief import doubted
from atoll.models.graph_recipe import RECIPE, Recipe, has_settled
from atoll.models.posterior import chosen_states

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Votes = NDArray[np.uint8] | NDArray[np.uint16]

WINNERS_AT_ONCE = 2**18  # values of functions, so that they stay near the processor
MANY_CLASSES = 20  # from which on the classes that draws name are found in single precision
ENOUGH_DRAWS = 50  # independent ones; fewer leave a probability of a half uncertain by over .07


class FeaturePosterior(Protocol):
    """A posterior of the coefficients, which answers for rows of features (m, p)."""

    def proba(self, features: Array) -> Array:
        """Return the class probabilities; (m, p) -> (m, K)."""

    def latent(self, features: Array) -> tuple[Array, Array]:
        """Return mean and variance of the functions; (m, p) -> (m, F) each."""

    def draws(self, features: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; (m, p) -> (n, m, K)."""

    def diagnostics(self, recipe: Recipe = RECIPE) -> dict[str, Any]:
        """Return how it was found, in numbers and with a verdict in words."""


# The coefficients ---------------------------------------------------------------------------------


class ConePosterior(NamedTuple):
    """Weighted draws of the functions; F is one for two classes, else one per class.

    coefficients : (S, p, F) a
    weights : (S,) sum to one
    n_sweeps : of every chain
    memory : correlation of the chains with themselves half-way
    one_more : the weight, in draws, of a vote beside the draws' that all classes share: draws
        cannot say that something never happens
    votes : (n, S) the class that each draw names at each row of the graph, for as long as a fit
        needs it; else None
    """

    coefficients: Array
    weights: Array
    n_sweeps: int
    memory: float
    one_more: float = 1.0
    votes: Votes | None = None

    def proba(self, features: Array) -> Array:
        """Return the share of the votes for each class, the one more among them; -> (m, K)."""
        pieces = in_chunks(len(features), len(self.weights))
        shares = [self.share_of(winners(self.coefficients, features[piece])) for piece in pieces]
        return np.concatenate(shares) if shares else np.empty((0, self._n_classes))

    def share_of(self, votes: Votes) -> Array:
        """Return the share of votes (m, S) for each class, the one more among them; -> (m, K)."""
        n_draws, n_classes = len(self.weights), self._n_classes
        counts = np.full((len(votes), n_classes), self.one_more / n_classes)
        for k in range(n_classes):
            counts[:, k] += n_draws * ((votes == k) @ self.weights)
        counts = np.maximum(counts, 0.0)
        return counts / counts.sum(axis=1, keepdims=True)

    @property
    def _n_classes(self) -> int:
        return max(self.coefficients.shape[2], 2)

    def latent(self, features: Array) -> tuple[Array, Array]:
        """Return mean and variance of the functions; (m, p) -> (m, F) each."""
        return _weighted_moments(self.coefficients, self.weights, features)

    def draws(self, features: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; (m, p) -> (n, m, K).

        Each is the labelling of one draw of the functions, with its part of the one more vote in
        it: every draw then stays one labelling of all rows, and the mean of few draws does not say
        of a class that it never happens, as it could if one draw in S + 1 were uniform.
        """
        n_draws, n_classes = len(self.weights), self._n_classes
        state, place = np.unique(chosen_states(rng, n, self.weights), return_inverse=True)
        total, rest = n_draws + self.one_more, self.one_more / n_classes
        winner = winners(self.coefficients[state], features).T.astype(np.intp)[place]
        out = np.full((n, len(features), n_classes), rest / total)
        np.put_along_axis(out, winner[..., None], (n_draws + rest) / total, axis=2)
        return out

    def diagnostics(self, recipe: Recipe = RECIPE) -> dict[str, Any]:
        """Return how the chains went, in numbers and with a verdict in words."""
        slow = (
            "Labels that contradict their neighbours make chains slow, right or wrong. Fix: look "
            "again at the most suspect labels."
        )
        found = _diagnostics_of_chains(
            self, self.n_sweeps, "sweeps", recipe.argmax.memory_limit, slow
        )
        return {"likelihood": "argmax", "n_sweeps": self.n_sweeps, **found}


class SoftmaxPosterior(NamedTuple):
    """Weighted draws of the functions under a softmax.

    coefficients : (S, p, F) a, in units of the softmax
    weights : (S,) sum to one
    log_amplitudes : (S,) of the variance of the functions
    n_steps : of every chain
    memory : correlation of the chains with themselves half-way
    """

    coefficients: Array
    weights: Array
    log_amplitudes: Array
    n_steps: int
    memory: float

    def proba(self, features: Array) -> Array:
        """Return the class probabilities; (m, p) -> (m, K)."""
        out = np.empty((len(features), max(self.coefficients.shape[2], 2)))
        for piece, latent in _latent_by_piece(self.coefficients, features):
            each = graph_softmax.class_probabilities(latent)
            out[piece] = np.einsum("s,msk->mk", self.weights, each)
        return out / out.sum(axis=1, keepdims=True)

    def latent(self, features: Array) -> tuple[Array, Array]:
        """Return mean and variance of the functions; (m, p) -> (m, F) each."""
        return _weighted_moments(self.coefficients, self.weights, features)

    def draws(self, features: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; (m, p) -> (n, m, K)."""
        state, place = np.unique(chosen_states(rng, n, self.weights), return_inverse=True)
        a = self.coefficients[state]
        each = np.empty((len(a), len(features), max(a.shape[2], 2)))
        for piece, latent in _latent_by_piece(a, features):
            each[:, piece] = graph_softmax.class_probabilities(latent).swapaxes(0, 1)
        return each[place]

    def diagnostics(self, recipe: Recipe = RECIPE) -> dict[str, Any]:
        """Return how the chains went, in numbers and with a verdict in words."""
        again = "Fit again with another random_state to see how far they are apart."
        found = _diagnostics_of_chains(
            self, self.n_steps, "steps", recipe.softmax.memory_limit, again
        )
        log_amplitude = float(self.weights @ self.log_amplitudes)
        return {
            "likelihood": "softmax",
            "n_steps": self.n_steps,
            "log_amplitude": log_amplitude,
            **found,
        }


class PooledPosterior(NamedTuple):
    """Both likelihoods side by side, between few labels and many.

    votes : the posterior of the argmax, its functions on the scale of the softmax's
    soft : the posterior of the softmax
    share : of the softmax
    """

    votes: ConePosterior
    soft: SoftmaxPosterior
    share: float

    def proba(self, features: Array) -> Array:
        """Return the class probabilities; (m, p) -> (m, K)."""
        return (1.0 - self.share) * self.votes.proba(features) + self.share * self.soft.proba(
            features
        )

    def latent(self, features: Array) -> tuple[Array, Array]:
        """Return mean and variance of the functions; (m, p) -> (m, F) each."""
        mean, variance = self.votes.latent(features)
        other, other_variance = self.soft.latent(features)
        apart = self.share * (1.0 - self.share) * (mean - other) ** 2
        return (
            (1.0 - self.share) * mean + self.share * other,
            (1.0 - self.share) * variance + self.share * other_variance + apart,
        )

    def draws(self, features: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; (m, p) -> (n, m, K)."""
        is_soft = chosen_states(rng, n, np.array([1.0 - self.share, self.share]))
        n_soft = int(is_soft.sum())
        parts = [
            part.draws(features, count, rng)
            for part, count in ((self.votes, n - n_soft), (self.soft, n_soft))
            if count
        ]
        return np.concatenate(parts)

    def diagnostics(self, recipe: Recipe = RECIPE) -> dict[str, Any]:
        """Return how the chains of both went, in numbers and with a verdict in words."""
        votes, soft = self.votes.diagnostics(recipe), self.soft.diagnostics(recipe)
        mixed = votes["mixed"] and soft["mixed"]
        effective = votes["effective_draws"] + soft["effective_draws"]
        return {
            **votes,
            **soft,
            "likelihood": "pooled",
            "softmax_share": self.share,
            "n_draws": votes["n_draws"] + soft["n_draws"],
            "effective_draws": effective,
            "memory": max(votes["memory"], soft["memory"]),
            "mixed": mixed,
            "few_draws": mixed and effective < ENOUGH_DRAWS,
            "verdict": _verdict_of_both(votes, soft),
            "sampling": f"Argmax and softmax were averaged, the softmax with a share of "
            f"{self.share:.0%}. Of the argmax, {votes['sampling']} Of the softmax, "
            f"{soft['sampling']}",
        }


class NormalPosterior(NamedTuple):
    """Functions of a probit in units of its noise.

    mean : (p, F) of a
    covariance : (p, p), of every a_c
    log_evidences : (t,) the bound after every iteration
    converged : whether the search stopped by itself
    """

    mean: Array
    covariance: Array
    log_evidences: Array
    converged: bool

    def proba(self, features: Array) -> Array:
        """Return the class probabilities; (m, p) -> (m, K)."""
        mean, variance = self.latent(features)
        return probit_proba(mean, variance[:, 0])

    def latent(self, features: Array) -> tuple[Array, Array]:
        """Return mean and variance of the functions; (m, p) -> (m, F) each."""
        variance = np.einsum("ij,ij->i", features @ self.covariance, features)
        mean = features @ self.mean
        return mean, np.repeat(np.maximum(variance, 0.0)[:, None], mean.shape[1], axis=1)

    def draws(self, features: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; (m, p) -> (n, m, K)."""
        lower = jittered_cholesky(self.covariance).lower
        a = self.mean + lower @ rng.standard_normal((n, *self.mean.shape))
        out = np.empty((n, len(features), max(a.shape[2], 2)))
        for piece, latent in _latent_by_piece(a, features):
            flat = latent.reshape(-1, a.shape[2])
            p = probit_proba(flat, np.zeros(len(flat)))
            out[:, piece] = p.reshape(*latent.shape[:2], -1).swapaxes(0, 1)
        return out

    def diagnostics(self, recipe: Recipe = RECIPE) -> dict[str, Any]:
        """Return how the search went, in numbers and with a verdict in words."""
        n_iterations = len(self.log_evidences) - 1
        state = "converged" if self.converged else "had not converged"
        return {
            "likelihood": "probit",
            "inference": "vb",
            "log_evidence": float(self.log_evidences[-1]),
            "n_iterations": n_iterations,
            "converged": self.converged,
            "verdict": f"With many labels of many classes variational Bayes took over; it {state} "
            f"in {n_iterations} iterations.",
        }


def proba_on_graph(found: Any, features: Array, rows: slice) -> Array:
    """Return the class probabilities of some rows of the graph, by their votes where kept.

    Parameters
    ----------
    found : a posterior of the coefficients
    features : (m, p) of these rows
    rows : which of the graph's they are
    """
    if isinstance(found, ConePosterior) and found.votes is not None:
        return found.share_of(found.votes[rows])
    if isinstance(found, PooledPosterior):
        votes = proba_on_graph(found.votes, features, rows)
        return (1.0 - found.share) * votes + found.share * found.soft.proba(features)
    proba: Array = found.proba(features)
    return proba


def without_votes(found: Any) -> Any:
    """Return a posterior of the coefficients without what only its fit needed."""
    if isinstance(found, ConePosterior):
        return found._replace(votes=None)
    if isinstance(found, PooledPosterior):
        return found._replace(votes=found.votes._replace(votes=None))
    return found


def _latent_by_piece(a: Array, features: Array) -> Iterator[tuple[slice, Array]]:
    """Yield some rows at a time, and every draw's functions there, (rows, S, F); a (S, p, F)."""
    n_draws, p, F = a.shape
    flat = a.transpose(1, 0, 2).reshape(p, n_draws * F)
    for piece in in_chunks(len(features), n_draws * F):
        yield piece, (features[piece] @ flat).reshape(-1, n_draws, F)


def winners(a: Array, features: Array) -> Votes:
    """Return the class that every draw's functions name at every row; a (S, p, F) -> (m, S).

    As the argmax of `_latent_by_piece`, the first of equals, and several times as fast: class by
    class, told by bytes, and many classes in single precision.
    """
    n_draws, _, F = a.shape
    precision = np.float32 if F >= MANY_CLASSES else np.float64
    by_class: Any = np.ascontiguousarray(a.transpose(2, 1, 0), dtype=precision)  # (F, p, S)
    features = features.astype(precision, copy=False)
    out = np.zeros((len(features), n_draws), np.uint8 if F <= 256 else np.uint16)
    for piece in in_chunks(len(features), n_draws, most=WINNERS_AT_ONCE):
        winner, best = out[piece], features[piece] @ by_class[0]
        if F == 1:
            winner[:] = best > 0
        for k in range(1, F):
            latent = features[piece] @ by_class[k]
            ahead = (latent > best).astype(out.dtype)
            ahead *= out.dtype.type(k)
            np.maximum(winner, ahead, out=winner)
            np.maximum(best, latent, out=best)
    return out


def _weighted_moments(a: Array, weights: Array, features: Array) -> tuple[Array, Array]:
    """Return mean and variance over weighted draws a (S, p, F), each (m, F)."""
    centre = np.einsum("s,spf->pf", weights, a)
    means, variances = features @ centre, np.empty((len(features), a.shape[2]))
    for k in range(a.shape[2]):
        apart = np.sqrt(weights)[:, None] * (a[:, :, k] - centre[:, k])
        spread = apart.T @ apart
        variances[:, k] = np.einsum("ij,ij->i", features @ spread, features)
    return means, np.maximum(variances, 0.0)


def probit_proba(mean: Array, variance: Array) -> Array:
    """Return the class probabilities for functions of mean (m, F) and variance (m,), (m, K)."""
    if mean.shape[1] == 1:
        return np.exp(probit.log_class_probabilities(mean[:, 0], variance))
    return multinomial_probit.class_probabilities(mean, variance)


def _verdict_of_both(votes: dict[str, Any], soft: dict[str, Any]) -> str:
    """Return how two sets of chains went, in words."""
    wrong = [part["verdict"] for part in (votes, soft) if not part["mixed"]]
    if wrong:
        return " ".join(wrong)
    effective = votes["effective_draws"] + soft["effective_draws"]
    return _went_well(votes["n_draws"] + soft["n_draws"], effective)


def _went_well(n_draws: int, effective: float) -> str:
    """Return what draws of chains that have settled are worth, in words."""
    if effective >= ENOUGH_DRAWS:
        return f"Sampling went well: {n_draws} draws, worth {effective:.0f} independent ones."
    return (
        f"Sampling settled, but its {n_draws} draws are worth only {effective:.0f} independent "
        "ones, and probabilities are rough. Fix: a larger n_draws, or more labels."
    )


def _diagnostics_of_chains(
    found: ConePosterior | SoftmaxPosterior, count: int, steps: str, limit: float, cause: str
) -> dict[str, Any]:
    """Return whether chains mixed after so many steps, and what their draws are worth.

    "few_draws": whether chains did mix, but probabilities are rough, and ask for more draws.
    """
    n_draws, effective = len(found.weights), float(1.0 / np.sum(found.weights**2))
    mixed = has_settled(found.memory, limit)
    if mixed:
        said = _went_well(n_draws, effective)
        technical = f"{n_draws} chains forgot where they had been within {count // 2} {steps}; "
        technical += f"their draws are worth {effective:.0f}."
    else:
        said = f"Sampling had not settled after {count} {steps}: probabilities may be too bold. "
        said += cause
        technical = f"{n_draws} chains had not mixed after {count} {steps}."
    return {
        "inference": "mcmc",
        "n_draws": n_draws,
        "effective_draws": effective,
        "memory": found.memory,
        "mixed": mixed,
        "few_draws": bool(mixed and effective < ENOUGH_DRAWS),
        "verdict": said,
        "sampling": technical,
    }


# New rows -----------------------------------------------------------------------------------------


class GraphPosterior(NamedTuple):
    """The posterior of the functions on a graph, for its rows and for new ones.

    rows : (n, d) rows of the graph, perhaps sparse; (n, 0) where distances or weights are given
        instead
    features : (n, p) v at these rows
    kept : (n,) which training rows they are
    coefficients : the posterior of the functions' coefficients
    metric : "euclidean" for new rows of numbers, "cosine" for those of which only directions
        matter; "precomputed" for rows of distances, or "graph"
        for rows of weights, each to all training rows
    n_jobs : processors for the search of neighbours
    n_nearest : rows of the graph that a new row is the mean of
    intercepts : (K,) added to the log probabilities, so that the classes come in the shares that
        they are known to have; None adds nothing
    doubt : (K,) in what the draws say of classes: see `models.belief`
    """

    rows: Any
    features: Array
    kept: Codes
    coefficients: FeaturePosterior
    metric: str = "euclidean"
    n_jobs: int | None = None
    n_nearest: int = EXTENSION_NEIGHBOURS
    intercepts: Array | None = None
    doubt: Array | float = 0.0

    def log_proba(self, X: Any) -> Array:
        """Return log P(y = k | x, data); X (m, d), or (m, n) as `metric` says -> (m, K)."""
        with np.errstate(divide="ignore"):  # of a class that no draw leaves a chance
            return np.log(self.proba(X))

    def proba(self, X: Any) -> Array:
        """Return P(y = k | x, data); X as in `log_proba` -> (m, K)."""
        parts = [self.coefficients.proba(features) for features in self._features_by_piece(X)]
        return shifted(doubted(np.concatenate(parts), self.doubt), self.intercepts)

    def latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance of the functions; X as in `log_proba` -> (m, F) each."""
        parts = [self.coefficients.latent(features) for features in self._features_by_piece(X)]
        mean, variance = zip(*parts)
        return np.concatenate(mean), np.concatenate(variance)

    def draws(self, X: Any, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; X as in `log_proba` -> (n, m, K)."""
        features = self.row_features(X)
        drawn = doubted(self.coefficients.draws(features, n, rng), self.doubt)
        if self.intercepts is None:
            return drawn
        before = doubted(self.coefficients.proba(features), self.doubt)
        return carried(drawn, before, shifted(before, self.intercepts))

    def training_proba(
        self, X: Any, *, shown: float | None = None, found: NearestFound | None = None
    ) -> Array:
        """Return the class probabilities of the n training rows: of the graph's, and the others.

        Parameters
        ----------
        X : (n, d)
        shown : in how many seconds progress is shown; None: never
        found : where the nearest rows of the others are kept for the next fit to the same rows
        """
        n = len(self.features)
        on_graph = proba_on_graph(self.coefficients, self.features, slice(0, n))
        p = np.empty((X.shape[0], on_graph.shape[1]))
        p[self.kept] = on_graph
        others = np.setdiff1d(np.arange(X.shape[0]), self.kept, assume_unique=True)
        for piece in in_shown_chunks(len(others), self.features.shape[1], "all rows", shown):
            some = others[piece]
            p[some] = self.coefficients.proba(self._attach(X[some], found, piece.start))
        return shifted(doubted(p, self.doubt), self.intercepts)

    def proba_as_new(self, extended: Callable[[Extension], Array]) -> Array:
        """Return the class probabilities of the graph's rows as if they were new ones, (n, K).

        Each is the mean of its nearest others. The rows themselves where distances or weights are
        given instead of numbers, which do not tell how far off a new row would be.

        Parameters
        ----------
        extended : what returns v (n, p) of rows by their nearest others
        """
        if self.metric not in ("euclidean", COSINE) or len(self.features) < 2:
            own = proba_on_graph(self.coefficients, self.features, slice(0, len(self.features)))
            return doubted(own, self.doubt)
        out = extended(nearest_rows(self.rows, None, self.n_jobs, n_nearest=self.n_nearest))
        if self.metric == COSINE:
            _leave_alone(out, ~has_direction(self.rows))
        return doubted(self.coefficients.proba(out), self.doubt)

    def row_features(self, X: Any) -> Array:
        """Return v of rows; X as in `log_proba` -> (m, p)."""
        return np.concatenate(list(self._features_by_piece(X)))

    def _features_by_piece(self, X: Any) -> Iterator[Array]:
        """Yield v of some rows of X at a time, (rows, p)."""
        for piece in in_chunks(X.shape[0], self.features.shape[1]):
            yield self._attach(X[piece])

    def _attach(self, X: Any, found: NearestFound | None = None, piece: int = 0) -> Array:
        if self.metric in ("euclidean", COSINE):
            rows = unit_rows(X) if self.metric == COSINE else X
            find = partial(nearest_rows, self.rows, rows, self.n_jobs, n_nearest=self.n_nearest)
            key = (piece, len(self.features), self.features.shape[1], self.n_nearest)
            nearest = find() if found is None else found.get(key, (self.rows, self.kept), find)
            out = extend(self.features, nearest)
            if self.metric == COSINE:
                _leave_alone(out, ~has_direction(rows))
            return out
        X = X[:, self.kept]
        if self.metric == "precomputed":
            return extend(self.features, nearest_by_distance(X, n_nearest=self.n_nearest))
        return _features_by_weight(self.features, sparse.csr_array(X))


def _features_by_weight(features: Array, weights: sparse.csr_array) -> Array:
    """Return the mean features of the rows that each new row is joined to.

    A row that is joined to none is like rows that no label reaches.
    """
    total = np.asarray(weights.sum(axis=1)).ravel()
    out = (weights @ features) / np.where(total > 0, total, 1.0)[:, None]
    alone = total == 0
    out[alone, -1] = features[0, -1]
    _leave_alone(out, alone)
    return out


def _leave_alone(features: Array, alone: NDArray[np.bool_]) -> None:
    """Turn some rows of features into those of a row that no label reaches."""
    features[alone, :-2] = 0.0
    features[alone, -2] = 1.0
