"""Maps of a classifier's probabilities over one or two features, or a plane through more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from atoll.core.extras import import_extra
from atoll.core.rows import unit_rows
from atoll.core.selection import some_rows
from atoll.core.value_spans import counted_together
from atoll.plotting.current import current_axes
from atoll.plotting.letters import give_letters
from atoll.plotting.palette import (
    INK,
    UNLABELLED_COLOUR,
    class_colours,
    class_markers,
    ink_on,
    plain_names,
    tidy,
)
from atoll.plotting.rows import check_classifier, feature_names_of, labels_of, last_step_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

_BELOW_MAP = 0.52  # inches from a map to its scale of colours: room for the name of the axis
_LONGEST_LEGEND = 20  # classes named; the others are only counted
_WIDELY_SPACED = 14  # lines of a legend; more are closer, so that all are in the picture
MOST_DOTS = 2000  # unlabelled rows drawn
DIRECTIONS = 10  # of sparse rows, of which the plane is one through
MOST_LEARNT = 20_000  # sparse rows that tell these directions
SHADED, FADED = 0.65, 0.22  # depths of a certain class's colour: the full one is left to markers
_ENTROPY_UNITS = {"nats": 1.0, "bits": 1 / np.log(2)}


class ProbabilityGrid(NamedTuple):
    """Class probabilities on a grid, and where the data rows lie in it.

    axes : one or two arrays of shape (r,), the grid's coordinates
    probabilities : (r, K), or (r, r, K) with the second axis first; None of a plane that nobody
        chose: rows lie off it, and their classes are not those that it would show
    rows : (n, 1) or (n, 2), the data rows in the same coordinates
    axis_labels : one or two names
    subspace : a description of the plane, or '' if the axes are features
    """

    axes: tuple[NDArray[np.float64], ...]
    probabilities: NDArray[np.float64] | None
    rows: NDArray[np.float64]
    axis_labels: tuple[str, ...]
    subspace: str


def probability_grid(
    estimator: Any,
    X: Any,
    *,
    plane: Any = None,
    resolution: int = 120,
    feature_names: ArrayLike | None = None,
) -> ProbabilityGrid:
    """Evaluate a classifier on a grid around its rows, from which both maps can be drawn.

    Parameters
    ----------
    estimator : fitted classifier
        Anything with ``predict_proba`` and ``classes_``. Of a pipeline that takes words or blank
        cells the axes are the numbers that reach its last step.
    X : array-like or DataFrame of shape (n, d)
        The training rows.
    plane : fitted transformer or None, default=None
        Maps rows to two coordinates by ``transform`` and back by ``inverse_transform``. None takes
        the features themselves if d is 1 or 2; otherwise the first two principal components of
        the standardised rows, or of the main directions of sparse ones, and predicts nothing there.
    resolution : int, default=120
        Grid points along each axis.
    feature_names : array-like of str, shape (d,), or None, default=None
        None takes the estimator's names, else the DataFrame's, else x0, x1, ...

    Returns
    -------
    ProbabilityGrid

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> X = X[:, :2]
    >>> grid = probability_grid(GaussianNB().fit(X, y), X, resolution=20)
    >>> grid.probabilities.shape, grid.rows.shape
    ((20, 20, 3), (150, 2))
    """
    from sklearn.utils import check_array

    if resolution < 2:
        raise ValueError(f"resolution is {resolution}; give at least 2 grid points per axis.")
    estimator, X, prepared, _ = last_step_of(estimator, X)
    feature_names = prepared if feature_names is None else feature_names
    if sparse.issparse(X):
        return _sparse_grid(X, resolution)
    check_classifier(estimator)
    values = check_array(X, dtype=np.float64, input_name="X")
    names = feature_names_of(estimator, X, feature_names)
    is_chosen = plane is not None or values.shape[1] <= 2
    if not is_chosen:
        plane = _principal_plane(values)
        shares = np.nan_to_num(plane[-1].explained_variance_ratio_)
        axis_labels: tuple[str, ...] = tuple(
            f"PCA component {number} ({share:.0%} of variance)"
            for number, share in enumerate(shares, start=1)
        )
        subspace = f"the PCA plane of {values.shape[1]} features"
    elif plane is None:
        axis_labels, subspace = tuple(names), ""
    else:
        axis_labels = ("first coordinate of the plane", "second coordinate of the plane")
        subspace = f"a plane through {values.shape[1]} features"

    rows = values if plane is None else np.asarray(plane.transform(values))
    if rows.shape[1] > 2:
        raise ValueError(
            f"plane.transform gives {rows.shape[1]} columns; a map needs a plane of one or two."
        )
    axes = tuple(_padded_axis(column, resolution) for column in rows.T)
    probabilities = None
    if is_chosen:
        points = np.stack([part.ravel() for part in np.meshgrid(*axes)], axis=1)
        found = _predict_in_batches(estimator, points, plane, values.shape[1])
        probabilities = found.reshape(*(resolution,) * rows.shape[1], -1)
    return ProbabilityGrid(axes, probabilities, rows, tuple(axis_labels), subspace)


def _sparse_grid(X: Any, resolution: int) -> ProbabilityGrid:
    """Return where sparse rows lie on the plane in which their main directions vary most.

    Texts share few words: on the plane of two singular vectors of all words most of them lie at
    the middle, and a few that repeat a word far from it. A row's part in the ten main directions
    has unit length here, so that rows are told apart by what they are about, not by how much.
    """
    from sklearn.decomposition import PCA, TruncatedSVD

    n, d = X.shape
    if min(n, d) < 2:
        raise ValueError(f"X has {n} row(s) and {d} column(s); a plane needs at least 2 of each.")
    X = unit_rows(sparse.csr_array(X, dtype=np.float64))
    places = np.random.default_rng(0).permutation(n)[:MOST_LEARNT]
    with np.errstate(invalid="ignore"):  # rows that are all alike have no variance
        svd = TruncatedSVD(min(DIRECTIONS, len(places), d), random_state=0).fit(X[places])
        parts = svd.transform(X)
        parts = unit_rows(parts - parts.mean(axis=0))
        rows = PCA(2, random_state=0).fit_transform(parts)
    axes = tuple(_padded_axis(column, resolution) for column in rows.T)
    labels = ("main direction 1", "main direction 2")
    return ProbabilityGrid(axes, None, rows, labels, f"the plane of {d} sparse features")


def decision_map(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    ax: Axes | None = None,
    plane: Any = None,
    resolution: int = 120,
    feature_names: ArrayLike | None = None,
    unlabelled: Any = "auto",
    grid: ProbabilityGrid | None = None,
    legend: bool = True,
) -> Axes:
    """Draw the most probable class everywhere, shaded by its probability.

    Labelled rows are large outlined markers, unlabelled rows small grey dots, of which two thousand
    are drawn at most. The shade runs from white (all classes equally probable) to the class's
    colour (certain), and a line marks where the most probable class changes. With one feature the
    probabilities are drawn as lines. With more than two the rows lie off the plane that is drawn:
    dots have the colours of their own predicted classes, on white. On a plane that you choose, the
    predictions *on* it are a faded background, and the picture says for how many rows they differ.

    Parameters
    ----------
    estimator : fitted classifier
        Anything with ``predict_proba`` and ``classes_``. Of a pipeline that takes words or blank
        cells the axes are the numbers that reach its last step.
    X : array-like or DataFrame of shape (n, d)
        The training rows.
    y : array-like of shape (n,) or None
        Their labels, with unlabelled rows marked as in ``fit``; None shows every row as unlabelled.
    ax : matplotlib Axes or None, default=None
        Where to draw; None takes pyplot's current axes if they are empty, or a new figure.
    plane : fitted transformer or None, default=None
        Maps rows to two coordinates by ``transform`` and back by ``inverse_transform``. None takes
        the features themselves if d is 1 or 2; otherwise the first two principal components of
        the standardised rows.
    resolution : int, default=120
        Grid points along each axis.
    feature_names : array-like of str, shape (d,), or None, default=None
        None takes the estimator's names, else the DataFrame's, else x0, x1, ...
    unlabelled : object, default='auto'
        Which value of `y` means no label, as in ``fit``.
    grid : ProbabilityGrid or None, default=None
        A grid already evaluated for the same estimator and rows; `plane`, `resolution` and
        `feature_names` are then ignored.
    legend : bool, default=True
        Whether to name the classes beside the map.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.semi_supervised import LabelSpreading
    >>> X = np.array([[0.0, 0.0], [0.2, 0.1], [2.0, 2.0], [2.1, 1.8]])
    >>> y = np.array([0, -1, 1, -1])
    >>> ax = decision_map(LabelSpreading().fit(X, y), X, y, resolution=30)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['0', '1', 'unlabelled', 'boundary']
    """
    # Many parameters because each is a choice left to the caller, by keyword and with a default.
    if grid is None:
        grid = probability_grid(
            estimator, X, plane=plane, resolution=resolution, feature_names=feature_names
        )
    classes = estimator.classes_
    codes = _row_codes(estimator, X, y, unlabelled)
    if ax is None:
        ax = current_axes(6.8, 4.8)
    if len(grid.axes) == 1:
        _probability_lines(ax, grid, codes)
    elif grid.subspace:
        _classes_on_a_plane(ax, grid, codes, _of_some_rows(estimator, X))
    else:
        _shaded_regions(ax, grid)
        _boundaries(ax, grid)
        _mark_rows(ax, grid.rows, codes, len(classes))
        _frame(ax, grid)
    ax.set_title(_title("Predicted classes" if grid.subspace else "Class probabilities", grid))
    if legend:
        # In one dimension the legend names the lines, and there are no boundaries to explain.
        has_boundary = len(grid.axes) == 2 and not grid.subspace
        _legend(ax, classes, codes, boundary=has_boundary, predicted=bool(grid.subspace))
    give_letters(_names_on(ax))
    return ax


def entropy_map(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    ax: Axes | None = None,
    plane: Any = None,
    resolution: int = 120,
    feature_names: ArrayLike | None = None,
    unlabelled: Any = "auto",
    grid: ProbabilityGrid | None = None,
    unit: str = "nats",
    legend: bool = True,
) -> Axes:
    """Draw where the classifier is unsure: the entropy of its class probabilities.

    The scale runs from 0 (certain) to log K (all K classes equally probable). With more than two
    features every row has the colour of its own entropy, on the plane that is drawn.

    Parameters
    ----------
    estimator : fitted classifier
        Anything with ``predict_proba`` and ``classes_``. Of a pipeline that takes words or blank
        cells the axes are the numbers that reach its last step.
    X : array-like or DataFrame of shape (n, d)
        The training rows.
    y : array-like of shape (n,) or None
        Their labels, with unlabelled rows marked as in ``fit``; None shows every row as unlabelled.
    ax : matplotlib Axes or None, default=None
        Where to draw; None takes pyplot's current axes if they are empty, or a new figure.
    plane : fitted transformer or None, default=None
        Maps rows to two coordinates by ``transform`` and back by ``inverse_transform``. None takes
        the features themselves if d is 1 or 2; otherwise the first two principal components of
        the standardised rows.
    resolution : int, default=120
        Grid points along each axis.
    feature_names : array-like of str, shape (d,), or None, default=None
        None takes the estimator's names, else the DataFrame's, else x0, x1, ...
    unlabelled : object, default='auto'
        Which value of `y` means no label, as in ``fit``.
    grid : ProbabilityGrid or None, default=None
        A grid already evaluated for the same estimator and rows; `plane`, `resolution` and
        `feature_names` are then ignored.
    unit : {'nats', 'bits'}, default='nats'
        Unit of the entropy.
    legend : bool, default=True
        Whether to name the classes beside the map.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> entropy_map(GaussianNB().fit(X, y), X, y, unit="bits").get_ylabel()
    'predictive entropy (bits)'
    """
    # Many parameters because each is a choice left to the caller, by keyword and with a default.
    if unit not in _ENTROPY_UNITS:
        raise ValueError(f"unit is {unit!r}; give one of {', '.join(map(repr, _ENTROPY_UNITS))}.")
    if grid is None:
        grid = probability_grid(
            estimator, X, plane=plane, resolution=resolution, feature_names=feature_names
        )
    classes = estimator.classes_
    codes = _row_codes(estimator, X, y, unlabelled)
    if ax is None:
        ax = current_axes(6.8, 4.8)
    largest = float(np.log(len(classes)) * _ENTROPY_UNITS[unit])
    label = f"predictive entropy ({unit})"
    scale: dict[str, Any] = {"cmap": _purples(0.0, 0.72), "vmin": 0, "vmax": largest}
    if grid.subspace:
        some = _of_some_rows(estimator, X)
        values = _entropy(some.probabilities) * _ENTROPY_UNITS[unit]
        scale["cmap"] = _purples(0.3, 1.0)  # a dot is seen on white, however sure the row
        dots = _mark_rows(ax, grid.rows, codes, len(classes), some.rows, c=values, **scale)
        _colour_scale(ax, dots, label)
    else:
        assert grid.probabilities is not None
        entropy = _entropy(grid.probabilities) * _ENTROPY_UNITS[unit]
        if len(grid.axes) == 1:
            (x,) = grid.axes
            ax.plot(x, entropy, color="#54278f", linewidth=2)
            ax.fill_between(x, entropy, color="#54278f", alpha=0.15, linewidth=0)
            ax.axhline(largest, color="#888888", linewidth=0.8, linestyle=":")
            _mark_rows(ax, _on_a_line(grid.rows, -0.06 * largest), codes, len(classes))
            ax.set_ylim(-0.13 * largest, 1.05 * largest)
            ax.set_ylabel(label)
        else:
            _colour_scale(ax, _image(ax, grid, entropy, **scale), label)
            _mark_rows(ax, grid.rows, codes, len(classes))
    _frame(ax, grid)
    ax.set_title(_title("Predictive entropy", grid))
    if legend:
        _legend(ax, classes, codes, boundary=False)
    give_letters(_names_on(ax))
    return ax


def _colour_scale(ax: Axes, colours: Any, label: str) -> None:
    """Draw a scale of colours close below the map, whatever stands below the pictures beside it."""
    ScaledTranslation = import_extra("matplotlib.transforms").ScaledTranslation
    lower = ScaledTranslation(0, -_BELOW_MAP, ax.figure.dpi_scale_trans)
    place = ax.inset_axes((0, -0.03, 1, 0.03), transform=ax.transAxes + lower)
    bar = ax.figure.colorbar(colours, cax=place, label=label, orientation="horizontal")
    bar.outline.set_visible(False)


class _SomeRows(NamedTuple):
    """Rows that are drawn as dots where they are unlabelled, and what is predicted of them.

    rows : (s,) places
    probabilities : (s, K)
    """

    rows: NDArray[np.intp]
    probabilities: NDArray[np.float64]


def _some_places(n: int) -> NDArray[np.intp]:
    """Return places of n rows, or of as many as are drawn, in order."""
    if n <= MOST_DOTS:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, MOST_DOTS, replace=False))


def _of_some_rows(estimator: Any, X: Any) -> _SomeRows:
    rows = _some_places(X.shape[0] if hasattr(X, "shape") else len(X))
    return _SomeRows(rows, np.asarray(estimator.predict_proba(some_rows(X, rows))))


def _classes_on_a_plane(
    ax: Axes, grid: ProbabilityGrid, codes: NDArray[np.int64], some: _SomeRows
) -> None:
    """Draw rows in the colours of their classes; a plane that was chosen is a faded background."""
    n_classes = some.probabilities.shape[1]
    found = some.probabilities.argmax(axis=1)
    if grid.probabilities is not None:
        _shaded_regions(ax, grid, depth=FADED)
    colours = class_colours(n_classes)[found]
    _mark_rows(ax, grid.rows, codes, n_classes, some.rows, color=colours)
    _frame(ax, grid)
    if grid.probabilities is not None:
        differ = np.mean(_classes_at(grid, grid.rows[some.rows]) != found)
        note = f"Rows lie off this plane: {differ:.0%} have another class than the background."
        ax.set_xlabel(f"{ax.get_xlabel()}\n{note}")


def _classes_at(grid: ProbabilityGrid, places: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the most probable class at the nearest point of the grid, (m, 2) -> (m,)."""
    assert grid.probabilities is not None
    column, row = (
        np.rint((part - axis[0]) / (axis[1] - axis[0])).astype(int).clip(0, len(axis) - 1)
        for part, axis in zip(places.T, grid.axes)
    )
    return grid.probabilities[row, column].argmax(axis=-1)


def _principal_plane(values: NDArray[np.float64]) -> Any:
    """Fit the first two principal components of the standardised rows.

    Without standardisation, a column in large units would determine the plane alone.
    """
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(values) < 2:
        raise ValueError(f"X has {len(values)} row; a PCA plane needs at least 2.")
    # Large tables are decomposed by random projections, and the seed keeps the map the same. Rows
    # that are all alike have no variance, so its shares are 0 / 0.
    with np.errstate(invalid="ignore"):
        return make_pipeline(StandardScaler(), PCA(2, random_state=0)).fit(values)


def _padded_axis(column: NDArray[np.float64], resolution: int) -> NDArray[np.float64]:
    low, high = column.min(), column.max()
    padding = 0.08 * (high - low) or 1.0  # rows in one place still get a map
    return np.linspace(low - padding, high + padding, resolution)


def _predict_in_batches(
    estimator: Any, points: NDArray[np.float64], plane: Any, n_features: int
) -> NDArray[np.float64]:
    """Return probabilities (m, K) at points of the plane, mapped back to features in batches."""
    size = max(1, min(4096, 4_000_000 // n_features))
    batches = []
    with counted_together():  # the corners of a map may lie far from all rows
        for start in range(0, len(points), size):
            batch = points[start : start + size]
            rows = batch if plane is None else plane.inverse_transform(batch)
            batches.append(estimator.predict_proba(_as_fitted(estimator, rows)))
    return np.concatenate(batches)


def _as_fitted(estimator: Any, rows: NDArray[np.float64]) -> Any:
    # An estimator fitted with column names expects them at every prediction.
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return rows
    return import_extra("pandas").DataFrame(rows, columns=names)


def _row_codes(estimator: Any, X: Any, y: Any, unlabelled: Any) -> NDArray[np.int64]:
    """Return the column of each row's class, (n,), or -1 for a row without a label."""
    if y is None:
        return np.full(X.shape[0] if hasattr(X, "shape") else len(X), -1)
    labels = labels_of(estimator, X, y, unlabelled)
    return np.where(labels.is_labelled, labels.codes, -1)


def _probability_lines(ax: Axes, grid: ProbabilityGrid, codes: NDArray[np.int64]) -> None:
    (x,) = grid.axes
    assert grid.probabilities is not None
    n_classes = grid.probabilities.shape[-1]
    for k, colour in enumerate(class_colours(n_classes)):
        ax.plot(x, grid.probabilities[:, k], color=colour, linewidth=2)
    _mark_rows(ax, _on_a_line(grid.rows, -0.06), codes, n_classes)
    ax.set_ylim(-0.13, 1.05)
    ax.set_ylabel("probability")
    _frame(ax, grid)


def _on_a_line(rows: NDArray[np.float64], height: float) -> NDArray[np.float64]:
    return np.column_stack([rows[:, 0], np.full(len(rows), height)])


def _shaded_regions(ax: Axes, grid: ProbabilityGrid, depth: float = SHADED) -> None:
    p = grid.probabilities
    assert p is not None
    n_classes = p.shape[-1]
    chance = 1 / n_classes
    certainty = (p.max(axis=-1) - chance) / (1 - chance)
    depths = depth * np.clip(certainty, 0, 1)[..., None]
    colours = class_colours(n_classes)[p.argmax(axis=-1)]
    _image(ax, grid, 1 - depths * (1 - colours))


def _image(ax: Axes, grid: ProbabilityGrid, pixels: NDArray[np.float64], **settings: Any) -> Any:
    (left, right), (bottom, top) = ((axis[0], axis[-1]) for axis in grid.axes)
    # Grid points are the centres of pixels, so half a pixel sticks out on every side.
    dx, dy = ((axis[1] - axis[0]) / 2 for axis in grid.axes)
    return ax.imshow(
        pixels,
        extent=(left - dx, right + dx, bottom - dy, top + dy),
        origin="lower",
        aspect="auto",
        interpolation="bilinear",
        zorder=0,
        **settings,
    )


def _boundaries(ax: Axes, grid: ProbabilityGrid) -> None:
    p = grid.probabilities
    assert p is not None
    second, first = np.moveaxis(np.partition(p, -2, axis=-1)[..., -2:], -1, 0)
    best = p.argmax(axis=-1)
    for k in [0] if p.shape[-1] == 2 else np.unique(best).tolist():
        lead = p[..., k] - np.where(best == k, second, first)
        if lead.min() < 0 < lead.max():  # else the class has no border on the map
            rows, columns = (_reach(np.flatnonzero((lead > 0).any(axis=i))) for i in (1, 0))
            x, y = grid.axes[0][columns], grid.axes[1][rows]
            ax.contour(x, y, lead[rows, columns], levels=[0], colors=INK, linewidths=1.3, zorder=1)


def _reach(places: NDArray[np.intp]) -> slice:
    """Return the smallest slice that has these places and their neighbours."""
    return slice(max(0, int(places[0]) - 1), int(places[-1]) + 2)


def _mark_rows(
    ax: Axes,
    places: NDArray[np.float64],
    codes: NDArray[np.int64],
    n_classes: int,
    some: NDArray[np.intp] | None = None,
    **colours: Any,
) -> Any:
    """Draw labelled rows as markers and others as dots, which are returned.

    some : rows that may be dots; None draws a part of very many
    colours : of these rows, as `scatter` takes them; grey where none are given
    """
    some = _some_places(len(codes)) if some is None else some
    is_free = codes[some] < 0
    free = some[is_free]
    # The more rows, the smaller the dots, so that the colours below stay visible.
    size = float(np.clip(2500 / max(1, len(free)), 4, 14))
    look: dict[str, Any] = {"color": UNLABELLED_COLOUR, "alpha": 0.65, "linewidths": 0}
    if colours:
        look = {k: v[is_free] if k in ("c", "color") else v for k, v in colours.items()}
        size, look = 1.6 * size, {**look, "edgecolors": UNLABELLED_COLOUR, "linewidths": 0.4}
    x, y = places.T
    dots = ax.scatter(x[free], y[free], s=size, zorder=2, **look)
    size_of_labels = float(np.clip(75 * np.sqrt(40 / max(1, (codes >= 0).sum())), 20, 75))
    colours_of, markers = class_colours(n_classes), np.array(class_markers(n_classes))
    labelled = np.flatnonzero(codes >= 0)
    for marker in dict.fromkeys(markers.tolist()):  # and not class by class, of which are many
        rows = labelled[markers[codes[labelled]] == marker]
        ax.scatter(
            x[rows],
            y[rows],
            s=size_of_labels,
            color=colours_of[codes[rows]],
            marker=marker,
            edgecolors=INK,
            linewidths=1.3,
            zorder=3,
        )
    return dots


def _frame(ax: Axes, grid: ProbabilityGrid) -> None:
    ax.set_xlim(grid.axes[0][0], grid.axes[0][-1])
    ax.set_xlabel(_axis_label(grid, 0))
    if len(grid.axes) == 2:
        ax.set_ylim(grid.axes[1][0], grid.axes[1][-1])
        ax.set_ylabel(_axis_label(grid, 1))
    if grid.subspace:
        ax.locator_params(nbins=5)  # numbers on them mean little, and more would touch
    tidy(ax)


def _axis_label(grid: ProbabilityGrid, axis: int) -> str:
    # A plane's labels are written here and may be long; a feature's name comes from the user.
    return grid.axis_labels[axis] if grid.subspace else plain_names(grid.axis_labels)[axis]


def _names_on(ax: Axes) -> list[Text]:
    """Return the texts of a map that hold names of the user's."""
    legend = ax.get_legend()
    names = [] if legend is None else legend.get_texts()
    return [ax.xaxis.label, ax.yaxis.label, *names]


def _title(what: str, grid: ProbabilityGrid) -> str:
    # The title has two lines because one wider than its axes would be cut off.
    return f"{what}\non {grid.subspace}" if grid.subspace else what


def _entropy(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import entr

    return entr(probabilities).sum(axis=-1)


def _purples(first: float, last: float) -> Any:
    """Return a part of matplotlib's purples: from white, 0, to one that hides grey dots, 1."""
    purples = import_extra("matplotlib").colormaps["Purples"](np.linspace(first, last, 64))
    return import_extra("matplotlib.colors").LinearSegmentedColormap.from_list("part", purples)


def _legend(
    ax: Axes, classes: Any, codes: NDArray[np.int64], *, boundary: bool, predicted: bool = False
) -> None:
    """Name the classes to the right of the map, where nothing is drawn."""
    Line2D = import_extra("matplotlib.lines").Line2D
    names = plain_names(classes)
    looks = list(zip(names, class_colours(len(names)), class_markers(len(names))))
    handles = [
        Line2D([], [], color=colour, marker=marker, markeredgecolor=INK, linestyle="", label=name)
        for name, colour, marker in looks[:_LONGEST_LEGEND]
    ]
    if len(looks) > _LONGEST_LEGEND:
        left_out = f"and {len(looks) - _LONGEST_LEGEND} more classes"
        handles.append(Line2D([], [], linestyle="", label=left_out))
    unlabelled = "unlabelled, as predicted" if predicted else "unlabelled"
    if (codes < 0).any():
        handles.append(
            Line2D([], [], color=UNLABELLED_COLOUR, marker=".", linestyle="", label=unlabelled)
        )
    if boundary:
        handles.append(Line2D([], [], color=ink_on(ax), linewidth=1.3, label="boundary"))
    ax.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.2,
        frameon=False,
        fontsize=9,
        labelspacing=0.5 if len(handles) <= _WIDELY_SPACED else 0.15,
    )
