"""The report's pictures, encoded as text that an HTML page can hold."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.plotting import trace_plot
from atoll.plotting.palette import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150
_MOST_TRACES = 12  # panels; further scalars are left out
_TRACE_WIDTH = 4.6  # inches


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


class Traces(NamedTuple):
    """Pictures of traces, side by side where there is room and below one another elsewhere.

    columns : figures, each with the names of its scalars
    n_left_out : scalars that are not drawn
    """

    columns: list[tuple[Figure, list[str]]]
    n_left_out: int


def trace_figures(draws: Mapping[str, Any]) -> Traces:
    """Plot traces of the first dozen scalars, alternately in the left and the right column."""
    shown = list(islice(scalar_draws(draws), _MOST_TRACES))
    total = sum(int(np.prod(np.shape(values)[2:])) for values in draws.values())
    columns = [part for part in (shown[::2], shown[1::2]) if part]
    return Traces([_column_of_traces(part) for part in columns], total - len(shown))


def _column_of_traces(shown: list[tuple[str, NDArray[np.float64]]]) -> tuple[Figure, list[str]]:
    figure = new_figure(_TRACE_WIDTH, 0.3 + 1.9 * len(shown))
    panels = figure.subplots(len(shown), 1, squeeze=False).ravel()
    for panel, (name, values) in zip(panels, shown):
        trace_plot(values, panel, name=name)
    return figure, [name for name, _ in shown]


def ascent_figure(objectives: NDArray[np.float64]) -> Figure:
    """Plot the objective of an iterative fit against the iteration."""
    figure = new_figure(4.8, 2.6)
    axis = figure.subplots()
    axis.plot(np.arange(len(objectives)), objectives, color="#2166ac", linewidth=1.4)
    axis.set(xlabel="iteration", ylabel="objective")
    axis.spines[["top", "right"]].set_visible(False)
    return figure
