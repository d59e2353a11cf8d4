"""Tables and the picture of bench_active.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from _active_tasks import DEVELOPMENT, REPORTED
from scipy.special import expit

from atoll.active.stopping import LEAST_AUDITS
from atoll.diagnostics.wrong_rows import error_belief

CONFIDENCE = 0.95
TARGETS = (0.05, 0.10)
CURVE = 24  # labels of a curve, one at a time


def path_of(out, part):
    return Path(out) / f"active_{part}.jsonl"


def read_runs(path):
    """Runs by their tasks; of two of the same task, the later one."""
    if not Path(path).is_file():
        return {}
    records = map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())
    return {json.dumps(r["task"], sort_keys=True): (r["task"], r["row"]) for r in records}


def all_runs(out):
    """Every run of every part; long runs of the default also serve as its curves."""
    found = []
    for path in sorted(Path(out).glob("active_*.jsonl")):
        for task, row in read_runs(path).values():
            found.append((task, row))
            if task["batch"] == 1 and task["labels"] > CURVE and task["start"] == "one":
                upto = [c for c in row["counts"] if c <= CURVE]
                short = {"counts": upto, "errors": row["errors"][: len(upto)]}
                found.append(({**task, "labels": CURVE}, short))
    return found


# --- areas ----------------------------------------------------------------------------------------


def areas(runs, *, start, batch, labels, estimator):
    """Rule -> set -> seed -> mean error after the first labels."""
    out = {}
    for task, row in runs:
        if (task["start"], task["batch"], task["labels"], task["estimator"]) != (
            start, batch, labels, estimator,
        ):  # fmt: skip
            continue
        errors = row["errors"][1:] if start != "none" else row["errors"]
        rule = out.setdefault(task["strategy"], {})
        rule.setdefault(task["set"], {})[task["seed"]] = float(np.mean(errors))
    return out


def against_random(found, rule):
    """Of every set: ratio of areas to random rows, and their difference in standard errors."""
    out = {}
    for name, ours in found[rule].items():
        theirs = found["random"].get(name, {})
        seeds = sorted(set(ours) & set(theirs))
        if not seeds:
            continue
        a, b = np.array([ours[s] for s in seeds]), np.array([theirs[s] for s in seeds])
        apart = a - b
        se = apart.std(ddof=1) / np.sqrt(len(seeds)) if len(seeds) > 1 else np.nan
        z = apart.mean() / se if se > 0 else 0.0
        out[name] = (a.mean() / b.mean(), z, len(seeds), a.mean())
    return out


def print_ratios(found, title):
    """A table of rules: mean ratio, worst set, and every set's ratio."""
    ratios = {rule: against_random(found, rule) for rule in found if rule != "random"}
    sets = [name for name in REPORTED + DEVELOPMENT if all(name in r for r in ratios.values())]
    if not sets:
        return

    def mean(rule):
        return np.exp(np.mean([np.log(max(ratios[rule][name][0], 1e-3)) for name in sets]))

    seeds = sorted({ratios[rule][name][2] for rule in ratios for name in sets})
    many = f"{seeds[0]} seeds" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    print(f"\n**{title}; {many}**\n")
    print("| rule | mean | worst set | " + " | ".join(sets) + " |")
    print("|" + " --- |" * (3 + len(sets)))
    for rule in sorted(ratios, key=mean):
        each = ratios[rule]
        worst = max(sets, key=lambda name: each[name][0])
        cells = [f"{each[n][0]:.2f}{'*' * int(each[n][1] > 2)}" for n in sets]
        print(f"| {rule} | {mean(rule):.3f} | {each[worst][0]:.2f} ({worst}) | "
              f"{' | '.join(cells)} |")  # fmt: skip
    errors = [np.mean(list(found["random"][n].values())) for n in sets]
    print("| *random: mean error* | | | " + " | ".join(f"{100 * e:.1f} %" for e in errors) + " |")


def of_seeds(found, n):
    """The same of the first n seeds alone."""
    return {
        rule: {name: {i: v for i, v in of_seed.items() if i < n} for name, of_seed in sets.items()}
        for rule, sets in found.items()
    }


def print_comparison(found, title, many=10):
    """Rules with all seeds in one table, and all rules on the seeds and sets that all have."""
    if "random" not in found:
        return
    most = {rule: max(len(of) for of in sets.values()) for rule, sets in found.items()}
    whole = {rule: sets for rule, sets in found.items() if most[rule] >= many}
    if len(whole) > 1:
        print_ratios(whole, title)
    few = min(most.values())
    if len(whole) < len(found):
        print_ratios(of_seeds(found, few), f"{title}, all rules")


# --- the estimate of the error --------------------------------------------------------------------


def belief_at(check, prior=None):
    """What is believed of the error at a checkpoint; with another prior than the library's."""
    steps, counts = check["doubts"]
    q = np.repeat(expit(np.array(steps) / 10.0), counts)
    audits = np.array(check["audits"]).reshape(-1, 2)
    more = {} if prior is None else {"prior": prior}
    return error_belief(q, audits[:, 0], audits[:, 1], **more)


def checkpoints(runs, estimator):
    for task, row in runs:
        if task.get("checks") and task["estimator"] == estimator and task["labels"] > CURVE:
            for check in row.get("checks", []):
                yield task, check


def print_coverage(runs, estimator, prior=None):
    """How often the truth is at most the limit, and how wide that is."""
    seen = [(t, c, belief_at(c, prior).upper(CONFIDENCE)) for t, c in checkpoints(runs, estimator)]
    if not seen:
        return
    print(f"\n**Upper limit of the error at {CONFIDENCE:.0%}, every five labels**\n")
    print("| | checkpoints | truth at most the limit | mean error | mean limit | by audits alone: "
          "holds | mean limit |")  # fmt: skip
    print("|" + " --- |" * 7)

    def line(name, some):
        held = np.mean([c["error"] <= u + 1e-9 for _, c, u in some])
        alone = np.mean([c["error"] <= c["alone"] + 1e-9 for _, c, _ in some])
        means = [100 * np.mean(v) for v in ([c["error"] for _, c, _ in some],
                 [u for *_, u in some], [c["alone"] for _, c, _ in some])]  # fmt: skip
        print(f"| {name} | {len(some)} | {held:.3f} | {means[0]:.1f} % | {means[1]:.1f} % | "
              f"{alone:.3f} | {means[2]:.1f} % |")  # fmt: skip

    line("**all**", seen)
    for low, high in ((0, 2), (3, 5), (6, 20)):
        some = [s for s in seen if low <= len(s[1]["audits"]) <= high]
        if some:
            line(f"{low} to {high} audits", some)
    for name in dict.fromkeys(t["set"] for t, _, _ in seen):
        line(name, [s for s in seen if s[0]["set"] == name])


def stops(runs, estimator, prior=None):
    """First advice to stop of every run and target: [(set, target, labels, true error)]."""
    first = {}
    for task, check in checkpoints(runs, estimator):
        for target in TARGETS:
            key = (json.dumps(task, sort_keys=True), target)
            if key in first or len(check["audits"]) < LEAST_AUDITS:
                continue
            if belief_at(check, prior).at_most(target) >= CONFIDENCE:
                first[key] = (task["set"], target, check["labels"], check["error"])
    return list(first.values())


def print_stops(runs, estimator, prior=None):
    found = stops(runs, estimator, prior)
    if not found:
        return
    n_runs = len({json.dumps(t, sort_keys=True) for t, _ in checkpoints(runs, estimator)})
    print(f"\n**Advice to stop, checked every five labels up to 50, in {n_runs} runs**\n")
    print("| target | stops | right | mean labels at the stop | mean error at the stop |")
    print("|" + " --- |" * 5)
    for target in (*TARGETS, None):
        some = [f for f in found if target is None or f[1] == target]
        if some:
            right = sum(error <= aim + 1e-9 for _, aim, _, error in some)
            print(f"| {'both' if target is None else f'{target:.0%}'} | {len(some)} | {right} "
                  f"({right / len(some):.1%}) | {np.mean([f[2] for f in some]):.0f} | "
                  f"{100 * np.mean([f[3] for f in some]):.1f} % |")  # fmt: skip
    wrong = [f for f in found if f[3] > f[1] + 1e-9]
    for name, target, labels, error in wrong:
        print(f"\nWrong: {name}, target {target:.0%}, after {labels} labels, error {error:.1%}.")


# --- all ------------------------------------------------------------------------------------------


def print_all(out, picture, estimator="graph-gp"):
    runs = all_runs(out)
    settings = (
        ("one", 1, CURVE, "one label at a time, from one random label, 24 labels"),
        ("none", 1, CURVE, "one label at a time, from no label, 24 labels"),
        ("each", 1, CURVE, "one label at a time, from one label a class, 24 labels"),
        ("one", 5, 26, "batches of 5, from one random label, 26 labels"),
        ("one", 20, 61, "batches of 20, from one random label, 61 labels"),
    )
    for which in sorted({task["estimator"] for task, _ in runs}):
        for start, batch, labels, title in settings:
            found = areas(runs, start=start, batch=batch, labels=labels, estimator=which)
            if len(found) > 1:
                print_comparison(found, f"{which}, {title}")
        print_coverage(runs, which)
        print_stops(runs, which)
    if picture is not None:
        draw(runs, picture, estimator)


def draw(runs, path, estimator):
    """Mean error against labels of the default, margin and random rows, a panel for every set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    curves = {}
    for task, row in runs:
        if (task["start"], task["batch"], task["labels"]) != ("one", 1, CURVE):
            continue
        if task["estimator"] == estimator and task["strategy"] in ("brier", "margin", "random"):
            curves.setdefault(task["set"], {}).setdefault(task["strategy"], []).append(
                row["errors"]
            )
    names = list(curves)
    columns = 4
    figure, axes = plt.subplots(-(-len(names) // columns), columns, figsize=(11, 7.2), sharex=True,
                                layout="constrained")  # fmt: skip
    look = {"random": ("#8a8a8a", "--", "random rows"), "margin": ("#d98c2b", "-", "margin"),
            "brier": ("#1f5fa8", "-", "Brier gain, the default")}  # fmt: skip
    for ax, name in zip(axes.flat, names):
        for rule, (colour, style, label) in look.items():
            if rule in curves[name]:
                errors = 100 * np.array(curves[name][rule])
                mean, se = errors.mean(axis=0), errors.std(axis=0) / np.sqrt(len(errors))
                n = np.arange(1, len(mean) + 1)
                ax.plot(n, mean, style, color=colour, label=label, lw=1.6)
                ax.fill_between(n, mean - se, mean + se, color=colour, alpha=0.15, lw=0)
        ax.set(title=name, ylim=(0, None), xlim=(1, CURVE))
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    axes.flat[0].legend(frameon=False, fontsize=8)
    figure.supxlabel("labels")
    figure.supylabel("wrong rows among the unlabelled ones, %")
    figure.savefig(path, dpi=110)
