from __future__ import annotations

import io
import sys
import threading
import types

import pytest
import tqdm.auto

from atoll.core import progress
from atoll.core.progress import (
    ProgressLines,
    done_before,
    in_shown_chunks,
    progress_bar,
    seconds_until_shown,
)


class Clock:
    """Seconds that pass when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(progress.time, "monotonic", found)
    return found


def test_without_a_terminal_there_is_a_line_every_ten_seconds(clock, monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with progress_bar(total=100, desc="chains", unit="sweep", mininterval=0) as bar:
        assert isinstance(bar, ProgressLines)
        for _ in range(100):
            clock.now += 0.25
            bar.update()
            bar.set_postfix({"bound": "1.5"})
    lines = log.getvalue().splitlines()
    assert len(lines) == 2  # at 10 and 20 of 25 seconds
    assert lines[0].startswith("chains:  40%")
    assert "\r" not in log.getvalue()


def test_what_takes_less_than_ten_seconds_writes_nothing(clock, monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    for _ in progress_bar(range(50), mininterval=0):
        clock.now += 0.1
    assert log.getvalue() == ""


def test_lines_do_not_begin_before_their_time(clock, monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with progress_bar(total=100, desc="chains", delay=60.0) as bar:
        for _ in range(80):
            clock.now += 1.0
            bar.refresh()  # as the thread that writes lines does
    assert len(log.getvalue().splitlines()) == 3  # at 60, 70 and 80 seconds


def test_a_terminal_has_a_bar_that_moves(monkeypatch):
    log = io.StringIO()
    log.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", log)
    for _ in progress_bar(range(3), file=log):
        pass
    assert "\r" in log.getvalue()


def test_a_notebook_has_the_bar_that_tqdm_takes_for_notebooks(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())  # no terminal
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", types.ModuleType("zmqshell"))
    with progress_bar(total=3) as bar:
        assert isinstance(bar, tqdm.auto.tqdm)
        assert not isinstance(bar, ProgressLines)


def test_auto_shows_work_of_more_than_ten_seconds_to_who_watches(clock, monkeypatch):
    assert seconds_until_shown("auto") == 60.0  # in a file or a pipe
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    assert seconds_until_shown("auto") == 10.0
    clock.now = 104.0
    assert seconds_until_shown("auto", began=100.0) == 6.0
    assert seconds_until_shown("auto", began=60.0) == 0.0
    assert (seconds_until_shown(True), seconds_until_shown(False)) == (0.0, None)


@pytest.mark.parametrize(("wait", "is_seen"), [(60.0, False), (0.0, True), (None, False)])
def test_a_bar_is_not_seen_before_its_time(at_a_terminal, wait, is_seen):
    assert len(list(in_shown_chunks(3, 2**40, "all rows", wait))) == 3
    assert ("all rows" in at_a_terminal.readouterr().err) is is_seen


def test_lines_take_no_place_below_one_another():
    with ProgressLines(total=1, file=io.StringIO()) as bar:
        assert bar.pos == 0


def test_a_step_that_takes_long_has_its_lines_too(monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.01)
    log, wait = io.StringIO(), threading.Event()
    with ProgressLines(total=3, desc="comparing", file=log):
        for _ in range(1000):  # no step is done meanwhile
            if log.getvalue().count("\n") >= 2:
                break
            wait.wait(0.01)
        beat = [one for one in threading.enumerate() if one.name == "atoll-progress"]
    assert log.getvalue().startswith("comparing:   0%")
    for one in beat:
        one.join(5.0)
        assert not one.is_alive()
    assert log.getvalue().count("\n") >= 2


def test_what_was_done_before_a_bar_began_is_no_part_of_its_rate(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar(total=100, unit="sweep") as bar:
        done_before(bar, 60)
        bar.update(5)
        told = bar.format_meter(**(bar.format_dict | {"elapsed": 10.0, "rate": None}))
    assert "65/100" in told
    assert "2.00s/sweep" in told  # five in ten seconds
