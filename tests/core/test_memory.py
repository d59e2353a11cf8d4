from __future__ import annotations

import pytest

from atoll.core import memory


def test_what_fits_exactly_is_allowed_and_one_byte_more_refused(monkeypatch):
    limit = 3 * 2**29
    monkeypatch.setattr(memory, "physical_memory", lambda: limit)
    memory.check_memory(limit, what="work", instead="Use less.")
    with pytest.raises(ValueError, match=r"work needs about 1\.5 GiB .* has 1\.5 GiB\. Use less\."):
        memory.check_memory(limit + 1, what="work", instead="Use less.")
    with pytest.raises(ValueError, match="about 2 million GiB"):
        memory.check_memory(1_600_000 * 2**30, what="work", instead="Use less.")
    monkeypatch.setattr(memory, "physical_memory", lambda: None)
    memory.check_memory(10**30, what="work", instead="Use less.")
