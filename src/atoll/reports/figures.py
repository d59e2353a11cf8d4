"""The report's pictures, encoded as text that an HTML page can hold."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atoll.plotting import trace_plot
from atoll.plotting.palette import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150
_MOST_TRACES = 12  # panels in the figure; further scalars are left out


def png_address(figure: Any) -> str:
    """Return a ``data:`` address that holds the picture itself.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> png_address(Figure(figsize=(1, 1)))[:22]
    'data:image/png;base64,'
    """
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Names in a script that the font lacks are drawn as boxes; the text beside the picture
        # spells them correctly.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def scalar_draws(draws: Mapping[str, Any]) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield every recorded scalar's name and (chain, draw) array, the log-likelihood first.

    Examples
    --------
    >>> import numpy as np
    >>> recorded = {"log_length_scale": np.zeros((4, 9, 2)), "log_likelihood": np.zeros((4, 9))}
    >>> [name for name, _ in scalar_draws(recorded)]
    ['log_likelihood', 'log_length_scale[0]', 'log_length_scale[1]']
    """
    for name in sorted(draws, key=lambda name: name != "log_likelihood"):
        values = np.asarray(draws[name])
        for index in np.ndindex(values.shape[2:]):
            place = f"[{','.join(map(str, index))}]" if index else ""
            yield name + place, values[(slice(None), slice(None), *index)]


def trace_figure(draws: Mapping[str, Any]) -> tuple[Figure | None, list[str], int]:
    """Plot traces of the first dozen scalars; return figure, names and how many were left out."""
    shown = list(islice(scalar_draws(draws), _MOST_TRACES))
    if not shown:
        return None, [], 0
    total = sum(int(np.prod(np.shape(values)[2:])) for values in draws.values())
    n_columns = min(2, len(shown))
    n_rows = -(-len(shown) // n_columns)
    figure = new_figure(4.6 * n_columns, 0.3 + 1.9 * n_rows)
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for panel, (name, values) in zip(panels, shown):
        trace_plot(values, panel, name=name)
    for panel in panels[len(shown) :]:
        panel.set_visible(False)
    return figure, [name for name, _ in shown], total - len(shown)


def ascent_figure(objectives: NDArray[np.float64]) -> Figure:
    """Plot the objective of an iterative fit against the iteration."""
    figure = new_figure(5.4, 2.6)
    axis = figure.subplots()
    axis.plot(np.arange(len(objectives)), objectives, color="#2166ac", linewidth=1.4)
    axis.set(xlabel="iteration", ylabel="objective")
    axis.spines[["top", "right"]].set_visible(False)
    return figure
