from __future__ import annotations

import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow
import pytest
from sklearn.exceptions import DataConversionWarning

from atoll.core.labels import (
    _column_values,
    parse_labels,
    part_of_labels,
    require_classes,
    unlabelled_marker,
    with_extra_classes,
)
from atoll.datasets import hide_labels


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


def test_minus_one_among_whole_floats_is_what_it_is_among_integers():
    assert parse_labels(np.array([2.0, -1.0, 5.0])).is_labelled.tolist() == [True, False, True]
    assert parse_labels(pd.Series([2.0, -1.0, 5.0])).classes.tolist() == [2.0, 5.0]
    assert parse_labels([-1.0, 1.0, 1.0]).classes.tolist() == [-1.0, 1.0]
    assert parse_labels([-1.0, 0.0, 1.0], unlabelled=None).n_labelled == 3
    assert parse_labels([-1.0, 3.0], classes=[3.0, 4.0]).n_labelled == 1
    with pytest.warns(UserWarning, match=r"y holds -1 \(1 rows\) and 7 \(1 rows\) alone"):
        assert parse_labels([-1.0, 7.0]).n_labelled == 2


def test_nulls_and_minus_one_beside_each_other_are_remarked_on():
    with pytest.warns(UserWarning, match=r"beside nulls \(1 rows\); both are read as unlabelled"):
        assert parse_labels([-1.0, 0.0, 1.0, np.nan]).classes.tolist() == [0.0, 1.0]
    assert parse_labels([-1.0, 0.0, 1.0, np.nan], unlabelled=None).n_labelled == 3


def test_the_standard_coding_of_two_classes_and_unlabelled_rows_is_no_cause_for_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mask([-1, 0, 1]) == [False, True, True]
        assert mask(hide_labels([0, 1, 0, 1], per_class=1, random_state=0)).count(True) == 2
        assert mask([-1, 0, 1], unlabelled=0) == [True, False, True]
        assert mask([-1, 0, 1], unlabelled=None) == [True, True, True]
        assert mask([-1, 0, 1], unlabelled=-1) == [False, True, True]


@pytest.mark.parametrize("y", [[-1, 0, 0], [-1, 7, -1], [1] + 9 * [-1]])
def test_one_class_and_minus_one_warn_that_they_are_read_as_two_classes(y):
    with pytest.warns(UserWarning, match=r"alone, read as two classes\. If -1 means unlabelled"):
        assert len(parse_labels(y).classes) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(parse_labels(y, unlabelled=None).classes) == 2
        assert len(parse_labels(y, unlabelled=-1).classes) == 1


DAYS = ["2020-01-01", "NaT", "2021-01-01", "2020-01-01"]


@pytest.mark.parametrize(
    "y",
    [
        np.array(DAYS, dtype="datetime64[D]"),
        pd.Series(pd.to_datetime(DAYS)),
        [np.datetime64(day) for day in DAYS],
        [pd.Timestamp(day) for day in DAYS],
        pd.Series(pd.to_timedelta(["1 day", "NaT", "2 days", "1 day"])),
        pd.Series(["a", None, "b", "a"], dtype=pd.ArrowDtype(pyarrow.string())),
        pyarrow.array(["a", None, "b", "a"]),
        [Decimal(1), Decimal("nan"), Decimal(2), Decimal(1)],
        np.array(["a", np.nan, "b", "a"], dtype=np.dtypes.StringDType(na_object=np.nan)),
    ],
)
def test_no_null_of_any_library_becomes_a_class(y):
    labels = parse_labels(y)
    assert labels.is_labelled.tolist() == [True, False, True, True]
    assert len(labels.classes) == 2


class PolarsSeries:
    """As a polars series: NumPy knows neither its type nor its nulls."""

    dtype = "String"

    def __init__(self, cells):
        self.cells = cells

    def to_list(self):
        return list(self.cells)

    def to_numpy(self):
        return np.array(["" if cell is None else cell for cell in self.cells])


def test_a_polars_series_keeps_its_nulls():
    assert mask(PolarsSeries(["a", None, "b"])) == [True, False, True]


@pytest.mark.parametrize("word", ["?", "", "unknown", "Unlabeled", "unlabelled", "N/A", "-1"])
def test_a_word_that_may_mean_unlabelled_is_remarked_on(word):
    y = ["a", "b", word, word]
    with pytest.warns(UserWarning, match=f"2 of 4 rows .*pass unlabelled={re.escape(repr(word))}"):
        assert len(parse_labels(y).classes) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(parse_labels(y, unlabelled=word).classes) == 2
        assert len(parse_labels(y, unlabelled=None).classes) == 3
        most = ["a", "b", word, word, word]
        assert parse_labels(most, unlabelled=word).n_labelled == 2
        assert parse_labels(most, unlabelled=None).n_labelled == 5
        with pytest.raises(ValueError, match=f"3 of 5 rows .*unlabelled={re.escape(repr(word))}"):
            parse_labels(most)


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
        ("kind", {}, r"y is the word 'kind' and not labels; .* table\['kind'\]"),
        (["a", 1], {}, "several types"),
        ([0.5, 1.25], {}, "Unknown label type"),
        ([0.0, np.inf], {}, "infinity"),
        (np.array([2.0**62, 2.0**62 + 1, np.nan]), {}, "classes may have been merged"),
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


def test_minus_one_is_a_class_where_classes_name_it():
    labels = parse_labels([-1, 0, 1, None], classes=[-1, 0, 1])
    assert labels.is_labelled.tolist() == [True, True, True, False]
    assert parse_labels([-1, 0, 1], classes=[-1, 0, 1], unlabelled=-1).n_labelled == 2


@pytest.mark.parametrize(
    ("y", "unlabelled", "marker"),
    [
        ([3, 4, -1], "auto", -1),
        ([3, 4, None], "auto", -1),
        ([3.0, 4.0, np.nan], "auto", -1),
        ([-1, 1, 1], "auto", None),
        ([-1.0, 0.0, 1.0], "auto", -1),
        (["a", "b", None], "auto", -1),
        ([True, False, None], "auto", -1),
        (["a", "b", "auto?"], "auto?", "auto?"),
        ([-1, 0, 1], 0, 0),
        ([-1, 0, 1], None, None),
    ],
)
def test_labels_read_again_by_the_marker_are_the_same(y, unlabelled, marker):
    labels = parse_labels(y, unlabelled=unlabelled)
    assert unlabelled_marker(labels, unlabelled) == marker
    again = parse_labels(y, unlabelled=marker)
    assert again.is_labelled.tolist() == labels.is_labelled.tolist()
    assert again.classes.tolist() == labels.classes.tolist()


@pytest.mark.parametrize(
    ("classes", "extra", "expected"),
    [
        ([4, 7], 0, [4, 7]),
        ([4, 7], 2, [4, 7, 8, 9]),
        ([7, 4], 1, [7, 4, 8]),
        ([4.0, 7.0], 1, [4.0, 7.0, 8.0]),
        (["a", "b"], 2, ["a", "b", "extra 1", "extra 2"]),
        (np.array(["a", "b"]), ("new",), ["a", "b", "new"]),
        ([4, 7], [1, 30], [4, 7, 1, 30]),
        ([False, True], 0, [False, True]),
        ([False, True], [], [False, True]),
        ([], 2, ["extra 1", "extra 2"]),
        (np.array([]), ["new"], ["new"]),
    ],
)
def test_extra_classes_follow_those_with_labels(classes, extra, expected):
    found = with_extra_classes(classes, extra).tolist()
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


def test_numbers_of_extra_classes_outgrow_a_narrow_dtype():
    found = with_extra_classes(np.array([0, 127], dtype=np.int8), 2)
    assert found.tolist() == [0, 127, 128, 129]
    assert with_extra_classes(np.array([0, 1], dtype=np.int32), 1).dtype == np.int32


@pytest.mark.parametrize(
    ("classes", "extra", "message"),
    [
        ([4, 7], -1, "extra_classes must be a whole number of at least 0, got -1"),
        ([4, 7], True, "must be a whole number or a sequence of names, got True"),
        ([4, 7], 1.5, "must be a whole number or a sequence of names, got 1.5"),
        (["a", "b"], "new", "must be a whole number or a sequence of names, got 'new'"),
        ([4, 7], [7], "names 7, a class that is there already"),
        (["a", "b"], ["new", "new"], "names 'new', a class that is there already"),
        (["a", "extra 1"], 1, "names 'extra 1', a class that is there already"),
        ([4, 7], ["new"], "several types .number, string.; make them all strings"),
        (["a", "b"], [3], "several types .number, string.; make them all strings"),
        ([False, True], 1, "booleans, which have room for two classes; make the labels strings"),
    ],
)  # fmt: skip
def test_unusable_extra_classes_are_refused_with_the_fix(classes, extra, message):
    with pytest.raises(ValueError, match=message):
        with_extra_classes(classes, extra)


@pytest.mark.parametrize(
    ("count", "share"), [(1, "y has"), (2, "2 of 42 labelled rows"), (40, "40 of 80 labelled rows")]
)
def test_a_word_for_no_label_is_remarked_on_however_few_rows_have_it(count, share):
    y = ["unknown"] * count + ["a", "b"] * 20 + [None] * 400
    with pytest.warns(UserWarning, match=f"^{share}.* the label 'unknown'.*unlabelled='unknown'"):
        parse_labels(y)


def test_a_word_for_no_label_is_refused_where_most_labelled_rows_have_it():
    y = ["unknown"] * 41 + ["a", "b"] * 20 + [None] * 400
    with pytest.raises(ValueError, match=r"^41 of 81 labelled rows have the label 'unknown'"):
        parse_labels(y)


@pytest.mark.parametrize("kind", ["S", object])
def test_bytes_for_no_label_are_refused_as_words_are(kind):
    y = np.array([b"ant", b"bee", b"", b"", b""], dtype=kind)
    with pytest.raises(ValueError, match=r"3 of 5 rows have the label b''.*unlabelled=b''"):
        parse_labels(y)
    assert parse_labels(y, unlabelled=b"").is_labelled.tolist() == [True, True, False, False, False]


def test_a_part_of_the_labels_has_one_of_each_class_and_no_more_than_it_may():
    codes = np.repeat(np.arange(6), 3)
    part = part_of_labels(np.random.default_rng(0), codes, 4)
    assert sorted(codes[part].tolist()) == list(range(6))
    part = part_of_labels(np.random.default_rng(0), codes, 9)
    assert len(part) == 9
    assert set(codes[part].tolist()) == set(range(6))


class OneColumn:
    """A frame of one column as polars has them: no types of NumPy, no `iloc`."""

    shape = (3, 1)

    def to_series(self):
        return pyarrow.array(["a", None, "b"])


def test_a_frame_of_one_column_is_that_column():
    for column in (OneColumn(), pd.DataFrame({"y": ["a", None, "b"]}, dtype=object)):
        assert _column_values(column).tolist() == [["a"], [None], ["b"]]


def test_a_column_of_labels_is_read_with_a_warning():
    with pytest.warns(DataConversionWarning, match="1d array"):
        labels = parse_labels(np.array([["a"], ["b"], ["a"]]))
    assert labels.codes.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match=r"got an array of shape \(2, 2\) instead"):
        parse_labels(np.array([["a", "b"], ["b", "a"]]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32])
def test_classes_keep_the_type_of_the_labels(dtype):
    assert parse_labels(np.array([3, 5, 3], dtype=dtype)).classes.dtype == dtype
    assert with_extra_classes(np.array([3, 5], dtype=dtype), 1).dtype.kind == np.dtype(dtype).kind


def test_whole_numbers_that_floating_point_merges_are_refused():
    last = 2.0**53 - 1  # the last one whose neighbours are told apart
    assert parse_labels(np.array([1.0, last])).classes.tolist() == [1.0, last]
    for merged in (2.0**53, -(2.0**60)):
        with pytest.raises(ValueError, match=f"whole numbers such as {merged:.0f}"):
            parse_labels(np.array([1.0, merged]))


def test_classes_that_differ_by_blanks_alone_are_remarked_on():
    with pytest.warns(UserWarning, match=r"'oak' and 'oak ', which differ by blanks alone"):
        parse_labels(np.array(["oak", "oak ", "ash", None], dtype=object))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_labels(np.array(["oak", "oak tree", "ash", None], dtype=object))


@pytest.mark.parametrize(
    "values", [[3, 4, 3], ["a", "b", "a"], [0.0, 1.0, 0.0], [True, False, True]]
)
def test_masked_entries_are_unlabelled(values):
    given = np.ma.masked_array(values, mask=[False, False, True])
    labels = parse_labels(given)
    assert labels.is_labelled.tolist() == [True, True, False]
    assert labels.classes.tolist() == sorted(set(values))
    assert type(labels.classes.tolist()[0]) is type(values[0])
    assert not np.ma.isMaskedArray(labels.classes)


@pytest.mark.parametrize("word", [np.str_, str])
def test_labels_that_are_words_of_numpy_become_words_of_python(word):
    y = [word("hen"), word("owl"), None]
    for labels in (parse_labels(y), parse_labels(y, classes=np.array(["owl", "hen"]))):
        assert {type(name) for name in labels.classes.tolist()} == {str}
    found = with_extra_classes(labels.classes, np.array(["fox"])).tolist()
    assert [(type(name), name) for name in found] == [(str, "owl"), (str, "hen"), (str, "fox")]


def test_labels_that_are_tuples_are_refused_with_the_way_out():
    y = pd.Series([("a", 1), ("b", 2), None], dtype=object)
    with pytest.raises(ValueError, match=r"labels that are tuples, such as \('a', 1\); make each"):
        parse_labels(y)
    assert parse_labels(y.map(str, na_action="ignore")).n_labelled == 2


def test_several_values_may_mean_unlabelled():
    y = ["a", "?", "b", "todo", None]
    for several in (["?", "todo"], ("?", "todo"), {"?", "todo"}):
        assert mask(y, unlabelled=several) == [True, False, True, False, False]
    assert mask(np.array([0, 99, 1, 98]), unlabelled=[98, 99]) == [True, False, True, False]


@pytest.mark.parametrize("column", [np.array, pd.Index, pd.Series, pd.array])
def test_values_that_mean_unlabelled_may_be_an_array_or_a_column(column):
    y = ["a", "?", "b", "todo", None]
    several = column(["?", "todo"])
    assert mask(y, unlabelled=several) == [True, False, True, False, False]
    found = unlabelled_marker(parse_labels(y, unlabelled=several), several)
    assert found == ["?", "todo"]
    assert mask(np.array([0, 99, 1]), unlabelled=column([99])) == [True, False, True]


def test_a_mapping_of_markers_is_refused_by_name():
    with pytest.raises(ValueError, match=r"is a dict; give the values .* unlabelled=\['\?'\]"):
        parse_labels(["a", "?", "b"], unlabelled={"?": "unknown"})


@pytest.mark.parametrize(
    ("y", "unlabelled", "meant"),
    [
        (["a", "b", "unknown"], "Unknown", "'unknown'"),
        (["a", "b", "unknown"], ["todo", "unknown "], "'unknown'"),
        ([0, 1, 99], "99", "99"),
        (["a", "b", "-1"], -1, "'-1'"),
    ],
)
def test_a_marker_that_differs_from_a_label_in_its_form_alone_is_refused(y, unlabelled, meant):
    with pytest.raises(ValueError, match=f"write it as y does, unlabelled={re.escape(meant)}"):
        parse_labels(y, unlabelled=unlabelled)


def test_a_second_word_for_unlabelled_is_remarked_on_beside_the_first():
    y = ["a", "b", "?", "todo", "todo"]
    with pytest.warns(UserWarning, match="give unlabelled a list that has 'todo' as well"):
        assert parse_labels(y, unlabelled="?").classes.tolist() == ["a", "b", "todo"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_labels(y, unlabelled=["?", "todo"]).classes.tolist() == ["a", "b"]
        named = parse_labels(y, unlabelled="?", classes=["a", "b", "todo"])
        assert named.n_labelled == 4
        parse_labels(["auto", "bus"], unlabelled="auto")
