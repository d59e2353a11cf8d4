"""Tables and pictures of bench_everyone.py, also between the marks of two pages in docs/."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path

import numpy as np

from atoll.datasets import SSL_BOOK_NAMES
from atoll.plotting.palette import GRID, INK, class_colours, class_markers, new_figure, tidy
from atoll.reproductions.engine import Result
from atoll.reproductions.ssl_book import LATER, draw_book
from atoll.reproductions.tables import estimate, markdown_table

DEFAULT = "atoll"
TWO = ("error", "log_loss")
METRICS = {"error": "error", "log_loss": "log-loss", "brier": "Brier", "ece": "ECE"}
DOCS = Path(__file__).parents[1] / "docs"
SETS = ("pin3", "pin4", "pin5", "moons", "wine", "digits35", "digits", "cancer", *SSL_BOOK_NAMES)
TICKS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 3)
MARK = "<!-- {}: {} -->"
GROUPS = {
    "leaderboard": ("leaderboard", None, "Leaderboard"),
    "ssl-book-10": ("ssl-book", 10, "SSL book, 10 labels"),
    "ssl-book-100": ("ssl-book", 100, "SSL book, 100 labels"),
}


class Table:
    """The measured cells of one group, by model.

    later : the same for splits on which nothing was chosen, where there are such
    """

    def __init__(self, rows, part, labels, draws=None):
        chosen = [
            r
            for r in rows
            if r["part"] == part
            and (labels is None or r["labels"] == labels)
            and (draws is None or r["draw"] in draws)
        ]
        mine = {row["draw"] for row in chosen if row["model"] == DEFAULT}
        has_later = part == "ssl-book" and draws is None and not mine <= set(LATER)
        self.later = Table(chosen, part, labels, LATER) if has_later else None
        self.cells = defaultdict(dict)
        self.lost = defaultdict(list)
        for row in chosen:
            place = (row["set"], row["labels"], row["draw"])
            if "error" in row:
                self.cells[row["model"]][place] = row
            else:
                self.lost[row["model"]].append(place)
        # Draws that the default has not been through would not compare.
        for model, cells in self.cells.items():
            shared = {place: row for place, row in cells.items() if place in self.cells[DEFAULT]}
            self.cells[model] = shared
        self.problems = sorted({(r["set"], r["labels"]) for r in chosen})
        self.found = {}  # means of problems, which several tables ask for

    def mean(self, model, metric):
        """The mean over problems of the mean over draws; None where the metric is missing.

        A model without some of the default's problems or draws is set against it on the others: the
        default's mean over all, less the mean difference. None if it lacks more than a quarter of
        the problems.
        """
        by_problem = defaultdict(list)
        for (data, labels, _), row in self.cells[model].items():
            by_problem[data, labels].append(row[metric])
        n_missing = self.n_missing(model)
        if n_missing > len(self.problems) / 4 or None in chain(*by_problem.values()):
            return None
        lacks_some = len(self.cells[model]) < len(self.cells[DEFAULT])
        if lacks_some and metric in METRICS:
            return self.mean(DEFAULT, metric) - self.against_default(model, metric)[0].mean
        return float(np.mean([np.mean(values) for values in by_problem.values()]))

    def means_of(self, problem, metric):
        """Each model's mean on a problem, from the default's by the draws that both have."""
        if (problem, metric) not in self.found:
            self.found[problem, metric] = self._means_of(problem, metric)
        return self.found[problem, metric]

    def _means_of(self, problem, metric):
        mine = {p: r[metric] for p, r in self.cells[DEFAULT].items() if p[:2] == problem}
        if not mine or None in mine.values():
            return {}
        found = {}
        for model, cells in self.cells.items():
            shared = {p: cells[p][metric] for p in mine if p in cells}
            if shared and None not in shared.values():
                differences = [value - mine[place] for place, value in shared.items()]
                found[model] = float(np.mean(list(mine.values())) + np.mean(differences))
        return found

    def n_missing(self, model):
        """How many problems the model has no answer to."""
        return len(set(self.problems) - {place[:2] for place in self.cells[model]})

    def draws(self, model):
        return len({draw for _, _, draw in self.cells[model]})

    def splits(self, model):
        """How many splits of a set the model has been through, from the fewest to the most."""
        counts = Counter(place[:2] for place in self.cells[model]).values()
        return f"{min(counts)}–{max(counts)}" if min(counts) < max(counts) else f"{max(counts)}"

    def mean_on(self, model, name, metric):
        """The mean over the problems of one set; None where the model lacks one of them."""
        problems = [problem for problem in self.problems if problem[0] == name]
        means = [self.means_of(problem, metric).get(model) for problem in problems]
        return None if None in means or not means else float(np.mean(means))

    def against_default(self, model, metric):
        """The default less the model on the same draws, and how many problems each wins."""
        mine, other = self.cells[DEFAULT], self.cells[model]
        shared = [p for p in other if p in mine and None not in (mine[p][metric], other[p][metric])]
        if not shared or model == DEFAULT:
            return None
        by_problem = defaultdict(list)
        for place in shared:
            by_problem[place[:2]].append(mine[place][metric] - other[place][metric])
        differences = [float(np.mean(values)) for values in by_problem.values()]
        won = sum(d < -1e-12 for d in differences)
        lost = sum(d > 1e-12 for d in differences)
        return estimate(differences), won, lost, len(differences)

    def order(self, first="log_loss"):
        """Models by a metric; those without it by error, last."""

        def place(model):
            mean, error = self.mean(model, first), self.mean(model, "error")
            return (mean is None, mean or 0.0, error is None, error or 0.0)

        return sorted((model for model in self.cells if self.cells[model]), key=place)


def number(value, digits=3):
    return "" if value is None else f"{value:.{digits}f}".replace("0.", ".", 1)


def main_table(table, ours):
    """Means of every classifier; on the SSL book also those of the later splits."""
    rows, later = [], table.later
    for model in table.order():
        found = [table.mean(model, metric) for metric in METRICS]
        if found[0] is None:  # on few problems: see the paired table
            continue
        cost = [table.mean(model, "seconds"), table.mean(model, "megabytes")]
        name = f"**{model}**" if model in ours else model
        rows.append([
            name + " †" * (table.n_missing(model) > 0), table.draws(model), *map(number, found),
            "" if cost[0] is None else f"{cost[0]:.3f}",
            "" if cost[1] is None else f"{cost[1]:.0f}",
            *([] if later is None else [number(later.mean(model, m)) for m in TWO]),
        ])  # fmt: skip
    more = [] if later is None else [f"{METRICS[m]}, 6–11" for m in TWO]
    return markdown_table(["", "draws", *METRICS.values(), "seconds", "MB", *more], rows)


def sets_table(table, ours, metric):
    """Means by set: every classifier that is on at least one. On the SSL book also the later's."""
    rows, found = [], {problem[0] for problem in table.problems}
    names = [name for name in SETS if name in found]
    both = [table] if table.later is None else [table, table.later]
    for model in table.order(metric):
        means = [table.mean_on(model, name, metric) for name in names]
        if all(mean is None for mean in means):
            continue
        overall = [None if None in means else t.mean(model, metric) for t in both]
        name = f"**{model}**" if model in ours else model
        rows.append([name, table.splits(model), *map(number, [*means, *overall])])
    ends = ["mean", "mean, 6–11"][: len(both)]
    return markdown_table(["", "draws", *names, *ends], rows)


def paired_table(table, ours):
    rows = []
    for model in table.order():
        texts = [f"**{model}**" if model in ours else model]
        for metric in TWO:
            found = table.against_default(model, metric)
            if found is None:
                texts += ["", ""]
                continue
            difference, won, lost, n = found
            all_of_them = n == len(table.problems)
            texts += [f"{difference:+.3f}", f"{won} : {lost}" + ("" if all_of_them else f" of {n}")]
        if any(texts[1:]):
            rows.append(texts)
    return markdown_table(
        ["", "error, default less it", "won : lost", "log-loss, default less it", "won : lost"],
        rows,
    )


def winners_table(table, labels=None):
    """For every problem who has the lowest error and log-loss, and the default's."""
    rows = []
    for problem in table.problems:
        texts = [problem[0], problem[1]]
        for metric in TWO:
            means = table.means_of(problem, metric)
            if DEFAULT not in means:
                continue
            best = min(means, key=means.get)
            place = 1 + sum(value < means[DEFAULT] - 1e-12 for value in means.values())
            texts += [f"{best} {number(means[best])}",
                      f"{number(means[DEFAULT])}, place {place} of {len(means)}"]  # fmt: skip
        rows.append(texts)
    return markdown_table(
        ["set", "labels", "lowest error", "the default's", "lowest log-loss", "the default's"], rows
    )


def lost_text(tables):
    lines = []
    for name, table in tables.items():
        for model, places in table.lost.items():
            fits = f"{len(places)} fit{'s' * (len(places) > 1)}"
            lines.append(f"- {GROUPS[name][2]}: {model}, {fits}")
    return "\n".join(lines) or "None."


# --- pictures -------------------------------------------------------------------------------------


def draw_errors(tables, ours, path):
    """A panel a group, one below the other, with names in a column that lines lead to."""
    height = 4.6
    figure = new_figure(7.4, height * len(tables))
    figure.set_layout_engine("none")
    for i, (name, table) in enumerate(tables.items()):
        bottom = (len(tables) - 1 - i + 0.15) / len(tables)
        axis = figure.add_axes((0.1, bottom, 0.55, 0.75 / len(tables)))
        points = []
        for model in table.order():
            x, y = table.mean(model, "error"), table.mean(model, "log_loss")
            if x is not None and y is not None and model != "shares":
                points.append((x, min(y, 3.0), model))
        for x, y, model in points:
            colour = "#0072B2" if model in ours else "#777777"
            axis.plot(x, y, "*" if model == DEFAULT else "o" if model in ours else "s",
                      color=colour, markersize=15 if model == DEFAULT else 6)  # fmt: skip
        axis.set(xlabel="error", title=GROUPS[name][2], yscale="log")
        axis.set_ylabel("log-loss" + (" (cut at 3)" * any(y == 3.0 for _, y, _ in points)))
        low, high = (end([y for _, y, _ in points]) for end in (min, max))
        ticks = [t for t in TICKS if low / 1.3 < t < high * 1.3]
        axis.set_yticks(ticks, [f"{t:g}" for t in ticks])
        axis.minorticks_off()
        axis.grid(color=GRID, linewidth=0.5)
        tidy(axis)
        name_points(axis, points, ours)
    figure.savefig(path, dpi=120)


def name_points(axis, points, ours):
    """Names to the right, as high as their points where there is room, each with a line to it."""
    ordered = sorted(points, key=lambda p: p[1])
    wanted = [axis.transAxes.inverted().transform(axis.transData.transform(p[:2]))[1]
              for p in ordered]  # fmt: skip
    for (x, y, model), height in zip(ordered, spread(wanted, 0.046)):
        is_ours = model in ours
        axis.annotate(
            model, (x, y), (1.06, height), textcoords="axes fraction", va="center", fontsize=9,
            color=INK if is_ours else "#555555", fontweight="bold" if is_ours else "normal",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.6, "shrinkB": 4,
                        "relpos": (0.0, 0.5)},
        )  # fmt: skip


def spread(heights, gap):
    """Rising heights as near to those given as a gap between any two allows (isotonic mean)."""
    blocks = []  # sums and counts of heights less the gaps below them
    for i, height in enumerate(heights):
        blocks.append([height - i * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    means = [total / count for total, count in blocks for _ in range(count)]
    heights = [mean + i * gap for i, mean in enumerate(means)]
    for i in range(len(heights)):  # none below the axis, none above the picture
        heights[i] = max(heights[i], heights[i - 1] + gap if i else 0.0)
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], heights[i + 1] - gap if i + 1 < len(heights) else 1.08)
    return heights


def draw_cost(rows, ours, path):
    cost = [r for r in rows if r["part"] == "cost" and "seconds" in r]
    models = sorted(dict.fromkeys(r["model"] for r in cost), key=lambda model: model not in ours)
    figure = new_figure(8.4, 4.4)
    axis = figure.subplots()
    for model, colour, marker in zip(
        models, class_colours(len(models)), class_markers(len(models))
    ):
        mine = sorted((r["rows"], max(r["seconds"], 1e-3)) for r in cost if r["model"] == model)
        axis.plot(*zip(*mine), marker=marker, color=colour, markersize=5, label=model,
                  linewidth=2 if model in ours else 1,
                  linestyle="-" if model in ours else "--")  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel="rows", ylabel="processor seconds")
    axis.grid(color=GRID, linewidth=0.5)
    tidy(axis)
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    figure.savefig(path, dpi=100)


def cost_table(rows):
    """Seconds and error by size, and the memory of the largest, each fit of it in a new process."""
    cost = [r for r in rows if r["part"] == "cost"]
    sizes = sorted({r["rows"] for r in cost})
    lines = []
    for model in dict.fromkeys(r["model"] for r in cost):
        mine = {r["rows"]: r for r in cost if r["model"] == model}
        memory = mine.get(sizes[-1], {}).get("megabytes")
        lines.append([
            model, *(_cost_text(mine.get(n)) for n in sizes),
            "" if memory is None else f"{memory:.0f} MB",
        ])  # fmt: skip
    return markdown_table(["", *(f"{n:,} rows" for n in sizes), f"memory, {sizes[-1]:,}"], lines)


def _cost_text(row):
    if row is None:
        return ""
    if "seconds" not in row:
        return "stopped" if "stopped" in row else "refused"
    return f"{row['seconds']:.2g} s, {100 * row['error']:.1f} %"


def nuts_table(rows):
    mine = defaultdict(list)
    for row in rows:
        if row["part"] == "nuts" and "error" in row:
            mine[row["model"]].append(row)
    return markdown_table(
        ["", "draws", *METRICS.values(), "seconds"],
        [[model, len(found), *(f"{estimate(r[m] for r in found)}" for m in METRICS),
          f"{np.mean([r['seconds'] for r in found]):.2g}"]
         for model, found in mine.items()],
    )  # fmt: skip


# --- all of it ------------------------------------------------------------------------------------


def show(rows, ours, out):
    """Print every table, and put them into docs/peers.md where it has their marks."""
    tables = {
        name: Table(rows, part, labels)
        for name, (part, labels, _) in GROUPS.items()
        if any(r["part"] == part and r.get("labels") == (labels or r["labels"]) for r in rows)
    }
    tables = {name: table for name, table in tables.items() if DEFAULT in table.cells}
    texts = {}
    for name, table in tables.items():
        texts[name] = main_table(table, ours)
        texts[f"{name}-paired"] = paired_table(table, ours)
        texts[f"{name}-winners"] = winners_table(table)
        texts |= {f"{name}-{m}": sets_table(table, ours, m) for m in TWO}
    texts["lost"] = lost_text(tables)
    if any(r["part"] == "cost" for r in rows):
        texts["cost"] = cost_table(rows)
    if any(r["part"] == "nuts" for r in rows):
        texts["nuts"] = nuts_table(rows)
    for name, text in texts.items():
        print(f"## {name}\n\n{text}\n")
    write_pages(texts)
    if tables:
        draw_errors(tables, ours, out / "peers_error.png")
    book = [table for name, table in tables.items() if name.startswith("ssl-book")]
    if book:
        draw_book(book_results(book), out / "ssl_book.png")
    if "cost" in texts:
        draw_cost(rows, ours, out / "peers_cost.png")
    write_rows(rows, out / "peers.csv")


def book_results(tables):
    """What the SSL book's own picture shows: the default's fits, and the others' means as above."""
    results = []
    for table in tables:
        for place, row in table.cells[DEFAULT].items():
            cell = dict(zip(("data", "labels", "split"), place), model=DEFAULT)
            results.append(Result(cell, dict(row)))
        for data, labels in table.problems:
            means = {metric: table.means_of((data, labels), metric) for metric in TWO}
            for model in set(means["error"]) - {DEFAULT}:
                cell = {"data": data, "labels": labels, "split": 0, "model": model}
                results.append(Result(cell, {m: means[m].get(model) for m in TWO}))
    return results


def write_pages(texts):
    for page in (DOCS / "peers.md", DOCS / "ssl-book.md"):
        if not page.is_file():
            continue
        text = page.read_text(encoding="utf-8")
        for name, table in texts.items():
            begin, end = MARK.format("begin", name), MARK.format("end", name)
            pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
            text = pattern.sub(lambda _, b=begin, t=table, e=end: f"{b}\n\n{t}\n\n{e}", text)
        page.write_text(text, encoding="utf-8")


def write_rows(rows, path):
    names = ["part", "set", "labels", "draw", "rows", "model", *METRICS, "seconds", "megabytes"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
