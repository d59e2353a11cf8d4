"""Lawrence & Jordan (2005), figures 1 and 3: ncnm-fig1 and ncnm-fig3."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from atoll.reproductions import run_experiment
from atoll.reproductions.engine import Result
from atoll.reproductions.lawrence_noise import (
    LEAST_P_VALUE,
    SITUATIONS,
    category_probabilities,
    compare_situations,
    run_situation,
    tilted,
    tilted_by_quadrature,
)


@pytest.mark.parametrize("width", [0.3, 1.0, 5.0])
def test_the_three_categories_are_the_paper_s_formula(width):
    f = np.linspace(-8, 8, 33)
    below, above = norm.cdf(-(f + width / 2)), norm.cdf(f - width / 2)
    between = norm.cdf(f + width / 2) - above
    found = category_probabilities(f, width)
    np.testing.assert_allclose(found, np.column_stack([below, between, above]), atol=1e-15)


def test_figure_1_runs_and_its_draws_agree(tmp_path):
    report = run_experiment("ncnm-fig1", out=tmp_path, quick=True, progress=False)
    (result,) = report.results
    assert result.values["counted"] * result.values["least_p_value"] > LEAST_P_VALUE / 100
    assert result.values["largest_gap"] < 1e-12
    assert "so there is no difference" in report.page.read_text()
    assert report.figure.stat().st_size > 5000


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (0.6, 0.5), (-0.4, 0.2), (3.0, 2.0)])
def test_the_moments_without_a_label_are_those_of_quadrature(mean, sd):
    ours, exact = tilted(mean, sd), tilted_by_quadrature(mean, sd)
    assert ours == pytest.approx(exact, rel=1e-9, abs=1e-10)


def test_figure_3_both_situations_are_as_the_paper_says(tmp_path):
    report = run_experiment("ncnm-fig3", out=tmp_path, quick=True, progress=False)
    spans, rectified = (r.values for r in report.results)
    assert spans["variance_ratio"] > 1 > rectified["variance_ratio"]
    assert spans["mass_on_the_smaller_side"] > 0.1 > rectified["mass_on_the_smaller_side"]
    assert report.page.read_text().count("none: as the paper says") == 2


def test_figure_3_says_where_the_claim_does_not_hold():
    results = []
    for name, (mean, sd) in zip(SITUATIONS, reversed(SITUATIONS.values())):
        cell = {"situation": name, "mean": mean, "sd": sd, "seed": 0}
        results.append(Result(cell, run_situation(cell)))
    assert compare_situations(results).count("does not hold") == 2
