from __future__ import annotations

import numpy as np

from atoll.core.passes import as_rows, keep_smallest, row_keys


def test_a_reservoir_keeps_the_rows_of_the_smallest_keys_of_each_code():
    n, sizes = 3000, (400, 300, 5000)
    keys = row_keys(0, n, 3)
    codes = np.random.default_rng(0).integers(-1, 2, size=n)
    found = keep_smallest(keys, np.arange(n)[:, None], codes, sizes)
    expected = [
        row
        for code, size in zip((-1, 0, 1), sizes)
        for row in sorted(np.flatnonzero(codes == code), key=lambda row: keys[row])[:size]
    ]
    assert sorted(found.rows.ravel().tolist()) == sorted(int(row) for row in expected)


def test_keys_are_the_numbers_of_splitmix64():
    # The generator's first outputs from the state 0, as its authors publish them.
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert row_keys(1, 3, 0).tolist() == published


def test_rows_up_to_the_largest_key_of_what_was_cut_are_a_sample_of_all():
    keys = np.arange(12, dtype=np.uint64)
    codes = np.array([0, -1, 1, -1, 0, -1, -1, 1, -1, 0, -1, -1])
    rows = keys[:, None].astype(float)
    kept = keep_smallest(keys, rows, codes, sizes=(3, 4, 4))
    # Of the rows without a label only those with keys 1, 3 and 5 are left.
    assert kept.uniform_rows.ravel().tolist() == [0, 1, 2, 3, 4, 5]
    every = keep_smallest(keys, rows, codes, sizes=(99, 99, 99))
    assert every.uniform_rows.ravel().tolist() == list(range(12))


def test_numbers_keep_their_type_and_what_is_none_becomes_one():
    for dtype in (np.float32, np.int16, np.uint8):
        assert as_rows(np.ones((2, 2), dtype=dtype)).dtype == dtype
    for X in (np.array([[True, False]]), np.array([["1", "2.5"]]), [[None, 3]]):
        assert as_rows(X).dtype == np.float64
