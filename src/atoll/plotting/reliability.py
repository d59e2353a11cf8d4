"""A picture of whether probabilities mean what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atoll.core.binning import bin_predictions
from atoll.plotting.current import current_axes
from atoll.plotting.palette import GRID, class_colours, ink_on, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reliability_diagram(
    probabilities: ArrayLike,
    codes: ArrayLike,
    ax: Axes | None = None,
    *,
    n_bins: int = 10,
) -> Axes:
    """Draw the share of right predictions against the probability claimed for them.

    Rows are binned by the probability of their predicted class; empty bins are left out. A
    calibrated model stays on the diagonal. Vertical lines are 95% Wilson intervals of the share;
    the number of rows in each bin is written at the foot.

    Parameters
    ----------
    probabilities : array-like of shape (n, K)
        Class probabilities of rows that the model had not seen.
    codes : array-like of int, shape (n,)
        Column of each row's true class.
    ax : matplotlib Axes or None, default=None
        Where to draw; None takes pyplot's current axes if they are empty, or a new figure.
    n_bins : int, default=10
        Number of bins of equal width on [0, 1].

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = reliability_diagram([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], [0, 1, 0])
    >>> ax.get_xlabel()
    'probability of the predicted class'
    """
    from scipy.stats import binomtest

    if n_bins < 1:
        raise ValueError(f"n_bins is {n_bins}; give at least 1.")
    p, k = _checked(probabilities, codes)
    binned = bin_predictions(p.max(axis=1), p.argmax(axis=1) == k, n_bins)
    confidences, accuracies, counts = (values[binned[2] > 0] for values in binned)
    if ax is None:
        ax = current_axes(5.2, 4.8)
    right = np.rint(accuracies * counts).astype(int)
    intervals = [
        binomtest(int(r), int(n)).proportion_ci(method="wilson") for r, n in zip(right, counts)
    ]
    low = np.array([interval.low for interval in intervals])
    high = np.array([interval.high for interval in intervals])
    colour, ink = class_colours(1)[0], ink_on(ax)

    ax.plot([0, 1], [0, 1], color=ink, linewidth=1, linestyle="--", label="calibrated")
    ax.vlines(confidences, low, high, color=colour, linewidth=1.5, label="95% interval")
    ax.plot(confidences, accuracies, "o", color=colour, markersize=7, label="held-out rows")
    for confidence, count in zip(confidences, counts):
        ax.text(confidence, -0.075, str(count), ha="center", va="center", fontsize=9, color=ink)
    ax.axhline(-0.03, color=GRID, linewidth=0.8)

    n_classes = np.asarray(probabilities).shape[1]
    # The predicted class has probability at least 1/K, so nothing can lie to the left of that.
    left = max(0.0, min(1 / n_classes, float(confidences.min())) - 0.06)
    ax.set_xlim(left, 1.04)
    ax.set_ylim(-0.12, 1.04)
    ticks = np.linspace(0, 1, 6)
    ax.set_yticks([-0.075, *ticks], ["rows", *(f"{tick:.1f}" for tick in ticks)])
    ax.set_xlabel("probability of the predicted class")
    ax.set_ylabel("share predicted right")
    ax.set_title("Reliability")
    tidy(ax)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3, frameon=False, fontsize=9)
    return ax


def _checked(
    probabilities: ArrayLike, codes: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    p = np.asarray(probabilities, dtype=float)
    k = np.asarray(codes)
    if p.ndim != 2 or p.shape[0] == 0:
        raise ValueError(
            f"probabilities has shape {p.shape}; give (rows, classes), one row or more."
        )
    if k.shape != p.shape[:1]:
        raise ValueError(
            f"codes has shape {k.shape} but probabilities has {len(p)} rows; give one code per row."
        )
    if not np.issubdtype(k.dtype, np.integer) or k.min() < 0 or k.max() >= p.shape[1]:
        raise ValueError(
            f"codes must be integers from 0 to {p.shape[1] - 1}, columns of probabilities."
        )
    if not np.isfinite(p).all() or p.min() < 0 or p.max() > 1 + 1e-9:
        raise ValueError("probabilities must lie in [0, 1]; they hold other numbers.")
    return p, k.astype(np.int64)
