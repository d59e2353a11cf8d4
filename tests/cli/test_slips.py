"""Slips of the hand in the shell: names, order of files, options, data that are not there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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
        ("next table.csv m.atoll", "give the model first: atoll next MODEL DATA."),
        ("predict table.csv m.atoll --out p.csv", "'table.csv' is a table, not a model"),
        ("report table.csv", "fit a model to it first, with `atoll fit`"),
        ("fit m.atoll --target kind --out n.atoll", "is an atoll model, not a table"),
        ("fit table.csv --target kind", "missing option '--out'; see `atoll fit --help`"),
        ("fit table.csv --targett kind --out n.atoll", "no such option: --targett"),
        ("fit table.csv --target kind --seed x --out n.atoll", "'--seed'"),
        ("fitt table.csv", "Did you mean 'fit'? See `atoll --help`."),
        ("datasets mak", "'mak'"),
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


@pytest.mark.parametrize("name", ["rogers-fig51", "rogers-fig99", "elephant"])
def test_another_figure_is_not_suggested_for_one_that_is_not_there(name, tmp_path):
    said = fail("reproduce", name, "--out", tmp_path)
    assert "did you mean" not in said
    assert "there are: archipelago-fig1" in said


def test_a_misspelt_experiment_is_suggested(tmp_path):
    assert "did you mean 'ncnm-fig5'?" in fail("reproduce", "ncmn-fig5", "--out", tmp_path)
