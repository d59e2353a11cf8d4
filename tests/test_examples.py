"""The examples of the gallery run, and there is one for every model."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from atoll.estimators import MODELS

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/plot_*.py"))


def name_of(script):
    return f"{script.parent.name}/{script.stem}"


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_the_example_runs(script, tmp_path):
    # In a process and a folder of its own: an example may write files and set up matplotlib.
    run = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_the_example_opens_with_a_title_and_draws(script):
    source = script.read_text(encoding="utf-8")
    title, underline, *_ = ast.get_docstring(ast.parse(source)).splitlines()
    assert underline == "=" * len(title)
    assert "plt.subplots(" in source


def test_every_section_of_the_gallery_has_a_heading_and_an_example():
    sections = [folder for folder in EXAMPLES.iterdir() if folder.is_dir()]
    assert {s.name for s in sections} == {"1-quickstart", "2-guides", "3-papers"}
    for section in (EXAMPLES, *sections):
        assert (section / "GALLERY_HEADER.rst").is_file(), section
    assert {script.parent for script in SCRIPTS} == set(sections)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_model_has_an_example_in_the_gallery_or_on_a_page(model):
    pages = (ROOT / "docs" / "models").glob("*.md")
    found = any(f"{model.__name__}(" in s.read_text(encoding="utf-8") for s in (*SCRIPTS, *pages))
    assert found, f"show {model.__name__}(…) in a block of Python on its page, or in examples/"
