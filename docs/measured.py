"""Write the measured numbers of README and docs from the result files that benchmarks left.

    python docs/measured.py            # write them
    python docs/measured.py --check    # name those that differ, and exit with 1 if there are any

In a page, a number is followed by a comment, which no reader sees, that says where it is from: a
file in benchmarks/results/ (or another, by its path from the root), a heading there, and the row
and the column of the first table below it. Further cells at the start of a row may follow after &.

    The error is .047<!-- graph_gp: Leaderboard / atoll / error -->.

A number that is in no table is the first one after some words, which occur once; … stands for
anything in between:

    One iteration takes 0.42<!-- dp_mixture: One EM iteration … atoll --> s.

Numbers are rounded to as many decimals as the page shows. A whole table is copied from a part of a
result file:

    <!-- copy: peers: crescents -->
    (what is here is replaced)
    <!-- end of copy -->

with `<!-- part: crescents -->` and `<!-- end of part -->` around it in the result file.
Tables between `<!-- begin: leaderboard -->` and `<!-- end: leaderboard -->` are written by
`benchmarks/bench_everyone.py`, and the pages of papers by `docs/write_papers.py`, both from files
in docs/results/.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = "benchmarks/results"
NUMBER = r"[−-]?(?:\d+(?:\.\d+)?|\.\d+)"
MARKED = re.compile(rf"({NUMBER})(\s?%?\**)<!--\s*([\w./-]+):\s*(.+?)\s*-->", re.S)
COPIED = re.compile(r"(<!-- copy: ([\w./-]+): ([\w -]+) -->\n)(.*?)(<!-- end of copy -->)", re.S)


class Missing(ValueError):
    """A comment points at nothing."""


def pages() -> list[Path]:
    """Return the pages of the documentation, and what is beside it."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if not {"_build", "gallery"} & set(page.parts)]


@cache
def source(name: str) -> str:
    """Return the text of a result file, by its name or its path from the root."""
    path = ROOT / name if "/" in name else ROOT / RESULTS / f"{name}.md"
    if not path.exists():
        raise Missing(f"there is no file {path.relative_to(ROOT)}")
    return MARKED.sub(r"\1\2", path.read_text(encoding="utf-8"))  # a page may be its own source


def value(name: str, address: str) -> Decimal:
    """Return the number at an address of a result file."""
    place = [part.strip() for part in address.split(" / ")]
    found = cells(source(name), *place) if len(place) == 3 else after(source(name), address)
    if len(found) != 1:
        raise Missing(f"{address!r} is found {len(found)} times in {name}")
    return Decimal(found[0].replace("−", "-"))


def cells(text: str, heading: str, row: str, column: str) -> list[str]:
    """Return the first number of every cell that the names fit."""
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines) if re.match(r"#|\*\*", line) and heading in line]
    found = []
    for head in heads:
        rest = lines[head + 1 :]
        first = next((i for i, line in enumerate(rest) if line.startswith("|")), len(rest))
        table = [_cells(line) for line in itertools.takewhile(lambda s: s[:1] == "|", rest[first:])]
        if not table or column not in table[0]:
            continue
        labels = [label.strip() for label in row.split(" & ")]
        for line in table[2:]:
            number = re.search(NUMBER, line[table[0].index(column)])
            if line[: len(labels)] == labels and number:
                found.append(number.group())
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("*", "").replace("`", "") for cell in line.strip("|").split("|")]


def after(text: str, words: str) -> list[str]:
    """Return the first number after every place where the words are."""
    parts = [r"\s+".join(re.escape(word) for word in part.split()) for part in words.split("…")]
    pattern = re.compile(r"\s*.*?\s*".join(parts) + rf"[^\d\n.−-]*?({NUMBER})", re.S)
    return pattern.findall(text)


def shown_as(number: Decimal, shown: str) -> str:
    """Return the number as the page shows numbers: its decimals, its leading zero, its minus.

    Examples
    --------
    >>> shown_as(Decimal("0.5472"), ".55"), shown_as(Decimal("-3"), "−2.0")
    ('.55', '−3.0')
    """
    decimals = len(shown.partition(".")[2])
    text = str(number.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN))
    if re.match(r"[−-]?\.", shown):
        text = text.replace("0.", ".", 1)
    return text.replace("-", "−")


def written(text: str) -> str:
    """Return a page's text with its numbers and copies as the result files have them."""

    def number(match: re.Match[str]) -> str:
        shown, _, name, words = match.groups()
        found = shown_as(value(name, words), shown)
        return found + match.group(0)[len(shown) :] if found != shown else match.group(0)

    def copy(match: re.Match[str]) -> str:
        begin, name, part, _, end = match.groups()
        held = re.findall(
            rf"<!-- part: {re.escape(part)} -->\n(.*?)<!-- end of part -->", source(name), re.S
        )
        if len(held) != 1:
            raise Missing(f"the part {part!r} is found {len(held)} times in {name}")
        return begin + held[0] + end

    return COPIED.sub(copy, MARKED.sub(number, text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    differ = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        try:
            new = written(text)
        except Missing as error:
            differ.append(f"{page.relative_to(ROOT)}: {error}")
            continue
        if new != text:
            lines = zip(text.splitlines(), new.splitlines())
            changed = [f"  {old}\n  is now\n  {now}" for old, now in lines if old != now]
            print(f"{page.relative_to(ROOT)}:", *changed, sep="\n")
            if options.check:
                differ.append(f"{page.relative_to(ROOT)} differs from its result files")
            else:
                page.write_text(new, encoding="utf-8")
    print(*differ, sep="\n")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
