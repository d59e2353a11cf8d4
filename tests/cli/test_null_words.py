"""Classes that are called NA, None or the like, which other files write for a blank cell."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from atoll import load_model
from atoll.core.null_words import NULL_WORDS
from program import fail, succeed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def written(folder, first="cat", second="None", *, n_known=10, name="table.csv"):
    """Write two clouds of 40 rows, of which some have labels; return the file and the classes."""
    rng = np.random.default_rng(0)
    truth = np.array([first, second] * 20, dtype=object)
    frame = pd.DataFrame({"x": rng.standard_normal(40) + 4.0 * (truth == second)})
    frame["z"] = rng.standard_normal(40)
    frame["kind"] = np.where(np.arange(40) < n_known, truth, "")
    frame.to_csv(folder / name, index=False)
    return folder / name


def fit(data, *more, model="m.atoll"):
    quick = ["--model", "graph-gp", "--set", "n_draws=40"]
    return ["fit", data, "--target", "kind", "--out", data.parent / model, *quick, *more]


def add_third_class(data):
    """Give some unlabelled rows a third class, so that a fit without the word has two."""
    frame = pd.read_csv(data, keep_default_na=False)
    frame.loc[10:13, "kind"] = "bird"
    frame.to_csv(data, index=False)
    return data


def test_the_words_are_those_that_pandas_takes_for_blank_cells():
    from pandas._libs.parsers import STR_NA_VALUES

    assert STR_NA_VALUES - {""} == NULL_WORDS


@pytest.mark.parametrize("word", ["None", "NA", "nan", "null"])
def test_a_word_that_is_read_as_blank_is_said_with_its_fix(tmp_path, word):
    said = succeed(*fit(add_third_class(written(tmp_path, second=word))))
    assert f"5 cells of 'kind' say '{word}' and are read as blank" in said
    assert "if that is a class, give --unlabelled none, or rename it" in said
    assert load_model(tmp_path / "m.atoll").estimator.classes_.tolist() == ["bird", "cat"]


@pytest.mark.filterwarnings("ignore:these labels cannot tell")
def test_unlabelled_none_keeps_the_word_as_a_class_in_every_command(tmp_path):
    data = add_third_class(written(tmp_path))
    said = succeed(*fit(data, "--unlabelled", "none"))
    assert "Classes: None (5), bird (4), cat (5)." in said
    assert "read as blank" not in said
    scored = succeed("score", tmp_path / "m.atoll", written(tmp_path, n_known=40, name="all.csv"))
    assert "of 26 new rows" in scored
    assert "read as blank" not in scored
    listed = succeed("next", tmp_path / "m.atoll", data, "-n", "3")
    assert "read as blank" not in listed
    compared = ["compare", data, "--target", "kind", "--model", "shares", "--n-splits", "2"]
    assert "5 cells of 'kind' say 'None'" in succeed(*compared)
    assert "read as blank" not in succeed(*compared, "--unlabelled", "none")


def test_answers_may_be_such_a_class(tmp_path):
    data = written(tmp_path)
    succeed(*fit(data, "--unlabelled", "none"))
    answers = tmp_path / "answers.csv"
    answers.write_text("row,kind\n12,None\n14,None\n15,\n")
    said = succeed("next", tmp_path / "m.atoll", data, "--answers", answers, "-n", "2")
    assert "2 answers taken" in said


def test_a_class_that_was_declared_is_kept(tmp_path):
    data = written(tmp_path, second="NA")
    said = succeed(*fit(data, "--set", "classes=cat,NA"))
    assert "read as blank" not in said
    assert set(load_model(tmp_path / "m.atoll").estimator.classes_) == {"cat", "NA"}


def test_the_word_that_is_named_as_unlabelled_is_no_news(tmp_path):
    data = add_third_class(written(tmp_path, second="NA"))
    said = succeed(*fit(data, "--unlabelled", "NA"))
    assert "read as blank" not in said
    assert "No cell of" not in said


def test_among_numbers_the_word_is_blank_and_that_is_said(tmp_path):
    data = written(tmp_path, first=1, second=2)
    frame = pd.read_csv(data, dtype=str, keep_default_na=False)
    frame.loc[10:12, "kind"] = "NA"
    frame.to_csv(data, index=False)
    for options in ([], ["--unlabelled", "none"], ["--unlabelled", "NA"]):
        said = succeed(*fit(data, *options))
        assert "Classes: 1 (5), 2 (5)." in said
        assert ("3 cells of 'kind' say 'NA'" in said) == (options[1:] != ["NA"])


def test_a_score_says_which_words_it_reads_as_blank(tmp_path):
    data = add_third_class(written(tmp_path))
    succeed(*fit(data))
    said = succeed("score", tmp_path / "m.atoll", written(tmp_path, n_known=40, name="all.csv"))
    assert "20 cells of 'kind' say 'None' and are read as blank" in said
    assert "fit with --unlabelled none" in said


@pytest.mark.parametrize(("first", "second"), [("007", "7"), ("1.10", "1.1"), ("01", "2")])
def test_codes_that_numbers_would_merge_are_classes_as_they_are_written(tmp_path, first, second):
    data = written(tmp_path, first, second)
    assert f"{first} (5)" in succeed(*fit(data))
    bundle = load_model(tmp_path / "m.atoll")
    assert set(bundle.estimator.classes_.tolist()) == {first, second}
    out = tmp_path / "labelled.csv"
    succeed("label", data, "--target", "kind", "--export", out)
    before, after = (pd.read_csv(file, dtype=str) for file in (data, out))
    assert before["kind"].fillna("").tolist() == after["kind"].fillna("").tolist()


def test_plain_numbers_stay_numbers(tmp_path):
    succeed(*fit(written(tmp_path, "7", "10")))
    assert load_model(tmp_path / "m.atoll").estimator.classes_.tolist() == [7, 10]


@pytest.mark.filterwarnings("ignore:.*which is read as a class")
def test_several_markers_may_be_given(tmp_path):
    data = add_third_class(written(tmp_path, second="dog"))
    frame = pd.read_csv(data)
    frame.loc[14:20, "kind"] = ["?", "todo", "?", "todo", "?", "todo", "?"]
    frame.to_csv(data, index=False)
    said = succeed(*fit(data, "--unlabelled", "?", "--unlabelled", "todo"))
    assert "Classes: bird (4), cat (5), dog (5)." in said
    said = fail(*fit(data, "--unlabelled", "?", "--unlabelled", "none"))
    assert "--unlabelled none stands alone" in said
    said = fail(*fit(data, "--unlabelled", "Todo"))
    assert "but 'todo' is: write it as y does, --unlabelled todo" in said


def test_large_whole_numbers_beside_blank_cells_stay_apart(tmp_path):
    """Floats, which hold numbers beside blank cells, are the same for two neighbours."""
    large = 2**53
    data = written(tmp_path, large, large + 1)
    succeed(*fit(data))
    model = tmp_path / "m.atoll"
    assert load_model(model).estimator.classes_.tolist() == [large, large + 1]
    said = succeed("score", model, written(tmp_path, large, large + 1, n_known=39, name="all.csv"))
    assert "of 29 new rows" in said


def test_large_whole_numbers_that_a_parquet_file_does_not_tell_apart_are_refused(tmp_path):
    frame = pd.read_csv(written(tmp_path)).assign(kind=[2.0**53, 2.0**53 + 2, *[np.nan] * 38])
    frame.to_parquet(tmp_path / "t.parquet")
    said = fail(*fit(tmp_path / "t.parquet"))
    assert "which neighbours that large are one number" in said


@pytest.mark.parametrize("how", ["days", "moments", "hours", "spans"])
def test_dates_and_times_are_classes_as_text(tmp_path, how):
    days = pd.to_datetime(pd.read_csv(written(tmp_path, "2020-01-30", "2020-01-31"))["kind"])
    cells = {
        "days": days.dt.date,
        "moments": days,
        "hours": days + pd.Timedelta(hours=3),
        "spans": days - pd.Timestamp("2020-01-29"),
    }[how]
    names = {
        "days": ["2020-01-30", "2020-01-31"],
        "moments": ["2020-01-30", "2020-01-31"],
        "hours": ["2020-01-30 03:00:00", "2020-01-31 03:00:00"],
        "spans": ["1 days 00:00:00", "2 days 00:00:00"],
    }[how]
    data, model = tmp_path / "t.parquet", tmp_path / "m.atoll"
    pd.read_csv(tmp_path / "table.csv").assign(kind=cells).to_parquet(data)
    succeed(*fit(data))
    assert load_model(model).estimator.classes_.tolist() == names
    assert "of 10 rows" in succeed("score", model, data)
    assert "of 30 unlabelled rows" in succeed("next", model, data)
