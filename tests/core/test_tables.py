from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from atoll.core.labels import parse_labels
from atoll.core.tables import (
    apply,
    extra_columns,
    prepare,
    read_table,
    read_target,
    write_table,
)


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


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_a_written_table_is_read_back_to_the_last_digit(tmp_path, suffix):
    numbers = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    table = pd.DataFrame({"x": numbers, "name": [f"n{i}" for i in range(200)]})
    write_table(table, tmp_path / f"table{suffix}")
    back = read_table(tmp_path / f"table{suffix}")
    np.testing.assert_allclose(back["x"], numbers, rtol=1e-15)
    assert back["name"].tolist() == table["name"].tolist()
    assert [p.name for p in tmp_path.iterdir()] == [f"table{suffix}"]


def test_a_table_that_cannot_be_written_leaves_the_old_one_in_place(tmp_path):
    path = tmp_path / "table.parquet"
    write_table(pd.DataFrame({"x": [1]}), path)
    unwritable = pd.DataFrame({"x": [object()]})
    with pytest.raises(Exception, match="object"):
        write_table(unwritable, path)
    assert read_table(path)["x"].tolist() == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["table.parquet"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "there is no file"),
        ("table.xlsx", b"", r"does not end in \.csv or \.parquet"),
        ("table", b"x\n1\n", r"does not end in \.csv or \.parquet"),
        ("empty.csv", b"", "is empty"),
        ("header.csv", b"x,y\n", "has no rows"),
        ("ragged.csv", b"x,y\n1,2\n1,2,3,4\n", "cannot be read as CSV"),
        ("long.csv", b"x,y\n1,2,3\n4,5,6\n", "more cells than its header"),
        ("bytes.csv", b"x,y\n\xff\xfe\xfa,1\n", "cannot be read as CSV"),
        ("semicolon.csv", b"x;y\n1;2\n", "separate the columns by commas"),
        ("broken.parquet", b"PAR1 is not enough", "cannot be read as Parquet"),
        ("empty.parquet", b"", "cannot be read as Parquet"),
    ],
)
def test_a_file_that_is_no_table_is_named(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as refusal:
        read_table(path)
    assert name in str(refusal.value)


def test_a_folder_is_not_a_table(tmp_path):
    (tmp_path / "table.csv").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path / "table.csv")


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
    X, _, preprocessing = prepare(frame, "kind", encode=True)
    shuffled = frame[["hue", "kind", "wet", "count", "height"]].assign(note="new")
    np.testing.assert_array_equal(apply(preprocessing, shuffled), X)
    np.testing.assert_array_equal(apply(preprocessing, shuffled.iloc[[2]]), X[[2]])
    assert extra_columns(preprocessing, shuffled) == ["kind", "note"]


def test_categorical_columns_are_refused_by_name_with_the_ways_out(frame):
    with pytest.raises(ValueError, match=r"'hue'.*--encode.*--drop hue"):
        prepare(frame, "kind")


def test_encoded_columns_have_one_indicator_a_value(frame):
    X, _, preprocessing = prepare(frame, "kind", encode=True)
    assert preprocessing.features[-3:] == ("hue=blue", "hue=green", "hue=red")
    np.testing.assert_array_equal(X[:, -3:].sum(axis=1), 1)
    np.testing.assert_array_equal(X[:, -1], [1, 0, 1, 0])


def test_a_category_not_seen_before_is_named(frame):
    preprocessing = prepare(frame, "kind", encode=True).preprocessing
    with pytest.raises(ValueError, match=r"'hue' holds 'mauve'.*'blue', 'green', 'red'"):
        apply(preprocessing, frame.assign(hue="mauve"))


def test_a_column_of_identifiers_is_not_encoded():
    table = pd.DataFrame({"id": [f"row{i}" for i in range(101)], "x": np.arange(101.0)})
    with pytest.raises(ValueError, match=r"101 different values.*--drop id"):
        prepare(table, encode=True)


def test_columns_missing_from_new_rows_are_named(frame):
    preprocessing = prepare(frame, "kind", encode=True).preprocessing
    with pytest.raises(ValueError, match="lacks columns 'height', 'hue'"):
        apply(preprocessing, frame.drop(columns=["height", "hue"]))


def test_words_among_the_numbers_of_new_rows_are_named(frame):
    preprocessing = prepare(frame, "kind", encode=True).preprocessing
    with pytest.raises(ValueError, match="column 'height' is not numeric"):
        apply(preprocessing, frame.assign(height=["tall", "1", "2", "3"]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_values_are_named_by_row_and_column(frame, bad):
    broken = frame.copy()
    broken.loc[2, "height"] = bad
    with pytest.raises(ValueError, match="row 3 of 'height'"):
        prepare(broken, "kind", encode=True)
    with pytest.raises(ValueError, match="row 3 of 'height'"):
        apply(prepare(frame, "kind", encode=True).preprocessing, broken)


def test_a_missing_category_and_a_missing_nullable_integer_are_named():
    table = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64"), "hue": ["red", "red", None]})
    with pytest.raises(ValueError, match="row 2 of 'n', row 3 of 'hue'"):
        prepare(table, encode=True)


def test_many_missing_values_are_counted():
    with pytest.raises(ValueError, match="and 2 more"):
        prepare(pd.DataFrame({"x": [np.nan] * 7}))


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
