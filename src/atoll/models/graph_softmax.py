"""Functions under a softmax whose steepness is not known: the graph's model of many labels.

prior: independent coefficients, a log-normal amplitude. likelihood: softmax. inference: the
amplitude by Laplace's evidence, the coefficients given it by Hamiltonian Monte Carlo. The numbers
below are those of `SoftmaxRecipe`.

    a_c ~ N(0, I),   u ~ N(5, 2²),   f_c(x) = e^{u/2} v(x)ᵀ a_c,   P(y = c) = exp f_c / Σ_k exp f_k

Two classes have one function, the difference of the two, with twice the variance. The number of
coefficients is that of the features times that of the functions however many labels there are, so
that a step costs no more than a product of the labelled rows' features with the coefficients.

The amplitude says how noisy labels are. Every chain has its own, so many at each as Laplace's
evidence says, and moves in coordinates q_c in which the curvature of its class at the mode is the
identity (`Whitened`). Where labels agree, the mode is a flat place and the typical draw is not, so
that after a few steps the curvature is taken anew, as its mean over the chains. The curvature
between classes is left out: it would make a step ten times as dear. What it has most to say is that
labels know nothing of a function which all classes share, Σ_c a_c; that one is drawn anew after
every step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import expit, log_expit

from atoll.core.linalg import cholesky_log_det, cholesky_solve, jittered_cholesky, solve_lower
from atoll.inference import hmc_chains
from atoll.inference.hmc_chains import Chains
from atoll.likelihoods import softmax
from atoll.models.graph_recipe import RECIPE, SoftmaxRecipe
from atoll.models.posterior import chosen_states

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MANY_VALUES = (
    2**15
)  # of functions at labels in all chains, from which on they are in single precision

LEAST_GAIN = 1e-8  # of the log posterior by Newton's step: less, and a point is the mode


class SoftmaxDraws(NamedTuple):
    """What chains end with; F functions of p features.

    coefficients : (S, p, F) e^{u/2} a, ready for the features as they are
    log_amplitudes : (S,) u
    n_steps : of every chain
    memory : correlation of the chains with themselves half-way
    """

    coefficients: Array
    log_amplitudes: Array
    n_steps: int
    memory: float


class Approximation(NamedTuple):
    """Laplace's approximation at one amplitude.

    log_amplitude : u
    log_evidence : with the prior of u
    mode : (p, F) of a
    """

    log_amplitude: float
    log_evidence: float
    mode: Array


class Whitened(NamedTuple):
    """Coordinates of the coefficients in which the curvature of every class is the identity.

    a_c = q_c T_c, where T_cᵀ T_c is the inverse of the curvature Σ_j λ_j t_j t_jᵀ, by its
    eigenvectors: T_c has the rows t_j / √λ_j. So q has independent entries before the labels, too,
    and a function at the labelled rows is one product of matrices away. Arrays of coefficients and
    coordinates are (F, S, p), of S chains.

    transform : (F, p, p) T
    precision : (F, 1, p) 1/λ, that of q before the labels
    features : (F, p, l) T vᵀ, v those of the labelled rows
    """

    transform: Array
    precision: Array
    features: Array

    @classmethod
    def of(cls, v: Array, curvatures: Array) -> Whitened:
        """Return those for features v (l, p) of labelled rows, and curvatures (F, p, p)."""
        values, vectors = np.linalg.eigh(curvatures)
        transform = vectors.swapaxes(1, 2) / np.sqrt(values)[..., None]
        return cls(transform, 1.0 / values[:, None], transform @ v.T)

    def astype(self, precision: Any) -> Whitened:
        """Return the same in another precision."""
        return Whitened(*(field.astype(precision, copy=False) for field in self))

    def coefficients(self, q: Array) -> Array:
        """Return a of coordinates q."""
        return q @ self.transform

    def coordinates(self, a: Array) -> Array:
        """Return q of coefficients a."""
        return a @ self.transform.swapaxes(1, 2) / self.precision


# The generative process ---------------------------------------------------------------------------


def own_features(features: Array, n_classes: int) -> Array:
    """Return the functions' own features: a difference of two has twice the variance of one."""
    return features * np.sqrt(2.0) if n_classes == 2 else features


def sample_prior(
    rng: np.random.Generator,
    features: Array,
    n_classes: int,
    recipe: SoftmaxRecipe = RECIPE.softmax,
) -> tuple[float, Array, Codes]:
    """Draw u, a (p, F) and the labels of rows with features (n, p)."""
    u = recipe.amplitude_centre + recipe.amplitude_spread * rng.standard_normal()
    a = rng.standard_normal((features.shape[1], 1 if n_classes == 2 else n_classes))
    return u, a, sample_labels(rng, np.exp(0.5 * u) * own_features(features, n_classes) @ a)


def sample_labels(rng: np.random.Generator, latent: Array) -> Codes:
    """Draw the labels of rows given the functions; (n, F) -> (n,)."""
    p = class_probabilities(latent)
    return (rng.random((len(p), 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)


def class_probabilities(latent: Array) -> Array:
    """Return the softmax, of one function that of it and zero; latent (..., F) -> (..., K)."""
    if latent.shape[-1] == 1:
        return np.concatenate([expit(-latent), expit(latent)], axis=-1)
    return softmax.class_probabilities(latent)


def _of_functions(latent: Array) -> Array:
    """Return the functions' own probabilities, (..., F): of two classes the second's."""
    return class_probabilities(latent)[..., -latent.shape[-1] :]


# The posterior ------------------------------------------------------------------------------------


def log_posterior(
    q: Array,
    amplitude: Array,
    where: Whitened,
    codes: Codes,
    label_weights: Array | None = None,
) -> tuple[Array, Array]:
    """Return the log density of a given the amplitude, up to a constant, and its gradient.

    Parameters
    ----------
    q : (F, S, p) coordinates of a
    amplitude : (S,) e^{u/2}
    where : the coordinates
    codes : (l,) classes of the labelled rows
    label_weights : (l,) by which their log-likelihoods are multiplied; None: one each

    Returns
    -------
    log_density : (S,)
    gradient : (F, S, p) in q
    """
    latent = q @ where.features
    latent *= amplitude[:, None]
    log_p, slope = _likelihood(latent, codes, label_weights)
    slope *= amplitude[:, None]
    pull = q * where.precision
    log_p = log_p - 0.5 * np.einsum("fsp,fsp->s", q, pull)
    return log_p, slope @ where.features.swapaxes(1, 2) - pull


def _likelihood(
    latent: Array, codes: Codes, label_weights: Array | None = None
) -> tuple[Array, Array]:
    """Return Σ w log P(y) over rows, (S,), and its slope, (F, S, l); latent (F, S, l)."""
    w = np.ones(1) if label_weights is None else label_weights
    rows = np.arange(len(codes))
    if len(latent) == 1:
        side = np.where(codes == 1, 1.0, -1.0)
        margin = side * latent[0]
        slope = (w * side * expit(-margin)).astype(latent.dtype, copy=False)
        return (w * log_expit(margin)).sum(axis=1), slope[None]
    slope = latent - latent.max(axis=0)
    own = slope[codes, :, rows]  # (l, S)
    np.exp(slope, out=slope)
    total = slope.sum(axis=0)
    log_p = (w * (own.T - np.log(total))).sum(axis=1)
    slope /= -total
    slope[codes, :, rows] += 1.0
    if label_weights is not None:
        slope *= label_weights
    return log_p, slope


def curvature(v: Array, weights: Array) -> Array:
    """Return I + Σ_n w_n ⊗ v_n v_nᵀ, (Fp, Fp), function by function; weights (l, F, F)."""
    p, n_functions = v.shape[1], weights.shape[1]
    blocks = np.empty((n_functions, p, n_functions, p))
    for i in range(n_functions):
        for j in range(i + 1):
            block = v.T @ (weights[:, i, j, None] * v)
            blocks[i, :, j], blocks[j, :, i] = block, block.T
    out = blocks.reshape(n_functions * p, n_functions * p)
    out[np.diag_indices_from(out)] += 1.0
    return out


def class_curvatures(v: Array, weights: Array) -> Array:
    """Return the blocks of `curvature` on its diagonal, (F, p, p); their weights (l, F)."""
    blocks = np.stack([v.T @ (w[:, None] * v) for w in weights.T])
    index = np.arange(v.shape[1])
    blocks[:, index, index] += 1.0
    return blocks


def _softmax_weights(p: Array) -> Array:
    """Return diag(p) − p pᵀ; (..., F) -> (..., F, F)."""
    weights = -p[..., :, None] * p[..., None, :]
    index = np.arange(p.shape[-1])
    weights[..., index, index] += p
    return weights


def log_det_curvature(v: Array, p: Array, w: Array) -> float:
    """Return log |I + Σ_n w_n (diag p_n − p_n p_nᵀ) ⊗ v_n v_nᵀ|; v (l, p), p (l, F), w (l,).

    Without the second term the matrix has a block for every class; that term is a product of
    matrices with l columns, and where these are few the determinant is that of the blocks, and of
    a matrix of l rows (Sylvester).
    """
    if p.shape[1] == 1:
        (own,) = class_curvatures(v, w[:, None] * p * (1.0 - p))
        return cholesky_log_det(jittered_cholesky(own).lower)
    if len(v) > v.shape[1] * p.shape[1]:
        whole = curvature(v, w[:, None, None] * _softmax_weights(p))
        return cholesky_log_det(jittered_cholesky(whole).lower)
    found, rest = 0.0, np.eye(len(v))
    for own, p_c in zip(class_curvatures(v, w[:, None] * p), p.T):
        lower = jittered_cholesky(own).lower
        across = solve_lower(lower, (np.sqrt(w) * p_c * v.T))
        rest -= across.T @ across
        found += cholesky_log_det(lower)
    return found + cholesky_log_det(jittered_cholesky(rest).lower)


def approximate(
    v: Array,
    codes: Codes,
    log_amplitude: float,
    start: Array,
    recipe: SoftmaxRecipe = RECIPE.softmax,
    label_weights: Array | None = None,
) -> Approximation:
    """Find the mode of a at one amplitude by Newton's method, from start (p, F)."""
    scaled = np.exp(0.5 * log_amplitude) * v
    w = np.ones(len(codes)) if label_weights is None else label_weights

    def value(a: Array) -> tuple[float, Array]:
        log_p, slope = _likelihood((scaled @ a).T[:, None], codes, label_weights)
        return float(log_p[0] - 0.5 * np.sum(a**2)), scaled.T @ slope[:, 0].T - a

    a, (height, gradient) = start, value(start)
    rough = _rough_inverses(scaled, _of_functions(scaled @ a), w)
    while True:
        direction = _newton(scaled, _of_functions(scaled @ a), w, gradient, rough)
        gain = float(np.sum(gradient * direction))
        if gain < LEAST_GAIN:
            break
        length = 1.0
        while value(a + length * direction)[0] < height + 1e-4 * length * gain and length > 1e-3:
            length *= 0.5
        a = a + length * direction
        before, (height, gradient) = height, value(a)
        if height <= before:
            break
    deviation = (log_amplitude - recipe.amplitude_centre) / recipe.amplitude_spread
    log_det = log_det_curvature(scaled, _of_functions(scaled @ a), w)
    return Approximation(log_amplitude, height - 0.5 * log_det - 0.5 * deviation**2, a)


def _rough_inverses(v: Array, p: Array, w: Array) -> Array:
    """Return the inverses of the classes' own curvatures at probabilities p (l, F), (F, p, p)."""
    return np.asarray(np.linalg.inv(class_curvatures(v, w[:, None] * p * (1.0 - p))))


def _newton(
    v: Array, p: Array, w: Array, gradient: Array, rough: Array, left: float = 0.1
) -> Array:
    """Return Newton's direction, (p, F), at probabilities p (l, F), for a gradient (p, F).

    Labels have weights w (l,).

    Of several functions by conjugate gradients, to which each class's curvature nearby, in `rough`,
    shows the way: the matrix of all classes is never made. A tenth of the gradient may be left: the
    next direction takes care of that (Dembo, Eisenstat & Steihaug 1982).
    """
    n, F = gradient.shape
    if F == 1:
        (own,) = class_curvatures(v, w[:, None] * p * (1.0 - p))
        return cholesky_solve(jittered_cholesky(own).lower, gradient)

    def curved(x: Array) -> Array:
        latent = v @ x.reshape(F, n).T
        latent = p * (latent - np.sum(p * latent, axis=1, keepdims=True)) * w[:, None]
        return x + (latent.T @ v).ravel()

    def solved(x: Array) -> Array:
        return (rough @ x.reshape(F, n, 1)).ravel()

    found, _ = cg(
        LinearOperator((F * n, F * n), matvec=curved, dtype=np.float64),
        gradient.T.ravel(),
        rtol=left,
        M=LinearOperator((F * n, F * n), matvec=solved, dtype=np.float64),
    )
    return found.reshape(F, n).T


def approximations(
    v: Array,
    codes: Codes,
    n_functions: int,
    recipe: SoftmaxRecipe = RECIPE.softmax,
    label_weights: Array | None = None,
) -> list[Approximation]:
    """Approximate from the lowest amplitude up, until the evidence is past its highest."""
    found: list[Approximation] = []
    a, highest = np.zeros((v.shape[1], n_functions)), -np.inf
    for u in recipe.amplitudes:
        one = approximate(v, codes, u, a, recipe, label_weights)
        found.append(one)
        highest = max(highest, one.log_evidence)
        if one.log_evidence < highest - recipe.negligible:
            break
        # Modes lie along a smooth curve: the next one is about as far again as this from the last.
        a = one.mode if len(found) == 1 else 2.0 * one.mode - found[-2].mode
    return found


def sample(
    rng: np.random.Generator,
    features: Array,
    codes: Codes,
    n_classes: int,
    n_draws: int,
    recipe: SoftmaxRecipe = RECIPE.softmax,
    label_weights: Array | None = None,
) -> SoftmaxDraws:
    """Draw the coefficients given labels, one draw from each of many chains.

    Parameters
    ----------
    features : (l, p) of the labelled rows
    codes : (l,) in 0..K−1
    n_draws : S, the number of chains
    label_weights : (l,) by which the labels' log-likelihoods are multiplied; None: one each
    """
    v = own_features(features, n_classes)
    found = approximations(v, codes, 1 if n_classes == 2 else n_classes, recipe, label_weights)
    evidences = np.array([one.log_evidence for one in found])
    chosen = chosen_states(rng, n_draws, np.exp(evidences - evidences.max()))
    u = np.array([found[i].log_amplitude for i in chosen])
    start = np.stack([found[i].mode.T for i in chosen], axis=1)
    typical = found[int(np.median(chosen))]
    scaled = np.exp(0.5 * typical.log_amplitude) * v
    p = _of_functions(scaled @ typical.mode)
    spread = p * (1.0 - p) if label_weights is None else label_weights[:, None] * p * (1.0 - p)
    a, n_steps, memory = sample_given_amplitudes(
        rng, v, codes, u, start, class_curvatures(scaled, spread), recipe, label_weights
    )
    scale = np.exp(0.5 * u) * (np.sqrt(2.0) if n_classes == 2 else 1.0)
    coefficients = scale[:, None, None] * a.transpose(1, 2, 0)
    # In C order, as a file holds it: a model that was loaded predicts the same to the bit.
    return SoftmaxDraws(np.ascontiguousarray(coefficients), u, n_steps, memory)


def sample_given_amplitudes(
    rng: np.random.Generator,
    v: Array,
    codes: Codes,
    u: Array,
    start: Array,
    curvatures: Array,
    recipe: SoftmaxRecipe = RECIPE.softmax,
    label_weights: Array | None = None,
) -> tuple[Array, int, float]:
    """Run chains of a, each at its own log amplitude u (S,).

    Parameters
    ----------
    v : (l, p) as `own_features` has them
    start : (F, S, p)
    curvatures : (F, p, p) of each class, at the start

    Returns
    -------
    a : (F, S, p)
    n_steps : of each chain
    memory : correlation of functions now with half-way, over chains
    """
    n_functions = len(curvatures)
    own_rows = _own_rows(codes, n_functions).T[:, None]  # (F, 1, l)
    many = len(u) * n_functions * len(codes) >= MANY_VALUES
    precision: Any = np.float32 if many else np.float64
    amplitude = np.exp(0.5 * u).astype(precision, copy=False)

    def at(a: Array, curvatures: Array) -> tuple[Whitened, Chains]:
        where = Whitened.of(v, curvatures).astype(precision)
        q = where.coordinates(a.astype(precision, copy=False))
        return where, hmc_chains.init(q, lambda q: log_density(q, where))

    def log_density(q: Array, where: Whitened) -> tuple[Array, Array]:
        return log_posterior(q, amplitude, where, codes, label_weights)

    def advance(chains: Chains, where: Whitened, log_size: float) -> tuple[Chains, float]:
        size = float(np.exp(log_size)) * rng.uniform(0.8, 1.2)
        count = int(rng.integers(*recipe.leapfrog_steps))
        chains, acceptance = hmc_chains.step(
            rng, chains, lambda q: log_density(q, where), size, count
        )
        if n_functions > 1:
            chains = with_another_sum(rng, chains, where)
        return chains, float(acceptance.mean())

    def summary(chains: Chains, where: Whitened) -> Array:
        """Return each function's mean at its own rows, less that of chains of its u, (S, F)."""
        means = np.sum(chains.position @ where.features * own_rows, axis=2).T
        for value in np.unique(u):
            means[u == value] -= means[u == value].mean(axis=0)
        return means

    (where, chains), log_size = at(start, curvatures), np.log(recipe.first_step_size)
    half = recipe.warmup_steps // 2
    for i in range(recipe.warmup_steps):
        chains, acceptance = advance(chains, where, log_size)
        log_size += (acceptance - recipe.target_acceptance) / np.sqrt(1 + i % half)
        if i == half - 1:
            weights = mean_weights(chains.position @ where.features, amplitude)
            weights = weights if label_weights is None else label_weights[:, None] * weights
            where, chains = at(where.coefficients(chains.position), class_curvatures(v, weights))
    n_steps = 0
    while True:
        before = summary(chains, where)
        for _ in range(max(recipe.first_steps, n_steps)):
            chains, _ = advance(chains, where, log_size)
        n_steps += max(recipe.first_steps, n_steps)
        memory = hmc_chains.memory(before, summary(chains, where))
        if memory < recipe.memory_limit or n_steps >= recipe.most_steps:
            a = where.coefficients(chains.position).astype(float)
            return a, recipe.warmup_steps + n_steps, memory


def with_another_sum(rng: np.random.Generator, chains: Chains, where: Whitened) -> Chains:
    """Draw the sum of all functions anew: labels say nothing of it, so that it has its prior."""
    n_functions = len(chains.position)
    root = float(np.sqrt(n_functions))
    before = where.coefficients(chains.position).sum(axis=0) / root
    now = rng.standard_normal(before.shape, before.dtype)
    change = where.coordinates((now - before) / root)
    return Chains(
        chains.position + change,
        chains.log_density - 0.5 * np.sum(now**2 - before**2, axis=1),
        chains.gradient - change * where.precision,
    )


def _own_rows(codes: Codes, n_functions: int) -> Array:
    """Return (l, F): one where the function is that of the label; of two classes, its side."""
    if n_functions == 1:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return np.eye(n_functions)[codes]


def mean_weights(latent: Array, amplitude: Array) -> Array:
    """Return the mean over chains of the weights of `class_curvatures`, (l, F).

    Parameters
    ----------
    latent : (F, S, l) functions at the labelled rows, but for their amplitudes
    amplitude : (S,)
    """
    p = _of_functions((amplitude[:, None] * latent).transpose(1, 2, 0))
    return np.asarray(np.einsum("s,slf->lf", amplitude**2, p * (1.0 - p)) / len(amplitude))
