"""The package as it is installed, and what is written about it."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import atoll
from atoll.estimators import CLASSIFIERS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MODULES = [module.name for module in pkgutil.walk_packages(atoll.__path__, "atoll.")]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PIN = re.compile(r"([a-z0-9-]+)==([\w.]+)(?:; python_version (<|>=) \"3\.\d+\")?")


def pinned(name, python):
    """Name -> version that a requirements file gives a Python; every line must pin one."""
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert all(PIN.fullmatch(line) for line in wanted), wanted
    pins = [PIN.fullmatch(line).groups() for line in wanted if applies(line, python)]
    assert len({pin[0] for pin in pins}) == len(pins), f"two versions of a package for {python}"
    return {name: version for name, version, _ in pins}


def applies(line, python):
    marker = Requirement(line).marker
    return marker is None or marker.evaluate({"python_version": python})


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


def needs(name, extras):
    """Distributions that a distribution with these extras needs on this Python, in turn."""
    found, waiting = set(), [(name, frozenset(extras))]
    while waiting:
        name, extras = one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        for wanted in map(Requirement, importlib.metadata.requires(name) or ()):
            marker = wanted.marker
            if not marker or any(marker.evaluate({"extra": e}) for e in extras | {""}):
                waiting.append((canonicalize_name(wanted.name), frozenset(wanted.extras)))
    return {name for name, _ in found}


def test_everything_that_atoll_and_its_tests_need_is_pinned():
    pins = pinned("test.txt", ".".join(map(str, sys.version_info[:2])))
    tools = ("pytest", "pytest-xdist", "hypothesis", "mpmath", "mypy", "ruff", "import-linter")
    needed = needs("atoll", ["all"]).union(*(needs(t, []) for t in (*tools, "hatchling")))
    assert needed - {"atoll"} - set(pins) == set()


def dependencies(project):
    """Name -> versions that atoll takes, with all extras of its users."""
    extras = project["optional-dependencies"]
    lines = project["dependencies"] + [
        line for extra in extras if extra != "dev" for line in extras[extra]
    ]
    return {r.name: r.specifier for r in map(Requirement, lines) if r.name != "atoll"}


def test_the_oldest_versions_that_are_tested_are_the_oldest_that_are_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = pinned("oldest.txt", "3.11")
    for name, allowed in dependencies(project).items():
        (oldest,) = allowed
        assert oldest.operator == ">="
        assert Version(pins[name]) == Version(oldest.version), name


@pytest.mark.parametrize("python", PYTHONS)
def test_every_supported_python_has_a_pin_for_every_dependency(python):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]
    wanted, pins = dependencies(project), pinned("test.txt", python)
    assert {name: pins.get(name) for name in wanted if pins.get(name) not in wanted[name]} == {}


@pytest.mark.parametrize("python", PYTHONS)
def test_no_package_is_pinned_to_two_versions(python):
    tests = pinned("test.txt", python)
    for others in (pinned("docs.txt", python), pinned("browser.txt", python)):
        shared = tests.keys() & others.keys()
        assert {name: tests[name] for name in shared} == {name: others[name] for name in shared}


@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_every_classifier_is_on_a_page(model):
    pages = (ROOT / "docs" / "models").glob("*.md")
    told = re.compile(rf"^# {model.__name__}$|`{model.__name__}`", re.M)
    found = any(told.search(page.read_text(encoding="utf-8")) for page in pages)
    assert found, f"write docs/models/NAME.md with the heading '# {model.__name__}'"


@pytest.mark.parametrize("page", ["README.md", "docs/choosing.md", "docs/reference/index.md"])
def test_a_page_that_names_the_blend_says_where_it_is_imported_from(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    said = (
        r"BlendClassifier`,? of\s`atoll\.comparison`|from atoll\.comparison import BlendClassifier"
    )
    assert re.search(said, text), "write `BlendClassifier` of `atoll.comparison`"


def test_the_citation_names_this_version():
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {atoll.__version__}" in lines
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## (Unreleased: )?{re.escape(atoll.__version__)}\b", changes, re.M)


def test_every_supported_python_is_tested_before_a_merge():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    listed = ", ".join(f'"{python}"' for python in PYTHONS)
    assert f"python: [{listed}]" in workflow
    assert "make test PYTHON=python" in workflow
