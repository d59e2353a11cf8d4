from __future__ import annotations

import numpy as np
import pytest
import scipy.io
from scipy import sparse

from atoll.datasets.matlab import read_matlab


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "stored.mat"
    scipy.io.savemat(path, {"X": sparse.csc_array(np.diag([1.0, 2.0])), "y": np.array([1, -1])})
    return path


def assert_as_stored(found):
    np.testing.assert_array_equal(sparse.csr_array(found["X"]).toarray(), np.diag([1.0, 2.0]))
    np.testing.assert_array_equal(found["y"].ravel(), [1, -1])


def test_sparse_and_dense_are_read_without_a_warning(file):
    assert_as_stored(read_matlab(file))
    assert read_matlab(file, squeeze_me=True)["y"].shape == (2,)


def test_a_scipy_that_knows_sparse_matrices_alone_will_do(file, monkeypatch):
    of_now = scipy.io.loadmat

    def of_then(file_name, mdict=None, appendmat=True, **options):
        if "spmatrix" in options:
            raise TypeError("got an unexpected keyword argument 'spmatrix'")
        return of_now(file_name, mdict, appendmat, spmatrix=True, **options)

    monkeypatch.setattr(scipy.io, "loadmat", of_then)
    assert_as_stored(read_matlab(file))
