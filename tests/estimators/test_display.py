from __future__ import annotations

import copy

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from atoll.datasets import hide_labels, make_crescents
from atoll.estimators import (
    AtollClassifier,
    GraphGPClassifier,
    TransductiveSVC,
    display,
    load_model,
)
from atoll.estimators.persistence import save_model

X, TRUTH = make_crescents(60, random_state=0)
NAMES = np.array(["<low>", "upper"])[TRUTH]
Y = hide_labels(NAMES, per_class=4, marker=None, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    return AtollClassifier(random_state=0).fit(X, Y)


def test_the_text_of_a_fitted_model_has_its_rows_labels_classes_and_verdict(fitted):
    first, *rest = repr(fitted).splitlines()
    assert first == "AtollClassifier(random_state=0)"
    told = " ".join(" ".join(rest).split())
    assert "fitted on 60 rows, 8 of them labelled; 2 classes: <low> (4), upper (4)" in told
    assert fitted.diagnostics_["verdict"] in told
    assert max(map(len, rest)) <= display.WIDTH
    assert repr(AtollClassifier(random_state=0)) == first
    assert "\n" not in repr(make_pipeline(StandardScaler(), fitted)).split("AtollClassifier")[1]


def test_a_notebook_shows_the_verdict_beside_the_box_of_scikit_learn(fitted):
    shown = fitted._repr_mimebundle_()
    assert shown["text/plain"] == repr(fitted)
    html = shown["text/html"]
    assert "60 rows, 8 of them labelled" in html
    assert "&lt;low&gt; (4)" in html
    assert "sk-top-container" in html
    with config_context(display="text"):
        assert set(fitted._repr_mimebundle_()) == {"text/plain"}
    assert "labelled" not in AtollClassifier()._repr_html_().split("<style")[0]


def test_a_model_that_went_wrong_shows_it_in_red(fitted):
    odd = copy.copy(fitted)
    odd.diagnostics_ = {**fitted.diagnostics_, "mixed": False}
    assert "#b2182b" in display.as_html(odd)
    assert "#b2182b" not in display.as_html(fitted)


def test_plot_shows_map_entropy_and_reliability_on_a_figure_of_pyplot(fitted):
    axes = fitted.plot()
    assert plt.get_fignums() == [plt.gcf().number]
    assert all(ax.get_figure(root=True) is plt.gcf() for ax in axes)
    assert [ax.get_title() for ax in axes] == [
        "Class probabilities",
        "Predictive entropy",
        "Reliability of 8 labels held out",
    ]
    assert len(fitted.plot(n_splits=0)) == 2


def test_plot_leaves_out_what_too_few_labels_cannot_tell():
    y = hide_labels(NAMES, per_class=1, marker=None, random_state=0)
    assert len(GraphGPClassifier(random_state=0).fit(X, y).plot()) == 2
    assert "No reliability: Class '<low>' has 1 labelled row" in plt.gcf().get_supxlabel()


def test_plot_says_why_there_is_no_reliability_where_refits_would_take_long(fitted, monkeypatch):
    monkeypatch.setattr(display, "MOST_SECONDS", 0.0)
    assert len(fitted.plot()) == 2
    assert "5 more fits would take about 0 min; plot(n_splits=5)" in plt.gcf().get_supxlabel()
    fitted.plot(n_splits=0)
    assert plt.gcf().get_supxlabel() == ""


def test_the_pictures_of_a_plot_are_equally_high(fitted):
    axes = fitted.plot(n_splits=2)
    plt.gcf().canvas.draw()
    heights = [ax.get_position().height for ax in axes]
    assert np.ptp(heights) < 1e-6


def test_a_model_of_sparse_rows_is_plotted():
    thin = sparse.csr_array(np.abs(np.column_stack([X, X[:, ::-1], X**2])))
    assert len(GraphGPClassifier(random_state=0).fit(thin, Y).plot(n_splits=0)) == 2


def test_rows_kept_for_the_plot_are_in_no_copy_and_no_file(fitted, tmp_path):
    save_model(fitted, tmp_path / "m.atoll")
    loaded = load_model(tmp_path / "m.atoll")
    assert repr(loaded) == repr(fitted)
    with pytest.raises(ValueError, match=r"loaded or copied.*Give them: plot\(X, y\)"):
        loaded.plot()
    assert len(loaded.plot(X, Y)) == 2  # how long a refit takes is not known
    assert len(loaded.plot(X, Y, n_splits=2)) == 3


def test_rows_of_many_megabytes_are_not_kept(monkeypatch):
    monkeypatch.setattr(display, "MOST_BYTES", 100)
    model = TransductiveSVC().fit(X, Y)
    with pytest.raises(ValueError, match="too many to keep"):
        model.plot()
