"""Work that is killed goes on to the same answer; a few kills of each kind of work.

`make faults` has two hundred, `tests/faults/kills.py` says how.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import kills
from kills import JOBS, begin, finish

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    # JAX, where an earlier test has loaded it, warns of every fork; those made here do not use it.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
]


def over(quick):
    """Walk over the jobs, of which all but the quick ones are left to the slow tests."""
    return pytest.mark.parametrize(
        "job",
        [
            pytest.param(job, id=name, marks=[] if name in quick else pytest.mark.slow)
            for name, job in JOBS.items()
        ],
    )


@over(quick=("chains of the probit", "labelling"))
def test_killed_work_goes_on_to_the_same_answer(job):
    """In a program of its own: a copy of a process with threads may wait for one for ever."""
    command = [sys.executable, kills.__file__, "--job", job.name, "--kills", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@over(quick=())
def test_two_processes_in_one_folder_do_no_harm(job, tmp_path):
    if job.name == "labelling":
        pytest.skip("the second process is refused: tests/app/test_store.py")
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    alone.mkdir()
    shared.mkdir()
    pids = [begin(job.work, folder) for folder in (alone, shared, shared)]
    for pid, folder in zip(pids, (alone, shared, shared)):
        finish(pid, folder)
    job.whole(shared)
    assert job.answer(shared) == job.answer(alone)
