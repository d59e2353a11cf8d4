from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _commands_are_on_trial(hurried):
    """And not what they call."""
