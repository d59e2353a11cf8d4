"""The registry: what every experiment owes its reader, and how one is found."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import re
from pathlib import Path

import pytest

from atoll import reproductions
from atoll.reproductions import Experiment, find_experiment, list_experiments, run_experiment
from atoll.reproductions.engine import check_cells

every_experiment = pytest.mark.parametrize(
    "experiment", list_experiments(), ids=lambda experiment: experiment.name
)


def test_every_experiment_written_is_registered():
    for module in pkgutil.iter_modules(reproductions.__path__, "atoll.reproductions."):
        for written in vars(importlib.import_module(module.name)).values():
            if isinstance(written, Experiment):
                assert written in list_experiments(), f"{written.name} is not in EXPERIMENTS"


def test_no_two_experiments_share_a_name():
    names = [experiment.name for experiment in list_experiments()]
    assert len(set(names)) == len(names)


@every_experiment
def test_an_experiment_says_what_it_is_and_what_the_paper_shows(experiment):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", experiment.name)
    assert len(experiment.title) > 10
    assert re.search(r"\b(19|20)\d\d\b", experiment.paper), "the paper's year"
    assert len(experiment.claim) > 20
    assert "\n" not in experiment.title + experiment.paper + experiment.claim


@every_experiment
def test_the_quick_cells_are_a_smaller_list_and_both_follow_the_seed(experiment):
    for seed in (0, 1):
        quick = check_cells(experiment, experiment.cells(True, seed))
        full = check_cells(experiment, experiment.cells(False, seed))
        assert 0 < len(quick) < len(full)
        assert quick == experiment.cells(True, seed)
        assert full == experiment.cells(False, seed)
    assert experiment.cells(True, 0) != experiment.cells(True, 1)


@every_experiment
def test_a_cell_can_be_run_by_another_process(experiment):
    assert pickle.loads(pickle.dumps(experiment.run_cell)) is experiment.run_cell


@every_experiment
def test_the_paper_s_claim_has_a_test(experiment):
    papers = Path(__file__).parents[1] / "papers"
    assert any(experiment.name in path.read_text() for path in papers.glob("test_*.py"))


def test_an_experiment_is_found_by_its_name():
    for experiment in list_experiments():
        assert find_experiment(experiment.name) is experiment


def test_every_experiment_that_a_page_names_is_there_and_every_one_is_named():
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *root.glob("benchmarks/**/*.md")]
    texts = [page.read_text(encoding="utf-8") for page in pages if "_build" not in page.parts]
    command = r"(?:atoll reproduce |run_experiment\(\")([a-z][\w-]+)"
    found = {name for text in texts for name in re.findall(command, text)}
    assert found - {"all"} == {experiment.name for experiment in list_experiments()}


@pytest.mark.parametrize("name", ["rogers-fig51", "rogers", "Rogers-Fig15", "", "x"])
def test_an_unknown_name_is_refused_with_those_that_there_are(tmp_path, name):
    with pytest.raises(ValueError, match="is not an experiment") as refusal:
        run_experiment(name, out=tmp_path / "out")
    assert repr(name) in str(refusal.value)
    for experiment in list_experiments():
        assert experiment.name in str(refusal.value)
    assert not (tmp_path / "out").exists()


def test_a_near_miss_is_matched_to_its_neighbour():
    with pytest.raises(ValueError, match="did you mean 'rogers-fig15'"):
        find_experiment("rogers_fig15")


@every_experiment
def test_an_experiment_is_on_its_paper_s_page(experiment):
    docs = Path(__file__).parents[2] / "docs"
    pages = [*(docs / "papers").glob("*.md"), docs / "ssl-book.md"]
    command = re.compile(rf"atoll reproduce {experiment.name}(?![\w-])")
    assert any(command.search(page.read_text(encoding="utf-8")) for page in pages)


def test_kept_pictures_of_results_are_small():
    pictures = list((Path(__file__).parents[2] / "docs" / "results").glob("*.png"))
    assert pictures
    assert {p.name for p in pictures if p.stat().st_size > 100_000} == set()


def test_an_experiment_shows_itself_in_words():
    shown = repr(list_experiments()[0])
    assert shown.startswith("archipelago-fig1: ")
    assert "About 35 s of one core; 2 s with quick=True." in shown
    assert "<function" not in shown


def test_a_wrong_name_is_answered_before_a_folder_is_asked_for():
    with pytest.raises(ValueError, match=r"did you mean 'rogers-fig15'"):
        run_experiment("rogers-15")
