"""Rows as users have them: a mixed table, texts and embeddings, each by one `atoll fit`.

Part tables. Three tables are written to files with all but a few labels blank, fitted by the
command line and predicted by it; error and log-loss are those of the rows without a label.

- penguins (package palmerpenguins) as it comes: islands, sexes, years and blank cells;
- texts: paragraphs of the documentation of five packages, by package, as one column of a CSV file;
- embeddings: the same paragraphs as 768 columns of numbers (truncated SVD of their TF-IDF), in a
  Parquet file or, where pyarrow is missing, a CSV file, with `--metric cosine`.

Peers have the same features, as `make_preprocessor` makes them (embeddings: rows of length one):
logistic regression, LabelSpreading on ten neighbours, and Laplace learning (harmonic functions,
Zhu, Ghahramani & Lafferty 2003) on the same graph with weights exp(−4 d²/d_10²). `atoll fit` may
halve categories, as the labels say; peers have them whole, unless --peers-category-weight says.

Part memory. A sparse table of 100,000 columns is made and fitted in a process of its own; what the
process holds at its peak, less what it held before, is set against the table's own size.

Part speed. Processor seconds of a fit of 2000 rows with hundreds to thousands of columns, in double
and in single precision, and of sparse rows.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import contextlib
import importlib.util
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _row_tables import Texts, documentation, penguins
from joblib import Parallel, delayed
from scipy import sparse
from scipy.sparse.linalg import spsolve
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from atoll.core.graphs import connected_components, degrees, neighbour_graph, self_tuning_weights
from atoll.core.preprocessing import prepare, with_category_weight
from atoll.core.rows import unit_rows
from atoll.reproductions.peers import measure, normalised

TABLES = ("penguins", "texts", "embeddings")
TARGETS = {"penguins": "species", "texts": "package", "embeddings": "package"}
OPTIONS = {"embeddings": ["--metric", "cosine"]}
LABELS = (2, 4, 8, 16)
N_DIRECTIONS = 768
SIDES = ("atoll", "LogisticRegression", "LabelSpreading", "Laplace")
BUDGET_TIMES, BUDGET_MB = 3, 200


# --- tables ---------------------------------------------------------------------------------------


def read_texts(path):
    if path is None:
        return documentation(most=300)
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    return Texts(found["texts"], np.array(found["packages"]))


def frames(options):
    """The tables that are asked for, whole: name -> data frame."""
    if options.only == ["penguins"]:
        return {"penguins": penguins(options.data).reset_index(drop=True)}
    texts = read_texts(options.texts)
    table = pd.DataFrame({"text": texts.texts, "package": texts.packages})
    words = prepare(table, "package").X
    scores = TruncatedSVD(N_DIRECTIONS, random_state=0).fit_transform(words)
    columns = [f"e{j}" for j in range(scores.shape[1])]
    embeddings = pd.DataFrame(scores.astype(np.float32), columns=columns)
    return {
        "penguins": penguins(options.data).reset_index(drop=True),
        "texts": table,
        "embeddings": embeddings.assign(package=texts.packages),
    }


def hidden(truth, per_class, draw):
    """Which labels are kept: so many a class at random, at most half of a class."""
    rng = np.random.default_rng([per_class, draw])
    kept = np.zeros(len(truth), bool)
    for value in np.unique(truth):
        rows = rng.permutation(np.flatnonzero(truth == value))
        kept[rows[: min(per_class, len(rows) // 2)]] = True
    return kept


def by_command(name, frame, target, kept, seed):
    """Class probabilities of all rows, in the order of the sorted classes, by the command line."""
    from typer.testing import CliRunner

    from atoll.cli.commands import app

    suffix = "parquet" if importlib.util.find_spec("pyarrow") and name == "embeddings" else "csv"
    with tempfile.TemporaryDirectory() as folder:
        path, model, out = (f"{folder}/{file}" for file in (f"t.{suffix}", "m.atoll", "p.csv"))
        partial = frame.assign(**{target: frame[target].where(kept)})
        partial.to_parquet(path) if suffix == "parquet" else partial.to_csv(path, index=False)
        fit = ["fit", path, "--target", target, "--out", model, "--seed", str(seed), "--quiet"]
        for words in ([*fit, *OPTIONS.get(name, [])], ["predict", model, path, "--out", out, "-q"]):
            result = CliRunner().invoke(app, words)
            if result.exit_code:
                raise RuntimeError(result.output)
        found = pd.read_csv(out)
    classes = np.unique(frame[target])
    return found[[f"p_{value}" for value in classes]].to_numpy()


def features(name, frame, target, category_weight):
    """What the peers are given: (n, d), perhaps sparse."""
    table = prepare(frame, target, standardise=name != "embeddings")
    if name == "embeddings":
        return unit_rows(table.X)
    return with_category_weight(table, category_weight).X if name == "penguins" else table.X


def laplace(weights, kept, codes, n_classes):
    """Harmonic functions of the labels on a graph; nothing where no label reaches."""
    n = weights.shape[0]
    _, part = connected_components(weights)
    free = ~kept & np.isin(part, part[kept])
    L = sparse.csr_array(sparse.diags_array(degrees(weights)) - weights)
    scores = np.zeros((n, n_classes))
    scores[kept] = np.eye(n_classes)[codes[kept]]
    right = -(L[free][:, kept] @ scores[kept])
    scores[free] = spsolve(sparse.csc_array(L[free][:, free]), right).reshape(-1, n_classes)
    return np.clip(scores, 0.0, None)


def peers(X, kept, codes):
    """Class probabilities of all rows by each peer, and the seconds it took."""
    K = int(codes.max()) + 1
    graph = neighbour_graph(X, 10)
    weights = self_tuning_weights(graph)
    joined = sparse.csr_matrix(graph.distances)
    joined.data[:] = 1.0
    partial = np.where(kept, codes, -1)
    logistic = LogisticRegression(max_iter=2000).fit(X[kept], codes[kept])
    places = np.arange(X.shape[0])[:, None]
    spreading = LabelSpreading(kernel=lambda a, b: joined, max_iter=1000).fit(places, partial)
    return {
        "LogisticRegression": logistic.predict_proba(X),
        "LabelSpreading": normalised(spreading.label_distributions_)[0],
        "Laplace": normalised(laplace(weights, kept, codes, K))[0],
    }


def run_cell(name, frame, per_class, draw, category_weight=1.0):
    warnings.simplefilter("ignore")
    target = TARGETS[name]
    truth = frame[target].to_numpy().astype(str)
    codes = np.unique(truth, return_inverse=True)[1]
    kept = hidden(truth, per_class, draw)
    start = time.process_time()
    with contextlib.redirect_stderr(io.StringIO()):
        found = {"atoll": by_command(name, frame, target, kept, draw)}
    seconds = time.process_time() - start
    found |= peers(features(name, frame, target, category_weight), kept, codes)
    cell = {"table": name, "labels": per_class, "draw": draw}
    return [
        cell | {"side": side, "seconds": seconds if side == "atoll" else None}
        | measure(p[~kept], codes[~kept])
        for side, p in found.items()
    ]  # fmt: skip


def part_tables(options):
    tables = frames(options)
    cells = [
        (name, tables[name], per_class, draw, options.peers_category_weight)
        for draw in range(options.first, options.first + options.draws)
        for name in (options.only or TABLES)
        for per_class in LABELS
    ]
    rows = []
    work = Parallel(n_jobs=options.n_jobs, return_as="generator_unordered")
    for found in work(delayed(run_cell)(*cell) for cell in cells):
        rows += found
        if options.out:
            with Path(options.out).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in found)
    show_tables(pd.DataFrame(rows))


def show_tables(rows):
    for metric in ("error", "log_loss"):
        print(f"\n{metric.replace('_', '-')}, mean over draws\n")
        print("| table | labels a class | " + " | ".join(SIDES) + " | draws |")
        print("| --- | --- | " + " | ".join("---" for _ in SIDES) + " | --- |")
        for (name, labels), cell in rows.groupby(["table", "labels"], sort=False):
            mean = cell.groupby("side")[metric].mean()
            shown = " | ".join(f"{mean[side]:.3f}" for side in SIDES)
            print(f"| {name} | {labels} | {shown} | {cell['draw'].nunique()} |")
        for name, cell in rows.groupby("table", sort=False):
            mean = cell.groupby("side")[metric].mean()
            print(f"| {name} | all | " + " | ".join(f"{mean[side]:.3f}" for side in SIDES) + " | |")
    atoll = rows[rows.side == "atoll"].groupby("table")["seconds"].mean()
    print("\nProcessor seconds of fit and predict by the command line, mean:")
    print(", ".join(f"{name} {value:.1f}" for name, value in atoll.items()))


# --- memory and speed -----------------------------------------------------------------------------


def many_words(n, d, a_row, seed=0):
    """Texts of two kinds as sparse rows: words by Zipf's law, a tenth of them the kind's own."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 2
    places = np.minimum(rng.zipf(1.15, size=(n, a_row)), d) - 1
    own = rng.random((n, a_row)) < 0.1
    places = np.where(
        own, d // 2 + kind[:, None] * 200 + rng.integers(200, size=places.shape), places
    )
    counts = sparse.csr_array(
        (np.ones(n * a_row), places.ravel(), np.arange(0, n * a_row + 1, a_row)), shape=(n, d)
    )
    counts.sum_duplicates()
    frequency = np.bincount(counts.indices, minlength=d)
    counts.data *= np.log((1 + n) / (1 + frequency[counts.indices])) + 1.0
    return unit_rows(counts), kind


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def now_mb():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def one_memory(n, model):
    """Fit in this process; print the table's size and the peak beyond what was held before."""
    import atoll

    warnings.simplefilter("ignore")
    kind_of = getattr(atoll, model)
    small, kind = many_words(300, 1000, 30)
    y = kind.astype(object)
    y[20:] = None
    kind_of(metric="cosine", random_state=0).fit(small, y)  # what is imported late
    X, kind = many_words(n, 100_000, 120)
    y = kind.astype(object)
    y[40:] = None
    own = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    before, start = now_mb(), time.process_time()
    fitted = kind_of(metric="cosine", random_state=0).fit(X, y)
    fit_peak, seconds = peak_mb(), time.process_time() - start
    error = float(np.mean(fitted.transduction_ != kind))
    fitted.predict_proba(X)
    budget = BUDGET_TIMES * own + BUDGET_MB
    print(
        f"| {model} | {n} | {X.nnz / n:.0f} | {own:.0f} | {before:.0f} | {fit_peak - before:.0f} | "
        f"{peak_mb() - before:.0f} | {budget:.0f} | {seconds:.0f} | {error:.3f} |"
    )


def part_memory(options):
    print(
        "MB; columns 100,000; `beyond` is the peak less what the process held before the fit, the"
    )
    print("table among it\n")
    print("| model | rows | words a row | table | before | fit, beyond | predict, beyond | allowed "
          "beyond | fit, s | error |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for model in ("GraphGPClassifier", "AtollClassifier"):
        for n in options.rows:
            words = [sys.executable, __file__, "--part", "one-memory", "--rows", str(n)]
            subprocess.run([*words, "--model", model], check=True)


def part_speed(options):
    from sklearn.datasets import make_blobs

    import atoll

    warnings.simplefilter("ignore")
    print("| columns | rows are | AtollClassifier, s | GraphGPClassifier, s |")
    print("| --- | --- | --- | --- |")
    for d in (100, 768, 3000):
        X, truth = make_blobs(2000, d, centers=3, cluster_std=8.0, random_state=0)
        y = truth.astype(object)
        y[30:] = None
        thin = sparse.csr_array(np.where(np.random.default_rng(0).random(X.shape) < 0.05, X, 0.0))
        for words, rows in (("double", X), ("single", X.astype(np.float32)), ("sparse", thin)):
            shown = []
            for model in (atoll.AtollClassifier, atoll.GraphGPClassifier):
                start = time.process_time()
                model(random_state=0).fit(rows, y)
                shown.append(f"{time.process_time() - start:.1f}")
            print(f"| {d} | {words} | {' | '.join(shown)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="tables",
                        choices=["tables", "memory", "speed", "one-memory"])  # fmt: skip
    parser.add_argument("--data", help="folder with the unpacked package palmerpenguins")
    parser.add_argument("--texts", help="JSON file of texts and packages; default: as installed")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="first draw")
    parser.add_argument("--peers-category-weight", type=float, default=1.0,
                        help="of the features that peers are given")  # fmt: skip
    parser.add_argument("--only", nargs="*", choices=TABLES)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--rows", type=int, nargs="*", default=[5000, 20000])
    parser.add_argument("--model", default="AtollClassifier")
    parser.add_argument("--out", help="file to which cells are appended as they come")
    options = parser.parse_args()
    if options.part == "one-memory":
        return one_memory(options.rows[0], options.model)
    return {"tables": part_tables, "memory": part_memory, "speed": part_speed}[options.part](
        options
    )


if __name__ == "__main__":
    main()
