"""Gaussian components of a mixture: their conjugate priors, densities, statistics and maximisers.

Four families of covariances share one E-step. A family turns its components into a `Density`,
whose log-density at x is

    Θᵀ φ(x)  +  ½ Σ_q (G_qᵀ x − g_q)²  −  ½ ‖A x‖²

with φ(x) = (1, x, products of features): all components at once, by one matrix product. What the
M-step needs is then R φᵀ, with R the responsibilities, and it adds over rows.

Arrays of rows are transposed here, (d, b): features in rows make every pass contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, multigammaln

from atoll.core.linalg import jittered_cholesky, solve_lower

Array = NDArray[np.float64]

LOG_2PI = float(np.log(2 * np.pi))


class NormalPrior(NamedTuple):
    """m | Σ ~ N(mean, Σ / mean_precision), Σ ~ IW(degrees, covariance_scale); eqs 13 to 15.

    mean : (d,) μ
    mean_precision : λ
    degrees : n_0, above d − 1
    covariance_scale : (d,) or (d, d), R_0: the scale matrix of the inverse Wishart, a vector
        where it is diagonal. Its mode is R_0 / (n_0 + d + 1).
    """

    mean: Array
    mean_precision: float
    degrees: float
    covariance_scale: Array


class Components(NamedTuple):
    """J Gaussians: means (J, d) and what the family needs of their covariances.

    spread : full (J, d, d) and tied (1, d, d): lower Cholesky factors of Σ; diagonal (J, d):
        variances; factor (J, d): noise variances Ψ
    loadings : (J, d, q) W of Σ = W Wᵀ + Ψ; q = 0 but for the factor family
    """

    means: Array
    spread: Array
    loadings: Array


class NormalPosterior(NamedTuple):
    """q(m, Σ) of J components under variational Bayes: normal–inverse-Wishart each.

    means (J, d); mean_precisions (J,); degrees (J,); scales: lower Cholesky factors (J, d, d) of
    the scale matrices, or their diagonals (J, d) in the diagonal family, whose features are
    independent with degrees n − d + 1 each.
    """

    means: Array
    mean_precisions: Array
    degrees: Array
    scales: Array


class Density(NamedTuple):
    """Log-densities of J components in the form that the E-step evaluates; see the module.

    linear (J, F) Θ; projections (J, q, d) G; offsets (J, q) g; common (d, d) A or (0, 0)
    """

    linear: Array
    projections: Array
    offsets: Array
    common: Array


class Moments(NamedTuple):
    """Sums over rows, weighted by responsibilities.

    features (J, F): of φ(x); projected (J, d, q): of x (Gᵀx)ᵀ; common (d, d): of x xᵀ over all
    components, or (0, 0)
    """

    features: Array
    projected: Array
    common: Array


class Family(Protocol):
    """What a covariance structure provides."""

    def n_features(self, d: int) -> int: ...
    def write_features(self, X: Array, out: Array) -> None: ...
    def empty_moments(self, n_components: int, d: int) -> Moments: ...
    def density(self, components: Components) -> Density: ...
    def maximise(
        self, moments: Moments, prior: NormalPrior, previous: Components | None
    ) -> Components: ...
    def log_prior(self, components: Components, prior: NormalPrior) -> float: ...


# --- pieces ---------------------------------------------------------------------------------------


def scale_matrix(prior: NormalPrior) -> Array:
    """Return R_0 as a matrix, (d, d)."""
    R = prior.covariance_scale
    return np.diag(R) if R.ndim == 1 else R


def scale_diagonal(prior: NormalPrior) -> Array:
    """Return the diagonal of R_0, (d,)."""
    R = prior.covariance_scale
    return R if R.ndim == 1 else np.diag(R).copy()


def marginal_degrees(prior: NormalPrior) -> float:
    """Return the degrees of one variance of an inverse Wishart matrix, n_0 − d + 1."""
    return prior.degrees - len(prior.mean) + 1.0


def cholesky_stack(matrices: Array) -> Array:
    """Return lower factors of (J, d, d); jitter only where rounding left one not positive."""
    try:
        return np.asarray(np.linalg.cholesky(matrices), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.stack([jittered_cholesky(matrix).lower for matrix in matrices])


def log_determinants(lower: Array) -> Array:
    """Return log |L Lᵀ| (J,) of lower factors (J, d, d)."""
    return 2.0 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)


def _inverses(lower: Array) -> Array:
    """Return the inverses of lower factors, (J, d, d)."""
    identity = np.eye(lower.shape[1])
    return np.stack([solve_lower(L, identity) for L in lower])


def _pairs(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return i and j of the products x_i x_j, i ≤ j, in the order in which they are written."""
    return np.triu_indices(d)


def _quadratic_density(means: Array, precision_factors: Array, constants: Array) -> Density:
    """Return Θ of constant_j − ½ ‖P_j (x − m_j)‖², with P (J, d, d)."""
    J, d = means.shape
    whitened = (precision_factors @ means[:, :, None])[:, :, 0]
    precision = precision_factors.transpose(0, 2, 1) @ precision_factors
    i, k = _pairs(d)
    linear = np.empty((J, 1 + d + len(i)))
    linear[:, 0] = constants - 0.5 * (whitened**2).sum(axis=1)
    linear[:, 1 : 1 + d] = np.einsum("jab,ja->jb", precision_factors, whitened)
    linear[:, 1 + d :] = np.where(i == k, -0.5, -1.0) * precision[:, i, k]
    return Density(linear, np.empty((J, 0, d)), np.empty((J, 0)), np.empty((0, 0)))


def _diagonal_linear(means: Array, precisions: Array, constants: Array) -> Array:
    """Return Θ of constant_j − ½ Σ_i p_ji (x_i − m_ji)², for φ = (1, x, x²)."""
    return np.column_stack(
        [
            constants - 0.5 * (precisions * means**2).sum(axis=1),
            precisions * means,
            -0.5 * precisions,
        ]
    )


def _no_projections(n_components: int, d: int) -> tuple[Array, Array]:
    return np.empty((n_components, 0, d)), np.empty((n_components, 0))


def _write_squares(X: Array, out: Array) -> None:
    d = len(X)
    out[0] = 1.0
    out[1 : 1 + d] = X
    np.multiply(X, X, out=out[1 + d :])


def _log_normal_inverse_gamma(
    means: Array, variances: Array, prior: NormalPrior, mean_precision: float
) -> float:
    """Return Σ log p of m | σ² ~ N(μ, σ²/λ), σ² ~ IW_1(n, R), over components and features."""
    n, R = marginal_degrees(prior), scale_diagonal(prior)
    log_variance = np.log(variances)
    normal = -0.5 * (LOG_2PI - np.log(mean_precision) + log_variance) - 0.5 * mean_precision * (
        (means - prior.mean) ** 2 / variances
    )
    gamma = (
        0.5 * n * np.log(R / 2)
        - gammaln(n / 2)
        - (0.5 * n + 1) * log_variance
        - R / (2 * variances)
    )
    return float((normal + gamma).sum())


# --- the families ---------------------------------------------------------------------------------


class Full:
    """One covariance matrix per component, as in the paper."""

    def n_features(self, d: int) -> int:
        return 1 + d + d * (d + 1) // 2

    def write_features(self, X: Array, out: Array) -> None:
        d = len(X)
        out[0] = 1.0
        out[1 : 1 + d] = X
        place = 1 + d
        for i in range(d):
            np.multiply(X[i:], X[i], out=out[place : place + d - i])
            place += d - i

    def empty_moments(self, n_components: int, d: int) -> Moments:
        return _empty_moments(n_components, d, self.n_features(d))

    def density(self, components: Components) -> Density:
        lower = components.spread
        d = lower.shape[1]
        constants = -0.5 * (d * LOG_2PI + log_determinants(lower))
        return _quadratic_density(components.means, _inverses(lower), constants)

    def _scatter(self, moments: Moments, prior: NormalPrior) -> tuple[Array, Array, Array]:
        """N (J,), m (J, d) and Ŝ (J, d, d): eqs 24, 28 and 31."""
        d, lam, mu = len(prior.mean), prior.mean_precision, prior.mean
        N, M = moments.features[:, 0], moments.features[:, 1 : 1 + d]
        S = np.empty((len(N), d, d))
        i, k = _pairs(d)
        S[:, i, k] = S[:, k, i] = moments.features[:, 1 + d :]
        m = (M + lam * mu) / (N + lam)[:, None]  # eq. 28
        # Eq. 31, with the square completed: S + R_0 + λ μμᵀ − (N + λ) m mᵀ.
        S += scale_matrix(prior) + lam * np.outer(mu, mu)
        S -= (N + lam)[:, None, None] * np.einsum("ja,jb->jab", m, m)
        return N, m, S

    def maximise(
        self, moments: Moments, prior: NormalPrior, previous: Components | None = None
    ) -> Components:
        N, m, S = self._scatter(moments, prior)
        d = m.shape[1]
        S /= (N + prior.degrees + d + 2)[:, None, None]  # eq. 29
        return Components(m, cholesky_stack(S), np.empty((*m.shape, 0)))

    def log_prior(self, components: Components, prior: NormalPrior) -> float:
        m, lower = components.means, components.spread
        J, d = m.shape
        n, lam = prior.degrees, prior.mean_precision
        inverse, log_det = _inverses(lower), log_determinants(lower)
        centred = np.einsum("jab,jb->ja", inverse, m - prior.mean)
        R = np.linalg.cholesky(scale_matrix(prior))
        trace = ((inverse @ R) ** 2).sum(axis=(1, 2))
        normal = -0.5 * (d * (LOG_2PI - np.log(lam)) + log_det + lam * (centred**2).sum(axis=1))
        wishart = -0.5 * ((n + d + 1) * log_det + trace)
        normaliser = n * np.log(np.diag(R)).sum() - 0.5 * n * d * np.log(2) - multigammaln(n / 2, d)
        return float((normal + wishart).sum() + J * normaliser)

    # Variational Bayes ----------------------------------------------------------------------------

    def posterior(self, moments: Moments, prior: NormalPrior) -> NormalPosterior:
        """Return q(m, Σ) of every component."""
        N, m, S = self._scatter(moments, prior)
        return NormalPosterior(m, N + prior.mean_precision, N + prior.degrees, cholesky_stack(S))

    def expected_density(self, q: NormalPosterior) -> Density:
        """Return E_q log N(x; m, Σ), as a density of the same form."""
        d = q.means.shape[1]
        inverse = np.sqrt(q.degrees)[:, None, None] * _inverses(q.scales)
        half = 0.5 * (q.degrees[:, None] - np.arange(d))
        log_precision = digamma(half).sum(axis=1) + d * np.log(2) - log_determinants(q.scales)
        constants = 0.5 * (log_precision - d * LOG_2PI - d / q.mean_precisions)
        return _quadratic_density(q.means, inverse, constants)

    def divergence(self, q: NormalPosterior, prior: NormalPrior) -> float:
        """Return KL(q ‖ prior), summed over components."""
        d = q.means.shape[1]
        n0, lam0 = prior.degrees, prior.mean_precision
        inverse = _inverses(q.scales)
        centred = np.einsum("jab,jb->ja", inverse, q.means - prior.mean)
        ratio = lam0 / q.mean_precisions
        normal = 0.5 * (
            d * (ratio - 1 - np.log(ratio)) + lam0 * q.degrees * (centred**2).sum(axis=1)
        )
        R = np.linalg.cholesky(scale_matrix(prior))
        trace = ((inverse @ R) ** 2).sum(axis=(1, 2))
        log_ratio = log_determinants(q.scales) - 2 * np.log(np.diag(R)).sum()
        expected = digamma(0.5 * (q.degrees[:, None] - np.arange(d))).sum(axis=1)
        wishart = 0.5 * (n0 * log_ratio + q.degrees * (trace - d) + (q.degrees - n0) * expected) + (
            multigammaln(n0 / 2, d) - np.array([multigammaln(n / 2, d) for n in q.degrees])
        )
        return float((normal + wishart).sum())


class Diagonal:
    """Independent features within a component; each variance as in the inverse Wishart."""

    def n_features(self, d: int) -> int:
        return 1 + 2 * d

    def write_features(self, X: Array, out: Array) -> None:
        _write_squares(X, out)

    def empty_moments(self, n_components: int, d: int) -> Moments:
        return _empty_moments(n_components, d, self.n_features(d))

    def density(self, components: Components) -> Density:
        m, variances = components.means, components.spread
        J, d = m.shape
        constants = -0.5 * (d * LOG_2PI + np.log(variances).sum(axis=1))
        linear = _diagonal_linear(m, 1 / variances, constants)
        return Density(linear, *_no_projections(J, d), np.empty((0, 0)))

    def _scatter(self, moments: Moments, prior: NormalPrior) -> tuple[Array, Array, Array]:
        d, lam, mu = len(prior.mean), prior.mean_precision, prior.mean
        N, M, S = np.split(moments.features, [1, 1 + d], axis=1)
        m = (M + lam * mu) / (N + lam)
        R = scale_diagonal(prior)
        # Beyond R is a sum of squares; of huge numbers rounding alone could make it negative.
        return N[:, 0], m, np.maximum(S + R + lam * mu**2 - (N + lam) * m**2, R)

    def maximise(
        self, moments: Moments, prior: NormalPrior, previous: Components | None = None
    ) -> Components:
        N, m, S = self._scatter(moments, prior)
        variances = S / (N + marginal_degrees(prior) + 3)[:, None]
        return Components(m, variances, np.empty((*m.shape, 0)))

    def log_prior(self, components: Components, prior: NormalPrior) -> float:
        return _log_normal_inverse_gamma(
            components.means, components.spread, prior, prior.mean_precision
        )

    def posterior(self, moments: Moments, prior: NormalPrior) -> NormalPosterior:
        """Return q(m, σ²) of every component."""
        N, m, S = self._scatter(moments, prior)
        return NormalPosterior(m, N + prior.mean_precision, N + marginal_degrees(prior), S)

    def expected_density(self, q: NormalPosterior) -> Density:
        """Return E_q log N(x; m, σ²), as a density of the same form."""
        J, d = q.means.shape
        n = q.degrees[:, None]
        log_precision = (digamma(n / 2) - np.log(q.scales / 2)).sum(axis=1)
        constants = 0.5 * (log_precision - d * LOG_2PI - d / q.mean_precisions)
        linear = _diagonal_linear(q.means, n / q.scales, constants)
        return Density(linear, *_no_projections(J, d), np.empty((0, 0)))

    def divergence(self, q: NormalPosterior, prior: NormalPrior) -> float:
        """Return KL(q ‖ prior), summed over components and features."""
        n0, R, lam0 = marginal_degrees(prior), scale_diagonal(prior), prior.mean_precision
        n, ratio = q.degrees[:, None], (lam0 / q.mean_precisions)[:, None]
        normal = 0.5 * (
            ratio - 1 - np.log(ratio) + lam0 * n * (q.means - prior.mean) ** 2 / q.scales
        )
        wishart = 0.5 * (
            n0 * np.log(q.scales / R) + n * (R / q.scales - 1) + (n - n0) * digamma(n / 2)
        ) + (gammaln(n0 / 2) - gammaln(n / 2))
        return float((normal + wishart).sum())


class Tied:
    """One covariance for all components of all classes."""

    def n_features(self, d: int) -> int:
        return 1 + d

    def write_features(self, X: Array, out: Array) -> None:
        out[0] = 1.0
        out[1:] = X

    def empty_moments(self, n_components: int, d: int) -> Moments:
        return _empty_moments(n_components, d, self.n_features(d), common=d)

    def density(self, components: Components) -> Density:
        m, lower = components.means, components.spread
        J, d = m.shape
        inverse = _inverses(lower)[0]
        whitened = m @ inverse.T
        constant = -0.5 * (d * LOG_2PI + log_determinants(lower)[0])
        linear = np.column_stack([constant - 0.5 * (whitened**2).sum(axis=1), whitened @ inverse])
        return Density(linear, *_no_projections(J, d), inverse)

    def maximise(
        self, moments: Moments, prior: NormalPrior, previous: Components | None = None
    ) -> Components:
        lam, mu = prior.mean_precision, prior.mean
        N, M = moments.features[:, 0], moments.features[:, 1:]
        J, d = M.shape
        m = (M + lam * mu) / (N + lam)[:, None]
        S = moments.common + scale_matrix(prior) + J * lam * np.outer(mu, mu)
        S -= (m.T * (N + lam)) @ m
        # J normal priors of means and one inverse Wishart have |Σ| in their density.
        S /= N.sum() + prior.degrees + d + 1 + J
        return Components(m, cholesky_stack(S[None]), np.empty((J, d, 0)))

    def log_prior(self, components: Components, prior: NormalPrior) -> float:
        m, lower = components.means, components.spread
        J, d = m.shape
        one = Full().log_prior(Components(prior.mean[None], lower, np.empty((1, d, 0))), prior)
        lam, log_det = prior.mean_precision, log_determinants(lower)[0]
        centred = (m - prior.mean) @ _inverses(lower)[0].T
        at_its_mean = -0.5 * (d * (LOG_2PI - np.log(lam)) + log_det)
        return float(one + (J - 1) * at_its_mean - 0.5 * lam * (centred**2).sum())


@dataclass(frozen=True)
class Factor:
    """Σ = W Wᵀ + Ψ with q factors: full covariances of many features cost d q numbers, not d².

    x = W f + m + ε, f ~ N(0, I), ε ~ N(0, Ψ). Given Ψ, each row of (W, m) is normal with
    precision (1, λ)/Ψ_j about (0, μ_j), and each Ψ_j is inverse gamma as in the diagonal family.
    The factors are one more missing value of EM, so the M-step is exact and in closed form
    (Ghahramani & Hinton 1996).
    """

    n_factors: int

    def n_features(self, d: int) -> int:
        return 1 + 2 * d

    def write_features(self, X: Array, out: Array) -> None:
        _write_squares(X, out)

    def empty_moments(self, n_components: int, d: int) -> Moments:
        return _empty_moments(n_components, d, self.n_features(d), projected=self.n_factors)

    def density(self, components: Components) -> Density:
        m, noise, _ = components
        d = m.shape[1]
        G, lower = self._projections(components)
        log_det = np.log(noise).sum(axis=1) + log_determinants(lower)
        linear = _diagonal_linear(m, 1 / noise, -0.5 * (d * LOG_2PI + log_det))
        return Density(linear, G, (G @ m[:, :, None])[:, :, 0], np.empty((0, 0)))

    def _projections(self, components: Components) -> tuple[Array, Array]:
        """Return G (J, q, d) = L⁻¹ Wᵀ Ψ⁻¹ and L (J, q, q), the lower factor of I + Wᵀ Ψ⁻¹ W."""
        _, noise, W = components
        scaled = W / noise[:, :, None]
        lower = cholesky_stack(np.eye(W.shape[2]) + W.transpose(0, 2, 1) @ scaled)
        return _inverses(lower) @ scaled.transpose(0, 2, 1), lower

    def maximise(
        self, moments: Moments, prior: NormalPrior, previous: Components | None = None
    ) -> Components:
        d, q = len(prior.mean), self.n_factors
        if previous is None:  # the first M-step of a start: no factors yet to regress on
            return self._start(moments, prior)
        held = np.flatnonzero(moments.features[:, 0] > 0)
        if len(held) < len(moments.features):  # without rows: the mode of the prior
            out = self._mode(len(moments.features), prior)
            some = Moments(moments.features[held], moments.projected[held], moments.common)
            found = self.maximise(some, prior, Components(*(part[held] for part in previous)))
            for whole, part in zip(out, found):
                whole[held] = part
            return out
        J = len(moments.features)
        N, s, squares = np.split(moments.features, [1, 1 + d], axis=1)
        N = N[:, 0]
        G, lower = self._projections(previous)
        inverse = _inverses(lower)
        m, W = previous.means, previous.loadings
        beta = inverse.transpose(0, 2, 1) @ G  # E[f | x] = β (x − m)
        beta_m, beta_s = (beta @ m[:, :, None])[:, :, 0], (beta @ s[:, :, None])[:, :, 0]
        T = moments.projected @ inverse  # Σ r x (β x)ᵀ
        A = np.empty((J, q + 1, q + 1))  # Σ r E[f̃ f̃ᵀ], f̃ = (f, 1)
        A[:, q, q] = N
        A[:, :q, q] = A[:, q, :q] = beta_s - N[:, None] * beta_m
        outer = np.einsum("jq,jp->jqp", beta_s, beta_m)
        A[:, :q, :q] = (
            beta @ T
            - outer
            - outer.transpose(0, 2, 1)
            + N[:, None, None] * np.einsum("jq,jp->jqp", beta_m, beta_m)
            + N[:, None, None] * (np.eye(q) - beta @ W)
        )
        B = np.concatenate([T - s[:, :, None] * beta_m[:, None, :], s[:, :, None]], axis=2)
        precision = np.r_[np.ones(q), prior.mean_precision]
        A = 0.5 * (A + A.transpose(0, 2, 1)) + np.diag(precision)
        B[:, :, q] += prior.mean_precision * prior.mean
        coefficients = B @ np.linalg.inv(A)  # A is small, and at least the prior's precision
        R = scale_diagonal(prior)
        residual = squares + R + prior.mean_precision * prior.mean**2
        residual -= (coefficients * B).sum(axis=2)
        # Beyond R is a sum of squares, as above.
        noise = np.maximum(residual, R) / (N + marginal_degrees(prior) + 2 + q + 1)[:, None]
        return Components(coefficients[:, :, q].copy(), noise, coefficients[:, :, :q].copy())

    def _mode(self, n_components: int, prior: NormalPrior) -> Components:
        noise = scale_diagonal(prior) / (marginal_degrees(prior) + 3 + self.n_factors)
        J, d = n_components, len(noise)
        return Components(
            np.tile(prior.mean, (J, 1)), np.tile(noise, (J, 1)), np.zeros((J, d, self.n_factors))
        )

    def _start(self, moments: Moments, prior: NormalPrior) -> Components:
        d, q = len(prior.mean), self.n_factors
        plain = Diagonal().maximise(moments._replace(projected=np.empty((0, 0, 0))), prior)
        # Small loadings along changing features; zero ones would be a saddle point.
        pattern = np.cos(np.outer(np.arange(d) + 0.5, np.arange(1, q + 1)) * np.pi / d)
        loadings = 0.3 * np.sqrt(plain.spread)[:, :, None] * pattern
        return Components(plain.means, plain.spread, loadings)

    def log_prior(self, components: Components, prior: NormalPrior) -> float:
        m, noise, W = components
        of_means = _log_normal_inverse_gamma(m, noise, prior, prior.mean_precision)
        log_noise = np.log(noise)[:, :, None]
        return float(of_means - 0.5 * (LOG_2PI + log_noise + W**2 / noise[:, :, None]).sum())


def _empty_moments(
    n_components: int, d: int, n_features: int, *, projected: int = 0, common: int = 0
) -> Moments:
    return Moments(
        np.zeros((n_components, n_features)),
        np.zeros((n_components, d, projected)),
        np.zeros((common, common)),
    )


def family(name: str, n_factors: int) -> Family:
    """Return the family of that name: "full", "diagonal", "tied" or "factor".

    Examples
    --------
    >>> family("diagonal", 0).n_features(3)
    7
    """
    families: dict[str, Family] = {"full": Full(), "diagonal": Diagonal(), "tied": Tied()}
    return Factor(n_factors) if name == "factor" else families[name]


def scores(density: Density, X: Array, features: Array) -> tuple[Array, Array]:
    """Return log-densities (J, b) of rows X (d, b), and the projections (J, q, b) behind them."""
    out = density.linear @ features
    J, q, d = density.projections.shape
    raw = np.empty((J, q, 0))
    if q:
        raw = (density.projections.reshape(J * q, d) @ X).reshape(J, q, -1)
        out += 0.5 * ((raw - density.offsets[:, :, None]) ** 2).sum(axis=1)
    if density.common.size:
        out -= 0.5 * ((density.common @ X) ** 2).sum(axis=0)
    return out, raw


def add_moments(
    moments: Moments, X: Array, features: Array, responsibilities: Array, raw: Array
) -> None:
    """Add rows X (d, b) with responsibilities (J, b) to `moments`, in place."""
    R = responsibilities
    moments.features[:] += R @ features.T
    J, q, b = raw.shape
    if q:
        weighted = (R[:, None, :] * raw).reshape(J * q, b)
        moments.projected[:] += (weighted @ X.T).reshape(J, q, -1).transpose(0, 2, 1)
    if moments.common.size:
        moments.common[:] += X @ X.T
