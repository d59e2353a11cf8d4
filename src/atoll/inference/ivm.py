"""The informative vector machine: an active set, and hyper-parameters learned on it.

Lawrence, Seeger & Herbrich (2003), as used by Lawrence & Jordan (2005, section 5). Each round
selects rows greedily at the current hyper-parameters (`adf.py`) and then optimises these on the
selected rows. A round costs O(n d²) for the selection and O(d³) per evaluation of the evidence;
memory is O(n d).

The evidence of a round is that of its own active set. It therefore rises and falls from round to
round and cannot tell when to stop; the rounds stop when the hyper-parameters no longer move.

`refine="ep"` maximises the evidence of expectation propagation on the active set, and finds the
sites anew at every value of the hyper-parameters. `refine="adf"` is the paper's way: the sites stay
as the selection left them, and the evidence is that of the Gaussian regression that they define.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import jittered_cholesky
from atoll.core.regions import RegionFamily
from atoll.inference.adf import Filtered, filter_rows
from atoll.inference.auxiliary_gibbs import GramFunction, LogParameterPrior
from atoll.inference.ep import (
    GramGradient,
    HeldPosterior,
    Problem,
    Propagation,
    Sites,
    held_posterior,
    joined_families,
    maximise_together,
    propagate,
)
from atoll.inference.type_two import Evaluation, LogPrior, Report
from atoll.inference.type_two import maximise as maximise_evidence

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
FamilyOf = Callable[[Rows], RegionFamily]
Check = Callable[[Sequence[Filtered], Sequence[Array]], bool]  # selections, their φ -> believed?

# Rounds end when no hyper-parameter moves by MOVED or more, in units of its prior deviation. If the
# rounds run out first, because the active set goes back and forth, moves below LITTLE still count
# as convergence: they make no difference.
MOVED, LITTLE = 0.03, 0.25
ROUND_ITERATIONS = 30  # iterations of the optimiser per round


class KernelAccess(NamedTuple):
    """A kernel over n rows, accessible one column or one active set at a time.

    n : number of rows
    column : θ -> (row i -> (n,) covariances with every row)
    diagonal : θ -> (n,) variances
    part : rows -> their Gram matrix as a function of θ, and the function for its gradient
    """

    n: int
    column: Callable[[Array], Callable[[int], Array]]
    diagonal: Callable[[Array], Array]
    part: Callable[[Rows], tuple[GramFunction, GramGradient]]


class Active(NamedTuple):
    """The final active set of one problem.

    rows : (d,)
    sites : (d,)
    weights : (d,) b; the mean of f(x) is k_xᵀ b
    region_parameters : (q,) φ
    n_negative : number of rows whose likelihood asked for a negative precision
    cavity_mean, cavity_variance : (d,) of f without the row's own site
    """

    rows: Rows
    sites: Sites
    weights: Array
    region_parameters: Array
    n_negative: int
    cavity_mean: Array
    cavity_variance: Array


class IVMResult(NamedTuple):
    """Active sets of problems that share a kernel.

    problems : one active set per problem
    log_parameters : θ
    log_evidences : log evidence of the active set after each round, with the log prior under EP;
        one value per iteration of the optimiser if EP has all rows active
    converged : whether the hyper-parameters and the sites came to rest
    jitter : jitter that the Cholesky factorisation needed
    believed : whether the first selection passed the check
    whole : whether EP had all rows active, which makes rounds unnecessary
    """

    problems: tuple[Active, ...]
    log_parameters: Array
    log_evidences: Array
    converged: bool
    jitter: float
    believed: bool = True
    whole: bool = False


class Plan(NamedTuple):
    """How rows are selected, and how hyper-parameters are learned on them.

    refine : "ep" or "adf"
    n_active : d, for every problem; None for all rows, which need no second selection under EP
    n_rounds : most rounds
    first : (n,) rows that are selected before any other
    check : whether a selection is believed; rounds end before the first that is not
    begin : θ of the first selection, else the centre of its prior
    log_prior : of θ in place of the normal one
    negative, noise_variance : as in `ep.propagate`
    """

    refine: str = "ep"
    n_active: int | None = None
    n_rounds: int = 15
    first: NDArray[np.bool_] | None = None
    check: Check | None = None
    begin: Array | None = None
    log_prior: LogPrior | None = None
    negative: str = "zero"
    noise_variance: float = 1.0


ON_ALL_ROWS = Plan()


class _Setting(NamedTuple):
    """All that stays the same from round to round; `joined` and `ends` are of all φ end to end."""

    kernel: KernelAccess
    families: Sequence[FamilyOf]
    prior: LogParameterPrior
    plan: Plan
    of_all: Sequence[RegionFamily]
    joined: RegionFamily
    ends: NDArray[np.intp]

    @property
    def whole(self) -> bool:
        """Whether all rows are active."""
        return self.plan.n_active is None or self.plan.n_active >= self.kernel.n


class _Round(NamedTuple):
    """What a round leaves: θ, all φ, a selection there, the active sets, and their evidences."""

    log_parameters: Array
    region_parameters: Array
    passes: Sequence[Filtered]
    actives: tuple[Active, ...]
    log_evidences: Array
    settled: bool


def alternate(
    kernel: KernelAccess,
    families: Sequence[FamilyOf],
    prior: LogParameterPrior,
    plan: Plan,
    report: Report | None = None,
) -> IVMResult:
    """Alternate selection and optimisation until the hyper-parameters rest or the rounds run out.

    Parameters
    ----------
    kernel : the kernel over all n rows
    families : one function per problem, rows -> what their labels say; the problems share θ
    prior : prior of θ
    plan : how rows are selected and parameters refined
    report : called with the number of each round and its log evidence
    """
    setting = _setting(kernel, families, prior, plan)
    check, joined, ends = plan.check, setting.joined, setting.ends
    theta, phi = prior.mean if plan.begin is None else plan.begin, joined.mean
    passes: Sequence[Filtered] = _select(setting, theta, phi)
    actives = _held(setting, passes, theta, phi)
    believed = check is None or check(passes, np.split(phi, ends))
    by_iteration = setting.whole and plan.refine == "ep"  # and one round is enough
    evidences: list[float] = []
    converged = False
    for round_ in range(plan.n_rounds if believed else 0):
        refine = _refine_by_propagation if plan.refine == "ep" else _refine_held
        new = refine(setting, passes, theta, phi, report if by_iteration else None)
        if check is not None and not check(new.passes, np.split(new.region_parameters, ends)):
            converged = True  # at the last selection that was believed
            break
        by_theta = (new.log_parameters - theta) / prior.sd
        by_phi = (new.region_parameters - phi) / joined.sd
        moved = np.max(np.abs(np.concatenate([by_theta, by_phi])), initial=0.0)
        theta, phi, passes, actives = new[:4]
        if by_iteration:
            evidences, converged = new.log_evidences.tolist(), new.settled
            break
        evidences.append(float(new.log_evidences[-1]))
        converged = new.settled and moved < LITTLE
        if report is not None:
            report(round_, evidences[-1])
        if moved < MOVED:
            break
    jitter = max(jittered_cholesky(kernel.part(one.rows)[0](theta)).jitter for one in actives)
    return IVMResult(actives, theta, np.array(evidences), converged, jitter, believed, by_iteration)


def active_sets_at(
    kernel: KernelAccess,
    families: Sequence[FamilyOf],
    prior: LogParameterPrior,
    plan: Plan,
    theta: Array,
    phis: Sequence[Array],
) -> tuple[Active, ...]:
    """Select rows at given θ and φ of every problem, and find their sites; see `alternate`."""
    setting, phi = _setting(kernel, families, prior, plan), np.concatenate(phis)
    passes = _select(setting, theta, phi)
    if plan.refine != "ep":
        return _held(setting, passes, theta, phi)
    found = [
        propagate(
            problem.gram(theta),
            problem.family.at(own).regions,
            problem.start,
            negative=plan.negative,
            noise_variance=plan.noise_variance,
        )
        for problem, own in zip(_problems(setting, passes), phis)
    ]
    return tuple(
        _active(one.rows, each, own, each.n_negative) for one, each, own in zip(passes, found, phis)
    )


def _setting(
    kernel: KernelAccess, families: Sequence[FamilyOf], prior: LogParameterPrior, plan: Plan
) -> _Setting:
    of_all = [family(np.arange(kernel.n)) for family in families]
    ends = np.cumsum([len(one.mean) for one in of_all])[:-1]
    return _Setting(kernel, families, prior, plan, of_all, joined_families(of_all), ends)


def _select(setting: _Setting, theta: Array, phi: Array) -> list[Filtered]:
    kernel, plan = setting.kernel, setting.plan
    column, diagonal = kernel.column(theta), kernel.diagonal(theta)
    return [
        filter_rows(
            column,
            diagonal,
            family.at(own).regions,
            plan.n_active,
            first=plan.first,
            negative=plan.negative,
            noise_variance=plan.noise_variance,
        )
        for family, own in zip(setting.of_all, np.split(phi, setting.ends))
    ]


def _held(
    setting: _Setting, passes: Sequence[Filtered], theta: Array, phi: Array
) -> tuple[Active, ...]:
    """Return the active sets with their sites as the passes left them."""
    found = [
        held_posterior(setting.kernel.part(one.rows)[0](theta), one.sites, setting.plan.negative)
        for one in passes
    ]
    return tuple(
        _active(one.rows, each, own, one.n_negative)
        for one, each, own in zip(passes, found, np.split(phi, setting.ends))
    )


def _active(
    rows: Rows, found: HeldPosterior | Propagation, region_parameters: Array, n_negative: int
) -> Active:
    return Active(
        rows,
        found.sites,
        found.weights,
        region_parameters,
        n_negative,
        found.cavity_mean,
        found.cavity_variance,
    )


def _problems(setting: _Setting, passes: Sequence[Filtered]) -> list[Problem]:
    """Return the problems of the rows selected, which begin with their sites."""
    return [
        Problem(*setting.kernel.part(one.rows), family(one.rows), one.sites)
        for one, family in zip(passes, setting.families)
    ]


def _refine_by_propagation(
    setting: _Setting,
    passes: Sequence[Filtered],
    theta: Array,
    phi: Array,
    report: Report | None,
) -> _Round:
    """θ and φ where EP's evidence of the active sets is highest."""
    plan = setting.plan
    best = maximise_together(
        _problems(setting, passes),
        setting.prior,
        begin=(theta, phi),
        log_prior=plan.log_prior,
        max_iterations=None if setting.whole else ROUND_ITERATIONS,
        report=report,
        negative=plan.negative,
        noise_variance=plan.noise_variance,
    )
    new_phi = np.concatenate(best.region_parameters)
    return _Round(
        best.log_parameters,
        new_phi,
        passes if setting.whole else _select(setting, best.log_parameters, new_phi),
        tuple(
            _active(one.rows, each, own, each.n_negative)
            for one, each, own in zip(passes, best.found, best.region_parameters)
        ),
        best.log_evidences,
        best.converged,
    )


def _refine_held(
    setting: _Setting,
    passes: Sequence[Filtered],
    theta: Array,
    phi: Array,
    report: Report | None,
) -> _Round:
    """θ from the regression that the sites make, φ from the rows' probabilities when taken."""
    plan, problems = setting.plan, _problems(setting, passes)

    def evaluate(theta: Array, phi: Array, start: None) -> Evaluation:
        total, by_theta, by_phi = 0.0, np.zeros(len(theta)), []
        for problem, one, own in zip(problems, passes, np.split(phi, setting.ends)):
            C = problem.gram(theta)
            held = held_posterior(C, one.sites, plan.negative)
            b = held.weights
            M = 0.5 * (np.outer(b, b) - held.site_inverse)
            by_theta = by_theta + problem.gram_gradient(theta, C, M)
            sd = np.sqrt(plan.noise_variance + one.cavity_variance)
            slopes = problem.family.at(own).regions.gradients(one.cavity_mean, sd)
            by_phi.append(problem.family.gradient(own, slopes))
            total += held.log_evidence + float(slopes.log_probability.sum())
        return Evaluation(total, np.concatenate([by_theta, *by_phi]), None, None)

    best = maximise_evidence(
        evaluate,
        setting.prior,
        setting.joined,
        None,
        begin=(theta, phi),
        log_prior=plan.log_prior,
        max_iterations=ROUND_ITERATIONS,
        report=report,
    )
    new_theta, new_phi = best.log_parameters, best.region_parameters
    fresh = _select(setting, new_theta, new_phi)
    value = sum(one.log_evidence for one in fresh)
    actives = _held(setting, fresh, new_theta, new_phi)
    return _Round(new_theta, new_phi, fresh, actives, np.array([value]), True)
