import os

import numpy as np
import pytest
from matplotlib import style
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.stats import binomtest

from atoll.diagnostics import reliability_curve
from atoll.plotting import (
    autocorrelation_plot,
    class_colours,
    class_counts,
    letters,
    reliability_diagram,
    trace_plot,
)


def simulated(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), n)
    return p, np.array([rng.choice(n_classes, p=row) for row in p])


def test_the_diagonal_and_the_counts_are_seen_in_a_dark_style():
    for name, seen in (("default", lambda c: c < 0.3), ("dark_background", lambda c: c > 0.7)):
        with style.context(name):
            ax = reliability_diagram(*simulated(60, 3), Figure().add_subplot())
        diagonal = next(line for line in ax.lines if line.get_label() == "calibrated")
        colours = [diagonal.get_color(), *(text.get_color() for text in ax.texts)]
        assert all(seen(np.mean(to_rgb(colour))) for colour in colours)


@pytest.mark.parametrize("n_classes", [2, 3, 12])
def test_reliability_diagram_draws_the_reliability_curve(n_classes):
    p, codes = simulated(60, n_classes)
    ax = reliability_diagram(p, codes)
    curve = reliability_curve(p, codes)
    occupied = curve.counts > 0
    points = next(line for line in ax.lines if line.get_label() == "held-out rows")
    np.testing.assert_allclose(points.get_xdata(), curve.mean_probability[occupied])
    np.testing.assert_allclose(points.get_ydata(), curve.frequency[occupied])
    counts = [int(text.get_text()) for text in ax.texts]
    assert counts == curve.counts[occupied].tolist()


def test_reliability_diagram_shows_wilson_intervals():
    p, codes = simulated(40, 2)
    ax = reliability_diagram(p, codes, n_bins=1)
    (bars,) = ax.collections
    right = int((p.argmax(axis=1) == codes).sum())
    interval = binomtest(right, 40).proportion_ci(method="wilson")
    np.testing.assert_allclose(bars.get_segments()[0][:, 1], [interval.low, interval.high])


def test_certain_predictions_fall_in_the_last_bin():
    ax = reliability_diagram([[1.0, 0.0], [0.0, 1.0]], [0, 0])
    assert [text.get_text() for text in ax.texts] == ["2"]


@pytest.mark.parametrize(
    ("p", "codes", "message"),
    [
        (np.empty((0, 2)), [], "shape \\(0, 2\\)"),
        ([[0.5, 0.5]], [0, 1], "codes has shape \\(2,\\)"),
        ([[0.5, 0.5]], [2], "from 0 to 1"),
        ([[0.5, 0.5]], [0.0], "from 0 to 1"),
        ([[np.nan, 0.5]], [0], r"lie in \[0, 1\]"),
        ([[-0.5, 1.5]], [0], r"lie in \[0, 1\]"),
    ],
)
def test_reliability_diagram_refuses_what_are_no_probabilities(p, codes, message):
    with pytest.raises(ValueError, match=message):
        reliability_diagram(p, codes)


def test_trace_plot_has_one_line_a_chain():
    draws = np.random.default_rng(0).normal(size=(4, 30))
    ax = trace_plot(draws, name="log_likelihood")
    assert len(ax.lines) == 4
    for line, chain, colour in zip(ax.lines, draws, class_colours(4)):
        np.testing.assert_array_equal(line.get_ydata(), chain)
        np.testing.assert_array_equal(line.get_color(), colour)
    assert ax.get_title(loc="left") == "log_likelihood"


@pytest.mark.parametrize("n_draws", [1, 2, 7])
def test_short_chains_can_be_drawn(n_draws):
    draws = np.arange(2.0 * n_draws).reshape(2, n_draws)
    for draw in (trace_plot, autocorrelation_plot):
        draw(draws).figure.savefig(os.devnull, format="png")


def test_autocorrelation_is_that_of_the_definition():
    draws = np.random.default_rng(1).normal(size=(2, 60)).cumsum(axis=1)
    ax = autocorrelation_plot(draws, max_lag=20)
    for line, chain in zip(ax.lines, draws):
        centred = chain - chain.mean()
        expected = [centred[: 60 - lag] @ centred[lag:] for lag in range(21)]
        np.testing.assert_allclose(line.get_ydata(), np.array(expected) / expected[0], atol=1e-12)


def test_a_chain_that_never_moved_is_wholly_correlated():
    ax = autocorrelation_plot(np.full((1, 10), 0.1))
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), 1.0)


@pytest.mark.parametrize("draws", [np.zeros(5), np.zeros((2, 3, 4)), np.zeros((0, 5))])
def test_draws_of_another_shape_are_refused(draws):
    for draw in (trace_plot, autocorrelation_plot):
        with pytest.raises(ValueError, match="give \\(chain, draw\\)"):
            draw(draws)


def test_class_counts_draws_labelled_then_predicted_bars():
    ax = class_counts(["a", "b", "c"], [1, 2, 3], [10, 0, 30])
    assert [bar.get_width() for bar in ax.patches] == [1, 2, 3, 10, 0, 30]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b", "c"]
    assert {text.get_text() for text in ax.texts} == {"1", "2", "3", "10", "0", "30"}


def test_class_counts_without_predictions_needs_no_legend():
    ax = class_counts(np.arange(12.0), np.arange(12))
    assert ax.get_legend() is None
    assert ax.get_yticklabels()[11].get_text() == "11"


def test_class_counts_of_another_length_are_refused():
    with pytest.raises(ValueError, match="3 classes"):
        class_counts(["a", "b", "c"], [1, 2])


def test_charts_draw_on_the_axis_given():
    p, codes = simulated(10, 2)
    for draw in (
        lambda ax: reliability_diagram(p, codes, ax),
        lambda ax: trace_plot(np.zeros((2, 5)), ax),
        lambda ax: autocorrelation_plot(np.zeros((2, 5)), ax),
        lambda ax: class_counts(["a"], [1], ax=ax),
    ):
        axes = Figure().add_subplot()
        assert draw(axes) is axes


def test_names_are_drawn_with_a_font_that_has_their_letters(monkeypatch):
    def families(name):
        (text, _) = class_counts([name, "b"], [1, 2], ax=Figure().add_subplot()).get_yticklabels()
        return text.get_fontfamily()

    own = families("é")  # matplotlib's own font has it
    stix = letters._installed()["STIXGeneral"]
    monkeypatch.setattr(letters, "_installed", lambda: {"Other": "/none.ttf", "STIX": stix})
    assert families("\u2329") == [*own, "STIX"]
    monkeypatch.setattr(letters, "_TOLD", set())
    with pytest.warns(UserWarning, match="No font has the letters 中, 文: pictures have boxes"):
        assert families("中 文 \u2329") == [*own, "STIX"]
    assert families("中") == own  # and that is said once
