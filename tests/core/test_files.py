from __future__ import annotations

import errno
import os
import stat

import pytest

from atoll.core.files import atomic_path, check_writable
from atoll.core.overwriting import MODEL, check_output, holds_learner


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "kept.txt"
    target.write_text("old")

    def write_half():
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["kept.txt"]


def test_success_replaces_the_file_and_keeps_ordinary_permissions(tmp_path):
    target = tmp_path / "new.txt"
    plain = tmp_path / "plain.txt"
    plain.write_text("")
    with atomic_path(target) as temporary:
        temporary.write_text("whole")
        assert temporary.suffix == ".txt"
    assert target.read_text() == "whole"
    assert target.stat().st_mode == plain.stat().st_mode


def test_a_missing_folder_and_a_folder_as_target_are_named(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        check_writable(tmp_path / "nowhere" / "file.csv")
    with pytest.raises(ValueError, match="is a folder"):
        check_writable(tmp_path)


def test_a_device_or_a_pipe_is_neither_replaced_nor_read(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for check in (check_writable, lambda path: check_output(path, MODEL)):
        with pytest.raises(ValueError, match=r"pipe\.csv': it is a device or a pipe, not a plain"):
            check(pipe)
    with pytest.raises(ValueError, match="a device or a pipe"), atomic_path(pipe):
        pass
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert not holds_learner(pipe)  # which would wait for a writer for ever


def test_a_full_disk_is_said_of_the_file_that_was_to_be_written(tmp_path):
    target = tmp_path / "kept.txt"
    target.write_text("old")

    def write_too_much():
        with atomic_path(target):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: .*kept\.txt'"):
        write_too_much()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["kept.txt"]
