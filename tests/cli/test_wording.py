"""What a user of the shell reads names the option that was typed, not a parameter of Python."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from atoll import AtollClassifier, save_model
from atoll.cli import main
from atoll.cli.commands import next_rows
from atoll.cli.data_commands import make_dataset, reproduce
from atoll.cli.fit_commands import compare, fit
from atoll.cli.label import label
from atoll.cli.next_rows import _written
from atoll.cli.score import _confusion_lines, confusion_table
from atoll.cli.terminal import table_lines
from atoll.cli.wording import in_options
from program import fail, run, succeed, two_clouds

FIT = "fit t.csv --target kind --out o.atoll"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table of two clouds, with a column of each kind that an option may name."""
    folder = tmp_path_factory.mktemp("made")
    frame = two_clouds(n_labels=10)
    frame.to_csv(folder / "t.csv", index=False)
    pd.DataFrame({"other": [1.0, 2.0], "kind": ["cat", "dog"]}).to_csv(folder / "other.csv")
    words = f"fit t.csv --target kind --out {folder / 'm.atoll'} --model graph-gp --quiet"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        succeed(*shlex.split(words), "--set", "n_draws=40")
    return folder


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"{FIT} --set n_draws=5", "--set n_draws=5: give a whole number, at least 20."),
        (f"{FIT} --set n_draws=x", "--set n_draws=x: give a whole number, at least 20."),
        (f"{FIT} --set scale=x", "--set scale=x: give auto, true or false."),
        (
            f"{FIT} --set labels_chosen=x",
            "labels_chosen=x: give true, false or an array with",
        ),
        (f"{FIT} --set class_prior=1", "--set class_prior=1: use --class-share for that."),
        (f"{FIT} --set classes=a,b", "the column 'kind' has labels ['cat', 'dog'] that --set "),
        (f"{FIT} --set classes=cat,cat", "--set classes=cat,cat names a class twice: name each "),
        (f"{FIT} --metric x", "--metric x: give auto, euclidean or cosine."),
        (f"{FIT} --metric cosine --model dp-mixture", "--metric does not apply to the model"),
        (f"{FIT} --n-jobs 0", "--n-jobs 0: give a number of processes, or -1"),
        (f"{FIT} --n-jobs x", "--n-jobs x: give a whole number; see `atoll fit --help`."),
        (f"{FIT} --seed x", "--seed x: give a whole number, at least 0;"),
        (f"{FIT} --seed -1", "--seed -1: give a whole number, at least 0;"),
        (f"{FIT} --unlabelled cat", "the column 'kind' has one class ('dog') among 5 labelled"),
        (f"{FIT} --id kind", "--id kind: that is the column of labels (--target);"),
        (f"{FIT} --text kind", "--text kind: that is the column of labels (--target);"),
        (f"{FIT} --weights kind", "--weights kind: that is the column of labels (--target);"),
        (f"{FIT} --drop kind", "--drop kind: that is the column of labels (--target);"),
        (f"{FIT} --drop y", "the --drop column 'y' is not in 't.csv';"),
        (
            f"{FIT} --class-share cat=0.2 --class-share cat=0.8",
            "a share already; give it once",
        ),
        (
            f"{FIT} --model dp-mixture --set covariance_scale=x",
            "--set covariance_scale=x: give a positive number",
        ),
        (
            f"{FIT} --model dp-mixture --set concentration=0.5",
            "--set concentration=0.5: give at least 1 with --set inference=map",
        ),
        ("fit t.csv --target x --out o.atoll", "the column 'x' holds continuous numbers such as"),
        ("predict m.atoll t.csv --out p.csv --reject-below 2", "--reject-below 2: give a number, "),
        ("next m.atoll t.csv --target x", "--target x: the model learns from this column;"),
        ("score m.atoll t.csv --target x", "--target x: the model learns from this column;"),
        ("report m.atoll --target kind", "--target names a column of --data;"),
        ("report m.atoll --data other.csv --out r.html", "the table lacks columns "),
        ("explain m.atoll t.csv --row 1 --target nope", "the table has no column 'nope' of"),
        (f"{FIT} --set =3", "--set =3: write it as KEY=VALUE."),
        ("compare t.csv --target kind --model x", "--model x: the models to compare are atoll, "),
        (
            "compare t.csv --target kind --without graf-gp",
            "graf-gp: did you mean 'graph-gp'?",
        ),
        ("compare t.csv --target kind --without atoll", "--without atoll: the default is what"),
        ("datasets make rings --out d.csv --n-samples 1", "--n-samples 1: 2 classes need"),
        ("datasets make rings --out d.csv --labels-per-class 9000", "--labels-per-class 9000, but"),
        ("datasets make crescents --out d.csv --set noise=-1", "--set noise=-1: give a finite"),
        ("datasets make crescents --out d.csv --set noise=[1,2]", "--set noise=1,2: give a finite"),
        ("reproduce archipelago-fig1 --limit 0", "--limit 0 is not a time: give a number of"),
        ("reproduce archipelago-fig1 --only a=b", "--only: cells have no key 'a';"),
        ("reproduce archipelago-fig1 --n-jobs 0", "--n-jobs 0: give a number of processes"),
        ("label t.csv --target kind --drop y --no-browser", "--drop y: the table has no such colu"),
        ("label t.csv --target kind --model graph --no-browser", "did you mean 'graph-gp'?"),
        ("label t.csv --target kind --image x --no-browser", "row 1 has the number "),
    ],
)
def test_a_bad_value_is_named_with_the_option_that_was_typed(made, monkeypatch, command, said):
    monkeypatch.chdir(made)
    message = fail(*shlex.split(command))
    assert said in message
    assert not re.search(r"(?<!--set )\b[a-z]+(_[a-z]+)+\b(?!')", re.sub(r"`.*?`", "", message))


@pytest.mark.parametrize(
    ("command", "message", "said"),
    [
        (fit, "n_jobs must be None or a whole number, got 0.", "--n-jobs 0: give a whole number."),
        (fit, "y has no labelled row.", "the column 'kind' has no labelled row."),
        (fit, "if so, classes=[…] says so.", "if so, --set classes= with all names says so."),
        (label, "if so, classes=[…] says so.", "if so, --classes with all names says so."),
        (fit, "Raise n_warmup.", "Raise n_warmup (--set n_warmup=N)."),
        (fit, "pass unlabelled='none'; if", "blank these cells; if"),
        (
            fit,
            "say so with unlabelled='none', or with unlabelled=None that it is a class.",
            "blank these cells, or say with --unlabelled none that it is a class.",
        ),
        (
            fit,
            "Pass classes=[lowest, …, highest].",
            "Give their order, such as --set classes=low,mid,high.",
        ),
        (fit, "raise x: n_warmup counts.", "raise x: --set n_warmup counts."),
        (fit, "give them as class_prior.", "give them as --class-share CLASS=SHARE."),
        (fit, "set labels_chosen=True.", "add --set labels_chosen=true."),
        (fit, "the column 'n_draws' is blank.", "the column 'n_draws' is blank."),
        (fit, "--set scale=x: a n_draws=3 word.", "--set scale=x: a n_draws=3 word."),
        (next_rows, "Raise n_warmup.", "Raise n_warmup."),
        (next_rows, "random_state=-1; give others.", "--seed -1: give others."),
        (compare, "without='x' is none.", "--without x is none."),
        (make_dataset, "per_class=9, but no.", "--labels-per-class 9, but no."),
        (reproduce, "with data_home= (--data of `atoll reproduce`) or", "with --data or"),
    ],
)
def test_parameters_become_options(command, message, said):
    assert in_options(message, command, "kind") == said


def test_a_marker_that_no_row_has_is_remarked_on(made, monkeypatch, tmp_path):
    monkeypatch.chdir(made)
    words = ("fit", "t.csv", "--target", "kind", "--model", "graph-gp", "--set", "n_draws=40")
    out = ("--out", tmp_path / "o.atoll")
    assert "No cell of 'kind' is 'n/a' (--unlabelled)" in succeed(
        *words, *out, "--unlabelled", "n/a"
    )
    assert "No cell of" not in succeed(*words, *out)


def test_what_a_verdict_asks_for_is_an_option(made, monkeypatch, tmp_path):
    monkeypatch.chdir(made)
    said = succeed("fit", "t.csv", "--target", "kind", "--out", tmp_path / "o.atoll")
    assert "add --set labels_chosen=true." in said
    assert "give them as --class-share CLASS=SHARE." in said
    assert not re.search("labels_chosen=True|class_prior", said)
    assert not Path("o.atoll").exists()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("or raise n_neighbors.", "or raise n_neighbors (--set n_neighbors=30)."),
        ("Fix: a larger n_draws, or more.", "Fix: a larger n_draws (--set n_draws=1024), or more."),
        ("Choose a smaller n_draws.", "Choose a smaller n_draws (--set n_draws=128)."),
        (
            "Raise n_neighbors, then n_draws.",
            "Raise n_neighbors (--set n_neighbors=30), then n_draws (--set n_draws=1024).",
        ),
    ],
)
def test_what_is_to_be_raised_is_named_with_an_example(message, said):
    assert in_options(message, fit, present={"n_neighbors": 15, "n_draws": 256}) == said


def test_a_report_of_the_shell_speaks_of_options(made, monkeypatch, tmp_path):
    monkeypatch.chdir(made)
    model = tmp_path / "o.atoll"
    succeed("fit", "t.csv", "--target", "kind", "--out", model, "--set", "label_noise=learn")
    succeed("report", model, "--no-cross-validation")
    page = model.with_suffix(".html").read_text()
    assert "add --set labels_chosen=true." in page
    assert "give them as --class-share CLASS=SHARE." in page
    assert "`atoll predict` corrects them, and `atoll suspects` lists them" in page
    assert not re.search(r"labels_chosen=True|as class_prior|suspect_labels\(\) lists", page)


def test_a_report_of_a_model_from_python_speaks_of_parameters(made, monkeypatch, tmp_path):
    monkeypatch.chdir(made)
    frame = pd.read_csv("t.csv")
    model = AtollClassifier(random_state=0).fit(frame.drop(columns="kind"), frame["kind"])
    save_model(model, tmp_path / "p.atoll")
    succeed("report", tmp_path / "p.atoll", "--data", "t.csv", "--target", "kind")
    assert "set labels_chosen=True" in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize(
    "command", ["fit", "predict", "explain", "report", "next", "label", "compare", "reproduce"]
)
def test_help_names_what_an_option_takes_and_no_type_of_python(command):
    said = run(command, "--help").output
    options = [line for line in said.splitlines() if re.match(r"  -", line)]
    assert len(options) >= 5
    assert not [line for line in options if "<" in line.split("  ")[1]]


@pytest.mark.parametrize(
    ("command", "most", "said"),
    [("models", 50, "(AtollClassifier;"), ("reproduce --list", 70, "(needs usps/usps_3vs5.npz)")],
)
def test_lists_can_be_read_at_eighty_characters(monkeypatch, command, most, said):
    monkeypatch.setenv("COLUMNS", "80")
    lines = succeed(*command.split()).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < most
    assert said in " ".join(" ".join(lines).split())


def test_a_name_that_several_rows_have_is_answered_with_their_numbers(made, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    frame = pd.read_csv(made / "t.csv").assign(nest=["n1", "n2", "n1", *["n3"] * 21])
    frame.to_csv("t.csv", index=False)
    words = "fit t.csv --target kind --id nest --model graph-gp --set n_draws=40 --out m.atoll"
    succeed(*shlex.split(words))
    said = fail("explain", "m.atoll", "t.csv", "--row", "n1")
    assert "2 rows have this name in the column 'nest'; give the number of one: 1, 3." in said
    assert "Row n2: " in succeed("explain", "m.atoll", "t.csv", "--row", "n2")


def test_an_interrupted_fit_names_the_option_that_lets_it_go_on():
    said = in_options("With checkpoint=, the same call goes on from here.", fit)
    assert said == "With --checkpoint FOLDER the same command goes on from here."


def test_what_a_terminal_cannot_write_is_spelt_and_stops_no_command(monkeypatch, tmp_path):
    for name, encoding in (("stdout", "latin-1"), ("stderr", "cp1252")):
        monkeypatch.setattr(f"sys.{name}", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    table = tmp_path / "table.csv"
    table.write_text("x,種類\n1,日\n2,本\n", encoding="utf-8")
    for words in (["next", "--help"], ["fit", str(table), "--target", "種", "--out", "m.atoll"]):
        monkeypatch.setattr("sys.argv", ["atoll", *words])
        with pytest.raises(SystemExit):
            main()
    sys.stdout.flush()
    sys.stderr.flush()
    assert rb"random, \u2026" in sys.stdout.buffer.getvalue()
    assert rb"the --target column '\u7a2e' is not in" in sys.stderr.buffer.getvalue()


def test_columns_stand_below_one_another_whatever_script_or_line_breaks_names_have():
    lines = table_lines(
        ["name", "n"], [["日本", "1"], ["e\u0301t\u00e9", "2"], ["two\nlines", "3"]]
    )
    assert lines == ["name       n", "日本       1", "e\u0301t\u00e9        2", "two lines  3"]


def test_long_names_of_classes_are_cut_in_the_table_of_confusions_and_told_apart():
    names = [f"{'a long name ' * 5} of kind {k}" for k in range(3)]
    header, rows = confusion_table(np.eye(3), np.arange(3), names)
    assert header[1:] == [row[0] for row in rows]
    assert [name[-6:] for name in header[1:]] == ["kind 0", "kind 1", "kind 2"]
    assert max(map(len, header)) <= 24


@pytest.mark.parametrize(("n_classes", "columns"), [(9, "60"), (21, "")])
def test_where_a_table_of_confusions_has_no_room_the_commonest_are_listed(
    n_classes, columns, monkeypatch
):
    monkeypatch.setenv("COLUMNS", columns)
    codes = np.repeat(np.arange(n_classes), 3)
    p = np.eye(n_classes)[np.where(np.arange(len(codes)) < 2, 5, codes)]
    lines = _confusion_lines(p, codes, [f"kind {k}" for k in range(n_classes)])
    assert [line.split("  ")[0] for line in lines] == [
        "truth, the commonest mistakes first",
        "kind 0",
    ]
    assert lines[1].endswith("kind 5     2 of 3")
    right = _confusion_lines(np.eye(n_classes)[codes], codes, list(range(n_classes)))  # digits fit
    assert right == ["No row was predicted wrong."] if n_classes > 20 else len(right) == 10


def test_probabilities_in_the_shell_have_as_many_digits_as_each_other():
    assert [_written(cell) for cell in (0.45, 0.518, None, float("nan"))] == [
        "0.450",
        "0.518",
        "",
        "",
    ]
