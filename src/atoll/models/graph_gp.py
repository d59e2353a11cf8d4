"""The default classifier: a Gaussian process on the smoothest functions of the data's graph.

prior: a spectral graph kernel with a constant. likelihood: y is the class whose function is
largest, without noise; with many labels, a softmax whose noise they tell (`graph_softmax.py`).
inference: exact draws inside the cone that the labels leave; Hamiltonian Monte Carlo for the
softmax; variational Bayes for a probit where that has too many coefficients.

    f_c(x) = v(x)ᵀ a_c,   a_c ~ N(0, I),   v(x) = (embedding of x, √ρ)       one f a class
    y_n = argmax_c f_c(x_n)                                                  labelled rows

Two classes need only the difference of their functions, which is f again up to its scale, and the
scale does not matter. The prior's two scales of s(λ) = (λ + κ)^−3 come from the spectrum: κ a
tenth of the K-th eigenvalue, so that K clusters can be told apart, and, with a weight of 3% that
grows to 30% from 100 labels to 1000, a tenth of the l-th, so that l labels can all be obeyed. ρ
lets one class be the rule and others exceptions.

Labellings of all rows are not equally likely to begin with. A draw of the functions labels every
row of the graph, and has the weight

    Π_c π_c^{3 K l_c / l} · exp(−0.3 · cut / d̄)

with π_c the share of class c among all rows, l_c / l its share among the labels, cut the total
weight of edges between classes and d̄ the mean degree. The weights are tempered until they are
worth at least a twentieth of the draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from atoll.core.graphs import Modes
from atoll.core.linalg import cholesky_inverse, cholesky_solve, jittered_cholesky
from atoll.core.memory import in_chunks
from atoll.inference import cone_sampling, hmc_chains
from atoll.inference.type_two import Report
from atoll.kernels.graph_spectral import embedding, spectral_weights
from atoll.kernels.hyperparameters import KernelPrior
from atoll.likelihoods import multinomial_probit, probit
from atoll.models import graph_softmax, probit_gp

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

SMOOTHNESS = 3.0
SCALE_SHARE = 0.1  # κ in units of an eigenvalue
FINE_WEIGHT, MOST_FINE_WEIGHT = 0.03, 0.3  # of the part that follows the number of labels
FINE_LABELS = 100  # beyond so many, that part's weight grows with them
CONSTANT_VARIANCE = 0.3  # ρ
NUGGET = 1e-3  # a label may disagree with its nearest rows
# Of a labelling's weight.
BALANCE_STRENGTH = 3.0
CUT_STRENGTH = 0.3
LEAST_EFFECTIVE_SHARE = 0.05
# Sweeps of every chain: doubled as long as the chains remember where they were half-way.
FIRST_SWEEPS, MOST_SWEEPS = 16, 512
MEMORY_LIMIT = 0.3
# Amplitude of the probit in units of its noise, for many labels.
LOG_VARIANCE_CENTRE, LOG_VARIANCE_SPREAD = 4.0, 2.0


class ConePosterior(NamedTuple):
    """Weighted draws of the functions; F is one for two classes, else one a class.

    coefficients : (S, p, F) a
    weights : (S,) sum to one
    n_sweeps : of every chain
    memory : correlation of the chains with themselves half-way
    """

    coefficients: Array
    weights: Array
    n_sweeps: int
    memory: float


class SoftmaxPosterior(NamedTuple):
    """Weighted draws of the functions under a softmax.

    coefficients : (S, p, F) a, in units of the softmax
    weights : (S,) sum to one
    log_amplitudes : (S,) of the variance of the functions
    n_steps : of every chain
    memory : correlation of the chains with themselves half-way
    """

    coefficients: Array
    weights: Array
    log_amplitudes: Array
    n_steps: int
    memory: float


class NormalPosterior(NamedTuple):
    """Functions of a probit in units of its noise.

    mean : (p, F) of a
    covariance : (p, p), of every a_c
    log_evidences : (t,) the bound after every iteration
    converged : whether the search stopped by itself
    """

    mean: Array
    covariance: Array
    log_evidences: Array
    converged: bool


Posterior = ConePosterior | SoftmaxPosterior | NormalPosterior


# The prior ----------------------------------------------------------------------------------------


def row_features(modes: Modes, n_classes: int, n_labels: int) -> Array:
    """v of every row of the graph, (n, p): f_c = v a_c, with a constant in the last column."""
    values = modes.values
    if len(values) == 0:
        return _with_constant(embedding(modes, values))

    def part(index: int) -> Array:
        # An eigenvalue is zero to rounding, and no scale, on every part of the graph.
        scale = SCALE_SHARE * max(float(values[min(index, len(values)) - 1]), 1e-12)
        s = spectral_weights(values, "matern", scale, SMOOTHNESS)
        return s / s.sum()

    fine = min(MOST_FINE_WEIGHT, FINE_WEIGHT * max(1.0, n_labels / FINE_LABELS))
    s = part(n_classes) + fine * part(max(2 * n_classes, n_labels))
    return _with_constant(embedding(modes, s))


def _with_constant(V: Array) -> Array:
    return np.column_stack([V, np.full(len(V), np.sqrt(CONSTANT_VARIANCE))])


def sample_prior(
    rng: np.random.Generator, features: Array, n_classes: int, n_draws: int = 1
) -> tuple[Array, Codes]:
    """Coefficients (S, p, F) and the labels that they give to each row (S, n)."""
    a = rng.standard_normal((n_draws, features.shape[1], _n_functions(n_classes)))
    return a, classes_of(features @ a)


def classes_of(latent: Array) -> Codes:
    """The class of each row; latent (..., F) -> (...)."""
    if latent.shape[-1] == 1:
        return (latent[..., 0] > 0).astype(np.intp)
    return np.argmax(latent, axis=-1)


def _n_functions(n_classes: int) -> int:
    return 1 if n_classes == 2 else n_classes


# Draws at the labelled rows -----------------------------------------------------------------------


def one_hot(codes: Codes, n_classes: int) -> Array:
    """Functions that are one at their own class's rows, (l, F): well inside the cone."""
    if n_classes == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return np.eye(n_classes)[codes] - 1.0 / n_classes


def label_covariance(v: Array) -> Array:
    """Of f at labelled rows with features (l, p), each with a little of its own: (l, l)."""
    covariance = v @ v.T
    covariance[np.diag_indices_from(covariance)] += NUGGET
    return covariance


def sweep(rng: np.random.Generator, f: Array, lower: Array, codes: Codes) -> Array:
    """Turn the function of each class on an ellipse of its own, given those of the others.

    All functions at once would have K − 1 times the constraints, and arcs as much shorter.

    Parameters
    ----------
    f : (S, l, F) one chain each, right at the labelled rows
    lower : (l, l) factor of the covariance there
    codes : (l,) in 0..K−1
    """
    if f.shape[2] == 1:
        side = np.where(codes == 1, 1.0, -1.0)
        return cone_sampling.turn_beside(rng, lower, f[..., 0], side, np.zeros(1))[..., None]
    f, rows = f.copy(), np.arange(len(codes))
    for c in rng.permutation(f.shape[2]):
        own = codes == c
        limits = f[:, rows, codes]
        limits[:, own] = np.delete(f[:, own], c, axis=2).max(axis=2)
        side = np.where(own, 1.0, -1.0)
        f[..., c] = cone_sampling.turn_beside(rng, lower, f[..., c], side, limits)
    return f


def sample_labelled(
    rng: np.random.Generator, lower: Array, codes: Codes, n_classes: int, n_draws: int
) -> tuple[Array, int, float]:
    """Draws of f at the labelled rows given their labels: one from each of many chains.

    All chains start at one point well inside the cone, and run until they have forgotten where they
    were half-way: until over the chains the values of a class's function at its own rows, then and
    now, are hardly correlated.

    A cone looks the same from near and far, so that the energy fᵀ C^{-1} f does not depend on the
    labels, or on the direction of f: it is χ² with l F degrees of freedom, and drawn anew after
    every sweep.

    Parameters
    ----------
    lower : (l, l) factor of the covariance C there
    codes : (l,) in 0..K−1
    n_draws : S, the number of chains

    Returns
    -------
    f : (S, l, F)
    n_sweeps : of each chain
    memory : that correlation at the end, the mean over classes
    """
    precision = cholesky_inverse(lower)
    f = np.repeat(one_hot(codes, n_classes)[None], n_draws, axis=0)
    own = one_hot(codes, n_classes) > 0 if n_classes > 2 else np.ones((len(codes), 1), bool)

    def length(f: Array) -> Array:
        return np.sqrt(np.einsum("slf,slf->s", f, precision @ f))

    def rescaled(f: Array) -> Array:
        return f * (np.sqrt(rng.chisquare(f[0].size, n_draws)) / length(f))[:, None, None]

    def direction(f: Array) -> Array:
        return np.einsum("slf,lf->sf", f, own) / length(f)[:, None]

    n_sweeps, f = 0, rescaled(f)
    while True:
        before = direction(f)
        for _ in range(max(FIRST_SWEEPS, n_sweeps)):
            f = rescaled(sweep(rng, f, lower, codes))
        n_sweeps += max(FIRST_SWEEPS, n_sweeps)
        memory = hmc_chains.memory(before, direction(f))
        if n_sweeps > FIRST_SWEEPS and (memory < MEMORY_LIMIT or n_sweeps >= MOST_SWEEPS):
            return f, n_sweeps, memory


# The posterior ------------------------------------------------------------------------------------


def draw(
    rng: np.random.Generator,
    features: Array,
    labelled: Codes,
    codes: Codes,
    n_classes: int,
    graph: sparse.csr_array | None,
    n_draws: int,
) -> ConePosterior:
    """Exact draws of the functions given the labels, and the weights of their labellings.

    Parameters
    ----------
    features : (n, p) v of all rows of the graph
    labelled : (l,) which rows have a label
    codes : (l,) their classes, in 0..K−1
    graph : (n, n) weights of the edges; None leaves every draw its own weight
    n_draws : S
    """
    v = features[labelled]
    lower = jittered_cholesky(label_covariance(v)).lower
    f, n_sweeps, memory = sample_labelled(rng, lower, codes, n_classes, n_draws)
    a = sample_coefficients(rng, v, lower, f)
    weights = _weights(features, a, labelled, codes, n_classes, graph)
    return ConePosterior(a, weights, n_sweeps, memory)


def draw_softmax(
    rng: np.random.Generator,
    features: Array,
    labelled: Codes,
    codes: Codes,
    n_classes: int,
    graph: sparse.csr_array | None,
    n_draws: int,
) -> SoftmaxPosterior:
    """Draws under a softmax whose noise the labels tell; parameters as those of `draw`."""
    found = graph_softmax.sample(rng, features[labelled], codes, n_classes, n_draws)
    a = found.coefficients
    weights = _weights(features, a, labelled, codes, n_classes, graph)
    return SoftmaxPosterior(a, weights, found.log_amplitudes, found.n_steps, found.memory)


def sample_coefficients(rng: np.random.Generator, v: Array, lower: Array, f: Array) -> Array:
    """a given f at the labelled rows, (S, p, F), by Matheron's rule.

    A draw of the prior is moved by what it misses; v (l, p), f (S, l, F), lower (l, l) the factor
    of f's covariance.
    """
    a = rng.standard_normal((len(f), v.shape[1], f.shape[2]))
    missed = f - v @ a - np.sqrt(NUGGET) * rng.standard_normal(f.shape)
    return a + cholesky_solve(lower, v).T @ missed


def _weights(
    features: Array,
    a: Array,
    labelled: Codes,
    codes: Codes,
    n_classes: int,
    graph: sparse.csr_array | None,
) -> Array:
    """(S,) of the draws, which sum to one; all the same without a graph."""
    if graph is None:
        return np.full(len(a), 1.0 / len(a))
    return tempered(_labelling_log_weights(features, a, labelled, codes, n_classes, graph))


def _labelling_log_weights(
    features: Array,
    a: Array,
    labelled: Codes,
    codes: Codes,
    n_classes: int,
    graph: sparse.csr_array,
) -> Array:
    """(S,) of the labellings that the draws give to all rows of the graph."""
    n, n_draws = len(features), len(a)
    upper = sparse.triu(graph, k=1).tocoo()
    mean_degree = max(float(graph.sum()) / n, 1e-300)
    share_of_labels = np.bincount(codes, minlength=n_classes) / len(codes)
    out = np.empty(n_draws)
    for piece in in_chunks(n_draws, n * a.shape[2] + 2 * upper.nnz):
        labels = classes_of(features @ a[piece])
        labels[:, labelled] = codes
        shares = np.stack([(labels == k).mean(axis=1) for k in range(n_classes)], axis=1)
        cut = (labels[:, upper.row] != labels[:, upper.col]) @ upper.data
        out[piece] = (
            BALANCE_STRENGTH * n_classes * np.log(np.maximum(shares, 0.5 / n)) @ share_of_labels
            - CUT_STRENGTH * cut / mean_degree
        )
    return out


def tempered(log_weights: Array) -> Array:
    """Weights that sum to one, flattened until they are worth a twentieth of the draws."""
    least = LEAST_EFFECTIVE_SHARE * len(log_weights)
    relative = log_weights - log_weights.max()

    def weights(power: float) -> Array:
        w = np.exp(power * relative)
        return w / w.sum()

    def surplus(power: float) -> float:
        return float(1.0 / np.sum(weights(power) ** 2) - least)

    return weights(1.0 if surplus(1.0) >= 0 else brentq(surplus, 0.0, 1.0, xtol=1e-6))


def approximate(
    features: Array, codes: Codes, n_classes: int, report: Report | None = None
) -> NormalPosterior:
    """The probit's posterior for many labels, its amplitude where the bound is highest.

    Parameters
    ----------
    features : (l, p) v of the labelled rows
    """
    constant = DotProduct(0.0, sigma_0_bounds="fixed")  # the features hold the constant
    prior = KernelPrior(
        ConstantKernel(np.exp(LOG_VARIANCE_CENTRE)) * constant,
        ("log_variance",),
        np.array([LOG_VARIANCE_CENTRE]),
        np.array([LOG_VARIANCE_SPREAD]),
        variance_index=0,
    )
    found = probit_gp.variational(features, codes, prior, n_classes, report)
    variance = float(np.exp(found.log_parameters[0]))
    weights = found.weights.reshape(len(features), -1)
    p = features.shape[1]
    precision = np.eye(p) + variance * features.T @ features
    covariance = variance * cholesky_inverse(jittered_cholesky(precision).lower)
    mean = variance * features.T @ weights
    follow = covariance @ features.T  # how a goes with z, which is not known either
    assert found.auxiliary_variance is not None  # variational Bayes leaves z one
    covariance += follow * found.auxiliary_variance @ follow.T
    return NormalPosterior(mean, covariance, found.log_evidences, found.converged)


# Prediction ---------------------------------------------------------------------------------------


def predict_proba(posterior: Posterior, features: Array) -> Array:
    """Class probabilities of rows with features (m, p), (m, K)."""
    if isinstance(posterior, NormalPosterior):
        mean, variance = latent_moments(posterior, features)
        if mean.shape[1] == 1:
            return np.exp(probit.log_class_probabilities(mean[:, 0], variance[:, 0]))
        return np.concatenate(
            [
                multinomial_probit.class_probabilities(mean[piece], variance[piece, 0])
                for piece in in_chunks(len(mean), mean.shape[1] * multinomial_probit.GRID_NODES)
            ]
        )
    if isinstance(posterior, SoftmaxPosterior):
        return _softmax_proba(posterior, features)
    a, weights = posterior.coefficients, posterior.weights
    n_draws, _, F = a.shape
    n_classes = max(F, 2)
    # One more draw, shared by the classes: draws cannot say that something never happens.
    counts = np.full((len(features), n_classes), 1.0 / n_classes)
    for piece, latent in _latent_by_piece(a, features):
        if F == 1:
            share = (latent[..., 0] > 0) @ weights
            counts[piece] += n_draws * np.stack([1.0 - share, share], axis=1)
        else:
            winner = np.argmax(latent, axis=2)
            for k in range(n_classes):
                counts[piece, k] += n_draws * ((winner == k) @ weights)
    counts = np.maximum(counts, 0.0)
    return counts / counts.sum(axis=1, keepdims=True)


def _softmax_proba(posterior: SoftmaxPosterior, features: Array) -> Array:
    a, weights = posterior.coefficients, posterior.weights
    out = np.empty((len(features), max(a.shape[2], 2)))
    for piece, latent in _latent_by_piece(a, features):
        out[piece] = np.einsum("s,msk->mk", weights, graph_softmax.class_probabilities(latent))
    return out / out.sum(axis=1, keepdims=True)


def _latent_by_piece(a: Array, features: Array) -> Iterator[tuple[slice, Array]]:
    """Some rows at a time, and every draw's functions there, (rows, S, F); a (S, p, F)."""
    n_draws, p, F = a.shape
    flat = a.transpose(1, 0, 2).reshape(p, n_draws * F)
    for piece in in_chunks(len(features), n_draws * F):
        yield piece, (features[piece] @ flat).reshape(-1, n_draws, F)


def latent_moments(posterior: Posterior, features: Array) -> tuple[Array, Array]:
    """Mean and variance of the functions, each (m, F)."""
    if isinstance(posterior, NormalPosterior):
        variance = np.einsum("ij,ij->i", features @ posterior.covariance, features)
        mean = features @ posterior.mean
        return mean, np.repeat(np.maximum(variance, 0.0)[:, None], mean.shape[1], axis=1)
    a, weights = posterior.coefficients, posterior.weights
    centre = np.einsum("s,spf->pf", weights, a)
    means, variances = features @ centre, np.empty((len(features), a.shape[2]))
    for k in range(a.shape[2]):
        apart = np.sqrt(weights)[:, None] * (a[:, :, k] - centre[:, k])
        spread = apart.T @ apart
        variances[:, k] = np.einsum("ij,ij->i", features @ spread, features)
    return means, np.maximum(variances, 0.0)
