"""Write the measured numbers of README and docs from the result files that benchmarks left.

    python docs/numbers.py            # write them
    python docs/numbers.py --check    # name those that differ, and exit with 1 if there are any

In a page, a number is followed by a comment, which no reader sees, that says where it is from:

    One iteration takes 0.42<!-- dp_mixture: One EM iteration … atoll --> s.

The first word names a file in benchmarks/results/ (or the path of another, from the root), the rest
is found there once; … stands for anything in between. The number is the first one after it, rounded
to as many decimals as the page shows. A whole table is copied from a part of a result file:

    <!-- copy: peers: crescents -->
    (what is here is replaced)
    <!-- end of copy -->

with `<!-- part: crescents -->` and `<!-- end of part -->` around it in the result file.
"""

from __future__ import annotations

import argparse
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
    return path.read_text(encoding="utf-8")


def value(name: str, words: str) -> Decimal:
    """Return the first number after some words of a result file."""
    parts = [r"\s+".join(re.escape(word) for word in part.split()) for part in words.split("…")]
    pattern = re.compile(r"\s*.*?\s*".join(parts) + rf"[^\d\n.−-]*?({NUMBER})", re.S)
    found = pattern.findall(source(name))
    if len(found) != 1:
        raise Missing(f"{words!r} followed by a number is found {len(found)} times in {name}")
    return Decimal(found[0].replace("−", "-"))


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
