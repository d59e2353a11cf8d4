from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def coarse_pictures(monkeypatch):
    """Reports are written with small pictures: here commands are on trial."""
    monkeypatch.setattr("atoll.reports.report.MAP_RESOLUTION", 12)
    monkeypatch.setattr("atoll.reports.figures.DOTS_PER_INCH", 40)
