"""Damaged model files and checkpoints are refused in words; `make faults` tries ten thousand."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from damage import faults, many


def test_damaged_files_are_refused_in_words_or_read():
    found = many(40, 0, ("laplacian-rls",))
    assert not faults(found)
    assert sum(found.values()) == 40
    assert any(outcome == "refused" for _, _, outcome in found)
