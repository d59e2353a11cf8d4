"""A table of numbers is taken alike in Python and in the shell."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from atoll import AtollClassifier, load_model
from atoll.comparison import compare_models
from atoll.datasets import hide_labels
from program import succeed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NAMES = np.array(["a", "b", "c"], dtype=object)
QUICK = {"n_draws": 40, "random_state": 3}


def table_of(name):
    """Numbers, and classes by words of which four each are known."""
    if name == "blobs":  # of unlike spread, but not by a factor of ten
        truth = np.arange(60) % 2
        X = np.random.default_rng(0).normal(size=(60, 2)) + 5.0 * truth[:, None]
        frame = pd.DataFrame(X * [1.0, 3.0], columns=["width", "length"])
    else:
        found = load_wine(as_frame=True)
        frame, truth = found.data[::3], found.target.to_numpy()[::3]
    if name == "wine of three years":  # numbers of few values
        place = np.arange(len(frame))
        frame = frame.assign(year=place % 3 + 2007, is_new=place % 2 == 1)
    return frame, hide_labels(NAMES[truth], per_class=4, marker=None, random_state=0)


def by_command(frame, y, folder, *more):
    """Class probabilities and the model, by `atoll fit` and `atoll predict`."""
    table, model, out = folder / "t.csv", folder / "m.atoll", folder / "p.csv"
    frame.assign(kind=y).to_csv(table, index=False)
    few = ["--set", "n_draws=40", "--seed", 3, "--quiet"]
    succeed("fit", table, "--target", "kind", "--out", model, *few, *more)
    succeed("predict", model, table, "--out", out, "--quiet")
    return pd.read_csv(out).filter(regex="^p_").to_numpy(), load_model(model)


@pytest.mark.parametrize("name", ["blobs", "wine", "wine of three years"])
def test_numbers_have_the_same_probabilities_in_python_and_in_the_shell(tmp_path, name):
    frame, y = table_of(name)
    found, _ = by_command(frame, y, tmp_path)
    model = AtollClassifier(**QUICK).fit(frame, y)
    np.testing.assert_allclose(found, model.predict_proba(frame), atol=1e-9)
    as_array = AtollClassifier(**QUICK).fit(frame.to_numpy(float), y)
    np.testing.assert_allclose(found, as_array.predict_proba(frame.to_numpy(float)), atol=1e-9)


def test_columns_left_as_they_come_are_so_for_the_default_too(tmp_path):
    frame, y = table_of("wine")
    found, bundle = by_command(frame, y, tmp_path, "--no-standardise")
    assert not bundle.estimator.scaled_
    raw = AtollClassifier(scale=False, **QUICK)
    with pytest.warns(UserWarning, match="unlike scales"):
        raw.fit(frame, y)
    np.testing.assert_allclose(found, raw.predict_proba(frame), atol=1e-9)
    _, bundle = by_command(frame, y, tmp_path, "--no-standardise", "--set", "scale=true")
    assert bundle.estimator.scaled_


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("wine", "standardised, since their ranges are unlike"),
        ("blobs", "as they are, since their ranges are alike"),
    ],
)
def test_fit_and_report_say_what_becomes_of_columns(tmp_path, name, how):
    frame, y = table_of(name)
    path, model = tmp_path / "t.csv", tmp_path / "m.atoll"
    frame.assign(kind=y).to_csv(path, index=False)
    said = succeed("fit", path, "--target", "kind", "--out", model, "--set", "n_draws=40")
    assert "Numeric columns, standardised if their ranges are unlike: " in said
    succeed("report", model, "--no-cross-validation", "--quiet")
    assert how in model.with_suffix(".html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:these labels cannot tell")
def test_report_and_comparison_have_the_same_held_out_scores(tmp_path):
    frame, y = table_of("wine")
    table, model, page = (tmp_path / name for name in ("t.csv", "m.atoll", "r.html"))
    frame.assign(kind=y).to_csv(table, index=False)
    succeed("fit", table, "--target", "kind", "--out", model, "--quiet")
    succeed("report", model, "--out", page, "--quiet")
    card = re.search(r"Held-out log-loss</span><strong>([\d.]+)<", page.read_text("utf-8"))
    said = succeed("compare", table, "--target", "kind", "--model", "shares")
    line = next(line.split() for line in said.split("\n") if line.startswith("atoll "))
    assert card is not None
    assert line[1] == card[1]
    assert "and has the same scores" in " ".join(said.split())
    found = compare_models(frame, y, models=["shares"], progress=False)
    assert f"{found.table[0].log_loss:.3f}" == card[1]
