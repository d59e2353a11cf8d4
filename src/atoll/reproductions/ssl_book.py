"""Chapelle, Schölkopf & Zien (2006), chapter 21: seven sets on which assumptions can be told apart.

Every classifier of atoll and its peers, as they come, on the official splits of 10 and 100 labels;
rows as they come, without scaling. Measured on the unlabelled rows.
"""

from __future__ import annotations

import csv
import io
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from atoll.datasets import SSL_BOOK_LABELS, SSL_BOOK_NAMES, load_ssl_book
from atoll.estimators import CLASSIFIERS
from atoll.inference.chains import SamplingInterrupted
from atoll.plotting.palette import INK, new_figure, tidy
from atoll.reproductions.engine import Cell, DataHome, Experiment, Result
from atoll.reproductions.peers import (
    NEED_GRAPHLEARNING,
    PEERS,
    WITHOUT_PROBABILITIES,
    Array,
    Problem,
    import_graphlearning,
    measure,
    normalised,
    pooled_reliability,
    reliability_counts,
)
from atoll.reproductions.tables import Estimate, estimate, group, markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEFAULT = "atoll"  # the default's name in CLASSIFIERS
MODELS = (DEFAULT, *(name for name in CLASSIFIERS if name != DEFAULT), *PEERS)
SLOW = ("archipelago",)  # its chains take the whole limit; they are tried on the first split alone
N_SPLITS = 12
LATER = range(6, N_SPLITS)  # settings may be chosen on the splits before these
QUICK = {"data": ("BCI",), "labels": (10,), "splits": (0,)}
CELL_LIMIT = 600.0
NOT_KNOWING = "shares"
BLUE = "#0072B2"
LOOKS: dict[str, dict[str, Any]] = {
    "peers": {"marker": "s", "color": "#999999", "markersize": 5},
    "atoll's others": {"marker": "o", "color": BLUE, "markersize": 5, "alpha": 0.8},
    "the labels' shares": {"marker": "_", "color": INK, "markersize": 26},
    f"{DEFAULT}, the default": {"marker": "*", "color": "#D55E00", "markersize": 16},
}
METRICS = {"error": "error, %", "log_loss": "log-loss", "ece": "ECE", "seconds": "seconds"}
PAPER = (
    "O. Chapelle, B. Schölkopf and A. Zien (eds) (2006), *Semi-supervised learning*, MIT Press, "
    "chapter 21."
)
CLAIM = (
    "No method is best on all sets: methods of neighbours win where classes follow a manifold "
    "(Digit1, USPS, COIL), methods of clusters on g241c and g241d, and neither where only a line "
    "tells the classes apart (BCI)."
)


# --- cells ----------------------------------------------------------------------------------------


def book_cells(quick: bool, seed: int) -> list[Cell]:
    """Return the cells: set × labels × split × model; the quick ones are of one split of BCI."""
    names = QUICK["data"] if quick else SSL_BOOK_NAMES
    counts = QUICK["labels"] if quick else SSL_BOOK_LABELS
    splits = QUICK["splits"] if quick else range(N_SPLITS)
    return [
        {"data": name, "labels": n_labels, "split": split, "model": model, "seed": seed}
        for name in names
        for n_labels in counts
        for split in splits
        for model in MODELS
        if model not in SLOW or (split == 0 and not quick)
    ]


def load_problem(name: str, n_labels: int, split: int, data_home: DataHome) -> Problem:
    """Return a set with the labels of one of its official splits."""
    book = load_ssl_book(name, data_home)
    X = book.data.toarray() if sparse.issparse(book.data) else book.data
    y = np.unique(book.target, return_inverse=True)[1].astype(np.int64)
    partial = np.full(len(y), -1)
    known = book.labelled_splits[n_labels][split]
    partial[known] = y[known]
    return Problem(X, y, partial)


def class_scores(model: str, problem: Problem, seed: int) -> tuple[Array, bool]:
    """Return class probabilities of every row, and whether they are more than a choice of class."""
    if model in PEERS:
        return PEERS[model](problem, seed), model not in WITHOUT_PROBABILITIES
    kind = CLASSIFIERS[model]
    settings = {"unlabelled": -1, "random_state": seed}
    known = kind().get_params()
    fitted = kind(**{key: value for key, value in settings.items() if key in known})
    fitted.fit(problem.X, problem.partial)
    if hasattr(fitted, "label_distributions_"):
        return fitted.label_distributions_, True
    if hasattr(fitted, "predict_proba"):
        return fitted.predict_proba(problem.X), True
    places = np.searchsorted(fitted.classes_, fitted.predict(problem.X))
    return np.eye(len(fitted.classes_))[places], False


def run_book(cell: Cell, data_home: DataHome) -> dict[str, Any]:
    """Run a cell: one model on one split. A model without probabilities has its error alone."""
    problem = load_problem(cell["data"], cell["labels"], cell["split"], data_home)
    if cell["model"] in NEED_GRAPHLEARNING:
        import_graphlearning()  # here, so that no fit is charged for it
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", SamplingInterrupted)
        scores, has_probabilities = class_scores(cell["model"], problem, cell["seed"])
    seconds = time.process_time() - began
    hidden = problem.hidden
    p, n_mended = normalised(scores[hidden])
    values: dict[str, Any] = {"error": float(np.mean(p.argmax(axis=1) != problem.y[hidden]))}
    values |= {"log_loss": None, "ece": None, "confidence": None}
    if has_probabilities:
        values |= measure(p, problem.y[hidden])
        values["reliability"] = reliability_counts(p, problem.y[hidden])
    return values | {"mended": n_mended, "seconds": round(seconds, 3)}


# --- tables ---------------------------------------------------------------------------------------


def in_order(found: Iterable[str], order: Iterable[str]) -> list[str]:
    """Return what was found, in the order given."""
    present = set(found)
    return [name for name in order if name in present]


def set_means(results: list[Result], metric: str) -> dict[str, Estimate]:
    """Return the mean over splits for each set that has the metric."""
    return {
        name: estimate(r.values[metric] for r in part)
        for name, part in group(results, "data").items()
        if all(r.values[metric] is not None for r in part)
    }


def mean_over_sets(
    results: list[Result], metric: str, names: list[str], splits: Iterable[int] = range(N_SPLITS)
) -> Estimate | None:
    """Return the mean over sets, with its error from splits; None if a set is missing.

    Splits number alike in all sets but are drawn independently, so the sets' variances add up.
    """
    kept = [r for r in results if r.cell["split"] in splits]
    means = set_means(kept, metric)
    if not names or set(means) != set(names):
        return None
    errors = np.array([means[name].standard_error for name in names])
    value = float(np.mean([means[name].mean for name in names]))
    n_splits = min(means[name].n_cells for name in names)
    return Estimate(value, float(np.sqrt(np.sum(errors**2)) / len(names)), n_splits)


def shown(found: Estimate | None, metric: str, *, spread: bool = False) -> str:
    """Write a mean: errors in per cent, the others to as many digits as matter."""
    if found is None:
        return ""
    scale, digits = {"error": (100, 1), "seconds": (1, 2)}.get(metric, (1, 3))
    scaled = Estimate(scale * found.mean, scale * found.standard_error, found.n_cells)
    return format(scaled, f".{digits}f") if spread else f"{scaled.mean:.{digits}f}"


def metric_table(results: list[Result], metric: str) -> str:
    """Return a Markdown table of one number of labels: models by sets, and means over sets."""
    names = in_order((r.cell["data"] for r in results), SSL_BOOK_NAMES)
    by_model = group(results, "model")
    rows = []
    for model in in_order(by_model, MODELS):
        part = by_model[model]
        means = set_means(part, metric)
        if not means:
            continue
        n_splits = {found.n_cells for found in means.values()}
        splits = f"{min(n_splits)}–{max(n_splits)}" if len(n_splits) > 1 else f"{min(n_splits)}"
        overall = mean_over_sets(part, metric, names)
        later = mean_over_sets(part, metric, names, LATER)
        rows.append(
            [
                f"**{model}**" if model == DEFAULT else model,
                splits,
                *(shown(means.get(name), metric) for name in names),
                shown(overall, metric, spread=True),
                shown(later, metric, spread=True),
            ]
        )
    return markdown_table(["", "splits", *names, "mean", "mean, splits 6–11"], rows)


def best_text(results: list[Result]) -> str:
    """Say for every set who has the lowest error and log-loss, and where the default stands."""
    lines = []
    for name, of_set in group(results, "data").items():
        sentences = []
        for metric in ("error", "log_loss"):
            means = {
                model: set_means(part, metric)[name]
                for model, part in group(of_set, "model").items()
                if name in set_means(part, metric)
            }
            if DEFAULT not in means:
                continue
            ranked = sorted(means, key=lambda model: means[model].mean)
            place = ranked.index(DEFAULT) + 1
            value = shown(means[ranked[0]], metric)
            mine = shown(means[DEFAULT], metric)
            sentences.append(
                f"{METRICS[metric]}: {ranked[0]} {value}; {DEFAULT} {mine}, "
                f"place {place} of {len(ranked)}"
            )
        lines.append(f"- {name}. {'. '.join(sentences)}.")
    return "\n".join(lines)


def compare_book(results: list[Result]) -> str:
    """Return the tables of every metric for both numbers of labels, and who wins where."""
    parts = [
        f"{DEFAULT} is the default. Means over the official splits, after ± a standard error; "
        "our settings may have been chosen on splits 0–5, never on 6–11. Every model runs as it "
        "comes, on rows as they come; SVC and LogisticRegressionCV choose their settings in folds "
        "of the labels. A probability below 1e-6 counts as 1e-6 in the log-loss; seconds are "
        "processor seconds of one thread. 1-NN, Poisson and machines without probabilities have "
        "an error only."
    ]
    for n_labels, part in group(results, "labels").items():
        parts.append(f"## {n_labels} labels")
        for metric, title in METRICS.items():
            parts += [f"### {title[0].upper()}{title[1:]}", metric_table(part, metric)]
        parts += ["### Who wins where", best_text(part)]
    return "\n\n".join(parts)


def summary_csv(results: list[Result]) -> dict[str, str]:
    """Return the tables as one CSV: models × labels × sets and their mean, all and later splits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    numbers = [f"{metric}{end}" for metric in METRICS for end in ("", "_standard_error")]
    writer.writerow(["model", "labels", "splits", "data", "n_splits", *numbers])
    for (model, n_labels), part in group(results, "model", "labels").items():
        everyone = [r.cell["data"] for r in results if r.cell["labels"] == n_labels]
        names = in_order(everyone, SSL_BOOK_NAMES)
        for title, splits in (("all", range(N_SPLITS)), ("6-11", LATER)):
            kept = [r for r in part if r.cell["split"] in splits]
            tables = {metric: set_means(kept, metric) for metric in METRICS}
            for name in (*names, "mean"):
                row = [
                    mean_over_sets(kept, metric, names)
                    if name == "mean"
                    else tables[metric].get(name)
                    for metric in METRICS
                ]
                if row[0] is None:
                    continue
                fields = [x for e in row for x in (_text(e, 0), _text(e, 1))]
                writer.writerow([model, n_labels, title, name, row[0].n_cells, *fields])
    return {"summary.csv": text.getvalue()}


def _text(found: Estimate | None, place: int) -> str:
    return "" if found is None or np.isnan(found[place]) else f"{found[place]:.6g}"


# --- pictures -------------------------------------------------------------------------------------


def draw_book(results: list[Result], path: Path) -> None:
    """Draw error and log-loss by set and the default's reliability, for each number of labels."""
    by_labels = group(results, "labels")
    fig = new_figure(7.2 * len(by_labels), 13.5)
    axes = fig.subplots(3, len(by_labels), squeeze=False)
    for column, (n_labels, part) in enumerate(by_labels.items()):
        draw_metric(axes[0, column], part, "error")
        axes[0, column].set_title(f"{n_labels} labels")
        draw_metric(axes[1, column], part, "log_loss")
        draw_reliability(axes[2, column], part)
    handles, names = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, names, loc="outside upper center", ncols=4, frameon=False)
    fig.savefig(path, format="png", dpi=110)


def draw_metric(ax: Axes, results: list[Result], metric: str) -> None:
    """Draw a metric's mean by set, a marker a model, and name the lowest below the set."""
    names = in_order((r.cell["data"] for r in results), SSL_BOOK_NAMES)
    means = {model: set_means(part, metric) for model, part in group(results, "model").items()}
    for kind, models in _kinds(means).items():
        points = [
            (i + 0.055 * (k % 9 - 4) * (len(models) > 1), means[model][name].mean)
            for k, model in enumerate(models)
            for i, name in enumerate(names)
            if name in means[model]
        ]
        if points:
            ax.plot(*zip(*points), linestyle="none", label=kind, **LOOKS[kind])
    lowest = [
        min((of[name].mean, model) for model, of in means.items() if name in of)[1]
        for name in names
        if any(name in of for of in means.values())
    ]
    ends = zip(names, ("\n", "\n\n") * len(names), lowest)  # in two rows: some are long
    ax.set_xticks(range(len(names)), ["".join(end) for end in ends])
    ax.tick_params(axis="x", labelsize=8)
    if metric == "log_loss":
        ax.set_ylim(0, 2)  # what is worse is off the picture, but in the table
        ax.axhline(np.log(2), color=INK, linewidth=0.8, linestyle=":")
        ax.set_ylabel("log-loss (dotted: a coin; cut at 2)")
    else:
        ax.set_ylim(0, None)
        ax.set_ylabel("error")
    ax.set_xlabel("below each set, who has the lowest")
    tidy(ax)


def _kinds(found: Iterable[str]) -> dict[str, list[str]]:
    """Return the models by kind: peers first, the default last and so on top.

    A classifier of ours with other settings has a name that begins with its own and a comma.
    """
    models = sorted(found)
    is_ours = {model: model.partition(",")[0] in CLASSIFIERS for model in models}
    peers = [model for model in models if not is_ours[model] and model != NOT_KNOWING]
    ours = [model for model in models if is_ours[model] and model != DEFAULT]
    rest = {"the labels' shares": NOT_KNOWING, f"{DEFAULT}, the default": DEFAULT}
    named = {kind: [model] for kind, model in rest.items() if model in models}
    return {"peers": peers, "atoll's others": ours} | named


def draw_reliability(ax: Axes, results: list[Result]) -> None:
    """Draw the default's reliability over all sets and splits, with its band on the diagonal."""
    found = [r.values for r in results if r.cell["model"] == DEFAULT and "reliability" in r.values]
    ax.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle="--")
    if found:
        counts = np.array([values["reliability"] for values in found])
        curve = pooled_reliability(counts, np.random.default_rng(0))
        c = curve.confidence
        ax.fill_between(c, c + curve.low, c + curve.high, color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(c, curve.accuracy, "o-", color=BLUE, markersize=5)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel(f"probability of the predicted class, {DEFAULT}")
    ax.set_ylabel("share predicted right; band: 95% by chance")
    tidy(ax)


BOOK = Experiment(
    name="ssl-book",
    title="Seven sets of the SSL book: every classifier and its peers",
    paper=PAPER,
    claim=CLAIM,
    cells=book_cells,
    run_cell=run_book,
    draw=draw_book,
    comparison=compare_book,
    more_files=summary_csv,
    cell_limit=CELL_LIMIT,
)
