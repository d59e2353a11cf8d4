"""The engine's batches: rows from everywhere in every step."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.models.archipelago.engine.fitting import spread_out


@pytest.mark.parametrize("d", [1, 2, 7])
def test_rows_that_are_spread_out_are_the_same_rows(d):
    rng = np.random.default_rng(d)
    rows = rng.permutation(500)[: 6 * 32].reshape(6, 32)
    found = spread_out(rng, rows, rng.normal(size=(*rows.shape, d)))
    assert found.shape == rows.shape
    np.testing.assert_array_equal(np.sort(found, axis=None), np.sort(rows, axis=None))


def test_every_step_sees_one_row_of_each_cell():
    """With one feature the cells are runs of sorted rows, as many as a step has rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20 * 64, 1))
    rows = rng.permutation(len(X)).reshape(20, 64)
    found = spread_out(rng, rows, X[rows])
    rank = np.empty(len(X), dtype=int)
    rank[np.argsort(X[:, 0])] = np.arange(len(X))
    cells = rank[found] // 20
    np.testing.assert_array_equal(np.sort(cells, axis=1), np.tile(np.arange(64), (20, 1)))


def test_means_over_a_step_vary_less_than_those_of_random_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20 * 512, 2))
    rows = rng.permutation(len(X)).reshape(20, 512)
    values = np.exp(-3.0 * ((X - 0.5) ** 2).sum(axis=1))
    at_random = values[rows].mean(axis=1).std()
    spread = values[spread_out(rng, rows, X[rows])].mean(axis=1).std()
    assert spread < 0.4 * at_random


def test_a_row_is_as_likely_in_one_step_as_in_another():
    rng = np.random.default_rng(2)
    X = np.arange(4.0 * 8)[:, None]
    rows = np.arange(4 * 8).reshape(4, 8)
    steps = np.zeros((32, 4))
    for _ in range(800):
        for step, seen in enumerate(spread_out(rng, rows, X[rows])):
            steps[seen, step] += 1
    # 800 draws of one in four: 200 of each, give or take 12
    assert np.abs(steps - 200).max() < 5.5 * np.sqrt(800 * 0.25 * 0.75)
