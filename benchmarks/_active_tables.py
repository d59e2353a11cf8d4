"""Tables and the picture of bench_active.py."""

from __future__ import annotations

import json
from pathlib import Path


def path_of(out, part):
    return Path(out) / f"active_{part}.jsonl"


def read_runs(path):
    """Runs by their tasks; of two of the same task, the later one."""
    if not Path(path).is_file():
        return {}
    records = map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())
    return {json.dumps(r["task"], sort_keys=True): (r["task"], r["row"]) for r in records}


def print_all(out, picture):
    pass
