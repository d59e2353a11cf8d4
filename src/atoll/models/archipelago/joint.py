"""The joint density (equation 8), written once; both sweeps take their densities from here.

    p = C(M + n − 1, M)                                                 log_orders
        × Π_k GP(u_k | θ_k)                                             log_functions
        × Π_labelled e^{g_l}/(1 + Λ) Π_unlabelled Λ/(1 + Λ) Π_rejected 1/(1 + Λ)     RowFactors
        × Π π(x) over data and rejections                               log_places
        × N(θ | mean, sd²) N(w | 0, spread²)                            log_parameters, log_mixing

The first factor, which equation 8 lacks and equations 9 and 10 have, is the number of orders of the
history that end on an acceptance. Summed over rejections, C(M + n − 1, M) (1 − Z)^M is Z^{-n}: that
is equation 7. The last line is section 3.4's, and section 5.2's for the weights w of A.
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
from atoll.models.archipelago.likelihood import Outcomes
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

    Of functions u, the rejections, data, θ and the weights of A given π. Candidates are no part of
    it: the state has none (see `sweep.settle_rejections`).
    """
    n, n_rejections = len(setting.inputs), len(state.rejections)
    size = state.whitened.size + state.log_parameters.size + state.mixing.size
    return (
        log_orders(n, n_rejections)
        + sum(
            log_functions(lower, state.whitened[:, served_by(f, len(state.factors))])
            for f, lower in enumerate(state.factors)
        )
        + row_factors(setting, state).log_likelihood(unwhiten(state.factors, state.whitened))
        + log_places(setting, state)
        + log_parameters(setting.prior, state.log_parameters)
        - len(state.log_parameters) * float(np.log(setting.prior.sd).sum())
        + log_mixing(state.mixing)
        - size * HALF_LOG_2PI
    )


def log_orders(n: int, n_rejections: int) -> float:
    """Return log C(M + n − 1, M): the orders of a history that ends on its n-th acceptance."""
    return lgamma(n_rejections + n) - lgamma(n) - lgamma(n_rejections + 1)


def log_functions(lower: Array, whitened: Array) -> float:
    """Return log GP(u), u = L ν, but for its powers of 2π; whitened (T, J), J functions of one L.

    The first term of equation 12.
    """
    of_determinant = whitened.shape[1] * cholesky_log_det(lower)
    return -0.5 * (float(np.sum(whitened**2)) + of_determinant)


def log_parameters(prior: KernelPrior, theta: Array) -> float:
    """Return log N(θ | mean, sd²) up to a constant; theta (F, p)."""
    return -0.5 * float(np.sum(((theta - prior.mean) / prior.sd) ** 2))


def log_mixing(mixing: Array) -> float:
    """Return log N(w | 0, spread²), but for its powers of 2π; mixing (q,)."""
    squares = float(mixing @ mixing) / MIXING_SPREAD**2
    return -0.5 * squares - len(mixing) * float(np.log(MIXING_SPREAD))


def log_places(setting: Setting, state: ArchipelagoState) -> float:
    """Return Σ log π(x) over data and rejections."""
    rows = np.concatenate([setting.inputs, state.rejections])
    return float(current_base(setting, state).log_density(rows).sum())


class RowFactors(NamedTuple):
    """The product over rows in equation 8, as a function of u; and equation 12, whitened.

    outcomes : of the T rows
    A : (K, K), g = A u; None: functions are not mixed
    """

    outcomes: Outcomes
    A: Array | None

    def log_likelihood(self, u: Array) -> float:
        """Return the logarithm of the product over rows; u (T, K)."""
        return self.outcomes.total(mixed(u, self.A))

    def slope(self, u: Array) -> Array:
        """Return its gradient in u, (T, K)."""
        if self.A is None:
            return self.outcomes.gradient(u)
        return self.outcomes.gradient(u @ self.A.T) @ self.A

    def log_density(self, u: Array, *whitened: Array) -> float:
        """Return equation 12 in whitened coordinates, up to a constant.

        Parameters
        ----------
        u : (T, K)
        whitened : all that moves, each as standard normal as the prior has it: ν with u = L ν, and
            (θ − mean)/sd where θ moves with it
        """
        squares = sum(np.vdot(part, part) for part in whitened)
        return self.log_likelihood(u) - 0.5 * float(squares)


def whitened_slope(factors: Array, slope: Array, whitened: Array) -> Array:
    """Return the gradient of `RowFactors.log_density` in ν from that in u, (T, K) both."""
    return unwhiten_transposed(factors, slope) - whitened


def row_factors(setting: Setting, state: ArchipelagoState) -> RowFactors:
    """Return the factors of data and rejections: labelled, unlabelled and rejected."""
    A = mixing_or_none(state.mixing, setting.n_classes)
    return RowFactors(outcomes_at(setting, state), A)


def open_row_factors(setting: Setting, state: ArchipelagoState) -> RowFactors:
    """Return the factors while it is open which rows are rejections and which are candidates.

    Let proposals come at the times of a Poisson process. The time t of the last is then Gamma, the
    rejections are a Poisson process of intensity t π/(1 + Λ) and the candidates one of κ t π:
    together one of t π (κ + 1/(1 + Λ)), and of each row that is a rejection or a candidate the
    factor in brackets depends on the functions.
    """
    A = mixing_or_none(state.mixing, setting.n_classes)
    return RowFactors(open_outcomes_at(setting, state), A)
