"""A Hamiltonian step of few log-parameters together with all functions, in white noise itself.

Where rejections are few the rows hold white noise little: u = L(θ) ν goes with θ while ν moves too,
and nothing is held. Every leapfrog step of θ takes a factor, and has two of the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.inference import hmc
from atoll.models.archipelago.functions import (
    Kernels,
    Setting,
    gram_at_rows,
    kernels_at,
    unwhiten,
)
from atoll.models.archipelago.joint import RowFactors, open_row_factors, whitened_slope
from atoll.models.archipelago.state import ArchipelagoState, known_rows

Array = NDArray[np.float64]

UNIT = 0.7  # prior standard deviations: given the functions θ is stiffer than they are
FARTHEST = 10.0  # standard deviations of a log-parameter's prior, beyond which no step goes
DIFFERENCE = 1e-4  # in a log-parameter, by which a slope is found


class Together(NamedTuple):
    """The density of θ and ν given the rows, as `hmc.nested_step` takes it.

    setting : the prior
    rows : factors of the rows
    gram_at : θ of one kernel -> C at all rows
    """

    setting: Setting
    rows: RowFactors
    gram_at: Callable[[Array], Array]

    def kernels(self, position: Array) -> Kernels | None:
        """Return the kernels at θ in units of `UNIT`, (F, p); None where θ has gone too far."""
        prior = self.setting.prior
        if np.abs(position).max() > FARTHEST / UNIT:
            return None
        return kernels_at(self.gram_at, prior.mean + UNIT * prior.sd * position)

    def log_density(self, kernels: Kernels, whitened: Array) -> float:
        """Return the log density, up to a constant."""
        prior, u = self.setting.prior, unwhiten(kernels.factors, whitened)
        return self.rows.log_density(u, (kernels.theta - prior.mean) / prior.sd, whitened)

    def by_whitened(self, kernels: Kernels, whitened: Array) -> Array:
        """Return its gradient in ν, (T, K)."""
        by_u = self.rows.slope(unwhiten(kernels.factors, whitened))
        return whitened_slope(kernels.factors, by_u, whitened)

    def slopes(self, kernels: Kernels, whitened: Array) -> tuple[Array, Array]:
        """Return its gradients in θ, in units of `UNIT`, (F, p), and in ν, (T, K).

        The log variance scales u. Each other log-parameter takes one more factor and the difference
        that it makes.
        """
        prior, theta = self.setting.prior, kernels.theta
        u = unwhiten(kernels.factors, whitened)
        by_u = self.rows.slope(u)
        here, by_theta = _by_kernel(by_u, u, len(theta)), np.empty(theta.shape)
        for j in range(theta.shape[1]):
            if j == prior.variance_index:
                by_theta[:, j] = 0.5 * here
                continue
            beside = theta.copy()
            beside[:, j] += DIFFERENCE
            moved = unwhiten(kernels_at(self.gram_at, beside).factors, whitened)
            difference = _by_kernel(by_u, moved, len(theta)) - here
            by_theta[:, j] = difference / (beside[:, j] - theta[:, j])
        by_theta -= (theta - prior.mean) / prior.sd**2
        return UNIT * prior.sd * by_theta, whitened_slope(kernels.factors, by_u, whitened)


def _by_kernel(a: Array, b: Array, n_kernels: int) -> Array:
    """Sum products over rows and over each kernel's functions; (T, K) twice -> (F,)."""
    return np.array([np.vdot(a, b)]) if n_kernels == 1 else (a * b).sum(axis=0)


def target_of(setting: Setting, state: ArchipelagoState) -> Together:
    """Return the density at the state's rows."""
    gram_at = gram_at_rows(setting, known_rows(setting, state))
    return Together(setting, open_row_factors(setting, state), gram_at)


def step(
    rng: np.random.Generator,
    setting: Setting,
    state: ArchipelagoState,
    step_size: float,
    n_leapfrog: int,
) -> tuple[ArchipelagoState, hmc.HMCInfo]:
    """Take one Hamiltonian step of all log-parameters and of all K whitened functions."""
    target, prior = target_of(setting, state), setting.prior
    nested = hmc.Nested(target.kernels, target.log_density, target.by_whitened, target.slopes)
    position = (state.log_parameters - prior.mean) / (UNIT * prior.sd)
    with np.errstate(over="ignore", invalid="ignore"):  # a step gone astray is refused
        _, whitened, kernels, info = hmc.nested_step(
            rng, position, state.whitened, nested, step_size, n_leapfrog
        )
    if info.accepted:
        state = state._replace(
            whitened=whitened, log_parameters=kernels.theta, factors=kernels.factors,
            jitter=kernels.jitter,
        )  # fmt: skip
    return state, info
