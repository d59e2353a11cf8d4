"""Every block of Python on every page runs, and so does every `atoll` command in a shell block."""

from __future__ import annotations

import re
import shlex
import warnings
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from atoll.cli.commands import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts and "gallery" not in page.parts]


def blocks(page, language):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def pages_with(language, containing=""):
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if any(containing in block for block in blocks(page, language))
    ]


@pytest.mark.parametrize("page", pages_with("python"))
def test_the_python_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what it writes is not left in the repository
    namespace = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # short runs say that they are short
        for block in blocks(page, "python"):
            exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", pages_with("sh", "atoll "))
def test_the_commands_on_the_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["atoll"]:
                result = CliRunner().invoke(app, words[1:], prog_name="atoll")
                assert result.exit_code == 0, f"{line}\n{result.output}"
