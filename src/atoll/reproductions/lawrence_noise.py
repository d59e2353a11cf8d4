"""Lawrence & Jordan (2005), figures 1 and 3: the noise model; what a missing label does to f."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import binomtest, norm

from atoll.likelihoods import null_category, ordinal
from atoll.plotting.palette import class_colours, new_figure, tidy
from atoll.reproductions.engine import Cell, DataHome, Experiment, Result
from atoll.reproductions.lawrence import PAPER
from atoll.reproductions.tables import markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

LINE = np.linspace(-5.0, 5.0, 401)

# Figure 1
DRAWN_WIDTH = 2.0
WIDTHS = [DRAWN_WIDTH, 0.5, 1.0, 4.0]
PLACES = [-2.0, -0.5, 0.0, 1.0, 3.0]  # of f, where draws are counted
N_DRAWS = 100_000
LEAST_P_VALUE = 1e-4

# Figure 3: mean and standard deviation of f before the row is seen; the null category has width 1
NULL_WIDTH = 1.0
SITUATIONS = {"spans": (0.0, 1.0), "rectified": (0.6, 0.5)}
MEANS = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0]
DEVIATIONS = [0.25, 0.5, 1.0, 2.0]


# --- figure 1: the ordered categorical noise model ------------------------------------------------


def category_probabilities(f: Array, null_width: float) -> Array:
    """Return P(y | f) of the three ordered categories, −1, 0 and 1; (n,) -> (n, 3)."""
    cut_points = 0.5 * null_width * np.array([-1.0, 1.0])
    return np.exp(ordinal.log_class_probabilities(f, np.zeros_like(f), cut_points))


def noise_cells(quick: bool, seed: int) -> list[Cell]:
    """Return one cell per width of the null category."""
    widths = WIDTHS[:1] if quick else WIDTHS
    return [{"null_width": width, "seed": seed} for width in widths]


def run_noise(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Compute p(y | f) as three ordered ranks and as the null category, and count draws of both."""
    width = cell["null_width"]
    p = category_probabilities(LINE, width)
    classes = np.exp(null_category.log_class_probabilities(LINE, np.zeros_like(LINE), width))
    values: dict[str, Any] = {
        "largest_gap": float(np.abs(p[:, [0, 2]] - classes).max()),
        "furthest_from_one": float(np.abs(p.sum(axis=1) - 1).max()),
        "null_at_zero": float(category_probabilities(np.zeros(1), width)[0, 1]),
        "probabilities": p,
    }
    rng = np.random.default_rng([cell["seed"], int(100 * width)])
    least = 1.0
    for f in PLACES:
        drawn = null_category.sample(rng, np.full(N_DRAWS, f), width)
        counts = [np.sum(drawn == 0), np.sum(drawn == -1), np.sum(drawn == 1)]
        expected = category_probabilities(np.array([f]), width)[0]
        for count, probability in zip(counts, expected):
            least = min(least, binomtest(int(count), N_DRAWS, probability).pvalue)
    return values | {"counted": 3 * len(PLACES), "least_p_value": float(least)}


def draw_noise(results: list[Result], path: Path) -> None:
    """Draw figure 1: p(y | f) of each category against f."""
    drawn = next(r for r in results if r.cell["null_width"] == DRAWN_WIDTH)
    figure = new_figure(6.4, 3.6)
    axis = figure.subplots()
    first, second, null = class_colours(3)
    styles = [("y = −1", first, "--"), ("y = 0, the null category", null, "-"),
              ("y = 1", second, "-.")]  # fmt: skip
    for p, (name, colour, line) in zip(drawn.values["probabilities"].T, styles):
        axis.plot(LINE, p, line, color=colour, linewidth=2, label=name)
    for edge in (-0.5 * DRAWN_WIDTH, 0.5 * DRAWN_WIDTH):
        axis.axvline(edge, color="grey", linewidth=0.8, linestyle=":")
    axis.set(xlabel="$f_n$", ylabel="$p(y_n \\mid f_n)$", ylim=(0, 1.02), xlim=(-5, 5))
    axis.set_title(f"Figure 1: three ordered categories, w = {DRAWN_WIDTH:g}")
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    tidy(axis)
    figure.savefig(path, dpi=120)


def compare_noise(results: list[Result]) -> str:
    """Return the Markdown for figure 1."""
    n = sum(r.values["counted"] for r in results)
    least = min(r.values["least_p_value"] for r in results)
    gap = max(r.values["largest_gap"] for r in results)
    total = max(r.values["furthest_from_one"] for r in results)
    table = markdown_table(
        ["w", "p(y = 0 | f = 0)", "2 Φ(w/2) − 1", "ordinal less null category", "sum less one"],
        [
            [
                f"{r.cell['null_width']:g}",
                f"{r.values['null_at_zero']:.6f}",
                f"{2 * norm.cdf(0.5 * r.cell['null_width']) - 1:.6f}",
                f"{r.values['largest_gap']:.0e}",
                f"{r.values['furthest_from_one']:.0e}",
            ]
            for r in results
        ],
    )
    same = gap < 1e-12 and total < 1e-12
    fits = n * least > LEAST_P_VALUE
    return f"""## The paper and ours

The paper draws the curves and prints no number. Ours are those of three ranks with the cut points
−w/2 and w/2 in `atoll.likelihoods.ordinal`, written independently of
`atoll.likelihoods.null_category`, which gives the two outer curves.

{table}

The two agree {"to rounding error" if same else f"only within {gap:.1g}"} on 401 values of f from −5
to 5. Of {n} shares of {N_DRAWS:,} draws of z = f + ε the smallest p-value is {least:.2g}; around
{1 / n:.2g} is to be expected, {"so there is no difference." if fits else "so they differ."}
"""


# --- figure 3: two situations of interest ---------------------------------------------------------


def tilted(mean: float, sd: float) -> dict[str, float]:
    """Return what a missing label makes of f ~ N(mean, sd²), by the library's closed forms.

    The likelihood is the paper's effective one: one where |f| > 1/2, else zero, with both rates of
    missing labels equal.
    """
    code, is_labelled = np.zeros(1, dtype=np.intp), np.zeros(1, dtype=bool)
    no_label = null_category.regions(code, is_labelled, NULL_WIDTH)
    found = no_label.gradients(np.array([mean]), sd)
    slope, curvature = float(found.mean[0]), float(found.curvature[0])
    return {
        "log_evidence": float(found.log_probability[0]),
        "posterior_mean": mean + sd**2 * slope,
        "posterior_variance": sd**2 + sd**4 * curvature,
    }


def tilted_by_quadrature(mean: float, sd: float) -> dict[str, float]:
    """Return the same by numerical integration over f on either side of the null category."""
    a = 0.5 * NULL_WIDTH

    def moment(power: int) -> float:
        def integrand(f: float) -> float:
            return float(f**power * norm.pdf(f, mean, sd))

        far = abs(mean) + 12 * sd + a
        return sum(
            quad(integrand, low, high, epsabs=1e-13, epsrel=1e-11, limit=200)[0]
            for low, high in ((-far, -a), (a, far))
        )

    mass, first, second = (moment(power) for power in range(3))
    return {
        "log_evidence": float(np.log(mass)),
        "posterior_mean": first / mass,
        "posterior_variance": second / mass - (first / mass) ** 2,
    }


def situation_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the two situations drawn; unless quick, also a grid of means and deviations."""
    drawn: list[Cell] = [
        {"situation": name, "mean": mean, "sd": sd, "seed": seed}
        for name, (mean, sd) in SITUATIONS.items()
    ]
    others: list[Cell] = [
        {"situation": "", "mean": mean, "sd": sd, "seed": seed}
        for sd in DEVIATIONS
        for mean in MEANS
    ]
    return drawn if quick else drawn + others


def run_situation(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Compare prior and posterior of f, and the closed forms with quadrature."""
    mean, sd = cell["mean"], cell["sd"]
    ours, exact = tilted(mean, sd), tilted_by_quadrature(mean, sd)
    a = 0.5 * NULL_WIDTH
    below, above = norm.cdf(-a, mean, sd), norm.sf(a, mean, sd)
    return ours | {
        "variance_ratio": ours["posterior_variance"] / sd**2,
        "prior_mass_in_null": float(1 - below - above),
        "mass_on_the_smaller_side": float(min(below, above) / (below + above)),
        "furthest_from_quadrature": max(abs(ours[name] - exact[name]) for name in ours),
    }


def draw_situations(results: list[Result], path: Path) -> None:
    """Draw figure 3, and beside it where the variance grows, if there are cells for that."""
    drawn = {r.cell["situation"]: r for r in results if r.cell["situation"]}
    others = [r for r in results if not r.cell["situation"]]
    figure = new_figure(4.2 * (2 + bool(others)), 3.8)
    axes = figure.subplots(1, 2 + bool(others))
    for axis, name, title in zip(
        axes, SITUATIONS, ("Left: the prior spans the null category", "Right: it is rectified")
    ):
        draw_situation(axis, drawn[name])
        axis.set_title(title, fontsize="medium")
    axes[0].legend(frameon=False, fontsize="small", loc="upper left")
    if others:
        draw_ratios(axes[2], others)
    figure.savefig(path, dpi=120)


def draw_situation(axis: Axes, result: Result) -> None:
    """Draw prior (long dashes), effective likelihood (short dashes) and posterior (line)."""
    mean, sd = result.cell["mean"], result.cell["sd"]
    f = np.linspace(-3, 3, 1201)
    prior, allowed = norm.pdf(f, mean, sd), np.abs(f) > 0.5 * NULL_WIDTH
    posterior = np.where(allowed, prior, 0) / np.exp(result.values["log_evidence"])
    blue, orange = class_colours(2)
    axis.plot(f, prior, color=blue, linestyle=(0, (8, 4)), label="prior of f")
    axis.plot(f, 0.5 * allowed, color="grey", linestyle=(0, (2, 2)), label="likelihood, halved")
    axis.plot(f, posterior, color=orange, linewidth=2, label="posterior")
    axis.set(xlabel="$f_n$", ylim=(0, 1.35 * posterior.max()), xlim=(-3, 3), yticks=[])
    ratio = result.values["variance_ratio"]
    axis.text(0.97, 0.95, f"variance × {ratio:.2f}", transform=axis.transAxes, ha="right", va="top")
    tidy(axis)


def draw_ratios(axis: Axes, results: list[Result]) -> None:
    """Draw posterior over prior variance against the prior's mean, a line per deviation."""
    colours = class_colours(len(DEVIATIONS))
    for colour, marker, sd in zip(colours, "osD^", DEVIATIONS):
        part = [r for r in results if r.cell["sd"] == sd]
        axis.plot(
            [r.cell["mean"] for r in part],
            [r.values["variance_ratio"] for r in part],
            color=colour, marker=marker, label=f"prior deviation {sd:g}",
        )  # fmt: skip
    axis.axhline(1.0, color="grey", linewidth=0.8, linestyle="--")
    axis.set(xlabel="prior mean of $f_n$", ylabel="posterior variance / prior variance")
    axis.set_yscale("log")
    axis.set_yticks([0.4, 0.6, 1, 2, 4, 6], ["0.4", "0.6", "1", "2", "4", "6"])
    axis.minorticks_off()
    axis.set_title("Where the variance grows", fontsize="medium")
    axis.legend(frameon=False, fontsize="small")
    tidy(axis)


def compare_situations(results: list[Result]) -> str:
    """Return the Markdown for figure 3."""
    drawn = {r.cell["situation"]: r for r in results if r.cell["situation"]}
    spans, rectified = (drawn[name] for name in SITUATIONS)
    said = [
        ("Left", "bimodal; variance larger than the prior's", spans,
         spans.values["variance_ratio"] > 1 and spans.values["mass_on_the_smaller_side"] > 0.1),
        ("Right", "one dominant mode; variance smaller than the prior's", rectified,
         rectified.values["variance_ratio"] < 1
         and rectified.values["mass_on_the_smaller_side"] < 0.1),
    ]  # fmt: skip
    table = markdown_table(
        ["", "the paper", "prior", "variance", "smaller side", "difference"],
        [
            [
                name,
                claim,
                f"N({r.cell['mean']:g}, {r.cell['sd']:g}²), {r.values['prior_mass_in_null']:.2f} "
                "of it in the null category",
                f"{r.cell['sd'] ** 2:.3f} → {r.values['posterior_variance']:.3f}",
                f"{r.values['mass_on_the_smaller_side']:.3f} of the posterior",
                "none: as the paper says" if holds else "does not hold",
            ]
            for name, claim, r, holds in said
        ],
    )
    worst = max(r.values["furthest_from_quadrature"] for r in results)
    others = [r for r in results if not r.cell["situation"]]
    grown = [r for r in others if r.values["variance_ratio"] > 1]
    more = (
        f"\nOf {len(others)} other priors the variance grows for {len(grown)}: those with enough "
        "mass on either side of the null category.\n"
        if others
        else ""
    )
    return f"""## The paper and ours

The paper's figure is schematic and gives no number; the two priors are ours. The null category has
width 1 and the likelihood of a row without a label is one outside it and zero inside. Mean and
variance of the posterior come from the derivatives of the evidence, as moment matching uses them
(section 4); numerical integration gives the same within {worst:.0e}.

{table}
{more}
A Gaussian in the place of this likelihood would need a negative variance wherever the variance
grows. The paper then sets it to zero; so does `inference="adf"`.
"""


FIGURE_1 = Experiment(
    name="ncnm-fig1",
    title="Lawrence & Jordan (2005), figure 1: the ordered categorical noise model",
    paper=PAPER,
    claim="Three ordered categories of f with a null category of width w between two classes.",
    cells=noise_cells,
    run_cell=run_noise,
    draw=draw_noise,
    comparison=compare_noise,
)
FIGURE_3 = Experiment(
    name="ncnm-fig3",
    title="Lawrence & Jordan (2005), figure 3: two situations of interest",
    paper=PAPER,
    claim="A row without a label pushes f out of the null category: to both sides, with a larger "
    "variance, or to one side, with a smaller one.",
    cells=situation_cells,
    run_cell=run_situation,
    draw=draw_situations,
    comparison=compare_situations,
)
