from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from atoll.core.labels import parse_labels, require_classes


def mask(y, **options):
    return parse_labels(y, **options).is_labelled.tolist()


@pytest.mark.parametrize(
    "y",
    [
        ["a", None, "b", "a"],
        ["a", float("nan"), "b", "a"],
        np.array(["a", None, "b", "a"], dtype=object),
        pd.Series(["a", None, "b", "a"]),
        pd.Series(["a", pd.NA, "b", "a"], dtype="string"),
        pd.Series(["a", pd.NA, "b", "a"], dtype=object),
        pd.Series(["a", None, "b", "a"], dtype="category"),
    ],
)
def test_any_null_is_unlabelled_among_strings(y):
    labels = parse_labels(y)
    assert labels.is_labelled.tolist() == [True, False, True, True]
    assert labels.classes.tolist() == ["a", "b"]
    assert labels.codes[labels.is_labelled].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "y",
    [
        [2, None, 5, 2],
        [2.0, np.nan, 5.0, 2.0],
        pd.Series([2, pd.NA, 5, 2], dtype="Int64"),
        pd.Series([2, None, 5, 2]),
        [2, -1, 5, 2],
        np.array([2, -1, 5, 2], dtype=np.int8),
        pd.Series([2, -1, 5, 2]),
    ],
)
def test_any_null_and_minus_one_are_unlabelled_among_integers(y):
    labels = parse_labels(y)
    assert labels.is_labelled.tolist() == [True, False, True, True]
    assert labels.classes.tolist() == [2, 5]


@pytest.mark.parametrize("y", [[-1, 1, 1], [-1, 1, None], np.array([-1, 1, -1])])
def test_minus_one_is_a_class_where_fewer_than_two_would_remain(y):
    assert parse_labels(y).classes.tolist() == [-1, 1]


def test_all_minus_one_is_all_unlabelled():
    assert not parse_labels([-1, -1]).is_labelled.any()


def test_minus_one_is_a_class_among_floats():
    assert parse_labels([-1.0, 0.0, 1.0, np.nan]).classes.tolist() == [-1.0, 0.0, 1.0]


def test_sign_codes_warn_and_the_parameter_settles_them():
    with pytest.warns(UserWarning, match="exactly -1, 0 and 1"):
        assert mask([-1, 0, 1]) == [False, True, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mask([-1, 0, 1], unlabelled=0) == [True, False, True]
        assert mask([-1, 0, 1], unlabelled=None) == [True, True, True]
        assert mask([-1, 0, 1], unlabelled=-1) == [False, True, True]


def test_a_named_value_is_unlabelled():
    assert mask(["a", "?", "b", None], unlabelled="?") == [True, False, True, False]


def test_booleans_are_classes():
    labels = parse_labels([True, None, False])
    assert labels.classes.tolist() == [False, True]
    assert labels.counts.tolist() == [1, 1]


def test_classes_keep_the_order_given_and_may_lack_labelled_rows():
    labels = parse_labels(["high", None, "low"], classes=["low", "middle", "high"])
    assert labels.codes.tolist() == [2, 0, 0]
    assert labels.counts.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (None, {}, "y is None"),
        ([[0, 1], [1, 0]], {}, "1d array"),
        (["a", 1], {}, "several types"),
        ([0.5, 1.25], {}, "Unknown label type"),
        ([0.0, np.inf], {}, "infinity"),
        (["a", "z"], {"classes": ["a", "b"]}, r"\['z'\]"),
        (["a", "b"], {"classes": ["a", "b", "a"]}, "twice"),
    ],
)
def test_unusable_labels_are_named(y, options, message):
    with pytest.raises(ValueError, match=message):
        parse_labels(y, **options)


def test_no_label_and_one_class_are_named_with_the_fix():
    with pytest.raises(ValueError, match="no labelled row among 3"):
        require_classes(parse_labels([None, None, None]))
    with pytest.raises(ValueError, match=r"one class \('setosa'\) among 2 labelled rows"):
        require_classes(parse_labels(["setosa", None, "setosa"]))
    require_classes(parse_labels(["a", "b"]))
