from __future__ import annotations

import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from atoll.cli.commands import app
from atoll.core.extras import MissingExtraError
from atoll.core.labels import parse_labels
from atoll.core.tables import read_table
from atoll.estimators.held_out import score
from atoll.plotting import palette
from atoll.reports import demo
from atoll.reports.demo import (
    COMPARED,
    FULL,
    QUICK,
    make_problem,
    run_demo,
    score_table,
    typical_draw,
)

TINY = QUICK._replace(n_train=24, n_test=50, n_repeats=3, resolution=8)


@pytest.fixture
def _without_jax(monkeypatch):
    def import_extra(module):
        if module == "jax":
            raise MissingExtraError('Install it with: pip install "atoll[scale]"')
        return __import__(module, fromlist=["*"])

    monkeypatch.setattr(demo, "import_extra", import_extra)


@pytest.mark.usefixtures("_without_jax")
def test_the_demo_shows_a_table_a_picture_a_report_and_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "QUICK", TINY)
    lines: list[str] = []
    files = run_demo(tmp_path, quick=True, n_jobs=1, say=lines.append)
    said = "\n".join(lines)
    assert "Without the islands: Install" in said
    assert said.index("Drawing the picture") < said.index("Writing the report")
    for name in (*COMPARED, "error", "log-loss", "Brier", "calibration", *map(str, files)):
        assert name in said
    assert files.picture.read_bytes().startswith(b"\x89PNG")
    assert files.report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    labels = parse_labels(read_table(files.table)["label"])
    assert (len(labels.codes), labels.n_labelled) == (24, 6)
    assert sorted(tmp_path.iterdir()) == sorted(files)

    again: list[str] = []
    run_demo(tmp_path, quick=True, n_jobs=1, say=again.append)
    assert again == lines


def test_the_command_passes_its_options_on(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(demo, "run_demo", lambda out, **options: calls.append((out, options)))
    folder = tmp_path / "new" / "folder"
    arguments = ["demo", "--out", str(folder), "--seed", "3", "--quick"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert calls == [(folder, {"seed": 3, "quick": True})]
    assert folder.is_dir()


def test_an_unwritable_place_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_fit_all", None)
    with pytest.raises(ValueError, match="does not exist"):
        run_demo(tmp_path / "absent")


def test_both_models_see_the_same_two_labels_a_class_and_no_test_row():
    problem = make_problem(TINY, np.random.default_rng(0))
    labels = parse_labels(problem.y)
    assert labels.counts.tolist() == [2, 2, 2]
    assert not {tuple(row) for row in problem.X} & {tuple(row) for row in problem.X_test}


def test_the_draw_shown_is_the_median_one():
    sure = [[0.9, 0.1]] * 10
    scores = [score(sure, [0] * right + [1] * (10 - right)) for right in range(11)]
    assert typical_draw([scores[5]] * 5, [scores[i] for i in (10, 4, 7, 6, 9)]) == 2
    assert typical_draw([scores[5]] * 2, [scores[8], scores[7]]) == 1


def test_the_table_gives_means_standard_errors_and_who_won():
    right, wrong = ([[1.0, 0.0]], [0]), ([[0.25, 0.75]], [0])
    supervised, twin = [score(*wrong), score(*wrong)], [score(*right), score(*wrong)]
    text = "\n".join(score_table(supervised, twin))
    assert "1.000 ± 0.000" in text
    assert "error fell in 1 of 2 draws, by 0.500 ± 0.500" in text


def test_no_cross_is_cut_off(tmp_path, monkeypatch):
    problem = make_problem(TINY, np.random.default_rng(0))
    far = problem._replace(X_test=4.0 * problem.X_test)
    model = demo._fit(COMPARED[1], far, 0)
    figures = []
    monkeypatch.setattr(palette, "new_figure", lambda *size: figures.append(Figure()) or figures[0])
    demo._draw(tmp_path / "demo.png", far, {COMPARED[1]: model}, TINY)
    (axes,) = figures[0].axes
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    x, y = far.X_test.T
    assert left < x.min() < x.max() < right
    assert bottom < y.min() < y.max() < top


@pytest.mark.slow
def test_the_full_demo_converges_and_unlabelled_rows_lower_error_and_log_loss(tmp_path):
    problems = [make_problem(FULL, rng) for rng in np.random.default_rng(0).spawn(5)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = [[demo._fit(name, problem, 0) for problem in problems] for name in COMPARED]
        islands = demo._islands(problems[0], FULL, 0, print)
    assert islands.diagnostics_["converged"]
    assert all(model.diagnostics_["converged"] for model in fitted[0])
    assert all(model.diagnostics_["mixed"] for model in fitted[1])
    supervised, default = (
        [demo._score(model, problem) for model, problem in zip(models, problems)]
        for models in fitted
    )
    assert np.mean([s.accuracy for s in default]) > np.mean([s.accuracy for s in supervised])
    assert np.mean([s.log_loss for s in default]) < 0.5 * np.mean([s.log_loss for s in supervised])
    models = {"probit-gp": fitted[0][0], "atoll": fitted[1][0], "archipelago": islands}
    demo._draw(tmp_path / "demo.png", problems[0], models, FULL._replace(resolution=20))
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
