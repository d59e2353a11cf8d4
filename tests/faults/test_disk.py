"""A disk that is full, a folder that vanished in the middle of work, or one that is read-only."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import program
from atoll.core import checkpoints, files
from atoll.core.checkpoints import CheckpointNotWritten
from atoll.estimators import (
    DPMixtureClassifier,
    ProbitGPClassifier,
    SSGPClassifier,
    save_model,
)

X = np.random.default_rng(0).normal(size=(12, 2))
Y = ["a", "b", None] * 4
FEW = {"n_warmup": 2, "n_samples": 4, "random_state": 0}
MODELS = {
    "chains": lambda at: ProbitGPClassifier(n_chains=1, checkpoint=at, **FEW),
    "SSGP": lambda at: SSGPClassifier(inference="mcmc", selection=None, checkpoint=at, **FEW),
    "EM": lambda at: DPMixtureClassifier(
        n_components=2, n_folds=0, max_iter=400, random_state=0, checkpoint=at
    ),
}
MODEL = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
UNMIXED = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def full_disk(monkeypatch):
    """Every file that is written in place of another finds no room."""

    def no_room(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "replace", no_room)


@MODEL
@UNMIXED
def test_a_full_disk_costs_the_checkpoint_and_not_the_fit(make, tmp_path, monkeypatch, full_disk):
    monkeypatch.setattr(checkpoints, "SECONDS", -1.0)
    with pytest.warns(CheckpointNotWritten, match=r"\(No space left on device\); the run goes on"):
        fitted = make(tmp_path / "checkpoint").fit(X, Y)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    monkeypatch.undo()
    np.testing.assert_array_equal(fitted.predict_proba(X), make(None).fit(X, Y).predict_proba(X))


@MODEL
@UNMIXED
def test_a_folder_that_vanished_costs_the_checkpoint_and_not_the_fit(make, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", -1.0)
    folder = tmp_path / "checkpoint"
    kept = checkpoints.write_arrays

    def vanish(path, arrays):
        shutil.rmtree(folder, ignore_errors=True)
        kept(path, arrays)

    monkeypatch.setattr(checkpoints, "write_arrays", vanish)
    monkeypatch.setattr("atoll.inference.chains.write_arrays", vanish)
    with pytest.warns(CheckpointNotWritten, match="does not exist; create it"):
        make(folder).fit(X, Y)


def test_a_model_that_finds_no_room_leaves_the_one_before(tmp_path, full_disk):
    path = tmp_path / "model.atoll"
    before = b"atoll model, the one before"
    path.write_bytes(before)
    with pytest.raises(OSError, match="No space left"):
        save_model(LogisticRegression(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_atoll_fit_on_a_full_disk_is_one_line(tmp_path, full_disk):
    pd.DataFrame(X, columns=["u", "v"]).assign(kind=Y).to_csv(tmp_path / "data.csv", index=False)
    result = program.run(
        "fit", tmp_path / "data.csv", "--target", "kind", "--out", tmp_path / "model.atoll",
        "--model", "laplacian-rls", "--set", "selection=none",
    )  # fmt: skip
    assert result.exit_code == 2
    *before, last = result.stderr.splitlines()
    assert last == (
        f"atoll: cannot write '{tmp_path / 'model.atoll'}': no space left on device; make room, or "
        "choose another path."
    )
    assert all("fitted in" in line for line in before)  # said where a fit takes longer
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


# A folder that is read-only -------------------------------------------------------------------


@pytest.fixture
def read_only():
    """Yield a folder in which nobody but root may write."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    assert list(folder.iterdir()) == []
    folder.rmdir()


def as_nobody(work):
    """Run a function as a user who is not root."""
    if os.geteuid() != 0:
        work()
        return
    os.setresuid(65534, 65534, 0)
    try:
        work()
    finally:
        os.setresuid(0, 0, 0)


needs_users = pytest.mark.skipif(not hasattr(os, "setresuid"), reason="needs users")


@MODEL
@needs_users
def test_a_checkpoint_in_a_read_only_folder_is_refused_in_words(make, read_only):
    def work():
        for path in (read_only, read_only / "checkpoint"):
            with pytest.raises(ValueError, match=r"checkpoint=.*choose another path"):
                make(path).fit(X, Y)

    as_nobody(work)


@needs_users
def test_a_model_in_a_read_only_folder_is_refused_in_words(read_only):
    def work():
        with pytest.raises(ValueError, match="is not writable; choose another path"):
            save_model(LogisticRegression(), read_only / "model.atoll")

    as_nobody(work)


@needs_users
def test_atoll_fit_into_a_read_only_folder_is_one_line(read_only):
    open_to_all = Path(tempfile.mkdtemp())  # as tmp_path is not
    open_to_all.chmod(0o755)
    rows = pd.DataFrame(X, columns=["u", "v"]).assign(kind=Y)
    rows.to_csv(open_to_all / "data.csv", index=False)

    def work():
        said = program.fail(
            "fit", open_to_all / "data.csv", "--target", "kind", "--out",
            read_only / "model.atoll", "--model", "laplacian-rls",
        )  # fmt: skip
        assert "is not writable; choose another path" in said

    as_nobody(work)
    shutil.rmtree(open_to_all)
