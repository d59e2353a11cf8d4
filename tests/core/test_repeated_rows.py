"""Copies of labelled rows are told from rows that are equal by coincidence."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from atoll.core.repeated_rows import labels_are_copies, repeated_labels


def labelled_part(rng, X, n_labels, n_classes=2):
    """Classes of rows, -1 for all but some drawn at random; every class has one."""
    codes = np.full(len(X), -1)
    some = rng.permutation(len(X))[:n_labels]
    codes[some] = np.concatenate(
        [np.arange(n_classes), rng.integers(n_classes, size=n_labels - n_classes)]
    )
    return codes


def with_copies(X, codes, n=2):
    """The table with its labelled rows n times more, with their labels."""
    some = np.flatnonzero(codes >= 0)
    return np.concatenate([X, *[X[some]] * n]), np.concatenate([codes, *[codes[some]] * n])


def rounded(rng, n=150, d=8):
    """Measurements with so few digits that no column tells rows apart."""
    return rng.standard_normal((n, d)).round(1)


def answers(rng, n=300, d=5):
    """Yes or no to questions that hang together."""
    kind = rng.integers(2, size=(n, 1))
    return (rng.random((n, d)) < 0.2 + 0.6 * kind).astype(float)


def categories(rng, n=300, d=3, k=4):
    """Columns of categories, each as k columns of yes and no."""
    return np.concatenate([np.eye(k)[rng.integers(k, size=n)] for _ in range(d)], axis=1)


def ages(rng, n=300):
    """One column of whole numbers."""
    return rng.integers(20, 70, size=(n, 1)).astype(float)


def ages_and_flag(rng, n=300):
    """Whole numbers, and a flag that few rows have."""
    return np.column_stack([ages(rng, n)[:, 0], rng.random(n) < 0.05]).astype(float)


COINCIDING = [answers, categories, ages, ages_and_flag]


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_measurements_that_come_again_with_their_labels_are_copies(seed):
    rng = np.random.default_rng(seed)
    X = rounded(rng)
    codes = labelled_part(rng, X, 12)
    again, labels = with_copies(X, codes)
    assert repeated_labels(X, codes) is None
    found = repeated_labels(again, labels)
    assert np.array_equal(found >= 0, labels >= 0)
    known = np.flatnonzero(labels >= 0)
    equal = (again[known, None] == again[None, known]).all(axis=2)
    assert np.array_equal(found[known, None] == found[None, known], equal)


@pytest.mark.parametrize("make", COINCIDING)
def test_labels_of_rows_that_are_equal_by_coincidence_are_none(make):
    repeated = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = make(rng)
        codes = np.minimum(labelled_part(rng, X, int(rng.integers(2, 250))), 0)  # all agree
        repeated += len(np.unique(X[codes >= 0], axis=0)) < np.sum(codes >= 0)
        assert repeated_labels(X, codes) is None
    assert repeated > 20


@pytest.mark.parametrize(("make", "d"), [(answers, 10), (categories, 5)])
def test_labels_that_came_along_with_rows_of_few_values_are_copies(make, d):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = make(rng, d=d)
        again, labels = with_copies(X, np.minimum(labelled_part(rng, X, 15), 0), n=3)
        assert repeated_labels(again, labels) is not None


def test_labels_that_contradict_each_other_are_no_copies_but_for_a_few():
    rng = np.random.default_rng(0)
    X = rounded(rng)
    again, labels = with_copies(X, labelled_part(rng, X, 40), n=1)
    place = np.flatnonzero(labels >= 0)
    labels[place[-1]] = 1 - labels[place[-1]]
    found = repeated_labels(again, labels)
    assert len(np.unique(found[found >= 0])) == 41  # both labels of that row
    labels[place[-6:-1]] = 1 - labels[place[-6:-1]]
    assert repeated_labels(again, labels) is None


def test_tables_of_any_kind_are_compared():
    rng = np.random.default_rng(1)
    X = rounded(rng)
    again, labels = with_copies(X, labelled_part(rng, X, 10))
    wanted = repeated_labels(again, labels)
    frame = pd.DataFrame(again).assign(word=["w"] * len(again), blank=None)
    for table in (sparse.csr_array(again), frame, again.astype(object), again.tolist()):
        found = repeated_labels(table, labels)
        same = found[:, None] == found[None]
        assert np.array_equal(same, wanted[:, None] == wanted[None])
    blank = again.copy()
    blank[:, 0] = np.nan
    assert repeated_labels(blank, labels) is not None
    assert repeated_labels([f"text {i}" for i in range(len(again))], labels) is None
    uneven = [row[: 1 + i % 2] for i, row in enumerate(again.tolist())]
    assert repeated_labels(uneven, labels) is None
    assert repeated_labels(np.zeros(len(again)), labels) is None
    assert repeated_labels(pd.DataFrame(index=range(len(again))), labels) is None
    flags, wanted = again > 0, repeated_labels((again > 0).astype(int), labels)
    assert np.array_equal(repeated_labels(flags, labels), wanted)


def test_labels_of_rows_outside_are_of_rows_of_their_own():
    rows = np.random.default_rng(2).standard_normal((20, 3))
    place, codes = np.arange(15, 25), np.zeros(10, int)
    assert not labels_are_copies(rows, np.ones(20), place, codes)
