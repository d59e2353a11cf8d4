"""Numbers that arrive as text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from atoll import make_preprocessor
from atoll.core.preprocessing import apply, prepare
from program import fail, succeed

NUMBERS = np.arange(40) / 2 + 10  # forty different ones, half of them with a fraction


def as_text(form="{:.1f}", **changes):
    cells = [form.format(x) for x in NUMBERS]
    for place, word in changes.items():
        cells[int(place[1:])] = word
    return pd.DataFrame({"depth": cells, "mass": np.random.default_rng(0).standard_normal(40)})


def test_numbers_written_as_text_are_numbers_and_the_summary_says_so():
    table = as_text(_3=None, _5="")
    step = make_preprocessor().fit(table)
    assert "depth: a number, written as text, standardised; 2 blank cells" in str(step)
    numbers = table.assign(depth=pd.to_numeric(table["depth"]))
    assert np.array_equal(
        step.transform(table), make_preprocessor().fit(numbers).transform(numbers)
    )
    assert np.array_equal(step.transform(table), step.transform(numbers))
    with pytest.raises(ValueError, match="depth of row 1 is 'deep'"):
        step.transform(as_text(_1="deep"))


def test_more_than_a_hundred_numbers_written_as_text_are_numbers():
    table = pd.DataFrame({"x": [f"{i / 10}" for i in range(300)]})
    assert prepare(table).preprocessing.features == ("x",)


def test_few_whole_numbers_codes_and_what_is_said_to_be_categories_are_not():
    for cells in (["1", "2", "3"] * 10, [f"{i:03}" for i in range(30)], ["1.2.3", "1.2.4"] * 15):
        found = prepare(pd.DataFrame({"x": pd.Series(cells)}).iloc[[*range(30), *range(30)]])
        assert list(found.preprocessing.categories) == ["x"]
    declared = as_text().astype({"depth": "category"})
    declared = pd.concat([declared, declared])
    assert list(prepare(declared).preprocessing.categories) == ["depth"]


def test_numbers_that_a_column_of_objects_holds_are_numbers():
    table = pd.DataFrame({"x": pd.Series([1, 2, None, 3] * 5, dtype=object), "z": range(20, 0, -1)})
    step = make_preprocessor().fit(table)
    assert "x: a number of few values, standardised" in str(step)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (as_text(_3="NA?"), r"holds numbers, but for 'NA\?'.*to_numeric\(X\['depth'\]"),
        (as_text().assign(depth=lambda t: t["depth"].str.replace(".", ",")), "decimal=','"),
        (as_text("{:.1f}0").assign(depth=[f"{i:,}" for i in range(900, 4900, 100)]), "thousands="),
    ],
)
def test_what_is_nearly_a_column_of_numbers_is_refused_with_the_way_out(table, message):
    with pytest.raises(ValueError, match=message):
        make_preprocessor().fit(table)


def test_many_whole_numbers_none_of_them_twice_may_be_names_of_rows():
    table = pd.DataFrame({"plot": np.random.default_rng(0).permutation(200).astype(str)})
    with pytest.raises(ValueError, match=r"200 .*whole numbers.*pd.to_numeric\(X\['plot'"):
        make_preprocessor().fit(table)
    with pytest.raises(ValueError, match=r"leave it out .--drop plot, or if it names .*--id plot"):
        prepare(table)
    assert prepare(pd.concat([table, table])).preprocessing.features == ("plot",)


def test_words_among_few_numbers_are_categories():
    rooms = pd.DataFrame({"rooms": ["1", "2", "3", "4 or more"] * 10})
    assert list(prepare(rooms).preprocessing.categories) == ["rooms"]


def test_the_command_line_reads_them_alike(tmp_path):
    table = as_text(_3=None).assign(kind=["low"] * 5 + [None] * 30 + ["high"] * 5)
    table.to_parquet(tmp_path / "table.parquet")
    fit = ("fit", tmp_path / "table.parquet", "--target", "kind", "--out", tmp_path / "m.atoll")
    said = succeed(*fit, "--model", "graph-gp")
    assert "Numbers written as text, and read as numbers: depth." in said
    succeed(
        "predict", tmp_path / "m.atoll", tmp_path / "table.parquet", "--out", tmp_path / "p.csv"
    )
    assert len(pd.read_csv(tmp_path / "p.csv")) == 40
    table.assign(depth=as_text(_3="NA?")["depth"]).to_csv(tmp_path / "table.csv", index=False)
    said = fail("fit", tmp_path / "table.csv", *fit[2:])
    assert "column 'depth' holds numbers, but for 'NA?'; blank these cells or write numbers" in said


def test_rows_to_predict_may_have_their_numbers_as_text():
    known = prepare(pd.DataFrame({"x": [1.0, 3.0]})).preprocessing
    assert apply(known, pd.DataFrame({"x": ["2", "5"]})).tolist() == [[0.0], [3.0]]
