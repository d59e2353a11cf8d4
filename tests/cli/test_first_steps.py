"""Words that a new user of the shell command stumbled over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from atoll.estimators.informed import PROVISO, Suspects
from program import fail, run, succeed, two_clouds

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning"
)

QUICK = ("--model", "graph-gp", "--set", "n_draws=40")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit_of(frame, *more, quick=QUICK):
    """What a fit of this table says."""
    frame.to_csv("own.csv", index=False)
    return succeed("fit", "own.csv", "--target", "kind", "--out", "own.atoll", *quick, *more)


def test_a_single_label_that_is_likely_wrong_is_told_even_if_all_may_be_right(folder, monkeypatch):
    doubts = Suspects(np.arange(8), np.array([0.57, *[0.02] * 7]), np.array([0.4, 0.5, 0.1]))
    monkeypatch.setattr(
        "atoll.estimators.informed.InformedClassifier.suspect_labels", lambda *a, **b: doubts
    )
    said = fit_of(two_clouds(8))
    assert (
        "- Beware: 1 label is more likely wrong than right: `atoll suspects own.atoll` lists it"
        in said
    )
    assert said.partition("No trouble was found")[1] == ""
    assert "Trust this fit with care" in said


def test_the_proviso_of_suspects_has_a_line_of_its_own(folder):
    frame = two_clouds(12)
    frame.loc[2, "kind"] = "dog"
    fit_of(frame)
    lines = succeed("suspects", "own.atoll").splitlines()
    assert lines[-1] == PROVISO
    assert "If one class is often taken for another, more may be wrong than this says." in PROVISO


def test_a_report_is_advised_where_there_are_labels_to_hold_out(folder):
    advice = "`atoll report own.atoll` tests the probabilities on labels held out, and"
    assert advice in fit_of(two_clouds(4))
    said = fit_of(two_clouds(2))
    assert advice not in said
    assert "With two labels of every class or more, `atoll report` tests" in said


def test_answers_in_a_labelled_file_come_with_the_fit_of_all_labels(folder):
    fit_of(two_clouds(6), "--drop", "z")
    pd.DataFrame({"row": [7, 8], "kind": ["cat", "dog"]}).to_csv("answers.csv", index=False)
    said = succeed("next", "own.atoll", "own.csv", "--answers", "answers.csv",
                   "--labelled", "all.csv")  # fmt: skip
    fit = "atoll fit all.csv --target kind --model graph-gp --drop z --set n_draws=40"
    line = next(line for line in said.splitlines() if "all labels so far" in line)
    assert "--set labels_chosen=true --out final.atoll`" in line
    words = line.partition("`")[2].partition("`")[0].split()
    assert set(fit.split()) <= set(words)
    assert succeed(*words[1:]).count("8 labelled")
    assert "all labels so far" not in succeed("next", "own.atoll", "own.csv")


def test_a_row_with_two_answers_is_told_by_its_number_before_the_fit(folder, monkeypatch):
    fit_of(two_clouds(6))
    table = pd.DataFrame({"row": [7, 8, 7], "kind": ["cat", "dog", "dog"]})
    table.to_csv("dup.csv", index=False)
    with monkeypatch.context() as patched:
        patched.setattr("atoll.active.ActiveLearner.fit", None)  # is not come to
        said = fail("next", "own.atoll", "own.csv", "--answers", "dup.csv")
    assert "'dup.csv' answers row 7 twice: cat, dog" in said
    table.assign(kind=["cat", "dog", "cat"]).to_csv("dup.csv", index=False)
    said = succeed("next", "own.atoll", "own.csv", "--answers", "dup.csv")
    assert "2 answers taken" in said


def test_a_category_written_otherwise_is_counted_and_the_known_one_named(folder):
    frame = two_clouds(8).assign(sex=["male", "female"] * 12)
    fit_of(frame)
    frame.loc[:4, "sex"] = [" Male", "Female", " Male", "none of them", " Male"]
    frame.to_csv("new.csv", index=False)
    said = succeed("predict", "own.atoll", "new.csv", "--out", "p.csv")
    assert "' Male' (3 rows), Female (1 row), none of them (1 row); taken as blank." in said
    assert "Did you mean 'male', 'female'?" in said


def test_an_ordinal_fit_says_in_which_order_classes_are_taken(folder):
    frame = two_clouds(12)
    quick = ("--model", "ordinal-gp", "--set", "inference=ep")
    said = fit_of(frame, quick=quick)
    assert "Classes are taken in this order, that of the alphabet: cat < dog." in said
    declared = fit_of(frame, "--set", "classes=dog,cat", quick=quick)
    assert "in this order" not in declared
    number = fit_of(frame.assign(kind=frame["kind"].map({"cat": 1, "dog": 2})), quick=quick)
    assert "in this order" not in number


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("latin1", "latin1"),
        ("cp1252", "latin1"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16le"),
        ("utf-16-be", "utf-16be"),
    ],
)
def test_a_file_in_another_code_than_utf8_is_told_with_the_command_that_mends_it(
    folder, code, name
):
    text = two_clouds(8).assign(place="café").to_csv(index=False)
    Path("old file.csv").write_bytes(text.encode(code))
    said = fail("fit", "old file.csv", "--target", "kind", "--out", "m.atoll")
    assert "'old file.csv' is not written in UTF-8: save it as UTF-8" in said
    assert f"`iconv -f {name} -t utf8 'old file.csv' > OUT.csv`" in said


def test_several_models_in_one_word_are_to_be_named_one_by_one(folder):
    two_clouds(8).to_csv("own.csv", index=False)
    base = ("own.csv", "--target", "kind", "--model", "ssgp,graph-gp")
    again = "--model ssgp --model graph-gp"
    assert f"name them one by one: {again}." in fail("compare", *base)
    assert f"`atoll compare {again}` compares them" in fail("fit", *base, "--out", "m.atoll")


def test_a_comparison_is_written_as_its_ending_says(folder):
    two_clouds(8).to_csv("own.csv", index=False)
    base = ("compare", "own.csv", "--target", "kind", "--model", "logistic", "--n-splits", 2)
    assert "Table of scores saved in cmp.csv" in succeed(*base, "--out", "cmp.csv")
    scores = pd.read_csv("cmp.csv").set_index("model")
    assert scores.loc[["atoll", "logistic"], "log_loss"].between(0, 1).all()
    said = fail(*base, "--out", "cmp.txt")
    assert "--out cmp.txt" in said
    assert "ends in .html" in said
    assert not Path("cmp.txt").exists()


def test_fewer_folds_than_asked_for_are_told_before_the_comparison(folder, monkeypatch):
    two_clouds(8).to_csv("own.csv", index=False)
    monkeypatch.setattr("atoll.comparison.compare_models", None)  # what is said comes first
    base = ("compare", "own.csv", "--target", "kind", "--n-splits")
    said = "4 folds instead of 20: the rarest class that is held out has 4 labels"
    assert said in run(*base, 20).stdout
    assert "folds" not in run(*base, 4).stdout


def test_a_comparison_takes_texts_and_says_nothing_of_other_columns(folder):
    words = {"cat": "purring whiskers mouse", "dog": "barking lead bone"}
    kinds = ["cat", "dog"] * 12
    frame = pd.DataFrame({"doc": [f"{words[kind]} number {i}" for i, kind in enumerate(kinds)]})
    frame["kind"] = [*kinds[:16], *[None] * 8]
    frame.to_csv("own.csv", index=False)
    said = succeed("compare", "own.csv", "--target", "kind", "--text", "doc",
                   "--model", "logistic", "--n-splits", 2)  # fmt: skip
    said = " ".join(said.split())
    assert "`atoll fit own.csv --target kind --text doc --out MODEL` fits" in said
    assert "blank numbers" not in said
    assert "categories" not in said


def test_a_comparison_refuses_metrics_that_are_none_and_options_of_a_fit_alone(folder):
    two_clouds(8).to_csv("own.csv", index=False)
    base = ("compare", "own.csv", "--target", "kind")
    assert "--metric taxi: give" in fail(*base, "--metric", "taxi")
    assert "leave its column out with --drop, and give --weights" in fail(*base, "--weights", "x")
    assert "give --class-share to `atoll fit`" in fail(*base, "--class-share", "cat=0.5")


def test_names_with_commas_are_quoted_in_lists(folder):
    frame = two_clouds(8).rename(columns={"x": "body mass, g"})
    frame.loc[3, "body mass, g"] = np.nan
    said = fit_of(frame)
    assert "standardised: 'body mass, g', z." in said
    assert "Blank cells: 'body mass, g' (1)." in said


def test_a_file_whose_name_has_a_blank_is_to_be_quoted(folder):
    two_clouds(8).to_csv("peng few.csv", index=False)
    said = fail("fit", "peng", "few.csv", "--target", "kind", "--out", "m.atoll")
    assert "if you mean 'peng few.csv', put it in quotation marks" in said


@pytest.mark.parametrize(("log_odds", "said"), [(2.04, "7.7 times"), (20.0, "far"), (800.0, "far")])
def test_odds_past_a_thousand_are_far_more_probable(log_odds, said):
    from atoll.cli.fitting import _times

    assert _times(log_odds) == said


def test_a_figure_without_its_paper_is_looked_for_in_all_of_them(folder):
    said = fail("reproduce", "fig1", "--out", "out")
    assert "did you mean 'archipelago-fig1' or 'ncnm-fig1' or 'ssgp-fig1'?" in said


def test_a_missing_file_of_data_is_named_once_and_plainly(folder, monkeypatch):
    """By the experiment; what is left out was named when it was."""
    from atoll.datasets.loaders import find_file
    from atoll.reproductions import Report, Result, Skipped

    monkeypatch.delenv("ATOLL_DATA", raising=False)
    with pytest.raises(FileNotFoundError) as missing:
        find_file("usps/train.csv", None)
    assert "no data folder given, and" in str(missing.value)
    assert "None" not in str(missing.value)
    left_out = [Skipped({"data": "the paper's"}, str(missing.value))]
    done = Report([Result({}, {})], left_out, Path("c.csv"), Path("p.md"), None)
    monkeypatch.setattr("atoll.reproductions.run_experiment", lambda *given, **more: done)
    assert "data_home" not in run("reproduce", "ncnm-fig4", "--out", "out").output
