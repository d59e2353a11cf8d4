"""Run an experiment: its cells in parallel, each once; then a table, a picture and a page.

An experiment is a list of cells (data set × labels × seed × model), a function that runs one of
them, and two that show the results. Everything else is here: parallel work, the cache, resuming
after an interruption, missing data, and writing the files.
"""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import atoll
from atoll.core.extras import import_extra
from atoll.core.files import atomic_path, check_writable
from atoll.core.progress import progress_bar
from atoll.core.shown import readable
from atoll.inference.chains import SamplingInterrupted
from atoll.reproductions.cache import (
    cell_identity,
    cell_path,
    load_values,
    plain_values,
    save_values,
)
from atoll.reproductions.times import TIMES, in_words

Cell = dict[str, Any]
DataHome = str | os.PathLike[str] | None


class Result(NamedTuple):
    """A finished cell: its description, and the scalars and arrays that were measured."""

    cell: Cell
    values: dict[str, Any]


class Skipped(NamedTuple):
    """A cell without a result, and a sentence that says why: a missing file, or the time limit."""

    cell: Cell
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Experiment:
    """A table or figure of a paper, as cells that can be run one by one.

    Attributes
    ----------
    name : str
        What the user types, and the name of the files written.
    title, paper, claim : str
        One line each: what the experiment is, the citation, and what the paper shows with it.
    cells : callable (quick, seed) -> list of dict
        Descriptions of the cells, all different and made only of JSON types. A cell's result may
        depend on its description, which includes the seed, on the data files, and on nothing else.
    run_cell : callable (cell, data_home) -> dict
        Runs one cell. Scalars become columns of the CSV; NumPy arrays are kept for `draw`.
        It must be importable, so that other processes find it. A `FileNotFoundError`, such as
        the loaders of `atoll.datasets` raise, skips the cell.
    draw : callable (results, path) -> None
        Writes a PNG in the paper's layout. Some cells may have been skipped, but never all.
    comparison : callable (results) -> str
        Returns Markdown: the paper's numbers beside ours, with standard errors and a sentence per
        difference.
    needs : tuple of str, default=()
        Data files that the loaders look for in `data_home`.
    version : int, default=1
        To be raised when `run_cell` changes, so that older results in the cache are not used.
    cells_name : str, default=""
        The name of the cells in the cache, which figures of the same cells share; "" is `name`.
    cell_limit : float or None, default=None
        Processor seconds after which a cell is stopped and reported as such; None is no limit.
    more_files : callable (results) -> dict or None, default=None
        Further text files to write beside the table: their contents by name.
    """

    name: str
    title: str
    paper: str
    claim: str
    cells: Callable[[bool, int], list[Cell]]
    run_cell: Callable[[Cell, DataHome], dict[str, Any]]
    draw: Callable[[list[Result], Path], None]
    comparison: Callable[[list[Result]], str]
    needs: tuple[str, ...] = ()
    version: int = 1
    cells_name: str = ""
    cell_limit: float | None = None
    more_files: Callable[[list[Result]], dict[str, str]] | None = None

    def __repr__(self) -> str:
        """Return what the experiment is, and about how long it takes."""
        times = TIMES.get(self.name)
        quick, full = ("", "") if times is None else map(in_words, times)
        took = f" About {full} of one core; {quick} with quick=True." if times else ""
        return f"{self.name}: {self.title}.{took}"


@readable
class Report(NamedTuple):
    """The outcome of a run; `figure` is None if every cell was skipped."""

    results: list[Result]
    skipped: list[Skipped]
    csv: Path
    page: Path
    figure: Path | None

    def __str__(self) -> str:
        n = len(self.results)
        said = f"{n} cell{'s' * (n != 1)} done"
        if self.skipped:
            reasons = sorted({one.reason for one in self.skipped})
            said += f", {len(self.skipped)} not: {' '.join(reasons[:3])}"
            said += " …" if len(reasons) > 3 else ""
        named = (("page", self.page), ("table", self.csv), ("figure", self.figure))
        return "\n".join([said, *(f"  {name}: {path}" for name, path in named if path)])


def run(
    experiment: Experiment,
    *,
    out: str | os.PathLike[str],
    quick: bool = False,
    n_jobs: int | None = None,
    seed: int = 0,
    data_home: DataHome = None,
    progress: bool = True,
    cache: str | os.PathLike[str] | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
    limit: float | None = None,
) -> Report:
    """Run the cells that the cache does not hold, then write the table, picture and page.

    Each cell is written to the cache as soon as it is finished, by the process that ran it: after
    an interruption the same call runs only the others. The same seed gives the same CSV, byte
    for byte, whatever `n_jobs` is and however often the run was interrupted.

    Parameters
    ----------
    experiment : Experiment
    out : path
        A folder, created if it does not exist; the files go to ``<out>/<name>/``.
    quick : bool, default=False
        Whether to run a smaller version of the same experiment.
    n_jobs : int or None, default=None
        Number of cells that run at once, as joblib counts them: None is 1 unless
        `joblib.parallel_config` says otherwise, -1 is every core.
    seed : int, default=0
        Seed of all random numbers.
    data_home : path or None, default=None
        The folder that the loaders look in; None takes it from the environment variable ATOLL_DATA.
    progress : bool, default=True
        Whether to show finished cells and the time left.
    cache : path or None, default=None
        The folder of finished cells; None is ``<out>/cache``.
    only : mapping of str to sequence of str, or None, default=None
        Values of the cells' keys, such as ``{"labels": ["10"]}``: only cells with one of the values
        of every key are run and shown. None takes all.
    limit : float or None, default=None
        Processor seconds after which a cell is stopped and reported; None is the experiment's own.

    Returns
    -------
    Report

    Raises
    ------
    RuntimeError
        If a cell failed. All others were run first, and their results are in the cache.
    """
    # Many parameters because they are the command's options.
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed={seed!r} is not a seed; give an integer from 0 upward.")
    import_extra("matplotlib")  # before the long work, not after it
    limit = check_limit(experiment.cell_limit if limit is None else limit)
    cells = check_cells(experiment, experiment.cells(quick, int(seed)))
    cells = chosen_cells(cells, {} if only is None else only)
    folder = _make_folder(Path(out) / experiment.name, "out")
    cache_folder = _make_folder(Path(out) / "cache" if cache is None else Path(cache), "cache")
    files = [folder / f for f in ("cells.csv", f"{experiment.name}.md", f"{experiment.name}.png")]
    for file in files:
        check_writable(file)

    home = _absolute_data_home(data_home)
    outcomes = _run_cells(experiment, cells, cache_folder, home, n_jobs, progress, limit)
    failed = [(cell, o.failure) for cell, o in zip(cells, outcomes) if o.failure is not None]
    if failed:
        cell, failure = failed[0]
        raise RuntimeError(
            f"{experiment.name}: {len(failed)} of {len(cells)} cells failed; the finished ones are "
            f"kept in {str(cache_folder)!r}. The first to fail is {describe(cell)}:\n{failure}"
        )

    results = [Result(c, o.values) for c, o in zip(cells, outcomes) if o.values is not None]
    left_out = [(c, o.missing or o.late) for c, o in zip(cells, outcomes)]
    skipped = [Skipped(c, reason) for c, reason in left_out if reason is not None]
    if skipped and results and progress:
        print(missing_in_short(skipped), file=sys.stderr)
    report = Report(
        results,
        skipped,
        csv=files[0],
        page=files[1],
        figure=files[2] if results else None,
    )
    late = [outcome.late for outcome in outcomes]
    _write_text(report.csv, csv_text(cells, [outcome.values for outcome in outcomes], late))
    if experiment.more_files is not None and results:
        for name, text in experiment.more_files(results).items():
            _write_text(folder / name, text)
    if report.figure is not None:
        with atomic_path(report.figure) as temporary:
            experiment.draw(results, temporary)
    else:
        files[2].unlink(missing_ok=True)  # an older picture would not belong to this page
    options = {"--quick": quick, f"--seed {seed}": True} | {
        f"--only {key}={','.join(values)}": True for key, values in (only or {}).items()
    }
    command = " ".join([f"atoll reproduce {experiment.name}", *(o for o in options if options[o])])
    n_full = len(experiment.cells(False, seed)) if quick or only else None
    _write_text(report.page, page_text(experiment, report, command=command, n_full=n_full))
    return report


def check_cells(experiment: Experiment, cells: list[Cell]) -> list[Cell]:
    """Return the cells, or raise a ValueError if one of them cannot be named in the cache.

    Each must be unchanged when written as JSON and read back, and no two may be the same.
    """
    if not cells:
        raise ValueError(f"{experiment.name}: cells is empty; declare at least one cell.")
    seen: set[str] = set()
    for cell in cells:
        if not _survives_json(cell):
            raise ValueError(
                f"{experiment.name}: the cell {cell!r} changes when written as JSON; describe it "
                "with strings, finite numbers, booleans, None, lists and dicts with string keys."
            )
        identity = cell_identity(experiment.name, experiment.version, cell)
        if identity in seen:
            raise ValueError(
                f"{experiment.name}: the cell {describe(cell)} is declared twice; give the two "
                "different descriptions (a seed, say) or drop one."
            )
        seen.add(identity)
    return cells


def chosen_cells(cells: list[Cell], only: Mapping[str, Sequence[str]]) -> list[Cell]:
    """Return the cells whose description has one of the given values of every key.

    Examples
    --------
    >>> chosen_cells([{"labels": n, "seed": s} for n in (1, 2) for s in (0, 1)], {"labels": ["2"]})
    [{'labels': 2, 'seed': 0}, {'labels': 2, 'seed': 1}]
    >>> chosen_cells([{"labels": 1}], {"labels": ["3"]})
    Traceback (most recent call last):
    ValueError: only: no cell has labels='3'; its values are: 1.
    """
    for key, wanted in only.items():
        known = list(dict.fromkeys(_field(cell[key]) for cell in cells if key in cell))
        if not known:
            raise ValueError(
                f"only: cells have no key {key!r}; their keys are: {', '.join(_all_keys(cells))}."
            )
        for value in wanted:
            if value not in known:
                raise ValueError(
                    f"only: no cell has {key}={value!r}; its values are: {', '.join(known)}."
                )
    return [
        cell
        for cell in cells
        if all(key in cell and _field(cell[key]) in wanted for key, wanted in only.items())
    ]


def check_limit(limit: float | None) -> float | None:
    """Return the limit of a cell's processor seconds; raise a ValueError if it is not one."""
    if limit is not None and not 0 < limit < np.inf:
        raise ValueError(f"limit={limit!r} is not a time; give a number of seconds above 0.")
    return limit


def _survives_json(cell: Cell) -> bool:
    try:
        return json.loads(json.dumps(cell, allow_nan=False)) == cell
    except (TypeError, ValueError):
        return False


def describe(cell: Cell) -> str:
    """Name a cell in one line.

    Examples
    --------
    >>> describe({"data": "wine", "labels": 2, "seed": 0})
    'data=wine, labels=2, seed=0'
    """
    return ", ".join(f"{key}={_field(value)}" for key, value in cell.items())


# --- running ---------------------------------------------------------------------------------


class _Outcome(NamedTuple):
    """The outcome of one cell: its values, or why there are none.

    Data are missing (a sentence), the time limit stopped it (a sentence), or it failed (a
    traceback).
    """

    values: dict[str, Any] | None = None
    missing: str | None = None
    failure: str | None = None
    late: str | None = None


class CellStoppedError(Exception):
    """A cell took more processor seconds than its limit."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise a CellStoppedError in the block once it has used `seconds` processor seconds.

    It is raised again every second, in case the block catches it. There is no limit where Python
    offers no timer: on Windows, and outside a process's main thread.
    """
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise CellStoppedError(f"Stopped after {seconds:g} processor seconds, its limit.")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


class _CarriedError:
    """Hold the error of a `with` block as text, to be reported once every cell has run.

    It is held as text because not every exception can be sent from one process to another. Only
    errors are held. An interruption passes through and stops the run; so does an interruption
    that the sampler met by returning fewer draws, since half a cell is not a result.
    """

    missing: str | None = None
    failure: str | None = None
    late: str | None = None

    def __enter__(self) -> _CarriedError:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, SamplingInterrupted):
            raise KeyboardInterrupt(str(error)) from error
        if isinstance(error, FileNotFoundError):
            self.missing = str(error)
        elif isinstance(error, CellStoppedError):
            self.late = str(error)
        elif isinstance(error, Exception):
            self.failure = "".join(traceback.format_exception(kind, error, trace)).rstrip()
        return isinstance(error, Exception)


def _run_cells(
    experiment: Experiment,
    cells: list[Cell],
    cache: Path,
    data_home: DataHome,
    n_jobs: int | None,
    progress: bool,
    limit: float | None,
) -> list[_Outcome]:
    """Return outcomes in the order of `cells`, from the cache if it has them, else by running.

    A cell that was stopped at a limit is run again only if it may take longer now.
    """
    name = experiment.cells_name or experiment.name
    identities = [cell_identity(name, experiment.version, cell) for cell in cells]
    paths = [cell_path(cache, name, identity) for identity in identities]
    outcomes = [_known_outcome(path, i, limit) for path, i in zip(paths, identities)]
    pending = [i for i, o in enumerate(outcomes) if o.values is None and o.late is None]
    tasks = (
        delayed(_run_one)(
            i, experiment.run_cell, cells[i], data_home, paths[i], identities[i], limit
        )
        for i in pending
    )
    n_done = len(cells) - len(pending)
    with progress_bar(
        total=len(cells), initial=n_done, desc=experiment.name, unit="cell", disable=not progress
    ) as bar:
        try:
            for i, outcome in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(tasks):
                outcomes[i] = outcome
                if outcome.missing is not None:
                    bar.set_postfix_str("data missing for some cells")
                elif outcome.late is not None:
                    bar.set_postfix_str("some cells were stopped at the time limit")
                n_done += outcome.values is not None
                bar.update()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{experiment.name} was interrupted; {n_done} of {len(cells)} cells are finished "
                f"and kept in {str(cache)!r}. The same command goes on from there."
            ) from None
    return outcomes


def _late_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}-stopped.npz")


def _known_outcome(path: Path, identity: str, limit: float | None) -> _Outcome:
    values = load_values(path, identity)
    if values is None and limit is not None:
        stopped = load_values(_late_path(path), identity)
        if stopped is not None and stopped["limit"] >= limit:
            return _Outcome(late=stopped["reason"])
    return _Outcome(values)


def _run_one(
    index: int,
    run_cell: Callable[[Cell, DataHome], dict[str, Any]],
    cell: Cell,
    data_home: DataHome,
    path: Path,
    identity: str,
    limit: float | None,
) -> tuple[int, _Outcome]:
    """Run a cell and save its values to the cache, in whatever process this is."""
    values = None
    # The number of BLAS threads changes the last digits, so it must not depend on n_jobs.
    with _CarriedError() as carried, threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("error", SamplingInterrupted)
        with time_limit(limit):
            found = run_cell(dict(cell), data_home)
        values = plain_values(found)
        save_values(path, identity, values)
    if carried.late is not None:
        save_values(_late_path(path), identity, {"limit": limit, "reason": carried.late})
    return index, _Outcome(values, carried.missing, carried.failure, carried.late)


# --- writing ---------------------------------------------------------------------------------


def csv_text(
    cells: Sequence[Cell],
    values: Sequence[dict[str, Any] | None],
    late: Sequence[str | None] = (),
) -> str:
    r"""Return CSV with one row per cell, in declared order: description, status, scalars.

    Examples
    --------
    >>> csv_text([{"seed": 0}, {"seed": 1}], [{"error": 0.1}, None])
    'seed,status,error\n0,done,0.1\n1,missing data,\n'
    """
    scalars = [
        {k: v for k, v in (row or {}).items() if not isinstance(v, np.ndarray)} for row in values
    ]
    columns, measured = _all_keys(cells), _all_keys(scalars)
    clash = set(measured).intersection([*columns, "status"])
    if clash:
        raise ValueError(
            f"the cells' values {sorted(clash)} have the names of other columns; rename them."
        )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, "status", *measured])
    for cell, row, given, stopped in zip_longest(cells, scalars, values, late):
        status = "done" if given is not None else "stopped" if stopped else "missing data"
        writer.writerow(
            [_field(cell.get(key)) for key in columns]
            + [status]
            + [_field(row.get(key)) for key in measured]
        )
    return text.getvalue()


def page_text(experiment: Experiment, report: Report, *, command: str, n_full: int | None) -> str:
    """Return the Markdown page: the claim, the picture, the comparison, and what was left out."""
    parts = [
        f"# {experiment.title}",
        f"{experiment.paper}",
        f"**What the paper shows.** {experiment.claim}",
    ]
    if report.figure is not None:
        parts += [
            f"![{experiment.title}]({report.figure.name})",
            experiment.comparison(report.results).strip(),
        ]
    else:
        parts.append("No cell could run, so there is nothing to compare: see below.")
    if report.skipped:
        parts += ["## Left out", missing_data_text(report.skipped)]
    parts += ["## How it was made", _how_text(experiment, report, command, n_full)]
    return "\n\n".join(parts) + "\n"


def missing_data_text(skipped: list[Skipped]) -> str:
    """Name each missing file once, with the cells that need it.

    Examples
    --------
    >>> print(missing_data_text([Skipped({"labels": n}, "no file 'usps.csv'.") for n in (1, 2)]))
    no file 'usps.csv'. Cells that need it:
    <BLANKLINE>
    - labels=1
    - labels=2
    """
    return "\n\n".join(
        "\n".join([f"{reason} Cells that need it:", "", *(f"- {cell}" for cell in cells)])
        for reason, cells in _waiting(skipped).items()
    )


def missing_in_short(skipped: list[Skipped]) -> str:
    """Name each missing file in a line, with the first of the cells that need it.

    Examples
    --------
    >>> missing_in_short([Skipped({"labels": n}, "There is no file 'usps.csv'.") for n in (1, 2)])
    "2 cells are left out (the first: labels=1). There is no file 'usps.csv'."
    """
    lines = []
    for reason, cells in _waiting(skipped).items():
        n = f"{len(cells)} cells are left out (the first: {cells[0]})"
        lines.append(f"{n if len(cells) > 1 else f'A cell is left out ({cells[0]})'}. {reason}")
    return "\n".join(lines)


def _waiting(skipped: list[Skipped]) -> dict[str, list[str]]:
    """Return the cells that were skipped, in words, by the reason."""
    found: dict[str, list[str]] = {}
    for cell, reason in skipped:
        found.setdefault(" ".join(reason.split()), []).append(describe(cell))
    return found


def _how_text(experiment: Experiment, report: Report, command: str, n_full: int | None) -> str:
    n_cells = len(report.results) + len(report.skipped)
    lines = [
        f"`{command}`, atoll {atoll.__version__}: {len(report.results)} of {n_cells} cells ran; "
        f"each is a row of `{report.csv.name}`."
    ]
    if n_full is not None:
        lines.append(f"This is a part of the experiment; the full one has {n_full} cells.")
    if experiment.needs:
        needs = ", ".join(f"`{file}`" for file in experiment.needs)
        where = "in the folder that `--data`, `data_home=` or `ATOLL_DATA` names"
        lines.append(f"Data files: {needs}, {where}.")
    return " ".join(lines)


def _all_keys(rows: Iterable[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _field(value: Any) -> str:
    """Return text from which the value can be read back exactly; numbers, lists, dicts as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _make_folder(path: Path, parameter: str) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"{parameter}: the folder {str(path)!r} cannot be made ({error.strerror}); "
            "choose another path."
        ) from error
    return path.absolute()


def _absolute_data_home(data_home: DataHome) -> Path | None:
    """Fix the data folder here, since a worker may have another folder and other variables."""
    folder = os.environ.get("ATOLL_DATA") if data_home is None else data_home
    return Path(folder).expanduser().absolute() if folder else None


def _write_text(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
