"""Rogers (2014), figures 17, 20 and 21: few labels, many rows, with and without the null category.

Both experiments fit the same data sets. Figure 20 shows the standard model, which ignores
unlabelled rows; figure 21 adds the null category.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.metrics import log_loss, zero_one_loss

from atoll.estimators import NullCategoryClassifier, ProbitGPClassifier
from atoll.plotting.palette import new_figure
from atoll.reproductions.engine import Cell, DataHome, Experiment, Result
from atoll.reproductions.rogers import PAPER, fit_quietly, fixed_kernel, verdict
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

# Two long clouds, one above the other: standard deviations, and the distance between their means.
SPREAD, DISTANCE = (2.0, 0.5), 3.0
N_ROWS, N_LABELS = 60, 4  # rows in all, and labels per class
GAMMA = 0.3
N_CHAINS, N_SAMPLES, N_QUICK_SAMPLES = 2, 300, 100
N_REPLICATES, N_QUICK_REPLICATES = 40, 3

LABELS, QUICK_LABELS = [1, 2, 4, 8, 16], [4, 16]
KERNELS = [0.1, GAMMA, 1.0, "sampled"]  # a fixed γ, or length-scale and variance sampled
WIDTHS, QUICK_WIDTHS = [0.0, 0.5, 1.0, 2.0], [0.0, 1.0, 2.0]
DRAWN = [
    (GAMMA, None), (GAMMA, 0.0), (GAMMA, 1.0), (GAMMA, 2.0), (1.0, 0.5), ("sampled", 2.0)
]  # fmt: skip

LOSSES = {"near_boundary": "rows near the boundary", "log_loss": "log-loss", "error": "error"}
NEAR = 0.5  # a row is near the boundary if the class changes at this distance from it
MONTE_CARLO_ERROR = 0.03  # mean difference between two probabilities from 200 draws each
GRID_1, GRID_2 = np.linspace(-6.5, 6.5, 53), np.linspace(-3.5, 3.5, 29)
BLUE, RED, GREY = "#2166ac", "#b2182b", "#4d4d4d"


def two_clouds(n: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
    """Draw two long Gaussian clouds with a gap between them: X (n, 2), y (n,), classes in turn."""
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 2)) * SPREAD
    X[:, 1] += DISTANCE * (y - 0.5)
    return X, y


def true_probability(X: Array) -> Array:
    """Return p(y = 1 | x) of `two_clouds`, (n, 2) -> (n,)."""
    return np.asarray(expit(DISTANCE * X[:, 1] / SPREAD[1] ** 2))


def hide_all_but(n_labels: int, y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keep the first labels of each class, with -1 elsewhere; rows are random, so any would do."""
    return np.where(np.arange(len(y)) < 2 * n_labels, y, -1)


def streams(cell: Cell) -> list[np.random.Generator]:
    """Return streams for the rows and the chains, the same for all models and numbers of labels."""
    return np.random.default_rng([cell["seed"], cell["replicate"]]).spawn(2)


def make_model(
    cell: Cell, kernel: float | str, null_width: float | None, rng: np.random.Generator
) -> ProbitGPClassifier | NullCategoryClassifier:
    """Return the null category, or the standard model if `null_width` is None.

    `kernel` is a fixed γ or "sampled".
    """
    settings: dict[str, Any] = {
        "kernel": "isotropic" if isinstance(kernel, str) else fixed_kernel(kernel),
        "inference": "mcmc",
        "n_chains": N_CHAINS,
        "n_warmup": cell["n_samples"] // 2,
        "n_samples": cell["n_samples"],
        "unlabelled": -1,
        "random_state": rng,
    }
    if null_width is None:
        return ProbitGPClassifier(**settings)
    return NullCategoryClassifier(null_width=null_width, **settings)


def measure(model: Any, X: Array, y: NDArray[np.int64], unlabelled: NDArray[np.bool_]) -> dict:
    """Measure losses on the unlabelled rows, whose classes the model has not seen."""
    probabilities, truth = model.label_distributions_[unlabelled], y[unlabelled]
    best = true_probability(X[unlabelled])
    return {
        "error": zero_one_loss(truth, probabilities[:, 1] > 0.5),
        "log_loss": log_loss(truth, probabilities, labels=[0, 1]),
        "near_boundary": near_boundary(model, X[unlabelled]),
        "best_error": zero_one_loss(truth, best > 0.5),
        "best_log_loss": log_loss(truth, best, labels=[0, 1]),
        "best_near_boundary": float(np.mean(np.abs(X[unlabelled, 1]) < NEAR)),
        "worst_r_hat": max(model.diagnostics_["r_hat"].values()),
        "mixed": bool(model.diagnostics_["mixed"]),
        "probabilities": probabilities[:, 1],
    }


def near_boundary(model: Any, X: Array) -> float:
    """Return the share of rows near which, in some of eight directions, the prediction changes."""
    angles = np.arange(8) * np.pi / 4
    around = X[:, None] + NEAR * np.column_stack([np.cos(angles), np.sin(angles)])
    classes = model.predict(around.reshape(-1, 2)).reshape(len(X), -1)
    return float(np.mean((classes != model.predict(X)[:, None]).any(axis=1)))


def grid_points() -> Array:
    """Return the points of a drawn map, first coordinate fastest."""
    return np.column_stack([axis.ravel() for axis in np.meshgrid(GRID_1, GRID_2)])


def probability_map(model: Any) -> Array:
    """Return P(class 1) over the map, (len(GRID_2), len(GRID_1))."""
    return np.asarray(model.predict_proba(grid_points())[:, 1].reshape(len(GRID_2), len(GRID_1)))


# --- figure 20: unlabelled rows ignored ----------------------------------------------------------


def figure_20_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the cells: labels per class × data set."""
    labels, n = (QUICK_LABELS, N_QUICK_REPLICATES) if quick else (LABELS, N_REPLICATES)
    return [
        {
            "labels": n_labels,
            "n_samples": N_QUICK_SAMPLES if quick else N_SAMPLES,
            "replicate": i,
            "seed": seed,
        }
        for n_labels in labels
        for i in range(n)
    ]


def run_figure_20_cell(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Fit the standard model with the unlabelled rows and without them."""
    rng_rows, _ = streams(cell)
    X, y = two_clouds(N_ROWS, rng_rows)
    given = hide_all_but(cell["labels"], y)
    unlabelled = given == -1
    model = fit_quietly(make_model(cell, GAMMA, None, streams(cell)[1]), X, given)
    alone = fit_quietly(
        make_model(cell, GAMMA, None, streams(cell)[1]), X[~unlabelled], y[~unlabelled]
    )
    values = measure(model, X, y, unlabelled)
    change = alone.predict_proba(X[unlabelled])[:, 1] - values["probabilities"]
    values["change_without_them"] = float(np.abs(change).max())
    if cell["replicate"] == 0 and cell["labels"] == N_LABELS:
        values["surface"] = probability_map(model)
    return values


def draw_figure_20(results: list[Result], path: Path) -> None:
    """Draw figure 17's rows, figure 20's map, and the losses against the number of labels."""
    drawn = next(r for r in results if "surface" in r.values)
    figure = new_figure(12, 6.6)
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=[1, 1]), dtype=object)
    data_axis, map_axis = top.subplots(1, 2, sharex=True, sharey=True)
    draw_rows(data_axis, drawn.cell)
    data_axis.set_title("Figure 17: the rows and their labels")
    data_axis.legend(loc="upper right", fontsize="small", ncols=3)
    image = draw_map(map_axis, drawn)
    map_axis.set_title("Figure 20: standard GP, unlabelled rows ignored")
    top.colorbar(image, ax=map_axis, label="P(class 1)", ticks=[0, 0.5, 1])

    by_labels = group(results, "labels")
    axes = bottom.subplots(1, 2)
    for axis, value, name in zip(axes, ("log_loss", "error"), ("log-loss (nats)", "error rate")):
        draw_losses(
            axis, list(by_labels), list(by_labels.values()), value, "standard GP", "#542788"
        )
        best = estimate_value(results, f"best_{value}").mean
        axis.axhline(best, color="grey", linestyle="--", label="true probabilities")
        axis.set_xscale("log", base=2)
        axis.set_xticks(list(by_labels), [str(n) for n in by_labels])
        axis.set(xlabel="labels per class", ylabel=f"{name}, unlabelled rows")
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize="small")
    figure.savefig(path, dpi=120)


def compare_figure_20(results: list[Result]) -> str:
    """Compare what the lecture says about its figure with the measured losses."""
    by_labels = group(results, "labels")
    few, many = min(by_labels), max(by_labels)
    gain = paired_difference(by_labels[many], by_labels[few], "log_loss", pair_by=["replicate"])
    change = max(r.values["change_without_them"] for r in results)
    claims = markdown_table(
        ["", "the lecture", "ours", "difference"],
        [
            [
                "unlabelled rows",
                "“unlabeled data ignored”",
                f"leaving them out changes a probability by at most {change:.1g}",
                "none" if change < 1e-12 else "they do enter",
            ],
            [
                "log-loss on them",
                "no number",
                f"{estimate_value(by_labels[N_LABELS], 'log_loss')} with {N_LABELS} labels per "
                f"class; from {few} to {many} labels it changes by {gain:+}",
                verdict(gain, above=False, expected="labels are all that this model learns from"),
            ],
        ],
    )
    losses = markdown_table(
        ["labels per class", *LOSSES.values()],
        [[n, *loss_texts(part)] for n, part in by_labels.items()]
        + [["true probabilities", *loss_texts(results, "best_")]],
    )
    return f"""## The lecture and ours

{data_text(results)}

{claims}

## Losses on the unlabelled rows

{losses}

{near_text()} {mixing_text(results)}
`rogers-fig21` fits the null category to the same data sets.
"""


# --- figure 21: the null category ----------------------------------------------------------------


def figure_21_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the cells: kernel × null width (None for the standard model) × data set."""
    kernels: list[Any] = [GAMMA] if quick else KERNELS
    widths, n = (QUICK_WIDTHS, N_QUICK_REPLICATES) if quick else (WIDTHS, N_REPLICATES)
    return [
        {
            "kernel": kernel,
            "null_width": width,
            "labels": N_LABELS,
            "n_samples": N_QUICK_SAMPLES if quick else N_SAMPLES,
            "replicate": i,
            "seed": seed,
        }
        for kernel in kernels
        for width in [None, *widths]
        for i in range(n)
    ]


def run_figure_21_cell(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Fit the null category, or the standard model if the cell has no null width."""
    rng_rows, rng_chains = streams(cell)
    X, y = two_clouds(N_ROWS, rng_rows)
    given = hide_all_but(cell["labels"], y)
    model = fit_quietly(make_model(cell, cell["kernel"], cell["null_width"], rng_chains), X, given)
    values = measure(model, X, y, given == -1)
    if cell["replicate"] == 0 and (cell["kernel"], cell["null_width"]) in DRAWN:
        values["surface"] = probability_map(model)
    return values


def draw_figure_21(results: list[Result], path: Path) -> None:
    """Draw maps without and with the null category, and the losses against its width."""
    drawn = [r for r in results if "surface" in r.values]
    figure = new_figure(12, 3.4 * ((len(drawn) + 1) // 2) + 3.3)
    heights = [1.05 * ((len(drawn) + 1) // 2), 1]
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=heights), dtype=object)
    axes = top.subplots((len(drawn) + 1) // 2, 2, sharex=True, sharey=True, squeeze=False)
    for axis, result in zip(axes.flat, drawn):
        image = draw_map(axis, result)
        axis.set_title(map_title(result.cell))
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    top.colorbar(image, ax=axes, label="P(class 1)", ticks=[0, 0.5, 1], aspect=40)

    loss_axis, error_axis = bottom.subplots(1, 2)
    colours = {0.1: "#1b7837", GAMMA: "#542788", 1.0: "#e08214", "sampled": "black"}
    for kernel, part in group(results, "kernel").items():
        by_width = group(part, "null_width")
        standard = by_width.pop(None)
        for axis, value in ((loss_axis, "log_loss"), (error_axis, "error")):
            name = kernel_text(kernel)
            draw_losses(axis, list(by_width), list(by_width.values()), value, name, colours[kernel])
            level = estimate_value(standard, value).mean
            axis.axhline(level, color=colours[kernel], linestyle="--", linewidth=1)
    loss_axis.set_ylabel("log-loss (nats), unlabelled rows")
    error_axis.set_ylabel("error rate, unlabelled rows")
    loss_axis.plot([], [], "--", color="black", linewidth=1, label="standard GP (figure 20)")
    loss_axis.legend(fontsize="small")
    for axis in (loss_axis, error_axis):
        axis.set_xlabel("width of the null region")
        axis.set_ylim(bottom=0)
    figure.savefig(path, dpi=120)


def compare_figure_21(results: list[Result]) -> str:
    """Compare what the lecture says about the null category with the paired changes in loss."""
    # Long because most of it is the page's prose, with the numbers filled in.
    groups = group(results, "kernel", "null_width")
    widths = [w for kernel, w in groups if kernel == GAMMA and w]

    def change(value: str, width: float, kernel: Any = GAMMA) -> Estimate:
        return paired_difference(
            groups[kernel, width], groups[kernel, None], value, pair_by=["replicate"]
        )

    best = min(widths, key=lambda w: estimate_value(groups[GAMMA, w], "log_loss").mean)
    rises = [
        (after.values["error"] - before.values["error"], kernel, width)
        for (kernel, width), part in groups.items()
        if width
        for after, before in zip(part, groups[kernel, None])
    ]
    n_risen = sum(rise > 0 for rise, _, _ in rises)
    steepest, kernel_there, width_there = max(rises, key=lambda item: item[0])
    near, loss, error = (change(value, best) for value in LOSSES)
    at_zero = mean_change(groups[GAMMA, 0.0], groups[GAMMA, None])
    loss_at_zero = change("log_loss", 0.0)
    claims = markdown_table(
        ["", "the lecture", "ours", "difference"],
        [
            [
                "boundary",
                "“pushing the decision boundary into regions of empty space”",
                f"with null width {best:g} the share of rows near it changes by {near:+}",
                verdict(near, above=False, expected="fewer rows lie near the boundary"),
            ],
            [
                "log-loss",
                "no number",
                f"with the same width it changes by {loss:+}",
                verdict(loss, above=False, expected="it falls"),
            ],
            [
                "error",
                "no number",
                f"with the same width it changes by {error:+}",
                verdict(error, above=False, expected="it falls"),
            ],
            [
                "width 0",
                "“setting a = 0 results in the standard model”",
                f"probabilities differ by {at_zero:.3f} on average, the log-loss by "
                f"{loss_at_zero:+}",
                "the chains' Monte Carlo error"
                if at_zero < MONTE_CARLO_ERROR
                else "more than the chains' Monte Carlo error",
            ],
            [
                "other settings",
                "“It's not always easy to get the results you want to see!”",
                f"the error rises in {n_risen} of {len(rises)} fits, most ({steepest:+.3f}) with "
                f"{kernel_text(kernel_there)} and null width {width_there:g}",
                "agrees: the model may find another gap" if n_risen else "not seen here",
            ],
        ],
    )
    losses = markdown_table(
        ["covariance", "null width", *LOSSES.values(), "change of error", "change of log-loss",
         "mixed"],
        [
            [kernel_text(kernel), "standard GP" if width is None else f"{width:g}",
             *loss_texts(part),
             *(["", ""] if width is None else
               [f"{change(value, width, kernel):+}" for value in ("error", "log_loss")]),
             f"{sum(r.values['mixed'] for r in part)} of {len(part)}"]
            for (kernel, width), part in groups.items()
        ]
        + [["true probabilities", "", *loss_texts(results, "best_"), "", "", ""]],
    )  # fmt: skip
    return f"""## The lecture and ours

{data_text(results)}
The null category is fitted to all {N_ROWS} rows, the standard model (figure 20) to the
{2 * N_LABELS} labelled ones. Changes are from the standard model, paired data set by data set.

{claims}

## Losses on the unlabelled rows

{losses}

{near_text()}
{mixing_text(results)} The null width w is twice the lecture's a, so its figure 19 has width 1. The
null category puts a gap wherever the covariance allows one; if the covariance is too narrow for the
clouds, also inside them. “Sampled” means that the length-scale and the variance are sampled with
the rest, under their default prior. Far from every label the standard model predicts one half, and
where its boundary runs there is a matter of chance.
"""


# --- what both show ------------------------------------------------------------------------------


def draw_rows(axis: Axes, cell: Cell) -> None:
    """Draw unlabelled rows as small grey dots, labelled rows in their class's colour and shape."""
    X, y = two_clouds(N_ROWS, streams(cell)[0])
    given = hide_all_but(cell["labels"], y)
    looks: list[tuple[int, str, dict[str, Any]]] = [
        (-1, "unlabelled", {"s": 12, "color": GREY, "linewidths": 0}),
        (0, "class 0", {"s": 75, "color": BLUE, "edgecolors": "black", "marker": "o"}),
        (1, "class 1", {"s": 75, "color": RED, "edgecolors": "black", "marker": "s"}),
    ]
    for label, name, look in looks:
        x1, x2 = X[given == label].T
        axis.scatter(x1, x2, label=name, zorder=3 + label, **look)
    axis.set(aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
    axis.set(xlim=(GRID_1[0], GRID_1[-1]), ylim=(GRID_2[0], GRID_2[-1]))


def draw_map(axis: Axes, result: Result) -> Any:
    """Draw P(class 1), the boundary, and the rows."""
    surface = result.values["surface"]
    image = axis.contourf(GRID_1, GRID_2, surface, np.linspace(0, 1, 22), cmap="RdBu_r")
    axis.contour(GRID_1, GRID_2, surface, [0.5], colors="black", linewidths=1.3)
    draw_rows(axis, result.cell)
    return image


def map_title(cell: Cell) -> str:
    """Return the panel's title: figure 20 without the null category, figure 21 with it."""
    kernel = cell["kernel"]
    kernel = "sampled covariance" if isinstance(kernel, str) else f"$\\gamma$ = {kernel:g}"
    if cell["null_width"] is None:
        return f"Figure 20: standard GP, {kernel}"
    return f"Figure 21: null width {cell['null_width']:g}, {kernel}"


def kernel_text(kernel: float | str) -> str:
    """Name a covariance.

    Examples
    --------
    >>> kernel_text(0.3), kernel_text("sampled")
    ('γ = 0.3', 'sampled')
    """
    return kernel if isinstance(kernel, str) else f"γ = {kernel:g}"


def draw_losses(
    axis: Axes, places: list[Any], parts: list[list[Result]], value: str, name: str, colour: str
) -> None:
    """Plot a loss against what was varied, with two standard errors."""
    estimates = [estimate_value(part, value) for part in parts]
    axis.errorbar(places, [e.mean for e in estimates], [2 * e.standard_error for e in estimates],
                  marker="o", color=colour, capsize=3, label=name)  # fmt: skip


def loss_texts(part: list[Result], prefix: str = "") -> list[str]:
    """Return the columns of a loss table."""
    return [str(estimate_value(part, prefix + value)) for value in LOSSES]


def mean_change(first: list[Result], second: list[Result]) -> float:
    """Return the mean absolute difference of the rows' probabilities, data set by data set."""
    return float(
        np.mean(
            [
                np.abs(a.values["probabilities"] - b.values["probabilities"]).mean()
                for a, b in zip(first, second)
            ]
        )
    )


def data_text(results: list[Result]) -> str:
    """Say what was fitted."""
    n_sets = len({r.cell["replicate"] for r in results})
    n_draws = N_CHAINS * results[0].cell["n_samples"]
    return f"""The lecture prints no numbers, and its data (figure 17, “a toy semi-supervised
classification problem”) are not available. Ours are two long Gaussian clouds in the plane, standard
deviations {SPREAD[0]:g} and {SPREAD[1]:g}, {DISTANCE:g} apart: {N_ROWS} rows, {n_sets} times over,
with a few labels at random and the covariance exp(−γ‖x − x′‖²) held fixed, at γ = {GAMMA:g} unless
stated otherwise. {n_draws} Gibbs samples are drawn. ± is one standard error over the data sets, and
a sign counts as established if it is more than three standard errors from zero."""


def near_text() -> str:
    """Say what it means for a row to be near the boundary."""
    return (
        f"A row is near the boundary if the most probable class changes within {NEAR:g} of it; the "
        "last line refers to the true boundary."
    )


def mixing_text(results: list[Result]) -> str:
    """Say in how many cells the chains agree."""
    n_mixed = sum(r.values["mixed"] for r in results)
    worst = max(r.values["worst_r_hat"] for r in results)
    return (
        f"The chains agree in {n_mixed} of {len(results)} fits, by R-hat and effective sample "
        f"size (largest R-hat {worst:.2f})."
    )


FIGURE_20 = Experiment(
    name="rogers-fig20",
    title="Rogers (2014), figures 17 and 20: the probit GP with few labels",
    paper=PAPER,
    claim=(
        "A toy problem in which only a subset of the rows is labelled, and the standard GP "
        "classifier fitted to it, with unlabelled data ignored."
    ),
    cells=figure_20_cells,
    run_cell=run_figure_20_cell,
    draw=draw_figure_20,
    comparison=compare_figure_20,
)
FIGURE_21 = Experiment(
    name="rogers-fig21",
    title="Rogers (2014), figure 21: the null category and its width",
    paper=PAPER,
    claim=(
        "The null category noise model, in which no unlabelled row may lie in the null region, "
        "pushes the decision boundary into regions of empty space; a = 0 is the standard model."
    ),
    cells=figure_21_cells,
    run_cell=run_figure_21_cell,
    draw=draw_figure_21,
    comparison=compare_figure_21,
)
