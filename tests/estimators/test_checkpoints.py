"""EM and the sampler of SSGP: stopped at any moment, they go on to the same bits."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from atoll.core import checkpoints
from atoll.estimators import DPMixtureClassifier, RowChunks, SSGPClassifier
from atoll.estimators.progress import Progress
from atoll.inference import cone_sampling
from atoll.inference.chains import SamplingInterrupted
from atoll.models.dp_mixture import starts

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(2)
Y = np.array(["a", "b", "c", None] * 10, dtype=object)
X = rng.normal(size=(40, 2)) + 2.0 * (np.arange(40)[:, None] % 4)


class Stop(Exception):
    """Stands for a power cut."""


def mixture(**options):
    few = {"n_components": 3, "n_starts": 2, "n_folds": 0, "tol": 0.0, "max_iter": 12}
    return DPMixtureClassifier(**{**few, "random_state": 0, **options})


def sampled(**options):
    few = {"selection": None, "n_warmup": 1, "n_samples": 3, "inference": "mcmc"}
    return SSGPClassifier(**{**few, "random_state": 0, **options})


@pytest.fixture
def eager(monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", -1.0)  # a checkpoint at every iteration
    monkeypatch.setattr(starts, "START_ITERATIONS", 1)  # so that EM itself has work to do


def stop_after(monkeypatch, place, name, n, error):
    """Have the function raise when it is called for the nth time."""
    real, calls = getattr(place, name), []

    def counted(*arguments, **options):
        calls.append(1)
        if len(calls) == n:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(place, name, counted)
    return calls


@pytest.mark.parametrize("inference", ["map", "vb"])
@pytest.mark.parametrize("seed", [0, None])
@pytest.mark.parametrize("n", [1, 5])
def test_em_that_was_cut_goes_on_to_the_same_bits(inference, seed, n, tmp_path, eager, monkeypatch):
    model = mixture(inference=inference, random_state=seed, checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        stop_after(patch, starts.Keeping, "save_at_times", n, Stop)
        with pytest.raises(Stop):
            model.fit(X, Y)
    assert (tmp_path / "em.npz").exists() == (n > 1)
    resumed = model.fit(X, Y)
    again = model.fit(X, Y)  # nothing is left to do
    np.testing.assert_array_equal(resumed.predict_proba(X), again.predict_proba(X))
    np.testing.assert_array_equal(resumed.objectives_, again.objectives_)
    if seed is not None:
        whole = mixture(inference=inference).fit(X, Y)
        np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
        np.testing.assert_array_equal(resumed.objectives_, whole.objectives_)


def test_em_that_goes_on_begins_no_start_anew(tmp_path, eager, monkeypatch):
    mixture(checkpoint=tmp_path).fit(X, Y)
    monkeypatch.setattr(starts, "climb", None)
    longer = mixture(checkpoint=tmp_path, max_iter=20).fit(X, Y)
    assert len(longer.objectives_) > 20


def test_em_interrupted_by_ctrl_c_keeps_what_it_has_and_goes_on(tmp_path, eager, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, Progress, "report", 5, KeyboardInterrupt)
        stopped = mixture(checkpoint=tmp_path).fit(X, Y)
    assert stopped.diagnostics_["interrupted"]
    resumed = mixture(checkpoint=tmp_path).fit(X, Y)
    assert not resumed.diagnostics_["interrupted"]
    np.testing.assert_array_equal(resumed.predict_proba(X), mixture().fit(X, Y).predict_proba(X))


def test_em_of_chunks_goes_on_as_well(tmp_path, eager):
    chunks = RowChunks.from_arrays(X, Y, chunk_rows=20)
    whole = mixture().fit(chunks)
    kept = mixture(checkpoint=tmp_path, max_iter=4).fit(chunks).set_params(max_iter=12).fit(chunks)
    np.testing.assert_array_equal(kept.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize(
    ("rows", "labels", "options"),
    [
        (X + 1e-3, Y, {}),
        (X, np.where(np.arange(40) == 3, "a", Y), {}),
        (X, Y, {"concentration": 3.0}),
        (X, Y, {"random_state": 1}),
    ],
    ids=["rows", "labels", "parameter", "seed"],
)
def test_em_of_another_problem_is_refused(rows, labels, options, tmp_path):
    mixture(checkpoint=tmp_path).fit(X, Y)
    with pytest.raises(ValueError, match="belongs to another run"):
        mixture(checkpoint=tmp_path, **options).fit(rows, labels)


@pytest.mark.parametrize("n", [3, 70])
def test_ssgp_chains_that_were_cut_go_on_to_the_same_bits(n, tmp_path, eager, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, cone_sampling, "step", n, Stop)
        with pytest.raises(Stop):
            sampled(checkpoint=tmp_path).fit(X, Y)
    resumed = sampled(checkpoint=tmp_path).fit(X, Y)
    np.testing.assert_array_equal(resumed.predict_proba(X), sampled().fit(X, Y).predict_proba(X))
    assert (tmp_path / "fit-0" / "chain-0.npz").exists()


def test_ssgp_interrupted_by_ctrl_c_keeps_its_draws(tmp_path, monkeypatch):
    real, calls = cone_sampling.step, []

    def counted(*arguments):
        calls.append(1)
        if len(calls) in (44, 45):  # the second one means it
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(cone_sampling, "step", counted)
        with pytest.warns(SamplingInterrupted):
            stopped = sampled(checkpoint=tmp_path).fit(X, Y)
    assert stopped.diagnostics_["interrupted"]
    assert np.isfinite(stopped.predict_proba(X)).all()
    resumed = sampled(checkpoint=tmp_path).fit(X, Y)
    np.testing.assert_array_equal(resumed.predict_proba(X), sampled().fit(X, Y).predict_proba(X))
