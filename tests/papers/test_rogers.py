"""The claims of Rogers (2014), lecture 4.

Over data sets, each change asserted below has a mean of at least 2.7 of its own standard
deviations (measured on 30 data sets), so its mean over four is more than five standard errors
from zero: a seed on which one fails is rarer than one in a million.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest

from atoll.reproductions import rogers, run_experiment
from atoll.reproductions.rogers import DRAWN_GAMMAS, true_probability, two_gaussians
from atoll.reproductions.tables import Estimate, estimate_value, group, paired_difference


@pytest.fixture(scope="module", params=[pytest.param(rogers.N_SAMPLES, marks=pytest.mark.slow)])
def figure_15(request, tmp_path_factory):
    """The quick version of the figure, run once, with so many draws a chain."""
    out = tmp_path_factory.mktemp("reproductions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rogers, "N_SAMPLES", request.param)
        patch.setattr(rogers, "N_WARMUP", 50)
        return run_experiment("rogers-fig15", out=out, quick=True, n_jobs=1, progress=False)


def change(report, value, *, start, end):
    """Mean change of a value from one γ to another, data set by data set."""
    by_gamma = group(report.results, "gamma")
    return paired_difference(by_gamma[end], by_gamma[start], value, pair_by=["replicate"]).mean


def test_as_gamma_is_increased_the_model_overfits(figure_15):
    assert change(figure_15, "held_out_log_loss", start=0.1, end=1.0) > 0
    assert change(figure_15, "held_out_log_loss", start=1.0, end=10.0) > 0
    assert change(figure_15, "training_error", start=0.1, end=10.0) < 0
    assert change(figure_15, "training_log_loss", start=0.01, end=10.0) < 0


def test_held_out_log_loss_is_lowest_at_a_moderate_gamma(figure_15):
    losses = {
        gamma: estimate_value(part, "held_out_log_loss").mean
        for gamma, part in group(figure_15.results, "gamma").items()
    }
    assert min(losses, key=losses.get) == 0.1
    assert list(losses) == DRAWN_GAMMAS


def test_no_gamma_beats_the_true_probabilities_on_held_out_rows(figure_15):
    for part in group(figure_15.results, "gamma").values():
        best = estimate_value(part, "best_log_loss").mean
        assert estimate_value(part, "held_out_log_loss").mean > best


def test_the_surface_is_a_probability_that_follows_the_classes_then_only_the_rows(figure_15):
    surfaces = {
        r.cell["gamma"]: r.values["surface"] for r in figure_15.results if "surface" in r.values
    }
    assert list(surfaces) == DRAWN_GAMMAS
    for surface in surfaces.values():
        assert surface.min() >= 0
        assert surface.max() <= 1
    # Class 1 is on the right; at the corners a narrow kernel knows nothing.
    assert surfaces[0.1][:, -1].mean() > 0.7 > 0.3 > surfaces[0.1][:, 0].mean()
    np.testing.assert_allclose(surfaces[10.0][[0, 0, -1, -1], [0, -1, 0, -1]], 0.5, atol=0.02)


def test_the_page_and_the_table_show_every_gamma(figure_15):
    page = figure_15.page.read_text()
    for gamma in DRAWN_GAMMAS:
        assert f"| {gamma:g} | " in page
    assert "prints no numbers" in page
    with figure_15.csv.open() as file:
        assert len(list(csv.DictReader(file))) == len(figure_15.results)
    assert figure_15.figure.read_bytes().startswith(b"\x89PNG")


def test_the_true_probability_is_calibrated():
    X, y = two_gaussians(100_000, np.random.default_rng(0))
    p = true_probability(X)
    for low in np.arange(0.0, 1.0, 0.25):
        inside = (p >= low) & (p < low + 0.25)
        error = np.sqrt(np.sum(p[inside] * (1 - p[inside])))
        assert inside.sum() > 1000
        assert abs(np.sum(y[inside] - p[inside])) < 6 * error


def test_what_the_lecture_does_not_mention_is_expected_and_no_agreement():
    rise = Estimate(0.3, 0.01, 20)
    said = [
        rogers.verdict(rise, above=above, expected="it rises", is_said=is_said)
        for above in (True, False)
        for is_said in (True, False)
    ]
    assert [one.partition(":")[0] for one in said] == [
        *("agrees", "as expected", "disagrees", "not as expected"),
    ]


def test_chains_above_the_limit_of_a_fit_are_not_passed_over():
    assert rogers.about_r_hat(1.05) == "1.050"
    assert "above the 1.05 that a fit is held to" in rogers.about_r_hat(1.0521)
