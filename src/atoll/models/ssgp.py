"""Semi-supervised Gaussian processes of paper 002 (SSGP; Sindhwani, Chu & Keerthi 2007).

prior: a kernel bent by the graph of all rows, K̃/γ_A. likelihood: probit with noise σ_n, for K
classes the multinomial probit; a normal for regression. inference: expectation propagation at the
labelled rows, or exact draws there; parameters by evidence.

    f ~ GP(0, K/γ_A)
    P(𝒢 | f) ∝ exp(−½ γ_I f_Dᵀ L^p f_D)            all rows D, labelled or not      eq. 3
    f | 𝒢 ~ GP(0, K̃/γ_A), M = (γ_I/γ_A) L^p                                         eq. 5
    z_n = f(x_n) + ε, ε ~ N(0, σ_n²);  y_n = 1 where z_n > 0         labelled rows L

so that the posterior lives on the l labelled rows: given K̃_LL everything is l × l. σ_n is divided
out, and inference sees K̃/(γ_A σ_n²) and noise of variance one.

For K classes there is one f and one z a class, and z_y > z_k for every other k: a normal inside a
cone. Its draws are exact. Its mass, the evidence, is found by the same expectation propagation over
the l (K − 1) differences u = z_y − z_k, all of them positive (Cunningham, Hennig & Lacoste-Julien
2011). The multinomial probit's variational bound would factor over rows, which σ_n = 1e-4 makes all
but one number in a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial.distance import pdist, squareform
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from atoll.core.linalg import (
    cholesky_inverse,
    cholesky_log_det,
    jittered_cholesky,
    solve_lower,
)
from atoll.core.memory import in_chunks
from atoll.inference.cone_sampling import sample_cone
from atoll.inference.ep import Propagation, Sites, no_sites, propagate
from atoll.kernels.graph_warped import Geometry, GraphWarpedKernel, penalty_factor
from atoll.kernels.hyperparameters import KernelPrior, gram_gradient_function
from atoll.likelihoods import multinomial_probit, probit

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

NOISE = 1e-4  # σ_n, section 4
# The paper's grid, section 4. σ is in units of a typical length of a row.
LENGTH_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
AMBIENT_WEIGHTS = (1e-6, 1e-4, 1e-2, 1.0, 100.0)
RATIOS = (0.0, 1.0, 10.0, 100.0, 1000.0)
# Where L-BFGS starts (the best of these goes on), and how far it may go: the grid's own range.
START_FACTORS, START_RATIOS = (0.5, 1.0, 2.0), (3.0, 100.0, 1000.0)
AMBIENT_BOUNDS, RATIO_BOUNDS = (1e-6, 100.0), (1e-3, 1000.0)
# Variance of the function in units of the noise's, at most: beyond, sites of expectation
# propagation have no digits left, and the evidence no longer changes.
LARGEST_SIGNAL = 1e7
EP_ITERATIONS = 500
REGRESSION_NOISE = (1e-6, 10.0)  # its variance, for targets of unit variance
N_CHAINS = 4
LEAST_SHARE = 1e-3  # of an average over hyper-parameters; components below it are dropped


class Labels(NamedTuple):
    """What is known at which rows.

    rows : (l,) places of the labelled rows in the geometry
    codes : (l,) in 0..K−1
    n_classes : K
    noise : σ_n
    """

    rows: NDArray[np.intp]
    codes: Codes
    n_classes: int
    noise: float = NOISE


class BaseGram(NamedTuple):
    """The base kernel on all rows, at one value of its parameters.

    gram : (n, n) K
    projected : (m, n) R K
    squared : (m, m) R K Rᵀ
    """

    gram: Array
    projected: Array
    squared: Array


class Warp(NamedTuple):
    """The process told of the geometry, as the labelled rows see it.

    gram : (l, l) K̃_LL
    explained : (m, l) t of the labelled rows, K̃_LL = K_LL − tᵀt
    pull : (n, l) A = (I + MK)^{-1} M K_DL, so that K̃(X_L, x) = K(X_L, x) − Aᵀ K(D, x)
    lower : (m, m) factor of B, det B = det(I + MK); None for a ratio of zero
    """

    gram: Array
    explained: Array
    pull: Array
    lower: Array | None

    @property
    def log_det(self) -> float:
        """log det(I + M K)."""
        return 0.0 if self.lower is None else cholesky_log_det(self.lower)


class Fit(NamedTuple):
    """Expectation propagation at one value of the parameters.

    log_parameters : (p,) the base kernel's, log γ_A, log ratio
    log_evidence : log P(Y | 𝒢), or with −½ log det(I + MK) the full one
    slope : (p,) its gradient; empty where it was not asked for
    propagation : sites over the labels, or over differences of classes
    gram : (l, l) K̃_LL/(γ_A σ_n²)
    scale : 1/(γ_A σ_n²)
    """

    log_parameters: Array
    log_evidence: float
    slope: Array
    propagation: Propagation
    gram: Array
    scale: float


class Component(NamedTuple):
    """A posterior at one value of the parameters, in units of the noise.

    kernel : K̃
    scale : what multiplies it
    weights : (S, l, F) draws of V^{-1} z, of F functions; S = 1 where it is a mean
    whitener : (l, l) H, with k(x, x) − ‖H k_x‖² the variance given a draw
    log_weight : of the component in the average
    """

    kernel: GraphWarpedKernel
    scale: float
    weights: Array
    whitener: Array
    log_weight: float


class SSGPPosterior(NamedTuple):
    """What prediction needs.

    inputs : (l, d) labelled rows
    components : one, or several where parameters are averaged over
    noise : σ_n, the unit of the functions
    """

    inputs: Array
    components: tuple[Component, ...]
    noise: float


# The kernel at the labelled rows (section 3.2) ----------------------------------------------------


class Problem:
    """A base kernel on a geometry: Gram matrices and their gradients, distances found once.

    Parameters
    ----------
    base : kernel whose free log-parameters are to be found
    geometry : of all rows
    """

    def __init__(self, base: Kernel, geometry: Geometry):
        self.base = base
        self.geometry = geometry
        self._squared: Array | None = None
        self._contract: Callable[[Array, Array, Array], Array] | None = None
        free = type(base) is RBF and not base.hyperparameter_length_scale.fixed
        if free and base.anisotropic is False:
            self._squared = squareform(pdist(geometry.rows, "sqeuclidean"))
        if free:
            scaled = ConstantKernel(1.0) * base
            p = 1 + base.n_dims
            prior = KernelPrior(scaled, ("",) * p, np.zeros(p), np.ones(p), 0)
            self._contract = gram_gradient_function(prior, geometry.rows)

    def kernel_at(self, log_parameters: Array) -> Kernel:
        """The base kernel at the first of the log-parameters."""
        return self.base.clone_with_theta(log_parameters[: self.base.n_dims])

    def warped_kernel_at(self, log_parameters: Array) -> GraphWarpedKernel:
        """K̃ there, with a fixed ratio."""
        ratio = float(np.exp(log_parameters[-1]))
        return GraphWarpedKernel(self.kernel_at(log_parameters), self.geometry, ratio, "fixed")

    def gram(self, log_parameters: Array) -> Array:
        """K(D, D)."""
        if self._squared is None:
            return self.kernel_at(log_parameters)(self.geometry.rows)
        return np.exp(self._squared * (-0.5 * np.exp(-2.0 * log_parameters[0])))

    def base_gram(self, log_parameters: Array) -> BaseGram:
        """Everything that does not change with the ratio."""
        K = self.gram(log_parameters)
        projected = self.geometry.project(K)
        return BaseGram(K, projected, self.geometry.project(projected.T))

    def gradient(self, log_parameters: Array, K: Array, weights: Array) -> Array:
        """Σ_ij weights_ij ∂K_ij/∂θ; weights (n, n) symmetric -> (p,)."""
        if self.base.n_dims == 0:
            return np.zeros(0)
        theta = log_parameters[: self.base.n_dims]
        if self._contract is not None:
            return self._contract(np.append(0.0, theta), K, weights)[1:]
        _, slopes = self.base.clone_with_theta(theta)(self.geometry.rows, eval_gradient=True)
        return np.einsum("ij,ijk->k", weights, slopes)


def warp(base: BaseGram, geometry: Geometry, ratio: float, rows: NDArray[np.intp]) -> Warp:
    """K̃ at some of the rows, and what its gradient needs; one Cholesky factor."""
    K_LL = base.gram[np.ix_(rows, rows)]
    if ratio == 0:
        return Warp(
            K_LL,
            np.zeros((len(base.projected), len(rows))),
            np.zeros((len(base.gram), len(rows))),
            None,
        )
    lower = penalty_factor(base.squared, ratio)
    t = solve_lower(lower, np.sqrt(ratio) * base.projected[:, rows])
    pull = np.sqrt(ratio) * geometry.spread(solve_lower(lower, t, transposed=True))
    return Warp(K_LL - t.T @ t, t, pull, lower)


# What the labels say ------------------------------------------------------------------------------


def signs(labels: Labels) -> Array:
    """(l (K−1), l (K−1)) s with Cov(u_nk, u_mj) = s C_nm for the differences u = z_y − z_k."""
    y, K = labels.codes, labels.n_classes
    n = np.repeat(np.arange(len(y)), K - 1)
    rest = np.concatenate([np.delete(np.arange(K), c) for c in y])
    own, other = y[n][:, None], rest[:, None]
    same = (own == own.T).astype(float)
    return same - (own == other.T) - (other == own.T) + (other == other.T)


def difference_gram(gram: Array, labels: Labels) -> Array:
    """Covariance of what is u less noise of variance one, from C (l, l)."""
    repeated = np.repeat(
        np.repeat(gram, labels.n_classes - 1, axis=0), labels.n_classes - 1, axis=1
    )
    n = np.repeat(np.arange(len(gram)), labels.n_classes - 1)
    # The noise of z_y is in all differences of its row; that of z_k is the unit noise.
    return signs(labels) * repeated + (n[:, None] == n)


def propagate_labels(
    gram: Array,
    labels: Labels,
    start: Sites | None = None,
    max_iterations: int = EP_ITERATIONS,
) -> Propagation:
    """Expectation propagation over labels (two classes) or differences of classes (more)."""
    if labels.n_classes == 2:
        C, regions = gram, probit.regions(labels.codes)
    else:
        C = difference_gram(gram, labels)
        regions = probit.regions(np.ones(len(C), dtype=np.intp))
    sites = no_sites(len(C)) if start is None else start
    return propagate(C, regions, sites, tolerance=1e-7, max_iterations=max_iterations)


def evidence_slope(found: Propagation, labels: Labels) -> Array:
    """∂log P(Y | 𝒢)/∂C, (l, l): sites are held, being at their fixed point."""
    b = found.weights
    slope = 0.5 * (np.outer(b, b) - found.site_inverse)
    K = labels.n_classes
    if K == 2:
        return slope
    slope *= signs(labels)
    l = len(labels.codes)  # noqa: E741
    return slope.reshape(l, K - 1, l, K - 1).sum(axis=(1, 3))


# Model selection (section 3.3) --------------------------------------------------------------------


def fit_at(
    problem: Problem,
    labels: Labels,
    log_parameters: Array,
    *,
    full: bool = False,
    gradient: bool = False,
    base: BaseGram | None = None,
    warped: Warp | None = None,
    start: Sites | None = None,
) -> Fit:
    """Sites and evidence at (the base kernel's log-parameters, log γ_A, log ratio).

    Parameters
    ----------
    full : P(Y, 𝒢) in place of P(Y | 𝒢), but for a constant
    gradient : whether it is wanted
    base, warped : found before, where they are the same
    """
    *_, log_ambient, log_ratio = log_parameters
    base = problem.base_gram(log_parameters) if base is None else base
    w = warped
    if w is None:
        w = warp(base, problem.geometry, float(np.exp(log_ratio)), labels.rows)
    scale = float(np.exp(-log_ambient)) / labels.noise**2
    largest = LARGEST_SIGNAL / max(float(np.diagonal(w.gram).mean()), 1e-300)
    is_capped, scale = scale > largest, min(scale, largest)
    C = scale * w.gram
    found = propagate_labels(C, labels, start)
    value = float(found.log_evidences[-1]) - (0.5 * w.log_det if full else 0.0)
    if not gradient:
        return Fit(log_parameters, value, np.zeros(0), found, C, scale)

    by_C = evidence_slope(found, labels)
    by_scale = float(np.sum(by_C * C))
    by_gram = scale * by_C  # of K̃_LL
    if is_capped:
        by_gram -= by_scale / float(np.trace(w.gram)) * np.eye(len(C))
    by_base, by_ratio = _through_warp(problem, log_parameters, base, w, labels.rows, by_gram, full)
    by_ambient = 0.0 if is_capped else -by_scale
    slope = np.concatenate([by_base, [by_ambient, by_ratio]])
    return Fit(log_parameters, value, slope, found, C, scale)


def _through_warp(
    problem: Problem,
    log_parameters: Array,
    base: BaseGram,
    w: Warp,
    rows: NDArray[np.intp],
    by_gram: Array,
    full: bool = False,
) -> tuple[Array, float]:
    """From a gradient by K̃_LL to those by the base kernel's log-parameters and the log ratio.

    With a = P k: dK̃ = dK_LL − aᵀ dK_DL − dK_LD a + aᵀ dK_DD a, and by log r it is aᵀKa − tᵀt.
    `full` adds the gradient of −½ log det(I + MK).
    """
    K, A, t = base.gram, w.pull, w.explained
    by_ratio = float(np.sum(by_gram * (A.T @ (K @ A) - t.T @ t)))
    pulled = A @ by_gram
    weights = pulled @ A.T
    weights[:, rows] -= pulled
    weights[rows] -= pulled.T
    weights[np.ix_(rows, rows)] += by_gram
    if full and w.lower is not None:
        B_inverse = cholesky_inverse(w.lower)
        by_ratio -= 0.5 * (len(B_inverse) - float(np.trace(B_inverse)))
        spread = problem.geometry.spread(problem.geometry.spread(B_inverse).T)
        weights -= 0.5 * np.exp(log_parameters[problem.base.n_dims + 1]) * spread
    return problem.gradient(log_parameters, K, weights), by_ratio


def base_grid(base: Kernel, factors: Sequence[float]) -> list[Array]:
    """Log-parameters of the base kernel with every free length-scale multiplied."""
    is_length = np.concatenate(
        [
            np.full(h.n_elements, h.name.endswith("length_scale"))
            for h in base.hyperparameters
            if not h.fixed
        ]
        or [np.zeros(0, dtype=bool)]
    )
    if not is_length.any():
        return [np.array(base.theta, dtype=float)]
    return [base.theta + np.where(is_length, np.log(factor), 0.0) for factor in factors]


def fit_grid(
    problem: Problem,
    labels: Labels,
    *,
    factors: Sequence[float] = LENGTH_FACTORS,
    ambient_weights: Sequence[float] = AMBIENT_WEIGHTS,
    ratios: Sequence[float] = RATIOS,
    full: bool = False,
    report: Callable[[float], None] | None = None,
) -> Iterator[Fit]:
    """Every point of the grid; one Gram matrix a length-scale, one factor a ratio."""
    for theta in base_grid(problem.base, factors):
        base = problem.base_gram(theta)
        for ratio in ratios:
            w = warp(base, problem.geometry, ratio, labels.rows)
            for ambient in ambient_weights:
                with np.errstate(divide="ignore"):  # log 0: the supervised process
                    x = np.concatenate([theta, [np.log(ambient), np.log(ratio)]])
                fit = fit_at(problem, labels, x, full=full, base=base, warped=w)
                if report is not None:
                    report(fit.log_evidence)
                yield fit


def search_bounds(base: Kernel, others: Sequence[tuple[float, float]]) -> Array:
    """(p, 2): the grid's range around the base kernel's log-parameters, then log of `others`."""
    reach = np.log(max(LENGTH_FACTORS))
    of_base = base.bounds if base.n_dims else np.zeros((0, 2))
    low = np.maximum(of_base[:, 0], base.theta - reach)
    high = np.minimum(of_base[:, 1], base.theta + reach)
    return np.vstack([np.column_stack([low, high]), np.log(others)])


def ascend(
    function: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: Array,
    follow: Callable[[Array], None],
) -> bool:
    """L-BFGS on minus a function with its gradient; whether it stopped by itself."""
    search: Any = minimize  # whose stubs do not know a function with its gradient
    outcome = search(
        function,
        np.clip(start, bounds[:, 0], bounds[:, 1]),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=follow,
        options={"maxiter": 60, "ftol": 1e-7, "gtol": 1e-4},
    )
    return bool(outcome.status != 1)


def maximise_evidence(
    problem: Problem,
    labels: Labels,
    *,
    full: bool = False,
    report: Callable[[float], None] | None = None,
) -> tuple[Fit, Array, bool]:
    """L-BFGS over (the base kernel's, γ_A, γ_I/γ_A) from the best of a few points.

    Returns
    -------
    fit : at the maximum
    log_evidences : (t,) after every iteration
    converged : whether the search and the sites stopped by themselves
    """
    options: dict[str, Any] = {"full": full, "report": report}
    starts = fit_grid(
        problem,
        labels,
        factors=START_FACTORS,
        ambient_weights=(1.0,),
        ratios=START_RATIOS,
        **options,
    )
    best = max(starts, key=lambda fit: fit.log_evidence)
    values = [best.log_evidence]

    def negative(x: Array) -> tuple[float, Array]:
        nonlocal best
        sites = best.propagation.sites  # near those to be found
        fit = fit_at(problem, labels, x, full=full, gradient=True, start=sites)
        if fit.log_evidence > best.log_evidence:
            best = fit
        return -fit.log_evidence, -fit.slope

    def follow(x: Array) -> None:
        values.append(best.log_evidence)
        if report is not None:
            report(best.log_evidence)

    bounds = search_bounds(problem.base, [AMBIENT_BOUNDS, RATIO_BOUNDS])
    stopped = ascend(negative, best.log_parameters, bounds, follow)
    return best, np.array(values), stopped and best.propagation.converged


def evidence_weights(log_evidences: Array) -> Array:
    """exp of the evidences, normalised: posterior weights of a grid under a uniform prior.

    Examples
    --------
    >>> evidence_weights(np.log([1.0, 3.0]))
    array([0.25, 0.75])
    """
    return np.exp(log_evidences - logsumexp(log_evidences))


def average(fits: Sequence[Fit]) -> tuple[list[Fit], Array]:
    """Fits that have a share in the average over a grid, and the logarithms of these shares.

    Fits that differ in γ_A alone, where the noise cannot tell, are one fit.
    """
    shares: dict[Any, tuple[Fit, float]] = {}
    for fit, share in zip(fits, evidence_weights(np.array([f.log_evidence for f in fits]))):
        *of_base, _, log_ratio = fit.log_parameters.tolist()
        key = (*of_base, log_ratio, fit.scale)
        first, before = shares.get(key, (fit, 0.0))
        shares[key] = (first, before + float(share))
    kept = [pair for pair in shares.values() if pair[1] >= min(LEAST_SHARE, 1.0 / len(shares))]
    weights = np.array([share for _, share in kept])
    return [fit for fit, _ in kept], np.log(weights / weights.sum())


# The posterior ------------------------------------------------------------------------------------


def propagated_component(
    problem: Problem, fit: Fit, labels: Labels, log_weight: float = 0.0
) -> Component:
    """Expectation propagation's Gaussian, for two classes."""
    root = np.sqrt(fit.propagation.sites.precision)
    lower = jittered_cholesky(np.eye(len(root)) + root[:, None] * fit.gram * root).lower
    return Component(
        problem.warped_kernel_at(fit.log_parameters),
        fit.scale,
        fit.propagation.weights[None, :, None],
        solve_lower(lower, np.diag(root)),
        log_weight,
    )


def constraints(labels: Labels) -> Callable[[Array], Array]:
    """z (l, F) -> what the labels say is positive: y z for two classes, else z_y − z_k."""
    y, l = labels.codes, len(labels.codes)  # noqa: E741
    if labels.n_classes == 2:
        direction = np.where(y == 1, 1.0, -1.0)
        return lambda z: direction * z[:, 0]
    own = np.zeros((l, labels.n_classes), dtype=bool)
    own[np.arange(l), y] = True
    return lambda z: (z[own][:, None] - z[~own].reshape(l, -1)).ravel()


def sample_auxiliary(
    rng: np.random.Generator,
    fit: Fit,
    labels: Labels,
    *,
    n_chains: int = N_CHAINS,
    n_warmup: int = 60,
    n_samples: int = 250,
    thin: int | None = None,
    n_jobs: int | None = None,
) -> tuple[Array, Array]:
    """Draws of z, f integrated out; (chains, draws, l, F), and the (l, l) factor of V = C + I.

    Every chain starts at a prior draw made to agree with the labels. A draw is `thin` steps: a
    tenth of the number of constraints by default, since the arc of a step shrinks as they grow.
    """
    if thin is None:
        thin = max(5, len(labels.codes) * (labels.n_classes - 1) // 10)
    lower = jittered_cholesky(fit.gram + np.eye(len(fit.gram))).lower
    lengths = {"n_warmup": n_warmup * thin, "n_samples": n_samples, "thin": thin}
    chains = Parallel(n_jobs=n_jobs)(
        delayed(_sample_chain)(stream, lower, labels, lengths) for stream in rng.spawn(n_chains)
    )
    return np.stack(chains), lower


def _sample_chain(
    rng: np.random.Generator, lower: Array, labels: Labels, lengths: dict[str, int]
) -> Array:
    F = 1 if labels.n_classes == 2 else labels.n_classes
    z = lower @ rng.standard_normal((len(lower), F))
    if F == 1:
        z = np.abs(z) * np.where(labels.codes == 1, 1.0, -1.0)[:, None]
    else:  # the largest goes to the class of the label
        row, top = np.arange(len(z)), np.argmax(z, axis=1)
        z[row, top], z[row, labels.codes] = z[row, labels.codes], z[row, top]
    return sample_cone(rng, lower, constraints(labels), z, **lengths)


def sampled_component(
    problem: Problem, fit: Fit, draws: Array, lower: Array, log_weight: float = 0.0
) -> Component:
    """Of draws (S, l, F) of z."""
    S, l, F = draws.shape  # noqa: E741
    flat = draws.transpose(1, 0, 2).reshape(l, S * F)
    solved = solve_lower(lower, solve_lower(lower, flat), transposed=True)
    return Component(
        problem.warped_kernel_at(fit.log_parameters),
        fit.scale,
        solved.reshape(l, S, F).transpose(1, 0, 2),
        solve_lower(lower, np.eye(l)),
        log_weight,
    )


def latent_moments(
    component: Component, inputs: Array, X: Array
) -> Iterator[tuple[slice, Array, Array]]:
    """Parts of X with means (S, m, F) and variances (m,) of f there, in units of the noise."""
    kernel, scale = component.kernel, component.scale
    of_inputs = kernel.explained(inputs)
    for part in in_chunks(len(X), of_inputs.shape[0]):
        of_X = kernel.explained(X[part])
        cross = scale * (kernel.base(inputs, X[part]) - of_inputs.T @ of_X)
        prior = scale * (kernel.base.diag(X[part]) - np.einsum("ij,ij->j", of_X, of_X))
        known = component.whitener @ cross
        variance = np.maximum(prior - np.einsum("ij,ij->j", known, known), 0.0)
        yield part, np.einsum("im,sif->smf", cross, component.weights), variance


def log_class_probabilities(mean: Array, variance: Array) -> Array:
    """(m, F) and (m,) -> (m, K)."""
    if mean.shape[1] == 1:
        return probit.log_class_probabilities(mean[:, 0], variance)
    return multinomial_probit.log_class_probabilities(mean, variance)


def predict_log_proba(posterior: SSGPPosterior, X: Array) -> Array:
    """log P(y = k | x, data), averaged over draws and components; X (m, d) -> (m, K)."""
    total: Array | None = None
    for component in posterior.components:
        share = component.log_weight - np.log(len(component.weights))
        pieces = []
        for _, means, variance in latent_moments(component, posterior.inputs, X):
            each = [log_class_probabilities(mean, variance) for mean in means]
            pieces.append(share + logsumexp(each, axis=0))
        log_p = np.concatenate(pieces)
        total = log_p if total is None else np.logaddexp(total, log_p)
    assert total is not None  # a posterior has a component
    return total - logsumexp(total, axis=1, keepdims=True)


def predict_latent(posterior: SSGPPosterior, X: Array) -> tuple[Array, Array]:
    """Mean and variance of the functions over draws and components; X (m, d) -> (m, F) each."""
    shares = np.exp([c.log_weight for c in posterior.components])
    F = posterior.components[0].weights.shape[2]
    mean, second = np.zeros((len(X), F)), np.zeros((len(X), F))
    for share, component in zip(shares / shares.sum(), posterior.components):
        for part, means, variance in latent_moments(component, posterior.inputs, X):
            mean[part] += share * means.mean(axis=0)
            second[part] += share * (variance[:, None] + np.square(means).mean(axis=0))
    unit = posterior.noise
    return unit * mean, unit**2 * np.maximum(second - np.square(mean), 0.0)


# Regression ---------------------------------------------------------------------------------------


class RegressionFit(NamedTuple):
    """A Gaussian process told of the geometry, at one value of the parameters.

    log_parameters : (p,) the base kernel's, log γ_A, log ratio, log noise variance
    log_evidence : log N(y; 0, K̃_LL/γ_A + σ²I), or the full one
    slope : (p,) its gradient
    lower : (l, l) factor of that covariance
    """

    log_parameters: Array
    log_evidence: float
    slope: Array
    lower: Array


def regression_at(
    problem: Problem,
    rows: NDArray[np.intp],
    targets: Array,
    log_parameters: Array,
    *,
    full: bool = False,
) -> RegressionFit:
    """The evidence in closed form, and its gradient; rows (l,), targets (l,)."""
    *_, log_ambient, log_ratio, log_noise = log_parameters
    base = problem.base_gram(log_parameters)
    w = warp(base, problem.geometry, float(np.exp(log_ratio)), rows)
    scale, noise = float(np.exp(-log_ambient)), float(np.exp(log_noise))
    C = scale * w.gram
    lower = jittered_cholesky(C + noise * np.eye(len(C))).lower
    inverse = cholesky_inverse(lower)
    weights = inverse @ targets
    value = -0.5 * float(targets @ weights) - 0.5 * cholesky_log_det(lower)
    value -= 0.5 * len(targets) * np.log(2.0 * np.pi) + (0.5 * w.log_det if full else 0.0)
    by_C = 0.5 * (np.outer(weights, weights) - inverse)
    by_base, by_ratio = _through_warp(problem, log_parameters, base, w, rows, scale * by_C, full)
    others = [-float(np.sum(by_C * C)), by_ratio, noise * float(np.trace(by_C))]
    return RegressionFit(log_parameters, value, np.concatenate([by_base, others]), lower)


def maximise_regression(
    problem: Problem,
    rows: NDArray[np.intp],
    targets: Array,
    *,
    full: bool = False,
    report: Callable[[float], None] | None = None,
) -> tuple[RegressionFit, Array, bool]:
    """L-BFGS over all parameters, for targets of about unit variance; as `maximise_evidence`."""
    starts = [
        np.concatenate([theta, np.log([1.0, ratio, 0.1])])
        for theta in base_grid(problem.base, START_FACTORS)
        for ratio in START_RATIOS
    ]
    fits = (regression_at(problem, rows, targets, x, full=full) for x in starts)
    best = max(fits, key=lambda fit: fit.log_evidence)
    values = [best.log_evidence]

    def negative(x: Array) -> tuple[float, Array]:
        nonlocal best
        fit = regression_at(problem, rows, targets, x, full=full)
        if fit.log_evidence > best.log_evidence:
            best = fit
        return -fit.log_evidence, -fit.slope

    def follow(x: Array) -> None:
        values.append(best.log_evidence)
        if report is not None:
            report(best.log_evidence)

    others = [(1e-6, 1e3), RATIO_BOUNDS, REGRESSION_NOISE]
    bounds = search_bounds(problem.base, others)
    stopped = ascend(negative, best.log_parameters, bounds, follow)
    return best, np.array(values), stopped


def regression_posterior(
    problem: Problem, fit: RegressionFit, inputs: Array, targets: Array
) -> SSGPPosterior:
    """What prediction needs; in the units of the targets."""
    weights = solve_lower(fit.lower, solve_lower(fit.lower, targets), transposed=True)
    component = Component(
        problem.warped_kernel_at(fit.log_parameters[:-1]),
        float(np.exp(-fit.log_parameters[-3])),
        weights[None, :, None],
        solve_lower(fit.lower, np.eye(len(targets))),
        0.0,
    )
    return SSGPPosterior(inputs, (component,), 1.0)
