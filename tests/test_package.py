"""The package as it is installed, and what is written about it."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

import atoll
from atoll.estimators import MODELS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES_WITH_CODE = [README, *(ROOT / "docs" / f"{n}.md" for n in ("getting-started", "labels"))]
MODULES = [module.name for module in pkgutil.walk_packages(atoll.__path__, "atoll.")]


def pinned(name):
    """Name -> version of a requirements file; every line must pin one."""
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+", line) for line in wanted), wanted
    return dict(line.split("==") for line in wanted)


def test_the_version_has_one_source():
    assert importlib.metadata.version("atoll") == atoll.__version__


def test_the_package_says_that_it_is_typed():
    assert files("atoll").joinpath("py.typed").is_file()


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_and_class_has_a_docstring(name):
    module = importlib.import_module(name)
    for public, value in vars(module).items():
        is_ours = getattr(value, "__module__", None) == name and not public.startswith("_")
        if is_ours and (inspect.isclass(value) or inspect.isfunction(value)):
            assert value.__doc__, f"{name}.{public}"


def test_every_dependency_is_pinned_for_the_tests():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    names = [re.match(r"[\w-]+", wanted).group().lower() for wanted in project["dependencies"]]
    assert set(names) <= set(pinned("test.txt"))


def test_no_package_is_pinned_to_two_versions():
    tests, docs = pinned("test.txt"), pinned("docs.txt")
    assert {name: tests[name] for name in tests.keys() & docs.keys()} == {
        name: docs[name] for name in tests.keys() & docs.keys()
    }


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_model_has_a_page_and_a_line_in_the_readme(model):
    pages = (ROOT / "docs" / "models").glob("*.md")
    assert any(f"# {model.__name__}" in page.read_text(encoding="utf-8") for page in pages)
    assert model.__name__ in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=lambda page: page.name)
def test_the_python_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what it writes is not left in the repository
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    namespace = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
