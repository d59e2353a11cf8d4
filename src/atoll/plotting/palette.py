"""Colours, markers and names of classes, the same in every picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atoll.core.extras import import_extra
from atoll.core.labels import as_objects
from atoll.core.shown import told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Four of Okabe and Ito's colours (none of their black and grey, since grey means unlabelled), then
# theirs and Tol's in turn, so that no two of the first eight look alike, also to most of those who
# are colour-blind: two blues among five classes were hard to tell apart.
_COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#332288",
    "#D55E00",
    "#88CCEE",
    "#882255",
    "#F0E442",
    "#999933",
)
# Shape repeats what colour says. Classes with the same shape are 9, 18, 27, … apart, and so have
# colours that differ, also to most of those who are colour-blind; 90 pairs are distinct.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

UNLABELLED_COLOUR = "#4d4d4d"
INK = "#222222"
GRID = "#d9d9d9"

_LONGEST_NAME = 24  # characters of a name that are drawn


def class_colours(n_classes: int) -> NDArray[np.float64]:
    """Return the colours of the classes in sorted order, (n_classes, 3), with entries in [0, 1].

    The first ten are fixed and safe for colour-blind readers; then come lighter and darker ones of
    the same hues. The k-th class has the same colour whatever the number of classes.

    Examples
    --------
    >>> class_colours(2).round(2).tolist()
    [[0.0, 0.45, 0.7], [0.9, 0.62, 0.0]]
    >>> class_colours(12).shape
    (12, 3)
    """
    to_rgb = import_extra("matplotlib.colors").to_rgb
    fixed = np.array([to_rgb(colour) for colour in _COLOURS])
    every = np.concatenate([fixed, 1 - 0.5 * (1 - fixed), 0.55 * fixed])
    return every[np.arange(n_classes) % len(every)]


def class_markers(n_classes: int) -> list[str]:
    """Return the marker shapes of the classes in sorted order.

    Examples
    --------
    >>> class_markers(3)
    ['o', 's', '^']
    """
    return [_MARKERS[k % len(_MARKERS)] for k in range(n_classes)]


def class_names(classes: ArrayLike) -> list[str]:
    """Return the names of the classes as a reader would write them: 3.0 is '3', others ``str``.

    Examples
    --------
    >>> import numpy as np
    >>> class_names(np.array([0.0, 1.0])), class_names(np.array(["no", "yes"]))
    (['0', '1'], ['no', 'yes'])
    """
    return [_name(label) for label in as_objects(np.asarray(classes)).tolist()]


def _name(label: object) -> str:
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def plain_text(text: object) -> str:
    r"""Return text that matplotlib draws as it stands: no mathematics, one line, not too long.

    Examples
    --------
    >>> plain_text("price in $")
    'price in \\$'
    """
    name = " ".join(str(text).split())
    if len(name) > _LONGEST_NAME:
        name = name[: _LONGEST_NAME - 1] + "…"
    if name.startswith("_"):  # matplotlib leaves such names out of a legend
        name = " " + name
    # Without an unescaped dollar nothing is read as mathematics. A backslash before a dollar goes
    # first, since it would escape the backslash added here.
    return name.replace("\\$", "$").replace("$", "\\$")


def plain_names(classes: ArrayLike) -> list[str]:
    """Return the names of the classes as matplotlib draws them, cut so that all can be told apart.

    Examples
    --------
    >>> plain_names(["a class with a long name, kind 1", "a class with a long name, kind 2"])
    ['a class …ng name, kind 1', 'a class …ng name, kind 2']
    """
    return [plain_text(name) for name in told_apart(class_names(classes), _LONGEST_NAME)]


def new_axes(width: float = 6.4, height: float = 4.8) -> Axes:
    """Return axes of a new figure unknown to pyplot, with room made for a legend beside them."""
    return new_figure(width, height).add_subplot()


def new_figure(width: float, height: float, **padding: float) -> Figure:
    """Figure of this size in inches, laid out so that nothing overlaps, that pyplot does not keep.

    `padding` goes to matplotlib's constrained layout, such as ``h_pad=0.07``.
    """
    figure = import_extra("matplotlib.figure").Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", **padding)
    return figure


def ink_on(ax: Axes) -> Any:
    """Return a dark colour or, where the style writes the axes' names in a light one, that."""
    written = ax.xaxis.label.get_color()
    is_light = np.mean(import_extra("matplotlib.colors").to_rgb(written)) > 0.5
    return written if is_light else INK


def tidy(ax: Axes, *, keep: Iterable[str] = ("left", "bottom")) -> None:
    """Leave only the spines that carry a scale."""
    kept = set(keep)
    for side, spine in ax.spines.items():
        spine.set_visible(side in kept)
        spine.set_color("#888888")
    ax.tick_params(color="#888888")
