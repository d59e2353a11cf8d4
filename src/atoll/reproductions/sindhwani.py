"""Sindhwani, Chu & Keerthi: semi-supervised Gaussian process classifiers (SSGP).

Figures 2 to 5 show the same numbers from four sides, so they share their cells. The training rows
of a data set are fixed: their kernels are computed once for each (σ, γ_I/γ_A) of the grid, and
every draw of labels takes its rows and columns from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC

from atoll.core.linalg import jittered_cholesky, solve_lower
from atoll.datasets import load_digit1, load_pcmac, load_usps_3vs5
from atoll.estimators import (
    InformativeVectorClassifier,
    NullCategoryClassifier,
    TransductiveSVC,
)
from atoll.inference.ep import Sites
from atoll.kernels.graph_warped import Geometry, penalty_factor
from atoll.models import laplacian, ssgp
from atoll.models.ssgp import AMBIENT_WEIGHTS, LENGTH_FACTORS, NOISE, RATIOS, Labels
from atoll.plotting.palette import new_figure
from atoll.reproductions.engine import Cell, DataHome, Experiment, Result
from atoll.reproductions.lawrence import fit_quietly
from atoll.reproductions.tables import Estimate, estimate, group, markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

PAPER = (
    "V. Sindhwani, W. Chu and S. S. Keerthi (2007), *Semi-supervised Gaussian process classifiers*,"
    " IJCAI."
)
LOST = (
    "REUTERS, the paper's fourth set, is lost: its 610 texts were drawn from Reuters-21578 in a "
    "way that the paper does not describe."
)


class Setting(NamedTuple):
    """How the paper treats a data set, and the size of its test set if we have to draw it."""

    n_neighbors: int
    power: int
    n_test: int | None


SETTINGS = {"3VS5": Setting(10, 2, None), "SET1": Setting(10, 2, 374), "PCMAC": Setting(50, 5, 486)}
LABELS = [2, 4, 6, 10, 20, 50, 100]
QUICK_LABELS = [4, 10]
N_DRAWS, N_QUICK_DRAWS, QUICK_ROWS = 10, 2, 300
FEW_LABELS = 10
# Limit of EP's sweeps. About twenty settle the sites; where rows nearly coincide, rounding keeps
# the sites moving although the evidence no longer changes.
MOST_SWEEPS = 60

SSGP_COLOUR, GP_COLOUR, SVM_COLOUR = "#0072B2", "#E69F00", "#CC79A7"


class Split(NamedTuple):
    """A data set as the experiment sees it.

    squared : (n, n + t) squared distances from training rows to training and test rows
    length : mean length of a training row, the paper's σ_0
    geometry : the graph of the training rows
    y, y_test : (n,) and (t,) in {0, 1}
    """

    squared: Array
    length: float
    geometry: Geometry
    y: Rows
    y_test: Rows


def load_split(name: str, n_rows: int | None, data_home: DataHome) -> Split:
    """Load the paper's split of 3VS5; for the others a fixed random quarter is the test set.

    For quick runs, only `n_rows` training rows are kept; None keeps all.
    """
    n_neighbors, power, n_test = SETTINGS[name]
    rng = np.random.default_rng(2007)  # the split is part of the data
    X: Any
    if name == "3VS5":
        usps = load_usps_3vs5(data_home)
        X, X_test = usps.data, usps.data_test
        y, y_test = (usps.target == 5), (usps.target_test == 5)
    else:
        data = load_digit1() if name == "SET1" else load_pcmac(data_home)
        order = rng.permutation(data.data.shape[0])
        test, train = order[:n_test], order[n_test:]
        X, X_test = data.data[train], data.data[test]
        y, y_test = data.target[train] > 0, data.target[test] > 0
    if n_rows is not None:
        kept = rng.permutation(X.shape[0])[:n_rows]
        X, y = X[kept], y[kept]
    squared = np.hstack(
        [euclidean_distances(X, squared=True), euclidean_distances(X, X_test, squared=True)]
    )
    np.fill_diagonal(squared, 0.0)
    squares = X.multiply(X) if hasattr(X, "multiply") else X * X
    length = float(np.sqrt(np.asarray(squares.sum(axis=1))).mean())
    geometry = Geometry.from_rows(X, n_neighbors=n_neighbors, power=power)
    return Split(squared, length, geometry, y.astype(np.intp), y_test.astype(np.intp))


class Warped(NamedTuple):
    """The warped kernel K̃ at one (σ, ratio).

    gram : (n, n + t) between training rows and all rows
    diagonal : (n + t,)
    """

    gram: Array
    diagonal: Array


def warped_grams(split: Split, factor: float) -> Iterator[Warped]:
    """Yield K̃ for every ratio of the grid, at σ = factor · σ_0."""
    K = np.exp(split.squared / (-2.0 * (factor * split.length) ** 2))
    n = len(K)
    projected = split.geometry.project(K)
    squared = split.geometry.project(projected[:, :n].T)
    for ratio in RATIOS:
        if ratio == 0:
            yield Warped(K, np.ones(K.shape[1]))
            continue
        t = solve_lower(penalty_factor(squared, ratio), np.sqrt(ratio) * projected)
        yield Warped(K - t[:, :n].T @ t, 1.0 - np.einsum("ij,ij->j", t, t))


def draw_labels(rng: np.random.Generator, y: Rows, n_labels: int) -> Rows:
    """Draw rows at random; draw again if a class is missing."""
    while True:
        rows = rng.choice(len(y), n_labels, replace=False)
        if len(np.unique(y[rows])) == 2:
            return rows


class Fitted(NamedTuple):
    """SSGP at one point of the grid: its log evidence, and scores Φ^{-1}(P(y = 1)) of all rows."""

    log_evidence: float
    scores: Array


def fit_ssgp(warped: Warped, y: Rows, rows: Rows) -> list[Fitted]:
    """Fit SSGP at each γ_A of the grid, only once for values that the noise cannot tell apart."""
    gram = warped.gram[np.ix_(rows, rows)]
    most = ssgp.LARGEST_SIGNAL / float(np.diagonal(gram).mean())
    found: dict[float, Fitted] = {}
    scales = [min(1.0 / (ambient * NOISE**2), most) for ambient in AMBIENT_WEIGHTS]
    sites: Sites | None = None
    previous = 1.0
    for scale in sorted(set(scales)):
        C = scale * gram
        if sites is not None:  # labels fix only signs, so rescaled sites are a start for this scale
            less = previous / scale
            sites = Sites(less * sites.precision, np.sqrt(less) * sites.shift)
        fit = ssgp.propagate_labels(C, Labels(rows, y[rows], 2), sites, MOST_SWEEPS)
        sites, previous = fit.sites, scale
        cross = scale * warped.gram[rows]
        root = np.sqrt(fit.sites.precision)
        lower = jittered_cholesky(np.eye(len(C)) + root[:, None] * C * root).lower
        known = solve_lower(lower, root[:, None] * cross)
        variance = scale * warped.diagonal - np.einsum("ij,ij->j", known, known)
        scores = (cross.T @ fit.weights) / np.sqrt(1.0 + np.maximum(variance, 0.0))
        found[scale] = Fitted(float(fit.log_evidences[-1]), scores)
    return [found[scale] for scale in scales]


# --- figures 2 to 5 -------------------------------------------------------------------------------


def curve_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the cells: data set × σ; the quick cells use a quarter of 3VS5."""
    common = {
        "rows": QUICK_ROWS if quick else None,
        "labels": QUICK_LABELS if quick else LABELS,
        "draws": N_QUICK_DRAWS if quick else N_DRAWS,
        "seed": seed,
    }
    return [
        {"data": name, "factor": factor} | common
        for name in (["3VS5"] if quick else SETTINGS)
        for factor in ([0.5, 1.0] if quick else LENGTH_FACTORS)
    ]


def run_curves(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Compute evidence, cross-validation error and true errors at one σ.

    Arrays are (draw, number of labels, ratio, γ_A).
    """
    split = load_split(cell["data"], cell["rows"], data_home)
    n = len(split.y)
    truth = np.concatenate([split.y, split.y_test])
    shape = (cell["draws"], len(cell["labels"]), len(RATIOS), len(AMBIENT_WEIGHTS))
    names = [
        "evidence",
        "cv",
        *(f"{m}_{s}" for m in ("ssgp", "svm") for s in ("test", "unlabelled")),
    ]
    values: dict[str, Any] = {name: np.empty(shape) for name in names}
    for k, warped in enumerate(warped_grams(split, cell["factor"])):
        for draw, i in np.ndindex(shape[:2]):
            # The labels are the same at every σ and ratio.
            rng = np.random.default_rng([cell["seed"], draw, cell["labels"][i]])
            rows = draw_labels(rng, split.y, cell["labels"][i])
            fold = laplacian.folds(rng, split.y[rows])
            unlabelled = np.setdiff1d(np.arange(n), rows)
            gram, cross = warped.gram[np.ix_(rows, rows)], warped.gram[rows].T
            fits = fit_ssgp(warped, split.y, rows)
            for g, (ambient, fit) in enumerate(zip(AMBIENT_WEIGHTS, fits)):
                place = (draw, i, k, g)
                codes = split.y[rows]
                machine = laplacian.svc_machine(gram, codes, ambient)
                values["evidence"][place] = fit.log_evidence
                values["cv"][place] = laplacian.cross_validate(
                    gram, codes, fold, ambient, laplacian.svc_machine
                )
                for model, predicted in (("ssgp", fit.scores > 0), ("svm", machine(cross))):
                    wrong = predicted != truth
                    values[f"{model}_test"][place] = wrong[n:].mean()
                    values[f"{model}_unlabelled"][place] = wrong[unlabelled].mean()
    return {
        "length": cell["factor"] * split.length,
        "mean_evidence": float(values["evidence"].mean()),
        "mean_ssgp_test": float(values["ssgp_test"].mean()),
        "mean_svm_test": float(values["svm_test"].mean()),
    } | values


class Curves(NamedTuple):
    """Errors on one kind of rows of one data set, by model; each is (draw, number of labels).

    best : the lowest over the grid
    chosen : at the setting chosen by evidence or cross-validation
    """

    best: dict[str, Array]
    chosen: dict[str, Array]


def curves_of(results: list[Result], kind: str) -> Curves:
    """Return errors, best over the grid and chosen by evidence or (for LapSVM) cross-validation."""

    def stacked(name: str) -> Array:  # (draw, labels, σ, ratio, γ_A)
        return np.stack([r.values[name] for r in results], axis=2)

    evidence, cv = stacked("evidence"), stacked("cv")
    ssgp, svm = stacked(f"ssgp_{kind}"), stacked(f"svm_{kind}")
    flat = evidence.shape[0], evidence.shape[1], -1
    best: dict[str, Array] = {}
    chosen: dict[str, Array] = {}
    for name, errors, value in (
        ("SSGP", ssgp, evidence),
        ("GP", ssgp[:, :, :, :1], evidence[:, :, :, :1]),  # a ratio of zero
        ("LapSVM", svm, -cv),
    ):
        error, value = errors.reshape(flat), value.reshape(flat)
        best[name] = np.round(error.min(axis=2), 12)
        # Tied settings are equally likely to be chosen, so their mean error is the expected one.
        tied = value >= value.max(axis=2, keepdims=True) - 1e-9
        chosen[name] = np.round((error * tied).sum(axis=2) / tied.sum(axis=2), 12)
    return Curves(best, chosen)


def picture_curves(results: list[Result], path: Path, kind: str, models: tuple[str, ...]) -> None:
    """Draw one panel per data set: solid lines are best over the grid, dashed lines chosen."""
    by_data = group(results, "data")
    figure = new_figure(4.6 * len(by_data), 4.0)
    panels = figure.subplots(1, len(by_data), squeeze=False)[0]
    colours = {"SSGP": SSGP_COLOUR, "GP": GP_COLOUR, "LapSVM": SVM_COLOUR}
    how = {"SSGP": "by evidence", "GP": "by evidence", "LapSVM": "by cross-validation"}
    for axis, (name, part) in zip(panels, by_data.items()):
        curves = curves_of(part, kind)
        labels = part[0].cell["labels"]
        for model in models:
            for line, errors, text in (
                ("-", curves.best[model], "best over the grid"),
                ("--", curves.chosen[model], f"chosen {how[model]}"),
            ):
                _plot(axis, labels, errors, line, colours[model], f"{model}, {text}")
        axis.set(title=name, xlabel="labelled rows", xscale="log")
        axis.set_xticks(labels, [str(n) for n in labels], minor=False)
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(f"error on {'test' if kind == 'test' else 'unlabelled'} rows")
    panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=120)


def _plot(axis: Axes, x: list[int], errors: Array, line: str, colour: str, label: str) -> None:
    found = [estimate(column) for column in errors.T]
    axis.errorbar(
        x,
        [one.mean for one in found],
        [0.0 if one.n_cells < 2 else one.standard_error for one in found],
        linestyle=line,
        color=colour,
        marker="o" if line == "-" else "s",
        markersize=4,
        capsize=2,
        label=label,
    )


def compare_curves(results: list[Result], kind: str, rival: str) -> str:
    """Return the Markdown of one figure: a table per data set, a verdict on the paper's claim."""
    parts, found, together = [], [], []
    for name, part in group(results, "data").items():
        curves = curves_of(part, kind)
        labels = part[0].cell["labels"]
        few = np.array(labels) <= FEW_LABELS
        lost_of = {m: (curves.chosen[m] - curves.best[m])[:, few] for m in ("SSGP", rival)}
        more = estimate((lost_of[rival] - lost_of["SSGP"]).mean(axis=1))
        together.append(f"{name} {more:+.3f}")
        lines = []
        for i, n in enumerate(labels):
            gap = estimate(curves.best[rival][:, i] - curves.best["SSGP"][:, i])
            chosen = estimate(curves.chosen[rival][:, i] - curves.chosen["SSGP"][:, i])
            lost = [estimate((curves.chosen[m] - curves.best[m])[:, i]) for m in ("SSGP", rival)]
            lines.append(
                [
                    n,
                    *(f"{estimate(curves.best[m][:, i]):.3f}" for m in ("SSGP", rival)),
                    *(f"{estimate(curves.chosen[m][:, i]):.3f}" for m in ("SSGP", rival)),
                    f"{gap:+.3f}",
                    f"{chosen:+.3f}",
                    *(f"{one:.3f}" for one in lost),
                ]
            )
            found.append((name, n, gap, chosen, lost))
        header = ["labels", "SSGP best", f"{rival} best", "SSGP chosen", f"{rival} chosen",
                  f"best: {rival} less SSGP", f"chosen: {rival} less SSGP",
                  "SSGP chosen less best", f"{rival} chosen less best"]  # fmt: skip
        parts.append(f"### {name}\n\n{markdown_table(header, lines)}")
    n_draws = results[0].cell["draws"]
    said = _verdict_on_gp(found) if rival == "GP" else _verdict_on_svm(found, together)
    rows = "test" if kind == "test" else "unlabelled"
    return f"""## The paper and ours

The paper shows curves without numbers. The tables give the error on {rows} rows, mean ± standard
error over {n_draws} draws of labels from one training set. "Best" is the lowest error over the grid
of (σ, γ_A, γ_I/γ_A), draw by draw, as in the paper's solid lines; "chosen" is the error at the
largest evidence or, for LapSVM, at the lowest cross-validation error (the mean over ties).

{(chr(10) * 2).join(parts)}

{said}

{LOST} The test set of 3VS5 is the paper's; for the others it is a random quarter that we drew.
The paper does not say which Laplacian it uses; ours is the normalised one.
"""


Found = list[tuple[str, int, Estimate, Estimate, list[Estimate]]]


def _verdict_on_gp(found: Found) -> str:
    above = [f"{name} at {n}" for name, n, _, gap, _ in found if gap.mean <= 0]
    within = [
        f"{name} at {n}" for name, n, _, gap, _ in found if 0 < gap.mean < 2 * gap.standard_error
    ]
    said = "With parameters chosen by evidence, SSGP's error is below GP's at every label count"
    said += f", except {', '.join(above)}." if above else "."
    if within:
        said += f" The difference is within two standard errors for {', '.join(within)}."
    return said


def _verdict_on_svm(found: Found, together: list[str]) -> str:
    few = [(name, n, lost) for name, n, _, _, lost in found if n <= FEW_LABELS]
    against = [f"{name} at {n}" for name, n, (ours, theirs) in few if ours.mean >= theirs.mean]
    said = (
        f"At {FEW_LABELS} labels or fewer, evidence comes nearer to the best of the grid than "
        "cross-validation does"
    )
    said += f", except {', '.join(against)}." if against else ", on every set."
    return (
        f"{said} With two labels, one per class, neither criterion has anything to go by: the "
        "evidence only asks that the two rows have little to do with each other, and under every "
        "setting LapSVM gets each row wrong when that row is left out, so that its choice is the "
        f"mean over the whole grid. Over all counts up to {FEW_LABELS}, cross-validation loses "
        f"more against the best than evidence does, by {', '.join(together)}."
    )


# --- figure 6 -------------------------------------------------------------------------------------

PROBABILITIES = [0.0125, 0.025, 0.05, 0.1, 0.2]  # that a row is labelled, as in Lawrence & Jordan
QUICK_PROBABILITIES = [0.05]
N_RIVAL_DRAWS = 5
RIVAL_COLOURS = {"NCNM": "#009E73", "SVM": "#999999", "IVM": "#D55E00", "TSVM": "#332288"}


def rival_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the cells: SSGP at each σ, and every rival at each probability and draw."""
    probabilities = QUICK_PROBABILITIES if quick else PROBABILITIES
    common = {"rows": QUICK_ROWS if quick else None, "seed": seed}
    ssgp = [
        {"model": "SSGP", "factor": factor, "probabilities": probabilities,
         "draws": N_QUICK_DRAWS if quick else N_DRAWS, **common}
        for factor in ((1.0,) if quick else LENGTH_FACTORS)
    ]  # fmt: skip
    others = [
        {"model": model, "probability": probability, "draw": draw, **common}
        for model in (["SVM"] if quick else RIVALS)
        for probability in probabilities
        for draw in range(N_QUICK_DRAWS if quick else N_RIVAL_DRAWS)
    ]
    return ssgp + others


def labelled_with(y: Rows, probability: float, draw: int, seed: int) -> Rows:
    """Label each row with a given probability; draw again if a class has no label."""
    rng = np.random.default_rng([seed, draw, round(1e6 * probability)])
    while True:
        rows = np.flatnonzero(rng.uniform(size=len(y)) < probability)
        if len(np.unique(y[rows])) == 2:
            return rows


def run_rival(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Measure the area under the ROC curve on the test rows of 3VS5."""
    if cell["model"] == "SSGP":
        return _run_ssgp_areas(cell, data_home)
    usps = load_usps_3vs5(data_home)
    X, y = usps.data, (usps.target == 5).astype(np.intp)
    if cell["rows"] is not None:
        kept = np.random.default_rng(2007).permutation(len(X))[: cell["rows"]]
        X, y = X[kept], y[kept]
    rows = labelled_with(y, cell["probability"], cell["draw"], cell["seed"])
    partial = np.full(len(y), -1)
    partial[rows] = y[rows]
    scores = RIVALS[cell["model"]](X, partial, usps.data_test)
    area = roc_auc_score(usps.target_test == 5, scores)
    return {"area": float(area), "labelled": len(rows)}


def _run_ssgp_areas(cell: Cell, data_home: DataHome) -> dict[str, Any]:
    split = load_split("3VS5", cell["rows"], data_home)
    n = len(split.y)
    shape = (cell["draws"], len(cell["probabilities"]), len(RATIOS), len(AMBIENT_WEIGHTS))
    evidence, areas = np.empty(shape), np.empty(shape)
    for k, warped in enumerate(warped_grams(split, cell["factor"])):
        for draw, i in np.ndindex(shape[:2]):
            rows = labelled_with(split.y, cell["probabilities"][i], draw, cell["seed"])
            for g, fit in enumerate(fit_ssgp(warped, split.y, rows)):
                evidence[draw, i, k, g] = fit.log_evidence
                areas[draw, i, k, g] = roc_auc_score(split.y_test, fit.scores[n:])
    return {"mean_area": float(areas.mean()), "evidence": evidence, "areas": areas}


def _null_category(X: Array, y: Rows, X_test: Array) -> Array:
    model = NullCategoryClassifier(inference="adf", n_active=N_ACTIVE, n_folds=0, unlabelled=-1)
    return fit_quietly(model, X, y).predict_proba(X_test)[:, 1]


def _informative_vectors(X: Array, y: Rows, X_test: Array) -> Array:
    model = InformativeVectorClassifier(n_active=N_ACTIVE, unlabelled=-1)
    return fit_quietly(model, X, y).predict_proba(X_test)[:, 1]


def _support_vectors(X: Array, y: Rows, X_test: Array) -> Array:
    known = y >= 0
    return SVC(gamma="scale").fit(X[known], y[known]).decision_function(X_test)


def _transductive_support_vectors(X: Array, y: Rows, X_test: Array) -> Array:
    machine = TransductiveSVC(C=1.0, gamma="scale", unlabelled_cost=1.0, unlabelled=-1)
    return fit_quietly(machine, X, y).decision_function(X_test)


N_ACTIVE = 100
RIVALS: dict[str, Callable[[Array, Rows, Array], Array]] = {
    "NCNM": _null_category,
    "IVM": _informative_vectors,
    "SVM": _support_vectors,
    "TSVM": _transductive_support_vectors,
}


def areas_by_model(results: list[Result]) -> dict[str, dict[float, Estimate]]:
    """Return each model's mean area at each probability, for SSGP where its evidence is largest."""
    by_model = group(results, "model")
    found: dict[str, dict[float, Estimate]] = {}
    for model, part in by_model.items():
        if model != "SSGP":
            found[model] = {
                p: estimate(r.values["area"] for r in cells)
                for p, cells in group(part, "probability").items()
            }
            continue
        evidence, areas = (
            np.stack([r.values[v] for r in part], axis=2) for v in ("evidence", "areas")
        )
        shape = (*evidence.shape[:2], -1)
        evidence, areas = evidence.reshape(shape), areas.reshape(shape)
        at = np.argmax(evidence, axis=2)[..., None]
        chosen = np.take_along_axis(areas, at, axis=2)[..., 0]
        found[model] = {
            p: estimate(column) for p, column in zip(part[0].cell["probabilities"], chosen.T)
        }
    return found


def picture_6(results: list[Result], path: Path) -> None:
    """Draw figure 6: area under the ROC curve against the probability of a label."""
    figure = new_figure(6.4, 4.4)
    axis = figure.subplots()
    for (model, found), marker in zip(areas_by_model(results).items(), "osv^D"):
        axis.errorbar(
            list(found),
            [one.mean for one in found.values()],
            [0.0 if one.n_cells < 2 else one.standard_error for one in found.values()],
            color=RIVAL_COLOURS.get(model, SSGP_COLOUR),
            marker=marker,
            capsize=3,
            linewidth=2.2 if model == "SSGP" else 1.4,
            label=model,
        )
    shown = list(next(iter(areas_by_model(results).values())))
    axis.set(
        title="3 against 5, test rows",
        xlabel="probability that a training row is labelled",
        ylabel="area under the ROC curve",
        xscale="log",
    )
    axis.set_xticks(shown, [f"{p:g}" for p in shown])
    axis.minorticks_off()
    axis.legend()
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def compare_6(results: list[Result]) -> str:
    """Return the Markdown for figure 6."""
    found = areas_by_model(results)
    probabilities = list(next(iter(found.values())))
    table = markdown_table(
        ["labelled", *found],
        [[f"{p:g}", *(f"{found[m][p]:.4f}" for m in found)] for p in probabilities],
    )
    behind = [
        f"{m} at {p:g}"
        for m in found
        if m != "SSGP"
        for p in probabilities
        if found[m][p].mean > found["SSGP"][p].mean
    ]
    said = (
        "SSGP has the largest area everywhere, as in the paper."
        if not behind
        else f"SSGP has the largest area everywhere except against {', '.join(behind)}."
    )
    return f"""## The paper and ours

The table gives the area under the ROC curve on the 326 test rows, mean ± standard error over draws
of labels ({N_DRAWS} for SSGP, {N_RIVAL_DRAWS} for the others in the full version). Each row is
labelled with the given probability, which is the protocol of Lawrence & Jordan 2005; the paper
repeats their curves without numbers. SSGP's parameters have the largest evidence on the paper's
grid. NCNM is `NullCategoryClassifier(inference="adf")` and IVM is `InformativeVectorClassifier`,
both with {N_ACTIVE} active rows; SVM is scikit-learn's and TSVM is `TransductiveSVC`, both with
their default settings. `atoll reproduce ncnm-fig5` fits these models with the settings of Lawrence
& Jordan 2005.

{table}

{said}
"""


# --- the registry ---------------------------------------------------------------------------------

_NEEDS = ("usps/usps_3vs5.npz", "pcmac/text.mat")


def _curves(number: int, what: str, claim: str, kind: str, rival: str) -> Experiment:
    """Return one of figures 2 to 5, which show the same cells.

    kind : rows the errors are on, "test" or "unlabelled"
    rival : of SSGP in the picture, "GP" or "LapSVM"
    """
    return Experiment(
        name=f"ssgp-fig{number}",
        title=f"Sindhwani, Chu & Keerthi (2007), figure {number}: {what}",
        paper=PAPER,
        claim=claim,
        cells=curve_cells,
        run_cell=run_curves,
        draw=partial(picture_curves, kind=kind, models=("SSGP", rival)),
        comparison=partial(compare_curves, kind=kind, rival=rival),
        needs=_NEEDS,
        cells_name="ssgp-curves",
        version=2,
    )


FIGURE_2 = _curves(
    2,
    "SSGP and GP on test rows",
    "Unlabelled rows lower the error on test rows, whatever the number of labels.",
    "test",
    "GP",
)
FIGURE_3 = _curves(
    3,
    "SSGP and GP on unlabelled rows",
    "On the unlabelled rows themselves, the gain from them is larger still.",
    "unlabelled",
    "GP",
)
FIGURE_4 = _curves(
    4,
    "evidence and cross-validation, test rows",
    "Evidence chooses parameters nearer to the best ones than cross-validation does.",
    "test",
    "LapSVM",
)
FIGURE_5 = _curves(
    5,
    "evidence and cross-validation, unlabelled",
    "The same on unlabelled rows, where cross-validation does better than on test rows.",
    "unlabelled",
    "LapSVM",
)
FIGURE_6 = Experiment(
    name="ssgp-fig6",
    title="Sindhwani, Chu & Keerthi (2007), figure 6: SSGP and the null category's rivals",
    paper=PAPER,
    claim="On 3 against 5, SSGP is ahead of NCNM, IVM, SVM and TSVM.",
    cells=rival_cells,
    run_cell=run_rival,
    draw=picture_6,
    comparison=compare_6,
    needs=("usps/usps_3vs5.npz",),
    version=2,
)
