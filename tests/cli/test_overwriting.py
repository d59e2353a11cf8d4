"""No command overwrites what it reads, nor a file of another kind than it writes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from atoll import GraphGPClassifier, save_model
from atoll.reports import write_report
from program import fail, run, succeed, two_clouds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

QUICK = ("--model", "graph-gp", "--set", "n_draws=40", "--quiet")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two clouds of 24 rows, six of them labelled, a model of them and a page."""
    tmp_path = tmp_path_factory.mktemp("made")
    frame = two_clouds(n_labels=6)
    frame.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "page.html").write_text("<!DOCTYPE html><html></html>")
    (tmp_path / "notes.txt").write_text("my notes\n")
    succeed("fit", tmp_path / "table.csv", "--target", "kind", "--out", tmp_path / "m.atoll",
            *QUICK)  # fmt: skip
    return tmp_path


@pytest.fixture
def folder(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "copy"))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("fit table.csv --target kind --out table.csv", "'table.csv' would be overwritten"),
        ("fit table.csv --target kind --out ./table.csv", "name another file with --out"),
        ("fit table.csv --target kind --out link.csv", "'link.csv' would be overwritten"),
        ("fit table.csv --target kind --out notes.txt", "and is not an atoll model"),
        ("fit table.csv --target kind --out page.html", "holds a web page, not an atoll model"),
        ("predict m.atoll table.csv --out table.csv", "'table.csv' would be overwritten"),
        ("predict m.atoll table.csv --out copy.csv", "holds an atoll model, not a table"),
        ("next m.atoll table.csv --out table.csv", "another file with --out"),
        ("next m.atoll table.csv --labelled table.csv", "another file with --labelled"),
        ("next m.atoll table.csv --state table.csv", "another file with --state"),
        ("next m.atoll table.csv --state m.atoll", "'m.atoll' would be overwritten"),
        ("next m.atoll table.csv --out a.csv --labelled a.csv", "two different files"),
        ("report m.atoll --out m.atoll", "'m.atoll' would be overwritten"),
        ("report m.atoll --data table.csv --target kind --out table.csv", "would be overwritten"),
        ("report m.atoll --out notes.txt", "is not a web page"),
        ("report m.atoll --out new.pdf", "name a file that ends in .html"),
        ("report m.atoll --out -", "a web page is not written to standard output"),
        ("fit table.csv --target kind --out -", "an atoll model is not written to standard out"),
        ("fit table.csv --target kind --out new.csv", "'new.csv' is named like a table"),
        ("fit table.csv --target kind --out new.html", "'new.html' is named like a web page"),
        ("compare table.csv --target kind --html table.csv", "another file with --out"),
        ("suspects copy.csv --out copy.csv", "'copy.csv' would be overwritten"),
        ("suspects m.atoll --out table.csv", "the table that the model was fitted on"),
        ("predict m.atoll other.csv --out table.csv", "the table that the model was fitted on"),
        ("datasets make crescents --out copy.csv", "holds an atoll model, not a table"),
        ("label table.csv --target kind --export table.csv", "another"),
        ("label table.csv --target kind --labels notes.txt --export a.csv", "no file of labels"),
        ("label table.csv --target kind --labels table.csv --export a.csv", "no file of labels"),
    ],
)
def test_what_is_read_or_of_another_kind_is_not_overwritten(folder, monkeypatch, command, said):
    monkeypatch.chdir(folder)
    (folder / "copy.csv").write_bytes((folder / "m.atoll").read_bytes())
    (folder / "link.csv").symlink_to("table.csv")
    shutil.copy(folder / "table.csv", folder / "other.csv")
    before = contents(folder)
    assert said in fail(*command.split())
    assert contents(folder) == before


def test_what_can_be_made_again_is_overwritten(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "empty.atoll").touch()
    for out in ("m.atoll", "empty.atoll"):
        succeed("fit", "table.csv", "--target", "kind", "--out", out, *QUICK)
    for _ in range(2):
        succeed("predict", "m.atoll", "table.csv", "--out", "p.csv", "--quiet")
        succeed("report", "m.atoll", "--out", "page.html", "--no-cross-validation", "--quiet")
        succeed("next", "m.atoll", "table.csv", "--out", "ask.csv", "--quiet")
    succeed("next", "m.atoll", "table.csv", "--answers", "ask.csv", "--out", "ask.csv", "--quiet")
    assert run("predict", "m.atoll", "table.csv", "--out", "-", "--quiet").exit_code == 0


def test_a_model_does_not_take_the_place_of_answers(folder, monkeypatch):
    monkeypatch.chdir(folder)
    succeed("next", "m.atoll", "table.csv", "--quiet")
    before = contents(folder)
    said = fail("fit", "table.csv", "--target", "kind", "--out", "m.next.atoll", *QUICK)
    assert "'m.next.atoll' holds a loop of labels with its answers" in said
    assert contents(folder) == before


def test_python_refuses_files_of_another_kind_too(folder):
    frame = pd.read_csv(folder / "table.csv")
    X, y = frame[["x", "z"]].to_numpy(), frame["kind"].to_numpy()
    model = GraphGPClassifier(n_draws=40, random_state=0).fit(X, y)
    before = contents(folder)
    with pytest.raises(ValueError, match=r"table\.csv' is there already and is not an atoll mod"):
        save_model(model, folder / "table.csv")
    with pytest.raises(ValueError, match=r"m\.atoll' is there already and holds an atoll model"):
        write_report(model, X, y, folder / "m.atoll", cross_validate=False)
    assert contents(folder) == before


def test_a_model_does_not_take_the_place_of_a_device(folder, monkeypatch):
    monkeypatch.chdir(folder)
    os.mkfifo("pipe.atoll")
    said = fail("fit", "table.csv", "--target", "kind", "--out", "pipe.atoll", *QUICK)
    assert "cannot write 'pipe.atoll': it is a device or a pipe" in said
    assert not Path("pipe.atoll").is_file()


def test_a_full_disk_is_one_line_that_names_the_file(folder, monkeypatch):
    monkeypatch.chdir(folder)

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("atoll.core.files.os.replace", full)
    said = fail("predict", "m.atoll", "table.csv", "--out", "p.csv")
    assert "cannot write 'p.csv': no space left on device; make room, or choose another" in said
    assert not Path("p.csv").exists()
