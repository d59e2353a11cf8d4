"""What is known beside labels, from the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from atoll.estimators.persistence import load_model
from program import fail, succeed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FIT = ["--target", "ill", "--model", "graph-gp", "--set", "n_draws=20"]


@pytest.fixture(scope="module")
def table():
    """Two clouds of 40 rows; 12 labelled, of which one is wrong; pairs of rows share a class."""
    rng = np.random.default_rng(0)
    truth = np.repeat(["no", "yes"], 20)
    frame = pd.DataFrame(rng.standard_normal((40, 2)) + 6.0 * (truth == "yes")[:, None])
    frame.columns = ["a", "b"]
    frame["ill"] = None
    rows = np.concatenate([np.arange(0, 12, 2), np.arange(20, 32, 2)])
    frame.loc[rows, "ill"] = truth[rows]
    frame.loc[2, "ill"] = "yes"
    frame["trust"], frame["patient"] = 1.0, np.arange(40) // 2
    return frame


@pytest.fixture
def data(table, tmp_path):
    table.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def test_shares_weights_and_groups_reach_the_model_and_suspects_are_listed(data, tmp_path):
    model, out = tmp_path / "m.atoll", tmp_path / "s.csv"
    told = ["--class-share", "yes=0.5", "--weights", "trust", "--groups", "patient"]
    said = succeed("fit", data, *FIT, *told, "--out", model)
    assert "as they are known: no 50.0%, yes 50.0%" in said
    bundle = load_model(model)
    assert bundle.estimator.class_prior == {"yes": 0.5}
    assert bundle.preprocessing.features == ("a", "b")
    found = pd.Series(bundle.estimator.transduction_).groupby(np.arange(40) // 2)
    assert found.nunique().max() == 1
    said = succeed("suspects", model, "-n", "1", "--out", out)
    first = said.splitlines()[3].split()
    assert first[:2] == ["3", "yes"]
    assert first[3] == "no"
    assert len(pd.read_csv(out)) == 12


def test_what_takes_no_notice_of_weights_and_groups_says_so(data, tmp_path):
    model, page = tmp_path / "m.atoll", tmp_path / "page.html"
    told = ["--weights", "trust", "--groups", "patient"]
    succeed("fit", data, *FIT, *told, "--out", model, "-q")
    said = succeed("next", model, data, "-n", "2")
    assert "takes no notice of the fit's --weights trust and --groups patient" in said
    assert "rows of a group that has a label may be asked for" in said
    said = succeed("predict", model, data, "--out", tmp_path / "p.csv")
    assert "'patient', the fit's --groups, is not used: every row is predicted by itself." in said
    assert "Ignored" not in said
    succeed("report", model, "--out", page, "--no-cross-validation")
    text = page.read_text("utf-8")
    for name in told[1::2]:
        assert f"by {name}; held-out labels are predicted without them" in text
    succeed("fit", data, *FIT, "--drop", "trust", "--drop", "patient", "--out", model, "-q")
    assert "no notice" not in succeed("next", model, data, "-n", "2", "--state", tmp_path / "n")


def test_unsure_rows_are_left_blank_and_the_error_of_others_is_said(data, tmp_path):
    model, out = tmp_path / "m.atoll", tmp_path / "p.csv"
    succeed("fit", data, *FIT, "--drop", "patient", "--drop", "trust", "--out", model, "-q")
    said = succeed("predict", model, data, "--reject-below", "0.9", "--out", out)
    found = pd.read_csv(out)
    unsure = found.filter(regex="^p_").max(axis=1) < 0.9
    assert (found["class"].isna() == unsure).all()
    assert f"{(~unsure).sum()} of 40 rows are kept" in said


@pytest.mark.parametrize(
    ("change", "told", "said"),
    [
        (
            {"trust": -1.0},
            ["--weights", "trust"],
            "column 'trust' is negative in row 1, counted from 1 under the header (-1)",
        ),
        ({"trust": "much"}, ["--weights", "trust"], "holds 'much'; give numbers"),
        ({"patient": 7}, ["--groups", "patient"], "the group 7 has two labels, 'no' in row"),
        (
            {"patient": [7, None] * 20},
            ["--groups", "patient"],
            "the group 7 has two labels, 'no' in row",
        ),
        ({}, ["--groups", "doctor"], "the --groups column 'doctor' is not in '"),
        ({}, ["--class-share", "yes=0.5", "--class-share", "no=0.2"], "share sums to 0.7 and not"),
        ({}, ["--class-share", "maybe=0.5"], "there is no class 'maybe'"),
        ({}, ["--class-share", "yes"], "as CLASS=SHARE"),
        ({}, ["--weights", "trust", "--model", "probit-gp"], "does not apply to the model"),
    ],
)
def test_bad_knowledge_is_one_line_with_the_fix(table, tmp_path, change, told, said):
    path = tmp_path / "table.csv"
    table.assign(**change).to_csv(path, index=False)
    fit = ["--target", "ill", "--out", tmp_path / "m.atoll", "-q"]
    assert said in fail("fit", path, *fit, *told)
    assert not (tmp_path / "m.atoll").exists()


def test_rows_of_an_error_are_those_of_the_file_where_blank_ones_are_left_out(table, tmp_path):
    blank = pd.DataFrame([{"patient": 99, "trust": 1.0}])
    path = tmp_path / "table.csv"
    pd.concat([blank, table.assign(patient=7)]).to_csv(path, index=False)
    fit = ["--target", "ill", "--out", tmp_path / "m.atoll", "-q"]
    said = fail("fit", path, *fit, "--groups", "patient", "--drop", "trust")
    assert "'no' in row 2 and 'yes' in row 4, counted from 1 under the header" in said


def test_a_copy_of_the_labels_among_the_columns_is_remarked_on(table, tmp_path):
    table.assign(**{"my copy": table["ill"]}).to_csv(tmp_path / "copy.csv", index=False)
    said = succeed("fit", tmp_path / "copy.csv", *FIT, "--out", tmp_path / "m.atoll")
    expected = "my copy is the same as the labels in all 12 labelled rows, and is learnt from"
    assert expected in " ".join(said.split())
    assert "--drop 'my copy'" in said
    said = succeed(
        "fit", tmp_path / "copy.csv", *FIT, "--drop", "my copy", "--out", tmp_path / "m.atoll"
    )
    assert "the same as the labels" not in said
