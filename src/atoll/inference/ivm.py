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
    Problem,
    Sites,
    held_posterior,
    joined_families,
    maximise_together,
)
from atoll.inference.type_two import Evaluation, LogPrior, Report
from atoll.inference.type_two import maximise as maximise_evidence

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
FamilyOf = Callable[[Rows], RegionFamily]
Check = Callable[[Sequence[Filtered], Sequence[Array]], bool]  # selections, their φ -> believed?

REFINEMENTS = ("ep", "adf")
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
    """

    rows: Rows
    sites: Sites
    weights: Array
    region_parameters: Array
    n_negative: int


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


def alternate(
    kernel: KernelAccess,
    families: Sequence[FamilyOf],
    prior: LogParameterPrior,
    *,
    n_active: int | None = None,
    n_rounds: int = 15,
    refine: str = "ep",
    first: NDArray[np.bool_] | None = None,
    check: Check | None = None,
    begin: Array | None = None,
    log_prior: LogPrior | None = None,
    negative: str = "zero",
    noise_variance: float = 1.0,
    report: Report | None = None,
) -> IVMResult:
    """Alternate selection and optimisation until the hyper-parameters rest or the rounds run out.

    Parameters
    ----------
    kernel : the kernel over all n rows
    families : one function per problem, rows -> what their labels say; the problems share θ
    prior : prior of θ
    n_active : d, the same for every problem; None takes all rows, and under EP selects only once
    n_rounds : the largest number of rounds
    refine : "ep" or "adf"
    first : (n,) mask of rows to select before all others
    check : returns whether a selection is believed; the rounds end before the first that is not
    begin : θ of the first selection; None means the centre of its prior
    log_prior : replaces the normal prior of θ
    negative : "zero" or "allow", what becomes of a negative precision
    noise_variance : σ² of ε
    report : called with the number of each round and its log evidence
    """
    everyone = np.arange(kernel.n)
    of_all = [family(everyone) for family in families]
    joined = joined_families(of_all)
    ends = np.cumsum([len(one.mean) for one in of_all])[:-1]
    whole = n_active is None or n_active >= kernel.n

    def select(theta: Array, phi: Array) -> list[Filtered]:
        column, diagonal = kernel.column(theta), kernel.diagonal(theta)
        return [
            filter_rows(
                column,
                diagonal,
                family.at(own).regions,
                n_active,
                first=first,
                negative=negative,
                noise_variance=noise_variance,
            )
            for family, own in zip(of_all, np.split(phi, ends))
        ]

    def held(passes: Sequence[Filtered], theta: Array, phi: Array) -> tuple[Active, ...]:
        found = [held_posterior(kernel.part(one.rows)[0](theta), one.sites, negative)
                 for one in passes]  # fmt: skip
        return tuple(
            Active(one.rows, each.sites, each.weights, own, one.n_negative)
            for one, each, own in zip(passes, found, np.split(phi, ends))
        )

    theta, phi = prior.mean if begin is None else begin, joined.mean
    passes = select(theta, phi)
    actives = held(passes, theta, phi)
    believed = check is None or check(passes, np.split(phi, ends))
    evidences: list[float] = []
    converged = False
    for round_ in range(n_rounds if believed else 0):
        problems = [
            Problem(*kernel.part(one.rows), family(one.rows), one.sites)
            for one, family in zip(passes, families)
        ]
        if refine == "ep":
            best = maximise_together(
                problems,
                prior,
                begin=(theta, phi),
                log_prior=log_prior,
                max_iterations=None if whole else ROUND_ITERATIONS,
                report=report if whole else None,
                negative=negative,
                noise_variance=noise_variance,
            )
            new_theta, new_phi = best.log_parameters, np.concatenate(best.region_parameters)
            value, settled = float(best.log_evidences[-1]), best.converged
            fresh = passes if whole else select(new_theta, new_phi)
            found = tuple(
                Active(one.rows, each.sites, each.weights, own, each.n_negative)
                for one, each, own in zip(passes, best.found, best.region_parameters)
            )
        else:
            new_theta, new_phi = _maximise_held(
                problems, passes, prior, joined, ends, (theta, phi), log_prior, negative,
                noise_variance,
            )  # fmt: skip
            fresh = select(new_theta, new_phi)
            value, settled = sum(one.log_evidence for one in fresh), True
            found = held(fresh, new_theta, new_phi)
        if check is not None and not check(fresh, np.split(new_phi, ends)):
            converged = True  # at the last selection that was believed
            break
        by_theta, by_phi = (new_theta - theta) / prior.sd, (new_phi - phi) / joined.sd
        moved = np.max(np.abs(np.concatenate([by_theta, by_phi])), initial=0.0)
        theta, phi, passes, actives = new_theta, new_phi, fresh, found
        if refine == "ep" and whole:
            evidences, converged = best.log_evidences.tolist(), settled
            break
        evidences.append(value)
        converged = settled and moved < LITTLE
        if report is not None:
            report(round_, value)
        if moved < MOVED:
            break
    jitter = max(jittered_cholesky(kernel.part(one.rows)[0](theta)).jitter for one in actives)
    return IVMResult(actives, theta, np.array(evidences), converged, jitter, believed,
                     whole and refine == "ep")  # fmt: skip


def _maximise_held(
    problems: Sequence[Problem],
    passes: Sequence[Filtered],
    prior: LogParameterPrior,
    joined: RegionFamily,
    ends: NDArray[np.intp],
    begin: tuple[Array, Array],
    log_prior: LogPrior | None,
    negative: str,
    noise_variance: float,
) -> tuple[Array, Array]:
    """Optimise θ by the evidence of the sites' regression, and φ by log P at the cavities."""

    def evaluate(theta: Array, phi: Array, start: None) -> Evaluation:
        total, by_theta, by_phi = 0.0, np.zeros(len(theta)), []
        for problem, one, own in zip(problems, passes, np.split(phi, ends)):
            C = problem.gram(theta)
            held = held_posterior(C, one.sites, negative)
            b = held.weights
            M = 0.5 * (np.outer(b, b) - held.site_inverse)
            by_theta = by_theta + problem.gram_gradient(theta, C, M)
            sd = np.sqrt(noise_variance + one.cavity_variance)
            slopes = problem.family.at(own).regions.gradients(one.cavity_mean, sd)
            by_phi.append(problem.family.gradient(own, slopes))
            total += held.log_evidence + float(slopes.log_probability.sum())
        return Evaluation(total, np.concatenate([by_theta, *by_phi]), None, None)

    best = maximise_evidence(
        evaluate,
        prior,
        joined,
        None,
        begin=begin,
        log_prior=log_prior,
        max_iterations=ROUND_ITERATIONS,
    )
    return best.log_parameters, best.region_parameters
