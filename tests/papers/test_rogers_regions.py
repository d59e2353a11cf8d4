"""Figures 18, 19 and 22 of Rogers (2014), lecture 4: regions of the auxiliary variable."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from matplotlib.path import Path as Outline

from atoll.reproductions import run_experiment
from atoll.reproductions.rogers_regions import (
    CONTRASTS,
    LEAST_P_VALUE,
    region_probabilities,
    regions_of,
    sector,
)


@pytest.fixture(scope="module")
def figure_22(tmp_path_factory):
    """The full version, which takes seconds."""
    return run_experiment("rogers-fig22", out=tmp_path_factory.mktemp("out"), progress=False)


@pytest.fixture(scope="module")
def diagrams(tmp_path_factory):
    """The four diagrams of the figure, and nothing beside them."""
    out = tmp_path_factory.mktemp("quick")
    return run_experiment("rogers-fig22", quick=True, out=out, progress=False)


def values(result, kind):
    return [value for key, value in result.values.items() if key.startswith(f"{kind}_")]


def test_draws_of_z_fall_into_each_region_as_often_as_the_library_says(figure_22):
    p_values = [p for result in figure_22.results for p in values(result, "p_value")]
    assert len(p_values) > 100
    assert min(p_values) * len(p_values) > LEAST_P_VALUE


def test_without_a_null_region_every_z_has_a_class(diagrams):
    assert len({result.cell["null_width"] > 0 for result in diagrams.results}) == 2
    for result in diagrams.results:
        total = sum(values(result, "probability"))
        assert abs(total - 1) < 1e-12
        assert sum(values(result, "share")) == pytest.approx(1, abs=1e-12)
        assert ("probability_null" in result.values) == (result.cell["null_width"] > 0)


@pytest.mark.parametrize("null_width", [0.0, 1.0])
def test_the_drawn_sectors_are_the_regions(null_width):
    plane = np.random.default_rng(0).uniform(-4, 4, size=(2000, 2))
    region = regions_of(plane @ CONTRASTS.T, null_width)
    for k in range(3):
        inside = Outline(sector(k, null_width)).contains_points(plane)
        np.testing.assert_array_equal(inside, region == k)
    assert (region == 3).any() == (null_width > 0)


@pytest.mark.parametrize(("k", "i", "third"), [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_the_slab_between_two_classes_is_as_thick_as_the_null_width(k, i, third):
    across = (np.eye(3)[k] - np.eye(3)[i]) / np.sqrt(2)
    t = np.linspace(-2, 2, 402)
    region = regions_of(-10 * np.eye(3)[third] + t[:, None] * across, null_width=1.5)
    np.testing.assert_array_equal(region, np.where(t > 0.75, k, np.where(t < -0.75, i, 3)))


@pytest.mark.parametrize("null_width", [0.0, 0.7, 3.0])
def test_two_functions_give_the_probabilities_of_one(null_width):
    for f in (-3.0, 0.0, 0.4):
        one = region_probabilities(np.array([f]), 0.6, null_width)
        two = region_probabilities(np.array([0.0, np.sqrt(2) * f]), 0.6, null_width)
        np.testing.assert_allclose(two, one, atol=1e-10)


def test_the_page_and_the_table_show_every_figure(diagrams):
    page = diagrams.page.read_text()
    for figure in ("18", "19", "22a", "22b"):
        assert f"| {figure} | " in page
    assert "too large for chance" not in page
    with diagrams.csv.open() as file:
        assert len(list(csv.DictReader(file))) == len(diagrams.results)
    assert diagrams.figure.read_bytes().startswith(b"\x89PNG")
