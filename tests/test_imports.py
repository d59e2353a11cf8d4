"""What imports what: the one-way rule, and what `import atoll` leaves alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = ROOT / "pyproject.toml"
SLOW_TO_IMPORT = ("matplotlib", "pandas", "jax", "arviz", "dask")
LINT = (
    "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
)


def run_python(code, *, cwd=ROOT, path=None):
    environment = dict(os.environ) if path is None else os.environ | {"PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True
    )


def modules_after(code):
    run = run_python(f"{code}\nimport sys\nprint(*sys.modules)")
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.parametrize("slow", SLOW_TO_IMPORT)
def test_import_atoll_leaves_the_slow_libraries_alone(slow):
    assert slow not in modules_after("import atoll")


def test_the_command_starts_without_the_slow_libraries():
    assert modules_after("import atoll.cli").isdisjoint(SLOW_TO_IMPORT)


def test_every_public_name_can_be_had_from_the_package():
    run = run_python("from atoll import *\nimport atoll\nfor n in atoll.__all__: getattr(atoll, n)")
    assert run.returncode == 0, run.stderr


def test_a_name_that_is_not_there_is_an_attribute_error():
    import atoll

    with pytest.raises(AttributeError, match="no attribute 'PerfectClassifier'"):
        atoll.PerfectClassifier  # noqa: B018


def test_imports_go_one_way():
    run = run_python(LINT)
    assert run.returncode == 0, run.stdout + run.stderr


def test_an_import_against_the_rule_is_caught(tmp_path):
    shutil.copytree(ROOT / "src" / "atoll", tmp_path / "atoll")
    shutil.copy(PYPROJECT, tmp_path)
    with (tmp_path / "atoll" / "core" / "files.py").open("a", encoding="utf-8") as file:
        file.write("\nimport atoll.models.probit_gp\n")
    run = run_python(LINT, cwd=tmp_path, path=tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "atoll.core.files -> atoll.models.probit_gp" in run.stdout


def test_every_subpackage_has_its_place_in_the_rule():
    with PYPROJECT.open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    placed = {
        name.strip().removeprefix("atoll.")
        for contract in contracts
        for layer in contract.get("layers", contract.get("source_modules", ()))
        for name in layer.split("|")
    }
    subpackages = {file.parent.name for file in (ROOT / "src" / "atoll").glob("*/__init__.py")}
    assert subpackages == placed
