"""What is shipped: the sdist, the wheel, and the extras that bring the rest."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from atoll.cli import main
from atoll.cli.commands import app
from atoll.core.chunks import DaskRows, RowChunks
from atoll.core.extras import EXTRAS, MissingExtraError, import_extra
from atoll.diagnostics import to_arviz
from atoll.estimators import ArchipelagoClassifier
from atoll.plotting import class_counts
from atoll.reports import write_report

ROOT = Path(__file__).parents[1]
SHIPPED = ("src", "tests", "docs", "examples", "benchmarks", "requirements")
# Made by running things.
NOT_SHIPPED = {"__pycache__", "_build", "_outputs", "gallery", "generated", "output"}


def run(*command, cwd=None, path=None, **variables):
    """Run a command that does not see the package under test, but for `path`."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | variables
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )


def build(kind, project, folder):
    """Build an sdist or a wheel without a network; return the file."""
    done = run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=project)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="session")
def unpacked_sdist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    archive = build("sdist", ROOT, folder)
    with tarfile.open(archive) as file:
        file.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        file.extractall(folder)
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="session")
def wheel(unpacked_sdist, tmp_path_factory):
    return build("wheel", unpacked_sdist, tmp_path_factory.mktemp("wheel"))


def with_what_they_need(names):
    """Distributions by their names, with what these need in turn, without extras."""
    found, waiting = {}, list(names)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in found:
            found[name] = importlib.metadata.distribution(name)
            wanted = map(Requirement, found[name].requires or ())
            waiting += [w.name for w in wanted if not w.marker or w.marker.evaluate({"extra": ""})]
    return found.values()


def link(distributions, folder):
    """Make installed distributions importable from another environment, and nothing beside them."""
    for distribution in distributions:
        for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            (folder / top).symlink_to(Path(distribution.locate_file(top)).resolve())


def new_environment(folder):
    """A virtual environment with nothing in it: its interpreter and its folder of packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    return folder / "bin" / "python", packages


def link_what_is_needed(packages):
    """Make importable what the wheel that is unpacked there says that it needs."""
    (metadata,) = packages.glob("atoll-*.dist-info")
    wanted = map(Requirement, importlib.metadata.PathDistribution(metadata).requires)
    link(with_what_they_need(w.name for w in wanted if not w.marker), packages)


@pytest.fixture(scope="session")
def empty_environment(wheel, tmp_path_factory):
    """The interpreter of an environment with the wheel and what it says that it needs."""
    python, packages = new_environment(tmp_path_factory.mktemp("environment"))
    with zipfile.ZipFile(wheel) as file:
        file.extractall(packages)
    link_what_is_needed(packages)
    return python


@pytest.mark.slow
def test_pip_installs_the_wheel_and_misses_nothing(wheel, tmp_path):
    python, packages = new_environment(tmp_path / "environment")
    pip = (sys.executable, "-m", "pip", "--python", python)
    done = run(*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", wheel)
    assert done.returncode == 0, done.stderr
    link_what_is_needed(packages)
    done = run(*pip, "check")
    assert done.returncode == 0, done.stdout
    assert_needs_its_extra(run(python.with_name("atoll"), "models"))


def test_the_sdist_holds_what_its_tests_need(unpacked_sdist):
    here = {
        file.relative_to(ROOT)
        for folder in SHIPPED
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and NOT_SHIPPED.isdisjoint(file.parts)
    }
    beside = {Path(name) for name in ("Makefile", "pyproject.toml", "README.md", "CHANGELOG.md")}
    assert {str(file) for file in here | beside if not (unpacked_sdist / file).is_file()} == set()


def test_the_wheel_holds_the_labelling_page(wheel):
    pages = {p.name for p in (ROOT / "src" / "atoll" / "app" / "page").iterdir()}
    with zipfile.ZipFile(wheel) as file:
        assert {f"atoll/app/page/{name}" for name in pages} <= set(file.namelist())
    assert {"index.html", "login.html", "app.js", "map.js", "style.css"} <= pages


@pytest.mark.slow
def test_the_sdists_tests_are_collected_from_it_alone(unpacked_sdist):
    done = run(
        *(sys.executable, "-m", "pytest", "--collect-only", "-q", "tests"),
        *("-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"),  # in half the time
        cwd=unpacked_sdist,
        path=unpacked_sdist / "src",
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "tests/test_packaging.py::test_the_sdist_holds" in done.stdout


USE_OF_THE_CORE = """
import importlib.util
import numpy as np
from atoll import GraphGPClassifier, ProbitGPClassifier, load_model, save_model
from atoll.core.extras import EXTRAS
from atoll.datasets import hide_labels, make_crescents

assert [name for name in EXTRAS if importlib.util.find_spec(name)] == []
X, truth = make_crescents(60, random_state=0)
y = hide_labels(truth, per_class=5, marker=None, random_state=0)
graph = GraphGPClassifier(random_state=0).fit(X, y)
assert graph.score(X, truth) > 0.8
chains = ProbitGPClassifier(n_chains=2, n_warmup=20, n_samples=20, random_state=0).fit(X, y)
assert np.isfinite(chains.diagnostics_["r_hat"]["log_likelihood"])
for name, model in {"graph": graph, "chains": chains}.items():
    save_model(model, name + ".atoll")
    assert (load_model(name + ".atoll").predict_proba(X) == model.predict_proba(X)).all()
print("done")
"""


def test_an_estimator_is_fitted_saved_and_loaded_with_the_core_alone(empty_environment, tmp_path):
    done = run(empty_environment, "-W", "ignore", "-c", USE_OF_THE_CORE, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


def assert_needs_its_extra(done):
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr == (
        "atoll: The command line needs typer, which is not installed. Install it with: "
        'pip install "atoll[cli]"\n'
    )


def test_the_command_without_its_extra_says_what_to_install(empty_environment):
    assert_needs_its_extra(run(empty_environment, "-m", "atoll", "models"))


def test_a_package_that_is_there_is_imported():
    assert import_extra("matplotlib.figure").Figure.__module__ == "matplotlib.figure"


@pytest.mark.parametrize("package", EXTRAS)
def test_a_missing_package_is_named_with_the_command_that_installs_it(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as caught:
        import_extra(f"{package}.part")
    message = str(caught.value)
    named = EXTRAS[package].package or package
    assert f"needs {named}, which is not installed" in message
    assert message.endswith(f'pip install "atoll[{EXTRAS[package].name}]"')
    assert len(message.splitlines()) == 1


def test_a_package_that_lacks_something_itself_keeps_its_own_error(monkeypatch, tmp_path):
    (tmp_path / "usearch.py").write_text("import a_package_that_nobody_has")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "usearch", raising=False)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_nobody_has") as caught:
        import_extra("usearch")
    assert not isinstance(caught.value, MissingExtraError)


USES = {
    "arviz": lambda path: to_arviz({"a": np.zeros((2, 4))}),
    "jax": lambda path: ArchipelagoClassifier(inference="vi").fit(np.eye(3), ["a", "b", None]),
    "dask": lambda path: DaskRows(np.zeros((2, 1)), [0, 1]),
    "matplotlib": lambda path: class_counts([3, 1], ["yes", "no"]),
    "jinja2": lambda path: write_report(None, [[0.0]], [0], path / "report.html"),
    "pandas": lambda path: list(RowChunks.from_csv(path / "rows.csv", target="y").make()),
    "pyarrow": lambda path: list(RowChunks.from_parquet(path / "rows.csv", target="y").make()),
}


@pytest.mark.parametrize("package", USES)
def test_a_use_from_python_names_the_missing_package(package, tmp_path, monkeypatch):
    (tmp_path / "rows.csv").write_text("x,y\n1,0\n")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=f"needs {package}"):
        USES[package](tmp_path)


COMMANDS = {
    "demo without matplotlib": ("matplotlib", "demo --out out"),
    "demo without jinja2": ("jinja2", "demo --out out"),
    "reproduce without matplotlib": ("matplotlib", "reproduce rogers-fig15 --quick --out out"),
    "fit without pandas": ("pandas", "fit rows.csv --target y --out model.atoll"),
    "datasets make without pandas": ("pandas", "datasets make crescents --out new.csv"),
    "label without starlette": ("starlette", "label rows.csv --target z"),
    "label without uvicorn": ("uvicorn", "label rows.csv --target z"),
    "predict without pyarrow": ("pyarrow", "predict model.atoll rows.csv --out new.parquet"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_names_the_missing_package_in_one_line(case, tmp_path, monkeypatch):
    package, arguments = COMMANDS[case]
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("x,y\n1,0\n2,1\n")
    Path("model.atoll").touch()
    monkeypatch.setitem(sys.modules, package, None)
    done = CliRunner().invoke(app, arguments.split())
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("atoll: ")
    assert f" needs {package}, " in line
    assert line.endswith(f'pip install "atoll[{EXTRAS[package].name}]"')


def test_main_without_typer_leaves_with_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith('pip install "atoll[cli]"')
