"""Work that is killed goes on to the same answer; a few kills of each kind of work.

`make faults` has two hundred, `tests/faults/kills.py` says how.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from kills import JOBS, begin, finish, try_job

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

QUICK = ("chains of the probit", "EM of the mixture", "labelling")
JOB = pytest.mark.parametrize(
    "job",
    [pytest.param(j, id=n, marks=[] if n in QUICK else pytest.mark.slow) for n, j in JOBS.items()],
)


@JOB
def test_killed_work_goes_on_to_the_same_answer(job, tmp_path):
    assert try_job(job, tmp_path, 2, np.random.default_rng(0)).same


@JOB
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
