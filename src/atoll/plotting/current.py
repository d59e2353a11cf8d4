"""Where a picture is drawn when the caller does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.core.extras import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def current_axes(width: float = 6.4, height: float = 4.8) -> Axes:
    """Return pyplot's current axes if they are empty, otherwise those of a new figure of pyplot's.

    So a picture appears in a notebook, and by `plt.show()`; `plt.figure(…)` or `plt.subplot(…)`
    before it says where; and no picture is drawn over another.

    Parameters
    ----------
    width, height : float
        Of a new figure, in inches.
    """
    plt = import_extra("matplotlib.pyplot")
    if plt.get_fignums():
        figure = plt.gcf()
        if not figure.axes:
            figure.set_layout_engine("constrained")
            return figure.add_subplot()
        if not plt.gca().has_data():
            return plt.gca()
    return plt.figure(figsize=(width, height), layout="constrained").add_subplot()
