from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _commands_are_on_trial(hurried, monkeypatch):
    """And not what they call: pictures are drawn and not rendered; the tests of pages do that."""
    for module in ("report", "inference_section"):
        monkeypatch.setattr(
            f"atoll.reports.{module}.png_address", lambda figure: "data:image/png;base64,"
        )
