from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SEED_SHIFT = int(os.environ.get("ATOLL_SEED_SHIFT") or 0)


def pytest_configure(config: Any) -> None:
    if SEED_SHIFT:
        np.random.default_rng = shifted(np.random.default_rng)


def shifted(default_rng: Any) -> Any:
    """Return `default_rng` with every seed that is a number, or numbers, led to another stream."""

    def other_stream(seed: Any = None) -> np.random.Generator:
        if isinstance(seed, int | np.integer | list | tuple | np.ndarray):
            seed = [*np.ravel(seed).tolist(), SEED_SHIFT]
        return default_rng(seed)

    return other_stream


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """With other seeds, leave out what compares with stored numbers of these seeds."""
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


@pytest.fixture(autouse=True)
def _figures_are_closed():
    """Close what pyplot shows: it warns of more than twenty figures."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
