"""Posteriors of a handful of latent values by brute force, to check faster methods against.

Nothing here uses the rest of the library, so an error elsewhere cannot affect both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, roots_hermitenorm, roots_legendre

Array = NDArray[np.float64]

# Nodes per coordinate, by the number of coordinates: with three, about half a million in all.
DEFAULT_NODES = {1: 400, 2: 200, 3: 80, 4: 40}


class QuadraturePosterior(NamedTuple):
    """The posterior p(f | y) ∝ p(y | f) N(f; 0, gram) as weighted points.

    log_evidence : log ∫ p(y | f) N(f; 0, gram) df
    log_evidence_error : how far the log evidence moves when a quarter of the nodes per coordinate
        is removed
    mean : (n,) posterior mean
    covariance : (n, n) posterior covariance
    nodes : (m, n) latent values
    probabilities : (m,) posterior weight of each node, summing to one
    """

    log_evidence: float
    log_evidence_error: float
    mean: Array
    covariance: Array
    nodes: Array
    probabilities: Array

    def expectation(self, function: Callable[[Array], ArrayLike]) -> Array:
        """Return E[function(f) | y]; `function` maps (m, n) to (m,) or (m, ...)."""
        return np.tensordot(self.probabilities, np.asarray(function(self.nodes), dtype=float), 1)


class GridPosterior(NamedTuple):
    """A `QuadraturePosterior` at each node of a hyper-parameter grid, mixed by their evidence.

    log_evidence : log evidence with hyper-parameters and latent values both integrated out
    node_probabilities : (g,) posterior weight of each hyper-parameter node
    mean : (n,) posterior mean of the latent values
    covariance : (n, n) posterior covariance of the latent values
    components : the g posteriors that were mixed
    """

    log_evidence: float
    node_probabilities: Array
    mean: Array
    covariance: Array
    components: tuple[QuadraturePosterior, ...]

    def expectation(self, function: Callable[[Array], ArrayLike]) -> Array:
        """Return E[function(f) | y] with the hyper-parameters integrated out."""
        return np.tensordot(
            self.node_probabilities,
            np.array([component.expectation(function) for component in self.components]),
            1,
        )


def quadrature_posterior(
    log_likelihood: Callable[[Array], Array],
    gram: ArrayLike,
    *,
    n_nodes: int | None = None,
    breakpoints: Sequence[float] = (),
    half_width: float = 8.0,
) -> QuadraturePosterior:
    """Integrate the posterior of up to four latent values f ~ N(0, gram) under any likelihood.

    Parameters
    ----------
    log_likelihood : (m, n) latent values -> (m,), where −inf is allowed
    gram : (n, n) prior covariance, positive definite; n from 1 to 4. For several functions, the
        block-diagonal covariance of all their values.
    n_nodes : int or None, default=None
        Gauss–Legendre nodes per coordinate; None takes 400, 200, 80, 40 for n = 1, 2, 3, 4.
    breakpoints : sequence of float, default=()
        Latent values at which the likelihood has a jump, a kink or a steep rise, such as a
        threshold. Each coordinate is integrated piecewise between them, with the nodes shared out
        among the pieces, which keeps the accuracy.
    half_width : float, default=8.0
        How far to integrate, in standard deviations of the whitened prior.

    Returns
    -------
    QuadraturePosterior

    Notes
    -----
    With gram = L Lᵀ and f = L u, coordinate i is integrated given the earlier ones over
    |u_i| <= half_width; a breakpoint b lies at u_i = (b − Σ_j<i L_ij u_j) / L_ii, which moves with
    the earlier coordinates. Gauss–Legendre nodes are preferred to Gauss–Hermite nodes, which
    converge slowly once the likelihood is much steeper than the prior is wide, and which cannot be
    split at a threshold.

    A posterior that reaches the edge of the range is refused. A posterior much narrower than the
    spacing of the nodes shows up in `log_evidence_error`.

    Examples
    --------
    The evidence of one probit label at zero is one half, whatever the prior variance.

    >>> from scipy.special import log_ndtr
    >>> posterior = quadrature_posterior(lambda f: log_ndtr(f[:, 0]), [[4.0]])
    >>> round(float(np.exp(posterior.log_evidence)), 10)
    0.5
    """
    gram = np.atleast_2d(np.asarray(gram, dtype=float))
    n = len(gram)
    if gram.shape != (n, n) or n not in DEFAULT_NODES:
        raise ValueError(
            f"gram has shape {gram.shape}; it must be square with 1 to {max(DEFAULT_NODES)} rows, "
            "since the cost grows as a power of their number."
        )
    try:
        lower = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        raise ValueError(
            "gram is not positive definite; add to its diagonal the jitter that the model adds."
        ) from None
    count = DEFAULT_NODES[n] if n_nodes is None else n_nodes
    if count < 4:
        raise ValueError(f"n_nodes is {n_nodes}; it must be at least 4.")

    def integrate(count: int) -> tuple[Array, Array, float]:
        nodes, log_prior = _nested_nodes(lower, sorted(breakpoints), count, half_width)
        log_joint = log_prior + _checked_log_likelihood(log_likelihood, nodes)
        return nodes, log_joint, float(logsumexp(log_joint))

    nodes, log_joint, log_evidence = integrate(count)
    if log_evidence == -np.inf:
        raise ValueError("log_likelihood is -inf at every node; check it, or raise n_nodes.")
    coarse = integrate(3 * count // 4)[2]
    probabilities = np.exp(log_joint - log_evidence)
    _check_edge(lower, nodes, probabilities, half_width)
    mean = probabilities @ nodes
    centred = nodes - mean
    return QuadraturePosterior(
        log_evidence=log_evidence,
        log_evidence_error=abs(log_evidence - coarse),
        mean=mean,
        covariance=(centred * probabilities[:, None]).T @ centred,
        nodes=nodes,
        probabilities=probabilities,
    )


def quadrature_over_grid(
    log_weights: ArrayLike, posteriors: Sequence[QuadraturePosterior]
) -> GridPosterior:
    """Integrate hyper-parameters out over a grid of their values.

    Parameters
    ----------
    log_weights : (g,) log of prior density times quadrature weight at each hyper-parameter node;
        `normal_grid` makes them
    posteriors : the `quadrature_posterior` at each of the g nodes

    Returns
    -------
    GridPosterior

    Examples
    --------
    >>> from scipy.special import log_ndtr
    >>> nodes, log_weights = normal_grid(0.0, 0.5, n_nodes=9)      # log amplitude
    >>> mixed = quadrature_over_grid(
    ...     log_weights,
    ...     [quadrature_posterior(lambda f: log_ndtr(f[:, 0]), [[np.exp(2 * node[0])]])
    ...      for node in nodes],
    ... )
    >>> round(float(np.exp(mixed.log_evidence)), 10)
    0.5
    """
    log_weights = np.asarray(log_weights, dtype=float)
    if log_weights.shape != (len(posteriors),) or not len(posteriors):
        raise ValueError(
            f"log_weights has shape {log_weights.shape} and there are {len(posteriors)} "
            "posteriors; give one weight per posterior, and at least one."
        )
    log_joint = log_weights + [posterior.log_evidence for posterior in posteriors]
    log_evidence = float(logsumexp(log_joint))
    probabilities = np.exp(log_joint - log_evidence)
    means = np.array([posterior.mean for posterior in posteriors])
    covariances = np.array([posterior.covariance for posterior in posteriors])
    mean = probabilities @ means
    between = (means - mean).T @ ((means - mean) * probabilities[:, None])
    return GridPosterior(
        log_evidence=log_evidence,
        node_probabilities=probabilities,
        mean=mean,
        covariance=np.tensordot(probabilities, covariances, 1) + between,
        components=tuple(posteriors),
    )


def normal_grid(
    means: ArrayLike, standard_deviations: ArrayLike, n_nodes: int = 21
) -> tuple[Array, Array]:
    """Return Gauss–Hermite nodes and weights for independent normal (log-)hyper-parameters.

    Parameters
    ----------
    means, standard_deviations : (d,) or scalars, of the d hyper-parameters
    n_nodes : int, default=21
        Nodes per hyper-parameter.

    Returns
    -------
    nodes : (n_nodes ** d, d)
    log_weights : (n_nodes ** d,), whose exponentials sum to one

    Examples
    --------
    >>> nodes, log_weights = normal_grid([0.0, 1.0], [0.5, 0.5], n_nodes=5)
    >>> nodes.shape, np.round(np.exp(log_weights) @ nodes, 12) + 0.0
    ((25, 2), array([0., 1.]))
    """
    means, deviations = np.broadcast_arrays(
        np.atleast_1d(np.asarray(means, dtype=float)),
        np.atleast_1d(np.asarray(standard_deviations, dtype=float)),
    )
    d = len(means)
    points, weights = roots_hermitenorm(n_nodes)
    log_weights = np.log(weights / weights.sum())
    whitened = np.stack(np.meshgrid(*[points] * d, indexing="ij"), axis=-1).reshape(-1, d)
    log_products = np.stack(np.meshgrid(*[log_weights] * d, indexing="ij"), axis=-1)
    return means + deviations * whitened, log_products.reshape(-1, d).sum(axis=1)


def _nested_nodes(
    lower: Array, breakpoints: Sequence[float], n_nodes: int, half_width: float
) -> tuple[Array, Array]:
    """Return latent nodes (m, n) and the log of prior density times quadrature weight, (m,)."""
    n_pieces = len(breakpoints) + 1
    points, weights = roots_legendre(max(2, -(-n_nodes // n_pieces)))
    whitened = np.zeros((1, 0))
    log_weights = np.zeros(1)
    for i, row in enumerate(lower):
        given = whitened @ row[:i]
        inner = (np.asarray(breakpoints, dtype=float) - given[:, None]) / row[i]
        edges = np.pad(
            np.clip(inner, -half_width, half_width),
            ((0, 0), (1, 1)),
            constant_values=((0, 0), (-half_width, half_width)),
        )
        half = np.diff(edges, axis=1)[:, :, None] / 2
        middle = (edges[:, 1:, None] + edges[:, :-1, None]) / 2
        u = middle + half * points
        with np.errstate(divide="ignore"):  # a piece may be empty
            added = np.log(half * weights) - u**2 / 2 - np.log(2 * np.pi) / 2
        keep = np.isfinite(added)
        parent = np.broadcast_to(np.arange(len(whitened))[:, None, None], u.shape)[keep]
        whitened = np.column_stack([whitened[parent], u[keep]])
        log_weights = log_weights[parent] + added[keep]
    return whitened @ lower.T, log_weights


def _checked_log_likelihood(log_likelihood: Callable[[Array], Array], nodes: Array) -> Array:
    values = np.asarray(log_likelihood(nodes), dtype=float)
    if values.shape != (len(nodes),):
        raise ValueError(
            f"log_likelihood returned shape {values.shape} for {nodes.shape} latent values; "
            f"it must return one number a row, ({len(nodes)},)."
        )
    if np.isnan(values).any():
        raise ValueError(
            f"log_likelihood is NaN at f = {nodes[np.isnan(values)][0]}; return -inf where the "
            "data are impossible."
        )
    return values


def _check_edge(lower: Array, nodes: Array, probabilities: Array, half_width: float) -> None:
    whitened = np.linalg.solve(lower, nodes.T).T
    outer = probabilities[(np.abs(whitened) > half_width - 0.5).any(axis=1)].sum()
    if outer > 1e-8:
        raise ValueError(
            f"{outer:.1g} of the posterior lies within half a standard deviation of the edge of "
            f"the range, half_width = {half_width:g}; raise half_width, and n_nodes with it."
        )
