"""Expectation propagation for one function under any regions of z = f + ε (Minka 2001).

Each row's likelihood P(z_n in its regions | f_n) is stood for by a Gaussian site in f_n, of
precision τ_n and precision times mean ν_n. A site is what turns the cavity, the posterior without
it, into a Gaussian with the mean and variance of cavity times likelihood. Those moments are
derivatives of log P(z_n in its regions), z_n ~ N(m, 1 + v) with m and v the cavity's moments, and
regions know them:

    mean = m + v g,     variance = v + v² c,     g, c the first and second derivative by m.

All sites are updated at once, damped (Rasmussen & Williams 2006, section 3.6, whose notation this
is), until the moments agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import cholesky_inverse, jittered_cholesky
from atoll.core.regions import RegionFamily, RegionGradients, Regions
from atoll.inference.auxiliary_gibbs import GramFunction, LogParameterPrior
from atoll.inference.type_two import Evaluation, Report
from atoll.inference.type_two import maximise as maximise_evidence

Array = NDArray[np.float64]

# A site says nothing rather than less than nothing: its precision is kept above this.
LEAST_PRECISION = 1e-10


class Sites(NamedTuple):
    """What stands for the likelihoods: exp(ν f − ½ τ f²), a row.

    precision : (n,) τ
    shift : (n,) ν
    """

    precision: Array
    shift: Array


class Propagation(NamedTuple):
    """Sites at their fixed point.

    weights : (n,) b, with k_xᵀ b the mean of f(x)
    site_inverse : (n, n) (C + diag(1/τ))^{-1}
    gradients : of the regions at the cavities
    log_evidences : (t,) after every iteration
    converged : whether the moments agree
    """

    sites: Sites
    weights: Array
    site_inverse: Array
    gradients: RegionGradients
    log_evidences: Array
    converged: bool


class EPResult(NamedTuple):
    """The maximum of EP's log evidence.

    weights : (n,) b
    noise_variance : (n,) 1/τ: the posterior is that of a regression with this noise
    log_parameters, region_parameters : θ and φ there
    log_evidences : (t,) after every iteration of θ and φ, with the log prior relative to its peak
    converged : whether the search, and the sites at its end, stopped by themselves
    jitter : what factoring took
    """

    weights: Array
    noise_variance: Array
    log_parameters: Array
    region_parameters: Array
    log_evidences: Array
    converged: bool
    jitter: float


def no_sites(n: int) -> Sites:
    """Sites that say nothing."""
    return Sites(np.full(n, LEAST_PRECISION), np.zeros(n))


def propagate(
    gram_matrix: Array,
    regions: Regions,
    start: Sites,
    *,
    damping: float = 0.8,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
) -> Propagation:
    """Update all sites until every row's moments are those of its cavity times its likelihood.

    Parameters
    ----------
    gram_matrix : (n, n) C
    start : sites to begin with
    damping : share of the way that a site goes; half of it after every fifty iterations
    tolerance : in units of the posterior's own deviation and variance
    """
    C, n = gram_matrix, len(gram_matrix)
    tau, nu = start
    evidences: list[float] = []
    converged = False
    for iteration in range(max_iterations):
        root = np.sqrt(tau)
        lower = jittered_cholesky(np.eye(n) + root[:, None] * C * root).lower
        B_inverse = cholesky_inverse(lower)
        weights = root * (B_inverse @ (nu / root))
        mean = C @ weights
        # The cavity's variance from the diagonal of B^{-1}, which lies in (0, 1]: it stays positive
        # where the posterior's variance is lost beside that of the prior.
        b = np.minimum(np.diagonal(B_inverse), 1.0 - 1e-15)
        v = (1.0 / b - 1.0) / tau
        m = mean * (1.0 + tau * v) - nu * v
        slopes = regions.gradients(m, np.sqrt(1.0 + v))
        evidences.append(_log_evidence(tau, nu, mean, m, v, lower, slopes))
        tilted_mean, tilted_variance = m + v * slopes.mean, v + v * v * slopes.curvature
        variance = v / (1.0 + tau * v)
        apart = np.abs(tilted_mean - mean) / np.sqrt(variance)
        apart += np.abs(tilted_variance / variance - 1.0)
        if apart.max() < tolerance:
            converged = True
            break
        share = damping * 0.5 ** (iteration // 50)
        # 1/tilted variance − 1/v and tilted mean/tilted variance − m/v, without their differences.
        shrunk = 1.0 + v * slopes.curvature
        tau_new = np.maximum(-slopes.curvature / shrunk, LEAST_PRECISION)
        nu_new = (slopes.mean - m * slopes.curvature) / shrunk
        tau, nu = (1.0 - share) * tau + share * tau_new, (1.0 - share) * nu + share * nu_new
    site_inverse = root[:, None] * B_inverse * root
    return Propagation(
        Sites(tau, nu), weights, site_inverse, slopes, np.array(evidences), converged
    )


def _log_evidence(
    tau: Array, nu: Array, mean: Array, m: Array, v: Array, lower: Array, slopes: RegionGradients
) -> float:
    """Rasmussen & Williams, eqs 3.73 and 3.74."""
    s = v / (1.0 + tau * v)  # posterior variance
    return float(
        slopes.log_probability.sum()
        - np.log(np.diagonal(lower)).sum()
        + 0.5 * np.log1p(tau * v).sum()
        + 0.5 * np.sum(nu * (mean - nu * s))
        + 0.5 * np.sum(m / v * s * (tau * m - 2.0 * nu))
    )


def maximise(
    gram: GramFunction,
    gram_gradient: Callable[[Array, Array, Array], Array],
    prior: LogParameterPrior,
    family: RegionFamily,
    *,
    report: Report | None = None,
) -> EPResult:
    """EP's log evidence at its maximum over θ and φ.

    At the fixed point the evidence does not change with the sites: its gradient by θ is that of the
    Gaussian it looks like (Seeger 2005), and by φ that of Σ log P at the cavities.

    Parameters
    ----------
    gram : θ -> C (n, n), a fresh array
    gram_gradient : θ, C, M -> Σ_ij M_ij ∂C_ij/∂θ
    prior : of θ
    family : the regions, and the prior of φ
    """

    def evaluate(theta: Array, phi: Array, start: Sites) -> Evaluation:
        C = gram(theta)
        found = propagate(C, family.at(phi).regions, start)
        b = found.weights
        M = 0.5 * (np.outer(b, b) - found.site_inverse)
        slope = np.concatenate([gram_gradient(theta, C, M), family.gradient(phi, found.gradients)])
        return Evaluation(float(found.log_evidences[-1]), slope, found.sites, found)

    n = len(family.at(family.mean).regions.zeros())
    best = maximise_evidence(evaluate, prior, family, no_sites(n), report=report)
    found = best.posterior
    return EPResult(
        found.weights,
        1.0 / found.sites.precision,
        best.log_parameters,
        best.region_parameters,
        best.log_evidences,
        best.converged and found.converged,
        jittered_cholesky(gram(best.log_parameters)).jitter,
    )
