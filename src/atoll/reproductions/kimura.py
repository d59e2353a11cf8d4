"""Kimura, Nakada, Doucet & Matsumoto: semi-supervised learning by Dirichlet process EM."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from atoll.datasets import make_rings, make_spirals
from atoll.estimators import DPMixtureClassifier
from atoll.plotting.palette import new_figure
from atoll.reproductions.engine import Cell, DataHome, Experiment, Result
from atoll.reproductions.tables import (
    Estimate,
    estimate_value,
    group,
    markdown_table,
    paired_difference,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

PAPER = (
    "T. Kimura, Y. Nakada, A. Doucet and T. Matsumoto (2009), *Semi-supervised learning scheme "
    "using Dirichlet process EM-algorithm*."
)
N_LABELLED, N_UNLABELLED, N_TEST = 250, 250, 2000  # the first two per class, the last in all
N_REPLICATES, N_QUICK_REPLICATES = 20, 2
SIZES = [0, 10, 20, 30, 40, 50]  # unlabelled rows per class, as in table 1
QUICK_SIZES = [0, 50]
N_FEW_LABELLED, N_RUNS, N_QUICK_RUNS = 50, 100, 8
TRUNCATION = 20  # components per class; the paper only says that their number is large
COLOURS = ("#2166ac", "#b2182b")
MARKERS = ("o", "^")  # as in figure 1


def paper_model(rng: np.random.Generator) -> DPMixtureClassifier:
    """Return a model with the paper's prior (section 2.4), unscaled rows and our own truncation."""
    return DPMixtureClassifier(
        n_components=TRUNCATION,
        covariance="full",
        scale_features=False,
        n_folds=0,
        unlabelled=-1,
        random_state=rng,
    )


def fit_quietly(model: DPMixtureClassifier, X: Array, y: Labels) -> DPMixtureClassifier:
    """Fit without convergence warnings; the page says how often EM converged instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def draw_rows(
    make: Callable[..., Any], n_labelled: int, n_unlabelled: int, rng: np.random.Generator
) -> tuple[Array, Labels, Labels]:
    """Draw rows of both classes; return X, y with -1 for unlabelled rows, and the true classes."""
    n = n_labelled + n_unlabelled
    X, truth = make(2 * n, random_state=rng)
    place = np.empty(2 * n, dtype=int)  # position of each row among those of its class
    for c in (0, 1):
        place[truth == c] = np.arange(n)
    return X, np.where(place < n_labelled, truth, -1), truth


# --- examples 1 and 2 -----------------------------------------------------------------------------


def replicate_cells(quick: bool, seed: int) -> list[Cell]:
    """Return one cell per data set."""
    n = N_QUICK_REPLICATES if quick else N_REPLICATES
    return [{"replicate": replicate, "seed": seed} for replicate in range(n)]


def streams(cell: Cell) -> list[np.random.Generator]:
    """Return random streams for the training rows, the test rows and the starts."""
    return np.random.default_rng([cell["seed"], cell["replicate"]]).spawn(3)


def run_example(make: Callable[..., Any], cell: Cell) -> dict[str, Any]:
    """Fit 250 labelled and 250 unlabelled rows per class; measure error and loss on new rows."""
    rng, rng_test, rng_starts = streams(cell)
    X, y, _ = draw_rows(make, N_LABELLED, N_UNLABELLED, rng)
    X_test, y_test = make(N_TEST, random_state=rng_test)
    model = fit_quietly(paper_model(rng_starts), X, y)
    values: dict[str, Any] = {
        "test_error": float(np.mean(model.predict(X_test) != y_test)),
        "test_loss": float(-model.score_samples(X_test).mean()),
        "components_of_class_0": int(model.n_components_[0]),
        "components_of_class_1": int(model.n_components_[1]),
        "iterations": model.n_iter_,
        "converged": int(model.diagnostics_["converged"]),
    }
    if cell["replicate"] == 0:
        values |= {
            "weights": model.weights_,
            "means": model.means_,
            "covariances": model.posterior_.covariances(),
        }
    return values


def run_rings(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Run a cell of example 1."""
    return run_example(make_rings, cell)


def run_spirals(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Run a cell of example 2."""
    return run_example(make_spirals, cell)


def class_density(values: dict[str, Any], c: int, points: Array) -> Array:
    """Return p(x | c) at points (m, d), by the mixture kept in a cell's values."""
    from scipy.stats import multivariate_normal

    total = np.zeros(len(points))
    for weight, mean, covariance in zip(
        values["weights"][c], values["means"][c], values["covariances"][c]
    ):
        if weight > 0:
            total += weight * multivariate_normal(mean, covariance).pdf(points)
    return total


def draw_rings(results: list[Result], path: Path) -> None:
    """Draw figures 1 and 2: the rows, and the density of each class."""
    first = next(r for r in results if "means" in r.values)
    X, y, _ = draw_rows(make_rings, N_LABELLED, N_UNLABELLED, streams(first.cell)[0])
    figure = new_figure(11, 9.6)
    (labelled, unlabelled), densities = figure.subplots(2, 2, sharex=True, sharey=True)
    for c in (0, 1):
        scatter(labelled, X[y == c], c)
    labelled.legend(loc="upper right", fontsize="small")
    labelled.set_title("Figure 1a: labelled rows")
    unlabelled.scatter(*X[y < 0].T, s=10, c="grey")
    unlabelled.set_title("Figure 1b: unlabelled rows")
    side = np.linspace(-5.2, 5.2, 160)
    points = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
    for c, axis in enumerate(densities):
        surface = class_density(first.values, c, points).reshape(len(side), len(side))
        image = axis.contourf(side, side, surface, 24, cmap="Blues" if c == 0 else "Reds")
        figure.colorbar(image, ax=axis, label=f"p(x | group {c + 1})", shrink=0.8)
        used = int(first.values[f"components_of_class_{c}"])
        axis.set_title(f"Figure 2{'ab'[c]}: group {c + 1}, {used} components")
        axis.set_xlabel("$y_1$")
    for axis in (labelled, unlabelled, *densities):
        axis.set_aspect("equal")
    for axis in (labelled, densities[0]):
        axis.set_ylabel("$y_2$")
    figure.savefig(path, dpi=110)


def scatter(axis: Axes, X: Array, c: int) -> None:
    """Draw the rows of one group in its colour and shape."""
    style: dict[str, Any] = {"s": 14, "edgecolors": "white", "linewidths": 0.3}
    x1, x2 = X.T
    axis.scatter(x1, x2, c=COLOURS[c], marker=MARKERS[c], label=f"group {c + 1}", **style)


def draw_spirals(results: list[Result], path: Path) -> None:
    """Draw figures 3 and 4: the rows, and the longest axis of every component."""
    first = next(r for r in results if "means" in r.values)
    X, y, _ = draw_rows(make_spirals, N_LABELLED, N_UNLABELLED, streams(first.cell)[0])
    figure = new_figure(11, 10)
    panels = figure.subplots(2, 2, subplot_kw={"projection": "3d"}).ravel()
    for c in (0, 1):
        panels[c].scatter(*X[y == c].T, s=8, c=COLOURS[c], marker=MARKERS[c])
        panels[c].set_title(f"Figure 3{'ab'[c]}: labelled rows of group {c + 1}")
    panels[2].scatter(*X[y < 0].T, s=6, c="grey")
    panels[2].set_title("Figure 3c: unlabelled rows of both")
    v = first.values
    for c in (0, 1):
        panels[3].scatter(*X[y == c].T, s=5, c=COLOURS[c], marker=MARKERS[c], alpha=0.6)
        for weight, mean, covariance in zip(v["weights"][c], v["means"][c], v["covariances"][c]):
            if weight * (N_LABELLED + N_UNLABELLED) < 1:
                continue
            lengths, directions = np.linalg.eigh(covariance)
            ends = mean + np.outer([-1.7, 1.7], np.sqrt(lengths[-1]) * directions[:, -1])
            panels[3].plot(*ends.T, color=COLOURS[c], linewidth=2.5)
    panels[3].set_title("Figure 4: longest axes of the components")
    for panel in panels:
        panel.set_box_aspect((1, 1, 1), zoom=0.95)
        panel.set(
            xlabel="$y_1$", ylabel="$y_2$", zlabel="$y_3$",
            xlim=(-16, 16), ylim=(-16, 16), zlim=(-5, 165),
        )  # fmt: skip
    figure.savefig(path, dpi=110)


def compare_example(results: list[Result], figure: str, shape: str) -> str:
    """Return the Markdown for examples 1 and 2."""
    error = estimate_value(results, "test_error")
    used = [estimate_value(results, f"components_of_class_{c}") for c in (0, 1)]
    worst = max(r.values["test_error"] for r in results)
    converged = sum(r.values["converged"] for r in results)
    table = markdown_table(
        ["", "the paper", "ours"],
        [
            ["group densities", f"shown in {figure}, no numbers", f"{shape}; see the picture"],
            [f"test error on {N_TEST} new rows", "not given", f"{error:.4f}, worst {worst:.4f}"],
            ["predictive loss", "not given", f"{estimate_value(results, 'test_loss'):.3f}"],
            [
                f"components of each group, of {TRUNCATION}",
                "not given",
                f"{used[0]:.1f} and {used[1]:.1f}",
            ],
        ],
    )
    verdict = (
        "The error is below 1% on every data set: the paper's “reasonable capability” holds."
        if worst < 0.01
        else "On some data sets the error is above 1%, which the paper's picture does not suggest."
    )
    return f"""## The paper and ours

There are {len(results)} data sets of the paper's size: {N_LABELLED} labelled and {N_UNLABELLED}
unlabelled rows per group. Prior and hyper-parameters are the paper's, on unscaled rows; the
truncation K = {TRUNCATION} is ours, since the paper only says that it is large. EM converged on
{converged} of {len(results)} sets. ± is one standard error over the data sets.

{table}

{verdict} Redundant components lose all their rows and stay at the mode of the prior: the number of
components is found, not set.
"""


def compare_rings(results: list[Result]) -> str:
    """Return the Markdown for example 1."""
    return compare_example(results, "figure 2", "two rings")


def compare_spirals(results: list[Result]) -> str:
    """Return the Markdown for example 2."""
    return compare_example(results, "figure 4", "axes that follow the spirals")


# --- example 3 ------------------------------------------------------------------------------------


def unlabelled_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the cells: unlabelled rows × run; the quick cells are some of the full ones."""
    sizes, n_runs = (QUICK_SIZES, N_QUICK_RUNS) if quick else (SIZES, N_RUNS)
    return [
        {"unlabelled": size, "replicate": run, "seed": seed}
        for size in sizes
        for run in range(n_runs)
    ]


def run_unlabelled(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Run a cell of example 3; within a run, labelled and test rows are the same at every size."""
    rng, rng_test, rng_starts = streams(cell)
    most = max(SIZES)
    X, y, truth = draw_rows(make_rings, N_FEW_LABELLED, most, rng)
    keep = y >= 0
    for c in (0, 1):
        keep[np.flatnonzero((y < 0) & (truth == c))[: cell["unlabelled"]]] = True
    X_test, y_test = make_rings(N_TEST, random_state=rng_test)
    model = fit_quietly(paper_model(rng_starts), X[keep], y[keep])
    return {
        "loss": float(-model.score_samples(X_test).mean()),
        "accuracy": float(np.mean(model.predict(X_test) == y_test)),
        "components": int(model.n_components_.sum()),
        "converged": int(model.diagnostics_["converged"]),
    }


def draw_unlabelled(results: list[Result], path: Path) -> None:
    """Draw figure 5: predictive loss and accuracy against the number of rows."""
    by_size = group(results, "unlabelled")
    total = [2 * (N_FEW_LABELLED + size) for size in by_size]
    figure = new_figure(10, 3.8)
    for axis, value, title in zip(
        figure.subplots(1, 2),
        ("loss", "accuracy"),
        ("Figure 5a: predictive loss", "Figure 5b: accuracy"),
    ):
        found = [estimate_value(part, value) for part in by_size.values()]
        axis.errorbar(
            total,
            [one.mean for one in found],
            [2 * one.standard_error for one in found],
            marker="o",
            capsize=3,
            color=COLOURS[0],
        )
        axis.set(title=title, xlabel="rows in all, 100 of them labelled")
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("nats per row")
    figure.axes[1].set_ylabel("share of test rows")
    figure.savefig(path, dpi=120)


def unlabelled_steps(results: list[Result], value: str) -> list[tuple[int, int, Estimate]]:
    """Return the change of a value from each size to the next, paired run by run."""
    by_size = group(results, "unlabelled")
    sizes = list(by_size)
    return [
        (a, b, paired_difference(by_size[b], by_size[a], value, pair_by=["replicate"]))
        for a, b in pairwise(sizes)
    ]


def compare_unlabelled(results: list[Result]) -> str:
    """Return the Markdown for example 3."""
    by_size = group(results, "unlabelled")
    steps = {value: unlabelled_steps(results, value) for value in ("loss", "accuracy")}
    rows = [
        [
            2 * (N_FEW_LABELLED + size),
            2 * size,
            f"{estimate_value(part, 'loss'):.4f}",
            f"{estimate_value(part, 'accuracy'):.4f}",
            f"{estimate_value(part, 'components'):.1f}",
        ]
        for size, part in by_size.items()
    ]
    table = markdown_table(
        ["rows", "unlabelled", "predictive loss", "accuracy", "components"], rows
    )
    changes = markdown_table(
        ["unlabelled rows per group", "change in loss", "change in accuracy"],
        [
            [f"{a} to {b}", f"{loss:+.4f}", f"{accuracy:+.4f}"]
            for (a, b, loss), (_, _, accuracy) in zip(steps["loss"], steps["accuracy"])
        ],
    )
    against = [
        f"{name} from {a} to {b}"
        for name, sign in (("loss", 1), ("accuracy", -1))
        for a, b, change in steps[name]
        if sign * change.mean > change.standard_error
    ]
    verdict = (
        "No step goes against the paper by more than its standard error: as unlabelled rows are "
        "added, the loss falls and the accuracy rises."
        if not against
        else f"These go against the paper by more than a standard error: {', '.join(against)}."
    )
    n_runs = min(len(part) for part in by_size.values())
    converged = np.mean([r.values["converged"] for r in results])
    return f"""## The paper and ours

The paper shows two curves without numbers (figure 5) and says that “the predictive loss decreases
and the accuracy rate is better as the number of unlabeled data increase”. The sizes are those of
its table 1, with {n_runs} runs each; ± is one standard error over runs. EM converged in
{converged:.0%} of them.

{table}

Changes from size to size, paired run by run (with the same labelled and test rows):

{changes}

{verdict} The loss is the mean of −log p(y) over {N_TEST} unlabelled test rows.
"""


EXAMPLE_1 = Experiment(
    name="dpem-rings",
    title="Kimura et al. (2009), example 1: two rings",
    paper=PAPER,
    claim="250 labelled and 250 unlabelled rows per group give the densities of two rings.",
    cells=replicate_cells,
    run_cell=run_rings,
    draw=draw_rings,
    comparison=compare_rings,
)
EXAMPLE_2 = Experiment(
    name="dpem-spirals",
    title="Kimura et al. (2009), example 2: dual shrinking spirals",
    paper=PAPER,
    claim="The components line up along two spirals in three dimensions.",
    cells=replicate_cells,
    run_cell=run_spirals,
    draw=draw_spirals,
    comparison=compare_spirals,
)
EXAMPLE_3 = Experiment(
    name="dpem-unlabelled",
    title="Kimura et al. (2009), example 3: the effect of unlabelled data",
    paper=PAPER,
    claim="Predictive loss falls and accuracy rises as unlabelled rows join 100 labelled ones.",
    cells=unlabelled_cells,
    run_cell=run_unlabelled,
    draw=draw_unlabelled,
    comparison=compare_unlabelled,
)
