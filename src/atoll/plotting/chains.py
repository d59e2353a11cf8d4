"""Pictures of what the chains did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atoll.plotting.current import current_axes
from atoll.plotting.palette import GRID, class_colours, plain_text, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def trace_plot(draws: ArrayLike, ax: Axes | None = None, *, name: str = "value") -> Axes:
    """Plot every chain's draws in order, one line per chain.

    Chains that mixed look like one band of noise; chains that lie apart or drift did not mix.

    Parameters
    ----------
    draws : array-like of shape (chain, draw)
        One recorded scalar.
    ax : matplotlib Axes or None, default=None
        Where to draw; None takes pyplot's current axes if they are empty, or a new figure.
    name : str, default='value'
        What was recorded.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> ax = trace_plot(np.random.default_rng(0).normal(size=(4, 50)), name="log_likelihood")
    >>> len(ax.lines), ax.get_title(loc="left")
    (4, 'log_likelihood')
    """
    values = _checked(draws)
    if ax is None:
        ax = current_axes(6.4, 2.4)
    for chain, colour in zip(values, class_colours(len(values))):
        ax.plot(chain, color=colour, linewidth=0.8, alpha=0.8)
    ax.set_xlim(0, max(1, values.shape[1] - 1))
    ax.set_xlabel("draw")
    ax.set_title(plain_text(name), loc="left", fontsize=10)
    ax.grid(axis="y", color=GRID, linewidth=0.5)
    ax.set_axisbelow(True)
    tidy(ax)
    return ax


def autocorrelation_plot(
    draws: ArrayLike, ax: Axes | None = None, *, name: str = "value", max_lag: int = 50
) -> Axes:
    """Plot each chain's correlation with itself some draws later; the band is that of pure noise.

    Parameters
    ----------
    draws : array-like of shape (chain, draw)
        One recorded scalar.
    ax : matplotlib Axes or None, default=None
        Where to draw; None takes pyplot's current axes if they are empty, or a new figure.
    name : str, default='value'
        What was recorded.
    max_lag : int, default=50
        Longest lag shown; limited by the chain's length.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> ax = autocorrelation_plot(np.random.default_rng(0).normal(size=(2, 80)), max_lag=20)
    >>> [len(line.get_xdata()) for line in ax.lines[:2]]
    [21, 21]
    """
    values = _checked(draws)
    if max_lag < 1:
        raise ValueError(f"max_lag is {max_lag}; give at least 1.")
    if ax is None:
        ax = current_axes(6.4, 2.4)
    n_lags = min(max_lag, values.shape[1] - 1) + 1
    for chain, colour in zip(values, class_colours(len(values))):
        ax.plot(_autocorrelation(chain)[:n_lags], color=colour, linewidth=1)
    noise = 2 / np.sqrt(values.shape[1])
    ax.axhspan(-noise, noise, color=GRID, alpha=0.6, linewidth=0)
    ax.axhline(0, color="#888888", linewidth=0.8)
    ax.set_xlim(0, max(1, n_lags - 1))
    ax.set_ylim(min(-0.25, -1.2 * noise), 1.05)
    ax.set_xlabel("lag")
    ax.set_ylabel("autocorrelation")
    ax.set_title(plain_text(name), loc="left", fontsize=10)
    tidy(ax)
    return ax


def _autocorrelation(chain: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = chain - chain.mean()
    n = len(chain)
    # Zero-padded to twice the length, so that the circular correlation does not wrap.
    spectrum = np.abs(np.fft.rfft(centred, 2 * n)) ** 2
    covariance = np.fft.irfft(spectrum)[:n]
    if not np.any(centred):  # a chain that never moved repeats itself at every lag
        return np.ones(n)
    return covariance / covariance[0]


def _checked(draws: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(draws, dtype=float)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"draws has shape {values.shape}; give (chain, draw), with at least one of each."
        )
    return values
