"""The model: its parameters and their prior density (sections 2.1 and 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, digamma, gammaln, xlog1py, xlogy

from atoll.models.gaussian_components import Components, NormalPosterior, NormalPrior, family

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Mixture:
    """The model: what is not learned.

    n_classes C; n_components K, the truncation of each class; covariance, one of "full",
    "diagonal", "tied" and "factor"; n_factors of the last; prior of the components;
    concentration α; class_concentration (C,) γ; inference, "map" or "vb".
    """

    n_classes: int
    n_components: int
    covariance: str
    n_factors: int
    prior: NormalPrior
    concentration: float
    class_concentration: Array
    inference: str = "map"

    @property
    def family(self) -> Any:
        """The family of the components' covariances."""
        return family(self.covariance, self.n_factors)

    @property
    def class_of(self) -> NDArray[np.intp]:
        """(J,) class of each of the J = C K components, class by class."""
        return np.repeat(np.arange(self.n_classes), self.n_components)


class MapState(NamedTuple):
    """Θ: class_weights (C,) ρ, sticks (C, K) v, components."""

    class_weights: Array
    sticks: Array
    components: Components


class VariationalState(NamedTuple):
    """q(Θ): class_counts (C,) of a Dirichlet, sticks (2, C, K) of betas, components' NIW."""

    class_counts: Array
    sticks: Array
    components: NormalPosterior


State = MapState | VariationalState


def default_prior(
    d: int,
    *,
    mean: Any = 0.0,
    mean_precision: float = 0.5,
    degrees: float | None = None,
    covariance_scale: Any = 1.0,
) -> NormalPrior:
    """Return a prior for d features; by default section 2.4: λ = 0.5, μ = 0, n_0 = d, R_0 = I.

    Examples
    --------
    >>> default_prior(2).degrees
    2.0
    """
    R = np.asarray(covariance_scale, dtype=np.float64)
    return NormalPrior(
        np.broadcast_to(np.asarray(mean, dtype=np.float64), (d,)).copy(),
        float(mean_precision),
        float(d if degrees is None else degrees),
        R.copy() if R.ndim == 2 else np.broadcast_to(R, (d,)).copy(),
    )


def log_stick_weights(sticks: Array) -> Array:
    """Return log π of sticks v, eq. 8, (..., K) -> (..., K); −∞ for a component without weight.

    Examples
    --------
    >>> np.exp(log_stick_weights(np.array([[0.5, 0.5, 1.0]])))
    array([[0.5 , 0.25, 0.25]])
    """
    with np.errstate(divide="ignore"):
        left = np.cumsum(np.log1p(-sticks[..., :-1]), axis=-1)
        log_v = np.log(sticks)
    log_v[..., 1:] += left
    return log_v


def log_prior(model: Mixture, state: MapState) -> float:
    """Return log p(Θ), eq. 17: classes, sticks up to the truncation, components, normalised."""
    gamma, alpha = model.class_concentration, model.concentration
    of_classes = gammaln(gamma.sum()) - gammaln(gamma).sum()
    of_classes += xlogy(gamma - 1, state.class_weights).sum()
    v = state.sticks[:, :-1]
    of_sticks = v.size * np.log(alpha) + xlog1py(alpha - 1, -v).sum()
    return float(of_classes + of_sticks) + model.family.log_prior(state.components, model.prior)


def divergence(model: Mixture, state: VariationalState) -> float:
    """Return KL(q ‖ prior) of classes, sticks and components."""
    q, p = state.class_counts, model.class_concentration
    of_classes = gammaln(q.sum()) - gammaln(q).sum() - gammaln(p.sum()) + gammaln(p).sum()
    of_classes += ((q - p) * (digamma(q) - digamma(q.sum()))).sum()
    a, b = state.sticks[:, :, :-1]
    alpha = model.concentration
    both = digamma(a + b)
    of_sticks = betaln(1.0, alpha) - betaln(a, b)
    of_sticks += (a - 1) * (digamma(a) - both) + (b - alpha) * (digamma(b) - both)
    of_components = model.family.divergence(state.components, model.prior)
    return float(of_classes + of_sticks.sum()) + of_components
