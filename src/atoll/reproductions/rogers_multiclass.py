"""Rogers (2014), figure 16: three classes by the multinomial probit Gaussian process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.metrics import log_loss, zero_one_loss

from atoll.estimators import ProbitGPClassifier
from atoll.plotting.palette import class_colours, class_markers, new_figure
from atoll.reproductions.engine import Cell, DataHome, Experiment, Result
from atoll.reproductions.rogers import PAPER, about_r_hat, fit_quietly, fixed_kernel, verdict
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

GAMMA = 1.0
# Centres of four round clouds; class 0 has two of them, on either side of the others.
CENTRES = np.array([[-1.5, -0.9], [1.5, 0.9], [-1.1, 1.3], [1.1, -1.3]])
CLASS_OF_CLOUD = np.array([0, 0, 1, 2])
SPREAD = 0.7
N_CLASSES, N_TEST = 3, 500
N_CHAINS, N_WARMUP, N_SAMPLES, N_QUICK_SAMPLES = 2, 25, 200, 75
N_TRAIN, QUICK_N_TRAIN, DRAWN_N_TRAIN = [30, 60, 120, 240], [30, 60], 60
N_REPLICATES, N_QUICK_REPLICATES = 20, 3
FAR_AWAY = np.array([[100.0, 100.0]])
GRID = np.linspace(-3.6, 3.6, 41)


def four_clouds(n: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
    """Draw three classes in four Gaussian clouds: X (n, 2), y (n,), classes in turn."""
    y = np.arange(n) % N_CLASSES
    cloud = np.where(y == 0, rng.integers(0, 2, size=n), y + 1)
    return CENTRES[cloud] + SPREAD * rng.normal(size=(n, 2)), y


def true_probabilities(X: Array) -> Array:
    """Return p(y | x) of `four_clouds`, which no model can beat; (n, 2) -> (n, 3)."""
    squared = ((X[:, None] - CENTRES) ** 2).sum(axis=2)
    weight = 1 / np.bincount(CLASS_OF_CLOUD)[CLASS_OF_CLOUD]
    share = softmax(np.log(weight) - 0.5 * squared / SPREAD**2, axis=1)
    return share @ (CLASS_OF_CLOUD[:, None] == np.arange(N_CLASSES))


def grid_points() -> Array:
    """Return the points of the drawn maps, (len(GRID)**2, 2), first coordinate fastest."""
    return np.column_stack([axis.ravel() for axis in np.meshgrid(GRID, GRID)])


def figure_16_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the cells: number of training rows × data set."""
    sizes, n = (QUICK_N_TRAIN, N_QUICK_REPLICATES) if quick else (N_TRAIN, N_REPLICATES)
    n_samples = N_QUICK_SAMPLES if quick else N_SAMPLES
    return [
        {"n_train": n_train, "n_samples": n_samples, "replicate": replicate, "seed": seed}
        for n_train in sizes
        for replicate in range(n)
    ]


def figure_16_streams(cell: Cell) -> list[np.random.Generator]:
    """Return streams for training rows, held-out rows and chains, the same for every size."""
    return np.random.default_rng([cell["seed"], cell["replicate"]]).spawn(3)


def run_figure_16_cell(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Fit the multinomial probit GP with its kernel held fixed; measure held-out losses."""
    rng_train, rng_test, rng_chains = figure_16_streams(cell)
    X, y = four_clouds(cell["n_train"], rng_train)
    X_test, y_test = four_clouds(N_TEST, rng_test)
    model = ProbitGPClassifier(
        kernel=fixed_kernel(GAMMA),
        inference="mcmc",
        n_chains=N_CHAINS,
        n_warmup=N_WARMUP,
        n_samples=cell["n_samples"],
        random_state=rng_chains,
    )
    fit_quietly(model, X, y)
    p, best = model.predict_proba(X_test), true_probabilities(X_test)
    values: dict[str, Any] = {
        "log_loss": log_loss(y_test, p),
        "error": zero_one_loss(y_test, p.argmax(axis=1)),
        "best_log_loss": log_loss(y_test, best),
        "best_error": zero_one_loss(y_test, best.argmax(axis=1)),
        "from_truth": float(0.5 * np.abs(p - best).sum(axis=1).mean()),
        "from_uniform_far_away": float(np.abs(model.predict_proba(FAR_AWAY) - 1 / N_CLASSES).max()),
        "worst_r_hat": max(model.diagnostics_["r_hat"].values()),
    }
    if cell["replicate"] == 0 and cell["n_train"] == DRAWN_N_TRAIN:
        maps = model.predict_proba(grid_points())
        values["maps"] = maps.T.reshape(N_CLASSES, len(GRID), len(GRID))
    return values


def draw_figure_16(results: list[Result], path: Path) -> None:
    """Draw the rows, the map of each class, and below them the losses against the training size."""
    drawn = next(r for r in results if "maps" in r.values)
    X, y = four_clouds(drawn.cell["n_train"], figure_16_streams(drawn.cell)[0])
    figure = new_figure(14, 6.8, h_pad=0.07)
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=[1.15, 1]), dtype=object)
    data_axis, *map_axes = top.subplots(1, 1 + N_CLASSES, sharex=True, sharey=True)
    draw_classes(data_axis, X, y)
    data_axis.set_title(f"Figure 16: {len(y)} rows of three classes")
    data_axis.legend(loc="lower left", fontsize="small")
    data_axis.set_ylabel("$x_2$")
    for k, (axis, surface) in enumerate(zip(map_axes, drawn.values["maps"])):
        image = axis.contourf(GRID, GRID, surface, np.linspace(0, 1, 21), cmap="viridis")
        draw_classes(axis, X, y)
        axis.set_title(f"P(class {k})")
    for axis in (data_axis, *map_axes):
        axis.set(aspect="equal", xlabel="$x_1$", xlim=GRID[[0, -1]], ylim=GRID[[0, -1]])
    top.colorbar(image, ax=map_axes, label="probability", ticks=[0, 1 / 3, 2 / 3, 1],
                 format=lambda p, _: f"{p:.2f}")  # fmt: skip

    by_size = group(results, "n_train")
    loss_axis, error_axis = bottom.subplots(1, 2, sharex=True)
    for axis, value in ((loss_axis, "log_loss"), (error_axis, "error")):
        estimates = [estimate_value(part, value) for part in by_size.values()]
        axis.errorbar(
            list(by_size),
            [e.mean for e in estimates],
            [2 * e.standard_error for e in estimates],
            marker="s", color="#542788", capsize=3,
            label="held-out rows (± 2 standard errors)",
        )  # fmt: skip
        best = estimate_value(results, f"best_{value}").mean
        axis.axhline(best, color="grey", linestyle="--", label="true probabilities")
        axis.set_xscale("log", base=2)
        axis.set_xticks(list(by_size), [str(n) for n in by_size])
        axis.set_xlabel("training rows")
        axis.set_ylim(bottom=0)
    loss_axis.set_ylabel("log-loss (nats)")
    error_axis.set_ylabel("error rate")
    loss_axis.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def draw_classes(axis: Axes, X: Array, y: NDArray[np.int64]) -> None:
    """Draw the rows, each class in its colour and shape."""
    style: dict[str, Any] = {"s": 24, "edgecolors": "white", "linewidths": 0.6, "zorder": 3}
    looks = zip(class_colours(N_CLASSES), class_markers(N_CLASSES))
    for label, (colour, marker) in enumerate(looks):
        x1, x2 = X[y == label].T
        axis.scatter(x1, x2, color=[colour], marker=marker, label=f"class {label}", **style)


def compare_figure_16(results: list[Result]) -> str:
    """Compare the lecture's caption with the measured losses."""
    by_size = group(results, "n_train")
    smallest, largest = min(by_size), max(by_size)
    excess, excess_error = (_excess(by_size[largest], value) for value in ("log_loss", "error"))
    learnt = paired_difference(
        by_size[largest], by_size[smallest], "log_loss", pair_by=["replicate"]
    )
    far = max(r.values["from_uniform_far_away"] for r in results)
    claims = markdown_table(
        ["", "the lecture", "ours", "difference"],
        [
            [
                "map of each class",
                "a picture; no number",
                f"with {largest} rows the probabilities are "
                f"{estimate_value(by_size[largest], 'from_truth')} from the true ones (total "
                "variation)",
                f"log-loss {excess:+} from that of the true probabilities, which no model beats",
            ],
            [
                "held-out error",
                "no number",
                f"{estimate_value(by_size[largest], 'error')}, {excess_error:+} from the best "
                "possible",
                f"close to it: guessing would give {1 - 1 / N_CLASSES:.3f}",
            ],
            [
                "more rows",
                "not mentioned",
                f"from {smallest} to {largest} rows the log-loss changes by {learnt:+}",
                verdict(
                    learnt,
                    above=False,
                    expected="it falls towards the best possible",
                    is_said=False,
                ),
            ],
            [
                "far from every row",
                "the panels' background",
                f"each class has probability 1/{N_CLASSES} within {far:.0e}",
                "none" if far < 1e-9 else "more than rounding",
            ],
        ],
    )
    losses = markdown_table(
        ["training rows", "log-loss", "error", "distance from the true probabilities"],
        [
            [n, *(estimate_value(part, value) for value in ("log_loss", "error", "from_truth"))]
            for n, part in by_size.items()
        ]
        + [
            ["true probabilities", *(estimate_value(by_size[largest], value) for value in
             ("best_log_loss", "best_error")), ""],
            ["guessing", f"{np.log(N_CLASSES):.3f}", f"{1 - 1 / N_CLASSES:.3f}", ""],
        ],
    )  # fmt: skip
    n_draws = N_CHAINS * results[0].cell["n_samples"]
    worst_r_hat = about_r_hat(max(r.values["worst_r_hat"] for r in results))
    return f"""## The lecture and ours

The caption is “Multi-class classification example. RBF covariance, γ = 1”; the lecture prints no
numbers, and its data are not available. Ours are three classes in four round Gaussian clouds of
standard deviation {SPREAD}, class 0 in two of them, so that no straight line separates it from the
others. There are {N_TEST} held-out rows, {len(by_size[largest])} times over, and one function per
class under the covariance exp(−‖x − x′‖²), held fixed; {n_draws} Gibbs samples are drawn (R-hat at
most {worst_r_hat}). ± is one standard error over the data sets; changes are paired, data set by
data set, and a sign counts as established if it is more than three standard errors from zero.

{claims}

## Losses on held-out rows

{losses}

“Distance” is the total variation between predicted and true class probabilities, averaged over the
held-out rows. The covariance has variance one: two functions differ by about √2 before any row is
seen, and their noise by as much, so it takes many rows to make this model sure. The error therefore
comes close to the best possible long before the log-loss does.
"""


def _excess(part: list[Result], value: str) -> Estimate:
    """Return a loss minus that of the true probabilities, paired data set by data set."""
    best = [Result(r.cell, {value: r.values[f"best_{value}"]}) for r in part]
    return paired_difference(part, best, value, pair_by=["replicate"])


FIGURE_16 = Experiment(
    name="rogers-fig16",
    version=2,
    title="Rogers (2014), figure 16: three classes by the multinomial probit GP",
    paper=PAPER,
    claim=(
        "A multi-class example: the predictive probability of each of three classes over the "
        "plane, one function per class, with an RBF covariance of γ = 1."
    ),
    cells=figure_16_cells,
    run_cell=run_figure_16_cell,
    draw=draw_figure_16,
    comparison=compare_figure_16,
)
