"""The measured numbers on pages are those of the result files (`docs/measured.py` writes them)."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "docs" / "measured.py"
spec = importlib.util.spec_from_file_location("measured", SCRIPT)
measured = importlib.util.module_from_spec(spec)
spec.loader.exec_module(measured)

# Pages, and where on them every number with a decimal point has to say where it is from.
AUDITED = {
    "README.md": "## How it compares",
    "docs/proof/mutants.md": "#",
    "docs/proof/faults.md": "#",
}


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in measured.pages()]
)
def test_the_numbers_on_the_page_are_those_of_the_result_files(page):
    text = page.read_text(encoding="utf-8")
    assert measured.written(text) == text, "python docs/measured.py writes them"


@pytest.mark.parametrize("name", AUDITED)
def test_every_measured_number_says_where_it_is_from(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    text = AUDITED[name] + text.split(AUDITED[name], 1)[1].split("\n## Read on")[0]
    for known in (measured.COPIED, measured.MARKED, re.compile(r"```.*?```", re.S)):
        text = known.sub("", text)
    text = re.sub(rf"{measured.NUMBER}<!-- given -->|`[^`]*`|\]\([^)]*\)", "", text)
    assert not re.findall(r"\S*(?<!\w)\d*\.\d+\S*", text)


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
