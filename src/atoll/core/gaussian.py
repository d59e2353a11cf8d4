"""The normal distribution where it is hard: tails, differences, truncation, products of Φ.

Everything is in log space and vectorised; SciPy's `log_ndtr` and `ndtri_exp` carry the tails.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr, ndtr, ndtri_exp

from atoll.core.memory import in_chunks
from atoll.core.node_tables import NodeTables, mass_tables_for, tables_for

Array = NDArray[np.float64]

OFFSETS_AT_ONCE = 2**13  # so that what is computed from them stays in the cache
CLASSES_AT_ONCE = 2**10  # the same of all nodes of each
SMALL_FOR_SLOPES = 1e-6  # mass below which slopes are found in log space
SMALL_FOR_ROUGH_SLOPES = 1e-3  # the same where five digits are enough
NOTHING_IN_SUMS = 1e-12  # mass that is negligible beside others
FAR_BEHIND = 13.0  # deviations behind the largest mean at which a class wins one time in 1e19
CLOSE_TO_PEAK = 1e-3  # error of the peak; the nodes around it reach eight deviations to each side
LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


def log_normal_density(x: ArrayLike) -> Array:
    """Return log φ(x), the log density of the standard normal."""
    x = np.asarray(x, dtype=float)
    return -0.5 * x * x - LOG_SQRT_2PI


def log_ndtr_difference(lower: ArrayLike, upper: ArrayLike) -> Array:
    """Return log(Φ(upper) − Φ(lower)) with no cancellation in either tail.

    Parameters
    ----------
    lower, upper : broadcastable, lower <= upper; infinities allowed

    Examples
    --------
    >>> round(float(log_ndtr_difference(-1.0, 1.0)), 6)
    -0.381715
    >>> round(float(log_ndtr_difference(30.0, 31.0)), 4)    # Φ(30) is 1 in floating point
    -454.3212
    """
    lower, upper = np.asarray(lower, float), np.asarray(upper, float)
    # Mirror intervals in the right tail into the left one, where Φ is small and exact.
    mirrored = lower > 0
    a = np.where(mirrored, -upper, lower)
    b = np.where(mirrored, -lower, upper)
    log_a, log_b = log_ndtr(a), log_ndtr(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        narrow = log_a - log_b
        difference = log_b + np.log(-np.expm1(narrow))
    return np.where(a < b, difference, -np.inf)


def inverse_mills_ratio(x: ArrayLike) -> Array:
    """Return φ(x) / Φ(x), the gradient of log Φ; about −x in the far left tail.

    Examples
    --------
    >>> round(float(inverse_mills_ratio(0.0)), 6), round(float(inverse_mills_ratio(-1000.0)), 4)
    (0.797885, 1000.001)
    """
    x = np.asarray(x, dtype=float)
    # erfcx overflows for large positive x, where exp(log φ − log Φ) is exact; that form in turn
    # loses its digits for large negative x.
    with np.errstate(over="ignore"):
        left = np.sqrt(2.0 / np.pi) / erfcx(-x / np.sqrt(2.0))
        right = np.exp(log_normal_density(x) - log_ndtr(x))
    return np.where(x < 0, left, right)


def truncated_normal(
    rng: np.random.Generator,
    mean: ArrayLike,
    sd: ArrayLike,
    lower: ArrayLike = -np.inf,
    upper: ArrayLike = np.inf,
) -> Array:
    """Draw from N(mean, sd²) restricted to (lower, upper), however far they lie from the mean.

    The distribution function is inverted in log space, which is exact in both tails to a thousand
    standard deviations and beyond (at 1000, the distance to the bound has six correct digits).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = truncated_normal(rng, np.zeros(1000), 1.0, lower=1000.0)
    >>> bool((draws > 1000.0).all() and draws.max() < 1000.1)
    True
    """
    mean, sd, lower, upper = np.broadcast_arrays(
        *(np.asarray(v, dtype=float) for v in (mean, sd, lower, upper))
    )
    if not (lower < upper).all():
        raise ValueError("truncated_normal needs lower < upper in every entry.")
    uniform = 1.0 - rng.random(mean.shape)  # in (0, 1]: its logarithm is finite
    a, b = (lower - mean) / sd, (upper - mean) / sd
    mirrored = a > 0
    standard = _lower_tail_quantile(
        np.log(uniform), np.where(mirrored, -b, a), np.where(mirrored, -a, b)
    )
    draws = mean + sd * np.where(mirrored, -standard, standard)
    # Rounding may put a draw on the bound or a hair beyond it.
    return np.clip(draws, np.nextafter(lower, upper), np.nextafter(upper, lower))


def _lower_tail_quantile(log_uniform: Array, a: Array, b: Array) -> Array:
    """Return x with Φ(x) = Φ(a) + u (Φ(b) − Φ(a)), for a <= 0 or a = −inf.

    Parameters
    ----------
    log_uniform : log u
    a, b : standardised bounds, not both in the right tail
    """
    log_a, log_b = log_ndtr(a), log_ndtr(b)
    with np.errstate(invalid="ignore", divide="ignore"):
        # log(Φ(a) + u (Φ(b) − Φ(a))) = log Φ(b) + log(1 − (1 − u)(1 − Φ(a)/Φ(b)))
        two_sided = np.log1p(np.expm1(log_uniform) * -np.expm1(log_a - log_b))
        log_mass = log_b + np.where(np.isneginf(log_a), log_uniform, two_sided)
        x = ndtri_exp(np.minimum(log_mass, 0.0))
    return np.clip(x, a, b)


@lru_cache(maxsize=16)
def _legendre(n_nodes: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(n_nodes)


def small_mass(n_factors: int) -> float:
    """Return the mass below which E_u Π Φ is recomputed in log space, centred on its peak."""
    return 1e-12 if n_factors == 2 else 1e-3


def log_expected_product_of_ndtr(offsets: ArrayLike) -> Array:
    """Return log E_u Π_i Φ(u + offsets_i), u ~ N(0, 1).

    This is the log probability that one latent exceeds the others: with offsets_i = f_j − f_i − a,
    that of class j under the multinomial probit with margin a. It is computed by the trapezium
    rule, which converges for this integrand as for a Gaussian: to rounding error, in every tail.
    For three classes it is an orthant probability of two correlated normals, which has a shorter
    integral.

    Parameters
    ----------
    offsets : (..., m)

    Returns
    -------
    (...,)

    Examples
    --------
    >>> float(np.round(np.exp(log_expected_product_of_ndtr([0.0, 0.0])), 12))    # one of three
    0.333333333333
    """
    t, shape = _as_rows(offsets)
    mass = expected_product_of_ndtr(t)
    with np.errstate(divide="ignore"):
        log_mass = np.log(mass)
    small = mass < small_mass(t.shape[1])
    if np.any(small):
        log_mass[small] = _log_sum(_centred_log_terms(t[small])[0])
    return log_mass.reshape(shape[:-1])


def expected_product_of_ndtr(offsets: Array) -> Array:
    """Return E_u Π_i Φ(u + offsets_i), u ~ N(0, 1); (n, m) -> (n,).

    The absolute error is about the rounding error of 1, so a tiny result has few correct digits.
    """
    if offsets.shape[1] == 2:
        return _orthant(offsets[:, 0], offsets[:, 1])
    nodes, weights = _trapezium(offsets.shape[1])
    product = ndtr(nodes + offsets[:, :1])
    for i in range(1, offsets.shape[1]):
        product *= ndtr(nodes + offsets[:, i : i + 1])
    return product @ weights


def _orthant(s: Array, t: Array) -> Array:
    """Return E_u Φ(u + s) Φ(u + t), (n,), an orthant probability.

    It is the probability that two normals of correlation ½ lie below s/√2 and t/√2. With the
    correlation written as the sine of an angle (Plackett 1954), it is Φ Φ, its value at
    correlation zero, plus an integral over angles from 0 to π/6. All terms are positive, and
    twelve nodes suffice while the mass is above 1e-12.
    """
    twice_sine, spread, weights = _orthant_angles()
    terms = np.exp((twice_sine * (s * t) - (s * s + t * t)) / spread)
    return ndtr(np.sqrt(0.5) * s) * ndtr(np.sqrt(0.5) * t) + weights @ terms


@lru_cache(maxsize=1)
def _orthant_angles() -> tuple[Array, Array, Array]:
    """Return 2 sin a and 4 cos² a at the nodes a, (12, 1) each, and their weights, (12,)."""
    nodes, weights = _legendre(12)
    angle = np.pi / 12.0 * (nodes + 1.0)
    return 2.0 * np.sin(angle)[:, None], 4.0 * np.cos(angle)[:, None] ** 2, weights / 24.0


class ProductSlopes(NamedTuple):
    """log E_u Π_i Φ(u + t_i) and its derivatives, for u ~ N(0, 1) and n rows of m offsets t.

    value : (n,)
    gradient : (n, m) derivative with respect to each offset
    curvature : (n,) second derivative along a common shift of all offsets, plus the sum of the
        second derivatives with respect to each offset: the trace of the Hessian with respect to
        the means of all m + 1 latents
    """

    value: Array
    gradient: Array
    curvature: Array


def expected_product_of_ndtr_slopes(
    offsets: Array, *, rough: bool = False, in_sums: NDArray[np.bool_] | None = None
) -> ProductSlopes:
    """Return `log_expected_product_of_ndtr` and its derivatives; offsets (n, m).

    Parameters
    ----------
    rough : whether five digits are enough, at three fifths of the cost; else there are nine
    in_sums : (n,) rows whose mass is added to that of larger ones, so that for a small mass and its
        slopes fifteen decimals are enough, or five if rough; None: no row's is

    Examples
    --------
    >>> slopes = expected_product_of_ndtr_slopes(np.zeros((1, 2)))
    >>> slopes.gradient.round(6)      # 3 · E φ(u) Φ(u)
    array([[0.423142, 0.423142]])
    """
    t = offsets
    by_nodes = t.shape[1] != 2
    mass, first, second = _product_slopes(t, rough=rough) if by_nodes else _orthant_slopes(t)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(mass)
        first /= mass[:, None]
        second /= mass
    smallest = SMALL_FOR_ROUGH_SLOPES if rough and by_nodes else SMALL_FOR_SLOPES
    small = mass < min(smallest, small_mass(t.shape[1]))
    if in_sums is not None:
        gone = in_sums & (mass < (NOTHING_IN_SUMS if rough else np.finfo(float).tiny))
        value[gone], first[gone], second[gone] = -np.inf, 0.0, 0.0
        small &= ~in_sums
    if np.any(small):
        log_terms, u = _centred_log_terms(t[small])
        value[small] = _log_sum(log_terms)
        posterior = np.exp(log_terms - value[small][:, None])
        points = u[:, :, None] + t[small][:, None, :]
        ratio = inverse_mills_ratio(points)
        first[small] = np.einsum("ng,ngm->nm", posterior, ratio)
        second[small] = np.einsum("ng,ng->n", posterior, u**2 - 1.0 - (ratio * points).sum(axis=2))
    curvature = second - first.sum(axis=1) ** 2 - (first**2).sum(axis=1)
    return ProductSlopes(value, first, curvature)


def _orthant_slopes(t: Array) -> tuple[Array, Array, Array]:
    """Compute `_product_slopes` of two factors in closed form; t (n, 2)."""
    density = np.exp(-0.25 * t * t) / np.sqrt(4.0 * np.pi)
    first = density * ndtr((t[:, ::-1] - 0.5 * t) / np.sqrt(1.5))
    return _orthant(t[:, 0], t[:, 1]), first, -(t * first).sum(axis=1)


def _product_slopes(t: Array, *, rough: bool = False) -> tuple[Array, Array, Array]:
    """Return E_u Π Φ(u + t_i), its gradient, and its Hessian's trace in the means of all latents.

    The error is 1e-10 of the mass, or 1e-5 of it if rough, as long as the mass is not small;
    t (n, m) -> (n,), (n, m), (n,).
    """
    nodes, weights, tables = _slope_nodes(t.shape[1], rough)
    mass, first, second = np.empty(len(t)), np.empty_like(t), np.empty(len(t))
    for piece in in_chunks(len(t), t.shape[1], most=OFFSETS_AT_ONCE):
        some = np.ascontiguousarray(t[piece].T)  # (m, rows)
        log_below, hazard = (
            part.reshape(*some.shape, len(nodes)) for part in tables.at(some.ravel())
        )
        term = np.exp(log_below.sum(axis=0))
        term *= weights
        mass[piece] = term.sum(axis=1)
        # A derivative turns one Φ into φ, and the next uses φ' = −x φ.
        first[piece] = np.einsum("rg,irg->ri", term, hazard)
        of_nodes = np.einsum("rg,irg->rg", term, hazard)  # Σ_i x_i = u + t_i
        second[piece] = (
            term @ (nodes**2 - 1.0)  # Stein's identity, twice
            - of_nodes @ nodes
            - np.einsum("ir,ri->r", some, first[piece])
        )
    return mass, first, second


@lru_cache(maxsize=32)
def _slope_nodes(n_factors: int, rough: bool = False) -> tuple[Array, Array, NodeTables]:
    """Return nodes and weights as `_trapezium` does, right only to 1e-10, and tables for them.

    The step is the widest with that error, or with 1e-5 if rough, for offsets of any size and
    spread; it was found by trial. Far to the left Φ is small unless all of the mass is there.
    """
    step = min(0.4, 0.65 * (n_factors + 1.0) ** -0.28)
    low, high = -8.2, 8.2
    if rough:
        step, low, high = min(0.6, 0.95 * (n_factors + 1.0) ** -0.28), -5.2, 7.0
    below, above = int(np.ceil(-low / step)), int(np.ceil(high / step))
    nodes = step * np.arange(-below, above + 1)
    weights = step * np.exp(log_normal_density(nodes))
    return nodes, weights, tables_for(-step * below, step, len(nodes), -25, 17)


def _as_rows(offsets: ArrayLike) -> tuple[Array, tuple[int, ...]]:
    """Return offsets of shape (..., m) as (n, m), and their original shape."""
    t = np.asarray(offsets, dtype=float)
    return t.reshape(-1, t.shape[-1]), t.shape


def winning_masses(mean: Array, margin: float | Array) -> Array:
    """Return P(z_k > z_i + margin for all i ≠ k), z ~ N(mean, 1), of every k; (n, K) -> (n, K).

    All classes of a row have their nodes in common, counted from its largest mean, so that each Φ
    is found once: this takes O(K) a row, and class by class it would be O(K²). The absolute error
    is about the rounding error of 1.

    Parameters
    ----------
    margin : one number, or one per row, (n,)

    Examples
    --------
    >>> winning_masses(np.zeros((1, 4)), 0.0).round(12)
    array([[0.25, 0.25, 0.25, 0.25]])
    """
    n, K = mean.shape
    if K == 3:
        ahead = mean[:, :, None] - mean[:, [[1, 2], [0, 2], [0, 1]]]
        offsets = ahead - np.reshape(margin, (-1, 1, 1))
        return expected_product_of_ndtr(offsets.reshape(-1, 2)).reshape(n, 3)
    nodes, _ = _trapezium(K - 1)
    step = float(nodes[1] - nodes[0])
    tables = mass_tables_for(float(nodes[0]), step, len(nodes), -17, 17)
    behind = (mean.max(axis=1, keepdims=True) - mean).T  # (K, n)
    offsets, masses = behind - margin, np.empty((n, K))
    for piece in in_chunks(n, K, most=CLASSES_AT_ONCE):
        some = behind[:, piece]
        below = tables.at(offsets[:, piece].ravel())[0].reshape(*some.shape, len(nodes))
        # φ of each class, times Φ of all others: of those before it, and of those after it.
        term = np.minimum(some, FAR_BEHIND)[..., None] + nodes
        term *= term
        term *= -0.5
        np.exp(term, out=term)
        product = np.full(below.shape[1:], step / np.sqrt(2.0 * np.pi))
        for k in range(K):
            term[k] *= product
            product *= below[k]
        product[:] = 1.0
        for k in reversed(range(K)):
            masses[piece, k] = np.einsum("rg,rg->r", term[k], product)
            product *= below[k]
    return masses


class WinningSlopes(NamedTuple):
    """P(z_k > z_i + margin for all i ≠ k), z ~ N(mean, 1), of every class k, and its derivatives.

    masses : (n, K) the probability itself
    gradient : (n, K, K) derivative of the mass of k by how far its mean is ahead of that of i
    second : (n, K) trace of the Hessian of the mass by the means
    """

    masses: Array
    gradient: Array
    second: Array


def winning_slopes(mean: Array, margin: Array) -> WinningSlopes:
    """Return `winning_masses` and their derivatives, to 1e-10; mean (n, K), margin (n,)."""
    n, K = mean.shape
    nodes, weights, tables = _slope_nodes(K - 1)
    log_weights = np.log(weights) + 0.5 * nodes**2
    behind = (mean.max(axis=1, keepdims=True) - mean).T  # (K, n)
    offsets = behind - margin
    masses, gradient, second = np.empty((n, K)), np.empty((n, K, K)), np.empty((n, K))
    for piece in in_chunks(n, K, most=CLASSES_AT_ONCE):
        t = np.clip(offsets[:, piece], tables.low, tables.high)
        log_below, hazard = (part.reshape(*t.shape, -1) for part in tables.at(t.ravel()))
        u = np.minimum(behind[:, piece], FAR_BEHIND)[..., None] + nodes
        u *= u
        term = np.exp(log_below.sum(axis=0) - log_below + log_weights - 0.5 * u)
        masses[piece] = term.sum(axis=2).T
        of_rows = term.transpose(1, 0, 2)
        gradient[piece] = of_rows @ hazard.transpose(1, 2, 0)
        # φ' = −x φ: once for the class that wins, and once for each that it beats.
        u -= 1.0
        hazard *= t[..., None] + nodes
        u += hazard
        u -= hazard.sum(axis=0)
        second[piece] = np.einsum("krg,krg->rk", term, u)
    gradient[:, np.arange(K), np.arange(K)] = 0.0
    return WinningSlopes(masses, gradient, second)


@lru_cache(maxsize=64)
def _trapezium(n_factors: int) -> tuple[Array, Array]:
    """Return nodes and weights of ∫ φ(u) Π Φ(u + t_i) du for `n_factors` = m factors Φ.

    φ and each Φ have Gaussian spectra of unit variance; the spectrum of their product has variance
    m + 1. The rule's error is that spectrum at the frequency 2π/step: e^{−34}, below rounding.
    """
    step = 2.0 * np.pi / np.sqrt(68.0 * (n_factors + 1))
    nodes = step * np.arange(-np.ceil(8.5 / step), np.ceil(8.5 / step) + 1)
    return nodes, step * np.exp(log_normal_density(nodes))


def _centred_log_terms(t: Array) -> tuple[Array, Array]:
    """Return the logs of the trapezium rule's terms around the integrand's peak, and the nodes.

    t (n, m) -> (n, G) each.
    """
    nodes, _ = _trapezium(t.shape[-1])
    u = nodes + product_peak(t, close=CLOSE_TO_PEAK)[:, None]
    log_terms = log_normal_density(u) + np.log(nodes[1] - nodes[0])
    for i in range(t.shape[1]):
        log_terms += log_ndtr(u + t[:, i : i + 1])
    return log_terms, u


def _log_sum(log_terms: Array) -> Array:
    """Return the log of the sum of finite terms; (n, G) -> (n,)."""
    top = log_terms.max(axis=1, keepdims=True)
    return np.log(np.exp(log_terms - top).sum(axis=1)) + top[:, 0]


def product_peak(t: Array, n_steps: int = 12, close: float = 0.0) -> Array:
    """Approximate argmax_u of −u²/2 + Σ log Φ(u + t_i) by Newton steps; (n, m) -> (n,).

    The gradient is convex and u = 0 lies left of the peak, so the steps never overshoot. Steps end
    after one below `close`: the next would be about its square.
    """
    u = np.zeros(len(t))
    for _ in range(n_steps):
        x = u[:, None] + t
        ratio = inverse_mills_ratio(x)
        curvature = 1.0 + (ratio * (ratio + x)).sum(axis=1)
        step = (ratio.sum(axis=1) - u) / curvature
        u = u + step
        if step.max(initial=0.0) < close:
            break
    return u
