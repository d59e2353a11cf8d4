"""The measured numbers on pages are those of the result files (`docs/numbers.py` writes them)."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "docs" / "numbers.py"
spec = importlib.util.spec_from_file_location("numbers_of_pages", SCRIPT)
numbers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(numbers)

# Pages, and where on them every number with a decimal point has to say where it is from.
AUDITED = {
    "README.md": "## How it compares",
    "docs/proof/mutants.md": "#",
    "docs/proof/faults.md": "#",
}


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in numbers.pages()]
)
def test_the_numbers_on_the_page_are_those_of_the_result_files(page):
    text = page.read_text(encoding="utf-8")
    assert numbers.written(text) == text, "python docs/numbers.py writes them"


@pytest.mark.parametrize("name", AUDITED)
def test_every_measured_number_says_where_it_is_from(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    text = AUDITED[name] + text.split(AUDITED[name], 1)[1].split("\n## Read on")[0]
    for known in (numbers.COPIED, numbers.MARKED, re.compile(r"```.*?```", re.S)):
        text = known.sub("", text)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|<!-- given -->", "", text)
    text = re.sub(rf"{numbers.NUMBER}<!-- given -->", "", text)
    assert not re.findall(r"\S*(?<!\w)\d*\.\d+\S*", text)


def test_a_number_that_differs_from_its_file_is_written_anew(monkeypatch):
    monkeypatch.setattr(numbers, "source", lambda name: "| ours | 0.472 | 9.1 |\n")
    assert numbers.written("takes .50<!-- x: ours --> s") == "takes .47<!-- x: ours --> s"
    assert numbers.written("and 9<!-- x: ours … | --> s").startswith("and 9")
    with pytest.raises(numbers.Missing, match="found 0 times"):
        numbers.written("takes .50<!-- x: theirs --> s")
