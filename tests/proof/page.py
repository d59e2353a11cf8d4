"""Tables and pictures of the proofs, for the documentation, from what has been run.

`ranks.csv` holds every rank, one character each: the rank in base 36, by the number of the
simulation, "." where it was not run. All else about calibration follows from it.
"""

from __future__ import annotations

import csv
import json

import numpy as np
from scipy import stats

from atoll.core.files import atomic_path
from proof.ranks import uniformity

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
ROWS = "number of rows"  # named beside the quantities
N_DRAWS = 15
LARGE = 25  # rows, from which on a data set counts as a large one
CONFIDENCE = 0.99


# Every rank ---------------------------------------------------------------------------------------


def write_ranks(journal, file):
    """Write the ranks of a journal's lines; two characters of base 36 for the number of rows."""
    by_case = {}
    for line in journal:
        by_case.setdefault(line["case"], {})[line["number"]] = line
    with atomic_path(file) as temporary, open(temporary, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["case", "quantity", "ranks"])
        for case, lines in by_case.items():
            numbers = range(max(lines) + 1)
            sizes = [f"{lines[i]['n']:02d}" if i in lines else ".." for i in numbers]
            writer.writerow([case, ROWS, "".join(sizes)])
            for what in next(iter(lines.values()))["ranks"]:
                ranks = [DIGITS[lines[i]["ranks"][what]] if i in lines else "." for i in numbers]
                writer.writerow([case, what, "".join(ranks)])


def read_ranks(file):
    """Return a journal's lines, as far as ranks tell."""
    lines = {}
    if not file.exists():
        return []
    with open(file, newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            case, what, text = row["case"], row["quantity"], row["ranks"]
            if what == ROWS:
                for i in range(len(text) // 2):
                    if text[2 * i] != ".":
                        n = int(text[2 * i : 2 * i + 2])
                        lines[case, i] = {"case": case, "number": i, "n": n, "ranks": {}}
                continue
            for i, digit in enumerate(text):
                if digit != ".":
                    lines[case, i]["ranks"][what] = DIGITS.index(digit)
    return list(lines.values())


def ranks_by_quantity(journal):
    """case -> quantity -> (sizes (N,), ranks (N,))."""
    found = {}
    for line in journal:
        of_case = found.setdefault(line["case"], {})
        for what, rank in line["ranks"].items():
            sizes, ranks = of_case.setdefault(what, ([], []))
            sizes.append(line["n"])
            ranks.append(rank)
    return {
        case: {what: tuple(map(np.array, pair)) for what, pair in of_case.items()}
        for case, of_case in found.items()
    }


# Tables -------------------------------------------------------------------------------------------


def calibration_rows(journal, cases):
    """A row of the table for each case: chi-square p-values, and z-scores of place and width."""
    rows = []
    for case, quantities in ranks_by_quantity(journal).items():
        tested = {what: uniformity(ranks, N_DRAWS) for what, (_, ranks) in quantities.items()}
        large = {
            what: uniformity(ranks[sizes >= LARGE], N_DRAWS)[0]
            for what, (sizes, ranks) in quantities.items()
        }
        sizes, _ = next(iter(quantities.values()))
        worst = min(tested, key=lambda what: tested[what][0])
        smallest = min(1.0, len(tested) * tested[worst][0])
        of_large = min(1.0, len(large) * min(large.values()))
        rows.append(
            {
                "posterior": cases[case].about,
                "exact": "yes" if cases[case].exact else "no",
                "simulations": len(sizes),
                "rows": f"{sizes.min()} to {sizes.max()}",
                "quantities": len(tested),
                "smallest p": f"{smallest:.2g}",
                "of": worst,
                "largest place": f"{max((t[1] for t in tested.values()), key=abs):+.1f}",
                "largest width": f"{max((t[2] for t in tested.values()), key=abs):+.1f}",
                f"smallest p from {LARGE} rows": f"{of_large:.2g}",
            }
        )
    return rows


def joint_rows(journal):
    rows = []
    for line in journal:
        p, name = min(zip(line["p"], line["names"]))
        rows.append(
            {
                "move": line["case"],
                "rows": line["n"],
                "statistics": len(line["p"]),
                "smallest p, adjusted": f"{min(1.0, p * len(line['p'])):.2g}",
                "of": name,
            }
        )
    return rows


def referee_rows(journal):
    rows = []
    for line in sorted(journal, key=lambda line: line["number"]):
        ours, theirs, error = (np.array(line[k]) for k in ("ours", "theirs", "error"))
        scores, is_p = (
            (ours - theirs) / error,
            np.array([s.startswith("P(") for s in line["names"]]),
        )
        of_p = np.abs(ours - theirs)[is_p]
        rows.append(
            {
                "model": line["case"],
                "rows": line["n"],
                "comparisons": len(scores),
                "largest score": f"{np.abs(scores).max():.2f}",
                "bound": f"{line['bound']:.2f}",
                "root mean square": f"{np.sqrt(np.mean(scores**2)):.2f}",
                "largest difference of a probability": f"{of_p.max():.4f}",
                "smallest ESS, ours": f"{min(line['ess'][0]):.0f}",
                "smallest ESS, NUTS": f"{min(line['ess'][1]):.0f}",
            }
        )
    return rows


def write_table(rows, file):
    with atomic_path(file) as temporary, open(temporary, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


# Pictures -----------------------------------------------------------------------------------------


def save_small(figure, file, dpi):
    """Write a picture in 48 colours: a fifth of its size."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(48)
    with atomic_path(file) as temporary, open(temporary, "wb") as out:
        picture.save(out, format="png", optimize=True)


def draw_ranks(journal, cases, file):
    """For each case the distribution of its ranks less the uniform one, a line a quantity.

    In units of 1/√simulations, so that cases can be compared. The band holds a whole line with a
    chance of 99% (Dvoretzky, Kiefer, Wolfowitz and Massart).
    """
    from matplotlib.figure import Figure

    found = ranks_by_quantity(journal)
    n_columns = 5
    n_rows = -(-len(found) // n_columns)
    figure = Figure(figsize=(11, 1.75 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False).ravel()
    band = np.sqrt(0.5 * np.log(2.0 / (1.0 - CONFIDENCE)))
    levels = np.arange(N_DRAWS + 2) / (N_DRAWS + 1)
    for ax, (case, quantities) in zip(axes, found.items()):
        for _, ranks in quantities.values():
            counts = np.bincount(ranks, minlength=N_DRAWS + 1)
            away = np.append(0.0, np.cumsum(counts)) / len(ranks) - levels
            ax.plot(levels, np.sqrt(len(ranks)) * away, lw=0.7)
        ax.fill_between([0, 1], -band, band, color="0.88", zorder=0)
        ax.set_title(f"{case} ({len(ranks)})", fontsize=7.5, color="0.15")
        ax.tick_params(labelsize=6)
    for ax in axes[len(found) :]:
        ax.set_visible(False)
    axes[0].set_ylim(-2.2, 2.2)
    figure.supxlabel("rank of the truth, as a share", fontsize=8)
    figure.supylabel("(share of simulations below − uniform share) · √simulations", fontsize=8)
    save_small(figure, file, dpi=75)


def draw_scores(journal, file):
    """Scores of all comparisons with NUTS, beside the normal curve they would follow."""
    from matplotlib.figure import Figure

    scores = np.concatenate(
        [
            (np.array(line["ours"]) - np.array(line["theirs"])) / np.array(line["error"])
            for line in journal
        ]
    )
    figure = Figure(figsize=(5, 2.6), layout="constrained")
    ax = figure.subplots()
    ax.hist(scores, bins=np.linspace(-6, 6, 61), density=True, color="0.75")
    x = np.linspace(-6, 6, 241)
    ax.plot(x, stats.norm.pdf(x), lw=1.0, color="C0")
    ax.set_xlabel("ours less NUTS's, in standard errors", fontsize=8)
    ax.set_yticks([])
    ax.tick_params(labelsize=7)
    save_small(figure, file, dpi=90)


# All of it ----------------------------------------------------------------------------------------


def read_lines(file):
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def write_lines(lines, file):
    with atomic_path(file) as temporary, open(temporary, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def write(state, out):
    """Write ranks, tables and pictures to `out` from the journals in `state` and what is there."""
    from proof.run import cases, read_journal

    out.mkdir(parents=True, exist_ok=True)
    known = {}
    for line in [*read_ranks(out / "ranks.csv"), *read_journal(state / "sbc.jsonl")]:
        known[line["case"], line["number"]] = line
    order = {name: i for i, name in enumerate(cases())}
    journal = sorted(
        (line for line in known.values() if line["case"] in order),
        key=lambda line: (order[line["case"]], line["number"]),
    )
    write_ranks(journal, out / "ranks.csv")
    write_table(calibration_rows(journal, cases()), out / "calibration.csv")
    draw_ranks(journal, cases(), out / "ranks.png")
    for name, table in (("geweke", joint_rows), ("referees", referee_rows)):
        merged = {}
        for line in [*read_lines(out / f"{name}.jsonl"), *read_journal(state / f"{name}.jsonl")]:
            merged[line["case"], line["number"]] = line
        if merged:
            lines = list(merged.values())
            write_lines(lines, out / f"{name}.jsonl")
            write_table(table(lines), out / f"{name}.csv")
            if name == "referees":
                draw_scores(lines, out / "referees.png")
