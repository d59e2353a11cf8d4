"""Rogers (2014), lecture 4: Gaussian processes for classification by auxiliary variables."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import log_loss, zero_one_loss

from atoll.diagnostics.convergence import R_HAT_LIMIT
from atoll.estimators import ProbitGPClassifier
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

PAPER = (
    "Simon Rogers (2014), *Non-parametric Bayesian Methods in Machine Learning*, lecture 4: "
    "GPs for classification and ordinal regression via the auxiliary variable trick."
)
# Between the classes' means, in standard deviations: two rows in nine lie on the wrong side.
DISTANCE = 1.5
N_TRAIN, N_TEST = 60, 1000
N_CHAINS, N_WARMUP, N_SAMPLES = 2, 100, 500  # 1000 Gibbs samples in all, as in the figure's caption
GAMMAS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
QUICK_GAMMAS = DRAWN_GAMMAS = [0.01, 0.1, 1.0, 10.0]
N_REPLICATES, N_QUICK_REPLICATES = 20, 4
LOSSES = {
    "training_log_loss": "training log-loss",
    "held_out_log_loss": "held-out log-loss",
    "training_error": "training error",
    "held_out_error": "held-out error",
}
GRID = np.linspace(-3.6, 3.6, 61)


def two_gaussians(
    n: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw two classes of unit Gaussians in the plane: X (n, 2), y (n,), half of each class."""
    y = np.repeat([0, 1], [n - n // 2, n // 2])
    X = rng.normal(size=(n, 2))
    X[:, 0] += DISTANCE * (y - 0.5)
    return X, y


def true_probability(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p(y = 1 | x) of `two_gaussians`, which no model can beat; (n, 2) -> (n,)."""
    return np.asarray(expit(DISTANCE * X[:, 0]))


def length_scale(gamma: float) -> float:
    """Return the length-scale at which scikit-learn's RBF is exp(-γ r²)."""
    return float(1 / np.sqrt(2 * gamma))


def fixed_kernel(gamma: float) -> RBF:
    """Return the covariance exp(-γ r²), held fixed."""
    return RBF(length_scale(gamma), length_scale_bounds="fixed")


def fit_quietly(model: Any, X: NDArray[np.float64], y: NDArray[np.int64]) -> Any:
    """Fit without convergence warnings; the page says how well the chains mixed instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def grid_points() -> NDArray[np.float64]:
    """Return the points of the drawn surface, (len(GRID)**2, 2), first coordinate fastest."""
    return np.column_stack([axis.ravel() for axis in np.meshgrid(GRID, GRID)])


def figure_15_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the cells: γ × data set; quick cells are some of the full ones, in the same cache."""
    gammas, n_replicates = (QUICK_GAMMAS, N_QUICK_REPLICATES) if quick else (GAMMAS, N_REPLICATES)
    return [
        {"gamma": gamma, "replicate": replicate, "seed": seed}
        for gamma in gammas
        for replicate in range(n_replicates)
    ]


def figure_15_streams(cell: Cell) -> list[np.random.Generator]:
    """Return streams for training rows, held-out rows and chains, the same for every γ."""
    return np.random.default_rng([cell["seed"], cell["replicate"]]).spawn(3)


def run_figure_15_cell(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Fit the probit GP with its kernel held fixed; measure training and held-out losses."""
    rng_train, rng_test, rng_chains = figure_15_streams(cell)
    X, y = two_gaussians(N_TRAIN, rng_train)
    X_test, y_test = two_gaussians(N_TEST, rng_test)
    model = ProbitGPClassifier(
        kernel=fixed_kernel(cell["gamma"]),
        inference="mcmc",
        n_chains=N_CHAINS,
        n_warmup=N_WARMUP,
        n_samples=N_SAMPLES,
        random_state=rng_chains,
    ).fit(X, y)
    probability, probability_test = model.predict_proba(X), model.predict_proba(X_test)
    values: dict[str, Any] = {
        "training_log_loss": log_loss(y, probability),
        "held_out_log_loss": log_loss(y_test, probability_test),
        "training_error": zero_one_loss(y, probability[:, 1] > 0.5),
        "held_out_error": zero_one_loss(y_test, probability_test[:, 1] > 0.5),
        "best_log_loss": log_loss(y_test, true_probability(X_test)),
        "best_error": zero_one_loss(y_test, true_probability(X_test) > 0.5),
        "draws_averaged": len(model.posterior_.weights),
        "worst_r_hat": max(model.diagnostics_["r_hat"].values()),
    }
    if cell["replicate"] == 0 and cell["gamma"] in DRAWN_GAMMAS:
        values["surface"] = model.predict_proba(grid_points())[:, 1].reshape(len(GRID), len(GRID))
    return values


def draw_figure_15(results: list[Result], path: Path) -> None:
    """Draw figure 14's data, figure 15's surfaces, and below them the losses against γ."""
    surfaces = [r for r in results if "surface" in r.values]
    X, y = two_gaussians(N_TRAIN, figure_15_streams(surfaces[0].cell)[0])
    figure = new_figure(3 * (1 + len(surfaces)), 6.6, h_pad=0.07)
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=[1, 1.1]), dtype=object)
    data_axis, *surface_axes = top.subplots(1, 1 + len(surfaces), sharex=True, sharey=True)

    draw_points(data_axis, X, y)
    data_axis.set_title("The data (figure 14)")
    data_axis.legend(loc="lower left", fontsize="small")
    data_axis.set_ylabel("$x_2$")
    for axis, result in zip(surface_axes, surfaces):
        surface, gamma = result.values["surface"], result.cell["gamma"]
        image = axis.contourf(GRID, GRID, surface, np.linspace(0, 1, 22), cmap="RdBu_r")
        # Far from every row the probability is one half, and a boundary there is rounding error.
        distance = cdist(grid_points(), X).min(axis=1).reshape(surface.shape)
        decided = np.ma.masked_where(np.exp(-gamma * distance**2) < 0.01, surface)
        axis.contour(GRID, GRID, decided, [0.5], colors="black", linewidths=1)
        draw_points(axis, X, y)
        axis.set_title(f"Figure 15, $\\gamma$ = {gamma:g}")
    for axis in (data_axis, *surface_axes):
        axis.set(aspect="equal", xlabel="$x_1$")
    top.colorbar(image, ax=surface_axes, label="P(class 1)", ticks=[0, 0.5, 1])

    loss_axis, error_axis = bottom.subplots(1, 2, sharex=True)
    draw_curves(loss_axis, results, "log_loss")
    loss_axis.set_ylabel("log-loss (nats)")
    draw_curves(error_axis, results, "error")
    error_axis.set_ylabel("error rate")
    error_axis.set_ylim(bottom=0)
    loss_axis.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def draw_points(axis: Axes, X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
    """Draw both classes, each in its colour and shape."""
    for label, marker, colour in [(0, "o", "#2166ac"), (1, "s", "#b2182b")]:
        x1, x2 = X[y == label].T
        style: dict[str, Any] = {"s": 14, "edgecolors": "white", "linewidths": 0.4}
        axis.scatter(x1, x2, marker=marker, c=colour, label=f"class {label}", **style)


def draw_curves(axis: Axes, results: list[Result], loss: str) -> None:
    """Plot training and held-out loss against γ, with two standard errors."""
    by_gamma = group(results, "gamma")
    gammas = list(by_gamma)
    for where, marker, colour in [("training", "o", "#e08214"), ("held_out", "s", "#542788")]:
        estimates = [estimate_value(part, f"{where}_{loss}") for part in by_gamma.values()]
        axis.errorbar(
            gammas,
            [e.mean for e in estimates],
            yerr=[2 * e.standard_error for e in estimates],
            marker=marker,
            color=colour,
            capsize=3,
            label=f"{where.replace('_', '-')} rows (± 2 standard errors)",
        )
    best = estimate_value(results, f"best_{loss}").mean
    axis.axhline(best, color="grey", linestyle="--", label="true probabilities, held-out rows")
    axis.set_xscale("log")
    axis.set_xlabel("$\\gamma$ of the covariance $\\exp(-\\gamma\\,|x - x'|^2)$")


def compare_figure_15(results: list[Result]) -> str:
    """Compare the lecture's sentence with the measured losses."""
    by_gamma = group(results, "gamma")
    held_out = {g: estimate_value(part, "held_out_log_loss") for g, part in by_gamma.items()}
    best = min(held_out, key=lambda gamma: held_out[gamma].mean)
    smallest, largest = min(by_gamma), max(by_gamma)

    def change(value: str, gamma: float) -> Estimate:
        return paired_difference(by_gamma[gamma], by_gamma[best], value, pair_by=["replicate"])

    rise, fall = change("held_out_log_loss", largest), change("training_error", largest)
    gain, under = change("training_log_loss", largest), change("held_out_log_loss", smallest)
    claims = markdown_table(
        ["", "the lecture", "ours", "difference"],
        [
            [
                "held-out log-loss",
                "“As γ is increased, the model overfits”; no number",
                f"lowest at γ = {best:g}; from there to γ = {largest:g} it changes by {rise:+}",
                verdict(rise, above=True, expected="it rises, as overfitting means"),
            ],
            [
                "training error",
                "no number",
                f"changes by {fall:+} over the same γ",
                verdict(fall, above=False, expected="it falls while the held-out loss rises"),
            ],
            [
                "training log-loss",
                "no number",
                f"changes by {gain:+} over the same γ",
                verdict(gain, above=False, expected="it falls too, but not far: see below"),
            ],
            [
                "too small a γ",
                "not mentioned",
                f"held-out log-loss at γ = {smallest:g} is {under:+} from the lowest",
                verdict(
                    under, above=True, expected="too smooth a function underfits", is_said=False
                ),
            ],
        ],
    )
    best_possible = [estimate_value(by_gamma[best], v) for v in ("best_log_loss", "best_error")]
    losses = markdown_table(
        ["γ", "length-scale", *LOSSES.values()],
        [
            *(
                [f"{gamma:g}", f"{length_scale(gamma):.2f}"]
                + [str(estimate_value(part, value)) for value in LOSSES]
                for gamma, part in by_gamma.items()
            ),
            ["true probabilities", "", "", best_possible[0], "", best_possible[1]],
        ],
    )
    worst_r_hat = about_r_hat(max(r.values["worst_r_hat"] for r in results))
    n_averaged = min(r.values["draws_averaged"] for r in results)
    return f"""## The lecture and ours

The lecture prints no numbers, and its data (figure 14, “some simple classification data”) are not
available. Ours are two unit Gaussians in the plane, {DISTANCE} standard deviations apart:
{N_TRAIN} training rows and {N_TEST} held-out rows, {held_out[best].n_cells} times over, under the
covariance exp(−γ‖x − x′‖²), held fixed. As in the figure, {N_CHAINS * N_SAMPLES} Gibbs samples are
drawn (R-hat at most {worst_r_hat}); predictions average {n_averaged} of them, evenly spread.
± is one standard error over the data sets; changes are paired, data set by data set, and a sign
counts as established if it is more than three standard errors from zero.

{claims}

## Losses against γ

{losses}

The covariance has variance one, which limits how far the training log-loss can fall. As γ grows,
each f(x) depends on its own label alone; Φ(f) is uniform before that label is seen, and the
probability of the label tends to E Φ² / E Φ = 2/3, a log-loss of 0.405 (and an error of zero).
Every other point goes back to one half, a log-loss of 0.693. The lecture draws one f per sample at
a new point; here f is integrated out, in the chain and at the new points, which changes the Monte
Carlo error but not the limit.
"""


def about_r_hat(worst: float) -> str:
    """Return the largest R-hat, and what it means where it is above the limit of a fit.

    Examples
    --------
    >>> about_r_hat(1.013), about_r_hat(1.0521)
    ('1.013', '1.052, above the 1.05 that a fit is held to: some chains are too short')
    """
    over = f", above the {R_HAT_LIMIT:g} that a fit is held to: some chains are too short"
    return f"{worst:.3f}{over if worst > R_HAT_LIMIT else ''}"


def verdict(difference: Estimate, *, above: bool, expected: str, is_said: bool = True) -> str:
    """Say whether the sign is as expected, by more than three standard errors.

    Parameters
    ----------
    is_said : whether the paper says so too
    """
    signed = difference.mean if above else -difference.mean
    if signed > 3 * difference.standard_error:
        return f"{'agrees' if is_said else 'as expected'}: {expected}"
    if signed < -3 * difference.standard_error:
        return f"{'disagrees' if is_said else 'not as expected'}: the sign is the opposite one"
    return f"not settled by {difference.n_cells} data sets: within three standard errors of zero"


FIGURE_15 = Experiment(
    name="rogers-fig15",
    title="Rogers (2014), figure 15: the probit GP as its kernel narrows",
    paper=PAPER,
    claim=(
        "Predictive probabilities of the binary probit GP, averaged over 1000 Gibbs samples "
        "with an RBF covariance: as γ is increased, the model overfits."
    ),
    cells=figure_15_cells,
    run_cell=run_figure_15_cell,
    draw=draw_figure_15,
    comparison=compare_figure_15,
    version=2,
)
