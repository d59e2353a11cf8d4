from __future__ import annotations

import io
import re
import zipfile
from typing import Any, NamedTuple

import numpy as np
import pytest

from atoll.core.checkpoints import (
    CheckpointNotWritten,
    checkpoint_in,
    flatten,
    read_arrays,
    unflatten,
    write_arrays,
)


class Inner(NamedTuple):
    path: Any
    count: int


class Outer(NamedTuple):
    x: float
    inner: Inner


STATE = Outer(0.5, Inner(np.arange(3.0), 7))


def test_what_was_kept_is_read_again_and_the_last_one_counts(tmp_path):
    kept = checkpoint_in(tmp_path / "new" / "folder", "mine")
    assert kept.load("sums") is None
    for value in (1.0, 2.0):
        kept.save("sums", {"total": np.full(2, value)})
    assert kept.load("sums")["total"].tolist() == [2.0, 2.0]
    assert [path.name for path in kept.folder.iterdir()] == ["sums.npz"]
    assert checkpoint_in(None, "mine") is None


def test_what_another_problem_kept_is_refused(tmp_path):
    checkpoint_in(tmp_path, "theirs").save("sums", {"total": np.ones(2)})
    with pytest.raises(ValueError, match=r"sums\.npz' belongs to another run"):
        checkpoint_in(tmp_path, "mine").load("sums")


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ValueError, match="cannot be made a folder"):
        checkpoint_in(tmp_path / "file", "mine")


@pytest.mark.parametrize("seed", [None, 3, [1, 2]])
def test_work_that_goes_on_has_the_stream_it_began_with(seed, tmp_path):
    first = checkpoint_in(tmp_path, "mine").generator(np.random.default_rng(seed))
    again = checkpoint_in(tmp_path, "mine").generator(np.random.default_rng(99))
    assert first.random() == again.random()
    for one, other in zip(first.spawn(2), again.spawn(2)):
        assert one.random() == other.random()


def test_a_stream_that_was_drawn_from_goes_on_where_it_was(tmp_path):
    rng = np.random.default_rng(0)
    rng.random(5)
    rng.spawn(1)
    first = checkpoint_in(tmp_path, "mine").generator(rng)
    again = checkpoint_in(tmp_path, "mine").generator(np.random.default_rng(1))
    assert first.random() == again.random()
    assert first.spawn(1)[0].random() == again.spawn(1)[0].random()


def test_a_stream_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match="checkpoint= needs a random_state"):
        checkpoint_in(tmp_path, "mine").generator(np.random.Generator(np.random.Philox(0)))


def test_states_are_taken_apart_and_put_together():
    flat = dict(flatten(STATE))
    assert sorted(flat) == ["inner.count", "inner.path", "x"]
    whole = unflatten(STATE, flat)
    assert type(whole.inner) is Inner
    assert (whole.x, whole.inner.count, whole.inner.path.tolist()) == (0.5, 7, [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    "change",
    [
        {"inner.path": np.arange(3)},
        {"inner.path": np.zeros((3, 1))},
        {"x": np.array(1j)},
        {"inner.path": None},
    ],
    ids=["integers", "a matrix", "complex", "missing"],
)
def test_arrays_that_are_not_those_of_the_state_are_refused(change):
    with pytest.raises(ValueError, match="is missing, or not what it was"):
        unflatten(STATE, dict(flatten(STATE)) | change)


@pytest.mark.parametrize("shape", [(10**10,), (1,), (2, 2), ()])
def test_an_array_of_another_size_than_it_declares_is_refused(shape, tmp_path):
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    with zipfile.ZipFile(tmp_path / "changed.npz", "w") as new:
        new.writestr("x.npy", stream.getvalue() + np.zeros(2).tobytes())
    with pytest.raises(ValueError, match=r"cannot be read \(an array is not of the size"):
        read_arrays(tmp_path / "changed.npz")


def test_objects_and_text_are_refused(tmp_path):
    np.savez(tmp_path / "objects.npz", x=np.array([None, {}], dtype=object))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("objects.npz", "text.npz"):
        with pytest.raises(ValueError, match=r"cannot be read .*delete it to start anew"):
            read_arrays(tmp_path / name)


@pytest.mark.parametrize(
    "fault", [OSError(28, "No space left on device"), ValueError("no place for objects")]
)
def test_what_cannot_be_written_is_said_in_the_words_of_the_system(fault, tmp_path, monkeypatch):
    def full(*_, **__):
        raise fault

    monkeypatch.setattr("atoll.core.checkpoints.np.savez", full)
    words = fault.strerror if isinstance(fault, OSError) else str(fault)
    with pytest.warns(CheckpointNotWritten, match=re.escape(f"could not be written ({words});")):
        write_arrays(tmp_path / "kept.npz", {"a": np.ones(2)})
    assert list(tmp_path.iterdir()) == []
