"""Archipelago (Adams & Ghahramani 2009, paper 000): classes as islands in a sea of rejections.

prior: K functions under one kernel C(θ), log θ normal; optionally a kernel each, optionally mixed.
likelihood: a softmax over the classes and one more outcome, "rejected", whose function is zero.
inference: the latent history of the generative process, by Markov chain Monte Carlo.

    x ~ π      g_k ~ GP(0, C(θ))      x is kept with label k w.p. exp g_k(x) / (1 + Λ(x)),
                                      and rejected w.p. 1 / (1 + Λ(x)),  Λ = Σ_k exp g_k

A state holds the M rejected rows and the functions at data and rejections. Its density is
equation 8 times C(M + n − 1, M), the number of orders of the history that end on an acceptance.

Three things differ from the paper's sweep, which is in `archipelago_paper`. The rejections are
renewed as a block: given the whole function they do not depend on the data, so that running the
process forward draws them exactly (Rao, Lin & Dunson 2016). The function is known at the data and
at the *old* rejections, and the new ones are drawn given both; only then are the old ones dropped.
All K functions and their amplitude move in one Hamiltonian step, and θ with them in one such step
of many, with gradients through the Cholesky factor. And while they move it is open which rows are
rejections: candidates from π are among them, κ for each proposal of the history, and every one has
the factor κ + 1/(1 + Λ). So an M that was drawn given the functions does not hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from atoll.core.densities import Density, Gaussian, NormalInverseWishart
from atoll.core.linalg import (
    Factor,
    bordered_factor,
    jittered_cholesky,
    lower_times,
    solve_lower,
    subtract_square,
    through_cholesky,
)
from atoll.inference import elliptical_slice, hmc
from atoll.inference.chains import Sampler
from atoll.kernels.conditioning import CHUNK_ENTRIES, conditional_moments
from atoll.kernels.hyperparameters import (
    DIFFERENCE,
    NUGGET,
    KernelPrior,
    cross_gram_function,
    gram_diagonal,
    gram_function,
    gram_gradient_function,
    mean_variance,
)
from atoll.likelihoods.softmax import N_POINTS, symmetric_points

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

UNLABELLED, REJECTED, OPEN = -1, -2, -3  # beside the classes 0..K-1
# Candidates: about so many, but at most so many for each proposal. More would free the functions
# further of M, and each costs a row.
CANDIDATES, MOST_CANDIDATE_RATE = 16.0, 0.3
# Length of a Hamiltonian trajectory (step size times steps, on average), and the most steps: of the
# functions and amplitude alone, and with all of θ.
TRAJECTORY, MOST_STEPS, MOST_STEPS_WITH_PARAMETERS = 2.0, 20, 40
ACCEPTANCE = 0.8  # that step sizes are tuned to in warm-up
# Sweeps in which all of θ moves are so many among as many as there are rows, at most such a share,
# and more in warm-up. The length-scale is the slowest to mix where rows are few; where they are
# many, such sweeps take about half of the time.
ROWS_FOR_FEW, ROWS_FOR_MANY = 40.0, 20.0  # parameters: gradients are cheap, or dear
MOST_PARAMETER_SHARE, MORE_IN_WARMUP = 0.2, 1.5
FEW_PARAMETERS = 1  # beside the variance: the most whose gradient is found by differences
BEYOND_DOUBT = 9.0  # standard deviations of a function, that no draw is away from its mean
PARAMETER_UNIT = 0.7  # prior standard deviations: given the functions θ is stiffer than they are
FARTHEST = 10.0  # standard deviations of a log-parameter's prior, beyond which no step goes
SAFE_SQUARE = 600.0**2  # of all functions together, below which exp needs no care
MIXING_SPREAD = 1.0  # of the weights that tie one class's function to another's

# The most proposals of a history: a part of the model, which is conditioned on no more.
LOWEST_ACCEPTANCE = 0.02
FEWEST_PROPOSALS, MOST_PROPOSALS = 1000, 6000
MOST_REFUSED = 20_000  # proposals in renewals, one after the other, that ran past it


class Setting(NamedTuple):
    """The data and the prior: all that stays the same from sweep to sweep.

    inputs : (n, d), or (n,) objects that the kernel understands
    codes : (n,) classes, UNLABELLED where not known
    n_classes : K
    prior : of one kernel's log-parameters
    base : π, or a prior over Gaussians, of which π is one
    own_kernels : whether each function has log-parameters of its own
    dependent : whether g mixes independent functions u, g(x) = A u(x) (Teh et al. 2005)
    """

    inputs: Any
    codes: Codes
    n_classes: int
    prior: KernelPrior
    base: Density | NormalInverseWishart
    own_kernels: bool = False
    dependent: bool = False


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
    parameter_step_size : where θ moves, too, or θ alone in the paper's sweep
    arc : of θ in the paper's sweep with whitened functions
    n_refused : renewals of the rejections in a row that ran past the most proposals
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
    arc: elliptical_slice.ArcWidth
    n_refused: int
    start_codes: Codes
    n_clamped: int


class TooManyRejections(ValueError):
    """The base density proposes too little that the model keeps."""


# The likelihood: a softmax with one more outcome, whose function is zero --------------------------


def log_terms(latent: Array, codes: Codes, candidate_rate: float = 0.0) -> Array:
    """log-probability of each row's outcome; latent (T, K) g, codes (T,) -> (T,).

    Labelled: g_l − log(1 + Λ). Unlabelled: log Λ − log(1 + Λ). Rejected: −log(1 + Λ).
    Open, rejection or candidate: log(κ + 1/(1 + Λ)).
    """
    log_total = _log_total(latent)
    value = -np.logaddexp(0.0, log_total)
    is_open = codes == OPEN
    value[is_open] = np.log(candidate_rate + np.exp(value[is_open]))
    labelled = np.flatnonzero(codes >= 0)
    value[labelled] += latent[labelled, codes[labelled]]
    unlabelled = codes == UNLABELLED
    value[unlabelled] += log_total[unlabelled]
    return value


class Outcomes(NamedTuple):
    """What is known of every row, ready for sums over all of them.

    A row's factor is exp(g_l), where its class l is known, times (a + b Λ)/(1 + Λ).

    labels : (T, K) one at a row's class where it is known, else zero
    fixed, by_total : (T,) a and b
    ones : (K,)
    """

    labels: Array
    fixed: Array
    by_total: Array
    ones: Array

    def total(self, latent: Array) -> float:
        """Σ log_terms; latent (T, K) g."""
        if np.vdot(latent, latent) < SAFE_SQUARE:
            sums = np.exp(latent) @ self.ones
            of_rows = np.log((self.fixed + self.by_total * sums) / (1.0 + sums)).sum()
        else:
            log_total = _log_total(latent)
            log_fixed, log_by_total = self._logarithms()
            of_rows = np.sum(
                np.logaddexp(log_fixed, log_by_total + log_total) - np.logaddexp(0.0, log_total)
            )
        return float(np.vdot(self.labels, latent) + of_rows)

    def slope(self, latent: Array) -> Array:
        """The gradient of the total in g, (T, K)."""
        if np.vdot(latent, latent) < SAFE_SQUARE:
            odds = np.exp(latent)
            sums = odds @ self.ones
            by_odds = self.by_total / (self.fixed + self.by_total * sums) - 1.0 / (1.0 + sums)
        else:
            top = latent.max(axis=1)
            odds = np.exp(latent - top[:, None])
            sums = odds @ self.ones
            log_total = top + np.log(sums)
            log_fixed, log_by_total = self._logarithms()
            by_odds = (expit(log_by_total + log_total - log_fixed) - expit(log_total)) / sums
        odds *= by_odds[:, None]
        odds += self.labels
        return odds

    def _logarithms(self) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            return np.log(self.fixed), np.log(self.by_total)


def outcomes_of(codes: Codes, n_classes: int, candidate_rate: float = 0.0) -> Outcomes:
    """From classes, UNLABELLED, REJECTED and OPEN, (T,)."""
    labels = np.zeros((len(codes), n_classes))
    labelled = np.flatnonzero(codes >= 0)
    labels[labelled, codes[labelled]] = 1.0
    unlabelled, is_open = codes == UNLABELLED, candidate_rate * (codes == OPEN)
    fixed, by_total = 1.0 - unlabelled + is_open, unlabelled + is_open
    return Outcomes(labels, fixed, by_total, np.ones(n_classes))


def _log_total(latent: Array) -> Array:
    """log Λ; (T, K) -> (T,)."""
    top = latent.max(axis=1)
    return top + np.log(np.exp(latent - top[:, None]).sum(axis=1))


def class_shares(latent: Array) -> Array:
    """exp g_k / Λ, equation 1; (..., K) -> (..., K)."""
    odds = np.exp(latent - latent.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


# The prior process (algorithm 1) ------------------------------------------------------------------


class History(NamedTuple):
    """Proposals in the order they were made, up to the last acceptance asked for.

    rows : (B, ...)
    latent : (B, K) u, NaN where a row was accepted without drawing them
    outcomes : (B,) the class each was accepted as (0 where classes are not wanted), REJECTED, or
        OPEN for a candidate
    bridge : (F, B, n) their covariances with the n first known rows, times L^{-T}
    """

    rows: Any
    latent: Array
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
    """n labelled rows from the prior, exactly (algorithm 1), and the state that made them.

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
    n_kernels = n_classes if own_kernels else 1
    theta = prior.mean + prior.sd * rng.standard_normal((n_kernels, len(prior.mean)))
    mixing = MIXING_SPREAD * rng.standard_normal(_n_mixing(n_classes, dependent))
    nothing = density.sample(rng, 1)[:0]
    # The nugget is relative to a typical variance: without data, that at the density's own rows.
    setting = Setting(
        density.sample(rng, 100), np.zeros(0, dtype=np.intp), n_classes, prior, base,
        own_kernels, dependent,
    )  # fmt: skip
    empty = np.zeros((n_kernels, 0, 0))
    history = run_forward(
        rng, setting, density, theta, mixing, nothing, np.zeros((0, n_classes)), empty, n
    )
    accepted = history.outcomes >= 0
    rows, labels = history.rows[accepted], history.outcomes[accepted]
    setting = setting._replace(inputs=rows, codes=labels)
    latent = np.concatenate([history.latent[accepted], history.latent[~accepted]])
    state = make_state(
        setting, history.rows[~accepted], latent, theta, mixing,
        density if isinstance(base, NormalInverseWishart) else None,
    )  # fmt: skip
    return rows, labels, state


def run_forward(
    rng: np.random.Generator,
    setting: Setting,
    density: Density,
    log_parameters: Array,
    mixing: Array,
    known: Any,
    whitened: Array,
    factors: Array,
    n_accepted: int,
    *,
    n_first: int = 0,
    label: int | None = None,
    classes: bool = True,
    candidate_rate: float = 0.0,
) -> History:
    """The generative process, until `n_accepted` rows are accepted, given functions at known rows.

    Proposals come in batches, each conditioned on the known rows and on all earlier batches. What
    is proposed after the last acceptance is dropped: it has not been looked at.

    Parameters
    ----------
    known : (T, ...) rows
    whitened, factors : (T, K) and (F, T, T), the functions there
    n_accepted : how many to accept
    n_first : how many of the known rows the returned `bridge` is for
    label : the class of which rows are counted as accepted; None: any
    classes : whether the accepted rows' classes are wanted. If not, functions are not drawn where
        a row is accepted beyond doubt, which is nearly everywhere if few are rejected
    candidate_rate : so many candidates for each proposal, on average, are in the history: they too
        come from the density, and have functions, but no outcome
    """
    cross, nugget = cross_gram_function(setting.prior), nugget_at(setting, log_parameters)
    A = _mixing_or_none(mixing, setting.n_classes)

    def counts(outcome: Codes) -> NDArray[np.bool_]:
        return outcome >= 0 if label is None else outcome == label

    rows, latents, outcomes, bridges = [], [], [], []
    n_known, accepted, proposed = len(known), 0, 0
    limit = most_proposals(n_accepted)
    # Of acceptances among proposals, in the history that is known.
    rate = min((1.0 + candidate_rate) * len(setting.inputs) / max(n_known, 1), 1.0)
    while accepted < n_accepted:
        if proposed >= limit:
            raise TooManyRejections(_too_many(accepted, proposed))
        wanted = int(1.1 * (1.0 + candidate_rate) * (n_accepted - accepted) / rate) + 8
        # Never many times the rows at once: where nearly all are rejected it is soon seen.
        batch = density.sample(rng, min(wanted, limit - proposed, 2 * (n_known + proposed) + 100))
        mean, bridge, corners = np.empty((len(batch), setting.n_classes)), [], []
        for f, theta in enumerate(log_parameters):
            bridge.append(solve_lower(factors[f], cross(theta, known, batch)).T)
            k = slice(None) if len(factors) == 1 else f
            mean[:, k] = bridge[f] @ whitened[:, k]
        is_candidate = np.zeros(len(batch), dtype=bool)
        if candidate_rate > 0.0:
            is_candidate = rng.random(len(batch)) * (1.0 + candidate_rate) < candidate_rate
        drawn, levels = np.arange(len(batch)), np.zeros(0)
        if not classes:
            levels = rng.logistic(size=len(batch))
            least = _mixed(mean, A) - BEYOND_DOUBT * _spreads(
                setting, log_parameters, A, batch, bridge, nugget
            )
            drawn = np.flatnonzero((least.max(axis=1) < levels) | is_candidate)
        doubted, reach = batch[drawn], [part[drawn] for part in bridge]
        noise = rng.standard_normal((len(drawn), setting.n_classes))
        u = mean[drawn]
        for f, theta in enumerate(log_parameters):
            covariance = cross(theta, doubted, doubted)
            corners.append(_corner_factor(covariance, nugget[f], reach[f]).lower)
            k = slice(None) if len(factors) == 1 else f
            u[:, k] += corners[f] @ noise[:, k]
        if classes:
            latent, outcome = u, sample_outcomes(rng, _mixed(u, A))
        else:
            latent, outcome = np.full_like(mean, np.nan), np.zeros(len(batch), dtype=np.intp)
            latent[drawn] = u
            outcome[drawn[_log_total(_mixed(u, A)) < levels[drawn]]] = REJECTED
        outcome[is_candidate] = OPEN
        rows.append(batch)
        latents.append(latent)
        outcomes.append(outcome)
        bridges.append(_stacked([part[:, :n_first] for part in bridge]))
        accepted += int(np.count_nonzero(counts(outcome)))
        proposed += len(batch) - int(np.count_nonzero(is_candidate))
        rate = max(accepted / max(proposed, 1), LOWEST_ACCEPTANCE)
        if accepted < n_accepted:
            whitened = np.concatenate([whitened, noise])
            factors = _stacked(
                [bordered_factor(*parts) for parts in zip(factors, reach, corners, strict=True)]
            )
            known = np.concatenate([known, doubted])
    every = np.concatenate(outcomes)
    last = int(np.flatnonzero(counts(every))[n_accepted - 1]) + 1
    return History(
        np.concatenate(rows)[:last],
        np.concatenate(latents)[:last],
        every[:last],
        np.concatenate(bridges, axis=1)[:, :last],
    )


def _spreads(
    setting: Setting,
    log_parameters: Array,
    A: Array | None,
    rows: Any,
    bridge: list[Array],
    nugget: Array,
) -> Array:
    """Standard deviations of the functions g given the known rows, (B, 1) or (B, K)."""
    of_u = np.empty((len(rows), len(bridge)))
    for f, (theta, part) in enumerate(zip(log_parameters, bridge, strict=True)):
        of_u[:, f] = gram_diagonal(setting.prior, theta, rows) - np.einsum("ij,ij->i", part, part)
    of_u = np.maximum(of_u, 0.0) + nugget
    # Rows of A have length one: under one kernel they change nothing.
    return np.sqrt(of_u if A is None or len(bridge) == 1 else of_u @ (A**2).T)


def _corner_factor(covariance: Array, nugget: float, bridge: Array) -> Factor:
    """Of rows' covariance given earlier ones; covariance (B, B) is overwritten, bridge (B, n)."""
    diagonal = np.einsum("ii->i", covariance)  # a view
    diagonal += nugget
    subtract_square(covariance, bridge.T)
    return jittered_cholesky(covariance)


def most_proposals(n: int) -> int:
    """Of a history with n acceptances."""
    of_rate = max(FEWEST_PROPOSALS, int(n / LOWEST_ACCEPTANCE))
    return min(of_rate, max(MOST_PROPOSALS, 2 * n))


def sample_outcomes(rng: np.random.Generator, latent: Array) -> Codes:
    """A class or REJECTED for each row given the functions g; (B, K) -> (B,)."""
    top = np.maximum(latent.max(axis=1), 0.0)
    cumulative = np.empty((len(latent), latent.shape[1] + 1))
    cumulative[:, 0] = np.exp(-top)
    np.exp(latent - top[:, None], out=cumulative[:, 1:])
    np.cumsum(cumulative, axis=1, out=cumulative)
    level = (1.0 - rng.random(len(latent))) * cumulative[:, -1]
    winner = (cumulative < level[:, None]).sum(axis=1)
    return np.where(winner == 0, REJECTED, winner - 1)


def _too_many(accepted: int, proposed: int) -> str:
    return (
        f"of {proposed} rows proposed by the base density the model accepted {accepted}, a rate of "
        f"{accepted / proposed:.3g}: the base density reaches far beyond the data, and the "
        "rejections between are too many to hold. Use a base density nearer to the data "
        '(base_density="mixture"), scale or leave out features, or fit on fewer rows.'
    )


# The state ----------------------------------------------------------------------------------------


def nugget_at(setting: Setting, log_parameters: Array) -> Array:
    """What each kernel has on its diagonal beside itself, (F,); a part of the model."""
    return np.array(
        [NUGGET * mean_variance(setting.prior, t, setting.inputs) for t in log_parameters]
    )


class Kernels(NamedTuple):
    """The kernels at some θ.

    theta : (F, p)
    grams : F matrices C, (T, T)
    factors, jitter : see ArchipelagoState
    """

    theta: Array
    grams: list[Array]
    factors: Array
    jitter: float


def kernels_at(gram_at: Callable[[Array], Array], log_parameters: Array) -> Kernels:
    """With θ (F, p)."""
    grams = [gram_at(theta) for theta in log_parameters]
    factors = [jittered_cholesky(C) for C in grams]
    lowers = _stacked([factor.lower for factor in factors])
    return Kernels(log_parameters, grams, lowers, max(factor.jitter for factor in factors))


def factors_at(setting: Setting, rows: Any, log_parameters: Array) -> tuple[Array, float]:
    """L for every kernel, (F, T, T), and the largest jitter."""
    return factors_from(
        gram_function(setting.prior, rows, reference=setting.inputs), log_parameters
    )


def factors_from(gram_at: Callable[[Array], Array], log_parameters: Array) -> tuple[Array, float]:
    """The same where `gram_function` has been prepared."""
    kernels = kernels_at(gram_at, log_parameters)
    return kernels.factors, kernels.jitter


def _stacked(lowers: list[Array]) -> Array:
    """(F, T, T); one alone is not copied."""
    return lowers[0][None] if len(lowers) == 1 else np.stack(lowers)


def make_state(
    setting: Setting,
    rejections: Any,
    latent: Array,
    log_parameters: Array,
    mixing: Array,
    base: Density | None = None,
) -> ArchipelagoState:
    """A state with these rejections (M, ...) and functions u (n + M, K)."""
    rows = np.concatenate([setting.inputs, rejections])
    factors, jitter = factors_at(setting, rows, log_parameters)
    return ArchipelagoState(
        rejections,
        rejections[:0],
        0.0,
        float(len(rows)),
        whiten(factors, latent),
        log_parameters,
        mixing,
        base if isinstance(base, Gaussian) else Gaussian(np.zeros(0), np.zeros((0, 0))),
        factors,
        jitter,
        hmc.init_step_size(0.3),
        1.0,
        hmc.init_step_size(0.1),
        elliptical_slice.init_width(),
        0,
        setting.codes.copy(),
        0,
    )


def functions(factors: Array, whitened: Array) -> Array:
    """u = L ν, (T, K)."""
    if len(factors) == 1:
        return lower_times(factors[0], whitened)
    return np.stack([lower @ column for lower, column in zip(factors, whitened.T)], axis=1)


def functions_transposed(factors: Array, slope: Array) -> Array:
    """Lᵀ times a gradient in u, (T, K): the gradient in ν."""
    if len(factors) == 1:
        return lower_times(factors[0], slope, transposed=True)
    return np.stack([lower.T @ column for lower, column in zip(factors, slope.T)], axis=1)


def mixing_matrix(mixing: Array, n_classes: int) -> Array:
    """A, (K, K): lower triangular with rows of length one, so that g_k keeps the kernel's variance.

    It is the identity where there are no weights.
    """
    A = np.eye(n_classes)
    if len(mixing) > 0:
        A[np.tril_indices(n_classes, -1)] = mixing
        A /= np.linalg.norm(A, axis=1, keepdims=True)
    return A


def _mixing_or_none(mixing: Array, n_classes: int) -> Array | None:
    return mixing_matrix(mixing, n_classes) if len(mixing) > 0 else None


def _mixed(u: Array, A: Array | None) -> Array:
    """g, (T, K); A None: functions are not mixed."""
    return u if A is None else u @ A.T


def known_rows(setting: Setting, state: ArchipelagoState) -> Any:
    """At which functions are known, (T, ...)."""
    return np.concatenate([setting.inputs, state.rejections, state.candidates])


def latent_at(setting: Setting, state: ArchipelagoState) -> Array:
    """g at data and rejections, (n + M, K)."""
    u = functions(state.factors, state.whitened)[: len(setting.inputs) + len(state.rejections)]
    return _mixed(u, _mixing_or_none(state.mixing, setting.n_classes))


def outcomes_at(setting: Setting, state: ArchipelagoState) -> Outcomes:
    """What is known of data and rejections."""
    others = np.full(len(state.rejections), REJECTED)
    return outcomes_of(np.concatenate([_data_codes(setting, state), others]), setting.n_classes)


def open_outcomes_at(setting: Setting, state: ArchipelagoState) -> Outcomes:
    """What is known of every row while functions move: not which is a candidate, if any is."""
    rate = state.candidate_rate
    others = np.full(len(state.rejections) + len(state.candidates), OPEN if rate > 0 else REJECTED)
    codes = np.concatenate([_data_codes(setting, state), others])
    return outcomes_of(codes, setting.n_classes, rate)


def _data_codes(setting: Setting, state: ArchipelagoState) -> Codes:
    return state.start_codes if state.n_clamped > 0 else setting.codes


def current_base(setting: Setting, state: ArchipelagoState) -> Density:
    """π now."""
    return state.base if isinstance(setting.base, NormalInverseWishart) else setting.base


def whiten(factors: Array, latent: Array) -> Array:
    """ν = L^{-1} u, (T, K)."""
    if len(factors) == 1:
        return solve_lower(factors[0], latent)
    return np.stack([solve_lower(low, u) for low, u in zip(factors, latent.T)], axis=1)


def _n_mixing(n_classes: int, dependent: bool) -> int:
    return n_classes * (n_classes - 1) // 2 if dependent else 0


# The sweep ----------------------------------------------------------------------------------------


def sweep(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool
) -> ArchipelagoState:
    """Functions (at times with θ), mixing, rejections and candidates, base density, in turn."""
    if rng.random() < parameter_share(setting, state, adapt):
        state = sample_log_parameters(rng, setting, state, adapt)
    else:
        state = sample_functions(rng, setting, state, adapt)
    if len(state.mixing) > 0:
        state = sample_mixing(rng, setting, state)
    state = refresh_rejections(
        rng, setting, state, candidate_rate=rate_of_candidates(setting, state)
    )
    if adapt:
        n_proposals = len(setting.inputs) + len(state.rejections)
        usual = state.usual_proposals + 0.05 * (n_proposals - state.usual_proposals)
        state = state._replace(usual_proposals=usual)
    state = sample_base(rng, setting, state)
    return state._replace(n_clamped=max(state.n_clamped - 1, 0))


def rate_of_candidates(setting: Setting, state: ArchipelagoState) -> float:
    """κ of the next renewal, by what warm-up has found of M.

    None where rejections outnumber the data: few rows are then in doubt, and it is not M that holds
    the functions.
    """
    if state.usual_proposals > 2.0 * len(setting.inputs):
        return 0.0
    return min(CANDIDATES / state.usual_proposals, MOST_CANDIDATE_RATE)


def refresh_rejections(
    rng: np.random.Generator,
    setting: Setting,
    state: ArchipelagoState,
    *,
    candidate_rate: float = 0.0,
) -> ArchipelagoState:
    """All rejections anew, exactly from their conditional given the whole function.

    The process is run forward given the functions at every known row, the old rejections among
    them, until it has accepted as many rows as there are data. Its rejections are the new ones. A
    run past the most proposals is refused, and the old rejections stay: that is exact for the model
    conditioned on no more proposals than that.

    Candidates are for the next move of the functions, in which it is open which are the rejections.
    Let proposals come at the times of a Poisson process. The time t of the last is then Gamma, the
    rejections are a Poisson process of intensity t π/(1 + Λ) and the candidates one of κ t π:
    together one of t π (κ + 1/(1 + Λ)). There are none where they could be rejections too many.
    """
    n = len(setting.inputs)
    try:
        history = run_forward(
            rng, setting, current_base(setting, state), state.log_parameters, state.mixing,
            known_rows(setting, state), state.whitened, state.factors, n, n_first=n, classes=False,
            candidate_rate=candidate_rate,
        )  # fmt: skip
    except TooManyRejections:
        if (state.n_refused + 1) * most_proposals(n) >= MOST_REFUSED:
            raise
        state = settle_rejections(rng, setting, state)
        return state._replace(n_refused=state.n_refused + 1)
    rejected = np.flatnonzero(history.outcomes == REJECTED)
    open_ = np.flatnonzero(history.outcomes == OPEN)
    if n + len(rejected) + len(open_) > most_proposals(n):
        candidate_rate, open_ = 0.0, open_[:0]
    new = np.concatenate([rejected, open_])
    rows, bridge = history.rows[new], history.bridge[:, new]
    cross, nugget = cross_gram_function(setting.prior), nugget_at(setting, state.log_parameters)
    corners = [
        _corner_factor(cross(theta, rows, rows), *parts)
        for theta, *parts in zip(state.log_parameters, nugget, bridge, strict=True)
    ]
    state = _with_others(state, history.latent[new], bridge, corners)
    return state._replace(
        rejections=rows[: len(rejected)], candidates=rows[len(rejected) :],
        candidate_rate=candidate_rate, n_refused=0,
    )  # fmt: skip


def settle_rejections(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """Which are rejections, after the functions have moved; the other candidates are dropped."""
    if state.candidate_rate == 0.0:
        return state
    n, others = len(setting.inputs), np.concatenate([state.rejections, state.candidates])
    u = functions(state.factors, state.whitened)[n:]
    A = _mixing_or_none(state.mixing, setting.n_classes)
    rejected = expit(-_log_total(_mixed(u, A)))
    chosen = np.flatnonzero(rng.random(len(u)) * (state.candidate_rate + rejected) < rejected)
    reach = state.factors[:, n + chosen]
    corners = [jittered_cholesky(part @ part.T) for part in reach[:, :, n:]]
    state = _with_others(state, u[chosen], reach[:, :, :n], corners)
    return state._replace(rejections=others[chosen], candidates=others[:0], candidate_rate=0.0)


def _with_others(
    state: ArchipelagoState, latent: Array, bridge: Array, corners: list[Factor]
) -> ArchipelagoState:
    """The functions at the data and at m other rows; the data's block of the factors stays.

    Parameters
    ----------
    latent : (m, K) u at the others
    bridge : (F, m, n) their covariances with the data, times L^{-T}
    corners : F factors, (m, m), of their covariance given the data
    """
    n = bridge.shape[2]
    whitened = np.concatenate([state.whitened[:n], latent])
    lowers = []
    for f, corner in enumerate(corners):
        lowers.append(bordered_factor(state.factors[f, :n, :n], bridge[f], corner.lower))
        k = slice(None) if len(corners) == 1 else f
        surprise = whitened[n:, k] - bridge[f] @ whitened[:n, k]
        whitened[n:, k] = solve_lower(corner.lower, surprise)
    jitter = max(corner.jitter for corner in corners)
    return state._replace(whitened=whitened, factors=_stacked(lowers), jitter=jitter)


def sample_base(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """π given data, rejections and candidates, all its draws; nothing where π is fixed."""
    if not isinstance(setting.base, NormalInverseWishart):
        return state
    return state._replace(base=setting.base.given(known_rows(setting, state)).draw(rng))


def sample_functions(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool = False
) -> ArchipelagoState:
    """One Hamiltonian step of all K whitened functions, and of each kernel's log variance.

    The log variance scales L, so that it comes along at no cost; it is where the number of
    rejections is slow to move.
    """
    prior, v = setting.prior, setting.prior.variance_index
    A = _mixing_or_none(state.mixing, setting.n_classes)
    outcomes = open_outcomes_at(setting, state)
    shape, factors = state.whitened.shape, state.factors
    n_scales = 0 if v is None else len(factors)
    here = state.log_parameters[:, v] if v is not None else np.zeros(0)
    centre, spread = (prior.mean[v], prior.sd[v]) if v is not None else (0.0, 1.0)
    offset, half_spread = 0.5 * (centre - here), 0.5 * spread

    def scaled_functions(position: Array) -> tuple[Array, Array]:
        u = functions(factors, position[n_scales:].reshape(shape))
        if n_scales == 0:
            return u, np.ones(0)
        scale = np.exp(offset + half_spread * position[:n_scales])
        u *= scale
        return u, scale

    def log_density(position: Array) -> float:
        if np.abs(position[:n_scales]).max(initial=0.0) > FARTHEST:
            return -np.inf
        u, _ = scaled_functions(position)
        return outcomes.total(_mixed(u, A)) - 0.5 * float(position @ position)

    def gradient(position: Array) -> Array:
        u, scale = scaled_functions(position)
        slope = _slope_in_functions(outcomes, u, A)
        by_position = -position
        if n_scales > 0:
            by_position[:n_scales] += half_spread * _by_kernel(slope, u, n_scales)
            slope *= scale
        by_position[n_scales:] += functions_transposed(factors, slope).ravel()
        return by_position

    position = np.concatenate([(here - centre) / spread, state.whitened.ravel()])
    step_size, n_leapfrog = _steps(rng, state.step_size, state, adapt, MOST_STEPS)
    with np.errstate(over="ignore", invalid="ignore"):  # a step gone astray is refused
        moved, info = hmc.step_by_gradients(
            rng, position, log_density, gradient, step_size, n_leapfrog
        )
    if adapt:
        tuned = hmc.adapt_step_size(state.step_size, info.acceptance, target=ACCEPTANCE)
        state = state._replace(step_size=tuned)
    state = state._replace(acceptance=info.acceptance)
    if not info.accepted:
        return state
    log_parameters = state.log_parameters.copy()
    if v is not None:
        log_parameters[:, v] = centre + spread * moved[:n_scales]
        factors = factors * np.exp(0.5 * (log_parameters[:, v] - here))[:, None, None]
    whitened = moved[n_scales:].reshape(shape)
    return state._replace(whitened=whitened, log_parameters=log_parameters, factors=factors)


def _slope_in_functions(outcomes: Outcomes, u: Array, A: Array | None) -> Array:
    """The gradient of the likelihood's logarithm in u, (T, K); A None: functions are not mixed."""
    return outcomes.slope(u) if A is None else outcomes.slope(u @ A.T) @ A


def sample_log_parameters(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState, adapt: bool = False
) -> ArchipelagoState:
    """One Hamiltonian step of all log-parameters and of all K whitened functions.

    What is held while the other moves pins it: of the length-scales of thirteen features a step
    without gradients, or without the functions, moves next to nothing. Every leapfrog step of θ
    takes a factor and the gradient through it, and has two of the functions.
    """
    prior, rows = setting.prior, known_rows(setting, state)
    gram_at = gram_function(prior, rows, reference=setting.inputs)
    by_parameters = parameter_slope(prior, rows, gram_at)
    A = _mixing_or_none(state.mixing, setting.n_classes)
    outcomes = open_outcomes_at(setting, state)

    unit = PARAMETER_UNIT * prior.sd

    def prepare(position: Array) -> Kernels | None:
        if np.abs(position).max() > FARTHEST / PARAMETER_UNIT:
            return None
        return kernels_at(gram_at, prior.mean + unit * position)

    def log_density(kernels: Kernels, whitened: Array) -> float:
        u = functions(kernels.factors, whitened)
        deviation = (kernels.theta - prior.mean) / prior.sd
        squares = np.vdot(deviation, deviation) + np.vdot(whitened, whitened)
        return outcomes.total(_mixed(u, A)) - 0.5 * float(squares)

    def by_whitened(kernels: Kernels, whitened: Array) -> Array:
        by_u = _slope_in_functions(outcomes, functions(kernels.factors, whitened), A)
        return functions_transposed(kernels.factors, by_u) - whitened

    def slopes(kernels: Kernels, whitened: Array) -> tuple[Array, Array]:
        u = functions(kernels.factors, whitened)
        by_u = _slope_in_functions(outcomes, u, A)
        by_theta = by_parameters(kernels, whitened, u, by_u)
        by_theta -= (kernels.theta - prior.mean) / prior.sd**2
        return unit * by_theta, functions_transposed(kernels.factors, by_u) - whitened

    step_size, n_leapfrog = _steps(
        rng, state.parameter_step_size, state, adapt, MOST_STEPS_WITH_PARAMETERS
    )
    _, whitened, kernels, info = hmc.nested_step(
        rng, (state.log_parameters - prior.mean) / unit, state.whitened,
        hmc.Nested(prepare, log_density, by_whitened, slopes), step_size, n_leapfrog,
    )  # fmt: skip
    if adapt:
        tuned = hmc.adapt_step_size(state.parameter_step_size, info.acceptance, target=ACCEPTANCE)
        state = state._replace(parameter_step_size=tuned)
    state = state._replace(acceptance=info.acceptance)
    if not info.accepted:
        return state
    return state._replace(
        whitened=whitened, log_parameters=kernels.theta, factors=kernels.factors,
        jitter=kernels.jitter,
    )  # fmt: skip


def parameter_slope(
    prior: KernelPrior, rows: Any, gram_at: Callable[[Array], Array]
) -> Callable[[Kernels, Array, Array, Array], Array]:
    """(kernels, ν, u = L ν, gradient in u) -> the gradient in θ while ν is held, (F, p).

    The log variance scales u. Each of a few others takes one more factor and the difference that
    it makes; the gradient in many goes through the factor.
    """
    v, others = prior.variance_index, _beside_variance(prior)

    def by_differences(kernels: Kernels, whitened: Array, u: Array, by_u: Array) -> Array:
        slope = np.empty(kernels.theta.shape)
        here = _by_kernel(by_u, u, len(slope))
        if v is not None:
            slope[:, v] = 0.5 * here
        for j in others:
            theta = kernels.theta.copy()
            theta[:, j] += DIFFERENCE
            beside, _ = factors_from(gram_at, theta)
            there = _by_kernel(by_u, functions(beside, whitened), len(slope))
            slope[:, j] = (there - here) / (theta[:, j] - kernels.theta[:, j])
        return slope

    if len(others) <= FEW_PARAMETERS:
        return by_differences
    gram_slope = gram_gradient_function(prior, rows)

    def through_factors(kernels: Kernels, whitened: Array, u: Array, by_u: Array) -> Array:
        slope = np.empty(kernels.theta.shape)
        by_whitened = functions_transposed(kernels.factors, by_u)
        for f, (theta, C) in enumerate(zip(kernels.theta, kernels.grams, strict=True)):
            k = slice(None) if len(slope) == 1 else slice(f, f + 1)
            by_gram = through_cholesky(kernels.factors[f], by_whitened[:, k], whitened[:, k])
            slope[f] = gram_slope(theta, C, by_gram)
        return slope

    return through_factors


def _by_kernel(a: Array, b: Array, n_kernels: int) -> Array | float:
    """Products summed over rows and over each kernel's functions; (T, K) twice -> (F,)."""
    return float(np.vdot(a, b)) if n_kernels == 1 else (a * b).sum(axis=0)


def parameter_share(setting: Setting, state: ArchipelagoState, adapt: bool) -> float:
    """Of sweeps in which all of θ moves; the step does not change the rows that it depends on."""
    n_others = len(_beside_variance(setting.prior))
    if n_others == 0:
        return 0.0
    rows = ROWS_FOR_FEW if n_others <= FEW_PARAMETERS else ROWS_FOR_MANY
    share = min(rows / len(state.whitened), MOST_PARAMETER_SHARE)
    return share * (MORE_IN_WARMUP if adapt else 1.0)


def _beside_variance(prior: KernelPrior) -> list[int]:
    """The log-parameters that change more than the functions' scale."""
    return [j for j in range(len(prior.mean)) if j != prior.variance_index]


def _steps(
    rng: np.random.Generator, size: hmc.StepSize, state: ArchipelagoState, adapt: bool, most: int
) -> tuple[float, int]:
    """A trajectory's step size and number of steps, both drawn around what warm-up has found.

    Steps are shorter the more rejections there are, which stay where they are during the step:
    curvature grows in proportion to the rows, and steps shrink as its root.
    """
    tuned = float(np.exp(size.log_step_size if adapt else size.log_average))
    tuned *= float(np.sqrt(len(state.start_codes) / len(state.whitened)))
    step_size = tuned * rng.uniform(0.6, 1.2)  # where functions are large, only short ones succeed
    mean_steps = min(TRAJECTORY / step_size, most)
    return step_size, max(2, round(rng.uniform(0.6, 1.4) * mean_steps))


def sample_mixing(
    rng: np.random.Generator, setting: Setting, state: ArchipelagoState
) -> ArchipelagoState:
    """The weights of A given u, by elliptical slice sampling."""
    outcomes, u = open_outcomes_at(setting, state), functions(state.factors, state.whitened)

    def log_likelihood(mixing: Array) -> float:
        return outcomes.total(_mixed(u, mixing_matrix(mixing, setting.n_classes)))

    mixing, _, _ = elliptical_slice.step(
        rng, state.mixing, log_likelihood(state.mixing), log_likelihood,
        MIXING_SPREAD * rng.standard_normal(len(state.mixing)),
    )  # fmt: skip
    return state._replace(mixing=mixing)


# The chain ----------------------------------------------------------------------------------------


def sampler(
    setting: Setting,
    *,
    sweep: Callable[..., ArchipelagoState] = sweep,
    n_clamped: int = 0,
) -> Sampler:
    """The chain for labelled and unlabelled rows.

    Parameters
    ----------
    sweep : the transition, ours or the paper's
    n_clamped : first sweeps in which every unlabelled row has a label drawn from a graph of the
        rows, a new draw in each chain; rejections and θ settle around it before it is let go
    """

    def init(rng: np.random.Generator) -> ArchipelagoState:
        n, K, prior = len(setting.inputs), setting.n_classes, setting.prior
        n_kernels = K if setting.own_kernels else 1
        theta = prior.mean + 0.5 * prior.sd * rng.standard_normal((n_kernels, len(prior.mean)))
        mixing = 0.1 * rng.standard_normal(_n_mixing(K, setting.dependent))
        base = None
        if isinstance(setting.base, NormalInverseWishart):
            base = setting.base.given(setting.inputs).draw(rng)
        state = make_state(setting, setting.inputs[:0], np.zeros((n, K)), theta, mixing, base)
        state = state._replace(whitened=0.1 * rng.standard_normal((n, K)))
        if n_clamped == 0 or K == 1:
            return state
        start = start_labels(rng, setting)
        return state._replace(start_codes=start, n_clamped=n_clamped)

    def step(rng: np.random.Generator, state: ArchipelagoState, adapt: bool) -> ArchipelagoState:
        return sweep(rng, setting, state, adapt)

    def record(rng: np.random.Generator, state: ArchipelagoState) -> dict[str, Any]:
        n, g = len(setting.inputs), latent_at(setting, state)
        return {
            "n_rejections": len(state.rejections),
            "log_likelihood": outcomes_at(setting, state).total(g),
            "log_parameters": state.log_parameters.ravel(),
            "rejections": state.rejections,
            "whitened": state.whitened[: len(g)],
            "mixing": state.mixing,
            "base_mean": state.base.mean,
            "base_lower": state.base.lower,
            "row_probabilities": class_shares(g[:n]),
            "acceptance": state.acceptance,
            "jitter": state.jitter,
        }

    return Sampler(init, step, record)


def start_labels(rng: np.random.Generator, setting: Setting) -> Codes:
    """A label for every row, drawn from a Gaussian process on the graph of nearest neighbours.

    The functions are low-pass on the modes of the normalised graph, given the known labels; each
    row takes the class of the largest. Known labels stay. Rows that are not vectors of numbers
    have no graph: theirs are drawn from the kernel's own process.
    """
    n, K = len(setting.inputs), setting.n_classes
    if n < 3 or not (np.ndim(setting.inputs) == 2 and setting.inputs.dtype.kind == "f"):
        C = gram_function(setting.prior, setting.inputs)(setting.prior.mean)
        covariance = C / np.diagonal(C).mean()
    else:
        covariance = _graph_covariance(setting.inputs, K)
    known = np.flatnonzero(setting.codes >= 0)
    targets = np.full((len(known), K), -1.0 / K)
    targets[np.arange(len(known)), setting.codes[known]] += 1.0
    lower = jittered_cholesky(covariance + 1e-6 * np.eye(n)).lower
    f = lower @ rng.standard_normal((n, K))
    if len(known) > 0:  # Matheron's rule
        noise_sd = 0.1
        seen = covariance[np.ix_(known, known)] + noise_sd**2 * np.eye(len(known))
        surprise = targets - f[known] - noise_sd * rng.standard_normal((len(known), K))
        f += covariance[:, known] @ np.linalg.solve(seen, surprise)
    codes = np.argmax(f, axis=1)
    codes[known] = setting.codes[known]
    return codes


def _graph_covariance(X: Array, n_classes: int) -> Array:
    """A low-pass covariance on the modes of the rows' graph, (n, n), of mean variance one."""
    from atoll.core.graphs import (
        degrees,
        neighbour_graph,
        normalised_laplacian,
        self_tuning_weights,
    )

    spread = X.std(axis=0)
    X = X[:, spread > 0] / spread[spread > 0] if (spread > 0).any() else X
    weights = self_tuning_weights(neighbour_graph(X, min(15, len(X) - 1)))
    # The constant mode tells no row from another: it is lifted from frequency 0 to 1.
    constant = np.sqrt(degrees(weights) / degrees(weights).sum())
    L = normalised_laplacian(weights).toarray() + np.outer(constant, constant)
    frequency, modes = np.linalg.eigh(L)
    frequency = np.maximum(frequency, 0.0)
    scale = max(frequency[min(n_classes, len(X)) - 1], 1e-8)
    total = 1e-3 * np.eye(len(X))
    for cut, amount in ((0.5, 1.0), (2.0, 0.03)):
        gain = 1.0 / (1.0 + (frequency / (cut * scale)) ** 8)
        part = (modes * gain) @ modes.T
        total += amount * part / max(np.diagonal(part).mean(), 1e-12)
    return total / np.diagonal(total).mean()


# Prediction ---------------------------------------------------------------------------------------


class ArchipelagoPosterior(NamedTuple):
    """S states of the chain, as much of them as predictions need.

    inputs, prior, base : of the setting
    n_classes : K
    chains : (S,) the chain each came from
    n_rejections : (S,) M
    rejections : (S, most M, ...), filled up
    whitened : (S, n + most M, K), filled up
    log_parameters : (S, F·p), kernel by kernel
    mixing : (S, q)
    base_means, base_lowers : (S, d), (S, d, d) where π is sampled
    log_weights : (S,) of the states, normalised
    """

    inputs: Any
    prior: KernelPrior
    base: Density | NormalInverseWishart
    n_classes: int
    chains: NDArray[np.intp]
    n_rejections: NDArray[np.intp]
    rejections: Any
    whitened: Array
    log_parameters: Array
    mixing: Array
    base_means: Array
    base_lowers: Array
    log_weights: Array

    def weighted(self, chain_weights: Array) -> ArchipelagoPosterior:
        """The same states, those of each chain with its weight in all; (chains,)."""
        counts = np.bincount(self.chains, minlength=len(chain_weights))
        weights = (chain_weights / np.maximum(counts, 1))[self.chains]
        with np.errstate(divide="ignore"):
            return self._replace(log_weights=np.log(weights / weights.sum()))


def _state_of(posterior: ArchipelagoPosterior, s: int) -> tuple[Setting, ArchipelagoState]:
    """One state in full, its factors found again."""
    K, n, m = posterior.n_classes, len(posterior.inputs), int(posterior.n_rejections[s])
    setting = Setting(posterior.inputs, np.full(n, UNLABELLED), K, posterior.prior, posterior.base)
    rejections, p = posterior.rejections[s][:m], len(posterior.prior.mean)
    theta = posterior.log_parameters[s].reshape(-1 if p > 0 else 1, p)
    base = Gaussian(posterior.base_means[s], posterior.base_lowers[s])
    state = make_state(setting, rejections, np.zeros((n + m, K)), theta, posterior.mixing[s], base)
    return setting, state._replace(whitened=posterior.whitened[s][: n + m])


def latent_moments(
    posterior: ArchipelagoPosterior, X: Any
) -> Iterator[tuple[Array, Array, Array, float, Density]]:
    """Of one state at a time: mean and variance of u(x), (m, K) each, A, (n + M)/n and π.

    E[(n + M)/n | g] is 1/Z, so that averages over states can stand for the density's norm.
    """
    for s in range(len(posterior.n_rejections)):
        setting, state = _state_of(posterior, s)
        rows = np.concatenate([setting.inputs, state.rejections])
        means, variances = [], []
        for f, theta in enumerate(state.log_parameters):
            k = slice(None) if len(state.factors) == 1 else slice(f, f + 1)
            weights = solve_lower(state.factors[f], state.whitened[:, k], transposed=True)
            mean, variance = conditional_moments(
                setting.prior, theta, rows, state.factors[f], weights, X
            )
            means.append(mean)
            variances.append(np.broadcast_to(variance[:, None], mean.shape))
        A = mixing_matrix(state.mixing, setting.n_classes)
        inverse_norm = len(rows) / len(setting.inputs)
        yield (
            np.concatenate(means, axis=1), np.concatenate(variances, axis=1), A, inverse_norm,
            current_base(setting, state),
        )  # fmt: skip


def predict_latent(posterior: ArchipelagoPosterior, X: Any) -> tuple[Array, Array]:
    """Mean and variance of the K functions g over the whole posterior; X (m, d) -> (m, K) each."""
    weights = np.exp(posterior.log_weights)
    first, second = 0.0, 0.0
    for weight, (mean, variance, A, _, _) in zip(weights, latent_moments(posterior, X)):
        g = mean @ A.T
        first = first + weight * g
        second = second + weight * (variance @ (A**2).T + g**2)
    return np.asarray(first), np.maximum(second - np.square(first), 0.0)


class Predictions(NamedTuple):
    """Averages over the posterior at m rows.

    log_proba : (m, K) log P(class k | x), equation 6
    novelty : (m,) probability that a proposal at x is rejected
    log_density : (m,) of x, equation 2
    """

    log_proba: Array
    novelty: Array
    log_density: Array


def predict(posterior: ArchipelagoPosterior, X: Any, *, density: bool = False) -> Predictions:
    """Classes, novelty and, if asked for, density at the rows of X, (m, d)."""
    m, K = len(X), posterior.n_classes
    proba, accepted = np.zeros((m, K)), np.zeros(m)
    log_density = np.full(m, -np.inf)
    # Many states need few points each.
    n_points = N_POINTS if len(posterior.n_rejections) < 64 else N_POINTS // 4
    chunk = max(1, CHUNK_ENTRIES // (n_points * K * (K + 1)))
    draws = zip(np.exp(posterior.log_weights), latent_moments(posterior, X))
    for draw, (weight, (mean, variance, A, inverse_norm, base)) in enumerate(draws):
        points, kept = symmetric_points(K, draw, n_points), np.empty(m)
        sd = np.sqrt(variance)
        for first in range(0, m, chunk):
            part = slice(first, first + chunk)
            g = (mean[part, None, :] + sd[part, None, :] * points) @ A.T
            proba[part] += weight * class_shares(g).mean(axis=1)
            kept[part] = expit(logsumexp(g, axis=2)).mean(axis=1)
        accepted += weight * kept
        if density and weight > 0:
            with np.errstate(divide="ignore"):
                log_p = np.log(kept) + base.log_density(X) + np.log(weight * inverse_norm)
            log_density = np.logaddexp(log_density, log_p)
    with np.errstate(divide="ignore"):  # past 1e-308 a probability is zero
        log_proba = np.log(proba / proba.sum(axis=1, keepdims=True))
    return Predictions(log_proba, np.clip(1.0 - accepted, 0.0, 1.0), log_density)


def sample_rows(
    rng: np.random.Generator, posterior: ArchipelagoPosterior, n: int, label: int | None = None
) -> tuple[Any, Codes]:
    """n fantasies with their classes, of one class where `label` is given; section 3.5.

    Each comes from a state of the posterior, from which the process runs forward.
    """
    weights = np.exp(posterior.log_weights)
    wanted = rng.multinomial(n, weights / weights.sum())
    rows, outcomes = [], []
    for s in np.flatnonzero(wanted):
        setting, state = _state_of(posterior, int(s))
        history = run_forward(
            rng, setting, current_base(setting, state), state.log_parameters, state.mixing,
            known_rows(setting, state), state.whitened, state.factors, int(wanted[s]), label=label,
        )  # fmt: skip
        kept = history.outcomes >= 0 if label is None else history.outcomes == label
        rows.append(history.rows[kept])
        outcomes.append(history.outcomes[kept])
    order = rng.permutation(n)
    return np.concatenate(rows)[order], np.concatenate(outcomes)[order]
