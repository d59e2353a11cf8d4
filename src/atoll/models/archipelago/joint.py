"""The joint density (equation 8), written once; both sweeps take their densities from here.

    p = C(M + n − 1, M)                                        `log_orders`
        × Π_k GP(u_k | θ_k)                                    `log_functions`
        × Π_n exp g_l / (1 + Λ)    over labelled rows          `RowFactors`, all three products
        × Π_p Λ / (1 + Λ)          over unlabelled rows
        × Π_m 1 / (1 + Λ)          over rejections
        × Π π(x)                   over all of them            `log_places`
        × N(θ | mean, sd²)         section 3.4                 `log_parameters`
        × N(w | 0, spread²)        the weights of A, ours      `log_mixing`

The first factor, which equation 8 lacks and equations 9 and 10 have, is the number of orders of the
history that end on an acceptance. Summed over M, the first factor times (1 − Z)^M is Z^{-n}, and
the joint is equation 7.
"""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import cholesky_log_det
from atoll.kernels.hyperparameters import KernelPrior
from atoll.models.archipelago.functions import (
    MIXING_SPREAD,
    Setting,
    mixed,
    mixing_or_none,
    served_by,
    unwhiten,
    unwhiten_transposed,
)
from atoll.models.archipelago.likelihood import Outcomes, OutcomesByClass
from atoll.models.archipelago.state import (
    ArchipelagoState,
    current_base,
    open_outcomes_at,
    outcomes_at,
)

Array = NDArray[np.float64]

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


def log_joint(setting: Setting, state: ArchipelagoState) -> float:
    """Return the logarithm of equation 8 with its factor, and of the priors of θ and A.

    It is the density of functions u, rejections, data, θ and weights, given π, of a state without
    candidates (see `sweep.settle_rejections`).
    """
    prior, theta, factors = setting.prior, state.log_parameters, state.factors
    n_normal = state.whitened.size + theta.size + state.mixing.size
    return (
        log_orders(len(setting.inputs), len(state.rejections))
        + sum(
            log_functions(lower, state.whitened[:, served_by(f, len(factors))])
            for f, lower in enumerate(factors)
        )
        + row_factors(setting, state).log_likelihood(unwhiten(factors, state.whitened))
        + log_places(setting, state)
        + log_parameters(prior, theta)
        + log_mixing(state.mixing)
        # What the normal densities above leave out, because no step needs it.
        - n_normal * HALF_LOG_2PI
        - len(theta) * float(np.log(prior.sd).sum())
        - len(state.mixing) * float(np.log(MIXING_SPREAD))
    )


def log_orders(n: int, n_rejections: int) -> float:
    """Return log C(M + n − 1, M): the orders of a history that ends on its n-th acceptance."""
    return lgamma(n_rejections + n) - lgamma(n) - lgamma(n_rejections + 1)


def log_functions(lower: Array, whitened: Array) -> float:
    """Return log GP(u), u = L ν, up to a constant; whitened (T, J), of J functions that share L.

    It is the first term of equation 12, with the determinant, on which θ depends.
    """
    of_determinant = whitened.shape[1] * cholesky_log_det(lower)
    return -0.5 * (float(np.sum(whitened**2)) + of_determinant)


def log_parameters(prior: KernelPrior, theta: Array) -> float:
    """Return log N(θ | mean, sd²) up to a constant; theta (F, p)."""
    return -0.5 * float(np.sum(((theta - prior.mean) / prior.sd) ** 2))


def log_mixing(mixing: Array) -> float:
    """Return log N(w | 0, spread²) up to a constant; mixing (q,)."""
    return -0.5 * float(mixing @ mixing) / MIXING_SPREAD**2


def log_places(setting: Setting, state: ArchipelagoState) -> float:
    """Return Σ log π(x) over data and rejections."""
    rows = np.concatenate([setting.inputs, state.rejections])
    return float(current_base(setting, state).log_density(rows).sum())


class RowFactors(NamedTuple):
    """The products over rows in equation 8, as a function of u; and with them equation 12.

    outcomes : of the T rows
    A : (K, K), g = A u; None: functions are not mixed
    """

    outcomes: Outcomes
    A: Array | None

    def log_likelihood(self, u: Array) -> float:
        """Return the logarithm of the products over rows; u (T, K)."""
        return self.outcomes.total(mixed(u, self.A))

    def slope(self, u: Array) -> Array:
        """Return its gradient in u, (T, K)."""
        if self.A is None:
            return self.outcomes.gradient(u)
        return self.outcomes.gradient(u @ self.A.T) @ self.A

    def by_class(self) -> RowSlopes:
        """Return what finds the gradient at many places."""
        return RowSlopes(self.outcomes.by_class(), self.A)

    def log_density(self, u: Array, *whitened: Array) -> float:
        """Return equation 12, up to a constant, as a density of what is standard normal a priori.

        Parameters
        ----------
        u : (T, K)
        whitened : all that moves: ν with u = L ν, and (θ − mean)/sd where θ moves with it
        """
        squares = sum(np.vdot(part, part) for part in whitened)
        return self.log_likelihood(u) - 0.5 * float(squares)


class RowSlopes(NamedTuple):
    """The gradient of `RowFactors.log_likelihood`, class by class.

    outcomes : of the T rows
    A : as in `RowFactors`
    """

    outcomes: OutcomesByClass
    A: Array | None

    def slope(self, u: Array) -> tuple[Array, float]:
        """Return the gradient in u, (K, T) -> (K, T), and its product with u."""
        if self.A is None:
            return self.outcomes.gradient(u)
        by_g, product = self.outcomes.gradient(self.A @ u)
        return self.A.T @ by_g, product


def whitened_slope(factors: Array, slope: Array, whitened: Array) -> Array:
    """Return the gradient of `RowFactors.log_density` in ν from that in u, (T, K) both."""
    return unwhiten_transposed(factors, slope) - whitened


def row_factors(setting: Setting, state: ArchipelagoState) -> RowFactors:
    """Return the factors of data and rejections: labelled, unlabelled and rejected."""
    A = mixing_or_none(state.mixing, setting.n_classes)
    return RowFactors(outcomes_at(setting, state), A)


def open_row_factors(setting: Setting, state: ArchipelagoState) -> RowFactors:
    """Return the factors while it is open which rows are rejections and which are candidates.

    Let proposals come at the times of a Poisson process. Given the time t of the last one, the
    rejections are a Poisson process of intensity t π/(1 + Λ), and the candidates one of intensity
    κ t π. Together they are one of intensity t π (κ + 1/(1 + Λ)): so each of these rows has the
    factor κ + 1/(1 + Λ).
    """
    A = mixing_or_none(state.mixing, setting.n_classes)
    return RowFactors(open_outcomes_at(setting, state), A)
