"""Sums over rows that Dask holds, against sums over the array."""

from __future__ import annotations

from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from atoll import GraphGPClassifier
from atoll.core.chunks import DaskRows, RowChunks

X = np.arange(24.0).reshape(12, 2)
Y = np.arange(12) % 3


def moments(number, rows, labels):
    """The sum of the rows, of the labels, and of the chunks' numbers."""
    rows = np.asarray(rows, dtype=float)
    return np.array([*rows.sum(axis=0), len(rows), np.sum(labels), number])


@pytest.mark.parametrize("n_chunks", [1, 2, 3, 4])
@pytest.mark.parametrize("ticks", [False, True])
def test_a_sum_over_partitions_is_the_sum_over_rows(n_chunks, ticks):
    heard = []
    source = DaskRows(da.from_array(X, chunks=(12 // n_chunks, 2)), Y)
    with dask.config.set(scheduler="synchronous"):
        found = source.total(moments, heard.append if ticks else None)
    exact = [*X.sum(axis=0), 12, Y.sum(), sum(range(n_chunks))]
    np.testing.assert_array_equal(found, exact)
    assert heard == ([12 // n_chunks] * n_chunks if ticks else [])


def test_labels_in_memory_are_cut_as_a_frame_of_unknown_lengths_is():
    frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "b"]), npartitions=3)
    with dask.config.set(scheduler="synchronous"):
        found = DaskRows(frame, Y).total(moments)
        np.testing.assert_array_equal(found[:4], [*X.sum(axis=0), 12, Y.sum()])
        with pytest.raises(ValueError, match="y has 11 labels and X has 12 rows"):
            DaskRows(frame, Y[:-1])


def test_a_row_with_too_many_cells_is_named(tmp_path):
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n3,4,5\n")
    with pytest.raises(ValueError, match="has 3 cells in line 3, and 2 columns: mend that line"):
        RowChunks.from_csv(tmp_path / "rows.csv").total(lambda number, X, y: len(X))


def test_labels_that_are_numbers_in_some_chunks_alone_are_refused_with_the_fix(tmp_path):
    (tmp_path / "rows.csv").write_text("x,kind\n1,2\n2,2\n3,A\n4,2\n")
    read = partial(RowChunks.from_csv, tmp_path / "rows.csv", "kind", chunk_rows=2)
    model = GraphGPClassifier(random_state=0)
    with pytest.raises(ValueError, match=r"'A' and 2; .*dtype=\{target: str\}"):
        model.fit(read())
    assert model.fit(read(dtype={"kind": str})).classes_.tolist() == ["2", "A"]
