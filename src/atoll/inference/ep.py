"""Expectation propagation under any regions of z = f + ε (Minka 2001).

Each row's likelihood P(z_n in its regions | f_n) is stood for by a Gaussian site in f_n, of
precision τ_n and precision times mean ν_n. A site is what turns the cavity, the posterior without
it, into a Gaussian with the mean and variance of cavity times likelihood. Those moments are
derivatives of log P(z_n in its regions), z_n ~ N(m, σ² + v) with m and v the cavity's moments and
σ² the variance of ε, and regions know them:

    mean = m + v g,     variance = v + v² c,     g, c the first and second derivative by m.

K functions with one kernel have one site a row for all of them, of one precision and K shifts: the
cavity's variance is then one number a row, and c the mean of the second derivatives over the K − 1
contrasts that the regions see. That keeps of a K × K site its trace alone.

All sites are updated at once, damped (Rasmussen & Williams 2006, section 3.6, whose notation this
is), or one after the other, until the moments agree.

Where c > 0, as it may be when a row is in one of two regions, the matching site has a negative
precision. `negative="zero"` sets it to zero and matches the mean alone (paper 001, section 4);
`negative="allow"` keeps it while the posterior, and the posterior without any one site, stay
positive definite. Only moments that all match make the evidence stationary in the sites: its
gradient is exact without zeroed sites, and an approximation with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from atoll.core.linalg import cholesky_inverse, jittered_cholesky, solve_lower
from atoll.core.regions import RegionFamily, RegionGradients, Regions, regions_of_rows
from atoll.inference.auxiliary_gibbs import GramFunction, LogParameterPrior
from atoll.inference.type_two import Approximation, Evaluation, LogPrior, Report
from atoll.inference.type_two import maximise as maximise_evidence

Array = NDArray[np.float64]
GramGradient = Callable[[Array, Array, Array], Array]

# A site says nothing rather than less than nothing: a precision of zero is written so.
LEAST_PRECISION = 1e-10
# A site that its data ask to be infinitely precise, as a step seen from far off, stays below this.
SMALLEST_SHRINKAGE = 1e-12
# Below this share of a row's precision a site is weighed by the posterior's variance.
FAINT = 1e-6
# Iterations without progress after which the sites go half as far; with it they go farther again.
PATIENCE = 6
LEAST_DAMPING = 0.02
PARALLEL_DAMPING = 0.15  # where even this does not help all at once, one after the other may
RECOVERY = 1.1
NEGATIVE = ("zero", "allow")
SCHEDULES = ("parallel", "sequential")


class Sites(NamedTuple):
    """What stands for the likelihoods: exp(ν f − ½ τ f²), a row.

    precision : (n,) τ
    shift : (n,) ν, or (n, K)
    """

    precision: Array
    shift: Array


class Propagation(NamedTuple):
    """Sites at their fixed point.

    weights : (n,) or (n, K) b, with k_xᵀ b the mean of f(x)
    site_inverse : (n, n) (C + diag(1/τ))^{-1}
    gradients : of the regions at the cavities
    log_evidences : (t,) after every iteration
    converged : whether the moments agree
    mean, variance : of f under the posterior, the mean (n,) or (n, K), the variance (n,)
    cavity_mean, cavity_variance : the same without the row's own site
    n_negative : rows whose likelihood asks for a negative precision, at the end
    verdict : whether it converged, and why not, in words
    """

    sites: Sites
    weights: Array
    site_inverse: Array
    gradients: RegionGradients
    log_evidences: Array
    converged: bool
    mean: Array
    variance: Array
    cavity_mean: Array
    cavity_variance: Array
    n_negative: int
    verdict: str


def no_sites(n: int, n_functions: int = 1) -> Sites:
    """Sites that say nothing."""
    shape = (n,) if n_functions == 1 else (n, n_functions)
    return Sites(np.full(n, LEAST_PRECISION), np.zeros(shape))


def _by_row(values: Array, like: Array) -> Array:
    """One number a row, (n,), in a shape that goes with (n,) or (n, K)."""
    return values[:, None] if like.ndim == 2 else values


# The fixed point ----------------------------------------------------------------------------------


def propagate(
    gram_matrix: Array,
    regions: Regions,
    start: Sites,
    *,
    damping: float = 0.8,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    negative: str = "zero",
    schedule: str = "parallel",
    noise_variance: float = 1.0,
) -> Propagation:
    """Update the sites until every row's moments are those of its cavity times its likelihood.

    Parameters
    ----------
    gram_matrix : (n, n) C
    start : sites to begin with
    damping : share of the way that a site goes; half of it whenever there is no progress
    tolerance : in units of the posterior's own deviation and variance
    negative : "zero" or "allow", what becomes of a negative precision
    schedule : "parallel", all sites at once, and in turn where that goes back and forth; or
        "sequential", one after the other
    noise_variance : σ² of ε

    Examples
    --------
    >>> from atoll.core.regions import Intervals
    >>> positive = Intervals(np.zeros((1, 1)), np.full((1, 1), np.inf), np.zeros((1, 1)))
    >>> found = propagate(np.eye(1), positive, no_sites(1))
    >>> found.converged, float(np.exp(found.log_evidences[-1]).round(6))
    (True, 0.5)
    """
    # Many parameters because an iteration that may oscillate needs several knobs, by keyword.
    check_options(negative, schedule)
    C = gram_matrix
    current = _posterior(C, start, negative)
    evidences: list[float] = []
    share, best, since = damping, np.inf, 0
    converged, apart, in_turn = False, np.inf, schedule == "sequential"
    for _ in range(max_iterations):
        m, v = current.cavity_mean, current.cavity_variance
        slopes = regions.gradients(m, np.sqrt(noise_variance + v))
        evidences.append(_log_evidence(current, slopes, regions.n_free))
        apart = _disagreement(current, slopes, negative, regions.n_free)
        if apart < tolerance:
            converged = True
            break
        since = 0 if apart < best else since + 1
        best = min(best, apart)
        if since >= PATIENCE:
            share, since, best = max(0.5 * share, LEAST_DAMPING), 0, apart
            if not in_turn and share < PARALLEL_DAMPING:
                in_turn, share = True, damping
        elif since == 0:
            share = min(RECOVERY * share, damping)
        if in_turn:
            sites = _sweep(current, regions, share, negative, noise_variance)
        else:
            sites = _move(
                current.sites,
                matching_sites(m, v, slopes.mean, _curvature(slopes, negative, regions.n_free)),
                share,
            )
        current = _posterior(C, sites, negative)
    else:  # the sites went on after their last look
        m, v = current.cavity_mean, current.cavity_variance
        slopes = regions.gradients(m, np.sqrt(noise_variance + v))
        evidences.append(_log_evidence(current, slopes, regions.n_free))
    verdict = (
        "the moments agree"
        if converged
        else f"after {max_iterations} iterations the worst moments differ by {apart:.2g} of the "
        f"posterior's own, damped to {share:.2g}"
        + (f"; {current.n_limited} negative precisions are cut short" if current.n_limited else "")
    )
    return Propagation(
        current.sites,
        current.weights,
        current.site_inverse(),
        slopes,
        np.array(evidences),
        converged,
        current.mean,
        current.variance,
        m,
        v,
        int(np.sum(slopes.curvature > 0)),
        verdict,
    )


def check_options(negative: str, schedule: str) -> None:
    """Raise a ValueError for an unknown word."""
    if negative not in NEGATIVE:
        raise ValueError(f"negative={negative!r} is none of {', '.join(map(repr, NEGATIVE))}.")
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule={schedule!r} is none of {', '.join(map(repr, SCHEDULES))}.")


class _Posterior(NamedTuple):
    """The Gaussian that some sites make of the prior, and its cavities.

    covariance : (n, n) of f, where some precision is negative; else None
    inverse : (n, n) of B = I + τ^½ C τ^½, where none is
    half_log_det : of I + C diag(τ), halved
    n_limited : negative precisions cut short to keep everything positive definite
    """

    sites: Sites
    weights: Array
    mean: Array
    variance: Array
    cavity_mean: Array
    cavity_variance: Array
    covariance: Array | None
    inverse: Array
    half_log_det: float
    n_limited: int
    gram_matrix: Array

    def site_inverse(self) -> Array:
        tau = self.sites.precision
        if self.covariance is None:
            root = np.sqrt(tau)
            return root[:, None] * self.inverse * root
        return np.diag(tau) - tau[:, None] * self.covariance * tau

    def full_covariance(self) -> Array:
        if self.covariance is not None:
            return self.covariance
        half = self.gram_matrix * np.sqrt(self.sites.precision)
        return self.gram_matrix - half @ self.inverse @ half.T


def _posterior(gram_matrix: Array, sites: Sites, negative: str) -> _Posterior:
    C, n = gram_matrix, len(gram_matrix)
    tau, nu = sites
    below = tau < 0
    kept = np.where(below, LEAST_PRECISION, np.maximum(tau, LEAST_PRECISION))
    root = np.sqrt(kept)
    lower = jittered_cholesky(np.eye(n) + root[:, None] * C * root).lower
    inverse = cholesky_inverse(lower)
    half_log_det = float(np.log(np.diagonal(lower)).sum())
    if negative == "allow" and below.any():
        return _with_negative_sites(C, Sites(np.where(below, tau, kept), nu), root, inverse,
                                    half_log_det)  # fmt: skip
    tau = kept
    weights = _by_row(root, nu) * (inverse @ (nu / _by_row(root, nu)))
    mean = C @ weights
    # The cavity's variance from the diagonal of B^{-1}, which lies in (0, 1]: it stays positive
    # where the posterior's variance is lost beside that of the prior.
    b = np.minimum(np.diagonal(inverse), 1.0 - 1e-15)
    v = (1.0 / b - 1.0) / tau
    # A site that says next to nothing has b next to one, and that quotient no digits left.
    faint = np.flatnonzero(1.0 - b < FAINT)
    if len(faint) > 0:
        half = C[faint] * root
        s = C[faint, faint] - np.einsum("ij,ij->i", half @ inverse, half)
        v[faint] = np.where(s > 0, s / (1.0 - tau[faint] * s), v[faint])
    m = mean * _by_row(1.0 + tau * v, nu) - nu * _by_row(v, nu)
    s = v / (1.0 + tau * v)
    sites = Sites(tau, nu)
    return _Posterior(sites, weights, mean, s, m, v, None, inverse, half_log_det, 0, C)


def _with_negative_sites(
    gram_matrix: Array, sites: Sites, root: Array, inverse: Array, half_log_det: float
) -> _Posterior:
    """The negative sites on top of the others, cut short until all is positive definite.

    root, inverse : of the other sites alone, with the negative ones at nothing
    """
    C = gram_matrix
    tau, nu = sites
    half = C * root
    S = C - half @ inverse @ half.T
    below = np.flatnonzero(tau < 0)
    others = tau > 0
    share, n_limited = 1.0, 0
    while True:
        r = np.sqrt(-share * tau[below])
        core = np.eye(len(below)) - r[:, None] * S[np.ix_(below, below)] * r
        factored = _plain_cholesky(core)
        if factored is not None:
            side = solve_lower(factored, (S[:, below] * r).T)
            covariance = S + side.T @ side
            s = np.diagonal(covariance)
            # Without a site of positive precision the rest must still be a distribution.
            if np.all(s > 0) and np.all(s[others] * tau[others] < 1.0 - 1e-9):
                break
        share, n_limited = 0.5 * share, len(below)
        if share < 1e-3:
            share, covariance, s = 0.0, S, np.diagonal(S)
            factored = np.eye(len(below))
            break
    tau = tau.copy()
    tau[below] *= share
    mean = covariance @ nu
    v = s / (1.0 - tau * s)
    m = mean * _by_row(1.0 + tau * v, nu) - nu * _by_row(v, nu)
    log_det = half_log_det + float(np.log(np.diagonal(factored)).sum())
    return _Posterior(
        Sites(tau, nu),
        nu - _by_row(tau, nu) * mean,
        mean,
        s,
        m,
        v,
        covariance,
        inverse,
        log_det,
        n_limited,
        C,
    )


def _plain_cholesky(matrix: Array) -> Array | None:
    lower, info = lapack.dpotrf(matrix, lower=1, clean=1)
    return lower if info == 0 else None


def matching_sites(m: Array, v: Array, g: Array, c: Array) -> Sites:
    """1/tilted variance − 1/v and tilted mean/tilted variance − m/v, without their differences."""
    shrunk = np.maximum(1.0 + v * c, SMALLEST_SHRINKAGE)
    tau = -c / shrunk
    # Nothing is written as the least precision; what is negative is meant to be.
    tau = np.where(np.abs(tau) < LEAST_PRECISION, LEAST_PRECISION, tau)
    return Sites(tau, (g - m * _by_row(c, m)) / _by_row(shrunk, m))


def _curvature(slopes: RegionGradients, negative: str, n_free: int) -> Array:
    c = slopes.curvature / n_free
    return c if negative == "allow" else np.minimum(c, 0.0)


def _move(old: Sites, new: Sites, share: float) -> Sites:
    return Sites(*((1.0 - share) * a + share * b for a, b in zip(old, new)))


def _disagreement(
    current: _Posterior, slopes: RegionGradients, negative: str, n_free: int
) -> float:
    """The worst difference of a row's moments, a zeroed or cut site's variance left out."""
    m, v, s = current.cavity_mean, current.cavity_variance, current.variance
    c = _curvature(slopes, negative, n_free)
    off = np.abs(m + _by_row(v, m) * slopes.mean - current.mean).reshape(len(v), -1)
    apart = off.max(axis=1, initial=0.0) / np.sqrt(s)
    of_variance = np.abs((v + v * v * c) / s - 1.0)
    if current.n_limited:
        of_variance = np.where(c > 0, 0.0, of_variance)
    return float(np.max(apart + of_variance, initial=0.0))


def _sweep(
    current: _Posterior, regions: Regions, share: float, negative: str, noise_variance: float
) -> Sites:
    """Every site in turn, each from the posterior that the ones before it left."""
    S, mean = current.full_covariance(), current.mean.copy()
    tau, nu = (part.copy() for part in current.sites)
    for i in range(len(tau)):
        s = S[i, i]
        proper = 1.0 - tau[i] * s
        if not (s > 0 and proper > 1e-9):  # no distribution is left without this site
            continue
        v = np.array([s / proper])
        m = ((mean[i] - nu[i] * s) / proper)[None]
        one = regions_of_rows(regions, np.array([i]))
        slopes = one.gradients(m, np.sqrt(noise_variance + v))
        new = matching_sites(m, v, slopes.mean, _curvature(slopes, negative, regions.n_free))
        by_tau = share * (new.precision[0] - tau[i])
        by_nu = share * (new.shift[0] - nu[i])
        if 1.0 + by_tau * s <= 1e-6:
            continue
        tau[i] += by_tau
        nu[i] += by_nu
        column = S[:, i].copy()
        mean += np.multiply.outer(column, (by_nu - by_tau * mean[i]) / (1.0 + by_tau * s))
        S -= np.multiply.outer(column * (by_tau / (1.0 + by_tau * s)), column)
    return Sites(tau, nu)


def _log_evidence(current: _Posterior, slopes: RegionGradients, n_free: int) -> float:
    """Rasmussen & Williams, eqs 3.73 and 3.74, for as many functions as the regions see."""
    tau, nu = current.sites
    m, v = current.cavity_mean, current.cavity_variance
    scaled, s = _by_row(tau, nu) * m - 2.0 * nu, _by_row(current.variance, nu)
    return float(
        slopes.log_probability.sum()
        + n_free * (0.5 * np.log1p(tau * v).sum() - current.half_log_det)
        + 0.5 * np.sum(nu * (current.mean - nu * s))
        + 0.5 * np.sum(m * scaled / _by_row(1.0 + tau * v, nu))
    )


class HeldPosterior(NamedTuple):
    """What sites that stay as they are make of a prior: a regression.

    log_evidence : of the sites, up to what does not depend on the kernel
    """

    sites: Sites
    weights: Array
    site_inverse: Array
    log_evidence: float


def held_posterior(gram_matrix: Array, sites: Sites, negative: str = "zero") -> HeldPosterior:
    """The posterior under sites that are held; `log_evidence` is ½ νᵀ mean − ½ log det(I + C T)."""
    current = _posterior(gram_matrix, sites, negative)
    value = 0.5 * float(current.sites.shift @ current.mean) - current.half_log_det
    return HeldPosterior(current.sites, current.weights, current.site_inverse(), value)


# The evidence's maximum ---------------------------------------------------------------------------


class Problem(NamedTuple):
    """Functions under their regions; several problems may share a kernel.

    gram : θ -> C (n, n), a fresh array
    gram_gradient : θ, C, M -> Σ_ij M_ij ∂C_ij/∂θ
    family : the regions, and the prior of φ
    start : sites to begin with
    """

    gram: GramFunction
    gram_gradient: GramGradient
    family: RegionFamily
    start: Sites


class SharedMaximum(NamedTuple):
    """Where the evidences of several problems together are highest.

    found : of every problem
    log_parameters : θ, which they share
    region_parameters : φ of every problem
    """

    found: tuple[Propagation, ...]
    log_parameters: Array
    region_parameters: tuple[Array, ...]
    log_evidences: Array
    converged: bool


def maximise_together(
    problems: Sequence[Problem],
    prior: LogParameterPrior,
    *,
    begin: tuple[Array, Array] | None = None,
    log_prior: LogPrior | None = None,
    report: Report | None = None,
    max_iterations: int | None = None,
    **options: Any,
) -> SharedMaximum:
    """EP's log evidences, added up, at their maximum over the shared θ and every problem's φ.

    At the fixed point the evidence does not change with the sites: its gradient by θ is that of the
    Gaussian it looks like (Seeger 2005), and by φ that of Σ log P at the cavities.

    Parameters
    ----------
    prior : of θ
    begin : θ and all φ to begin with, else the centres of their priors
    log_prior : of θ in place of the normal one
    options : of `propagate`; with moments to some tolerance the evidence is off by its square
    """
    ends = np.cumsum([len(problem.family.mean) for problem in problems])[:-1]

    def evaluate(theta: Array, phi: Array, starts: tuple[Sites, ...]) -> Evaluation:
        total, by_theta, by_phi, found = 0.0, np.zeros(len(theta)), [], []
        for problem, own, start in zip(problems, np.split(phi, ends), starts):
            C, regions = problem.gram(theta), problem.family.at(own).regions
            one = propagate(C, regions, start, **options)
            b = one.weights.reshape(len(C), -1)
            M = 0.5 * (b @ b.T - regions.n_free * one.site_inverse)
            by_theta = by_theta + problem.gram_gradient(theta, C, M)
            by_phi.append(problem.family.gradient(own, one.gradients))
            total += float(one.log_evidences[-1])
            found.append(one)
        slope = np.concatenate([by_theta, *by_phi])
        return Evaluation(total, slope, tuple(one.sites for one in found), tuple(found))

    families = joined_families([problem.family for problem in problems])
    best = maximise_evidence(
        evaluate,
        prior,
        families,
        tuple(problem.start for problem in problems),
        begin=begin,
        log_prior=log_prior,
        max_iterations=max_iterations,
        report=report,
    )
    return SharedMaximum(
        best.posterior,
        best.log_parameters,
        tuple(np.split(best.region_parameters, ends)),
        best.log_evidences,
        best.converged and all(one.converged for one in best.posterior),
    )


def joined_families(families: Sequence[RegionFamily]) -> RegionFamily:
    """The names and priors of all φ, end to end; its regions are those of the first."""
    if len(families) == 1:
        return families[0]
    return families[0]._replace(
        names=tuple(f"{name}_of_{k}" for k, one in enumerate(families) for name in one.names),
        mean=np.concatenate([one.mean for one in families]),
        sd=np.concatenate([one.sd for one in families]),
    )


def maximise(
    gram: GramFunction,
    gram_gradient: GramGradient,
    prior: LogParameterPrior,
    family: RegionFamily,
    *,
    report: Report | None = None,
    tolerance: float = 1e-6,
    max_iterations: int | None = None,
) -> Approximation:
    """`maximise_together` of one problem, from no sites; negative precisions are zeroed."""
    zeros = family.at(family.mean).regions.zeros()
    sites = no_sites(len(zeros), zeros.size // len(zeros))
    problem = Problem(gram, gram_gradient, family, sites)
    best = maximise_together(
        [problem],
        prior,
        report=report,
        negative="zero",
        tolerance=tolerance,
        max_iterations=max_iterations,
    )
    (found,), (phi,) = best.found, best.region_parameters
    return Approximation(
        found.weights,
        best.log_parameters,
        phi,
        best.log_evidences,
        best.converged,
        jittered_cholesky(gram(best.log_parameters)).jitter,
        noise_variance=1.0 / found.sites.precision,
        n_negative=found.n_negative,
    )
