"""Rogers (2014), figures 18, 19 and 22: where z may lie for each class, and how probably it does.

The regions' probabilities come from `atoll.likelihoods`. To check them, the slides' rules are
applied to draws of z = f + ε, counting how often each region is hit.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import binomtest, norm

from atoll.core.extras import import_extra
from atoll.likelihoods import multinomial_probit, null_category, probit
from atoll.plotting.palette import class_colours, new_figure
from atoll.reproductions.engine import Cell, DataHome, Experiment, Result
from atoll.reproductions.rogers import PAPER
from atoll.reproductions.tables import markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# The four diagrams: the lecture's figure number, the latent means and the null region's width.
TWO_CLASSES, THREE_CLASSES = [0.6], [0.6, 0.2, -0.8]
DIAGRAMS: list[Cell] = [
    {"figure": "18", "mean": TWO_CLASSES, "variance": 0.0, "null_width": 0.0},
    {"figure": "19", "mean": TWO_CLASSES, "variance": 0.0, "null_width": 1.0},
    {"figure": "22a", "mean": THREE_CLASSES, "variance": 0.0, "null_width": 0.0},
    {"figure": "22b", "mean": THREE_CLASSES, "variance": 0.0, "null_width": 1.0},
]
# The same regions elsewhere: uncertain functions, functions far from the boundary, more classes.
OTHER_MEANS = [[-2.5], [0.6, 0.2, -0.8], [4.0, 0.0, 0.0], [1.0, 0.5, 0.0, -0.5, -1.0]]
OTHER_VARIANCES, OTHER_WIDTHS = [0.5, 25.0], [0.0, 0.5, 2.0]
N_DRAWS = 400_000
N_DRAWN_DOTS = 400
NULL_COLOUR = "#8c8c8c"
LIMIT = 4.0  # largest coordinate of every drawn axis
LEAST_P_VALUE = 1e-6  # below this, for all regions together, library and count disagree

# The columns are an orthonormal basis of the contrasts of three numbers, which sum to zero.
CONTRASTS = np.array([[0.0, 2.0], [np.sqrt(3), -1.0], [-np.sqrt(3), -1.0]]) / np.sqrt(6)


def region_probabilities(mean: Array, variance: float, null_width: float) -> Array:
    """Return P(z in region) for each class and the null region; mean (1,) or (K,) -> (K + 1,).

    f has the given mean and variance, and z = f + ε. One mean stands for two classes.

    Examples
    --------
    >>> region_probabilities(np.array([0.0]), 0.0, 1.0).round(3)
    array([0.309, 0.309, 0.383])
    """
    v = np.asarray(variance)
    if len(mean) == 1 and null_width == 0:
        log_p = probit.log_class_probabilities(mean[0], v)
    elif len(mean) == 1:
        log_p = null_category.log_class_probabilities(mean[0], v, null_width)
    elif null_width == 0:
        log_p = multinomial_probit.log_class_probabilities(mean, v)
    else:
        log_p = null_category.log_margin_class_probabilities(mean, v, null_width)
    return np.append(np.exp(log_p), -np.expm1(min(0.0, float(logsumexp(log_p)))))


def regions_of(z: Array, null_width: float) -> NDArray[np.int64]:
    """Return the region of each z by the slides' rules; z (n, 1) or (n, K) -> (n,), null is last.

    With one z, above w/2 is class 1 and below −w/2 is class 0. With K of them, z is in class k if
    z_k > z_i + a for every other i. The slab between two classes is √2 a thick, so a = w/√2 makes
    w mean the same for any number of classes.
    """
    if z.shape[1] == 1:
        a = 0.5 * null_width
        return np.where(z[:, 0] > a, 1, np.where(z[:, 0] < -a, 0, 2))
    a, K = null_width / np.sqrt(2), z.shape[1]
    region = np.full(len(z), K)
    for k in range(K):
        others = np.delete(z, k, axis=1)
        region[(z[:, [k]] > others + a).all(axis=1)] = k
    return region


def figure_22_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the four diagrams; unless quick, also the regions under other means and variances."""
    others: list[Cell] = [
        {"figure": "", "mean": mean, "variance": variance, "null_width": null_width}
        for mean in OTHER_MEANS
        for variance in OTHER_VARIANCES
        for null_width in OTHER_WIDTHS
    ]
    chosen = DIAGRAMS if quick else DIAGRAMS + others
    return [cell | {"stream": i, "seed": seed} for i, cell in enumerate(chosen)]


def draw_auxiliary(cell: Cell, n: int) -> Array:
    """Draw z = f + ε, (n, 1) or (n, K); the first draws are the same for every n."""
    mean, rng = np.asarray(cell["mean"]), np.random.default_rng([cell["seed"], cell["stream"]])
    return mean + np.sqrt(1 + cell["variance"]) * rng.standard_normal((n, len(mean)))


def run_figure_22_cell(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Compute the regions' probabilities by the library, and the share of draws that hit each."""
    mean, width = np.asarray(cell["mean"]), cell["null_width"]
    probability = region_probabilities(mean, cell["variance"], width)
    met = regions_of(draw_auxiliary(cell, N_DRAWS), width)
    count = np.bincount(met, minlength=len(probability))
    values: dict[str, Any] = {"n_draws": N_DRAWS}
    for name, p, c in zip(region_names(len(mean), width), probability, count):
        values[f"probability_{name}"] = p
        values[f"share_{name}"] = c / N_DRAWS
        values[f"p_value_{name}"] = binomtest(int(c), N_DRAWS, p).pvalue
    return values


def region_names(n_functions: int, null_width: float) -> list[str]:
    """Return the names of the regions, with the null region last if there is one.

    Examples
    --------
    >>> region_names(1, null_width=0.0), region_names(3, null_width=1.0)
    (['class_0', 'class_1'], ['class_0', 'class_1', 'class_2', 'null'])
    """
    return [f"class_{k}" for k in range(max(2, n_functions))] + ["null"] * (null_width > 0)


def sector(k: int, null_width: float, reach: float = 100.0) -> Array:
    """Return the corners of class k's region in the plane of contrasts, cut off far out, (3, 2).

    The region is a third of the plane, with its apex where z_k leads both others by a.

    Examples
    --------
    >>> sector(0, 1.0)[0].round(3)  # straight up, where z_0 alone is large
    array([0.   , 0.577])
    """
    axes = CONTRASTS / np.linalg.norm(CONTRASTS, axis=1, keepdims=True)  # where z_i alone is large
    # Along an edge z_k and z_i grow together, away from the third class.
    edges = [-axes[j] for j in range(3) if j != k]
    apex = null_width / np.sqrt(3) * axes[k]
    return np.array([apex, apex + reach * edges[0], apex + reach * edges[1]])


def draw_figure_22(results: list[Result], path: Path) -> None:
    """Draw the four diagrams, each region with its probability."""
    drawn = {r.cell["figure"]: r for r in results if r.cell["figure"]}
    figure = new_figure(10.5, 9.2)
    axes = figure.subplots(2, 2, height_ratios=[0.62, 1])
    for axis, number in zip(axes[0], ("18", "19")):
        _draw_half_lines(axis, drawn[number])
    for axis, number in zip(axes[1], ("22a", "22b")):
        _draw_sectors(axis, drawn[number])
    axes[0, 0].set_title("Figure 18: two classes")
    axes[0, 1].set_title("Figure 19: two classes and a null region")
    axes[1, 0].set_title("Figure 22a: three classes")
    axes[1, 1].set_title("Figure 22b: three classes and a null region")
    figure.savefig(path, dpi=120)


def _draw_half_lines(axis: Axes, result: Result) -> None:
    """Draw the density of z around f, in the colour of the region under it."""
    (f,), a = result.cell["mean"], 0.5 * result.cell["null_width"]
    blue, orange = class_colours(2)
    parts = [
        ("class_0", -LIMIT, -a, blue, -2.6),
        ("class_1", a, LIMIT, orange, 2.9),
        ("null", -a, a, NULL_COLOUR, 0.0),
    ]
    for name, low, high, colour, place in parts if a > 0 else parts[:2]:
        z = np.linspace(low, high, 200)
        axis.fill_between(z, norm.pdf(z, loc=f), color=colour, alpha=0.75, linewidth=0)
        axis.text(place, 0.46, _region_text(result, name), ha="center", va="center", fontsize=9)
    z = np.linspace(-LIMIT, LIMIT, 400)
    axis.plot(z, norm.pdf(z, loc=f), color="black", linewidth=1.2)
    for boundary in {-a, a}:
        axis.axvline(boundary, ymax=0.8, color="black", linewidth=1, linestyle="--")
    axis.plot([f, f], [0, norm.pdf(0)], color="black", linewidth=1, linestyle=":")
    axis.annotate("$f_n$", (f, norm.pdf(0)), (3, 3), textcoords="offset points")
    if a > 0:
        _mark_width(axis, 0.1, 2 * a)
    axis.set(xlim=(-LIMIT, LIMIT), ylim=(0, 0.52), xlabel="$z_n$", ylabel="$p(z_n \\mid f_n)$")


def _draw_sectors(axis: Axes, result: Result) -> None:
    """Draw three classes' regions in the plane of contrasts, draws of z, and circles around f."""
    patches = import_extra("matplotlib.patches")
    width, colours = result.cell["null_width"], class_colours(3)
    axis.set_facecolor((*_grey(NULL_COLOUR), 0.35))
    for k, colour in enumerate(colours):
        corners = sector(k, width)
        axis.add_patch(patches.Polygon(corners, facecolor="white", edgecolor="none", zorder=0.5))
        axis.add_patch(
            patches.Polygon(corners, facecolor=colour, alpha=0.3, edgecolor="none", zorder=0.6)
        )
        axis.plot(*corners[[1, 0, 2]].T, color="black", linewidth=1, zorder=1)
    z = draw_auxiliary(result.cell, N_DRAWN_DOTS)
    region, (x1, x2) = regions_of(z, width), (z @ CONTRASTS).T
    for k, colour in enumerate([*colours, _grey("#4d4d4d")]):
        axis.scatter(x1[region == k], x2[region == k], s=7, color=colour, linewidths=0, zorder=2)
    centre = np.asarray(result.cell["mean"]) @ CONTRASTS
    for radius in (1, 2):
        axis.add_patch(patches.Circle(tuple(centre), radius, fill=False, linewidth=1, zorder=3))
    axis.plot(*centre, "k+", markersize=9, zorder=3)
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "alpha": 0.85, "linewidth": 0}
    axis.annotate("$f_n$", tuple(centre), (14, 0), textcoords="offset points", va="center",
                  bbox=box | {"pad": 0.1}, zorder=4)  # fmt: skip
    if width > 0:
        _mark_width(axis, -2.2, width)
    places = [(0, 3.45), (2.75, -2.6), (-2.75, -2.6), (0, -3.45)]
    for name, place in zip(region_names(3, width), places):
        text = _region_text(result, name)
        axis.text(*place, text, ha="center", va="center", fontsize=9, bbox=box, zorder=4)
    axis.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT), aspect="equal")
    axis.set_xlabel("$(z_1 - z_2)/\\sqrt{2}$")
    axis.set_ylabel("$(2 z_0 - z_1 - z_2)/\\sqrt{6}$")


def _mark_width(axis: Axes, height: float, width: float) -> None:
    arrow = {"arrowstyle": "<->", "shrinkA": 0, "shrinkB": 0}
    axis.annotate("", (-0.5 * width, height), (0.5 * width, height), arrowprops=arrow, zorder=4)
    axis.annotate(
        f"{width:g}", (0, height), (0, 3), textcoords="offset points", ha="center", zorder=4
    )


def _region_text(result: Result, name: str) -> str:
    p, share = result.values[f"probability_{name}"], result.values[f"share_{name}"]
    return f"{name.replace('_', ' ')}\n{p:.4f}\n({share:.4f} of draws)"


def _grey(colour: str) -> tuple[float, float, float]:
    return import_extra("matplotlib.colors").to_rgb(colour)


def compare_figure_22(results: list[Result]) -> str:
    """Compare the library's probabilities with the shares of draws."""
    diagrams = [r for r in results if r.cell["figure"]]
    others = [r for r in results if not r.cell["figure"]]
    p_values = [p for r in results for p in _values(r, "p_value").values()]
    n, least = len(p_values), min(p_values)
    agrees = n * least > LEAST_P_VALUE
    shortfall = max(
        abs(1 - sum(_values(r, "probability").values()))
        for r in results
        if r.cell["null_width"] == 0
    )
    claims = markdown_table(
        ["", "the lecture", "ours", "difference"],
        [
            [
                "figures 18 and 22a",
                "δ(z > 0); δ(z_k > z_i for all i ≠ k): no z is without a class",
                f"the classes' probabilities sum to one within {shortfall:.0e}",
                "none" if shortfall < 1e-12 else "more than rounding",
            ],
            [
                "figures 19 and 22b",
                "δ(z > a), δ(z < −a); δ(z_k > z_i + a for all i ≠ k); else null",
                f"{n} regions counted; the smallest of their p-values is {least:.2g}",
                f"{'none' if agrees else 'too large for chance'}: with the right probabilities "
                f"the smallest of {n} is around {1 / n:.2g}",
            ],
        ],
    )
    regions = markdown_table(
        ["figure", "f", "null width", "region", "probability", "share", "off by"],
        [
            [r.cell["figure"], _mean_text(r), r.cell["null_width"], name.replace("_", " "),
             f"{p:.5f}", f"{r.values[f'share_{name}']:.5f}", f"{_off_by(r, name):+.1f}"]
            for r in diagrams
            for name, p in _values(r, "probability").items()
        ],
    )  # fmt: skip
    elsewhere = markdown_table(
        ["f", "its variance", "null width", "probabilities", "furthest off"],
        [
            [_mean_text(r), r.cell["variance"], r.cell["null_width"],
             ", ".join(f"{p:.4f}" for p in _values(r, "probability").values()),
             f"{max((_off_by(r, name) for name in _values(r, 'share')), key=abs):+.1f}"]
            for r in others
        ],
    )  # fmt: skip
    return f"""## The lecture and ours

The slides draw regions and print no numbers. Here f is {_mean_text(diagrams[0])} (two classes) or
{_mean_text(diagrams[-1])} (three), and the null region has width 1, as in figure 19. The
probability of each region is computed by `atoll.likelihoods` and set beside the share of
{results[0].values["n_draws"]:,} draws of z = f + ε that fell into it by the slide's own rule.

{claims}

## Regions

{regions}

“Off by” is in standard errors of the share. With three classes, z has three coordinates, but only
their differences matter: the picture shows the plane orthogonal to (1, 1, 1), in which z is again a
unit Gaussian around f, with circles at one and two standard deviations. The lecture's a is half the
null width w for two classes (−a < z < a) and w/√2 for more, where the slab between z_k = z_i + a
and z_i = z_k + a is √2 a thick; so one width means the same for any number of classes.
{_elsewhere_text(elsewhere) if others else ""}"""


def _elsewhere_text(table: str) -> str:
    return f"""
## Elsewhere

These are uncertain functions, f ~ N(mean, variance), one of them far from the boundary, and five
classes; the null region's probability is last, if there is one.

{table}
"""


def _values(result: Result, kind: str) -> dict[str, float]:
    """Return one kind of value for each region, by the region's name; that of null is last."""
    named = {
        key.removeprefix(f"{kind}_"): value
        for key, value in result.values.items()
        if key.startswith(f"{kind}_")
    }
    return dict(sorted(named.items(), key=lambda item: item[0] == "null"))


def _off_by(result: Result, name: str) -> float:
    """Return the share minus the probability, in standard errors."""
    p, n = result.values[f"probability_{name}"], result.values["n_draws"]
    return float((result.values[f"share_{name}"] - p) / np.sqrt(p * (1 - p) / n))


def _mean_text(result: Result) -> str:
    return ", ".join(f"{m:g}" for m in result.cell["mean"]).replace("-", "−")


FIGURE_22 = Experiment(
    name="rogers-fig22",
    title="Rogers (2014), figures 18, 19 and 22: regions of the auxiliary variable",
    paper=PAPER,
    claim=(
        "Each class is a region of z = f + ε: half-lines for two classes, the largest z_k for "
        "more; a null region lies between them, |z| < a or no z_k leading all others by a."
    ),
    cells=figure_22_cells,
    run_cell=run_figure_22_cell,
    draw=draw_figure_22,
    comparison=compare_figure_22,
)
