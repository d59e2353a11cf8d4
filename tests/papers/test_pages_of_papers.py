"""The pages of papers say what the files of their cells say."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from atoll.reproductions import find_experiment
from atoll.reproductions.engine import Result

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "papers").glob("*.md")))
NAMES = sorted(set(re.findall(r"^`atoll reproduce ([a-z][\w-]+)", PAGES, re.M)))
# Of these the comparison reads arrays of a cell too, such as draws, which no table holds; of table
# 1 of Archipelago the page has the text of benchmarks/results/archipelago.md.
WITH_ARRAYS = {"archipelago-fig4", "archipelago-table1", "rogers-fig21"} | {
    f"ssgp-fig{i}" for i in range(2, 7)
}
# Of these the last digits on the page hang on more than the six that the file has.
WITH_MORE_DIGITS = {"ncnm-fig4", "rogers-fig22"}
FOLLOWING = [name for name in NAMES if name not in WITH_ARRAYS | WITH_MORE_DIGITS]


def value_of(cell):
    """Return a cell of a CSV as what it was written from."""
    if cell in ("true", "false"):
        return cell == "true"
    if cell[:1] in ("{", "["):
        return json.loads(cell)
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell or None


def results_of(name):
    """Return the results that docs/results/ has of an experiment."""
    with (DOCS / "results" / f"{name}.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    at = list(lines[0]).index("status")
    for line in lines:
        cells = [(key, value_of(cell)) for key, cell in line.items()]
        values = {key: value for key, value in cells[at + 1 :] if value is not None}
        yield Result(dict(cells[:at]), values)


@pytest.mark.parametrize("name", FOLLOWING)
def test_the_text_of_a_section_follows_from_its_file(name):
    experiment = find_experiment(name)
    text = experiment.comparison(list(results_of(experiment.cells_name or name))).strip()
    assert re.sub(r"^(#+ )", r"#\1", text, flags=re.M) in PAGES


@pytest.mark.parametrize("name", NAMES)
def test_a_section_says_how_many_of_its_cells_there_are(name):
    experiment = find_experiment(name)
    command = rf"`atoll reproduce {name}(?: --quick)?`"
    said = re.search(rf"{command}.*?· (\w+)( of the)? (\d+) cells", PAGES)
    path = DOCS / "results" / f"{experiment.cells_name or name}.csv"
    if said is None:  # table 1 of Archipelago, whose full run is kept elsewhere
        assert name in WITH_ARRAYS
        return
    n = len(path.read_text(encoding="utf-8").splitlines()) - 1
    assert n == int(said[3] if said[1] == "all" else said[1])
