from __future__ import annotations

import errno
import json
import os

import numpy as np
import pytest

from atoll.app.store import Event, LabelLog, Subject, check_class_name

SUBJECT = Subject("kind", 50, "digest")


def random_events(rng, n):
    """Events in an order that a person could bring about."""
    events, done, undone = [], 0, 0
    for _ in range(n):
        kind = rng.choice(["label", "skip", "unsure", "class", "undo", "redo"], p=[0.5, *[0.1] * 5])
        if (kind == "undo" and not done) or (kind == "redo" and not undone):
            kind = "label"
        row = int(rng.integers(50)) if kind in ("label", "skip", "unsure") else None
        label = f"class {rng.integers(4)} é\u2028" if kind in ("label", "class") else None
        events.append(Event(str(kind), row, label, at="2026-01-01T00:00:00+00:00"))
        done += {"undo": -1, "class": 0}.get(kind, 1)
        undone = {"undo": undone + 1, "redo": undone - 1, "class": undone}.get(kind, 0)
    return events


@pytest.fixture
def no_sync(monkeypatch):
    """Hundreds of files are not put through to the disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def fill(path, events):
    with LabelLog(path, SUBJECT) as log:
        for event in events:
            log.append(event)
    return log


def test_a_file_cut_at_any_byte_loses_the_last_line_at_most(tmp_path, no_sync):
    path = tmp_path / "log.jsonl"
    events = random_events(np.random.default_rng(), 5)
    whole = []  # what holds after each event
    with LabelLog(path, SUBJECT) as log:
        starts = [path.stat().st_size]
        whole.append(dict(log.answers.given))
        for event in events:
            log.append(event)
            starts.append(path.stat().st_size)
            whole.append(dict(log.answers.given))
    content = path.read_bytes()
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        # A line that lacks only its end is whole.
        n_kept = sum(start - 1 <= cut for start in starts[1:])
        with LabelLog(path, SUBJECT) as log:
            assert log.answers.given == whole[n_kept]
            is_loss = cut > starts[0] and cut not in starts and cut + 1 not in starts
            assert (log.remark is not None) == is_loss
            log.append(Event("label", 7, "after"))
        with LabelLog(path, SUBJECT) as log:  # what comes after the cut is kept as well
            assert log.remark is None
            assert log.answers.given[7].label == "after"


def test_the_state_after_reading_equals_that_of_the_session(tmp_path, no_sync):
    for trial in range(20):
        path = tmp_path / f"{trial}.jsonl"
        written = fill(path, random_events(np.random.default_rng(), 40)).answers
        with LabelLog(path, SUBJECT) as log:
            read = log.answers
            assert vars(read) == vars(written)


def test_undo_and_redo_are_inverse(tmp_path):
    with LabelLog(tmp_path / "log.jsonl", SUBJECT) as log:
        for row, label in [(1, "a"), (2, "b"), (1, "c")]:
            log.append(Event("label", row, label))
        before = dict(log.answers.given)
        assert log.append(Event("undo")).row == 1
        assert log.answers.given[1].label == "a"
        log.append(Event("undo"))
        assert set(log.answers.given) == {1}
        log.append(Event("redo"))
        log.append(Event("redo"))
        assert log.answers.given == before
        with pytest.raises(ValueError, match="nothing to redo"):
            log.append(Event("redo"))


def test_a_new_answer_ends_what_could_be_redone(tmp_path):
    with LabelLog(tmp_path / "log.jsonl", SUBJECT) as log:
        log.append(Event("label", 1, "a"))
        log.append(Event("undo"))
        log.append(Event("label", 2, "b"))
        assert log.answers.next_redo == 0
        assert set(log.answers.given) == {2}


def test_a_damaged_last_line_is_said_and_the_rest_kept(tmp_path):
    path = tmp_path / "log.jsonl"
    fill(path, [Event("label", 1, "a"), Event("label", 2, "b")])
    path.write_bytes(path.read_bytes()[:-9] + b"\xff\x00?\n")
    with LabelLog(path, SUBJECT) as log:
        assert set(log.answers.given) == {1}
        assert "was damaged and is lost" in log.remark
        assert "the 1 before it are kept" in log.remark


def test_a_damaged_line_amid_others_is_refused_and_nothing_changed(tmp_path):
    path = tmp_path / "log.jsonl"
    fill(path, [Event("label", 1, "a"), Event("label", 2, "b")])
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = lines[0] + b'{"kind": "lab\n' + lines[2]
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"line 2 of .* is damaged"):
        LabelLog(path, SUBJECT)
    assert path.read_bytes() == damaged


def test_a_row_that_is_not_there_is_no_event(tmp_path):
    path = tmp_path / "log.jsonl"
    fill(path, [Event("label", 49, "a")])
    with path.open("a") as file:
        file.write('{"kind": "label", "row": 50, "label": "b"}\n')
    with LabelLog(path, SUBJECT) as log:
        assert set(log.answers.given) == {49}
        assert log.remark is not None


@pytest.mark.parametrize(
    ("subject", "says"),
    [
        (SUBJECT._replace(target="sort"), "labels of the column 'kind'"),
        (SUBJECT._replace(n_rows=51), "labels of other rows"),
        (SUBJECT._replace(fingerprint="other"), "labels of other rows"),
    ],
)
def test_answers_about_other_rows_are_refused(tmp_path, subject, says):
    path = tmp_path / "log.jsonl"
    fill(path, [Event("label", 1, "a")])
    with pytest.raises(ValueError, match=says):
        LabelLog(path, subject)


def test_a_file_that_is_something_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\nit rains\n")
    with pytest.raises(ValueError, match="no file of labels"):
        LabelLog(path, SUBJECT)
    assert path.read_text() == "dear diary\nit rains\n"
    path.write_text(json.dumps({"atoll_labels": 99}) + "\n")
    with pytest.raises(ValueError, match="newer version"):
        LabelLog(path, SUBJECT)


def test_two_writers_are_one_too_many(tmp_path):
    path = tmp_path / "log.jsonl"
    with LabelLog(path, SUBJECT), pytest.raises(ValueError, match="written by another atoll"):
        LabelLog(path, SUBJECT)
    LabelLog(path, SUBJECT).close()


def test_a_full_disk_loses_no_answer_and_is_told(tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    with LabelLog(path, SUBJECT) as log:
        log.append(Event("label", 1, "a"))
        kept, write = path.read_bytes(), os.write

        def half(file, content):
            if len(content) < 5:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(file, content[: len(content) // 2])

        monkeypatch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space left"):
            log.append(Event("label", 2, "b"))
        assert path.read_bytes() == kept
        assert set(log.answers.given) == {1}
        monkeypatch.undo()
        log.append(Event("label", 3, "c"))
    with LabelLog(path, SUBJECT) as log:
        assert set(log.answers.given) == {1, 3}


def test_every_answer_is_synced_before_it_counts(tmp_path, monkeypatch):
    synced = []
    with LabelLog(tmp_path / "log.jsonl", SUBJECT) as log:
        monkeypatch.setattr(os, "fsync", lambda file: synced.append(len(log.answers.given)))
        log.append(Event("label", 1, "a"))
        log.append(Event("skip", 2))
    assert synced == [0, 1]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("x" * 10_000, "10000 characters; at most 100"),
        ("  ", "at least one"),
        ("a\nb", "line breaks"),
    ],
)
def test_a_name_that_is_no_class_is_refused(name, says):
    with pytest.raises(ValueError, match=says) as caught:
        check_class_name(name)
    assert len(str(caught.value)) < 300
