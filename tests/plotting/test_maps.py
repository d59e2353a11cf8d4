import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import sparse
from scipy.special import softmax
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import LabelSpreading

from atoll.diagnostics import entropy
from atoll.plotting import (
    class_colours,
    class_markers,
    decision_map,
    entropy_map,
    probability_grid,
)
from atoll.plotting.palette import new_axes

RESOLUTION = 24


def without_green(colours):
    """Colours as they look to most of those who are colour-blind (Machado et al. 2009)."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    rows = [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]
    seen = np.clip(linear @ np.array(rows).T, 0, 1)
    return np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055)


def blobs(n_classes, n_features, *, n_per_class=15):
    """Rows around separated centres, two labelled rows a class, the rest unlabelled (-1)."""
    rng = np.random.default_rng(n_classes * 100 + n_features)
    centres = 6 * rng.normal(size=(n_classes, n_features)) + 8 * np.arange(n_classes)[:, None]
    truth = np.repeat(np.arange(n_classes), n_per_class)
    X = centres[truth] + rng.normal(size=(len(truth), n_features))
    y = np.where(np.arange(len(truth)) % n_per_class < 2, truth, -1)
    return X, y, truth


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def drawn_rows(ax):
    """Offsets of the unlabelled dots, and of each shape of markers, in the order drawn."""
    dots, *markers = [
        np.asarray(collection.get_offsets())
        for collection in ax.collections
        if type(collection).__name__ == "PathCollection"
    ]
    return dots, markers


@pytest.mark.parametrize("n_features", [1, 2, 13])
@pytest.mark.parametrize("n_classes", [2, 3, 12])
def test_maps_draw_every_row_once_and_name_every_class(n_classes, n_features):
    X, y, truth = blobs(n_classes, n_features)
    model = GaussianNB().fit(X, truth)
    for draw in (decision_map, entropy_map):
        ax = draw(model, X, y, resolution=RESOLUTION, unlabelled=-1)
        dots, markers = drawn_rows(ax)
        assert len(dots) == (y < 0).sum()
        n_of_shape = np.bincount(np.arange(n_classes) % 9)  # never a drawing for each class
        assert [len(places) for places in markers] == (2 * n_of_shape).tolist()
        assert legend_texts(ax)[:n_classes] == [str(k) for k in range(n_classes)]
        assert any(text.startswith("unlabelled") for text in legend_texts(ax))
        ax.figure.savefig(os.devnull, format="png")  # everything drawn can be rendered


def test_one_feature_gives_lines_that_are_the_probabilities():
    X, y, truth = blobs(3, 1)
    model = GaussianNB().fit(X, truth)
    ax = decision_map(model, X, y, resolution=RESOLUTION)
    assert len(ax.lines) == 3
    assert not ax.images
    for k, line in enumerate(ax.lines):
        expected = model.predict_proba(line.get_xdata()[:, None])[:, k]
        np.testing.assert_allclose(line.get_ydata(), expected)
    assert ax.get_xlabel() == "x0"


def test_two_features_are_drawn_as_they_are():
    X, y, truth = blobs(3, 2)
    ax = decision_map(GaussianNB().fit(X, truth), X, y, resolution=RESOLUTION)
    dots, markers = drawn_rows(ax)
    np.testing.assert_allclose(dots, X[y < 0])
    for k, places in enumerate(markers):
        np.testing.assert_allclose(places, X[y == k])
    shapes = [c for c in ax.collections if type(c).__name__ == "PathCollection"][1:]
    for colour, shape in zip(class_colours(3), shapes):
        assert (shape.get_facecolors()[:, :3] == colour).all()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x1")
    assert "PCA" not in ax.get_title()


def test_more_features_say_that_the_map_is_a_pca_plane():
    X, y, truth = blobs(3, 13)
    ax = decision_map(GaussianNB().fit(X, truth), X, y, resolution=RESOLUTION)
    assert ax.get_title() == "Predicted classes\non the PCA plane of 13 features"
    assert "PCA component 1" in ax.get_xlabel()
    assert "PCA component 2" in ax.get_ylabel()


def dots_of(ax):
    return next(c for c in ax.collections if type(c).__name__ == "PathCollection")


def test_rows_off_the_plane_have_the_colours_of_their_own_predictions():
    X, y, truth = blobs(3, 13)
    model = GaussianNB().fit(X, truth)
    ax = decision_map(model, X, y, resolution=RESOLUTION)
    p = model.predict_proba(X[y < 0])
    found = dots_of(ax).get_facecolors()[:, :3]
    np.testing.assert_allclose(found, class_colours(3)[p.argmax(axis=1)])
    unsure = dots_of(entropy_map(model, X, y, resolution=RESOLUTION)).get_array()
    np.testing.assert_allclose(unsure, entropy(p), atol=1e-12)


def test_the_map_of_a_plane_says_how_many_rows_have_another_class():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(100, 2)) * 9, rng.integers(0, 2, 100) - 0.5])

    class Third:
        """Classes by a column that the plane leaves out, where it is zero: half are of class 1."""

        classes_ = np.array([0, 1])

        def predict_proba(self, rows):
            return np.eye(2)[(rows[:, 2] >= 0).astype(int)]

    class FirstTwo:
        def transform(self, rows):
            return rows[:, :2]

        def inverse_transform(self, points):
            return np.column_stack([points, np.zeros(len(points))])

    ax = decision_map(Third(), X, None, plane=FirstTwo(), resolution=RESOLUTION)
    share = np.mean(X[:, 2] > 0)
    assert f"{1 - share:.0%} have another class than the background" in ax.get_xlabel()


def test_of_very_many_rows_two_thousand_are_dots():
    X = np.random.default_rng(0).normal(size=(5000, 2))
    y = np.full(5000, -1)
    y[:4] = [0, 1, 0, 1]
    model = GaussianNB().fit(X[:4], y[:4])
    dots, markers = drawn_rows(decision_map(model, X, y, resolution=RESOLUTION))
    assert 1990 < len(dots) <= 2000
    assert [len(places) for places in markers] == [2, 2]


def test_texts_fill_the_plane_that_they_are_drawn_on():
    """Few share a word, and some repeat one: by two singular vectors the others are a clump."""
    rng = np.random.default_rng(0)
    topics = np.arange(300) % 3
    counts = rng.poisson(0.02, (300, 600)) + rng.poisson(0.15, (300, 600)) * (
        np.arange(600) % 30 == topics[:, None]
    )
    counts[:9, 7] += 30
    X = sparse.csr_array(counts * np.log(300 / (1 + (counts > 0).sum(axis=0))))
    rows = probability_grid(None, X).rows
    low, high = np.quantile(rows, [0.25, 0.75], axis=0)
    assert ((high - low) / np.ptp(rows, axis=0) > 0.25).all()
    centres = np.array([rows[9:][topics[9:] == k].mean(axis=0) for k in range(3)])
    apart = np.linalg.norm(centres[:, None] - centres, axis=2)[np.triu_indices(3, 1)]
    assert (apart > 0.5 * (high - low).mean()).all()


def test_sparse_rows_that_are_alike_are_drawn():
    X = sparse.csr_array(np.ones((5, 4)))
    assert np.isfinite(probability_grid(None, X).rows).all()


def test_sparse_rows_are_drawn_on_a_plane_of_their_own():
    dense = np.abs(blobs(2, 6)[0])
    X, y = sparse.csr_array(dense), blobs(2, 6)[1]
    model = LogisticRegression().fit(X[y >= 0], y[y >= 0])
    for draw in (decision_map, entropy_map):
        ax = draw(model, X, y)
        assert not ax.images
        assert "plane of 6 sparse features" in ax.get_title()
        assert len(drawn_rows(ax)[0]) == (y < 0).sum()


def test_rows_on_a_plane_in_many_dimensions_get_the_models_own_probabilities():
    # Rows of rank two lie on their PCA plane exactly, so nothing is lost by the projection.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 7)) + 3
    model = LogisticRegression().fit(X, X[:, 0] > X[:, 0].mean())
    seen = []

    class Spy:
        classes_ = model.classes_

        def predict_proba(self, rows):
            seen.append(rows)
            return model.predict_proba(rows)

    plane = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    grid = probability_grid(Spy(), X, plane=plane, resolution=RESOLUTION)
    lifted = np.concatenate(seen)
    basis = np.linalg.svd(X - X.mean(axis=0))[2][:2]
    off_plane = (lifted - X.mean(axis=0)) - (lifted - X.mean(axis=0)) @ basis.T @ basis
    np.testing.assert_allclose(off_plane, 0, atol=1e-9)
    np.testing.assert_allclose(
        grid.probabilities.reshape(-1, 2), model.predict_proba(lifted), atol=1e-12
    )


def test_shade_is_white_where_undecided_and_the_classs_colour_where_sure():
    class Steps:
        classes_ = np.array([0, 1])

        def predict_proba(self, rows):
            first = np.where(rows[:, 0] < -1, 1.0, np.where(rows[:, 0] > 1, 0.0, 0.5))
            return np.column_stack([first, 1 - first])

    X = np.array([[-3.0, 0.0], [3.0, 1.0]])
    ax = decision_map(Steps(), X, [0, 1], resolution=RESOLUTION)
    pixels = ax.images[0].get_array()
    middle = pixels[:, RESOLUTION // 2]
    np.testing.assert_allclose(middle, 1.0)
    for column, k in ((0, 0), (-1, 1)):
        colour = class_colours(2)[k]
        # The pixel is the class's colour mixed with white, and far from white.
        mix = (1 - pixels[0, column]) / (1 - colour + 1e-12)
        np.testing.assert_allclose(mix[colour < 1], mix[colour < 1][0])
        assert mix[colour < 1][0] > 0.5


def test_boundary_lies_where_two_classes_are_equally_probable():
    X, y, truth = blobs(2, 2)
    model = LogisticRegression().fit(X, truth)
    ax = decision_map(model, X, y, resolution=200)
    contours = [c for c in ax.collections if type(c).__name__ == "QuadContourSet"]
    assert len(contours) == 1
    vertices = np.concatenate([path.vertices for path in contours[0].get_paths()])
    step = np.ptp(X, axis=0).max() * 1.16 / 199
    slope = np.linalg.norm(model.coef_)
    # Linear interpolation on the grid misplaces the line by less than a step.
    assert np.abs(model.decision_function(vertices)).max() < slope * step


def test_boundaries_of_many_classes_lie_where_the_two_most_probable_are_equal():
    centres = 4 * np.random.default_rng(0).normal(size=(12, 2))

    class Nearest:
        classes_ = np.arange(12)

        def predict_proba(self, rows):
            return softmax(rows @ centres.T - 0.5 * (centres**2).sum(axis=1), axis=1)

    ax = decision_map(Nearest(), centres, np.arange(12), resolution=100)
    contours = [c for c in ax.collections if type(c).__name__ == "QuadContourSet"]
    assert len(contours) == 12
    vertices = np.concatenate([path.vertices for c in contours for path in c.get_paths()])
    distances = np.sort(np.linalg.norm(vertices[:, None] - centres, axis=2), axis=1)
    assert (distances[:, 1] - distances[:, 0]).max() < np.ptp(centres, axis=0).max() / 50


def test_class_that_wins_nowhere_has_no_boundary():
    class Certain:
        classes_ = np.array([0, 1, 2])

        def predict_proba(self, rows):
            return np.tile([0.8, 0.1, 0.1], (len(rows), 1))

    ax = decision_map(Certain(), np.eye(2), [0, 1], resolution=RESOLUTION)
    assert not [c for c in ax.collections if type(c).__name__ == "QuadContourSet"]


@pytest.mark.parametrize(("unit", "factor"), [("nats", 1.0), ("bits", 1 / np.log(2))])
def test_entropy_map_shows_the_entropy_on_a_scale_that_ends_at_log_k(unit, factor):
    X, y, truth = blobs(3, 2)
    model = GaussianNB().fit(X, truth)
    grid = probability_grid(model, X, resolution=RESOLUTION)
    ax = entropy_map(model, X, y, grid=grid, unit=unit)
    p = grid.probabilities
    expected = -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), axis=-1)
    np.testing.assert_allclose(ax.images[0].get_array(), expected * factor, atol=1e-12)
    np.testing.assert_allclose(ax.images[0].get_clim(), (0, np.log(3) * factor))
    scales = [other.get_xlabel() for other in ax.child_axes]
    assert f"predictive entropy ({unit})" in scales


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1, -1, -1]),
        np.array([0.0, 1.0, np.nan, np.nan]),
        [0, 1, None, None],
        pd.array([0, 1, pd.NA, pd.NA], dtype="Int64"),
    ],
    ids=["minus one", "nan", "none", "pandas NA"],
)
def test_every_kind_of_missing_label_gives_the_same_dots(y):
    X = np.array([[0.0, 0.0], [2.0, 2.0], [0.1, 0.2], [1.9, 2.2]])
    model = LabelSpreading().fit(X, [0, 1, -1, -1])
    dots, _ = drawn_rows(decision_map(model, X, y, resolution=RESOLUTION))
    np.testing.assert_allclose(dots, X[2:])


def test_minus_one_is_a_class_where_the_model_has_it_as_one():
    X, _, truth = blobs(2, 2)
    signs = 2 * truth - 1
    ax = decision_map(GaussianNB().fit(X, signs), X, signs, resolution=RESOLUTION)
    dots, markers = drawn_rows(ax)
    assert len(dots) == 0
    assert [len(places) for places in markers] == [15, 15]
    assert legend_texts(ax) == ["-1", "1", "boundary"]


def test_without_labels_every_row_is_a_dot():
    X, _, truth = blobs(2, 2)
    dots, _ = drawn_rows(decision_map(GaussianNB().fit(X, truth), X, None, resolution=RESOLUTION))
    assert len(dots) == len(X)


def test_names_are_drawn_as_written_and_not_as_mathematics():
    X, _, truth = blobs(4, 2)
    names = np.array([r"$\frac{", "_hidden", "x" * 80, "line\nbreak"], dtype=object)
    y = names[truth]
    frame = pd.DataFrame(X, columns=[r"cost in $", "$a_$b$"])
    model = GaussianNB().fit(frame, y.astype(str))
    ax = decision_map(model, frame, y, resolution=RESOLUTION)
    ax.figure.savefig(os.devnull, format="png")
    shown = legend_texts(ax)[:4]
    assert any("hidden" in text for text in shown)
    assert max(map(len, shown)) < 30
    assert not any("\n" in text for text in shown)


def test_axes_whose_names_begin_alike_are_told_apart():
    X, y, truth = blobs(2, 2)
    frame = pd.DataFrame(X, columns=[f"width of the upper part of the {n}" for n in ("leg", "arm")])
    ax = decision_map(GaussianNB().fit(frame, truth), frame, y, resolution=4)
    assert ax.get_xlabel().endswith("leg")
    assert ax.get_ylabel().endswith("arm")


def test_data_frames_lend_their_names_and_models_get_them_back():
    X, y, truth = blobs(3, 2)
    frame = pd.DataFrame(X, columns=["petal", "sepal"])
    model = GaussianNB().fit(frame, truth)  # warns, here an error, when handed bare arrays
    assert decision_map(model, frame, y, resolution=RESOLUTION).get_xlabel() == "petal"
    assert decision_map(model, X, y, resolution=RESOLUTION).get_ylabel() == "sepal"
    bare = GaussianNB().fit(X, truth)
    named = decision_map(bare, X, y, resolution=RESOLUTION, feature_names=["a", "b"])
    assert (named.get_xlabel(), named.get_ylabel()) == ("a", "b")


def test_a_given_axis_is_drawn_on_and_its_neighbour_left_alone():
    X, y, truth = blobs(2, 2)
    left, right = Figure(layout="constrained").subplots(1, 2)
    model = GaussianNB().fit(X, truth)
    assert decision_map(model, X, y, ax=left, resolution=RESOLUTION, legend=False) is left
    assert left.get_legend() is None
    assert not right.has_data()


@pytest.mark.parametrize("n_features", [2, 5])
@pytest.mark.parametrize("n_classes", [12, 20, 40])
def test_legend_stays_clear_of_the_map(n_classes, n_features):
    X, y, truth = blobs(n_classes, n_features)
    model = GaussianNB().fit(X, truth)
    for draw in (decision_map, entropy_map):
        ax = draw(model, X, y, resolution=4, ax=new_axes(5.2, 4.2))  # that of a report
        ax.figure.draw_without_rendering()
        legend = ax.get_legend().get_window_extent()
        assert legend.x0 >= ax.get_window_extent().x1
        assert legend.x1 <= ax.figure.bbox.x1
        assert legend.y0 >= 0


def test_very_many_classes_get_a_legend_that_ends():
    X, y, truth = blobs(40, 2, n_per_class=3)
    ax = decision_map(GaussianNB().fit(X, truth), X, y, resolution=RESOLUTION)
    assert "and 20 more classes" in legend_texts(ax)


def test_a_plane_of_ones_own_can_be_given():
    class FirstAndThird:
        def transform(self, rows):
            return rows[:, [0, 2]]

        def inverse_transform(self, points):
            return np.column_stack([points[:, 0], np.full(len(points), 5.0), points[:, 1]])

    X, y, truth = blobs(2, 3)
    model = GaussianNB().fit(X, truth)
    grid = probability_grid(model, X, plane=FirstAndThird(), resolution=RESOLUTION)
    np.testing.assert_allclose(grid.rows, X[:, [0, 2]])
    corner = [[grid.axes[0][-1], 5.0, grid.axes[1][0]]]
    np.testing.assert_allclose(grid.probabilities[0, -1], model.predict_proba(corner)[0])
    ax = decision_map(model, X, y, plane=FirstAndThird(), resolution=RESOLUTION)
    assert ax.get_title() == "Predicted classes\non a plane through 3 features"
    assert "Rows lie off this plane: " in ax.get_xlabel()


def test_a_plane_that_nobody_chose_has_no_background_and_its_dots_are_seen():
    X, y, truth = blobs(2, 4)
    model = GaussianNB().fit(X, truth)
    for draw in (decision_map, entropy_map):
        ax = draw(model, X, y, resolution=RESOLUTION)
        assert not ax.images
        dots = ax.collections[0]
        dots.update_scalarmappable()
        assert dots.get_facecolors()[:, :3].min(axis=1).max() < 0.85  # white has 1


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_rows_all_in_one_place_still_get_a_map(n_features):
    X = np.ones((4, n_features))

    class Undecided:
        classes_ = np.array(["a", "b"])

        def predict_proba(self, rows):
            return np.full((len(rows), 2), 0.5)

    ax = decision_map(Undecided(), X, ["a", "b", None, None], resolution=RESOLUTION)
    assert np.all(np.isfinite([*ax.get_xlim(), *ax.get_ylim()]))


def test_many_features_are_never_all_in_memory_at_once():
    X = np.random.default_rng(0).normal(size=(10, 5000))
    largest = 0

    class Counting:
        classes_ = np.array([0, 1])

        def predict_proba(self, rows):
            nonlocal largest
            largest = max(largest, rows.size)
            return np.full((len(rows), 2), 0.5)

    plane = PCA(2, random_state=0).fit(X)
    grid = probability_grid(Counting(), X, plane=plane, resolution=40)
    assert grid.probabilities.shape == (40, 40, 2)
    assert largest <= 4_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resolution": 1}, "resolution is 1"),
        ({"feature_names": ["only one"]}, "1 names but X has 2 columns"),
        ({"y": [0, 1]}, "2 labels but X has 30 rows"),
        ({"y": [7] * 30}, "7"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    X, y, truth = blobs(2, 2)
    with pytest.raises(ValueError, match=message):
        decision_map(GaussianNB().fit(X, truth), X, **{"y": y, **arguments})


def test_estimators_without_probabilities_are_refused():
    X, y, _ = blobs(2, 2)
    with pytest.raises(ValueError, match=r"LinearRegression, which has no class probabilities"):
        decision_map(LinearRegression().fit(X, y), X, y)


@pytest.mark.parametrize("kind", ["array", "table", "words", "polars"])
def test_a_pipeline_that_takes_words_or_blank_cells_is_drawn_by_what_reaches_its_end(kind):
    X, y, truth = blobs(2, 2)
    X[3, 0] = np.nan
    if kind != "array":
        X = pd.DataFrame(X, columns=["mass", "length"])
    if kind == "words":
        X["colour"] = ["red", "blue", "blue"] * 10
    if kind == "polars":
        X = pytest.importorskip("polars").from_pandas(X)
    step = SimpleImputer().set_output(transform="default")
    if kind == "words":
        step = make_column_transformer(
            (step, ["mass", "length"]), (OneHotEncoder(drop="first"), ["colour"])
        )
    model = make_pipeline(step, GaussianNB()).fit(X, truth)
    ax = decision_map(model, X, y, resolution=RESOLUTION)
    dots, markers = drawn_rows(ax)
    assert len(dots) + sum(map(len, markers)) == 30
    assert entropy_map(model, X, y, resolution=RESOLUTION).get_title()
    expected = {"array": "x0", "words": "PCA component 1"}.get(kind, "mass")
    assert ax.get_xlabel().startswith(expected)


def test_unknown_entropy_unit_is_named():
    X, y, truth = blobs(2, 2)
    with pytest.raises(ValueError, match=r"unit is 'bans'.*'nats', 'bits'"):
        entropy_map(GaussianNB().fit(X, truth), X, y, unit="bans")


def test_a_plane_of_three_dimensions_is_refused():
    class Same:
        def transform(self, rows):
            return rows

    X, _, truth = blobs(2, 3)
    with pytest.raises(ValueError, match="gives 3 columns"):
        probability_grid(GaussianNB().fit(X, truth), X, plane=Same())


def test_the_kth_class_looks_the_same_whatever_the_number_of_classes():
    for n_classes in (1, 2, 10, 11, 40):
        np.testing.assert_array_equal(class_colours(n_classes), class_colours(60)[:n_classes])
        assert class_markers(n_classes) == class_markers(60)[:n_classes]


def test_sixty_classes_have_sixty_looks():
    looks = {(*colour, marker) for colour, marker in zip(class_colours(60), class_markers(60))}
    assert len(looks) == 60


@pytest.mark.parametrize(("seen_as", "least"), [(lambda c: c, 30), (without_green, 14)])
def test_classes_with_the_same_shape_have_colours_that_differ(seen_as, least):
    """Light blue crosses stood beside light blue crosses, and orange squares beside such."""
    n = 40
    seen = np.array([lightness_and_hues(colour) for colour in seen_as(class_colours(n))])
    shapes = class_markers(n)
    pairs = [(i, j) for i in range(n) for j in range(i) if shapes[i] == shapes[j]]
    assert min(np.linalg.norm(seen[i] - seen[j]) for i, j in pairs) > least


def test_names_that_begin_alike_are_told_apart():
    X, _, truth = blobs(12, 2)
    names = np.array([f"a long name that all classes have, kind {k}" for k in range(12)])
    ax = decision_map(GaussianNB().fit(X, names[truth]), X, None, resolution=RESOLUTION)
    shown = legend_texts(ax)[:12]
    assert len(set(shown)) == 12
    assert all(text.endswith(f"kind {k}") for text, k in zip(shown, sorted(range(12), key=str)))


def test_plotting_loads_matplotlib_only_to_draw_and_pyplot_only_without_axes():
    program = """
import os, sys
import numpy as np
import atoll.plotting as plotting
assert "matplotlib" not in sys.modules
from atoll.plotting.palette import new_axes
plotting.trace_plot(np.zeros((2, 5)), new_axes()).figure.savefig(os.devnull, format="png")
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def lightness_and_hues(colour):
    """Return CIE L*, a*, b* of a colour, in which distances are those that are seen."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(to_xyz @ linear / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_no_two_of_the_first_eight_colours_look_alike():
    seen = np.array([lightness_and_hues(colour) for colour in class_colours(8)])
    apart = np.linalg.norm(seen[:, None] - seen, axis=-1)[np.triu_indices(8, 1)]
    assert apart.min() > 30  # two blues were 26 apart


def test_the_scale_of_colours_is_close_below_its_map():
    """Beside a picture with much below it, such as a legend, there was a wide gap."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = (X[:, 0] > 0).astype(int)
    figure = Figure(layout="constrained", figsize=(8, 4))
    ax, other = figure.subplots(1, 2)
    other.set_xlabel("one\ntwo\nthree\nfour\nfive\nsix")
    entropy_map(GaussianNB().fit(X, y), X, y, ax=ax)
    figure.draw_without_rendering()
    (scale,) = ax.child_axes
    gap = ax.get_window_extent().y0 - scale.get_window_extent().y1
    assert 0.4 < gap / figure.dpi < 0.6
    assert scale.get_window_extent().y1 < ax.xaxis.label.get_window_extent().y0
