"""The state of the chain (section 3): the latent history of the process, and how steps are tuned.

The paper's latent variables are the number of rejections, their places, and the functions at the
rejections and at the data. Beside them are the kernel's log-parameters and the base density
(section 3.4), the weights of A (section 5.2), and candidates, which are our own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.densities import Density, Gaussian, NormalInverseWishart
from atoll.inference import elliptical_slice, hmc
from atoll.models.archipelago.functions import (
    Kernels,
    KnownFunctions,
    Setting,
    gram_at_rows,
    kernels_at,
    mixed,
    mixing_or_none,
    unwhiten,
    whiten,
)
from atoll.models.archipelago.likelihood import REJECTED, Outcomes, opened, outcomes_of

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

LEAST_CURVATURE, FIRST_CURVATURE = 0.003, 0.03
LEAST_OF_ONE = 0.0003  # of one row in one function
FIRST_SPREAD = 0.5  # of θ, in standard deviations of its prior
NOT_SAMPLED = Gaussian(np.zeros(0), np.zeros((0, 0)))  # a base density that stays as it is


class Tuning(NamedTuple):
    """What warm-up finds of the posterior, by which Hamiltonian steps are scaled.

    of_data : (n, K) the mean curvature of the log-likelihood of each row in each function, W
    of_others : (K,) the same of any other row
    log_parameters, variances : (F, p) mean and variances of θ
    n_adapted : number of states that went into it
    """

    of_data: Array
    of_others: Array
    log_parameters: Array
    variances: Array
    n_adapted: int

    def precisions(self, n_rows: int) -> Array:
        """Return W of each row in each function; the first n rows are data; (T, K)."""
        n, K = self.of_data.shape
        W = np.empty((n_rows, K))
        W[:n], W[n:] = self.of_data, self.of_others
        return np.maximum(W, LEAST_OF_ONE)

    def mean_precisions(self, n_rows: int) -> Array:
        """Return W on average over functions, one number for data and one for others; (T,)."""
        W = np.full(n_rows, max(float(self.of_others.mean()), LEAST_CURVATURE))
        W[: len(self.of_data)] = max(float(self.of_data.mean()), LEAST_CURVATURE)
        return W


class ArchipelagoState(NamedTuple):
    """What the next sweep needs; rows are the n data, the M rejections and the candidates: T rows.

    rejections : (M, d), or (M,) objects
    candidates : rows that might be rejections once the functions have moved
    candidate_rate : κ, for each proposal; 0: there are none, and rejections are nothing else
    usual_proposals : n + M on average, found in warm-up
    whitened : (T, K) ν, u = L ν
    log_parameters : (F, p), F = 1, or K with own kernels
    mixing : (q,) weights of A, q = K(K − 1)/2 where functions are dependent, else 0
    base : π where it is sampled, else of dimension 0
    factors : (F, T, T) L
    jitter : that the factors took
    step_size, acceptance : of Hamiltonian Monte Carlo over functions
    parameter_step_size : of θ
    tuning : by which steps are scaled
    arc : of θ in the paper's sweep with whitened functions
    n_refused : renewals of the rejections in a row that ran past the most proposals; many of them
        stay, and say that the chain renews rejections otherwise
    start_codes : (n,) labels of every row, held while `n_clamped` sweeps are left
    n_clamped : sweeps to go with those labels
    """

    rejections: Any
    candidates: Any
    candidate_rate: float
    usual_proposals: float
    whitened: Array
    log_parameters: Array
    mixing: Array
    base: Gaussian
    factors: Array
    jitter: float
    step_size: hmc.StepSize
    acceptance: float
    parameter_step_size: hmc.StepSize
    tuning: Tuning
    arc: elliptical_slice.ArcWidth
    n_refused: int
    start_codes: Codes
    n_clamped: int


def make_state(
    setting: Setting,
    rejections: Any,
    u: Array,
    log_parameters: Array,
    mixing: Array,
    base: Density | None = None,
) -> ArchipelagoState:
    """Return a state with these rejections, (M, ...), and functions u, (n + M, K)."""
    rows = np.concatenate([setting.inputs, rejections])
    kernels = kernels_at(gram_at_rows(setting, rows), log_parameters)
    whitened = whiten(kernels.factors, u)
    return make_whitened_state(setting, rejections, kernels, whitened, mixing, base)


def make_whitened_state(
    setting: Setting,
    rejections: Any,
    kernels: Kernels,
    whitened: Array,
    mixing: Array,
    base: Density | None = None,
) -> ArchipelagoState:
    """Return a state with these rejections, kernels at all rows, and whitened functions."""
    return ArchipelagoState(
        rejections=rejections,
        candidates=rejections[:0],
        candidate_rate=0.0,
        usual_proposals=float(len(whitened)),
        whitened=whitened,
        log_parameters=kernels.theta,
        mixing=mixing,
        base=base if isinstance(base, Gaussian) else NOT_SAMPLED,
        factors=kernels.factors,
        jitter=kernels.jitter,
        step_size=hmc.init_step_size(0.3),
        acceptance=1.0,
        parameter_step_size=hmc.init_step_size(0.1),
        tuning=Tuning(
            np.full((len(setting.inputs), setting.n_classes), FIRST_CURVATURE),
            np.full(setting.n_classes, FIRST_CURVATURE),
            np.tile(setting.prior.mean, (len(kernels.theta), 1)),
            np.tile((FIRST_SPREAD * setting.prior.sd) ** 2, (len(kernels.theta), 1)),
            0,
        ),
        arc=elliptical_slice.init_width(),
        n_refused=0,
        start_codes=setting.codes.copy(),
        n_clamped=0,
    )


def known_rows(setting: Setting, state: ArchipelagoState) -> Any:
    """Return the rows at which functions are known, (T, ...)."""
    return np.concatenate([setting.inputs, state.rejections, state.candidates])


def known_functions(setting: Setting, state: ArchipelagoState) -> KnownFunctions:
    """Return all that is known of the functions."""
    return KnownFunctions(
        rows=known_rows(setting, state),
        whitened=state.whitened,
        factors=state.factors,
        log_parameters=state.log_parameters,
        mixing=state.mixing,
    )


def latent_at(setting: Setting, state: ArchipelagoState) -> Array:
    """Return g at data and rejections, (n + M, K)."""
    u = unwhiten(state.factors, state.whitened)[: len(setting.inputs) + len(state.rejections)]
    return mixed(u, mixing_or_none(state.mixing, setting.n_classes))


def outcomes_at(setting: Setting, state: ArchipelagoState) -> Outcomes:
    """Return what is known of data and rejections."""
    others = np.full(len(state.rejections), REJECTED)
    return outcomes_of(np.concatenate([_data_codes(setting, state), others]), setting.n_classes)


def open_outcomes_at(setting: Setting, state: ArchipelagoState) -> Outcomes:
    """Return what is known of every row while functions move: not which is a candidate."""
    others = np.full(len(state.rejections) + len(state.candidates), REJECTED)
    codes = np.concatenate([_data_codes(setting, state), others])
    outcomes = outcomes_of(codes, setting.n_classes)
    return opened(outcomes, len(setting.inputs), state.candidate_rate)


def _data_codes(setting: Setting, state: ArchipelagoState) -> Codes:
    return state.start_codes if state.n_clamped > 0 else setting.codes


def current_base(setting: Setting, state: ArchipelagoState) -> Density:
    """Return π as it is now."""
    return state.base if isinstance(setting.base, NormalInverseWishart) else setting.base
