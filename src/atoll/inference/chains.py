"""Several Markov chains from one seed: warm-up, thinning, progress, checkpoints, Ctrl-C.

A model hands over a `Sampler`, which says how to start, how to sweep and what to record. The
sampler knows nothing about chains, files or signals; this file knows nothing about models.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from atoll.core import checkpoints
from atoll.core.checkpoints import (
    DAMAGE,
    as_read_again,
    flatten,
    make_folder,
    read_arrays,
    unflatten,
    write_arrays,
)
from atoll.core.progress import done_before, progress_bar
from atoll.core.threads import one_thread

Array = NDArray[Any]
Record = dict[str, Array]

NOTHING_KEPT = (
    "sampling was interrupted before any chain had a draw; nothing was kept but the checkpoint, "
    "where one was asked for."
)

FINISHING = (
    "\nFinishing this step; the draws made so far are kept. Press Ctrl-C again to stop at once and "
    "lose them.\n"
)
STOPPING = "\nStopping after this step.\n"


class SamplingInterrupted(UserWarning):
    """Sampling was stopped by Ctrl-C; the draws made so far were kept."""


class Sampler(NamedTuple):
    """A Markov chain, given as three functions.

    init : rng -> state, a NamedTuple of arrays and numbers (nested NamedTuples allowed)
    sweep : (rng, state, adapt) -> state; `adapt` is true during warm-up
    record : (rng, state) -> dict of the arrays and numbers to keep of a draw; the number of rows of
        an array may differ between draws
    """

    init: Callable[[np.random.Generator], Any]
    sweep: Callable[[np.random.Generator, Any, bool], Any]
    record: Callable[[np.random.Generator, Any], Mapping[str, Any]]


class ChainsResult(NamedTuple):
    """The draws of all chains.

    draws : name -> (n_chains, n_draws, ...) array
    interrupted : whether Ctrl-C cut the run short
    """

    draws: Record
    interrupted: bool


def run_chains(
    sampler: Sampler | Sequence[Sampler],
    *,
    n_chains: int,
    n_warmup: int,
    n_samples: int,
    thin: int = 1,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    shown_after: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    fingerprint: str = "",
) -> ChainsResult:
    """Run independent chains and stack what they record.

    Each chain has its own random stream, spawned from `rng`, and one thread of linear algebra, so
    that the draws do not depend on `n_jobs`, on `shown_after`, or on how often a run was stopped
    and resumed. Chains run side by side, sweep by sweep where they share a process, so that Ctrl-C
    keeps about as many draws of each. During warm-up, when there is nothing to keep, the first
    Ctrl-C only says what a second one would lose.

    Parameters
    ----------
    sampler : one sampler for all chains, or one per chain
    n_chains : number of chains
    n_warmup : sweeps that are dropped at the start of each chain
    n_samples : draws to record per chain
    thin : sweeps per recorded draw
    rng : parent of the chains' random streams
    n_jobs : number of parallel jobs, as in joblib: None is one, -1 is all cores; under
        `joblib.parallel_config` the chains can run on a cluster
    shown_after : seconds until a progress bar for the chains of each process is shown on standard
        error; None: never
    checkpoint : a folder, created if it does not exist, that holds one file per chain. A file is
        written every 30 seconds, at the end and at Ctrl-C. A second run with the same folder
        continues from there; its draws equal, to the last bit, those of an uninterrupted run.
    fingerprint : identifies the problem; a checkpoint of another problem is refused

    Returns
    -------
    ChainsResult

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Walk(NamedTuple):
    ...     x: float
    >>> walk = Sampler(
    ...     init=lambda rng: Walk(0.0),
    ...     sweep=lambda rng, state, adapt: Walk(0.9 * state.x + rng.standard_normal()),
    ...     record=lambda rng, state: {"x": state.x},
    ... )
    >>> result = run_chains(
    ...     walk, n_chains=2, n_warmup=10, n_samples=50, rng=np.random.default_rng(0)
    ... )
    >>> result.draws["x"].shape
    (2, 50)
    """
    # Many parameters because every estimator with chains has them.
    check_counts(n_chains=n_chains, n_warmup=n_warmup, n_samples=n_samples, thin=thin)
    samplers = [sampler] * n_chains if isinstance(sampler, Sampler) else list(sampler)
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None:
        make_folder(folder)
    plan = _Plan(int(n_warmup), int(n_samples), int(thin), fingerprint)
    streams = _spawn(rng, n_chains)
    members = [
        _Member(i, samplers[i], streams[i], None if folder is None else folder / f"chain-{i}.npz")
        for i in range(n_chains)
    ]
    n_groups = min(n_chains, effective_n_jobs(n_jobs))
    # More threads would change the last bits of a draw. The limit is one of a process: it is set
    # here and again in each chain, because chains may be threads or processes.
    with _stop_flag(folder) as flag, one_thread():
        tasks = (
            delayed(_run_side_by_side)(members[i::n_groups], plan, flag, shown_after)
            for i in range(n_groups)
        )
        try:
            groups = Parallel(n_jobs=n_jobs)(tasks)
        except BrokenProcessPool as error:
            if flag.asked.exists():  # Ctrl-C while the worker processes were starting
                raise KeyboardInterrupt(NOTHING_KEPT) from error
            raise
        interrupted = flag.stop.exists()
    chains = [groups[i % n_groups][i // n_groups] for i in range(n_chains)]
    return ChainsResult(_stack(chains, n_samples, interrupted), interrupted)


def _spawn(rng: np.random.Generator, n_chains: int) -> list[np.random.Generator]:
    """Return one random stream per chain, of a kind whose state a checkpoint can store."""
    seeds = cast(np.random.SeedSequence, rng.bit_generator.seed_seq).spawn(n_chains)
    return [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]


class _Plan(NamedTuple):
    n_warmup: int
    n_samples: int
    thin: int
    fingerprint: str

    @property
    def n_sweeps(self) -> int:
        return self.n_warmup + self.n_samples * self.thin


class _Member(NamedTuple):
    """One of the chains.

    number : from 0
    rng : its random stream
    file : its checkpoint, or None
    """

    number: int
    sampler: Sampler
    rng: np.random.Generator
    file: Path | None


class _Flag(NamedTuple):
    """Files by which processes tell each other of Ctrl-C; each means what it says once it exists.

    asked : Ctrl-C was pressed
    stop : every chain ends after its present sweep
    drawn : some chain has a draw
    """

    asked: Path
    stop: Path
    drawn: Path


def _run_side_by_side(
    members: Sequence[_Member], plan: _Plan, flag: _Flag, shown_after: float | None
) -> list[list[Record]]:
    """Run some chains in turns, a sweep of each, until they end or the flag says to stop."""
    found: list[list[Record]] = [[] for _ in members]
    names = ", ".join(str(member.number + 1) for member in members)
    with (
        _interrupts_left_to_the_parent(),
        one_thread(),
        progress_bar(
            total=len(members) * plan.n_sweeps,
            desc=f"{'chain' if len(members) == 1 else 'chains'} {names}",
            unit="sweep",
            position=members[0].number,
            disable=shown_after is None,
            delay=shown_after or 0.0,
            leave=False,  # where chains go on, another bar takes its place
        ) as bar,
    ):
        running = {i: _sweeps(member, plan, flag) for i, member in enumerate(members)}
        while running:
            for i, chain in list(running.items()):
                try:
                    count = next(chain)
                    if count == 1:
                        bar.update()
                    else:  # of a checkpoint
                        done_before(bar, count)
                except StopIteration as end:
                    found[i] = end.value
                    del running[i]
    return found


def _sweeps(member: _Member, plan: _Plan, flag: _Flag) -> Generator[int, None, list[Record]]:
    """Run one chain, pausing after every sweep; return its records in order.

    What is yielded is the number of sweeps since the last pause, or since the checkpoint.
    """
    sampler, rng, file = member.sampler, member.rng, member.file
    state = as_read_again(sampler.init(rng))
    done = 0
    records: list[Record] = []
    if file is not None and file.exists():
        state, done, records = _read_checkpoint(file, rng, state, plan)
        if done > plan.n_sweeps:  # a longer run wrote it: return the first draws
            return records[: plan.n_samples]
        yield done
    saved_at = time.monotonic()
    is_told = False
    while done < plan.n_sweeps and not flag.stop.exists():
        state = as_read_again(sampler.sweep(rng, state, done < plan.n_warmup))
        done += 1
        past_warmup = done - plan.n_warmup
        if past_warmup > 0 and past_warmup % plan.thin == 0:
            record = sampler.record(rng, state)
            records.append({name: np.asarray(value) for name, value in record.items()})
        if records and not is_told:
            flag.drawn.touch()
            is_told = True
        if file is not None and time.monotonic() - saved_at > checkpoints.SECONDS:
            _write_checkpoint(file, rng, state, done, records, plan)
            saved_at = time.monotonic()
        yield 1
    if file is not None:
        _write_checkpoint(file, rng, state, done, records, plan)
    return records


def _stack(chains: list[list[Record]], n_samples: int, interrupted: bool) -> Record:
    """Stack the records into (chain, draw, ...) arrays.

    Chains of an interrupted run differ in length. They are cut to the common length that keeps most
    draws in total, and chains shorter than that are left out.
    """
    lengths = sorted((len(records) for records in chains), reverse=True)
    totals = [(position + 1) * length for position, length in enumerate(lengths)]
    n_kept = lengths[int(np.argmax(totals))]
    if n_kept == 0:
        raise KeyboardInterrupt(NOTHING_KEPT)
    kept = [records for records in chains if len(records) >= n_kept]
    if interrupted and len(kept) * n_kept < len(chains) * n_samples:
        warnings.warn(
            f"sampling was interrupted: {n_kept} of {n_samples} draws of {len(kept)} of "
            f"{len(chains)} chains were kept. With checkpoint=, the same call goes on from here.",
            SamplingInterrupted,
            stacklevel=3,
        )
    stacked = {}
    for name in kept[0][0]:
        every = stack_ragged([record[name] for records in kept for record in records[:n_kept]])
        stacked[name] = every.reshape(len(kept), n_kept, *every.shape[1:])
    return stacked


def stack_ragged(arrays: Sequence[Array]) -> Array:
    """Stack arrays; pad those shorter than the longest with NaN, or with None if they hold objects.

    Examples
    --------
    >>> stack_ragged([np.ones(1), np.ones(2)])
    array([[ 1., nan],
           [ 1.,  1.]])
    """
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    longest = max(len(array) for array in arrays)
    fill = None if arrays[0].dtype == object else np.nan
    dtype = np.result_type(*(array.dtype for array in arrays))
    stacked = np.full((len(arrays), longest, *arrays[0].shape[1:]), fill, dtype=dtype)
    for row, array in zip(stacked, arrays):
        row[: len(array)] = array
    return stacked


# Ctrl-C ---------------------------------------------------------------------------------------


@contextmanager
def _stop_flag(checkpoint: Path | None) -> Iterator[_Flag]:
    """Yield the flag that Ctrl-C sets; once it says to stop, another one interrupts as usual.

    While no chain has a draw, the first Ctrl-C says what would be lost, and only the second stops.
    The flag is made of files rather than events because chains may run in other processes.
    """
    with tempfile.TemporaryDirectory(prefix="atoll-") as name:
        flag = _Flag(*(Path(name) / field for field in _Flag._fields))
        if threading.current_thread() is not threading.main_thread():
            yield flag  # only the main thread receives signals
            return
        started = time.monotonic()

        def request_stop(signum: int, frame: Any) -> None:
            if not (flag.drawn.exists() or flag.asked.exists()):
                flag.asked.touch()
                _say_what_would_be_lost(time.monotonic() - started, checkpoint)
                return
            signal.signal(signal.SIGINT, previous)
            flag.asked.touch()
            flag.stop.touch()
            _write_now(FINISHING if flag.drawn.exists() else STOPPING)

        # None means a handler that was not set from Python; it cannot be restored.
        previous = signal.getsignal(signal.SIGINT) or signal.default_int_handler
        signal.signal(signal.SIGINT, request_stop)
        try:
            yield flag
        finally:
            signal.signal(signal.SIGINT, previous)


def _say_what_would_be_lost(seconds: float, checkpoint: Path | None) -> None:
    if checkpoint is None:
        lost = f"stopping now would lose all {seconds:.0f} s of it"
    else:
        lost = f"stopping now would leave a checkpoint in {str(checkpoint)!r} and no model"
    message = (
        f"\nThe chains are still warming up and have no draws: {lost}. Press Ctrl-C again to stop "
        "all the same, or wait: once there are draws, Ctrl-C keeps them.\n"
    )
    _write_now(message)


def _write_now(message: str) -> None:
    """Write to standard error, from a signal's handler."""
    try:
        sys.stderr.write(message)
        sys.stderr.flush()
    except RuntimeError:  # the signal came in the midst of a write
        os.write(2, message.encode())


@contextmanager
def _interrupts_left_to_the_parent() -> Iterator[None]:
    """Ignore Ctrl-C in a worker process: it reaches every process, and the parent sets the flag."""
    in_worker = multiprocessing.parent_process() is not None
    if not in_worker or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous or signal.default_int_handler)


# Checkpoints: arrays and JSON, no pickles ---------------------------------------------------------


def _write_checkpoint(
    file: Path, rng: np.random.Generator, state: Any, done: int, records: list[Record], plan: _Plan
) -> None:
    header = {"rng": rng.bit_generator.state, "done": done, "plan": plan._asdict()}
    arrays = {f"state/{name}": value for name, value in flatten(state)}
    if records:
        for name in records[0]:
            arrays[f"draws/{name}"] = stack_ragged([record[name] for record in records])
    write_arrays(file, {"header": np.array(json.dumps(header)), **arrays})


def _read_checkpoint(
    file: Path, rng: np.random.Generator, template: Any, plan: _Plan
) -> tuple[Any, int, list[Record]]:
    """Return the state, the number of sweeps done and the records; restore the state of `rng`."""
    arrays = read_arrays(file)
    try:
        header = json.loads(str(arrays.pop("header")))
        theirs, done = _Plan(**header["plan"]), int(header["done"])
    except DAMAGE as error:
        raise ValueError(_damaged(file, error)) from error
    if theirs._replace(n_samples=plan.n_samples) != plan:
        what = (
            "data or parameters" if theirs.fingerprint != plan.fingerprint else "n_warmup or thin"
        )
        raise ValueError(
            f"checkpoint {str(file)!r} belongs to another run: its {what} differ (n_samples may). "
            "Choose another folder, or delete it to start anew."
        )
    try:
        rng.bit_generator.state = header["rng"]
        state = unflatten(template, {k.removeprefix("state/"): v for k, v in arrays.items()})
    except DAMAGE as error:
        raise ValueError(_damaged(file, error)) from error
    stacked = {k.removeprefix("draws/"): v for k, v in arrays.items() if k.startswith("draws/")}
    n_records = len(next(iter(stacked.values()))) if stacked else 0
    records = [{name: values[i] for name, values in stacked.items()} for i in range(n_records)]
    return state, done, records


def _damaged(file: Path, error: BaseException) -> str:
    return f"checkpoint {str(file)!r} cannot be read ({error}); delete it to start anew."


def check_counts(**counts: int) -> None:
    """Raise a ValueError unless n_warmup is a whole number from 0, and all others from 1."""
    for name, value in counts.items():
        least = 0 if name == "n_warmup" else 1
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name}={value!r} must be a whole number, at least {least}.")
