"""Several Markov chains from one seed: warm-up, thinning, progress, checkpoints, Ctrl-C.

A sampler is handed over as a `Sampler`: how to start, one sweep, what to record. It knows
nothing of chains, files or signals; this file knows nothing of models.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from atoll.core.files import atomic_path

Array = NDArray[Any]
Record = dict[str, Array]

CHECKPOINT_SECONDS = 30.0
NOTHING_KEPT = (
    "sampling was interrupted before any chain had a draw; nothing was kept but the checkpoint, "
    "where one was asked for."
)


class SamplingInterrupted(UserWarning):
    """Sampling was stopped by Ctrl-C; the draws made so far were kept."""


class Sampler(NamedTuple):
    """A Markov chain, as functions.

    init : rng -> state, a NamedTuple of arrays and numbers (nested NamedTuples allowed)
    sweep : (rng, state, adapt) -> state; `adapt` is true in warm-up
    record : (rng, state) -> dict of arrays and numbers to keep of a draw; an array may have
        another number of rows in each draw
    """

    init: Callable[[np.random.Generator], Any]
    sweep: Callable[[np.random.Generator, Any, bool], Any]
    record: Callable[[np.random.Generator, Any], Mapping[str, Any]]


class ChainsResult(NamedTuple):
    """What was drawn.

    draws : name -> (n_chains, n_draws, ...)
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
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    fingerprint: str = "",
) -> ChainsResult:
    """Run independent chains and stack what they record.

    Each chain has its own stream, spawned from `rng`, and one thread: the draws depend neither on
    `n_jobs`, nor on `progress`, nor on how often a run was interrupted and resumed.

    Parameters
    ----------
    sampler : one for all chains, or one a chain
    n_chains, n_warmup, n_samples, thin : warm-up sweeps are dropped; then every `thin`-th sweep
        is recorded until there are `n_samples`
    rng : parent of the chains' streams
    n_jobs : joblib's; None is one, -1 all cores, `joblib.parallel_config` chooses a cluster
    progress : a bar a chain, on standard error
    checkpoint : a folder, made where it does not exist, with one file a chain, written every 30
        seconds and at the end or at Ctrl-C. A second run with the same folder goes on from it,
        and gives the same draws to the last bit as a run that was never cut.
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
    # Many parameters because they are those that every estimator with chains has.
    check_counts(n_chains=n_chains, n_warmup=n_warmup, n_samples=n_samples, thin=thin)
    samplers = [sampler] * n_chains if isinstance(sampler, Sampler) else list(sampler)
    if checkpoint is not None:
        _make_folder(checkpoint)
    plan = _Plan(int(n_warmup), int(n_samples), int(thin), fingerprint)
    streams = _spawn(rng, n_chains)
    with _stop_flag() as stop_file, _one_thread():
        tasks = (
            delayed(_run_chain)(
                samplers[i],
                streams[i],
                plan,
                number=i,
                progress=progress,
                file=None if checkpoint is None else Path(checkpoint) / f"chain-{i}.npz",
                stop_file=stop_file,
            )
            for i in range(n_chains)
        )
        try:
            chains = Parallel(n_jobs=n_jobs)(tasks)
        except BrokenProcessPool as error:
            if os.path.exists(stop_file):  # Ctrl-C met the worker processes as they started
                raise KeyboardInterrupt(NOTHING_KEPT) from error
            raise
        interrupted = os.path.exists(stop_file)
    return ChainsResult(_stack(chains, n_samples, interrupted), interrupted)


def _spawn(rng: np.random.Generator, n_chains: int) -> list[np.random.Generator]:
    """One stream a chain, of the kind whose state a checkpoint can write, whatever `rng` is."""
    seeds = cast(np.random.SeedSequence, rng.bit_generator.seed_seq).spawn(n_chains)
    return [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]


def _one_thread() -> Any:
    """One thread of linear algebra: more would change the last bits of a draw.

    With `n_jobs` the chains themselves fill the cores. It holds for the whole process, so that it
    stands around all chains as well as in each: chains may be threads, or other processes.
    """
    return threadpool_limits(limits=1, user_api="blas")


class _Plan(NamedTuple):
    n_warmup: int
    n_samples: int
    thin: int
    fingerprint: str

    @property
    def n_sweeps(self) -> int:
        return self.n_warmup + self.n_samples * self.thin


def _run_chain(
    sampler: Sampler,
    rng: np.random.Generator,
    plan: _Plan,
    *,
    number: int,
    progress: bool,
    file: Path | None,
    stop_file: str,
) -> list[Record]:
    """One chain to its end, or to the stop flag; the records kept, in order."""
    with _interrupts_left_to_the_parent(), _one_thread():
        state = sampler.init(rng)
        done = 0
        records: list[Record] = []
        if file is not None and file.exists():
            state, done, records = _read_checkpoint(file, rng, state, plan)
            if done > plan.n_sweeps:  # of a longer run: what is asked for is there, the rest stays
                return records[: plan.n_samples]
        saved_at = time.monotonic()
        with tqdm(
            total=plan.n_sweeps,
            initial=done,
            desc=f"chain {number + 1}",
            unit="sweep",
            position=number,
            disable=not progress,
        ) as bar:
            while done < plan.n_sweeps and not os.path.exists(stop_file):
                state = sampler.sweep(rng, state, done < plan.n_warmup)
                done += 1
                past_warmup = done - plan.n_warmup
                if past_warmup > 0 and past_warmup % plan.thin == 0:
                    record = sampler.record(rng, state)
                    records.append({name: np.asarray(value) for name, value in record.items()})
                bar.update()
                if file is not None and time.monotonic() - saved_at > CHECKPOINT_SECONDS:
                    _write_checkpoint(file, rng, state, done, records, plan)
                    saved_at = time.monotonic()
        if file is not None:
            _write_checkpoint(file, rng, state, done, records, plan)
        return records


def _stack(chains: list[list[Record]], n_samples: int, interrupted: bool) -> Record:
    """(chain, draw, ...) arrays of one length: of an interrupted run, the most draws in all."""
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
    """Stack arrays, filling up those with fewer rows than the longest: by NaN, or None in objects.

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
def _stop_flag() -> Iterator[str]:
    """A path that comes to exist at the first Ctrl-C; the second one interrupts as usual.

    A file, not an event: chains may run in other processes.
    """
    with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
        stop_file = os.path.join(folder, "stop")
        if threading.current_thread() is not threading.main_thread():
            yield stop_file  # signals reach the main thread alone
            return

        def request_stop(signum: int, frame: Any) -> None:
            signal.signal(signal.SIGINT, previous)
            Path(stop_file).touch()

        # None: a handler that was not set from Python, and cannot be put back.
        previous = signal.getsignal(signal.SIGINT) or signal.default_int_handler
        signal.signal(signal.SIGINT, request_stop)
        try:
            yield stop_file
        finally:
            signal.signal(signal.SIGINT, previous)


@contextmanager
def _interrupts_left_to_the_parent() -> Iterator[None]:
    """In a worker process: Ctrl-C reaches every process, and the parent's flag is enough."""
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
    arrays = {f"state/{name}": value for name, value in _flatten(state)}
    if records:
        for name in records[0]:
            arrays[f"draws/{name}"] = stack_ragged([record[name] for record in records])
    with atomic_path(file) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, allow_pickle=False, header=np.array(json.dumps(header)), **arrays)


def _read_checkpoint(
    file: Path, rng: np.random.Generator, template: Any, plan: _Plan
) -> tuple[Any, int, list[Record]]:
    """The state, sweeps done and records in a file; sets `rng` to where the chain was."""
    try:
        with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            arrays = {name: archive[name] for name in archive.files if name != "header"}
        theirs, done = _Plan(**header["plan"]), int(header["done"])
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"checkpoint {str(file)!r} cannot be read ({error}); delete it to start anew."
        ) from error
    if theirs._replace(n_samples=plan.n_samples) != plan:
        what = (
            "data or parameters" if theirs.fingerprint != plan.fingerprint else "n_warmup or thin"
        )
        raise ValueError(
            f"checkpoint {str(file)!r} belongs to another run: its {what} differ (n_samples may). "
            "Choose another folder, or delete it to start anew."
        )
    rng.bit_generator.state = header["rng"]
    state = _unflatten(template, {k.removeprefix("state/"): v for k, v in arrays.items()})
    stacked = {k.removeprefix("draws/"): v for k, v in arrays.items() if k.startswith("draws/")}
    n_records = len(next(iter(stacked.values()))) if stacked else 0
    records = [{name: values[i] for name, values in stacked.items()} for i in range(n_records)]
    return state, done, records


def _flatten(state: Any, prefix: str = "") -> Iterator[tuple[str, Array]]:
    for name, value in zip(state._fields, state):
        if hasattr(value, "_fields"):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, np.asarray(value)


def _unflatten(template: Any, arrays: Mapping[str, Array], prefix: str = "") -> Any:
    values = []
    for name, value in zip(template._fields, template):
        if hasattr(value, "_fields"):
            values.append(_unflatten(value, arrays, f"{prefix}{name}."))
        elif isinstance(value, np.ndarray):
            values.append(arrays[prefix + name])
        else:
            values.append(type(value)(arrays[prefix + name].item()))
    return type(template)(*values)


def check_counts(**counts: int) -> None:
    """Raise a ValueError unless each is a whole number: n_warmup from 0, all others from 1."""
    for name, value in counts.items():
        least = 0 if name == "n_warmup" else 1
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name}={value!r} must be a whole number, at least {least}.")


def _make_folder(checkpoint: str | os.PathLike[str]) -> None:
    try:
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"checkpoint={os.fspath(checkpoint)!r} cannot be made a folder ({error.strerror}); "
            "choose another path."
        ) from error
    if not os.access(checkpoint, os.W_OK):
        raise ValueError(
            f"checkpoint={os.fspath(checkpoint)!r} is not writable; choose another path."
        )
