"""The claims of Rogers (2014), lecture 4."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.reproductions import find_experiment
from atoll.reproductions.rogers import (
    figure_15_streams,
    true_probability,
    two_gaussians,
)
from atoll.reproductions.tables import estimate_value, group, paired_difference


@pytest.fixture(scope="module")
def figure_15(tmp_path_factory):
    """The quick version, run once."""
    from atoll.reproductions import run_experiment

    return run_experiment(
        "rogers-fig15", out=tmp_path_factory.mktemp("figure_15"), quick=True, progress=False
    )
