from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from joblib import parallel_config
from threadpoolctl import threadpool_info

from atoll.core import checkpoints, progress
from atoll.inference.chains import Sampler, SamplingInterrupted, _stack, run_chains


class Inner(NamedTuple):
    count: int
    flag: bool


class Walk(NamedTuple):
    x: np.ndarray
    scale: float
    inner: Inner


def start(rng):
    return Walk(rng.standard_normal(3), 1.0, Inner(0, False))


def sweep(rng, state, adapt):
    scale = state.scale * (1.01 if adapt else 1.0)
    x = 0.9 * state.x + scale * rng.standard_normal(3)
    return Walk(x, scale, Inner(state.inner.count + 1, adapt))


def record(rng, state):
    return {"x": state.x, "noisy": state.scale + rng.random(), "count": state.inner.count}


WALK = Sampler(start, sweep, record)
PLAN = {"n_chains": 2, "n_warmup": 7, "n_samples": 9, "thin": 3}


def draws(**options):
    return run_chains(WALK, **{**PLAN, **options}, rng=np.random.default_rng(11)).draws


@cache
def uncut_draws():
    return draws()


def assert_identical(left, right):
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name])


def test_warmup_is_dropped_and_every_thin_th_sweep_is_kept():
    result = draws()
    assert result["x"].shape == (2, 9, 3)
    assert result["count"][0].tolist() == [10, 13, 16, 19, 22, 25, 28, 31, 34]


def test_chains_differ_and_a_seed_gives_the_same_draws():
    result = draws()
    assert not np.array_equal(result["x"][0], result["x"][1])
    assert_identical(result, draws())


def test_progress_changes_no_draw(capfd, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    silent = draws()
    assert capfd.readouterr().err == ""
    assert_identical(silent, draws(shown_after=0.0))
    assert re.search(r"^chains 1, 2.*: ", capfd.readouterr().err)


def test_processes_change_no_draw():
    assert_identical(draws(), draws(n_jobs=2))


class Cut(Exception):
    """Stands for a power cut: no clean-up of the chain runs."""


# All of them in the slow suite; here two steps in five, at every place relative to a kept draw.
# Of two chains of 7 sweeps of warm-up and 27 of draws.
AT_ENDS_AND_BETWEEN = (0, 3, 6, 7, 8, 20, 33, 34, 40, 41, 55, 67)


@pytest.mark.parametrize(
    "cut_after",
    [
        pytest.param(sweep, marks=[] if sweep in AT_ENDS_AND_BETWEEN else pytest.mark.slow)
        for sweep in range(2 * (7 + 27))
    ],
)
def test_a_run_cut_at_any_sweep_resumes_bit_identically(cut_after, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", -1.0)  # a checkpoint at every sweep
    sweeps = 0

    def cut_sweep(rng, state, adapt):
        nonlocal sweeps
        if sweeps == cut_after:
            raise Cut
        sweeps += 1
        return sweep(rng, state, adapt)

    arguments = {**PLAN, "checkpoint": tmp_path / "run"}
    with pytest.raises(Cut):
        run_chains(Sampler(start, cut_sweep, record), **arguments, rng=np.random.default_rng(11))
    resumed = draws(checkpoint=tmp_path / "run")
    assert_identical(resumed, uncut_draws())


class Stack(NamedTuple):
    lowers: np.ndarray


def test_an_array_lies_in_memory_alike_whether_or_not_it_was_read(tmp_path):
    """The order of its numbers decides on the last bits of a product."""
    turned = Sampler(
        lambda rng: Stack(np.swapaxes(rng.standard_normal((2, 5, 5)), 1, 2)),
        lambda rng, state, adapt: state,
        lambda rng, state: {"strides": state.lowers.strides},
    )
    plan = {"n_chains": 1, "n_warmup": 2, "checkpoint": tmp_path}
    whole, resumed = (
        run_chains(turned, **plan, n_samples=n, rng=np.random.default_rng(0)).draws["strides"]
        for n in (3, 6)
    )
    np.testing.assert_array_equal(resumed, np.tile(whole[:, :1], (1, 6, 1)))


def test_a_finished_checkpoint_is_read_extended_and_cut_short(tmp_path):
    first = draws(checkpoint=tmp_path)
    assert_identical(first, draws(checkpoint=tmp_path))
    longer = draws(checkpoint=tmp_path, n_samples=20)
    assert_identical(longer, draws(n_samples=20))
    assert_identical(draws(checkpoint=tmp_path, n_samples=4), draws(n_samples=4))
    assert_identical(draws(checkpoint=tmp_path, n_samples=22), draws(n_samples=22))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    draws(checkpoint=tmp_path, fingerprint="a")
    with pytest.raises(ValueError, match="another run"):
        draws(checkpoint=tmp_path, fingerprint="b")
    with pytest.raises(ValueError, match="another run"):
        draws(checkpoint=tmp_path, fingerprint="a", thin=1)


def test_a_truncated_checkpoint_is_named(tmp_path):
    draws(checkpoint=tmp_path)
    file = tmp_path / "chain-0.npz"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"chain-0\.npz.*cannot be read"):
        draws(checkpoint=tmp_path)


def test_control_c_keeps_what_was_drawn_and_says_so(tmp_path):
    def interrupting_sweep(rng, state, adapt):
        if state.inner.count == 15:
            os.kill(os.getpid(), signal.SIGINT)
        return sweep(rng, state, adapt)

    before = signal.getsignal(signal.SIGINT)
    sampler = Sampler(start, interrupting_sweep, record)
    arguments = {**PLAN, "n_chains": 1, "checkpoint": tmp_path}
    with pytest.warns(SamplingInterrupted, match="3 of 9 draws of 1 of 1 chains"):
        cut = run_chains(sampler, **arguments, rng=np.random.default_rng(11))
    assert cut.interrupted
    assert signal.getsignal(signal.SIGINT) is before
    whole = draws(n_chains=1)
    assert_identical(cut.draws, {name: values[:, :3] for name, values in whole.items()})
    assert_identical(draws(n_chains=1, checkpoint=tmp_path), whole)


def test_control_c_keeps_every_chain_of_one_process():
    def interrupting_sweep(rng, state, adapt):
        nonlocal calls
        calls += 1
        if calls == 4 * (7 + 15) + 2:  # the second chain's sixteenth sweep past warm-up
            os.kill(os.getpid(), signal.SIGINT)
        return sweep(rng, state, adapt)

    calls = 0
    arguments = {**PLAN, "n_chains": 4}
    with pytest.warns(SamplingInterrupted, match="5 of 9 draws of 4 of 4 chains"):
        cut = run_chains(
            Sampler(start, interrupting_sweep, record), **arguments, rng=np.random.default_rng(11)
        )
    whole = draws(n_chains=4)
    assert_identical(cut.draws, {name: values[:, :5] for name, values in whole.items()})


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_control_c_in_warmup_says_what_would_be_lost_and_goes_on(with_checkpoint, tmp_path, capfd):
    def interrupting_sweep(rng, state, adapt):
        if state.inner.count == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return sweep(rng, state, adapt)

    found = run_chains(
        Sampler(start, interrupting_sweep, record),
        **{**PLAN, "n_chains": 1, "checkpoint": tmp_path if with_checkpoint else None},
        rng=np.random.default_rng(11),
    )
    assert not found.interrupted
    assert_identical(found.draws, draws(n_chains=1))
    said = " ".join(capfd.readouterr().err.split())
    assert "still warming up and have no draws" in said
    assert ("would leave a checkpoint" if with_checkpoint else "would lose all 0 s") in said


@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.Philox, np.random.PCG64DXSM])
def test_a_checkpoint_resumes_whatever_generator_the_seed_came_from(bits, tmp_path):
    first, second = (
        run_chains(
            WALK,
            **{**PLAN, "n_samples": np.int64(9)},
            rng=np.random.Generator(bits(5)),
            checkpoint=tmp_path,
        ).draws
        for _ in range(2)
    )
    assert_identical(first, second)


def test_chains_in_threads_leave_the_linear_algebra_as_it_was():
    before = [pool["num_threads"] for pool in threadpool_info()]
    with parallel_config("threading"):
        assert_identical(draws(n_jobs=2), draws())
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_control_c_before_the_first_draw_interrupts():
    def interrupting_sweep(rng, state, adapt):
        os.kill(os.getpid(), signal.SIGINT)
        return sweep(rng, state, adapt)

    with pytest.raises(KeyboardInterrupt, match="before any chain had a draw"):
        run_chains(
            Sampler(start, interrupting_sweep, record),
            n_chains=1, n_warmup=5, n_samples=5, rng=np.random.default_rng(0),
        )  # fmt: skip


def test_control_c_on_worker_processes_keeps_what_each_drew(tmp_path):
    script = textwrap.dedent(
        """
        import os, pathlib, sys, time, warnings
        from typing import NamedTuple
        import numpy as np
        from atoll.inference.chains import Sampler, SamplingInterrupted, run_chains

        class State(NamedTuple):
            x: float

        def sweep(rng, state, adapt):
            time.sleep(0.01)
            pathlib.Path(sys.argv[1], str(os.getpid())).touch()
            return State(rng.standard_normal())

        sampler = Sampler(lambda rng: State(0.0), sweep, lambda rng, s: {"x": s.x})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = run_chains(
                sampler, n_chains=2, n_warmup=0, n_samples=100_000,
                rng=np.random.default_rng(0), n_jobs=2,
            )
        assert any(w.category is SamplingInterrupted for w in caught), caught
        print("kept", result.draws["x"].shape[1], flush=True)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while len(os.listdir(tmp_path)) < 2 and process.poll() is None:
        time.sleep(0.05)  # until both workers sweep
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    word, kept = output.split()
    assert word == "kept"
    assert 0 < int(kept) < 100_000


@pytest.mark.parametrize(
    "options", [{"n_chains": 0}, {"n_samples": 0}, {"thin": 0}, {"n_warmup": -1}]
)
def test_counts_out_of_range_are_named(options):
    name = next(iter(options))
    with pytest.raises(ValueError, match=name):
        draws(**options)


def test_chains_adapt_in_warm_up_alone():
    seen = []

    def watched(rng, state, adapt):
        seen.append(adapt)
        return sweep(rng, state, adapt)

    one = Sampler(start, watched, record)
    run_chains(one, n_chains=1, n_warmup=4, n_samples=3, thin=2, rng=np.random.default_rng(0))
    assert seen == [True] * 4 + [False] * 6


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [((10, 9, 1), (2, 9)), ((10, 4, 1), (1, 10)), ((3, 3, 2), (2, 3)), ((5, 0), (1, 5))],
)
def test_an_interrupted_run_keeps_as_many_draws_as_chains_of_one_length_can_have(lengths, kept):
    chains = [[{"x": np.array(float(i))} for i in range(length)] for length in lengths]
    with pytest.warns(SamplingInterrupted, match=f"{kept[1]} of 20 draws of {kept[0]} of"):
        stacked = _stack(chains, 20, interrupted=True)
    assert stacked["x"].shape == kept
    np.testing.assert_array_equal(stacked["x"], [np.arange(kept[1])] * kept[0])
