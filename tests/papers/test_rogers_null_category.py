"""Figures 20 and 21 of Rogers (2014), lecture 4: few labels, without and with the null category.

Over data sets, each change of the log-loss asserted below has a mean of at least 6.5 of its own
standard deviations (measured on 60 data sets), so its mean over three is more than eleven standard
errors from zero. The mean difference between width 0 and the standard model is 0.014 ± 0.004, and
no less than 0.21 at the other widths.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest

from atoll.reproductions import run_experiment
from atoll.reproductions.rogers_null_category import (
    GAMMA,
    GRID_2,
    MONTE_CARLO_ERROR,
    N_LABELS,
    QUICK_LABELS,
    QUICK_WIDTHS,
    hide_all_but,
    mean_change,
    true_probability,
    two_clouds,
)
from atoll.reproductions.tables import group, paired_difference


@pytest.fixture(scope="module")
def figure_20(tmp_path_factory):
    """The quick version of the figure, run once."""
    out = tmp_path_factory.mktemp("reproductions")
    return run_experiment("rogers-fig20", out=out, quick=True, progress=False)


@pytest.fixture(scope="module")
def figure_21(tmp_path_factory):
    """The quick version of the figure, run once."""
    out = tmp_path_factory.mktemp("reproductions")
    return run_experiment("rogers-fig21", out=out, quick=True, progress=False)


@pytest.mark.slow
def test_the_standard_model_ignores_unlabelled_rows_and_learns_from_labels(figure_20):
    few, many = group(figure_20.results, "labels").values()
    assert paired_difference(many, few, "log_loss", pair_by=["replicate"]).mean < 0
    for result in figure_20.results:
        assert result.values["change_without_them"] < 1e-12


@pytest.mark.slow
def test_the_null_category_lowers_the_log_loss_on_unlabelled_rows(figure_21):
    by_width = group(figure_21.results, "null_width")
    for width in (1.0, 2.0):
        change = paired_difference(
            by_width[width], by_width[None], "log_loss", pair_by=["replicate"]
        )
        assert change.mean < 0


@pytest.mark.slow
def test_null_width_zero_is_the_standard_model(figure_21):
    by_width = group(figure_21.results, "null_width")
    assert 0 < mean_change(by_width[0.0], by_width[None]) < MONTE_CARLO_ERROR
    assert mean_change(by_width[1.0], by_width[None]) > MONTE_CARLO_ERROR


@pytest.mark.slow
def test_the_maps_are_probabilities_that_follow_the_classes(figure_20, figure_21):
    maps = [r for r in figure_20.results + figure_21.results if "surface" in r.values]
    assert len(maps) == 1 + 1 + len(QUICK_WIDTHS)
    for result in maps:
        surface = result.values["surface"]
        assert surface.min() >= 0
        assert surface.max() <= 1
        # Class 1 is above.
        assert surface[GRID_2 > 0].mean() > 0.5 > surface[GRID_2 < 0].mean()


@pytest.mark.slow
def test_both_pages_and_tables_show_what_was_varied(figure_20, figure_21):
    page = figure_20.page.read_text()
    for n in QUICK_LABELS:
        assert f"| {n} | " in page
    page = figure_21.page.read_text()
    assert f"| γ = {GAMMA:g} | standard GP | " in page
    for width in QUICK_WIDTHS:
        assert f"| γ = {GAMMA:g} | {width:g} | " in page
    for report in (figure_20, figure_21):
        assert "prints no numbers" in report.page.read_text()
        with report.csv.open() as file:
            assert len(list(csv.DictReader(file))) == len(report.results)
        assert report.figure.read_bytes().startswith(b"\x89PNG")


def test_the_true_probability_is_calibrated():
    X, y = two_clouds(400_000, np.random.default_rng(0))
    p = true_probability(X)
    for low in np.arange(0.0, 1.0, 0.25):
        inside = (p >= low) & (p < low + 0.25)
        error = np.sqrt(np.sum(p[inside] * (1 - p[inside])))
        assert inside.sum() > 100
        assert abs(np.sum(y[inside] - p[inside])) < 6 * error


def test_the_labels_kept_are_as_many_of_each_class():
    _, y = two_clouds(60, np.random.default_rng(0))
    given = hide_all_but(N_LABELS, y)
    assert np.bincount(given + 1).tolist() == [60 - 2 * N_LABELS, N_LABELS, N_LABELS]
    np.testing.assert_array_equal(given[given >= 0], y[given >= 0])
