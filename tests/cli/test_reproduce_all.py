"""`atoll reproduce all`: every experiment, one after the other."""

from __future__ import annotations

from typer.testing import CliRunner

from atoll import reproductions
from atoll.cli.commands import app
from atoll.reproductions import find_experiment

TWO = ("rogers-fig22", "ncnm-fig3")


def test_all_runs_every_experiment_of_the_registry(tmp_path, monkeypatch):
    monkeypatch.setattr(reproductions, "EXPERIMENTS", tuple(map(find_experiment, TWO)))
    done = CliRunner().invoke(app, ["reproduce", "all", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    for name in TWO:
        assert (tmp_path / name / f"{name}.md").is_file()


def test_all_refuses_a_choice_of_cells_in_one_line(tmp_path):
    words = ["reproduce", "all", "--only", "labels=10", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "--only" in line
    assert not (tmp_path / "out").exists()
