"""The chain: where it starts, what it records, and which sweep it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.densities import NormalInverseWishart
from atoll.core.linalg import jittered_cholesky
from atoll.inference.chains import Sampler
from atoll.kernels.hyperparameters import gram_function
from atoll.models.archipelago import paper_sweep, sweep
from atoll.models.archipelago.functions import Setting, gram_at_rows, kernels_at
from atoll.models.archipelago.likelihood import class_probabilities
from atoll.models.archipelago.state import (
    ArchipelagoState,
    latent_at,
    make_whitened_state,
    outcomes_at,
)

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Sweep = Callable[[np.random.Generator, Setting, ArchipelagoState, bool], ArchipelagoState]

SWEEPS: dict[str, Sweep] = {
    "default": sweep.sweep,
    "paper": paper_sweep.sweep,
    "paper-whitened": paper_sweep.whitened_sweep,
}


def sampler(setting: Setting, *, sweep: Sweep = sweep.sweep, n_clamped: int = 0) -> Sampler:
    """Return the chain for labelled and unlabelled rows.

    Parameters
    ----------
    sweep : the transition, ours or the paper's
    n_clamped : first sweeps in which every unlabelled row has a label drawn from a graph of the
        rows, a new draw in each chain; rejections and θ settle around it before it is let go
    """

    def init(rng: np.random.Generator) -> ArchipelagoState:
        n, K, prior = len(setting.inputs), setting.n_classes, setting.prior
        shape = (setting.n_kernels, len(prior.mean))
        theta = prior.mean + 0.5 * prior.sd * rng.standard_normal(shape)
        mixing = 0.1 * rng.standard_normal(setting.n_mixing)
        base = None
        if isinstance(setting.base, NormalInverseWishart):
            base = setting.base.given(setting.inputs).draw(rng)
        kernels = kernels_at(gram_at_rows(setting, setting.inputs), theta)
        whitened = 0.1 * rng.standard_normal((n, K))
        state = make_whitened_state(setting, setting.inputs[:0], kernels, whitened, mixing, base)
        if n_clamped == 0 or K == 1:
            return state
        return state._replace(start_codes=start_labels(rng, setting), n_clamped=n_clamped)

    def step(rng: np.random.Generator, state: ArchipelagoState, adapt: bool) -> ArchipelagoState:
        return sweep(rng, setting, state, adapt)

    def record(rng: np.random.Generator, state: ArchipelagoState) -> dict[str, Any]:
        n, g = len(setting.inputs), latent_at(setting, state)
        return {
            "n_rejections": len(state.rejections),
            "log_likelihood": outcomes_at(setting, state).total(g),
            "log_parameters": state.log_parameters.ravel(),
            "rejections": state.rejections,
            "whitened": state.whitened[: len(g)],
            "mixing": state.mixing,
            "base_mean": state.base.mean,
            "base_lower": state.base.lower,
            "row_probabilities": class_probabilities(g[:n]),
            "acceptance": state.acceptance,
            "jitter": state.jitter,
        }

    return Sampler(init, step, record)


def start_labels(rng: np.random.Generator, setting: Setting) -> Codes:
    """Draw a label for every row from a Gaussian process on the graph of nearest neighbours.

    The functions are low-pass on the modes of the normalised graph, given the known labels; each
    row takes the class of the largest. Known labels stay. Rows that are not vectors of numbers
    have no graph: theirs are drawn from the kernel's own process.
    """
    n, K = len(setting.inputs), setting.n_classes
    if n < 3 or not (np.ndim(setting.inputs) == 2 and setting.inputs.dtype.kind == "f"):
        C = gram_function(setting.prior, setting.inputs)(setting.prior.mean)
        covariance = C / np.diagonal(C).mean()
    else:
        covariance = _graph_covariance(setting.inputs, K)
    known = np.flatnonzero(setting.codes >= 0)
    targets = np.full((len(known), K), -1.0 / K)
    targets[np.arange(len(known)), setting.codes[known]] += 1.0
    lower = jittered_cholesky(covariance + 1e-6 * np.eye(n)).lower
    f = lower @ rng.standard_normal((n, K))
    if len(known) > 0:  # Matheron's rule
        noise_sd = 0.1
        seen = covariance[np.ix_(known, known)] + noise_sd**2 * np.eye(len(known))
        surprise = targets - f[known] - noise_sd * rng.standard_normal((len(known), K))
        f += covariance[:, known] @ np.linalg.solve(seen, surprise)
    codes = np.argmax(f, axis=1)
    codes[known] = setting.codes[known]
    return codes


def _graph_covariance(X: Array, n_classes: int) -> Array:
    """Return a low-pass covariance on the modes of the rows' graph, (n, n); mean diagonal 1."""
    from atoll.core.graphs import (
        degrees,
        neighbour_graph,
        normalised_laplacian,
        self_tuning_weights,
    )

    spread = X.std(axis=0)
    X = X[:, spread > 0] / spread[spread > 0] if (spread > 0).any() else X
    weights = self_tuning_weights(neighbour_graph(X, min(15, len(X) - 1)))
    # The constant mode tells no row from another: it is lifted from frequency 0 to 1.
    constant = np.sqrt(degrees(weights) / degrees(weights).sum())
    L = normalised_laplacian(weights).toarray() + np.outer(constant, constant)
    frequency, modes = np.linalg.eigh(L)
    frequency = np.maximum(frequency, 0.0)
    scale = max(frequency[min(n_classes, len(X)) - 1], 1e-8)
    total = 1e-3 * np.eye(len(X))
    for cut, amount in ((0.5, 1.0), (2.0, 0.03)):
        gain = 1.0 / (1.0 + (frequency / (cut * scale)) ** 8)
        part = (modes * gain) @ modes.T
        total += amount * part / max(np.diagonal(part).mean(), 1e-12)
    return total / np.diagonal(total).mean()
