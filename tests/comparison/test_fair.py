"""Comparisons are fair, say how long they take, and what a peer that did better means."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from atoll import GraphGPClassifier
from atoll.comparison import OnStandardisedColumns, compare_models, timing
from atoll.comparison.judging import Paired
from atoll.comparison.page import terminal_lines
from atoll.comparison.recommending import Lead, about_peers
from atoll.datasets import hide_labels
from program import succeed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RIVALS = ["graph-gp", "label-spreading"]


@pytest.fixture(scope="module")
def blobs():
    """Classes that differ in the column of small numbers; (n, 2) and labels of some rows."""
    rng = np.random.default_rng(0)
    truth = np.arange(80) % 2
    X = rng.standard_normal((80, 2)) + 5.0 * np.column_stack([truth, np.zeros(80)])
    return X, hide_labels(np.array(["a", "b"], object)[truth], per_class=9, marker=None,
                          random_state=0)  # fmt: skip


def losses(found):
    return {row.model: row.log_loss for row in found.table}


def said_by(found):
    return " ".join("\n".join(terminal_lines(found)).split())


@pytest.fixture(scope="module")
def unlike(blobs):
    X, y = blobs
    return X * [1.0, 1000.0], y


@pytest.fixture(scope="module")
def of_unlike(unlike):
    return compare_models(*unlike, models=RIVALS, n_splits=2, progress=False)


def test_rivals_see_columns_scaled_as_the_default_does(blobs, of_unlike):
    X, y = blobs
    other_units = compare_models(X * [1000.0, 1.0], y, models=RIVALS, n_splits=2, progress=False)
    expected = losses(other_units)
    for name, loss in losses(of_unlike).items():
        assert loss == pytest.approx(expected[name], abs=1e-6)
    assert losses(of_unlike)["label-spreading"] < 0.3
    assert "were standardised for all models alike" in said_by(of_unlike)
    as_they_are = compare_models(X, y, models=["shares"], n_splits=2, progress=False)
    assert "were taken as they are" in said_by(as_they_are)


def test_what_is_recommended_scales_columns_as_it_was_compared(unlike, monkeypatch):
    X, y = unlike
    monkeypatch.setattr("atoll.comparison.blending.ALONE_SHARE", 2.0)
    found = compare_models(X, y, models=RIVALS, n_splits=2, progress=False)
    model = found.classifier().set_params(random_state=0).fit(X, y)
    assert isinstance(model.models[1], OnStandardisedColumns)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    alone = GraphGPClassifier(random_state=0, unlabelled=-1)
    alone.fit(scaled, np.array([{"a": 0, "b": 1}.get(label, -1) for label in y]))
    part = model.models_[1].predict_proba(X)
    np.testing.assert_allclose(part, alone.predict_proba(scaled), atol=1e-6)


def test_classifiers_of_ones_own_take_columns_as_they_are(unlike):
    seen = []

    class Watching(GaussianNB):
        def fit(self, X, y):
            seen.append(float(np.ptp(X, axis=0)[1]))
            return super().fit(X, y)

    found = compare_models(*unlike, models={"mine": Watching()}, n_splits=2, progress=False)
    assert min(seen) > 500
    assert "but for mine, which took them as they are" in said_by(found)


def test_the_shell_compares_as_python_does(unlike, of_unlike, tmp_path):
    X, y = unlike
    path = tmp_path / "t.csv"
    pd.DataFrame(X, columns=["x", "z"]).assign(kind=y).to_csv(path, index=False)
    options = [word for name in RIVALS for word in ("--model", name)]
    page = tmp_path / "c.html"
    said = succeed("compare", path, "--target", "kind", *options, "--n-splits", 2, "--html", page)
    for row in of_unlike.table:
        assert f"{row.log_loss:.3f}" in said
    assert "standardised for all models alike" in page.read_text(encoding="utf-8")


def test_a_model_may_be_left_out(unlike):
    found = compare_models(*unlike, models=RIVALS, without=["graph-gp"], n_splits=2, progress=False)
    assert set(losses(found)) == {"atoll", "label-spreading"}
    assert ("graph-gp", "as asked") in found.left_out


def test_a_long_comparison_says_so_before_its_first_fit(unlike, monkeypatch, capsys):
    def expected(model, X, y, long):
        np.testing.assert_allclose(X.std(axis=0), 1.0)  # as the models are fitted
        return 100.0 if isinstance(model, GraphGPClassifier) else 1.0

    monkeypatch.setattr(timing, "expected_seconds", expected)
    monkeypatch.setattr(timing, "SMALL_GRAPH", 10)  # smaller graphs are not tried
    compare_models(*unlike, models=RIVALS, n_splits=2)
    said = capsys.readouterr().err
    assert "This will take about 3 minutes on a machine with nothing else to do, most of" in said
    assert "it for graph-gp; without=['graph-gp'], or in the shell --without graph-gp" in said
    compare_models(*unlike, models=RIVALS, without="graph-gp", n_splits=2)
    assert "This will take" not in capsys.readouterr().err


def test_a_peer_that_did_better_is_named_with_what_to_make_of_it():
    unsure = Lead("logistic", 0.08, 0.1, Paired(-0.02, -0.05, 0.01, 0.9))
    said = about_peers([unsure], "blend")
    assert "logistic has a lower log-loss than the blend: 0.080 against 0.100." in said
    assert "That may be chance: the 95% interval of its difference holds zero." in said
    sure = Lead("label-spreading", 0.05, 0.1, Paired(-0.05, -0.08, -0.02, 0.99))
    both = about_peers([sure, unsure], "atoll")
    assert "label-spreading has a lower log-loss than atoll: 0.050 against 0.100. That is" in both
    assert "hardly chance: the 95% interval of its difference is below zero. It may well" in both
    assert both.endswith(about_peers([unsure], "atoll"))
    assert about_peers([], "atoll") == ""


def test_the_sentence_of_a_comparison_names_the_peer_that_did_better():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 12))
    truth = (X @ np.array([2.0, -1.5, *[0.0] * 10]) > 0).astype(int)
    y = hide_labels(truth, per_class=20, random_state=0)
    found = compare_models(X, y, models=["logistic"], n_splits=2, progress=False)
    assert losses(found)["logistic"] < losses(found)["atoll"]
    assert "logistic" in found.recommendation
    assert "log-loss than atoll" in found.recommendation or found.best == "logistic"
