from __future__ import annotations

import importlib.util

import numpy as np
import pandas as pd
import pytest

from atoll.core import preprocessing as preprocess
from atoll.core import table_refusals
from atoll.core.labels import parse_labels, read_target
from atoll.core.preprocessing import (
    apply,
    category_weight,
    extra_columns,
    is_filled,
    prepare,
    unreadable,
    unseen,
)
from atoll.core.table_fixes import SHELL
from atoll.core.tables import read_table, write_table


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "height": [1.5, 1.75, 2.0, 1.0],
            "count": [1, 2, 3, 4],
            "wet": [True, False, True, True],
            "hue": ["red", "blue", "red", "green"],
            "kind": ["a", None, "b", ""],
        }
    )


def test_repeated_column_names_are_refused():
    with pytest.raises(ValueError, match="column 'x' more than once"):
        prepare(pd.DataFrame([[1, 2]], columns=["x", "x"]))


def test_numeric_columns_are_standardised(frame):
    X, _, preprocessing = prepare(frame, "kind", drop=["hue"])
    assert preprocessing.columns == preprocessing.features == ("height", "count", "wet")
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(X.std(axis=0), 1, rtol=1e-15)
    raw, _, plain = prepare(frame, "kind", drop=["hue"], standardise=False)
    assert not plain.standardised
    np.testing.assert_array_equal(raw[:, 0], frame["height"])


def test_a_number_of_few_values_counts_as_it_would_as_a_category():
    rng = np.random.default_rng(0)
    year = rng.integers(2007, 2010, size=300)
    X = prepare(pd.DataFrame({"x": rng.normal(size=300), "year": year})).X
    words = prepare(pd.DataFrame({"year": year.astype(str)})).X

    def mean_square(Z):  # over all pairs of rows
        return 2 * np.sum(Z.var(axis=0))

    np.testing.assert_allclose(mean_square(X[:, 1:]), mean_square(words), rtol=1e-12)
    np.testing.assert_allclose(X[:, 0].std(), 1.0)
    assert len(np.unique(X[:, 1])) == 3


def test_a_constant_column_becomes_zero_and_tells_new_values_apart():
    # 0.1 is not representable: the mean of many is not exactly 0.1.
    table = pd.DataFrame({"x": [0.1] * 1001, "y": np.arange(1001)})
    X, _, preprocessing = prepare(table)
    assert set(X[:, 0]) == {0.0}
    assert apply(preprocessing, pd.DataFrame({"x": [1.1], "y": [0]}))[0, 0] == 1.0


def test_huge_and_tiny_columns_are_standardised_without_overflow():
    table = pd.DataFrame({"huge": [1e300, 2e300, -1e300], "tiny": [1e-300, 3e-300, 2e-300]})
    X, _, _ = prepare(table)
    np.testing.assert_allclose(X.std(axis=0), 1)


def test_new_rows_are_treated_as_the_old_ones_whatever_their_order_of_columns(frame):
    X, _, preprocessing = prepare(frame, "kind")
    shuffled = frame[["hue", "kind", "wet", "count", "height"]].assign(note="new")
    np.testing.assert_array_equal(apply(preprocessing, shuffled), X)
    np.testing.assert_array_equal(apply(preprocessing, shuffled.iloc[[2]]), X[[2]])
    assert extra_columns(preprocessing, shuffled) == ["kind", "note"]


def test_categorical_columns_are_refused_by_name_with_the_ways_out(frame):
    with pytest.raises(ValueError, match=r"'hue'.*--encode.*--drop hue"):
        prepare(frame, "kind", encode=False)


def test_encoded_columns_have_one_indicator_a_value(frame):
    X, _, preprocessing = prepare(frame, "kind")
    assert preprocessing.features[-3:] == ("hue=blue", "hue=green", "hue=red")
    np.testing.assert_array_equal(X[:, -3:].sum(axis=1), 1)
    np.testing.assert_array_equal(X[:, -1], [1, 0, 1, 0])


def test_a_category_not_seen_before_is_named_or_taken_as_blank(frame):
    mauve = frame.assign(hue=["mauve", "red", "red", "red"])
    strict = prepare(frame, "kind", impute=False).preprocessing
    with pytest.raises(ValueError, match=r"'hue' holds 'mauve'.*'blue', 'green', 'red'"):
        apply(strict, mauve)
    lenient = prepare(frame, "kind").preprocessing
    assert unseen(lenient, mauve) == {"hue": {"mauve": 1}}
    X = apply(lenient, mauve)
    np.testing.assert_array_equal(X[0, -3:], 0.0)
    np.testing.assert_array_equal(X[1:, -3:], [[0, 0, 1]] * 3)


def test_a_column_of_identifiers_is_not_encoded():
    table = pd.DataFrame({"id": [f"row{i}" for i in range(101)], "x": np.arange(101.0)})
    with pytest.raises(ValueError, match=r"101 different values.*--drop id"):
        prepare(table)


def test_columns_missing_from_new_rows_are_named(frame):
    preprocessing = prepare(frame, "kind").preprocessing
    with pytest.raises(ValueError, match="lacks columns 'height', 'hue'"):
        apply(preprocessing, frame.drop(columns=["height", "hue"]))


def test_words_among_the_numbers_of_new_rows_are_named(frame):
    preprocessing = prepare(frame, "kind").preprocessing
    with pytest.raises(ValueError, match="column 'height' is not numeric"):
        apply(preprocessing, frame.assign(height=["tall", "1", "2", "3"]))


def blanks():
    """Forty rows: a number that is blank once, one that is blank often, two such categories."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"seldom": rng.normal(size=40), "often": rng.normal(size=40)})
    table["hue"] = ["red", "blue"] * 20
    table["site"] = ["a", "b", "c", "c"] * 10
    table.loc[3, "seldom"] = np.nan
    table.loc[[5, 6, 7], "often"] = np.nan
    table.loc[9, "hue"] = None
    table.loc[[11, 12, 13, 14], "site"] = None
    return table


def test_blank_cells_are_filled_and_said_where_they_are_frequent():
    table = blanks()
    X, _, preprocessing = prepare(table, standardise=False)
    assert preprocessing.features == (
        *("seldom", "often", "often is blank", "hue=blue", "hue=red"),
        *("site=a", "site=b", "site=c", "site is blank"),
    )
    assert not np.isnan(X).any()
    np.testing.assert_array_equal(X[:, 2], table["often"].isna())
    np.testing.assert_array_equal(X[9, 3:5], 0.0)
    np.testing.assert_array_equal(X[:, 5:].sum(axis=1), 1.0)
    np.testing.assert_array_equal(X[:, -1], table["site"].isna())
    np.testing.assert_array_equal(apply(preprocessing, table), X)
    standardised = prepare(table)
    np.testing.assert_allclose(standardised.X[:, :2].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_array_equal(standardised.X[:, 2:], X[:, 2:])


def test_a_blank_cell_of_a_new_row_is_filled_as_those_of_the_fit_would_be(frame):
    X, _, preprocessing = prepare(frame, "kind", standardise=False)
    new = frame.iloc[[0]].assign(height=np.nan, hue=None)
    filled = apply(preprocessing, new)[0]
    assert filled[0] == np.median(frame["height"])
    np.testing.assert_array_equal(filled[1:3], X[0, 1:3])
    np.testing.assert_array_equal(filled[3:], 0.0)


def test_blank_cells_are_named_by_row_and_column_where_they_are_refused(frame):
    broken = frame.copy()
    broken.loc[2, "height"] = np.nan
    with pytest.raises(ValueError, match=r"row 3 of 'height'.*--impute"):
        prepare(broken, "kind", impute=False)
    with pytest.raises(ValueError, match="row 3 of 'height'"):
        apply(prepare(frame, "kind", impute=False).preprocessing, broken)
    table = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64"), "hue": ["red", "red", None]})
    with pytest.raises(ValueError, match="row 2 of 'n', row 3 of 'hue'"):
        prepare(table, impute=False)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_values_are_named_by_row_and_column(frame, bad):
    broken = frame.copy()
    broken.loc[2, "height"] = bad
    with pytest.raises(ValueError, match=r"infinite values.*row 3 of 'height'"):
        prepare(broken, "kind")
    with pytest.raises(ValueError, match=r"infinite values.*row 3 of 'height'"):
        apply(prepare(frame, "kind").preprocessing, broken)


def test_many_missing_values_are_counted():
    with pytest.raises(ValueError, match="and 2 more"):
        prepare(pd.DataFrame({"x": [np.nan] * 7 + [1.0], "y": range(8)}), impute=False)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (pd.date_range("2020-01-01", periods=3), "'bad' holds dates.*--drop bad"),
        ([[1, 2], [3], [4]], r"'bad' holds lists, such as '\[1, 2\]'.*--drop bad"),
        (["[1, 2]", "[3]", "[4]"], r"'bad' holds lists, such as '\[1, 2\]'.*--drop bad"),
        ([{"a": 1}, None, None], "'bad' holds dicts.*--drop bad"),
        ([None, None, None], "'bad' is blank in every row.*--drop bad"),
    ],
)
def test_columns_that_are_neither_numbers_nor_categories_are_named(cells, message):
    with pytest.raises(ValueError, match=message):
        prepare(pd.DataFrame({"x": [1.0, 2.0, 3.0], "bad": cells}))


def test_text_of_many_dates_is_called_dates():
    days = pd.date_range("2020-01-01", periods=200).strftime("%d.%m.%Y")
    with pytest.raises(ValueError, match="'day' holds dates"):
        prepare(pd.DataFrame({"day": days, "x": range(200)}))


def test_many_levels_are_refused_in_one_line():
    table = pd.DataFrame({"id": np.arange(100_000).astype(str), "x": np.ones(100_000)})
    with pytest.raises(ValueError, match=r"100000 different values.*--drop id") as refusal:
        prepare(table)
    assert "\n" not in str(refusal.value)


def test_rows_of_nothing_but_blanks_are_named(frame):
    empty = frame.astype(object)
    empty.loc[[1, 3], ["height", "count", "wet", "hue"]] = None
    empty = empty.infer_objects()
    with pytest.raises(ValueError, match=r"rows 2, 4: every cell.*leave such rows out"):
        prepare(empty, "kind")


def test_rows_that_cannot_be_read_are_told_from_the_others(frame):
    table = pd.DataFrame(
        {
            "height": [1.5, "tall", None, 1.0, np.inf],
            "count": [1, 2, None, 4, 5],
            "wet": [True, True, None, False, True],
            "hue": ["red", "red", None, "mauve", "red"],
        }
    )
    lenient = prepare(frame, "kind").preprocessing
    read, reasons = unreadable(lenient, table)
    assert reasons.tolist() == [
        None,
        "height is 'tall', not a number",
        "every cell that the model reads is blank",
        None,
        "height is infinite",
    ]
    readable = read[[reason is None for reason in reasons]]
    assert np.isfinite(apply(lenient, readable.infer_objects())).all()
    strict = prepare(frame, "kind", impute=False).preprocessing
    assert unreadable(strict, table)[1].tolist()[2:4] == [
        "every cell that the model reads is blank",
        "hue is 'mauve', not seen before",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "kinds"}, "did you mean 'kind'"),
        ({"target": "species"}, "its columns are 'height'"),
        ({"target": "kind", "drop": ["colour"]}, "'colour' is not in the table"),
        ({"target": "kind", "drop": ["kind"]}, "is the target"),
        ({"target": "kind", "drop": ["height", "count", "wet", "hue"]}, "no column is left"),
    ],
)
def test_columns_that_are_asked_for_must_be_there(frame, options, message):
    with pytest.raises(ValueError, match=message):
        prepare(frame, **options)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("kind", "classes"),
    [
        ([1, None, 0, 1], [0, 1]),
        (["cat", None, "dog", "cat "], ["cat", "dog"]),
        (["cat", " ", "dog", "cat"], ["cat", "dog"]),
        ([True, None, False, True], [False, True]),
    ],
)
def test_blank_cells_of_the_target_are_unlabelled(tmp_path, suffix, kind, classes):
    write_table(pd.DataFrame({"x": range(4), "kind": kind}), tmp_path / f"t{suffix}")
    labels = parse_labels(prepare(read_table(tmp_path / f"t{suffix}"), "kind").y)
    assert labels.is_labelled.tolist() == [True, False, True, True]
    assert labels.classes.tolist() == classes
    assert labels.codes[3] == labels.codes[0] != labels.codes[2]


def test_integer_labels_stay_integers_beside_blank_cells(tmp_path):
    (tmp_path / "t.csv").write_text("x,kind\n1,3\n2,\n3,10\n")
    y = prepare(read_table(tmp_path / "t.csv"), "kind").y
    assert y.tolist() == [3, None, 10]
    assert parse_labels(y).classes.dtype.kind == "i"


def test_a_complete_numeric_target_is_a_plain_array():
    assert read_target(pd.Series([1, 2, 1])).dtype.kind == "i"
    assert read_target(pd.Series([True, False])).dtype.kind == "b"
    assert read_target(pd.Series([0.5, 1.0])).dtype.kind == "f"


def test_without_a_target_there_are_no_labels(frame):
    assert prepare(frame[["height", "count"]]).y is None


def test_a_table_without_a_column_of_the_model_is_not_read():
    _, _, preprocessing = prepare(pd.DataFrame({"x": [1.0, 3.0], "z": [0.0, 1.0]}))
    with pytest.raises(ValueError, match="lacks column 'z'"):
        unreadable(preprocessing, pd.DataFrame({"x": [2.0]}))


def test_one_blank_cell_in_twenty_is_often():
    column = pd.Series([None] + [1.0] * 19, dtype=float)
    assert preprocess._often_blank(column)
    assert not preprocess._often_blank(pd.Series([*column, 1.0]))


@pytest.mark.parametrize(("count", "rest"), [(5, ""), (6, " and 1 more")])
def test_five_wrong_cells_are_named_and_others_counted(count, rest):
    frame = pd.DataFrame({"x": [None] * count + [1.0]})
    said = table_refusals._cells(frame, ["x"], lambda column: column.isna())
    assert said == ", ".join(f"row {i + 1} of 'x'" for i in range(5)) + rest


def test_three_columns_to_drop_are_named_and_more_are_dots():
    assert SHELL.drop(["a", "b", "c"]) == "--drop a --drop b --drop c"
    assert SHELL.drop(["a", "b", "c", "d"]) == "--drop a --drop b --drop c ..."


def test_numbers_alone_are_standardised_as_the_default_does():
    rng = np.random.default_rng(0)
    alike = pd.DataFrame(rng.normal(5.0, 1.0, (40, 3)), columns=list("abc"))
    left = prepare(alike, standardise="auto")
    assert not left.preprocessing.standardised
    np.testing.assert_array_equal(left.X, alike)
    unlike = alike.assign(year=[2020, 2021] * 20, mass=1e4 * alike["a"])
    found = prepare(unlike, standardise="auto")
    assert found.preprocessing.standardised
    np.testing.assert_allclose(found.X.std(axis=0), 1.0)  # few values among them
    assert category_weight(found) == 1.0
    blank = alike.assign(a=alike["a"].where(alike.index > 0))
    for other in (blank, alike.assign(site=["x", "y"] * 20)):
        np.testing.assert_array_equal(
            prepare(other, standardise="auto").X, prepare(other, standardise=True).X
        )


@pytest.mark.parametrize("dtype", ["str", object])
def test_words_are_the_same_categories_whatever_holds_them(dtype):
    site = pd.Series(["a", None, "b", "", "a"] * 4, dtype=dtype)
    found = prepare(pd.DataFrame({"x": np.arange(20.0), "site": site}))
    assert found.preprocessing.features == ("x", "site=a", "site=b", "site is blank")
    assert found.X[:3, 1:].tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("column", "cells"),
    [("x is blank", np.arange(40.0)), ("c=u", np.arange(40.0)), ("c is blank", np.arange(40.0))],
)
def test_columns_whose_features_would_share_a_name_are_refused(column, cells):
    frame = pd.DataFrame({"x": np.arange(40.0), "c": list("uv") * 20})
    frame.loc[::5, ["x", "c"]] = None
    frame[column] = cells
    with pytest.raises(ValueError, match=rf"called '{column}'; rename the column '{column}'"):
        prepare(frame)


def test_booleans_are_numbers_in_every_type_of_pandas():
    frame = pd.DataFrame({"b": [True, False, True, True], "x": [1.0, 2.0, 3.0, 5.0]})
    X, _, preprocessing = prepare(frame)
    others = [frame.convert_dtypes()]
    if importlib.util.find_spec("pyarrow"):
        others.append(frame.convert_dtypes(dtype_backend="pyarrow"))
    for other in others:
        np.testing.assert_array_equal(apply(preprocessing, other), X)
        np.testing.assert_array_equal(prepare(other).X, X)
    assert prepare(frame.astype({"b": "category"})).preprocessing.features[:2] == (
        "b=False",
        "b=True",
    )


def test_truth_values_beside_blanks_are_numbers_in_every_type():
    truths = pd.Series([True, False, None] * 20, dtype=object)
    frame = pd.DataFrame({"x": np.arange(60.0), "b": truths})  # as read_csv returns them
    X, _, preprocessing = prepare(frame)
    assert preprocessing.features == ("x", "b", "b is blank")
    types = ["boolean", "Float64"]
    if importlib.util.find_spec("pyarrow"):
        types.append("bool[pyarrow]")
    for dtype in types:
        other = frame.assign(b=truths.astype("boolean").astype(dtype))
        np.testing.assert_array_equal(prepare(other).X, X)
        np.testing.assert_array_equal(apply(preprocessing, other), X)
    words = frame.assign(b=["TRUE", "false", None] * 20)
    np.testing.assert_array_equal(apply(preprocessing, words), X)
    words.loc[0, "b"] = "yes"
    with pytest.raises(ValueError, match="b of row 1 is 'yes'"):
        apply(preprocessing, words)


def test_truth_values_that_an_older_fit_took_for_categories_stay_so():
    frame = pd.DataFrame({"x": np.arange(6.0), "b": ["True", "False", None] * 2})
    X, _, preprocessing = prepare(frame)  # words, as older versions read truth values
    assert preprocessing.features == ("x", "b=False", "b=True", "b is blank")
    truths = frame.assign(b=pd.Series([True, False, None] * 2, dtype=object))
    np.testing.assert_array_equal(apply(preprocessing, truths), X)


def test_a_category_is_known_in_any_form_that_pandas_gives_it():
    frame = pd.DataFrame({"x": np.arange(8.0), "c": ["2", "A1", "007", None] * 2})
    frame["b"] = pd.Categorical([True, None] * 4)
    _, _, preprocessing = prepare(frame)
    for cells in (["2", "2.0", 2, 2.0], ["007", "7", 7, 7.0], ["A1"]):
        rows = pd.DataFrame(
            {"x": 1.0, "c": cells, "b": ["TRUE", "true", True, "True"][: len(cells)]}
        )
        assert unseen(preprocessing, rows) == {}
        assert not is_filled(preprocessing, rows).any()
        found = apply(preprocessing, rows)
        assert (found == found[0]).all()
        assert found[0, 1:].sum() == 2
    strange = pd.DataFrame({"x": 1.0, "c": ["1.2", "a1", "20"], "b": ["FALSE", "yes", "1"]})
    assert unseen(preprocessing, strange) == {
        "c": {"1.2": 1, "20": 1, "a1": 1},
        "b": {"1": 1, "FALSE": 1, "yes": 1},
    }


def test_truth_values_beside_a_word_can_be_read():
    frame = pd.DataFrame({"x": [0.5, 3.0, 2.0], "b": [True, False, True]})
    rows = pd.DataFrame({"x": ["1", "2", "TRUE"], "b": ["TRUE", "yes", "false"]})
    read, reasons = unreadable(prepare(frame).preprocessing, rows)
    assert reasons.tolist() == [None, "b is 'yes', not a number", "x is 'TRUE', not a number"]
    assert read["b"].tolist()[::2] == [1.0, 0.0]


@pytest.mark.parametrize("n_columns", [1, 2])
@pytest.mark.parametrize("kind", [object, "str", "category"])
def test_a_table_of_words_alone_says_which_cells_are_filled(n_columns, kind):
    words = pd.DataFrame({"c": ["p", "q"] * 4, "d": ["u", "u", "v", "v"] * 2}).iloc[:, :n_columns]
    _, _, preprocessing = prepare(words.astype(kind))
    new = pd.DataFrame({"c": ["p", None, "z"], "d": ["u", "v", "z"]}).iloc[:, :n_columns]
    expected = np.array([[False, False], [True, False], [True, True]])[:, :n_columns]
    np.testing.assert_array_equal(is_filled(preprocessing, new.astype(kind)), expected)
