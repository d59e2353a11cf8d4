"""Archipelago's table and figures: the quick versions, the paper's numbers, and the cache."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from atoll.models import archipelago as model
from atoll.reproductions import archipelago, archipelago_figures, engine, run_experiment
from atoll.reproductions.archipelago import (
    DATA,
    LABELS,
    MODELS,
    PAPER_ERROR,
    PAPER_PERPLEXITY,
    TABLE_1,
    make_task,
    perplexity,
)
from atoll.reproductions.tables import group


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("reproductions")


@pytest.fixture(scope="module")
def table_1(out):
    return run_experiment("archipelago-table1", out=out, quick=True, progress=False)


@pytest.fixture(scope="module")
def figure_1(out):
    return run_experiment("archipelago-fig1", out=out, quick=True, progress=False)


@pytest.fixture(scope="module")
def figure_3(out):
    return run_experiment("archipelago-fig3", out=out, quick=True, progress=False)


@pytest.fixture(scope="module")
def figure_4(out):
    return run_experiment("archipelago-fig4", out=out, quick=True, progress=False)


# --- table 1 -------------------------------------------------------------------------------------


def test_the_full_table_has_every_data_set_label_count_and_model_over_ten_draws_or_more():
    cells = TABLE_1.cells(False, 0)
    rows = {(c["data"], c["labels"]) for c in cells}
    assert rows == {(data, labels) for data in DATA for labels in LABELS}
    for data, labels in rows:
        for name in MODELS:
            drawn = [
                c for c in cells if (c["data"], c["labels"], c["model"]) == (data, labels, name)
            ]
            assert len(drawn) == (20 if data == "wine" and labels <= 2 else 10)


@pytest.mark.parametrize(
    ("data", "labels", "error", "perplexities"),
    [
        ("toy3", 1, (0.167, 0.347, 0.290, 0.612), (1.461, 2.588, 1.631, 14.120)),
        ("toy3", 8, (0.037, 0.056, 0.137, 0.070), (1.070, 1.065, 1.043, 1.000)),
        ("toy5", 1, (0.183, 0.192, 0.515, 0.482), (3.766, 4.519, 3.533, 294.758)),
        ("wine", 2, (0.135, 0.292, 0.213, 0.393), (2.654, 2.760, 2.851, 2.799)),
        ("oil", 1, (0.538, 0.568, 0.432, 0.650), (2.997, 3.024, 5.631, 3560.0)),
        ("oil", 8, (0.068, 0.053, 0.068, 0.038), (1.241, 1.137, 1.232, 1.002)),
    ],
)
def test_the_paper_s_numbers_are_as_printed(data, labels, error, perplexities):
    assert PAPER_ERROR[data, labels] == error
    assert PAPER_PERPLEXITY[data, labels] == perplexities


def test_every_row_has_the_paper_s_number_for_every_model():
    places = [(data, labels) for data in DATA for labels in LABELS]
    assert list(PAPER_ERROR) == list(PAPER_PERPLEXITY) == places
    assert {len(row) for row in (*PAPER_ERROR.values(), *PAPER_PERPLEXITY.values())} == {4}


@pytest.mark.slow
def test_the_page_has_a_row_for_each_data_set_with_the_paper_s_numbers_beside_ours(table_1):
    page = table_1.page.read_text()
    assert page.count("| Toy3 | 1 | 2 |") == page.count("| Wine | 1 | 2 |") == 2
    for number in ("(0.167)", "(0.347)", "(1.928)", "(31.832)"):
        assert number in page
    assert "a comparison, not a target" in page
    assert table_1.figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_every_cell_measures_a_share_and_a_perplexity_of_at_least_one(table_1):
    assert len(table_1.results) == len(TABLE_1.cells(True, 0))
    for result in table_1.results:
        assert 0 <= result.values["error"] <= 1
        assert result.values["perplexity"] >= 1
        is_ours = result.cell["model"] == "archipelago"
        assert (result.values["mean_rejections"] is not None) == is_ours


def test_models_and_label_counts_meet_the_same_rows():
    cells = [c for c in TABLE_1.cells(False, 3) if (c["data"], c["replicate"]) == ("wine", 1)]
    tasks = [make_task(cell) for cell in cells]
    for cell, task in zip(cells, tasks, strict=True):
        np.testing.assert_array_equal(task.X, tasks[0].X)
        np.testing.assert_array_equal(task.X_test, tasks[0].X_test)
        assert len(task.X) == len(task.X_test) == 89
        assert [(task.shown == k).sum() for k in range(3)] == [cell["labels"]] * 3
    by_labels = group([engine.Result(c, {"t": t}) for c, t in zip(cells, tasks)], "labels")
    for part in by_labels.values():
        for result in part[1:]:
            np.testing.assert_array_equal(result.values["t"].shown, part[0].values["t"].shown)


def test_another_draw_has_other_rows():
    first, second = (
        make_task({"data": "toy3", "labels": 1, "replicate": r, "seed": 0, "test_rows": 5})
        for r in range(2)
    )
    assert not np.array_equal(first.X, second.X)
    assert first.X_test.shape == (15, 2)


def test_missing_oil_flow_data_are_named_and_the_cell_is_skipped(tmp_path):
    cell = {**TABLE_1.cells(True, 0)[0], "data": "oil", "test_rows": None}
    with pytest.raises(FileNotFoundError, match="oil_flow"):
        archipelago.run_table_1_cell(cell, tmp_path)


def test_perplexity_of_a_certain_and_of_an_even_guess():
    y = np.array([0, 1, 2])
    assert perplexity(np.eye(3), y) == 1.0
    assert perplexity(np.full((3, 3), 1 / 3), y) == pytest.approx(3.0)
    assert np.isfinite(perplexity(1.0 - np.eye(3), y))


@pytest.mark.slow
def test_finished_cells_are_not_run_again(table_1, out):
    def refuse(cell, data_home=None):
        raise AssertionError(f"{cell} was run again")

    unrunnable = dataclasses.replace(TABLE_1, run_cell=refuse)
    again = engine.run(unrunnable, out=out, quick=True, progress=False)
    assert [r.values for r in again.results] == [r.values for r in table_1.results]


# --- figures -------------------------------------------------------------------------------------


def test_slices_are_the_classes_probabilities_stacked():
    latent = np.random.default_rng(0).normal(scale=3, size=(50, 3))
    heights = archipelago_figures.slices(latent)
    odds = np.exp(latent)
    expected = np.cumsum(odds / (1 + odds.sum(axis=1, keepdims=True)), axis=1)
    np.testing.assert_allclose(heights, expected, rtol=1e-12)


def test_slices_of_huge_functions_stay_within_the_unit_interval():
    heights = archipelago_figures.slices(np.array([[800.0, -800.0, 0.0], [-800.0] * 3]))
    np.testing.assert_allclose(heights, [[1, 1, 1], [0, 0, 0]], atol=1e-12)


def test_a_proposal_s_outcome_is_the_slice_that_holds_its_variate(figure_1):
    (shown,) = (r.values for r in figure_1.results if "x" in r.values)
    edges = np.column_stack([np.zeros(len(shown["r"])), shown["heights"], np.ones(len(shown["r"]))])
    slot = np.where(shown["outcomes"] == model.REJECTED, 3, shown["outcomes"])
    row = np.arange(len(slot))
    assert (edges[row, slot] <= shown["r"]).all()
    assert (shown["r"] < edges[row, slot + 1]).all()
    assert "sample_prior" in figure_1.page.read_text()


@pytest.mark.slow
def test_the_maps_are_probabilities_of_every_toy_set(figure_3):
    assert [r.cell["data"] for r in figure_3.results] == ["toy3", "toy4", "toy5"]
    for result in figure_3.results:
        for name in ("archipelago", "softmax"):
            surface = result.values[f"{name}_map"]
            assert surface.shape[2] == int(result.cell["data"][-1])
            np.testing.assert_allclose(surface.sum(axis=2), 1, atol=1e-9)
    assert figure_3.figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_every_kind_of_moves_has_its_trace_and_a_row_of_the_table(figure_4):
    page = figure_4.page.read_text()
    for moves, part in group(figure_4.results, "moves").items():
        assert f"| {archipelago_figures.SWEEP_NAMES[moves]} | 2 × 100 |" in page
        for result in part:
            trace = result.values["trace"]
            assert trace.shape == (result.cell["n_sweeps"],)
            assert (trace >= 0).all()
            assert (trace == trace.astype(int)).all()
    assert list(group(figure_4.results, "moves")) == list(archipelago_figures.SWEEPS)


def test_a_part_of_the_moves_can_be_compared_without_ours():
    rng = np.random.default_rng(0)
    others = [
        engine.Result({"moves": moves, "chain": c}, {"trace": trace, "mean_rejections": 4.0})
        for moves in ("whitened", "paper")
        for c, trace in enumerate(rng.poisson(4.0, (2, 100)).astype(float))
    ]
    text = archipelago_figures.compare_figure_4(others)
    assert archipelago_figures.SWEEP_NAMES["paper"] in text
    assert archipelago_figures.SWEEP_NAMES["ours"] not in text
