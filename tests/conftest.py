from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # as recorded numbers were found, to their last digits

import numpy as np  # noqa: E402
import pytest  # noqa: E402

LONG = Path(__file__).with_name("long.txt")
SEED_SHIFT = int(os.environ.get("ATOLL_SEED_SHIFT") or 0)


def pytest_configure(config: Any) -> None:
    os.environ.pop("COLUMNS", None)  # a width that runs in several processes set for all of them
    if SEED_SHIFT:
        np.random.default_rng = shifted(np.random.default_rng)


def shifted(default_rng: Any) -> Any:
    """Return `default_rng` with every seed that is a number, or numbers, led to another stream."""

    def other_stream(seed: Any = None) -> np.random.Generator:
        if isinstance(seed, int | np.integer | list | tuple | np.ndarray):
            seed = [*np.ravel(seed).tolist(), SEED_SHIFT]
        return default_rng(seed)

    return other_stream


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Mark long tests; with other seeds, leave out what compares with stored numbers of these."""
    long = set(LONG.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.slow)
    if SEED_SHIFT:
        fixed = [item for item in items if item.get_closest_marker("fixed_seed")]
        items[:] = [item for item in items if item not in set(fixed)]
        config.hook.pytest_deselected(items=fixed)


@pytest.fixture(scope="session")
def data_home() -> Path:
    """The folder of data sets that ATOLL_DATA names; the test is skipped where there is none."""
    folder = os.environ.get("ATOLL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("ATOLL_DATA names no folder with the papers' data sets")
    return Path(folder)


@pytest.fixture
def hurried(monkeypatch: Any) -> None:
    """Default classifiers make few sweeps, reports small pictures: for tests of what is around."""
    from walking import QUICK, QUICK_AVERAGE

    monkeypatch.setattr("atoll.estimators.graph_gp.RECIPE", QUICK)
    monkeypatch.setattr("atoll.estimators.atoll.AVERAGE_RECIPE", QUICK_AVERAGE)
    monkeypatch.setattr("atoll.estimators.display.MAP_RESOLUTION", 12)
    monkeypatch.setattr("atoll.reports.report.MAP_RESOLUTION", 12)
    monkeypatch.setattr("atoll.reports.figures.DOTS_PER_INCH", 40)


@pytest.fixture
def at_a_terminal(capsys: Any, monkeypatch: Any) -> Any:
    """Progress as at a terminal, and what it wrote there."""
    for user in ("atoll.core.progress", "atoll.estimators.shell"):
        monkeypatch.setattr(f"{user}.is_watched", lambda: True)
    return capsys


@pytest.fixture(autouse=True)
def _figures_are_closed():
    """Close what pyplot shows: it warns of more than twenty figures."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
