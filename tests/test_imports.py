"""What imports what: the one-way rule, the core and the extras, and what is imported late."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from atoll.core.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PYPROJECT = ROOT / "pyproject.toml"
SLOW_TO_IMPORT = ("matplotlib", "pandas", "jax", "arviz", "arviz_stats", "dask")
LINT = (
    "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
)


PROJECT = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
# `atoll.cli.main` asks for typer before it imports the modules beside it.
BEHIND_A_DOOR = {("atoll/cli", "typer")}
# Nothing in atoll imports it: ArviZ reads and writes its files with it.
NOT_IMPORTED = {"h5netcdf"}


def names_of(requirements):
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def run_python(code, *, cwd=ROOT, path=None):
    environment = dict(os.environ) if path is None else os.environ | {"PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True
    )


@cache
def modules_after(code):
    run = run_python(f"{code}\nimport sys\nprint(*sys.modules)")
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.parametrize("slow", SLOW_TO_IMPORT)
def test_import_atoll_leaves_the_slow_libraries_alone(slow):
    assert slow not in modules_after("import atoll")


def test_the_command_starts_without_the_slow_libraries():
    assert modules_after("import atoll.cli.commands").isdisjoint(SLOW_TO_IMPORT)


def test_the_command_ends_without_a_search_for_garbage():
    run = run_python(
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print('frozen:', gc.get_freeze_count() > 0))\n"
        "sys.argv = ['atoll', '--version']\n"
        "from atoll.cli import main; main()"
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.endswith("frozen: True\n")


def test_every_public_name_can_be_had_from_the_package():
    run = run_python("from atoll import *\nimport atoll\nfor n in atoll.__all__: getattr(atoll, n)")
    assert run.returncode == 0, run.stderr


def test_a_name_that_is_not_there_is_an_attribute_error():
    import atoll
    import atoll.estimators

    for module in (atoll, atoll.estimators):
        with pytest.raises(AttributeError, match="no attribute 'PerfectClassifier'"):
            module.PerfectClassifier  # noqa: B018


def test_every_name_of_the_estimators_is_there_and_where_it_is_said_to_be():
    from atoll import estimators

    late = set(estimators.__all__) - {"MODELS", "CLASSIFIERS"}
    assert set(estimators.__all__) <= set(dir(estimators))
    assert late == estimators._PLACES.keys()
    for name, place in estimators._PLACES.items():
        assert getattr(estimators, name).__module__ == place


def test_one_model_is_imported_without_the_others():
    others = {"archipelago", "dp_mixture", "laplacian", "ssgp", "transductive_svm", "graph_gp"}
    found = modules_after("from atoll import AtollClassifier")
    assert "atoll.estimators.atoll" in found
    assert found.isdisjoint(f"atoll.estimators.{name}" for name in others)


TABLE = "x,y,kind\n" + "".join(f"{i},{i % 7},{'ab'[i % 2] if i < 12 else ''}\n" for i in range(40))


def test_the_commands_import_only_what_they_need(tmp_path):
    (tmp_path / "data.csv").write_text(TABLE)
    commands = [
        "fit data.csv --target kind --out m.atoll",
        "predict m.atoll data.csv --out p.csv",
        "next m.atoll data.csv",
    ]
    run = run_python(
        "import sys; from typer.testing import CliRunner; from atoll.cli.commands import app\n"
        f"for command in {commands!r}:\n"
        "    result = CliRunner().invoke(app, command.split())\n"
        "    assert result.exit_code == 0, result.output\n"
        "print(*sys.modules)",
        cwd=tmp_path,
        path=ROOT / "src",
    )
    assert run.returncode == 0, run.stderr
    idle = {"dask", "skops", "matplotlib", "arviz", "jax", "pytest", "pyarrow.parquet"}
    others = {"archipelago", "dp_mixture", "laplacian", "ssgp", "transductive_svm", "graph_gp"}
    idle |= {f"atoll.estimators.{name}" for name in others}
    assert idle & set(run.stdout.split()) == set()


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


# --- the core and the extras ----------------------------------------------------------------------


def nodes_that_run(tree):
    """Every node of a module but those that only a type checker sees."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            waiting += ast.iter_child_nodes(node)


def imported_packages(tree):
    for node in nodes_that_run(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0]


def imported_extras(tree):
    """Packages that a module names in calls of `import_extra`."""
    for node in nodes_that_run(tree):
        match node:
            case ast.Call(func=ast.Name("import_extra"), args=[ast.Constant(module)]):
                yield module.partition(".")[0]


@pytest.fixture(scope="module")
def modules():
    """Path -> syntax tree of every module of the package."""
    paths = sorted((ROOT / "src").rglob("*.py"))
    return {
        path.relative_to(ROOT / "src"): ast.parse(path.read_text(encoding="utf-8"))
        for path in paths
    }


def test_every_import_is_of_the_core_or_by_import_extra(modules):
    core, owners = names_of(PROJECT["dependencies"]), packages_distributions()
    wrong = []
    for path, tree in modules.items():
        for package in set(imported_packages(tree)) - sys.stdlib_module_names - {"atoll"}:
            is_core = core & {canonicalize_name(owner) for owner in owners.get(package, ())}
            is_behind = path.stem != "__init__" and (str(path.parent), package) in BEHIND_A_DOOR
            if not (is_core or is_behind):
                wrong.append(f"{path} imports {package}")
    assert wrong == []


def test_the_walk_over_the_imports_sees_them():
    code = """
if TYPE_CHECKING:
    import pandas
def draw():
    from matplotlib.figure import Figure
    import_extra("dask.array")
"""
    assert list(imported_packages(ast.parse(code))) == ["matplotlib"]
    assert list(imported_extras(ast.parse(code))) == ["dask"]


def test_every_extra_package_is_used_and_is_installed_by_the_extra_it_names(modules):
    used = {package for tree in modules.values() for package in imported_extras(tree)}
    assert used == set(EXTRAS)
    declared = PROJECT["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert (extra.package or package) in names_of(declared[extra.name]), package


def test_no_extra_is_without_code_behind_it():
    extras = {k: v for k, v in PROJECT["optional-dependencies"].items() if k not in ("all", "dev")}
    assert {extra.name for extra in EXTRAS.values()} == set(extras)
    installed = {extra.package or package for package, extra in EXTRAS.items()}
    assert names_of(line for lines in extras.values() for line in lines) == (
        installed | NOT_IMPORTED | {"atoll"}
    )
    (everything,) = map(Requirement, PROJECT["optional-dependencies"]["all"])
    assert (everything.name, everything.extras) == ("atoll", set(extras))
