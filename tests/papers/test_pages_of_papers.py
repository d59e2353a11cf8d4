"""The pages of papers say what the files of their cells say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from atoll.reproductions import find_experiment

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "papers").glob("*.md")))
NAMES = sorted(set(re.findall(r"^`atoll reproduce ([a-z][\w-]+)", PAGES, re.M)))

pytest.importorskip("PIL")
spec = importlib.util.spec_from_file_location("write_papers", DOCS / "write_papers.py")
papers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(papers)


def test_every_section_is_written_from_files():
    assert sorted(name for _, _, names in papers.PAPERS.values() for name in names) == NAMES


@pytest.mark.parametrize("stem", papers.PAPERS)
def test_a_page_that_is_written_anew_from_its_files_is_the_same(stem):
    page = (DOCS / "papers" / f"{stem}.md").read_text(encoding="utf-8")
    assert papers.with_texts_from_files(page, papers.PAPERS[stem][2]) == page


def test_a_number_that_differs_from_its_file_is_written_anew():
    stem, names = "dp-mixture", papers.PAPERS["dp-mixture"][2]
    page = (DOCS / "papers" / f"{stem}.md").read_text(encoding="utf-8")
    number = re.search(r"\| 0\.\d+", page).group()
    assert papers.with_texts_from_files(page.replace(number, "| 7.77"), names) == page


@pytest.mark.parametrize("name", NAMES)
def test_a_section_says_how_many_of_its_cells_there_are(name):
    experiment = find_experiment(name)
    command = rf"`atoll reproduce {name}(?: --quick)?`"
    said = re.search(rf"{command}.*?· (\w+)( of the)? (\d+) cells", PAGES)
    path = DOCS / "results" / f"{experiment.cells_name or name}.csv"
    if said is None:  # its full run is kept elsewhere
        assert name == papers.LONG
        return
    n = len(path.read_text(encoding="utf-8").splitlines()) - 1
    assert n == int(said[3] if said[1] == "all" else said[1])
