"""A demonstration of what unlabelled rows are worth, on two crescents and a dozen labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.extras import import_extra
from atoll.core.files import atomic_path, check_writable

if TYPE_CHECKING:
    from atoll.estimators.held_out import Scores

LABELS_PER_CLASS = 6
MODEL_NAMES = ("probit-gp", "null-category")


class DemoFiles(NamedTuple):
    """The paths of the demonstration's files."""

    picture: Path
    report: Path
    table: Path


class Size(NamedTuple):
    """The amount of work: rows, draws of the problem, chains, and sweeps per chain."""

    n_train: int
    n_test: int
    n_repeats: int
    n_chains: int
    n_warmup: int
    n_samples: int


FULL = Size(n_train=100, n_test=2000, n_repeats=5, n_chains=4, n_warmup=200, n_samples=300)
QUICK = Size(n_train=60, n_test=500, n_repeats=3, n_chains=2, n_warmup=30, n_samples=30)


class Problem(NamedTuple):
    """One draw of rows and of the labels that are kept, standardised by the training rows.

    X : (n, 2)
    y : (n,) with None for a hidden label
    X_test : (m, 2)
    y_test : (m,)
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
    n_jobs: int = -1,
    say: Callable[[str], None] = print,
) -> DemoFiles:
    """Fit a supervised model and its semi-supervised twin to the same dozen labels.

    `ProbitGPClassifier` learns from the labelled rows alone; `NullCategoryClassifier` is the
    same model with a null category, through which it also learns from the unlabelled rows. Both
    are scored on rows that neither has seen, over several draws of rows and labels. The picture
    and the report show a typical draw: the one with the median gain in accuracy.

    Parameters
    ----------
    out : path
        An existing folder for the files.
    seed : int, default=0
        Seed of the rows, the labels and the fits.
    quick : bool, default=False
        Whether to take seconds rather than a minute, with fewer rows, sweeps and draws and a less
        certain comparison.
    n_jobs : int, default=-1
        Number of fits that run at once, by joblib; -1 is one per core.
    say : callable, default=print
        Called with each line to be shown.

    Returns
    -------
    DemoFiles
    """
    for package in ("matplotlib", "jinja2", "pandas"):  # before the long work, not after
        import_extra(package)
    size = QUICK if quick else FULL
    files = DemoFiles(*(Path(out) / n for n in ("demo.png", "demo.html", "crescents.csv")))
    for file in files:
        check_writable(file)
    streams = np.random.default_rng(seed).spawn(size.n_repeats)
    problems = [make_problem(size, rng) for rng in streams]
    n_labels = 2 * LABELS_PER_CLASS
    say(
        f"Two crescents: {size.n_train} rows, {n_labels} of them labelled, "
        f"{size.n_test} others for scoring; {size.n_repeats} draws of rows and labels."
    )
    fitted = _fit_all(problems, size, seed, n_jobs)
    scores = [[_score(model, p) for model, p in zip(models, problems)] for models in fitted]
    for line in score_table(*scores):
        say(line)

    shown = typical_draw(*scores)
    problem, models = problems[shown], tuple(of_name[shown] for of_name in fitted)
    say(f"Chains of the {MODEL_NAMES[1]} model shown: {models[1].diagnostics_['verdict']}")
    _draw(files.picture, problem, models, [of_name[shown] for of_name in scores])
    _write_table(files.table, problem)
    models[1].set_params(n_jobs=n_jobs)  # the report refits it one fold at a time
    _write_report(files.report, models[1], problem, quick=quick, seed=seed)
    say("")
    say(f"Picture: {files.picture}")
    say(f"Report:  {files.report}")
    say(f"Rows:    {files.table}; to fit them yourself:")
    say(
        f"atoll fit {files.table} --target label --model {MODEL_NAMES[1]} "
        f"--out {files.table.with_suffix('.atoll')}"
    )
    return files


def make_problem(size: Size, rng: np.random.Generator) -> Problem:
    """Draw rows and labels, and standardise all rows by the training rows alone."""
    from atoll.datasets import hide_labels, make_crescents

    X, truth = make_crescents(size.n_train, random_state=rng)
    y = hide_labels(truth, per_class=LABELS_PER_CLASS, marker=None, random_state=rng)
    X_test, y_test = make_crescents(size.n_test, random_state=rng)
    mean, scale = X.mean(axis=0), X.std(axis=0)
    return Problem((X - mean) / scale, y, (X_test - mean) / scale, y_test)


def typical_draw(supervised: Sequence[Scores], twin: Sequence[Scores]) -> int:
    """Return the draw with the median gain in accuracy; of two in the middle, the lower."""
    gains = [b.accuracy - a.accuracy for a, b in zip(supervised, twin)]
    return int(np.argsort(gains)[(len(gains) - 1) // 2])


def score_table(supervised: Sequence[Scores], twin: Sequence[Scores]) -> list[str]:
    """Return lines with each model's mean scores over the draws, and a sentence to compare them.

    Parameters
    ----------
    supervised, twin : one `Scores` per draw, for the two models in the order of MODEL_NAMES
    """
    measures: dict[str, Callable[[Scores], float]] = {
        "error": lambda s: 1 - s.accuracy,
        "log-loss": lambda s: s.log_loss,
        "Brier score": lambda s: s.brier,
        "calibration error": lambda s: s.calibration_error,
    }
    lines = ["", f"{'':14}" + "".join(f"{name:>19}" for name in measures)]
    for name, scores in zip(MODEL_NAMES, (supervised, twin)):
        cells = (_with_error([measure(s) for s in scores]) for measure in measures.values())
        lines.append(f"{name:14}" + "".join(f"{cell:>19}" for cell in cells))
    lines.append("(means over the draws of rows and labels ± standard error; lower is better)")
    gains = {
        name: np.array([measure(a) - measure(b) for a, b in zip(supervised, twin)])
        for name, measure in measures.items()
    }
    error, log_loss = gains["error"], gains["log-loss"]
    return [
        *lines,
        "",
        f"With the unlabelled rows, error fell in {(error > 0).sum()} of {len(error)} draws, by "
        f"{_with_error(error)} on average, and log-loss in {(log_loss > 0).sum()}, by "
        f"{_with_error(log_loss)}.",
    ]


def _with_error(values: Sequence[float] | NDArray[np.float64]) -> str:
    mean = np.mean(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    return f"{mean:.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


# --- fitting -------------------------------------------------------------------------------------


def _fit_all(problems: list[Problem], size: Size, seed: int, n_jobs: int) -> list[list[Any]]:
    """Return the fitted models: one list per model name, in the order of `problems`."""
    from joblib import Parallel, delayed
    from tqdm import tqdm

    tasks = [(name, i) for name in MODEL_NAMES for i in range(len(problems))]
    jobs = (delayed(_fit)(name, problems[i], size, seed + i) for name, i in tasks)
    done = Parallel(n_jobs=n_jobs, return_as="generator")(jobs)
    models = list(tqdm(done, total=len(tasks), desc="fitting", unit="model", leave=False))
    return [models[: len(problems)], models[len(problems) :]]


def _fit(name: str, problem: Problem, size: Size, seed: int) -> Any:
    from atoll.estimators import MODELS

    estimator = MODELS[name](
        n_chains=size.n_chains,
        n_warmup=size.n_warmup,
        n_samples=size.n_samples,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report gives the chains' verdict
        return estimator.fit(problem.X, problem.y)


def _score(estimator: Any, problem: Problem) -> Scores:
    from atoll.estimators.held_out import score

    return score(estimator.predict_proba(problem.X_test), problem.y_test)


# --- showing -------------------------------------------------------------------------------------


def _draw(path: Path, problem: Problem, models: Sequence[Any], scores: Sequence[Scores]) -> None:
    """Draw two decision maps side by side, with a cross on every new row predicted wrong."""
    from atoll.plotting import decision_map
    from atoll.plotting.palette import new_figure

    figure = new_figure(11.5, 5)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    titles = ("Labelled rows alone", "With the unlabelled rows")
    for model, score, title, ax in zip(models, scores, titles, axes):
        decision_map(model, problem.X, problem.y, ax=ax, unlabelled=None, resolution=80)
        xlim, ylim = ax.get_xlim(), ax.get_ylim()
        wrong = model.predict(problem.X_test) != problem.y_test
        crosses = ax.scatter(*problem.X_test[wrong].T, marker="x", s=30, color="#b2182b", zorder=4)
        ax.set(xlim=xlim, ylim=ylim)
        ax.set_title(
            f"{title}: {type(model).__name__}\n"
            f"{wrong.mean():.1%} of new rows wrong, log-loss {score.log_loss:.3f}"
        )
    # Both maps have the same legend, so one is enough, with the crosses added.
    legends = [ax.get_legend() for ax in axes]
    names = [text.get_text() for text in legends[0].get_texts()]
    figure.legend(
        [*legends[0].legend_handles, crosses],
        [*names, "new row, wrong"],
        loc="outside right upper",
        frameon=False,
        fontsize=9,
    )
    for legend in legends:
        legend.remove()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)


def _write_table(path: Path, problem: Problem) -> None:
    from atoll.core.tables import write_table

    pd = import_extra("pandas")
    columns = {"x0": problem.X[:, 0], "x1": problem.X[:, 1]}
    write_table(pd.DataFrame(columns | {"label": pd.array(problem.y, dtype="Int64")}), path)


def _write_report(path: Path, estimator: Any, problem: Problem, *, quick: bool, seed: int) -> None:
    from atoll.reports.report import write_report

    write_report(
        estimator,
        problem.X,
        problem.y,
        path,
        title="Two crescents, a dozen labels",
        unlabelled=None,
        n_splits=3,
        random_state=seed,
        cross_validate=not quick,
        progress=True,
    )
