"""The demonstration: what unlabelled rows are worth, on two crescents and a dozen labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.files import atomic_path, check_writable

if TYPE_CHECKING:
    from atoll.reports.held_out import Scores

LABELS_PER_CLASS = 6
MODEL_NAMES = ("probit-gp", "null-category")


class DemoFiles(NamedTuple):
    """Where the demonstration's files are."""

    picture: Path
    report: Path
    table: Path


class Size(NamedTuple):
    """How much work: rows, label draws, and sweeps of each of the chains."""

    n_train: int
    n_test: int
    n_repeats: int
    n_chains: int
    n_warmup: int
    n_samples: int


FULL = Size(n_train=200, n_test=2000, n_repeats=6, n_chains=4, n_warmup=200, n_samples=200)
QUICK = Size(n_train=60, n_test=500, n_repeats=2, n_chains=2, n_warmup=30, n_samples=30)


class Problem(NamedTuple):
    """One draw of rows and of the labels that are kept; standardised on the training rows.

    X (n, 2), y (n,) with None where hidden, X_test (m, 2), y_test (m,)
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.int64]


def run_demo(
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    quick: bool = False,
    say: Callable[[str], None] = print,
) -> DemoFiles:
    """Fit a supervised model and its semi-supervised twin to the same dozen labels.

    `ProbitGPClassifier` learns from the labelled rows alone; `NullCategoryClassifier` is the
    same model with a null category, through which the unlabelled rows speak. Both are scored
    on rows that neither has seen, over several draws of rows and labels; the picture and the
    report show the first.

    Parameters
    ----------
    out : path
        A folder that exists.
    seed : int
    quick : bool
        Seconds rather than a minute: fewer rows, fewer draws, one comparison less sure.
    say : callable
        Takes the lines to be shown.

    Returns
    -------
    DemoFiles
    """
    size = QUICK if quick else FULL
    files = DemoFiles(*(Path(out) / n for n in ("demo.png", "demo.html", "crescents.csv")))
    for file in files:
        check_writable(file)
    streams = np.random.default_rng(seed).spawn(size.n_repeats)
    problems = [make_problem(size, rng) for rng in streams]
    n_labels = 2 * LABELS_PER_CLASS
    say(
        f"Two crescents: {size.n_train} rows, {n_labels} of them labelled, "
        f"{size.n_test} others to be scored on; {size.n_repeats} draws of rows and labels."
    )
    fitted = _fit_all(problems, size, seed)
    scores = [[_score(model, p) for model, p in zip(models, problems)] for models in fitted]
    for line in score_table(scores):
        say(line)

    first = problems[0]
    supervised, semi_supervised = (models[0] for models in fitted)
    _draw(files.picture, first, (supervised, semi_supervised), [s[0] for s in scores])
    _write_table(files.table, first)
    _write_report(files.report, semi_supervised, first, size, quick=quick, seed=seed)
    say("")
    say(f"Picture: {files.picture}")
    say(f"Report:  {files.report}")
    say(f"Rows:    {files.table}, to try: atoll fit {files.table} --target label \\")
    say("             --model null-category --out crescents.atoll")
    return files


def make_problem(size: Size, rng: np.random.Generator) -> Problem:
    """Draw rows and labels, scaled by the training rows alone."""
    from atoll.datasets import hide_labels, make_crescents

    X, truth = make_crescents(size.n_train, random_state=rng)
    y = hide_labels(truth, per_class=LABELS_PER_CLASS, marker=None, random_state=rng)
    X_test, y_test = make_crescents(size.n_test, random_state=rng)
    mean, scale = X.mean(axis=0), X.std(axis=0)
    return Problem((X - mean) / scale, y, (X_test - mean) / scale, y_test)


def score_table(scores: Sequence[Sequence[Scores]]) -> list[str]:
    """Lines with each model's mean scores, their standard errors, and a sentence that compares.

    Parameters
    ----------
    scores : one sequence a model, in the order of MODEL_NAMES, of one `Scores` a draw
    """
    columns = {
        "error": [[1 - s.accuracy for s in row] for row in scores],
        "log-loss": [[s.log_loss for s in row] for row in scores],
        "Brier": [[s.brier for s in row] for row in scores],
        "calibration error": [[s.calibration_error for s in row] for row in scores],
    }
    width = 17
    lines = ["", f"{'':14}" + "".join(f"{name:>{width}}" for name in columns)]
    for i, name in enumerate(MODEL_NAMES):
        cells = [f"{_with_error(values[i]):>{width}}" for values in columns.values()]
        lines.append(f"{name:14}" + "".join(cells))
    return [*lines, "", _comparison(*np.array(columns["error"]))]


def _comparison(supervised: NDArray[np.float64], twin: NDArray[np.float64]) -> str:
    n = len(supervised)
    wins = int((twin < supervised).sum())
    return (
        f"With the unlabelled rows, errors fell in {wins} of {n} draws, "
        f"by {_with_error(supervised - twin)} on average (± standard error over draws)."
    )


def _with_error(values: Sequence[float] | NDArray[np.float64]) -> str:
    mean = np.mean(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    return f"{mean:.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


# --- fitting -------------------------------------------------------------------------------------


def _fit_all(problems: list[Problem], size: Size, seed: int) -> list[list[Any]]:
    """Fitted models, one list a name, in the order of `problems`."""
    from joblib import Parallel, delayed
    from tqdm import tqdm

    tasks = [(name, i) for name in MODEL_NAMES for i in range(len(problems))]
    jobs = (delayed(_fit)(name, problems[i], size, seed + i) for name, i in tasks)
    done = Parallel(n_jobs=-1, return_as="generator")(jobs)
    models = list(tqdm(done, total=len(tasks), desc="fitting", unit="model", leave=False))
    return [models[: len(problems)], models[len(problems) :]]


def _fit(name: str, problem: Problem, size: Size, seed: int) -> Any:
    from threadpoolctl import threadpool_limits

    from atoll.estimators import MODELS

    estimator = MODELS[name](
        n_chains=size.n_chains,
        n_warmup=size.n_warmup,
        n_samples=size.n_samples,
        random_state=seed,
    )
    # Small matrices: threads inside each of the parallel fits would only wait for each other.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report gives the chains' verdict
        return estimator.fit(problem.X, problem.y)


def _score(estimator: Any, problem: Problem) -> Scores:
    from atoll.reports.held_out import score

    return score(estimator.predict_proba(problem.X_test), problem.y_test)


# --- showing -------------------------------------------------------------------------------------


def _draw(path: Path, problem: Problem, models: tuple[Any, Any], scores: Sequence[Scores]) -> None:
    from matplotlib.figure import Figure

    from atoll.plotting import decision_map

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    titles = ("Labelled rows alone", "With the unlabelled rows")
    for i, (ax, model, title) in enumerate(zip(axes, models, titles)):
        decision_map(model, problem.X, problem.y, ax=ax, unlabelled=None, legend=i == 1)
        ax.set_title(
            f"{title}: {type(model).__name__}\nerror on new rows {1 - scores[i].accuracy:.1%}"
        )
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)


def _write_table(path: Path, problem: Problem) -> None:
    import pandas as pd

    from atoll.core.tables import write_table

    columns = {"x0": problem.X[:, 0], "x1": problem.X[:, 1]}
    write_table(pd.DataFrame(columns | {"label": pd.array(problem.y, dtype="Int64")}), path)


def _write_report(
    path: Path, estimator: Any, problem: Problem, size: Size, *, quick: bool, seed: int
) -> None:
    from atoll.reports.report import write_report

    write_report(
        estimator,
        problem.X,
        problem.y,
        path,
        title="Two crescents, a dozen labels",
        unlabelled=None,
        random_state=seed,
        cross_validate=not quick,
        progress=True,
    )
