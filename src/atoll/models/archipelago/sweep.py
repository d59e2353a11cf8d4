"""Our sweep: renewed rejections, and Hamiltonian steps of all functions, at times with θ.

Three things differ from the paper's sweep, which is in `paper_sweep`. The rejections are renewed as
a block: given the whole function they do not depend on the data, so that running the process
forward draws them exactly (Rao, Lin & Dunson 2016). The function is known at the data and at the
*old* rejections, and the new ones are drawn given both; only then are the old ones dropped. All K
functions and their amplitude move in one Hamiltonian step, and θ with them in one such step of
many, with gradients through the Cholesky factor. And while they move it is open which rows are
rejections: candidates from π are among them, κ for each proposal of the history, and every one has
the factor κ + 1/(1 + Λ). So an M that was drawn given the functions does not hold them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atoll.core.densities import NormalInverseWishart
from atoll.core.linalg import (
    Factor,
    bordered_factor,
    jittered_cholesky,
    solve_lower,
)
from atoll.inference import elliptical_slice
from atoll.kernels.hyperparameters import (
    KernelPrior,
)
from atoll.models.archipelago import process
from atoll.models.archipelago.functions import (
    MIXING_SPREAD,
    Setting,
    corner_factor,
    covariances_at,
    mixed,
    mixing_matrix,
    served_by,
    stacked,
    unwhiten,
)
from atoll.models.archipelago.joint import open_row_factors
from atoll.models.archipelago.likelihood import REJECTED, log_rejection
from atoll.models.archipelago.process import CANDIDATE, Run, TooManyRejections
from atoll.models.archipelago.state import (
    ArchipelagoState,
    current_base,
    known_functions,
    known_rows,
)
from atoll.models.archipelago.steps import (
    FEW_PARAMETERS,
    moves_together,
    sample_functions,
    sample_log_parameters,
    tuned,
)

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Candidates: about this many, but at most this many for each proposal. More would free the
# functions further from M, but each costs a row.
CANDIDATES, MOST_CANDIDATE_RATE = 16.0, 0.3
# Of the sweeps, in which θ moves: few log-parameters with the functions, or without, and many.
SHARE_TOGETHER, SHARE_OF_FEW, SHARE_OF_MANY = 0.2, 1.0, 0.35
# Proposals in renewals, one after the other, that ran past the most: no more such runs are tried.
MOST_REFUSED = 20_000


def sweep(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool
) -> ArchipelagoState:
    """Move θ (at times), functions, mixing, rejections and candidates, and base density."""
    is_moved, together = rng.random() < parameter_share(setting, state), False
    if is_moved:
        together = moves_together(setting, state)
        state = sample_log_parameters(rng, setting, state, adapt)
    if not together:
        state = sample_functions(rng, setting, state, adapt)
    if len(state.mixing) > 0:
        state = sample_mixing(rng, setting, state)
    state = refresh_rejections(
        rng, setting, state, candidate_rate=rate_of_candidates(setting, state)
    )
    if adapt:
        n_proposals = len(setting.inputs) + len(state.rejections)
        usual = state.usual_proposals + 0.05 * (n_proposals - state.usual_proposals)
        state = tuned(setting, state._replace(usual_proposals=usual))
    state = sample_base(rng, setting, state)
    return state._replace(n_clamped=max(state.n_clamped - 1, 0))


def rate_of_candidates(setting: Setting, state: ArchipelagoState) -> float:
    """Return κ for the next renewal, by what warm-up has found of M.

    It is 0 if rejections outnumber the data: few rows are then in doubt, and it is not M that holds
    the functions in place.
    """
    if state.usual_proposals > 2.0 * len(setting.inputs):
        return 0.0
    return min(CANDIDATES / state.usual_proposals, MOST_CANDIDATE_RATE)


# Rejections ---------------------------------------------------------------------------------------


def refresh_rejections(
    rng: np.random.Generator,
    setting: Setting,
    state: ArchipelagoState,
    *,
    candidate_rate: float = 0.0,
) -> ArchipelagoState:
    """Draw all rejections anew, exactly from their conditional given the whole function.

    The process is run forward given the functions at every known row, the old rejections among
    them, until it has accepted as many rows as there are data. Its rejections are the new ones. A
    run past the most proposals is refused, and the old rejections stay: that is exact for the model
    conditioned on no more proposals than that. If many runs in a row were refused, the sea is too
    deep for such runs, and from then on the chain renews rejections by `renew_given_time`.

    Candidates are for the next move of the functions, which leaves open which of them are the
    rejections (see `joint.open_row_factors`). There are none if that could be too many rejections.
    """
    n = len(setting.inputs)
    if state.n_refused * process.most_proposals(n) >= MOST_REFUSED:
        return renew_given_time(rng, setting, settle_rejections(rng, setting, state))
    run = Run(n, classes=False, candidate_rate=candidate_rate)
    try:
        history = process.run_forward(
            rng, setting, known_functions(setting, state), current_base(setting, state), run
        )
    except TooManyRejections:
        state = settle_rejections(rng, setting, state)
        return state._replace(n_refused=state.n_refused + 1)
    rejected = np.flatnonzero(history.outcomes == REJECTED)
    candidates = np.flatnonzero(history.outcomes == CANDIDATE)
    if n + len(rejected) + len(candidates) > process.most_proposals(n):
        candidate_rate, candidates = 0.0, candidates[:0]
    state = _with_history(setting, state, history, rejected, candidates)
    return state._replace(candidate_rate=candidate_rate, n_refused=0)


def renew_given_time(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Draw all rejections anew given the whole function and the time that the process took.

    This is exact as well, and takes about as many proposals as the history has now, so that it can
    be done where only a few rows in a thousand are kept; but M then changes slowly. More rejections
    than the most proposals allow are refused, as in `refresh_rejections`. There are no candidates.
    """
    n, known = len(setting.inputs), known_functions(setting, state)
    base, n_rejections = current_base(setting, state), len(state.rejections)
    history = process.run_given_time(rng, setting, known, base, n_rejections)
    rejected = np.flatnonzero(history.outcomes == REJECTED)
    if n + len(rejected) > process.most_proposals(n):
        return state
    return _with_history(setting, state, history, rejected, rejected[:0])


def _with_history(
    setting: Setting,
    state: ArchipelagoState,
    history: process.History,
    rejected: Codes,
    candidates: Codes,
) -> ArchipelagoState:
    """Return the state with the rejections and candidates of a history; places in it of both."""
    new = np.concatenate([rejected, candidates])
    rows, bridge = history.rows[new], history.bridge[:, new]
    between, nugget = covariances_at(setting, state.log_parameters)
    corners = [
        corner_factor(between(theta, rows, rows), *parts)
        for theta, *parts in zip(state.log_parameters, nugget, bridge, strict=True)
    ]
    state = _with_others(state, history.u[new], bridge, corners)
    return state._replace(
        rejections=rows[: len(rejected)], candidates=rows[len(rejected) :], candidate_rate=0.0
    )


def settle_rejections(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Decide which are rejections, after the functions have moved; other candidates are dropped.

    An open row is a rejection in the proportion of the two terms of κ + 1/(1 + Λ).
    """
    if state.candidate_rate == 0.0:
        return state
    n, known = len(setting.inputs), known_functions(setting, state)
    others, u = known.rows[n:], known.u[n:]
    rejected = np.exp(log_rejection(mixed(u, known.A)))
    chosen = np.flatnonzero(rng.random(len(u)) * (state.candidate_rate + rejected) < rejected)
    reach = state.factors[:, n + chosen]
    corners = [jittered_cholesky(part @ part.T) for part in reach[:, :, n:]]
    state = _with_others(state, u[chosen], reach[:, :, :n], corners)
    return state._replace(rejections=others[chosen], candidates=others[:0], candidate_rate=0.0)


def _with_others(
    state: ArchipelagoState, u: Array, bridge: Array, corners: list[Factor]
) -> ArchipelagoState:
    """Return the functions at the data and at m other rows; the data's block of L stays.

    Parameters
    ----------
    u : (m, K) at the others
    bridge : (F, m, n) their covariances with the data, times L^{-T}
    corners : F factors, (m, m), of their covariance given the data
    """
    n = bridge.shape[2]
    whitened = np.concatenate([state.whitened[:n], u])
    lowers = []
    for f, corner in enumerate(corners):
        lowers.append(bordered_factor(state.factors[f, :n, :n], bridge[f], corner.lower))
        k = served_by(f, len(corners))
        surprise = whitened[n:, k] - bridge[f] @ whitened[:n, k]
        whitened[n:, k] = solve_lower(corner.lower, surprise)
    jitter = max(corner.jitter for corner in corners)
    return state._replace(whitened=whitened, factors=stacked(lowers), jitter=jitter)


def sample_base(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Draw π given all rows that came from it (section 3.4); nothing where π is fixed."""
    if not isinstance(setting.base, NormalInverseWishart):
        return state
    return state._replace(base=setting.base.given(known_rows(setting, state)).draw(rng))


# How often θ moves, and mixing --------------------------------------------------------------------


def parameter_share(setting: Setting, state: ArchipelagoState) -> float:
    """Return the share of sweeps in which θ moves."""
    if len(_beside_variance(setting.prior)) == 0:
        return 0.0
    if state.log_parameters.size > FEW_PARAMETERS:
        return SHARE_OF_MANY
    return SHARE_TOGETHER if moves_together(setting, state) else SHARE_OF_FEW


def _beside_variance(prior: KernelPrior) -> list[int]:
    """Return the log-parameters that change more than the functions' scale."""
    return [j for j in range(len(prior.mean)) if j != prior.variance_index]


def sample_mixing(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Draw the weights of A given u, by elliptical slice sampling."""
    rows, u = open_row_factors(setting, state), unwhiten(state.factors, state.whitened)

    def log_likelihood(mixing: Array) -> float:
        return rows._replace(A=mixing_matrix(mixing, setting.n_classes)).log_likelihood(u)

    mixing, _, _ = elliptical_slice.step(
        rng, state.mixing, log_likelihood(state.mixing), log_likelihood,
        MIXING_SPREAD * rng.standard_normal(len(state.mixing)),
    )  # fmt: skip
    return state._replace(mixing=mixing)
