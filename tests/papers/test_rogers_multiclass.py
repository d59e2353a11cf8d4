"""Figure 16 of Rogers (2014), lecture 4: the multinomial probit Gaussian process.

Measured on 42 data sets: the log-loss exceeds that of the true probabilities by at least eight of
its own standard deviations, and falls from 30 to 60 rows by more than four, so that the mean fall
over three data sets is seven standard errors.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest

from atoll.reproductions import run_experiment
from atoll.reproductions.rogers_multiclass import (
    CENTRES,
    GRID,
    QUICK_N_TRAIN,
    four_clouds,
    true_probabilities,
)
from atoll.reproductions.tables import group, paired_difference


@pytest.fixture(scope="module")
def figure_16(tmp_path_factory):
    """The quick version of the figure, run once."""
    out = tmp_path_factory.mktemp("reproductions")
    return run_experiment("rogers-fig16", out=out, quick=True, progress=False)


@pytest.mark.slow
def test_more_rows_bring_the_log_loss_nearer_to_that_of_the_true_probabilities(figure_16):
    few, many = group(figure_16.results, "n_train").values()
    assert paired_difference(many, few, "log_loss", pair_by=["replicate"]).mean < 0
    assert paired_difference(many, few, "from_truth", pair_by=["replicate"]).mean < 0
    for result in figure_16.results:
        assert result.values["best_log_loss"] < result.values["log_loss"] < np.log(3)


@pytest.mark.slow
def test_each_class_is_probable_where_its_rows_are_and_unknown_far_away(figure_16):
    (maps,) = (r.values["maps"] for r in figure_16.results if "maps" in r.values)
    np.testing.assert_allclose(maps.sum(axis=0), 1, atol=1e-9)
    column, row = (np.abs(GRID - c[:, None]).argmin(axis=1) for c in CENTRES.T)
    at_centres = maps[:, row, column]
    # Rows are shared out at random between the two clouds of class 0, so only both count.
    assert at_centres[0, :2].mean() > 1 / 3
    assert at_centres[:, 2].argmax() == 1
    assert at_centres[:, 3].argmax() == 2
    assert max(r.values["from_uniform_far_away"] for r in figure_16.results) < 1e-9


@pytest.mark.slow
def test_the_page_and_the_table_show_every_number_of_rows(figure_16):
    page = figure_16.page.read_text()
    for n in QUICK_N_TRAIN:
        assert f"| {n} | " in page
    assert "prints no\nnumbers" in page
    with figure_16.csv.open() as file:
        assert len(list(csv.DictReader(file))) == len(figure_16.results)
    assert figure_16.figure.read_bytes().startswith(b"\x89PNG")


def test_the_true_probabilities_are_calibrated():
    X, y = four_clouds(90_000, np.random.default_rng(0))
    p = true_probabilities(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    for k in range(3):
        for low in np.arange(0.0, 1.0, 0.25):
            inside = (p[:, k] >= low) & (p[:, k] < low + 0.25)
            error = np.sqrt(np.sum(p[inside, k] * (1 - p[inside, k])))
            assert inside.sum() > 1000
            assert abs(np.sum((y[inside] == k) - p[inside, k])) < 6 * error
