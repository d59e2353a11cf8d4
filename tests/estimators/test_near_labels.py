"""Features of the nearest labels, against counts by hand; and fits that have them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

import atoll
from atoll import AtollClassifier
from atoll.core.labels import parse_labels
from atoll.datasets import make_crescents, make_pinwheel
from atoll.estimators import near_labels
from atoll.estimators.atoll_rows import Judges, Rows, put_labels, scale_rows
from atoll.models.average.average import Weighed
from atoll.models.average.recipe import AVERAGE_RECIPE
from atoll.models.average.views import GraphView

FEW = replace(
    AVERAGE_RECIPE.graph, choice=replace(AVERAGE_RECIPE.graph.choice, most_labels=40)
)  # labels that the posterior takes, so that 200 are very many


def view_of(rows):
    nothing = np.zeros((rows.shape[0], 2))
    return GraphView(np.zeros(2), np.zeros((2, 0)), rows, nothing, 10, None)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_near_a_row_are_counted_without_its_own(monkeypatch, n_classes):
    monkeypatch.setattr(near_labels, "SCALES", (3, 7))
    monkeypatch.setattr(near_labels, "MOST_JUDGES", 0)
    rng = np.random.default_rng(n_classes)
    X, truth = rng.standard_normal((60, 2)), rng.integers(0, n_classes, 60)
    y = np.where(rng.random(60) < 0.6, truth, -1)
    labels = parse_labels(y)
    every = np.flatnonzero(labels.is_labelled)
    kept, labelled = np.union1d(np.arange(30), every[:10]), every[:10]
    scaled = scale_rows(X[kept], False, "euclidean")
    data = put_labels(scaled, X, kept, labels.of(labelled), labelled, "euclidean")
    view, _ = near_labels.with_near_labels(
        view_of(data.rows), X, labels, data, scaled, labelled, "euclidean"
    )
    found = view.values
    expected = []
    for row in kept:
        # A label that the posterior does not take is one like any other, even on the graph.
        others = every[every != row] if row in labelled else every
        order = others[np.argsort(np.linalg.norm(X[others] - X[row], axis=1))]
        logs = [
            np.log(np.bincount(labels.codes[order[:k]], minlength=n_classes) + near_labels.COUNT)
            for k in (3, 7)
        ]
        part = [v[1:] - v[:1] if n_classes == 2 else v - v.mean() for v in logs]
        expected.append(near_labels.UNIT * np.concatenate(part))
    np.testing.assert_allclose(found[:, :-2], expected, atol=1e-12)
    np.testing.assert_array_equal(found[:, -2:], 0.0)


class Half(NamedTuple):
    """Reaches every second row, by the mark of the features, and says one thing of all rows."""

    said: np.ndarray

    def features(self, X):
        return np.column_stack([X, np.arange(len(X)) % 2])

    def reach(self, features):
        return features[:, -1]

    def proba(self, features):
        return np.tile(self.said, (len(features), 1))


def test_assumptions_are_judged_by_labels_that_were_kept_from_all():
    rows, codes = np.zeros((6, 1)), np.array([0, 0, 1, 1, 1, 0])
    labels = parse_labels(np.array([0, 1, 1, 1]))
    judges = Judges(rows, codes)
    data = Rows(rows, np.ones(6), np.arange(4), rows[:0], labels, "euclidean", 1, judges)
    shares = data.smoothed_shares
    parts = [Weighed(name, 0.0, 7.0, np.ones(1)) for name in ("neighbours", "clusters", "nothing")]
    head, bold = Half(np.array([0.3, 0.7])), Half(np.array([0.9, 0.1]))
    problems = SimpleNamespace(head=lambda view, shares: head)
    found = near_labels.judged(parts, {"neighbours": head}, problems, bold, data)
    for one, said in zip(found, (head.said, bold.said, shares)):
        each = [said[c] if i % 2 else shares[c] for i, c in enumerate(codes)]
        assert one.log_evidence == pytest.approx(np.log(each).sum())


def test_labels_that_judge_are_seen_by_nobody(monkeypatch):
    monkeypatch.setattr(near_labels, "SCALES", (1,))
    X = np.arange(40.0)[:, None] * np.ones(2)
    labels = parse_labels(np.arange(40) % 2)
    labelled = np.arange(0, 40, 10)
    scaled = scale_rows(X, False, "euclidean")
    data = put_labels(scaled, X, np.arange(40), labels.of(labelled), labelled, "euclidean")
    view, data = near_labels.with_near_labels(
        view_of(data.rows), X, labels, data, scaled, labelled, "euclidean"
    )
    judges = np.sort(data.judges.rows[:, 0]).astype(int)
    assert len(judges) == 18
    assert not np.isin(judges, labelled).any()
    # Of a row that judges the nearest label is another's, beside it: of the other class, mostly.
    says = view.values[:, 0] > 0
    others = np.setdiff1d(np.arange(40), np.append(judges, labelled))
    np.testing.assert_array_equal(says[others], others % 2 == 1)
    for row in judges:
        distance = np.abs(np.append(others, labelled) - row)
        nearest = np.append(others, labelled)[distance == distance.min()]
        assert says[row] in (nearest % 2 == 1)


@pytest.mark.parametrize("kind", ["dense", "sparse", "cosine", "five classes"])
def test_fits_of_very_many_labels_take_them_all(kind, tmp_path):
    make, K = (make_pinwheel, 5) if kind == "five classes" else (make_crescents, 2)
    X, truth = make(n_samples=300, random_state=0)
    X = np.column_stack([X, 5.0 + X[:, :1]])
    y = np.where(np.random.default_rng(0).random(300) < 0.6, truth, -1)
    X = sparse.csr_array(X) if kind == "sparse" else X
    metric = "cosine" if kind == "cosine" else "euclidean"
    settings = {"n_draws": 40, "metric": metric, "random_state": 0}
    few = AtollClassifier(recipe=replace(AVERAGE_RECIPE, graph=FEW), **settings).fit(X, y)
    plain = AtollClassifier(recipe=AVERAGE_RECIPE, **settings).fit(X, y)
    assert few.diagnostics_["share_of_near_labels"] > 0
    n_more = len(near_labels.SCALES) * (1 if K == 2 else K)
    widths = [model.posterior_.views[0].values.shape[1] for model in (few, plain)]
    assert widths[0] == widths[1] + n_more
    p = few.predict_proba(X[:20])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert few.score(X, truth) > 0.8 or kind == "cosine"
    atoll.save_model(few, tmp_path / "few.atoll")
    again = atoll.load_model(tmp_path / "few.atoll")
    np.testing.assert_array_equal(again.predict_proba(X[:20]), p)


def test_labels_that_count_differently_or_are_shared_are_not_asked():
    codes = np.arange(200) % 2
    plain = parse_labels(codes)
    takes, view = near_labels.takes_near_labels, view_of(np.zeros((3, 2)))
    assert takes(view, plain, FEW.choice)
    assert not takes(view, plain._replace(weights=np.full(200, 0.5)), FEW.choice)
    assert not takes(view, plain._replace(is_spread=codes == 1), FEW.choice)
