from __future__ import annotations

import copy
import re
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from atoll.core import progress
from atoll.datasets import hide_labels, make_crescents
from atoll.estimators import (
    AtollClassifier,
    GraphGPClassifier,
    TransductiveSVC,
    display,
    far_rows,
    load_model,
    make_preprocessor,
)
from atoll.estimators.persistence import save_model

pytestmark = pytest.mark.usefixtures("hurried")  # the classifiers are not on trial

X, TRUTH = make_crescents(60, random_state=0)
NAMES = np.array(["<low>", "upper"])[TRUTH]
Y = hide_labels(NAMES, per_class=4, marker=None, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    return AtollClassifier(random_state=0).fit(X, Y)


def test_names_that_are_blank_or_break_the_line_are_shown_in_quotes():
    y = np.where(Y == "upper", "up\nper", Y)
    model = AtollClassifier(random_state=0, unlabelled=None).fit(X, y)
    told = " ".join(repr(model).split())
    assert r"2 classes: <low> (4), 'up\nper' (4)" in told
    assert all(line.startswith("- ") for line in model.diagnostics_["verdict"].split("\n")[1:])
    assert "up\nper" not in str(model.explain_row(0))


def test_the_text_of_a_fitted_model_has_its_rows_labels_classes_and_verdict(fitted):
    first, *rest = repr(fitted).splitlines()
    assert first == "AtollClassifier(random_state=0)"
    told = " ".join(" ".join(rest).split())
    assert "fitted on 60 rows, 8 of them labelled; 2 classes: <low> (4), upper (4)" in told
    trust, *points = fitted.diagnostics_["verdict"].split("\n")
    assert rest[1].strip() == trust
    assert trust.startswith("No trouble was found: this fit can be trusted")
    assert points
    assert " ".join(points) in told
    assert [line[:4] for line in rest].count("  - ") == len(points)  # each begins a line
    assert rest[-1] == (
        "  Next: plot(n_splits=5) tests the probabilities on labels held out, by 5 more fits."
    )
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
    own = html.partition("sk-top-container")[0]
    assert own.count("<li>") == len(fitted.diagnostics_["verdict"].split("\n")) - 1 > 2
    with config_context(display="text"):
        assert set(fitted._repr_mimebundle_()) == {"text/plain"}
    assert "labelled" not in AtollClassifier()._repr_html_().split("<style")[0]


def test_a_model_that_went_wrong_shows_it_in_red(fitted):
    odd = copy.copy(fitted)
    odd.diagnostics_ = {**fitted.diagnostics_, "mixed": False}
    assert "#b2182b" in display.as_html(odd)
    assert "Next: mend what is named above, and fit again" in display.as_html(odd)
    assert "#b2182b" not in display.as_html(fitted)


def test_plot_shows_map_entropy_and_reliability_on_a_figure_of_pyplot(fitted):
    axes = fitted.plot()
    assert plt.get_fignums() == [plt.gcf().number]
    assert all(ax.figure is plt.gcf() for ax in axes)
    assert [ax.get_title() for ax in axes] == [
        "Class probabilities",
        "Predictive entropy",
        "Reliability of 8 labels held out",
    ]
    assert len(fitted.plot(n_splits=0)) == 2


def test_a_notebook_shows_the_picture_and_no_list_of_axes(fitted, capsys):
    fitted.plot(n_splits=0)._ipython_display_()  # what IPython calls in the place of a repr
    assert capsys.readouterr().out == ""


def test_what_plot_returns_saves_the_picture(fitted, tmp_path):
    fitted.plot().savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_plot_leaves_out_what_too_few_labels_cannot_tell():
    y = hide_labels(NAMES, per_class=1, marker=None, random_state=0)
    assert len(GraphGPClassifier(random_state=0).fit(X, y).plot()) == 2
    assert "No reliability: Class '<low>' has 1 labelled row" in plt.gcf().get_supxlabel()


def test_plot_says_why_there_is_no_reliability_where_refits_would_take_long(fitted, monkeypatch):
    monkeypatch.setattr(display, "MOST_SECONDS", 0.0)
    assert len(fitted.plot()) == 2
    assert re.search(
        r"5 more fits would take about \d+ s; plot\(n_splits=5\)", plt.gcf().get_supxlabel()
    )
    monkeypatch.undo()
    assert display.folds_in_time(1.9) == (5, "")
    n_splits, why = display.folds_in_time(7.0)  # nobody would wait so long in silence
    assert n_splits == 0
    assert "5 more fits would take about 35 s" in why
    assert "about 5 min" in display.folds_in_time(60.0)[1]
    fitted.plot(n_splits=0)
    assert plt.gcf().get_supxlabel() == ""


def test_the_pictures_of_a_plot_are_equally_high(fitted):
    axes = fitted.plot(n_splits=2)
    plt.gcf().canvas.draw()
    heights = [ax.get_position().height for ax in axes]
    assert np.ptp(heights) < 1e-6


@pytest.mark.filterwarnings("ignore:.* labels held out in turn the graph")
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


def test_a_row_is_explained_by_its_name_in_a_table():
    table = pd.DataFrame(X, columns=["u", "v"], index=[f"P{i:02d}" for i in range(60)])
    model = GraphGPClassifier(random_state=0).fit(table, Y)
    assert str(model.explain_row("P11")) == str(model.explain_row(11))
    with pytest.raises(ValueError, match=r"row='P99' is the name of no row.*get_loc"):
        model.explain_row("P99")
    with pytest.raises(ValueError, match="row='P11' is the name of no row"):
        GraphGPClassifier(random_state=0).fit(X, Y).explain_row("P11")


@pytest.mark.filterwarnings("ignore:.* labels held out in turn the graph")
def test_labels_in_another_order_than_the_rows_of_a_table_are_remarked_on():
    table = pd.DataFrame(X, columns=["u", "v"], index=[f"P{i:02d}" for i in range(60)])
    labels = pd.Series(Y, index=table.index)
    with pytest.warns(UserWarning, match=r"another order.*y\.loc\[X\.index\]"):
        GraphGPClassifier(random_state=0).fit(table, labels[::-1])
    with pytest.warns(UserWarning, match="another order"):
        make_preprocessor().fit(table, labels[::-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GraphGPClassifier(random_state=0).fit(table, labels.reset_index(drop=True))


def test_very_many_rows_are_predicted_with_a_bar_and_the_same_numbers(monkeypatch, capsys):
    monkeypatch.setattr(far_rows, "PREDICTED_ROWS", 25)
    model = GraphGPClassifier(random_state=0).fit(X, Y)
    expected = model.predict_proba(X)
    assert "predicting" not in capsys.readouterr().err
    model.verbose = True
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    assert "predicting" in capsys.readouterr().err


def test_what_is_no_array_of_numbers_is_answered_in_words_of_python(fitted, tmp_path):
    with pytest.raises(ValueError, match=r"X is the path 'n\.csv'; read the rows first.*RowChunks"):
        fitted.predict("n.csv")
    with pytest.raises(ValueError, match=r"make_pipeline\(make_preprocessor\(\), AtollClassifier"):
        AtollClassifier().fit([["a", "b"], ["c", "d"]], [0, 1])
    (tmp_path / "t.csv").write_text("x,y\n")
    with pytest.raises(ValueError, match=r"not an atoll model; name.*by atoll\.save_model"):
        load_model(tmp_path / "t.csv")
