"""The informative vector machine: an active set, and hyper-parameters learned on it.

Lawrence, Seeger & Herbrich (2003), as Lawrence & Jordan (2005, section 5) use it: rounds of greedy
selection (`adf.py`) at the present hyper-parameters, then of optimising these on the rows selected.
A round costs O(n d²) for the selection and O(d³) for every evaluation of the evidence; the memory
is O(n d).

The evidence of a round is that of its own active set, so that it goes up and down from round to
round and cannot say when to stop. What can is whether the hyper-parameters move.

`refine="ep"` optimises the evidence of expectation propagation on the active set, whose sites
follow the hyper-parameters. `refine="adf"` is the paper's way: the sites are held as the pass left
them, and the evidence is that of the regression that they make.
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
Check = Callable[[Sequence[Filtered], Sequence[Array]], bool]  # passes, their φ -> whether to go on

REFINEMENTS = ("ep", "adf")
# Rounds end when no hyper-parameter moves by more than this, in units of its prior. An active set
# that goes back and forth keeps them moving: by less than LITTLE it makes no difference.
MOVED, LITTLE = 0.03, 0.25
ROUND_ITERATIONS = 30  # of the optimiser within a round


class KernelAccess(NamedTuple):
    """A kernel over n rows, a column or an active set at a time.

    n : rows
    column : θ -> (row i -> (n,) covariances with every row)
    diagonal : θ -> (n,) variances
    part : rows -> the Gram matrix of these as a function of θ, and what its gradient needs
    """

    n: int
    column: Callable[[Array], Callable[[int], Array]]
    diagonal: Callable[[Array], Array]
    part: Callable[[Rows], tuple[GramFunction, GramGradient]]


class Active(NamedTuple):
    """One problem's active set at the end.

    rows : (d,)
    sites : (d,)
    weights : (d,) b, with k_xᵀ b the mean of f(x)
    region_parameters : (q,) φ
    n_negative : rows whose likelihood asked for a negative precision
    """

    rows: Rows
    sites: Sites
    weights: Array
    region_parameters: Array
    n_negative: int


class IVMResult(NamedTuple):
    """Active sets that share a kernel.

    log_parameters : θ
    log_evidences : of the active set of every round, under EP with the log prior; where all rows
        are active under EP, of every iteration
    converged : whether the hyper-parameters came to rest, and the sites with them
    believed : whether the first selection passed its check
    whole : whether all rows are active under EP, which needs no rounds
    jitter : what factoring took
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
    """Select, then optimise, until the hyper-parameters rest or the rounds are over.

    Parameters
    ----------
    families : rows -> what their labels say, one a problem; the problems share θ
    prior : of θ
    n_active : d, for every problem; None for all rows, which need no second selection under EP
    refine : "ep" or "adf"
    first : (n,) rows that are selected before any other
    check : whether a selection is believed; rounds end before the first that is not
    begin : θ of the first selection, else the centre of its prior
    log_prior : of θ in place of the normal one
    negative, noise_variance : as in `ep.propagate`
    report : called with the round and its log evidence
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
            converged = True  # as far as it is believed
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
    """θ from the regression that the sites make, φ from the rows' probabilities when taken."""

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
