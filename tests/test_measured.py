"""The measured numbers on pages are those of the result files (`docs/measured.py` writes them)."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "docs" / "measured.py"
spec = importlib.util.spec_from_file_location("measured", SCRIPT)
measured = importlib.util.module_from_spec(spec)
spec.loader.exec_module(measured)

# What a number with a decimal point may be that was not measured: a version, a section, an address.
GIVEN = re.compile(
    r"(?:Python|NumPy|SciPy|scikit-learn|ArviZ|GPy|arviz-stats|atoll|version|sections?|Format)"
    r"[\s|(]*\d[\d.]*\d(?:(?:,| and| to| or) \d[\d.]*\d)*"
    r"|\d+\.\d+\.\d+(?:\.\d+)?|\b3\.1[1-4]\b"
)
WRITTEN = {"docs/papers"}  # by docs/write_papers.py, whole, from docs/results/
# Tables that benchmarks/bench_everyone.py writes from the fits in docs/results/peers.csv.
TABLES = re.compile(r"<!-- begin: ([\w-]+) -->\n\n(.*?)\n\n<!-- end: \1 -->", re.S)
PAGES_OF_FITS = ("peers.md", "ssl-book.md")
CODE = re.compile(r"```.*?```|\$\$.*?\$\$", re.S)


def audited():
    """Return the pages on which every number with a decimal point says where it is from."""
    names = [str(page.relative_to(ROOT)) for page in measured.pages()]
    return [name for name in names if str(Path(name).parent) not in WRITTEN]


every_page = pytest.mark.parametrize(
    "page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in measured.pages()]
)


@every_page
def test_the_numbers_on_the_page_are_those_of_the_result_files(page):
    text = page.read_text(encoding="utf-8")
    assert measured.written(text) == text, "python docs/measured.py writes them"


@every_page
def test_no_comment_cuts_a_table(page):
    """A | between <!-- and --> ends a cell, and the comment is then shown."""
    lines = page.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.lstrip().startswith("|")]
    assert not [row for row in rows if any("|" in c for c in re.findall("<!--.*?-->", row))]


@pytest.mark.parametrize("name", audited())
def test_every_measured_number_says_where_it_is_from(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for known in (TABLES, measured.COPIED, measured.MARKED, CODE):
        text = known.sub("", text)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|\$[^$]*\$", "", text)
    text = re.sub(rf"{measured.NUMBER}<!-- given -->", "", text)
    text = GIVEN.sub("", text)
    assert not re.findall(r"\S*(?<!\w)\d*\.\d+\S*", text)


def rows_of_peers():
    """Return every fit of docs/results/peers.csv, as the benchmark keeps them."""
    with (ROOT / "docs" / "results" / "peers.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            row = {name: cell for name, cell in line.items() if cell}
            for name in set(row) - {"part", "set", "model"}:
                kind = int if name in ("labels", "draw", "rows") else float
                row[name] = kind(row[name])
            if "error" in row:
                row = {"log_loss": None, "brier": None, "ece": None} | row
            yield row


def test_the_tables_of_peers_are_those_of_the_file_of_fits(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    tables = importlib.import_module("_everyone_tables")
    pages = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in PAGES_OF_FITS)
    shown, rows = dict(TABLES.findall("".join(pages))), list(rows_of_peers())
    made = {"cost": tables.cost_table(rows), "nuts": tables.nuts_table(rows)}
    for name, (part, labels, _) in tables.GROUPS.items():
        table = tables.Table(rows, part, labels)
        made[name], made[f"{name}-paired"] = (
            make(table, ()) for make in (tables.main_table, tables.paired_table)
        )
        made[f"{name}-winners"] = tables.winners_table(table)
        made |= {f"{name}-{metric}": tables.sets_table(table, (), metric) for metric in tables.TWO}
    assert set(shown) - set(made) == {"lost"}  # the names of those that were stopped
    decimals = re.compile(r"[−-]?\d*\.\d+")
    for name, text in made.items():
        # The file has five digits a number, so that the last of three may differ by one.
        given, found = ([float(n) for n in decimals.findall(t)] for t in (shown[name], text))
        assert found == pytest.approx(given, abs=1.1e-3), name


TABLE = """# Speed
| model | fast | slow |
| --- | --- | --- |
| **ours** | 0.472 ± 0.01 | 9.1 |
"""


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        (".50<!-- x: Speed / ours / fast -->", ".47<!-- x: Speed / ours / fast -->"),
        ("8<!-- x: Speed / ours / slow -->", "9<!-- x: Speed / ours / slow -->"),
        ("**1.0**<!-- x: ours … ± -->", "**0.0**<!-- x: ours … ± -->"),
    ],
)
def test_a_number_that_differs_from_its_file_is_written_anew(shown, found, monkeypatch):
    monkeypatch.setattr(measured, "source", lambda name: TABLE)
    assert measured.written(shown) == found
    assert measured.written(found) == found


@pytest.mark.parametrize("address", ["Speed / theirs / fast", "Speed / ours / third", "nothing"])
def test_a_comment_that_points_at_nothing_is_an_error(address, monkeypatch):
    monkeypatch.setattr(measured, "source", lambda name: TABLE)
    with pytest.raises(measured.Missing, match="found 0 times"):
        measured.written(f"1.0<!-- x: {address} -->")


def test_a_table_is_copied_whole(monkeypatch):
    monkeypatch.setattr(
        measured, "source", lambda name: "<!-- part: a -->\n| 1 |\n<!-- end of part -->\n"
    )
    page = "<!-- copy: x: a -->\n| 2 |\n<!-- end of copy -->"
    assert measured.written(page) == page.replace("| 2 |", "| 1 |")
