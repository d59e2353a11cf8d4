"""Every block of code on every page runs: Python, and every `atoll` command of a shell block.

Pages may name files of their reader's. `example_tables` writes them; what would open a page in the
browser, join a cluster or run for hours is told apart from the rest, and checked without it.
"""

from __future__ import annotations

import re
import shlex
import tomllib
import warnings
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import atoll.app.server
import program
from atoll import reproductions
from atoll.reproductions.engine import chosen_cells

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts and "gallery" not in page.parts]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.M | re.S)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)


def blocks(page, language):
    return [text for kind, text in FENCE.findall(page.read_text("utf-8")) if kind == language]


def every_page():
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES]


def pages_with(language):
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if blocks(page, language)
    ]


def example_tables(folder):
    """The tables that pages speak of as the reader's own."""
    rng = np.random.default_rng(0)
    second = np.arange(60) >= 30
    table = pd.DataFrame(
        rng.normal(size=(60, 2)) + 3 * second[:, None], columns=["length", "width"]
    )
    shown = np.arange(60) % 6 == 0
    grade = np.select([table["length"] < 0, table["length"] < 3], ["low", "medium"], "high")
    table.assign(grade=np.where(shown, grade, "")).to_csv(folder / "grades.csv", index=False)
    table.assign(kind=np.where(shown, second + 1, -1)).to_parquet(folder / "measurements.parquet")
    for name, (no, yes) in {"kind": "ab", "ill": ("no", "yes"), "species": "uv"}.items():
        table[name] = np.where(shown, np.where(second, yes, no), "")
    table["trust"] = np.where(np.arange(60) < 20, 0.5, 1.0)
    table["patient"] = [f"p{i // 2}" for i in range(60)]
    table.to_csv(folder / "table.csv", index=False)
    table.drop(columns="ill").to_csv(folder / "new.csv", index=False)
    words = {
        "sea": "boat harbour storm sail tide wind",
        "kitchen": "flour salt bread oven knead yeast",
    }
    texts = [(topic, rng.choice(words[topic].split(), 9)) for topic in words for _ in range(8)]
    pd.DataFrame(
        {
            "review": ["the " + " and the ".join(found) for _, found in texts],
            "verdict": [topic if i % 4 == 0 else "" for i, (topic, _) in enumerate(texts)],
        }
    ).to_csv(folder / "reviews.csv", index=False)
    vectors = pd.DataFrame(rng.normal(size=(40, 8)) + np.outer(np.arange(40) % 2, np.ones(8)))
    vectors.columns = [f"v{i}" for i in range(8)]
    topic = np.where(np.arange(40) < 8, np.where(np.arange(40) % 2, "a", "b"), None)
    vectors.assign(topic=topic).to_parquet(folder / "vectors.parquet")


def nothing_is_run(name, *, quick=False, seed=0, only=MappingProxyType({}), **options):
    """What `atoll reproduce` says of an experiment, without hours of it."""
    chosen_cells(reproductions.find_experiment(name).cells(quick, seed), only)
    return SimpleNamespace(skipped=[], results=[], csv=f"{name}/cells.csv", figure=None, page=name)


@pytest.fixture
def at_the_readers(tmp_path, monkeypatch, hurried):
    """A folder with the reader's tables; no cluster, no hours, and a server that ends at once."""
    monkeypatch.chdir(tmp_path)  # what it writes is not left in the repository
    monkeypatch.setattr(atoll.app.server, "serve", lambda app, listener, started: started())
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    monkeypatch.setattr(reproductions, "run_experiment", nothing_is_run)
    example_tables(tmp_path)


@pytest.mark.parametrize("page", pages_with("python"))
def test_the_python_on_the_page_runs(page, at_the_readers, monkeypatch):
    if any("dask.distributed" in block for block in blocks(page, "python")):
        monkeypatch.setattr("dask.distributed.Client", lambda address: None)
    namespace = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # short runs say that they are short
        warnings.filterwarnings("ignore", module=r"dask\b")  # what it asks of pandas is not ours
        for block in blocks(page, "python"):
            exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", pages_with("sh"))
def test_the_commands_on_the_page_run(page, at_the_readers):
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            check_command(shlex.split(line, comments=True))


def check_command(words):
    """Run a command of atoll; of others see that what they name is there."""
    match words:
        case []:
            pass
        case ["atoll", *arguments]:
            program.succeed(*arguments)
        case ["make", target, *_]:
            assert target in TARGETS
        case ["pip", "install", *wanted]:
            named = [extra for w in wanted for extra in re.findall(r"\[(.*)\]", w)]
            assert set(",".join(named).split(",")) <= {"", *EXTRAS["optional-dependencies"]}
        case _:
            assert Path(words[0]).name == "python", f"what is {words[0]}?"


@pytest.mark.parametrize("page", every_page())
def test_no_code_on_the_page_is_hidden_from_the_tests(page):
    for kind, text in FENCE.findall(page.read_text("utf-8")):
        if kind in ("", "text"):  # what is printed, or a tree of files
            assert not re.search(r"^(atoll [a-z]|import |from \w+ import|pip |make )", text, re.M)
        else:
            assert kind in ("python", "sh") or kind.startswith("{"), kind
            # Calls in a box, such as f(X, cv=5), are words; their page has a block that makes them.
            run = " ".join(blocks(page, "python"))
            for call in re.findall(r"`[^`]*?(\w+)\([^`]*\w=[^`]*\)`", text):
                assert f"{call}(" in run, f"{call} is called in a box and in no block that is run"
