"""Predictions of rows far outside those of the fit come with one warning."""

from __future__ import annotations

import warnings

import dask.dataframe as frames
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import atoll
from atoll import AtollClassifier, make_preprocessor
from atoll.estimators import far_rows


@pytest.fixture(scope="module")
def clouds():
    rng = np.random.default_rng(0)
    truth = np.array(["cat", "dog"] * 60)
    X = pd.DataFrame({"x": rng.standard_normal(120) + 4.0 * (truth == "dog")})
    X["z"] = rng.standard_normal(120)
    return X, np.where(np.arange(120) < 20, truth, None)


@pytest.fixture(scope="module")
def model(clouds):
    return AtollClassifier(random_state=0).fit(*clouds)


def remarks_of(call, *arguments, **options):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call(*arguments, **options)
    assert all(one.filename == __file__ for one in told)
    return [str(one.message) for one in told]


@pytest.mark.parametrize("method", ["predict", "predict_proba", "estimate_error"])
def test_other_units_are_warned_of_once_a_call(clouds, model, method):
    X, _ = clouds
    call = getattr(model, method)
    assert remarks_of(call, X) == []
    (said,) = remarks_of(call, X.assign(x=100.0 * X["x"]))
    assert said.startswith("Far outside what the fit saw: x in ")


def test_rows_predicted_in_parts_are_counted_together(clouds, model, monkeypatch):
    monkeypatch.setattr(far_rows, "PREDICTED_ROWS", 50)
    (said,) = remarks_of(model.predict_proba, 100.0 * clouds[0])
    assert "of 120 rows" in said


def test_nothing_is_said_of_rows_on_a_cluster_before_they_are_read(clouds):
    X, y = clouds
    far_from_zero = AtollClassifier(random_state=0).fit(X + 1000.0, y)
    rows = frames.from_pandas(X + 1000.0, npartitions=2)
    assert remarks_of(lambda: far_from_zero.predict(rows).compute()) == []


def test_a_pipeline_warns_once_and_in_the_units_of_the_table(clouds):
    X, y = clouds
    model = make_pipeline(make_preprocessor(), AtollClassifier(random_state=0)).fit(X, y)
    (said,) = remarks_of(model.predict_proba, X.assign(x=100.0 * X["x"]))
    assert f"the fit had {X['x'].min():.4g} to {X['x'].max():.4g}" in said


@pytest.mark.parametrize("form", [pd.DataFrame, np.array, np.ndarray.tolist])
def test_a_huge_number_is_told_as_it_was_given(clouds, form):
    X, y = clouds
    rows = X.to_numpy(dtype=float, copy=True)
    rows[0, 0], rows[1, 1] = 1e200, -3e150
    model = AtollClassifier(random_state=0).fit(X.to_numpy(), y)
    (said,) = remarks_of(model.predict_proba, form(rows))
    assert "(1e+200; the fit had" in said
    assert "(-3e+150; the fit had" in said


def test_directions_have_no_units(clouds):
    X, y = clouds
    model = AtollClassifier(metric="cosine", random_state=0).fit(X, y)
    assert remarks_of(model.predict_proba, 100.0 * X) == []


def test_a_saved_model_warns_as_before(clouds, model, tmp_path):
    atoll.save_model(model, tmp_path / "m.atoll")
    assert len(remarks_of(atoll.load_model(tmp_path / "m.atoll").predict, 100.0 * clouds[0])) == 1


@pytest.mark.parametrize("made_by", ["array", "pipeline"])
def test_markers_of_blanks_are_warned_of_once_in_a_fit(clouds, made_by):
    X, y = clouds
    X = X.assign(x=X["x"].where(np.arange(120) % 10 > 0, -9999.0))
    model = AtollClassifier(random_state=0)
    if made_by == "pipeline":
        model = make_pipeline(make_preprocessor(), model)
    told = [said for said in remarks_of(model.fit, X, y) if "-9999" in said]
    assert len(told) == 1
    assert told[0].startswith("12 cells of x are -9999, far from all others")
    assert told[0] in str(getattr(model, "steps", [("", model)])[-1][1].diagnostics_["verdict"])
