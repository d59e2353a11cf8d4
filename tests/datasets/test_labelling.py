from __future__ import annotations

import numpy as np
import pytest

from atoll.core.labels import parse_labels
from atoll.datasets import hide_labels

Y = np.repeat([0, 1, 2], [10, 20, 30])


def test_per_class_keeps_that_many_true_labels_of_each_class():
    hidden = hide_labels(Y, per_class=4, random_state=0)
    assert hidden.dtype == np.int64
    kept = hidden != -1
    assert np.array_equal(hidden[kept], Y[kept])
    assert np.array_equal(np.bincount(hidden[kept]), [4, 4, 4])


@pytest.mark.parametrize(
    ("fraction", "expected"), [(0.1, [1, 2, 3]), (0.001, [1, 1, 1]), (1.0, [10, 20, 30])]
)
def test_fraction_keeps_that_share_and_at_least_one_of_each_class(fraction, expected):
    hidden = hide_labels(Y, fraction=fraction, random_state=0)
    kept = hidden != -1
    assert np.array_equal(hidden[kept], Y[kept])
    assert np.bincount(hidden[kept]).tolist() == expected


def test_every_row_of_a_class_is_as_likely_to_be_kept():
    rng = np.random.default_rng(1)
    n_repeats = 4000
    kept = sum(
        hide_labels(np.zeros(5, int), per_class=2, random_state=rng) != -1 for _ in range(n_repeats)
    )
    # Each count is Binomial(n_repeats, 2/5); six standard deviations.
    assert np.abs(kept - 0.4 * n_repeats).max() < 6 * np.sqrt(n_repeats * 0.4 * 0.6)


def test_same_seed_same_rows_and_the_input_is_left_alone():
    y = Y.copy()
    first = hide_labels(y, per_class=3, random_state=2)
    assert np.array_equal(first, hide_labels(y, per_class=3, random_state=2))
    assert np.array_equal(first, hide_labels(y, per_class=3, random_state=np.random.default_rng(2)))
    assert not np.array_equal(first, hide_labels(y, per_class=3, random_state=3))
    assert np.array_equal(y, Y)


@pytest.mark.parametrize(
    "y",
    [
        np.array([True, False, True, False]),
        np.array([1, 0, 1, 0], dtype=np.uint8),
        [1, 0, 1, 0],
        np.array([1, 0, 1, 0], dtype=object),
    ],
)
def test_booleans_and_integers_are_marked_by_minus_one(y):
    hidden = hide_labels(y, per_class=1, random_state=0)
    assert hidden.dtype == np.int64
    assert sorted(hidden.tolist()) == [-1, -1, 0, 1]


@pytest.mark.parametrize(
    "y",
    [
        np.array([-1, 1, -1, 1]),
        np.array(["a", "b", "a", "b"]),
        ["a", "b", "a", "b"],
        np.array([0.0, 1.0, 0.0, 1.0]),
    ],
)
def test_minus_one_as_a_class_strings_and_floats_are_marked_by_none(y):
    hidden = hide_labels(y, per_class=1, random_state=0)
    assert hidden.dtype == object
    kept = np.array([value is not None for value in hidden])
    assert kept.sum() == 2
    assert set(hidden[kept]) == set(np.asarray(y).tolist())
    assert hidden[kept].tolist() == np.asarray(y)[kept].tolist()
    # And they are read back with the classes they had.
    labels = parse_labels(hidden)
    assert np.array_equal(labels.is_labelled, kept)
    assert labels.classes.tolist() == sorted(set(np.asarray(y).tolist()))


def test_pandas_series_are_read():
    pandas = pytest.importorskip("pandas")
    hidden = hide_labels(pandas.Series(["a", "b", "a", "b"]), per_class=2)
    assert hidden.tolist() == ["a", "b", "a", "b"]


def test_marker_chosen_by_hand():
    assert hide_labels([0, 1, 0, 1], per_class=1, marker=None).tolist().count(None) == 2
    assert hide_labels([0, 1, 0, 1], per_class=1, marker=-1).tolist().count(-1) == 2


@pytest.mark.parametrize(
    ("y", "arguments", "message"),
    [
        (Y, {}, r"per_class=None and fraction=None; give one of the two"),
        (Y, {"per_class": 1, "fraction": 0.5}, r"per_class=1 and fraction=0.5; give one"),
        (Y, {"per_class": 0}, r"per_class=0; give an integer of at least 1"),
        (Y, {"per_class": 1.5}, r"per_class=1.5; give an integer"),
        (Y, {"per_class": True}, r"per_class=True; give an integer"),
        (Y, {"per_class": 11}, r"per_class=11, but class 0 has only 10 row\(s\); .* at most 10"),
        (["a", "a", "b"], {"per_class": 2}, r"class 'b' has only 1 row"),
        (Y, {"fraction": 0.0}, r"fraction=0.0; give a number above 0"),
        (Y, {"fraction": 1.5}, r"fraction=1.5"),
        (Y, {"fraction": np.nan}, r"fraction=nan"),
        ([], {"per_class": 1}, r"y is empty"),
        (["a", None, "b"], {"per_class": 1}, r"1 missing label\(s\), the first in row 1"),
        ([1.0, 2.0, np.nan], {"per_class": 1}, r"1 missing label\(s\), the first in row 2"),
        (Y, {"per_class": 1, "marker": 7}, r'marker=7; give "auto", -1 or None'),
        (Y, {"per_class": 1, "marker": "none"}, r"marker='none'; give"),
        (["a", "b"], {"per_class": 1, "marker": -1}, r"does not hold integers; pass marker=None"),
        ([-1, 1], {"per_class": 1, "marker": -1}, r"already holds the class -1"),
    ],
)
def test_bad_input_is_named_with_its_fix(y, arguments, message):
    with pytest.raises(ValueError, match=message):
        hide_labels(y, **arguments)
