"""A demonstration of what unlabelled rows are worth, on a pinwheel and a handful of labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.extras import MissingExtraError, import_extra
from atoll.core.files import atomic_path, check_writable

if TYPE_CHECKING:
    from atoll.estimators.held_out import Scores

LABELS_PER_CLASS = 2
SUPERVISED, DEFAULT, ISLANDS = "probit-gp", "atoll", "archipelago"
COMPARED = (SUPERVISED, DEFAULT)  # over all draws; the islands are fitted to the one shown
TITLES = {
    SUPERVISED: "Labels alone",
    DEFAULT: "With the unlabelled rows",
    ISLANDS: "As islands of data",
}
SEA = "#dce9f2"
SHALLOW = 0.25  # chance of a rejection up to which the sea is clear; it is opaque from 0.75 on
CROSS = "#b2182b"


class DemoFiles(NamedTuple):
    """The paths of the demonstration's files."""

    picture: Path
    report: Path
    table: Path


class Size(NamedTuple):
    """The amount of work.

    n_train, n_test : rows
    n_classes : arms of the pinwheel
    n_repeats : draws of rows and labels
    resolution : of the maps, per axis
    n_steps : of the search for the islands
    """

    n_train: int
    n_test: int
    n_classes: int
    n_repeats: int
    resolution: int
    n_steps: int


FULL = Size(n_train=250, n_test=2000, n_classes=5, n_repeats=5, resolution=160, n_steps=100)
QUICK = Size(n_train=100, n_test=500, n_classes=3, n_repeats=3, resolution=50, n_steps=20)


class Problem(NamedTuple):
    """One draw of rows and of the labels that are kept.

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
    """Fit the default classifier to a handful of labels, and others beside it.

    `ProbitGPClassifier` learns from the labelled rows alone, `AtollClassifier` from all of them.
    Both are scored on rows that neither has seen, over several draws of rows and labels. The
    picture and the report show a typical draw: the one with the median gain in accuracy; beside
    them `ArchipelagoClassifier` draws the same classes as islands of data, where JAX is installed.

    Parameters
    ----------
    out : path
        An existing folder for the files.
    seed : int, default=0
        Seed of the rows, the labels and the fits.
    quick : bool, default=False
        Whether to take seconds rather than half a minute, with fewer rows, classes and draws.
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
    files = DemoFiles(*(Path(out) / n for n in ("demo.png", "demo.html", "pinwheel.csv")))
    for file in files:
        check_writable(file)
    streams = np.random.default_rng(seed).spawn(size.n_repeats)
    problems = [make_problem(size, rng) for rng in streams]
    say(
        f"A pinwheel of {size.n_classes} classes: {size.n_train} rows, "
        f"{LABELS_PER_CLASS * size.n_classes} of them labelled, {size.n_test} others for scoring; "
        f"{size.n_repeats} draws of rows and labels."
    )
    fitted = _fit_all(problems, seed, n_jobs)
    scores = [[_score(model, p) for model, p in zip(models, problems)] for models in fitted]
    for line in score_table(*scores):
        say(line)

    shown = typical_draw(*scores)
    models = {name: of_name[shown] for name, of_name in zip(COMPARED, fitted)}
    say("")
    say("Fitting islands of data to a typical draw ...")
    islands = _islands(problems[shown], size, seed + shown, say)
    if islands is not None:
        models[ISLANDS] = islands
    for name, model in models.items():
        say(f"{name}: {model.diagnostics_['verdict']}")
    say("Drawing the picture ...")
    _draw(files.picture, problems[shown], models, size)
    _write_table(files.table, problems[shown])
    say("Writing the report ...")
    _write_report(files, models[DEFAULT], problems[shown], quick=quick, seed=seed)
    say("")
    say(f"Picture: {files.picture}")
    say(f"Report:  {files.report}")
    say(f"Rows:    {files.table}; to fit them yourself:")
    say(f"atoll fit {files.table} --target label --out {files.table.with_suffix('.atoll')}")
    return files


def make_problem(size: Size, rng: np.random.Generator) -> Problem:
    """Draw rows and labels."""
    from atoll.datasets import hide_labels, make_pinwheel

    X, truth = make_pinwheel(size.n_train, size.n_classes, random_state=rng)
    y = hide_labels(truth, per_class=LABELS_PER_CLASS, marker=None, random_state=rng)
    return Problem(X, y, *make_pinwheel(size.n_test, size.n_classes, random_state=rng))


def typical_draw(supervised: Sequence[Scores], default: Sequence[Scores]) -> int:
    """Return the draw with the median gain in accuracy; of two in the middle, the lower."""
    gains = [b.accuracy - a.accuracy for a, b in zip(supervised, default)]
    return int(np.argsort(gains)[(len(gains) - 1) // 2])


def score_table(supervised: Sequence[Scores], default: Sequence[Scores]) -> list[str]:
    """Return lines with each model's mean scores over the draws, and a sentence to compare them.

    Parameters
    ----------
    supervised, default : one `Scores` per draw, for the two models in the order of COMPARED
    """
    measures: dict[str, Callable[[Scores], float]] = {
        "error": lambda s: 1 - s.accuracy,
        "log-loss": lambda s: s.log_loss,
        "Brier score": lambda s: s.brier,
        "calibration error": lambda s: s.calibration_error,
    }
    lines = ["", f"{'':10}" + "".join(f"{name:>18}" for name in measures)]
    for name, scores in zip(COMPARED, (supervised, default)):
        cells = (_with_error([measure(s) for s in scores]) for measure in measures.values())
        lines.append(f"{name:10}" + "".join(f"{cell:>18}" for cell in cells))
    lines.append("(means over the draws of rows and labels ± standard error; lower is better)")
    gains = {
        name: np.array([measure(a) - measure(b) for a, b in zip(supervised, default)])
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


def _fit_all(problems: list[Problem], seed: int, n_jobs: int) -> list[list[Any]]:
    """Return the fitted models: one list per model compared, in the order of `problems`."""
    from joblib import Parallel, delayed

    from atoll.core.progress import progress_bar

    tasks = [(name, i) for name in COMPARED for i in range(len(problems))]
    jobs = (delayed(_fit)(name, problems[i], seed + i) for name, i in tasks)
    done = Parallel(n_jobs=n_jobs, return_as="generator")(jobs)
    models = list(progress_bar(done, total=len(tasks), desc="fitting", unit="model", leave=False))
    return [models[: len(problems)], models[len(problems) :]]


def _fit(name: str, problem: Problem, seed: int, **settings: Any) -> Any:
    from atoll.estimators import MODELS

    if name == SUPERVISED:
        settings = {"inference": "vb", **settings}
    estimator = MODELS[name](random_state=seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the verdict is said below
        return estimator.fit(problem.X, problem.y)


def _islands(problem: Problem, size: Size, seed: int, say: Callable[[str], None]) -> Any:
    """Return the islands of one draw, or None where JAX is not installed."""
    try:
        import_extra("jax")
    except MissingExtraError as error:
        say(f"Without the islands: {error}")
        return None
    return _fit(ISLANDS, problem, seed, inference="vi", n_steps=size.n_steps)


def _score(estimator: Any, problem: Problem) -> Scores:
    from atoll.estimators.held_out import score

    return score(estimator.predict_proba(problem.X_test), problem.y_test)


# --- showing -------------------------------------------------------------------------------------


def _draw(path: Path, problem: Problem, models: dict[str, Any], size: Size) -> None:
    """Draw a map of each model side by side, with a cross on every new row predicted wrong."""
    from atoll.plotting import decision_map, probability_grid
    from atoll.plotting.palette import new_figure

    everywhere = np.vstack([problem.X, problem.X_test])  # so that no cross is cut off
    figure = new_figure(4.3 * len(models), 5.3)
    panels = figure.subplots(1, len(models), sharex=True, sharey=True, squeeze=False)[0]
    for (name, model), ax in zip(models.items(), panels):
        grid = probability_grid(model, everywhere, resolution=size.resolution)
        grid = grid._replace(rows=grid.rows[: len(problem.X)])
        decision_map(model, problem.X, problem.y, ax=ax, unlabelled=None, grid=grid, legend=False)
        if name == ISLANDS:
            _flood(ax, model, grid)
        p = model.predict_proba(problem.X_test)
        wrong = model.classes_[p.argmax(axis=1)] != problem.y_test
        crosses = {"marker": "x", "s": 22, "linewidths": 1.2, "color": CROSS, "zorder": 4}
        ax.scatter(*problem.X_test[wrong].T, **crosses)
        log_loss = -np.log(p[np.arange(len(p)), problem.y_test]).mean()
        ax.set(aspect="equal", xticks=[], yticks=[], xlabel="", ylabel="")
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_title(f"{TITLES[name]}\n{type(model).__name__}", fontsize=16)
        said = f"{wrong.mean():.1%} of new rows wrong\nlog-loss {log_loss:.2f}"
        ax.set_xlabel(said, fontsize=15)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=130)


def _flood(ax: Any, model: Any, grid: Any) -> None:
    """Cover with sea the places where the model expects no data, and draw the shores."""
    to_rgb = import_extra("matplotlib.colors").to_rgb
    for lines in [found for found in ax.collections if hasattr(found, "levels")]:
        lines.remove()  # islands have shores in the place of boundaries
    places = np.stack([part.ravel() for part in np.meshgrid(*grid.axes)], axis=1)
    rejected = model.predict_rejection(places).reshape(len(grid.axes[1]), len(grid.axes[0]))
    depth = np.clip((rejected - SHALLOW) / (1 - 2 * SHALLOW), 0, 1)[..., None]
    sea = np.concatenate([np.broadcast_to(to_rgb(SEA), (*rejected.shape, 3)), depth], axis=2)
    (left, right), (bottom, top) = ((axis[0], axis[-1]) for axis in grid.axes)
    ax.imshow(
        sea,
        extent=(left, right, bottom, top),
        origin="lower",
        aspect="auto",
        interpolation="bilinear",
        zorder=1.5,
    )
    ax.contour(*grid.axes, rejected, levels=[0.5], colors="#8aa9bd", linewidths=1, zorder=1.6)


def _write_table(path: Path, problem: Problem) -> None:
    from atoll.core.tables import write_table

    pd = import_extra("pandas")
    columns = {"x0": problem.X[:, 0], "x1": problem.X[:, 1]}
    write_table(pd.DataFrame(columns | {"label": pd.array(problem.y, dtype="Int64")}), path)


def _write_report(
    files: DemoFiles, estimator: Any, problem: Problem, *, quick: bool, seed: int
) -> None:
    from atoll.reports.report import write_report
    from atoll.reports.table import RowTable

    frame = import_extra("pandas").DataFrame(problem.X, columns=["x0", "x1"])
    write_report(
        estimator,
        problem.X,
        problem.y,
        files.report,
        title="A pinwheel, two labels a class",
        about={"Data": files.table.name},
        unlabelled=None,
        n_splits=2,
        random_state=seed,
        cross_validate=not quick,
        progress=True,
        table=RowTable(frame),
    )
