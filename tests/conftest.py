from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


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
