"""Slice sampling of one number (Neal 2003): step out, then shrink; no step size to tune."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MAX_STEPS_OUT = 20  # limits the slice to this many widths


def step(
    rng: np.random.Generator,
    log_density: Callable[[float], float],
    *,
    width: float = 1.0,
    most_widths: int = MAX_STEPS_OUT,
) -> float:
    """Make one transition that leaves exp(log_density) invariant, and return the displacement.

    Parameters
    ----------
    log_density : displacement from the current point -> log density, up to a constant; NaN and
        −inf count as impossible
    width : width of the first interval; any is valid, the typical displacement is best
    most_widths : what the interval may grow to; 1 never looks at its ends, which saves two
        densities where it is wide enough

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, draws = 0.0, []
    >>> for _ in range(2000):
    ...     x += step(rng, lambda c: -0.5 * (x + c) ** 2)
    ...     draws.append(x)
    >>> bool(abs(np.mean(draws)) < 0.2), bool(abs(np.std(draws) - 1) < 0.2)
    (True, True)
    """
    threshold = log_density(0.0) + np.log1p(-rng.random())
    low = -width * rng.random()
    high = low + width
    # Dividing the steps at random between the two ends keeps the move reversible.
    left = int(most_widths * rng.random())
    right = most_widths - 1 - left
    while left > 0 and log_density(low) > threshold:
        low, left = low - width, left - 1
    while right > 0 and log_density(high) > threshold:
        high, right = high + width, right - 1
    while high - low > 1e-14:
        c = float(rng.uniform(low, high))
        if log_density(c) >= threshold:  # False for NaN
            return c
        low, high = (c, high) if c < 0.0 else (low, c)
    return 0.0
