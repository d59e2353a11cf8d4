from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from atoll.active import ActiveLearner
from atoll.datasets import hide_labels, make_crescents
from atoll.estimators import (
    AtollClassifier,
    SemiSupervisedKFold,
    cross_val_predict,
    make_preprocessor,
)
from atoll.reports import write_report

pytestmark = pytest.mark.usefixtures("hurried")  # the classifiers are not on trial

pl = pytest.importorskip("polars")

X, TRUTH = make_crescents(60, random_state=0)
NAMES = np.array(["low", "top"])[TRUTH]
Y = hide_labels(NAMES, per_class=4, marker=None, random_state=0)
FRAME = pl.DataFrame({"u": X[:, 0], "v": X[:, 1]})
LABELS = pl.Series("kind", Y.tolist(), dtype=pl.String)


def test_a_polars_table_gives_what_its_arrays_give():
    ours = AtollClassifier(random_state=0).fit(FRAME, LABELS)
    plain = AtollClassifier(random_state=0).fit(X, Y)
    assert ours.feature_names_in_.tolist() == ["u", "v"]
    assert ours.classes_.tolist() == ["low", "top"]
    np.testing.assert_array_equal(ours.predict_proba(FRAME), plain.predict_proba(X))
    assert ours.score(FRAME, pl.Series(NAMES.tolist())) == plain.score(X, NAMES)


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_labels_of_polars_keep_their_nulls(dtype):
    model = AtollClassifier(random_state=0).fit(FRAME, LABELS.cast(dtype))
    assert model.classes_.tolist() == ["low", "top"]
    assert "8 of them labelled" in repr(model)
    codes = pl.Series([None if label is None else int(label == "top") for label in Y])
    of_numbers = AtollClassifier(random_state=0).fit(FRAME, codes)
    assert repr(of_numbers.classes_.tolist()) == "[0, 1]"
    assert of_numbers.predict(FRAME).dtype.kind == "i"


def test_columns_in_another_order_are_answered_with_how_to_take_them():
    model = AtollClassifier(random_state=0).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match=r"in their order: X\.select\(\['u', 'v'\]\)\.$"):
        model.predict(FRAME.select("v", "u"))


def test_everything_else_takes_polars_too(tmp_path):
    folds = SemiSupervisedKFold(2, random_state=0)
    p = cross_val_predict(AtollClassifier(random_state=0), FRAME, LABELS, cv=folds)
    assert len(p) == 60
    mixed = FRAME.with_columns(pl.Series("side", ["l", "r"] * 30))
    table = make_pipeline(make_preprocessor(), AtollClassifier(random_state=0)).fit(mixed, LABELS)
    assert len(table.predict(mixed)) == 60
    learner = ActiveLearner(random_state=0).fit(FRAME, LABELS)
    assert len(learner.query(3).rows) == 3
    model = AtollClassifier(random_state=0).fit(FRAME, LABELS)
    write_report(model, FRAME, LABELS, tmp_path / "polars.html", n_splits=2)


@pytest.mark.parametrize("step", [AtollClassifier, make_preprocessor])
def test_a_lazy_frame_is_to_be_collected_first(step):
    with pytest.raises(ValueError, match=r"X is a lazy frame; pass X\.collect\(\)"):
        step().fit(FRAME.lazy(), LABELS)
