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
    unwhiten_by_class,
    unwhiten_by_class_transposed,
)
from atoll.models.archipelago.joint import RowFactors, RowSlopes, open_row_factors
from atoll.models.archipelago.state import ArchipelagoState, known_rows

Array = NDArray[np.float64]

UNIT = 0.7  # prior standard deviations: given the functions θ is stiffer than they are
FARTHEST = 10.0  # standard deviations of a log-parameter's prior, beyond which no step goes
DIFFERENCE = 1e-4  # in a log-parameter, by which a slope is found


class Together(NamedTuple):
    """The density of θ and ν given the rows, as `hmc.nested_step` takes it; ν class by class.

    setting : the prior
    rows : factors of the rows
    slopes_of_rows : their gradient
    gram_at : θ of one kernel -> C at all rows
    """

    setting: Setting
    rows: RowFactors
    slopes_of_rows: RowSlopes
    gram_at: Callable[[Array], Array]

    def kernels(self, position: Array) -> Kernels | None:
        """Return the kernels at θ in units of `UNIT`, (F, p); None where θ has gone too far."""
        prior = self.setting.prior
        if np.abs(position).max() > FARTHEST / UNIT:
            return None
        return kernels_at(self.gram_at, prior.mean + UNIT * prior.sd * position)

    def log_density(self, kernels: Kernels, whitened: Array) -> float:
        """Return the log density, up to a constant; whitened (K, T)."""
        prior, u = self.setting.prior, unwhiten(kernels.factors, whitened.T)
        return self.rows.log_density(u, (kernels.theta - prior.mean) / prior.sd, whitened)

    def by_whitened(self, kernels: Kernels, whitened: Array) -> Array:
        """Return its gradient in ν, (K, T)."""
        by_u, _ = self.slopes_of_rows.slope(unwhiten_by_class(kernels.factors, whitened))
        return unwhiten_by_class_transposed(kernels.factors, by_u) - whitened

    def slopes(self, kernels: Kernels, whitened: Array) -> tuple[Array, Array]:
        """Return its gradients in θ, in units of `UNIT`, (F, p), and in ν, (K, T).

        The log variance scales u. Each other log-parameter takes one more factor and the difference
        that it makes.
        """
        prior, theta = self.setting.prior, kernels.theta
        u = unwhiten_by_class(kernels.factors, whitened)
        by_u, product = self.slopes_of_rows.slope(u)
        here = _by_kernel(by_u, u) if len(theta) > 1 else np.array([product])
        by_theta = np.empty(theta.shape)
        for j in range(theta.shape[1]):
            if j == prior.variance_index:
                by_theta[:, j] = 0.5 * here
                continue
            beside = theta.copy()
            beside[:, j] += DIFFERENCE
            moved = unwhiten_by_class(kernels_at(self.gram_at, beside).factors, whitened)
            there = _by_kernel(by_u, moved) if len(theta) > 1 else np.vdot(by_u, moved)
            by_theta[:, j] = (there - here) / (beside[:, j] - theta[:, j])
        by_theta -= (theta - prior.mean) / prior.sd**2
        by_whitened = unwhiten_by_class_transposed(kernels.factors, by_u) - whitened
        return UNIT * prior.sd * by_theta, by_whitened


def _by_kernel(a: Array, b: Array) -> Array:
    """Sum products over rows, where each function has its own kernel; (K, T) twice -> (K,)."""
    return (a * b).sum(axis=1)


def target_of(setting: Setting, state: ArchipelagoState) -> Together:
    """Return the density at the state's rows."""
    gram_at, rows = (
        gram_at_rows(setting, known_rows(setting, state)),
        open_row_factors(setting, state),
    )
    return Together(setting, rows, rows.by_class(), gram_at)


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
    momenta = (
        rng.standard_normal(position.shape),
        np.ascontiguousarray(rng.standard_normal(state.whitened.shape).T),
    )
    start = np.ascontiguousarray(state.whitened.T)
    # A step gone astray is refused.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        _, whitened, kernels, info = hmc.nested_step(
            rng, position, start, nested, step_size, n_leapfrog, momenta
        )
    if info.accepted:
        state = state._replace(
            whitened=np.ascontiguousarray(whitened.T), log_parameters=kernels.theta,
            factors=kernels.factors, jitter=kernels.jitter,
        )  # fmt: skip
    return state, info
