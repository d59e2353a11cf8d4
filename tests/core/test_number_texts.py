"""Numbers that arrive as text."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from atoll import make_preprocessor
from atoll.core.number_texts import about_numbers, with_decimal_commas
from atoll.core.preprocessing import apply, prepare
from atoll.core.table_fixes import PYTHON, SHELL
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


def with_decimals():
    """Twenty prices as decimals, one of them blank, as databases and Parquet files give them."""
    prices = [Decimal(i) / 4 for i in range(40)]
    return as_text(_0="9.5").assign(price=[None, *prices[1:]])


def test_decimals_are_numbers():
    table = with_decimals()
    step = make_preprocessor().fit(table)
    assert "price: a number, standardised; 1 blank cell" in str(step)
    numbers = table.assign(price=table["price"].astype(float))
    assert np.array_equal(step.transform(table), step.transform(numbers))


def test_the_command_line_reads_decimals_as_numbers_and_codes_as_whole_ones(tmp_path):
    codes = [Decimal(1)] * 5 + [None] * 30 + [Decimal(2)] * 5
    with_decimals().assign(kind=codes).to_parquet(tmp_path / "table.parquet")
    fit = ("fit", tmp_path / "table.parquet", "--target", "kind", "--out", tmp_path / "m.atoll")
    said = succeed(*fit, "--model", "graph-gp")
    assert "Classes: 1 (5), 2 (5)." in said
    assert "Numeric columns, standardised: depth, mass, price." in said
    assert "read as numbers: depth." in said
    predict = ("predict", tmp_path / "m.atoll", tmp_path / "table.parquet", "--keep")
    succeed(*predict, "--out", tmp_path / "p.csv")
    kept = pd.read_csv(tmp_path / "p.csv", dtype=str)
    assert kept["price"].tolist()[1:3] == ["0.25", "0.50"]  # as it stands in the file


@pytest.mark.parametrize("form", ["{:.1f} cm", "{:.1f}%", "${:.1f}", "{:.0f} mg/dl", "{:.1f}°C"])
def test_numbers_with_a_unit_are_no_categories(form):
    unit = form.replace("{:.1f}", "").replace("{:.0f}", "").strip()
    with pytest.raises(ValueError, match="column 'depth' holds numbers with ") as refused:
        make_preprocessor().fit(as_text(form))
    assert f"with {unit!r}, such as {form.format(10)!r}" in str(refused.value)
    mended = as_text(form)
    mended["depth"] = pd.to_numeric(mended["depth"].str.replace(unit, ""))  # what it advises
    assert prepare(mended).preprocessing.features == ("depth", "mass")
    declared = pd.concat([as_text(form)] * 2).astype({"depth": "category"})
    assert list(prepare(declared).preprocessing.categories) == ["depth"]


@pytest.mark.parametrize("form", ["P{:.1f}", "{:.1f}-{:.1f} y", "v{:.1f}", "0{:.0f} m"])
def test_names_and_ranges_are_not_taken_for_numbers_with_a_unit(form):
    names = pd.DataFrame({"name": [form.format(x, x) for x in NUMBERS] * 2})
    assert list(prepare(names).preprocessing.categories) == ["name"]


def test_a_few_values_with_a_unit_are_categories():
    doses = pd.DataFrame({"dose": ["5 mg", "10 mg", "20 mg"] * 10})
    assert list(prepare(doses).preprocessing.categories) == ["dose"]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (NUMBERS + 1j, "holds complex numbers; take their real and imaginary parts"),
        (pd.to_timedelta(NUMBERS, unit="h"), "holds durations; turn them into numbers"),
        (
            pd.to_timedelta(NUMBERS, unit="h").astype(object),
            "holds durations; turn them into numbers",
        ),
        (
            pd.Series(pd.to_timedelta(NUMBERS, unit="h")).astype("duration[ns][pyarrow]"),
            "holds durations; turn them into numbers",
        ),
        (pd.period_range("2024-01", periods=40, freq="M"), "holds dates; turn them into numbers"),
    ],
)
def test_what_is_neither_a_number_nor_a_word_is_called_what_it_is(cells, said):
    with pytest.raises(ValueError, match=f"column 'depth' {said}"):
        make_preprocessor().fit(as_text().assign(depth=cells))


def test_three_decimals_after_a_comma_are_no_thousands():
    values = [f"{i / 1000:.3f}".replace(".", ",") for i in range(15, 3000, 130)]
    assert values[0] == "0,015"
    assert values[-1] == "2,875"  # which alone might be thousands
    what, fix = about_numbers("dose", values[::-1], PYTHON)
    assert what == "holds numbers with a decimal comma, such as '0,925', as text"
    assert "decimal=','" in fix
    frame = pd.DataFrame({"dose": values})
    assert with_decimal_commas(frame, ["dose"]) == ["dose"]
    grouped = [f"{i:,}" for i in range(1015, 9000, 130)]
    assert "commas between thousands" in about_numbers("dose", grouped, PYTHON)[0]
    assert with_decimal_commas(pd.DataFrame({"dose": grouped}), ["dose"]) == []


def test_points_between_thousands_are_told_from_a_decimal_comma():
    values = [f"{i}.750,00" for i in range(1, 20)]
    what, fix = about_numbers("mass", values, SHELL)
    assert what == "holds numbers with points between thousands, such as '1.750,00', as text"
    assert "semicolons" not in fix
    assert "thousands='.'" in about_numbers("mass", values, PYTHON)[1]
