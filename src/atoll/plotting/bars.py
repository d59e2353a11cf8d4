"""A bar chart of how many rows each class has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from atoll.core.extras import import_extra
from atoll.plotting.current import current_axes
from atoll.plotting.letters import give_letters
from atoll.plotting.palette import class_colours, plain_names, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def class_counts(
    classes: ArrayLike,
    labelled: ArrayLike,
    predicted: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw bars of the rows labelled with each class and, paler, of those predicted to be of it.

    Parameters
    ----------
    classes : array-like of shape (K,)
        The classes in their order.
    labelled : array-like of int, shape (K,)
        Number of labelled rows of each class.
    predicted : array-like of int, shape (K,), or None, default=None
        Number of unlabelled rows predicted to be of each class; None leaves these bars out.
    ax : matplotlib Axes or None, default=None
        Where to draw; None takes pyplot's current axes if they are empty, or a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = class_counts(["cat", "dog"], [3, 4], [40, 53])
    >>> [int(bar.get_width()) for bar in ax.patches]
    [3, 4, 40, 53]
    """
    names = plain_names(classes)
    series = {"labelled": np.asarray(labelled)}
    if predicted is not None:
        series["unlabelled, by predicted class"] = np.asarray(predicted)
    for counts in series.values():
        if counts.shape != (len(names),):
            raise ValueError(
                f"counts have shape {counts.shape} but there are {len(names)} classes; "
                "give one count per class."
            )
    if ax is None:
        ax = current_axes(6.4, 1.2 + 0.3 * len(names) * len(series))

    colours = class_colours(len(names))
    thickness = 0.8 / len(series)
    places = np.arange(len(names))
    for position, (label, counts) in enumerate(series.items()):
        # The second series has the same colour mixed with white, and hatching to survive printing.
        paler = position == 1
        bars = ax.barh(
            places + (position - (len(series) - 1) / 2) * thickness,
            counts,
            thickness * 0.92,
            color=1 - 0.45 * (1 - colours) if paler else colours,
            edgecolor=colours,
            hatch="///" if paler else None,
            label=label,
        )
        ax.bar_label(bars, [f"{n:,}" for n in counts.tolist()], padding=4, fontsize=9)
    ax.set_yticks(places, names)
    give_letters(ax.get_yticklabels())
    ax.set_ylim(len(names) - 0.4, -0.6)  # the first class at the top
    ax.set_xlabel("rows")
    ax.margins(x=0.12)
    tidy(ax)
    if len(series) > 1:
        ax.legend(
            handles=_grey_keys(list(series)),
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=2,
            frameon=False,
            fontsize=9,
        )
    return ax


def _grey_keys(labels: list[str]) -> list:
    Patch = import_extra("matplotlib.patches").Patch
    solid, hatched = labels
    return [
        Patch(facecolor="#888888", edgecolor="#888888", label=solid),
        Patch(facecolor="#d9d9d9", edgecolor="#888888", hatch="///", label=hatched),
    ]
