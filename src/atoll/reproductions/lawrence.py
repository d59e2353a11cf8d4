"""Lawrence & Jordan (2005): the null category noise model on crescents and handwritten digits."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from atoll.datasets import load_crescent, load_usps_3vs5, make_crescents
from atoll.datasets.loaders import find_file
from atoll.datasets.matlab import read_matlab
from atoll.estimators import InformativeVectorClassifier, NullCategoryClassifier, TransductiveSVC
from atoll.inference import ep
from atoll.inference.adf import filter_rows
from atoll.inference.ivm import Plan
from atoll.kernels.hyperparameters import KernelPrior, kernel_at, kernel_prior
from atoll.models import informative_vector
from atoll.models.informative_vector import NoiseModel
from atoll.plotting.palette import new_figure
from atoll.reproductions.engine import Cell, DataHome, Experiment, Result
from atoll.reproductions.tables import (
    Estimate,
    estimate_value,
    group,
    markdown_table,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

PAPER = (
    "N. D. Lawrence and M. I. Jordan (2005), *Semi-supervised learning via Gaussian processes*, "
    "NIPS 17."
)
# Noise variance of the likelihood: the paper's is a step, and all noise is in the kernel.
STEP = 1e-6
VARIANCE_RATE = 1.0  # of the exponential prior on the process variances
BLUE, RED, GREY = "#2166ac", "#b2182b", "#4d4d4d"

# Figure 4
N_ACTIVE_CRESCENT = 100
N_DRAWN, N_QUICK_DRAWN = 20, 2
STORED = ("ncnm_gpc/semisupercrescent.svml", "ncnm_gpc/demUnlabelledOne1.mat")
GRID = np.linspace(-10, 10, 81)

# Figure 5
PROBABILITIES = [0.2, 0.1, 0.05, 0.025, 0.0125]
QUICK_PROBABILITIES = [0.05, 0.0125]
N_SEEDS, N_QUICK_SEEDS = 10, 1
N_ACTIVE, N_QUICK_ACTIVE = 200, 100
MODELS = {
    "ivm": "IVM",
    "ncnm": "null category",
    "svm": "SVM",
    "tsvm": "transductive SVM",
    "published": "null category as published",
    "transductive": "null category, transductive",
}
STYLES = {
    "ivm": ("-", "o", BLUE),
    "ncnm": (":", "s", RED),
    "svm": ("-.", "^", GREY),
    "tsvm": ("--", "v", "#1b7837"),
    "published": (":", "x", "#e08214"),
}


def paper_kernel(X: Array) -> Kernel:
    """Return θ₂ exp(−θ₁ ‖x − x'‖²) + θ₃ δ, whose length-scale starts at the size of the data."""
    length_scale = kernel_at(isotropic := kernel_prior("isotropic", X), isotropic.mean)
    return ConstantKernel(1.0) * RBF(length_scale.k2.length_scale) + WhiteKernel(1e-4)


def paper_options(n_active: int | None) -> dict[str, Any]:
    """Return options for the step likelihood and the exponential prior on process variances."""
    return {"n_active": n_active, "noise_variance": STEP, "variance_rate": VARIANCE_RATE}


def fit_quietly(model: Any, X: Array, y: NDArray[Any]) -> Any:
    """Fit without convergence warnings, which every cell would otherwise repeat."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


# --- figure 4 -------------------------------------------------------------------------------------


def crescent_cells(quick: bool, seed: int) -> list[Cell]:
    """Return a cell for the paper's own rows, and cells for others like them with known classes."""
    n_drawn = N_QUICK_DRAWN if quick else N_DRAWN
    return [
        {"data": "the paper's", "replicate": 0, "seed": seed},
        *({"data": "drawn", "replicate": r, "seed": seed} for r in range(n_drawn)),
    ]


def stored_parameters(data_home: DataHome) -> Array:
    """Return the logs of θ₂, the length-scale and θ₃ that an independent implementation found."""
    path = find_file(STORED[1], data_home)
    kernel = read_matlab(path, squeeze_me=True, struct_as_record=False)["kern"]
    rbf, white = kernel.comp
    return np.log([rbf.variance, rbf.inverseWidth**-0.5, white.variance])


def whole_evidence(
    X: Array, codes: NDArray[np.intp], seen: NDArray[np.bool_], prior: KernelPrior, theta: Array
) -> float:
    """Return EP's log evidence of all rows at θ; a pass of assumed-density filtering starts EP."""
    noise = NoiseModel(1.0, np.full(2, (~seen).mean()))
    everyone = np.arange(len(X))
    family = informative_vector.family(
        codes, seen, noise, informative_vector.share_bias(codes, seen)
    )
    regions = family(everyone).at(np.zeros(0)).regions
    C = informative_vector.kernel_access(prior, X).part(everyone)[0](theta)
    passed = filter_rows(lambda i: C[i], np.diagonal(C), regions, noise_variance=STEP)
    order = np.argsort(passed.rows)
    start = ep.Sites(*(part[order] for part in passed.sites))
    return float(ep.propagate(C, regions, start, noise_variance=STEP).log_evidences[-1])


def run_crescent(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Fit both models of figure 4 to one set of rows."""
    if cell["data"] == "drawn":
        rng = np.random.default_rng([cell["seed"], cell["replicate"]])
        X, truth = make_crescents(400, random_state=rng)
        y = np.where(rng.random(400) < 0.1, 2 * truth - 1, 0)
        signs = np.where(y == 0, None, y)  # type: ignore[call-overload]
        models = fit_crescent(X, signs)
        return {
            f"{name}_error": float(np.mean((model.transduction_ != 2 * truth - 1)[y == 0]))
            for name, model in models.items()
        } | picture_of(models, X, y)
    stored = stored_parameters(data_home)
    data = load_crescent(data_home)
    X, y = data.data, data.target
    seen = np.array([label is not None for label in y])
    codes = np.array([label == 1 for label in y])
    models = fit_crescent(X, y)
    model = models["null"]
    prior = kernel_prior(paper_kernel(X), X)
    penalty = informative_vector.exponential_prior(prior, VARIANCE_RATE, keep_others=False)
    values = picture_of(models, X, np.where(seen, np.where(codes, 1, -1), 0))
    for name, at in (("ours", model.posterior_.log_parameters), ("stored", stored)):
        variance, length_scale, white = np.exp(at)
        evidence = whole_evidence(X, codes.astype(np.intp), seen, prior, at)
        values |= {
            f"{name}_variance": variance,
            f"{name}_inverse_width": length_scale**-2,
            f"{name}_white": white,
            f"{name}_log_evidence": evidence,
            f"{name}_penalised": evidence + penalty(at)[0],
        }
    for name, fitted in models.items():
        values[f"{name}_in_gap"] = share_near_zero(fitted, X[~seen])
    return values | {
        "bias": float(model.bias_[0]),
        "missing_rate": float(model.missing_rates_[0]),
        "rounds": model.diagnostics_["n_iterations"],
        "negative_sites": model.diagnostics_["n_negative"],
    }


def fit_crescent(X: Array, y: NDArray[Any]) -> dict[str, Any]:
    """Fit the IVM to the labelled rows alone, all of them active, and the null category to all."""
    options = {"kernel": paper_kernel(X), "bias": "share", "unlabelled": None}
    supervised = InformativeVectorClassifier(**options, **paper_options(None))
    null = NullCategoryClassifier(
        inference="adf",
        n_folds=0,
        missing_rates="share",
        **options,
        **paper_options(N_ACTIVE_CRESCENT),
    )
    return {
        "supervised": fit_quietly(supervised, X, y),
        "null": fit_quietly(null, X, y),
    }


def picture_of(models: dict[str, Any], X: Array, signs: NDArray[np.intp]) -> dict[str, Any]:
    """Return what the panels of the fitted models show; signs are 0 of unlabelled rows."""
    points = np.column_stack([axis.ravel() for axis in np.meshgrid(GRID, GRID)])
    values: dict[str, Any] = {"X": X, "signs": signs}
    for name, fitted in models.items():
        mean, _ = fitted.predict_latent(points)
        values[f"{name}_surface"] = mean[:, 0].reshape(len(GRID), len(GRID))
        values[f"{name}_active"] = fitted.posterior_.inputs[0]
    return values


def share_near_zero(model: Any, X: Array) -> float:
    """Return the share of rows within the null region, |f| < 1/2."""
    return float(np.mean(np.abs(model.predict_latent(X)[0]) < 0.5))


def draw_crescent(results: list[Result], path: Path) -> None:
    """Draw the two panels of figure 4: of the paper's rows, or else of others like them."""
    own = [r.values for r in results if "ours_variance" in r.values]
    figure = new_figure(11, 5.4)
    values = own[0] if own else results[0].values
    if not own:
        figure.suptitle("Rows drawn like the paper's, which are not there")
    for axis, name, title in zip(
        figure.subplots(1, 2, sharex=True, sharey=True),
        ("supervised", "null"),
        ("IVM, labelled rows alone", f"Null category, {N_ACTIVE_CRESCENT} active rows of 400"),
    ):
        draw_panel(axis, values, name)
        axis.set_title(title)
    figure.savefig(path, dpi=110)


def draw_panel(axis: Axes, values: dict[str, Any], name: str) -> None:
    """Draw the rows, the active rows, the boundary, and the contours f = ±1/2 around it."""
    X, signs = values["X"], values["signs"]
    axis.plot(*X[signs == 0].T, ".", color="#bbbbbb", markersize=3, label="unlabelled")
    axis.plot(*values[f"{name}_active"].T, ".", color="black", markersize=7, label="active")
    for sign, marker, colour in ((1, "o", BLUE), (-1, "x", RED)):
        axis.plot(
            *X[signs == sign].T, marker, color=colour, markerfacecolor="none", markersize=8,
            markeredgewidth=1.6, linestyle="none", label=f"labelled {sign:+d}",
        )  # fmt: skip
    levels, lines = [-0.5, 0.0, 0.5], [":", "-", ":"]
    axis.contour(
        GRID, GRID, values[f"{name}_surface"], levels, colors="black", linestyles=lines,
        linewidths=[1.0, 1.8, 1.0],
    )  # fmt: skip
    axis.set(xlim=(-10, 10), ylim=(-10, 10), xlabel="$x_1$", ylabel="$x_2$")
    axis.legend(loc="lower left", fontsize="x-small", ncols=2)


def compare_crescent(results: list[Result]) -> str:
    """Return the Markdown for figure 4."""
    drawn = [r for r in results if r.cell["data"] == "drawn"]
    own = [r.values for r in results if "ours_variance" in r.values]
    parts = ["## The paper and ours", *(compare_own_rows(v) for v in own)]
    if drawn:
        errors = {n: estimate_value(drawn, f"{n}_error") for n in ("supervised", "null")}
        table = markdown_table(
            ["", "error on unlabelled rows"],
            [
                ["IVM, labelled rows alone", f"{errors['supervised']:.4f}"],
                ["null category", f"{errors['null']:.4f}"],
            ],
        )
        parts.append(
            f"On {len(drawn)} other draws of such rows, whose classes are known (± one standard "
            f"error):\n\n{table}"
        )
    return "\n\n".join(parts)


def compare_own_rows(v: dict[str, Any]) -> str:
    """Compare our kernel for the paper's rows with that of an independent implementation."""
    table = markdown_table(
        ["", "independent implementation", "ours"],
        [
            ["θ₂, variance", f"{v['stored_variance']:.3f}", f"{v['ours_variance']:.3f}"],
            [
                "2 θ₁, inverse width",
                f"{v['stored_inverse_width']:.4f}",
                f"{v['ours_inverse_width']:.4f}",
            ],
            ["θ₃, white noise", f"{v['stored_white']:.1e}", f"{v['ours_white']:.1e}"],
            ["bias", "0.3817", f"{v['bias']:.4f}"],
            ["γ", "0.9075", f"{v['missing_rate']:.4f}"],
            [
                "EP log evidence of all 400 rows",
                f"{v['stored_log_evidence']:.2f}",
                f"{v['ours_log_evidence']:.2f}",
            ],
            [
                "with the exponential prior",
                f"{v['stored_penalised']:.2f}",
                f"{v['ours_penalised']:.2f}",
            ],
        ],
    )
    gain = v["ours_penalised"] - v["stored_penalised"]
    verdict = (
        f"Ours is higher by {gain:.2f} with the prior: the same optimum, no worse."
        if gain >= 0
        else f"Ours is lower by {-gain:.2f} with the prior."
    )
    return f"""The paper's own data have 400 rows, 37 of them labelled. The null category is fitted
by assumed-density filtering on {N_ACTIVE_CRESCENT} active rows; its kernel is found by rounds of
select-then-optimise, of which {v["rounds"]} were enough. The likelihood is the step, with an
exponential prior of rate {VARIANCE_RATE:g} on the process variances. {v["negative_sites"]} sites
had a negative precision and were set to zero. The trained result of an independent implementation
comes with the data.

{table}

{verdict} The null region, between the dotted lines, holds
{v["null_in_gap"]:.1%} of the unlabelled rows under the null category, and
{v["supervised_in_gap"]:.1%} under the IVM: the boundary has moved to where there are no
rows, as in the paper's right panel."""


# --- figure 5 -------------------------------------------------------------------------------------


def digit_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the cells: label probability × draw."""
    probabilities = QUICK_PROBABILITIES if quick else PROBABILITIES
    n_seeds, n_active = (N_QUICK_SEEDS, N_QUICK_ACTIVE) if quick else (N_SEEDS, N_ACTIVE)
    return [
        {"probability": p, "replicate": r, "seed": seed, "n_active": n_active}
        for p in probabilities
        for r in range(n_seeds)
    ]


def draw_labels(cell: Cell, target: NDArray[Any]) -> NDArray[Any]:
    """Label each row with the cell's probability; draw again if a class has no label."""
    rng = np.random.default_rng([cell["seed"], cell["replicate"], round(1e5 * cell["probability"])])
    while True:
        seen = rng.random(len(target)) < cell["probability"]
        if len(np.unique(target[seen])) == 2:
            y = target.astype(object)
            y[~seen] = None
            return y


def fit_as_published(X: Array, y: NDArray[Any], n_active: int) -> informative_vector.SitesPosterior:
    """Fit the paper's model to the letter.

    It has no prior on the length-scale and one start, and class shares are not checked.
    """
    seen = np.array([label is not None for label in y])
    codes = np.array([label == 5 for label in y], dtype=np.intp)
    prior, noise = kernel_prior(paper_kernel(X), X), NoiseModel(1.0)
    bias = informative_vector.share_bias(codes, seen)
    result = informative_vector.fit(
        X,
        [informative_vector.family(codes, seen, noise, bias)],
        prior,
        Plan(
            "adf",
            n_active,
            log_prior=informative_vector.exponential_prior(prior, VARIANCE_RATE, keep_others=False),
            noise_variance=STEP,
        ),
    )
    return informative_vector.posterior(result, X, prior, noise, [bias], STEP)


def run_digits(cell: Cell, data_home: DataHome = None) -> dict[str, Any]:
    """Fit all models to one draw of labels; measure the area under the ROC curve on test rows."""
    usps = load_usps_3vs5(data_home)
    X, y = usps.data, draw_labels(cell, usps.target)
    seen = np.array([label is not None for label in y])
    options = {"kernel": paper_kernel(X), **paper_options(cell["n_active"])}
    ivm = fit_quietly(InformativeVectorClassifier(**options), X, y)
    ncnm = fit_quietly(NullCategoryClassifier(inference="adf", n_folds=0, **options), X, y)
    # The SVM takes θ₁ from the IVM, the transductive SVM the higher of the two (section 5.1).
    gamma = [0.5 * model.kernel_.k1.k2.length_scale**-2 for model in (ivm, ncnm)]
    svm = SVC(gamma=gamma[0]).fit(X[seen], usps.target[seen])
    tsvm = fit_quietly(TransductiveSVC(C=1.0, gamma=max(gamma), unlabelled_cost=1.0), X, y)
    published = fit_as_published(X, y, cell["n_active"])
    test, truth = usps.data_test, usps.target_test == 5
    scores = {
        "ivm": ivm.predict_proba(test)[:, 1],
        "ncnm": ncnm.predict_proba(test)[:, 1],
        "svm": svm.decision_function(test),
        "tsvm": tsvm.decision_function(test),
        "published": published.log_proba(test)[:, 1],
        "transductive": ncnm.predict_proba(test, transductive=True)[:, 1],
    }
    return {name: float(roc_auc_score(truth, score)) for name, score in scores.items()} | {
        "labels": int(seen.sum()),
        "length_scale_ivm": float(ivm.kernel_.k1.k2.length_scale),
        "length_scale_ncnm": float(ncnm.kernel_.k1.k2.length_scale),
        "length_scale_published": float(np.exp(published.log_parameters[1])),
        "unlabelled_used": int(ncnm.diagnostics_["unlabelled_used"]),
        "negative_sites": ncnm.diagnostics_["n_negative"],
    }


def draw_digits(results: list[Result], path: Path) -> None:
    """Draw figure 5: area under the ROC curve against the probability of a label."""
    by_probability = dict(sorted(group(results, "probability").items()))
    figure = new_figure(8, 5)
    axis = figure.subplots()
    for i, (name, (line, marker, colour)) in enumerate(STYLES.items()):
        found = [estimate_value(part, name) for part in by_probability.values()]
        axis.errorbar(
            np.array(list(by_probability)) * (1 + 0.015 * (i - 2)),  # sets error bars side by side
            [one.mean for one in found],
            [one.standard_error for one in found],
            linestyle=line, marker=marker, color=colour, capsize=3, markersize=5,
            label=MODELS[name],
        )  # fmt: skip
    axis.set_xscale("log")
    ticks = list(by_probability)
    axis.set_xticks(ticks, [f"{p:g}" for p in ticks])
    axis.minorticks_off()
    axis.set(
        xlabel="probability that a row is labelled",
        ylabel="area under the ROC curve",
        title="USPS 3 against 5: mean and standard error",
    )
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="lower right")
    figure.savefig(path, dpi=120)


def digit_gains(results: list[Result], over: str) -> dict[float, Estimate]:
    """Return by how much the null category is ahead of another model, paired draw by draw."""
    gains = {}
    for p, part in group(results, "probability").items():
        differences = [Result(r.cell, {"gain": r.values["ncnm"] - r.values[over]}) for r in part]
        gains[p] = estimate_value(differences, "gain")
    return gains


def compare_digits(results: list[Result]) -> str:
    """Return the Markdown for figure 5."""
    by_probability = group(results, "probability")
    table = markdown_table(
        ["probability", "labels", *MODELS.values()],
        [
            [
                f"{p:g}",
                f"{estimate_value(part, 'labels').mean:.0f}",
                *(f"{estimate_value(part, name):.4f}" for name in MODELS),
            ]
            for p, part in by_probability.items()
        ],
    )
    over = {name: digit_gains(results, name) for name in ("ivm", "svm", "tsvm")}
    gains = markdown_table(
        ["probability", *(f"over the {MODELS[name]}" for name in over)],
        [[f"{p:g}", *(f"{over[name][p]:+.4f}" for name in over)] for p in by_probability],
    )
    lengths = markdown_table(
        ["probability", "IVM", "null category", "as published, longest", "unlabelled rows used"],
        [
            [
                f"{p:g}",
                f"{estimate_value(part, 'length_scale_ivm'):.1f}",
                f"{estimate_value(part, 'length_scale_ncnm'):.1f}",
                f"{max(r.values['length_scale_published'] for r in part):.1f}",
                f"{sum(r.values['unlabelled_used'] for r in part)} of {len(part)} draws",
            ]
            for p, part in by_probability.items()
        ],
    )
    behind = [
        f"{p:g} ({MODELS[name]}, {gain.mean:+.4f})"
        for name in ("ivm", "svm")
        for p, gain in over[name].items()
        if gain.mean < 0
    ]
    verdict = (
        "At every label probability the null category is ahead of the IVM and of the SVM, even "
        "below 0.025, where the paper's was behind."
        if not behind
        else f"The null category is behind at {', '.join(behind)}."
    )
    lost = [f"{p:g} ({gain.mean:+.4f})" for p, gain in over["tsvm"].items() if gain.mean < 0]
    if lost:
        verdict += f" It is behind the transductive SVM at {', '.join(lost)}."
    n_active = results[0].cell["n_active"]
    n_draws = min(len(part) for part in by_probability.values())
    return f"""## The paper and ours

The table gives the area under the ROC curve on 326 test digits over {n_draws} draws of labels, ±
one standard error. The kernel, the step likelihood and the exponential prior on the process
variances are the paper's, with {n_active} active rows; the SVMs have C = 1 and the paper's choice
of length-scale. The paper gives a picture without numbers: above a label probability of 0.025 its
null category is clearly ahead; below, it is behind both SVMs, sometimes by far.

{table}

How far the null category is ahead, draw by draw:

{gains}

{verdict}

The paper explains its failures by a θ₁ that was sometimes very low: a length-scale that ran away.
The column “as published” shows that model, with one start, no prior on the length-scale and a bias
from the labels. What goes wrong first is the labelling: with few labels, the evidence is highest
where *all* unlabelled rows are on one side of the boundary. A fit here is therefore accepted only
while the share of a class among the unlabelled rows is within the central 95% that the labelled
rows leave for it. Fits start from longer and longer length-scales until one is accepted; the rounds
end before the first fit that is not; and if no start gives an accepted fit, the unlabelled rows are
left out. The length-scale has a log-normal prior of standard deviation one. Length-scales:

{lengths}
"""


FIGURE_4 = Experiment(
    name="ncnm-fig4",
    title="Lawrence & Jordan (2005), figure 4: crescents",
    paper=PAPER,
    claim="With unlabelled rows the boundary finds a region of low density between two crescents.",
    cells=crescent_cells,
    run_cell=run_crescent,
    draw=draw_crescent,
    comparison=compare_crescent,
    needs=STORED,
    version=2,
)
FIGURE_5 = Experiment(
    name="ncnm-fig5",
    title="Lawrence & Jordan (2005), figure 5: handwritten threes and fives",
    paper=PAPER,
    claim="Above a label probability of 0.025 the null category has a larger area under the ROC "
    "curve than the IVM, the SVM and the transductive SVM; below, a length-scale runs away.",
    cells=digit_cells,
    run_cell=run_digits,
    draw=draw_digits,
    comparison=compare_digits,
    needs=("usps/usps_3vs5.npz",),
)
