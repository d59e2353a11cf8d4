"""Write benchmarks/results/faults.md and seeds.md from what kills, damage, hostile and seeds left.

    python tests/faults/page.py --kills build/kills.csv --damage build/damage.csv \
        --hostile build/hostile --seeds build/seeds

Seeds are a folder with one file for each ATOLL_SEED_SHIFT, N.txt: what pytest said. What is not
named stays as it is.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def table(name: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a table of Markdown as a part that pages copy."""
    lines = [heads, ["---"] * len(heads), *rows]
    body = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    return [f"<!-- part: {name} -->", *body, "<!-- end of part -->", ""]


def hostile(folder: Path) -> list[str]:
    """Return the table of hostile problems, model by model."""
    outcomes: Counter[str] = Counter()
    for path in folder.glob("*.json"):
        outcomes.update(json.loads(path.read_text())["outcomes"])
    total: Counter[str] = Counter()
    for key, count in outcomes.items():
        for model in (key.split()[0], "all"):
            total[f"{model} {key.split()[1]}"] += count
    models = [*sorted({key.split()[0] for key in outcomes}), "all"]
    kinds = ("answered", "refused", "fault")
    rows = []
    for model in models:
        counts = [total[f"{model} {kind}"] for kind in kinds]
        rows.append([model, sum(counts), *counts])
    heads = ["model", "problems", "answered", "refused in words", "faults"]
    return ["## Hostile problems", "", *table("hostile", heads, rows)]


def damage(path: Path) -> list[str]:
    """Return the table of damaged files, by what they were and how they were damaged."""
    counts: Counter[tuple[str, str, str]] = Counter()
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            is_known = line["outcome"] in ("read", "refused")
            outcome = line["outcome"] if is_known else "fault"
            kind = "checkpoint" if line["file"] in ("chains", "EM") else "model"
            counts[kind, line["damage"], outcome] += int(line["count"])
    rows = []
    for kind in ("model", "checkpoint"):
        for how in ("by chance", "on purpose"):
            found = [counts[kind, how, outcome] for outcome in ("refused", "read", "fault")]
            rows.append([kind, how, sum(found), *found])
    heads = ["file", "damaged", "files", "refused in words", "read", "faults"]
    return ["## Damaged files", "", *table("damage", heads, rows)]


def kills(path: Path) -> list[str]:
    """Return the table of kills, by work."""
    with path.open(newline="") as file:
        rows = [[line["job"], int(line["kills"]), line["same"]] for line in csv.DictReader(file)]
    rows.append(["all", sum(row[1] for row in rows), str(all(row[2] == "True" for row in rows))])
    shown = [[job, n, "yes" if same == "True" else "no"] for job, n, same in rows]
    return ["## Kills", "", *table("kills", ["work", "kills", "the same answer"], shown)]


def seeds(folder: Path) -> list[str]:
    """Return the table of runs with other seeds."""
    rows = []
    for path in sorted(folder.glob("*.txt"), key=lambda path: int(path.stem)):
        said = path.read_text()
        numbers = {
            kind: int((re.findall(rf"(\d+) {kind}", said) or ["0"])[-1])
            for kind in ("passed", "failed", "error")
        }
        rows.append([path.stem, numbers["passed"], numbers["failed"] + numbers["error"]])
    return table("seeds", ["ATOLL_SEED_SHIFT", "tests passed", "failed, since mended"], rows)


def with_part(page: str, name: str, text: str) -> str:
    """Return the page with the part of this name taken from a text."""
    part = re.compile(rf"<!-- part: {name} -->.*?<!-- end of part -->", re.S)
    found = part.search(text)
    assert found is not None
    return part.sub(lambda _: found.group(), page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("kills", "damage", "hostile", "seeds"):
        parser.add_argument(f"--{name}", type=Path)
    options = parser.parse_args()
    path = RESULTS / "faults.md"
    page = path.read_text(encoding="utf-8")
    for make in (hostile, damage, kills):
        folder = getattr(options, make.__name__)
        if folder is not None:
            page = with_part(page, make.__name__, "\n".join(make(folder)))
    path.write_text(page, encoding="utf-8")
    if options.seeds is None:
        return
    page = ["# The tests with other seeds", "", "By `ATOLL_SEED_SHIFT=N make test`.", ""]
    page += seeds(options.seeds)
    (RESULTS / "seeds.md").write_text("\n".join(page).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
