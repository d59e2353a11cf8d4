"""Slips of the hand in the shell: names, order of files, options, data that are not there."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
from dataclasses import make_dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from atoll import load_model
from program import fail, run, succeed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

QUICK = ("--model", "graph-gp", "--set", "n_draws=40")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two clouds of 24 rows with names, six of them labelled, and a model of them."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    kinds = np.array(["cat", "dog"] * 12, dtype=object)
    frame = pd.DataFrame({"tag": [f"a{i}" for i in range(24)]})
    frame["x"] = rng.standard_normal(24) + 4.0 * (kinds == "dog")
    frame["z"] = rng.standard_normal(24)
    frame["kind"] = np.where(np.arange(24) < 6, kinds, None)
    frame.to_csv(folder / "table.csv", index=False)
    succeed("fit", folder / "table.csv", "--target", "kind", "--id", "tag", "--quiet", *QUICK,
            "--out", folder / "m.atoll")  # fmt: skip
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path, dirs_exist_ok=True))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("next m.atoll table.csv --target Kind --state new.atoll", "did you mean 'kind'?"),
        ("next m.atoll table.csv --target KINDS --state new.atoll", "--target kind."),
        ("score m.atoll table.csv --target Kind", "did you mean 'kind'?"),
        ("fit table.csv --target KIND --out n.atoll", "did you mean 'kind'?"),
        ("fit table.csv --target kind --id tga --out n.atoll", "did you mean 'tag'?"),
        ("predict m.atoll table.csv --id TGA --out p.csv", "did you mean 'tag'?"),
        ("fit table.csv --target kind --groups Tag --out n.atoll", "did you mean 'tag'?"),
        (
            "predict mm.atoll table.csv --out p.csv",
            "'mm.atoll'; did you mean 'm.atoll'?",
        ),
        ("predict m table.csv --out p.csv", "did you mean 'm.atoll'?"),
        ("predict m.atoll tabel.csv --out p.csv", "no file 'tabel.csv'; did you mean 'table.csv'?"),
        ("predict m.atoll table.cvs --out p.csv", "did you mean 'table.csv'?"),
        ("predict m.atoll other.csv --out p.csv", "no file 'other.csv'; check the path."),
        ("next m.atoll table.csv --answers tabl.csv", "did you mean 'table.csv'?"),
        ("label tabl.csv --target kind --no-browser", "did you mean 'table.csv'?"),
        ("next table.csv m.atoll", "give the model first: atoll next MODEL DATA."),
        ("predict table.csv m.atoll --out p.csv", "'table.csv' is a table, not a model"),
        ("report table.csv", "fit a model to it first, with `atoll fit`"),
        ("fit m.atoll --target kind --out n.atoll", "is an atoll model, not a table"),
        ("fit table.csv --target kind", "missing option '--out'; see `atoll fit --help`"),
        ("fit table.csv --targett kind --out n.atoll", "no such option: --targett"),
        ("fit table.csv --target kind --seed x --out n.atoll", "--seed x: give a whole"),
        ("fitt table.csv", "Did you mean 'fit'? See `atoll --help`."),
        ("datasets mak", "'mak'"),
        ("suspects m.atoll table.csv", "(table.csv): the model alone is needed"),
        ("explain m.atoll table.csv --row a23x", "--row a23x: did you mean 'a23'?"),
        ("explain m.atoll table.csv --row elephant", "and the names of its column 'tag'."),
    ],
)
def test_a_slip_is_one_line_with_what_was_meant_and_makes_nothing(folder, command, said):
    before = sorted(folder.iterdir())
    assert said in fail(*command.split())
    assert sorted(folder.iterdir()) == before


def test_labels_may_still_be_of_a_new_column(folder):
    words = ["next", "m.atoll", "table.csv", "--target", "sort", "--state", "s.atoll"]
    assert "fill in 'sort'" in succeed(*words, "--out", "a.csv")


def test_help_is_still_shown_in_full():
    assert "Usage" in run("fit", "--help").output
    assert "Usage" in run().output
    assert run("datasets").output.count("\n") > 4


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "atoll", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("atoll ")


# --- reproduce ------------------------------------------------------------------------------------


def test_an_experiment_without_its_data_fails_in_one_line_that_says_where_they_are_had(tmp_path):
    said = fail("reproduce", "ncnm-fig5", "--quick", "--out", tmp_path / "out", "--data", tmp_path)
    assert f"{str(tmp_path / 'usps' / 'usps_3vs5.npz')!r}" in said
    assert "--data" in said
    assert "The Elements of Statistical Learning" in said


@pytest.mark.parametrize("name", ["rogers-fig51", "rogers-fig99", "roger-fig99"])
def test_for_a_figure_that_is_not_there_those_of_its_paper_are_named(name, tmp_path):
    said = fail("reproduce", name, "--out", tmp_path)
    assert "did you mean" not in said  # one figure is not another's misspelling
    assert (
        "near it are rogers-fig15, rogers-fig16, rogers-fig20, rogers-fig21, rogers-fig22. "
        "There are: archipelago-fig1" in said
    )


def test_for_what_is_like_no_experiment_none_is_named_before_the_others(tmp_path):
    said = fail("reproduce", "elephant", "--out", tmp_path)
    assert "is not an experiment; there are: archipelago-fig1" in said


def test_a_misspelt_experiment_is_suggested(tmp_path):
    assert "did you mean 'ncnm-fig5'?" in fail("reproduce", "ncmn-fig5", "--out", tmp_path)


# --- what a fit and its predictions say -----------------------------------------------------------


def fit_of(frame, *more):
    frame.to_csv("own.csv", index=False)
    return run("fit", "own.csv", "--target", "kind", "--out", "own.atoll", *more)


def test_a_saved_index_is_left_out_unless_it_has_another_name(folder):
    table = pd.read_csv("table.csv").drop(columns="tag")
    for name, first, is_left_out in [
        ("Unnamed: 0", 0, True),
        ("ID", 1, True),
        ("id", 7, False),
        ("age", 0, False),
    ]:
        frame = table.copy()
        frame.insert(0, name, range(first, first + len(frame)))
        said = fit_of(frame, *QUICK).stdout
        assert (f"{name} numbers the rows, and is left out" in said) == is_left_out
        assert (f"{name} looks like a row number, and is learnt from" in said) != is_left_out
        assert (name in load_model("own.atoll").preprocessing.columns) != is_left_out
    table["id"] = np.arange(24)[::-1]
    assert "id looks like a row number, and is learnt from" in fit_of(table, *QUICK).stdout
    assert "id" in load_model("own.atoll").preprocessing.columns


@pytest.mark.filterwarnings("always:y. the class")
def test_classes_that_differ_by_capitals_only_are_remarked_on(folder):
    table = pd.read_csv("table.csv")
    options = ("--id", "tag", *QUICK)
    assert "capitals" not in fit_of(table, *options).stdout
    table.loc[0, "kind"] = "Cat"
    said = fit_of(table, *options)
    assert "capitals" not in said.stdout  # once is enough
    beware = (
        "the class 'Cat' has a single label and is nearly called 'cat', which has 2. Fix: if it "
        "is a slip, correct it; else label more rows of it."
    )
    assert f"Beware: {beware}" in said.stdout
    assert f"atoll: warning: {beware}\n" in said.stderr
    short = table.replace({"kind": {"Cat": "A", "cat": "a"}})
    assert "'A' and 'a' differ only by capitals" in fit_of(short, *options).stdout


def test_a_fit_says_what_else_took_its_time(folder, monkeypatch):
    table = pd.read_csv("table.csv")
    monkeypatch.setattr("atoll.cli.stages.WORTH_TELLING", 0.0)
    monkeypatch.setattr("atoll.cli.stages.LARGE", 10)
    done = fit_of(table, "--id", "tag", *QUICK)
    assert re.search(r"^\d+ s in all: .*$", done.stderr, re.MULTILINE)
    assert done.stdout.startswith("Reading own.csv, 0 MB.\n")
    assert "in all" not in fit_of(table, "--id", "tag", "--quiet", *QUICK).output


def test_labels_that_are_likely_wrong_are_pointed_at_and_only_then(folder):
    rng = np.random.default_rng(3)
    truth = np.array(["cat", "dog"] * 30, dtype=object)
    table = pd.DataFrame(rng.standard_normal((60, 2)) + 6.0 * (truth == "dog")[:, None])
    table["kind"] = np.where(np.arange(60) < 30, truth, None)
    said = fit_of(table.rename(columns=str), *QUICK).stdout
    assert "more likely wrong" not in said
    table.loc[[2, 3, 8, 9], "kind"] = ["dog", "cat", "dog", "cat"]
    said = fit_of(table.rename(columns=str), *QUICK).stdout
    assert re.search(
        r"- Beware: [34] labels are more likely wrong than right: `atoll suspects .*atoll` lists",
        said,
    )
    assert "No trouble was found" not in said  # the verdict, which knows nothing of them
    succeed("report", "own.atoll", "--no-cross-validation", "--quiet")
    assert re.search(r"[34] labels are more likely wrong than right", Path("own.html").read_text())


def test_the_reason_of_a_row_names_all_its_bad_cells(folder):
    new = pd.read_csv("table.csv").head(3).astype(object)
    new.loc[1, ["x", "z"]] = ["n.a.?", "oops"]
    new.to_csv("new.csv", index=False)
    succeed("predict", "m.atoll", "new.csv", "--out", "p.csv")
    assert pd.read_csv("p.csv").loc[1, "reason"] == (
        "x is 'n.a.?', not a number; z is 'oops', not a number"
    )


def test_a_text_without_any_known_word_is_remarked_on(folder):
    words = {"cat": "purring whiskers mouse", "dog": "barking lead bone"}
    kinds = ["cat", "dog"] * 12
    texts = [f"{words[kind]} number {i}" for i, kind in enumerate(kinds)]
    table = pd.DataFrame({"text": texts, "kind": [*kinds[:8], *[None] * 16]})
    assert fit_of(table, "--text", "text", *QUICK).exit_code == 0
    pd.DataFrame({"text": ["a purring mouse", "zzz qqq"]}).to_csv("new.csv", index=False)
    assert "1 of 2 rows has no word that the model knows" in succeed(
        "predict", "own.atoll", "new.csv", "--out", "p.csv"
    )
    answers = pd.read_csv("p.csv")
    assert answers["reason"].isna().tolist() == [True, False]
    assert answers["p_cat"].notna().all()


def test_several_columns_named_at_once_are_to_be_named_one_by_one(tmp_path):
    table = pd.DataFrame({"x": [0.0, 1.0, 5.0, 6.0], "seen": 1.5, "kind": ["a", "a", "b", "b"]})
    table.to_csv(tmp_path / "table.csv", index=False)
    said = fail("fit", tmp_path / "table.csv", "--target", "kind", "--drop", "x,seen",
                "--out", tmp_path / "m.atoll")  # fmt: skip
    assert "name 'x', 'seen' one by one" in said


def test_a_measurement_in_the_place_of_classes_is_refused_at_once(folder):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(90), "kind": 2700 + 25 * (np.arange(90) // 2)})
    said = fit_of(frame, *QUICK).stderr
    assert "'kind' has 45 different numbers from 2700 to 3800, 45 of them in one or two" in said
    assert "write them as words, such as class2700" in said
    assert not Path("own.atoll").exists()
    assert "looks like a measurement" in fail("compare", "own.csv", "--target", "kind")


def test_the_fit_that_a_comparison_advises_has_its_options(folder, monkeypatch):
    from types import SimpleNamespace

    from atoll.comparison import recommending

    heard = []
    monkeypatch.setattr(recommending, "in_shell", lambda *given: heard.append(given[-1]) or "said")
    candidate = SimpleNamespace(shares={"atoll": 1.0})
    Found = make_dataclass("Found", ["recommendation", "candidate", "reference"])
    found = Found("Use a blend.", candidate, "atoll")
    monkeypatch.setattr("atoll.comparison.compare_models", lambda *given, **more: found)
    succeed("compare", "table.csv", "--target", "kind", "--drop", "z", "--id", "tag",
            "--unlabelled", "none", "--quiet")  # fmt: skip
    assert heard == [
        "atoll fit table.csv --target kind --drop z --id tag --unlabelled none --out MODEL"
    ]


def test_compressed_text_on_standard_input_is_read(folder):
    packed = gzip.compress(Path("table.csv").read_bytes())
    command = ["predict", "m.atoll", "-", "--out", "p.csv"]
    done = run(*command, input=packed)
    assert done.exit_code == 0
    assert "24 predictions saved in p.csv." in done.stdout
    done = run(*command, input=packed[:40])
    assert done.exit_code == 2
    assert "standard input is broken gzip" in done.stderr


def test_a_name_of_a_row_needs_the_column_of_names_in_the_fit(folder):
    succeed("fit", "table.csv", "--target", "kind", "--drop", "tag", "--quiet", *QUICK,
            "--out", "n.atoll")  # fmt: skip
    said = fail("explain", "n.atoll", "table.csv", "--row", "a3")
    assert "rows have names where the fit was told their column with --id" in said
    assert "--id" not in fail("explain", "n.atoll", "table.csv", "--row", "99")


def test_texts_are_refused_in_words_of_the_shell_by_a_model_that_takes_none(folder):
    words = ["a cat sat on the mat by the door", "two dogs ran over the green hill today"]
    frame = pd.DataFrame({"doc": [f"{words[i % 2]} and {i} more of them" for i in range(24)]})
    frame["kind"] = ["cat", "dog"] * 12
    said = fit_of(frame, "--model", "probit-gp", "--text", "doc").stderr
    assert "--model probit-gp: it takes no texts, and 'doc' is read as such" in said
    assert "use --model atoll or graph-gp" in said
    assert "Classifier" not in said


def test_no_column_of_another_table_is_taken_for_one_of_the_fit_by_chance(folder):
    frame = pd.read_csv("table.csv").rename(columns={"x": "weight_kg", "z": "height_cm"})
    frame.to_csv("renamed.csv", index=False)
    succeed("fit", "renamed.csv", "--target", "kind", "--id", "tag", "--quiet", *QUICK,
            "--out", "n.atoll")  # fmt: skip
    pd.DataFrame({"weekday": [1.0], "eight": [2.0]}).to_csv("other.csv", index=False)
    said = fail("predict", "n.atoll", "other.csv", "--out", "p.csv")
    assert "rename" not in said
    assert "it has columns 'weekday', 'eight'" in said


def test_learning_the_noise_is_named_after_likely_wrong_labels():
    from atoll import AtollClassifier
    from atoll.cli.fitting import _with_noise

    assert "--set label_noise=learn" in _with_noise(AtollClassifier(), ["said"])[1]
    assert _with_noise(AtollClassifier(label_noise="learn"), ["said"]) == ["said"]
    assert _with_noise(AtollClassifier(), []) == []


# --- tables that lack something of the fit's ------------------------------------------------------


def test_a_missing_column_is_answered_with_what_to_do_about_it(folder):
    pd.read_csv("table.csv").drop(columns="z").to_csv("less.csv", index=False)
    said = fail("predict", "m.atoll", "less.csv", "--out", "p.csv")
    assert "lacks column 'z'" in said
    assert "Add it, with blanks where its cells are not known, or fit without it." in said
    pd.read_csv("table.csv").assign(z=None).to_csv("less.csv", index=False)
    succeed("predict", "m.atoll", "less.csv", "--out", "p.csv")


def test_a_column_that_is_blank_in_every_row_to_predict_is_named(folder):
    table = pd.read_csv("table.csv")
    table.assign(z=np.where(np.arange(24) == 5, 1.0, np.nan)).to_csv("new.csv", index=False)
    assert "Blank in all" not in run("predict", "m.atoll", "new.csv", "--out", "p.csv").stdout
    table.assign(z=None).to_csv("new.csv", index=False)
    said = run("predict", "m.atoll", "new.csv", "--out", "p.csv").stdout
    assert "Blank in all 24 rows: z. The classes rest on the other columns." in said


def test_one_row_is_spoken_of_as_one(folder):
    pd.read_csv("table.csv").assign(z=None).head(1).to_csv("one.csv", index=False)
    said = run("predict", "m.atoll", "one.csv", "--out", "p.csv").stdout
    assert "1 of 1 rows has half of its cells blank or more" in said
    assert "1 prediction saved in p.csv." in said
