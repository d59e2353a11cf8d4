from __future__ import annotations

import os

import pytest

from atoll.core.files import atomic_path, check_writable


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
