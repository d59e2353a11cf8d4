"""Rows with blank numbers know what else these might have been."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from atoll.core import fillings
from atoll.core.chunks import RowChunks
from atoll.core.fillings import N_FILLINGS, averaged, fillings_of, part_of
from atoll.core.preprocessing import apply, prepare
from atoll.core.selection import some_rows

WORDS = ["a short note on weather", "ships and harbours of the north", "nothing to say here today"]


def table(rng, n=150, texts=False):
    """Numbers of unlike sizes, one of few values, and a category; blanks in a third of the rows."""
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "y": 1000.0 * rng.standard_normal(n),
            "grade": rng.integers(4, size=n).astype(float),
            "site": rng.choice(["a", "b"], n),
        }
    )
    if texts:
        frame["note"] = [f"{WORDS[i % 3]} number {i}" for i in range(n)]
    for name in ("x", "y", "grade"):
        frame.loc[rng.random(n) < 0.15, name] = np.nan
    return frame


def each_filling(X):
    """All fillings of the rows with blanks, (F, b, p)."""
    found = list(fillings_of(X).each(X, slice(None)))
    return np.array([rows.toarray() if sparse.issparse(rows) else rows for rows in found])


def test_all_blank_cells_of_a_row_are_those_of_one_of_the_donors_most_like_it():
    frame = table(np.random.default_rng(0))
    read = prepare(frame).preprocessing
    X = apply(read, frame)
    known, filled = fillings_of(X), each_filling(X)
    is_number = np.isin(read.features, ["x", "y", "grade"])
    raw = frame[["x", "y", "grade"]].to_numpy()
    np.testing.assert_array_equal(known.rows, np.flatnonzero(np.isnan(raw).any(axis=1)))
    donors = (read.donors - read.mean) / read.scale
    unit = read.donors.std(axis=0)
    unit[~is_number] = 1.0  # indicators count as they are
    for i, row in enumerate(known.rows):
        blank = known.is_blank[i]
        np.testing.assert_array_equal(blank[is_number], np.isnan(raw[row]))
        np.testing.assert_array_equal(filled[:, i, ~blank], np.tile(X[row, ~blank], (8, 1)))
        apart = ((X[row] - donors) * read.scale / unit)[:, ~blank]
        squares = (apart**2).sum(axis=1)
        nearest = np.argsort(squares)[:N_FILLINGS]
        if np.diff(np.sort(squares)[N_FILLINGS - 1 : N_FILLINGS + 1]) > 1e-9:
            expected = sorted(map(tuple, donors[nearest][:, blank]))
            assert sorted(map(tuple, filled[:, i, blank])) == expected


@pytest.mark.parametrize("texts", [False, True])
def test_a_row_has_the_same_fillings_whichever_rows_stand_beside_it(texts):
    frame = table(np.random.default_rng(1), texts=texts)
    read = prepare(frame, texts=["note"] if texts else []).preprocessing
    whole = apply(read, frame)
    assert sparse.issparse(whole) == texts
    filled = each_filling(whole)
    places = np.flatnonzero(frame[["x", "y", "grade"]].isna().any(axis=1))
    for part in (slice(40, 90), np.array([places[9], 0, places[3]]), np.arange(150) % 2 == 1):
        rows = np.arange(150)[part]
        asked = np.searchsorted(places, rows[np.isin(rows, places)])
        for some in (part_of(whole, part), some_rows(whole, rows), apply(read, frame.iloc[rows])):
            np.testing.assert_array_equal(each_filling(some), filled[:, asked])


def test_what_is_made_from_rows_knows_no_fillings():
    frame = table(np.random.default_rng(2))
    X = apply(prepare(frame).preprocessing, frame)
    for other in (X[:9], X * 2.0, X.copy(), np.asarray(X), pd.DataFrame({"fillings": [1.0]})):
        assert fillings_of(other) is None
    complete = frame.fillna({"x": 0.0, "y": 0.0, "grade": 1.0})
    assert type(apply(prepare(complete).preprocessing, complete)) is np.ndarray
    few = frame.iloc[:25]  # too few donors: medians, of which there is one filling only
    assert fillings_of(apply(prepare(few).preprocessing, few)) is None


def test_chunks_of_rows_know_their_fillings():
    frame = table(np.random.default_rng(3))
    X = apply(prepare(frame).preprocessing, frame)
    parts = [rows for rows, _ in RowChunks.from_arrays(X, chunk_rows=31).make()]
    np.testing.assert_array_equal(
        np.concatenate([each_filling(part) for part in parts], axis=1), each_filling(X)
    )


def test_an_average_is_that_over_fillings_in_pieces_as_at_once(monkeypatch):
    frame = table(np.random.default_rng(4))
    X = apply(prepare(frame).preprocessing, frame)

    def proba(rows):
        p = 1.0 / (1.0 + np.exp(-rows[:, 0] * rows[:, 1]))
        return np.column_stack([p, 1.0 - p])

    known = fillings_of(X)
    found = averaged(proba, X, known)
    plain = np.setdiff1d(np.arange(len(X)), known.rows)
    np.testing.assert_array_equal(found[plain], proba(np.asarray(X))[plain])
    each = [proba(rows) for rows in each_filling(X)]
    np.testing.assert_allclose(found[known.rows], np.mean(each, axis=0), atol=1e-15)
    monkeypatch.setattr(fillings, "ROWS_AT_ONCE", 7)
    np.testing.assert_array_equal(averaged(proba, X, known), found)


def test_of_donors_as_near_as_each_other_not_the_first_of_the_table_are_taken():
    """Tables are often sorted by class."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": np.arange(200.0), "site": ["a"] * 200, "z": rng.random(200)})
    read = prepare(frame).preprocessing
    asked = pd.DataFrame({"x": [None], "site": ["a"], "z": [None]}).astype({"x": float, "z": float})
    x = each_filling(apply(read, asked))[:, 0, 0] * read.scale[0] + read.mean[0]
    assert x.min() < 70.0
    assert x.max() > 130.0
