"""Type-II maximum: where an evidence plus the log prior of θ and φ is highest.

Variational Bayes hands over its bound, expectation propagation its log evidence; each finds its
posterior anew for every θ and φ, starting from the best so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from atoll.core.regions import RegionFamily
from atoll.inference.auxiliary_gibbs import LogParameterPrior

Array = NDArray[np.float64]
Report = Callable[[int, float], None]
LogPrior = Callable[[Array], tuple[float, Array]]  # θ -> log density, up to a constant, and slope

# θ and φ stay within so many prior standard deviations.
PRIOR_REACH = 6.0
MAX_ITERATIONS = 200


class Evaluation(NamedTuple):
    """An approximate posterior at some θ and φ.

    log_evidence : or a bound on it
    slope : (p + q,) its gradient by θ and φ
    start : where the next search may start from
    posterior : whatever the caller wants of the best one
    """

    log_evidence: float
    slope: Array
    start: Any
    posterior: Any


class Maximum(NamedTuple):
    """The best of all evaluations.

    log_parameters, region_parameters : θ and φ there
    posterior : of that evaluation
    log_evidences : (t,) after every iteration, with the log prior relative to its peak
    converged : whether the search stopped by itself
    """

    log_parameters: Array
    region_parameters: Array
    posterior: Any
    log_evidences: Array
    converged: bool


class Approximation(NamedTuple):
    """A Gaussian posterior of functions known through z = f + ε, at the best θ and φ.

    Every deterministic inference over regions returns one, so that models need not ask which.

    weights : (n,) or (n, K), V^{-1} times the mean of z
    log_parameters, region_parameters : θ and φ
    log_evidences : (t,) the log evidence after every iteration, its estimate or a bound on it,
        with the log prior relative to its peak
    converged : whether the search stopped by itself
    jitter : what factoring took
    auxiliary_variance : (n,) of z, where the inference leaves it one
    noise_variance : (n,) of z given f, where it is not one
    n_negative : rows whose likelihood asked for a negative precision
    """

    weights: Array
    log_parameters: Array
    region_parameters: Array
    log_evidences: Array
    converged: bool
    jitter: float
    auxiliary_variance: Array | None = None
    noise_variance: Array | None = None
    n_negative: int = 0


def maximise(
    evaluate: Callable[[Array, Array, Any], Evaluation],
    prior: LogParameterPrior,
    family: RegionFamily,
    start: Any,
    *,
    begin: tuple[Array, Array] | None = None,
    log_prior: LogPrior | None = None,
    max_iterations: int | None = None,
    report: Report | None = None,
) -> Maximum:
    """L-BFGS over θ and φ in units of their prior, from its centre.

    Parameters
    ----------
    evaluate : θ, φ, start -> Evaluation
    prior, family : the priors of θ and φ
    begin : θ and φ to begin with in place of the centre
    log_prior : of θ in place of the normal one, which then gives units and reach alone
    report : called with the iteration and its log evidence
    """
    p = len(prior.mean)
    centre = np.concatenate([prior.mean, family.mean])
    spread = np.concatenate([prior.sd, family.sd])
    best: Maximum | None = None
    best_value = -np.inf

    def negative(x: Array) -> tuple[float, Array]:
        nonlocal best, best_value, start
        theta, phi = np.split(centre + spread * x, [p])
        found = evaluate(theta, phi, start)
        value, slope = found.log_evidence - 0.5 * float(x @ x), spread * found.slope - x
        if log_prior is not None:
            density, by_theta = log_prior(theta)
            value += density + 0.5 * float(x[:p] @ x[:p])
            slope[:p] += x[:p] + spread[:p] * by_theta
        if value > best_value:
            best_value, start = value, found.start
            best = Maximum(theta, phi, found.posterior, np.zeros(0), True)
        return -value, -slope

    def follow(x: Array) -> None:
        values.append(best_value)
        if report is not None:
            report(len(values) - 1, best_value)

    x_start = np.zeros(len(centre))
    if begin is not None:
        x_start = (np.concatenate(begin) - centre) / spread
    x_start = np.clip(x_start, -PRIOR_REACH, PRIOR_REACH)
    negative(x_start)
    values, converged = [best_value], True
    if len(centre) > 0:
        search: Any = minimize  # whose stubs do not know a function with its gradient
        outcome = search(
            negative,
            x_start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(-PRIOR_REACH, PRIOR_REACH)] * len(centre),
            callback=follow,
            options={
                "maxiter": MAX_ITERATIONS if max_iterations is None else max_iterations,
                "ftol": 1e-9,
                "gtol": 1e-4,
            },
        )
        converged = outcome.status != 1  # 1: out of iterations
    assert best is not None  # the evidence at the centre is finite
    return best._replace(log_evidences=np.array(values), converged=bool(converged))
