"""Expectation propagation under any regions of z = f + ε (Minka 2001).

Each row's likelihood P(z_n in its regions | f_n) is represented by a Gaussian site in f_n, with
precision τ_n and precision times mean ν_n. The cavity of a row is the posterior without the row's
site; times the site, it must have the mean and variance of cavity times likelihood. These moments
follow from derivatives of log P(z_n in its regions), z_n ~ N(m, σ² + v), where m and v are the
cavity's mean and variance and σ² is the variance of ε; regions provide them:

    mean = m + v g,     variance = v + v² c,     g, c the first and second derivative by m.

K functions with one kernel share one site per row, with one precision and K shifts. The cavity's
variance is then one number per row, and c is the mean of the second derivatives over the K − 1
contrasts that the regions constrain: of a full K × K site only the trace is kept.

The sites are updated all at once with damping (Rasmussen & Williams 2006, section 3.6, whose
notation is used here), or one after the other, until the moments agree.

Where c > 0, which can happen when a row may be in either of two regions, the matching site has a
negative precision. `negative="zero"` sets it to zero and matches the mean alone (paper 001,
section 4); `negative="allow"` keeps it as long as the posterior, and the posterior without any one
site, stay positive definite. The evidence is stationary in the sites only if all moments match: its
gradient is exact without zeroed sites, and approximate with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

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

# Stands for a precision of zero: the site says nothing.
LEAST_PRECISION = 1e-10
# Smallest ratio of tilted to cavity variance. It bounds the precision of a site whose likelihood
# asks for an infinite one, such as a step seen from far away.
SMALLEST_SHRINKAGE = 1e-12
# A site with less than this share of its row's precision gets its cavity from the posterior's
# variance, because the usual formula loses all digits.
FAINT = 1e-6
# Iterations without progress after which the damping factor is halved.
PATIENCE = 6
LEAST_DAMPING = 0.02  # the damping factor is never halved below this
PARALLEL_DAMPING = 0.15  # below this the parallel schedule gives way to the sequential one
RECOVERY = 1.1  # growth of the damping factor, up to its first value, per iteration of progress
NEGATIVE = ("zero", "allow")
SCHEDULES = ("parallel", "sequential")


class Sites(NamedTuple):
    """Gaussian stand-ins for the likelihoods: exp(ν f − ½ τ f²), one per row.

    precision : (n,) τ
    shift : (n,) or (n, K) ν
    """

    precision: Array
    shift: Array


class Propagation(NamedTuple):
    """Sites at their fixed point.

    weights : (n,) or (n, K) b; the mean of f(x) is k_xᵀ b
    site_inverse : (n, n) (C + diag(1/τ))^{-1}
    gradients : the regions' gradients at the cavities
    log_evidences : (t,) after each iteration
    converged : whether the moments agree
    mean, variance : moments of f under the posterior, (n,) or (n, K) and (n,)
    cavity_mean, cavity_variance : the same without the row's own site
    n_negative : number of rows whose likelihood asks for a negative precision at the end
    verdict : in words, whether the iteration converged and, if not, how far it got
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
    """Return n sites that say nothing."""
    shape = (n,) if n_functions == 1 else (n, n_functions)
    return Sites(np.full(n, LEAST_PRECISION), np.zeros(shape))


def _by_row(values: Array, like: Array) -> Array:
    """Return one number per row, (n,), in a shape that broadcasts with `like`, (n,) or (n, K)."""
    return values[:, None] if like.ndim == 2 else values


# The fixed point ----------------------------------------------------------------------------------


class Under(Protocol):
    """A posterior under given sites, as the iteration reads it."""

    @property
    def sites(self) -> Sites: ...
    @property
    def weights(self) -> Array: ...
    @property
    def mean(self) -> Array: ...
    @property
    def variance(self) -> Array: ...
    @property
    def cavity_mean(self) -> Array: ...
    @property
    def cavity_variance(self) -> Array: ...
    @property
    def half_log_det(self) -> float: ...
    @property
    def n_limited(self) -> int: ...
    def site_inverse(self) -> Array: ...


class Structured(Protocol):
    """A prior covariance that knows a quicker way to its posterior than a full matrix."""

    def posterior(self, sites: Sites) -> Under: ...


def propagate(
    gram_matrix: Array | Structured,
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
    gram_matrix : (n, n) C, or a prior with a `posterior` of its own, such as
        `contrasts.Contrasts`; its sites are always updated all at once
    regions : the regions of the n rows
    start : sites to begin with
    damping : share of the way that a site moves towards its new value; halved whenever there is no
        progress
    tolerance : largest difference of moments at convergence, in units of the posterior's standard
        deviation and variance
    max_iterations : the iteration stops after this many updates of all sites
    negative : "zero" or "allow", what becomes of a negative precision
    schedule : "parallel" updates all sites at once, and one after the other if that oscillates;
        "sequential" updates one after the other from the start
    noise_variance : σ² of ε

    Examples
    --------
    >>> from atoll.core.regions import Intervals
    >>> positive = Intervals(np.zeros((1, 1)), np.full((1, 1), np.inf), np.zeros((1, 1)))
    >>> found = propagate(np.eye(1), positive, no_sites(1))
    >>> found.converged, float(np.exp(found.log_evidences[-1]).round(6))
    (True, 0.5)
    """
    # Many parameters because an iteration that may oscillate needs several controls.
    check_options(negative, schedule)

    def posterior(sites: Sites) -> Under:
        if isinstance(gram_matrix, np.ndarray):
            return _posterior(gram_matrix, sites, negative)
        return gram_matrix.posterior(sites)

    current = posterior(start)
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
            if isinstance(current, _Posterior) and not in_turn and share < PARALLEL_DAMPING:
                in_turn, share = True, damping
        elif since == 0:
            share = min(RECOVERY * share, damping)
        if in_turn and isinstance(current, _Posterior):
            sites = _sweep(current, regions, share, negative, noise_variance)
        else:
            sites = _move(
                current.sites,
                matching_sites(m, v, slopes.mean, _curvature(slopes, negative, regions.n_free)),
                share,
            )
        current = posterior(sites)
    else:  # the sites moved after the last evaluation
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
    """Raise a ValueError unless both options are known."""
    if negative not in NEGATIVE:
        raise ValueError(f"negative={negative!r} is none of {', '.join(map(repr, NEGATIVE))}.")
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule={schedule!r} is none of {', '.join(map(repr, SCHEDULES))}.")


class _Posterior(NamedTuple):
    """The Gaussian posterior under given sites, and its cavities.

    covariance : (n, n) of f if some precision is negative, else None
    inverse : (n, n) B^{-1}, B = I + τ^½ C τ^½ over the sites of positive precision
    half_log_det : ½ log det(I + C diag(τ))
    n_limited : number of negative precisions reduced to keep everything positive definite
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
    # The cavity's variance follows from the diagonal of B^{-1}, which lies in (0, 1]. It stays
    # positive even where the posterior's variance is lost in the rounding error of the prior's.
    b = np.minimum(np.diagonal(inverse), 1.0 - 1e-15)
    v = (1.0 / b - 1.0) / tau
    # A site that says next to nothing has b close to one, and 1/b − 1 has no digits left.
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
    """Add the negative sites to the others, scaled down until all is positive definite.

    root, inverse : τ^½ and B^{-1} of the other sites alone
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
            # Without any one site of positive precision the rest must still be a distribution.
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
    """Return the sites that give the cavities N(m, v) the tilted moments.

    τ = 1/tilted variance − 1/v and ν = tilted mean/tilted variance − m/v, where the tilted mean is
    m + v g and the tilted variance v + v² c; both are computed without taking these differences.
    """
    shrunk = np.maximum(1.0 + v * c, SMALLEST_SHRINKAGE)
    tau = -c / shrunk
    # Precisions near zero become LEAST_PRECISION; negative ones are meant to be negative.
    tau = np.where(np.abs(tau) < LEAST_PRECISION, LEAST_PRECISION, tau)
    return Sites(tau, (g - m * _by_row(c, m)) / _by_row(shrunk, m))


def _curvature(slopes: RegionGradients, negative: str, n_free: int) -> Array:
    c = slopes.curvature / n_free
    return c if negative == "allow" else np.minimum(c, 0.0)


def _move(old: Sites, new: Sites, share: float) -> Sites:
    return Sites(*((1.0 - share) * a + share * b for a, b in zip(old, new)))


def _disagreement(current: Under, slopes: RegionGradients, negative: str, n_free: int) -> float:
    """Return the largest difference of a row's moments, in units of the posterior's own.

    The variance of a row whose negative site was zeroed or scaled down is left out, and so is a
    row that would say less than the least precision does: where the prior's variance is vast,
    that has a share in the posterior's.
    """
    m, v, s = current.cavity_mean, current.cavity_variance, current.variance
    c = _curvature(slopes, negative, n_free)
    says_nothing = ~slopes.mean.reshape(len(v), -1).any(axis=1)
    faint = says_nothing | ((c >= -LEAST_PRECISION) & (c < 0))
    silent = faint & (np.abs(current.sites.precision) <= 1.01 * LEAST_PRECISION)
    off = np.abs(m + _by_row(v, m) * slopes.mean - current.mean).reshape(len(v), -1)
    apart = off.max(axis=1, initial=0.0) / np.sqrt(s)
    of_variance = np.abs((v + v * v * c) / s - 1.0)
    if current.n_limited:
        of_variance = np.where(c > 0, 0.0, of_variance)
    return float(np.max((apart + of_variance)[~silent], initial=0.0))


def _sweep(
    current: _Posterior, regions: Regions, share: float, negative: str, noise_variance: float
) -> Sites:
    """Update every site in turn, each from the posterior that the updates before it left."""
    S, mean = current.full_covariance(), current.mean.copy()
    tau, nu = (part.copy() for part in current.sites)
    for i in range(len(tau)):
        s = S[i, i]
        proper = 1.0 - tau[i] * s
        if not (s > 0 and proper > 1e-9):  # without this site there is no distribution
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


def _log_evidence(current: Under, slopes: RegionGradients, n_free: int) -> float:
    """Return EP's log evidence (Rasmussen & Williams, eqs 3.73 and 3.74) for n_free functions."""
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
    """The posterior under sites that are held fixed: a Gaussian regression.

    sites : the sites
    weights : (d,) b; the mean of f(x) is k_xᵀ b
    site_inverse : (d, d) (C + diag(1/τ))^{-1}
    log_evidence : log evidence of the regression, up to terms that do not depend on the kernel
    cavity_mean, cavity_variance : (d,) of f without the row's own site
    """

    sites: Sites
    weights: Array
    site_inverse: Array
    log_evidence: float
    cavity_mean: Array
    cavity_variance: Array


def held_posterior(gram_matrix: Array, sites: Sites, negative: str = "zero") -> HeldPosterior:
    """Return the posterior under fixed sites; log evidence ½ νᵀ mean − ½ log det(I + C diag τ)."""
    current = _posterior(gram_matrix, sites, negative)
    value = 0.5 * float(current.sites.shift @ current.mean) - current.half_log_det
    return HeldPosterior(
        current.sites,
        current.weights,
        current.site_inverse(),
        value,
        current.cavity_mean,
        current.cavity_variance,
    )


# The evidence's maximum ---------------------------------------------------------------------------


class Problem(NamedTuple):
    """Functions and their regions; several problems may share a kernel.

    gram : θ -> C (n, n), a fresh array
    gram_gradient : θ, C, M -> Σ_ij M_ij ∂C_ij/∂θ
    family : the regions at any φ, and the prior of φ
    start : sites to begin with
    """

    gram: GramFunction
    gram_gradient: GramGradient
    family: RegionFamily
    start: Sites


class SharedMaximum(NamedTuple):
    """The maximum of the sum of several problems' log evidences.

    found : the propagation of each problem
    log_parameters : θ, which the problems share
    region_parameters : φ of each problem
    log_evidences : (t,) the sum after each iteration, including the log prior
    converged : whether the search and all propagations converged
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
    """Maximise the sum of the problems' log evidences over the shared θ and each problem's φ.

    At the fixed point the evidence is stationary in the sites. Its gradient by θ is therefore that
    of a Gaussian regression on the sites (Seeger 2005), and its gradient by φ that of Σ log P at
    the cavities.

    Parameters
    ----------
    problems : the problems
    prior : prior of θ
    begin : θ and all φ to begin with; None means the centres of their priors
    log_prior : replaces the normal prior of θ
    report : called with the number of each iteration and its log evidence
    max_iterations : of the search over θ and φ; None means 200
    options : passed to `propagate`; the evidence's error is of the order of `tolerance` squared
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
    """Join the names and priors of all φ end to end; the regions are those of the first family."""
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
    begin: tuple[Array, Array] | None = None,
    report: Report | None = None,
    tolerance: float = 1e-6,
    max_iterations: int | None = None,
) -> Approximation:
    """Maximise the evidence of one problem, starting from sites that say nothing.

    Negative precisions are set to zero.

    Parameters
    ----------
    gram : θ -> C (n, n), a fresh array
    gram_gradient : θ, C, M -> Σ_ij M_ij ∂C_ij/∂θ
    prior : prior of θ
    family : the regions at any φ, and the prior of φ
    begin : θ and φ to begin with; None means the centres of their priors
    report : called with the number of each iteration and its log evidence
    tolerance : of the moments
    max_iterations : of the search over θ and φ; None means 200
    """
    zeros = family.at(family.mean).regions.zeros()
    sites = no_sites(len(zeros), zeros.size // len(zeros))
    problem = Problem(gram, gram_gradient, family, sites)
    best = maximise_together(
        [problem],
        prior,
        begin=begin,
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
