"""Type-II maximisation: the θ and φ at which log evidence plus log prior is highest.

Variational Bayes supplies its bound on the log evidence, expectation propagation its estimate. At
every θ and φ each finds its posterior anew, starting from the best one so far.
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
LogPrior = Callable[[Array], tuple[float, Array]]  # θ -> log density up to a constant, gradient

# θ and φ stay within this many prior standard deviations of the prior's centre.
PRIOR_REACH = 6.0
MAX_ITERATIONS = 200  # of L-BFGS, unless the caller sets a limit


class Evaluation(NamedTuple):
    """An approximate posterior at some θ and φ.

    log_evidence : the log evidence, an estimate or a bound
    slope : (p + q,) gradient of the log evidence by θ and φ
    start : a point from which the search for the next posterior may start
    posterior : whatever the caller needs to know about the best posterior
    """

    log_evidence: float
    slope: Array
    start: Any
    posterior: Any


class Maximum(NamedTuple):
    """The best of all evaluations.

    log_parameters, region_parameters : θ and φ of that evaluation
    posterior : its posterior
    log_evidences : (t,) best value after each iteration, including the log prior relative to its
        peak
    converged : whether the search ended before it ran out of iterations
    """

    log_parameters: Array
    region_parameters: Array
    posterior: Any
    log_evidences: Array
    converged: bool


class Approximation(NamedTuple):
    """A Gaussian posterior of functions known through z = f + ε, at the best θ and φ.

    Every deterministic inference over regions returns one, so that a model need not know which
    inference was used. A prediction takes f(x) ~ N(k_xᵀ w, k(x, x) − k_xᵀ (C + D)^{-1} k_x), with w
    the weights and D = diag(noise_variance), or I if that is None; auxiliary_variance A adds
    k_xᵀ (C + D)^{-1} A (C + D)^{-1} k_x. A method that puts a Gaussian of precision τ in the place
    of each row's likelihood gives noise_variance = 1/τ, finite and positive (a floor such as 1e-10
    stands for τ = 0), and as weights C^{-1} times the mean of f.

    weights : (n,) or (n, K), V^{-1} times the mean of z
    log_parameters, region_parameters : θ and φ
    log_evidences : (t,) estimate of, or bound on, the log evidence after each iteration, including
        the log prior relative to its peak
    converged : whether the search ended before it ran out of iterations
    jitter : jitter that the Cholesky factorisation needed
    auxiliary_variance : (n,) variance of z, for an inference that has a distribution of z
    noise_variance : (n,) variance of z given f, if it differs from one
    n_negative : number of rows whose likelihood asked for a negative precision
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
    """Maximise log evidence plus log prior by L-BFGS, in units of the prior, from its centre.

    Parameters
    ----------
    evaluate : θ, φ, start -> Evaluation
    prior, family : hold the normal priors of θ and φ
    start : where the first posterior's search starts
    begin : θ and φ to begin with, instead of the centre of the prior
    log_prior : replaces the normal prior of θ, which then only sets units and limits
    max_iterations : of L-BFGS; None means 200
    report : called with the number of each iteration and its log evidence
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
        search: Any = minimize  # its type stubs do not allow a function that returns its gradient
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
