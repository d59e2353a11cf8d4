"""Elliptical slice sampling (Murray, Adams & MacKay 2010): a Gaussian prior, any likelihood.

It needs neither a step size nor a gradient. The function to hand over is the log *likelihood*,
without the prior: the ellipse accounts for the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class EllipticalSliceInfo(NamedTuple):
    """What a person wants to know about one step.

    n_evaluations : how often the log-likelihood was evaluated
    """

    n_evaluations: int


def step(
    rng: np.random.Generator,
    position: Array,
    log_likelihood: float,
    log_likelihood_function: Callable[..., float],
    prior_draw: Array,
    prior_mean: Array | float = 0.0,
    width: float = 2.0 * np.pi,
    *,
    takes_least: bool = False,
) -> tuple[Array, float, EllipticalSliceInfo]:
    """Make one transition that leaves N(prior_mean, Σ) × likelihood invariant.

    Parameters
    ----------
    position : the current state, any shape
    log_likelihood : log-likelihood at `position`
    log_likelihood_function : position -> log-likelihood; NaN counts as impossible
    prior_draw : a fresh draw from N(0, Σ), of the shape of `position`
    prior_mean : mean of the prior
    width : width of the first arc of angles, which is placed at random around the current state.
        The default, the whole ellipse, always works; where only small angles are ever accepted, a
        short arc finds one in fewer evaluations. Any width is valid as long as it does not depend
        on the position.
    takes_least : whether the function is also handed the least log-likelihood that would be
        accepted, as its second argument: where it is lower, the function may return −inf

    Returns
    -------
    position, log_likelihood, info

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, logp = np.zeros(2), 0.0
    >>> x, logp, info = step(rng, x, logp, lambda x: 0.0, rng.standard_normal(2))
    >>> info.n_evaluations      # a flat likelihood accepts at once
    1
    """
    centred = position - prior_mean
    threshold = log_likelihood + np.log1p(-rng.random())
    high = width * rng.random()
    low = high - width
    angle = high if width == 2.0 * np.pi else rng.uniform(low, high)
    n_evaluations, least = 0, (threshold,) if takes_least else ()
    while True:
        proposal = prior_mean + centred * np.cos(angle) + prior_draw * np.sin(angle)
        proposed = log_likelihood_function(proposal, *least)
        n_evaluations += 1
        if proposed >= threshold:  # False for NaN
            return proposal, proposed, EllipticalSliceInfo(n_evaluations)
        # Shrink towards the current state, which is at angle zero and always allowed.
        if angle < 0.0:
            low = angle
        else:
            high = angle
        if high - low < 1e-12:
            return position, log_likelihood, EllipticalSliceInfo(n_evaluations)
        angle = rng.uniform(low, high)


def step_log_variance(
    rng: np.random.Generator,
    log_variance: float,
    latent: Array,
    log_likelihood: float,
    log_likelihood_function: Callable[..., float],
    prior_mean: float,
    prior_sd: float,
    *,
    takes_least: bool = False,
) -> tuple[float, Array, float]:
    """Move the log variance of a function whose shape is held fixed.

    latent = exp(½ log variance) × shape. A change of the kernel's variance only rescales a whitened
    function L ν, so that no new Cholesky factor is needed.

    Parameters
    ----------
    log_variance : the current log variance
    latent : values of the function, any shape
    log_likelihood : log-likelihood at `latent`
    log_likelihood_function : values of the function -> log-likelihood
    prior_mean, prior_sd : normal prior of the log variance
    takes_least : as in `step`

    Returns
    -------
    log_variance, latent, log_likelihood
    """

    def rescaled(value: Array) -> Array:
        return np.exp(0.5 * (value[0] - log_variance)) * latent

    value, log_likelihood, _ = step(
        rng,
        np.array([log_variance]),
        log_likelihood,
        lambda value, *least: log_likelihood_function(rescaled(value), *least),
        prior_sd * rng.standard_normal(1),
        prior_mean,
        takes_least=takes_least,
    )
    return float(value[0]), rescaled(value), log_likelihood


class ArcWidth(NamedTuple):
    """Width of the first arc, adapted during warm-up only.

    log_width : log of the width in radians, at most log 2π, the whole ellipse
    n_adapted : number of adaptations so far
    """

    log_width: float
    n_adapted: int


def init_width() -> ArcWidth:
    """Start adapting from the whole ellipse."""
    return ArcWidth(float(np.log(2.0 * np.pi)), 0)


def adapt_width(width: ArcWidth, info: EllipticalSliceInfo, *, target: float = 0.4) -> ArcWidth:
    """Lengthen the arc if the first proposal was accepted, and shorten it otherwise.

    The steps balance where a share `target` of first proposals is accepted.
    """
    at_once = 1.0 if info.n_evaluations == 1 else 0.0
    count = width.n_adapted + 1
    moved = width.log_width + (at_once - target) * max(2.0 / np.sqrt(count), 0.1)
    return ArcWidth(float(np.clip(moved, np.log(1e-4), np.log(2.0 * np.pi))), count)
