"""Expectation propagation for a stack of small problems at once: the same rows, many kernels.

A model that averages over kernels, and over the amplitude of each, asks for the posterior of the
same few labels under dozens of covariances. `ep.propagate` would spend its time in the interpreter;
here every step is one call for the whole stack. Sites, cavities and evidence are those of `ep`:
each row has one site, with one precision and a shift per function, and all sites are updated at
once with damping. Only likelihoods whose logarithm is concave are taken, so that no precision is
negative.

Where functions vary much, updates alone come nearer to agreement by a twentieth at a time. So the
last few of them say where updates lead (Anderson 1965; Walker & Ni 2011): sites x move by updates
r(x), and of all combinations of the last points that one is taken where r would vanish if it were
linear, by least squares in units of the posterior's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import cholesky_inverse, jittered_cholesky
from atoll.core.regions import RegionGradients, Regions
from atoll.inference.ep import FAINT, LEAST_PRECISION, SMALLEST_SHRINKAGE

Array = NDArray[np.float64]

STACKED_ROWS = 48  # with more rows, matrices are factored one by one: LAPACK is the cost then
# Share of the way that the sites of a problem move: at first, at least, its loss when the moments
# come no nearer to each other, and its growth when they do.
FIRST_SHARE, LEAST_SHARE, LOSS, GROWTH = 0.8, 0.05, 0.5, 1.1
PROGRESS = 0.98  # of the disagreement before: less counts as nearer
MEMORY = 5  # differences of updates by which it is said where they lead
NEAR, LESS_NEAR = 1.0, 0.5  # disagreement below which that is believed; its loss if it was wrong
RIDGE = 1e-8  # of their products, relative to the sum of their squares
ROUGHLY = 0.3  # disagreement below which evidence is known to a nat or so
NEGLIGIBLE = 25.0  # nats by which a problem is less likely than another, and left as it is
LEAST_PART = 0.1  # of a site's precision that is left to it where updates lead below


class StackedSites(NamedTuple):
    """Posteriors of B problems with l rows and F functions.

    weights : (B, l, F) b; the mean of f(x) is k_xᵀ b
    site_inverse : (B, l, l) (C + diag(1/τ))^{-1}, τ the precisions of the sites
    log_evidence : (B,)
    disagreement : (B,) largest difference of moments at the end, as in `ep`
    held_out_mean : (B, l, F) of f at each row, given all labels but its own
    held_out_variance : (B, l)
    n_iterations : of the whole stack
    """

    weights: Array
    site_inverse: Array
    log_evidence: Array
    disagreement: Array
    held_out_mean: Array
    held_out_variance: Array
    n_iterations: int


def propagate(
    gram_matrices: Array,
    regions: Callable[[int], Regions],
    n_functions: int,
    *,
    label_weights: Array | None = None,
    log_priors: Array | None = None,
    others: float = -np.inf,
    tolerance: float = 0.02,
    max_iterations: int = 100,
) -> StackedSites:
    """Update the sites of all problems until the moments of each agree.

    Where problems have prior probabilities, one that cannot come to matter beside another is left
    as it is as soon as its evidence is roughly known.

    A weight w multiplies the log-likelihood of a label. It is that many labels of the same row,
    each with a site of its own, and all these sites are alike: a row has w times the site that one
    label would have beside the others. From one on the moments are those of power EP (Minka 2004)
    at 1/w, and for whole w those of the label repeated; below one a site is that of the label
    without the row's own, to the power w.

    Parameters
    ----------
    gram_matrices : (B, l, l)
    regions : of the rows of so many problems, one problem after the other
    n_functions : F
    label_weights : (l,) above zero; None: one each
    log_priors : (B,) of the problems; None: all are wanted
    others : the largest log prior and evidence of problems outside the stack
    tolerance : largest difference of moments, in units of the posterior's own
    max_iterations : updates of all sites, at most
    """
    B, n, _ = gram_matrices.shape
    every = _Sites.none(B, n, n_functions)
    found: list[StackedSites | None] = [None] * B
    copies = np.ones(n) if label_weights is None else np.asarray(label_weights)
    at_work, now = np.arange(B), every
    for iteration in range(max_iterations + 1):
        step = _Step.of(gram_matrices[at_work], now, regions(len(at_work)), copies)
        last = iteration == max_iterations
        done = np.ones(len(at_work), bool) if last else step.disagreement < tolerance
        log_evidence = step.log_evidence()
        if log_priors is not None:
            rough = step.disagreement < ROUGHLY
            total = np.where(rough, log_priors[at_work] + log_evidence, -np.inf)
            others = max(others, float(total.max()))
            done |= rough & (total < others - NEGLIGIBLE)
        for i in np.flatnonzero(done):
            found[at_work[i]] = step.result(int(i), log_evidence[i], iteration)
        at_work = at_work[~done]
        if not len(at_work):
            break
        now = (step.first() if iteration == 0 else step.moved()).part(~done)
    return joined([part for part in found if part is not None], np.stack)


def joined(parts: Sequence[StackedSites], join: Callable[..., Array]) -> StackedSites:
    """Put posteriors of several problems, or of several stacks, into one stack."""
    arrays: list[Any] = [join(field) for field in list(zip(*parts))[:-1]]
    return StackedSites._make([*arrays, max(part.n_iterations for part in parts)])


class _Sites(NamedTuple):
    """Sites of B problems, and how they came there.

    precision, shift : (B, l) and (B, l, F)
    share : (B,) of the way that they move
    before : (B,) the disagreement before
    near : (B,) the disagreement below which it is believed where updates lead
    update : (B, l, 1 + F) by how much the last update would have moved precisions and shifts
    moves, changes : (B, MEMORY, l, 1 + F) the last differences of sites, and of their updates;
        zeros where there are none
    """

    precision: Array
    shift: Array
    share: Array
    before: Array
    near: Array
    update: Array
    moves: Array
    changes: Array

    @classmethod
    def none(cls, n_problems: int, n_rows: int, n_functions: int) -> _Sites:
        """Return sites that say nothing."""
        B, shape = n_problems, (n_rows, 1 + n_functions)
        return cls(
            np.full((B, n_rows), LEAST_PRECISION),
            np.zeros((B, n_rows, n_functions)),
            np.full(B, FIRST_SHARE),
            np.full(B, np.inf),
            np.full(B, NEAR),
            np.zeros((B, *shape)),
            np.zeros((B, MEMORY, *shape)),
            np.zeros((B, MEMORY, *shape)),
        )

    def part(self, kept: NDArray[np.bool_]) -> _Sites:
        return self if kept.all() else _Sites(*(field[kept] for field in self))


class _Step(NamedTuple):
    """The posteriors under the sites, and where their moments ask the sites to go."""

    sites: _Sites
    now: _Posteriors
    slopes: RegionGradients
    n_free: int
    curvature: Array
    disagreement: Array
    copies: Array

    @classmethod
    def of(cls, C: Array, sites: _Sites, regions: Regions, copies: Array) -> _Step:
        tau, nu = sites.precision, sites.shift
        now = _posterior(C, tau, nu, copies)
        slopes = _slopes(regions, now)
        m, v = now.cavity_mean, now.cavity_variance
        c = np.minimum(slopes.curvature.reshape(tau.shape) / regions.n_free, 0.0)
        s = v / (1.0 + tau * v)
        tilted = m + v[..., None] * slopes.mean.reshape(nu.shape)
        mean = now.mean
        if np.any(copies < 1.0):  # then it is not that of the cavity and one site
            mean = (m + v[..., None] * nu) / (1.0 + tau * v)[..., None]
        apart = np.abs(tilted - mean).max(axis=2) / np.sqrt(s)
        disagreement = (apart + np.abs((v + v * v * c) / s - 1.0)).max(axis=1)
        return cls(sites, now, slopes, regions.n_free, c, disagreement, copies)

    def matched(self) -> tuple[Array, Array]:
        """Return the precisions and shifts of sites that match the moments."""
        m, v, c = self.now.cavity_mean, self.now.cavity_variance, self.curvature
        shrunk = np.maximum(1.0 + v * c, SMALLEST_SHRINKAGE)
        g = self.slopes.mean.reshape(m.shape)
        return (
            np.maximum(-c / shrunk, LEAST_PRECISION),
            (g - m * c[..., None]) / shrunk[..., None],
        )

    def first(self) -> _Sites:
        """Return the first sites: none are left behind, so that nothing is lost."""
        tau, nu = self.matched()
        return self.sites._replace(precision=tau, shift=nu, before=self.disagreement)

    def moved(self) -> _Sites:
        """Return the sites moved to where their updates lead, or back where that led astray."""
        tau, nu, share, before, near, update, moves, changes = self.sites
        farther = ~(self.disagreement <= before)
        back = farther & (before < near)
        grown = np.minimum(share * GROWTH, FIRST_SHARE)
        lost = np.maximum(share * LOSS, LEAST_SHARE)
        share = np.where(self.disagreement < PROGRESS * before, grown, lost)
        share = np.where(back, self.sites.share, share)
        new_tau, new_nu = self.matched()
        r = np.concatenate([(new_tau - tau)[..., None], new_nu - nu], axis=2)
        past = ~(farther | ~update.any(axis=(1, 2)))[:, None, None, None]  # or no update yet
        changes = past * np.concatenate([changes[:, 1:], (r - update)[:, None]], axis=1)
        r[back] = update[back]
        last = back[:, None, None] * moves[:, -1]
        moves = past * moves
        step = share[:, None, None] * r
        led = np.flatnonzero((self.disagreement < near) & ~farther)
        if len(led):
            v = self.now.cavity_variance[led]
            ahead = _ahead(r[led], changes[led], v / (1.0 + tau[led] * v))
            behind = moves[led] + share[led, None, None, None] * changes[led]
            step[led] -= np.einsum("bk,bkli->bli", ahead, behind)
        tau, nu = tau - last[..., 0], nu - last[..., 1:]
        least = LEAST_PART * np.minimum(tau, tau + r[..., 0])
        step[..., 0] = np.maximum(tau + step[..., 0], least) - tau
        return _Sites(
            tau + step[..., 0],
            nu + step[..., 1:],
            share,
            np.where(back, before, self.disagreement),
            np.where(back, LESS_NEAR * before, near),
            r,
            np.concatenate([moves[:, 1:], step[:, None]], axis=1),
            changes,
        )

    def log_evidence(self) -> Array:
        """Return the log evidence of each problem, (B,)."""
        tau, nu = self.sites.precision, self.sites.shift
        m, v, mean = self.now.cavity_mean, self.now.cavity_variance, self.now.mean
        log_p = self.slopes.log_probability.reshape(tau.shape)
        rest, count = 1.0 + tau * v, self.copies
        of_mean = np.sum(nu * (mean - nu * (v / rest)[..., None]), axis=2)
        of_cavity = np.sum(m * (tau[..., None] * m - 2.0 * nu), axis=2) / rest
        each = log_p + 0.5 * (self.n_free * np.log(rest) + of_mean + of_cavity)
        return np.asarray(np.sum(count * each, axis=1) - self.n_free * self.now.half_log_det)

    def result(self, i: int, log_evidence: float, iteration: int) -> StackedSites:
        """Return what was found for one problem."""
        root = np.sqrt(self.copies * self.sites.precision[i])
        return StackedSites(
            self.now.weights[i],
            root[:, None] * self.now.inverse[i] * root,
            np.asarray(log_evidence),
            self.disagreement[i],
            self.now.held_out_mean[i],
            self.now.held_out_variance[i],
            iteration,
        )


def _ahead(update: Array, changes: Array, variance: Array) -> Array:
    """Return how much of each change of updates makes up the update, (B, MEMORY).

    Parameters
    ----------
    update : (B, l, 1 + F) of precisions and shifts
    changes : (B, MEMORY, l, 1 + F) of updates
    variance : (B, l) of the posterior
    """
    unit = np.repeat(np.sqrt(variance)[..., None], update.shape[2], axis=2)
    unit[..., 0] = variance
    A = (changes * unit[:, None]).reshape(*changes.shape[:2], -1)
    y = (update * unit).reshape(len(update), -1, 1)
    products = A @ A.swapaxes(1, 2)
    index = np.arange(MEMORY)
    squares = products[:, index, index].sum(axis=1)
    products[:, index, index] += np.where(squares > 0, RIDGE * squares, 1.0)[:, None]
    return np.asarray(np.linalg.solve(products, A @ y)[..., 0])


class _Posteriors(NamedTuple):
    """The Gaussian posteriors under given sites, and their cavities; as in `ep`.

    A cavity is without one of the row's sites, or less where there is less; what is held out is
    without all of them.
    """

    weights: Array
    mean: Array
    cavity_mean: Array
    cavity_variance: Array
    held_out_mean: Array
    held_out_variance: Array
    inverse: Array
    half_log_det: Array


def _posterior(C: Array, site_tau: Array, site_nu: Array, copies: Array) -> _Posteriors:
    tau, nu = copies * site_tau, copies[:, None] * site_nu
    root, index = np.sqrt(tau), np.arange(C.shape[1])
    inner = root[:, :, None] * C
    inner *= root[:, None, :]
    inner[:, index, index] += 1.0
    inverse, half_log_det = _inverses(inner)
    weights = root[..., None] * (inverse @ (nu / root[..., None]))
    mean = C @ weights
    b = np.minimum(inverse[:, index, index], 1.0 - 1e-15)
    v = (1.0 / b - 1.0) / tau
    # A site that says next to nothing leaves its row what the others say: 1/b − 1 has no digits.
    faint = 1.0 - b < FAINT
    some = np.flatnonzero(faint.any(axis=1))
    if len(some):
        half = C[some] * root[some, None]
        spent = np.einsum("bij,bij->bi", half @ inverse[some], half)
        left = np.maximum(C[some][:, index, index] - spent, LEAST_PRECISION)
        v[some] = np.where(faint[some], left, v[some])
    held_out = mean * (1.0 + tau * v)[..., None] - nu * v[..., None]
    cavity = v / (1.0 + (tau - np.minimum(copies, 1.0) * site_tau) * v)
    removed = np.minimum(copies, 1.0) * site_tau
    m = mean * (1.0 + removed * cavity)[..., None]
    m -= np.minimum(copies, 1.0)[:, None] * site_nu * cavity[..., None]
    return _Posteriors(weights, mean, m, cavity, held_out, v, inverse, half_log_det)


def _inverses(matrices: Array) -> tuple[Array, Array]:
    """Return inverses and half the log determinants of positive definite matrices (B, l, l)."""
    if matrices.shape[1] <= STACKED_ROWS:
        lower = np.linalg.cholesky(matrices)
        half = np.asarray(np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1))
        return np.asarray(np.linalg.inv(matrices)), half
    out, half = np.empty_like(matrices), np.empty(len(matrices))
    for i, matrix in enumerate(matrices):
        lower = jittered_cholesky(matrix).lower
        out[i] = cholesky_inverse(lower)
        half[i] = np.log(np.diagonal(lower)).sum()
    return out, half


def _slopes(regions: Regions, now: _Posteriors) -> RegionGradients:
    m, v = now.cavity_mean, now.cavity_variance
    flat = m.reshape(-1, m.shape[2])
    return regions.gradients(flat[:, 0] if m.shape[2] == 1 else flat, np.sqrt(1.0 + v.ravel()))
