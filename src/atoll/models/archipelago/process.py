"""The generative process (section 2.2, algorithm 1), run forward from what is known.

The base density proposes rows. At each the functions are drawn, given all that is known of them,
and decide what becomes of it. Proposals come in batches here, each drawn as one: that is the same
as one row at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.densities import Density, NormalInverseWishart
from atoll.kernels.hyperparameters import KernelPrior, gram_diagonal
from atoll.models.archipelago.functions import (
    MIXING_SPREAD,
    Covariances,
    KnownFunctions,
    Setting,
    bridges_to,
    corner_factor,
    covariances_at,
    mixed,
    served_by,
    stacked,
    unknown_functions,
)
from atoll.models.archipelago.likelihood import REJECTED, log_total, sample
from atoll.models.archipelago.state import ArchipelagoState, make_state

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

CANDIDATE = -3  # an outcome besides the classes and REJECTED
BEYOND_DOUBT = 9.0  # standard deviations of a function, that no draw is away from its mean

# The most proposals of a history: a part of the model, which is conditioned on no more.
LOWEST_ACCEPTANCE = 0.02
FEWEST_PROPOSALS, MOST_PROPOSALS = 1000, 6000


class TooManyRejections(ValueError):
    """The base density proposes too little that the model keeps."""


class Run(NamedTuple):
    """How far the process is to run, and what is wanted of it.

    n_accepted : number of acceptances with which it ends
    label : the class whose rows are counted as accepted; None: any
    classes : whether the accepted rows' classes are wanted. If not, functions are not drawn where
        a row is accepted beyond doubt, which is nearly everywhere if few are rejected
    candidate_rate : average number of candidates for each proposal in the history: they too come
        from the base density, and have functions, but are neither accepted nor rejected
    """

    n_accepted: int
    label: int | None = None
    classes: bool = True
    candidate_rate: float = 0.0

    def counts(self, outcomes: Codes) -> NDArray[np.bool_]:
        """Return which outcomes are acceptances; (B,) -> (B,)."""
        return outcomes >= 0 if self.label is None else outcomes == self.label


class History(NamedTuple):
    """Proposals in the order they were made, up to the last acceptance asked for.

    rows : (B, ...)
    u : (B, K) independent functions there, NaN where a row was accepted without drawing them
    outcomes : (B,) the class each was accepted as (0 where classes are not wanted), REJECTED, or
        CANDIDATE
    bridge : (F, B, n) their covariances with the data, where these are known, times L^{-T}
    """

    rows: Any
    u: Array
    outcomes: Codes
    bridge: Array


def sample_prior(
    rng: np.random.Generator,
    prior: KernelPrior,
    base: Density | NormalInverseWishart,
    n: int,
    n_classes: int,
    *,
    own_kernels: bool = False,
    dependent: bool = False,
) -> tuple[Any, Codes, ArchipelagoState]:
    """Draw n labelled rows from the prior, exactly (algorithm 1), and the state that made them.

    Parameters
    ----------
    prior : the kernel and the prior of its log-parameters
    base : proposes rows
    n, n_classes : rows to accept, and K
    own_kernels, dependent : see Setting

    Returns
    -------
    rows (n, d), labels (n,), state

    Examples
    --------
    >>> from atoll.core.densities import Gaussian
    >>> from atoll.kernels.hyperparameters import kernel_prior
    >>> base = Gaussian(np.zeros(2), np.eye(2))
    >>> rng = np.random.default_rng(0)
    >>> prior = kernel_prior("isotropic", base.sample(rng, 100))
    >>> rows, labels, state = sample_prior(rng, prior, base, n=20, n_classes=3)
    >>> rows.shape, labels.shape, state.whitened.shape[1]
    ((20, 2), (20,), 3)
    """
    density = base.draw(rng) if isinstance(base, NormalInverseWishart) else base
    no_codes = np.array([], dtype=np.intp)
    setting = Setting((), no_codes, n_classes, prior, base, own_kernels, dependent)
    theta = prior.mean + prior.sd * rng.standard_normal((setting.n_kernels, len(prior.mean)))
    mixing = MIXING_SPREAD * rng.standard_normal(setting.n_mixing)
    nothing = unknown_functions(density.sample(rng, 1), theta, mixing, n_classes)
    # The nugget is relative to a typical variance: without data, that at the density's own rows.
    setting = setting._replace(inputs=density.sample(rng, 100))
    history = run_forward(rng, setting, nothing, density, Run(n))
    accepted = history.outcomes >= 0
    rows, labels = history.rows[accepted], history.outcomes[accepted]
    setting = setting._replace(inputs=rows, codes=labels)
    u = np.concatenate([history.u[accepted], history.u[~accepted]])
    state = make_state(
        setting, history.rows[~accepted], u, theta, mixing,
        density if isinstance(base, NormalInverseWishart) else None,
    )  # fmt: skip
    return rows, labels, state


def run_forward(
    rng: np.random.Generator,
    setting: Setting,
    known: KnownFunctions,
    density: Density,
    run: Run,
) -> History:
    """Run the process until rows enough are accepted, given the functions at known rows.

    Each batch of proposals is conditioned on the known rows and on all earlier batches. What is
    proposed after the last acceptance is dropped: it has not been looked at.

    Parameters
    ----------
    known : the functions, with the n data first among the rows where data are among them
    density : π
    run : how far, and what is wanted

    Raises
    ------
    TooManyRejections
        Past `most_proposals`.
    """
    parts: list[History] = []
    covariances = covariances_at(setting, known.log_parameters)
    n_known, accepted, proposed = len(known.rows), 0, 0
    n = min(len(setting.inputs), n_known)  # data among the known rows
    limit, with_candidates = most_proposals(run.n_accepted), 1.0 + run.candidate_rate
    # Of acceptances among proposals, in the history that is known.
    rate = min(with_candidates * len(setting.inputs) / max(n_known, 1), 1.0)
    while accepted < run.n_accepted:  # algorithm 1: while |Q| < Q
        if proposed >= limit:
            raise TooManyRejections(_too_many(accepted, proposed))
        wanted = int(1.1 * with_candidates * (run.n_accepted - accepted) / rate) + 8
        # Never many times the rows at once: where nearly all are rejected it is soon seen.
        size = min(wanted, limit - proposed, 2 * (n_known + proposed) + 100)
        rows = density.sample(rng, size)  # x̃ ~ π(x)
        part, grown = _propose(rng, setting, covariances, known, rows, run)
        parts.append(part)
        accepted += int(np.count_nonzero(run.counts(part.outcomes)))
        proposed += len(rows) - int(np.count_nonzero(part.outcomes == CANDIDATE))
        rate = max(accepted / max(proposed, 1), LOWEST_ACCEPTANCE)
        if accepted < run.n_accepted:
            known = known.with_rows(*grown)  # X_k ← X_k ∪ x̃, G_k ← G_k ∪ g_k(x̃)
    outcomes = _joined([part.outcomes for part in parts])
    last = int(np.flatnonzero(run.counts(outcomes))[run.n_accepted - 1]) + 1
    return History(
        rows=_joined([part.rows for part in parts])[:last],
        u=_joined([part.u for part in parts])[:last],
        outcomes=outcomes[:last],
        bridge=_joined([part.bridge[:, :, :n] for part in parts], axis=1)[:, :last],
    )


def run_given_time(
    rng: np.random.Generator,
    setting: Setting,
    known: KnownFunctions,
    density: Density,
    n_rejections: int,
) -> History:
    """Run the process once more for as long as it may have taken, however few rows are accepted.

    Let proposals come at the times of a Poisson process of rate one. Given the functions and the
    time t of the n-th acceptance, the rejections before t do not depend on the data; and t, given
    that there were M of them, is Gamma(n + M). So a run of about n + M proposals draws rejections
    anew, where a run up to the n-th acceptance might take any number.

    Parameters
    ----------
    known, density : as in `run_forward`
    n_rejections : M, of the history so far
    """
    n = len(setting.inputs)
    size = int(rng.poisson(rng.gamma(n + n_rejections)))
    rows = density.sample(rng, max(size, 1))  # one is drawn, and left out, where there is none
    covariances = covariances_at(setting, known.log_parameters)
    history, _ = _propose(rng, setting, covariances, known, rows, Run(n, classes=False))
    return History(
        history.rows[:size], history.u[:size], history.outcomes[:size], history.bridge[:, :size, :n]
    )


def _joined(arrays: list[Any], axis: int = 0) -> Any:
    """Return one array of several; one alone is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=axis)


class _Drawn(NamedTuple):
    """Rows at which functions were drawn, as `KnownFunctions.with_rows` takes them."""

    rows: Any
    noise: Array
    bridges: list[Array]
    corners: list[Array]


def _propose(
    rng: np.random.Generator,
    setting: Setting,
    covariances: Covariances,
    known: KnownFunctions,
    rows: Any,
    run: Run,
) -> tuple[History, _Drawn]:
    """Draw the functions at proposed rows and decide on each; and what is now known."""
    K, A = setting.n_classes, known.A
    between, nugget = covariances
    bridges, mean = bridges_to(covariances, known, rows), np.empty((len(rows), K))
    for f, bridge in enumerate(bridges):
        k = served_by(f, len(bridges))
        mean[:, k] = bridge @ known.whitened[:, k]
    is_candidate = np.zeros(len(rows), dtype=bool)
    if run.candidate_rate > 0.0:
        share = rng.random(len(rows)) * (1.0 + run.candidate_rate)
        is_candidate = share < run.candidate_rate
    drawn, levels = np.arange(len(rows)), np.zeros(0)
    if not run.classes:  # rejected where log Λ is below a logistic variate
        levels = rng.logistic(size=len(rows))
        spread = _spreads(setting, known, rows, bridges, nugget)
        least = mixed(mean, A) - BEYOND_DOUBT * spread
        drawn = np.flatnonzero((least.max(axis=1) < levels) | is_candidate)
    now = _Drawn(
        rows[drawn], rng.standard_normal((len(drawn), K)), [part[drawn] for part in bridges], []
    )
    u = mean[drawn]  # g_k(x̃) ~ GP(g | x̃, X_k, G_k, θ_k)
    for f, theta in enumerate(known.log_parameters):
        corner = corner_factor(between(theta, now.rows, now.rows), nugget[f], now.bridges[f])
        now.corners.append(corner.lower)
        k = served_by(f, len(bridges))
        u[:, k] += corner.lower @ now.noise[:, k]
    if run.classes:  # r ~ U(0, 1) falls into one of the pieces of equation 5
        everywhere, outcomes = u, sample(rng, mixed(u, A))
    else:
        everywhere, outcomes = np.full_like(mean, np.nan), np.zeros(len(rows), dtype=np.intp)
        everywhere[drawn] = u
        outcomes[drawn[log_total(mixed(u, A)) < levels[drawn]]] = REJECTED
    outcomes[is_candidate] = CANDIDATE
    return History(rows, everywhere, outcomes, stacked(bridges)), now


def _spreads(
    setting: Setting, known: KnownFunctions, rows: Any, bridges: list[Array], nugget: Array
) -> Array:
    """Return standard deviations of the functions g given what is known, (B, 1) or (B, K)."""
    of_u = np.empty((len(rows), len(bridges)))
    for f, (theta, part) in enumerate(zip(known.log_parameters, bridges, strict=True)):
        of_u[:, f] = gram_diagonal(setting.prior, theta, rows) - np.einsum("ij,ij->i", part, part)
    of_u, A = np.maximum(of_u, 0.0) + nugget, known.A
    # Rows of A have length one: under one kernel they change nothing.
    return np.sqrt(of_u if A is None or len(bridges) == 1 else of_u @ (A**2).T)


def most_proposals(n_accepted: int) -> int:
    """Return the most proposals of a history that ends with `n_accepted` acceptances."""
    of_rate = max(FEWEST_PROPOSALS, int(n_accepted / LOWEST_ACCEPTANCE))
    return min(of_rate, max(MOST_PROPOSALS, 2 * n_accepted))


def _too_many(accepted: int, proposed: int) -> str:
    return (
        f"of {proposed} rows proposed by the base density the model accepted {accepted}, a rate of "
        f"{accepted / proposed:.3g}: the base density reaches far beyond the data, and the "
        "rejections between are too many to hold. Use a base density nearer to the data "
        '(base_density="mixture"), scale or leave out features, or fit on fewer rows.'
    )
