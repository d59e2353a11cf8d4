import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from atoll.plotting import (
    autocorrelation_plot,
    class_counts,
    decision_map,
    entropy_map,
    reliability_diagram,
    trace_plot,
)

X = np.array([[0.0, 0.0], [1.0, 0.5], [4.0, 4.0], [5.0, 4.5]])
Y = np.array([0, 0, 1, 1])
MODEL = GaussianNB().fit(X, Y)
DRAWS = np.random.default_rng(0).normal(size=(2, 30))

PICTURES = {
    "decision map": lambda: decision_map(MODEL, X, Y, resolution=5),
    "entropy map": lambda: entropy_map(MODEL, X, Y, resolution=5),
    "reliability": lambda: reliability_diagram([[0.9, 0.1], [0.2, 0.8]], [0, 1]),
    "counts": lambda: class_counts(["a", "b"], [1, 2]),
    "traces": lambda: trace_plot(DRAWS),
    "autocorrelation": lambda: autocorrelation_plot(DRAWS),
}


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_every_picture_is_one_that_pyplot_shows(draw):
    ax = draw()
    assert ax.figure is plt.gcf()
    assert plt.get_fignums() == [ax.figure.number]


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_a_picture_takes_the_place_that_pyplot_was_given(draw):
    figure = plt.figure(figsize=(3, 2))
    assert draw().figure is figure
    _, (left, right) = plt.subplots(1, 2)
    plt.sca(right)
    assert draw() is right
    assert not left.has_data()


def test_no_picture_is_drawn_over_another():
    first, second = PICTURES["decision map"](), PICTURES["counts"]()
    assert first.figure is not second.figure
    assert len(plt.get_fignums()) == 2
