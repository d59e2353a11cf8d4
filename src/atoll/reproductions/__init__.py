"""The papers' tables and figures, run again: one registry, one engine.

To add a paper's results, write an `Experiment` in a file here and list it in `EXPERIMENTS`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from atoll.core.near_names import did_you_mean, near_name
from atoll.reproductions import engine
from atoll.reproductions.archipelago import TABLE_1
from atoll.reproductions.archipelago_figures import FIGURE_1, FIGURE_3, FIGURE_4
from atoll.reproductions.engine import Experiment, Report, Result, Skipped
from atoll.reproductions.kimura import EXAMPLE_1, EXAMPLE_2, EXAMPLE_3
from atoll.reproductions.lawrence import FIGURE_4 as NCNM_FIGURE_4
from atoll.reproductions.lawrence import FIGURE_5 as NCNM_FIGURE_5
from atoll.reproductions.lawrence_noise import FIGURE_1 as NCNM_FIGURE_1
from atoll.reproductions.lawrence_noise import FIGURE_3 as NCNM_FIGURE_3
from atoll.reproductions.rogers import FIGURE_15
from atoll.reproductions.rogers_multiclass import FIGURE_16
from atoll.reproductions.rogers_null_category import FIGURE_20, FIGURE_21
from atoll.reproductions.rogers_regions import FIGURE_22
from atoll.reproductions.sindhwani import FIGURE_2 as SSGP_2
from atoll.reproductions.sindhwani import FIGURE_3 as SSGP_3
from atoll.reproductions.sindhwani import FIGURE_4 as SSGP_4
from atoll.reproductions.sindhwani import FIGURE_5 as SSGP_5
from atoll.reproductions.sindhwani import FIGURE_6 as SSGP_6
from atoll.reproductions.sindhwani_moons import FIGURE_1 as SSGP_1
from atoll.reproductions.ssl_book import BOOK

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Report",
    "Result",
    "Skipped",
    "find_experiment",
    "list_experiments",
    "run_experiment",
]

EXPERIMENTS: tuple[Experiment, ...] = (
    *(FIGURE_1, FIGURE_3, TABLE_1, FIGURE_4),
    *(NCNM_FIGURE_1, NCNM_FIGURE_3, NCNM_FIGURE_4, NCNM_FIGURE_5),
    *(EXAMPLE_1, EXAMPLE_2, EXAMPLE_3),
    *(FIGURE_15, FIGURE_16, FIGURE_20, FIGURE_21, FIGURE_22),
    *(SSGP_1, SSGP_2, SSGP_3, SSGP_4, SSGP_5, SSGP_6),
    BOOK,
)


def list_experiments() -> list[Experiment]:
    """Return every experiment, in the order of the papers.

    Examples
    --------
    >>> [experiment.name for experiment in list_experiments()]
    ['archipelago-fig1'...]
    """
    return list(EXPERIMENTS)


def find_experiment(name: str) -> Experiment:
    """Return the experiment of that name.

    Examples
    --------
    >>> find_experiment("rogers-15")
    Traceback (most recent call last):
    ValueError: name 'rogers-15' is not an experiment; did you mean 'rogers-fig15'? ...
    """
    experiments = {experiment.name: experiment for experiment in EXPERIMENTS}
    if name not in experiments:
        hint = _nearest(name, list(experiments))
        there = f"{hint}There are" if hint else "there are"
        raise ValueError(f"name {name!r} is not an experiment; {there}: {', '.join(experiments)}.")
    return experiments[name]


def _nearest(name: str, names: Sequence[str]) -> str:
    """Ask which experiment was meant, as the beginning of a sentence; nothing if none is near.

    One figure is not a misspelling of another, however similar their names: if no figure has the
    number, all of the same paper are named.
    """
    ends = [other for other in names if other.endswith(f"-{name}")]
    if ends:
        return f"did you mean {' or '.join(map(repr, ends))}? "
    same = [other for other in names if _digits(other) == _digits(name)]
    meant = did_you_mean(name, same, 0.8)
    near = near_name(_letters(name), [_letters(other) for other in names], 0.8)
    if meant or near is None:
        return meant
    return f"near it are {', '.join(other for other in names if _letters(other) == near)}. "


def _digits(name: str) -> list[str]:
    return [letter for letter in name if letter.isdigit()]


def _letters(name: str) -> str:
    return "".join(letter for letter in name if not letter.isdigit())


def run_experiment(
    name: str,
    *,
    out: str | os.PathLike[str] = "reproductions-output",
    quick: bool = False,
    n_jobs: int | None = None,
    seed: int = 0,
    data_home: str | os.PathLike[str] | None = None,
    progress: bool = True,
    cache: str | os.PathLike[str] | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
    limit: float | None = None,
) -> Report:
    """Run the experiment of that name and write its table, picture and page.

    These are ``cells.csv``, ``<name>.png`` and ``<name>.md`` in ``<out>/<name>/``. Finished cells
    are kept in the cache, so that a second call repeats nothing.

    Parameters
    ----------
    name : str
        One of the names in `list_experiments`.
    out : path, default="reproductions-output"
        A folder, created if it does not exist.
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
    """
    # Many parameters because they are the command's options.
    return engine.run(
        find_experiment(name),
        out=out,
        quick=quick,
        n_jobs=n_jobs,
        seed=seed,
        data_home=data_home,
        progress=progress,
        cache=cache,
        only=only,
        limit=limit,
    )
