"""What prediction needs of a fitted mixture, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import gammaln, log_softmax, logsumexp

from atoll.core.memory import in_chunks
from atoll.models.dp_mixture.model import (
    MapState,
    Mixture,
    State,
    log_stick_weights,
)
from atoll.models.dp_mixture.tempering import Tempering
from atoll.models.gaussian_components import LOG_2PI, cholesky_stack, log_determinants

Array = NDArray[np.float64]

FARTHEST = 1e100  # in units of the scale: beyond it squares would overflow
BLOCK_ENTRIES = 2**18  # numbers in a block of rows and their densities: 2 MiB
NONE = np.empty(0)


class MixturePosterior(NamedTuple):
    """A fitted mixture; predicts without its model.

    covariance : family of the components
    shift, scale : (d,) rows enter as (x − shift) / scale
    log_class_weights : (C,); log_weights : (C, K) within each class; under variational Bayes of
        the mean weights
    means (J, d), spread, loadings : as in `Components`
    degrees : (J,) of Student's t under variational Bayes, whose components have uncertain
        parameters; (0,) for Gaussians

    Only under variational Bayes, otherwise (0,): what q says beyond the predictive density.

    class_counts : (C,) of the Dirichlet
    sticks : (2, C, K) of the betas
    mean_precisions : (J,) of the normal distributions of the means

    tempering : how far class probabilities are believed; None: as the densities have them
    """

    covariance: str
    shift: Array
    scale: Array
    log_class_weights: Array
    log_weights: Array
    means: Array
    spread: Array
    loadings: Array
    degrees: Array
    class_counts: Array = NONE
    sticks: Array = NONE
    mean_precisions: Array = NONE
    tempering: Tempering | None = None

    # Classes --------------------------------------------------------------------------------------

    def log_proba(self, X: Any) -> Array:
        """Return log p(c | x), tempered where labels were held out; X (m, d) -> (m, C)."""
        return self._log_classes(self.log_class_joint(X))

    def draws(self, X: Any, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; X (m, d) -> (n, m, C).

        The maximum of the posterior is a point: under "map" every draw is the same. Under "vb" a
        draw is p(c | x, Θ), with weights, means and covariances Θ drawn from q and common to all
        rows. It is normalised by itself, so that the mean of draws is not quite exp(log_proba):
        to see x is to learn about Θ, and the mean that meets it weights each draw by p(x | Θ).
        """
        return np.exp(self._log_classes(self.log_class_joint_draws(X, n, rng)))

    def _log_classes(self, log_joint: Array) -> Array:
        """Return log p(c | x); log p(x, c) (..., C) -> (..., C)."""
        if self.tempering is not None:
            return self.tempering.log_proba(log_joint)
        # Not joint − logsumexp(joint): far from all data one unit in the last place is many nats.
        return log_softmax(log_joint, axis=-1)

    def log_class_joint(self, X: Any) -> Array:
        """Return log p(x, c); X (m, d) -> (m, C)."""
        return self._by_blocks(lambda rows: logsumexp(self.log_joint(rows), axis=2), X)

    def log_class_joint_draws(self, X: Any, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of log p(x, c | Θ); X (m, d) -> (n, m, C)."""
        if not self.degrees.size:
            return np.repeat(self.log_class_joint(X)[None], n, axis=0)
        if not self.sticks.size:
            raise ValueError(
                "this mixture was saved by an earlier atoll, without what draws need; fit it again."
            )
        rows, K = self._scaled(X), self.log_weights.shape[1]
        weights = self._draw_log_weights(n, rng)
        out = np.full((n, len(rows), len(self.log_weights)), -np.inf)
        for j in range(len(self.means)):
            c, k = divmod(j, K)
            density = self._draw_log_component(rows, j, n, rng)
            np.logaddexp(out[:, :, c], weights[:, c, k, None] + density, out=out[:, :, c])
        return out - np.log(self.scale).sum()

    def component(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable component of each row, c K + k; X (m, d) -> (m,)."""
        return self._by_blocks(
            lambda rows: self.log_joint(rows).reshape(len(rows), -1).argmax(axis=1), X
        )

    # Rows -----------------------------------------------------------------------------------------

    def log_density(self, X: Any) -> Array:
        """Return log p(x); X (m, d) -> (m,)."""
        return self._by_blocks(lambda rows: logsumexp(self.log_joint(rows), axis=(1, 2)), X)

    def log_joint(self, X: Any) -> Array:
        """Return log p(x, c, k), in the units of the rows given; X (m, d) -> (m, C, K)."""
        rows = self._scaled(X)
        weights = (self.log_class_weights[:, None] + self.log_weights).ravel()
        out = np.full((len(rows), len(weights)), -np.inf)
        for j in np.flatnonzero(weights > -np.inf).tolist():
            out[:, j] = weights[j] + self._log_component(rows, j)
        out -= np.log(self.scale).sum()
        return out.reshape(len(rows), *self.log_weights.shape)

    def sample(
        self, rng: np.random.Generator, n: int, codes: NDArray[np.intp] | None = None
    ) -> tuple[Array, NDArray[np.intp]]:
        """Draw n rows (n, d) and their class codes (n,), of the classes `codes` (n,) if given."""
        C, K = self.log_weights.shape
        if codes is None:
            codes = rng.choice(C, size=n, p=np.exp(self.log_class_weights))
        codes = np.asarray(codes, dtype=np.intp)
        cumulative = np.cumsum(np.exp(self.log_weights), axis=1)
        u = rng.random(n) * cumulative[codes, -1]
        k = (u[:, None] >= cumulative[codes]).sum(axis=1)
        j = codes * K + np.minimum(k, K - 1)
        noise = rng.standard_normal((n, self.means.shape[1]))
        factors = rng.standard_normal((n, self.loadings.shape[2]))
        if self.degrees.size:
            shape = (n, 1) if self.spread.ndim == 3 else noise.shape
            df = np.broadcast_to(self.degrees[j][:, None], shape)
            noise /= np.sqrt(rng.chisquare(df) / df)
        out = np.empty_like(noise)
        for one in np.unique(j):
            chosen = j == one
            out[chosen] = self.means[one] + self._spread_noise(noise[chosen], one)
            out[chosen] += factors[chosen] @ self.loadings[one].T
        return out * self.scale + self.shift, codes

    def covariances(self) -> Array:
        """Return the covariance of every component (of Student's t, its scale), (C, K, d, d)."""
        J, d = self.means.shape
        if self.spread.ndim == 3:
            of_each = np.broadcast_to(self.spread @ self.spread.transpose(0, 2, 1), (J, d, d))
        else:
            of_each = np.einsum("jd,de->jde", self.spread, np.eye(d))
        of_each = of_each + self.loadings @ self.loadings.transpose(0, 2, 1)
        scaled = of_each * np.outer(self.scale, self.scale)
        return scaled.reshape(*self.log_weights.shape, d, d)

    def weight_deviations(self) -> tuple[Array, Array]:
        """Return the standard deviations of ρ (C,) and of π (C, K) under q ("vb" alone)."""
        q = self.class_counts
        n = q.sum()
        of_classes = np.sqrt(q * (n - q) / (n**2 * (n + 1)))
        a, b = self.sticks.copy()
        b[:, -1] = 0.0  # the last stick is one
        n = a + b
        first, rest = a / n, b / n
        first_squared, rest_squared = a * (a + 1) / (n * (n + 1)), b * (b + 1) / (n * (n + 1))

        def product(this: Array, others: Array) -> Array:
            out = this.copy()
            out[:, 1:] *= np.cumprod(others[:, :-1], axis=1)
            return out

        variance = product(first_squared, rest_squared) - product(first, rest) ** 2
        return of_classes, np.sqrt(np.maximum(variance, 0.0))

    # Components -----------------------------------------------------------------------------------

    def _scaled(self, X: Any) -> Array:
        with np.errstate(over="ignore"):  # infinitely far is as far as any
            rows = (np.asarray(X, dtype=np.float64) - self.shift) / self.scale
        return np.clip(rows, -FARTHEST, FARTHEST)

    def _spread_noise(self, noise: Array, j: int) -> Array:
        if self.spread.ndim == 3:
            return noise @ self.spread[min(j, len(self.spread) - 1)].T
        return noise * np.sqrt(self.spread[j])

    def _log_component(self, rows: Array, j: int) -> Array:
        """Return the log-density (m,) of component j at scaled rows."""
        centred = rows - self.means[j]
        d = rows.shape[1]
        if self.spread.ndim == 3:
            lower = self.spread[min(j, len(self.spread) - 1)]
            whitened = solve_triangular(lower, centred.T, lower=True)
            log_det = log_determinants(lower[None])[0]
            squares = (whitened**2).sum(axis=0)
            if self.degrees.size:
                return _log_student(squares, self.degrees[j], d) - 0.5 * log_det
        else:
            spread = self.spread[j]
            log_det = np.log(spread).sum()
            each = centred**2 / spread
            if self.degrees.size:
                return _log_student(each, self.degrees[j], 1).sum(axis=1) - 0.5 * log_det
            squares = each.sum(axis=1)
            W = self.loadings[j]
            if W.shape[1]:
                scaled = W / spread[:, None]
                lower = cholesky_stack((np.eye(W.shape[1]) + W.T @ scaled)[None])[0]
                projected = solve_triangular(lower, scaled.T @ centred.T, lower=True)
                squares = squares - (projected**2).sum(axis=0)
                log_det += log_determinants(lower[None])[0]
        return -0.5 * (squares + d * np.log(2 * np.pi) + log_det)

    def _draw_log_weights(self, n: int, rng: np.random.Generator) -> Array:
        """Draw log ρ_c π_ck from q, (n, C, K)."""
        with np.errstate(divide="ignore"):
            of_classes = np.log(rng.dirichlet(self.class_counts, size=n))
        a, b = self.sticks
        sticks = rng.beta(a, b, size=(n, *a.shape))
        sticks[:, :, -1] = 1.0
        return of_classes[:, :, None] + log_stick_weights(sticks)

    def _draw_log_component(self, rows: Array, j: int, n: int, rng: np.random.Generator) -> Array:
        """Draw mean and covariance of component j from q; return log N(x; m, Σ), (n, m).

        With S = L Lᵀ the scale matrix of q and Σ⁻¹ = L⁻ᵀ A Aᵀ L⁻¹, A Bartlett's factor of a
        Wishart matrix, and with m = mean + L A⁻ᵀ z for z ~ N(0, I / precision), the squared
        distance is ‖Aᵀ L⁻¹ (x − mean) − z‖²: the rows are whitened once for all draws.
        """
        d, precision, df = rows.shape[1], self.mean_precisions[j], self.degrees[j]
        inflation = (precision + 1) / (precision * df)  # of S in the predictive Student's t
        centred = (rows - self.means[j]).T
        z = rng.standard_normal((n, d, 1)) / np.sqrt(precision)
        if self.spread.ndim == 3:
            lower = self.spread[j] / np.sqrt(inflation)
            white = solve_triangular(lower, centred, lower=True)
            log_det = np.log(np.diag(lower)).sum()
            A = np.tril(rng.standard_normal((n, d, d)), -1)
            diagonal = np.sqrt(rng.chisquare(df + d - 1 - np.arange(d), size=(n, d)))
            A[:, np.arange(d), np.arange(d)] = diagonal
        else:
            deviations = np.sqrt(self.spread[j] / inflation)
            white = centred / deviations[:, None]
            log_det = np.log(deviations).sum()
            diagonal = np.sqrt(rng.chisquare(df, size=(n, d)))
        squares = np.empty((n, rows.shape[0]))
        for part in in_chunks(len(rows), n * d):
            if self.spread.ndim == 3:
                turned = A.transpose(0, 2, 1) @ white[:, part]
            else:
                turned = diagonal[:, :, None] * white[:, part]
            squares[:, part] = ((turned - z) ** 2).sum(axis=1)
        log_dets = np.log(diagonal).sum(axis=1) - log_det
        return log_dets[:, None] - 0.5 * (squares + d * LOG_2PI)

    def _by_blocks(self, function: Callable[[Any], Any], X: Any) -> Any:
        """Apply to blocks of rows, so that a prediction holds few numbers beside its result."""
        J, d = self.means.shape
        blocks = in_chunks(max(len(X), 1), J + d, most=BLOCK_ENTRIES)
        return np.concatenate([function(X[block]) for block in blocks])


def _log_student(squares: Array, degrees: float, d: int) -> Array:
    """Return the log-density of a standard Student's t in d dimensions, given squared distances."""
    constant = gammaln((degrees + d) / 2) - gammaln(degrees / 2) - 0.5 * d * np.log(degrees * np.pi)
    return constant - 0.5 * (degrees + d) * np.log1p(squares / degrees)


def posterior(
    model: Mixture,
    state: State,
    shift: Array,
    scale: Array,
    tempering: Tempering | None = None,
) -> MixturePosterior:
    """Return what prediction needs of a state."""
    if isinstance(state, MapState):
        with np.errstate(divide="ignore"):
            log_class_weights = np.log(state.class_weights)
        return MixturePosterior(
            model.covariance,
            shift,
            scale,
            log_class_weights,
            log_stick_weights(state.sticks),
            *state.components,
            NONE,
            tempering=tempering,
        )
    q = state.components
    J, d = q.means.shape
    mean_sticks = state.sticks[0] / state.sticks.sum(axis=0)
    mean_sticks[:, -1] = 1.0
    inflation = (q.mean_precisions + 1) / q.mean_precisions
    if q.scales.ndim == 3:  # a Student's t with n − d + 1 degrees of freedom
        degrees = q.degrees - d + 1
        spread = q.scales * np.sqrt(inflation / degrees)[:, None, None]
    else:
        degrees = q.degrees
        spread = q.scales * (inflation / degrees)[:, None]
    return MixturePosterior(
        model.covariance,
        shift,
        scale,
        np.log(state.class_counts / state.class_counts.sum()),
        log_stick_weights(mean_sticks),
        q.means,
        spread,
        np.empty((J, d, 0)),
        degrees,
        state.class_counts,
        state.sticks,
        q.mean_precisions,
        tempering,
    )
