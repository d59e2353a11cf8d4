"""Claims of Adams & Ghahramani (2009).

The experiments: archipelago-fig1, archipelago-fig3, archipelago-fig4 and archipelago-table1.
"""

from __future__ import annotations

import numpy as np
import pytest

from atoll.models.archipelago.paper_sweep import N_COUNT_MOVES
from atoll.reproductions.archipelago import (
    PAPER_ERROR,
    PAPER_PERPLEXITY,
    fit_quietly,
    make_model,
    make_task,
)
from atoll.reproductions.archipelago_figures import FIGURE_1, FIGURE_4, N_PROPOSED, figure_3_cells


def test_archipelago_fig1_accepts_proposals_with_the_probability_of_their_slices():
    assert FIGURE_1.name == "archipelago-fig1"
    cells = FIGURE_1.cells(True, 0)
    values = [FIGURE_1.run_cell(cell, None) for cell in cells]
    surplus = sum(v["accepted"] - v["expected"] for v in values) * N_PROPOSED
    # A proposal's variance is at most 1/4: six of its standard deviations are one in 5e8.
    assert abs(surplus) < 6 * np.sqrt(0.25 * N_PROPOSED * len(cells))


@pytest.mark.slow
def test_archipelago_fig3_every_class_is_as_probable_as_the_others_where_nothing_is_known():
    for cell in figure_3_cells(True, 0):
        task = make_task(cell)
        model = make_model(
            "archipelago", ard=False, chains=[2, 15, 8, 1], random_state=np.random.default_rng(0)
        )
        fit_quietly(model, task.X, task.shown)
        n_classes = len(model.classes_)
        entropy = model.predict_entropy(np.array([[1e4, 1e4], *task.X]))
        assert entropy[0] == pytest.approx(np.log(n_classes), abs=1e-2)
        assert entropy[1:].min() < entropy[0]


def test_archipelago_fig4_the_paper_s_moves_change_the_number_of_rejections_little_by_little():
    for cell in FIGURE_4.cells(True, 0):
        short = {**cell, "n_warmup": 10, "n_sweeps": 40}
        trace = FIGURE_4.run_cell(short, None)["trace"]
        if cell["moves"] != "ours":
            assert np.abs(np.diff(trace)).max() <= N_COUNT_MOVES


def test_archipelago_table1_the_paper_beats_its_softmax_twin_in_most_rows_but_not_in_all():
    lower = {
        name: sum(row[0] < row[1] for row in numbers.values())
        for name, numbers in (("error", PAPER_ERROR), ("perplexity", PAPER_PERPLEXITY))
    }
    assert lower == {"error": 18, "perplexity": 14}
