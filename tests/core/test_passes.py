from __future__ import annotations

import numpy as np

from atoll.core.passes import keep_smallest, row_keys


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
